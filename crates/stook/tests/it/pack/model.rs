//! A pack against a `BTreeMap`.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use stook::pack::{Attributes, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::pattern;
use stook_testing::model::pack::{PackModel, ScriptedHost, assert_holds, open_simulated, tiny_writer};
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

/// A pack that is being written, and what it must hold.
struct Modelled {
    writer: Option<PackWriter>,
    model: PackModel,
    count: u64,
}

impl Modelled {
    fn step(&mut self, step: &Step, open: &dyn Fn() -> PackWriter) {
        self.count += 1;
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
                let mut after = self.model.clone();
                let mut batch = writer.batch(&format!("g{group}")).unwrap();
                for (number, len) in members {
                    self.count += 1;
                    let key = key(*number);
                    if let Some(len) = len {
                        let body = pattern(*len, self.count);
                        batch.put(&key, &Attributes::new(), &body).unwrap();
                        after.insert(key, body);
                    } else {
                        assert_eq!(batch.delete(&key).unwrap(), after.remove(&key).is_some());
                    }
                }
                if *commit {
                    batch.commit().unwrap();
                    self.model = after;
                }
            }
            Step::Sync => writer.sync().unwrap(),
            Step::Publish => writer.publish().unwrap(),
            Step::Reopen => {
                writer.sync().unwrap();
                self.writer = None;
            }
            Step::Finish { all } => self.writer.take().unwrap().finish(*all).unwrap(),
        }
        if let Some(writer) = &self.writer {
            let number = key((self.count % 12) as u8);
            assert_eq!(writer.contains(&number).unwrap(), self.model.contains_key(&number));
        }
    }
}

fn follows_the_model(
    storage: &Arc<dyn Storage>,
    options: &WriterOptions,
    steps: &[Step],
    check: &dyn Fn(&PackModel),
) {
    let open = || {
        let writer = PackWriter::open(storage.clone(), options.clone()).unwrap();
        assert_eq!((&writer.recovery().torn[..], &writer.recovery().damages[..]), (&[][..], &[][..]));
        writer
    };
    let writer = PackWriter::create(storage.clone(), options.clone()).unwrap();
    let mut pack = Modelled { writer: Some(writer), model: PackModel::new(), count: 0 };
    for step in steps {
        pack.step(step, &open);
        if matches!(step, Step::Sync | Step::Publish | Step::Reopen | Step::Finish { .. }) {
            check(&pack.model);
        }
    }
    pack.step(&Step::Finish { all: true }, &open);
    check(&pack.model);
}

fn in_directory(directory: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(directory, LocalStorageOptions::default()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_simulated_pack_holds_what_a_map_would(steps in steps()) {
        let storage = SimStorage::new();
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        follows_the_model(&shared, &tiny_writer(ScriptedHost::new(1)), &steps, &|model| {
            assert_holds(&open_simulated(&storage).unwrap(), model);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_local_pack_holds_what_a_map_would(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let storage = in_directory(directory.path());
        let defaults = WriterOptions::default();
        let options = WriterOptions { engines: defaults.engines, ..tiny_writer(ScriptedHost::new(1)) };
        follows_the_model(&storage, &options, &steps, &|model| {
            assert_holds(&Pack::open_path(directory.path(), OpenOptions::default()).unwrap(), model);
        });
    }
}
