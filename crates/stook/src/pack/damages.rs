//! [`DamageLog`]: damage found while a pack is read.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::{Damage, Error, Result};
use super::key::Key;

/// The most damages that are reported one by one by a pass over a pack; the rest is only counted.
const LISTED_MAX: usize = 100_000;

/// The most damages that are deduplicated, at 16 bytes each. Beyond that, only an upper bound of
/// their number is known.
const KNOWN_MAX: usize = 1_000_000;

/// Damage in the order in which it was found, each once. Memory is bounded, however much there is:
/// the last of 100,000 says how many more there were, and beyond a million how many at most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damages {
    all: Vec<Damage>,
    /// A hash of each, including those that are only counted.
    known: HashSet<u128>,
    /// Damages found when no more could be deduplicated; some of them may have been found before.
    uncertain: u64,
}

/// A hash of a damage: collisions do not occur unless they are constructed.
fn hash_of(damage: &Damage) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, damage).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

impl Damages {
    /// Adds one, unless it is there already.
    pub fn push(&mut self, damage: Damage) {
        if !self.know(hash_of(&damage)) {
            return;
        }
        if self.all.len() < LISTED_MAX {
            return self.all.push(damage);
        }
        self.count(damage);
    }

    /// Adds damage of records by their keys. What was found in the same place before its key was
    /// known is that of the record, and no second one.
    pub(crate) fn name(&mut self, mut named: Vec<Damage>) {
        let mut keys: HashMap<(PathBuf, u64), Key> = HashMap::new();
        for damage in &named {
            let place = (damage.file.clone(), damage.offset);
            keys.extend(damage.key.clone().map(|key| (place, key)));
        }
        let mut found = HashSet::new();
        for damage in self.all.iter_mut().filter(|damage| damage.key.is_none()) {
            let place = (damage.file.clone(), damage.offset);
            if let Some(key) = keys.remove(&place) {
                self.known.remove(&hash_of(damage));
                damage.key = Some(key);
                self.known.insert(hash_of(damage));
                found.insert(place);
            }
        }
        named.retain(|damage| damage.key.is_none() || !found.contains(&(damage.file.clone(), damage.offset)));
        self.extend(named);
    }

    /// Whether a damage may not have been found before.
    fn know(&mut self, hash: u128) -> bool {
        if self.known.len() < KNOWN_MAX {
            return self.known.insert(hash);
        }
        let is_new = !self.known.contains(&hash);
        self.uncertain += u64::from(is_new);
        is_new
    }

    /// Says after those that are listed how many more there are; the first of them was `damage`.
    fn count(&mut self, damage: Damage) {
        let more = (self.known.len() - LISTED_MAX) as u64 + self.uncertain;
        let about = if self.uncertain > 0 { "up to " } else { "" };
        let what = format!("and {about}{more} more places after this one are damaged");
        match self.all.get_mut(LISTED_MAX) {
            Some(last) => last.what = what,
            None => self.all.push(Damage { key: None, what, ..damage }),
        }
    }

    /// Adds all of `others`: counted ones are counted here, and common ones once.
    pub(crate) fn join(&mut self, others: Self) {
        let Self { mut all, known, uncertain } = others;
        let counted = all.split_off(all.len().min(LISTED_MAX)).pop();
        let is_reported: HashSet<u128> = match counted {
            Some(_) => all.iter().map(hash_of).collect(),
            None => HashSet::new(),
        };
        self.extend(all);
        let Some(counted) = counted else { return };
        for hash in known.difference(&is_reported) {
            self.know(*hash);
        }
        self.uncertain += uncertain;
        self.count(counted);
    }
}

impl Extend<Damage> for Damages {
    fn extend<T: IntoIterator<Item = Damage>>(&mut self, damages: T) {
        damages.into_iter().for_each(|damage| self.push(damage));
    }
}

