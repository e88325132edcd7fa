//! A cache that is damaged, hostile, full or read-only costs the cache and nothing else.

use std::os::unix::fs::{FileExt as _, symlink};
use std::process::Command;

use stook_testing::fault::{FaultCalls, OutFault};
use stook_testing::sweep::{assert_met, each_call};

use super::*;

/// What happens to the two files of an entry.
type Hurt = (&'static str, fn(&Path, &Path));

fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn truncate(path: &Path, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn move_away(path: &Path) -> PathBuf {
    let moved = path.parent().unwrap().parent().unwrap().join("moved");
    fs::rename(path, &moved).unwrap();
    moved
}

const HURTS: [Hurt; 14] = [
    ("one byte of the copy", |_, copy| write_at(copy, 700, &[0x55])),
    ("its last byte", |_, copy| write_at(copy, copy.metadata().unwrap().len() - 1, &[1])),
    ("a copy cut short", |_, copy| truncate(copy, 700)),
    ("an empty copy", |_, copy| truncate(copy, 0)),
    ("a longer copy", |_, copy| truncate(copy, copy.metadata().unwrap().len() + 1)),
    ("no copy", |_, copy| fs::remove_file(copy).unwrap()),
    ("a link to the copy", |_, copy| symlink(move_away(copy), copy).unwrap()),
    ("a pipe as copy", |_, copy| {
        fs::remove_file(copy).unwrap();
        assert!(Command::new("mkfifo").arg(copy).status().unwrap().success());
    }),
    ("one byte of the record", |record, _| write_at(record, 50, &[0x55])),
    ("a record cut short", |record, _| truncate(record, 60)),
    ("an empty record", |record, _| truncate(record, 0)),
    ("a long record", |record, _| truncate(record, 1 << 40)),
    ("a link to the record", |record, _| symlink(move_away(record), record).unwrap()),
    ("a pipe as record", |record, _| {
        fs::remove_file(record).unwrap();
        assert!(Command::new("mkfifo").arg(record).status().unwrap().success());
    }),
];

#[test]
fn a_damaged_entry_is_thrown_away_with_a_note_and_made_again() {
    for (what, hurt) in HURTS {
        let place = Place::of(20);
        let expected = read_through(&place.tar().file).unwrap();
        assert!(check(&place.cache(), &place.tar(), &expected));
        hurt(&place.files(".record")[0], &place.files(".merged")[0]);
        let cache = place.cache();
        assert!(check(&cache, &place.tar(), &expected), "{what}");
        let statistics = cache.statistics();
        assert_eq!((statistics.discarded, statistics.built, statistics.found), (1, 1, 0), "{what}");
        let notes = cache.take_notes();
        assert!(notes.len() == 1 && notes[0].contains("thrown away"), "{what}: {notes:?}");
        assert!(check(&place.cache(), &place.tar(), &expected), "{what}");
        assert_eq!((place.files(".record").len(), place.files(".merged").len()), (1, 1), "{what}");
    }
}

#[test]
fn the_record_of_another_entry_is_not_believed() {
    let place = Place::of(20);
    let expected = read_through(&place.tar().file).unwrap();
    assert!(check(&place.cache(), &place.tar(), &expected));
    let first = place
        .files("")
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "record" || end == "merged"))
        .collect::<Vec<_>>();
    // Another state of the tree has another entry, in whose place the first is put.
    fs::write(place.file(4), vec![9; body(4).len()]).unwrap();
    settle();
    let changed = read_through(&place.tar().file).unwrap();
    assert!(changed != expected && changed.len() == expected.len());
    assert!(check(&place.cache(), &place.tar(), &changed));
    let key = |path: &Path| path.file_name().unwrap().to_str().unwrap()[..64].to_owned();
    let old = key(&first[0]);
    let new = place.files(".record").iter().map(|path| key(path)).find(|found| *found != old).unwrap();
    for path in first {
        let name = path.file_name().unwrap().to_str().unwrap().replace(&old, &new);
        fs::copy(&path, place.cache_path().join(name)).unwrap();
    }
    let cache = place.cache();
    assert!(check(&cache, &place.tar(), &changed));
    assert!(cache.take_notes()[0].contains("of another file"));
}

#[test]
fn an_entry_that_cannot_be_removed_costs_the_copy_alone() {
    let place = Place::of(20);
    let expected = read_through(&place.tar().file).unwrap();
    assert!(check(&place.cache(), &place.tar(), &expected));
    let record = place.files(".record").remove(0);
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();
    let cache = place.cache();
    assert!(!check(&cache, &place.tar(), &expected));
    assert!(!cache.take_notes().is_empty());
    assert!(record.is_dir());
}

#[test]
fn a_copy_that_is_changed_while_it_is_used_is_an_error_that_names_it() {
    let place = Place::of(20);
    let file = merged(&place.cache(), &place.tar().file);
    all_of(&file).unwrap();
    let copy = place.files(".merged").remove(0);
    settle();
    write_at(&copy, 700, &[0x55]);
    let said = stook::error::chain(&file.check_unchanged().unwrap_err());
    assert!(said.contains(copy.file_name().unwrap().to_str().unwrap()), "{said}");
    let mut session =
        stook::source::Session::new(&Backend::Auto, stook::source::SessionOptions::default()).unwrap();
    let all = [ByteRange::to(file.len())];
    let said = stook::error::chain(&session.read_batch(&file, &all, Access::Cached).unwrap_err());
    assert!(said.contains(copy.file_name().unwrap().to_str().unwrap()), "{said}");
    // It is in use, so it stays; who opens it anew does not use it.
    let (cache, expected) = (place.cache(), read_through(&place.tar().file).unwrap());
    assert!(!check(&cache, &place.tar(), &expected));
    assert!(cache.take_notes()[0].contains("by others"));
    drop(file);
    assert!(check(&cache, &place.tar(), &expected));
}

