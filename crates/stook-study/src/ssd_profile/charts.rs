//! The charts of the findings.

use stook::bench::BenchResult;
use stook::bench::gates::State;
use stook::bench::page::charts::{columns, over_time, shares};
use stook::report::chart::{Axis, Columns, HeatField, HeatMap, Lines, Marker, Point, Series, TickFormat};
use stook::report::table::Tone;
use stook::report::units::{bytes_binary, count, rate, significant};

use super::Findings;
use super::cells::{Cell, Part, Profile, whole};
use super::plan::{MAP_BLOCKS, MAP_DEPTHS};
use super::summary::{Field, size};
use super::verdict::plain;
use crate::text::duration_s;

/// The identifiers of all charts, in the order of the page.
pub const CHARTS: [&str; 18] = [
    "latency-block",
    "iops-block",
    "bandwidth-block",
    "throughput-latency",
    "latency-depth",
    "iops-depth",
    "bandwidth-depth",
    "block-depth",
    "little",
    "iops-mix",
    "latency-mix",
    "bandwidth-mix",
    "normalised-mix",
    "simulated-disk",
    "mix-predicted",
    "percentiles",
    "histogram",
    "time-line",
];

/// Of the long runs, which are drawn where they were asked for.
pub const LONG_RUN: &str = "long-run";

type Pick = fn(&Part) -> f64;

fn rate_of(part: &Part) -> f64 {
    part.rate_per_s
}

fn megabytes(part: &Part) -> f64 {
    part.bandwidth_bytes_per_s / 1e6
}

fn latency_ns(part: &Part) -> f64 {
    part.latency_mean_s * 1e9
}

/// The points that are drawn as measured: cells that count. The line is broken where one does not.
fn points(cells: &[Cell], x: fn(&Cell) -> f64, y: impl Fn(&Cell) -> Option<f64>) -> Vec<Point> {
    let point = |cell: &Cell| match cell.counts() {
        true => Some(Point::new(x(cell), y(cell)?)),
        false => Some(Point::gap()),
    };
    cells.iter().filter_map(point).collect()
}

fn block(cell: &Cell) -> f64 {
    cell.block_bytes as f64
}

fn depth(cell: &Cell) -> f64 {
    cell.depth as f64
}

fn writes_share(cell: &Cell) -> f64 {
    100.0 - f64::from(cell.read_share)
}

fn blocks_axis(findings: &Findings) -> Axis {
    Axis::logarithmic("Block")
        .format(TickFormat::BytesBinary)
        .ticks(findings.published.blocks.iter().map(block))
}

fn depths_axis(findings: &Findings) -> Axis {
    Axis::logarithmic("Depth").ticks(findings.published.depths.iter().map(depth))
}

fn latency_axis() -> Axis {
    Axis::logarithmic("Mean latency").format(TickFormat::DurationNs)
}

/// The names of the series of ours.
const RANDOM: &str = "Here, at random";
const ORDERED: &str = "Here, in order";
/// Of products and sums, which the document does not print.
const OF_PUBLISHED: &str = "Published, computed";
/// What failed a check, of each.
const RANDOM_INVALID: &str = "At random, not valid";
const ORDERED_INVALID: &str = "In order, not valid";

/// Ours and the published figures over the same measure.
fn both(findings: &Findings, list: fn(&Profile) -> &[Cell], x: fn(&Cell) -> f64, y: Pick) -> Vec<Series> {
    let all = |profile| points(list(profile), x, |cell| Some(y(&whole(cell))));
    let mut series = vec![
        Series::new(RANDOM, all(&findings.profile)).tone(Tone::Highlight),
        Series::new(ORDERED, all(&findings.sequential)),
        Series::new("Published", all(&findings.published)),
    ];
    for (name, profile) in [(RANDOM_INVALID, &findings.profile), (ORDERED_INVALID, &findings.sequential)] {
        let invalid = list(profile).iter().filter(|cell| !cell.counts());
        series.extend(not_valid(name, invalid.map(|cell| Point::new(x(cell), y(&whole(cell)))).collect()));
    }
    series
}

/// What failed a check is seen, and joined to nothing.
fn not_valid(name: &str, points: Vec<Point>) -> Option<Series> {
    let series = |points| Series::new(name, points).tone(Tone::Muted).scatter();
    (!points.is_empty()).then(|| series(points))
}

