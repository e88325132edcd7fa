//! The study of sparse files in memory: what reading, writing and asking cost by the size of their blocks, and whether
//! threads help. And traces, replayed through the cache.

pub mod page;
pub mod published;
pub mod replay;
pub mod svfsc;
pub mod work;

use serde::Serialize;
use stook::report::stats::Summary;

use super::environment::Environment;
use crate::interrupt;

pub use work::Work;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// How often each figure is taken; the median counts.
    pub rounds: usize,
    /// The Python in which svfsc is looked for.
    pub python: String,
}

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was done.
    #[serde(flatten)]
    pub work: Work,
    /// The median of the rounds.
    pub seconds: f64,
    /// The quickest round.
    pub least_s: f64,
    /// The slowest round.
    pub most_s: f64,
    /// The same work with svfsc from Python, measured in turn with it; absent where it is not installed.
    pub svfsc_python_s: Option<f64>,
}

/// The whole study.
#[derive(Debug, Serialize)]
pub struct Study {
    /// `sparse-file`.
    pub name: &'static str,
    /// The figures.
    pub rows: Vec<Row>,
    /// What is published of svfsc.
    pub published: Vec<published::Published>,
    /// The version of svfsc that was measured beside.
    pub svfsc: Option<String>,
    /// Rounds of each figure.
    pub rounds: usize,
    /// On what.
    pub environment: Environment,
}

/// Takes all figures.
///
/// # Errors
/// When it is interrupted, svfsc fails, or a buffer refuses its work.
pub fn run(options: &Options, report_progress: &dyn Fn(String)) -> anyhow::Result<Study> {
    let peer = svfsc::Svfsc::find(&options.python);
    match &peer {
        Some(peer) => report_progress(format!("svfsc {} is measured beside.", peer.version)),
        None => report_progress(format!(
            "svfsc is not installed for {}, so it is not measured beside.",
            options.python
        )),
    }
    let mut rows = Vec::new();
    for work in Work::all() {
        interrupt::check()?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            ours.push(work.seconds()?);
            if let Some(peer) = &peer {
                theirs.extend(peer.seconds(work)?);
            }
        }
        let summary = Summary::of(&ours)?;
        let svfsc_python_s = Summary::of(&theirs).ok().map(|summary| summary.median);
        report_progress(format!("{}: {:.3} ms", work.label(), summary.median * 1e3));
        let (seconds, least_s, most_s) = (summary.median, summary.min, summary.max);
        rows.push(Row { work, seconds, least_s, most_s, svfsc_python_s });
    }
    Ok(Study {
        name: "sparse-file",
        published: published::figures(&rows),
        rows,
        svfsc: peer.map(|peer| peer.version),
        rounds: options.rounds,
        environment: Environment::of(std::path::Path::new(".")),
    })
}

fn row(rows: &[Row], wanted: Work) -> Option<&Row> {
    rows.iter().find(|row| row.work == wanted)
}
