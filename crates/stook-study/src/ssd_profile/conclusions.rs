//! The conclusions of the published study, checked on its own tables and on the measurements here.
//!
//! Each conclusion has one check, the same for both, so that a table that does not show its
//! conclusion is distinguished from a device that differs.

use serde::Serialize;
use stook::bench::model::ModelError;
use stook::report::units::{bytes_binary, count, percent, rate, significant};

use super::cells::{Cell, Profile};
use super::fits::{Fits, Fitted};
use crate::text::duration_s;
use crate::verdict::Verdict;

/// How far a latency may be from the line, as a share.
const LINEAR_WITHIN: f64 = 0.05;
/// How far throughput × latency ÷ depth may be from 1.
const LITTLE_WITHIN: f64 = 0.03;
/// How far a mix may be from the prediction of the pure rates.
const MIX_WITHIN: f64 = 0.10;

/// A published conclusion, and the result of its check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conclusion {
    /// The conclusion, or what its tables show.
    pub published: &'static str,
    /// What is checked.
    pub check: &'static str,
    /// The verdict of the check on the published tables.
    pub verdict_of_published: Verdict,
    /// The published figures that show it.
    pub figures_of_published: String,
    /// Its verdict on the measurements here.
    pub verdict: Verdict,
    /// The figures that show it.
    pub here: String,
}

/// A verdict and its figures.
type Judgement = (Verdict, String);

/// A conclusion before it is checked.
struct Claim {
    published: &'static str,
    check: &'static str,
    judge: fn(&Profile, &Fits) -> Judgement,
}

const CLAIMS: [Claim; 7] = [
    Claim {
        published: "Block size and latency have an extremely linear relationship.",
        check: "A fixed cost and a bandwidth are fitted to the mean latencies at depth 1: none is further than 5% from \
                the line.",
        judge: linear,
    },
    Claim {
        published: "As block size goes up, IOPS go down and MB/s go up.",
        check: "From each block size to the next, bandwidth grows and requests per second fall.",
        judge: larger_blocks,
    },
    Claim {
        published: "Little's law is proven by the graph of latency over depth.",
        check: "The law says that throughput × mean latency is the number of requests in flight: at every depth the \
                product lies within 3% of it.",
        judge: little,
    },
    Claim {
        published: "Throughput jumps up to a peak at lower to middle depths.",
        check: "A depth below the greatest reaches 95% of the highest throughput.",
        judge: saturates,
    },
    Claim {
        published: "Behind its peak throughput slowly decreases with depth.",
        check: "The interval of its throughput lies below that of the best depth, and a scalability law fitted to all \
                depths has a peak.",
        judge: falls_again,
    },
    Claim {
        published: "The ratio of reads to writes does not impact performance; total IOPS go down slightly.",
        check: "The pure rates predict every mixed one, as their harmonic mean, within 10%.",
        judge: mix,
    },
    Claim {
        published: "The write latency is slightly higher than the read latency.",
        check: "In every mix of reads and writes, the mean latency of its writes is higher than that of its reads.",
        judge: writes_of_mixes,
    },
];

/// Checks every conclusion on both profiles.
pub fn conclusions(published: (&Profile, &Fits), here: (&Profile, &Fits)) -> Vec<Conclusion> {
    CLAIMS
        .iter()
        .map(|claim| {
            let (verdict_of_published, figures_of_published) = (claim.judge)(published.0, published.1);
            let (verdict, figures) = (claim.judge)(here.0, here.1);
            Conclusion {
                published: claim.published,
                check: claim.check,
                verdict_of_published,
                figures_of_published,
                verdict,
                here: figures,
            }
        })
        .collect()
}

