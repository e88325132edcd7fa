//! Compaction: the records that still count are written once more, in the order of their keys, into
//! new segments; then a generation names those instead of the old ones.
//!
//! It works in steps. A step takes some segments of one group, needs as much space again as it
//! keeps of them, and ends in a generation. So the extra space is bounded, finished steps stay
//! finished if the next one is cut off, and the writer can put and delete between two steps.
//! Nothing that a generation names is ever changed: until the new one is published the old state is
//! intact, and readers that opened it keep it (see
//! [`Storage::hold`](crate::storage::Storage::hold)).

mod copy;
mod output;
mod plan;

use std::time::Duration;

pub(in crate::pack) use copy::{Copied, CopyWindow, Feed};
use copy::{CopyTarget, Copying, Maker, origins, same_chunks};
use plan::{Candidate, plan};
pub use plan::{CompactPlan, CompactStep, TooLarge};

use super::{Dead, PackWriter, Sealed};
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::manifest::SegmentEntry;
use crate::pack::read::reader::Reader;
use crate::pack::state::names::PackFile;
use crate::pack::state::open::{Pack, is_in_groups};
use crate::pack::state::segment::{Segment, Whose};

/// What to compact, and how.
#[derive(Debug, Clone)]
pub struct CompactOptions {
    /// Only these groups; all if empty.
    pub groups: Vec<String>,
    /// Versions that died less long ago than this stay readable.
    pub keep: Duration,
    /// Only groups in which at least this share of bytes, 0 to 1, is dead; `None` also restores key
    /// order where nothing is dead.
    pub max_dead: Option<f64>,
    /// Extra space that a step may take, in bytes.
    pub extra_len: u64,
    /// Memory for records on their way, in bytes.
    pub memory_len: usize,
    /// The most steps to take: one, for a writer that puts records in between.
    pub steps_max: usize,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            keep: Duration::ZERO,
            max_dead: None,
            extra_len: 16 << 30,
            memory_len: 256 << 20,
            steps_max: usize::MAX,
        }
    }
}

impl CompactOptions {
    /// Refuses what cannot be meant; planning and compacting do so, too.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a share outside of 0 to 1, and for no memory at all.
    pub fn check(&self) -> Result<()> {
        if let Some(share) = self.max_dead.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(Error::Invalid(format!("max_dead is a share from 0 to 1, not {share}")));
        }
        match self.memory_len {
            // One record at a time goes through however little.
            0 => Err(Error::Invalid("compaction needs memory: give it 1 byte or more".into())),
            _ => Ok(()),
        }
    }
}

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Completed steps.
    pub steps: u64,
    /// Records that were written once more, kept older versions included.
    pub records: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Versions that went.
    pub dead_records: u64,
    /// Bytes of files before, of the segments that were replaced.
    pub before_bytes: u64,
    /// Bytes of the files that replace them.
    pub after_bytes: u64,
    /// It was stopped before its end; running it again continues.
    pub interrupted: bool,
    /// Segments that were left unchanged, because something in them is damaged.
    pub left_out: Vec<Damage>,
    /// Segments that were left as they are for want of room.
    pub too_large: Vec<TooLarge>,
}

impl Pack {
    /// What [`PackWriter::compact`] would do now.
    ///
    /// # Errors
    /// Returns an error if reading the indexes fails, and those of [`CompactOptions::check`].
    pub fn plan_compaction(&self, options: &CompactOptions, now_ns: i64) -> Result<CompactPlan> {
        options.check()?;
        let candidate = |segment| Candidate::new(segment, &segment.deaths);
        let segments: Vec<Candidate<'_>> = self.snapshot.segments.iter().map(candidate).collect();
        plan(&segments, self.groups(), options, horizon_ns(options, now_ns), &self.reader)
    }
}

/// Versions that died at this time or before may go.
fn horizon_ns(options: &CompactOptions, now_ns: i64) -> i64 {
    now_ns.saturating_sub(i64::try_from(options.keep.as_nanos()).unwrap_or(i64::MAX))
}

