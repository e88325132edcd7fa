//! [`Sink`]: where bytes go that are encoded, or where only their number is wanted.
//!
//! What lays out an archive asks how long each header will be, long before it is made: one function
//! says both.

/// Takes bytes, one after another.
pub(super) trait Sink {
    /// The next bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// How many bytes came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Length(pub(super) usize);

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.0 = self.0.saturating_add(bytes.len());
    }
}
