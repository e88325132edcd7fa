//! [`Deletions`]: the paths that layers delete from those below them, as a tree of names.

use std::collections::HashMap;

/// The number of the path of the root.
const ROOT: u32 = 0;

/// Which layers are hidden at which paths. Paths have numbers; those that are neither deleted nor
/// above one that is have none.
#[derive(Debug)]
pub(super) struct Deletions {
    paths: Vec<Path>,
}

#[derive(Debug, Default)]
struct Path {
    /// Layers with lower numbers are hidden here.
    hides_below: u32,
    /// By folded name.
    children: HashMap<Box<[u8]>, u32>,
}

impl Deletions {
    pub(super) fn new() -> Self {
        Self { paths: vec![Path::default()] }
    }

    /// Has a layer delete a path. Layers come in their order.
    pub(super) fn add(&mut self, folded_names: impl Iterator<Item = Box<[u8]>>, layer: u32) {
        let mut at = ROOT;
        for name in folded_names {
            // One for each name of a list in memory: their number fits.
            let next = self.paths.len() as u32;
            let Some(path) = self.paths.get_mut(at as usize) else { return };
            at = *path.children.entry(name).or_insert(next);
            if at == next {
                self.paths.push(Path::default());
            }
        }
        if let Some(path) = self.paths.get_mut(at as usize) {
            path.hides_below = layer;
        }
    }

    /// The root, if there is anything below it.
    pub(super) fn root(&self) -> Option<u32> {
        self.paths.first().filter(|root| !root.children.is_empty()).map(|_| ROOT)
    }

    /// What has a name in a path.
    pub(super) fn child(&self, of: Option<u32>, folded: &[u8]) -> Option<u32> {
        self.paths.get(of? as usize)?.children.get(folded).copied()
    }

    /// The lowest layer that is not hidden at a path.
    pub(super) fn lowest_seen(&self, at: Option<u32>) -> u32 {
        at.and_then(|at| self.paths.get(at as usize)).map_or(0, |path| path.hides_below)
    }

    /// The same of the root.
    pub(super) fn lowest_seen_at_root(&self) -> u32 {
        self.lowest_seen(Some(ROOT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> impl Iterator<Item = Box<[u8]>> {
        path.split('/').filter(|name| !name.is_empty()).map(|name| name.as_bytes().into())
    }

    #[test]
    fn the_last_layer_that_deletes_a_path_counts_there_and_nowhere_else() {
        let mut all = Deletions::new();
        assert_eq!((all.root(), all.lowest_seen_at_root()), (None, 0));
        all.add(names("a/b"), 1);
        all.add(names("a"), 2);
        all.add(names("a/b"), 3);
        let a = all.child(all.root(), b"a");
        let b = all.child(a, b"b");
        assert_eq!((all.lowest_seen(a), all.lowest_seen(b)), (2, 3));
        assert_eq!((all.child(a, b"c"), all.child(b, b"b"), all.child(None, b"a")), (None, None, None));
        assert_eq!(all.lowest_seen(None), 0);
        all.add(names(""), 3);
        assert_eq!(all.lowest_seen_at_root(), 3);
    }
}
