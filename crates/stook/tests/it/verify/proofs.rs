//! Proofs beside lists: which megabytes of a file are bad, and parts of files without the rest.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use stook::copy::{Copy, CopyOptions, CopyReport, CopySource, Destination, Failure};
use stook::engine::Backend;
use stook::format::proof::BLOCK_BYTES;
use stook::hash::HashKind;
use stook::ops::copy::CopyGiven;
use stook::ops::verify::{Error, OpenGiven, RangeGiven, RangeReport, Verified, VerifyGiven};
use stook::tree::Overwrite;
use stook::verify::{Progress, VerifyEvents};
use stook_testing::fault::{FaultCalls, OutFault};

const BLOCK: usize = BLOCK_BYTES as usize;

fn verify(tree: &Path, given: VerifyGiven) -> Verified {
    let tree = OpenGiven::default().open(tree, &mut |_| true).unwrap();
    VerifyGiven { trees: vec![tree], ..given }.run(&mut ()).unwrap()
}

fn make(tree: &Path) -> Verified {
    verify(tree, VerifyGiven { proofs: true, make: vec![HashKind::Blake3], ..VerifyGiven::default() })
}

fn range(path: &Path, start: u64, end: Option<u64>) -> Result<RangeReport, Error> {
    RangeGiven { path: path.to_path_buf(), start, end, cached: false }.run(&mut |_| true)
}

/// A tree with a file of some blocks, one of one block, and one with the bytes of the first.
fn tree(len: usize) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let place = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..len).map(|at| (at / 3 + at / BLOCK) as u8).collect();
    fs::create_dir(place.path().join("d")).unwrap();
    for name in ["d/long", "again"] {
        fs::write(place.path().join(name), &bytes).unwrap();
    }
    fs::write(place.path().join("short"), &bytes[..BLOCK]).unwrap();
    let long = place.path().join("d/long");
    (place, long, bytes)
}

/// The directory of proofs.
fn proofs_of(tree: &Path) -> PathBuf {
    let mut names = fs::read_dir(tree).unwrap().map(|entry| entry.unwrap().path());
    names.find(|path| path.extension().is_some_and(|ending| ending == "proofs")).unwrap()
}

#[test]
fn proofs_are_made_beside_the_list_and_are_no_extras() {
    let (place, _, _) = tree(3 * BLOCK + 5);
    let made = make(place.path());
    assert_eq!((made.wrong(false), made.made.len(), made.proofs.len()), (0, 1, 1));
    assert_eq!(made.proofs[0].files, 2);
    // Equal files have one proof, a file of one block has none.
    assert_eq!(fs::read_dir(proofs_of(place.path())).unwrap().count(), 1);
    let verified = verify(place.path(), VerifyGiven::default());
    assert_eq!((verified.wrong(false), verified.report.subjects[0].matching), (0, 3));
    // Lists of other functions have none.
    let (place, long, _) = tree(2 * BLOCK);
    let made = verify(place.path(), VerifyGiven { make: vec![HashKind::Sha256], ..VerifyGiven::default() });
    assert!(made.proofs.is_empty());
    assert!(matches!(range(&long, 0, None), Err(Error::NotListed(_))));
    let made = verify(place.path(), VerifyGiven { make: vec![HashKind::Blake3], ..VerifyGiven::default() });
    assert!(made.proofs.is_empty());
    assert!(matches!(range(&long, 0, None), Err(Error::NoProof(_))));
}

/// Ends a run once it has written a proof.
struct EndsAtProof<'a> {
    tree: &'a Path,
    has_seen: bool,
}

impl VerifyEvents for EndsAtProof<'_> {
    fn go_on(&mut self, _: &Progress) -> bool {
        let names = fs::read_dir(self.tree).unwrap().map(|entry| entry.unwrap().path());
        let mut folders = names.filter(|path| path.extension().is_some_and(|ending| ending == "proofs"));
        self.has_seen |= folders.any(|folder| fs::read_dir(folder).unwrap().next().is_some());
        !self.has_seen
    }
}

