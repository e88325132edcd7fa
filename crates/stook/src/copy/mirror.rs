//! What only a destination has, deleted once everything has been copied.
//!
//! First all of it is found, then it is deleted, unless it is too much. Nothing is followed: each
//! directory is opened below the one before. Nothing is deleted in what is mounted below an extra
//! directory, nothing that is being copied, and nothing that another run uses.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Stat, StatxFlags, statx};

use super::destination::Receiver;
use super::events::{Action, Why};
use super::listing::joined;
use super::lists::is_own_list;
use super::options::CopyOptions;
use super::refuse::{Inode, inode_of};
use super::reserved::is_for_repairs;
use super::source::CopySource;
use super::spelling::above;
use crate::report::units;
use crate::source::Inodes;
use crate::tree::durable::identity;
use crate::tree::gone::{GoneCount, MORE_THAN_HALF, more_than};
use crate::tree::outbox::{Temporary, again};
use crate::tree::target;
use crate::tree::{Cursor, Kind, NodeId, Page};

/// What was to be done, and its error.
type Failed = (&'static str, io::Error);

/// Why something is not deleted.
const SPARED: &str = "it is what is copied, or what is linked to";

/// Deletes in one destination.
pub(super) struct Mirror<'a> {
    pub(super) receiver: &'a Receiver,
    pub(super) sources: &'a [CopySource],
    pub(super) is_contents: bool,
    /// Whether anything was selected in a source.
    pub(super) has_selected: &'a dyn Fn(usize) -> bool,
    /// How many entries of a directory were listed and selected.
    pub(super) listed: &'a dyn Fn(&[u8]) -> u64,
    pub(super) is_stopped: &'a dyn Fn() -> bool,
}

impl Mirror<'_> {
    /// Deletes what the sources do not have, in each directory that was copied.
    pub(super) fn run(&self) {
        let paths = self.sources.iter().flat_map(CopySource::places);
        let paths = paths.chain(self.receiver.options.link_dest.as_deref());
        let mut spared: Inodes = paths.filter_map(inode_of).collect();
        spared.extend(&self.receiver.read_from);
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
            search.find(key.clone());
            match search.refusal(&key) {
                Some(why) => self.receiver.fail_io("mirror", &key, io::Error::other(why)),
                None => search.delete(),
            }
        }
    }
}

/// The search for what is extra where one source went.
struct Search<'a> {
    receiver: &'a Receiver,
    source: &'a CopySource,
    is_stopped: &'a dyn Fn() -> bool,
    listed: &'a dyn Fn(&[u8]) -> u64,
    /// How long the part of a key is that the source does not have.
    skipped: usize,
    /// Whether what is extra is deleted; else it is only found out whether there is anything.
    may_delete: bool,
    has_extra: bool,
    /// What is not deleted, wherever it is found.
    spared: &'a Inodes,
    /// Directories to look into. Without a node all in it is extra.
    waiting: Vec<(Vec<u8>, Option<NodeId>)>,
    /// What is extra: all but directories, and with backups these, too, each as a whole.
    extra: Vec<Vec<u8>>,
    /// Extra directories whose contents are among that. Those further down come after those that
    /// they lie in.
    extra_directories: Vec<Vec<u8>>,
    /// Extra directories in which something stays.
    kept: HashSet<Vec<u8>>,
    /// Files and the like that the source has.
    had: u64,
}

