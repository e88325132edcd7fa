//! [`Backups`]: the names under which what is replaced or deleted is kept.
//!
//! Usually the name with the suffix, in place of an earlier backup. Nothing else is lost for it: a
//! name that the sources have, too, that this copy gave already, or that a directory has, is not
//! taken, and the suffix is repeated.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::{Mutex, PoisonError};

use rustix::fs::FileType;

use super::destination::Receiver;
use super::listing::joined;
use super::spelling::{Named, above};
use crate::tree::target::{self, NAME_ON_DISK_MAX};

/// How often the suffix is repeated.
const REPEATED_MAX: usize = 64;

/// The most bytes that a character has: so much shorter than it could be is a name that was cut.
const CHARACTER_LEN_MAX: usize = 4;

/// Chooses the names of one destination.
#[derive(Debug)]
pub(super) struct Backups {
    suffix: OsString,
    /// The keys of those that were given and could be chosen for something else as well.
    given: Mutex<HashSet<Vec<u8>>>,
}

/// A name that could be chosen.
struct Candidate {
    name: OsString,
    /// Whether something is cut off, so that it may be the backup of something else.
    is_cut: bool,
}

impl Backups {
    pub(super) fn new(suffix: &OsStr) -> Self {
        Self { suffix: suffix.to_os_string(), given: Mutex::default() }
    }

    /// The name for what has a key, and lies in this directory. `is_copied` says whether the
    /// sources have one of this key, too.
    ///
    /// # Errors
    /// I/O errors; that no name is left.
    fn name_for(
        &self,
        key: &[u8],
        parent: &OwnedFd,
        is_directory: bool,
        is_copied: impl Fn(&[u8], &OsStr) -> io::Result<bool>,
    ) -> io::Result<OsString> {
        let above = above(key);
        let name = key.get(above.len()..).unwrap_or_default();
        let name = name.strip_prefix(b"/").unwrap_or(name);
        for repeated in 1..=REPEATED_MAX {
            let Some(Candidate { name: chosen, is_cut }) = self.candidate(name, repeated) else { break };
            let chosen_key = joined(above, chosen.as_bytes());
            if is_copied(&chosen_key, &chosen)? {
                continue;
            }
            // An earlier backup of the same file is replaced, and nothing else.
            let there = target::status(parent, &chosen)?;
            let is_in_the_way = there.is_some_and(|there| {
                is_directory || is_cut || FileType::from_raw_mode(there.st_mode).is_dir()
            });
            if is_in_the_way {
                continue;
            }
            let may_be_anothers = repeated > 1
                || is_cut
                || name.ends_with(self.suffix.as_bytes())
                || chosen.len() + CHARACTER_LEN_MAX > NAME_ON_DISK_MAX;
            let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            if !may_be_anothers || given.insert(chosen_key) {
                return Ok(chosen);
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is left to keep it under"))
    }

    /// A name with the suffix so many times; `None` where nothing of the name would be left.
    fn candidate(&self, name: &[u8], repeated: usize) -> Option<Candidate> {
        let suffix = self.suffix.as_bytes().repeat(repeated);
        let room = NAME_ON_DISK_MAX.checked_sub(suffix.len()).filter(|room| *room > 0)?;
        let is_cut = name.len() > room;
        let begin = name.get(..room).filter(|_| is_cut).map_or(name, whole_characters);
        let name = OsString::from_vec([begin, &suffix].concat());
        (!begin.is_empty()).then_some(Candidate { name, is_cut })
    }
}

impl Receiver {
    /// The name under which what has a key, and lies in this directory by this name, is kept.
    ///
    /// # Errors
    /// I/O errors; that no name is left.
    pub(super) fn name_backup(
        &self,
        backups: &Backups,
        key: &[u8],
        (parent, name): (&OwnedFd, &OsStr),
        is_directory: bool,
    ) -> io::Result<OsString> {
        let there = target::status(parent, name)?;
        let named = there.as_ref().map(|there| Named { parent, above: above(key), name, there });
        // Where two spellings are one name, the backup may be taken for something else.
        let folds = |named| self.spellings.folds(named, self.is_in_order());
        let folding = match named {
            Some(named) if folds(named)? => Some(named),
            _ => None,
        };
        backups.name_for(key, parent, is_directory, |key, chosen| {
            let is_copied = self.keys.has(key);
            let is_copied = is_copied.map_err(|error| io::Error::other(crate::error::chain(&error)))?;
            match folding {
                Some(named) if !is_copied => self.spellings.is_ambiguous(&self.keys, named, chosen),
                _ => Ok(is_copied),
            }
        })
    }
}

/// Without a character at the end that was cut through, if it is UTF-8.
fn whole_characters(cut: &[u8]) -> &[u8] {
    match std::str::from_utf8(cut) {
        Err(error) if error.error_len().is_none() => cut.get(..error.valid_up_to()).unwrap_or(cut),
        _ => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(suffix: &str, name: &str, repeated: usize) -> Option<(String, bool)> {
        let backups = Backups::new(OsStr::new(suffix));
        let chosen = backups.candidate(name.as_bytes(), repeated)?;
        Some((chosen.name.into_string().unwrap(), chosen.is_cut))
    }

    #[test]
    fn long_names_are_cut_between_characters_and_never_to_nothing() {
        assert_eq!(chosen("~", "x", 1), Some(("x~".into(), false)));
        assert_eq!(chosen(".old", "x", 2), Some(("x.old.old".into(), false)));
        let just_fits = "x".repeat(254);
        assert_eq!(chosen("~", &just_fits, 1), Some((format!("{just_fits}~"), false)));
        assert_eq!(chosen("~", &"x".repeat(255), 1), Some((format!("{just_fits}~"), true)));
        // 127 letters of two bytes, and one of one.
        let letters = format!("{}x", "ä".repeat(127));
        assert_eq!(chosen("~", &letters, 2), Some((format!("{}~~", "ä".repeat(126)), true)));
        assert_eq!(chosen(&"s".repeat(255), "x", 1), None);
        assert_eq!(chosen(&"s".repeat(100), "x", 3), None);
        assert_eq!(chosen(&"s".repeat(254), "ä", 1), None);
    }
}