#[test]
fn a_run_that_makes_no_list_leaves_no_proofs_and_no_directory_of_them() {
    let place = tempfile::tempdir().unwrap();
    for number in 0..40 {
        fs::write(place.path().join(number.to_string()), vec![number; BLOCK + 1]).unwrap();
    }
    let names = |tree: &Path| {
        let entries = fs::read_dir(tree).unwrap().map(|entry| entry.unwrap().file_name());
        entries.collect::<std::collections::BTreeSet<_>>()
    };
    let (before, given) = (names(place.path()), OpenGiven::default());
    let mut ends = EndsAtProof { tree: place.path(), has_seen: false };
    let trees = vec![given.open(place.path(), &mut |_| true).unwrap()];
    let interrupted = VerifyGiven { trees, proofs: true, ..VerifyGiven::default() }.run(&mut ends).unwrap();
    assert!(interrupted.report.interrupted && ends.has_seen && interrupted.proofs.is_empty());
    assert!(interrupted.failures.is_empty(), "{:?}", interrupted.failures);
    assert_eq!(names(place.path()), before);
    // The next one makes all of them.
    let made = make(place.path());
    assert_eq!((made.wrong(false), made.proofs[0].files), (0, 40));
    assert_eq!(names(place.path()).len(), before.len() + 2);
}

#[test]
fn a_proof_that_is_damaged_proves_nothing_and_is_said() {
    let (place, long, _) = tree(4 * BLOCK);
    make(place.path());
    let proof = fs::read_dir(proofs_of(place.path())).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&proof).unwrap();
    for at in [0, 64, 130, whole.len() - 9] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&proof, damaged).unwrap();
        let verified = verify(place.path(), VerifyGiven::default());
        // All files match, and both that have it are one failure.
        assert_eq!((verified.report.subjects[0].matching, verified.failures.len()), (3, 1), "{at}");
    }
    let file = File::options().write(true).open(&long).unwrap();
    file.write_all_at(b"?", 2 * BLOCK_BYTES).unwrap();
    // The pair above the last two blocks: of the first two it is known.
    let mut damaged = whole.clone();
    damaged[64] ^= 1;
    fs::write(&proof, &damaged).unwrap();
    let verified = verify(place.path(), VerifyGiven::default());
    let bad = verified.report.subjects[0].mismatching[0].bad.clone().unwrap();
    assert_eq!((bad.bad, bad.unknown, bad.blocks), (0, 2, 4));
    assert!(range(&long, 0, Some(1)).unwrap().is_proven());
    assert!(!range(&long, 3 * BLOCK_BYTES, None).unwrap().is_proven());
    for cut in [0, 8, whole.len() - 1] {
        fs::write(&proof, &whole[..cut]).unwrap();
        let verified = verify(place.path(), VerifyGiven::default());
        assert_eq!(verified.report.subjects[0].mismatching[0].bad, None, "{cut}");
        assert_eq!(verified.failures.len(), 1, "{cut}");
        assert!(range(&long, 0, Some(1)).is_err(), "{cut}");
    }
}

#[test]
fn the_length_that_a_proof_says_is_not_believed() {
    let (place, long, bytes) = tree(3 * BLOCK + 700);
    make(place.path());
    let proof = fs::read_dir(proofs_of(place.path())).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&proof).unwrap();
    let said = |len: usize| {
        let mut proof = whole.clone();
        let end = proof.len();
        proof[end - 8..].copy_from_slice(&(len as u64).to_le_bytes());
        proof
    };
    for other in [bytes.len() - 10, bytes.len() + 10, 3 * BLOCK + 1, 4 * BLOCK] {
        fs::write(&proof, said(other)).unwrap();
        let verified = verify(place.path(), VerifyGiven::default());
        assert_eq!((verified.report.subjects[0].matching, verified.failures.len()), (3, 1), "{other}");
        for start in [0, 3 * BLOCK_BYTES] {
            let refused = stook::error::chain(&range(&long, start, None).unwrap_err());
            let expected =
                format!("it says that the file has {other} bytes, and its bytes are {}", bytes.len());
            assert!(refused.contains(&expected), "{refused}");
        }
    }
    // The file itself is cut off, or longer: that is no fault of the proof.
    fs::write(&proof, &whole).unwrap();
    for other in [bytes.len() - 10, bytes.len() + 10] {
        File::options().write(true).open(&long).unwrap().set_len(other as u64).unwrap();
        let verified = verify(place.path(), VerifyGiven::default());
        let one = &verified.report.subjects[0];
        assert!(one.mismatching[0].bad.is_some() && verified.failures.is_empty(), "{verified:?}");
    }
}

