//! [`FileJob`] and [`Body`]: a file that is to be copied, and what was read of it.

use std::sync::Arc;

use bytes::Bytes;

use crate::hash::Digest;
use crate::tree::{Holes, Node, NodeId, Xattrs};

/// A file that is to be copied.
#[derive(Debug, Clone)]
pub(super) struct FileJob {
    /// Which source it is of.
    pub(super) source: usize,
    pub(super) id: NodeId,
    /// The directory that it was listed in; `None` for a source itself.
    pub(super) parent: Option<NodeId>,
    pub(super) node: Node,
    /// Its path, relative to the destination.
    pub(super) key: Arc<[u8]>,
    /// Only to this destination.
    pub(super) only: Option<usize>,
    /// Its bytes are synced by themselves, and not with those of others.
    pub(super) is_alone: bool,
}

/// All of a small file.
#[derive(Debug, Clone)]
pub(super) struct Body {
    pub(super) bytes: Bytes,
    pub(super) xattrs: Xattrs,
    pub(super) holes: Holes,
    pub(super) digests: Arc<[Digest]>,
}
