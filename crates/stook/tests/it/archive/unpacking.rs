//! Archives into directories: what comes out, whatever their members are called and in which order
//! they stand.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Cursor;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Mutex;

use stook::archive::{Unpack, UnpackSummary, tar_stream};
use stook::ops::contents::{Contents as _, LoadOptions, LoadWatch};
use stook::ops::import::{Import, Source};
use stook::ops::pack::{Making, PackSources, open_writer};
use stook::pack::tree::UnpackTree;
use stook::pack::{Key, OpenOptions, Pack, WriterOptions};
use stook::tree::Overwrite;

use super::made::{end, link, member, pax};
use super::{open, run};

fn unpack(archive: &Path, target: &Path) -> UnpackSummary {
    let unpack = Unpack {
        target: target.to_path_buf(),
        overwrite: Overwrite::Never,
        with_owner: false,
        xattrs: true,
        threads: 2,
        durability: Default::default(),
        force: false,
        select: Box::new(|_| true),
    };
    unpack.run(&open(archive).unwrap(), &mut |_, _| true).unwrap()
}

/// Imports an archive and unpacks the pack: how many failures each had.
fn through_a_pack(archive: &Path, pack: &Path, target: &Path) -> (usize, usize) {
    let packed = PackSources::new(vec![archive.to_path_buf()], pack.to_path_buf()).run(&mut ()).unwrap();
    let unpack = UnpackTree {
        target: target.to_path_buf(),
        overwrite: Overwrite::Never,
        with_owner: false,
        xattrs: true,
        groups: Vec::new(),
        threads: 2,
        durability: Default::default(),
        select: Box::new(|_| true),
        force: false,
    };
    let pack = Pack::open_path(pack, OpenOptions::default()).unwrap();
    let unpacked = unpack.run(&pack, &mut |_, _| true).unwrap();
    (packed.summary.failures.len(), unpacked.failures.len())
}

/// Files below a directory, and what is in them.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => {
                    let key = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                    found.insert(key, fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

#[test]
fn a_file_that_others_lie_below_is_refused_whatever_the_order_and_what_lies_between() {
    let dir = tempfile::tempdir().unwrap();
    // More than wait for one sync.
    for between in [0, 1, 2500] {
        for is_first in [true, false] {
            let mut parts = vec![member(b"x", b'0', b"a file")];
            parts.extend((0..between).map(|at| member(format!("m/{at}").as_bytes(), b'0', b"")));
            parts.push(member(b"x/y", b'0', b"below it"));
            if !is_first {
                parts.reverse();
            }
            parts.push(end());
            let (tar, out) = (dir.path().join("t.tar"), dir.path().join("out"));
            fs::write(&tar, parts.concat()).unwrap();
            let summary = unpack(&tar, &out);
            let failures: Vec<String> = summary
                .failures
                .iter()
                .map(|failure| format!("{}: {}", failure.key.escape_ascii(), failure.error))
                .collect();
            assert_eq!(failures.len(), 1, "{between} {is_first}: {failures:?}");
            assert!(failures[0].starts_with("x: refused: the keys of others lie below it"), "{failures:?}");
            assert_eq!(fs::read(out.join("x/y")).unwrap(), b"below it", "{between} {is_first}");
            assert_eq!(summary.files, between + 1);
            fs::remove_dir_all(&out).unwrap();
        }
    }
}

#[test]
fn names_with_empty_parts_and_dots_come_out_where_tar_puts_them() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["a//b", "c/./d", "./e/.//f", "g/././/h"];
    let wanted = ["a/b", "c/d", "e/f", "g/h"];
    let mut parts: Vec<Vec<u8>> =
        names.iter().map(|name| member(name.as_bytes(), b'0', name.as_bytes())).collect();
    parts.extend([member(b"empty/.", b'5', b""), end()]);
    fs::write(dir.path().join("t.tar"), parts.concat()).unwrap();
    let script = format!(
        "import zipfile
z = zipfile.ZipFile('t.zip', 'w')
for name in {names:?}: z.writestr(name, name)
z.writestr('empty/./', '')
z.close()"
    );
    run("python3", &["-c", &script], dir.path());
    fs::create_dir(dir.path().join("tar")).unwrap();
    run("tar", &["-xf", "t.tar", "-C", "tar"], dir.path());
    let by_tar = files(&dir.path().join("tar"));
    assert_eq!(by_tar.keys().map(String::as_str).collect::<Vec<_>>(), wanted);
    for name in ["t.tar", "t.zip"] {
        let (archive, out) = (dir.path().join(name), dir.path().join(format!("{name} out")));
        let summary = unpack(&archive, &out);
        assert!(summary.failures.is_empty(), "{name}: {summary:?}");
        assert_eq!(files(&out), by_tar, "{name}");
        assert!(out.join("empty").is_dir(), "{name}");
        let (pack, again) =
            (dir.path().join(format!("{name} pack")), dir.path().join(format!("{name} again")));
        assert_eq!(through_a_pack(&archive, &pack, &again), (0, 0), "{name}");
        assert_eq!(files(&again), by_tar, "{name}");
    }
}

