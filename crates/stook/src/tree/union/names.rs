//! [`FoldedNames`]: the names of one directory, to be found whatever their case.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use super::case::CaseRule;
use super::known::Part;
use crate::error::{Error, Result};
use crate::source::Identity;
use crate::tree::any::Tree;
use crate::tree::node::NodeId;
use crate::tree::page::{Cursor, Page};

/// Where a name lies among the bytes of all names.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Of the folded name.
    hash: u64,
    start: usize,
    len: u32,
}

/// The names of a directory of one tree, as they were when it was listed.
#[derive(Debug)]
pub(super) struct FoldedNames {
    hashes: RandomState,
    /// Sorted by hash, then by name.
    places: Vec<Place>,
    names: Vec<u8>,
    /// When the directory had changed last, where the tree says.
    mtime_ns: Option<i64>,
    /// Whether no later change could have left that time as it is.
    is_settled: bool,
}

impl FoldedNames {
    /// Lists a directory that had this time of modification. What could not be read has its name
    /// too, so that looking for it gives the error.
    pub(super) fn read(tree: &dyn Tree, directory: NodeId, mtime_ns: Option<i64>) -> Result<Self> {
        let is_settled = is_settled(mtime_ns);
        let hashes = RandomState::new();
        let mut all = Self { hashes, places: Vec::new(), names: Vec::new(), mtime_ns, is_settled };
        let (mut page, mut from) = (Page::new(), Some(Cursor::Start));
        while let Some(at) = from {
            from = tree.list(directory, &at, &mut page)?;
            page.iter().for_each(|entry| all.push(entry.name));
            for failure in page.failures() {
                if let Error::Io { path, .. } = failure
                    && let Some(name) = path.file_name()
                {
                    all.push(name.as_bytes());
                }
            }
        }
        all.places.shrink_to_fit();
        all.names.shrink_to_fit();
        let names = &all.names;
        all.places.sort_unstable_by(|a, b| a.hash.cmp(&b.hash).then_with(|| a.of(names).cmp(b.of(names))));
        Ok(all)
    }

    fn push(&mut self, name: &[u8]) {
        // No name of a tree is longer.
        let Ok(len) = u32::try_from(name.len()) else { return };
        let hash = self.hash(&CaseRule::Ignored.folded(name));
        self.places.push(Place { hash, start: self.names.len(), len });
        self.names.extend_from_slice(name);
    }

    fn hash(&self, folded: &[u8]) -> u64 {
        self.hashes.hash_one(folded)
    }

    /// The names that are one name with this one, which is folded, in the order of their bytes.
    pub(super) fn called<'a>(&'a self, folded: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let hash = self.hash(folded);
        let start = self.places.partition_point(|place| place.hash < hash);
        let rest = self.places.get(start..).unwrap_or_default();
        let same_hash = rest.iter().take_while(move |place| place.hash == hash);
        let names = same_hash.map(move |place| place.of(&self.names));
        names.filter(move |name| *CaseRule::Ignored.folded(name) == *folded)
    }

    /// Whether a directory that has this time of modification now still has these names, as far as
    /// a time can say.
    pub(super) fn are_those_of(&self, mtime_ns: Option<i64>) -> bool {
        self.mtime_ns == mtime_ns && (self.is_settled || !is_settled(mtime_ns))
    }

    /// Bytes in memory, about.
    fn memory(&self) -> usize {
        self.names.len() + self.places.len() * size_of::<Place>() + size_of::<Self>()
    }
}

impl Place {
    fn of(self, names: &[u8]) -> &[u8] {
        names.get(self.start..self.start + self.len as usize).unwrap_or_default()
    }
}

/// Whether a directory that changes now gets another time than this. Of trees that have no times it
/// is taken for granted that they do not change.
fn is_settled(mtime_ns: Option<i64>) -> bool {
    mtime_ns.is_none_or(|mtime_ns| Identity { mtime_ns, ..Identity::default() }.is_settled())
}

/// The names of the directories that were looked into last.
#[derive(Debug, Default)]
pub(super) struct NamesCache {
    recent: HashMap<Part, Arc<FoldedNames>>,
    /// Bytes of those.
    recent_len: usize,
    /// Used longer ago: they become recent when they are asked for, or go.
    older: HashMap<Part, Arc<FoldedNames>>,
}

/// Half of the memory that names take: those of one directory stay, however many they are.
const RECENT_LEN_MAX: usize = 32 << 20;

impl NamesCache {
    pub(super) fn get(&mut self, part: Part) -> Option<Arc<FoldedNames>> {
        if let Some(names) = self.recent.get(&part) {
            return Some(Arc::clone(names));
        }
        let names = self.older.remove(&part)?;
        self.keep(part, Arc::clone(&names));
        Some(names)
    }

    pub(super) fn keep(&mut self, part: Part, names: Arc<FoldedNames>) {
        if self.recent_len.saturating_add(names.memory()) > RECENT_LEN_MAX {
            self.older = std::mem::take(&mut self.recent);
            self.recent_len = 0;
        }
        self.recent_len = self.recent_len.saturating_add(names.memory());
        if let Some(replaced) = self.recent.insert(part, names) {
            self.recent_len = self.recent_len.saturating_sub(replaced.memory());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str], mtime_ns: Option<i64>) -> FoldedNames {
        let is_settled = is_settled(mtime_ns);
        let hashes = RandomState::new();
        let mut all = FoldedNames { hashes, places: Vec::new(), names: Vec::new(), mtime_ns, is_settled };
        names.iter().for_each(|name| all.push(name.as_bytes()));
        let bytes = &all.names;
        all.places.sort_unstable_by(|a, b| a.hash.cmp(&b.hash).then_with(|| a.of(bytes).cmp(b.of(bytes))));
        all
    }

    #[test]
    fn names_that_are_one_are_found_in_the_order_of_their_bytes() {
        let names = of(&["b", "readme", "README", "ReadMe", "é", "É"], None);
        let called = |name: &str| names.called(name.as_bytes()).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(called("readme"), [&b"README"[..], b"ReadMe", b"readme"]);
        assert_eq!(called("é"), ["É".as_bytes(), "é".as_bytes()]);
        assert!(called("no").is_empty());
    }

    #[test]
    fn names_are_read_again_when_the_directory_changed_or_could_have_unseen() {
        let long_ago = of(&["a"], Some(1_000_000_001));
        assert!(long_ago.are_those_of(Some(1_000_000_001)) && !long_ago.are_those_of(Some(2_000_000_001)));
        assert!(of(&["a"], None).are_those_of(None));
        let just_then = FoldedNames { is_settled: false, ..long_ago };
        assert!(!just_then.are_those_of(Some(1_000_000_001)), "the moment has passed");
    }

    #[test]
    fn what_is_not_asked_for_goes_first() {
        let mut cache = NamesCache::default();
        let part = |layer| Part { layer, id: NodeId::new(0) };
        let long = "x".repeat(RECENT_LEN_MAX / 2);
        for layer in 0..4 {
            cache.keep(part(layer), Arc::new(of(&[&long], None)));
            assert!(cache.get(part(0)).is_some());
        }
        assert!(cache.get(part(1)).is_none());
        assert!(cache.get(part(3)).is_some());
    }
}
