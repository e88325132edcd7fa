//! Many threads put into one pack: acknowledged puts are on the medium, in the order of the
//! sequence numbers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use proptest::prelude::*;
use stook::pack::{
    Attributes, Durability, Error, Key, OpenOptions, Pack, PackWriter, SharedWriter, WriterOptions,
};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::pattern;
use stook_testing::fault::{FaultStorage, StorageCall, StorageFault};
use stook_testing::model::pack::{
    PackModel, ScriptedHost, assert_holds, open_simulated, scanned, tiny_writer,
};
use stook_testing::sim::{ExploreOptions, Failure, SimStorage, explore};

fn options() -> WriterOptions {
    tiny_writer(ScriptedHost::new(1))
}

fn shared_writer(storage: Arc<dyn Storage>) -> SharedWriter {
    SharedWriter::new(PackWriter::create(storage, options()).unwrap())
}

/// Keys of a single thread, and keys that all threads use.
fn own_key(thread: u64, number: u64) -> Key {
    Key::id(thread << 32 | number)
}

fn common_key(number: u64) -> Key {
    Key::bytes(format!("common/{number}")).unwrap()
}

/// What one thread did: its own keys as they are in the end, and every put of a common key with its
/// sequence number.
#[derive(Default)]
struct Did {
    own: BTreeMap<Key, Option<Vec<u8>>>,
    common: Vec<(u64, Key, Vec<u8>)>,
}

/// Puts and deletes, and checks that a sequence number is higher than those given before the call.
fn use_it(writer: &SharedWriter, thread: u64, steps: u64, reported: &AtomicU64) -> Did {
    let mut did = Did::default();
    let mut last = 0;
    for step in 0..steps {
        let before = reported.load(Ordering::SeqCst);
        let group = format!("g{}", thread % 3);
        let body = pattern((step * 97 % 5000) as usize, thread << 32 | step);
        let mut put = |key: &Key| {
            let sequence = writer.put(&group, key, &Attributes::new(), &body).unwrap();
            assert!(sequence > before && sequence > last, "{sequence} is not after {before} and {last}");
            last = sequence;
            reported.fetch_max(sequence, Ordering::SeqCst);
            sequence
        };
        let own = own_key(thread, step % 5);
        match step % 4 {
            0 | 1 => {
                put(&own);
                did.own.insert(own, Some(body));
            }
            2 => {
                let key = common_key(step % 3);
                did.common.push((put(&key), key, body));
            }
            _ => {
                let was_there = did.own.insert(own.clone(), None).flatten().is_some();
                assert_eq!(writer.delete(&own).unwrap(), was_there);
            }
        }
    }
    did
}

/// What must be there when all threads are through.
fn model_of(all: Vec<Did>) -> PackModel {
    let mut model = PackModel::new();
    let mut newest: BTreeMap<Key, u64> = BTreeMap::new();
    for did in all {
        model.extend(did.own.into_iter().filter_map(|(key, body)| Some((key, body?))));
        for (sequence, key, body) in did.common {
            if newest.get(&key).is_none_or(|&other| other < sequence) {
                newest.insert(key.clone(), sequence);
                model.insert(key, body);
            }
        }
    }
    model
}

fn used_by(writer: &SharedWriter, threads: u64, steps: u64) -> PackModel {
    let reported = AtomicU64::new(0);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let (writer, reported) = (writer.clone(), &reported);
                scope.spawn(move || use_it(&writer, thread, steps, reported))
            })
            .collect();
        model_of(threads.into_iter().map(|thread| thread.join().unwrap()).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn many_threads_leave_what_a_map_would(threads in 1..=32_u64, steps in 1..40_u64) {
        let storage = SimStorage::new();
        let writer = shared_writer(Arc::new(storage.clone()));
        let model = used_by(&writer, threads, steps);
        // Anything lost in a crash now was not acknowledged.
        for state in storage.crash_states(storage.operation_count(), &ExploreOptions { seed: 1, variants: 6 }) {
            assert_holds(&open_simulated(&state).unwrap(), &model);
        }
        let mut writer = writer.finish().unwrap();
        writer.put("g0", &common_key(9), &Attributes::new(), b"alone again").unwrap();
        writer.finish(true).unwrap();
        let mut model = model;
        model.insert(common_key(9), b"alone again".to_vec());
        assert_holds(&open_simulated(&storage).unwrap(), &model);
    }
}

