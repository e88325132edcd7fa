//! Faults that people found who wanted to lose data: each as it was done.

use std::fs;
use std::path::PathBuf;

use stook::copy::CopyOptions;
use stook::format::proof::BLOCK_BYTES;
use stook::format::sums;
use stook::hash::{Digest, HashKind};
use stook::ops::verify::{Error, OpenGiven, RangeGiven, RepairGiven, RepairReport, Verified, VerifyGiven};
use stook::verify::{Finding, VerifyEvents};

use super::counts_of;
use crate::copy::copy_with;

struct Place(tempfile::TempDir);

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            place.put(path, text);
        }
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), bytes).unwrap();
    }

    fn given(&self, tree: &str) -> VerifyGiven {
        let tree = OpenGiven::default().open(&self.at(tree), &mut |_| true).unwrap();
        VerifyGiven { trees: vec![tree], ..VerifyGiven::default() }
    }

    fn verify(&self, tree: &str) -> Result<Verified, Error> {
        self.given(tree).run(&mut ())
    }

    fn make(&self, tree: &str, kind: HashKind) -> Result<Verified, Error> {
        VerifyGiven { make: vec![kind], ..self.given(tree) }.run(&mut ())
    }

    fn accept(&self, tree: &str, paths: &[&str]) -> Result<Verified, Error> {
        let accept = paths.iter().map(PathBuf::from).collect();
        VerifyGiven { make: vec![HashKind::Xxh3], accept, ..self.given(tree) }.run(&mut ())
    }

    fn prove(&self, tree: &str) {
        let make = VerifyGiven { make: vec![HashKind::Blake3], proofs: true, ..self.given(tree) };
        assert_eq!(make.run(&mut ()).unwrap().wrong(false), 0);
    }

    fn range(&self, path: &str) -> Result<bool, Error> {
        let given = RangeGiven { path: self.at(path), start: 0, end: Some(BLOCK_BYTES), cached: false };
        given.run(&mut |_| true).map(|report| report.is_proven())
    }

    fn repair(&self, good: &str, bad: &str) -> Result<RepairReport, Error> {
        let mut good = || Ok::<_, Error>(OpenGiven::default().open(&self.at(good), &mut |_| true)?);
        let (destinations, copying) = (vec![self.at(bad)], CopyOptions::default());
        RepairGiven { destinations, dry_run: false, copying }.run(&mut good, &mut |_| true)
    }

    /// A list with a date in its name that is later than those of lists that are made now.
    fn list(&self, path: &str, files: &[(&str, &str)]) {
        let line = |(path, text): &(&str, &str)| {
            sums::line(&Digest::of(HashKind::Sha256, text.as_bytes()), path.as_bytes())
        };
        self.put(path, files.iter().map(line).collect::<Vec<_>>().concat());
    }

    fn lists(&self, tree: &str, ending: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.at(tree)).unwrap().map(|entry| entry.unwrap().path());
        let mut lists: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|found| found == ending)).collect();
        lists.sort();
        lists
    }
}

fn film(first: u8) -> Vec<u8> {
    (0..3 * BLOCK_BYTES as usize).map(|at| first.wrapping_add((at / 5 + at / 4096) as u8)).collect()
}

#[test]
fn a_repair_never_writes_through_another_name_of_a_file() {
    let place = Place::new(&[]);
    place.put("snap/db", film(0));
    place.put("good/db", film(0));
    fs::create_dir(place.at("live")).unwrap();
    fs::hard_link(place.at("snap/db"), place.at("live/db")).unwrap();
    place.prove("snap");
    let mut changed = film(0);
    changed[1_500_000..1_500_014].copy_from_slice(b"MONTHS OF WORK");
    fs::write(place.at("live/db"), &changed).unwrap();
    let done = place.repair("good", "snap").unwrap();
    assert_eq!((done.undone(), done.destinations[0].replaced.as_slice()), (0, &[b"db".to_vec()][..]));
    assert!(fs::read(place.at("live/db")).unwrap() == changed, "the other name keeps its bytes");
    assert!(fs::read(place.at("snap/db")).unwrap() == film(0));
}

