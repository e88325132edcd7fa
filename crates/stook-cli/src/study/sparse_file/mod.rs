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

/// What a published conclusion says, and what holds here.
#[derive(Debug, Clone, Serialize)]
pub struct Conclusion {
    /// What was concluded.
    pub published: &'static str,
    /// What is so here.
    pub here: String,
    /// Whether the same holds here; absent where it cannot be told.
    pub holds: Option<bool>,
}

/// The whole study.
#[derive(Debug, Serialize)]
pub struct Study {
    /// `sparse-file`.
    pub name: &'static str,
    /// The figures.
    pub rows: Vec<Row>,
    /// What was published.
    pub published: Vec<published::Figure>,
    /// What was concluded then, and what holds here.
    pub conclusions: Vec<Conclusion>,
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
pub fn run(options: &Options, tell: &dyn Fn(String)) -> anyhow::Result<Study> {
    let peer = svfsc::Svfsc::find(&options.python);
    match &peer {
        Some(peer) => tell(format!("svfsc {} is measured beside.", peer.version)),
        None => tell(format!("svfsc is not installed for {}, so it is not measured beside.", options.python)),
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
        tell(format!("{}: {:.3} ms", work.label(), summary.median * 1e3));
        let (seconds, least_s, most_s) = (summary.median, summary.min, summary.max);
        rows.push(Row { work, seconds, least_s, most_s, svfsc_python_s });
    }
    let conclusions = conclusions(&rows);
    Ok(Study {
        name: "sparse-file",
        rows,
        published: published::FIGURES.to_vec(),
        conclusions,
        svfsc: peer.map(|peer| peer.version),
        rounds: options.rounds,
        environment: Environment::of(std::path::Path::new(".")),
    })
}

fn seconds_of(rows: &[Row], wanted: Work) -> Option<f64> {
    rows.iter().find(|row| row.work == wanted).map(|row| row.seconds)
}

fn conclusions(rows: &[Row]) -> Vec<Conclusion> {
    let of = |work| seconds_of(rows, work);
    let ratio = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
    let tell = |published, ratio: Option<f64>, said: &dyn Fn(f64) -> String, holds: &dyn Fn(f64) -> bool| {
        let here = ratio.map_or_else(|| "was not measured".to_owned(), said);
        Conclusion { published, here, holds: ratio.map(holds) }
    };
    let small = ratio(of(Work::Read { block_bytes: 1 }), of(Work::Read { block_bytes: 512 }));
    let joined = ratio(of(Work::WriteApart { block_bytes: 8 }), of(Work::WriteJoined { block_bytes: 8 }));
    let threads = ratio(
        of(Work::Threads { threads: 8, is_joined: false }),
        of(Work::Threads { threads: 1, is_joined: false }),
    );
    vec![
        tell(
            "Reading single bytes costs far more than reading blocks of 512: over a thousand times as long for 1 MB.",
            small,
            &|ratio| format!("{ratio:.0} times as long"),
            &|ratio| ratio > 100.0,
        ),
        tell(
            "Small writes that touch are quicker than those that do not, because they become one block.",
            joined,
            &|ratio| format!("those of 8 bytes apart take {ratio:.1} times as long"),
            &|ratio| ratio > 1.0,
        ),
        tell(
            "More threads are slower: eight that write take six times as long as one.",
            threads,
            &|ratio| format!("eight take {ratio:.1} times as long for the same work"),
            &|ratio| ratio > 2.0,
        ),
    ]
}
