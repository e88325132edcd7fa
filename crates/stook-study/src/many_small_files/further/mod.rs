//! What the document speaks of beside its table: read-ahead, an aged tree, history that is skipped,
//! a second program, and its own program's language. These ways of reading have rounds of their
//! own, each with what it is compared with, because they take as long as all others together.

mod aged;
mod history;
mod java;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use rustix::fs::Advice;
use serde::Serialize;
use stook::report::stats::{PairedRatio, Summary};
use stook::report::units;

use self::history::OldRecords;
use self::java::{FnvSum, Java, JavaReads};
use super::measure::{Bench, CONFIDENCE, Cost, LastTime, amplification, device_read_bytes};
use super::readers::{Amount, Data, PUBLISHED_BUFFER_LEN, Reader};
use super::{PLAIN, numbered};
use crate::Hooks;
use crate::digest::{Digest, Fingerprint};
use crate::meter::Taken;
use crate::progress::{Portion, Unit, counting};
use crate::sample::Sample;

/// What is written for another program to read, at most.
const WRITTEN_MAX: u64 = 256 << 20;

/// The directory of the program in Java, in that of the study.
pub(super) const JAVA_DIR: &str = "java";

/// A way of reading that has rounds of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FurtherReader {
    /// The plain file with the published buffer: what others are compared with.
    Plain,
    /// The same by another program, right after this one read it.
    OtherAfterReading,
    /// The plain file without the read-ahead of the kernel.
    PlainWithoutReadAhead,
    /// A composite file half of which is history, all of it parsed.
    HistoryParsed,
    /// The same with history skipped.
    HistorySkipped,
    /// The plain file, by a program in Java.
    JavaPlain,
    /// The plain file, cold, by another program.
    OtherCold,
    /// A file that this program has just written, by another program.
    OtherAfterWriting,
    /// The same, cold.
    OtherOfWritten,
    /// The files by their numbers: what others are compared with.
    Numbered,
    /// The same without the read-ahead of the kernel.
    NumberedWithoutReadAhead,
    /// The files of an aged tree, by their numbers.
    Aged,
    /// The files by their numbers, by a program in Java.
    JavaNumbered,
}

/// In the order in which a round takes them.
const ALL: [FurtherReader; 13] = [
    FurtherReader::Plain,
    FurtherReader::OtherAfterReading,
    FurtherReader::PlainWithoutReadAhead,
    FurtherReader::HistoryParsed,
    FurtherReader::HistorySkipped,
    FurtherReader::JavaPlain,
    FurtherReader::OtherCold,
    FurtherReader::OtherAfterWriting,
    FurtherReader::OtherOfWritten,
    FurtherReader::Numbered,
    FurtherReader::NumberedWithoutReadAhead,
    FurtherReader::Aged,
    FurtherReader::JavaNumbered,
];

/// What is left of a tree given with --dir, whose files have no numbers.
const OF_ANY_TREE: [FurtherReader; 3] =
    [FurtherReader::Plain, FurtherReader::OtherAfterReading, FurtherReader::OtherCold];

