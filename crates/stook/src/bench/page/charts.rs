//! The charts of a result of `bench`.

use std::collections::BTreeSet;

use super::super::model::block::BlockModel;
use super::super::model::depth::DepthModel;
use super::super::model::mix::MixModel;
use super::super::model::{Cell, Part, Swept};
use super::super::result::{BenchResult, CellResult, CompactHistogram, Figures, RunResult};
use super::super::workload::Workload;
use super::{cell_name, seconds};
use crate::report::chart::{
    Axis, Bar, Bars, Column, Columns, HeatField, HeatMap, Lines, Marker, Point, Series, TickFormat,
};
use crate::report::table::Tone;
use crate::report::units::{bytes_binary, count, rate, significant};

/// Buckets of a compact histogram that make one column: eight columns for each power of two.
const MERGED: u32 = 4;
/// More lines than this are told apart by nobody.
const LINES_MAX: usize = 6;
/// More bars than this are a table.
const BARS_MAX: usize = 24;

fn swept_cells(result: &BenchResult, cells: &[usize]) -> Vec<Cell> {
    cells.iter().filter_map(|&at| result.cells.get(at)).map(Cell::of).collect()
}

/// What counts as a line, and what failed a check as points that are joined to nothing.
fn both(cells: &[Cell], x: impl Fn(&Cell) -> f64, y: impl Fn(&Cell) -> f64) -> Vec<Series> {
    let of = |counts: bool| -> Vec<Point> {
        let cells = cells.iter().filter(|cell| cell.counts() == counts);
        let mut points: Vec<(f64, f64)> = cells.map(|cell| (x(cell), y(cell))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points.into_iter().map(|(x, y)| Point::new(x, y)).collect()
    };
    let series = [("Measured", of(true), false), ("Not valid", of(false), true)];
    let series = series.into_iter().filter(|(_, points, _)| !points.is_empty());
    series
        .map(|(name, points, is_scatter)| {
            let series = Series::new(name, points);
            if is_scatter { series.tone(Tone::Muted).scatter() } else { series.tone(Tone::Highlight) }
        })
        .collect()
}

fn block(cell: &Cell) -> f64 {
    cell.block_bytes as f64
}

fn depth(cell: &Cell) -> f64 {
    cell.depth as f64
}

fn blocks_axis(cells: &[Cell]) -> Axis {
    Axis::logarithmic("Block").format(TickFormat::BytesBinary).ticks(distinct(cells, |cell| cell.block_bytes))
}

fn depths_axis(cells: &[Cell]) -> Axis {
    Axis::logarithmic("In flight").ticks(distinct(cells, |cell| cell.depth))
}

fn distinct(cells: &[Cell], of: impl Fn(&Cell) -> u64) -> Vec<f64> {
    cells.iter().map(of).collect::<BTreeSet<u64>>().into_iter().map(|value| value as f64).collect()
}

fn latency_axis() -> Axis {
    Axis::logarithmic("Mean latency").format(TickFormat::DurationNs)
}

/// Latency against block size, the fitted line, t₀ and the block that reaches half of B.
pub(super) fn latency_block(result: &BenchResult, swept: &Swept<BlockModel>) -> Lines {
    let cells = swept_cells(result, &swept.cells);
    let mut series = both(&cells, block, |cell| cell.latency_mean_s * 1e9);
    let caption = "Mean latency against the size of blocks";
    let lines = |series| Lines::new(caption, blocks_axis(&cells), latency_axis(), series);
    let Some(model) = swept.fitted.model() else { return lines(series) };
    let ends = cells
        .iter()
        .map(block)
        .fold((f64::INFINITY, 0.0_f64), |(least, most), size| (least.min(size), most.max(size)));
    let sizes =
        std::iter::successors(Some(ends.0), |size| Some(size * 2.0)).take_while(|size| *size <= ends.1);
    let line = sizes.map(|size| Point::new(size, model.latency_s(size) * 1e9)).collect();
    series.push(Series::new("t₀ + block ÷ B", line).tone(Tone::Muted));
    let (fixed_s, half) = (model.fixed_cost_s.value, model.half_bandwidth_block_bytes.value);
    lines(series)
        .marker(Marker::y(fixed_s * 1e9, format!("t₀: {}", seconds(fixed_s))).named_right())
        .marker(Marker::x(half, format!("half of B: {}", bytes_binary(half.max(0.0) as u64))))
}

/// Bytes a second against block size, and where it would end.
pub(super) fn bandwidth_block(result: &BenchResult, swept: &Swept<BlockModel>) -> Lines {
    let cells = swept_cells(result, &swept.cells);
    let series = both(&cells, block, |cell| cell.bandwidth_bytes_per_s / 1e6);
    let caption = "Bandwidth against the size of blocks";
    let lines = Lines::new(caption, blocks_axis(&cells), Axis::linear("MB/s"), series);
    let Some(model) = swept.fitted.model() else { return lines };
    let most = model.bandwidth_bytes_per_s.value;
    lines.marker(Marker::y(most / 1e6, format!("B: {}", rate(most))))
}

/// Throughput against latency; each point is a depth, and N* is where the two limits meet.
pub(super) fn throughput_latency(result: &BenchResult, swept: &Swept<DepthModel>) -> Lines {
    let cells = swept_cells(result, &swept.cells);
    let labelled = |counts: bool| -> Vec<Point> {
        let cells = cells.iter().filter(|cell| cell.counts() == counts);
        let point = |cell: &Cell| Point::new(cell.latency_mean_s * 1e9, cell.rate_per_s.value);
        cells.map(|cell| point(cell).label(count(cell.depth))).collect()
    };
    let mut series = vec![Series::new("Measured", labelled(true)).tone(Tone::Highlight)];
    let invalid = labelled(false);
    if !invalid.is_empty() {
        series.push(Series::new("Not valid", invalid).tone(Tone::Muted).scatter());
    }
    let caption = "Throughput against latency; the numbers are requests in flight";
    let lines = Lines::new(caption, latency_axis(), Axis::linear("Requests/s"), series);
    let Some(model) = swept.fitted.model() else { return lines };
    let (alone_s, most) = (model.latency_alone_s.value, model.rate_max_per_s.value);
    let star = significant(model.depth_star.value);
    lines
        .marker(Marker::x(alone_s * 1e9, format!("N* = {star}: where the two limits meet")))
        .marker(Marker::y(most, format!("at most {} a second", significant(most))))
}

/// X·W ÷ N against depth: 1 where the law holds.
pub(super) fn little(result: &BenchResult, swept: &[usize]) -> Lines {
    let cells = swept_cells(result, swept);
    let points = cells.iter().map(|cell| Point::new(depth(cell), cell.little_ratio)).collect();
    let series = vec![Series::new("Measured", points).tone(Tone::Highlight)];
    let caption = "Throughput × mean latency ÷ requests in flight";
    Lines::new(caption, depths_axis(&cells), Axis::linear("X·W ÷ N"), series)
        .marker(Marker::y(1.0, "what the law says").named_right())
}

/// Requests a second against the mix, measured and predicted.
pub(super) fn mix(result: &BenchResult, swept: &Swept<MixModel>) -> Lines {
    let cells = swept_cells(result, &swept.cells);
    let writes = |cell: &Cell| 100.0 - f64::from(cell.read_share);
    let part = |of: fn(&Cell) -> Option<Part>| -> Vec<Point> {
        let known = cells.iter().filter(|cell| cell.counts());
        let mut points: Vec<(f64, f64)> =
            known.filter_map(|cell| Some((writes(cell), of(cell)?.rate_per_s))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points.into_iter().map(|(x, y)| Point::new(x, y)).collect()
    };
    let mut series = both(&cells, writes, |cell| cell.rate_per_s.value);
    series.push(Series::new("Reads", part(|cell| cell.read)));
    series.push(Series::new("Writes", part(|cell| cell.write)));
    if let Some(model) = swept.fitted.model() {
        let predicted = model.predictions.iter();
        let predicted: Vec<Point> = predicted
            .map(|cell| Point::new(100.0 * (1.0 - cell.read_share), cell.predicted_per_s.value))
            .collect();
        series.push(Series::new("Predicted by reads and writes alone", predicted).tone(Tone::Muted));
    }
    let caption = "Requests a second against the mix";
    Lines::new(caption, Axis::linear("Writes of a hundred requests"), Axis::linear("Requests/s"), series)
}

/// Bandwidth for every block and depth, of the first group of cells that has both.
pub(super) fn block_depth(result: &BenchResult) -> Option<HeatMap> {
    let rest = |workload: &Workload| Workload { block_size: 0, depth: 0, ..workload.clone() };
    let of_group = |first: &CellResult| -> Vec<&CellResult> {
        let alike =
            |cell: &&CellResult| !cell.runs.is_empty() && rest(&cell.workload) == rest(&first.workload);
        result.cells.iter().filter(alike).collect()
    };
    let group = result.cells.iter().map(of_group).find(|group| {
        let values = |of: fn(&Workload) -> u64| {
            group.iter().map(|cell| of(&cell.workload)).collect::<BTreeSet<u64>>().len()
        };
        values(|cell| cell.block_size) > 1 && values(|cell| u64::from(cell.depth)) > 1
    })?;
    let blocks: BTreeSet<u64> = group.iter().map(|cell| cell.workload.block_size).collect();
    let depths: BTreeSet<u32> = group.iter().map(|cell| cell.workload.depth).collect();
    let row = |block: u64| -> Vec<HeatField> {
        let at = |depth: &u32| {
            let is_it =
                |cell: &&&CellResult| cell.workload.block_size == block && cell.workload.depth == *depth;
            group.iter().find(is_it).map_or_else(|| HeatField::empty("not measured"), |cell| field(cell))
        };
        depths.iter().map(at).collect()
    };
    let rows = blocks.iter().map(|&block| row(block)).collect();
    let names = |values: Vec<String>| values;
    let caption = format!("Bandwidth of {} for every block and depth", group.first()?.workload.rw());
    Some(HeatMap::new(
        caption,
        "MB/s",
        ("Depth", names(depths.iter().map(ToString::to_string).collect())),
        ("Block", names(blocks.iter().map(|&block| bytes_binary(block)).collect())),
        rows,
    ))
}

fn field(cell: &CellResult) -> HeatField {
    let reasons = cell.reasons.join("; ");
    let detail = format!("{} requests a second; {}", significant(cell.total.iops), cell.state);
    let shown = HeatField::new(cell.total.bandwidth_bytes_per_s / 1e6).detail(detail);
    if cell.state.is_invalid() { shown.doubt(reasons) } else { shown }
}

/// Requests a second of every cell, where they are few enough.
pub(super) fn rates(result: &BenchResult) -> Option<Bars> {
    let cells: Vec<&CellResult> = result.cells.iter().filter(|cell| !cell.runs.is_empty()).collect();
    if !(2..=BARS_MAX).contains(&cells.len()) {
        return None;
    }
    let bar = |cell: &&CellResult| {
        let bar = Bar::new(cell_name(&cell.workload), cell.total.bandwidth_bytes_per_s / 1e6);
        let detail = format!("{} requests a second", count(cell.total.iops.round() as u64));
        match cell.state.is_valid() {
            true => bar.detail(detail),
            false => bar.detail(format!("{detail}; {}", cell.state)).tone(Tone::Muted),
        }
    };
    Some(Bars::new("Bandwidth of every cell", "MB/s", cells.iter().map(bar).collect()))
}

/// The latencies that shares of the requests keep to, ns, over one of how many takes longer.
pub fn shares(figures: &Figures) -> Vec<Point> {
    let known = [
        (2.0, figures.latency_p50_ns),
        (10.0, figures.latency_p90_ns),
        (100.0, figures.latency_p99_ns),
        (1000.0, figures.latency_p999_ns),
    ];
    let all = figures.count as f64;
    let within = known.into_iter().filter(|(one_of, _)| *one_of < all);
    let longest = (all.max(1.0), figures.latency_max_ns);
    within.chain([longest]).filter_map(|(one_of, ns)| Some(Point::new(one_of, ns? as f64))).collect()
}

fn percentile_lines(caption: &str, series: Vec<Series>) -> Lines {
    let x = Axis::logarithmic("Share of requests that took no longer").format(TickFormat::Percentile);
    let y = Axis::logarithmic("Latency").format(TickFormat::DurationNs);
    Lines::new(caption, x.ticks([2.0, 10.0, 100.0, 1e3, 1e4, 1e5]), y, series)
}

/// How slow the slowest are, of the first cells.
pub(super) fn percentiles(cells: &[&CellResult]) -> Lines {
    let series = cells.iter().take(LINES_MAX).enumerate().map(|(at, cell)| {
        let series = Series::new(cell_name(&cell.workload), shares(&cell.total));
        if at == 0 { series.tone(Tone::Highlight) } else { series }
    });
    let all = if cells.len() > LINES_MAX { format!("; the first {LINES_MAX} cells") } else { String::new() };
    let caption = format!("Latency that a share of the requests kept to; the last is the longest{all}");
    percentile_lines(&caption, series.collect())
}

/// The same of two cells side by side.
pub(super) fn percentiles_of_two(caption: &str, cells: [(&str, &CellResult); 2]) -> Lines {
    let series = cells.into_iter().zip([Tone::Plain, Tone::Highlight]);
    let series = series.map(|((name, cell), tone)| Series::new(name, shares(&cell.total)).tone(tone));
    percentile_lines(caption, series.collect())
}

/// How latencies of a cell are spread.
pub(super) fn histogram(cell: &CellResult) -> Columns {
    let x = Axis::logarithmic("Latency").format(TickFormat::DurationNs);
    let caption =
        format!("How many took how long, {}; equal areas are equally many", cell_name(&cell.workload));
    let y = Axis::linear("%, in each tenth of latency");
    let chart = Columns::new(caption, x, y, columns(&cell.total.histogram));
    match cell.total.latency_mean_ns {
        Some(mean) => chart.marker(Marker::x(mean, format!("mean: {}", seconds(mean / 1e9)))),
        None => chart,
    }
}

/// Columns of equal density for a histogram: equal areas are equally many.
pub fn columns(histogram: &CompactHistogram) -> Vec<Column> {
    let all: u64 = histogram.count.iter().sum();
    let mut columns: Vec<Column> = Vec::new();
    for (&upper, &found) in histogram.upper_ns.iter().zip(&histogram.count) {
        let width_log2 = (upper | 1).ilog2().saturating_sub(5) + MERGED.ilog2();
        let from = (upper >> width_log2 << width_log2) as f64;
        let to = from + (1_u64 << width_log2) as f64;
        // Columns are of different widths: equal density has equal height, however it is divided.
        let tenths = (to / from.max(1.0)).ln() / 1.1_f64.ln();
        let value = found as f64 * 100.0 / all.max(1) as f64 / tenths;
        match columns.last_mut() {
            Some(last) if last.from == from => last.value += value,
            _ => columns.push(Column { from, to, value }),
        }
    }
    columns
}

/// A cell over time.
pub(super) fn time_line(cell: &CellResult) -> Lines {
    let series = cell.runs.iter().take(LINES_MAX).map(|run| {
        let mark = if run.state.is_valid() { String::new() } else { format!(", {}", run.state) };
        Series::new(format!("Round {}{mark}", run.round + 1), over_time(run))
    });
    let caption = format!("Requests completed in each second, {}", cell_name(&cell.workload));
    Lines::new(caption, Axis::linear("Seconds since the ramp"), Axis::linear("Requests/s"), series.collect())
}

/// Requests a second of a run over time: one point for each second; the rest at the end is a second
/// only if it is most of one, or there is no other.
pub fn over_time(run: &RunResult) -> Vec<Point> {
    let lengths = (0..run.series.len()).map(|start| (run.seconds - start as f64).min(1.0));
    let seconds = run.series.iter().zip(lengths).enumerate();
    seconds
        .filter(|(start, (_, length))| *length > 0.5 || (*start == 0 && *length > 0.0))
        .map(|(start, (second, length))| {
            Point::new(start as f64 + length, (second.reads + second.writes) as f64 / length)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hold_all_that_a_histogram_holds() {
        let (upper_ns, count) = (vec![1023, 1055, 1119, 2047, 4159], vec![1, 2, 3, 1, 1]);
        let found = columns(&CompactHistogram { upper_ns, count });
        let ranges: Vec<_> = found.iter().map(|column| (column.from, column.to)).collect();
        assert_eq!(ranges, [(960.0, 1024.0), (1024.0, 1152.0), (1920.0, 2048.0), (4096.0, 4608.0)]);
        let shares = found.iter().map(|column| column.value * (column.to / column.from).ln() / 1.1_f64.ln());
        for (share, expected) in shares.zip([12.5, 62.5, 12.5, 12.5]) {
            assert!((share - expected).abs() < 1e-9, "{share} instead of {expected}");
        }
    }
}
