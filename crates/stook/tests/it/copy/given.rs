//! Packs and archives that are copied by their paths: one set of rules, wherever they go.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use stook::copy::{CopyOptions, CopyReport, HashKind};
use stook::names::{Patterns, Selection};
use stook::ops::copy::{CopyGiven, OpenGiven};

fn copy(from: &Path, to: &Path, options: CopyOptions) -> CopyReport {
    let given = OpenGiven::default().open(from, &mut |_| true).unwrap();
    let copy =
        CopyGiven { sources: vec![given], destinations: vec![to.to_path_buf()], options, read_back: false };
    copy.run(&mut ()).unwrap()
}

#[test]
fn directories_above_what_is_included_are_those_of_the_source_however_it_is_copied() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("from/private/below")).unwrap();
    fs::write(at("from/private/below/x.jpg"), "x").unwrap();
    fs::write(at("from/private/y.txt"), "y").unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for name in ["from/private/below", "from/private"] {
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o700)).unwrap();
        fs::File::open(at(name)).unwrap().set_modified(time).unwrap();
    }
    let mut tar = Command::new("tar");
    tar.args(["--format=pax", "-cf"]).arg(at("x.tar")).arg("-C").arg(at("from")).arg(".");
    assert!(tar.status().unwrap().success());
    let selection = || Selection::of(Patterns::new(["*.jpg"]).unwrap(), Patterns::default());
    for hashes in [vec![], vec![HashKind::Xxh3]] {
        let _ = fs::remove_dir_all(at("to"));
        let case = format!("{hashes:?}");
        let options = CopyOptions { selection: selection(), hashes, ..CopyOptions::default() };
        let report = copy(&at("x.tar//"), &at("to"), options);
        assert_eq!((report.undone(), report.destinations[0].files), (0, 1), "{case}: {report:?}");
        for name in ["to/private", "to/private/below"] {
            let there = fs::metadata(at(name)).unwrap();
            assert_eq!((there.mode() & 0o7777, there.mtime()), (0o700, 1_000_000_000), "{case}: {name}");
        }
        assert!(!at("to/private/y.txt").exists());
    }
}
