//! How many records of missing files are deleted without an explicit request.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use stook::pack::tree::{Delete, Grouping, PackSummary, PackTree};
use stook::pack::{PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::walk::{Decision, Kind};

use super::{Place, write};

/// Packs a tree, once or again; no file was ever moved into this pack.
fn pack(place: &Place, packing: &PackTree<'_>) -> PackSummary {
    let (storage, options) = (LocalStorageOptions::default(), WriterOptions::default());
    let (mut writer, before) = if place.pack_path().exists() {
        let storage = LocalStorage::open(place.pack_path(), storage).unwrap();
        (PackWriter::open(Arc::new(storage), options).unwrap(), Some(place.open()))
    } else {
        let storage = LocalStorage::create(place.pack_path(), storage).unwrap();
        (PackWriter::create(Arc::new(storage), options).unwrap(), None)
    };
    let summary = packing.run(Some(&mut writer), before.as_ref(), &mut |_, _| true).unwrap();
    writer.set_complete(true);
    writer.finish(true).unwrap();
    summary
}

fn deleting(place: &Place) -> PackTree<'static> {
    PackTree { delete: Delete::UpToHalf, ..place.packing() }
}

/// Packs again, which must be refused with these words, and delete nothing; then with permission,
/// which must delete this many.
fn refused_then_deleted(place: &Place, mut packing: PackTree<'_>, reported: &str, deleted: u64) {
    let summary = packing.run(None, Some(&place.open()), &mut |_, _| true).unwrap();
    assert_eq!((summary.deleted, summary.gone.len() as u64), (0, deleted), "{summary:?}");
    let summary = pack(place, &packing);
    assert!(summary.refused.as_ref().is_some_and(|why| why.contains(reported)), "{summary:?}");
    assert_eq!(summary.deleted, 0);
    packing.delete = Delete::UpTo(deleted);
    let summary = pack(place, &packing);
    assert_eq!((summary.refused, summary.deleted), (None, deleted));
}

#[test]
fn directories_that_stay_do_not_make_up_for_the_files_that_are_gone() {
    let place = Place::new();
    let file = |number: u32| place.tree().join(format!("{number}/data.bin"));
    for number in 0..10 {
        write(file(number), format!("{number}"));
    }
    pack(&place, &place.packing());
    for number in 0..5 {
        fs::remove_file(file(number)).unwrap();
    }
    assert_eq!(pack(&place, &deleting(&place)).deleted, 5, "half of them");
    for number in 5..10 {
        fs::remove_file(file(number)).unwrap();
    }
    refused_then_deleted(&place, deleting(&place), "5 of the 5 records of files in this tree", 5);
}

#[test]
fn of_a_tree_that_is_another_by_mistake_nothing_is_packed_either() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        write(place.tree().join(name), name);
        write(place.path("other").join(format!("new-{name}")), name);
    }
    pack(&place, &place.packing());
    let other = |delete| PackTree { roots: vec![place.path("other")], delete, ..place.packing() };
    for delete in [Delete::UpToHalf, Delete::UpTo(2)] {
        let summary = pack(&place, &other(delete));
        assert!(summary.refused.is_some() && summary.added() == 0, "{summary:?}");
        let keys: Vec<_> = place.open().keys(&[]).unwrap().map(|entry| entry.unwrap().key).collect();
        assert!(keys.iter().all(|key| !key.to_string().contains("new-")), "{keys:?}");
    }
    assert_eq!(pack(&place, &other(Delete::Any)).deleted, 3);
}

#[test]
fn a_root_that_is_a_pack_is_reported() {
    let place = Place::new();
    write(place.tree().join("a"), "a");
    pack(&place, &place.packing());
    place.packing().check_no_packs().unwrap();
    let slip = PackTree { roots: vec![place.pack_path()], ..place.packing() };
    let reported = slip.check_no_packs().unwrap_err().to_string();
    assert!(reported.contains("p.stook is a pack"), "{reported}");
}

#[test]
fn directories_that_are_gone_are_not_counted_with_the_files() {
    let place = Place::new();
    for name in ["a", "b"] {
        write(place.tree().join(name), name);
    }
    for number in 0..10 {
        fs::create_dir(place.tree().join(format!("empty-{number}"))).unwrap();
    }
    pack(&place, &place.packing());
    for number in 0..10 {
        fs::remove_dir(place.tree().join(format!("empty-{number}"))).unwrap();
    }
    fs::remove_file(place.tree().join("a")).unwrap();
    let summary = pack(&place, &deleting(&place));
    assert_eq!((summary.refused, summary.deleted), (None, 11));
}

#[test]
fn only_what_is_selected_is_counted() {
    let place = Place::new();
    for name in ["1.jpg", "2.jpg", "3.jpg", "1.txt", "2.txt", "3.txt", "4.txt", "deep/5.txt"] {
        write(place.tree().join(name), name);
    }
    pack(&place, &place.packing());
    let pictures = || PackTree {
        select: Box::new(|key: &[u8], _: Kind| match key.ends_with(b".jpg") {
            true => Decision::Take,
            false => Decision::Skip,
        }),
        ..deleting(&place)
    };
    fs::remove_file(place.tree().join("1.jpg")).unwrap();
    assert_eq!(pack(&place, &pictures()).deleted, 1);
    fs::remove_file(place.tree().join("2.jpg")).unwrap();
    fs::remove_file(place.tree().join("3.jpg")).unwrap();
    refused_then_deleted(&place, pictures(), "2 of the 2 records of files in this tree", 2);
}

#[test]
fn every_root_is_counted_by_itself() {
    let place = Place::new();
    for number in 0..6 {
        write(place.path("train").join(format!("{number}")), "train");
    }
    write(place.path("test/a"), "test");
    write(place.path("test/sub/b"), "test");
    let roots = || -> Vec<PathBuf> { vec![place.path("train"), place.path("test")] };
    pack(&place, &PackTree { roots: roots(), ..place.packing() });
    fs::remove_dir_all(place.path("test")).unwrap();
    fs::create_dir(place.path("test")).unwrap();
    let both = PackTree { roots: roots(), ..deleting(&place) };
    refused_then_deleted(
        &place,
        both,
        "2 of the 2 records of files in test would be deleted, more than half",
        3,
    );
}

#[test]
fn with_a_group_the_others_are_not_counted() {
    let place = Place::new();
    for name in ["a/1", "a/2", "b/1", "b/2", "b/3", "b/4", "b/5", "b/6"] {
        write(place.tree().join(name), name);
    }
    pack(&place, &PackTree { grouping: Grouping::Top, ..place.packing() });
    fs::remove_file(place.tree().join("a/1")).unwrap();
    fs::remove_file(place.tree().join("a/2")).unwrap();
    let of_group = PackTree { grouping: Grouping::Named("a".into()), ..deleting(&place) };
    refused_then_deleted(&place, of_group, "2 of the 2 records of files in this tree", 2);
}
