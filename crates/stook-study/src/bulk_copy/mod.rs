//! The study of copies of large files: block, queue, and what caches make of a benchmark.

mod cached;
mod conclusions;
mod ends;
mod frame;
mod page;
mod progress;
pub mod published;
pub mod ways;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use stook::device::Attachment;
use stook::engine::File;
use stook::report::page::Page;
use stook::report::stats::median;
use stook::report::units;

pub(crate) use self::cached::remove_left_groups;
pub use self::cached::{Cached, CachedRun};
pub use self::ends::End;
pub use self::ways::Way;
use crate::cold::{Cold, Next};
use crate::environment::{Environment, nothing_of_a_device};
use crate::frame::{Conclusion, Frame};
use crate::limit::sequential;
use crate::place::{IsOwn, OwnDirectory, PlaceLock};
use crate::progress::{Expected, Portion, Unit, counting};
use crate::sample::{BLOCK_LEN, check_space, remove, write_data};
use crate::{Hooks, OptionError, Study, Text};

/// The study.
#[derive(Debug, Clone)]
pub struct BulkCopy {
    /// Where the source is made.
    pub from: PathBuf,
    /// Where it is copied to; may be the same directory.
    pub to: PathBuf,
    /// Length of the file.
    pub file_bytes: u64,
    /// Rounds.
    pub rounds: usize,
    /// What the source is rated at for reads, bytes per second.
    pub rated_read_bytes_per_s: Option<f64>,
    /// What the destination is rated at for writes.
    pub rated_write_bytes_per_s: Option<f64>,
    /// Whether the caches of other programs are left alone.
    pub keep_caches: bool,
}

/// A way of copying, and what it took.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// How.
    #[serde(flatten)]
    pub way: Way,
    /// Its name.
    pub label: String,
    /// The median of the rounds.
    pub seconds: Option<f64>,
    /// Bytes of the file ÷ that.
    pub bytes_per_s: Option<f64>,
    /// What passed ÷ the limit: reads and writes together where both share it.
    pub of_limit: Option<f64>,
    /// Every round.
    pub runs: Vec<f64>,
    /// Why it was not measured.
    pub left_out: Option<String>,
}

/// What a rate is held against.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// The link, or reads in order.
    pub what: String,
    /// What fits through it.
    pub bytes_per_s: f64,
    /// Whether reads and writes of the same drive share it, so that both have to fit together. Of
    /// links that carry each direction by itself, and where it is not known, each has to fit.
    pub is_shared: bool,
}

/// How often each byte that is copied takes from the limit.
fn passes(limit: Option<&Limit>, is_within_disks: bool) -> f64 {
    if is_within_disks && limit.is_some_and(|limit| limit.is_shared) { 2.0 } else { 1.0 }
}

/// What was found, as it is in `study.json` under `data`.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// Every way.
    pub rows: Vec<Row>,
    /// Copies of a source that was read before.
    pub cached: Vec<Cached>,
    /// What rates are held against.
    pub limit: Option<Limit>,
    /// Whether source and destination lie on the same disks.
    pub is_within_disks: bool,
    /// Whether it is a copy from one drive to another, which one that is simulated counts as.
    pub is_between_drives: bool,
    /// What the source lies on.
    pub source: End,
    /// What it is copied to.
    pub destination: End,
    /// Length of the file.
    pub file_bytes: u64,
    /// What the source is rated at.
    pub rated_read_bytes_per_s: Option<f64>,
    /// What the destination is rated at.
    pub rated_write_bytes_per_s: Option<f64>,
    /// Rounds.
    pub rounds: usize,
    /// How caches were emptied.
    pub cold: String,
    /// Where the source was.
    #[serde(skip)]
    pub from: PathBuf,
    /// Where it was copied to.
    #[serde(skip)]
    pub to: PathBuf,
    /// On what.
    #[serde(skip)]
    pub environment: Environment,
}

