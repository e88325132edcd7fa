//! Power fails, processes die, calls fail, at every single operation: what was acknowledged is
//! there afterwards, and what was not is there whole or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use stook::pack::{Attributes, CompactOptions, Error, Key, PackWriter, Result, WriterOptions};
use stook::storage::Storage;
use stook_testing::conformance::pattern;
use stook_testing::model::pack::{
    PackModel, ScriptedHost, assert_holds, assert_holds_briefly, open_simulated, scanned, tiny_writer,
};
use stook_testing::sim::{
    Acknowledgements, CrashPoint, ExploreOptions, SimStorage, explore, explore_failures,
};

/// What is done: the key of each version, from 1 on. In between, promises are made.
const KEYS: [u8; 30] =
    [0, 1, 3, 0, 4, 1, 5, 3, 2, 0, 1, 4, 3, 2, 2, 1, 3, 3, 5, 0, 1, 4, 0, 2, 5, 4, 3, 0, 2, 1];

/// Versions that are deletions of their key.
const DELETIONS: [u64; 7] = [4, 8, 12, 15, 20, 21, 26];

/// Both are put by batches only, with the version of the batch. The second batch deletes [`ALONE`].
const PAIR: [u8; 2] = [20, 21];
const ALONE: u8 = 23;
const LAST_BATCH: u64 = 1002;

/// Put by the last batches of group `c` only, each of whose frames takes a page. [`DROPPED`] is
/// written in part and dropped; [`AFTER_DROPPED`] is written in its place.
const PAGES: [u8; 3] = [30, 32, 34];
const DROPPED: u64 = 2001;
const AFTER_DROPPED: u64 = 2002;
/// A frame but its body: header, key, one checksum.
const AROUND: usize = 40 + 8 + 4;
const MARK: usize = 40 + 24;

/// The newest version of every key that was promised to be safe.
type Promise = BTreeMap<u8, u64>;

fn shared(storage: &SimStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

fn options(seed: u64) -> WriterOptions {
    WriterOptions { segment_len: 40 << 10, checkpoint_len: 6 << 10, ..tiny_writer(ScriptedHost::new(seed)) }
}

fn key(number: u8) -> Key {
    if number.is_multiple_of(2) { Key::id(u64::from(number)) } else { Key::bytes([number; 5]).unwrap() }
}

/// Every version has a distinct body, so that a found body identifies it.
fn body(number: u8, version: u64) -> Vec<u8> {
    if PAGES.contains(&number) {
        let len = 4096 - AROUND - if version == 1 { MARK } else { 0 };
        let mut body = pattern(len - 8, u64::from(number) << 32 | version);
        body.extend(version.to_le_bytes());
        return body;
    }
    let len = [700, 0, 4096, 5000, 9001, 40][(usize::from(number) + version as usize) % 6];
    let mut body = pattern(len, u64::from(number) << 32 | version);
    body.extend(version.to_le_bytes());
    body
}

fn version(number: u8, found: &[u8]) -> u64 {
    let version = found.last_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)).unwrap();
    assert!(found == body(number, version), "{number} is not any version of what was put");
    version
}

/// A workload: puts in two groups, and acknowledgements of the puts so far.
struct Work<'a> {
    writer: PackWriter,
    given: &'a Acknowledgements<Promise>,
    put: Promise,
    count: u64,
}

