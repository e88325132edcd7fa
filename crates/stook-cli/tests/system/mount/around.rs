//! What of a large member is put into the page cache beside what was asked for.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use super::{Place, eventually};

const CHUNK: u64 = 64 << 10;
const PAGE: u64 = 4 << 10;
/// Some more than a whole number of chunks, and of pages.
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
fn the_rest_of_a_chunk_needs_no_request() {
    let place = Place::new();
    let bytes = made(&place);
    place.mount(&["large.stook"]);
    let file = opened(&place);
    let page = |at: u64| {
        let mut read = vec![0; PAGE.min(LEN - at) as usize];
        file.read_exact_at(&mut read, at).unwrap();
        assert!(read == bytes[at as usize..][..read.len()], "other bytes at {at}");
    };
    // In the middle, at the beginning, at the end of a chunk, and in the last one, which is short.
    let asked = [3 * CHUNK + 5 * PAGE, 7 * CHUNK, 10 * CHUNK - PAGE, 40 * CHUNK + PAGE];
    asked.iter().for_each(|at| page(*at));
    let wanted = 3 * (CHUNK - PAGE) + LEN % CHUNK - PAGE;
    eventually("the rest is put there", || place.status().pushed.chunk_bytes == wanted);
    let before = place.status().requests.read;
    assert_eq!(before, 4);
    for at in asked {
        let chunk = at / CHUNK * CHUNK;
        (chunk..LEN.min(chunk + CHUNK)).step_by(PAGE as usize).for_each(page);
    }
    assert_eq!(place.status().requests.read, before, "all of it is in memory");
    // And so is what nobody asked for yet, in whatever order.
    (0..LEN.div_ceil(PAGE)).map(|at| at * 7919 % LEN.div_ceil(PAGE) * PAGE).for_each(page);
    drop(file);
    place.unmount();
    place.mount(&["large.stook", "--no-push"]);
    let file = opened(&place);
    let mut read = [0; PAGE as usize];
    for at in [3 * CHUNK, 3 * CHUNK + PAGE] {
        file.read_exact_at(&mut read, at).unwrap();
    }
    let status = place.status();
    assert_eq!((status.requests.read, status.pushed.chunk_bytes), (2, 0));
    drop(file);
    place.unmount();
}

#[test]
fn direct_reads_bring_nothing_into_the_page_cache() {
    let place = Place::new();
    let bytes = made(&place);
    place.mount(&["large.stook"]);
    place.script("dd if=mnt/large of=copy iflag=direct bs=4096 count=64 status=none");
    assert!(fs::read(place.path("copy")).unwrap() == bytes[..64 * PAGE as usize]);
    let status = place.status();
    assert_eq!((status.requests.read, status.pushed.chunk_bytes), (64, 0));
    place.unmount();
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
