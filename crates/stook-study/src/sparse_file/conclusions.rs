//! The conclusions of the documentation of svfsc, and which of them hold here.

use stook::report::units;

use super::growth::{By, Growth};
use super::published::MEMORY;
use super::work::{TOTAL_BYTES, Work};
use super::{Findings, Row, row};
use crate::frame::{Claim, Judgement, NONE, no_figures, not_measured};
use crate::verdict::Verdict;

/// Memory ÷ data that is printed as 33 times.
fn is_33(times: f64) -> bool {
    (32.5..33.5).contains(&times)
}

/// Memory ÷ data whose premium is printed as 12.5%, or is less.
fn is_premium(times: f64) -> bool {
    times < 1.1255
}

/// How far a factor may be from one that is called about so large, up and down; and that of two
/// things that are called nearly equal, and of those that are called quite different.
const ABOUT: f64 = 1.5;
/// Of how many threads the time is held against that of one.
const MANY: u64 = 8;

/// The work that the document calls reading, in blocks of one byte and in large ones.
const READING: [&[Work]; 2] = [
    &[Work::ReadApart { block_bytes: 1 }],
    &[Work::ReadApart { block_bytes: 512 }, Work::Read { block_bytes: TOTAL_BYTES }],
];
/// And writing: blocks that do not touch, and blocks that do.
const WRITING: [&[Work]; 2] = [
    &[Work::WriteApart { block_bytes: 1 }, Work::WriteJoined { block_bytes: 1 }],
    &[Work::WriteApart { block_bytes: 512 }, Work::WriteJoined { block_bytes: 512 }],
];

pub(super) const CLAIMS: [Claim<Findings>; 6] = [
    Claim {
        section: "C++ Performance, Need",
        published: "Need has good linear performance.",
        check: "The time of one need over all blocks grows with their number to the power of 0.85 to 1.15, and none is \
                further than 25% from a straight line: of 1 MiB in blocks of 512 bytes to 1, and of an eighth to all of \
                238,310 blocks.",
        there: no_figures,
        here: linear_need,
    },
    Claim {
        section: "C++ Performance, Write",
        published: "A million blocks of one byte take 33 times as much memory as data.",
        check: "Memory ÷ data, blocks of 1 byte that do not touch: 33, to a whole number.",
        there: || {
            let times = MEMORY.number(0, 1).unwrap_or(f64::NAN) / TOTAL_BYTES as f64;
            (Verdict::of(is_33(times)), format!("{times:.1} times of 1 MiB."))
        },
        here: |found| memory(found, 1, is_33),
    },
    Claim {
        section: "C++ Performance, Write",
        published: "With blocks of 256 bytes it is a premium of just 12.5%.",
        check: "Memory ÷ data − 1, blocks of 256 bytes that do not touch: 12.5% or less, to a tenth of a percent.",
        there: || {
            let times = MEMORY.number(1, 1).unwrap_or(f64::NAN) / TOTAL_BYTES as f64;
            (Verdict::of(is_premium(times)), format!("{times:.4} times of 1 MiB."))
        },
        here: |found| memory(found, 256, is_premium),
    },
    Claim {
        section: "Python Performance, Read",
        published: "Reading from Python takes about 5 times as long for blocks of one byte, and nearly the same for large ones.",
        check: "From Python ÷ from Rust, by Stook: 3.3 to 7.5 with blocks of 1 byte; at most 1.5 with blocks of 512, and with \
                all at once.",
        there: only_the_ratio,
        here: |found| from_python(found, READING, 5.0),
    },
    Claim {
        section: "Python Performance, Write",
        published: "Writing from Python takes about 3 times as long for blocks of one byte, and nearly the same for large ones.",
        check: "From Python ÷ from Rust, by Stook, blocks that touch and that do not: 2 to 4.5 with blocks of 1 byte; at \
                most 1.5 with blocks of 512.",
        there: only_the_ratio,
        here: |found| from_python(found, WRITING, 3.0),
    },
    Claim {
        section: "Python Performance, Multi Threaded Write",
        published: "Several threads are quite another thing from Python than from C++.",
        check: "8 threads ÷ 1, each writing all of it: from Python it is 1.5 times what it is from Rust or more, or the other \
                way round; with blocks that touch, or with those that do not.",
        there: no_figures,
        here: threads_differ,
    },
];

