//! What only a destination has, deleted once everything has been copied.
//!
//! Nothing is followed: each directory is opened below the one before, and a name is removed from
//! the very directory that it was found in. Nothing is deleted in what is mounted below an extra
//! directory, and nothing that is being copied.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, StatxFlags, statx};

use super::destination::Receiver;
use super::events::{Action, Why};
use super::listing::joined;
use super::lists::is_own_list;
use super::options::CopyOptions;
use super::refuse::{Inode, inode_of};
use super::source::CopySource;
use crate::tree::durable::identity;
use crate::tree::outbox::again;
use crate::tree::target;
use crate::tree::{Cursor, Kind, NodeId, Page};

/// What was to be done, and its error.
type Failed = (&'static str, io::Error);

/// Deletes in one destination.
pub(super) struct Mirror<'a> {
    pub(super) receiver: &'a Receiver,
    pub(super) sources: &'a [CopySource],
    pub(super) is_contents: bool,
    /// Whether anything was selected in a source.
    pub(super) has_selected: &'a dyn Fn(usize) -> bool,
    pub(super) is_stopped: &'a dyn Fn() -> bool,
}

impl Mirror<'_> {
    /// Deletes what the sources do not have, in each directory that was copied.
    pub(super) fn run(&self) {
        let paths = self.sources.iter().filter_map(|source| source.path.as_deref());
        let paths = paths.chain(self.receiver.options.link_dest.as_deref());
        let spared: Vec<Inode> = paths.filter_map(inode_of).collect();
        for (number, source) in self.sources.iter().enumerate() {
            // A file has nothing that could be extra.
            if !matches!(source.is_directory(), Ok(true)) {
                continue;
            }
            let key = match self.is_contents {
                true => Vec::new(),
                false => source.name.clone().unwrap_or_default(),
            };
            let may_delete = (self.has_selected)(number) || self.receiver.options.force;
            let mut search = Search::new(self, source, &key, may_delete, &spared);
            search.run(key.clone());
            // It is more likely that something is not mounted than that all is to go.
            if search.has_extra && !may_delete {
                let why = "nothing of its source was selected, so nothing in it was deleted; \
                           `--force` deletes all the same";
                self.receiver.fail_io("mirror", &key, io::Error::other(why));
            }
        }
    }
}

/// The search for what is extra where one source went.
struct Search<'a> {
    receiver: &'a Receiver,
    source: &'a CopySource,
    is_stopped: &'a dyn Fn() -> bool,
    /// How long the part of a key is that the source does not have.
    skipped: usize,
    /// Whether what is extra is deleted; else it is only found out whether there is anything.
    may_delete: bool,
    has_extra: bool,
    /// Directories that are not deleted, wherever they are found.
    spared: &'a [Inode],
    /// Directories to look into. Without a node all in it is extra.
    waiting: Vec<(Vec<u8>, Option<NodeId>)>,
    /// Extra directories in which something stays.
    kept: HashSet<Vec<u8>>,
}

/// A directory that is looked into.
struct Here<'h> {
    directory: Arc<OwnedFd>,
    key: &'h [u8],
    id: Option<NodeId>,
    names: &'h [OsString],
    /// What it has by other spellings of names of the source, once it was asked.
    spelled_otherwise: Option<HashSet<Inode>>,
}

impl<'a> Search<'a> {
    fn new(
        mirror: &'a Mirror<'_>,
        source: &'a CopySource,
        key: &[u8],
        may_delete: bool,
        spared: &'a [Inode],
    ) -> Self {
        Self {
            receiver: mirror.receiver,
            source,
            is_stopped: mirror.is_stopped,
            skipped: if key.is_empty() { 0 } else { key.len() + 1 },
            may_delete,
            has_extra: false,
            spared,
            waiting: Vec::new(),
            kept: HashSet::new(),
        }
    }