#[test]
fn two_names_of_a_file_are_both_repaired() {
    let place = Place::new(&[]);
    for copy in ["live", "good"] {
        place.put(&format!("{copy}/x"), film(0));
        fs::hard_link(place.at(&format!("{copy}/x")), place.at(&format!("{copy}/y"))).unwrap();
    }
    place.prove("live");
    let mut damaged = film(0);
    damaged[9] ^= 1;
    fs::write(place.at("live/x"), damaged).unwrap();
    let done = place.repair("good", "live").unwrap();
    assert_eq!(done.undone(), 0, "{done:?}");
    assert_eq!(place.verify("live").unwrap().wrong(false), 0);
}

#[test]
fn a_list_above_that_cannot_be_read_is_never_passed_over_in_silence() {
    let place = Place::new(&[("ab/disk/dcim/f", "1")]);
    place.make("ab", HashKind::Sha256).unwrap();
    for garbled in ["garbage\n", "\u{fffd}\0"] {
        place.put("ab/disk/SHA256SUMS", garbled);
        let found = place.verify("ab/disk/dcim").unwrap();
        assert_eq!((counts_of(&found)[0], found.wrong(false) > 0), (1, true), "{garbled:?}: {found:?}");
        assert!(found.lists.iter().any(|list| list.path.ends_with("disk/SHA256SUMS")));
    }
    // Its line may be the one that cannot be read.
    place.list("ab/disk/SHA256SUMS", &[("other", "x")]);
    let text = fs::read_to_string(place.at("ab/disk/SHA256SUMS")).unwrap();
    place.put("ab/disk/SHA256SUMS", format!("{text}Zgarbled  dcim/f\n"));
    for part in ["ab/disk/dcim", "ab/disk/dcim/f"] {
        assert!(place.verify(part).unwrap().wrong(false) > 0, "{part}");
    }
    // No list further up has it.
    let bare = Place::new(&[("d/e/f", "1"), ("d/MD5SUMS", "garbage\n")]);
    assert!(
        matches!(bare.verify("d/e"), Err(Error::BadList { list, line: Some(1), .. }) if list.ends_with("MD5SUMS"))
    );
}

#[test]
fn a_part_of_a_file_is_not_proven_while_a_list_cannot_be_read() {
    let place = Place::new(&[]);
    place.put("r/x", film(0));
    place.prove("r");
    assert!(place.range("r/x").unwrap());
    for garbled in ["Zgarbled  x\n", "nonsense\n"] {
        place.put("r/newer.sha256", garbled);
        assert!(matches!(place.range("r/x"), Err(Error::BadList { .. })), "{garbled:?}");
    }
}

#[test]
fn no_list_is_made_below_one_that_has_the_same_files() {
    let place = Place::new(&[("disk/sub/1", "1"), ("disk/sub/2", "2")]);
    place.make("disk", HashKind::Sha256).unwrap();
    fs::remove_file(place.at("disk/sub/2")).unwrap();
    let refused = place.make("disk/sub", HashKind::Sha256);
    assert!(
        matches!(refused, Err(Error::ListedAbove { above, .. }) if above == place.at("disk").canonicalize().unwrap())
    );
    assert_eq!(counts_of(&place.verify("disk/sub").unwrap()), [1, 0, 1, 0, 0, 0]);
}

