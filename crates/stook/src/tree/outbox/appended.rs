//! [`Appended`]: a file that has its name from its first bytes on, and only grows.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use super::calls::Calls;
use super::{NewFile, OutFile, Outbox, Replaces, again};

/// A file under its own name, to which bytes are added. What was added is at its end whole, or not
/// at all, as long as the system runs. It is never empty: somebody else would not know whether it
/// was cut.
#[derive(Debug)]
pub(crate) struct Appended {
    calls: Arc<dyn Calls>,
    parent: Arc<OwnedFd>,
    file: OutFile,
    len: u64,
    /// Whether the directory knows the name for good.
    has_durable_name: bool,
}

impl Outbox {
    /// Makes a file that has these bytes when it gets its name, durable before that if it is to be.
    ///
    /// # Errors
    /// I/O errors; `AlreadyExists` where something has the name.
    pub(crate) fn append_to_new(
        &self,
        parent: &Arc<OwnedFd>,
        (name, bytes): (&OsStr, &[u8]),
        is_durable: bool,
    ) -> io::Result<Appended> {
        let new = NewFile { mode: None, is_private: false, replaces: Replaces::Nothing };
        let mut file = self.file(parent, new)?;
        file.write_at(bytes, 0)?;
        if is_durable {
            file.sync()?;
        }
        file.publish(name, None).map_err(|(_, error)| error)?;
        let (calls, parent, len) = (self.calls.clone(), parent.clone(), bytes.len() as u64);
        Ok(Appended { calls, parent, file, len, has_durable_name: false })
    }
}

impl Appended {
    /// Adds bytes to its end. If that fails, none of them stay, unless that fails as well.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        let mut at = self.len;
        while !rest.is_empty() {
            let written = match again(|| self.calls.write_at(&self.file.file, rest, at)) {
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
                    let _ = self.file.set_len(self.len);
                    return Err(error);
                }
            }
        }
        self.len = at;
        Ok(())
    }

    /// Makes all that was added durable, and its name.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync()?;
        if !self.has_durable_name {
            self.calls.sync(self.parent.as_fd())?;
            self.has_durable_name = true;
        }
        Ok(())
    }
}
