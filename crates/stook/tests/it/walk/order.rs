//! In which order a walk hands over what it found.

use std::collections::BTreeMap;
use std::fs;

use stook::profile::Profile;
use stook::walk::{Walk, WalkOptions};

use super::{Report, report, small};

const DIRECTORIES: usize = 80;
const FILES: usize = 50;
/// How many files the first and the last of a directory of fifty may be apart, in most: what is
/// packed in this order is one short read then.
const APART_MAX: usize = 200;

#[test]
fn the_files_of_a_directory_come_together_however_many_threads_read_them() {
    let root = tempfile::tempdir().unwrap();
    for directory in 0..DIRECTORIES {
        let path = root.path().join(format!("d{}/s{}", directory / 10, directory % 10));
        fs::create_dir_all(&path).unwrap();
        for file in 0..FILES {
            fs::write(path.join(format!("f{file:02}.bin")), [7; 2000]).unwrap();
        }
    }
    // With room for all of it no thread waits for the consumer; with little, most do.
    for buffered_bytes_max in [1 << 30, 1 << 20, 256 << 10] {
        let options = WalkOptions { buffered_bytes_max, read_up_to: 4000, ..small(Profile::LOCAL.opens) };
        let apart = apart(&report(&Walk::new([root.path()]).unwrap().options(options)));
        let median = apart[DIRECTORIES / 2];
        assert!(median <= APART_MAX, "{buffered_bytes_max}: median {median}, longest {:?}", apart.last());
    }
}

/// How many files each directory's first and last file are apart, the least first.
fn apart(found: &Report) -> Vec<usize> {
    let mut reach: BTreeMap<&[u8], (usize, usize)> = BTreeMap::new();
    let files = found.items.iter().filter(|item| item.key.ends_with(b".bin"));
    for (at, item) in files.enumerate() {
        let slash = item.key.iter().rposition(|byte| *byte == b'/').unwrap();
        reach.entry(&item.key[..slash]).or_insert((at, at)).1 = at;
    }
    let mut apart: Vec<usize> = reach.values().map(|(first, last)| last - first).collect();
    assert_eq!(apart.len(), DIRECTORIES);
    apart.sort_unstable();
    apart
}
