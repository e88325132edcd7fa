//! Showing what others write to a pack that is mounted: the kernel, which keeps all that it learns,
//! is told what of it does not hold any more.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use fuser::Notifier;
use stook::pack::tree::{Changes, Followed};

use crate::push::has_ended;
use crate::shared::Shared;
use crate::survey::NAME_LEN_MAX;

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
                if invalidate(shared, &changes, stopped, notifier).is_break() {
                    // The mount has ended.
                    return;
                }
                shared.count_again();
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
) -> ControlFlow<()> {
    let go_on = |sent: std::io::Result<()>| {
        let Err(error) = sent else { return ControlFlow::Continue(()) };
        if has_ended(&error) {
            return ControlFlow::Break(());
        }
        // One that is refused keeps no other from being sent.
        shared.log.say(&format!("cannot show what is new: {error}"));
        ControlFlow::Continue(())
    };
    let is_stopped = || stopped.try_recv() == Err(TryRecvError::Disconnected);
    // The kernel never had longer names.
    for (directory, name) in changes.entries.iter().filter(|(_, name)| name.len() <= NAME_LEN_MAX) {
        if is_stopped() {
            return ControlFlow::Break(());
        }
        go_on(notifier.inval_entry(shared.numbers.inode(*directory), OsStr::from_bytes(name)))?;
    }
    for node in &changes.nodes {
        if is_stopped() {
            return ControlFlow::Break(());
        }
        go_on(notifier.inval_inode(shared.numbers.inode(*node), 0, 0))?;
    }
    ControlFlow::Continue(())
}
