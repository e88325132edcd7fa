//! What follows from the cells of a survey.

use super::super::gates::State;
use super::super::model::block::{BlockCell, BlockModel};
use super::super::model::depth::{DepthCell, DepthModel};
use super::super::model::mix::{MixCell, MixModel};
use super::super::model::{CONFIDENCE, Cell};
use crate::profile::Measured;
use crate::profile::survey::{
    BlockLine, BlockPoint, DepthCurve, DepthPoint, Figure, LongPoint, LongReads, Mix, MixPoint, ReadersPoint,
    SmallFiles, Survey, Validity,
};
use crate::report::least_squares::Estimate;
use crate::report::stats::Interval;

/// Which share of the most is as good as the most.
const ENOUGH: f64 = 0.95;

/// Cells by what they are for. A cell may be in several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SurveyCells {
    /// Reads that have the device for themselves, by length.
    pub blocks: Vec<Cell>,
    /// Short reads, by depth.
    pub depths: Vec<Cell>,
    /// Long reads, many in flight, by length.
    pub long: Vec<Cell>,
    /// Mixes, and both pure cells.
    pub mixes: Vec<Cell>,
}

/// What follows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SurveyFit {
    /// What others take their defaults from.
    pub measured: Measured,
    /// The evidence.
    pub survey: Survey,
}

/// Fits the cells. What does not fit is left out, with the reason in the notes.
pub fn fit(cells: &SurveyCells, p99_target_s: f64) -> SurveyFit {
    let mut found = SurveyFit::default();
    found.block(&complete(&cells.blocks));
    found.depth(&complete(&cells.depths), p99_target_s);
    found.long(&complete(&cells.long));
    found.mix(&complete(&cells.mixes));
    found
}

/// Cells in which anything was completed: others have no rate and no latency.
fn complete(cells: &[Cell]) -> Vec<Cell> {
    let is_complete = |cell: &&Cell| {
        let figures = [cell.rate_per_s.value, cell.latency_mean_s, cell.bandwidth_bytes_per_s];
        figures.iter().all(|figure| figure.is_finite() && *figure > 0.0)
    };
    cells.iter().filter(is_complete).cloned().collect()
}

/// The least number of readers that gives 95% of the most files a second.
pub fn readers_needed(points: &[ReadersPoint]) -> Option<u64> {
    let most = points.iter().map(|point| point.files_per_s.value).fold(0.0, f64::max);
    let enough = points.iter().filter(|point| point.files_per_s.value >= ENOUGH * most);
    enough.map(|point| point.readers).min().filter(|_| most > 0.0)
}

impl SurveyFit {
    /// Adds what small files showed.
    pub fn add_files(&mut self, mut files: SmallFiles) {
        self.measured.opens = readers_needed(&files.readers).map(|readers| readers as usize);
        let alone = files.readers.iter().find(|point| point.readers == 1).map(|point| point.files_per_s);
        if let (Some(per_s), Some(read_s)) = (alone, self.short_read_s(files.file_bytes)) {
            files.open_s = Some(beside_a_read(per_s, read_s));
        }
        self.measured.open_ns =
            files.open_s.filter(|open| open.value > 0.0).map(|open| (open.value * 1e9) as u64);
        self.survey.small_files = Some(files);
    }

    fn short_read_s(&self, bytes: u64) -> Option<f64> {
        let line = self.survey.block.as_ref()?;
        Some(line.fixed_s.value + bytes as f64 / line.bandwidth_bytes_per_s.value)
    }

    fn refused(&mut self, what: &str, why: impl std::fmt::Display) {
        self.survey.notes.push(format!("{what}: {why}"));
    }

    fn block(&mut self, cells: &[Cell]) {
        let shortest = cells.iter().filter(|cell| cell.counts()).min_by_key(|cell| cell.block_bytes);
        self.measured.request_ns = shortest.map(|cell| (cell.latency_mean_s * 1e9) as u64);
        let fitted = BlockModel::fit(&cells.iter().map(BlockCell::from).collect::<Vec<_>>());
        let model = match fitted {
            Ok(model) => model,
            Err(why) => return self.refused("length of reads", why),
        };
        let state = worst(cells);
        self.survey.block = Some(BlockLine {
            fixed_s: Figure::of(model.fixed_cost_s, state),
            bandwidth_bytes_per_s: Figure::of(model.bandwidth_bytes_per_s, state),
            residual_max: model.residual_max,
            cells: cells.iter().map(block_point).collect(),
        });
    }

