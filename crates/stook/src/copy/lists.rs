//! Lists of checksums that are written while it is copied: every file is in them before it has its
//! name.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::{self, BufRead as _};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::fs::{AtFlags, statat};

use super::body::FileJob;
use super::destination::{Pending, Receiver};
use super::events::Action;
use super::hash_lane::{Computed, OneFile};
use super::listing::Found;
use super::options::CopyOptions;
use crate::format::{list_date, mhl, now_ns, sums};
use crate::hash::{Digest, HashKind};
use crate::source::Forwards;
use crate::tree::Kind;
use crate::tree::existing::Comparison;
use crate::tree::history::Listed;
use crate::tree::new_lists;
use crate::tree::outbox::{Appended, BeforeNames, Durability, NewFile, Replaces, Waiting};

/// How many lists of one function may begin in a destination in the same second.
const NUMBERS_MAX: u32 = 100;

/// The chain of the history that a destination has.
pub(super) const CHAIN: &[u8] = b"ascmhl/ascmhl_chain.xml";

/// The lists of one destination.
#[derive(Debug)]
pub(super) struct Lists {
    kinds: Vec<HashKind>,
    /// Whether a list of ASC MHL is made at the end.
    pub(super) has_mhl: bool,
    /// When they were begun, as the list of ASC MHL has it.
    pub(super) date: String,
    /// The date in the names of the others, and of the directory of proofs.
    list_date: String,
    state: Mutex<ListState>,
}

#[derive(Debug, Default)]
struct ListState {
    /// One for each function, once there is something to be listed.
    open: Vec<OpenList>,
    is_begun: bool,
    /// Lists in which nothing is written any more, because that has failed.
    has_failed: bool,
    /// Files that were listed although they are not copied, until that is reported.
    early: HashSet<Vec<u8>>,
    /// Hashes of files that have several names, by their first.
    firsts: HashMap<Vec<u8>, Arc<[Digest]>>,
    /// What the list of ASC MHL will have.
    records: Vec<Listed>,
}

/// A list that is written.
#[derive(Debug)]
struct OpenList {
    kind: HashKind,
    name: Vec<u8>,
    file: Appended,
}

/// What went wrong with which list.
type NotListed = (Vec<u8>, io::Error);

impl Lists {
    /// Those that are asked for, begun now; `None` if none are, or nothing is changed.
    pub(super) fn new(options: &CopyOptions, date: &str) -> Option<Self> {
        let has_mhl = options.mhl.is_some();
        let is_asked = has_mhl || !options.lists.is_empty();
        let mut kinds = options.lists.clone();
        kinds.sort_unstable();
        kinds.dedup();
        let lists = Self {
            kinds,
            has_mhl,
            date: date.to_owned(),
            list_date: date.to_owned(),
            state: Mutex::default(),
        };
        (is_asked && !options.dry_run).then_some(lists)
    }

    fn state(&self) -> MutexGuard<'_, ListState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the list of ASC MHL will have: all that is there, each once, by its path.
    pub(super) fn take_records(&self) -> Vec<Listed> {
        let mut state = self.state();
        let mut records = std::mem::take(&mut state.records);
        // What was listed and never reported is not there as it was listed.
        records.retain(|record| !state.early.contains(&record.key[..]));
        records.sort_by(|one, other| one.key.cmp(&other.key));
        records.dedup_by(|one, other| one.key == other.key);
        records
    }
}

/// The date in the names of lists that begin now.
pub(super) fn date_now() -> String {
    list_date(now_ns()).unwrap_or_default()
}

/// Whether a path of a destination is one of the lists that copies leave there, and not part of
/// what was copied.
pub(super) fn is_own_list(key: &[u8]) -> bool {
    let first = key.split(|byte| *byte == b'/').next().unwrap_or_default();
    let has_own = first == mhl::FOLDER.as_bytes() || sums::is_own_proofs_name(first);
    has_own || first.len() == key.len() && sums::is_own_list_name(key)
}

/// A file with a proof.
#[derive(Debug)]
struct Proven {
    key: Arc<[u8]>,
    digest: Digest,
    proof: Arc<[u8]>,
}

