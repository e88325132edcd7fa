//! The same tree and the same composite file on other file systems, one after the other, each on a
//! loop device: mounted anew before every read.

mod image;
mod kinds;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::Serialize;
use stook::report::stats::Summary;
use stook::report::units;

use self::image::Image;
pub(super) use self::image::{is_part, remove_left};
pub(super) use self::kinds::{FileSystem, named};
use super::measure::{Cost, MEMORY_OVER_BYTES, amplification, device_read_bytes};
use super::readers::{Amount, Data, Reader};
use super::{PLAIN, RUNS, numbered};
use crate::cold::{Cold, Next};
use crate::digest::Fingerprint;
use crate::meter::Taken;
use crate::progress::{Portion, Unit, counting};
use crate::sample::{self, Sample};
use crate::{Hooks, OptionError};

/// The records on one file system take no more than this, bytes.
const RECORDS_MAX: u64 = 2 << 30;

/// Beside the records: what an empty file system takes of its file, bytes.
const EMPTY_MAX: u64 = 256 << 20;

/// A file takes this much at least, bytes.
const BLOCK_LEN: u64 = 4 << 10;

/// Where the user does not say how many rounds, none is begun on a file system that would end later
/// than this.
const TIME_MAX: Duration = Duration::from_secs(40);

/// What is read on every file system.
const READERS: [Reader; 2] = [PLAIN, Reader::Numbered];

/// A file system that was asked for.
#[derive(Debug, Clone, Serialize)]
pub struct OnFileSystem {
    /// Its name.
    pub name: &'static str,
    /// What was measured, where it is to be had.
    pub measured: Option<OnMeasured>,
    /// Why it is not to be had here.
    pub not_had: Option<String>,
}

/// What was measured on a file system.
#[derive(Debug, Clone, Serialize)]
pub struct OnMeasured {
    /// What mounts it.
    pub driver: String,
    /// The command that made it, without the device.
    pub made_with: String,
    /// Its clusters or blocks, bytes.
    pub cluster_bytes: u64,
    /// Files, and records of the one file.
    pub files: u64,
    /// Reading the one file, as published.
    pub one_file: OnRow,
    /// Reading the files by their numbers, as published.
    pub loose_files: OnRow,
}

/// A way of reading and its cost.
#[derive(Debug, Clone, Serialize)]
pub struct OnRow {
    /// Median of all rounds, seconds.
    pub seconds: f64,
    /// Bytes of records per second.
    pub bytes_per_s: f64,
    /// What the devices below read, for all programs: median of all rounds, bytes.
    pub device_read_bytes: Option<u64>,
    /// That ÷ the bytes that were asked for.
    pub read_amplification: Option<f64>,
    /// All times.
    pub summary: Summary,
    /// Every round.
    pub runs: Vec<Taken>,
}

/// Refuses file systems that nobody but root could make, or on which nothing fits.
///
/// # Errors
/// Returns an error if a name is none of a file system, if this is not root, or if a record of the
/// sample is too large.
pub(super) fn check(names: &[String], sample: Sample) -> Result<Vec<FileSystem>, OptionError> {
    let kinds = named(names)?;
    if kinds.is_empty() {
        return Ok(kinds);
    }
    if !rustix::process::geteuid().is_root() {
        return Err(OptionError::new("--on makes and mounts file systems: only root may; run this as root"));
    }
    if sample_of(sample).files == 0 {
        return Err(OptionError::new(format!(
            "--on: no file of {} fits in {}, which is the most that is put on each file system",
            units::bytes_decimal(sample.size),
            units::bytes_binary(RECORDS_MAX)
        )));
    }
    Ok(kinds)
}

/// The space that one file system takes at most, bytes. There is one at a time.
pub(super) fn space_bytes(sample: Sample) -> u64 {
    let sample = sample_of(sample);
    sample.files.saturating_mul(both_forms_bytes(sample)).saturating_add(EMPTY_MAX)
}

/// A record in the tree and in the one file.
fn both_forms_bytes(sample: Sample) -> u64 {
    let record = sample.size.saturating_add(numbered::HEAD_LEN);
    record.div_ceil(BLOCK_LEN).saturating_mul(BLOCK_LEN).saturating_add(record)
}

