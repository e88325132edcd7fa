//! [`Axis`]: where a value lies between the ends of a chart, and which values are marked.

use super::super::units::{bytes_binary, duration_ns, significant};

/// Below this the marks of a logarithmic axis would underflow to zero.
const SMALLEST_LOGARITHMIC: f64 = 1e-300;

/// How the marks of an axis are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TickFormat {
    /// A number of at most three significant digits.
    #[default]
    Number,
    /// A size: `4.00 KiB` is written `4 KiB`.
    BytesBinary,
    /// Nanoseconds: `10.0 µs` is written `10 µs`.
    DurationNs,
    /// One of how many is beyond: 100 is written `99%`.
    Percentile,
}

impl TickFormat {
    pub(super) fn text(self, value: f64) -> String {
        let text = match self {
            Self::Number => significant(value),
            Self::BytesBinary => bytes_binary(value.max(0.0) as u64),
            Self::DurationNs => duration_ns(value.max(0.0).round() as u64),
            Self::Percentile => return percentile(value),
        };
        let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
        let number = if number.contains('.') && !number.contains('e') {
            number.trim_end_matches('0').trim_end_matches('.')
        } else {
            number
        };
        if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
    }
}

/// As many nines as it takes, and no digit after them that says nothing.
fn percentile(one_of: f64) -> String {
    let decimals = (one_of.max(1.0).log10() - 1.0).ceil().clamp(0.0, 6.0) as usize;
    let text = format!("{:.*}", decimals, 100.0 - 100.0 / one_of.max(1.0));
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}%")
}

/// One axis of a chart.
#[derive(Debug, Clone)]
pub struct Axis {
    pub(super) label: String,
    pub(super) format: TickFormat,
    logarithmic: bool,
    ticks: Vec<f64>,
}

impl Axis {
    /// An axis on which equal differences are equally long. It begins at 0 unless a value is
    /// negative.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), format: TickFormat::Number, logarithmic: false, ticks: Vec::new() }
    }

    /// An axis on which equal factors are equally long. Values less than 10^-300, such as 0, are
    /// off the axis.
    pub fn logarithmic(label: impl Into<String>) -> Self {
        Self { logarithmic: true, ..Self::linear(label) }
    }

    /// Marks these values instead of round ones, in any order.
    #[must_use]
    pub fn ticks(mut self, ticks: impl IntoIterator<Item = f64>) -> Self {
        self.ticks = ticks.into_iter().collect();
        self.ticks.sort_by(f64::total_cmp);
        self.ticks.dedup();
        self
    }

    /// Writes the marks in this form.
    #[must_use]
    pub fn format(mut self, format: TickFormat) -> Self {
        self.format = format;
        self
    }

    /// Whether `value` has a place on the axis.
    pub(super) fn can_show(&self, value: f64) -> bool {
        value.is_finite() && (!self.logarithmic || value >= SMALLEST_LOGARITHMIC)
    }

    /// The axis laid over `values`.
    pub(super) fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        let own = self.ticks.iter().copied().filter(|&tick| self.can_show(tick));
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|&value| self.can_show(value)).chain(own.clone()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let round = if self.logarithmic { log_ticks(low, high) } else { linear_ticks(low.min(0.0), high) };
        let ticks: Vec<f64> = if self.ticks.is_empty() { round } else { own.collect() };
        // The ends are round values too, except where the caller chose the marks.
        let (low, high) =
            ticks.iter().fold((low, high), |(low, high), &tick| (low.min(tick), high.max(tick)));
        Scale { logarithmic: self.logarithmic, low, high, ticks }
    }
}

/// An axis whose ends are known.
pub(super) struct Scale {
    logarithmic: bool,
    low: f64,
    high: f64,
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// Where `value` lies: 0 at the low end, 100 at the high one.
    pub(super) fn percent(&self, value: f64) -> f64 {
        let place = |value: f64| if self.logarithmic { value.ln() } else { value };
        let (low, high) = (place(self.low), place(self.high));
        if high > low { ((place(value) - low) / (high - low) * 100.0).clamp(0.0, 100.0) } else { 50.0 }
    }
}

