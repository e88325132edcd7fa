//! One range of an object, with all the tries it takes.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use object_store::client::HttpResponseBody;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::failure::{Failure, chain};
use super::options::RemoteOptions;
use super::response::{self, Head, Proof, State};
use super::statistics::Counters;
use super::transport::{ServerAnswer, Transport};
use super::tries::Tries;
use crate::error::{Error, RemoteErrorKind, Result};
use crate::extent::ByteRange;

/// How much of the body of a refusal is read, to find its code.
const REFUSAL_BYTES: usize = 16 << 10;

/// The client of one process for one object.
#[derive(Debug)]
pub(super) struct Client {
    path: PathBuf,
    transport: Transport,
    options: RemoteOptions,
    permits: Semaphore,
    pub(super) counters: Counters,
}

/// What a server says about an object.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) state: State,
    /// Whether it said how long it is; else the length is 0.
    pub(super) has_len: bool,
    /// Whether it sends parts.
    pub(super) has_ranges: bool,
    /// Whether another state could have the same identity.
    pub(super) proof: Proof,
}

/// An answer that is 200 or 206.
struct Accepted {
    head: Head,
    body: HttpResponseBody,
}

impl Client {
    pub(super) fn new(path: PathBuf, address: &str, options: &RemoteOptions) -> Result<Arc<Self>> {
        let transport = match Transport::new(address, options) {
            Ok(transport) => transport,
            Err(what) => return Err(Error::Address { path, what }),
        };
        let permits = Semaphore::new(options.requests.clamp(1, Semaphore::MAX_PERMITS));
        let options = options.clone();
        Ok(Arc::new(Self { path, transport, options, permits, counters: Counters::new() }))
    }

    /// The bytes of a range of the object as it was.
    pub(super) async fn read(&self, range: ByteRange, before: &State) -> Result<Bytes> {
        // It is never closed.
        let _permit = self.permits.acquire().await;
        let mut got = BytesMut::with_capacity(usize::try_from(range.len()).unwrap_or(0));
        let mut tries = self.tries(Some(range), Some(self.options.deadline));
        loop {
            match tries.attempt(self.fetch(range, before, &mut got)).await {
                Ok(()) => return Ok(got.freeze()),
                Err(failure) => self.go_on(&mut tries, failure, before).await?,
            }
        }
    }

    /// What the server says about the object now.
    pub(super) async fn probe(&self) -> Result<Probe> {
        let mut tries = self.tries(None, Some(self.options.deadline));
        loop {
            let failure = match tries.attempt(self.ask()).await {
                Ok(probe) => return Ok(probe),
                Err(Failure::Doubtful(said)) => Failure::Final(RemoteErrorKind::Refused, said),
                Err(failure) => failure,
            };
            self.pause(&mut tries, failure).await?;
        }
    }

    /// Reads the object as a whole, from the front for each try. `has_len` says that the server had
    /// given the length of `before`.
    pub(super) async fn read_whole(&self, sink: &mut dyn Sink, before: &State, has_len: bool) -> Result<()> {
        let _permit = self.permits.acquire().await;
        let mut tries = self.tries(None, None);
        loop {
            match tries.attempt(self.fetch_whole(sink, before, has_len)).await {
                Ok(()) => return Ok(()),
                Err(failure) => self.go_on(&mut tries, failure, before).await?,
            }
        }
    }

    fn tries(&self, range: Option<ByteRange>, deadline: Option<Duration>) -> Tries {
        Tries::new(self.path.clone(), range, &self.options, deadline)
    }

    /// Waits for the next try, unless the failure is final.
    async fn go_on(&self, tries: &mut Tries, failure: Failure, before: &State) -> Result<()> {
        let failure = match failure {
            Failure::Doubtful(said) => {
                let now = Box::pin(self.probe()).await?.state;
                if before.is_same(&now) {
                    Failure::protocol(format!("{said}, though the object is what it was"))
                } else {
                    Failure::Changed(Box::new(now))
                }
            }
            failure => failure,
        };
        match failure {
            Failure::Changed(after) => Err(response::changed(&self.path, before, &after)),
            failure => self.pause(tries, failure).await,
        }
    }

    async fn pause(&self, tries: &mut Tries, failure: Failure) -> Result<()> {
        let wait = tries.wait_after(failure)?;
        tokio::time::sleep(wait).await;
        self.counters.retry();
        Ok(())
    }

