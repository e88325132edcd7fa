//! [`State`]: what distinguishes one state of a body from another, as HTTP has it.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stook::source::{Identity, Source};

/// The validators of a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// A strong ETag with its quotes: two bodies with the same are the same, byte by byte.
    pub(crate) etag: Option<String>,
    /// The second in which it was modified.
    pub(crate) modified: Option<SystemTime>,
}

impl State {
    /// That of a source, which is known under a path. There is an ETag only where its identity is a
    /// proof.
    pub(crate) fn of(source: &dyn Source, path: &[u8], mtime_ns: Option<i64>) -> Self {
        let mut hash = Tag::new("file");
        hash.bytes(path);
        let identity = source.identity();
        let modified = mtime_ns.or(Some(identity.mtime_ns).filter(|ns| *ns != 0)).and_then(second_of);
        hash.identity(&identity);
        Self { etag: source.is_proven().then(|| hash.finish()), modified }
    }
}

/// The second that a time is in, if it has passed and is after 1970.
fn second_of(ns: i64) -> Option<SystemTime> {
    let seconds = u64::try_from(ns.div_euclid(1_000_000_000)).ok()?;
    let second = UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
    (second <= SystemTime::now()).then_some(second)
}

/// Makes an ETag of facts.
pub(crate) struct Tag(blake3::Hasher);

impl Tag {
    pub(crate) fn new(kind: &str) -> Self {
        let mut tag = Self(blake3::Hasher::new());
        tag.bytes(kind.as_bytes());
        tag
    }

    /// With the length before them, so that no two lists of facts have the same bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    fn identity(&mut self, identity: &Identity) {
        let Identity { len, device, inode, mtime_ns, ctime_ns, etag, version } = identity;
        let times = [mtime_ns.cast_unsigned(), ctime_ns.cast_unsigned()];
        [*len, *device, *inode].into_iter().chain(times).for_each(|number| self.number(number));
        for text in [etag, version] {
            self.bytes(text.as_deref().unwrap_or_default().as_bytes());
        }
    }

    /// The ETag.
    pub(crate) fn finish(self) -> String {
        let mut etag = String::from("\"");
        for byte in self.0.finalize().as_bytes().iter().take(16) {
            let written = write!(etag, "{byte:02x}");
            debug_assert!(written.is_ok(), "writing into a String does not fail");
        }
        etag.push('"');
        etag
    }
}
