//! Indexes hold what was put in, find it, take as little as is promised, and believe nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use stook::pack::format::UNIT;
use stook::pack::format::index::{EncodedIndex, IndexBuilder, Place, Top};
use stook::pack::format::page::Page;
use stook::pack::{Attributes, Key, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};

const SALT: u32 = 0x5eed;

/// Records as an index lists them: by sort form, newest first.
type Model = BTreeMap<(Vec<u8>, Reverse<u64>), Place>;

struct Built {
    index: EncodedIndex,
    top: Top,
}

impl Built {
    fn of(model: &Model) -> Self {
        let mut builder = IndexBuilder::new(SALT);
        model.iter().for_each(|((form, _), place)| builder.push(form, *place));
        let index = builder.finish().unwrap();
        let top = Top::decode(&index.top, SALT, index.pages.len() as u64).unwrap();
        for (first, len) in (0..top.pages()).map(|number| top.page(number).unwrap()) {
            Page::verify(&index.pages[first as usize * UNIT..][..len], SALT, first).unwrap();
        }
        Self { index, top }
    }

    fn page(&self, number: usize) -> Page<'_> {
        let (first, len) = self.top.page(number).unwrap();
        Page::parse(&self.index.pages[first as usize * UNIT..][..len]).unwrap()
    }

    /// All entries from `from` on, as a cursor meets them.
    fn from(&self, from: &[u8]) -> Vec<(Vec<u8>, Place)> {
        let mut entries = Vec::new();
        let start = self.top.find(from);
        for number in start..self.top.pages() {
            let page = self.page(number);
            let mut cursor =
                if number == start { page.seek(from) } else { page.entries_in(b"used".to_vec()) };
            while let Some(place) = cursor.place() {
                entries.push((cursor.form().to_vec(), place));
                cursor.advance();
            }
        }
        entries
    }

    /// All versions of a key, as a get meets them.
    fn versions(&self, form: &[u8]) -> Vec<Place> {
        let mut places = Vec::new();
        let mut number = self.top.find(form);
        loop {
            let page = self.page(number);
            let found = page.find(form);
            places.extend(found.clone().map(|entry| page.place(entry).unwrap()));
            number += 1;
            if found.end < page.len() || !self.top.continues(number, form) {
                return places;
            }
        }
    }
}

fn agrees(model: &Model, asked: &[Vec<u8>]) {
    let built = Built::of(model);
    let all: Vec<_> = model.iter().map(|((form, _), place)| (form.clone(), *place)).collect();
    assert!(built.from(b"") == all);
    let known: BTreeSet<&Vec<u8>> = model.keys().map(|(form, _)| form).collect();
    for form in known.into_iter().chain(asked) {
        let range = (form.clone(), Reverse(u64::MAX))..=(form.clone(), Reverse(0));
        let wanted: Vec<Place> = model.range(range).map(|(_, place)| *place).collect();
        assert_eq!(built.versions(form), wanted, "{:?}", &form[..form.len().min(40)]);
    }
    for form in asked {
        let wanted = all.partition_point(|(key, _)| key < form);
        assert!(built.from(form) == all[wanted..]);
    }
}

/// Sort forms that share much, little or nothing, with lengths at which something changes.
fn form() -> impl Strategy<Value = Vec<u8>> {
    let bytes = |value: Vec<u8>| [&[1][..], &value].concat();
    prop_oneof![
        4 => (0..18_000u64).prop_map(move |number| bytes(path(number).into_bytes())),
        4 => vec(prop_oneof![Just(0u8), Just(b'a'), Just(0xff), any::<u8>()], 0..40).prop_map(bytes),
        2 => any::<u64>().prop_map(|id| [&[2][..], &id.to_be_bytes()].concat()),
        2 => (0..2000u64).prop_map(|id| [&[2][..], &id.to_be_bytes()].concat()),
        1 => (0..40usize, any::<u8>()).prop_map(|(len, last)| [&[1][..], &vec![b'x'; len], &[last]].concat()),
        1 => (prop_oneof![120..150usize, 4040..4100usize, 65_520..65_536usize], any::<u8>())
            .prop_map(|(len, last)| [&[1][..], &vec![b'l'; len - 1], &[last]].concat()),
    ]
}

/// Lengths of frames: all alike, of any size, and too long for the index.
fn len() -> impl Strategy<Value = u64> {
    let any_len = |least: u64, end: u64| (least..end).prop_map(|units| units * 8);
    prop_oneof![4 => Just(1064u64), 4 => any_len(6, 100_000), 1 => any_len(1, 1 << 39)]
}

/// Offsets: close together, or anywhere in the longest segment.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![3 => (512..90_000u64).prop_map(|n| n * 8), 1 => (0..1u64 << 40).prop_map(|n| n * 8)]
}

