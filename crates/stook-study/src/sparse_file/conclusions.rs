//! The conclusions of the documentation of svfsc, and which of them hold here.

use stook::report::units;

use super::published::MEMORY;
use super::work::{NEED_COUNTS, TOTAL_BYTES, Work};
use super::{Findings, row};
use crate::frame::{Claim, Judgement, no_figures, not_measured};
use crate::verdict::Verdict;

/// How far the exponent of a linear growth may be from 1.
const LINEAR_WITHIN: f64 = 0.15;
/// What a premium of memory may be.
const PREMIUM: f64 = 0.125;

const NO_PYTHON: &str = "Stook is called from Rust here, not from Python.";

pub(super) const CLAIMS: [Claim<Findings>; 6] = [
    Claim {
        section: "C++ Performance, Need",
        published: "Need has good linear performance.",
        check: "The time of one need over all blocks grows with their number to the power of 0.85 to 1.15.",
        there: no_figures,
        here: linear_need,
    },
    Claim {
        section: "C++ Performance, Write",
        published: "A million blocks of one byte take 33 times as much memory as data.",
        check: "Memory ÷ data, blocks of 1 byte that do not touch: 33 or more.",
        there: || {
            let times = MEMORY.number(0, 1).unwrap_or(f64::NAN) / TOTAL_BYTES as f64;
            (Verdict::of((32.5..33.5).contains(&times)), format!("{times:.1} times of 1 MiB."))
        },
        here: |found| memory(found, 1, |times| times >= 33.0),
    },
    Claim {
        section: "C++ Performance, Write",
        published: "With blocks of 256 bytes it is a premium of just 12.5%.",
        check: "Memory ÷ data, blocks of 256 bytes that do not touch: 1.125 or less.",
        there: || {
            let times = MEMORY.number(1, 1).unwrap_or(f64::NAN) / TOTAL_BYTES as f64;
            (Verdict::of((times - 1.0 - PREMIUM).abs() < 1e-3), format!("{times:.4} times of 1 MiB."))
        },
        here: |found| memory(found, 256, |times| times <= 1.0 + PREMIUM),
    },
    Claim {
        section: "Python Performance, Read",
        published: "Reading from Python takes about 5 times as long for blocks of one byte, and nearly the same for large ones.",
        check: "The same reads from Python and from native code.",
        there: no_figures,
        here: |_| not_measured(NO_PYTHON),
    },
    Claim {
        section: "Python Performance, Write",
        published: "Writing from Python takes about 3 times as long for blocks of one byte, and nearly the same for large ones.",
        check: "The same writes from Python and from native code.",
        there: no_figures,
        here: |_| not_measured(NO_PYTHON),
    },
    Claim {
        section: "Python Performance, Multi Threaded Write",
        published: "Several threads are quite another thing from Python than from C++.",
        check: "The same writes of 1 to 8 threads from Python and from native code.",
        there: no_figures,
        here: |_| not_measured(NO_PYTHON),
    },
];

fn seconds(found: &Findings, work: Work) -> Option<f64> {
    row(&found.rows, work).map(|row| row.seconds)
}

/// The slope in double logarithms, by least squares.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let mean = |pick: fn(&(f64, f64)) -> f64| logs.iter().map(pick).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|log| log.0), mean(|log| log.1));
    let products: f64 = logs.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let squares: f64 = logs.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    (points.len() > 2 && squares > 0.0).then(|| products / squares)
}

fn linear_need(found: &Findings) -> Judgement {
    let point = |blocks: u64| Some((blocks as f64, seconds(found, Work::NeedAll { blocks })?));
    let points: Vec<(f64, f64)> = NEED_COUNTS.into_iter().filter_map(point).collect();
    let Some(exponent) = exponent(&points) else { return not_measured("Too few numbers of blocks.") };
    let [first, .., last] = NEED_COUNTS.map(units::count);
    let figures = format!("To the power of {exponent:.2}, from {first} to {last} blocks.");
    (Verdict::of((exponent - 1.0).abs() <= LINEAR_WITHIN), figures)
}

fn memory(found: &Findings, block_bytes: u64, holds: fn(f64) -> bool) -> Judgement {
    let Some(held) = found.memory.iter().find(|held| held.block_bytes == block_bytes) else {
        return not_measured("No memory was counted.");
    };
    let times = held.memory_bytes as f64 / held.data_bytes as f64;
    (Verdict::of(holds(times)), format!("{times:.2} times, as Stook counts its memory."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_found() {
        let points = |power: f64| [1.0_f64, 2.0, 4.0, 8.0].map(|x| (x, 3.0 * x.powf(power)));
        for power in [0.5, 1.0, 2.0] {
            assert!((exponent(&points(power)).unwrap() - power).abs() < 1e-9);
        }
        assert_eq!(exponent(&[(1.0, 1.0), (2.0, 2.0)]), None);
    }

    #[test]
    fn its_figures_of_memory_are_those_of_a_mebibyte() {
        for claim in &CLAIMS[1..3] {
            assert_eq!((claim.there)().0, Verdict::Holds, "{}", claim.published);
        }
    }
}
