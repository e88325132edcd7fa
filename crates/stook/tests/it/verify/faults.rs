//! What cannot be read is reported with its place, and all else is verified.

use std::fs;
use std::sync::Arc;

use stook::engine::{Backend, CallFault, EngineFactory};
use stook::extent::ByteRange;
use stook::hash::HashKind;
use stook::verify::{Branch, Subject, Verify};
use stook_testing::fault::{BadBlockEngines, CallFaultEngines, EngineCall, EngineFault, FaultEngineFactory};

use super::{Files, Heard, check_counts, directory, files, listed, only, outcomes, write};

const EINTR: i32 = 4;

fn some_files() -> Files {
    let long: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 99) as u8).collect();
    files(&[("a", b"a"), ("d/long", &long), ("e", b""), ("x/y", &long[..100_000])])
}

#[test]
fn an_unreadable_block_costs_its_file_and_is_named_with_its_offset() {
    let place = tempfile::tempdir().unwrap();
    let all = some_files();
    write(&all, place.path());
    let engines = BadBlockEngines::new(Backend::Auto);
    let long = place.path().join("d/long");
    engines.spoil(&long, ByteRange::new(2_500_000, 2_500_001).unwrap());
    engines.spoil(&long, ByteRange::new(2_000_000, 2_000_001).unwrap());
    let subject = directory(place.path()).listed(listed(&all, &[HashKind::Sha256]));
    let verify = Verify { reading: Arc::new(engines), ..Verify::new(vec![subject]) };
    let mut heard = Heard::default();
    let report = only(verify.run(&mut heard).unwrap());
    check_counts(&report, &mut heard);
    let wanted = [("a", "matches"), ("d/long", "unreadable"), ("e", "matches"), ("x/y", "matches")];
    assert_eq!(outcomes(&heard), wanted);
    let offset = report.unreadable[0].offset.unwrap();
    assert!((1 << 20..=2_000_000).contains(&offset), "{offset} is the first read that failed");
    let text = stook::error::chain(&report.unreadable[0].error);
    assert!(text.contains("d/long") && text.contains("offset"), "{text}");
}

#[test]
fn of_two_trees_the_one_that_cannot_be_read_is_named() {
    let place = tempfile::tempdir().unwrap();
    let all = some_files();
    let (one, other) = (place.path().join("one"), place.path().join("other"));
    write(&all, &one);
    write(&all, &other);
    let engines = BadBlockEngines::new(Backend::Auto);
    engines.spoil(other.join("x/y"), ByteRange::new(7, 8).unwrap());
    let subject = directory(&one).against(Branch::directory(&other).unwrap());
    let verify = Verify { reading: Arc::new(engines), ..Verify::new(vec![subject]) };
    let report = only(verify.run(&mut ()).unwrap());
    assert_eq!((report.matching, report.unreadable.len(), report.wrong()), (3, 1, 1));
    let text = stook::error::chain(&report.unreadable[0].error);
    assert!(text.contains("other/x/y"), "{text}");
}

#[test]
fn whatever_an_engine_does_no_file_that_was_not_read_matches() {
    let place = tempfile::tempdir().unwrap();
    let all = some_files();
    write(&all, place.path());
    for fault in [EngineFault::Fails, EngineFault::Short, EngineFault::Interrupted, EngineFault::Delayed] {
        for nth in 0..6 {
            let engines = FaultEngineFactory::new(Backend::Threads);
            engines.fail(Some(EngineCall::Read), nth, fault);
            let subject = directory(place.path()).listed(listed(&all, &[HashKind::Blake3]));
            let verify = Verify { reading: Arc::new(engines.clone()), ..Verify::new(vec![subject]) };
            let mut heard = Heard::default();
            let report = only(verify.run(&mut heard).unwrap());
            check_counts(&report, &mut heard);
            let is_met = engines.operations().iter().any(|operation| operation.fault.is_some());
            let wrong = u64::from(is_met && fault != EngineFault::Delayed);
            assert_eq!(
                (report.matching, report.damaged()),
                (4 - wrong, wrong),
                "{fault:?} {nth}: {report:?}"
            );
            assert!(report.mismatching.is_empty(), "what was not read is no mismatch");
        }
    }
}

