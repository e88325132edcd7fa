//! Compaction of packs: how much space a step may take, and the refusal if there is less.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::directory::open_pack;
use super::pack::{Hooks, Making, open_writer_with};
use crate::pack::{
    self, CompactOptions, CompactPlan, Compacted, Host as _, OnDamage, OpenOptions, Pack, PackWriter,
    ScanOptions, Stop, SystemHost, WriterOptions,
};
use crate::report::units::bytes_decimal;
use crate::storage::Storage;

/// A result of compacting.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the pack, or below it.
    #[error(transparent)]
    Pack(#[from] pack::Error),
    /// A step would need more room than is free. Nothing was changed.
    #[error(
        "a step needs {} of room, and {} are free in {}: make room, or let a step take less",
        bytes_decimal(*needed), bytes_decimal(*free), place.display()
    )]
    NoSpace {
        /// Bytes that the largest step would take.
        needed: u64,
        /// Bytes that there are.
        free: u64,
        /// The directory of the pack.
        place: PathBuf,
    },
}

/// Options of a compaction.
#[derive(Debug, Clone)]
pub struct Compact {
    /// Only these groups; all if empty.
    pub groups: Vec<String>,
    /// Versions that died less long ago than this stay readable.
    pub keep: Duration,
    /// Only groups in which at least this share of bytes, 0 to 1, is dead; `None` also restores key
    /// order where nothing is dead.
    pub max_dead: Option<f64>,
    /// Extra space that a step may take, in bytes; `None` for half of the free space, at most the
    /// default of [`CompactOptions`].
    pub extra_len: Option<u64>,
    /// Memory for records on their way, in bytes.
    pub memory_len: usize,
}

impl Default for Compact {
    fn default() -> Self {
        let CompactOptions { groups, keep, max_dead, memory_len, .. } = CompactOptions::default();
        Self { groups, keep, max_dead, extra_len: None, memory_len }
    }
}

/// What a dry run reads at most to learn how fast this goes.
const PROBE_BYTES: u64 = 64 << 20;
const PROBE_TIME: Duration = Duration::from_secs(1);

/// The plan of a compaction.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Its steps, and the segments left for lack of space.
    pub plan: CompactPlan,
    /// Extra space that a step may take, in bytes.
    pub extra_len: u64,
}

impl Planned {
    /// How many seconds it would take; `None` where nothing is to be done. What is kept is read and
    /// written, both about as fast as some of it is read now.
    ///
    /// # Errors
    /// Returns an error of reading, and [`pack::Error::Stopped`] if `stop` says so.
    fn estimate(&self, pack: &Pack, stop: Stop) -> pack::Result<Option<f64>> {
        let Some(step) = self.plan.steps.first() else { return Ok(None) };
        let groups = vec![step.group.clone()];
        let options = ScanOptions { groups, on_damage: OnDamage::Skip, stop, ..ScanOptions::default() };
        let mut scan = pack.scan(options);
        let started = Instant::now();
        while scan.bytes_passed() < PROBE_BYTES && started.elapsed() < PROBE_TIME {
            stop.check()?;
            if scan.next()?.is_none() {
                break;
            }
        }
        let bytes_per_s = scan.bytes_passed() as f64 / started.elapsed().as_secs_f64();
        Ok((bytes_per_s > 0.0).then(|| 2.0 * self.plan.kept_bytes() as f64 / bytes_per_s))
    }
}

impl Compact {
    /// Refuses what cannot be meant, as all that follows does; for before a pack is opened.
    ///
    /// # Errors
    /// Those of [`CompactOptions::check`].
    pub fn check(&self) -> pack::Result<()> {
        self.options(None).check()
    }

    /// What [`run`](Self::run) would do now, and how many seconds that would take (`None` where
    /// nothing is to be done): for a dry run. It refuses what that refuses.
    ///
    /// # Errors
    /// Returns [`Error::NoSpace`], an error for a group that is not there and for a pack that
    /// cannot be written to, those of reading, and [`pack::Error::Stopped`] if `stop` says so.
    pub fn preview(&self, pack: &Pack, stop: Stop) -> Result<(CompactPlan, Option<f64>)> {
        let planned = self.plan(pack)?;
        pack.check_writable()?;
        let seconds = planned.estimate(pack, stop)?;
        Ok((planned.plan, seconds))
    }

