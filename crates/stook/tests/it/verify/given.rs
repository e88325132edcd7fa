//! Lists as people have them: found, given, old and new, bad and hostile; and lists that are made.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use stook::copy::CopyOptions;
use stook::format::{mhl, sums};
use stook::hash::{Digest, HashKind};
use stook::ops::verify::{Error, Given, OpenGiven, Verified, VerifyGiven, open_each};
use stook::verify::Difference;

use super::{Files, Heard, counts_of as counts, files, write};
use crate::copy::copy_with;

fn open(path: &Path) -> Given {
    OpenGiven::default().open(path, &mut |_| true).unwrap()
}

/// Verifies one tree, with lists or with its own.
fn verify(tree: &Path, lists: &[&Path]) -> Verified {
    try_verify(tree, lists).unwrap()
}

fn try_verify(tree: &Path, lists: &[&Path]) -> Result<Verified, Error> {
    let lists = lists.iter().map(PathBuf::from).collect();
    VerifyGiven { trees: vec![open(tree)], lists, ..VerifyGiven::default() }.run(&mut ())
}

/// A list of files.
fn list(files: &Files, kind: HashKind) -> Vec<u8> {
    let lines = files.iter().map(|(path, bytes)| sums::line(&Digest::of(kind, bytes), path.as_bytes()));
    lines.collect::<Vec<_>>().concat()
}

/// The lines of a list without those that have something in them, sorted.
fn lines_of<'l>(list: &'l [u8], without: &str) -> Vec<&'l str> {
    let lines = std::str::from_utf8(list).unwrap().lines();
    let mut lines: Vec<&str> = lines.filter(|line| !line.contains(without)).collect();
    lines.sort_unstable();
    lines
}

struct Tree {
    place: tempfile::TempDir,
    files: Files,
}

impl Tree {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let files = files(&[("a", b"one"), ("d/b", b"two"), ("d/e/c", b"three")]);
        write(&files, &place.path().join("tree"));
        Self { place, files }
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("tree")
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

#[test]
fn lists_of_every_name_are_found_and_left_out_of_what_is_extra() {
    for (name, kind) in [
        ("SHA256SUMS", HashKind::Sha256),
        ("x.sha256", HashKind::Sha256),
        ("shasum.2024-05-01.10.11.12.txt", HashKind::Sha256),
        ("md5sums.txt", HashKind::Md5),
        ("list.b3", HashKind::Blake3),
        ("all.xxh128", HashKind::Xxh128),
        ("all.xxh3", HashKind::Xxh3),
        ("all.xxhsum", HashKind::Xxh64),
    ] {
        let tree = Tree::new();
        tree.put(name, &list(&tree.files, kind));
        let verified = verify(&tree.path(), &[]);
        assert_eq!(counts(&verified), [3, 0, 0, 0, 0, 0], "{name}: {verified:?}");
        assert_eq!(verified.lists[0].lines, 3);
        tree.put("a", b"another");
        assert_eq!(counts(&verify(&tree.path(), &[])), [2, 1, 0, 0, 0, 0], "{name}");
    }
}

#[test]
fn without_a_list_or_with_an_empty_one_there_is_nothing_to_verify() {
    let tree = Tree::new();
    assert!(matches!(try_verify(&tree.path(), &[]), Err(Error::NoList(_))));
    tree.put("empty.sha256", b"");
    assert!(matches!(try_verify(&tree.path(), &[]), Err(Error::EmptyList(_))));
    tree.put("empty.sha256", b"# nothing\nnonsense\n");
    assert!(matches!(try_verify(&tree.path(), &[]), Err(Error::BadList { line: Some(2), .. })));
    // A list of our own gets its name with its first line.
    tree.put("empty.sha256", b"# nothing\n");
    tree.put("checksums-2026-11-26_064134Z.sha256", b"");
    assert!(matches!(try_verify(&tree.path(), &[]), Err(Error::BadList { line: None, .. })));
    tree.put("other.sha256", &list(&tree.files, HashKind::Sha256));
    assert_eq!(counts(&verify(&tree.path(), &[])), [3, 0, 0, 0, 0, 1]);
    assert!(matches!(VerifyGiven::default().run(&mut ()), Err(Error::Nothing)));
    assert!(try_verify(&tree.path(), &[&tree.path()]).is_err(), "a directory is no list");
}

#[test]
fn the_newest_list_decides_by_its_name_then_by_its_time_and_equal_ones_have_to_agree() {
    let tree = Tree::new();
    let old = files(&[("a", b"old"), ("d/b", b"two"), ("d/e/c", b"three")]);
    tree.put("checksums-2024-01-02_030405Z.sha256", &list(&old, HashKind::Sha256));
    tree.put("checksums-2025-01-02_030405Z.blake3", &list(&files(&[("a", b"one")]), HashKind::Blake3));
    assert_eq!(counts(&verify(&tree.path(), &[])), [3, 0, 0, 0, 0, 0]);
    // One that says nothing of its date is as old as its file.
    let now = tree.put("SHA256SUMS", &list(&files(&[("a", b"newer")]), HashKind::Sha256));
    assert_eq!(counts(&verify(&tree.path(), &[])), [2, 1, 0, 0, 0, 0]);
    let file = fs::File::options().write(true).open(&now).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1)).unwrap();
    assert_eq!(counts(&verify(&tree.path(), &[])), [3, 0, 0, 0, 0, 0]);
    // Two of one date.
    tree.put("checksums-2025-01-02_030405Z.md5", &list(&files(&[("a", b"x")]), HashKind::Md5));
    let verified = verify(&tree.path(), &[]);
    assert_eq!(counts(&verified), [2, 1, 0, 0, 0, 0]);
    let dates: Vec<i64> = verified.lists.iter().map(|list| list.date_ns).collect();
    assert!(dates.is_sorted() && verified.lists.len() == 4, "{dates:?}");
    assert!(verified.lists.iter().all(|list| !list.is_of_future));
    tree.put("checksums-2199-01-02_030405Z.md5", &list(&files(&[("a", b"one")]), HashKind::Md5));
    let verified = verify(&tree.path(), &[]);
    let future: Vec<bool> = verified.lists.iter().map(|list| list.is_of_future).collect();
    assert_eq!((counts(&verified)[1], future), (0, vec![false, false, false, false, true]));
}

