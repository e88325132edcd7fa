//! The packs in `tests/golden/` are made today byte for byte as on the day they were committed, and
//! read as such.
//!
//! Expected contents are recorded from what was put, not from what was read. `make golden`
//! regenerates them; that is only for a new version of the format. `tests/python` reads them with
//! code that shares nothing with ours.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use stook::pack::format::attributes::{Name, Value};
use stook::pack::{Attributes, Host, Key, KeyValue, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};

use super::shapes;

/// Set by `make golden`.
const WRITE: &str = "STOOK_WRITE_GOLDEN";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// A machine with a clock that is set by the test, and reproducible randomness.
#[derive(Debug)]
struct FixedHost {
    now_ns: AtomicI64,
    drawn: AtomicU64,
}

impl Host for FixedHost {
    fn now_ns(&self) -> i64 {
        self.now_ns.load(Relaxed)
    }

    fn random(&self, bytes: &mut [u8]) -> stook::Result<()> {
        for byte in bytes {
            let number = self.drawn.fetch_add(1, Relaxed) + 1;
            *byte = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
        }
        Ok(())
    }

    fn describe(&self) -> String {
        "golden".into()
    }
}

/// Makes one golden pack and notes what must be in it.
pub(super) struct Maker {
    pub(super) dir: PathBuf,
    host: Arc<FixedHost>,
    records: BTreeMap<Vec<u8>, Json>,
    pub(super) complete: bool,
    pub(super) torn: bool,
}

impl Maker {
    fn new(dir: PathBuf) -> Self {
        let host = FixedHost { now_ns: AtomicI64::new(1_700_000_000_000_000_000), drawn: AtomicU64::new(0) };
        Self { dir, host: Arc::new(host), records: BTreeMap::new(), complete: false, torn: false }
    }

    pub(super) fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(LocalStorage::open(&self.dir, LocalStorageOptions::default()).unwrap())
    }

    pub(super) fn options(&self) -> WriterOptions {
        WriterOptions { chunk_log2: 12, host: self.host.clone(), ..WriterOptions::default() }
    }

    pub(super) fn create(&self, options: WriterOptions) -> PackWriter {
        PackWriter::create(self.storage(), options).unwrap()
    }

    pub(super) fn put(
        &mut self,
        writer: &mut PackWriter,
        group: &str,
        key: &Key,
        attributes: &Attributes,
        body: &[u8],
    ) {
        let now_ns = self.host.now_ns.fetch_add(1_000_000_007, Relaxed) + 1_000_000_007;
        let sequence = writer.put(group, key, attributes, body).unwrap();
        self.note(key, describe(key, group, (sequence, now_ns), attributes, body));
    }

    pub(super) fn delete(&mut self, writer: &mut PackWriter, key: &Key) {
        self.host.now_ns.fetch_add(1_000_000_007, Relaxed);
        assert!(writer.delete(key).unwrap());
        self.records.remove(key.sort_form());
    }

    /// Puts records with bodies of these lengths, or deletes, all in one batch.
    pub(super) fn batch(&mut self, writer: &mut PackWriter, members: &[(u64, Option<usize>)]) {
        let mut batch = writer.batch("").unwrap();
        // The clock advances, and all of a batch has the time of its first.
        let first_ns = self.host.now_ns.load(Relaxed) + 1_000_000_007;
        for (number, len) in members {
            self.host.now_ns.fetch_add(1_000_000_007, Relaxed);
            let key = Key::id(*number);
            let Some(len) = len else {
                assert!(batch.delete(&key).unwrap());
                self.records.remove(key.sort_form());
                continue;
            };
            let body = vec![*number as u8; *len];
            let sequence = batch.put(&key, &Attributes::new(), &body).unwrap();
            self.note(&key, describe(&key, "", (sequence, first_ns), &Attributes::new(), &body));
        }
        batch.commit().unwrap();
    }

    /// Puts a record whose length is not given before.
    pub(super) fn put_framed(&mut self, writer: &mut PackWriter, group: &str, key: &Key, body: &[u8]) {
        let now_ns = self.host.now_ns.fetch_add(1_000_000_007, Relaxed) + 1_000_000_007;
        let attributes = Attributes::new();
        let mut record = writer.begin(group, key, &attributes, None).unwrap();
        body.chunks(1000).for_each(|part| record.write(part).unwrap());
        let sequence = record.finish().unwrap();
        self.note(key, describe(key, group, (sequence, now_ns), &attributes, body));
    }

    fn note(&mut self, key: &Key, description: Json) {
        self.records.insert(key.sort_form().to_vec(), description);
    }

    /// One record a line, so that a difference can be read.
    fn expected(&self, note: &str) -> String {
        let lines: Vec<String> = self.records.values().map(|record| format!("  {record}")).collect();
        let (complete, torn) = (self.complete, self.torn);
        let records = if lines.is_empty() { "[]".into() } else { format!("[\n{}\n ]", lines.join(",\n")) };
        format!(
            "{{\n \"note\": {},\n \"complete\": {complete},\n \"torn\": {torn},\n \"records\": {records}\n}}\n",
            json!(note)
        )
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn key_text(key: &Key) -> String {
    match key.value() {
        KeyValue::Id(id) => format!("id:{id}"),
        KeyValue::Bytes(bytes) => match str::from_utf8(bytes) {
            Ok(text) if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) => format!("text:{text}"),
            _ => format!("hex:{}", hex(bytes)),
        },
    }
}

