//! Extended attributes: from trees into packs and tars and out again, compared with what Python and
//! GNU tar say.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{XattrFlags, lgetxattr, removexattr, setxattr};
use stook::archive::{self, Archive};
use stook::ops::export::Export;
use stook::ops::pack::{PackReport, PackSources};
use stook::ops::unpack::{Packed, PathFilter, Unpack, Unpacked};
use stook::pack::{Key, OpenOptions, Pack};
use stook::tree::{Overwrite, XATTRS_LEN_MAX, Xattrs};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Prints every extended attribute below a directory, but for what the system gives to every file.
const LIST: &str = r#"
import os, sys
for folder, folders, files in os.walk(sys.argv[1]):
    for name in [".", *folders, *files]:
        path = os.path.join(folder, name)
        if name == "." and folder != sys.argv[1]:
            continue
        for xattr in os.listxattr(path, follow_symlinks=False):
            if xattr != "security.selinux":
                value = os.getxattr(path, xattr, follow_symlinks=False)
                print(os.path.relpath(path, sys.argv[1]), os.fsencode(xattr).hex(), value.hex())
"#;

/// A list: the owner, user 1234, the group, the mask, and the others.
fn list(user: u16) -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    let nobody = u32::MAX;
    for (tag, rights, id) in
        [(1_u16, 6, nobody), (2, user, 1234), (4, 0, nobody), (16, 6, nobody), (32, 0, nobody)]
    {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    list
}

fn set(path: impl AsRef<Path>, name: &str, value: &[u8]) {
    setxattr(path.as_ref(), name, value, XattrFlags::empty()).unwrap();
}