impl FurtherReader {
    /// What it is called in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Plain => "Plain file",
            Self::OtherAfterReading => "Plain file, by another program after this one",
            Self::PlainWithoutReadAhead => "Plain file, without read-ahead",
            Self::HistoryParsed => "Plain file with history, all parsed",
            Self::HistorySkipped => "Plain file with history, history skipped",
            Self::JavaPlain => "Plain file, in Java",
            Self::OtherCold => "Plain file, by another program, cold",
            Self::OtherAfterWriting => "A file written just before, by another program",
            Self::OtherOfWritten => "The same file, by another program, cold",
            Self::Numbered => "Files",
            Self::NumberedWithoutReadAhead => "Files, without read-ahead",
            Self::Aged => "Files of an aged tree",
            Self::JavaNumbered => "Files, in Java",
        }
    }

    /// What it is compared with.
    pub fn against(self) -> Option<Self> {
        match self {
            Self::Plain | Self::Numbered | Self::HistoryParsed | Self::OtherCold | Self::OtherOfWritten => {
                None
            }
            Self::OtherAfterReading => Some(Self::OtherCold),
            Self::OtherAfterWriting => Some(Self::OtherOfWritten),
            Self::HistorySkipped => Some(Self::HistoryParsed),
            Self::PlainWithoutReadAhead | Self::JavaPlain => Some(Self::Plain),
            Self::NumberedWithoutReadAhead | Self::Aged | Self::JavaNumbered => Some(Self::Numbered),
        }
    }

    fn is_of_files(self) -> bool {
        matches!(self, Self::Numbered | Self::NumberedWithoutReadAhead | Self::Aged | Self::JavaNumbered)
    }

    fn is_java(self) -> bool {
        matches!(self, Self::JavaPlain | Self::JavaNumbered)
    }

    fn is_of_other_program(self) -> bool {
        use FurtherReader::{OtherAfterReading, OtherAfterWriting, OtherCold, OtherOfWritten};
        matches!(self, OtherAfterReading | OtherAfterWriting | OtherCold | OtherOfWritten)
    }
}

/// A way of reading and its cost.
#[derive(Debug, Clone, Serialize)]
pub struct FurtherRow {
    /// Its name.
    pub label: &'static str,
    /// How it read.
    pub reader: FurtherReader,
    /// The name of what it is compared with.
    pub against: Option<&'static str>,
    /// How many times as long as that it takes, as median of the rounds' ratios.
    pub times: Option<PairedRatio>,
    /// Median of all rounds, seconds.
    pub seconds: f64,
    /// Bytes of used records (of the file, for other programs) per second.
    pub bytes_per_s: f64,
    /// What the devices below read, for all programs: median of all rounds, bytes.
    pub device_read_bytes: Option<u64>,
    /// That ÷ the bytes that were asked for.
    pub read_amplification: Option<f64>,
    /// All times.
    pub summary: Summary,
    /// Every round. What programs in other languages take of processors has their start in it.
    pub runs: Vec<Taken>,
}

/// What was not measured, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotMeasured {
    /// What.
    pub what: &'static str,
    /// Why.
    pub because: String,
}

/// The data of these ways.
#[derive(Debug, Clone)]
pub(super) struct FurtherData {
    /// The aged tree.
    pub(super) aged: PathBuf,
    /// The composite file with history.
    pub(super) history: PathBuf,
    /// What is written for other programs; removed after each round.
    pub(super) written: PathBuf,
    /// What is in each of them.
    pub(super) sample: Sample,
}

impl FurtherData {
    /// Its data in a work directory.
    pub(super) fn of(work: &Path, sample: Sample) -> Self {
        let name = |kind: &str| work.join(format!("{}.{kind}", numbered::name(sample)));
        Self { aged: name("aged"), history: name("history"), written: name("written"), sample }
    }

    /// The space that is needed in addition to what is there, bytes, without that of a file system.
    pub(super) fn missing_bytes(&self) -> u64 {
        // An aged tree is written beside as many other files.
        let aged = if self.aged.exists() { 0 } else { self.sample.bytes().saturating_mul(2) };
        let history = if self.history.exists() { 0 } else { history::len_of(self.sample) };
        aged.saturating_add(history).saturating_add(self.written_sample().bytes())
    }

    /// Makes what is missing.
    ///
    /// # Errors
    /// Returns an error if writing fails, or the error of [`Hooks::check`], which ends it.
    pub(super) fn make(&self, hooks: &dyn Hooks) -> anyhow::Result<()> {
        if !self.aged.exists() {
            hooks.note(&format!("Making a tree that has aged, {}", self.aged.display()));
            let task = Portion::new("making an aged tree", Unit::Items, aged::pieces(self.sample));
            aged::make_tree(&self.aged, self.sample, counting(hooks, &task, 1))?;
        }
        if !self.history.exists() {
            hooks.note(&format!("Writing them with as much history, {}", self.history.display()));
            let task = Portion::new("writing history", Unit::Items, self.sample.files);
            history::write(&self.history, self.sample, counting(hooks, &task, 1))?;
        }
        Ok(())
    }

