//! Lists of checksums beside a copy: complete for all that has its name, whatever happens, and
//! accepted by the programs that they are for.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use stook::copy::{Copy, CopyOptions, CopyReport, CopySource, Destination, Durability, HashKind};
use stook::engine::Backend;
use stook::format::list_date;
use stook::format::mhl::{Chain, MhlAction, MhlItem, MhlReader};
use stook::format::sums::{SumsReader, is_own_list_name, kind_of_name, list_name};
use stook::hash::Digest;
use stook::ops::copy::{CopyGiven, OpenGiven};
use stook::tree::Overwrite;
use stook::tree::outbox::{Calls, System};
use stook_testing::fault::{FaultCalls, OutFault};
#[cfg(target_os = "linux")]
use stook_testing::sim::{ExploreOptions, SimCalls};

use super::{copy_with, state_of};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("from");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(tree.join("empty")).unwrap();
        for (path, len) in [("a/1", 5), ("a/b/3", 0), ("a/b/4", 70_000), ("5", 9), ("a/large", 700_000)] {
            fs::write(tree.join(path), vec![b'n'; len]).unwrap();
        }
        Self(directory)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn copy(&self, to: &str, options: CopyOptions) -> CopyReport {
        copy_with(&self.at("from"), &[&self.at(to)], options)
    }

    fn lists(&self, to: &str) -> Vec<PathBuf> {
        lists_in(&self.at(to))
    }
}

fn lists_in(dir: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_list = |path: &PathBuf| is_own_list_name(path.file_name().unwrap().as_bytes());
    let mut lists: Vec<PathBuf> = names.filter(is_list).collect();
    lists.sort();
    lists
}

fn with_lists(kinds: &[HashKind]) -> CopyOptions {
    CopyOptions { lists: kinds.to_vec(), ..CopyOptions::default() }
}

pub(super) fn with_mhl(kinds: &[HashKind]) -> CopyOptions {
    CopyOptions { mhl: Some(kinds.to_vec()), ..CopyOptions::default() }
}

/// What lists say, by path.
fn said(lists: &[PathBuf]) -> BTreeMap<Vec<u8>, Vec<Digest>> {
    let mut said = BTreeMap::new();
    for list in lists {
        let kind = kind_of_name(list.file_name().unwrap().as_bytes());
        let bytes = fs::read(list).unwrap();
        let mut reader = SumsReader::new(&bytes[..], kind);
        while let Some(line) = reader.next_line().unwrap() {
            let line = line.unwrap_or_else(|bad| panic!("{}: {bad}", list.display()));
            said.entry(line.path).or_insert_with(Vec::new).extend(line.digests);
        }
    }
    said
}

/// Every file of a directory, the lists left out, has these hashes in the lists, and nothing else
/// is in them.
#[track_caller]
fn assert_listed(dir: &Path, kinds: &[HashKind]) {
    let said = said(&lists_in(dir));
    let mut expected = BTreeMap::new();
    for (key, known) in state_of(dir) {
        let is_file = known.0 & 0o170_000 == 0o100_000;
        if is_file && !is_own_list_name(&key) {
            expected.insert(key, kinds.iter().map(|kind| Digest::of(*kind, &known.5)).collect());
        }
    }
    assert_eq!(said, expected);
}

