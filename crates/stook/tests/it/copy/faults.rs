//! Whatever fails, nothing half-made has a final name, all of it is reported, and a second run
//! completes.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use stook::copy::{
    Copy, CopyEvents, CopyOptions, CopyReport, CopySource, Destination, Durability, HashKind, Progress,
};
use stook::engine::{Backend, EngineFactory};
use stook::tree::Overwrite;
use stook::tree::outbox::Calls;
use stook_testing::fault::{EngineCall, EngineFault, FaultCalls, FaultEngineFactory, OutFault};
#[cfg(target_os = "linux")]
use stook_testing::sim::{ExploreOptions, SimCalls};
use stook_testing::sweep::{assert_met, each_named_call, stride};

use super::{assert_same, state_of};

const EINTR: i32 = 4;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// What temporary names begin with.
const TEMPORARY: &[u8] = b".stook-";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("from");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        for (path, len) in [("a/1", 5), ("a/b/3", 0), ("a/b/4", 700_000), ("5", 9)] {
            fs::write(tree.join(path), vec![b'n'; len]).unwrap();
        }
        symlink("a/1", tree.join("link")).unwrap();
        fs::hard_link(tree.join("a/1"), tree.join("z")).unwrap();
        Self(directory)
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// An empty destination, or one with older files of the same names.
    fn reset(&self, is_old: bool) {
        let _ = fs::remove_dir_all(self.at("to"));
        fs::create_dir(self.at("to")).unwrap();
        for name in ["a/1", "a/b/3", "a/b/4", "5", "link", "z"].iter().filter(|_| is_old) {
            fs::create_dir_all(self.at("to/a/b")).unwrap();
            fs::write(self.at("to").join(name), format!("the old {name}")).unwrap();
        }
    }

    fn copy(
        &self,
        is_old: bool,
        durability: Durability,
        calls: Arc<dyn Calls>,
        writing: Arc<dyn EngineFactory>,
        reading: Arc<dyn EngineFactory>,
    ) -> Result<CopyReport, stook::copy::Error> {
        let overwrite = if is_old { Overwrite::Always } else { Overwrite::Never };
        let options = CopyOptions { overwrite, durability, jobs: Some(1), ..CopyOptions::default() };
        let destination = Destination { path: self.at("to"), calls, factory: writing };
        let sources = vec![CopySource::directory(self.at("from")).unwrap()];
        let copy = Copy { reading, ..Copy::new(sources, vec![destination]) };
        copy.with_options(options).run(&mut ())
    }

    fn copy_plainly(&self, is_old: bool) -> CopyReport {
        let plain: Arc<dyn EngineFactory> = Arc::new(Backend::Auto);
        let calls = Arc::new(FaultCalls::none());
        self.copy(is_old, Durability::Batch, calls, plain.clone(), plain).unwrap()
    }

    /// Each name has all that it should have, or what it had, or is absent.
    fn check_no_half(&self, is_old: bool, case: &str) {
        let (whole, found) = (state_of(&self.at("from")), state_of(&self.at("to")));
        for (key, known) in &found {
            let name = String::from_utf8_lossy(key);
            if key.windows(TEMPORARY.len()).any(|part| part == TEMPORARY) || known.0 & 0o170_000 == 0o040_000
            {
                continue;
            }
            let is_whole = whole.get(key).is_some_and(|wanted| wanted.5 == known.5);
            let is_what_was = is_old && known.5 == format!("the old {name}").as_bytes();
            assert!(is_whole || is_what_was, "{case}: {name} has {} bytes", known.5.len());
        }
        let is_there = |key: &Vec<u8>| found.contains_key(key);
        assert!(!is_old || whole.keys().all(is_there), "{case}: what was there is gone");
    }

    /// A run that met a fault, and the run after it.
    fn check(&self, is_old: bool, done: &Result<CopyReport, stook::copy::Error>, case: &str) {
        self.check_no_half(is_old, case);
        if done.as_ref().is_ok_and(|report| report.undone() == 0) {
            assert_same(&self.at("from"), &self.at("to"));
        }
        let again = self.copy_plainly(is_old);
        assert_eq!(again.undone(), 0, "{case}: run again: {again:?}");
        for entry in fs::read_dir(self.at("to")).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().as_encoded_bytes().starts_with(TEMPORARY) {
                fs::remove_file(path).unwrap();
            }
        }
        let found = state_of(&self.at("to"));
        let names = |key: &&Vec<u8>| !key.windows(TEMPORARY.len()).any(|part| part == TEMPORARY);
        let whole = state_of(&self.at("from"));
        assert_eq!(
            found.keys().filter(names).collect::<Vec<_>>(),
            whole.keys().collect::<Vec<_>>(),
            "{case}"
        );
        for (key, known) in &whole {
            assert!(found[key].5 == known.5, "{case}: {}", key.escape_ascii());
        }
    }
}

