//! [`SourceKeys`]: what the sources have, by the paths that it gets in a destination.

use std::sync::Arc;

use super::source::CopySource;
use crate::tree::{Cursor, Kind, Page};

/// The sources of a copy, and how their paths become keys.
#[derive(Debug, Clone)]
pub(super) struct SourceKeys {
    sources: Arc<[CopySource]>,
    /// Whether what is in the only source goes into the destination itself.
    is_contents: bool,
}

impl SourceKeys {
    pub(super) fn new(sources: Arc<[CopySource]>, is_contents: bool) -> Self {
        Self { sources, is_contents }
    }

    /// Whether what is in the only source goes into the destination itself.
    pub(super) fn is_contents(&self) -> bool {
        self.is_contents
    }

    /// The sources that have what a key is of, or could have it, and its path in them.
    fn places<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = (&'a CopySource, &'a [u8])> {
        let (first, rest) = match self.is_contents {
            true => (None, key),
            false => {
                let end = key.iter().position(|byte| *byte == b'/').unwrap_or(key.len());
                let (first, rest) = key.split_at_checked(end).unwrap_or((key, &[]));
                (Some(first), rest.strip_prefix(b"/").unwrap_or(rest))
            }
        };
        let sources = self.sources.iter();
        let those = sources.filter(move |source| first.is_none() || source.name.as_deref() == first);
        those.map(move |source| (source, rest))
    }

    /// Whether the sources have something that is copied to a key.
    pub(super) fn has(&self, key: &[u8]) -> crate::Result<bool> {
        for (source, path) in self.places(key) {
            if source.find(path)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The names that the sources have in what becomes a directory of the destination.
    pub(super) fn names_in(&self, directory: &[u8]) -> crate::Result<Vec<Vec<u8>>> {
        if directory.is_empty() && !self.is_contents {
            return Ok(self.sources.iter().filter_map(|source| source.name.clone()).collect());
        }
        let mut names = Vec::new();
        for (source, path) in self.places(directory) {
            let Some(id) = source.find(path)? else { continue };
            if source.tree.node(id)?.kind != Kind::Directory {
                continue;
            }
            let (mut page, mut from) = (Page::new(), Some(Cursor::Start));
            while let Some(at) = from {
                from = source.tree.list(id, &at, &mut page)?;
                names.extend(page.iter().map(|entry| entry.name.to_vec()));
            }
        }
        Ok(names)
    }
}
