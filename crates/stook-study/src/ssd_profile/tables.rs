//! The tables of the study, for the terminal and for the page.

use stook::bench::gates::{Gate, GateName, Outcome, State};
use stook::bench::model::block::BlockModel;
use stook::bench::model::depth::{DepthAnswer, DepthModel};
use stook::bench::{BenchResult, Pattern, Workload};
use stook::report::least_squares::Estimate;
use stook::report::table::{Align, Table, Tone};
use stook::report::units::{bytes_binary, count, percent, rate, significant};

use super::Findings;
use super::cells::{Cell, Part, Profile, whole};
use super::charts::normalised;
use super::extra::{endurance_of_published, printed_rates};
use super::plan::{MAP_BLOCKS, MAP_DEPTHS};
use super::states::sign;
use super::summary::size;
use super::unstated::OtherWay;
use crate::frame::NONE;
use crate::text::duration_s;

/// A figure as text, if it is there.
fn or_none<T>(figure: Option<T>, text: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| NONE.to_owned(), text)
}

fn mb(bytes: f64) -> String {
    significant(bytes / 1e6)
}

fn us(seconds: f64) -> String {
    significant(seconds * 1e6)
}

/// From here on a table fills the page.
const WIDE: usize = 5;

/// A table that may become one of the terminal or one of a page.
pub(super) struct Grid {
    columns: Vec<(String, bool)>,
    rows: Vec<(Vec<String>, Tone)>,
}

impl Grid {
    /// The first column is text, as are those that begin with a space; the others are numbers.
    fn new<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        let columns = columns.into_iter().map(Into::into).enumerate();
        let columns = columns.map(|(index, name): (usize, String)| {
            let is_text = index == 0 || name.starts_with(' ');
            (name.trim().to_owned(), is_text)
        });
        Self { columns: columns.collect(), rows: Vec::new() }
    }

    fn row(&mut self, cells: Vec<String>, tone: Tone) {
        self.rows.push((cells, tone));
    }

    /// A row of a cell: its figures at random places and in order, as [`FIGURES`] names them.
    fn compare<const N: usize>(
        &mut self,
        name: String,
        (cell, ordered): (&Cell, Option<&Cell>),
        parts: [Option<Part>; 2],
        more: [String; N],
    ) {
        let text = |figure: fn(Part) -> String| parts.map(|part| or_none(part, figure));
        let figures = [
            text(|part| significant(part.rate_per_s)),
            text(|part| mb(part.bandwidth_bytes_per_s)),
            text(|part| us(part.latency_mean_s)),
        ];
        let name = format!("{name}{}", doubt(cell, ordered));
        self.row([name].into_iter().chain(figures.into_iter().flatten()).chain(more).collect(), tone(cell));
    }

    pub(super) fn for_terminal(&self) -> Table {
        self.rows.iter().fold(self.head(""), |table, (cells, tone)| table.row(cells, *tone))
    }

    pub(super) fn for_page(&self, caption: &str) -> Table {
        // Of many columns the first would be squeezed until each word has a line.
        let is_wide = self.columns.len() > WIDE;
        self.rows.iter().fold(self.head(caption), |table, (cells, tone)| {
            let cells = cells.iter().enumerate();
            let cells = cells.map(|(index, cell)| match index {
                0 if is_wide => cell.replace(' ', "\u{a0}"),
                _ => cell.clone(),
            });
            table.row(cells, *tone)
        })
    }

    fn head(&self, caption: &str) -> Table {
        let align = |is_text: bool| if is_text { Align::Left } else { Align::Right };
        let table = Table::new(caption);
        self.columns.iter().fold(table, |table, (name, is_text)| table.column(name, align(*is_text)))
    }
}

/// What is to be said of a row: the states of its cells, and which of the two has it where they
/// differ.
fn doubt(random: &Cell, ordered: Option<&Cell>) -> String {
    let states = [Some(random.state), ordered.map(|cell| cell.state)];
    let [random, ordered] = states.map(|state| state.filter(|state| !state.is_valid()));
    match (random, ordered) {
        (None, None) => String::new(),
        (Some(one), Some(other)) if one == other => format!(" ({one})"),
        (Some(one), Some(other)) => format!(" (at random {one}, in order {other})"),
        (Some(one), None) if states[1].is_some() => format!(" (at random {one})"),
        (Some(one), None) => format!(" ({one})"),
        (None, Some(other)) => format!(" (in order {other})"),
    }
}

