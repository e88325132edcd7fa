//! One file per subcommand, and the table that names them.
//!
//! A command is a module with `pub struct Args` (derives [`clap::Args`], gives examples in
//! `after_help`) and `pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode>`, plus one
//! variant and one line here. Its heading in `stook --help` is in [`crate::cli::HEADINGS`].

pub mod study;

use std::process::ExitCode;

use crate::context::Context;

/// The commands that exist.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Measures again what a published study measured
    Study(study::Args),
}

/// Runs a command.
///
/// # Errors
/// Whatever ended it early. What it finished with failures is an exit code, not an error.
pub fn run(command: Command, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        Command::Study(args) => study::run(args, context),
    }
}