#[test]
fn a_backslash_in_a_name_of_our_own_lists_is_one() {
    let place = Place::new(&[("from/x", "1"), (r"from/y\z", "2")]);
    for options in [
        CopyOptions { lists: vec![HashKind::Sha256, HashKind::Xxh3], ..CopyOptions::default() },
        CopyOptions { lists: vec![HashKind::Sha256], ..CopyOptions::default() },
    ] {
        let _ = fs::remove_dir_all(place.at("to"));
        copy_with(&place.at("from"), &[&place.at("to")], options);
        fs::remove_file(place.at(r"to/y\z")).unwrap();
        let found = place.verify("to").unwrap();
        assert_eq!(found.report.subjects[0].missing, [br"y\z".to_vec()], "{found:?}");
        let done = place.repair("from", "to").unwrap();
        assert_eq!((done.undone(), place.verify("to").unwrap().wrong(false)), (0, 0), "{done:?}");
    }
}

#[test]
fn a_damaged_proof_does_not_hide_a_good_one_and_a_path_counts_once() {
    let place = Place::new(&[]);
    place.put("e/big", film(0));
    place.prove("e");
    let [first] = place.lists("e", "proofs").try_into().unwrap();
    let older = place.at("e/checksums-2024-01-02_030405Z.proofs");
    fs::rename(&first, &older).unwrap();
    let proof = fs::read_dir(&older).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&proof).unwrap();
    bytes[10] ^= 1;
    fs::write(&proof, bytes).unwrap();
    assert_eq!(place.verify("e").unwrap().wrong(false), 1);
    // As it is advised to make it anew.
    let make = VerifyGiven { make: vec![HashKind::Blake3], proofs: true, ..place.given("e") };
    make.run(&mut ()).unwrap();
    assert_eq!(place.verify("e").unwrap().wrong(false), 0);
    let place = Place::new(&[]);
    place.put("e/big", film(0));
    place.prove("e");
    fs::remove_file(place.at("e/big")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place.at("e/big")).unwrap();
    let found = place.verify("e").unwrap();
    assert_eq!((found.wrong(false), found.failures.len()), (1, 0), "{found:?}");
}

#[test]
fn lists_of_one_second_count_in_the_order_of_their_numbers() {
    let place = Place::new(&[("d/f", "22")]);
    place.list("d/checksums-2026-01-02_030405Z.sha256", &[("f", "1")]);
    place.list("d/checksums-2026-01-02_030405Z-2.sha256", &[("f", "22")]);
    assert_eq!(counts_of(&place.verify("d").unwrap()), [1, 0, 0, 0, 0, 0]);
}

#[test]
fn nothing_is_listed_as_new_while_a_list_cannot_be_read_whole() {
    let place = Place::new(&[("mk/f", "BAD"), ("mk/SHA256SUMS", "Zgarbled  f\n")]);
    assert!(matches!(place.make("mk", HashKind::Sha256), Err(Error::BadList { .. })));
    assert_eq!(fs::read_dir(place.at("mk")).unwrap().count(), 2);
}

#[test]
fn a_list_without_a_line_says_nothing_of_what_is_extra() {
    let place = Place::new(&[("d/a", "1"), ("d/b", "2"), ("d/l.md5", "garbage\n")]);
    let said = place.verify("d").unwrap_err().to_string();
    assert!(said.contains("l.md5, line 1: not a line"), "{said}");
    place.list("d/SHA256SUMS", &[("a", "1")]);
    let found = place.verify("d").unwrap();
    assert_eq!(counts_of(&found), [1, 0, 0, 0, 0, 1], "b may be in the other list: {found:?}");
}

#[test]
fn a_checksum_alone_is_of_the_file_that_its_list_is_called_after() {
    let md5 = Digest::of(HashKind::Md5, b"film").to_string();
    let place = Place::new(&[("d/clip.mov", "film"), ("d/clip.mov.md5", &md5)]);
    assert_eq!(counts_of(&place.verify("d").unwrap()), [1, 0, 0, 0, 0, 0]);
    copy_with(
        &place.at("d"),
        &[&place.at("to")],
        CopyOptions { lists: vec![HashKind::Sha256], ..CopyOptions::default() },
    );
    assert_eq!(counts_of(&place.verify("to").unwrap()), [2, 0, 0, 0, 0, 0]);
    place.put("to/clip.mov", "flim");
    assert_eq!(counts_of(&place.verify("to").unwrap()), [1, 1, 0, 0, 0, 0]);
}

