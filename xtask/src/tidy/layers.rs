//! The arrows of the architecture: the core never imports a capability, and capabilities never
//! import one another. Which crate may depend on which is in `manifests`.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Violation;
use super::repository::Repository;
use super::tokens::{group, ident, is_ident, is_punct, line};

pub(super) const LIBRARY: &str = "crates/stook/src/";
const CORE: &[&str] = &[
    "device", "engine", "error", "extent", "format", "hash", "names", "plan", "profile", "report", "source",
    "storage", "tree", "walk",
];
/// Operations that need several capabilities; imported by neither them nor the core.
const JOINTS: &[&str] = &["ops"];
pub(super) const CAPABILITIES: &[&str] = &["archive", "bench", "copy", "pack", "sparse", "stitch", "verify"];

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, tokens) in &repository.rust {
        let Some(module) = path.strip_prefix(LIBRARY).map(module_of).filter(|module| !module.is_empty())
        else {
            continue;
        };
        let top = module[0].clone();
        let is_joint = JOINTS.contains(&top.as_str());
        if !is_joint && !CORE.contains(&top.as_str()) && !CAPABILITIES.contains(&top.as_str()) {
            let message = format!("`{top}` is in no layer: add it to xtask/src/tidy/layers.rs");
            violations.push(Violation::new(path, 0, message));
        }
        let mut walk = PathWalk { module, found: Vec::new() };
        walk.tokens(tokens);
        for (name, line) in walk.found {
            if name != top && JOINTS.contains(&name.as_str()) {
                violations.push(Violation::new(
                    path,
                    line,
                    format!("`{top}` imports `{name}`, which stands above it"),
                ));
            } else if !is_joint && name != top && CAPABILITIES.contains(&name.as_str()) {
                let message = if CORE.contains(&top.as_str()) {
                    format!("the core (`{top}`) imports the capability `{name}`")
                } else {
                    format!("the capability `{top}` imports the capability `{name}`: go through the core")
                };
                violations.push(Violation::new(path, line, message));
            }
        }
    }
    violations
}

/// The module that a file below `src/` holds; empty for the crate root.
fn module_of(file: &str) -> Vec<String> {
    let names = file.trim_end_matches(".rs").split('/');
    names.filter(|name| !matches!(*name, "mod" | "lib" | "main")).map(str::to_owned).collect()
}

/// Collects the top-level modules of the own crate that paths lead to.
struct PathWalk {
    /// The position of the walk.
    module: Vec<String>,
    /// The name of the module, and the line.
    found: Vec<(String, usize)>,
}

impl PathWalk {
    fn tokens(&mut self, tokens: &TokenStream) {
        let level: Vec<TokenTree> = tokens.clone().into_iter().collect();
        let mut index = 0;
        while index < level.len() {
            let module_name = ident(level.get(index + 1)).filter(|_| is_ident(level.get(index), "mod"));
            if let (Some(name), Some(body)) = (module_name, group(level.get(index + 2), Delimiter::Brace)) {
                self.module.push(name);
                self.tokens(&body.stream());
                self.module.pop();
                index += 3;
            } else if let Some(start) = self.start_of_path(&level, index) {
                index = self.path(start, &level, index + 1);
            } else {
                if let TokenTree::Group(inner) = &level[index] {
                    self.tokens(&inner.stream());
                }
                index += 1;
            }
        }
    }

    /// The module that the first name of a path means, if it is one of the same crate.
    fn start_of_path(&self, level: &[TokenTree], index: usize) -> Option<Vec<String>> {
        if !follows_colons(level, index + 1) {
            return None;
        }
        match ident(level.get(index))?.as_str() {
            "crate" | "stook" => Some(Vec::new()),
            "self" => Some(self.module.clone()),
            "super" => Some(self.module[..self.module.len().saturating_sub(1)].to_vec()),
            _ => None,
        }
    }

