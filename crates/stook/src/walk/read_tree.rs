//! Reading all files of a tree, as a measure: what does it cost to have the bytes as loose files?
//!
//! With one thread this is what any ordinary program does: read a directory, open a file, read it,
//! close it, with the standard library. With more it is the fastest way known here, so that a
//! comparison with it is a fair one. Nothing is kept.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::directory::lock;
use super::entry::{Content, WalkSummary};
use super::{Walk, WalkOptions, roots};
use crate::error::{Error, Result};

/// Largest piece that a visitor gets at once.
const PIECE_LEN: usize = 1 << 20;

/// Consecutive bytes of a file.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Key of the file: see [`WalkItem::key`](super::WalkItem::key).
    pub key: &'a [u8],
    /// Where in the file the bytes are. An empty file is one empty piece at 0.
    pub offset: u64,
    /// The bytes, 1 MiB at most.
    pub data: &'a [u8],
}

/// Reads every regular file under the roots and shows its bytes to `visitor`: pieces of a file in
/// order and by one thread, files in any order and, with more than one thread, at the same time.
///
/// # Errors
/// The first entry that cannot be read ends it: what was measured would not be comparable.
pub fn read_tree<P: AsRef<Path>>(
    roots: impl IntoIterator<Item = P>,
    threads: usize,
    visitor: impl Fn(Piece<'_>) + Sync,
) -> Result<WalkSummary> {
    let roots: Vec<PathBuf> = roots.into_iter().map(|p| p.as_ref().to_path_buf()).collect();
    if threads <= 1 { read_alone(roots, &visitor) } else { read_together(&roots, threads, &visitor) }
}

fn read_together(
    roots: &[PathBuf],
    threads: usize,
    visitor: &(impl Fn(Piece<'_>) + Sync),
) -> Result<WalkSummary> {
    let failed = Mutex::new(None);
    let options = WalkOptions { threads, read_up_to: PIECE_LEN as u64, ..WalkOptions::default() };
    let summary = Walk::new(roots)?.options(options).visit(|event| {
        let result = event.map_err(super::WalkError::into_error).and_then(|item| match &item.content {
            Content::Bytes(data) => {
                visitor(Piece { key: &item.key, offset: 0, data });
                Ok(0)
            }
            Content::Large(large) => {
                let mut file = large.open()?;
                let read = read_pieces(&mut file, &large.path(), &item.key, &mut Vec::new(), visitor)?;
                large.check(&file)?;
                Ok(read)
            }
            Content::None | Content::Target(_) | Content::NotRead => Ok(0),
        });
        match result {
            Ok(_) => ControlFlow::Continue(()),
            Err(e) => {
                lock(&failed).get_or_insert(e);
                ControlFlow::Break(())
            }
        }
    })?;
    match lock(&failed).take() {
        Some(e) => Err(e),
        None => Ok(WalkSummary { bytes_read: summary.bytes, ..summary }),
    }
}

/// One thread, one file after the other, nothing clever.
fn read_alone(roots: Vec<PathBuf>, visitor: &impl Fn(Piece<'_>)) -> Result<WalkSummary> {
    let mut summary = WalkSummary::default();
    let mut buffer = Vec::new();
    let mut directories = Vec::new();
    for (root, key) in roots::with_prefixes(roots)? {
        let metadata = std::fs::metadata(&root).map_err(|e| Error::io("open", &root, e))?;
        if metadata.is_dir() {
            directories.push((root, key));
        } else if metadata.is_file() {
            let key = if key.is_empty() { name_of(&root) } else { key };
            read_file(&root, &key, &mut buffer, visitor, &mut summary)?;
        }
    }
    while let Some((path, key)) = directories.pop() {
        summary.directories += 1;
        for entry in std::fs::read_dir(&path).map_err(|e| Error::io("list", &path, e))? {
            let entry = entry.map_err(|e| Error::io("list", &path, e))?;
            let kind = entry.file_type().map_err(|e| Error::io("stat", entry.path(), e))?;
            let mut entry_key = key.clone();
            if !entry_key.is_empty() {
                entry_key.push(b'/');
            }
            entry_key.extend_from_slice(entry.file_name().as_bytes());
            if kind.is_dir() {
                directories.push((entry.path(), entry_key));
            } else if kind.is_file() {
                read_file(&entry.path(), &entry_key, &mut buffer, visitor, &mut summary)?;
            } else if kind.is_symlink() {
                summary.symlinks += 1;
            } else {
                summary.specials += 1;
            }
        }
    }
    Ok(summary)
}

fn name_of(path: &Path) -> Vec<u8> {
    path.file_name().unwrap_or(path.as_os_str()).as_bytes().to_vec()
}

fn read_file(
    path: &Path,
    key: &[u8],
    buffer: &mut Vec<u8>,
    visitor: &impl Fn(Piece<'_>),
    summary: &mut WalkSummary,
) -> Result<()> {
    let mut file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    let read = read_pieces(&mut file, path, key, buffer, visitor)?;
    summary.files += 1;
    summary.bytes += read;
    summary.bytes_read += read;
    Ok(())
}

/// Reads an open file to its end; how many bytes that were.
fn read_pieces(
    file: &mut File,
    path: &Path,
    key: &[u8],
    buffer: &mut Vec<u8>,
    visitor: &impl Fn(Piece<'_>),
) -> Result<u64> {
    buffer.resize(PIECE_LEN, 0);
    let mut offset = 0_u64;
    loop {
        let got = match file.read(buffer) {
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io_at("read", path, offset, e)),
        };
        if got == 0 && offset > 0 {
            return Ok(offset);
        }
        visitor(Piece { key, offset, data: buffer.get(..got).unwrap_or_default() });
        if got == 0 {
            return Ok(0);
        }
        offset += got as u64;
    }
}