#[test]
fn a_proof_of_a_huge_file_takes_no_longer_than_the_file_that_is_there() {
    let (place, long, _) = tree(3 * BLOCK);
    make(place.path());
    let proof = fs::read_dir(proofs_of(place.path())).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&proof).unwrap();
    let blocks = 1_u64 << 30;
    let root = (blocks - 2) * 64;
    File::options().write(true).open(&long).unwrap().write_all_at(b"?", 5).unwrap();
    for has_root in [false, true] {
        let file = File::create(&proof).unwrap();
        if has_root {
            file.write_all_at(&whole[64..128], root).unwrap();
        }
        file.write_all_at(&(blocks * BLOCK_BYTES).to_le_bytes(), root + 64).unwrap();
        let mut asked = 0;
        let given = RangeGiven { path: long.clone(), start: 0, end: None, cached: false };
        let found = given.run(&mut |_| {
            asked += 1;
            true
        });
        assert!(asked < 10, "{asked}");
        match has_root {
            true => {
                let bad = found.unwrap().bad;
                assert_eq!((bad.blocks, bad.bad + bad.unknown, bad.ranges.len()), (blocks, blocks, 1));
            }
            false => assert!(found.is_err()),
        }
        let verified = verify(place.path(), VerifyGiven::default());
        let one = &verified.report.subjects[0];
        assert_eq!((one.matching, one.mismatching.len()), (2, 1), "{verified:?}");
        assert_eq!(verified.failures.len(), 1, "{verified:?}");
    }
}