fn only_the_ratio() -> Judgement {
    not_measured("It prints the ratios, and no times of Python.")
}

/// How many times as long the same takes from Python.
pub(super) fn of_native(row: &Row) -> Option<f64> {
    Some(row.python_s? / row.seconds)
}

/// How many times as long svfsc takes from Python as it does without the interpreter's part, at
/// least: what its module does to arguments and results is not in it.
pub(super) fn of_svfsc(row: &Row) -> Option<f64> {
    let rest_s = row.svfsc_python_s? - row.interpreter_s?;
    (rest_s > 0.0).then_some(row.svfsc_python_s? / rest_s)
}

fn linear_need(found: &Findings) -> Judgement {
    let line = |growth: &Growth| {
        format!(
            "{}: to the power of {:.2}, {:.1} ns for each block more, R² {:.3}, up to {} from a straight line, steepest from \
             {} to {} blocks: {}",
            growth.over.label(),
            growth.exponent,
            growth.slope_s * 1e9,
            growth.r_squared,
            units::percent(growth.residual_max),
            units::count(growth.steepest.from_blocks),
            units::count(growth.steepest.to_blocks),
            units::factor(growth.steepest.times)
        )
    };
    let ours: Vec<&Growth> = found.growth.iter().filter(|growth| growth.by == By::Stook).collect();
    if ours.is_empty() {
        return not_measured("Too few numbers of blocks.");
    }
    let lines: Vec<String> = ours.iter().map(|growth| line(growth)).collect();
    let others = found.growth.iter().filter(|growth| growth.by != By::Stook);
    let others = others.map(|growth| format!(" {}, {}.", growth.by.label(), line(growth)));
    let figures = format!("{}.{}", lines.join("; "), others.collect::<String>());
    (Verdict::of(ours.iter().all(|growth| growth.is_linear())), figures)
}

fn memory(found: &Findings, block_bytes: u64, holds: fn(f64) -> bool) -> Judgement {
    let Some(held) = found.memory.iter().find(|held| held.block_bytes == block_bytes) else {
        return not_measured("No memory was counted.");
    };
    let times = |memory_bytes: u64| memory_bytes as f64 / held.data_bytes as f64;
    let theirs = held.svfsc_memory_bytes.map(|memory_bytes| {
        format!(" svfsc counts {} bytes here, {:.2} times.", units::count(memory_bytes), times(memory_bytes))
    });
    let ours = times(held.memory_bytes);
    let figures = format!("{ours:.4} times, as Stook counts its memory.{}", theirs.unwrap_or_default());
    (Verdict::of(holds(ours)), figures)
}

/// `small` and `large` work by Python against native code, where the document has about `published`
/// times for the small.
fn from_python(found: &Findings, [small, large]: [&[Work]; 2], published: f64) -> Judgement {
    let rows = |works: &[Work]| works.iter().filter_map(|work| row(&found.rows, *work)).collect::<Vec<_>>();
    let (small, large) = (rows(small), rows(large));
    let said = |rows: &[&Row], ratio: fn(&Row) -> Option<f64>| {
        let one = |row: &&Row| {
            format!("{}: {}", row.work.label(), ratio(row).map_or_else(|| NONE.to_owned(), units::factor))
        };
        rows.iter().map(one).collect::<Vec<_>>().join("; ")
    };
    let theirs = found.svfsc.version.is_some().then(|| {
        format!(
            " svfsc, whose C++ is reached only through Python here, and so against itself without the interpreter's part, \
             at least: {}; {}.",
            said(&small, of_svfsc),
            said(&large, of_svfsc)
        )
    });
    let theirs = theirs.unwrap_or_default();
    let ratios = |rows: &[&Row]| rows.iter().map(|row| of_native(row)).collect::<Option<Vec<f64>>>();
    let known =
        ratios(&small).zip(ratios(&large)).filter(|(small, large)| !small.is_empty() && !large.is_empty());
    let Some((ones, others)) = known else {
        return not_measured(format!("{}{theirs}", found.stook_python.why_not()));
    };
    let is_about = |ratio: &f64| (published / ABOUT..=published * ABOUT).contains(ratio);
    let holds = ones.iter().all(is_about) && others.iter().all(|ratio| *ratio <= ABOUT);
    let figures = format!("{}; {}.{theirs}", said(&small, of_native), said(&large, of_native));
    (Verdict::of(holds), figures)
}

