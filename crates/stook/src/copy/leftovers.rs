//! What runs that were killed had just exchanged with what has its name.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use super::destination::Receiver;
use super::listing::joined;
use super::report::Leftover;
use crate::tree::outbox::Settled;
use crate::tree::target;

impl Receiver {
    /// Removes what is there under its own name as well. All else may be all that there is of an
    /// earlier file: it gets the name of a backup, if backups are kept, and is reported.
    pub(super) fn settle_leftovers(&self) {
        let exchanged = self.target().map(|mut target| target.take_exchanged()).unwrap_or_default();
        for (above, name) in exchanged {
            match self.settle_leftover(&above, &name) {
                Ok(Some(leftover)) => self.state().report.leftovers.push(leftover),
                Ok(None) => {}
                Err(error) => {
                    self.fail_io("look at what was replaced,", &joined(&above, name.as_bytes()), error)
                }
            }
        }
    }

    fn settle_leftover(&self, above: &[u8], name: &OsStr) -> io::Result<Option<Leftover>> {
        let parts = target::parts(above).unwrap_or_default();
        let directory = self.target().map(|mut target| target.existing(&parts)).transpose()?.flatten();
        let Some(directory) = directory else { return Ok(None) };
        let of = match self.outbox.settle(&directory, name)? {
            Settled::Gone => return Ok(None),
            Settled::Stays(of) => of,
        };
        let replaced_by = of.as_ref().map(|of| joined(above, of.as_bytes()));
        let kept = match (&of, &replaced_by) {
            (Some(of), Some(key)) => self.name_leftover((&directory, name), of, key)?,
            _ => None,
        };
        let name = kept.as_deref().unwrap_or(name);
        Ok(Some(Leftover { key: joined(above, name.as_bytes()), replaced_by }))
    }

    /// Gives what was replaced the name of a backup, where nothing has that.
    fn name_leftover(
        &self,
        (directory, name): (&OwnedFd, &OsStr),
        of: &OsStr,
        key: &[u8],
    ) -> io::Result<Option<std::ffi::OsString>> {
        let Some(backups) = &self.backups else { return Ok(None) };
        // As of a directory: nothing is replaced by it.
        let kept = self.name_backup(backups, key, (directory, of), true)?;
        match self.calls.rename_new(directory.as_fd(), name, &kept) {
            Ok(()) => {
                self.state().report.backups += 1;
                Ok(Some(kept))
            }
            // Not every file system knows how: it stays as it is.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            Err(error) => Err(error),
        }
    }
}
