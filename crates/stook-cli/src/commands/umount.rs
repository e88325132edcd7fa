//! `stook umount MOUNTPOINT…`: ends what `stook mount` began.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stook_mount::{Error, unmount, unmount_dead};

use crate::context::Context;
use crate::exit::code_for;

/// Ends what `stook mount` began
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook umount mnt
  stook umount --lazy mnt          also while programs use it

What is in use is refused. With --lazy it vanishes at once, and ends when the last program has closed it.")]
pub struct Args {
    /// Where it is mounted
    #[arg(value_name = "MOUNTPOINT", required = true, num_args = 1..)]
    mountpoints: Vec<PathBuf>,
    /// Take it away at once, even if programs use it
    #[arg(long)]
    lazy: bool,
    /// Wait until stdin ends, and unmount what is dead then
    #[arg(long, hide = true)]
    when_dead: bool,
}

/// Unmounts.
///
/// # Errors
/// Failures are listed, and an exit code.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.when_dead {
        args.mountpoints.iter().try_for_each(|path| when_dead(path))?;
        return Ok(code_for(0));
    }
    let mut failures = 0;
    for mountpoint in &args.mountpoints {
        if let Err(error) = unmount(mountpoint, args.lazy) {
            failures += 1;
            let error = match error {
                error @ Error::Busy { .. } => anyhow::anyhow!(
                    "{error}: `fuser -vm {}` shows which, and --lazy ends it when they have",
                    mountpoint.display()
                ),
                error => error.into(),
            };
            context.failure(error.as_ref());
        }
    }
    Ok(code_for(failures))
}

/// Waits until the process that holds the other end of stdin is gone, and takes away what is left
/// of its mount.
fn when_dead(mountpoint: &Path) -> Result<(), Error> {
    // A session of its own: what ends the other process does not end this one.
    let _leads_already = rustix::process::setsid();
    let mut byte = [0];
    while matches!(std::io::stdin().read(&mut byte), Ok(1..)) {}
    unmount_dead(mountpoint)
}