    fn run(&mut self, key: Vec<u8>) {
        self.waiting.push((key, Some(self.source.id)));
        let mut extra = Vec::new();
        while let Some((key, id)) = self.waiting.pop() {
            if id.is_none() {
                extra.push(key.clone());
            }
            if (self.is_stopped)() || self.receiver.is_stopped() || self.has_extra && !self.may_delete {
                return;
            }
            if let Err((operation, error)) = self.directory(&key, id) {
                self.keep(&key, id);
                self.receiver.fail_io(operation, &key, error);
            }
        }
        if !self.may_delete {
            self.has_extra |= !extra.is_empty();
            return;
        }
        // Those further down come after those that they lie in.
        extra.iter().rev().for_each(|key| self.delete_emptied(key));
    }

    /// Deletes what is extra in a directory, and notes which directories in it to look into.
    fn directory(&mut self, key: &[u8], id: Option<NodeId>) -> Result<(), Failed> {
        let there = {
            let Some(mut target) = self.receiver.target() else { return Ok(()) };
            let parts = target::parts(key).unwrap_or_default();
            let there = target.existing(&parts).map_err(|error| ("open", error))?;
            there.map(|there| (there, target.root()))
        };
        let Some((directory, root)) = there else { return Ok(()) };
        // What is mounted there is not what was copied to.
        if self.source.is_on_one_file_system() && !is_on_one(&directory, &root)? {
            self.keep(key, id);
            return Ok(());
        }
        let names = names_of(&directory).map_err(|error| ("list", error))?;
        let mut here = Here { directory, key, id, names: &names, spelled_otherwise: None };
        names.iter().try_for_each(|name| self.look_at(&mut here, name))
    }

    /// Decides what becomes of a name.
    fn look_at(&mut self, here: &mut Here<'_>, name: &OsStr) -> Result<(), Failed> {
        let (directory, id) = (here.directory.clone(), here.id);
        let key = joined(here.key, name.as_bytes());
        let path = key.get(self.skipped..).unwrap_or_default().to_vec();
        if self.receiver.options.selection.excludes(&path, true) {
            self.keep(here.key, id);
            return Ok(());
        }
        let found = match id.map(|id| self.look_up(id, name)).transpose() {
            Ok(found) => found.flatten(),
            // What the source does not say cannot be deleted.
            Err(error) => {
                self.keep(here.key, id);
                self.receiver.fail(&key, error);
                return Ok(());
            }
        };
        match found {
            Some((_, true)) => {}
            Some((found, false)) if is_directory(&directory, name) => self.waiting.push((key, Some(found))),
            Some(_) => {}
            None if self.is_spared(&path, name) => self.keep(here.key, id),
            None if self.is_other_spelling(here, name)? => {}
            // The selection may leave out something in it, and that stays.
            None if self.may_spare_below() && is_directory(&directory, name) => {
                self.waiting.push((key, None));
            }
            None if self.delete(&directory, name, &key) => {}
            None => self.keep(here.key, id),
        }
        Ok(())
    }

    /// What the source has of a name, and whether what is in it was left out.
    fn look_up(&self, directory: NodeId, name: &OsStr) -> crate::Result<Option<(NodeId, bool)>> {
        let found = self.source.tree.lookup(directory, name.as_bytes())?;
        found.map(|found| Ok((found, self.source.leaves_out(found)?))).transpose()
    }

    /// Notes that something stays in a directory, if it is extra.
    fn keep(&mut self, key: &[u8], id: Option<NodeId>) {
        if id.is_none() {
            self.kept.insert(key.to_vec());
        }
    }

    /// Whether a path stays whatever the sources have: one that the selection leaves out, and what
    /// was kept before.
    fn is_spared(&self, path: &[u8], name: &OsStr) -> bool {
        let CopyOptions { selection, only, backup, .. } = &*self.receiver.options;
        let is_backup = |suffix: &OsString| name.as_bytes().ends_with(suffix.as_bytes());
        let is_list = self.skipped == 0 && is_own_list(path);
        is_list
            || only.is_some()
            || backup.as_ref().is_some_and(is_backup)
            || !selection.takes_below(path, || true)
    }

    /// Whether an extra directory may have something in it that stays. With a backup nothing of it
    /// is lost.
    fn may_spare_below(&self) -> bool {
        let options = &self.receiver.options;
        options.backup.is_none() && !options.selection.is_all()
    }