#[test]
fn calls_that_do_less_than_was_asked_change_nothing() {
    let place = tempfile::tempdir().unwrap();
    let all = some_files();
    write(&all, place.path());
    for fault in [CallFault::Errno(EINTR), CallFault::AtMost(4096)] {
        let engines = CallFaultEngines::every(Backend::Threads, 2, fault);
        let reading: Arc<dyn EngineFactory> = Arc::new(engines);
        let subject = directory(place.path()).listed(listed(&all, &[HashKind::Xxh3]));
        let report = only(Verify { reading, ..Verify::new(vec![subject]) }.run(&mut ()).unwrap());
        assert_eq!((report.matching, report.wrong()), (4, 0), "{fault:?}");
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_once_more() {
    let place = tempfile::tempdir().unwrap();
    let bytes = vec![1; 2_000_000];
    let all = files(&[("a", &bytes)]);
    for becomes in ["same", "other", "gone"] {
        write(&all, place.path());
        let engines = FaultEngineFactory::new(Backend::Threads);
        let path = place.path().join("a");
        let after = bytes.clone();
        engines.meanwhile(1, move || match becomes {
            "same" => fs::write(path, after).unwrap(),
            "other" => fs::write(path, "other").unwrap(),
            _ => fs::remove_file(path).unwrap(),
        });
        let subject = directory(place.path()).listed(listed(&all, &[HashKind::Sha256]));
        let verify = Verify { reading: Arc::new(engines), ..Verify::new(vec![subject]) };
        let mut heard = Heard::default();
        let report = only(verify.run(&mut heard).unwrap());
        check_counts(&report, &mut heard);
        let wanted = match becomes {
            "same" => "matches",
            "other" => "mismatches",
            _ => "missing",
        };
        assert_eq!(outcomes(&heard), [("a", wanted)], "{becomes}: {report:?}");
    }
}

#[test]
fn an_interruption_says_so_and_says_nothing_of_what_was_not_read() {
    let place = tempfile::tempdir().unwrap();
    let all: Files = (0..3000).map(|number| (format!("{number}"), vec![b'x'; number % 50])).collect();
    write(&all, place.path());
    let subject = directory(place.path()).listed(listed(&all, &[HashKind::Xxh3]));
    let mut heard = Heard { ends_after: Some(0), ..Heard::default() };
    let report = Verify::new(vec![subject]).run(&mut heard).unwrap();
    assert!(report.interrupted);
    assert_eq!(report.wrong(), 0);
    assert!(report.subjects[0].matching < 3000);
}

#[test]
fn trees_on_one_disk_and_on_several_are_all_verified() {
    let place = tempfile::tempdir().unwrap();
    let in_memory = tempfile::tempdir_in("/dev/shm").expect("this test needs a memory file system");
    let all = some_files();
    let mut subjects = Vec::new();
    for root in [place.path().join("one"), place.path().join("two"), in_memory.path().join("three")] {
        write(&all, &root);
        subjects.push(directory(&root).listed(listed(&all, &[HashKind::Blake3, HashKind::Md5])));
    }
    fs::write(place.path().join("two/a"), "b").unwrap();
    let report = Verify::new(subjects).run(&mut ()).unwrap();
    let found: Vec<_> = report.subjects.iter().map(|one| (one.matching, one.mismatching.len())).collect();
    assert_eq!(found, [(4, 0), (3, 1), (4, 0)]);
    assert_eq!(report.subjects[2].is_past_cache(), Some(false), "{:?}", report.subjects[2]);
    let file = Branch::file(in_memory.path().join("three/a")).unwrap();
    let report = only(
        Verify::new(vec![Subject::new(file).listed(listed(&all, &[HashKind::Md5]))]).run(&mut ()).unwrap(),
    );
    assert_eq!(report.is_past_cache(), Some(false));
}
