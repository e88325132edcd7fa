//! [`Expected`]: what lists say of the files of a tree, in as little memory as the lists take.

use std::cmp::Ordering;

use super::report::Difference;
use crate::hash::{Digest, HashKind};

/// Marks a line that says how long its file is.
const HAS_LEN: u8 = 0x80;

/// What lists say of files: for each path the lines of the newest list that has it. It takes the
/// bytes of paths and digests, and 24 bytes for each line.
#[derive(Debug, Default)]
pub struct Expected {
    /// Each line: the path, how many digests, perhaps a length, the digests.
    bytes: Vec<u8>,
    /// In the order of paths; of each path only those of the highest rank.
    lines: Vec<Line>,
    paths: usize,
}

/// Where a line is.
#[derive(Debug, Clone, Copy)]
struct Line {
    start: usize,
    path_len: usize,
    rank: i64,
}

impl Line {
    fn path<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start..).and_then(|rest| rest.get(..self.path_len)).unwrap_or_default()
    }

    /// What follows the path, and everything after it.
    fn body<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start..).and_then(|rest| rest.get(self.path_len..)).unwrap_or_default()
    }
}

/// Takes lines of lists.
#[derive(Debug, Default)]
pub struct ExpectedBuilder {
    bytes: Vec<u8>,
    lines: Vec<Line>,
}

impl ExpectedBuilder {
    /// A line: the path of a file, its length if the list says it, and its digest; several digests
    /// where it is one of them, and the list does not say of which function. Only the lines of the
    /// highest rank count of a path, and a file has to be as all of these say. A line without a
    /// digest and a length says that nothing is known of the path any more.
    pub fn add(&mut self, path: &[u8], rank: i64, len: Option<u64>, one_of: &[Digest]) {
        let count = u8::try_from(one_of.len()).unwrap_or(u8::MAX).min(!HAS_LEN);
        self.lines.push(Line { start: self.bytes.len(), path_len: path.len(), rank });
        self.bytes.extend_from_slice(path);
        self.bytes.push(count | if len.is_some() { HAS_LEN } else { 0 });
        self.bytes.extend(len.iter().flat_map(|len| len.to_le_bytes()));
        for digest in one_of.iter().take(count.into()) {
            self.bytes.push(number_of(digest.kind));
            self.bytes.extend_from_slice(&digest.value);
        }
    }

    /// How much there is, to [cut back](Self::cut_back) to.
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.bytes.len(), self.lines.len())
    }

    /// Forgets all that was added since a mark.
    pub(crate) fn cut_back(&mut self, (bytes, lines): (usize, usize)) {
        self.bytes.truncate(bytes);
        self.lines.truncate(lines);
    }

    /// No more lines.
    pub fn finish(self) -> Expected {
        let Self { bytes, mut lines } = self;
        lines.sort_by(|one, other| {
            let by_path = one.path(&bytes).cmp(other.path(&bytes));
            by_path.then(other.rank.cmp(&one.rank)).then(one.start.cmp(&other.start))
        });
        let mut newest: Option<Line> = None;
        lines.retain(|line| {
            let is_same = |first: &Line| first.path(&bytes) == line.path(&bytes);
            let first = newest.filter(is_same).unwrap_or(*line);
            newest = Some(first);
            line.rank == first.rank && line.body(&bytes).first() != Some(&0)
        });
        Expected::of(bytes, lines)
    }
}

impl Expected {
    /// Takes lines.
    pub fn builder() -> ExpectedBuilder {
        ExpectedBuilder::default()
    }

    fn of(bytes: Vec<u8>, lines: Vec<Line>) -> Self {
        let paths = lines.chunk_by(|one, next| one.path(&bytes) == next.path(&bytes)).count();
        Self { bytes, lines, paths }
    }

    /// What is said of what is in a directory, by its paths in that.
    #[must_use]
    pub fn below(self, directory: &[u8]) -> Self {
        self.with_paths(|path| path.strip_prefix(directory)?.strip_prefix(b"/"))
    }

    /// What is said of one file, by its name.
    #[must_use]
    pub fn only(self, file: &[u8]) -> Self {
        let name = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().map_or(0, <[u8]>::len);
        self.with_paths(|path| path.get(path.len() - name(path)..).filter(|_| path == file))
    }

    /// The lines with a path of which an end is taken.
    fn with_paths(self, end: impl Fn(&[u8]) -> Option<&[u8]>) -> Self {
        let Self { bytes, mut lines, .. } = self;
        lines.retain_mut(|line| {
            let Some(path_len) = end(line.path(&bytes)).map(<[u8]>::len) else { return false };
            line.start += line.path_len - path_len;
            line.path_len = path_len;
            true
        });
        Self::of(bytes, lines)
    }

