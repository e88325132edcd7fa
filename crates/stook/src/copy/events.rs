//! [`CopyEvents`]: what a caller hears while it is copied, always in its own thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::device::Attachment;
use crate::hash::Digest;
use crate::tree::Kind;

/// How often progress is reported, at least.
const EVERY: Duration = Duration::from_millis(100);

/// Reports that wait to be made; a thread that has more waits.
const WAITING_MAX: usize = 4096;

/// What was done, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// It was written.
    Copy,
    /// It became a hard link to another file of the same source.
    HardLink,
    /// It became a hard link to a file of an earlier copy.
    LinkEarlier,
    /// It is there, and got another mode, owner or time.
    Correct,
    /// It is there, and is the same.
    Skip,
    /// It is there, is another, and stays.
    Keep,
    /// The sources do not have it.
    Delete,
}

impl Action {
    /// What it is called in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::HardLink => "hard_link",
            Self::LinkEarlier => "link",
            Self::Correct => "correct",
            Self::Skip => "skip",
            Self::Keep => "keep",
            Self::Delete => "delete",
        }
    }
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// Nothing was there.
    New,
    /// What is there is of another kind, or a link to something else.
    OtherKind,
    /// Another length was there.
    Len,
    /// Another modification time was there.
    Time,
    /// Other bytes were there.
    Content,
    /// What was there is older.
    Older,
    /// All were to be replaced.
    Asked,
    /// Mode or owner were others.
    Metadata,
    /// Length and time, or the bytes, are the same.
    Same,
    /// The sources do not have it.
    Extra,
}

impl Why {
    /// What it is called in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::OtherKind => "kind",
            Self::Len => "length",
            Self::Time => "time",
            Self::Content => "content",
            Self::Older => "older",
            Self::Asked => "asked",
            Self::Metadata => "metadata",
            Self::Same => "same",
            Self::Extra => "extra",
        }
    }
}

/// What became of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Which destination, by its position.
    pub destination: usize,
    /// The path, relative to it.
    pub key: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Its length in bytes, where it is a file.
    pub len: u64,
    /// What was done. A file that was copied has its name, and is as durable as was asked for.
    pub action: Action,
    /// Why.
    pub why: Why,
    /// What was computed of its bytes, if they were read.
    pub digests: Arc<[Digest]>,
}

/// What is about to be copied, once it was counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Beginning {
    /// Files, unless they are counted only on the way.
    pub total_files: Option<u64>,
    /// Bytes of them, unless they are counted only on the way.
    pub total_bytes: Option<u64>,
    /// What the sources on disk lie on, each once.
    pub sources: Vec<Attachment>,
    /// What each destination lies on.
    pub destinations: Vec<Attachment>,
}

/// Something that could not be read, or written to one destination; the report has the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFailure {
    /// Which destination, by its position; `None` where it could not be read.
    pub destination: Option<usize>,
    /// The path, relative to the destination.
    pub key: Vec<u8>,
    /// Why, with its causes.
    pub error: String,
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Phase {
    /// What is to be copied is counted: totals are not known yet.
    #[default]
    Counting,
    /// Files are copied.
    Copying,
    /// All files were read; names, links and directories are made, and all is made durable.
    Finishing,
    /// What was written is read again.
    ReadingBack,
}

/// Why nothing more is written to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhyStopped {
    /// It is full, or a quota is.
    Full,
    /// It may not be written to any more.
    ReadOnly,
    /// It was taken away.
    Gone,
    /// It failed too often.
    Failing,
}

impl WhyStopped {
    /// It in one word: `full`, `read-only`, `gone` or `failing`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::ReadOnly => "read-only",
            Self::Gone => "gone",
            Self::Failing => "failing",
        }
    }
}

/// How far one destination has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DestinationProgress {
    /// Files that are there: written, linked or unchanged.
    pub files: u64,
    /// Bytes written so far. What could not be finished is taken back.
    pub bytes: u64,
    /// Whether it was given up.
    pub is_stopped: bool,
    /// Why.
    pub why_stopped: Option<WhyStopped>,
}

