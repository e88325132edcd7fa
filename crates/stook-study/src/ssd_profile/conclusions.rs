//! The conclusions of the published study, checked on its own tables and on the measurements here.
//!
//! Each conclusion has one check, the same for both, so that a table that does not show its
//! conclusion is distinguished from a device that differs.

use stook::bench::model::ModelError;
use stook::report::units::{bytes_binary, count, percent, rate, significant};

use super::Ratings;
use super::cells::{BASE_BLOCK_BYTES, Cell, Part, Product, Profile};
use super::extra::{
    advertised, advertised_here, endurance, endurance_here, gigabytes_here, gigabytes_there, rotating_disk,
};
use super::fits::{Fits, Fitted, interval, is_known};
use super::long_run::{Lasting, lasts_a_minute};
use super::needed::{Missing, Sweep};
use super::published;
use super::simulated::SimulatedRead;
use super::wear::Wear;
use crate::environment::DeviceKind;
use crate::frame::{self, Conclusion, Judgement, no_figures};
use crate::text::duration_s;
use crate::verdict::Verdict;

/// How far a latency may be from the line, as a share.
const LINEAR_WITHIN: f64 = 0.05;
/// How far throughput × latency ÷ depth may be from 1.
const LITTLE_WITHIN: f64 = 0.03;
/// How many times the latency of reads that of writes may be to be slightly higher.
const SLIGHTLY_MOST: f64 = 1.5;

/// A published conclusion before it is checked.
struct Claim {
    section: &'static str,
    published: &'static str,
    check: &'static str,
    judge: Judge,
}

