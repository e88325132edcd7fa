//! Critical files hold their contents twice, so that one bad block costs nothing: a copy, zeros to
//! a multiple of 4096, the same copy, zeros to a multiple of 4096. The second begins at half of the
//! file's length.

use super::bytes::FieldCursor;
use super::{Decoded, Invalid, UNIT};

/// The bytes of a file that holds this twice.
pub fn twice(copy: &[u8]) -> Vec<u8> {
    let half = copy.len().next_multiple_of(UNIT);
    let mut file = Vec::with_capacity(half.saturating_mul(2));
    for end in [half, half.saturating_mul(2)] {
        file.extend_from_slice(copy);
        file.resize(end, 0);
    }
    file
}

/// Half of the length of a file whose copies have this length.
pub fn half_len(copy_len: u64) -> Option<u64> {
    copy_len.checked_next_multiple_of(UNIT as u64)
}

/// The length that a copy says it has, in the eight bytes at `len_at`; nothing has been verified of
/// it.
pub fn stated_len(half: &[u8], len_at: usize) -> Option<u64> {
    half.get(len_at..)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Reads one half of a file: the copy, and what `decode` makes of it. Its length is stored at
/// `len_at`.
///
/// # Errors
/// Returns an error if the copy is damaged, or is followed by anything but zeros.
pub fn read_half<T>(
    half: &[u8],
    len_at: usize,
    decode: impl FnOnce(&[u8]) -> Decoded<T>,
) -> Decoded<(&[u8], T)> {
    let stated = stated_len(half, len_at).and_then(|len| usize::try_from(len).ok());
    // Bytes of another format are reported as such, whatever is stored in place of a length.
    let split = stated.and_then(|len| half.split_at_checked(len));
    let (copy, padding) = split.unwrap_or((half, &[]));
    let value = decode(copy)?;
    let mut cursor = FieldCursor::new(padding);
    cursor.reserved(padding.len()).map_err(|invalid| Invalid {
        offset: copy.len() as u64,
        what: "the bytes after it are not zero".into(),
        ..invalid
    })?;
    if half_len(copy.len() as u64) != Some(half.len() as u64) {
        let what = format!("a copy of {} bytes does not take {}", copy.len(), half.len());
        return Err(Invalid::damaged(0, what));
    }
    Ok((copy, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(len: usize) -> Vec<u8> {
        [&(len as u64).to_le_bytes()[..], &vec![7; len - 8]].concat()
    }

    fn decode(bytes: &[u8]) -> Decoded<usize> {
        match bytes.get(8..).is_some_and(|rest| rest.iter().all(|&byte| byte == 7)) {
            true => Ok(bytes.len()),
            false => Err(Invalid::damaged(8, "not sevens")),
        }
    }

    #[test]
    fn both_halves_of_a_file_hold_all_of_it() {
        for len in [8, 100, UNIT - 1, UNIT, UNIT + 1, 3 * UNIT] {
            let copy = copy(len);
            let file = twice(&copy);
            assert_eq!(Some(file.len() as u64 / 2), half_len(len as u64));
            let (first, second) = file.split_at(file.len() / 2);
            assert_eq!((first, first.len() % UNIT), (second, 0));
            assert_eq!(read_half(first, 0, decode), Ok((&copy[..], len)));
            assert!(read_half(&file, 0, decode).is_err(), "two copies are no half");
            assert!(read_half(&first[..first.len() - 1], 0, decode).is_err());
        }
        assert_eq!(half_len(u64::MAX), None);
    }

    #[test]
    fn any_flipped_bit_of_a_half_is_reported() {
        let file = twice(&copy(100));
        let half = &file[..UNIT];
        for bit in 0..UNIT * 8 {
            let mut hit = half.to_vec();
            hit[bit / 8] ^= 1 << (bit % 8);
            assert!(read_half(&hit, 0, decode).is_err(), "bit {bit}");
        }
    }
}
