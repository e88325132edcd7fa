//! [`Task`]: a tree that is to be verified, and the lists that say what it should have.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::above::Above;
use super::blocks::Proofs;
use super::lists::{ListFile, ListReport, is_handed_over, is_mhl_name};
use super::own::is_chain;
use super::{Error, Given, Result, accept, open_each, own, reading};
use crate::copy::Misplaced;
use crate::error::chain;
use crate::format::mhl;
use crate::tree::descent::joined;
use crate::tree::{Failure, NodeId};
use crate::verify::{self, Branch, Expected, Subject};

/// A tree, and the lists for it.
pub(super) struct Task {
    pub(super) subject: Subject,
    /// What it has, or should have, that the tree has not.
    pub(super) lacking: Vec<Misplaced>,
    /// Lists that are given; `None` for those that it has itself.
    given: Option<Vec<ListFile>>,
    /// Where its lists are, and the proofs that belong to these.
    pub(super) proven: ProvenBy,
}

/// What is wanted besides verifying.
#[derive(Debug, Clone, Copy)]
pub(super) struct Intent<'a> {
    /// Lists.
    pub(super) makes: bool,
    /// Among them the next generation of an ASC MHL, which verifies the earlier ones itself.
    pub(super) continues: bool,
    /// What was changed on purpose.
    pub(super) accept: &'a [Vec<u8>],
}

/// Where the proofs of a tree are, and the lists that these belong to.
#[derive(Debug, Default)]
pub(super) struct ProvenBy {
    /// Directories with proofs.
    pub(super) folders: Vec<NodeId>,
    /// The directory above that has them, if it is not the tree itself.
    above: Option<Above>,
}

impl ProvenBy {
    /// Whether the tree itself has proofs.
    pub(super) fn is_own(&self) -> bool {
        self.above.is_none() && !self.folders.is_empty()
    }

    /// The proofs of a tree.
    pub(super) fn proofs<'b>(&'b self, branch: &'b Branch) -> Proofs<'b> {
        let tree = &*self.above.as_ref().map_or(branch, |above| &above.branch).tree;
        Proofs { tree, branch, folders: &self.folders }
    }

    /// What the lists of a tree say with BLAKE3; `None` where `go_on` ended that.
    pub(super) fn expected(&self, branch: &Branch, go_on: &mut dyn FnMut() -> bool) -> Option<Expected> {
        let listed = self.above.as_ref().map_or(branch, |above| &above.branch);
        let lists = own::lists_of(listed).map(|own| own.lists).unwrap_or_default();
        let proven = reading::proven(listed, lists, go_on)?;
        Some(match &self.above {
            Some(above) => above.part(proven, branch),
            None => proven,
        })
    }
}

/// Trees, each with all lists that are given.
pub(super) fn tasks_of_trees(
    trees: Vec<Given>,
    lists: &[PathBuf],
    failures: &mut Vec<Failure<crate::Error>>,
) -> Result<Vec<Task>> {
    if let Some(list) = lists.iter().find(|list| is_handed_over(list)).filter(|_| trees.len() > 1) {
        let what = format!("{} is read once: name one TREE with it", list.display());
        return Err(Error::Verify(verify::Error::Invalid(what)));
    }
    // That one cannot be opened is said once.
    let usable: Vec<PathBuf> = opened(lists, failures)?.into_iter().map(|list| list.path).collect();
    let mut tasks = Vec::with_capacity(trees.len());
    for given in trees {
        let (branch, lacking) = given.into_branch()?;
        let given = (!usable.is_empty()).then(|| usable.iter().map(|list| ListFile::given(list)).collect());
        let (subject, given) = (Subject::new(branch), given.transpose()?);
        tasks.push(Task { subject, lacking, given, proven: ProvenBy::default() });
    }
    Ok(tasks)
}

/// The directories that lists are in, each with its lists.
pub(super) fn tasks_of_lists(
    lists: &[PathBuf],
    failures: &mut Vec<Failure<crate::Error>>,
) -> Result<Vec<Task>> {
    let mut directories: Vec<(PathBuf, Vec<ListFile>)> = Vec::new();
    for list in opened(lists, failures)? {
        let directory = directory_of(&list.path, list.is_mhl());
        match directories.iter_mut().find(|(known, _)| *known == directory) {
            Some((_, lists)) => lists.push(list),
            None => directories.push((directory, vec![list])),
        }
    }
    let task = |(directory, lists): (PathBuf, Vec<ListFile>)| {
        let subject = Subject::new(Branch::directory(directory)?);
        Ok(Task { subject, lacking: Vec::new(), given: Some(lists), proven: ProvenBy::default() })
    };
    directories.into_iter().map(task).collect()
}