#[test]
fn a_list_that_is_given_replaces_those_that_a_tree_has() {
    let tree = Tree::new();
    tree.put("SHA256SUMS", &list(&files(&[("a", b"wrong")]), HashKind::Sha256));
    let given = tree.place.path().join("given");
    fs::write(&given, list(&tree.files, HashKind::Sha256)).unwrap();
    let verified = verify(&tree.path(), &[&given]);
    assert_eq!(counts(&verified), [3, 0, 0, 0, 0, 0], "64 digits may be SHA-256");
    fs::write(&given, list(&tree.files, HashKind::Blake3)).unwrap();
    assert_eq!(counts(&verify(&tree.path(), &[&given])), [3, 0, 0, 0, 0, 0], "and BLAKE3");
    // In the tree it is no extra, whatever it is called.
    let inside = tree.put("d/given", &list(&tree.files, HashKind::Md5));
    assert_eq!(counts(&verify(&tree.path(), &[&inside])), [3, 0, 0, 0, 0, 0]);
}

#[test]
fn backslashes_separate_names_in_a_list_of_windows_and_are_names_elsewhere() {
    let tree = Tree::new();
    let dos = String::from_utf8(list(&tree.files, HashKind::Sha256)).unwrap().replace('/', "\\");
    tree.put("x.sha256", dos.replace('\n', "\r\n").as_bytes());
    let verified = verify(&tree.path(), &[]);
    assert_eq!((counts(&verified), verified.lists[0].is_dos), ([3, 0, 0, 0, 0, 0], true));
    assert_eq!(verified.lists[0].lines, 3);
    // A file that is called so.
    let tree = Tree::new();
    tree.put("d\\b", b"two");
    let digest = Digest::of(HashKind::Sha256, b"two");
    tree.put("x.sha256", format!("{digest}  d\\b\n").as_bytes());
    let verified = verify(&tree.path(), &[]);
    assert_eq!((counts(&verified), verified.lists[0].is_dos), ([1, 0, 0, 0, 3, 0], false));
}

