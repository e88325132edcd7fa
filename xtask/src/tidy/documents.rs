//! The documents that the project promises are there.

use super::Violation;
use super::repository::Repository;

const PROMISED: &[&str] = &[
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "docs/ARCHITECTURE.md",
    "docs/BENCHMARKS.md",
    "docs/GLOSSARY.md",
    "docs/formats/pack-v1.md",
    "docs/internals/dependencies.md",
];

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let written = |path: &str| repository.texts.get(path).is_some_and(|text| !text.trim().is_empty());
    let missing = PROMISED.iter().filter(|path| !written(path));
    missing.map(|path| Violation::new(path, 0, "is missing or empty")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_empty_document_is_found() {
        let mut files: Vec<(&str, &str)> = PROMISED.iter().map(|path| (*path, "Text.\n")).collect();
        assert_eq!(check(&Repository::of(&files)), []);
        files[0].1 = "\n";
        files.pop();
        assert_eq!(check(&Repository::of(&files)).len(), 2);
    }
}
