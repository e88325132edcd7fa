//! [`DamageLog`]: damage that is met while a pack is read.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::Damage;

/// Damage that a pack has met so far: what opening it found, and what was found since and gone around, so that no error
/// came of it. All clones are one log, which outlives the pack.
#[derive(Debug, Clone, Default)]
pub struct DamageLog {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Whether there is any: asked for every key that is not found.
    any: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    all: Vec<Damage>,
    seen: HashSet<Damage>,
}

impl DamageLog {
    /// All of it, in the order in which it was met.
    pub fn all(&self) -> Vec<Damage> {
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner).all.clone()
    }

    /// What was met after the first `known` of it.
    pub fn since(&self, known: usize) -> Vec<Damage> {
        let all = &self.shared.known.lock().unwrap_or_else(PoisonError::into_inner).all;
        all.get(known..).unwrap_or_default().to_vec()
    }

    /// Whether nothing was met.
    pub fn is_empty(&self) -> bool {
        !self.shared.any.load(Ordering::Acquire)
    }

    /// Notes damage, each once.
    pub(crate) fn note(&self, damages: impl IntoIterator<Item = Damage>) {
        let mut known = self.shared.known.lock().unwrap_or_else(PoisonError::into_inner);
        for damage in damages {
            if known.seen.insert(damage.clone()) {
                known.all.push(damage);
                self.shared.any.store(true, Ordering::Release);
            }
        }
    }
}
