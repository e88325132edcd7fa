//! What unpacking reports: the same for whatever is unpacked.

use super::target::Unset;

/// An entry that was not packed or unpacked, and why.
#[derive(Debug)]
pub struct Failure<E> {
    /// Its key; the path relative to the root.
    pub key: Vec<u8>,
    /// What was met.
    pub error: E,
}

/// The hook that selects what is unpacked, by path.
pub(crate) type SelectKeys<'a> = Box<dyn Fn(&[u8]) -> bool + 'a>;

/// Extended attributes that were not set: the file system does not take them, this user may not set
/// them, or what was unpacked does not have their values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnsetXattrs {
    /// Files, directories and links that lack some.
    pub entries: u64,
    /// The key of the first, which they are, and why.
    pub first: Option<(Vec<u8>, String)>,
    /// Files, directories and links that lack some of another system (`com.apple.quarantine`), for
    /// which this one has no place. They do not count among the entries.
    pub foreign: u64,
}

impl UnsetXattrs {
    /// Notes what was not set, if anything was not.
    pub(crate) fn note(&mut self, key: &[u8], unset: Unset) {
        self.foreign += u64::from(unset.has_foreign);
        let Some(why) = unset.why else { return };
        self.entries += 1;
        self.first.get_or_insert_with(|| (key.to_vec(), why));
    }
}

/// Why something that is there was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum WhyKept {
    /// It has other content.
    OtherContent,
    /// It is a directory that more may enter than was recorded. Only
    /// [`Overwrite::Always`](super::Overwrite::Always) sets its mode.
    TooOpen,
    /// It is a file that would have been replaced by one that is empty or has less in it.
    Incomplete,
}

impl WhyKept {
    /// What it is called in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OtherContent => "other_content",
            Self::TooOpen => "too_open",
            Self::Incomplete => "incomplete",
        }
    }
}

/// What is there and stays as it is, though it is not what was to be unpacked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// Its key; of what is no part of a tree, its path.
    pub key: Vec<u8>,
    /// Why.
    pub why: WhyKept,
}

/// What unpacking did; `E` is the error of what was unpacked.
#[derive(Debug)]
pub struct UnpackSummary<E> {
    /// Regular files written.
    pub files: u64,
    /// Directories made, or given mode and time anew.
    pub directories: u64,
    /// Symbolic links made.
    pub symlinks: u64,
    /// Hard links made.
    pub hard_links: u64,
    /// Bytes of files written.
    pub bytes: u64,
    /// What was there already, with the same content.
    pub unchanged: u64,
    /// What was there already and stayed as it was, and why.
    pub kept: Vec<Kept>,
    /// Extended attributes that were not set.
    pub unset_xattrs: UnsetXattrs,
    /// What could not be unpacked, damaged records included.
    pub failures: Vec<Failure<E>>,
    /// Whether it was stopped by the caller before its end.
    pub interrupted: bool,
}

impl<E> Default for UnpackSummary<E> {
    fn default() -> Self {
        Self {
            files: 0,
            directories: 0,
            symlinks: 0,
            hard_links: 0,
            bytes: 0,
            unchanged: 0,
            kept: Vec::new(),
            unset_xattrs: UnsetXattrs::default(),
            failures: Vec::new(),
            interrupted: false,
        }
    }
}

impl<E> UnpackSummary<E> {
    /// Notes what stays as it was.
    pub(crate) fn keep(&mut self, key: Vec<u8>, why: WhyKept) {
        self.kept.push(Kept { key, why });
    }

    /// The keys of what was kept for a reason.
    pub fn kept_for(&self, why: WhyKept) -> impl Iterator<Item = &[u8]> {
        self.kept.iter().filter(move |kept| kept.why == why).map(|kept| kept.key.as_slice())
    }

    /// The same, with the errors of failures as another type.
    pub fn with_errors_as<F: From<E>>(self) -> UnpackSummary<F> {
        let failure = |failure: Failure<E>| Failure { key: failure.key, error: failure.error.into() };
        UnpackSummary {
            files: self.files,
            directories: self.directories,
            symlinks: self.symlinks,
            hard_links: self.hard_links,
            bytes: self.bytes,
            unchanged: self.unchanged,
            kept: self.kept,
            unset_xattrs: self.unset_xattrs,
            failures: self.failures.into_iter().map(failure).collect(),
            interrupted: self.interrupted,
        }
    }
}
