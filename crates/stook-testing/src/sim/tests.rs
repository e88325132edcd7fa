//! The simulator must find faults, and must not report correct code.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stook::Error;
use stook::extent::ByteRange;
use stook::source::Leaf;
use stook::storage::Storage;

use super::*;

fn read(storage: &SimStorage, name: &str) -> Option<Vec<u8>> {
    let source = storage.open(name).ok()?;
    let mut leaves = Vec::new();
    source.resolve(ByteRange::to(source.len()), &mut leaves).unwrap();
    let mut bytes = Vec::new();
    for leaf in leaves {
        match leaf {
            Leaf::Bytes(part) => bytes.extend_from_slice(&part),
            other => panic!("the simulator holds bytes, not {other:?}"),
        }
    }
    Some(bytes)
}

/// 3,000 non-zero bytes that identify their record.
fn record(number: u8) -> Vec<u8> {
    vec![number + 1; 3000]
}

/// Appends ten records and promises each, after a sync or before it.
fn append_records(storage: &SimStorage, promises: &Acknowledgements<u8>, sync_first: bool) {
    let Ok(mut appender) = storage.create("log") else { return };
    if storage.sync_directory().is_err() {
        return;
    }
    for number in 0..10 {
        if appender.append(&[&record(number)]).is_err() {
            return;
        }
        if !sync_first {
            promises.acknowledge(number);
        }
        if appender.sync().is_err() {
            return;
        }
        if sync_first {
            promises.acknowledge(number);
        }
    }
}

fn check_records(storage: &SimStorage, promised: &[u8]) {
    let bytes = read(storage, "log").unwrap_or_default();
    for number in promised {
        let start = usize::from(*number) * 3000;
        assert_eq!(bytes.get(start..start + 3000), Some(&record(*number)[..]), "record {number}");
    }
}

#[test]
fn what_was_synced_survives_every_crash() {
    let sim = SimStorage::new();
    let states = explore(
        &ExploreOptions::default(),
        &sim,
        |sim, promises| append_records(sim, promises, true),
        |state, promised, _| check_records(state, promised),
    );
    // 22 operations: create, sync of the directory, ten times write and sync.
    assert_eq!(sim.operation_count(), 22);
    assert!(states > 200, "{states}");
}

#[test]
fn a_promise_given_before_the_sync_is_found_broken() {
    let found = catch_unwind(AssertUnwindSafe(|| {
        explore(
            &ExploreOptions::default(),
            &SimStorage::new(),
            |sim, promises| append_records(sim, promises, false),
            |state, promised, _| check_records(state, promised),
        )
    }));
    assert!(found.is_err());
}

#[test]
fn what_was_synced_survives_every_failing_operation() {
    let states = explore_failures(
        &ExploreOptions::default(),
        &SimStorage::new(),
        |sim, promises| append_records(sim, promises, true),
        |state, promised, _| check_records(state, promised),
    );
    assert!(states > 22 * 3, "{states}");
}

#[test]
fn crashes_show_every_kind_of_damage() {
    let sim = SimStorage::new();
    let mut appender = sim.create("log").unwrap();
    sim.sync_directory().unwrap();
    appender.append(&[&[1; 10_000]]).unwrap();
    appender.sync().unwrap();
    appender.append(&[&[2; 16_000]]).unwrap();
    appender.flush().unwrap();
    let options = ExploreOptions { seed: 7, variants: 200 };
    let (mut lost, mut kept, mut torn, mut hole, mut zeros, mut longer) = (0, 0, 0, 0, 0, 0);
    for state in sim.crash_states(sim.operation_count(), &options) {
        let bytes = read(&state, "log").unwrap();
        assert!(bytes[..10_000].iter().all(|byte| *byte == 1), "synced bytes never change");
        let new = &bytes[10_000..];
        let end = new.iter().rposition(|byte| *byte == 2).map_or(0, |last| last + 1);
        let gap = new[..end].contains(&0);
        lost += u32::from(new.is_empty());
        kept += u32::from(end == 16_000 && !gap);
        torn += u32::from(!gap && end > 0 && !(10_000 + end).is_multiple_of(512) && end < 16_000);
        hole += u32::from(gap);
        zeros += u32::from(new.len() == 16_000 && end == 0);
        longer += u32::from(new.len() > 16_000);
    }
    for (count, what) in
        [(lost, "lost"), (kept, "kept"), (torn, "torn"), (hole, "hole"), (zeros, "zeros"), (longer, "longer")]
    {
        assert!(count > 0, "{what} never came");
    }
}