    /// Fetches the missing part of a range.
    async fn fetch(&self, range: ByteRange, before: &State, got: &mut BytesMut) -> Result<(), Failure> {
        let begun = Instant::now();
        let from = range.start() + got.len() as u64;
        let missing = ByteRange::new(from, range.end()).unwrap_or_default();
        let answer = self.send(Some(missing), before.identity.strong_etag()).await?;
        response::check(&answer.head, missing, before)?;
        let (mut body, mut left) = (answer.body, missing.len());
        while let Some(bytes) = self.frame(&mut body).await? {
            left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
                Failure::protocol(format!("the server sent more than the {} bytes asked for", missing.len()))
            })?;
            got.extend_from_slice(&bytes);
        }
        if left > 0 {
            let (end, len) = (missing.len() - left, missing.len());
            return Err(Failure::passing(format!("the body ended after {end} of {len} bytes")));
        }
        self.counters.latency(begun.elapsed());
        Ok(())
    }

    async fn fetch_whole(&self, sink: &mut dyn Sink, before: &State, has_len: bool) -> Result<(), Failure> {
        let begun = Instant::now();
        let local = |error: Error| Failure::Local(error);
        sink.restart().map_err(local)?;
        let answer = self.send(None, before.identity.strong_etag()).await?;
        response::check_encoding(&answer.head.headers)?;
        let promised = response::content_length(&answer.head.headers);
        let now = answer.head.state(promised.unwrap_or(before.identity.len));
        if !before.is_same(&now) {
            return Err(Failure::Changed(Box::new(now)));
        }
        let expected = has_len.then_some(before.identity.len).or(promised);
        let (mut body, mut len) = (answer.body, 0);
        while let Some(bytes) = self.frame(&mut body).await? {
            len += bytes.len() as u64;
            // What is more than the server said is counted and not kept.
            if expected.is_none_or(|expected| len <= expected) {
                sink.write(&bytes).map_err(local)?;
            }
        }
        match expected {
            Some(expected) if len < expected => {
                return Err(Failure::passing(format!("the body ended after {len} of {expected} bytes")));
            }
            Some(expected) if len > expected => return Err(Failure::Changed(Box::new(now.with_len(len)))),
            _ => {}
        }
        self.counters.latency(begun.elapsed());
        Ok(())
    }

    /// Requests the first byte, which shows the length, and whether ranges are supported.
    async fn ask(&self) -> Result<Probe, Failure> {
        let first = ByteRange::to(1);
        let begun = Instant::now();
        let mut answer = match self.send(Some(first), None).await {
            // An empty object has no first byte.
            Err(Failure::Doubtful(_)) => self.send(None, None).await?,
            answer => answer?,
        };
        let head = &answer.head;
        response::check_encoding(&head.headers)?;
        if head.status == StatusCode::PARTIAL_CONTENT {
            let sent = response::content_range(&head.headers)?;
            response::check_range(sent.range, first)?;
            // Read to its end, the connection can be used again.
            while self.frame(&mut answer.body).await?.is_some() {}
            self.counters.latency(begun.elapsed());
            return Ok(self.probe_of(head, Some(sent.total), true));
        }
        let len = response::content_length(&head.headers);
        Ok(self.probe_of(head, len, len == Some(0)))
    }

    fn probe_of(&self, head: &Head, len: Option<u64>, has_ranges: bool) -> Probe {
        let state = head.state(len.unwrap_or(0));
        let proof = response::proof(&head.headers, &state.identity, self.transport.is_store());
        Probe { state, has_len: len.is_some(), has_ranges, proof }
    }

    /// Sends a request, and takes the head of its answer.
    async fn send(&self, range: Option<ByteRange>, if_match: Option<&str>) -> Result<Accepted, Failure> {
        self.counters.request();
        let ServerAnswer { response, target } =
            self.in_time("an answer", self.transport.get(range, if_match)).await??;
        let (head, mut body) = response.into_parts();
        let status = head.status;
        if status == StatusCode::PARTIAL_CONTENT && range.is_none() {
            let failure = Failure::protocol("the server sent a part (206) where the whole was asked for");
            return Err(failure.found_at(target.as_ref()));
        }
        if status == StatusCode::OK || status == StatusCode::PARTIAL_CONTENT {
            let is_of_store = self.transport.is_store();
            return Ok(Accepted { head: Head { status, headers: head.headers, target, is_of_store }, body });
        }
        let code = self.code(&mut body).await;
        Err(response::refusal(status, &head.headers, code.as_deref()).found_at(target.as_ref()))
    }

    /// The next bytes of a body.
    async fn frame(&self, body: &mut HttpResponseBody) -> Result<Option<Bytes>, Failure> {
        loop {
            let Some(frame) = self.in_time("the next bytes", body.frame()).await? else { return Ok(None) };
            let broken = |error| Failure::passing(format!("the body broke: {}", chain(&error)));
            if let Ok(bytes) = frame.map_err(broken)?.into_data() {
                self.counters.bytes(bytes.len());
                return Ok(Some(bytes));
            }
        }
    }

    /// The error code in the body of a refusal, as object stores send it; nothing else of such a
    /// body is shown, because it may contain what was signed.
    async fn code(&self, body: &mut HttpResponseBody) -> Option<String> {
        let mut bytes = Vec::new();
        while let Ok(Some(more)) = self.frame(body).await {
            bytes.extend_from_slice(&more);
            if bytes.len() >= REFUSAL_BYTES {
                break;
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let (code, _) = text.split_once("<Code>")?.1.split_once("</Code>")?;
        let is_plain = code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric());
        is_plain.then(|| code.to_owned())
    }

    async fn in_time<T>(&self, what: &str, future: impl Future<Output = T>) -> Result<T, Failure> {
        let stall = self.options.stall;
        let late = |_| Failure::passing(format!("the server did not send {what} for {stall:?}"));
        timeout(stall, future).await.map_err(late)
    }
}

/// Takes an object that is read as a whole.
pub(super) trait Sink: Send {
    /// Discards the written bytes.
    fn restart(&mut self) -> Result<()>;
    /// Takes the next bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
}
