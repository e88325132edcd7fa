//! Links between documents lead somewhere: the file is there, and so is the heading.

use super::Violation;
use super::repository::Repository;

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in repository.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (line, target) in links(text) {
            violations
                .extend(fault(repository, path, &target).map(|message| Violation::new(path, line, message)));
        }
    }
    violations
}

fn fault(repository: &Repository, document: &str, target: &str) -> Option<String> {
    let leaves_the_repository = target.contains("://") || target.starts_with("mailto:");
    if leaves_the_repository {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { Some(document.to_owned()) } else { resolve(document, file) };
    let Some(path) = path.filter(|path| exists(repository, path)) else {
        return Some(format!("the link to {target} leads to no file"));
    };
    let text = repository.texts.get(&path).filter(|_| !heading.is_empty() && path.ends_with(".md"))?;
    (!headings(text).any(|anchor| anchor == heading))
        .then(|| format!("the link to {target} leads to no heading"))
}

/// The path of a link relative to its document, or `None` where it leaves the repository.
fn resolve(document: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn exists(repository: &Repository, path: &str) -> bool {
    let folder = format!("{path}/");
    path.is_empty()
        || repository.paths.contains(path)
        || repository.paths.iter().any(|file| file.starts_with(&folder))
}

/// The lines of a document that are not code, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then_some((index + 1, line))
    })
}

/// The targets of `[text](target)` with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, prose) in prose(text) {
        // Every second piece between backticks is code.
        let spoken: String = prose.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (start, opening) in spoken.match_indices("](") {
            let rest = &spoken[start + opening.len()..];
            let target = rest.split([')', ' ']).next().unwrap_or(rest);
            found.push((line, target.to_owned()));
        }
    }
    found
}

/// What the headings of a document are called in links: lower case, without punctuation, `-` for a
/// space.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        let heading = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        heading
            .chars()
            .filter(|character| character.is_alphanumeric() || matches!(character, '-' | '_'))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let files = [
            ("docs/a.md", text),
            ("README.md", "# Stook\n## How it works, in short\n"),
            ("docs/formats/b.md", ""),
        ];
        check(&Repository::of(&files)).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_link_to_a_file_or_folder_that_is_there_holds() {
        assert_eq!(
            lines("[a](../README.md) [b](formats/b.md) [c](./formats) [d](formats/) [e](..)\n"),
            [0; 0]
        );
    }

    #[test]
    fn a_link_to_nothing_or_out_of_the_repository_is_found() {
        assert_eq!(
            lines("Text.\n[a](lost.md)\n[b](../../README.md)\n![c](image.png \"Title\")\n"),
            [2, 3, 4]
        );
    }

    #[test]
    fn a_link_to_a_heading_needs_the_heading() {
        assert_eq!(lines("# One\n[a](#one) [b](../README.md#how-it-works-in-short)\n[c](#two)\n"), [3]);
        assert_eq!(lines("[a](../README.md#lost)\n"), [1]);
    }

    #[test]
    fn addresses_and_code_are_no_links() {
        assert_eq!(
            lines("[a](https://example.org/lost.md)\n`[a](lost.md)`\n```\n[a](lost.md)\n```\n"),
            [0; 0]
        );
    }
}