/// Every figure at random places, and beside it that of the same cell in order.
const FIGURES: [&str; 6] = ["IOPS", "in order", "MB/s", "in order", "mean, µs", "in order"];

/// Sequential and random reads, many at once and one at a time.
pub(super) fn summary(findings: &Findings) -> Grid {
    let columns = ["Reads", " checks", "MB/s", "IOPS", "mean, µs", "p99, µs"];
    let mut grid = Grid::new(columns);
    for line in &findings.summary {
        let cell = &line.cell;
        let cells = vec![
            line.name.clone(),
            sign(cell.state).to_owned(),
            mb(cell.bandwidth_bytes_per_s),
            significant(cell.rate_per_s.value),
            us(cell.latency_mean_s),
            or_none(cell.latency_p99_s, us),
        ];
        grid.row(cells, tone(cell));
    }
    grid
}

/// Bandwidth of random reads, a row for each block and a column for each depth.
pub(super) fn map(findings: &Findings) -> Grid {
    let depths = MAP_DEPTHS.map(|depth| format!("depth {depth}"));
    let mut grid = Grid::new(["Block".to_owned()].into_iter().chain(depths));
    for block in MAP_BLOCKS {
        let fields = findings.map.iter().filter(|field| field.block_bytes == block);
        let figure = |cell: &Cell| match mb(cell.bandwidth_bytes_per_s) {
            figure if cell.state.is_valid() => figure,
            figure => format!("{figure} {}", sign(cell.state)),
        };
        let fields = fields.map(|field| or_none(field.cell.as_ref(), figure));
        grid.row([size(block)].into_iter().chain(fields).collect(), Tone::Plain);
    }
    grid
}

/// Reads one at a time, of growing blocks.
pub(super) fn blocks(findings: &Findings) -> Grid {
    let mut grid = Grid::new(["Block"].into_iter().chain(FIGURES));
    for (ours, ordered) in pairs(&findings.profile.blocks, &findings.sequential.blocks) {
        grid.compare(bytes_binary(ours.block_bytes), (ours, ordered), both(ours, ordered), []);
    }
    grid
}

/// Reads at growing depth, with X·W ÷ N.
pub(super) fn depths(findings: &Findings) -> Grid {
    let little = ["X·W ÷ N", "in order"];
    let mut grid = Grid::new(["Depth"].into_iter().chain(FIGURES).chain(little));
    for (ours, ordered) in pairs(&findings.profile.depths, &findings.sequential.depths) {
        let ratio = |cell: &Cell| format!("{:.3}", cell.little_ratio);
        let more = [ratio(ours), or_none(ordered, ratio)];
        grid.compare(count(ours.depth), (ours, ordered), both(ours, ordered), more);
    }
    grid
}

/// Little's law at every depth: X·W, and what it is of the depth.
pub(super) fn little(findings: &Findings) -> Grid {
    let of = ["in order: X·W", "÷ N", "at random: X·W", "÷ N", "computed from the published: X·W", "÷ N"];
    let mut grid = Grid::new(["Depth N"].into_iter().chain(of));
    let all = [&findings.sequential, &findings.profile, &findings.published];
    for published in &findings.published.depths {
        let same = |cell: &&Cell| cell.depth == published.depth;
        let figures = all.map(|profile: &Profile| {
            let cell = profile.depths.iter().find(same);
            [
                or_none(cell, |cell| significant(cell.in_flight())),
                or_none(cell, |cell| format!("{:.2}", cell.little_ratio)),
            ]
        });
        grid.row(
            [count(published.depth)].into_iter().chain(figures.into_iter().flatten()).collect(),
            Tone::Plain,
        );
    }
    grid
}

