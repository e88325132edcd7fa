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

/// A file of fewer blocks is hardly read and written at the same time, and never fills a queue.
const BLOCKS_MIN: u64 = 10;

const WINDOWS: &str = "This is Linux.";

pub(super) const CLAIMS: [Claim<Findings>; 18] = [
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
        check: "Here against cp: two threads at the defaults (128 KiB, queue 10) are at most 10% slower than cp, and at most 20% \
                faster, in every round.",
        there: no_figures,
        here: |found| {
            let rates = [Way::PUBLISHED, Way::Cp].map(|way| found.rate(way));
            let [Some(threads), Some(cp)] = rates else { return not_measured("Not all of it was measured.") };
            let ratios = found.ratios(Way::PUBLISHED, Way::Cp);
            let figures = format!(
                "{} against {} of cp: {} of it; Robocopy is not here.",
                units::rate(threads),
                units::rate(cp),
                spread(&ratios)
            );
            let band = 1.0 - NOTICEABLE..=1.0 + SIGNIFICANT;
            beyond_spread(&ratios.iter().map(|ratio| band.contains(ratio)).collect::<Vec<_>>(), figures)
        },
    },
    Claim {
        section: "Performance with provided defaults",
        published: "Blocks of 128K and a queue of 10 are great.",
        check: "No other block or queue that was tried is more than 10% faster.",
        there: no_figures,
        here: |found| near_best(found, &Way::all()),
    },
    Claim {
        section: "External disk-to-disk tests",
        published: "A copy reaches 98.4% of what the destination is rated at, if the source is fast.",
        check: "Rate ÷ rating of the destination, 95% or more, from another drive.",
        there: || {
            let share = DISKS.number(0, 2).unwrap_or(f64::NAN) / RATED[0];
            (Verdict::of(share >= 0.95), format!("{:.1}% of 271 MB/s.", share * 100.0))
        },
        here: |found| {
            rated(found, &[("--rated-write", found.rated_write_bytes_per_s)], |share| share >= 0.95)
        },
    },
    Claim {
        section: "Additional details",
        published: "A card gives more than it is rated at: 105% of reads, 130% of writes.",
        check: "Rate ÷ rating, above 100%; of two ratings of one copy the lower counts, which bounds it.",
        there: || {
            let share = |row: usize| DISKS.number(row, 2).unwrap_or(f64::NAN) / RATED[row];
            let figures = format!("{:.1}% and {:.1}%.", share(3) * 100.0, share(4) * 100.0);
            (Verdict::of(share(3) > 1.0 && share(4) > 1.0), figures)
        },
        here: |found| {
            let (reads, writes) = (found.rated_read_bytes_per_s, found.rated_write_bytes_per_s);
            rated(found, &[("--rated-read", reads), ("--rated-write", writes)], |share| share > 1.0)
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
        check: "In a control group of whose memory the file is 0.3, cp copies a source that was read before at least 20% faster \
                than a cold one; in one of which it is 2.3, less than 20% faster; in every round.",
        there: || {
            let [own, again] = [0, 2].map(|row| CHECKS.number(row, 1).unwrap_or(f64::NAN));
            let figures = format!(
                "{own} and {again} MB/s. No rate of the larger files is printed, so that half is not checked."
            );
            (Verdict::of(again > own * (1.0 + SIGNIFICANT)), figures)
        },
        here: from_memory,
    },
    Claim {
        section: "Benchmarking is hard",
        published: "Twice the rate of a copy within a drive must fit through its link: 79%, 70% of the dialog of Windows and \
                    89% make sense.",
        check: "Within a drive twice the rate of no cold copy is above 100% of what reads and writes share.",
        there: || {
            let rates = [LOCAL.number(1, 1), Some(210.0), progress::other_own_rate()];
            let shares = rates.map(|rate| rate.unwrap_or(f64::NAN) * 2.0 / 600.0);
            let [own, dialog, other] = shares.map(|share| format!("{:.0}%", share * 100.0));
            let holds = shares.iter().all(|share| *share <= 1.0);
            (Verdict::of(holds), format!("{own}, {dialog} and {other} of 600 MB/s."))
        },
        here: possible,
    },
    Claim {
        section: "Local tests, Benchmarking is hard",
        published: "Outliers at which twice the rate does not fit through the link came from memory, and are to be ignored.",
        check: "Within a drive cp is above 100% with its source in memory, and not when cold. Copies above 100% are marked, \
                and none is called the best.",
        there: || {
            let twice = CHECKS.number(2, 1).unwrap_or(f64::NAN) * 2.0 / 600.0;
            (Verdict::of(twice > 1.0), format!("{:.0}% of 600 MB/s.", twice * 100.0))
        },
        here: outliers,
    },
    Claim {
        section: "Additional details",
        published: "Its line of progress: 235GiB 78MiB 512KiB in 855s are 252GB, 295.218 MB/s, 281.5 MiB/s, and 105% of 280.",
        check: "Each is computed from the others, and agrees to the last digit that is printed.",
        there: || {
            let found = progress::computed();
            let figure = |one: &Computed| format!("{}: {:.3} {}", one.what, one.value, one.unit);
            let checked = || found.iter().filter(|one| one.agrees().is_some());
            let figures: Vec<String> = checked().map(figure).collect();
            let holds = checked().all(|one| one.agrees() == Some(true)) && !figures.is_empty();
            (Verdict::of(holds), format!("{}.", figures.join("; ")))
        },
        here: |_| not_measured("The figures are the document's own, and are checked beside."),
    },
    Claim {
        section: "Queue size",
        published: "Another queue makes no meaningful difference.",
        check: "Queues of 1 and 1000 lie within 10% of a queue of 10.",
        there: no_figures,
        here: |found| {
            queues(found, |one, thousand| {
                [one, thousand].iter().all(|share| (share - 1.0).abs() <= NOTICEABLE)
            })
        },
    },
    Claim {
        section: "Queue size",
        published: "A small queue suffices.",
        check: "A queue of 1 or of 10 is at most 10% slower than the quickest of 1, 10 and 1000, in every round.",
        there: no_figures,
        here: |found| {
            queues(found, |one, thousand| one.max(1.0) >= one.max(thousand).max(1.0) * (1.0 - NOTICEABLE))
        },
    },
    Claim {
        section: "Queue size",
        published: "A queue of 1 is marginally slower, if at all, and one of 1000 no faster.",
        check: "With a queue of 1 at most 10% slower than with 10, with one of 1000 at most 10% faster.",
        there: no_figures,
        here: |found| queues(found, |one, thousand| one >= 1.0 - NOTICEABLE && thousand <= 1.0 + NOTICEABLE),
    },
    Claim {
        section: "Block size",
        published: "128K is close to optimal.",
        check: "No other block that was tried, with a queue of 10, is more than 10% faster.",
        there: no_figures,
        here: |found| {
            let is_of_queue = |way: &Way| matches!(way, Way::Threads { queue: PUBLISHED_QUEUE, .. });
            near_best(found, &Way::all().into_iter().filter(is_of_queue).collect::<Vec<_>>())
        },
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
    /// How fast a way is against another, in each round.
    fn ratios(&self, way: Way, base: Way) -> Vec<f64> {
        let runs = |way| self.rows.iter().find(|row| row.way == way).map_or(&[][..], |row| &row.runs[..]);
        runs(way).iter().zip(runs(base)).map(|(seconds, base)| base / seconds).collect()
    }

    /// How fast it copied, bytes per second.
    pub(super) fn rate(&self, way: Way) -> Option<f64> {
        self.rows.iter().find(|row| row.way == way).and_then(|row| row.bytes_per_s)
    }
}

/// A verdict that every round comes to; where they differ, or there is one only, nothing is
/// decided.
fn beyond_spread(rounds: &[bool], figures: String) -> Judgement {
    match rounds {
        [] | [_] => not_measured(format!("{figures} One round has no spread: --runs 2 or more.")),
        [first, others @ ..] if others.iter().all(|one| one == first) => (Verdict::of(*first), figures),
        _ => not_measured(format!("{figures} The rounds differ about it.")),
    }
}

/// The least and the most of the rounds.
fn spread(ratios: &[f64]) -> String {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    match ratios {
        [] => "–".to_owned(),
        [one] => units::percent(*one),
        _ => format!("{} to {}", units::percent(least), units::percent(most)),
    }
}

/// Whether none of these ways of two threads is much faster than the published one: one that is so
/// in every round is enough, and none may be in any.
fn near_best(found: &Findings, among: &[Way]) -> Judgement {
    let Some(own) = found.rate(Way::PUBLISHED) else { return not_measured("It was not measured.") };
    let is_other = |row: &&Row| {
        matches!(row.way, Way::Threads { .. }) && among.contains(&row.way) && row.way != Way::PUBLISHED
    };
    let others = found.rows.iter().filter(is_other).filter(|row| !row.is_cached());
    let others: Vec<(&Row, Vec<f64>)> = others
        .map(|row| (row, found.ratios(row.way, Way::PUBLISHED)))
        .filter(|(_, ratios)| !ratios.is_empty())
        .collect();
    let median = |row: &Row| row.bytes_per_s.unwrap_or(0.0);
    let Some((best, ratios)) = others.iter().max_by(|one, other| median(one.0).total_cmp(&median(other.0)))
    else {
        return not_measured("Nothing was measured.");
    };
    let figures = format!(
        "{}; the best other is {} ({}), {} of it.",
        units::rate(own),
        units::rate(median(best)),
        best.way.label(),
        spread(ratios)
    );
    let is_near = |ratio: &f64| *ratio <= 1.0 + NOTICEABLE;
    let each = |ratios: &Vec<f64>| ratios.iter().map(is_near).collect::<Vec<_>>();
    let faster = others.iter().find(|(_, ratios)| !ratios.iter().any(is_near));
    let deciding = faster.or_else(|| others.iter().find(|(_, ratios)| !ratios.iter().all(is_near)));
    beyond_spread(&each(deciding.map_or(ratios, |(_, ratios)| ratios)), figures)
}

/// Rates of these blocks against that of 128 KiB.
fn against(found: &Findings, blocks: &[u64], holds: fn(f64) -> bool) -> Judgement {
    let mut rounds: Vec<bool> = Vec::new();
    let mut figures = Vec::new();
    for &block_bytes in blocks {
        if found.file_bytes < BLOCKS_MIN * block_bytes {
            return not_measured(format!(
                "The file has fewer than {BLOCKS_MIN} blocks of {}, so that reads and writes hardly overlap: --size makes it \
                 larger.",
                units::bytes_binary(block_bytes)
            ));
        }
        let way = Way::Threads { block_bytes, queue: PUBLISHED_QUEUE };
        let ratios = found.ratios(way, Way::PUBLISHED);
        if ratios.is_empty() {
            let why = found.rows.iter().find(|row| row.way == way).and_then(|row| row.left_out.clone());
            return not_measured(why.unwrap_or_else(|| "It was not measured.".to_owned()));
        }
        figures.push(format!("{} with {}", spread(&ratios), units::bytes_binary(block_bytes)));
        let all = (0..ratios.len()).map(|round| rounds.get(round).copied().unwrap_or(true));
        rounds = all.zip(&ratios).map(|(all, ratio)| all && holds(*ratio)).collect();
    }
    beyond_spread(&rounds, format!("Of the rate with 128 KiB: {}.", figures.join(", ")))
}

/// The rates with queues of 1 and 1000 against that of 10.
fn queues(found: &Findings, holds: fn(f64, f64) -> bool) -> Judgement {
    let ratios =
        |queue| found.ratios(Way::Threads { block_bytes: PUBLISHED_BLOCK_BYTES, queue }, Way::PUBLISHED);
    let [one, _, thousand] = QUEUES.map(ratios);
    if one.is_empty() || thousand.is_empty() {
        return not_measured("Not all were measured.");
    }
    let figures =
        format!("{} of it with a queue of 1, {} with one of 1000.", spread(&one), spread(&thousand));
    let rounds: Vec<bool> = one.iter().zip(&thousand).map(|(one, thousand)| holds(*one, *thousand)).collect();
    beyond_spread(&rounds, figures)
}

/// The rate against ratings, each with its option; the lower of those that are known decides,
/// because only it can bound the copy.
fn rated(found: &Findings, ratings: &[(&str, Option<f64>)], holds: fn(f64) -> bool) -> Judgement {
    let known = ratings.iter().filter_map(|(option, rating)| Some((*option, (*rating)?)));
    let Some((option, rating)) = known.min_by(|one, other| one.1.total_cmp(&other.1)) else {
        let options: Vec<&str> = ratings.iter().map(|(option, _)| *option).collect();
        let options = options.join(" or ");
        return not_measured(format!("What the drive is rated at is not known: name it with {options}."));
    };
    if !found.is_between_drives {
        return not_measured("The copy stays within one drive: name another with --to.");
    }
    let Some(rate) = found.rate(Way::PUBLISHED) else { return not_measured("It was not measured.") };
    let option = option.trim_start_matches("--").replace('-', " ");
    let share = rate / rating;
    let figures = format!("{} of {} ({option}){}.", units::percent(share), units::rate(rating), found.mark());
    (Verdict::of(holds(share)), figures)
}

/// Why what is said of copies within a drive cannot be seen by this one.
fn not_within(found: &Findings) -> Option<Judgement> {
    (!found.is_within_disks).then(|| not_measured("The copy goes to other disks, and not within a drive."))
}

/// Whether a copy out of memory is seen by its rate.
fn outliers(found: &Findings) -> Judgement {
    if let Some(why) = not_within(found) {
        return why;
    }
    let Some(limit) = &found.limit else { return not_measured("No limit is known.") };
    let first = found.cached.first().and_then(|cached| cached.seconds.zip(cached.cold_seconds));
    let Some((seconds, cold_seconds)) = first else {
        let why = found.cached.first().and_then(|cached| cached.left_out.clone());
        let why = why.unwrap_or_else(|| "no copy out of memory was made".to_owned());
        return not_measured(format!("Not measured: {why}."));
    };
    let shares = [seconds, cold_seconds].map(|seconds| found.of_limit(found.file_bytes as f64 / seconds));
    let [Some(share), Some(cold)] = shares else {
        return not_measured("Nothing was copied cold.");
    };
    let marked = found.rows.iter().filter(|row| row.is_cached()).count();
    let figures = format!(
        "{} of {} with the source in memory, {} cold; {} of the cold copies are marked.",
        units::percent(share),
        limit.what,
        units::percent(cold),
        units::count(marked as u64)
    );
    if share <= 1.0 {
        return not_measured(format!("No outlier appeared: {figures}"));
    }
    (Verdict::of(cold <= 1.0), figures)
}

fn from_memory(found: &Findings) -> Judgement {
    let measured: Vec<&Cached> = found.cached.iter().filter(|cached| !cached.runs.is_empty()).collect();
    let [fits, does_not] = measured.as_slice() else {
        let why = found.cached.iter().find_map(|cached| cached.left_out.clone());
        return not_measured(
            why.map_or_else(|| "Not measured.".to_owned(), |why| format!("Not measured: {why}.")),
        );
    };
    let faster = |cached: &Cached| -> Vec<f64> {
        cached.runs.iter().map(|run| run.cold_seconds / run.seconds).collect()
    };
    let (fitting, others) = (faster(fits), faster(does_not));
    let figures = format!(
        "Of the rate of a cold source in the same group: {} where it fits into memory, {} where it does not.",
        spread(&fitting),
        spread(&others)
    );
    let is_faster = |ratio: f64| ratio >= 1.0 + SIGNIFICANT;
    let rounds =
        fitting.iter().zip(&others).map(|(fits, does_not)| is_faster(*fits) && !is_faster(*does_not));
    beyond_spread(&rounds.collect::<Vec<_>>(), figures)
}

fn possible(found: &Findings) -> Judgement {
    if let Some(why) = not_within(found) {
        return why;
    }
    let Some(limit) = &found.limit else { return not_measured("No limit is known.") };
    if !found.is_shared() {
        return not_measured(format!(
            "Reads and writes are not known to share what limits them ({}): each has to fit, and not both together.",
            limit.what
        ));
    }
    let of_limit = found.rows.iter().filter_map(|row| Some((row.way, row.of_limit?)));
    let Some((way, most)) = of_limit.max_by(|one, other| one.1.total_cmp(&other.1)) else {
        return not_measured("Nothing was measured.");
    };
    let figures = format!("At most {} of {} ({}).", units::percent(most), limit.what, way.label());
    (Verdict::of(most <= 1.0), figures)
}

#[cfg(test)]
mod tests {
    use super::super::ways::BLOCKS;
    use super::super::{End, Limit};
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
            let seconds = found.file_bytes as f64 / (rate * 1e6);
            (row.seconds, row.runs) = (Some(seconds), vec![seconds; 3]);
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
            "Another queue",
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
        let words =
            ["128K and a queue", "Another queue", "A queue of 1", "close to optimal", "1K, hurt", "1G, hurt"];
        for words in words {
            assert_eq!(verdict(&other, words), Verdict::DoesNotHold, "{words}");
        }
        for words in
            ["WSL", "98.4%", "105% of reads", "cable", "fit into memory", "Outliers", "quieter", "progress"]
        {
            assert_eq!(verdict(&as_published, words), Verdict::NotMeasured, "{words}");
        }
    }

    #[test]
    fn an_impossible_rate_is_seen_to_come_and_go() {
        let cached = |seconds: [f64; 2]| {
            let one = |(data_of_memory, seconds)| Cached::of(data_of_memory, &[[1.0, seconds]; 2]);
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
            // The lower rating bounds the copy: the other is of what is faster.
            (Some(500e6), Some(150e6), Verdict::Holds, Verdict::Holds),
            // What is reached is not exceeded.
            (None, Some(200e6), Verdict::Holds, Verdict::DoesNotHold),
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
            let cached = Cached::of(0.3, &[[1.5, seconds]]);
            Findings { cached: vec![cached], file_bytes: 300_000_000, ..found(100.0, 50.0, 195.0) }
        };
        // Of 600 MB/s, and twice.
        assert_eq!(verdict(&copied(0.9), "Outliers"), Verdict::Holds);
        assert_eq!(verdict(&copied(1.1), "Outliers"), Verdict::NotMeasured, "none appeared");
        let mut cold = copied(0.9);
        cold.cached[0].cold_seconds = Some(0.9);
        assert_eq!(verdict(&cold, "Outliers"), Verdict::DoesNotHold, "memory is not why");
        let between = Findings { is_within_disks: false, ..copied(0.1) };
        assert_eq!(verdict(&between, "Outliers"), Verdict::NotMeasured);
    }

    #[test]
    fn twice_a_rate_is_judged_within_a_drive_and_where_both_directions_share_the_limit() {
        let mut found = found(100.0, 50.0, 195.0);
        assert_eq!(verdict(&found, "Twice the rate"), Verdict::Holds);
        found.rows[0].of_limit = Some(1.1);
        assert_eq!(verdict(&found, "Twice the rate"), Verdict::DoesNotHold);
        let between = Findings { is_within_disks: false, ..found.clone() };
        assert_eq!(verdict(&between, "Twice the rate"), Verdict::NotMeasured);
        let limit = found.limit.clone().map(|limit| Limit { is_shared: false, ..limit });
        let both_ways = Findings { limit, ..found };
        assert_eq!(verdict(&both_ways, "Twice the rate"), Verdict::NotMeasured);
    }

    #[test]
    fn the_best_that_was_cached_and_other_queues_do_not_count_among_blocks() {
        let mut found = found(100.0, 50.0, 195.0);
        let copies = |row: &mut Row, rates: [f64; 2]| {
            row.runs = rates.map(|rate| (16_u64 << 30) as f64 / rate).to_vec();
            row.bytes_per_s = Some(rates[0]);
        };
        copies(&mut found.rows[1], [400e6; 2]);
        found.rows[1].of_limit = Some(0.8);
        assert_eq!(verdict(&found, "close to optimal"), Verdict::DoesNotHold);
        // Before: a median of rounds that differ decided.
        copies(&mut found.rows[1], [400e6, 190e6]);
        assert_eq!(verdict(&found, "close to optimal"), Verdict::NotMeasured);
        found.rows[1].of_limit = Some(1.2);
        assert_eq!(verdict(&found, "close to optimal"), Verdict::Holds, "it came from memory");
        let thousand = Way::Threads { block_bytes: PUBLISHED_BLOCK_BYTES, queue: 1000 };
        let of = |found: &mut Findings, rates| {
            copies(found.rows.iter_mut().find(|row| row.way == thousand).unwrap(), rates);
        };
        of(&mut found, [230e6; 2]);
        assert_eq!(verdict(&found, "close to optimal"), Verdict::Holds, "that is the queue");
        assert_eq!(verdict(&found, "128K and a queue"), Verdict::DoesNotHold);
        assert_eq!(verdict(&found, "A queue of 1"), Verdict::DoesNotHold);
        assert_eq!(verdict(&found, "A small queue"), Verdict::DoesNotHold);
        // Slower is no faster, and makes a difference.
        of(&mut found, [100e6; 2]);
        assert_eq!(verdict(&found, "A queue of 1"), Verdict::Holds);
        assert_eq!(verdict(&found, "A small queue"), Verdict::Holds);
        assert_eq!(verdict(&found, "Another queue"), Verdict::DoesNotHold);
        of(&mut found, [100e6, 200e6]);
        assert_eq!(verdict(&found, "Another queue"), Verdict::NotMeasured);
    }

    /// Before: 2.27 times as fast was "on par, or slightly faster", and one round was enough.
    #[test]
    fn parity_has_two_bounds_and_needs_more_than_one_round() {
        let of = |seconds: &[f64]| {
            let mut found = found(100.0, 50.0, 195.0);
            for row in &mut found.rows {
                row.runs = vec![1.0; seconds.len()];
                if row.way == Way::PUBLISHED {
                    row.runs = seconds.to_vec();
                }
            }
            verdict(&found, "on par")
        };
        assert_eq!(of(&[1.05, 0.95]), Verdict::Holds);
        assert_eq!(of(&[0.44, 0.5]), Verdict::DoesNotHold);
        assert_eq!(of(&[1.3, 1.2]), Verdict::DoesNotHold);
        assert_eq!(of(&[1.3, 1.0]), Verdict::NotMeasured);
        assert_eq!(of(&[1.0]), Verdict::NotMeasured);
    }

    #[test]
    fn a_file_of_few_blocks_decides_nothing_about_them() {
        let short = Findings { file_bytes: 1 << 30, ..found(100.0, 50.0, 195.0) };
        assert_eq!(verdict(&short, "1G, hurt"), Verdict::NotMeasured);
        assert_eq!(verdict(&short, "1M to 8M"), Verdict::Holds);
    }

    #[test]
    fn its_own_figures_show_what_it_concludes_from_them() {
        for one in judged(&CLAIMS, &Findings::empty()) {
            assert_ne!(one.verdict_of_published, Verdict::DoesNotHold, "{one:?}");
            assert!(one.verdict == Verdict::NotMeasured && !one.here.is_empty(), "{one:?}");
        }
    }
}
