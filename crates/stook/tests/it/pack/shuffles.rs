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

/// A pack on disk in small segments of two groups, and a state of some records of an epoch with
/// their ids; nobody has its generation open.
fn stopped(
    count: u64,
    epoch: u64,
    seals: bool,
) -> (tempfile::TempDir, std::path::PathBuf, ShuffleState, Vec<u64>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.stook");
    std::fs::create_dir(&path).unwrap();
    let storage = Arc::new(LocalStorage::open(&path, LocalStorageOptions::default()).unwrap());
    let options = WriterOptions { segment_len: 64 << 10, ..WriterOptions::default() };
    let mut writer = PackWriter::create(storage, options).unwrap();
    for id in 0..count {
        let body = vec![id as u8; (id * 7919 % 3000) as usize];
        writer.put(["", "g"][(id % 5 == 0) as usize], &Key::id(id), &Attributes::new(), &body).unwrap();
    }
    writer.finish(seals).unwrap();
    let stream = opened(&path);
    let mut reader = stream
        .begin(&stream.shuffle().begin(epoch), ShuffleShare::ALL, ShuffleReaderOptions::default())
        .unwrap();
    let ids = taken(&mut reader, (count / 3) as usize);
    reader.confirm(ids.len());
    (directory, path, reader.state(), ids)
}