/// Whether a program ends with 0 in a directory, and what it says.
pub(super) fn accepts(program: &Path, args: &[&str], dir: &Path) -> (bool, String) {
    let output = Command::new(program).args(args).current_dir(dir).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program:?}: {error}: run scripts/need lists"));
    let text = [&output.stdout[..], &output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn each_destination_has_a_list_of_each_function_that_its_program_accepts() {
    let place = Place::new();
    fs::hard_link(place.at("from/a/1"), place.at("from/z")).unwrap();
    fs::write(place.at("from/\u{e4} b"), "pictures").unwrap();
    let kinds = [HashKind::Xxh3, HashKind::Blake3, HashKind::Sha256];
    let to = [place.at("one"), place.at("two")];
    let report = copy_with(&place.at("from"), &[&to[0], &to[1]], with_lists(&kinds));
    assert_eq!(report.undone(), 0, "{report:?}");
    for (dir, one) in to.iter().zip(&report.destinations) {
        assert_eq!((one.lists.len(), one.unlisted), (3, 0), "{one:?}");
        assert_listed(dir, &[HashKind::Blake3, HashKind::Sha256, HashKind::Xxh3]);
        for list in lists_in(dir) {
            let name = list.file_name().unwrap().to_str().unwrap();
            let (program, args) = match name.rsplit_once('.').unwrap().1 {
                "sha256" => ("sha256sum", vec!["-c", "--strict", name]),
                "blake3" => ("b3sum", vec!["-c", name]),
                _ => ("xxhsum", vec!["-c", "--strict", name]),
            };
            let (is_accepted, said) = accepts(Path::new(program), &args, dir);
            assert!(is_accepted, "{program} {name}: {said}");
        }
    }
}

#[test]
fn what_was_there_is_in_a_new_list_only_if_its_bytes_are_read() {
    let place = Place::new();
    let first = place.copy("to", CopyOptions::default());
    assert_eq!((first.destinations[0].lists.len(), first.destinations[0].unlisted), (0, 0));
    fs::write(place.at("from/new"), "new").unwrap();
    let second = place.copy("to", with_lists(&[HashKind::Sha256]));
    let one = &second.destinations[0];
    assert_eq!((second.undone(), one.files, one.unchanged, one.unlisted), (0, 1, 5, 5), "{second:?}");
    assert_eq!(said(&place.lists("to")).into_keys().collect::<Vec<_>>(), [b"new".to_vec()]);
    let options = CopyOptions { checksum: true, ..with_lists(&[HashKind::Sha256]) };
    let third = place.copy("to", options);
    assert_eq!((third.undone(), third.destinations[0].unlisted), (0, 0), "{third:?}");
    let new = &third.destinations[0].lists;
    let last = said(&[place.at("to").join(OsStr::from_bytes(&new[0]))]);
    assert_eq!(last.len(), 6, "{last:?}");
}

#[test]
fn a_copy_that_writes_nothing_leaves_no_list_and_lists_are_never_extra() {
    let place = Place::new();
    let options = with_lists(&[HashKind::Md5, HashKind::C4]);
    assert_eq!(place.copy("to", options.clone()).undone(), 0);
    let lists = place.lists("to");
    assert_eq!(lists.len(), 2);
    fs::write(place.at("to/extra"), "").unwrap();
    fs::write(place.at("to/a").join(lists[0].file_name().unwrap()), "not at the top").unwrap();
    let mirror = CopyOptions { mirror: true, ..options };
    let again = place.copy("to", mirror);
    assert_eq!((again.undone(), again.destinations[0].deleted.len()), (0, 2), "{again:?}");
    assert_eq!(place.lists("to"), lists, "they stay, and no new ones came");
    let dry = CopyOptions { dry_run: true, ..with_lists(&[HashKind::Md5]) };
    place.copy("dry", dry);
    assert!(!place.at("dry").exists());
}

#[test]
fn a_second_copy_of_the_same_second_has_a_list_of_its_own() {
    let place = Place::new();
    let count = 4;
    for number in 0..count {
        fs::write(place.at("from").join(format!("more {number}")), "more").unwrap();
        assert_eq!(place.copy("to", with_lists(&[HashKind::Xxh64])).undone(), 0);
    }
    assert_eq!(place.lists("to").len(), count);
    assert_listed(&place.at("to"), &[HashKind::Xxh64]);
}

#[test]
fn hard_links_that_are_there_already_are_listed_with_the_file_whose_bytes_are_read() {
    let place = Place::new();
    fs::hard_link(place.at("from/a/large"), place.at("from/a/b/other name")).unwrap();
    assert_eq!(place.copy("to", CopyOptions::default()).undone(), 0);
    let options = CopyOptions { checksum: true, ..with_lists(&[HashKind::Xxh3]) };
    let report = place.copy("to", options);
    let one = &report.destinations[0];
    assert_eq!((report.undone(), one.unlisted, one.unchanged), (0, 0, 6), "{report:?}");
    assert_listed(&place.at("to"), &[HashKind::Xxh3]);
}

#[test]
fn a_new_hard_link_to_what_was_there_is_listed() {
    let place = Place::new();
    assert_eq!(place.copy("to", with_lists(&[HashKind::Xxh3])).undone(), 0);
    // As after a run that was killed before it made the link.
    fs::hard_link(place.at("from/a/large"), place.at("from/a/b/other name")).unwrap();
    let report = place.copy("to", with_lists(&[HashKind::Xxh3]));
    let one = &report.destinations[0];
    assert_eq!((report.undone(), one.hard_links), (0, 1), "{report:?}");
    assert_listed(&place.at("to"), &[HashKind::Xxh3]);
}

#[test]
fn a_list_of_the_same_second_that_is_copied_keeps_its_name() {
    let place = Place::new();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as i64;
    let dates = (0..60).map(|second| list_date(now + second * 1_000_000_000).unwrap());
    let names: Vec<String> = dates.map(|date| list_name(HashKind::Md5, &date, 1)).collect();
    for name in &names {
        fs::write(place.at("from").join(name), "a list").unwrap();
    }
    let report = place.copy("to", with_lists(&[HashKind::Md5]));
    assert_eq!(report.undone(), 0, "{report:?}");
    let own = String::from_utf8(report.destinations[0].lists[0].clone()).unwrap();
    assert!(own.ends_with("Z-2.md5"), "{own}");
    assert!(names.iter().all(|name| fs::read(place.at("to").join(name)).unwrap() == b"a list"));
}

#[test]
fn unchanged_files_that_become_links_of_an_earlier_copy_are_listed_if_they_were_compared() {
    let place = Place::new();
    assert_eq!(place.copy("first", CopyOptions::default()).undone(), 0);
    let link_dest = Some(place.at("first"));
    for (to, checksum, unlisted) in [("plain", false, 5), ("compared", true, 0)] {
        let options = CopyOptions { link_dest: link_dest.clone(), checksum, ..with_lists(&[HashKind::Sha1]) };
        let report = place.copy(to, options);
        let one = &report.destinations[0];
        assert_eq!((report.undone(), one.linked, one.unlisted), (0, 5, unlisted), "{report:?}");
        if checksum {
            assert_listed(&place.at(to), &[HashKind::Sha1]);
        }
    }
}

#[test]
fn what_is_in_an_archive_is_listed_as_files_are() {
    let place = Place::new();
    let (tar, from) = (place.at("x.tar"), place.at("from"));
    let args = ["-cf", tar.to_str().unwrap(), "-C", from.to_str().unwrap(), "."];
    assert!(accepts(Path::new("tar"), &args, place.0.path()).0);
    let source = OpenGiven::default().open(&place.at("x.tar//"), &mut |_| true).unwrap();
    let options = with_lists(&[HashKind::Blake3]);
    let given =
        CopyGiven { sources: vec![source], destinations: vec![place.at("to")], options, read_back: false };
    assert_eq!(given.run(&mut ()).unwrap().undone(), 0);
    assert_listed(&place.at("to"), &[HashKind::Blake3]);
}

/// Calls that look into the lists when a file gets its name, and note when lists are synced.
#[derive(Debug)]
struct Watched {
    to: PathBuf,
    /// How long each list was when it was synced last, by its inode.
    synced: Mutex<BTreeMap<u64, u64>>,
    unlisted: Mutex<Vec<String>>,
    named: Mutex<usize>,
}

impl Watched {
    fn naming(&self, name: &OsStr) {
        // A list gets its name with the lines of the first files, which do not have theirs yet.
        if name.as_bytes().starts_with(b".stook-") || is_own_list_name(name.as_bytes()) {
            return;
        }
        *self.named.lock().unwrap() += 1;
        // What others have added since is not durable yet.
        let is_listed = |list: &PathBuf| {
            let synced = self.synced.lock().unwrap().get(&list.metadata().unwrap().ino()).copied();
            let bytes = fs::read(list).unwrap();
            let durable = &bytes[..synced.unwrap_or(0) as usize];
            durable.split(|byte| *byte == b'\n').any(|line| {
                let mut words = line.split(|byte| matches!(byte, b' ' | b'/' | b'(' | b')'));
                words.any(|word| word == name.as_bytes())
            })
        };
        let lists = lists_in(&self.to);
        if lists.len() != 2 || !lists.iter().all(is_listed) {
            self.unlisted.lock().unwrap().push(format!("{name:?} in {lists:?}"));
        }
    }
}

impl Calls for Watched {
    fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        System.sync(file)?;
        let status = rustix::fs::fstat(file)?;
        self.synced.lock().unwrap().insert(status.st_ino, status.st_size as u64);
        Ok(())
    }

    fn rename(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.naming(to);
        System.rename(parent, from, to)
    }

    fn rename_new(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.naming(to);
        System.rename_new(parent, from, to)
    }

    fn link_unnamed(&self, file: &File, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        self.naming(name);
        System.link_unnamed(file, parent, name)
    }
}

