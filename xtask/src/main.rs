//! Chores of the repository, run as `cargo run -p xtask -- CHORE`.
//!
//! Nothing here is shipped to users.

mod tidy;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Chores of the Stook repository")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Checks the rules of the repository that no compiler and no linter knows.
    Tidy,
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().chore {
        Chore::Tidy => run_tidy(),
    }
}

fn run_tidy() -> Result<ExitCode> {
    let violations = tidy::check_repository(Path::new(env!("CARGO_MANIFEST_DIR")))?;
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        println!("tidy: every rule holds");
        return Ok(ExitCode::SUCCESS);
    }
    println!("tidy: {} violations", violations.len());
    Ok(ExitCode::FAILURE)
}
