//! `stook.Follow`: the change feed of a pack.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use stook::ops::follow::Feed;
use stook::pack::{self, KeyRange};

use super::pack::Pack;
use super::reading::with_group;
use super::record::Record;
use crate::errors::OrRaise as _;
use crate::wait::with_progress;

/// Records that are put into a pack from now on, each as a `Record`.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Follow {
    /// The feed ends when this is closed.
    of: Py<Pack>,
    feed: Arc<Feed>,
    timeout: Option<Duration>,
}

impl Follow {
    pub(super) fn new(
        of: Py<Pack>,
        seen: Arc<pack::Pack>,
        groups: Vec<String>,
        range: KeyRange,
        timeout: Option<Duration>,
    ) -> Self {
        Self { of, feed: Arc::new(Feed::new(seen, groups, range)), timeout }
    }

    /// Waits for the next puts; `false` at the end of the feed.
    fn wait(&self, py: Python<'_>) -> PyResult<bool> {
        let (of, feed) = (self.of.clone_ref(py), self.feed.clone());
        let until = self.timeout.map(|timeout| Instant::now() + timeout);
        with_progress(py, None, [], move |go_on| {
            let (of, is_early) = (of.get(), || until.is_none_or(|until| Instant::now() < until));
            let mut go_on = || !of.session.is_closed() && go_on([]) && is_early();
            feed.wait(&mut go_on, || of.session.settings().open_reader()).or_raise()
        })
    }
}

#[pymethods]
impl Follow {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __repr__(&self) -> String {
        format!("<stook.Follow of {}>", self.of.get().session.settings().path.display())
    }

    /// In asyncio each of these waits in a thread of its own, however long that is.
    fn __aiter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("stook._aio")?.getattr("Followed")?.call1((slf,))
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        loop {
            match py.detach(|| self.feed.next_put()).or_raise()? {
                Some((seen, record)) => return Ok(Some(with_group(&seen, record))),
                None if self.wait(py)? => {}
                None => return Ok(None),
            }
        }
    }
}