    fn depth(&mut self, cells: &[Cell], p99_target_s: f64) {
        let points: Vec<DepthCell> = cells.iter().map(DepthCell::from).collect();
        let model = match DepthModel::fit(&points, Some(p99_target_s)) {
            Ok(model) => model,
            Err(why) => return self.refused("depth", why),
        };
        let answers = model.answers;
        self.measured.depth = answers.balanced.map(|answer| answer.depth as usize);
        self.measured.random_reads_per_s = Some(model.rate_max_per_s.value);
        self.survey.depth = Some(DepthCurve {
            latency: answers.latency.depth,
            balanced: answers.balanced.map(|answer| answer.depth),
            service_level: answers.service_level.map(|answer| answer.depth),
            p99_target_s,
            rate_max_per_s: Figure::of(model.rate_max_per_s, worst(cells)),
            cells: cells.iter().map(depth_point).collect(),
        });
    }

    fn long(&mut self, cells: &[Cell]) {
        let counted: Vec<&Cell> = cells.iter().filter(|cell| cell.counts()).collect();
        let Some(depth) = counted.first().map(|cell| cell.depth) else {
            return self.refused("long reads", "no cell counts");
        };
        let most = counted.iter().map(|cell| cell.bandwidth_bytes_per_s).fold(0.0, f64::max);
        let enough = counted.iter().filter(|cell| cell.bandwidth_bytes_per_s >= ENOUGH * most);
        self.measured.block_bytes = enough.map(|cell| cell.block_bytes).min();
        self.measured.sequential_bytes_per_s = (most > 0.0).then_some(most);
        let cells = cells.iter().map(|cell| LongPoint {
            block_bytes: cell.block_bytes,
            bandwidth_bytes_per_s: Figure::of(bandwidth(cell), validity(cell.state)),
        });
        self.survey.long_reads = Some(LongReads { depth, cells: cells.collect() });
    }

    fn mix(&mut self, cells: &[Cell]) {
        let points: Vec<MixCell> = cells.iter().map(MixCell::from).collect();
        match MixModel::fit(&points) {
            Ok(model) => {
                let cells = cells.iter().zip(&points).map(|(cell, point)| MixPoint {
                    read_share: point.read_share,
                    rate_per_s: Figure::of(cell.rate_per_s, validity(cell.state)),
                });
                self.survey.mix = Some(Mix { interference: model.interference, cells: cells.collect() });
            }
            Err(why) => self.refused("reads and writes at once", why),
        }
    }
}

/// What one file takes beside one read of as many bytes.
fn beside_a_read(files_per_s: Figure, read_s: f64) -> Figure {
    let beside = |per_s: f64| (1.0 / per_s - read_s).max(0.0);
    Figure {
        value: beside(files_per_s.value),
        low: files_per_s.high.map(beside),
        high: files_per_s.low.filter(|low| *low > 0.0).map(beside),
        ..files_per_s
    }
}

/// The bandwidth of a cell, with the interval of its rate.
fn bandwidth(cell: &Cell) -> Estimate {
    let scale = cell.bandwidth_bytes_per_s / cell.rate_per_s.value;
    let Interval { low, high, confidence } = cell.rate_per_s.interval;
    let interval = Interval { low: low * scale, high: high * scale, confidence };
    Estimate { value: cell.bandwidth_bytes_per_s, interval }
}

fn validity(state: State) -> Validity {
    match state {
        State::Valid => Validity::Valid,
        State::Unverified => Validity::Unverified,
        State::Invalid => Validity::Invalid,
    }
}

/// That of the cells that a fit uses.
fn worst(cells: &[Cell]) -> Validity {
    let is_doubted = cells.iter().filter(|cell| cell.counts()).any(|cell| !cell.state.is_valid());
    if is_doubted { Validity::Unverified } else { Validity::Valid }
}

fn block_point(cell: &Cell) -> BlockPoint {
    let Cell { block_bytes, latency_mean_s, state, .. } = *cell;
    BlockPoint { block_bytes, latency_mean_s, state: validity(state) }
}

fn depth_point(cell: &Cell) -> DepthPoint {
    let Cell { depth, latency_mean_s, latency_p99_s, rate_per_s, state, .. } = *cell;
    DepthPoint { depth, rate_per_s: Figure::of(rate_per_s, validity(state)), latency_mean_s, latency_p99_s }
}

/// Rates of several rounds, as a figure: their median, with its interval.
pub(super) fn of_rounds(values: &[f64], state: Validity) -> Option<Figure> {
    use crate::report::stats::{median, median_interval};
    let value = median(values).ok()?;
    let interval = median_interval(values, CONFIDENCE).ok()?;
    Some(Figure::of(Estimate { value, interval }, state))
}
