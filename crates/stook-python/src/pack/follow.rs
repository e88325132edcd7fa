//! `stook.Follow`: records as they are put.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use stook::ops::follow::wait_for_newer;
use stook::pack::{self, Key, KeyRange};

use super::open::Settings;
use super::pack::Pack;
use super::reading::with_group;
use super::record::Record;
use crate::errors::OrRaise as _;
use crate::wait::interruptible;

/// Records that are put into a pack from now on, each as a `Record`.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Follow {
    /// It ends when this is closed.
    of: Py<Pack>,
    settings: Settings,
    groups: Vec<String>,
    range: KeyRange,
    timeout: Option<Duration>,
    state: Mutex<State>,
}

/// How far it has come.
struct State {
    seen: Arc<pack::Pack>,
    /// Keys that were put, and were not handed out yet.
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
        let settings = of.get().settings.clone();
        Self { of, settings, groups, range, timeout, state: Mutex::new(State { seen, put: VecDeque::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for what is put next; whether there is to be more.
    fn wait(&self, py: Python<'_>) -> PyResult<bool> {
        let (seen, settings) = (self.lock().seen.clone(), self.settings.clone());
        let (of, before) = (self.of.clone_ref(py), seen.clone());
        let until = self.timeout.map(|timeout| Instant::now() + timeout);
        // A signal ends the wait, and with it what waits on the other thread.
        let wanted = Arc::new(());
        let waiting = Arc::downgrade(&wanted);
        let newer = interruptible(py, move || -> pack::Result<_> {
            let mut go_on = || {
                let is_open = of.get().reader_now().is_some();
                is_open && waiting.strong_count() > 0 && until.is_none_or(|until| Instant::now() < until)
            };
            let newer = wait_for_newer(&seen, &mut go_on, || settings.open_reader())?;
            let Some(newer) = newer else { return Ok(None) };
            let heads = newer.put_since(&seen)?;
            Ok(Some((newer, heads)))
        })?;
        drop(wanted);
        let Some((newer, heads)) = newer.or_raise()? else { return Ok(false) };
        let is_wanted = |head: &pack::RecordHead| {
            let group = newer.group_of_segment(head.segment);
            self.range.contains(&head.key)
                && (self.groups.is_empty() || self.groups.iter().any(|wanted| wanted == group))
        };
        let keys: Vec<Key> = heads.into_iter().filter(is_wanted).map(|head| head.key).collect();
        let mut state = self.lock();
        // Another thread may have come first: what is newer than its state is found next.
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
                let mut state = self.lock();
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
