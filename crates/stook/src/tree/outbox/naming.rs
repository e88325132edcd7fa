//! [`NewName`]: how something that is whole gets its name in place of what has it.
//!
//! Between the look at a name and the rename another program may put something there. Where not
//! all of that may be replaced, or what is replaced is kept, the two names are exchanged: what was
//! there comes out under another name, and is looked at before it is gone.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::exchanged::have_same_bytes;
use super::names::Names;
use super::{Calls, again, has_no_links};
use crate::tree::existing::mtime_of;
use crate::tree::target::status;

/// What was to be done, and its error.
type Failed = (&'static str, io::Error);

const GIVE: &str = "give its name to";

/// How often a name is tried for that another program gives and takes away.
const TRIES: usize = 8;

/// What something that gets a name may take the place of. A directory stays in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaces {
    Nothing,
    All,
    /// What was modified before this time, ns since 1970.
    OlderThan(i64),
}

impl Replaces {
    /// Whether there is anything that it may take the place of.
    pub(crate) fn is_any(self) -> bool {
        self != Self::Nothing
    }

    /// Returns an error if what has the name stays.
    fn check(self, there: &Stat) -> io::Result<()> {
        match self {
            _ if FileType::from_raw_mode(there.st_mode).is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Self::All => Ok(()),
            Self::OlderThan(ns) if mtime_of(there) < i128::from(ns) => Ok(()),
            Self::Nothing | Self::OlderThan(_) => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }
}

/// The name beside it under which what is replaced is kept.
#[derive(Debug, Clone)]
pub(crate) struct Backup {
    /// Where that is what was looked at, in place of what has the name.
    pub(crate) name: OsString,
    /// Device and inode of what was looked at, where that is known.
    pub(crate) of: Option<(u64, u64)>,
}

/// A name that something is to get.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewName<'a> {
    pub(crate) parent: &'a OwnedFd,
    pub(crate) name: &'a OsStr,
    pub(crate) replaces: Replaces,
    /// How what is replaced is kept, if it is.
    pub(crate) backup: Option<&'a Backup>,
}

/// How many names are tried for something that takes the place of nothing.
const NEW_NAMES: usize = 16;