impl Proven {
    /// `None` where it has none.
    fn new(key: Arc<[u8]>, digests: &[Digest], proof: Option<&Arc<[u8]>>) -> Option<Self> {
        let digest = digests.iter().find(|digest| digest.kind == HashKind::Blake3)?.clone();
        Some(Self { key, digest, proof: proof?.clone() })
    }
}

impl BeforeNames for Receiver {
    fn note(&self, files: &[&Waiting]) {
        let Some(lists) = &self.lists else { return };
        let mut proofs = Vec::new();
        let listed: Vec<(FileJob, Arc<[Digest]>)> = {
            let state = self.state();
            let pending = files.iter().filter_map(|file| state.pending.get(&file.key));
            let one = |pending: &Pending| {
                let key = pending.job.key.clone();
                proofs.extend(Proven::new(key, &pending.digests, pending.proof.as_ref()));
                (pending.job.clone(), pending.digests.clone())
            };
            pending.map(one).collect()
        };
        self.write_proofs(lists, &proofs);
        let lines: Vec<(&[u8], &[Digest])> = {
            let mut state = lists.state();
            let several = listed.iter().filter(|(job, _)| job.node.links > 1);
            state.firsts.extend(several.map(|(job, digests)| (job.key.to_vec(), digests.clone())));
            // A file that was to become a hard link of an earlier copy, and could not, was listed.
            let lines = listed.iter().map(|(job, digests)| (&job.key[..], &digests[..]));
            lines.filter(|(key, _)| !state.early.remove(*key)).collect()
        };
        self.write_lines(lists, &lines);
    }

    fn sync(&self) {
        let Some(lists) = &self.lists else { return };
        let mut state = lists.state();
        if state.has_failed {
            return;
        }
        let sync = |list: &mut OpenList| Some((list.name.clone(), list.file.sync().err()?));
        let failed: Option<NotListed> = state.open.iter_mut().find_map(sync);
        // A second sync would not say what was lost.
        state.has_failed = failed.is_some();
        drop(state);
        if let Some((name, error)) = failed {
            self.fail_io("sync", &name, error);
        }
    }
}

impl Receiver {
    /// The same with lists, none of our own in the destination counting for more than these.
    pub(super) fn listing(mut self, lists: Option<Lists>) -> crate::Result<Self> {
        let Some(mut lists) = lists else { return Ok(self) };
        if let Some(root) = self.target().map(|target| target.root()) {
            let date = new_lists::date_in(&root);
            lists.list_date = date.map_err(|error| self.io("list", b"", error))?.max(lists.list_date);
        }
        self.lists = Some(lists);
        Ok(self)
    }

    /// Lists a file that is there, or will be without being written: its bytes were read, and found
    /// to be the same.
    pub(super) fn list_same(&self, job: &FileJob, digests: &Arc<[Digest]>, proof: Option<&Arc<[u8]>>) {
        let Some(lists) = &self.lists else { return };
        self.write_proofs(lists, Proven::new(job.key.clone(), digests, proof).as_slice());
        {
            let mut state = lists.state();
            state.early.insert(job.key.to_vec());
            if job.node.links > 1 {
                state.firsts.insert(job.key.to_vec(), digests.clone());
            }
        }
        self.write_lines(lists, &[(&job.key, digests)]);
        self.sync_lists();
        self.record_done(job, digests);
    }

    /// Lists a hard link to a file, before it is given. Where the bytes of the file were not read,
    /// because it was there, they are now, if the link is `new`: an earlier run listed the file,
    /// but not this name.
    pub(super) fn list_link(&self, found: &Found, first: &[u8], new: bool) {
        let Some(lists) = &self.lists else { return };
        let known = lists.state().firsts.get(first).cloned();
        let digests = match known {
            Some(digests) => digests,
            None if !new || found.node.kind != Kind::File => return,
            None => match self.computed_of(found, first) {
                Ok(Computed { digests, proof }) => {
                    let key = found.key.as_slice().into();
                    self.write_proofs(lists, Proven::new(key, &digests, proof.as_ref()).as_slice());
                    digests
                }
                Err(error) => return self.fail_reading(&found.key, error),
            },
        };
        lists.state().early.insert(found.key.clone());
        self.write_lines(lists, &[(&found.key, &digests)]);
        self.sync_lists();
        self.record(lists, &found.key, &found.node, &digests);
    }

