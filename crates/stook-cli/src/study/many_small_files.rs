//! The study of many small files: what do the same records cost as loose files, as one plain file, as a
//! pack?
//!
//! All ways of reading take their turn in every round, each after emptied caches, so that a device whose
//! speed drifts does so for all of them; ratios are taken within rounds. What they return is compared once,
//! outside of the measured time.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::{Serialize, Serializer};
use stook::pack::{OpenOptions, Pack};
use stook::report::json::TextOrBytes;
use stook::report::stats::{PairedRatio, Summary};
use stook::report::units;

use super::cold::{Cold, Next};
use super::digest::Fingerprint;
use super::environment::Environment;
use super::limit::{self, Fio, Speed};
use super::meter::Taken;
use super::plain;
use super::published::{Conclusion, Found, PUBLISHED, Published, conclusions};
use super::readers::{Amount, Data, LARGE_BUFFER_LEN, PUBLISHED_BUFFER_LEN, Reader};
use super::sample::{self, Sample};
use crate::exit::UsageError;
use crate::interrupt;
use crate::paths::resolved;

/// The numbers of readers among which the best is looked for.
const READERS: [usize; 4] = [8, 32, 64, 128];

/// Memory touched before every measurement, over the bytes of the records.
const MEMORY_OVER_BYTES: u64 = 512 << 20;

/// Rounds where the user does not say how many.
const RUNS: usize = 3;

/// Then no round is begun that would end later than this after the start.
const TIME_MAX: Duration = Duration::from_secs(105);

/// Confidence asked for; few rounds give less, and say so.
const CONFIDENCE: f64 = 0.95;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
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
}

/// The result, as it is in `study.json`.
#[derive(Debug, Clone, Serialize)]
pub struct Study {
    /// `many-small-files`.
    pub name: &'static str,
    /// The answer in a sentence.
    pub verdict: String,
    /// What was measured, the limit last.
    pub rows: Vec<Row>,
    /// The published table.
    pub published: [Published; 5],
    /// What was published, and whether it holds here.
    pub conclusions: Vec<Conclusion>,
    /// What every reader returned.
    pub returned: Fingerprint,
    /// What the numbers of readers took that were tried, seconds: threads and time.
    pub readers_tried: Vec<(usize, f64)>,
    /// How it was measured.
    pub method: Method,
    /// On what.
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
    /// The tree: `tree`, or `tree_b64` where its path is not UTF-8.
    #[serde(flatten, serialize_with = "as_text_or_bytes")]
    pub tree: PathBuf,
    /// What was read.
    pub data: String,
    /// The files of the pack, bytes.
    pub pack_bytes: u64,
}

fn as_text_or_bytes<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    TextOrBytes::new("tree", path.as_os_str().as_encoded_bytes()).serialize(serializer)
}

/// A way of reading and what it took.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What it is called.
    pub label: String,
    /// How it read; `None` for the limit.
    pub reader: Option<Reader>,
    /// What it returned, which is the same for all; `None` for the limit, which hands out nothing.
    pub returned: Option<Fingerprint>,
    /// Median of all rounds, seconds.
    pub seconds: f64,
    /// Bytes of records (of files of the pack, for the limit) per second.
    pub bytes_per_s: f64,
    /// How many times as fast as one reader of the files, as median of the rounds' ratios.
    pub speedup: f64,
    /// The speed of the limit that it reaches, 0 to 1, where it reads what the limit read.
    pub share_of_limit: Option<PairedRatio>,
    /// All times.
    pub summary: Summary,
    /// Every round.
    pub runs: Vec<Taken>,
}

/// A way of reading, while it is measured.
struct Way {
    reader: Option<Reader>,
    label: String,
    bytes: u64,
    returned: Option<Fingerprint>,
    runs: Vec<Taken>,
}

impl Way {
    fn seconds(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.seconds).collect()
    }

    fn row(&self, files: &[f64], limit: &[f64]) -> anyhow::Result<Row> {
        let seconds = self.seconds();
        let summary = Summary::of(&seconds)?;
        let reads_the_pack = !matches!(self.reader, Some(Reader::Files { .. } | Reader::Plain { .. }));
        Ok(Row {
            label: self.label.clone(),
            reader: self.reader,
            returned: self.returned,
            seconds: summary.median,
            bytes_per_s: self.bytes as f64 / summary.median,
            speedup: PairedRatio::of(files, &seconds, CONFIDENCE)?.ratio,
            share_of_limit: match reads_the_pack {
                true => Some(PairedRatio::of(limit, &seconds, CONFIDENCE)?),
                false => None,
            },
            summary,
            runs: self.runs.clone(),
        })
    }
}