fn blocks(profile: &Profile) -> &[Cell] {
    &profile.blocks
}

fn depths(profile: &Profile) -> &[Cell] {
    &profile.depths
}

/// Latency against block size, the fitted line, t₀ and the block that reaches half of B.
pub(super) fn latency_block(findings: &Findings) -> Lines {
    let mut series = both(findings, blocks, block, latency_ns);
    let caption = "Mean latency of a read against the size of its block, one at a time";
    let Some(model) = findings.fits.block.model() else {
        return Lines::new(caption, blocks_axis(findings), latency_axis(), series).id("latency-block");
    };
    let (least, most) = ends(findings.profile.blocks.iter().map(block));
    let sizes = std::iter::successors(Some(least), |size| Some(size * 2.0)).take_while(|size| *size <= most);
    let line = sizes.map(|size| Point::new(size, model.latency_s(size) * 1e9)).collect();
    series.push(Series::new("t₀ + block ÷ B", line).tone(Tone::Muted));
    let (fixed_s, half) = (model.fixed_cost_s.value, model.half_bandwidth_block_bytes.value);
    Lines::new(caption, blocks_axis(findings), latency_axis(), series)
        .id("latency-block")
        .marker(Marker::y(fixed_s * 1e9, format!("t₀: {}", duration_s(fixed_s))).named_right())
        .marker(Marker::x(half, format!("half of B: {}", bytes_binary(half as u64))))
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(least, most), value| (least.min(value), most.max(value)))
}

/// Requests per second against block size.
pub(super) fn iops_block(findings: &Findings) -> Lines {
    let series = both(findings, blocks, block, rate_of);
    let caption = "Reads per second against the size of the block, one at a time";
    Lines::new(caption, blocks_axis(findings), Axis::logarithmic("IOPS"), series).id("iops-block")
}

/// Bytes per second against block size, and where it would end.
pub(super) fn bandwidth_block(findings: &Findings) -> Lines {
    let series = both(findings, blocks, block, megabytes);
    let caption = "Bandwidth against the size of the block, one at a time";
    let chart =
        Lines::new(caption, blocks_axis(findings), Axis::linear("MB/s"), series).id("bandwidth-block");
    let Some(model) = findings.fits.block.model() else { return chart };
    let (most, half) = (model.bandwidth_bytes_per_s.value, model.half_bandwidth_block_bytes.value);
    chart
        .marker(Marker::y(most / 1e6, format!("B: {}", rate(most))))
        .marker(Marker::x(half, format!("half of B: {}", bytes_binary(half as u64))))
}

/// Throughput against latency; each point is a depth, and N* is where the two limits meet.
pub(super) fn throughput_latency(findings: &Findings) -> Lines {
    let labelled = |profile: &Profile, counts: bool| -> Vec<Point> {
        let point = |cell: &Cell| {
            let point = || Point::new(cell.latency_mean_s * 1e9, cell.rate_per_s.value);
            match cell.counts() == counts {
                true => Some(point().label(count(cell.depth))),
                false => counts.then(Point::gap),
            }
        };
        profile.depths.iter().filter_map(point).collect()
    };
    let mut series = vec![
        Series::new(RANDOM, labelled(&findings.profile, true)).tone(Tone::Highlight),
        Series::new(ORDERED, labelled(&findings.sequential, true)),
        Series::new("Published", labelled(&findings.published, true)),
    ];
    series.extend(not_valid(RANDOM_INVALID, labelled(&findings.profile, false)));
    series.extend(not_valid(ORDERED_INVALID, labelled(&findings.sequential, false)));
    let caption = "Throughput against latency, reads of 16 KiB; the numbers are depths";
    let chart = Lines::new(caption, latency_axis(), Axis::linear("Reads per second"), series)
        .id("throughput-latency");
    let Some(model) = findings.fits.depth.model() else { return chart };
    let (alone_s, most) = (model.latency_alone_s.value, model.rate_max_per_s.value);
    let star = plain(model.depth_star.value);
    chart
        .marker(Marker::x(alone_s * 1e9, format!("N* = {star}: where the two limits meet")))
        .marker(Marker::y(most, format!("most: {} per second", significant(most))))
}

/// Latency against depth.
pub(super) fn latency_depth(findings: &Findings) -> Lines {
    let series = both(findings, depths, depth, latency_ns);
    let caption = "Mean latency against depth, reads of 16 KiB";
    Lines::new(caption, depths_axis(findings), latency_axis(), series).id("latency-depth")
}

