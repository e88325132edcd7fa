//! What the golden packs are made of: each shows some parts of the format, and all together show
//! all that is written.

use std::fs::OpenOptions;
use std::time::Duration;

use stook::pack::format::attributes::{Name, Value};
use stook::pack::{Attributes, CompactOptions, FileKind, Key, PackWriter, WriterOptions};

use super::golden::Maker;

pub(super) struct Golden {
    pub(super) name: &'static str,
    pub(super) note: &'static str,
    pub(super) make: fn(&mut Maker),
}

pub(super) const ALL: &[Golden] = &[
    Golden { name: "empty", note: "no record and no segment", make: empty },
    Golden {
        name: "kinds",
        note: "complete: one sealed segment with keys of both kinds, bodies around the chunk length, framed bodies, all types of attributes, an index of several pages and a page of several units",
        make: kinds,
    },
    Golden {
        name: "overwritten",
        note: "sealed segments with deletion vectors; versions of one key that fill several index pages",
        make: overwritten,
    },
    Golden { name: "groups", note: "two groups, several segments of each, roots", make: groups },
    Golden {
        name: "torn",
        note: "an active segment with sync marks, records past the committed length that overwrite older ones, and a torn tail",
        make: torn,
    },
    Golden {
        name: "deleted",
        note: "deletions that a generation knows, and others past the committed length, one of a key that was put again",
        make: deleted,
    },
    Golden {
        name: "batches",
        note: "batches of puts and deletions: one that a generation knows, one past the committed length, and one without its end, which does not count",
        make: batches,
    },
    Golden {
        name: "compacted",
        note: "segments that were compacted: records in the order of their keys, older versions that are kept, what died since, and a later segment beside them",
        make: compacted,
    },
    Golden {
        name: "checkpoint",
        note: "an active segment with checkpoints, and records after them",
        make: checkpoint,
    },
];

fn body(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
}

fn key(text: impl AsRef<[u8]>) -> Key {
    Key::bytes(text).unwrap()
}

fn plain(maker: &mut Maker, writer: &mut PackWriter, text: &str, len: usize) {
    let seed = text.bytes().map(u64::from).sum();
    maker.put(writer, "", &key(text), &Attributes::new(), &body(seed, len));
}

fn empty(maker: &mut Maker) {
    maker.create(maker.options()).finish(true).unwrap();
}

fn every_attribute() -> Attributes {
    let mut all = Attributes::of_file(FileKind::File, 0o640, -1, Some((1000, u32::MAX)));
    all.set(Name::Id(128), Value::U64(u64::MAX));
    all.set(Name::Id(129), Value::I64(i64::MIN));
    all.set(Name::Id(255), Value::Bytes(vec![0, 255, 10]));
    all.set(Name::Text("größe".into()), Value::Text("naïve\n".into()));
    all.set(Name::Text("n".into()), Value::U8(7));
    all.set(Name::Text("empty".into()), Value::Text(String::new()));
    all
}

fn kinds(maker: &mut Maker) {
    let mut writer = maker.create(maker.options());
    writer.set_complete(true);
    maker.complete = true;
    for (seed, len) in [0, 1, 4095, 4096, 4097].into_iter().enumerate() {
        let key = Key::id(((len as u64) << 40) + 1);
        maker.put(&mut writer, "", &key, &Attributes::new(), &body(seed as u64, len));
    }
    for len in [0, 1, 4096, 4097] {
        maker.put_framed(&mut writer, "", &key(format!("framed/{len}")), &body(len as u64, len));
    }
    let file = Attributes::of_file(FileKind::Symlink, 0o777, 1_600_000_000_123_456_789, None);
    maker.put(&mut writer, "", &key(""), &file, b"target");
    maker.put(&mut writer, "", &key(b"\xff\n\0"), &every_attribute(), b"odd key");
    maker.put(&mut writer, "", &Key::id(0), &Attributes::new(), b"least id");
    maker.put(&mut writer, "", &Key::id(u64::MAX), &Attributes::new(), b"greatest id");
    maker.put(&mut writer, "", &key([b'k'; 5000]), &Attributes::new(), b"long key");
    for number in 0..60u64 {
        let text = format!("tree/{:03}/{}", number * 7 % 60, "abcdefghij".repeat(6 + number as usize % 5));
        maker.put(&mut writer, "", &key(text), &Attributes::new(), &body(number, number as usize));
    }
    writer.finish(true).unwrap();
}

fn overwritten(maker: &mut Maker) {
    let mut writer = maker.create(maker.options());
    for number in 0..20 {
        plain(maker, &mut writer, &format!("key{number:02}"), 100);
    }
    for version in 0..1400 {
        maker.put(&mut writer, "", &key("many"), &Attributes::new(), &body(version, 3));
    }
    plain(maker, &mut writer, "many\0", 5);
    writer.finish(true).unwrap();
    for step in [3, 5] {
        let mut writer = PackWriter::open(maker.storage(), maker.options()).unwrap();
        for number in (0..20).step_by(step) {
            plain(maker, &mut writer, &format!("key{number:02}"), 100 * step);
        }
        writer.finish(true).unwrap();
    }
}

