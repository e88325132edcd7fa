//! The ways of copying one large file that are compared.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;
use stook::copy::{Copy, CopyOptions, CopySource, Destination};
use stook::report::units::{bytes_binary, count};

/// The block and the queue that the document has without options.
pub const PUBLISHED_BLOCK_BYTES: u64 = 128 << 10;
/// Blocks between its threads.
pub const PUBLISHED_QUEUE: usize = 10;
/// The blocks that are tried, from 1K to 1G.
pub const BLOCKS: [u64; 8] = [1 << 10, 4 << 10, 16 << 10, 128 << 10, 1 << 20, 8 << 20, 64 << 20, 1 << 30];
/// The queues that are tried.
pub const QUEUES: [usize; 3] = [1, 10, 1000];

/// A way of copying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum Way {
    /// One thread reads blocks, another writes them, and a queue lies between: what the document
    /// describes.
    Threads {
        /// Bytes of each block.
        block_bytes: u64,
        /// Blocks in the queue.
        queue: usize,
    },
    /// `stook copy`.
    Stook,
    /// `cp` of this system.
    Cp,
}

impl Way {
    /// Without options.
    pub const PUBLISHED: Self = Self::Threads { block_bytes: PUBLISHED_BLOCK_BYTES, queue: PUBLISHED_QUEUE };

    /// Everything that is measured, in the order of a round.
    pub fn all() -> Vec<Self> {
        let blocks = BLOCKS.map(|block_bytes| Self::Threads { block_bytes, queue: PUBLISHED_QUEUE });
        let queues = QUEUES.into_iter().filter(|queue| *queue != PUBLISHED_QUEUE);
        let queues = queues.map(|queue| Self::Threads { block_bytes: PUBLISHED_BLOCK_BYTES, queue });
        blocks.into_iter().chain(queues).chain([Self::Stook, Self::Cp]).collect()
    }

    /// Its name.
    pub fn label(self) -> String {
        match self {
            Self::Threads { block_bytes, queue } => {
                let block = bytes_binary(block_bytes).replace(".00 ", " ").replace(".0 ", " ");
                format!("two threads, blocks of {block}, queue {}", count(queue as u64))
            }
            Self::Stook => "stook copy".to_owned(),
            Self::Cp => "cp".to_owned(),
        }
    }

    /// Memory that it holds at most while it copies a file of this length.
    pub fn memory_bytes(self, file_bytes: u64) -> u64 {
        match self {
            // One block is read and one is written besides those in the queue.
            Self::Threads { block_bytes, queue } => {
                block_bytes.saturating_mul(queue as u64 + 2).min(file_bytes.max(block_bytes))
            }
            Self::Stook | Self::Cp => 64 << 20,
        }
    }

    /// Copies the file to a name that is not there, down to the medium.
    ///
    /// # Errors
    /// Returns an error if reading or writing fails, or not all of it was copied.
    pub fn copy(self, from: &Path, to: &Path) -> anyhow::Result<f64> {
        let began = Instant::now();
        match self {
            Self::Threads { block_bytes, queue } => in_threads(from, to, block_bytes as usize, queue)?,
            Self::Stook => with_stook(from, to)?,
            Self::Cp => with_cp(&mut Command::new("cp"), from, to)?,
        }
        let seconds = began.elapsed().as_secs_f64();
        let lens = [from, to].map(|path| fs::metadata(path).map(|metadata| metadata.len()));
        let [Ok(expected), Ok(found)] = lens else { bail!("{} was not copied", from.display()) };
        ensure!(expected == found, "{} has {found} bytes, not {expected}", to.display());
        Ok(seconds)
    }
}

/// A thread that reads, a queue, and this thread, which writes.
fn in_threads(from: &Path, to: &Path, block_bytes: usize, queue: usize) -> anyhow::Result<()> {
    let source = File::open(from).with_context(|| format!("cannot open {}", from.display()))?;
    let target = File::create_new(to).with_context(|| format!("cannot make {}", to.display()))?;
    // The thread that writes holds one more than those that wait.
    let (sender, receiver) = sync_channel(queue);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || read_all(source, block_bytes, &sender));
        let written = write_all(target, receiver).with_context(|| format!("cannot write {}", to.display()));
        let read = reader.join().unwrap_or_else(|_| bail!("the thread that reads ended"));
        // Where writing failed, the reader only saw that nobody takes blocks any more.
        written.and(read.with_context(|| format!("cannot read {}", from.display())))
    })
}