#[test]
fn bad_lines_are_errors_with_their_numbers_and_lead_nowhere() {
    let tree = Tree::new();
    fs::write(tree.place.path().join("outside"), "out").unwrap();
    let digest = Digest::of(HashKind::Sha256, b"out");
    let mut text = list(&tree.files, HashKind::Sha256);
    for line in [
        format!("{digest}  ../outside\n"),
        format!("{digest}  {}\n", tree.place.path().join("outside").display()),
        "abc  a\n".to_owned(),
        format!("{digest}\n"),
        format!("{digest}  {}\n", "x".repeat(200_000)),
    ] {
        text.extend(line.bytes());
    }
    text.extend(b"\xff\xfe\0\0\n");
    tree.put("x.sha256", &text);
    let verified = verify(&tree.path(), &[]);
    assert_eq!(counts(&verified), [3, 0, 0, 0, 0, 6], "{verified:?}");
    let lines: Vec<Option<u64>> = verified.lists[0].problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, (4..10).map(Some).collect::<Vec<_>>());
    // UTF-16, as some editors write it.
    let utf16: Vec<u8> =
        std::iter::once(0xfeff_u16).chain("x".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    tree.put("x.sha256", &utf16);
    let said = try_verify(&tree.path(), &[]).unwrap_err().to_string();
    assert!(said.contains("x.sha256, line 1: the list is in UTF-16"), "{said}");
}

#[test]
fn problems_of_a_hostile_list_are_counted_and_few_are_kept() {
    let tree = Tree::new();
    let text = [list(&tree.files, HashKind::Sha256), b"nonsense\n".repeat(20_000)].concat();
    tree.put("x.sha256", &text);
    let verified = verify(&tree.path(), &[]);
    assert_eq!(counts(&verified), [3, 0, 0, 0, 0, 20_000]);
    assert_eq!(verified.lists[0].problems.len(), 1000);
}

#[test]
fn a_list_that_is_cut_off_anywhere_finds_no_more_than_it_says() {
    let tree = Tree::new();
    let text = list(&tree.files, HashKind::Sha256);
    for len in 1..text.len() {
        tree.put("x.sha256", &text[..len]);
        let found = match try_verify(&tree.path(), &[]) {
            Err(Error::BadList { line: Some(1), .. }) => continue,
            found => counts(&found.unwrap()),
        };
        let [matching, mismatching, missing, unreadable, extra, bad] = found;
        // A name that is cut off may be that of a directory.
        assert!(matching + extra == 3 && unreadable == 0 && mismatching + missing + bad <= 1, "{len}");
    }
}

#[test]
fn packs_archives_and_single_files_are_verified_by_lists_too() {
    let tree = Tree::new();
    let given = tree.place.path().join("given.sha256");
    fs::write(&given, list(&tree.files, HashKind::Sha256)).unwrap();
    let tar = tree.place.path().join("x.tar");
    let made =
        std::process::Command::new("tar").args(["cf"]).arg(&tar).arg("-C").arg(tree.path()).arg(".").status();
    assert!(made.unwrap().success());
    let inside = PathBuf::from(format!("{}//", tar.display()));
    assert_eq!(counts(&verify(&inside, &[&given])), [3, 0, 0, 0, 0, 0]);
    let file = tree.path().join("a");
    assert_eq!(counts(&verify(&file, &[&given])), [1, 0, 0, 0, 0, 0]);
    // An archive that was cut off is not all that it should be, whatever the rest is.
    let bytes = fs::read(&tar).unwrap();
    let end = bytes.len() - 10_240;
    fs::write(&tar, &bytes[..end.max(3 * 1024)]).unwrap();
    let verified = verify(&inside, &[&given]);
    assert!(verified.wrong(true) > 0, "{verified:?}");
}

