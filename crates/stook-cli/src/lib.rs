//! The `stook` command: arguments in, capabilities called, results printed.
//!
//! Each subcommand is one file under [`commands`]: an `Args` for clap and a `run(args, &Context)`.
//! What they share is here: [`cli`] (the table of commands), [`context`] (global flags), [`output`]
//! (tables and JSON on stdout), [`packs`] (opening packs, keys as JSON), `contents` (opening packs
//! or archives), `fetch` (objects on servers), [`progress`] (a bar on stderr), [`interrupt`]
//! (Ctrl-C as a flag to poll), [`exit`] (exit codes and error messages).
//!
//! It is a library so that the help pages and completions can be made from the same definitions.
//! It holds no capability of its own: what is worth calling from a program is in the `stook` crate.

mod bar;
pub mod cli;
pub mod commands;
mod contents;
pub mod context;
pub mod exit;
pub mod failures;
mod fetch;
mod fstab;
mod given;
pub mod interrupt;
mod keys;
mod lies_on;
mod merged;
pub mod output;
pub mod packs;
pub mod progress;
pub mod select;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::cli::Cli;
use crate::context::Context;

/// Runs the command in `args` (the program's name first).
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = match fstab::translated(args.into_iter().collect()) {
        Ok(args) => args,
        Err(error) => return exit::report(&error.into()),
    };
    let cli = match cli::command().try_get_matches_from(&args).and_then(|m| Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(answer) => {
            // The flags before a command have no values.
            let words = args.iter().skip(1).filter_map(|word| word.to_str());
            return exit::answer(answer, { words }.find(|word| !word.starts_with('-')));
        }
    };
    if let Err(error) = interrupt::install() {
        return exit::report(&error);
    }
    raise_limit();
    let context = Context::new(&cli.global);
    let code = match commands::run(cli.command, &context) {
        Ok(code) => code,
        Err(error) => exit::report(&error),
    };
    // What is wrong with a profile costs speed and nothing else.
    stook::profile::take_problems().iter().for_each(|problem| context.note(problem));
    // Whatever a command did with a pack that is damaged, and however well that went, it says so.
    match context.print_damages() && code == ExitCode::SUCCESS {
        true => ExitCode::from(exit::FAILURES),
        false => code,
    }
}

/// As many files may be open as the system allows at all: many systems begin with 256 or 1,024,
/// which is little for files that wait for one sync. Where it is refused, less is kept open.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _refused = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
