//! Lists of what is there: made from the digests that were computed while it was verified.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::own::add_kinds_below;
use super::{Error, Result};
use crate::format::mhl::{FOLDER, MhlProcess, checked_kinds};
use crate::format::{list_date, now_ns, sums};
use crate::hash::HashKind;
use crate::tree::history::{Generation, IGNORED, Listed, add_kinds_in, is_ignored};
use crate::tree::new_lists;
use crate::tree::outbox::{Calls as _, Outbox, System};
use crate::tree::target::{self, Target};
use crate::tree::{Draft, Failure, Kind};
use crate::verify::{
    self, Branch, Expected, ExpectedBuilder, Finding, Outcome, Progress, Subject, VerifyEvents,
};

/// Names that are tried, if lists of the same second are there.
const NAMES_MAX: u32 = 1000;

/// Bytes of a list that are written at once.
const BLOCK_BYTES: usize = 256 << 10;

/// A list that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeList {
    /// Which tree it is of, by its position.
    pub subject: usize,
    /// The list.
    pub path: PathBuf,
    /// The hash function; `None` for an ASC MHL, which may have several.
    pub kind: Option<HashKind>,
    /// Files in it.
    pub files: u64,
}

/// Proofs that were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeProofs {
    /// Which tree they are of, by its position.
    pub subject: usize,
    /// The directory.
    pub path: PathBuf,
    /// Files that have one.
    pub files: u64,
}

/// Lists and proofs that were made, and what could not be.
pub(super) type Made = (Vec<MadeList>, Vec<MadeProofs>, Vec<Failure<crate::Error>>);

/// The directory on disk that the list of a tree is made in.
pub(super) fn place_of(branch: &Branch) -> Result<PathBuf> {
    let path = branch.lies_in.as_ref().filter(|_| branch.is_on_disk);
    let directory = path.map(|path| if path.is_dir() { Some(path.as_path()) } else { path.parent() });
    let directory = directory.flatten().map(Path::to_path_buf);
    directory.ok_or_else(|| Error::NoPlace(branch.path()))
}

/// What is to be made.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    /// A list of each of these functions.
    pub(super) kinds: Vec<HashKind>,
    /// The functions of the next generation of an ASC MHL, if that is wanted.
    pub(super) mhl: Vec<HashKind>,
    /// The functions of histories that are there, which the new list is held against.
    of_histories: BTreeSet<HashKind>,
    /// When it began, as a list of ASC MHL has it.
    date: String,
    /// The date in the names of other lists, and of directories with proofs.
    list_date: String,
}

impl Wanted {
    /// Refuses what cannot be meant. Proofs need a list of BLAKE3.
    pub(super) fn new(mut kinds: Vec<HashKind>, mhl: Option<Vec<HashKind>>, proofs: bool) -> Result<Self> {
        let invalid = |what: String| Err(Error::Verify(verify::Error::Invalid(what)));
        let mhl = match mhl.map(|kinds| checked_kinds(&kinds)) {
            None => Vec::new(),
            Some(Ok(kinds)) if kinds.is_empty() => return invalid("a list of ASC MHL needs a hash".into()),
            Some(Ok(kinds)) => kinds,
            Some(Err(refused)) => return invalid(refused.to_string()),
        };
        if proofs && !kinds.contains(&HashKind::Blake3) {
            kinds.push(HashKind::Blake3);
        }
        let (of_histories, date) = (BTreeSet::new(), list_date(now_ns()).unwrap_or_default());
        Ok(Self { kinds, mhl, of_histories, list_date: date.clone(), date })
    }

