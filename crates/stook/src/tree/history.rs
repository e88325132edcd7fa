//! Histories of ASC MHL in directories on disk: what their lists say, once it was seen that they
//! are those in the chain, and the next generation.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::outbox::{NewFile, OutFile, Outbox, Replaces};
use super::target::remove_if_empty_through;
use crate::error::{Error, Result};
use crate::format::mhl::{
    CHAIN_NAME, Chain, ChainEntry, FOLDER, FolderDigests, FolderHash, MhlAction, MhlCreator, MhlDigest,
    MhlDirectory, MhlError, MhlFile, MhlHead, MhlItem, MhlProcess, MhlReader, MhlWriter, generation_of,
    list_name,
};
use crate::format::{date_time, now_ns};
use crate::hash::{Digest, HashKind, Hashing};

/// A longer chain is not read.
pub(crate) const CHAIN_MAX: u64 = 16 << 20;
/// Bytes that are read or written at once.
const BLOCK: usize = 256 << 10;
/// What was left out of every list.
const IGNORED: [&str; 3] = [".DS_Store", "ascmhl", "ascmhl/"];

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
    /// The functions whose hashes it has, as they were checked.
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

/// What earlier lists say.
#[derive(Default)]
struct History {
    chain: Chain,
    next_generation: u32,
    /// The hashes of files that are copied now, the first of each function.
    known: HashMap<Box<[u8]>, Vec<Digest>>,
    /// What the last list has left out.
    ignored: Vec<String>,
}

