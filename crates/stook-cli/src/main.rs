//! The `stook` program; everything is in the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    stook_cli::run(std::env::args_os())
}
