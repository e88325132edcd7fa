//! Shuffled epochs: every record once, by any number of readers, also where others continue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use stook::ops::shuffled::ShuffledPack;
use stook::pack::{
    Attributes, CompactOptions, Error, Key, KeyValue, OnDamage, OpenOptions, OrdinalOptions, Pack,
    PackWriter, Record, Shuffle, ShuffleOptions, ShuffleReader, ShuffleReaderOptions, ShuffleShare,
    ShuffleState, WriterOptions,
};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook_testing::model::pack::{ScriptedHost, open_simulated, tiny_writer};
use stook_testing::sim::SimStorage;

use super::damage::shared;

/// A pack of records of up to some KiB, in several segments.
fn filled(count: u64) -> SimStorage {
    let storage = SimStorage::new();
    let options = WriterOptions { segment_len: 512 << 10, ..tiny_writer(ScriptedHost::new(1)) };
    let mut writer = PackWriter::create(shared(&storage), options).unwrap();
    for id in 0..count {
        let body = vec![id as u8; (id * 7919 % 6000) as usize];
        writer.put(["", "g"][(id % 5 == 0) as usize], &Key::id(id), &Attributes::new(), &body).unwrap();
    }
    writer.finish(true).unwrap();
    storage
}

fn shuffled(pack: &Pack, options: ShuffleOptions) -> Arc<Shuffle> {
    let ordinals = pack.ordinals(&OrdinalOptions::default()).unwrap();
    Arc::new(Shuffle::new(Arc::new(ordinals), options).unwrap())
}

/// Windows of 64 KiB: many of a small pack.
fn small(seed: u64, lanes: u32) -> ShuffleOptions {
    ShuffleOptions { seed: Some(seed), lanes, window_bytes: 64 << 10, even: false }
}

fn share(index: u32, count: u32) -> ShuffleShare {
    ShuffleShare::of((0, 1), (index, count)).unwrap()
}

fn id_of(record: &Record) -> u64 {
    let KeyValue::Id(id) = record.head.key.value() else { panic!("{}", record.head.key) };
    id
}

fn taken(reader: &mut ShuffleReader, count: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    while ids.len() < count
        && let Some(record) = reader.next_record().unwrap()
    {
        let id = id_of(&record);
        assert!(record.body.iter().all(|byte| *byte == id as u8));
        ids.push(id);
    }
    ids
}

fn begun(
    pack: &Arc<Pack>,
    shuffle: &Arc<Shuffle>,
    state: &ShuffleState,
    share: ShuffleShare,
    threads: usize,
) -> ShuffleReader {
    let options = ShuffleReaderOptions { threads, ..ShuffleReaderOptions::default() };
    ShuffleReader::new(pack, shuffle, state, share, options).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_record_comes_once_however_often_others_continue(
        count in 0..400_u64,
        seed: u64,
        epoch in 0..3_u64,
        lanes in 1..10_u32,
        stages in prop::collection::vec((1..10_u32, prop::collection::vec(0..200_usize, 9), 1..4_usize), 0..3),
    ) {
        let pack = Arc::new(open_simulated(&filled(count)).unwrap());
        let shuffle = shuffled(&pack, small(seed, lanes));
        let mut state = shuffle.begin(epoch);
        let mut ids = Vec::new();
        for (readers, stops, threads) in stages {
            let readers = readers.min(lanes);
            let mut states = Vec::new();
            for index in 0..readers {
                let mut reader = begun(&pack, &shuffle, &state, share(index, readers), threads);
                // What is read further does not count.
                let stop = stops[index as usize];
                ids.extend(taken(&mut reader, stop));
                reader.confirm(stop);
                taken(&mut reader, stops[8 - index as usize]);
                states.push(reader.state().to_string().parse().unwrap());
            }
            state = ShuffleState::merged(&states).unwrap();
            prop_assert_eq!(state.records(), ids.len() as u64);
        }
        for index in 0..lanes {
            ids.extend(taken(&mut begun(&pack, &shuffle, &state, share(index, lanes), 1), usize::MAX));
        }
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..count).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_continued_comes_in_the_same_order(
        seed: u64, lanes in 1..10_u32, stop in 0..320_usize, threads in 1..4_usize,
    ) {
        let pack = Arc::new(open_simulated(&filled(300)).unwrap());
        let shuffle = shuffled(&pack, small(seed, lanes));
        let whole = taken(&mut begun(&pack, &shuffle, &shuffle.begin(1), ShuffleShare::ALL, 1), usize::MAX);
        let mut first = begun(&pack, &shuffle, &shuffle.begin(1), ShuffleShare::ALL, threads);
        let mut ids = taken(&mut first, stop);
        first.confirm(stop);
        ids.extend(taken(&mut begun(&pack, &shuffle, &first.state(), ShuffleShare::ALL, threads), usize::MAX));
        prop_assert_eq!(ids, whole);
    }
}

