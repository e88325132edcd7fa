//! Bodies as bytes in memory, for callers who want them whole.

use std::collections::HashMap;

use bytes::Bytes;

use super::Contents;
use super::error::{Error, Result};
use super::get::{Failure, Found, GetOptions, Getting, Piece};
use crate::pack::{Key, Stop};
use crate::report::units::bytes_decimal;

/// Bytes of holes that one value takes at most. Archives are not trusted: a hole costs them
/// nothing, and may be longer than memory.
pub const HOLE_BYTES_MAX: u64 = 256 << 20;

/// Why a value cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// What keeps all of them from being read.
    #[error(transparent)]
    Contents(#[from] Error),
    /// What is wrong with one entry.
    #[error("cannot read {key}")]
    Entry {
        /// Its key.
        key: Key,
        /// What it is.
        #[source]
        failure: Box<Failure>,
    },
    /// An entry has more zeroes that are stored nowhere than are put into memory.
    #[error(
        "{key} has more than {} of holes, which are stored nowhere, and is not put into memory: open it, and read parts \
         of it",
        bytes_decimal(HOLE_BYTES_MAX)
    )]
    TooLong {
        /// Its key.
        key: Key,
    },
}

/// The bodies of these keys, in their order; `None` for keys without an entry. They are read as it
/// costs least: all in one pass, where that is so. `go_on` is called with how many were read and
/// their bytes; it ends where that returns `false`.
///
/// # Errors
/// The first error.
pub fn values(
    contents: &dyn Contents,
    keys: &[Key],
    stop: Stop,
    go_on: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Vec<Option<Bytes>>, ValueError> {
    let options = GetOptions { any_order: true, stop, ..GetOptions::default() };
    let mut values: HashMap<&Key, Option<Bytes>> = HashMap::new();
    let mut getting = contents.get(keys, &options)?;
    let (mut count, mut bytes) = (0, 0);
    while let Some((key, value)) = next_value(&mut *getting, &mut || go_on(count, bytes))? {
        count += 1;
        bytes += value.as_ref().map_or(0, Bytes::len) as u64;
        values.insert(key, value);
    }
    if !go_on(count, bytes) {
        return Err(Error::Interrupted.into());
    }
    Ok(keys.iter().map(|key| values.get(key).cloned().flatten()).collect())
}

/// The next key and its body, `None` where there is no such entry; nothing after the last key.
///
/// # Errors
/// As [`values`].
pub fn next_value<'a>(
    getting: &mut (dyn Getting<'a> + 'a),
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<(&'a Key, Option<Bytes>)>, ValueError> {
    let Some((key, found)) = getting.next()? else { return Ok(None) };
    let failed = |failure| ValueError::Entry { key: key.clone(), failure: Box::new(failure) };
    match found {
        Found::Failed(Failure::Missing(_)) => return Ok(Some((key, None))),
        Found::Failed(failure) => return Err(failed(failure)),
        Found::Body(_) => {}
    }
    let (mut value, mut hole_bytes) = (Vec::new(), 0_u64);
    loop {
        if !go_on() {
            return Err(Error::Interrupted.into());
        }
        match getting.piece()? {
            Piece::Bytes(bytes) => value.extend_from_slice(bytes),
            Piece::Hole(len) => {
                hole_bytes = hole_bytes.saturating_add(len);
                if hole_bytes > HOLE_BYTES_MAX {
                    return Err(ValueError::TooLong { key: key.clone() });
                }
                value.resize(value.len() + len as usize, 0);
            }
            Piece::End => return Ok(Some((key, Some(value.into())))),
            Piece::Failed(failure) => return Err(failed(failure)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// One entry whose body comes in these pieces: bytes, or the length of a hole.
    struct Pieces<'a> {
        key: Option<&'a Key>,
        pieces: VecDeque<std::result::Result<&'static [u8], u64>>,
    }

    impl<'a> Getting<'a> for Pieces<'a> {
        fn next(&mut self) -> Result<Option<(&'a Key, Found)>> {
            Ok(self.key.take().map(|key| (key, Found::Body(None))))
        }

        fn piece(&mut self) -> Result<Piece<'_>> {
            Ok(match self.pieces.pop_front() {
                Some(Ok(bytes)) => Piece::Bytes(bytes),
                Some(Err(len)) => Piece::Hole(len),
                None => Piece::End,
            })
        }

        fn needed_bytes(&self) -> u64 {
            0
        }
    }

    fn value_of(pieces: &[std::result::Result<&'static [u8], u64>]) -> Result<Bytes, ValueError> {
        let key = Key::bytes("a").unwrap();
        let mut getting = Pieces { key: Some(&key), pieces: pieces.iter().copied().collect() };
        let (_, value) = next_value(&mut getting, &mut || true)?.unwrap();
        assert!(next_value(&mut getting, &mut || true)?.is_none());
        Ok(value.unwrap())
    }

    #[test]
    fn holes_are_zeroes_up_to_a_bound_and_never_more_memory() {
        assert_eq!(value_of(&[Ok(b"a"), Err(2), Ok(b"b")]).unwrap(), &b"a\0\0b"[..]);
        for pieces in [vec![Err(1 << 50)], vec![Err(HOLE_BYTES_MAX / 2 + 1); 2], vec![Err(u64::MAX); 2]] {
            let error = value_of(&pieces).unwrap_err();
            assert!(
                matches!(&error, ValueError::TooLong { key } if *key == Key::bytes("a").unwrap()),
                "{error}"
            );
        }
    }

    #[test]
    fn it_ends_between_two_pieces() {
        let key = Key::bytes("a").unwrap();
        let mut getting = Pieces { key: Some(&key), pieces: [Ok(&b"a"[..]), Ok(b"b")].into() };
        let mut calls = 0;
        let ended = next_value(&mut getting, &mut || {
            calls += 1;
            calls < 2
        });
        assert!(matches!(ended, Err(ValueError::Contents(Error::Interrupted))));
        assert_eq!(getting.pieces.len(), 1);
    }
}
