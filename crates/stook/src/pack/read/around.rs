//! Reading around unreadable parts: the rest of a range, with zeros in the holes.
//!
//! A read fails as a whole, whether one sector of 4096 bytes is bad or the disk is dead. A failed
//! range is read again piece by piece, so that a hole costs only the bytes in it; checksums then
//! detect the zeros in their place.

use std::path::Path;

use bytes::Bytes;

use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result, is_unreadable};
use crate::pack::read::reader::read_leaves;
use crate::source::Source;

/// Length and alignment of one piece: the block of most file systems, and the page of the page
/// cache.
const PIECE_LEN: u64 = 4096;

/// After this many unreadable bytes in a row, most of what follows is not tried: each try may take
/// a disk seconds. Then the last piece of every [`STRIDE_LEN`] bytes shows whether the unreadable
/// range continues.
const PATIENCE_LEN: u64 = 64 * PIECE_LEN;

/// At most this many bytes are given up at once. Readable bytes within them are lost only if there
/// are holes on both sides.
const STRIDE_LEN: u64 = 1 << 20;

/// A span that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) range: ByteRange,
    /// The first error in this hole.
    pub(crate) what: String,
}

/// The unreadable ranges of a file that were found; adjacent ones are merged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holes {
    /// In order, apart from each other.
    holes: Vec<Hole>,
}

impl Holes {
    /// The holes that contain none of these damages: nothing uses these bytes, but they cannot be
    /// read.
    pub(crate) fn unreported(&self, file: &Path, damages: &[Damage]) -> Vec<Damage> {
        let is_reported = |hole: &&Hole| {
            damages.iter().any(|damage| damage.file == file && hole.range.contains(damage.offset))
        };
        let damage = |hole: &Hole| {
            let what = format!("{} bytes here: {}; no record needs them", hole.range.len(), hole.what);
            Damage { file: file.to_path_buf(), offset: hole.range.start(), key: None, what, cause: None }
        };
        self.holes.iter().filter(|hole| !is_reported(hole)).map(damage).collect()
    }

    /// Where in a range the first bytes are missing, and why.
    pub(crate) fn first_in(&self, range: ByteRange) -> Option<(u64, &str)> {
        let at = self.holes.partition_point(|hole| hole.range.end() <= range.start());
        let hole = self.holes.get(at).filter(|hole| hole.range.start() < range.end())?;
        Some((hole.range.start().max(range.start()), &hole.what))
    }

    /// The hole at an offset.
    fn at(&self, offset: u64) -> Option<&Hole> {
        let at = self.holes.partition_point(|hole| hole.range.end() <= offset);
        self.holes.get(at).filter(|hole| hole.range.start() <= offset)
    }

    /// Bytes that are missing right before an offset.
    pub(crate) fn len_before(&self, offset: u64) -> u64 {
        let at = self.holes.partition_point(|hole| hole.range.end() < offset);
        let hole = self.holes.get(at).filter(|hole| hole.range.start() < offset);
        hole.map_or(0, |hole| offset - hole.range.start())
    }

    /// Whether reading on after an offset is not worth more than a try here and there.
    pub(crate) fn is_dead_before(&self, offset: u64) -> bool {
        self.len_before(offset) >= PATIENCE_LEN
    }

    /// Why bytes of a range are damaged: because they could not be read, or as found.
    pub(crate) fn explain(&self, source: &dyn Source, range: ByteRange, found: Error) -> Error {
        match (self.first_in(range), found) {
            (Some((offset, what)), Error::Damaged(damage)) => {
                let file = source.path().to_path_buf();
                Error::Damaged(Damage { file, offset, key: damage.key, what: what.into(), cause: None })
            }
            (_, found) => found,
        }
    }

    /// Adds a hole.
    pub(crate) fn add(&mut self, range: ByteRange, what: &str) {
        if range.is_empty() {
            return;
        }
        let from = self.holes.partition_point(|hole| hole.range.end() < range.start());
        let to = self.holes.partition_point(|hole| hole.range.start() <= range.end());
        let touched = self.holes.get(from..to).unwrap_or_default();
        let what = touched.first().map_or_else(|| what.to_owned(), |hole| hole.what.clone());
        let start = touched.first().map_or(range.start(), |hole| hole.range.start().min(range.start()));
        let end = touched.last().map_or(range.end(), |hole| hole.range.end().max(range.end()));
        let range = ByteRange::new(start, end).unwrap_or(range);
        self.holes.splice(from..to, [Hole { range, what }]);
    }
}