impl Generation<'_> {
    /// Writes the list of these files and, if these are all that there is, of `directories`, and
    /// then the chain: the key of the list. `fail` hears which files do not have the hash that an
    /// earlier list says, or have names that a list has no way to hold.
    ///
    /// # Errors
    /// A history that is damaged; what cannot be written. Then no list is left without a place in the
    /// chain, and no directory without a list.
    pub(crate) fn write(
        &self,
        files: Vec<Listed>,
        directories: Option<Vec<Vec<u8>>>,
        fail: &mut dyn FnMut(&[u8], Error),
    ) -> Result<Vec<u8>> {
        let written = self.try_write(files, directories, fail);
        if written.is_err() {
            let _ = remove_if_empty_through(self.outbox.calls(), &self.path.join(FOLDER));
        }
        written
    }

    fn try_write(
        &self,
        files: Vec<Listed>,
        directories: Option<Vec<Vec<u8>>>,
        fail: &mut dyn FnMut(&[u8], Error),
    ) -> Result<Vec<u8>> {
        let history = self.history(&files)?;
        let date = date_time(now_ns()).unwrap_or_default();
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.to_path_buf());
        let of = path.file_name().unwrap_or_default().as_bytes();
        let name = list_name(history.next_generation, of, self.date);
        let entries = entries_of(files, directories.as_deref(), self.kinds);
        let head = self.head(&history, &date);
        let write = |file: &OutFile| self.write_list(file, (&head, &history), &entries, &date, fail);
        let digest = self.publish_in(&name, Replaces::Nothing, write)?;
        let mut chain = history.chain;
        let generation = history.next_generation;
        chain.entries.push(ChainEntry { generation, name: name.clone().into_bytes(), digest });
        if let Err(error) = self.write_chain(&chain) {
            let _ = self.outbox.calls().unlink(self.folder.as_fd(), OsStr::new(&name));
            return Err(error);
        }
        Ok(key_of(&name))
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

    /// Writes a list, and returns its C4. Files that do not have the hash that an earlier list
    /// says, and names that a list has no way to hold, are failures.
    fn write_list(
        &self,
        file: &OutFile,
        (head, history): (&MhlHead, &History),
        entries: &Entries,
        date: &str,
        fail: &mut dyn FnMut(&[u8], Error),
    ) -> std::result::Result<Digest, MhlError> {
        let out = Hashed { file, at: 0, hashing: Hashing::new(&[HashKind::C4]) };
        let out = BufWriter::with_capacity(BLOCK, out);
        let mut writer = MhlWriter::new(out, head, entries.root.as_ref())?;
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
                Err(MhlError::Refused(fault)) => fail(key, self.io("list", key, io::Error::other(fault))),
                written => written?,
            }
        }
        let out = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(out.hashing.finish().pop().unwrap_or_else(|| Digest::of(HashKind::C4, b"")))
    }

    /// What a list says of a file.
    fn listed(
        &self,
        record: &Listed,
        history: &History,
        date: &str,
        fail: &mut dyn FnMut(&[u8], Error),
    ) -> MhlFile {
        let known = history.known.get(&record.key).map(Vec::as_slice).unwrap_or_default();
        let wanted = record.digests.iter().filter(|digest| self.kinds.contains(&digest.kind));
        let actions: Vec<(&Digest, Option<MhlAction>)> = wanted
            .map(|digest| {
                let first = known.iter().find(|known| known.kind == digest.kind);
                (
                    digest,
                    first.map(|first| if first == digest { MhlAction::Verified } else { MhlAction::Failed }),
                )
            })
            .collect();
        let is_verified = actions.iter().any(|(_, action)| *action == Some(MhlAction::Verified));
        let has_failed = actions.iter().any(|(_, action)| *action == Some(MhlAction::Failed));
        if has_failed {
            let what = "it does not have the hash that an earlier list in ascmhl says";
            fail(&record.key, self.io("verify", &record.key, io::Error::other(what)));
        }
        let digest = |(digest, action): (&Digest, Option<MhlAction>)| MhlDigest {
            digest: digest.clone(),
            action: match action {
                None if known.is_empty() => Some(MhlAction::Original),
                // Another function of the same file was verified at the same time.
                None if is_verified && !has_failed => Some(MhlAction::Verified),
                action => action,
            },
            date: Some(date.to_owned()),
        };
        MhlFile {
            line: 0,
            path: record.key.to_vec(),
            dos_path: None,
            len: Some(record.len),
            modified: record.mtime_ns.and_then(date_time),
            digests: actions.into_iter().map(digest).collect(),
            previous_path: None,
        }
    }

    /// What earlier lists of the destination say of these files. The chain is verified.
    fn history(&self, records: &[Listed]) -> Result<History> {
        let (folder, key) = (&**self.folder, key_of(CHAIN_NAME));
        let last_name = last_generation(folder).map_err(|error| self.io("list", FOLDER.as_bytes(), error))?;
        let damaged =
            |key: &[u8], what: String| self.io("continue the history in", key, io::Error::other(what));
        let chain = match open_in(folder, OsStr::new(CHAIN_NAME)) {
            Ok(file) => {
                let mut input = BufReader::new(file.take(CHAIN_MAX));
                Chain::decode(&mut input).map_err(|error| damaged(&key, error.to_string()))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && last_name == 0 => Chain::default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(&key, "there are lists, and no chain of them".to_owned()));
            }
            Err(error) => return Err(self.io("open", &key, error)),
        };
        let next_generation = chain.next_generation().max(last_name.saturating_add(1));
        let known = records.iter().map(|record| (record.key.clone(), Vec::new())).collect();
        let mut history = History { next_generation, known, ..History::default() };
        for entry in &chain.entries {
            let key = [FOLDER.as_bytes(), b"/", &entry.name].concat();
            add_list(folder, entry, &mut history).map_err(|error| match error {
                MhlError::Io(error) => self.io("read", &key, error),
                error => damaged(&key, error.to_string()),
            })?;
        }
        history.known.retain(|_, digests| !digests.is_empty());
        Ok(History { chain, ..history })
    }
}

