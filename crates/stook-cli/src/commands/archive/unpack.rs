//! `stook unpack` of an archive.

use std::process::ExitCode;
use std::time::Instant;

use stook::archive::{Archive, Unpack};
use stook::pack::Error;
use stook::pack::tree::{Failure, UnpackSummary};

use crate::archives;
use crate::commands::unpack::{Args, print};
use crate::context::Context;
use crate::exit::{INTERRUPTED, chain, code_for};
use crate::interrupt::interrupted;
use crate::progress::Unit;

/// Unpacks the members that `select` takes.
///
/// # Errors
/// A target that cannot be made, an archive that changes meanwhile, arguments that make no sense.
pub(in crate::commands) fn run(
    args: &Args,
    archive: &Archive,
    target: &std::path::Path,
    select: impl Fn(&[u8]) -> bool,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    archives::without(archive, "--group", !args.group.is_empty())?;
    let unpack = Unpack {
        target: target.to_path_buf(),
        overwrite: args.overwrite,
        with_owner: !args.no_owner && rustix::process::geteuid().is_root(),
        select: Box::new(select),
    };
    let progress = context.progress("unpacking", Unit::Bytes, None);
    let started = Instant::now();
    let done = unpack.run(archive, &mut |bytes| {
        progress.add(bytes.saturating_sub(progress.done()));
        !interrupted()
    })?;
    drop(progress);
    let failure = |failure: stook::archive::Failure| Failure {
        key: failure.key,
        error: Error::Invalid(chain(&failure.error)),
    };
    let summary = UnpackSummary {
        files: done.files,
        directories: done.directories,
        symlinks: done.symlinks,
        hard_links: done.hard_links,
        bytes: done.bytes,
        kept: done.kept,
        failures: done.failures.into_iter().map(failure).collect(),
        interrupted: done.interrupted,
    };
    print(&summary, started.elapsed().as_secs_f64(), context)?;
    if summary.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(code_for(summary.failures.len() as u64))
}