    /// Notes which functions the histories in these trees have, if an ASC MHL is made: whether
    /// `go_on` did not end that.
    pub(super) fn note_histories<'b>(
        &mut self,
        branches: impl Iterator<Item = &'b Branch>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool> {
        for branch in branches.filter(|_| !self.mhl.is_empty()) {
            match branch.tree.node(branch.id)?.kind {
                Kind::Directory if !add_kinds_below(branch, &mut self.of_histories, go_on) => {
                    return Ok(false);
                }
                Kind::Directory => {}
                _ => add_kinds_in(&place_of(branch)?, &mut self.of_histories),
            }
        }
        Ok(true)
    }

    /// The directory on disk that what is made of each tree goes into; none if nothing is made. All
    /// of it gets a date that no list of our own counts for more than that is in one of these.
    pub(super) fn places<'b>(&mut self, branches: impl Iterator<Item = &'b Branch>) -> Result<Vec<PathBuf>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let places = branches.map(place_of).collect::<Result<Vec<_>>>()?;
        for place in &places {
            let date = target::open(place).and_then(|place| new_lists::date_in(&place));
            let date = date.map_err(|error| crate::Error::io("list", place, error))?;
            self.list_date = std::mem::take(&mut self.list_date).max(date);
        }
        Ok(places)
    }

    /// Leaves out what is in none of the lists: the directory of the proofs, which a walk may meet
    /// that goes on while they are written, and what no ASC MHL has, if nothing else is made.
    pub(super) fn leave_out(&self, subject: &mut Subject) -> Result<()> {
        subject.left_out.insert(sums::proofs_name(&self.list_date).into_bytes());
        if self.kinds.is_empty() && !self.mhl.is_empty() {
            let ignored = subject.ignored.without(&IGNORED);
            subject.ignored = ignored.map_err(|error| verify::Error::Invalid(error.to_string()))?;
        }
        Ok(())
    }

    /// With a list of BLAKE3, if any is made: proofs that are there are by the newest one.
    pub(super) fn keep_proofs(&mut self) {
        if !self.is_empty() && !self.kinds.contains(&HashKind::Blake3) {
            self.kinds.push(HashKind::Blake3);
        }
    }

    /// With lists of these functions, too.
    pub(super) fn add(&mut self, kinds: Vec<HashKind>) {
        for kind in kinds {
            if !self.kinds.contains(&kind) {
                self.kinds.push(kind);
            }
        }
    }

    /// Whether there is nothing to be made.
    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.mhl.is_empty()
    }

    /// What is computed of each file.
    pub(super) fn digests(&self) -> Vec<HashKind> {
        let mut all = self.kinds.clone();
        for kind in self.mhl.iter().chain(&self.of_histories) {
            if !all.contains(kind) {
                all.push(*kind);
            }
        }
        all
    }
}

/// Hears what is found, keeps the digests of what is as it should be, and passes all on.
pub(super) struct Making<'e> {
    /// The directory, and what is known of its files, for each tree; none if no list is made.
    trees: Vec<(PathBuf, ExpectedBuilder)>,
    wanted: Wanted,
    /// What is computed of each file for them.
    kinds: Vec<HashKind>,
    proofs: Vec<MadeProofs>,
    /// The directories of proofs that were begun, by their trees, and what was written into them.
    begun: BTreeMap<usize, (PathBuf, Vec<String>)>,
    failures: Vec<Failure<crate::Error>>,
    events: &'e mut dyn VerifyEvents,
}

impl VerifyEvents for Making<'_> {
    fn go_on(&mut self, progress: &Progress) -> bool {
        self.events.go_on(progress)
    }

    fn found(&mut self, finding: &Finding) {
        let is_good = matches!(finding.outcome, Outcome::Matches | Outcome::New);
        if let Some((_, builder)) = self.trees.get_mut(finding.subject).filter(|_| is_good) {
            let wanted = finding.digests.iter().filter(|digest| self.kinds.contains(&digest.kind));
            let wanted: Vec<_> = wanted.cloned().collect();
            if !wanted.is_empty() {
                builder.add(&finding.key, 0, None, &wanted);
            }
            if let Some(proof) = &finding.proof {
                self.prove(finding, proof);
            }
        }
        self.events.found(finding);
    }
}

impl<'e> Making<'e> {
    pub(super) fn new(places: Vec<PathBuf>, wanted: Wanted, events: &'e mut dyn VerifyEvents) -> Self {
        let trees = places.into_iter().map(|place| (place, Expected::builder())).collect();
        let kinds = wanted.digests();
        let (proofs, begun, failures) = Default::default();
        Self { trees, wanted, kinds, proofs, begun, failures, events }
    }

