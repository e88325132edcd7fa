//! The study of many small files: what do the same records cost as loose files, as one plain file,
//! as a pack?
//!
//! All ways of reading take their turn in every round, each after emptied caches, so that a device
//! whose speed drifts does so for all of them; ratios are taken within rounds. What they return is
//! compared once, outside of the measured time. What the document speaks of beside its table has
//! rounds of its own after these; other file systems are measured before, each on a loop device.

pub mod conclusions;
mod frame;
pub mod further;
mod measure;
mod numbered;
pub mod on;
mod page;
pub mod plain;
pub mod published;
pub mod readers;
mod tables;
mod text;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::{Serialize, Serializer};
use stook::pack::{OpenOptions, Pack};
use stook::report::json::TextOrBytes;
use stook::report::page::Page;
use stook::report::stats::{PairedRatio, Summary, median};
use stook::report::units;

use self::conclusions::{Found, OnSeconds, spread_of};
use self::further::{Further, FurtherData, FurtherRow, JAVA_DIR, NotMeasured};
use self::measure::{Bench, Round, Way, cold_of, ways};
use self::on::{OnBench, OnFileSystem, OnFound};
use self::readers::{Data, PUBLISHED_BUFFER_LEN, Reader};
use crate::digest::Fingerprint;
use crate::environment::{Environment, is_memory, memory_first};
use crate::frame::Frame;
use crate::meter::Taken;
use crate::paths::lies_within;
use crate::place::PlaceLock;
use crate::progress::{Expected, Portion, Unit, counting};
use crate::sample::{self, Cleaned, Sample};
use crate::{Hooks, OptionError, Study, Text};

/// Rounds where the user does not say how many.
const RUNS: usize = 3;

/// Then no round is begun that would end later than this after the start.
const TIME_MAX: Duration = Duration::from_secs(105);

/// The same for the rounds after these, of which the first is always measured.
const FURTHER_TIME_MAX: Duration = Duration::from_secs(150);

/// How often the records are moved once, and how often in each round, in large pieces: what is read
/// file by file counts several times, because it takes as much longer.
const ONCE: u64 = 20;
const EACH_ROUND: u64 = 18;

/// Rounds where the user does not say how many, of a sample of the published size.
const RUNS_EXPECTED: usize = 2;

/// What each file system of `--on` takes, seconds.
const ON_S: f64 = 60.0;

/// The reader of the published study.
const PLAIN: Reader = Reader::Plain { buffer_bytes: PUBLISHED_BUFFER_LEN };

/// What all is compared with.
const FILES: Reader = Reader::Files { threads: 1 };

/// The name of the limit in tables.
const LIMIT: &str = "Limit of the device";

/// The study.
#[derive(Debug, Clone)]
pub struct ManySmallFiles {
    /// The user's tree; the sample if `None`.
    pub tree: Option<PathBuf>,
    /// Where the sample, the plain file and the pack are kept.
    pub work: PathBuf,
    /// The sample.
    pub sample: Sample,
    /// Rounds, at least 1; without it three, or fewer where they would take too long.
    pub runs: Option<usize>,
    /// Whether the caches of other programs are left alone, even where they could be emptied.
    pub keep_caches: bool,
    /// File systems that are made for it, by the names of `--on`; only root may.
    pub on: Vec<String>,
}

/// What was found, as it is in `study.json` under `data`.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// The answer in a sentence.
    #[serde(skip)]
    pub verdict: String,
    /// The measurements, the limit last.
    pub rows: Vec<Row>,
    /// What was measured in rounds of its own.
    pub further: Vec<FurtherRow>,
    /// What of that was not measured.
    pub left_out: Vec<NotMeasured>,
    /// The file systems that were asked for.
    pub file_systems: Vec<OnFileSystem>,
    /// The figures that the published conclusions are judged by.
    #[serde(skip)]
    pub found: Found,
    /// Whether the data lies in memory, so that nothing is judged of a device.
    #[serde(skip)]
    pub is_memory: bool,
    /// What every reader returned.
    pub returned: Fingerprint,
    /// The numbers of readers that were tried: threads and time in seconds.
    pub readers_tried: Vec<(usize, f64)>,
    /// How it was measured.
    pub method: Method,
    /// On what.
    #[serde(skip)]
    pub environment: Environment,
}

