//! What fails: rules, and how often each kind of operation came.
//!
//! It makes no system call, and knows files by their paths only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stook::extent::ByteRange;

/// Kinds of operations that are counted and can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Opening a file that exists.
    Open,
    /// Reading bytes of a file.
    Read,
    /// Writing bytes of a file.
    Write,
    /// Making a file.
    Create,
    /// Making a directory.
    MakeDirectory,
    /// Making a hard link or a symbolic one.
    Link,
    /// Removing a name of a file or a directory.
    Remove,
    /// Renaming.
    Rename,
    /// Cutting or extending a file.
    SetLen,
    /// Setting mode, owner, times or extended attributes.
    SetAttributes,
    /// Reading an extended attribute, or their names.
    ReadAttributes,
    /// Reserving room.
    Allocate,
    /// `fsync` and `fdatasync` of a file, and a write that syncs (`O_DSYNC`).
    Sync,
    /// `fsync` of a directory.
    SyncDirectory,
    /// Listing a directory.
    List,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Create,
        Self::MakeDirectory,
        Self::Link,
        Self::Remove,
        Self::Rename,
        Self::SetLen,
        Self::SetAttributes,
        Self::ReadAttributes,
        Self::Allocate,
        Self::Sync,
        Self::SyncDirectory,
        Self::List,
    ];

    /// Those that make something durable.
    pub const SYNCS: [Self; 2] = [Self::Sync, Self::SyncDirectory];

    /// Those that take room on the medium: a full disk refuses them.
    pub const TAKE_ROOM: [Self; 5] =
        [Self::Write, Self::Create, Self::MakeDirectory, Self::Link, Self::Allocate];
}

/// What happens instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this error number and does nothing.
    Errno(i32),
    /// A read or a write moves at most this many bytes, one at least. Others are as always.
    AtMost(u64),
    /// It is said to be done and is not: for syncs. Others are as always.
    Ignored,
    /// It is done this much later.
    Delay(Duration),
}

/// Which of the operations of the chosen kinds and on the chosen files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Each.
    All,
    /// The one with this number, from 0.
    Nth(u64),
    /// That one and all after it.
    From(u64),
    /// Reads and writes that touch one of these bytes of a file.
    Bytes(ByteRange),
}

/// On which files and directories. The name of an operation that makes, renames or removes one is
/// that which it has before, or gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Files {
    /// All.
    All,
    /// The one with this path below the mount.
    At(PathBuf),
    /// Those whose path below the mount contains this text.
    Containing(String),
}

impl Files {
    fn take(&self, path: Option<&Path>) -> bool {
        match self {
            Self::All => true,
            Self::At(wanted) => path == Some(wanted),
            Self::Containing(text) => path.is_some_and(|path| path.to_string_lossy().contains(text)),
        }
    }
}

/// One way to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Operations of these kinds, counted together …
    pub operations: Vec<Operation>,
    /// … on these files …
    pub files: Files,
    /// … and of those these …
    pub which: Which,
    /// … meet this.
    pub fault: Fault,
}

impl Rule {
    /// A rule for operations of one kind on all files.
    pub fn new(operation: Operation, which: Which, fault: Fault) -> Self {
        Self::of(&[operation], which, fault)
    }

    /// A rule for operations of several kinds, counted together, on all files.
    pub fn of(operations: &[Operation], which: Which, fault: Fault) -> Self {
        Self { operations: operations.to_vec(), files: Files::All, which, fault }
    }
}

/// Rules, and what came so far.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Each with the number of operations that it counted.
    rules: Vec<(Rule, u64)>,
    counts: BTreeMap<Operation, u64>,
    struck: u64,
}

impl Script {
    pub(super) fn add(&mut self, rule: Rule) {
        self.rules.push((rule, 0));
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) fn counts(&self) -> &BTreeMap<Operation, u64> {
        &self.counts
    }

    /// How many operations met a fault.
    pub(super) fn struck(&self) -> u64 {
        self.struck
    }

    /// Counts an operation, and says what it meets: the fault of the first rule that takes it.
    pub(super) fn meet(
        &mut self,
        operation: Operation,
        path: impl FnOnce() -> Option<PathBuf>,
        bytes: Option<ByteRange>,
    ) -> Option<Fault> {
        *self.counts.entry(operation).or_default() += 1;
        if !self.rules.iter().any(|(rule, _)| rule.operations.contains(&operation)) {
            return None;
        }
        let path = path();
        let mut met = None;
        for (rule, count) in &mut self.rules {
            if !rule.operations.contains(&operation) || !rule.files.take(path.as_deref()) {
                continue;
            }
            let number = *count;
            *count += 1;
            let touches = |wanted: ByteRange| {
                bytes.is_some_and(|bytes| wanted.start() < bytes.end() && bytes.start() < wanted.end())
            };
            let is_meant = match rule.which {
                Which::All => true,
                Which::Nth(nth) => number == nth,
                Which::From(first) => number >= first,
                Which::Bytes(wanted) => touches(wanted),
            };
            met = met.or(is_meant.then_some(rule.fault));
        }
        self.struck += u64::from(met.is_some());
        met
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(script: &mut Script, operation: Operation, path: &str) -> Option<Fault> {
        script.meet(operation, || Some(path.into()), ByteRange::new(100, 200))
    }

    #[test]
    fn the_nth_operation_of_a_kind_on_chosen_files_meets_the_fault() {
        let mut script = Script::default();
        let eio = Fault::Errno(libc::EIO);
        let files = Files::Containing("seg".into());
        script.add(Rule { operations: vec![Operation::Write], files, which: Which::Nth(1), fault: eio });
        script.add(Rule::new(Operation::Sync, Which::From(2), Fault::Ignored));
        assert_eq!(met(&mut script, Operation::Write, "segment"), None);
        assert_eq!(met(&mut script, Operation::Write, "other"), None);
        assert_eq!(met(&mut script, Operation::Read, "segment"), None);
        assert_eq!(met(&mut script, Operation::Write, "a/segment"), Some(eio));
        assert_eq!(met(&mut script, Operation::Write, "segment"), None);
        let syncs: Vec<_> = (0..4).map(|_| met(&mut script, Operation::Sync, "x")).collect();
        assert_eq!(syncs, [None, None, Some(Fault::Ignored), Some(Fault::Ignored)]);
        assert_eq!((script.struck(), script.counts()[&Operation::Write]), (3, 4));
    }

    #[test]
    fn what_touches_a_bad_byte_meets_the_fault() {
        let mut script = Script::default();
        let range = |start, end| Which::Bytes(ByteRange::new(start, end).unwrap());
        let rule = |which| Rule {
            operations: vec![Operation::Read],
            files: Files::At("file".into()),
            which,
            fault: Fault::Errno(libc::EIO),
        };
        script.add(rule(range(0, 100)));
        script.add(rule(range(200, 300)));
        assert_eq!(met(&mut script, Operation::Read, "file"), None);
        script.add(rule(range(199, 200)));
        assert_eq!(met(&mut script, Operation::Read, "file"), Some(Fault::Errno(libc::EIO)));
        assert_eq!(met(&mut script, Operation::Read, "other file"), None);
        script.clear();
        assert_eq!(met(&mut script, Operation::Read, "file"), None);
    }
}
