//! What is read beside what was asked for.
//!
//! The bytes of a record are read and verified by the chunk. Where a program reads pages of a large
//! file here and there, what the chunk has more than the page is put into the page cache as well,
//! instead of being read again with the next page of it. A thread of its own does it, as for small
//! files: the kernel may make it wait for a page that a request is about to fill.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytes::Bytes;
use fuser::Notifier;
use stook::engine::available_memory;
use stook::extent::ByteRange;
use stook::source::Source;
use stook::tree::NodeId;

use crate::shared::Shared;

/// Chunks of up to this many bytes are completed.
const UNIT_MAX: u64 = 256 << 10;
/// So many wait, of 256 KiB at most. What has no place is not put there, and is read again.
const WAITING_MAX: usize = 32;

/// A chunk of a file.
#[derive(Debug)]
pub(crate) struct Unit {
    id: NodeId,
    start: u64,
    bytes: Bytes,
    /// What of it is the answer to the request.
    asked: Range<usize>,
}

/// Takes chunks of which a part was asked for.
#[derive(Debug)]
pub(crate) struct Around {
    units: SyncSender<Option<Unit>>,
    /// Files that are longer are not kept in memory: the rest of a chunk would displace what is
    /// wanted more.
    len_max: u64,
}

impl Around {
    /// With what its thread waits on.
    pub(crate) fn new() -> (Self, Receiver<Option<Unit>>) {
        let (units, given) = sync_channel(WAITING_MAX);
        (Self { units, len_max: available_memory().unwrap_or(0) / 2 }, given)
    }

    /// The chunk of which a range is a part, if the rest of it is to be kept.
    pub(crate) fn unit(&self, source: &dyn Source, range: ByteRange) -> Option<ByteRange> {
        let unit = source.unit_bytes().filter(|unit| (1..=UNIT_MAX).contains(unit))?;
        let start = range.start() / unit * unit;
        let end = start.saturating_add(unit).min(source.len());
        let is_part = !range.is_empty() && range.end() <= end && range.len() < end - start;
        (is_part && source.len() <= self.len_max).then(|| ByteRange::new(start, end)).flatten()
    }

    /// Takes a chunk that was read for a range of it, and returns the bytes of that.
    pub(crate) fn give(&self, id: NodeId, unit: ByteRange, bytes: Bytes, range: ByteRange) -> Bytes {
        let at = |position: u64| ((position - unit.start()) as usize).min(bytes.len());
        let asked = at(range.start())..at(range.end());
        let answer = bytes.slice(asked.clone());
        // Where there is no room, it is read again.
        let _full = self.units.try_send(Some(Unit { id, start: unit.start(), bytes, asked }));
        answer
    }

    /// Ends its thread; where it has no room for more, it looks before each.
    pub(super) fn stop(&self) {
        let _full = self.units.try_send(None);
    }
}

/// Puts the rest of chunks into the page cache until the mount has ended.
pub(super) fn run(
    shared: &Shared,
    given: &Receiver<Option<Unit>>,
    notifier: &Notifier,
    is_stopping: impl Fn() -> bool,
) {
    while let Ok(Some(unit)) = given.recv() {
        let Unit { id, start, bytes, asked } = unit;
        let after = start + asked.end as u64;
        for (at, part) in [(start, bytes.slice(..asked.start)), (after, bytes.slice(asked.end..))] {
            if part.is_empty() {
                continue;
            }
            if is_stopping() || notifier.store(shared.numbers.inode(id), at, &part).is_err() {
                return;
            }
            shared.counters.pushed_bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use stook::source::{Identity, Leaf, MemorySource};

    use super::*;

    /// A source whose bytes are verified by 64 KiB.
    #[derive(Debug)]
    struct Chunked(MemorySource);

    impl Source for Chunked {
        fn path(&self) -> &Path {
            self.0.path()
        }

        fn len(&self) -> u64 {
            self.0.len()
        }

        fn identity(&self) -> Identity {
            self.0.identity()
        }

        fn current_identity(&self) -> stook::Result<Identity> {
            self.0.current_identity()
        }

        fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> stook::Result<()> {
            self.0.resolve(range, leaves)
        }

        fn unit_bytes(&self) -> Option<u64> {
            Some(1 << 16)
        }
    }

    #[test]
    fn only_what_is_less_than_one_chunk_is_completed() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at / 7) as u8).collect();
        let source = Chunked(MemorySource::new("a", bytes.clone()));
        let (around, given) = Around::new();
        let range = |start, end| ByteRange::new(start, end).unwrap();
        let unit = |start, end| around.unit(&source, range(start, end));
        assert_eq!(unit(70_000, 74_096), Some(range(65_536, 131_072)));
        assert_eq!(unit(196_608, 197_000), Some(range(196_608, 200_000)), "the last is shorter");
        assert_eq!(unit(65_536, 131_072), None, "a whole one");
        assert_eq!(unit(196_608, 200_000), None, "the whole last one");
        assert_eq!(unit(131_000, 131_100), None, "parts of two");
        assert_eq!(unit(5, 5), None);
        assert_eq!(around.unit(&MemorySource::new("b", bytes.clone()), range(0, 1)), None);
        let none_fits = Around { len_max: 199_999, units: around.units.clone() };
        assert_eq!(none_fits.unit(&source, range(0, 1)), None);

        let whole = Bytes::copy_from_slice(&bytes[65_536..131_072]);
        let answer = around.give(NodeId::new(3), range(65_536, 131_072), whole, range(70_000, 74_096));
        assert!(answer == bytes[70_000..74_096]);
        let kept = given.recv().unwrap().unwrap();
        assert_eq!((kept.id, kept.start, kept.asked), (NodeId::new(3), 65_536, 4464..8560));
        around.stop();
        assert!(given.recv().unwrap().is_none());
    }
}
