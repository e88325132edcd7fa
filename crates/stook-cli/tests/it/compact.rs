//! `stook compact`, and what `--at` shows of the time before it.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use stook::pack::{Attributes, Key};

use super::packs::{Place, documented, key, refuses_what_is_no_pack};

fn keys(place: &Place, args: &[&str]) -> Vec<String> {
    place.run("ls", args).1.lines().map(str::to_owned).collect()
}

fn segments(place: &Place) -> u64 {
    place.json("info", &[]).1["file_bytes"].as_u64().unwrap()
}

/// Many records in an order that is not that of their keys, half of them replaced, some deleted.
fn churned() -> Place {
    let place = Place::new();
    let mut writer = place.writer();
    for number in 0..400_u64 {
        let name = format!("k{:03}", number * 37 % 200);
        writer.put("", &key(name.as_bytes()), &Attributes::new(), &[number as u8; 5_000]).unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    assert_eq!(place.run("rm", &["--glob", "k01*"]).0, 0);
    place
}

#[test]
fn a_dry_run_tells_what_compaction_then_does() {
    let place = churned();
    let listed = keys(&place, &["-l"]);
    let before = segments(&place);
    let (code, planned) = place.json("compact", &["--dry-run"]);
    documented("compact", &planned);
    assert_eq!((code, &planned["dead_records"], segments(&place)), (0, &210.into(), before));
    assert!(planned["seconds_estimated"].as_f64().unwrap() > 0.0);
    assert!(place.run("compact", &["--dry-run"]).1.contains("would free"));
    let (code, done) = place.json("compact", &[]);
    documented("compact", &done);
    assert_eq!((code, &done["dead_records"], &done["records"]), (0, &210.into(), &190.into()));
    assert_eq!(done["bytes"], planned["kept_bytes"]);
    assert!(segments(&place) * 2 < before, "{} of {before}", segments(&place));
    assert_eq!(keys(&place, &["-l"]), listed);
    assert_eq!(place.run("check", &[]).0, 0);
    let (code, stdout, _) = place.run("compact", &[]);
    assert!(code == 0 && stdout.contains("nothing to compact"), "{stdout}");
    let (code, done) = place.json("compact", &["--max-dead", "30%"]);
    assert_eq!((code, &done["steps"]), (0, &0.into()));
}

#[test]
fn records_that_only_get_their_order_back_are_reported_and_no_room_that_was_freed() {
    let place = Place::new();
    fs::write(place.path("in"), "x").unwrap();
    for name in ["b", "a"] {
        assert_eq!(place.run("put", &[name, "in"]).0, 0);
    }
    let (code, stdout, _) = place.run("compact", &[]);
    assert_eq!(code, 0);
    assert!(stdout.starts_with("nothing was dead: no room was freed; 2 records put in order, "), "{stdout}");
    assert!(!stdout.contains("became") && !stdout.contains("0 dead"), "{stdout}");
    assert_eq!(place.run("compact", &[]).1, "nothing to compact\n");
}

#[test]
fn an_earlier_state_is_shown_until_compaction_lets_it_go() {
    let place = Place::filled();
    let now = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        format!("@{}.{:09}", now.as_secs(), now.subsec_nanos())
    };
    let early = now();
    fs::write(place.path("in"), "third").unwrap();
    assert_eq!(place.run("put", &["a/two", "in"]).0, 0);
    assert_eq!(place.run("rm", &["a/one", "id:7"]).0, 0);
    assert_eq!(keys(&place, &[]).len(), 4);
    assert_eq!(keys(&place, &["--at", &early]).len(), 6);
    assert_eq!(place.run("get", &["a/two"]).1, "third");
    assert_eq!(place.run("get", &["a/two", "--at", &early]).1, "second");
    assert_eq!(place.json("load", &["--at", &early]).1["records"], 6);
    assert_eq!(place.run("compact", &["--keep", "1d"]).0, 0);
    assert_eq!(place.run("get", &["a/two", "--at", &early]).1, "second");
    assert_eq!(keys(&place, &["--at", &early]).len(), 6);
    assert_eq!(place.run("compact", &[]).0, 0);
    let (code, _, stderr) = place.run("get", &["a/two", "--at", &early]);
    assert!(code == 1 && stderr.contains("compaction kept what counted from"), "{stderr}");
    assert_eq!(place.run("get", &["a/two", "--at", &now()]).1, "third");
    let (code, _, stderr) = place.run("ls", &["--at", "yesterday"]);
    assert!(code == 2 && stderr.contains("RFC 3339"), "{stderr}");
}

