//! What is read beside what was asked for.
//!
//! The bytes of a record are read and verified by the chunk. Where a program reads pages of a large
//! file here and there, what the chunk has more than the page is put into the page cache as well,
//! instead of being read again with the next page of it. A thread of its own does it, as for small
//! files: the kernel may make it wait for a page that a request is about to fill.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytes::Bytes;
use fuser::{Errno, Notifier};
use stook::engine::available_memory;
use stook::extent::ByteRange;
use stook::source::Source;
use stook::tree::NodeId;

use crate::shared::Shared;

/// Chunks of up to this many bytes are completed.
const UNIT_MAX: u64 = 256 << 10;
/// So many wait, of 256 KiB at most: 8 MiB. What has no place is not put there, and is read again.
const WAITING_MAX: usize = 32;

/// What a chunk of a file has before and after that which was asked for: each where it begins.
#[derive(Debug)]
pub(crate) struct Rest {
    id: NodeId,
    parts: [(u64, Bytes); 2],
}

/// Takes chunks of which a part was asked for.
#[derive(Debug)]
pub(crate) struct Around {
    rests: SyncSender<Option<Rest>>,
    /// Whether all of the tree can be kept in memory. Otherwise the rest of a chunk would displace
    /// what is wanted more.
    fits: bool,
}

impl Around {
    /// For a tree of so many bytes, with what its thread waits on.
    pub(crate) fn new(tree_bytes: u64) -> (Self, Receiver<Option<Rest>>) {
        let (rests, given) = sync_channel(WAITING_MAX);
        (Self { rests, fits: tree_bytes <= available_memory().unwrap_or(0) / 2 }, given)
    }

    /// The chunk of which a range is a part, if the rest of it is to be kept.
    pub(crate) fn unit(&self, source: &dyn Source, range: ByteRange) -> Option<ByteRange> {
        let unit = source.unit_bytes().filter(|unit| (1..=UNIT_MAX).contains(unit))?;
        let start = range.start() / unit * unit;
        let end = start.saturating_add(unit).min(source.len());
        let is_part = !range.is_empty() && range.end() <= end && range.len() < end - start;
        (is_part && self.fits).then(|| ByteRange::new(start, end)).flatten()
    }

    /// Takes the bytes of a chunk of which a range was asked for.
    pub(crate) fn give(&self, id: NodeId, unit: ByteRange, bytes: &Bytes, range: ByteRange) {
        let at = |position: u64| ((position - unit.start()) as usize).min(bytes.len());
        // Not the memory of the read, which may be far more.
        let part = |from: usize, to: usize| Bytes::copy_from_slice(bytes.get(from..to).unwrap_or_default());
        let before = (unit.start(), part(0, at(range.start())));
        let after = (range.end(), part(at(range.end()), bytes.len()));
        // Where there is no room, it is read again.
        let _full = self.rests.try_send(Some(Rest { id, parts: [before, after] }));
    }

    /// Ends its thread; where it has no room for more, it looks before each.
    pub(super) fn stop(&self) {
        let _full = self.rests.try_send(None);
    }
}

/// Puts the rest of chunks into the page cache until the mount has ended.
pub(super) fn run(
    shared: &Shared,
    given: &Receiver<Option<Rest>>,
    notifier: &Notifier,
    is_stopping: impl Fn() -> bool,
) {
    while let Ok(Some(Rest { id, parts })) = given.recv() {
        for (at, part) in parts.iter().filter(|(_, part)| !part.is_empty()) {
            if is_stopping() {
                return;
            }
            match notifier.store(shared.numbers.inode(id), *at, part) {
                Ok(()) => {
                    shared.counters.chunk_bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
                }
                Err(error) if has_ended(&error) => return,
                // There was no memory for it: it is read again.
                Err(_) => break,
            }
        }
    }
}

/// Whether the kernel refuses because the mount has ended.
pub(crate) fn has_ended(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error();
    [Errno::ENODEV, Errno::ENOTCONN].iter().any(|ended| Some(ended.code()) == errno)
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
        let (around, given) = Around::new(bytes.len() as u64);
        let range = |start, end| ByteRange::new(start, end).unwrap();
        let unit = |start, end| around.unit(&source, range(start, end));
        assert_eq!(unit(70_000, 74_096), Some(range(65_536, 131_072)));
        assert_eq!(unit(196_608, 197_000), Some(range(196_608, 200_000)), "the last is shorter");
        assert_eq!(unit(65_536, 131_072), None, "a whole one");
        assert_eq!(unit(196_608, 200_000), None, "the whole last one");
        assert_eq!(unit(131_000, 131_100), None, "parts of two");
        assert_eq!(unit(5, 5), None);
        assert_eq!(around.unit(&MemorySource::new("b", bytes.clone()), range(0, 1)), None);
        assert_eq!(Around::new(u64::MAX).0.unit(&source, range(0, 1)), None, "a tree that does not fit");

        let whole = Bytes::copy_from_slice(&bytes[65_536..131_072]);
        around.give(NodeId::new(3), range(65_536, 131_072), &whole, range(70_000, 74_096));
        let rest = given.recv().unwrap().unwrap();
        assert_eq!(rest.id, NodeId::new(3));
        let wanted = [(65_536, &bytes[65_536..70_000]), (74_096, &bytes[74_096..131_072])];
        for ((at, part), (wanted_at, wanted)) in rest.parts.iter().zip(wanted) {
            assert!(*at == wanted_at && part == wanted);
        }
        around.stop();
        assert!(given.recv().unwrap().is_none());
    }
}
