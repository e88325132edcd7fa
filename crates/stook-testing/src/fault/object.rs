//! An object whose requests are answered by threads, late, wrongly or never, as is wanted.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;
use stook::extent::ByteRange;
use stook::source::{Answer, Identity, Leaf, Object, Pending, Source, check_bounds};
use stook::{Error, Result};

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFault {
    /// It fails.
    Fails,
    /// A byte is missing.
    Short,
    /// The request is dropped without an answer.
    Dropped,
}

/// Bytes that are only given out by request.
#[derive(Debug)]
pub struct TestObject {
    bytes: Bytes,
    fault: Option<(usize, ObjectFault)>,
    begun: AtomicUsize,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
    longest: AtomicUsize,
}

impl TestObject {
    /// These bytes; the `nth` request (from 0) meets a fault.
    pub fn new(bytes: impl Into<Bytes>, fault: Option<(usize, ObjectFault)>) -> Arc<Self> {
        Arc::new(Self {
            bytes: bytes.into(),
            fault,
            begun: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
            longest: AtomicUsize::new(0),
        })
    }

    /// How many requests were begun.
    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// How many were under way at once, at most: between being begun and being done with.
    pub fn most_under_way(&self) -> usize {
        self.most_under_way.load(Ordering::SeqCst)
    }

    /// How many are under way now.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }

    /// The longest requested range.
    pub fn longest(&self) -> usize {
        self.longest.load(Ordering::SeqCst)
    }
}

/// Counts a request that is done with, or called off.
struct UnderWay(Arc<TestObject>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The source of a [`TestObject`].
#[derive(Debug, Clone)]
pub struct ObjectSource(pub Arc<TestObject>);

/// The object as sources hand it out, which can be counted.
#[derive(Debug)]
struct Shared(Arc<TestObject>);

impl Object for Shared {
    fn path(&self) -> &Path {
        Path::new("object")
    }

    fn begin(&self, range: ByteRange, answer: Answer) -> Pending {
        let object = &self.0;
        let nth = object.begun.fetch_add(1, Ordering::SeqCst);
        let now = object.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        object.most_under_way.fetch_max(now, Ordering::SeqCst);
        object.longest.fetch_max(range.len() as usize, Ordering::SeqCst);
        let mut bytes = object.bytes.slice(range.start() as usize..range.end() as usize);
        let fault = object.fault.filter(|(at, _)| *at == nth).map(|(_, fault)| fault);
        thread::spawn(move || match fault {
            Some(ObjectFault::Dropped) => drop(answer),
            Some(ObjectFault::Fails) => {
                let error = std::io::ErrorKind::ConnectionReset.into();
                answer.give(Err(Error::io_at("read", "object", range.start(), error)));
            }
            Some(ObjectFault::Short) => answer.give(Ok(bytes.split_to(bytes.len() - 1))),
            None => answer.give(Ok(bytes)),
        });
        Box::new(UnderWay(Arc::clone(object)))
    }
}

impl Source for ObjectSource {
    fn path(&self) -> &Path {
        Path::new("object")
    }

    fn len(&self) -> u64 {
        self.0.bytes.len() as u64
    }

    fn identity(&self) -> Identity {
        Identity { len: self.len(), etag: Some("\"test\"".into()), ..Identity::default() }
    }

    fn current_identity(&self) -> Result<Identity> {
        Ok(self.identity())
    }

    fn reads_by_request(&self) -> bool {
        true
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        if !range.is_empty() {
            leaves.push(Leaf::Object { object: Arc::new(Shared(Arc::clone(&self.0))), range });
        }
        Ok(())
    }
}
