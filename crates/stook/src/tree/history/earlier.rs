//! What earlier lists say: those of a directory, and those of the directories in it that have
//! histories of their own.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, openat};

use super::{BLOCK, CHAIN_MAX, Listed, open_in};
use crate::error::{Error, Result};
use crate::format::mhl::{
    CHAIN_NAME, Chain, ChainEntry, FOLDER, KINDS, MhlAction, MhlDigest, MhlError, MhlFile, MhlHead, MhlItem,
    MhlReader, MhlReference, generation_of,
};
use crate::hash::{Digest, HashKind, Hashing};
use crate::names::{Patterns, Selection, escaped, pattern_below};
use crate::tree::outbox::{Calls, again};
use crate::tree::target::Target;

/// Between two looks whether another program has written its generation.
const LOOK: Duration = Duration::from_millis(20);

/// What earlier lists say.
#[derive(Default)]
pub(super) struct History {
    pub(super) chain: Chain,
    pub(super) next_generation: u32,
    known: Known,
    /// What the last list has left out.
    pub(super) ignored: Vec<String>,
    /// The last lists of the directories that have histories of their own.
    pub(super) references: Vec<MhlReference>,
    /// Directories whose histories are damaged.
    damaged: Vec<Vec<u8>>,
    /// What the histories of directories below leave out there.
    ignored_below: Selection,
}

/// Hashes of the files that are listed now: of each function the first one of each history.
type Known = HashMap<Box<[u8]>, Vec<Digest>>;

/// A history that is not continued: which of its files is not as it should be, and how.
struct Broken {
    name: Vec<u8>,
    why: Why,
}

enum Why {
    Unreadable(io::Error),
    Changed(String),
}

impl From<io::Error> for Why {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

impl From<MhlError> for Why {
    fn from(error: MhlError) -> Self {
        match error {
            MhlError::Io(error) => Self::Unreadable(error),
            error => Self::Changed(error.to_string()),
        }
    }
}

impl Broken {
    fn new(name: &[u8], why: impl Into<Why>) -> Self {
        Self { name: name.to_vec(), why: why.into() }
    }

    fn changed(name: &[u8], what: &str) -> Self {
        let what = format!("{what}: a history that was changed is not continued");
        Self { name: name.to_vec(), why: Why::Changed(what) }
    }

    /// The error, where the folder of the history has this key.
    fn into_error(self, path: &Path, folder: &[u8]) -> Error {
        let path = shown(path, &[folder, b"/", &self.name].concat());
        match self.why {
            Why::Unreadable(error) => Error::io("read", path, error),
            Why::Changed(what) => Error::io("continue the history in", path, io::Error::other(what)),
        }
    }
}

impl History {
    /// What the lists in a directory, and those of directories in it, say of these files. `fail`
    /// hears of histories below that were changed, which cost only themselves.
    ///
    /// # Errors
    /// The history of the directory itself was changed, or cannot be read.
    pub(super) fn of(
        path: &Path,
        folder: &OwnedFd,
        records: &[Listed],
        fail: &mut dyn FnMut(&[u8], Error),
    ) -> Result<Self> {
        let known = records.iter().map(|record| (record.key.clone(), Vec::new())).collect();
        let mut history = Self { known, ..Self::default() };
        let own =
            read(folder, b"", &history.known).map_err(|error| error.into_error(path, FOLDER.as_bytes()))?;
        history.next_generation = own.chain.next_generation().max(own.last_number.saturating_add(1));
        (history.chain, history.ignored) = (own.chain, own.ignored);
        history.add(own.known);
        let ignored = history.add_below(path, records, fail)?;
        // One that is no pattern leaves nothing out.
        let ignored = ignored.into_iter().filter(|text| Patterns::new([text]).is_ok());
        let ignored = Patterns::new(ignored).unwrap_or_default();
        history.ignored_below = Selection::of(Patterns::default(), ignored);
        history.known.retain(|_, digests| !digests.is_empty());
        Ok(history)
    }