/// The study while it is measured.
#[derive(Debug)]
pub struct State {
    place: Place,
    cold: Cold,
    limit: Option<Limit>,
    is_within_disks: bool,
    is_between_drives: bool,
    source: End,
    destination: End,
    ways: Vec<(Way, Vec<f64>, Option<String>)>,
    cached: Vec<Cached>,
    rounds: usize,
}

/// What is made, and removed in the end.
#[derive(Debug)]
struct Place {
    source: OwnDirectory,
    copies: OwnDirectory,
}

/// The directory that is made in --from, and the one in --to, with the files of each.
pub(crate) const DIRECTORIES: [(&str, IsOwn); 2] =
    [("stook-bulk-copy-source", is_source), ("stook-bulk-copy-copies", is_copy)];
/// Rounds of copies with memory that is bounded, at most.
const CACHED_ROUNDS_MAX: usize = 3;
/// Some blocks of the smallest size.
const FILE_MIN_BYTES: u64 = 10 << 10;
/// The name of the file in both.
const FILE: &str = "data";

fn is_source(name: &str) -> bool {
    name == FILE
}

/// The copy, or one that `stook copy` had begun.
fn is_copy(name: &str) -> bool {
    name == FILE || name.starts_with(".stook-")
}

impl Place {
    fn make(study: &BulkCopy) -> anyhow::Result<Self> {
        let [source, copies] = DIRECTORIES;
        let make = |place: &Path, (name, is_own)| OwnDirectory::make(place.join(name), is_own);
        Ok(Self { source: make(&study.from, source)?, copies: make(&study.to, copies)? })
    }

    fn from(&self) -> PathBuf {
        self.source.path().join(FILE)
    }

    fn to(&self) -> PathBuf {
        self.copies.path().join(FILE)
    }
}

impl BulkCopy {
    fn cached_rounds(&self) -> usize {
        self.rounds.min(CACHED_ROUNDS_MAX)
    }

    /// Copies with memory that is bounded, as often as caches are emptied for them.
    fn cached_copies(&self) -> u64 {
        (2 * cached::SHARES.len() * self.cached_rounds()) as u64
    }
}

impl Study for BulkCopy {
    type State = State;
    type Findings = Findings;

    const NAME: &'static str = "bulk-copy";
    const EMBEDDED: &'static str = "The times of every round are";

    fn check(&self) -> anyhow::Result<()> {
        let wrong = |why: String| Err(OptionError::new(why).into());
        for directory in [&self.from, &self.to] {
            if !directory.is_dir() {
                return wrong(format!("{}: expected a directory", directory.display()));
            }
        }
        if self.rounds == 0 {
            return wrong("expected one round or more".to_owned());
        }
        if self.file_bytes < FILE_MIN_BYTES {
            return wrong(format!(
                "--size: expected a file of {} or more",
                units::bytes_binary(FILE_MIN_BYTES)
            ));
        }
        let ratings = [self.rated_read_bytes_per_s, self.rated_write_bytes_per_s];
        if ratings.into_iter().flatten().any(|rating| !(rating > 0.0 && rating.is_finite())) {
            return wrong("expected a rating of more than 0".to_owned());
        }
        // Where both are the same, both lie there at once.
        let context = "the file of --size does not fit";
        check_space(&self.from, self.file_bytes.saturating_mul(2)).context(context)?;
        check_space(&self.to, self.file_bytes).context(context)
    }

    fn expected(&self) -> Expected {
        // Copies with memory that is bounded are quicker, or left out.
        let copies = (Way::all().len() + 1).saturating_mul(self.rounds) as u64;
        Expected { time_s: 0.0, bytes: self.file_bytes.saturating_mul(copies) }
    }

    fn lock(&self) -> anyhow::Result<Vec<PlaceLock>> {
        PlaceLock::take_all([self.from.as_path(), self.to.as_path()])
    }