fn model() -> impl Strategy<Value = Model> {
    let record = (form(), offset(), len(), prop_oneof![30 => 1..3u64, 1 => 1..3000u64]);
    let in_model = |records: Vec<(Vec<u8>, u64, u64, u64)>| {
        let mut model = Model::new();
        for (form, offset, len, versions) in records {
            for offset in (0..versions).map(|n| (offset + n * 1064) % (1 << 43)) {
                model.insert((form.clone(), Reverse(offset)), Place::new(offset, len));
            }
        }
        model
    };
    vec(record, 1..400).prop_map(in_model)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_index_holds_and_finds_what_was_put_in(model in model(), asked in vec(form(), 0..5)) {
        let mut asked = asked;
        // Neighbours by one byte of keys that are there.
        for (form, _) in model.keys().step_by(371) {
            asked.push([form.as_slice(), &[0]].concat());
            asked.push(form[..form.len() - 1].to_vec());
        }
        agrees(&model, &asked);
    }

    #[test]
    fn random_bytes_with_a_right_checksum_do_no_harm(bytes in vec(any::<u8>(), UNIT), entries in 1..40u16) {
        let mut bytes = bytes;
        bytes[4..8].copy_from_slice(&[entries as u8, 0, 1, 1]);
        harmless(&sealed(bytes));
    }
}

/// A page whose last key may be of any length: the page is filled up to each byte of its unit.
#[test]
fn pages_are_filled_to_the_last_byte_and_not_beyond() {
    let mut filled = 0;
    let mut pages_before = 1;
    for len in 3000..4000usize {
        let mut model = Model::new();
        for number in 0..100u64 {
            let form = format!("\x01a{number:04}").into_bytes();
            model.insert((form, Reverse(number * 8)), Place::new(number * 8, 48));
        }
        model.insert(([&[1][..], &vec![b'b'; len]].concat(), Reverse(8)), Place::new(8, 48));
        let built = Built::of(&model);
        let used = built.index.pages.iter().rposition(|&byte| byte != 0).unwrap() + 1;
        filled += usize::from(used == UNIT);
        if len % 100 == 0 || used == UNIT || built.top.pages() > pages_before {
            agrees(&model, &[]);
        }
        pages_before = built.top.pages();
    }
    assert_eq!((filled, pages_before), (1, 2), "one length fills the page, and one more takes the next");
}

#[test]
fn the_longest_keys_and_thousands_of_versions_are_found() {
    let mut model = Model::new();
    for (last, len) in [(0u8, 0), (1, 1), (2, 65_534), (3, 65_534), (0xff, 65_534)] {
        let form = [&[1][..], &vec![b'k'; len], &vec![last; usize::from(len > 0)]].concat();
        for version in 0..3u64 {
            let offset = version * 80 + u64::from(last) * 8;
            model.insert((form.clone(), Reverse(offset)), Place::new(offset, 80));
        }
    }
    for version in 0..10_000u64 {
        model.insert((b"\x01key".to_vec(), Reverse(version * 8)), Place::new(version * 8, 8 * version + 8));
    }
    agrees(&model, &[b"\x01ke".to_vec(), b"\x01key\0".to_vec(), vec![1; 65_536], vec![0xff; 70_000]]);
}

/// The page with the checksum of its bytes.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= 4 {
        let crc = crc32c_of(SALT, &0u32.to_le_bytes());
        let crc = crc32c_of(crc, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// CRC-32C bit by bit, so that the checksums of this test are not those of the code under test.
fn crc32c_of(crc: u32, bytes: &[u8]) -> u32 {
    static TABLE: std::sync::OnceLock<[u32; 256]> = std::sync::OnceLock::new();
    let table = TABLE.get_or_init(|| {
        std::array::from_fn(|byte| {
            (0..8).fold(byte as u32, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 })
        })
    });
    !bytes.iter().fold(!crc, |crc, byte| crc >> 8 ^ table[usize::from(crc as u8 ^ byte)])
}

/// Goes through what may be a page; gives whether it was taken for one.
fn harmless(bytes: &[u8]) -> bool {
    if let Ok(page) = Page::parse(bytes) {
        walk(page);
    }
    let Ok(page) = Page::verify(bytes, SALT, 0) else { return false };
    let (forms, entries) = walk(page);
    assert_eq!(entries, page.len(), "a verified page has as many entries as it says");
    assert!(forms.is_sorted());
    for form in forms.iter().step_by(29) {
        assert!(!page.find(form).is_empty(), "a verified page finds what it holds");
    }
    true
}

fn walk(page: Page<'_>) -> (Vec<Vec<u8>>, usize) {
    let mut entries = 0;
    let mut forms = Vec::new();
    let mut cursor = page.entries();
    while cursor.is_valid() {
        assert!(cursor.form().len() <= 17 * UNIT && entries < UNIT, "bounded by the page");
        if entries % 7 == 0 {
            forms.push(cursor.form().to_vec());
        }
        entries += 1;
        cursor.advance();
    }
    for wanted in [&b""[..], b"\x01d003/s01/file_00020", b"\x01zzz"] {
        assert!(page.find(wanted).end <= page.len());
        assert!(page.seek(wanted).place().is_none_or(|place| place.offset < 1 << 45));
    }
    (forms, entries)
}

