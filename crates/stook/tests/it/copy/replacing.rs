//! What another program puts in the way, between the look at a name and the rename.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stook::copy::{Copy, CopyOptions, CopyReport, CopySource, Destination, Durability};
use stook::engine::Backend;
use stook::tree::Overwrite;
use stook::tree::outbox::Calls;
use stook_testing::fault::{AlteredCalls, FaultCalls, FaultEngineFactory, OutFault};
#[cfg(target_os = "linux")]
use stook_testing::sim::{ExploreOptions, SimCalls};
use stook_testing::sweep::{assert_met, each_named_call, stride};

const EIO: i32 = 5;
const EINTR: i32 = 4;

/// When the source was changed; what is there is older.
const NOW_S: u64 = 1_000_000;
const OLD_S: u64 = 900_000;

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

fn write(path: &Path, bytes: &str, seconds: u64) {
    fs::write(path, bytes).unwrap();
    set_time(path, seconds);
}

struct Place(tempfile::TempDir);

impl Place {
    /// A source with a file, and a destination that has an older one.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.at("from")).unwrap();
        write(&place.at("from/file"), "the new bytes", NOW_S);
        place.reset();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn reset(&self) {
        let _ = fs::remove_dir_all(self.at("to"));
        fs::create_dir(self.at("to")).unwrap();
        write(&self.at("to/file"), "old", OLD_S);
    }

    fn copy(&self, options: CopyOptions, calls: Arc<dyn Calls>) -> CopyReport {
        let destination = Destination { calls, ..Destination::new(self.at("to")) };
        let sources = vec![CopySource::directory(self.at("from")).unwrap()];
        Copy::new(sources, vec![destination]).with_options(options).run(&mut ()).unwrap()
    }

    /// What is in the destination: names, and the bytes of files.
    fn found(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(self.at("to")).unwrap() {
            let path = entry.unwrap().path();
            let bytes = if path.is_dir() { "a directory".into() } else { fs::read_to_string(&path).unwrap() };
            found.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), bytes);
        }
        found
    }

    /// Another program that gives the name to a file of its own.
    fn putting(&self, bytes: &'static str, seconds: u64) -> Box<dyn FnOnce() + Send> {
        let (path, own) = (self.at("to/file"), self.at("its own"));
        Box::new(move || {
            write(&own, bytes, seconds);
            fs::rename(&own, &path).unwrap();
        })
    }
}

fn options(overwrite: Overwrite, backup: bool) -> CopyOptions {
    CopyOptions { overwrite, backup: backup.then(|| "~".into()), ..CopyOptions::default() }
}

fn all(names: &[(&str, &str)]) -> BTreeMap<String, String> {
    names.iter().map(|(name, bytes)| ((*name).to_owned(), (*bytes).to_owned())).collect()
}

#[test]
fn what_comes_in_between_stays_unless_the_rule_lets_it_be_replaced_and_then_it_is_what_is_kept() {
    let place = Place::new();
    for has_exchange in [true, false] {
        for (overwrite, backup, seconds, is_replaced) in [
            (Overwrite::Older, false, NOW_S + 1, false),
            (Overwrite::Older, true, NOW_S + 1, false),
            (Overwrite::Older, false, NOW_S, false),
            (Overwrite::Older, false, NOW_S - 1, true),
            (Overwrite::Older, true, NOW_S - 1, true),
            (Overwrite::Different, true, NOW_S + 1, true),
            (Overwrite::Always, true, NOW_S + 1, true),
            (Overwrite::Always, false, NOW_S + 1, true),
        ] {
            place.reset();
            let calls = AlteredCalls::new().before_naming("file", [place.putting("theirs", seconds)]);
            let calls = if has_exchange { calls } else { calls.without_exchange() };
            let report = place.copy(options(overwrite, backup), Arc::new(calls));
            let case = format!("{overwrite:?} backup {backup} at {seconds} exchange {has_exchange}");
            let mut expected = all(&[("file", if is_replaced { "the new bytes" } else { "theirs" })]);
            if backup && is_replaced {
                expected.insert("file~".into(), "theirs".into());
            }
            assert_eq!(place.found(), expected, "{case}");
            let one = &report.destinations[0];
            assert_eq!(
                (one.files, one.kept.len()),
                (u64::from(is_replaced), usize::from(!is_replaced)),
                "{case}"
            );
            assert!(report.undone() == u64::from(!is_replaced), "{case}: {report:?}");
        }
    }
}