impl Backup {
    /// Gives something a name that nothing has: the one that was chosen, or that with more at its
    /// end.
    fn take_new(&self, mut give: impl FnMut(&OsStr) -> io::Result<()>) -> io::Result<()> {
        let mut name = self.name.clone();
        for _ in 0..NEW_NAMES {
            match give(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => name.push("~"),
                given => return given,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl NewName<'_> {
    /// Gives it to what has a temporary name; `AlreadyExists` where something has it that stays.
    /// Afterwards `temporary` is the name that is left to be removed, if there is one.
    pub(super) fn give(
        &self,
        calls: &dyn Calls,
        names: &Names,
        temporary: &mut Option<OsString>,
    ) -> Result<(), Failed> {
        let Some(from) = temporary.clone() else { return Ok(()) };
        let given = match (self.replaces, self.backup) {
            (Replaces::Nothing, _) => rename_new(calls, self.parent, &from, self.name),
            (Replaces::All, None) => calls.rename(self.parent.as_fd(), &from, self.name),
            _ => return Exchange { new: self, calls, names, temporary }.run(&from),
        };
        given.map_err(|error| (GIVE, error))?;
        *temporary = None;
        Ok(())
    }
}

/// Something on its way to a name, out of which comes what had it.
struct Exchange<'a> {
    new: &'a NewName<'a>,
    calls: &'a dyn Calls,
    names: &'a Names,
    temporary: &'a mut Option<OsString>,
}

impl Exchange<'_> {
    fn run(self, from: &OsStr) -> Result<(), Failed> {
        let parent = self.new.parent;
        // What comes out is not ours: under a temporary name the next run would remove it if this
        // one was killed now.
        let beside = self.names.next_for_exchange(self.new.name);
        rename_new(self.calls, parent, from, &beside).map_err(give)?;
        *self.temporary = Some(beside.clone());
        let own = inode_at(parent, &beside).map_err(give)?;
        for _ in 0..TRIES {
            match self.calls.exchange(parent.as_fd(), &beside, self.new.name) {
                Ok(()) => return self.look_at_what_came_out(&beside, own),
                // What had the name is gone.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match rename_new(self.calls, parent, &beside, self.new.name) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        named => return named.map(|()| *self.temporary = None).map_err(give),
                    }
                }
                Err(error) if has_no_exchange(&error) => return self.look_and_rename(&beside),
                Err(error) => return Err(give(error)),
            }
        }
        Err(give(io::ErrorKind::ResourceBusy.into()))
    }

    /// What had the name is under another one now: it is removed, kept, or gets its name back.
    fn look_at_what_came_out(self, beside: &OsStr, own: Option<(u64, u64)>) -> Result<(), Failed> {
        let parent = self.new.parent;
        // Nothing of this run has it any more.
        *self.temporary = None;
        let may_go = match status(parent, beside) {
            Ok(Some(there)) => self.new.replaces.check(&there).map_err(give),
            Ok(None) => return Ok(()),
            Err(error) => Err(give(error)),
        };
        let gone = may_go.and_then(|()| match self.new.backup {
            Some(backup) => self.keep(beside, backup).map_err(|error| ("keep", error)),
            None => self.remove(beside).map_err(|error| ("remove what was replaced by", error)),
        });
        match gone {
            Ok(()) => Ok(()),
            Err(why @ ("remove what was replaced by", _)) => Err(why),
            Err(why) => Err(self.put_back(beside, own).map_or_else(give, |()| why)),
        }
    }

    /// Takes a name away that may be gone.
    fn remove(&self, name: &OsStr) -> io::Result<()> {
        match again(|| self.calls.unlink(self.new.parent.as_fd(), name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Keeps what came out. Another run may have kept what was looked at meanwhile, and put
    /// something else in its place: that takes the place of nothing, and is not kept where the same
    /// has the name now.
    fn keep(&self, beside: &OsStr, backup: &Backup) -> io::Result<()> {
        let (parent, calls) = (self.new.parent, &self.calls);
        let came = inode_at(parent, beside)?;
        if came.is_some() && came == inode_at(parent, &backup.name)? {
            // Renaming one name of a file onto another name of the same file leaves both.
            return self.remove(beside);
        }
        if backup.of.is_none_or(|of| came == Some(of)) {
            return calls.rename(parent.as_fd(), beside, &backup.name);
        }
        if have_same_bytes(parent, beside, self.new.name)? {
            return self.remove(beside);
        }
        backup.take_new(|name| rename_new(*calls, parent, beside, name))
    }

    /// Gives what came out its name back.
    fn put_back(self, beside: &OsStr, own: Option<(u64, u64)>) -> io::Result<()> {
        let (parent, name) = (self.new.parent, self.new.name);
        let lost = |error: io::Error| {
            let beside = beside.display();
            let why = format!("what had the name is {beside} now, and could not be put back: {error}");
            io::Error::new(error.kind(), why)
        };
        match self.calls.exchange(parent.as_fd(), beside, name) {
            // What was put there is gone: another program removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return rename_new(self.calls, parent, beside, name).map_err(lost);
            }
            exchanged => exchanged.map_err(lost)?,
        }
        let came_out = inode_at(parent, beside).map_err(lost)?;
        if came_out.is_none() || came_out == own {
            *self.temporary = came_out.map(|_| beside.to_os_string());
            return Ok(());
        }
        // Another program has put something there in the meantime: that is the newest.
        self.calls.exchange(parent.as_fd(), beside, name).map_err(lost)?;
        Err(lost(io::Error::other("another program replaced it meanwhile")))
    }

    /// Where two names cannot be exchanged: what another program puts there between the look and
    /// the rename is replaced.
    fn look_and_rename(self, from: &OsStr) -> Result<(), Failed> {
        let NewName { parent, name, replaces, backup } = *self.new;
        let renamed = match status(parent, name).map_err(give)? {
            None => rename_new(self.calls, parent, from, name),
            Some(there) => {
                replaces.check(&there).map_err(give)?;
                if let Some(backup) = backup {
                    self.keep_as(from, &there, backup).map_err(|error| ("keep", error))?;
                }
                self.calls.rename(parent.as_fd(), from, name)
            }
        };
        renamed.map_err(give)?;
        *self.temporary = None;
        Ok(())
    }

    /// Gives what has the name another one as well, so that at no moment the name has nothing where
    /// the file system has hard links.
    fn keep_as(&self, new: &OsStr, there: &Stat, backup: &Backup) -> io::Result<()> {
        let (parent, name, calls) = (self.new.parent, self.new.name, self.calls);
        let is_it = backup.of.is_none_or(|of| of == (there.st_dev, there.st_ino));
        if !is_it && have_same_bytes(parent, new, name)? {
            return Ok(());
        }
        let keep = |from: &OsStr| match is_it {
            true => calls.rename(parent.as_fd(), from, &backup.name),
            false => backup.take_new(|kept| rename_new(calls, parent, from, kept)),
        };
        let link = self.names.next();
        match calls.link(parent.as_fd(), name, parent.as_fd(), &link) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if has_no_links(&error) => keep(name),
            Err(error) => Err(error),
            // Renaming one name of a file onto another name of the same file leaves both.
            Ok(()) => keep(&link).and(self.remove(&link)),
        }
    }
}

fn give(error: io::Error) -> Failed {
    (GIVE, error)
}

/// Which file has a name, if any has.
fn inode_at(parent: &OwnedFd, name: &OsStr) -> io::Result<Option<(u64, u64)>> {
    let there = status(parent, name)?;
    Ok(there.map(|there| (there.st_dev, there.st_ino)))
}

/// Gives a finished file a name that nothing has; `AlreadyExists` if something has it.
fn rename_new(calls: &dyn Calls, parent: &OwnedFd, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let parent = parent.as_fd();
    match calls.rename_new(parent, from, to) {
        // Not every file system knows how: a link also refuses what is there.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOSYS)) => {
            calls.link(parent, from, parent, to)?;
            again(|| calls.unlink(parent, from))
        }
        other => other,
    }
}

/// Whether a file system cannot exchange two names.
fn has_no_exchange(error: &io::Error) -> bool {
    let refused = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP];
    error.kind() == io::ErrorKind::Unsupported
        || Errno::from_io_error(error).is_some_and(|errno| refused.contains(&errno))
}
