//! What lies directly below a directory; and names of files with what they hold, as they are
//! listed.

use std::collections::BTreeMap;
use std::sync::Arc;

use stook::pack::{Attributes, Error, FileKind, Key, KeyValue, Kinds, Pack, PackWriter};
use stook::storage::Storage;
use stook_testing::model::pack::{ScriptedHost, open_simulated, tiny_writer};
use stook_testing::sim::SimStorage;

fn key(name: &str) -> Key {
    Key::bytes(name).unwrap()
}

fn packed(records: &[(Key, Option<FileKind>, &str)]) -> Pack {
    let storage = SimStorage::new();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut writer = PackWriter::create(shared, tiny_writer(ScriptedHost::new(1))).unwrap();
    for (key, kind, body) in records {
        let attributes = kind.map_or_else(Attributes::new, |kind| Attributes::of_file(kind, 0o644, 7, None));
        writer.put("", key, &attributes, body.as_bytes()).unwrap();
    }
    writer.finish(true).unwrap();
    open_simulated(&storage).unwrap()
}

/// The same by a look at every key: whether a child has a record, and whether keys lie below it.
fn naive(keys: &[Key], directory: &str) -> BTreeMap<Key, (bool, bool)> {
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let mut children = BTreeMap::new();
    for one in keys {
        let KeyValue::Bytes(bytes) = one.value() else {
            if prefix.is_empty() {
                children.insert(one.clone(), (true, false));
            }
            continue;
        };
        let text = std::str::from_utf8(bytes).unwrap();
        let Some(rest) = text.strip_prefix(&prefix).filter(|rest| !rest.is_empty()) else { continue };
        match rest.split_once('/').filter(|(first, _)| !(first.is_empty() && prefix.is_empty())) {
            None => children.entry(one.clone()).or_insert((false, false)).0 = true,
            Some((first, _)) => {
                children.entry(key(&format!("{prefix}{first}"))).or_insert((false, false)).1 = true;
            }
        }
    }
    children
}

#[test]
fn children_are_what_a_look_at_every_key_gives() {
    let mut names: Vec<String> = [
        "", "a", "a/1", "a-b", "a.txt", "a0", "a/b/c", "b//x", "b/", "/top", "/top/2", "z", "d/e/f/g", "ä/ö",
    ]
    .map(str::to_owned)
    .to_vec();
    // More than are passed by one after another.
    for (directory, count) in [("long", 500), ("long/deep", 70), ("long-er", 3), ("long0", 64), ("last", 65)]
    {
        names.extend((0..count).map(|number| format!("{directory}/{number:04}")));
    }
    let mut keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
    keys.extend([Key::id(0), Key::id(7), Key::id(u64::MAX)]);
    let records: Vec<_> = keys.iter().map(|key| (key.clone(), None, "x")).collect();
    let pack = packed(&records);
    for directory in
        ["", "a", "b", "b/", "long", "long/deep", "long0", "last", "d", "d/e/f", "none", "z", "ä", "lon"]
    {
        let found = pack.children(directory.as_bytes()).unwrap();
        assert!(found.is_sorted_by(|a, b| a.key < b.key), "{directory}");
        let found: BTreeMap<Key, (bool, bool)> =
            found.into_iter().map(|child| (child.key, (child.entry.is_some(), child.has_children))).collect();
        assert_eq!(found, naive(&keys, directory), "{directory}");
    }
}

