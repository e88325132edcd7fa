//! Programs of others on a mount.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use super::Place;
use crate::trees::noise;

#[test]
fn a_project_is_built_and_searched_on_a_mount() {
    let place = Place::new();
    place.script(
        "mkdir -p project/src; cd project; git init -q; for n in {1..40}; do
            printf 'int part_%s(void) { return %s; }\\n' $n $n > src/part_$n.c
            echo \"int part_$n(void);\" >> src/parts.h
         done
         { echo '#include <stdio.h>'; echo '#include \"parts.h\"'; echo 'int main(void) { int sum = 0;'
           for n in {1..40}; do echo \"sum += part_$n();\"; done; echo 'printf(\"%d\\n\", sum); return 0; }'; } > src/main.c
         printf 'CFLAGS = -O0\\nVPATH = %s/src\\nall: main\\nmain: %s main.o\\n\\tcc -o $@ $^\\n' \
            '$(TOP)' \"$(for n in {1..40}; do printf 'part_%s.o ' $n; done)\" > Makefile
         git add -A; git -c user.name=a -c user.email=a@b commit -qm all; cd ..; $STOOK pack project p.stook -q",
    );
    place.mount(&["p.stook"]);
    let built = place.script(
        "test -z \"$(git -c safe.directory='*' --no-optional-locks -C mnt status --porcelain)\"
         git -c safe.directory='*' -C mnt log --oneline | grep -c all | grep -qx 1
         unset MAKEFLAGS MFLAGS MAKELEVEL; mkdir build; cd build; make -s -f ../mnt/Makefile TOP=$PWD/../mnt; ./main; cd ..
         grep -rl part_17 mnt/src | wc -l; tar cf - -C mnt . | tar tf - | grep -c 'src/part_'
         cp -r mnt copied; diff -r copied project && echo equal",
    );
    assert_eq!(built, "820\n3\n40\nequal\n");
    let pushed = place.status().pushed;
    assert!(pushed.files > 0, "{pushed:?}");
    place.unmount();
}

#[test]
fn fio_finds_every_byte_that_it_wrote_before_packing() {
    let place = Place::new();
    place.script(
        "mkdir tree; cd tree; fio --name=w --filename=data --rw=write --bs=16k --size=48m --verify=crc32c --do_verify=0 \
            --output=/dev/null >/dev/null; cd ..; $STOOK pack tree p.stook -q; tar cf x.tar -C tree data",
    );
    for source in ["p.stook", "x.tar"] {
        place.mount(&[source]);
        for how in ["--ioengine=psync", "--ioengine=mmap", "--ioengine=io_uring --iodepth=16 --direct=1"] {
            place.script(&format!(
                "fio --name=r --filename=mnt/data --rw=randread --bs=16k --size=48m --verify=crc32c --verify_only \
                 --readonly --output=out {how} || (cat out; false); grep -q 'err= 0' out"
            ));
        }
        place.script(
            "fio --name=r --filename=mnt/data --rw=randread --bs=4k --size=48m --numjobs=32 --thread --readonly \
             --number_ios=200 --output=out; grep -c 'err= 0' out | grep -qx 32",
        );
        place.unmount();
    }
}

#[test]
fn eight_programs_walk_at_once_and_see_the_same() {
    let place = Place::new();
    place.script(
        "mkdir tree; for d in {1..40}; do mkdir tree/$d; for f in {1..25}; do echo $d $f > tree/$d/$f; done; done
         $STOOK pack tree p.stook -q; (cd tree; find . -type f | sort | xargs sha256sum) > sums",
    );
    place.mount(&["p.stook"]);
    place.script(
        "for n in {1..8}; do (cd mnt; find . -type f | sort | xargs sha256sum) > sums.$n & done; wait
         for n in {1..8}; do cmp sums sums.$n; done; sync; echo 3 > /proc/sys/vm/drop_caches
         (cd mnt; sha256sum --quiet -c ../sums)",
    );
    place.unmount();
}

#[test]
fn many_threads_share_one_handle() {
    let place = Place::new();
    let bytes = noise(5, 6_000_000);
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/a"), &bytes).unwrap();
    place.stook(&["pack", "tree", "p.stook"]);
    place.mount(&["p.stook"]);
    let file = Arc::new(fs::File::open(place.path("mnt/a")).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..32_usize {
            let (file, bytes) = (file.clone(), &bytes);
            scope.spawn(move || {
                for step in 0..50 {
                    let at = (thread * 7_919 + step * 119_633) % (bytes.len() - 9_000);
                    let mut read = vec![0; 9_000];
                    std::os::unix::fs::FileExt::read_exact_at(&*file, &mut read, at as u64).unwrap();
                    assert!(read == bytes[at..at + 9_000], "{at}");
                }
            });
        }
    });
    drop(file);
    place.unmount();
}

