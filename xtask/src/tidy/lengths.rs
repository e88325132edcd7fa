//! A file can be read in one sitting and a function seen at once.

use proc_macro2::{Delimiter, TokenTree};

use super::Violation;
use super::repository::Repository;
use super::tokens::{each_level, group, ident, is_ident, is_punct, line};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

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
    fn a_long_file_is_found_if_it_is_code() {
        assert_eq!(messages("a.py", &"\n".repeat(800)), [""; 0]);
        assert_eq!(messages("a.py", &"\n".repeat(801)).len(), 1);
        assert_eq!(messages("data.csv", &"\n".repeat(801)), [""; 0]);
    }
}
