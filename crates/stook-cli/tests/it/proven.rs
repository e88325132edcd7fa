//! A copy that is proven: lists that other programs accept, read back, and repaired from the other
//! copy by reading only what is needed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::packs::{Place, documented};
use super::{ended, stook, wait_until};

const BLOCK: usize = 1 << 20;
/// A film of some megabytes, of which the last is not whole.
const FILM: usize = 5 * BLOCK + 4321;

fn film() -> Vec<u8> {
    (0..FILM).map(|at| (at / 3 + at / BLOCK) as u8).collect()
}

fn card() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("card/DCIM")).unwrap();
    fs::write(place.path("card/DCIM/film"), film()).unwrap();
    for number in 0..40_u8 {
        fs::write(place.path("card/DCIM").join(number.to_string()), vec![number; 3000]).unwrap();
    }
    place
}

fn run(place: &Place, args: &[&str]) -> (i32, String, String) {
    ended(stook(args).current_dir(place.dir.path()))
}

fn json(place: &Place, args: &[&str], command: &str) -> (i32, Value) {
    let (code, stdout, stderr) = run(place, &[args, &["--json"]].concat());
    let report = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout} {stderr}"));
    documented(command, &report);
    (code, report)
}

/// Whether a program accepts something, in a directory.
fn accepts(program: &str, args: &[&str], directory: &Path) -> bool {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/ascmhl/bin").join(program);
    let mut command = Command::new(if own.exists() { own.as_os_str() } else { program.as_ref() });
    command.args(args).current_dir(directory).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
    let output = command.stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}: run scripts/need lists")).status.success()
}

/// Whether each program accepts the list that is for it.
fn programs(directory: &Path) -> [bool; 4] {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    let list = |ending: &str| {
        let of = names.iter().filter(|name| name.ends_with(ending)).collect::<Vec<_>>();
        let [list] = of[..] else { panic!("{ending}: {names:?}") };
        list.clone()
    };
    [
        accepts("sha256sum", &["-c", "--strict", "--quiet", &list(".sha256")], directory),
        accepts("b3sum", &["-c", "--quiet", &list(".blake3")], directory),
        accepts("xxhsum", &["-c", "--quiet", &list(".xxh3")], directory),
        accepts("ascmhl-debug", &["verify", directory.to_str().unwrap()], directory),
    ]
}

/// Flips a bit of the film of a copy.
fn flip(place: &Place, copy: &str, at: usize) {
    let file = fs::File::options().write(true).open(place.path(copy).join("DCIM/film")).unwrap();
    file.write_all_at(&[film()[at] ^ 16], at as u64).unwrap();
}

#[test]
fn one_read_makes_two_copies_that_each_program_accepts_and_a_flipped_bit_is_found_and_repaired() {
    let place = card();
    let lists = ["--list=sha256,blake3,xxh3", "--mhl", "--proof", "--read-back"];
    let (code, report) =
        json(&place, &[&["copy", "card", "one", "--to", "two"][..], &lists].concat(), "copy");
    assert_eq!(code, 0, "{report}");
    let bytes = FILM as u64 + 40 * 3000;
    assert_eq!(report["read_bytes"], bytes, "the source was read once");
    for copy in ["one", "two"] {
        assert_eq!(programs(&place.path(copy)), [true; 4], "{copy}");
    }
    for one in report["destinations"].as_array().unwrap() {
        assert_eq!(one["lists"].as_array().unwrap().len(), 4, "{one}");
        assert_eq!(one["proofs"]["files"], 1, "{one}");
        assert_eq!(one["read_back"]["files"], 41, "{one}");
    }
    // All lists of a copy have one date, so that none of them counts for more than the others.
    let dates = |one: &Value| -> BTreeSet<String> {
        let lists = one["lists"].as_array().unwrap().iter().map(|list| list["key"].as_str().unwrap());
        let date = |list: &str| list.split_once("2").unwrap().1[..17].to_owned();
        lists.map(|list| date(list.rsplit('/').next().unwrap().trim_start_matches("0001_"))).collect()
    };
    report["destinations"]
        .as_array()
        .unwrap()
        .iter()
        .for_each(|one| assert_eq!(dates(one).len(), 1, "{one}"));
    for at in [0, BLOCK - 1, BLOCK, 3 * BLOCK + 77, 5 * BLOCK, FILM - 1] {
        flip(&place, "one", at);
        assert_eq!(programs(&place.path("one")), [false; 4], "{at}");
        let (code, found) = json(&place, &["verify", "one"], "verify");
        let wrong = &found["trees"][0]["mismatching"][0];
        let start = at / BLOCK * BLOCK;
        let end = FILM.min(start + BLOCK);
        assert_eq!((code, &wrong["key"], &found["wrong"]), (1, &"DCIM/film".into(), &1.into()), "{at}");
        assert_eq!(wrong["bad_blocks"]["ranges"], serde_json::json!([[start, end]]), "{at}: {wrong}");
        let (code, done) = json(&place, &["copy", "two", "one", "--repair"], "copy_repair");
        let one = &done["destinations"][0];
        assert_eq!((code, &one["read_bytes"]), (0, &(end - start).into()), "{at}: {one}");
        assert_eq!(one["mended"][0]["blocks"], 1, "{one}");
        assert!(fs::read(place.path("one/DCIM/film")).unwrap() == film(), "{at}");
        assert_eq!(run(&place, &["verify", "one"]).0, 0, "{at}");
    }
    // The other programs find it good again, too.
    assert_eq!(programs(&place.path("one")), [true; 4]);
}

