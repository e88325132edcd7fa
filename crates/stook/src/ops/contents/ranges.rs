//! Ranges of one entry of contents, however it is stored.

use super::Contents;
use super::error::Error;
use super::get::{Found, GetOptions, Piece};
use super::values::ValueError;
use crate::extent::ByteRange;
use crate::pack::{Key, Stop};
use crate::source::zeroes;

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
