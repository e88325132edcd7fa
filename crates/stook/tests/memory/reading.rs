//! What checks, repairs and gets from hurt packs take of memory: no more for more records.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stook::pack::{Attributes, Key, Pack, PackWriter, RepairOptions, WriterOptions, repair};
use stook::storage::{LocalStorage, LocalStorageOptions};

use super::{ALLOCATOR, alone};

/// Few records and many: four times as many.
const FEW: u64 = 60_000;
const MANY: u64 = 4 * FEW;

/// The most that `work` held at once, in bytes; `seen` is to be called as often as it can.
fn peak(work: impl FnOnce(&mut dyn FnMut())) -> usize {
    let before = ALLOCATOR.allocated();
    let mut most = 0;
    work(&mut || most = most.max(ALLOCATOR.allocated().saturating_sub(before)));
    most
}

fn storage(path: &Path) -> Arc<LocalStorage> {
    fs::create_dir_all(path).unwrap();
    Arc::new(LocalStorage::open(path, LocalStorageOptions::default()).unwrap())
}

/// A pack of one sealed segment with this many records, unordered.
fn pack(dir: &Path, records: u64) -> PathBuf {
    let path = dir.join(format!("{records}.stook"));
    let mut writer = PackWriter::create(storage(&path), WriterOptions::default()).unwrap();
    for number in 0..records {
        let key = Key::id(number * 7919 % records);
        writer.put("", &key, &Attributes::new(), &number.to_le_bytes()).unwrap();
    }
    writer.finish(true).unwrap();
    path
}

fn in_both(measure: impl Fn(&Path) -> usize) -> [usize; 2] {
    of_both([FEW, MANY], measure)
}

fn of_both(counts: [u64; 2], measure: impl Fn(&Path) -> usize) -> [usize; 2] {
    let dir = tempfile::tempdir().unwrap();
    counts.map(|records| measure(&pack(dir.path(), records)))
}

#[test]
fn a_check_takes_no_more_memory_for_more_records() {
    let _alone = alone();
    let [few, many] = in_both(|path| {
        let pack = Pack::open_path(path, Default::default()).unwrap();
        peak(|seen| assert_eq!(pack.check(|_| seen()).unwrap().damages, []))
    });
    assert!(many <= few + (MANY - FEW) as usize, "{few} bytes for {FEW} records, {many} for {MANY}");
}

#[test]
fn a_repair_takes_the_memory_that_it_may_however_many_records_there_are() {
    let _alone = alone();
    // For the keys of five walks, and of ten. With fewer the reads of neighbours are not yet as
    // long as they get.
    let (memory_len, counts) = (16 << 20, [2 * MANY, 4 * MANY]);
    let [few, many] = of_both(counts, |path| {
        let from = storage(path);
        let to = storage(&path.with_extension("repaired"));
        let options = RepairOptions { writer: WriterOptions::default(), memory_len };
        let mut aside = || panic!("nothing is hurt");
        peak(|seen| {
            let mut progress = |_| {
                seen();
                true
            };
            let reported = repair(from.as_ref(), to.clone(), options, &mut aside, &mut progress).unwrap();
            let records = path.file_stem().unwrap().to_str().unwrap();
            assert_eq!((reported.records.to_string().as_str(), &reported.damages[..]), (records, &[][..]));
        })
    });
    // Keys, records on their way, 32 reads of 1 MiB that may be under way at once (on a machine
    // that is busy they are), what is being written, and 8 bytes a record in the index of the new
    // segment.
    for (took, records) in [few, many].into_iter().zip(counts) {
        let most = 2 * memory_len + (32 << 20) + (16 << 20) + 8 * records as usize;
        assert!(took < most, "{took} bytes for {records} records, {most} are the most");
    }
}

#[test]
fn a_get_from_a_pack_without_a_footer_takes_no_more_memory_for_more_records() {
    let _alone = alone();
    let [few, many] = in_both(|path| {
        let segment = path.join("segment-0000000000000001");
        let file = OpenOptions::new().read(true).write(true).open(segment).unwrap();
        let at = file.metadata().unwrap().len() - 100;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        peak(|seen| {
            let pack = Pack::open_path(path, Default::default()).unwrap();
            seen();
            assert!(pack.get(&Key::id(7)).unwrap().is_some());
            seen();
            assert!(!pack.damages().is_empty());
        })
    });
    assert!(many <= few + (MANY - FEW) as usize, "{few} bytes for {FEW} records, {many} for {MANY}");
}