#[test]
fn lanes_have_the_same_number_of_records_and_readers_few_lanes_more_than_others() {
    let pack = Arc::new(open_simulated(&filled(1000)).unwrap());
    for (even, wanted) in [(false, 15..17), (true, 15..16)] {
        let shuffle = shuffled(&pack, ShuffleOptions { even, ..ShuffleOptions::default() });
        assert_eq!(shuffle.len(), if even { 960 } else { 1000 });
        let state = shuffle.begin(0);
        let lens = (0..64)
            .map(|lane| taken(&mut begun(&pack, &shuffle, &state, share(lane, 64), 1), usize::MAX).len());
        let lens: Vec<usize> = lens.collect();
        assert!(lens.iter().all(|len| wanted.contains(len)), "{lens:?}");
        // Eight ranks of three workers: ranks have the same number of lanes.
        let of_rank = |rank: u32| -> usize {
            let shares = (0..3).map(|worker| ShuffleShare::of((rank, 8), (worker, 3)).unwrap());
            shares.map(|share| taken(&mut begun(&pack, &shuffle, &state, share, 1), usize::MAX).len()).sum()
        };
        assert!((0..8).all(|rank| (120..=128).contains(&of_rank(rank))));
    }
}

/// The promise of a seed: the same order in every release, on every machine.
#[test]
fn the_order_of_a_seed_stays() {
    let pack = Arc::new(open_simulated(&filled(40)).unwrap());
    let shuffle = shuffled(&pack, small(7, 4));
    let order = |epoch| taken(&mut begun(&pack, &shuffle, &shuffle.begin(epoch), ShuffleShare::ALL, 1), 12);
    assert_eq!(
        [order(0), order(1)],
        [[25, 5, 18, 14, 35, 0, 27, 3, 32, 2, 11, 4], [6, 0, 8, 11, 39, 28, 5, 1, 20, 19, 23, 13]]
    );
    let medium = shuffled(&pack, ShuffleOptions { seed: None, lanes: 1, ..ShuffleOptions::default() });
    let ids = taken(&mut begun(&pack, &medium, &medium.begin(3), ShuffleShare::ALL, 2), usize::MAX);
    let scanned: Vec<u64> = {
        let numbers: Vec<u64> = (0..40).collect();
        let records = pack.get_at(medium.ordinals(), &numbers).unwrap().into_iter();
        records.map(|record| id_of(&record.unwrap())).collect()
    };
    assert_eq!(ids, scanned);
}

