//! Paths that were changed, or deleted, on purpose: what lists say of them is not expected any
//! more. The lists that are made then replace those that were made here before, of which none could
//! ever say that a file is gone.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::lists::ListFile;
use super::made::MadeList;
use super::{Error, Result, VerifyGiven, own, reading};
use crate::error;
use crate::format::relative;
use crate::format::sums::{is_own_list_name, kind_of_name};
use crate::hash::HashKind;
use crate::tree::outbox::{Calls as _, System};
use crate::tree::target;
use crate::verify::{self, Branch, Expected};

/// What is accepted, as paths in lists.
///
/// # Errors
/// What cannot be meant.
pub(super) fn keys(given: &VerifyGiven) -> Result<Vec<Vec<u8>>> {
    let why = match given {
        VerifyGiven { accept, .. } if accept.is_empty() => return Ok(Vec::new()),
        VerifyGiven { make, .. } if make.is_empty() => "what is accepted needs a list that is made of it",
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
    let others: Vec<ListFile> =
        own::lists_of(branch)?.lists.into_iter().filter(|list| !is_own_list_name(&list.name)).collect();
    for list in others {
        let path = list.path.clone();
        let read = reading::read(branch, vec![list], 0, &mut || true).unwrap_or_default();
        if let Some(entry) = read.expected.iter().find(|entry| is_accepted(accept, entry.path())) {
            let entry = String::from_utf8_lossy(entry.path()).into_owned();
            let what = format!("{} has {entry} and was not made here: change it by hand", path.display());
            return Err(invalid(what));
        }
    }
    Ok(expected.among(|path| !is_accepted(accept, path)))
}

/// The functions of lists that were made here: those that replace them have the same.
pub(super) fn kinds_of(branch: &Branch) -> Result<Vec<HashKind>> {
    let lists = own::lists_of(branch)?.lists;
    Ok(lists
        .iter()
        .filter(|list| is_own_list_name(&list.name))
        .filter_map(|list| kind_of_name(&list.name))
        .collect())
}

/// Removes lists that were made here earlier than these: which.
///
/// # Errors
/// I/O errors.
pub(super) fn remove_older(branch: &Branch, place: &Path, made: &[MadeList]) -> error::Result<Vec<PathBuf>> {
    let made: BTreeSet<&[u8]> =
        made.iter().filter_map(|list| Some(list.path.file_name()?.as_bytes())).collect();
    let lists = own::lists_of(branch).map_err(|error| error::Error::io("list", place, into_io(&error)))?;
    let directory = target::open(place).map_err(|error| error::Error::io("open", place, error))?;
    let mut removed = Vec::new();
    for list in lists.lists.iter().filter(|list| is_own_list_name(&list.name)) {
        if made.contains(list.name.as_slice()) {
            continue;
        }
        let (name, path) = (OsStr::from_bytes(&list.name), place.join(OsStr::from_bytes(&list.name)));
        let unlinked = System.unlink(directory.as_fd(), name);
        unlinked.map_err(|error| error::Error::io("remove", &path, error))?;
        removed.push(path);
    }
    System.sync(directory.as_fd()).map_err(|error| error::Error::io("sync", place, error))?;
    Ok(removed)
}

fn into_io(error: &error::Error) -> std::io::Error {
    std::io::Error::other(error::chain(error))
}
