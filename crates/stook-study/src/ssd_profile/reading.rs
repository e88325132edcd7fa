//! What each chart says here: one sentence or two, made of the figures that are drawn.

use stook::bench::gates::State;
use stook::report::units::{count, percent, rate, significant};

use super::cells::{Cell, Part, Profile};
use super::charts::normalised;
use super::summary::{Line, size};
use super::verdict::plain;
use super::{Findings, explained};
use crate::text::duration_s;

/// The text for a chart that shows too little.
const TOO_FEW: &str = "Here too few cells passed their checks to say anything.";

/// A sentence about the first and the last cell that counts, if there are two.
fn ends(cells: &[Cell], said: impl Fn(&Cell, &Cell) -> String) -> String {
    let mut counted = cells.iter().filter(|cell| cell.counts());
    match (counted.next(), counted.next_back()) {
        (Some(first), Some(last)) => said(first, last),
        _ => TOO_FEW.to_owned(),
    }
}

/// A sentence about the least and the greatest of some figures, if there are any.
fn between(figures: impl Iterator<Item = f64>, said: impl Fn(f64, f64) -> String) -> String {
    let wider = |(least, most): (f64, f64), figure: f64| (figure.min(least), figure.max(most));
    let (least, most) = figures.fold((f64::INFINITY, 0.0), wider);
    if least > most { TOO_FEW.to_owned() } else { said(least, most) }
}

/// How many times as much, as people say it.
fn times(more: f64, less: f64) -> String {
    plain(more / less)
}

fn best(cells: &[Cell]) -> Option<&Cell> {
    let counted = cells.iter().filter(|cell| cell.counts());
    counted.max_by(|a, b| a.rate_per_s.value.total_cmp(&b.rate_per_s.value))
}

pub(super) fn summary(lines: &[Line]) -> String {
    let counted =
        |name: &str| lines.iter().find(|line| line.name == name && line.cell.counts()).map(|line| &line.cell);
    let mut reported = Vec::new();
    if let (Some(large), Some(small)) = (counted("SEQ1M Q8"), counted("RND4K Q1")) {
        reported.push(format!(
            "Here the easiest of the four brings {}, the hardest {}: the same device, asked for in two ways, {} times apart.",
            rate(large.bandwidth_bytes_per_s),
            rate(small.bandwidth_bytes_per_s),
            times(large.bandwidth_bytes_per_s, small.bandwidth_bytes_per_s)
        ));
    }
    if let (Some(many), Some(one)) = (counted("RND4K Q32"), counted("RND4K Q1")) {
        reported.push(format!(
            "Asked for 32 small reads at once it does {} times as many of them per second as one at a time.",
            times(many.rate_per_s.value, one.rate_per_s.value)
        ));
    }
    for (state, why) in [(State::Invalid, "a check failed"), (State::Unverified, "a check could not be made")]
    {
        let those = lines.iter().filter(|line| line.cell.state == state);
        let names: Vec<&str> = those.map(|line| line.name.as_str()).collect();
        if !names.is_empty() {
            let names = names.join(", ");
            reported.push(format!(
                "Do not rely on {names}: {why}, and the reason stands under “May these figures be believed?”."
            ));
        }
    }
    if reported.is_empty() { TOO_FEW.to_owned() } else { reported.join(" ") }
}

pub(super) fn latency_block(profile: &Profile) -> String {
    ends(&profile.blocks, |small, large| {
        format!(
            "Here a read of {} takes {} and one of {} takes {}: {} times the bytes in {} times the time.",
            size(small.block_bytes),
            duration_s(small.latency_mean_s),
            size(large.block_bytes),
            duration_s(large.latency_mean_s),
            times(large.block_bytes as f64, small.block_bytes as f64),
            times(large.latency_mean_s, small.latency_mean_s)
        )
    })
}

pub(super) fn iops_block(profile: &Profile) -> String {
    ends(&profile.blocks, |small, large| {
        format!(
            "Here {} reads of {} are done per second, or {} of {}.",
            significant(small.rate_per_s.value),
            size(small.block_bytes),
            significant(large.rate_per_s.value),
            size(large.block_bytes)
        )
    })
}

