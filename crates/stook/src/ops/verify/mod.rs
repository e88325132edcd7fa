//! Trees against their own lists, lists that are given, or another tree; and lists of what is
//! there.

mod above;
mod accept;
mod advice;
mod blocks;
mod dates;
mod lists;
mod made;
mod mend;
mod own;
mod range;
mod reading;
mod repair;
mod task;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub use advice::Repairable;
pub use lists::{ListProblem, ListReport, is_dated_ahead};
pub use made::{MadeList, MadeProofs};
pub use range::{RangeGiven, RangeReport};
pub use repair::{
    GoOn, OpenGood, RepairCounts, RepairGiven, RepairPhase, RepairProgress, RepairReport, Repaired,
};

use self::accept::Older;
use self::advice::{name_tree, or_a_list, repairable};
use self::made::{Making, Wanted};
use self::range::blake3_of;
use self::task::{Intent, ProvenBy, Task, tasks_of_lists, tasks_of_trees};
use crate::copy::Misplaced;
use crate::error::chain;
use crate::hash::{HashKind, each_once};
use crate::ops::copy;
pub use crate::ops::given::{Given, OpenGiven};
use crate::source::AccessRule;
use crate::tree::Failure;
use crate::verify::{
    self, Branch, Progress, Subject, SubjectReport, Unreadable, Verify, VerifyEvents, VerifyOptions,
    VerifyReport,
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
    /// A list, given as a tree.
    #[error("{} is a list of checksums itself", .0.display())]
    IsList(PathBuf),
    /// The folder of an ASC MHL, given as a tree.
    #[error("{} has the lists of the directory above it", .0.display())]
    IsHistory(PathBuf),
    /// A list of the tree that is not used, where a new one is to be made.
    #[error(
        "{} has the list {}, which is not used: a new list would count for more, and cover up the damage that it \
         knows of; use the lists that it has, or name all of them",
        path.display(),
        list.display()
    )]
    NotUsed {
        /// The tree.
        path: PathBuf,
        /// The list.
        list: PathBuf,
    },
    /// Lists in which nothing is.
    #[error("no file is listed in {}", .0.display())]
    EmptyList(PathBuf),
    /// Lists of which one cannot be read whole, and which have nothing of what was asked for: that
    /// may be what cannot be read.
    #[error("nothing is verified, because a list cannot be read whole: {}{}: {why}", list.display(), in_line(*line))]
    BadList {
        /// The list.
        list: PathBuf,
        /// The first line that cannot be used, from 1, if it is one.
        line: Option<u64>,
        /// Why not.
        why: String,
    },
    /// What a directory above has in its lists, and is to have one of its own.
    #[error(
        "{} is in the lists of {}: make them there, so that they do not say two things of one file",
        path.display(),
        above.display()
    )]
    ListedAbove {
        /// What was asked for.
        path: PathBuf,
        /// The directory that has the lists.
        above: PathBuf,
    },
    /// A part of what has lists, which is repaired as a whole.
    #[error(
        "{} is repaired with all that is in its lists, which are in {}: name that, and the good copy of it",
        path.display(),
        above.display()
    )]
    NotWhole {
        /// What was asked for.
        path: PathBuf,
        /// The directory that has the lists.
        above: PathBuf,
    },
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

impl Error {
    /// The error of a list of which something cannot be used.
    fn bad_list(list: &ListReport) -> Self {
        let first = list.problems.first();
        let why = first.map_or_else(|| "it has bad lines".to_owned(), |first| first.what.clone());
        Self::BadList { list: list.path.clone(), line: first.and_then(|first| first.line), why }
    }
}

/// A line in a message.
fn in_line(line: Option<u64>) -> String {
    line.map(|line| format!(", line {line}")).unwrap_or_default()
}

/// What is verified, and how.
#[derive(Debug, Default)]
pub struct VerifyGiven {
    /// The trees. Without any, they are the directories that the lists are in; that of a pipe
    /// (`/dev/stdin`) is the current one.
    pub trees: Vec<Given>,
    /// Trees that could not be opened: they cost only themselves ([`open_each`]).
    pub unopened: Vec<Failure<crate::Error>>,
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
    /// Paths that were changed or deleted on purpose, relative to the only tree; of a directory all
    /// that is in it. Nothing is expected of them, and lists that are made have them as they are.
    /// If nothing is wrong then, lists that were made here earlier are removed: the new ones, of
    /// the same functions and more, say all that is true of them.
    pub accept: Vec<PathBuf>,
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
    /// Lists that were made earlier, and removed because those that were made replace them.
    pub removed: Vec<PathBuf>,
    /// The directories with proofs that were made.
    pub proofs: Vec<MadeProofs>,
    /// Without a path: trees of several that could not be opened or have nothing to verify with,
    /// lists of several that could not be opened, and lists that could not be made. By the path of
    /// a file: its proof, which is damaged or could not be made.
    pub failures: Vec<Failure<crate::Error>>,
    /// The directories of which files can be repaired, by their own lists.
    pub repairable: Vec<Repairable>,
}