    /// Whether the source has a name with another spelling, where the destination takes both for
    /// one: upper and lower case, or letters that are composed in other ways.
    fn is_other_spelling(&self, here: &mut Here<'_>, name: &OsStr) -> Result<bool, Failed> {
        let Some(id) = here.id else { return Ok(false) };
        let known = match here.spelled_otherwise.take() {
            Some(known) => known,
            None => self.spelled_otherwise(here, id)?,
        };
        let known = here.spelled_otherwise.insert(known);
        if known.is_empty() {
            return Ok(false);
        }
        let there = target::status(&here.directory, name).map_err(|error| ("look for", error))?;
        Ok(there.is_some_and(|there| known.contains(&(there.st_dev, there.st_ino))))
    }

    /// What a directory has by names of the source that are not listed in it.
    fn spelled_otherwise(&self, here: &Here<'_>, id: NodeId) -> Result<HashSet<Inode>, Failed> {
        let listed: HashSet<&[u8]> = here.names.iter().map(|name| name.as_bytes()).collect();
        let (mut page, mut from, mut found) = (Page::new(), Some(Cursor::Start), HashSet::new());
        while let Some(at) = from {
            let next = self.source.tree.list(id, &at, &mut page);
            from = next.map_err(|error| ("list", io::Error::other(crate::error::chain(&error))))?;
            for entry in page.iter().filter(|entry| !listed.contains(entry.name)) {
                let there = target::status(&here.directory, OsStr::from_bytes(entry.name));
                let there = there.map_err(|error| ("look for", error))?;
                found.extend(there.map(|there| (there.st_dev, there.st_ino)));
            }
        }
        Ok(found)
    }

    /// Deletes an extra directory, if nothing stayed in it.
    fn delete_emptied(&mut self, key: &[u8]) {
        let parts = target::parts(key).unwrap_or_default();
        let Some((name, parents)) = parts.split_last() else { return };
        let deleted = match (self.kept.contains(key), self.receiver.options.dry_run) {
            (true, _) => Ok(false),
            (false, true) => Ok(true),
            (false, false) => self.remove_emptied(parents, name),
        };
        match deleted {
            Ok(true) => return self.note_deleted(key, Kind::Directory),
            Ok(false) => {}
            Err(error) => self.receiver.fail_io("delete", key, error),
        }
        let above = key.iter().rposition(|byte| *byte == b'/').and_then(|end| key.get(..end));
        self.kept.extend(above.map(<[u8]>::to_vec));
    }