#[test]
fn records_that_are_handed_out_together_are_from_all_over_the_pack() {
    let pack = Arc::new(open_simulated(&filled(1000)).unwrap());
    let shuffle = shuffled(&pack, ShuffleOptions::default());
    let ids = taken(&mut begun(&pack, &shuffle, &shuffle.begin(0), ShuffleShare::ALL, 1), 100);
    let mut tenths = BTreeMap::new();
    ids.iter().for_each(|id| *tenths.entry(id / 100).or_insert(0_u32) += 1);
    assert!(tenths.len() == 10 && tenths.values().all(|count| *count < 30), "{tenths:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let pack = Arc::new(open_simulated(&filled(20)).unwrap());
    let ordinals = Arc::new(pack.ordinals(&OrdinalOptions::default()).unwrap());
    let some = ShuffleOptions::default();
    for options in [
        ShuffleOptions { lanes: 0, ..some },
        ShuffleOptions { lanes: 4097, ..some },
        ShuffleOptions { window_bytes: 1 << 10, ..some },
        ShuffleOptions { window_bytes: u64::MAX, ..some },
    ] {
        assert!(matches!(Shuffle::new(ordinals.clone(), options), Err(Error::Invalid(_))), "{options:?}");
    }
    for (rank, worker) in
        [((1, 1), (0, 1)), ((0, 0), (0, 1)), ((0, 1), (2, 2)), ((0, u32::MAX), (0, u32::MAX))]
    {
        assert!(ShuffleShare::of(rank, worker).is_err());
    }
    let shuffle = shuffled(&pack, some);
    let refused = |state: &ShuffleState, share, threads| {
        let options = ShuffleReaderOptions { threads, ..ShuffleReaderOptions::default() };
        ShuffleReader::new(&pack, &shuffle, state, share, options).unwrap_err().to_string()
    };
    let state = shuffle.begin(0);
    assert!(refused(&state, share(0, 65), 1).contains("lanes=65"));
    assert!(refused(&state, ShuffleShare::ALL, 0).contains("threads"));
    assert!(refused(&state, ShuffleShare::ALL, 65).contains("threads"));
    let part = begun(&pack, &shuffle, &state, share(1, 2), 1).state();
    assert!(refused(&part, ShuffleShare::ALL, 1).contains("merge those of all"));
    for (options, word) in [
        (ShuffleOptions { seed: Some(1), ..some }, "seed"),
        (ShuffleOptions { seed: None, ..some }, "seed"),
        (ShuffleOptions { lanes: 32, ..some }, "lanes"),
        (ShuffleOptions { even: true, ..some }, "even"),
        (ShuffleOptions { window_bytes: 1 << 20, ..some }, "window_bytes"),
    ] {
        let other = shuffled(&pack, options).begin(0);
        assert!(refused(&other, ShuffleShare::ALL, 1).contains(word), "{word}");
        assert!(ShuffleState::merged(&[state.clone(), other]).is_err());
    }
    let some_group = OrdinalOptions { groups: vec!["g".to_owned()], ..OrdinalOptions::default() };
    let of_group = Shuffle::new(Arc::new(pack.ordinals(&some_group).unwrap()), some).unwrap();
    assert!(refused(&of_group.begin(0), ShuffleShare::ALL, 1).contains("number of records"));
    assert!(
        ShuffleState::merged(&[state.clone(), shuffle.begin(1)]).unwrap_err().to_string().contains("epoch 1")
    );
    assert!(ShuffleState::merged(&[]).is_err());
    assert!("stook-shuffle-1:00000000:{}".parse::<ShuffleState>().is_err());
    let another = SimStorage::new();
    let writer = PackWriter::create(shared(&another), tiny_writer(ScriptedHost::new(2))).unwrap();
    writer.finish(true).unwrap();
    let another = Arc::new(open_simulated(&another).unwrap());
    assert!(
        ShuffleReader::new(&another, &shuffle, &state, ShuffleShare::ALL, ShuffleReaderOptions::default())
            .is_err()
    );
}

/// A pack on disk with this many records, and where it is.
fn on_disk(count: u64) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.stook");
    std::fs::create_dir(&path).unwrap();
    change(&path, |writer| {
        for id in 0..count {
            writer.put("", &Key::id(id), &Attributes::new(), &[id as u8; 900]).unwrap();
        }
    });
    (directory, path)
}

fn change(path: &std::path::Path, change: impl FnOnce(&mut PackWriter)) {
    let storage = Arc::new(LocalStorage::open(path, LocalStorageOptions::default()).unwrap());
    let options = WriterOptions::default();
    let is_new = std::fs::read_dir(path).unwrap().next().is_none();
    let mut writer =
        if is_new { PackWriter::create(storage, options) } else { PackWriter::open(storage, options) }
            .unwrap();
    change(&mut writer);
    writer.finish(true).unwrap();
}

fn opened(path: &std::path::Path) -> ShuffledPack {
    let options = ShuffleOptions::default();
    ShuffledPack::open(path, OpenOptions::default(), &OrdinalOptions::default(), options).unwrap()
}

fn rest_of(pack: &ShuffledPack, state: &ShuffleState) -> Vec<u64> {
    let mut reader = pack.begin(state, ShuffleShare::ALL, ShuffleReaderOptions::default()).unwrap();
    let mut ids = taken(&mut reader, usize::MAX);
    ids.sort_unstable();
    ids
}

#[test]
fn an_epoch_stays_at_its_generation_and_is_continued_there() {
    let (_directory, path) = on_disk(300);
    let stream = opened(&path);
    let mut reader =
        stream.begin(&stream.shuffle().begin(0), ShuffleShare::ALL, ShuffleReaderOptions::default()).unwrap();
    let mut ids = taken(&mut reader, 100);
    reader.confirm(100);
    let state = reader.state();
    change(&path, |writer| {
        writer.put("", &Key::id(1000), &Attributes::new(), &[232; 3]).unwrap();
        (0..50).for_each(|id| writer.delete(&Key::id(id)).map(drop).unwrap());
    });
    change(&path, |writer| {
        writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
    });
    // This one has its generation open; so those that come now can open it, too.
    let later = opened(&path);
    assert_ne!(later.pack().unwrap().generation(), state.generation());
    let there = later.at_generation_of(&state, &OrdinalOptions::default()).unwrap().unwrap();
    let mut resumed = ids.clone();
    resumed.extend(rest_of(&there, &state));
    ids.extend(taken(&mut reader, usize::MAX));
    for mut ids in [ids, resumed] {
        ids.sort_unstable();
        assert_eq!(ids, (0..300).collect::<Vec<_>>());
    }
    assert!(there.at_generation_of(&state, &OrdinalOptions::default()).unwrap().is_none());
    assert_eq!(rest_of(&later, &later.shuffle().begin(0)).len(), 251);
    drop((there, stream, reader));
    // The threads of readers that are gone may have it for a moment.
    let gone = (0..200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        change(&path, |writer| {
            writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
        });
        later.at_generation_of(&state, &OrdinalOptions::default()).err()
    });
    let gone = gone.unwrap().to_string();
    assert!(
        gone.contains(&format!("generation {}", state.generation())) && gone.contains("begin a new epoch"),
        "{gone}"
    );
}

