//! [`Check`]: bytes that are verified on their way.

use std::fmt;
use std::path::Path;

use bytes::Bytes;

use super::Leaf;
use crate::error::{Error, Result};

/// The implementation of a [`Leaf::Checked`]: bytes that are not visible before they are verified.
///
/// The reader of such a leaf reads all of [`leaves`](Self::leaves), concatenates their bytes, and
/// passes them to [`verify`](Self::verify). A source makes each leaf only as long as needed: a
/// session reads it as a whole.
pub trait Check: Send + Sync + fmt::Debug {
    /// What to call it in messages.
    fn path(&self) -> &Path;

    /// The leaves to read: whole chunks, and the checksums that are not known yet.
    fn leaves(&self) -> &[Leaf];

    /// Verifies the bytes of these leaves, and cuts out the wanted ones.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if it is damaged.
    fn verify(&self, read: Bytes) -> Result<Bytes>;
}

/// The `len` bytes of a checked leaf, from the bytes of its leaves.
pub(crate) fn verified(check: &dyn Check, read: Bytes, len: u64) -> Result<Bytes> {
    let bytes = check.verify(read)?;
    let got = bytes.len() as u64;
    if got == len {
        return Ok(bytes);
    }
    let path = check.path().to_path_buf();
    Err(match got < len {
        true => Error::ShortRead { path, offset: 0, wanted: len, got },
        false => Error::LongRead { path, offset: 0, wanted: len, got },
    })
}