    fn remove_emptied(&self, parents: &[&OsStr], name: &OsStr) -> io::Result<bool> {
        let parent = self.receiver.target().map(|mut target| target.existing(parents)).transpose()?;
        let parent = parent.flatten().ok_or(io::ErrorKind::NotFound)?;
        match again(|| self.receiver.calls.remove_directory(parent.as_fd(), name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn note_deleted(&self, key: &[u8], kind: Kind) {
        self.receiver.state().report.deleted.push(key.to_vec());
        self.receiver.report(key, (kind, 0), (Action::Delete, Why::Extra), Arc::default());
    }

    /// Deletes a file, or a directory with all that is in it; whether it is gone.
    fn delete(&mut self, directory: &Arc<OwnedFd>, name: &OsStr, key: &[u8]) -> bool {
        let kind = match target::status(directory, name) {
            Ok(Some(there)) => Kind::of(FileType::from_raw_mode(there.st_mode)),
            Ok(None) => return true,
            Err(error) => {
                self.receiver.fail_io("look for", key, error);
                return false;
            }
        };
        self.has_extra = true;
        if !self.may_delete {
            return false;
        }
        let deleted = match (&self.receiver.backups, kind) {
            _ if self.receiver.options.dry_run => Ok(()),
            (Some(backups), _) => {
                let is_directory = kind == Kind::Directory;
                let kept = backups.name_for(key, directory, is_directory);
                kept.and_then(|kept| self.keep_as(directory, (name, kept.as_os_str()), is_directory))
            }
            (None, Kind::Directory) => self.delete_directory(directory, name),
            (None, _) => again(|| self.receiver.calls.unlink(directory.as_fd(), name)),
        };
        match deleted {
            Ok(()) => self.note_deleted(key, kind),
            Err(error) => {
                self.receiver.fail_io("delete", key, error);
                return false;
            }
        }
        true
    }

    /// Gives what is extra another name: a file in place of an earlier backup.
    fn keep_as(
        &self,
        parent: &OwnedFd,
        (name, kept): (&OsStr, &OsStr),
        is_directory: bool,
    ) -> io::Result<()> {
        let (calls, parent) = (&self.receiver.calls, parent.as_fd());
        if !is_directory {
            return calls.rename(parent, name, kept);
        }
        match calls.rename_new(parent, name, kept) {
            // Not every file system knows how. A directory takes the place of an empty one at most.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => calls.rename(parent, name, kept),
            renamed => renamed,
        }
    }

    /// Deletes a directory with all that is in it: what is deepest first, with no more open than
    /// the directory that is emptied and the ones above it.
    fn delete_directory(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let opened = self.enter(parent, name)?;
        let mut above: Vec<(OwnedFd, OsString)> = Vec::new();
        let (mut here, mut here_name) = (opened, name.to_os_string());
        loop {
            let next = self.empty(&here)?;
            match next {
                Some(inner) => {
                    let opened = self.enter(&here, &inner)?;
                    above.push((
                        std::mem::replace(&mut here, opened),
                        std::mem::replace(&mut here_name, inner),
                    ));
                }
                None => match above.pop() {
                    Some((outer, outer_name)) => {
                        again(|| self.receiver.calls.remove_directory(outer.as_fd(), &here_name))?;
                        (here, here_name) = (outer, outer_name);
                    }
                    None => {
                        return again(|| self.receiver.calls.remove_directory(parent.as_fd(), &here_name));
                    }
                },
            }
        }
    }

    /// Removes what is in a directory but its directories, of which the first is returned.
    fn empty(&self, directory: &OwnedFd) -> io::Result<Option<OsString>> {
        for name in names_of(directory)? {
            if is_directory(directory, &name) {
                return Ok(Some(name));
            }
            again(|| self.receiver.calls.unlink(directory.as_fd(), &name))?;
        }
        Ok(None)
    }

    /// Opens a directory that is to be emptied.
    fn enter(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        let refused = |why: &str| Err(io::Error::other(format!("{} {why}", name.display())));
        if is_mounted(parent, &opened)? {
            return refused("is where another file system is mounted, and nothing is deleted there");
        }
        if self.spared.contains(&identity(&opened)?) {
            return refused("is what is copied, or what is linked to");
        }
        Ok(opened)
    }
}

/// Whether two directories are on one file system.
fn is_on_one(one: &OwnedFd, other: &OwnedFd) -> Result<bool, Failed> {
    let of = |directory: &OwnedFd| identity(directory).map_err(|error| ("look at", error));
    Ok(of(one)?.0 == of(other)?.0)
}

/// Whether a directory lies on another mount than the one that it was opened in. Where the system
/// does not say so, the file system decides.
fn is_mounted(outer: &OwnedFd, inner: &OwnedFd) -> io::Result<bool> {
    match (mount_of(outer)?, mount_of(inner)?) {
        (Some(outer), Some(inner)) => Ok(outer != inner),
        _ => Ok(identity(outer)?.0 != identity(inner)?.0),
    }
}

/// The number of the mount that a directory lies on, where the kernel reports it (from 5.8 on).
fn mount_of(directory: &OwnedFd) -> io::Result<Option<u64>> {
    match statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID) {
        Ok(found) => {
            let is_reported = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
            Ok(is_reported.then_some(found.stx_mnt_id))
        }
        Err(rustix::io::Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_directory(parent: &OwnedFd, name: &OsStr) -> bool {
    matches!(target::status(parent, name), Ok(Some(there)) if FileType::from_raw_mode(there.st_mode).is_dir())
}

/// All names in a directory.
fn names_of(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::with_capacity(64);
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_os_string());
        }
    }
    Ok(names)
}
