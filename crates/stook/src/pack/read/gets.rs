//! Many records by key, as one batch: keys are looked up while the device reads records already
//! found; or by their places, where no key is known.

use bytes::Bytes;

use crate::engine::{Access, available_memory};
use crate::extent::ByteRange;
use crate::pack::error::{Error, Result};
use crate::pack::key::Key;
use crate::pack::read::around::read_again;
use crate::pack::read::reader::{Read, ReadBatch};
use crate::pack::read::record::Record;
use crate::pack::state::open::Pack;
use crate::pack::state::segment::Segment;
use crate::pack::state::snapshot::Found;
use crate::source::SAMPLED_RANGES;

/// Frames longer than this are not read in one piece.
const WHOLE_FRAME_MAX: u64 = 64 << 20;

/// What is got.
#[derive(Debug, Clone, Copy)]
enum Asked<'p> {
    /// The records of keys; where they are, if they were looked up before.
    Keys(&'p [Key], Option<&'p [Found]>),
    /// The records at places that an index named.
    Places(&'p [Found]),
}

impl<'p> Asked<'p> {
    fn len(self) -> usize {
        match self {
            Self::Keys(keys, _) => keys.len(),
            Self::Places(found) => found.len(),
        }
    }

    fn key(self, number: usize) -> Option<&'p Key> {
        match self {
            Self::Keys(keys, _) => keys.get(number),
            Self::Places(_) => None,
        }
    }
}

/// A batch of gets on its way.
pub(crate) struct Gets<'p> {
    pack: &'p Pack,
    asked: Asked<'p>,
    /// Where each record is, as far as they are looked up.
    found: Vec<Option<Found>>,
    /// For each read, which of them it is for.
    reads: Vec<usize>,
    /// Which way each segment is read, where that is decided.
    accesses: Vec<Option<Access>>,
    records: Vec<Result<Option<Record>>>,
    /// An error that is not damage.
    failure: Option<Error>,
}

impl<'p> Gets<'p> {
    /// Gets of keys. Those that were looked up are not looked up again: `known` is where their
    /// records are.
    pub(crate) fn new(pack: &'p Pack, keys: &'p [Key], known: Option<&'p [Found]>) -> Result<Self> {
        Self::of(pack, Asked::Keys(keys, known))
    }

    /// Gets of records at these places, whatever their keys are.
    pub(crate) fn at(pack: &'p Pack, places: &'p [Found]) -> Result<Self> {
        Self::of(pack, Asked::Places(places))
    }

    fn of(pack: &'p Pack, asked: Asked<'p>) -> Result<Self> {
        let mut gets = Self {
            pack,
            asked,
            found: Vec::with_capacity(asked.len()),
            reads: Vec::with_capacity(asked.len()),
            accesses: vec![None; pack.snapshot.segments.len()],
            records: (0..asked.len()).map(|_| Ok(None)).collect(),
            failure: None,
        };
        gets.decide()?;
        Ok(gets)
    }

    /// Some of them say which way each segment is read.
    fn decide(&mut self) -> Result<()> {
        if self.asked.len() < SAMPLED_RANGES {
            return Ok(());
        }
        let mut sampled = vec![Vec::new(); self.accesses.len()];
        for number in (0..self.asked.len()).step_by(self.asked.len() / SAMPLED_RANGES) {
            let found = match self.look_up(number) {
                // It is reported when it is looked up for itself.
                Err(Error::Damaged(_)) => None,
                found => found?,
            };
            let range = found.as_ref().and_then(whole_frame);
            if let Some((found, range)) = found.zip(range)
                && let Some(ranges) = sampled.get_mut(found.segment)
            {
                ranges.push(range);
            }
        }
        let segments = self.pack.snapshot.segments.iter();
        for ((segment, ranges), access) in segments.zip(&sampled).zip(&mut self.accesses) {
            if !ranges.is_empty() {
                *access = Some(self.pack.access_of_gets(segment, ranges));
            }
        }
        Ok(())
    }

    /// Where a record is.
    fn look_up(&self, number: usize) -> Result<Option<Found>> {
        match self.asked {
            Asked::Keys(_, Some(known)) | Asked::Places(known) => Ok(known.get(number).copied()),
            Asked::Keys(keys, None) => keys.get(number).map_or(Ok(None), |key| self.pack.find(key)),
        }
    }

    /// Reads them, in the order in which they were asked for.
    pub(crate) fn run(mut self) -> Result<Vec<Result<Option<Record>>>> {
        let pack = self.pack;
        pack.reader.read_batch(&mut self)?;
        if let Some(error) = self.failure {
            return Err(error);
        }
        for (number, (found, slot)) in self.found.iter().zip(&mut self.records).enumerate() {
            let key = self.asked.key(number);
            // Very long ones come in pieces, and those whose length the index does not say.
            if let (Some(found), Ok(None)) = (found, &slot) {
                *slot = pack.read_stream(key, *found);
            }
            if let (Ok(Some(record)), Some(key)) = (&*slot, key)
                && record.head.key != *key
            {
                *slot = Err(pack.misplaced(key, record));
            }
        }
        Ok(self.records)
    }

    fn segment(&self, found: &Found) -> Option<&'p Segment> {
        self.pack.snapshot.segments.get(found.segment)
    }

    /// How a segment is read; if there was no sample, the first record decides.
    fn access(&mut self, segment: &Segment, number: usize, range: ByteRange) -> Access {
        let pack = self.pack;
        let Some(access) = self.accesses.get_mut(number) else { return Access::Cached };
        *access.get_or_insert_with(|| pack.access_of_gets(segment, &[range]))
    }
}

