//! The study of sparse files in memory: what reading, writing and asking cost by the size of their
//! blocks, and whether threads help. And traces, replayed through the cache.

mod conclusions;
mod frame;
mod growth;
mod locks;
mod native;
mod page;
mod plan;
pub mod published;
mod python;
pub mod replay;
mod text;
pub mod work;

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use stook::report::page::Page;
use stook::report::stats::{Summary, median};

use self::python::{Package, Peer};
use crate::environment::Environment;
use crate::frame::Frame;
use crate::progress::{Expected, Portion, Unit};
use crate::text::duration_s;
use crate::{Hooks, OptionError, Study, Text};

pub use self::growth::{By, Growth, Over};
pub use self::python::Installed;
pub use self::work::{Held, Work};

/// A round takes about so long on an ordinary processor, seconds: less from Rust alone, and more
/// with two packages for Python.
const ROUND_S: f64 = 6.0;

/// The study.
#[derive(Debug, Clone)]
pub struct SparseFileStudy {
    /// How often each figure is taken; the median counts.
    pub rounds: usize,
    /// The Python in which stook and svfsc are looked for.
    pub python: String,
}

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The work.
    #[serde(flatten)]
    pub work: Work,
    /// The median of the rounds.
    pub seconds: f64,
    /// The quickest round.
    pub least_s: f64,
    /// The slowest round.
    pub most_s: f64,
    /// The same work with Stook from Python, measured in turn with it; absent where it was not.
    pub python_s: Option<f64>,
    /// The same with svfsc.
    pub svfsc_python_s: Option<f64>,
    /// What the interpreter takes for as many calls that do nothing; absent where threads make
    /// them.
    pub interpreter_s: Option<f64>,
}

/// What was found, as it is in `study.json` under `data`.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// The figures.
    pub rows: Vec<Row>,
    /// How the time of a question grows with what is held.
    pub growth: Vec<Growth>,
    /// Memory of 1 MiB in blocks of 1 and of 256 bytes that do not touch.
    pub memory: Vec<Held>,
    /// Our package for Python.
    pub stook_python: Installed,
    /// svfsc for Python.
    pub svfsc: Installed,
    /// Rounds of each figure.
    pub rounds: usize,
    /// On what.
    #[serde(skip)]
    pub environment: Environment,
}

/// The study while it is measured.
#[derive(Debug)]
pub struct State {
    stook: Result<Peer, String>,
    svfsc: Result<Peer, String>,
    rows: Vec<Row>,
}

/// Times of one work.
#[derive(Debug, Default)]
struct Times {
    native: Vec<f64>,
    stook: Vec<f64>,
    svfsc: Vec<f64>,
    interpreter: Vec<f64>,
}

impl Times {
    /// One round: from Rust, and by every package that is there, in turn.
    fn round(
        &mut self,
        work: Work,
        state: &mut State,
        is_first: bool,
        hooks: &dyn Hooks,
    ) -> anyhow::Result<()> {
        self.native.push(work.seconds()?);
        let Some(plan) = work.plan().filter(plan::Plan::is_for_python) else { return Ok(()) };
        for (peer, times) in [(&mut state.stook, &mut self.stook), (&mut state.svfsc, &mut self.svfsc)] {
            let Ok(peer) = peer else { continue };
            // What it returns is compared once, outside of its time.
            let timed = peer.time(&plan, is_first, &|| hooks.check()).with_context(|| work.label())?;
            times.push(timed.took_s);
            self.interpreter.extend(timed.idle_s);
        }
        Ok(())
    }

    fn row(&self, work: Work) -> anyhow::Result<Row> {
        let native = Summary::of(&self.native)?;
        Ok(Row {
            work,
            seconds: native.median,
            least_s: native.min,
            most_s: native.max,
            python_s: median(&self.stook).ok(),
            svfsc_python_s: median(&self.svfsc).ok(),
            interpreter_s: median(&self.interpreter).ok(),
        })
    }
}

impl Study for SparseFileStudy {
    type State = State;
    type Findings = Findings;

