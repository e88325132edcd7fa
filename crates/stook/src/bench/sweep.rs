//! [`Sweep`]: lists of values become cells, one for each combination; and lists that are worth a
//! name.

use std::fmt;
use std::str::FromStr;

use super::error::{Error, Result};
use super::workload::{Pattern, Workload};

/// The usual short name of pattern and direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rw {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Sequential reads and writes.
    Mixed,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Random reads and writes.
    RandMixed,
}

impl Rw {
    const ALL: [(&'static str, Self); 6] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("rw", Self::Mixed),
        ("randread", Self::RandRead),
        ("randwrite", Self::RandWrite),
        ("randrw", Self::RandMixed),
    ];

    fn pattern(self) -> Pattern {
        match self {
            Self::Read | Self::Write | Self::Mixed => Pattern::Sequential,
            Self::RandRead | Self::RandWrite | Self::RandMixed => Pattern::Random,
        }
    }

    /// The read share it fixes; a mix fixes none.
    fn read_share(self) -> Option<u8> {
        match self {
            Self::Read | Self::RandRead => Some(100),
            Self::Write | Self::RandWrite => Some(0),
            Self::Mixed | Self::RandMixed => None,
        }
    }
}

impl FromStr for Rw {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, rw)| *rw);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            Error::workload(format!("{text:?} is no workload; expected one of {}", names.join(", ")))
        })
    }
}

impl fmt::Display for Rw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, rw)| rw == self).map_or("", |(name, _)| name))
    }
}

/// The read share of a mix that names none.
const MIXED_READ_SHARE: u8 = 50;

/// Lists of values. An empty one means the value of the base.
#[derive(Debug, Clone, Default)]
pub struct Sweep {
    /// What all cells have in common.
    pub base: Workload,
    /// Patterns and directions.
    pub rw: Vec<Rw>,
    /// Block sizes in bytes.
    pub block_sizes: Vec<u64>,
    /// Read shares in per cent.
    pub read_shares: Vec<u8>,
    /// Numbers of jobs.
    pub jobs: Vec<u32>,
    /// Depths.
    pub depths: Vec<u32>,
}

impl Sweep {
    /// Every combination; depth changes fastest, then jobs, read share, block size and direction.
    ///
    /// # Errors
    /// Returns an error if read shares were given for a direction that is not mixed, or block sizes
    /// beside a split of them.
    pub fn cells(&self) -> Result<Vec<Workload>> {
        if self.base.block_split.is_some() && !self.block_sizes.is_empty() {
            return Err(Error::workload(
                "block sizes and a split of block sizes (bssplit) were given; expected one of them",
            ));
        }
        let or = |list: &[u32], base: u32| if list.is_empty() { vec![base] } else { list.to_vec() };
        let block_sizes =
            if self.block_sizes.is_empty() { vec![self.base.block_size] } else { self.block_sizes.clone() };
        let mut cells = Vec::new();
        for (pattern, read_share) in self.directions()? {
            for &block_size in &block_sizes {
                for jobs in or(&self.jobs, self.base.jobs) {
                    for depth in or(&self.depths, self.base.depth) {
                        let base = self.base.clone();
                        cells.push(Workload { pattern, read_share, block_size, jobs, depth, ..base });
                    }
                }
            }
        }
        Ok(cells)
    }

    fn directions(&self) -> Result<Vec<(Pattern, u8)>> {
        let base = &self.base;
        if self.rw.is_empty() {
            let shares =
                if self.read_shares.is_empty() { vec![base.read_share] } else { self.read_shares.clone() };
            return Ok(shares.into_iter().map(|share| (base.pattern, share)).collect());
        }
        let mut directions = Vec::new();
        for rw in &self.rw {
            match rw.read_share() {
                Some(share) if self.read_shares.iter().all(|&asked| asked == share) => {
                    directions.push((rw.pattern(), share));
                }
                Some(_) => {
                    return Err(Error::workload(format!(
                        "a read share was given for {rw}, which has its own; expected rw or randrw"
                    )));
                }
                None if self.read_shares.is_empty() => directions.push((rw.pattern(), MIXED_READ_SHARE)),
                None => directions.extend(self.read_shares.iter().map(|&share| (rw.pattern(), share))),
            }
        }
        Ok(directions)
    }
}

/// Cells that are worth a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Four lines in less than half a minute: sequential 1 MiB at depth 8 and 1, random 4 KiB at
    /// depth 32 and 1, all of them reads.
    Quick,
    /// What a published study of an SSD varied, one thing at a time: block size, read share and
    /// depth around reads of 16 KiB at depth 1; and random writes of 4 KiB. That study read from
    /// front to back, and does not say whether past the page cache; these reads are random and
    /// direct.
    Ssd,
}

impl Preset {
    /// The cells, each measured for `time_s` (or for as long as the preset wants), with the rest
    /// from `base`.
    pub fn cells(self, base: &Workload, time_s: Option<f64>) -> Vec<Workload> {
        let base = Workload { time_s: Some(time_s.unwrap_or(self.time_s())), ..base.clone() };
        match self {
            Self::Quick => [(Pattern::Sequential, 1 << 20, 8), (Pattern::Sequential, 1 << 20, 1)]
                .into_iter()
                .chain([(Pattern::Random, 4096, 32), (Pattern::Random, 4096, 1)])
                .map(|(pattern, block_size, depth)| {
                    let read_share = 100;
                    Workload { pattern, block_size, depth, read_share, ..base.clone() }
                })
                .collect(),
            Self::Ssd => ssd(&base),
        }
    }

