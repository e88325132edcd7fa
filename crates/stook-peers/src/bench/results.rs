//! The stored results of a comparison: every run, the relation of the tools to each other, and the
//! targets.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use stook::bench::Workload;
use stook::bench::gates::State;
use stook::engine::Backend;
use stook::report::units::significant;
use stook_study::environment::Environment;

use super::cells::{CPU_CELL, name};
use super::fio::Memory;
use super::sample::Sample;
use super::verdict::{Agreement, Metric, Pair, Verdict};

/// All results of a run. They name no folder of the machine.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    /// When, on what.
    pub(crate) environment: Environment,
    /// The version of fio.
    pub(crate) fio: String,
    /// Where its buffers were.
    pub(crate) fio_memory: Memory,
    /// The version of the compiler.
    pub(crate) rustc: String,
    /// How often every cell was measured.
    pub(crate) rounds: u32,
    /// How long each measured a cell.
    pub(crate) time_s: f64,
    /// How long each ran before it measured.
    pub(crate) ramp_s: f64,
    /// The length of the file.
    pub(crate) file_bytes: u64,
    /// What was promised, and whether it holds.
    pub(crate) summary: Vec<Promise>,
    /// Every cell.
    pub(crate) cells: Vec<Cell>,
}

/// Something that was promised.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Promise {
    /// What.
    pub(crate) goal: String,
    /// What was measured.
    pub(crate) measured: String,
    /// Whether it holds; `None` where nothing was promised.
    pub(crate) met: Option<bool>,
}

/// One cell, measured by all.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    /// Its name.
    pub(crate) name: String,
    /// The requested workload.
    pub(crate) workload: Workload,
    /// Ours, by backend and metric.
    pub(crate) agreement: BTreeMap<&'static str, Vec<Agreement>>,
    /// Every run of ours, by backend.
    pub(crate) ours: BTreeMap<&'static str, Vec<Sample>>,
    /// Both runs of fio of every round.
    pub(crate) fio: Vec<Pair>,
}

/// What a backend is called in results.
pub(crate) fn tool(backend: Backend) -> &'static str {
    match backend {
        Backend::Threads => "threads",
        _ => "io_uring",
    }
}

impl Cell {
    pub(crate) fn new(workload: &Workload) -> Self {
        Self {
            name: name(workload),
            workload: workload.clone(),
            agreement: BTreeMap::new(),
            ours: BTreeMap::new(),
            fio: Vec::new(),
        }
    }

    /// The runs of one backend.
    pub(crate) fn ours(&mut self, backend: Backend) -> &mut Vec<Sample> {
        self.ours.entry(tool(backend)).or_default()
    }

    fn compare(&mut self) -> anyhow::Result<()> {
        for (backend, samples) in &self.ours {
            let compared: anyhow::Result<Vec<Agreement>> =
                Metric::ALL.iter().map(|metric| Agreement::of(*metric, samples, &self.fio)).collect();
            self.agreement.insert(backend, compared?);
        }
        Ok(())
    }

    fn agreement(&self, backend: Backend, metric: Metric) -> Option<&Agreement> {
        self.agreement.get(tool(backend))?.iter().find(|agreement| agreement.metric == metric)
    }

    /// The worst of its figures.
    fn verdict(&self, backend: Backend) -> Option<Verdict> {
        self.agreement.get(tool(backend))?.iter().filter_map(|agreement| agreement.verdict).max()
    }

    /// How many runs of ours are in this state, and why the first is.
    fn doubted(&self, backend: Backend, state: State) -> (usize, Option<&str>) {
        let all = || self.ours.get(tool(backend)).into_iter().flatten();
        let doubted = || all().filter(move |sample| sample.state == Some(state));
        (doubted().count(), doubted().flat_map(|sample| &sample.reasons).next().map(String::as_str))
    }
}

impl Results {
    /// Compares what was measured so far.
    pub(crate) fn compare(&mut self) -> anyhow::Result<()> {
        self.cells.iter_mut().try_for_each(Cell::compare)?;
        self.summary = [Backend::Uring, Backend::Threads].map(|backend| self.agreed(backend)).to_vec();
        let cell = self.cells.iter().find(|cell| cell.name == CPU_CELL);
        if let Some(found) = cell.and_then(|cell| cell.agreement(Backend::Uring, Metric::Cpu)) {
            self.summary.push(Promise {
                goal: format!("{CPU_CELL}, io_uring: processor time for each request ≤ 1.0 of fio's"),
                measured: format!(
                    "{:.2} ({:.2} to {:.2}): {:.2} µs against {:.2} µs",
                    found.ratio.ratio,
                    found.ratio.interval.low,
                    found.ratio.interval.high,
                    found.ours / 1e3,
                    found.fio / 1e3
                ),
                met: Some(found.ratio.ratio <= 1.0),
            });
        }
        Ok(())
    }

    /// Promised is the agreement of like with like: io_uring here and there.
    fn agreed(&self, backend: Backend) -> Promise {
        let count = |verdict| self.cells.iter().filter(|cell| cell.verdict(backend) == Some(verdict)).count();
        let (agrees, noise) = (count(Verdict::Agrees), count(Verdict::WithinNoise));
        let differs = self.cells.len() - agrees - noise;
        Promise {
            goal: format!(
                "{} against fio's io_uring: IOPS, bandwidth and mean within 5%, p99 within 15%, or within fio's \
                 own noise",
                tool(backend)
            ),
            measured: format!(
                "of {} cells {agrees} within the tolerance, {noise} within the noise, {differs} further apart",
                self.cells.len()
            ),
            met: (backend == Backend::Uring).then_some(differs == 0),
        }
    }

