//! The conclusions of the published notes on copying, and which of them hold here.

use stook::report::units;

use super::cached::Cached;
use super::progress::{self, Computed};
use super::published::{CHECKS, DISKS, LOCAL, RATED};
use super::ways::{PUBLISHED_BLOCK_BYTES, PUBLISHED_QUEUE, QUEUES, Way};
use super::{Findings, Row};
use crate::frame::{Claim, Judgement, no_figures, not_measured};
use crate::verdict::Verdict;

/// A difference of less than this share is none.
const NOTICEABLE: f64 = 0.10;
/// What is called significant.
const SIGNIFICANT: f64 = 0.20;

const WINDOWS: &str = "This is Linux.";

pub(super) const CLAIMS: [Claim<Findings>; 16] = [
    Claim {
        section: "Linux Subsystem for Windows (WSL) considerations",
        published: "In WSL everything takes 3 to 4 times as long as on Windows, so it is to be avoided.",
        check: "The same copies in WSL and on Windows.",
        there: no_figures,
        here: |_| not_measured(WINDOWS),
    },
    Claim {
        section: "Native Windows performance",
        published: "The program is on par with Robocopy and the dialogs of Windows, or slightly faster.",
        check: "Here against cp: two threads without options copy no more than 10% slower.",
        there: no_figures,
        here: |found| {
            let rates = [Way::PUBLISHED, Way::Cp].map(|way| found.rate(way));
            let [Some(threads), Some(cp)] = rates else { return not_measured("Not all of it was measured.") };
            let figures =
                format!("{} against {} of cp; Robocopy is not here.", units::rate(threads), units::rate(cp));
            (Verdict::of(threads >= cp * (1.0 - NOTICEABLE)), figures)
        },
    },
    Claim {
        section: "Performance with provided defaults",
        published: "Blocks of 128K and a queue of 10 are great.",
        check: "No other block or queue that was tried is more than 10% faster.",
        there: no_figures,
        here: |found| near_best(found, Way::PUBLISHED),
    },
    Claim {
        section: "External disk-to-disk tests",
        published: "A copy reaches 98.4% of what the destination is rated at, if the source is fast.",
        check: "Rate ÷ rating of the destination, 95% or more, from another drive.",
        there: || {
            let share = DISKS.number(0, 2).unwrap_or(f64::NAN) / RATED[0];
            (Verdict::of(share >= 0.95), format!("{:.1}% of 271 MB/s.", share * 100.0))
        },
        here: |found| rated(found, &[("--rated-write", found.rated_write_bytes_per_s)], 0.95),
    },
    Claim {
        section: "Additional details",
        published: "A card gives more than it is rated at: 105% of reads, 130% of writes.",
        check: "Rate ÷ rating, above 100%.",
        there: || {
            let share = |row: usize| DISKS.number(row, 2).unwrap_or(f64::NAN) / RATED[row];
            let figures = format!("{:.1}% and {:.1}%.", share(3) * 100.0, share(4) * 100.0);
            (Verdict::of(share(3) > 1.0 && share(4) > 1.0), figures)
        },
        here: |found| {
            let (reads, writes) = (found.rated_read_bytes_per_s, found.rated_write_bytes_per_s);
            rated(found, &[("--rated-read", reads), ("--rated-write", writes)], 1.0)
        },
    },
    Claim {
        section: "Additional details",
        published: "Another cable slows a reader of cards down to 30 MB/s.",
        check: "The same copy by another cable.",
        there: no_figures,
        here: |_| {
            not_measured("No cable is changed here; `stook copy` says how much of its link a copy used.")
        },
    },
    Claim {
        section: "Benchmarking is hard",
        published: "A copy of files that fit into memory is impossibly fast when it runs again; of files that are larger it is not.",
        check: "With 0.3 of memory the source is copied at least 20% faster than cold, with 2.3 of it less than 20%.",
        there: || {
            let [own, again] = [0, 2].map(|row| CHECKS.number(row, 1).unwrap_or(f64::NAN));
            (Verdict::of(again > own * (1.0 + SIGNIFICANT)), format!("{own} and {again} MB/s."))
        },
        here: from_memory,
    },
    Claim {
        section: "Benchmarking is hard",
        published: "Twice the rate of a copy within a drive must fit through its link.",
        check: "No cold copy is above 100%, of the link where that is known, or of reads in order.",
        there: || {
            let twice = LOCAL.number(1, 1).unwrap_or(f64::NAN) * 2.0 / 600.0;
            (Verdict::of(twice <= 1.0), format!("{:.0}% of 600 MB/s.", twice * 100.0))
        },
        here: possible,
    },
    Claim {
        section: "Local tests, Benchmarking is hard",
        published: "Outliers at which twice the rate does not fit through the link came from memory, and are to be ignored.",
        check: "A copy whose source is in memory is above 100%. Here such copies are marked, and none is called the best.",
        there: || {
            let twice = CHECKS.number(2, 1).unwrap_or(f64::NAN) * 2.0 / 600.0;
            (Verdict::of(twice > 1.0), format!("{:.0}% of 600 MB/s.", twice * 100.0))
        },
        here: outliers,
    },
    Claim {
        section: "Additional details",
        published: "Its line of progress: 235GiB 78MiB 512KiB in 855s are 252GB, 295.218 MB/s, 281.5 MiB/s, and 105% of 280.",
        check: "Each is computed from the others, and agrees to the last digit that is printed; here bytes ÷ time of every \
                way, to 0.1%.",
        there: || {
            let found = progress::computed();
            let figure = |one: &Computed| format!("{}: {:.3} {}", one.what, one.value, one.unit);
            let checked = || found.iter().filter(|one| one.agrees().is_some());
            let figures: Vec<String> = checked().map(figure).collect();
            let holds = checked().all(|one| one.agrees() == Some(true)) && !figures.is_empty();
            (Verdict::of(holds), format!("{}.", figures.join("; ")))
        },
        here: arithmetic,
    },
    Claim {
        section: "Queue size",
        published: "A queue of 1 is marginally slower, if at all, and one of 1000 no faster.",
        check: "Both lie within 10% of a queue of 10.",
        there: no_figures,
        here: queues,
    },
    Claim {
        section: "Block size",
        published: "128K is close to optimal.",
        check: "No other block that was tried is more than 10% faster.",
        there: no_figures,
        here: |found| near_best(found, Way::PUBLISHED),
    },
    Claim {
        section: "Block size",
        published: "Small buffers, 128K, 1M to 8M, suffice.",
        check: "Blocks of 1 and 8 MiB lie within 10% of 128 KiB, or above it.",
        there: no_figures,
        here: |found| against(found, &[1 << 20, 8 << 20], |share| share >= 1.0 - NOTICEABLE),
    },
    Claim {
        section: "Block size",
        published: "Too small blocks, 1K, hurt.",
        check: "Blocks of 1 KiB are more than 10% slower than of 128 KiB.",
        there: no_figures,
        here: |found| against(found, &[1 << 10], |share| share < 1.0 - NOTICEABLE),
    },
    Claim {
        section: "Block size",
        published: "Too large blocks, 1G, hurt significantly.",
        check: "Blocks of 1 GiB are more than 20% slower than of 128 KiB.",
        there: no_figures,
        here: |found| against(found, &[1 << 30], |share| share < 1.0 - SIGNIFICANT),
    },
    Claim {
        section: "Block size",
        published: "Blocks of a reasonable size keep source and destination busy: a hard disk is quieter, and done earlier.",
        check: "What a disk sounds like with blocks of different sizes.",
        there: no_figures,
        here: |_| not_measured("Nothing listens here; which blocks are done earlier is judged above."),
    },
];

