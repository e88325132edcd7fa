//! What can be mounted, and that it is what it is made of.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use stook_mount::Mode;
use stook_testing::fuse::{Mirror, PageCache};

use super::{Place, eventually};
use crate::trees::{nasty, noise};

#[test]
fn a_mounted_pack_is_the_tree_that_it_was_made_of() {
    let place = Place::new();
    nasty(&place.path("tree"));
    place.script(
        "setfattr -n user.note -v text tree/a; touch -d 1969-12-31T23:59:58.5Z tree/a; rm -f tree/fifo",
    );
    place.stook(&["pack", "tree", "tree.stook"]);
    place.mount(&["tree.stook"]);
    // No line of rsync, which compares bytes, times, owners, links, access control lists and
    // extended attributes, says that something is to be copied or deleted.
    let of = "rsync -nacHAX --delete --itemize-changes tree/ mnt/ | tee listed; cmp listed /dev/null
        diff -r --no-dereference tree mnt; getfattr --only-values -n user.note mnt/a | grep -x text";
    place.script(of);
    let stated = |root: &str| -> BTreeMap<String, (u32, u64)> {
        let entries = fs::read_dir(place.path(root)).unwrap().map(Result::unwrap);
        let of = |entry: fs::DirEntry| (entry.file_name().into_string(), entry.metadata().unwrap());
        let files = entries.map(of).filter(|(name, found)| name.is_ok() && found.is_file());
        files.map(|(name, found)| (name.unwrap(), (found.mode(), found.nlink()))).collect()
    };
    assert_eq!(stated("mnt"), stated("tree"));
    // Numbers of inodes are those of hard links, and stay what they are.
    let inodes = "find mnt -printf '%i %P\\n' | LC_ALL=C sort | sha256sum";
    let before = place.script(inodes);
    place.unmount();
    place.mount(&["tree.stook"]);
    assert_eq!(place.script(inodes), before);
    place.unmount();
}

#[test]
fn archives_layouts_unions_and_routes_show_what_is_in_them() {
    let place = Place::new();
    place.script(
        "mkdir -p tree/a/b over/a mod/x.zip; seq 1 30000 > tree/a/b/numbers; echo one > tree/one; ln -s one tree/link
         head -c 3000000 /dev/urandom > tree/a/large; cp -a tree ~+/plain; touch empty; echo two > over/a/two
         echo changed > over/one; echo routed > mod/x.zip/one
         tar cf x.tar -C tree .; tar czf x.tar.gz -C tree .; (cd tree; zip -qry ../x.zip .; zip -qr0 ../stored.zip a one)
         $STOOK stitch tar tree/a tree/one -o l.toml -q; mkdir set; cp x.zip set",
    );
    for (source, mode) in
        [("x.tar", Mode::Large), ("x.tar.gz", Mode::Large), ("x.zip", Mode::Large), ("tree", Mode::Live)]
    {
        place.mount(&[source]);
        place.script("diff -r --no-dereference plain mnt");
        assert_eq!(place.status().mode, mode, "{source}");
        place.unmount();
    }
    place.mount(&["stored.zip//a"]);
    place.script("diff -r plain/a mnt");
    place.unmount();
    place.mount(&["l.toml"]);
    place.script("$STOOK stitch tar tree/a tree/one | cmp - mnt/l.tar; tar xOf mnt/l.tar one | grep -x one");
    place.unmount();
    place.mount(&["l.toml//l.tar"]);
    place.script("diff -r plain/a mnt/a; diff plain/one mnt/one");
    place.unmount();
    place.mount(&["tree", "over"]);
    place.script("grep -x changed mnt/one; grep -x two mnt/a/two; cmp mnt/a/large plain/a/large");
    place.unmount();
    place.mount(&["set", "--with", "mod", "--"]);
    place.script("unzip -p mnt/x.zip one | grep -x routed; unzip -tq mnt/x.zip; cmp <(unzip -p mnt/x.zip a/large) plain/a/large");
    place.unmount();
    // A file on a file.
    place.stook(&["mount", "x.tar//a/large", "empty"]);
    place.script("cmp empty plain/a/large; dd if=empty bs=1 skip=2999999 status=none | cmp - <(tail -c 1 plain/a/large)");
    place.stook(&["umount", "empty"]);
}

