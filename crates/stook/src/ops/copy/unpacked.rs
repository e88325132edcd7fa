//! A pack or an archive to one directory: unpacking, reported as a copy.

use std::io;
use std::path::Path;
use std::time::Instant;

use super::Result;
use crate::copy::{
    self, Beginning, CopyEvents, CopyFailure, CopyOptions, CopyReport, DestinationProgress,
    DestinationReport, Failure, Phase, Progress,
};
use crate::device::Attachment;
use crate::ops::given::Packed;
use crate::ops::unpack::{self, PathFilter, THREADS, Unpack};
use crate::pack::{self, Damage};
use crate::source::AccessRule;

/// Whether unpacking knows all that is asked for.
pub(super) fn does(options: &CopyOptions) -> bool {
    let plain = CopyOptions::default();
    let is_plain = !options.checksum && !options.mirror && !options.dry_run && !options.specials;
    // Copying makes a directory of which only a part is taken as its source has it.
    let has_no_more = options.only.is_none()
        && !options.selection.has_inclusions()
        && options.backup.is_none()
        && options.link_dest.is_none()
        && options.hashes.is_empty()
        && !options.has_lists()
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
    let started = Instant::now();
    let mut entries = 0;
    let beginning = beginning(packed, destination);
    let (mut has_begun, made) = (false, copy::not_there(destination));
    let done = unpack.run((&packed.opened).into(), &mut |at: unpack::Progress| {
        entries = at.entries;
        if !std::mem::replace(&mut has_begun, true) {
            events.begin(&Beginning { total_bytes: Some(at.total_bytes), ..beginning.clone() });
        }
        events.go_on(&progress_of(at))
    })?;
    if !has_begun {
        events.begin(&beginning);
    }
    let elapsed = started.elapsed();
    let summary = done.summary;
    let failures = summary
        .failures
        .into_iter()
        .map(|failure| Failure { key: failure.key, error: core_error(failure.error, destination) });
    let mut own = Vec::new();
    if !done.is_complete {
        own.push(copy::incomplete(packed.opened.contents().path(), Vec::new()));
    }
    let failures: Vec<_> = failures.collect();
    report_failures(&failures, &own, events);
    let [source, attachment] = [beginning.sources.first(), beginning.destinations.first()];
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
        failures,
        attachment: attachment.cloned().unwrap_or_default(),
        ..DestinationReport::default()
    };
    Ok(CopyReport {
        read_files: summary.files,
        read_bytes: summary.bytes,
        destinations: vec![report],
        failures: own,
        entries,
        interrupted: summary.interrupted,
        sources: source.cloned().into_iter().collect(),
        elapsed,
        ..CopyReport::default()
    })
}

/// What is known before anything was read. A pack on a server lies on nothing that is seen here.
fn beginning(packed: &Packed, destination: &Path) -> Beginning {
    let path = packed.opened.contents().path();
    let source = path.exists().then(|| Attachment::of(path));
    Beginning {
        sources: source.into_iter().collect(),
        destinations: vec![Attachment::of(destination)],
        ..Beginning::default()
    }
}

/// What could not be unpacked is known only at the end.
fn report_failures(failures: &[Failure], own: &[Failure], events: &mut dyn CopyEvents) {
    let of_destination = failures.iter().map(|failure| (Some(0), failure));
    for (destination, Failure { key, error }) in of_destination.chain(own.iter().map(|own| (None, own))) {
        let error = crate::error::chain(error);
        events.failure(&CopyFailure { destination, key: key.clone(), error });
    }
}

fn progress_of(at: unpack::Progress) -> Progress {
    let one = DestinationProgress { files: at.entries, bytes: at.bytes, ..DestinationProgress::default() };
    Progress {
        phase: Phase::Copying,
        files: at.entries,
        bytes: at.bytes,
        total_bytes: Some(at.total_bytes),
        destinations: vec![one],
        ..Progress::default()
    }
}

/// The damage of a pack in an error that copying it reports, if it is one.
pub fn damage_of(error: &crate::Error) -> Option<&Damage> {
    let crate::Error::Io { source, .. } = error else { return None };
    let inner = source.get_ref()?;
    let of_pack = inner.downcast_ref().and_then(pack::Error::damage);
    of_pack.or_else(|| inner.downcast_ref().and_then(unpack::Error::damage))
}

/// The error of a single path, as copying reports it.
fn core_error(error: unpack::Error, destination: &Path) -> crate::Error {
    match error {
        unpack::Error::Core(error) => error,
        error => crate::Error::io("unpack into", destination, io::Error::other(error)),
    }
}