#[test]
fn lists_that_are_made_hold_what_matches_and_are_verified_with_later() {
    let tree = Tree::new();
    let make = |kinds: &[HashKind]| {
        let make = kinds.to_vec();
        VerifyGiven { trees: vec![open(&tree.path())], make, ..VerifyGiven::default() }.run(&mut ()).unwrap()
    };
    let made = make(&[HashKind::Sha256, HashKind::Xxh3]);
    assert_eq!((made.report.subjects[0].new, made.wrong(false), made.made.len()), (3, 0, 2));
    let text = fs::read(&made.made[0].path).unwrap();
    assert_eq!(text, list(&tree.files, HashKind::Sha256), "in the order of paths");
    assert_eq!(counts(&verify(&tree.path(), &[])), [3, 0, 0, 0, 0, 0]);
    // What does not match is not in the next list.
    tree.put("a", b"damaged");
    tree.put("f", b"four");
    let again = make(&[HashKind::Blake3]);
    assert_eq!((counts(&again), again.report.subjects[0].new), ([2, 1, 0, 0, 0, 0], 1));
    let expected = files(&[("d/b", b"two"), ("d/e/c", b"three"), ("f", b"four")]);
    assert_eq!(fs::read(&again.made[0].path).unwrap(), list(&expected, HashKind::Blake3));
    let verified = verify(&tree.path(), &[]);
    assert_eq!(counts(&verified), [3, 1, 0, 0, 0, 0]);
    assert!(matches!(verified.report.subjects[0].mismatching[0].difference, Difference::Digest { .. }));
    let pack = tree.place.path().join("none.tar");
    fs::write(&pack, vec![0; 10_240]).unwrap();
    let trees = vec![open(&PathBuf::from(format!("{}//", pack.display())))];
    let refused = VerifyGiven { trees, make: vec![HashKind::Md5], ..VerifyGiven::default() }.run(&mut ());
    assert!(matches!(refused, Err(Error::NoPlace(_))), "{refused:?}");
}

#[test]
fn a_list_that_is_made_and_that_of_a_copy_have_the_same_lists_of_others_as_files() {
    let tree = Tree::new();
    tree.put("x.md5", &list(&tree.files, HashKind::Md5));
    tree.put("checksums-2024-01-02_030405Z.sha256", &list(&tree.files, HashKind::Sha256));
    let to = tree.place.path().join("to");
    let options = CopyOptions { lists: vec![HashKind::Xxh3], ..CopyOptions::default() };
    let copied = copy_with(&tree.path(), &[&to], options);
    let [of_copy] = copied.destinations[0].lists.as_slice() else { panic!("{copied:?}") };
    let of_copy = fs::read(to.join(OsStr::from_bytes(of_copy))).unwrap();
    let make = vec![HashKind::Xxh3];
    let made =
        VerifyGiven { trees: vec![open(&tree.path())], make, ..VerifyGiven::default() }.run(&mut ()).unwrap();
    assert_eq!((counts(&made), made.report.subjects[0].new), ([3, 0, 0, 0, 0, 0], 1));
    let text = fs::read(&made.made[0].path).unwrap();
    // A list that was made here belongs to where it was made: to the copy it is a file.
    assert_eq!(lines_of(&of_copy, "checksums-"), lines_of(&text, "checksums-"));
    assert!(text.windows(6).any(|part| part == b"x.md5)"));
    assert_eq!(counts(&verify(&tree.path(), &[])), [4, 0, 0, 0, 0, 0]);
    tree.put("x.md5", b"");
    assert_eq!(counts(&verify(&tree.path(), &[])), [3, 1, 0, 0, 0, 0], "what is listed is verified");
}

#[test]
fn an_interruption_makes_no_list() {
    let tree = Tree::new();
    let given =
        VerifyGiven { trees: vec![open(&tree.path())], make: vec![HashKind::Md5], ..VerifyGiven::default() };
    let verified = given.run(&mut Heard { ends_after: Some(0), ..Heard::default() }).unwrap();
    assert!(verified.report.interrupted && verified.made.is_empty());
    assert_eq!(fs::read_dir(tree.path()).unwrap().count(), 2);
}

