//! `stook copy --list` and `--mhl`: what is printed, what is refused, and that nothing that has its
//! name is missing from the list, whenever the copy is killed.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use super::packs::{Place, documented};
use super::{ended, stook, wait_until};

/// Files of a card.
const FILES: usize = 600;

fn place() -> Place {
    let place = Place::new();
    for folder in ["a", "b"] {
        fs::create_dir_all(place.path("card").join(folder)).unwrap();
    }
    for number in 0..FILES {
        let folder = if number % 2 == 0 { "a" } else { "b" };
        let bytes = format!("picture {number}").repeat(1 + number % 50);
        fs::write(place.path("card").join(folder).join(number.to_string()), bytes).unwrap();
    }
    place
}

/// The lists of a directory.
fn lists(place: &Place, to: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(place.path(to)) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_list = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("checksums-");
    paths.filter(is_list).collect()
}

#[test]
fn lists_are_named_at_the_end_and_in_json_and_what_was_skipped_is_counted() {
    let place = place();
    let run = |args: &[&str]| ended(stook(args).current_dir(place.dir.path()));
    let (code, stdout, stderr) = run(&["copy", "card", "disk", "--list", "--mhl"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let listed: Vec<&str> = stdout.lines().filter_map(|line| line.strip_prefix("listed in ")).collect();
    let [sums, mhl] = listed[..] else { panic!("{stdout}") };
    assert!(sums.starts_with("disk/checksums-") && sums.ends_with("Z.sha256"), "{sums}");
    assert!(mhl.starts_with("disk/ascmhl/0001_disk_") && mhl.ends_with("Z.mhl"), "{mhl}");
    assert_eq!(fs::read_to_string(place.path(sums)).unwrap().lines().count(), FILES);

    fs::write(place.path("card/new"), "new").unwrap();
    let (code, stdout, stderr) = run(&["copy", "card", "disk", "--list=md5,c4"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("; 600 there already and in no new list"), "{stdout}");
    assert_eq!(stdout.lines().filter(|line| line.starts_with("listed in ")).count(), 2, "{stdout}");
    assert!(stderr.contains("`--checksum` reads what is there already, and lists it, too."), "{stderr}");

    let (code, stdout, _) = run(&["copy", "card", "other", "--list=xxh3", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    documented("copy", &report);
    let one = &report["destinations"][0];
    assert_eq!((code, one["unlisted"].as_u64(), one["lists"].as_array().unwrap().len()), (0, Some(0), 1));
}

#[test]
fn what_no_list_can_be_of_is_refused_and_says_what_to_take_instead() {
    let place = place();
    let run = |args: &[&str]| ended(stook(args).current_dir(place.dir.path()));
    for kind in ["sha256", "blake3"] {
        let (code, _, stderr) = run(&["copy", "card", "disk", &format!("--mhl={kind}")]);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(&format!("{kind} is not allowed in ASC MHL: take c4")), "{stderr}");
    }
    let (code, _, stderr) = run(&["copy", "card", "disk", "--list=sha512"]);
    assert!(code == 2 && stderr.contains("expected xxh3, xxh128, xxh64, blake3, sha256"), "{stderr}");
    assert!(!place.path("disk").exists());
    let (code, _, stderr) = run(&["copy", "card", "disk", "--mhl=foo"]);
    assert!(code == 2 && stderr.contains("expected c4, md5, sha1, xxh128, xxh3, xxh64"), "{stderr}");
}

#[test]
fn names_that_an_asc_mhl_cannot_hold_are_said_to_be_copied_and_lists_of_one_function_are_one() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new();
    fs::create_dir_all(place.path("card")).unwrap();
    fs::write(place.path("card/one"), "one").unwrap();
    fs::write(place.path("card").join(std::ffi::OsStr::from_bytes(b"latin\xe9.txt")), "odd").unwrap();
    let run = |args: &[&str]| ended(stook(args).current_dir(place.dir.path()));
    let (code, stdout, stderr) = run(&["copy", "card", "disk", "--mhl=md5,md5", "--list=md5,md5"]);
    assert_eq!(code, 1);
    assert!(
        stdout.contains("Copied 2 files") && stdout.contains("; 1 copied, but not in the ASC MHL"),
        "{stdout}"
    );
    assert!(!stdout.contains("failed"), "{stdout}");
    assert_eq!(stdout.matches("listed in").count(), 2, "{stdout}");
    assert!(stderr.contains(r"latin\xe9.txt: cannot list disk/latin\xe9.txt: "), "{stderr}");
}

#[test]
fn whenever_a_copy_is_killed_each_file_that_has_its_name_is_in_a_list() {
    let place = place();
    // By turns soon after it began and later; the last one runs to its end.
    for round in 0..6_u64 {
        let mut command = stook(["copy", "card", "disk", "--list", "--durability", "file", "--jobs", "4"]);
        command.current_dir(place.dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let before = lists(&place, "disk").len();
        let mut child = command.spawn().unwrap();
        wait_until(&mut child, || lists(&place, "disk").len() > before);
        std::thread::sleep(Duration::from_millis(3 * round));
        child.kill().unwrap();
        child.wait().unwrap();

        let mut listed = BTreeSet::new();
        for list in lists(&place, "disk") {
            let text = fs::read_to_string(&list).unwrap();
            // A line that was being written has no end, and its file no name.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            listed.extend(whole.lines().map(|line| line[66..].to_owned()));
        }
        for folder in ["a", "b"] {
            let Ok(entries) = fs::read_dir(place.path("disk").join(folder)) else { continue };
            for entry in entries {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let is_temporary = name.starts_with(".stook-");
                assert!(is_temporary || listed.contains(&format!("{folder}/{name}")), "{round}: {name}");
            }
        }
    }
}
