//! Objects on web servers and in object stores: S3, Google Cloud Storage, Azure.
//!
//! A [`RemoteSource`] is opened by its address and read like any other source. Its requests run on one thread of the
//! library's own, so the caller may be inside an asynchronous runtime, and each answer is held against what the
//! object was when it was opened: there is never a mix of two states of it. `docs/guide/remote.md` tells what can be
//! set, and what is tried again.

mod failure;
mod options;
mod origin;
mod process;
mod request;
mod response;
mod runtime;
mod statistics;
mod transport;
mod tries;
mod whole;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;

use self::process::PerProcess;
use self::request::{Client, Probe};
use self::response::Proof;
use self::whole::{Held, Whole};
use super::address::{refused, shown};
use super::object::{Answer, Object, Pending};
use super::{Identity, Leaf, Origin, SETTLING_MAX, Source, check_bounds, is_remote};
use crate::error::{Error, RemoteError, RemoteErrorKind, Result};
use crate::extent::ByteRange;

pub use options::RemoteOptions;
pub use statistics::RemoteStatistics;

/// An object that is read by range.
#[derive(Debug, Clone)]
pub struct RemoteSource {
    object: Arc<RemoteObject>,
    /// Its bytes, where it was read as a whole.
    held: Option<Held>,
}

impl RemoteSource {
    /// Opens an object: `http://…`, `https://…`, `s3://bucket/key`, `gs://bucket/key` or `az://container/key`. This
    /// asks the server for its first byte, which tells its length and identity. Where a change could be told by nothing but
    /// the time of the last one, and that was less than two seconds ago by the server's clock, it is asked again after them.
    ///
    /// # Errors
    /// [`Error::Address`] when the address or the settings are wrong, else [`Error::Remote`].
    pub fn open(address: &str, options: &RemoteOptions) -> Result<Self> {
        if !is_remote(address) {
            return Err(refused(OsStr::new(address), "http, https, s3, gs or az belongs before `://`"));
        }
        let path = PathBuf::from(shown(address));
        options.check().map_err(|what| Error::Address { path: path.clone(), what })?;
        let ways =
            Ways { path, address: address.to_owned(), options: options.clone(), clients: PerProcess::new() };
        let Probe { identity, has_len, has_ranges, proof } = ways.probe_settled()?;
        let origin = origin_of(address, options)?;
        let is_proven = proof == Proof::Sure;
        let object = |ways, identity| RemoteObject::new(ways, identity, origin, is_proven);
        if has_ranges {
            return Ok(Self { object: object(ways, identity), held: None });
        }
        if !options.whole_file {
            return Err(ways.cannot_be_parted());
        }
        let (held, len) = ways.read_whole(&identity)?;
        // A server that does not know a length beforehand never says one.
        let identity = if has_len { identity } else { Identity { len, ..identity } };
        Ok(Self { object: object(ways, identity), held: Some(held) })
    }

    /// What its requests came to, in this process.
    pub fn statistics(&self) -> RemoteStatistics {
        let client = self.object.ways.clients.get();
        client.map_or_else(|| statistics::Counters::new().snapshot(), |client| client.counters.snapshot())
    }

    /// Whether it was read as a whole when it was opened.
    pub fn is_whole(&self) -> bool {
        self.held.is_some()
    }
}

/// Whose bytes an address of an object gives, with these options and the settings of the environment: for others that read
/// the same objects.
///
/// # Errors
/// [`Error::Address`] when the address or the settings are wrong.
pub fn origin_of(address: &str, options: &RemoteOptions) -> Result<Origin> {
    origin::of(address, options).map_err(|what| refused(OsStr::new(address), what))
}

impl Source for RemoteSource {
    fn path(&self) -> &Path {
        &self.object.ways.path
    }

    fn len(&self) -> u64 {
        self.object.identity.len
    }

    fn identity(&self) -> Identity {
        Identity::clone(&self.object.identity)
    }

