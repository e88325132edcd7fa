//! Storages and devices that fail under a pack, at every call: it is reported, and nothing
//! acknowledged is lost.

use std::path::Path;
use std::sync::Arc;

use stook::engine::Backend;
use stook::pack::{
    Attributes, Durability, Error, Key, OnDamage, OpenOptions, Pack, PackWriter, Result, Scan, ScanOptions,
    WriterOptions,
};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::pattern;
use stook_testing::fault::{
    EngineCall, EngineFault, FaultEngineFactory, FaultStorage, StorageCall, StorageFault,
};
use stook_testing::model::pack::{
    PackModel, ScriptedHost, assert_holds, open_simulated, scanned, tiny_writer,
};
use stook_testing::sim::{ExploreOptions, Failure, SimStorage};

/// What a run got done: what was put, and what of it was acknowledged.
#[derive(Default)]
struct Done {
    put: Vec<(Key, Vec<u8>)>,
    acknowledged: usize,
}

impl Done {
    fn put(&mut self, writer: &mut PackWriter, group: &str, number: usize, len: usize) -> Result<()> {
        let (key, body) = (Key::id(number as u64 % 7), pattern(len, number as u64));
        self.put.push((key.clone(), body.clone()));
        if number.is_multiple_of(3) {
            let mut record = writer.begin(group, &key, &Attributes::new(), None)?;
            record.write(&body)?;
            record.finish()?;
        } else {
            writer.put(group, &key, &Attributes::new(), &body)?;
        }
        Ok(())
    }

    fn acknowledge(&mut self) {
        self.acknowledged = self.put.len();
    }

    /// A record is there if it, or one put later under its key, was acknowledged; and any that is
    /// there was put.
    fn assert_kept(&self, held: &PackModel, what: &str) {
        for (key, body) in held {
            assert!(
                self.put.iter().any(|put| (&put.0, &put.1) == (key, body)),
                "{what}: {key} was never put"
            );
        }
        for key in (0..7).map(Key::id) {
            let versions = || self.put.iter().enumerate().filter(|(_, put)| put.0 == key);
            let Some(last) = versions().map(|(at, _)| at).rfind(|at| *at < self.acknowledged) else {
                continue;
            };
            let found = versions().find(|(_, put)| Some(&put.1) == held.get(&key)).map(|(at, _)| at);
            assert!(
                found.is_some_and(|found| found >= last),
                "{what}: {key} was acknowledged and is not there"
            );
        }
    }
}

/// Puts and syncs until something fails, and makes sure that then nothing more can be put.
fn run(storage: &Arc<dyn Storage>, options: &WriterOptions, done: &mut Done) -> Result<()> {
    let mut writer = PackWriter::create(storage.clone(), options.clone())?;
    let outcome = write_all(&mut writer, done);
    if outcome.is_err() {
        let again = writer.put("a", &Key::id(99), &Attributes::new(), b"more");
        assert!(matches!(again, Err(Error::Stopped)), "{again:?}");
        assert!(matches!(writer.sync(), Err(Error::Stopped)));
        assert!(matches!(writer.publish(), Err(Error::Stopped)));
        assert!(matches!(writer.finish(true), Err(Error::Stopped)));
        return outcome;
    }
    writer.finish(true)?;
    done.acknowledge();
    let mut writer = PackWriter::open(storage.clone(), options.clone())?;
    done.put(&mut writer, "a", 20, 5000)?;
    writer.sync()?;
    done.acknowledge();
    Ok(())
}

fn write_all(writer: &mut PackWriter, done: &mut Done) -> Result<()> {
    for (number, len) in [500, 9000, 4096, 0, 12_000, 700, 30_000, 20, 15_000].into_iter().enumerate() {
        done.put(writer, ["a", "b"][number % 2], number, len)?;
        if number % 4 == 1 {
            writer.sync()?;
            done.acknowledge();
        }
        if number == 6 {
            writer.publish()?;
            done.acknowledge();
        }
    }
    Ok(())
}

fn tiny() -> WriterOptions {
    WriterOptions { segment_len: 40 << 10, ..tiny_writer(ScriptedHost::new(1)) }
}