/// Publishes until a generation is gone: threads of a reader that was dropped may have it for a
/// moment.
fn until_gone(path: &std::path::Path, generation: u64) {
    let options = || OpenOptions { generation: Some(generation), ..OpenOptions::default() };
    while Pack::open_path(path, options()).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
        change(path, |writer| {
            writer.put("", &Key::id(1 << 40), &Attributes::new(), &[0; 9]).unwrap();
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_state_is_continued_whatever_was_written_since(
        count in 1..200_u64,
        epoch in 0..3_u64,
        seals: bool,
        sessions in prop::collection::vec(prop::collection::vec((0..3_u8, 0..260_u64), 0..40), 2..5),
    ) {
        let (_directory, path, state, ids) = stopped(count, epoch, seals);
        for session in &sessions {
            change(&path, |writer| {
                for &(what, id) in session {
                    let key = Key::id(id);
                    match what {
                        0 => u64::from(writer.delete(&key).unwrap()),
                        // What replaces a record has another body, which `taken` does not take.
                        1 => writer.put("g", &key, &Attributes::new(), &[id as u8 ^ 255; 700]).unwrap(),
                        _ => writer.put("", &key, &Attributes::new(), &[id as u8 ^ 255; 90]).unwrap(),
                    };
                }
            });
        }
        until_gone(&path, state.generation());
        let there = opened(&path).at_generation_of(&state, &OrdinalOptions::default()).unwrap().unwrap();
        prop_assert_eq!(there.pack().unwrap().generation(), state.generation());
        prop_assert_eq!(there.pack().unwrap().len(), count);
        let mut all = [ids, rest_of(&there, &state)].concat();
        all.sort_unstable();
        prop_assert_eq!(&all, &(0..count).collect::<Vec<_>>());
        // A later state of it is like any other, and so is what another process opens by the list.
        let bytes = there.shuffle().ordinals().to_bytes();
        let reading = OpenOptions { generation: Some(state.generation()), ..OpenOptions::default() };
        let order = there.shuffle().options();
        drop(there);
        until_gone(&path, state.generation());
        let again = ShuffledPack::open_again(&path, reading.clone(), &bytes, order).unwrap();
        prop_assert_eq!(rest_of(&again, &again.shuffle().begin(7)), (0..count).collect::<Vec<_>>());
        drop(again);
        // Once records lie elsewhere, that is said.
        change(&path, |writer| {
            for id in 0..count.div_ceil(2) {
                writer.put("", &Key::id(id), &Attributes::new(), b"x").unwrap();
            }
            writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
        });
        (0..2).for_each(|_| change(&path, |writer| {
            writer.put("", &Key::id(1 << 40), &Attributes::new(), &[0; 9]).unwrap();
        }));
        let gone = opened(&path).at_generation_of(&state, &OrdinalOptions::default()).unwrap_err();
        let is_gone = matches!(&gone, Error::NoSuchState { what, .. } if what.contains("begin a new epoch"));
        prop_assert!(is_gone, "{gone}");
        let gone = ShuffledPack::open_again(&path, reading, &bytes, order).unwrap_err();
        prop_assert!(matches!(&gone, Error::NoSuchState { .. }), "{gone}");
    }
}

#[test]
fn another_selection_of_a_generation_that_is_gone_is_refused() {
    let (_directory, path, state, _) = stopped(100, 0, true);
    (7..10).for_each(|id| change(&path, |writer| assert!(writer.delete(&Key::id(id)).unwrap())));
    until_gone(&path, state.generation());
    let stream = opened(&path);
    let groups = OrdinalOptions { groups: vec!["g".to_owned()], ..OrdinalOptions::default() };
    let refused = stream.at_generation_of(&state, &groups).unwrap_err().to_string();
    assert!(refused.contains("the selection is another"), "{refused}");
    let options = ShuffleOptions { seed: Some(9), ..ShuffleOptions::default() };
    let other =
        ShuffledPack::open(&path, OpenOptions::default(), &OrdinalOptions::default(), options).unwrap();
    let refused = other.at_generation_of(&state, &OrdinalOptions::default()).unwrap_err();
    assert!(matches!(&refused, Error::Invalid(what) if what.contains("seed")), "{refused}");
}

#[test]
fn an_epoch_is_continued_past_headers_that_were_damaged_since() {
    let skipping = OrdinalOptions { on_damage: OnDamage::Skip, ..OrdinalOptions::default() };
    let (_directory, path) = on_disk(0);
    let storage = Arc::new(LocalStorage::open(&path, LocalStorageOptions::default()).unwrap());
    let mut writer = PackWriter::open(storage, WriterOptions::default()).unwrap();
    for id in 0..250 {
        writer.put("", &Key::id(id), &Attributes::new(), &[id as u8; 900]).unwrap();
    }
    // It goes on growing: no index has its records.
    writer.finish(false).unwrap();
    let open = || {
        let order = ShuffleOptions::default();
        ShuffledPack::open(&path, OpenOptions::default(), &skipping, order).unwrap()
    };
    let stream = open();
    let options = ShuffleReaderOptions { on_damage: OnDamage::Skip, threads: 1 };
    let mut reader = stream.begin(&stream.shuffle().begin(0), ShuffleShare::ALL, options).unwrap();
    let mut ids = taken(&mut reader, 50);
    reader.confirm(50);
    let state = reader.state();
    drop((reader, stream));
    // The last ones of the order are not handed out yet.
    let hit: Vec<u64> = (1..250).filter(|id| !ids.contains(id)).step_by(60).collect();
    let segment = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    for &id in &hit {
        let at = bytes.windows(900).position(|window| window.iter().all(|byte| *byte == id as u8)).unwrap();
        bytes[at - 20] ^= 1;
    }
    std::fs::write(&segment, bytes).unwrap();
    let later = open();
    assert_eq!(later.shuffle().len(), 250 - hit.len() as u64);
    let mended = later.at_generation_of(&state, &skipping).unwrap().unwrap();
    assert_eq!((mended.shuffle().len(), mended.shuffle().ordinals().damages().len()), (250, 0));
    let mut reader = mended.begin(&state, ShuffleShare::ALL, options).unwrap();
    ids.extend(taken(&mut reader, usize::MAX));
    assert_eq!(reader.skipped(), hit.len() as u64);
    ids.sort_unstable();
    assert_eq!(ids, (0..250).filter(|id| !hit.contains(id)).collect::<Vec<_>>());
    // Where it is not known which records were hit, that is said.
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = |id: u8| bytes.windows(900).position(|window| window.iter().all(|byte| *byte == id)).unwrap();
    let (from, to) = (at(11) - 40, at(13));
    bytes[from..to].fill(0);
    std::fs::write(&segment, bytes).unwrap();
    let refused = open().at_generation_of(&state, &skipping).unwrap_err().to_string();
    assert!(refused.contains("damage of the pack hides records"), "{refused}");
}

#[test]
fn a_segment_that_is_cut_while_it_is_read_is_skipped_and_counted() {
    let (_directory, path) = on_disk(400);
    let stream = opened(&path);
    let segment = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let len = segment.metadata().unwrap().len();
    std::fs::File::options().write(true).open(segment).unwrap().set_len(len / 2).unwrap();
    let options = ShuffleReaderOptions { on_damage: OnDamage::Skip, threads: 1 };
    let mut reader = stream.begin(&stream.shuffle().begin(0), ShuffleShare::ALL, options).unwrap();
    let ids = taken(&mut reader, usize::MAX);
    assert!((100..300).contains(&ids.len()), "{}", ids.len());
    assert_eq!(ids.len() as u64 + reader.skipped(), 400);
    let mut reader =
        stream.begin(&stream.shuffle().begin(0), ShuffleShare::ALL, ShuffleReaderOptions::default()).unwrap();
    let error = (0..400).find_map(|_| reader.next_record().err()).unwrap();
    assert!(matches!(&error, Error::Damaged(damage) if damage.what.contains("the file ends")), "{error}");
}

#[test]
fn what_is_left_out_in_the_order_of_the_medium_comes_first_the_next_time() {
    let pack = Arc::new(open_simulated(&filled(250)).unwrap());
    let medium = shuffled(&pack, ShuffleOptions { seed: None, lanes: 1, even: false, ..small(0, 1) });
    let order = taken(&mut begun(&pack, &medium, &medium.begin(3), ShuffleShare::ALL, 1), usize::MAX);
    for lanes in [1, 7, 64] {
        let even = shuffled(&pack, ShuffleOptions { seed: None, even: true, ..small(0, lanes) });
        let len = even.len() as usize;
        assert_eq!(len, 250 / lanes as usize * lanes as usize);
        let mut times = BTreeMap::new();
        for epoch in 0..20 {
            let mut ids =
                taken(&mut begun(&pack, &even, &even.begin(epoch), ShuffleShare::ALL, 1), usize::MAX);
            let mut wanted: Vec<u64> =
                order.iter().cycle().skip(epoch as usize * len % 250).take(len).copied().collect();
            ids.iter().for_each(|id| *times.entry(*id).or_insert(0_usize) += 1);
            ids.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(ids, wanted, "epoch {epoch} of {lanes} lanes");
        }
        assert!(
            times.len() == 250
                && times.values().all(|times| (20 * len / 250..=20 * len / 250 + 1).contains(times))
        );
    }
}

#[test]
fn a_state_in_the_order_of_the_medium_is_continued_in_other_lanes() {
    let (_directory, path) = on_disk(300);
    let open = |lanes: u32, seed: Option<u64>| {
        let order = ShuffleOptions { lanes, seed, ..ShuffleOptions::default() };
        ShuffledPack::open(&path, OpenOptions::default(), &OrdinalOptions::default(), order).unwrap()
    };
    let (one, many) = (open(1, None), open(64, None));
    for stop in [0, 1, 100, 299, 300] {
        let mut reader =
            one.begin(&one.shuffle().begin(2), ShuffleShare::ALL, ShuffleReaderOptions::default()).unwrap();
        let mut ids = taken(&mut reader, stop);
        reader.confirm(ids.len());
        let (same, state) = many.in_lanes_of(&reader.state(), 2).unwrap();
        assert!(same.is_none() && state.records() == stop as u64);
        for rank in 0..2 {
            let mut reader = many.begin(&state, share(rank, 2), ShuffleReaderOptions::default()).unwrap();
            ids.extend(taken(&mut reader, usize::MAX));
        }
        ids.sort_unstable();
        assert_eq!(ids, (0..300).collect::<Vec<_>>());
    }
    // One reader takes as many lanes as there were.
    let mut reader =
        many.begin(&many.shuffle().begin(0), ShuffleShare::ALL, ShuffleReaderOptions::default()).unwrap();
    let mut ids = taken(&mut reader, 77);
    reader.confirm(77);
    let (there, state) = one.in_lanes_of(&reader.state(), 1).unwrap();
    ids.extend(rest_of(&there.unwrap(), &state));
    ids.sort_unstable();
    assert_eq!(ids, (0..300).collect::<Vec<_>>());
    // No beginning of the order of one lane, and a shuffle: they stay as they are.
    let part = many.begin(&many.shuffle().begin(0), share(1, 2), ShuffleReaderOptions::default()).unwrap();
    assert!(one.in_lanes_of(&part.state(), 65).unwrap().0.is_some());
    let (other, state) = open(8, Some(1)).in_lanes_of(&open(1, Some(1)).shuffle().begin(0), 2).unwrap();
    assert!(other.is_none() && state.lanes() == 1);
}

#[test]
fn a_state_that_nobody_wrote_is_described_all_the_same() {
    let (_directory, path) = on_disk(3);
    let stream = opened(&path);
    let text = stream.shuffle().begin(0).to_string();
    let json = text.splitn(3, ':').nth(2).unwrap().replace("[0,0,", &format!("[{0},{0},", u64::MAX));
    let text = format!("stook-shuffle-1:{:08x}:{json}", crc32c::crc32c(json.as_bytes()));
    let state: ShuffleState = text.parse().unwrap();
    assert_eq!(state.records(), u64::MAX);
    assert!(stream.begin(&state, ShuffleShare::ALL, ShuffleReaderOptions::default()).is_err());
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
