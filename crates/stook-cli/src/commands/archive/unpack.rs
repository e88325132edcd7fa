//! `stook unpack` of an archive.

use std::process::ExitCode;
use std::time::Instant;

use stook::archive::{Archive, Unpack};
use stook::pack::Error;
use stook::pack::tree::{Failure, UnpackSummary};

use crate::archives;
use crate::commands::unpack::{Args, code, print};
use crate::context::Context;
use crate::exit::chain;
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
    select: &dyn Fn(&[u8]) -> bool,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    archives::without(archive, "--group", !args.group.is_empty())?;
    let unpack = Unpack {
        target: target.to_path_buf(),
        overwrite: args.overwrite.into(),
        with_owner: !args.no_owner && rustix::process::geteuid().is_root(),
        force: args.force,
        select: Box::new(select),
    };
    let lens = archive.members(b"").filter(|member| select(member.key)).map(|member| member.len);
    let total = lens.fold(0, u64::saturating_add);
    let progress = context.progress("unpacking", Unit::Bytes, Some(total));
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
        unchanged: done.unchanged,
        kept: done.kept,
        failures: done.failures.into_iter().map(failure).collect(),
        interrupted: done.interrupted,
    };
    let complete = archive.index().summary().has_end;
    print(&summary, args.verbose, started.elapsed().as_secs_f64(), complete, context)?;
    Ok(code(&summary, true))
}
