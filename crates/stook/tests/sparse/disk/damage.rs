//! Damaged entries: never a wrong byte, never an error.

use std::fs;
use std::path::Path;

use stook::sparse::DiskStatistics;

use super::*;

const LEN: u64 = 300;

/// A directory with always the same salt, so that entries can be moved from one to another.
fn salted() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("salt"), [7; 32]).unwrap();
    directory
}

/// The files of a small entry by name.
fn small_entry(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let directory = salted();
    let file = file(Tagged::new("a", "1", bytes.to_vec()), &cache(directory.path(), PLENTY));
    file.read(range(0, 100)).unwrap();
    file.read(range(120, 300)).unwrap();
    let paths = files(directory.path(), ".index").into_iter().chain(files(directory.path(), ".data"));
    paths.map(|path| (path.file_name().unwrap().to_str().unwrap().into(), fs::read(path).unwrap())).collect()
}

/// Reads a source twice through a cache with these files; returns the first statistics and the
/// fetched ranges.
fn read_through(bytes: &[u8], entry: &[(String, Vec<u8>)]) -> (DiskStatistics, Vec<ByteRange>) {
    let directory = salted();
    for (name, contents) in entry {
        fs::write(directory.path().join(name), contents).unwrap();
    }
    let read = |directory: &Path| {
        let source = Tagged::new("a", "1", bytes.to_vec());
        let cache = cache(directory, PLENTY);
        let file = file(source.clone(), &cache);
        for part in [range(0, 50), range(50, LEN), range(0, LEN)] {
            let got = file.read(part).unwrap();
            assert_eq!(got, bytes[part.start() as usize..part.end() as usize]);
        }
        let statistics = cache.statistics();
        assert_eq!((statistics.failures, &statistics.first_failure), (0, &None));
        (statistics, source.asked())
    };
    let first = read(directory.path());
    let (_, asked) = read(directory.path());
    assert_eq!(asked, [], "what was lost is kept again");
    first
}

#[test]
fn without_damage_only_the_gap_is_fetched() {
    let bytes = pattern(LEN as usize, 1);
    let (statistics, asked) = read_through(&bytes, &small_entry(&bytes));
    assert_eq!(asked, [range(100, 120)]);
    assert_eq!((statistics.damaged_ranges, statistics.discarded_entries), (0, 0));
}

#[test]
fn any_flipped_bit_is_noticed_and_fetched_again() {
    let bytes = pattern(LEN as usize, 1);
    let entry = small_entry(&bytes);
    for (number, (name, contents)) in entry.iter().enumerate() {
        for bit in 0..contents.len() * 8 {
            let in_gap = number == 1 && (100..120).contains(&(bit / 8));
            let mut damaged = entry.clone();
            damaged[number].1[bit / 8] ^= 1 << (bit % 8);
            let (statistics, asked) = read_through(&bytes, &damaged);
            let noticed = statistics.damaged_ranges + statistics.discarded_entries;
            assert_eq!(noticed, u64::from(!in_gap), "{name}, bit {bit}");
            let fetched: u64 = asked.iter().map(ByteRange::len).sum();
            assert!(in_gap || fetched > 20, "{name}, bit {bit}: {asked:?}");
        }
    }
}

#[test]
fn files_that_are_cut_short_anywhere_give_what_is_left() {
    let bytes = pattern(LEN as usize, 1);
    let entry = small_entry(&bytes);
    for number in [0, 1] {
        for len in 0..entry[number].1.len() {
            let mut damaged = entry.clone();
            damaged[number].1.truncate(len);
            let (_, asked) = read_through(&bytes, &damaged);
            assert!(asked.iter().map(ByteRange::len).sum::<u64>() > 20, "{number}, {len}: {asked:?}");
        }
        let mut damaged = entry.clone();
        damaged.remove(number);
        let (_, asked) = read_through(&bytes, &damaged);
        assert_eq!(asked.iter().map(ByteRange::len).sum::<u64>(), LEN, "{number} is gone");
    }
}

#[test]
fn what_a_power_failure_leaves_is_fetched_again() {
    let bytes = pattern(LEN as usize, 1);
    let entry = small_entry(&bytes);
    // The length was written, the bytes were not: anywhere from some byte on, zeros.
    for number in [0, 1] {
        for from in 0..entry[number].1.len() {
            let mut damaged = entry.clone();
            damaged[number].1[from..].fill(0);
            read_through(&bytes, &damaged);
        }
    }
    let (statistics, _) = read_through(&bytes, &{
        let mut damaged = entry.clone();
        damaged[1].1.fill(0);
        damaged
    });
    assert_eq!(statistics.damaged_ranges, 0, "a hole is no damage");
}

#[test]
fn a_record_that_was_cut_off_is_replaced_by_the_next() {
    let bytes = pattern(LEN as usize, 1);
    let mut entry = small_entry(&bytes);
    entry[0].1.extend([7; 13]);
    let (statistics, asked) = read_through(&bytes, &entry);
    assert_eq!(asked, [range(100, 120)]);
    assert_eq!(statistics.damaged_ranges, 0);
}

