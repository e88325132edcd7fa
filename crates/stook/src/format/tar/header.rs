//! The 512 bytes of a tar header: v7, ustar, GNU.

use super::super::fault::{Decoded, Fault};

/// The unit of a tar.
pub const BLOCK_LEN: usize = 512;

/// Padding of the last block of this many bytes.
pub fn padding_len(len: u64) -> u64 {
    len.checked_next_multiple_of(BLOCK_LEN as u64).map_or(0, |whole| whole.saturating_sub(len))
}

/// One header, its checksum verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The name, with the prefix of ustar before it.
    pub name: Vec<u8>,
    /// The type, as stored.
    pub type_flag: u8,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes that follow.
    pub size: u64,
    /// Seconds since 1970.
    pub mtime: Option<i64>,
    /// What a link leads to.
    pub link: Vec<u8>,
}

/// What a block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// All zeroes: the end.
    Zero,
    /// A header.
    Header(Header),
}

/// Whether the first bytes of a file are those of most tars: what is older than POSIX has no magic.
pub fn has_magic(first: &[u8]) -> bool {
    first.get(257..262).is_some_and(|magic| magic == b"ustar")
}

/// Whether a block could be a header at all: its checksum is right.
pub fn has_checksum(block: &[u8; BLOCK_LEN]) -> bool {
    number(field(block, 148, 8)).is_ok_and(|stated| {
        let stated = stated.unwrap_or(-1);
        let (unsigned, signed) = sums(block);
        stated == i128::from(unsigned) || stated == i128::from(signed)
    })
}

/// Reads a block.
///
/// # Errors
/// Returns an error if it is neither a header nor zeroes.
pub fn decode(block: &[u8; BLOCK_LEN]) -> Decoded<Block> {
    if block.iter().all(|byte| *byte == 0) {
        return Ok(Block::Zero);
    }
    if !has_checksum(block) {
        let what = "the checksum of a header was expected here, and is not right";
        return Err(Fault::damaged(148, what));
    }
    let is_posix = field(block, 257, 6) == b"ustar\0";
    let mut name = text(field(block, 0, 100)).to_vec();
    let prefix = text(field(block, 345, 155));
    if is_posix && !prefix.is_empty() {
        name = [prefix, b"/", &name].concat();
    }
    let size = number_at(block, 124, 12, "size")?.unwrap_or(0);
    let size = u64::try_from(size)
        .ok()
        .filter(|size| *size <= i64::MAX as u64)
        .ok_or_else(|| Fault::damaged(124, format!("invalid size {size}")))?;
    let small = |at, len, what| -> Decoded<Option<u32>> {
        Ok(number_at(block, at, len, what)?.and_then(|n| u32::try_from(n).ok()))
    };
    Ok(Block::Header(Header {
        name,
        type_flag: field(block, 156, 1).first().copied().unwrap_or(0),
        mode: small(100, 8, "mode")?.map(|mode| mode & 0o7777),
        uid: small(108, 8, "user")?,
        gid: small(116, 8, "group")?,
        size,
        mtime: number_at(block, 136, 12, "time")?.map(|n| n.clamp(i64::MIN.into(), i64::MAX.into()) as i64),
        link: text(field(block, 157, 100)).to_vec(),
    }))
}

/// The sum of all bytes, those of the checksum taken as blanks; as unsigned and, as some old
/// programs have it, as signed ones.
fn sums(block: &[u8; BLOCK_LEN]) -> (u32, i32) {
    let mut sums = (0_u32, 0_i32);
    for (at, byte) in block.iter().enumerate() {
        let byte = if (148..156).contains(&at) { b' ' } else { *byte };
        // 512 bytes cannot overflow either.
        sums.0 = sums.0.wrapping_add(u32::from(byte));
        sums.1 = sums.1.wrapping_add(i32::from(byte as i8));
    }
    sums
}

pub(super) fn field(block: &[u8], at: usize, len: usize) -> &[u8] {
    block.get(at..at.saturating_add(len)).unwrap_or_default()
}

/// A text ends at its field's end or before a zero.
pub(super) fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    field.get(..end).unwrap_or_default()
}

/// The number in a field; `None` where it is empty.
pub(super) fn number_at(block: &[u8], at: usize, len: usize, what: &str) -> Decoded<Option<i128>> {
    let field = field(block, at, len);
    number(field).map_err(|()| {
        Fault::damaged(
            at as u64,
            format!("the {what} {:?} is no octal number", field.escape_ascii().to_string()),
        )
    })
}

/// Octal digits between blanks and zeroes, or, where the first bit is set, a signed number of base
/// 256.
fn number(field: &[u8]) -> Result<Option<i128>, ()> {
    match field.split_first() {
        Some((first, rest)) if first & 0x80 != 0 => {
            // Seven bits of the first byte are of the number, the highest of them its sign.
            let start = if first & 0x40 != 0 { i128::from(*first as i8) } else { i128::from(first & 0x3f) };
            let value = rest
                .iter()
                .try_fold(start, |value, byte| value.checked_mul(256)?.checked_add(i128::from(*byte)));
            value.map(Some).ok_or(())
        }
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Result<Option<i128>, ()> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | 0);
    let from = field.iter().position(|byte| !is_blank(byte)).unwrap_or(field.len());
    let digits = field.get(from..).unwrap_or_default();
    let end = digits.iter().position(is_blank).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    // After the number, old programs leave anything after a zero, but never another number after a
    // blank.
    if rest.first() == Some(&b' ') && !rest.iter().all(is_blank) {
        return Err(());
    }
    if digits.is_empty() {
        return Ok(None);
    }
    let value = digits.iter().try_fold(0_i128, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i128::from(digit.wrapping_sub(b'0'))),
        _ => None,
    });
    value.map(Some).ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_is_filled_up() {
        assert_eq!([0, 1, 511, 512, 513, u64::MAX].map(padding_len), [0, 511, 1, 0, 511, 0]);
    }

    #[test]
    fn numbers_are_octal_or_of_base_256() {
        assert_eq!(number(b"0000644\0"), Ok(Some(0o644)));
        assert_eq!(number(b"   644 \0"), Ok(Some(0o644)));
        assert_eq!(number(b"77777777777"), Ok(Some(0o77_777_777_777)));
        assert_eq!(number(b"\0\0\0\0"), Ok(None));
        assert_eq!(number(b"\x80\0\0\0\x01\0\0\0\0"), Ok(Some(1 << 32)));
        assert_eq!(number(b"\xff\xff\xff\xff\xff\xff\xff\xfe"), Ok(Some(-2)));
        for bad in [&b"12x"[..], b"8", b"-1", b"1 2"] {
            assert_eq!(number(bad), Err(()), "{bad:?}");
        }
    }

    #[test]
    fn a_block_without_its_checksum_is_no_header() {
        let mut block = [0_u8; BLOCK_LEN];
        assert_eq!(decode(&block), Ok(Block::Zero));
        block[0] = b'a';
        assert!(decode(&block).is_err());
        block[148..156].copy_from_slice(b"000541\0 ");
        assert!(matches!(decode(&block), Ok(Block::Header(header)) if header.name == b"a"));
    }
}
