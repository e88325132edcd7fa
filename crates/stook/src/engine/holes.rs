//! Where a file has holes, as its file system reports them.

use std::io;
use std::os::fd::BorrowedFd;

use super::{SeekTarget, calls};
use crate::extent::ByteRange;

/// No hole is shorter: it is a block at least, and less than a page is not worth a hole.
const HOLE_LEN_MIN: u64 = 4096;

/// Whether a file of `len` bytes, which takes `stored_len` on its medium, may have holes. So may
/// one that the file system compresses; what room was reserved for is no hole.
pub(crate) fn may_have_holes(len: u64, stored_len: u64) -> bool {
    stored_len.saturating_add(HOLE_LEN_MIN) <= len
}

/// The holes among the first `len` bytes of an open file, in order: the first `most` of them. None
/// where the file system does not report them. Moves the position of the file.
///
/// Nothing keeps the file as it is meanwhile: whether it still is has to be asked afterwards.
pub(crate) fn holes(fd: BorrowedFd<'_>, len: u64, most: usize) -> io::Result<Vec<ByteRange>> {
    let (mut holes, mut at) = (Vec::new(), 0);
    while at < len && holes.len() < most {
        let hole = calls::seek(fd, SeekTarget::Hole, at)?;
        if hole >= len {
            break;
        }
        let data = calls::seek(fd, SeekTarget::Data, hole)?.min(len);
        // Where the file changes meanwhile, what was a hole may be none any more.
        holes.extend(ByteRange::new(hole, data).filter(|hole| !hole.is_empty()));
        at = data.max(hole.saturating_add(1));
    }
    Ok(holes)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn holes_lie_where_nothing_was_written() {
        const MIB: u64 = 1 << 20;
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * MIB).unwrap();
        file.write_all_at(&[1; 4096], MIB).unwrap();
        let found = holes(file.as_fd(), 4 * MIB, 100).unwrap();
        // A file system that does not report them has none.
        if found.is_empty() {
            return;
        }
        let at = |start, end| ByteRange::new(start, end).unwrap();
        assert!(found.iter().any(|hole| hole.covers(&at(0, MIB / 2))), "{found:?}");
        assert!(found.iter().any(|hole| hole.covers(&at(2 * MIB, 4 * MIB))), "{found:?}");
        assert!(found.iter().all(|hole| hole.intersection(&at(MIB, MIB + 4096)).is_none()), "{found:?}");
        assert_eq!(holes(file.as_fd(), 4 * MIB, 1).unwrap(), found[..1]);
        assert_eq!(holes(file.as_fd(), MIB / 2, 100).unwrap(), [at(0, MIB / 2)]);
        file.write_all_at(&vec![0; 4 << 20], 0).unwrap();
        assert!(holes(file.as_fd(), 4 * MIB, 100).unwrap().is_empty(), "zeros that were written");
        assert!(holes(file.as_fd(), 0, 100).unwrap().is_empty());
    }
}
