//! Packs: a `BTreeMap` to compare one with, a machine whose clock and chance are chosen, and every
//! way of reading a pack held against the map.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use stook::engine::{Completion, Engine, EngineFactory, Request};
use stook::extent::ByteRange;
use stook::pack::{
    Error, Host, Key, KeyRange, Kinds, MapRule, OnDamage, OpenOptions, OrdinalOptions, Pack, Scan,
    ScanOptions, ScanOrder, WriterOptions,
};
use stook::source::Source as _;
use stook::storage::Storage;

use crate::conformance::pattern;
use crate::sim::SimStorage;

/// The contents of a pack: the body of every live key.
pub type PackModel = BTreeMap<Key, Vec<u8>>;

/// A machine whose clock is set by the test, and whose randomness depends only on a seed.
#[derive(Debug)]
pub struct ScriptedHost {
    state: Mutex<(i64, u64)>,
}

impl ScriptedHost {
    /// A machine whose nonces differ from those of other seeds.
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new((1_000, seed << 32)) })
    }

    /// Puts the clock to a time, ns.
    pub fn set_clock(&self, now_ns: i64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 = now_ns;
    }
}

impl Host for ScriptedHost {
    fn now_ns(&self) -> i64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn random(&self, bytes: &mut [u8]) -> stook::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        bytes.copy_from_slice(&pattern(bytes.len(), state.1));
        Ok(())
    }

    fn describe(&self) -> String {
        "a test".into()
    }
}

/// Makes engines that never get a request: simulated files are read without one.
#[derive(Debug, Clone, Copy)]
pub struct NoEngines;

#[derive(Debug)]
struct NoEngine(usize);

impl EngineFactory for NoEngines {
    fn build(&self, depth: usize) -> stook::Result<Box<dyn Engine>> {
        Ok(Box::new(NoEngine(depth)))
    }
}

impl Engine for NoEngine {
    fn name(&self) -> &'static str {
        "none"
    }

    fn depth(&self) -> usize {
        self.0
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn submit(&mut self, request: Request) {
        panic!("{request:?} was submitted, though its file is simulated");
    }

    fn reap(&mut self, _: usize, _: &mut Vec<Completion>) -> stook::Result<()> {
        Ok(())
    }

    fn reap_until(&mut self, _: usize, _: Instant, _: &mut Vec<Completion>) -> stook::Result<()> {
        Ok(())
    }
}

/// Options for a pack in a [`SimStorage`]: 4 KiB chunks, and segments and checkpoints so short that
/// a few records fill them.
pub fn tiny_writer(host: Arc<dyn Host>) -> WriterOptions {
    WriterOptions {
        chunk_log2: 12,
        segment_len: 64 << 10,
        checkpoint_len: 8 << 10,
        engines: Arc::new(NoEngines),
        host,
        ..WriterOptions::default()
    }
}

/// Opens the pack in a simulated storage.
///
/// # Errors
/// Returns the errors of [`Pack::open`].
pub fn open_simulated(storage: &SimStorage) -> Result<Pack, Error> {
    open_simulated_with(storage, MapRule::Never)
}

/// The same, its sealed segments mapped.
///
/// # Errors
/// Returns the errors of [`Pack::open`].
pub fn open_simulated_mapped(storage: &SimStorage) -> Result<Pack, Error> {
    open_simulated_with(storage, MapRule::Sealed)
}

fn open_simulated_with(storage: &SimStorage, map: MapRule) -> Result<Pack, Error> {
    let options = OpenOptions { engines: Arc::new(NoEngines), map, ..OpenOptions::default() };
    Pack::open(Arc::new(storage.clone()) as Arc<dyn Storage>, options)
}

/// All live records, as a scan returns them.
///
/// # Errors
/// Returns the errors of the scan.
///
/// # Panics
/// Panics if a key is returned twice.
pub fn scanned(pack: &Pack) -> Result<PackModel, Error> {
    let mut all = PackModel::new();
    for (key, body) in rest_of(pack.scan(ScanOptions::default()))? {
        assert!(all.insert(key.clone(), body).is_none(), "{key} is scanned twice");
    }
    Ok(all)
}

/// The next record of a scan, with its whole body.
///
/// # Errors
/// Returns the errors of the scan.
///
/// # Panics
/// Panics if it returns a record without a key.
pub fn next_of(scan: &mut Scan<'_>) -> Result<Option<(Key, Vec<u8>)>, Error> {
    let Some(record) = scan.next()? else { return Ok(None) };
    let key = record.key().expect("a record has a key");
    if let Some(body) = record.body() {
        return Ok(Some((key, body.to_vec())));
    }
    let mut long = Vec::new();
    while let Some(chunk) = scan.next_chunk()? {
        long.extend_from_slice(chunk);
    }
    Ok(Some((key, long)))
}

/// The remaining records of a scan, in its order.
///
/// # Errors
/// Returns the errors of the scan.
pub fn rest_of(mut scan: Scan<'_>) -> Result<Vec<(Key, Vec<u8>)>, Error> {
    let mut all = Vec::new();
    while let Some(record) = next_of(&mut scan)? {
        all.push(record);
    }
    Ok(all)
}