#[test]
fn a_truncate_that_was_not_synced_may_be_undone() {
    let sim = SimStorage::new();
    let mut appender = sim.create("log").unwrap();
    appender.append(&[&[1; 5000]]).unwrap();
    appender.sync().unwrap();
    sim.sync_directory().unwrap();
    appender.truncate(100).unwrap();
    let lens = |sim: &SimStorage| -> Vec<u64> {
        let states = sim.crash_states(sim.operation_count(), &ExploreOptions::default());
        states.map(|state| state.list().unwrap()[0].len).collect()
    };
    let open = lens(&sim);
    assert!(open.contains(&5000) && open.contains(&100), "{open:?}");
    appender.sync().unwrap();
    assert_eq!(lens(&sim), [100]);
}

#[test]
fn what_was_cut_off_may_show_through_what_was_written_in_its_place() {
    let sim = SimStorage::new();
    let mut appender = sim.create("a").unwrap();
    appender.append(&[&[1; 16 << 10]]).unwrap();
    appender.truncate(0).unwrap();
    appender.append(&[&[2; 16 << 10]]).unwrap();
    appender.flush().unwrap();
    let options = ExploreOptions { seed: 2, variants: 300 };
    let states: Vec<Vec<u8>> =
        sim.crash_states(sim.operation_count(), &options).filter_map(|state| read(&state, "a")).collect();
    let pages = |bytes: &[u8]| bytes.chunks(4096).map(|page| page[0]).collect::<Vec<_>>();
    let mixed = states.iter().filter(|bytes| {
        let pages = pages(bytes);
        pages.contains(&1) && pages.contains(&2)
    });
    assert!(mixed.count() > 10, "old pages between new ones");
    appender.sync().unwrap();
    let states = sim.crash_states(sim.operation_count(), &options);
    assert!(states.filter_map(|state| read(&state, "a")).all(|bytes| bytes == [2; 16 << 10]));
}

#[test]
fn a_file_is_lost_with_its_name_until_the_directory_is_synced() {
    let sim = SimStorage::new();
    let mut appender = sim.create("a").unwrap();
    appender.append(&[b"bytes"]).unwrap();
    appender.sync().unwrap();
    let names = |sim: &SimStorage| -> Vec<bool> {
        let states = sim.crash_states(sim.operation_count(), &ExploreOptions::default());
        states.map(|state| read(&state, "a").is_some()).collect()
    };
    assert!(names(&sim).contains(&false) && names(&sim).contains(&true));
    sim.sync_directory().unwrap();
    assert_eq!(names(&sim), [true]);
}

#[test]
fn a_rename_may_arrive_before_the_bytes_of_the_file() {
    let sim = SimStorage::new();
    sim.create("new").unwrap().append(&[&[1; 100]]).unwrap();
    sim.publish_if_absent("current", b"old").unwrap();
    let mut appender = sim.open_append("new").unwrap();
    appender.append(&[&[9; 100]]).unwrap();
    appender.flush().unwrap();
    sim.rename("new", "current").unwrap();
    let states = sim.crash_states(sim.operation_count(), &ExploreOptions::default());
    let found: Vec<Vec<u8>> = states.map(|state| read(&state, "current").unwrap()).collect();
    assert!(found.iter().any(|bytes| bytes.is_empty()));
    assert!(found.iter().any(|bytes| bytes == b"old"));
    assert!(found.iter().any(|bytes| bytes.len() == 100));
}

#[test]
fn names_that_do_not_touch_arrive_in_any_order_but_never_before_their_cause() {
    let sim = SimStorage::new();
    drop(sim.create("a").unwrap());
    sim.rename("a", "b").unwrap();
    drop(sim.create("c").unwrap());
    let (mut only_c, mut only_a) = (false, false);
    for state in sim.crash_states(3, &ExploreOptions { seed: 3, variants: 100 }) {
        let names: Vec<String> = state.list().unwrap().into_iter().map(|entry| entry.name).collect();
        assert!(!(names.contains(&"a".to_owned()) && names.contains(&"b".to_owned())));
        only_c |= names == ["c"];
        only_a |= names == ["a"];
    }
    assert!(only_c && only_a);
}

#[test]
fn a_publication_is_whole_or_absent_and_its_leftovers_are_hidden() {
    let leftovers = Cell::new(0);
    let body = vec![7; 20_000];
    explore(
        &ExploreOptions::default(),
        &SimStorage::new(),
        |sim, promises| {
            sim.publish_if_absent("manifest", &body).unwrap();
            promises.acknowledge(());
        },
        |state, promised, _| {
            match read(state, "manifest") {
                Some(bytes) => assert_eq!(bytes, body),
                None => assert!(promised.is_empty()),
            }
            assert!(state.list().unwrap().iter().all(|entry| entry.name == "manifest"));
            leftovers.set(leftovers.get() + state.remove_leftovers().unwrap());
        },
    );
    assert!(leftovers.get() > 0);
}