    /// Writes the proof of a file.
    fn prove(&mut self, finding: &Finding, proof: &[u8]) {
        let digest = finding.digests.iter().find(|digest| digest.kind == HashKind::Blake3);
        let (Some((place, _)), Some(digest)) = (self.trees.get(finding.subject), digest) else { return };
        let path = place.join(sums::proofs_name(&self.wanted.list_date));
        let (name, is_first) = (sums::proof_name(digest), !self.begun.contains_key(&finding.subject));
        let (_, names) = self.begun.entry(finding.subject).or_insert_with(|| (path.clone(), Vec::new()));
        match write_proof(place, &path, &name, proof, is_first) {
            Ok(()) => names.push(name),
            // Two files with the same bytes.
            Err(error) if is_taken(&error) => {}
            Err(error) => return self.failures.push(Failure { key: finding.key.clone(), error }),
        }
        match self.proofs.iter_mut().find(|one| one.subject == finding.subject) {
            Some(one) => one.files += 1,
            None => self.proofs.push(MadeProofs { subject: finding.subject, path, files: 1 }),
        }
    }

    /// Makes no list: the run was interrupted.
    pub(super) fn give_up(mut self) -> Made {
        self.take_back(&[]);
        (Vec::new(), Vec::new(), self.failures)
    }

    /// Takes back the proofs of trees that got no list of BLAKE3, which says what they prove, and
    /// directories in which none could be written.
    fn take_back(&mut self, made: &[MadeList]) {
        for (subject, (path, names)) in std::mem::take(&mut self.begun) {
            let is_its = |list: &MadeList| list.subject == subject && list.kind == Some(HashKind::Blake3);
            if !names.is_empty() && made.iter().any(is_its) {
                continue;
            }
            self.proofs.retain(|one| one.subject != subject);
            if let Err(error) = remove_proofs(&path, &names) {
                let error = crate::Error::io("remove", path, error);
                self.failures.push(Failure { key: Vec::new(), error });
            }
        }
    }

    /// Makes the lists: which were made, and which could not be. A tree without a file gets none.
    pub(super) fn finish(mut self, branches: &[&Branch]) -> Made {
        let (mut made, mut failures) = (Vec::new(), std::mem::take(&mut self.failures));
        let trees = std::mem::take(&mut self.trees);
        for ((subject, (place, builder)), branch) in trees.into_iter().enumerate().zip(branches) {
            let expected = builder.finish();
            if expected.is_empty() {
                continue;
            }
            let is_there = |name: &[u8]| place.join(OsStr::from_bytes(name)).symlink_metadata().is_ok();
            let number = sums::free_number(&self.wanted.list_date, NAMES_MAX, is_there);
            for kind in &self.wanted.kinds {
                match make(&place, *kind, (&self.wanted.list_date, number), &expected) {
                    Ok(path) => {
                        let (kind, files) = (Some(*kind), expected.len() as u64);
                        made.push(MadeList { subject, path, kind, files });
                    }
                    Err(error) => failures.push(Failure { key: Vec::new(), error }),
                }
            }
            if self.wanted.mhl.is_empty() {
                continue;
            }
            match continue_history(
                &place,
                branch,
                (&self.wanted.mhl, &self.wanted.date),
                &expected,
                &mut failures,
            ) {
                Ok(Some((path, files))) => made.push(MadeList { subject, path, kind: None, files }),
                Ok(None) => {}
                Err(error) => failures.push(Failure { key: FOLDER.as_bytes().to_vec(), error }),
            }
        }
        self.take_back(&made);
        failures.append(&mut self.failures);
        (made, self.proofs, failures)
    }
}

