//! Files of a folder, written one after another as `get --output DIR` does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use stook::tree::outbox::{Calls, Durability};
use stook::tree::{Folder, Refused};
use stook_testing::fault::FaultCalls;
#[cfg(target_os = "linux")]
use stook_testing::sim::SimCalls;
use stook_testing::sweep::{assert_met, each_call};

#[cfg(target_os = "linux")]
use super::check_crashes;
use super::{EIO, ENOSPC, Place, is_temporary, make_small_files, tree_at};

/// Writes the files of a tree as `get --output DIR` does.
fn write_drafts(place: &Place, durability: Durability, calls: Arc<dyn Calls>) -> Result<(), Refused> {
    let mut folder = Folder::open_through(&place.directory.path().join("out"), durability, calls)?;
    for (name, whole) in place.whole.iter().filter(|(_, whole)| !whole.is_directory) {
        let mut draft = folder.file(name.as_bytes())?;
        whole.bytes.chunks(100_000).try_for_each(|bytes| draft.write(bytes))?;
        draft.finish()?;
    }
    Ok(folder.sync()?)
}

/// A tree of files alone.
fn make_files(tree: &Path) {
    make_small_files(tree, 12);
    fs::write(tree.join("large"), vec![b'l'; 300_000]).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn after_power_fails_files_of_a_folder_are_absent_old_or_new_and_after_its_sync_all_are_new() {
    let place = Place::of(make_files);
    for (is_old, is_overlay) in [(false, false), (true, false), (false, true), (true, true)] {
        for durability in [Durability::Batch, Durability::File] {
            let target = place.target(is_old);
            let calls = SimCalls::new(&target).unwrap();
            let calls = Arc::new(if is_overlay { calls.on_overlay() } else { calls });
            write_drafts(&place, durability, calls.clone()).unwrap();
            check_crashes(&place, &calls, (is_old, false), &format!("{durability:?} {is_old} {is_overlay}"));
        }
    }
}

#[test]
fn whichever_call_fails_a_folder_says_so_and_no_file_of_it_is_half_made() {
    let place = Place::of(make_files);
    let whole: BTreeMap<_, _> = place
        .whole
        .iter()
        .filter(|(_, whole)| !whole.is_directory)
        .map(|(name, whole)| (name.clone(), whole.bytes.clone()))
        .collect();
    let bytes = |target: &Path| -> BTreeMap<String, Vec<u8>> {
        let files =
            tree_at(target).into_iter().filter(|(name, there)| !there.is_directory && !is_temporary(name));
        files.map(|(name, there)| (name, there.bytes)).collect()
    };
    let (mut met, target) = (BTreeSet::new(), place.directory.path().join("out"));
    for (is_old, is_overlay) in [(false, false), (true, false), (false, true)] {
        for fault in [EIO, ENOSPC] {
            let calls = |nth| {
                let calls = FaultCalls::nth(nth, fault);
                if is_overlay { calls.on_overlay() } else { calls }
            };
            let run = |calls: Arc<FaultCalls>| {
                place.target(is_old);
                write_drafts(&place, Durability::Batch, calls)
            };
            met.extend(each_call(1, calls, run, |done, nth, call| {
                let case = format!("{fault:?} {nth} {call} old {is_old} overlay {is_overlay}");
                let found = bytes(&target);
                place.check_no_half_bytes(&found, is_old, &case);
                // What is only untidy is not reported.
                let must_fail = !["lock", "unlink"].contains(&call);
                assert!(done.is_err() || found == whole && !must_fail, "{case}: not reported");
                write_drafts(&place, Durability::Batch, Arc::new(FaultCalls::none())).unwrap();
                assert!(bytes(&target) == whole, "{case}: run again, and not whole");
            }));
        }
    }
    let expected =
        ["create", "link_unnamed", "make_directory", "rename", "sync_file_system", "sync", "wait_written"];
    assert_met(&met, expected);
}
