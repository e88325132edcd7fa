//! Which paths are taken, by patterns and predicates, and whether any was.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::names::{Selection, directories_above};
use crate::walk::{Decision, Kind};

/// A predicate on paths, each relative to its root; `None` when it failed, which ends the run.
pub type Predicate<'a> = Box<dyn Fn(&[u8]) -> Option<bool> + Send + Sync + 'a>;

/// Nothing of the sources was selected, though all could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NothingSelected {
    /// Paths that were not excluded; none of them was selected.
    pub asked: u64,
    /// Whether there was an inclusion, so that a mistake is likely. A pack that was made for this
    /// run was then removed.
    pub is_error: bool,
}

/// The patterns and predicates of a run.
pub(super) struct Choice<'a> {
    patterns: &'a Selection,
    exclude: Option<&'a Predicate<'a>>,
    select: Option<&'a Predicate<'a>>,
    asked: AtomicU64,
    has_taken: AtomicBool,
    has_failed: AtomicBool,
}

impl<'a> Choice<'a> {
    pub(super) fn new(
        patterns: &'a Selection,
        exclude: Option<&'a Predicate<'a>>,
        select: Option<&'a Predicate<'a>>,
    ) -> Self {
        let (asked, has_taken, has_failed) = Default::default();
        Self { patterns, exclude, select, asked, has_taken, has_failed }
    }

    /// An exclusion prunes; an inclusion cannot, because it may match below.
    pub(super) fn decide(&self, path: &[u8], kind: Kind) -> Decision {
        let is_directory = kind == Kind::Directory;
        if self.prunes(path, is_directory) {
            return Decision::Prune;
        }
        let is_root = path.is_empty() && is_directory;
        self.asked.fetch_add(u64::from(!is_root), Relaxed);
        if !self.patterns.includes(path, is_directory) {
            return Decision::Skip;
        }
        match self.says(self.select, path) {
            Some(Some(false)) => return Decision::Skip,
            Some(None) => return Decision::Prune,
            Some(Some(true)) | None => {}
        }
        if !is_root && !self.has_taken.load(Relaxed) {
            self.has_taken.store(true, Relaxed);
        }
        Decision::Take
    }

    /// Whether a path is taken that no walk leads to: directories above it may be left out.
    pub(super) fn takes_below(&self, path: &[u8], kind: Kind) -> bool {
        !directories_above(path).any(|above| self.prunes(above, true))
            && self.decide(path, kind) == Decision::Take
    }

    fn prunes(&self, path: &[u8], is_directory: bool) -> bool {
        self.has_failed()
            || self.patterns.excludes(path, is_directory)
            || matches!(self.says(self.exclude, path), Some(None | Some(true)))
    }

    /// The answer of a predicate, if there is one.
    fn says(&self, predicate: Option<&Predicate<'_>>, path: &[u8]) -> Option<Option<bool>> {
        predicate.map(|predicate| self.noted(predicate(path)))
    }

    /// Whether there is anything that could leave a path out.
    pub(super) fn is_selective(&self) -> bool {
        !self.patterns.is_all() || self.exclude.is_some() || self.select.is_some()
    }

    /// The result of a callback of the caller; `None` if it failed, which ends the run.
    pub(super) fn noted<T>(&self, given: Option<T>) -> Option<T> {
        if given.is_none() {
            self.has_failed.store(true, Relaxed);
        }
        given
    }

    /// Resets the counts of checked and selected paths.
    pub(super) fn forget(&self) {
        self.asked.store(0, Relaxed);
        self.has_taken.store(false, Relaxed);
    }

    /// Whether a callback of the caller failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// The report if nothing was selected.
    pub(super) fn nothing(&self) -> Option<NothingSelected> {
        self.nothing_of(self.asked.load(Relaxed))
    }

    /// The same, if this many paths were reached: more may have been checked, or one of them
    /// several times.
    pub(super) fn nothing_of(&self, asked: u64) -> Option<NothingSelected> {
        if self.has_taken.load(Relaxed) {
            return None;
        }
        // A predicate that was asked about nothing took all that there was.
        let is_error = self.patterns.has_inclusions() || (self.select.is_some() && asked > 0);
        Some(NothingSelected { asked, is_error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Patterns;

    fn selection(include: &[&str], exclude: &[&str]) -> Selection {
        Selection::of(Patterns::new(include).unwrap(), Patterns::new(exclude).unwrap())
    }

    #[test]
    fn patterns_and_predicates_select_together_and_exclusions_come_first() {
        let patterns = selection(&["*.jpg"], &["tmp"]);
        let asked = std::sync::Mutex::new(Vec::new());
        let exclude: Predicate<'_> = Box::new(|path| Some(path.ends_with(b"no.jpg")));
        let select: Predicate<'_> = Box::new(|path| {
            asked.lock().unwrap().push(path.to_vec());
            Some(!path.starts_with(b"b"))
        });
        let choice = Choice::new(&patterns, Some(&exclude), Some(&select));
        for (path, decision) in [
            (&b"tmp"[..], Decision::Prune),
            (b"no.jpg", Decision::Prune),
            (b"a.txt", Decision::Skip),
            (b"b.jpg", Decision::Skip),
        ] {
            assert_eq!(choice.decide(path, Kind::File), decision);
        }
        assert_eq!(choice.nothing(), Some(NothingSelected { asked: 2, is_error: true }));
        assert_eq!(choice.decide(b"a.jpg", Kind::File), Decision::Take);
        assert_eq!(choice.nothing(), None);
        assert!(
            !choice.takes_below(b"x/tmp/a.jpg", Kind::File) && choice.takes_below(b"x/a.jpg", Kind::File)
        );
        assert_eq!(*asked.lock().unwrap(), [&b"b.jpg"[..], b"a.jpg", b"x/a.jpg"]);
    }

    #[test]
    fn after_a_predicate_failed_nothing_is_asked_or_taken() {
        let patterns = selection(&[], &[]);
        let calls = AtomicU64::new(0);
        let select: Predicate<'_> = Box::new(|_| {
            calls.fetch_add(1, Relaxed);
            None
        });
        let choice = Choice::new(&patterns, None, Some(&select));
        assert_eq!([choice.decide(b"a", Kind::File), choice.decide(b"b", Kind::File)], [Decision::Prune; 2]);
        assert!(choice.has_failed() && calls.load(Relaxed) == 1);
    }

    #[test]
    fn that_nothing_was_taken_is_an_error_only_where_something_was_asked_for() {
        let is_error = |include: &[&str], exclude: &[&str], paths: &[&[u8]]| {
            let patterns = selection(include, exclude);
            let choice = Choice::new(&patterns, None, None);
            choice.decide(b"", Kind::Directory);
            for path in paths {
                choice.decide(path, Kind::File);
            }
            choice.nothing().map(|nothing| nothing.is_error)
        };
        assert_eq!(is_error(&[], &[], &[]), Some(false), "an empty tree");
        assert_eq!(is_error(&[], &["a"], &[b"a"]), Some(false), "left out on purpose");
        assert_eq!(is_error(&["b"], &["a"], &[b"a"]), Some(true));
        assert_eq!(is_error(&["b"], &[], &[b"b"]), None);
        let patterns = selection(&[], &[]);
        let none: Predicate<'_> = Box::new(|_| Some(false));
        let choice = Choice::new(&patterns, None, Some(&none));
        assert_eq!(choice.nothing(), Some(NothingSelected { asked: 0, is_error: false }));
        choice.decide(b"a", Kind::File);
        assert_eq!(choice.nothing(), Some(NothingSelected { asked: 1, is_error: true }));
    }
}