#[test]
fn a_listing_alone_copies_nothing_and_a_walk_is_pushed() {
    let place = Place::new();
    place.script(
        "mkdir tree; for d in {1..20}; do mkdir tree/$d; for f in {1..30}; do head -c 3000 /dev/urandom > tree/$d/$f
         done; done; $STOOK pack tree p.stook -q",
    );
    place.mount(&["p.stook"]);
    place.script("ls -laR mnt > listed; du -s mnt; find mnt -size +1 | wc -l");
    let listed = place.status();
    assert_eq!((listed.pushed.files, listed.requests.read), (0, 0), "{listed:?}");
    // Of what has no extended attributes they are not asked for, entry by entry.
    assert!(listed.requests.xattr <= 2, "{listed:?}");
    // The first file that is read brings the others of its directory, and the first of the next
    // directory those of all that were listed after it.
    for (file, pushed) in [("1/1", 29), ("10/1", 29 + 29 + 18 * 30)] {
        fs::read(place.path("mnt").join(file)).unwrap();
        super::eventually("files are pushed", || place.status().pushed.files == pushed);
    }
    place.script("diff -r tree mnt");
    let walked = place.status();
    assert_eq!((walked.requests.read, walked.pushed.read_too), (2, 0), "{walked:?}");
    // What is in memory now is not asked for again.
    place.script("diff -r tree mnt");
    assert_eq!(place.status().requests.read, walked.requests.read);
    place.unmount();
    // Without pushing, each file is read.
    place.mount(&["p.stook", "--no-push", "--"]);
    place.script("diff -r tree mnt");
    let read = place.status();
    assert_eq!((read.pushed.files, read.requests.read), (0, 600), "{read:?}");
    place.unmount();
}

#[test]
fn what_a_program_lists_directory_by_directory_is_read_ahead_and_pushed_once() {
    let place = Place::new();
    // `b` has no files, and `c` has files and directories.
    place.script(
        "for d in a b/{1..9} b/3/{x,y,z} c c/{1..3}; do mkdir -p tree/$d; done
         for d in a b/{1..9} b/3/{x,y} c c/{1..3}; do for f in {1..30}; do
            head -c 3000 /dev/urandom > tree/$d/$f.bin
         done; done; $STOOK pack tree p.stook -q",
    );
    place.mount(&["p.stook"]);
    let (mut directories, mut pushed) = (0, 0);
    // As `tar` does it: a directory, its files, then each directory in it.
    let mut left = vec![place.path("mnt")];
    while let Some(directory) = left.pop() {
        let mut entries: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        let (below, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|path| path.is_dir());
        left.extend(below.into_iter().rev());
        let Some(first) = files.first() else { continue };
        // Only the first time it has to be read before anything is pushed.
        if directories > 0 {
            pushed += 29;
            super::eventually("a listing is pushed", || place.status().pushed.files == pushed);
        }
        fs::read(first).unwrap();
        if directories == 0 {
            pushed += 29;
            super::eventually("a directory is pushed", || place.status().pushed.files == pushed);
        }
        directories += 1;
        for file in files {
            let loose = place.path("tree").join(file.strip_prefix(place.path("mnt")).unwrap());
            assert!(fs::read(&file).unwrap() == fs::read(loose).unwrap(), "{}", file.display());
        }
    }
    assert_eq!(directories, 16);
    let status = place.status();
    // One file of each directory is asked for. What comes after `b` is read ahead.
    assert_eq!((status.requests.read, status.pushed.read_too), (16, 0), "{status:?}");
    assert_eq!(status.pushed.read_ahead, 15 * 30, "{status:?}");
    place.unmount();
}

/// Memory that a program of a mount may take, in a control group of its own.
#[test]
fn a_walk_under_memory_pressure_is_still_right() {
    let place = Place::new();
    place.script(
        "mkdir tree; for d in {1..12}; do mkdir tree/$d; for f in {1..100}; do head -c 50000 /dev/urandom > tree/$d/$f
         done; done; $STOOK pack tree p.stook -q",
    );
    let group = std::path::Path::new("/sys/fs/cgroup/memory/stook-mount-test");
    fs::create_dir_all(group).unwrap();
    fs::write(group.join("memory.limit_in_bytes"), (96 << 20).to_string()).unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-euc", "echo $$ > $GROUP/cgroup.procs; $STOOK mount p.stook mnt -q"]);
    shell.env("GROUP", group).env("STOOK", env!("CARGO_BIN_EXE_stook")).current_dir(place.path("."));
    let (code, _, stderr) = crate::program::ended(&mut shell);
    assert_eq!(code, 0, "{stderr}");
    place.script(
        "echo $$ > /sys/fs/cgroup/memory/stook-mount-test/cgroup.procs; diff -r tree mnt; diff -r tree mnt",
    );
    place.unmount();
    super::eventually("the group is empty", || fs::remove_dir(group).is_ok());
}
