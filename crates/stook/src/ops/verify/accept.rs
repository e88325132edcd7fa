//! Paths that were changed, or deleted, on purpose: what lists say of them is not expected any
//! more. The lists that are made then replace those that were made here before, of which none could
//! ever say that a file is gone.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::mend::Seen;
use super::{Error, Result, VerifyGiven, made, own, reading};
use crate::error;
use crate::format::relative;
use crate::format::sums::{is_own_list_name, kind_of_name};
use crate::hash::HashKind;
use crate::tree::outbox::{Calls as _, System};
use crate::tree::{Failure, target};
use crate::verify::{self, Branch, Expected};

/// What is accepted, as paths in lists.
///
/// # Errors
/// What cannot be meant.
pub(super) fn keys(given: &VerifyGiven) -> Result<Vec<Vec<u8>>> {
    let why = match given {
        VerifyGiven { accept, .. } if accept.is_empty() => return Ok(Vec::new()),
        VerifyGiven { make, proofs: false, .. } if make.is_empty() => {
            "what is accepted needs a list that is made of it"
        }
        VerifyGiven { mhl: Some(_), .. } => "an ASC MHL keeps what each file was: nothing is accepted in one",
        VerifyGiven { against: Some(_), .. } => "only what lists say can be accepted to be otherwise",
        VerifyGiven { lists, .. } if !lists.is_empty() => "what is accepted is in the lists of a tree itself",
        VerifyGiven { trees, unopened, .. } if trees.len() + unopened.len() != 1 => {
            "paths that are accepted are of one tree: name one"
        }
        _ => "",
    };
    if !why.is_empty() {
        return Err(invalid(why));
    }
    let key = |path: &PathBuf| {
        let refused = |fault| invalid(format!("{} is no path in the tree: {fault}", path.display()));
        relative(path.as_os_str().as_bytes()).map_err(refused)
    };
    given.accept.iter().map(key).collect()
}

fn invalid(why: impl Into<String>) -> Error {
    Error::Verify(verify::Error::Invalid(why.into()))
}

/// Whether a path is one of these, or in one.
fn is_accepted(accept: &[Vec<u8>], path: &[u8]) -> bool {
    let is_in = |directory: &Vec<u8>| {
        let rest = path.strip_prefix(directory.as_slice());
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    };
    accept.iter().any(is_in)
}

/// What lists say of the other paths. Also lists that were not made here have to say nothing of
/// these: they stay.
///
/// # Errors
/// That no list has one of them, or one that was not made here.
pub(super) fn without(branch: &Branch, accept: &[Vec<u8>], expected: Expected) -> Result<Expected> {
    if accept.is_empty() {
        return Ok(expected);
    }
    for one in accept {
        let only = std::slice::from_ref(one);
        if !expected.iter().any(|entry| is_accepted(only, entry.path())) {
            let what = format!("no list of {} has {}", branch.path().display(), String::from_utf8_lossy(one));
            return Err(invalid(what));
        }
    }
    for list in own::lists_of(branch)?.lists {
        let (path, is_mhl, is_own) = (list.path.clone(), list.is_mhl(), is_own_list_name(&list.name));
        // One that is a file of another list stays, too.
        let stays = !is_own || expected.contains(&list.name) && !is_accepted(accept, &list.name);
        if !stays {
            continue;
        }
        let name = String::from_utf8_lossy(&list.name).into_owned();
        let read = reading::read(branch, vec![list], 0, &mut || true).unwrap_or_default();
        // A newer list replaces what one says of a file that is there.
        let counts = |path: &[u8]| !is_own || matches!(branch.find(path), Ok(None));
        let mut entries = read.expected.iter();
        let found = entries.find(|entry| is_accepted(accept, entry.path()) && counts(entry.path()));
        if let Some(entry) = found {
            let entry = String::from_utf8_lossy(entry.path()).into_owned();
            let shown = path.display();
            let what = match is_mhl {
                true => format!("{shown} has {entry}, and an ASC MHL keeps what each file was"),
                false if is_own => {
                    format!("{shown} has {entry}, and stays, because another list has it: accept {name}, too")
                }
                false => format!("{shown} has {entry} and was not made here: change it by hand"),
            };
            return Err(invalid(what));
        }
    }
    Ok(expected.among(|path| !is_accepted(accept, path)))
}

/// Lists that were made here before, as they were when they were read.
#[derive(Debug, Default)]
pub(super) struct Older {
    place: PathBuf,
    lists: Vec<(Vec<u8>, Seen)>,
}

impl Older {
    /// Those of a tree that no list has as a file: such a list belongs to what came with it, and
    /// would be missing.
    ///
    /// # Errors
    /// I/O errors; a tree that is not on disk.
    pub(super) fn of(branch: &Branch, listed: Option<&Expected>) -> Result<Self> {
        let place = made::place_of(branch)?;
        let mut older = Self { place, lists: Vec::new() };
        for list in own::lists_of(branch)?.lists.into_iter().filter(|list| is_own_list_name(&list.name)) {
            let is_file_of_list = listed.is_some_and(|listed| listed.contains(&list.name));
            let seen = Seen::at(&older.place, &list.name).map_err(|error| older.failed(&list.name, error))?;
            if let Some(seen) = seen.filter(|_| !is_file_of_list) {
                older.lists.push((list.name, seen));
            }
        }
        Ok(older)
    }

    /// Their functions: those that replace them have the same.
    pub(super) fn kinds(&self) -> Vec<HashKind> {
        self.lists.iter().filter_map(|(name, _)| kind_of_name(name)).collect()
    }

    /// Removes those that are still what they were: which. Others may have removed some meanwhile,
    /// and written new ones.
    pub(super) fn remove(&self) -> (Vec<PathBuf>, Vec<Failure<error::Error>>) {
        let (mut removed, mut failures) = (Vec::new(), Vec::new());
        for (name, seen) in &self.lists {
            match self.remove_one(name, *seen) {
                Ok(true) => removed.push(self.path(name)),
                Ok(false) => {}
                Err(error) => failures.push(Failure { key: Vec::new(), error: self.failed(name, error) }),
            }
        }
        if !removed.is_empty()
            && let Err(error) = target::open(&self.place).and_then(|place| System.sync(place.as_fd()))
        {
            let error = error::Error::io("sync", &self.place, error);
            failures.push(Failure { key: Vec::new(), error });
        }
        (removed, failures)
    }

    fn remove_one(&self, name: &[u8], seen: Seen) -> io::Result<bool> {
        if Seen::at(&self.place, name)? != Some(seen) {
            return Ok(false);
        }
        System.unlink(target::open(&self.place)?.as_fd(), OsStr::from_bytes(name)).map(|()| true)
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        self.place.join(OsStr::from_bytes(name))
    }

    fn failed(&self, name: &[u8], error: io::Error) -> error::Error {
        error::Error::io("remove", self.path(name), error)
    }
}