impl Findings {
    /// How fast it copied, bytes per second.
    pub(super) fn rate(&self, way: Way) -> Option<f64> {
        self.rows.iter().find(|row| row.way == way).and_then(|row| row.bytes_per_s)
    }
}

/// Whether nothing else that the document's program can be told is much faster.
fn near_best(found: &Findings, way: Way) -> Judgement {
    let Some(own) = found.rate(way) else { return not_measured("It was not measured.") };
    let threads = found.rows.iter().filter(|row| matches!(row.way, Way::Threads { .. }) && !row.is_cached());
    let best = threads
        .max_by(|one, other| one.bytes_per_s.unwrap_or(0.0).total_cmp(&other.bytes_per_s.unwrap_or(0.0)));
    let Some((best, most)) = best.and_then(|row| Some((row.way.label(), row.bytes_per_s?))) else {
        return not_measured("Nothing was measured.");
    };
    let figures = format!("{}; the best is {} ({best}).", units::rate(own), units::rate(most));
    (Verdict::of(most <= own * (1.0 + NOTICEABLE)), figures)
}

/// Rates of these blocks against that of 128 KiB.
fn against(found: &Findings, blocks: &[u64], holds: fn(f64) -> bool) -> Judgement {
    let Some(own) = found.rate(Way::PUBLISHED) else { return not_measured("It was not measured.") };
    let mut verdict = Verdict::Holds;
    let mut figures = Vec::new();
    for &block_bytes in blocks {
        let way = Way::Threads { block_bytes, queue: PUBLISHED_QUEUE };
        let Some(rate) = found.rate(way) else {
            let why = found.rows.iter().find(|row| row.way == way).and_then(|row| row.left_out.clone());
            return not_measured(why.unwrap_or_else(|| "It was not measured.".to_owned()));
        };
        figures.push(format!("{} with {}", units::percent(rate / own), units::bytes_binary(block_bytes)));
        if !holds(rate / own) {
            verdict = Verdict::DoesNotHold;
        }
    }
    (verdict, format!("Of the rate with 128 KiB: {}.", figures.join(", ")))
}

