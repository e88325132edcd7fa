//! [`Scan`]: what a tree consists of, in memory that does not grow with it.
//!
//! Of names only a bounded number is kept, drawn so that every file, or every byte, is as likely
//! as any other (P. Efraimidis and P. Spirakis, *Weighted Random Sampling with a Reservoir*, 2006).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::model::LengthClasses;
use super::{AdviseError, Stopping};
use crate::walk::{Content, Kind, Status, Walk, WalkEvent, WalkOptions};

/// Names that are drawn by files, and by bytes.
pub(super) const DRAWN_MAX: usize = 96;
/// Names of what could not be looked at that are kept as examples.
const EXAMPLES_MAX: usize = 3;
/// Characters that are kept of such an error.
const EXAMPLE_LEN_MAX: usize = 300;

/// What a tree consists of.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// Directories, the tree itself included.
    pub directories: u64,
    /// Names of regular files.
    pub names: u64,
    /// Names of files that have several.
    pub hard_links: u64,
    /// Links, which are not followed.
    pub symlinks: u64,
    /// Pipes, sockets and devices, which are not opened.
    pub specials: u64,
    /// The deepest file: directories above it within the tree.
    pub depth_max: u64,
    /// Bytes that files take on the medium, as the file system reports.
    pub stored_bytes: f64,
    /// Lengths of files.
    pub classes: LengthClasses,
    /// What could not be looked at.
    pub unreadable: u64,
    /// The first of these, with what is wrong.
    pub examples: Vec<String>,
    by_files: Reservoir,
    by_bytes: Reservoir,
}

impl Scan {
    /// Adds a name of a regular file.
    pub fn add(&mut self, key: &[u8], status: &Status) {
        let links = f64::from(status.node.links.max(1));
        let len = status.node.len;
        self.names += 1;
        self.hard_links += u64::from(status.node.links > 1);
        self.depth_max = self.depth_max.max(key.iter().filter(|byte| **byte == b'/').count() as u64);
        // All names of a file taken together count as one: those outside of the tree are missed.
        self.classes.add(len, 1.0 / links);
        self.stored_bytes += status.stored_len as f64 / links;
        self.by_files.offer(key, 1.0);
        self.by_bytes.offer(key, len as f64);
    }

    /// Names of files, each as likely as any other.
    pub fn drawn_by_files(&self) -> Vec<&[u8]> {
        self.by_files.keys()
    }

    /// Names of files, each as likely as it is long.
    pub fn drawn_by_bytes(&self) -> Vec<&[u8]> {
        self.by_bytes.keys()
    }

    fn event(&mut self, event: WalkEvent) {
        match event {
            Ok(item) => match item.kind() {
                Kind::Directory => self.directories += 1,
                Kind::File => self.add(&item.key, &item.status),
                Kind::Symlink => self.symlinks += 1,
                _ => self.specials += 1,
            },
            Err(error) => {
                self.unreadable += 1;
                if self.examples.len() < EXAMPLES_MAX {
                    let text = crate::error::chain(&error.into_error());
                    self.examples.push(text.chars().take(EXAMPLE_LEN_MAX).collect());
                }
            }
        }
    }
}

