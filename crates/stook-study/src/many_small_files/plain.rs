//! The plain composite file of the published study, and the pack, made from the same tree.
//!
//! A plain file is records one after the other and nothing else: no index, no checksum, no used
//! flag. It shows the gain of a composite file alone; do not keep data in one.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use stook::pack::{Attributes, FileKind, Key, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::tree::Node;
use stook::walk::{Content, Kind, Walk, WalkError, WalkItem};

use crate::sample;

/// Largest piece that [`read`] returns.
const PIECE_LEN: usize = 1 << 20;

/// Calls `take` with every regular file of a tree, from one thread, and `before_each` before every
/// entry found.
fn each_file(
    tree: &Path,
    before_each: impl Fn() -> anyhow::Result<()>,
    mut take: impl FnMut(&WalkItem) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    Walk::new([tree])?.run(|event| {
        before_each()?;
        let item = event.map_err(WalkError::into_error)?;
        if item.kind() == Kind::File { take(&item) } else { Ok(()) }
    })?;
    Ok(())
}

/// Copies a file that was too large to be read by the walk.
fn each_piece(item: &WalkItem, mut take: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    match &item.content {
        Content::Bytes(bytes) => take(bytes),
        Content::Large(large) => {
            let mut file = large.open()?;
            let mut buffer = vec![0; PIECE_LEN];
            let shown = || large.path().display().to_string();
            // What is written meanwhile, like the copy itself, would be read without an end.
            let mut left = item.status.node.len;
            loop {
                let got = file.read(&mut buffer).with_context(|| format!("cannot read {}", shown()))?;
                if got == 0 {
                    return Ok(large.check(&file)?);
                }
                left = left
                    .checked_sub(got as u64)
                    .with_context(|| format!("{} grew while it was read", shown()))?;
                take(buffer.get(..got).unwrap_or_default())?;
            }
        }
        Content::None | Content::Target(_) | Content::NotRead => bail!("a file without bytes"),
    }
}

/// Writes all files of a tree into one: for each the length of its path (4 bytes, big-endian), its
/// own length (8 bytes, big-endian), path, bytes. `before_each` is called before each entry of the
/// tree.
///
/// # Errors
/// Returns an error if reading or writing fails, or the error of `before_each`, which ends it.
pub fn write(tree: &Path, path: &Path, before_each: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let partial = path.with_extension("plain.partial");
    let context = || format!("cannot write {}", partial.display());
    let mut out =
        BufWriter::with_capacity(PIECE_LEN, sample::create_private(&partial).with_context(context)?);
    each_file(tree, before_each, |item| {
        let head = [&(item.key.len() as u32).to_be_bytes()[..], &item.status.node.len.to_be_bytes()].concat();
        out.write_all(&head).with_context(context)?;
        out.write_all(&item.key).with_context(context)?;
        each_piece(item, |bytes| out.write_all(bytes).with_context(context))
    })?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error).with_context(context)?;
    file.sync_all().with_context(context)?;
    std::fs::rename(&partial, path).with_context(context)
}

/// Reads such a file from beginning to end with reads of `buffer_len` bytes, and passes on its
/// records in pieces: path, offset in the record, bytes. Returns how many records and bytes there
/// were.
///
/// # Errors
/// Returns an error if reading fails, or the file ends within a record.
pub fn read(
    path: &Path,
    buffer_len: usize,
    mut take: impl FnMut(&[u8], u64, &[u8]),
) -> anyhow::Result<(u64, u64)> {
    let context = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(context)?;
    let mut left = file.metadata().with_context(context)?.len();
    let mut input = io::BufReader::with_capacity(buffer_len, file);
    let (mut key, mut body) = (Vec::new(), Vec::new());
    let (mut records, mut bytes) = (0, 0);
    while left > 0 {
        let (mut key_len, mut body_len) = ([0; 4], [0; 8]);
        input.read_exact(&mut key_len).with_context(context)?;
        input.read_exact(&mut body_len).with_context(context)?;
        let (key_len, body_len) = (u32::from_be_bytes(key_len), u64::from_be_bytes(body_len));
        let record_len = body_len.saturating_add(u64::from(key_len)).saturating_add(12);
        if record_len > left {
            bail!("{} ends inside of a record: remove it with --clean", path.display());
        }
        left -= record_len;
        key.resize(key_len as usize, 0);
        input.read_exact(&mut key).with_context(context)?;
        let mut offset = 0;
        loop {
            let len = (body_len - offset).min(PIECE_LEN as u64);
            body.resize(len as usize, 0);
            input.read_exact(&mut body).with_context(context)?;
            take(&key, offset, &body);
            offset += len;
            if offset == body_len {
                break;
            }
        }
        records += 1;
        bytes += body_len;
    }
    Ok((records, bytes))
}

/// Packs the files of a tree, each under all its names, and nothing else: the same records as the
/// other ways have. `before_each` is called before each entry of the tree.
///
/// # Errors
/// Returns an error if reading or writing fails, or the error of `before_each`, which ends it.
pub fn pack(tree: &Path, path: &Path, before_each: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let partial = path.with_extension("stook.partial");
    sample::remove(&partial)?;
    let made = std::fs::DirBuilder::new().mode(0o700).create(&partial);
    made.with_context(|| format!("cannot make {}", partial.display()))?;
    let storage = Arc::new(LocalStorage::open(&partial, LocalStorageOptions::default())?);
    let mut writer = PackWriter::create(storage, WriterOptions::bulk())?;
    each_file(tree, before_each, |item| {
        let key = Key::bytes(&item.key)?;
        let node = Node { owner: None, links: 1, ..item.status.node };
        let attributes = Attributes::of_node(Some(FileKind::File), &node);
        if let Content::Bytes(bytes) = &item.content {
            writer.put("", &key, &attributes, bytes)?;
        } else {
            let mut record = writer.begin("", &key, &attributes, Some(node.len))?;
            each_piece(item, |bytes| Ok(record.write(bytes)?))?;
            record.finish()?;
        }
        Ok(())
    })?;
    writer.set_complete(true);
    writer.finish(true)?;
    sample::remove(path)?;
    std::fs::rename(&partial, path).with_context(|| format!("cannot rename {}", partial.display()))
}

/// The files of a pack that hold its records.
///
/// # Errors
/// Returns an error if it cannot be listed.
pub fn segment_files(pack: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let context = || format!("cannot list {}", pack.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(pack).with_context(context)? {
        let entry = entry.with_context(context)?;
        if entry.file_name().as_encoded_bytes().starts_with(b"segment-") {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: a file that something writes meanwhile, like the copy itself by another name, was
    /// read until the disk was full.
    #[test]
    fn a_file_that_grows_is_not_copied_without_an_end() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        std::fs::write(&log, vec![7; 3 << 20]).unwrap();
        let mut read_bytes = 0;
        let copied = each_file(
            place.path(),
            || Ok(()),
            |item| {
                each_piece(item, |bytes| {
                    read_bytes += bytes.len();
                    Ok(File::options().append(true).open(&log)?.write_all(bytes)?)
                })
            },
        );
        let error = format!("{:#}", copied.unwrap_err());
        assert!(
            error.contains("log grew while it was read") && read_bytes == 3 << 20,
            "{read_bytes}: {error}"
        );
    }
}