#[test]
fn a_state_of_another_pack_in_its_place_is_refused() {
    let (_directory, path) = on_disk(30);
    let state = opened(&path).shuffle().begin(0);
    std::fs::remove_dir_all(&path).unwrap();
    let (_other_directory, other) = on_disk(30);
    std::fs::rename(other, &path).unwrap();
    let error = opened(&path).at_generation_of(&state, &OrdinalOptions::default()).unwrap_err();
    assert!(error.to_string().contains("is of the pack"), "{error}");
}

#[test]
fn a_damaged_record_stops_an_epoch_or_is_skipped_and_counted_once() {
    let (_directory, path) = on_disk(250);
    let segment = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    for id in [17_u8, 99] {
        let at = bytes.windows(800).position(|window| window.iter().all(|byte| *byte == id)).unwrap();
        bytes[at + 5] ^= 1;
    }
    std::fs::write(&segment, bytes).unwrap();
    let stream = opened(&path);
    let begin = stream.shuffle().begin(0);
    let mut reader = stream.begin(&begin, ShuffleShare::ALL, ShuffleReaderOptions::default()).unwrap();
    let error = (0..250).find_map(|_| reader.next_record().err()).unwrap();
    let Error::Damaged(damage) = &error else { panic!("{error}") };
    assert!(damage.what.contains("number ") && damage.file == segment, "{error}");
    // After it there is nothing more.
    assert!(reader.next_record().unwrap().is_none());

    let skipping = ShuffleReaderOptions { on_damage: OnDamage::Skip, threads: 1 };
    let (mut state, mut ids, mut skipped) = (begin, Vec::new(), 0);
    loop {
        let mut reader = stream.begin(&state, ShuffleShare::ALL, skipping).unwrap();
        let some = taken(&mut reader, 7);
        reader.confirm(some.len());
        reader.poll(Duration::from_secs(60));
        skipped += reader.skipped();
        assert_eq!(reader.damages().len() as u64, reader.skipped());
        state = reader.state();
        if some.is_empty() {
            break;
        }
        ids.extend(some);
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..250).filter(|id| ![17, 99].contains(id)).collect::<Vec<_>>());
    assert_eq!((state.records(), skipped), (250, 2));
    assert!(stream.shuffle().is_over(&state).unwrap());
}

#[test]
fn threads_end_when_their_reader_is_closed_or_gone() {
    let threads = || {
        let tasks =
            std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path().join("comm"));
        tasks
            .filter(|name| std::fs::read_to_string(name).is_ok_and(|name| name.starts_with("stook-shuffle")))
            .count()
    };
    // The other tests of this process have threads of this name, too.
    if std::env::var_os("STOOK_SHUFFLE_ALONE").is_none() {
        let this = "pack::shuffles::threads_end_when_their_reader_is_closed_or_gone";
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        assert!(command.args(["--exact", this]).env("STOOK_SHUFFLE_ALONE", "1").status().unwrap().success());
        return;
    }
    let pack = Arc::new(open_simulated(&filled(300)).unwrap());
    let shuffle = shuffled(&pack, small(1, 4));
    let mut closed = begun(&pack, &shuffle, &shuffle.begin(0), ShuffleShare::ALL, 3);
    let gone = begun(&pack, &shuffle, &shuffle.begin(0), ShuffleShare::ALL, 2);
    let are = |count: usize| {
        (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            threads() == count
        })
    };
    assert_eq!(taken(&mut closed, 1).len(), 1);
    assert!(are(5), "{}", threads());
    closed.close();
    drop(gone);
    assert!(closed.next_record().unwrap().is_none());
    assert!(are(0), "{}", threads());
}