fn get(path: impl AsRef<Path>, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 65_536];
    let len = lgetxattr(path.as_ref(), name, value.as_mut_slice()).ok()?;
    value.truncate(len);
    Some(value)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn run(program: &str, args: &[&str], folder: &Path) -> String {
    let output = Command::new(program).args(args).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What Python lists, sorted.
fn listed(root: &Path) -> Vec<String> {
    let text = run("python3", &["-c", LIST, root.to_str().unwrap()], root);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(place.path("tree/labelled")).unwrap();
        place
    }

    /// With files, a directory and names that have all that there is.
    fn filled() -> Self {
        let place = Self::new();
        for (name, len) in [("plain", 3), ("noted", 10), ("listed", 5), ("long", 3 << 20), ("labelled/in", 1)]
        {
            fs::write(place.path("tree").join(name), vec![b'x'; len]).unwrap();
        }
        fs::hard_link(place.path("tree/noted"), place.path("tree/other name")).unwrap();
        symlink("noted", place.path("tree/link")).unwrap();
        set(place.path("tree/noted"), "user.comment", b"dear \0 \xff\n");
        set(place.path("tree/noted"), "user.a=b%c", b"");
        set(place.path("tree/long"), "user.comment", b"long");
        set(place.path("tree/labelled"), "user.label", b"of a directory");
        set(place.path("tree/labelled"), DEFAULT, &list(6));
        set(place.path("tree/listed"), ACCESS, &list(4));
        if is_root() {
            let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            // Root of a container may not be root of the file system.
            for (name, value) in [("security.capability", &capability[..]), ("trusted.note", &b"of root"[..])]
            {
                let _ = setxattr(place.path("tree/plain"), name, value, XattrFlags::empty());
            }
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn packing<'a>(&self) -> PackSources<'a> {
        PackSources::new(vec![self.path("tree")], self.path("p.stook"))
    }

    fn pack(&self) -> PackReport {
        self.packing().run(&mut ()).unwrap()
    }

    fn open(&self, name: &str) -> Pack {
        Pack::open_path(self.path(name), OpenOptions::default()).unwrap()
    }

    fn unpacking(&self, target: &str) -> Unpack<'static> {
        Unpack {
            target: self.path(target),
            filter: PathFilter::default(),
            overwrite: Overwrite::Never,
            with_owner: true,
            xattrs: true,
            threads: 2,
            durability: Default::default(),
            force: false,
        }
    }

    fn unpack(&self, name: &str, target: &str) -> Unpacked {
        self.unpacking(target).run(Packed::Pack(&self.open(name)), &mut |_| true).unwrap()
    }

    fn export(&self, tar: &str) -> Unpacked {
        Export::default().run_to_file(&self.open("p.stook"), &self.path(tar), &mut |_, _| true).unwrap()
    }
}

#[test]
fn a_pack_gives_back_what_the_tree_had() {
    let place = Place::filled();
    let packed = place.pack().summary;
    assert!(packed.lost_xattrs.is_empty() && packed.failures.is_empty(), "{packed:?}");
    let unpacked = place.unpack("p.stook", "out");
    assert_eq!((unpacked.undone, unpacked.summary.unset_xattrs.entries), (0, 0), "{unpacked:?}");
    let wanted = listed(&place.path("tree"));
    assert!(wanted.len() >= 6, "{wanted:?}");
    assert_eq!(listed(&place.path("out")), wanted);
    assert_eq!(get(place.path("out/other name"), "user.a=b%c"), Some(Vec::new()));
    let again = place.pack().summary;
    assert_eq!((again.added(), again.replaced), (0, 0), "{again:?}");
}

#[test]
fn what_changes_only_there_is_packed_again() {
    let place = Place::filled();
    place.pack();
    set(place.path("tree/listed"), ACCESS, &list(6));
    set(place.path("tree/labelled"), "user.label", b"changed");
    removexattr(place.path("tree/long"), "user.comment").unwrap();
    let changed = place.pack().summary;
    assert_eq!((changed.files, changed.directories, changed.replaced), (2, 1, 3), "{changed:?}");
    place.unpack("p.stook", "out");
    assert_eq!(listed(&place.path("out")), listed(&place.path("tree")));
    // A copy of the tree has other inodes: everything is compared, and the same.
    run("cp", &["-a", "tree", "copy"], place.0.path());
    assert_eq!(listed(&place.path("copy")), listed(&place.path("tree")));
    fs::rename(place.path("tree"), place.path("before")).unwrap();
    fs::rename(place.path("copy"), place.path("tree")).unwrap();
    let same = place.pack().summary;
    assert_eq!((same.added(), same.failures.len()), (0, 0), "{same:?}");
}

#[test]
fn they_are_left_out_where_that_is_asked_for() {
    let place = Place::filled();
    PackSources { xattrs: false, ..place.packing() }.run(&mut ()).unwrap();
    place.unpack("p.stook", "bare");
    assert_eq!(listed(&place.path("bare")), Vec::<String>::new());
    let with = PackSources { pack: place.path("q.stook"), ..place.packing() };
    with.run(&mut ()).unwrap();
    let without = Unpack { xattrs: false, ..place.unpacking("out") };
    let unpacked = without.run(Packed::Pack(&place.open("q.stook")), &mut |_| true).unwrap();
    assert_eq!((unpacked.undone, listed(&place.path("out"))), (0, Vec::new()));
    // Without its list the group does not get the rights of the mask.
    let mode = |path: &str| fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("tree/listed"), mode("out/listed")), (0o660, 0o600));
    let tar = Export { xattrs: false, ..Export::default() };
    tar.run_to_file(&place.open("q.stook"), &place.path("t.tar"), &mut |_, _| true).unwrap();
    let said = fs::read(place.path("t.tar")).unwrap();
    assert!(!said.windows(6).any(|part| part == b"SCHILY"));
}

#[test]
fn what_grants_rights_is_set_only_where_owners_are_restored() {
    let place = Place::filled();
    if get(place.path("tree/plain"), "security.capability").is_none() {
        return;
    }
    place.pack();
    let unpack = Unpack { with_owner: false, ..place.unpacking("out") };
    let unpacked = unpack.run(Packed::Pack(&place.open("p.stook")), &mut |_| true).unwrap();
    assert_eq!(unpacked.undone, 0, "{unpacked:?}");
    assert_eq!(get(place.path("out/plain"), "security.capability"), None);
    assert_eq!(get(place.path("out/plain"), "trusted.note"), None);
    assert_eq!(get(place.path("out/long"), "user.comment").as_deref(), Some(&b"long"[..]));
    place.unpack("p.stook", "whole");
    assert!(get(place.path("whole/plain"), "security.capability").is_some());
}