#[test]
fn a_call_of_the_storage_that_fails_is_reported_and_nothing_acknowledged_is_lost() {
    for fault in
        [StorageFault::Fails(Failure::Io), StorageFault::Fails(Failure::NoSpace), StorageFault::Short]
    {
        for nth in 0.. {
            let medium = SimStorage::new();
            let faulty = Arc::new(FaultStorage::new(Arc::new(medium.clone())));
            faulty.inject(None, nth, fault);
            let storage: Arc<dyn Storage> = faulty.clone();
            let mut done = Done::default();
            let outcome = run(&storage, &tiny(), &mut done);
            let calls = faulty.calls();
            if calls.len() <= nth {
                outcome.unwrap();
                assert!(nth > 60, "{nth}");
                break;
            }
            let (call, name) = &calls[nth];
            let what = format!("{fault:?} at call {nth}, {call:?} {name}");
            match outcome {
                Ok(()) => assert_eq!(*call, StorageCall::Unlink, "{what} is not reported"),
                Err(error) => assert!(error.to_string().contains("/simulated/"), "{what}: {error}"),
            }
            recovers(&medium, &done, &what);
        }
    }
}

fn recovers(medium: &SimStorage, done: &Done, what: &str) {
    let held = match open_simulated(medium) {
        Err(Error::NotAPack { .. }) => PackModel::new(),
        pack => scanned(&pack.unwrap()).unwrap(),
    };
    done.assert_kept(&held, what);
    if open_simulated(medium).is_err() {
        return;
    }
    let mut writer = PackWriter::open(Arc::new(medium.clone()), tiny()).unwrap();
    writer.put("a", &Key::id(50), &Attributes::new(), b"continues").unwrap();
    writer.finish(true).unwrap();
    let mut more = held;
    more.insert(Key::id(50), b"continues".to_vec());
    for state in medium.crash_states(medium.operation_count(), &ExploreOptions { seed: 1, variants: 2 }) {
        assert_holds(&open_simulated(&state).unwrap(), &more);
    }
}

fn local(directory: &Path, engines: &FaultEngineFactory) -> Arc<dyn Storage> {
    let options = LocalStorageOptions { engine: Arc::new(engines.clone()), ..LocalStorageOptions::default() };
    Arc::new(LocalStorage::open(directory, options).unwrap())
}

#[test]
fn a_device_that_fails_a_write_or_sync_is_reported_and_nothing_acknowledged_is_lost() {
    let faults = [
        (EngineCall::Write, EngineFault::Fails),
        (EngineCall::Write, EngineFault::NoSpace),
        (EngineCall::Write, EngineFault::Short),
        (EngineCall::Sync, EngineFault::Fails),
    ];
    for (call, fault) in faults {
        for nth in (0..).step_by(2) {
            let directory = tempfile::tempdir().unwrap();
            let engines = FaultEngineFactory::new(Backend::Auto);
            engines.fail(Some(call), nth, fault);
            let options = WriterOptions { engines: WriterOptions::default().engines, ..tiny() };
            let mut done = Done::default();
            let outcome = run(&local(directory.path(), &engines), &options, &mut done);
            let met = engines.operations().iter().any(|operation| operation.fault.is_some());
            let what = format!("{fault:?} at {call:?} {nth}");
            assert_eq!(outcome.is_err(), met, "{what}: {outcome:?}");
            if let Err(error) = &outcome {
                assert!(error.to_string().contains(directory.path().to_str().unwrap()), "{what}: {error}");
            }
            let pack = Pack::open_path(directory.path(), OpenOptions::default()).unwrap();
            let held = scanned(&pack).unwrap();
            done.assert_kept(&held, &what);
            let fine = local(directory.path(), &FaultEngineFactory::new(Backend::Auto));
            PackWriter::open(fine, options).unwrap().finish(true).unwrap();
            assert_holds(&Pack::open_path(directory.path(), OpenOptions::default()).unwrap(), &held);
            if !met {
                assert!(nth > 4, "{what}");
                break;
            }
        }
    }
}

fn rest_of_body(scan: &mut Scan<'_>) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = scan.next_chunk()? {
        body.extend_from_slice(chunk);
    }
    Ok(body)
}

