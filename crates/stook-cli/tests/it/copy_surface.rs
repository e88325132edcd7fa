//! `stook copy`: what it says, and what it takes: options between paths, dry runs, hashes, reasons.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use stook_testing::conformance::noise;
use stook_testing::web::{Page, WebServer};

use super::packs::{Place, documented};
use super::stook;

/// A place with a tree to copy, and a destination that has some of it, and something else.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("card/d")).unwrap();
    fs::write(place.path("card/d/one"), "first").unwrap();
    fs::write(place.path("card/two"), "second").unwrap();
    place
}

fn copy(place: &Place, args: &[&str]) -> (i32, String, String) {
    super::ended(stook(["copy"]).args(args).current_dir(place.dir.path()))
}

fn json(place: &Place, args: &[&str]) -> (i32, Value) {
    let (code, stdout, stderr) = copy(place, &[args, &["--json"]].concat());
    let report = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout} {stderr}"));
    documented("copy", &report);
    (code, report)
}

fn sorted(stdout: &str) -> BTreeSet<&str> {
    stdout.lines().collect()
}

#[test]
fn options_may_stand_between_the_paths() {
    for args in [
        &["card", "--overwrite", "different", "disk"][..],
        &["card", "--checksum", "disk", "--to", "spare"],
        &["card", "--to", "spare", "disk"],
        &["card/d", "--quiet", "card/two", "--jobs", "3", "disk"],
    ] {
        let place = place();
        let (code, _, stderr) = copy(&place, args);
        assert_eq!(code, 0, "{args:?}: {stderr}");
        assert_eq!(fs::read(place.path("disk/two")).unwrap(), b"second", "{args:?}");
        assert_eq!(place.path("spare/two").exists(), args.contains(&"spare"));
    }
    let place = place();
    for args in [&["card"][..], &["--dry-run", "card"], &["card", "--to", "spare"]] {
        let (code, stdout, stderr) = copy(&place, args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(stderr.contains("the directory to copy it to: only card was given"), "{stderr}");
    }
    let (code, _, stderr) = copy(&place, &[]);
    assert!(code == 2 && stderr.contains("<SRC>... <DIR>"), "{stderr}");
    let run = |args: &[&str]| super::ended(stook(["pack"]).args(args).current_dir(place.dir.path()));
    let (code, _, stderr) = run(&["card", "--checksum", "p.stook"]);
    assert!(code == 0 && place.path("p.stook").is_dir(), "{stderr}");
    let (code, _, stderr) = run(&["card", "--group", "g", "card/d", "--quiet", "q.stook"]);
    assert!(code == 0 && place.path("q.stook").is_dir(), "{stderr}");
    let (code, _, stderr) = run(&["--checksum", "card"]);
    assert!(code == 2 && stderr.contains("the pack to put it in: only card was given"), "{stderr}");
}

#[test]
fn what_an_option_of_other_programs_does_is_said_and_never_to_copy_it_as_a_file() {
    let place = place();
    for (option, advice) in [
        ("-a", "modes, times, owners, links and attributes are copied anyway"),
        ("-av", "modes, times, owners, links and attributes are copied anyway"),
        ("--archive", "modes, times, owners, links and attributes are copied anyway"),
        ("-r", "directories are copied with all that is in them anyway"),
        ("-v", "'--verbose' names each path"),
        ("-n", "'--dry-run' shows what would be done"),
        ("--delete", "'--mirror' deletes what only the destination has"),
        ("--progress", "how far it is is shown on a terminal anyway"),
        ("--update", "'--overwrite older'"),
    ] {
        for args in [&["card", "disk", option][..], &[option, "card", "disk"]] {
            let (code, _, stderr) = copy(&place, args);
            assert_eq!(code, 2, "{args:?}");
            assert!(stderr.contains(&format!("tip: {advice}")), "{args:?}: {stderr}");
            assert!(!stderr.contains("as a value") && !stderr.contains("--depth"), "{args:?}: {stderr}");
        }
    }
    // What is like an option is still proposed, and no command proposes to take one for a name.
    let (_, _, stderr) = copy(&place, &["card", "disk", "--checksums"]);
    assert!(stderr.contains("'--checksum'") && !stderr.contains("as a value"), "{stderr}");
    for command in ["pack", "unpack", "ls", "rm"] {
        let (code, _, stderr) = super::ended(&mut stook([command, "a", "b", "--nothing-like-it"]));
        assert_eq!(code, 2);
        assert!(stderr.contains("--nothing-like-it") && !stderr.contains("as a value"), "{stderr}");
    }
}

#[test]
fn a_dry_run_ends_with_what_would_be_copied_in_all() {
    let place = place();
    let (code, stdout, _) = copy(&place, &["card", "disk", "--dry-run"]);
    assert_eq!(code, 0);
    assert!(stdout.ends_with("\nWould copy 2 files, 2 directories, 0 links: 11 B\n"), "{stdout}");
    assert!(!place.path("disk").exists());
    assert_eq!(copy(&place, &["card", "disk"]).0, 0);
    let (_, stdout, _) = copy(&place, &["card", "disk", "--dry-run"]);
    assert_eq!(stdout, "Would copy 0 files, 0 directories, 0 links: 0 B; 2 unchanged\n");
    fs::write(place.path("disk/two"), "other bytes").unwrap();
    fs::write(place.path("disk/extra"), "x").unwrap();
    let (code, stdout, _) = copy(&place, &["card", "disk", "--dry-run"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("; 1 unchanged; 1 would be kept with other content\n"), "{stdout}");
    let mirror = ["card", "disk", "--overwrite", "different", "--mirror", "--dry-run"];
    let (_, stdout, _) = copy(&place, &mirror);
    let said = "Would copy 1 file, 0 directories, 0 links: 6 B; 1 unchanged; 1 would be deleted";
    assert_eq!(stdout.lines().last(), Some(said));
    let (_, stdout, _) = copy(&place, &[&mirror[..], &["--to", "spare"]].concat());
    assert!(
        stdout.contains(": 6 B to disk; 1 unchanged") && stdout.contains(": 11 B to spare\n"),
        "{stdout}"
    );
}

#[test]
fn with_quiet_a_dry_run_prints_what_would_be_done_and_nothing_else() {
    let place = place();
    fs::create_dir(place.path("disk")).unwrap();
    fs::write(place.path("disk/extra"), "x").unwrap();
    fs::create_dir_all(place.path("disk/d")).unwrap();
    fs::write(place.path("disk/d/one"), "old").unwrap();
    let args = ["card", "disk", "--overwrite", "different", "--mirror", "--dry-run", "--quiet"];
    let (code, stdout, stderr) = copy(&place, &args);
    let said = ["copy      length   d/one", "copy      new      two", "delete    extra    extra"];
    assert_eq!((code, stderr.as_str(), sorted(&stdout)), (0, "", BTreeSet::from(said)));
}

/// Before: all counts of a dry run were 0.
#[test]
fn a_dry_run_counts_what_the_copy_counts() {
    let place = place();
    std::os::unix::fs::symlink("two", place.path("card/link")).unwrap();
    fs::hard_link(place.path("card/two"), place.path("card/name")).unwrap();
    let mirror = ["--overwrite", "different", "--mirror", "--backup", "--specials"];
    for to in ["disk", "there"] {
        if to == "there" {
            fs::create_dir_all(place.path("there/d")).unwrap();
            fs::write(place.path("there/d/one"), "another").unwrap();
            fs::write(place.path("there/extra"), "x").unwrap();
        }
        let args = [&["card", to][..], &mirror].concat();
        let (code, planned) = json(&place, &[&args[..], &["--dry-run"]].concat());
        assert_eq!(code, 0, "{planned}");
        let (code, done) = json(&place, &args);
        assert_eq!(code, 0, "{done}");
        let of = |report: &Value, name: &str| report["destinations"][0][name].clone();
        for name in ["files", "bytes", "symlinks", "hard_links", "linked", "specials", "backups", "deleted"] {
            assert_eq!(of(&planned, name), of(&done, name), "{to}: {name}");
        }
        assert_eq!(of(&done, "hard_links"), 1);
    }
}

#[test]
fn hashes_are_printed_with_the_paths_and_are_those_of_the_programs_that_everybody_has() {
    let place = place();
    let sum = |name: &str| {
        let output = std::process::Command::new("sha256sum").arg(place.path(name)).output().unwrap();
        String::from_utf8(output.stdout).unwrap()[..64].to_owned()
    };
    let (one, two) = (sum("card/d/one"), sum("card/two"));
    let (code, stdout, _) = copy(&place, &["card", "disk", "--hash", "sha256", "--verbose", "--quiet"]);
    assert_eq!(code, 0);
    let (first, second) = (format!("{one}  d/one"), format!("{two}  two"));
    let all = [
        "copy      new      .",
        "copy      new      d",
        "copy      new      d/one",
        "copy      new      two",
    ];
    let mut all = BTreeSet::from(all);
    all.extend([first.as_str(), &second]);
    assert_eq!(sorted(&stdout), all);
    let (_, stdout, _) = copy(&place, &["card", "b", "--hash", "xxh3,sha256", "--verbose", "--to", "c"]);
    for to in ["b", "c"] {
        assert!(stdout.contains(&format!("\nsha256:{one}  {to}/d/one\n")), "{stdout}");
    }
    assert_eq!(stdout.matches("xxh3:").count(), 4, "{stdout}");
    // The same in JSON, through both of its doors.
    let (_, report) = json(&place, &["card", "e", "--hash", "sha256", "--verbose"]);
    let of = |items: Vec<Value>| -> BTreeSet<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        items.iter().map(|item| (text(&item["key"]), text(&item["digests"]["sha256"]))).collect()
    };
    let expected = BTreeSet::from([("d/one".to_owned(), one), ("two".to_owned(), two)]);
    let files = report["items"].as_array().unwrap().iter().filter(|item| item["digests"] != Value::Null);
    let is_file = |item: &&Value| !item["digests"].as_object().unwrap().is_empty();
    assert_eq!(of(files.filter(is_file).cloned().collect()), expected);
    let args = ["card", "f", "--hash", "sha256", "--verbose", "--json", "--events"];
    let (_, stdout, _) = copy(&place, &args);
    let lines = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let items: Vec<Value> = lines.filter(|line| line["schema"] == "stook.copy_item/1").collect();
    items.iter().for_each(|item| documented("copy_item", item));
    assert_eq!(of(items.into_iter().filter(|item| is_file(&item)).collect()), expected);
}

/// Before: a copy that was interrupted had hashes of half of its files only.
#[test]
fn what_is_there_already_has_hashes_where_it_is_read_to_be_compared() {
    let place = place();
    fs::hard_link(place.path("card/two"), place.path("card/name")).unwrap();
    fs::write(place.path("card/long"), noise(7, 1 << 20)).unwrap();
    let hashed = |args: &[&str]| -> BTreeSet<String> {
        let (code, stdout, stderr) =
            copy(&place, &[&["card"][..], args, &["--hash", "sha256", "--verbose", "--quiet"]].concat());
        assert_eq!(code, 0, "{stderr}");
        stdout
            .lines()
            .filter(|line| !line.starts_with(['c', 'h', 'l']) || line.len() > 64)
            .map(str::to_owned)
            .collect()
    };
    let first = hashed(&["disk"]);
    assert_eq!(first.len(), 4, "{first:?}");
    assert_eq!(hashed(&["disk"]), BTreeSet::new(), "nothing was read");
    assert_eq!(hashed(&["disk", "--checksum"]), first);
    assert_eq!(hashed(&["linked", "--checksum", "--link-dest", "disk"]), first);
}

#[test]
fn a_mirror_names_every_file_that_it_deletes_and_every_directory() {
    let place = place();
    let made = || {
        fs::create_dir_all(place.path("disk/old/deep")).unwrap();
        for name in ["old/a", "old/deep/b"] {
            fs::write(place.path("disk").join(name), "x").unwrap();
        }
    };
    assert_eq!(copy(&place, &["card", "disk"]).0, 0);
    let all = ["old", "old/a", "old/deep", "old/deep/b"];
    for more in [&["--dry-run"][..], &["--verbose"]] {
        made();
        let args = [&["card", "disk", "--mirror", "--quiet"][..], more].concat();
        let (code, stdout, stderr) = copy(&place, &args);
        assert_eq!((code, stderr.as_str()), (0, ""), "{more:?}");
        let lines = all.map(|key| format!("delete    extra    {key}"));
        assert_eq!(sorted(&stdout), lines.iter().map(String::as_str).collect(), "{more:?}");
    }
    made();
    let (_, report) = json(&place, &["card", "disk", "--mirror"]);
    let deleted = report["destinations"][0]["deleted"].as_array().unwrap();
    let deleted: BTreeSet<&str> = deleted.iter().map(|key| key["key"].as_str().unwrap()).collect();
    assert_eq!(deleted, BTreeSet::from(all));
    made();
    let (_, stdout, _) = copy(&place, &["card", "disk", "--mirror"]);
    assert!(stdout.contains("deleted old/deep/b\n") && stdout.contains("; 4 deleted\n"), "{stdout}");
}

#[test]
fn paths_of_a_pack_and_of_an_archive_are_named_and_counted_as_those_of_a_directory() {
    let place = place();
    assert_eq!(super::ended(stook(["pack", "card", "p.stook"]).current_dir(place.dir.path())).0, 0);
    let mut tar = std::process::Command::new("tar");
    let tar = tar.args(["cf", "x.tar", "-C", "card", "d", "two"]).current_dir(place.dir.path());
    assert!(tar.status().unwrap().success());
    for (source, to) in [("card", "a"), ("p.stook", "b"), ("x.tar//", "c")] {
        let (code, stdout, _) = copy(&place, &[source, to, "--verbose", "--quiet"]);
        assert_eq!(code, 0, "{source}");
        for line in ["copy      new      d/one", "copy      new      two"] {
            assert!(sorted(&stdout).contains(line), "{source}: {stdout}");
        }
    }
}

#[test]
fn what_could_not_be_read_is_counted_and_so_is_what_failed() {
    let place = place();
    fs::write(place.path("list"), "two\nabsent\nmissing\n").unwrap();
    let (code, stdout, _) = copy(&place, &["card", "disk", "--files-from", "list", "--to", "spare"]);
    assert_eq!(code, 1);
    assert_eq!(stdout.matches("; 2 could not be read").count(), 2, "{stdout}");
    fs::create_dir_all(place.path("full/two")).unwrap();
    let (code, stdout, _) = copy(&place, &["card", "full"]);
    assert!(code == 1 && stdout.contains("; 1 failed"), "{stdout}");
}

#[test]
fn json_says_which_directories_were_made() {
    let place = place();
    let (_, report) = json(&place, &["card", "new/deep", "--to", "new2"]);
    let made = |at: usize| report["destinations"][at]["made"].clone();
    let path = |path: &str| serde_json::json!({ "path": path });
    assert_eq!(made(0), serde_json::json!([path("new"), path("new/deep")]));
    assert_eq!(made(1), serde_json::json!([path("new2")]));
    let (_, report) = json(&place, &["card", "new/deep"]);
    assert_eq!(report["destinations"][0]["made"], serde_json::json!([]));
}

#[test]
fn a_mirror_that_deletes_nothing_says_why() {
    let place = place();
    fs::create_dir(place.path("disk")).unwrap();
    fs::write(place.path("disk/extra"), "x").unwrap();
    fs::write(place.path("disk/two"), "mine").unwrap();
    let reason = |args: &[&str], reason: &str| {
        for more in [&[][..], &["--dry-run"], &["--quiet"]] {
            let args = [&["card", "disk", "--mirror"][..], args, more].concat();
            let (code, stdout, stderr) = copy(&place, &args);
            assert_eq!(code, 1, "{args:?}: {stdout}{stderr}");
            let said = format!("stook: nothing was deleted from disk: {reason}\n");
            assert!(stderr.contains(&said), "{args:?}: {stderr}");
            assert!(place.path("disk/extra").exists() && !stdout.contains("deleted"), "{stdout}");
            let (_, report) = json(&place, &args);
            assert_eq!(report["destinations"][0]["not_mirrored"], reason);
        }
    };
    reason(&[], "something is there with other content, and was kept");
    fs::remove_file(place.path("disk/two")).unwrap();
    fs::create_dir(place.path("disk/two")).unwrap();
    reason(&[], "something could not be written");
    fs::remove_dir(place.path("disk/two")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(place.path("card/socket")).unwrap();
    reason(&[], "a special file was not copied");
    fs::remove_file(place.path("card/socket")).unwrap();
    drop(socket);
    fs::write(place.path("list"), "two\nabsent\n").unwrap();
    reason(&["--files-from", "list"], "something could not be read");
    let (code, stdout, stderr) = copy(&place, &["card", "disk", "--mirror"]);
    assert!(code == 0 && stdout.contains("deleted extra") && stderr.is_empty(), "{stdout}{stderr}");
}

#[test]
fn with_backups_what_is_extra_is_not_called_deleted() {
    let place = place();
    assert_eq!(copy(&place, &["card", "disk"]).0, 0);
    fs::write(place.path("disk/extra"), "x").unwrap();
    let (code, stdout, _) = copy(&place, &["card", "disk", "--mirror", "--backup"]);
    assert_eq!(code, 0);
    assert!(
        stdout.contains("renamed extra\n") && stdout.contains("; 1 extra kept under another name"),
        "{stdout}"
    );
    assert!(!stdout.contains("deleted") && place.path("disk/extra~").exists(), "{stdout}");
}

#[test]
fn an_address_is_no_destination_and_neither_is_a_path_on_another_machine() {
    let place = place();
    for (to, why) in [
        ("s3://bucket/x", "s3://bucket/x is an address"),
        ("http://host/x", "http://host/x is an address"),
        ("ftp://host/x", "ftp://host/x is an address"),
        ("file:///nowhere/x", "file:///nowhere/x is an address"),
        ("user@host:/backup", "user@host:/backup looks like a path on another machine"),
        ("host:/backup", "host:/backup looks like a path on another machine"),
        ("user@host:backup", "./user@host:backup is one on this machine"),
    ] {
        for args in [&["card", to][..], &["card", "disk", "--to", to], &["card", to, "--dry-run"]] {
            let (code, stdout, stderr) = copy(&place, args);
            assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
            assert!(stderr.contains(why), "{args:?}: {stderr}");
        }
        let names = fs::read_dir(place.dir.path()).unwrap().count();
        assert_eq!(names, 1, "{to}: nothing was made");
    }
    for to in ["./s3:/x", "./user@host:backup", "12:30", ":x"] {
        assert_eq!(copy(&place, &["card", to]).0, 0, "{to}");
        assert!(place.path(to).join("two").exists(), "{to}");
    }
    fs::create_dir(place.path("host:")).unwrap();
    fs::create_dir(place.path("host:/there")).unwrap();
    assert_eq!(copy(&place, &["card", "host:/there"]).0, 0, "it is there");
}

#[test]
fn an_object_is_copied_whether_or_not_its_server_sends_parts() {
    let place = place();
    let bytes = noise(1, 300_000);
    let page = Page::new(bytes.clone());
    let server = WebServer::start(move |_, _| page.whole());
    let (code, _, stderr) = copy(&place, &[&server.url("/x.bin"), "disk"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(fs::read(place.path("disk/x.bin")).unwrap() == bytes);
    // Of an archive parts are wanted, unless it is asked for.
    let (code, _, stderr) = copy(&place, &[&server.url("/x.zip//"), "inside"]);
    assert!(code == 1 && stderr.contains("--whole-file does that"), "{stderr}");
}

#[test]
fn what_makes_no_sense_ends_with_2() {
    let place = place();
    for (args, why) in [
        (&["card", "disk", "--to", "disk"][..], "the destination disk is given twice"),
        (&["card", "disk", "--to", "disk/in"], "the destinations disk and disk/in are one in the other"),
        (&["card", "card"], "card would be copied into itself"),
        (&["card", "card/new"], "card/new is inside card"),
        (&["card/two", "card"], "are the same file"),
        (&["card", "disk", "--bwlimit", "50"], "expected at least 4 KiB a second"),
    ] {
        let (code, stdout, stderr) = copy(&place, args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(stderr.contains(why), "{args:?}: {stderr}");
    }
    assert!(!place.path("disk").exists());
}

#[test]
fn rare_options_stand_under_headings() {
    let (code, help, _) = super::ended(&mut stook(["copy", "--help"]));
    assert_eq!(code, 0);
    let headings = [
        "Arguments:",
        "Options:",
        "What is copied:",
        "What is there already:",
        "Durability and speed:",
        "Objects on servers:",
        "Global options:",
    ];
    let places: Vec<_> = headings.iter().map(|heading| help.find(&format!("\n{heading}\n"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{help}");
    let within = |option: &str, heading: usize| {
        let is_it = |line: &&str| line.split_whitespace().next() == Some(option);
        let line = help.lines().find(is_it).unwrap_or_else(|| panic!("{option}: {help}"));
        let at = help.find(line).unwrap();
        places[heading].is_some_and(|begin| begin < at) && places[heading + 1].is_none_or(|end| at < end)
    };
    for (option, heading) in [
        ("--to", 1),
        ("--hash", 1),
        ("--exclude", 2),
        ("--as-file", 2),
        ("--at", 2),
        ("--mirror", 3),
        ("--overwrite", 3),
        ("--jobs", 4),
        ("--cache-dir", 5),
    ] {
        assert!(within(option, heading), "{option} is not under {}: {help}", headings[heading]);
    }
}

#[test]
fn a_list_that_cannot_be_meant_says_what_is() {
    let place = place();
    for (list, why) in [
        ("card/two\n", "card/two: cannot find card/card/two: no source has it; paths are relative to card"),
        ("two\r\n", "no source has it; the lines of the list end in CR LF"),
        ("three\n", "three: cannot find card/three: no source has it\n"),
    ] {
        fs::write(place.path("list"), list).unwrap();
        let (code, _, stderr) = copy(&place, &["card", "disk", "--files-from", "list"]);
        assert_eq!(code, 1, "{list}");
        assert!(stderr.contains(why), "{list}: {stderr}");
    }
}

#[test]
fn kinds_that_changed_are_a_failure_each_that_says_what_to_do() {
    let place = place();
    fs::create_dir_all(place.path("disk/two")).unwrap();
    fs::write(place.path("disk/d"), "a file").unwrap();
    let args = ["card", "disk", "--mirror", "--overwrite", "different"];
    let (code, _, stderr) = copy(&place, &args);
    assert_eq!(code, 1);
    for why in [
        "d: cannot make disk/d: what is there is no directory, as the source has one: remove it, or rename it\n",
        "two: cannot write disk/two: a directory is there, and the source has a file: remove it, or rename it\n",
    ] {
        assert!(stderr.contains(why), "{stderr}");
    }
    assert_eq!(stderr.matches("cannot").count(), 2, "{stderr}");
    assert!(place.path("disk/two").is_dir() && place.path("disk/d").is_file());
}

#[test]
fn directories_that_were_there_are_not_counted_and_a_dry_run_says_the_same_lines_each_time() {
    let place = place();
    for number in 0..200 {
        fs::write(place.path(&format!("card/d/{number}")), "more").unwrap();
    }
    let dry = ["card", "disk", "--dry-run"];
    let (code, first, _) = copy(&place, &dry);
    assert_eq!((code, copy(&place, &dry).1), (0, first.clone()));
    assert_eq!(first.lines().count(), 205, "{first}");
    let (_, stdout, _) = copy(&place, &["card", "disk"]);
    assert!(stdout.starts_with("Copied 202 files, 2 directories, "), "{stdout}");
    fs::write(place.path("card/d/one more"), "more").unwrap();
    let (_, stdout, _) = copy(&place, &["card", "disk"]);
    assert!(stdout.starts_with("Copied 1 file, 0 directories, "), "{stdout}");
    fs::set_permissions(place.path("card/d"), fs::Permissions::from_mode(0o700)).unwrap();
    let (_, stdout, _) = copy(&place, &["card", "disk"]);
    assert!(stdout.starts_with("Copied 0 files, 1 directory, "), "{stdout}");
}