#[test]
fn a_directory_that_comes_in_between_stays_and_what_goes_in_between_is_not_missed() {
    let place = Place::new();
    for has_exchange in [true, false] {
        for (overwrite, backup) in
            [(Overwrite::Older, false), (Overwrite::Older, true), (Overwrite::Always, true)]
        {
            let calls = |deed| {
                let calls = AlteredCalls::new().before_naming("file", [deed]);
                Arc::new(if has_exchange { calls } else { calls.without_exchange() })
            };
            let case = format!("{overwrite:?} backup {backup} exchange {has_exchange}");
            place.reset();
            let path = place.at("to/file");
            let deed: Box<dyn FnOnce() + Send> = Box::new(move || {
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
            });
            let report = place.copy(options(overwrite, backup), calls(deed));
            assert_eq!(place.found(), all(&[("file", "a directory")]), "{case}");
            assert_eq!((report.undone(), report.destinations[0].failures.len()), (1, 1), "{case}");
            place.reset();
            let path = place.at("to/file");
            let report = place
                .copy(options(overwrite, backup), calls(Box::new(move || fs::remove_file(&path).unwrap())));
            assert_eq!(place.found(), all(&[("file", "the new bytes")]), "{case}");
            assert_eq!(report.undone(), 0, "{case}: {report:?}");
        }
    }
}

/// Two copies at once. Before: the backup of the second took the place of that of the first.
#[test]
fn what_another_run_kept_meanwhile_is_not_replaced_by_what_it_put_in_its_place() {
    for has_exchange in [true, false] {
        for (theirs, expected) in [
            // The same copy: nothing more is to be kept.
            ("the new bytes", &[("file", "the new bytes"), ("file~", "old")][..]),
            ("theirs", &[("file", "the new bytes"), ("file~", "old"), ("file~~", "theirs")]),
        ] {
            let place = Place::new();
            let (path, kept) = (place.at("to/file"), place.at("to/file~"));
            let put = place.putting(theirs, NOW_S);
            let deed: Box<dyn FnOnce() + Send> = Box::new(move || {
                fs::rename(&path, &kept).unwrap();
                put();
            });
            let calls = AlteredCalls::new().before_naming("file", [deed]);
            let calls = if has_exchange { calls } else { calls.without_exchange() };
            let report = place.copy(options(Overwrite::Different, true), Arc::new(calls));
            assert_eq!(report.undone(), 0, "{report:?}");
            assert_eq!(place.found(), all(expected), "exchange {has_exchange}");
        }
    }
}

#[test]
fn a_file_that_is_its_own_backup_already_stays_that_and_nothing_is_left_over() {
    let place = Place::new();
    fs::hard_link(place.at("to/file"), place.at("to/file~")).unwrap();
    fs::write(place.at("to/extra"), "extra").unwrap();
    fs::hard_link(place.at("to/extra"), place.at("to/extra~")).unwrap();
    let options = CopyOptions { mirror: true, ..options(Overwrite::Different, true) };
    for has_exchange in [true, false] {
        let calls = AlteredCalls::new();
        let calls = if has_exchange { calls } else { calls.without_exchange() };
        let report = place.copy(options.clone(), Arc::new(calls));
        assert_eq!(report.undone(), 0, "{report:?}");
        let expected = [("extra~", "extra"), ("file", "the new bytes"), ("file~", "old")];
        assert_eq!(place.found(), all(&expected), "exchange {has_exchange}");
        write(&place.at("to/file~"), "old", OLD_S);
        fs::remove_file(place.at("to/file")).unwrap();
        fs::hard_link(place.at("to/file~"), place.at("to/file")).unwrap();
    }
}

/// Two programs: one puts a newer file there, the other replaces what it finds in its place.
#[test]
fn what_cannot_be_put_back_is_named_and_is_not_lost() {
    let place = Place::new();
    let deeds = [place.putting("theirs", NOW_S + 1), place.putting("the newest", NOW_S + 2)];
    let calls = Arc::new(AlteredCalls::new().before_naming("file", deeds));
    let report = place.copy(options(Overwrite::Older, false), calls);
    let found = place.found();
    let (name, _) = found.iter().find(|(_, bytes)| *bytes == "theirs").unwrap();
    assert!(name.starts_with(".stook-") && name.ends_with(".old"), "{found:?}");
    assert_eq!((found.len(), found["file"].as_str()), (2, "the newest"));
    let failure = format!("{:?}", report.destinations[0].failures);
    assert!(failure.contains(name.as_str()), "{failure}");
    // The next run leaves it alone.
    let report = place.copy(options(Overwrite::Always, false), Arc::new(AlteredCalls::new()));
    assert_eq!(report.undone(), 0, "{report:?}");
    assert_eq!(place.found()[name], "theirs");
}

