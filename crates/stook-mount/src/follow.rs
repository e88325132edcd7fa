//! Showing what others write to a pack that is mounted: the kernel, which keeps all that it learns,
//! is told what of it does not hold any more.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use fuser::Notifier;
use stook::pack::tree::{Changes, Followed};

use crate::shared::Shared;

/// How often it is looked whether there is something new.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Follows until the other end of `stopped` is dropped.
pub(crate) fn run(shared: &Shared, followed: &Followed, stopped: &Receiver<()>, notifier: &Notifier) {
    while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        match followed.refresh() {
            Ok(None) => {}
            Ok(Some(changes)) => {
                // What was listed before has to be listed again.
                shared.state.fetch_add(1, Ordering::SeqCst);
                shared.count_again();
                if invalidate(shared, &changes, stopped, notifier).is_err() {
                    // The mount has ended.
                    return;
                }
            }
            // The state before stays. It is tried again, and said once.
            Err(error) => shared.log.say(&stook::error::chain(&error)),
        }
    }
}

/// Names come before the nodes that have them: the kernel waits there for requests that are under
/// way in their directory, and are of the state before.
fn invalidate(
    shared: &Shared,
    changes: &Changes,
    stopped: &Receiver<()>,
    notifier: &Notifier,
) -> std::io::Result<()> {
    let is_stopped = || stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected);
    for (directory, name) in &changes.entries {
        if is_stopped() {
            return Ok(());
        }
        notifier.inval_entry(shared.numbers.inode(*directory), OsStr::from_bytes(name))?;
    }
    for node in &changes.nodes {
        if is_stopped() {
            return Ok(());
        }
        notifier.inval_inode(shared.numbers.inode(*node), 0, 0)?;
    }
    Ok(())
}