/// What becomes of a name.
enum Looked {
    /// The source has it.
    Had,
    Extra(Vec<u8>),
    Stays,
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
        spared: &'a Inodes,
    ) -> Self {
        Self {
            receiver: mirror.receiver,
            source,
            is_stopped: mirror.is_stopped,
            listed: mirror.listed,
            skipped: if key.is_empty() { 0 } else { key.len() + 1 },
            may_delete,
            has_extra: false,
            spared,
            waiting: Vec::new(),
            extra: Vec::new(),
            extra_directories: Vec::new(),
            kept: HashSet::new(),
            had: 0,
        }
    }

    fn is_over(&self) -> bool {
        (self.is_stopped)() || self.receiver.is_stopped()
    }

    /// Finds what is extra.
    fn find(&mut self, key: Vec<u8>) {
        self.waiting.push((key, Some(self.source.id)));
        while let Some((key, id)) = self.waiting.pop() {
            if self.is_over() || self.has_extra && !self.may_delete {
                return;
            }
            if let Err((operation, error)) = self.directory(&key, id) {
                self.keep(&key, id);
                self.receiver.fail_io(operation, &key, error);
            }
            if id.is_none() {
                self.extra_directories.push(key);
            }
        }
    }

    /// Why nothing of it is deleted, if that is so.
    fn refusal(&self, key: &[u8]) -> Option<String> {
        let options = &self.receiver.options;
        if !self.has_extra || self.is_over() {
            return None;
        }
        // It is more likely that something is not mounted than that all is to go.
        if !self.may_delete {
            let why = "nothing of its source was selected, so nothing in it was deleted; \
                       `--force` deletes all the same";
            return Some(why.to_owned());
        }
        let gone = self.extra.len() as u64;
        // What was only just copied says nothing of what was there.
        let had = self.had.saturating_sub(self.receiver.new_names(key));
        let count = GoneCount { gone, of: gone.saturating_add(had) };
        let why = match options.max_delete {
            // What is kept under another name is not lost.
            _ if options.force || options.backup.is_some() => return None,
            Some(max) if gone > max => more_than(max),
            None if count.is_more_than_half() => MORE_THAN_HALF.to_owned(),
            _ => return None,
        };
        let (gone, of) = (units::count(gone), units::count_of(count.of, "file", "files"));
        Some(format!("{gone} of {of} would be deleted, {why}; `--max-delete N` or `--force` deletes them"))
    }

    /// Deletes what was found.
    fn delete(&mut self) {
        for key in std::mem::take(&mut self.extra) {
            if self.is_over() {
                return;
            }
            if !self.delete_one(&key) {
                self.kept.insert(above(&key).to_vec());
            }
        }
        for key in std::mem::take(&mut self.extra_directories).iter().rev() {
            if self.is_over() {
                return;
            }
            self.delete_emptied(key);
        }
    }

    /// Finds what is extra in a directory, and notes which directories in it to look into.
    fn directory(&mut self, key: &[u8], id: Option<NodeId>) -> Result<(), Failed> {
        let open = |error| ("open", error);
        let there = {
            let Some(mut target) = self.receiver.target() else { return Ok(()) };
            let parts = target::parts(key).unwrap_or_default();
            let there = target.existing(&parts).map_err(open)?;
            let above = parts.split_last().map(|(_, above)| target.existing(above));
            there.zip(Some((above.transpose().map_err(open)?.flatten(), target.root())))
        };
        let Some((directory, (above, root))) = there else { return Ok(()) };
        // What is mounted there is not what was copied to.
        if self.source.is_on_one_file_system() && !is_on_one(&directory, &root)? {
            self.keep(key, id);
            return Ok(());
        }
        if let Some(above) = above.filter(|_| id.is_none()) {
            self.check_extra(&above, &directory).map_err(|error| ("delete", error))?;
        }
        let names = names_of(&directory).map_err(|error| ("list", error))?;
        let mut here = Here { directory, key, id, names: &names, spelled_otherwise: None };
        let (mut extra, mut had) = (Vec::new(), 0);
        for name in &names {
            match self.look_at(&mut here, name)? {
                Looked::Had => had += 1,
                Looked::Extra(key) => extra.push((name, key)),
                Looked::Stays => {}
            }
        }
        // All that was listed is there now. What the source does not have of it any more went from
        // there while it was copied, and may be nowhere else.
        let is_less = id.is_some() && had < (self.listed)(key) && !self.receiver.options.dry_run;
        if is_less && !extra.is_empty() {
            let why = "its source lost something while it was copied, so nothing in it was deleted";
            return Err(("mirror", io::Error::other(why)));
        }
        extra.into_iter().for_each(|(name, key)| self.note_extra(&here, name, key));
        Ok(())
    }

    /// Returns an error if an extra directory must not be emptied.
    fn check_extra(&self, above: &OwnedFd, directory: &OwnedFd) -> io::Result<()> {
        let refused = |why: &str| Err(io::Error::other(why));
        if is_mounted(above, directory)? {
            return refused("another file system is mounted there, and nothing is deleted in it");
        }
        if self.spared.contains(&identity(directory)?) {
            return refused(SPARED);
        }
        Ok(())
    }

    /// Finds out what becomes of a name.
    fn look_at(&mut self, here: &mut Here<'_>, name: &OsStr) -> Result<Looked, Failed> {
        let (directory, id) = (here.directory.clone(), here.id);
        let key = joined(here.key, name.as_bytes());
        let path = key.get(self.skipped..).unwrap_or_default().to_vec();
        if self.receiver.options.selection.excludes(&path, true) {
            self.keep(here.key, id);
            return Ok(Looked::Stays);
        }
        let found = match id.map(|id| self.look_up(id, name)).transpose() {
            Ok(found) => found.flatten(),
            // What the source does not say cannot be deleted.
            Err(error) => {
                self.keep(here.key, id);
                self.receiver.fail(&key, error);
                return Ok(Looked::Stays);
            }
        };
        Ok(match found {
            Some((found, false)) if is_directory(&directory, name) => {
                self.waiting.push((key, Some(found)));
                Looked::Had
            }
            Some((_, is_left_out)) => {
                self.had += u64::from(!is_left_out);
                Looked::Had
            }
            None if is_for_repairs(&*self.receiver.calls, &directory, name)
                || self.is_spared(&path, name) =>
            {
                self.keep(here.key, id);
                Looked::Stays
            }
            None if self.is_other_spelling(here, name)? => {
                self.had += 1;
                Looked::Had
            }
            None => Looked::Extra(key),
        })
    }

    /// Notes that something is extra, unless it stays.
    fn note_extra(&mut self, here: &Here<'_>, name: &OsStr, key: Vec<u8>) {
        // What another run uses, and what may be all that there is of a file.
        if matches!(
            Temporary::of(&*self.receiver.calls, &here.directory, name),
            Temporary::InUse | Temporary::Exchanged
        ) {
            return self.keep(here.key, here.id);
        }
        self.has_extra = true;
        // With backups nothing of a directory is lost, unless something in it is not to be moved.
        // Else each name in it is named.
        let is_whole = self.receiver.backups.is_some() && self.receiver.options.selection.is_all();
        if is_directory(&here.directory, name) && !is_whole {
            self.waiting.push((key, None));
        } else {
            // Its backup stays in the directory.
            if self.receiver.backups.is_some() {
                self.keep(here.key, here.id);
            }
            self.extra.push(key);
        }
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
        self.kept.insert(above(key).to_vec());
    }

    fn remove_emptied(&self, parents: &[&OsStr], name: &OsStr) -> io::Result<bool> {
        let parent = self.receiver.target().map(|mut target| target.existing(parents)).transpose()?;
        let parent = parent.flatten().ok_or(io::ErrorKind::NotFound)?;
        let remove = || again(|| self.receiver.calls.remove_directory(parent.as_fd(), name));
        match self.receiver.making(&parent, remove) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn note_deleted(&self, key: &[u8], kind: Kind) {
        self.receiver.state().report.deleted.push(key.to_vec());
        self.receiver.report(key, (kind, 0), (Action::Delete, Why::Extra), Arc::default());
    }

    /// Deletes what is extra, and with backups gives it another name; whether it is gone.
    fn delete_one(&self, key: &[u8]) -> bool {
        match self.remove(key) {
            Ok(Some(kind)) => {
                self.note_deleted(key, kind);
                true
            }
            Ok(None) => false,
            Err(error) => {
                self.receiver.fail_io("delete", key, error);
                false
            }
        }
    }

    /// Removes what has a key: what it was; `None` where it stays, or is gone.
    fn remove(&self, key: &[u8]) -> io::Result<Option<Kind>> {
        let parts = target::parts(key).unwrap_or_default();
        let Some((name, parents)) = parts.split_last() else { return Ok(None) };
        let parent = self.receiver.target().map(|mut target| target.existing(parents)).transpose()?;
        let Some(parent) = parent.flatten() else { return Ok(None) };
        let Some(there) = target::status(&parent, name)? else { return Ok(None) };
        let kind = Kind::of(FileType::from_raw_mode(there.st_mode));
        if self.spared.contains(&(there.st_dev, there.st_ino)) {
            return Err(io::Error::other(SPARED));
        }
        // While it is held no other run takes it.
        let held = Temporary::of(&*self.receiver.calls, &parent, name);
        if matches!(held, Temporary::InUse | Temporary::Exchanged) {
            return Ok(None);
        }
        let is_directory = kind == Kind::Directory;
        match &self.receiver.backups {
            _ if self.receiver.options.dry_run => {}
            Some(backups) => {
                let kept = self.receiver.name_backup(backups, key, (&parent, name), is_directory)?;
                self.keep_as(&parent, (name, kept.as_os_str()), (&there, is_directory))?;
                self.receiver.state().report.backups += 1;
            }
            None => {
                let unlink = || again(|| self.receiver.calls.unlink(parent.as_fd(), name));
                self.receiver.making(&parent, unlink)?;
            }
        }
        drop(held);
        Ok(Some(kind))
    }

    /// Gives what is extra another name: a file in place of an earlier backup.
    fn keep_as(
        &self,
        parent: &OwnedFd,
        (name, kept): (&OsStr, &OsStr),
        (there, is_directory): (&Stat, bool),
    ) -> io::Result<()> {
        let (calls, at) = (&self.receiver.calls, parent.as_fd());
        if !is_directory {
            // Renaming one name of a file onto another of the same leaves both.
            let earlier = target::status(parent, kept)?;
            let is_one = earlier
                .is_some_and(|earlier| (earlier.st_dev, earlier.st_ino) == (there.st_dev, there.st_ino));
            return if is_one { again(|| calls.unlink(at, name)) } else { calls.rename(at, name, kept) };
        }
        match calls.rename_new(at, name, kept) {
            // Not every file system knows how. A directory takes the place of an empty one at most.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => calls.rename(at, name, kept),
            renamed => renamed,
        }
    }
}

/// Whether two directories are on one file system.
fn is_on_one(one: &OwnedFd, other: &OwnedFd) -> Result<bool, Failed> {
    let of = |directory: &OwnedFd| identity(directory).map_err(|error| ("look at", error));
    Ok(of(one)?.0 == of(other)?.0)
}

/// Whether a directory lies on another mount than the one that it was opened in. Where the system
/// does not say so, the file system decides.
pub(super) fn is_mounted(outer: &OwnedFd, inner: &OwnedFd) -> io::Result<bool> {
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
