//! What routes name, what counts, and what they meet.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use stook::copy::{Copy, CopySource, Destination};
use stook::engine::Backend;
use stook::source::Source as _;
use stook::stitch::{Error, UnusedRoute};
use stook::tree::{CaseRule, Kind, Tree as _};
use stook_testing::archives::{Directories, tar_of, zip_of};
use stook_testing::model::tree::TreeModel;

use super::{read, routed_over};
use crate::afs::written;

fn put(place: &Path, name: impl AsRef<Path>, bytes: &[u8]) {
    let path = place.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let model = files.iter().fold(TreeModel::new(), |model, (name, bytes)| model.file(name, bytes));
    tar_of(&model, Directories::Needed)
}

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let model = files.iter().fold(TreeModel::new(), |model, (name, bytes)| model.file(name, bytes));
    zip_of(&model, Directories::Needed, None)
}

/// A tree and folders of one test.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    fn folder(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("routes {number}"))
    }

    fn script(&self, script: &str) {
        let mut bash = Command::new("bash");
        let output = bash.args(["-euo", "pipefail", "-c", script]).current_dir(self.dir.path()).output();
        let output = output.unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&said));
    }
}

fn keys(unused: &[UnusedRoute]) -> Vec<&[u8]> {
    unused.iter().map(|one| &*one.key).collect()
}

#[test]
fn whole_names_are_compared_and_the_longer_path_and_the_later_folder_count_more() {
    let place = Place::new();
    let old = tar(&[("a", b"old"), ("b", b"old")]);
    for path in ["x.tar", "en/x.tar", "data/en/x.tar", "data/xx.tar"] {
        put(&place.tree(), path, &old);
    }
    put(&place.folder(0), "en/x.tar/a", b"longer");
    put(&place.folder(0), "x.tar/a", b"shorter");
    put(&place.folder(0), "n/x.tar/a", b"part of a name");
    put(&place.folder(1), "data/en/x.tar/b", b"later");
    let [first, second] = [place.folder(0), place.folder(1)];
    let routed = routed_over(&place.tree(), &[&first, &second], CaseRule::Exact).unwrap();
    let tree = routed.tree();
    let of = |a: &[u8], b: &[u8]| [("a", a.to_vec()), ("b", b.to_vec())];
    for (path, wanted) in [
        ("x.tar", of(b"shorter", b"old")),
        ("en/x.tar", of(b"longer", b"old")),
        ("data/en/x.tar", of(b"longer", b"later")),
        ("data/xx.tar", of(b"old", b"old")),
    ] {
        put(place.dir.path(), "got.tar", &read(&*tree, path).unwrap());
        place.script("rm -rf got; mkdir got; tar xf got.tar -C got");
        for (name, bytes) in wanted {
            assert_eq!(fs::read(place.dir.path().join("got").join(name)).unwrap(), bytes, "{path} {name}");
        }
    }
    assert_eq!(read(&*tree, "data/xx.tar").unwrap(), old);
    let unused = routed.unused();
    let wanted = UnusedRoute { folder: 0, key: b"n/x.tar/a".to_vec(), kind: Kind::File };
    assert_eq!(unused, [wanted]);
    let files: Vec<_> = routed.files().map(|file| (file.key, file.routes)).collect();
    assert_eq!(
        files[0],
        (
            b"data/en/x.tar".to_vec(),
            vec![first.join("x.tar"), first.join("en/x.tar"), second.join("data/en/x.tar"),]
        )
    );
    assert_eq!(files.len(), 3);
}

