//! Whether what is there has the attributes of its source, and what is done where it has not.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::PoisonError;

use rustix::fs::{FileType, Mode, OFlags, Stat};

use super::body::FileJob;
use super::decide::{CHANGED, is_unchanged};
use super::destination::{Receiver, Spot};
use super::listing::Found;
use super::refuse::Inode;
use crate::tree::outbox::again;
use crate::tree::target::{self, FileMetadata, Unset};
use crate::tree::xattrs::{grants_rights, is_acl, is_foreign};
use crate::tree::{Kind, Node, NodeId, Overwrite, Xattrs};
use crate::walk::xattrs::{read, read_at};

/// What became of the attributes of something that is there.
#[derive(Debug, Default)]
pub(super) struct Corrected {
    /// Whether it had others than its source; a dry run leaves it as it is.
    pub(super) is_corrected: bool,
    /// What it lacks all the same.
    pub(super) unset: Unset,
}

/// Files of a destination that had several names when they were met first.
pub(super) type Shared = HashSet<Inode>;

impl Receiver {
    /// What something is to get, its extended attributes read from its source.
    pub(super) fn wanted(&self, (source, id): (usize, NodeId), node: &Node) -> crate::Result<FileMetadata> {
        let xattrs = match self.sources.get(source).filter(|_| self.options.xattrs) {
            Some(source) => source.tree.xattrs(id)?,
            None => Xattrs::default(),
        };
        Ok(self.metadata(node, xattrs))
    }

    /// Whether what has a name has the extended attributes that it is to have, and no others.
    pub(super) fn has_xattrs(&self, spot: &Spot, wanted: &FileMetadata) -> io::Result<bool> {
        if !self.options.xattrs {
            return Ok(true);
        }
        let there = read_at(&spot.parent, spot.name.as_encoded_bytes())?;
        let has_all = wanted.xattrs.as_slice().iter().all(|xattr| {
            // What is lost, and what another system has, cannot be set.
            xattr.value.is_none()
                || is_foreign(&xattr.name)
                || there.get(&xattr.name) == xattr.value.as_deref()
        });
        Ok(has_all && extra(&there, wanted).next().is_none())
    }

    /// Takes away the extended attributes that the source does not have.
    pub(super) fn remove_extra_xattrs(&self, file: BorrowedFd<'_>, wanted: &FileMetadata) -> io::Result<()> {
        if !self.options.xattrs {
            return Ok(());
        }
        let there = read(file);
        extra(&there, wanted).try_for_each(|name| again(|| self.calls.remove_xattr(file, name)))
    }

    /// Notes which files have several names, and whether this one has, or had: this run may have
    /// replaced the others. What is there under other names is not known to be a copy of the same:
    /// it may be of another file, in an earlier copy, or a source itself.
    pub(super) fn has_other_names(&self, there: &Stat) -> bool {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let inode = (there.st_dev, there.st_ino);
        if there.st_nlink > 1 && !FileType::from_raw_mode(there.st_mode).is_dir() {
            shared.insert(inode);
        }
        shared.contains(&inode)
    }

    /// Gives a file that is there the attributes of its source, where that is asked. `never` and
    /// `older` leave what stays as it is, but for extended attributes that it lacks: their source
    /// could not be read when it was copied, and nothing else would ever say so. `None` where it
    /// has others, and other names, which have to keep these.
    pub(super) fn correct_file(
        &self,
        job: &FileJob,
        spot: &Spot,
        seen: &Stat,
    ) -> io::Result<Option<Corrected>> {
        let of = (job.source, job.id);
        let has_other_names = self.has_other_names(seen);
        if self.options.overwrite != Overwrite::Different {
            return self.complete(of, &job.node, spot, Some(seen).filter(|_| !has_other_names)).map(Some);
        }
        let wanted = self.wanted(of, &job.node).map_err(io::Error::other)?;
        if has_other_names && !self.has_all_attributes(spot, seen, &wanted)? {
            return Ok(None);
        }
        self.correct_with(&wanted, spot, seen).map(Some)
    }

    fn correct_with(&self, wanted: &FileMetadata, spot: &Spot, seen: &Stat) -> io::Result<Corrected> {
        if self.has_all_attributes(spot, seen, wanted)? {
            return Ok(Corrected { is_corrected: false, unset: self.lost(spot, wanted)? });
        }
        let unset = match self.options.dry_run {
            true => self.lost(spot, wanted)?,
            false => self.set_all_attributes(&open_seen(spot, seen)?, wanted)?,
        };
        Ok(Corrected { is_corrected: true, unset })
    }

    /// Gives what is there, and is neither file nor directory, owner, time and extended attributes
    /// of its source, where that is asked.
    pub(super) fn correct_other(&self, found: &Found, spot: &Spot) -> io::Result<Corrected> {
        let of = (found.source, found.id);
        if self.options.overwrite != Overwrite::Different {
            return self.complete(of, &found.node, spot, None);
        }
        if found.node.kind != Kind::Symlink {
            return Ok(Corrected::default());
        }
        let wanted = self.wanted(of, &found.node).map_err(io::Error::other)?;
        let Some(there) = target::status(&spot.parent, &spot.name)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if self.has_link_attributes(spot, &there, &wanted)? {
            return Ok(Corrected { is_corrected: false, unset: self.lost(spot, &wanted)? });
        }
        let unset = match self.options.dry_run {
            true => self.lost(spot, &wanted)?,
            false => target::set_link_metadata(&*self.calls, &spot.parent, &spot.name, &wanted)?,
        };
        Ok(Corrected { is_corrected: true, unset })
    }