#[test]
fn a_file_has_its_name_only_after_it_is_in_every_list_and_these_are_on_the_medium() {
    let place = Place::new();
    for durability in [Durability::Batch, Durability::File] {
        let to = place.at(&format!("{durability:?}"));
        let calls = Arc::new(Watched {
            to: to.clone(),
            synced: Mutex::default(),
            unlisted: Mutex::default(),
            named: Mutex::default(),
        });
        let destination = Destination { calls: calls.clone(), ..Destination::new(&to) };
        let options = CopyOptions { durability, ..with_lists(&[HashKind::Sha256, HashKind::Xxh3]) };
        let copy = Copy::new(vec![CopySource::directory(place.at("from")).unwrap()], vec![destination]);
        assert_eq!(copy.with_options(options).run(&mut ()).unwrap().undone(), 0);
        assert_eq!(*calls.unlisted.lock().unwrap(), [""; 0], "{durability:?}");
        assert_eq!(*calls.named.lock().unwrap(), 5);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn after_power_fails_every_file_that_has_its_name_is_in_the_list() {
    let place = Place::new();
    fs::remove_file(place.at("from/a/large")).unwrap();
    fs::create_dir(place.at("to")).unwrap();
    for durability in [Durability::Batch, Durability::File] {
        fs::remove_dir_all(place.at("to")).unwrap();
        fs::create_dir(place.at("to")).unwrap();
        let calls = Arc::new(SimCalls::new(&place.at("to")).unwrap());
        let destination = Destination { calls: calls.clone(), ..Destination::new(place.at("to")) };
        let options = CopyOptions { durability, jobs: Some(1), ..with_lists(&[HashKind::Sha256]) };
        let copy = Copy::new(vec![CopySource::directory(place.at("from")).unwrap()], vec![destination]);
        assert_eq!(copy.with_options(options).run(&mut ()).unwrap().undone(), 0);
        let storage = calls.storage();
        let count = storage.operation_count();
        let mut seen = 0;
        for at in 0..=count {
            for state in storage.crash_states(at, &ExploreOptions::default()) {
                let found = SimCalls::reachable(&state.files());
                let list = found.iter().find(|(name, _)| is_own_list_name(name.as_bytes()));
                assert!(list.is_none_or(|(_, bytes)| !bytes.is_empty()), "{durability:?} {at}: it is empty");
                let list =
                    list.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
                for (name, bytes) in &found {
                    if name.contains(".stook-") || is_own_list_name(name.as_bytes()) {
                        continue;
                    }
                    let line = format!("{}  {name}\n", Digest::of(HashKind::Sha256, bytes));
                    assert!(
                        list.contains(&line),
                        "{durability:?} {at} of {count}: {name} is not in {list:?}"
                    );
                    seen += 1;
                }
            }
        }
        assert!(seen > 0, "no state had a file");
    }
}

#[test]
fn a_list_that_cannot_be_written_is_a_failure_and_costs_no_file() {
    let place = Place::new();
    let plain = Arc::new(Backend::Auto);
    let mut failures = 0;
    for nth in 0..60 {
        let to = place.at("to");
        let _ = fs::remove_dir_all(&to);
        fs::create_dir(&to).unwrap();
        let calls = Arc::new(FaultCalls::nth(nth, OutFault::Fails(5)));
        let destination = Destination { path: to.clone(), calls: calls.clone(), factory: plain.clone() };
        let options = CopyOptions { jobs: Some(1), ..with_lists(&[HashKind::Sha256]) };
        let copy = Copy::new(vec![CopySource::directory(place.at("from")).unwrap()], vec![destination]);
        let Ok(report) = copy.with_options(options).run(&mut ()) else { continue };
        if calls.met().is_none() {
            break;
        }
        let one = &report.destinations[0];
        let of_list = one.failures.iter().filter(|failure| is_own_list_name(&failure.key)).count();
        failures += of_list;
        if of_list > 0 {
            assert_eq!((report.undone(), one.files), (1, 5), "{nth}: {report:?}");
            assert!(one.stopped.is_none());
            // What is in it is true, and no line is cut.
            for (path, digests) in said(&place.lists("to")) {
                let bytes = fs::read(to.join(OsStr::from_bytes(&path))).unwrap();
                assert_eq!(digests, [Digest::of(HashKind::Sha256, &bytes)]);
            }
        } else if report.undone() == 0 {
            assert_listed(&to, &[HashKind::Sha256]);
        }
    }
    assert!(failures >= 3, "it could not be made, written or synced: {failures}");
}

pub(super) fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/ascmhl/bin").join(name)
}

#[track_caller]
pub(super) fn assert_reference_accepts(dir: &Path) {
    let at = dir.to_str().unwrap();
    for (name, args) in [("ascmhl-debug", vec!["verify", at]), ("ascmhl", vec!["diff", at])] {
        let (is_accepted, said) = accepts(&reference(name), &args, dir);
        assert!(is_accepted, "{name} {args:?}: {said}");
    }
}

/// The chain of a directory, and what each of its lists says.
pub(super) fn history(dir: &Path) -> (Chain, Vec<Vec<MhlItem>>) {
    let folder = dir.join("ascmhl");
    let chain = Chain::decode(&fs::read(folder.join("ascmhl_chain.xml")).unwrap()[..]).unwrap();
    let list = |name: &Vec<u8>| {
        let bytes = fs::read(folder.join(OsStr::from_bytes(name))).unwrap();
        let mut reader = MhlReader::new(&bytes[..]);
        let mut items = Vec::new();
        while let Some(item) = reader.next_item().unwrap() {
            items.push(item.unwrap());
        }
        items
    };
    let lists = chain.entries.iter().map(|entry| list(&entry.name)).collect();
    (chain, lists)
}

/// What a list found out about each file.
pub(super) fn actions(items: &[MhlItem]) -> BTreeMap<String, Vec<Option<MhlAction>>> {
    let of = |item: &MhlItem| match item {
        MhlItem::File(file) => {
            let actions = file.digests.iter().map(|digest| digest.action).collect();
            Some((String::from_utf8_lossy(&file.path).into_owned(), actions))
        }
        _ => None,
    };
    items.iter().filter_map(of).collect()
}

fn has_folders(items: &[MhlItem]) -> bool {
    items.iter().any(|item| matches!(item, MhlItem::Root(_)))
}

#[test]
fn the_reference_implementation_accepts_a_copy_with_its_list_and_directory_hashes() {
    let place = Place::new();
    fs::write(place.at("from/a/b-c"), "sorts between `a/b` and what is in it").unwrap();
    fs::create_dir_all(place.at("from/a/b/deep/er")).unwrap();
    let options =
        CopyOptions { lists: vec![HashKind::Sha256], ..with_mhl(&[HashKind::Xxh128, HashKind::C4]) };
    let report = place.copy("to", options);
    assert_eq!((report.undone(), report.destinations[0].lists.len()), (0, 2), "{report:?}");
    assert_reference_accepts(&place.at("to"));
    let at = place.at("to");
    let (is_accepted, said) =
        accepts(&reference("ascmhl-debug"), &["verify", "-dh", at.to_str().unwrap()], &at);
    assert!(is_accepted && !said.contains("ERROR"), "{said}");
    let schema = reference("../xsd/ASCMHL.xsd");
    let list = at.join(OsStr::from_bytes(report.destinations[0].lists.last().unwrap()));
    let args = ["xsd-schema-check", "-xsd", schema.to_str().unwrap(), list.to_str().unwrap()];
    let (is_accepted, said) = accepts(&reference("ascmhl-debug"), &args, &at);
    assert!(is_accepted, "{said}");
    let (_, lists) = history(&at);
    assert!(has_folders(&lists[0]));
    let originals = actions(&lists[0]).into_values().all(|all| all == [Some(MhlAction::Original); 2]);
    assert!(originals && actions(&lists[0]).len() == 6, "{:?}", actions(&lists[0]));
}

#[test]
fn a_second_copy_continues_the_history_and_what_has_another_hash_is_a_failure() {
    let place = Place::new();
    let options = with_mhl(&[HashKind::Md5]);
    assert_eq!(place.copy("to", options.clone()).undone(), 0);
    fs::write(place.at("from/new"), "new").unwrap();
    let second = place.copy("to", options.clone());
    assert_eq!((second.undone(), second.destinations[0].unlisted), (0, 5), "{second:?}");
    assert_reference_accepts(&place.at("to"));
    let (chain, lists) = history(&place.at("to"));
    assert_eq!((chain.entries.len(), chain.next_generation()), (2, 3));
    assert_eq!(actions(&lists[1]), BTreeMap::from([("new".to_owned(), vec![Some(MhlAction::Original)])]));
    assert!(!has_folders(&lists[1]), "it does not say all that is there");

    fs::write(place.at("from/5"), "others").unwrap();
    let replacing = CopyOptions { overwrite: Overwrite::Different, checksum: true, ..options };
    let third = place.copy("to", replacing);
    assert_eq!(third.undone(), 1, "{third:?}");
    assert_eq!(third.destinations[0].failures[0].key, b"5");
    let (chain, lists) = history(&place.at("to"));
    assert_eq!(chain.entries.len(), 3);
    let found = actions(&lists[2]);
    assert_eq!(
        (found.len(), &found["5"][..], &found["new"][..]),
        (6, &[Some(MhlAction::Failed)][..], &[Some(MhlAction::Verified)][..])
    );
}

#[test]
fn a_card_that_was_sealed_is_copied_with_its_history_and_copied_again() {
    let place = Place::new();
    let from = place.at("from");
    let (is_made, said) = accepts(&reference("ascmhl"), &["create", "-hmd5", from.to_str().unwrap()], &from);
    assert!(is_made, "{said}");
    let options =
        CopyOptions { lists: vec![HashKind::Sha256], ..with_mhl(&[HashKind::Md5, HashKind::Xxh64]) };
    let report = place.copy("to", options.clone());
    assert_eq!(report.undone(), 0, "{report:?}");
    assert_reference_accepts(&place.at("to"));
    let (chain, lists) = history(&place.at("to"));
    assert_eq!(chain.entries.len(), 2);
    let found = actions(&lists[1]);
    assert!(
        found.values().all(|all| *all == [Some(MhlAction::Verified); 2]) && found.len() == 5,
        "{found:?}"
    );
    let list = place.lists("to")[0].clone();
    let name = list.file_name().unwrap().to_str().unwrap();
    let (is_accepted, said) = accepts(Path::new("sha256sum"), &["-c", "--strict", name], &place.at("to"));
    assert!(is_accepted, "the chain is not in it: {said}");

    let before = state_of(&place.at("to"));
    for overwrite in [Overwrite::Never, Overwrite::Different] {
        let again = place.copy("to", CopyOptions { overwrite, mirror: true, ..options.clone() });
        assert_eq!((again.undone(), again.destinations[0].files), (0, 0), "{again:?}");
        assert_eq!(state_of(&place.at("to")), before, "nothing was changed");
    }
}

#[test]
fn a_history_that_was_changed_is_not_continued() {
    let place = Place::new();
    let options = with_mhl(&[HashKind::Xxh3]);
    assert_eq!(place.copy("to", options.clone()).undone(), 0);
    fs::write(place.at("from/second"), "second").unwrap();
    assert_eq!(place.copy("to", options.clone()).undone(), 0);
    let folder = place.at("to/ascmhl");
    let (chain, _) = history(&place.at("to"));
    let list = folder.join(OsStr::from_bytes(&chain.entries[0].name));
    let whole = fs::read(&list).unwrap();
    let chain_bytes = fs::read(folder.join("ascmhl_chain.xml")).unwrap();
    for damage in 0..4 {
        match damage {
            0 => fs::write(&list, [&whole[..], b" "].concat()).unwrap(),
            1 => fs::remove_file(&list).unwrap(),
            2 => fs::write(folder.join("ascmhl_chain.xml"), &chain_bytes[..chain_bytes.len() / 2]).unwrap(),
            _ => fs::remove_file(folder.join("ascmhl_chain.xml")).unwrap(),
        }
        fs::write(place.at("from").join(format!("new {damage}")), "new").unwrap();
        let report = place.copy("to", options.clone());
        assert_eq!((report.undone(), report.destinations[0].files), (1, 1), "{damage}: {report:?}");
        assert!(report.destinations[0].lists.is_empty());
        fs::write(&list, &whole).unwrap();
        fs::write(folder.join("ascmhl_chain.xml"), &chain_bytes).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "{damage}");
    }
}