    /// The hashes that earlier lists have of a file.
    pub(super) fn known_of(&self, key: &[u8]) -> &[Digest] {
        self.known.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a directory leaves a file out that it has a history of; also where that is damaged:
    /// what it says of the file is not known, and a list that has it as it is now could cover up
    /// damage.
    pub(super) fn leaves_out(&self, key: &[u8]) -> bool {
        let is_in = |directory: &Vec<u8>| {
            key.strip_prefix(directory.as_slice()).is_some_and(|rest| rest.starts_with(b"/"))
        };
        self.damaged.iter().any(is_in) || !self.ignored_below.takes_below(key, || false)
    }

    fn add(&mut self, known: Known) {
        for (key, digests) in known {
            let Some(all) = self.known.get_mut(&key) else { continue };
            for digest in digests {
                if !all.contains(&digest) {
                    all.push(digest);
                }
            }
        }
    }

    /// Adds what the histories of directories below say, in which some of the files are, and
    /// returns the patterns of what these leave out.
    fn add_below(
        &mut self,
        path: &Path,
        records: &[Listed],
        fail: &mut dyn FnMut(&[u8], Error),
    ) -> Result<BTreeSet<String>> {
        let (directories, mut ignored) = (directories_of(records), BTreeSet::new());
        if directories.is_empty() {
            return Ok(ignored);
        }
        let mut target = Target::at(path).map_err(|error| Error::io("open", path, error))?;
        for directory in directories {
            let key = [directory, b"/", FOLDER.as_bytes()].concat();
            let parts: Vec<&OsStr> = key.split(|byte| *byte == b'/').map(OsStr::from_bytes).collect();
            let folder = match target.existing(&parts) {
                Ok(Some(folder)) => folder,
                Ok(None) => continue,
                // A file of that name, or a link, is no history.
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
                Err(error) => {
                    self.damaged.push(directory.to_vec());
                    fail(&key, Error::io("open", shown(path, &key), error));
                    continue;
                }
            };
            match read(&folder, directory, &self.known) {
                Ok(own) => {
                    self.references.extend(own.last.map(|(name, digest)| MhlReference {
                        line: 0,
                        path: [&key[..], b"/", &name].concat(),
                        digest,
                    }));
                    ignored.extend(own.ignored.iter().map(|text| pattern_below(directory, text)));
                    self.add(own.known);
                }
                Err(error) => {
                    self.damaged.push(directory.to_vec());
                    fail(&key, error.into_error(path, &key));
                }
            }
        }
        Ok(ignored)
    }
}

/// The directories that files are in, but the one that they all are in.
fn directories_of(records: &[Listed]) -> BTreeSet<&[u8]> {
    let mut all = HashSet::new();
    for record in records {
        let ends = record.key.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        let mut above = ends.filter_map(|(end, _)| record.key.get(..end));
        // Those above one that is known are known, too.
        while above.next().is_some_and(|directory| all.insert(directory)) {}
    }
    all.into_iter().collect()
}

/// What one history says.
#[derive(Default)]
struct Own {
    chain: Chain,
    /// The highest number that the name of a list has.
    last_number: u32,
    /// The last list, and its C4.
    last: Option<(Vec<u8>, Digest)>,
    known: Known,
    ignored: Vec<String>,
}

/// What is wrong with the history of a directory below: only a run that continues it finishes it.
const UNFINISHED: &str = "it is not in the chain, as a run leaves it that was killed: the next `--mhl` \
                          of that directory takes it up";

/// Reads the history in a folder, which is one of a directory `below`, as far as it is about the
/// `wanted` files. Every list has to be in the chain, and as the chain says. Only the last one of
/// the history that is continued need not: it is what a run leaves that was killed before it wrote
/// the chain.
fn read(folder: &OwnedFd, below: &[u8], wanted: &Known) -> Result<Own, Broken> {
    let chain_name = CHAIN_NAME.as_bytes();
    let on_disk = lists_in(folder).map_err(|error| Broken::new(chain_name, error))?;
    let (mut chain, is_there) = match read_chain(folder) {
        Ok(chain) => (chain, true),
        Err(MhlError::Io(error)) if error.kind() == io::ErrorKind::NotFound => (Chain::default(), false),
        Err(error) => return Err(Broken::new(chain_name, error)),
    };
    let mut own = Own { last_number: on_disk.last().map_or(0, |(number, _)| *number), ..Own::default() };
    let is_new = |name: &[u8]| !chain.entries.iter().any(|entry| entry.name == name);
    let new: Vec<&(u32, Vec<u8>)> = on_disk.iter().filter(|(_, name)| is_new(name)).collect();
    let adopted = match new.as_slice() {
        [] => None,
        [(number, name)] if *number == chain.next_generation() => Some((*number, name.clone())),
        [..] if !is_there => {
            return Err(Broken::changed(chain_name, "there are lists, and no chain of them"));
        }
        [(_, name), ..] => return Err(Broken::changed(name, "it is not in the chain")),
    };
    for entry in &chain.entries {
        let name = &entry.name[..];
        let found = digest_of(folder, name, entry.digest.kind).map_err(|error| Broken::new(name, error))?;
        if found != entry.digest {
            return Err(Broken::changed(name, "it does not have the hash that the chain says"));
        }
        own.take(folder, name, below, wanted).map_err(|error| Broken::new(name, error))?;
    }
    if let Some((_, name)) = adopted.as_ref().filter(|_| !below.is_empty()) {
        return Err(Broken { name: name.clone(), why: Why::Changed(UNFINISHED.into()) });
    }
    if let Some((generation, name)) = adopted {
        let digest = digest_of(folder, &name, HashKind::C4).map_err(|error| Broken::new(&name, error))?;
        own.take(folder, &name, below, wanted).map_err(|error| Broken::new(&name, error))?;
        chain.entries.push(ChainEntry { generation, name, digest });
    }
    if let Some(ChainEntry { name, digest, .. }) = chain.entries.last() {
        let c4 = match digest.kind {
            HashKind::C4 => digest.clone(),
            _ => digest_of(folder, name, HashKind::C4).map_err(|error| Broken::new(name, error))?,
        };
        own.last = Some((name.clone(), c4));
    }
    own.chain = chain;
    Ok(own)
}

impl Own {
    /// Takes what a list says.
    fn take(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        below: &[u8],
        wanted: &Known,
    ) -> std::result::Result<(), MhlError> {
        let mut reader =
            MhlReader::new(BufReader::with_capacity(BLOCK, open_in(folder, OsStr::from_bytes(name))?));
        while let Some(item) = reader.next_item()? {
            match item {
                Ok(MhlItem::Head(MhlHead { ignored, .. })) => self.ignored = ignored,
                Ok(MhlItem::File(file)) => self.take_file(file, below, wanted),
                Ok(_) => {}
                Err(bad) => {
                    return Err(MhlError::Damaged { line: bad.line, what: bad.fault.to_string() });
                }
            }
        }
        Ok(())
    }

