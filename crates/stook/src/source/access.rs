//! [`AccessRule`]: direct or through the page cache, decided by what is cached.

use super::{Leaf, Source};
use crate::engine::{Access, CacheResidency, File};
use crate::extent::ByteRange;

/// This many ranges of a batch decide what to do with all of it.
pub(crate) const SAMPLED_RANGES: usize = 16;

/// The files at this many places of a range decide about all of it.
const SAMPLED_PLACES: u64 = 16;

/// Which way bytes take into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessRule {
    /// Ranges that are mostly in the page cache are read from there, others directly; gets of packs
    /// that fit into half of the free memory go through the page cache.
    #[default]
    Auto,
    /// Always directly.
    Direct,
    /// Always through the page cache.
    Cached,
}

impl AccessRule {
    /// What the rule says for a range of a source, which may be made of many files.
    pub fn decide(self, source: &dyn Source, range: ByteRange) -> Access {
        self.decide_for(source, std::slice::from_ref(&range))
    }

    /// The rule for single records of files that `fit` into memory or do not. If they do, each is
    /// read through the page cache, so that it is cached the next time: direct reads cache nothing,
    /// and repeated gets of the same few records would always wait for the device.
    pub(crate) fn decide_for_gets(
        self,
        source: &dyn Source,
        ranges: &[ByteRange],
        fit: impl FnOnce() -> bool,
    ) -> Access {
        if self == Self::Auto && fit() { Access::Cached } else { self.decide_for(source, ranges) }
    }

    /// What the rule says for a batch of ranges of a source: some of them speak for all, and of
    /// each some of the files that it is made of.
    pub(crate) fn decide_for(self, source: &dyn Source, ranges: &[ByteRange]) -> Access {
        match self {
            Self::Direct => return Access::Direct,
            Self::Cached => return Access::Cached,
            // Where bytes come by requests there is no page cache to be asked about, and resolving
            // a long range may fetch what is not wanted yet.
            Self::Auto if source.reads_by_request() => return Access::Cached,
            Self::Auto => {}
        }
        let (mut asked, mut cached) = (0, 0.0);
        let mut leaves = Vec::with_capacity(1);
        for range in ranges.iter().step_by(ranges.len().div_ceil(SAMPLED_RANGES).max(1)) {
            leaves.clear();
            // The read will fail with this error and report it.
            let Ok(()) = source.resolve(*range, &mut leaves) else { return Access::Cached };
            for Sampled { file, range, speaks_for } in sampled(&leaves) {
                let residency = CacheResidency::of(file, range);
                let Some(share) = residency.cached_share(range.len()) else { return Access::Cached };
                asked += speaks_for;
                cached += share * speaks_for as f64;
            }
        }
        if asked > 0 && cached < asked as f64 / 2.0 { Access::Direct } else { Access::Cached }
    }
}

/// A range of a file that is asked about.
struct Sampled<'a> {
    file: &'a File,
    range: ByteRange,
    /// How many of the bytes that are read from files.
    speaks_for: u64,
}

/// Of all that leaves read from files, those ranges in which some places lie that are equally far
/// from each other. What repeats, as a header before each member and a fill after it, does not
/// decide so which of the leaves are asked about, and long ones count for what they are.
fn sampled(leaves: &[Leaf]) -> Vec<Sampled<'_>> {
    let mut total = 0_u64;
    each_file(leaves, &mut |_, range| total = total.saturating_add(range.len()));
    let step = total.div_ceil(SAMPLED_PLACES).max(1);
    let (mut at, mut next) = (0_u64, step / 2);
    let mut found = Vec::with_capacity(1);
    each_file(leaves, &mut |file, range| {
        at = at.saturating_add(range.len());
        if next < at {
            let speaks_for = (at - next).div_ceil(step).saturating_mul(step);
            next = next.saturating_add(speaks_for);
            found.push(Sampled { file, range, speaks_for });
        }
    });
    found
}