    /// The results as Markdown tables.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from("| promised | measured | met |\n|---|---|---|\n");
        for promise in &self.summary {
            let met = match promise.met {
                Some(true) => "yes",
                Some(false) => "**no**",
                None => "",
            };
            let _ = writeln!(text, "| {} | {} | {met} |", promise.goal, promise.measured);
        }
        for backend in [Backend::Uring, Backend::Threads] {
            let _ = writeln!(
                text,
                "\n{} against fio's io_uring: medians of {} rounds, then ours ÷ fio's, in brackets fio's own noise\n\n\
                 | cell | IOPS | MB/s | mean µs | p99 µs | CPU µs | verdict |\n|---|---|---|---|---|---|---|",
                tool(backend),
                self.rounds
            );
            for cell in &self.cells {
                let column = |metric, unit| figure(cell.agreement(backend, metric), unit);
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {} | {} | {} | {} |",
                    cell.name,
                    column(Metric::Iops, 1.0),
                    column(Metric::Bandwidth, 1e6),
                    column(Metric::Mean, 1e3),
                    column(Metric::P99, 1e3),
                    column(Metric::Cpu, 1e3),
                    verdict(cell, backend)
                );
            }
        }
        text
    }
}

fn figure(agreement: Option<&Agreement>, unit: f64) -> String {
    agreement.map_or_else(String::new, |found| {
        format!(
            "{} : {} = {:.3} (±{:.3})",
            significant(found.ours / unit),
            significant(found.fio / unit),
            found.ratio.ratio,
            found.noise
        )
    })
}

fn verdict(cell: &Cell, backend: Backend) -> String {
    let mut text = match cell.verdict(backend) {
        Some(Verdict::Agrees) => "agrees",
        Some(Verdict::WithinNoise) => "within the noise",
        Some(Verdict::Differs) => "**differs**",
        None => "",
    }
    .to_owned();
    for (state, reported) in [(State::Invalid, "failed a gate"), (State::Unverified, "are unverified")] {
        let (runs, reason) = cell.doubted(backend, state);
        if let Some(reason) = reason {
            let _ = write!(text, "; {runs} runs {reported}: {reason}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(iops: f64, cpu_ns: f64) -> Sample {
        Sample {
            requests: 100,
            seconds: 1.0,
            iops,
            bandwidth_bytes_per_s: iops * 4096.0,
            latency_mean_ns: 1e9 / iops,
            latency_p50_ns: 1e9 / iops,
            latency_p99_ns: 2e9 / iops,
            latency_p999_ns: 3e9 / iops,
            cpu_per_request_ns: cpu_ns,
            state: None,
            reasons: Vec::new(),
        }
    }

    /// One cell, the one of the promise about processor time, with ours this much faster and
    /// dearer.
    fn results(faster: f64, dearer: f64) -> Results {
        let workload = Workload { depth: 32, ..Workload::default() };
        let mut cell = Cell::new(&workload);
        for round in 1..=3 {
            let fio = sample(1000.0 * f64::from(round), 5000.0);
            let own = sample(fio.iops * faster, fio.cpu_per_request_ns * dearer);
            cell.ours(Backend::Uring).push(own.clone());
            cell.ours(Backend::Threads).push(own);
            cell.fio.push(Pair { earlier: fio.clone(), later: fio });
        }
        let mut results = Results {
            environment: Environment::default(),
            fio: "fio-3.33".to_owned(),
            fio_memory: Memory::Malloc,
            rustc: String::new(),
            rounds: 3,
            time_s: 1.0,
            ramp_s: 0.0,
            file_bytes: 1,
            summary: Vec::new(),
            cells: vec![cell],
        };
        results.compare().unwrap();
        results
    }

    fn met(results: &Results) -> Vec<Option<bool>> {
        results.summary.iter().map(|promise| promise.met).collect()
    }

    #[test]
    fn promises_are_about_io_uring_and_hold_or_not() {
        assert_eq!(met(&results(1.0, 0.9)), [Some(true), None, Some(true)]);
        assert_eq!(met(&results(1.0, 1.1)), [Some(true), None, Some(false)]);
        assert_eq!(met(&results(1.1, 0.9)), [Some(false), None, Some(true)]);
    }

    #[test]
    fn one_figure_that_differs_makes_the_cell_differ() {
        let mut results = results(1.0, 1.0);
        for samples in results.cells[0].ours.values_mut() {
            samples.iter_mut().for_each(|sample| sample.latency_p99_ns *= 2.0);
            for (at, state, reason) in
                [(0, State::Invalid, "the depth was not reached"), (1, State::Unverified, "too short")]
            {
                (samples[at].state, samples[at].reasons) = (Some(state), vec![reason.to_owned()]);
            }
        }
        results.compare().unwrap();
        assert_eq!(results.cells[0].verdict(Backend::Uring), Some(Verdict::Differs));
        let text = results.markdown();
        let reported =
            "**differs**; 1 runs failed a gate: the depth was not reached; 1 runs are unverified: too short";
        assert!(text.contains(reported), "{text}");
        assert!(text.contains("2,000 : 2,000 = 1.000 (±0.000)"), "{text}");
    }
}
