//! The responses of a well-behaved server for a file.

use super::{Reply, WebRequest};

/// A file as a server that knows ranges and conditions serves it.
#[derive(Debug, Clone)]
pub struct Page {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its ETag, quotes included.
    pub etag: Option<String>,
    /// `Wed, 21 Oct 2015 07:28:00 GMT`.
    pub modified: Option<String>,
}

impl Page {
    /// These bytes, with an ETag and a time.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            etag: Some("\"first\"".into()),
            modified: Some("Wed, 21 Oct 2015 07:28:00 GMT".into()),
        }
    }

    /// With another ETag, or none.
    #[must_use]
    pub fn etag(mut self, etag: Option<&str>) -> Self {
        self.etag = etag.map(str::to_owned);
        self
    }

    /// With another time, or none.
    #[must_use]
    pub fn modified(mut self, modified: Option<&str>) -> Self {
        self.modified = modified.map(str::to_owned);
        self
    }

    /// The answer to a request.
    pub fn reply(&self, request: &WebRequest) -> Reply {
        let wanted = request.header("if-match");
        // A weak ETag is equal to none, itself included.
        let strong = self.etag.as_deref().filter(|etag| !etag.starts_with("W/"));
        if wanted.is_some() && wanted != strong {
            return self.head(412);
        }
        let len = self.bytes.len();
        match request.range() {
            None => self.whole(),
            Some((first, _)) if first >= len => {
                self.head(416).header("Content-Range", format!("bytes */{len}"))
            }
            Some((first, end)) => {
                let end = end.min(len);
                let range = format!("bytes {first}-{}/{len}", end - 1);
                self.head(206).header("Content-Range", range).body(&self.bytes[first..end])
            }
        }
    }

    /// The answer of a server that does not know ranges.
    pub fn whole(&self) -> Reply {
        self.head(200).body(self.bytes.clone())
    }

    fn head(&self, status: u16) -> Reply {
        let mut reply = Reply::status(status);
        if let Some(etag) = &self.etag {
            reply = reply.header("ETag", etag);
        }
        if let Some(modified) = &self.modified {
            reply = reply.header("Last-Modified", modified);
        }
        reply
    }
}
