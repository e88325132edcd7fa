//! Sources whose bytes a function of Python gives.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use stook::extent::ByteRange;
use stook::source::remote::{self, RemoteOptions};
use stook::source::{
    Answer, Identity, Leaf, Object, Origin, Pending, Source, check_bounds, is_remote, shown,
};

use super::zero_copy;
use crate::memory::{Given, detach_if_long};

thread_local! {
    /// The functions that this thread is in.
    static CALLED: RefCell<Vec<Arc<Py<PyAny>>>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread is in this function of a file: what it then waited for might be what it is
/// to give.
pub(super) fn is_in(fetch: &Arc<Py<PyAny>>) -> bool {
    CALLED.with_borrow(|called| called.iter().any(|one| Arc::ptr_eq(one, fetch)))
}

/// Marks this thread as being in a function, until it is dropped.
struct InFetch;

impl InFetch {
    fn new(fetch: &Arc<Py<PyAny>>) -> Self {
        CALLED.with_borrow_mut(|called| called.push(fetch.clone()));
        Self
    }
}

impl Drop for InFetch {
    fn drop(&mut self) {
        // Let go outside: it may be the last, and what then runs may ask.
        let fetch = CALLED.with_borrow_mut(Vec::pop);
        drop(fetch);
    }
}

/// A source that asks a function.
#[derive(Debug)]
pub(super) struct FetchSource {
    object: Arc<FetchObject>,
    identity: Identity,
    origin: Origin,
}

#[derive(Debug)]
struct FetchObject {
    fetch: Arc<Py<PyAny>>,
    name: PathBuf,
}

impl FetchSource {
    /// `fetch(start, end)` gives the bytes of a range of what has this name, and of which `origin`
    /// says what else decides which bytes come.
    pub(super) fn new(
        fetch: Arc<Py<PyAny>>,
        name: &str,
        len: u64,
        identity: Option<&str>,
        origin: Option<&str>,
    ) -> Self {
        let address = is_remote(name).then(|| remote::origin_of(name, &RemoteOptions::default()).ok());
        let named = address.flatten().unwrap_or_else(|| Origin::new("name", shown(name)).with("name", name));
        let etag = identity.filter(|identity| !identity.is_empty()).map(Arc::from);
        Self {
            object: Arc::new(FetchObject { fetch, name: PathBuf::from(shown(name)) }),
            identity: Identity { len, etag, ..Identity::default() },
            origin: named.with("function", origin.unwrap_or_default()),
        }
    }
}

impl Source for FetchSource {
    fn path(&self) -> &Path {
        &self.object.name
    }

    fn len(&self) -> u64 {
        self.identity.len
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn origin(&self) -> Origin {
        self.origin.clone()
    }

    fn current_identity(&self) -> stook::Result<Identity> {
        Ok(self.identity())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> stook::Result<()> {
        check_bounds(self, range)?;
        if !range.is_empty() {
            leaves.push(Leaf::Object { object: self.object.clone(), range });
        }
        Ok(())
    }

    /// Whether the bytes are of the state that was meant is up to the function.
    fn checks_reads(&self) -> bool {
        true
    }
}

impl FetchObject {
    fn error(
        &self,
        range: ByteRange,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> stook::Error {
        stook::Error::io_at("fetch from", &self.name, range.start(), std::io::Error::other(cause))
    }

    /// Asks the function.
    fn ask(&self, py: Python<'_>, range: ByteRange) -> PyResult<Bytes> {
        let called = InFetch::new(&self.fetch);
        let given = self.fetch.bind(py).call1((range.start(), range.end()))?;
        drop(called);
        if given.is_exact_instance_of::<PyBytes>()
            && let Some(bytes) = zero_copy::shared(&given)?
        {
            return Ok(bytes);
        }
        let given = Given::new(&given)?;
        let bytes = given.as_slice();
        Ok(detach_if_long(py, bytes.len(), || Bytes::copy_from_slice(bytes)))
    }
}

impl Object for FetchObject {
    fn path(&self) -> &Path {
        &self.name
    }

    fn begin(&self, range: ByteRange, answer: Answer) -> Pending {
        // A new thread for each request: they wait side by side, for as long as the function takes,
        // and there are few.
        let object = Self { fetch: self.fetch.clone(), name: self.name.clone() };
        let ask = move || {
            let asked =
                Python::try_attach(|py| object.ask(py, range).map_err(|error| object.error(range, error)));
            answer.give(asked.unwrap_or_else(|| Err(object.error(range, "the interpreter is ending"))));
        };
        // Where there can be no thread, the answer is dropped with the work, which tells the one
        // who waits.
        let _ = std::thread::Builder::new().name("stook-fetch".into()).spawn(ask);
        Box::new(())
    }
}

/// The exception that a function raised, where that is what an error comes down to.
pub(super) fn raised(py: Python<'_>, error: &stook::Error) -> Option<PyErr> {
    let stook::Error::Io { source, .. } = error else { return None };
    let raised = source.get_ref()?.downcast_ref::<PyErr>()?;
    Some(raised.clone_ref(py))
}