/// Reads everything, each thing once, and gives what was read and what was refused.
fn read_all(
    directory: &Path,
    engines: &FaultEngineFactory,
    on_damage: OnDamage,
) -> (Vec<(Key, Vec<u8>)>, Vec<Error>) {
    let (mut given, mut errors) = (Vec::new(), Vec::new());
    let options = OpenOptions { engines: Arc::new(engines.clone()), ..OpenOptions::default() };
    let pack = match Pack::open_path(directory, options) {
        Ok(pack) => pack,
        Err(error) => return (given, vec![error]),
    };
    for key in (0..7).map(Key::id) {
        match pack.get(&key) {
            Ok(record) => given.extend(record.map(|record| (key, record.body.to_vec()))),
            Err(error) => errors.push(error),
        }
    }
    let options = ScanOptions { on_damage, ..ScanOptions::default() };
    let mut scan = pack.scan(options.clone());
    loop {
        match scan.next() {
            Ok(Some(record)) => {
                let (key, body) = (record.key().unwrap(), record.body().map(<[u8]>::to_vec));
                match body.map_or_else(|| rest_of_body(&mut scan), Ok) {
                    Ok(body) => given.push((key, body)),
                    Err(error) => errors.push(error),
                }
            }
            Ok(None) => break,
            Err(error) => errors.push(error),
        }
    }
    assert_eq!(scan.damages(), [], "a device that fails is not a damaged record");
    match pack.load(&options) {
        Ok(loaded) => given.extend(loaded.iter().map(|record| (record.key().unwrap(), record.body.to_vec()))),
        Err(error) => errors.push(error),
    }
    errors.extend(pack.check(|_| {}).err());
    assert_eq!(pack.damages(), []);
    (given, errors)
}

#[test]
fn a_read_that_fails_is_reported_and_gives_no_wrong_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions { engines: WriterOptions::default().engines, ..tiny() };
    let mut done = Done::default();
    run(&local(directory.path(), &FaultEngineFactory::new(Backend::Auto)), &options, &mut done).unwrap();
    let engines = FaultEngineFactory::new(Backend::Auto);
    let (whole, errors) = read_all(directory.path(), &engines, OnDamage::Stop);
    assert!(errors.is_empty() && whole.len() == 21, "{errors:?}, {}", whole.len());
    let reads = engines.operations().len();
    for fault in [EngineFault::Fails, EngineFault::Short, EngineFault::Delayed] {
        for nth in 0..reads {
            let engines = FaultEngineFactory::new(Backend::Auto);
            engines.fail(Some(EngineCall::Read), nth, fault);
            let on_damage = if nth % 2 == 0 { OnDamage::Stop } else { OnDamage::Skip };
            let (given, errors) = read_all(directory.path(), &engines, on_damage);
            assert!(given.iter().all(|record| whole.contains(record)), "{fault:?} at read {nth}");
            if fault == EngineFault::Delayed {
                assert!(
                    errors.is_empty() && given.len() == whole.len(),
                    "{fault:?} at read {nth}: {errors:?}"
                );
                continue;
            }
            if fault == EngineFault::Fails {
                // Bytes that a device returns on a retry are neither damaged nor missing.
                assert!(errors.is_empty() && given.len() == whole.len(), "read {nth}: {errors:?}");
                continue;
            }
            let reported = errors.iter().all(|error| matches!(error, Error::Core(_)));
            assert!(reported && errors.len() == 1, "{fault:?} at read {nth}: {errors:?}");
        }
    }
}

/// Segments and what is set aside, with their lengths.
fn rooms(storage: &SimStorage) -> Vec<(String, u64)> {
    let files = storage.list().unwrap().into_iter();
    let files =
        files.filter(|file| file.name.starts_with("segment-") || file.name.starts_with("orphan-segment-"));
    files.map(|file| (file.name, file.len)).collect()
}

/// A way to put more.
#[derive(Debug, Clone, Copy)]
enum Way {
    Whole,
    Streamed,
    Batch,
}

const WAYS: [Way; 3] = [Way::Whole, Way::Streamed, Way::Batch];

fn put_one_way(writer: &mut PackWriter, way: Way, group: &str) -> Result<()> {
    let (body, attributes) = (pattern(9_000, 3), Attributes::new());
    match way {
        Way::Whole => writer.put(group, &Key::id(2), &attributes, &body).map(drop),
        Way::Streamed => {
            let mut record = writer.begin(group, &Key::id(2), &attributes, None)?;
            record.write(&body)?;
            record.finish().map(drop)
        }
        Way::Batch => {
            let mut batch = writer.batch(group)?;
            batch.put(&Key::id(2), &attributes, &body)?;
            batch.put(&Key::id(3), &attributes, &body)?;
            batch.commit()
        }
    }
}

