//! One capability, one meaning of a name: no type is declared twice in the folder of a capability.
//!
//! Types of tests are left out, and so are those of bodies (`impl`, functions), which nothing else
//! can name.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Violation;
use super::layers::{CAPABILITIES, LIBRARY};
use super::repository::Repository;
use super::tokens::{attribute_at, group, ident, line};

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for capability in CAPABILITIES {
        let folder = format!("{LIBRARY}{capability}/");
        let mut first: BTreeMap<String, String> = BTreeMap::new();
        for (path, tokens) in repository.rust.iter().filter(|(path, _)| is_of(path, &folder)) {
            for (name, line) in types(tokens) {
                let place = format!("{path}:{line}");
                if let Some(before) = first.get(&name) {
                    let message =
                        format!("`{capability}` has the type `{name}` already, at {before}: name one anew");
                    violations.push(Violation::new(path, line, message));
                } else {
                    first.insert(name, place);
                }
            }
        }
    }
    violations
}

/// Whether a file is in the folder, and is not only for tests.
fn is_of(path: &str, folder: &str) -> bool {
    path.starts_with(folder) && !path.ends_with("/tests.rs") && !path.contains("/tests/")
}

/// The types that a module declares, modules in it included, each with its line.
fn types(tokens: &TokenStream) -> Vec<(String, usize)> {
    let level: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let (mut found, mut index, mut is_test) = (Vec::new(), 0, false);
    while index < level.len() {
        if let Some(attribute) = attribute_at(&level, index) {
            let text = attribute.tokens.to_string();
            is_test |= attribute.name().as_deref() == Some("cfg") && text.contains("test");
            index += 2 + usize::from(attribute.inner);
            continue;
        }
        let keyword = ident(level.get(index)).unwrap_or_default();
        match (keyword.as_str(), ident(level.get(index + 1))) {
            ("struct" | "enum" | "union" | "trait" | "type", Some(name)) if !is_test => {
                found.push((name, line(&level[index])));
                index += 1;
            }
            ("mod", Some(_)) if !is_test => {
                let body = group(level.get(index + 2), Delimiter::Brace);
                found.extend(body.map(|body| types(&body.stream())).unwrap_or_default());
                index += 1;
            }
            _ => {}
        }
        is_test = is_test && !ends_item(&level[index.min(level.len() - 1)]);
        index += 1;
    }
    found
}

/// Whether an item ends with this token.
fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let found = check(&Repository::of(files));
        found.iter().map(|violation| (violation.path.clone(), violation.line)).collect()
    }

    #[test]
    fn a_type_name_that_stands_twice_in_a_capability_is_found() {
        let first = ("crates/stook/src/pack/a.rs", "/// A.\npub(crate) struct Held<'a> { a: &'a str }\n");
        for declared in [
            "struct Held;",
            "enum Held { A }",
            "pub trait Held: Send {}",
            "type Held = u8;",
            "mod b { pub struct Held(u8); }",
            "#[derive(Debug)]\n#[cfg(unix)] struct Held;",
            "#[cfg(test)] use a::b; struct Held;",
        ] {
            let found = lines(&[first, ("crates/stook/src/pack/read/b.rs", declared)]);
            assert_eq!(found.len(), 1, "{declared}");
            assert_eq!(found[0].0, "crates/stook/src/pack/read/b.rs", "{declared}");
        }
    }

    #[test]
    fn names_of_other_capabilities_of_tests_and_in_bodies_are_free() {
        let first = ("crates/stook/src/pack/a.rs", "struct Held;\n");
        for (path, text) in [
            ("crates/stook/src/archive/a.rs", "struct Held;"),
            ("crates/stook/src/tree/a.rs", "struct Held;"),
            ("crates/stook/tests/it/pack/a.rs", "struct Held;"),
            ("crates/stook/src/pack/read/tests.rs", "struct Held;"),
            ("crates/stook/src/pack/b.rs", "#[cfg(test)]\nmod tests { struct Held; }"),
            ("crates/stook/src/pack/b.rs", "#[cfg(test)]\n#[derive(Debug)]\nstruct Held { a: u8 }"),
            ("crates/stook/src/pack/b.rs", "impl Iterator for A { type Held = u8; }"),
            ("crates/stook/src/pack/b.rs", "fn f() { struct Held; }"),
            ("crates/stook/src/pack/b.rs", "enum A { Held(u8) }"),
        ] {
            assert_eq!(lines(&[first, (path, text)]), [], "{path}: {text}");
        }
    }

    #[test]
    fn what_follows_a_test_module_is_looked_at() {
        let text = "struct Held;\n#[cfg(test)]\nmod tests { struct A; }\nstruct Held;\n";
        assert_eq!(lines(&[("crates/stook/src/pack/a.rs", text)]).len(), 1);
    }
}