fn local(directory: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(directory, LocalStorageOptions::default()).unwrap())
}

#[test]
fn many_threads_leave_in_a_directory_what_a_map_would() {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions { engines: WriterOptions::default().engines, ..options() };
    let writer = SharedWriter::new(PackWriter::create(local(directory.path()), options.clone()).unwrap());
    let mut model = used_by(&writer, 16, 24);
    let open = || Pack::open_path(directory.path(), OpenOptions::default()).unwrap();
    assert_holds(&open(), &model);
    drop(writer);
    let writer = SharedWriter::new(PackWriter::open(local(directory.path()), options).unwrap());
    assert!(writer.delete(&common_key(2)).unwrap());
    model.remove(&common_key(2));
    writer.finish().unwrap().finish(true).unwrap();
    assert_holds(&open(), &model);
}

/// Every call of a kind waits until the gate is open, and signals that it waits.
#[derive(Default)]
struct Gate {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| !state.1).unwrap());
    }

    /// Waits until a thread waits at the gate.
    fn wait_for_one(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |state| state.0 == 0).unwrap());
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// A writer whose first sync of a commit is in progress, for one record, while `others` threads
/// wait for the next one. Then the gate is opened; returns all outcomes: that of the first thread,
/// and those of the others.
fn while_a_sync_is_under_way<T: Send>(
    faulty: &Arc<FaultStorage>,
    others: u64,
    put: impl Fn(&SharedWriter, u64) -> T + Sync,
) -> (T, Vec<T>) {
    // Its segment exists and is named, and no checkpoint comes, so that a commit is one sync.
    let options = WriterOptions { checkpoint_len: 1 << 20, segment_len: 1 << 20, ..options() };
    let writer = SharedWriter::new(PackWriter::create(faulty.clone(), options).unwrap());
    writer.put("", &Key::bytes("first").unwrap(), &Attributes::new(), b"").unwrap();
    let gate = Arc::new(Gate::default());
    let at_gate = gate.clone();
    faulty.watch(move |call| {
        if call == StorageCall::Sync {
            at_gate.pass();
        }
    });
    thread::scope(|scope| {
        let (writer, put) = (&writer, &put);
        let leader = scope.spawn(move || put(writer, 0));
        gate.wait_for_one();
        let others: Vec<_> = (1..=others).map(|number| scope.spawn(move || put(writer, number))).collect();
        while writer.waiting() < others.len() {
            thread::yield_now();
        }
        gate.open();
        let reported = others.into_iter().map(|thread| thread.join().unwrap()).collect();
        (leader.join().unwrap(), reported)
    })
}

fn syncs(faulty: &FaultStorage) -> usize {
    faulty.calls().iter().filter(|(call, _)| *call == StorageCall::Sync).count()
}

fn put_one(writer: &SharedWriter, number: u64) -> Result<u64, Error> {
    writer.put("", &Key::id(number), &Attributes::new(), &pattern(1000, number))
}

#[test]
fn those_who_wait_at_the_same_time_share_one_sync() {
    let faulty = Arc::new(FaultStorage::new(Arc::new(SimStorage::new())));
    let before = AtomicU64::new(0);
    let (first, others) = while_a_sync_is_under_way(&faulty, 31, |writer, number| {
        if number == 0 {
            before.store(syncs(&faulty) as u64, Ordering::SeqCst);
        }
        put_one(writer, number).unwrap()
    });
    assert_eq!(
        syncs(&faulty) as u64 - before.load(Ordering::SeqCst),
        2,
        "one for the first, one for 31 others"
    );
    let mut others = others;
    others.sort_unstable();
    assert_eq!(first, 2);
    assert!(others.into_iter().eq(3..=33), "each has a number of its own");
}

