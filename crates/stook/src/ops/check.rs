//! Checks of packs: lists all damage of one.

use std::path::Path;
use std::sync::Arc;

use super::directory::open_directory;
use crate::pack::{self, CheckReport, DamageLog, OpenOptions, Pack};

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
    let total = pack.stretches(&[]).iter().map(|(_, range)| range.len()).sum();
    pack.check_until(&mut |bytes| progress(bytes, total))
}
