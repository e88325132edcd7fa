//! An index that is damaged hides no record: its entries are found again, in its own pages or in
//! the frames.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use stook::pack::tree::RecordTree;
use stook::pack::{Attributes, Error, Key, PackWriter, ScanOptions, ScanOrder, repair};
use stook::storage::Storage;
use stook::tree::{Cursor, Page, Tree as _};
use stook_testing::conformance::contents;
use stook_testing::model::pack::{
    PackModel, ScriptedHost, assert_holds, open_simulated, open_simulated_mapped, rest_of, tiny_writer,
};
use stook_testing::sim::SimStorage;

use super::damage::{Files, files_of, storage_with};

const SEGMENT: &str = "segment-0000000000000001";
const UNIT: usize = 4096;
const RECORDS: u64 = 2500;

struct Sample {
    files: Files,
    model: PackModel,
    /// The range of the index of the segment, and of what follows it.
    index: Range<usize>,
}

fn key(number: u64) -> Key {
    Key::bytes(format!("{number:06}-{}", "x".repeat(number as usize % 40))).unwrap()
}

/// One segment, with an index of many pages: versions of one key fill several, a key takes two
/// units.
fn sample() -> Sample {
    let storage = SimStorage::new();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut options = tiny_writer(ScriptedHost::new(4));
    (options.segment_len, options.checkpoint_len) = (64 << 20, 64 << 20);
    let mut writer = PackWriter::create(shared, options).unwrap();
    let mut model = PackModel::new();
    let mut put = |writer: &mut PackWriter, key: Key, body: String| {
        writer.put("", &key, &Attributes::new(), body.as_bytes()).unwrap();
        model.insert(key, body.into_bytes());
    };
    for number in 0..RECORDS {
        put(&mut writer, key(number * 1237 % RECORDS), format!("{number}"));
        if number % 2 == 0 {
            put(&mut writer, key(2000), format!("version {number}"));
        }
    }
    put(&mut writer, Key::bytes(vec![b'1'; 6000]).unwrap(), "long".into());
    for number in (0..RECORDS).step_by(3) {
        let mut record = writer.begin("", &key(number), &Attributes::new(), None).unwrap();
        record.write(b"framed").unwrap();
        record.finish().unwrap();
        model.insert(key(number), b"framed".to_vec());
    }
    writer.finish(true).unwrap();
    let frames = open_simulated(&storage).unwrap().segments()[0].frame_bytes as usize;
    let mut files = files_of(&storage);
    files.remove("writer.lock");
    let bytes = contents(&storage, SEGMENT);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let footer = bytes.len() - 256;
    let start = (UNIT + frames).next_multiple_of(UNIT);
    assert_eq!(word(footer + 64), start);
    Sample { files, model, index: start..start + word(footer + 72) }
}

impl Sample {
    fn bytes(&self) -> &[u8] {
        &self.files[SEGMENT]
    }

    /// Nothing is missing, nothing is another, and it was reported; how many damages there were.
    fn assert_whole(&self, bytes: &[u8], what: &str) -> usize {
        let storage = storage_with(&self.files, SEGMENT, Some(bytes));
        let pack = open_simulated(&storage).unwrap();
        for key in self.model.keys().step_by(97) {
            assert_eq!(
                pack.get(key).unwrap().map(|record| record.body.to_vec()),
                self.model.get(key).cloned()
            );
        }
        for absent in ["", "000000", "001999-y", "zzz"] {
            let absent = pack.get(&Key::bytes(absent).unwrap()).unwrap();
            assert_eq!(absent, None, "{what}");
        }
        let listed: Vec<Key> = pack.keys(&[]).unwrap().map(|entry| entry.unwrap().key).collect();
        assert!(listed.iter().eq(self.model.keys()), "{what}: {} keys are listed", listed.len());
        let ordered = ScanOptions { order: ScanOrder::Key, ..ScanOptions::default() };
        let ordered: PackModel = rest_of(pack.scan(ordered)).unwrap().into_iter().collect();
        assert!(ordered == self.model, "{what}: a scan by key gives others");
        let keys: Vec<Key> = self.model.keys().cloned().collect();
        let mapped = open_simulated_mapped(&storage).unwrap().get_many(&keys).unwrap();
        let mapped: Result<Vec<_>, Error> = mapped.into_iter().collect();
        let bodies = mapped.unwrap().into_iter().map(|record| record.unwrap().body.to_vec());
        assert!(bodies.eq(self.model.values().cloned()), "{what}: mapped gets give others");
        let damages = pack.damages();
        let report = pack.check(|_| {}).unwrap();
        assert_eq!(
            report.damages.iter().filter(|damage| damages.contains(damage)).count(),
            damages.len(),
            "{what}"
        );
        assert!(!damages.is_empty() && report.damages.len() == damages.len(), "{what}: {:?}", report.damages);
        damages.len()
    }
}

