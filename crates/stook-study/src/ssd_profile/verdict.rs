//! The answer in a few sentences, for readers who have never heard of queue depth.

use stook::bench::BenchResult;
use stook::bench::model::block::BlockModel;
use stook::bench::model::depth::DepthModel;
use stook::report::least_squares::Estimate;
use stook::report::units::{bytes_decimal, count, percent, rate, significant};

use super::fits::{Fits, Fitted, interval, is_known};
use super::states::{self, States};
use crate::text::duration_s;

/// The size of a small read, as data bases and file systems do them.
const SMALL_BYTES: f64 = 4096.0;

/// What the device does and why, and whether the figures may be believed. What nothing shows is
/// said first.
///
/// What the document measured comes first, and then what is ours.
pub(super) fn verdict(result: &BenchResult, random: &Fits, ordered: &Fits) -> String {
    let states = States::of(result);
    let (valid, all) = (states.valid, states.all());
    let doubt = states::doubt(result).map_or_else(String::new, |doubt| format!("{doubt} "));
    if valid == 0 {
        return none_valid(result, states, &doubt);
    }
    let answers = format!(
        "In order, as it was published: {} At random places, which is ours: {} {}",
        in_order(ordered),
        alone(&random.block),
        together(&random.depth)
    );
    let is_missing = |fits: &Fits| fits.block.model().is_none() || fits.depth.model().is_none();
    if is_missing(random) || is_missing(ordered) {
        return format!(
            "{doubt}{answers} Only {valid} of {all} measurements passed their checks, so not everything can be \
             answered. {WHAT_IS_WRONG}; {AGAIN}."
        );
    }
    if valid == all {
        return format!("{answers} All {all} measurements passed their checks.");
    }
    format!("{doubt}{answers} {valid} of {all} measurements passed their checks{}.", failed(states))
}

const WHAT_IS_WRONG: &str = "What is wrong with each is said below";
/// What may help where a device is known.
const AGAIN: &str = "run it again when nothing else uses the machine, or for longer";

/// No model is fitted without any valid figure.
fn none_valid(result: &BenchResult, states: States, doubt: &str) -> String {
    let again = match result.environment.device_doubt {
        Some(_) => "run it again where the device is known",
        None => AGAIN,
    };
    format!(
        "{doubt}None of the {} measurements passed their checks{}, so what the device does cannot be \
         answered. {WHAT_IS_WRONG}; {again}.",
        states.all(),
        failed(states)
    )
}

/// How many failed a check, if any did and others did not.
fn failed(states: States) -> String {
    match states.invalid {
        0 => String::new(),
        failed if failed == states.all() => String::new(),
        1 => "; 1 failed one and is used for nothing".to_owned(),
        failed => format!("; {failed} failed one and are used for nothing"),
    }
}

/// What reads in order do, in short.
fn in_order(fits: &Fits) -> String {
    let Some(block) = fits.block.model() else {
        return format!("what one read costs is not known: {}.", fits.block.refused().unwrap_or_default());
    };
    let alone = match figures_of(block) {
        Some((wait, carried)) => {
            format!("a read waits {wait} before its first byte comes, and then the bytes come at {carried}")
        }
        None => unknown(block),
    };
    match fits.depth.model() {
        Some(depth) if is_known(&depth.depth_star) => {
            let times = depth.rate_max_per_s.value * depth.latency_alone_s.value;
            format!(
                "{alone}; asked for together, up to {} times as many are done per second as one at a time.",
                plain(times)
            )
        }
        Some(depth) => format!("{alone}; what many at once gain is not known well: {}.", gain(depth)),
        None => format!(
            "{alone}; what many at once gain is not known: {}.",
            fits.depth.refused().unwrap_or_default()
        ),
    }
}

/// Fixed cost and bandwidth with their intervals; `None` where either is not known well enough to
/// be said.
fn figures_of(model: &BlockModel) -> Option<(String, String)> {
    let figure = |estimate: &Estimate, shown: fn(f64) -> String| {
        let said = || {
            let (value, ends) = (shown(estimate.value), interval(estimate, shown));
            if ends == format!("{value} to {value}") { value } else { format!("{value} ({ends})") }
        };
        is_known(estimate).then(said)
    };
    figure(&model.fixed_cost_s, duration_s).zip(figure(&model.bandwidth_bytes_per_s, rate))
}

