//! Pages of a large member: what is damaged in it costs no more than itself.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use super::Place;

const CHUNK: u64 = 64 << 10;
const PAGE: u64 = 4 << 10;
const LEN: u64 = 40 * CHUNK + 3 * PAGE + 17;

/// A pack with one large member, and the bytes of that.
fn made(place: &Place) -> Vec<u8> {
    let mut seed = 1_u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u8
    })
    .take(LEN as usize)
    .collect();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/large"), &bytes).unwrap();
    place.stook(&["pack", "tree", "large.stook", "--quiet"]);
    bytes
}

/// The member, of which the kernel reads ahead nothing by itself.
fn opened(place: &Place) -> File {
    let file = File::open(place.mountpoint().join("large")).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    file
}

#[test]
fn a_damaged_chunk_costs_itself() {
    let place = Place::new();
    let bytes = made(&place);
    let segment = place.script("find large.stook -type f -size +100k");
    let segment = place.path(segment.trim());
    let mut stored = fs::read(&segment).unwrap();
    let needle = &bytes[(5 * CHUNK) as usize..][..64];
    let at = stored.windows(needle.len()).position(|window| window == needle).unwrap();
    stored[at + 9] ^= 1;
    fs::write(&segment, stored).unwrap();
    place.mount(&["large.stook"]);
    let file = opened(&place);
    let mut read = [0; PAGE as usize];
    for page in 0..CHUNK / PAGE {
        let error = file.read_exact_at(&mut read, 5 * CHUNK + page * PAGE).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    }
    for at in [5 * CHUNK - PAGE, 6 * CHUNK] {
        file.read_exact_at(&mut read, at).unwrap();
        assert!(read == bytes[at as usize..][..read.len()]);
    }
    drop(file);
    place.unmount();
}
