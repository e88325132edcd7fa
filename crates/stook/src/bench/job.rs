//! Job files: the cells to measure, in TOML.
//!
//! ```toml
//! repeats = 3
//! file_size = "4G"
//! long_run = "60s"               # before the rounds, for each cell that writes
//!
//! [defaults]                     # for every cell
//! time = "10s"
//!
//! [[cell]]                       # lists make one cell for each combination
//! rw = "randread"
//! block_size = ["4K", "16K"]
//! depth = [1, 32]
//! ```

use std::path::Path;

use serde::Deserialize;

use super::error::{Error, Result};
use super::fio::read as fio;
use super::sweep::{Rw, Sweep};
use super::workload::{Arrival, Workload};
use crate::report::units::{parse_seconds, parse_size};

/// The contents of a job file.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The cells, in order.
    pub cells: Vec<Workload>,
    /// How often each is run, if it is given.
    pub repeats: Option<u32>,
    /// The length of an own file, if it is given.
    pub file_bytes: Option<u64>,
    /// The length of the long runs of cells that write, if it is given; 0 for none.
    pub long_run_s: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    repeats: Option<u32>,
    file_size: Option<Amount>,
    long_run: Option<Amount>,
    #[serde(default)]
    defaults: Keys,
    #[serde(default)]
    cell: Vec<toml::Spanned<Keys>>,
}

/// The fields of a cell, or of the defaults; named like the options of the command line.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    rw: Option<OneOrMore<String>>,
    block_size: Option<OneOrMore<Amount>>,
    depth: Option<OneOrMore<u32>>,
    read_share: Option<OneOrMore<u8>>,
    jobs: Option<OneOrMore<u32>>,
    batch: Option<u32>,
    buffered: Option<bool>,
    fsync_every: Option<u32>,
    ramp: Option<Amount>,
    time: Option<Amount>,
    size: Option<Amount>,
    rate: Option<f64>,
    arrival: Option<Arrival>,
    verify: Option<bool>,
    seed: Option<u64>,
    compressibility: Option<u8>,
    zipf: Option<f64>,
    bssplit: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a value or a list of values")]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

/// A number, or text with a unit.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a number, or text with a unit like \"16K\" or \"10s\"")]
enum Amount {
    Number(u64),
    Text(String),
}

impl<T: Clone> OneOrMore<T> {
    fn list(&self) -> Vec<T> {
        match self {
            Self::One(value) => vec![value.clone()],
            Self::More(values) => values.clone(),
        }
    }
}

impl Amount {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    fn bytes(&self) -> Result<u64> {
        parse_size(&self.text()).map_err(|error| Error::workload(error.to_string()))
    }

    fn seconds(&self) -> Result<f64> {
        match self {
            Self::Number(seconds) => Ok(*seconds as f64),
            Self::Text(text) => parse_seconds(text).map_err(|error| Error::workload(error.to_string())),
        }
    }
}

