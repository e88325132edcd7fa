//! Large files that were cut off are continued, from what is verified, and by nothing else.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use stook::copy::{
    Copy, CopyEvents, CopyJournal, CopyOptions, CopyReport, CopySource, Destination, Durability, HashKind,
    Item, Resume, Unfinished,
};
use stook::engine::{Backend, EngineFactory};
use stook::source::{FileSource, Source as _};
use stook::tree::outbox::Calls;
use stook_testing::fault::{EngineCall, EngineFault, FaultCalls, FaultEngineFactory, OutFault};
use stook_testing::sweep::stride;

const BLOCK: u64 = 1 << 20;
/// Six blocks, of which the last is short.
const LEN: u64 = 5 * BLOCK + 123;
/// As `docs/formats/copy-journal-v1.md` says.
const HEADER_LEN: u64 = 92;
const RECORD_LEN: u64 = 36;
const EIO: i32 = 5;

/// A directory with one large file, and destinations beside it.
struct Place(tempfile::TempDir);

/// Keeps what the copied files hash to.
#[derive(Default)]
struct Digests(Vec<String>);

impl CopyEvents for Digests {
    fn item(&mut self, item: &Item) {
        self.0.extend(item.digests.iter().map(ToString::to_string));
    }
}

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.at("from")).unwrap();
        place.write(&bytes_of(1));
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes the source, and waits until a change of it would show in its times.
    fn write(&self, bytes: &[u8]) {
        let path = self.at("from/big");
        fs::write(&path, bytes).unwrap();
        self.settle();
    }

    fn settle(&self) {
        while !FileSource::open(self.at("from/big")).unwrap().identity().is_settled() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn source(&self) -> Vec<u8> {
        fs::read(self.at("from/big")).unwrap()
    }

    /// The names of a kind in a destination that are not final.
    fn kept(&self, to: &str, end: &str) -> PathBuf {
        let mut found = kept_in(&self.at(to));
        found.retain(|path| path.to_str().unwrap().ends_with(end));
        assert_eq!(found.len(), 1, "{end} in {to}");
        found.remove(0)
    }

    fn run(
        &self,
        to: &[&str],
        options: &CopyOptions,
        calls: &Arc<dyn Calls>,
        reading: &FaultEngineFactory,
    ) -> (CopyReport, Digests) {
        // Files that share blocks are not written at all.
        let writing = FaultEngineFactory::new(Backend::Auto);
        for call in [EngineCall::CloneRange, EngineCall::CopyRange] {
            writing.fail_every(Some(call), 1, EngineFault::Unsupported);
        }
        let factory: Arc<dyn EngineFactory> = Arc::new(writing);
        let to = to.iter().map(|to| Destination {
            path: self.at(to),
            calls: calls.clone(),
            factory: factory.clone(),
        });
        let sources = vec![CopySource::directory(self.at("from")).unwrap()];
        let copy = Copy { reading: Arc::new(reading.clone()), ..Copy::new(sources, to.collect()) };
        let mut digests = Digests::default();
        (copy.with_options(options.clone()).run(&mut digests).unwrap(), digests)
    }

    /// A copy in which the source cannot be read after this many blocks.
    fn cut(&self, to: &str, blocks: usize, options: &CopyOptions) -> CopyReport {
        let reading = FaultEngineFactory::new(Backend::Auto);
        reading.fail(Some(EngineCall::Read), blocks, EngineFault::Fails);
        let (report, _) = self.run(&[to], options, &plain(), &reading);
        assert_eq!(report.failures.len(), 1, "{report:?}");
        assert!(!self.at(to).join("big").exists());
        report
    }

    /// The same, after which a file stays.
    fn cut_and_kept(&self, to: &str, blocks: u64, options: &CopyOptions) {
        let report = self.cut(to, blocks as usize, options);
        let there = Unfinished { key: b"big".to_vec(), bytes: blocks * BLOCK };
        assert_eq!(report.destinations[0].unfinished, [there]);
    }

    /// A copy in which nothing fails, and that leaves nothing but what is copied.
    #[track_caller]
    fn finish(&self, to: &[&str], options: &CopyOptions) -> CopyReport {
        let reading = FaultEngineFactory::new(Backend::Auto);
        let (report, digests) = self.run(to, options, &plain(), &reading);
        assert_eq!(report.undone(), 0, "{report:?}");
        let source = self.source();
        for to in to {
            assert!(fs::read(self.at(to).join("big")).unwrap() == source, "other bytes in {to}");
            assert!(report.destinations.iter().all(|one| one.unfinished.is_empty()));
        }
        if !options.hashes.is_empty() {
            assert_eq!(digests.0, vec![blake3::hash(&source).to_string(); to.len()]);
        }
        report
    }
}

