//! Which paths of a pack or an archive come out of it.

use std::cell::Cell;
use std::collections::HashSet;

use super::{Error, Nothing, Result};
use crate::names::Selection;
use crate::ops::choice::{Choice, Predicate};
use crate::pack::{FileKind, Key, Pack, RecordHead, is_in_groups};
use crate::walk::Kind;

/// Heads read in one batch.
const BATCH: usize = 4096;

/// What paths begin with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Prefix {
    /// Anything.
    #[default]
    Any,
    /// These bytes.
    Path(Vec<u8>),
    /// Numeric keys are meant, which are no paths.
    Numbers,
}

impl Prefix {
    /// What a key that was given as a prefix means.
    pub fn of(key: &Key) -> Self {
        key.as_bytes().map_or(Self::Numbers, |path| Self::Path(path.to_vec()))
    }
}

/// Which paths are unpacked: those that every part of it takes. The root always is.
#[derive(Default)]
pub struct PathFilter<'a> {
    /// Only these groups of a pack; all if empty.
    pub groups: Vec<String>,
    /// Only paths that begin so.
    pub prefix: Prefix,
    /// Only paths that these patterns take.
    pub patterns: Selection,
    /// Of these, which are left out: directories with all that is in them.
    pub exclude: Option<Predicate<'a>>,
    /// Of the rest, which are unpacked.
    pub select: Option<Predicate<'a>>,
}

impl std::fmt::Debug for PathFilter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("PathFilter");
        shown.field("groups", &self.groups).field("prefix", &self.prefix);
        shown.field("patterns", &self.patterns).finish_non_exhaustive()
    }
}

impl PathFilter<'_> {
    /// Whether a group is among those that are meant.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        is_in_groups(&self.groups, group)
    }

    /// The directories in a pack of which their kind decides whether they are taken. `go_on` ends
    /// it by returning `false`.
    ///
    /// # Errors
    /// I/O errors, [`Error::Interrupted`]. Damage is reported when the records are read.
    pub(crate) fn directories(
        &self,
        pack: &Pack,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<HashSet<Vec<u8>>> {
        let (mut found, mut batch) = (HashSet::new(), Vec::new());
        let prefix = match &self.prefix {
            Prefix::Any => Vec::new(),
            Prefix::Path(prefix) => Key::bytes(prefix)?.sort_form().to_vec(),
            Prefix::Numbers => return Ok(found),
        };
        if !self.patterns.asks_for_kinds() {
            return Ok(found);
        }
        let mut entries = pack.keys(&prefix)?;
        loop {
            if !go_on() {
                return Err(Error::Interrupted);
            }
            let next = match entries.next().transpose() {
                Err(error) if error.damage().is_some() => continue,
                next => next?,
            };
            let is_last = next.is_none();
            batch.extend(next.filter(|entry| {
                let path = entry.key.as_bytes();
                self.has_group(pack.group_of_entry(entry))
                    && path.is_some_and(|path| self.patterns.depends_on_kind(path))
            }));
            if batch.len() == BATCH || is_last {
                for (entry, head) in batch.iter().zip(pack.heads(&batch)?) {
                    let is_directory =
                        |head: RecordHead| head.attributes.file_kind() == Some(FileKind::Directory);
                    if head.is_ok_and(is_directory) {
                        found.extend(entry.key.as_bytes().map(<[u8]>::to_vec));
                    }
                }
                batch.clear();
            }
            if is_last {
                return Ok(found);
            }
        }
    }
}

/// Whether a path is that of a directory.
type IsDirectory<'a> = Box<dyn Fn(&[u8]) -> bool + 'a>;

/// A filter at work, and what it has come to so far.
pub(crate) struct Filtering<'a> {
    filter: &'a PathFilter<'a>,
    choice: Choice<'a>,
    /// Called only where a pattern makes it decide.
    is_directory: IsDirectory<'a>,
    /// Whether there was a path that begins as it should.
    has_met: Cell<bool>,
}

impl<'a> Filtering<'a> {
    pub(crate) fn new(filter: &'a PathFilter<'a>, is_directory: impl Fn(&[u8]) -> bool + 'a) -> Self {
        let choice = Choice::new(&filter.patterns, filter.exclude.as_ref(), filter.select.as_ref());
        Self { filter, choice, is_directory: Box::new(is_directory), has_met: Cell::new(false) }
    }

