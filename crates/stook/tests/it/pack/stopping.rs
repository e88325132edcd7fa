//! The search for the next intact frame of a damaged segment can be stopped, however far away that
//! is.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use stook::pack::{
    Attributes, Error, Key, OnDamage, OpenOptions, Pack, PackWriter, ScanOptions, Stop, WriterOptions, repair,
};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::pattern;

/// Several times what is looked at in one go.
const LOST_LEN: usize = 40 << 20;

fn local(path: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(path, LocalStorageOptions::default()).unwrap())
}

/// A pack whose first record is long and has lost its header, so that there is no frame for long.
fn damaged(directory: &Path) -> Pack {
    let mut writer = PackWriter::create(local(directory), WriterOptions::default()).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), &pattern(LOST_LEN, 1)).unwrap();
    writer.put("", &Key::id(2), &Attributes::new(), b"whole").unwrap();
    writer.finish(true).unwrap();
    let path = directory.join("segment-0000000000000001");
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..4136].fill(0xA7);
    fs::write(&path, bytes).unwrap();
    Pack::open_path(directory, OpenOptions::default()).unwrap()
}

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(0) };
}

/// Stops after a few calls: as many as there are frames, without the gaps between them.
fn stops() -> Stop {
    LEFT.set(4);
    Stop(|| {
        let left = LEFT.get();
        LEFT.set(left.saturating_sub(1));
        left == 0
    })
}

#[test]
fn scans_and_loads_are_stopped_where_no_frame_is_for_long() {
    let directory = tempfile::tempdir().unwrap();
    let pack = damaged(directory.path());
    let options = || ScanOptions { on_damage: OnDamage::Skip, stop: stops(), ..ScanOptions::default() };
    let loaded = pack.load(&options());
    assert!(matches!(loaded, Err(Error::Stopped)), "{:?}", loaded.map(|loaded| loaded.len()));
    let mut scan = pack.scan(options());
    let next = scan.next();
    assert!(matches!(next, Err(Error::Stopped)), "{:?}", next.map(|record| record.is_some()));
    // Without a stop: what follows is found.
    let options = ScanOptions { on_damage: OnDamage::Skip, ..ScanOptions::default() };
    assert_eq!(pack.load(&options).unwrap().len(), 1);
}

#[test]
fn a_check_and_a_repair_tell_where_they_are_where_no_frame_is_for_long() {
    let directory = tempfile::tempdir().unwrap();
    let pack = damaged(directory.path());
    let mut reported = Vec::new();
    pack.check(|at| reported.push(at)).unwrap();
    reported.dedup();
    assert!(reported.len() > 8 && reported.is_sorted(), "{reported:?}");
    let mut left = 4;
    let stopped = pack.check_until(&mut |_| {
        left -= 1;
        left > 0
    });
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    let (new, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut left = 4;
    let repaired = repair(
        local(directory.path()).as_ref(),
        local(new.path()),
        WriterOptions::default(),
        &mut || Ok(local(aside.path())),
        &mut |_| {
            left -= 1;
            left > 0
        },
    );
    assert!(matches!(repaired, Err(Error::Stopped)), "{repaired:?}");
}
