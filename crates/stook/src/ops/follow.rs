//! Following a pack that others write to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::pack::{self, Key, KeyRange, Pack, Record, is_in_groups};

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

/// Records that are put into a pack from now on, for any number of threads: each gets others.
#[derive(Debug)]
pub struct Feed {
    groups: Vec<String>,
    range: KeyRange,
    state: Mutex<State>,
}

/// How far the feed has come.
#[derive(Debug)]
struct State {
    seen: Arc<Pack>,
    /// Keys of puts that were not returned yet.
    put: VecDeque<Key>,
}

impl Feed {
    /// What is put after this state, into these groups (all if empty), with keys of this range.
    pub fn new(seen: Arc<Pack>, groups: Vec<String>, range: KeyRange) -> Self {
        Self { groups, range, state: Mutex::new(State { seen, put: VecDeque::new() }) }
    }

    /// The next record that is there, and the state that it is in; `None` where
    /// [`wait`](Self::wait) has to come first. One that was replaced or deleted meanwhile is passed
    /// over.
    ///
    /// # Errors
    /// Errors of reading. The next call continues after them.
    pub fn next_put(&self) -> pack::Result<Option<(Arc<Pack>, Record)>> {
        loop {
            let (key, seen) = {
                let mut state = self.state();
                let Some(key) = state.put.pop_front() else { return Ok(None) };
                (key, state.seen.clone())
            };
            if let Some(record) = seen.get_file(&key)? {
                return Ok(Some((seen, record)));
            }
        }
    }

    /// Waits for more, as [`wait_for_newer`] does; `false` when `go_on` ended it.
    ///
    /// # Errors
    /// As [`wait_for_newer`], and those of [`Pack::put_since`].
    pub fn wait<E: From<pack::Error>>(
        &self,
        go_on: &mut dyn FnMut() -> bool,
        open: impl FnOnce() -> Result<Pack, E>,
    ) -> Result<bool, E> {
        let seen = self.state().seen.clone();
        let Some(newer) = wait_for_newer(&seen, go_on, open)? else { return Ok(false) };
        let mut heads = newer.put_since(&seen)?;
        heads.retain(|head| {
            self.range.contains(&head.key) && is_in_groups(&self.groups, newer.group_of_segment(head.segment))
        });
        let mut state = self.state();
        // Another thread may have come first; then the next wait starts from its state.
        if Arc::ptr_eq(&state.seen, &seen) {
            state.put.extend(heads.into_iter().map(|head| head.key));
            state.seen = Arc::new(newer);
        }
        Ok(true)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