/// Everything in a directory that has a temporary name.
fn kept_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(".stook-")).collect()
}

/// Bytes without a block of zeros, another for each number.
fn bytes_of(number: u64) -> Vec<u8> {
    let mut state = number;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..LEN).map(next).collect()
}

fn plain() -> Arc<dyn Calls> {
    Arc::new(FaultCalls::none())
}

/// One block at a time, each followed by a checkpoint.
fn options(hashes: &[HashKind]) -> CopyOptions {
    let resume = Resume { from_bytes: 2 * BLOCK, checkpoint_bytes: BLOCK, checkpoint_after: Duration::MAX };
    let (block_bytes, depth, resume) = (Some(BLOCK), Some(1), Some(resume));
    CopyOptions { block_bytes, depth, resume, hashes: hashes.to_vec(), ..CopyOptions::default() }
}

/// What happens to what a run left.
#[derive(Debug, Clone)]
enum Harm {
    FlipFile(u64, u8),
    CutFile(u64),
    FlipJournal(u64, u8),
    CutJournal(u64),
    /// More bytes at its end.
    Lengthen(u64),
}

fn harms() -> impl Strategy<Value = Harm> {
    // Often in the header, and else where the records are.
    let in_journal = || prop_oneof![1 => 0..HEADER_LEN, 3 => HEADER_LEN..HEADER_LEN + 5 * RECORD_LEN];
    prop_oneof![
        (0..LEN, 0..8_u8).prop_map(|(at, bit)| Harm::FlipFile(at, bit)),
        (0..LEN).prop_map(Harm::CutFile),
        (in_journal(), 0..8_u8).prop_map(|(at, bit)| Harm::FlipJournal(at, bit)),
        in_journal().prop_map(Harm::CutJournal),
        (0..3 * RECORD_LEN).prop_map(Harm::Lengthen),
    ]
}

impl Harm {
    fn inflict(&self, file: &Path, journal: &Path) {
        let open = |path| fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let flip = |path, at, bit| {
            let (file, mut byte) = (open(path), [0]);
            if file.read_at(&mut byte, at).unwrap() == 1 {
                file.write_all_at(&[byte[0] ^ (1_u8 << bit)], at).unwrap();
            }
        };
        match *self {
            Self::FlipFile(at, bit) => flip(file, at, bit),
            Self::FlipJournal(at, bit) => flip(journal, at, bit),
            Self::CutFile(len) => open(file).set_len(len).unwrap(),
            Self::CutJournal(len) => {
                let journal = open(journal);
                journal.set_len(len.min(journal.metadata().unwrap().len())).unwrap();
            }
            Self::Lengthen(len) => {
                let mut journal = fs::OpenOptions::new().append(true).open(journal).unwrap();
                journal.write_all(&vec![0xA5; len as usize]).unwrap();
            }
        }
    }
}

