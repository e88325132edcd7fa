//! `stook info`.

use stook::pack::Attributes;

use super::archive_checksums::crc32c;
use super::packs::{Place, documented, key, refuses_what_is_no_pack};

#[test]
fn live_and_dead_are_told_apart_for_the_pack_its_groups_and_segments() {
    let place = Place::filled();
    let (code, info) = place.json("info", &[]);
    assert_eq!(code, 0);
    documented("info", &info);
    assert_eq!((&info["live_records"], &info["dead_records"]), (&6.into(), &1.into()));
    assert_eq!(info["complete"], true);
    assert_eq!(info["action"], "none");
    assert_eq!(info["groups"][0]["name"], "");
    assert_eq!(
        (&info["groups"][0]["live_records"], &info["groups"][0]["dead_records"]),
        (&2.into(), &1.into())
    );
    assert_eq!(info["segments"].as_array().unwrap().len(), 2);
    let disk: u64 =
        std::fs::read_dir(&place.pack).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(info["file_bytes"], disk);
    let (_, group) = place.json("info", &["--group", "g"]);
    assert_eq!((&group["live_records"], &group["dead_records"]), (&4.into(), &0.into()));
}

#[test]
fn people_are_told_the_same_and_what_to_do() {
    let (code, stdout, stderr) = Place::filled().run("info", &[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    for part in ["complete, generation", "6 records", "1 record,", "nothing to do", "(default)", "sealed"] {
        assert!(stdout.contains(part), "{part} is missing in:\n{stdout}");
    }
}

#[test]
fn of_many_segments_the_first_are_listed_and_the_others_counted() {
    let place = Place::new();
    let mut writer = place.writer();
    for number in 0..23 {
        let name = format!("group-{number:02}");
        writer.put(&name, &key(&name), &Attributes::new(), b"x").unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let listed = |args: &[&str]| {
        let stdout = place.run("info", args).1;
        (stdout.matches("sealed").count(), stdout.contains("… and 3 more segments; `--verbose`"))
    };
    assert_eq!((listed(&[]), listed(&["--verbose"])), ((20, true), (23, false)));
}

#[test]
fn an_unfinished_pack_says_so_and_how_it_goes_on() {
    let place = Place::new();
    let mut writer = place.writer();
    writer.set_roots(vec![b"/some/\x1btree".to_vec()]);
    writer.publish().unwrap();
    drop(writer);
    let (code, stdout, _) = place.run("info", &[]);
    assert_eq!(code, 0);
    assert!(stdout.contains("incomplete") && stdout.contains("run the same `stook pack` again"), "{stdout}");
    assert!(stdout.contains("/some/\\x1btree"), "{stdout}");
    let (_, info) = place.json("info", &[]);
    documented("info", &info);
    assert_eq!((&info["complete"], &info["action"]), (&false.into(), &"finish".into()));
}

/// Before: no command but `check` opened such a pack.
#[test]
fn a_segment_that_a_newer_version_wrote_costs_itself_and_nothing_is_written_beside_it() {
    let place = Place::filled();
    let segment = place.pack.join("segment-0000000000000001");
    let mut bytes = std::fs::read(&segment).unwrap();
    // The version of its header, and the checksum that vouches for it.
    bytes[8] = 2;
    let sum = crc32c(&bytes[..4092]);
    bytes[4092..4096].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&segment, bytes).unwrap();
    let (code, info) = place.json("info", &[]);
    documented("info", &info);
    assert_eq!((code, &info["action"]), (1, &"update".into()), "{info}");
    assert!(info["action_text"].as_str().unwrap().contains("segment-0000000000000001"), "{info}");
    let (code, stdout, stderr) = place.run("get", &["id:7"]);
    assert_eq!((code, stdout.as_str()), (1, "seven"), "{stderr}");
    assert!(stderr.contains("needs a newer version of stook"), "{stderr}");
    assert_eq!(place.run("get", &["a/one"]).0, 1, "it may be in there");
    std::fs::write(place.path("file"), "x").unwrap();
    for (command, args) in [
        ("put", &["k", "file"][..]),
        ("rm", &["id:7"]),
        ("rm", &["id:7", "--dry-run"]),
        ("compact", &[]),
        ("compact", &["--dry-run"]),
    ] {
        let (code, _, stderr) = place.run(command, args);
        let refused = "needs a newer version of stook: this one can neither index nor compact";
        assert!(code == 1 && stderr.contains(refused), "{command} {args:?}: {stderr}");
    }
    let (code, stdout, _) = place.run("check", &[]);
    assert!(code == 1 && stdout.contains("newer version") && !stdout.contains("pack --checksum"), "{stdout}");
}

#[test]
fn damage_that_opening_meets_is_listed_and_exits_1() {
    let place = Place::filled();
    std::fs::remove_file(place.pack.join("segment-0000000000000001")).unwrap();
    let (code, stdout, _) = place.run("info", &[]);
    assert_eq!(code, 1);
    assert!(stdout.contains("the file is missing") && stdout.contains("stook check"), "{stdout}");
    let (code, info) = place.json("info", &[]);
    assert_eq!((code, &info["action"]), (1, &"check".into()));
    documented("info", &info);
}

#[test]
fn what_is_no_pack_is_refused() {
    refuses_what_is_no_pack("info", &[]);
}