/// How it was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Method {
    /// Whether names and inodes came from the device as well.
    pub caches_dropped: bool,
    /// How caches were emptied.
    pub cold: String,
    /// What measured the limit, and how.
    pub limit_tool: String,
    /// Rounds.
    pub runs: usize,
    /// Rounds of what has rounds of its own.
    pub further_runs: usize,
    /// Why what devices read is not known; `None` where it is.
    pub uncounted: Option<String>,
    /// What Java calls itself, where it was measured.
    pub java: Option<String>,
    /// The tree: `tree`, or `tree_b64` where its path is not UTF-8.
    #[serde(flatten, serialize_with = "as_text_or_bytes")]
    pub tree: PathBuf,
    /// The data that was read.
    pub data: String,
    /// The files of the pack, bytes.
    pub pack_bytes: u64,
}

fn as_text_or_bytes<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    TextOrBytes::new("tree", path.as_os_str().as_encoded_bytes()).serialize(serializer)
}

/// A way of reading and its cost.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its name.
    pub label: String,
    /// How it read; `None` for the limit.
    pub reader: Option<Reader>,
    /// The fingerprint of what it returned, the same for all; `None` for the limit, which returns
    /// nothing.
    pub returned: Option<Fingerprint>,
    /// Median of all rounds, seconds.
    pub seconds: f64,
    /// Bytes of records (of files of the pack, for the limit) per second.
    pub bytes_per_s: f64,
    /// How many times as fast as one reader of the files, as median of the rounds' ratios.
    pub speedup: f64,
    /// The share of the limit's speed that it reaches, 0 to 1, if it reads the same data as the
    /// limit.
    pub share_of_limit: Option<PairedRatio>,
    /// What the devices below read, for all programs: median of all rounds, bytes. `None` where
    /// that is not known, and of the limit.
    pub device_read_bytes: Option<u64>,
    /// That ÷ the bytes that were asked for.
    pub read_amplification: Option<f64>,
    /// All times.
    pub summary: Summary,
    /// Every round.
    pub runs: Vec<Taken>,
}

/// The study while it is measured.
pub struct State {
    started: Instant,
    bench: Bench,
    best: usize,
    readers_tried: Vec<(usize, f64)>,
    ways: Vec<Way>,
    plain_again_s: Vec<f64>,
    /// The time of the last round.
    round: Duration,
    further: Further,
    further_round: Duration,
    on: OnFound,
    returned: Fingerprint,
    _given: Option<Given>,
}

/// The copies of a tree that was given, which may be private and are of no use to the next run:
/// removed however the study ends.
struct Given(PathBuf);

impl Drop for Given {
    fn drop(&mut self) {
        for name in ["given.plain", "given.stook", "given.plain.partial", "given.stook.partial"] {
            // What cannot be removed is by the next run, or by --clean.
            let _ = sample::remove(&self.0.join(name));
        }
    }
}

/// What is measured next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A round of the comparison.
    Round,
    /// A round of what has its own.
    Further,
    /// Nothing.
    Done,
}

impl Study for ManySmallFiles {
    type State = State;
    type Findings = Findings;

    const NAME: &'static str = "many-small-files";
    const EMBEDDED: &'static str = "The figures of every round are";

    fn check(&self) -> anyhow::Result<()> {
        let work = std::path::absolute(&self.work)?;
        let is_other = !work.is_dir() && (work.exists() || work.is_symlink());
        if is_other || work.parent().is_some_and(|above| !above.is_dir()) {
            let why =
                format!("{}: expected a directory, or a new one in one that is there", self.work.display());
            return Err(OptionError::new(why).into());
        }
        match &self.tree {
            Some(_) if !self.on.is_empty() => {
                Err(OptionError::new("--on puts the sample on file systems, and not what --dir names").into())
            }
            Some(tree) => check_given(tree, &self.work),
            None => {
                numbered::check(self.sample)?;
                let on = on::check(&self.on, self.sample)?;
                let on_bytes = if on.is_empty() { 0 } else { on::space_bytes(self.sample) };
                sample::check_space(&self.work, self.planned().needed_bytes.saturating_add(on_bytes))
                    .context("the sample of --files of --size does not fit")
            }
        }
    }