#[test]
fn an_earlier_state_of_a_pack_is_mounted() {
    let place = Place::new();
    place.script(
        "mkdir tree; echo old > tree/a; $STOOK pack tree p.stook -q; sleep 1.1; date -u +@%s > then; sleep 1.1
         echo new > tree/a; $STOOK pack tree p.stook -q",
    );
    let then = fs::read_to_string(place.path("then")).unwrap();
    place.mount(&["p.stook", "--at", then.trim()]);
    place.script("grep -x old mnt/a");
    place.unmount();
    place.mount(&["p.stook"]);
    place.script("grep -x new mnt/a");
    place.unmount();
}

#[test]
fn damage_costs_its_own_file_and_is_logged_once() {
    let place = Place::new();
    let (good, bad) = (noise(1, 50_000), noise(2, 50_000));
    fs::create_dir(place.path("tree")).unwrap();
    for (name, bytes) in [("a", &good), ("b", &bad), ("c", &good)] {
        fs::write(place.path("tree").join(name), bytes).unwrap();
    }
    place.stook(&["pack", "tree", "p.stook"]);
    let segments = fs::read_dir(place.path("p.stook")).unwrap().map(|entry| entry.unwrap().path());
    let mut damaged = 0;
    for segment in segments.filter(|path| path.is_file()) {
        let bytes = fs::read(&segment).unwrap();
        if let Some(at) = bytes.windows(64).position(|window| window == &bad[1000..1064]) {
            let file = File::options().write(true).open(&segment).unwrap();
            file.write_all_at(&[bytes[at] ^ 4], at as u64).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    place.mount(&["p.stook", "--log", "log"]);
    for _ in 0..3 {
        for (name, wanted) in [("a", Some(&good)), ("b", None), ("c", Some(&good))] {
            let read = fs::read(place.mountpoint().join(name));
            match wanted {
                Some(bytes) => assert!(read.unwrap() == *bytes, "{name}"),
                None => assert_eq!(read.unwrap_err().raw_os_error(), Some(libc::EIO)),
            }
        }
    }
    let status = place.status();
    assert_eq!(status.log_lines, 1, "{status:?}");
    let logged = fs::read_to_string(place.path("log")).unwrap();
    assert!(logged.lines().count() == 1 && logged.contains("b: "), "{logged}");
    assert!(logged.contains(&status.log[0]));
    place.unmount();
}

/// Reads a file to its end: what came, and the error.
fn read_all(file: &mut File) -> (Vec<u8>, Option<i32>) {
    let mut bytes = Vec::new();
    let read = file.read_to_end(&mut bytes);
    (bytes, read.err().map(|error| error.raw_os_error().unwrap()))
}

#[test]
fn a_source_that_is_cut_replaced_or_fails_is_an_error_and_never_a_mix() {
    let place = Place::new();
    let (old, new) = (noise(3, 4_000_000), noise(4, 4_000_000));
    for way in ["cut", "replace", "write over"] {
        fs::create_dir_all(place.path("tree")).unwrap();
        fs::write(place.path("tree/a"), &old).unwrap();
        place.script("tar cf x.tar -C tree a");
        place.mount(&["x.tar"]);
        let mut file = File::open(place.path("mnt/a")).unwrap();
        let mut head = vec![0; 4096];
        file.read_exact(&mut head).unwrap();
        assert!(head == old[..4096]);
        match way {
            "cut" => {
                File::options().write(true).open(place.path("x.tar")).unwrap().set_len(1_000_000).unwrap()
            }
            "replace" => place
                .script("head -c 4000000 /dev/zero > tree/a; tar cf y.tar -C tree a; mv y.tar x.tar")
                .clear(),
            _ => {
                let file = File::options().write(true).open(place.path("x.tar")).unwrap();
                file.write_all_at(&new, 512).unwrap();
                drop(file);
                File::options().append(true).open(place.path("x.tar")).unwrap().set_len(5_000_000).unwrap();
            }
        }
        let (rest, error) = read_all(&mut file);
        assert!(rest == old[4096..4096 + rest.len()], "{way}");
        assert_eq!(error, Some(libc::EIO), "{way}");
        let status = place.status();
        assert!(
            status.log.iter().any(|line| line.starts_with("a: ") && line.contains("x.tar")),
            "{status:?}"
        );
        drop(file);
        place.unmount();
    }
    // A source below that fails: the rest can be read, and all of it once it is healed.
    fs::write(place.path("tree/a"), &old).unwrap();
    place.script("mkdir below; tar cf below/x.tar -C tree a");
    let mirror = Mirror::mount(&place.path("below"), PageCache::Off).unwrap();
    let source = mirror.path().join("x.tar");
    place.mount(&[source.to_str().unwrap()]);
    mirror.spoil("x.tar", stook::extent::ByteRange::new(2_000_000, 2_000_001).unwrap());
    let (came, error) = read_all(&mut File::open(place.path("mnt/a")).unwrap());
    assert!(old.starts_with(&came) && came.len() < 2_000_000, "{}", came.len());
    assert_eq!(error, Some(libc::EIO));
    mirror.heal();
    assert!(fs::read(place.path("mnt/a")).unwrap() == old);
    place.unmount();
}

#[test]
fn what_no_name_of_a_system_can_be_is_said_and_not_shown() {
    let place = Place::new();
    place.script(
        "python3 - <<'EOF'
import tarfile, io
with tarfile.open('x.tar', 'w', format=tarfile.PAX_FORMAT) as tar:
    for name in ['good', 'n' * 255, 'n' * 256, 'd/' + 'm' * 300 + '/in', '../out', '/abs', 'd/./x', 'loop/loop']:
        info = tarfile.TarInfo(name); info.size = 1; tar.addfile(info, io.BytesIO(b'x'))
    link = tarfile.TarInfo('round'); link.type = tarfile.SYMTYPE; link.linkname = 'round'; tar.addfile(link)
EOF",
    );
    let (code, _, stderr) = place.run(&["mount", "x.tar", "mnt", "--verbose"]);
    assert_eq!(code, 0, "{stderr}");
    let listed =
        place.script("cd mnt; find . | sort | cut -c -20 | xargs; test ! -e round/x; cat round || true");
    assert_eq!(listed, format!(". ./d ./d/x ./good ./loop ./loop/loop ./{} ./round\n", "n".repeat(18)));
    let status = place.status();
    assert_eq!(status.hidden.entries, 4, "{status:?}");
    let too_long =
        status.hidden.named.iter().filter(|line| line.ends_with("its name has more than 255 bytes"));
    assert_eq!(too_long.count(), 2, "{status:?}");
    let (_, text, _) = place.run(&["mount", "--status", "mnt"]);
    assert!(text.contains("not shown: "), "{text}");
    let missing = place.script("stat mnt/$(printf 'n%.0s' {1..256}) 2>&1 || true");
    assert!(missing.contains("too long") || missing.contains("No such file"), "{missing}");
    place.unmount();
}

#[test]
fn a_directory_is_shown_as_it_is_by_now() {
    let place = Place::new();
    place.script("mkdir -p tree/d; echo one > tree/a; echo two > tree/d/b");
    place.mount(&["tree"]);
    place.script("grep -x one mnt/a; test $(ls mnt | wc -l) = 2");
    place.script("echo three > tree/c; mv tree/a tree/d/moved; rm tree/d/b");
    eventually("changes are seen", || {
        place.path("mnt/c").exists() && place.path("mnt/d/moved").exists() && !place.path("mnt/d/b").exists()
    });
    place.script("grep -x three mnt/c; grep -x one mnt/d/moved; echo longer than before > tree/c");
    eventually("new bytes are seen", || {
        fs::read(place.path("mnt/c")).is_ok_and(|bytes| bytes == b"longer than before\n")
    });
    place.unmount();
}

#[test]
fn who_has_a_live_file_open_gets_its_bytes_or_an_error_and_never_those_of_another_state() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    for way in ["write over", "replace", "remove"] {
        let (old, new) = (noise(6, 8 << 20), noise(7, 8 << 20));
        fs::write(place.path("tree/a"), &old).unwrap();
        place.mount(&["tree", "--no-passthrough"]);
        let mut first = File::open(place.path("mnt/a")).unwrap();
        let mut head = vec![0; 4096];
        first.read_exact(&mut head).unwrap();
        assert!(head == old[..4096]);
        match way {
            "write over" => {
                let file = File::options().write(true).open(place.path("tree/a")).unwrap();
                file.write_all_at(&new, 0).unwrap();
            }
            "replace" => {
                fs::write(place.path("tree/b"), &new).unwrap();
                fs::rename(place.path("tree/b"), place.path("tree/a")).unwrap();
            }
            _ => fs::remove_file(place.path("tree/a")).unwrap(),
        }
        if way != "remove" {
            eventually("the new state is seen", || {
                fs::read(place.path("mnt/a")).is_ok_and(|bytes| bytes == new)
            });
        }
        let (rest, error) = read_all(&mut first);
        assert!(rest == old[4096..4096 + rest.len()], "{way}: a mix");
        assert_eq!(error, Some(libc::EIO), "{way}");
        let status = place.status();
        assert!(status.log.iter().any(|line| line.starts_with("a: ")), "{way}: {status:?}");
        // Others read what is there now.
        if way != "remove" {
            assert!(fs::read(place.path("mnt/a")).unwrap() == new, "{way}");
        }
        drop(first);
        place.unmount();
    }
}

#[test]
fn a_file_that_was_just_replaced_is_opened_as_what_it_is_now() {
    let place = Place::new();
    fs::create_dir_all(place.path("tree/d")).unwrap();
    for option in [&["--no-passthrough"][..], &[]] {
        fs::write(place.path("tree/d/a"), "0").unwrap();
        place.mount(&[&["tree"], option].concat());
        let mut held = Vec::new();
        for number in 1..20 {
            let number = number.to_string();
            // It is known, by its name and by what it is.
            assert!(fs::metadata(place.path("mnt/d/a")).unwrap().is_file());
            held.push(File::open(place.path("mnt/d/a")).unwrap());
            fs::write(place.path("tree/d/new"), &number).unwrap();
            fs::rename(place.path("tree/d/new"), place.path("tree/d/a")).unwrap();
            let read = fs::read_to_string(place.path("mnt/d/a"));
            assert_eq!(read.unwrap_or_else(|error| panic!("{error}: {:?}", place.status())), number);
        }
        // A directory, too.
        fs::create_dir(place.path("tree/e")).unwrap();
        fs::write(place.path("tree/e/new"), "").unwrap();
        assert!(fs::metadata(place.path("mnt/d")).unwrap().is_dir());
        fs::rename(place.path("tree/d"), place.path("tree/old")).unwrap();
        fs::rename(place.path("tree/e"), place.path("tree/d")).unwrap();
        eventually("it is listed", || place.path("mnt/d/new").exists());
        // No request of theirs was an error.
        assert_eq!(place.status().log, Vec::<String>::new());
        drop(held);
        place.unmount();
        fs::remove_dir_all(place.path("tree/old")).unwrap();
    }
}

#[test]
fn access_control_lists_hold_for_others() {
    let place = Place::new();
    fs::set_permissions(place.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    place.script(
        "mkdir tree; echo secret > tree/f; chown root:1234 tree/f; chmod 640 tree/f; setfacl -m u:4321:r,g::- tree/f
         $STOOK pack tree p.stook -q",
    );
    for source in ["tree", "p.stook"] {
        place.mount(&["--allow-other", source]);
        for path in ["tree/f", "mnt/f"] {
            place.script(&format!(
                "setpriv --reuid 4321 --regid 9 --clear-groups cat {path} | grep -x secret
                 ! setpriv --reuid 5555 --regid 1234 --clear-groups cat {path}
                 ! setpriv --reuid 5555 --regid 9 --clear-groups cat {path}"
            ));
        }
        place.unmount();
    }
}

#[test]
fn a_file_that_is_called_as_the_status_is_named_and_not_shown() {
    let place = Place::new();
    place.script(
        "mkdir -p tree/d; echo '{\"evil\": 1}' > tree/.stook.status; echo one > tree/d/.stook.status
         $STOOK pack tree p.stook -q",
    );
    for (source, is_fixed) in [("p.stook", true), ("tree", false)] {
        place.mount(&[source]);
        assert_eq!(place.script("ls -A mnt; cat mnt/d/.stook.status"), "d\none\n");
        let status = place.status();
        assert_eq!(status.hidden.entries, u64::from(is_fixed), "{status:?}");
        assert!(status.source.ends_with(source));
        place.unmount();
    }
}

#[test]
fn names_of_hostile_archives_are_one_line_in_the_log() {
    let place = Place::new();
    place.script(
        r#"python3 - <<'EOF'
import zipfile
with zipfile.ZipFile('x.zip', 'w') as archive:
    archive.writestr('d\x1b[31m\nstook mount: forged', b'some bytes')
data = bytearray(open('x.zip', 'rb').read())
at = data.find(b'some bytes')
data[at] ^= 1
open('x.zip', 'wb').write(data)
EOF"#,
    );
    place.mount(&["x.zip", "--log", "log"]);
    place.script("! cat mnt/d*");
    let logged = fs::read_to_string(place.path("log")).unwrap();
    assert!(
        logged.lines().count() == 1 && !logged.contains('\x1b') && logged.contains(r"\x1b[31m\x0a"),
        "{logged}"
    );
    place.unmount();
}
