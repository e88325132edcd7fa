//! Checks of packs: all that is wrong with one, and that an incomplete one is accepted as it is.

use std::path::Path;
use std::sync::Arc;

use super::directory::open_directory;
use super::pack::{Hooks, Making, open_writer_with};
use crate::pack::{self, CheckReport, DamageLog, OpenOptions, Pack, WriterOptions};

/// Checks the pack at a path, or what is left of it if its newest manifest cannot be read. `opened`
/// is called with the log of the damage that is found, `progress` with the bytes so far and in
/// total; if it returns `false`, the check ends.
///
/// # Errors
/// Returns [`pack::Error::NotAPack`], I/O errors, or [`pack::Error::Stopped`] if it was stopped.
/// Damage is not an error: the report lists it.
pub fn check(
    path: &Path,
    opened: &mut dyn FnMut(DamageLog),
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> pack::Result<CheckReport> {
    let storage = Arc::new(open_directory(path)?);
    let pack = Pack::open_what_is_left(storage, OpenOptions::default())?;
    opened(pack.damage_log());
    check_pack(&pack, progress)
}

/// Checks a pack that is open.
///
/// # Errors
/// Returns I/O errors, or [`pack::Error::Stopped`] if it was stopped.
pub fn check_pack(pack: &Pack, progress: &mut dyn FnMut(u64, u64) -> bool) -> pack::Result<CheckReport> {
    let total = pack.segment_ranges(&[]).iter().map(|(_, range)| range.len()).sum();
    pack.check_until(&mut |bytes| progress(bytes, total))
}

/// Checks a pack, and calls it complete as it is if it is incomplete and whole: for one whose
/// sources are gone, so that no run over them can complete it. What became of that is in the
/// [notes](CheckReport::notes) of the report. Others may not write to it meanwhile, and the hooks
/// get what opening it for that found.
///
/// # Errors
/// As [`check`], and those of a writer. A pack of which the newest manifest cannot be read is not
/// opened, and so not accepted.
pub fn accept(
    path: &Path,
    hooks: &mut dyn Hooks,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> pack::Result<CheckReport> {
    let mut writer = open_writer_with(path, WriterOptions::default(), Making::Never, hooks)?.writer;
    let pack = Pack::open(writer.storage().clone(), OpenOptions::default())?;
    hooks.watch(pack.damage_log());
    let mut report = check_pack(&pack, progress)?;
    let note = if pack.is_complete() {
        "the pack is complete already"
    } else if report.damages.is_empty() {
        writer.set_complete(true);
        writer.finish(false)?;
        (report.accepted, report.is_incomplete) = (true, false);
        "the pack was accepted as it is, and is complete now"
    } else {
        "the pack stays incomplete: only one without damage is accepted as it is"
    };
    report.notes.push(note.into());
    Ok(report)
}