impl PackWriter {
    /// Rewrites the live records in key order, and drops the rest. Everything that was put before
    /// is durable when it returns.
    ///
    /// `progress` receives the bytes of frames written so far, and stops the compaction by giving
    /// `false`: the step under way is taken back, those before it stay. Segments with damage are
    /// left as they are and reported.
    ///
    /// # Errors
    /// Returns an error if reading or writing fails. The step in progress is then undone, and the
    /// pack is as it was before it. Before anything is done, those of [`CompactOptions::check`].
    pub fn compact(
        &mut self,
        options: &CompactOptions,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Compacted> {
        self.check_usable()?;
        options.check()?;
        let mut done = Compacted::default();
        self.seal_for(options)?;
        let CompactPlan { steps, too_large } = self.planned(options)?;
        done.too_large = too_large;
        for step in steps.into_iter().take(options.steps_max) {
            if !self.finish_step(step, options, &mut done, progress)? {
                done.interrupted = true;
                break;
            }
        }
        match done.steps {
            0 => self.sync()?,
            // The generation before the newest keeps its files: publish again, so that it is not an
            // old one.
            _ => self.publish()?,
        }
        Ok(done)
    }

    fn planned(&self, options: &CompactOptions) -> Result<CompactPlan> {
        let candidates: Vec<Candidate<'_>> = self
            .sealed
            .iter()
            .filter(|(_, sealed)| sealed.segment.as_ref().is_none_or(|segment| segment.whose == Whose::Own))
            .filter_map(|(id, sealed)| {
                Some(Candidate::new(sealed.segment.as_ref()?, &self.dead.get(id)?.deaths))
            })
            .collect();
        let horizon_ns = horizon_ns(options, self.now_ns());
        plan(&candidates, &self.manifest.groups, options, horizon_ns, &self.reader)
    }

    /// A time that no record of the pack is later than.
    fn now_ns(&self) -> i64 {
        self.options.host.now_ns().max(self.manifest.time_last_ns)
    }

    /// Takes a step, without the segments in which it finds damage; `false` if it was stopped.
    fn finish_step(
        &mut self,
        mut step: CompactStep,
        options: &CompactOptions,
        done: &mut Compacted,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        while !step.segments.is_empty() {
            let damage = match self.run_step(&step, options, done, progress) {
                Err(Error::Damaged(damage)) => damage,
                other => return other,
            };
            let culprit = step.segments.iter().position(|&id| self.path_of(id) == damage.file);
            let Some(culprit) = culprit else { return Err(Error::Damaged(damage)) };
            step.segments.remove(culprit);
            done.left_out.push(damage);
        }
        Ok(true)
    }

    /// Seals the growing segments of the groups in which there is something to do.
    fn seal_for(&mut self, options: &CompactOptions) -> Result<()> {
        let groups: Vec<u32> = self.active.keys().copied().collect();
        for group in groups {
            let name = self.manifest.groups.get(group as usize).cloned().unwrap_or_default();
            let wanted = is_in_groups(&options.groups, &name);
            let is_empty = self.active.get(&group).is_none_or(|active| active.tally().records == 0);
            if wanted && !is_empty && self.is_worth_sealing(group, options)? {
                self.guard(|writer| writer.seal_group(group))?;
            }
        }
        Ok(())
    }

    /// Whether the dead bytes of a group reach the requested share, according to its counters.
    fn is_worth_sealing(&mut self, group: u32, options: &CompactOptions) -> Result<bool> {
        let Some(max_dead) = options.max_dead else { return Ok(true) };
        let (mut dead, mut all) = (0u64, 0u64);
        for entry in self.entries().iter().filter(|entry| entry.group == group) {
            dead = dead.saturating_add(entry.dead_bytes);
            all = all.saturating_add(entry.frames_end);
        }
        Ok(dead as f64 >= max_dead * all as f64)
    }

    fn path_of(&self, segment: u64) -> std::path::PathBuf {
        self.storage.path(&PackFile::Segment(segment).to_string())
    }

    /// Replaces the segments of one step; `false` if it was stopped.
    fn run_step(
        &mut self,
        step: &CompactStep,
        options: &CompactOptions,
        done: &mut Compacted,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let horizon_ns = horizon_ns(options, self.now_ns());
        let mut copying = Copying::new(self, step, horizon_ns, options.memory_len)?;
        let before = done.bytes;
        let ran = copying.run(&mut |bytes| progress(before + bytes));
        let (outputs, made, copied) = copying.into_parts();
        match ran {
            Ok(true) => {}
            stopped => {
                // No generation names them.
                self.garbage.extend(made.iter().map(|&id| PackFile::Segment(id)));
                self.remove_garbage();
                return stopped;
            }
        }
        self.guard(|writer| {
            let (before_bytes, after_bytes) = writer.replace(step, outputs, copied.history_from_ns)?;
            done.before_bytes += before_bytes;
            done.after_bytes += after_bytes;
            Ok(())
        })?;
        done.steps += 1;
        done.records += copied.records;
        done.bytes += copied.bytes;
        done.dead_records += copied.dead_records;
        Ok(true)
    }

    /// Publishes the generation that names the segments a step wrote instead of those it read.
    fn replace(
        &mut self,
        step: &CompactStep,
        outputs: Vec<output::Finished>,
        history_from_ns: Option<i64>,
    ) -> Result<(u64, u64)> {
        let mut before_bytes = 0;
        for id in &step.segments {
            let Some(sealed) = self.sealed.remove(id) else { continue };
            before_bytes += sealed.entry.committed_len;
            self.garbage.insert(PackFile::Segment(*id));
            let vector = self.dead.remove(id).and_then(|dead| dead.vector);
            self.garbage.extend(vector.map(|vector| PackFile::Deletes(*id, vector.generation)));
        }
        let entries = self.take_outputs(outputs);
        self.manifest.history_from_ns = self.manifest.history_from_ns.max(history_from_ns);
        self.publish_now()?;
        entries.iter().try_for_each(|&entry| self.reopen_sealed(entry))?;
        Ok((before_bytes, entries.iter().map(|entry| entry.committed_len).sum()))
    }

    /// Adds the written segments to the next generation.
    fn take_outputs(&mut self, outputs: Vec<output::Finished>) -> Vec<SegmentEntry> {
        let entries: Vec<SegmentEntry> = outputs.iter().map(|output| output.entry).collect();
        for output in outputs {
            let entry = output.entry;
            let dead = Dead {
                records: output.deaths.len() as u64,
                bytes: output.dead_bytes,
                dirty: !output.deaths.is_empty(),
                deaths: output.deaths,
                vector: None,
                len_max: None,
            };
            self.dead.insert(entry.id, dead);
            self.sealed.insert(entry.id, Sealed { entry, segment: None });
        }
        // What this writer puts from now on is in segments from here on; those just made hold older
        // records.
        self.own_segments = self.manifest.segment_next;
        self.unpublished = true;
        entries
    }

    /// Writes records of another pack into a group, in the order in which they are fed, with their
    /// sequence numbers and times. They are named by the next generation.
    pub(in crate::pack) fn take_over(
        &mut self,
        group: &str,
        feed: &mut dyn Feed,
        (segments, reader): (&[&Segment], &Reader),
        memory_len: usize,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Copied> {
        let group = self.group(group)?;
        let chunk_len = 1u64 << self.manifest.chunk_log2;
        segments.iter().try_for_each(|segment| same_chunks(segment, chunk_len))?;
        let (mut target, mut copied, mut made) = (CopyTarget::default(), Copied::default(), Vec::new());
        let sequence_first = segments.iter().map(|segment| segment.tally.sequence_first).min();
        let mut maker = Maker {
            storage: self.storage.as_ref(),
            host: self.options.host.as_ref(),
            manifest: &mut self.manifest,
            segments: self.active.len().saturating_add(self.sealed.len()),
            list_len_max: self.options.list_len_max,
            group,
            sequence_first: sequence_first.unwrap_or(0).max(1),
            made: &mut made,
        };
        let origins = origins(segments.iter().copied());
        let ended =
            target.take_all((feed, &origins, reader), memory_len, &mut maker, &mut copied, progress)?;
        if !ended {
            return Err(Error::Stopped);
        }
        for entry in self.take_outputs(target.finished) {
            let (last, time_ns) = (entry.tally.sequence_last, entry.tally.time_last_ns);
            self.manifest.sequence_next = self.manifest.sequence_next.max(last.saturating_add(1));
            self.manifest.time_last_ns = self.manifest.time_last_ns.max(time_ns);
        }
        Ok(copied)
    }
}
