//! [`DamageLog`]: damage that is met while a pack is read.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::{Damage, Error, Result};

/// Damage that is told one by one, at most, by whatever goes through a pack; of the rest only how much there is.
const TOLD_MAX: usize = 100_000;

/// How the last of them ends.
const UNTOLD: &str = "more places behind this one are damaged";

/// How many others a damage stands for, if it does.
fn untold_of(damage: &Damage) -> Option<u64> {
    damage.what.strip_suffix(UNTOLD)?.trim_end().strip_prefix("and ")?.parse().ok()
}

/// Damage in the order in which it was met. Memory is bounded, however much there is: the last of 100,000 says how many more
/// there were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damages {
    all: Vec<Damage>,
    /// What the last of them stands for.
    untold: u64,
}

impl Damages {
    /// Adds one.
    pub fn push(&mut self, damage: Damage) {
        if self.all.len() < TOLD_MAX {
            return self.all.push(damage);
        }
        // One that stands for others counts as all of them.
        self.untold += untold_of(&damage).unwrap_or(1);
        let is_first = self.all.len() == TOLD_MAX;
        let what = format!("and {} {UNTOLD}", self.untold);
        match self.all.last_mut() {
            Some(last) if !is_first => last.what = what,
            _ => self.all.push(Damage { key: None, what, ..damage }),
        }
    }

    /// Leaves out what is there twice.
    pub(crate) fn deduplicate(&mut self) {
        let mut seen = HashSet::new();
        self.all.retain(|damage| seen.insert(damage.clone()));
    }
}

impl Extend<Damage> for Damages {
    fn extend<T: IntoIterator<Item = Damage>>(&mut self, damages: T) {
        damages.into_iter().for_each(|damage| self.push(damage));
    }
}

impl FromIterator<Damage> for Damages {
    /// Each once.
    fn from_iter<T: IntoIterator<Item = Damage>>(damages: T) -> Self {
        let mut all = Self::default();
        all.extend(damages);
        all.deduplicate();
        all
    }
}

impl std::ops::Deref for Damages {
    type Target = [Damage];

    fn deref(&self) -> &[Damage] {
        &self.all
    }
}

impl<const N: usize> PartialEq<[Damage; N]> for Damages {
    fn eq(&self, other: &[Damage; N]) -> bool {
        self.all == other
    }
}

impl PartialEq<Vec<Damage>> for Damages {
    fn eq(&self, other: &Vec<Damage>) -> bool {
        self.all == *other
    }
}

impl IntoIterator for Damages {
    type Item = Damage;
    type IntoIter = std::vec::IntoIter<Damage>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

impl<'a> IntoIterator for &'a Damages {
    type Item = &'a Damage;
    type IntoIter = std::slice::Iter<'a, Damage>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

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
    all: Damages,
    seen: HashSet<Damage>,
}

impl DamageLog {
    /// All of it, in the order in which it was met.
    pub fn all(&self) -> Vec<Damage> {
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner).all.to_vec()
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

    /// What was read; `None`, and a note of it, where it is damaged.
    ///
    /// # Errors
    /// What is no damage.
    pub fn unless_damaged<T>(&self, read: Result<T>) -> Result<Option<T>> {
        match read {
            Err(Error::Damaged(damage)) => {
                self.note([damage]);
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Notes damage, each once.
    pub(crate) fn note(&self, damages: impl IntoIterator<Item = Damage>) {
        let mut known = self.shared.known.lock().unwrap_or_else(PoisonError::into_inner);
        for damage in damages {
            // Of what is only counted nothing is kept.
            if known.seen.len() >= TOLD_MAX || known.seen.insert(damage.clone()) {
                known.all.push(damage);
                self.shared.any.store(true, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage(offset: u64) -> Damage {
        Damage { file: "segment".into(), offset, key: None, what: "hit".into() }
    }

    #[test]
    fn however_much_damage_there_is_so_much_is_kept_and_the_rest_is_counted() {
        let told = TOLD_MAX as u64;
        let mut all = Damages::default();
        all.extend((0..told).map(damage));
        assert_eq!((all.len(), all.last().unwrap()), (TOLD_MAX, &damage(told - 1)));
        all.extend((told..told + 5000).map(damage));
        let last = all.last().unwrap();
        assert_eq!((all.len(), last.offset), (TOLD_MAX + 1, told));
        assert_eq!(last.what, "and 5000 more places behind this one are damaged");
        let mut joined = Damages::default();
        joined.extend(all.clone());
        joined.extend(all.clone().into_iter().skip(TOLD_MAX));
        assert_eq!(joined.last().unwrap().what, "and 10000 more places behind this one are damaged");
        let log = DamageLog::default();
        log.note((0..told + 5000).map(damage));
        assert_eq!(log.all(), *all);
    }
}
