//! What a compaction takes of memory.

use std::sync::Arc;
use std::time::Duration;

use stook::pack::{Attributes, CompactOptions, Key, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};

use super::{ALLOCATOR, alone};

/// The most memory that a compaction takes that keeps all versions of these keys, beyond what was
/// held before.
fn peak(memory_len: usize, keys: u64, versions: u64, body: &[u8]) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let storage = LocalStorage::open(dir.path(), LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap();
    // Out of its order, or there is nothing to do.
    writer.put("", &Key::bytes("last").unwrap(), &Attributes::new(), b"").unwrap();
    for _ in 0..versions {
        for key in (0..keys).rev() {
            let key = format!("key {key:08}").into_bytes();
            writer.put("", &Key::bytes(key).unwrap(), &Attributes::new(), body).unwrap();
        }
    }
    writer.publish().unwrap();
    let keep = Duration::from_secs(1 << 30);
    let options = CompactOptions { keep, memory_len, ..CompactOptions::default() };
    let before = ALLOCATOR.allocated();
    let mut most = 0;
    let done = writer.compact(&options, &mut |_| {
        most = most.max(ALLOCATOR.allocated().saturating_sub(before));
        true
    });
    assert_eq!(done.unwrap().records, keys * versions + 1);
    most
}

#[test]
fn a_compaction_takes_the_memory_that_it_may_however_many_versions_a_key_has() {
    let _alone = alone();
    let memory_len = 4 << 20;
    let body = vec![7; 6000];
    let (few, many) = (peak(memory_len, 1, 2_000, &body), peak(memory_len, 1, 20_000, &body));
    // All of their bodies before, 11,000 bytes a version; what is left is its place, and its time
    // of death. How much is being read at the moment of a sample differs from run to run.
    let under_way = 2 << 20;
    let a_version = many.saturating_sub(few + under_way) / 18_000;
    assert!(a_version <= 400, "{a_version} bytes a version");
    assert!(few <= 3 * memory_len + 2_000 * 400, "{few} bytes with {memory_len} allowed");
    // Records without a body count, too: 50,000 of them, in their order and the index of it.
    let short = peak(memory_len, 50_000, 1, b"");
    assert!(short <= 2 * memory_len + 50_000 * 100, "{short} bytes with {memory_len} allowed");
}
