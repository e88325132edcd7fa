//! Events for a caller while sources are packed, and how it stops that.

use crate::archive::Archive;
use crate::ops::choice::Choice;
use crate::pack::DamageLog;

/// What of packing takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// An archive of this many bytes is gone through, to make its index.
    Indexing {
        /// Bytes of the archive.
        len: u64,
    },
    /// What would be packed is counted, because room is scarce.
    Counting,
    /// Entries are packed.
    Packing,
    /// Entries are read back from the pack, compared, and removed.
    Removing,
}

/// Whether to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    GoOn,
    /// Stop. What was packed stays, and the next run continues from there.
    Stop,
    /// No, because the caller failed. A pack that was made for this run is taken back.
    Abandon,
}

/// Events for a caller. No method has to be implemented.
pub trait Hooks {
    /// How many entries and bytes of a stage are done. Called often.
    fn progress(&mut self, _stage: Stage, _entries: u64, _bytes: u64) -> Answer {
        Answer::GoOn
    }

    /// A stage is over, completed or not.
    fn finished(&mut self, _stage: Stage) -> Answer {
        Answer::GoOn
    }

    /// What opening the pack found and mended, as a sentence.
    fn note(&mut self, _note: &str) {}

    /// The pack, or its writer, was opened: this is the log of the damage that it has found and
    /// will find.
    fn watch(&mut self, _log: DamageLog) {}

    /// An archive was opened.
    fn archive_opened(&mut self, _archive: &Archive) {}
}

/// Hears nothing.
impl Hooks for () {}

/// The hooks of a run, and whether it was given up.
pub(super) struct Reporting<'r> {
    pub(super) hooks: &'r mut dyn Hooks,
    pub(super) choice: &'r Choice<'r>,
    abandoned: bool,
}

impl<'r> Reporting<'r> {
    pub(super) fn new(hooks: &'r mut dyn Hooks, choice: &'r Choice<'r>) -> Self {
        Self { hooks, choice, abandoned: false }
    }

    /// Reports progress; returns whether to continue.
    pub(super) fn goes_on(&mut self, stage: Stage, entries: u64, bytes: u64) -> bool {
        let answer = self.hooks.progress(stage, entries, bytes);
        self.abandoned |= answer == Answer::Abandon;
        answer == Answer::GoOn && !self.is_abandoned()
    }

    pub(super) fn finish(&mut self, stage: Stage) {
        self.abandoned |= self.hooks.finished(stage) == Answer::Abandon;
    }

    /// Whether a hook or a predicate of the caller failed.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned || self.choice.has_failed()
    }
}