    /// What lists need of a file of a source, which is compared with the one in the destination
    /// that stands for it and was not read.
    fn computed_of(&self, found: &Found, first: &[u8]) -> crate::Result<Computed> {
        let there = |error| self.io("read", first, error);
        let spot = self.spot(first).ok().flatten();
        let spot = spot.ok_or_else(|| there(io::ErrorKind::NotFound.into()))?;
        let mut comparison = Comparison::open(&spot.parent, &spot.name).map_err(there)?;
        let source = self.sources.get(found.source).map(|source| source.tree.open(found.id)).transpose()?;
        let source = source.ok_or_else(|| self.io("list", &found.key, io::ErrorKind::NotFound.into()))?;
        let path = source.path().to_path_buf();
        let mut file = OneFile::new(&self.options.hashes, self.options.proofs);
        let mut forwards = Forwards::new(source)?;
        loop {
            let block = forwards.fill_buf().map_err(|error| crate::Error::io("read", &path, error))?;
            if block.is_empty() || self.is_stopped() {
                break;
            }
            let bytes = Bytes::copy_from_slice(block);
            file.take(&bytes);
            comparison.take(&bytes).map_err(there)?;
            forwards.consume(bytes.len());
        }
        match self.is_stopped() || comparison.finish().map_err(there)? {
            true => Ok(file.finish()),
            false => {
                let what = "it has other bytes than its source, so that no other name of it is listed: \
                            --checksum compares what is there";
                Err(self.io("list", first, io::Error::other(what)))
            }
        }
    }

    /// Notes that a file has its name.
    pub(super) fn record_done(&self, job: &FileJob, digests: &Arc<[Digest]>) {
        if let Some(lists) = &self.lists {
            self.record(lists, &job.key, &job.node, digests);
        }
    }

    fn record(&self, lists: &Lists, key: &[u8], node: &crate::tree::Node, digests: &Arc<[Digest]>) {
        if lists.has_mhl {
            let (key, digests) = (key.into(), digests.clone());
            lists.state().records.push(Listed { key, len: node.len, mtime_ns: node.mtime_ns, digests });
        }
    }

    /// Counts a file that is there, and is in no list because its bytes were not read.
    pub(super) fn note_unlisted(&self, key: &[u8], kind: Kind, action: Action) {
        let Some(lists) = self.lists.as_ref().filter(|_| kind == Kind::File) else { return };
        let is_listed = match action {
            Action::Skip | Action::Correct | Action::LinkEarlier | Action::HardLink => {
                lists.state().early.remove(key)
            }
            _ => true,
        };
        self.state().report.unlisted += u64::from(!is_listed);
    }

    fn sync_lists(&self) {
        if self.options.durability != Durability::None {
            BeforeNames::sync(self);
        }
    }

    /// Writes lines for files into each list. Where that fails, files go on being copied, but are
    /// not listed, which is a failure.
    fn write_lines(&self, lists: &Lists, files: &[(&[u8], &[Digest])]) {
        // The chain of a history grows with each copy.
        let files = files.iter().filter(|(key, _)| *key != CHAIN);
        let mut state = lists.state();
        if lists.kinds.is_empty() || state.has_failed {
            return;
        }
        let of = |kind: HashKind| {
            let line = |(key, digests): &(&[u8], &[Digest])| {
                let digest = digests.iter().find(|digest| digest.kind == kind)?;
                Some(sums::line(digest, key))
            };
            files.clone().filter_map(line).flatten().collect::<Vec<u8>>()
        };
        if files.clone().next().is_none() {
            return;
        }
        if !state.is_begun {
            state.is_begun = true;
            match self.begin_lists(lists, &of) {
                Ok(open) => state.open = open,
                Err((name, error)) => {
                    state.has_failed = true;
                    drop(state);
                    self.fail_io("write", &name, error);
                }
            }
            return;
        }
        let append = |list: &mut OpenList| {
            let appended = list.file.append(&of(list.kind));
            Some((list.name.clone(), appended.err()?))
        };
        let failed: Option<NotListed> = state.open.iter_mut().find_map(append);
        state.has_failed = failed.is_some();
        drop(state);
        if let Some((name, error)) = failed {
            self.fail_io("write", &name, error);
        }
    }