    /// Whether a path is taken.
    pub(crate) fn takes(&self, path: &[u8]) -> bool {
        // The root is unpacked whatever is asked for, and is never asked for itself.
        if path.is_empty() {
            return true;
        }
        let begins = match &self.filter.prefix {
            Prefix::Any => true,
            Prefix::Path(prefix) => path.starts_with(prefix),
            Prefix::Numbers => false,
        };
        self.has_met.set(self.has_met.get() || begins);
        let is_directory = || self.filter.patterns.depends_on_kind(path) && (self.is_directory)(path);
        begins && self.choice.takes_below(path, if is_directory() { Kind::Directory } else { Kind::File })
    }

    /// Whether a predicate failed: nothing is taken since then.
    pub(crate) fn has_failed(&self) -> bool {
        self.choice.has_failed()
    }

    /// Why nothing was taken, if nothing was.
    pub(crate) fn nothing(&self) -> Option<Nothing> {
        let nothing = self.choice.nothing()?;
        let asks = !self.filter.groups.is_empty() || self.filter.prefix != Prefix::Any;
        Some(match self.has_met.get() {
            _ if nothing.is_error => Nothing::Missing,
            // Nothing but exclusions can have left it out.
            true => Nothing::Excluded,
            false if asks => Nothing::Missing,
            false => Nothing::Empty,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Patterns;

    fn patterns(include: &[&str], exclude: &[&str]) -> Selection {
        Selection::of(Patterns::new(include).unwrap(), Patterns::new(exclude).unwrap())
    }

    fn taken(filter: &PathFilter<'_>) -> (Vec<&'static str>, Option<Nothing>) {
        let filtering = Filtering::new(filter, |path| path == b"a" || path == b"a/b");
        let all = ["", "a", "a/b", "a/b/1.jpg", "a/2.jpg", "c.txt"];
        let taken = all.into_iter().filter(|path| filtering.takes(path.as_bytes()) && !path.is_empty());
        (taken.collect(), filtering.nothing())
    }

    #[test]
    fn a_path_is_taken_if_every_part_takes_it() {
        let all = PathFilter::default();
        assert_eq!(taken(&all), (vec!["a", "a/b", "a/b/1.jpg", "a/2.jpg", "c.txt"], None));
        let some = PathFilter {
            prefix: Prefix::Path(b"a/".to_vec()),
            patterns: patterns(&["*.jpg"], &["b/"]),
            ..PathFilter::default()
        };
        assert_eq!(taken(&some), (vec!["a/2.jpg"], None));
        let select: Predicate<'_> = Box::new(|path| Some(path.ends_with(b".jpg")));
        let exclude: Predicate<'_> = Box::new(|path| Some(path == b"a/b"));
        let called = PathFilter { select: Some(select), exclude: Some(exclude), ..PathFilter::default() };
        assert_eq!(taken(&called), (vec!["a/2.jpg"], None));
    }

    #[test]
    fn nothing_is_missing_only_where_something_was_asked_for() {
        let with = |patterns| PathFilter { patterns, ..PathFilter::default() };
        let never = || -> Option<Predicate<'_>> { Some(Box::new(|_| Some(false))) };
        let always = || -> Option<Predicate<'_>> { Some(Box::new(|_| Some(true))) };
        let begins = |prefix: &str| Prefix::Path(prefix.into());
        let all = |prefix| PathFilter { prefix, patterns: patterns(&[], &["*"]), ..PathFilter::default() };
        for (filter, nothing) in [
            (with(patterns(&["*.png"], &[])), Nothing::Missing),
            (with(patterns(&["*.png"], &["*"])), Nothing::Missing),
            (with(patterns(&[], &["*"])), Nothing::Excluded),
            (all(begins("a/")), Nothing::Excluded),
            (all(begins("x")), Nothing::Missing),
            (PathFilter { prefix: begins("x"), ..PathFilter::default() }, Nothing::Missing),
            (PathFilter { prefix: Prefix::Numbers, ..PathFilter::default() }, Nothing::Missing),
            (PathFilter { select: never(), ..PathFilter::default() }, Nothing::Missing),
            (PathFilter { exclude: always(), ..PathFilter::default() }, Nothing::Excluded),
            (PathFilter { exclude: always(), select: never(), ..PathFilter::default() }, Nothing::Excluded),
        ] {
            assert_eq!(taken(&filter), (vec![], Some(nothing)), "{filter:?}");
        }
        let none = PathFilter { select: never(), ..PathFilter::default() };
        assert_eq!(Filtering::new(&none, |_| false).nothing(), Some(Nothing::Empty));
    }
}
