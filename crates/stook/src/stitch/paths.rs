//! [`Paths`]: many paths, each with its number, in little memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, RandomState};

/// Paths by the order in which they came, each once. One takes 8 bytes and its length, and 20 to 40
/// more until all are there.
#[derive(Debug, Default)]
pub(super) struct Paths {
    text: String,
    /// Where each ends in that; it begins where the one before ends.
    ends: Vec<usize>,
    /// Numbers by the hashes of paths. Where two have one hash, the later has the next that is
    /// free.
    numbers: HashMap<u64, u32>,
    hasher: RandomState,
}

impl Paths {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The path with a number.
    pub(super) fn get(&self, number: u32) -> Option<&str> {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(start..*self.ends.get(number)?)
    }

    /// The number of a path, which is a new one for a new path.
    pub(super) fn number(&mut self, path: &str) -> u32 {
        let mut hash = self.hasher.hash_one(path);
        let new = self.ends.len() as u32;
        loop {
            let found = match self.numbers.entry(hash) {
                Entry::Vacant(free) => {
                    free.insert(new);
                    break;
                }
                Entry::Occupied(taken) => *taken.get(),
            };
            if self.get(found) == Some(path) {
                return found;
            }
            hash = hash.wrapping_add(1);
        }
        self.text.push_str(path);
        self.ends.push(self.text.len());
        new
    }

    /// Frees what is only needed to find numbers: all paths are there.
    pub(super) fn seal(&mut self) {
        self.numbers = HashMap::new();
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_one_number() {
        let mut paths = Paths::default();
        let numbers: Vec<u32> = ["a", "b/c", "", "a", "b/c", "d"].map(|path| paths.number(path)).into();
        assert_eq!(numbers, [0, 1, 2, 0, 1, 3]);
        assert_eq!((paths.len(), paths.get(1), paths.get(2), paths.get(4)), (4, Some("b/c"), Some(""), None));
        // Two paths with one hash.
        let hash = paths.hasher.hash_one("e");
        paths.numbers.insert(hash, 0);
        assert_eq!((paths.number("e"), paths.number("e"), paths.number("a")), (4, 4, 0));
        paths.seal();
        assert_eq!(paths.get(4), Some("e"));
    }
}
