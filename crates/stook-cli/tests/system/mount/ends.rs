//! How mounts end: unmounted, in use, killed, refused; and what is left of them.

use std::fs::{self, File};
use std::io::Read as _;

use super::{Place, eventually, is_mounted};
use crate::program::{Home, ended};

fn processes() -> usize {
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let is_own = words.first()? == &env!("CARGO_BIN_EXE_stook").as_bytes();
        (is_own && words.iter().any(|word| [&b"mount"[..], b"umount"].contains(word))).then_some(())
    });
    all.count()
}

fn mounted(place: &Place, megabytes: usize) {
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/a"), vec![7; megabytes << 20]).unwrap();
    place.stook(&["pack", "tree", "p.stook"]);
    place.mount(&["p.stook"]);
}

#[test]
fn what_is_in_use_is_not_unmounted_but_lazily() {
    let place = Place::new();
    mounted(&place, 4);
    let mut file = File::open(place.path("mnt/a")).unwrap();
    let (code, _, stderr) = place.run(&["umount", "mnt"]);
    assert!(code == 1 && stderr.contains("in use") && stderr.contains("--lazy"), "{code} {stderr}");
    assert!(place.path("mnt/a").exists());
    place.stook(&["umount", "--lazy", "mnt"]);
    assert!(!place.path("mnt/a").exists() && !is_mounted(&place.mountpoint()));
    // Who has it open reads on.
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 4 << 20);
    drop(file);
    let (code, _, stderr) = place.run(&["umount", "mnt"]);
    assert!(code == 1 && stderr.contains("nothing is mounted there"), "{code} {stderr}");
}

#[test]
fn a_killed_mount_is_an_error_for_readers_and_taken_away() {
    let place = Place::new();
    mounted(&place, 64);
    let process = place.status().process;
    let file = File::open(place.path("mnt/a")).unwrap();
    let reader = std::thread::spawn(move || {
        let mut file = file;
        loop {
            // What is in memory is read without asking: new parts until the end, and again.
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
            std::io::Seek::rewind(&mut file)?;
        }
        #[expect(unreachable_code, reason = "names the type of the result")]
        Ok::<(), std::io::Error>(())
    });
    std::thread::sleep(std::time::Duration::from_millis(100));
    let process = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    let error = reader.join().unwrap().unwrap_err();
    let errors = [libc::ENOTCONN, libc::ECONNABORTED, libc::EIO];
    assert!(errors.contains(&error.raw_os_error().unwrap()), "{error}");
    eventually("the mount is taken away", || !is_mounted(&place.mountpoint()));
    // It can be mounted again.
    place.mount(&["p.stook"]);
    assert_eq!(fs::metadata(place.path("mnt/a")).unwrap().len(), 64 << 20);
    place.unmount();
}

#[test]
fn a_mount_that_is_asked_to_end_unmounts() {
    use rustix::process::{Pid, Signal, kill_process};
    for (signal, is_used) in [(Signal::TERM, false), (Signal::INT, false), (Signal::TERM, true)] {
        let place = Place::new();
        mounted(&place, 1);
        let file = is_used.then(|| File::open(place.path("mnt/a")).unwrap());
        let process = Pid::from_raw(place.status().process as i32).unwrap();
        kill_process(process, signal).unwrap();
        eventually("it is unmounted", || !is_mounted(&place.mountpoint()));
        eventually("its process has ended", || rustix::process::test_kill_process(process).is_err());
        drop(file);
    }
}

#[test]
fn what_cannot_be_mounted_is_refused_and_leaves_nothing() {
    let place = Place::new();
    mounted(&place, 1);
    fs::create_dir_all(place.path("tree/in/it")).unwrap();
    fs::create_dir(place.path("other")).unwrap();
    place.script("echo text > file; mkfifo fifo");
    for (args, said) in [
        (&["mount", "p.stook", "mnt"][..], "already"),
        (&["mount", "p.stook", "file"], "it is no directory"),
        (&["mount", "p.stook", "missing"], "No such file"),
        (&["mount", "missing", "other"], "missing"),
        (&["mount", "file", "other"], "file"),
        (&["mount", "fifo", "other"], "fifo"),
        (&["mount", "p.stook", "p.stook//a", "other"], "not all of"),
        (&["mount", "tree", "tree/in/it"], "shown in itself"),
        (&["mount", "other", "tree", "tree"], "shown in itself"),
        (&["mount", "file", "file"], "shown in itself"),
        (&["mount", "--status", "other"], "nothing is mounted"),
        (&["umount", "other"], "nothing is mounted there by `stook mount`, but at"),
    ] {
        let (code, _, stderr) = place.run(args);
        assert!(code == 1 && stderr.contains(said), "{args:?}: {code} {stderr}");
    }
    let (code, _, stderr) = place.run(&["mount", "p.stook"]);
    assert!(code == 2 && stderr.contains("the directory to show it at"), "{stderr}");
    assert!(!is_mounted(&place.path("other")));
    place.unmount();
    eventually("no process is left", || processes() == 0);
}

/// All of them: `make soak`.
fn rounds() -> usize {
    if std::env::var_os("STOOK_SWEEPS").is_some_and(|value| value == "whole") { 1000 } else { 50 }
}

#[test]
fn many_mounts_leave_nothing() {
    let place = Place::new();
    place.script("mkdir tree; echo one > tree/a; $STOOK pack tree p.stook -q; tar cf x.tar -C tree a");
    eventually("no process is left", || processes() == 0);
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    for round in 0..rounds() {
        place.mount(&[if round % 2 == 0 { "p.stook" } else { "x.tar" }]);
        assert_eq!(fs::read(place.path("mnt/a")).unwrap(), b"one\n");
        assert_eq!(fs::read_dir(place.mountpoint()).unwrap().count(), 1);
        place.unmount();
    }
    assert!(!mounts().contains(place.path("").to_str().unwrap()), "{}", mounts());
    eventually("no process is left", || processes() == 0);
}

