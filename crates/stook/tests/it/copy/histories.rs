//! Histories of ASC MHL that are continued: by copies and by verifying, with any functions, those
//! of directories below, and after whatever was done to them.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use stook::copy::{CopyOptions, CopyReport, HashKind};
use stook::error::chain;
use stook::format::mhl::{Chain, MhlAction, MhlItem};
use stook::hash::Digest;
use stook::ops::verify::{Given, OpenGiven, Verified, VerifyGiven};
use stook::tree::{Failure, Overwrite};

use super::copy_with;
use super::lists::{accepts, actions, assert_reference_accepts, history, reference, with_mhl};

const MD5: &[HashKind] = &[HashKind::Md5];
const XXH128: &[HashKind] = &[HashKind::Xxh128];
const BOTH: &[HashKind] = &[HashKind::Md5, HashKind::Xxh128];

struct Place(tempfile::TempDir);

impl Place {
    /// With these files.
    fn with(paths: &[&str]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for path in paths {
            place.write(path, path);
        }
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Copies, and replaces what differs.
    fn copy(&self, from: &str, to: &str, kinds: &[HashKind]) -> CopyReport {
        let options = CopyOptions { overwrite: Overwrite::Different, checksum: true, ..with_mhl(kinds) };
        copy_with(&self.at(from), &[&self.at(to)], options)
    }

    fn chain(&self, tree: &str) -> PathBuf {
        self.at(tree).join("ascmhl/ascmhl_chain.xml")
    }

    /// Writes the chain of a tree with the first of its entries.
    fn roll_back(&self, tree: &str, entries: usize) {
        let (mut chain, _) = history(&self.at(tree));
        chain.entries.truncate(entries);
        fs::write(self.chain(tree), chain.encode().unwrap()).unwrap();
    }
}

fn open(path: &Path) -> Given {
    OpenGiven::default().open(path, &mut |_| true).unwrap()
}

fn verify(tree: &Path) -> Verified {
    VerifyGiven { trees: vec![open(tree)], ..VerifyGiven::default() }.run(&mut ()).unwrap()
}

/// Verifies, and writes the next generation.
fn seal(tree: &Path, kinds: &[HashKind]) -> Verified {
    let mhl = Some(kinds.to_vec());
    VerifyGiven { trees: vec![open(tree)], mhl, ..VerifyGiven::default() }.run(&mut ()).unwrap()
}

/// What is a mismatch in a tree.
fn mismatching(verified: &Verified) -> Vec<&str> {
    let all = verified.report.subjects.iter().flat_map(|subject| &subject.mismatching);
    all.map(|one| std::str::from_utf8(&one.key).unwrap()).collect()
}

/// Which files are failures of the only destination, and why.
fn failures(report: &CopyReport) -> Vec<(String, String)> {
    let all = report.destinations[0].failures.iter();
    all.map(|one| (String::from_utf8_lossy(&one.key).into_owned(), chain(&one.error))).collect()
}

#[track_caller]
fn assert_failed(report: &CopyReport, keys: &[&str]) {
    let failed = failures(report);
    assert_eq!(failed.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), keys, "{failed:?}");
}

const FAILED: Option<MhlAction> = Some(MhlAction::Failed);
const VERIFIED: Option<MhlAction> = Some(MhlAction::Verified);

#[test]
fn a_changed_file_fails_by_the_functions_of_the_history_whatever_a_copy_names() {
    for kinds in [MD5, XXH128, BOTH] {
        // The history is that of a card, which comes along, or that of the destination.
        for is_of_card in [true, false] {
            let place = Place::with(&["card/clip", "card/other"]);
            if is_of_card {
                assert_eq!(seal(&place.at("card"), MD5).wrong(false), 0);
            } else {
                assert_eq!(place.copy("card", "disk", MD5).undone(), 0);
            }
            place.write("card/clip", "card/CLIP");
            assert_failed(&place.copy("card", "disk", kinds), &["clip"]);
            let (_, lists) = history(&place.at("disk"));
            let found = actions(&lists[1]);
            assert_eq!(found["clip"], [FAILED], "no hash of it that nothing is said of: {kinds:?}");
            // The hash of a new function is verified by the one beside it.
            let beside = if kinds == MD5 { 1 } else { 2 };
            assert_eq!(found["other"], vec![VERIFIED; beside], "{kinds:?}");
            assert_eq!(mismatching(&verify(&place.at("disk"))), ["clip"], "{kinds:?}, {is_of_card}");
            let at = place.at("disk");
            assert!(!accepts(&reference("ascmhl-debug"), &["verify", at.to_str().unwrap()], &at).0);
        }
    }
}