/// Opens lists. One that cannot be opened costs only itself, unless none can.
fn opened(lists: &[PathBuf], failures: &mut Vec<Failure<crate::Error>>) -> Result<Vec<ListFile>> {
    let open = |path: &PathBuf| ListFile::given(path);
    let (opened, more) = open_each(lists, open, |_| false, |error| chain(error))?;
    failures.extend(more);
    Ok(opened)
}

/// What the paths of a list are relative to.
fn directory_of(list: &Path, is_mhl: bool) -> PathBuf {
    if is_handed_over(list) {
        return PathBuf::from(".");
    }
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
    pub(super) fn expect(
        &mut self,
        at: usize,
        against: Option<&Branch>,
        Intent { makes, continues, accept }: Intent<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<ListReport>>> {
        let mut own = own::lists_of(&self.subject.branch)?;
        let is_listed = self.given.is_some() || against.is_some();
        if !is_listed && own.lists.is_empty() && own.problems.is_empty() {
            match self.listed_above(at, go_on)? {
                Some(reports) if reports.is_empty() => {}
                Some(_) if makes => return Err(self.made_above()),
                found => return Ok(found),
            }
        }
        let branch = &self.subject.branch;
        self.proven.folders = std::mem::take(&mut own.proofs);
        let mut left_out: BTreeSet<Vec<u8>> = own.names;
        if against.is_some() || makes {
            // Of others it is not known that they are lists of this tree, and a list that is made
            // has what a copy with lists would have.
            left_out.retain(|name| own::is_written_here(name));
        }
        if makes && is_listed {
            self.refuse_unheeded(&own.lists, continues)?;
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
        let expected: Expected = accept::without(branch, accept, read.expected)?;
        // What is wrong with a history is the business of what continues it, and of nothing else.
        let is_history = |path: &Path| is_chain(path) || is_mhl_name(path.as_os_str().as_bytes());
        let is_unread = |list: &&ListReport| list.bad_lines > 0 && !(continues && is_history(&list.path));
        let bad = reports.iter().find(is_unread);
        match bad {
            // What they have no more could be listed as new, or as more than there should be.
            Some(bad) if makes || expected.is_empty() && against.is_none() => {
                return Err(Error::bad_list(bad));
            }
            None if expected.is_empty() && against.is_none() && !makes => return Err(Error::EmptyList(path)),
            _ => {}
        }
        // Of a list that says nothing it is not known what it said.
        self.subject.only_listed |= reports.iter().any(ListReport::is_silent);
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

    /// Refuses to make a list where the tree has one that is not used: the new one, which is newer,
    /// would cover up the damage that this one knows of. What `continues` a history is held against
    /// all of that.
    fn refuse_unheeded(&self, own: &[ListFile], continues: bool) -> Result<()> {
        let branch = &self.subject.branch;
        let given: BTreeSet<Vec<u8>> =
            self.given.iter().flatten().filter_map(|list| list.key_in(branch)).collect();
        // Of a history that is given, key is the folder.
        let key = |list: &ListFile| match list.is_mhl() {
            true => joined(&list.below, mhl::FOLDER.as_bytes()),
            false => joined(&list.below, &list.name),
        };
        let is_heeded = |list: &ListFile| continues && list.is_mhl() || given.contains(&key(list));
        match own.iter().find(|list| !is_heeded(list)) {
            Some(list) => Err(Error::NotUsed { path: branch.path(), list: list.path.clone() }),
            None => Ok(()),
        }
    }

    /// The error of a list that is to be made where those above have something.
    fn made_above(&self) -> Error {
        let path = self.subject.branch.path();
        let above = self.proven.above.as_ref().map(|above| above.branch.path()).unwrap_or_default();
        Error::ListedAbove { path, above }
    }

    /// The same from the nearest lists above that have something of the tree; no report where there
    /// are none.
    fn listed_above(
        &mut self,
        at: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<ListReport>>> {
        let mut is_ended = false;
        let mut ask = || {
            is_ended |= !go_on();
            !is_ended
        };
        let found = Above::listing(&self.subject.branch, at, &mut ask)?;
        if is_ended {
            return Ok(None);
        }
        let Some((above, own, read)) = found else { return Ok(Some(Vec::new())) };
        let subject = &mut self.subject;
        // A file that was named by a link has its own name in lists.
        let name = above.key.rsplit(|byte| *byte == b'/').next();
        subject.branch.name = name.unwrap_or_default().to_vec();
        subject.left_out = read.folders;
        (subject.ignored, subject.ignored_below) = (read.ignored, above.key.clone());
        subject.listed = Some(Arc::new(read.expected));
        self.proven = ProvenBy { folders: own.proofs, above: Some(above) };
        let mut reports = own.problems;
        reports.iter_mut().for_each(|report| report.subject = at);
        reports.extend(read.reports);
        Ok(Some(reports))
    }
}
