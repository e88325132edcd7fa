//! Every bit of every file of a small pack, flipped: it is reported, or it does no harm.

use std::collections::BTreeMap;

use stook::pack::PackWriter;
use stook_testing::model::pack::{WAYS, open_simulated, read_in_every_way};
use stook_testing::sweep::stride;

use super::damage::{Outcome, options, outcome, shared, small, storage_with};

/// Bits to flip: all of bytes near any that is not zero, one bit of every 37th byte of spans of
/// zeros.
fn bits(bytes: &[u8]) -> impl Iterator<Item = usize> {
    (0..bytes.len() * 8).filter(|&bit| {
        let at = bit / 8;
        let near = &bytes[at.saturating_sub(2)..(at + 3).min(bytes.len())];
        near.iter().any(|&byte| byte != 0) || (at % 37 == 0 && bit % 8 == at % 8)
    })
}

#[test]
fn a_flipped_bit_is_reported_or_does_no_harm() {
    let small = small();
    let stride = stride(7);
    let mut counts = BTreeMap::<&str, [usize; 3]>::new();
    for (name, bytes) in small.files.iter().filter(|(name, _)| *name != "writer.lock") {
        let kind = name.split('-').next().unwrap();
        for bit in bits(bytes).step_by(stride) {
            let mut hit = bytes.clone();
            hit[bit / 8] ^= 1 << (bit % 8);
            let what = format!("bit {} of byte {} of {name}", bit % 8, bit / 8);
            let storage = storage_with(&small.files, name, Some(&hit));
            let which = match outcome(&storage, &small, &what) {
                Outcome::Refused => 0,
                Outcome::Reported => 1,
                Outcome::Harmless => 2,
            };
            counts.entry(kind).or_default()[which] += 1;
            let harmless = which == 2;
            let may_be = kind == "checkpoint" || kind == "segment";
            assert!(!harmless || may_be, "{what}: not reported");
            assert!(kind != "checkpoint" || harmless, "{what}: a checkpoint is not worth a word");
        }
    }
    // What nothing depends on is padding between frames and before an index.
    assert!(counts["segment"][1] > 10 * counts["segment"][2], "{counts:?}");
    // A bit in a segment never keeps the others from being read.
    assert!(counts["segment"][0] == 0, "{counts:?}");
    // What is there twice is never lost by one bit.
    assert!(counts["manifest"][0] == 0 && counts["manifest"][1] > 2000 / stride, "{counts:?}");
    assert!(counts["deletes"][0] == 0 && counts["deletes"][1] > 800 / stride, "{counts:?}");
}

#[test]
fn a_writer_never_changes_a_byte_of_a_damaged_segment() {
    let small = small();
    let segments: Vec<_> = small.files.iter().filter(|(name, _)| name.starts_with("segment-")).collect();
    for (name, bytes) in segments {
        for bit in bits(bytes).step_by(97) {
            let mut hit = bytes.clone();
            hit[bit / 8] ^= 1 << (bit % 8);
            let storage = storage_with(&small.files, name, Some(&hit));
            let Ok(pack) = open_simulated(&storage) else { continue };
            let damaged = !pack.damages().is_empty();
            let before = read_in_every_way(&pack, &small.keys).given.len();
            let Ok(mut writer) = PackWriter::open(shared(&storage), options()) else { continue };
            if writer.put("c", &super::damage::key(0), &Default::default(), b"new").is_err() {
                continue;
            }
            writer.sync().unwrap();
            drop(writer);
            let what = format!("bit {} of byte {} of {name}", bit % 8, bit / 8);
            let now = stook_testing::conformance::contents(&storage, name);
            assert!(!damaged || now == hit, "{what}: the segment was changed");
            let pack = open_simulated(&storage).unwrap();
            assert_eq!(pack.get(&super::damage::key(0)).unwrap().unwrap().body, b"new".as_slice(), "{what}");
            let after = read_in_every_way(&pack, &small.keys).given.len();
            assert_eq!(after, before + WAYS, "{what}: nothing that was there went");
        }
    }
}
