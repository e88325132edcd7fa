//! Making something in a destination where descriptors, or rights, are short at first.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use super::destination::Receiver;
pub(super) use crate::tree::descriptors::{is_short_of_descriptors, with_descriptors};
use crate::tree::durable::identity;
use crate::tree::outbox::{NewFile, OutFile, again};
use crate::tree::target::{self, is_out_of_descriptors};

/// What its owner needs to put something into a directory.
const OWNER_PUTS: u32 = 0o300;

impl Receiver {
    /// Begins a file.
    pub(super) fn new_file(&self, parent: &Arc<OwnedFd>, new: NewFile) -> io::Result<OutFile> {
        self.making(parent, || self.outbox.file(parent, new))
    }

    /// Makes something in a directory, once more after what stood in its way is gone: files that
    /// wait keep their descriptors until they have their names, and an earlier run may have given a
    /// directory a mode that forbids even its owner to put something into it.
    pub(super) fn making<T>(
        &self,
        parent: &OwnedFd,
        mut make: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        match with_descriptors(&mut make, is_out_of_descriptors, || self.release_descriptors()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && self.lifts(parent)? => make(),
            made => made,
        }
    }

    /// Gives back the descriptors that are kept for speed.
    pub(super) fn release_descriptors(&self) {
        self.publish_waiting();
        if let Some(mut target) = self.target() {
            target.close_unused();
        }
    }

    /// Lets the owner of a directory put something into it; whether that was forbidden, and by no
    /// more than the mode. All directories get theirs in the end, but the destination itself, whose
    /// mode is not the copy's to change.
    pub(super) fn lifts(&self, directory: &OwnedFd) -> io::Result<bool> {
        let status = rustix::fs::fstat(directory)?;
        let mode = status.st_mode & 0o7777;
        let is_own = status.st_uid == rustix::process::geteuid().as_raw();
        let root = self.target().map(|target| identity(target.root())).transpose()?;
        if !is_own || mode & OWNER_PUTS == OWNER_PUTS || root == Some(identity(directory)?) {
            return Ok(false);
        }
        if self.options.keep_directories {
            self.state().lifted.entry(identity(directory)?).or_insert(mode);
        }
        again(|| self.calls.set_mode(directory.as_fd(), mode | OWNER_PUTS))?;
        Ok(true)
    }

    /// Gives those of these directories their modes again that are to keep them, the deepest first.
    pub(super) fn restore_modes<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let mut lifted = std::mem::take(&mut self.state().lifted);
        for key in keys {
            if lifted.is_empty() {
                return;
            }
            let parts = target::parts(key).unwrap_or_default();
            let there = self.target().map(|mut target| target.existing(&parts)).transpose();
            let restored = there.and_then(|there| {
                let Some(directory) = there.flatten() else { return Ok(()) };
                match lifted.remove(&identity(&directory)?) {
                    Some(mode) => again(|| self.calls.set_mode(directory.as_fd(), mode)),
                    None => Ok(()),
                }
            });
            if let Err(error) = restored {
                self.fail_io("set the mode of", key, error);
            }
        }
    }
}
