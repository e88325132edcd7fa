//! Foreign files with names of a pack: whatever their number and kind, acknowledged records stay,
//! nothing panics, and the files are not removed.

use std::fs;
use std::path::Path;

use stook::pack::{Attributes, CompactOptions, Error, Key, PackWriter, Result};
use stook_testing::conformance::Strange;

use super::hostile::{local, open, options};

/// The entry under a name.
#[derive(Debug, Clone, Copy)]
enum Content {
    Empty,
    Garbage,
    Strange(Strange),
}

const CONTENTS: [Content; 5] = [
    Content::Empty,
    Content::Garbage,
    Content::Strange(Strange::Directory),
    Content::Strange(Strange::Link),
    Content::Strange(Strange::Fifo),
];

impl Content {
    fn make(self, path: &Path) {
        match self {
            Self::Empty => fs::write(path, b"").unwrap(),
            Self::Garbage => fs::write(path, [0xA7; 9000]).unwrap(),
            Self::Strange(strange) => assert!(strange.make(path)),
        }
    }

    fn is_at(self, path: &Path) -> bool {
        match self {
            Self::Empty => fs::read(path).is_ok_and(|bytes| bytes.is_empty()),
            Self::Garbage => fs::read(path).is_ok_and(|bytes| bytes == [0xA7; 9000]),
            Self::Strange(strange) => strange.is_at(path),
        }
    }
}

/// A pack of two generations with one record, and what the next numbers are.
fn small(directory: &Path) {
    let mut writer = PackWriter::create(local(directory), options()).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"one").unwrap();
    writer.finish(false).unwrap();
}

fn body(directory: &Path, id: u64) -> Option<Vec<u8>> {
    open(directory).unwrap().get(&Key::id(id)).unwrap().map(|record| record.body.to_vec())
}

/// Puts, publishes, compacts, in several writers; the keys that were acknowledged.
fn work(directory: &Path, acknowledged: &mut Vec<u64>) -> Result<()> {
    for id in 2..5 {
        let mut writer = PackWriter::open(local(directory), options())?;
        writer.put("", &Key::id(id), &Attributes::new(), b"more")?;
        writer.sync()?;
        acknowledged.push(id);
        writer.delete(&Key::id(1))?;
        writer.publish()?;
        if id == 3 {
            writer.compact(&CompactOptions::default(), &mut |_| true)?;
        }
        writer.finish(id == 4)?;
    }
    Ok(())
}

/// Every kind of name with a number.
fn names(number: u64) -> [String; 6] {
    [
        format!("manifest-{number:016x}"),
        format!("segment-{number:016x}"),
        format!("deletes-{number:016x}-{number:016x}"),
        format!("deletes-0000000000000001-{number:016x}"),
        format!("checkpoint-0000000000000001-{number:016x}"),
        format!("checkpoint-{number:016x}-0000000000001000"),
    ]
}

fn look(directory: &Path, name: &str, content: Content) {
    let path = directory.join(name);
    if path.symlink_metadata().is_ok() {
        return; // The pack's own: no stray has this name.
    }
    content.make(&path);
    let case = format!("{content:?} as {name}");
    let mut acknowledged = vec![];
    match work(directory, &mut acknowledged) {
        Ok(()) => {
            assert_eq!(acknowledged.len(), 3, "{case}");
            for &id in &acknowledged {
                assert_eq!(body(directory, id).as_deref(), Some(&b"more"[..]), "{case}");
            }
            assert_eq!(body(directory, 1), None, "{case}");
            let report = open(directory).unwrap().check(|_| {}).unwrap();
            let reported: Vec<String> =
                report.damages.iter().map(ToString::to_string).chain(report.notes).collect();
            let is_of_manifest = name.starts_with("manifest-");
            assert!(is_of_manifest || report.damages.is_empty(), "{case}: {reported:?}");
            assert!(reported.iter().any(|what| what.contains(name)), "{case} is reported: {reported:?}");
        }
        // The newest manifest is damaged: that is refused, before anything is changed.
        Err(error) => {
            let newest = name.starts_with("manifest-");
            assert!(newest && acknowledged.is_empty() && error.to_string().contains(name), "{case}: {error}");
            assert!(matches!(error, Error::Damaged(_)), "{case}: {error:?}");
            fs::rename(&path, directory.join("away")).unwrap();
            assert_eq!(body(directory, 1).as_deref(), Some(&b"one"[..]), "{case}");
            fs::rename(directory.join("away"), &path).unwrap();
        }
    }
    assert!(content.is_at(&path), "{case} is left as it is");
}

#[test]
fn a_stray_with_any_number_costs_no_acknowledged_record_and_is_left_alone() {
    // 2 is the last segment and generation, 3 and 4 come next.
    let numbers =
        [0, 1, 2, 3, 4, 5, 4096, (1 << 32) + 2, (1 << 32) + 3, (1 << 62) - 1, 1 << 62, 1 << 63, u64::MAX];
    for number in numbers {
        for name in names(number) {
            // All contents are treated alike; for a next number, all of them are tried.
            let few = if (2..=4).contains(&number) { &CONTENTS[..] } else { &CONTENTS[..1] };
            for &content in few {
                let directory = tempfile::tempdir().unwrap();
                small(directory.path());
                look(directory.path(), &name, content);
            }
        }
    }
}

#[test]
fn numbers_that_have_come_to_an_end_are_refused_before_anything_is_changed() {
    let directory = tempfile::tempdir().unwrap();
    small(directory.path());
    let files = || {
        let mut names: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    assert!(before.iter().all(|name| name != "writer.lock"), "{before:?}");
    // A stray next to the last number is foreign, so that it never exhausts the numbers.
    fs::write(directory.path().join(format!("segment-{:016x}", (1u64 << 62) - 1)), b"").unwrap();
    let mut writer = PackWriter::open(local(directory.path()), options()).unwrap();
    writer.put("another", &Key::id(2), &Attributes::new(), b"two").unwrap();
    writer.finish(true).unwrap();
    assert_eq!(body(directory.path(), 2).as_deref(), Some(&b"two"[..]));
    assert!(files().iter().any(|name| name == "segment-0000000000000002"), "{:?}", files());
}