/// Requests per second against depth, and the bound.
pub(super) fn iops_depth(findings: &Findings) -> Lines {
    let mut series = both(findings, depths, depth, rate_of);
    let caption = "Reads per second against depth, reads of 16 KiB";
    let chart =
        |series| Lines::new(caption, depths_axis(findings), Axis::linear("IOPS"), series).id("iops-depth");
    let Some(model) = findings.fits.depth.model() else { return chart(series) };
    let star = model.depth_star.value;
    let (most, alone_s) = (model.rate_max_per_s.value, model.latency_alone_s.value);
    let (_, deepest) = ends(findings.profile.depths.iter().map(depth));
    let rising = std::iter::successors(Some(1.0), |depth| Some(depth * 2.0))
        .take_while(|depth| *depth < star.min(deepest));
    let bound = rising.chain([star.min(deepest), deepest]).filter(|depth| *depth >= 1.0);
    let bound = bound.map(|depth| Point::new(depth, (depth / alone_s).min(most))).collect();
    series.push(Series::new("At most", bound).tone(Tone::Muted));
    chart(series).marker(Marker::x(star, format!("N* = {}", plain(star))))
}

/// Bytes per second against depth.
pub(super) fn bandwidth_depth(findings: &Findings) -> Lines {
    let series = both(findings, depths, depth, megabytes);
    let caption = "Bandwidth against depth, reads of 16 KiB";
    Lines::new(caption, depths_axis(findings), Axis::linear("MB/s"), series).id("bandwidth-depth")
}

/// Bandwidth of random reads, block against depth.
pub(super) fn block_depth(findings: &Findings) -> HeatMap {
    let row =
        |block: u64| findings.map.iter().filter(move |field| field.block_bytes == block).map(field).collect();
    let depths = MAP_DEPTHS.map(|depth| depth.to_string()).to_vec();
    let blocks = MAP_BLOCKS.map(size).to_vec();
    let rows = MAP_BLOCKS.map(row).to_vec();
    let caption = "Bandwidth of random reads for every block and depth";
    HeatMap::new(caption, "MB/s", ("Depth", depths), ("Block", blocks), rows).id("block-depth")
}

fn field(field: &Field) -> HeatField {
    let Some(cell) = &field.cell else {
        return HeatField::empty(field.left_out.clone().unwrap_or_default());
    };
    let p99 = cell.latency_p99_s.map_or_else(String::new, |p99| format!(", 99% within {}", duration_s(p99)));
    let reasons = cell.reasons.join("; ");
    let unverified = match cell.state {
        State::Unverified => format!("; unverified: {reasons}"),
        _ => String::new(),
    };
    let detail = format!(
        "{} IOPS, mean latency {}{p99}{unverified}",
        significant(cell.rate_per_s.value),
        duration_s(cell.latency_mean_s)
    );
    let shown = HeatField::new(cell.bandwidth_bytes_per_s / 1e6).detail(detail);
    if cell.counts() { shown } else { shown.doubt(reasons) }
}

/// X·W ÷ N against depth. All cells: they are valid only if the law is satisfied.
pub(super) fn little(findings: &Findings) -> Lines {
    let products = |profile: &Profile| {
        profile.depths.iter().map(|cell| Point::new(depth(cell), cell.little_ratio)).collect()
    };
    let series = vec![
        Series::new(RANDOM, products(&findings.profile)).tone(Tone::Highlight),
        Series::new(ORDERED, products(&findings.sequential)),
        Series::new(OF_PUBLISHED, products(&findings.published)),
    ];
    let caption = "Throughput × mean latency ÷ depth, against depth: by Little's law it is 1";
    Lines::new(caption, depths_axis(findings), Axis::linear("X·W ÷ N"), series)
        .id("little")
        .marker(Marker::y(1.0, "what the law says").named_right())
}