#[test]
fn gnu_tar_and_python_read_what_is_exported() {
    let place = Place::filled();
    place.pack();
    assert_eq!(place.export("t.tar").undone, 0);
    fs::create_dir(place.path("gnu")).unwrap();
    let args = ["--xattrs", "--xattrs-include=*", "--acls", "-xpf", "t.tar", "-C", "gnu"];
    run("tar", &args, place.0.path());
    assert_eq!(listed(&place.path("gnu")), listed(&place.path("tree")));
    let script = "import tarfile
for member in tarfile.open('t.tar'):
    for key, value in sorted(member.pax_headers.items()):
        if key.startswith('SCHILY'):
            print(member.name, key, value.encode('utf-8', 'surrogateescape').hex())";
    let said = run("python3", &["-c", script], place.0.path());
    let comment: String = b"dear \0 \xff\n".iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(said.contains(&format!("noted SCHILY.xattr.user.comment {comment}\n")), "{said}");
    let text = "user::rw-,user:1234:r--,group::---,mask::rw-,other::---";
    let text: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(said.contains(&format!("listed SCHILY.acl.access {text}\n")), "{said}");
}

#[test]
fn what_gnu_tar_writes_is_imported_and_unpacked() {
    let place = Place::filled();
    let args = ["--format=pax", "--xattrs", "--acls", "-cf", "t.tar", "-C", "tree", "."];
    run("tar", &args, place.0.path());
    let wanted = listed(&place.path("tree"));
    let archive = Archive::open(place.path("t.tar"), archive::OpenOptions::default()).unwrap();
    let unpacked = place.unpacking("out").run(Packed::Archive(&archive), &mut |_| true).unwrap();
    assert_eq!(unpacked.undone, 0, "{unpacked:?}");
    assert_eq!(listed(&place.path("out")), wanted);
    // Once more by the index beside it, compressed, and from a stream.
    run("gzip", &["-k", "t.tar"], place.0.path());
    let tar = place.path("t.tar");
    for (at, source) in ["t.tar", "t.tar.gz", "-"].into_iter().enumerate() {
        let tar = tar.clone();
        let name = if source == "-" { PathBuf::from("-") } else { place.path(source) };
        let import = PackSources {
            stream: Some(Box::new(move || {
                let opened = fs::File::open(&tar).map_err(|error| stook::Error::io("open", &tar, error))?;
                let reader: Box<dyn std::io::BufRead + Send> = Box::new(std::io::BufReader::new(opened));
                Ok(reader)
            })),
            ..PackSources::new(vec![name], place.path(&format!("{at}.stook")))
        };
        let imported = import.run(&mut ()).unwrap().summary;
        assert!(imported.failures.is_empty() && imported.lost_xattrs.is_empty(), "{source}: {imported:?}");
        assert_eq!(import.run(&mut ()).unwrap().summary.added(), 0, "{source}: nothing changed");
        let target = format!("of {at}");
        assert_eq!(place.unpack(&format!("{at}.stook"), &target).undone, 0);
        assert_eq!(listed(&place.path(&target)), wanted, "{source}");
    }
}

