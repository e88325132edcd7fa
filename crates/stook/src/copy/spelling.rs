//! Names that a destination takes for one, although a source has each of them: upper and lower
//! case, letters that are composed in another way, names of FAT that were shortened.
//!
//! What is there under a name may then be there by another one. If that is copied as well, nothing
//! takes its place, and it is not taken for what is copied: one of the two would be lost, and
//! nothing would say so.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Dir, Stat};

use super::destination::Receiver;
use super::keys::SourceKeys;
use super::listing::joined;
use super::refuse::Inode;
use crate::names::escaped;
use crate::tree::durable::identity;
use crate::tree::target;

/// Directories whose names are held in memory.
const KNOWN_MAX: usize = 4;

/// What is known of the directories of a destination.
#[derive(Debug, Default)]
pub(super) struct Spellings(Mutex<FoldedNames>);

#[derive(Debug, Default)]
struct FoldedNames {
    /// Whether a directory takes two spellings for one name.
    folds: HashMap<Inode, bool>,
    /// Of those that do, the last that were asked about.
    known: VecDeque<(Inode, Known)>,
}

/// The names of a directory that takes two spellings for one.
#[derive(Debug)]
struct Known {
    /// As they are spelled there.
    there: HashSet<OsString>,
    /// Those that the sources have for it, by what is left of them without case.
    sources: HashMap<Vec<u8>, Vec<Vec<u8>>>,
}

/// Something that is there under a name of a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    /// The directory, and its key.
    pub(super) parent: &'a OwnedFd,
    pub(super) above: &'a [u8],
    pub(super) name: &'a OsStr,
    pub(super) there: &'a Stat,
}

impl Spellings {
    fn state(&self) -> MutexGuard<'_, FoldedNames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a directory takes two spellings for one name, by something that is there. Of a name
    /// without letters it is not known: then it is as `otherwise`.
    pub(super) fn folds(&self, named: Named<'_>, otherwise: bool) -> io::Result<bool> {
        let directory = identity(named.parent)?;
        if let Some(folds) = self.state().folds.get(&directory) {
            return Ok(*folds);
        }
        let Some(other) = in_other_case(named.name) else { return Ok(otherwise) };
        let found = target::status(named.parent, &other)?;
        let folds = found.is_some_and(|found| inode(&found) == inode(named.there));
        self.state().folds.insert(directory, folds);
        Ok(folds)
    }