impl Verified {
    fn interrupted() -> Self {
        let report = VerifyReport { interrupted: true, ..VerifyReport::default() };
        Self { report, ..Self::default() }
    }

    /// Removes lists that those that were made replace, or of which all files are gone, if nothing
    /// is wrong.
    fn remove(&mut self, older: &Older) {
        let is_bare = self.report.subjects.iter().all(|one| one.matching + one.new == 0);
        if !self.report.interrupted && (is_bare || !self.made.is_empty()) && self.wrong(true) == 0 {
            (self.removed, self.failures) = older.remove();
        }
    }

    /// Lines of lists that could not be used, and lists that could not be read to their end.
    pub fn bad_lines(&self) -> u64 {
        self.lists.iter().map(|list| list.bad_lines).sum()
    }

    /// The same of one tree, by its position, and in how many lists they are.
    pub fn bad_lines_of(&self, tree: usize) -> (u64, u64) {
        let bad = self.lists.iter().filter(|list| list.subject == tree && list.bad_lines > 0);
        bad.fold((0, 0), |(lines, lists), list| (lines + list.bad_lines, lists + 1))
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
        let accept = accept::keys(&self)?;
        let Self { trees, unopened: mut unverified, lists, against, make, mhl, proofs, options, .. } = self;
        let mut wanted = Wanted::new(each_once(make), mhl, proofs)?;
        let tasks = match trees.is_empty() && unverified.is_empty() {
            true => tasks_of_lists(&lists, &mut unverified)?,
            false => tasks_of_trees(trees, &lists, &mut unverified)?,
        };
        if tasks.is_empty() {
            return Err(Error::Nothing);
        }
        let against = against.map(Given::into_branch).transpose()?;
        if let Some((other, _)) = &against {
            tasks.iter().try_for_each(|task| refuse_itself(&task.subject.branch, other))?;
        }
        let other = against.as_ref().map(|(branch, _)| branch);
        let go_on = &mut || events.go_on(&Progress::default());
        let intent = Intent { makes: !wanted.is_empty(), continues: !wanted.mhl.is_empty(), accept: &accept };
        let expecting = expect_all(tasks, other, intent, &mut unverified, go_on)?;
        let Some((mut tasks, reports)) = expecting else { return Ok(Verified::interrupted()) };
        if tasks.iter().any(|task| task.proven.is_own()) {
            wanted.keep_proofs();
        }
        let mut older = Older::default();
        if let [task] = tasks.as_slice()
            && !accept.is_empty()
        {
            older = Older::of(&task.subject.branch, task.subject.listed.as_deref())?;
            wanted.add(older.kinds());
        }
        let places = wanted.places(tasks.iter().map(|task| &task.subject.branch))?;
        let branches = tasks.iter().map(|task| &task.subject.branch);
        if !wanted.note_histories(branches, &mut || events.go_on(&Progress::default()))? {
            return Ok(Verified::interrupted());
        }
        let lacking: Vec<Vec<Misplaced>> =
            tasks.iter_mut().map(|task| std::mem::take(&mut task.lacking)).collect();
        let proven: Vec<ProvenBy> = tasks.iter_mut().map(|task| std::mem::take(&mut task.proven)).collect();
        let mut subjects: Vec<Subject> = tasks.into_iter().map(|task| task.subject).collect();
        subjects.iter_mut().try_for_each(|subject| wanted.leave_out(subject))?;
        let known = subjects.clone();
        let options = VerifyOptions { digests: wanted.digests(), proofs, ..options };
        let access = options.access();
        let verify = Verify::new(subjects).with_options(options);
        let mut making = Making::new(places, wanted, events);
        let mut report = verify.run(&mut making)?;
        let branches: Vec<&Branch> = known.iter().map(|subject| &subject.branch).collect();
        let (made, made_proofs, mut failures) =
            if report.interrupted { making.give_up() } else { making.finish(&branches) };
        failures.splice(0..0, unverified);
        for ((one, subject), proven) in report.subjects.iter_mut().zip(&known).zip(&proven) {
            let is_whole = name_blocks(one, subject, proven, access, (&mut *events, &mut failures));
            report.interrupted |= !is_whole;
        }
        for (one, own) in report.subjects.iter_mut().zip(lacking) {
            let path = one.path.clone();
            own.into_iter().for_each(|entry| add_lacking(one, &path, &entry));
            if let Some((other, theirs)) = &against {
                theirs.iter().for_each(|entry| add_lacking(one, &other.path(), entry));
            }
        }
        let is_by_own = lists.is_empty() && against.is_none();
        let found = if is_by_own { report.subjects.as_slice() } else { &[] };
        let repairable = repairable(found, &known, &reports);
        let (lists, removed, proofs) = (reports, Vec::new(), made_proofs);
        let mut verified = Verified { report, lists, made, removed, proofs, failures, repairable };
        verified.remove(&older);
        Ok(verified)
    }
}

