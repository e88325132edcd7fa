//! [`Granularity`]: how finely a file system keeps modification times.
//!
//! FAT keeps every other second. A file that was copied there has an earlier time than its source,
//! and is the same all the same.

/// A number of nanoseconds of which times are multiples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granularity(i64);

/// Those that there are, from fine to coarse: NTFS has 100 ns, UDF 1 µs, SMB servers of old 1 ms,
/// exFAT 10 ms, ext3 and HFS+ a second, FAT two.
const KNOWN_NS: [i64; 6] = [100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000];

impl Granularity {
    /// Every nanosecond.
    pub(crate) const EXACT: Self = Self(1);

    /// A time that is a multiple of none: an odd second, and a fraction without a zero at its end.
    pub(crate) const PROBE_NS: i64 = 1_234_567_891_987_654_321;

    /// That of a kind of file system, by the number of `statfs(2)`, where all of that kind have it.
    pub(crate) fn of_kind(kind: u32) -> Option<Self> {
        match kind {
            // FAT, exFAT, and NTFS by the driver of the kernel.
            0x4D44 => Some(Self(2_000_000_000)),
            0x2011_BAB0 => Some(Self(10_000_000)),
            0x7366_746E => Some(Self(100)),
            _ => None,
        }
    }

    /// The one by which the probe became this. What no known one explains is taken for exact.
    pub(crate) fn of_probe(kept_ns: i128) -> Self {
        let explains = |ns: &i64| i128::from(Self(*ns).kept(Self::PROBE_NS)) == kept_ns;
        KNOWN_NS.into_iter().find(explains).map_or(Self::EXACT, Self)
    }

    /// Whether a file system that keeps times coarsely could have made this time that one.
    pub(crate) fn may_explain(ns: i64, kept_ns: i128) -> bool {
        i128::from(ns) != kept_ns && KNOWN_NS.iter().any(|known| i128::from(Self(*known).kept(ns)) == kept_ns)
    }

    /// What becomes of a time.
    pub(crate) fn kept(self, ns: i64) -> i64 {
        ns.saturating_sub(ns.rem_euclid(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_granularity_is_known_by_what_became_of_the_probe() {
        for known in KNOWN_NS {
            let granularity = Granularity(known);
            assert_eq!(Granularity::of_probe(granularity.kept(Granularity::PROBE_NS).into()), granularity);
        }
        let probe = i128::from(Granularity::PROBE_NS);
        assert_eq!(Granularity::of_probe(probe), Granularity::EXACT);
        assert_eq!(Granularity::of_probe(0), Granularity::EXACT, "a file system without times");
    }

    #[test]
    fn only_an_earlier_time_of_the_same_step_is_explained() {
        let (two_s, ns) = (Granularity::of_kind(0x4D44).unwrap(), 7_123_456_789);
        assert_eq!((two_s.kept(ns), two_s.kept(-1)), (6_000_000_000, -2_000_000_000));
        for kept in [6_000_000_000, 7_000_000_000, 7_120_000_000, 7_123_456_700] {
            assert!(Granularity::may_explain(ns, kept), "{kept}");
        }
        for kept in [i128::from(ns), 8_000_000_000, 5_000_000_000, 6_500_000_000, 7_123_456_788] {
            assert!(!Granularity::may_explain(ns, kept), "{kept}");
        }
    }
}
