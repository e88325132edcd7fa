//! Trees against trees.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use stook::hash::HashKind;
use stook::verify::{Branch, Difference, Error, Subject, Verify, VerifyOptions};
use stook_testing::model::tree::TreeModel;
use stook_testing::trees::MemoryTree;

use super::{directory, files, listed, outcomes, verify, verify_with, write};

fn branch(path: &Path) -> Branch {
    Branch::directory(path).unwrap()
}

#[test]
fn every_difference_is_found_with_the_first_byte_that_differs() {
    let place = tempfile::tempdir().unwrap();
    let (one, other) = (place.path().join("one"), place.path().join("other"));
    let long = vec![7; 2_500_000];
    let mut changed = long.clone();
    changed[2_000_000] = 8;
    let theirs = files(&[
        ("same", b"same"),
        ("d/long", &long),
        ("d/grown", b"abc"),
        ("d/cut", &long),
        ("d/gone/in", b"x"),
        ("kind", b"x"),
        ("d/empty", b""),
    ]);
    let ours = files(&[
        ("same", b"same"),
        ("d/long", &changed),
        ("d/grown", b"abcd"),
        ("d/cut", &long[..1_000_000]),
        ("kind/in", b"x"),
        ("d/empty", b""),
        ("more/in", b"x"),
    ]);
    write(&theirs, &other);
    write(&ours, &one);
    let (report, heard) = verify(directory(&one).against(branch(&other)));
    let wanted = [
        ("d/cut", "mismatches"),
        ("d/empty", "matches"),
        ("d/gone", "missing"),
        ("d/gone/in", "missing"),
        ("d/grown", "mismatches"),
        ("d/long", "mismatches"),
        ("kind", "mismatches"),
        ("kind/in", "extra"),
        ("more", "extra"),
        ("more/in", "extra"),
        ("same", "matches"),
    ];
    assert_eq!(outcomes(&heard), wanted);
    assert_eq!((report.matching, report.directories), (2, 1));
    let found: Vec<(&str, Option<u64>)> =
        report.mismatching.iter().map(|one| (one.difference.name(), one.offset)).collect();
    let wanted =
        [("length", Some(1_000_000)), ("length", Some(3)), ("content", Some(2_000_000)), ("kind", None)];
    assert_eq!(found, wanted);
}

#[test]
fn links_and_pipes_are_compared_and_never_followed() {
    let place = tempfile::tempdir().unwrap();
    for (name, target) in [("one", "x"), ("other", "y")] {
        let root = place.path().join(name);
        fs::create_dir(&root).unwrap();
        symlink(target, root.join("differs")).unwrap();
        symlink("/", root.join("same")).unwrap();
        let pipe = std::ffi::CString::new(root.join("pipe").to_str().unwrap()).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    }
    let (report, heard) =
        verify(directory(&place.path().join("one")).against(branch(&place.path().join("other"))));
    assert_eq!(outcomes(&heard), [("differs", "mismatches"), ("pipe", "matches"), ("same", "matches")]);
    let (expected, found) = (b"y".to_vec(), b"x".to_vec());
    assert_eq!(report.mismatching[0].difference, Difference::Target { expected, found });
}

#[test]
fn of_two_files_only_the_bytes_count() {
    let place = tempfile::tempdir().unwrap();
    write(&files(&[("a", b"same"), ("b", b"same"), ("c", b"sane")]), place.path());
    let file = |name: &str| Branch::file(place.path().join(name)).unwrap();
    let (report, _) = verify(Subject::new(file("a")).against(file("b")));
    assert_eq!((report.matching, report.wrong()), (1, 0));
    let (report, _) = verify(Subject::new(file("a")).against(file("c")));
    assert_eq!(report.mismatching[0].offset, Some(2));
    let against = Subject::new(file("a")).against(branch(place.path()));
    let refused = Verify::new(vec![against]).run(&mut ()).unwrap_err();
    assert!(matches!(refused, Error::Kinds { .. }), "{refused}");
}

#[test]
fn a_list_and_a_source_together_say_whether_the_list_or_the_copy_is_wrong() {
    let place = tempfile::tempdir().unwrap();
    let (one, other) = (place.path().join("one"), place.path().join("other"));
    write(&files(&[("a", b"a"), ("b", b"x"), ("c", b"c"), ("e", b"e")]), &one);
    write(&files(&[("a", b"a"), ("b", b"b"), ("c", b"c"), ("d", b"d")]), &other);
    let said = files(&[("a", b"a"), ("b", b"b"), ("c", b"old"), ("d", b"d"), ("e", b"e"), ("f", b"f")]);
    for kind in [HashKind::Xxh3, HashKind::Sha256] {
        let subject = directory(&one).against(branch(&other)).listed(listed(&said, &[kind]));
        let (report, heard) = verify(subject);
        let wanted = [
            ("a", "matches"),
            ("b", "mismatches"),
            ("c", "mismatches"),
            ("d", "missing"),
            ("e", "matches"),
            ("f", "missing"),
        ];
        assert_eq!(outcomes(&heard), wanted);
        let places: Vec<_> = report.mismatching.iter().map(|one| (one.offset, one.is_like_other)).collect();
        assert_eq!(places, [(Some(0), false), (None, true)]);
    }
}

#[test]
fn paths_that_are_left_out_are_no_extras_and_not_missing_and_not_compared() {
    let place = tempfile::tempdir().unwrap();
    let (one, other) = (place.path().join("one"), place.path().join("other"));
    write(&files(&[("list", b"1"), ("both", b"1"), ("folder/x", b"1"), ("a", b"a")]), &one);
    write(&files(&[("their list", b"1"), ("both", b"2"), ("a", b"a")]), &other);
    let mut subject = directory(&one).against(branch(&other));
    subject.left_out = ["list", "both", "folder", "their list"].map(|name| name.as_bytes().to_vec()).into();
    let (_, heard) = verify(subject);
    assert_eq!(outcomes(&heard), [("a", "matches")]);
}

#[test]
fn trees_of_any_kind_are_compared() {
    let place = tempfile::tempdir().unwrap();
    let long = vec![9; 3_000_000];
    let mut model = TreeModel::new().file("d/long", &long).file("a", "a").file("empty", "");
    for number in 0..300 {
        model = model.file(format!("small/{number}"), format!("small {number}"));
    }
    let tree = || Branch::tree(Arc::new(MemoryTree::new(&model)));
    stook_testing::trees::make_files(&model, place.path());
    for options in [VerifyOptions::default(), VerifyOptions { jobs: Some(3), ..VerifyOptions::default() }] {
        let (report, _) = verify_with(directory(place.path()).against(tree()), options.clone());
        assert_eq!((report.matching, report.directories, report.wrong()), (303, 2, 0), "{report:?}");
        let subject = Subject::new(tree()).against(branch(place.path()));
        let (report, _) = verify_with(subject, options);
        assert_eq!((report.matching, report.directories, report.wrong()), (303, 2, 0), "{report:?}");
        assert_eq!(report.is_past_cache(), None, "what no disk has came past no cache");
    }
    fs::write(place.path().join("small/7"), "small 8").unwrap();
    let (report, _) = verify(Subject::new(tree()).against(branch(place.path())));
    assert_eq!((report.matching, report.mismatching.len()), (302, 1));
    assert_eq!(report.mismatching[0].offset, Some(6));
}
