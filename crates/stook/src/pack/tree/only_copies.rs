//! Records that may be the only copy of a file: files were moved into the pack from another tree.
//!
//! A file of this tree that has the same path is another one, and does not take their place unless
//! the caller says so. What has the same content loses nothing.

use super::packing::{Abort, Packing};
use super::records::OpenedFile;
use crate::pack::error::Error;
use crate::pack::format::attributes::FileKind;
use crate::pack::key::Key;

/// What is said of a file that does not take the place of what may be the only copy of another.
pub(crate) fn refusal() -> Error {
    Error::Invalid(
        "the pack has another file under this path that was moved into it from elsewhere, and may be its only \
         copy: make another pack, rename the file, or have it replaced (`stook pack --force`)"
            .into(),
    )
}

/// Whether a record of this kind has content that is lost when another takes its place. A hard
/// link has none of its own.
pub(crate) fn has_content(kind: Option<FileKind>) -> bool {
    matches!(kind, Some(FileKind::File | FileKind::Symlink))
}

impl Packing<'_, '_> {
    /// Why an entry with these bytes may not be put, if it may not.
    pub(super) fn refuses(&self, key: &[u8], kind: FileKind, body: &[u8]) -> Result<Option<Error>, Abort> {
        let is_kept = self.tree.keeps_moved && has_content(self.existing.kind(key));
        let Some(before) = self.before.filter(|_| is_kept) else { return Ok(None) };
        let is_same = self.existing.is_of(key, kind, body.len() as u64)
            && before.get(&Key::bytes(key)?)?.is_some_and(|record| *record.body == *body);
        Ok((!is_same).then(refusal))
    }

    /// The same of a long file, which is read for it where it may be the same; the inner error is
    /// the file's.
    pub(super) fn refuses_long(
        &mut self,
        key: &[u8],
        len: u64,
        body: &mut OpenedFile<'_>,
    ) -> Result<Option<Error>, Abort> {
        if !self.tree.keeps_moved || !has_content(self.existing.kind(key)) {
            return Ok(None);
        }
        if !self.existing.is_of(key, FileKind::File, len) {
            return Ok(Some(refusal()));
        }
        Ok(match self.has_bytes(key, body)? {
            Ok(Some(_)) => None,
            Ok(None) => Some(refusal()),
            Err(error) => Some(error),
        })
    }

    /// Whether a dry run knows that a file of this length would be refused.
    pub(super) fn would_refuse(&self, key: &[u8], len: u64) -> bool {
        self.tree.keeps_moved
            && has_content(self.existing.kind(key))
            && !self.existing.is_of(key, FileKind::File, len)
    }
}