fn spoiled(bytes: &[u8], places: &[usize]) -> Vec<u8> {
    let mut hit = bytes.to_vec();
    places.iter().for_each(|&at| hit[at] ^= 0x40);
    hit
}

#[test]
fn whatever_of_an_index_is_hit_every_record_is_found_and_the_damage_is_reported_once() {
    let sample = sample();
    let bytes = sample.bytes();
    let footer = bytes.len() - 100;
    let (first, top) = (sample.index.start + 30, sample.index.end + 20);
    let pages = (sample.index.end - sample.index.start) / UNIT;
    assert!(pages > 20, "{pages}");
    let page = |number: usize| first + number * UNIT;
    let cases: BTreeMap<&str, (Vec<usize>, usize)> = BTreeMap::from([
        ("footer", (vec![footer], 1)),
        ("top", (vec![top], 1)),
        ("footer and top", (vec![footer, top], 1)),
        ("first page", (vec![page(0)], 1)),
        ("last page", (vec![page(pages - 1)], 1)),
        ("pages side by side", (vec![page(5), page(6), page(7)], 3)),
        ("all pages", ((0..pages).map(page).collect(), usize::MAX)),
        ("footer, top, a page", (vec![footer, top, page(9)], 2)),
        // After the last intact page no other is known.
        ("top, first and last page", (vec![top, page(0), page(pages - 1)], 2)),
        ("top, pages side by side", (vec![top, page(11), page(12)], 2)),
        ("everything", ((0..pages).map(page).chain([footer, top]).collect(), 1)),
    ]);
    for (what, (places, damages)) in cases {
        let reported = sample.assert_whole(&spoiled(bytes, &places), what);
        assert!(reported == damages || damages == usize::MAX, "{what}: {reported} damages");
    }
    // Each page alone, and each with the one in which versions of a key continue.
    for number in (0..pages).step_by(7) {
        sample.assert_whole(&spoiled(bytes, &[page(number)]), &format!("page {number}"));
        sample.assert_whole(&spoiled(bytes, &[top, page(number)]), &format!("top and page {number}"));
    }
}

#[test]
fn a_key_that_is_not_found_beside_a_lost_head_and_a_lost_page_is_refused() {
    let sample = sample();
    let storage = storage_with(&sample.files, SEGMENT, None);
    assert!(open_simulated(&storage).unwrap().get(&key(7)).is_err(), "the segment is missing");
    let pack = open_simulated(&storage_with(&sample.files, SEGMENT, Some(sample.bytes()))).unwrap();
    let entry = pack.keys(&[]).unwrap().map(Result::unwrap).find(|entry| entry.key == key(1001)).unwrap();
    let hit = |page: bool| {
        let mut hit = sample.bytes().to_vec();
        hit[entry.position().1 as usize + 20] ^= 1;
        if page {
            (sample.index.start..sample.index.end).step_by(UNIT).for_each(|at| hit[at + 30] ^= 1);
        }
        open_simulated(&storage_with(&sample.files, SEGMENT, Some(&hit))).unwrap()
    };
    let absent = Key::bytes("never").unwrap();
    let pack = hit(false);
    assert!(pack.get(&key(1001)).is_err());
    assert_eq!(pack.get(&absent).unwrap(), None, "the index is whole, and knows");
    let pack = hit(true);
    for key in [&key(1001), &absent] {
        let error = pack.get(key).unwrap_err().to_string();
        assert!(error.contains("may be in there") && error.contains(&key.to_string()), "{error}");
    }
    assert!(pack.get(&key(1002)).unwrap().is_some());
}