/// A generation of an ASC MHL, with these hashes.
fn generation(number: u32, hashes: &str) -> (String, String) {
    let name = mhl::list_name(number, b"tree", "2024-01-02_030405Z");
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <hashlist version=\"2.0\" xmlns=\"urn:ASC:MHL:v2.0\">\n<creatorinfo>\n\
         <creationdate>2024-01-02T03:04:05+00:00</creationdate><hostname>h</hostname><tool>t</tool>\n\
         </creatorinfo>\n<processinfo><process>in-place</process>\
         <ignore><pattern>.DS_Store</pattern><pattern>ascmhl</pattern></ignore></processinfo>\n\
         <hashes>\n{hashes}</hashes>\n</hashlist>\n"
    );
    (name, text)
}

fn hash(path: &str, bytes: &[u8], action: &str) -> String {
    let (digest, len) = (Digest::of(HashKind::Xxh64, bytes), bytes.len());
    format!("<hash><path size=\"{len}\">{path}</path><xxh64 action=\"{action}\">{digest}</xxh64></hash>\n")
}

/// Writes a history with its chain.
fn write_history(directory: &Path, generations: &[(String, String)]) {
    let folder = directory.join(mhl::FOLDER);
    fs::create_dir_all(&folder).unwrap();
    let mut chain = mhl::Chain::default();
    for ((name, text), number) in generations.iter().zip(1..) {
        fs::write(folder.join(name), text).unwrap();
        let digest = Digest::of(HashKind::C4, text.as_bytes());
        chain.entries.push(mhl::ChainEntry { generation: number, name: name.clone().into_bytes(), digest });
    }
    fs::write(folder.join(mhl::CHAIN_NAME), chain.encode().unwrap()).unwrap();
}

#[test]
fn the_history_of_an_mhl_counts_by_generation_and_its_chain_is_checked() {
    let tree = Tree::new();
    let first =
        hash("a", b"one", "original") + &hash("d/b", b"two", "original") + &hash("d/e/c", b"3", "original");
    // The first was changed and fails, the last was changed on purpose.
    let second = hash("a", b"changed", "failed") + &hash("d/e/c", b"three", "verified");
    write_history(&tree.path(), &[generation(1, &first), generation(2, &second)]);
    tree.put(".DS_Store", b"of a Mac");
    let verified = verify(&tree.path(), &[]);
    assert_eq!(counts(&verified), [3, 0, 0, 0, 0, 0], "{verified:?}");
    // One list is exchanged, and one is taken away.
    let folder = tree.path().join(mhl::FOLDER);
    let (name, text) = generation(2, &hash("a", b"one", "verified"));
    fs::write(folder.join(&name), text).unwrap();
    let verified = verify(&tree.path(), &[]);
    assert_eq!(verified.bad_lines(), 1, "{:?}", verified.lists);
    fs::remove_file(folder.join(name)).unwrap();
    let verified = verify(&tree.path(), &[]);
    assert_eq!(counts(&verified), [2, 1, 0, 0, 0, 1], "{verified:?}");
    assert_eq!(
        verified.report.subjects[0].mismatching[0].difference,
        Difference::Len { expected: 1, found: 5 }
    );
}

#[test]
fn the_history_of_a_directory_below_is_read_and_a_file_that_was_renamed_is_not_missing() {
    let tree = Tree::new();
    let below = generation(1, &(hash("b", b"two", "original") + &hash("e/old", b"three", "original")));
    let renamed =
        hash("e/c", b"three", "verified").replace("</path>", "</path><previousPath>e/old</previousPath>");
    let later = generation(2, &renamed);
    write_history(&tree.path().join("d"), &[below, later.clone()]);
    let c4 = Digest::of(HashKind::C4, later.1.as_bytes());
    let (name, text) = generation(1, &hash("a", b"one", "original"));
    let reference = format!(
        "</hashes>\n<references><hashlistreference><path>d/ascmhl/{}</path><c4>{c4}</c4></hashlistreference>\
         </references>\n",
        later.0
    );
    write_history(&tree.path(), &[(name, text.replace("</hashes>\n", &reference))]);
    let verified = verify(&tree.path(), &[]);
    assert_eq!(counts(&verified), [3, 0, 0, 0, 0, 0], "{verified:?}");
}