#[test]
fn entries_of_other_versions_begin_anew() {
    let bytes = pattern(LEN as usize, 1);
    for version in [0_u16, 2, 700] {
        let mut entry = small_entry(&bytes);
        entry[0].1[8..10].copy_from_slice(&version.to_le_bytes());
        let (statistics, asked) = read_through(&bytes, &entry);
        assert_eq!(asked.iter().map(ByteRange::len).sum::<u64>(), LEN);
        assert_eq!(statistics.discarded_entries, 1);
    }
}

#[test]
fn an_entry_under_the_name_of_another_is_not_taken_for_it() {
    let bytes = pattern(LEN as usize, 1);
    let directory = salted();
    let shared = cache(directory.path(), PLENTY);
    file(Tagged::new("b", "1", pattern(LEN as usize, 9)), &shared).read(range(0, LEN)).unwrap();
    let entry = small_entry(&bytes);
    let name = entry[0].0.split('.').next().unwrap();
    let mut moved = Vec::new();
    for path in files(directory.path(), ".index").into_iter().chain(files(directory.path(), ".data")) {
        let (_, rest) = path.file_name().unwrap().to_str().unwrap().split_once('.').unwrap();
        moved.push((format!("{name}.{rest}"), fs::read(&path).unwrap()));
    }
    let (statistics, asked) = read_through(&bytes, &moved);
    assert_eq!(asked.iter().map(ByteRange::len).sum::<u64>(), LEN);
    assert_eq!(statistics.discarded_entries, 1);
    // Nor are its records valid in the index of this one.
    let mut mixed = entry;
    let records = moved[0].1.len() - 20;
    mixed[0].1.extend(&moved[0].1[records..]);
    let (statistics, asked) = read_through(&bytes, &mixed);
    assert_eq!(asked, [range(100, 120)]);
    assert_eq!(statistics.damaged_ranges, 1);
}

#[test]
fn the_bytes_of_an_index_are_those_of_the_document() {
    let mut bytes = b"\x89STKSPC\n".to_vec();
    bytes.extend([1, 0, 1, 0]);
    bytes.extend(113_u32.to_le_bytes());
    for number in [7_u64, 1 << 20, 0, 0, 5, 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend([3, 0, 0, 0, 2, 0, 0, 0]);
    bytes.extend([0xaf; 32]);
    bytes.extend(b"\"e\"ab");
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    assert_eq!(bytes.len(), 113);
    let sum_of_header: [u8; 4] = *bytes.last_chunk().unwrap();
    for (start, len, sum) in [(100_u64, 65_536_u32, 9_u32), (0, 3, 4)] {
        let mut record = start.to_le_bytes().to_vec();
        record.extend(len.to_le_bytes());
        record.extend(sum.to_le_bytes());
        let record_sum = crc32c::crc32c_append(crc32c::crc32c(&sum_of_header), &record);
        bytes.extend(record);
        bytes.extend(record_sum.to_le_bytes());
    }
    let index = CacheIndex::decode(&bytes).unwrap();
    assert_eq!((index.name(), index.key()), ("ab", &[0xaf; 32]));
    let identity = Identity { len: 1 << 20, mtime_ns: 5, etag: Some("\"e\"".into()), ..Identity::default() };
    assert_eq!((index.identity(), index.damaged_records()), (&identity, 0));
    assert_eq!(index.ranges().collect::<Vec<_>>(), [range(100, 65_636), range(0, 3)]);
    assert_eq!(index.encode(), bytes);
    // Invalid ranges do not count, though their checksums are right.
    for (start, len) in [(0_u64, 0_u32), (0, 65_537), ((1 << 20) - 1, 2), (u64::MAX, 1)] {
        let mut record = start.to_le_bytes().to_vec();
        record.extend(len.to_le_bytes());
        record.extend([0; 4]);
        let record_sum = crc32c::crc32c_append(crc32c::crc32c(&sum_of_header), &record);
        let mut bytes = bytes.clone();
        bytes.extend(record);
        bytes.extend(record_sum.to_le_bytes());
        let index = CacheIndex::decode(&bytes).unwrap();
        assert_eq!((index.damaged_records(), index.ranges().count()), (1, 2), "{start} {len}");
    }
}

#[test]
fn without_its_salt_an_entry_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = pattern(LEN as usize, 1);
    let read = |expected: &[ByteRange]| {
        let source = Tagged::new("a", "1", bytes.clone());
        let cache = cache(directory.path(), PLENTY);
        assert_eq!(file(source.clone(), &cache).read(range(0, LEN)).unwrap(), bytes);
        assert_eq!(source.asked(), expected);
        assert_eq!(cache.statistics().failures, 0);
    };
    read(&[range(0, LEN)]);
    read(&[]);
    let salt = directory.path().join("salt");
    for damaged in [None, Some(&b""[..]), Some(&[1; 31]), Some(&[1; 33])] {
        match damaged {
            None => fs::remove_file(&salt).unwrap(),
            Some(bytes) => fs::write(&salt, bytes).unwrap(),
        }
        read(&[range(0, LEN)]);
        read(&[]);
    }
}