#[test]
fn a_zip_in_an_afs_in_a_tar_is_changed_and_everything_around_it_stays() {
    let place = Place::new();
    let inner = zip(&[("readme", b"old"), ("data/map", &[1; 3000]), ("gone", b"x")]);
    let afs =
        |zip: &[u8]| written(&[Some(b"zero".to_vec()), Some(zip.to_vec()), Some(b"two".to_vec())], None);
    let outer = tar(&[("before", &[2; 700]), ("s/Sound.afs", &afs(&inner)), ("z", b"after")]);
    put(&place.tree(), "g/outer.tar", &outer);
    put(&place.tree(), "g/plain", b"plain");
    put(&place.folder(0), "outer.tar/s/Sound.afs/00001_x.zip/readme", b"new, and longer");
    put(&place.folder(0), "outer.tar/s/Sound.afs/00001_x.zip/gone.del", b"");
    put(&place.folder(1), "outer.tar/s/Sound.afs/1/added", b"added");
    put(&place.folder(1), "outer.tar/s/Sound.afs/2.del", b"");
    put(&place.folder(1), "outer.tar/z", b"later");
    let routed = routed_over(&place.tree(), &[&place.folder(0), &place.folder(1)], CaseRule::Exact).unwrap();
    let got = read(&*routed.tree(), "g/outer.tar").unwrap();
    assert!(routed.unused().is_empty());
    put(place.dir.path(), "got.tar", &got);
    place.script("mkdir got; tar xf got.tar -C got; test $(tar tf got.tar | wc -l) = 3");
    let at = |name: &str| fs::read(place.dir.path().join("got").join(name)).unwrap();
    assert_eq!((at("before"), at("z")), (vec![2; 700], b"later".to_vec()));
    let sound = at("s/Sound.afs");
    let len = u32::from_le_bytes(sound[20..24].try_into().unwrap()) as usize;
    put(place.dir.path(), "x.zip", &sound[4096..4096 + len]);
    place.script(
        "unzip -tq x.zip; unzip -q x.zip -d zip; test \"$(cat zip/readme)\" = 'new, and longer'
         test \"$(cat zip/added)\" = added; test ! -e zip/gone; test $(stat -c %s zip/data/map) = 3000",
    );
    // Byte for byte what is made of whole files: the AFS of this zip, without its member 2.
    let zip = sound[4096..4096 + len].to_vec();
    assert_eq!(sound, written(&[Some(b"zero".to_vec()), Some(zip), None], None));
    let first = outer.windows(11).position(|name| name == b"s/Sound.afs").unwrap();
    assert!(first > 1024 && got[..first] == outer[..first], "what is before it is the original's");
    // All at once, as a copy of it, is the same.
    let copied = place.dir.path().join("copied");
    let source = CopySource::tree(routed.tree(), "tree");
    Copy::new(vec![source], vec![Destination::new(copied.clone())]).run(&mut ()).unwrap();
    assert_eq!(fs::read(copied.join("g/outer.tar")).unwrap(), got);
    assert_eq!(fs::read(copied.join("g/plain")).unwrap(), b"plain");
}

#[test]
fn a_later_folder_replaces_or_deletes_what_was_changed_until_then() {
    let place = Place::new();
    let inner = |text: &[u8]| zip(&[("a", text), ("b", b"b")]);
    put(&place.tree(), "x.tar", &tar(&[("in.zip", &inner(b"old")), ("other", b"")]));
    put(&place.folder(0), "x.tar/in.zip/b", b"lost with what it is in");
    put(&place.folder(1), "x.tar/in.zip", &inner(b"another"));
    put(&place.folder(2), "x.tar/in.zip/c", b"in the new one");
    put(&place.folder(3), "x.tar/in.zip.del", b"");
    let paths: Vec<PathBuf> = (0..4).map(|at| place.folder(at)).collect();
    let of = |count: usize| {
        let paths: Vec<&Path> = paths[..count].iter().map(PathBuf::as_path).collect();
        let routed = routed_over(&place.tree(), &paths, CaseRule::Exact).unwrap();
        put(place.dir.path(), "got.tar", &read(&*routed.tree(), "x.tar").unwrap());
        place.script("rm -rf got zip; mkdir got; tar xf got.tar -C got");
        assert!(routed.unused().is_empty());
        if place.dir.path().join("got/in.zip").exists() {
            place.script("unzip -tq got/in.zip; unzip -q got/in.zip -d zip");
        }
        let file = |name: &str| fs::read_to_string(place.dir.path().join("zip").join(name)).ok();
        [file("a"), file("b"), file("c")].map(Option::unwrap_or_default)
    };
    assert_eq!(of(1), ["old", "lost with what it is in", ""]);
    assert_eq!(of(2), ["another", "b", ""]);
    assert_eq!(of(3), ["another", "b", "in the new one"]);
    assert_eq!(of(4), ["", "", ""]);
}

#[test]
fn case_is_a_rule_and_names_that_become_one_are_refused() {
    let place = Place::new();
    let old = written(&[Some(b"zero".to_vec()), Some(b"one".to_vec())], None);
    put(&place.tree(), "Game/Sound.AFS", &old);
    put(&place.folder(0), "GAME/sound.afs/00001.adx", b"new");
    let exact = routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Exact).unwrap();
    assert_eq!(keys(&exact.unused()), [&b"GAME/sound.afs/00001.adx"[..]]);
    assert_eq!(read(&*exact.tree(), "Game/Sound.AFS").unwrap(), old);
    let ignored = routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Ignored).unwrap();
    assert!(ignored.unused().is_empty());
    let new = written(&[Some(b"zero".to_vec()), Some(b"new".to_vec())], None);
    assert_eq!(read(&*ignored.tree(), "Game/Sound.AFS").unwrap(), new);
    put(&place.folder(0), "game/other/1", b"");
    let refused = routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Ignored).unwrap_err();
    let said = refused.to_string();
    assert!(matches!(refused, Error::Change { .. }), "{said}");
    assert!(said.contains("game") && said.contains("GAME") && said.contains("case"), "{said}");
    assert!(routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Exact).is_ok());
}