fn queues(found: &Findings) -> Judgement {
    let rate = |queue| found.rate(Way::Threads { block_bytes: PUBLISHED_BLOCK_BYTES, queue });
    let rates = QUEUES.map(rate);
    let [Some(one), Some(ten), Some(thousand)] = rates else { return not_measured("Not all were measured.") };
    let holds = [one, thousand].iter().all(|rate| (rate / ten - 1.0).abs() <= NOTICEABLE);
    let figures = format!(
        "{} of it with a queue of 1, {} with one of 1000.",
        units::percent(one / ten),
        units::percent(thousand / ten)
    );
    (Verdict::of(holds), figures)
}

/// The rate against ratings, each with its option; all that are known must be reached to at least
/// this share.
fn rated(found: &Findings, ratings: &[(&str, Option<f64>)], least: f64) -> Judgement {
    let known: Vec<(&str, f64)> =
        ratings.iter().filter_map(|(option, rating)| Some((*option, (*rating)?))).collect();
    if known.is_empty() {
        let options: Vec<&str> = ratings.iter().map(|(option, _)| *option).collect();
        let options = options.join(" or ");
        return not_measured(format!("What the drive is rated at is not known: name it with {options}."));
    }
    if !found.is_between_drives {
        return not_measured("The copy stays within one drive: name another with --to.");
    }
    let Some(rate) = found.rate(Way::PUBLISHED) else { return not_measured("It was not measured.") };
    let share = |(option, rating): &(&str, f64)| {
        let option = option.trim_start_matches("--").replace('-', " ");
        format!("{} of {} ({option})", units::percent(rate / rating), units::rate(*rating))
    };
    let figures: Vec<String> = known.iter().map(share).collect();
    let figures = format!("{}{}.", figures.join(", "), found.mark());
    (Verdict::of(known.iter().all(|(_, rating)| rate / rating >= least)), figures)
}

/// Whether a copy out of memory is seen by its rate.
fn outliers(found: &Findings) -> Judgement {
    let Some(limit) = &found.limit else { return not_measured("No limit is known.") };
    let Some(seconds) = found.cached.first().and_then(|cached| cached.seconds) else {
        let why = found.cached.first().and_then(|cached| cached.left_out.clone());
        let why = why.unwrap_or_else(|| "no copy out of memory was made".to_owned());
        return not_measured(format!("Not measured: {why}."));
    };
    let passes = if found.is_within_disks { 2.0 } else { 1.0 };
    let share = passes * found.file_bytes as f64 / seconds / limit.bytes_per_s;
    let marked = found.rows.iter().filter(|row| row.is_cached()).count();
    let figures = format!(
        "{} of {} with the source in memory; {} of the cold copies are marked.",
        units::percent(share),
        limit.what,
        units::count(marked as u64)
    );
    (Verdict::of(share > 1.0), figures)
}