/// What the page cache and the engine change: the published cells as they were measured first, and
/// in the other ways.
pub(super) fn unstated(findings: &Findings) -> Grid {
    let mut columns = vec!["Cell".to_owned(), "IOPS".to_owned(), "mean, µs".to_owned()];
    for way in &findings.unstated {
        columns.extend([format!("{}: IOPS", way_name(way.way)), "mean, µs".to_owned()]);
    }
    let mut grid = Grid::new(columns);
    let list = |profile: &Profile| {
        let lists = [&profile.blocks, &profile.depths, &profile.mixes];
        let mut cells: Vec<Cell> =
            lists.into_iter().flatten().chain(&profile.small_writes).cloned().collect();
        // A cell may be in several lists.
        let mut seen: Vec<[u64; 3]> = Vec::new();
        cells.retain(|cell| {
            let is_new = !seen.contains(&key(cell));
            seen.push(key(cell));
            is_new
        });
        cells
    };
    let others: Vec<Vec<Cell>> = findings.unstated.iter().map(|way| list(&way.profile)).collect();
    for cell in list(&findings.sequential) {
        let same = others.iter().map(|others| others.iter().find(|other| key(other) == key(&cell)));
        let figures = [Some(&cell)].into_iter().chain(same).flat_map(|cell| {
            let rate = |cell: &Cell| match significant(cell.rate_per_s.value) {
                figure if cell.state.is_valid() => figure,
                figure => format!("{figure} {}", sign(cell.state)),
            };
            [or_none(cell, rate), or_none(cell, |cell| us(cell.latency_mean_s))]
        });
        grid.row([cell_name(&cell)].into_iter().chain(figures).collect(), Tone::Plain);
    }
    grid
}

/// What makes a cell that cell.
fn key(cell: &Cell) -> [u64; 3] {
    [cell.block_bytes, u64::from(cell.read_share), cell.depth]
}

fn cell_name(cell: &Cell) -> String {
    let kind = match cell.read_share {
        100 => "reads".to_owned(),
        0 => "writes".to_owned(),
        share => format!("{share}% reads"),
    };
    format!("{kind}, {}, depth {}", size(cell.block_bytes), count(cell.depth))
}

fn way_name(way: OtherWay) -> &'static str {
    match way {
        OtherWay::Threads => "threads",
        OtherWay::Buffered => "page cache",
    }
}

/// Advertised and reached, of the document and here.
pub(super) fn advertised(findings: &Findings) -> Grid {
    let mut grid = Grid::new(["What", "advertised", "reached", "share"]);
    let mut row = |what: &str, advertised: Option<f64>, reached: Option<f64>| {
        let share = advertised.zip(reached).map(|(advertised, reached)| reached / advertised);
        let cells = [or_none(advertised, rate), or_none(reached, rate), or_none(share, percent)];
        grid.row([what.to_owned()].into_iter().chain(cells).collect(), Tone::Plain);
    };
    let [advertised, said] = printed_rates();
    let tables = findings.published.blocks.iter().chain(&findings.published.depths);
    let most = tables.map(|cell| cell.bandwidth_bytes_per_s).max_by(f64::total_cmp);
    row("Published, reads, as its text says", Some(advertised), Some(said));
    row("Published, reads, as its tables say", Some(advertised), most);
    let [reads, writes] = findings.best_bytes_per_s;
    // Without a rating to compare with no writes of large blocks were measured.
    let writes = writes.filter(|_| findings.rated.write_bytes_per_s.is_some());
    row("Here, reads in order", findings.rated.read_bytes_per_s, reads);
    row("Here, writes in order", findings.rated.write_bytes_per_s, writes);
    grid
}

/// What an SSD lasts for, of the document and here.
pub(super) fn endurance(findings: &Findings) -> Grid {
    let mut grid = Grid::new(["SSD", "TB for each TB"]);
    let [consumer, server] = endurance_of_published();
    let here = findings.wear.endurance_tb_per_tb();
    for (name, endurance) in [
        ("Published, 1400 TB of 8 TB, as it supposes", Some(consumer)),
        ("Published, for servers, 8800 TB of 6.4 TB", Some(server)),
        ("Here, as it wore so far", here),
    ] {
        grid.row(vec![name.to_owned(), or_none(endurance, |each| format!("{each:.0}"))], Tone::Plain);
    }
    grid
}

/// Reads on the simulated disk.
pub(super) fn simulated(findings: &Findings) -> Grid {
    let mut grid = Grid::new(["Block", "at random", "in order"]);
    for read in &findings.simulated {
        let cells = vec![
            size(read.block_bytes),
            duration_s(read.latency_mean_s),
            duration_s(read.ordered_latency_mean_s),
        ];
        grid.row(cells, Tone::Plain);
    }
    grid
}

