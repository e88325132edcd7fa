//! Repairing a copy from a good one: only what is bad is read and written.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use stook::copy::CopyOptions;
use stook::format::proof::BLOCK_BYTES;
use stook::hash::HashKind;
use stook::ops::verify::{Error, GoOn, OpenGiven, RepairGiven, RepairPhase, RepairReport, VerifyGiven};

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
        self.repair_while(dry_run, false, &mut |_| true)
    }

    fn repair_while(&self, dry_run: bool, force: bool, go_on: GoOn<'_>) -> RepairReport {
        let destinations = vec![self.at("bad")];
        let mut good = || Ok::<_, Error>(OpenGiven::default().open(&self.at("good"), &mut |_| true)?);
        let copying = CopyOptions { force, ..CopyOptions::default() };
        RepairGiven { destinations, dry_run, copying }.run(&mut good, go_on).unwrap()
    }

    /// What could not be repaired of the only destination, as text.
    fn said(report: &RepairReport) -> String {
        let failures = report.destinations.iter().flat_map(|one| &one.failures);
        failures.map(|failure| stook::error::chain(&failure.error)).collect::<Vec<_>>().join("\n")
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
    // One of both may have been changed: nothing is written.
    let before = fs::read(place.at("bad/d/film")).unwrap();
    for dry_run in [true, false] {
        let done = place.repair(dry_run);
        let one = &done.destinations[0];
        assert!(one.failures.len() == 2 && one.mended.is_empty() && one.replaced.is_empty(), "{done:?}");
        assert!(Place::said(&done).contains("`--force`"), "{done:?}");
        assert!(fs::read(place.at("bad/d/film")).unwrap() == before);
    }
    let done = place.repair_while(false, true, &mut |_| true);
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

#[test]
fn what_was_appended_stays_if_the_good_copy_has_it_too_and_else_its_end_is_said() {
    let place = Place::new();
    for copy in ["good", "bad"] {
        place.write(&format!("{copy}/d/film"), b"written since", 6 * BLOCK + 321);
    }
    let done = place.repair(false);
    assert!(done.undone() == 1 && Place::said(&done).contains("one of them was changed"), "{done:?}");
    assert_eq!(fs::read(place.at("bad/d/film")).unwrap().len(), 6 * BLOCK + 321 + 13);
    // Where only this one has it, it is cut off, and both runs say so.
    fs::write(place.at("good/d/film"), film()).unwrap();
    for dry_run in [true, false] {
        let done = place.repair(dry_run);
        assert_eq!(done.destinations[0].cut, [(b"d/film".to_vec(), 13)], "{done:?}");
    }
    place.assert_same();
}

#[test]
fn what_is_changed_while_a_repair_runs_is_left_alone() {
    let place = Place::new();
    place.write("bad/d/film", b"?", 7);
    fs::write(place.at("bad/small"), "a few bytez").unwrap();
    fs::remove_file(place.at("bad/other")).unwrap();
    let mut is_changed = false;
    let done = place.repair_while(false, false, &mut |progress| {
        if progress.phase == RepairPhase::Mending && !is_changed {
            is_changed = true;
            place.write("bad/d/film", b"new work", 6 * BLOCK + 321);
            fs::write(place.at("bad/small"), "new work").unwrap();
            fs::write(place.at("bad/other"), "new work").unwrap();
        }
        true
    });
    assert!(is_changed && done.undone() == 3, "{done:?}");
    assert_eq!(Place::said(&done).matches("it was changed since it was verified").count(), 3, "{done:?}");
    for name in ["small", "other"] {
        assert_eq!(fs::read(place.at("bad").join(name)).unwrap(), b"new work");
    }
    assert!(fs::read(place.at("bad/d/film")).unwrap().ends_with(b"new work"));
    // While it is verified as well.
    let place = Place::new();
    fs::write(place.at("bad/small"), "a few bytez").unwrap();
    let mut is_changed = false;
    let done = place.repair_while(false, false, &mut |progress| {
        if progress.phase == RepairPhase::Verifying && !is_changed {
            is_changed = true;
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::write(place.at("bad/small"), "new work").unwrap();
        }
        true
    });
    assert!(is_changed && Place::said(&done).contains("while it was verified"), "{done:?}");
    assert_eq!(fs::read(place.at("bad/small")).unwrap(), b"new work");
}

#[test]
fn what_the_good_copy_becomes_meanwhile_is_not_called_repaired() {
    let place = Place::new();
    fs::write(place.at("bad/small"), "a few bytez").unwrap();
    let done = place.repair_while(false, false, &mut |progress| {
        if progress.phase == RepairPhase::Replacing {
            fs::write(place.at("good/small"), "other bytes").unwrap();
        }
        true
    });
    let is_good = fs::read(place.at("bad/small")).unwrap() == b"a few bytes";
    assert_eq!(done.undone() == 0, is_good, "{done:?}");
    assert_eq!(done.destinations[0].replaced.is_empty(), !is_good, "{done:?}");
}

#[test]
fn what_a_verify_fails_for_a_repair_does_not_succeed_with() {
    // A list whose digests do not belong together.
    let place = Place::new();
    let date = "2199-01-01_000000Z";
    let blake3 = blake3::hash(&film()).to_hex();
    let list = |ending: &str, digest: &str| {
        fs::write(place.at(&format!("bad/checksums-{date}.{ending}")), format!("{digest}  d/film\n"))
            .unwrap();
    };
    list("blake3", &blake3);
    list("sha256", &"0".repeat(64));
    let done = place.repair(false);
    assert!(done.undone() == 1 && done.destinations[0].mended.is_empty(), "{done:?}");
    // A proof that is damaged.
    let place = Place::new();
    let proof =
        walk(&place.at("bad")).into_iter().find(|path| path.extension().is_some_and(|end| end == "obao"));
    let proof = proof.unwrap();
    let bytes = fs::read(&proof).unwrap();
    fs::write(&proof, [&bytes[..20], &[!bytes[20]], &bytes[21..]].concat()).unwrap();
    assert!(place.repair(false).undone() > 0);
    // A list in which nothing is, and one of our own that was cut before its first line.
    let place = Place::new();
    let lists = walk(&place.at("bad")).into_iter();
    let lists: Vec<_> = lists.filter(|path| path.extension().is_some_and(|end| end == "blake3")).collect();
    let repair = |says: &str| {
        lists.iter().for_each(|list| fs::write(list, says).unwrap());
        let destinations = vec![place.at("bad")];
        let given = RepairGiven { destinations, dry_run: false, copying: CopyOptions::default() };
        let mut good = || Ok::<_, Error>(OpenGiven::default().open(&place.at("good"), &mut |_| true)?);
        given.run(&mut good, &mut |_| true)
    };
    assert!(matches!(repair("# nothing\n"), Err(Error::EmptyList(_))));
    let done = repair("").unwrap();
    assert!(
        done.undone() == 1 && done.destinations[0].failures[0].error.to_string().contains("use"),
        "{done:?}"
    );
}

/// All files below a directory.
fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn directories_that_are_there_keep_what_they_are_and_all_lists_are_found_before_anything_is_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(place.at(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    for (copy, bits) in [("good", 0o777), ("bad", 0o700)] {
        mode(copy, bits);
        mode(&format!("{copy}/d"), bits);
    }
    fs::write(place.at("good/d/new"), "").unwrap();
    fs::remove_file(place.at("bad/d/film")).unwrap();
    fs::create_dir(place.at("bare")).unwrap();
    let destinations = vec![place.at("bad"), place.at("bare")];
    let given = RepairGiven { destinations, dry_run: false, copying: CopyOptions::default() };
    let mut good = || Ok::<_, Error>(OpenGiven::default().open(&place.at("good"), &mut |_| true)?);
    assert!(
        matches!(given.run(&mut good, &mut |_| true), Err(Error::NoList(path)) if path == place.at("bare"))
    );
    assert!(!place.at("bad/d/film").exists());
    assert_eq!(place.repair(false).undone(), 0);
    place.assert_same();
    for name in ["bad", "bad/d"] {
        assert_eq!(place.at(name).metadata().unwrap().mode() & 0o777, 0o700, "{name}");
    }
}

#[test]
fn lists_of_one_date_that_disagree_are_no_reason_to_replace_a_file() {
    let place = Place(tempfile::tempdir().unwrap());
    for (copy, text) in [("good", "versionA"), ("bad", "versionB")] {
        fs::create_dir(place.at(copy)).unwrap();
        fs::write(place.at(copy).join("small"), text).unwrap();
    }
    let list = |ending: &str, digest: String| {
        let path = place.at(&format!("bad/checksums-2026-01-01_000000Z.{ending}"));
        fs::write(path, format!("{digest}  small\n")).unwrap();
    };
    list("sha256", stook::hash::Digest::of(HashKind::Sha256, b"versionB").to_string());
    list("blake3", stook::hash::Digest::of(HashKind::Blake3, b"versionA").to_string());
    assert_eq!(place.repair(false).undone(), 1);
    assert_eq!(fs::read(place.at("bad/small")).unwrap(), b"versionB");
}

#[test]
fn a_list_that_does_not_say_the_function_is_enough_to_repair_by() {
    let place = Place(tempfile::tempdir().unwrap());
    for (copy, text) in [("good", "right"), ("bad", "wrong")] {
        fs::create_dir(place.at(copy)).unwrap();
        fs::write(place.at(copy).join("small"), text).unwrap();
    }
    // The name of the list does not say of which function 32 digits are.
    let digest = stook::hash::Digest::of(HashKind::Xxh128, b"right");
    fs::write(place.at("bad/list.xxhsum"), format!("{digest}  small\n")).unwrap();
    let report = place.repair(false);
    assert_eq!(report.undone(), 0, "{}", Place::said(&report));
    assert_eq!(fs::read(place.at("bad/small")).unwrap(), b"right");
}

#[test]
fn a_file_whose_proof_says_another_length_is_replaced_as_a_whole() {
    let place = Place::new();
    let proofs = walk(&place.at("bad")).into_iter().filter(|path| path.is_file());
    let len = (film().len() as u64).to_le_bytes();
    let is_of_film = |path: &PathBuf| fs::read(path).unwrap().ends_with(&len);
    let proof = proofs.filter(|path| path.parent() != Some(&place.at("bad"))).find(is_of_film).unwrap();
    let mut bytes = fs::read(&proof).unwrap();
    let end = bytes.len();
    bytes[end - 8..].copy_from_slice(&(film().len() as u64 - 10).to_le_bytes());
    fs::write(&proof, bytes).unwrap();
    // Its last block is damaged: only the good copy shows what the length is.
    place.write("bad/d/film", b"?", 6 * BLOCK + 300);
    let report = place.repair(false);
    assert_eq!(report.destinations[0].replaced, [b"d/film".to_vec()], "{report:?}");
    assert!(Place::said(&report).contains("it says that the file has "), "{}", Place::said(&report));
    place.assert_same();
}
