//! Words that were replaced by those of the field do not come back; the glossary has the
//! replacements.
//!
//! A retired identifier is refused as a whole identifier of Rust and Python, a retired part of one
//! also within a longer identifier. In comments and texts the same word may be ordinary English,
//! and is free. A retired phrase is refused everywhere.

use proc_macro2::TokenTree;

use super::Violation;
use super::repository::Repository;
use super::tokens::{each_level, ident, line};

/// Files that have to name what was given up.
const EXCEPT: &[&str] = &["CHANGELOG.md", "docs/GLOSSARY.md", "xtask/src/tidy/retired.rs"];

/// Retired identifiers, each with what to use instead.
const IDENTIFIERS: &[(&str, &str)] = &[
    ("Dress", "FileMetadata"),
    ("FurtherName", "HardLink"),
    ("Landed", "VerifiedFrame"),
    ("Lately", "PendingChange"),
    ("Told", "a word for what is reported"),
    ("Wish", "ScanFilter"),
    ("approach", "prefetch"),
    ("besiege", "run_soak"),
    ("go_behind", "skip_past_damage"),
    ("remark", "note"),
    ("told", "into_error"),
];

/// The same for Rust only: files of Python have a method of this name.
const RUST_IDENTIFIERS: &[(&str, &str)] = &[("tell", "report_progress")];

/// Retired parts of identifiers, in lower case with an underscore between words.
const PARTS: &[(&str, &str)] = &[("further_name", "hard_link"), ("stretch", "span")];

/// Retired phrases in lower case, each with what to use instead.
const PHRASES: &[(&str, &str)] = &[
    ("further name", "hard link"),
    ("goes on behind", "continues after"),
    ("one behind another", "one after another"),
    ("what the system met", "I/O error"),
    ("whoever", "who is meant, or the passive"),
];

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in repository.texts.iter().filter(|(path, _)| is_checked(path)) {
        for (index, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            let found = PHRASES.iter().filter(|(phrase, _)| lower.contains(phrase));
            violations.extend(found.map(|retired| violation(path, index + 1, *retired)));
        }
        if path.ends_with(".py") || path.ends_with(".pyi") {
            let found = python_words(text).into_iter();
            violations.extend(found.filter_map(|(line, word)| Some(violation(path, line, retired(word)?))));
        }
    }
    for (path, tokens) in repository.rust.iter().filter(|(path, _)| is_checked(path)) {
        let fault = |token: &TokenTree| {
            let retired = retired_in_rust(&ident(Some(token))?)?;
            Some(violation(path, line(token), retired))
        };
        each_level(tokens, &mut |level| violations.extend(level.iter().filter_map(fault)));
    }
    violations
}

fn is_checked(path: &str) -> bool {
    !EXCEPT.contains(&path)
}

fn retired(word: &str) -> Option<(&'static str, &'static str)> {
    let is_part = |(part, _): &&(&str, &str)| has_part(&snake_case(word), part);
    let whole = IDENTIFIERS.iter().find(|(retired, _)| *retired == word);
    whole.or_else(|| PARTS.iter().find(is_part)).copied()
}

fn retired_in_rust(word: &str) -> Option<(&'static str, &'static str)> {
    let only_here = RUST_IDENTIFIERS.iter().find(|(retired, _)| *retired == word);
    retired(word).or(only_here.copied())
}

/// `FurtherNames`, `FURTHER_NAMES` and `further_names` are one.
fn snake_case(word: &str) -> String {
    let mut snake = String::new();
    let mut was_lower = false;
    for character in word.chars() {
        if was_lower && character.is_uppercase() {
            snake.push('_');
        }
        was_lower = character.is_lowercase();
        snake.extend(character.to_lowercase());
    }
    snake
}

/// Whether `part` stands in an identifier as whole words, or as their plural.
fn has_part(snake: &str, part: &str) -> bool {
    snake.match_indices(part).any(|(start, _)| {
        let (before, after) = (&snake[..start], &snake[start + part.len()..]);
        let after = after.strip_prefix("es").or(after.strip_prefix('s')).unwrap_or(after);
        (before.is_empty() || before.ends_with('_')) && (after.is_empty() || after.starts_with('_'))
    })
}

