//! `stook check`.

use std::fs;

use stook::pack::{Attributes, FileKind, Key};

use super::packs::{Place, documented, key, long_body, refuses_what_is_no_pack};
use super::stook;

#[test]
fn a_whole_pack_has_no_damage() {
    let place = Place::filled();
    let (code, stdout, stderr) = place.run("check", &[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout, "no damage: 7 records are whole (6 live), 5.00 MB of bodies verified\n");
    let (code, report) = place.json("check", &[]);
    documented("check", &report);
    assert_eq!((code, &report["live_records"]), (0, &6.into()));
    let bytes = 12 + 3 + 6 + 5 + 3 + long_body().len() as u64;
    assert_eq!(report["body_bytes"], bytes);
    assert_eq!(place.run("check", &["--quiet"]).1, "");
}

#[test]
fn each_damaged_record_is_named_and_exits_1() {
    let place = Place::filled();
    let (first, _) = place.hurt(&key("a/one"), 2);
    let (second, _) = place.hurt(&Key::id(7), 1);
    let (code, stdout, _) = place.run("check", &[]);
    assert_eq!(code, 1);
    for (file, name) in [(first, "a/one"), (second, "id:7")] {
        let line = stdout.lines().find(|line| line.contains(&format!("(record {name})"))).unwrap();
        assert!(line.starts_with(&format!("{} is damaged at offset ", file.display())), "{line}");
    }
    assert!(stdout.contains("2 damages: 5 records are whole"), "{stdout}");
    let (code, report) = place.json("check", &[]);
    documented("check", &report);
    assert_eq!(code, 1);
    let damages = report["damages"].as_array().unwrap();
    assert!(damages.iter().any(|d| d["key"] == "a/one" && d["offset_bytes"].as_u64() > Some(0)), "{report}");
    assert!(damages.iter().any(|d| d["key_id"] == 7), "{report}");
}

#[test]
fn foreign_files_and_an_unfinished_build_are_noted_and_no_damage() {
    let place = Place::new();
    place.writer().finish(true).unwrap();
    fs::write(place.pack.join("notes\x1b.txt"), "x").unwrap();
    let (code, stdout, stderr) = place.run("check", &[]);
    assert_eq!(code, 1, "anything may be missing");
    assert!(stderr.contains("is incomplete") && stderr.contains("--accept"), "{stderr}");
    assert!(stdout.contains("notes\\x1b.txt is no file of a pack"), "{stdout}");
    assert!(stdout.contains("note: the pack is incomplete"), "{stdout}");
}

#[test]
fn what_is_no_pack_is_refused() {
    refuses_what_is_no_pack("check", &[]);
}

/// Before: nothing but a run over what it was made from completed a pack, and that may be gone.
#[test]
fn an_incomplete_pack_is_accepted_as_it_is_where_it_has_no_damage() {
    let place = Place::new();
    let mut writer = place.writer();
    writer.put("", &key("x"), &Attributes::new(), b"what is there").unwrap();
    writer.set_roots(vec![b"gone".to_vec()]);
    writer.finish(true).unwrap();
    let (_, stdout, _) = place.run("info", &[]);
    assert!(stdout.contains("incomplete") && stdout.contains("`stook check --accept`"), "{stdout}");
    assert_eq!(place.run("load", &[]).0, 1);
    // A check that is only one changes nothing.
    let (code, report) = place.json("check", &[]);
    assert_eq!((code, &report["accepted"], place.run("load", &[]).0), (1, &false.into(), 1), "{report}");
    assert_eq!(report["complete"], false);
    assert_eq!(place.run("check", &["--accept", "--repair", "new"]).0, 2);
    let (code, report) = place.json("check", &["--accept"]);
    documented("check", &report);
    assert_eq!((code, &report["accepted"], &report["complete"]), (0, &true.into(), &true.into()), "{report}");
    let (code, report) = place.json("load", &[]);
    assert_eq!((code, &report["complete"]), (0, &true.into()), "{report}");
    let (code, stdout, _) = place.run("check", &["--accept"]);
    assert!(code == 0 && stdout.contains("the pack is complete already"), "{stdout}");
    assert_eq!(place.json("check", &["--accept"]).1["accepted"], false);
}

#[test]
fn an_incomplete_pack_with_damage_is_not_accepted() {
    let place = Place::new();
    let mut writer = place.writer();
    writer.put("", &key("x"), &Attributes::new(), b"what is there").unwrap();
    writer.finish(true).unwrap();
    place.hurt(&key("x"), 3);
    let (code, stdout, stderr) = place.run("check", &["--accept"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stdout.contains("the pack stays incomplete"), "{stdout}");
    let (_, stdout, _) = place.run("info", &[]);
    assert!(stdout.contains("incomplete"), "{stdout}");
}

#[test]
fn a_repair_saves_what_is_whole_and_sets_the_rest_aside() {
    let place = Place::filled();
    place.hurt(&key("long"), 100_000);
    let new = place.path("new.stook");
    let (code, report) = place.json("check", &["--repair", new.to_str().unwrap()]);
    documented("check", &report);
    assert_eq!((code, &report["records"]), (1, &5.into()));
    assert_eq!(report["damages"][0]["key"], "long");
    let aside = place.path("new.stook.quarantine");
    let file = aside.join(report["quarantined"][0]["quarantine_file"].as_str().unwrap());
    assert_eq!(fs::metadata(file).unwrap().len(), report["quarantined"][0]["len_bytes"].as_u64().unwrap());
    assert!(fs::read_to_string(aside.join("report.json")).unwrap().contains("long"));
    let saved = Place { pack: new.clone(), ..place };
    assert_eq!(saved.run("check", &[]).0, 0);
    assert_eq!(saved.run("get", &["a/two"]).1, "second");
    let verified = by_the_document("verify", &new);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let (code, _, stderr) = saved.run("check", &["--repair", new.to_str().unwrap()]);
    assert!(code == 1 && stderr.contains("already there"), "{stderr}");
}

#[test]
fn a_repair_into_a_name_with_a_slash_at_its_end_is_one_into_that_name() {
    for named in ["saved/", "saved//", "saved/."] {
        let place = Place::filled();
        place.hurt(&key("long"), 100_000);
        let (code, report) = place.json("check", &["--repair", named]);
        assert_eq!((code, &report["new"]), (1, &"saved".into()), "{named}: {report}");
        assert!(place.path("saved.quarantine/report.json").exists(), "{named}");
        let saved = Place { pack: place.path("saved"), ..place };
        assert_eq!(saved.run("check", &[]).0, 0, "{named}");
    }
}

#[test]
fn a_repair_leaves_out_the_hard_links_of_what_is_lost_and_the_new_pack_is_whole() {
    let place = Place::new();
    let mut writer = place.writer();
    let of = |kind| Attributes::of_file(kind, 0o640, 1_700_000_000_000_000_000, None);
    let (file, link) = (of(FileKind::File), of(FileKind::HardLink));
    for (group, name, attributes, body) in [
        ("", "long", &file, &long_body()[..]),
        ("", "other", &file, b"still there"),
        ("g", "hard", &link, b"long"),
        ("", "harder", &link, b"hard"),
        ("", "kept", &link, b"other"),
    ] {
        writer.put(group, &key(name), attributes, body).unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    place.hurt(&key("long"), 100_000);
    let (code, report) = place.json("check", &["--repair", "new.stook"]);
    documented("check", &report);
    let damages = report["damages"].as_array().unwrap();
    let mut lost: Vec<&str> = damages.iter().map(|damage| damage["key"].as_str().unwrap()).collect();
    lost.sort_unstable();
    assert_eq!((code, lost, &report["records"]), (1, vec!["hard", "harder", "long"], &2.into()), "{report}");
    assert!(!report["damages"].to_string().contains("new.stook"), "{report}");
    assert!(report["notes"].to_string().contains("says that it is complete"), "{report}");
    let is_aside = |segment: u64| {
        let mut aside = report["quarantined"].as_array().unwrap().iter();
        aside.any(|aside| aside["segment_id"] == segment)
    };
    assert!(is_aside(1) && is_aside(2), "{report}");
    let saved = Place { pack: place.path("new.stook"), ..place };
    let (code, stdout, stderr) = saved.run("check", &[]);
    assert!(code == 0 && stdout.starts_with("no damage"), "{stdout}{stderr}");
    assert_eq!(saved.run("ls", &[]).1.replace("bytes:", ""), "kept\nother\n");
    assert_eq!(saved.run("get", &["kept"]), (0, "still there".into(), String::new()));
    let verified = by_the_document("verify", &saved.pack);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let (code, report) = saved.json("check", &["--repair", "again.stook"]);
    assert_eq!((code, &report["records"], &report["damages"]), (0, &2.into(), &serde_json::json!([])));
}

/// What the reader says that was written from the document alone.
fn by_the_document(verb: &str, pack: &std::path::Path) -> std::process::Output {
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/read_pack.py");
    std::process::Command::new("python3").args([reader, verb]).arg(pack).output().unwrap()
}

#[test]
fn a_repair_tells_damage_of_older_generations_as_a_check_does() {
    let place = Place::filled();
    let oldest = fs::read_dir(&place.pack).unwrap().map(|file| file.unwrap().path());
    let oldest = oldest.filter(|path| path.to_string_lossy().contains("/manifest-")).min().unwrap();
    let mut bytes = fs::read(&oldest).unwrap();
    let len = bytes.len();
    for at in [40, len / 2 + 40] {
        bytes[at] ^= 1;
    }
    fs::write(&oldest, bytes).unwrap();
    let (code, checked) = place.json("check", &[]);
    let (repair_code, repaired) = place.json("check", &["--repair", "new.stook"]);
    assert_eq!((code, repair_code), (1, 1), "{checked} {repaired}");
    assert_eq!(checked["damages"], repaired["damages"]);
}

/// A half-restored backup: the segment of another, diverged copy of the same pack.
#[test]
fn a_segment_of_another_copy_of_the_pack_is_damage_to_every_command() {
    let place = Place::new();
    let put = |pack: &str, name: &str| {
        let mut command = stook(["put", pack, name, "-"]);
        let fed = super::packs::fed(command.current_dir(place.dir.path()), b"1");
        assert_eq!(fed.0, 0, "{}", fed.2);
    };
    put("p.stook", "base");
    assert!(
        std::process::Command::new("cp")
            .args(["-r", "p.stook", "q"])
            .current_dir(place.dir.path())
            .status()
            .unwrap()
            .success()
    );
    put("p.stook", "x");
    put("q", "y");
    fs::copy(place.path("q/segment-0000000000000001"), place.path("p.stook/segment-0000000000000001"))
        .unwrap();
    for (command, args) in
        [("get", &["x"][..]), ("ls", &[]), ("check", &[]), ("load", &[]), ("unpack", &["out"])]
    {
        let (code, stdout, stderr) = place.run(command, args);
        assert!(
            code == 1 && format!("{stdout}{stderr}").contains("another copy"),
            "{command}: {code} {stdout}{stderr}"
        );
    }
    assert_eq!(place.run("get", &["base"]).1, "1", "what is whole comes out");
    assert_eq!(by_the_document("list", &place.pack).status.code(), Some(1));
}

/// `x` is in the state of the backup and in the last one: that it is not shown is not passed over.
#[test]
fn an_older_manifest_over_newer_files_is_reported_by_every_command() {
    let place = Place::new();
    let put = |name: &str, group: &str| {
        let mut command = stook(["put", "p.stook", name, "-", "--group", group]);
        let fed = super::packs::fed(command.current_dir(place.dir.path()), b"1");
        assert_eq!(fed.0, 0, "{}", fed.2);
    };
    let manifests = || {
        let names = fs::read_dir(place.path("p.stook")).unwrap().map(|entry| entry.unwrap().path());
        let names = names.filter(|path| path.to_string_lossy().contains("/manifest-"));
        names.map(|path| (path.clone(), fs::read(path).unwrap())).collect::<Vec<_>>()
    };
    put("x", "a");
    put("y", "a");
    let before = manifests();
    assert_eq!(place.run("rm", &["x"]).0, 0);
    put("x", "b");
    let newest = manifests();
    let restore = |to: &[(std::path::PathBuf, Vec<u8>)]| {
        manifests().iter().for_each(|(path, _)| fs::remove_file(path).unwrap());
        to.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    };
    restore(&before);
    for (command, args) in
        [("ls", &[][..]), ("check", &[]), ("load", &[]), ("unpack", &["out"]), ("info", &[]), ("get", &["x"])]
    {
        let (code, stdout, stderr) = place.run(command, args);
        assert!(
            code == 1 && format!("{stdout}{stderr}").contains("restored from a backup"),
            "{command}: {code} {stdout}{stderr}"
        );
    }
    assert_eq!(place.run("get", &["y"]).1, "1");
    let listed = by_the_document("list", &place.pack);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.status.code() == Some(1) && text.contains("after generation"), "{text}");
    // In a segment that the older manifest names, too.
    restore(&newest);
    put("z", "a");
    restore(&before);
    let listed = by_the_document("list", &place.pack);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.status.code() == Some(1) && text.contains("nothing from here on"), "{text}");
}

#[test]
fn what_packing_again_finds_damaged_is_reported_and_packed_again() {
    for by in ["tree", "x.tar"] {
        let place = Place::new();
        fs::create_dir(place.path("tree")).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(place.path("tree").join(name), format!("content of {name}")).unwrap();
        }
        let tar = ["cf", "x.tar", "-C", "tree", "a", "b", "c"];
        assert!(
            std::process::Command::new("tar")
                .args(tar)
                .current_dir(place.dir.path())
                .status()
                .unwrap()
                .success()
        );
        let pack = |args: &[&str]| super::ended(stook(["pack"]).args(args).current_dir(place.dir.path()));
        assert_eq!(pack(&[by, "p.stook"]).0, 0);
        let (_, offset) = place.hurt(&key("b"), 2);
        let (code, stdout, stderr) = pack(&[by, "p.stook", "--checksum"]);
        assert!(code == 1 && stderr.contains("(record b)"), "{by} at {offset}: {code} {stdout}{stderr}");
        assert_eq!(place.run("get", &["b"]).1, "content of b", "{by}");
        let (code, _, stderr) = pack(&[by, "p.stook", "--checksum"]);
        assert_eq!(
            (code, stderr.as_str()),
            (0, ""),
            "{by}: the second time nothing is wrong with what counts"
        );
    }
}