pub(super) fn bandwidth_block(findings: &Findings) -> String {
    ends(&findings.profile.blocks, |small, large| {
        let limit = findings.fits.block.model().map_or_else(
            || ".".to_owned(),
            |model| {
                let share = percent(large.bandwidth_bytes_per_s / model.bandwidth_bytes_per_s.value);
                format!(", which is {share} of B. {}", explained::BANDWIDTH_LIMIT)
            },
        );
        format!(
            "Here it grows from {} with blocks of {} to {} with blocks of {}{limit}",
            rate(small.bandwidth_bytes_per_s),
            size(small.block_bytes),
            rate(large.bandwidth_bytes_per_s),
            size(large.block_bytes)
        )
    })
}

pub(super) fn throughput_latency(profile: &Profile) -> String {
    ends(&profile.depths, |one, deepest| {
        let best = best(&profile.depths).map_or_else(String::new, |best| {
            format!(
                " The most is at depth {}: {} per second, {} each.",
                count(best.depth),
                significant(best.rate_per_s.value),
                duration_s(best.latency_mean_s)
            )
        });
        format!(
            "Here depth {} does {} reads per second and each takes {}; at depth {} each takes {}.{best}",
            count(one.depth),
            significant(one.rate_per_s.value),
            duration_s(one.latency_mean_s),
            count(deepest.depth),
            duration_s(deepest.latency_mean_s)
        )
    })
}

pub(super) fn iops_depth(findings: &Findings) -> String {
    let depths = &findings.profile.depths;
    let limit =
        findings.fits.depth.model().map_or_else(String::new, |_| format!(" {}", explained::IOPS_LIMIT));
    ends(depths, |one, _| {
        let best = best(depths).unwrap_or(one);
        format!(
            "Here it rises from {} per second at depth {} to {} at depth {}.{limit}",
            significant(one.rate_per_s.value),
            count(one.depth),
            significant(best.rate_per_s.value),
            count(best.depth)
        )
    })
}

pub(super) fn latency_depth(profile: &Profile) -> String {
    ends(&profile.depths, |one, deepest| {
        format!(
            "Here a read takes {} times as long at depth {} as at depth {}.",
            times(deepest.latency_mean_s, one.latency_mean_s),
            count(deepest.depth),
            count(one.depth)
        )
    })
}

pub(super) fn bandwidth_depth(profile: &Profile) -> String {
    ends(&profile.depths, |one, _| {
        let best = best(&profile.depths).unwrap_or(one);
        format!(
            "Here blocks of {} bring at most {}, at depth {}.",
            size(best.block_bytes),
            rate(best.bandwidth_bytes_per_s),
            count(best.depth)
        )
    })
}

/// How near the most has to be.
const NEAR: f64 = 0.9;

pub(super) fn block_depth(findings: &Findings) -> String {
    let counted = || findings.map.iter().filter_map(|field| field.cell.as_ref()).filter(|cell| cell.counts());
    let most = counted().max_by(|a, b| a.bandwidth_bytes_per_s.total_cmp(&b.bandwidth_bytes_per_s));
    let Some(most) = most else { return TOO_FEW.to_owned() };
    let in_flight = |cell: &&Cell| cell.block_bytes * cell.depth;
    let near = counted().filter(|cell| cell.bandwidth_bytes_per_s >= NEAR * most.bandwidth_bytes_per_s);
    let least = near.min_by_key(in_flight).unwrap_or(most);
    format!(
        "Here the most is {}, with blocks of {} at depth {}. The least to be asked for at once for nine tenths of that is \
         {} × {}, {} under way.",
        rate(most.bandwidth_bytes_per_s),
        size(most.block_bytes),
        count(most.depth),
        count(least.depth),
        size(least.block_bytes),
        size(in_flight(&least))
    )
}

pub(super) fn little(profile: &Profile) -> String {
    between(profile.depths.iter().map(|cell| cell.little_ratio), |least, most| {
        format!("Here X·W is between {least:.3} and {most:.3} of the depth that was asked for.")
    })
}