#[test]
fn whatever_fails_a_history_has_no_list_without_its_chain_and_no_folder_without_a_list() {
    let (place, plain) = (Place::new(), Arc::new(Backend::Auto));
    let mut failures = 0;
    for nth in 0.. {
        let to = place.at("to");
        let _ = fs::remove_dir_all(&to);
        fs::create_dir(&to).unwrap();
        let calls = Arc::new(FaultCalls::nth(nth, OutFault::Fails(28)));
        let destination = Destination { path: to.clone(), calls: calls.clone(), factory: plain.clone() };
        let options = CopyOptions { jobs: Some(1), ..with_mhl(&[HashKind::Xxh128]) };
        let copy = Copy::new(vec![CopySource::directory(place.at("from")).unwrap()], vec![destination]);
        let done = copy.with_options(options.clone()).run(&mut ());
        if done.is_ok() && calls.met().is_none() {
            break;
        }
        let of_history = |report: &CopyReport| {
            let failures = &report.destinations[0].failures;
            failures.iter().filter(|failure| failure.key.starts_with(b"ascmhl")).count()
        };
        failures += done.as_ref().map_or(0, of_history);
        if to.join("ascmhl").exists() {
            let (chain, lists) = history(&to);
            assert_eq!((chain.entries.len(), lists.len()), (1, 1), "{nth}: {done:?}");
            assert_eq!(fs::read_dir(to.join("ascmhl")).unwrap().count(), 2, "{nth}: {done:?}");
        }
        // The next copy continues it.
        assert_eq!(place.copy("to", options).undone(), 0, "{nth}");
    }
    assert!(failures >= 5, "lists and chains that could not be made, written, or named: {failures}");
}