    fn time_s(self) -> f64 {
        match self {
            Self::Quick => 4.0,
            Self::Ssd => 60.0,
        }
    }

    /// How long the long runs of cells that write take, where cells are measured for `time_s` (or
    /// for as long as the preset wants): twice as long, so that they write past a cache that a cell
    /// just fills, and 20 s at least.
    pub fn long_run_s(self, time_s: Option<f64>) -> Option<f64> {
        match self {
            Self::Quick => None,
            Self::Ssd => Some((2.0 * time_s.unwrap_or(self.time_s())).max(20.0)),
        }
    }

    /// How long each cell runs before it is measured.
    pub fn ramp_s(self) -> f64 {
        match self {
            Self::Quick => 0.5,
            Self::Ssd => 2.0,
        }
    }
}

fn ssd(base: &Workload) -> Vec<Workload> {
    let centre = Workload {
        pattern: Pattern::Random,
        block_size: 16 << 10,
        read_share: 100,
        depth: 1,
        jobs: 1,
        ..base.clone()
    };
    let blocks = [4 << 10, 16 << 10, 32 << 10, 128 << 10, 512 << 10];
    let blocks = blocks.map(|block_size| Workload { block_size, ..centre.clone() });
    let depths = [4, 32, 256, 1024].map(|depth| Workload { depth, ..centre.clone() });
    let shares = [70, 50, 30, 0].map(|read_share| Workload { read_share, ..centre.clone() });
    let writes = Workload { block_size: 4 << 10, read_share: 0, ..centre.clone() };
    // Reads first: the work that writes leave to a device slows the reads after them.
    blocks.into_iter().chain(depths).chain(shares).chain([writes]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_a_cell_in_order() {
        let sweep = Sweep {
            rw: vec![Rw::Read, Rw::RandMixed],
            block_sizes: vec![4096, 16_384],
            depths: vec![1, 32],
            ..Sweep::default()
        };
        let cells = sweep.cells().unwrap();
        let seen: Vec<_> = cells.iter().map(|cell| (cell.rw(), cell.block_size, cell.depth)).collect();
        assert_eq!(seen[..3], [("read", 4096, 1), ("read", 4096, 32), ("read", 16_384, 1)]);
        assert_eq!((seen.len(), seen[7]), (8, ("randrw", 16_384, 32)));
        assert_eq!(cells[7].read_share, 50);
        assert_eq!(Sweep::default().cells().unwrap(), [Workload::default()]);
    }

    #[test]
    fn read_shares_belong_to_mixes() {
        let sweep = |rw: &[Rw]| Sweep { rw: rw.to_vec(), read_shares: vec![70, 30], ..Sweep::default() };
        assert_eq!(sweep(&[]).cells().unwrap().len(), 2);
        assert_eq!(sweep(&[Rw::Mixed]).cells().unwrap().iter().filter(|cell| cell.rw() == "rw").count(), 2);
        let error = sweep(&[Rw::RandRead]).cells().unwrap_err().to_string();
        assert!(error.contains("randread") && error.contains("expected rw or randrw"), "{error}");
    }

    #[test]
    fn block_sizes_are_given_as_a_list_or_as_a_split() {
        let base = Workload::default().of_sizes(Some("4k/60:64k/40".parse().unwrap()));
        let sweep = Sweep { base: base.clone(), depths: vec![1, 4], ..Sweep::default() };
        let cells = sweep.cells().unwrap();
        assert!(cells.len() == 2 && cells.iter().all(|cell| cell.block_split == base.block_split));
        let error = Sweep { block_sizes: vec![4096], ..sweep }.cells().unwrap_err().to_string();
        assert!(error.contains("expected one of them"), "{error}");
    }

    #[test]
    fn names_are_read_as_they_are_printed_and_others_refused() {
        for (name, rw) in Rw::ALL {
            assert_eq!((name.parse::<Rw>().unwrap(), rw.to_string().as_str()), (rw, name));
        }
        let error = "trim".parse::<Rw>().unwrap_err().to_string();
        assert!(error.ends_with("expected one of read, write, rw, randread, randwrite, randrw"), "{error}");
    }

    #[test]
    fn presets_are_sound_and_vary_one_thing_at_a_time() {
        for preset in [Preset::Quick, Preset::Ssd] {
            let base = Workload { ramp_s: preset.ramp_s(), ..Workload::default() };
            let cells = preset.cells(&base, None);
            cells.iter().for_each(|cell| cell.check().unwrap());
            assert!(cells.iter().all(|cell| cells.iter().filter(|other| *other == cell).count() == 1));
        }
        let quick = Preset::Quick.cells(&Workload { ramp_s: 0.5, ..Workload::default() }, None);
        assert!(quick.iter().filter_map(Workload::expected_s).sum::<f64>() < 20.0);
        assert_eq!(Preset::Ssd.cells(&Workload::default(), Some(5.0)).len(), 14);
    }
}