#[test]
fn a_function_that_the_history_has_is_written_only_where_it_says_something() {
    let place = Place::with(&["card/clip"]);
    for (kinds, written) in [(MD5, 1), (XXH128, 2), (XXH128, 1)] {
        assert_eq!(place.copy("card", "disk", kinds).undone(), 0);
        let (_, lists) = history(&place.at("disk"));
        assert_eq!(actions(lists.last().unwrap())["clip"].len(), written);
    }
    assert_reference_accepts(&place.at("disk"));
}

#[test]
fn what_is_verified_against_another_tree_is_held_against_its_history_too() {
    let place = Place::with(&["card/clip", "card/other"]);
    assert_eq!(seal(&place.at("card"), MD5).wrong(false), 0);
    place.write("card/clip", "card/CLIP");
    place.write("same/clip", "card/CLIP");
    place.write("same/other", "card/other");
    let (trees, against) = (vec![open(&place.at("card"))], Some(open(&place.at("same"))));
    let given = VerifyGiven { trees, against, mhl: Some(XXH128.to_vec()), ..VerifyGiven::default() };
    let verified = given.run(&mut ()).unwrap();
    assert_eq!((verified.failures.len(), &verified.failures[0].key[..]), (1, &b"clip"[..]), "{verified:?}");
    assert_eq!(actions(&history(&place.at("card")).1[1])["clip"], [FAILED]);
    assert_eq!(mismatching(&verify(&place.at("card"))), ["clip"]);
}

/// The lists that the last list of a tree refers to.
fn references(tree: &Path) -> Vec<String> {
    let (_, lists) = history(tree);
    let of = |item: &MhlItem| match item {
        MhlItem::Reference(one) => Some(String::from_utf8(one.path.clone()).unwrap()),
        _ => None,
    };
    lists.last().unwrap().iter().filter_map(of).collect()
}

#[test]
fn histories_of_directories_below_are_known_and_referred_to() {
    let place = Place::with(&["p/c1/f", "p/c1/deep/g", "p/d/c2/h", "p/i"]);
    for sealed in ["p/c1/deep", "p/c1", "p/d/c2"] {
        assert_eq!(seal(&place.at(sealed), MD5).wrong(false), 0);
    }
    assert_eq!(place.copy("p", "whole", XXH128).undone(), 0);
    let referred = references(&place.at("whole"));
    let folders: Vec<&str> = referred.iter().map(|path| path.rsplit_once('/').unwrap().0).collect();
    assert_eq!(folders, ["c1/ascmhl", "c1/deep/ascmhl", "d/c2/ascmhl"]);
    assert_eq!(verify(&place.at("whole")).wrong(false), 0);
    assert_reference_accepts(&place.at("whole"));
    let list = place.at("whole").join(format!("ascmhl/{}", {
        let (chain, _) = history(&place.at("whole"));
        String::from_utf8(chain.entries[0].name.clone()).unwrap()
    }));
    let schema = reference("../xsd/ASCMHL.xsd");
    let args = ["xsd-schema-check", "-xsd", schema.to_str().unwrap(), list.to_str().unwrap()];
    let (is_accepted, said) = accepts(&reference("ascmhl-debug"), &args, &place.at("whole"));
    assert!(is_accepted, "{said}");

    place.write("p/c1/f", "p/c1/F");
    place.write("p/d/c2/h", "p/d/c2/H");
    assert_failed(&place.copy("p", "pp", XXH128), &["c1/f", "d/c2/h"]);
    let (_, lists) = history(&place.at("pp"));
    let found = actions(&lists[0]);
    assert_eq!((&found["c1/f"][..], &found["c1/deep/g"][..]), (&[FAILED][..], &[VERIFIED; 2][..]));
    assert_eq!(found["i"], [Some(MhlAction::Original)]);
    assert_eq!(mismatching(&verify(&place.at("pp"))), ["c1/f", "d/c2/h"]);

    let sealed = seal(&place.at("p"), XXH128);
    let keys: Vec<&[u8]> = sealed.failures.iter().map(|failure| &failure.key[..]).collect();
    assert_eq!(keys, [&b"c1/f"[..], b"d/c2/h"], "{sealed:?}");
    assert_eq!(mismatching(&verify(&place.at("p"))), ["c1/f", "d/c2/h"]);
}

