//! Nothing but the way out (`tree/outbox`) renames, links or syncs in a user's tree: there each
//! call can fail in a test, and is recorded for the crash simulator.

use proc_macro2::TokenTree;

use super::Violation;
use super::repository::Repository;
use super::tokens::{each_level, ident, is_punct, line};

/// The published code.
const CODE: [&str; 3] = ["crates/stook/src/", "crates/stook-cli/src/", "crates/stook-python/src/"];

/// Where such calls may stand: the way out, and what has files of its own, which are in nobody's
/// tree: packs, sparse files, what a benchmark reads, and the engine, which is told what to sync.
const ALLOWED: [&str; 6] = [
    "crates/stook/src/tree/outbox/",
    "crates/stook/src/storage/",
    "crates/stook/src/sparse/",
    "crates/stook/src/bench/",
    "crates/stook/src/engine/",
    "crates/stook/src/device/tests.rs",
];

/// System calls that give a name, or make something durable.
const CALLS: [&str; 9] = [
    "renameat",
    "renameat_with",
    "linkat",
    "symlinkat",
    "mknodat",
    "fsync",
    "fdatasync",
    "syncfs",
    "sync_file_range",
];

/// The same in the standard library, after `fs::`.
const OF_FS: [&str; 2] = ["rename", "hard_link"];

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, tokens) in &repository.rust {
        let is_checked = CODE.iter().any(|code| path.starts_with(code));
        if !is_checked || ALLOWED.iter().any(|allowed| path.starts_with(allowed)) {
            continue;
        }
        each_level(tokens, &mut |level| {
            for index in 0..level.len() {
                if let Some(name) = call_at(level, index) {
                    let message = format!("`{name}` may only stand in tree/outbox, the way out");
                    violations.push(Violation::new(path, line(&level[index]), message));
                }
            }
        });
    }
    violations
}

/// The name of such a call that begins here.
fn call_at(level: &[TokenTree], index: usize) -> Option<String> {
    let name = ident(level.get(index))?;
    let is_of_fs = index >= 3
        && is_punct(level.get(index - 1), ':')
        && ident(level.get(index - 3)).is_some_and(|module| module == "fs");
    let is_meant = CALLS.contains(&name.as_str()) || is_of_fs && OF_FS.contains(&name.as_str());
    is_meant.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Repository::of(&[(path, text)])).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_name_given_or_a_sync_outside_the_way_out_is_found() {
        let text = "fn f() {\n    std::fs::rename(a, b);\n    rustix::fs::linkat(a);\n    fsync(x);\n}";
        assert_eq!(lines("crates/stook/src/copy/mod.rs", text), [2, 3, 4]);
        assert_eq!(lines("crates/stook-cli/src/x.rs", "fn f() { fs::hard_link(a, b) }"), [1]);
    }

    #[test]
    fn the_way_out_itself_storages_and_tests_may() {
        for path in [
            "crates/stook/src/tree/outbox/calls.rs",
            "crates/stook/src/storage/a.rs",
            "crates/stook/tests/it/x.rs",
        ] {
            assert!(lines(path, "fn f() { fsync(x); renameat(a) }").is_empty());
        }
        assert!(lines("crates/stook/src/a.rs", "fn f() { outbox.sync_all(d); x.rename(a) }").is_empty());
    }
}
