//! Tars of packs of files with holes.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use stook::archive::{Archive, OpenOptions};
use stook::ops::export::Export;
use stook::ops::pack::PackSources;
use stook::pack::{self, Key, Pack};
use stook::source::{FileSource, Source as _};
use stook::tree::Tree as _;

fn open(path: &Path) -> Archive {
    Archive::open(path, OpenOptions { sidecar: false, ..OpenOptions::default() }).unwrap()
}

/// Those of sparse tars, as GNU tar makes them; of a pack that was made of one; and of a tar that
/// was made of that.
#[test]
fn holes_go_through_packs_and_tars_and_no_room_is_taken_for_them() {
    const MIB: u64 = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("tree")).unwrap();
    for (name, len, data) in [("short", 2 * MIB, MIB), ("long", 40 * MIB, 39 * MIB), ("end", 20 * MIB, 0)] {
        let file = File::create(path("tree").join(name)).unwrap();
        file.set_len(len).unwrap();
        file.write_all_at(&[7; 4096], data).unwrap();
        file.sync_all().unwrap();
    }
    let holes = |path: &Path| FileSource::open(path).unwrap().holes().unwrap();
    if holes(&path("tree/end")).is_empty() {
        // The file system does not report them.
        return;
    }
    PackSources::new(vec![path("tree")], path("p.stook")).run(&mut ()).unwrap();
    let packed = Pack::open_path(path("p.stook"), pack::OpenOptions::default()).unwrap();
    let exported = Export::default().run_to_file(&packed, &path("x.tar"), &mut |_, _| true).unwrap();
    assert_eq!((exported.undone, exported.summary.bytes), (0, 62 * MIB));
    assert!(path("x.tar").metadata().unwrap().len() < 100_000, "holes are not in it");
    fs::create_dir(path("out")).unwrap();
    let (tar, out) = (path("x.tar"), path("out"));
    let extracted = Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&out).status().unwrap();
    assert!(extracted.success());
    PackSources::new(vec![tar.clone()], path("again.stook")).run(&mut ()).unwrap();
    let again = Pack::open_path(path("again.stook"), pack::OpenOptions::default()).unwrap();
    for name in ["short", "long", "end"] {
        let before = path("tree").join(name);
        assert!(fs::read(out.join(name)).unwrap() == fs::read(&before).unwrap(), "{name}");
        let wanted = holes(&before);
        let record = again.open_source(&Key::bytes(name).unwrap()).unwrap().unwrap();
        assert_eq!(record.holes().unwrap(), wanted, "{name}: through a tar into a pack");
        let tree = open(&tar);
        let id = tree.tree().find(name.as_bytes()).unwrap().unwrap();
        assert_eq!(tree.tree().holes(id).unwrap(), wanted, "{name}: in the tar");
    }
}
