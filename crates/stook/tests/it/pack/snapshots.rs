//! Readers hold a generation: their view stays, in any number of processes, whatever a writer does.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::{fs, io, thread};

use stook::pack::{Attributes, CompactOptions, Error, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::source::{Leaf, Source};
use stook::storage::{Entry, LocalStorage, LocalStorageOptions, Storage};
use stook::tree::Kind;
use stook_testing::conformance::pattern;
use stook_testing::model::pack::{
    NoEngines, PackModel, ScriptedHost, assert_holds, open_simulated, scanned, tiny_writer,
};
use stook_testing::sim::SimStorage;

fn put(writer: &mut PackWriter, model: &mut PackModel, number: u64, seed: u64) {
    let body = pattern(3_000, seed);
    writer.put("", &Key::id(number), &Attributes::new(), &body).unwrap();
    model.insert(Key::id(number), body);
}

/// A storage like one over a network: what is unlinked is gone for those who have it open, too, and
/// is listed for a while all the same.
#[derive(Debug, Clone)]
struct Remote {
    inner: SimStorage,
    gone: Arc<Mutex<BTreeSet<String>>>,
}

impl Remote {
    fn new() -> Self {
        Self { inner: SimStorage::new(), gone: Arc::default() }
    }

    fn is_gone(&self, name: &str) -> bool {
        self.gone.lock().unwrap().contains(name)
    }
}

#[derive(Debug)]
struct Stale {
    inner: Arc<dyn Source>,
    storage: Remote,
    name: String,
}

impl Source for Stale {
    stook_testing::forward_source!(inner: len path identity current_identity);

    fn resolve(&self, range: stook::extent::ByteRange, leaves: &mut Vec<Leaf>) -> stook::Result<()> {
        if self.storage.is_gone(&self.name) {
            let stale = io::Error::from(io::ErrorKind::StaleNetworkFileHandle);
            return Err(stook::Error::io("read", self.path(), stale));
        }
        self.inner.resolve(range, leaves)
    }
}

impl Storage for Remote {
    stook_testing::forward_storage!(inner:
        path create open_append prepare rename sync_directory remove_leftovers lock hold
    );

    fn open(&self, name: &str) -> stook::Result<Arc<dyn Source>> {
        let inner = self.inner.open(name)?;
        Ok(Arc::new(Stale { inner, storage: self.clone(), name: name.into() }))
    }

    fn unlink(&self, name: &str) -> stook::Result<()> {
        self.inner.unlink(name)?;
        self.gone.lock().unwrap().insert(name.into());
        Ok(())
    }

    fn list(&self) -> stook::Result<Vec<Entry>> {
        let mut all = self.inner.list()?;
        let gone = self.gone.lock().unwrap();
        all.extend(gone.iter().map(|name| Entry {
            name: name.clone(),
            len: 100,
            kind: Kind::File,
            inode: None,
        }));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    fn unlink_unless_held(&self, name: &str) -> stook::Result<bool> {
        let gone = self.inner.unlink_unless_held(name)?;
        if gone {
            self.gone.lock().unwrap().insert(name.into());
        }
        Ok(gone)
    }
}

fn open(storage: &Remote, generation: Option<u64>) -> Result<Pack, Error> {
    let options = OpenOptions { engines: Arc::new(NoEngines), generation, ..OpenOptions::default() };
    Pack::open(Arc::new(storage.clone()), options)
}

#[test]
fn a_reader_older_than_three_compactions_sees_its_state_even_where_unlinked_files_are_gone() {
    let storage = Remote::new();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut writer = PackWriter::create(shared.clone(), tiny_writer(ScriptedHost::new(1))).unwrap();
    let mut model = PackModel::new();
    for number in 0..60 {
        put(&mut writer, &mut model, number * 7 % 60, number);
    }
    writer.publish().unwrap();
    let reader = open(&storage, None).unwrap();
    let (seen, generation) = (model.clone(), reader.generation());
    for round in 1..=3 {
        for number in 0..40 {
            put(&mut writer, &mut model, number, 1_000 * round + number);
        }
        writer.delete(&Key::id(40 + round)).unwrap();
        model.remove(&Key::id(40 + round));
        assert!(writer.compact(&CompactOptions::default(), &mut |_| true).unwrap().steps > 0);
        assert_holds(&reader, &seen);
    }
    assert_holds(&open(&storage, None).unwrap(), &model);
    // Any process that receives the generation opens it too, as long as one holds it.
    let second = open(&storage, Some(generation)).unwrap();
    assert_holds(&second, &seen);
    drop(reader);
    writer.publish().unwrap();
    writer.put("", &Key::id(0), &Attributes::new(), b"x").unwrap();
    writer.publish().unwrap();
    assert_holds(&second, &seen);
    drop(second);
    let segments = |storage: &Remote| {
        storage.inner.list().unwrap().iter().filter(|file| file.name.starts_with("segment")).count()
    };
    let before = segments(&storage);
    writer.publish().unwrap();
    assert!(segments(&storage) < before, "what only that generation named is gone");
    drop(writer);
    let again = PackWriter::open(shared, tiny_writer(ScriptedHost::new(2))).unwrap();
    assert_eq!(again.recovery().damages, [], "what is listed and gone is no damage");
    let refused = open(&storage, Some(generation)).unwrap_err();
    assert!(matches!(refused, Error::NoSuchState { .. } | Error::Core(_)), "{refused}");
}

#[test]
fn a_generation_that_is_not_the_newest_is_opened_as_it_was_published() {
    let storage = SimStorage::new();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut writer = PackWriter::create(shared, tiny_writer(ScriptedHost::new(1))).unwrap();
    let mut model = PackModel::new();
    put(&mut writer, &mut model, 1, 1);
    writer.publish().unwrap();
    let reader = open_simulated(&storage).unwrap();
    let (seen, generation) = (model.clone(), reader.generation());
    put(&mut writer, &mut model, 1, 2);
    put(&mut writer, &mut model, 2, 3);
    writer.publish().unwrap();
    put(&mut writer, &mut model, 3, 4);
    writer.sync().unwrap();
    let open = |generation| {
        let options = OpenOptions { engines: Arc::new(NoEngines), generation, ..OpenOptions::default() };
        Pack::open(Arc::new(storage.clone()), options)
    };
    assert_holds(&open(Some(generation)).unwrap(), &seen);
    assert_holds(&open(None).unwrap(), &model);
    let refused = open(Some(99)).unwrap_err().to_string();
    assert!(refused.contains("generation 99; there are "), "{refused}");
}

#[test]
fn readers_in_threads_each_see_one_state_while_a_writer_changes_and_compacts() {
    let directory = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> =
        Arc::new(LocalStorage::open(directory.path(), LocalStorageOptions::default()).unwrap());
    let options =
        WriterOptions { segment_len: 64 << 10, checkpoint_len: 16 << 10, ..WriterOptions::default() };
    let mut writer = PackWriter::create(storage, options).unwrap();
    // Every batch gives all keys the same version: any two records show a state that mixes two.
    let publish = |writer: &mut PackWriter, version: u64| {
        let mut batch = writer.batch("").unwrap();
        for number in 0..20 {
            batch.put(&Key::id(number), &Attributes::new(), &pattern(700, version)).unwrap();
        }
        batch.commit().unwrap();
        writer.publish().unwrap();
    };
    publish(&mut writer, 0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut states = BTreeSet::new();
                    while !done.load(Relaxed) {
                        let pack = Pack::open_path(directory.path(), OpenOptions::default()).unwrap();
                        let first = scanned(&pack).unwrap();
                        let bodies: BTreeSet<&Vec<u8>> = first.values().collect();
                        assert!(first.len() == 20 && bodies.len() == 1, "a mixed state");
                        let by_key = pack.get_many(&(0..20).map(Key::id).collect::<Vec<_>>()).unwrap();
                        for record in by_key {
                            assert!(bodies.contains(&record.unwrap().unwrap().body.to_vec()));
                        }
                        states.insert(pack.generation());
                    }
                    states.len()
                })
            })
            .collect();
        for version in 1..60 {
            publish(&mut writer, version);
            if version % 4 == 0 {
                writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
            }
        }
        done.store(true, Relaxed);
        let states: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(states > 3, "readers met {states} states");
    });
    writer.finish(true).unwrap();
    let left = fs::read_dir(directory.path()).unwrap().count();
    assert!(left < 12, "{left} files are left");
}