#[test]
fn an_archive_says_by_name_what_cannot_be_taken_from_it() {
    let place = Place::new();
    let script = "import tarfile, io
with tarfile.open('t.tar', 'w', format=tarfile.PAX_FORMAT) as tar:
    for name, headers in [
        ('named', {'SCHILY.acl.access': 'user::rw-,user:ann:r--,group::r--,mask::r--,other::---'}),
        ('huge', {'SCHILY.xattr.user.huge': 'x' * 70000, 'SCHILY.xattr.user.small': 'y'}),
        ('coded', {'LIBARCHIVE.xattr.user.a%20b': 'aGVsbG8', 'LIBARCHIVE.xattr.user.bad': '*'}),
        ('many', {'SCHILY.xattr.user.%03d' % at: str(at) for at in range(300)}),
    ]:
        member = tarfile.TarInfo(name)
        member.pax_headers = headers
        tar.addfile(member, io.BytesIO())";
    run("python3", &["-c", script], place.0.path());
    let import = PackSources::new(vec![place.path("t.tar")], place.path("p.stook"));
    let imported = import.run(&mut ()).unwrap().summary;
    let lost: BTreeMap<_, _> = imported.lost_xattrs.iter().cloned().collect();
    let wanted = [("named", ACCESS), ("huge", "user.huge"), ("coded", "user.bad")];
    let wanted = wanted.map(|(key, name)| (key.as_bytes().to_vec(), name.to_owned()));
    assert_eq!((lost, imported.failures.len()), (BTreeMap::from(wanted), 0));
    let pack = place.open("p.stook");
    let xattrs = |key: &str| pack.get(&Key::bytes(key).unwrap()).unwrap().unwrap().head.attributes.xattrs();
    assert_eq!(xattrs("coded").get(b"user.a b"), Some(&b"hello"[..]));
    assert_eq!(xattrs("huge").get(b"user.small"), Some(&b"y"[..]));
    assert_eq!(xattrs("many").as_slice().len(), 300);
    let archive = Archive::open(place.path("t.tar"), archive::OpenOptions::default()).unwrap();
    let of_archive = |key: &str| Xattrs::decode(archive.find(key.as_bytes()).unwrap().xattrs);
    assert_eq!(of_archive("many"), xattrs("many"));
    let without = PackSources { xattrs: false, ..import };
    assert_eq!(without.run(&mut ()).unwrap().summary.added(), 0, "what is unchanged keeps what it has");
    // A tar that is there is not replaced by one that lacks some.
    fs::write(place.path("u.tar"), b"old").unwrap();
    let kept = place.export("u.tar").summary;
    assert_eq!((kept.kept.len(), kept.unset_xattrs.entries), (1, 3), "{kept:?}");
    assert_eq!(fs::read(place.path("u.tar")).unwrap(), b"old");
    let forced = Export { force: true, ..Export::default() };
    forced.run_to_file(&place.open("p.stook"), &place.path("u.tar"), &mut |_, _| true).unwrap();
    assert_ne!(fs::read(place.path("u.tar")).unwrap(), b"old");
}

#[test]
fn what_macos_writes_is_carried_and_no_loss_where_it_cannot_be_set() {
    let place = Place::new();
    let script = "import tarfile, io
with tarfile.open('t.tar', 'w', format=tarfile.PAX_FORMAT) as tar:
    member = tarfile.TarInfo('a')
    member.pax_headers = {
        'SCHILY.xattr.com.apple.quarantine': '0081',
        'LIBARCHIVE.xattr.com.apple.odd': '*',
        'SCHILY.xattr.user.note': 'dear',
    }
    tar.addfile(member, io.BytesIO())";
    run("python3", &["-c", script], place.0.path());
    let archive = Archive::open(place.path("t.tar"), archive::OpenOptions::default()).unwrap();
    let unpacked = place.unpacking("out").run(Packed::Archive(&archive), &mut |_| true).unwrap();
    let unset = &unpacked.summary.unset_xattrs;
    assert_eq!((unpacked.undone, unset.entries, unset.foreign), (0, 0, 1), "{unpacked:?}");
    assert_eq!(get(place.path("out/a"), "user.note").as_deref(), Some(&b"dear"[..]));
    // A pack that should contain all of them reports the missing ones.
    let import = PackSources::new(vec![place.path("t.tar")], place.path("p.stook"));
    let imported = import.run(&mut ()).unwrap().summary;
    assert_eq!(imported.lost_xattrs, [(b"a".to_vec(), "com.apple.odd".to_owned())]);
    let unpacked = place.unpack("p.stook", "of a pack");
    assert_eq!((unpacked.undone, unpacked.summary.unset_xattrs.foreign), (0, 1), "{unpacked:?}");
    let forced = Export { force: true, ..Export::default() };
    forced.run_to_file(&place.open("p.stook"), &place.path("u.tar"), &mut |_, _| true).unwrap();
    let again = Archive::open(place.path("u.tar"), archive::OpenOptions::default()).unwrap();
    let xattrs = Xattrs::decode(again.find(b"a").unwrap().xattrs);
    assert_eq!(xattrs.get(b"com.apple.quarantine"), Some(&b"0081"[..]));
}

