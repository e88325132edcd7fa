//! [`Feed`]: hands files to the threads that copy them, small ones several at a time.

use std::sync::mpsc::SyncSender;

use super::body::FileJob;
use super::gathering::GATHERED_MAX;
use super::run::Run;
use super::small::{SMALL_MAX, SmallTask};

/// Small files that are handed over together, at most: to wake a thread takes a good part of the
/// time that a small file takes. Of the first ones each thread gets one.
const HANDED_MAX: usize = 16;

/// Where files go that are to be copied.
#[derive(Clone)]
pub(super) struct Feed {
    pub(super) small: SyncSender<SmallTask>,
    pub(super) large: SyncSender<FileJob>,
    pub(super) gathers: SyncSender<Vec<FileJob>>,
}

/// Files that are handed over together.
#[derive(Default)]
pub(super) struct Collected {
    gathered: Vec<FileJob>,
    /// How often one of these is in another directory than the one before it.
    directories: usize,
    small: Vec<FileJob>,
    /// Small files that were handed over.
    handed: usize,
}

impl Feed {
    /// Hands a file over. Those who take it end only after all who send.
    ///
    /// A dry run reads what it compares, and no more: of the others it says here what would be
    /// done, so that its lines come in the order of the listing, and the same at each run.
    pub(super) fn put(&self, run: &Run<'_>, job: FileJob, collected: &mut Collected) {
        if !run.options.dry_run {
            return self.put_on(run, job, collected);
        }
        let places = run.decide(&job);
        if places.is_empty() {
            run.end_file(&job, Ok(()));
        }
        for (index, _) in places {
            self.put_on(run, FileJob { only: Some(index), ..job.clone() }, collected);
        }
    }

    fn put_on(&self, run: &Run<'_>, job: FileJob, collected: &mut Collected) {
        let is_file = run
            .sources
            .get(job.source)
            .is_some_and(|source| source.is_on_disk() || !matches!(source.tree.whole_file(job.id), Ok(None)));
        if !is_file {
            let last = collected.gathered.last();
            let is_elsewhere = last.is_none_or(|last| last.parent != job.parent);
            let is_full = collected.gathered.len() >= GATHERED_MAX
                || is_elsewhere && collected.directories >= run.directories_max
                || last.is_some_and(|last| last.source != job.source);
            if is_full {
                self.gather(collected);
            }
            collected.directories += usize::from(is_elsewhere || is_full);
            collected.gathered.push(job);
        } else if job.node.len <= SMALL_MAX {
            collected.small.push(job);
            if collected.small.len() >= (collected.handed / run.jobs.max(1)).min(HANDED_MAX) {
                self.hand_over(collected);
            }
        } else {
            // This may wait for long.
            self.hand_over(collected);
            let _ = self.large.send(job);
        }
    }

    /// Hands over what was collected.
    pub(super) fn flush(&self, collected: &mut Collected) {
        self.gather(collected);
        self.hand_over(collected);
    }

    fn gather(&self, collected: &mut Collected) {
        if !collected.gathered.is_empty() {
            let _ = self.gathers.send(std::mem::take(&mut collected.gathered));
            collected.directories = 0;
        }
    }

    fn hand_over(&self, collected: &mut Collected) {
        if collected.small.is_empty() {
            return;
        }
        collected.handed = collected.handed.saturating_add(collected.small.len());
        let _ = self.small.send(SmallTask::Read(std::mem::take(&mut collected.small)));
    }
}
