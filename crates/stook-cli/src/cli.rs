//! The table of commands and global flags, from which parsing, help and completions are made.

use clap::builder::StyledStr;
use clap::{CommandFactory as _, Parser};

use crate::commands::Command;

/// Reads, lays out and measures data that lives in files, at the speed of the storage under it.
#[derive(Debug, Parser)]
#[command(
    name = "stook",
    version,
    about = "Reads, lays out and measures data that lives in files, at the speed of the storage under it.",
    max_term_width = COLUMNS_MAX,
    arg_required_else_help = true,
    subcommand_required = true
)]
pub struct Cli {
    /// Flags that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What is to be done.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Print one JSON document, or JSON lines, on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// Print results and errors only: no progress, no notes
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// The headings of `stook --help`, in order, and the commands under each. A command that is not
/// built in is left out, and so is a heading without commands.
pub const HEADINGS: [(&str, &[&str]); 5] = [
    ("Measure", &["bench", "advise", "study"]),
    ("Lay out", &["pack", "unpack", "ls", "info", "get", "put", "rm", "load", "compact", "check"]),
    ("Present", &["stitch", "mount", "umount", "serve", "cat"]),
    ("Move", &["copy", "verify"]),
    ("Set up", &["completions", "man"]),
];

/// The exit codes, listed at the end of the help.
const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 finished with failures or damage (all listed), 2 wrong usage, 130 interrupted.
`serve` and `mount` run until they are ended: Ctrl-C is no interruption of these, and gives 0 or 1.
`stook COMMAND --help` shows more about a command.";

/// The whole command line, with its help grouped by heading, for the terminal of this process.
pub fn command() -> clap::Command {
    command_for(columns())
}

/// The same, with examples laid out for this many columns.
pub fn command_for(columns: usize) -> clap::Command {
    let command = for_people(Cli::command(), columns);
    let list = grouped(&command);
    let usage = command.get_styles().get_usage();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{usage}Options:{usage:#}\n{{options}}{{after-help}}\n"
    );
    command.help_template(StyledStr::from(template)).after_help(EXIT_CODES)
}

/// What holds for every command: paragraphs of help are as wide as the terminal, not as wide as
/// their source, and a negative number is the value of the option before it, so that the message
/// names that option.
fn for_people(command: clap::Command, columns: usize) -> clap::Command {
    const PATHS: [&str; 6] = ["FILE", "DIR", "PATH", "NEW", "PROGRAM", "SOURCE"];
    let names_path = |argument: &clap::Arg| {
        let names = argument.get_value_names().unwrap_or_default();
        names.iter().any(|name| PATHS.contains(&name.as_str()))
    };
    let after = command.get_after_help().map(|text| fitted(&unwrapped(&text.to_string()), columns));
    let command = command.mut_args(|argument| {
        let is_option = argument.get_long().is_some() && argument.get_action().takes_values();
        let may_be_negative = is_option && !names_path(&argument);
        if may_be_negative { argument.allow_negative_numbers(true) } else { argument }
    });
    let command = match after {
        Some(after) => command.after_help(after),
        None => command,
    };
    command.mut_subcommands(|command| for_people(command, columns))
}

/// A text whose paragraphs are one line each; lines that are indented, as examples are, stay as
/// they are.
fn unwrapped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for line in text.lines() {
        let goes_on = !all.is_empty()
            && !all.ends_with('\n')
            && !all.ends_with(':')
            && !line.is_empty()
            && !line.starts_with(' ')
            && !all.rsplit('\n').next().unwrap_or_default().starts_with(' ');
        if !all.is_empty() {
            all.push(if goes_on { ' ' } else { '\n' });
        }
        all.push_str(line);
    }
    all
}

/// How wide help is at most.
const COLUMNS_MAX: usize = 100;

/// How wide help is: as `clap` finds it out.
fn columns() -> usize {
    let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let reported = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.filter(|&columns| columns > 0).or_else(reported).unwrap_or(COLUMNS_MAX).min(COLUMNS_MAX)
}

/// Examples, each with its description beside it, or below it if there is not enough room for all
/// of them.
fn fitted(text: &str, columns: usize) -> String {
    let is_example = |line: &&str| line.starts_with("  ");
    let lines: Vec<&str> = text.lines().collect();
    let fitted = lines.chunk_by(|a, b| is_example(a) == is_example(b)).map(|block| {
        let is_too_wide = block.iter().any(|line| line.chars().count() > columns);
        if is_too_wide && block.iter().all(is_example) { stacked(block) } else { block.join("\n") }
    });
    fitted.collect::<Vec<_>>().join("\n")
}

/// The description of an example is below it, further indented.
fn stacked(block: &[&str]) -> String {
    let mut examples: Vec<(&str, String)> = Vec::new();
    for line in block {
        let (indent, line) = (line.len() - line.trim_start().len(), line.trim());
        match examples.last_mut() {
            // It continues the description above.
            Some((_, does)) if indent > 2 => *does = format!("{does} {line}").trim_start().to_owned(),
            _ => {
                let (example, does) = line.split_once("  ").unwrap_or((line, ""));
                examples.push((example, does.trim_start().to_owned()));
            }
        }
    }
    let reported = examples.iter().map(|(example, does)| match does.is_empty() {
        true => format!("  {example}"),
        false => format!("  {example}\n      {does}"),
    });
    reported.collect::<Vec<_>>().join("\n")
}

/// The commands that exist, under their headings, each with the first line of its help.
fn grouped(command: &clap::Command) -> String {
    use std::fmt::Write as _;
    let (heading_style, name_style) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let width = command.get_subcommands().map(|c| c.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, names) in HEADINGS {
        let found: Vec<_> = names.iter().filter_map(|name| command.find_subcommand(name)).collect();
        if found.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{heading_style}{heading}:{heading_style:#}");
        for subcommand in found {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            let (name, about) = (subcommand.get_name(), about.lines().next().unwrap_or_default());
            let _ = writeln!(text, "  {name_style}{name:width$}{name_style:#}  {about}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_stands_under_exactly_one_heading_and_has_a_line_of_help() {
        for subcommand in command().get_subcommands() {
            let name = subcommand.get_name();
            let places = HEADINGS.iter().flat_map(|(_, names)| *names).filter(|n| **n == name).count();
            assert_eq!(places, 1, "{name}");
            assert!(subcommand.get_about().is_some(), "{name}");
        }
    }

    #[test]
    fn paragraphs_are_wrapped_once() {
        let text = "One\ntwo.\n\nExamples:\n  stook a\n  stook b   c\n\nThree\nfour.";
        assert_eq!(unwrapped(text), "One two.\n\nExamples:\n  stook a\n  stook b   c\n\nThree four.");
    }

    #[test]
    fn what_examples_do_stands_beside_them_or_below() {
        let text = "Examples:\n  stook a        all\n  stook b --long\n                 more\n                 of it\n  c | d\n\nEnd.";
        assert_eq!(fitted(text, 30), text);
        let narrow = "Examples:\n  stook a\n      all\n  stook b --long\n      more of it\n  c | d\n\nEnd.";
        assert_eq!(fitted(text, 21), narrow);
    }

    #[test]
    fn help_lists_existing_commands_under_their_headings_and_nothing_else() {
        let made = clap::Command::new("stook")
            .subcommand(clap::Command::new("verify").about("Proves bytes\nat length"))
            .subcommand(clap::Command::new("ls").about("Lists keys"))
            .styles(clap::builder::Styles::plain());
        assert_eq!(grouped(&made), "Lay out:\n  ls      Lists keys\n\nMove:\n  verify  Proves bytes\n\n");
    }
}
