//! [`Mend`]: the bad blocks of one file, from a good copy.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::blocks::SourceBytes;
use super::repair::Damaged;
use crate::engine::Backend;
use crate::error::{Error, Result, chain};
use crate::extent::ByteRange;
use crate::format::proof::{BLOCK_BYTES, Proof};
use crate::source::{AccessRule, Source, read_range};
use crate::tree::existing::{ctime_of, mtime_of};
use crate::tree::outbox::{Calls as _, System, again, write_all};
use crate::tree::target::{self, Target};
use crate::verify::{BadBlocks, Branch};

/// Blocks that are held from when they were proven until they are written. Of more than these, all
/// are proven first, and read again.
const HELD_MAX: u64 = 64;

/// What a file was when it was found damaged: what is no more so was changed by somebody, and is
/// not repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    inode: u64,
    len: i64,
    mtime_ns: i128,
    pub(super) ctime_ns: i128,
}

impl Seen {
    fn of(stat: &Stat) -> Self {
        let (mtime_ns, ctime_ns) = (mtime_of(stat), ctime_of(stat));
        Self { inode: stat.st_ino, len: stat.st_size, mtime_ns, ctime_ns }
    }

    /// What a path of a destination is now; `None` where nothing is there. No link is followed.
    pub(super) fn at(path: &Path, key: &[u8]) -> io::Result<Option<Self>> {
        let parts = parts(key)?;
        let (name, parents) = parts.split_last().ok_or(io::ErrorKind::InvalidInput)?;
        let Some(parent) = Target::at(path)?.existing(parents)? else { return Ok(None) };
        match statat(&*parent, *name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Self::of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn parts(key: &[u8]) -> io::Result<Vec<&OsStr>> {
    target::parts(key).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// A file of which bad blocks are written.
pub(super) struct Mend<'a> {
    pub(super) damaged: &'a Damaged,
    pub(super) path: &'a Path,
    pub(super) key: &'a [u8],
    pub(super) seen: Seen,
    pub(super) good: &'a Branch,
    /// Whether blocks are written although the good copy does not have all that are bad, or is of
    /// another length.
    pub(super) force: bool,
    /// Whether nothing is written.
    pub(super) dry_run: bool,
    /// Bytes that were read of the good copy.
    pub(super) read_bytes: u64,
    /// Blocks that were written.
    pub(super) written: u64,
    /// Bytes at the end that the list does not know, which were cut off.
    pub(super) cut_bytes: u64,
}

/// What the good copy has of bad blocks.
#[derive(Default)]
struct Proven {
    /// Those that are held.
    held: Vec<(ByteRange, Bytes)>,
    /// Whether all are.
    is_whole: bool,
    /// How many it has.
    found: u64,
    /// The first that it does not have, and why.
    lacking: Option<(ByteRange, Option<Error>)>,
}

impl Mend<'_> {
    /// Writes the bad blocks. Of very many only the first thousand ranges are known at once. Before
    /// anything is written, all of these were proven in the good copy, which has the length that
    /// the list says: else somebody changed one of the two, and a mixture would be neither.
    pub(super) fn run(&mut self, bad: &BadBlocks, go_on: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        let mut bad = bad.clone();
        loop {
            self.write(&bad, go_on)?;
            if self.dry_run || bad.ranges.iter().map(ByteRange::len).sum::<u64>() / BLOCK_BYTES + 1 >= bad.bad
            {
                return Ok(());
            }
            let before = bad.bad;
            match self.damaged.bad_blocks(self.key, &mut |_| go_on(0))? {
                Some(left) if left.bad == 0 => return Ok(()),
                Some(left) if left.bad < before && left.unknown == 0 => bad = left,
                _ => return Err(self.refused("what is read back from it is not what was written")),
            }
            // Its times are those of the last write.
            self.seen =
                Seen::at(self.path, self.key).ok().flatten().ok_or_else(|| self.refused("it is gone"))?;
        }
    }

    fn shown(&self) -> PathBuf {
        self.path.join(OsStr::from_bytes(self.key))
    }

    fn refused(&self, why: &str) -> Error {
        Error::io("repair", self.shown(), io::Error::other(why.to_owned()))
    }

    fn write(&mut self, bad: &BadBlocks, go_on: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        let mut proof = self.proof()?;
        let id = self.good.find(self.key)?.ok_or_else(|| self.refused("the good copy has no such file"))?;
        let from = self.good.tree.open(id)?;
        if from.len() != proof.file_len() && !self.force {
            return Err(self.refused(&format!(
                "the good copy has {} bytes, and the list {}: one of them was changed (`--force` writes what is \
                 proven)",
                from.len(),
                proof.file_len()
            )));
        }
        let proven = self.proven(bad, &mut proof, &*from, go_on)?;
        let lacks = |(range, why): &(_, Option<Error>)| self.lacks(*range, why.as_ref(), proven.found);
        let lacking = proven.lacking.as_ref().map(lacks);
        if self.dry_run || lacking.is_some() && !self.force {
            // What would be written, as it counts when it is.
            if self.dry_run && self.force {
                self.written = proven.found;
            }
            let len = u64::try_from(self.seen.len).unwrap_or(0);
            self.cut_bytes = if lacking.is_some() { 0 } else { len.saturating_sub(proof.file_len()) };
            return lacking.map_or(Ok(()), Err);
        }
        self.write_proven(&proven, (bad, &mut proof), &*from, id, go_on)?;
        lacking.map_or(Ok(()), Err)
    }

    /// Reads and proves all bad blocks.
    fn proven(
        &mut self,
        bad: &BadBlocks,
        proof: &mut Proof<SourceBytes>,
        from: &dyn Source,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Proven> {
        let mut proven = Proven { is_whole: bad.bad <= HELD_MAX, ..Proven::default() };
        for number in blocks(bad) {
            let Some(range) = proof.range_of(number) else { continue };
            if range.start() >= from.len() {
                // It has none of those that follow, either.
                _ = proven.lacking.get_or_insert((range, None));
                break;
            }
            let block = self.block(number, range, proof, from)?;
            proven.found += u64::from(block.is_ok());
            match block {
                Ok(block) if proven.is_whole => proven.held.push((range, block)),
                Ok(_) => {}
                Err(why) => _ = proven.lacking.get_or_insert((range, why)),
            }
            if !go_on(range.len()) {
                return Err(self.interrupted());
            }
        }
        Ok(proven)
    }

    /// A block of the good copy, if that has the bytes that the list says; why not, if it could not
    /// be read.
    fn block(
        &mut self,
        number: u64,
        range: ByteRange,
        proof: &mut Proof<SourceBytes>,
        from: &dyn Source,
    ) -> Result<std::result::Result<Bytes, Option<Error>>> {
        let block = match block_of(from, range) {
            Ok(block) => block,
            // Damaged there, too.
            Err(error) => return Ok(Err(Some(error))),
        };
        self.read_bytes += block.len() as u64;
        match proof.has(number, &block) {
            Ok(true) => Ok(Ok(block)),
            Ok(false) => Ok(Err(None)),
            Err(error) => Err(self.refused(&error.to_string())),
        }
    }

    fn write_proven(
        &mut self,
        proven: &Proven,
        (bad, proof): (&BadBlocks, &mut Proof<SourceBytes>),
        from: &dyn Source,
        id: crate::tree::NodeId,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let shown = self.shown();
        let failed = |operation| {
            let shown = shown.clone();
            move |error| Error::io(operation, &shown, error)
        };
        let file = open(self.path, self.key).map_err(failed("open"))?;
        let stat = || fstat(&file).map_err(|error| failed("look at")(error.into()));
        let before = stat()?;
        if Seen::of(&before) != self.seen {
            return Err(self.refused("it was changed since it was verified"));
        }
        for (range, block) in &proven.held {
            write_all(&System, &file, block, range.start()).map_err(failed("write"))?;
            self.written += 1;
        }
        for number in blocks(bad).filter(|_| !proven.is_whole) {
            let Some(range) = proof.range_of(number) else { continue };
            if range.start() >= from.len() {
                break;
            }
            // What is not there any more is found when the file is verified again.
            if let Ok(block) = self.block(number, range, proof, from)? {
                write_all(&System, &file, &block, range.start()).map_err(failed("write"))?;
                self.written += 1;
            }
            if !go_on(range.len()) {
                return Err(self.interrupted());
            }
        }
        // Only now is it known what the end of the file is. What somebody appended meanwhile stays.
        let more = u64::try_from(before.st_size).unwrap_or(0).saturating_sub(proof.file_len());
        if more > 0 && proven.lacking.is_none() {
            if stat()?.st_size != before.st_size {
                return Err(self.refused("it was changed since it was verified"));
            }
            again(|| System.set_len(&file, proof.file_len())).map_err(failed("set the length of"))?;
            self.cut_bytes = more;
        }
        // Its bytes are those of the good copy again, and so is its time: a write that was killed
        // left another one.
        let time_ns = self.good.tree.node(id)?.mtime_ns.filter(|_| proven.lacking.is_none());
        if let Some(ns) = time_ns.or_else(|| i64::try_from(mtime_of(&before)).ok()) {
            again(|| System.set_mtime(file.as_fd(), ns)).map_err(failed("set the time of"))?;
        }
        System.sync(file.as_fd()).map_err(failed("sync"))
    }

    fn interrupted(&self) -> Error {
        Error::io("repair", self.shown(), io::ErrorKind::Interrupted.into())
    }

    /// That the good copy does not have a block.
    fn lacks(&self, range: ByteRange, why: Option<&Error>, found: u64) -> Error {
        let (start, end) = (range.start() / BLOCK_BYTES, range.end().div_ceil(BLOCK_BYTES));
        let why = why.map(|error| format!(": {}", chain(error))).unwrap_or_default();
        let advice = if self.force || found == 0 { "" } else { " (`--force` writes what it has)" };
        self.refused(&format!(
            "the good copy does not have the bytes that the list says in {start}MiB..{end}MiB{why}{advice}"
        ))
    }

    fn proof(&self) -> Result<Proof<SourceBytes>> {
        let digest = self.damaged.digest(self.key);
        let digest = digest.ok_or_else(|| self.refused("its list has no BLAKE3 of it"))?;
        let proof = self.damaged.proofs().open(&digest)?;
        proof.map(|(_, proof)| proof).ok_or_else(|| self.refused("its proof is gone"))
    }
}

/// The numbers of the bad blocks that are known. What is beyond the end begins within a block.
fn blocks(bad: &BadBlocks) -> impl Iterator<Item = u64> + use<> {
    let ranges = bad.ranges.clone().into_iter().filter(|range| range.start().is_multiple_of(BLOCK_BYTES));
    ranges.flat_map(|range| range.start() / BLOCK_BYTES..range.end().div_ceil(BLOCK_BYTES))
}

/// Whether a file of a destination may be written in place: not if it has other names, which may be
/// those of snapshots, and of what was changed since on purpose. What else is wrong with it shows
/// when it is written.
pub(super) fn may_write(path: &Path, key: &[u8]) -> bool {
    match open(path, key) {
        Ok(file) => fstat(&file).is_ok_and(|stat| stat.st_nlink <= 1),
        Err(error) => error.kind() != io::ErrorKind::PermissionDenied,
    }
}

/// A file of a destination, to be written in place: no link is followed below it.
fn open(path: &Path, key: &[u8]) -> io::Result<File> {
    let parts = parts(key)?;
    let (name, parents) = parts.split_last().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = Target::at(path)?.existing(parents)?.ok_or(io::ErrorKind::NotFound)?;
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(&*parent, *name, flags, Mode::empty())?);
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// A block of the good copy; shorter where that ends within it.
fn block_of(from: &dyn Source, range: ByteRange) -> Result<Bytes> {
    let end = range.end().min(from.len());
    let Some(range) = ByteRange::new(range.start(), end) else { return Ok(Bytes::new()) };
    read_range(&Backend::Auto, from, range, AccessRule::Auto.decide(from, range))
}