fn groups(maker: &mut Maker) {
    let mut writer = maker.create(WriterOptions { segment_len: 8000, ..maker.options() });
    writer.set_roots(vec![b"/data/a".to_vec(), b"/data/\xff".to_vec()]);
    for number in 0..24u64 {
        let group = if number % 3 == 0 { "" } else { "images/β" };
        let len = number as usize * 41;
        maker.put(&mut writer, group, &Key::id(number), &Attributes::new(), &body(number, len));
    }
    writer.finish(false).unwrap();
}

fn torn(maker: &mut Maker) {
    let mut writer = maker.create(maker.options());
    for number in 0..5 {
        plain(maker, &mut writer, &format!("a{number}"), 50);
    }
    writer.sync().unwrap();
    for number in 3..8 {
        plain(maker, &mut writer, &format!("a{number}"), 1200);
    }
    maker.put_framed(&mut writer, "", &key("framed"), &body(9, 5000));
    writer.sync().unwrap();
    writer.put("", &key("lost"), &Attributes::new(), &body(10, 300)).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let segment = maker.dir.join(format!("segment-{:016x}", 1));
    let file = OpenOptions::new().write(true).open(segment).unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(len - 20).unwrap();
    maker.torn = true;
}

fn deleted(maker: &mut Maker) {
    let mut writer = maker.create(maker.options());
    for number in 0..12 {
        let group = if number % 2 == 0 { "even" } else { "odd" };
        maker.put(&mut writer, group, &Key::id(number), &Attributes::new(), &body(number, 60));
    }
    for number in [3, 4] {
        maker.delete(&mut writer, &Key::id(number));
    }
    writer.finish(true).unwrap();
    let mut writer = PackWriter::open(maker.storage(), maker.options()).unwrap();
    plain(maker, &mut writer, "new", 10);
    plain(maker, &mut writer, "gone", 20);
    writer.publish().unwrap();
    maker.delete(&mut writer, &key("gone"));
    for number in [0, 1, 11] {
        maker.delete(&mut writer, &Key::id(number));
    }
    maker.put(&mut writer, "", &Key::id(1), &Attributes::new(), b"again");
    writer.sync().unwrap();
}

fn batches(maker: &mut Maker) {
    let mut writer = maker.create(maker.options());
    for number in 0..6 {
        maker.put(&mut writer, "other", &Key::id(number), &Attributes::new(), &body(number, 30));
    }
    maker.batch(&mut writer, &[(10, Some(40)), (1, None), (11, Some(0)), (10, Some(7))]);
    writer.publish().unwrap();
    maker.batch(&mut writer, &[(2, None), (12, Some(5000)), (3, Some(20)), (12, None)]);
    writer.sync().unwrap();
    let mut lost = writer.batch("").unwrap();
    lost.put(&Key::id(4), &Attributes::new(), b"lost").unwrap();
    assert!(lost.delete(&Key::id(5)).unwrap());
    lost.commit().unwrap();
    writer.sync().unwrap();
    drop(writer);
    let segment = maker.dir.join(format!("segment-{:016x}", 2));
    let file = OpenOptions::new().write(true).open(segment).unwrap();
    file.set_len(file.metadata().unwrap().len() - 8).unwrap();
    maker.torn = true;
}

fn compacted(maker: &mut Maker) {
    let mut writer = maker.create(WriterOptions { segment_len: 24 << 10, ..maker.options() });
    for number in 0..60 {
        plain(maker, &mut writer, &format!("c{:02}", number * 7 % 60), 600);
    }
    maker.put_framed(&mut writer, "", &key("c31"), &body(31, 9000));
    for number in 0..20 {
        plain(maker, &mut writer, &format!("c{:02}", number * 11 % 60), 100);
    }
    maker.delete(&mut writer, &key("c02"));
    maker.batch(&mut writer, &[(1, Some(10)), (2, Some(20))]);
    // What died within the last ten puts stays.
    let options = CompactOptions { keep: Duration::from_secs(10), ..CompactOptions::default() };
    let done = writer.compact(&options, &mut |_| true).unwrap();
    assert!(done.steps == 1 && done.dead_records > 5);
    plain(maker, &mut writer, "c03", 50);
    maker.delete(&mut writer, &key("c04"));
    writer.finish(true).unwrap();
}

fn checkpoint(maker: &mut Maker) {
    let mut writer = maker.create(WriterOptions { checkpoint_len: 7000, ..maker.options() });
    for number in 0..50 {
        plain(maker, &mut writer, &format!("c{:02}", number * 3 % 50), 320);
    }
    plain(maker, &mut writer, "c10", 200);
    writer.sync().unwrap();
}