#[test]
fn hard_links_have_the_content_and_the_length_of_their_file() {
    use FileKind::{Directory, File, HardLink, Symlink};
    let long = "c".repeat(9_000);
    let pack = packed(&[
        (key("file"), Some(File), &long),
        (key("one"), Some(HardLink), "file"),
        (key("two"), Some(HardLink), "one"),
        (key("d"), Some(Directory), ""),
        (key("s"), Some(Symlink), "file"),
        (key("of-d"), Some(HardLink), "d"),
        (key("lost"), Some(HardLink), "nothing"),
        (key("loop"), Some(HardLink), "loop"),
        (Key::id(3), None, "plain"),
    ]);
    let names = ["one", "file", "two", "d", "s", "none"].map(key);
    let bodies: Vec<Option<String>> = pack
        .get_files(&names)
        .unwrap()
        .into_iter()
        .map(|record| record.unwrap().map(|record| String::from_utf8(record.body.to_vec()).unwrap()))
        .collect();
    let long = Some(long);
    assert_eq!(
        bodies,
        [long.clone(), long.clone(), long.clone(), Some(String::new()), Some("file".into()), None]
    );
    let mut seen = vec![None; names.len()];
    pack.get_files_with(&names, |number, content| {
        let content = content.unwrap().map(|content| String::from_utf8(content.to_vec()).unwrap());
        assert!(seen[number].replace(content).is_none(), "{number} is given twice");
    })
    .unwrap();
    assert_eq!(seen.into_iter().map(Option::unwrap).collect::<Vec<_>>(), bodies);
    for (name, body) in names.iter().zip(&bodies) {
        let content = pack.get_file_with(name, |content| String::from_utf8(content.to_vec()).unwrap());
        assert_eq!(content.unwrap(), *body, "{name}");
    }
    let record = pack.get_file(&key("two")).unwrap().unwrap();
    assert_eq!((record.head.key, record.head.body_len), (key("two"), Some(9_000)));
    let lens = |names: &[&str]| {
        let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
        let entries: Vec<_> =
            pack.locate(&keys).unwrap().into_iter().map(|entry| entry.unwrap().unwrap()).collect();
        let heads = pack.file_heads(&entries).unwrap();
        heads.into_iter().map(|head| head.map(|head| head.body_len)).collect::<Vec<_>>()
    };
    let reported: Vec<_> = lens(&["one", "d", "two", "s", "file"]).into_iter().map(Result::unwrap).collect();
    assert_eq!(reported, [Some(9_000), Some(0), Some(9_000), Some(4), Some(9_000)]);
    for (name, why) in [("of-d", "not a file"), ("lost", "no such file"), ("loop", "without end")] {
        let opened = pack.open_file(&key(name)).unwrap_err().to_string();
        let got = pack.get_file(&key(name)).unwrap_err();
        let looked = pack.get_file_with(&key(name), <[u8]>::len).unwrap_err();
        assert_eq!(looked.to_string(), got.to_string());
        pack.get_files_with(&[key(name)], |_, content| {
            assert_eq!(content.unwrap_err().to_string(), got.to_string());
        })
        .unwrap();
        let listed = lens(&[name]).remove(0).unwrap_err();
        assert!(matches!(got, Error::Invalid(_)) && got.to_string().contains(why), "{got}");
        assert_eq!((got.to_string(), listed.to_string()), (opened.clone(), opened), "one rule for all");
    }
    let of = |kinds: Kinds| {
        let entries = pack.keys(&[]).unwrap().map(Result::unwrap).collect();
        pack.of_kinds(entries, kinds).unwrap().into_iter().map(|entry| entry.key).collect::<Vec<_>>()
    };
    let files = ["file", "loop", "lost", "of-d", "one", "two"].map(key);
    assert_eq!(of(Kinds::FILES), files.iter().cloned().chain([Key::id(3)]).collect::<Vec<_>>());
    assert_eq!(of(Kinds { files: false, directories: true, symlinks: true }), ["d", "s"].map(key));
    assert_eq!(of(Kinds::ALL).len(), 9);
}

#[test]
fn the_last_id_is_the_highest_that_is_live() {
    assert_eq!(packed(&[(key("text"), None, "x")]).last_id().unwrap(), None);
    for ids in [vec![0], vec![7, 3], vec![u64::MAX, 1], vec![u64::MAX - 1, 1 << 40, 0]] {
        let records: Vec<_> = ids.iter().map(|&id| (Key::id(id), None, "x")).collect();
        assert_eq!(packed(&records).last_id().unwrap(), ids.iter().max().copied(), "{ids:?}");
    }
}
