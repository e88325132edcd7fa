//! [`Owner`]: the source and state of held bytes, whether they are in a store or on disk.
//!
//! Bytes held beyond one opening of a source may be reused for the next only if both of these are
//! true: it is of the same owner, and it was read while the source was [proven](Source::is_proven),
//! as the next one must be, too.

use crate::source::{Identity, Origin, Source};

/// Whose bytes are held: a hash of the origin of their source, and the state that it was in.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    /// The origin, salted.
    pub(super) key: [u8; 32],
    pub(super) identity: Identity,
}

impl Owner {
    /// The owner with this origin and state; `salt` is that of the place where the bytes are held.
    pub(super) fn new(origin: &Origin, identity: &Identity, salt: &[u8; 32]) -> Self {
        Self { key: origin.salted(salt), identity: identity.clone() }
    }

    /// The owner for bytes held in the memory of this process: hashes are not readable there, so
    /// there is no salt.
    pub(super) fn of(source: &dyn Source) -> Self {
        Self::new(&source.origin(), &source.identity(), &[0; 32])
    }

    /// Whether bytes held for this key and in this state belong to this owner.
    pub(super) fn has(&self, key: &[u8; 32], identity: &Identity) -> bool {
        &self.key == key && identity.same_content(&self.identity)
    }
}
