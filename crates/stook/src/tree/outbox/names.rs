//! Temporary names, and what is done about those that a killed run left.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};

use super::Calls;
use super::kept::{KeptNames, is_past_use};
use crate::tree::target;

const BEGIN: &[u8] = b".stook-";
const END: &[u8] = b".part";
const END_OF_JOURNAL: &[u8] = b".journal";

/// What names end with under which something comes out that had another name: it is not removed as
/// what a killed run left, because it may be all that there is of it.
const END_OF_REPLACED: &[u8] = b".old";

/// Hexadecimal digits that cannot be guessed.
const CHANCE_LEN: usize = 16;

/// Digits of a number.
const NUMBER_LEN_MAX: usize = 20;

/// What a temporary name is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A file of one run: `.stook-<16 hexadecimal digits>-<number>.part`.
    OfOneRun,
    /// A file that the next run may continue: `.stook-<16 hexadecimal digits>.part`.
    Kept,
    /// The journal of one: `.stook-<16 hexadecimal digits>.journal`.
    Journal,
    /// What a run was just exchanging with what has its name:
    /// `.stook-<16 hexadecimal digits>-<number>-<16 digits of a hash of that name>.old`.
    Exchanged,
}

fn form_of(name: &[u8]) -> Option<Form> {
    let rest = name.strip_prefix(BEGIN)?;
    let (digits, rest) = rest.split_at_checked(CHANCE_LEN)?;
    if !is_hex(digits) {
        return None;
    }
    let is_number =
        |digits: &[u8]| (1..=NUMBER_LEN_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    match rest {
        END => Some(Form::Kept),
        END_OF_JOURNAL => Some(Form::Journal),
        rest if rest.ends_with(END_OF_REPLACED) => {
            let (number, hash) = exchanged_of(rest)?;
            (is_number(number) && is_hex(hash)).then_some(Form::Exchanged)
        }
        rest => {
            let number = rest.strip_prefix(b"-")?.strip_suffix(END)?;
            is_number(number).then_some(Form::OfOneRun)
        }
    }
}

fn is_hex(digits: &[u8]) -> bool {
    digits.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte))
}

/// The number, and the digits of the hash, at the end of the name of something exchanged.
fn exchanged_of(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = rest.strip_prefix(b"-")?.strip_suffix(END_OF_REPLACED)?;
    let (number, hash) = rest.split_at_checked(rest.len().checked_sub(CHANCE_LEN + 1)?)?;
    Some((number, hash.strip_prefix(b"-")?))
}

/// Whether something that was exchanged had this name, or was to get it.
pub(super) fn is_exchanged_with(exchanged: &OsStr, name: &OsStr) -> bool {
    let hash = exchanged
        .as_bytes()
        .strip_suffix(END_OF_REPLACED)
        .map_or(&[][..], |rest| rest.get(rest.len().saturating_sub(CHANCE_LEN)..).unwrap_or_default());
    KeptNames::of(name).digits() == hash
}

/// Whether a name has the form of those that files have until they are whole, and of what is kept
/// beside them: `.stook-<16 hexadecimal digits>-<number>.part`; without the number, and with
/// `.journal` in place of `.part`, where the next run may continue the file.
pub fn is_temporary(name: &[u8]) -> bool {
    form_of(name).is_some_and(|form| form != Form::Exchanged)
}

/// Whose a name is that has the form of a temporary one.
#[derive(Debug)]
pub(crate) enum Temporary {
    /// It has not.
    Not,
    /// Another run uses it, or that cannot be known.
    InUse,
    /// It may be all that there is of what had another name.
    Exchanged,
    /// A run that was killed left it. While this is held, no other takes it.
    Left { _lock: Option<File> },
}

impl Temporary {
    /// What a name in a directory is.
    pub(crate) fn of(calls: &dyn Calls, directory: &OwnedFd, name: &OsStr) -> Self {
        let (form, part) = match form_of(name.as_bytes()) {
            None => return Self::Not,
            Some(Form::Exchanged) => return Self::Exchanged,
            Some(form @ Form::Journal) => (form, KeptNames::beside(name).part),
            Some(form) => (form, name.to_os_string()),
        };
        match target::status(directory, &part) {
            Ok(Some(there)) if FileType::from_raw_mode(there.st_mode).is_dir() => return Self::Not,
            Ok(None) if form == Form::Journal => return Self::Left { _lock: None },
            _ => {}
        }
        let part = std::ffi::CString::new(part.into_vec());
        match part.map(|part| stale(calls, directory, &part)) {
            Ok(Ok(Some(Left::Locked(lock)))) => Self::Left { _lock: Some(lock) },
            _ => Self::InUse,
        }
    }
}

/// Gives out temporary names. What they begin with cannot be known before.
#[derive(Debug)]
pub(super) struct Names {
    chance: u64,
    given: AtomicU64,
}

impl Names {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { chance: getrandom::u64().map_err(io::Error::other)?, given: AtomicU64::new(0) })
    }

    pub(super) fn next(&self) -> OsString {
        self.ending_in(".part")
    }

    /// One for something that is about to be exchanged with what has its name, by which that can be
    /// found again.
    pub(super) fn next_for_exchange(&self, name: &OsStr) -> OsString {
        let digits = KeptNames::of(name);
        self.ending_in(&format!("-{}.old", String::from_utf8_lossy(digits.digits())))
    }

    fn ending_in(&self, end: &str) -> OsString {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        OsString::from(format!(".stook-{:016x}-{number}{end}", self.chance))
    }
}

