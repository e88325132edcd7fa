//! Trees against what lists say of them.

use std::fs;
use std::os::unix::fs::symlink;

use stook::hash::{Digest, HashKind};
use stook::verify::{Branch, Difference, Error, Expected, Subject, Verify, VerifyOptions};

use super::{directory, files, listed, outcomes, verify, verify_with, write};

#[test]
fn files_match_by_every_function_whatever_their_length() {
    let place = tempfile::tempdir().unwrap();
    let long: Vec<u8> = (0..3_000_001_u32).map(|at| (at / 7) as u8).collect();
    let all = files(&[("a", b""), ("d/b", b"b"), ("d/e/c", &long), ("x", &long[..300_000]), ("y", b"yy")]);
    write(&all, place.path());
    for kind in HashKind::ALL {
        for cached in [false, true] {
            let options = VerifyOptions { cached, ..VerifyOptions::default() };
            let subject = directory(place.path()).listed(listed(&all, &[kind]));
            let (report, _) = verify_with(subject, options);
            assert_eq!((report.matching, report.wrong()), (5, 0), "{kind:?}: {report:?}");
            let bytes: usize = all.values().map(Vec::len).sum();
            assert_eq!((report.matching_bytes, report.read_bytes), (bytes as u64, bytes as u64));
            assert!(report.passage.direct_bytes + report.passage.cached_bytes >= bytes as u64);
            assert!(!cached || report.is_past_cache() == Some(false));
        }
    }
}

#[test]
fn a_large_file_is_hashed_by_several_threads_and_one_bit_of_it_is_found() {
    let place = tempfile::tempdir().unwrap();
    let mut bytes: Vec<u8> = (0..(17 << 20) + 5_u32).map(|at| (at / 1000) as u8).collect();
    let all = files(&[("large", &bytes)]);
    write(&all, place.path());
    let expected = || listed(&all, &[HashKind::Blake3]);
    let (report, _) = verify(directory(place.path()).listed(expected()));
    assert_eq!((report.matching, report.wrong()), (1, 0), "{report:?}");
    bytes[16 << 20] ^= 1;
    fs::write(place.path().join("large"), &bytes).unwrap();
    let (report, _) = verify(directory(place.path()).listed(expected()));
    let found = Some(Digest::of(HashKind::Blake3, &bytes));
    let wanted = Digest::of(HashKind::Blake3, &all["large"]);
    assert_eq!(report.mismatching[0].difference, Difference::Digest { expected: wanted, found });
    assert_eq!(report.mismatching[0].offset, None);
}

#[test]
fn what_is_listed_and_is_no_file_does_not_match_and_what_is_no_file_is_no_extra() {
    let place = tempfile::tempdir().unwrap();
    let all = files(&[("a", b"a"), ("link", b"a"), ("folder", b"x"), ("below/link/a", b"a")]);
    let here = files(&[("a", b"a"), ("folder/in", b"x")]);
    write(&here, place.path());
    symlink("a", place.path().join("link")).unwrap();
    symlink("a", place.path().join("another link")).unwrap();
    fs::create_dir(place.path().join("below")).unwrap();
    symlink("..", place.path().join("below/link")).unwrap();
    let (report, heard) = verify(directory(place.path()).listed(listed(&all, &[HashKind::Sha256])));
    let wanted = [
        ("a", "matches"),
        ("below/link/a", "missing"),
        ("folder", "mismatches"),
        ("folder/in", "extra"),
        ("link", "mismatches"),
    ];
    assert_eq!(outcomes(&heard), wanted);
    let kinds: Vec<&str> = report.mismatching.iter().map(|one| one.difference.name()).collect();
    assert_eq!(kinds, ["kind", "kind"], "no link is followed");
}

#[test]
fn a_length_that_a_list_says_is_compared_without_reading() {
    let place = tempfile::tempdir().unwrap();
    write(&files(&[("a", b"four"), ("b", b"four")]), place.path());
    let mut builder = Expected::builder();
    builder.add(b"a", 0, Some(5), &[Digest::of(HashKind::Xxh3, b"four")]);
    builder.add(b"b", 0, Some(4), &[]);
    let (report, _) = verify(directory(place.path()).listed(builder.finish()));
    assert_eq!(report.mismatching[0].difference, Difference::Len { expected: 5, found: 4 });
    assert_eq!((report.matching, report.read_bytes), (1, 4));
}

#[test]
fn a_single_file_is_compared_with_what_is_said_of_its_name_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let all = files(&[("a", b"a"), ("b", b"b")]);
    write(&all, place.path());
    let branch = Branch::file(place.path().join("a")).unwrap();
    let one = |expected| verify(Subject::new(branch.clone()).listed(expected));
    let (report, heard) = one(listed(&all, &[HashKind::Md5]));
    assert_eq!((report.matching, outcomes(&heard)), (1, vec![("a", "matches")]));
    let (report, _) = one(listed(&files(&[("b", b"b")]), &[HashKind::Md5]));
    assert_eq!((report.matching, report.extra.len()), (0, 1));
    let (report, _) = one(listed(&files(&[("a", b"c")]), &[HashKind::Md5]));
    assert_eq!(report.mismatching.len(), 1);
}

#[test]
fn digests_for_new_lists_are_computed_of_all_that_is_there() {
    let place = tempfile::tempdir().unwrap();
    let all = files(&[("a", b"a"), ("d/b", b"b"), ("c", b"c")]);
    write(&all, place.path());
    let kinds = vec![HashKind::Sha256, HashKind::Xxh128];
    let options = VerifyOptions { digests: kinds.clone(), ..VerifyOptions::default() };
    let (report, heard) = verify_with(directory(place.path()), options.clone());
    assert_eq!((report.new, report.wrong()), (3, 0));
    for (path, bytes) in &all {
        let wanted: Vec<Digest> = kinds.iter().map(|kind| Digest::of(*kind, bytes)).collect();
        assert_eq!(heard.digests[path], wanted, "{path}");
    }
    // What a list says is held against it in the same read.
    let said = listed(&files(&[("a", b"x"), ("c", b"c"), ("gone", b"")]), &[HashKind::Blake3]);
    let (_, heard) = verify_with(directory(place.path()).listed(said), options);
    assert_eq!(
        outcomes(&heard),
        [("a", "mismatches"), ("c", "matches"), ("d/b", "new"), ("gone", "missing")]
    );
}

#[test]
fn a_tree_of_which_nothing_is_said_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let refused = Verify::new(vec![directory(place.path())]).run(&mut ()).unwrap_err();
    assert!(matches!(refused, Error::NothingExpected(_)), "{refused}");
    for jobs in [0, 257] {
        let options = VerifyOptions { jobs: Some(jobs), ..VerifyOptions::default() };
        let subject = directory(place.path()).listed(Expected::default());
        let refused = Verify::new(vec![subject]).with_options(options).run(&mut ()).unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
    }
}