#[test]
fn a_failed_sync_is_told_to_everybody_who_waits_for_it() {
    for nth in [0, 1] {
        let medium = SimStorage::new();
        let faulty = Arc::new(FaultStorage::new(Arc::new(medium.clone())));
        let (first, others) = while_a_sync_is_under_way(&faulty, 15, |writer, number| {
            if number == 0 {
                faulty.inject(Some(StorageCall::Sync), nth, StorageFault::Fails(Failure::Io));
            }
            let reported = put_one(writer, number);
            // A thread that got a failure finds the writer stopped.
            if reported.is_err() {
                assert!(matches!(put_one(writer, 99), Err(Error::Stopped)));
                assert!(matches!(writer.delete(&Key::id(0)), Err(Error::Stopped)));
            }
            reported
        });
        let of_commit = |reported: &Result<u64, Error>| match reported {
            Err(Error::Commit(cause)) => cause.to_string().contains("/simulated/"),
            _ => false,
        };
        if nth == 0 {
            assert!(of_commit(&first), "{first:?}");
            assert!(others.iter().all(|reported| matches!(reported, Err(Error::Stopped))), "{others:?}");
        } else {
            assert_eq!(first.unwrap(), 2);
            assert!(others.iter().all(of_commit), "{others:?}");
            let held = scanned(&open_simulated(&medium.after_process_death()).unwrap()).unwrap();
            assert_eq!(held.get(&Key::id(0)), Some(&pattern(1000, 0)));
        }
    }
}