    const NAME: &'static str = "sparse-file";
    const EMBEDDED: &'static str = "All figures are";

    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.rounds > 0, OptionError::new("expected one round or more"));
        Ok(())
    }

    /// Nothing of it is of a device.
    fn expected(&self) -> Expected {
        Expected { time_s: ROUND_S * self.rounds as f64, bytes: 0 }
    }

    fn prepare(&self, hooks: &dyn Hooks) -> anyhow::Result<State> {
        let start = |package| {
            let started = Peer::start(&self.python, package, &|| hooks.check())?;
            hooks.note(&match &started {
                Ok(peer) => format!("{package} {} is measured from {}.", peer.version, self.python),
                Err(why) => format!("{why}."),
            });
            anyhow::Ok(started)
        };
        Ok(State { stook: start(Package::Stook)?, svfsc: start(Package::Svfsc)?, rows: Vec::new() })
    }

    /// All rounds: those of one kind of work follow one another, in turn with the same from Python,
    /// so that all find the same memory and the same speed of the processor.
    fn measure(&self, state: &mut State, hooks: &dyn Hooks) -> anyhow::Result<()> {
        let all = Work::all();
        let shown = hooks.begin(&Portion::new("measuring", Unit::Items, all.len() as u64));
        for work in all {
            let mut times = Times::default();
            for round in 0..self.rounds {
                hooks.check()?;
                let measured = times.round(work, state, round == 0, hooks);
                // Being asked to stop is no failure of an interpreter.
                measured.or_else(|error| hooks.check().and(Err(error)))?;
            }
            let row = times.row(work)?;
            hooks.detail(&format!("  {}: {}", row.work.label(), duration_s(row.seconds)));
            shown.add(1);
            state.rows.push(row);
        }
        Ok(())
    }

    fn check_bytes(&self, state: &mut State, hooks: &dyn Hooks) -> anyhow::Result<()> {
        for row in &state.rows {
            hooks.check()?;
            row.work.check_bytes().with_context(|| row.work.label())?;
        }
        Ok(())
    }

    fn conclude(&self, mut state: State) -> anyhow::Result<Findings> {
        let mut memory = [1, 256].into_iter().map(Held::of).collect::<Result<Vec<_>, _>>()?;
        if let Ok(peer) = &mut state.svfsc {
            for held in &mut memory {
                held.svfsc_memory_bytes =
                    Some(peer.memory_bytes(Held::blocks(held.block_bytes), &|| Ok(()))?);
            }
        }
        Ok(Findings {
            growth: Growth::of(&state.rows),
            memory,
            stook_python: Installed::of(&state.stook),
            svfsc: Installed::of(&state.svfsc),
            rows: state.rows,
            rounds: self.rounds,
            environment: Environment::of(Path::new(".")),
        })
    }

    fn frame(findings: &Findings) -> Frame {
        frame::frame(findings)
    }

    fn text(findings: &Findings) -> Vec<Text> {
        text::text(findings)
    }

    fn page(findings: &Findings) -> Page {
        page::page(findings)
    }
}

fn row(rows: &[Row], wanted: Work) -> Option<&Row> {
    rows.iter().find(|row| row.work == wanted)
}

#[cfg(test)]
impl Row {
    /// All work, with these times from Rust and from Python.
    fn all_taking(seconds: impl Fn(Work) -> f64, python: impl Fn(Work) -> Option<f64>) -> Vec<Self> {
        let row = |work| Self {
            work,
            seconds: seconds(work),
            least_s: seconds(work),
            most_s: seconds(work),
            python_s: python(work),
            svfsc_python_s: None,
            interpreter_s: None,
        };
        Work::all().into_iter().map(row).collect()
    }
}

#[cfg(test)]
impl Findings {
    /// These rows, and nothing else.
    fn of_rows(rows: Vec<Row>) -> Self {
        let missing = || Installed { version: None, left_out: Some("It is not installed".to_owned()) };
        Self {
            growth: Growth::of(&rows),
            rows,
            memory: Vec::new(),
            stook_python: missing(),
            svfsc: missing(),
            rounds: 1,
            environment: Environment::default(),
        }
    }
}