/// Compares scans by key, of a range, and by splits with the model.
fn assert_scans(pack: &Pack, model: &PackModel) {
    let by_key = || ScanOptions { order: ScanOrder::Key, ..ScanOptions::default() };
    let all = rest_of(pack.scan(by_key())).expect("a scan by key");
    assert!(all.iter().map(|(key, body)| (key, body)).eq(model), "a scan by key gives other records");
    let Some(first) = model.keys().nth(model.len() / 3) else { return };
    let wanted = || model.range(first..);
    let keys = KeyRange::all().from(first);
    let some = rest_of(pack.scan(ScanOptions { keys: keys.clone(), ..by_key() })).expect("a scan of a range");
    assert!(some.iter().map(|(key, body)| (key, body)).eq(wanted()), "a range by key has other records");
    let some = rest_of(pack.scan(ScanOptions { keys, ..ScanOptions::default() })).expect("a scan of a range");
    let some: PackModel = some.into_iter().collect();
    assert!(some.iter().eq(wanted()), "a range on disk has other records");
    let mut whole = Vec::new();
    for split in pack.splits(3, &[]).expect("splits") {
        let scan = pack.scan_split(&split, ScanOptions::default()).expect("a split of this pack");
        whole.extend(rest_of(scan).expect("a scan of a split"));
    }
    assert_eq!(whole.len(), model.len(), "splits overlap or leave something out");
    assert!(whole.into_iter().collect::<PackModel>() == *model, "splits give other records");
}

/// Compares every way of reading an intact pack with its model.
///
/// # Panics
/// Panics if one differs.
pub fn assert_holds(pack: &Pack, model: &PackModel) {
    assert_eq!(pack.damages(), &[]);
    let listed: Vec<Key> = pack.keys(&[]).expect("keys").map(|entry| entry.expect("a key").key).collect();
    assert!(listed.iter().eq(model.keys()), "{listed:?} are listed, {:?} were put", model.keys());
    assert_eq!(pack.len(), model.len() as u64);
    assert!(scanned(pack).expect("a scan") == *model, "a scan gives other records");
    assert_scans(pack, model);
    let records = pack.get_many(&listed).expect("a batch");
    for ((key, body), record) in model.iter().zip(records) {
        let record = record.expect("a record").expect("a listed key has a record");
        assert!(record.head.key == *key && record.body == body, "{key} is another in a batch");
        let single = pack.get(key).expect("a record");
        assert!(single.is_some_and(|single| single.body == body), "{key} is another alone");
    }
    let loaded = pack.load(&ScanOptions::default()).expect("it loads");
    let held: PackModel =
        loaded.iter().map(|record| (record.key().expect("a key"), record.body.to_vec())).collect();
    assert!(held == *model && loaded.len() == model.len(), "other records are loaded");
    let report = pack.check(|_| {}).expect("it is checked");
    assert_eq!(report.damages, []);
    assert_eq!(report.live_records, model.len() as u64);
}

/// The same in the ways that show most and cost least, for tests with thousands of states.
///
/// # Panics
/// Panics if one differs.
pub fn assert_holds_briefly(pack: &Pack, model: &PackModel) {
    assert_eq!(pack.damages(), &[]);
    let listed: Vec<Key> = pack.keys(&[]).expect("keys").map(|entry| entry.expect("a key").key).collect();
    assert!(listed.iter().eq(model.keys()), "{listed:?} are listed, {:?} were put", model.keys());
    assert!(scanned(pack).expect("a scan") == *model, "a scan gives other records");
    let report = pack.check(|_| {}).expect("it is checked");
    assert_eq!((report.damages.to_vec(), report.live_records), (Vec::new(), model.len() as u64));
}

/// What a damaged pack still returns: every damage that it reports in any way, and its records. A
/// refused record is reported and not returned.
#[derive(Debug, Default)]
pub struct ReadReport {
    /// The records that were given, by whichever way gave them.
    pub given: Vec<(Key, Vec<u8>)>,
    /// Everything that was said to be wrong.
    pub complaints: Vec<String>,
}

/// In how many ways [`read_in_every_way`] reads each record.
pub const WAYS: usize = 8;

