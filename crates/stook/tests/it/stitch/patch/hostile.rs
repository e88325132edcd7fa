//! Archives that were cut off, or lie: an error or the right bytes, never anything else.

use std::fs;

use proptest::prelude::*;
use stook::tree::CaseRule;

use super::{folder, in_memory, patched, script};
use crate::stitch::read_through;

/// A small tar, zip and AFS with the same members.
fn archives() -> Vec<(&'static str, Vec<u8>)> {
    let place = tempfile::tempdir().unwrap();
    let make = "mkdir -p x/d; printf one > x/one; printf two > x/d/two; head -c 600 /dev/zero > x/three
        printf deleted > x/four; ln -s one x/link; ln x/one x/same; head -c 120 /dev/zero | tr '\\0' n > name
        printf long > x/$(cat name)
        tar -C x --format=pax --mtime=@1.5 -b1 -cf x.tar d link four one same three $(cat name)
        tar -C x --format=gnu -b1 -cf y.tar d link four one same three $(cat name)
        (cd x; zip -qr ../x.zip d four one three; zip -qr - d four one three | cat > ../y.zip
         zip -qr -fz ../z.zip d four one three)";
    script(place.path(), make);
    let mut all: Vec<(&'static str, Vec<u8>)> = ["x.tar", "y.tar", "x.zip", "y.zip", "z.zip"]
        .map(|name| (name, fs::read(place.path().join(name)).unwrap()))
        .to_vec();
    let bodies = [Some(b"one".to_vec()), Some(b"two".to_vec()), None, Some(vec![0; 600])];
    let detail = |name: &str| stook::format::afs::Detail::new(name.as_bytes(), 0, 3).unwrap();
    let details = ["one", "four", "d", "three"].map(detail);
    all.push(("x.afs", crate::afs::written(&bodies, Some(&details))));
    all
}

fn over() -> tempfile::TempDir {
    folder(&[("three", b"3"), ("four.del", b"")])
}

#[test]
fn archives_that_were_cut_off_anywhere_are_refused_or_right() {
    let over = over();
    for (name, bytes) in archives() {
        let mut right = 0;
        for len in 0..bytes.len() {
            let archive = in_memory(&bytes[..len]);
            let laid = patched(archive.clone(), &[over.path()], CaseRule::Exact);
            let Ok(laid) = laid else { continue };
            // What is left of it is a whole archive: zeroes at the end are not needed.
            right += 1;
            read_through(&laid.file).unwrap();
            let same = patched(archive, &[], CaseRule::Exact).unwrap();
            assert!(read_through(&same.file).unwrap() == bytes[..len], "{name} {len}");
            assert!(!name.ends_with("zip"), "{name} {len}");
            let zeroes = bytes[len..].iter().all(|byte| *byte == 0);
            assert!(zeroes || name == "x.afs", "{name} {len}");
        }
        assert!(right > 0 || name.ends_with("zip"), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_stands_in_an_archive_it_is_patched_or_refused(
        which in 0..6_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..4),
    ) {
        thread_local! {
            static ARCHIVES: (Vec<(&'static str, Vec<u8>)>, tempfile::TempDir) = (archives(), over());
        }
        ARCHIVES.with(|(archives, over)| {
            let mut bytes = archives[which].1.clone();
            for (at, byte, is_whole) in &changes {
                let at = at.index(bytes.len());
                let to = if *is_whole { (at + 4).min(bytes.len()) } else { at + 1 };
                bytes[at..to].fill(*byte);
            }
            if archives[which].0.ends_with("tar") {
                mend(&mut bytes);
            }
            if let Ok(same) = patched(in_memory(&bytes), &[], CaseRule::Exact) {
                assert!(read_through(&same.file).unwrap() == bytes);
            }
            if let Ok(laid) = patched(in_memory(&bytes), &[over.path()], CaseRule::Exact) {
                let whole = read_through(&laid.file).unwrap();
                // It is an archive of that kind again, and nothing is left to change in it.
                let again = patched(in_memory(&whole), &[], CaseRule::Exact);
                assert!(again.is_ok_and(|again| again.file.pieces() >= 1));
            }
        });
    }
}

/// Makes the checksums of headers right again.
fn mend(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512) {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}

#[test]
fn numbers_without_bound_cost_nothing() {
    let over = over();
    for (name, good) in archives() {
        let step = if name.ends_with("tar") { 512 } else { good.len() };
        for start in (0..good.len()).step_by(step) {
            let mut bytes = good.clone();
            match name.rsplit('.').next().unwrap() {
                "tar" => bytes[start + 124..start + 136]
                    .copy_from_slice(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"),
                "zip" => {
                    let end = good.windows(4).rposition(|four| four == b"PK\x05\x06").unwrap();
                    bytes[end + 8..end + 20].fill(0xff);
                }
                _ => bytes[4..8].fill(0xff),
            }
            if name.ends_with("tar") {
                mend(&mut bytes);
            }
            if let Ok(laid) = patched(in_memory(&bytes), &[over.path()], CaseRule::Exact) {
                read_through(&laid.file).unwrap();
            }
        }
    }
}
