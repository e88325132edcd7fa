//! Sources that are read through a Python function.

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
    /// The fetch functions that this thread is currently in.
    static CALLED: RefCell<Vec<Arc<Py<PyAny>>>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread is inside this fetch function: a read of the same file might then wait for
/// itself.
pub(super) fn is_in(fetch: &Arc<Py<PyAny>>) -> bool {
    CALLED.with_borrow(|called| called.iter().any(|one| Arc::ptr_eq(one, fetch)))
}

/// Marks this thread as being inside a fetch function until it is dropped.
struct InFetch;

impl InFetch {
    fn new(fetch: &Arc<Py<PyAny>>) -> Self {
        CALLED.with_borrow_mut(|called| called.push(fetch.clone()));
        Self
    }
}

impl Drop for InFetch {
    fn drop(&mut self) {
        // Dropped outside the borrow: if it is the last reference, finalizers may come here.
        let fetch = CALLED.with_borrow_mut(Vec::pop);
        drop(fetch);
    }
}

/// A source that calls a function.
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
    /// `fetch(start, end)` returns the bytes of a range. `name`, and `origin` where the name alone
    /// does not decide which bytes come, are the cache key.
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

    /// The function itself is responsible for the state that it reads.
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

    /// Calls the function.
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
        // A thread for each request: there are few, and each blocks as long as the function takes.
        let object = Self { fetch: self.fetch.clone(), name: self.name.clone() };
        let ask = move || {
            let asked =
                Python::try_attach(|py| object.ask(py, range).map_err(|error| object.error(range, error)));
            answer.give(asked.unwrap_or_else(|| Err(object.error(range, "the interpreter is ending"))));
        };
        // Where no thread can be spawned, dropping the answer fails the request.
        let _ = std::thread::Builder::new().name("stook-fetch".into()).spawn(ask);
        Box::new(())
    }
}

/// The exception of the function that caused an error, if one did.
pub(super) fn raised(py: Python<'_>, error: &stook::Error) -> Option<PyErr> {
    let stook::Error::Io { source, .. } = error else { return None };
    let raised = source.get_ref()?.downcast_ref::<PyErr>()?;
    Some(raised.clone_ref(py))
}