/// A tree of a pack says so, too: its listing may lack a name.
#[test]
fn a_lost_head_and_a_lost_page_are_a_failure_of_the_listing() {
    let sample = sample();
    let pack = open_simulated(&storage_with(&sample.files, SEGMENT, Some(sample.bytes()))).unwrap();
    let entry = pack.keys(&[]).unwrap().map(Result::unwrap).find(|entry| entry.key == key(1001)).unwrap();
    let mut hit = sample.bytes().to_vec();
    hit[entry.position().1 as usize + 20] ^= 1;
    for is_page_hit in [false, true] {
        if is_page_hit {
            (sample.index.start..sample.index.end).step_by(UNIT).for_each(|at| hit[at + 30] ^= 1);
        }
        let open = || Arc::new(open_simulated(&storage_with(&sample.files, SEGMENT, Some(&hit))).unwrap());
        for tree in [RecordTree::new(open()).unwrap(), RecordTree::with_names(open()).unwrap()] {
            let (mut cursor, mut page, mut names, mut failures) =
                (Some(Cursor::Start), Page::new(), 0, Vec::new());
            while let Some(from) = cursor {
                cursor = tree.list(tree.root(), &from, &mut page).unwrap();
                names += page.len();
                failures.extend(page.take_failures());
            }
            let [failure] = &failures[..] else { panic!("{failures:?}") };
            assert_eq!(names, sample.model.len() - 1);
            // Where the index is whole, it is the name alone.
            assert_eq!(failure.to_string().contains(&key(1001).to_string()), !is_page_hit, "{failure}");
        }
    }
}

/// What a writer that was killed left is replayed when a pack is opened: each of its records and
/// deletions is looked up in the indexes of the sealed segments.
#[test]
fn a_hit_page_and_a_killed_writer_do_not_keep_a_pack_from_opening_nor_a_repair_from_knowing_why() {
    let Sample { mut files, mut model, index } = sample();
    let storage = storage_with(&files, SEGMENT, Some(&files[SEGMENT]));
    let options = || {
        let mut options = tiny_writer(ScriptedHost::new(5));
        (options.segment_len, options.checkpoint_len) = (64 << 20, 64 << 20);
        options
    };
    let mut writer = PackWriter::open(Arc::new(storage.clone()), options()).unwrap();
    for number in (0..RECORDS).step_by(5) {
        writer.put("", &key(number), &Attributes::new(), b"late").unwrap();
        model.insert(key(number), b"late".to_vec());
    }
    for number in (1..RECORDS).step_by(5) {
        assert!(writer.delete(&key(number)).unwrap());
        model.remove(&key(number));
    }
    writer.sync().unwrap();
    drop(writer);
    files = files_of(&storage);
    files.remove("writer.lock");
    let pages = (index.end - index.start) / UNIT;
    for number in (0..pages).step_by(3) {
        let hit = spoiled(&files[SEGMENT], &[index.start + 30 + number * UNIT]);
        let storage = storage_with(&files, SEGMENT, Some(&hit));
        let pack = open_simulated(&storage).unwrap_or_else(|error| panic!("page {number}: {error}"));
        let found: PackModel = rest_of(pack.scan(ScanOptions::default())).unwrap().into_iter().collect();
        assert!(found == model, "page {number}: other records");
        let reported = pack.check(|_| {}).unwrap().damages;
        assert!(reported.len() == 1 && reported[0].file.ends_with(SEGMENT), "page {number}: {reported:?}");
        let saved = SimStorage::new();
        let mut quarantine = || -> stook::pack::Result<Arc<dyn Storage>> { unreachable!("no frame is hit") };
        let repaired =
            repair(&storage, Arc::new(saved.clone()), options(), &mut quarantine, &mut |_| true).unwrap();
        assert_eq!(repaired.damages, reported, "page {number}");
        assert!(!repaired.notes.iter().any(|note| note.contains("manifest")), "{:?}", repaired.notes);
        assert_holds(&open_simulated(&saved).unwrap(), &model);
        // And the next writer continues.
        let mut writer = PackWriter::open(Arc::new(storage.clone()), options()).unwrap();
        writer.put("", &key(1), &Attributes::new(), b"again").unwrap();
        writer.finish(true).unwrap();
        let pack = open_simulated(&storage).unwrap();
        assert_eq!(&pack.get(&key(1)).unwrap().unwrap().body[..], b"again");
        assert_eq!(pack.keys(&[]).unwrap().count(), model.len() + 1);
    }
}
