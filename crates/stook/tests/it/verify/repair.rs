//! Repairing a copy from a good one: only what is bad is read and written.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use stook::copy::CopyOptions;
use stook::format::proof::BLOCK_BYTES;
use stook::hash::HashKind;
use stook::ops::verify::{Error, OpenGiven, RepairGiven, RepairReport, VerifyGiven};

const BLOCK: usize = BLOCK_BYTES as usize;

struct Place(tempfile::TempDir);

impl Place {
    /// Two copies, of which one has a list with proofs.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for copy in ["good", "bad"] {
            fs::create_dir_all(place.at(copy).join("d")).unwrap();
            fs::write(place.at(copy).join("d/film"), film()).unwrap();
            fs::write(place.at(copy).join("small"), "a few bytes").unwrap();
            fs::write(place.at(copy).join("other"), vec![3; 2 * BLOCK]).unwrap();
        }
        let tree = OpenGiven::default().open(&place.at("bad"), &mut |_| true).unwrap();
        let make = VerifyGiven {
            trees: vec![tree],
            make: vec![HashKind::Blake3],
            proofs: true,
            ..VerifyGiven::default()
        };
        assert_eq!(make.run(&mut ()).unwrap().wrong(false), 0);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn repair(&self, dry_run: bool) -> RepairReport {
        let destinations = vec![self.at("bad")];
        let mut good = || Ok::<_, Error>(OpenGiven::default().open(&self.at("good"), &mut |_| true)?);
        RepairGiven { destinations, dry_run, copying: CopyOptions::default() }
            .run(&mut good, &mut |_| true)
            .unwrap()
    }

    fn write(&self, name: &str, bytes: &[u8], offset: usize) {
        let file = File::options().write(true).open(self.at(name)).unwrap();
        file.write_all_at(bytes, offset as u64).unwrap();
    }

    #[track_caller]
    fn assert_same(&self) {
        for name in ["d/film", "small", "other"] {
            let [good, bad] = ["good", "bad"].map(|copy| fs::read(self.at(copy).join(name)).unwrap());
            assert!(good == bad, "{name}");
        }
    }
}

fn film() -> Vec<u8> {
    (0..6 * BLOCK + 321).map(|at| (at / 5 + at / BLOCK) as u8).collect()
}

fn changed(path: &Path) -> (i64, i64, u64) {
    let status = path.metadata().unwrap();
    (status.mtime(), status.mtime_nsec(), status.ino())
}

#[test]
fn only_bad_megabytes_are_read_and_written_and_the_time_stays() {
    let place = Place::new();
    let was = changed(&place.at("bad/d/film"));
    place.write("bad/d/film", b"??", 2 * BLOCK - 1);
    place.write("bad/d/film", b"?", 6 * BLOCK + 300);
    // Nothing is changed by a dry run.
    let planned = place.repair(true);
    assert_eq!(planned.destinations[0].mended, [(b"d/film".to_vec(), 3)]);
    assert!(fs::read(place.at("bad/d/film")).unwrap() != film());
    let done = place.repair(false);
    let one = &done.destinations[0];
    assert_eq!((one.mended.as_slice(), done.undone()), (&[(b"d/film".to_vec(), 3)][..], 0), "{done:?}");
    assert_eq!((one.read_bytes, one.matching), (2 * BLOCK_BYTES + 321, 2));
    place.assert_same();
    let now = changed(&place.at("bad/d/film"));
    assert_eq!(now.2, was.2, "it is the same file");
    let again = place.repair(false);
    assert!(again.destinations[0].mended.is_empty() && again.destinations[0].replaced.is_empty());
}

#[test]
fn what_was_cut_or_grew_or_is_gone_or_has_no_proof_is_repaired_too() {
    for (damage, mended) in [("cut", 2), ("grown", 0), ("flipped and grown", 1)] {
        let place = Place::new();
        let path = place.at("bad/d/film");
        match damage {
            "cut" => File::options().write(true).open(&path).unwrap().set_len(5 * BLOCK_BYTES + 7).unwrap(),
            "grown" => place.write("bad/d/film", b"more", 6 * BLOCK + 321),
            _ => {
                place.write("bad/d/film", b"more", 6 * BLOCK + 321);
                place.write("bad/d/film", b"?", 5);
            }
        }
        fs::remove_file(place.at("bad/other")).unwrap();
        fs::write(place.at("bad/small"), "a few bytez").unwrap();
        let done = place.repair(false);
        let one = &done.destinations[0];
        assert_eq!(done.undone(), 0, "{damage}: {done:?}");
        assert_eq!(one.mended, [(b"d/film".to_vec(), mended)], "{damage}");
        assert_eq!(one.replaced, [b"other".to_vec(), b"small".to_vec()], "{damage}");
        place.assert_same();
        let time = |copy: &str| place.at(copy).join("d/film").metadata().unwrap().modified().unwrap();
        assert_eq!(time("bad"), time("good"), "{damage}");
    }
}

