//! What is there already where a file is to go.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::source::zeroes;

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
    /// What is there is compared, and takes its place only if it is another.
    ReplaceIfOther,
    /// What is there is compared, and stays.
    Compare,
}

impl Plan {
    /// Whether what is there may be replaced.
    pub(crate) fn replaces(self) -> bool {
        matches!(self, Self::Replace | Self::ReplaceIfOther)
    }

    /// Whether what is there is compared.
    pub(crate) fn compares(self) -> bool {
        matches!(self, Self::ReplaceIfOther | Self::Compare)
    }
}

impl Overwrite {
    /// What is done at a name, for something with this modification time.
    ///
    /// # Errors
    /// When a directory is there, which nothing takes the place of, or the system does not say.
    pub(crate) fn plan(self, parent: &OwnedFd, name: &OsStr, mtime_ns: Option<i64>) -> io::Result<Plan> {
        let Some(there) = target::status(parent, name)? else { return Ok(Plan::Write) };
        if FileType::from_raw_mode(there.st_mode).is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(match self {
            Self::Never => Plan::Compare,
            Self::Older if mtime_ns.is_some_and(|ns| mtime_of(&there) < i128::from(ns)) => Plan::Replace,
            Self::Older => Plan::Compare,
            Self::Different => Plan::ReplaceIfOther,
            Self::Always => Plan::Replace,
        })
    }
}

/// The modification time, ns.
pub(crate) fn mtime_of(status: &Stat) -> i128 {
    i128::from(status.st_mtime) * 1_000_000_000 + i128::from(status.st_mtime_nsec)
}

/// A file that is there, compared with bytes as they come.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// `None` when it is known to be another.
    file: Option<File>,
    buffer: Vec<u8>,
}

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
        // It may have become something else since.
        let is_file = |file: &OwnedFd| -> io::Result<bool> {
            Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode).is_file())
        };
        let file = match opened {
            Some(file) if is_file(&file)? => Some(File::from(file)),
            _ => None,
        };
        Ok(Self { file, buffer: Vec::new() })
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

    /// Compares this many zeroes.
    pub(crate) fn take_zeroes(&mut self, mut len: u64) -> io::Result<()> {
        while len > 0 && self.is_same() {
            let now = zeroes(len);
            self.take(now)?;
            len -= now.len() as u64;
        }
        Ok(())
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