impl Work<'_> {
    /// The next versions of [`KEYS`].
    fn next(&mut self, count: usize) -> Result<()> {
        (0..count).try_for_each(|_| self.version(KEYS[self.count as usize]))
    }

    fn version(&mut self, number: u8) -> Result<()> {
        self.count += 1;
        if DELETIONS.contains(&self.count) {
            assert!(self.writer.delete(&key(number))?, "version {} deletes nothing", self.count);
            self.put.insert(number, self.count);
            return Ok(());
        }
        let (group, body) = (if number < 3 { "a" } else { "b" }, body(number, self.count));
        match self.count % 4 {
            0 | 1 => drop(self.writer.put(group, &key(number), &Attributes::new(), &body)?),
            rest => {
                let announced = (rest == 2).then_some(body.len() as u64);
                let mut record = self.writer.begin(group, &key(number), &Attributes::new(), announced)?;
                body.chunks(3000).try_for_each(|part| record.write(part))?;
                record.finish()?;
            }
        }
        self.put.insert(number, self.count);
        Ok(())
    }

    /// Version 1001 or 1002 of both keys of the pair.
    fn batch(&mut self, version: u64) -> Result<()> {
        let mut batch = self.writer.batch("a")?;
        for number in PAIR {
            batch.put(&key(number), &Attributes::new(), &body(number, version))?;
        }
        if version == LAST_BATCH {
            assert!(batch.delete(&key(ALONE))?);
        }
        batch.commit()?;
        self.put.extend(PAIR.map(|number| (number, version)));
        if version == LAST_BATCH {
            self.put.remove(&ALONE);
        }
        Ok(())
    }

    /// A batch that is dropped when a part of it was written, and one whose frames lie where those
    /// of the other did.
    fn batch_over_a_dropped_one(&mut self) -> Result<()> {
        self.writer.put("c", &key(PAGES[0]), &Attributes::new(), &body(PAGES[0], 1))?;
        self.writer.sync()?;
        self.put.insert(PAGES[0], 1);
        // A sync mark follows the first, whose segment is about to be named, and precedes each of
        // the others, so that what follows begins at a page.
        for number in [PAGES[1], PAGES[2]] {
            self.writer.put("c", &key(number), &Attributes::new(), &body(number, 1))?;
            self.put.insert(number, 1);
        }
        for (version, keys) in [(DROPPED, &PAGES.repeat(2)[..]), (AFTER_DROPPED, &PAGES[..])] {
            let mut batch = self.writer.batch("c")?;
            for &number in keys {
                batch.put(&key(number), &Attributes::new(), &body(number, version))?;
            }
            if version == AFTER_DROPPED {
                batch.commit()?;
            }
        }
        self.put.extend(PAGES.map(|number| (number, AFTER_DROPPED)));
        self.writer.sync()
    }

    /// In several steps, with readers that hold what is replaced.
    fn compact(&mut self) -> Result<()> {
        let options = CompactOptions { extra_len: 40 << 10, memory_len: 9000, ..CompactOptions::default() };
        assert!(self.writer.compact(&options, &mut |_| true)?.steps > 1, "more than one step");
        Ok(())
    }

    fn acknowledge(&self) {
        self.given.acknowledge(self.put.clone());
    }
}

/// Creates a pack, lets segments roll and checkpoints appear, overwrites, reopens, seals.
fn work(storage: &SimStorage, given: &Acknowledgements<Promise>) -> Result<()> {
    let writer = PackWriter::create(shared(storage), options(1))?;
    let mut work = Work { writer, given, put: Promise::new(), count: 0 };
    work.next(5)?;
    work.writer.sync()?;
    work.acknowledge();
    work.next(6)?;
    work.batch(1001)?;
    work.writer.publish()?;
    work.acknowledge();
    for _ in 0..5 {
        work.next(1)?;
        work.writer.sync()?;
        work.acknowledge();
    }
    let Work { writer, put, count, .. } = work;
    writer.finish(false)?;
    let mut work = Work { writer: PackWriter::open(shared(storage), options(2))?, given, put, count };
    work.next(8)?;
    work.compact()?;
    work.acknowledge();
    work.writer.put("b", &key(ALONE), &Attributes::new(), &body(ALONE, 1))?;
    work.put.insert(ALONE, 1);
    work.writer.sync()?;
    work.acknowledge();
    work.writer.batch("a")?.put(&key(PAIR[0]), &Attributes::new(), b"dropped")?;
    work.batch(LAST_BATCH)?;
    work.writer.sync()?;
    work.acknowledge();
    work.batch_over_a_dropped_one()?;
    work.acknowledge();
    for _ in 0..2 {
        work.next(2)?;
        work.writer.sync()?;
        work.acknowledge();
    }
    work.next(2)?;
    work.compact()?;
    work.acknowledge();
    let put = work.put.clone();
    work.writer.set_complete(true);
    work.writer.finish(true)?;
    given.acknowledge(put);
    Ok(())
}

/// Which version of every key a pack holds.
fn versions(storage: &SimStorage) -> (Promise, PackModel) {
    let pack = open_simulated(storage).unwrap();
    let held = scanned(&pack).unwrap();
    assert_holds_briefly(&pack, &held);
    let number = |wanted: &Key| (0..=u8::MAX).find(|&number| key(number) == *wanted).unwrap();
    let found: Promise = held.iter().map(|(key, body)| (number(key), version(number(key), body))).collect();
    assert_eq!(found.get(&PAIR[0]), found.get(&PAIR[1]), "half of a batch");
    let deleted = found.get(&PAIR[0]) == Some(&LAST_BATCH);
    assert!(!(deleted && found.contains_key(&ALONE)), "half of a batch");
    let pages = PAGES.map(|number| found.get(&number).copied());
    let is_after = pages.map(|version| version == Some(AFTER_DROPPED));
    assert!(is_after == [true; 3] || is_after == [false; 3], "half of a batch: {pages:?}");
    assert!(!pages.contains(&Some(DROPPED)), "of a batch that was dropped: {pages:?}");
    (found, held)
}

