//! Following a pack that others write to.

use std::time::Duration;

use crate::pack::{self, Pack};

/// How often a pack that is followed is looked at.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until something was written to a pack since it was opened, opens it again, and returns
/// that newer state: [`Pack::put_since`] lists the records put in between. Returns `None` as soon
/// as `go_on` returns `false`.
///
/// # Errors
/// Returns I/O errors of listing the files of the pack, and the errors of `open`.
pub fn wait_for_newer<E: From<pack::Error>>(
    seen: &Pack,
    go_on: &mut dyn FnMut() -> bool,
    open: impl FnOnce() -> Result<Pack, E>,
) -> Result<Option<Pack>, E> {
    while go_on() {
        std::thread::sleep(LOOK_EVERY);
        if !seen.is_current()? {
            return open().map(Some);
        }
    }
    Ok(None)
}