#[test]
fn what_was_changed_on_purpose_is_accepted_and_a_new_list_replaces_the_old_ones() {
    let place = Place::new(&[("d/a", "1"), ("d/b", "2"), ("d/sub/c", "3"), ("d/sub/d", "4")]);
    place.make("d", HashKind::Sha256).unwrap();
    place.put("d/b", "changed");
    fs::remove_file(place.at("d/sub/c")).unwrap();
    place.put("d/a", "damaged");
    // What is not named is still wrong, and the older lists stay.
    let found = place.accept("d", &["b", "sub"]).unwrap();
    assert_eq!((counts_of(&found), found.removed.len()), ([0, 1, 0, 0, 0, 0], 0), "{found:?}");
    place.put("d/a", "1");
    let found = place.accept("d", &["./b", "sub/"]).unwrap();
    assert_eq!((found.wrong(false), found.report.subjects[0].new), (0, 2), "{found:?}");
    let names: Vec<_> = place.lists("d", "xxh3").into_iter().chain(place.lists("d", "sha256")).collect();
    let made: Vec<_> = found.made.iter().map(|list| list.path.clone()).collect();
    assert_eq!((names, found.removed.len()), (made, 3), "the same functions, and the new one");
    assert_eq!(counts_of(&place.verify("d").unwrap()), [3, 0, 0, 0, 0, 0]);
}

#[test]
fn what_cannot_be_accepted_is_said_and_nothing_is_changed() {
    let place = Place::new(&[("d/a", "1"), ("d/b", "2")]);
    place.make("d", HashKind::Sha256).unwrap();
    let names = |place: &Place| fs::read_dir(place.at("d")).unwrap().count();
    let said = |refused: Result<Verified, Error>| refused.unwrap_err().to_string();
    assert!(said(place.accept("d", &["gone"])).contains("no list of"));
    assert!(said(place.accept("d", &["../a"])).contains("no path in the tree"));
    let without_list = VerifyGiven { accept: vec!["a".into()], ..place.given("d") };
    assert!(said(without_list.run(&mut ())).contains("needs a list"));
    place.list("d/SHA256SUMS", &[("a", "1")]);
    assert!(said(place.accept("d", &["a"])).contains("SHA256SUMS has a and was not made here"));
    let mhl = VerifyGiven {
        accept: vec!["b".into()],
        make: vec![HashKind::Md5],
        mhl: Some(vec![HashKind::Md5]),
        ..place.given("d")
    };
    assert!(said(mhl.run(&mut ())).contains("an ASC MHL keeps"));
    assert_eq!(names(&place), 4);
    let sealed = VerifyGiven { mhl: Some(vec![HashKind::Md5]), ..place.given("d") };
    assert_eq!(sealed.run(&mut ()).unwrap().made.len(), 1);
    assert!(said(place.accept("d", &["b"])).contains("b, and an ASC MHL keeps what each file was"));
}

#[test]
fn a_part_is_repaired_with_what_its_lists_have() {
    let place = Place::new(&[("disk/d/f", "1"), ("good/d/f", "1"), ("bare/f", "1")]);
    place.make("disk", HashKind::Sha256).unwrap();
    place.put("disk/d/f", "2");
    for part in ["disk/d", "disk/d/f"] {
        let above = place.at("disk").canonicalize().unwrap();
        let refused = place.repair("good/d", part);
        assert!(
            matches!(&refused, Err(Error::NotWhole { above: found, .. }) if *found == above),
            "{refused:?}"
        );
    }
    assert!(matches!(place.repair("good/d", "bare"), Err(Error::NoList(_))));
}

