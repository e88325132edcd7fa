//! Originals removed, when the pack was read back and holds the same.
//!
//! A walk of its own: every file is read again, its record is read again, and only if both are the
//! same, and the file is still what was read, its name goes. Nothing of what packing found is
//! believed. Stopped anywhere, everything is in the pack, in the tree, or in both.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::existing::Known;
use super::packing::{Abort, Failure, PackTree};
use super::roots::{EntryLocation, Roots};
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::FileKind;
use crate::pack::key::Key;
use crate::pack::list::hard_links::HOPS_MAX;
use crate::pack::read::record::Record;
use crate::pack::read::stream::RecordReader;
use crate::pack::state::open::Pack;
use crate::tree::xattrs::names_text;
use crate::tree::{Xattr, Xattrs, target};
use crate::walk::{
    Content, FileBytes, Kind, LargeFile, Status, Walk, WalkEvent, WalkItem, WalkOptions, xattrs,
};

/// Small files and links whose records are read at once: how many, and how many bytes.
const BATCH_LEN: usize = 256;
const BATCH_BYTES: u64 = 8 << 20;

/// Directories whose records are looked up at once.
const DIRECTORIES_LEN: usize = 4096;

/// What was removed.
#[derive(Debug, Default)]
pub struct MoveSummary {
    /// Names of regular files.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes of files that were compared with their records; of a file with several names once.
    pub bytes: u64,
    /// What stays, though it was to go, and why. What is not packed at all stays without being
    /// named.
    pub failures: Vec<Failure>,
    /// Whether it was stopped by the caller before its end.
    pub interrupted: bool,
}

impl PackTree<'_> {
    /// Removes from the trees what `pack` holds: files, links, and directories that are empty then,
    /// never roots. What has a key of `failed` stays.
    ///
    /// The pack has to be on the medium, and should be opened with
    /// [`AccessRule::Direct`](crate::pack::AccessRule::Direct), so that it is read from there.
    ///
    /// `progress` receives entries and bytes so far; when it says no, this stops where it is.
    ///
    /// # Errors
    /// What reading the pack meets, a root that cannot be opened, or [`Error::Invalid`] when the
    /// pack does not [say](crate::pack::PackWriter::set_moved) that files are moved into it.
    pub fn remove_packed(
        &self,
        pack: &Pack,
        failed: &[Failure],
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<MoveSummary> {
        if !pack.is_moved_into() {
            return Err(Error::Invalid("the pack does not say that files are moved into it".into()));
        }
        let own = self.own_keys()?;
        let walk = Walk::new(&self.roots)?
            .options(WalkOptions { threads: self.threads, ..WalkOptions::default() })
            .select(|key, kind| self.decide(&own, key, kind))
            .wanted(|candidate| candidate.status.node.links < 2);
        let mut moving = Moving {
            pack,
            with_owner: self.with_owner,
            roots: Roots::open(&walk)?,
            failed: failed.iter().map(|failure| failure.key.as_slice()).collect(),
            summary: MoveSummary::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            several: BTreeMap::new(),
            directories: Vec::new(),
            buffer: Vec::new(),
            progress,
            seen: 0,
        };
        match walk.run(|event| moving.take_event(event)).and_then(|_| moving.finish()) {
            Ok(()) => {}
            Err(Abort::Interrupted) => moving.summary.interrupted = true,
            Err(Abort::Failed(error)) => return Err(error),
        }
        Ok(moving.summary)
    }
}

/// A file that was read, or a link.
struct Waiting {
    key: Key,
    status: Status,
    original: Original,
}

enum Original {
    File(FileBytes),
    Link(Vec<u8>),
}

impl Original {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::File(bytes) => bytes,
            Self::Link(target) => target,
        }
    }
}

