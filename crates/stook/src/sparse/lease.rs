//! [`Lease`]: what says that files are open over a buffer of a store.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use super::SparseBuffer;
use super::owner::Owner;

/// Held by all files that are open over a buffer of a store. When the last of them ends, bytes that
/// the next could not reuse are dropped.
#[derive(Debug)]
pub(super) struct Lease {
    buffer: Arc<SparseBuffer>,
    /// Whether any of the bytes were read while the source was not proven. Never taken back: who
    /// comes next gets a buffer of its own.
    is_unproven: Arc<AtomicBool>,
}

impl Lease {
    pub(super) fn buffer(&self) -> &Arc<SparseBuffer> {
        &self.buffer
    }

    /// Takes notice that bytes come which may be of another state than the source seems to be in.
    /// To be called before they come.
    pub(super) fn note_unproven(&self) {
        self.is_unproven.store(true, Ordering::Release);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_unproven.load(Ordering::Acquire) {
            self.buffer.clear();
        }
    }
}

/// Whose bytes a buffer of a store holds.
#[derive(Debug)]
pub(super) struct Tenant {
    owner: Owner,
    lease: Weak<Lease>,
    is_unproven: Arc<AtomicBool>,
}

impl Tenant {
    /// The first over a buffer that is empty, or whose bytes are of this owner and proven.
    pub(super) fn new(owner: Owner, buffer: &Arc<SparseBuffer>) -> (Self, Arc<Lease>) {
        let is_unproven = Arc::new(AtomicBool::new(false));
        let lease = Arc::new(Lease { buffer: Arc::clone(buffer), is_unproven: Arc::clone(&is_unproven) });
        (Self { owner, lease: Arc::downgrade(&lease), is_unproven }, lease)
    }

    /// Whether the held bytes may be used for this owner, whose source is proven.
    pub(super) fn may_serve(&self, owner: &Owner) -> bool {
        self.owner.has(&owner.key, &owner.identity) && !self.is_unproven.load(Ordering::Acquire)
    }

    /// That of the files which are open over the buffer, if any is.
    pub(super) fn lease(&self) -> Option<Arc<Lease>> {
        self.lease.upgrade()
    }
}