    /// Those of the records that are written for another program.
    fn written_sample(&self) -> Sample {
        let files = (WRITTEN_MAX / self.sample.size.max(1)).clamp(1, self.sample.files);
        Sample { files, ..self.sample }
    }
}

/// One of these ways, while it is measured.
struct Measured {
    reader: FurtherReader,
    /// Bytes of the used records, or of the file that another program reads.
    bytes: u64,
    costs: Vec<Cost>,
    timed: LastTime,
}

/// What these rounds need, and what they found so far.
pub(super) struct Further {
    data: Option<FurtherData>,
    java: Option<Java>,
    ways: Vec<Measured>,
    pub(super) left_out: Vec<NotMeasured>,
}

impl Further {
    /// Decides what can be measured. Without data only what any tree has.
    ///
    /// # Errors
    /// Returns an error if the program in Java cannot be written.
    pub(super) fn new(data: Option<FurtherData>, work: &Path, hooks: &dyn Hooks) -> anyhow::Result<Self> {
        let (mut left_out, mut java) = (Vec::new(), None);
        if data.is_some() {
            let compiled = Java::compile(&work.join(JAVA_DIR))?;
            // Ctrl-C ends the compiler, too.
            hooks.check()?;
            match compiled {
                Ok(found) => java = Some(found),
                Err(because) => left_out.push(NotMeasured { what: "A program in Java", because }),
            }
        } else {
            left_out.push(NotMeasured {
                what: "Read-ahead, an aged tree, history, Java",
                because: "a tree given with --dir has no numbers; without --dir they are measured".to_owned(),
            });
        }
        let readers: &[FurtherReader] = if data.is_some() { &ALL } else { &OF_ANY_TREE };
        let readers = readers.iter().filter(|reader| java.is_some() || !reader.is_java());
        let way = |reader: &FurtherReader| Measured {
            reader: *reader,
            bytes: 0,
            costs: Vec::new(),
            timed: LastTime::default(),
        };
        let ways = readers.map(way).collect();
        Ok(Self { data, java, ways, left_out })
    }

    /// Rounds so far.
    pub(super) fn rounds(&self) -> usize {
        self.ways.iter().map(|way| way.costs.len()).min().unwrap_or_default()
    }

    /// What Java calls itself, where it is measured.
    pub(super) fn java_version(&self) -> Option<&str> {
        self.java.as_ref().map(|java| java.version.as_str())
    }

    /// One round, of so many at most: every way once.
    ///
    /// # Errors
    /// Returns an error if reading fails, or the error of [`Hooks::check`].
    pub(super) fn round(&mut self, bench: &Bench, of: usize, hooks: &dyn Hooks) -> anyhow::Result<()> {
        let expected_ms =
            |way: &Measured| way.timed.expected_ms(bench.expected.bytes, way.reader.is_of_files());
        let what = format!("beside the table, round {} of {of}", self.rounds() + 1);
        let total_ms = self.ways.iter().map(expected_ms).sum();
        let shown = hooks.begin(&Portion::new(&what, Unit::Milliseconds, total_ms));
        let is_turned = !self.rounds().is_multiple_of(2);
        let readers: Vec<FurtherReader> = self.ways.iter().map(|way| way.reader).collect();
        let mut ways = std::mem::take(&mut self.ways);
        for at in order(&readers, is_turned) {
            let Some(way) = ways.get_mut(at) else { continue };
            shown.say(way.reader.label());
            let began = Instant::now();
            let measured = self.measure(way.reader, bench, hooks);
            if measured.is_err() {
                // Ctrl-C ends the programs that were started, too.
                hooks.check()?;
            }
            let label = way.reader.label();
            let (cost, bytes) = measured.with_context(|| format!("cannot measure “{label}”"))?;
            let seconds = cost.taken.seconds;
            hooks.detail(&format!("  {label}: {seconds:.2} s, {}", units::rate(bytes as f64 / seconds)));
            shown.add(expected_ms(way));
            way.timed = LastTime::since(began);
            way.bytes = bytes;
            way.costs.push(cost);
        }
        self.ways = ways;
        self.data.as_ref().map_or(Ok(()), |data| crate::sample::remove(&data.written))
    }