#[test]
fn a_failed_sync_is_not_healed_by_a_later_one() {
    let sim = SimStorage::new();
    let mut first = sim.create("log").unwrap();
    sim.sync_directory().unwrap();
    first.append(&[&[1; 6000]]).unwrap();
    sim.fail_at(sim.operation_count() + 1, Failure::Io);
    first.sync().unwrap_err();
    let refused = first.append(&[b"more"]).unwrap_err();
    assert!(matches!(refused, Error::Io { .. }));

    let mut second = sim.open_append("log").unwrap();
    second.append(&[&[2; 6000]]).unwrap();
    second.sync().unwrap();
    let states = sim.crash_states(sim.operation_count(), &ExploreOptions::default());
    let found: Vec<Vec<u8>> = states.map(|state| read(&state, "log").unwrap()).collect();
    assert!(found.iter().all(|bytes| bytes[6000..12_000] == [2; 6000]), "the second sync holds");
    assert!(found.iter().any(|bytes| bytes[..6000] == [0; 6000]), "the first never happened");
}

#[test]
fn a_dead_process_leaves_what_it_had_handed_over_and_no_lock() {
    let sim = SimStorage::new();
    let lock = sim.lock("lock", "process 1").unwrap();
    let refused = sim.lock("lock", "process 2").unwrap_err();
    assert_eq!(refused.to_string(), "/simulated is locked by process 1");
    let mut appender = sim.create("log").unwrap();
    appender.append(&[b"seen"]).unwrap();
    appender.flush().unwrap();
    appender.append(&[b"gathered"]).unwrap();
    sim.die_at(sim.operation_count());
    appender.flush().unwrap_err();
    sim.list().unwrap_err();
    let next = sim.after_process_death();
    assert_eq!(read(&next, "log").unwrap(), b"seen");
    next.lock("lock", "process 2").unwrap();
    drop(lock);
}

#[test]
fn the_same_seed_gives_the_same_states() {
    let states = |seed| -> Vec<String> {
        let sim = SimStorage::new();
        let mut appender = sim.create("log").unwrap();
        appender.append(&[&[1; 50_000]]).unwrap();
        appender.flush().unwrap();
        let states = sim.crash_states(3, &ExploreOptions { seed, variants: 30 });
        states.map(|state| format!("{:?}", read(&state, "log"))).collect()
    };
    assert_eq!(states(1), states(1));
    assert_ne!(states(1), states(2));
}

/// One that was not synced may be lost, and so may one whose sync failed, whatever comes later.
#[test]
fn attributes_are_durable_when_their_file_was_synced() {
    let storage = SimStorage::new();
    let perform = |operation| storage.state().perform(operation);
    let set = |attribute: &str, value: &str| {
        let (attribute, value) = (attribute.to_owned(), Some(value.as_bytes().to_vec()));
        perform(Operation::Set { inode: 1, attribute, value })
    };
    let found = |attribute: &str| {
        let states = storage.crash_states(storage.operation_count(), &ExploreOptions::default());
        let value = |state: SimStorage| {
            let value = state.attributes().get("a")?.get(attribute).cloned();
            value.map(|value| String::from_utf8(value).unwrap())
        };
        states.map(value).collect::<BTreeSet<_>>()
    };
    let one = |value: &str| Some(value.to_owned());
    perform(Operation::Create { name: "a".into(), inode: 1 }).unwrap();
    perform(Operation::SyncDirectory).unwrap();
    set("mode", "600").unwrap();
    perform(Operation::Sync { inode: 1 }).unwrap();
    set("mode", "644").unwrap();
    assert_eq!(found("mode"), BTreeSet::from([one("600"), one("644")]));
    perform(Operation::Sync { inode: 1 }).unwrap();
    assert_eq!(found("mode"), BTreeSet::from([one("644")]));
    set("mtime", "7").unwrap();
    storage.fail_at(storage.operation_count(), Failure::Io);
    perform(Operation::Sync { inode: 1 }).unwrap_err();
    perform(Operation::Sync { inode: 1 }).unwrap();
    assert_eq!(found("mtime"), BTreeSet::from([None, one("7")]));
    assert_eq!(found("mode"), BTreeSet::from([one("644")]));
}
