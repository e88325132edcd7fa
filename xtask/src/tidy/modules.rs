//! Every module states its purpose, and every Rust file is part of a crate.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Violation;
use super::repository::Repository;
use super::tokens::{Attribute, attribute_at, attributes, group, ident, is_ident, is_punct};

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    let reachable = reachable(repository);
    for (path, tokens) in &repository.rust {
        if !starts_with_doc(tokens) {
            let message = "starts without `//!`: say what the module is for and what it never does";
            violations.push(Violation::new(path, 0, message));
        }
        if !reachable.contains(path) {
            let message = "no crate contains it: declare it with `mod`, or delete it";
            violations.push(Violation::new(path, 0, message));
        }
    }
    violations
}

fn starts_with_doc(tokens: &TokenStream) -> bool {
    let level: Vec<TokenTree> = tokens.clone().into_iter().collect();
    attributes(&level)
        .take_while(|attribute| attribute.inner)
        .any(|attribute| attribute.name().as_deref() == Some("doc"))
}

/// Every file that some crate root leads to.
fn reachable(repository: &Repository) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<(String, String)> = roots(repository);
    while let Some((path, folder)) = waiting.pop() {
        let Some(tokens) = repository.rust.get(&path) else { continue };
        if reached.insert(path) {
            waiting.extend(declared(tokens, &folder, repository));
        }
    }
    reached
}

/// The crate roots, each with the folder of its modules: Cargo's default ones, and those that a
/// manifest names.
fn roots(repository: &Repository) -> Vec<(String, String)> {
    let mut roots = Vec::new();
    for (manifest_path, manifest) in &repository.manifests {
        let package = manifest_path.trim_end_matches("Cargo.toml");
        let mut files: Vec<String> =
            ["src/lib.rs", "src/main.rs", "build.rs"].iter().map(|file| format!("{package}{file}")).collect();
        for folder in ["src/bin/", "tests/", "examples/", "benches/"] {
            let folder = format!("{package}{folder}");
            let inside = repository.rust.keys().filter(|path| {
                let below = path.strip_prefix(&folder);
                below.is_some_and(|below| match below.split_once('/') {
                    None => true,
                    Some((_, file)) => file == "main.rs",
                })
            });
            files.extend(inside.cloned());
        }
        files.extend(named_paths(manifest).map(|path| format!("{package}{path}")));
        roots.extend(files.into_iter().map(|path| {
            let folder = parent(&path).to_owned();
            (path, folder)
        }));
    }
    roots
}

/// The `path` of every target of a manifest.
fn named_paths(manifest: &toml::Table) -> impl Iterator<Item = &str> {
    let tables = ["lib", "bin", "test", "example", "bench"].into_iter().filter_map(|kind| manifest.get(kind));
    tables
        .flat_map(|value| match value {
            toml::Value::Array(targets) => targets.as_slice(),
            single => std::slice::from_ref(single),
        })
        .filter_map(|target| target.get("path")?.as_str())
}

/// The files that `mod name;` names, each with the folder of its own modules. `folder` is where
/// those of this file lie.
fn declared(tokens: &TokenStream, folder: &str, repository: &Repository) -> Vec<(String, String)> {
    let level: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut files = Vec::new();
    let mut path_attribute = None;
    for index in 0..level.len() {
        if let Some(attribute) = attribute_at(&level, index) {
            path_attribute = path_of(&attribute).or(path_attribute);
        }
        if is_punct(level.get(index), ';') {
            path_attribute = None;
        }
        let Some(name) = ident(level.get(index + 1)).filter(|_| is_ident(level.get(index), "mod")) else {
            continue;
        };
        let own_folder = format!("{folder}{name}/");
        if let Some(body) = group(level.get(index + 2), Delimiter::Brace) {
            files.extend(declared(&body.stream(), &own_folder, repository));
        } else if let Some(path) = path_attribute.take() {
            let path = format!("{folder}{path}");
            let own_folder = parent(&path).to_owned();
            files.push((path, own_folder));
        } else {
            let candidates = [format!("{folder}{name}.rs"), format!("{own_folder}mod.rs")];
            files.extend(
                candidates
                    .into_iter()
                    .filter(|path| repository.rust.contains_key(path))
                    .map(|path| (path, own_folder.clone())),
            );
        }
    }
    files
}

fn path_of(attribute: &Attribute) -> Option<String> {
    attribute.literal().filter(|_| attribute.name().as_deref() == Some("path"))
}

/// The folder of a path, with its `/`.
fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..=slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = "//! Text.\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Repository::of(files)).into_iter().map(|violation| violation.path).collect()
    }

    fn found_with_manifest(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("a/Cargo.toml", "[package]\nname = \"a\"\n")];
        all.extend_from_slice(files);
        found(&all)
    }

    #[test]
    fn a_module_without_doc_is_found() {
        assert_eq!(found_with_manifest(&[("a/src/lib.rs", "// Text.\nfn f() {}\n")]), ["a/src/lib.rs"]);
        assert_eq!(found_with_manifest(&[("a/src/lib.rs", "/// Text.\nfn f() {}\n")]), ["a/src/lib.rs"]);
        let doc_after_attribute = "#![no_main]\n//! Text.\n";
        assert_eq!(found_with_manifest(&[("a/src/lib.rs", doc_after_attribute)]), [""; 0]);
    }

    #[test]
    fn a_file_that_no_module_declares_is_found() {
        let root = ("a/src/lib.rs", "//! Text.\npub mod used;\n#[cfg(unix)]\nmod inner { mod deep; }\n");
        let files = [
            root,
            ("a/src/used/mod.rs", "//! Text.\nmod part;\n"),
            ("a/src/used/part.rs", DOC),
            ("a/src/inner/deep.rs", DOC),
            ("a/src/part.rs", DOC),
            ("a/src/used/lost.rs", DOC),
        ];
        assert_eq!(found_with_manifest(&files), ["a/src/part.rs", "a/src/used/lost.rs"]);
    }

    #[test]
    fn modules_beside_a_file_of_their_name_are_followed() {
        let files = [
            ("a/src/lib.rs", "//! Text.\nmod b;\n"),
            ("a/src/b.rs", "//! Text.\nmod c;\n"),
            ("a/src/b/c.rs", DOC),
        ];
        assert_eq!(found_with_manifest(&files), [""; 0]);
    }

    #[test]
    fn what_cargo_builds_by_itself_and_what_a_manifest_names_is_reachable() {
        let files = [
            ("Cargo.toml", "[[bin]]\nname = \"x\"\npath = \"targets/x.rs\"\n"),
            ("targets/x.rs", "//! Text.\n#[path = \"other.rs\"]\nmod y;\n"),
            ("targets/other.rs", DOC),
            ("tests/it/main.rs", DOC),
            ("tests/it/lost.rs", DOC),
            ("examples/show.rs", DOC),
            ("build.rs", DOC),
        ];
        assert_eq!(found(&files), ["tests/it/lost.rs"]);
    }
}
