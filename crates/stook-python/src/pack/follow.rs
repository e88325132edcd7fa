//! `stook.Follow`: the change feed of a pack.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use stook::ops::follow::wait_for_newer;
use stook::pack::{self, Key, KeyRange};

use super::pack::Pack;
use super::reading::with_group;
use super::record::Record;
use crate::errors::OrRaise as _;
use crate::locks::locked;
use crate::wait::with_progress;

/// Records that are put into a pack from now on, each as a `Record`.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Follow {
    /// The feed ends when this is closed.
    of: Py<Pack>,
    groups: Vec<String>,
    range: KeyRange,
    timeout: Option<Duration>,
    state: Mutex<State>,
}

/// How far the feed has come.
struct State {
    seen: Arc<pack::Pack>,
    /// Keys of puts that were not returned yet.
    put: VecDeque<Key>,
}

impl Follow {
    pub(super) fn new(
        of: Py<Pack>,
        seen: Arc<pack::Pack>,
        groups: Vec<String>,
        range: KeyRange,
        timeout: Option<Duration>,
    ) -> Self {
        Self { of, groups, range, timeout, state: Mutex::new(State { seen, put: VecDeque::new() }) }
    }

    /// Waits for the next puts; `false` at the end of the feed.
    fn wait(&self, py: Python<'_>) -> PyResult<bool> {
        let seen = locked(&self.state).seen.clone();
        let (of, before) = (self.of.clone_ref(py), seen.clone());
        let until = self.timeout.map(|timeout| Instant::now() + timeout);
        let newer = with_progress(py, None, [], move |go_on| {
            let (of, is_early) = (of.get(), || until.is_none_or(|until| Instant::now() < until));
            let mut go_on = || of.reader_now().is_some() && go_on([]) && is_early();
            let newer = wait_for_newer(&seen, &mut go_on, || of.settings.open_reader()).or_raise()?;
            let Some(newer) = newer else { return Ok(None) };
            let heads = newer.put_since(&seen).or_raise()?;
            Ok(Some((newer, heads)))
        })?;
        let Some((newer, heads)) = newer else { return Ok(false) };
        let is_wanted = |head: &pack::RecordHead| {
            let group = newer.group_of_segment(head.segment);
            self.range.contains(&head.key) && pack::is_in_groups(&self.groups, group)
        };
        let keys: Vec<Key> = heads.into_iter().filter(is_wanted).map(|head| head.key).collect();
        let mut state = locked(&self.state);
        // Another thread may have come first; then the next wait starts from its state.
        if Arc::ptr_eq(&state.seen, &before) {
            state.put.extend(keys);
            state.seen = Arc::new(newer);
        }
        Ok(true)
    }
}

#[pymethods]
impl Follow {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        loop {
            let next = {
                let mut state = locked(&self.state);
                state.put.pop_front().map(|key| (key, state.seen.clone()))
            };
            match next {
                Some((key, seen)) => {
                    let record = py.detach(|| seen.get_file(&key)).or_raise()?;
                    if let Some(record) = record {
                        return Ok(Some(with_group(&seen, record)));
                    }
                }
                None if self.wait(py)? => {}
                None => return Ok(None),
            }
        }
    }
}