/// Reads and writes apart, ours in order and the published.
fn parts(findings: &Findings, y: Pick) -> Vec<Series> {
    let part = |profile: &Profile, pick: fn(&Cell) -> Option<Part>| {
        points(&profile.mixes, writes_share, |cell| Some(y(&pick(cell)?)))
    };
    let (reads, writes) = (|cell: &Cell| cell.read, |cell: &Cell| cell.write);
    vec![
        Series::new("Reads, in order", part(&findings.sequential, reads)).tone(Tone::Highlight),
        Series::new("Writes, in order", part(&findings.sequential, writes)),
        Series::new("Reads, published", part(&findings.published, reads)),
        Series::new("Writes, published", part(&findings.published, writes)),
    ]
    .into_iter()
    .chain(not_valid(
        ORDERED_INVALID,
        invalid_mixes(&findings.sequential, |cell| {
            [cell.read, cell.write].into_iter().flatten().map(|part| y(&part)).collect()
        }),
    ))
    .collect()
}

fn invalid_mixes(profile: &Profile, y: impl Fn(&Cell) -> Vec<f64>) -> Vec<Point> {
    let invalid = profile.mixes.iter().filter(|cell| !cell.counts());
    invalid.flat_map(|cell| y(cell).into_iter().map(|y| Point::new(writes_share(cell), y))).collect()
}

fn writes_axis() -> Axis {
    Axis::linear("Writes of a hundred requests").ticks([0.0, 30.0, 50.0, 70.0, 100.0])
}

/// Requests per second against the mix.
pub(super) fn iops_mix(findings: &Findings) -> Lines {
    let caption = "Reads and writes per second against the mix, 16 KiB, one at a time";
    Lines::new(caption, writes_axis(), Axis::linear("IOPS"), parts(findings, rate_of)).id("iops-mix")
}

/// Latency against the mix.
pub(super) fn latency_mix(findings: &Findings) -> Lines {
    let axis = Axis::linear("Mean latency").format(TickFormat::DurationNs);
    let caption = "Mean latency of reads and of writes against the mix";
    Lines::new(caption, writes_axis(), axis, parts(findings, latency_ns)).id("latency-mix")
}

/// Bytes per second against the mix.
pub(super) fn bandwidth_mix(findings: &Findings) -> Lines {
    let caption = "Bandwidth of reads and of writes against the mix";
    Lines::new(caption, writes_axis(), Axis::linear("MB/s"), parts(findings, megabytes)).id("bandwidth-mix")
}

/// Requests per second of reads and of writes, each ÷ its share of the mix.
pub(super) fn normalised_mix(findings: &Findings) -> Lines {
    let reads = |profile: &Profile| {
        points(&profile.mixes, writes_share, |cell| Some(normalised(cell.read?, cell.read_share)))
    };
    let writes = |profile: &Profile| {
        points(&profile.mixes, writes_share, |cell| Some(normalised(cell.write?, 100 - cell.read_share)))
    };
    let series = vec![
        Series::new("Reads, in order", reads(&findings.sequential)).tone(Tone::Highlight),
        Series::new("Writes, in order", writes(&findings.sequential)),
        Series::new("Reads, published", reads(&findings.published)),
        Series::new("Writes, published", writes(&findings.published)),
    ];
    let caption = "Reads and writes per second, each ÷ its share of the mix";
    Lines::new(caption, writes_axis(), Axis::linear("IOPS ÷ share"), series).id("normalised-mix")
}

/// A rate ÷ the share of its requests, in per cent.
pub(super) fn normalised(part: Part, share: u8) -> f64 {
    part.rate_per_s * 100.0 / f64::from(share)
}

/// Latency against block size on the simulated disk, and the line through it.
pub(super) fn simulated_disk(findings: &Findings) -> Lines {
    let reads = &findings.simulated;
    let point = |block: u64, seconds: f64| Point::new(block as f64, seconds * 1e9);
    let random = reads.iter().map(|read| point(read.block_bytes, read.latency_mean_s));
    let ordered = reads.iter().map(|read| point(read.block_bytes, read.ordered_latency_mean_s));
    let series = vec![
        Series::new("Simulated, at random", random.collect()).tone(Tone::Highlight),
        Series::new("Simulated, in order", ordered.collect()),
    ];
    let axis = Axis::linear("Mean latency").format(TickFormat::DurationNs);
    let caption = "Mean latency of a read on a simulated hard disk, which is no measurement";
    Lines::new(caption, blocks_axis(findings), axis, series).id("simulated-disk")
}