#[test]
fn a_second_writer_is_told_who_the_first_is_also_in_the_same_process() {
    let directory = tempfile::tempdir().unwrap();
    let storage = || -> Arc<dyn Storage> {
        Arc::new(LocalStorage::open(directory.path(), LocalStorageOptions::default()).unwrap())
    };
    let first = PackWriter::create(storage(), WriterOptions::default()).unwrap();
    let refused = thread::scope(|scope| {
        scope
            .spawn(|| PackWriter::open(storage(), WriterOptions::default()).unwrap_err().to_string())
            .join()
            .unwrap()
    });
    let process = format!("process {} on ", std::process::id());
    assert!(refused.contains(&process) && refused.contains("since 20"), "{refused}");
    assert_eq!(refused.matches("process").count(), 1, "{refused}");
    drop(first);
    PackWriter::open(storage(), WriterOptions::default()).unwrap();
}

#[test]
fn a_reader_that_follows_is_told_of_every_record_once_in_the_order_in_which_they_were_put() {
    let storage = SimStorage::new();
    let options = tiny_writer(ScriptedHost::new(1));
    let mut writer = PackWriter::create(Arc::new(storage.clone()), options).unwrap();
    let mut model = PackModel::new();
    put(&mut writer, &mut model, 0, 0);
    writer.sync().unwrap();
    let mut pack = open_simulated(&storage).unwrap();
    assert!(pack.is_current().unwrap());
    for round in 1..30 {
        let mut expected = Vec::new();
        for number in [round * 7 % 11, round * 3 % 11 + 20, round + 100] {
            put(&mut writer, &mut model, number, round * 1_000 + number);
            expected.push(Key::id(number));
        }
        let mut batch = writer.batch("other").unwrap();
        for number in [200, 201] {
            batch.put(&Key::id(number), &Attributes::new(), &pattern(10, round)).unwrap();
            expected.push(Key::id(number));
        }
        batch.commit().unwrap();
        match round % 3 {
            0 => writer.sync().unwrap(),
            1 => writer.publish().unwrap(),
            _ => drop(writer.compact(&CompactOptions::default(), &mut |_| true).unwrap()),
        }
        assert!(!pack.is_current().unwrap());
        let newer = open_simulated(&storage).unwrap();
        let reported: Vec<Key> = newer.put_since(&pack).unwrap().into_iter().map(|head| head.key).collect();
        assert_eq!(reported, expected, "round {round}");
        assert_eq!(newer.put_since(&newer).unwrap(), []);
        pack = newer;
    }
}
