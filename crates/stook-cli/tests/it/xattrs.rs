//! Extended attributes on the command line.

use std::fs;

use rustix::fs::{XattrFlags, lgetxattr, setxattr};
use stook::pack::format::attributes::{Name, Value, XATTRS};
use stook::pack::{Attributes, FileKind};

use super::packs::{Place, documented, key};
use super::{ended, stook};

/// A tree of a file with a note, and a plain one.
fn a_tree() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    for name in ["tree/noted", "tree/plain"] {
        fs::write(place.path(name), name).unwrap();
    }
    setxattr(place.path("tree/noted"), "user.note", b"dear", XattrFlags::empty()).unwrap();
    place
}

fn run(place: &Place, args: &[&str]) -> (i32, String, String) {
    ended(stook(args).current_dir(place.dir.path()))
}

fn note(place: &Place, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 100];
    let len = lgetxattr(place.path(name), "user.note", value.as_mut_slice()).ok()?;
    value.truncate(len);
    Some(value)
}

#[test]
fn they_are_packed_listed_unpacked_and_exported() {
    let place = a_tree();
    let (code, stdout, _) = run(&place, &["pack", "tree", "p.stook", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    documented("pack", &report);
    assert_eq!(
        (code, &report["without_xattrs"], &report["lost_xattrs"]),
        (0, &0.into(), &serde_json::json!([]))
    );
    let (_, listed, _) = place.run("ls", &["-l", "noted", "plain"]);
    let marks: Vec<&str> = listed.lines().map(|line| &line[10..12]).collect();
    assert_eq!(marks, ["@ ", "  "], "{listed}");
    let (_, listed, _) = place.run("ls", &["-l", "noted", "--json"]);
    let line: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    documented("ls", &line);
    assert_eq!(line["xattrs"], serde_json::json!(["user.note"]));
    let (code, report) = place.json("unpack", &["out"]);
    documented("unpack", &report);
    assert_eq!((code, &report["unset_xattrs"]), (0, &0.into()));
    assert_eq!(note(&place, "out/noted").as_deref(), Some(&b"dear"[..]));
    assert_eq!((place.run("unpack", &["bare", "--no-xattrs"]).0, note(&place, "bare/noted")), (0, None));
    assert_eq!(place.run("unpack", &["--tar", "t.tar"]).0, 0);
    assert_eq!(run(&place, &["unpack", "t.tar", "of-tar"]).0, 0);
    assert_eq!(note(&place, "of-tar/noted").as_deref(), Some(&b"dear"[..]));
    assert_eq!(run(&place, &["pack", "tree", "q.stook", "--no-xattrs", "--move"]).0, 1);
    assert!(place.path("tree/noted").exists() && !place.path("tree/plain").exists());
}

#[test]
fn what_a_file_system_refuses_is_reported_once_with_a_count() {
    let place = Place::new();
    let mut writer = place.writer();
    let mut attributes = Attributes::of_file(FileKind::File, 0o644, 0, None);
    // No file system has this one.
    attributes.set(Name::Id(XATTRS), Value::Bytes(b"\x08system.a\x01\0x\x09user.note\x04\0dear".to_vec()));
    for name in ["one", "two"] {
        writer.put("", &key(name), &attributes, b"body").unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let (code, stdout, stderr) = place.run("unpack", &["out"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("Unpacked 2 files"), "{stdout}");
    assert!(stderr.contains("of 2 files and directories were not set"), "{stderr}");
    assert_eq!(
        (stderr.matches("system.a").count(), note(&place, "out/two").is_some()),
        (1, true),
        "{stderr}"
    );
    let (code, report) = place.json("unpack", &["again"]);
    documented("unpack", &report);
    assert_eq!((code, &report["unset_xattrs"]), (1, &2.into()));
    assert!(report["unset_xattrs_first"]["error"].as_str().unwrap().contains("system.a"), "{report}");
    assert_eq!(place.run("unpack", &["bare", "--no-xattrs"]).0, 0);
}

#[test]
fn what_another_system_has_is_a_note_and_no_failure() {
    let place = Place::new();
    let mut writer = place.writer();
    let mut attributes = Attributes::of_file(FileKind::File, 0o644, 0, None);
    let xattrs = b"\x0fcom.apple.other\x01\0x\x09user.note\x04\0dear";
    attributes.set(Name::Id(XATTRS), Value::Bytes(xattrs.to_vec()));
    writer.put("", &key("one"), &attributes, b"body").unwrap();
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let (code, report) = place.json("unpack", &["out"]);
    documented("unpack", &report);
    assert_eq!((code, &report["unset_xattrs"], &report["foreign_xattrs"]), (0, &0.into(), &1.into()));
    assert_eq!(note(&place, "out/one").as_deref(), Some(&b"dear"[..]));
    let (code, _, stderr) = place.run("unpack", &["again"]);
    assert!(code == 0 && stderr.contains("of 1 file or directory are of another system"), "{stderr}");
    let (code, _, stderr) = place.run("unpack", &["bare", "--no-xattrs"]);
    assert!(code == 0 && !stderr.contains("another system"), "{stderr}");
}
