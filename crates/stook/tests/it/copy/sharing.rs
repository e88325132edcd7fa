//! Files that the system copies: by its server, or by sharing their blocks.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stook::copy::{Copy, CopyOptions, CopyReport, CopySource, Destination, Durability, HashKind};
use stook::engine::Backend;
use stook::tree::Overwrite;
use stook_testing::fault::{AlteredCalls, EngineCall, EngineFault, FaultEngineFactory};

use super::assert_same;

const LEN: usize = 3_000_001;

struct Place {
    directory: tempfile::TempDir,
    factory: FaultEngineFactory,
}

impl Place {
    /// Two large files, of which one has holes, and a small one. On the file system of a test no
    /// blocks are shared.
    fn new() -> Self {
        let place =
            Self { directory: tempfile::tempdir().unwrap(), factory: FaultEngineFactory::new(Backend::Auto) };
        let from = place.at("from");
        fs::create_dir(&from).unwrap();
        fs::write(from.join("large"), vec![b'n'; LEN]).unwrap();
        fs::write(from.join("small"), "small").unwrap();
        let mut sparse = fs::File::create(from.join("sparse")).unwrap();
        sparse.seek(SeekFrom::Start(1 << 20)).unwrap();
        sparse.write_all(&vec![b's'; 1 << 20]).unwrap();
        sparse.set_len(5 << 20).unwrap();
        place.factory.fail_every(Some(EngineCall::CloneRange), 1, EngineFault::Unsupported);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn copy(&self, calls: AlteredCalls, options: CopyOptions) -> CopyReport {
        let factory = Arc::new(self.factory.clone());
        let destination = Destination { calls: Arc::new(calls), factory, ..Destination::new(self.at("to")) };
        let sources = vec![CopySource::directory(self.at("from")).unwrap()];
        Copy::new(sources, vec![destination]).with_options(options).run(&mut ()).unwrap()
    }

    /// How many operations of a kind there were since this was asked last.
    fn count(&self, call: EngineCall, from: &mut usize) -> usize {
        let all = self.factory.operations();
        let of = all[*from..].iter().filter(|operation| operation.call == call).count();
        *from = all.len();
        of
    }

    fn assert_whole(&self, report: &CopyReport, case: &str) {
        assert_eq!(report.undone(), 0, "{case}: {report:?}");
        assert_same(&self.at("from"), &self.at("to"));
    }
}

fn append(path: &Path) {
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"+").unwrap();
}

#[test]
fn a_server_copies_its_large_files_itself_with_their_holes_and_nothing_else_does() {
    let place = Place::new();
    let report = place.copy(AlteredCalls::new().on_server(), CopyOptions::default());
    place.assert_whole(&report, "on a server");
    let one = &report.destinations[0];
    assert_eq!((one.copied_by_server, one.cloned, one.files, one.passage.direct_bytes), (2, 0, 3, 0));
    let mut seen = 0;
    assert_eq!(place.count(EngineCall::CopyRange, &mut seen), 2);
    // Elsewhere it takes longer than reading and writing.
    fs::remove_dir_all(place.at("to")).unwrap();
    let report = place.copy(AlteredCalls::new(), CopyOptions::default());
    place.assert_whole(&report, "on a disk");
    assert_eq!(
        (place.count(EngineCall::CopyRange, &mut seen), report.destinations[0].copied_by_server),
        (0, 0)
    );
    // What is hashed or compared has to be read.
    let hashed =
        CopyOptions { hashes: vec![HashKind::Xxh3], overwrite: Overwrite::Always, ..CopyOptions::default() };
    let compared = CopyOptions { overwrite: Overwrite::Different, checksum: true, ..CopyOptions::default() };
    for options in [hashed, compared] {
        let report = place.copy(AlteredCalls::new().on_server(), options);
        place.assert_whole(&report, "read");
        assert_eq!(place.count(EngineCall::CopyRange, &mut seen), 0);
    }
}

#[test]
fn what_a_server_refuses_or_does_not_finish_is_read_and_written() {
    for fault in [
        EngineFault::Unsupported,
        EngineFault::Fails,
        EngineFault::NoSpace,
        EngineFault::Interrupted,
        EngineFault::Short,
        EngineFault::Claimed,
    ] {
        let place = Place::new();
        place.factory.fail_every(Some(EngineCall::CopyRange), 1, fault);
        let report = place.copy(AlteredCalls::new().on_server(), CopyOptions::default());
        let case = format!("{fault:?}");
        place.assert_whole(&report, &case);
        let one = &report.destinations[0];
        assert_eq!((one.copied_by_server, one.files), (0, 3), "{case}");
        assert_eq!(one.bytes, (LEN + 5 + (5 << 20)) as u64, "{case}");
        let mut seen = 0;
        let tries = place.count(EngineCall::CopyRange, &mut seen);
        // Two files are copied at once.
        let most = if fault == EngineFault::Unsupported { 1..=2 } else { 2..=2 };
        assert!(most.contains(&tries), "{case}: {tries} tries");
    }
}

#[test]
fn a_clone_that_is_short_or_was_only_claimed_is_none() {
    for fault in [EngineFault::Claimed, EngineFault::Short, EngineFault::Fails, EngineFault::NoSpace] {
        let place = Place::new();
        place.factory.clear_faults();
        place.factory.fail_every(Some(EngineCall::CloneRange), 1, fault);
        let report = place.copy(AlteredCalls::new(), CopyOptions::default());
        place.assert_whole(&report, &format!("{fault:?}"));
        assert_eq!(report.destinations[0].cloned, 0);
    }
}

#[test]
fn a_source_that_changes_while_its_server_copies_it_is_copied_as_it_is_then() {
    for nth in 0..2 {
        let place = Place::new();
        fs::remove_file(place.at("from/sparse")).unwrap();
        let path = place.at("from/large");
        place.factory.meanwhile(nth, move || append(&path));
        let report = place.copy(AlteredCalls::new().on_server(), CopyOptions::default());
        place.assert_whole(&report, &format!("{nth}"));
        assert_eq!(fs::metadata(place.at("to/large")).unwrap().len(), LEN as u64 + 1);
    }
}

#[test]
fn destinations_are_the_same_where_one_has_a_file_already_when_its_source_changes() {
    for (durability, overwrite) in
        [(Durability::Batch, Overwrite::Never), (Durability::File, Overwrite::Different)]
    {
        let place = Place::new();
        for name in ["sparse", "small"] {
            fs::remove_file(place.at("from").join(name)).unwrap();
        }
        let path = place.at("from/large");
        // The first has it from the server; it changes while it is read for the second.
        let reading = FaultEngineFactory::new(Backend::Auto);
        reading.meanwhile(0, move || append(&path));
        let first = Destination {
            calls: Arc::new(AlteredCalls::new().on_server()),
            factory: Arc::new(place.factory.clone()),
            ..Destination::new(place.at("to"))
        };
        let second =
            Destination { factory: Arc::new(place.factory.clone()), ..Destination::new(place.at("second")) };
        let sources = vec![CopySource::directory(place.at("from")).unwrap()];
        let options = CopyOptions { durability, overwrite, ..CopyOptions::default() };
        let copy = Copy { reading: Arc::new(reading), ..Copy::new(sources, vec![first, second]) };
        let report = copy.with_options(options).run(&mut ()).unwrap();
        place.assert_whole(&report, &format!("{durability:?}"));
        assert_same(&place.at("from"), &place.at("second"));
        assert_eq!(fs::metadata(place.at("to/large")).unwrap().len(), LEN as u64 + 1);
    }
}