fn attribute(name: &Name, value: &Value) -> (String, Json) {
    let name = match name {
        Name::Id(id) => match id {
            1 => "kind".into(),
            2 => "mode".into(),
            3 => "mtime_ns".into(),
            4 => "uid".into(),
            5 => "gid".into(),
            other => format!("#{other}"),
        },
        Name::Text(text) => format!("={text}"),
    };
    let value = match value {
        Value::U64(number) => json!(number),
        Value::I64(number) => json!(number),
        Value::U32(number) => json!(number),
        Value::U8(number) => json!(number),
        Value::Bytes(bytes) => json!({ "hex": hex(bytes) }),
        Value::Text(text) => json!(text),
    };
    (name, value)
}

fn describe(key: &Key, group: &str, put: (u64, i64), attributes: &Attributes, body: &[u8]) -> Json {
    let attributes: serde_json::Map<String, Json> =
        attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    json!({
        "key": key_text(key),
        "group": group,
        "sequence": put.0,
        "time_ns": put.1,
        "attributes": attributes,
        "length": body.len(),
        "sha256": hex(&Sha256::digest(body)),
    })
}

/// What a pack holds, in the form in which it is expected.
fn read(pack: &Pack) -> Json {
    let groups: BTreeMap<u64, String> =
        pack.segments().into_iter().map(|info| (info.id, info.group)).collect();
    let records = pack.keys(&[]).unwrap().map(|entry| {
        let record = pack.get(&entry.unwrap().key).unwrap().unwrap();
        let head = &record.head;
        describe(
            &head.key,
            &groups[&head.segment],
            (head.sequence, head.time_ns),
            &head.attributes,
            &record.body,
        )
    });
    let records: Vec<Json> = records.collect();
    json!({
        "complete": pack.is_complete(),
        "torn": !pack.torn_tails().is_empty(),
        "records": records,
    })
}

/// The files of a pack but the lock.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let files =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
    files.filter(|(name, _)| name != "writer.lock").collect()
}

fn write(name: &str, made: &BTreeMap<String, Vec<u8>>, expected: &str) {
    let dir = folder().join(format!("{name}.stook"));
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    fs::create_dir_all(&dir).unwrap();
    made.iter().for_each(|(file, bytes)| fs::write(dir.join(file), bytes).unwrap());
    fs::write(folder().join(format!("{name}.expected.json")), expected).unwrap();
}

#[test]
fn golden_packs_are_made_byte_for_byte_as_when_they_were_committed() {
    for golden in shapes::ALL {
        let dir = tempfile::tempdir().unwrap();
        let mut maker = Maker::new(dir.path().join("p.stook"));
        fs::create_dir(&maker.dir).unwrap();
        (golden.make)(&mut maker);
        let (made, expected) = (files(&maker.dir), maker.expected(golden.note));
        if std::env::var_os(WRITE).is_some() {
            write(golden.name, &made, &expected);
        }
        let committed = files(&folder().join(format!("{}.stook", golden.name)));
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&made), names(&committed), "{}", golden.name);
        for (name, bytes) in &made {
            let differs = bytes.iter().zip(&committed[name]).position(|(now, then)| now != then);
            assert_eq!((bytes.len(), differs), (committed[name].len(), None), "{}: {name}", golden.name);
        }
        let text = fs::read_to_string(folder().join(format!("{}.expected.json", golden.name))).unwrap();
        assert_eq!(text, expected, "{}", golden.name);
    }
}

#[test]
fn golden_packs_are_read_as_they_were_written() {
    let mut committed: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".stook")?.to_owned()))
        .collect();
    committed.sort();
    let mut known: Vec<&str> = shapes::ALL.iter().map(|golden| golden.name).collect();
    known.sort_unstable();
    assert_eq!(committed, known);
    for name in known {
        let text = fs::read_to_string(folder().join(format!("{name}.expected.json"))).unwrap();
        let mut expected: Json = serde_json::from_str(&text).unwrap();
        expected.as_object_mut().unwrap().remove("note");
        let pack = Pack::open_path(folder().join(format!("{name}.stook")), OpenOptions::default()).unwrap();
        assert_eq!(pack.check(|_| ()).unwrap().damages, [], "{name}");
        assert_eq!(read(&pack), expected, "{name}");
    }
}
