//! Words that are never right in a finished file: marks of unfinished work, and paths that exist
//! only on one machine.

use super::Violation;
use super::repository::Repository;

/// This file must contain the words that it looks for.
const EXCEPT: &str = "xtask/src/tidy/words.rs";

const UNFINISHED: &[&str] = &["TODO", "FIXME", "XXX"];
/// Folders whose contents differ from one machine to the next.
const MACHINE_PATHS: &[&str] = &["/work/", "/root/", "../shared/", "../.library/"];
/// Fine in a program, but a reader of a document has nothing there.
const TEMPORARY_PATHS: &[&str] = &["/tmp/"];

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in repository.texts.iter().filter(|(path, _)| *path != EXCEPT) {
        for (index, line) in text.lines().enumerate() {
            violations.extend(faults(path, line).map(|message| Violation::new(path, index + 1, message)));
        }
    }
    violations
}

fn faults<'a>(path: &'a str, line: &'a str) -> impl Iterator<Item = String> + use<'a> {
    let unfinished = UNFINISHED
        .iter()
        .filter(|word| has(line, word))
        .map(|word| format!("{word}: finish it, or open an issue"));
    let temporary = TEMPORARY_PATHS.iter().filter(move |_| is_document(path));
    let paths = MACHINE_PATHS.iter().chain(temporary).filter(|start| has(line, start));
    unfinished.chain(paths.map(|start| format!("a path under {start} exists on one machine only")))
}

fn is_document(path: &str) -> bool {
    path.ends_with(".md")
}

/// Whether `word` is in `line` and is not the end of a longer word or path. If it ends in a letter,
/// it is not the start of a longer word either.
fn has(line: &str, word: &str) -> bool {
    let inside = |character: char| character.is_alphanumeric() || matches!(character, '_' | '.' | '/' | '-');
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(inside) && (word.ends_with('/') || !after.is_some_and(char::is_alphanumeric))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Repository::of(&[(path, text)])).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn unfinished_work_is_found_in_any_file() {
        assert_eq!(lines("a.rs", "//! Text.\n// TODO: more\n"), [2]);
        assert_eq!(lines("Makefile", "# FIXME\n"), [1]);
        assert_eq!(lines("a.rs", "const TODOS: u8 = 1;\n"), [0; 0]);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        assert_eq!(lines("a.py", "open('/work/data')\n"), [1]);
        assert_eq!(lines("docs/a.md", "see ../shared/notes.md\n"), [1]);
        assert_eq!(lines("docs/a.md", "at https://example.org/work/data and home/work/data\n"), [0; 0]);
    }

    #[test]
    fn a_temporary_path_is_found_in_documents_only() {
        assert_eq!(lines("README.md", "stook load /tmp/a.stook\n"), [1]);
        assert_eq!(lines("README.md", "stook load /var/tmp/a.stook\n"), [0; 0]);
        assert_eq!(lines("a.rs", "const A: &str = \"/tmp/a\";\n"), [0; 0]);
    }
}