/// With the time of the source another file would be taken for the same from then on.
#[test]
fn what_came_after_the_look_does_not_get_the_time_of_the_source() {
    let place = Place::new();
    let bytes = "n".repeat(2 << 20);
    write(&place.at("from/file"), &bytes, NOW_S);
    for is_replaced in [false, true] {
        write(&place.at("to/file"), &bytes, OLD_S);
        let factory = FaultEngineFactory::new(Backend::Auto);
        if is_replaced {
            // More blocks were handed over by then than can wait: the file to compare is open.
            let other: &'static str = "o".repeat(2 << 20).leak();
            factory.meanwhile(30, place.putting(other, OLD_S));
        }
        let (block_bytes, depth) = (Some(64 << 10), Some(8));
        let options = CopyOptions { block_bytes, depth, ..options(Overwrite::Different, false) };
        let sources = vec![CopySource::directory(place.at("from")).unwrap()];
        let copy = Copy::new(sources, vec![Destination::new(place.at("to"))]).with_options(options);
        let report = Copy { reading: Arc::new(factory), ..copy }.run(&mut ()).unwrap();
        let one = &report.destinations[0];
        assert_eq!((one.failures.len(), one.corrected), if is_replaced { (1, 0) } else { (0, 1) }, "{one:?}");
        let modified = fs::metadata(place.at("to/file")).unwrap().modified().unwrap();
        let expected_s = if is_replaced { OLD_S } else { NOW_S };
        assert_eq!(modified, SystemTime::UNIX_EPOCH + Duration::from_secs(expected_s));
    }
}

const RULES: [(Overwrite, bool, Durability); 4] = [
    (Overwrite::Older, false, Durability::Batch),
    (Overwrite::Older, true, Durability::Batch),
    (Overwrite::Always, true, Durability::File),
    (Overwrite::Older, true, Durability::None),
];

#[test]
fn whichever_call_fails_the_name_has_all_of_something_and_what_was_to_be_kept_is_somewhere() {
    let place = Place::new();
    fs::create_dir(place.at("from/d")).unwrap();
    let mut met = BTreeSet::new();
    for (overwrite, backup, durability) in RULES {
        for fault in [EIO, EINTR] {
            let options = CopyOptions { durability, jobs: Some(1), ..options(overwrite, backup) };
            let run = |calls: Arc<FaultCalls>| {
                place.reset();
                place.copy(options.clone(), calls)
            };
            met.extend(each_named_call(
                1,
                &FaultCalls::NAMES,
                |name, nth| FaultCalls::nth_named(name, nth, OutFault::Fails(fault)),
                run,
                |report, nth, call| {
                    let case = format!("{overwrite:?} {backup} {durability:?} {fault} {nth} {call}");
                    check(&place.found(), backup, &case);
                    let is_new = place.found()["file"] == "the new bytes";
                    assert!(report.undone() > 0 || is_new, "{case}: not reported: {report:?}");
                    let again = place.copy(options.clone(), Arc::new(FaultCalls::none()));
                    assert_eq!(again.undone(), 0, "{case}: {again:?}");
                    assert_eq!(place.found()["file"], "the new bytes", "{case}");
                    check(&place.found(), backup && overwrite == Overwrite::Older, &case);
                },
            ));
        }
    }
    assert_met(&met, ["create", "exchange", "rename", "rename_new", "unlink"]);
}

/// The name has the old bytes or the new ones, and with a backup the old ones are somewhere.
fn check(found: &BTreeMap<String, String>, backup: bool, case: &str) {
    let there = found.get("file").unwrap_or_else(|| panic!("{case}: the name is gone: {found:?}"));
    assert!(["old", "the new bytes"].contains(&there.as_str()), "{case}: {found:?}");
    let mut kept = found.iter().filter(|(name, bytes)| *bytes == "old" && !name.ends_with(".part"));
    assert!(!backup || kept.next().is_some(), "{case}: what was to be kept is lost: {found:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn after_power_fails_the_name_has_all_of_something_and_what_was_to_be_kept_is_somewhere() {
    let place = Place::new();
    for (overwrite, backup, durability) in RULES.into_iter().filter(|rule| rule.2 != Durability::None) {
        place.reset();
        let calls = Arc::new(SimCalls::new(&place.at("to")).unwrap());
        let options = CopyOptions { durability, jobs: Some(1), ..options(overwrite, backup) };
        let report = place.copy(options, calls.clone());
        assert_eq!(report.undone(), 0, "{report:?}");
        let storage = calls.storage();
        let count = storage.operation_count();
        assert!(count > 5, "{count}");
        for at in (0..=count).step_by(stride(1)) {
            for state in storage.crash_states(at, &ExploreOptions::default()) {
                let files = SimCalls::reachable(&state.files());
                let text = |(name, bytes): (String, Vec<u8>)| (name, String::from_utf8(bytes).unwrap());
                let found: BTreeMap<_, _> = files.into_iter().map(text).collect();
                let case = format!("{overwrite:?} {backup} {durability:?} {at} of {count}");
                check(&found, backup, &case);
                assert!(at < count || found["file"] == "the new bytes", "{case}: lost after the end");
            }
        }
    }
}