    /// One way once, with the bytes that it read.
    fn measure(
        &self,
        reader: FurtherReader,
        bench: &Bench,
        hooks: &dyn Hooks,
    ) -> anyhow::Result<(Cost, u64)> {
        hooks.check()?;
        let own = match reader {
            FurtherReader::Plain => Some(PLAIN),
            FurtherReader::Numbered => Some(Reader::Numbered),
            _ => None,
        };
        if let Some(own) = own {
            return Ok((bench.read(own, hooks)?, bench.expected.bytes));
        }
        let path = self.path(reader, &bench.data)?;
        match reader {
            // This one has read it just now.
            FurtherReader::OtherAfterReading => {}
            FurtherReader::OtherAfterWriting => {
                let data = self.data()?;
                numbered::write(path, data.written_sample(), || hooks.check())?;
            }
            _ => bench.prepare(path, hooks)?,
        }
        if reader.is_of_other_program() {
            let bytes = path.metadata().with_context(|| format!("cannot look at {}", path.display()))?.len();
            let (cost, ()) = Cost::of(path, || Taken::by(|| read_by_other_program(path)))?;
            return Ok((cost, bytes));
        }
        let (cost, amount) = match self.java_reads(reader) {
            Some((java, reads)) => {
                let record_bytes = self.record_bytes()?;
                let (mut taken, found) = Taken::by(|| java.read(reads, &bench.data, record_bytes))?;
                taken.seconds = found.seconds;
                // What Java itself was read for would be in it.
                (Cost { taken, device_read_bytes: None }, found.amount)
            }
            None => {
                let read = || self.read(reader, &bench.data, |_, _, bytes| _ = std::hint::black_box(bytes));
                Cost::of(path, || Taken::by(read))?
            }
        };
        bench.expect(reader.label(), amount)?;
        Ok((cost, amount.bytes))
    }

    fn data(&self) -> anyhow::Result<&FurtherData> {
        self.data.as_ref().context("a tree given with --dir has no data of this kind")
    }

    fn record_bytes(&self) -> anyhow::Result<u64> {
        Ok(self.data()?.sample.size + numbered::HEAD_LEN)
    }

    /// Where it reads.
    fn path<'a>(&'a self, reader: FurtherReader, data: &'a Data) -> anyhow::Result<&'a Path> {
        use FurtherReader as Way;
        Ok(match reader {
            Way::Numbered | Way::NumberedWithoutReadAhead | Way::JavaNumbered => &data.tree,
            Way::Aged => &self.data()?.aged,
            Way::HistoryParsed | Way::HistorySkipped => &self.data()?.history,
            Way::OtherAfterWriting | Way::OtherOfWritten => &self.data()?.written,
            _ => &data.plain,
        })
    }

    fn java_reads(&self, reader: FurtherReader) -> Option<(&Java, JavaReads)> {
        let reads = match reader {
            FurtherReader::JavaPlain => JavaReads::OneFile,
            FurtherReader::JavaNumbered => JavaReads::Files,
            _ => return None,
        };
        self.java.as_ref().map(|java| (java, reads))
    }

    /// Reads all records that are used, in this program.
    fn read(
        &self,
        reader: FurtherReader,
        data: &Data,
        take: impl Fn(&[u8], u64, &[u8]),
    ) -> anyhow::Result<Amount> {
        let (path, files) = (self.path(reader, data)?, self.data()?.sample.files);
        let buffer_len = PUBLISHED_BUFFER_LEN;
        let (records, bytes) = match reader {
            FurtherReader::PlainWithoutReadAhead => {
                numbered::read(path, files, buffer_len, Advice::Random, take)?
            }
            FurtherReader::NumberedWithoutReadAhead => {
                numbered::read_files(path, files, Advice::Random, take)?
            }
            FurtherReader::HistoryParsed => history::read(path, files, buffer_len, OldRecords::Parsed, take)?,
            FurtherReader::HistorySkipped => {
                history::read(path, files, buffer_len, OldRecords::Skipped, take)?
            }
            FurtherReader::Aged => numbered::read_files(path, files, Advice::Normal, take)?,
            _ => anyhow::bail!("“{}” is no reader of this program", reader.label()),
        };
        Ok(Amount { records, bytes })
    }

