//! `stook umount MOUNTPOINT…`: ends what `stook mount` began.

use std::path::PathBuf;
use std::process::ExitCode;

use stook_mount::{Error, unmount, unmount_after};

use crate::context::Context;
use crate::exit::code_for;
use crate::packs;

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
    /// Wait until this process is gone, or stdin ends, and unmount what it left
    #[arg(long, value_name = "PROCESS", hide = true, value_parser = packs::number::<u32>(1..=u64::from(u32::MAX)))]
    after: Option<u32>,
}

/// Unmounts.
///
/// # Errors
/// Failures are listed, and an exit code.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let Some(process) = args.after {
        // A session of its own: what ends the other process does not end this one.
        let _leads_already = rustix::process::setsid();
        args.mountpoints.iter().try_for_each(|path| unmount_after(process, std::io::stdin(), path))?;
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