/// Bytes per second over the time of the long runs.
pub(super) fn long_run(findings: &Findings) -> Lines {
    let series = findings.long_runs.iter().map(|run| {
        let rates = run.run.rates_bytes_per_s.iter().enumerate();
        let points = rates.map(|(at, rate)| Point::new((at + 1) as f64 * run.run.window_s, rate / 1e6));
        Series::new(run.name(), points.collect())
    });
    let caption = "Bandwidth of reads and of writes of 1 MiB in order, eight at once, second by second";
    Lines::new(caption, Axis::linear("Seconds"), Axis::linear("MB/s"), series.collect()).id(LONG_RUN)
}

/// All requests per second against the mix, measured and predicted.
pub(super) fn mix_predicted(findings: &Findings) -> Lines {
    let measured =
        |profile: &Profile| points(&profile.mixes, writes_share, |cell| Some(rate_of(&whole(cell))));
    let predicted = |fits: &super::fits::Fits, profile: &Profile| -> Vec<Point> {
        let ends = |share| {
            let pure = profile.mixes.iter().filter(move |cell| cell.counts() && cell.read_share == share);
            pure.map(|cell| Point::new(writes_share(cell), cell.rate_per_s.value))
        };
        let inner = fits.mix.model().map(|model| model.predictions.clone()).unwrap_or_default();
        let inner = inner
            .into_iter()
            .map(|cell| Point::new(100.0 * (1.0 - cell.read_share), cell.predicted_per_s.value));
        ends(100).chain(inner).chain(ends(0)).collect()
    };
    let mut series = vec![
        Series::new(RANDOM, measured(&findings.profile)).tone(Tone::Highlight),
        Series::new(ORDERED, measured(&findings.sequential)),
        Series::new(OF_PUBLISHED, measured(&findings.published)),
    ];
    // One point is no line.
    let predicted = predicted(&findings.fits, &findings.profile);
    series.extend((predicted.len() > 1).then(|| Series::new("Predicted", predicted).tone(Tone::Muted)));
    for (name, profile) in [(RANDOM_INVALID, &findings.profile), (ORDERED_INVALID, &findings.sequential)] {
        series.extend(not_valid(name, invalid_mixes(profile, |cell| vec![rate_of(&whole(cell))])));
    }
    let caption = "All requests per second against the mix, and what reads alone and writes alone predict";
    Lines::new(caption, writes_axis(), Axis::linear("IOPS"), series).id("mix-predicted")
}

/// How slow the slowest are, in the base cell.
pub(super) fn percentiles(result: &BenchResult) -> Lines {
    let points = Profile::base(result).map_or_else(Vec::new, |cell| shares(&cell.total));
    let x = Axis::logarithmic("Share of reads that took no longer").format(TickFormat::Percentile);
    let series = vec![Series::new("Reads", points).tone(Tone::Highlight)];
    let caption = "Latency that a share of all reads kept to; the last is the slowest";
    let y = Axis::logarithmic("Latency").format(TickFormat::DurationNs);
    Lines::new(caption, x.ticks([2.0, 10.0, 100.0, 1e3, 1e4, 1e5]), y, series).id("percentiles")
}

/// How latencies are spread, in the base cell.
pub(super) fn histogram(result: &BenchResult) -> Columns {
    let base = Profile::base(result);
    let columns = base.map(|cell| columns(&cell.total.histogram)).unwrap_or_default();
    let x = Axis::logarithmic("Latency").format(TickFormat::DurationNs);
    let caption = "How many of all reads took how long; equal areas are equally many";
    let chart =
        Columns::new(caption, x, Axis::linear("Reads, % in each tenth of latency"), columns).id("histogram");
    match base.and_then(|cell| cell.total.latency_mean_ns) {
        Some(mean) => chart.marker(Marker::x(mean, format!("mean: {}", duration_s(mean / 1e9)))),
        None => chart,
    }
}

/// The base cell over time.
pub(super) fn time_line(result: &BenchResult) -> Lines {
    let runs = Profile::base(result).map(|cell| cell.runs.as_slice()).unwrap_or_default();
    let series = runs.iter().map(|run| {
        let mark = if run.state.is_valid() { String::new() } else { format!(", {}", run.state) };
        Series::new(format!("Round {}{mark}", run.round + 1), over_time(run))
    });
    let series = series.collect();
    let caption = "Reads of 16 KiB completed in each second, one at a time";
    Lines::new(caption, Axis::linear("Seconds since the ramp"), Axis::linear("IOPS"), series).id("time-line")
}
