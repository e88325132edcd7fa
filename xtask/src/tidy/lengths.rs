//! A file can be read in one sitting, a function seen at once, and prose without moving the head.

use proc_macro2::{Delimiter, TokenTree};

use super::Violation;
use super::repository::Repository;
use super::tokens::{each_level, group, ident, is_ident, is_punct, line};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
/// Characters of a line of a comment or of a document.
const PROSE_COLUMNS_MAX: usize = 100;

/// Documents that programs write.
const WRITTEN_BY_PROGRAMS: &str = "benchmarks/runs/";

/// Files that hold code, by the end of their name.
const CODE: &[&str] = &[".rs", ".py", ".pyi", ".sh", ".css", ".js", "Makefile"];

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in &repository.texts {
        let lines = text.lines().count();
        if CODE.iter().any(|end| path.ends_with(end)) && lines > FILE_LINES_MAX {
            let message = format!("{lines} lines; a file has at most {FILE_LINES_MAX}: split it by idea");
            violations.push(Violation::new(path, 0, message));
        }
        for line in long_prose(path, text) {
            let message = format!("prose of more than {PROSE_COLUMNS_MAX} columns: wrap it");
            violations.push(Violation::new(path, line, message));
        }
    }
    for (path, tokens) in &repository.rust {
        each_level(tokens, &mut |level| {
            for function in functions(level).filter(|function| function.lines > FUNCTION_LINES_MAX) {
                let Function { name, lines, line } = function;
                let message =
                    format!("`{name}` has {lines} lines; a function has at most {FUNCTION_LINES_MAX}");
                violations.push(Violation::new(path, line, message));
            }
        });
    }
    violations
}

/// The lines of prose that are too long: comments, documentation of Python, and documents but for
/// their tables and code.
fn long_prose(path: &str, text: &str) -> Vec<usize> {
    if is_python(path) || is_script(path) {
        return long_python(path, text);
    }
    let is_document = path.ends_with(".md") && !path.starts_with(WRITTEN_BY_PROGRAMS);
    if !is_document && !path.ends_with(".rs") {
        return Vec::new();
    }
    let (mut is_code, mut found) = (false, Vec::new());
    for (index, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        let Some(prose) = (if is_document { Some(line) } else { comment }) else {
            is_code = false;
            continue;
        };
        let prose = prose.trim_start_matches(['/', '!']).trim();
        if prose.starts_with("```") {
            is_code = !is_code;
        }
        let is_table = prose.starts_with('|');
        if !is_code && !is_table && is_too_long(line) {
            found.push(index + 1);
        }
    }
    found
}

fn is_python(path: &str) -> bool {
    path.ends_with(".py") || path.ends_with(".pyi")
}

/// Whether it has comments that begin with `#`, and no other prose.
fn is_script(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.starts_with("scripts/")
        || path.starts_with(".ci/")
        || name == "Makefile"
        || name.ends_with(".sh")
        || name.ends_with(".toml")
}

/// The same of Python and of scripts. Documentation begins with a line that begins with three
/// quotation marks. That of native classes is a copy of Rust, where it is looked at: of `.pyi` it
/// is comments only.
fn long_python(path: &str, text: &str) -> Vec<usize> {
    const QUOTES: &str = "\"\"\"";
    let (mut is_documentation, mut is_text, mut found) = (false, false, Vec::new());
    for (index, line) in text.lines().enumerate() {
        let prose = line.trim();
        let is_inside = is_documentation || is_text;
        let begins = path.ends_with(".py") && !is_inside && prose.starts_with(QUOTES);
        let is_code = prose.starts_with(">>>") || prose.starts_with("...");
        let is_prose = is_documentation && !is_code || begins || !is_text && prose.starts_with('#');
        if is_prose && is_too_long(line) {
            found.push(index + 1);
        }
        if line.matches(QUOTES).count() % 2 == 1 {
            (is_documentation, is_text) = (begins, !is_inside && !begins);
        }
    }
    found
}

/// Whether a line could have been broken before the last column: an address cannot.
fn is_too_long(line: &str) -> bool {
    let start = line.len() - line.trim_start().len();
    let fits = line.char_indices().nth(PROSE_COLUMNS_MAX).map(|(end, _)| &line[..end]);
    // The first words are the mark of a comment or of a list.
    fits.is_some_and(|fits| fits[start..].split(' ').count() > 2)
}

struct Function {
    name: String,
    /// Of its `fn`.
    line: usize,
    /// From its `fn` to its closing brace.
    lines: usize,
}

