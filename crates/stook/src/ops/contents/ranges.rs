//! Ranges of one entry of contents, however it is stored.

use bytes::Bytes;

use super::Contents;
use super::error::Error;
use super::get::{Found, GetOptions, Piece};
use super::values::ValueError;
use crate::archive::{self, Archive};
use crate::engine::{Access, Backend};
use crate::extent::ByteRange;
use crate::pack::{Key, Stop};
use crate::source::{read_batch, zeroes};

/// Ranges of a member of an archive, in their order; `None` where there is no such member. Where
/// its bytes lie in the archive as they are, only the ranges are read; of any other member, of any
/// length, what is before them is decompressed, too, and not held. `go_on` is called with the bytes
/// since its last call; it ends where that returns `false`.
///
/// # Errors
/// Returns [`crate::Error::OutOfBounds`] for a range that reaches past the end, and the errors of
/// [`read_ranges`].
pub fn member_ranges(
    archive: &Archive,
    key: &Key,
    ranges: &[ByteRange],
    stop: Stop,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<Vec<Bytes>>, ValueError> {
    let Some(member) = key.as_bytes().and_then(|path| archive.find(path)) else { return Ok(None) };
    let len = member.node.len;
    if let Some(&range) = ranges.iter().find(|range| range.end() > len) {
        let path = format!("{}//{key}", archive.path().display()).into();
        return Err(of_archive(crate::Error::OutOfBounds { path, range, len }));
    }
    if let Some(source) = archive.source(&member).map_err(Error::from)? {
        let read = read_batch(&Backend::Auto, &source, ranges, Access::Cached).map_err(of_archive)?;
        return match go_on(read.iter().map(|bytes| bytes.len() as u64).sum()) {
            true => Ok(Some(read)),
            false => Err(Error::Interrupted.into()),
        };
    }
    let mut read = Vec::new();
    read_ranges(archive, key, ranges, false, stop, &mut |piece| {
        read.extend_from_slice(piece);
        if go_on(piece.len() as u64) { Ok(()) } else { Err(ValueError::from(Error::Interrupted)) }
    })?;
    let mut read = Bytes::from(read);
    Ok(Some(ranges.iter().map(|range| read.split_to(read.len().min(range.len() as usize))).collect()))
}

fn of_archive(error: crate::Error) -> ValueError {
    Error::Archive(archive::Error::Core(error)).into()
}

/// Passes the bytes of ranges of an entry to `give`, in their order: those that ascend take one
/// pass from its beginning together. With `to_end` all of it is read, so that its checksum is
/// verified.
///
/// # Errors
/// Returns [`ValueError::Entry`] if there is no such entry, or it is damaged; errors of reading,
/// and those of `give`.
pub fn read_ranges<E: From<ValueError>>(
    contents: &dyn Contents,
    key: &Key,
    ranges: &[ByteRange],
    to_end: bool,
    stop: Stop,
    give: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let options = GetOptions { stop, ..GetOptions::default() };
    let ranges: Vec<ByteRange> = ranges.iter().copied().filter(|range| to_end || !range.is_empty()).collect();
    for ascending in ranges.chunk_by(|one, next| one.end() <= next.start()) {
        pass(contents, key, ascending, to_end, &options, give)?;
    }
    Ok(())
}

/// One pass over ranges that ascend and do not overlap.
fn pass<E: From<ValueError>>(
    contents: &dyn Contents,
    key: &Key,
    mut wanted: &[ByteRange],
    to_end: bool,
    options: &GetOptions,
    give: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |failure| ValueError::Entry { key: key.clone(), failure: Box::new(failure) };
    let keys = [key.clone()];
    let mut getting = contents.get(&keys, options).map_err(ValueError::from)?;
    if let Some((_, Found::Failed(failure))) = getting.next().map_err(ValueError::from)? {
        return Err(failed(failure).into());
    }
    let mut at = 0_u64;
    loop {
        while let [first, rest @ ..] = wanted
            && first.end() <= at
        {
            wanted = rest;
        }
        if wanted.is_empty() && !to_end {
            break;
        }
        options.stop.check().map_err(|error| ValueError::from(Error::from(error)))?;
        let (len, bytes) = match getting.piece().map_err(ValueError::from)? {
            Piece::End => break,
            Piece::Failed(failure) => return Err(failed(failure).into()),
            Piece::Bytes(bytes) => (bytes.len() as u64, Some(bytes)),
            Piece::Hole(len) => (len, None),
        };
        let piece = ByteRange::at(at, len).unwrap_or_default();
        for common in wanted.iter().map_while(|range| piece.intersection(range)) {
            match bytes {
                Some(bytes) => {
                    let from = (common.start() - at) as usize;
                    give(bytes.get(from..from + common.len() as usize).unwrap_or_default())?;
                }
                None => hole(common.len(), options, give)?,
            }
        }
        at = piece.end();
    }
    // Of an archive that is compressed as a whole, this reads its checksum.
    getting.next().map_err(ValueError::from)?;
    Ok(())
}

fn hole<E: From<ValueError>>(
    mut len: u64,
    options: &GetOptions,
    give: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    while len > 0 {
        options.stop.check().map_err(|error| ValueError::from(Error::from(error)))?;
        let some = zeroes(len);
        give(some)?;
        len -= some.len() as u64;
    }
    Ok(())
}