/// The judgement without a model: cells that contradict it are an answer, too few are none.
fn refused<T>(fitted: &Fitted<T>) -> Judgement {
    let verdict = match fitted.0 {
        Err(ModelError::Contradicted { .. }) => Verdict::DoesNotHold,
        _ => Verdict::NotMeasured,
    };
    (verdict, sentence(&fitted.refused().unwrap_or_default()))
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

fn linear(_: &Profile, fits: &Fits) -> Judgement {
    let Some(model) = fits.block.model() else { return refused(&fits.block) };
    let figures = format!(
        "{} and then {}; the cell furthest from the line is {} away.",
        duration_s(model.fixed_cost_s.value),
        rate(model.bandwidth_bytes_per_s.value),
        percent(model.residual_max)
    );
    (Verdict::of(model.residual_max <= LINEAR_WITHIN), figures)
}

fn larger_blocks(profile: &Profile, _: &Fits) -> Judgement {
    let counted: Vec<&Cell> = profile.blocks.iter().filter(|cell| cell.counts()).collect();
    let (Some(first), Some(last)) = (counted.first(), counted.last()) else {
        return not_measured("block size");
    };
    if counted.len() < 2 {
        return not_measured("block size");
    }
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
    (Verdict::of(holds), figures)
}

/// What failed a check proves no law, whichever check it was: its latencies may be those of a
/// cache.
fn little(profile: &Profile, _: &Fits) -> Judgement {
    let counted: Vec<&Cell> = profile.depths.iter().filter(|cell| cell.counts()).collect();
    if counted.is_empty() {
        return not_measured("depth");
    }
    let products: Vec<String> =
        counted.iter().map(|cell| format!("{:.2} at {}", cell.little_ratio, count(cell.depth))).collect();
    let left_out = match profile.depths.len() - counted.len() {
        0 => String::new(),
        left_out => format!("; {left_out} of {} depths are not valid", profile.depths.len()),
    };
    let holds = counted.iter().all(|cell| (cell.little_ratio - 1.0).abs() <= LITTLE_WITHIN);
    (Verdict::of(holds), format!("Of the depth: {}{left_out}.", products.join(", ")))
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
    (Verdict::of(model.saturated), figures)
}

fn falls_again(profile: &Profile, fits: &Fits) -> Judgement {
    let Some(model) = fits.depth.model() else { return refused(&fits.depth) };
    let most = model.rate_max_per_s.value;
    let deepest = profile.depths.iter().rfind(|cell| cell.counts());
    let figures = deepest.map_or_else(String::new, |cell| {
        let share = percent(cell.rate_per_s.value / most);
        format!("Depth {} gives {share} of the highest throughput.", count(cell.depth))
    });
    (Verdict::of(model.retrograde.is_some()), figures)
}

fn mix(_: &Profile, fits: &Fits) -> Judgement {
    let Some(model) = fits.mix.model() else { return refused(&fits.mix) };
    let residuals: Vec<String> = model
        .predictions
        .iter()
        .map(|cell| format!("{:+.1}% with {:.0}% reads", cell.residual * 100.0, cell.read_share * 100.0))
        .collect();
    let holds = model.predictions.iter().all(|cell| cell.residual.abs() <= MIX_WITHIN);
    (Verdict::of(holds), format!("Against the prediction: {}.", residuals.join(", ")))
}

/// The document says it of its mixes, not of its small writes.
fn writes_of_mixes(profile: &Profile, _: &Fits) -> Judgement {
    let counted = profile.mixes.iter().filter(|cell| cell.counts());
    let mixes: Vec<(u8, f64, f64)> = counted
        .filter_map(|cell| Some((cell.read_share, cell.write?.latency_mean_s, cell.read?.latency_mean_s)))
        .collect();
    if mixes.is_empty() {
        return not_measured("mix");
    }
    let figures: Vec<String> = mixes
        .iter()
        .map(|&(share, write_s, read_s)| {
            format!("{} against {} with {share}% reads", duration_s(write_s), duration_s(read_s))
        })
        .collect();
    (
        Verdict::of(mixes.iter().all(|(_, write_s, read_s)| write_s > read_s)),
        format!("{}.", figures.join(", ")),
    )
}

fn not_measured(what: &str) -> Judgement {
    (Verdict::NotMeasured, format!("No {what} has passed its checks."))
}

#[cfg(test)]
mod tests {
    use stook::bench::gates::State;

    use super::*;
    use crate::ssd_profile::published;

    fn verdicts(profile: &Profile) -> Vec<Verdict> {
        let fits = Fits::of(profile, None);
        let found = conclusions((profile, &fits), (profile, &fits));
        assert!(found.iter().all(|one| one.verdict == one.verdict_of_published));
        assert!(found.iter().all(|one| one.here == one.figures_of_published && one.here.ends_with('.')));
        found.iter().map(|one| one.verdict).collect()
    }

    #[test]
    fn the_published_tables_show_all_that_was_concluded_but_littles_law() {
        let mut expected = [Verdict::Holds; 7];
        expected[2] = Verdict::DoesNotHold;
        assert_eq!(verdicts(&published::profile()), expected);
    }

    #[test]
    fn figures_that_say_the_opposite_are_seen() {
        let mut other = published::profile();
        for cell in &mut other.blocks {
            // What is flat up to 128 KiB and then steep is no line.
            cell.latency_mean_s = if cell.block_bytes > 128 << 10 { 900e-6 } else { 20e-6 };
        }
        other.blocks[4].bandwidth_bytes_per_s = 1.0;
        for (cell, factor) in other.depths.iter_mut().zip([1.0, 2.0, 4.0, 8.0, 16.0]) {
            cell.rate_per_s = stook::report::least_squares::Estimate::exactly(10_000.0 * factor);
            cell.little_ratio = 1.0;
        }
        other.mixes[2].rate_per_s = stook::report::least_squares::Estimate::exactly(20_000.0);
        other.mixes[1].write.as_mut().unwrap().latency_mean_s = 10e-6;
        let mut expected = [Verdict::DoesNotHold; 7];
        expected[2] = Verdict::Holds;
        assert_eq!(verdicts(&other), expected);
    }

    #[test]
    fn cells_that_are_not_valid_decide_nothing() {
        let mut none = published::profile();
        let lists = [&mut none.blocks, &mut none.mixes, &mut none.depths];
        let cells = lists.into_iter().flatten().chain(&mut none.small_writes);
        cells.for_each(|cell| cell.state = State::Invalid);
        // Before: the law "held" on cells that were all not valid.
        assert_eq!(verdicts(&none), [Verdict::NotMeasured; 7]);
    }

    #[test]
    fn littles_law_is_judged_by_the_cells_that_count() {
        let mut some = published::profile();
        for (at, cell) in some.depths.iter_mut().enumerate() {
            cell.little_ratio = if at == 0 { 1.0 } else { 0.5 };
            cell.state = if at == 0 { State::Valid } else { State::Invalid };
        }
        let reported = "Of the depth: 1.00 at 1; 4 of 5 depths are not valid.";
        assert_eq!(little(&some, &Fits::of(&some, None)), (Verdict::Holds, reported.to_owned()));
    }
}