    /// What is said of some paths, line by line as it is here.
    #[must_use]
    pub fn among(&self, mut is_wanted: impl FnMut(&[u8]) -> bool) -> Self {
        let (bytes, mut lines) = (self.bytes.clone(), self.lines.clone());
        lines.retain(|line| is_wanted(line.path(&bytes)));
        Self::of(bytes, lines)
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.paths
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.paths == 0
    }

    /// What is said of a path.
    pub fn find(&self, path: &[u8]) -> Option<Entry<'_>> {
        let first = self.lines.partition_point(|line| line.path(&self.bytes).cmp(path) == Ordering::Less);
        self.entry_at(first).filter(|entry| entry.path() == path)
    }

    /// Whether anything is said of a path.
    pub fn contains(&self, path: &[u8]) -> bool {
        self.find(path).is_some()
    }

    /// All paths, in the order of their bytes.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let entry = self.entry_at(next)?;
            next += entry.lines.len();
            Some(entry)
        })
    }

    /// What is said of the path with this number.
    pub(super) fn entry_at(&self, first: usize) -> Option<Entry<'_>> {
        let from = self.lines.get(first..)?;
        let path = from.first()?.path(&self.bytes);
        let count = from.iter().take_while(|line| line.path(&self.bytes) == path).count();
        Some(Entry { bytes: &self.bytes, lines: from.get(..count)?, first })
    }

    /// One more than the highest [`number`](Entry::number).
    pub(super) fn numbers(&self) -> usize {
        self.lines.len()
    }
}

/// What is said of a path.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    bytes: &'a [u8],
    lines: &'a [Line],
    first: usize,
}

/// What a line says.
struct Said {
    len: Option<u64>,
    one_of: Vec<Digest>,
}

impl<'a> Entry<'a> {
    /// The path.
    pub fn path(&self) -> &'a [u8] {
        self.lines.first().map(|line| line.path(self.bytes)).unwrap_or_default()
    }

    /// A number that no other path has.
    pub(super) fn number(&self) -> usize {
        self.first
    }

    /// Its length, if a list says it.
    pub(super) fn listed_len(&self) -> Option<u64> {
        self.said().find_map(|said| said.len)
    }

    /// The hash functions that are needed to compare a file with it.
    pub fn kinds(&self) -> Vec<HashKind> {
        let mut kinds = Vec::new();
        for digest in self.said().flat_map(|said| said.one_of) {
            if !kinds.contains(&digest.kind) {
                kinds.push(digest.kind);
            }
        }
        kinds
    }

    /// All digests, one after another.
    pub fn digests(&self) -> Vec<Digest> {
        self.said().flat_map(|said| said.one_of).collect()
    }

    /// What distinguishes a file of another length from it, if lists say a length.
    pub fn differs_in_len(&self, found: u64) -> Option<Difference> {
        let expected = self.said().filter_map(|said| said.len).find(|len| *len != found)?;
        Some(Difference::Len { expected, found })
    }

    /// What distinguishes a file of this length and with these digests from it; they have to be of
    /// all the [functions](Self::kinds).
    pub fn differs(&self, len: u64, digests: &[Digest]) -> Option<Difference> {
        self.differs_in_len(len).or_else(|| {
            let is_other = |said: &Said| !said.one_of.iter().any(|one| digests.contains(one));
            let other = self.said().filter(|said| !said.one_of.is_empty()).find(is_other)?;
            if other.one_of.len() > 1 {
                let kinds = other.one_of.iter().map(|one| one.kind).collect();
                let expected = other.one_of.first()?.to_string();
                return Some(Difference::AnyDigest { expected, kinds });
            }
            let expected = other.one_of.into_iter().next()?;
            let found = digests.iter().find(|one| one.kind == expected.kind).cloned();
            Some(Difference::Digest { expected, found })
        })
    }

    fn said(&self) -> impl Iterator<Item = Said> {
        self.lines.iter().map(|line| said(line.body(self.bytes)))
    }
}

/// What a line says, from what follows its path.
fn said(mut body: &[u8]) -> Said {
    let mut take = |len: usize| {
        let (taken, rest) = body.split_at_checked(len).unwrap_or_default();
        body = rest;
        taken
    };
    let head = take(1).first().copied().unwrap_or(0);
    let len = (head & HAS_LEN != 0).then(|| take(8).try_into().map_or(0, u64::from_le_bytes));
    let mut one_of = Vec::with_capacity(usize::from(head & !HAS_LEN));
    for _ in 0..head & !HAS_LEN {
        let Some(kind) = take(1).first().and_then(|number| kind_of(*number)) else { break };
        one_of.push(Digest { kind, value: take(kind.value_len()).to_vec() });
    }
    Said { len, one_of }
}

fn number_of(kind: HashKind) -> u8 {
    let number = HashKind::ALL.iter().position(|one| *one == kind);
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX)
}