#[test]
fn content_is_compared_where_times_cannot_be_trusted() {
    let place = Place::of(20);
    let options = MergedCacheOptions { verify_content: true, ..ALWAYS };
    let expected = read_through(&place.tar().file).unwrap();
    assert!(check(&place.cache(), &place.tar(), &expected));
    let cache = place.cache_with(options);
    assert!(check(&cache, &place.tar(), &expected));
    assert_eq!((cache.statistics().found, cache.statistics().built), (1, 0));
    // A copy that is whole, and of other bytes: as if a change had left all times as they were.
    let copy = place.files(".merged").remove(0);
    write_at(&copy, 700, &[0x55]);
    let hash = *blake3::hash(&fs::read(&copy).unwrap()).as_bytes();
    let record = place.files(".record").remove(0);
    let mut bytes = fs::read(&record).unwrap();
    bytes[64..96].copy_from_slice(&hash);
    let end = bytes.len() - 4;
    let sum = crc32c_of(&bytes[..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&sum);
    write_at(&record, 0, &bytes);
    let file = merged(&place.cache(), &place.tar().file);
    assert!(file.is_merged() && all_of(&file).unwrap() != expected, "the entry was made right");
    // In use by others it can neither be used nor removed.
    let cache = place.cache_with(options);
    assert!(!check(&cache, &place.tar(), &expected));
    drop(file);
    let cache = place.cache_with(options);
    assert!(check(&cache, &place.tar(), &expected));
    assert_eq!((cache.statistics().discarded, cache.statistics().built), (1, 1));
    assert!(cache.take_notes()[0].contains("other bytes than what it is made of"));
}

/// The checksum of the format, bit by bit.
fn crc32c_of(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0x82F6_3B78 * (sum & 1)))
    })
}

#[test]
fn whichever_call_fails_the_bytes_are_right_and_no_half_entry_is_there() {
    let place = Place::of(20);
    let expected = read_through(&place.tar().file).unwrap();
    let mut met = std::collections::BTreeSet::new();
    // No room, a broken disk, and a directory that may only be read.
    for (errno, has_unnamed) in [(28, true), (28, false), (5, true), (5, false), (30, true)] {
        let calls = |nth| {
            let calls = FaultCalls::nth(nth, OutFault::Fails(errno));
            if has_unnamed { calls } else { calls.without_unnamed() }
        };
        let run = |calls: Arc<FaultCalls>| {
            let _ = fs::remove_dir_all(place.cache_path());
            let cache = MergedCache::open_through(place.cache_path(), ALWAYS, calls).unwrap();
            let is_merged = check(&cache, &place.tar(), &expected);
            (is_merged, cache.take_notes())
        };
        met.extend(each_call(1, calls, run, |(is_merged, notes), nth, name| {
            assert!(is_merged || notes.len() == 1, "{errno}, call {nth}, {name}: {notes:?}");
            let (records, copies) = (place.files(".record").len(), place.files(".merged").len());
            // Where a name cannot be taken away either, it stays for the next purge.
            assert!(
                is_merged || name == "unlink" || (records, copies) == (0, 0),
                "{errno}, call {nth}, {name}"
            );
            let next = place.cache();
            assert!(check(&next, &place.tar(), &expected), "{errno}, call {nth}, {name}");
        }));
    }
    assert_met(&met, ["create", "create_unnamed", "link_unnamed", "rename_new", "sync", "write_at"]);
}

#[test]
fn a_cache_that_may_only_be_read_is_used_and_not_written() {
    if rustix::process::geteuid().is_root() {
        // Nothing is forbidden to root: a directory that is gone refuses everything instead.
        let place = Place::of(20);
        let expected = read_through(&place.tar().file).unwrap();
        let cache = place.cache();
        fs::remove_dir_all(place.cache_path()).unwrap();
        assert!(!check(&cache, &place.tar(), &expected));
        assert_eq!(cache.take_notes().len(), 1);
        return;
    }
    let place = Place::of(20);
    let expected = read_through(&place.tar().file).unwrap();
    assert!(check(&place.cache(), &place.tar(), &expected));
    fs::set_permissions(place.cache_path(), fs::Permissions::from_mode(0o500)).unwrap();
    let cache = place.cache();
    assert!(check(&cache, &place.tar(), &expected), "{:?}", cache.take_notes());
    fs::write(place.file(1), "another").unwrap();
    settle();
    let changed = read_through(&place.tar().file).unwrap();
    assert!(!check(&cache, &place.tar(), &changed));
    assert_eq!(cache.take_notes().len(), 1);
    fs::set_permissions(place.cache_path(), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_directory_in_which_others_may_write_or_that_is_of_others_is_refused() {
    let place = Place::of(1);
    let refused = |path: &Path, what: &str| {
        let said = stook::error::chain(&MergedCache::open(path, ALWAYS).unwrap_err());
        assert!(said.contains(what), "{said}");
    };
    for mode in [0o777, 0o770, 0o702] {
        let open = place.directory.path().join(format!("{mode:o}"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        refused(&open, "others may write there");
    }
    refused(&place.tree(), "it holds other files");
    refused(&place.file(0), "");
    if rustix::process::geteuid().is_root() {
        let other = place.directory.path().join("other");
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::chown(&other, Some(12345), None).unwrap();
        refused(&other, "others may write there");
    }
}