/// Reads all of a range of a source, with zeros where it is unreadable; those parts are added to
/// `holes`. Known holes are not tried again.
///
/// # Errors
/// Returns errors that are not damage of the medium: see [`is_unreadable`].
pub(crate) fn read_around(
    source: &dyn Source,
    range: ByteRange,
    holes: &mut Holes,
) -> crate::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut at = range.start();
    // Up to here nothing is given up untried: a span was seen to end before.
    let mut tried_to = 0;
    while at < range.end() {
        bytes.resize((at - range.start()) as usize, 0);
        if let Some(hole) = holes.at(at) {
            at = hole.range.end();
            continue;
        }
        if at >= tried_to && holes.is_dead_before(at) {
            let end = at.saturating_add(STRIDE_LEN).min(range.end());
            let last = ByteRange::new((end - 1) / PIECE_LEN * PIECE_LEN, end).unwrap_or_default();
            match read_piece(source, last)? {
                Ok(_) => tried_to = end,
                Err(what) => {
                    holes.add(ByteRange::new(at, end).unwrap_or_default(), &what);
                    at = end;
                }
            }
            continue;
        }
        let end = (at / PIECE_LEN + 1).saturating_mul(PIECE_LEN).min(range.end());
        let piece = ByteRange::new(at, end).unwrap_or_default();
        match read_piece(source, piece)? {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(what) => holes.add(piece, &what),
        }
        at = end;
    }
    bytes.resize(range.len() as usize, 0);
    Ok(bytes)
}

/// The bytes of a piece, or why they cannot be read.
fn read_piece(source: &dyn Source, range: ByteRange) -> crate::Result<Result<Bytes, String>> {
    let mut leaves = Vec::with_capacity(1);
    let read = source.resolve(range, &mut leaves).and_then(|()| read_leaves(&leaves));
    match read {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(error) => Damage::of_unreadable(error).map(|damage| Err(damage.what)),
    }
}