/// All that is read from files for these leaves, checked ones included, in order.
fn each_file<'a>(leaves: &'a [Leaf], each: &mut dyn FnMut(&'a File, ByteRange)) {
    for leaf in leaves {
        match leaf {
            Leaf::File { file, range } => each(file, *range),
            Leaf::Checked { check, .. } => each_file(check.leaves(), each),
            Leaf::Bytes(_) | Leaf::Fill { .. } | Leaf::Object { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::error::Result;
    use crate::source::{Check, Identity, check_bounds};

    fn file(directory: &Path, name: &str, len: usize) -> Arc<File> {
        let path = directory.join(name);
        std::fs::write(&path, vec![7; len]).unwrap();
        Arc::new(File::open(path).unwrap())
    }

    fn whole(file: &Arc<File>) -> Leaf {
        Leaf::File { file: Arc::clone(file), range: ByteRange::to(file.len().unwrap()) }
    }

    fn names(leaves: &[Leaf]) -> Vec<(String, u64)> {
        let name = |file: &File| file.path().file_name().unwrap().to_str().unwrap().to_owned();
        sampled(leaves).into_iter().map(|one| (name(one.file), one.speaks_for)).collect()
    }

    /// What is below it is read from files.
    #[derive(Debug)]
    struct Below(Vec<Leaf>);

    impl Check for Below {
        fn path(&self) -> &Path {
            Path::new("below")
        }
        fn leaves(&self) -> &[Leaf] {
            &self.0
        }
        fn verify(&self, read: Bytes) -> Result<Bytes> {
            Ok(read)
        }
    }

    #[test]
    fn headers_and_fills_between_members_do_not_hide_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let mut leaves = Vec::new();
        for number in 0..48 {
            let member = file(directory.path(), &number.to_string(), 1000);
            let fill = Leaf::Fill { byte: 0, len: 24 };
            leaves.extend([Leaf::Bytes(Bytes::from_static(&[1; 512])), whole(&member), fill]);
        }
        let found = names(&leaves);
        assert_eq!(found.len(), SAMPLED_PLACES as usize);
        let all: u64 = found.iter().map(|(_, speaks_for)| speaks_for).sum();
        assert_eq!(all, 48_000);
        let asked: Vec<u32> = found.iter().map(|(name, _)| name.parse().unwrap()).collect();
        assert!(asked.iter().zip(0..).all(|(&asked, number)| asked == 3 * number + 1), "{asked:?}");
    }

    #[test]
    fn a_long_leaf_counts_for_its_length_and_what_is_checked_is_looked_into() {
        let directory = tempfile::tempdir().unwrap();
        let (short, long) = (file(directory.path(), "short", 10), file(directory.path(), "long", 160_000));
        let check = Arc::new(Below(vec![Leaf::Bytes(Bytes::from_static(b"sums")), whole(&long)]));
        let checked = Leaf::Checked { check, len: 160_000 };
        let leaves = [whole(&short), whole(&short), checked, whole(&short)];
        let found = names(&leaves);
        assert!(matches!(found.as_slice(), [(name, len)] if name == "long" && *len >= 160_000), "{found:?}");
        assert!(sampled(&[Leaf::Fill { byte: 0, len: 9 }]).is_empty());
    }

    /// Its leaves one after another, to be read as a whole.
    #[derive(Debug)]
    struct Joined(Vec<Leaf>);

    impl Source for Joined {
        fn path(&self) -> &Path {
            Path::new("joined")
        }
        fn len(&self) -> u64 {
            self.0.iter().map(Leaf::len).sum()
        }
        fn identity(&self) -> Identity {
            Identity { len: self.len(), ..Identity::default() }
        }
        fn current_identity(&self) -> Result<Identity> {
            Ok(self.identity())
        }
        fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
            check_bounds(self, range)?;
            assert_eq!(range.len(), self.len(), "it is read as a whole");
            leaves.extend(self.0.iter().cloned());
            Ok(())
        }
    }

    #[test]
    fn a_range_of_many_files_is_read_the_way_that_most_of_it_asks_for() {
        let directory = tempfile::tempdir().unwrap();
        let files: Vec<Arc<File>> =
            (0..8).map(|number| file(directory.path(), &number.to_string(), 100_000)).collect();
        for file in &files {
            file.sync_data().unwrap();
            file.drop_cached().unwrap();
        }
        let share = |file: &File| CacheResidency::of(file, ByteRange::to(100_000)).cached_share(100_000);
        // Some file systems are memory, and some kernels do not say.
        if files.iter().any(|file| share(file).is_none_or(|share| share > 0.1)) {
            return;
        }
        let joined = |files: &[Arc<File>]| {
            let member = |file: &Arc<File>| [Leaf::Bytes(Bytes::from_static(&[1; 4096])), whole(file)];
            Joined(files.iter().flat_map(member).collect())
        };
        let decided = |source: &Joined| AccessRule::Auto.decide(source, ByteRange::to(source.len()));
        assert_eq!(decided(&joined(&files)), Access::Direct);
        for file in &files[..6] {
            file.read_exact_at(&mut vec![0; 100_000], 0).unwrap();
        }
        assert_eq!(decided(&joined(&files)), Access::Cached);
        assert_eq!(decided(&joined(&files[5..])), Access::Direct, "two of three are not there");
    }
}