#[test]
fn a_lost_list_of_deletions_says_how_many_records_it_withholds_and_floods_nobody() {
    let place = Place::new();
    let mut writer = place.writer();
    for id in 0..50 {
        writer.put("", &Key::id(id), &Attributes::new(), b"body").unwrap();
    }
    (0..7).for_each(|id| assert!(writer.delete(&Key::id(id)).unwrap()));
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let is_list = |name: &str| name.starts_with("deletes-");
    for entry in fs::read_dir(&place.pack).unwrap().flatten() {
        if is_list(entry.file_name().to_str().unwrap()) {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let (code, stdout, _) = place.run("check", &[]);
    assert!(code == 1 && stdout.contains("7 of the 50 records"), "{stdout}");
    let (code, stdout, stderr) = place.run("ls", &[]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(
        stderr.lines().count() <= 13 && stderr.contains("more records that cannot be listed"),
        "{stderr}"
    );
    // What would be done is refused as doing it is.
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    let run = |args: &[&str]| {
        let output = stook(args).current_dir(place.path("")).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for command in [&["pack", "tree", "p.stook"][..], &["rm", "p.stook", "id:9"], &["compact", "p.stook"]] {
        let dry = run(&[command, &["--dry-run"]].concat());
        let real = run(command);
        assert!(real.0 != 0 && real.1.contains("is lost; nothing may be written"), "{command:?}: {real:?}");
        // The dry run has seen more of the damage by then.
        assert!(dry.0 == real.0 && dry.1.starts_with(&real.1), "{command:?}: {dry:?}, {real:?}");
    }
    // The same for a segment that is gone.
    fs::remove_file(place.path("p.stook/segment-0000000000000001")).unwrap();
    let (code, stdout, _) = place.run("info", &[]);
    assert!(code == 1 && stdout.contains("43 live records were in it"), "{stdout}");
}

/// Many files whose records are broken: ten are reported, and how many more there are.
#[test]
fn much_damage_floods_nobody_and_verbose_tells_all() {
    let place = Place::new();
    let mut writer = place.writer();
    let file = Attributes::of_file(FileKind::File, 0o644, 0, None);
    // The first byte shows where a body begins, whatever the checksums around it are.
    let body = [&b"<"[..], &[b'x'; 299]].concat();
    for number in 0..40 {
        writer.put("", &key(format!("file-{number:02}")), &file, &body).unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let segment = place.path("p.stook/segment-0000000000000001");
    let mut bytes = fs::read(&segment).unwrap();
    let bodies: Vec<usize> =
        bytes.windows(300).enumerate().filter(|(_, at)| *at == body).map(|(at, _)| at).collect();
    assert_eq!(bodies.len(), 40);
    bodies.iter().for_each(|&at| bytes[at] = b'y');
    fs::write(&segment, bytes).unwrap();
    let unpack = |more: &[&str]| {
        let args = [&["unpack", "p.stook", "out"], more].concat();
        let output = stook(&args).current_dir(place.path("")).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let few = unpack(&[]);
    assert!(few.lines().count() == 11 && few.contains("… and 30 more failures"), "{few}");
    let all = unpack(&["--verbose"]);
    assert_eq!(all.lines().count(), 40, "{all}");
}

/// Opening a pack found much damage: missing segments.
#[test]
fn much_damage_that_opening_a_pack_meets_floods_nobody_in_info() {
    let place = Place::new();
    let mut writer = place.writer();
    for number in 0..15 {
        writer.put(&format!("group {number}"), &Key::id(number), &Attributes::new(), b"body").unwrap();
    }
    writer.finish(true).unwrap();
    for number in 1..=15 {
        fs::remove_file(place.path(&format!("p.stook/segment-{number:016x}"))).unwrap();
    }
    let missing = |args: &[&str]| {
        let (code, stdout, stderr) = place.run("info", args);
        assert_eq!((code, stderr.as_str()), (1, ""));
        (stdout.lines().filter(|line| line.contains("is missing")).count(), stdout)
    };
    let (reported, text) = missing(&[]);
    assert!(reported == 10 && text.contains("… and 5 more places"), "{text}");
    assert_eq!(missing(&["--verbose"]).0, 15);
}

/// Before: it was said to pack what is damaged again, which such a pack refuses, and `ls` did not
/// say what helps.
#[test]
fn a_pack_without_a_manifest_is_repaired_and_not_packed_into() {
    let place = Place::filled();
    place.hurt(&key("a/one"), 2);
    assert!(place.run("check", &[]).1.contains("pack --checksum"), "it can be written to");
    for file in fs::read_dir(&place.pack).unwrap().map(|file| file.unwrap().path()) {
        if file.to_string_lossy().contains("/manifest-") {
            fs::remove_file(file).unwrap();
        }
    }
    let (code, stdout, _) = place.run("check", &[]);
    assert!(code == 1 && stdout.contains("(record a/one)"), "{stdout}");
    assert!(stdout.contains("--repair NEW") && !stdout.contains("pack --checksum"), "{stdout}");
    // Before: lists of deleted records were "not named by the manifest", which is lost.
    assert!(!stdout.contains("is not named by the manifest"), "{stdout}");
    for command in ["ls", "info", "load"] {
        let (code, _, stderr) = place.run(command, &[]);
        assert!(code == 1 && stderr.contains("`stook check --repair`"), "{command}: {stderr}");
    }
}

/// Before: with the list of the dead there, what was replaced was taken off twice ("0 live").
#[test]
fn without_a_manifest_what_was_replaced_is_taken_off_once() {
    let place = Place::new();
    fs::write(place.path("in"), "1").unwrap();
    (0..2).for_each(|_| assert_eq!(place.run("put", &["a", "in"]).0, 0));
    let remove = |kind: &str| {
        let names = fs::read_dir(&place.pack).unwrap().map(|file| file.unwrap().path());
        let names: Vec<_> = names.filter(|path| path.to_string_lossy().contains(kind)).collect();
        names.iter().for_each(|path| fs::remove_file(path).unwrap());
        names.len()
    };
    assert!(remove("/manifest-") > 0);
    let (code, stdout, _) = place.run("check", &[]);
    assert!(code == 1 && stdout.contains("2 records are whole (1 live)"), "{stdout}");
    assert_eq!(remove("/deletes-"), 1, "the list of the dead was there");
    let (code, stdout, _) = place.run("check", &[]);
    assert!(code == 1 && stdout.contains("2 records are whole (1 live)"), "{stdout}");
}
