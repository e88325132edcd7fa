//! Archives whose bytes are compressed: read anywhere, unpacked once.

use std::fs;

use stook::archive::{Archive, OpenOptions, Spool};
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::read_range;
use stook_testing::fuse::{Fault, FaultMount, Operation, PageCache, Rule, Which};
use stook_testing::privileged::Mounted;

use super::Place;
use crate::full::fill;
use crate::program::{ended, stook};

/// Reads at random places of a file from many threads, and compares them with another file.
const READ_ALL_OVER: &str = "
import os, random, sys
from concurrent.futures import ThreadPoolExecutor
mounted, plain = (os.open(path, os.O_RDONLY) for path in sys.argv[1:3])
length = os.fstat(plain).st_size
assert os.fstat(mounted).st_size == length
def read(seed):
    chance = random.Random(seed)
    for _ in range(40):
        at, count = chance.randrange(length), chance.choice([1, 4096, 100_000, 1 << 20])
        assert os.pread(mounted, count, at) == os.pread(plain, count, at), (seed, at, count)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(read, range(16)))
";

#[test]
fn a_long_deflated_member_is_read_in_any_order() {
    let place = Place::new();
    // 200 MB, of which a quarter is saved.
    place.script(
        "mkdir tree; head -c 150000000 /dev/urandom | base64 -w 0 > tree/long; zip -q1j x.zip tree/long",
    );
    fs::write(place.path("read.py"), READ_ALL_OVER).unwrap();
    place.mount(&["x.zip"]);
    place.script("python3 read.py mnt/long tree/long; cmp mnt/long tree/long");
    place.unmount();
    place.mount(&["x.zip"]);
    place.script("cmp mnt/long tree/long; tail -c 100 mnt/long | cmp - <(tail -c 100 tree/long)");
    place.unmount();
}

#[test]
fn compressed_tars_are_the_trees_that_they_were_made_of() {
    let place = Place::new();
    place.script(
        "mkdir -p tree/{a,b,c}/{1,2,3}; for d in tree/*/*; do for n in $(seq 60); do seq $n 900 > $d/$n; done; done
         head -c 6000000 /dev/urandom | base64 > tree/long; ln -s long tree/link; ln tree/a/1/1 tree/b/hard
         : > tree/empty; tar cf x.tar -C tree .; gzip -k1 x.tar
         python3 -c \"import lzma, sys; sys.stdout.buffer.write(lzma.compress(open('x.tar', 'rb').read(), preset=0))\" > x.tar.xz",
    );
    let tar = fs::read(place.path("x.tar")).unwrap();
    fs::write(place.path("x.tar.zst"), zstd::encode_all(&tar[..], 1).unwrap()).unwrap();
    fs::write(place.path("read.py"), READ_ALL_OVER).unwrap();
    for name in ["x.tar.gz", "x.tar.zst", "x.tar.xz"] {
        // The second time the index is there.
        for _ in 0..2 {
            place.mount(&[name]);
            place.script("diff -r --no-dereference tree mnt; python3 read.py mnt/long tree/long; tar cf - -C mnt . | wc -c");
            place.unmount();
        }
        // No push: each file is a request.
        place.mount(&["--no-push", name]);
        place.script("find mnt -type f | shuf --random-source=x.tar | xargs cat | wc -c | grep -x $(find tree -type f | xargs cat | wc -c)");
        place.unmount();
    }
}

#[test]
fn where_there_is_no_room_to_unpack_it_is_an_error_of_that_read() {
    let place = Place::new();
    place.script("mkdir tree; head -c 15000000 /dev/urandom | base64 > tree/long; echo short > tree/short; zip -qrj x.zip tree");
    let room = Mounted::in_memory(64 << 20).unwrap();
    let mut mounting = stook(["mount", "x.zip", "mnt"]);
    let (code, _, stderr) = ended(mounting.current_dir(place.dir.path()).env("TMPDIR", room.path()));
    assert_eq!(code, 0, "{stderr}");
    let full = room.path().join("full");
    fill(&full, 1 << 20);
    place.script(
        "cat mnt/long 2> said > read && exit 1; grep -iE 'space|input/output' said; grep -x short mnt/short",
    );
    // The rest of it was returned, and it is read when there is room.
    fs::remove_file(&full).unwrap();
    place.script("cmp mnt/long tree/long; cmp mnt/short tree/short");
    place.unmount();
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 0);
}

#[test]
fn where_the_system_has_no_more_what_nobody_reads_makes_room() {
    let place = Place::new();
    place.script(
        "mkdir tree; for n in 1 2; do head -c 6000000 /dev/urandom | base64 > tree/$n; done; zip -qrj x.zip tree",
    );
    let bodies = ["1", "2"].map(|name| fs::read(place.path("tree").join(name)).unwrap());
    for operation in [Operation::Create, Operation::Write] {
        for errno in [libc::ENOSPC, libc::EDQUOT, libc::EMFILE, libc::ENFILE] {
            fs::create_dir(place.path("room")).unwrap();
            let room = FaultMount::mount(&place.path("room"), PageCache::Off).unwrap();
            let spool = Spool::new(room.path(), 1 << 30, 0);
            let options = OpenOptions { spool: spool.clone(), ..OpenOptions::default() };
            let archive = Archive::open(place.path("x.zip"), options).unwrap();
            let read = |name: &str| -> Result<_, stook::archive::Error> {
                let member = archive.open_member(&archive.find(name.as_bytes()).unwrap())?;
                Ok(read_range(&Backend::Threads, &*member, ByteRange::to(member.len()), Access::Cached)?)
            };
            assert!(read("1").unwrap() == bodies[0]);
            let held = spool.usage().file_bytes;
            assert_eq!(held, bodies[0].len() as u64);
            // Once, while the other has room that nobody uses.
            room.add(Rule::new(operation, Which::Nth(0), Fault::Errno(errno)));
            let other = read("2").unwrap_or_else(|error| panic!("{operation:?} {errno}: {error}"));
            assert!(other == bodies[1]);
            assert_eq!(room.struck(), 1, "{operation:?} {errno}");
            assert!(spool.usage().file_bytes < held + bodies[1].len() as u64, "{:?}", spool.usage());
            // Where all that nobody uses is not enough, it is an error of that read.
            room.heal();
            room.add(Rule::new(operation, Which::From(0), Fault::Errno(errno)));
            let error = read("1").unwrap_err();
            assert!(error.to_string().contains(room.path().to_str().unwrap()), "{error}");
            room.heal();
            assert!(read("1").unwrap() == bodies[0]);
            drop(archive);
            drop(room);
            fs::remove_dir(place.path("room")).unwrap();
        }
    }
}