fn full_page() -> Vec<u8> {
    let mut model = Model::new();
    for number in 0..3000u64 {
        let form = format!("\x01d{:03}/s{:02}/file_{number:05}", number / 40, number % 3).into_bytes();
        let versions = if number % 11 == 0 { 20 } else { 1 };
        for offset in (0..versions).map(|version| number * 104 + version * 900_000) {
            model.insert((form.clone(), Reverse(offset)), Place::new(offset, 104 + number % 7 * 8));
        }
    }
    Built::of(&model).index.pages[..UNIT].to_vec()
}

#[test]
fn any_flipped_bit_of_a_full_page_is_reported_and_does_no_harm() {
    let page = full_page();
    assert!(harmless(&page) && page == sealed(page.clone()));
    let mut taken = 0;
    for bit in 0..UNIT * 8 {
        let mut flipped = page.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Page::verify(&flipped, SALT, 0).is_err(), "bit {bit}");
        taken += usize::from(harmless(&sealed(flipped)));
    }
    assert!(taken > 1000, "flipped letters of keys make other keys, {taken} times");
}

#[test]
fn a_page_cut_anywhere_is_reported_and_does_no_harm() {
    for page in [full_page(), long_page()] {
        for len in (0..page.len()).step_by(page.len() / UNIT) {
            assert!(Page::verify(&page[..len], SALT, 0).is_err(), "{len} bytes");
            harmless(&sealed(page[..len].to_vec()));
        }
    }
}

/// A page of 17 units.
fn long_page() -> Vec<u8> {
    let form = [&[1][..], &vec![b'k'; 65_535]].concat();
    let built = Built::of(&Model::from([((form, Reverse(8)), Place::new(8, 1 << 30))]));
    assert_eq!(built.index.pages.len(), 17 * UNIT);
    built.index.pages
}

#[test]
fn any_flipped_bit_in_the_head_of_a_long_page_is_reported_and_does_no_harm() {
    let page = long_page();
    for bit in (0..64 * 8).chain((64 * 8..page.len() * 8).step_by(4999)) {
        let mut flipped = page.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Page::verify(&flipped, SALT, 0).is_err(), "bit {bit}");
        harmless(&sealed(flipped));
    }
}

/// Paths as trees of files have them.
fn path(number: u64) -> String {
    format!("d{:03}/s{:02}/file_{number:05}", number / 500, number / 50 % 10)
}

/// Any order that is not that of the keys.
fn shuffled(number: u64) -> u64 {
    number * 7919 % 50_000
}

fn index_bytes_per_record(form: impl Fn(u64) -> Vec<u8>, order: impl Fn(u64) -> u64) -> f64 {
    let records = 50_000;
    let model: Model = (0..records)
        .map(|number| {
            let offset = 4096 + order(number) * 1080;
            ((form(number), Reverse(offset)), Place::new(offset, 1080))
        })
        .collect();
    let index = Built::of(&model).index;
    (index.pages.len() + index.top.len()) as f64 / records as f64
}

#[test]
fn an_index_takes_at_most_12_bytes_per_record() {
    let path = |number| [b"\x01", path(number).as_bytes()].concat();
    let id = |number: u64| [&[2][..], &number.to_be_bytes()].concat();
    for (what, bytes, limit) in [
        ("paths, in order", index_bytes_per_record(path, |number| number), 8.0),
        ("paths, out of order", index_bytes_per_record(path, shuffled), 10.0),
        ("ids, in order", index_bytes_per_record(id, |number| number), 6.0),
        ("ids, out of order", index_bytes_per_record(id, shuffled), 8.0),
        ("ids far apart", index_bytes_per_record(|n| id(n * 104_729), shuffled), 10.0),
    ] {
        println!("{what}: {bytes:.2} bytes");
        assert!(bytes <= limit, "{what}: {bytes:.2} bytes, more than {limit}");
    }
}

#[test]
fn a_pack_of_short_paths_takes_at_most_64_bytes_per_record_besides_what_was_put() {
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(LocalStorage::open(dir.path(), LocalStorageOptions::default()).unwrap());
    let mut writer = PackWriter::create(storage, WriterOptions::default()).unwrap();
    let mut put = 0;
    for number in (0..50_000).map(shuffled) {
        let (key, body) = (path(number), vec![7; number as usize % 97]);
        put += key.len() + body.len();
        writer.put("", &Key::bytes(&key).unwrap(), &Attributes::new(), &body).unwrap();
    }
    writer.finish(true).unwrap();
    let files = std::fs::read_dir(dir.path()).unwrap();
    let stored: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    let each = (stored - put as u64) as f64 / 50_000.0;
    println!("{each:.2} bytes per record");
    assert!(each <= 64.0, "{each:.2} bytes");
    let pack = Pack::open_path(dir.path(), Default::default()).unwrap();
    assert_eq!(pack.keys(&[]).unwrap().filter(|entry| entry.is_ok()).count(), 50_000);
}