#[test]
fn names_of_any_bytes_are_names() {
    let place = Place::new();
    let odd = |name: &[u8]| OsStr::from_bytes(name).to_owned();
    let old = written(&[Some(b"zero".to_vec())], None);
    fs::create_dir_all(place.tree().join(odd(b"d\xff"))).unwrap();
    fs::write(place.tree().join(odd(b"d\xff")).join(odd(b"\xfe.afs")), &old).unwrap();
    let route = place.folder(0).join(odd(b"d\xff")).join(odd(b"\xfe.afs"));
    fs::create_dir_all(&route).unwrap();
    fs::write(route.join(odd(b"0_\xfd")), b"new").unwrap();
    for case in [CaseRule::Exact, CaseRule::Ignored] {
        let routed = routed_over(&place.tree(), &[&place.folder(0)], case).unwrap();
        assert!(routed.unused().is_empty());
        let laid = routed.laid(0).unwrap().unwrap();
        assert_eq!(laid.file.len(), old.len() as u64);
        let bytes = super::all_of(&laid.file);
        assert_eq!(bytes, written(&[Some(b"new".to_vec())], None));
    }
}

#[test]
fn links_and_pipes_in_folders_are_not_followed_and_are_named() {
    let place = Place::new();
    put(&place.tree(), "s/x.tar", &tar(&[("a", b"old")]));
    put(&place.tree(), "y.tar", &tar(&[("a", b"old")]));
    symlink("y.tar", place.tree().join("link.tar")).unwrap();
    symlink(".", place.tree().join("loop")).unwrap();
    put(&place.folder(0), "s/x.tar/a", b"new");
    put(&place.folder(0), "link.tar/a", b"not through a link of the tree");
    // A loop, and a link to a folder which has the name of an archive.
    symlink("..", place.folder(0).join("s/up")).unwrap();
    symlink("s/x.tar", place.folder(0).join("y.tar")).unwrap();
    let pipe = place.folder(0).join("s/x.tar/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let routed = routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Exact).unwrap();
    let mut unused = routed.unused();
    unused.sort_by(|one, other| one.key.cmp(&other.key));
    let kinds: Vec<(&[u8], Kind)> = unused.iter().map(|one| (&*one.key, one.kind)).collect();
    let wanted = [
        (&b"link.tar/a"[..], Kind::File),
        (b"s/up", Kind::Symlink),
        (b"s/x.tar/pipe", Kind::Fifo),
        (b"y.tar", Kind::Symlink),
    ];
    assert_eq!(kinds, wanted);
    let before = fs::read(place.tree().join("y.tar")).unwrap();
    assert_eq!(read(&*routed.tree(), "y.tar").unwrap(), before);
    assert!(read(&*routed.tree(), "s/x.tar").unwrap().windows(3).any(|three| three == b"new"));
    // As a member a link is refused: that archive is an error, and no other file is.
    symlink(".", place.folder(0).join("s/x.tar/sub")).unwrap();
    let routed = routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Exact).unwrap();
    let said = stook::error::chain(&read(&*routed.tree(), "s/x.tar").unwrap_err());
    assert!(said.contains("/s/x.tar") && said.contains("sub: it is a link"), "{said}");
    assert_eq!(read(&*routed.tree(), "y.tar").unwrap(), before);
}