#[test]
fn a_name_that_xml_cannot_hold_is_a_failure_and_the_others_are_listed() {
    let place = Place::new();
    fs::write(place.at("from").join(OsStr::from_bytes(b"\xff")), "bytes").unwrap();
    fs::write(place.at("from/\x01"), "control").unwrap();
    let report = place.copy("to", with_mhl(&[HashKind::Xxh128]));
    let one = &report.destinations[0];
    assert_eq!((report.undone(), one.files, one.lists.len()), (2, 7, 1), "{report:?}");
    let texts: Vec<String> = one.failures.iter().map(|failure| stook::error::chain(&failure.error)).collect();
    assert!(texts.iter().all(|text| text.contains("XML cannot hold")), "{texts:?}");
    let (_, lists) = history(&place.at("to"));
    assert_eq!(actions(&lists[0]).len(), 5);
}

#[test]
fn functions_that_mhl_does_not_allow_are_refused_before_anything_is_made() {
    let place = Place::new();
    for kind in [HashKind::Sha256, HashKind::Blake3] {
        let copy = Copy::new(
            vec![CopySource::directory(place.at("from")).unwrap()],
            vec![Destination::new(place.at("to"))],
        );
        let refused = copy.with_options(with_mhl(&[kind])).run(&mut ()).unwrap_err().to_string();
        assert!(refused.contains("is not allowed in ASC MHL: take c4"), "{refused}");
        assert!(!place.at("to").exists());
    }
}