fn assert_kept(found: &Promise, promises: &[Promise]) {
    let Some(promise) = promises.last() else { return };
    for (number, version) in promise {
        let kept = match found.get(number) {
            Some(found) => found >= version && !DELETIONS.contains(found),
            // Deleted by what was promised or by something later.
            None if *number == ALONE => found.get(&PAIR[0]) == Some(&LAST_BATCH),
            None => DELETIONS
                .iter()
                .any(|deletion| deletion >= version && KEYS[*deletion as usize - 1] == *number),
        };
        assert!(kept, "version {version} of {number} was acknowledged, {:?} is there", found.get(number));
    }
}

/// Opens for reading, then for writing, continues, finishes; no existing record may vanish.
fn recovers(state: &SimStorage, promises: &[Promise], _: &CrashPoint) {
    let (found, held) = match open_simulated(state) {
        Err(Error::NotAPack { .. }) => {
            assert!(promises.is_empty());
            let writer = PackWriter::create(shared(state), options(3)).unwrap();
            writer.finish(true).unwrap();
            return assert_holds(&open_simulated(state).unwrap(), &PackModel::new());
        }
        _ => versions(state),
    };
    assert_kept(&found, promises);
    let mut writer = PackWriter::open(shared(state), options(4)).unwrap();
    assert_eq!(writer.recovery().damages, []);
    assert_eq!(versions(state).0, found, "a writer changes nothing by opening");
    writer.put("a", &key(9), &Attributes::new(), &body(9, 1)).unwrap();
    writer.put("b", &key(10), &Attributes::new(), &body(10, 2)).unwrap();
    writer.sync().unwrap();
    let mut more = held;
    more.insert(key(9), body(9, 1));
    more.insert(key(10), body(10, 2));
    for again in state.crash_states(state.operation_count(), &ExploreOptions { seed: 7, variants: 2 }) {
        assert_holds_briefly(&open_simulated(&again).unwrap(), &more);
    }
    drop(writer);
    let mut writer = PackWriter::open(shared(state), options(5)).unwrap();
    assert_eq!(writer.recovery().torn, [], "what was mended stays mended");
    writer.put("a", &key(9), &Attributes::new(), &body(9, 3)).unwrap();
    writer.finish(true).unwrap();
    more.insert(key(9), body(9, 3));
    assert_holds(&open_simulated(state).unwrap(), &more);
}

#[test]
fn a_crash_at_any_operation_loses_nothing_acknowledged() {
    let exploring = ExploreOptions { seed: 3, variants: 9 };
    let checked =
        explore(&exploring, &SimStorage::new(), |storage, given| work(storage, given).unwrap(), recovers);
    assert!(checked > 500, "{checked}");
}

#[test]
fn a_failure_or_death_at_any_operation_loses_nothing_acknowledged() {
    let exploring = ExploreOptions { seed: 5, variants: 2 };
    let run = |storage: &SimStorage, given: &Acknowledgements<Promise>| drop(work(storage, given));
    let checked = explore_failures(&exploring, &SimStorage::new(), run, recovers);
    assert!(checked > 500, "{checked}");
}

#[test]
fn what_is_left_of_a_batch_that_was_dropped_never_passes_for_members_of_a_later_one() {
    let storage = SimStorage::new();
    let given = Acknowledgements::none(&storage);
    let writer = PackWriter::create(shared(&storage), options(1)).unwrap();
    let mut work = Work { writer, given: &given, put: Promise::new(), count: 0 };
    work.batch_over_a_dropped_one().unwrap();
    let cut = storage
        .operations()
        .iter()
        .rposition(|done| matches!(done.operation, stook_testing::sim::Operation::Truncate { .. }));
    let cut = cut.unwrap();
    let at = |index: usize| storage.operations().get(index).map(|done| done.operation.to_string());
    assert_eq!(at(cut).unwrap(), "truncate inode 3 to 16384");
    assert_eq!(at(cut + 1).unwrap(), "write 12352 bytes at 16384 of inode 3");
    let (mut whole, mut absent) = (0, 0);
    for operation in cut..=cut + 3 {
        for state in storage.crash_states(operation, &ExploreOptions { seed: 11, variants: 400 }) {
            let (found, _) = versions(&state);
            let is_there = found.get(&PAGES[2]) == Some(&AFTER_DROPPED);
            *(if is_there { &mut whole } else { &mut absent }) += 1;
            let writer = PackWriter::open(shared(&state), options(4)).unwrap();
            assert_eq!(writer.recovery().damages, [], "what never was durable is no damage");
        }
    }
    assert!(whole > 20 && absent > 200, "{whole} states have it, {absent} do not");
}