#[test]
fn whichever_call_fails_nothing_half_made_has_a_name_and_a_second_run_completes() {
    let (place, plain) = (Place::new(), Arc::new(Backend::Auto));
    let mut met = BTreeSet::new();
    let cases = [
        (OutFault::Fails(EIO), false, true, Durability::Batch),
        (OutFault::Fails(ENOSPC), true, true, Durability::Batch),
        (OutFault::Fails(EINTR), false, false, Durability::File),
        (OutFault::Fails(EIO), true, false, Durability::File),
        (OutFault::Short, false, true, Durability::Batch),
    ];
    let expected = [
        "create",
        "create_unnamed",
        "link",
        "link_unnamed",
        "make_directory",
        "make_symlink",
        "rename",
        "rename_new",
        "set_len",
        "set_link_mtime",
        "set_mode",
        "set_mtime",
        "sync",
        "sync_file_system",
        "unlink",
        "wait_written",
        "write_at",
    ];
    for (fault, is_old, has_unnamed, durability) in cases {
        let calls = |name, nth| {
            let calls = FaultCalls::nth_named(name, nth, fault);
            if has_unnamed { calls } else { calls.without_unnamed() }
        };
        let run = |calls: Arc<FaultCalls>| {
            place.reset(is_old);
            place.copy(is_old, durability, calls, plain.clone(), plain.clone())
        };
        let step = if has_unnamed { 1 } else { 3 };
        met.extend(each_named_call(step, &FaultCalls::NAMES, calls, run, |done, nth, call| {
            place.check(is_old, &done, &format!("{fault:?} {is_old} {nth} {call}"));
        }));
    }
    assert_met(&met, expected);
}

/// A sync that failed says nothing of whose bytes were lost: all of the batch are written anew.
#[test]
fn files_of_a_batch_that_could_not_be_synced_are_written_again_and_synced_one_by_one() {
    let (place, plain) = (Place::new(), Arc::new(Backend::Auto));
    place.reset(false);
    let calls = Arc::new(FaultCalls::nth_named("sync_file_system", 0, OutFault::Fails(EIO)));
    let done = place.copy(false, Durability::Batch, calls.clone(), plain.clone(), plain).unwrap();
    assert_eq!(calls.met(), Some("sync_file_system"), "no batch was synced");
    assert_eq!((done.undone(), done.destinations[0].files), (0, 4), "{done:?}");
    assert!(done.read_files > 4, "they were read again: {done:?}");
    assert_same(&place.at("from"), &place.at("to"));
}

#[test]
fn whichever_operation_of_an_engine_fails_it_costs_only_its_file() {
    let place = Place::new();
    for call in [EngineCall::Read, EngineCall::Write, EngineCall::Allocate] {
        for fault in [EngineFault::Fails, EngineFault::NoSpace, EngineFault::Short] {
            for nth in 0..20 {
                place.reset(false);
                let factory = FaultEngineFactory::new(Backend::Auto);
                factory.fail(Some(call), nth, fault);
                let (calls, engines) = (Arc::new(FaultCalls::none()), Arc::new(factory.clone()));
                let done = place.copy(false, Durability::Batch, calls, engines.clone(), engines).unwrap();
                let is_met = factory.operations().iter().any(|operation| operation.fault.is_some());
                if !is_met {
                    break;
                }
                let case = format!("{call:?} {fault:?} {nth}");
                assert!(done.undone() > 0, "{case}: not reported");
                let full = call != EngineCall::Read && fault != EngineFault::Fails;
                let one = &done.destinations[0];
                assert!(full || one.stopped.is_none(), "{case}: {:?}", one.stopped);
                place.check(false, &Ok(done), &case);
            }
        }
    }
}

#[test]
fn a_full_destination_stops_only_itself() {
    let place = Place::new();
    for (nth, _) in (0..12).zip(0..) {
        let _ = fs::remove_dir_all(place.at("to"));
        let _ = fs::remove_dir_all(place.at("full"));
        fs::create_dir(place.at("full")).unwrap();
        let full = Destination {
            calls: Arc::new(FaultCalls::nth(nth, OutFault::Fails(ENOSPC))),
            ..Destination::new(place.at("full"))
        };
        let sources = vec![CopySource::directory(place.at("from")).unwrap()];
        let options = CopyOptions { hashes: vec![HashKind::Xxh3], ..CopyOptions::default() };
        let copy = Copy::new(sources, vec![full, Destination::new(place.at("to"))]).with_options(options);
        let report = copy.run(&mut ()).unwrap();
        assert_same(&place.at("from"), &place.at("to"));
        let [full, good] = report.destinations.as_slice() else { panic!("{report:?}") };
        assert!(good.failures.is_empty() && good.stopped.is_none(), "{good:?}");
        assert!(!full.failures.is_empty(), "{nth}: {full:?}");
        let missing = format!("; {} of 4 files are missing there", 4 - full.files);
        assert!(full.stopped.as_ref().is_some_and(|why| why.ends_with(&missing)), "{nth}: {full:?}");
    }
}