/// The functions with a body that start among the tokens of one level.
fn functions(level: &[TokenTree]) -> impl Iterator<Item = Function> {
    (0..level.len()).filter(|&index| is_ident(level.get(index), "fn")).filter_map(|index| {
        let name = ident(level.get(index + 1))?;
        let rest = &level[index..];
        let end = rest.iter().position(|token| is_punct(Some(token), ';')).unwrap_or(rest.len());
        let body = rest[..end].iter().find_map(|token| group(Some(token), Delimiter::Brace))?;
        let first = line(&level[index]);
        Some(Function { name, line: first, lines: body.span_close().end().line - first + 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Repository::of(&[(path, text)])).iter().map(Violation::to_string).collect()
    }

    /// A function of `lines` lines, with braces in places where counting characters would go wrong.
    fn function(lines: usize) -> String {
        format!(
            "fn long(a: [u8; 2]) -> u8\nwhere\n    u8: Copy,\n{{\n{}}}\n",
            "    f('{'); // {\n".repeat(lines - 5)
        )
    }

    #[test]
    fn a_function_over_the_limit_is_found_and_one_at_it_is_not() {
        assert_eq!(messages("a.rs", &function(70)), [""; 0]);
        assert_eq!(
            messages("a.rs", &function(71)),
            ["a.rs:1: `long` has 71 lines; a function has at most 70"]
        );
    }

    #[test]
    fn functions_in_impls_and_macros_count_too() {
        let text = format!("impl A {{\n{}}}\nproptest! {{\n{}}}\n", function(80), function(90));
        assert_eq!(messages("a.rs", &text).len(), 2);
    }

    #[test]
    fn a_function_without_a_body_and_a_function_type_have_no_length() {
        let text = format!(
            "trait T {{\n    fn f(&self);\n}}\ntype F = fn(u8);\nstruct S {{\n{}}}\n",
            "\n".repeat(90)
        );
        assert_eq!(messages("a.rs", &text), [""; 0]);
    }

    #[test]
    fn prose_over_the_limit_is_found_in_comments_and_documents_but_not_in_code_and_tables() {
        let prose = "word ".repeat(20);
        let long = format!("{prose}and more");
        let message = |path: &str, line| format!("{path}:{line}: prose of more than 100 columns: wrap it");
        for (path, text) in [("a.rs", format!("// {prose}")), ("a.md", prose.trim().to_owned())] {
            assert_eq!(messages(path, text.trim_end()[..99].trim_end()), [""; 0]);
        }
        for mark in ["//", "    ///", "//!"] {
            assert_eq!(messages("a.rs", &format!("{mark} {long}")), [message("a.rs", 1)]);
        }
        assert_eq!(messages("a.md", &format!("# A\n\n- {long}\n")), [message("a.md", 3)]);
        let address = format!("https://example.org/{}", "a".repeat(100));
        for text in [format!("| {long} |"), format!("```\n{long}\n```"), address, "é".repeat(60)] {
            assert_eq!(messages("a.md", &text), [""; 0], "{text}");
        }
        assert_eq!(messages("a.rs", &format!("let a = \"{long}\";")), [""; 0]);
        assert_eq!(messages("benchmarks/runs/a/b.md", &long), [""; 0]);
    }

    #[test]
    fn prose_over_the_limit_is_found_in_python_and_in_scripts() {
        let long = format!("{}and more", "word ".repeat(20));
        let quotes = "\"\"\"";
        let documented =
            format!("def f():\n    {quotes}Short.\n\n    {long}\n    >>> {long}\n    {quotes}\n");
        let found = |path: &str, text: &str| messages(path, text).len();
        assert_eq!(messages("a.py", &documented), ["a.py:4: prose of more than 100 columns: wrap it"]);
        assert_eq!(found("a.pyi", &documented), 0);
        for path in ["a.py", "a.pyi", "scripts/need", ".ci/run", "Makefile", "crates/a/Cargo.toml"] {
            assert_eq!(found(path, &format!("a = 1\n# {long}\n")), 1, "{path}");
            assert_eq!(found(path, &format!("a = '{long}'\n")), 0, "{path}");
        }
        assert_eq!(found("a.py", &format!("{quotes}{long}{quotes}\na = '{long}'\n")), 1);
        let text = format!("a = {quotes}\n# {long}\n{quotes}\nb = '{long}'\n");
        assert_eq!(found("a.py", &text), 0);
    }

    #[test]
    fn a_long_file_is_found_if_it_is_code() {
        assert_eq!(messages("a.py", &"\n".repeat(800)), [""; 0]);
        assert_eq!(messages("a.py", &"\n".repeat(801)).len(), 1);
        assert_eq!(messages("data.csv", &"\n".repeat(801)), [""; 0]);
    }
}
