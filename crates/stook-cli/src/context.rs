//! What every command is handed besides its arguments.

use std::io::{self, IsTerminal as _};

use crate::cli::Global;
use crate::output::Output;
use crate::progress::{Progress, Unit};

/// The global flags, and where results and progress go.
#[derive(Debug)]
pub struct Context {
    json: bool,
    quiet: bool,
    draws_progress: bool,
}

impl Context {
    /// A context for these flags and this process's terminal.
    pub fn new(global: &Global) -> Self {
        let draws_progress = !global.quiet && io::stderr().is_terminal();
        Self { json: global.json, quiet: global.quiet, draws_progress }
    }

    /// Whether results are to be JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Whether remarks are unwanted.
    pub fn quiet(&self) -> bool {
        self.quiet
    }

    /// Standard output, locked and buffered. Call [`Output::finish`] at the end.
    pub fn output(&self) -> Output {
        Output::stdout()
    }

    /// A line on stderr that is no result and no error. Left out with `--quiet`.
    pub fn remark(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            // A remark that cannot be printed must not end the work.
            let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("{text}\n"));
        }
    }

    /// A failure of one entry, while the command goes on. Printed even with `--quiet`.
    pub fn failure(&self, error: &(dyn std::error::Error + 'static)) {
        let chain = crate::exit::chain(error);
        let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("stook: {chain}\n"));
    }

    /// A progress bar for that many units, or for an unknown number. It draws only on a terminal, only
    /// without `--quiet`, and only once a second has passed.
    pub fn progress(&self, what: &'static str, unit: Unit, total: Option<u64>) -> Progress {
        Progress::new(what, unit, total, self.draws_progress)
    }
}