/// Ends the copy at once.
struct AtOnce;

impl CopyEvents for AtOnce {
    fn go_on(&mut self, progress: &Progress) -> bool {
        progress.total_files.is_none()
    }
}

#[test]
fn an_interrupted_copy_leaves_whole_files_and_is_finished_by_the_next() {
    let place = Place::new();
    place.reset(false);
    let run = |events: &mut dyn CopyEvents| {
        let sources = vec![CopySource::directory(place.at("from")).unwrap()];
        Copy::new(sources, vec![Destination::new(place.at("to"))]).run(events).unwrap()
    };
    let report = run(&mut AtOnce);
    assert!(report.interrupted);
    place.check_no_half(false, "interrupted");
    assert_eq!(run(&mut ()).undone(), 0);
    assert_same(&place.at("from"), &place.at("to"));
}

#[test]
fn a_source_that_changes_is_read_once_more_and_then_reported() {
    let place = Place::new();
    let change = |path: &Path| {
        let path = path.to_path_buf();
        move || {
            // Another length cannot be missed, however coarse the clock is. It changes in one step:
            // a thread that reads the file already may read it a second time at any moment.
            let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(b"+").unwrap();
        }
    };
    for name in ["5", "a/b/4"] {
        place.reset(false);
        let factory = FaultEngineFactory::new(Backend::Auto);
        // Before the first read of all, whichever file it is of: the one that changes may be read
        // before or after, and is whole in any case.
        factory.meanwhile(0, change(&place.at("from").join(name)));
        let calls = Arc::new(FaultCalls::none());
        let reading = Arc::new(factory.clone());
        let done = place.copy(false, Durability::Batch, calls, Arc::new(Backend::Auto), reading).unwrap();
        assert_eq!(done.undone(), 0, "{name}: {done:?}");
        let wanted = fs::read(place.at("from").join(name)).unwrap();
        assert!(fs::read(place.at("to").join(name)).unwrap() == wanted, "{name}");
    }
}

/// All files are small, whose bytes the simulator sees.
#[test]
#[cfg(target_os = "linux")]
fn after_power_fails_each_name_is_absent_old_or_new_and_after_the_end_all_are_new() {
    let (place, plain) = (Place::new(), Arc::new(Backend::Auto));
    fs::write(place.at("from/a/b/4"), vec![b'n'; 70_000]).unwrap();
    let whole = state_of(&place.at("from"));
    for (is_old, durability) in
        [(false, Durability::Batch), (true, Durability::Batch), (true, Durability::File)]
    {
        place.reset(is_old);
        let calls = Arc::new(SimCalls::new(&place.at("to")).unwrap());
        let done = place.copy(is_old, durability, calls.clone(), plain.clone(), plain.clone()).unwrap();
        assert_eq!(done.undone(), 0, "{done:?}");
        let storage = calls.storage();
        let (count, options) = (storage.operation_count(), ExploreOptions::default());
        assert!(count > 15, "{count}");
        for at in (0..=count).rev().step_by(stride(1)) {
            for state in storage.crash_states(at, &options) {
                let found = SimCalls::reachable(&state.files());
                let case = format!("{is_old} {durability:?} {at} of {count}");
                for (name, bytes) in found.iter().filter(|(name, _)| !name.contains(".stook-")) {
                    let is_whole = whole.get(name.as_bytes()).is_some_and(|known| known.5 == *bytes);
                    let was = is_old && *bytes == format!("the old {name}").into_bytes();
                    assert!(is_whole || was, "{case}: {name} has {} bytes", bytes.len());
                }
                let files = whole.iter().filter(|(_, known)| known.0 & 0o170_000 != 0o040_000);
                for (key, known) in files {
                    let name = std::str::from_utf8(key).unwrap();
                    let bytes = found.get(name);
                    assert!(!is_old || bytes.is_some(), "{case}: {name} is gone");
                    assert!(at < count || bytes == Some(&known.5), "{case}: {name} was lost after the end");
                }
            }
        }
    }
}