    fn prepare(&self, hooks: &dyn Hooks) -> anyhow::Result<State> {
        let place = Place::make(self)?;
        hooks.note(&format!(
            "Writing a file of {} in {}",
            units::bytes_binary(self.file_bytes),
            self.from.display()
        ));
        let task = Portion::new("writing", Unit::Bytes, self.file_bytes);
        write_data(&place.from(), self.file_bytes, counting(hooks, &task, BLOCK_LEN as u64))?;
        let source = File::open(place.from())?;
        source.sync_data()?;
        let cold = match self.keep_caches {
            true => Cold::Files("they were to be left alone".to_owned()),
            false => Cold::detect(),
        };
        let [from, to] = [&self.from, &self.to].map(|path| Attachment::of(path));
        let (source, destination) = (End::of(&self.from, &from), End::of(&self.to, &to));
        let is_same_file_system = same_file_system(&self.from, &self.to)?;
        let is_same_disks = from.is_same_disks(&to);
        let is_within_disks = is_same_file_system || is_same_disks;
        let ends = [&source, &destination];
        let is_between_drives = ends::is_between_drives(is_same_file_system, is_same_disks, ends);
        let limit = limit(&from, Some(&to).filter(|_| !is_within_disks), &place)?;
        let free = free_memory_bytes()?;
        let ways = Way::all().into_iter().map(|way| (way, Vec::new(), too_large(way, self.file_bytes, free)));
        Ok(State {
            place,
            cold,
            limit,
            is_within_disks,
            is_between_drives,
            source,
            destination,
            ways: ways.collect(),
            cached: Vec::new(),
            rounds: 0,
        })
    }

    fn measure(&self, state: &mut State, hooks: &dyn Hooks) -> anyhow::Result<()> {
        state.rounds += 1;
        hooks.note(&format!("Round {} of {}", state.rounds, self.rounds));
        let (from, to) = (state.place.from(), state.place.to());
        let paths = [from.clone()];
        let is_turned = state.rounds.is_multiple_of(2);
        let mut ways: Vec<_> = state.ways.iter_mut().collect();
        if is_turned {
            ways.reverse();
        }
        let measured = ways.iter().filter(|(_, _, left_out)| left_out.is_none()).count() as u64;
        let what = format!("round {} of {}", state.rounds, self.rounds);
        let shown = hooks.begin(&Portion::new(what, Unit::Bytes, measured.saturating_mul(self.file_bytes)));
        for (way, runs, left_out) in ways {
            if left_out.is_some() {
                continue;
            }
            hooks.check()?;
            state.cold.prepare(Next { paths: &paths, memory_bytes: way.memory_bytes(self.file_bytes) })?;
            let seconds = way.copy(&from, &to).with_context(|| way.label())?;
            // Once for each way, and outside of the time.
            if runs.is_empty() {
                ways::compare(&from, &to).with_context(|| way.label())?;
            }
            runs.push(seconds);
            hooks.detail(&format!("  {}: {}", way.label(), units::rate(self.file_bytes as f64 / seconds)));
            shown.add(self.file_bytes);
            remove(&to)?;
        }
        Ok(())
    }

    /// Each copy of the first round was compared with its source right after it was made, because
    /// there is no room for all of them.
    fn check_bytes(&self, state: &mut State, hooks: &dyn Hooks) -> anyhow::Result<()> {
        let (from, to) = (state.place.from(), state.place.to());
        let paths = [from.clone()];
        let total = self.file_bytes.saturating_mul(self.cached_copies());
        let task = Portion::new("copying from memory", Unit::Bytes, total);
        let before_each = counting(hooks, &task, self.file_bytes);
        for share in cached::SHARES {
            let prepare = || {
                before_each()?;
                state.cold.prepare(Next { paths: &paths, memory_bytes: 0 })
            };
            let cached = cached::measure(&from, &to, self.file_bytes, share, self.cached_rounds(), prepare)?;
            if cached.seconds.is_some() {
                ways::compare(&from, &to)?;
            }
            remove(&to)?;
            state.cached.push(cached);
        }
        Ok(())
    }

