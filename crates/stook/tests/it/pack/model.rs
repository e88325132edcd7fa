//! A pack against a `BTreeMap`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use stook::pack::{
    Attributes, CompactOptions, Error, Key, MapRule, OpenOptions, Pack, PackWriter, Result, WriterOptions,
};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::pattern;
use stook_testing::model::pack::{NoEngines, PackModel, ScriptedHost, assert_holds, tiny_writer};
use stook_testing::sim::SimStorage;

#[derive(Debug, Clone)]
enum Step {
    Put {
        group: u8,
        key: u8,
        len: usize,
    },
    Stream {
        group: u8,
        key: u8,
        len: usize,
        announced: bool,
    },
    /// A streamed record that is let go half-way.
    GiveUp {
        group: u8,
        key: u8,
        len: usize,
        announced: bool,
    },
    Delete {
        key: u8,
    },
    /// Puts (with a length) and deletions in one batch.
    Batch {
        group: u8,
        members: Vec<(u8, Option<usize>)>,
        commit: bool,
    },
    Sync,
    Publish,
    Reopen,
    Finish {
        all: bool,
    },
    /// What died within the last `keep` steps stays.
    Compact {
        keep: u8,
        extra_len: u64,
        memory_len: usize,
    },
    /// A reader opens the pack and keeps it open.
    Look,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len =
        || prop_oneof![Just(0_usize), 1..300_usize, Just(4095), Just(4096), Just(4097), 0..20_000_usize];
    let step = prop_oneof![
        8 => (0..3_u8, 0..12_u8, len()).prop_map(|(group, key, len)| Step::Put { group, key, len }),
        4 => (0..3_u8, 0..12_u8, len(), any::<bool>())
            .prop_map(|(group, key, len, announced)| Step::Stream { group, key, len, announced }),
        1 => (0..3_u8, 0..12_u8, len(), any::<bool>())
            .prop_map(|(group, key, len, announced)| Step::GiveUp { group, key, len, announced }),
        4 => (0..12_u8).prop_map(|key| Step::Delete { key }),
        3 => (0..3_u8, prop::collection::vec((0..12_u8, prop::option::weighted(0.7, len())), 0..6), any::<bool>())
            .prop_map(|(group, members, commit)| Step::Batch { group, members, commit }),
        2 => Just(Step::Sync),
        1 => Just(Step::Publish),
        1 => Just(Step::Reopen),
        1 => any::<bool>().prop_map(|all| Step::Finish { all }),
        2 => (prop_oneof![Just(0_u8), 0..20_u8], prop_oneof![Just(u64::MAX), Just(30_000_u64)], 1..50_000_usize)
            .prop_map(|(keep, extra_len, memory_len)| Step::Compact { keep, extra_len, memory_len }),
        2 => Just(Step::Look),
    ];
    prop::collection::vec(step, 1..48)
}

fn key(number: u8) -> Key {
    match number % 3 {
        0 => Key::id(u64::from(number)),
        1 => Key::bytes(format!("dir/{number}")).unwrap(),
        _ => Key::bytes(vec![number; usize::from(number) * 40]).unwrap(),
    }
}

/// The clock moves so far with every step.
const STEP_NS: i64 = 1_000;

/// A pack that is being written, and its model.
struct Modelled {
    writer: Option<PackWriter>,
    model: PackModel,
    count: u64,
    host: Arc<ScriptedHost>,
    now_ns: i64,
    /// Its contents after each step, as far as its history is to be kept.
    history: Vec<(i64, PackModel)>,
    /// The last two that looked, and what they saw.
    readers: Vec<(Pack, PackModel)>,
}

impl Modelled {
    fn step(
        &mut self,
        step: &Step,
        open: &dyn Fn() -> PackWriter,
        look: &dyn Fn(Option<i64>) -> Result<Pack>,
    ) {
        self.count += 1;
        self.now_ns += STEP_NS;
        self.host.set_clock(self.now_ns);
        let writer = self.writer.get_or_insert_with(open);
        match step {
            Step::Put { group, key: number, len } => {
                let body = pattern(*len, self.count);
                writer.put(&format!("g{group}"), &key(*number), &Attributes::new(), &body).unwrap();
                self.model.insert(key(*number), body);
            }
            Step::Stream { group, key: number, len, announced } => {
                let body = pattern(*len, self.count);
                let announced = announced.then_some(*len as u64);
                let group = format!("g{group}");
                let mut record = writer.begin(&group, &key(*number), &Attributes::new(), announced).unwrap();
                body.chunks(1_777).for_each(|part| record.write(part).unwrap());
                record.finish().unwrap();
                self.model.insert(key(*number), body);
            }
            Step::GiveUp { group, key: number, len, announced } => {
                let announced = announced.then_some(*len as u64 + 1);
                let group = format!("g{group}");
                let mut record = writer.begin(&group, &key(*number), &Attributes::new(), announced).unwrap();
                record.write(&pattern(*len, self.count)).unwrap();
            }
            Step::Delete { key: number } => {
                let was_there = self.model.remove(&key(*number)).is_some();
                assert_eq!(writer.delete(&key(*number)).unwrap(), was_there);
            }
            Step::Batch { group, members, commit } => {
                batch(writer, (*group, members, *commit), &mut self.model, &mut self.count);
            }
            Step::Sync => writer.sync().unwrap(),
            Step::Publish => writer.publish().unwrap(),
            Step::Reopen => {
                writer.sync().unwrap();
                self.writer = None;
            }
            Step::Finish { all } => self.writer.take().unwrap().finish(*all).unwrap(),
            Step::Compact { keep, extra_len, memory_len } => {
                let keep_ns = i64::from(*keep) * STEP_NS;
                compact(writer, keep_ns, (*extra_len, *memory_len));
                self.history.retain(|(time_ns, _)| *time_ns >= self.now_ns - keep_ns);
            }
            Step::Look => {
                writer.sync().unwrap();
                self.readers.truncate(1);
                self.readers.insert(0, (look(None).unwrap(), self.model.clone()));
            }
        }
        self.history.push((self.now_ns, self.model.clone()));
        if let Some(writer) = &self.writer {
            let number = key((self.count % 12) as u8);
            assert_eq!(writer.contains(&number).unwrap(), self.model.contains_key(&number));
        }
    }

