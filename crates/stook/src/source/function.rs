//! [`FunctionSource`]: bytes that a function gives, range by range.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::{Answer, Identity, Leaf, Object, Origin, Pending, Source, check_bounds, shown};
use crate::error::{Error, Result};
use crate::extent::ByteRange;

/// A function that gives the bytes of a range.
pub trait Fetch: Send + Sync + fmt::Debug {
    /// All bytes of a range. Called from threads of its own, several times at once; it may take as
    /// long as it likes.
    ///
    /// # Errors
    /// Whatever it meets: the error of the read that asked.
    fn fetch(&self, range: ByteRange) -> io::Result<Bytes>;
}

/// A source that calls a function. The function itself is responsible for the state that it reads.
#[derive(Debug)]
pub struct FunctionSource {
    object: Arc<FunctionObject>,
    identity: Identity,
    origin: Origin,
}

#[derive(Debug)]
struct FunctionObject {
    fetch: Arc<dyn Fetch>,
    name: PathBuf,
}

impl FunctionSource {
    /// A source of this length. `etag` distinguishes this state of it. `name`, and `origin` where
    /// the name alone does not decide which bytes come, are the cache key; messages show the name
    /// without secrets.
    pub fn new(
        fetch: Arc<dyn Fetch>,
        name: &str,
        len: u64,
        etag: Option<&str>,
        origin: Option<&str>,
    ) -> Self {
        let etag = etag.filter(|etag| !etag.is_empty()).map(Arc::from);
        Self {
            object: Arc::new(FunctionObject { fetch, name: PathBuf::from(shown(name)) }),
            identity: Identity { len, etag, ..Identity::default() },
            origin: origin_of(name).with("function", origin.unwrap_or_default()),
        }
    }
}

/// An address of an object has the origin of the object.
fn origin_of(name: &str) -> Origin {
    #[cfg(feature = "remote")]
    if super::is_remote(name)
        && let Ok(origin) = super::remote::origin_of(name, &super::remote::RemoteOptions::default())
    {
        return origin;
    }
    Origin::new("name", shown(name)).with("name", name)
}

impl Source for FunctionSource {
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

    fn current_identity(&self) -> Result<Identity> {
        Ok(self.identity())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        if !range.is_empty() {
            leaves.push(Leaf::Object { object: self.object.clone(), range });
        }
        Ok(())
    }

    fn checks_reads(&self) -> bool {
        true
    }
}

impl Object for FunctionObject {
    fn path(&self) -> &Path {
        &self.name
    }

    fn begin(&self, range: ByteRange, answer: Answer) -> Pending {
        // A thread for each request: there are few, and each blocks as long as the function takes.
        let (fetch, name) = (self.fetch.clone(), self.name.clone());
        let ask = move || {
            let fetched = fetch.fetch(range);
            answer.give(fetched.map_err(|error| Error::io_at("fetch from", &name, range.start(), error)));
        };
        // Where no thread can be spawned, dropping the answer fails the request.
        let _ = std::thread::Builder::new().name("stook-fetch".into()).spawn(ask);
        Box::new(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Access, Backend};
    use crate::source::{read_batch, read_object};

    #[derive(Debug)]
    struct Digits;

    impl Fetch for Digits {
        fn fetch(&self, range: ByteRange) -> io::Result<Bytes> {
            match range.start() {
                7.. => Err(io::Error::other("no seven")),
                start => Ok((start..range.end()).map(|at| b'0' + at as u8).collect::<Vec<u8>>().into()),
            }
        }
    }

    fn digits(name: &str, origin: Option<&str>) -> FunctionSource {
        FunctionSource::new(Arc::new(Digits), name, 10, None, origin)
    }

    #[test]
    fn ranges_come_from_the_function_and_so_do_errors() {
        let source = digits("https://user:secret@host/digits", None);
        let ranges = [ByteRange::at(5, 2).unwrap(), ByteRange::at(0, 3).unwrap()];
        let read = read_batch(&Backend::Auto, &source, &ranges, Access::Cached).unwrap();
        assert_eq!(read, [Bytes::from_static(b"56"), Bytes::from_static(b"012")]);
        let object: Arc<dyn Object> = source.object.clone();
        let error = read_object(&object, ByteRange::at(8, 1).unwrap()).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(error.io_kind(), Some(io::ErrorKind::Other));
    }

    #[test]
    fn who_asks_is_a_part_of_whose_bytes_they_are() {
        assert_eq!(digits("a", None).origin(), digits("a", None).origin());
        assert_ne!(digits("a", None).origin(), digits("b", None).origin());
        assert_ne!(digits("a", None).origin(), digits("a", Some("me")).origin());
    }
}