#[test]
fn a_part_is_verified_by_reading_the_blocks_that_it_lies_in() {
    let (place, long, bytes) = tree(5 * BLOCK + 100);
    make(place.path());
    let len = bytes.len() as u64;
    for (start, end, read) in [
        (0, Some(1), (0, BLOCK_BYTES)),
        (BLOCK_BYTES - 1, Some(BLOCK_BYTES + 1), (0, 2 * BLOCK_BYTES)),
        (3 * BLOCK_BYTES, Some(4 * BLOCK_BYTES), (3 * BLOCK_BYTES, 4 * BLOCK_BYTES)),
        (len - 1, None, (5 * BLOCK_BYTES, len)),
        (0, None, (0, len)),
    ] {
        let mut taken = 0;
        let given = RangeGiven { path: long.clone(), start, end, cached: false };
        let report = given
            .run(&mut |bytes| {
                taken += bytes;
                true
            })
            .unwrap();
        assert!(report.is_proven(), "{report:?}");
        assert_eq!((report.read.start(), report.read.end()), read);
        assert_eq!(taken, read.1 - read.0);
    }
    for (start, end) in [(len, None), (0, Some(len + 1)), (5, Some(5)), (u64::MAX, None)] {
        assert!(matches!(range(&long, start, end), Err(Error::Core(_))), "{start} {end:?}");
    }
    let file = File::options().write(true).open(&long).unwrap();
    file.write_all_at(b"?", 3 * BLOCK_BYTES + 7).unwrap();
    assert!(range(&long, 0, Some(3 * BLOCK_BYTES)).unwrap().is_proven());
    let report = range(&long, 2 * BLOCK_BYTES, None).unwrap();
    assert_eq!((report.bad.bad, report.bad.blocks), (1, 4));
    assert_eq!(report.bad.ranges[0].start(), 3 * BLOCK_BYTES);
    // What is no file, and what no list has.
    assert!(matches!(range(&place.path().join("gone"), 0, None), Err(Error::Core(_))));
    fs::write(place.path().join("new"), &bytes).unwrap();
    assert!(matches!(range(&place.path().join("new"), 0, None), Err(Error::NotListed(_))));
    assert!(range(place.path(), 0, None).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_blocks_that_were_damaged_are_named(
        blocks in 2_usize..9,
        last in prop_oneof![Just(BLOCK), Just(1), 1..BLOCK],
        flips in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        cut in prop_oneof![3 => Just(0_usize), 1 => 1..BLOCK],
        more in prop_oneof![3 => Just(0_usize), 1 => 1..2000_usize],
    ) {
        let (place, long, mut bytes) = tree((blocks - 1) * BLOCK + last);
        make(place.path());
        let len = bytes.len();
        let mut expected: Vec<usize> = Vec::new();
        for flip in &flips {
            let at = flip.index(len);
            bytes[at] ^= 1;
            expected.push(at / BLOCK);
        }
        let cut = if more > 0 { 0 } else { cut.min(len - 1) };
        bytes.truncate(len - cut);
        bytes.extend(std::iter::repeat_n(7, more));
        expected.extend((0..blocks).filter(|block| ((block + 1) * BLOCK).min(len) > len - cut));
        // Two flips of one byte undo one another.
        let is_damaged = fs::read(&long).unwrap() != bytes;
        fs::write(&long, &bytes).unwrap();
        let original = fs::read(place.path().join("again")).unwrap();
        expected.retain(|block| {
            let range = block * BLOCK..((block + 1) * BLOCK).min(len);
            bytes.get(range.clone()) != Some(&original[range])
        });
        expected.sort_unstable();
        expected.dedup();
        let verified = verify(place.path(), VerifyGiven::default());
        let subject = &verified.report.subjects[0];
        prop_assert_eq!(subject.mismatching.len(), usize::from(is_damaged));
        if let Some(mismatch) = subject.mismatching.first() {
            let bad = mismatch.bad.as_ref().unwrap();
            prop_assert_eq!((bad.bad, bad.blocks, bad.unknown), (expected.len() as u64, blocks as u64, 0));
            let named = |at: usize| bad.ranges.iter().any(|range| range.start() <= at as u64 && (at as u64) < range.end());
            for block in 0..blocks {
                prop_assert_eq!(named(block * BLOCK), expected.contains(&block), "block {}", block);
            }
            prop_assert_eq!(named(len), more > 0);
        }
    }
}

/// The proofs of a tree, by their names.
fn proofs_in(tree: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let all = fs::read_dir(proofs_of(tree)).unwrap().map(|entry| entry.unwrap());
    all.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect()
}

fn copied(tree: &Path, to: &[&Path], options: CopyOptions) -> CopyReport {
    let sources = vec![OpenGiven::default().open(tree, &mut |_| true).unwrap()];
    let destinations = to.iter().map(|to| to.to_path_buf()).collect();
    CopyGiven { sources, destinations, options, read_back: false }.run(&mut ()).unwrap()
}

#[test]
fn newer_lists_of_other_functions_leave_proofs_of_use() {
    let (place, long, bytes) = tree(4 * BLOCK);
    make(place.path());
    let sums = VerifyGiven { make: vec![HashKind::Sha256], ..VerifyGiven::default() };
    let made = verify(place.path(), sums);
    // A list of BLAKE3 comes with it.
    let kinds: Vec<_> = made.made.iter().map(|list| list.kind.unwrap()).collect();
    assert_eq!((kinds.as_slice(), made.proofs.len()), (&[HashKind::Sha256, HashKind::Blake3][..], 0));
    assert!(!range(&long, 0, Some(1)).unwrap().is_older);
    // One that others made has only its own, and is later by its name.
    let later = place.path().join("checksums-2199-01-01_000000Z.sha256");
    fs::rename(&made.made[0].path, &later).unwrap();
    let found = range(&long, 0, Some(1)).unwrap();
    assert!(found.is_proven() && found.is_older);
    let file = File::options().write(true).open(&long).unwrap();
    file.write_all_at(&[bytes[2 * BLOCK] ^ 1], 2 * BLOCK_BYTES).unwrap();
    let bad =
        |tree: &Path| verify(tree, VerifyGiven::default()).report.subjects[0].mismatching[0].bad.clone();
    assert_eq!(bad(place.path()).unwrap().ranges[0].start(), 2 * BLOCK_BYTES);
    // It is another file by now: no block is that of the older list.
    fs::write(&long, vec![9; 4 * BLOCK]).unwrap();
    assert_eq!(bad(place.path()), None);
}

#[test]
fn copies_write_the_proofs_that_verifying_makes() {
    // With a hole, and a file that is no longer than a block but goes the way of large ones.
    let (from, long, bytes) = tree(4 * BLOCK + 77);
    let sparse = File::create(from.path().join("sparse")).unwrap();
    sparse.set_len(3 * BLOCK_BYTES + 5).unwrap();
    sparse.write_all_at(b"data", BLOCK_BYTES + 3).unwrap();
    let place = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| place.path().join(name));
    let options = CopyOptions { proofs: true, lists: vec![HashKind::Xxh3], ..CopyOptions::default() };
    let report = copied(from.path(), &[&one, &two], options.clone());
    assert_eq!(report.undone(), 0, "{report:?}");
    for at in &report.destinations {
        assert_eq!((at.lists.len(), at.proofs.as_ref().unwrap().1), (2, 3), "{at:?}");
    }
    make(from.path());
    assert_eq!(proofs_in(&one), proofs_in(from.path()));
    assert_eq!(proofs_in(&two), proofs_in(from.path()));
    let file = File::options().write(true).open(two.join("d/long")).unwrap();
    file.write_all_at(&[bytes[3 * BLOCK] ^ 1], 3 * BLOCK_BYTES).unwrap();
    let verified = verify(&two, VerifyGiven::default());
    let bad = verified.report.subjects[0].mismatching[0].bad.clone().unwrap();
    assert_eq!((bad.bad, bad.ranges[0].start()), (1, 3 * BLOCK_BYTES));
    assert!(range(&one.join("d/long"), 5, Some(6)).unwrap().is_proven());
    // Proofs are no part of what is copied: they are neither extra to a mirror nor compared.
    fs::remove_file(&long).unwrap();
    let mirror = CopyOptions { mirror: true, checksum: true, overwrite: Overwrite::Different, ..options };
    let report = copied(from.path(), &[&one], mirror);
    assert_eq!(report.undone(), 0, "{report:?}");
    assert_eq!(report.destinations[0].deleted, [b"d/long".to_vec()]);
    assert!(verify(&one, VerifyGiven::default()).report.subjects[0].extra.is_empty());
    // Nothing is made by a dry run.
    let options = CopyOptions { dry_run: true, proofs: true, ..CopyOptions::default() };
    copied(from.path(), &[&place.path().join("three")], options);
    assert!(!place.path().join("three").exists());
}