/// Reads and writes of every mix, a row each, and the small writes.
pub(super) fn mixes(findings: &Findings) -> Grid {
    let share = ["IOPS ÷ share", "in order"];
    let mut grid = Grid::new(["Mix"].into_iter().chain(FIGURES).chain(share));
    for (ours, ordered) in pairs(&findings.profile.mixes, &findings.sequential.mixes) {
        let reads = ("reads", ours.read_share, [ours.read, ordered.and_then(|cell| cell.read)]);
        let writes = ("writes", 100 - ours.read_share, [ours.write, ordered.and_then(|cell| cell.write)]);
        for (name, share, parts) in [reads, writes].into_iter().filter(|(_, share, _)| *share > 0) {
            let per_share = |part: Part| significant(normalised(part, share));
            let more = parts.map(|part| or_none(part, per_share));
            grid.compare(format!("{share}% {name}"), (ours, ordered), parts, more);
        }
    }
    if let Some(ours) = &findings.profile.small_writes {
        let name = format!("writes of {}", bytes_binary(ours.block_bytes));
        grid.compare(name, (ours, None), both(ours, None), [NONE, NONE].map(str::to_owned));
    }
    grid
}

/// Reads and writes together, of both.
fn both(ours: &Cell, other: Option<&Cell>) -> [Option<Part>; 2] {
    [Some(ours), other].map(|cell| cell.map(whole))
}

/// Every cell with the other one of the same parameters.
fn pairs<'a>(ours: &'a [Cell], others: &'a [Cell]) -> impl Iterator<Item = (&'a Cell, Option<&'a Cell>)> {
    let same =
        |a: &Cell, b: &Cell| (a.block_bytes, a.depth, a.read_share) == (b.block_bytes, b.depth, b.read_share);
    ours.iter().map(move |cell| (cell, others.iter().find(|other| same(cell, other))))
}

fn tone(cell: &Cell) -> Tone {
    if cell.counts() { Tone::Plain } else { Tone::Muted }
}

/// The numbers that were fitted, with their intervals; what could not be fitted, with the reason.
pub(super) fn fitted(findings: &Findings) -> Grid {
    let mut grid =
        Grid::new(["What the device does", "at random", "95% interval", "in order", "of the published"]);
    let all = [&findings.fits, &findings.sequential_fits, &findings.published_fits];
    let mut row = |name: &str, [ours, ordered, theirs]: [Option<Estimate>; 3], text: fn(f64) -> String| {
        let value = |estimate: Option<Estimate>| or_none(estimate, |found| text(found.value));
        let interval = or_none(ours, |found| ends(found, text));
        let cells = vec![name.to_owned(), value(ours), interval, value(ordered), value(theirs)];
        grid.row(cells, Tone::Plain);
    };
    let block = |of: fn(&BlockModel) -> Estimate| all.map(|fits| fits.block.model().map(of));
    let depth = |of: fn(&DepthModel) -> Estimate| all.map(|fits| fits.depth.model().map(of));
    let size: fn(f64) -> String = |bytes| bytes_binary(bytes.max(0.0).round() as u64);
    row("t₀: fixed cost of a read", block(|m| m.fixed_cost_s), duration_s);
    row("B: bandwidth of one read at a time", block(|m| m.bandwidth_bytes_per_s), rate);
    row("Block that reaches half of B", block(|m| m.half_bandwidth_block_bytes), size);
    row("Most reads of 16 KiB per second", depth(|m| m.rate_max_per_s), significant);
    row("N*: no lesser depth can reach it", depth(|m| m.depth_star), significant);
    grid
}

fn ends(estimate: Estimate, text: fn(f64) -> String) -> String {
    let (low, high) = (estimate.interval.low, estimate.interval.high);
    if low.is_finite() && high.is_finite() && low > 0.0 {
        format!("{} to {}", text(low), text(high))
    } else {
        "not known".to_owned()
    }
}

/// Which depth to use, for each of three wishes.
pub(super) fn answers(findings: &Findings) -> Grid {
    let columns = ["If you want", "depth", "reads per second", "mean", "99% within"];
    let mut grid = Grid::new(columns);
    let Some(model) = findings.fits.depth.model() else { return grid };
    let mut row = |wish: String, answer: Option<DepthAnswer>| {
        let none = || [NONE; 4].map(str::to_owned).to_vec();
        let figures = answer.map_or_else(none, |answer| {
            vec![
                count(answer.depth),
                significant(answer.rate_per_s),
                duration_s(answer.latency_mean_s),
                duration_s(answer.latency_p99_s),
            ]
        });
        grid.row([wish].into_iter().chain(figures).collect(), Tone::Plain);
    };
    row("most throughput for the wait".to_owned(), Some(model.answers.latency));
    row("95% of the highest throughput, for certain".to_owned(), model.answers.balanced);
    row(format!("99% of reads within {}", duration_s(findings.p99_target_s)), model.answers.service_level);
    grid
}

