//! [`Manner`]: how the files of a tree are read: by how many threads, how many at once, how long
//! one read is.

use std::thread::available_parallelism;

use super::groups::is_rotating;
use super::options::VerifyOptions;
use super::subject::{Branch, Subject};
use crate::profile::Profile;
use crate::source::SessionOptions;
use crate::tree::GatherOptions;
use crate::tree::target::share_of_descriptors;

/// Bytes that are being read, or read and not hashed, over all trees. What waits for the threads
/// of the pool comes on top.
const MEMORY_BYTES: u64 = 32 << 20;

/// Threads of one tree, at most.
const WORKERS_MAX: usize = 32;

/// Descriptors of a process for each of them: files that are open ahead, each twice if it is read
/// directly, and an engine.
const DESCRIPTORS_PER_WORKER: u64 = 128;

/// One read of a large file is so long, at least and at most; where bytes may come by requests, it
/// is longer.
const PIECE_MIN_BYTES: u64 = 128 << 10;
const PIECE_MAX_BYTES: u64 = 1 << 20;
const REQUESTED_PIECE_MAX_BYTES: u64 = 8 << 20;

/// Pieces of which one is hashed while the others are read.
const PIECES: u64 = 4;

/// What is handed to a thread at once. Of a disk that rotates it is much, because it is read in the
/// order of the disk; elsewhere so little that all threads have something to do until the end.
const FILES_MAX: u64 = 1024;
const FILES_MIN: u64 = 16;
const BYTES_MAX: u64 = 1 << 30;
const BYTES_MIN: u64 = 1 << 20;
const ROTATING_FILES: usize = 1 << 16;
const ROTATING_BYTES: u64 = 1 << 40;
const BATCHES_PER_WORKER: u64 = 4;

/// How the files of a tree are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Threads, each of which reads and hashes.
    pub(super) workers: usize,
    /// Whether both trees lie on disks that rotate, and are read in turn.
    pub(super) in_turn: bool,
    is_rotating: bool,
    is_on_disk: bool,
    has_other: bool,
}

impl Manner {
    pub(super) fn of(subject: &Subject, options: &VerifyOptions) -> Self {
        let sides = [Some(&subject.branch), subject.against.as_ref()];
        let sides: Vec<&Branch> = sides.into_iter().flatten().collect();
        let rotates = |side: &&&Branch| side.lies_in.as_deref().is_some_and(is_rotating);
        let rotating = sides.iter().filter(rotates).count();
        let is_on_disk = sides.iter().all(|side| side.is_on_disk);
        let processors = available_parallelism().map_or(2, usize::from).max(2);
        // One more than there are processors: two that hand in the end of a file at the same time
        // leave the device with nothing to do.
        let usual = if is_on_disk && rotating == 0 { processors + 1 } else { 1 };
        let most = share_of_descriptors(DESCRIPTORS_PER_WORKER, WORKERS_MAX);
        Self {
            workers: options.jobs.unwrap_or(usual).clamp(1, most),
            in_turn: rotating > 1,
            is_rotating: rotating > 0,
            is_on_disk,
            has_other: sides.len() > 1,
        }
    }

    /// Passes that are made at the same time.
    pub(super) fn passes(&self) -> usize {
        self.workers * if self.has_other && !self.in_turn { 2 } else { 1 }
    }

    /// Files, and bytes of them, that are handed to a thread at once, of so many in all.
    pub(super) fn batch(&self, total_files: u64, total_bytes: u64) -> (usize, u64) {
        if self.is_rotating {
            return (ROTATING_FILES, ROTATING_BYTES);
        }
        let share = self.workers as u64 * BATCHES_PER_WORKER;
        let files = if self.is_on_disk { total_files / share } else { FILES_MAX };
        let bytes = if self.is_on_disk { total_bytes / share } else { BYTES_MAX };
        (files.clamp(FILES_MIN, FILES_MAX) as usize, bytes.clamp(BYTES_MIN, BYTES_MAX))
    }

    /// Whether threads of the pool hash the small files, because fewer read than there are
    /// processors.
    pub(super) fn hands_over(&self) -> bool {
        self.workers == 1
    }

    /// How one thread reads one of the trees, where so many passes are made at the same time.
    pub(super) fn gather(&self, options: &VerifyOptions, branch: &Branch, passes: usize) -> GatherOptions {
        let memory_bytes = MEMORY_BYTES / passes.max(1) as u64;
        let longest = if branch.is_on_disk { PIECE_MAX_BYTES } else { REQUESTED_PIECE_MAX_BYTES };
        // A power of two: parts of a tree of BLAKE3 begin at multiples of their length.
        let piece_bytes = prev_power_of_two(memory_bytes / PIECES).clamp(PIECE_MIN_BYTES, longest);
        let profile = branch.lies_in.as_deref().map_or(Profile::LOCAL, Profile::of_path);
        GatherOptions {
            session: SessionOptions::of(&profile),
            access: options.access(),
            piece_bytes,
            memory_bytes,
            in_order: true,
        }
    }
}

fn prev_power_of_two(number: u64) -> u64 {
    1 << number.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manner(workers: usize, is_rotating: bool, is_on_disk: bool) -> Manner {
        Manner { workers, in_turn: false, is_rotating, is_on_disk, has_other: false }
    }

    #[test]
    fn every_thread_has_something_to_do_and_a_rotating_disk_is_read_in_long_passes() {
        let few = manner(4, false, true);
        assert_eq!(few.batch(100, 100 << 20), (16, (100 << 20) / 16));
        assert_eq!(few.batch(10_000_000, 1 << 50), (1024, 1 << 30));
        assert_eq!(manner(1, true, true).batch(100, 100), (ROTATING_FILES, ROTATING_BYTES));
        assert_eq!(manner(1, false, false).batch(100, 100), (1024, 1 << 30));
    }

    #[test]
    fn memory_is_shared_by_all_who_read() {
        let branch = Branch::directory(std::env::temp_dir()).unwrap();
        for passes in [1, 2, 3, 16, 64] {
            let options = manner(1, false, true).gather(&VerifyOptions::default(), &branch, passes);
            assert!(options.memory_bytes * passes as u64 <= MEMORY_BYTES);
            assert!(options.piece_bytes.is_power_of_two() && options.piece_bytes >= PIECE_MIN_BYTES);
            assert!(options.piece_bytes <= options.memory_bytes, "{passes}");
        }
    }
}
