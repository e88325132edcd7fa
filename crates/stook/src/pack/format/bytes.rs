//! A cursor over untrusted bytes.

use super::{Decoded, Invalid};

/// Reads little-endian fields one after another and knows where it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> FieldCursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Offset of the next byte.
    pub(crate) fn at(&self) -> u64 {
        self.at as u64
    }

    /// Bytes left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn take(&mut self, len: usize) -> Decoded<&'a [u8]> {
        let taken = self.at.checked_add(len).and_then(|end| self.bytes.get(self.at..end));
        let Some(taken) = taken else {
            return Err(Invalid::damaged(
                self.at(),
                format!("{len} bytes were expected here, only {} are left", self.left()),
            ));
        };
        self.at += len;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Decoded<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Decoded<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Decoded<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Decoded<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Decoded<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// The magic, version and reserved bytes that every structure with a checksum at its end begins
    /// with; returns the bytes that the checksum covers. The bytes must be the whole structure. A
    /// version is meaningful only if the checksum is right: a flipped bit changes it.
    pub(crate) fn preamble(&mut self, magic: &[u8; 8], name: &str) -> Decoded<&'a [u8]> {
        let at = self.at();
        if &self.array::<8>()? != magic {
            return Err(Invalid::damaged(at, format!("this is not a {name}: its magic is missing")));
        }
        let covered = checked_tail(self.bytes, name)?;
        let version = self.u16()?;
        if version != super::VERSION {
            let what = format!("{name} version {version} (this software knows version {})", super::VERSION);
            return Err(Invalid::unsupported(at + 8, what));
        }
        self.reserved(2)?;
        Ok(covered)
    }

    /// Required feature flags: none are defined.
    pub(crate) fn required_flags(&mut self) -> Decoded<()> {
        let at = self.at();
        match self.u32()? {
            0 => Ok(()),
            flags => Err(Invalid::unsupported(at, format!("required features {flags:#x}"))),
        }
    }

    /// Bytes that must be zero.
    pub(crate) fn reserved(&mut self, len: usize) -> Decoded<()> {
        let at = self.at();
        if self.take(len)?.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        Err(Invalid::damaged(at, "reserved bytes are not zero"))
    }

    /// An unsigned LEB128 number.
    pub(crate) fn leb128(&mut self) -> Decoded<u64> {
        let at = self.at();
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Invalid::damaged(at, "a number is longer than 64 bits"))
    }

    /// A zigzag LEB128 difference.
    pub(crate) fn zigzag(&mut self) -> Decoded<i64> {
        let raw = self.leb128()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }
}

/// Appends an unsigned LEB128 number.
pub(crate) fn put_leb128(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a zigzag LEB128 difference.
pub(crate) fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_leb128(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Checks the CRC at the end of `bytes` and returns the bytes that it covers.
fn checked_tail<'a>(bytes: &'a [u8], name: &str) -> Decoded<&'a [u8]> {
    let split = bytes.len().checked_sub(4).and_then(|at| bytes.split_at_checked(at));
    let Some((body, tail)) = split else {
        return Err(Invalid::damaged(0, format!("a {name} of {} bytes is too short", bytes.len())));
    };
    let stored = FieldCursor::new(tail).u32()?;
    let computed = crc32c::crc32c(body);
    if stored != computed {
        let what = format!("the checksum of the {name} is {computed:08x}, {stored:08x} was written");
        return Err(Invalid::damaged(body.len() as u64, what));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leb128_and_zigzag_round_trip_at_the_borders() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX] {
            let mut out = Vec::new();
            put_leb128(&mut out, value);
            assert_eq!(FieldCursor::new(&out).leb128(), Ok(value));
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            put_zigzag(&mut out, value);
            assert_eq!(FieldCursor::new(&out).zigzag(), Ok(value));
        }
        assert!(FieldCursor::new(&[0xff; 10]).leb128().is_err());
        assert!(FieldCursor::new(&[0x80]).leb128().is_err());
    }
}
