//! What a mount did: counted by the mount, asked for through the mountpoint.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use stook::stitch::{MergedCache, MergedStatistics};

use crate::error::{Error, Result};
use crate::log::one_line;
use crate::mountpoint::is_mounted;

/// The file in the mountpoint that has the status. It is in no list, so that nobody copies it, and
/// the kernel asks for it each time.
pub(crate) const STATUS_NAME: &str = ".stook.status";
/// The same of a file that is mounted: an extended attribute of it, which no list has either.
pub(crate) const STATUS_XATTR: &str = "user.stook.status";

/// How a mount answers, chosen from what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A tree that never changes, without large files: nothing is opened, and small files are
    /// pushed.
    Small,
    /// A tree that never changes, with large files, which are opened; small files are pushed.
    Large,
    /// A tree that may change: names and files are asked for again after a second.
    Live,
}

/// How many requests of each kind the kernel sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the kinds are those of the kernel")]
pub struct Requests {
    pub lookup: u64,
    pub getattr: u64,
    pub readlink: u64,
    pub opendir: u64,
    pub readdir: u64,
    pub open: u64,
    pub read: u64,
    pub xattr: u64,
    pub statfs: u64,
    pub lseek: u64,
}

/// What was put into the page cache before it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pushed {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were read all the same: before they were pushed, or after their pages were
    /// dropped.
    pub read_too: u64,
    /// Files that were read before their directory was listed.
    pub read_ahead: u64,
    /// Passes over the source that read them.
    pub passes: u64,
}

/// What became of files that are made of many, where copies of them are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Merged {
    /// Opens of a file that had a copy.
    pub found: u64,
    /// Copies that were made.
    pub built: u64,
    /// Opens of a file that is read from its parts.
    pub stitched: u64,
}

impl Merged {
    pub(crate) fn of(cache: &MergedCache) -> Self {
        let MergedStatistics { found, built, stitched, .. } = cache.statistics();
        Self { found, built, stitched }
    }
}

/// What cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hidden {
    /// How many entries.
    pub entries: u64,
    /// The first hundred, and why.
    pub named: Vec<String>,
}

/// Of what cannot be shown, so much is named.
const NAMED_MAX: usize = 100;

impl Hidden {
    pub(crate) fn note(&mut self, named: &str) {
        self.entries += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(one_line(named));
        }
    }
}

/// What a mount did so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// What is mounted.
    pub source: String,
    /// The process that serves it.
    pub process: u32,
    /// How it answers.
    pub mode: Mode,
    /// Threads that answer.
    pub threads: u64,
    /// Files, directories and all else in it, where the tree never changes.
    pub nodes: Option<u64>,
    /// What the kernel asked for.
    pub requests: Requests,
    /// Bytes that were read for requests.
    pub read_bytes: u64,
    /// Opens of whole files on disk that the kernel reads by itself.
    pub passed_through: u64,
    /// What was pushed.
    pub pushed: Pushed,
    /// What became of copies, if any are used.
    pub merged: Option<Merged>,
    /// What is in the tree and not shown.
    pub hidden: Hidden,
    /// How many lines the log had.
    pub log_lines: u64,
    /// The last of them: what could not be read, and why.
    pub log: Vec<String>,
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// Counts while the mount is served.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            /// Opens of files that the kernel reads by itself.
            pub(crate) passed: AtomicU64,
            pub(crate) read_bytes: AtomicU64,
            pub(crate) pushed_files: AtomicU64,
            pub(crate) pushed_bytes: AtomicU64,
            pub(crate) read_too: AtomicU64,
            pub(crate) read_ahead: AtomicU64,
            pub(crate) passes: AtomicU64,
        }

        impl Counters {
            pub(crate) fn requests(&self) -> Requests {
                Requests { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}
counters!(lookup, getattr, readlink, opendir, readdir, open, read, xattr, statfs, lseek);

impl Counters {
    pub(crate) fn pushed(&self) -> Pushed {
        Pushed {
            files: self.pushed_files.load(Ordering::Relaxed),
            bytes: self.pushed_bytes.load(Ordering::Relaxed),
            read_too: self.read_too.load(Ordering::Relaxed),
            read_ahead: self.read_ahead.load(Ordering::Relaxed),
            passes: self.passes.load(Ordering::Relaxed),
        }
    }
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The longest status, in bytes.
const STATUS_LEN_MAX: usize = 64 << 10;

/// Asks what is mounted there for its status.
///
/// # Errors
/// When nothing of Stook is mounted there, or it does not answer.
pub fn status_of(mountpoint: &Path) -> Result<Status> {
    let failed =
        |source| Error::Io { operation: "ask for the status of", path: mountpoint.to_path_buf(), source };
    let nothing = || {
        let what = "nothing is mounted there by `stook mount`".to_owned();
        Error::Mountpoint { path: mountpoint.to_path_buf(), what }
    };
    if !is_mounted(mountpoint).map_err(failed)? {
        return Err(nothing());
    }
    let text = match std::fs::read(mountpoint.join(STATUS_NAME)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let mut value = vec![0; STATUS_LEN_MAX];
            let len = rustix::fs::getxattr(mountpoint, STATUS_XATTR, &mut value);
            value.truncate(len.map_err(|error| failed(error.into()))?);
            value
        }
        Err(error) => return Err(failed(error)),
    };
    serde_json::from_slice(&text).map_err(|error| failed(error.into()))
}