/// Whether our own rates are bytes ÷ time, and MiB/s what MB/s are.
fn arithmetic(found: &Findings) -> Judgement {
    let bytes = found.file_bytes as f64;
    let off = |row: &Row| Some((bytes / row.seconds? / row.bytes_per_s? - 1.0).abs());
    let offs: Vec<f64> = found.rows.iter().filter_map(off).collect();
    let (Some(most), Some(rate)) = (offs.iter().copied().reduce(f64::max), found.rate(Way::PUBLISHED)) else {
        return not_measured("Nothing was measured.");
    };
    let figures = format!(
        "{} in {:.3} s are {:.3} MB/s, {:.3} MiB/s; no way is off by more than {:.4}%.",
        units::bytes_binary(found.file_bytes),
        bytes / rate,
        rate / 1e6,
        rate / f64::from(1 << 20),
        most * 100.0
    );
    (Verdict::of(most < 1e-3), figures)
}

fn from_memory(found: &Findings) -> Judgement {
    let Some(cold) = found.rate(Way::Cp) else { return not_measured("Nothing was copied cold.") };
    let rate = |cached: &Cached| Some(found.file_bytes as f64 / cached.seconds?);
    let rates: Vec<f64> = found.cached.iter().filter_map(rate).collect();
    let [fits, does_not] = rates.as_slice() else {
        let why = found.cached.iter().find_map(|cached| cached.left_out.clone());
        return not_measured(
            why.map_or_else(|| "Not measured.".to_owned(), |why| format!("Not measured: {why}.")),
        );
    };
    let holds = *fits >= cold * (1.0 + SIGNIFICANT) && *does_not < cold * (1.0 + SIGNIFICANT);
    let figures = format!(
        "cp copies at {} cold, at {} when the source fits into memory, at {} when it does not.",
        units::rate(cold),
        units::rate(*fits),
        units::rate(*does_not)
    );
    (Verdict::of(holds), figures)
}

fn possible(found: &Findings) -> Judgement {
    let Some(limit) = &found.limit else { return not_measured("No limit is known.") };
    let of_limit = found.rows.iter().filter_map(|row| Some((row.way, row.of_limit?)));
    let Some((way, most)) = of_limit.max_by(|one, other| one.1.total_cmp(&other.1)) else {
        return not_measured("Nothing was measured.");
    };
    let figures = format!("At most {} of {} ({}).", units::percent(most), limit.what, way.label());
    (Verdict::of(most <= 1.0), figures)
}

#[cfg(test)]
mod tests {
    use super::super::End;
    use super::super::ways::BLOCKS;
    use super::*;
    use crate::frame::judged;

    /// Every block at this rate in MB/s, with 1 KiB, 1 GiB and a queue of 1 at their own.
    fn found(small: f64, large: f64, queue: f64) -> Findings {
        let mut found = Findings::copying(200e6);
        for row in &mut found.rows {
            let rate = match row.way {
                Way::Threads { block_bytes: 1024, .. } => small,
                Way::Threads { block_bytes, .. } if block_bytes == BLOCKS[7] => large,
                Way::Threads { queue: 1, .. } => queue,
                _ => 200.0,
            };
            row.bytes_per_s = Some(rate * 1e6);
            row.seconds = Some(found.file_bytes as f64 / (rate * 1e6));
            // A link of 1 GB/s.
            row.of_limit = Some(2.0 * rate / 1000.0);
        }
        found
    }

    fn verdict(found: &Findings, words: &str) -> Verdict {
        let judged = judged(&CLAIMS, found);
        judged.iter().find(|one| one.published.contains(words)).unwrap().verdict
    }

    #[test]
    fn verdicts_follow_the_rates() {
        let as_published = found(100.0, 50.0, 195.0);
        for words in [
            "128K and a queue",
            "A queue of 1",
            "close to optimal",
            "1M to 8M",
            "1K, hurt",
            "1G, hurt",
            "on par",
        ] {
            assert_eq!(verdict(&as_published, words), Verdict::Holds, "{words}");
        }
        let other = found(400.0, 300.0, 100.0);
        for words in ["128K and a queue", "A queue of 1", "close to optimal", "1K, hurt", "1G, hurt"] {
            assert_eq!(verdict(&other, words), Verdict::DoesNotHold, "{words}");
        }
        for words in ["WSL", "98.4%", "105% of reads", "cable", "fit into memory", "Outliers", "quieter"] {
            assert_eq!(verdict(&as_published, words), Verdict::NotMeasured, "{words}");
        }
    }