    fn wants_round(&self, state: &State, _: &dyn Hooks) -> bool {
        state.rounds < self.rounds
    }

    fn conclude(&self, state: State) -> anyhow::Result<Findings> {
        let passes = passes(state.limit.as_ref(), state.is_within_disks);
        let row = |(way, runs, left_out): (Way, Vec<f64>, Option<String>)| {
            let seconds = median(&runs).ok();
            let bytes_per_s = seconds.map(|seconds| self.file_bytes as f64 / seconds);
            let of_limit = bytes_per_s.zip(state.limit.as_ref());
            let of_limit = of_limit.map(|(rate, limit)| passes * rate / limit.bytes_per_s);
            Row { way, label: way.label(), seconds, bytes_per_s, of_limit, runs, left_out }
        };
        Ok(Findings {
            rows: state.ways.into_iter().map(row).collect(),
            cached: state.cached,
            limit: state.limit,
            is_within_disks: state.is_within_disks,
            is_between_drives: state.is_between_drives,
            source: state.source,
            destination: state.destination,
            file_bytes: self.file_bytes,
            rated_read_bytes_per_s: self.rated_read_bytes_per_s,
            rated_write_bytes_per_s: self.rated_write_bytes_per_s,
            rounds: state.rounds,
            cold: state.cold.describe(),
            from: self.from.clone(),
            to: self.to.clone(),
            environment: Environment::of(&self.to),
        })
    }

    fn frame(findings: &Findings) -> Frame {
        frame::frame(findings)
    }

    fn text(findings: &Findings) -> Vec<Text> {
        page::text(findings)
    }

    fn page(findings: &Findings) -> Page {
        page::page(findings)
    }
}

/// The narrower of the links of the source and of another destination, or what reads of the source
/// in order bring: the file was just written, and its pages are given up before.
fn limit(from: &Attachment, to: Option<&Attachment>, place: &Place) -> anyhow::Result<Option<Limit>> {
    let reads = from.link_in_words().zip(from.read_limit_bytes_per_s());
    let writes = to.and_then(|to| to.link_in_words().zip(to.write_limit_bytes_per_s()));
    if reads.is_some() || writes.is_some() {
        let links = reads.into_iter().chain(writes);
        let narrowest = links.min_by(|one, other| one.1.total_cmp(&other.1));
        let is_shared = ends::share_links(from);
        return Ok(narrowest.map(|(what, bytes_per_s)| Limit { what, bytes_per_s, is_shared }));
    }
    File::open(place.from())?.drop_cached()?;
    let speed = sequential(&[place.from()], false)?;
    let what = "reads in order past the page cache".to_owned();
    Ok(Some(Limit { what, bytes_per_s: speed.bytes_per_s(), is_shared: ends::share_disks(from) }))
}

fn same_file_system(one: &Path, other: &Path) -> anyhow::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| {
        fs::metadata(path)
            .map(|metadata| metadata.dev())
            .with_context(|| format!("cannot look at {}", path.display()))
    };
    Ok(device(one)? == device(other)?)
}

/// A way that would need more than a quarter of the free memory is left out.
fn too_large(way: Way, file_bytes: u64, free: u64) -> Option<String> {
    let needed = way.memory_bytes(file_bytes);
    (needed > free / 4).then(|| {
        format!(
            "It needs {} of memory, and {} are free.",
            units::bytes_binary(needed),
            units::bytes_binary(free)
        )
    })
}

fn free_memory_bytes() -> anyhow::Result<u64> {
    let path = "/proc/meminfo";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.with_context(|| format!("{path} does not say what is available"))? * 1024)
}

impl Findings {
    /// Whether reads and writes of this copy share its limit.
    fn is_shared(&self) -> bool {
        passes(self.limit.as_ref(), self.is_within_disks) > 1.0
    }

