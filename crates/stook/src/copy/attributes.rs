//! Whether what is there has the attributes of its source, and what is done where it has not.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::Stat;

use super::destination::{Receiver, Spot};
use super::listing::Found;
use crate::tree::outbox::again;
use crate::tree::target::{self, FileMetadata};
use crate::tree::xattrs::{grants_rights, is_foreign};
use crate::tree::{Kind, Node, NodeId, Overwrite, Xattrs};
use crate::walk::xattrs::{read, read_at};

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

    /// Gives a symbolic link that leads to where it is to lead owner, time and extended attributes
    /// of its source, where that is asked; whether it had others.
    pub(super) fn correct_link(&self, found: &Found, spot: &Spot) -> io::Result<bool> {
        if self.options.overwrite != Overwrite::Different || found.node.kind != Kind::Symlink {
            return Ok(false);
        }
        let wanted = self.wanted((found.source, found.id), &found.node).map_err(io::Error::other)?;
        let Some(there) = target::status(&spot.parent, &spot.name)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let has_owner = wanted.owner.is_none_or(|owner| owner == (there.st_uid, there.st_gid));
        if has_owner && self.has_time_of(spot, &there, &wanted) && self.has_xattrs(spot, &wanted)? {
            return Ok(false);
        }
        if !self.options.dry_run {
            target::set_link_metadata(&*self.calls, &spot.parent, &spot.name, &wanted)?;
        }
        Ok(true)
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

    /// Sets all of them on what is open.
    pub(super) fn set_all_attributes(&self, file: &impl AsFd, wanted: &FileMetadata) -> io::Result<()> {
        let file = file.as_fd();
        // Without a list of rights the mode means something else, so it is set afterwards.
        self.remove_extra_xattrs(file, wanted)?;
        target::set_metadata(&*self.calls, file, wanted, None).map(drop)
    }
}

/// Names of extended attributes that are not wanted. Those that grant rights are neither set nor
/// removed where owners are not.
fn extra<'a>(there: &'a Xattrs, wanted: &'a FileMetadata) -> impl Iterator<Item = &'a [u8]> {
    let names = there.as_slice().iter().map(|xattr| xattr.name.as_slice());
    names.filter(|name| {
        let is_ours = wanted.owner.is_some() || !grants_rights(name);
        is_ours && !is_foreign(name) && !wanted.xattrs.as_slice().iter().any(|xattr| xattr.name == *name)
    })
}