pub(super) fn mix_predicted(findings: &Findings) -> String {
    match findings.fits.mix.model() {
        Some(model) => format!(
            "Here the mix that is furthest from the prediction does {:.1}% {} requests per second than predicted.",
            model.interference.abs() * 100.0,
            if model.interference < 0.0 { "fewer" } else { "more" }
        ),
        None => TOO_FEW.to_owned(),
    }
}

/// Reads alone and writes alone.
fn pure(profile: &Profile, said: impl Fn(Part, Part) -> String) -> String {
    let counted = |share: u8| profile.mixes.iter().find(|cell| cell.counts() && cell.read_share == share);
    let reads = counted(100).and_then(|cell| cell.read);
    match (reads, counted(0).and_then(|cell| cell.write)) {
        (Some(reads), Some(writes)) => said(reads, writes),
        _ => TOO_FEW.to_owned(),
    }
}

pub(super) fn iops_mix(profile: &Profile) -> String {
    pure(profile, |reads, writes| {
        format!(
            "Here reads alone make {} per second, writes alone {}.",
            significant(reads.rate_per_s),
            significant(writes.rate_per_s)
        )
    })
}

pub(super) fn latency_mix(profile: &Profile) -> String {
    pure(profile, |reads, writes| {
        format!(
            "Here a read takes {} where nothing is written, and a write {} where nothing is read.",
            duration_s(reads.latency_mean_s),
            duration_s(writes.latency_mean_s)
        )
    })
}

pub(super) fn bandwidth_mix(profile: &Profile) -> String {
    pure(profile, |reads, writes| {
        format!(
            "Here reads alone bring {}, writes alone take {}.",
            rate(reads.bandwidth_bytes_per_s),
            rate(writes.bandwidth_bytes_per_s)
        )
    })
}

pub(super) fn normalised_mix(profile: &Profile) -> String {
    let counted = profile.mixes.iter().filter(|cell| cell.counts());
    let rates = counted.flat_map(|cell| {
        let parts = [(cell.read, cell.read_share), (cell.write, 100 - cell.read_share)];
        parts.into_iter().filter_map(|(part, share)| Some(normalised(part?, share)))
    });
    between(rates, |least, most| {
        format!("Here they lie between {} and {}, in order.", significant(least), significant(most))
    })
}

pub(super) fn percentiles(findings: &Findings) -> String {
    let figures = Profile::base(&findings.result).map(|cell| &cell.total);
    let ns = |ns: Option<u64>| ns.map(|ns| duration_s(ns as f64 / 1e9));
    let found = figures.and_then(|found| {
        Some((ns(found.latency_p50_ns)?, ns(found.latency_p99_ns)?, ns(found.latency_max_ns)?))
    });
    found.map_or(TOO_FEW.to_owned(), |(half, most, longest)| {
        format!("Here half of all reads took no longer than {half}, 99 of 100 no longer than {most}, the slowest {longest}.")
    })
}

pub(super) fn histogram(findings: &Findings) -> String {
    let figures = Profile::base(&findings.result).map(|cell| &cell.total);
    let found = figures.and_then(|found| Some((found.latency_mean_ns?, found.latency_p50_ns?)));
    found.map_or(TOO_FEW.to_owned(), |(mean, half)| {
        format!(
            "Here the mean is {} and half took less than {}: {}.",
            duration_s(mean / 1e9),
            duration_s(half as f64 / 1e9),
            // The mean is dragged up by a few that are much slower than the others.
            if mean > 1.2 * half as f64 {
                "a few slow ones pull the mean up"
            } else {
                "the mean speaks for most of them"
            }
        )
    })
}

pub(super) fn time_line(findings: &Findings) -> String {
    let runs = Profile::base(&findings.result).map(|cell| cell.runs.as_slice()).unwrap_or_default();
    between(runs.iter().flat_map(|run| &run.windows).map(|window| window.iops), |least, most| {
        format!(
            "Here the slowest fifth of a round did {} reads per second, the fastest {}.",
            significant(least),
            significant(most)
        )
    })
}