/// Opens several trees with a function: one that cannot be opened costs only itself, unless none
/// can, or `ends` says of the error that it ends everything.
///
/// # Errors
/// The first error then.
pub fn open_each<T, E>(
    paths: &[PathBuf],
    mut open: impl FnMut(&PathBuf) -> std::result::Result<T, E>,
    ends: impl Fn(&E) -> bool,
    in_words: impl Fn(&E) -> String,
) -> std::result::Result<(Vec<T>, Vec<Failure<crate::Error>>), E> {
    let (mut opened, mut failures, mut first) = (Vec::with_capacity(paths.len()), Vec::new(), None);
    for path in paths {
        match open(path) {
            Ok(given) => opened.push(given),
            Err(error) if ends(&error) => return Err(error),
            Err(error) => {
                failures.push(unverified(path, in_words(&error)));
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(error) if opened.is_empty() => Err(error),
        _ => Ok((opened, failures)),
    }
}

/// The newest list of those that are made here, in a directory on disk; `None` where it has none,
/// and where it cannot be listed.
pub fn newest_list(directory: &Path) -> Option<PathBuf> {
    let lists = own::lists_of(&Branch::directory(directory).ok()?).ok()?.lists;
    let own = lists.iter().filter(|list| own::is_written_here(&list.name) || list.is_mhl());
    own.max_by_key(|list| list.date_ns).map(|list| list.path.clone())
}

/// A tree or a list that is not verified.
fn unverified(path: &Path, why: String) -> Failure<crate::Error> {
    Failure { key: Vec::new(), error: crate::Error::io("verify", path, io::Error::other(why)) }
}

/// Finds out what each tree should have. One that nothing says that of costs only itself, unless it
/// is so with all. `None` where `go_on` ended that.
fn expect_all(
    tasks: Vec<Task>,
    against: Option<&Branch>,
    intent: Intent<'_>,
    failures: &mut Vec<Failure<crate::Error>>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<(Vec<Task>, Vec<ListReport>)>> {
    let (mut expecting, mut reports, mut first) = (Vec::with_capacity(tasks.len()), Vec::new(), None);
    for mut task in tasks {
        match task.expect(expecting.len(), against, intent, go_on) {
            Ok(Some(mut lists)) => {
                name_tree(&mut lists, &task.subject.branch);
                reports.extend(lists);
                expecting.push(task);
            }
            Ok(None) => return Ok(None),
            Err(error) => {
                let error = or_a_list(error, &task.subject.branch);
                failures.push(unverified(&task.subject.branch.path(), chain(&error)));
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(error) if expecting.is_empty() => Err(error),
        _ => Ok(Some((expecting, reports))),
    }
}

/// Refuses to compare a tree with itself: all of it would match.
fn refuse_itself(branch: &Branch, other: &Branch) -> Result<()> {
    // What it is below the place that its bytes are in: nothing, where it is on disk itself. That
    // place is known by its numbers: a link or a bind mount gives it another path.
    let place = |branch: &Branch| {
        let lies_in = branch.lies_in.as_ref()?;
        let path = branch.path();
        let within = if branch.is_on_disk { PathBuf::new() } else { within(&path, lies_in) };
        let metadata = lies_in.metadata().ok()?;
        Some((metadata.dev(), metadata.ino(), branch.is_on_disk, within))
    };
    match place(branch).is_some_and(|one| place(other) == Some(one)) {
        true => {
            let what = format!("{} would be compared with itself", branch.path().display());
            Err(Error::Verify(verify::Error::Invalid(what)))
        }
        false => Ok(()),
    }
}

/// The rest of a path in a pack or an archive, by whatever name that was called.
fn within(path: &Path, lies_in: &Path) -> PathBuf {
    let (path, lies_in) = (path.as_os_str().as_bytes(), lies_in.as_os_str().as_bytes());
    PathBuf::from(OsStr::from_bytes(path.strip_prefix(lies_in).unwrap_or(path)))
}

/// Finds out which blocks of damaged files are bad, where there is a proof, and verifies all
/// proofs: whether that was not ended.
fn name_blocks(
    report: &mut SubjectReport,
    subject: &Subject,
    proven: &ProvenBy,
    access: AccessRule,
    (events, failures): (&mut dyn VerifyEvents, &mut Vec<Failure<crate::Error>>),
) -> bool {
    if proven.folders.is_empty() {
        return true;
    }
    let proofs = proven.proofs(&subject.branch);
    let go_on = &mut || events.go_on(&Progress::default());
    let Some(proven) = proven.expected(&subject.branch, go_on) else { return false };
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
        if let Err(error) = proofs.check(entry.path(), &digest, go_on) {
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