    /// Writes the proofs of files, which are durable before they have names. Where that fails, the
    /// file has none, which is a failure.
    fn write_proofs(&self, lists: &Lists, proven: &[Proven]) {
        if proven.is_empty() {
            return;
        }
        let name = sums::proofs_name(&lists.list_date);
        let made = self.target().map(|mut target| target.directory(&[OsStr::new(&name)])).transpose();
        let folder = match made {
            Ok(Some(folder)) => folder,
            Ok(None) => return,
            Err(error) => return self.fail_io("make", name.as_bytes(), error),
        };
        let write = |one: &Proven| {
            let new = NewFile { mode: None, is_private: false, replaces: Replaces::Nothing };
            let file = self.outbox.file(&folder, new)?;
            file.write_at(&one.proof, 0)?;
            Ok(file)
        };
        let mut written = Vec::with_capacity(proven.len());
        for one in proven {
            match write(one) {
                Ok(file) => written.push((one, file)),
                Err(error) => self.fail_io("write the proof of", &one.key, error),
            }
        }
        let synced = match self.options.durability {
            Durability::None => written.iter().map(|_| Ok(())).collect(),
            _ => self.outbox.sync_files(&written.iter().map(|(_, file)| file).collect::<Vec<_>>()),
        };
        for ((one, mut file), synced) in written.into_iter().zip(synced) {
            let own = sums::proof_name(&one.digest);
            let named =
                synced.and_then(|()| file.publish(OsStr::new(&own), None).map_err(|(_, error)| error));
            match named {
                // Another file with the same bytes may have it.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    self.fail_io("write the proof of", &one.key, error);
                }
                _ => {
                    let mut state = self.state();
                    state.report.proofs.get_or_insert_with(|| (name.clone().into_bytes(), 0)).1 += 1;
                }
            }
        }
    }

    /// Makes the lists with their first lines, each under a name that nothing has.
    fn begin_lists(
        &self,
        lists: &Lists,
        first_lines: &dyn Fn(HashKind) -> Vec<u8>,
    ) -> Result<Vec<OpenList>, NotListed> {
        let Some(root) = self.target().map(|target| target.root()) else { return Ok(Vec::new()) };
        let mut open = Vec::with_capacity(lists.kinds.len());
        // One of the same second may be copied, too.
        let is_there = |name: &[u8]| {
            let found = statat(&*root, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW);
            found.is_ok() || self.keys.has(name).unwrap_or(false)
        };
        let first = sums::free_number(&lists.list_date, NUMBERS_MAX, is_there);
        let is_durable = self.options.durability != Durability::None;
        for kind in &lists.kinds {
            let (mut number, lines) = (first, first_lines(*kind));
            let list = loop {
                let name = sums::list_name(*kind, &lists.list_date, number).into_bytes();
                match self.outbox.append_to_new(&root, (OsStr::from_bytes(&name), &lines), is_durable) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NUMBERS_MAX => {
                        number += 1;
                    }
                    Err(error) => return Err((name, error)),
                    Ok(file) => break OpenList { kind: *kind, name, file },
                }
            };
            self.state().report.lists.push(list.name.clone());
            open.push(list);
        }
        Ok(open)
    }

    /// Notes that a file is there, and not as it should be in an ASC MHL, or not in it.
    pub(super) fn fail_to_list(&self, key: &[u8], error: crate::Error) {
        if matches!(error, crate::Error::Io { operation: "list", .. }) {
            self.state().report.unlistable += 1;
        }
        self.fail(key, error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_copies_are_known_at_the_top_of_a_destination_only() {
        let name = sums::list_name(HashKind::Sha256, "2026-11-26_064134Z", 1);
        for own in [name.as_str(), "ascmhl", "ascmhl/ascmhl_chain.xml"] {
            assert!(is_own_list(own.as_bytes()), "{own}");
        }
        for other in [&format!("below/{name}"), "below/ascmhl", "ascmhl2", "list.sha256", ""] {
            assert!(!is_own_list(other.as_bytes()), "{other}");
        }
    }
}