/// At most seven multiples of 1, 2 or 5 times a power of ten, from at or below `low` to at or above
/// `high`.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let span = high - low;
    if !(span.is_finite() && span > 0.0) {
        return vec![low, low + 1.0];
    }
    let power = 10_f64.powf((span / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| span / step <= 5.0);
    let step = step.unwrap_or(power * 10.0);
    let (first, last) = ((low / step).floor(), (high / step).ceil());
    (0..=(last - first).min(10.0) as u32).map(|index| (first + f64::from(index)) * step).collect()
}

/// Powers of ten around both; with 2 and 5 between them if there would be few marks.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let decades = (last - first).max(1);
    if decades > 2 {
        let step = (decades as usize).div_ceil(7);
        return (first..=first + decades).step_by(step).map(|power| 10_f64.powi(power)).collect();
    }
    let all: Vec<f64> =
        (first..=first + decades).flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10_f64.powi(power))).collect();
    // One mark beyond the values on either side is enough.
    let from = all.iter().rposition(|&tick| tick <= low).unwrap_or(0);
    let to = all.iter().position(|&tick| tick >= high).unwrap_or(all.len().saturating_sub(1));
    let ticks = all.get(from..=to.max(from)).unwrap_or_default().to_vec();
    if ticks.len() > 1 { ticks } else { vec![low / 2.0, low * 2.0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_marks_are_few_round_and_around_all_values() {
        for (low, high, ticks) in [
            (0.0, 1530.0, vec![0.0, 500.0, 1000.0, 1500.0, 2000.0]),
            (0.0, 1.0, vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (-3.0, 3.0, vec![-4.0, -2.0, 0.0, 2.0, 4.0]),
            (0.0, 0.0, vec![0.0, 1.0]),
        ] {
            let got = linear_ticks(low, high);
            assert_eq!(got.len(), ticks.len(), "{got:?}");
            assert!(got.iter().zip(&ticks).all(|(got, tick)| (got - tick).abs() < 1e-9), "{got:?}");
        }
    }

    #[test]
    fn logarithmic_marks_are_few_and_around_all_values() {
        for (low, high) in [
            (1.0, 1.0),
            (3.0, 4.0),
            (1.0, 1024.0),
            (1e-9, 1e12),
            (17.76, 131.29),
            (1e-300, 1e-290),
            (1e-300, 1e300),
        ] {
            let ticks = log_ticks(low, high);
            assert!((2..=9).contains(&ticks.len()), "{low} {high}: {ticks:?}");
            let scale = Axis::logarithmic("x").scale([low, high].into_iter());
            assert!(scale.percent(low) <= scale.percent(high), "{low} {high}");
            assert!(
                (0.0..=100.0).contains(&scale.percent(low)) && (0.0..=100.0).contains(&scale.percent(high))
            );
        }
    }

    #[test]
    fn what_has_no_place_on_an_axis_is_known() {
        assert!(!Axis::logarithmic("x").can_show(0.0));
        assert!(Axis::linear("x").can_show(0.0));
        assert!(!Axis::linear("x").can_show(f64::NAN));
        assert_eq!(TickFormat::BytesBinary.text(4096.0), "4 KiB");
        assert_eq!(TickFormat::Number.text(100.0), "100");
        assert_eq!(TickFormat::Number.text(0.2), "0.2");
        assert_eq!(TickFormat::DurationNs.text(1e6), "1 ms");
        let percentiles = [1.0, 2.0, 10.0, 100.0, 1000.0, 1e5].map(|one| TickFormat::Percentile.text(one));
        assert_eq!(percentiles, ["0%", "50%", "90%", "99%", "99.9%", "99.999%"]);
    }
}