/// How many bytes two have in common at their beginning.
fn common(one: &[u8], other: &[u8]) -> u64 {
    one.iter().zip(other).take_while(|(one, other)| one == other).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The model knows nothing of hashes: a block counts if its record is as it was written, and
    /// the file has the bytes of the source up to its end.
    #[test]
    fn wherever_a_copy_is_cut_and_whatever_is_damaged_only_what_is_whole_is_not_copied_again(
        cut in 1..=5_u64,
        harms in prop::collection::vec(harms(), 0..3),
        with_hashes: bool,
        durability in prop_oneof![Just(Durability::Batch), Just(Durability::File), Just(Durability::None)],
    ) {
        let place = Place::new();
        let hashes = if with_hashes { &[HashKind::Blake3][..] } else { &[] };
        let options = CopyOptions { durability, ..options(hashes) };
        place.cut_and_kept("to", cut, &options);
        let (file, journal) = (place.kept("to", ".part"), place.kept("to", ".journal"));
        let written = fs::read(&journal).unwrap();
        prop_assert_eq!(written.len() as u64, HEADER_LEN + cut * RECORD_LEN);
        harms.iter().for_each(|harm| harm.inflict(&file, &journal));
        let damaged = fs::read(&journal).unwrap();
        let records = match common(&written, &damaged).checked_sub(HEADER_LEN) {
            // More records than the file has blocks: it is another journal.
            Some(_) if (damaged.len() as u64 - HEADER_LEN) / RECORD_LEN > 6 => 0,
            Some(whole) => whole / RECORD_LEN,
            None => 0,
        };
        let whole = common(&fs::read(&file).unwrap(), &place.source()) / BLOCK;
        let verified = records.min(whole) * BLOCK;
        let report = place.finish(&["to"], &options);
        prop_assert_eq!(report.destinations[0].resumed_bytes, verified);
        prop_assert_eq!(report.read_bytes, LEN - verified);
        prop_assert_eq!(kept_in(&place.at("to")), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_copy_that_is_cut_again_and_again_gets_to_its_end() {
    let place = Place::new();
    let options = options(&[]);
    for blocks in 1..=5 {
        // What is there is read first, then one block more.
        let reading = FaultEngineFactory::new(Backend::Auto);
        reading.fail(Some(EngineCall::Read), blocks, EngineFault::Fails);
        let (report, _) = place.run(&["to"], &options, &plain(), &reading);
        let there = Unfinished { key: b"big".to_vec(), bytes: blocks as u64 * BLOCK };
        assert_eq!(report.destinations[0].unfinished, [there], "{report:?}");
        assert_eq!(report.read_bytes, BLOCK);
    }
    let report = place.finish(&["to"], &options);
    assert_eq!((report.destinations[0].resumed_bytes, report.read_bytes), (5 * BLOCK, 123));
    assert!(kept_in(&place.at("to")).is_empty());
}

#[test]
fn what_one_destination_lacks_is_read_and_the_others_write_only_what_they_lack() {
    let place = Place::new();
    for hashes in [&[][..], &[HashKind::Blake3]] {
        for to in ["one", "two", "three", "four"] {
            let _ = fs::remove_dir_all(place.at(to));
        }
        let options = options(hashes);
        place.cut_and_kept("one", 4, &options);
        place.cut_and_kept("two", 2, &options);
        place.cut_and_kept("three", 3, &options);
        let report = place.finish(&["one", "two"], &options);
        let resumed: Vec<u64> = report.destinations.iter().map(|one| one.resumed_bytes / BLOCK).collect();
        assert_eq!((resumed, report.read_bytes), (vec![4, 2], LEN - 2 * BLOCK), "{report:?}");
        let report = place.finish(&["three", "four"], &options);
        let resumed: Vec<u64> = report.destinations.iter().map(|one| one.resumed_bytes / BLOCK).collect();
        assert_eq!((resumed, report.read_bytes), (vec![3, 0], LEN), "{report:?}");
        for to in ["one", "two", "three", "four"] {
            assert!(kept_in(&place.at(to)).is_empty(), "{to}");
        }
    }
}

#[test]
fn a_damaged_block_in_one_of_several_destinations_is_written_again_there() {
    let place = Place::new();
    for (hashes, damaged) in [(&[][..], "one"), (&[HashKind::Blake3], "one"), (&[HashKind::Blake3], "two")] {
        let _ = (fs::remove_dir_all(place.at("one")), fs::remove_dir_all(place.at("two")));
        let options = options(hashes);
        place.cut_and_kept("one", 4, &options);
        place.cut_and_kept("two", 2, &options);
        let (file, journal) = (place.kept(damaged, ".part"), place.kept(damaged, ".journal"));
        Harm::FlipFile(BLOCK + 7, 3).inflict(&file, &journal);
        let report = place.finish(&["one", "two"], &options);
        let resumed: Vec<u64> = report.destinations.iter().map(|one| one.resumed_bytes / BLOCK).collect();
        let wanted = if damaged == "one" { vec![1, 2] } else { vec![4, 1] };
        assert_eq!((resumed, report.read_bytes), (wanted, LEN - BLOCK), "{report:?}");
    }
}

#[test]
fn a_source_that_has_changed_is_copied_from_its_beginning() {
    let place = Place::new();
    let options = options(&[HashKind::Blake3]);
    // Of the same length.
    place.cut_and_kept("to", 3, &options);
    place.write(&bytes_of(2));
    let report = place.finish(&["to"], &options);
    assert_eq!((report.destinations[0].resumed_bytes, report.read_bytes), (0, LEN));
    // While it is read, and for good.
    fs::remove_dir_all(place.at("to")).unwrap();
    let reading = FaultEngineFactory::new(Backend::Auto);
    let path = place.at("from/big");
    reading.meanwhile(3, move || {
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"+").unwrap();
    });
    reading.fail(Some(EngineCall::Read), 8, EngineFault::Fails);
    let (report, _) = place.run(&["to"], &options, &plain(), &reading);
    assert!(report.undone() > 0, "{report:?}");
    place.settle();
    let report = place.finish(&["to"], &options);
    let kept = report.destinations[0].resumed_bytes;
    assert!(kept < 3 * BLOCK, "{kept} bytes of a file that is no more");
    assert!(kept_in(&place.at("to")).is_empty());
}

/// A journal whose header has other bytes somewhere, with the checksum that belongs to them.
fn with_field(journal: &Path, at: usize, bytes: &[u8]) {
    let mut all = fs::read(journal).unwrap();
    all[at..at + bytes.len()].copy_from_slice(bytes);
    let sum = crc32c::crc32c(&all[..88]);
    all[88..92].copy_from_slice(&sum.to_le_bytes());
    fs::write(journal, all).unwrap();
}

#[test]
fn a_journal_that_is_foreign_or_hostile_is_replaced() {
    type Change = fn(&Path, &Path);
    let place = Place::new();
    fs::write(place.at("precious"), bytes_of(9)).unwrap();
    let changes: &[(&str, Change)] = &[
        ("another version", |_, journal| with_field(journal, 8, &[2, 0])),
        ("unknown flags", |_, journal| with_field(journal, 10, &[1, 0])),
        ("blocks of nothing", |_, journal| with_field(journal, 12, &[0; 4])),
        ("a length beyond all", |_, journal| with_field(journal, 16, &[0xFF; 8])),
        ("another time", |_, journal| with_field(journal, 24, &[7; 8])),
        ("another inode", |_, journal| with_field(journal, 40, &[7; 8])),
        ("another place", |_, journal| with_field(journal, 56, &[7; 32])),
        ("nothing", |_, journal| fs::write(journal, "").unwrap()),
        ("gone", |_, journal| fs::remove_file(journal).unwrap()),
        ("a link", |_, journal| {
            fs::remove_file(journal).unwrap();
            symlink("../precious", journal).unwrap();
        }),
        ("a link to nowhere", |_, journal| {
            fs::remove_file(journal).unwrap();
            symlink("/nowhere", journal).unwrap();
        }),
        ("a pipe", |_, journal| {
            fs::remove_file(journal).unwrap();
            make_pipe(journal);
        }),
        ("a file of the same bytes under its name", |file, _| {
            let bytes = fs::read(file).unwrap();
            let other = file.with_extension("other");
            fs::write(&other, bytes).unwrap();
            fs::rename(other, file).unwrap();
        }),
    ];
    let options = options(&[]);
    for (case, change) in changes {
        let _ = fs::remove_dir_all(place.at("to"));
        place.cut_and_kept("to", 3, &options);
        change(&place.kept("to", ".part"), &place.kept("to", ".journal"));
        let report = place.finish(&["to"], &options);
        assert_eq!((report.destinations[0].resumed_bytes, report.read_bytes), (0, LEN), "{case}");
        assert!(kept_in(&place.at("to")).is_empty(), "{case}");
        assert!(fs::read(place.at("precious")).unwrap() == bytes_of(9), "{case}");
    }
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// What is put in the place of a file, and how.
type Change<'a> = (&'a str, &'a dyn Fn(&Path));

/// They are not this program's, and stay; the file is copied as any other.
#[test]
fn what_is_no_file_of_ours_under_the_temporary_name_is_left_alone() {
    let (place, options) = (Place::new(), options(&[]));
    let precious = place.at("precious");
    fs::write(&precious, bytes_of(9)).unwrap();
    let changes: [Change<'_>; 4] = [
        ("a link", &|file| symlink(&precious, file).unwrap()),
        ("a pipe", &|file| make_pipe(file)),
        ("a directory", &|file| fs::create_dir(file).unwrap()),
        ("a file with another name", &|file| fs::hard_link(&precious, file).unwrap()),
    ];
    for (case, change) in changes {
        let _ = fs::remove_dir_all(place.at("to"));
        place.cut_and_kept("to", 3, &options);
        let file = place.kept("to", ".part");
        fs::remove_file(&file).unwrap();
        change(&file);
        let report = place.finish(&["to"], &options);
        assert_eq!((report.destinations[0].resumed_bytes, report.read_bytes), (0, LEN), "{case}");
        assert!(file.symlink_metadata().is_ok(), "{case}");
        assert!(fs::read(&precious).unwrap() == bytes_of(9), "{case}");
    }
    // A directory in the place of a journal, which cannot be replaced.
    fs::remove_dir_all(place.at("to")).unwrap();
    place.cut_and_kept("to", 3, &options);
    let journal = place.kept("to", ".journal");
    fs::remove_file(&journal).unwrap();
    fs::create_dir(&journal).unwrap();
    place.finish(&["to"], &options);
    assert_eq!(kept_in(&place.at("to")), [journal]);
}

#[test]
fn two_copies_at_once_do_not_write_the_same_file() {
    let (place, options) = (Arc::new(Place::new()), options(&[]));
    place.cut_and_kept("to", 2, &options);
    let reading = FaultEngineFactory::new(Backend::Auto);
    let other = Arc::new(Mutex::new(None));
    // After the first has verified what is there.
    reading.meanwhile(4, {
        let (place, options, other) = (place.clone(), options.clone(), other.clone());
        move || *other.lock().unwrap() = Some(place.finish(&["to"], &options))
    });
    let (report, _) = place.run(&["to"], &options, &plain(), &reading);
    let other = other.lock().unwrap().take().expect("it ran");
    assert_eq!((other.destinations[0].resumed_bytes, other.destinations[0].files), (0, 1), "{other:?}");
    // What came in between is the same.
    let one = &report.destinations[0];
    assert_eq!((report.undone(), one.files, one.unchanged, one.resumed_bytes), (0, 0, 1, 2 * BLOCK));
    assert!(kept_in(&place.at("to")).is_empty());
}

#[test]
fn what_nobody_continues_is_removed_after_a_month_and_not_before() {
    let (place, options) = (Place::new(), options(&[]));
    let day = Duration::from_secs(24 * 60 * 60);
    fs::create_dir(place.at("small")).unwrap();
    fs::write(place.at("small/x"), "x").unwrap();
    // Any copy to that directory looks.
    let look = || {
        let _ = fs::remove_file(place.at("to/x"));
        assert_eq!(super::copy(&place.at("small"), &place.at("to")).undone(), 0);
        kept_in(&place.at("to")).len()
    };
    place.cut_and_kept("to", 2, &options);
    let journal = place.kept("to", ".journal");
    let age = |age| {
        let opened = fs::OpenOptions::new().write(true).open(&journal).unwrap();
        opened.set_modified(SystemTime::now() - age).unwrap();
    };
    assert_eq!(look(), 2);
    age(29 * day);
    assert_eq!(look(), 2);
    age(31 * day);
    assert_eq!(look(), 0);
    // One without the other is of no use.
    for end in [".part", ".journal"] {
        place.cut_and_kept("to", 2, &options);
        fs::remove_file(place.kept("to", end)).unwrap();
        assert_eq!(look(), 0, "{end}");
    }
}

#[test]
fn files_that_are_short_or_not_begun_leave_nothing() {
    let place = Place::new();
    let long =
        CopyOptions { resume: Some(Resume { from_bytes: LEN + 1, ..Resume::default() }), ..options(&[]) };
    let none = CopyOptions { resume: None, ..options(&[]) };
    for options in [&long, &none] {
        assert_eq!(place.cut("to", 3, options).destinations[0].unfinished, []);
        assert!(kept_in(&place.at("to")).is_empty());
    }
    // Nothing was read yet.
    assert_eq!(place.cut("to", 0, &options(&[])).destinations[0].unfinished, []);
    assert!(kept_in(&place.at("to")).is_empty());
}

/// What was written after the last checkpoint is garbage for all that is known, also where the
/// source has a hole.
#[test]
fn holes_stay_holes_and_are_zeros_whatever_was_there() {
    let place = Place::new();
    let source = fs::File::create(place.at("from/big")).unwrap();
    for (block, len) in [(0, 2 * BLOCK), (10, BLOCK / 2), (20, BLOCK)] {
        source.write_all_at(&bytes_of(block)[..len as usize], block * BLOCK).unwrap();
    }
    source.set_len(24 * BLOCK).unwrap();
    drop(source);
    place.settle();
    let options = options(&[HashKind::Blake3]);
    for reads in [2, 3] {
        let _ = fs::remove_dir_all(place.at("to"));
        let report = place.cut("to", reads, &options);
        let there = report.destinations[0].unfinished[0].bytes;
        assert!(there >= 2 * BLOCK, "{there}");
        let file = fs::OpenOptions::new().write(true).open(place.kept("to", ".part")).unwrap();
        file.write_all_at(&vec![0xEE; 20_000], 23 * BLOCK).unwrap();
        file.write_all_at(&vec![0xEE; 20_000], there.next_multiple_of(BLOCK) + 5).unwrap();
        let report = place.finish(&["to"], &options);
        assert_eq!(report.destinations[0].resumed_bytes, there);
        let room = fs::metadata(place.at("to/big")).unwrap().blocks() * 512;
        let whole = fs::metadata(place.at("from/big")).unwrap().blocks() * 512;
        assert!(room <= whole + BLOCK, "{room} bytes of room, {whole} in the source");
    }
}

#[test]
fn the_journal_beside_a_file_says_what_is_in_it() {
    let place = Place::new();
    place.cut_and_kept("to", 3, &options(&[]));
    let journal = CopyJournal::decode(&fs::read(place.kept("to", ".journal")).unwrap()).unwrap();
    assert_eq!((journal.source_len(), journal.blocks(), journal.bytes()), (LEN, 3, 3 * BLOCK));
    let mut file = fs::File::open(place.kept("to", ".part")).unwrap();
    for number in 0..3 {
        let mut block = vec![0; BLOCK as usize];
        file.read_exact(&mut block).unwrap();
        assert!(journal.is_block(number, &block));
        block[12_345] ^= 1;
        assert!(!journal.is_block(number, &block));
    }
}

#[test]
fn whichever_call_fails_the_next_run_completes_the_file_and_leaves_nothing() {
    let place = Place::new();
    let options = options(&[]);
    let mut met = std::collections::BTreeSet::new();
    let mut had_journal = false;
    for nth in (0..).step_by(stride(1)) {
        let _ = fs::remove_dir_all(place.at("to"));
        place.cut_and_kept("to", 3, &options);
        let calls = Arc::new(FaultCalls::nth(nth, OutFault::Fails(EIO)));
        let as_calls: Arc<dyn Calls> = calls.clone();
        let (report, _) = place.run(&["to"], &options, &as_calls, &FaultEngineFactory::new(Backend::Auto));
        let Some(call) = calls.met() else { break };
        met.insert(call);
        let there = fs::read(place.at("to/big")).ok();
        assert!(there.is_none_or(|there| there == place.source()), "{nth} {call}: half a file");
        assert!(report.undone() > 0 || place.at("to/big").exists(), "{nth} {call}: {report:?}");
        had_journal |= !report.destinations[0].unfinished.is_empty();
        place.finish(&["to"], &options);
        assert!(kept_in(&place.at("to")).is_empty(), "{nth} {call}");
    }
    for call in ["lock", "rename_new", "set_len", "sync", "sync_file_system", "write_at"] {
        assert!(met.contains(call), "{call} never failed: {met:?}");
    }
    assert!(had_journal, "no failure left what can be continued");
}

#[test]
fn a_write_that_fails_leaves_what_was_made_durable_before() {
    let place = Place::new();
    let options = options(&[]);
    for nth in 1..=5 {
        let _ = fs::remove_dir_all(place.at("to"));
        let writing = FaultEngineFactory::new(Backend::Auto);
        writing.fail_every(Some(EngineCall::CloneRange), 1, EngineFault::Unsupported);
        writing.fail_every(Some(EngineCall::CopyRange), 1, EngineFault::Unsupported);
        writing.fail(Some(EngineCall::Write), nth, EngineFault::Fails);
        let to = Destination { factory: Arc::new(writing), ..Destination::new(place.at("to")) };
        let sources = vec![CopySource::directory(place.at("from")).unwrap()];
        let copy = Copy::new(sources, vec![to]).with_options(options.clone());
        let report = copy.run(&mut ()).unwrap();
        let there = Unfinished { key: b"big".to_vec(), bytes: nth as u64 * BLOCK };
        assert_eq!(report.destinations[0].unfinished, [there], "{report:?}");
        assert_eq!(report.destinations[0].failures.len(), 1, "{report:?}");
        let report = place.finish(&["to"], &options);
        assert_eq!(report.destinations[0].resumed_bytes, nth as u64 * BLOCK);
    }
}

/// Before: they stayed for a month, with all the room that was reserved for them.
#[test]
fn what_was_kept_of_a_file_goes_when_that_is_there_in_another_way() {
    let (place, options) = (Place::new(), options(&[]));
    // By another program.
    place.cut_and_kept("to", 3, &options);
    fs::write(place.at("to/big"), place.source()).unwrap();
    let time = fs::metadata(place.at("from/big")).unwrap().modified().unwrap();
    fs::File::open(place.at("to/big")).unwrap().set_modified(time).unwrap();
    let dry = CopyOptions { dry_run: true, ..options.clone() };
    place.finish(&["to"], &dry);
    assert_eq!(kept_in(&place.at("to")).len(), 2, "a dry run changes nothing");
    place.finish(&["to"], &options);
    assert_eq!(kept_in(&place.at("to")), [] as [PathBuf; 0]);
    // As a hard link of an earlier copy.
    place.cut_and_kept("today", 3, &options);
    let link_dest = Some(place.at("to"));
    let report = place.finish(&["today"], &CopyOptions { link_dest, ..options.clone() });
    assert_eq!(report.destinations[0].linked, 1, "{report:?}");
    assert_eq!(kept_in(&place.at("today")), [] as [PathBuf; 0]);
    // While it is copied: then it is not said to be continued either.
    let (from, to) = (place.at("from/big"), place.at("meanwhile/big"));
    let reading = FaultEngineFactory::new(Backend::Auto);
    reading.meanwhile(3, move || {
        fs::copy(&from, &to).unwrap();
    });
    reading.fail(Some(EngineCall::Read), 4, EngineFault::Fails);
    let (report, _) = place.run(&["meanwhile"], &options, &plain(), &reading);
    assert_eq!((report.undone(), report.destinations[0].unfinished.len()), (1, 0), "{report:?}");
    assert_eq!(kept_in(&place.at("meanwhile")), [] as [PathBuf; 0]);
}

/// The hashes of a hole are as many as those of what is no hole.
#[test]
fn a_file_that_is_nearly_all_hole_is_not_kept() {
    for (len, is_kept) in [(60 * BLOCK, true), (100 * BLOCK, false)] {
        let (place, options) = (Place::new(), options(&[]));
        fs::File::options().write(true).open(place.at("from/big")).unwrap().set_len(len).unwrap();
        place.settle();
        let report = place.cut("to", 3, &options);
        assert_eq!(report.destinations[0].unfinished.len(), usize::from(is_kept), "{len}: {report:?}");
        assert_eq!(kept_in(&place.at("to")).is_empty(), !is_kept);
        place.finish(&["to"], &options);
    }
}

/// Before: as many hashes were held in memory as it has MiB, and `checksum` read each of them.
#[test]
fn a_hole_of_terabytes_is_copied_and_compared_without_reading_it() {
    let (place, options) = (Place::new(), options(&[]));
    fs::File::options().write(true).open(place.at("from/big")).unwrap().set_len(4 << 40).unwrap();
    place.settle();
    for options in [options.clone(), CopyOptions { checksum: true, ..options }] {
        let (report, _) = place.run(&["to"], &options, &plain(), &FaultEngineFactory::new(Backend::Auto));
        assert_eq!(report.undone(), 0, "{report:?}");
        assert!(report.read_bytes < 100 << 20, "{report:?}");
    }
    let copied = fs::metadata(place.at("to/big")).unwrap();
    assert!(copied.len() == 4 << 40 && copied.blocks() * 512 < 100 << 20, "{copied:?}");
}