/// A removal on its way.
struct Moving<'a> {
    pack: &'a Pack,
    with_owner: bool,
    roots: Roots,
    failed: HashSet<&'a [u8]>,
    summary: MoveSummary,
    waiting: Vec<Waiting>,
    waiting_bytes: u64,
    /// Files with several names, by device and inode: removing one changes what the others say of
    /// their inode.
    several: BTreeMap<(u64, u64), Vec<(Key, Status)>>,
    /// As they were before anything in them was removed.
    directories: Vec<(Key, Status)>,
    buffer: Vec<u8>,
    progress: &'a mut dyn FnMut(u64, u64) -> bool,
    seen: u64,
}

impl Moving<'_> {
    fn take_event(&mut self, event: WalkEvent) -> Result<(), Abort> {
        match event {
            Ok(item) if self.failed.contains(item.key.as_slice()) => {}
            Err(error) if self.failed.contains(error.key()) => {}
            Ok(item) => self.take(item)?,
            Err(error) => {
                let key = error.key().to_vec();
                self.summary.failures.push(Failure { key, error: error.into_error().into() });
            }
        }
        self.seen += 1;
        self.report_progress(0)
    }

    fn report_progress(&mut self, ahead: u64) -> Result<(), Abort> {
        if (self.progress)(self.seen, self.summary.bytes + ahead) { Ok(()) } else { Err(Abort::Interrupted) }
    }

    fn take(&mut self, item: WalkItem) -> Result<(), Abort> {
        let WalkItem { key, status, content, .. } = item;
        let key = match Key::bytes(&key) {
            Ok(key) => key,
            Err(error) => {
                self.summary.failures.push(Failure { key, error });
                return Ok(());
            }
        };
        match content {
            Content::Bytes(bytes) => self.wait(key, status, Original::File(bytes)),
            Content::Target(target) => self.wait(key, status, Original::Link(target)),
            Content::Large(file) => {
                let done = self.move_large(&key, &status, &file);
                self.note(&key, status.node.kind, done)
            }
            Content::NotRead => {
                let inode = (status.device, status.inode);
                self.several.entry(inode).or_default().push((key, status));
                Ok(())
            }
            Content::None => {
                if status.node.kind == Kind::Directory {
                    self.directories.push((key, status));
                }
                Ok(())
            }
        }
    }

    /// Counts what was removed, and reports what was not. Only an interruption ends it all.
    fn note(&mut self, key: &Key, kind: Kind, done: Result<bool, Abort>) -> Result<(), Abort> {
        let removed = match done {
            Err(Abort::Interrupted) => return Err(Abort::Interrupted),
            Err(Abort::Failed(error)) => {
                let key = key.as_bytes().unwrap_or_default().to_vec();
                self.summary.failures.push(Failure { key, error });
                false
            }
            Ok(removed) => removed,
        };
        let count = match kind {
            Kind::Directory => &mut self.summary.directories,
            Kind::Symlink => &mut self.summary.symlinks,
            _ => &mut self.summary.files,
        };
        *count += u64::from(removed);
        Ok(())
    }

    fn wait(&mut self, key: Key, status: Status, original: Original) -> Result<(), Abort> {
        self.waiting_bytes += status.node.len;
        self.waiting.push(Waiting { key, status, original });
        if self.waiting.len() >= BATCH_LEN || self.waiting_bytes >= BATCH_BYTES {
            return self.move_waiting();
        }
        Ok(())
    }

    fn move_waiting(&mut self) -> Result<(), Abort> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let keys: Vec<Key> = waiting.iter().map(|waiting| waiting.key.clone()).collect();
        for (waiting, record) in waiting.iter().zip(self.pack.get_many(&keys)?) {
            let done = self.check(waiting, record).and_then(|held| {
                self.summary.bytes +=
                    if waiting.status.node.kind == Kind::File { waiting.status.node.len } else { 0 };
                self.unlink(&waiting.key, &waiting.status, &held)
            });
            self.note(&waiting.key, waiting.status.node.kind, done.map_err(Abort::from))?;
        }
        Ok(())
    }

    /// An error unless the record is this very file or link; and what the record holds of extended
    /// attributes, which are looked at last.
    fn check(&self, waiting: &Waiting, record: Result<Option<Record>>) -> Result<Xattrs> {
        let record = record?.ok_or_else(absent)?;
        let kind = match waiting.original {
            Original::File(_) => FileKind::File,
            Original::Link(_) => FileKind::Symlink,
        };
        let original = waiting.original.bytes();
        let wanted = Known::entry(kind, original.len() as u64, &waiting.status.node, self.with_owner);
        let have = Known::of(&record.head.attributes, Some(record.body.len() as u64));
        let is_same = have == Some(wanted) && *record.body == *original;
        if is_same { Ok(record.head.attributes.xattrs()) } else { Err(differs()) }
    }

    fn move_large(&mut self, key: &Key, status: &Status, file: &LargeFile) -> Result<bool, Abort> {
        let mut opened = file.open()?;
        let mut record = self.pack.open_record(key)?.ok_or_else(absent)?;
        let wanted = Known::file(&status.node, self.with_owner);
        if Known::of(&record.head().attributes, record.head().body_len) != Some(wanted) {
            return Err(differs().into());
        }
        let held = record.head().attributes.xattrs();
        self.compare(&mut record, &mut opened)?;
        file.check(&opened)?;
        self.summary.bytes += status.node.len;
        Ok(self.unlink(key, status, &held)?)
    }

    /// An error unless the rest of the file is the body of the record.
    fn compare(&mut self, record: &mut RecordReader<'_>, file: &mut File) -> Result<(), Abort> {
        let io = |error| Error::from(crate::Error::io("read", "the original", error));
        let mut done = 0;
        while let Some(chunk) = record.next_chunk()? {
            self.buffer.resize(chunk.len(), 0);
            match file.read_exact(&mut self.buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    return Err(differs().into());
                }
                other => other.map_err(io)?,
            }
            if self.buffer != chunk {
                return Err(differs().into());
            }
            done += chunk.len() as u64;
            self.report_progress(done)?;
        }
        let mut more = Vec::new();
        file.take(1).read_to_end(&mut more).map_err(io)?;
        if more.is_empty() { Ok(()) } else { Err(differs().into()) }
    }

    /// Removes a name if it still stands for what was compared, and has the extended attributes
    /// that the pack holds; whether it was there.
    fn unlink(&mut self, key: &Key, status: &Status, held: &Xattrs) -> Result<bool> {
        let shown = key.as_bytes().unwrap_or_default();
        let Some((EntryLocation { parent, name }, now)) = self.find_to_remove(shown)? else {
            return Ok(false);
        };
        let (before, mut after) = (status.identity(), now.identity());
        if now.node.kind == Kind::Symlink && status.node.links > 1 {
            // Another name of the link was removed; what a link leads to never changes.
            after.ctime_ns = before.ctime_ns;
        }
        if now.node.kind != status.node.kind || !before.same_content(&after) {
            return Err(crate::Error::changed(path(shown), before, after).into());
        }
        check_xattrs(&parent, &name, shown, held)?;
        rustix::fs::unlinkat(&*parent, &name, AtFlags::empty())
            .map_err(|errno| not_removed(shown, errno.into()))?;
        Ok(true)
    }

    /// What had to wait until all names were known.
    fn finish(&mut self) -> Result<(), Abort> {
        self.move_waiting()?;
        for names in std::mem::take(&mut self.several).into_values() {
            self.move_names(names)?;
            self.report_progress(0)?;
        }
        self.move_directories()
    }

    /// All names of one file. It stays open, so that nothing else can become its inode.
    fn move_names(&mut self, names: Vec<(Key, Status)>) -> Result<(), Abort> {
        let mut opened = None;
        let (mut same, mut removable) = (HashMap::new(), Vec::new());
        for (key, status) in names {
            let checked = self.check_name(&key, &status, &mut opened, &mut same);
            match checked {
                Ok(Some(held)) => removable.push((key, held)),
                other => self.note(&key, Kind::File, other.map(|_| false))?,
            }
        }
        let Some((file, mut expected)) = opened else { return Ok(()) };
        for (key, held) in removable {
            let done = self.unlink(&key, &expected, &held).and_then(|removed| {
                // That this changed is this removal's doing, as far as the bytes are the same.
                let now = status_of(&file, &key)?;
                let same = now.node.len == expected.node.len && now.node.mtime_ns == expected.node.mtime_ns;
                expected.ctime_ns = if same { now.ctime_ns } else { expected.ctime_ns };
                Ok(removed)
            });
            self.note(&key, Kind::File, done.map_err(Abort::from))?;
        }
        Ok(())
    }

    /// What the pack holds of extended attributes of this name of a file, if it holds the name;
    /// `None` if the name is gone.
    fn check_name(
        &mut self,
        key: &Key,
        status: &Status,
        opened: &mut Option<(File, Status)>,
        same: &mut HashMap<Key, Xattrs>,
    ) -> Result<Option<Xattrs>, Abort> {
        if opened.is_none() {
            *opened = self.open(key)?;
        }
        let Some((file, now)) = opened else { return Ok(None) };
        let (before, after) = (status.identity(), now.identity());
        if !before.same_content(&after) {
            let path = path(key.as_bytes().unwrap_or_default());
            return Err(crate::Error::changed(path, before, after).into());
        }
        let pack = self.pack;
        let mut at = key.clone();
        for _ in 0..HOPS_MAX {
            if let Some(held) = same.get(&at) {
                return Ok(Some(held.clone()));
            }
            let mut record = pack.open_record(&at)?.ok_or_else(absent)?;
            let known = Known::of(&record.head().attributes, record.head().body_len);
            let Some(known) = known.filter(|known| known.is_name_of(&status.node, self.with_owner)) else {
                return Err(differs().into());
            };
            if known.is_hard_link() {
                at = Key::bytes(pack.get(&at)?.ok_or_else(absent)?.body)?;
                continue;
            }
            let held = record.head().attributes.xattrs();
            let io = |error| Error::from(crate::Error::io("read", "the original", error));
            file.rewind().map_err(io)?;
            self.compare(&mut record, file)?;
            self.summary.bytes += status.node.len;
            same.insert(at, held.clone());
            return Ok(Some(held));
        }
        Err(differs().into())
    }

    /// Opens a file for reading, if its name is still there.
    fn open(&mut self, key: &Key) -> Result<Option<(File, Status)>> {
        let shown = key.as_bytes().unwrap_or_default();
        let io = |error| Error::from(crate::Error::io("open", path(shown), error));
        let Some(EntryLocation { parent, name }) = self.roots.find(shown).map_err(io)? else {
            return Ok(None);
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&*parent, &name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            other => File::from(other.map_err(|errno| io(errno.into()))?),
        };
        let status = status_of(&file, key)?;
        Ok(Some((file, status)))
    }

    /// Directories that the pack holds and that are empty now, the deepest first.
    fn move_directories(&mut self) -> Result<(), Abort> {
        let mut directories = std::mem::take(&mut self.directories);
        let roots: HashSet<(u64, u64)> = self.roots.inodes()?;
        directories.retain(|(_, status)| !roots.contains(&(status.device, status.inode)));
        directories.sort_by(|a, b| b.0.cmp(&a.0));
        for batch in directories.chunks(DIRECTORIES_LEN) {
            self.report_progress(0)?;
            let keys: Vec<Key> = batch.iter().map(|(key, _)| key.clone()).collect();
            let entries = self.pack.locate(&keys)?;
            let found: Vec<_> = entries.iter().flatten().flatten().cloned().collect();
            let mut heads = self.pack.heads(&found)?.into_iter();
            for ((key, status), entry) in batch.iter().zip(entries) {
                let head = entry.and_then(|entry| entry.and_then(|_| heads.next()).transpose());
                let done = match head {
                    Ok(head) => {
                        let wanted = Known::entry(FileKind::Directory, 0, &status.node, self.with_owner);
                        let known = head.as_ref().map(|head| Known::of(&head.attributes, head.body_len));
                        let held = head.map(|head| head.attributes.xattrs()).unwrap_or_default();
                        match known {
                            Some(Some(known)) if known == wanted => self.remove_directory(key, status, &held),
                            Some(_) => Err(differs()),
                            None => Err(absent()),
                        }
                    }
                    Err(error) => Err(error),
                };
                self.note(key, Kind::Directory, done.map_err(Abort::from))?;
            }
        }
        Ok(())
    }

    /// Removes a directory if it is empty, and whether it was.
    fn remove_directory(&mut self, key: &Key, status: &Status, held: &Xattrs) -> Result<bool> {
        let shown = key.as_bytes().unwrap_or_default();
        let Some((EntryLocation { parent, name }, now)) = self.find_to_remove(shown)? else {
            return Ok(false);
        };
        if (now.node.kind, now.device, now.inode) != (Kind::Directory, status.device, status.inode) {
            let (before, after) = (status.identity(), now.identity());
            return Err(crate::Error::changed(path(shown), before, after).into());
        }
        check_xattrs(&parent, &name, shown, held)?;
        match rustix::fs::unlinkat(&*parent, &name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(errno) => Err(not_removed(shown, errno.into())),
        }
    }

    /// An entry that is to be removed, and what it is now; `None` where it is gone already.
    fn find_to_remove(&mut self, shown: &[u8]) -> Result<Option<(EntryLocation, Status)>> {
        let io = |error| not_removed(shown, error);
        let Some(entry) = self.roots.find(shown).map_err(io)? else { return Ok(None) };
        let Some(stat) = target::status(&entry.parent, &entry.name).map_err(io)? else { return Ok(None) };
        Ok(Some((entry, Status::from_stat(&stat).map_err(io)?)))
    }
}

