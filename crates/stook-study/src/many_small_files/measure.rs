//! Measuring: every way of reading once in each round, cold and in turn.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use stook::report::stats::{PairedRatio, Summary};
use stook::report::units;

use super::readers::{Amount, Data, LARGE_BUFFER_LEN, Reader, read_plain};
use super::{FILES, LIMIT, PLAIN, Row, plain};
use crate::Hooks;
use crate::cold::{Cold, Next};
use crate::digest::Fingerprint;
use crate::limit::{self, Fio, Speed};
use crate::meter::Taken;

/// The numbers of readers among which the best is looked for.
const READERS: [usize; 4] = [8, 32, 64, 128];

/// Memory touched before every measurement, over the bytes of the records.
const MEMORY_OVER_BYTES: u64 = 512 << 20;

/// Requested confidence; few rounds give less, and the result states it.
const CONFIDENCE: f64 = 0.95;

/// A way of reading, while it is measured.
pub(super) struct Way {
    /// `None` for the limit.
    pub(super) reader: Option<Reader>,
    pub(super) label: String,
    pub(super) runs: Vec<Taken>,
    bytes: u64,
    returned: Option<Fingerprint>,
}

impl Way {
    pub(super) fn seconds(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.seconds).collect()
    }

    pub(super) fn row(&self, files: &[f64], limit: &[f64]) -> anyhow::Result<Row> {
        let seconds = self.seconds();
        let summary = Summary::of(&seconds)?;
        let reads_the_pack =
            !matches!(self.reader, Some(Reader::Files { .. } | Reader::Numbered | Reader::Plain { .. }));
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
pub(super) struct Bench {
    pub(super) data: Data,
    pub(super) cold: Cold,
    pub(super) expected: Amount,
    pub(super) pack_bytes: u64,
    segments: Vec<PathBuf>,
    with_fio: bool,
}

impl Bench {
    /// Sets up the data and how caches are dropped. Reads the plain file once, to get its size.
    pub(super) fn new(data: Data, keep_caches: bool, hooks: &dyn Hooks) -> anyhow::Result<Self> {
        let segments = plain::segment_files(&data.pack)?;
        let mut pack_bytes = 0;
        for file in &segments {
            pack_bytes +=
                std::fs::metadata(file).with_context(|| format!("cannot look at {}", file.display()))?.len();
        }
        let (records, bytes) = read_plain(&data, LARGE_BUFFER_LEN, |_, _, _| {})?;
        let cold = match keep_caches {
            true => Cold::Files("they were to be left alone".to_owned()),
            false => Cold::detect(),
        };
        if let Cold::Files(_) = cold {
            hooks.note(&cold.describe());
        }
        let with_fio = Fio::version().is_some() && Fio::SEQUENTIAL.run(&segments).is_ok();
        Ok(Self { data, cold, expected: Amount { records, bytes }, pack_bytes, segments, with_fio })
    }

    fn prepare(&self, path: &Path, hooks: &dyn Hooks) -> anyhow::Result<()> {
        hooks.check()?;
        let paths = if path == self.data.pack { self.segments.clone() } else { vec![path.to_path_buf()] };
        self.cold.prepare(Next {
            paths: &paths,
            memory_bytes: self.expected.bytes.saturating_add(MEMORY_OVER_BYTES),
        })
    }

    fn read(&self, reader: Reader, hooks: &dyn Hooks) -> anyhow::Result<Taken> {
        self.prepare(reader.path(&self.data), hooks)?;
        self.read_again(reader)
    }

    /// The same without emptying any cache.
    fn read_again(&self, reader: Reader) -> anyhow::Result<Taken> {
        let (taken, amount) = reader.timed(&self.data)?;
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

    fn limit(&self, hooks: &dyn Hooks) -> anyhow::Result<(Taken, Speed)> {
        self.prepare(&self.data.pack, hooks)?;
        let (mut taken, speed) = Taken::by(|| limit::sequential(&self.segments, self.with_fio))?;
        // The start of the tool does not count.
        taken.seconds = speed.seconds_for(self.pack_bytes);
        Ok((taken, speed))
    }

    /// The number of readers that is fastest, and what each took.
    pub(super) fn best_readers(&self, hooks: &dyn Hooks) -> anyhow::Result<(usize, Vec<(usize, f64)>)> {
        let mut tried = Vec::new();
        for threads in READERS {
            let taken = self.read(Reader::Files { threads }, hooks)?;
            hooks.note(&format!("  {threads} readers at once: {:.2} s", taken.seconds));
            tried.push((threads, taken.seconds));
        }
        let best = tried.iter().min_by(|left, right| left.1.total_cmp(&right.1));
        Ok((best.context("no number of readers was tried")?.0, tried))
    }

    /// One round: every way once, cold. The second reading of the plain file is returned apart.
    pub(super) fn round(&self, ways: &mut [Way], hooks: &dyn Hooks) -> anyhow::Result<Taken> {
        let mut again = None;
        for way in ways {
            let taken = match way.reader {
                Some(reader) => self.read(reader, hooks)?,
                None => {
                    let (taken, speed) = self.limit(hooks)?;
                    way.label = format!("{LIMIT}, {}", speed.tool);
                    taken
                }
            };
            hooks.note(&format!(
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
    pub(super) fn compare(&self, ways: &mut [Way], hooks: &dyn Hooks) -> anyhow::Result<Fingerprint> {
        let mut first: Option<(String, Fingerprint)> = None;
        for way in ways {
            let Some(reader) = way.reader else { continue };
            hooks.check()?;
            let found = reader.fingerprint(&self.data)?;
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

/// The ways in the order in which a round takes them: the limit is between the two that are
/// compared with it.
pub(super) fn ways(best: usize, bench: &Bench) -> Vec<Way> {
    let (bytes, pack_bytes) = (bench.expected.bytes, bench.pack_bytes);
    let way = |reader: Reader| Way {
        reader: Some(reader),
        label: reader.label(),
        runs: Vec::new(),
        bytes,
        returned: None,
    };
    let mut ways = vec![way(FILES)];
    ways.extend(bench.data.numbered.map(|_| way(Reader::Numbered)));
    ways.extend([
        way(Reader::Files { threads: best }),
        way(PLAIN),
        way(Reader::Plain { buffer_bytes: LARGE_BUFFER_LEN }),
        way(Reader::PackStream),
        Way { reader: None, label: LIMIT.to_owned(), runs: Vec::new(), bytes: pack_bytes, returned: None },
        way(Reader::PackMemory),
    ]);
    ways
}