/// Adds what a list says, once it was seen that it is the one in the chain.
fn add_list(
    folder: &OwnedFd,
    entry: &ChainEntry,
    history: &mut History,
) -> std::result::Result<(), MhlError> {
    let name = OsStr::from_bytes(&entry.name);
    let mut hashing = Hashing::new(&[entry.digest.kind]);
    let (mut file, mut block) = (open_in(folder, name)?, vec![0; BLOCK]);
    loop {
        match file.read(&mut block) {
            Ok(0) => break,
            Ok(read) => hashing.take(block.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    if hashing.finish().first() != Some(&entry.digest) {
        let what = "it does not have the hash that the chain says: it was changed".to_owned();
        return Err(MhlError::Damaged { line: 1, what });
    }
    let mut reader = MhlReader::new(BufReader::with_capacity(BLOCK, open_in(folder, name)?));
    while let Some(item) = reader.next_item()? {
        match item {
            Ok(MhlItem::Head(head)) => history.ignored = head.ignored,
            Ok(MhlItem::File(file)) => {
                let Some(known) = history.known.get_mut(&file.path[..]) else { continue };
                for MhlDigest { digest, .. } in file.digests {
                    if !known.iter().any(|first| first.kind == digest.kind) {
                        known.push(digest);
                    }
                }
            }
            Ok(_) => {}
            Err(bad) => {
                return Err(MhlError::Damaged { line: bad.line, what: bad.fault.to_string() });
            }
        }
    }
    Ok(())
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

/// The highest generation of which there is a list.
fn last_generation(folder: &OwnedFd) -> io::Result<u32> {
    let mut last = 0;
    for entry in rustix::fs::Dir::read_from(folder)? {
        last = last.max(generation_of(entry?.file_name().to_bytes()).unwrap_or(0));
    }
    Ok(last)
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

/// What a list will have, in its order.
struct Entries {
    root: Option<FolderDigests>,
    all: Vec<Entry>,
}

enum Entry {
    File(Listed),
    Folder(Vec<u8>, FolderDigests),
}

/// Files and, if these are all that there is, directories, each after what is in it.
fn entries_of(mut records: Vec<Listed>, directories: Option<&[Vec<u8>]>, kinds: &[HashKind]) -> Entries {
    records.sort_by(|one, other| in_tree(&one.key, &other.key));
    let Some(directories) = directories else {
        return Entries { root: None, all: records.into_iter().map(Entry::File).collect() };
    };
    let mut directories: Vec<&[u8]> =
        directories.iter().map(Vec::as_slice).filter(|key| !key.is_empty() && !is_ignored(key)).collect();
    directories.sort_by(|one, other| in_tree(one, other));
    let mut tree = Tree { open: vec![(Vec::new(), FolderHash::new(kinds))], all: Vec::new(), kinds };
    let mut directories = directories.into_iter().peekable();
    for record in records {
        while let Some(key) = directories.next_if(|key| in_tree(key, &record.key).is_lt()) {
            tree.enter(key);
        }
        let (folder, name) = split(&record.key);
        tree.enter(folder);
        if let Some((_, hash)) = tree.open.last_mut() {
            hash.file(name, &record.digests);
        }
        tree.all.push(Entry::File(record));
    }
    directories.for_each(|key| tree.enter(key));
    tree.finish()
}

/// Directories on the way to where entries are added, and those that are done.
struct Tree<'a> {
    open: Vec<(Vec<u8>, FolderHash)>,
    all: Vec<Entry>,
    kinds: &'a [HashKind],
}

impl Tree<'_> {
    /// Goes on in this directory, which may be new: all that it does not lie in are done.
    fn enter(&mut self, key: &[u8]) {
        while self.open.last().is_some_and(|(open, _)| !is_within(open, key)) {
            self.close();
        }
        while let Some((open, _)) = self.open.last().filter(|(open, _)| open.len() < key.len()) {
            let from = if open.is_empty() { 0 } else { open.len() + 1 };
            let rest = key.get(from..).unwrap_or_default();
            let end = rest.iter().position(|byte| *byte == b'/').map_or(key.len(), |at| from + at);
            self.open.push((key.get(..end).unwrap_or(key).to_vec(), FolderHash::new(self.kinds)));
        }
    }

    fn close(&mut self) -> Option<FolderDigests> {
        let (key, hash) = self.open.pop()?;
        let digests = hash.finish();
        if let Some((_, above)) = self.open.last_mut() {
            above.folder(split(&key).1, &digests);
            self.all.push(Entry::Folder(key, digests));
            return None;
        }
        Some(digests)
    }

    fn finish(mut self) -> Entries {
        let mut root = None;
        while !self.open.is_empty() {
            root = self.close();
        }
        Entries { root, all: self.all }
    }
}

/// Whether a key is a directory, or in it.
fn is_within(directory: &[u8], key: &[u8]) -> bool {
    let rest = key.strip_prefix(directory);
    directory.is_empty() || rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}

/// The directory and the name of a key.
fn split(key: &[u8]) -> (&[u8], &[u8]) {
    match key.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (key.get(..at).unwrap_or_default(), key.get(at + 1..).unwrap_or_default()),
        None => (b"", key),
    }
}

/// The order in which all that is in a directory comes at once.
fn in_tree(one: &[u8], other: &[u8]) -> Ordering {
    let bytes =
        |key: &[u8]| -> Vec<u8> { key.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect() };
    bytes(one).cmp(&bytes(other))
}