    fn take_file(&mut self, file: MhlFile, below: &[u8], wanted: &Known) {
        let key = match below {
            [] => file.path,
            below => [below, b"/", &file.path].concat(),
        };
        if !wanted.contains_key(&key[..]) {
            return;
        }
        let known = self.known.entry(key.into()).or_default();
        for digest in expected(file.digests) {
            if !known.iter().any(|first| first.kind == digest.kind) {
                known.push(digest);
            }
        }
    }
}

/// What a list says that a file should have. A hash that failed is what the file had; and where one
/// has, so is another of which nothing is said.
pub(crate) fn expected(digests: Vec<MhlDigest>) -> impl Iterator<Item = Digest> {
    let has_failed = digests.iter().any(|one| one.action == Some(MhlAction::Failed));
    let is_expected = move |one: &MhlDigest| match one.action {
        Some(MhlAction::Failed) => false,
        Some(MhlAction::Original | MhlAction::Verified) => true,
        None => !has_failed,
    };
    digests.into_iter().filter(is_expected).map(|one| one.digest)
}

fn read_chain(folder: &OwnedFd) -> std::result::Result<Chain, MhlError> {
    let file = open_in(folder, OsStr::new(CHAIN_NAME))?;
    Chain::decode(BufReader::new(file.take(CHAIN_MAX)))
}

/// The lists in a folder, in the order of their numbers.
fn lists_in(folder: &OwnedFd) -> io::Result<Vec<(u32, Vec<u8>)>> {
    let mut lists = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        lists.extend(generation_of(name).map(|number| (number, name.to_vec())));
    }
    lists.sort();
    Ok(lists)
}

fn digest_of(folder: &OwnedFd, name: &[u8], kind: HashKind) -> io::Result<Digest> {
    let (mut file, mut block) = (open_in(folder, OsStr::from_bytes(name))?, vec![0; BLOCK]);
    let mut hashing = Hashing::new(&[kind]);
    loop {
        match file.read(&mut block) {
            Ok(0) => break,
            Ok(read) => hashing.take(block.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hashing.finish().pop().unwrap_or(Digest { kind, value: Vec::new() }))
}

/// Adds the functions whose hashes a list has. Of what cannot be read nothing is known, which is
/// said when it is continued.
pub(crate) fn add_kinds(list: impl io::BufRead, kinds: &mut BTreeSet<HashKind>) {
    let mut reader = MhlReader::new(list);
    while kinds.len() < KINDS.len()
        && let Ok(Some(item)) = reader.next_item()
    {
        if let Ok(MhlItem::File(file)) = item {
            let of = file.digests.iter().map(|one| one.digest.kind);
            kinds.extend(of.filter(|kind| KINDS.contains(kind)));
        }
    }
}

/// The same of all lists of a directory on disk.
pub(crate) fn add_kinds_in(directory: &Path, kinds: &mut BTreeSet<HashKind>) {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(folder) = rustix::fs::open(directory.join(FOLDER), flags, Mode::empty()) else { return };
    for (_, name) in lists_in(&folder).unwrap_or_default() {
        if let Ok(file) = open_in(&folder, OsStr::from_bytes(&name)) {
            add_kinds(BufReader::with_capacity(BLOCK, file), kinds);
        }
    }
}

/// Keeps others from writing the history in a folder until what is returned is dropped; `None`
/// where the file system has no locks. A folder that is locked is waited for.
///
/// # Errors
/// Another program still has it.
pub(super) fn lock(calls: &dyn Calls, folder: &OwnedFd, patience: Duration) -> io::Result<Option<File>> {
    // Another opening of the folder: the one that is given may be kept open for longer.
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let file = File::from(openat(folder, ".", flags, Mode::empty())?);
    let until = Instant::now() + patience;
    loop {
        match again(|| calls.lock(&file)) {
            Ok(()) => return Ok(Some(file)),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Ok(None),
            Err(_) if Instant::now() < until => thread::sleep(LOOK),
            Err(_) => return Err(io::Error::other("another program is writing this history")),
        }
    }
}

/// The path of a file for a message: a name that is no text is shown as elsewhere.
pub(super) fn shown(path: &Path, key: &[u8]) -> PathBuf {
    path.join(escaped(key).to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tree::outbox::System;

    #[test]
    fn a_history_that_is_being_written_is_waited_for_but_not_for_ever() {
        let place = tempfile::tempdir().unwrap();
        let folder = Arc::new(OwnedFd::from(File::open(place.path()).unwrap()));
        let held = lock(&System, &folder, Duration::ZERO).unwrap();
        assert!(held.is_some());
        let refused = lock(&System, &folder, Duration::from_millis(60)).unwrap_err().to_string();
        assert!(refused.contains("another program is writing this history"), "{refused}");
        let waiting = folder.clone();
        let waiting = thread::spawn(move || lock(&System, &waiting, Duration::from_secs(60)).is_ok());
        thread::sleep(Duration::from_millis(60));
        drop(held);
        assert!(waiting.join().unwrap());
    }
}
