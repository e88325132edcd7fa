//! Reads files that hold everything twice: manifests and deletion vectors.

use bytes::Bytes;

use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::copies::{half_len, read_half, stated_len};
use crate::pack::format::{Decoded, Invalid};
use crate::pack::read::reader::Reader;
use crate::pack::state::segment::refused;
use crate::source::Source;

/// How a file is laid out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Where a copy says how long it is.
    pub(crate) len_at: usize,
    /// The longest that a copy can be, in bytes.
    pub(crate) len_max: u64,
    /// The length of a copy, if it is known from elsewhere.
    pub(crate) copy_len: Option<u64>,
}

/// The contents of a file.
#[derive(Debug)]
pub(crate) struct Copies<T> {
    pub(crate) value: T,
    /// One copy.
    pub(crate) bytes: Bytes,
    /// Damage of the other, or of the length of the file.
    pub(crate) damages: Vec<Damage>,
}

/// A half of a file that was read, or why its copy is not to be had.
type Half<T> = std::result::Result<(Bytes, T), Error>;

/// Reads both copies. The first that verifies counts, and the other is reported as damage if it
/// does not.
///
/// # Errors
/// Returns [`Error::Damaged`] if neither verifies, or both do and differ; [`Error::Unsupported`];
/// or an error of reading.
pub(crate) fn read_copies<T>(
    reader: &Reader,
    source: &dyn Source,
    layout: Layout,
    decode: impl Fn(&[u8]) -> Decoded<T>,
) -> Result<Copies<T>> {
    let len = source.len();
    let longest = half_len(layout.len_max).unwrap_or(u64::MAX);
    let reported = layout.copy_len.and_then(half_len);
    // The second copy begins at half of the length, unless the file was cut, or has grown.
    let half = reported.unwrap_or(len / 2);
    if half > 0 && half <= longest {
        let halves = read_halves(reader, source, half, layout.len_at, &decode)?;
        if reported.is_some() || halves.iter().any(Result::is_ok) {
            return settle(source, half, halves);
        }
    }
    let head = ByteRange::to(len.min(layout.len_at as u64 + 8));
    let stated = match unless_damaged(reader.read(source, head))? {
        Ok(head) => stated_len(&head, layout.len_at).and_then(half_len),
        Err(_) => None,
    };
    let stated = stated.filter(|&stated| stated > 0 && stated <= longest && stated <= len);
    let half = stated.unwrap_or(len / 2).min(longest);
    settle(source, half, read_halves(reader, source, half, layout.len_at, &decode)?)
}

fn read_halves<T>(
    reader: &Reader,
    source: &dyn Source,
    half: u64,
    len_at: usize,
    decode: &impl Fn(&[u8]) -> Decoded<T>,
) -> Result<[Half<T>; 2]> {
    let read = |start: u64| -> Result<Half<T>> {
        let range = start.checked_add(half).and_then(|end| ByteRange::new(start, end.min(source.len())));
        let Some(range) = range else {
            let what = format!("the file has {} bytes and ends before this copy", source.len());
            return Ok(Err(refused(source, start, Invalid::damaged(0, what))));
        };
        // Each is read separately: an unreadable block costs one copy.
        let bytes = match unless_damaged(reader.read(source, range))? {
            Ok(bytes) => bytes,
            Err(damage) => return Ok(Err(Error::Damaged(damage))),
        };
        let read = read_half(&bytes, len_at, decode).map(|(copy, value)| (copy.len(), value));
        Ok(match read {
            Ok((len, value)) => Ok((bytes.slice(..len), value)),
            Err(invalid) => Err(refused(source, start, invalid)),
        })
    };
    Ok([read(0)?, read(half)?])
}

/// Damage apart from all other errors.
fn unless_damaged(read: Result<Bytes>) -> Result<Result<Bytes, Damage>> {
    match read {
        Err(Error::Damaged(damage)) => Ok(Err(damage)),
        other => other.map(Ok),
    }
}

fn settle<T>(source: &dyn Source, half: u64, halves: [Half<T>; 2]) -> Result<Copies<T>> {
    let (bytes, value, other) = match halves {
        [Ok((first, _)), Ok((second, _))] if first != second => {
            let what = "both copies are whole and differ; an older generation may be what is right";
            return Err(refused(source, half, Invalid::damaged(0, what)));
        }
        [Ok((bytes, value)), Ok(_)] => (bytes, value, None),
        [Ok((bytes, value)), Err(other)] | [Err(other), Ok((bytes, value))] => (bytes, value, Some(other)),
        [Err(first), Err(second)] => return Err(both(first, second)),
    };
    let mut damages = Vec::new();
    match other {
        None => {}
        Some(Error::Damaged(damage)) => damages.push(damage),
        // Written by a newer version, unlike the other copy.
        Some(error) => damages.push(Damage {
            file: source.path().to_path_buf(),
            offset: 0,
            key: None,
            what: format!("one of its two copies: {error}"),
            cause: None,
        }),
    }
    if half.checked_mul(2) != Some(source.len()) {
        let what = format!("the file has {} bytes, not two copies of {half}", source.len());
        damages.push(Damage {
            file: source.path().to_path_buf(),
            offset: source.len(),
            key: None,
            what,
            cause: None,
        });
    }
    Ok(Copies { value, bytes, damages })
}

/// The error for a file with both copies damaged.
fn both(first: Error, second: Error) -> Error {
    match (first, second) {
        (Error::Damaged(first), Error::Damaged(second)) => Error::Damaged(Damage {
            what: format!(
                "{}; and its second copy, at offset {}: {}",
                first.what, second.offset, second.what
            ),
            ..first
        }),
        (newer @ Error::Unsupported { .. }, _) => newer,
        (_, other) => other,
    }
}