#[test]
fn a_failure_at_any_call_loses_nothing_that_was_acknowledged() {
    let (mut met, mut nth) = (true, 0);
    while met {
        let medium = SimStorage::new();
        let faulty = Arc::new(FaultStorage::new(Arc::new(medium.clone())));
        let writer = shared_writer(faulty.clone());
        let fault = if nth % 2 == 0 { StorageFault::Short } else { StorageFault::Fails(Failure::Io) };
        let calls_before = faulty.calls().len();
        faulty.inject(None, nth, fault);
        let reported: Vec<_> = thread::scope(|scope| {
            let put = |thread: u64| {
                let writer = &writer;
                move || {
                    let numbers = (0..6).map(|number| thread << 32 | number);
                    numbers.map(|number| (number, put_one(writer, number))).collect::<Vec<_>>()
                }
            };
            let threads: Vec<_> = (0..8).map(|thread| scope.spawn(put(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let failed = reported.iter().any(|(_, reported)| reported.is_err());
        met = faulty.calls().len() - calls_before > nth;
        let mut writer = writer.finish().unwrap();
        // Files that cannot be removed are left to the next writer, silently.
        let call = faulty.calls().get(calls_before + nth).cloned();
        let harmless = call.as_ref().is_none_or(|(call, _)| *call == StorageCall::Unlink);
        assert!(failed != harmless, "{fault:?} at {call:?}");
        assert_eq!(failed, matches!(writer.sync(), Err(Error::Stopped)));
        drop(writer);
        for state in [medium.after_process_death()]
            .into_iter()
            .chain(medium.crash_states(medium.operation_count(), &ExploreOptions { seed: 2, variants: 3 }))
        {
            let held = scanned(&open_simulated(&state).unwrap()).unwrap();
            for (number, reported) in &reported {
                let found = held.get(&Key::id(*number));
                assert!(found.is_none_or(|body| *body == pattern(1000, *number)));
                assert!(reported.is_err() || found.is_some(), "{fault:?} at {call:?}: {number} is gone");
            }
        }
        nth += 1;
    }
    assert!(nth > 20, "{nth}");
}

#[test]
fn a_crash_at_any_operation_loses_nothing_that_was_acknowledged() {
    let exploring = ExploreOptions { seed: 4, variants: 7 };
    let checked = explore(
        &exploring,
        &SimStorage::new(),
        |storage, given| {
            let writer = shared_writer(Arc::new(storage.clone()));
            // Promises are to be noted in the order of their moments.
            let noting = Mutex::new(());
            thread::scope(|scope| {
                for thread in 0..8_u64 {
                    let (writer, noting) = (&writer, &noting);
                    scope.spawn(move || {
                        for number in 0..4 {
                            let number = thread << 32 | number;
                            put_one(writer, number).unwrap();
                            let guard = noting.lock().unwrap();
                            given.acknowledge(number);
                            drop(guard);
                        }
                    });
                }
            });
        },
        |state, promises: &[u64], point| match open_simulated(state) {
            Ok(pack) => {
                let held = scanned(&pack).unwrap();
                for number in promises {
                    assert_eq!(held.get(&Key::id(*number)), Some(&pattern(1000, *number)), "{point}");
                }
            }
            Err(error) => assert!(promises.is_empty() && matches!(error, Error::NotAPack { .. }), "{error}"),
        },
    );
    assert!(checked > 50, "{checked}");
}

#[test]
fn what_is_refused_for_itself_fails_nobody_else() {
    let storage = SimStorage::new();
    let writer = shared_writer(Arc::new(storage.clone()));
    let mut model = PackModel::new();
    thread::scope(|scope| {
        for number in 0..16 {
            let writer = &writer;
            scope.spawn(move || {
                let long = "g".repeat(256);
                let group = if number % 2 == 0 { "g" } else { &long };
                let reported = writer.put(group, &Key::id(number), &Attributes::new(), &pattern(10, number));
                assert_eq!(reported.is_ok(), number % 2 == 0);
                assert!(matches!(reported, Ok(_) | Err(Error::Limit { .. })), "{reported:?}");
            });
        }
    });
    model.extend((0..16).step_by(2).map(|number| (Key::id(number), pattern(10, number))));
    assert_holds(&open_simulated(&storage).unwrap(), &model);
}

#[test]
fn a_panic_in_a_commit_stops_the_writer_and_hangs_nobody() {
    let medium = SimStorage::new();
    let faulty = Arc::new(FaultStorage::new(Arc::new(medium.clone())));
    let writer = shared_writer(faulty.clone());
    put_one(&writer, 50).unwrap();
    faulty.watch(|call| assert_ne!(call, StorageCall::Sync, "this test wants a panic here"));
    let ended: Vec<thread::Result<Result<u64, Error>>> = thread::scope(|scope| {
        let writer = &writer;
        let threads: Vec<_> = (0..12).map(|number| scope.spawn(move || put_one(writer, number))).collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    assert_eq!(ended.iter().filter(|ended| ended.is_err()).count(), 1, "one led the commit that panicked");
    assert!(ended.iter().flatten().all(|reported| matches!(reported, Err(Error::Stopped))), "{ended:?}");
    assert!(matches!(writer.finish(), Err(Error::Stopped)));
    let held = scanned(&open_simulated(&medium.after_process_death()).unwrap()).unwrap();
    assert_eq!(held.get(&Key::id(50)), Some(&pattern(1000, 50)));
}

#[test]
fn finishing_waits_for_what_is_under_way_and_refuses_what_comes_later() {
    let storage = SimStorage::new();
    let options = WriterOptions { durability: Durability::Every, ..options() };
    let writer = SharedWriter::new(PackWriter::create(Arc::new(storage.clone()), options).unwrap());
    let reported: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8_u64)
            .map(|thread| {
                let writer = writer.clone();
                scope.spawn(move || {
                    let numbers = (0..).map(|number| thread << 32 | number);
                    numbers
                        .map(|number| (number, put_one(&writer, number)))
                        .take_while(|(_, reported)| {
                            assert!(matches!(reported, Ok(_) | Err(Error::Invalid(_))), "{reported:?}");
                            reported.is_ok()
                        })
                        .map(|(number, _)| number)
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        put_one(&writer, 1 << 40).unwrap();
        let again = writer.clone();
        let mut taken = writer.finish().unwrap();
        assert!(matches!(again.finish(), Err(Error::Invalid(_))));
        // The durability it was made with is back: nothing more is needed after a put.
        taken.put("", &Key::id(2 << 40), &Attributes::new(), b"").unwrap();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut model: PackModel =
        reported.into_iter().map(|number| (Key::id(number), pattern(1000, number))).collect();
    model.insert(Key::id(1 << 40), pattern(1000, 1 << 40));
    model.insert(Key::id(2 << 40), Vec::new());
    for state in storage.crash_states(storage.operation_count(), &ExploreOptions { seed: 5, variants: 3 }) {
        assert_holds(&open_simulated(&state).unwrap(), &model);
    }
}
