//! `read_tree`: one reader and many read the same bytes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use stook::walk::read_tree;

fn contents(roots: &[&Path], threads: usize) -> (BTreeMap<Vec<u8>, Vec<u8>>, u64) {
    let files: Mutex<BTreeMap<Vec<u8>, Vec<u8>>> = Mutex::default();
    let summary = read_tree(roots, threads, |piece| {
        let mut files = files.lock().unwrap();
        let file = files.entry(piece.key.to_vec()).or_default();
        assert_eq!(file.len() as u64, piece.offset);
        file.extend_from_slice(piece.data);
    })
    .unwrap();
    let files = files.into_inner().unwrap();
    assert_eq!(summary.files, files.len() as u64);
    (files, summary.bytes_read)
}

#[test]
fn one_reader_and_many_read_the_same_bytes_of_every_file() {
    let scratch = tempfile::tempdir().unwrap();
    let lens = [0, 1, 20_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000];
    for (i, len) in lens.iter().enumerate() {
        let directory = scratch.path().join(format!("r{}/d{}", i % 2, i % 3));
        std::fs::create_dir_all(&directory).unwrap();
        let bytes: Vec<u8> = (0..*len).map(|b: usize| (b * 7 + i) as u8).collect();
        std::fs::write(directory.join(i.to_string()), bytes).unwrap();
    }
    std::os::unix::fs::symlink("0", scratch.path().join("r0/link")).unwrap();
    let single = scratch.path().join("r0/d0/0");
    for roots in
        [vec![scratch.path()], vec![&scratch.path().join("r0"), &scratch.path().join("r1")], vec![&single]]
    {
        let (alone, bytes) = contents(&roots, 1);
        let (together, same_bytes) = contents(&roots, 7);
        assert!(alone == together);
        assert_eq!(bytes, same_bytes);
        assert_eq!(bytes, alone.values().map(|v| v.len() as u64).sum::<u64>());
    }
}

#[test]
fn a_root_that_is_not_there_is_an_error_for_any_number_of_readers() {
    let scratch = tempfile::tempdir().unwrap();
    for threads in [1, 4] {
        let error = read_tree([scratch.path().join("missing")], threads, |_| {}).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
    }
}