/// What is said where an interval spans so much that its middle is no figure.
fn unknown(model: &BlockModel) -> String {
    format!(
        "what one read costs is not known well: it waits {} before its first byte comes, and then the bytes come at {}",
        interval(&model.fixed_cost_s, duration_s),
        interval(&model.bandwidth_bytes_per_s, rate)
    )
}

/// How many times as many are done together, where that is not known well.
fn gain(model: &DepthModel) -> String {
    format!("{} times as many per second as one at a time", interval(&model.depth_star, plain))
}

fn alone(fitted: &Fitted<BlockModel>) -> String {
    let Some(model) = fitted.model() else {
        return format!("what one read costs is not known: {}.", fitted.refused().unwrap_or_default());
    };
    let Some((wait, carried)) = figures_of(model) else { return format!("{}.", unknown(model)) };
    let (fixed_s, half) = (model.fixed_cost_s.value, model.half_bandwidth_block_bytes);
    let meanwhile = match is_known(&half) {
        true => format!(
            ": in the time of the wait alone {} could have been carried",
            bytes_decimal(half.value.max(0.0) as u64)
        ),
        false => String::new(),
    };
    format!(
        "every read waits {wait} before its first byte comes, and then the bytes come at {carried}{meanwhile}. So a small \
         read spends about {} of its time waiting, and a program is faster with few large reads than with many small ones.",
        percent(fixed_s / model.latency_s(SMALL_BYTES))
    )
}

fn together(fitted: &Fitted<DepthModel>) -> String {
    let Some(model) = fitted.model() else {
        return format!(
            "What many reads at once gain is not known: {}.",
            fitted.refused().unwrap_or_default()
        );
    };
    if !is_known(&model.depth_star) {
        return format!(
            "The device works on many reads at once; what that gains is not known well: {}.",
            gain(model)
        );
    }
    let most = model.rate_max_per_s.value;
    let alone = 1.0 / model.latency_alone_s.value;
    if !model.saturated {
        return format!(
            "The device works on many reads at once: with {} of them asked for together it does {} times as many per second \
             as one at a time, and has not reached its limit.",
            count(model.residuals.last().map_or(0, |cell| cell.depth)),
            plain(most / alone)
        );
    }
    let least = plain(model.depth_star.value.ceil());
    let enough = model.answers.balanced.map_or_else(String::new, |answer| {
        format!(" Of the numbers that were tried, {} is the least that comes near it.", count(answer.depth))
    });
    format!(
        "The device works on many reads at once: asked for together, up to {} times as many are done per second as one \
         at a time. No fewer than {least} at once can get there, and what is more than needed only stands in line.{enough}",
        plain(most / alone)
    )
}

/// A number as people say it: `8` rather than `8.00`.
pub(super) fn plain(value: f64) -> String {
    let text = significant(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd_profile::published;

    /// Before: 52.4 µs were said of 14.7 to 90.1 µs, and a size that lay between 363 bytes and 138
    /// MB.
    #[test]
    fn what_spans_more_than_a_factor_of_two_is_no_figure_of_the_answer() {
        let mut fits = Fits::of(&published::profile(), None);
        let known = alone(&fits.block);
        assert!(
            known.contains("every read waits 16.6 µs (") && known.contains("could have been carried"),
            "{known}"
        );
        let Ok(model) = &mut fits.block.0 else { panic!("no line") };
        model.half_bandwidth_block_bytes.interval.high = f64::INFINITY;
        let without = alone(&fits.block);
        assert!(without.contains("16.6 µs (") && !without.contains("carried"), "{without}");
        let Ok(model) = &mut fits.block.0 else { panic!("no line") };
        (model.fixed_cost_s.interval.low, model.fixed_cost_s.interval.high) = (14.7e-6, 90.1e-6);
        model.bandwidth_bytes_per_s.interval.high = f64::INFINITY;
        for said in [alone(&fits.block), in_order(&fits)] {
            assert!(said.contains("not known well: it waits 14.7 µs to 90.1 µs"), "{said}");
            assert!(said.contains(" or more") && !said.contains("16.6 µs"), "{said}");
        }
        let Ok(model) = &mut fits.depth.0 else { panic!("no law") };
        (model.depth_star.interval.low, model.depth_star.interval.high) = (2.0, 9.0);
        for said in [together(&fits.depth), in_order(&fits)] {
            assert!(said.contains("2 to 9 times as many per second"), "{said}");
        }
    }
}