fn kind_of(number: u8) -> Option<HashKind> {
    HashKind::ALL.get(usize::from(number)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(kind: HashKind, of: &str) -> Digest {
        Digest::of(kind, of.as_bytes())
    }

    #[test]
    fn the_newest_line_of_each_path_counts_and_all_that_are_equally_new() {
        let mut builder = Expected::builder();
        builder.add(b"b", 1, None, &[digest(HashKind::Sha256, "old")]);
        builder.add(b"a", 1, Some(3), &[digest(HashKind::Xxh3, "one")]);
        builder.add(b"b", 2, None, &[digest(HashKind::Blake3, "new")]);
        builder.add(b"a/b", 1, None, &[digest(HashKind::Md5, "two")]);
        builder.add(b"a", 1, None, &[digest(HashKind::Sha256, "one")]);
        builder.add(b"gone", 1, None, &[digest(HashKind::Sha256, "old")]);
        builder.add(b"gone", 2, None, &[]);
        let expected = builder.finish();
        let paths: Vec<&[u8]> = expected.iter().map(|entry| entry.path()).collect();
        assert_eq!((paths, expected.len()), (vec![&b"a"[..], b"a/b", b"b"], 3));
        let kinds = |path: &[u8]| expected.find(path).map(|entry| entry.kinds());
        assert_eq!(kinds(b"a"), Some(vec![HashKind::Xxh3, HashKind::Sha256]));
        assert_eq!(kinds(b"b"), Some(vec![HashKind::Blake3]));
        assert_eq!((kinds(b"gone"), kinds(b"")), (None, None));
        let a = expected.find(b"a").unwrap();
        let both = |of: &str, other: &str| [digest(HashKind::Xxh3, of), digest(HashKind::Sha256, other)];
        assert_eq!(a.differs(3, &both("one", "one")), None);
        assert_eq!(a.differs(4, &both("one", "one")), Some(Difference::Len { expected: 3, found: 4 }));
        let expected = digest(HashKind::Sha256, "one");
        let found = Some(digest(HashKind::Sha256, "two"));
        assert_eq!(a.differs(3, &both("one", "two")), Some(Difference::Digest { expected, found }));
    }

    #[test]
    fn a_part_has_what_is_below_a_directory_or_one_file() {
        let expected = || {
            let mut builder = Expected::builder();
            for path in ["d", "d/a", "d/e/b", "da", "d/e", "x/d/a"] {
                builder.add(path.as_bytes(), 0, None, &[digest(HashKind::Md5, path)]);
            }
            builder.finish()
        };
        let paths = |part: &Expected| part.iter().map(|entry| entry.path().to_vec()).collect::<Vec<_>>();
        let below = expected().below(b"d");
        assert_eq!((paths(&below), below.len()), (vec![b"a".to_vec(), b"e".to_vec(), b"e/b".to_vec()], 3));
        assert_eq!(below.find(b"e/b").unwrap().digests(), [digest(HashKind::Md5, "d/e/b")]);
        let only = expected().only(b"d/e");
        assert_eq!((paths(&only), only.len()), (vec![b"e".to_vec()], 1));
        assert_eq!(only.find(b"e").unwrap().digests(), [digest(HashKind::Md5, "d/e")]);
        assert_eq!(paths(&expected().only(b"d")), [b"d".to_vec()]);
        assert!(expected().below(b"y").is_empty() && expected().only(b"a").is_empty());
    }

    #[test]
    fn where_a_list_does_not_say_the_function_any_of_those_that_it_may_be_matches() {
        let mut builder = Expected::builder();
        builder.add(b"x", 0, None, &[digest(HashKind::Sha256, "x"), digest(HashKind::Blake3, "y")]);
        let expected = builder.finish();
        let x = expected.find(b"x").unwrap();
        assert_eq!(x.kinds(), [HashKind::Sha256, HashKind::Blake3]);
        let of = |text: &str| [digest(HashKind::Sha256, text), digest(HashKind::Blake3, text)];
        assert!(x.differs(1, &of("x")).is_none() && x.differs(1, &of("y")).is_none());
        let kinds = vec![HashKind::Sha256, HashKind::Blake3];
        let expected = digest(HashKind::Sha256, "x").to_string();
        assert_eq!(x.differs(1, &of("z")), Some(Difference::AnyDigest { expected, kinds }));
    }

    #[test]
    fn two_equally_new_lines_that_disagree_match_no_file() {
        let mut builder = Expected::builder();
        for text in ["x", "y"] {
            builder.add(b"f", 5, None, &[digest(HashKind::Sha256, text)]);
        }
        let expected = builder.finish();
        let f = expected.find(b"f").unwrap();
        for text in ["x", "y"] {
            assert!(f.differs(1, &[digest(HashKind::Sha256, text)]).is_some());
        }
        assert_eq!(expected.len(), 1);
    }
}
