//! What is there already where a file is to go.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use crate::source::zeroes;

use super::outbox::Replaces;
use super::target;

/// What becomes of files and links that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// They stay.
    #[default]
    Never,
    /// Those with an earlier modification time are replaced.
    Older,
    /// Those with other content are replaced.
    Different,
    /// All are replaced, and directories get mode and time.
    Always,
}

/// What is done where a file or link is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing is there: it is written.
    Write,
    /// It takes the place of what is there.
    Replace,
    /// The same, while what is there was modified before this time, ns.
    ReplaceOlder(i64),
    /// What is there is compared, and takes its place only if it is another.
    ReplaceIfOther,
    /// What is there is compared, and stays.
    Compare,
}

impl Plan {
    /// What may be replaced.
    pub(crate) fn replaces(self) -> Replaces {
        match self {
            Self::Write | Self::Compare => Replaces::Nothing,
            Self::Replace | Self::ReplaceIfOther => Replaces::All,
            Self::ReplaceOlder(ns) => Replaces::OlderThan(ns),
        }
    }

    /// Whether what is there is compared.
    pub(crate) fn compares(self) -> bool {
        matches!(self, Self::ReplaceIfOther | Self::Compare)
    }
}

impl Overwrite {
    /// What is done where this is, for something that would have this modification time there.
    ///
    /// # Errors
    /// When it is a directory, which nothing takes the place of.
    pub(crate) fn plan(self, there: &Stat, mtime_ns: Option<i64>) -> io::Result<Plan> {
        if FileType::from_raw_mode(there.st_mode).is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(match (self, mtime_ns) {
            (Self::Older, Some(ns)) if mtime_of(there) < i128::from(ns) => Plan::ReplaceOlder(ns),
            (Self::Never | Self::Older, _) => Plan::Compare,
            (Self::Different, _) => Plan::ReplaceIfOther,
            (Self::Always, _) => Plan::Replace,
        })
    }
}

/// The modification time, ns.
pub(crate) fn mtime_of(status: &Stat) -> i128 {
    i128::from(status.st_mtime) * 1_000_000_000 + i128::from(status.st_mtime_nsec)
}

/// The time of the last change of a file or its attributes, in nanoseconds since 1970.
pub(crate) fn ctime_of(status: &Stat) -> i128 {
    i128::from(status.st_ctime) * 1_000_000_000 + i128::from(status.st_ctime_nsec)
}

/// A file that is there, compared with bytes as they come.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// `None` when it is known to be another.
    file: Option<File>,
    /// What the system said of it when it was opened.
    seen: Option<Stat>,
    buffer: Vec<u8>,
}

/// A shorter hole is read.
const HOLE_LEN_MIN: u64 = 64 << 20;

/// Read at once, in bytes.
const READ_LEN: usize = 256 << 10;

impl Comparison {
    /// Opens the file with a name; a link, a pipe or a device is another in any case, and not
    /// opened.
    pub(crate) fn open(parent: &OwnedFd, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let is_file = target::status(parent, name)?
            .is_some_and(|there| FileType::from_raw_mode(there.st_mode).is_file());
        let opened = match is_file.then(|| rustix::fs::openat(parent, name, flags, Mode::empty())) {
            None | Some(Err(Errno::LOOP)) => None,
            Some(opened) => Some(opened?),
        };
        let seen = opened.as_ref().map(rustix::fs::fstat).transpose()?;
        // It may have become something else since.
        let seen = seen.filter(|seen| FileType::from_raw_mode(seen.st_mode).is_file());
        let file = opened.filter(|_| seen.is_some()).map(File::from);
        Ok(Self { file, seen, buffer: Vec::new() })
    }

    /// With a file that is known to be another.
    pub(crate) fn unlike() -> Self {
        Self { file: None, seen: None, buffer: Vec::new() }
    }

    /// What the system said of the file when it was opened, if it is one.
    pub(crate) fn seen(&self) -> Option<Stat> {
        self.seen
    }

    /// Whether all so far was the same.
    pub(crate) fn is_same(&self) -> bool {
        self.file.is_some()
    }

    /// Compares the next bytes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Some(file) = &mut self.file else { return Ok(()) };
            self.buffer.resize(bytes.len().min(READ_LEN), 0);
            let read = retried(file, &mut self.buffer)?;
            let (now, later) = bytes.split_at(read.min(bytes.len()));
            if read == 0 || self.buffer.get(..read) != Some(now) {
                self.file = None;
            }
            bytes = later;
        }
        Ok(())
    }

    /// Compares this many zeroes. A long hole of the file is not read.
    pub(crate) fn take_zeroes(&mut self, mut len: u64) -> io::Result<()> {
        if len >= HOLE_LEN_MIN {
            len -= self.skip_hole(len)?;
        }
        while len > 0 && self.is_same() {
            let now = zeroes(len);
            self.take(now)?;
            len -= now.len() as u64;
        }
        Ok(())
    }

    /// Goes on to where the file has bytes again, or ends; how far, of so many.
    fn skip_hole(&mut self, len: u64) -> io::Result<u64> {
        let Some(file) = &mut self.file else { return Ok(0) };
        // File systems have reported bytes as holes that were not on the medium yet.
        if file.sync_data().is_err() {
            return Ok(0);
        }
        let (at, end) = (file.stream_position()?, file.metadata()?.len());
        let next = match rustix::fs::seek(&*file, SeekFrom::Data(at)) {
            Ok(next) => next,
            Err(Errno::NXIO) => end,
            // Not every file system knows where its holes are.
            Err(_) => at,
        };
        let next = next.clamp(at, at.saturating_add(len)).min(end.max(at));
        file.seek(io::SeekFrom::Start(next))?;
        Ok(next - at)
    }

    /// Whether the file ends here, too.
    pub(crate) fn finish(mut self) -> io::Result<bool> {
        let Some(file) = &mut self.file else { return Ok(false) };
        Ok(retried(file, &mut [0])? == 0)
    }
}

fn retried(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Whether what has a name is a symbolic link to this.
pub(crate) fn is_link_to(parent: &OwnedFd, name: &OsStr, target: &[u8]) -> io::Result<bool> {
    match rustix::fs::readlinkat(parent, name, Vec::new()) {
        Ok(there) => Ok(there.as_bytes() == target),
        Err(Errno::INVAL) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
