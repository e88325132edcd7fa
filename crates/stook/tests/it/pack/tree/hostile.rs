//! Packs that were made to do harm. Nothing of them may appear outside the target, and what is
//! whole comes out.

use std::fs;
use std::sync::Arc;

use stook::pack::tree::UnpackSummary;
use stook::pack::{Attributes, FileKind, Key, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::tree::{Kept, Overwrite, WhyKept};

use super::{Place, failed};

/// A pack of these records, in this order.
fn craft(place: &Place, records: &[(&[u8], Option<FileKind>, &[u8])]) {
    let storage = LocalStorage::create(place.pack_path(), LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap();
    for (key, kind, body) in records {
        let attributes = match kind {
            Some(kind) => Attributes::of_file(*kind, 0o755, 1_000_000_000, None),
            None => Attributes::new(),
        };
        writer.put("", &Key::bytes(key).unwrap(), &attributes, body).unwrap();
    }
    writer.put("", &Key::bytes("good").unwrap(), &Attributes::new(), b"good").unwrap();
    writer.set_complete(true);
    writer.finish(true).unwrap();
}

/// Unpacks beside a file and a directory that nothing may touch.
fn attack(records: &[(&[u8], Option<FileKind>, &[u8])], overwrite: bool) -> (Place, UnpackSummary) {
    let place = Place::new();
    fs::create_dir(place.path("victim")).unwrap();
    fs::write(place.path("victim/file"), "precious").unwrap();
    craft(&place, records);
    let mut unpacking = place.unpacking("out");
    unpacking.overwrite = if overwrite { Overwrite::Always } else { Overwrite::Never };
    let summary = unpacking.run(&place.open(), &mut |_, _| true).unwrap();
    assert_eq!(fs::read(place.path("victim/file")).unwrap(), b"precious");
    assert_eq!(fs::metadata(place.path("victim/file")).unwrap().permissions(), {
        use std::os::unix::fs::PermissionsExt as _;
        fs::write(place.path("fresh"), "").unwrap();
        fs::Permissions::from_mode(fs::metadata(place.path("fresh")).unwrap().permissions().mode())
    });
    assert_eq!(fs::read_dir(place.path("victim")).unwrap().count(), 1);
    let beside = fs::read_dir(place.dir.path()).unwrap().count();
    assert_eq!(beside, 5, "tree, victim, p.stook, out, fresh");
    assert_eq!(fs::read(place.path("out/good")).unwrap(), b"good");
    for entry in fs::read_dir(place.path("out")).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(!name.to_string_lossy().ends_with(".part"), "{name:?} was left");
    }
    (place, summary)
}

const FILE: Option<FileKind> = Some(FileKind::File);
const DIRECTORY: Option<FileKind> = Some(FileKind::Directory);
const SYMLINK: Option<FileKind> = Some(FileKind::Symlink);
const HARD_LINK: Option<FileKind> = Some(FileKind::HardLink);

#[test]
fn paths_that_lead_out_are_refused() {
    let long = [b'n'; 256];
    let bad: [&[u8]; 14] = [
        b"..",
        b"../victim/file",
        b"a/../../victim/file",
        b"a/..",
        b"/tmp/absolute",
        b"/",
        b"//x",
        b"a//b",
        b"trailing/",
        b"./x",
        b"a/./b",
        b".",
        b"nul\0byte",
        &long,
    ];
    for kind in [FILE, DIRECTORY, SYMLINK, HARD_LINK] {
        let records: Vec<_> = bad.iter().map(|key| (*key, kind, &b"good"[..])).collect();
        let (place, summary) = attack(&records, true);
        let mut keys = failed(&summary.failures);
        keys.sort_unstable();
        let mut expected = bad.to_vec();
        expected.sort_unstable();
        assert_eq!(keys, expected);
        assert!(summary.failures.iter().all(|f| f.error.to_string().starts_with("refused")));
        assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 1);
    }
}

#[test]
fn links_are_never_followed() {
    for overwrite in [false, true] {
        for body in [&b"../victim"[..], b"..", b"/tmp"] {
            let records: [(&[u8], _, &[u8]); 4] = [
                (b"link", SYMLINK, body),
                (b"link/file", FILE, b"evil"),
                (b"link/deep/file", FILE, b"evil"),
                (b"link/directory", DIRECTORY, b""),
            ];
            let (place, summary) = attack(&records, overwrite);
            // A link below which others lie can only be a directory: it is refused, not they.
            assert_eq!(failed(&summary.failures), [b"link"], "{summary:?}");
            assert!(place.path("out/link").symlink_metadata().unwrap().is_dir());
            assert_eq!(fs::read(place.path("out/link/deep/file")).unwrap(), b"evil");
        }
        // The same name as a link and as a directory.
        let records: [(&[u8], _, &[u8]); 2] =
            [(b"x", SYMLINK, b"../victim"), (b"x/file", HARD_LINK, b"good")];
        let (_, summary) = attack(&records, overwrite);
        assert_eq!(failed(&summary.failures), [b"x"]);
    }
}

