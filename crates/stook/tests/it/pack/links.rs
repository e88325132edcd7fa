//! Names of one file share one content: it stays unchanged under every other name, whatever happens
//! to the record that holds it.

use std::sync::Arc;

use stook::pack::format::attributes::{NAMES, Name, Value};
use stook::pack::{
    Attributes, CompactOptions, FileKind, Key, LinkTarget, OpenOptions, Pack, PackWriter, Result,
    SharedWriter, WriterOptions,
};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::model::pack::{ScriptedHost, open_simulated, tiny_writer};
use stook_testing::sim::{Acknowledgements, CrashPoint, ExploreOptions, SimStorage, explore};

const SHARED: &[u8] = b"what all names have";

fn key(name: &str) -> Key {
    Key::bytes(name).unwrap()
}

fn file(names: u32) -> Attributes {
    let mut attributes = Attributes::of_file(FileKind::File, 0o640, 7, None);
    if names > 1 {
        attributes.set(Name::Id(NAMES), Value::U32(names));
    }
    attributes
}

fn link() -> Attributes {
    Attributes::of_file(FileKind::HardLink, 0o640, 7, None)
}

/// The first of `names` with the content, in its group, and the others as links to it, in theirs.
fn put_names(writer: &mut PackWriter, names: &[(&str, &str)]) -> Result<()> {
    for (number, (name, group)) in names.iter().enumerate() {
        match number {
            0 => writer.put(group, &key(name), &file(names.len() as u32), SHARED)?,
            _ => writer.put(group, &key(name), &link(), names[0].0.as_bytes())?,
        };
    }
    Ok(())
}

/// The bytes of a name, and the name under which they are stored.
fn content(pack: &Pack, name: &str) -> Option<(Vec<u8>, String)> {
    let mut at = key(name);
    for _ in 0..4 {
        let record = pack.get(&at).unwrap()?;
        if record.head.attributes.file_kind() != Some(FileKind::HardLink) {
            return Some((
                record.body.to_vec(),
                String::from_utf8_lossy(at.as_bytes().unwrap()).into_owned(),
            ));
        }
        at = Key::bytes(record.body).unwrap();
    }
    panic!("{name} is a link to a link to a link");
}

/// A pack in a directory, new or opened.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn writer(&self) -> PackWriter {
        let there = self.0.path().join("p.stook");
        let options = LocalStorageOptions::default();
        match there.exists() {
            true => {
                let storage = LocalStorage::open(&there, options).unwrap();
                PackWriter::open(Arc::new(storage), WriterOptions::default()).unwrap()
            }
            false => {
                let storage = LocalStorage::create(&there, options).unwrap();
                PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap()
            }
        }
    }

    fn pack(&self) -> Pack {
        Pack::open_path(self.0.path().join("p.stook"), OpenOptions::default()).unwrap()
    }

    /// `a` has its new content, and the others have their old one.
    fn holds(&self, a: Option<&[u8]>, others: &[&str]) {
        let pack = self.pack();
        assert_eq!(content(&pack, "a").map(|(bytes, _)| bytes).as_deref(), a);
        let stored: Vec<_> = others.iter().map(|name| content(&pack, name).unwrap()).collect();
        assert!(stored.iter().all(|(bytes, _)| bytes == SHARED), "{stored:?}");
        assert!(stored.iter().all(|(_, at)| at == &stored[0].1), "they are still one file: {stored:?}");
        assert!(pack.check(|_| ()).unwrap().damages.is_empty());
    }
}

type Change = fn(&mut PackWriter) -> Result<()>;

/// All ways in which the record of `a` can go, and what is `a` then.
const CHANGES: [(&str, Change, Option<&[u8]>); 6] = [
    ("put", |writer| writer.put("", &key("a"), &file(1), b"new").map(drop), Some(b"new")),
    ("put into another group", |writer| writer.put("z", &key("a"), &file(1), b"new").map(drop), Some(b"new")),
    (
        "put in pieces",
        |writer| {
            let mut record = writer.begin("", &key("a"), &file(1), None)?;
            record.write(b"ne")?;
            record.write(b"w")?;
            record.finish().map(drop)
        },
        Some(b"new"),
    ),
    ("delete", |writer| writer.delete(&key("a")).map(|was| assert!(was)), None),
    (
        "a batch that puts",
        |writer| {
            let mut batch = writer.batch("")?;
            batch.put(&key("x"), &file(1), b"x")?;
            batch.put(&key("a"), &file(1), b"new")?;
            batch.commit()
        },
        Some(b"new"),
    ),
    (
        "a batch that deletes",
        |writer| {
            let mut batch = writer.batch("")?;
            assert!(batch.delete(&key("a"))?);
            batch.commit()
        },
        None,
    ),
];