#[test]
fn a_list_that_is_a_file_of_another_list_is_not_removed() {
    let place = Place::new(&[("card/a", "1"), ("card/b", "2")]);
    place.make("card", HashKind::Sha256).unwrap();
    let options = CopyOptions { lists: vec![HashKind::Sha256], ..CopyOptions::default() };
    copy_with(&place.at("card"), &[&place.at("disk")], options);
    place.put("disk/b", "changed");
    let found = place.accept("disk", &["b"]).unwrap();
    assert_eq!((found.wrong(false), found.removed.len()), (0, 1), "{found:?}");
    assert_eq!(place.verify("disk").unwrap().wrong(false), 0);
    // One that names lists of ours as files was not made here.
    let place = Place::new(&[("d/a", "1"), ("d/b", "2")]);
    place.make("d", HashKind::Sha256).unwrap();
    let [own] = place.lists("d", "sha256").try_into().unwrap();
    let name = own.file_name().unwrap().to_str().unwrap().to_owned();
    place.list("d/SHA256SUMS", &[(&name, &fs::read_to_string(&own).unwrap())]);
    place.put("d/b", "changed");
    assert!(place.accept("d", &["b"]).unwrap().removed.is_empty());
    assert_eq!(place.verify("d").unwrap().wrong(false), 0);
}

/// Does something as soon as something is found.
struct AtFirst<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> VerifyEvents for AtFirst<F> {
    fn found(&mut self, _finding: &Finding) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

#[test]
fn lists_that_were_written_meanwhile_are_not_removed() {
    let given = |place: &Place| VerifyGiven {
        make: vec![HashKind::Xxh3],
        accept: vec!["b".into()],
        ..place.given("d")
    };
    let changed = || {
        let place = Place::new(&[("d/a", "1"), ("d/b", "2")]);
        place.make("d", HashKind::Xxh3).unwrap();
        place.put("d/b", "changed");
        place
    };
    // By another run that accepts the same: it has removed the older list.
    let place = changed();
    let other = || {
        let other = given(&place).run(&mut ()).unwrap();
        assert_eq!((other.wrong(false), other.removed.len()), (0, 1));
    };
    let found = given(&place).run(&mut AtFirst(Some(other))).unwrap();
    assert_eq!((found.wrong(false), found.removed.len()), (0, 0), "{found:?}");
    assert_eq!((place.lists("d", "xxh3").len(), place.verify("d").unwrap().wrong(false)), (2, 0));
    // Under the name of the older list.
    let place = changed();
    let [list] = place.lists("d", "xxh3").try_into().unwrap();
    let replace = || {
        let bytes = fs::read(&list).unwrap();
        fs::write(place.at("new"), bytes).unwrap();
        fs::rename(place.at("new"), &list).unwrap();
    };
    let found = given(&place).run(&mut AtFirst(Some(replace))).unwrap();
    assert_eq!((found.removed.len(), place.lists("d", "xxh3").len()), (0, 2), "{found:?}");
    assert!(list.exists());
}

#[test]
fn lists_of_which_everything_was_deleted_on_purpose_are_removed() {
    let place = Place::new(&[("d/a", "1")]);
    place.make("d", HashKind::Sha256).unwrap();
    fs::remove_file(place.at("d/a")).unwrap();
    let found = place.accept("d", &["a"]).unwrap();
    assert_eq!((found.wrong(false), found.made.len(), found.removed.len()), (0, 0, 1));
    assert!(matches!(place.verify("d"), Err(Error::NoList(_))));
}

#[test]
fn what_a_killed_run_left_is_neither_listed_nor_extra() {
    let place =
        Place::new(&[("d/a", "1"), ("d/.stook-0123456789abcdef-0.part", "half"), ("d/.stook-x", "2")]);
    let made = place.make("d", HashKind::Sha256).unwrap();
    assert_eq!(made.made[0].files, 2);
    place.put("d/e/.stook-0123456789abcdef.part", "half");
    assert_eq!(counts_of(&place.verify("d").unwrap()), [2, 0, 0, 0, 0, 0]);
}
