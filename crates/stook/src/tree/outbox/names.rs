//! Temporary names, and what is done about those that a killed run left.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};

use super::Calls;

const BEGIN: &[u8] = b".stook-";
const END: &[u8] = b".part";

/// Hexadecimal digits that nobody can guess.
const CHANCE_LEN: usize = 16;

/// Digits of a number.
const NUMBER_LEN_MAX: usize = 20;

/// Whether a name has the form of those that files have until they are whole:
/// `.stook-<16 hexadecimal digits>-<number>.part`.
pub fn is_temporary(name: &[u8]) -> bool {
    let Some(middle) = name.strip_prefix(BEGIN).and_then(|name| name.strip_suffix(END)) else { return false };
    let Some((chance, number)) = middle.split_at_checked(CHANCE_LEN) else { return false };
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let number = number.strip_prefix(b"-").unwrap_or_default();
    chance.iter().all(is_hex)
        && (1..=NUMBER_LEN_MAX).contains(&number.len())
        && number.iter().all(u8::is_ascii_digit)
}

/// Gives out temporary names. Nobody can know what they begin with.
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
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        OsString::from(format!(".stook-{:016x}-{number}.part", self.chance))
    }
}

/// Removes what killed runs left in a directory: regular files with a temporary name which no
/// process has [locked](Calls::lock), as the one that writes it has; and links, pipes and devices,
/// which cannot be locked: a run that is about to rename one makes it again. Of a directory with
/// very many names not all are looked at. What cannot be removed is only untidy.
pub(crate) fn remove_stale(calls: &dyn Calls, directory: &OwnedFd, names_max: usize) {
    let Ok(entries) = Dir::read_from(directory) else { return };
    for entry in entries.take(names_max).flatten() {
        let name = entry.file_name();
        if is_temporary(name.to_bytes())
            && let Ok(Some(_left)) = stale(calls, directory, name)
        {
            let _ = calls.unlink(directory.as_fd(), OsStr::from_bytes(name.to_bytes()));
        }
    }
}

/// What was left.
enum Left {
    /// A file, locked. Its lock is given back after it was removed, so a process that makes one and
    /// is too slow to lock it sees that it has no name any more.
    Locked(#[expect(dead_code, reason = "it holds the lock")] File),
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
        assert!((0..12).all(|_| is_temporary(given.next().as_bytes())));
        for other in [
            &b".stook-0123456789abcdef-.part"[..],
            b".stook-0123456789abcdef-1.part~",
            b".stook-0123456789ABCDEF-1.part",
            b".stook-0123456789abcde-1.part",
            b".stook-0123456789abcdef-x.part",
            b".stook-0123456789abcdef-1",
            b"stook-0123456789abcdef-1.part",
            b".stook-.part",
            b"",
        ] {
            assert!(!is_temporary(other), "{other:?}");
        }
    }
}
