//! Holes of files: what the medium does not keep is a hole again, and nothing else is.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use stook::extent::ByteRange;
use stook::pack::tree::RecordTree;
use stook::pack::{Attributes, FileKind, Key, PackWriter, WriterOptions};
use stook::source::{FileSource, Source as _};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::tree::Holes;
use stook::walk::DirectoryTree;

use super::{Place, write};

const MIB: u64 = 1 << 20;

/// A file of this length with bytes at some offsets, 4,096 each.
fn sparse(path: &Path, len: u64, data: &[u64]) {
    let file = File::create(path).unwrap();
    file.set_len(len).unwrap();
    for at in data {
        file.write_all_at(&[7; 4096], *at).unwrap();
    }
    // Only then does a file system say for certain what it keeps.
    file.sync_all().unwrap();
}

fn taken(path: &Path) -> u64 {
    File::open(path).unwrap().sync_all().unwrap();
    fs::metadata(path).unwrap().blocks() * 512
}

fn holes_on_disk(path: &Path) -> Holes {
    FileSource::open(path).unwrap().holes().unwrap()
}

/// Whether the file system below a place reports holes: all is data where it does not.
fn are_reported(place: &Place) -> bool {
    let path = place.path("probe");
    sparse(&path, 4 * MIB, &[]);
    !holes_on_disk(&path).is_empty()
}

const SPARSE: [(&str, u64, &[u64]); 5] = [
    // Read by the walk; streamed; nothing but a hole; a hole in front, in the middle, at the end.
    ("small", 900_000, &[400_000]),
    ("long", 40 * MIB, &[0, 20 * MIB]),
    ("nothing", 12 * MIB, &[]),
    ("end", 9 * MIB, &[9 * MIB - 4096]),
    ("odd", 5 * MIB + 77, &[MIB]),
];

#[test]
fn holes_survive_packing_and_unpacking() {
    let place = Place::new();
    if !are_reported(&place) {
        return;
    }
    for (name, len, data) in SPARSE {
        sparse(&place.tree().join(name), len, data);
    }
    fs::hard_link(place.tree().join("long"), place.tree().join("name of long")).unwrap();
    place.pack();
    place.comes_back("out");
    let (tree, pack) = (DirectoryTree::open(place.tree()).unwrap(), place.open());
    let records = RecordTree::new(std::sync::Arc::new(pack)).unwrap();
    for (name, len, _) in SPARSE {
        let (before, after) = (place.tree().join(name), place.path("out").join(name));
        let holes = holes_on_disk(&before);
        assert!(!holes.is_empty() && holes.kept_bytes(len) <= taken(&before), "{name}: {holes:?}");
        assert_eq!(holes_on_disk(&after), holes, "{name}");
        assert!(taken(&after) <= taken(&before) + (64 << 10), "{name}");
        // Every tree says the same of it.
        let of = |tree: &dyn stook::tree::Tree| {
            let id = tree.find(name.as_bytes()).unwrap().unwrap();
            (tree.holes(id).unwrap(), tree.open(id).unwrap().holes().unwrap())
        };
        assert_eq!(of(&tree), (holes.clone(), holes.clone()), "{name}");
        assert_eq!(of(&records), (holes.clone(), holes), "{name}");
    }
}

#[test]
fn no_hole_is_made_where_zeros_were_written() {
    let place = Place::new();
    for (name, len) in [("small", 500_000), ("read-at-once", 15 << 20), ("long", 40 << 20)] {
        write(place.tree().join(name), vec![0; len]);
    }
    place.pack();
    place.comes_back("out");
    for name in ["small", "read-at-once", "long"] {
        let (before, after) = (taken(&place.tree().join(name)), taken(&place.path("out").join(name)));
        // A file system that makes holes of zeros by itself has them in both.
        assert!(after >= before, "{name} takes {after} bytes, and took {before}");
    }
}

#[test]
fn what_a_record_calls_a_hole_is_one_only_if_it_is_zeros() {
    let place = Place::new();
    let storage = LocalStorage::create(place.pack_path(), LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::create(std::sync::Arc::new(storage), WriterOptions::default()).unwrap();
    let mut attributes = Attributes::of_file(FileKind::File, 0o644, 7, None);
    attributes.set_holes(&Holes::of([ByteRange::at(4096, 3 * MIB).unwrap()]));
    let body: Vec<u8> = (0..2 * MIB).map(|at| u8::from(at == MIB || at < 10)).collect();
    writer.put("", &Key::bytes("lies").unwrap(), &attributes, &body).unwrap();
    writer.finish(true).unwrap();
    assert!(place.unpack("out").failures.is_empty());
    assert!(fs::read(place.path("out/lies")).unwrap() == body);
}

#[test]
fn a_second_run_finds_a_sparse_file_unchanged() {
    let place = Place::new();
    sparse(&place.tree().join("sparse"), 8 * MIB, &[MIB]);
    place.pack();
    assert_eq!(place.pack().added(), 0);
    let compared = stook::pack::tree::PackTree { checksum: true, ..place.packing() };
    assert_eq!(place.pack_with(&compared).added(), 0);
    // Other holes are no other file.
    let file = File::options().write(true).open(place.tree().join("sparse")).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(&vec![0; MIB as usize], 4 * MIB).unwrap();
    file.set_modified(time).unwrap();
    assert_eq!(place.pack().added(), 0);
}

/// Whether its length was announced or not, and wherever the zeros begin and end in a chunk.
#[test]
fn zeros_that_are_not_gone_through_are_those_of_the_record() {
    let place = Place::new();
    let key = |name: &str| Key::bytes(name).unwrap();
    let zeros = [0, 1, 70_000, 3 * MIB, 12 * MIB + 77];
    let mut whole = Vec::new();
    for (number, len) in zeros.into_iter().enumerate() {
        whole.extend(vec![number as u8 + 1; 30_000 * number]);
        whole.resize(whole.len() + len as usize, 0);
    }
    let storage = LocalStorage::create(place.pack_path(), LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::create(std::sync::Arc::new(storage), WriterOptions::default()).unwrap();
    for (name, announced) in [("known", Some(whole.len() as u64)), ("framed", None)] {
        let mut record = writer.begin("", &key(name), &Attributes::new(), announced).unwrap();
        for (number, len) in zeros.into_iter().enumerate() {
            record.write(&vec![number as u8 + 1; 30_000 * number]).unwrap();
            record.write_zeros(len).unwrap();
        }
        record.finish().unwrap();
    }
    let mut record = writer.begin("", &key("short"), &Attributes::new(), Some(MIB)).unwrap();
    record.write_zeros(MIB - 1).unwrap();
    assert!(matches!(record.write_zeros(2), Err(stook::pack::Error::BodyLength { .. })));
    drop(record);
    writer.finish(true).unwrap();
    let pack = place.open();
    assert_eq!(pack.len(), 2);
    for name in ["known", "framed"] {
        assert!(*pack.get(&key(name)).unwrap().unwrap().body == *whole, "{name}");
    }
    assert_eq!(pack.check_until(&mut |_| true).unwrap().damages, []);
}
