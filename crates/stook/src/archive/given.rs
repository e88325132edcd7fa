//! Archives that are no file: what is where in them is known when they are opened.

use std::sync::Arc;

use super::error::Result;
use super::format::Format;
use super::index::{Builder, Seen, Summary};
use super::member::Method;
use super::open::{Archive, OpenOptions, Origin};
use super::sidecar;
use crate::extent::ByteRange;
use crate::source::Source;
use crate::tree::{Kind, Node};

impl Archive {
    /// Files that lie in a source as they are, each with its path: those of a layout. Of two with
    /// one path the later one counts.
    ///
    /// # Errors
    /// Returns an error if the index would be too large.
    pub fn of_files<'k>(
        source: Arc<dyn Source>,
        files: impl IntoIterator<Item = (&'k [u8], ByteRange)>,
        options: OpenOptions,
    ) -> Result<Self> {
        let mut builder = Builder::new(options.max_index_bytes);
        for (key, range) in files {
            let (kind, len) = (Kind::File, range.len());
            let node = Node { kind, mode: None, mtime_ns: None, owner: None, len, links: 1, device: 0 };
            let seen = Seen {
                key,
                node,
                is_hard_link: false,
                is_refused: false,
                stored_len: len,
                header_at: range.start(),
                data_at: range.start(),
                method: Method::Stored,
                crc32: None,
                extents: None,
                link: b"",
                xattrs: b"",
            };
            builder.push(&seen).map_err(|fault| fault.of(source.path(), 0))?;
        }
        let identity = sidecar::without_device(&source.identity());
        let summary = Summary { format: Format::Layout, identity, has_end: true, replaced: 0 };
        let index = builder.finish(summary).map_err(|fault| fault.of(source.path(), 0))?;
        Ok(Self::from_parts(source, index, Origin::Directory, options))
    }
}