/// A pack with a record in group `old`, whose segment grows on.
fn with_one_record() -> SimStorage {
    let medium = SimStorage::new();
    let options = tiny_writer(ScriptedHost::new(1));
    let mut writer = PackWriter::create(Arc::new(medium.clone()), options).unwrap();
    writer.put("old", &Key::id(1), &Attributes::new(), b"old").unwrap();
    writer.finish(false).unwrap();
    medium
}

/// The bytes of a failed put or batch are useless, and the disk may be full. Half of an append may
/// have reached the medium; a sync may fail, or the publication before its manifest gets its name.
#[test]
fn a_put_that_fails_gives_its_room_back() {
    let short = (StorageCall::Append, StorageFault::Short);
    let calls = [
        StorageCall::Append,
        StorageCall::Flush,
        StorageCall::Sync,
        StorageCall::SyncDirectory,
        StorageCall::Prepare,
    ];
    let faults = calls.map(|call| (call, StorageFault::Fails(Failure::Io)));
    for (call, fault) in faults.into_iter().chain([short]) {
        let all = ["old", "new"].into_iter().flat_map(|group| WAYS.map(|way| (group, way)));
        for ((group, way), nth) in all.flat_map(|case| (0..20).map(move |nth| (case, nth))) {
            let medium = with_one_record();
            let before = rooms(&medium);
            let faulty = Arc::new(FaultStorage::new(Arc::new(medium.clone())));
            let options = |seed| WriterOptions {
                durability: Durability::Every,
                // The operations of a checkpoint come after the sync: then the put is durable,
                // whatever fails.
                checkpoint_len: 1 << 20,
                ..tiny_writer(ScriptedHost::new(seed))
            };
            let mut writer = PackWriter::open(faulty.clone(), options(2)).unwrap();
            faulty.inject(Some(call), nth, fault);
            let case = format!("{call:?} {fault:?} {nth}, {way:?} {group}");
            if put_one_way(&mut writer, way, group).is_ok() {
                break;
            }
            drop(writer);
            let after = rooms(&medium);
            // A mark of 64 bytes may precede the begun record, and a new segment keeps its header.
            assert!(after[0].1 <= before[0].1 + 64, "{case}: {after:?}, {before:?}");
            assert!(after.iter().skip(1).all(|file| file.1 <= 4096), "{case}: {after:?}");
            let next = PackWriter::open(Arc::new(medium.clone()), options(3)).unwrap();
            assert_eq!(next.recovery().set_aside, [], "{case}");
            assert_eq!(scanned(&open_simulated(&medium).unwrap()).unwrap().len(), 1, "{case}");
        }
    }
}

/// A put counts if its generation reaches the medium, and not if that fails before its manifest
/// could have its name. Before: a synced record stayed in a segment that an older manifest names,
/// and the failed put counted.
#[test]
fn what_was_put_does_not_count_where_its_generation_fails() {
    for (call, seals) in
        [(StorageCall::Prepare, false), (StorageCall::SyncDirectory, false), (StorageCall::Prepare, true)]
    {
        for nth in 0..2 {
            let medium = with_one_record();
            let before = scanned(&open_simulated(&medium).unwrap()).unwrap();
            let faulty = Arc::new(FaultStorage::new(Arc::new(medium.clone())));
            let options = WriterOptions { checkpoint_len: 1 << 20, ..tiny_writer(ScriptedHost::new(2)) };
            let mut writer = PackWriter::open(faulty.clone(), options).unwrap();
            writer.put("old", &Key::id(1), &Attributes::new(), b"new").unwrap();
            writer.put("old", &Key::id(2), &Attributes::new(), b"more").unwrap();
            faulty.inject(Some(call), nth, StorageFault::Fails(Failure::NoSpace));
            if writer.finish(seals).is_ok() {
                break;
            }
            // Also after a power failure: what was synced and cut stays cut.
            let crashed = medium.crash_states(medium.operation_count(), &ExploreOptions::default());
            for state in std::iter::once(medium.after_process_death()).chain(crashed) {
                let after = scanned(&open_simulated(&state).unwrap()).unwrap();
                assert!(after == before, "{call:?} {nth}, seals: {seals}");
            }
        }
    }
}