#[test]
fn the_history_of_a_directory_below_that_was_changed_costs_only_itself() {
    let place = Place::with(&["p/c1/f", "p/c2/g", "p/h"]);
    for sealed in ["p/c1", "p/c2"] {
        assert_eq!(seal(&place.at(sealed), MD5).wrong(false), 0);
    }
    fs::write(place.chain("p/c1"), "no chain").unwrap();
    place.write("p/c2/g", "p/c2/G");
    let report = place.copy("p", "pp", XXH128);
    assert_failed(&report, &["c1/ascmhl", "c2/g"]);
    assert_eq!(references(&place.at("pp")).len(), 1);
    // What is below it is in no list, which could cover up damage.
    let (_, lists) = history(&place.at("pp"));
    assert_eq!(actions(&lists[0]).into_keys().collect::<Vec<_>>(), ["c2/g", "h"]);
}

#[test]
fn a_history_below_whose_chain_lacks_its_last_list_is_a_failure_until_it_is_continued() {
    let place = Place::with(&["p/c1/f", "p/c2/g"]);
    for sealed in ["p/c1", "p/c2"] {
        assert_eq!(seal(&place.at(sealed), MD5).wrong(false), 0);
    }
    let failed = |verified: &Verified| -> Vec<String> {
        let key = |one: &Failure<_>| String::from_utf8_lossy(&one.key).into_owned();
        verified.failures.iter().map(key).collect()
    };
    for is_gone in [false, true] {
        place.roll_back("p/c1", 0);
        if is_gone {
            fs::remove_file(place.chain("p/c1")).unwrap();
        }
        let sealed = seal(&place.at("p"), XXH128);
        assert_eq!(failed(&sealed), ["c1/ascmhl"], "{sealed:?}");
        assert!(chain(&sealed.failures[0].error).contains("the next `--mhl` of that directory"));
        assert_eq!(references(&place.at("p")).len(), 1);
        assert_eq!(verify(&place.at("p")).wrong(false), 1, "c1/f is in no list of it");
        assert_failed(&place.copy("p", &format!("copy-{is_gone}"), XXH128), &["c1/ascmhl"]);
    }
    // What it takes up it says.
    assert_eq!(seal(&place.at("p/c1"), MD5).wrong(false), 1);
    assert_eq!(verify(&place.at("p/c1")).wrong(false), 0);
    assert_eq!(seal(&place.at("p"), XXH128).wrong(false), 0);
    assert_eq!(references(&place.at("p")).len(), 2);
    assert_eq!(verify(&place.at("p")).wrong(false), 0);
}

#[test]
fn what_no_list_of_an_mhl_has_is_not_new() {
    let place = Place::with(&["p/c1/f", "p/g", "p/.DS_Store"]);
    assert_eq!(seal(&place.at("p/c1"), MD5).wrong(false), 0);
    for generation in 0..2 {
        let sealed = seal(&place.at("p"), XXH128);
        let subject = &sealed.report.subjects[0];
        let new = if generation == 0 { 2 } else { 0 };
        assert_eq!((subject.new, sealed.made[0].files), (new, 2), "{subject:?}");
    }
}

