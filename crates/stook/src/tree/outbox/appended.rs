//! [`Appended`]: a file that has its name from the beginning, and only grows.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use super::calls::Calls;
use super::{Outbox, again};

/// A file under its own name, to which bytes are added. What was added is at its end whole, or not
/// at all, as long as the system runs.
#[derive(Debug)]
pub(crate) struct Appended {
    calls: Arc<dyn Calls>,
    parent: Arc<OwnedFd>,
    file: File,
    len: u64,
    /// Whether the directory knows the name for good.
    has_durable_name: bool,
}

impl Outbox {
    /// Makes a file that is empty.
    ///
    /// # Errors
    /// I/O errors; `AlreadyExists` where something has the name.
    pub(crate) fn append_to_new(&self, parent: &Arc<OwnedFd>, name: &OsStr) -> io::Result<Appended> {
        let file = again(|| self.calls.create(parent.as_fd(), name, 0o666))?;
        let (calls, parent) = (self.calls.clone(), parent.clone());
        Ok(Appended { calls, parent, file, len: 0, has_durable_name: false })
    }
}

impl Appended {
    /// Adds bytes to its end. If that fails, none of them stay, unless that fails as well.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        let mut at = self.len;
        while !rest.is_empty() {
            let written = match again(|| self.calls.write_at(&self.file, rest, at)) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                written => written,
            };
            match written {
                Ok(written) => {
                    rest = rest.get(written..).unwrap_or_default();
                    at = at.saturating_add(written as u64);
                }
                Err(error) => {
                    // What went wrong first is what is reported.
                    let _ = again(|| self.calls.set_len(&self.file, self.len));
                    return Err(error);
                }
            }
        }
        self.len = at;
        Ok(())
    }

    /// Makes all that was added durable, and its name.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.calls.sync(self.file.as_fd())?;
        if !self.has_durable_name {
            self.calls.sync(self.parent.as_fd())?;
            self.has_durable_name = true;
        }
        Ok(())
    }
}
