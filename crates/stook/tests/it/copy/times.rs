//! Destinations that keep times coarsely.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stook::archive::Archive;
use stook::copy::{Copy, CopyOptions, CopyReport, CopySource, Destination};
use stook::ops::unpack::{Packed, PathFilter, Unpack};
use stook::tree::Overwrite;
use stook_testing::fault::AlteredCalls;

/// What FAT is to `statfs(2)`.
const FAT: u32 = 0x4D44;

const STEPS_NS: [i64; 5] = [100, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000];

/// An odd second, and a fraction.
const TIME: Duration = Duration::new(1_000_000_007, 123_456_789);

fn write(path: &Path, bytes: &[u8], time: Duration) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
    fs::File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH + time).unwrap();
}

/// A small file, a large one, and one with two names.
fn make_source(from: &Path) {
    write(&from.join("d/small"), b"small", TIME);
    write(&from.join("large"), &vec![b'l'; 700_000], TIME);
    write(&from.join("a"), b"two names", TIME);
    fs::hard_link(from.join("a"), from.join("b")).unwrap();
}

fn copy(from: &Path, to: &Path, overwrite: Overwrite, calls: AlteredCalls, dry_run: bool) -> CopyReport {
    let destination = Destination { calls: Arc::new(calls), ..Destination::new(to) };
    let options = CopyOptions { overwrite, dry_run, ..CopyOptions::default() };
    let sources = vec![CopySource::directory(from).unwrap()];
    Copy::new(sources, vec![destination]).with_options(options).run(&mut ()).unwrap()
}

#[test]
fn files_are_the_same_whose_time_could_not_be_kept_and_those_that_changed_are_not() {
    for step_ns in STEPS_NS {
        for overwrite in [Overwrite::Never, Overwrite::Older, Overwrite::Different] {
            let place = tempfile::tempdir().unwrap();
            let (from, to) = (place.path().join("from"), place.path().join("to"));
            make_source(&from);
            let calls = || AlteredCalls::new().with_times_of(step_ns);
            let run = |calls| copy(&from, &to, overwrite, calls, false);
            assert_eq!(run(calls()).undone(), 0);
            let case = format!("{step_ns} ns, {overwrite:?}");
            let again = run(calls());
            let one = &again.destinations[0];
            assert_eq!((again.undone(), again.read_files, one.files), (0, 0, 0), "{case}: {again:?}");
            assert_eq!((one.unchanged, one.corrected), (4, 0), "{case}: {again:?}");
            // The same length, and a time that is another there, too.
            write(&from.join("d/small"), b"SMALL", TIME + Duration::from_nanos(step_ns as u64));
            let changed = run(calls());
            let kept = u64::from(overwrite == Overwrite::Never);
            let one = &changed.destinations[0];
            assert_eq!((changed.undone(), one.files), (kept, 1 - kept), "{case}: {changed:?}");
            assert_eq!(fs::read(to.join("d/small")).unwrap() == b"SMALL", kept == 0, "{case}");
            let names: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names.len(), 4, "{case}: nothing is left of finding out: {names:?}");
        }
    }
}

#[test]
fn a_coarse_time_where_times_are_fine_says_nothing_and_the_bytes_are_compared() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    write(&from.join("file"), b"bytes", TIME);
    for (there, is_same) in [(b"bytes", true), (b"other", false)] {
        write(&to.join("file"), there, Duration::from_secs(TIME.as_secs()));
        let report = copy(&from, &to, Overwrite::Never, AlteredCalls::new(), false);
        assert_eq!((report.read_files, report.undone()), (1, u64::from(!is_same)), "{report:?}");
        let report = copy(&from, &to, Overwrite::Older, AlteredCalls::new(), false);
        assert_eq!((report.destinations[0].files, report.undone()), (1, 0), "it is older: {report:?}");
    }
}

/// A dry run writes nothing to find out: FAT is known by its number.
#[test]
fn fat_is_known_without_writing() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    make_source(&from);
    let calls = || AlteredCalls::new().with_times_of(2_000_000_000).of_kind(FAT);
    assert_eq!(copy(&from, &to, Overwrite::Never, calls(), false).undone(), 0);
    for overwrite in [Overwrite::Never, Overwrite::Older, Overwrite::Different] {
        let dry = copy(&from, &to, overwrite, calls(), true);
        assert_eq!((dry.read_files, dry.destinations[0].unchanged), (0, 4), "{overwrite:?}: {dry:?}");
    }
}

#[test]
fn what_is_unpacked_is_not_replaced_again_because_its_time_could_not_be_kept() {
    let place = tempfile::tempdir().unwrap();
    let (from, to, tar) = (place.path().join("from"), place.path().join("to"), place.path().join("x.tar"));
    make_source(&from);
    let mut command = Command::new("tar");
    command.args(["--format=pax", "-cf"]).arg(&tar).arg("-C").arg(&from).arg(".");
    assert!(command.status().unwrap().success());
    let archive = Archive::open(&tar, Default::default()).unwrap();
    let unpack = |_| {
        let unpack = Unpack {
            target: to.clone(),
            filter: PathFilter::default(),
            overwrite: Overwrite::Older,
            with_owner: true,
            xattrs: true,
            threads: 1,
            durability: Default::default(),
            force: false,
        };
        let calls = Arc::new(AlteredCalls::new().with_times_of(1_000_000_000));
        let done = unpack.run_through(Packed::Archive(&archive), calls, &mut |_| true).unwrap();
        assert_eq!(done.undone, 0, "{:?}", done.summary);
        (done.summary.files, done.summary.unchanged)
    };
    assert_eq!([0, 1].map(unpack), [(3, 0), (0, 4)]);
}

#[test]
fn files_with_times_that_cannot_be_recorded_are_copied_with_the_nearest_which_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    // In the year 2300: on the file systems of tests it is kept.
    let far = Duration::from_secs(10_413_792_000);
    write(&from.join("far/inside"), b"inside", TIME);
    write(&from.join("late"), b"late", far);
    write(&from.join("large"), &vec![b'l'; 700_000], far);
    fs::File::open(from.join("far")).unwrap().set_modified(SystemTime::UNIX_EPOCH + far).unwrap();
    assert_eq!(fs::metadata(from.join("late")).unwrap().mtime(), 10_413_792_000);
    for overwrite in [Overwrite::Never, Overwrite::Different] {
        let _ = fs::remove_dir_all(&to);
        let run = || copy(&from, &to, overwrite, AlteredCalls::new(), false);
        let report = run();
        let one = &report.destinations[0];
        assert_eq!((one.files, one.failures.len(), report.failures.len()), (3, 0, 0), "{report:?}");
        // Two files and a directory.
        assert_eq!((one.unset_xattrs.entries, report.undone()), (3, 3), "{report:?}");
        assert!(one.unset_xattrs.first.as_ref().unwrap().1.contains("after 2262"), "{report:?}");
        for name in ["late", "large", "far/inside"] {
            assert!(fs::read(from.join(name)).unwrap() == fs::read(to.join(name)).unwrap(), "{name}");
        }
        for name in ["late", "far"] {
            assert_eq!(fs::metadata(to.join(name)).unwrap().mtime(), i64::MAX / 1_000_000_000, "{name}");
        }
        let again = run();
        assert_eq!((again.undone(), again.destinations[0].unchanged), (0, 3), "{again:?}");
        assert_eq!(again.read_files, 0);
    }
}