/// What the pure rates predict for every mix.
pub(super) fn predictions(findings: &Findings) -> Grid {
    let mut grid = Grid::new(["Mix", "predicted IOPS", "measured", "difference", " "]);
    let Some(model) = findings.fits.mix.model() else { return grid };
    for cell in &model.predictions {
        let certain = if cell.residual_is_certain { "" } else { "within the noise" };
        let cells = vec![
            format!("{:.0}% reads", cell.read_share * 100.0),
            significant(cell.predicted_per_s.value),
            significant(cell.measured_per_s.value),
            format!("{:+.1}%", cell.residual * 100.0),
            certain.to_owned(),
        ];
        grid.row(cells, Tone::Plain);
    }
    grid
}

/// Short names of the checks that apply to these cells, in the order of the gates.
const GATES: [(GateName, &str); 13] = [
    (GateName::LittleRequested, "X·W ÷ N"),
    (GateName::LittleSampled, "X·W ÷ seen"),
    (GateName::DeviceBytesRead, "read"),
    (GateName::DeviceBytesWritten, "written"),
    (GateName::LinkLimit, "link"),
    (GateName::ThreadCpu, "processor"),
    (GateName::ProcessorWait, "waiting"),
    (GateName::Length, "length"),
    (GateName::SteadySpread, "spread"),
    (GateName::SteadySlope, "slope"),
    (GateName::WriteBurst, "burst"),
    (GateName::Throttle, "throttle"),
    (GateName::Durable, "durable"),
];

/// Every check of every cell: its ratio, and how it ended.
pub(super) fn gates(result: &BenchResult) -> Grid {
    let mut grid = Grid::new(["Cell"].into_iter().chain(GATES.map(|(_, name)| name)));
    for cell in &result.cells {
        for run in &cell.runs {
            let outcome = |(name, _)| {
                let gate = run.gates.iter().find(|gate| gate.name == name);
                or_none(gate, checked)
            };
            let round =
                if cell.runs.len() > 1 { format!(", round {}", run.round + 1) } else { String::new() };
            let cells = [name(&cell.workload) + &round].into_iter().chain(GATES.map(outcome)).collect();
            grid.row(cells, if run.state.is_invalid() { Tone::Highlight } else { Tone::Plain });
        }
    }
    grid
}

fn checked(gate: &Gate) -> String {
    let measured = or_none(gate.measured, |measured| format!("{measured:.2}"));
    let state = match gate.outcome {
        Outcome::Passed => State::Valid,
        Outcome::Failed => State::Invalid,
        Outcome::Unverified if gate.measured.is_none() => return sign(State::Unverified).to_owned(),
        Outcome::Unverified => State::Unverified,
        Outcome::NotApplicable => return NONE.to_owned(),
    };
    format!("{measured} {}", sign(state))
}

/// The parameters of a cell, in words.
pub(super) fn name(workload: &Workload) -> String {
    let kind = match workload.read_share {
        100 => "reads".to_owned(),
        0 => "writes".to_owned(),
        share => format!("{share}% reads"),
    };
    let order = match workload.pattern {
        Pattern::Sequential => "sequential ",
        Pattern::Random => "",
    };
    format!(
        "{order}{kind}, {}, depth {}",
        bytes_binary(workload.block_size),
        count(workload.requested_depth())
    )
}

#[cfg(test)]
mod tests {
    use super::super::published;
    use super::*;

    /// Before: what was not valid in order stood there as if it were.
    #[test]
    fn a_row_says_which_of_its_cells_is_in_doubt() {
        let of = |state| Cell { state, ..published::profile().blocks[0].clone() };
        let said = |random, ordered: Option<State>| doubt(&of(random), ordered.map(of).as_ref());
        let (valid, invalid, unverified) = (State::Valid, State::Invalid, State::Unverified);
        assert_eq!((said(valid, Some(valid)), said(valid, None)), (String::new(), String::new()));
        assert_eq!(said(valid, Some(invalid)), " (in order not valid)");
        assert_eq!(said(invalid, Some(valid)), " (at random not valid)");
        assert_eq!(said(invalid, Some(invalid)), " (not valid)");
        assert_eq!(said(invalid, None), " (not valid)");
        assert_eq!(said(unverified, Some(invalid)), " (at random unverified, in order not valid)");
    }
}
