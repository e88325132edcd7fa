//! `unsafe` is only where the architecture allows it, a lint is silenced only with a reason, and no
//! test is disabled.

use proc_macro2::{Delimiter, TokenStream};

use super::Violation;
use super::repository::Repository;
use super::tokens::{Attribute, attributes, each_level, group, ident, line};

/// Where `unsafe` may stand: the engine's system calls, the lock of sparse files, the question to a
/// loop device, the boundary to Python, and the opening of LMDB, which has no safe interface, in
/// the benchmarks.
const UNSAFE_FOLDERS: &[&str] = &[
    "crates/stook/src/engine/",
    "crates/stook/src/sparse/lock.rs",
    "crates/stook/src/device/loop_device.rs",
    "crates/stook-python/src/",
    "crates/stook-peers/src/pack/lmdb.rs",
    "crates/stook-testing/src/bin/forks.rs",
    "crates/stook/tests/remote_fork.rs",
    "crates/stook/tests/wiped.rs",
];

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, tokens) in &repository.rust {
        let unsafe_allowed = UNSAFE_FOLDERS.iter().any(|folder| path.starts_with(folder));
        each_level(tokens, &mut |level| {
            for token in level {
                let name = ident(Some(token));
                if !unsafe_allowed && matches!(name.as_deref(), Some("unsafe" | "unsafe_code")) {
                    let message = format!("unsafe code may only stand under {}", UNSAFE_FOLDERS.join(" or "));
                    violations.push(Violation::new(path, line(token), message));
                }
            }
            for attribute in attributes(level) {
                violations.extend(fault(&attribute).map(|text| Violation::new(path, attribute.line, text)));
            }
        });
    }
    violations
}

/// What is wrong with an attribute.
fn fault(attribute: &Attribute) -> Option<&'static str> {
    match attribute.name()?.as_str() {
        "ignore" => Some("a test is never ignored: mend it, or delete it"),
        "doc" => {
            let switched_off = attribute.literal()?.trim_start().starts_with("```ignore");
            switched_off.then_some("an example is never ignored: make it compile, or mark it as `text`")
        }
        "allow" | "expect" | "cfg_attr" => {
            silences_without_reason(&attribute.tokens).then_some("a lint is silenced without a `reason`")
        }
        _ => None,
    }
}

/// Whether there is an `allow(…)` or `expect(…)` without a `reason` in it.
fn silences_without_reason(tokens: &TokenStream) -> bool {
    let mut found = false;
    each_level(tokens, &mut |level| {
        for pair in level.windows(2) {
            let silences = matches!(ident(pair.first()).as_deref(), Some("allow" | "expect"));
            if let Some(lints) = group(pair.last(), Delimiter::Parenthesis).filter(|_| silences) {
                found |= !lints
                    .stream()
                    .into_iter()
                    .any(|token| ident(Some(&token)).is_some_and(|name| name == "reason"));
            }
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Repository::of(&[(path, text)])).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn unsafe_outside_its_folders_is_found_also_in_macros() {
        let text = "fn f() {\n    unsafe { g() }\n}\nm! { fn h() {\n unsafe {} } }\n";
        assert_eq!(lines("crates/stook/src/pack/mod.rs", text), [2, 5]);
        assert_eq!(lines("crates/stook/src/engine/uring.rs", text), [0; 0]);
    }

    #[test]
    fn permission_for_unsafe_outside_its_folders_is_found() {
        let text = "#![expect(unsafe_code, reason = \"speed\")]\n";
        assert_eq!(lines("crates/stook-cli/src/main.rs", text), [1]);
    }

    #[test]
    fn the_word_unsafe_in_a_comment_or_string_is_no_unsafe_code() {
        assert_eq!(lines("a.rs", "//! unsafe\nconst A: &str = \"unsafe\"; // unsafe\n"), [0; 0]);
    }

    #[test]
    fn a_silenced_lint_without_reason_is_found() {
        assert_eq!(lines("a.rs", "#[allow(dead_code)]\nfn f() {}\n"), [1]);
        assert_eq!(lines("a.rs", "fn f() {\n    #![expect(dead_code)]\n}\n"), [2]);
        assert_eq!(lines("a.rs", "#[cfg_attr(test, allow(dead_code))]\nfn f() {}\n"), [1]);
        assert_eq!(lines("a.rs", "#[expect(dead_code, reason = \"used on macOS\")]\nfn f() {}\n"), [0; 0]);
        assert_eq!(lines("a.rs", "fn f() { x.expect(\"a call\"); allow(1); }\n"), [0; 0]);
    }

    #[test]
    fn an_ignored_test_is_found_whatever_its_reason() {
        assert_eq!(lines("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n"), [2]);
        assert_eq!(lines("a.rs", "mod tests {\n    #[test]\n    #[ignore]\n    fn f() {}\n}\n"), [3]);
    }

    #[test]
    fn an_ignored_example_is_found() {
        assert_eq!(lines("a.rs", "/// Text.\n/// ```ignore\n/// f()\n/// ```\nfn f() {}\n"), [2]);
        assert_eq!(lines("a.rs", "/// ```text\n/// f()\n/// ```\nfn f() {}\n"), [0; 0]);
    }
}
