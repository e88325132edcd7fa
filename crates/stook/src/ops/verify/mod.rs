//! Trees against their own lists, lists that are given, or another tree; and lists of what is
//! there.

mod blocks;
mod dates;
mod lists;
mod made;
mod own;
mod range;
mod reading;
mod repair;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use lists::{ListProblem, ListReport};
pub use made::{MadeList, MadeProofs};
pub use range::{RangeGiven, RangeReport};
pub use repair::{GoOn, OpenGood, RepairGiven, RepairPhase, RepairProgress, RepairReport, Repaired};

use self::blocks::Proofs;
use self::lists::ListFile;
use self::made::{Making, Wanted};
use self::range::blake3_of;
use crate::copy::Misplaced;
use crate::format::mhl;
use crate::hash::HashKind;
use crate::ops::copy;
pub use crate::ops::given::{Given, OpenGiven};
use crate::source::AccessRule;
use crate::tree::{Failure, NodeId};
use crate::verify::{
    self, Branch, Expected, Progress, Subject, SubjectReport, Unreadable, Verify, VerifyEvents,
    VerifyOptions, VerifyReport,
};

/// A result of verifying.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing was verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What verifying refuses.
    #[error(transparent)]
    Verify(#[from] verify::Error),
    /// A tree that cannot be opened.
    #[error(transparent)]
    Open(#[from] copy::Error),
    /// A tree or a list.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// Nothing was named.
    #[error("there is nothing to verify: neither a tree nor a list was named")]
    Nothing,
    /// A tree without lists, with which nothing else was to be done.
    #[error("{} has no list of checksums", .0.display())]
    NoList(PathBuf),
    /// Lists in which nothing is.
    #[error("no file is listed in {}", .0.display())]
    EmptyList(PathBuf),
    /// A part of a file that no list has with BLAKE3.
    #[error("no list in the directory of {}, or above, has it with BLAKE3", .0.display())]
    NotListed(PathBuf),
    /// A part of a file of which there is no proof.
    #[error("there is no proof of {} beside its list", .0.display())]
    NoProof(PathBuf),
    /// A list is to be made where none can be.
    #[error("a list can only be made in a directory on disk, and {} is none", .0.display())]
    NoPlace(PathBuf),
}

/// What is verified, and how.
#[derive(Debug, Default)]
pub struct VerifyGiven {
    /// The trees. Without any, they are the directories that the lists are in.
    pub trees: Vec<Given>,
    /// Lists: for each tree all of them. Without any, the lists that each tree has itself.
    pub lists: Vec<PathBuf>,
    /// What the trees should be like. The lists that they have are not used then, but those that
    /// are given are.
    pub against: Option<Given>,
    /// A list of each of these functions is made in each tree: of what is as its lists say, or the
    /// other tree, and of what is in no list.
    pub make: Vec<HashKind>,
    /// The same in a list of ASC MHL with these functions, if one is wanted: the next generation of
    /// the history of each tree, in `ascmhl`.
    pub mhl: Option<Vec<HashKind>>,
    /// Whether the proofs of large files are made beside a list of BLAKE3, which is made then.
    pub proofs: bool,
    /// How.
    pub options: VerifyOptions,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Verified {
    /// What was found of each tree.
    pub report: VerifyReport,
    /// The lists that were read, in the order of their dates for each tree.
    pub lists: Vec<ListReport>,
    /// The lists that were made.
    pub made: Vec<MadeList>,
    /// The directories with proofs that were made.
    pub proofs: Vec<MadeProofs>,
    /// Lists that could not be made, by their path.
    pub failures: Vec<Failure<crate::Error>>,
}

impl Verified {
    fn interrupted() -> Self {
        let report = VerifyReport { interrupted: true, ..VerifyReport::default() };
        Self { report, ..Self::default() }
    }

    /// Lines of lists that could not be used, and lists that could not be read to their end.
    pub fn bad_lines(&self) -> u64 {
        self.lists.iter().map(|list| list.bad_lines).sum()
    }

    /// How much is not as it should be; what nothing says should be there, unless it is allowed.
    pub fn wrong(&self, allow_extra: bool) -> u64 {
        let paths = if allow_extra { self.report.damaged() } else { self.report.wrong() };
        paths + self.bad_lines() + self.failures.len() as u64
    }
}

impl VerifyGiven {
    /// Verifies.
    ///
    /// # Errors
    /// What is refused before anything is read, and what cannot be opened.
    pub fn run(self, events: &mut dyn VerifyEvents) -> Result<Verified> {
        let Self { trees, lists, against, make, mhl, proofs, options } = self;
        let mut wanted = Wanted::new(make, mhl, proofs)?;
        let mut tasks = match trees.is_empty() {
            true => tasks_of_lists(&lists)?,
            false => tasks_of_trees(trees, &lists)?,
        };
        if tasks.is_empty() {
            return Err(Error::Nothing);
        }
        let against = against.map(Given::into_branch).transpose()?;
        if let Some((other, _)) = &against {
            tasks.iter().try_for_each(|task| refuse_itself(&task.subject.branch, other))?;
        }
        let mut reports = Vec::new();
        for (at, task) in tasks.iter_mut().enumerate() {
            let other = against.as_ref().map(|(branch, _)| branch);
            let go_on = &mut || events.go_on(&Progress::default());
            match task.expect(at, other, !wanted.is_empty(), go_on)? {
                Some(lists) => reports.extend(lists),
                None => return Ok(Verified::interrupted()),
            }
        }
        if tasks.iter().any(|task| !task.proofs.is_empty()) {
            wanted.keep_proofs();
        }
        let places = tasks.iter().map(|task| made::place_of(&task.subject.branch));
        let places = if wanted.is_empty() { Vec::new() } else { places.collect::<Result<Vec<_>>>()? };
        let lacking: Vec<Vec<Misplaced>> =
            tasks.iter_mut().map(|task| std::mem::take(&mut task.lacking)).collect();
        let folders: Vec<Vec<NodeId>> =
            tasks.iter_mut().map(|task| std::mem::take(&mut task.proofs)).collect();
        let mut subjects: Vec<Subject> = tasks.into_iter().map(|task| task.subject).collect();
        subjects.iter_mut().for_each(|subject| _ = subject.left_out.insert(wanted.proofs_name()));
        let known = subjects.clone();
        let options = VerifyOptions { digests: wanted.digests(), proofs, ..options };
        let access = options.access();
        let verify = Verify::new(subjects).with_options(options);
        let mut making = Making::new(places, wanted, events);
        let mut report = verify.run(&mut making)?;
        let branches: Vec<&Branch> = known.iter().map(|subject| &subject.branch).collect();
        let (made, made_proofs, mut failures) =
            if report.interrupted { Default::default() } else { making.finish(&branches) };
        for ((one, subject), folders) in report.subjects.iter_mut().zip(&known).zip(&folders) {
            let proofs = Proofs { branch: &subject.branch, folders };
            let is_whole = name_blocks(one, subject, &proofs, access, (&mut *events, &mut failures));
            report.interrupted |= !is_whole;
        }
        for (one, own) in report.subjects.iter_mut().zip(lacking) {
            let path = one.path.clone();
            own.into_iter().for_each(|entry| add_lacking(one, &path, &entry));
            if let Some((other, theirs)) = &against {
                theirs.iter().for_each(|entry| add_lacking(one, &other.path(), entry));
            }
        }
        Ok(Verified { report, lists: reports, made, proofs: made_proofs, failures })
    }
}

/// Refuses to compare a tree with itself: all of it would match.
fn refuse_itself(branch: &Branch, other: &Branch) -> Result<()> {
    let place = |branch: &Branch| branch.lies_in.as_ref().and_then(|path| path.canonicalize().ok());
    let is_itself = branch.name == other.name && place(branch).is_some_and(|one| place(other) == Some(one));
    match is_itself && branch.path() == other.path() {
        true => {
            let what = format!("{} would be compared with itself", branch.path().display());
            Err(Error::Verify(verify::Error::Invalid(what)))
        }
        false => Ok(()),
    }
}

/// Finds out which blocks of damaged files are bad, where there is a proof, and verifies all
/// proofs: whether that was not ended.
fn name_blocks(
    report: &mut SubjectReport,
    subject: &Subject,
    proofs: &Proofs<'_>,
    access: AccessRule,
    (events, failures): (&mut dyn VerifyEvents, &mut Vec<Failure<crate::Error>>),
) -> bool {
    if proofs.folders.is_empty() {
        return true;
    }
    let lists = own::lists_of(&subject.branch).map(|own| own.lists).unwrap_or_default();
    let go_on = &mut || events.go_on(&Progress::default());
    let Some(proven) = reading::proven(&subject.branch, lists, go_on) else { return false };
    let mut is_ended = false;
    let (mut failed, mut seen) = (Vec::new(), BTreeSet::new());
    let mut of = |key: &[u8]| {
        let newest = subject.listed.as_ref().and_then(|listed| blake3_of(listed, key));
        let is_older = newest.is_none();
        let digest = newest.or_else(|| blake3_of(&proven, key))?;
        let mut go_on = |_: u64| {
            is_ended |= !events.go_on(&Progress::default());
            !is_ended
        };
        match proofs.bad_blocks(key, &digest, access, &mut go_on) {
            // It was another file when the older list was made.
            Ok(Some(bad)) if is_older && bad.bad == bad.blocks => None,
            Ok(found) => found,
            // A proof that cannot be used is damage, too.
            Err(error) => {
                seen.insert(digest.value.clone());
                failed.push(Failure { key: key.to_vec(), error });
                None
            }
        }
    };
    report.mismatching.iter_mut().for_each(|one| one.bad = of(&one.key));
    report.unreadable.iter_mut().for_each(|one| one.bad = of(&one.key));
    for entry in proven.iter() {
        let go_on = &mut || {
            is_ended |= !events.go_on(&Progress::default());
            !is_ended
        };
        // Files with the same bytes have one proof.
        let Some(digest) = blake3_of(&proven, entry.path()).filter(|one| seen.insert(one.value.clone()))
        else {
            continue;
        };
        if let Err(error) = proofs.check(&digest, go_on) {
            failed.push(Failure { key: entry.path().to_vec(), error });
        }
        if is_ended {
            break;
        }
    }
    if !is_ended {
        failures.extend(failed);
    }
    !is_ended
}

/// Notes what a pack or an archive has, or should have, that its tree has not.
fn add_lacking(report: &mut SubjectReport, tree: &Path, lacking: &Misplaced) {
    let path = tree.join(OsStr::from_bytes(&lacking.path));
    let error = crate::Error::io("verify", path, io::Error::other(lacking.why.clone()));
    let unreadable = Unreadable { key: lacking.path.clone(), offset: None, error, bad: None };
    report.unreadable.insert(0, unreadable);
}

/// A tree, and the lists for it.
struct Task {
    subject: Subject,
    /// What it has, or should have, that the tree has not.
    lacking: Vec<Misplaced>,
    /// Lists that are given; `None` for those that it has itself.
    given: Option<Vec<ListFile>>,
    /// Directories with proofs that it has.
    proofs: Vec<NodeId>,
}

fn tasks_of_trees(trees: Vec<Given>, lists: &[PathBuf]) -> Result<Vec<Task>> {
    let mut tasks = Vec::with_capacity(trees.len());
    for given in trees {
        let (branch, lacking) = given.into_branch()?;
        let given = (!lists.is_empty()).then(|| lists.iter().map(|list| ListFile::given(list)).collect());
        let (subject, given) = (Subject::new(branch), given.transpose()?);
        tasks.push(Task { subject, lacking, given, proofs: Vec::new() });
    }
    Ok(tasks)
}

/// The directories that lists are in, each with its lists.
fn tasks_of_lists(lists: &[PathBuf]) -> Result<Vec<Task>> {
    let mut directories: Vec<(PathBuf, Vec<ListFile>)> = Vec::new();
    for path in lists {
        let list = ListFile::given(path)?;
        let directory = directory_of(path, list.is_mhl());
        match directories.iter_mut().find(|(known, _)| *known == directory) {
            Some((_, lists)) => lists.push(list),
            None => directories.push((directory, vec![list])),
        }
    }
    let task = |(directory, lists): (PathBuf, Vec<ListFile>)| {
        let subject = Subject::new(Branch::directory(directory)?);
        Ok(Task { subject, lacking: Vec::new(), given: Some(lists), proofs: Vec::new() })
    };
    directories.into_iter().map(task).collect()
}

/// What the paths of a list are relative to.
fn directory_of(list: &Path, is_mhl: bool) -> PathBuf {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let directory = parent(list);
    let is_folder = directory.file_name().is_some_and(|name| name.as_bytes() == mhl::FOLDER.as_bytes());
    if is_mhl && is_folder { parent(&directory) } else { directory }
}

impl Task {
    /// Finds out what the tree should have: what became of the lists that say it.
    /// `None` where `go_on` ended that.
    fn expect(
        &mut self,
        at: usize,
        against: Option<&Branch>,
        makes: bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<ListReport>>> {
        let branch = &self.subject.branch;
        let own = own::lists_of(branch)?;
        self.proofs = own.proofs;
        let mut left_out: BTreeSet<Vec<u8>> = own.names;
        if against.is_some() {
            // Of others it is not known that they are lists of this tree.
            left_out.retain(|name| own::is_written_here(name));
        }
        let (lists, problems) = match self.given.take() {
            Some(given) => {
                left_out.extend(given.iter().filter_map(|list| list.key_in(branch)));
                (given, Vec::new())
            }
            None if against.is_some() => (Vec::new(), Vec::new()),
            None => (own.lists, own.problems),
        };
        let path = branch.path();
        if lists.is_empty() && problems.is_empty() && against.is_none() && !makes {
            return Err(Error::NoList(path));
        }
        let Some(read) = reading::read(branch, lists, at, go_on) else { return Ok(None) };
        let mut reports: Vec<ListReport> = problems;
        reports.iter_mut().for_each(|report| report.subject = at);
        reports.extend(read.reports);
        left_out.extend(read.folders);
        let expected: Expected = read.expected;
        let has_bad_lines = reports.iter().any(|list| list.bad_lines > 0);
        if expected.is_empty() && against.is_none() && !makes && !has_bad_lines {
            return Err(Error::EmptyList(path));
        }
        self.subject.left_out = left_out;
        self.subject.ignored = read.ignored;
        self.subject.listed = (!reports.is_empty()).then(|| Arc::new(expected));
        if let Some(other) = against {
            let theirs = own::lists_of(other)?.names;
            self.subject.left_out.extend(theirs.into_iter().filter(|name| own::is_written_here(name)));
            self.subject.against = Some(other.clone());
        }
        Ok(Some(reports))
    }
}