    /// Checks that all of them return what the others returned.
    ///
    /// # Errors
    /// Returns an error if records differ, or reading fails.
    pub(super) fn compare(
        &self,
        data: &Data,
        returned: Fingerprint,
        hooks: &dyn Hooks,
    ) -> anyhow::Result<()> {
        let Some(files) = data.numbered else { return Ok(()) };
        let is_own = |reader: FurtherReader| {
            let is_base = matches!(reader, FurtherReader::Plain | FurtherReader::Numbered);
            !(is_base || reader.is_java() || reader.is_of_other_program())
        };
        let ways = || self.ways.iter().filter(|way| is_own(way.reader));
        let task = Portion::new("comparing what is beside the table", Unit::Items, ways().count() as u64);
        let before_each = counting(hooks, &task, 1);
        for way in ways() {
            before_each()?;
            let digest = Digest::default();
            self.read(way.reader, data, |key, offset, bytes| digest.piece(key, offset, bytes))?;
            let (found, label) = (digest.finish(), way.reader.label());
            ensure!(
                found == returned,
                "what was read differs: “{label}” returned {found:?}, others {returned:?}"
            );
        }
        if self.java.is_none() {
            return Ok(());
        }
        let mut sum = FnvSum::default();
        numbered::read(&data.plain, files, PUBLISHED_BUFFER_LEN, Advice::Normal, |_, _, bytes| {
            sum.add(bytes)
        })?;
        for reader in [FurtherReader::JavaPlain, FurtherReader::JavaNumbered] {
            let Some((java, reads)) = self.java_reads(reader) else { continue };
            let found = java.sum(reads, data, self.record_bytes()?);
            hooks.check()?;
            let found = found?;
            let is_same = (found.sum, found.amount.records) == (sum.0, returned.records);
            ensure!(
                is_same,
                "what was read differs: “{}” returned {found:?}, others {returned:?}",
                reader.label()
            );
        }
        Ok(())
    }

    /// What was measured.
    ///
    /// # Errors
    /// Returns an error if figures are missing or invalid.
    pub(super) fn rows(&self) -> anyhow::Result<Vec<FurtherRow>> {
        self.ways.iter().map(|way| self.row(way)).collect()
    }

    fn row(&self, way: &Measured) -> anyhow::Result<FurtherRow> {
        let seconds = |way: &Measured| way.costs.iter().map(|cost| cost.taken.seconds).collect::<Vec<f64>>();
        let (own, against) = (seconds(way), way.reader.against());
        let base = against.and_then(|base| self.ways.iter().find(|other| other.reader == base));
        let summary = Summary::of(&own)?;
        let device_bytes = device_read_bytes(&way.costs)?;
        Ok(FurtherRow {
            label: way.reader.label(),
            reader: way.reader,
            against: against.map(FurtherReader::label),
            times: base.map(|base| PairedRatio::of(&own, &seconds(base), CONFIDENCE)).transpose()?,
            seconds: summary.median,
            bytes_per_s: way.bytes as f64 / summary.median,
            device_read_bytes: device_bytes,
            read_amplification: amplification(device_bytes, way.bytes),
            summary,
            runs: way.costs.iter().map(|cost| cost.taken).collect(),
        })
    }
}

/// The order of a round: every second time the opposite, so that none always pays for what another
/// left. What is read again right after something else stays there.
fn order(readers: &[FurtherReader], is_turned: bool) -> Vec<usize> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, reader) in readers.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if *reader == FurtherReader::OtherAfterReading => group.push(at),
            // What was written is read by the next one, too.
            Some(group) if *reader == FurtherReader::OtherOfWritten => group.push(at),
            _ => groups.push(vec![at]),
        }
    }
    if is_turned {
        groups.reverse();
    }
    groups.concat()
}