/// As much of a sample as is put on each file system.
fn sample_of(sample: Sample) -> Sample {
    Sample { files: sample.files.min(RECORDS_MAX / both_forms_bytes(sample)), ..sample }
}

/// What was found on all file systems.
#[derive(Debug)]
pub(super) struct OnFound {
    /// Those that were asked for.
    pub(super) file_systems: Vec<OnFileSystem>,
    /// What was read on those that were measured, and of which sample.
    pub(super) returned: Option<(Sample, Fingerprint)>,
}

/// What all file systems have in common.
pub(super) struct OnBench<'a> {
    work: &'a Path,
    sample: Sample,
    runs: Option<usize>,
    cold: &'a Cold,
    hooks: &'a dyn Hooks,
    /// What the first of them returned.
    returned: Option<Fingerprint>,
}

impl<'a> OnBench<'a> {
    pub(super) fn new(
        work: &'a Path,
        sample: Sample,
        runs: Option<usize>,
        cold: &'a Cold,
        hooks: &'a dyn Hooks,
    ) -> Self {
        Self { work, sample: sample_of(sample), runs, cold, hooks, returned: None }
    }

    /// Measures all of them, one after the other. One that is not to be had is no error.
    ///
    /// # Errors
    /// Returns an error if writing or reading on one that is to be had fails, if records differ, or
    /// the error of [`Hooks::check`].
    pub(super) fn measure(mut self, kinds: &[FileSystem]) -> anyhow::Result<OnFound> {
        remove_left(self.work)?;
        let mut all = Vec::new();
        for kind in kinds {
            self.hooks.note(&format!("On {}:", kind.name));
            let found = self.one(*kind)?;
            if let Err(because) = &found {
                self.hooks.note(&format!("  not to be had here: {because}"));
            }
            let (measured, not_had) = match found {
                Ok(measured) => (Some(measured), None),
                Err(because) => (None, Some(because)),
            };
            all.push(OnFileSystem { name: kind.name, measured, not_had });
        }
        let returned = self.returned.map(|returned| (self.sample, returned));
        Ok(OnFound { file_systems: all, returned })
    }

    /// One of them. `Err` within says why it is not to be had.
    fn one(&mut self, kind: FileSystem) -> anyhow::Result<Result<OnMeasured, String>> {
        self.hooks.check()?;
        let (maker, driver) = match kind.found() {
            Ok(found) => found,
            Err(because) => return Ok(Err(because)),
        };
        let record_bytes = self.sample.size + numbered::HEAD_LEN;
        let len_bytes = kind.device_bytes(self.sample.files, record_bytes);
        let name = driver.name();
        let made = Image::make(self.work, kind, (&maker, driver), len_bytes)
            .and_then(|mut image| image.mount().map(|()| image));
        let mut image = match made {
            Ok(image) => image,
            Err(error) => return Ok(Err(format!("{error:#}"))),
        };
        let measured = self.within(&mut image, kind, name);
        // Unmounted and removed before anything else, also after an error.
        let removed = image.remove();
        if measured.is_err() {
            self.hooks.check()?;
        }
        let measured = measured.with_context(|| format!("cannot measure {}", kind.name))?;
        removed?;
        Ok(Ok(measured))
    }

    /// Writes the records on a file system that is mounted, and reads them in rounds.
    fn within(&mut self, image: &mut Image, kind: FileSystem, driver: String) -> anyhow::Result<OnMeasured> {
        let (sample, hooks) = (self.sample, self.hooks);
        let name = |name: &str| image.root().join(name);
        let data = Data {
            tree: name("records.tree"),
            plain: name("records.plain"),
            pack: PathBuf::new(),
            numbered: Some(sample.files),
        };
        let task = |what| Portion::new(what, Unit::Bytes, sample.bytes());
        numbered::make_tree(&data.tree, sample, counting(hooks, &task("making the files"), sample.size))?;
        numbered::write(&data.plain, sample, counting(hooks, &task("writing one file"), sample.size))?;
        sample::sync(image.root())?;
        let cluster_bytes = rustix::fs::statvfs(image.root()).context("cannot look at it")?.f_frsize;
        let costs = self.rounds(image, &data)?;
        self.compare(&data)?;
        let [one_file, loose_files] = costs;
        let bytes = sample.files * (sample.size + numbered::HEAD_LEN);
        let words = [&[kind.maker][..], kind.options].concat();
        Ok(OnMeasured {
            driver,
            made_with: words.join(" "),
            cluster_bytes,
            files: sample.files,
            one_file: row(&one_file, bytes)?,
            loose_files: row(&loose_files, bytes)?,
        })
    }

