//! The study of sparse files in memory: what reading, writing and asking cost by the size of their
//! blocks, and whether threads help. And traces, replayed through the cache.

mod conclusions;
mod frame;
mod page;
pub mod published;
pub mod replay;
pub mod svfsc;
mod text;
pub mod work;

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use stook::report::page::Page;
use stook::report::stats::Summary;

use self::svfsc::Svfsc;
use crate::environment::Environment;
use crate::frame::Frame;
use crate::{Hooks, OptionError, Study, Text};

pub use self::work::{Held, Work};

/// The study.
#[derive(Debug, Clone)]
pub struct SparseFileStudy {
    /// How often each figure is taken; the median counts.
    pub rounds: usize,
    /// The Python in which svfsc is looked for.
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
    /// The same work with svfsc from Python, measured in turn with it; absent where it is not
    /// installed.
    pub svfsc_python_s: Option<f64>,
}

/// What was found, as it is in `study.json` under `data`.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// The figures.
    pub rows: Vec<Row>,
    /// Memory of 1 MiB in blocks of 1 and of 256 bytes that do not touch.
    pub memory: Vec<Held>,
    /// The version of svfsc that was measured beside.
    pub svfsc: Option<String>,
    /// Rounds of each figure.
    pub rounds: usize,
    /// On what.
    #[serde(skip)]
    pub environment: Environment,
}

/// The study while it is measured.
#[derive(Debug)]
pub struct State {
    peer: Option<Svfsc>,
    rows: Vec<Row>,
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

    fn prepare(&self, hooks: &dyn Hooks) -> anyhow::Result<State> {
        let peer = Svfsc::find(&self.python);
        hooks.note(&match &peer {
            Some(peer) => format!("svfsc {} is measured beside.", peer.version),
            None => {
                format!("svfsc is not installed for {}, so it is not measured beside.", self.python)
            }
        });
        Ok(State { peer, rows: Vec::new() })
    }

    /// All rounds: those of one kind of work follow one another, in turn with svfsc, so that both
    /// find the same memory and the same speed of the processor.
    fn measure(&self, state: &mut State, hooks: &dyn Hooks) -> anyhow::Result<()> {
        for work in Work::all() {
            hooks.check()?;
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..self.rounds {
                ours.push(work.seconds()?);
                if let Some(peer) = &state.peer {
                    theirs.extend(peer.seconds(work)?);
                }
            }
            let summary = Summary::of(&ours)?;
            let svfsc_python_s = Summary::of(&theirs).ok().map(|summary| summary.median);
            hooks.note(&format!("{}: {:.3} ms", work.label(), summary.median * 1e3));
            let (seconds, least_s, most_s) = (summary.median, summary.min, summary.max);
            state.rows.push(Row { work, seconds, least_s, most_s, svfsc_python_s });
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

    fn conclude(&self, state: State) -> anyhow::Result<Findings> {
        Ok(Findings {
            memory: [1, 256].into_iter().map(Held::of).collect::<Result<_, _>>()?,
            rows: state.rows,
            svfsc: state.peer.map(|peer| peer.version),
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
