//! The smallest chunks that the format allows, and the largest: bodies around one and two of them,
//! through every reader.

use std::sync::Arc;

use stook::pack::{
    Attributes, CompactOptions, Key, OpenOptions, Pack, PackWriter, ScanOptions, ScanOrder, WriterOptions,
    repair,
};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::pattern;
use stook_testing::model::pack::{PackModel, rest_of};

fn local(path: &std::path::Path) -> Arc<dyn Storage> {
    std::fs::create_dir_all(path).unwrap();
    Arc::new(LocalStorage::open(path, LocalStorageOptions::default()).unwrap())
}

/// Bodies of known length and framed ones.
fn put(writer: &mut PackWriter, number: u64, body: &[u8], framed: bool) {
    let (key, announced) = (Key::id(number), (!framed).then_some(body.len() as u64));
    let mut record = writer.begin("", &key, &Attributes::new(), announced).unwrap();
    body.chunks(1 << 20).for_each(|part| record.write(part).unwrap());
    record.finish().unwrap();
}

fn assert_read(path: &std::path::Path, model: &PackModel) {
    let pack = Pack::open_path(path, OpenOptions::default()).unwrap();
    assert_eq!(pack.damages(), []);
    for (key, body) in model {
        assert!(pack.get(key).unwrap().unwrap().body == *body, "{key}: get");
        let mut record = pack.open_record(key).unwrap().unwrap();
        let mut read = Vec::new();
        while let Some(chunk) = record.next_chunk().unwrap() {
            read.extend_from_slice(chunk);
        }
        assert!(read == *body, "{key}: a stream");
    }
    for order in [ScanOrder::Disk, ScanOrder::Key] {
        let scanned = rest_of(pack.scan(ScanOptions { order, ..ScanOptions::default() })).unwrap();
        assert!(scanned.into_iter().collect::<PackModel>() == *model, "{order:?}");
    }
    let loaded = pack.load(&ScanOptions::default()).unwrap();
    let held: PackModel = loaded.iter().map(|r| (r.key().unwrap(), r.body.to_vec())).collect();
    assert!(held == *model, "load");
    drop(loaded);
    let report = pack.check(|_| {}).unwrap();
    assert_eq!((report.damages.to_vec(), report.live_records), (Vec::new(), model.len() as u64));
}

#[test]
fn every_reader_takes_chunks_of_any_size_that_is_allowed() {
    for chunk_log2 in [12, 21, 24] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.stook");
        let options = WriterOptions { chunk_log2, ..WriterOptions::default() };
        let mut writer = PackWriter::create(local(&path), options.clone()).unwrap();
        let chunk = 1_usize << chunk_log2;
        // In a debug build every byte of them takes its time: one length in each form is enough for
        // the largest.
        let lens =
            if chunk_log2 == 24 { vec![chunk, chunk + 1] } else { vec![chunk - 1, chunk, 2 * chunk + 1] };
        let mut model = PackModel::new();
        for (number, &len) in (0..).zip(&lens) {
            let body = pattern(len, number);
            for (key, framed) in [(2 * number, false), (2 * number + 1, true)] {
                put(&mut writer, key, &body, framed);
                model.insert(Key::id(key), body.clone());
            }
        }
        put(&mut writer, 99, b"goes", false);
        writer.publish().unwrap();
        assert_read(&path, &model.clone().into_iter().chain([(Key::id(99), b"goes".to_vec())]).collect());
        assert!(writer.delete(&Key::id(99)).unwrap());
        let done = writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
        assert_eq!((done.records, done.left_out.len()), (model.len() as u64, 0));
        writer.finish(true).unwrap();
        assert_read(&path, &model);
        let to = directory.path().join("repaired.stook");
        let mut aside = || Ok(local(&directory.path().join("aside")));
        let reported = repair(local(&path).as_ref(), local(&to), options, &mut aside, &mut |_| true).unwrap();
        assert_eq!((reported.records, reported.damages.to_vec()), (model.len() as u64, Vec::new()));
        assert_read(&to, &model);
    }
}
