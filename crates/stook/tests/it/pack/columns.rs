//! Records as columns: what a scan gives, whatever was written, cut or asked for.

use proptest::prelude::*;
use stook::pack::{
    ColumnCells, Key, KeyRange, Kinds, Pack, ScanOptions, Split, TableBatch, TableRows, TableSource,
    WantedColumn,
};
use stook_testing::model::pack::{open_simulated, rest_of};

use super::scans::{steps, written};

fn wanted(names: &[&str]) -> Vec<WantedColumn> {
    names.iter().map(|name| WantedColumn::named(name, None).unwrap()).collect()
}

fn bytes_at(batch: &TableBatch, column: usize, row: usize) -> &[u8] {
    let ColumnCells::Long { offsets, bytes } = &batch.columns[column].cells else { panic!("no bytes") };
    &bytes[offsets[row] as usize..offsets[row + 1] as usize]
}

fn number_at(batch: &TableBatch, column: usize, row: usize) -> u64 {
    let ColumnCells::U64(numbers) = &batch.columns[column].cells else { panic!("no numbers") };
    numbers[row]
}

fn is_null(batch: &TableBatch, column: usize, row: usize) -> bool {
    let valid = &batch.columns[column].valid;
    !valid.is_empty() && valid[row / 8] >> (row % 8) & 1 == 0
}

/// Keys of the columns `key` and `id`, which are the first.
fn key_at(batch: &TableBatch, row: usize) -> Key {
    match is_null(batch, 0, row) {
        true => Key::id(number_at(batch, 1, row)),
        false => {
            assert!(is_null(batch, 1, row));
            Key::bytes(bytes_at(batch, 0, row)).unwrap()
        }
    }
}

/// Reads a table to its end.
fn batches(rows: &mut TableRows, source: &mut TableSource<'_, '_>) -> Vec<TableBatch> {
    let mut all = Vec::new();
    while let Some(batch) = rows.next(source).unwrap() {
        assert!(batch.rows > 0 && batch.columns.len() == rows.columns(source).unwrap().len());
        all.push(batch);
    }
    assert_eq!(rows.next(source).unwrap(), None, "after the end");
    all
}

/// Keys and values of a scan as columns.
fn walked(pack: &Pack, split: Option<&Split>, options: ScanOptions) -> Vec<(Key, Vec<u8>)> {
    let columns = wanted(&["key", "id", "value", "size"]);
    let mut scan = match split {
        Some(split) => pack.scan_split(split, options).unwrap(),
        None => pack.scan(options),
    };
    let mut rows = TableRows::of_scan(Kinds::ALL.into(), Some(columns), 0).unwrap();
    let all = batches(&mut rows, &mut TableSource::Scan(&mut scan));
    let record = |batch: &TableBatch, row| {
        let value = bytes_at(batch, 2, row).to_vec();
        assert_eq!(number_at(batch, 3, row), value.len() as u64);
        (key_at(batch, row), value)
    };
    all.iter().flat_map(|batch| (0..batch.rows).map(move |row| record(batch, row))).collect()
}

/// Keys, and lengths where they are known without reading values.
fn indexed(
    pack: &Pack,
    split: Option<Split>,
    options: ScanOptions,
    names: &[&str],
) -> Vec<(Key, Option<u64>)> {
    let mut rows = TableRows::of_index(Kinds::ALL.into(), wanted(names), options, split).unwrap();
    let all = batches(&mut rows, &mut TableSource::Index(pack));
    let size = |batch: &TableBatch, row| {
        (names.len() > 2 && !is_null(batch, 2, row)).then(|| number_at(batch, 2, row))
    };
    let record = |batch: &TableBatch, row| (key_at(batch, row), size(batch, row));
    all.iter().flat_map(|batch| (0..batch.rows).map(move |row| record(batch, row))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_has_the_records_of_the_scan(steps in steps(), count in 1..6_usize, group in 0..3_u8) {
        let (storage, model, _) = written(&steps);
        let pack = open_simulated(&storage).unwrap();
        let scanned = rest_of(pack.scan(ScanOptions::default())).unwrap();
        prop_assert!(walked(&pack, None, ScanOptions::default()) == scanned);
        let group = format!("g{group}");
        let groups = pack.groups().contains(&group).then_some(group).into_iter().collect();
        let range = KeyRange::prefix(Key::bytes("dir/1").unwrap().sort_form());
        for options in [
            ScanOptions { keys: range, ..ScanOptions::default() },
            ScanOptions { groups, ..ScanOptions::default() },
        ] {
            let mut some = rest_of(pack.scan(options.clone())).unwrap();
            prop_assert!(walked(&pack, None, options.clone()) == some);
            some.sort();
            let keys: Vec<Key> = some.iter().map(|(key, _)| key.clone()).collect();
            let found: Vec<Key> =
                indexed(&pack, None, options, &["key", "id"]).into_iter().map(|(key, _)| key).collect();
            prop_assert!(found == keys);
        }
        // In parts, each record is in one.
        let (mut parts, mut heads) = (Vec::new(), Vec::new());
        for split in pack.splits(count, &[]).unwrap() {
            parts.extend(walked(&pack, Some(&split), ScanOptions::default()));
            heads.extend(indexed(&pack, Some(split), ScanOptions::default(), &["key", "id", "size"]));
        }
        prop_assert!(parts == scanned);
        heads.sort();
        prop_assert!(heads.iter().map(|(key, _)| key).eq(model.keys()));
        let known = |(key, len): &(Key, Option<u64>)| len.is_none_or(|len| len == model[key].len() as u64);
        prop_assert!(heads.iter().all(known));
    }
}

#[test]
fn keys_that_are_numbers_have_a_column_of_their_own_and_nothing_is_asked_for_twice() {
    let (storage, ..) = written(&[]);
    let pack = open_simulated(&storage).unwrap();
    let mut scan = pack.scan(ScanOptions::default());
    let mut rows = TableRows::of_scan(Kinds::ALL.into(), None, 0).unwrap();
    let columns = rows.columns(&mut TableSource::Scan(&mut scan)).unwrap();
    assert_eq!(columns.iter().map(|column| &*column.name).collect::<Vec<_>>(), ["key", "value"]);
    for names in [&[][..], &["key", "key"], &["mtime", "mtime_ns"]] {
        assert!(TableRows::of_scan(Kinds::ALL.into(), Some(wanted(names)), 0).is_err(), "{names:?}");
    }
    let options = ScanOptions::default();
    assert!(TableRows::of_index(Kinds::ALL.into(), wanted(&["value"]), options, None).is_err());
}
