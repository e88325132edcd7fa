//! A pack or an archive to one directory: unpacking, reported as a copy.

use std::io;
use std::path::Path;

use super::Result;
use super::given::Packed;
use crate::copy::{
    self, CopyEvents, CopyOptions, CopyReport, DestinationProgress, DestinationReport, Failure, Progress,
};
use crate::ops::unpack::{self, PathFilter, THREADS, Unpack};
use crate::source::AccessRule;

/// Whether unpacking knows all that is asked for.
pub(super) fn does(options: &CopyOptions) -> bool {
    let plain = CopyOptions::default();
    let is_plain = !options.checksum && !options.mirror && !options.dry_run && !options.specials;
    let has_no_more = options.only.is_none()
        && options.backup.is_none()
        && options.link_dest.is_none()
        && options.hashes.is_empty()
        && options.bytes_per_s.is_none();
    let is_written_so = options.access == AccessRule::Auto
        && (options.block_bytes, options.depth) == (plain.block_bytes, plain.depth);
    is_plain && has_no_more && is_written_so
}

/// Whether nothing is in a directory, or it is not there.
pub(super) fn is_free(directory: &Path) -> Result<bool> {
    match directory.read_dir() {
        Ok(mut names) => Ok(names.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        // Copying refuses it.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        Err(error) => Err(crate::Error::io("list", directory, error).into()),
    }
}

/// Unpacks.
pub(super) fn run(
    packed: &Packed,
    destination: &Path,
    options: &CopyOptions,
    events: &mut dyn CopyEvents,
) -> Result<CopyReport> {
    let unpack = Unpack {
        target: destination.to_path_buf(),
        filter: PathFilter { patterns: options.selection.clone(), ..PathFilter::default() },
        overwrite: options.overwrite,
        with_owner: options.with_owner,
        xattrs: options.xattrs,
        threads: options.jobs.unwrap_or(THREADS),
        durability: options.durability,
        force: options.force,
    };
    let mut entries = 0;
    let made = copy::not_there(destination);
    let done = unpack.run((&packed.opened).into(), &mut |at: unpack::Progress| {
        entries = at.entries;
        events.go_on(&Progress {
            files: at.entries,
            bytes: at.bytes,
            total_files: None,
            total_bytes: Some(at.total_bytes),
            current: Vec::new(),
            destinations: vec![DestinationProgress { files: at.entries, bytes: at.bytes, is_stopped: false }],
        })
    })?;
    let summary = done.summary;
    let failures = summary
        .failures
        .into_iter()
        .map(|failure| Failure { key: failure.key, error: core_error(failure.error, destination) });
    let mut own = Vec::new();
    if !done.is_complete {
        own.push(copy::incomplete(packed.opened.contents().path(), Vec::new()));
    }
    let report = DestinationReport {
        path: destination.to_path_buf(),
        made,
        files: summary.files,
        bytes: summary.bytes,
        directories: summary.directories,
        symlinks: summary.symlinks,
        hard_links: summary.hard_links,
        unchanged: summary.unchanged,
        kept: summary.kept,
        unset_xattrs: summary.unset_xattrs,
        failures: failures.collect(),
        ..DestinationReport::default()
    };
    Ok(CopyReport {
        read_files: summary.files,
        read_bytes: summary.bytes,
        destinations: vec![report],
        failures: own,
        entries,
        interrupted: summary.interrupted,
        ..CopyReport::default()
    })
}

/// What a single path met, as copying reports it.
fn core_error(error: unpack::Error, destination: &Path) -> crate::Error {
    match error {
        unpack::Error::Core(error) => error,
        error => crate::Error::io("unpack into", destination, io::Error::other(error)),
    }
}
