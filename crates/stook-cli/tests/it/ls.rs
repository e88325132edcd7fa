//! `stook ls`.

use std::io::Read as _;
use std::process::Stdio;

use stook::pack::{Attributes, Key};

use super::packs::{Place, documented, fed, key, refuses_what_is_no_pack};

#[test]
fn keys_come_in_order_and_are_safe_on_a_terminal() {
    let (code, stdout, stderr) = Place::filled().run("ls", &[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout, "a/one\na/two\nb\\x0a\\xff\nempty\nlong\nid:7\n");
}

#[test]
fn globs_prefixes_and_groups_choose() {
    let place = Place::filled();
    let listed = |args: &[&str]| place.run("ls", args).1;
    assert_eq!(listed(&["/*"]), "b\\x0a\\xff\nempty\nlong\nid:7\n", "a star stops at a slash");
    assert_eq!(listed(&["*e"]), "a/one\n", "without a slash it is the last name");
    assert_eq!(listed(&["**/o*", "id:*"]), "a/one\nid:7\n");
    assert_eq!(listed(&["--prefix", "a/t"]), "a/two\n");
    assert_eq!(listed(&["--prefix", "id:"]), "id:7\n");
    assert_eq!(listed(&["--group", ""]), "a/one\na/two\n");
    assert_eq!(listed(&["--group", "g", "--group", "", "*o*"]), "a/one\na/two\nlong\n");
    assert_eq!(listed(&["nothing"]), "");
    let (code, _, stderr) = place.run("ls", &["--group", "h"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("no group \"h\"; it has: \"\" (default), \"g\""), "{stderr}");
    assert_eq!(place.run("ls", &["[a"]).0, 2);
    assert_eq!(place.run("ls", &["--prefix", "id:x"]).0, 2);
}

/// Before: it was given out as two keys, and `rm` deleted the record of the first.
#[test]
fn a_key_with_a_zero_byte_is_not_listed_between_zero_bytes_as_two_others() {
    let place = Place::new();
    let mut writer = place.writer();
    for name in ["a.tmp", "keep.txt", "keep.txt\0b.tmp"] {
        writer.put("", &key(name), &Attributes::new(), b"x").unwrap();
    }
    writer.finish(true).unwrap();
    let (code, listed, stderr) = place.run("ls", &["*.tmp", "-0"]);
    assert_eq!((code, listed.as_str()), (1, "a.tmp\0"));
    assert!(stderr.contains(r"keep.txt\x00b.tmp has a zero byte"), "{stderr}");
    let (code, listed, _) = place.run("ls", &["*.tmp"]);
    assert_eq!((code, listed.as_str()), (0, "a.tmp\nkeep.txt\\x00b.tmp\n"), "on lines it is escaped");
    let (code, _, stderr) = fed(&mut place.command("rm", &["--from-file", "-"]), listed.as_bytes());
    assert_eq!((code, place.run("ls", &[]).1.as_str()), (0, "keep.txt\n"), "{stderr}");
}

#[test]
fn long_lines_tell_mode_owner_length_time_and_group() {
    let place = Place::filled();
    let stdout = place.run("ls", &["-l", "--prefix", "a/one"]).1;
    assert_eq!(stdout, "-rw-r-----        5:6            12  2023-11-14 22:13:20Z  -         a/one\n");
    let stdout = place.run("ls", &["-l", "--group", "g", "long"]).1;
    assert!(stdout.contains(" 5000000 ") && stdout.contains("  g         long\n"), "{stdout}");
}

#[test]
fn framed_bodies_have_their_length_too() {
    for len in [0, 1, 65_535, 65_536, 65_537, 200_001] {
        let place = Place::new();
        let mut writer = place.writer();
        let mut record = writer.begin("", &key("x"), &Attributes::new(), None).unwrap();
        record.write(&vec![7; len]).unwrap();
        record.finish().unwrap();
        writer.finish(true).unwrap();
        assert_eq!(place.json("ls", &["-l"]).1["body_bytes"], len);
    }
}

#[test]
fn json_lines_are_as_documented() {
    let place = Place::filled();
    for args in [&["--json"][..], &["--json", "-l"]] {
        let (code, stdout, _) = place.run("ls", args);
        assert_eq!(code, 0);
        let lines: Vec<serde_json::Value> =
            stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.iter().for_each(|line| documented("ls", line));
        assert_eq!(lines.len(), 6);
        assert_eq!((&lines[0]["key"], &lines[0]["group"]), (&"a/one".into(), &"".into()));
        assert_eq!(lines[2]["key_b64"], "Ygr/");
        assert_eq!(lines[5]["key_id"], 7);
    }
}

#[test]
fn an_empty_pack_has_no_lines() {
    let place = Place::new();
    place.writer().finish(true).unwrap();
    let (code, stdout, stderr) = place.run("ls", &["-l"]);
    assert_eq!((code, stdout.as_str()), (0, ""));
    assert!(stderr.ends_with("p.stook has no records.\n"), "{stderr}");
    assert_eq!(place.run("ls", &["--quiet"]).2, "");
}

#[test]
fn a_reader_that_has_read_enough_shows_in_the_exit_code_alone() {
    let place = Place::new();
    let mut writer = place.writer();
    for id in 0..50_000 {
        writer.put("", &Key::id(id), &Attributes::new(), b"").unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    for args in [&[][..], &["-l"], &["--json"], &["-0"]] {
        let mut child =
            place.command("ls", args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 4]).unwrap();
        drop(stdout);
        let ended = child.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(141), &b""[..]), "{args:?}");
    }
}

#[test]
fn what_is_no_pack_is_refused() {
    refuses_what_is_no_pack("ls", &[]);
}

#[test]
fn a_range_of_keys_is_listed_by_key_or_as_it_is_on_the_medium() {
    let place = Place::filled();
    let listed = |args: &[&str]| {
        let (code, stdout, stderr) = place.run("ls", args);
        assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}");
        stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(listed(&["--from", "a/two", "--to", "id:0"]), ["a/two", "b\\x0a\\xff", "empty", "long"]);
    assert_eq!(listed(&["--prefix", "a/", "--from", "a/p"]), ["a/two"]);
    let on_disk = ["a/one", "a/two", "id:7", "b\\x0a\\xff", "empty", "long"];
    assert_eq!(listed(&["--order", "disk"]), on_disk);
    assert_eq!(listed(&["--order", "disk", "--group", "g", "--from", "c"]), ["id:7", "empty", "long"]);
    assert_eq!(listed(&["--order", "disk", "-l"]).len(), 6);
}

#[test]
fn a_pack_is_followed_as_it_grows() {
    use std::io::{BufRead as _, BufReader};
    let place = Place::filled();
    let mut following = place
        .command("ls", &["--follow", "--prefix", "new/", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    std::fs::write(place.path("in"), "body").unwrap();
    // However late it starts to follow, repeated puts are eventually listed.
    let mut seen = std::collections::BTreeSet::new();
    for key in ["new/a", "elsewhere", "new/b"] {
        assert_eq!(place.run("put", &[key, "in"]).0, 0);
        if key != "elsewhere" {
            let line: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            seen.insert(line["key"].as_str().unwrap().to_owned());
        }
    }
    following.kill().unwrap();
    following.wait().unwrap();
    assert!(seen.iter().eq(["new/a", "new/b"]), "{seen:?}");
    assert_eq!(place.run("ls", &["--follow", "--at", "@0"]).0, 2);
}