/// What is wrong in a tree, by paths from a directory above: of what is in one of its directories.
fn wrong(verified: &Verified, below: &str) -> Vec<(String, &'static str)> {
    let [one] = verified.report.subjects.as_slice() else { panic!("{verified:?}") };
    let shown = |key: &[u8]| format!("{below}{}", String::from_utf8_lossy(key));
    let mut wrong: Vec<(String, &str)> = Vec::new();
    wrong.extend(one.mismatching.iter().map(|one| (shown(&one.key), "mismatch")));
    wrong.extend(one.missing.iter().map(|key| (shown(key), "missing")));
    wrong.extend(one.extra.iter().map(|one| (shown(&one.key), "extra")));
    wrong.sort();
    wrong
}

#[test]
fn a_directory_or_a_file_of_a_listed_tree_is_held_against_the_list_above() {
    let tree = Tree::new();
    let own = list(&tree.files, HashKind::Sha256);
    tree.put("SHA256SUMS", &own);
    let d = tree.path().join("d");
    assert_eq!(counts(&verify(&d, &[])), [2, 0, 0, 0, 0, 0]);
    assert_eq!(counts(&verify(&d.join("e/c"), &[])), [1, 0, 0, 0, 0, 0]);
    std::os::unix::fs::symlink(d.join("e/c"), tree.place.path().join("link")).unwrap();
    assert_eq!(counts(&verify(&tree.place.path().join("link"), &[])), [1, 0, 0, 0, 0, 0]);

    fs::write(d.join("b"), "other").unwrap();
    fs::write(d.join("more"), "more").unwrap();
    fs::remove_file(d.join("e/c")).unwrap();
    fs::write(d.join("e/c2"), "more").unwrap();
    let whole = wrong(&verify(&tree.path(), &[]), "");
    assert_eq!(whole.len(), 4);
    for (part, below) in [(d.clone(), "d/"), (d.join("e"), "d/e/")] {
        let of_part: Vec<_> = whole.iter().filter(|(path, _)| path.starts_with(below)).cloned().collect();
        assert_eq!(wrong(&verify(&part, &[]), below), of_part);
    }
    assert_eq!(counts(&verify(&d.join("b"), &[])), [0, 1, 0, 0, 0, 0]);
    // Of what no list above has, nothing is known.
    fs::create_dir(tree.path().join("new")).unwrap();
    for unknown in ["new", "d/more"] {
        assert!(matches!(try_verify(&tree.path().join(unknown), &[]), Err(Error::NoList(_))), "{unknown}");
    }
    // A list that were made of a part would hide what the list above knows of it.
    let given = VerifyGiven { trees: vec![open(&d)], make: vec![HashKind::Md5], ..VerifyGiven::default() };
    assert!(matches!(given.run(&mut ()), Err(Error::ListedAbove { .. })));
    // A list of its own is nearer.
    fs::write(d.join("MD5SUMS"), list(&files(&[("more", b"more"), ("e/c2", b"more")]), HashKind::Md5))
        .unwrap();
    assert_eq!(counts(&verify(&d, &[])), [2, 0, 0, 0, 1, 0]);
}

#[test]
fn a_part_of_a_tree_is_proven_by_the_proofs_above_and_ignores_what_the_history_does() {
    let tree = Tree::new();
    let film = vec![9; 2_500_000];
    fs::write(tree.path().join("d/film"), &film).unwrap();
    let given = VerifyGiven {
        trees: vec![open(&tree.path())],
        mhl: Some(vec![HashKind::C4]),
        proofs: true,
        ..VerifyGiven::default()
    };
    assert_eq!(given.run(&mut ()).unwrap().failures.len(), 0);
    fs::write(tree.path().join("d/.DS_Store"), "view").unwrap();
    let found = verify(&tree.path().join("d"), &[]);
    assert_eq!((found.wrong(false), found.report.subjects[0].matching), (0, 3), "{found:?}");
    let mut damaged = film;
    damaged[1_048_576] = 8;
    fs::write(tree.path().join("d/film"), &damaged).unwrap();
    for part in ["d", "d/film"] {
        let found = verify(&tree.path().join(part), &[]);
        let bad = found.report.subjects[0].mismatching[0].bad.clone().unwrap();
        assert_eq!((bad.bad, bad.blocks), (1, 3), "{part}");
        assert_eq!(found.wrong(false), 1);
    }
}

