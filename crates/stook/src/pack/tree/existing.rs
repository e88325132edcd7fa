//! What a pack already holds of a tree, so that a second run adds only what is new or changed.

use std::collections::HashMap;

use crate::pack::error::Result;
use crate::pack::format::attributes::FileKind;
use crate::pack::key::Key;
use crate::pack::open::Pack;
use crate::walk::{Kind, Metadata};

/// Heads that are read as one batch.
const BATCH_LEN: usize = 4096;

/// What is known of a record, without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    kind: FileKind,
    len: u64,
    mode: u32,
    mtime_ns: i64,
    owner: Option<(u32, u32)>,
}

/// The file records of a pack by key.
#[derive(Debug, Default)]
pub(super) struct Existing(HashMap<Box<[u8]>, Known>);

impl Existing {
    /// Reads the heads of all records.
    pub(super) fn read(pack: &Pack) -> Result<Self> {
        let mut all = HashMap::new();
        let mut batch = Vec::with_capacity(BATCH_LEN);
        let mut keys = pack.keys(&[])?;
        loop {
            for entry in keys.by_ref().take(BATCH_LEN) {
                batch.push(entry?);
            }
            if batch.is_empty() {
                return Ok(Self(all));
            }
            // In the order of the medium, so that neighbours come with one read.
            batch.sort_by_key(|entry| entry.position());
            for head in pack.heads(&batch)? {
                let head = head?;
                let known = Known::of(&head.attributes, head.body_len);
                if let (Some(key), Some(known)) = (head.key.as_bytes(), known) {
                    all.insert(key.into(), known);
                }
            }
            batch.clear();
        }
    }

    /// Whether a regular file with this metadata is there already.
    pub(super) fn has_file(&self, key: &[u8], metadata: &Metadata, with_owner: bool) -> bool {
        self.0.get(key).is_some_and(|known| *known == Known::file(metadata, with_owner))
    }

    /// Whether a directory with this metadata is there already.
    pub(super) fn has_directory(&self, key: &[u8], metadata: &Metadata, with_owner: bool) -> bool {
        let wanted = Known { kind: FileKind::Directory, len: 0, ..Known::file(metadata, with_owner) };
        self.0.get(key) == Some(&wanted)
    }

    /// Whether a link with this target is there already; only then is its body read.
    pub(super) fn has_link(
        &self,
        pack: Option<&Pack>,
        key: &Key,
        wanted: (FileKind, &Metadata, &[u8]),
        with_owner: bool,
    ) -> Result<bool> {
        let (kind, metadata, target) = wanted;
        let wanted = Known { kind, len: target.len() as u64, ..Known::file(metadata, with_owner) };
        let (Some(pack), Some(bytes)) = (pack, key.as_bytes()) else { return Ok(false) };
        if self.0.get(bytes) != Some(&wanted) {
            return Ok(false);
        }
        Ok(pack.get(key)?.is_some_and(|record| record.body == target))
    }

    /// Whether anything has this key.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.0.contains_key(key)
    }
}

impl Known {
    fn of(attributes: &crate::pack::Attributes, len: Option<u64>) -> Option<Self> {
        Some(Self {
            kind: attributes.file_kind()?,
            len: len?,
            mode: attributes.mode()?,
            mtime_ns: attributes.mtime_ns()?,
            owner: attributes.owner(),
        })
    }

    fn file(metadata: &Metadata, with_owner: bool) -> Self {
        debug_assert!(metadata.kind != Kind::Directory || metadata.links > 0);
        Self {
            kind: FileKind::File,
            len: metadata.len,
            mode: metadata.mode,
            mtime_ns: metadata.mtime_ns,
            owner: with_owner.then_some((metadata.uid, metadata.gid)),
        }
    }
}
