//! Whether a merged copy pays: many small parts, of a medium on which each costs a way.

use crate::profile::{Class, Profile};
use crate::source::Source;
use crate::stitch::file::VirtualFile;
use crate::stitch::pieces::Piece;

/// Which files are merged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MergeRule {
    /// Short ones of many short parts, where the medium of these is known to take long for each:
    /// disks that rotate, and others of which that was measured.
    #[default]
    Auto,
    /// All.
    Always,
    /// None: nothing is looked for, either.
    Never,
}

/// Longer files are read at the speed of their medium, or nearly.
const LEN_MAX: u64 = 32 << 20;
/// So are those whose parts are as long as this on average.
const PART_LEN_MAX: u64 = 1 << 20;
/// Fewer parts are soon read.
const PARTS_MIN: u64 = 8;
/// Reading all of it has to take this many times as long as reading one file,
const GAIN_MIN: f64 = 2.0;
/// and so much longer.
const SAVED_MIN_S: f64 = 0.02;

/// The parts of bodies that a file has, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    parts: u64,
    bytes: u64,
}

/// Whether its length and its parts are such that a merged copy may pay.
fn may_pay(len: u64, shape: Shape) -> bool {
    len < LEN_MAX && shape.parts >= PARTS_MIN && shape.bytes / shape.parts < PART_LEN_MAX
}

/// Whether it pays on this medium.
fn pays(profile: &Profile, shape: Shape) -> bool {
    if profile.class == Class::Object {
        // The cache of remote files has their bytes already.
        return false;
    }
    let measured = &profile.measured;
    let (Some(sequential), Some(random)) = (measured.sequential_bytes_per_s, measured.random_reads_per_s)
    else {
        return profile.class == Class::Rotating;
    };
    let parts = shape.parts as f64;
    let open = measured.open_ns.map_or(0.0, |ns| ns as f64 * 1e-9 / profile.opens.max(1) as f64);
    let whole = shape.bytes as f64 / sequential;
    let apart = parts * open + (parts / random).max(whole);
    apart >= whole * GAIN_MIN && apart - whole >= SAVED_MIN_S
}

/// Whether a file is one of those that [`MergeRule::Auto`] means. Of its bodies, the first, one in
/// the middle and the last are opened, if its length and parts are right: those of one archive
/// rarely lie on more than one medium.
pub(super) fn is_meant(file: &VirtualFile, numbers: &[u32]) -> bool {
    let mut shape = Shape { parts: 0, bytes: 0 };
    for (piece, len) in file.pieces_in_order() {
        if matches!(piece, Piece::Body { .. }) {
            shape.parts = shape.parts.saturating_add(1);
            shape.bytes = shape.bytes.saturating_add(len);
        }
    }
    let sample = [numbers.first(), numbers.get(numbers.len() / 2), numbers.last()];
    may_pay(file.len(), shape)
        && sample.into_iter().flatten().any(|number| {
            // What cannot be opened is an error for who reads it.
            file.bodies().get(*number).is_ok_and(|source| pays(&Profile::of(&*source), shape))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Measured;

    const SMALL: Shape = Shape { parts: 512, bytes: 512 * (16 << 10) };

    fn measured(sequential: f64, random: f64, open_ns: u64) -> Profile {
        let measured = Measured {
            sequential_bytes_per_s: Some(sequential),
            random_reads_per_s: Some(random),
            open_ns: Some(open_ns),
            ..Measured::NOTHING
        };
        Profile::new(Class::Local, measured)
    }

    #[test]
    fn short_files_of_many_short_parts_may_be_merged() {
        let of = |parts, bytes| Shape { parts, bytes };
        assert!(may_pay(8 << 20, SMALL));
        assert!(!may_pay(32 << 20, SMALL) && may_pay((32 << 20) - 1, SMALL));
        assert!(!may_pay(31 << 20, of(16, 16 << 20)) && may_pay(31 << 20, of(17, 16 << 20)));
        assert!(!may_pay(100, of(0, 0)) && !may_pay(100, of(7, 70)) && may_pay(100, of(8, 80)));
    }

    #[test]
    fn it_pays_where_each_part_takes_a_way() {
        assert!(pays(&Profile::ROTATING, SMALL));
        for class in [Profile::LOCAL, Profile::NETWORK, Profile::OBJECT] {
            assert!(!pays(&class, SMALL), "{class:?}");
        }
        // A slow disk that was measured, whatever it is; one that is fast; a file server.
        assert!(pays(&measured(150e6, 150.0, 10_000_000), SMALL));
        assert!(!pays(&measured(3.5e9, 500_000.0, 100_000), SMALL));
        assert!(pays(&measured(100e6, 5_000.0, 20_000_000), SMALL));
        // Where little is saved, it is not worth a copy.
        assert!(!pays(&measured(3.5e9, 100_000.0, 1_000_000), Shape { parts: 100, bytes: 100 }));
    }
}