    /// Nothing is judged of devices where there is none.
    fn of_devices(&self, conclusions: Vec<Conclusion>) -> Vec<Conclusion> {
        let is_memory = self.source.is_memory || self.destination.is_memory;
        if is_memory { nothing_of_a_device(conclusions) } else { conclusions }
    }

    /// What passes at this rate ÷ the limit.
    fn of_limit(&self, bytes_per_s: f64) -> Option<f64> {
        let limit = self.limit.as_ref()?;
        Some(passes(Some(limit), self.is_within_disks) * bytes_per_s / limit.bytes_per_s)
    }
}

#[cfg(test)]
impl Findings {
    /// Nothing was measured.
    fn empty() -> Self {
        Self {
            rows: Vec::new(),
            cached: Vec::new(),
            limit: Some(Limit { what: "a link".to_owned(), bytes_per_s: 600e6, is_shared: true }),
            is_within_disks: true,
            is_between_drives: false,
            source: End::default(),
            destination: End::default(),
            file_bytes: 16 << 30,
            rated_read_bytes_per_s: None,
            rated_write_bytes_per_s: None,
            rounds: 1,
            cold: String::new(),
            from: PathBuf::new(),
            to: PathBuf::new(),
            environment: Environment::default(),
        }
    }

    /// Everything copies at this rate.
    fn copying(bytes_per_s: f64) -> Self {
        let empty = Self::empty();
        let seconds = empty.file_bytes as f64 / bytes_per_s;
        let row = |way: Way| Row {
            way,
            label: way.label(),
            seconds: Some(seconds),
            bytes_per_s: Some(bytes_per_s),
            of_limit: Some(2.0 * bytes_per_s / 600e6),
            runs: vec![seconds; 3],
            left_out: None,
        };
        Self { rows: Way::all().into_iter().map(row).collect(), ..empty }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: both directories were removed after the refusal, with what was in them.
    #[test]
    fn what_is_not_its_own_is_refused_and_stays() {
        let place = tempfile::tempdir().unwrap();
        let study = BulkCopy {
            from: place.path().to_owned(),
            to: place.path().to_owned(),
            file_bytes: 1,
            rounds: 1,
            rated_read_bytes_per_s: None,
            rated_write_bytes_per_s: None,
            keep_caches: true,
        };
        let [(source, _), (copies, _)] = DIRECTORIES;
        for (foreign, made) in [(source, copies), (copies, source)] {
            let thesis = place.path().join(foreign).join("thesis.txt");
            fs::create_dir(place.path().join(foreign)).unwrap();
            fs::write(&thesis, "precious").unwrap();
            assert!(Place::make(&study).unwrap_err().to_string().contains("thesis.txt"));
            assert!(thesis.exists() && !place.path().join(made).exists());
            fs::remove_dir_all(place.path().join(foreign)).unwrap();
        }
        drop(Place::make(&study).unwrap());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_a_copy_within_a_drive_takes_twice_from_a_limit_that_is_shared() {
        let limit = |is_shared| Limit { what: String::new(), bytes_per_s: 1.0, is_shared };
        assert_eq!(passes(Some(&limit(true)), true), 2.0);
        assert_eq!(passes(Some(&limit(true)), false), 1.0);
        assert_eq!(passes(Some(&limit(false)), true), 1.0);
        assert_eq!(passes(None, true), 1.0);
    }

    #[test]
    fn blocks_that_do_not_fit_into_memory_are_left_out_with_the_reason() {
        let way = Way::Threads { block_bytes: 1 << 30, queue: 10 };
        assert_eq!(too_large(way, 1 << 30, 8 << 30), None);
        assert_eq!(
            too_large(way, 1 << 30, 2 << 30).unwrap(),
            "It needs 1.00 GiB of memory, and 2.00 GiB are free."
        );
        assert_eq!(too_large(Way::Cp, 1 << 40, 1 << 30), None);
        assert!(free_memory_bytes().unwrap() > 0);
    }
}