/// The same if a checkpoint is due. Before: its sync counted as a promise, and the record of a
/// failed put was there anyway.
#[test]
fn what_was_put_does_not_count_where_its_checkpoint_or_the_generation_after_it_fails() {
    for call in [StorageCall::Sync, StorageCall::Prepare, StorageCall::SyncDirectory] {
        for nth in 0.. {
            let medium = with_one_record();
            let before = scanned(&open_simulated(&medium).unwrap()).unwrap();
            let faulty = Arc::new(FaultStorage::new(Arc::new(medium.clone())));
            let options = WriterOptions { checkpoint_len: 4096, ..tiny_writer(ScriptedHost::new(2)) };
            let mut writer = PackWriter::open(faulty.clone(), options).unwrap();
            faulty.inject(Some(call), nth, StorageFault::Fails(Failure::NoSpace));
            if put_one_way(&mut writer, Way::Whole, "old").is_ok() {
                assert!(nth > 0, "{call:?} was never called");
                break;
            }
            drop(writer);
            let crashed = medium.crash_states(medium.operation_count(), &ExploreOptions::default());
            for state in std::iter::once(medium.after_process_death()).chain(crashed) {
                let after = scanned(&open_simulated(&state).unwrap()).unwrap();
                assert!(after == before, "{call:?} {nth}");
                // And the next writer continues, whatever is left of the checkpoint.
                let mut next =
                    PackWriter::open(Arc::new(state.clone()), tiny_writer(ScriptedHost::new(3))).unwrap();
                put_one_way(&mut next, Way::Whole, "old").unwrap();
                next.finish(false).unwrap();
                assert_eq!(scanned(&open_simulated(&state).unwrap()).unwrap().len(), 2, "{call:?} {nth}");
            }
        }
    }
}

/// The same for sealing at the end: every operation of the medium fails once. Only from the rename
/// on may the manifest exist after a crash, and then the files that it names are kept.
#[test]
fn only_a_generation_that_may_have_its_name_keeps_the_room_of_what_it_names() {
    let options = |seed| WriterOptions { checkpoint_len: 1 << 20, ..tiny_writer(ScriptedHost::new(seed)) };
    let run = |medium: &SimStorage| -> Result<()> {
        let mut writer = PackWriter::open(Arc::new(medium.clone()), options(2))?;
        put_one_way(&mut writer, Way::Whole, "old")?;
        put_one_way(&mut writer, Way::Streamed, "new")?;
        writer.finish(true)
    };
    let undisturbed = with_one_record();
    let first = undisturbed.operation_count();
    run(&undisturbed).unwrap();
    let (mut renamed, mut kept) = (false, 0);
    for recorded in (first..undisturbed.operation_count()).zip(&undisturbed.operations()[first..]) {
        let (index, what) = (recorded.0, recorded.1.operation.to_string());
        renamed |= what.contains("rename") && what.contains("manifest-");
        let medium = with_one_record();
        let before = rooms(&medium);
        medium.fail_at(index, Failure::NoSpace);
        let outcome = run(&medium);
        if renamed || outcome.is_ok() {
            kept += 1;
            continue;
        }
        let after = rooms(&medium);
        // Until the first sync fails, what was put before is found again by the next writer.
        let put_len = 9_000 + 400;
        assert!(after[0].1 <= before[0].1 + put_len, "{what}: {after:?}, {before:?}");
        assert!(after.iter().skip(1).all(|file| file.1 <= 4096), "{what}: {after:?}");
        let next = PackWriter::open(Arc::new(medium.clone()), options(3)).unwrap();
        assert_eq!(next.recovery().set_aside, [], "{what}");
    }
    assert!(renamed && kept > 0);
}

#[test]
fn what_a_generation_was_about_to_name_is_set_aside_and_nothing_is_said_of_it_that_is_not_known() {
    let medium = with_one_record();
    let faulty = Arc::new(FaultStorage::new(Arc::new(medium.clone())));
    let options = WriterOptions { checkpoint_len: 1 << 20, ..tiny_writer(ScriptedHost::new(2)) };
    let mut writer = PackWriter::open(faulty.clone(), options).unwrap();
    faulty.inject(Some(StorageCall::Publish), 0, StorageFault::Fails(Failure::Io));
    put_one_way(&mut writer, Way::Whole, "new").unwrap();
    writer.finish(true).unwrap_err();
    let next = PackWriter::open(Arc::new(medium.clone()), tiny_writer(ScriptedHost::new(3))).unwrap();
    let notes = next.recovery().notes();
    let notes: Vec<_> = notes.iter().filter(|note| note.contains("orphan-segment-")).collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("is not listed in any manifest"), "{notes:?}");
}
