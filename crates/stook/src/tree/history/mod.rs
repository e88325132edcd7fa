//! Histories of ASC MHL in directories on disk: what their lists say, once it was seen that they
//! are those in the chain, and the next generation.

mod earlier;
mod entries;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use self::earlier::{History, lock, shown};
pub(crate) use self::earlier::{add_kinds, add_kinds_in, expected};
use self::entries::{Entries, Entry, entries_of};
use super::outbox::{NewFile, OutFile, Outbox, Replaces};
use super::target::remove_if_empty_through;
use crate::error::{Error, Result};
use crate::format::mhl::{
    CHAIN_NAME, Chain, ChainEntry, FOLDER, FolderDigests, KINDS, MhlAction, MhlCreator, MhlDigest,
    MhlDirectory, MhlError, MhlFile, MhlHead, MhlProcess, MhlWriter, list_name,
};
use crate::format::{date_time, now_ns};
use crate::hash::{Digest, HashKind, Hashing};

/// A longer chain is not read.
pub(crate) const CHAIN_MAX: u64 = 16 << 20;
/// How long another program that writes the same history is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are read or written at once.
const BLOCK: usize = 256 << 10;
/// Patterns of what is left out of every list.
pub(crate) const IGNORED: [&str; 3] = [".DS_Store", "ascmhl", "ascmhl/"];

/// A file that a list will have.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) key: Box<[u8]>,
    pub(crate) len: u64,
    pub(crate) mtime_ns: Option<i64>,
    pub(crate) digests: Arc<[Digest]>,
}

/// The next generation of the history of a directory.
pub(crate) struct Generation<'a> {
    /// What its files are made with.
    pub(crate) outbox: &'a Outbox,
    /// The directory.
    pub(crate) path: &'a Path,
    /// The one in it that the lists are in.
    pub(crate) folder: &'a Arc<OwnedFd>,
    /// The functions whose hashes it has, as they were checked. Hashes of others that earlier lists
    /// have are held against these, and are in it where that says something.
    pub(crate) kinds: &'a [HashKind],
    pub(crate) process: MhlProcess,
    /// The date in its name: that of lists of checksums that are written with it. A list of another
    /// date would count for more than these, or less.
    pub(crate) date: &'a str,
    /// What is left out of it, besides what earlier lists have left out.
    pub(crate) ignored: &'a [String],
    /// Whether files are synced before they get their names.
    pub(crate) is_durable: bool,
}

/// A list that was written.
pub(crate) struct Written {
    pub(crate) key: Vec<u8>,
    /// Files in it.
    pub(crate) files: u64,
}