#[test]
fn links_and_what_was_there_before_leave_directory_hashes_out() {
    let place = Place::new();
    std::os::unix::fs::symlink("5", place.at("from/link")).unwrap();
    assert_eq!(place.copy("linked", with_mhl(&[HashKind::Md5])).undone(), 0);
    assert!(!has_folders(&history(&place.at("linked")).1[0]));
    fs::remove_file(place.at("from/link")).unwrap();
    fs::create_dir(place.at("used")).unwrap();
    fs::write(place.at("used/other"), "").unwrap();
    assert_eq!(place.copy("used", with_mhl(&[HashKind::Md5])).undone(), 0);
    assert!(!has_folders(&history(&place.at("used")).1[0]));
}

#[test]
fn a_file_that_got_only_another_time_is_read_and_listed() {
    let place = Place::new();
    assert_eq!(place.copy("to", CopyOptions::default()).undone(), 0);
    let file = File::options().write(true).open(place.at("from/a/1")).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(1000)).unwrap();
    let options = CopyOptions { overwrite: Overwrite::Different, ..with_lists(&[HashKind::Md5]) };
    let report = place.copy("to", options);
    let one = &report.destinations[0];
    assert_eq!((report.undone(), one.corrected, one.unlisted), (0, 1, 4), "{report:?}");
    assert_eq!(said(&place.lists("to")).into_keys().collect::<Vec<_>>(), [b"a/1".to_vec()]);
}