#[test]
fn values_that_are_too_long_are_reported_by_name_and_the_rest_is_kept() {
    // The file system of most temporary directories takes no long ones; memory does.
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let (tree, long) = (memory.path().join("tree"), memory.path().join("tree/long"));
    fs::create_dir(&tree).unwrap();
    fs::write(&long, b"x").unwrap();
    if setxattr(&long, "user.huge", &[7; XATTRS_LEN_MAX], XattrFlags::empty()).is_err() {
        return;
    }
    set(&long, "user.large", &[8; 30_000]);
    for at in 0..300 {
        set(&long, &format!("user.n{at:03}"), b"small");
    }
    let pack = memory.path().join("p.stook");
    let packing = PackSources::new(vec![tree], pack.clone());
    let packed = packing.run(&mut ()).unwrap().summary;
    assert_eq!(packed.lost_xattrs, [(b"long".to_vec(), "user.huge".to_owned())], "{packed:?}");
    let opened = Pack::open_path(&pack, OpenOptions::default()).unwrap();
    let unpack = Unpack {
        target: memory.path().join("out"),
        filter: PathFilter::default(),
        overwrite: Overwrite::Never,
        with_owner: true,
        xattrs: true,
        threads: 1,
        durability: Default::default(),
        force: false,
    };
    let unpacked = unpack.run(Packed::Pack(&opened), &mut |_| true).unwrap();
    assert_eq!((unpacked.undone, unpacked.summary.unset_xattrs.entries), (1, 1), "{unpacked:?}");
    assert!(unpacked.summary.unset_xattrs.first.unwrap().1.contains("user.huge"));
    let out = memory.path().join("out/long");
    assert_eq!(get(&out, "user.large"), Some(vec![8; 30_000]));
    assert_eq!((get(&out, "user.n299"), get(&out, "user.huge")), (Some(b"small".to_vec()), None));
    // What a pack does not hold whole is not removed.
    let moving = PackSources { move_originals: true, ..packing };
    let moved = moving.run(&mut ()).unwrap();
    assert!(long.exists() && moved.summary.failures.len() == 1, "{moved:?}");
}

/// What a directory hands on to what is made in it, without a right of its own for anybody.
fn hand_on(directory: &Path) -> bool {
    fs::create_dir_all(directory).unwrap();
    setxattr(directory, DEFAULT, &list(6), XattrFlags::empty()).is_ok()
}

#[test]
fn what_a_directory_hands_on_is_no_right_that_was_recorded() {
    let place = Place::new();
    fs::write(place.path("tree/plain"), b"x").unwrap();
    fs::write(place.path("tree/labelled/in"), b"y").unwrap();
    fs::write(place.path("tree/listed"), b"z").unwrap();
    set(place.path("tree/listed"), ACCESS, &list(4));
    fs::hard_link(place.path("tree/plain"), place.path("tree/other name")).unwrap();
    run("tar", &["--format=pax", "--xattrs", "--acls", "-cf", "t.tar", "-C", "tree", "."], place.0.path());
    place.pack();
    let archive = Archive::open(place.path("t.tar"), archive::OpenOptions::default()).unwrap();
    for name in ["of a pack", "of a tar"] {
        if !hand_on(&place.path(name)) {
            return;
        }
        let opened;
        let packed = match name {
            "of a pack" => {
                opened = place.open("p.stook");
                Packed::Pack(&opened)
            }
            _ => Packed::Archive(&archive),
        };
        let unpacked = place.unpacking(name).run(packed, &mut |_| true).unwrap();
        assert_eq!(unpacked.undone, 0, "{unpacked:?}");
        for path in ["plain", "other name", "labelled", "labelled/in"] {
            let (before, after) = (place.path("tree").join(path), place.path(name).join(path));
            assert_eq!((get(&after, ACCESS), get(&after, DEFAULT)), (None, None), "{name} {path}");
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode(&after), mode(&before), "{name} {path}");
        }
        assert_eq!(get(place.path(name).join("listed"), ACCESS), Some(list(4)), "{name}");
        assert_eq!(get(place.path(name), DEFAULT), Some(list(6)), "what was there before stays");
    }
    // Where none are wanted they are as those of any new file.
    assert!(hand_on(&place.path("unasked")));
    let unasked = Unpack { xattrs: false, ..place.unpacking("unasked") };
    unasked.run(Packed::Pack(&place.open("p.stook")), &mut |_| true).unwrap();
    assert!(get(place.path("unasked/plain"), ACCESS).is_some());
}
