//! An archive as a virtual file of the library, and the ways of reading that.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use stook::engine::{Access, Backend};
use stook::error;
use stook::extent::ByteRange;
use stook::source::{FileSource, Session, SessionOptions, Source};
use stook::stitch::{Bodies, Parts, Pieces, VirtualFile};

/// Bytes that are asked of it at a time.
const READ_BYTES: u64 = 1 << 20;
/// Reads at once.
pub(super) const DEPTH: usize = 16;

/// Files that are opened when a read comes to them.
#[derive(Debug)]
struct Unopened(Vec<PathBuf>);

impl Parts for Unopened {
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        let path = self.0.get(number as usize).ok_or_else(|| nothing(number))?;
        Ok(Arc::new(FileSource::open(path)?))
    }

    fn make(&self, number: u32, _: &Bodies) -> error::Result<Bytes> {
        Err(nothing(number))
    }
}

fn nothing(number: u32) -> error::Error {
    let error = io::Error::other(format!("there is no part with the number {number}"));
    error::Error::io("read", "an archive", error)
}

/// The virtual file of these parts of files, each the number of a path and a range of it.
///
/// # Errors
/// Returns an error if its files are to be opened before, and one cannot be.
pub(super) fn stitched(
    paths: &[PathBuf],
    parts: &[(usize, ByteRange)],
    is_opened: bool,
) -> anyhow::Result<VirtualFile> {
    let mut pieces = Pieces::with_capacity(parts.len());
    for (number, range) in parts {
        pieces.body(u32::try_from(*number)?, range.start(), range.len());
    }
    let sources: Arc<dyn Parts> = if is_opened {
        let open = |path: &PathBuf| {
            let source = FileSource::open(path)?;
            // That opens it a second time, and is remembered.
            source.file().is_direct_possible();
            Ok(Arc::new(source) as Arc<dyn Source>)
        };
        Arc::new(paths.iter().map(open).collect::<error::Result<Vec<_>>>()?)
    } else {
        Arc::new(Unopened(paths.to_vec()))
    };
    Ok(VirtualFile::new("archive", pieces, sources)?)
}

/// Reads all of it from its front, one read after the other, through the page cache; bytes.
///
/// # Errors
/// Returns an error if reading fails, or a file has changed.
pub(super) fn read_in_turn(file: &VirtualFile) -> anyhow::Result<u64> {
    let options = SessionOptions { depth: 1, ..SessionOptions::default() };
    let mut session = Session::new(&Backend::Auto, options)?;
    let mut bytes = 0;
    for range in ranges(file.len()) {
        bytes += file.read_on(&mut session, range)?.len() as u64;
    }
    Ok(bytes)
}

/// Reads all of it with many reads at once, past the page cache; bytes.
///
/// # Errors
/// Returns an error if reading fails, or a file has changed.
pub(super) fn read_at_once(file: &VirtualFile) -> anyhow::Result<u64> {
    let options = SessionOptions { depth: DEPTH, ..SessionOptions::default() };
    let mut session = Session::new(&Backend::Auto, options)?;
    let (mut wanted, mut bytes) = (ranges(file.len()), 0);
    loop {
        while !session.is_full() {
            let Some(range) = wanted.next() else { break };
            session.submit(range.start(), file, range, Access::Direct)?;
        }
        let Some((_, read)) = session.next() else { break };
        bytes += read?.len() as u64;
    }
    file.check_unchanged()?;
    Ok(bytes)
}

fn ranges(len: u64) -> impl Iterator<Item = ByteRange> {
    let starts = (0..len).step_by(READ_BYTES as usize);
    starts.filter_map(move |at| ByteRange::new(at, len.min(at + READ_BYTES)))
}
