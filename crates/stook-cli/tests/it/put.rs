//! `stook put`.

use std::fs;

use super::packs::{Place, documented, fed, long_body, refuses_what_is_no_pack};

#[test]
fn a_file_and_stdin_come_back_and_a_missing_pack_is_made() {
    let place = Place::new();
    fs::write(place.path("in"), long_body()).unwrap();
    let (code, stdout, stderr) = place.run("put", &["file", "in"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("put file: 5.00 MB") && stdout.contains("made "), "{stdout}");
    let (code, _, stderr) = fed(&mut place.command("put", &["id:9"]), &long_body());
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (code, _, _) = fed(&mut place.command("put", &["nothing", "-"]), b"");
    assert_eq!(code, 0);
    for (key, body) in [("file", long_body()), ("id:9", long_body()), ("nothing", Vec::new())] {
        assert!(place.command("get", &[key]).output().unwrap().stdout == body, "{key}");
    }
    let (code, report) = place.json("load", &[]);
    assert_eq!((code, &report["records"]), (0, &3.into()), "what put makes is complete: {report}");
}

#[test]
fn a_record_takes_the_place_of_an_older_one_and_numbers_rise() {
    let place = Place::new();
    fs::write(place.path("in"), "one").unwrap();
    let (code, first) = place.json("put", &["k", "in", "--group", "g"]);
    assert_eq!(code, 0);
    documented("put", &first);
    assert_eq!(
        (&first["created"], &first["replaced"], &first["group"]),
        (&true.into(), &false.into(), &"g".into())
    );
    fs::write(place.path("in"), "other").unwrap();
    let (_, second) = place.json("put", &["k", "in"]);
    assert_eq!((&second["created"], &second["replaced"]), (&false.into(), &true.into()));
    assert_eq!(second["body_bytes"], 5);
    assert!(second["sequence"].as_u64() > first["sequence"].as_u64());
    assert_eq!(place.run("get", &["k"]).1, "other");
    assert_eq!(place.run("check", &[]).0, 0);
}

#[test]
fn a_file_takes_its_mode_along_and_attributes_are_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    fs::write(place.path("in"), "x").unwrap();
    fs::set_permissions(place.path("in"), fs::Permissions::from_mode(0o4711)).unwrap();
    assert_eq!(place.run("put", &["k", "in", "--attr", "source=a=b"]).0, 0);
    assert_eq!(place.json("ls", &["-l"]).1["mode"], 0o4711);
    let pack = stook::pack::Pack::open_path(&place.pack, stook::pack::OpenOptions::default()).unwrap();
    let record = pack.get(&super::packs::key("k")).unwrap().unwrap();
    let name = stook::pack::format::attributes::Name::Text("source".into());
    let value = stook::pack::format::attributes::Value::Text("a=b".into());
    assert_eq!(record.head.attributes.get(&name), Some(&value));
}

#[test]
fn what_cannot_be_put_changes_nothing() {
    let place = Place::new();
    fs::write(place.path("in"), "x").unwrap();
    for (args, code) in [
        (&["k", "absent"][..], 1),
        (&["k", "."], 2),
        (&["id:x", "in"], 2),
        (&["k", "in", "--attr", "novalue"], 2),
        (&["k", "in", "--no-create"], 1),
    ] {
        assert_eq!(place.run("put", args).0, code, "{args:?}");
        assert!(!place.pack.exists(), "{args:?}");
    }
}

#[test]
fn an_unfinished_pack_stays_unfinished() {
    let place = Place::new();
    place.writer().finish(true).unwrap();
    fs::write(place.path("in"), "x").unwrap();
    assert_eq!(place.run("put", &["k", "in"]).0, 0);
    let (code, report) = place.json("load", &[]);
    assert_eq!((code, &report["records"], &report["complete"]), (1, &1.into(), &false.into()));
}

#[test]
fn another_writer_is_named() {
    let place = Place::new();
    let writer = place.writer();
    fs::write(place.path("in"), "x").unwrap();
    let (code, _, stderr) = place.run("put", &["k", "in"]);
    assert_eq!(code, 1);
    assert!(stderr.contains(&format!("process {}", std::process::id())), "{stderr}");
    drop(writer);
}

#[test]
fn what_is_no_pack_is_refused() {
    let place = Place::new();
    fs::write(place.path("in"), "x").unwrap();
    refuses_what_is_no_pack("put", &["k", place.path("in").to_str().unwrap(), "--no-create"]);
    fs::create_dir_all(place.pack.join("holidays")).unwrap();
    let (code, _, stderr) = place.run("put", &["k", "in"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("is not a pack"), "{stderr}");
}