#[test]
fn a_damaged_archive_costs_only_itself_and_what_is_no_archive_stays() {
    let place = Place::new();
    let whole = tar(&[("a", &[7; 2000]), ("b", b"b")]);
    put(&place.tree(), "cut/x.tar", &whole[..1800]);
    put(&place.tree(), "whole/x.tar", &whole);
    put(&place.tree(), "text/x.tar", b"a text with such a name");
    put(&place.tree(), "gz/x.tar", &[&[0x1f, 0x8b][..], &[8; 600]].concat());
    put(&place.tree(), "other", b"other");
    put(&place.folder(0), "x.tar/b", b"new");
    put(&place.folder(0), "text/x.tar/c", b"for what is no archive");
    let routed = routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Exact).unwrap();
    let tree = routed.tree();
    for (path, what) in [("cut/x.tar", "past the end"), ("gz/x.tar", "compressed as a whole (gzip)")] {
        let id = tree.find(path.as_bytes()).unwrap().unwrap();
        for error in [tree.node(id).unwrap_err(), read(&*tree, path).unwrap_err()] {
            let said = stook::error::chain(&error);
            assert!(said.contains(path) && said.contains(what), "{said}");
        }
    }
    assert_eq!(read(&*tree, "text/x.tar").unwrap(), b"a text with such a name");
    assert_eq!(read(&*tree, "other").unwrap(), b"other");
    assert!(read(&*tree, "whole/x.tar").unwrap().windows(3).any(|bytes| bytes == b"new"));
    assert_eq!(keys(&routed.unused()), [&b"text/x.tar/c"[..]]);
    assert!(routed.laid(2).unwrap().is_none(), "a text");
    // A copy has everything else.
    let copied = place.dir.path().join("copied");
    let source = CopySource::tree(tree, "tree");
    let report = Copy::new(vec![source], vec![Destination::new(copied.clone())]).run(&mut ()).unwrap();
    assert_eq!(report.undone(), 2);
    assert!(copied.join("whole/x.tar").exists() && !copied.join("cut/x.tar").exists());
}

#[test]
fn an_archive_or_a_file_that_changes_is_an_error_that_names_it() {
    for what in ["tree/x.tar", "routes 0/x.tar/b", "routes 0/x.tar/in.zip"] {
        for is_laid_before in [false, true] {
            let place = Place::new();
            put(&place.tree(), "x.tar", &tar(&[("a", &[7; 200_000]), ("in.zip", &zip(&[("c", b"c")]))]));
            put(&place.folder(0), "x.tar/b", &[1; 100_000]);
            put(&place.folder(0), "x.tar/in.zip", &zip(&[("c", &[3; 1000])]));
            put(&place.folder(1), "x.tar/in.zip/d", b"d");
            let [one, two] = [place.folder(0), place.folder(1)];
            let routed = routed_over(&place.tree(), &[&one, &two], CaseRule::Exact).unwrap();
            let tree = routed.tree();
            let before = read(&*tree, "x.tar").unwrap();
            // Laid out again, or still.
            let laid = is_laid_before.then(|| routed.laid(0).unwrap().unwrap());
            let path = place.dir.path().join(what);
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
            fs::write(&path, bytes).unwrap();
            let read = match &laid {
                Some(laid) => super::super::read_through(&laid.file).map_err(|error| error.to_string()),
                None => read(&*tree, "x.tar").map_err(|error| stook::error::chain(&error)),
            };
            let said = match read {
                Ok(read) => panic!("{what}: {} bytes, the same: {}", read.len(), read == before),
                Err(said) => said,
            };
            assert!(said.contains(what) && said.contains("changed"), "{what}: {said}");
        }
    }
}

#[test]
fn members_that_are_compressed_or_damaged_are_refused_where_they_would_be_changed() {
    let place = Place::new();
    let deflate = |bytes: &[u8]| {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let inner = tar(&[("a", b"old"), ("keep", b"kept")]);
    let model = TreeModel::new().file("in.tar", &inner);
    put(&place.tree(), "c/x.zip", &zip_of(&model, Directories::Needed, Some(&deflate)));
    let mut damaged = zip_of(&model, Directories::Needed, None);
    let at = damaged.windows(4).position(|four| four == b"kept").unwrap();
    damaged[at] = b'K';
    put(&place.tree(), "d/x.zip", &damaged);
    put(&place.folder(0), "x.zip/in.tar/a", b"new");
    let routed = routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Exact).unwrap();
    for (path, what) in [("c/x.zip", "in.tar: it is compressed"), ("d/x.zip", "CRC-32")] {
        let said = stook::error::chain(&read(&*routed.tree(), path).unwrap_err());
        assert!(said.contains(path) && said.contains("in.tar") && said.contains(what), "{said}");
    }
}

#[test]
fn archives_lie_in_one_another_as_deep_as_is_said_and_no_deeper() {
    let place = Place::new();
    let nested =
        |depth: usize| (1..depth).fold(tar(&[("a", b"innermost")]), |inner, _| tar(&[("t", &inner)]));
    put(&place.tree(), "x.tar", &nested(64));
    put(&place.tree(), "y.tar", &nested(65));
    put(&place.folder(0), format!("x.tar/{}a", "t/".repeat(63)), b"another");
    put(&place.folder(0), format!("y.tar/{}a", "t/".repeat(64)), b"another");
    let routed = routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Exact).unwrap();
    let got = read(&*routed.tree(), "x.tar").unwrap();
    assert!(got.windows(7).any(|bytes| bytes == b"another"));
    let said = stook::error::chain(&read(&*routed.tree(), "y.tar").unwrap_err());
    assert!(said.contains("more than 64 archives"), "{said}");
}