    fn expected(&self) -> Expected {
        let (sample_bytes, rounds) = (self.sample.bytes(), self.runs.unwrap_or(RUNS_EXPECTED) as u64);
        // What is made, the numbers of readers that are tried, and what is compared.
        let once = self.planned().needed_bytes.saturating_add(sample_bytes.saturating_mul(ONCE));
        let bytes = once.saturating_add(sample_bytes.saturating_mul(rounds.saturating_mul(EACH_ROUND)));
        Expected { time_s: ON_S * self.on.len() as f64, bytes }
    }

    fn lock(&self) -> anyhow::Result<Vec<PlaceLock>> {
        Ok(vec![sample::lock_work(&self.work)?])
    }

    fn prepare(&self, hooks: &dyn Hooks) -> anyhow::Result<State> {
        // Copies of private files that a run left which was killed.
        drop(Given(self.work.clone()));
        let given = self.tree.is_some().then(|| Given(self.work.clone()));
        let on = self.measure_file_systems(hooks)?;
        let started = Instant::now();
        let (data, further) = self.make(hooks)?;
        let bench = Bench::new(data, self.keep_caches, hooks)?;
        let further = Further::new(further, &self.work, hooks)?;
        hooks.note("Looking for the best number of readers");
        let (best, readers_tried) = bench.best_readers(hooks)?;
        Ok(State {
            started,
            ways: ways(best, &bench),
            bench,
            best,
            readers_tried,
            plain_again_s: Vec::new(),
            round: Duration::ZERO,
            further,
            further_round: Duration::ZERO,
            on,
            returned: Fingerprint::default(),
            _given: given,
        })
    }

    fn measure(&self, state: &mut State, hooks: &dyn Hooks) -> anyhow::Result<()> {
        let began = Instant::now();
        let runs = self.runs.unwrap_or(RUNS);
        match self.stage(state) {
            Stage::Round => {
                let round = Round { number: state.plain_again_s.len() + 1, of: runs };
                hooks.note(&format!("Round {} of {runs}", round.number));
                state.plain_again_s.push(state.bench.round(&mut state.ways, &round, hooks)?.seconds);
                state.round = began.elapsed();
            }
            Stage::Further => {
                let number = state.further.rounds() + 1;
                hooks.note(&format!("What else the document speaks of, round {number} of {runs}"));
                state.further.round(&state.bench, runs, hooks)?;
                state.further_round = began.elapsed();
            }
            Stage::Done => {}
        }
        Ok(())
    }

    fn check_bytes(&self, state: &mut State, hooks: &dyn Hooks) -> anyhow::Result<()> {
        hooks.note("Comparing what was read");
        state.returned = state.bench.compare(&mut state.ways, hooks)?;
        state.further.compare(&state.bench.data, state.returned, hooks)?;
        if let Some((sample, found)) = state.on.returned {
            let is_same = sample != self.sample || found == state.returned;
            ensure!(is_same, "what was read differs: {found:?} on file systems, else {:?}", state.returned);
        }
        Ok(())
    }

    fn wants_round(&self, state: &State, hooks: &dyn Hooks) -> bool {
        let stage = self.stage(state);
        let (rounds, further) = (state.plain_again_s.len(), state.further.rounds());
        let runs = self.runs.unwrap_or(RUNS);
        let is_cut = match stage {
            Stage::Round => false,
            Stage::Further => rounds < runs && further == 0,
            Stage::Done => further < runs,
        };
        if is_cut {
            let most = if stage == Stage::Further { TIME_MAX } else { FURTHER_TIME_MAX };
            hooks.note(&format!("No more of these rounds: they would take longer than {} s", most.as_secs()));
        }
        stage != Stage::Done
    }