/// Removes what killed runs left in a directory: regular files with a temporary name and no other
/// name, which no process has [locked](Calls::lock), as the one that writes it has; and links,
/// pipes and devices, which cannot be locked: a run that is about to rename one makes it again.
/// What the next run may continue stays until it is past use. Of a directory with very many names
/// not all are looked at. What cannot be removed is only untidy. Returns the names of what was
/// being exchanged, which stays.
pub(crate) fn remove_stale(calls: &dyn Calls, directory: &OwnedFd, names_max: usize) -> Vec<OsString> {
    let mut exchanged = Vec::new();
    let Ok(entries) = Dir::read_from(directory) else { return exchanged };
    for entry in entries.take(names_max).flatten() {
        let name = entry.file_name();
        let as_os = OsStr::from_bytes(name.to_bytes());
        match form_of(name.to_bytes()) {
            Some(Form::OfOneRun) => {
                if let Ok(Some(_left)) = stale(calls, directory, name) {
                    let _ = calls.unlink(directory.as_fd(), as_os);
                }
            }
            Some(Form::Kept) => {
                let journal = KeptNames::beside(as_os).journal;
                if let Ok(Some(Left::Locked(_locked))) = stale(calls, directory, name)
                    && is_past_use(directory, &journal)
                {
                    let _ = calls.unlink(directory.as_fd(), as_os);
                    let _ = calls.unlink(directory.as_fd(), &journal);
                }
            }
            Some(Form::Journal) => remove_lone_journal(calls, directory, as_os),
            Some(Form::Exchanged) => exchanged.push(as_os.to_os_string()),
            None => {}
        }
    }
    exchanged
}

/// Removes a journal beside which no file is: a run that was killed had just given the file its
/// name.
fn remove_lone_journal(calls: &dyn Calls, directory: &OwnedFd, journal: &OsStr) {
    let is_lone = matches!(target::status(directory, &KeptNames::beside(journal).part), Ok(None));
    let is_file = |there: &rustix::fs::Stat| {
        FileType::from_raw_mode(there.st_mode) == FileType::RegularFile && there.st_nlink == 1
    };
    if is_lone && matches!(target::status(directory, journal), Ok(Some(there)) if is_file(&there)) {
        let _ = calls.unlink(directory.as_fd(), journal);
    }
}

/// What was left.
enum Left {
    /// A file, locked. Its lock is given back after it was removed, so a process that makes one and
    /// is too slow to lock it sees that it has no name any more.
    Locked(File),
    Other,
}

fn stale(calls: &dyn Calls, directory: &OwnedFd, name: &CStr) -> io::Result<Option<Left>> {
    let there = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(there.st_mode) {
        // It may have another name as well, under which it stays.
        FileType::RegularFile => {}
        FileType::Symlink | FileType::Fifo | FileType::BlockDevice | FileType::CharacterDevice => {
            return Ok(Some(Left::Other));
        }
        _ => return Ok(None),
    }
    // Some file systems lock for writing only what was opened for that.
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::empty())?);
    calls.lock(&file)?;
    // The holder of the lock may have given it its final name, and another has this one.
    let there = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let opened = fstat(&file)?;
    let is_same = (opened.st_dev, opened.st_ino) == (there.st_dev, there.st_ino);
    Ok(is_same.then_some(Left::Locked(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_very_form_are_temporary() {
        let given = Names::new().unwrap();
        assert!((0..12).all(|_| form_of(given.next().as_bytes()) == Some(Form::OfOneRun)));
        let exchanged = given.next_for_exchange(OsStr::new("a name"));
        assert_eq!(form_of(exchanged.as_bytes()), Some(Form::Exchanged));
        assert!(!is_temporary(exchanged.as_bytes()), "it may be all that there is");
        assert!(is_exchanged_with(&exchanged, OsStr::new("a name")));
        assert!(!is_exchanged_with(&exchanged, OsStr::new("another")));
        let kept = KeptNames::of(OsStr::new("a name"));
        assert_eq!(form_of(kept.part.as_bytes()), Some(Form::Kept));
        assert_eq!(form_of(kept.journal.as_bytes()), Some(Form::Journal));
        assert_eq!((KeptNames::beside(&kept.part), KeptNames::beside(&kept.journal)), (kept.clone(), kept));
        assert!(KeptNames::of(OsStr::new("a")) != KeptNames::of(OsStr::new("b")));
        for other in [
            &b".stook-0123456789abcdef-.part"[..],
            b".stook-0123456789abcdef-1.part~",
            b".stook-0123456789ABCDEF-1.part",
            b".stook-0123456789abcde-1.part",
            b".stook-0123456789abcde.part",
            b".stook-0123456789abcdef-1.journal",
            b".stook-0123456789abcdef.journal~",
            b".stook-0123456789abcdef",
            b".stook-0123456789abcdef-x.part",
            b".stook-0123456789abcdef-1.old",
            b".stook-0123456789abcdef-1-0123456789abcde.old",
            b".stook-0123456789abcdef-1",
            b"stook-0123456789abcdef-1.part",
            b".stook-.part",
            b"",
        ] {
            assert!(!is_temporary(other), "{other:?}");
        }
    }
}