impl FromIterator<Damage> for Damages {
    fn from_iter<T: IntoIterator<Item = Damage>>(damages: T) -> Self {
        let mut all = Self::default();
        all.extend(damages);
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

/// Damage that a pack has found so far: when it was opened, and since, where it was worked around
/// without an error. All clones are one log, which outlives the pack.
#[derive(Debug, Clone, Default)]
pub struct DamageLog {
    shared: Arc<LoggedDamages>,
}

#[derive(Debug, Default)]
struct LoggedDamages {
    /// Whether there is any: read for every key that is not found.
    any: AtomicBool,
    known: Mutex<Damages>,
}

impl DamageLog {
    /// All of it, in the order in which it was found.
    pub fn all(&self) -> Vec<Damage> {
        self.known().to_vec()
    }

    /// The same, including the counted ones.
    pub(crate) fn damages(&self) -> Damages {
        self.known().clone()
    }

    /// Damage found after the first `known`.
    pub fn since(&self, known: usize) -> Vec<Damage> {
        self.known().get(known..).unwrap_or_default().to_vec()
    }

    /// Whether no damage was found.
    pub fn is_empty(&self) -> bool {
        !self.shared.any.load(Ordering::Acquire)
    }

    /// Returns the value that was read; `None`, and a note of the damage, if it is damaged.
    ///
    /// # Errors
    /// Returns errors that are not damage.
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
        let mut known = self.known();
        for damage in damages {
            known.push(damage);
            self.shared.any.store(true, Ordering::Release);
        }
    }

    fn known(&self) -> MutexGuard<'_, Damages> {
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage(offset: u64) -> Damage {
        Damage { file: "segment".into(), offset, key: None, what: "hit".into(), cause: None }
    }

    #[test]
    fn however_much_damage_there_is_so_much_is_kept_and_the_rest_is_counted() {
        let reported = LISTED_MAX as u64;
        let mut all = Damages::default();
        all.extend((0..reported).map(damage));
        assert_eq!((all.len(), all.last().unwrap()), (LISTED_MAX, &damage(reported - 1)));
        all.extend((reported..reported + 5000).map(damage));
        let last = all.last().unwrap();
        assert_eq!((all.len(), last.offset), (LISTED_MAX + 1, reported));
        assert_eq!(last.what, "and 5000 more places after this one are damaged");
        let mut more = Damages::default();
        more.extend((reported - 10..reported * 2).map(damage));
        all.join(more);
        assert_eq!(all.last().unwrap().what, "and 100000 more places after this one are damaged");
        let log = DamageLog::default();
        log.note((0..reported * 2).map(damage));
        assert_eq!(log.all(), *all);
    }

    #[test]
    fn what_is_named_later_is_one_damage() {
        let mut all = Damages::default();
        all.extend([damage(1), damage(2)]);
        let named = |offset, what: &str| {
            let key = Some(Key::id(offset));
            Damage { key, what: what.into(), ..damage(offset) }
        };
        all.name(vec![named(2, "lost"), named(3, "lost"), damage(4)]);
        assert_eq!(all, [damage(1), named(2, "hit"), named(3, "lost"), damage(4)]);
        all.extend([named(2, "hit"), damage(1)]);
        assert_eq!(all.len(), 4);
        all.push(damage(2));
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn what_is_met_twice_is_counted_once_and_where_nobody_can_know_that_it_is_said() {
        let reported = LISTED_MAX as u64;
        let (mut all, log) = (Damages::default(), DamageLog::default());
        for _ in 0..2 {
            all.extend((0..reported + 5000).map(damage));
            log.note((0..reported + 5000).map(damage));
            all.join(log.damages());
        }
        assert_eq!(all.last().unwrap().what, "and 5000 more places after this one are damaged");
        assert_eq!(log.all(), *all);
        let known = KNOWN_MAX as u64;
        all.extend((0..known + 7).map(damage));
        let what = format!("and up to {} more places after this one are damaged", known + 7 - reported);
        assert_eq!(all.last().unwrap().what, what);
    }
}