    fn conclude(&self, state: State) -> anyhow::Result<Findings> {
        let State { bench, ways, best, returned, further, on, .. } = state;
        let file_systems = on.file_systems;
        let parallel = Reader::Files { threads: best };
        let (rows, further_rows) = (rows(&ways)?, further.rows()?);
        let row = |reader| rows.iter().find(|row| row.reader == reader).context("a way was not measured");
        let plain = row(Some(PLAIN))?;
        let cpu_s = |taken: &Taken| taken.user_cpu_s + taken.system_cpu_s;
        let found = Found {
            files: returned.records,
            files_s: loose_files(&rows).context("a way was not measured")?.seconds,
            files_parallel_s: row(Some(parallel))?.seconds,
            readers: best,
            plain_s: plain.seconds,
            plain_cpu_s: median(&plain.runs.iter().map(cpu_s).collect::<Vec<_>>())?,
            plain_again_s: median(&state.plain_again_s)?,
            pack_s: row(Some(Reader::PackStream))?.seconds,
            plain_of_limit: plain.bytes_per_s / row(None)?.bytes_per_s,
            files_amplification: loose_files(&rows).and_then(|row| row.read_amplification),
            further: further_rows.iter().map(Into::into).collect(),
            file_systems: file_systems.iter().map(Into::into).collect(),
            below_work: below_work(&self.work, &rows),
            rounds: state.plain_again_s.len(),
            spread: loose_files(&rows).and_then(|row| spread_of(&row.runs)),
        };
        let method = Method {
            caches_dropped: bench.cold.is_complete(),
            cold: bench.cold.describe(),
            limit_tool: row(None)?.label.trim_start_matches(&format!("{LIMIT}, ")).to_owned(),
            runs: state.plain_again_s.len(),
            further_runs: further.rounds(),
            uncounted: bench.uncounted.clone(),
            java: further.java_version().map(str::to_owned),
            tree: bench.data.tree.clone(),
            data: self.describe(returned),
            pack_bytes: bench.pack_bytes,
        };
        Ok(Findings {
            verdict: verdict(row(Some(Reader::PackStream))?, row(Some(parallel))?, is_memory(&self.work)),
            is_memory: is_memory(&self.work),
            found,
            returned,
            readers_tried: state.readers_tried,
            method,
            environment: Environment::of(&self.work),
            rows,
            further: further_rows,
            left_out: further.left_out,
            file_systems,
        })
    }

    fn frame(findings: &Findings) -> Frame {
        frame::frame(findings)
    }

    fn text(findings: &Findings) -> Vec<Text> {
        text::text(findings)
    }

    fn page(findings: &Findings) -> Page {
        page::page(findings)
    }
}

/// The loose files by one reader: as published, in the order of their numbers, where they have any.
fn loose_files(rows: &[Row]) -> Option<&Row> {
    let of = |reader| rows.iter().find(|row| row.reader == Some(reader));
    of(Reader::Numbered).or_else(|| of(FILES))
}

/// What was measured on the file system of the work directory, as the published table has it.
fn below_work(work: &Path, rows: &[Row]) -> Option<(String, OnSeconds)> {
    let file_system = Environment::of(work).file_system;
    let name = file_system.split(' ').next().filter(|name| !name.is_empty())?.to_owned();
    let (one_file, files) = (rows.iter().find(|row| row.reader == Some(PLAIN))?, loose_files(rows)?);
    let (one_file_s, files_s) = (one_file.seconds, files.seconds);
    Some((name, OnSeconds { one_file_s, files_s, files_amplification: files.read_amplification }))
}

/// The limit comes last, regardless of its turn.
fn rows(ways: &[Way]) -> anyhow::Result<Vec<Row>> {
    let seconds = |reader| ways.iter().find(|way| way.reader == reader).map(Way::seconds).unwrap_or_default();
    let (files, limit) = (seconds(Some(FILES)), seconds(None));
    let (limits, readers): (Vec<&Way>, Vec<&Way>) = ways.iter().partition(|way| way.reader.is_none());
    readers.into_iter().chain(limits).map(|way| way.row(&files, &limit)).collect()
}

fn verdict(pack: &Row, parallel: &Row, is_memory: bool) -> String {
    let against_parallel = pack.speedup / parallel.speedup;
    let share = pack.share_of_limit.as_ref().map_or(0.0, |share| share.ratio);
    let of = if is_memory { "large reads of the same memory" } else { "the speed of the device" };
    format!(
        "{}The pack loads {} as fast as the loose files with one reader and {} as fast as with the best number of \
         readers, every checksum verified, at {} of {of}.",
        memory_first(is_memory),
        units::factor(pack.speedup),
        units::factor(against_parallel),
        units::percent(share)
    )
}

/// Refuses a tree that cannot be measured.
fn check_given(tree: &Path, work: &Path) -> anyhow::Result<()> {
    let metadata = tree.metadata().with_context(|| format!("cannot read {}", tree.display()))?;
    let wrong = |why: String| Err(OptionError::new(format!("{} {why}", tree.display())).into());
    if !metadata.is_dir() {
        return wrong("is not a directory".to_owned());
    }
    if lies_within(tree, work) || lies_within(work, tree) {
        return wrong(format!("and {} must not lie in one another: name another --work", work.display()));
    }
    if sample::count(tree)?.files == 0 {
        return wrong("has no files to read".to_owned());
    }
    Ok(())
}

