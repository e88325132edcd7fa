//! The rules of the repository, each in a module of its own.
//!
//! A rule is a function from the [`Repository`] in memory to violations, so that its tests hold a
//! few lines of text that break it. Nothing here changes a file, and there is no way to switch a
//! rule off for one place: a rule that is wrong is changed for all.

mod attributes;
mod documents;
mod layers;
mod lengths;
mod links;
mod manifests;
mod modules;
mod repository;
mod retired;
mod tokens;
mod types;
mod way_out;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::Result;
use repository::Repository;

/// One place where a rule does not hold.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    /// Relative to the root of the repository.
    path: String,
    /// From 1; 0 where the whole file is meant.
    line: usize,
    message: String,
}

impl Violation {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}", self.path, self.message),
            line => write!(out, "{}:{line}: {}", self.path, self.message),
        }
    }
}

type Rule = fn(&Repository) -> Vec<Violation>;

const RULES: &[Rule] = &[
    attributes::check,
    documents::check,
    layers::check,
    lengths::check,
    links::check,
    manifests::check,
    modules::check,
    retired::check,
    types::check,
    way_out::check,
    words::check,
];

/// Checks every rule on the repository around `folder`; sorted by path and line.
///
/// # Errors
/// Returns an error if git does not list the files, or a Rust file or manifest cannot be read or
/// parsed.
pub(crate) fn check_repository(folder: &Path) -> Result<Vec<Violation>> {
    let repository = Repository::around(folder)?;
    let mut violations: Vec<Violation> = RULES.iter().flat_map(|rule| rule(&repository)).collect();
    violations.sort();
    Ok(violations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let violations = check_repository(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }

    #[test]
    fn a_violation_names_file_and_line() {
        assert_eq!(Violation::new("a.rs", 3, "is wrong").to_string(), "a.rs:3: is wrong");
        assert_eq!(Violation::new("a.rs", 0, "is wrong").to_string(), "a.rs: is wrong");
    }
}
