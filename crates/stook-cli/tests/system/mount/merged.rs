//! Copies of archives that folders change: read by the kernel or by requests, made once an archive
//! was read, and never of another state.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use stook_mount::Merged;

use super::*;

/// Makes `game` with archives, `mod` that changes them, and `out` with what comes of that.
fn game(place: &Place) {
    place.script(
        "mkdir -p game/data files mod/x.tar mod/y.zip
         for i in $(seq 400); do head -c $((i * 13)) /dev/urandom > files/$i; done
         (cd files && tar cf ../game/data/x.tar * && zip -qr ../game/data/y.zip .)
         for i in $(seq 1 7 400); do head -c $((i * 11 + 5)) /dev/urandom > mod/x.tar/$i; done
         echo changed > mod/y.zip/5; echo loose > game/loose
         $STOOK stitch routes game --write out --with mod",
    );
    std::thread::sleep(std::time::Duration::from_millis(50));
}

const CACHE: [&str; 6] = ["game", "--with=mod", "--merged-cache", "cache", "--merge", "always"];

fn mount(place: &Place, options: &[&str]) {
    place.mount(&[&CACHE, options].concat());
}

fn merged(place: &Place) -> Merged {
    place.status().merged.unwrap()
}

/// Reads an archive until it has a copy.
fn make(place: &Place, name: &str) {
    let before = merged(place).built;
    eventually("a copy is made", || {
        place.script(&format!("cmp mnt/data/{name} out/data/{name}"));
        merged(place).built > before
    });
}

fn copies(place: &Place) -> Vec<PathBuf> {
    let all = fs::read_dir(place.path("cache")).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|end| end == "merged")).collect()
}

fn flip(path: &Path) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 700).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 700).unwrap();
}

const WAYS: [(&[&str], bool); 2] = [(&[], true), (&["--no-passthrough"], false)];