#[test]
fn a_list_that_is_not_in_the_chain_is_a_failure_unless_a_killed_run_has_left_it() {
    let place = Place::with(&["card/f"]);
    assert_eq!(place.copy("card", "disk", MD5).undone(), 0);
    let lists = |place: &Place| fs::read_dir(place.at("disk/ascmhl")).unwrap().count() - 1;
    // A chain that was emptied, or is gone: the only list counts.
    for is_gone in [false, true] {
        place.roll_back("disk", 0);
        if is_gone {
            fs::remove_file(place.chain("disk")).unwrap();
        }
        place.write("card/f", if is_gone { "card/G" } else { "card/F" });
        assert_failed(&place.copy("card", "disk", XXH128), &["f"]);
        let (chain, found) = history(&place.at("disk"));
        assert_eq!(chain.entries.len(), 2);
        assert_eq!(actions(&found[1])["f"], [FAILED]);
        let mut names = chain.entries.into_iter().map(|entry| entry.name);
        let second = place.at("disk/ascmhl").join(String::from_utf8(names.nth(1).unwrap()).unwrap());
        fs::remove_file(second).unwrap();
        place.roll_back_to_what_is_there("disk");
    }
    place.write("card/f", "card/f");
    for _ in 0..2 {
        assert_eq!(place.copy("card", "disk", MD5).undone(), 0);
        place.write("card/more", "more");
        fs::remove_file(place.at("disk/more")).unwrap_or_default();
    }
    assert_eq!(lists(&place), 3);
    let whole = fs::read(place.chain("disk")).unwrap();
    for kept in [0, 1] {
        place.roll_back("disk", kept);
        let report = place.copy("card", "disk", MD5);
        assert_failed(&report, &["ascmhl"]);
        let (_, why) = &failures(&report)[0];
        assert!(why.contains("a history that was changed is not continued"), "{why}");
        assert_eq!(lists(&place), 3, "nothing was written");
        assert!(seal(&place.at("disk"), MD5).wrong(false) > 0);
        assert_eq!(lists(&place), 3);
    }
    fs::write(place.chain("disk"), whole).unwrap();
    // One that is not the next.
    let (chain, _) = history(&place.at("disk"));
    let last = place.at("disk/ascmhl").join(String::from_utf8(chain.entries[2].name.clone()).unwrap());
    fs::copy(last, place.at("disk/ascmhl/0005_disk_2024-01-01_000000Z.mhl")).unwrap();
    assert_failed(&place.copy("card", "disk", MD5), &["ascmhl"]);
}

impl Place {
    /// Writes the chain of a tree without the lists that are not there.
    fn roll_back_to_what_is_there(&self, tree: &str) {
        let mut chain = Chain::decode(&fs::read(self.chain(tree)).unwrap()[..]).unwrap();
        let folder = self.at(tree).join("ascmhl");
        chain.entries.retain(|one| folder.join(std::ffi::OsStr::from_bytes(&one.name)).exists());
        fs::write(self.chain(tree), chain.encode().unwrap()).unwrap();
    }
}

#[test]
fn the_list_that_a_killed_run_has_left_is_named_and_taken_up() {
    for generations in [1, 2] {
        let place = Place::with(&["card/f"]);
        for number in 0..generations {
            place.write("card/f2", &format!("{number}"));
            fs::remove_file(place.at("disk/f2")).unwrap_or_default();
            let report = place.copy("card", "disk", if number == 0 { MD5 } else { XXH128 });
            assert_eq!(report.undone(), u64::from(number == 1), "another f2: {report:?}");
        }
        place.roll_back("disk", generations - 1);
        if generations == 1 {
            fs::remove_file(place.chain("disk")).unwrap();
        }
        let named = verify(&place.at("disk"));
        let said = format!("{:?}", named.lists);
        assert_eq!(named.bad_lines(), 1, "{said}");
        assert!(said.contains("the next `--mhl` takes it up"), "{said}");
        place.write("card/new", "new");
        fs::remove_file(place.at("card/f2")).unwrap();
        fs::remove_file(place.at("disk/f2")).unwrap();
        assert_eq!(place.copy("card", "disk", XXH128).undone(), 0);
        let (chain, lists) = history(&place.at("disk"));
        let numbers: Vec<u32> = chain.entries.iter().map(|entry| entry.generation).collect();
        assert_eq!(numbers, (1..=generations as u32 + 1).collect::<Vec<_>>());
        assert_eq!(actions(lists.last().unwrap())["new"], [Some(MhlAction::Original)]);
        let found = verify(&place.at("disk"));
        assert_eq!((found.bad_lines(), found.report.subjects[0].matching), (0, 2), "{found:?}");
        let last = chain.entries.len() - 2;
        let taken_up = place.at("disk/ascmhl").join(std::ffi::OsStr::from_bytes(&chain.entries[last].name));
        assert_eq!(chain.entries[last].digest, Digest::of(HashKind::C4, &fs::read(taken_up).unwrap()));
    }
}

