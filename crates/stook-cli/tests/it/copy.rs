//! `stook copy`.

use std::fs;

use serde_json::Value;

use super::packs::{Place, documented};
use super::stook;

/// A place with a tree to copy.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("card/d")).unwrap();
    fs::write(place.path("card/d/one"), "first").unwrap();
    fs::write(place.path("card/big"), vec![7; 1_000_000]).unwrap();
    fs::write(place.path("notes"), "n").unwrap();
    place
}

fn copy(place: &Place, args: &[&str]) -> (i32, String, String) {
    super::ended(stook(["copy"]).args(args).current_dir(place.dir.path()))
}

fn report(place: &Place, args: &[&str]) -> (i32, Value) {
    let (code, stdout, stderr) = copy(place, &[args, &["--json"]].concat());
    let report = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout} {stderr}"));
    documented("copy", &report);
    (code, report)
}

#[test]
fn the_four_cases_of_the_help_go_where_it_says() {
    let place = place();
    assert_eq!(super::ended(stook(["pack", "card", "p.stook"]).current_dir(place.dir.path())).0, 0);
    let (code, stdout, stderr) = copy(&place, &["card/", "disk", "--to", "spare"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("Copied 2 files") && stdout.contains("to spare"), "{stdout}");
    assert_eq!(copy(&place, &["card", "notes", "both"]).0, 0);
    assert_eq!(copy(&place, &["notes", "file"]).0, 0);
    let (code, stdout, _) = copy(&place, &["p.stook", "packed"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("Copied 2 files"), "{stdout}");
    for name in ["disk/d/one", "spare/d/one", "both/card/d/one", "packed/d/one"] {
        assert_eq!(fs::read(place.path(name)).unwrap(), b"first", "{name}");
    }
    for name in ["both/notes", "file/notes"] {
        assert_eq!(fs::read(place.path(name)).unwrap(), b"n", "{name}");
    }
    assert_eq!(copy(&place, &["p.stook//d", "part", "--hash", "xxh3"]).0, 0);
    assert_eq!(fs::read(place.path("part/one")).unwrap(), b"first");
}

#[test]
fn archives_are_files_unless_two_slashes_follow() {
    let place = place();
    let mut tar = std::process::Command::new("tar");
    assert!(
        tar.args(["cf", "x.tar", "-C", "card", "."])
            .current_dir(place.dir.path())
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(copy(&place, &["x.tar", "as-file"]).0, 0);
    assert!(place.path("as-file/x.tar").is_file());
    assert_eq!(copy(&place, &["x.tar//", "inside"]).0, 0);
    assert_eq!(fs::read(place.path("inside/d/one")).unwrap(), b"first");
    assert_eq!(copy(&place, &["x.tar//", "one", "--to", "two"]).0, 0);
    assert_eq!(fs::read(place.path("two/big")).unwrap().len(), 1_000_000);
    let (code, _, stderr) = copy(&place, &["x.tar//missing", "none"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("has no missing"), "{stderr}");
}

#[test]
fn what_is_kept_is_named_and_a_dry_run_says_what_and_why() {
    let place = place();
    assert_eq!(copy(&place, &["card", "disk"]).0, 0);
    fs::write(place.path("disk/d/one"), "mine").unwrap();
    fs::write(place.path("disk/extra"), "x").unwrap();
    let (code, _, stderr) = copy(&place, &["card", "disk"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("disk/d/one is there with other content, and was kept"), "{stderr}");
    let mirror = ["card", "disk", "--overwrite", "different", "--mirror"];
    let (code, stdout, _) = copy(&place, &[&mirror[..], &["--dry-run"]].concat());
    assert_eq!(code, 0);
    assert!(
        stdout.starts_with("copy      length   d/one\ndelete    extra    extra\nWould copy "),
        "{stdout}"
    );
    let (_, dry) = report(&place, &[&mirror[..], &["--dry-run"]].concat());
    assert_eq!((dry["items"].as_array().unwrap().len(), &dry["dry_run"]), (2, &true.into()));
    let (code, done) = report(&place, &mirror);
    assert_eq!(code, 0);
    let one = &done["destinations"][0];
    assert_eq!((&one["files"], &one["unchanged"]), (&1.into(), &1.into()));
    assert_eq!(one["deleted"][0]["key"], "extra");
    assert!(!place.path("disk/extra").exists());
    assert_eq!(fs::read(place.path("disk/d/one")).unwrap(), b"first");
}

#[test]
fn lists_say_what_is_copied_and_what_they_name_has_to_be_there() {
    let place = place();
    fs::write(place.path("list"), "d/\n./missing\n").unwrap();
    let (code, _, stderr) = copy(&place, &["card", "disk", "--files-from", "list"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("missing"), "{stderr}");
    assert!(place.path("disk/d/one").exists() && !place.path("disk/big").exists());
}

/// Before: a list was ignored where a file was copied.
#[test]
fn a_file_that_is_copied_is_listed_by_its_name() {
    let place = place();
    fs::write(place.path("list"), "notes\nd/one\n").unwrap();
    assert_eq!(copy(&place, &["card", "notes", "both", "--files-from", "list"]).0, 0);
    assert!(place.path("both/notes").exists() && place.path("both/card/d/one").exists());
    assert!(!place.path("both/card/big").exists());
    for (sources, missing) in [(&["card", "notes"][..], "other"), (&["notes"], "other")] {
        fs::write(place.path("list"), "other\n").unwrap();
        let args = [sources, &["none", "--files-from", "list"]].concat();
        let (code, _, stderr) = copy(&place, &args);
        assert!(code == 1 && stderr.contains(missing), "{args:?}: {stderr}");
        assert!(!place.path("none/notes").exists(), "{args:?}");
    }
}

#[test]
fn a_list_is_read_by_the_rule_of_all_lists() {
    let place = place();
    fs::write(place.path("card/d/a\\b\nc"), "odd").unwrap();
    fs::write(place.path("lines"), "d/a\\\\b\\x0ac\n").unwrap();
    fs::write(place.path("plain"), "d/a\\b\nc\0./d//one\0").unwrap();
    assert_eq!(copy(&place, &["card", "by-lines", "--files-from", "lines"]).0, 0);
    assert_eq!(copy(&place, &["card", "by-bytes", "--files-from", "plain", "-0"]).0, 0);
    for (to, count) in [("by-lines", 1), ("by-bytes", 2)] {
        assert_eq!(fs::read(place.path(to).join("d/a\\b\nc")).unwrap(), b"odd", "{to}");
        assert_eq!(fs::read_dir(place.path(to).join("d")).unwrap().count(), count, "{to}");
    }
    assert_eq!(copy(&place, &["card", "spelled", "--files-from", "plain", "--from0"]).0, 0);
    for (list, why) in [
        ("/etc/passwd\n", "list, line 1: /etc/passwd is absolute"),
        ("d/one\n../notes\n", "list, line 2: ../notes would lead out of what is copied"),
        ("a\\b\n", "begins no escape"),
        ("\n", "list has no path: nothing was asked for"),
    ] {
        fs::write(place.path("list"), list).unwrap();
        let (code, _, stderr) = copy(&place, &["card", "refused", "--files-from", "list"]);
        assert_eq!(code, 1, "{list}: {stderr}");
        assert!(stderr.contains(why) && stderr.lines().count() == 1, "{stderr}");
    }
    assert_eq!(copy(&place, &["card", "refused", "-0"]).0, 2, "there is no list");
    assert!(!place.path("refused").exists());
    // All of it is listed.
    fs::write(place.path("list"), "./\n").unwrap();
    assert_eq!(copy(&place, &["card", "all", "--files-from", "list"]).0, 0);
    assert!(place.path("all/big").exists());
}

/// The lines of `--events`, by what they are.
fn events(place: &Place, args: &[&str]) -> (i32, Vec<(String, Value)>) {
    let (code, stdout, stderr) = copy(place, &[args, &["--json", "--events"]].concat());
    let line = |line: &str| -> (String, Value) {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line} {stderr}"));
        let name = value["schema"].as_str().unwrap().split(['.', '/']).nth(1).unwrap().to_owned();
        documented(&name, &value);
        (name, value)
    };
    (code, stdout.lines().map(line).collect())
}

#[test]
fn events_are_json_lines_that_end_in_the_document() {
    let place = place();
    let (code, lines) = events(&place, &["card", "disk", "--to", "spare"]);
    assert_eq!(code, 0);
    let names: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"copy_start"), Some(&"copy")), "{names:?}");
    let start = &lines[0].1;
    assert_eq!((&start["total_files"], &start["total_bytes"]), (&2.into(), &1_000_005.into()));
    assert_eq!(start["destinations"][1]["path"], "spare");
    assert!(start["sources"][0]["file_system"].is_string(), "{start}");
    let (_, far) = lines.iter().find(|(name, _)| name == "copy_progress").unwrap();
    assert_eq!((&far["total_bytes"], far["destinations"].as_array().unwrap().len()), (&1_000_005.into(), 2));
    assert!(!names.contains(&"copy_item"), "none were asked for");
    let end = &lines.last().unwrap().1;
    assert_eq!((&end["read_files"], &end["destinations"][1]["files"]), (&2.into(), &2.into()));
    // What is named: each path that is copied, and what fails, when it does.
    fs::write(place.path("list"), "d/one\nabsent\n").unwrap();
    let args = ["card", "third", "--files-from", "list", "--verbose"];
    let (code, lines) = events(&place, &args);
    assert_eq!(code, 1);
    let of = |name: &str| lines.iter().filter(|line| line.0 == name).map(|line| &line.1).collect::<Vec<_>>();
    let [made, item] = of("copy_item")[..] else { panic!("{lines:?}") };
    assert_eq!((&made["key"], &made["why"]), (&"".into(), &"new".into()), "the destination");
    assert_eq!(
        (&item["key"], &item["action"], &item["why"]),
        (&"d/one".into(), &"copy".into(), &"new".into())
    );
    let [failure] = of("copy_failure")[..] else { panic!("{lines:?}") };
    assert_eq!((&failure["key"], &failure["destination"]), (&"absent".into(), &Value::Null));
    assert_eq!(of("copy")[0]["failures"][0]["error"], failure["error"]);
    assert_eq!(of("copy")[0]["items"], serde_json::json!([]), "they were printed before");
}

#[test]
fn a_dry_run_and_an_unpacked_pack_have_events_too() {
    let place = place();
    let (_, lines) = events(&place, &["card", "disk", "--dry-run"]);
    let items = lines.iter().filter(|(name, _)| name == "copy_item").count();
    assert_eq!(items, 4, "the destination, a directory and two files: {lines:?}");
    assert!(!place.path("disk").exists());
    assert_eq!(super::ended(stook(["pack", "card", "p.stook"]).current_dir(place.dir.path())).0, 0);
    let (code, lines) = events(&place, &["p.stook", "out"]);
    assert_eq!(code, 0);
    assert_eq!(lines.iter().filter(|(name, _)| name == "copy_start").count(), 1, "{lines:?}");
    assert_eq!(lines.last().unwrap().1["destinations"][0]["files"], 2);
}

#[test]
fn events_are_asked_for_with_json() {
    let place = place();
    let (code, stdout, stderr) = copy(&place, &["card", "disk", "--events"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("give --json, too") && !place.path("disk").exists(), "{stderr}");
}

#[test]
fn paths_are_named_where_that_is_asked_for() {
    let place = place();
    let (code, stdout, _) = copy(&place, &["card", "disk", "--verbose"]);
    assert_eq!(code, 0);
    let mut lines: Vec<&str> = stdout.lines().collect();
    let summary = lines.pop().unwrap();
    lines.sort_unstable();
    let named = [".", "big", "d", "d/one"].map(|name| format!("copy      new      {name}"));
    assert_eq!(lines, named);
    assert!(summary.starts_with("Copied 2 files"), "{summary}");
    let (_, stdout, _) = copy(&place, &["card", "disk", "--verbose", "--quiet"]);
    assert_eq!(stdout, "", "what is there already is not named");
}

/// Off a terminal there is no progress at all.
#[test]
fn nothing_is_drawn_where_there_is_no_terminal() {
    let place = place();
    let (code, stdout, stderr) = copy(&place, &["card", "disk", "--bwlimit", "700KB"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("Copied 2 files"), "{stdout}");
}

/// As in the study, where each of these made every copy empty, with exit code 0.
#[test]
fn sizes_that_mean_nothing_are_refused() {
    let place = place();
    for size in ["0", "abc", "128 k k", "1000", "-1", "1T"] {
        let (code, _, stderr) = copy(&place, &["card", "disk", "--block-size", size]);
        assert_eq!(code, 2, "{size}: {stderr}");
        assert!(stderr.contains("--block-size"), "{size}: {stderr}");
    }
    assert!(!place.path("disk").exists());
    assert_eq!(copy(&place, &["card", "disk", "--block-size", "128K"]).0, 0);
    assert_eq!(fs::read(place.path("disk/big")).unwrap(), vec![7; 1_000_000]);
}

#[test]
fn what_cannot_be_meant_is_refused_with_a_reason() {
    let place = place();
    let (code, _, stderr) = copy(&place, &["card", "card/new"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("is inside card, which is to be copied"), "{stderr}");
    let (code, _, stderr) = copy(&place, &["notes", "."]);
    assert_eq!(code, 2);
    assert!(stderr.contains("are the same file"), "{stderr}");
    let (code, _, stderr) = copy(&place, &["card", "card", "disk"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("two sources would both be card"), "{stderr}");
    assert_eq!(copy(&place, &["card"]).0, 2);
    assert_eq!(copy(&place, &["absent", "disk"]).0, 1);
    assert!(!place.path("disk").exists());
}

#[test]
fn a_tree_of_many_directories_is_copied_with_few_descriptors() {
    let place = place();
    for folder in 0..200 {
        fs::create_dir_all(place.path(&format!("many/{folder}"))).unwrap();
        for file in 0..3 {
            fs::write(place.path(&format!("many/{folder}/{file}")), "x").unwrap();
        }
    }
    for args in [&["many", "one"][..], &["many", "two", "--to", "three"]] {
        let limited = format!("ulimit -n 256; exec \"$0\" copy {}", args.join(" "));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &limited, env!("CARGO_BIN_EXE_stook")]).current_dir(place.dir.path());
        let (code, _, said) = super::ended(&mut shell);
        assert_eq!(code, 0, "{said}");
    }
    for copied in ["one", "two", "three"] {
        let mut files =
            (0..200).flat_map(|folder| (0..3).map(move |file| format!("{copied}/{folder}/{file}")));
        assert!(files.all(|file| place.path(&file).is_file()), "{copied}");
    }
}

#[test]
fn a_pack_in_a_tree_is_copied_again_and_another_one_does_not_mix_with_it() {
    let place = place();
    let pack = |from: &str, pack: &str| {
        let packed = super::ended(stook(["pack", from, pack, "-q"]).current_dir(place.dir.path()));
        assert_eq!(packed.0, 0, "{packed:?}");
    };
    let checked = |pack: &str| super::ended(stook(["check", pack]).current_dir(place.dir.path())).0;
    fs::create_dir(place.path("tree")).unwrap();
    fs::create_dir(place.path("other")).unwrap();
    pack("card", "tree/p.stook");
    pack("card", "other/p.stook");
    assert_eq!(copy(&place, &["tree", "disk"]).0, 0);
    fs::write(place.path("card/more"), "more").unwrap();
    pack("card", "tree/p.stook");
    let (code, _, said) = copy(&place, &["tree", "disk", "--overwrite", "different"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!((checked("disk/p.stook"), checked("tree/p.stook")), (0, 0));
    let got = super::ended(stook(["get", "disk/p.stook", "more"]).current_dir(place.dir.path()));
    assert_eq!((got.0, got.1.as_str()), (0, "more"));
    // What is missing comes back.
    let segment = fs::read_dir(place.path("disk/p.stook")).unwrap().map(|entry| entry.unwrap().path());
    let segment = { segment }.find(|path| path.to_str().unwrap().contains("segment-")).unwrap();
    fs::remove_file(segment).unwrap();
    assert_eq!(copy(&place, &["tree", "disk"]).0, 0);
    assert_eq!(checked("disk/p.stook"), 0);
    let (code, _, said) = copy(&place, &["other", "disk", "--overwrite", "always"]);
    assert_eq!(code, 1);
    assert!(said.contains("only its writer puts files inside the pack"), "{said}");
    assert_eq!(checked("disk/p.stook"), 0);
    // A file that only looks like one of a pack makes no pack.
    fs::create_dir_all(place.path("outer/stray")).unwrap();
    fs::write(place.path("outer/stray/manifest-0000000000000001"), "x").unwrap();
    for _ in 0..2 {
        let (code, _, said) = copy(&place, &["outer", "two", "--overwrite", "always"]);
        assert_eq!(code, 0, "{said}");
    }
}