/// Removes the files that the study made in a work directory; `None` if there is none.
///
/// # Errors
/// Returns an error if it was not made by a study, or something cannot be removed.
pub fn clean(work: &Path) -> anyhow::Result<Option<Cleaned>> {
    sample::clean_after(work, makes, on::remove_left)
}

/// Whether something in a work directory has a name that this study uses: data, and results if they
/// were put beside it.
fn makes(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let name = name.strip_suffix(".partial").unwrap_or(name);
    // Behind the name of a result are the digits of a run that was killed as it wrote it.
    let name = match name.rsplit_once('.') {
        Some((result @ ("study.json" | "study.html"), digits)) if !digits.is_empty() => result,
        _ => name,
    };
    if name == JAVA_DIR || on::is_part(name) {
        return true;
    }
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Those of versions that had another sample, too.
    let sample = |stem: &str| {
        let stem = stem.strip_suffix("-numbered").unwrap_or(stem);
        stem.split_once('x').is_some_and(|(files, size)| number(files) && number(size))
    };
    match name.rsplit_once('.') {
        Some(("study", "json" | "html")) | Some(("given", "plain" | "stook")) => true,
        Some((stem, "tree" | "plain" | "stook" | "aged" | "history" | "written")) => sample(stem),
        _ => false,
    }
}

impl ManySmallFiles {
    /// Refuses file systems that are not known, or that this user may not make.
    ///
    /// # Errors
    /// Returns an error that names `--on`.
    pub(crate) fn check_on(&self) -> Result<(), OptionError> {
        on::check(&self.on, self.sample).map(drop)
    }

    /// What it makes beside what is there, bytes.
    pub(crate) fn needed_bytes(&self) -> u64 {
        self.planned().needed_bytes
    }

    /// The data that was read, in words.
    fn describe(&self, returned: Fingerprint) -> String {
        match &self.tree {
            Some(tree) => format!(
                "{} regular files with {} below {}",
                units::count(returned.records),
                units::bytes_decimal(returned.bytes),
                tree.display()
            ),
            None => format!(
                "{} files of {} pseudo-random bytes after their number and length, ten in a directory",
                units::count(self.sample.files),
                units::count(self.sample.size)
            ),
        }
    }

    /// The data that will be made for a sample, and the space that it takes in addition to existing
    /// data.
    fn planned(&self) -> Planned {
        let name = |kind: &str| self.work.join(format!("{}.{kind}", numbered::name(self.sample)));
        let numbered = Some(self.sample.files);
        let data = Data { tree: name("tree"), plain: name("plain"), pack: name("stook"), numbered };
        let further = FurtherData::of(&self.work, self.sample);
        let missing = [&data.tree, &data.plain, &data.pack].into_iter().filter(|path| !path.exists()).count();
        let bytes =
            self.sample.bytes().saturating_mul(missing as u64).saturating_add(further.missing_bytes());
        // A file system takes some more than the bytes of small files.
        Planned { data, further, needed_bytes: bytes.saturating_mul(5) / 4 }
    }

    /// What is measured next; the first rounds always are.
    fn stage(&self, state: &State) -> Stage {
        let (rounds, further, runs) =
            (state.plain_again_s.len(), state.further.rounds(), self.runs.unwrap_or(RUNS));
        let elapsed = state.started.elapsed();
        let fits = |round: Duration, most: Duration| self.runs.is_some() || elapsed + round <= most;
        if rounds == 0 || further == 0 && rounds < runs && fits(state.round, TIME_MAX) {
            Stage::Round
        } else if further == 0 || further < runs && fits(state.further_round, FURTHER_TIME_MAX) {
            Stage::Further
        } else {
            Stage::Done
        }
    }

    fn measure_file_systems(&self, hooks: &dyn Hooks) -> anyhow::Result<OnFound> {
        let kinds = on::check(&self.on, self.sample)?;
        let cold = cold_of(self.keep_caches);
        OnBench::new(&self.work, self.sample, self.runs, &cold, hooks).measure(&kinds)
    }

