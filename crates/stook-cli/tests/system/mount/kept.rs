//! What a mount does while sources wait, grow, and are read by the kernel itself.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use stook_testing::s3::S3Server;
use stook_testing::web::{End, Page, WebServer};

use super::{Place, eventually, is_mounted};
use crate::program::{ended, stook};
use crate::trees::noise;

/// A zip of forty stored members on a server that stalls while `stalls` is set.
fn stalling(place: &Place, stalls: &Arc<AtomicBool>) -> WebServer {
    place.script(
        "python3 - <<'EOF'
import zipfile, random
with zipfile.ZipFile('x.zip', 'w') as archive:
    for number in range(40):
        archive.writestr(f'{number:02}', random.Random(number).randbytes(2_000_000))
EOF",
    );
    let (page, stalls) = (Page::new(fs::read(place.path("x.zip")).unwrap()), stalls.clone());
    WebServer::start(move |request, _| match stalls.load(Ordering::SeqCst) {
        true => page.reply(request).end(End::Stalled(0)),
        false => page.reply(request),
    })
}

#[test]
fn a_server_that_stalls_holds_up_what_is_read_from_it_and_nothing_else() {
    let (place, stalls) = (Place::new(), Arc::new(AtomicBool::new(false)));
    let server = stalling(&place, &stalls);
    place.mount(&["--threads", "2", &server.url("/x.zip")]);
    assert_eq!(fs::metadata(place.path("mnt/39")).unwrap().len(), 2_000_000);
    stalls.store(true, Ordering::SeqCst);
    // Readers of many members wait, by requests of their own and through pages.
    let mut readers: Vec<_> = (0..20)
        .map(|number| {
            let direct = if number % 2 == 0 { "iflag=direct" } else { "iflag=fullblock" };
            let path = place.path(&format!("mnt/{number:02}"));
            let mut dd = Command::new("dd");
            dd.arg(format!("if={}", path.display())).args(["of=/dev/null", "bs=64k", direct, "status=none"]);
            dd.stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    eventually("they wait", || server.requests().len() > 10);
    // What is known is answered, and the status is.
    let listed =
        place.script("ls -l mnt | wc -l; stat -c %s mnt/38; $STOOK mount --status mnt | grep -c ^process");
    assert_eq!(listed, "41\n2000000\n1\n");
    // Who waits can be killed, however the file is read.
    for reader in &readers {
        kill_process(Pid::from_child(reader), Signal::KILL).unwrap();
    }
    for reader in &mut readers {
        eventually("a killed reader ends", || reader.try_wait().unwrap().is_some());
    }
    // It can be unmounted while the server has not answered.
    place.unmount();
    assert!(!is_mounted(&place.mountpoint()));
}

#[test]
fn a_read_that_was_waited_for_in_vain_is_an_error_once() {
    let (place, stalls) = (Place::new(), Arc::new(AtomicBool::new(false)));
    let server = stalling(&place, &stalls);
    place.mount(&[&server.url("/x.zip"), "--timeout", "2"]);
    stalls.store(true, Ordering::SeqCst);
    let error = fs::read(place.path("mnt/07")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    let status = place.status();
    assert!(status.log.iter().any(|line| line.starts_with("07: ")), "{status:?}");
    // Another file is another matter, and so is this one later.
    stalls.store(false, Ordering::SeqCst);
    let other = fs::read(place.path("mnt/08")).map(|bytes| bytes.len());
    assert_eq!(other.unwrap_or_else(|error| panic!("{error}: {:?}", place.status())), 2_000_000);
    eventually("it can be read", || {
        fs::read(place.path("mnt/07")).is_ok_and(|bytes| bytes.len() == 2_000_000)
    });
    place.unmount();
}

#[test]
fn two_mounts_each_in_the_other_do_not_wait_for_one_another() {
    let place = Place::new();
    place.script("mkdir -p one/two two/one; echo 1 > one/a; echo 2 > two/b");
    place.stook(&["mount", "two", "one/two"]);
    place.stook(&["mount", "one", "two/one"]);
    // What is mounted in the other is empty there; what is beside it is not.
    let found = place.script(
        "timeout 20 find one two | sort; cat one/two/b two/one/a; test ! -e two/one/two/b; test ! -e one/two/one/a",
    );
    assert_eq!(
        found,
        "one\none/a\none/two\none/two/b\none/two/one\ntwo\ntwo/b\ntwo/one\ntwo/one/a\ntwo/one/two\n2\n1\n"
    );
    place.stook(&["umount", "two/one", "one/two"]);
}

#[test]
fn what_a_mount_would_read_from_is_not_hidden_by_it() {
    let place = Place::new();
    place.script(
        "mkdir -p mnt/in; echo hello > mnt/in/part; tar cf mnt/x.tar -C /etc hostname
         $STOOK stitch tar mnt/in -o l.toml -q",
    );
    for source in ["l.toml", "l.toml//l.tar", "mnt/x.tar"] {
        let (code, _, stderr) = place.run(&["mount", source, "mnt"]);
        assert!(code != 0 && stderr.contains("would be hidden"), "{source}: {code} {stderr}");
        assert!(!is_mounted(&place.mountpoint()));
    }
}

#[test]
fn holes_are_shown_by_blocks_so_that_copies_have_them() {
    let place = Place::new();
    place.script(
        "mkdir tree; truncate -s 64M tree/sparse; echo end >> tree/sparse; head -c 3M /dev/urandom > tree/full
         $STOOK pack tree p.stook -q; tar cSf x.tar -C tree .",
    );
    for source in ["p.stook", "x.tar", "tree"] {
        place.mount(&[source]);
        let (sparse, full) =
            (fs::metadata(place.path("mnt/sparse")).unwrap(), fs::metadata(place.path("mnt/full")).unwrap());
        assert!(sparse.blocks() * 512 < 1 << 20, "{source}: {}", sparse.blocks());
        assert!(full.blocks() * 512 >= 3 << 20, "{source}: {}", full.blocks());
        let copied = place.script("rm -f out; cp mnt/sparse out; cmp out tree/sparse; stat -c %b out");
        assert!(copied.trim().parse::<u64>().unwrap() * 512 < 1 << 20, "{source}: {copied}");
        place.unmount();
    }
}

#[test]
fn a_pack_that_grows_is_shown_anew() {
    let place = Place::new();
    place.script(
        "mkdir -p tree/d tree/same; echo one > tree/a; echo two > tree/d/b; echo same > tree/same/s
         ln tree/a tree/linked; $STOOK pack tree p.stook -q",
    );
    place.mount(&["p.stook", "--follow"]);
    let old_inode = fs::metadata(place.path("mnt/a")).unwrap().ino();
    let same_inode = fs::metadata(place.path("mnt/same/s")).unwrap().ino();
    let mut held = File::open(place.path("mnt/a")).unwrap();
    place.script("diff -r tree mnt; test ! -e mnt/new; test ! -e mnt/d/c");
    // Replaced, added, deleted, in a directory and beside it; and a name that was asked for before.
    place.script(
        "rm tree/linked; echo other > tree/a; echo new > tree/new; mkdir tree/e; echo in > tree/e/f
         rm tree/d/b; echo three > tree/d/c; $STOOK pack tree p.stook --delete -q",
    );
    eventually("the newer state is shown", || place.path("mnt/new").exists());
    place.script("diff -r tree mnt; ls -A mnt mnt/d mnt/e > listed; cd tree; ls -A . d e | sed 's/^[de]:/mnt\\/&/; s/^\\.:/mnt:/' | diff - ../listed");
    assert_ne!(fs::metadata(place.path("mnt/a")).unwrap().ino(), old_inode);
    assert_eq!(fs::metadata(place.path("mnt/same/s")).unwrap().ino(), same_inode);
    // Who has the old one open gets the bytes of the old one, or an error.
    held.seek(SeekFrom::Start(0)).unwrap();
    let mut bytes = Vec::new();
    match held.read_to_end(&mut bytes) {
        Ok(_) => assert_eq!(bytes, b"one\n"),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EIO)),
    }
    // A name that no system has keeps nothing else from being shown.
    place.script("echo x | $STOOK put p.stook $(printf 'L%.0s' {1..5000})");
    // Once more, and it is verified as a whole.
    place.script("echo again > tree/d/c; $STOOK pack tree p.stook -q");
    eventually("and again", || fs::read(place.path("mnt/d/c")).is_ok_and(|bytes| bytes == b"again\n"));
    place.script("rsync -nacHAX --delete --itemize-changes tree/ mnt/ | diff /dev/null -");
    drop(held);
    place.unmount();
    let (code, _, stderr) = place.run(&["mount", "tree", "mnt", "--follow"]);
    assert!(code == 1 && stderr.contains("only one pack"), "{code} {stderr}");
}

#[test]
fn an_access_control_list_that_is_taken_away_counts() {
    let place = Place::new();
    fs::set_permissions(place.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    place.script(
        "mkdir -p tree/d; echo one > tree/d/f; chmod 750 tree/d; setfacl -m u:4321:rx,m::rx tree/d
         $STOOK pack tree p.stook -q",
    );
    place.mount(&["p.stook", "--follow", "--allow-other"]);
    let others = "setpriv --reuid 4321 --regid 9 --clear-groups ls mnt/d";
    assert_eq!(place.script(others), "f\n");
    place.script("setfacl -x u:4321 tree/d; $STOOK pack tree p.stook -q");
    eventually("it may not be listed", || {
        let mut ls = Command::new("bash");
        ls.args(["-c", others]).current_dir(place.dir.path()).stderr(Stdio::null());
        ls.stdout(Stdio::null()).status().unwrap().code() == Some(2)
    });
    place.unmount();
}

#[test]
fn listings_and_reads_go_on_while_a_pack_grows() {
    let place = Place::new();
    place.script(
        "mkdir tree; for i in $(seq 3000); do echo $i > tree/kept$i; done; $STOOK pack tree p.stook -q",
    );
    place.mount(&["p.stook", "--follow"]);
    let grow = "for i in $(seq 8); do rm -f tree/come*; for j in $(seq 50); do echo $i > tree/come$i-$j; done
                $STOOK pack tree p.stook --delete -q; done";
    let mut writer = Command::new("bash");
    writer.args(["-euc", grow]).env("STOOK", env!("CARGO_BIN_EXE_stook")).current_dir(place.dir.path());
    let mut writer = writer.spawn().unwrap();
    let mut rounds = 0;
    while writer.try_wait().unwrap().is_none() || rounds < 5 {
        let mut kept: Vec<String> = fs::read_dir(place.mountpoint())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("kept"))
            .collect();
        kept.sort_unstable();
        let listed = kept.len();
        kept.dedup();
        assert_eq!((listed, kept.len()), (3000, 3000), "what is there all the time is listed once");
        let number = rounds % 3000 + 1;
        let bytes = fs::read(place.path(&format!("mnt/kept{number}"))).unwrap();
        assert_eq!(bytes, format!("{number}\n").into_bytes());
        rounds += 1;
    }
    eventually("the last state is shown", || place.path("mnt/come8-50").exists());
    eventually("the states before are not", || !place.path("mnt/come7-1").exists());
    place.script("diff -r tree mnt");
    place.unmount();
}

#[test]
fn the_kernel_reads_whole_files_on_disk_by_itself() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    let bytes = noise(11, 5_000_000);
    fs::write(place.path("tree/a"), &bytes).unwrap();
    for (options, is_passed) in [(&[][..], true), (&["--no-passthrough"], false)] {
        place.mount(&[&["tree"], options].concat());
        let file = File::open(place.path("mnt/a")).unwrap();
        let other = File::open(place.path("mnt/a")).unwrap();
        let mut part = vec![0; 100_000];
        file.read_exact_at(&mut part, 4_000_001).unwrap();
        assert!(part == bytes[4_000_001..4_100_001]);
        assert!(fs::read(place.path("mnt/a")).unwrap() == bytes);
        place.script("cmp tree/a mnt/a; dd if=mnt/a iflag=direct bs=1M status=none | cmp - tree/a");
        let status = place.status();
        assert_eq!(status.passed_through >= 3, is_passed, "{status:?}");
        assert_eq!(status.requests.read == 0, is_passed, "{status:?}");
        drop((file, other));
        // By requests, and by itself again: each opening of a file decides for those after it.
        place.script("for i in 1 2 3; do cmp tree/a mnt/a & done; wait; sha256sum mnt/a > /dev/null");
        place.unmount();
    }
}

#[test]
fn one_member_of_a_zip_in_s3_is_read_in_few_requests() {
    let place = Place::new();
    place.script(
        "mkdir -p tree/d server/bucket; for i in $(seq 2000); do echo note $i > tree/d/$i; done
         head -c 300000 /dev/urandom > tree/large; cd tree; zip -qr ../server/bucket/x.zip .",
    );
    let server = S3Server::start(&place.path("server"), Duration::ZERO);
    let mut mount = stook(["mount", "s3://bucket/x.zip", "mnt"]);
    let (code, stdout, stderr) = ended(mount.envs(server.settings()).current_dir(place.dir.path()));
    assert_eq!(code, 0, "{stdout} {stderr}");
    place.script("cmp mnt/large tree/large");
    assert!(server.requests() <= 5, "{:?}", server.take_log());
    // Looking at it takes none.
    let before = server.requests();
    assert_eq!(place.script("ls -l mnt/d | wc -l"), "2001\n");
    assert_eq!(server.requests(), before);
    place.script("diff -r tree mnt");
    place.unmount();
}