#[test]
fn runs_that_write_a_history_at_once_lose_no_generation() {
    let place = Place::with(&["q/1", "q/2", "q/d/3"]);
    let runs = 8;
    thread::scope(|scope| {
        for number in 0..runs {
            let (tree, kinds) = (place.at("q"), if number % 2 == 0 { XXH128 } else { MD5 });
            scope.spawn(move || seal(&tree, kinds));
        }
    });
    let (chain, _) = history(&place.at("q"));
    let numbers: Vec<u32> = chain.entries.iter().map(|entry| entry.generation).collect();
    assert_eq!(numbers, (1..=runs).collect::<Vec<_>>());
    assert_eq!(verify(&place.at("q")).wrong(false), 0);
}

#[test]
fn patterns_of_a_directory_below_hold_in_it_alone() {
    let place = Place::with(&["n/sub*/f", "n/g"]);
    assert_eq!(seal(&place.at("n/sub*"), MD5).wrong(false), 0);
    // The list below leaves films out, and a directory at its top.
    let (chain, _) = history(&place.at("n/sub*"));
    let name = String::from_utf8(chain.entries[0].name.clone()).unwrap();
    let list = place.at("n/sub*/ascmhl").join(&name);
    let text = fs::read_to_string(&list).unwrap();
    let more = "<ignore>\n<pattern>*.mov</pattern><pattern>/tmp/</pattern>";
    let text = text.replace("<ignore>", more);
    fs::write(&list, &text).unwrap();
    let chain = Chain {
        entries: vec![stook::format::mhl::ChainEntry {
            generation: 1,
            name: name.into_bytes(),
            digest: Digest::of(HashKind::C4, text.as_bytes()),
        }],
    };
    fs::write(place.chain("n/sub*"), chain.encode().unwrap()).unwrap();
    // Also in the first list above, which is made of what is there already.
    place.write("n/sub*/0.mov", "left out");
    place.write("n/sub2/0.mov", "not left out");
    let sealed = seal(&place.at("n"), MD5);
    assert_eq!((sealed.wrong(false), sealed.made[0].files), (0, 3), "{sealed:?}");
    let (_, lists) = history(&place.at("n"));
    assert_eq!(actions(&lists[0]).into_keys().collect::<Vec<_>>(), ["g", "sub*/f", "sub2/0.mov"]);
    for path in ["sub*/1.mov", "sub*/deep/2.mov", "sub*/tmp/x"] {
        place.write(&format!("n/{path}"), "left out");
    }
    assert_eq!(verify(&place.at("n")).wrong(false), 0);
    for path in ["extra.mov", "sub2/3.mov", "tmp/x", "sub*/deep/tmp/x"] {
        place.write(&format!("n/{path}"), "not left out");
    }
    let found = verify(&place.at("n"));
    let extra: Vec<_> = found.report.subjects[0].extra.iter().map(|one| one.key.clone()).collect();
    let mut extra: Vec<String> = extra.into_iter().map(|key| String::from_utf8(key).unwrap()).collect();
    extra.sort();
    assert_eq!(extra.len(), 4, "{extra:?}");
}

#[test]
fn files_that_a_list_has_no_way_to_hold_are_not_counted_and_their_names_are_escaped() {
    let place = Place::with(&["p/1", "p/2"]);
    fs::write(place.at("p").join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
    let sealed = seal(&place.at("p"), XXH128);
    assert_eq!((sealed.made[0].files, sealed.failures.len()), (2, 1), "{sealed:?}");
    let why = chain(&sealed.failures[0].error);
    assert!(why.contains(r"p/\xff") && why.contains("XML cannot hold"), "{why}");
}

#[test]
fn verifying_takes_up_what_a_killed_run_has_left_too() {
    let place = Place::with(&["disk/f"]);
    assert_eq!(seal(&place.at("disk"), MD5).wrong(false), 0);
    for is_gone in [true, false] {
        match is_gone {
            true => fs::remove_file(place.chain("disk")).unwrap(),
            false => place.roll_back("disk", 1),
        }
        let sealed = seal(&place.at("disk"), MD5);
        assert_eq!((sealed.made.len(), sealed.bad_lines()), (1, 1), "{sealed:?}");
        assert_eq!(verify(&place.at("disk")).wrong(false), 0);
    }
}
