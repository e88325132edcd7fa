//! Proofs beside lists: which megabytes of a file are bad, and parts of files without the rest.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use stook::format::proof::BLOCK_BYTES;
use stook::hash::HashKind;
use stook::ops::verify::{Error, OpenGiven, RangeGiven, RangeReport, Verified, VerifyGiven};

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

#[test]
fn a_proof_that_is_damaged_proves_nothing_and_is_said() {
    let (place, long, _) = tree(4 * BLOCK);
    make(place.path());
    let proof = fs::read_dir(proofs_of(place.path())).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&proof).unwrap();
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
