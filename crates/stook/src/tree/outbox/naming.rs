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

/// A name that something is to get.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewName<'a> {
    pub(crate) parent: &'a OwnedFd,
    pub(crate) name: &'a OsStr,
    pub(crate) replaces: Replaces,
    /// The name beside it under which what is replaced is kept, in place of what has that.
    pub(crate) backup: Option<&'a OsStr>,
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
            Some(backup) => {
                let kept = self.calls.rename(parent.as_fd(), beside, backup);
                kept.map_err(|error| ("keep", error))
            }
            None => Ok(()),
        });
        match gone {
            Ok(()) if self.new.backup.is_some() => Ok(()),
            Ok(()) => match again(|| self.calls.unlink(parent.as_fd(), beside)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(("remove what was replaced by", error))
                }
                _ => Ok(()),
            },
            Err(why) => Err(self.put_back(beside, own).map_or_else(give, |()| why)),
        }
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
                    self.keep_as(backup).map_err(|error| ("keep", error))?;
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
    fn keep_as(&self, backup: &OsStr) -> io::Result<()> {
        let (parent, name) = (self.new.parent.as_fd(), self.new.name);
        let link = self.names.next();
        match self.calls.link(parent, name, parent, &link) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if has_no_links(&error) => self.calls.rename(parent, name, backup),
            Err(error) => Err(error),
            Ok(()) => {
                let kept = self.calls.rename(parent, &link, backup);
                // Renaming one name of a file onto another name of the same file leaves both.
                let removed = match again(|| self.calls.unlink(parent, &link)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    removed => removed,
                };
                kept.and(removed)
            }
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