#[test]
fn a_history_is_continued_by_what_verifies_it() {
    let place = card();
    assert_eq!(run(&place, &["copy", "card", "disk", "--mhl"]).0, 0);
    fs::write(place.path("disk/DCIM/notes"), "written on set").unwrap();
    let (code, found) = json(&place, &["verify", "disk", "--mhl=xxh128,md5"], "verify");
    assert_eq!((code, found["trees"][0]["new"].as_u64()), (0, Some(1)), "{found}");
    let made = &found["made"][0];
    let path = made["path"].as_str().unwrap();
    assert!(path.starts_with("disk/ascmhl/0002_disk_"), "{path}");
    assert_eq!((&made["hash"], &made["files"]), (&Value::Null, &42.into()));
    let text = fs::read_to_string(place.path(path)).unwrap();
    assert_eq!(text.matches("<xxh128 action=\"verified\"").count(), 41, "{text}");
    assert_eq!(text.matches("<xxh128 action=\"original\"").count(), 1);
    assert!(text.contains("<process>in-place</process>"), "{text}");
    assert!(accepts("ascmhl-debug", &["verify", place.path("disk").to_str().unwrap()], &place.path("disk")));
    // The newest list has the file that came, so nothing is extra.
    assert_eq!(run(&place, &["verify", "disk"]).0, 0);
    // A file that was damaged is in no new list, and the history says so from the first one on.
    flip(&place, "disk", 7);
    let (code, found) = json(&place, &["verify", "disk", "--mhl"], "verify");
    assert_eq!((code, &found["made"][0]["files"]), (1, &41.into()), "{found}");
    assert!(!accepts("ascmhl-debug", &["verify", place.path("disk").to_str().unwrap()], &place.path("disk")));
    let (code, _, stderr) = run(&place, &["verify", "disk", "--mhl=sha256"]);
    assert!(code == 2 && stderr.contains("sha256 is not allowed in ASC MHL: take c4"), "{stderr}");
    // A history that was changed is not continued.
    let list = fs::read_to_string(place.path(path)).unwrap().replace("in-place", "transfer");
    fs::write(place.path(path), list).unwrap();
    let (code, _, stderr) = run(&place, &["verify", "disk", "--mhl", "--allow-extra"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("it does not have the hash that the chain says"), "{stderr}");
    assert_eq!(fs::read_dir(place.path("disk/ascmhl")).unwrap().count(), 4, "three lists and the chain");
}

#[test]
fn a_repair_that_is_killed_leaves_no_block_worse_and_the_next_one_ends_it() {
    let place = Place::new();
    let blocks = 48;
    let film: Vec<u8> = (0..blocks * BLOCK).map(|at| (at / 3 + at / BLOCK) as u8).collect();
    fs::create_dir(place.path("good")).unwrap();
    fs::write(place.path("good/film"), &film).unwrap();
    assert_eq!(run(&place, &["copy", "good", "bad", "--proof"]).0, 0);
    let mut damaged = film.clone();
    damaged.iter_mut().step_by(BLOCK).for_each(|byte| *byte ^= 1);
    // One block is good: otherwise the file would be replaced as a whole.
    damaged[..BLOCK].copy_from_slice(&film[..BLOCK]);
    for round in 0..5_u64 {
        fs::write(place.path("bad/film"), &damaged).unwrap();
        let mut command = stook(["copy", "good", "bad", "--repair"]);
        command.current_dir(place.dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let is_begun = || {
            let mut byte = [0];
            let file = fs::File::open(place.path("bad/film")).unwrap();
            file.read_exact_at(&mut byte, BLOCK as u64).unwrap();
            byte[0] == film[BLOCK]
        };
        wait_until(&mut child, is_begun);
        std::thread::sleep(Duration::from_millis(4 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = fs::read(place.path("bad/film")).unwrap();
        assert_eq!(found.len(), film.len());
        let each = found.chunks(BLOCK).zip(film.chunks(BLOCK)).zip(damaged.chunks(BLOCK));
        for (number, ((found, good), bad)) in each.enumerate() {
            let is_either =
                found.iter().zip(good).zip(bad).all(|((one, good), bad)| one == good || one == bad);
            assert!(is_either, "round {round}, block {number}");
        }
        let (code, _, stderr) = run(&place, &["copy", "good", "bad", "--repair"]);
        assert_eq!(code, 0, "{stderr}");
        assert!(fs::read(place.path("bad/film")).unwrap() == film, "round {round}");
    }
}

#[test]
fn what_a_repair_says_and_refuses() {
    let place = card();
    assert_eq!(run(&place, &["copy", "card", "disk", "--proof"]).0, 0);
    flip(&place, "disk", BLOCK + 5);
    fs::remove_file(place.path("disk/DCIM/7")).unwrap();
    let (code, stdout, stderr) = run(&place, &["copy", "card", "disk", "--repair", "--dry-run"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("mend      disk/DCIM/film: 1 block of 1 MiB\n"), "{stdout}");
    assert!(stdout.contains("replace   disk/DCIM/7\nWould repair 2 files of disk"), "{stdout}");
    assert!(!place.path("disk/DCIM/7").exists());
    // Another good copy: an archive with the same files.
    assert!(accepts("tar", &["cf", "card.tar", "-C", "card", "DCIM"], place.dir.path()));
    let (code, stdout, stderr) = run(&place, &["copy", "card.tar//", "disk", "--repair"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("Repaired 2 files of disk; 1 block of 1 MiB written in place; "), "{stdout}");
    assert_eq!(run(&place, &["verify", "disk", "--against", "card"]).0, 0);
    // What nothing can be done with.
    for (args, said) in [
        (&["copy", "disk", "card", "--repair"][..], "card has no list of checksums"),
        (&["copy", "card", "disk", "card", "--repair"], "--repair takes one good copy"),
        (&["copy", "card", "disk", "--repair", "--mirror"], "cannot be used with"),
    ] {
        let (code, _, stderr) = run(&place, args);
        assert!(code == 2 && stderr.contains(said), "{args:?}: {code} {stderr}");
    }
    // That there is no good copy is said even where nothing is damaged.
    let (code, stdout, stderr) = run(&place, &["copy", "nowhere", "disk", "--repair"]);
    assert!(code == 1 && stdout.is_empty() && stderr.contains("nowhere"), "{stdout} {stderr}");
    flip(&place, "disk", 5);
    // The good copy is damaged where the other one is.
    flip(&place, "card", 9);
    let (code, stdout, stderr) = run(&place, &["copy", "card", "disk", "--repair"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("does not have the bytes that the list says"), "{stderr}");
    // Nothing of that block is there to be written.
    assert!(!stderr.contains("--force"), "{stderr}");
    assert!(stdout.contains("Repaired 0 of 1 file of disk; 1 could not be repaired; "), "{stdout}");
    // Of two bad blocks it has one.
    flip(&place, "disk", BLOCK + 5);
    let (code, stdout, stderr) = run(&place, &["copy", "card", "disk", "--repair"]);
    assert!(code == 1 && stderr.contains("(`--force` writes what it has)"), "{stdout} {stderr}");
    let (code, stdout, _) = run(&place, &["copy", "card", "disk", "--repair", "--force", "--dry-run"]);
    assert!(code == 1 && stdout.contains("mend      disk/DCIM/film: 1 block of 1 MiB"), "{stdout}");
    assert!(stdout.contains("Would repair 0 of 1 file of disk; 1 cannot be repaired; 1 block"), "{stdout}");
    let (code, stdout, _) = run(&place, &["copy", "card", "disk", "--repair", "--force"]);
    assert!(code == 1 && stdout.contains("; 1 block of 1 MiB written in place; "), "{stdout}");
}

#[test]
fn a_file_that_is_only_too_long_is_cut_and_no_blocks_of_it_are_counted() {
    let place = card();
    assert_eq!(run(&place, &["copy", "card", "disk", "--proof"]).0, 0);
    let mut film = fs::read(place.path("disk/DCIM/film")).unwrap();
    film.extend([7; 1000]);
    fs::write(place.path("disk/DCIM/film"), film).unwrap();
    let (code, stdout, stderr) = run(&place, &["copy", "card", "disk", "--repair"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.starts_with("cut       disk/DCIM/film: 1,000 bytes at the end"), "{stdout}");
    assert!(!stdout.contains("block") && stdout.contains("Repaired 1 file of disk; "), "{stdout}");
    let (code, stdout, _) = run(&place, &["copy", "card", "disk", "--repair"]);
    assert!(code == 0 && stdout.starts_with("Nothing to repair in disk: "), "{stdout}");
    // A list of which a line is bad is nothing that a good copy has.
    let list = list_of(&place, "disk");
    let lines = fs::read_to_string(&list).unwrap() + "nonsense\n";
    fs::write(&list, lines).unwrap();
    let (code, stdout, _) = run(&place, &["copy", "card", "disk", "--repair"]);
    assert!(code == 1 && stdout.contains("as the lists say; 1 list or proof could not be used"), "{stdout}");
}

fn list_of(place: &Place, directory: &str) -> std::path::PathBuf {
    let all = fs::read_dir(place.path(directory)).unwrap().map(|entry| entry.unwrap().path());
    let is_list = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "blake3");
    all.into_iter().find(is_list).unwrap()
}