    /// The same for the pack at a path. The hooks receive the damage that is found.
    ///
    /// # Errors
    /// Those of [`preview`](Self::preview), and of opening the pack.
    pub fn preview_at(
        &self,
        path: &Path,
        hooks: &mut dyn Hooks,
        stop: Stop,
    ) -> Result<(CompactPlan, Option<f64>)> {
        let pack = open_pack(path, OpenOptions::default())?;
        hooks.watch(pack.damage_log());
        self.preview(&pack, stop)
    }

    /// What [`run`](Self::run) would do now.
    ///
    /// # Errors
    /// Returns [`Error::NoSpace`], an error for a group that is not there, and those of reading the
    /// indexes.
    pub fn plan(&self, pack: &Pack) -> Result<Planned> {
        pack.check_groups(&self.groups)?;
        let storage = pack.storage().as_ref();
        let free = storage.free_bytes().map_err(pack::Error::from)?;
        let options = self.options(free);
        let plan = pack.plan_compaction(&options, SystemHost.now_ns())?;
        check_room(&plan, free, storage)?;
        Ok(Planned { plan, extra_len: options.extra_len })
    }

    /// Compacts, as [`PackWriter::compact`] does. Where its steps may need more room than is free,
    /// or groups are named, it is planned first, and refused before anything is changed.
    ///
    /// # Errors
    /// Returns [`Error::NoSpace`], an error for a group that is not there, and those of
    /// [`PackWriter::compact`].
    pub fn run(&self, writer: &mut PackWriter, progress: &mut dyn FnMut(u64) -> bool) -> Result<Compacted> {
        let storage = writer.storage().clone();
        let free = storage.free_bytes().map_err(pack::Error::from)?;
        let options = self.options(free);
        // Else no step can need more than there is.
        let may_be_too_large = free.is_some_and(|free| options.extra_len > free);
        if may_be_too_large || !self.groups.is_empty() {
            writer.sync()?;
            // Dropped before anything is written: the files that it reads would be kept for it.
            let pack = Pack::open(storage, OpenOptions::default())?;
            self.plan(&pack)?;
        }
        Ok(writer.compact(&options, progress)?)
    }

    /// The same for the pack at a path, planned before it is opened for writing. `progress` is
    /// called with the bytes that are written, and how many there will be about. The hooks get
    /// what opening the pack found.
    ///
    /// # Errors
    /// Those of [`run`](Self::run), and of opening the pack for writing.
    pub fn run_at(
        &self,
        path: &Path,
        hooks: &mut dyn Hooks,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Compacted> {
        let pack = open_pack(path, OpenOptions::default())?;
        hooks.watch(pack.damage_log());
        let total = self.plan(&pack)?.plan.kept_bytes();
        // The files that it reads would be kept for it.
        drop(pack);
        let options = WriterOptions::default();
        let mut writer = open_writer_with(path, options, Making::Never, hooks)?.writer;
        let done = self.run(&mut writer, &mut |bytes| progress(bytes, total))?;
        writer.finish(false)?;
        Ok(done)
    }

    fn options(&self, free: Option<u64>) -> CompactOptions {
        let most = CompactOptions::default().extra_len;
        let extra_len = || free.map_or(most, |free| most.min(free / 2));
        CompactOptions {
            groups: self.groups.clone(),
            keep: self.keep,
            max_dead: self.max_dead,
            extra_len: self.extra_len.unwrap_or_else(extra_len),
            memory_len: self.memory_len,
            ..CompactOptions::default()
        }
    }
}

/// Refuses a plan if one of its steps needs more space than is free.
fn check_room(plan: &CompactPlan, free: Option<u64>, storage: &dyn Storage) -> Result<()> {
    let needed = plan.steps.iter().map(|step| step.kept_bytes).max().unwrap_or(0);
    match free.filter(|free| needed > *free) {
        Some(free) => Err(Error::NoSpace { needed, free, place: storage.path("").components().collect() }),
        None => Ok(()),
    }
}
