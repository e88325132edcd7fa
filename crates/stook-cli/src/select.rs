//! `--include` and `--exclude`: which paths a command takes.

pub use stook::names::Selection;
use stook::names::{PatternError, Patterns};

use crate::exit::UsageError;

/// What a pattern is, for the help of a command that takes some.
pub const PATTERNS: &str = "\
Patterns mean the same in every command: `*` and `?` stand for what is within a
name, `**` for any number of directories, `[ab]` and `{a,b}` for one of several.
A pattern without a slash is matched against the last name of a path, wherever
that is; one with a slash against the whole path: `/*` is the top, `a/**` what
is in a. A slash at the end means directories only, with all below them: `a/`.
`\\xNN` is the byte with that number, as `stook ls` prints it.";

/// Which paths are taken.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SelectArgs {
    /// Take only paths that match; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Leave out paths that match, directories with all that is in them
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
}

impl SelectArgs {
    /// Selects what matches any inclusion (everything, if there are none) and no exclusion.
    ///
    /// # Errors
    /// Returns an error if a pattern is invalid.
    pub fn selection(&self) -> Result<Selection, UsageError> {
        Ok(Selection::of(patterns("--include", &self.include)?, patterns("--exclude", &self.exclude)?))
    }
}

/// The patterns that an option gave.
///
/// # Errors
/// Returns an error if one is invalid.
pub fn patterns(option: &str, texts: &[String]) -> Result<Patterns, UsageError> {
    Patterns::new(texts).map_err(|error: PatternError| UsageError::new(format!("{option}: {error}")))
}