#[test]
fn what_cannot_be_on_disk_is_refused_with_its_own_reason() {
    let dir = tempfile::tempdir().unwrap();
    let long = [b'x'; 256];
    let pax = pax(&[("path", &long)]);
    let parts = [
        member(b"../up", b'0', b"1"),
        member(b"/etc/absolute", b'0', b"2"),
        [pax, member(b"x", b'0', b"3")].concat(),
        member(b"good", b'0', b"4"),
        end(),
    ];
    let (tar, out) = (dir.path().join("t.tar"), dir.path().join("out"));
    fs::write(&tar, parts.concat()).unwrap();
    let summary = unpack(&tar, &out);
    assert_eq!((summary.files, summary.failures.len()), (1, 3));
    for failure in &summary.failures {
        let said = failure.error.to_string();
        let leads_out = said.contains("could lead out of the target");
        assert_eq!(leads_out, failure.key != long, "{}: {said}", failure.key.escape_ascii());
        assert!(leads_out || said.contains("255 bytes"), "{said}");
    }
}

#[test]
fn short_holes_of_a_tar_are_holes_again() {
    const STEP: u64 = 32 << 10;
    let dir = tempfile::tempdir().unwrap();
    for (name, pieces) in [("small", 8), ("long", 100)] {
        let file = File::create(dir.path().join(name)).unwrap();
        file.set_len(pieces * STEP).unwrap();
        for piece in 0..pieces {
            file.write_all_at(&[7; 4096], piece * STEP).unwrap();
        }
        file.sync_all().unwrap();
    }
    let taken = |path: &Path| {
        File::open(path).unwrap().sync_all().unwrap();
        fs::metadata(path).unwrap().blocks() * 512
    };
    if taken(&dir.path().join("long")) > 100 * STEP / 2 {
        return;
    }
    for form in super::tars::SPARSE_FORMS {
        for (name, packer) in [("t.tar", &[][..]), ("t.tar.gz", &["-z"])] {
            run("tar", &[form, packer, &["--sparse", "-cf", name, "small", "long"]].concat(), dir.path());
            let out = dir.path().join("out");
            let summary = unpack(&dir.path().join(name), &out);
            assert!(summary.failures.is_empty(), "{summary:?}");
            for file in ["small", "long"] {
                let (before, after) = (dir.path().join(file), out.join(file));
                assert_eq!(fs::read(&after).unwrap(), fs::read(&before).unwrap(), "{form:?} {name} {file}");
                assert!(taken(&after) <= taken(&before) + 4096, "{form:?} {name} {file}: {}", taken(&after));
            }
            fs::remove_dir_all(&out).unwrap();
        }
    }
}

#[test]
fn a_zip_entry_that_contradicts_itself_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let script = "
import zipfile
z = zipfile.ZipFile('t.zip', 'w')
z.writestr('good', b'1' * 100)
z.writestr('dup_', b'2' * 100)
z.close()
b = open('t.zip', 'rb').read()
open('t.zip', 'wb').write(b.replace(b'dup_', b'dup/'))";
    run("python3", &["-c", script], dir.path());
    let (zip, out) = (dir.path().join("t.zip"), dir.path().join("out"));
    let summary = unpack(&zip, &out);
    assert_eq!((summary.files, summary.failures.len()), (1, 1), "{summary:?}");
    let said = summary.failures[0].error.to_string();
    assert!(summary.failures[0].key == b"dup" && said.contains("named like a directory"), "{said}");
    assert_eq!(files(&out), BTreeMap::from([("good".to_owned(), vec![b'1'; 100])]));
    // What is listed and what is imported agree.
    let again = dir.path().join("again");
    assert_eq!(through_a_pack(&zip, &dir.path().join("p"), &again), (1, 0));
    assert_eq!(files(&again), files(&out));
}