    /// Follows a path from the module `at`, whose next `::` is at `index`; returns the index after
    /// it.
    fn path(&mut self, mut at: Vec<String>, level: &[TokenTree], mut index: usize) -> usize {
        while follows_colons(level, index) {
            let next = level.get(index + 2);
            if let Some(names) = group(next, Delimiter::Brace) {
                self.alternatives(&at, &names.stream());
                return index + 3;
            }
            let Some(name) = ident(next) else { break };
            self.step(&mut at, name, line(&level[index + 2]));
            index += 3;
        }
        index
    }

    /// The names in the braces of `use path::{…}`.
    fn alternatives(&mut self, at: &[String], names: &TokenStream) {
        let level: Vec<TokenTree> = names.clone().into_iter().collect();
        let mut index = 0;
        while index < level.len() {
            let Some(name) = ident(level.get(index)) else {
                index += 1;
                continue;
            };
            let mut inside = at.to_vec();
            self.step(&mut inside, name, line(&level[index]));
            index = self.path(inside, &level, index + 1);
        }
    }

    /// Moves from the module `at` to the one that `name` means in it.
    fn step(&mut self, at: &mut Vec<String>, name: String, line: usize) {
        if name == "super" {
            at.pop();
            return;
        }
        if at.is_empty() {
            self.found.push((name.clone(), line));
        }
        at.push(name);
    }
}

fn follows_colons(level: &[TokenTree], index: usize) -> bool {
    is_punct(level.get(index), ':') && is_punct(level.get(index + 1), ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(file: &str, text: &str) -> Vec<String> {
        let path = format!("{LIBRARY}{file}");
        check(&Repository::of(&[(&path, text)])).iter().map(|violation| violation.message.clone()).collect()
    }

    fn imports_a_capability(file: &str, text: &str) -> bool {
        messages(file, text).iter().any(|message| message.contains("imports"))
    }

    #[test]
    fn a_capability_may_import_the_core_and_itself() {
        let text = "use crate::plan::Plan;\nuse crate::pack::index;\nuse super::segment;\nuse self::a::b;\n";
        assert_eq!(messages("pack/writer.rs", text), [""; 0]);
    }

    #[test]
    fn the_core_may_not_import_a_capability_in_any_form() {
        for text in [
            "use crate::pack::Pack;",
            "use crate::{error::Error, pack};",
            "use crate::{extent::{ByteRange, map}, pack::{Pack, index}};",
            "fn f() { crate::pack::open() }",
            "fn f() { m!(crate::pack::open()) }",
            "use super::super::pack::Pack;",
            "use super::{super::pack, b};",
            "mod tests { use super::super::super::pack; }",
            "type A = Vec<stook::pack::Pack>;",
        ] {
            assert!(imports_a_capability("engine/uring.rs", text), "{text}");
        }
    }

    #[test]
    fn a_module_that_only_has_the_name_of_a_capability_is_not_one() {
        for text in [
            "use super::copy::A;",
            "use std::io::copy;",
            "use crate::report::bench;",
            "mod tests { use super::pack; }",
        ] {
            assert!(!imports_a_capability("engine/uring.rs", text), "{text}");
        }
    }

    #[test]
    fn capabilities_may_not_import_one_another() {
        assert_eq!(
            messages("copy/mod.rs", "use crate::pack::Pack;"),
            ["the capability `copy` imports the capability `pack`: go through the core"]
        );
        assert!(imports_a_capability("copy/mod.rs", "use super::pack::Pack;"));
    }

    #[test]
    fn a_joint_imports_capabilities_and_nothing_imports_a_joint() {
        let text = "use crate::archive::Archive;\nuse crate::pack::Pack;\nuse super::names;\n";
        assert_eq!(messages("ops/import/run.rs", text), [""; 0]);
        assert_eq!(
            messages("pack/mod.rs", "use crate::ops::import::Import;"),
            ["`pack` imports `ops`, which stands above it"]
        );
    }

    #[test]
    fn a_module_without_a_layer_is_found() {
        assert_eq!(messages("utils.rs", ""), ["`utils` is in no layer: add it to xtask/src/tidy/layers.rs"]);
        assert_eq!(messages("lib.rs", "pub use pack::Pack;"), [""; 0]);
    }
}
