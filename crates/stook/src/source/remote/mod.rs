//! Objects on web servers and in object stores: S3, Google Cloud Storage, Azure.
//!
//! A [`RemoteSource`] is opened by its address and read like any other source. Its requests run on
//! one thread of the library's own, so the caller may be inside an asynchronous runtime, and each
//! response is compared with the object as it was when it was opened: there is never a mix of two
//! states of it. `docs/guide/remote.md` describes the settings, and what is retried.

mod failure;
mod options;
mod origin;
mod parsed;
mod process;
mod redirect;
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
use std::time::Instant;

use self::process::PerProcess;
use self::request::{Client, Probe};
use self::response::{Proof, State};
use self::whole::{Held, Whole};
use super::address::refused;
use super::object::{Answer, Object, Pending};
use super::redact::shown;
use super::{Identity, Leaf, Origin, SETTLING_MAX, Source, WholeRead, check_bounds, is_remote};
use crate::error::{Error, RemoteError, RemoteErrorKind, Result};
use crate::extent::ByteRange;

pub use options::RemoteOptions;
pub use statistics::RemoteStatistics;

/// An object that is read by range.
#[derive(Debug, Clone)]
pub struct RemoteSource {
    object: Arc<RemoteObject>,
    /// Its bytes, where it was read as a whole, and what that took.
    held: Option<(Held, WholeRead)>,
}

impl RemoteSource {
    /// Opens an object: `http://…`, `https://…`, `s3://bucket/key`, `gs://bucket/key` or
    /// `az://container/key`. This requests its first byte from the server, which shows its length
    /// and identity. If only the modification time would show a change, and it is less than two
    /// seconds ago by the server's clock, the request is repeated after that time.
    ///
    /// # Errors
    /// Returns [`Error::Address`] if the address or the settings are wrong, otherwise
    /// [`Error::Remote`].
    pub fn open(address: &str, options: &RemoteOptions) -> Result<Self> {
        if !is_remote(address) {
            return Err(refused(OsStr::new(address), "http, https, s3, gs or az belongs before `://`"));
        }
        let path = PathBuf::from(shown(address));
        options.check().map_err(|what| Error::Address { path: path.clone(), what })?;
        let ways =
            Ways { path, address: address.to_owned(), options: options.clone(), clients: PerProcess::new() };
        let Probe { state, has_len, has_ranges, proof } = ways.probe_settled()?;
        let origin = origin_of(address, options)?;
        let origin = match &state.target {
            Some(target) => origin.led_to(target),
            None => origin,
        };
        let is_proven = proof == Proof::Sure;
        let object = |ways, state| RemoteObject::new(ways, state, origin, is_proven);
        if has_ranges {
            return Ok(Self { object: object(ways, state), held: None });
        }
        if !options.whole_file {
            return Err(ways.cannot_be_parted());
        }
        let (held, len, took) = ways.read_whole(&state, has_len)?;
        // A server that does not know a length beforehand never says one.
        let state = if has_len { state } else { state.with_len(len) };
        Ok(Self { object: object(ways, state), held: Some((held, took)) })
    }

    /// Statistics of its requests in this process.
    pub fn statistics(&self) -> RemoteStatistics {
        let client = self.object.ways.clients.get();
        client.map_or_else(|| statistics::Counters::new().snapshot(), |client| client.counters.snapshot())
    }

    /// Whether it was read as a whole when it was opened.
    pub fn is_whole(&self) -> bool {
        self.held.is_some()
    }

    /// How the server identifies it now.
    fn current_state(&self) -> Result<State> {
        let Probe { state, has_len, .. } = self.object.ways.probe()?;
        Ok(if has_len { state } else { state.with_len(self.len()) })
    }
}

/// The origin of an object at an address, with these options and the settings of the environment:
/// for other readers of the same objects.
///
/// # Errors
/// Returns [`Error::Address`] if the address or the settings are wrong.
pub fn origin_of(address: &str, options: &RemoteOptions) -> Result<Origin> {
    origin::of(address, options).map_err(|what| refused(OsStr::new(address), what))
}

impl Source for RemoteSource {
    fn path(&self) -> &Path {
        &self.object.ways.path
    }

    fn len(&self) -> u64 {
        self.object.state.identity.len
    }

    fn identity(&self) -> Identity {
        self.object.state.identity.clone()
    }

    fn current_identity(&self) -> Result<Identity> {
        Ok(self.current_state()?.identity)
    }

    /// Where it was found counts, too.
    fn check_unchanged(&self) -> Result<()> {
        let now = self.current_state()?;
        if self.object.state.is_same(&now) {
            return Ok(());
        }
        Err(response::changed(self.path(), &self.object.state, &now))
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        if !range.is_empty() {
            leaves.push(match &self.held {
                Some((held, _)) => held.leaf(range),
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

    fn reads_by_request(&self) -> bool {
        self.held.is_none()
    }

    fn whole_read(&self) -> Option<WholeRead> {
        self.held.as_ref().map(|(_, took)| *took)
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

    /// The same, asked again while a change could leave it as it is: at most a few times, for one
    /// that keeps changing.
    fn probe_settled(&self) -> Result<Probe> {
        let mut probe = self.probe()?;
        for _ in 0..SETTLING_MAX {
            let Proof::After(wait) = probe.proof else { break };
            std::thread::sleep(wait);
            probe = self.probe()?;
        }
        Ok(probe)
    }

    /// Its bytes, their number, and the cost.
    fn read_whole(&self, state: &State, has_len: bool) -> Result<(Held, u64, WholeRead)> {
        let (client, state) = (self.client()?, state.clone());
        let (counting, begun) = (Arc::clone(&client), Instant::now());
        // Its state was requested before, and there are no other requests while it is opened.
        let before = counting.counters.snapshot();
        let mut whole = Whole::new(self.options.whole_file_memory);
        let whole = wait_for(async move {
            client.read_whole(&mut whole, &state, has_len).await?;
            Ok(whole)
        })?;
        let (len, after) = (whole.len(), counting.counters.snapshot());
        let (requests, bytes) = (after.requests - before.requests, after.bytes - before.bytes);
        let took = WholeRead { requests, bytes, time: begun.elapsed() };
        Ok((whole.finish(&self.path), len, took))
    }

    fn cannot_be_parted(&self) -> Error {
        let kind = RemoteErrorKind::NoRanges;
        let mut cause = response::NO_RANGES.to_owned();
        if self.path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            cause.push_str("; a directory that `stook serve` shows is one archive with `?as=tar` after it");
        }
        let path = self.path.clone();
        Error::Remote(Box::new(RemoteError { path, range: None, tries: 1, kind, cause }))
    }
}

/// Runs a task on the thread of the requests and waits for its result.
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
    state: Arc<State>,
    origin: Origin,
    is_proven: bool,
}

impl RemoteObject {
    fn new(ways: Ways, state: State, origin: Origin, is_proven: bool) -> Arc<Self> {
        Arc::new(Self { ways, state: Arc::new(state), origin, is_proven })
    }
}

impl Object for RemoteObject {
    fn path(&self) -> &Path {
        &self.ways.path
    }

    fn begin(&self, range: ByteRange, answer: Answer) -> Pending {
        let (client, state) = match self.ways.client() {
            Ok(client) => (client, Arc::clone(&self.state)),
            Err(error) => {
                answer.give(Err(error));
                return Box::new(());
            }
        };
        // If there can be no thread, the answer is dropped with the task, which fails the request.
        match runtime::spawn(async move { answer.give(client.read(range, &state).await) }) {
            Ok(task) => Box::new(task),
            Err(_) => Box::new(()),
        }
    }
}