fn not_removed(shown: &[u8], error: std::io::Error) -> Error {
    crate::Error::io("remove", path(shown), error).into()
}

fn status_of(file: &File, key: &Key) -> Result<Status> {
    let io = |error| {
        let shown = path(key.as_bytes().unwrap_or_default());
        Error::from(crate::Error::io("stat", shown, error))
    };
    let stat = rustix::fs::fstat(file).map_err(|errno| io(errno.into()))?;
    Status::from_stat(&stat).map_err(io)
}

/// An error where something has other extended attributes than the pack holds of it, or the pack
/// does not hold all.
fn check_xattrs(parent: &OwnedFd, name: &OsStr, shown: &[u8], held: &Xattrs) -> Result<()> {
    let io = |error| crate::Error::io("read the extended attributes of", path(shown), error);
    let there = xattrs::read_at(parent, name.as_bytes()).map_err(io)?;
    if there == *held && there.lost().is_none() {
        return Ok(());
    }
    let differs = |xattr: &&Xattr| xattr.value.is_none() || !held.as_slice().contains(xattr);
    let names: Vec<&[u8]> =
        there.as_slice().iter().filter(differs).map(|xattr| xattr.name.as_slice()).collect();
    Err(Error::Invalid(match names.is_empty() && there.lost().is_none() {
        true => "the pack holds extended attributes that it does not have any more, and so it stays".into(),
        false => format!(
            "it has extended attributes, which the pack does not hold, and so it stays: {}",
            names_text(&names, false)
        ),
    }))
}

/// A key for messages.
fn path(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

fn absent() -> Error {
    Error::Invalid("the pack has no record of it, and so it stays; pack it again".into())
}

fn differs() -> Error {
    Error::Invalid("the pack does not hold it as it is, and so it stays".into())
}