#[test]
fn a_changed_file_has_what_the_archive_has_and_the_newest_time() {
    let place = Place::new();
    let old = tar(&[("a", b"old")]);
    put(&place.tree(), "d/x.tar", &old);
    let path = place.tree().join("d/x.tar");
    fs::hard_link(&path, place.tree().join("d/y.tar")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    put(&place.folder(0), "x.tar/a", b"new");
    let time = UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let file = File::options().write(true).open(place.folder(0).join("x.tar/a")).unwrap();
    file.set_modified(time).unwrap();
    let routed = routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Exact).unwrap();
    let tree = routed.tree();
    let node = |path: &str| tree.node(tree.find(path.as_bytes()).unwrap().unwrap()).unwrap();
    let changed = node("d/x.tar");
    let meta = path.metadata().unwrap();
    assert_eq!((changed.mode, changed.owner), (Some(0o640), Some((meta.uid(), meta.gid()))));
    assert_eq!((changed.mtime_ns, changed.links), (Some(4_000_000_000 * 1_000_000_000), 1));
    // The other name of the archive is not that of a changed file.
    assert_eq!(read(&*tree, "d/y.tar").unwrap(), old);
    assert_ne!(read(&*tree, "d/x.tar").unwrap(), old);
    assert_eq!(node("d").mode, Some(place.tree().join("d").metadata().unwrap().mode() & 0o7777));
}

#[test]
fn a_changed_member_keeps_its_mode_and_its_owner() {
    let place = Place::new();
    place.script(
        "mkdir -p tree 'routes 0/x.tar/in.zip' 'routes 0/y.zip/in.tar'; echo a > a; zip -q0 in.zip a
        tar cf in.tar a; chmod 4711 in.zip; chmod 600 in.tar; zip -q0 tree/y.zip in.tar
        tar --format=pax --owner=nobody:3000000 --group=some:7 -cf tree/x.tar in.zip
        echo new > 'routes 0/x.tar/in.zip/b'; echo new > 'routes 0/y.zip/in.tar/b'",
    );
    let routed = routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Exact).unwrap();
    for name in ["x.tar", "y.zip"] {
        fs::write(place.dir.path().join(name), read(&*routed.tree(), name).unwrap()).unwrap();
    }
    place.script(
        "tar --numeric-owner -tvf x.tar | grep -E '^-rws--x--x 3000000/7 .* in.zip$'
        zipinfo y.zip in.tar | grep '^-rw-------'",
    );
}

#[test]
fn many_archives_are_read_in_one_pass() {
    let place = Place::new();
    let old = written(&[Some(b"zero".to_vec()), Some(b"one".to_vec())], None);
    let new = written(&[Some(b"new".to_vec()), Some(b"one".to_vec())], None);
    for number in 0..1500 {
        put(&place.tree(), format!("{number}/x.afs"), &old);
    }
    put(&place.folder(0), "x.afs/0", b"new");
    let routed = routed_over(&place.tree(), &[&place.folder(0)], CaseRule::Exact).unwrap();
    let tree = routed.tree();
    let ids: Vec<_> =
        (0..1500).map(|number| tree.find(format!("{number}/x.afs").as_bytes()).unwrap().unwrap()).collect();
    let mut seen = vec![Vec::new(); ids.len()];
    tree.gather(&ids, &Backend::Threads, &Default::default(), &mut |gathered| {
        seen[gathered.index].extend_from_slice(&gathered.result.unwrap().bytes);
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert!(seen.iter().all(|bytes| *bytes == new));
}

#[test]
fn the_caller_may_end_it() {
    let place = Place::new();
    for number in 0..1100 {
        put(&place.tree(), number.to_string(), b"");
    }
    fs::create_dir(place.folder(0)).unwrap();
    let tree = || std::sync::Arc::new(stook::walk::DirectoryTree::open(place.tree()).unwrap());
    let of = |go_on: bool| {
        stook::stitch::Routes::of([super::folder(&place.folder(0))], CaseRule::Exact, &mut |_| go_on)
    };
    assert!(matches!(of(false), Err(Error::Interrupted)));
    let ended = stook::stitch::routed(tree(), of(true).unwrap(), &mut |_| false);
    assert!(matches!(ended, Err(Error::Interrupted)));
}