/// Before: every hard link counted as loaded, whatever it leads to.
#[test]
fn hard_links_to_no_file_fail_to_load_as_they_fail_to_be_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let (tar, gz) = (dir.path().join("t.tar"), dir.path().join("t.tar.gz"));
    let parts = [
        link(b"self", b'1', b"self"),
        member(b"file", b'0', b"data"),
        link(b"name", b'1', b"file"),
        link(b"dead", b'1', b"nothing"),
        end(),
    ];
    fs::write(&tar, parts.concat()).unwrap();
    run("sh", &["-c", "gzip -k t.tar"], dir.path());
    for path in [&tar, &gz] {
        let failed = Mutex::new(Vec::new());
        let note = |key: &[u8], _: &stook::archive::Error| failed.lock().unwrap().push(key.to_vec());
        let mut passed = |_, _| true;
        let archive = open(path).unwrap();
        let loaded = archive.load(&LoadOptions::default(), &LoadWatch::new(&mut passed, &note)).unwrap();
        assert_eq!((loaded.records, loaded.failures, loaded.undone), (2, 2, 2), "{loaded:?}");
        let summary = unpack(path, &dir.path().join("out"));
        let unpacked: BTreeSet<_> = summary.failures.iter().map(|failure| failure.key.clone()).collect();
        assert_eq!(BTreeSet::from_iter(failed.into_inner().unwrap()), unpacked);
    }
}

/// Before: no member of such a tar was read.
#[test]
fn a_time_or_an_owner_that_cannot_be_costs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (tar, out) = (dir.path().join("t.tar"), dir.path().join("out"));
    let odd = [("mtime", &b"1152921504606846976"[..]), ("uid", b"-2"), ("gid", b"99999999999999999999")];
    let parts = [
        pax(&odd),
        member(b"odd", b'0', b"odd"),
        pax(&[("mtime", b"-5.5"), ("uid", b"5"), ("gid", b"6")]),
        member(b"early", b'0', b"early"),
        pax(&[("mtime", b"no number")]),
        member(b"none", b'0', b"none"),
        end(),
    ];
    fs::write(&tar, parts.concat()).unwrap();
    let archive = open(&tar).unwrap();
    let said = |key: &str| {
        let node = archive.find(key.as_bytes()).unwrap().node;
        (node.mtime_ns, node.owner)
    };
    // A time that is too far away is the nearest, as that of a file.
    assert_eq!(said("odd"), (Some(i64::MAX), None));
    assert_eq!(said("early"), (Some(-5_500_000_000), Some((5, 6))));
    assert_eq!(said("none").0, None);
    let summary = unpack(&tar, &out);
    assert_eq!((summary.files, summary.failures.len()), (3, 0), "{summary:?}");
    assert_eq!(fs::metadata(out.join("early")).unwrap().mtime(), -6);
    let again = dir.path().join("again");
    assert_eq!(through_a_pack(&tar, &dir.path().join("p"), &again), (0, 0));
    assert_eq!(files(&again), files(&out));
}

/// Before: no member of such a tar was read.
#[test]
fn a_tar_member_that_is_named_like_a_directory_and_has_bytes_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (tar, out) = (dir.path().join("t.tar"), dir.path().join("out"));
    let parts = [
        member(b"first", b'0', &[b'1'; 700]),
        member(b"dup/", b'0', &[b'2'; 700]),
        link(b"name", b'1', b"dup"),
        // That is how directories were written before they had a type.
        member(b"old/", b'0', b""),
        member(b"old/last", b'0', &[b'3'; 700]),
        end(),
    ];
    fs::write(&tar, parts.concat()).unwrap();
    let summary = unpack(&tar, &out);
    let failed: Vec<_> = summary.failures.iter().map(|failure| failure.key.as_slice()).collect();
    assert_eq!((summary.files, failed), (2, vec![&b"dup"[..], b"name"]), "{summary:?}");
    let said = summary.failures[0].error.to_string();
    assert!(said.contains("dup is named like a directory"), "{said}");
    let whole = [("first".to_owned(), vec![b'1'; 700]), ("old/last".to_owned(), vec![b'3'; 700])];
    assert_eq!(files(&out), BTreeMap::from(whole.clone()));
    // What is listed, imported and read from a stream agrees.
    assert_eq!(open(&tar).unwrap().members(b"").count(), 5);
    let again = dir.path().join("again");
    assert_eq!(through_a_pack(&tar, &dir.path().join("p"), &again), (2, 0));
    assert_eq!(files(&again), BTreeMap::from(whole));
    let import = Import {
        group: "",
        with_owner: false,
        xattrs: true,
        checksum: false,
        keeps_moved: false,
        attributes: None,
        takes: Box::new(|_, _| true),
        progress: Box::new(|_, _| true),
    };
    let stream = Source::Stream(Box::new(|| tar_stream(Cursor::new(parts.concat()), "-")));
    let mut writer =
        open_writer(&dir.path().join("s"), WriterOptions::default(), Making::Always).unwrap().writer;
    let imported = import.run(vec![stream], Some(&mut writer), None).unwrap().summary;
    assert_eq!((imported.files, imported.failures.len()), (2, 2), "{imported:?}");
    assert!(writer.contains(&Key::bytes("old/last").unwrap()).unwrap());
    assert!(!writer.contains(&Key::bytes("dup").unwrap()).unwrap());
}
