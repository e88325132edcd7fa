//! Measuring: every way of reading once in each round, cold and in turn.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail};
use stook::device::DeviceMeter;
use stook::report::stats::{PairedRatio, Summary, median};
use stook::report::units;

use super::readers::{Amount, Data, LARGE_BUFFER_LEN, Reader, read_plain};
use super::{FILES, LIMIT, PLAIN, Row, plain};
use crate::Hooks;
use crate::cold::{Cold, Next};
use crate::digest::Fingerprint;
use crate::limit::{self, Fio, Speed};
use crate::meter::Taken;
use crate::progress::{Portion, Unit, counting};

/// The numbers of readers among which the best is looked for.
const READERS: [usize; 4] = [8, 32, 64, 128];

/// Memory touched before every measurement, over the bytes of the records.
pub(super) const MEMORY_OVER_BYTES: u64 = 512 << 20;

/// Requested confidence; few rounds give less, and the result states it.
pub(super) const CONFIDENCE: f64 = 0.95;

/// What reading once took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    pub(super) taken: Taken,
    /// What the devices below read meanwhile, for all programs; `None` where nobody counts.
    pub(super) device_read_bytes: Option<u64>,
}

impl Cost {
    /// That of reading what lies at `path`.
    ///
    /// # Errors
    /// Returns the errors of `read`.
    pub(super) fn of<T>(
        path: &Path,
        read: impl FnOnce() -> anyhow::Result<(Taken, T)>,
    ) -> anyhow::Result<(Self, T)> {
        // What cannot be counted here is said once, in the method.
        let meter = DeviceMeter::start(path).ok();
        let (taken, value) = read()?;
        let used = meter.and_then(|meter| meter.used());
        Ok((Self { taken, device_read_bytes: used.map(|used| used.read_bytes) }, value))
    }
}

/// The median of what devices read, where it was counted every time.
pub(super) fn device_read_bytes(costs: &[Cost]) -> anyhow::Result<Option<u64>> {
    let all: Option<Vec<f64>> = costs.iter().map(|cost| Some(cost.device_read_bytes? as f64)).collect();
    all.map(|all| Ok(median(&all)? as u64)).transpose()
}

/// Bytes read at the device ÷ bytes asked for.
pub(super) fn amplification(device_bytes: Option<u64>, bytes: u64) -> Option<f64> {
    device_bytes.filter(|_| bytes > 0).map(|read| read as f64 / bytes as f64)
}

/// How long a way of reading took the last time, with what is done before it: what a bar expects of
/// the next time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastTime(Option<u64>);

impl LastTime {
    pub(super) fn since(began: Instant) -> Self {
        Self(Some(began.elapsed().as_millis() as u64))
    }

    /// The first time it is guessed, of an ordinary SSD; emptying caches takes a second or so.
    pub(super) fn expected_ms(self, bytes: u64, is_of_files: bool) -> u64 {
        let bytes_per_ms = if is_of_files { 250_000 } else { 2_000_000 };
        self.0.unwrap_or(1000 + bytes / bytes_per_ms)
    }
}

/// A way of reading, while it is measured.
pub(super) struct Way {
    /// `None` for the limit.
    pub(super) reader: Option<Reader>,
    pub(super) label: String,
    pub(super) costs: Vec<Cost>,
    bytes: u64,
    returned: Option<Fingerprint>,
    timed: LastTime,
}

impl Way {
    fn new(reader: Option<Reader>, bytes: u64) -> Self {
        let label = reader.map_or_else(|| LIMIT.to_owned(), |reader| reader.label());
        Self { reader, label, costs: Vec::new(), bytes, returned: None, timed: LastTime::default() }
    }

    /// Without the tool that measured the limit.
    fn name(&self) -> &str {
        if self.reader.is_some() { &self.label } else { LIMIT }
    }

    fn expected_ms(&self) -> u64 {
        let is_of_files = matches!(self.reader, Some(FILES | Reader::Numbered));
        self.timed.expected_ms(self.bytes, is_of_files)
    }

    pub(super) fn seconds(&self) -> Vec<f64> {
        self.costs.iter().map(|cost| cost.taken.seconds).collect()
    }