/// Reads all it can of a pack in every way: `keys` one by one, as a batch and by range, the list of
/// keys, scans on disk, by key and by splits, a load and ordinals that skip damage, a check.
pub fn read_in_every_way(pack: &Pack, keys: &[Key]) -> ReadReport {
    let mut reported = ReadReport::default();
    reported.complaints.extend(pack.damages().iter().map(ToString::to_string));
    reported.complaints.extend(pack.torn_tails().iter().map(|torn| format!("{torn:?}")));
    for key in keys {
        match pack.get(key) {
            Ok(Some(record)) => reported.given.push((record.head.key, record.body.to_vec())),
            Ok(None) => {}
            Err(error) => reported.complaints.push(format!("get: {error}")),
        }
    }
    match pack.get_many(keys) {
        Err(error) => reported.complaints.push(format!("get_many: {error}")),
        Ok(records) => {
            for record in records {
                match record {
                    Ok(Some(record)) => reported.given.push((record.head.key, record.body.to_vec())),
                    Ok(None) => {}
                    Err(error) => reported.complaints.push(format!("get_many: {error}")),
                }
            }
        }
    }
    for key in keys {
        match read_by_range(pack, key) {
            Ok(record) => reported.given.extend(record),
            Err(error) => reported.complaints.push(format!("by range: {error}")),
        }
    }
    match pack.keys(&[]) {
        Err(error) => reported.complaints.push(format!("keys: {error}")),
        Ok(all) => {
            reported.complaints.extend(all.filter_map(Result::err).map(|error| format!("keys: {error}")))
        }
    }
    scan_what_is_whole(pack, &mut reported);
    load_what_is_whole(pack, &mut reported);
    read_by_ordinal(pack, &mut reported);
    reported.complaints.extend(pack.damages().iter().map(ToString::to_string));
    match pack.check(|_| {}) {
        Err(error) => reported.complaints.push(format!("check: {error}")),
        Ok(report) => {
            reported.complaints.extend(report.damages.iter().map(|damage| format!("check: {damage}")))
        }
    }
    reported
}

fn read_by_ordinal(pack: &Pack, reported: &mut ReadReport) {
    let options =
        OrdinalOptions { kinds: Kinds::ALL, on_damage: OnDamage::Skip, ..OrdinalOptions::default() };
    let read = pack.ordinals(&options).and_then(|ordinals| {
        reported.complaints.extend(ordinals.damages().iter().map(|damage| format!("ordinals: {damage}")));
        pack.get_at(&ordinals, &(0..ordinals.len()).collect::<Vec<_>>())
    });
    match read {
        Err(error) => reported.complaints.push(format!("ordinals: {error}")),
        Ok(records) => {
            for record in records {
                match record {
                    Ok(record) => reported.given.push((record.head.key, record.body.to_vec())),
                    Err(error) => reported.complaints.push(format!("ordinals: {error}")),
                }
            }
        }
    }
}

/// Reads a record in ranges that are not chunks.
fn read_by_range(pack: &Pack, key: &Key) -> Result<Option<(Key, Vec<u8>)>, Error> {
    let Some(record) = pack.open_source(key)? else { return Ok(None) };
    let len = record.len();
    let ranges = (0..len).step_by(3000).filter_map(|at| ByteRange::new(at, (at + 3000).min(len)));
    let mut body = Vec::new();
    for bytes in record.read_many(&ranges.collect::<Vec<_>>())? {
        body.extend_from_slice(&bytes?);
    }
    Ok(Some((record.head().key.clone(), body)))
}

fn scan_what_is_whole(pack: &Pack, reported: &mut ReadReport) {
    let skipping = || ScanOptions { on_damage: OnDamage::Skip, ..ScanOptions::default() };
    take_what_is_whole("scan", pack.scan(skipping()), reported);
    take_what_is_whole("by key", pack.scan(ScanOptions { order: ScanOrder::Key, ..skipping() }), reported);
    let splits = match pack.splits(4, &[]) {
        Ok(splits) => splits,
        Err(error) => return reported.complaints.push(format!("splits: {error}")),
    };
    for split in &splits {
        match pack.scan_split(split, skipping()) {
            Ok(scan) => take_what_is_whole("split", scan, reported),
            Err(error) => reported.complaints.push(format!("split: {error}")),
        }
    }
}

fn take_what_is_whole(what: &str, mut scan: Scan<'_>, reported: &mut ReadReport) {
    loop {
        let (key, body) = match scan.next() {
            Err(error) => return reported.complaints.push(format!("{what}: {error}")),
            Ok(None) => break,
            Ok(Some(record)) => (record.key(), record.body().map(<[u8]>::to_vec)),
        };
        let Some(key) = key else { continue };
        let mut long = Vec::new();
        let body = match body {
            Some(body) => Ok(body),
            None => loop {
                match scan.next_chunk() {
                    Err(error) => break Err(error),
                    Ok(None) => break Ok(long),
                    Ok(Some(chunk)) => long.extend_from_slice(chunk),
                }
            },
        };
        match body {
            Ok(body) => reported.given.push((key, body)),
            Err(error) => reported.complaints.push(format!("{what}: {error}")),
        }
    }
    reported.complaints.extend(scan.damages().iter().map(|damage| format!("{what}: {damage}")));
}

fn load_what_is_whole(pack: &Pack, reported: &mut ReadReport) {
    match pack.load(&ScanOptions { on_damage: OnDamage::Skip, ..ScanOptions::default() }) {
        Err(error) => reported.complaints.push(format!("load: {error}")),
        Ok(loaded) => {
            let records = loaded.iter().filter_map(|record| Some((record.key()?, record.body.to_vec())));
            reported.given.extend(records);
            reported.complaints.extend(loaded.damages().iter().map(|damage| format!("load: {damage}")));
        }
    }
}