#[test]
fn a_file_replaces_a_link_and_never_what_it_leads_to() {
    let (place, summary) = attack(&[(b"link", SYMLINK, b"../victim/file")], false);
    assert!(summary.failures.is_empty());
    fs::remove_dir_all(place.pack_path()).unwrap();
    craft(&place, &[(b"link", FILE, b"evil")]);
    let summary = place.unpack("out");
    let kept = [Kept { key: b"link".to_vec(), why: WhyKept::OtherContent }];
    assert_eq!((&summary.kept[..], summary.unchanged), (&kept[..], 1));
    assert!(place.path("out/link").is_symlink());
    let mut unpacking = place.unpacking("out");
    unpacking.overwrite = Overwrite::Always;
    let summary = unpacking.run(&place.open(), &mut |_, _| true).unwrap();
    assert!(summary.failures.is_empty());
    assert_eq!(fs::read(place.path("out/link")).unwrap(), b"evil");
    assert_eq!(fs::read(place.path("victim/file")).unwrap(), b"precious");
}

#[test]
fn hard_links_lead_to_files_of_the_pack_only() {
    let records: [(&[u8], _, &[u8]); 9] = [
        (b"up", HARD_LINK, b"../victim/file"),
        (b"absolute", HARD_LINK, b"/etc/passwd"),
        (b"absent", HARD_LINK, b"nothing"),
        (b"to-directory", HARD_LINK, b"directory"),
        (b"directory", DIRECTORY, b""),
        (b"to-link", HARD_LINK, b"link"),
        (b"link", SYMLINK, b"../victim/file"),
        (b"self", HARD_LINK, b"self"),
        (b"fine", HARD_LINK, b"good"),
    ];
    for overwrite in [false, true] {
        let (place, summary) = attack(&records, overwrite);
        let mut keys = failed(&summary.failures);
        keys.sort_unstable();
        assert_eq!(keys, [&b"absent"[..], b"absolute", b"self", b"to-directory", b"to-link", b"up"]);
        assert_eq!(fs::read(place.path("out/fine")).unwrap(), b"good");
    }
}

#[test]
fn what_stands_where_something_else_should_is_reported() {
    let records: [(&[u8], _, &[u8]); 4] = [
        (b"a", FILE, b"a file"),
        (b"a/b", FILE, b"below it"),
        (b"d/e", FILE, b"in a directory"),
        (b"d", FILE, b"which is a file, too"),
    ];
    for overwrite in [false, true] {
        let (place, summary) = attack(&records, overwrite);
        // Before: what came first in the medium was there, the other was reported.
        let mut keys = failed(&summary.failures);
        keys.sort_unstable();
        assert_eq!((keys, &summary.kept[..]), (vec![&b"a"[..], b"d"], &[][..]));
        assert_eq!(fs::read(place.path("out/a/b")).unwrap(), b"below it");
        assert_eq!(fs::read(place.path("out/d/e")).unwrap(), b"in a directory");
    }
}

#[test]
fn records_that_are_no_files_are_reported_or_made_files() {
    let place = Place::new();
    craft(&place, &[(b"", None, b"the root as a file"), (b"plain", None, b"put by hand")]);
    let storage = LocalStorage::open(place.pack_path(), LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::open(Arc::new(storage), WriterOptions::default()).unwrap();
    writer.put("", &Key::id(5), &Attributes::new(), b"numeric").unwrap();
    writer.finish(false).unwrap();
    let summary = place.unpack("out");
    let mut keys = failed(&summary.failures);
    keys.sort_unstable();
    assert_eq!(keys, [&b""[..], b"id:5"]);
    assert_eq!(fs::read(place.path("out/plain")).unwrap(), b"put by hand");
}

#[test]
fn the_deepest_path_is_made_without_trouble() {
    let place = Place::new();
    let deep = b"d/".repeat(32_767);
    let key = [&deep[..], b"f"].concat();
    craft(&place, &[(&key, FILE, b"deep down")]);
    let summary = place.unpack("out");
    assert!(summary.failures.is_empty(), "{:?}", summary.failures.first().map(|f| f.error.to_string()));
    assert_eq!(summary.files, 2);
    // What removes the directory afterwards may not be made for this.
    let removed = std::process::Command::new("rm").arg("-rf").arg(place.path("out")).status().unwrap();
    assert!(removed.success());
}