#[test]
fn what_the_good_copy_has_not_either_stays_and_is_said() {
    let place = Place::new();
    place.write("bad/d/film", b"?", 7);
    place.write("bad/d/film", b"?", 3 * BLOCK);
    place.write("good/d/film", b"!", 3 * BLOCK);
    fs::write(place.at("bad/small"), "a few bytez").unwrap();
    fs::write(place.at("good/small"), "other bytes").unwrap();
    let done = place.repair(false);
    let one = &done.destinations[0];
    assert_eq!(one.failures.len(), 2, "{done:?}");
    let said = one.failures.iter().map(|failure| stook::error::chain(&failure.error)).collect::<String>();
    assert!(said.contains("3MiB..4MiB"), "{said}");
    // Each block costs only itself.
    assert_eq!(one.mended, [(b"d/film".to_vec(), 1)]);
    assert!(one.replaced.is_empty());
    // What could be proven was written, and nothing else.
    let mut expected = film();
    expected[3 * BLOCK] = b'?';
    assert!(fs::read(place.at("bad/d/film")).unwrap() == expected);
    assert_eq!(fs::read(place.at("bad/small")).unwrap(), b"a few bytez");
    // A link is not followed, and what it leads to stays.
    let place = Place::new();
    fs::rename(place.at("bad/d/film"), place.at("elsewhere")).unwrap();
    place.write("elsewhere", b"?", 7);
    std::os::unix::fs::symlink(place.at("elsewhere"), place.at("bad/d/film")).unwrap();
    let was = fs::read(place.at("elsewhere")).unwrap();
    place.repair(false);
    assert!(fs::read(place.at("elsewhere")).unwrap() == was);
}

#[test]
fn what_cannot_be_replaced_costs_nothing_that_was_mended() {
    let place = Place::new();
    place.write("bad/d/film", b"?", 7);
    fs::remove_file(place.at("bad/other")).unwrap();
    // A copy in the good one: nothing is copied into what it is copied from.
    fs::rename(place.at("bad"), place.at("good/bad")).unwrap();
    let destinations = vec![place.at("good/bad")];
    let given = RepairGiven { destinations, dry_run: false, copying: CopyOptions::default() };
    let mut good = || Ok::<_, Error>(OpenGiven::default().open(&place.at("good"), &mut |_| true)?);
    let done = given.run(&mut good, &mut |_| true).unwrap();
    let one = &done.destinations[0];
    assert_eq!((one.mended.len(), one.failures.len(), done.undone()), (1, 1, 1), "{done:?}");
    assert!(fs::read(place.at("good/bad/d/film")).unwrap() == film());
    assert!(!place.at("good/bad/other").exists());
}

#[test]
fn a_list_that_was_changed_is_said_by_a_repair_too() {
    let place = Place::new();
    let names = fs::read_dir(place.at("bad")).unwrap().map(|entry| entry.unwrap().path());
    let list = names.into_iter().find(|path| path.extension().is_some_and(|end| end == "blake3")).unwrap();
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{text}no line of a list\n")).unwrap();
    let done = place.repair(false);
    let one = &done.destinations[0];
    assert_eq!((done.undone(), one.matching, one.mended.len()), (1, 3, 0), "{done:?}");
    assert_eq!(one.failures[0].key, list.file_name().unwrap().as_encoded_bytes());
}

#[test]
fn a_repair_ends_when_nothing_more_is_wanted() {
    for stops_after in [0, 1, 2, 5, 20] {
        let place = Place::new();
        place.write("bad/d/film", b"?", 7);
        place.write("bad/d/film", b"?", 3 * BLOCK);
        fs::write(place.at("bad/small"), "a few bytez").unwrap();
        let given = RepairGiven {
            destinations: vec![place.at("bad")],
            dry_run: false,
            copying: CopyOptions::default(),
        };
        let mut good = || Ok::<_, Error>(OpenGiven::default().open(&place.at("good"), &mut |_| true)?);
        let mut asked = 0;
        let done = given.run(&mut good, &mut |_| {
            asked += 1;
            asked <= stops_after
        });
        let done = done.unwrap();
        assert!(done.interrupted || asked <= stops_after, "{stops_after}: {done:?}");
        assert!(asked <= stops_after + 3, "it went on after {stops_after}: {asked}");
        place.repair(false);
        place.assert_same();
    }
}

#[test]
fn a_destination_without_a_list_cannot_be_repaired() {
    let place = Place::new();
    let destinations = vec![place.at("good")];
    let given = RepairGiven { destinations, dry_run: false, copying: CopyOptions::default() };
    let mut good = || Ok(OpenGiven::default().open(&place.at("good"), &mut |_| true)?);
    assert!(matches!(given.run::<Error>(&mut good, &mut |_| true), Err(Error::NoList(_))));
    let mut good = || Err(Error::Nothing);
    assert!(matches!(given.run::<Error>(&mut good, &mut |_| panic!()), Err(Error::Nothing)));
}