/// Removes proofs, and the directory that they are in, unless others are in it, too.
fn remove_proofs(path: &Path, names: &[String]) -> io::Result<()> {
    let (Some(place), Some(folder)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let place = target::open(place)?;
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    if !names.is_empty() {
        let open = target::open(path)?;
        let mut names = names.iter();
        names.try_for_each(|name| gone(System.unlink(open.as_fd(), OsStr::new(name))))?;
    }
    match gone(System.remove_directory(place.as_fd(), folder)) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed.and_then(|()| System.sync(place.as_fd())),
    }
}

/// Writes the next generation of the ASC MHL of a directory: the list, and how many files are in
/// it; `None` where it would have none.
fn continue_history(
    place: &Path,
    branch: &Branch,
    (kinds, date): (&[HashKind], &str),
    expected: &Expected,
    failures: &mut Vec<Failure<crate::Error>>,
) -> crate::Result<Option<(PathBuf, u64)>> {
    let mut files = Vec::with_capacity(expected.len());
    for entry in expected.iter().filter(|entry| !is_ignored(entry.path())) {
        let node = branch.find(entry.path())?.map(|id| branch.tree.node(id)).transpose()?;
        // One that is gone since it was read is not listed.
        let Some(node) = node else { continue };
        let (key, digests) = (entry.path().into(), entry.digests().into());
        files.push(Listed { key, len: node.len, mtime_ns: node.mtime_ns, digests });
    }
    if files.is_empty() {
        return Ok(None);
    }
    let io = |operation| move |error| crate::Error::io(operation, place.join(FOLDER), error);
    let mut target = Target::at(place).map_err(io("make"))?;
    let folder = target.directory(&[OsStr::new(FOLDER)]).map_err(io("make"))?;
    let outbox = Outbox::new(Arc::new(System)).map_err(io("choose names of temporary files in"))?;
    let generation = Generation {
        outbox: &outbox,
        path: place,
        folder: &folder,
        kinds,
        process: MhlProcess::InPlace,
        date,
        ignored: &[],
        is_durable: true,
    };
    let mut fail = |key: &[u8], error| failures.push(Failure { key: key.to_vec(), error });
    let written = generation.write(files, None, &mut fail)?;
    System.sync(folder.as_fd()).map_err(io("sync"))?;
    System.sync(target.root().as_fd()).map_err(io("sync"))?;
    Ok(Some((place.join(OsStr::from_bytes(&written.key)), written.files)))
}

/// Makes a list under a name that nothing has, with this number or a later one.
fn make(
    place: &Path,
    kind: HashKind,
    (date, mut number): (&str, u32),
    expected: &Expected,
) -> crate::Result<PathBuf> {
    loop {
        let name = sums::list_name(kind, date, number);
        match write(place, &name, kind, expected) {
            Err(error) if is_taken(&error) && number < NAMES_MAX => number += 1,
            written => return written.map(|()| place.join(name)),
        }
    }
}

/// Writes a proof, the first one into a directory that is made for it, durable before it is used.
fn write_proof(place: &Path, path: &Path, name: &str, proof: &[u8], is_first: bool) -> crate::Result<()> {
    if is_first {
        let made = || -> io::Result<()> {
            let mut target = Target::at(place)?;
            target.directory(&[path.file_name().unwrap_or_default()])?;
            System.sync(target.root().as_fd())
        };
        made().map_err(|error| crate::Error::io("make", path, error))?;
    }
    let mut draft = Draft::new_in(path, OsStr::new(name))?;
    draft.write(proof)?;
    draft.finish()
}

fn is_taken(error: &crate::Error) -> bool {
    error.io_kind() == Some(io::ErrorKind::AlreadyExists)
}

fn write(place: &Path, name: &str, kind: HashKind, expected: &Expected) -> crate::Result<()> {
    let mut draft = Draft::new_in(place, OsStr::new(name))?;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    for entry in expected.iter() {
        let digests = entry.digests();
        let Some(digest) = digests.iter().find(|digest| digest.kind == kind) else { continue };
        block.extend(sums::line(digest, entry.path()));
        if block.len() >= BLOCK_BYTES {
            draft.write(&block)?;
            block.clear();
        }
    }
    draft.write(&block)?;
    draft.finish()
}
