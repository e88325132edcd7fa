//! `--include` and `--exclude`: which paths a command takes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::exit::UsageError;

/// Patterns on paths relative to the root.
#[derive(Debug)]
pub struct Selection {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Selection {
    /// Takes what any of `include` matches (everything, if there is none) and none of `exclude`.
    ///
    /// # Errors
    /// A [`UsageError`] when a pattern is not one.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, UsageError> {
        let include = (!include.is_empty()).then(|| patterns(include)).transpose()?;
        Ok(Self { include, exclude: patterns(exclude)? })
    }

    /// Whether a path is taken.
    pub fn takes(&self, key: &[u8]) -> bool {
        !self.excludes(key) && self.include.as_ref().is_none_or(|set| set.is_match(path(key)))
    }

    /// Whether a path is left out by name: a directory so with all that is in it.
    pub fn excludes(&self, key: &[u8]) -> bool {
        self.exclude.is_match(path(key))
    }
}

fn path(key: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(key))
}

/// A pattern without a slash matches the last part of a path anywhere, as people expect of `*.jpg`.
fn patterns(patterns: &[String]) -> Result<GlobSet, UsageError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let anywhere = if pattern.contains('/') { pattern.clone() } else { format!("**/{pattern}") };
        let glob = GlobBuilder::new(anywhere.trim_start_matches('/')).literal_separator(true).build();
        set.add(
            glob.map_err(|error| UsageError::new(format!("{pattern:?} is not a pattern: {}", error.kind())))?,
        );
    }
    set.build().map_err(|error| UsageError::new(format!("these patterns cannot be used together: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(include: &[&str], exclude: &[&str]) -> Selection {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        Selection::new(&owned(include), &owned(exclude)).unwrap()
    }

    #[test]
    fn patterns_match_names_anywhere_and_paths_from_the_root() {
        let jpg = selection(&["*.jpg"], &[]);
        assert!(jpg.takes(b"a/b/c.jpg") && jpg.takes(b"c.jpg") && !jpg.takes(b"c.jpg/d"));
        let one = selection(&["/a/*"], &["b"]);
        assert!(one.takes(b"a/c") && !one.takes(b"a/b") && !one.takes(b"x/a/c") && !one.takes(b"a/c/d"));
        assert!(selection(&[], &[]).takes(b"\xff\n"));
        assert!(Selection::new(&["[".into()], &[]).is_err());
    }
}