fn read_all(mut source: File, block_bytes: usize, blocks: &SyncSender<Vec<u8>>) -> anyhow::Result<()> {
    loop {
        let mut block = vec![0; block_bytes];
        let mut filled = 0;
        while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match source.read(rest) {
                Ok(0) => break,
                Ok(got) => filled += got,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        block.truncate(filled);
        if filled == 0 || blocks.send(block).is_err() {
            return Ok(());
        }
    }
}

fn write_all(mut target: File, blocks: Receiver<Vec<u8>>) -> anyhow::Result<()> {
    for block in blocks {
        target.write_all(&block)?;
    }
    Ok(target.sync_all()?)
}

fn with_stook(from: &Path, to: &Path) -> anyhow::Result<()> {
    let directory = to.parent().context("a copy lies in a directory")?;
    // It goes there by its own name, which is that of the copy.
    ensure!(from.file_name() == to.file_name(), "a copy has the name of its source");
    let options = CopyOptions { resume: None, ..CopyOptions::default() };
    let copy = Copy::new(vec![CopySource::file(from)?], vec![Destination::new(directory)]);
    let report = copy.with_options(options).run(&mut ())?;
    ensure!(report.undone() == 0 && !report.interrupted, "{} was not copied", from.display());
    Ok(())
}

/// `cp`, and then what makes it durable, as the others are.
pub(super) fn with_cp(cp: &mut Command, from: &Path, to: &Path) -> anyhow::Result<()> {
    let output = cp.arg("--").arg(from).arg(to).stdin(Stdio::null()).output().context("cannot start cp")?;
    ensure!(output.status.success(), "cp failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let target = File::open(to).with_context(|| format!("cannot open {}", to.display()))?;
    target.sync_all().with_context(|| format!("cannot sync {}", to.display()))
}

/// Compares a copy with its source, byte for byte.
///
/// # Errors
/// Returns an error if they differ, with the first place, or cannot be read.
pub(super) fn compare(from: &Path, to: &Path) -> anyhow::Result<()> {
    let open = |path: &Path| File::open(path).with_context(|| format!("cannot open {}", path.display()));
    let (mut one, mut other) = (open(from)?, open(to)?);
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut at = 0;
    loop {
        let got = one.read(&mut left).with_context(|| format!("cannot read {}", from.display()))?;
        let (left, right) = (left.get(..got).unwrap_or_default(), right.get_mut(..got).unwrap_or_default());
        other.read_exact(right).with_context(|| format!("cannot read {} at {at}", to.display()))?;
        if let Some(inner) = left.iter().zip(right.iter()).position(|(left, right)| left != right) {
            bail!("{} differs from its source at {}", to.display(), at + inner as u64);
        }
        at += got as u64;
        if got == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_copies_all_bytes_whatever_its_block() {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("data");
        let bytes: Vec<u8> = (0..300_001_u32).map(|n| (n % 251) as u8).collect();
        fs::write(&from, &bytes).unwrap();
        let all = Way::all();
        assert_eq!(all.iter().filter(|way| **way == Way::PUBLISHED).count(), 1);
        for (number, way) in all.into_iter().enumerate() {
            let to = place.path().join(number.to_string());
            fs::create_dir(&to).unwrap();
            let to = to.join("data");
            if matches!(way, Way::Threads { block_bytes, .. } if block_bytes > 64 << 20) {
                continue;
            }
            assert!(way.copy(&from, &to).unwrap() > 0.0, "{}", way.label());
            compare(&from, &to).unwrap();
            assert_eq!(fs::read(&to).unwrap(), bytes, "{}", way.label());
            // What is there is not written over.
            if matches!(way, Way::Threads { .. }) {
                assert!(way.copy(&from, &to).is_err());
            }
        }
    }

    #[test]
    fn a_byte_that_differs_and_a_copy_that_is_short_are_found() {
        let place = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| place.path().join(name));
        let mut bytes = vec![7; 2_000_000];
        fs::write(&one, &bytes).unwrap();
        bytes[1_500_000] = 8;
        fs::write(&other, &bytes).unwrap();
        let error = compare(&one, &other).unwrap_err().to_string();
        assert!(error.ends_with("differs from its source at 1500000"), "{error}");
        fs::write(&other, &bytes[..1_000_000]).unwrap();
        assert!(compare(&one, &other).is_err());
    }

    #[test]
    fn what_cannot_be_read_or_written_is_an_error_with_its_path() {
        let place = tempfile::tempdir().unwrap();
        let [missing, to] = ["missing", "to"].map(|name| place.path().join(name));
        let error = format!("{:#}", Way::PUBLISHED.copy(&missing, &to).unwrap_err());
        assert!(error.contains("missing"), "{error}");
        // The device that is always full: the thread that reads must not wait for ever.
        let from = place.path().join("data");
        fs::write(&from, vec![1; 4 << 20]).unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (sender, receiver) = sync_channel(1);
        let source = File::open(&from).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || read_all(source, 4096, &sender));
            assert!(write_all(full, receiver).is_err());
            reader.join().unwrap().unwrap();
        });
    }

    #[test]
    fn memory_is_bounded_by_the_queue_and_by_the_file() {
        let way = |block_bytes, queue| Way::Threads { block_bytes, queue };
        assert_eq!(way(1 << 20, 10).memory_bytes(1 << 40), 12 << 20);
        assert_eq!(way(1 << 30, 10).memory_bytes(64 << 20), 1 << 30);
        assert_eq!(way(64 << 20, 10).memory_bytes(256 << 20), 256 << 20);
    }
}