#[test]
fn a_proof_that_cannot_be_written_is_a_failure_and_costs_no_file() {
    let (from, _, _) = tree(2 * BLOCK + 5);
    let (same, _, _) = tree(2 * BLOCK + 5);
    make(same.path());
    let whole = proofs_in(same.path());
    let mut failures = 0;
    for nth in 0.. {
        let place = tempfile::tempdir().unwrap();
        let to = place.path().join("to");
        let calls = Arc::new(FaultCalls::nth(nth, OutFault::Fails(5)));
        let destination =
            Destination { path: to.clone(), calls: calls.clone(), factory: Arc::new(Backend::Auto) };
        let options = CopyOptions { jobs: Some(1), proofs: true, ..CopyOptions::default() };
        let copy = Copy::new(vec![CopySource::directory(from.path()).unwrap()], vec![destination]);
        let Ok(report) = copy.with_options(options).run(&mut ()) else { continue };
        if calls.met().is_none() {
            assert_eq!((report.undone(), proofs_in(&to)), (0, whole));
            break;
        }
        let one = &report.destinations[0];
        let of_proof = |failure: &&Failure| failure.error.to_string().contains("proof");
        let unproven = one.failures.iter().filter(of_proof).count() as u64;
        failures += unproven;
        if unproven > 0 {
            assert_eq!((report.undone(), one.files), (unproven, 3), "{nth}: {report:?}");
        }
        // One that has its name is whole.
        let folder = one.proofs.as_ref().map(|(name, _)| to.join(OsStr::from_bytes(name)));
        for entry in folder.iter().flat_map(|folder| fs::read_dir(folder).unwrap()) {
            let entry = entry.unwrap();
            let is_temporary = entry.file_name().as_bytes().starts_with(b".stook-");
            assert!(is_temporary || whole[&entry.file_name()] == fs::read(entry.path()).unwrap(), "{nth}");
        }
    }
    assert!(failures >= 3, "it could not be made, written or synced: {failures}");
}
