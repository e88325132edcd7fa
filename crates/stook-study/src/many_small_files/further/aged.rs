//! A tree as it becomes in use: its files were written in turn with others, out of order, and a
//! part of them was deleted and written again, into what others had left.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::super::numbered;
use crate::sample::{self, Sample};

/// After this many parts of the files what was written is put onto the medium: a file system that
/// sees all of it at once lays it out as if it had come in order.
const PARTS: u64 = 16;

/// Of this many files one is written again.
const REWRITTEN: u64 = 2;

/// Of this many others one stays until the end, so that what is free lies in pieces.
const LEFT: u64 = 3;

/// Makes the tree with the records of the sample, if it is not there. `before_each` is called
/// before every file.
///
/// # Errors
/// Returns an error if writing fails, or the error of `before_each`, which ends it.
pub(super) fn make_tree(
    tree: &Path,
    sample: Sample,
    before_each: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if tree.is_dir() {
        return Ok(());
    }
    let partial = tree.with_extension("aged.partial");
    sample::remove(&partial)?;
    let [own, others] = ["own", "others"].map(|name| partial.join(name));
    for directory in [&own, &others] {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    let is_rewritten = |number: u64| number.is_multiple_of(REWRITTEN);
    write(&[&own, &others], sample, |_| true, &before_each)?;
    remove(&own, sample, is_rewritten, &before_each)?;
    remove(&others, sample, |number| !number.is_multiple_of(LEFT), &before_each)?;
    sample::sync(&partial)?;
    write(&[&own], sample, is_rewritten, &before_each)?;
    sample::remove(&others)?;
    sample::sync(&partial)?;
    sample::check_whole(&own, sample.files)?;
    fs::rename(&own, tree).with_context(|| format!("cannot rename {}", own.display()))?;
    sample::remove(&partial)
}

/// How often [`make_tree`] calls `before_each`.
pub(super) fn pieces(sample: Sample) -> u64 {
    let files = sample.files;
    files + 2 * files.div_ceil(REWRITTEN) + (files - files.div_ceil(LEFT))
}

/// Writes those of the files into each of the trees, in turn and out of order.
fn write(
    trees: &[&Path],
    sample: Sample,
    wanted: impl Fn(u64) -> bool,
    before_each: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut data, mut record) = (Vec::new(), Vec::new());
    let part = sample.files.div_ceil(PARTS).max(1);
    for (turn, number) in (1_u64..).zip(shuffled(sample.files)) {
        if wanted(number) {
            before_each()?;
            numbered::record(number, sample.size, &mut data, &mut record)?;
            for tree in trees {
                numbered::write_file(&tree.join(numbered::path_of(number, sample.files)), &record)?;
            }
        }
        if turn.is_multiple_of(part) || turn == sample.files {
            trees.first().map_or(Ok(()), |tree| sample::sync(tree))?;
        }
    }
    Ok(())
}

fn remove(
    tree: &Path,
    sample: Sample,
    wanted: impl Fn(u64) -> bool,
    before_each: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for number in (0..sample.files).filter(|number| wanted(*number)) {
        before_each()?;
        sample::remove(&tree.join(numbered::path_of(number, sample.files)))?;
    }
    Ok(())
}

/// All numbers below `count`, in an order in which neighbours are far from each other.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    // Steps of a number that has no common divisor with the count reach every number once; of the
    // golden section of the count, never soon a neighbour of one that was reached before.
    let mut step = ((count as f64 * 0.618) as u64).max(1);
    while common_divisor(step, count) > 1 {
        step += 1;
    }
    // Both have 31 bits at most.
    (0..count).map(move |turn| turn * step % count)
}

fn common_divisor(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { common_divisor(right, left % right) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rustix::fs::Advice;

    use super::*;

    #[test]
    fn every_number_comes_once_and_far_from_the_one_before() {
        for count in [1, 2, 3, 10, 123, 50_000] {
            let mut all: Vec<u64> = shuffled(count).collect();
            if count > 10 {
                assert!(all.windows(2).all(|two| two[0].abs_diff(two[1]) > count / 4), "{count}");
            }
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
        assert_eq!(shuffled(0).count(), 0);
    }

    #[test]
    fn an_aged_tree_has_the_records_of_a_fresh_one_and_leaves_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let sample = Sample { files: 123, size: 77 };
        let tree = place.path().join("a.aged");
        let written = Cell::new(0);
        let count = || {
            written.set(written.get() + 1);
            Ok(())
        };
        make_tree(&tree, sample, count).unwrap();
        // All once, half of them deleted and written again, and two thirds of the others deleted.
        assert_eq!(written.get(), 123 + 62 + 82 + 62);
        let fresh = place.path().join("a.tree");
        numbered::make_tree(&fresh, sample, || Ok(())).unwrap();
        let read = |tree: &Path| {
            let all = std::cell::RefCell::new(Vec::new());
            let keep = |key: &[u8], _, bytes: &[u8]| all.borrow_mut().push((key.to_vec(), bytes.to_vec()));
            numbered::read_files(tree, 123, Advice::Normal, keep).unwrap();
            all.into_inner()
        };
        assert_eq!(read(&tree), read(&fresh));
        let left = fs::read_dir(place.path()).unwrap().count();
        assert_eq!(left, 2);
        make_tree(&tree, sample, || panic!("it is there")).unwrap();
    }

    #[test]
    fn what_was_stopped_is_not_taken_for_a_tree_and_is_made_again() {
        let place = tempfile::tempdir().unwrap();
        let (tree, sample) = (place.path().join("a.aged"), Sample { files: 20, size: 9 });
        let left = Cell::new(30);
        let stop = || {
            left.set(left.get() - 1);
            anyhow::ensure!(left.get() > 0, "stopped");
            Ok(())
        };
        assert_eq!(make_tree(&tree, sample, stop).unwrap_err().to_string(), "stopped");
        assert!(!tree.exists());
        make_tree(&tree, sample, || Ok(())).unwrap();
        let all = numbered::read_files(&tree, 20, Advice::Normal, |_, _, _| {}).unwrap();
        assert_eq!(all, (20, 20 * 17));
    }
}