    fn current_identity(&self) -> Result<Identity> {
        let now = self.object.ways.probe()?;
        let len = if now.has_len { now.identity.len } else { self.len() };
        Ok(Identity { len, ..now.identity })
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        if !range.is_empty() {
            leaves.push(match &self.held {
                Some(held) => held.leaf(range),
                None => Leaf::Object { object: Arc::clone(&self.object) as Arc<dyn Object>, range },
            });
        }
        Ok(())
    }

    fn origin(&self) -> Origin {
        self.object.origin.clone()
    }

    fn is_proven(&self) -> bool {
        self.object.is_proven
    }

    fn checks_reads(&self) -> bool {
        true
    }
}

/// How an object is reached, by this process and by its forked children.
struct Ways {
    /// Its address without secrets.
    path: PathBuf,
    /// Its address.
    address: String,
    options: RemoteOptions,
    clients: PerProcess<Arc<Client>>,
}

/// Without the address, which may hold secrets.
impl fmt::Debug for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ways")
            .field("path", &self.path)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Ways {
    fn client(&self) -> Result<Arc<Client>> {
        self.clients.get_or_try_init(|| Client::new(self.path.clone(), &self.address, &self.options)).cloned()
    }

    fn probe(&self) -> Result<Probe> {
        let client = self.client()?;
        wait_for(async move { client.probe().await })
    }

    /// The same, asked again while a change could leave it as it is: at most a few times, for one that goes on changing.
    fn probe_settled(&self) -> Result<Probe> {
        let mut probe = self.probe()?;
        for _ in 0..SETTLING_MAX {
            let Proof::After(wait) = probe.proof else { break };
            std::thread::sleep(wait);
            probe = self.probe()?;
        }
        Ok(probe)
    }

    fn read_whole(&self, identity: &Identity) -> Result<(Held, u64)> {
        let (client, identity) = (self.client()?, identity.clone());
        let mut whole = Whole::new(self.options.whole_file_memory);
        let whole = wait_for(async move {
            client.read_whole(&mut whole, &identity).await?;
            Ok(whole)
        })?;
        let len = whole.len();
        Ok((whole.finish(&self.path), len))
    }

    fn cannot_be_parted(&self) -> Error {
        let kind = RemoteErrorKind::NoRanges;
        let cause = response::NO_RANGES.into();
        let path = self.path.clone();
        Error::Remote(Box::new(RemoteError { path, range: None, tries: 1, kind, cause }))
    }
}

/// Runs a task on the thread of the requests and waits for what it gives.
fn wait_for<T: Send + 'static>(task: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let (sender, receiver) = channel();
    let _task = runtime::spawn(async move {
        // Who asked waits below.
        let _ = sender.send(task.await);
    })
    .map_err(no_thread)?;
    receiver.recv().unwrap_or_else(|_| Err(no_thread(std::io::ErrorKind::BrokenPipe.into())))
}

fn no_thread(error: std::io::Error) -> Error {
    Error::io("use", "the thread for requests", error)
}

/// What leaves of a [`RemoteSource`] are ranges of.
#[derive(Debug)]
struct RemoteObject {
    ways: Ways,
    identity: Arc<Identity>,
    origin: Origin,
    is_proven: bool,
}

impl RemoteObject {
    fn new(ways: Ways, identity: Identity, origin: Origin, is_proven: bool) -> Arc<Self> {
        Arc::new(Self { ways, identity: Arc::new(identity), origin, is_proven })
    }
}

impl Object for RemoteObject {
    fn path(&self) -> &Path {
        &self.ways.path
    }

    fn begin(&self, range: ByteRange, answer: Answer) -> Pending {
        let (client, identity) = match self.ways.client() {
            Ok(client) => (client, Arc::clone(&self.identity)),
            Err(error) => {
                answer.give(Err(error));
                return Box::new(());
            }
        };
        // Where there can be no thread, the answer is dropped with the task, which tells the one who waits.
        match runtime::spawn(async move { answer.give(client.read(range, &identity).await) }) {
            Ok(task) => Box::new(task),
            Err(_) => Box::new(()),
        }
    }
}