/// Everything that a round needs.
struct Bench<'a> {
    data: &'a Data,
    segments: &'a [PathBuf],
    cold: &'a Cold,
    expected: Amount,
    pack_bytes: u64,
    with_fio: bool,
    say: &'a dyn Fn(String),
}

impl Bench<'_> {
    fn prepare(&self, path: &Path) -> anyhow::Result<()> {
        interrupt::check()?;
        let paths = if path == self.data.pack { self.segments.to_vec() } else { vec![path.to_path_buf()] };
        self.cold.prepare(Next {
            paths: &paths,
            memory_bytes: self.expected.bytes.saturating_add(MEMORY_OVER_BYTES),
        })
    }

    fn read(&self, reader: Reader) -> anyhow::Result<Taken> {
        self.prepare(reader.path(self.data))?;
        self.read_again(reader)
    }

    /// The same without emptying any cache.
    fn read_again(&self, reader: Reader) -> anyhow::Result<Taken> {
        let (taken, amount) = reader.timed(self.data)?;
        if amount != self.expected {
            bail!(
                "{} returned {} records with {} bytes, there are {} with {}: the tree has changed, or a reader is wrong",
                reader.label(),
                amount.records,
                amount.bytes,
                self.expected.records,
                self.expected.bytes
            );
        }
        Ok(taken)
    }

    fn limit(&self) -> anyhow::Result<(Taken, Speed)> {
        self.prepare(&self.data.pack)?;
        let (mut taken, speed) = Taken::by(|| limit::sequential(self.segments, self.with_fio))?;
        // The start of the tool does not count.
        taken.seconds = speed.seconds_for(self.pack_bytes);
        Ok((taken, speed))
    }

    /// The number of readers that is fastest, and what each took.
    fn best_readers(&self) -> anyhow::Result<(usize, Vec<(usize, f64)>)> {
        let mut tried = Vec::new();
        for threads in READERS {
            let taken = self.read(Reader::Files { threads })?;
            (self.say)(format!("  {threads} readers at once: {:.2} s", taken.seconds));
            tried.push((threads, taken.seconds));
        }
        let best = tried.iter().min_by(|left, right| left.1.total_cmp(&right.1));
        Ok((best.context("no number of readers was tried")?.0, tried))
    }

    /// One round: every way once, cold. The second reading of the plain file is returned apart.
    fn round(&self, ways: &mut [Way]) -> anyhow::Result<Taken> {
        let mut again = None;
        for way in ways {
            let taken = match way.reader {
                Some(reader) => self.read(reader)?,
                None => {
                    let (taken, speed) = self.limit()?;
                    way.label = format!("Limit of the device, {}", speed.tool);
                    taken
                }
            };
            (self.say)(format!(
                "  {}: {:.2} s, {}",
                way.label,
                taken.seconds,
                units::rate(way.bytes as f64 / taken.seconds)
            ));
            way.runs.push(taken);
            if way.reader == Some(PLAIN) {
                again = Some(self.read_again(PLAIN)?);
            }
        }
        again.context("the plain file was not read")
    }

    /// What every way returns, which must be the same.
    fn compare(&self, ways: &mut [Way]) -> anyhow::Result<Fingerprint> {
        let mut first: Option<(String, Fingerprint)> = None;
        for way in ways {
            let Some(reader) = way.reader else { continue };
            interrupt::check()?;
            let found = reader.fingerprint(self.data)?;
            way.returned = Some(found);
            match &first {
                None => first = Some((way.label.clone(), found)),
                Some((_, expected)) if *expected == found => {}
                Some((label, expected)) => bail!(
                    "what was read differs: {label} returned {expected:?}, {} returned {found:?}",
                    way.label
                ),
            }
        }
        Ok(first.context("nothing was read")?.1)
    }
}

const PLAIN: Reader = Reader::Plain { buffer_bytes: PUBLISHED_BUFFER_LEN };