/// Returns the result of a read. If it failed because a part is unreadable, it is tried again piece
/// by piece, because the failed part may only have been read along; bytes that are still missing
/// then are damage.
///
/// # Errors
/// Returns [`Error::Damaged`] with the offset of the first missing byte, or an error that is not
/// damage of the medium.
pub(crate) fn read_again(source: &dyn Source, range: ByteRange, read: crate::Result<Bytes>) -> Result<Bytes> {
    match read {
        Err(error) if is_unreadable(&error) => {
            let mut holes = Holes::default();
            let bytes = read_around(source, range, &mut holes)?;
            match holes.first_in(range) {
                None => Ok(bytes.into()),
                Some((offset, what)) => {
                    let file = source.path().to_path_buf();
                    Err(Error::Damaged(Damage { file, offset, key: None, what: what.into(), cause: None }))
                }
            }
        }
        read => Ok(read?),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::source::{Identity, Leaf, MemorySource};

    /// Refuses reads that touch some ranges, and counts requests.
    #[derive(Debug)]
    struct Bad {
        inner: MemorySource,
        /// Serves this many sevens instead of the inner source.
        sevens: u64,
        bad: Vec<ByteRange>,
        asked: Mutex<usize>,
    }

    impl Source for Bad {
        fn path(&self) -> &Path {
            self.inner.path()
        }
        fn len(&self) -> u64 {
            self.inner.len().max(self.sevens)
        }
        fn identity(&self) -> Identity {
            self.inner.identity()
        }
        fn current_identity(&self) -> crate::Result<Identity> {
            self.inner.current_identity()
        }
        fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> crate::Result<()> {
            *self.asked.lock().unwrap() += 1;
            if self.bad.iter().any(|bad| bad.start() < range.end() && range.start() < bad.end()) {
                let error = std::io::Error::from_raw_os_error(libc::EIO);
                return Err(crate::Error::io_at("read", self.path(), range.start(), error));
            }
            if self.sevens > 0 {
                leaves.push(Leaf::Fill { byte: 7, len: range.len() });
                return Ok(());
            }
            self.inner.resolve(range, leaves)
        }
    }

    fn range(from: u64, to: u64) -> ByteRange {
        ByteRange::new(from, to).unwrap()
    }

    fn bad(len: usize, bad: &[ByteRange]) -> (Bad, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8 + 1).collect();
        let inner = MemorySource::new("/p/segment", bytes.clone());
        (Bad { inner, sevens: 0, bad: bad.to_vec(), asked: Mutex::new(0) }, bytes)
    }

    #[test]
    fn holes_that_touch_are_one_and_are_found_by_any_offset() {
        let mut holes = Holes::default();
        holes.add(range(10, 20), "a");
        holes.add(range(30, 40), "b");
        assert_eq!((holes.len_before(20), holes.len_before(21), holes.len_before(15)), (10, 0, 5));
        assert_eq!(holes.first_in(range(0, 10)), None);
        assert_eq!(holes.first_in(range(20, 31)), Some((30, "b")));
        holes.add(range(20, 30), "c");
        assert_eq!(holes.holes, [Hole { range: range(10, 40), what: "a".into() }]);
        assert_eq!(holes.first_in(range(15, 16)), Some((15, "a")));
        holes.add(range(5, 50), "d");
        assert_eq!(holes.holes.len(), 1);
    }

    #[test]
    fn a_bad_block_costs_its_bytes_and_none_beside_it() {
        let (source, whole) = bad(40_000, &[range(8192, 12_288), range(20_480, 20_481)]);
        let mut holes = Holes::default();
        let read = read_around(&source, range(100, 39_000), &mut holes).unwrap();
        for (at, &byte) in read.iter().enumerate() {
            let at = at + 100;
            let is_hole = (8192..12_288).contains(&at) || (20_480..24_576).contains(&at);
            assert_eq!(byte, if is_hole { 0 } else { whole[at] }, "{at}");
        }
        let places: Vec<ByteRange> = holes.holes.iter().map(|hole| hole.range).collect();
        assert_eq!(places, [range(8192, 12_288), range(20_480, 24_576)]);
        let asked = *source.asked.lock().unwrap();
        read_around(&source, range(8192, 12_288), &mut holes).unwrap();
        assert_eq!(*source.asked.lock().unwrap(), asked, "a known hole is not tried again");
    }

    #[test]
    fn a_dead_gigabyte_takes_few_tries_and_what_is_after_it_is_read() {
        let dead = range(1 << 20, (1 << 30) + 12_288);
        let (mut source, _) = bad(0, &[dead]);
        source.sevens = (1 << 30) + 20_480;
        let mut holes = Holes::default();
        let mut at = 0;
        while at < source.len() {
            let part = range(at, (at + (1 << 20)).min(source.len()));
            let read = read_around(&source, part, &mut holes).unwrap();
            if part.end() <= dead.start() {
                assert!(read.iter().all(|&byte| byte == 7));
            } else if part.end() > dead.end() {
                assert!(read[12_288..].iter().all(|&byte| byte == 7));
            }
            at = part.end();
        }
        assert_eq!(holes.holes.iter().map(|hole| hole.range).collect::<Vec<_>>(), [dead]);
        assert!(*source.asked.lock().unwrap() < 2000);
    }

    #[test]
    fn a_read_that_fails_once_is_whole_and_one_that_fails_again_is_damage_with_its_place() {
        let (source, whole) = bad(30_000, &[range(8192, 8193)]);
        let failed = || {
            let error = std::io::Error::from_raw_os_error(libc::EIO);
            Err(crate::Error::io_at("read", "/p/segment", 0, error))
        };
        assert_eq!(read_again(&source, range(9, 8192), failed()).unwrap(), whole[9..8192]);
        let error = read_again(&source, range(9, 8200), failed()).unwrap_err().to_string();
        assert!(error.starts_with("/p/segment is damaged at offset 8192: it cannot be read: "), "{error}");
    }
}
