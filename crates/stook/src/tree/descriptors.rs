//! Waiting for descriptors, where a process has as many open as it may.

use std::time::Duration;

use super::target::is_out_of_descriptors;
use crate::error::Error;

/// How often something is tried for which descriptors are short, and how long other threads are
/// given in between to close theirs.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// Does something that takes descriptors. Where none are left, those that are kept for speed are
/// released, and it is tried again.
pub(crate) fn with_descriptors<T, E>(
    mut act: impl FnMut() -> Result<T, E>,
    is_short: impl Fn(&E) -> bool,
    mut release: impl FnMut(),
) -> Result<T, E> {
    for _ in 0..TRIES {
        match act() {
            Err(error) if is_short(&error) => {
                release();
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
    act()
}

/// Whether an error is that no more files can be open.
pub(crate) fn is_short_of_descriptors(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if is_out_of_descriptors(source))
}