fn threads_differ(found: &Findings) -> Judgement {
    let scaling = |by: By, is_joined: bool| {
        let seconds = |threads| by.seconds(row(&found.rows, Work::Overwrite { threads, is_joined })?);
        Some(seconds(MANY)? / seconds(1)?)
    };
    let both = |by| [false, true].map(|is_joined| scaling(by, is_joined));
    let said = |by: By| match both(by) {
        [Some(apart), Some(joined)] => {
            format!(" {}: {} apart, {} touching.", by.label(), units::factor(apart), units::factor(joined))
        }
        _ => String::new(),
    };
    let figures: String = By::ALL.map(said).concat();
    let pairs = both(By::Stook).into_iter().zip(both(By::StookPython));
    let pairs: Option<Vec<f64>> = pairs.map(|(native, python)| Some(python? / native?)).collect();
    let Some(ratios) = pairs else {
        return not_measured(format!("{}{figures}", found.stook_python.why_not()));
    };
    let differs = ratios.iter().any(|ratio| !(1.0 / ABOUT..=ABOUT).contains(ratio));
    (Verdict::of(differs), format!("The time of {MANY} threads ÷ that of one.{figures}"))
}

#[cfg(test)]
mod tests {
    use super::super::python::Installed;
    use super::super::work::Held;
    use super::*;
    use crate::frame::judged;

    #[test]
    fn its_figures_of_memory_are_those_of_a_mebibyte() {
        for claim in &CLAIMS[1..3] {
            assert_eq!((claim.there)().0, Verdict::Holds, "{}", claim.published);
        }
    }

    #[test]
    fn memory_is_held_against_what_is_printed_up_and_down() {
        for (words, block_bytes, memory_bytes, expected) in [
            ("33 times", 1, 34_603_192, Verdict::Holds),
            ("33 times", 1, 20 << 20, Verdict::DoesNotHold),
            ("33 times", 1, 100 << 20, Verdict::DoesNotHold),
            ("premium", 256, 1_179_832, Verdict::Holds),
            ("premium", 256, TOTAL_BYTES, Verdict::Holds),
            ("premium", 256, 1_190_000, Verdict::DoesNotHold),
        ] {
            let held = Held { block_bytes, data_bytes: TOTAL_BYTES, memory_bytes, svfsc_memory_bytes: None };
            let found = Findings { memory: vec![held], ..Findings::of_rows(Vec::new()) };
            assert_eq!(verdict(&found, words).0, expected, "{words} {memory_bytes}");
        }
    }

    /// A call takes 100 ns from Rust, and these many times as long from Python for blocks of one
    /// byte and for others.
    fn found(small: f64, large: f64, python_scaling: f64) -> Findings {
        let calls = |work: Work| work.plan().map_or(1, |plan| plan.calls.count) as f64;
        let threads = |work: Work| match work {
            Work::Overwrite { threads, .. } => threads as f64,
            _ => 1.0,
        };
        let seconds = |work: Work| match work {
            Work::NeedOf { block_bytes } => (TOTAL_BYTES / block_bytes) as f64 * 1e-9,
            Work::NeedAll { blocks } => blocks as f64 * 1e-9,
            _ => calls(work) * 100e-9 * threads(work),
        };
        let python = |work: Work| {
            let is_small = work.plan()?.calls.len == 1;
            let scaling = if threads(work) > 1.0 { python_scaling } else { 1.0 };
            Some(seconds(work) * if is_small { small } else { large } * scaling)
        };
        let version = Installed { version: Some("1".to_owned()), left_out: None };
        Findings { stook_python: version, ..Findings::of_rows(Row::all_taking(seconds, python)) }
    }