impl Generation<'_> {
    /// Writes the list of these files and, if these are all that there is, of `directories`, and
    /// then the chain. `fail` hears which files do not have the hash that an earlier list says, or
    /// have names that a list has no way to hold, and of damaged histories of directories below.
    ///
    /// # Errors
    /// A history that is damaged, or that another program is writing; what cannot be written. Then
    /// no list is left without a place in the chain, and no directory without a list.
    pub(crate) fn write(
        &self,
        files: Vec<Listed>,
        directories: Option<Vec<Vec<u8>>>,
        fail: &mut dyn FnMut(&[u8], Error),
    ) -> Result<Written> {
        // From what is read to what follows from it nobody else adds a generation.
        let locked = lock(self.outbox.calls(), self.folder, PATIENCE);
        let _locked = locked.map_err(|error| self.io("continue the history in", FOLDER.as_bytes(), error))?;
        let written = self.try_write(files, directories, fail);
        if written.is_err() {
            let _ = remove_if_empty_through(self.outbox.calls(), &self.path.join(FOLDER));
        }
        written
    }

    fn try_write(
        &self,
        mut files: Vec<Listed>,
        directories: Option<Vec<Vec<u8>>>,
        fail: &mut dyn FnMut(&[u8], Error),
    ) -> Result<Written> {
        let history = History::of(self.path, self.folder, &files, fail)?;
        files.retain(|file| !history.leaves_out(&file.key));
        let date = date_time(now_ns()).unwrap_or_default();
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.to_path_buf());
        let of = path.file_name().unwrap_or_default().as_bytes();
        let name = list_name(history.next_generation, of, self.date);
        let entries = entries_of(files, directories.as_deref(), self.kinds);
        let head = self.head(&history, &date);
        let write = |file: &OutFile| self.write_list(file, (&head, &history), &entries, &date, fail);
        let (digest, files) = self.publish_in(&name, Replaces::Nothing, write)?;
        let mut chain = history.chain;
        let generation = history.next_generation;
        chain.entries.push(ChainEntry { generation, name: name.clone().into_bytes(), digest });
        if let Err(error) = self.write_chain(&chain) {
            let _ = self.outbox.calls().unlink(self.folder.as_fd(), OsStr::new(&name));
            return Err(error);
        }
        Ok(Written { key: key_of(&name), files })
    }

    fn write_chain(&self, chain: &Chain) -> Result<()> {
        let encoded = chain.encode();
        let bytes =
            encoded.map_err(|error| self.io("write", &key_of(CHAIN_NAME), io::Error::other(error)))?;
        self.publish_in(CHAIN_NAME, Replaces::All, |file| Ok(file.write_at(&bytes, 0)?))
    }

    /// The error of something that is done to what has a key.
    fn io(&self, operation: &'static str, key: &[u8], error: io::Error) -> Error {
        Error::io(operation, self.path.join(OsStr::from_bytes(key)), error)
    }

    /// The same of a file that a list is about.
    fn about(&self, operation: &'static str, key: &[u8], error: io::Error) -> Error {
        Error::io(operation, shown(self.path, key), error)
    }

    /// Writes a file in the directory of the lists, durable as others are, and gives it its name.
    fn publish_in<T>(
        &self,
        name: &str,
        replaces: Replaces,
        write: impl FnOnce(&OutFile) -> std::result::Result<T, MhlError>,
    ) -> Result<T> {
        let key = key_of(name);
        let io = |operation| {
            let key = key.clone();
            move |error| self.io(operation, &key, error)
        };
        let new = NewFile { mode: None, is_private: false, replaces };
        let mut file = self.outbox.file(self.folder, new).map_err(io("create"))?;
        let written = write(&file).map_err(|error| match error {
            MhlError::Io(error) => io("write")(error),
            error => io("write")(io::Error::other(error)),
        })?;
        if self.is_durable {
            file.sync().map_err(io("sync"))?;
        }
        file.publish(OsStr::new(name), None).map_err(|(operation, error)| io(operation)(error))?;
        Ok(written)
    }

    fn head(&self, history: &History, date: &str) -> MhlHead {
        let creator = MhlCreator {
            date: date.to_owned(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            tool: "stook".to_owned(),
            tool_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            ..MhlCreator::default()
        };
        let mut ignored = history.ignored.clone();
        for pattern in IGNORED.map(str::to_owned).into_iter().chain(self.ignored.iter().cloned()) {
            if !ignored.contains(&pattern) {
                ignored.push(pattern);
            }
        }
        MhlHead { creator, process: self.process, ignored }
    }

    /// Writes a list, and returns its C4 and how many files are in it. Files that do not have the
    /// hash that an earlier list says, and names that a list has no way to hold, are failures.
    fn write_list(
        &self,
        file: &OutFile,
        (head, history): (&MhlHead, &History),
        entries: &Entries,
        date: &str,
        fail: &mut dyn FnMut(&[u8], Error),
    ) -> std::result::Result<(Digest, u64), MhlError> {
        let out = Hashed { file, at: 0, hashing: Hashing::new(&[HashKind::C4]) };
        let out = BufWriter::with_capacity(BLOCK, out);
        let mut writer = MhlWriter::new(out, head, entries.root.as_ref())?;
        let mut files = 0;
        for entry in &entries.all {
            let (key, written) = match entry {
                Entry::File(record) => {
                    let listed = self.listed(record, history, date, fail);
                    (&record.key[..], writer.file(&listed))
                }
                Entry::Folder(key, digests) => {
                    let FolderDigests { content, structure } = digests.clone();
                    let (line, modified, previous_path) = (0, None, None);
                    let path = key.clone();
                    let folder = MhlDirectory { line, path, modified, content, structure, previous_path };
                    (&key[..], writer.directory(&folder))
                }
            };
            match written {
                Err(MhlError::Refused(fault)) => fail(key, self.about("list", key, io::Error::other(fault))),
                written => {
                    written?;
                    files += u64::from(matches!(entry, Entry::File(_)));
                }
            }
        }
        history.references.iter().try_for_each(|reference| match writer.reference(reference) {
            // What is in it was known all the same.
            Err(MhlError::Refused(fault)) => {
                let key = &reference.path[..];
                fail(key, self.about("refer to", key, io::Error::other(fault)));
                Ok(())
            }
            written => written,
        })?;
        let out = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        let digest = out.hashing.finish().pop();
        Ok((digest.unwrap_or_else(|| Digest::of(HashKind::C4, b"")), files))
    }

    /// What a list says of a file. One that has failed gets no hash by which it would be good
    /// again: only what was held against earlier lists.
    fn listed(
        &self,
        record: &Listed,
        history: &History,
        date: &str,
        fail: &mut dyn FnMut(&[u8], Error),
    ) -> MhlFile {
        let known = history.known_of(&record.key);
        let held = |digest: &Digest| {
            let mut same = known.iter().filter(|known| known.kind == digest.kind).peekable();
            same.peek()?;
            Some(if same.all(|known| known == digest) { MhlAction::Verified } else { MhlAction::Failed })
        };
        let allowed = record.digests.iter().filter(|digest| KINDS.contains(&digest.kind));
        let all: Vec<(&Digest, Option<MhlAction>)> = allowed.map(|digest| (digest, held(digest))).collect();
        let is_asked = |digest: &Digest| self.kinds.contains(&digest.kind);
        let has = |wanted| all.iter().any(|(_, action)| *action == Some(wanted));
        let (is_verified, has_failed) = (has(MhlAction::Verified), has(MhlAction::Failed));
        // A hash of a new function is as good as the one that was verified beside it.
        let has_new = all.iter().any(|(digest, action)| action.is_none() && is_asked(digest));
        let is_written = |digest: &Digest, action: Option<MhlAction>| match action {
            Some(MhlAction::Failed) => true,
            Some(_) => is_asked(digest) || has_new && !has_failed,
            None => is_asked(digest) && !has_failed,
        };
        if has_failed {
            let what = "it does not have the hash that an earlier list in ascmhl says";
            fail(&record.key, self.about("verify", &record.key, io::Error::other(what)));
        }
        let digest = |(digest, action): (&Digest, Option<MhlAction>)| MhlDigest {
            digest: digest.clone(),
            action: match action {
                None if known.is_empty() => Some(MhlAction::Original),
                None if is_verified => Some(MhlAction::Verified),
                action => action,
            },
            date: Some(date.to_owned()),
        };
        let digests = all.iter().copied().filter(|(digest, action)| is_written(digest, *action)).map(digest);
        MhlFile {
            line: 0,
            path: record.key.to_vec(),
            dos_path: None,
            len: Some(record.len),
            modified: record.mtime_ns.and_then(date_time),
            digests: digests.collect(),
            previous_path: None,
        }
    }
}

/// Whether a path is left out of every list: a history, of a directory below, too, and what macOS
/// leaves.
pub(crate) fn is_ignored(key: &[u8]) -> bool {
    let is_name = |name: &[u8]| IGNORED.iter().any(|ignored| ignored.as_bytes() == name);
    key.split(|byte| *byte == b'/').any(is_name)
}

/// The key of a file in the directory of the lists.
fn key_of(name: &str) -> Vec<u8> {
    [FOLDER, "/", name].concat().into_bytes()
}

/// Opens a regular file, and follows no link.
pub(crate) fn open_in(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(io::Error::other("it is a link, which is not followed")),
        opened => File::from(opened?),
    };
    if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file)
}

/// Writes to a file, and hashes what is written.
struct Hashed<'a> {
    file: &'a OutFile,
    at: u64,
    hashing: Hashing,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.at)?;
        self.hashing.take(bytes);
        self.at = self.at.saturating_add(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