    /// Which other name of the sources what is there belongs to; `None` where it is that of the
    /// name itself. Where several have the same right to it, it is the first by its bytes.
    pub(super) fn taken_by(&self, keys: &SourceKeys, named: Named<'_>) -> io::Result<Option<Vec<u8>>> {
        let mut state = self.state();
        if state.known(keys, named, false)?.there.contains(named.name) {
            return Ok(None);
        }
        // Something may have got its name since it was listed.
        let known = state.known(keys, named, true)?;
        if known.there.contains(named.name) {
            return Ok(None);
        }
        let own = folded(named.name.as_bytes());
        let leads_there = |name: &OsStr| -> io::Result<bool> {
            let found = target::status(named.parent, name)?;
            Ok(found.is_some_and(|found| inode(&found) == inode(named.there)))
        };
        let (alike, others): (Vec<_>, Vec<_>) =
            known.there.iter().partition(|name| folded(name.as_bytes()) == own);
        for name in alike.into_iter().chain(others) {
            if !leads_there(name)? {
                continue;
            }
            let is_copied = keys.has(&joined(named.above, name.as_bytes()));
            if is_copied.map_err(io::Error::other)? {
                return Ok(Some(name.as_bytes().to_vec()));
            }
            break;
        }
        for name in known.sources.get(&own).into_iter().flatten() {
            if name.as_slice() < named.name.as_bytes() && leads_there(OsStr::from_bytes(name))? {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }

    /// Whether a name may be taken for another one that the sources have in its directory, or for
    /// one that is there and spelled otherwise.
    pub(super) fn is_ambiguous(&self, keys: &SourceKeys, named: Named<'_>, name: &OsStr) -> io::Result<bool> {
        let mut state = self.state();
        let known = state.known(keys, named, false)?;
        if known.sources.contains_key(&folded(name.as_bytes())) {
            return Ok(true);
        }
        if known.there.contains(name) || target::status(named.parent, name)?.is_none() {
            return Ok(false);
        }
        Ok(!state.known(keys, named, true)?.there.contains(name))
    }
}

impl FoldedNames {
    /// What is known of the directory of something; listed anew where that is asked.
    fn known(&mut self, keys: &SourceKeys, named: Named<'_>, anew: bool) -> io::Result<&Known> {
        let directory = identity(named.parent)?;
        let at = self.known.iter().position(|(known, _)| *known == directory);
        let before = at.and_then(|at| self.known.remove(at)).map(|(_, known)| known);
        let known = match before {
            Some(known) if !anew => known,
            Some(known) => Known { there: names_of(named.parent)?, ..known },
            None => {
                let mut sources: HashMap<Vec<u8>, Vec<Vec<u8>>> = HashMap::new();
                for name in keys.names_in(named.above).map_err(io::Error::other)? {
                    sources.entry(folded(&name)).or_default().push(name);
                }
                sources.values_mut().for_each(|names| names.sort_unstable());
                Known { there: names_of(named.parent)?, sources }
            }
        };
        if self.known.len() >= KNOWN_MAX {
            self.known.pop_back();
        }
        self.known.push_front((directory, known));
        self.known.front().map(|(_, known)| known).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Receiver {
    /// Returns an error if what is there under a key belongs to another one that is copied as well.
    pub(super) fn check_spelling(
        &self,
        key: &[u8],
        (parent, name): (&OwnedFd, &OsStr),
        there: &Stat,
    ) -> io::Result<()> {
        let above = above(key);
        let named = Named { parent, above, name, there };
        if !self.spellings.folds(named, self.is_in_order())? {
            return Ok(());
        }
        let Some(other) = self.spellings.taken_by(&self.keys, named)? else { return Ok(()) };
        let other = joined(above, &other);
        let why = format!(
            "the destination takes this name for that of {}, which is copied as well",
            escaped(&other)
        );
        Err(io::Error::other(why))
    }
}

/// The key of the directory that a key is in.
pub(super) fn above(key: &[u8]) -> &[u8] {
    let end = key.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    key.get(..end).unwrap_or_default()
}

fn inode(status: &Stat) -> Inode {
    (status.st_dev, status.st_ino)
}

/// All names of a directory. The directory itself is opened once more, so that others that list it
/// are not in the way.
fn names_of(directory: &OwnedFd) -> io::Result<HashSet<OsString>> {
    let mut names = HashSet::new();
    for entry in Dir::read_from(directory)? {
        names.insert(OsStr::from_bytes(entry?.file_name().to_bytes()).to_os_string());
    }
    Ok(names)
}

/// A name with its letters in the other case; `None` where none has one.
fn in_other_case(name: &OsStr) -> Option<OsString> {
    let name = name.to_str()?;
    let swapped: String = name.chars().map(swap).collect();
    (swapped != name).then(|| swapped.into())
}

/// A letter in the other case, if that is one letter of the same length.
fn swap(letter: char) -> char {
    let other: Vec<char> = match letter.is_lowercase() {
        true => letter.to_uppercase().collect(),
        false => letter.to_lowercase().collect(),
    };
    match other.as_slice() {
        [other] if other.len_utf8() == letter.len_utf8() => *other,
        _ => letter,
    }
}

/// What is left of a name without case, and without what FAT leaves off at its end: names for which
/// this differs are two for every file system but those that compose letters.
fn folded(name: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(name);
    let upper = text.trim_end_matches(['.', ' ']).chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_have_another_case_and_nothing_else_has() {
        let other = |name: &str| in_other_case(OsStr::new(name)).map(|name| name.into_string().unwrap());
        assert_eq!(other("Read me.TXT").as_deref(), Some("rEAD ME.txt"));
        assert_eq!(other("\u{e4}1").as_deref(), Some("\u{c4}1"));
        for none in ["1234", "", "\u{df}", "\u{6f22}\u{5b57}"] {
            assert_eq!(other(none), None, "{none}");
        }
        assert_eq!(in_other_case(OsStr::from_bytes(b"a\xff")), None);
    }

    #[test]
    fn names_that_some_file_system_takes_for_one_are_folded_to_one() {
        for (one, other) in [("Read", "read"), ("a.", "A"), ("a ..", "a"), ("STRASSE", "stra\u{df}e")] {
            assert_eq!(folded(one.as_bytes()), folded(other.as_bytes()), "{one} {other}");
        }
        assert_ne!(folded(b"a"), folded(b"b"));
        assert_ne!(folded(b".a"), folded(b"a"));
    }

    #[test]
    fn a_directory_that_keeps_two_spellings_apart_is_known_to() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("Read"), "1").unwrap();
        std::fs::write(place.path().join("1"), "1").unwrap();
        let parent = target::open(place.path()).unwrap();
        let spellings = Spellings::default();
        let folds = |name: &str, otherwise| {
            let name = OsStr::new(name);
            let there = target::status(&parent, name).unwrap().unwrap();
            spellings.folds(Named { parent: &parent, above: b"", name, there: &there }, otherwise).unwrap()
        };
        // Of a number nothing is known.
        assert!(folds("1", true) && !folds("1", false));
        assert!(!folds("Read", true) && !folds("1", true));
    }
}
