//! Patterns on paths and keys.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Why patterns cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PatternError {}

/// Patterns, of which a path matches if it matches one.
///
/// `*` and `?` stand for what is within a name, `**` for any number of directories, `[a-z]` for one of these characters,
/// `{a,b}` for either, and `\` takes what follows as it is. A pattern without a slash is matched against the last name of a
/// path, wherever it is; one with a slash against all of it, from the root on, and a slash at its front says just that.
///
/// ```
/// use stook::names::Patterns;
///
/// let patterns = Patterns::new(["*.jpg", "/top", "a/**"]).unwrap();
/// assert!(patterns.matches(b"x/y/z.jpg") && patterns.matches(b"top") && patterns.matches(b"a/b/c"));
/// assert!(!patterns.matches(b"x/top") && !patterns.matches(b"a"));
/// ```
#[derive(Debug, Clone)]
pub struct Patterns {
    set: GlobSet,
    texts: Vec<String>,
}

impl Patterns {
    /// The patterns of these texts.
    ///
    /// # Errors
    /// When one of them is none, or is empty.
    pub fn new<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Result<Self, PatternError> {
        let mut set = GlobSetBuilder::new();
        let mut kept = Vec::new();
        for text in texts {
            let text = text.as_ref();
            let anywhere = match text.contains('/') {
                true => text.trim_start_matches('/').to_owned(),
                false => format!("**/{text}"),
            };
            if anywhere.is_empty() || text.is_empty() {
                let error = format!("{text:?} is not a pattern; expected one like *.jpg, /top or 2024/**");
                return Err(PatternError(error));
            }
            let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
            let wrong = |error: globset::Error| {
                PatternError(format!(
                    "{text:?} is not a pattern: {}; `\\` before a character takes it as it is",
                    error.kind()
                ))
            };
            set.add(glob.map_err(wrong)?);
            kept.push(text.to_owned());
        }
        let set = set.build();
        let set =
            set.map_err(|error| PatternError(format!("these patterns cannot be used together: {error}")))?;
        Ok(Self { set, texts: kept })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// What they were made of.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Whether a path matches one of them.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.set.is_match(OsStr::from_bytes(path))
    }
}

/// Which paths are taken: those that an inclusion matches (all, where there is none) and no exclusion does.
///
/// A directory that is left out is left out with all that is in it.
#[derive(Debug, Clone)]
pub struct Selection {
    include: Patterns,
    exclude: Patterns,
}

impl Selection {
    /// What any of `include` matches (everything, where there is none) and none of `exclude` does.
    pub fn of(include: Patterns, exclude: Patterns) -> Self {
        Self { include, exclude }
    }

    /// Whether all is taken.
    pub fn is_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether a path is taken, by itself: directories above it may be left out.
    pub fn takes(&self, path: &[u8]) -> bool {
        !self.excludes(path) && (self.include.is_empty() || self.include.matches(path))
    }

    /// Whether a path is taken, and no directory above it is left out.
    pub fn takes_below(&self, path: &[u8]) -> bool {
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        self.takes(path) && !above.filter_map(|(at, _)| path.get(..at)).any(|above| self.excludes(above))
    }

    /// Whether a path is left out by name: a directory so with all that is in it.
    pub fn excludes(&self, path: &[u8]) -> bool {
        self.exclude.matches(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(include: &[&str], exclude: &[&str]) -> Selection {
        Selection::of(Patterns::new(include).unwrap(), Patterns::new(exclude).unwrap())
    }

    #[test]
    fn patterns_match_names_anywhere_and_paths_from_the_root() {
        let jpg = selection(&["*.jpg"], &[]);
        assert!(jpg.takes(b"a/b/c.jpg") && jpg.takes(b"c.jpg") && !jpg.takes(b"c.jpg/d"));
        let one = selection(&["/a/*"], &["b"]);
        assert!(one.takes(b"a/c") && !one.takes(b"a/b") && !one.takes(b"x/a/c") && !one.takes(b"a/c/d"));
        assert!(selection(&[], &[]).takes(b"\xff\n") && selection(&["/*"], &[]).takes(b"\xff\n"));
        assert!(!selection(&["/*"], &[]).takes(b"a/b"));
    }

    #[test]
    fn what_is_in_a_directory_that_is_left_out_is_left_out() {
        let some = selection(&[], &["cache"]);
        assert!(
            !some.takes_below(b"a/cache/b/c") && some.takes(b"a/cache/b/c") && some.takes_below(b"a/caches")
        );
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_the_pattern() {
        for wrong in ["[a", "", "/", "//", "{a"] {
            let error = Patterns::new([wrong]).expect_err(wrong).to_string();
            assert!(error.contains(&format!("{wrong:?} is not a pattern")), "{error}");
        }
    }
}