#[test]
fn an_archive_is_read_from_its_copy_the_second_time() {
    let place = Place::new();
    game(&place);
    for (options, is_passed) in WAYS {
        let _before = fs::remove_dir_all(place.path("cache"));
        mount(&place, options);
        // Of what is hardly read none is made.
        place.script("head -c 100 mnt/data/y.zip | cmp - out/data/y.zip -n 100");
        assert_eq!(merged(&place), Merged { found: 0, built: 0, stitched: 1 });
        make(&place, "x.tar");
        assert_eq!(copies(&place).len(), 1);
        let before = place.status();
        place.script("cmp mnt/data/x.tar out/data/x.tar");
        let after = place.status();
        assert_eq!(merged(&place).found, before.merged.unwrap().found + 1);
        assert_eq!(after.passed_through > before.passed_through, is_passed, "{after:?}");
        assert_eq!(after.requests.read == before.requests.read, is_passed, "{after:?}");
        assert_eq!(after.log, Vec::<String>::new());
        // As others read it, at once and in any order, mapped, and with a name of another.
        place.script(
            "for i in 1 2 3 4; do cmp mnt/data/x.tar out/data/x.tar & done; wait
             dd if=mnt/data/x.tar bs=4k skip=3 count=9 status=none | cmp - <(dd if=out/data/x.tar bs=4k skip=3 count=9 status=none)
             mkdir -p a b; tar xf mnt/data/x.tar -C a; tar xf out/data/x.tar -C b; diff -r a b; cmp a/8 mod/x.tar/8
             python3 -c 'import mmap; f = open(\"mnt/data/x.tar\", \"rb\"); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
assert m[:] == open(\"out/data/x.tar\", \"rb\").read()'
             grep -x loose mnt/loose; diff -r mnt out",
        );
        let text = place.stook(&["mount", "--status", "mnt"]);
        assert!(text.contains(" opens of archives with a copy"), "{text}");
        place.unmount();
        // The next mount, and another process, finds it.
        mount(&place, options);
        place.script("cmp mnt/data/x.tar out/data/x.tar");
        assert_eq!(merged(&place), Merged { found: 1, built: 0, stitched: 0 });
        place.unmount();
    }
}

#[test]
fn it_says_where_copies_are_and_what_they_need() {
    let place = Place::new();
    game(&place);
    let said = place.stook(&[&["mount", "--verbose"], &CACHE[..], &["mnt"]].concat());
    let cache = place.path("cache");
    assert!(said.contains(&format!("with copies in {}", cache.display())), "{said}");
    place.unmount();
    // One that others may write into.
    place.script("mkdir wide; chmod 777 wide");
    let (code, _, stderr) = place.run(&["mount", "game", "--with=mod", "--merged-cache", "wide", "mnt"]);
    assert!(code == 1 && stderr.contains("wide"), "{code} {stderr}");
    assert!(!is_mounted(&place.mountpoint()));
    // By the rule, files on fast disks have none.
    place.mount(&["game", "--with=mod", "--merged-cache", "cache"]);
    place.script("cmp mnt/data/x.tar out/data/x.tar; cmp mnt/data/x.tar out/data/x.tar");
    assert_eq!(merged(&place).built, 0);
    place.unmount();
    place.mount(&["game", "--with=mod"]);
    assert_eq!(place.status().merged, None);
    place.unmount();
}

#[test]
fn whatever_becomes_of_a_copy_the_bytes_are_right() {
    let place = Place::new();
    game(&place);
    for (options, is_passed) in WAYS {
        mount(&place, options);
        make(&place, "x.tar");
        // Damaged between two openings.
        flip(&copies(&place)[0]);
        place.script("cmp mnt/data/x.tar out/data/x.tar");
        assert!(place.status().log.iter().any(|line| line.contains("thrown away")));
        make(&place, "x.tar");
        // Damaged while it is open: the kernel reads what it has.
        if !is_passed {
            let file = File::open(place.path("mnt/data/x.tar")).unwrap();
            flip(&copies(&place)[0]);
            let mut read = vec![0; fs::metadata(place.path("out/data/x.tar")).unwrap().len() as usize];
            file.read_exact_at(&mut read, 0).unwrap();
            assert!(read == fs::read(place.path("out/data/x.tar")).unwrap());
            drop(file);
            place.script("cmp mnt/data/x.tar out/data/x.tar");
            make(&place, "x.tar");
        }
        // Gone, with the whole cache.
        place.script("rm -r cache; cmp mnt/data/x.tar out/data/x.tar; cmp mnt/data/x.tar out/data/x.tar");
        place.unmount();
    }
    // No room.
    mount(&place, &["--merged-cache-size=8KiB"]);
    eventually("it is tried", || {
        place.script("cmp mnt/data/x.tar out/data/x.tar");
        place.status().log.iter().any(|line| line.contains("more than the cache may have"))
    });
    assert_eq!(merged(&place).built, 0);
    place.unmount();
}

#[test]
fn after_a_change_nobody_reads_what_was_there_before() {
    for (options, is_passed) in WAYS {
        for changed in ["game/data/x.tar", "mod/x.tar/8"] {
            for way in ["cp --remove-destination new \"$F\"", "cat new > \"$F\"", "rm \"$F\""] {
                let (place, what) = (Place::new(), format!("{changed}: {way}, {options:?}"));
                game(&place);
                let old = fs::read(place.path("out/data/x.tar")).unwrap();
                mount(&place, options);
                make(&place, "x.tar");
                let mut now = old.clone();
                let open = File::open(place.path("mnt/data/x.tar")).unwrap();
                place.script(&format!("F={changed}; head -c $(stat -c %s $F) /dev/urandom > new; {way}"));
                // All of one state: who has it open keeps what it was.
                open.read_exact_at(&mut now, 0).unwrap();
                assert!(now == old, "{what}");
                let reread = || match fs::read(place.path("mnt/data/x.tar")) {
                    Ok(bytes) => assert!(bytes != old, "{what}: old bytes"),
                    Err(error) => {
                        let known =
                            [libc::EIO, libc::ESTALE, libc::ENOENT].contains(&error.raw_os_error().unwrap());
                        assert!(known, "{what}: {error}");
                    }
                };
                reread();
                assert!(place.status().passed_through > 0 || !is_passed);
                drop(open);
                std::thread::sleep(std::time::Duration::from_millis(50));
                reread();
                place.unmount();
                if changed.starts_with("mod") {
                    // The next mount has what is there now.
                    place.script("rm -r out; $STOOK stitch routes game --write out --with mod");
                    mount(&place, options);
                    make(&place, "x.tar");
                    assert!(fs::read(place.path("mnt/data/x.tar")).unwrap() != old, "{what}");
                    place.unmount();
                }
            }
        }
    }
}