    /// All rounds: the costs of both ways of reading, in turn.
    fn rounds(&self, image: &mut Image, data: &Data) -> anyhow::Result<[Vec<Cost>; 2]> {
        let (began, mut last) = (Instant::now(), Duration::ZERO);
        let mut all = [Vec::new(), Vec::new()];
        for number in 1..=self.runs.unwrap_or(RUNS) {
            if self.runs.is_none() && number > 1 && began.elapsed() + last > TIME_MAX {
                break;
            }
            let round = Instant::now();
            for (reader, costs) in READERS.into_iter().zip(&mut all) {
                let cost = self.read(image, data, reader)?;
                let label = reader.label();
                self.hooks.detail(&format!("  {number}: {label}: {:.2} s", cost.taken.seconds));
                costs.push(cost);
            }
            last = round.elapsed();
        }
        Ok(all)
    }

    /// Reads once, from a file system that was mounted just before.
    fn read(&self, image: &mut Image, data: &Data, reader: Reader) -> anyhow::Result<Cost> {
        self.hooks.check()?;
        image.unmount()?;
        image.mount()?;
        let bytes = self.sample.bytes();
        let below = [image.file().to_path_buf()];
        self.cold.prepare(Next { paths: &below, memory_bytes: bytes.saturating_add(MEMORY_OVER_BYTES) })?;
        let (cost, amount) = Cost::of(reader.path(data), || reader.timed(data))?;
        let expected = Amount {
            records: self.sample.files,
            bytes: self.sample.files * (self.sample.size + numbered::HEAD_LEN),
        };
        ensure!(amount == expected, "{} returned {amount:?}, there are {expected:?}", reader.label());
        Ok(cost)
    }

    /// Checks that both ways return the same, and on all file systems.
    fn compare(&mut self, data: &Data) -> anyhow::Result<()> {
        for reader in READERS {
            self.hooks.check()?;
            let found = reader.fingerprint(data)?;
            let expected = *self.returned.get_or_insert(found);
            let label = reader.label();
            ensure!(
                found == expected,
                "what was read differs: {label} returned {found:?}, others {expected:?}"
            );
        }
        Ok(())
    }
}

fn row(costs: &[Cost], bytes: u64) -> anyhow::Result<OnRow> {
    let runs: Vec<Taken> = costs.iter().map(|cost| cost.taken).collect();
    let summary = Summary::of(&runs.iter().map(|run| run.seconds).collect::<Vec<_>>())?;
    let device_bytes = device_read_bytes(costs)?;
    Ok(OnRow {
        seconds: summary.median,
        bytes_per_s: bytes as f64 / summary.median,
        device_read_bytes: device_bytes,
        read_amplification: amplification(device_bytes, bytes),
        summary,
        runs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_of_a_sample_as_fits_is_put_on_a_file_system() {
        let published = Sample { files: 50_000, size: 20_000 };
        assert_eq!(sample_of(published), published);
        assert!(space_bytes(published) < RECORDS_MAX + EMPTY_MAX);
        let large = sample_of(Sample { files: 1_000_000, size: 20_000 });
        assert_eq!(large, Sample { files: RECORDS_MAX / (20_480 + 20_008), size: 20_000 });
        assert_eq!(sample_of(Sample { files: 10, size: i32::MAX as u64 }).files, 0);
        assert_eq!(sample_of(Sample { files: 10, size: 0 }).files, 10);
    }

    #[test]
    fn nonsense_is_refused_for_everybody_and_without_a_name_nobody_is_asked_to_be_root() {
        let sample = Sample { files: 10, size: 10 };
        let error = check(&["nonsense".to_owned()], sample).unwrap_err().to_string();
        assert!(error.starts_with("--on: no file system"), "{error}");
        assert!(check(&[], sample).unwrap().is_empty());
    }
}