#[test]
fn a_damaged_segment_is_left_as_it_is_and_the_exit_code_says_so() {
    let place = churned();
    let (file, _) = place.hurt(&key("k100"), 17);
    let (code, stdout, _) = place.run("compact", &[]);
    assert!(code == 1 && stdout.contains("left as it is") && stdout.contains("k100"), "{stdout}");
    assert!(file.exists());
    assert_eq!(place.run("get", &["k101"]).0, 0);
}

#[test]
fn wrong_shares_sizes_times_and_groups_are_reported() {
    let place = Place::filled();
    for (args, expected) in [
        (&["--max-dead", "0.3"][..], "percentage"),
        (&["--max-dead", "130%"], "percentage"),
        (&["--keep", "soon"], "expected"),
        (&["--extra-space", "1.5G"], "expected"),
    ] {
        let (code, _, stderr) = place.run("compact", args);
        assert!(code == 2 && stderr.contains(expected), "{args:?}: {stderr}");
    }
    let (code, _, stderr) = place.run("compact", &["--group", "nowhere"]);
    assert!(code == 1 && stderr.contains("has no group"), "{stderr}");
    let (code, _, stderr) = place.run("compact", &["--extra-space", "1K", "--dry-run"]);
    assert!(code == 0 && stderr.contains("--extra-space"), "{stderr}");
    refuses_what_is_no_pack("compact", &[]);
    assert!(place.run("get", &[&Key::id(7).to_string()]).1 == "seven");
}

#[test]
fn segments_that_are_left_for_want_of_room_are_reported_and_the_exit_code_says_so() {
    let place = churned();
    for args in [&["--extra-space", "1k"][..], &["--extra-space", "1k", "--max-dead", "1%"]] {
        let (code, stdout, stderr) = place.run("compact", args);
        assert!(
            code == 1 && stderr.contains("of room") && !stdout.contains("nothing to compact"),
            "{stdout}{stderr}"
        );
        let (code, done) = place.json("compact", args);
        documented("compact", &done);
        assert_eq!((code, &done["steps"]), (1, &0.into()));
        assert!(done["too_large"][0]["needed_bytes"].as_u64().unwrap() > 1000, "{done}");
    }
}

#[test]
fn memory_that_nothing_can_be_done_with_is_refused() {
    let place = churned();
    let (code, stdout, stderr) = place.run("compact", &["--memory", "0"]);
    assert!(code == 2 && stderr.contains("needs memory"), "{code} {stdout}{stderr}");
    assert_eq!(place.run("compact", &["--memory", "1"]).0, 0);
    assert_eq!(place.run("check", &[]).0, 0);
}

/// A pack with a growing segment, and damage in a record of it.
fn damaged_and_growing() -> Place {
    let place = Place::new();
    let mut writer = place.writer();
    for name in ["a", "b", "c"] {
        writer.put("", &key(name), &Attributes::new(), format!("this is {name}").as_bytes()).unwrap();
    }
    writer.set_complete(true);
    writer.finish(false).unwrap();
    place.hurt(&key("b"), 2);
    place
}

/// Before: the segment stayed as it was forever: `check` advised a compaction, and that left the
/// segment out.
#[test]
fn damage_that_no_longer_counts_goes_with_a_compaction_also_where_a_segment_grows() {
    for replaced in [false, true] {
        let place = damaged_and_growing();
        if replaced {
            fs::write(place.path("b"), "new").unwrap();
            assert_eq!(place.run("put", &["b", "b"]).0, 1, "the damage is still there, and is reported");
        } else {
            place.run("rm", &["b"]);
        }
        let (code, stdout, stderr) = place.run("compact", &[]);
        let (again, found, _) = place.run("check", &[]);
        assert_eq!((again, found.contains("no damage")), (0, true), "{code} {stdout} {stderr}: {found}");
        assert_eq!(keys(&place, &[]).len(), if replaced { 3 } else { 2 });
    }
}

/// Before, the damage of one record was reported twice, and as that of two; and that of one that
/// had been replaced as a failure.
#[test]
fn unpacking_counts_what_is_missing_and_not_what_is_damaged() {
    let place = damaged_and_growing();
    let (code, stdout, stderr) = place.run("unpack", &["out"]);
    assert_eq!((code, stderr.matches("is damaged").count()), (1, 1), "{stderr}");
    assert!(stdout.contains("Unpacked 2 files") && stdout.contains("; 1 failed"), "{stdout}");
    fs::write(place.path("b"), "new").unwrap();
    place.run("put", &["b", "b"]);
    let (code, stdout, stderr) = place.run("unpack", &["again"]);
    assert_eq!((code, stderr.matches("is damaged").count()), (1, 1), "{stderr}");
    assert!(stdout.contains("Unpacked 3 files") && !stdout.contains("failed"), "{stdout}");
}