/// How it is checked.
enum Judge {
    /// In one way, on both.
    Both(fn(&Profile, &Fits) -> Judgement),
    /// By figures that only the document has, and by what was measured here.
    Apart(fn() -> Judgement, fn(&Here<'_>) -> Judgement),
}

/// What was measured here.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    /// In order, as it was published.
    pub(super) ordered: &'a Profile,
    pub(super) random: &'a Profile,
    /// The most bytes a second of any cell in order that only reads, and of any that only writes.
    pub(super) best_bytes_per_s: [Option<f64>; 2],
    pub(super) rated: Ratings,
    pub(super) long_runs: &'a [Lasting],
    pub(super) wear: &'a Wear,
    pub(super) kind: DeviceKind,
    pub(super) simulated: &'a [SimulatedRead],
}

const LATENCY_BLOCK: &str = "Latency, Block Size";
const LATENCY_MIX: &str = "Latency, Read/Write ratio";
const LATENCY_DEPTH: &str = "Latency, I/O queue";
const BANDWIDTH_BLOCK: &str = "Bandwidth, Block Size";
const BANDWIDTH_MIX: &str = "Bandwidth, Read/Write ratio";
const BANDWIDTH_DEPTH: &str = "Bandwidth, I/O queue";
const EXTRA: &str = "Extra Analysis";

const CLAIMS: [Claim; 22] = [
    Claim {
        section: LATENCY_BLOCK,
        published: "Block size and latency have an extremely linear relationship.",
        check: "A fixed cost and a bandwidth are fitted to the mean latencies at depth 1: none is further than 5% from \
                the line.",
        judge: Judge::Both(linear),
    },
    Claim {
        section: LATENCY_BLOCK,
        published: "There is little overhead; most of the latency is reading the data.",
        check: "The fixed cost that was fitted is less than half of the latency of a read of 16 KiB, the block that the \
                study keeps.",
        judge: Judge::Both(little_overhead),
    },
    Claim {
        section: LATENCY_BLOCK,
        published: "A disk that rotates would show a more logarithmic line, because larger blocks seek less.",
        check: "The mean latencies of reads at random places of a disk that rotates lie nearer to a logarithm of the block \
                than to a line.",
        judge: Judge::Apart(no_figures, rotating_disk),
    },
    Claim {
        section: LATENCY_BLOCK,
        published: "An SSD finds data at a constant cost, and all other cost is that of reading them.",
        check: "At random places reads of every block, one at a time, take no more than 15% longer than in order.",
        judge: Judge::Apart(
            || frame::not_measured("It read in order only."),
            |here| match here.kind {
                kind if kind.is_ssd() => places(here.ordered, here.random),
                DeviceKind::HardDisk => frame::not_measured("This disk rotates."),
                _ => frame::not_measured(DeviceKind::UNKNOWN),
            },
        ),
    },
    Claim {
        section: LATENCY_MIX,
        published: "The ratio of reads to writes hardly correlates with latency.",
        check: "In every mix the mean latency of reads, and that of writes, lies within 15% of that alone.",
        judge: Judge::Both(latency_of_mixes),
    },
    Claim {
        section: LATENCY_MIX,
        published: "The write latency is slightly higher than the read latency.",
        check: "In every mix of reads and writes, the mean latency of its writes is higher than that of its reads, and at most \
                half as high again.",
        judge: Judge::Both(writes_of_mixes),
    },
    Claim {
        section: LATENCY_DEPTH,
        published: "Latency is linear in depth.",
        check: "Mean latency ÷ depth lies within 20% of that of the greatest depth, from depth 4 on.",
        judge: Judge::Both(latency_by_depth),
    },
    Claim {
        section: LATENCY_DEPTH,
        published: "The rate is relatively constant in depth.",
        check: "The rate of every depth lies within 20% of the highest.",
        judge: Judge::Both(constant_rate),
    },
    Claim {
        section: LATENCY_DEPTH,
        published: "Little's law is proven by the graph of latency over depth.",
        check: "The law says that throughput × mean latency is the number of requests in flight: at every depth the \
                product lies within 3% of it. Cells that fail this check alone are judged, too.",
        judge: Judge::Both(little),
    },
    Claim {
        section: BANDWIDTH_BLOCK,
        published: "As block size goes up, IOPS go down and MB/s go up.",
        check: "From each block size to the next, bandwidth grows and requests per second fall.",
        judge: Judge::Both(larger_blocks),
    },
    Claim {
        section: BANDWIDTH_BLOCK,
        published: "IOPS are not the best measure of performance where block size varies.",
        check: "The block with the most requests per second is not the one with the most bytes per second.",
        judge: Judge::Both(best_blocks),
    },
    Claim {
        section: BANDWIDTH_MIX,
        published: "The ratio of reads to writes does not impact performance; total IOPS go down slightly.",
        check: "The rate of reads and writes together of every mix, and of either alone, lies within 20% of the highest.",
        judge: Judge::Both(total_of_mixes),
    },
    Claim {
        section: BANDWIDTH_MIX,
        published: "Normalised by their share, reads and writes keep a fairly steady throughput.",
        check: "Rate ÷ share of every mix lies within 20% of the highest, of reads and of writes.",
        judge: Judge::Both(normalised),
    },
    Claim {
        section: BANDWIDTH_DEPTH,
        published: "Throughput at depth 1 is low because of what passes between one request and the next.",
        check: "At depth 1 nothing is under way in a tenth of the time or more: 1 − rate × mean latency. A cell that \
                fails no other check than this product is judged, too.",
        judge: Judge::Both(between_requests),
    },
    Claim {
        section: BANDWIDTH_DEPTH,
        published: "Throughput jumps up to a peak at lower to middle depths.",
        check: "A depth below the greatest reaches 95% of the highest throughput.",
        judge: Judge::Both(saturates),
    },
    Claim {
        section: BANDWIDTH_DEPTH,
        published: "Behind its peak throughput slowly decreases with depth.",
        check: "The interval of its throughput lies below that of the best depth, and a scalability law fitted to all \
                depths has a peak.",
        judge: Judge::Both(falls_again),
    },
    Claim {
        section: EXTRA,
        published: "A consumer SSD may do more small writes per second than one for servers.",
        check: "Random writes of 4 KiB on both.",
        judge: Judge::Apart(no_figures, |_| {
            not_measured_here("one device is measured, and not one of each kind")
        }),
    },
    Claim {
        section: EXTRA,
        published: "7100 MB/s are advertised, and 6000 reached.",
        check: "The best rate of reads in order is as great a share of the advertised one, 6000 ÷ 7100, or a greater one.",
        judge: Judge::Apart(advertised, advertised_here),
    },
    Claim {
        section: EXTRA,
        published: "Such speed lasts for a minute or so, and then the SSD is noticeably slower.",
        check: "Reads and writes of 1 MiB in order, eight at once, go on for minutes: after 20 s to 3 minutes the rate of \
                either falls to less than 80% and stays there.",
        judge: Judge::Apart(no_figures, |here| lasts_a_minute(here.long_runs)),
    },
    Claim {
        section: EXTRA,
        published: "A program of several hundred GB is read in less than a minute.",
        check: "The best rate brings 200 GB in a minute.",
        judge: Judge::Apart(gigabytes_there, gigabytes_here),
    },
    Claim {
        section: EXTRA,
        published: "For its capacity, an SSD for servers may be written almost 8 times as much.",
        check: "What may be written ÷ capacity, of the two that it names.",
        judge: Judge::Apart(endurance, endurance_here),
    },
    Claim {
        section: EXTRA,
        published: "The SSD for servers is advertised with half, and with a fourth, of the bandwidth in order.",
        check: "The advertised rates of both.",
        judge: Judge::Apart(no_figures, |_| {
            not_measured_here("one device is here, and not one of each kind")
        }),
    },
];

/// Checks every conclusion on the published profile, and on what was measured here with its fits.
pub(super) fn conclusions(published: (&Profile, &Fits), here: &Here<'_>, fits: &Fits) -> Vec<Conclusion> {
    let judged = |claim: &Claim| {
        let ((verdict_of_published, figures_of_published), (verdict, figures)) = match claim.judge {
            Judge::Both(judge) => (judge(published.0, published.1), judge(here.ordered, fits)),
            Judge::Apart(there, judge) => (there(), judge(here)),
        };
        Conclusion {
            section: claim.section,
            published: claim.published,
            check: claim.check,
            verdict_of_published,
            figures_of_published,
            verdict,
            here: figures,
        }
    };
    CLAIMS.iter().map(judged).collect()
}

/// The conclusions that are checked on cells in order alone, and their verdicts on these.
pub(super) fn verdicts_of(profile: &Profile) -> Vec<(&'static str, Verdict)> {
    let fits = Fits::of(profile, None);
    let verdict = |claim: &Claim| match claim.judge {
        Judge::Both(judge) => Some((claim.published, judge(profile, &fits).0)),
        Judge::Apart(..) => None,
    };
    CLAIMS.iter().filter_map(verdict).collect()
}

fn not_measured_here(because: &str) -> Judgement {
    frame::not_measured(sentence(because))
}

/// The judgement without a model: cells that contradict it are an answer, too few are none.
fn refused<T>(fitted: &Fitted<T>) -> Judgement {
    let verdict = match fitted.0 {
        Err(ModelError::Contradicted { .. }) => Verdict::DoesNotHold,
        _ => Verdict::NotMeasured,
    };
    (verdict, sentence(&fitted.refused().unwrap_or_default()))
}

pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

fn linear(profile: &Profile, fits: &Fits) -> Judgement {
    let Some(model) = fits.block.model() else { return refused(&fits.block) };
    let figures = format!(
        "{} and then {}; the cell furthest from the line is {} away.",
        duration_s(model.fixed_cost_s.value),
        rate(model.bandwidth_bytes_per_s.value),
        percent(model.residual_max)
    );
    Sweep::Blocks.all_missing(profile).judge_every(model.residual_max <= LINEAR_WITHIN, figures)
}

fn little_overhead(_: &Profile, fits: &Fits) -> Judgement {
    let Some(model) = fits.block.model() else { return refused(&fits.block) };
    if !is_known(&model.fixed_cost_s) {
        return frame::not_measured(format!(
            "The fixed cost is not known well enough: {}.",
            interval(&model.fixed_cost_s, duration_s)
        ));
    }
    let (fixed_s, whole_s) = (model.fixed_cost_s.value, model.latency_s(BASE_BLOCK_BYTES as f64));
    let figures = format!("{} of {} are fixed cost.", duration_s(fixed_s), duration_s(whole_s));
    (Verdict::of(fixed_s < whole_s / 2.0), figures)
}

fn larger_blocks(profile: &Profile, _: &Fits) -> Judgement {
    let (counted, missing) = (counted(&profile.blocks), Sweep::Blocks.all_missing(profile));
    let (Some(first), Some(last), true) = (counted.first(), counted.last(), counted.len() > 1) else {
        return missing.too_few();
    };
    let figures = format!(
        "From {} to {}: {} to {}, and {} to {} requests per second.",
        bytes_binary(first.block_bytes),
        bytes_binary(last.block_bytes),
        rate(first.bandwidth_bytes_per_s),
        rate(last.bandwidth_bytes_per_s),
        significant(first.rate_per_s.value),
        significant(last.rate_per_s.value),
    );
    let holds = counted.iter().zip(counted.iter().skip(1)).all(|(small, large)| {
        large.bandwidth_bytes_per_s > small.bandwidth_bytes_per_s
            && large.rate_per_s.value < small.rate_per_s.value
    });
    missing.judge_every(holds, figures)
}

/// How much slower random places are, at most, and how much slower is noticed.
fn places(ordered: &Profile, random: &Profile) -> Judgement {
    let pair = |cell: &&Cell| {
        let same = |other: &&Cell| other.counts() && other.block_bytes == cell.block_bytes;
        Some((cell.block_bytes, random.blocks.iter().find(same)?.latency_mean_s / cell.latency_mean_s))
    };
    let ratios: Vec<(u64, f64)> = counted(&ordered.blocks).iter().filter_map(pair).collect();
    let [ordered, random] = [ordered, random].map(|profile| Sweep::Blocks.all_missing(profile));
    let named = |missing: Missing, places: &str| {
        Missing(missing.0.iter().map(|name| format!("{name} {places}")).collect())
    };
    let missing = named(ordered, "in order").and(named(random, "at random places"));
    if ratios.is_empty() {
        return missing.too_few();
    }
    let figures: Vec<String> =
        ratios.iter().map(|(block, ratio)| format!("{ratio:.2} with {}", bytes_binary(*block))).collect();
    let holds = ratios.iter().all(|(_, ratio)| *ratio <= 1.15);
    missing.judge_every(holds, format!("Of that in order: {}.", figures.join(", ")))
}

fn best_blocks(profile: &Profile, _: &Fits) -> Judgement {
    let cells = counted(&profile.blocks);
    let best = |figure: fn(&Cell) -> f64| {
        cells.iter().max_by(|one, other| figure(one).total_cmp(&figure(other))).map(|cell| cell.block_bytes)
    };
    let most = [best(|cell| cell.rate_per_s.value), best(|cell| cell.bandwidth_bytes_per_s)];
    let missing = Sweep::Blocks.all_missing(profile);
    let ([Some(requests), Some(bytes)], true) = (most, cells.len() > 1) else {
        return missing.too_few();
    };
    let [shown_requests, shown_bytes] = [requests, bytes].map(bytes_binary);
    missing.judge_best(
        requests != bytes,
        format!("The most requests with {shown_requests}, the most bytes with {shown_bytes}."),
    )
}

/// By latencies that nothing contradicts: those that leave a part out would make time look idle.
fn between_requests(profile: &Profile, _: &Fits) -> Judgement {
    let alone = profile.products.iter().find(|product| product.depth == 1 && product.is_seen);
    let Some(alone) = alone else {
        return Missing(vec!["depth 1".to_owned()]).too_few();
    };
    let idle = 1.0 - alone.ratio;
    (Verdict::of(idle >= 0.10), format!("{} of the time.", percent(idle.max(0.0))))
}

/// What failed another check proves no law: its latencies may be those of a cache.
fn little(profile: &Profile, _: &Fits) -> Judgement {
    let depths = published::profile().depths;
    let is_there = |cell: &Cell| profile.products.iter().any(|product| product.depth == cell.depth);
    let missing = depths.iter().filter(|cell| !is_there(cell));
    let missing = Missing(missing.map(|cell| format!("depth {}", cell.depth)).collect());
    if profile.products.is_empty() {
        return missing.too_few();
    }
    let said = |product: &Product| {
        let other = if product.is_seen { "" } else { ", and another number was seen in flight" };
        format!("{:.2} at {}{other}", product.ratio, count(product.depth))
    };
    let products: Vec<String> = profile.products.iter().map(said).collect();
    let is_near = |product: &Product| product.is_seen && (product.ratio - 1.0).abs() <= LITTLE_WITHIN;
    let holds = profile.products.iter().all(is_near);
    missing.judge_every(holds, format!("Of the depth: {}.", products.join(", ")))
}

/// The cells that count.
fn counted(cells: &[Cell]) -> Vec<&Cell> {
    cells.iter().filter(|cell| cell.counts()).collect()
}

/// How far figures are from the one that they are compared with, at most, and whether that is near.
fn within(figures: &[f64], reference: f64, share: f64) -> (bool, f64) {
    let away = figures.iter().map(|figure| (figure / reference - 1.0).abs()).fold(0.0, f64::max);
    (away <= share, away)
}

fn latency_by_depth(profile: &Profile, _: &Fits) -> Judgement {
    let cells: Vec<&Cell> = counted(&profile.depths).into_iter().filter(|cell| cell.depth > 1).collect();
    let each_s: Vec<f64> = cells.iter().map(|cell| cell.latency_mean_s / cell.depth as f64).collect();
    let missing = Sweep::Depths.missing(profile, |cell| cell.depth > 1);
    let deepest = published::profile().depths.last().map(|cell| cell.depth);
    // All are compared with the greatest depth: others in its place say something else.
    let is_there = cells.last().map(|cell| cell.depth) == deepest;
    let (Some(&deepest_s), true) = (each_s.last(), each_s.len() > 1 && is_there) else {
        return missing.too_few();
    };
    let (is_near, _) = within(&each_s, deepest_s, 0.20);
    let shown = cells.iter().zip(&each_s);
    let shown: Vec<String> =
        shown.map(|(cell, each_s)| format!("{} at {}", duration_s(*each_s), count(cell.depth))).collect();
    missing.judge_every(is_near, format!("For each in flight: {}.", shown.join(", ")))
}

fn constant_rate(profile: &Profile, _: &Fits) -> Judgement {
    let rates: Vec<f64> = counted(&profile.depths).iter().map(|cell| cell.rate_per_s.value).collect();
    let missing = Sweep::Depths.all_missing(profile);
    let (Some(most), true) = (rates.iter().copied().max_by(f64::total_cmp), rates.len() > 1) else {
        return missing.too_few();
    };
    let (is_near, away) = within(&rates, most, 0.20);
    missing.judge_every(is_near, format!("The lowest rate is {} below the highest.", percent(away)))
}

/// Reads of every mix, or writes: their share and figures.
fn of_mixes(profile: &Profile, reads: bool) -> Vec<(f64, Part)> {
    let part = |cell: &&Cell| {
        let (share, part) = match reads {
            true => (cell.read_share, cell.read),
            false => (100 - cell.read_share, cell.write),
        };
        Some((f64::from(share) / 100.0, part?))
    };
    counted(&profile.mixes).iter().filter_map(part).collect()
}

/// Of reads, and of writes: how far the figures of mixes are from the one that they are compared
/// with. None where there is none, or nothing beside it.
fn of_both(
    profile: &Profile,
    share_within: f64,
    figures: impl Fn(&[(f64, Part)]) -> Option<(Vec<f64>, f64)>,
) -> [Option<(&'static str, bool, f64)>; 2] {
    [("reads", true), ("writes", false)].map(|(name, reads)| {
        let (all, reference) = figures(&of_mixes(profile, reads))?;
        let (is_near, away) = within(&all, reference, share_within);
        (all.len() > 1).then_some((name, is_near, away))
    })
}

/// The verdict on both: either refutes alone, and both have to be whole to hold.
fn judged_of_both(profile: &Profile, found: [Option<(&'static str, bool, f64)>; 2], said: &str) -> Judgement {
    let missing = Sweep::Mixes.all_missing(profile);
    let found: Vec<_> = found.into_iter().flatten().collect();
    if found.is_empty() {
        return missing.too_few();
    }
    let figures: Vec<String> =
        found.iter().map(|(name, _, away)| format!("{name} up to {}", percent(*away))).collect();
    let holds = found.iter().all(|(_, is_near, _)| *is_near);
    missing.judge_every(holds, format!("{said}: {}.", figures.join(", ")))
}

fn latency_of_mixes(profile: &Profile, _: &Fits) -> Judgement {
    let found = of_both(profile, 0.15, |parts| {
        let (_, alone) = parts.iter().find(|(share, _)| *share == 1.0)?;
        Some((parts.iter().map(|(_, part)| part.latency_mean_s).collect(), alone.latency_mean_s))
    });
    judged_of_both(profile, found, "From what they take alone")
}

fn normalised(profile: &Profile, _: &Fits) -> Judgement {
    let found = of_both(profile, 0.20, |parts| {
        let rates: Vec<f64> = parts.iter().map(|(share, part)| part.rate_per_s / share).collect();
        let most = rates.iter().copied().max_by(f64::total_cmp)?;
        Some((rates, most))
    });
    judged_of_both(profile, found, "Below the highest")
}

fn saturates(profile: &Profile, fits: &Fits) -> Judgement {
    let Some(model) = fits.depth.model() else { return refused(&fits.depth) };
    let most = model.rate_max_per_s.value;
    let enough = profile.depths.iter().find(|cell| cell.counts() && cell.rate_per_s.value >= 0.95 * most);
    let at = enough.map_or_else(String::new, |cell| {
        let share = percent(cell.rate_per_s.value / most);
        format!(" Depth {} reaches {share} of it.", count(cell.depth))
    });
    let alone = most * model.latency_alone_s.value;
    let figures = format!(
        "At most {} requests per second, {} times what depth 1 gives.{at}",
        significant(most),
        significant(alone)
    );
    Sweep::Depths.all_missing(profile).judge_best(model.saturated, figures)
}

fn falls_again(profile: &Profile, fits: &Fits) -> Judgement {
    let Some(model) = fits.depth.model() else { return refused(&fits.depth) };
    let most = model.rate_max_per_s.value;
    let deepest = profile.depths.iter().rfind(|cell| cell.counts());
    let figures = deepest.map_or_else(String::new, |cell| {
        let share = percent(cell.rate_per_s.value / most);
        format!("Depth {} gives {share} of the highest throughput.", count(cell.depth))
    });
    Sweep::Depths.all_missing(profile).judge_best(model.retrograde.is_some(), figures)
}

/// Reads and writes together. What reads alone and writes alone predict of a mix is another
/// question, which is ours.
fn total_of_mixes(profile: &Profile, _: &Fits) -> Judgement {
    let cells = counted(&profile.mixes);
    let rates: Vec<f64> = cells.iter().map(|cell| cell.rate_per_s.value).collect();
    let missing = Sweep::Mixes.all_missing(profile);
    let (Some(most), true) = (rates.iter().copied().max_by(f64::total_cmp), rates.len() > 1) else {
        return missing.too_few();
    };
    let (is_near, _) = within(&rates, most, 0.20);
    let shown = cells
        .iter()
        .map(|cell| format!("{} with {}% reads", significant(cell.rate_per_s.value), cell.read_share));
    missing.judge_every(is_near, format!("Per second: {}.", shown.collect::<Vec<String>>().join(", ")))
}

/// The document says it of its mixes, not of its small writes.
fn writes_of_mixes(profile: &Profile, _: &Fits) -> Judgement {
    let counted = profile.mixes.iter().filter(|cell| cell.counts());
    let mixes: Vec<(u8, f64, f64)> = counted
        .filter_map(|cell| Some((cell.read_share, cell.write?.latency_mean_s, cell.read?.latency_mean_s)))
        .collect();
    let missing = Sweep::Mixes.missing(profile, |cell| (1..100).contains(&cell.read_share));
    if mixes.is_empty() {
        return missing.too_few();
    }
    let figures: Vec<String> = mixes
        .iter()
        .map(|&(share, write_s, read_s)| {
            format!("{} against {} with {share}% reads", duration_s(write_s), duration_s(read_s))
        })
        .collect();
    let holds = mixes.iter().all(|(_, write_s, read_s)| is_slightly_higher(*write_s, *read_s));
    missing.judge_every(holds, format!("{}.", figures.join(", ")))
}

fn is_slightly_higher(write_s: f64, read_s: f64) -> bool {
    write_s > read_s && write_s <= SLIGHTLY_MOST * read_s
}

#[cfg(test)]
mod tests {
    use stook::bench::gates::State;

    use super::*;

    /// Those of the conclusions that are checked in one way on both.
    fn verdicts(profile: &Profile) -> Vec<(&'static str, Verdict)> {
        let fits = Fits::of(profile, None);
        let found = conclusions((profile, &fits), &here(profile, &Wear::default()), &fits);
        assert!(found.iter().all(|one| one.here.ends_with('.') && one.figures_of_published.ends_with('.')));
        let both = CLAIMS.iter().zip(found).filter(|(claim, _)| matches!(claim.judge, Judge::Both(_)));
        let both: Vec<_> = both.map(|(_, one)| one).collect();
        assert!(both.iter().all(|one| one.verdict == one.verdict_of_published));
        assert!(both.iter().all(|one| one.here == one.figures_of_published));
        let verdicts: Vec<_> = both.iter().map(|one| (one.published, one.verdict)).collect();
        assert_eq!(verdicts, verdicts_of(profile));
        verdicts
    }

    /// Where nothing else is known than cells.
    fn here<'a>(profile: &'a Profile, wear: &'a Wear) -> Here<'a> {
        Here {
            ordered: profile,
            random: profile,
            best_bytes_per_s: [None; 2],
            rated: Ratings::default(),
            long_runs: &[],
            wear,
            kind: DeviceKind::Unknown,
            simulated: &[],
        }
    }

    #[test]
    fn the_published_tables_do_not_show_six_of_its_conclusions() {
        let not: Vec<&str> = verdicts(&published::profile())
            .into_iter()
            .filter_map(|(claim, verdict)| (verdict == Verdict::DoesNotHold).then_some(claim))
            .collect();
        assert_eq!(
            not,
            [
                "There is little overhead; most of the latency is reading the data.",
                "Latency is linear in depth.",
                "The rate is relatively constant in depth.",
                "Little's law is proven by the graph of latency over depth.",
                "The ratio of reads to writes does not impact performance; total IOPS go down slightly.",
                "Throughput at depth 1 is low because of what passes between one request and the next.",
            ]
        );
    }

    #[test]
    fn places_that_take_longer_to_find_are_seen() {
        let ordered = published::profile();
        assert_eq!(places(&ordered, &ordered).0, Verdict::Holds);
        let mut random = published::profile();
        random.blocks[2].latency_mean_s *= 1.3;
        let (verdict, figures) = places(&ordered, &random);
        assert_eq!(verdict, Verdict::DoesNotHold);
        assert!(figures.contains("1.30 with 32.0 KiB"), "{figures}");
        random.blocks.clear();
        assert_eq!(places(&ordered, &random).0, Verdict::NotMeasured);
    }

    #[test]
    fn figures_that_say_the_opposite_are_seen() {
        let mut other = published::profile();
        for cell in &mut other.blocks {
            // What is flat up to 128 KiB and then steep is no line.
            cell.latency_mean_s = if cell.block_bytes > 128 << 10 { 900e-6 } else { 20e-6 };
        }
        other.blocks[4].bandwidth_bytes_per_s = 1.0;
        other.blocks[0].bandwidth_bytes_per_s = 1e12;
        for (cell, factor) in other.depths.iter_mut().zip([1.0, 2.0, 4.0, 8.0, 16.0]) {
            cell.rate_per_s = stook::report::least_squares::Estimate::exactly(10_000.0 * factor);
        }
        other.products.iter_mut().for_each(|product| product.ratio = 1.0);
        other.mixes[2].rate_per_s = stook::report::least_squares::Estimate::exactly(20_000.0);
        other.mixes[1].write.as_mut().unwrap().latency_mean_s = 10e-6;
        other.mixes[2].read.as_mut().unwrap().rate_per_s = 9_000.0;
        let found = verdicts(&other);
        let holding: Vec<&str> = found
            .iter()
            .filter_map(|(claim, verdict)| (*verdict == Verdict::Holds).then_some(*claim))
            .collect();
        assert_eq!(holding, ["Little's law is proven by the graph of latency over depth."]);
    }

    /// Before: what was left decided, so that "every mix" held without the cell that refutes it.
    #[test]
    fn a_conclusion_about_every_cell_needs_all_of_them_and_names_those_that_are_missing() {
        let without = |list: fn(&mut Profile) -> &mut Vec<Cell>, invalid: &[usize]| {
            let mut profile = published::profile();
            for cell in list(&mut profile).iter_mut().enumerate() {
                if invalid.contains(&cell.0) {
                    cell.1.state = State::Invalid;
                }
            }
            profile
        };
        let judged = |profile: &Profile, words: &str| {
            let fits = Fits::of(profile, None);
            let found = conclusions((profile, &fits), &here(profile, &Wear::default()), &fits);
            let one = found.into_iter().find(|one| one.published.contains(words)).unwrap();
            (one.verdict, one.here)
        };
        let mixes = without(|profile| &mut profile.mixes, &[0, 1]);
        for words in ["does not impact", "Normalised", "hardly correlates", "slightly higher"] {
            let (verdict, said) = judged(&mixes, words);
            assert_eq!(verdict, Verdict::NotMeasured, "{words}: {said}");
            let only_mixes = words == "slightly higher";
            let missing = if only_mixes { "valid: 70% reads." } else { "valid: 100% reads, 70% reads." };
            assert!(said.contains(missing), "{words}: {said}");
        }
        let blocks = without(|profile| &mut profile.blocks, &[0, 1, 2]);
        for words in ["IOPS go down", "not the best measure"] {
            let (verdict, said) = judged(&blocks, words);
            assert_eq!(verdict, Verdict::NotMeasured, "{words}: {said}");
            assert!(said.contains("not valid: 4 KiB, 16 KiB, 32 KiB."), "{words}: {said}");
        }
        let mut one = without(|profile| &mut profile.blocks, &[0, 1, 2, 3]);
        assert_eq!(places(&published::profile(), &one).0, Verdict::NotMeasured);
        one.blocks[4].latency_mean_s *= 2.0;
        assert_eq!(places(&published::profile(), &one).0, Verdict::DoesNotHold, "one is enough to refute");
    }

    /// Before: it was judged on whatever device there was.
    #[test]
    fn what_is_said_of_an_ssd_is_judged_on_what_is_known_to_be_one() {
        let (profile, wear) = (published::profile(), Wear::default());
        let fits = Fits::of(&profile, None);
        let verdict = |kind| {
            let here = Here { kind, ..here(&profile, &wear) };
            let found = conclusions((&profile, &fits), &here, &fits);
            found.into_iter().find(|one| one.published.starts_with("An SSD finds")).unwrap().verdict
        };
        assert_eq!(
            [DeviceKind::NvmeSsd, DeviceKind::Unknown, DeviceKind::HardDisk].map(verdict),
            [Verdict::Holds, Verdict::NotMeasured, Verdict::NotMeasured]
        );
    }

    #[test]
    fn cells_that_are_not_valid_decide_nothing() {
        let mut none = published::profile();
        let lists = [&mut none.blocks, &mut none.mixes, &mut none.depths];
        let cells = lists.into_iter().flatten().chain(&mut none.small_writes);
        cells.for_each(|cell| cell.state = State::Invalid);
        none.products = none.depths.iter().filter_map(Product::of).collect();
        // Before: the law "held" on cells that were all not valid.
        assert!(verdicts(&none).iter().all(|(_, verdict)| *verdict == Verdict::NotMeasured));
    }

    /// A profile whose products are these, beside depths of which some failed another check.
    fn with_products(products: &[Product]) -> Profile {
        Profile { products: products.to_vec(), ..published::profile() }
    }

    /// Before: cells that do not follow the law fail a check, and were left out of its conclusion.
    #[test]
    fn littles_law_is_judged_by_the_cells_that_do_not_follow_it_too() {
        let judged = |products: &[Product]| {
            let profile = with_products(products);
            little(&profile, &Fits::of(&profile, None))
        };
        let one = Product { depth: 1, ratio: 1.0, is_seen: true };
        let reported = "Needed for it, and not valid: depth 4, depth 32, depth 256, depth 1024. Of the others: Of the \
                        depth: 1.00 at 1.";
        assert_eq!(judged(&[one]), (Verdict::NotMeasured, reported.to_owned()));
        let all = published::profile().depths;
        let all: Vec<Product> = all.iter().map(|cell| Product { depth: cell.depth, ..one }).collect();
        assert_eq!(judged(&all).0, Verdict::Holds);
        let half = Product { depth: 256, ratio: 0.5, is_seen: true };
        assert_eq!(judged(&[one, half]).0, Verdict::DoesNotHold);
        let unseen = Product { depth: 4, is_seen: false, ..one };
        let (verdict, said) = judged(&[one, unseen]);
        assert_eq!(verdict, Verdict::DoesNotHold);
        assert!(said.contains("1.00 at 4, and another number was seen in flight."), "{said}");
        assert_eq!(judged(&[]).0, Verdict::NotMeasured);
    }

    /// Before: it could not hold, because what does not keep a depth of 1 full fails a check.
    #[test]
    fn time_between_requests_is_seen_where_the_depth_of_1_is_not_kept() {
        let judged = |product: Product| {
            let profile = with_products(&[product]);
            between_requests(&profile, &Fits::of(&profile, None))
        };
        let alone = |ratio| Product { depth: 1, ratio, is_seen: true };
        assert_eq!(judged(alone(0.85)), (Verdict::Holds, "15.0% of the time.".to_owned()));
        assert_eq!(judged(alone(0.95)).0, Verdict::DoesNotHold);
        assert_eq!(judged(Product { is_seen: false, ..alone(0.85) }).0, Verdict::NotMeasured);
        assert_eq!(judged(Product { depth: 4, ..alone(0.85) }).0, Verdict::NotMeasured);
    }

    /// Before: reads and writes that differ tenfold were no impact, if they added up.
    #[test]
    fn mixes_whose_rates_add_up_and_differ_have_an_impact() {
        let mut other = published::profile();
        let judged = |profile: &Profile| total_of_mixes(profile, &Fits::of(profile, None));
        assert_eq!(
            judged(&other),
            (
                Verdict::DoesNotHold,
                "Per second: 47,800 with 100% reads, 40,600 with 70% reads, 41,100 with 50% reads, 39,500 with 30% \
                 reads, 37,000 with 0% reads."
                    .to_owned()
            )
        );
        other.mixes[4].rate_per_s = stook::report::least_squares::Estimate::exactly(39_000.0);
        assert_eq!(judged(&other).0, Verdict::Holds);
        other.mixes.truncate(1);
        assert_eq!(judged(&other).0, Verdict::NotMeasured);
    }

    #[test]
    fn writes_that_take_much_longer_are_not_slightly_slower() {
        let mut other = published::profile();
        let judged = |profile: &Profile| writes_of_mixes(profile, &Fits::of(profile, None)).0;
        assert_eq!(judged(&other), Verdict::Holds);
        other.mixes[1].write.as_mut().unwrap().latency_mean_s *= 10.0;
        assert_eq!(judged(&other), Verdict::DoesNotHold);
    }
}