#[test]
fn other_names_keep_their_content_when_the_record_that_holds_it_goes() {
    for (how, change, a) in CHANGES {
        // The names were there before this writer, or are its own and not even flushed; the others
        // of other groups.
        for (before, groups) in [(true, ["", ""]), (false, ["", ""]), (true, ["g", "h"]), (false, ["g", ""])]
        {
            let place = Place::new();
            let mut writer = place.writer();
            put_names(&mut writer, &[("a", ""), ("b", groups[0]), ("c", groups[1])]).unwrap();
            if before {
                writer.finish(true).unwrap();
                writer = place.writer();
            }
            change(&mut writer).unwrap();
            writer.finish(false).unwrap();
            println!("{how}, {before}, {groups:?}");
            place.holds(a, &["b", "c"]);
            // And the new holder may go as well.
            let mut writer = place.writer();
            writer.put("", &key("b"), &file(1), b"b").unwrap();
            writer.finish(true).unwrap();
            place.holds(a, &["c"]);
        }
    }
}

#[test]
fn a_shared_writer_and_a_compaction_keep_it_too() {
    let place = Place::new();
    let mut writer = place.writer();
    put_names(&mut writer, &[("a", ""), ("b", "")]).unwrap();
    writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
    let shared = SharedWriter::new(writer);
    shared.put("", &key("a"), &file(1), b"new").unwrap();
    shared.finish().unwrap().finish(true).unwrap();
    place.holds(Some(b"new"), &["b"]);
}

#[test]
fn a_batch_that_is_given_up_moves_nothing() {
    let place = Place::new();
    let mut writer = place.writer();
    put_names(&mut writer, &[("a", ""), ("b", "")]).unwrap();
    let mut batch = writer.batch("").unwrap();
    batch.put(&key("c"), &link(), b"a").unwrap();
    batch.put(&key("a"), &file(1), b"new").unwrap();
    drop(batch);
    writer.put("", &key("c"), &file(1), b"c").unwrap();
    writer.finish(true).unwrap();
    place.holds(Some(SHARED), &["a", "b"]);
    assert_eq!(content(&place.pack(), "c").unwrap().0, b"c");
}

#[test]
fn names_that_went_before_are_not_brought_back() {
    let place = Place::new();
    let mut writer = place.writer();
    put_names(&mut writer, &[("a", ""), ("b", ""), ("c", ""), ("d", "")]).unwrap();
    writer.finish(true).unwrap();
    let mut writer = place.writer();
    let mut batch = writer.batch("").unwrap();
    batch.delete(&key("b")).unwrap();
    batch.put(&key("c"), &file(1), b"another").unwrap();
    batch.delete(&key("a")).unwrap();
    batch.commit().unwrap();
    writer.finish(true).unwrap();
    place.holds(None, &["d"]);
    let pack = place.pack();
    assert_eq!(content(&pack, "b"), None);
    assert_eq!(content(&pack, "c").unwrap().0, b"another");
}

#[test]
fn content_longer_than_memory_should_hold_is_moved_in_pieces() {
    let place = Place::new();
    let long: Vec<u8> = (0..3_000_000u32).flat_map(|number| number.to_le_bytes()).collect();
    for (how, change, _) in CHANGES {
        let mut writer = place.writer();
        writer.put("", &key("a"), &file(2), &long).unwrap();
        writer.put("", &key("b"), &link(), b"a").unwrap();
        change(&mut writer).unwrap();
        writer.finish(false).unwrap();
        assert!(content(&place.pack(), "b").unwrap().0 == long, "{how}");
    }
}

#[test]
fn content_that_is_damaged_is_not_taken_for_the_new_one() {
    let place = Place::new();
    let mut writer = place.writer();
    put_names(&mut writer, &[("a", ""), ("b", "")]).unwrap();
    writer.finish(true).unwrap();
    let head = place.pack().get(&key("a")).unwrap().unwrap().head;
    let segment = place.0.path().join(format!("p.stook/segment-{:016x}", head.segment));
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(SHARED.len()).position(|window| window == SHARED).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let mut writer = place.writer();
    let refused = writer.put("", &key("a"), &file(1), b"new").unwrap_err().to_string();
    assert!(refused.contains("a holds the content of b"), "{refused}");
    // The writer continues, and the name may be replaced after it is given up.
    assert!(writer.delete(&key("b")).unwrap());
    writer.put("", &key("a"), &file(1), b"new").unwrap();
    writer.finish(true).unwrap();
    assert_eq!(content(&place.pack(), "a").unwrap().0, b"new");
}

