//! `stook rm`.

use std::fs;

use super::packs::{Place, documented, fed, refuses_what_is_no_pack};

fn keys(place: &Place) -> Vec<String> {
    place.run("ls", &[]).1.lines().map(str::to_owned).collect()
}

#[test]
fn keys_patterns_prefixes_and_groups_select_what_goes() {
    let all = ["a/one", "a/two", "b\\x0a\\xff", "empty", "long", "id:7"];
    for (args, left) in [
        (&["a/one", "id:7"][..], &["a/two", "b\\x0a\\xff", "empty", "long"][..]),
        (&["--prefix", "a/"], &["b\\x0a\\xff", "empty", "long", "id:7"]),
        (&["--prefix", "id:"], &["a/one", "a/two", "b\\x0a\\xff", "empty", "long"]),
        (&["--glob", "t*", "--glob", "em*"], &["a/one", "b\\x0a\\xff", "long", "id:7"]),
        (&["--group", "g"], &["a/one", "a/two"]),
        (&["--group", "g", "--prefix", "l"], &["a/one", "a/two", "b\\x0a\\xff", "empty", "id:7"]),
    ] {
        let place = Place::filled();
        assert_eq!(keys(&place), all);
        let before = place.run("ls", &["-l"]).1;
        let (code, stdout, _) = place.run("rm", &[args, &["--dry-run"]].concat());
        assert!(code == 0 && stdout.contains("would delete"), "{args:?}: {stdout}");
        assert_eq!(place.run("ls", &["-l"]).1, before, "a dry run changes nothing");
        let (code, report) = place.json("rm", args);
        documented("rm", &report);
        assert_eq!((code, &report["missing"]), (0, &0.into()));
        assert_eq!(report["deleted"], all.len() - left.len(), "{args:?}");
        assert_eq!(keys(&place), left, "{args:?}");
        assert_eq!(place.run("check", &[]).0, 0, "{args:?}");
        let (code, loaded) = place.json("load", &[]);
        assert_eq!((code, &loaded["records"]), (0, &left.len().into()));
    }
    let place = Place::filled();
    // Where nothing matches, a key that is given beside it stays, too.
    for key in [None, Some("a/one")] {
        let args: Vec<&str> = ["--group", "", "--prefix", "l"].into_iter().chain(key).collect();
        let (code, report) = place.json("rm", &args);
        assert_eq!((code, &report["deleted"], &report["missing"]), (1, &0.into(), &0.into()));
        assert_eq!(keys(&place), all);
    }
}

#[test]
fn a_list_of_keys_is_taken_and_what_is_not_there_is_reported() {
    let place = Place::filled();
    let mut command = place.command("rm", &["--from-file", "-", "-0"]);
    let (code, _, stderr) = fed(&mut command, b"a/one\0nowhere\0b\n\xff\0");
    assert_eq!(code, 1);
    assert!(stderr.contains("has no record nowhere"), "{stderr}");
    assert_eq!(keys(&place), ["a/two", "empty", "long", "id:7"]);
    let (code, stdout, _) = place.run("get", &["a/one"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    let (code, _, stderr) = place.run("rm", &["long", "--group", ""]);
    assert!(code == 1 && stderr.contains("has no record long"), "it is in another group: {stderr}");
    assert_eq!(keys(&place).len(), 4);
}

/// Before: `--glob` was not mentioned.
#[test]
fn a_pattern_in_the_place_of_a_key_is_told_what_takes_it() {
    let place = Place::filled();
    let (code, _, stderr) = place.run("rm", &["a/*"]);
    assert!(code == 1 && stderr.contains("`--glob` takes patterns"), "{stderr}");
    let (code, _, stderr) = place.run("rm", &["nowhere"]);
    assert!(code == 1 && !stderr.contains("--glob"), "{stderr}");
    assert_eq!(place.run("rm", &["--glob", "a/*"]).0, 0);
}

#[test]
fn what_was_deleted_can_be_put_again_and_deleted_again() {
    let place = Place::filled();
    fs::write(place.path("in"), "again").unwrap();
    for _ in 0..3 {
        assert_eq!(place.run("rm", &["a/two"]).0, 0);
        assert_eq!(place.run("rm", &["a/two"]).0, 1);
        assert_eq!(place.run("put", &["a/two", "in"]).0, 0);
        assert_eq!(place.run("get", &["a/two"]).1, "again");
    }
    assert_eq!(place.run("check", &[]).0, 0);
}

#[test]
fn the_content_of_other_names_stays() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/first"), "shared").unwrap();
    fs::write(place.path("tree/plain"), "alone").unwrap();
    fs::hard_link(place.path("tree/first"), place.path("tree/second")).unwrap();
    let packed = super::ended(super::stook(["pack"]).arg(place.path("tree")).arg(&place.pack));
    assert_eq!(packed.0, 0, "{packed:?}");
    let holder = match place.json("ls", &["-l", "first"]).1["kind"].as_str() {
        Some("file") => "first",
        _ => "second",
    };
    let other = if holder == "first" { "second" } else { "first" };
    assert_eq!(place.run("rm", &[holder, "plain"]).0, 0);
    assert_eq!(place.run("get", &[holder]).0, 1);
    assert_eq!(place.run("get", &[other]).1, "shared", "it moved from {holder}");
    assert_eq!(place.json("ls", &["-l", other]).1["kind"], "file");
    assert_eq!(place.run("check", &[]).0, 0);
    assert_eq!(place.run("rm", &[other]).0, 0);
}

#[test]
fn names_that_go_together_take_their_content_along() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/first"), vec![b'x'; 50_000]).unwrap();
    fs::hard_link(place.path("tree/first"), place.path("tree/second")).unwrap();
    let packed = super::ended(super::stook(["pack"]).arg(place.path("tree")).arg(&place.pack));
    assert_eq!(packed.0, 0, "{packed:?}");
    assert_eq!(place.run("rm", &["first", "second"]).0, 0);
    let info = place.json("info", &[]).1;
    assert!(info["dead_bytes"].as_u64().unwrap() < 60_000, "nothing was moved to what goes: {info}");
}

#[test]
fn the_default_group_goes_when_all_of_it_is_meant() {
    let place = Place::filled();
    let (code, stdout, _) = place.run("rm", &["--group", "", "--glob", "**"]);
    assert!(code == 0 && stdout.starts_with("deleted 2 records, "), "{stdout}");
    assert_eq!(keys(&place), ["b\\x0a\\xff", "empty", "long", "id:7"]);
    assert_eq!(place.run("rm", &["long"]).1, "deleted 1 record, 5.00 MB in the pack\n");
}

#[test]
fn wrong_usage_changes_nothing() {
    let place = Place::filled();
    let before = place.run("ls", &["-l"]).1;
    for args in [&[][..], &["id:x"], &["--glob", "[", "empty"], &["-0", "empty"]] {
        assert_eq!(place.run("rm", args).0, 2, "{args:?}");
    }
    // What a variable that is not set makes of them.
    let unset =
        [&[""][..], &["a/one", ""], &["--prefix", ""], &["--group", ""], &["--group", "g", "--group", ""]];
    for args in unset {
        for more in [&[][..], &["--dry-run"]] {
            let (code, stdout, stderr) = place.run("rm", &[args, more].concat());
            assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
            assert!(stderr.contains("is a variable not set?"), "{args:?}: {stderr}");
        }
    }
    let (code, _, stderr) = place.run("rm", &["--group", "h"]);
    assert!(code == 1 && stderr.contains("no group"), "{stderr}");
    assert_eq!(place.run("ls", &["-l"]).1, before);
    refuses_what_is_no_pack("rm", &["k"]);
}