impl Pack {
    /// How records of a segment are read in gets by key.
    pub(super) fn access_of_gets(&self, segment: &Segment, ranges: &[ByteRange]) -> Access {
        self.access.decide_for_gets(segment.source.as_ref(), ranges, || self.fits_into_memory())
    }

    /// Whether its records are best left in the page cache after gets.
    pub(crate) fn fits_into_memory(&self) -> bool {
        *self.fits.get_or_init(|| self.fits_in(available_memory()))
    }

    /// Whether all segments fit into half of this memory: the other half is left for the users of
    /// the records.
    fn fits_in(&self, available: Option<u64>) -> bool {
        let bytes =
            self.snapshot.segments.iter().fold(0_u64, |sum, one| sum.saturating_add(one.source.len()));
        available.is_some_and(|available| bytes <= available / 2)
    }
}

/// Where the frame of a record is, if it is to be read in one piece.
pub(super) fn whole_frame(found: &Found) -> Option<ByteRange> {
    let len = found.place.len.filter(|&len| len <= WHOLE_FRAME_MAX)?;
    ByteRange::at(found.place.offset, len)
}

impl<'p> ReadBatch<'p> for Gets<'p> {
    fn next(&mut self) -> Option<Read<'p>> {
        while self.failure.is_none() {
            let number = self.found.len();
            if number >= self.asked.len() {
                return None;
            }
            let found = match self.look_up(number) {
                Ok(found) => found,
                Err(error @ Error::Damaged(_)) => {
                    // It costs what it hides, and nothing else.
                    if let Some(slot) = self.records.get_mut(number) {
                        *slot = Err(error);
                    }
                    None
                }
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            };
            self.found.push(found);
            let Some((found, range)) = found.zip(found.as_ref().and_then(whole_frame)) else { continue };
            let Some(segment) = self.segment(&found) else { continue };
            self.reads.push(number);
            return Some((segment.source.as_ref(), range, self.access(segment, found.segment, range)));
        }
        None
    }

    fn take(&mut self, number: usize, result: crate::Result<Bytes>) {
        let asked = self.reads.get(number).copied();
        let found = asked.and_then(|asked| self.found.get(asked).copied().flatten());
        let (Some(asked), Some(found)) = (asked, found) else { return };
        let (Some(segment), Some(range)) = (self.segment(&found), whole_frame(&found)) else { return };
        if let Some(slot) = self.records.get_mut(asked) {
            let read = read_again(segment.source.as_ref(), range, result);
            let read = read.and_then(|bytes| segment.record_in(found.place, &bytes, &self.pack.reader));
            *slot = read.map(Some).map_err(|error| error.of_some(self.asked.key(asked)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::CacheResidency;
    use crate::pack::{Attributes, OpenOptions, PackWriter, WriterOptions};
    use crate::source::Leaf;
    use crate::storage::{LocalStorage, LocalStorageOptions};

    /// The file of the only segment, and the share of its frames that is in the page cache.
    fn cached(pack: &Pack) -> (std::path::PathBuf, Option<f64>) {
        let (source, range) = pack.segment_ranges(&[]).remove(0);
        let mut leaves = Vec::new();
        source.resolve(range, &mut leaves).unwrap();
        let [Leaf::File { file, range }] = leaves.as_slice() else { panic!("{leaves:?}") };
        (source.path().to_path_buf(), CacheResidency::of(file, *range).cached_share(range.len()))
    }

    fn forget(path: &std::path::Path) {
        let file = std::fs::File::open(path).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    #[test]
    fn gets_warm_the_page_cache_where_the_pack_fits_into_memory() {
        let directory = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(directory.path(), LocalStorageOptions::default()).unwrap();
        let mut writer = PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap();
        let keys: Vec<Key> = (0..64).map(Key::id).collect();
        for key in &keys {
            writer.put("", key, &Attributes::new(), &[7; 9_000]).unwrap();
        }
        writer.finish(true).unwrap();
        let open = |fits: bool| {
            let pack = Pack::open_path(directory.path(), OpenOptions::default()).unwrap();
            pack.fits.set(fits).unwrap();
            pack
        };
        let way = |pack: &Pack| {
            let found = pack.find(&keys[9]).unwrap().unwrap();
            pack.access_of_gets(&pack.snapshot.segments[0], &[whole_frame(&found).unwrap()])
        };
        let (small, large) = (open(true), open(false));
        forget(&cached(&small).0);
        // Some file systems are in memory, and some kernels do not report it.
        let is_cold = cached(&small).1.is_some_and(|share| share < 0.5);
        assert_eq!(
            (way(&small), way(&large)),
            (Access::Cached, [Access::Cached, Access::Direct][usize::from(is_cold)])
        );
        if is_cold {
            assert!(large.get_many(&keys).unwrap().iter().all(Result::is_ok));
            assert!(cached(&large).1.unwrap() < 0.5, "too long for memory: nothing is pushed out of it");
        }
        assert!(small.get_many(&keys).unwrap().iter().all(Result::is_ok));
        assert!(cached(&small).1.is_none_or(|share| share > 0.9), "{:?}", cached(&small));
        assert_eq!(way(&large), Access::Cached, "what is there already is taken from there");
    }

    #[test]
    fn a_pack_fits_where_half_of_the_memory_holds_it() {
        let directory = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(directory.path(), LocalStorageOptions::default()).unwrap();
        let mut writer = PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap();
        writer.put("", &Key::id(1), &Attributes::new(), &[7; 100_000]).unwrap();
        writer.finish(true).unwrap();
        let pack = Pack::open_path(directory.path(), OpenOptions::default()).unwrap();
        let len = pack.snapshot.segments[0].source.len();
        assert!(pack.fits_in(Some(2 * len)) && !pack.fits_in(Some(2 * len - 2)) && !pack.fits_in(None));
    }
}
