//! `stook man`: the manual pages, made from the table of commands.
//!
//! `clap_mangen` lays out everything but what follows the options: it would run examples together
//! into one paragraph, so that part is laid out here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use serde::Serialize;
use stook::report::json::Document;
use stook::report::units::count_of;

use crate::cli;
use crate::context::Context;
use crate::output::printable;

const EXAMPLES: &str = "\
Examples:
  stook man | man -l -
  stook man --out ~/.local/share/man/man1
  man stook-pack

man finds pages in ~/.local/share/man where ~/.local/bin is in PATH.";

/// The width of examples: 80 columns less the indentation of a page. A page does not depend on the
/// terminal where it is made.
const COLUMNS: usize = 72;

/// The date in the head of a page: an empty argument in roff. A page says which version it is of,
/// and two builds of one version give the same pages.
const NO_DATE: &str = "\"\"";

/// What `stook man` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Write one page for each command into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A manual page.
struct Page {
    /// `stook-pack.1`
    file_name: String,
    /// In roff.
    text: String,
}

#[derive(Debug, Serialize)]
struct Pages<'a> {
    pages: Vec<&'a str>,
    text: Option<&'a str>,
}

/// Prints the page of the program, or writes all pages.
///
/// # Errors
/// Returns an error if a page cannot be written.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let mut pages = pages()?;
    if args.out.is_none() {
        pages.truncate(1);
    }
    if let Some(dir) = &args.out {
        write(&pages, dir)?;
    }
    let text = pages.first().filter(|_| args.out.is_none()).map(|page| page.text.as_str());
    let mut output = context.output();
    if context.json() {
        let pages = pages.iter().map(|page| page.file_name.as_str()).collect();
        output.json(&Document::new("man", Pages { pages, text }))?;
    } else if let Some(text) = text {
        output.bytes(text.as_bytes())?;
    } else if let Some(dir) = &args.out {
        let written = count_of(pages.len() as u64, "page", "pages");
        let dir = printable(dir.as_os_str().as_encoded_bytes());
        output.line(format_args!("Wrote {written} into {dir}"))?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn write(pages: &[Page], dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for page in pages {
        let path = dir.join(&page.file_name);
        fs::write(&path, &page.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Every page, that of the program first. `help` has none: it prints what the pages hold.
fn pages() -> anyhow::Result<Vec<Page>> {
    let mut root = cli::command_for(COLUMNS).disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    collect(&root, &mut pages)?;
    Ok(pages)
}

fn collect(command: &clap::Command, pages: &mut Vec<Page>) -> anyhow::Result<()> {
    pages.push(page(command).with_context(|| format!("cannot make the page of {}", command.get_name()))?);
    command.get_subcommands().filter(|command| !command.is_hide_set()).try_for_each(|c| collect(c, pages))
}

fn page(command: &clap::Command) -> anyhow::Result<Page> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.clone().after_help(None::<&'static str>))
        .date(NO_DATE)
        .source(concat!("stook ", env!("CARGO_PKG_VERSION")))
        .manual("Stook");
    let mut bytes = Vec::new();
    man.render_title(&mut bytes)?;
    man.render_name_section(&mut bytes)?;
    synopsis(command).to_writer(&mut bytes)?;
    man.render_description_section(&mut bytes)?;
    man.render_options_section(&mut bytes)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut bytes)?;
    }
    render_after(&after, &mut bytes)?;
    Ok(Page { file_name: man.get_filename(), text: String::from_utf8(bytes)? })
}

/// How the command is called, as its help says it: `clap_mangen` leaves out that an argument may be
/// given several times, and the values of options.
fn synopsis(command: &clap::Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage:").unwrap_or(&usage).trim();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for line in usage.lines() {
        roff.text([roman(line.trim())]);
        roff.control("br", []);
    }
    roff
}

/// What follows the options: prose as notes, then the examples, each on a line of its own.
fn render_after(text: &str, to: &mut Vec<u8>) -> io::Result<()> {
    let (before, rest) = text.split_once("Examples:\n").unwrap_or((text, ""));
    let is_example = |line: &&str| line.starts_with(' ');
    let examples: Vec<&str> = rest.lines().take_while(is_example).collect();
    let notes: Vec<&str> = before.lines().chain(rest.lines().skip(examples.len())).collect();
    let mut roff = Roff::new();
    section(&mut roff, "NOTES", &notes);
    section(&mut roff, "EXAMPLES", &examples);
    roff.to_writer(to)
}

/// A section of lines: those that are indented stay as they are, others are paragraphs.
fn section(roff: &mut Roff, heading: &str, lines: &[&str]) {
    let Some(first) = lines.iter().position(|line| !line.is_empty()) else { return };
    roff.control("SH", [heading]);
    let lines = lines.get(first..).unwrap_or_default();
    let mut is_paragraph = false;
    for block in lines.chunk_by(|a, b| a.starts_with(' ') == b.starts_with(' ')) {
        let stays = block.iter().any(|line| line.starts_with(' '));
        if stays {
            roff.control("nf", []);
        }
        for line in block {
            // Several empty lines, or some at the end, begin no paragraph.
            if line.is_empty() {
                is_paragraph = true;
                continue;
            }
            if std::mem::take(&mut is_paragraph) {
                roff.control("PP", []);
            }
            roff.text([roman(*line)]);
        }
        if stays {
            roff.control("fi", []);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        let mut bytes = Vec::new();
        render_after(text, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        // The first two lines say what an apostrophe is.
        text.lines().skip(2).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn prose_becomes_notes_and_examples_keep_their_lines() {
        let text = "One.\n\nTwo.\n\nExamples:\n  stook a\n  stook b\n\nThree.";
        let notes = ".SH NOTES\nOne.\n.PP\nTwo.\n.PP\nThree.";
        let examples = ".SH EXAMPLES\n.nf\n  stook a\n  stook b\n.fi";
        assert_eq!(rendered(text), format!("{notes}\n{examples}"));
    }

    #[test]
    fn a_command_without_prose_has_examples_only_and_the_other_way_round() {
        assert_eq!(rendered("Examples:\n  stook a"), ".SH EXAMPLES\n.nf\n  stook a\n.fi");
        assert_eq!(rendered("One."), ".SH NOTES\nOne.");
        assert_eq!(rendered(""), "");
    }

    #[test]
    fn a_list_in_prose_keeps_its_lines() {
        assert_eq!(rendered("One:\n  a  1\n  b  2"), ".SH NOTES\nOne:\n.nf\n  a  1\n  b  2\n.fi");
    }
}