    #[test]
    fn an_impossible_rate_is_seen_to_come_and_go() {
        let cached = |seconds: [f64; 2]| {
            let one = |(data_of_memory, seconds)| Cached {
                data_of_memory,
                memory_bytes: 1,
                seconds: Some(seconds),
                left_out: None,
            };
            let cached = super::super::cached::SHARES.into_iter().zip(seconds).map(one).collect();
            Findings { cached, file_bytes: 200_000_000, ..found(100.0, 50.0, 195.0) }
        };
        assert_eq!(verdict(&cached([0.3, 1.0]), "fit into memory"), Verdict::Holds);
        assert_eq!(verdict(&cached([1.0, 1.0]), "fit into memory"), Verdict::DoesNotHold);
        assert_eq!(verdict(&cached([0.3, 0.3]), "fit into memory"), Verdict::DoesNotHold);
    }

    #[test]
    fn ratings_are_judged_from_drive_to_drive_only_and_simulated_ones_are_marked() {
        let ratings = |read, write| Findings {
            rated_read_bytes_per_s: read,
            rated_write_bytes_per_s: write,
            is_between_drives: true,
            ..found(100.0, 50.0, 195.0)
        };
        for (read, write, reached, exceeded) in [
            (None, Some(205e6), Verdict::Holds, Verdict::DoesNotHold),
            (None, Some(271e6), Verdict::DoesNotHold, Verdict::DoesNotHold),
            (Some(190e6), Some(195e6), Verdict::Holds, Verdict::Holds),
            (Some(190e6), None, Verdict::NotMeasured, Verdict::Holds),
            (None, None, Verdict::NotMeasured, Verdict::NotMeasured),
        ] {
            let found = ratings(read, write);
            assert_eq!(verdict(&found, "98.4%"), reached, "{read:?} {write:?}");
            assert_eq!(verdict(&found, "105% of reads"), exceeded, "{read:?} {write:?}");
        }
        let within = Findings { is_between_drives: false, ..ratings(Some(1e6), Some(1e6)) };
        assert_eq!(verdict(&within, "98.4%"), Verdict::NotMeasured);
        let destination = End { simulated: Some("loop0 is a file".to_owned()), ..End::default() };
        let simulated = Findings { destination, ..ratings(None, Some(200e6)) };
        let judged = judged(&CLAIMS, &simulated);
        let one = judged.iter().find(|one| one.published.contains("98.4%")).unwrap();
        assert_eq!(one.here, "100.0% of 200 MB/s (rated write) (simulated).");
    }

    #[test]
    fn outliers_are_those_that_do_not_fit_through_the_link() {
        let copied = |seconds: f64| {
            let (memory_bytes, left_out) = (1, None);
            let cached = Cached { data_of_memory: 0.3, memory_bytes, seconds: Some(seconds), left_out };
            Findings { cached: vec![cached], file_bytes: 300_000_000, ..found(100.0, 50.0, 195.0) }
        };
        // Of 600 MB/s, and twice.
        assert_eq!(verdict(&copied(0.9), "Outliers"), Verdict::Holds);
        assert_eq!(verdict(&copied(1.1), "Outliers"), Verdict::DoesNotHold);
    }

    #[test]
    fn a_rate_that_is_not_bytes_by_time_is_found_and_so_is_the_best_that_was_cached() {
        let mut found = found(100.0, 50.0, 195.0);
        assert_eq!(verdict(&found, "line of progress"), Verdict::Holds);
        found.rows[0].seconds = found.rows[0].seconds.map(|seconds| seconds * 1.01);
        assert_eq!(verdict(&found, "line of progress"), Verdict::DoesNotHold);
        let fast = &mut found.rows[1];
        (fast.bytes_per_s, fast.of_limit) = (Some(400e6), Some(0.8));
        assert_eq!(verdict(&found, "close to optimal"), Verdict::DoesNotHold);
        found.rows[1].of_limit = Some(1.2);
        assert_eq!(verdict(&found, "close to optimal"), Verdict::Holds, "it came from memory");
    }

    #[test]
    fn its_own_figures_show_what_it_concludes_from_them() {
        for one in judged(&CLAIMS, &Findings::empty()) {
            assert_ne!(one.verdict_of_published, Verdict::DoesNotHold, "{one:?}");
            assert!(one.verdict == Verdict::NotMeasured && !one.here.is_empty(), "{one:?}");
        }
    }
}
