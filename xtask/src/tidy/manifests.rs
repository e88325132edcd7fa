//! Dependencies: versions in one place and never open, every one of a published crate explained,
//! and the crates of the workspace depending on one another only as the layers say.

use toml::{Table, Value};

use super::Violation;
use super::repository::Repository;

/// Where each dependency has its reason.
const REASONS: &str = "docs/internals/dependencies.md";

/// Crates whose users get their dependencies.
const PUBLISHED: &[&str] = &["stook", "stook-cli", "stook-mount", "stook-serve", "stook-study"];

/// Which crates of the workspace each may use, beyond its tests.
const MAY_USE: &[(&str, &[&str])] = &[
    ("stook", &[]),
    ("stook-cli", &["stook", "stook-mount", "stook-serve", "stook-study"]),
    ("stook-fuzz", &["stook", "stook-testing"]),
    ("stook-mount", &["stook"]),
    ("stook-peers", &["stook", "stook-study", "stook-testing"]),
    ("stook-python", &["stook"]),
    ("stook-serve", &["stook"]),
    ("stook-study", &["stook"]),
    ("stook-testing", &["stook"]),
    ("xtask", &[]),
];

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let explained = repository.texts.get(REASONS).map_or("", String::as_str);
    let mut violations = Vec::new();
    for (path, manifest) in &repository.manifests {
        let mut report = |message: String| violations.push(Violation::new(path, 0, message));
        if let Some(shared) =
            manifest.get("workspace").and_then(|workspace| workspace.get("dependencies")?.as_table())
        {
            shared.iter().filter_map(|(name, value)| open_version(name, value)).for_each(&mut report);
        }
        for Dependency { name, value, only_tests: _ } in dependencies(manifest) {
            version_fault(name, value).into_iter().for_each(&mut report);
        }
        let Some(package) = package_name(manifest) else { continue };
        for Dependency { name, only_tests, .. } in dependencies(manifest) {
            if only_tests {
                continue;
            }
            layer_fault(package, name).into_iter().for_each(&mut report);
            if PUBLISHED.contains(&package)
                && !name.starts_with("stook")
                && !explained.contains(&format!("`{name}`"))
            {
                report(format!("`{name}` has no line in {REASONS}: say what it is for and why this one"));
            }
        }
    }
    violations
}

fn package_name(manifest: &Table) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

struct Dependency<'a> {
    name: &'a str,
    value: &'a Value,
    only_tests: bool,
}

/// Every dependency of a package, those for single platforms among them.
fn dependencies(manifest: &Table) -> Vec<Dependency<'_>> {
    let platforms = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = platforms.filter_map(Value::as_table).chain([manifest]);
    let mut found = Vec::new();
    for table in tables {
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let entries = table.get(kind).and_then(Value::as_table).into_iter().flatten();
            found.extend(entries.map(|(name, value)| Dependency {
                name,
                value,
                only_tests: kind == "dev-dependencies",
            }));
        }
    }
    found
}

fn version_fault(name: &str, value: &Value) -> Option<String> {
    let shared = value.get("workspace").and_then(Value::as_bool) == Some(true);
    (!shared).then(|| {
        format!("`{name}` states its version here: put it under [workspace.dependencies] of the root")
    })
}

/// A dependency that any release would satisfy.
fn open_version(name: &str, value: &Value) -> Option<String> {
    let version = value.as_str().or_else(|| value.get("version")?.as_str());
    match version {
        Some(version) if version.contains('*') => {
            Some(format!("`{name}` has the version `{version}`: name one"))
        }
        None if value.get("path").is_none() => Some(format!("`{name}` has no version")),
        _ => None,
    }
}

fn layer_fault(package: &str, name: &str) -> Option<String> {
    if !(name.starts_with("stook") || name == "xtask") {
        return None;
    }
    let Some((_, allowed)) = MAY_USE.iter().find(|(of, _)| *of == package) else {
        return Some(format!("`{package}` is in no layer: add it to xtask/src/tidy/manifests.rs"));
    };
    (!allowed.contains(&name)).then(|| format!("`{package}` may not depend on `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(manifest: &str, reasons: &str) -> Vec<String> {
        let repository = Repository::of(&[("Cargo.toml", manifest), (REASONS, reasons)]);
        check(&repository).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn an_open_or_missing_version_is_found() {
        let text = "[workspace.dependencies]\na = \"*\"\nb = { version = \"1.*\" }\nc = {}\nd = \"1\"\ne = { path = \"e\" }\n";
        assert_eq!(
            messages(text, ""),
            [
                "`a` has the version `*`: name one",
                "`b` has the version `1.*`: name one",
                "`c` has no version"
            ]
        );
    }

    #[test]
    fn a_version_outside_the_root_is_found() {
        let text = "[package]\nname = \"xtask\"\n[dependencies]\na = \"1\"\nb.workspace = true\n";
        assert_eq!(messages(text, "").len(), 1);
    }

    #[test]
    fn an_unexplained_dependency_of_a_published_crate_is_found() {
        let text = "[package]\nname = \"stook\"\n[target.'cfg(unix)'.dependencies]\nlibc.workspace = true\n\
                    [dev-dependencies]\nproptest.workspace = true\n";
        assert_eq!(messages(text, "").len(), 1);
        assert_eq!(messages(text, "- `libc`: names of system calls\n"), [""; 0]);
        assert_eq!(messages(&text.replace("\"stook\"", "\"stook-peers\""), ""), [""; 0]);
    }

    #[test]
    fn a_dependency_against_the_layers_is_found() {
        let text = "[package]\nname = \"stook\"\n[dependencies]\nstook-cli.workspace = true\n\
                    [dev-dependencies]\nstook-testing.workspace = true\n";
        assert_eq!(messages(text, ""), ["`stook` may not depend on `stook-cli`"]);
        assert_eq!(messages(&text.replace("\"stook\"", "\"stook-new\""), "").len(), 1);
    }
}