#[test]
fn in_the_foreground_it_says_what_is_mounted_and_ends_with_a_signal() {
    let place = Place::new();
    place.script(
        "mkdir tree; echo one > tree/a; $STOOK pack tree p.stook -q
         $STOOK mount --foreground p.stook mnt --json > said & process=$!
         for n in {1..100}; do [ -s said ] && break; sleep 0.05; done; grep -x one mnt/a; kill $process; wait $process
         grep '\"schema\":\"stook.mount/1\"' said | grep '\"mode\":\"small\"'; test ! -e mnt/a",
    );
}

#[test]
fn it_is_mounted_from_a_line_of_fstab() {
    let place = Place::new();
    place.script(
        "mkdir tree; echo one > tree/a; $STOOK pack tree p.stook -q; ln -s $STOOK mount.stook
         ./mount.stook $PWD/p.stook $PWD/mnt -o rw,noauto,x-systemd.automount,allow_other,threads=3
         grep -x one mnt/a; grep \" $PWD/mnt .*allow_other\" /proc/self/mountinfo",
    );
    assert_eq!(place.status().threads, 3);
    // What unmounts any file system does.
    place.script("umount mnt; test ! -e mnt/a");
    eventually("no process is left", || processes() == 0);
}

#[test]
fn a_copy_of_the_program_that_is_called_as_the_helper_mounts_once() {
    let place = Place::new();
    place.script(
        "mkdir tree; echo one > tree/a; $STOOK pack tree p.stook -q; cp $STOOK mount.stook
         timeout 20 ./mount.stook $PWD/p.stook $PWD/mnt -o ro,noexec,user; grep -x one mnt/a
         grep \" $PWD/mnt .*noexec\" /proc/self/mountinfo; $STOOK umount mnt",
    );
}

#[test]
fn a_link_to_a_directory_is_a_mountpoint_like_that() {
    let place = Place::new();
    place.script(
        "mkdir tree real; echo one > tree/a; ln -s real link; $STOOK mount tree link; grep -x one real/a
         ! $STOOK mount tree link; $STOOK mount --status link; $STOOK umount link; test ! -e real/a
         $STOOK mount --foreground tree link & process=$!
         for n in {1..100}; do [ -e real/a ] && break; sleep 0.05; done; kill $process; wait $process; test ! -e real/a
         $STOOK mount tree real; kill -9 $($STOOK mount --status real --json | grep '\"process\"' | grep -o '[0-9]*')
         for n in {1..200}; do $STOOK mount tree link && break; sleep 0.05; done; $STOOK umount real",
    );
}

#[test]
fn a_log_that_cannot_be_written_leaves_no_mount() {
    let place = Place::new();
    place.script("mkdir tree; mkfifo pipe");
    let (code, _, stderr) = place.run(&["mount", "--log", "pipe", "tree", "mnt"]);
    assert!(code == 1 && stderr.contains("pipe"), "{code} {stderr}");
    assert!(!is_mounted(&place.mountpoint()));
    eventually("no process is left", || processes() == 0);
}

/// A user that every system has.
const NOBODY: u32 = 65_534;

#[test]
fn somebody_mounts_with_the_helper_and_only_root_lets_others_in() {
    let home = Home::new();
    fs::create_dir(home.path("tree")).unwrap();
    fs::write(home.path("tree/a"), "one").unwrap();
    // The helper wants a user with a name.
    let as_nobody = |args: &[&str]| {
        let mut command = home.somebody(args);
        std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
        command
    };
    let somebody = |args: &[&str]| ended(&mut as_nobody(args));
    fs::create_dir(home.path("mnt")).unwrap();
    for path in [".", "mnt"] {
        std::os::unix::fs::chown(home.path(path), Some(NOBODY), None).unwrap();
    }
    assert_eq!(somebody(&["pack", "tree", "p.stook"]).0, 0);
    // As udev makes it; in containers it is root's.
    fs::set_permissions("/dev/fuse", std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let (code, stdout, stderr) = somebody(&["mount", "p.stook", "mnt"]);
    assert_eq!(code, 0, "{stdout} {stderr}");
    let (code, ..) = somebody(&["verify", "tree", "--against", "mnt"]);
    assert_eq!(code, 0);
    // Root is another user there.
    assert_eq!(fs::read(home.path("mnt/a")).unwrap_err().raw_os_error(), Some(libc::EACCES));
    let (code, _, stderr) = somebody(&["umount", "mnt"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(!is_mounted(&home.path("mnt")));
    let mut without = as_nobody(&["mount", "p.stook", "mnt"]);
    let (code, _, stderr) = ended(without.env("PATH", "/nonexistent"));
    assert!(code == 1 && stderr.contains("fusermount3") && stderr.contains("fuse3"), "{code} {stderr}");
    // Root may let others in.
    assert_eq!(ended(&mut home.root(["mount", "--allow-other", "p.stook", "mnt"])).0, 0);
    assert_eq!(somebody(&["verify", "tree", "--against", "mnt"]).0, 0);
    assert_eq!(ended(&mut home.root(["umount", "mnt"])).0, 0);
}

#[test]
fn what_was_inherited_is_not_kept_open() {
    let place = Place::new();
    mounted(&place, 1);
    place.unmount();
    // Two processes stay: were the lock theirs, nobody would get it.
    place.script("exec 9> lock; flock 9; $STOOK mount p.stook mnt -q; exec 9>&-; flock --nonblock lock true");
    place.unmount();
}