fn violation(path: &str, line: usize, (retired, instead): (&str, &str)) -> Violation {
    Violation::new(path, line, format!("`{retired}` is retired: use `{instead}`, or see docs/GLOSSARY.md"))
}

/// The words of a Python file that are outside comments and strings, each with its line.
fn python_words(text: &str) -> Vec<(usize, &str)> {
    let (mut words, mut rest, mut line) = (Vec::new(), text, 1);
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '"' | '\'' => string_len(rest),
            _ if is_of_word(first) => rest.find(|next: char| !is_of_word(next)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(len);
        if is_of_word(first) {
            words.push((line, token));
        }
        line += token.matches('\n').count();
        rest = after;
    }
    words
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The length of the Python string that `text` starts with, quotes included.
fn string_len(text: &str) -> usize {
    let triple = ["\"\"\"", "'''"].into_iter().find(|quotes| text.starts_with(*quotes));
    let quotes = triple.unwrap_or(&text[..1]);
    let (mut at, mut is_escaped) = (quotes.len(), false);
    for character in text[at..].chars() {
        if !is_escaped && text[at..].starts_with(quotes) {
            return at + quotes.len();
        }
        is_escaped = character == '\\' && !is_escaped;
        at += character.len_utf8();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Repository::of(&[(path, text)])).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_retired_identifier_of_rust_is_found_also_in_macros() {
        assert_eq!(lines("a.rs", "struct Wish;\nfn f(wish: Wish) {}\n"), [1, 2]);
        assert_eq!(lines("a.rs", "m! { fn g() {\n x.go_behind() } }\n"), [2]);
    }

    #[test]
    fn a_retired_part_of_an_identifier_is_found_in_any_case() {
        for name in ["further_names", "FURTHER_NAME", "is_further_name_of", "FurtherNames", "STRETCH_LEN"] {
            assert_eq!(lines("a.rs", &format!("const {name}: u8 = 1;\n")), [1], "{name}");
            assert_eq!(lines("a.py", &format!("{name} = 1\n")), [1], "{name}");
        }
        for name in ["stretched", "further_named", "no_further", "outstretch"] {
            assert_eq!(lines("a.rs", &format!("const {name}: u8 = 1;\n")), [0; 0], "{name}");
        }
    }

    #[test]
    fn tell_is_retired_in_rust_and_a_method_of_files_in_python() {
        assert_eq!(lines("a.rs", "fn tell() {}\n"), [1]);
        assert_eq!(lines("a.py", "def tell(self): ...\n"), [0; 0]);
    }

    #[test]
    fn a_longer_identifier_and_a_word_in_a_comment_or_string_are_free() {
        let text = "//! Wish.\n/// An approach.\nfn approaches() {\n    f(\"besiege\"); // Dress\n}\n";
        assert_eq!(lines("a.rs", text), [0; 0]);
        assert_eq!(lines("docs/a.md", "Another approach: `Wish`.\n"), [0; 0]);
    }

    #[test]
    fn a_retired_identifier_of_python_is_found_outside_comments_and_strings_only() {
        assert_eq!(lines("a.py", "x = 1\nclass Lately:\n    approach = 2\n"), [2, 3]);
        assert_eq!(lines("a.pyi", "def besiege() -> None: ...\n"), [1]);
        let text =
            "\"\"\"An approach,\n'Wish' of \\\"\"\" it.\"\"\"\nx = 'Dress\\'' # Landed\nmy_approach = \"\"\n";
        assert_eq!(lines("a.py", text), [0; 0]);
        assert_eq!(lines("a.py", "x = '' + Dress\n"), [1]);
    }

    #[test]
    fn a_retired_phrase_is_found_in_any_file() {
        assert_eq!(lines("a.rs", "//! Text.\n/// What the system met.\nfn f() {}\n"), [2]);
        assert_eq!(lines("docs/a.md", "or what the system met\n"), [1]);
    }

    #[test]
    fn the_files_that_name_what_was_given_up_are_exempt() {
        for path in EXCEPT.iter().filter(|path| path.ends_with(".md")) {
            assert_eq!(lines(path, "`Wish`: what the system met\n"), [0; 0]);
        }
        assert_eq!(lines("xtask/src/tidy/retired.rs", "struct Wish;\n"), [0; 0]);
    }
}
