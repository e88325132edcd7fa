//! The calls of each work, the same in every language.

use serde::Serialize;

use super::work::{NEED_BLOCK_BYTES, NEED_BLOCKS, NEED_STRIDE_BYTES, TOTAL_BYTES, Work};

/// Blocks whose questions are asked once; of fewer blocks as often as makes up for it.
const ASKED_ONCE: u64 = 1 << 17;

/// Ranges of the same length at even distances, the first at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Blocks {
    /// How many.
    pub(super) count: u64,
    /// From where one begins to where the next does.
    pub(super) stride: u64,
    /// Bytes of each.
    pub(super) len: u64,
}

impl Blocks {
    fn new(count: u64, stride: u64, len: u64) -> Self {
        Self { count, stride, len }
    }

    /// 1 MiB in blocks with this gap between them.
    pub(super) fn total(len: u64, gap: u64) -> Self {
        Self::new(TOTAL_BYTES / len, len + gap, len)
    }

    /// One that reaches over all of them.
    fn all(self) -> Self {
        let len = self.count * self.stride;
        Self::new(1, len, len)
    }
}

/// What is called for each range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Call {
    /// Copies bytes out.
    Read,
    /// The same, with one lock for all calls.
    ReadOneLock,
    /// Copies bytes in, and compares what they overlap.
    Write,
    /// Asks what is missing.
    Need,
}

/// What each of several threads does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Share {
    /// All calls, on one file.
    All,
    /// A part of the calls, on one file.
    Part,
    /// All calls, on a file of its own.
    Own,
}

/// Threads that make the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Threads {
    /// How many.
    pub(super) count: u64,
    /// What each does.
    pub(super) share: Share,
}

/// What is done to an empty sparse file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Plan {
    /// What is written before the clock runs.
    pub(super) before: Option<Blocks>,
    /// What is timed.
    pub(super) call: Call,
    /// For which ranges.
    pub(super) calls: Blocks,
    /// How often all of it is done while the clock runs; times are of one.
    pub(super) repeats: u64,
    /// By whom; without any it is the thread that keeps the time.
    pub(super) threads: Option<Threads>,
}

impl Plan {
    fn new(before: Option<Blocks>, call: Call, calls: Blocks) -> Self {
        Self { before, call, calls, repeats: 1, threads: None }
    }

    /// One question over all blocks.
    fn asked(blocks: Blocks) -> Self {
        let repeats = (ASKED_ONCE / blocks.count).max(1);
        Self { repeats, ..Self::new(Some(blocks), Call::Need, blocks.all()) }
    }

    fn threads(count: u64, share: Share, is_joined: bool) -> Self {
        let calls = Blocks::total(8, u64::from(!is_joined));
        Self { threads: Some(Threads { count, share }), ..Self::new(None, Call::Write, calls) }
    }

    /// What is held in the end.
    pub(super) fn held(&self) -> Blocks {
        self.before.unwrap_or(self.calls)
    }

    /// How many files it needs.
    pub(super) fn files(&self) -> u64 {
        match self.threads {
            Some(Threads { count, share: Share::Own }) => count,
            _ => 1,
        }
    }

    /// Whether the same is called from Python: one lock for several calls cannot be had there.
    pub(super) fn is_for_python(&self) -> bool {
        self.call != Call::ReadOneLock
    }
}

/// What a work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Calls on sparse files.
    Calls(Plan),
    /// This many locks, and nothing else.
    Locks(u64),
}

impl Work {
    /// Its calls; `None` where it makes none on a sparse file.
    pub(super) fn plan(self) -> Option<Plan> {
        match self.task() {
            Task::Calls(plan) => Some(plan),
            Task::Locks(_) => None,
        }
    }

    /// What it is.
    pub(super) fn task(self) -> Task {
        let apart = |block_bytes| Blocks::total(block_bytes, 1);
        let index = |blocks| Blocks::new(blocks, NEED_STRIDE_BYTES, NEED_BLOCK_BYTES);
        Task::Calls(match self {
            Self::Read { block_bytes } => {
                Plan::new(Some(Blocks::total(TOTAL_BYTES, 0)), Call::Read, Blocks::total(block_bytes, 0))
            }
            Self::ReadApart { block_bytes } => {
                Plan::new(Some(apart(block_bytes)), Call::Read, apart(block_bytes))
            }
            Self::ReadOneLock { block_bytes } => {
                Plan::new(Some(apart(block_bytes)), Call::ReadOneLock, apart(block_bytes))
            }
            Self::WriteApart { block_bytes } => Plan::new(None, Call::Write, apart(block_bytes)),
            Self::WriteJoined { block_bytes } => Plan::new(None, Call::Write, Blocks::total(block_bytes, 0)),
            Self::Need { ask_bytes } => {
                let held = index(NEED_BLOCKS);
                let asks = (held.count * held.stride).div_ceil(ask_bytes);
                Plan::new(Some(held), Call::Need, Blocks::new(asks, ask_bytes, ask_bytes))
            }
            Self::NeedAll { blocks } => Plan::asked(index(blocks)),
            Self::NeedOf { block_bytes } => Plan::asked(Blocks::total(block_bytes, NEED_STRIDE_BYTES)),
            Self::Overwrite { threads, is_joined } => Plan::threads(threads, Share::All, is_joined),
            Self::Threads { threads, is_joined } => Plan::threads(threads, Share::Part, is_joined),
            Self::Own { threads, is_joined } => Plan::threads(threads, Share::Own, is_joined),
            Self::Locks { count } => return Task::Locks(count),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_work_of_one_kind_has_as_many_bytes() {
        for work in Work::all() {
            let Some(plan) = work.plan() else { continue };
            let is_index = matches!(work, Work::Need { .. } | Work::NeedAll { .. });
            let held = plan.held();
            assert!(is_index || held.count * held.len == TOTAL_BYTES, "{}", work.label());
            assert!(held.stride >= held.len && plan.repeats > 0, "{}", work.label());
        }
        let published = Work::Need { ask_bytes: 16_384 }.plan().unwrap();
        assert_eq!(published.before, Some(Blocks::new(238_310, 800, 4)));
        assert_eq!(published.calls.count, 11_637);
    }

    /// A question about few blocks takes too little time to be measured once.
    #[test]
    fn few_blocks_are_asked_about_more_often() {
        let repeats = |work: Work| work.plan().unwrap().repeats;
        assert_eq!(repeats(Work::NeedOf { block_bytes: 1 }), 1);
        assert_eq!(repeats(Work::NeedOf { block_bytes: 512 }), 64);
        assert_eq!(repeats(Work::NeedAll { blocks: NEED_BLOCKS }), 1);
    }

    #[test]
    fn plans_are_read_by_another_language() {
        let plan = Work::Own { threads: 2, is_joined: false }.plan().unwrap();
        let expected = serde_json::json!({
            "before": null, "call": "write", "calls": {"count": 131_072, "stride": 9, "len": 8},
            "repeats": 1, "threads": {"count": 2, "share": "own"},
        });
        assert_eq!(serde_json::to_value(plan).unwrap(), expected);
        assert_eq!((plan.files(), plan.is_for_python()), (2, true));
        assert!(!Work::ReadOneLock { block_bytes: 8 }.plan().unwrap().is_for_python());
    }
}