impl Job {
    /// Reads a job file; `base` has the values that are neither in its cells nor in its defaults.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, and [`Error::JobFile`], with the line, for anything
    /// in it that is invalid.
    pub fn read(path: &Path, base: &Workload) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| crate::Error::io("read", path, error))?;
        Self::parse(&text, path, base)
    }

    /// Reads a job file of fio, with the defaults of fio. The seed is for jobs that say none.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, and [`Error::JobFile`], with the line, for anything
    /// in it that has no meaning here, or would be another measurement.
    pub fn read_fio(path: &Path, seed: u64) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| crate::Error::io("read", path, error))?;
        let found = fio::read(&text, seed);
        found.map_err(|(line, message)| Error::JobFile { path: path.to_path_buf(), line, message })
    }

    fn parse(text: &str, path: &Path, base: &Workload) -> Result<Self> {
        let at = |offset: usize, message: String| Error::JobFile {
            path: path.to_path_buf(),
            line: text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1,
            message,
        };
        let document: Document = toml::from_str(text)
            .map_err(|error| at(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
        if document.cell.is_empty() {
            return Err(at(text.len(), "there is no cell; expected at least one [[cell]]".to_owned()));
        }
        let mut cells = Vec::new();
        for cell in document.cell {
            let start = cell.span().start;
            let sweep = cell.into_inner().or(&document.defaults).sweep(base);
            let made = sweep.and_then(|sweep| sweep.cells());
            let made = made.and_then(|made| made.iter().try_for_each(Workload::check).map(|()| made));
            cells.extend(made.map_err(|error| at(start, error.to_string()))?);
        }
        let file_bytes = document.file_size.as_ref().map(Amount::bytes).transpose();
        let long_run_s = document.long_run.as_ref().map(Amount::seconds).transpose();
        Ok(Self {
            cells,
            repeats: document.repeats,
            file_bytes: file_bytes.map_err(|error| at(0, error.to_string()))?,
            long_run_s: long_run_s.map_err(|error| at(0, error.to_string()))?,
        })
    }
}

impl Keys {
    /// Its own values, with the defaults for missing ones.
    fn or(self, defaults: &Self) -> Self {
        let defaults = defaults.clone();
        Self {
            rw: self.rw.or(defaults.rw),
            block_size: self.block_size.or(defaults.block_size),
            depth: self.depth.or(defaults.depth),
            read_share: self.read_share.or(defaults.read_share),
            jobs: self.jobs.or(defaults.jobs),
            batch: self.batch.or(defaults.batch),
            buffered: self.buffered.or(defaults.buffered),
            fsync_every: self.fsync_every.or(defaults.fsync_every),
            ramp: self.ramp.or(defaults.ramp),
            time: self.time.or(defaults.time),
            size: self.size.or(defaults.size),
            rate: self.rate.or(defaults.rate),
            arrival: self.arrival.or(defaults.arrival),
            verify: self.verify.or(defaults.verify),
            seed: self.seed.or(defaults.seed),
            compressibility: self.compressibility.or(defaults.compressibility),
            zipf: self.zipf.or(defaults.zipf),
            bssplit: self.bssplit.or(defaults.bssplit),
        }
    }

    fn sweep(&self, base: &Workload) -> Result<Sweep> {
        let list = |list: &Option<OneOrMore<u32>>| list.as_ref().map(OneOrMore::list).unwrap_or_default();
        let rw = self.rw.as_ref().map(OneOrMore::list).unwrap_or_default();
        let block_sizes = self.block_size.as_ref().map(OneOrMore::list).unwrap_or_default();
        Ok(Sweep {
            base: self.workload(base)?,
            rw: rw.iter().map(|name| name.parse()).collect::<Result<Vec<Rw>>>()?,
            block_sizes: block_sizes.iter().map(Amount::bytes).collect::<Result<_>>()?,
            read_shares: self.read_share.as_ref().map(OneOrMore::list).unwrap_or_default(),
            jobs: list(&self.jobs),
            depths: list(&self.depth),
        })
    }

    fn workload(&self, base: &Workload) -> Result<Workload> {
        let seconds = |amount: &Option<Amount>| amount.as_ref().map(Amount::seconds).transpose();
        let size_bytes = self.size.as_ref().map(Amount::bytes).transpose()?.or(base.size_bytes);
        // A size alone is enough to end it.
        let time_s = seconds(&self.time)?.or(if self.size.is_some() { None } else { base.time_s });
        let split = self.bssplit.as_ref().map(|text| text.parse()).transpose()?;
        let split = split.or_else(|| base.block_split.clone());
        let workload = Workload {
            batch: self.batch.unwrap_or(base.batch),
            buffered: self.buffered.unwrap_or(base.buffered),
            fsync_every: self.fsync_every.or(base.fsync_every),
            ramp_s: seconds(&self.ramp)?.unwrap_or(base.ramp_s),
            time_s,
            size_bytes,
            rate_per_s: self.rate.or(base.rate_per_s),
            arrival: self.arrival.unwrap_or(base.arrival),
            verify: self.verify.unwrap_or(base.verify),
            seed: self.seed.unwrap_or(base.seed),
            compressibility: self.compressibility.unwrap_or(base.compressibility),
            zipf: self.zipf.or(base.zipf),
            ..base.clone()
        };
        Ok(workload.of_sizes(split))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Job> {
        Job::parse(text, Path::new("job.toml"), &Workload::default())
    }

    #[test]
    fn cells_take_what_they_do_not_say_from_the_defaults() {
        let text = "repeats = 3\nfile_size = \"4G\"\nlong_run = \"1m\"\n\n[defaults]\ntime = \"2500ms\"\ndepth = 8\n\n\
                    [[cell]]\nrw = \"randread\"\nblock_size = [\"4K\", 16384]\n\n\
                    [[cell]]\nrw = [\"read\", \"write\"]\ndepth = [1, 32]\nsize = \"1M\"\nramp = 0\n";
        let job = parsed(text).unwrap();
        assert_eq!((job.repeats, job.file_bytes, job.cells.len()), (Some(3), Some(4 << 30), 6));
        assert_eq!(job.long_run_s, Some(60.0));
        let seen: Vec<_> = job.cells.iter().map(|c| (c.rw(), c.block_size, c.depth)).collect();
        assert_eq!(seen[..3], [("randread", 4096, 8), ("randread", 16_384, 8), ("read", 4096, 1)]);
        assert_eq!((job.cells[0].time_s, job.cells[0].ramp_s), (Some(2.5), 1.0));
        let split = parsed("[defaults]\nbssplit = \"4k/60:64K\"\n[[cell]]\ndepth = [1, 2]\n").unwrap();
        assert!(split.cells.iter().all(|cell| cell.block_size == 65_536 && cell.block_split.is_some()));
        assert_eq!((job.cells[5].size_bytes, job.cells[5].ramp_s), (Some(1 << 20), 0.0));
    }

    #[test]
    fn what_is_not_understood_is_reported_with_its_line() {
        for (text, line, part) in [
            ("[[cell]]\ndepht = 3\n", 2, "unknown field `depht`"),
            ("[[cell]]\nrw = \"randread\"\n\n[[cell]]\ndepth = \"deep\"\n", 5, "expected a value or a list"),
            ("[[cell]]\n\n[[cell]]\nblock_size = 0\n", 3, "the block size is 0 bytes"),
            ("[[cell]]\nblock_size = \"4 parsecs\"\n", 1, "is not a size"),
            ("[[cell]]\ntime = \"soon\"\n", 1, "is not a time"),
            ("long_run = \"soon\"\n[[cell]]\n", 1, "is not a time"),
            ("[[cell]]\nbssplit = \"4k/60:8k/60\"\n", 1, "add up to 120%"),
            ("[[cell]]\nbssplit = \"4k/60:8k\"\nblock_size = \"4K\"\n", 1, "expected one of them"),
            ("[[cell]]\nrw = \"trim\"\n", 1, "expected one of"),
            ("repeats = 1\n", 2, "expected at least one [[cell]]"),
            ("[[cell\n", 1, ""),
        ] {
            let error = parsed(text).unwrap_err();
            let Error::JobFile { line: reported, .. } = &error else { panic!("{error}") };
            assert_eq!(*reported, line, "{text}: {error}");
            let message = error.to_string();
            assert!(message.starts_with("job.toml, line ") && message.contains(part), "{message}");
        }
    }
}