/// Replaces the content of names in turn, by every way, over two groups.
fn work(storage: &SimStorage, _: &Acknowledgements<()>) {
    let shared = |storage: &SimStorage| -> Arc<dyn Storage> { Arc::new(storage.clone()) };
    let mut writer = PackWriter::create(shared(storage), tiny_writer(ScriptedHost::new(1))).unwrap();
    for (number, (_, change, _)) in CHANGES.iter().enumerate() {
        let group = if number % 2 == 0 { "" } else { "g" };
        let mut batch = writer.batch("").unwrap();
        batch.put(&key("a"), &file(2), SHARED).unwrap();
        batch.put(&key("b"), &link(), b"a").unwrap();
        batch.commit().unwrap();
        writer.put(group, &key("b"), &link(), b"a").unwrap();
        writer.sync().unwrap();
        change(&mut writer).unwrap();
    }
    writer.finish(true).unwrap();
}

fn all_or_nothing(state: &SimStorage, _: &[()], _: &CrashPoint) {
    let Ok(pack) = open_simulated(state) else { return };
    if let Some((bytes, _)) = content(&pack, "b") {
        assert!(bytes == SHARED, "b is {:?}", String::from_utf8_lossy(&bytes));
    }
    if let Some((bytes, _)) = content(&pack, "a") {
        assert!(bytes == SHARED || bytes == b"new", "a is {:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_crash_at_any_operation_leaves_every_name_its_content() {
    let exploring = ExploreOptions { seed: 11, variants: 9 };
    let checked = explore(&exploring, &SimStorage::new(), work, all_or_nothing);
    assert!(checked > 100, "{checked}");
}

#[test]
fn names_of_a_name_keep_their_content_when_that_name_goes() {
    for (how, change, _) in CHANGES {
        for before in [true, false] {
            let place = Place::new();
            let mut writer = place.writer();
            // `b` holds it, `a` is a name of `b`, and `c` and `d` are names of `a`: our own writers
            // do not do that.
            writer.put("", &key("b"), &file(2), SHARED).unwrap();
            writer.put("", &key("a"), &link(), b"b").unwrap();
            writer.put("", &key("c"), &link(), b"a").unwrap();
            writer.put("g", &key("d"), &link(), b"a").unwrap();
            if before {
                writer.finish(true).unwrap();
                writer = place.writer();
            }
            change(&mut writer).unwrap();
            writer.finish(false).unwrap();
            println!("{how}, {before}");
            let pack = place.pack();
            for name in ["b", "c", "d"] {
                let found = pack.open_file(&key(name)).unwrap().map(|record| record.head().key.clone());
                assert_eq!(found, Some(key("b")), "{name}");
            }
            assert_eq!(&pack.get(&key("b")).unwrap().unwrap().body[..], SHARED);
        }
    }
}

#[test]
fn a_hard_link_is_one_of_the_file_behind_all_links() {
    let place = Place::new();
    let mut writer = place.writer();
    writer.put("", &key("f"), &file(1), SHARED).unwrap();
    writer.put("", &key("l"), &link(), b"f").unwrap();
    writer.put("", &key("s"), &Attributes::of_file(FileKind::Symlink, 0o777, 7, None), b"to").unwrap();
    writer.put("", &key("x"), &Attributes::of_file(FileKind::Directory, 0o755, 7, None), b"").unwrap();
    writer.put("", &key("r"), &link(), b"r").unwrap();
    assert_eq!(writer.mark_hard_links(&key("l")).unwrap(), LinkTarget::File(key("f")));
    assert_eq!(writer.mark_hard_links(&key("s")).unwrap(), LinkTarget::Symlink(b"to".to_vec()));
    for nothing in ["x", "r", "absent"] {
        assert_eq!(writer.mark_hard_links(&key(nothing)).unwrap(), LinkTarget::Nothing, "{nothing}");
    }
    writer.finish(true).unwrap();
    assert!(place.pack().get(&key("f")).unwrap().unwrap().head.attributes.has_hard_links());
}