    fn has_link_attributes(&self, spot: &Spot, there: &Stat, wanted: &FileMetadata) -> io::Result<bool> {
        let has_owner = wanted.owner.is_none_or(|owner| owner == (there.st_uid, there.st_gid));
        Ok(has_owner && self.has_time_of(spot, there, wanted) && self.has_xattrs(spot, wanted)?)
    }

    /// Whether a symbolic link that leads where its source does can stay: not with other attributes
    /// where it has other names, which have to keep these.
    pub(super) fn link_may_stay(&self, found: &Found, spot: &Spot) -> io::Result<bool> {
        if self.options.overwrite != Overwrite::Different {
            return Ok(true);
        }
        match target::status(&spot.parent, &spot.name)? {
            Some(there) if self.has_other_names(&there) => {
                let wanted = self.wanted((found.source, found.id), &found.node).map_err(io::Error::other)?;
                self.has_link_attributes(spot, &there, &wanted)
            }
            _ => Ok(true),
        }
    }

    /// Gives something that stays the extended attributes that it lacks. Those that give rights are
    /// only reported, as the mode is that of what stays. `seen` is what a file was when it was
    /// looked at; nothing else gets any.
    fn complete(
        &self,
        (source, id): (usize, NodeId),
        node: &Node,
        spot: &Spot,
        seen: Option<&Stat>,
    ) -> io::Result<Corrected> {
        // What is in packs and archives does not change, and would have to be read for it.
        let from = self.sources.get(source).filter(|from| self.options.xattrs && from.is_on_disk());
        let Some(from) = from else { return Ok(Corrected::default()) };
        let xattrs = match from.tree.xattrs(id) {
            Ok(xattrs) if xattrs.is_empty() => return Ok(Corrected::default()),
            Ok(xattrs) => xattrs,
            Err(error) => {
                let unset = Unset { why: Some(crate::error::chain(&error)), has_foreign: false };
                return Ok(Corrected { is_corrected: false, unset });
            }
        };
        let there = match read_at(&spot.parent, spot.name.as_encoded_bytes()) {
            // It is gone, or the system has no `/proc`, by which they are found.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Corrected::default()),
            there => there?,
        };
        let missing = self.metadata(node, xattrs).xattrs.without(&there);
        let may_set = |name: &[u8]| seen.is_some() && !grants_rights(name) && !is_acl(name);
        let is_corrected = missing
            .as_slice()
            .iter()
            .any(|one| one.value.is_some() && may_set(&one.name) && !is_foreign(&one.name));
        let opened = match seen.filter(|_| is_corrected && !self.options.dry_run) {
            Some(seen) => Some(open_seen(spot, seen)?),
            None => None,
        };
        let (unset, _) = target::set_xattrs(&missing, |name, value| match &opened {
            Some(file) if may_set(name) => again(|| self.calls.set_xattr(file.as_fd(), name, value)),
            _ if may_set(name) => Ok(()),
            _ => Err(io::Error::other("what is there has none, and stays as it is")),
        })?;
        Ok(Corrected { is_corrected, unset })
    }

    /// What something lacks because it could not be read from its source.
    pub(super) fn lost(&self, spot: &Spot, wanted: &FileMetadata) -> io::Result<Unset> {
        if wanted.xattrs.lost_here().is_none() {
            return Ok(Unset::default());
        }
        let there = read_at(&spot.parent, spot.name.as_encoded_bytes())?;
        let missing = wanted.xattrs.clone().without(&there);
        let (unset, _) = target::set_xattrs(&missing, |_, _| Ok(()))?;
        Ok(unset)
    }

    fn has_time_of(&self, spot: &Spot, there: &Stat, wanted: &FileMetadata) -> bool {
        wanted.mtime_ns.is_none() || self.has_time(&spot.parent, there, wanted.mtime_ns)
    }

    /// Whether something has mode, owner, time and extended attributes of its source.
    pub(super) fn has_all_attributes(
        &self,
        spot: &Spot,
        there: &Stat,
        wanted: &FileMetadata,
    ) -> io::Result<bool> {
        Ok(self.has_time_of(spot, there, wanted)
            && target::has_metadata(there, wanted)
            && self.has_xattrs(spot, wanted)?)
    }

    /// Sets all of them on what is open; what could not be set.
    fn set_all_attributes(&self, file: &impl AsFd, wanted: &FileMetadata) -> io::Result<Unset> {
        let file = file.as_fd();
        // Without a list of rights the mode means something else, so it is set afterwards.
        self.remove_extra_xattrs(file, wanted)?;
        target::set_metadata(&*self.calls, file, wanted, None)
    }
}

/// Opens the very file that was looked at: with the attributes of the source another one would be
/// taken for the same from now on.
fn open_seen(spot: &Spot, seen: &Stat) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(&spot.parent, &spot.name, flags, Mode::empty())?;
    match is_unchanged(seen, &rustix::fs::fstat(&opened)?) {
        true => Ok(opened),
        false => Err(io::Error::other(CHANGED)),
    }
}

/// Names of extended attributes that are not wanted: none where not all of those are known that
/// are. Those that grant rights are neither set nor removed where owners are not.
fn extra<'a>(there: &'a Xattrs, wanted: &'a FileMetadata) -> impl Iterator<Item = &'a [u8]> {
    let there = if wanted.xattrs.has_more() { &[] } else { there.as_slice() };
    let names = there.iter().map(|xattr| xattr.name.as_slice());
    names.filter(|name| {
        let is_ours = wanted.owner.is_some() || !grants_rights(name);
        is_ours && !is_foreign(name) && !wanted.xattrs.as_slice().iter().any(|xattr| xattr.name == *name)
    })
}