    fn verdict(found: &Findings, words: &str) -> (Verdict, String) {
        let judged = judged(&CLAIMS, found);
        let one = judged.into_iter().find(|one| one.published.contains(words)).unwrap();
        (one.verdict, one.here)
    }

    #[test]
    fn python_is_held_against_native_code() {
        for (small, large, reading, writing) in [
            (5.0, 1.1, Verdict::Holds, Verdict::DoesNotHold),
            (3.0, 1.4, Verdict::DoesNotHold, Verdict::Holds),
            (4.0, 1.0, Verdict::Holds, Verdict::Holds),
            (5.0, 2.0, Verdict::DoesNotHold, Verdict::DoesNotHold),
        ] {
            let found = found(small, large, 1.0);
            assert_eq!(verdict(&found, "Reading from Python").0, reading, "{small} {large}");
            assert_eq!(verdict(&found, "Writing from Python").0, writing, "{small} {large}");
        }
        let (_, figures) = verdict(&found(5.0, 1.1, 1.0), "Reading from Python");
        let expected = "read blocks of 1 B that do not touch: 5.00×; read blocks of 512 B that do not touch: 1.10×; read all \
                        of it at once: 1.10×.";
        assert_eq!(figures, expected);
    }

    #[test]
    fn threads_differ_where_their_time_grows_otherwise() {
        assert_eq!(verdict(&found(5.0, 1.0, 1.0), "Several threads").0, Verdict::DoesNotHold);
        assert_eq!(verdict(&found(5.0, 1.0, 2.0), "Several threads").0, Verdict::Holds);
        let (faster, figures) = verdict(&found(5.0, 1.0, 0.5), "Several threads");
        assert_eq!(faster, Verdict::Holds);
        assert!(figures.contains("Stook: 8.00× apart, 8.00× touching. Stook, Python: 4.00×"), "{figures}");
    }

    #[test]
    fn without_our_package_it_is_not_measured_and_says_why() {
        let seconds = |work: Work| work.plan().map_or(1.0, |plan| plan.calls.count as f64);
        let mut rows = Row::all_taking(seconds, |_| None);
        for row in &mut rows {
            (row.svfsc_python_s, row.interpreter_s) = (Some(3.0), Some(1.0));
        }
        let version = Installed { version: Some("0.4.1".to_owned()), left_out: None };
        let found = Findings { svfsc: version, ..Findings::of_rows(rows) };
        for words in ["Reading from Python", "Writing from Python", "Several threads"] {
            let (verdict, why) = verdict(&found, words);
            assert_eq!(verdict, Verdict::NotMeasured, "{words}");
            assert!(why.starts_with("It is not installed."), "{why}");
        }
        let (_, why) = verdict(&found, "Reading from Python");
        assert!(why.contains("reached only through Python here") && why.contains("1.50×"), "{why}");
    }

    #[test]
    fn need_is_linear_where_both_experiments_are() {
        let (linear, figures) = verdict(&found(5.0, 1.0, 1.0), "linear");
        assert_eq!(linear, Verdict::Holds);
        assert!(figures.contains("to the power of 1.00, 1.0 ns for each block more, R² 1.000"), "{figures}");
        let squares = |work: Work| match work {
            Work::NeedOf { block_bytes } => ((TOTAL_BYTES / block_bytes) as f64).powi(2),
            Work::NeedAll { blocks } => blocks as f64,
            _ => 1.0,
        };
        let found = Findings::of_rows(Row::all_taking(squares, |_| None));
        assert_eq!(verdict(&found, "linear").0, Verdict::DoesNotHold);
    }
}
