//! A web server on a port of its own that answers as a test wants it to, wrongly too.
//!
//! ```
//! use stook_testing::web::{Page, Reply, WebServer};
//!
//! let page = Page::new(b"what it serves".to_vec());
//! // The first request fails.
//! let server = WebServer::start(move |request, nth| match nth {
//!     0 => Reply::status(503),
//!     _ => page.reply(request),
//! });
//! assert!(server.url("/page").starts_with("http://127.0.0.1:"));
//! assert_eq!(server.requests().len(), 0);
//! ```

mod date;
mod page;
mod server;

use std::time::Duration;

pub use page::Page;
pub use server::WebServer;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct WebRequest {
    /// `GET`.
    pub method: String,
    /// The request target: path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
}

impl WebRequest {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// The first byte that `Range: bytes=A-B` requests, and the one after the last.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse::<usize>().ok()? + 1))
    }
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With the last byte of its body.
    Whole,
    /// The connection is closed after this many bytes of the body.
    Closed(usize),
    /// The connection is reset after this many bytes of the body.
    Reset(usize),
    /// Nothing comes after this many bytes of the body, and the connection stays open.
    Stalled(usize),
    /// The server is gone for good after this many bytes of the body.
    Killed(usize),
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// `200`.
    pub status: u16,
    /// Without `Content-Length`, which is that of the body. A `Date` is added if there is none.
    pub headers: Vec<(String, String)>,
    /// The body that is sent.
    pub body: Vec<u8>,
    /// How long nothing happens before it.
    pub latency: Duration,
    /// How long nothing happens before each 1,000 bytes of the body.
    pub pause: Duration,
    /// How it ends.
    pub end: End,
}

impl Reply {
    /// An answer with only a status.
    pub fn status(status: u16) -> Self {
        let (latency, pause) = (Duration::ZERO, Duration::ZERO);
        Self { status, headers: Vec::new(), body: Vec::new(), latency, pause, end: End::Whole }
    }

    /// With this header, in place of one of this name.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Without this header.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(of, _)| !of.eq_ignore_ascii_case(name));
        self
    }

    /// With this body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Ending like this.
    #[must_use]
    pub fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// After this time.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// With this time before each 1,000 bytes.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }
}
