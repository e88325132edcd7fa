//! Measurements: pairs, their ratios, and how they compare to the targets.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use stook::report::stats::{PairedRatio, Summary};
use stook::report::units;
use stook_study::environment::Environment;
use stook_study::meter::Taken;

/// Requested confidence. Five pairs give 93.75%, and the result states it.
const CONFIDENCE: f64 = 0.95;

/// Which side of a target is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Nothing was promised: the figure is for the reader.
    None,
}

impl Target {
    fn text(self) -> String {
        match self {
            Self::AtLeast(value) => format!("≥ {value}"),
            Self::AtMost(value) => format!("≤ {value}"),
            Self::None => "–".to_owned(),
        }
    }

    fn is_met(self, value: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(value >= least),
            Self::AtMost(most) => Some(value <= most),
            Self::None => None,
        }
    }
}

/// Two things measured in turn.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Compared {
    /// What is asked.
    pub(crate) goal: String,
    /// What was hoped for.
    pub(crate) target: Target,
    /// Whether the median reaches it.
    pub(crate) met: Option<bool>,
    /// The ratio of the pairs and where it lies.
    pub(crate) ratio: PairedRatio,
    /// The two sides: name and median.
    pub(crate) sides: [(String, f64); 2],
    /// The unit of the sides.
    pub(crate) unit: &'static str,
}

/// A single figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// The goal in words.
    pub(crate) goal: String,
    /// What was hoped for.
    pub(crate) target: Target,
    /// Whether it is reached.
    pub(crate) met: Option<bool>,
    /// The figure.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// What else is to be known.
    pub(crate) note: String,
}

/// All results of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Results {
    /// When, on what.
    pub(crate) environment: Environment,
    /// Versions of the tools.
    pub(crate) tools: BTreeMap<String, String>,
    /// The command line.
    pub(crate) command: Vec<String>,
    /// How caches were emptied.
    pub(crate) cold: String,
    /// Comparisons.
    pub(crate) compared: Vec<Compared>,
    /// Figures.
    pub(crate) figures: Vec<Figure>,
    /// Every single measurement, by section and way.
    pub(crate) raw: BTreeMap<String, Series>,
}

/// Measurements of the ways of one section, in the order in which they were taken.
pub(crate) type Series = BTreeMap<String, Vec<Taken>>;

impl Results {
    /// Compares the seconds of two ways of a section: how many times as fast `ours` is.
    pub(crate) fn faster(
        &mut self,
        section: &str,
        goal: &str,
        target: Target,
        ours: &str,
        theirs: &str,
    ) -> anyhow::Result<()> {
        self.compare(section, goal, target, theirs, ours)
    }

    /// Compares the seconds of two ways of a section: how many times as long `ours` takes.
    pub(crate) fn longer(
        &mut self,
        section: &str,
        goal: &str,
        target: Target,
        ours: &str,
        theirs: &str,
    ) -> anyhow::Result<()> {
        self.compare(section, goal, target, ours, theirs)
    }

    fn compare(
        &mut self,
        section: &str,
        goal: &str,
        target: Target,
        over: &str,
        under: &str,
    ) -> anyhow::Result<()> {
        let seconds = |way: &str| -> Vec<f64> {
            let taken = self.raw.get(section).and_then(|series| series.get(way));
            taken.into_iter().flatten().map(|taken| taken.seconds).collect()
        };
        let (over_s, under_s) = (seconds(over), seconds(under));
        let ratio = PairedRatio::of(&over_s, &under_s, CONFIDENCE)?;
        let sides = [
            (over.to_owned(), Summary::of(&over_s)?.median),
            (under.to_owned(), Summary::of(&under_s)?.median),
        ];
        let met = target.is_met(ratio.ratio);
        self.compared.push(Compared { goal: goal.to_owned(), target, met, ratio, sides, unit: "s" });
        Ok(())
    }

    /// Notes a figure.
    pub(crate) fn figure(
        &mut self,
        goal: &str,
        target: Target,
        value: f64,
        unit: &'static str,
        note: impl Into<String>,
    ) {
        let met = target.is_met(value);
        self.figures.push(Figure { goal: goal.to_owned(), target, met, value, unit, note: note.into() });
    }

    /// The results as Markdown tables.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from(
            "| goal | target | measured | interval | sides | met |\n|---|---|---|---|---|---|\n",
        );
        for row in &self.compared {
            let interval = row.ratio.interval;
            let sides: Vec<String> =
                row.sides.iter().map(|(name, value)| format!("{name} {}", seconds(*value))).collect();
            let _ = writeln!(
                text,
                "| {} | {} | {:.2} | {:.2}–{:.2} ({}) | {} | {} |",
                row.goal,
                row.target.text(),
                row.ratio.ratio,
                interval.low,
                interval.high,
                units::percent(interval.confidence),
                sides.join(" ÷ "),
                met(row.met)
            );
        }
        text.push_str("\n| figure | target | measured | note | met |\n|---|---|---|---|---|\n");
        for row in &self.figures {
            let _ = writeln!(
                text,
                "| {} | {} | {} {} | {} | {} |",
                row.goal,
                row.target.text(),
                units::significant(row.value),
                row.unit,
                row.note,
                met(row.met)
            );
        }
        text.push_str(
            "\n| section | way | median | least to most | user + system CPU |\n|---|---|---|---|---|\n",
        );
        for (section, series) in &self.raw {
            for (way, taken) in series {
                let each: Vec<f64> = taken.iter().map(|taken| taken.seconds).collect();
                let Ok(summary) = Summary::of(&each) else { continue };
                let mean = |part: fn(&Taken) -> f64| taken.iter().map(part).sum::<f64>() / taken.len() as f64;
                let _ = writeln!(
                    text,
                    "| {section} | {way} | {} | {} to {} | {:.2} + {:.2} s |",
                    seconds(summary.median),
                    seconds(summary.min),
                    seconds(summary.max),
                    mean(|taken| taken.user_cpu_s),
                    mean(|taken| taken.system_cpu_s)
                );
            }
        }
        text
    }
}

/// Seconds, or a smaller unit if they are few.
fn seconds(value: f64) -> String {
    match value {
        value if value.abs() >= 0.1 => format!("{value:.3} s"),
        value if value.abs() >= 1e-4 => format!("{:.3} ms", value * 1e3),
        value => format!("{:.3} µs", value * 1e6),
    }
}

fn met(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "",
    }
}
