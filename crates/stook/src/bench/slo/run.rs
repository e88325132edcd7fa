//! Runs the trials of a search.

use super::super::error::{Error, Result};
use super::super::gates::{self, Gate, GateName, State};
use super::super::judge::judge;
use super::super::observer::Observer;
use super::super::run::Measured;
use super::super::session::{Bench, Runner};
use super::super::workload::Workload;
use super::{Bracket, Limit, Objective, SloCell, SloResult, Start, Trial, highest, search};
use crate::engine::EngineFactory;
use crate::report::histogram::LatencyHistogram;
use crate::report::units::significant;

/// Checks that a rate which is too high makes fail, whatever the device is.
const OF_TOO_HIGH_A_RATE: [GateName; 6] = [
    GateName::LittleRequested,
    GateName::LittleSampled,
    GateName::RateReached,
    GateName::Length,
    GateName::SteadySpread,
    GateName::SteadySlope,
];

/// How many trials a round takes, about: for what is shown while it runs.
const TRIALS: f64 = 7.0;

impl Bench {
    /// Finds for every cell the highest rate at which the objective is kept, in each round again.
    ///
    /// If it is interrupted, the cells so far are returned, marked as interrupted.
    ///
    /// # Errors
    /// As [`Bench::run`]; and [`Error::Workload`] for cells that have a rate of their own, or that
    /// a size ends.
    pub fn run_slo(
        &self,
        objective: Objective,
        path: &std::path::Path,
        engines: &dyn EngineFactory,
        observer: &dyn Observer,
    ) -> Result<SloResult> {
        self.check_slo(objective)?;
        let mut runner = Runner::new(self, path, engines, observer)?;
        let about = runner.about();
        let mut cells = Vec::new();
        let mut interrupted = false;
        for cell in &self.cells {
            match find(cell, self.rounds, objective, &mut runner, about.environment.link_limit_bytes_per_s) {
                Ok(found) => cells.push(found),
                Err(Error::Interrupted) => {
                    interrupted = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(SloResult {
            path: about.path,
            file_bytes: about.file_bytes,
            own_file: about.own_file,
            environment: about.environment,
            time: about.time,
            interrupted,
            objective,
            cells,
        })
    }

    /// Checks everything that can be known before the file is there.
    ///
    /// # Errors
    /// Returns [`Error::Workload`], which states what was expected.
    pub fn check_slo(&self, objective: Objective) -> Result<()> {
        self.check()?;
        if self.long_run_s.is_some() {
            return Err(Error::workload(
                "an objective (slo) and a long run were asked for; expected one of them",
            ));
        }
        for cell in &self.cells {
            if let Some(rate) = cell.rate_per_s {
                return Err(Error::workload(format!(
                    "an objective (slo) and a rate of {rate} requests/s were asked for; the rate is what is \
                     looked for: expected one of them"
                )));
            }
            if cell.size_bytes.is_some() || cell.time_s.is_none() {
                return Err(Error::workload(format!(
                    "{objective} (slo) is measured for a time at each rate; expected no size"
                )));
            }
        }
        Ok(())
    }

    /// About how long [`run_slo`](Self::run_slo) takes, where that is known.
    pub fn expected_slo_s(&self) -> Option<f64> {
        let each: f64 = self.cells.iter().map(Workload::expected_s).sum::<Option<f64>>()?;
        Some(each * (1.0 + TRIALS * f64::from(self.rounds)))
    }
}

fn find(
    cell: &Workload,
    rounds: u32,
    objective: Objective,
    runner: &mut Runner<'_>,
    link_limit_bytes_per_s: Option<f64>,
) -> Result<SloCell> {
    let closed = runner.run(cell)?;
    let requests = closed.record.reads.count() + closed.record.writes.count();
    let closed_iops = requests as f64 / closed.seconds;
    if requests == 0 {
        return Err(Error::workload("nothing completed in the time of a cell; expected a longer time"));
    }
    let mut found = Searched { brackets: Vec::new(), trials: Vec::new() };
    for round in 0..rounds {
        let start = found.last_rate().map_or(Start::below(closed_iops), Start::near);
        let bracket = search(start, |rate_per_s| {
            let open = Workload { rate_per_s: Some(rate_per_s), ..cell.clone() };
            let measured = runner.run(&open)?;
            let gates = judge(&open, &measured, None, link_limit_bytes_per_s);
            let trial = Trial::new(round, rate_per_s, objective, &measured, gates);
            let is_kept = trial.is_kept;
            found.trials.push(trial);
            Ok::<_, Error>(is_kept)
        })?;
        found.brackets.push(bracket);
    }
    Ok(found.cell(cell, objective, closed_iops))
}

/// What all rounds of a cell found.
struct Searched {
    brackets: Vec<Bracket>,
    trials: Vec<Trial>,
}

impl Searched {
    fn last_rate(&self) -> Option<f64> {
        let (low, high) = self.brackets.last()?.ends()?;
        Some((low * high).sqrt())
    }

    /// The trials at the ends of the brackets: they decided.
    fn decided_by(&self) -> Vec<&Trial> {
        let rounds = (0_u32..).zip(&self.brackets);
        let each = rounds.flat_map(|(round, bracket)| {
            let ends = [(true, bracket.kept_per_s), (false, bracket.missed_per_s)];
            ends.into_iter().filter_map(move |(is_kept, rate)| {
                let mut of_round = self.trials.iter().filter(move |trial| trial.round == round);
                of_round.find(|trial| trial.is_kept == is_kept && Some(trial.rate_per_s) == rate)
            })
        });
        each.collect()
    }

    fn cell(self, workload: &Workload, objective: Objective, closed_iops: f64) -> SloCell {
        let decided = self.decided_by();
        let kept = decided.iter().filter(|trial| trial.is_kept);
        let best = kept.max_by(|one, other| one.rate_per_s.total_cmp(&other.rate_per_s));
        let (state, mut reasons) = worst(&decided);
        let highest_rate_per_s = highest(&self.brackets);
        if highest_rate_per_s.is_none() {
            let least = self.trials.iter().map(|trial| trial.rate_per_s).fold(f64::INFINITY, f64::min);
            reasons.insert(
                0,
                format!(
                    "even at {} requests a second the objective was not kept: {objective}",
                    significant(least)
                ),
            );
        }
        if self.brackets.iter().any(|bracket| bracket.missed_per_s.is_none()) {
            reasons.insert(0, "no rate that was tried missed the objective".to_owned());
        }
        SloCell {
            rw: workload.rw().to_owned(),
            closed_iops,
            highest_rate_per_s,
            rounds: self.brackets.len() as u32,
            latency_ns: best.and_then(|trial| trial.latency_ns),
            limits: limits(&decided),
            state,
            reasons,
            workload: workload.clone(),
            trials: self.trials,
        }
    }
}

/// The worst state, and why trials have it.
fn worst(decided: &[&Trial]) -> (State, Vec<String>) {
    let any = |state| decided.iter().any(|trial| trial.state == state);
    let state = match () {
        () if decided.is_empty() || any(State::Invalid) => State::Invalid,
        () if any(State::Unverified) => State::Unverified,
        () => State::Valid,
    };
    let mut reasons: Vec<String> = Vec::new();
    let doubted = decided.iter().filter(|trial| trial.state == state && !state.is_valid());
    for reason in doubted.flat_map(|trial| &trial.reasons) {
        if !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    (state, reasons)
}

/// What the lowest rates that missed the objective were limited by, the most frequent first.
fn limits(decided: &[&Trial]) -> Vec<Limit> {
    let mut counted: Vec<(Limit, u32)> = Vec::new();
    for limit in decided.iter().filter_map(|trial| trial.limit) {
        match counted.iter_mut().find(|(known, _)| *known == limit) {
            Some((_, count)) => *count += 1,
            None => counted.push((limit, 1)),
        }
    }
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted.into_iter().map(|(limit, _)| limit).collect()
}

impl Trial {
    fn new(round: u32, rate_per_s: f64, objective: Objective, measured: &Measured, gates: Vec<Gate>) -> Self {
        let mut latencies: LatencyHistogram = measured.record.reads.clone();
        latencies.merge(&measured.record.writes);
        let Measured { due, unserved, overruns, seconds, .. } = *measured;
        let latency_ns = objective.statistic.of(&latencies, unserved);
        let is_fast = latency_ns.is_some_and(|ns| ns <= objective.latency_ns);
        let is_reached = !gates.iter().any(|gate| gate.name == GateName::RateReached && gate.is_failed());
        let is_kept = is_fast && is_reached;
        // Of a rate that is too high, what is wrong with it anyhow is no doubt about it.
        let counted: Vec<Gate> = gates
            .iter()
            .filter(|gate| is_kept || !OF_TOO_HIGH_A_RATE.contains(&gate.name))
            .cloned()
            .collect();
        let mut reasons = gates::reasons(&counted);
        let mut state = gates::state(&counted);
        let needed = objective.statistic.requests_min();
        if is_kept && (latencies.count() as f64) < needed && state.is_valid() {
            state = State::Unverified;
            reasons.push(format!(
                "{} requests are few for {}; expected {needed:.0}: measure for longer (--time)",
                latencies.count(),
                objective.statistic.name()
            ));
        }
        Self {
            round,
            rate_per_s,
            rate_reached_per_s: latencies.count() as f64 / seconds,
            latency_ns,
            due,
            unserved,
            is_kept,
            limit: (!is_kept).then(|| Limit::of(&gates, due, overruns + unserved)),
            gates,
            state,
            reasons,
        }
    }
}