#[test]
fn a_list_that_cannot_be_opened_costs_only_itself_and_no_pipe_is_waited_for() {
    let tree = Tree::new();
    let own = list(&tree.files, HashKind::Sha256);
    tree.put("SHA256SUMS", &own);
    fs::create_dir(tree.path().join("ascmhl")).unwrap();
    fs::write(tree.path().join("ascmhl/ascmhl_chain.xml"), "no chain").unwrap();
    let found = verify(&tree.path(), &[]);
    assert_eq!((found.report.subjects[0].matching, found.bad_lines()), (3, 1), "{found:?}");
    let fifo = tree.place.path().join("x.sha256");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for list in [fifo.as_path(), Path::new("/dev/zero")] {
        let refused = try_verify(&tree.path(), &[list]).unwrap_err().to_string();
        assert!(refused.contains("where a regular file was expected"), "{refused}");
    }
}

#[test]
fn a_tree_or_a_list_that_cannot_be_opened_costs_only_itself_unless_none_can() {
    let tree = Tree::new();
    tree.put("SHA256SUMS", &list(&tree.files, HashKind::Sha256));
    let bare = tree.place.path().join("bare");
    write(&tree.files, &bare);
    let paths = [tree.place.path().join("nothing"), tree.path(), bare.clone()];
    let opened = |paths: &[PathBuf]| {
        let open = |path: &PathBuf| OpenGiven::default().open(path, &mut |_| true);
        open_each(paths, open, |_| false, |error| stook::error::chain(error))
    };
    let (trees, unopened) = opened(&paths).unwrap();
    let found = VerifyGiven { trees, unopened, ..VerifyGiven::default() }.run(&mut ()).unwrap();
    assert_eq!((found.report.subjects.len(), found.report.subjects[0].matching), (1, 3));
    assert_eq!(found.lists[0].subject, 0);
    let said: Vec<_> = found.failures.iter().map(|one| stook::error::chain(&one.error)).collect();
    assert!(said.len() == 2 && said[0].contains("nothing: cannot open"), "{said:?}");
    assert!(said[1].contains("bare has no list of checksums"), "{said:?}");
    assert_eq!(found.wrong(false), 2);
    assert!(opened(&paths[..1]).is_err());
    assert!(matches!(try_verify(&bare, &[]), Err(Error::NoList(_))));
    let lists = [tree.place.path().join("no.sha256"), tree.path().join("SHA256SUMS")];
    let found = try_verify(&tree.path(), &[&lists[0], &lists[1]]).unwrap();
    assert_eq!((found.report.subjects[0].matching, found.failures.len()), (3, 1), "{found:?}");
    let found = VerifyGiven { lists: lists.to_vec(), ..VerifyGiven::default() }.run(&mut ()).unwrap();
    assert_eq!((found.report.subjects[0].matching, found.failures.len()), (3, 1), "{found:?}");
    assert!(try_verify(&tree.path(), &[&lists[0]]).is_err());
}

#[test]
fn a_line_without_end_is_left_when_that_is_wanted() {
    let tree = Tree::new();
    fs::File::create(tree.path().join("x.sha256")).unwrap().set_len(1 << 40).unwrap();
    struct Ends(u32);
    impl stook::verify::VerifyEvents for Ends {
        fn go_on(&mut self, _: &stook::verify::Progress) -> bool {
            self.0 += 1;
            self.0 < 10
        }
    }
    let given = VerifyGiven { trees: vec![open(&tree.path())], ..VerifyGiven::default() };
    assert!(given.run(&mut Ends(0)).unwrap().report.interrupted);
}
