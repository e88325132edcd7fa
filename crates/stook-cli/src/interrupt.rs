//! Ctrl-C, SIGTERM and SIGHUP as a flag that commands poll, so that they can stop cleanly.
//!
//! Commands call [`check`] wherever nothing is half done. The second signal ends the program at
//! once: whoever presses twice does not want to wait for the tidying up.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;

use crate::exit;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The user wants the program to stop. Ends it with exit code 130.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Starts listening to signals; once per process.
///
/// # Errors
/// When the system refuses the handler.
pub(crate) fn install() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
    })
    .context("cannot listen to Ctrl-C")
}

/// Whether the program was asked to stop.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// An error when the program was asked to stop.
///
/// # Errors
/// [`Interrupted`].
pub fn check() -> Result<(), Interrupted> {
    if interrupted() { Err(Interrupted) } else { Ok(()) }
}