/// Looks at everything in a tree, or at one file. No file is opened. `found` is called with how
/// many names there were so far.
///
/// # Errors
/// [`AdviseError::Core`] where the tree cannot be opened, and [`AdviseError::Interrupted`].
pub fn scan(tree: &Path, threads: usize, stopping: Stopping<'_>) -> Result<Scan, AdviseError> {
    let scan = Mutex::new(Scan::default());
    let options = WalkOptions { threads, read_up_to: 0, ..WalkOptions::default() };
    // Nothing is read, so that nothing is opened either: a pipe without a writer would wait.
    let walk = Walk::new([tree])?.options(options).wanted(|_| false);
    walk.visit(|event| {
        debug_assert!(!matches!(&event, Ok(item) if matches!(item.content, Content::Bytes(_))));
        scan.lock().unwrap_or_else(PoisonError::into_inner).event(event);
        if stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if stopping() {
        return Err(AdviseError::Interrupted);
    }
    let mut scan = scan.into_inner().unwrap_or_else(PoisonError::into_inner);
    scan.directories = scan.directories.max(u64::from(tree.is_dir()));
    Ok(scan)
}

/// Where a file of a scan is.
pub(super) fn path_of(tree: &Path, key: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    match tree.is_dir() {
        true => tree.join(std::ffi::OsStr::from_bytes(key)),
        false => tree.to_path_buf(),
    }
}

/// Keys, drawn with a probability that grows with their weight: those with the least −ln(u) ÷
/// weight stay.
#[derive(Debug, Clone, Default)]
struct Reservoir {
    kept: BinaryHeap<Drawn>,
    random: u64,
}

#[derive(Debug, Clone)]
struct Drawn {
    rank: f64,
    key: Vec<u8>,
}

impl Reservoir {
    fn offer(&mut self, key: &[u8], weight: f64) {
        let share = self.share();
        if weight <= 0.0 {
            return;
        }
        let rank = -share.ln() / weight;
        if self.kept.len() < DRAWN_MAX {
            self.kept.push(Drawn { rank, key: key.to_vec() });
        } else if let Some(mut last) = self.kept.peek_mut()
            && rank < last.rank
        {
            last.rank = rank;
            last.key.clear();
            last.key.extend_from_slice(key);
        }
    }

    /// Above 0, at most 1 (the splitmix64 generator).
    fn share(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn keys(&self) -> Vec<&[u8]> {
        // By rank: any number of the first is a sample as well.
        let mut drawn: Vec<&Drawn> = self.kept.iter().collect();
        drawn.sort();
        drawn.into_iter().map(|drawn| drawn.key.as_slice()).collect()
    }
}

impl PartialEq for Drawn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Drawn {}

impl PartialOrd for Drawn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Drawn {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.total_cmp(&other.rank).then_with(|| self.key.cmp(&other.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Node;

    fn status(len: u64, links: u32) -> Status {
        let node = Node { kind: Kind::File, mode: None, mtime_ns: None, owner: None, len, links, device: 0 };
        Status { node, device: 1, inode: 1, ctime_ns: 1, stored_len: len }
    }

    #[test]
    fn ten_million_names_are_counted_in_memory_that_does_not_grow() {
        let (mut scan, status) = (Scan::default(), status(4096, 1));
        let mut key = *b"some/directory/00000000.txt";
        for number in 0..10_000_000_u32 {
            let mut rest = number;
            for digit in key[15..23].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            scan.add(&key, &status);
        }
        assert_eq!((scan.names, scan.depth_max), (10_000_000, 2));
        assert_eq!(scan.classes.files(), 1e7);
        let kept: usize = [&scan.by_files, &scan.by_bytes]
            .iter()
            .flat_map(|kept| &kept.kept)
            .map(|one| one.key.capacity())
            .sum();
        assert!(kept <= 2 * DRAWN_MAX * 64, "{kept} bytes of names are kept");
        // Drawn from all of it: 96 numbers of which none is above nine millions are no sample.
        let drawn = scan.drawn_by_files();
        assert_eq!(drawn.len(), DRAWN_MAX);
        let above = drawn.iter().filter(|key| key[16] == b'9').count();
        assert!((1..40).contains(&above), "{above} of {DRAWN_MAX} from the last tenth");
    }

    #[test]
    fn bytes_decide_which_of_few_large_files_are_drawn() {
        let mut scan = Scan::default();
        for number in 0..2000 {
            scan.add(format!("small/{number}").as_bytes(), &status(10, 1));
        }
        scan.add(b"large", &status(1 << 30, 1));
        scan.add(b"empty", &status(0, 1));
        assert_eq!(scan.drawn_by_bytes().first(), Some(&&b"large"[..]));
        assert!(!scan.drawn_by_bytes().contains(&&b"empty"[..]));
    }

    #[test]
    fn names_of_one_file_are_one_file() {
        let mut scan = Scan::default();
        (0..4).for_each(|number| scan.add(format!("name{number}").as_bytes(), &status(4096, 4)));
        assert_eq!((scan.names, scan.hard_links), (4, 4));
        assert_eq!((scan.classes.files(), scan.stored_bytes), (1.0, 4096.0));
    }
}