    pub(super) fn row(&self, files: &[f64], limit: &[f64]) -> anyhow::Result<Row> {
        let seconds = self.seconds();
        let summary = Summary::of(&seconds)?;
        let device_bytes = device_read_bytes(&self.costs)?;
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
            device_read_bytes: device_bytes,
            read_amplification: amplification(device_bytes, self.bytes),
            summary,
            runs: self.costs.iter().map(|cost| cost.taken).collect(),
        })
    }
}

/// How caches are emptied.
pub(super) fn cold_of(keep_caches: bool) -> Cold {
    match keep_caches {
        true => Cold::Files("they were to be left alone".to_owned()),
        false => Cold::detect(),
    }
}

/// Everything that a round needs.
pub(super) struct Bench {
    pub(super) data: Data,
    pub(super) cold: Cold,
    pub(super) expected: Amount,
    pub(super) pack_bytes: u64,
    /// Why what devices read is not known.
    pub(super) uncounted: Option<String>,
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
        let cold = cold_of(keep_caches);
        if let Cold::Files(_) = cold {
            hooks.note(&cold.describe());
        }
        let with_fio = Fio::version().is_some() && Fio::SEQUENTIAL.run(&segments).is_ok();
        let uncounted = DeviceMeter::start(&data.plain).err().map(|error| stook::error::chain(&error));
        let expected = Amount { records, bytes };
        Ok(Self { data, cold, expected, pack_bytes, uncounted, segments, with_fio })
    }

    /// Empties caches of what is read next.
    ///
    /// # Errors
    /// Returns the errors of [`Cold::prepare`], or that of [`Hooks::check`].
    pub(super) fn prepare(&self, path: &Path, hooks: &dyn Hooks) -> anyhow::Result<()> {
        hooks.check()?;
        let paths = if path == self.data.pack { self.segments.clone() } else { vec![path.to_path_buf()] };
        // What this file needs, where it is longer than the records: what is touched for the first
        // time would else be paid for by the one that reads it first.
        let file_bytes =
            path.metadata().map_or(0, |metadata| if metadata.is_file() { metadata.len() } else { 0 });
        let memory_bytes = self.expected.bytes.max(file_bytes).saturating_add(MEMORY_OVER_BYTES);
        self.cold.prepare(Next { paths: &paths, memory_bytes })
    }

    pub(super) fn read(&self, reader: Reader, hooks: &dyn Hooks) -> anyhow::Result<Cost> {
        self.prepare(reader.path(&self.data), hooks)?;
        self.read_again(reader)
    }

    /// The same without emptying any cache.
    fn read_again(&self, reader: Reader) -> anyhow::Result<Cost> {
        let (cost, amount) = Cost::of(reader.path(&self.data), || reader.timed(&self.data))?;
        self.expect(&reader.label(), amount)?;
        Ok(cost)
    }

    /// Refuses another amount than there is.
    pub(super) fn expect(&self, label: &str, amount: Amount) -> anyhow::Result<()> {
        if amount != self.expected {
            bail!(
                "{} returned {} records with {} bytes, there are {} with {}: the tree has changed, or a reader is wrong; \
                 --clean removes what was made of it",
                label,
                amount.records,
                amount.bytes,
                self.expected.records,
                self.expected.bytes
            );
        }
        Ok(())
    }

    fn limit(&self, hooks: &dyn Hooks) -> anyhow::Result<(Cost, Speed)> {
        self.prepare(&self.data.pack, hooks)?;
        let (mut taken, speed) = Taken::by(|| limit::sequential(&self.segments, self.with_fio))?;
        // The start of the tool does not count.
        taken.seconds = speed.seconds_for(self.pack_bytes);
        // Two tools may have read all of it.
        Ok((Cost { taken, device_read_bytes: None }, speed))
    }

    /// The number of readers that is fastest, and what each took.
    pub(super) fn best_readers(&self, hooks: &dyn Hooks) -> anyhow::Result<(usize, Vec<(usize, f64)>)> {
        let mut tried = Vec::new();
        let task = Portion::new("trying numbers of readers", Unit::Items, READERS.len() as u64);
        let shown = hooks.begin(&task);
        for threads in READERS {
            let taken = self.read(Reader::Files { threads }, hooks)?.taken;
            hooks.detail(&format!("  {threads} readers at once: {:.2} s", taken.seconds));
            shown.add(1);
            tried.push((threads, taken.seconds));
        }
        let best = tried.iter().min_by(|left, right| left.1.total_cmp(&right.1));
        Ok((best.context("no number of readers was tried")?.0, tried))
    }

    /// One round: every way once, cold; every second time in the opposite order. The second reading
    /// of the plain file is returned apart.
    pub(super) fn round(&self, ways: &mut [Way], round: &Round, hooks: &dyn Hooks) -> anyhow::Result<Taken> {
        let what = format!("round {} of {}", round.number, round.of);
        let total_ms = ways.iter().map(Way::expected_ms).sum();
        let shown = hooks.begin(&Portion::new(&what, Unit::Milliseconds, total_ms));
        let mut again = None;
        for at in round.order(ways.len()) {
            let Some(way) = ways.get_mut(at) else { continue };
            shown.say(way.name());
            let began = Instant::now();
            let cost = match way.reader {
                Some(reader) => self.read(reader, hooks)?,
                None => {
                    let (cost, speed) = self.limit(hooks)?;
                    way.label = format!("{LIMIT}, {}", speed.tool);
                    cost
                }
            };
            hooks.detail(&format!(
                "  {}: {:.2} s, {}",
                way.label,
                cost.taken.seconds,
                units::rate(way.bytes as f64 / cost.taken.seconds)
            ));
            way.costs.push(cost);
            if way.reader == Some(PLAIN) {
                again = Some(self.read_again(PLAIN)?.taken);
            }
            shown.add(way.expected_ms());
            way.timed = LastTime::since(began);
        }
        again.context("the plain file was not read")
    }

    /// What every way returns, which must be the same.
    pub(super) fn compare(&self, ways: &mut [Way], hooks: &dyn Hooks) -> anyhow::Result<Fingerprint> {
        let mut first: Option<(String, Fingerprint)> = None;
        let readers = ways.iter().filter(|way| way.reader.is_some()).count() as u64;
        let before_each = counting(hooks, &Portion::new("comparing what was read", Unit::Items, readers), 1);
        for way in ways {
            let Some(reader) = way.reader else { continue };
            before_each()?;
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

/// A round of the comparison.
pub(super) struct Round {
    /// From 1 on.
    pub(super) number: usize,
    /// How many there will be, at most.
    pub(super) of: usize,
}

impl Round {
    /// The order of so many ways: none always pays for what another left.
    fn order(&self, ways: usize) -> Vec<usize> {
        if self.number.is_multiple_of(2) { (0..ways).rev().collect() } else { (0..ways).collect() }
    }
}

/// The ways in the order in which a round takes them: the limit is between the two that are
/// compared with it.
pub(super) fn ways(best: usize, bench: &Bench) -> Vec<Way> {
    let (bytes, pack_bytes) = (bench.expected.bytes, bench.pack_bytes);
    let way = |reader: Reader| Way::new(Some(reader), bytes);
    let mut ways = vec![way(FILES)];
    ways.extend(bench.data.numbered.map(|_| way(Reader::Numbered)));
    ways.extend([
        way(Reader::Files { threads: best }),
        way(PLAIN),
        way(Reader::Plain { buffer_bytes: LARGE_BUFFER_LEN }),
        way(Reader::PackStream),
        Way::new(None, pack_bytes),
        way(Reader::PackMemory),
    ]);
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: what was read first always paid for what the next one found.
    #[test]
    fn every_second_round_is_in_the_opposite_order() {
        let order = |number| Round { number, of: 3 }.order(4);
        assert_eq!([order(1), order(2), order(3)], [vec![0, 1, 2, 3], vec![3, 2, 1, 0], vec![0, 1, 2, 3]]);
    }

    #[test]
    fn a_bar_expects_what_the_last_round_took() {
        let mut way = Way::new(Some(FILES), 250_000_000);
        assert_eq!((way.expected_ms(), way.name()), (2000, way.label.as_str()));
        way.timed = LastTime(Some(77));
        assert_eq!(way.expected_ms(), 77);
        let limit = Way { label: format!("{LIMIT}, fio"), ..Way::new(None, 2_000_000_000) };
        assert_eq!((limit.expected_ms(), limit.name()), (2000, LIMIT));
    }
}