/// Makes what is missing, measures, compares. `say` is told how far it is.
///
/// # Errors
/// What making or reading meets, readers that did not return the same, and that the user stopped it.
pub fn run(options: &Options, say: &dyn Fn(String)) -> anyhow::Result<Study> {
    let started = Instant::now();
    let data = make(options, say)?;
    let segments = plain::segment_files(&data.pack)?;
    let mut pack_bytes = 0;
    for file in &segments {
        pack_bytes +=
            std::fs::metadata(file).with_context(|| format!("cannot look at {}", file.display()))?.len();
    }
    let (records, bytes) = plain::read(&data.plain, LARGE_BUFFER_LEN, |_, _, _| {})?;
    let cold = match options.keep_caches {
        true => Cold::Files("they were to be left alone".to_owned()),
        false => Cold::detect(),
    };
    if let Cold::Files(_) = cold {
        say(cold.describe());
    }
    let with_fio = Fio::version().is_some() && Fio::SEQUENTIAL.run(&segments).is_ok();
    let bench = Bench {
        data: &data,
        segments: &segments,
        cold: &cold,
        expected: Amount { records, bytes },
        pack_bytes,
        with_fio,
        say,
    };
    say("Looking for the best number of readers".to_owned());
    let (best, readers_tried) = bench.best_readers()?;
    let mut ways = ways(best, bytes, pack_bytes);
    let (mut plain_again, mut returned) = (Vec::new(), Fingerprint::default());
    for number in 1..=options.runs.unwrap_or(RUNS) {
        let round = Instant::now();
        say(format!("Round {number} of {}", options.runs.unwrap_or(RUNS)));
        plain_again.push(bench.round(&mut ways)?.seconds);
        let round = round.elapsed();
        if number == 1 {
            say("Comparing what was read".to_owned());
            returned = bench.compare(&mut ways)?;
        }
        if options.runs.is_none() && number < RUNS && started.elapsed() + round > TIME_MAX {
            say(format!("No further round: it would take longer than {} s", TIME_MAX.as_secs()));
            break;
        }
    }
    result(options, &bench, &ways, &plain_again, (best, readers_tried), returned)
}

/// The ways in the order in which a round takes them: the limit stands between the two that are compared
/// with it.
fn ways(best: usize, bytes: u64, pack_bytes: u64) -> Vec<Way> {
    let way = |reader: Reader| Way {
        reader: Some(reader),
        label: reader.label(),
        bytes,
        returned: None,
        runs: Vec::new(),
    };
    vec![
        way(Reader::Files { threads: 1 }),
        way(Reader::Files { threads: best }),
        way(PLAIN),
        way(Reader::Plain { buffer_bytes: LARGE_BUFFER_LEN }),
        way(Reader::PackStream),
        Way {
            reader: None,
            label: "Limit of the device".to_owned(),
            bytes: pack_bytes,
            returned: None,
            runs: Vec::new(),
        },
        way(Reader::PackMemory),
    ]
}

fn result(
    options: &Options,
    bench: &Bench<'_>,
    ways: &[Way],
    plain_again: &[f64],
    (best, readers_tried): (usize, Vec<(usize, f64)>),
    returned: Fingerprint,
) -> anyhow::Result<Study> {
    let seconds = |reader| ways.iter().find(|way| way.reader == reader).map(Way::seconds).unwrap_or_default();
    let (files, limit) = (seconds(Some(Reader::Files { threads: 1 })), seconds(None));
    // The limit comes last, whatever its turn was.
    let (limits, readers): (Vec<&Way>, Vec<&Way>) = ways.iter().partition(|way| way.reader.is_none());
    let rows: Vec<Row> =
        readers.into_iter().chain(limits).map(|way| way.row(&files, &limit)).collect::<Result<_, _>>()?;
    let row = |reader| rows.iter().find(|row| row.reader == reader).context("a way was not measured");
    let found = Found {
        files: returned.records,
        files_s: row(Some(Reader::Files { threads: 1 }))?.seconds,
        files_parallel_s: row(Some(Reader::Files { threads: best }))?.seconds,
        readers: best,
        plain_s: row(Some(PLAIN))?.seconds,
        plain_again_s: stook::report::stats::median(plain_again)?,
        pack_s: row(Some(Reader::PackStream))?.seconds,
    };
    let verdict = verdict(row(Some(Reader::PackStream))?, row(Some(Reader::Files { threads: best }))?);
    let method = Method {
        caches_dropped: bench.cold.is_complete(),
        cold: bench.cold.describe(),
        limit_tool: row(None)?.label.trim_start_matches("Limit of the device, ").to_owned(),
        runs: ways.first().map_or(0, |way| way.runs.len()),
        tree: bench.data.tree.clone(),
        data: describe(options, returned),
        pack_bytes: bench.pack_bytes,
    };
    Ok(Study {
        name: "many-small-files",
        verdict,
        conclusions: conclusions(&found),
        published: PUBLISHED,
        returned,
        readers_tried,
        method,
        environment: Environment::of(&options.work),
        rows,
    })
}

fn describe(options: &Options, returned: Fingerprint) -> String {
    match &options.tree {
        Some(tree) => format!(
            "{} regular files with {} below {}",
            units::count(returned.records),
            units::bytes_decimal(returned.bytes),
            tree.display()
        ),
        None => format!(
            "{} files of {} bytes, two directories deep, with pseudo-random bytes",
            units::count(options.sample.files),
            units::count(options.sample.size)
        ),
    }
}