/// How far copying has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Files that were dealt with; while they are counted, those that were found.
    pub files: u64,
    /// Their bytes, and those of files that are being copied; while they are read back, those that
    /// were.
    pub bytes: u64,
    /// Files in all, once they were counted.
    pub total_files: Option<u64>,
    /// Bytes in all.
    pub total_bytes: Option<u64>,
    /// A large file that is being copied; where there is none, the file that was begun last.
    pub current: Vec<u8>,
    /// Each destination.
    pub destinations: Vec<DestinationProgress>,
}

/// Hears of a copy while it is made. All is called by the thread that runs it.
pub trait CopyEvents {
    /// What is about to be copied. Comes once, when it was counted and the destinations were
    /// opened.
    fn begin(&mut self, _beginning: &Beginning) {}

    /// How far it is, several times a second. Returning `false` ends it, with every file either
    /// whole or absent.
    fn go_on(&mut self, _progress: &Progress) -> bool {
        true
    }

    /// Whether each path must be reported: otherwise a pack or an archive may be unpacked, which
    /// reports none.
    fn needs_items(&self) -> bool {
        false
    }

    /// What became of a path.
    fn item(&mut self, _item: &Item) {}

    /// What could not be copied.
    fn failure(&mut self, _failure: &CopyFailure) {}
}

impl CopyEvents for () {}

/// What is reported of a path.
#[derive(Debug)]
pub(super) enum Letter {
    Item(Item),
    Failure(CopyFailure),
}

impl Letter {
    fn deliver(&self, events: &mut dyn CopyEvents) {
        match self {
            Self::Item(item) => events.item(item),
            Self::Failure(failure) => events.failure(failure),
        }
    }
}

/// Reports on their way to the thread that makes them.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    waiting: Mutex<(VecDeque<Letter>, bool)>,
    changed: Condvar,
    is_abandoned: AtomicBool,
}

impl Mailbox {
    fn waiting(&self) -> MutexGuard<'_, (VecDeque<Letter>, bool)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over what is to be reported. A caller holds nothing that a snapshot of the progress
    /// waits for.
    pub(super) fn put(&self, letter: Letter) {
        let mut waiting = self.waiting();
        while waiting.0.len() >= WAITING_MAX && !self.is_abandoned.load(Ordering::Relaxed) {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.0.push_back(letter);
        drop(waiting);
        self.changed.notify_all();
    }

    /// Nothing more comes, or it is not taken any more: whichever thread ends first.
    pub(super) fn close(&self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
        self.waiting().1 = true;
        self.changed.notify_all();
    }

    /// Reports until all is done. `snapshot` is how far it is; `stop` is called once if the caller
    /// wants no more.
    pub(super) fn report(
        &self,
        events: &mut dyn CopyEvents,
        snapshot: &dyn Fn() -> Progress,
        stop: &dyn Fn(),
    ) {
        let (mut last, mut is_stopped) = (None::<Instant>, false);
        loop {
            let (letters, is_over) = {
                let mut waiting = self.waiting();
                if waiting.0.is_empty() && !waiting.1 {
                    let waited = self.changed.wait_timeout(waiting, EVERY);
                    waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                (std::mem::take(&mut waiting.0), waiting.1)
            };
            self.changed.notify_all();
            letters.iter().for_each(|letter| letter.deliver(events));
            let is_due = is_over || last.is_none_or(|last| last.elapsed() >= EVERY);
            if is_due {
                last = Some(Instant::now());
                if !events.go_on(&snapshot()) && !is_stopped {
                    is_stopped = true;
                    stop();
                }
            }
            if is_over && letters.is_empty() {
                return;
            }
        }
    }
}

/// Closes the mailbox, whatever ends the thread.
pub(super) struct Closing<'a>(pub(super) &'a Mailbox);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
