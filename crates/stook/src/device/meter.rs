//! [`DeviceMeter`]: what the devices below a file or directory do in a period.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Below, Counters, DeviceUse};
use crate::error::{Error, Result};

/// Counts what the devices below a file or directory do from now on, for all programs.
#[derive(Debug)]
pub struct DeviceMeter {
    below: Below,
    before: Counters,
}

impl DeviceMeter {
    /// Begins to count.
    ///
    /// # Errors
    /// Returns an error if nothing is there, no device is known below it, or its counters would
    /// prove nothing.
    pub fn start(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error: io::Error| Error::io("count the reads of what lies below", path, error);
        let below = Below::of(path, path.metadata().map_err(failed)?.dev());
        if let Some(doubt) = below.doubt() {
            return Err(failed(io::Error::other(doubt.to_owned())));
        }
        let before = below.counters().ok_or_else(|| failed(io::Error::other("it has no counters")))?;
        Ok(Self { below, before })
    }

    /// What they did since; `None` if they are gone.
    pub fn used(&self) -> Option<DeviceUse> {
        Some(self.below.use_between(self.before, self.below.counters()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_memory_is_not_counted_and_neither_is_what_is_not_there() {
        let error = DeviceMeter::start("/proc/self").unwrap_err();
        assert!(crate::error::chain(&error).contains("/proc/self"), "{error}");
        DeviceMeter::start("/proc/self/nothing/here").unwrap_err();
    }
}