fn verdict(pack: &Row, parallel: &Row) -> String {
    let against_parallel = pack.speedup / parallel.speedup;
    let share = pack.share_of_limit.as_ref().map_or(0.0, |share| share.ratio);
    format!(
        "The pack loads {} as fast as the loose files with one reader and {} as fast as with the best number of \
         readers, every checksum verified, at {} of the speed of the device.",
        units::factor(pack.speedup),
        units::factor(against_parallel),
        units::percent(share)
    )
}

/// Refuses a tree that cannot be measured, before anything is made.
///
/// # Errors
/// A [`UsageError`] that says why, or what looking at it meets.
pub fn check_given(tree: &Path, work: &Path) -> anyhow::Result<()> {
    let metadata = tree.metadata().with_context(|| format!("cannot read {}", tree.display()))?;
    let wrong = |why: String| Err(UsageError::new(format!("{} {why}", tree.display())).into());
    if !metadata.is_dir() {
        return wrong("is not a directory".to_owned());
    }
    let (inner, outer) = (resolved(tree), resolved(work));
    if inner.starts_with(&outer) || outer.starts_with(&inner) {
        return wrong(format!("and {} must not lie in one another: name another --work", work.display()));
    }
    if sample::count(tree)?.files == 0 {
        return wrong("has no files to read".to_owned());
    }
    Ok(())
}

/// Whether something in a work directory has a name that this study gives: data, and results where they
/// were put beside it.
pub fn makes(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let name = name.strip_suffix(".partial").unwrap_or(name);
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let sample = |stem: &str| stem.split_once('x').is_some_and(|(files, size)| number(files) && number(size));
    match name.rsplit_once('.') {
        Some(("study", "json" | "html")) | Some(("given", "plain" | "stook")) => true,
        Some((stem, "tree" | "plain" | "stook")) => sample(stem),
        _ => false,
    }
}

/// What will be made of a sample, and the room that it takes besides what is there.
fn planned(options: &Options) -> (Data, u64) {
    let sample = options.sample;
    let name = |kind: &str| options.work.join(format!("{}.{kind}", sample.name()));
    let data = Data { tree: name("tree"), plain: name("plain"), pack: name("stook") };
    let missing = [&data.tree, &data.plain, &data.pack].into_iter().filter(|path| !path.exists()).count();
    // A file system takes some more than the bytes of small files.
    let needed = sample.bytes().saturating_mul(missing as u64).saturating_mul(5) / 4;
    (data, needed)
}

/// Refuses a sample that does not fit, before anything is made.
///
/// # Errors
/// When there is too little room, or the system does not tell.
pub fn check_sample(options: &Options) -> anyhow::Result<()> {
    let (_, needed) = planned(options);
    sample::check_space(&options.work, needed).context("the sample of --files of --size does not fit")
}

/// The tree, the plain file and the pack; what is there from an earlier run is kept.
fn make(options: &Options, say: &dyn Fn(String)) -> anyhow::Result<Data> {
    sample::prepare_work(&options.work)?;
    let work = &options.work;
    let Some(tree) = &options.tree else {
        let (sample, (data, needed)) = (options.sample, planned(options));
        sample::check_space(work, needed)?;
        if !data.tree.exists() {
            say(format!("Making {} files of {} bytes in {}", sample.files, sample.size, work.display()));
            sample.tree(work, || {})?;
        }
        make_rest(&data, say)?;
        return Ok(data);
    };
    let data = Data { tree: tree.clone(), plain: work.join("given.plain"), pack: work.join("given.stook") };
    // The user's tree may have changed since.
    sample::remove(&data.plain)?;
    sample::remove(&data.pack)?;
    sample::check_space(work, sample::count(tree)?.bytes.saturating_mul(2).saturating_mul(11) / 10)?;
    make_rest(&data, say)?;
    Ok(data)
}

fn make_rest(data: &Data, say: &dyn Fn(String)) -> anyhow::Result<()> {
    if !data.plain.exists() {
        say(format!("Writing them into one plain file, {}", data.plain.display()));
        plain::write(&data.tree, &data.plain, || {})?;
    }
    // A pack that an older version left and this one cannot read is made anew.
    if Pack::open_path(&data.pack, OpenOptions::default()).is_err() {
        say(format!("Packing them into {}", data.pack.display()));
        plain::pack(&data.tree, &data.pack)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_given_here_count_as_made_here() {
        for name in [
            "50000x20000.tree",
            "1x0.plain",
            "1x0.stook.partial",
            "given.stook",
            "study.html",
            "study.json.partial",
        ] {
            assert!(makes(OsStr::new(name)), "{name}");
        }
        for name in ["given.tree", "photos.stook", "x.tree", "1x.tree", "study.txt", "notes", ".partial", ""]
        {
            assert!(!makes(OsStr::new(name)), "{name}");
        }
    }
}