    /// The tree, the plain file and the pack, and what the sample has beside; data of an earlier
    /// run is kept.
    fn make(&self, hooks: &dyn Hooks) -> anyhow::Result<(Data, Option<FurtherData>)> {
        let work = &self.work;
        let Some(tree) = &self.tree else {
            let (sample, Planned { data, further, needed_bytes }) = (self.sample, self.planned());
            sample::check_space(work, needed_bytes)?;
            if !data.tree.exists() {
                hooks.note(&format!(
                    "Making {} files of {} bytes in {}",
                    sample.files,
                    sample.size,
                    work.display()
                ));
                let task = Portion::new("making the files", Unit::Bytes, sample.bytes());
                numbered::make_tree(&data.tree, sample, counting(hooks, &task, sample.size))?;
            }
            if !data.plain.exists() {
                hooks.note(&format!("Writing them into one file, {}", data.plain.display()));
                let task = Portion::new("writing one file", Unit::Bytes, sample.bytes());
                numbered::write(&data.plain, sample, counting(hooks, &task, sample.size))?;
            }
            make_rest(&data, sample.files, hooks)?;
            further.make(hooks)?;
            return Ok((data, Some(further)));
        };
        let (plain, pack) = (work.join("given.plain"), work.join("given.stook"));
        let data = Data { tree: tree.clone(), plain, pack, numbered: None };
        // The user's tree may have changed since.
        sample::remove(&data.plain)?;
        sample::remove(&data.pack)?;
        let given = sample::count(tree)?;
        sample::check_space(work, given.bytes.saturating_mul(2).saturating_mul(11) / 10)?;
        make_rest(&data, given.files, hooks)?;
        Ok((data, None))
    }
}

/// What is made of a sample.
struct Planned {
    data: Data,
    further: FurtherData,
    /// Bytes of what is not there yet.
    needed_bytes: u64,
}

fn make_rest(data: &Data, files: u64, hooks: &dyn Hooks) -> anyhow::Result<()> {
    if !data.plain.exists() {
        hooks.note(&format!("Writing them into one plain file, {}", data.plain.display()));
        let task = Portion::new("writing one file", Unit::Items, files);
        plain::write(&data.tree, &data.plain, counting(hooks, &task, 1))?;
    }
    // A pack of an older version that this one cannot read is made again.
    if Pack::open_path(&data.pack, OpenOptions::default()).is_err() {
        hooks.note(&format!("Packing them into {}", data.pack.display()));
        let task = Portion::new("packing", Unit::Items, files);
        plain::pack(&data.tree, &data.pack, counting(hooks, &task, 1))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loose_files_are_those_in_the_order_of_their_numbers_where_they_have_any() {
        let row = |reader, seconds| Row {
            label: String::new(),
            reader: Some(reader),
            returned: None,
            seconds,
            bytes_per_s: 1.0,
            speedup: 1.0,
            share_of_limit: None,
            device_read_bytes: None,
            read_amplification: None,
            summary: Summary::of(&[seconds]).unwrap(),
            runs: Vec::new(),
        };
        let rows = [row(FILES, 1.0), row(Reader::Files { threads: 8 }, 2.0), row(Reader::Numbered, 3.0)];
        assert_eq!(loose_files(&rows).map(|row| row.seconds), Some(3.0));
        assert_eq!(loose_files(&rows[..2]).map(|row| row.seconds), Some(1.0));
        assert!(loose_files(&rows[1..2]).is_none());
    }

    #[test]
    fn only_names_that_are_given_here_count_as_made_here() {
        for name in [
            "50000x20000.tree",
            "50000x20000-numbered.tree",
            "1x0.plain",
            "1x0.stook.partial",
            "50000x20000-numbered.aged.partial",
            "50000x20000-numbered.history",
            "50000x20000-numbered.written",
            "java",
            "on-vfat.image",
            "on-vfat.mounted",
            "given.stook",
            "study.html",
            "study.json.partial",
            "study.json.0123456789abcdef.partial",
        ] {
            assert!(makes(OsStr::new(name)), "{name}");
        }
        for name in [
            "given.tree",
            "photos.stook",
            "x.tree",
            "1x.tree",
            "study.txt",
            "notes",
            ".partial",
            "",
            "x.aged",
            "on.image",
        ] {
            assert!(!makes(OsStr::new(name)), "{name}");
        }
    }
}