/// Another process, which has nothing of this one's but the caches of the system.
fn read_by_other_program(path: &Path) -> anyhow::Result<()> {
    let (mut from, mut block) = (std::ffi::OsString::from("if="), std::ffi::OsString::from("bs="));
    from.push(path);
    block.push(PUBLISHED_BUFFER_LEN.to_string());
    let output = Command::new("dd").arg(from).arg(block).arg("of=/dev/null").stdin(Stdio::null()).output();
    let output = output.context("cannot start dd")?;
    let reported = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "dd cannot read {}: {}", path.display(), reported.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;

    impl Hooks for Silent {
        fn note(&self, _: &str) {}

        fn check(&self) -> anyhow::Result<()> {
            Ok(())
        }
    }

    fn made(work: &Path) -> (Data, FurtherData) {
        let sample = Sample { files: 23, size: 77 };
        let name = |kind: &str| work.join(format!("x.{kind}"));
        let data = Data {
            tree: name("tree"),
            plain: name("plain"),
            pack: name("stook"),
            numbered: Some(sample.files),
        };
        numbered::make_tree(&data.tree, sample, || Ok(())).unwrap();
        numbered::write(&data.plain, sample, || Ok(())).unwrap();
        let further = FurtherData::of(work, sample);
        further.make(&Silent).unwrap();
        (data, further)
    }

    /// Where there is no Java it says so, and the others are compared all the same.
    #[test]
    fn all_ways_return_the_records_of_the_sample_and_another_record_is_noticed() {
        let work = tempfile::tempdir().unwrap();
        let (data, own) = made(work.path());
        assert_eq!(own.missing_bytes(), 23 * 77, "only what is written in a round");
        let further = Further::new(Some(own.clone()), work.path(), &Silent).unwrap();
        let reasons = further.left_out.iter().filter(|left| !left.because.is_empty()).count();
        assert_eq!(further.java_version().is_some(), reasons == 0);
        let returned = Reader::Numbered.fingerprint(&data).unwrap();
        further.compare(&data, returned, &Silent).unwrap();
        let other = Fingerprint { sum: returned.sum ^ 1, ..returned };
        further.compare(&data, other, &Silent).unwrap_err();
        // Others cannot see what only Java reads wrongly.
        let file = data.tree.join("00");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[50] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let sees = further.compare(&data, returned, &Silent).is_err();
        assert!(sees, "a changed file is noticed");
    }

    /// Before: what was read first always paid for what the next one found.
    #[test]
    fn the_order_turns_and_what_belongs_together_stays_together() {
        let at = |order: &[usize], reader| order.iter().position(|at| ALL[*at] == reader).unwrap();
        for is_turned in [false, true] {
            let order = order(&ALL, is_turned);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..ALL.len()).collect::<Vec<_>>());
            let follows = |first, next| assert_eq!(at(&order, first) + 1, at(&order, next));
            follows(FurtherReader::Plain, FurtherReader::OtherAfterReading);
            follows(FurtherReader::OtherAfterWriting, FurtherReader::OtherOfWritten);
            let parsed_first =
                at(&order, FurtherReader::HistoryParsed) < at(&order, FurtherReader::HistorySkipped);
            assert_ne!(parsed_first, is_turned);
        }
    }

    #[test]
    fn every_way_that_is_compared_has_its_base_in_the_same_round() {
        for ways in [&ALL[..], &OF_ANY_TREE[..]] {
            for base in ways.iter().filter_map(|way| way.against()) {
                assert!(ways.contains(&base) && base.against().is_none(), "{base:?}");
            }
        }
    }

    #[test]
    fn another_program_that_cannot_read_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("=a b");
        let error = read_by_other_program(&file).unwrap_err();
        assert!(error.to_string().contains("=a b"), "{error}");
        std::fs::write(&file, "x").unwrap();
        read_by_other_program(&file).unwrap();
    }
}
