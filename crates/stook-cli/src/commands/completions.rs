//! `stook completions`: the script that completes commands and options in a shell.
//!
//! It is made from the table of commands, so that it knows every option that this program takes.

use std::process::ExitCode;

use anyhow::Context as _;
use clap_complete::{Generator as _, Shell};
use serde::Serialize;
use stook::report::json::Document;

use crate::cli;
use crate::context::Context;

const EXAMPLES: &str = "\
Examples:
  source <(stook completions bash)
  stook completions zsh > ~/.zfunc/_stook
  stook completions fish > ~/.config/fish/completions/stook.fish

The line for bash works in this shell; in ~/.bashrc, in every new one. zsh reads the file where
~/.zfunc is in fpath before compinit is called. A script knows the options of the program that
printed it: print it again after an update.";

/// What `stook completions` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Serialize)]
struct Script {
    shell: String,
    script: String,
}

/// Prints the script.
///
/// # Errors
/// Returns an error if it cannot be written.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let script = script(args.shell)?;
    let mut output = context.output();
    if context.json() {
        output.json(&Document::new("completions", Script { shell: args.shell.to_string(), script }))?;
    } else {
        output.bytes(script.as_bytes())?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> anyhow::Result<String> {
    let mut command = cli::command();
    command.set_bin_name("stook");
    command.build();
    let mut bytes = Vec::new();
    let made = shell.try_generate(&command, &mut bytes);
    made.with_context(|| format!("cannot make the script for {shell}"))?;
    String::from_utf8(bytes).with_context(|| format!("the script for {shell} is not text"))
}