    /// The newest state, some earlier ones, and what readers that opened it before see.
    fn check(&self, look: &dyn Fn(Option<i64>) -> Result<Pack>) {
        assert_holds(&look(None).unwrap(), &self.model);
        for (reader, seen) in &self.readers {
            assert_holds(reader, seen);
        }
        for (time_ns, model) in self.history.iter().rev().step_by(3) {
            match look(Some(*time_ns)) {
                Ok(pack) => assert_holds(&pack, model),
                // There was nothing yet, ever.
                Err(Error::NoSuchState { what, .. }) if what.contains("first of its records") => {
                    assert!(
                        self.history.iter().all(|(then_ns, model)| then_ns > time_ns || model.is_empty())
                    );
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn batch(
    writer: &mut PackWriter,
    (group, members, commit): (u8, &[(u8, Option<usize>)], bool),
    model: &mut PackModel,
    count: &mut u64,
) {
    let mut after = model.clone();
    let mut batch = writer.batch(&format!("g{group}")).unwrap();
    for (number, len) in members {
        *count += 1;
        let key = key(*number);
        if let Some(len) = len {
            let body = pattern(*len, *count);
            batch.put(&key, &Attributes::new(), &body).unwrap();
            after.insert(key, body);
        } else {
            assert_eq!(batch.delete(&key).unwrap(), after.remove(&key).is_some());
        }
    }
    if commit {
        batch.commit().unwrap();
        *model = after;
    }
}

fn compact(writer: &mut PackWriter, keep_ns: i64, (extra_len, memory_len): (u64, usize)) {
    let keep = Duration::from_nanos(keep_ns as u64);
    let options = CompactOptions { keep, extra_len, memory_len, ..CompactOptions::default() };
    let done = writer.compact(&options, &mut |_| true).unwrap();
    assert_eq!((done.interrupted, &done.left_out[..]), (false, &[][..]));
}

fn follows_the_model(
    storage: &Arc<dyn Storage>,
    (options, host): (&WriterOptions, Arc<ScriptedHost>),
    steps: &[Step],
    look: &dyn Fn(Option<i64>) -> Result<Pack>,
) {
    let open = || {
        let writer = PackWriter::open(storage.clone(), options.clone()).unwrap();
        assert_eq!((&writer.recovery().torn[..], &writer.recovery().damages[..]), (&[][..], &[][..]));
        writer
    };
    let writer = PackWriter::create(storage.clone(), options.clone()).unwrap();
    let mut pack = Modelled {
        writer: Some(writer),
        model: PackModel::new(),
        count: 0,
        host,
        now_ns: 0,
        history: Vec::new(),
        readers: Vec::new(),
    };
    for step in steps {
        pack.step(step, &open, look);
        let is_reported = matches!(
            step,
            Step::Sync
                | Step::Publish
                | Step::Reopen
                | Step::Finish { .. }
                | Step::Compact { .. }
                | Step::Look
        );
        if is_reported {
            pack.check(look);
        }
    }
    pack.step(&Step::Finish { all: true }, &open, look);
    pack.check(look);
}

fn in_directory(directory: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(directory, LocalStorageOptions::default()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_simulated_pack_holds_what_a_map_would(steps in steps(), map in prop_oneof![Just(MapRule::Never), Just(MapRule::Sealed)]) {
        let storage = SimStorage::new();
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        let host = ScriptedHost::new(1);
        follows_the_model(&shared, (&tiny_writer(host.clone()), host), &steps, &|at_ns| {
            let options = OpenOptions { engines: Arc::new(NoEngines), at_ns, map, ..OpenOptions::default() };
            Pack::open(Arc::new(storage.clone()), options)
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_local_pack_holds_what_a_map_would(steps in steps(), map in prop_oneof![Just(MapRule::Never), Just(MapRule::Sealed)]) {
        let directory = tempfile::tempdir().unwrap();
        let storage = in_directory(directory.path());
        let defaults = WriterOptions::default();
        let host = ScriptedHost::new(1);
        let options = WriterOptions { engines: defaults.engines, ..tiny_writer(host.clone()) };
        follows_the_model(&storage, (&options, host), &steps, &|at_ns| {
            let options = OpenOptions { at_ns, map, ..OpenOptions::default() };
            Pack::open_path(directory.path(), options)
        });
    }
}
