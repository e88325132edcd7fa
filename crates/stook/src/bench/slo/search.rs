//! [`search`]: bisection for the highest rate that keeps an objective. It measures nothing.

/// Two rates that differ by no more than this, as a share, are not told apart.
pub const RESOLUTION: f64 = 0.02;

/// Rates below this share of the first are not tried.
const FLOOR: f64 = 1.0 / 4096.0;
/// No rate is tried that is this many times the first: then something does not count as it should.
const CEILING: f64 = 4096.0;

/// Where a search begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Start {
    /// The first rate.
    pub rate_per_s: f64,
    /// By how much the next one is higher, as a share, and then twice as much, and so on.
    pub step: f64,
}

impl Start {
    /// From what a closed loop completes: an open loop with as many in flight does no more.
    pub fn below(closed_per_s: f64) -> Self {
        Self { rate_per_s: 0.8 * closed_per_s, step: 0.25 }
    }

    /// Near a rate that another round found.
    pub fn near(rate_per_s: f64) -> Self {
        Self { rate_per_s, step: 2.0 * RESOLUTION }
    }
}

/// Between these the highest rate lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// The highest rate that kept the objective; `None` where none did.
    pub kept_per_s: Option<f64>,
    /// The lowest rate that missed it; `None` where none did.
    pub missed_per_s: Option<f64>,
}

impl Bracket {
    /// Both ends. Where no rate missed the objective the highest that was tried is both.
    pub(super) fn ends(&self) -> Option<(f64, f64)> {
        let kept = self.kept_per_s?;
        Some((kept, self.missed_per_s.unwrap_or(kept)))
    }
}

/// Looks for the highest rate for which `keeps` is true, to within [`RESOLUTION`]: up from the
/// first in growing steps until one misses, or down until one keeps; then by halves, of ratios.
///
/// # Errors
/// Returns the first error of `keeps`.
pub fn search<E>(start: Start, mut keeps: impl FnMut(f64) -> Result<bool, E>) -> Result<Bracket, E> {
    let first = start.rate_per_s;
    let (mut kept_per_s, mut missed_per_s) = (None, None);
    let mut note = |rate: f64, is_kept: bool| {
        let end = if is_kept { &mut kept_per_s } else { &mut missed_per_s };
        *end = Some(rate);
        (kept_per_s, missed_per_s)
    };
    let (mut rate, mut step) = (first, start.step);
    let is_up = keeps(first)?;
    let mut found = note(first, is_up);
    while found.0.is_none() || found.1.is_none() {
        rate = if is_up { rate * (1.0 + step) } else { rate / (1.0 + step) };
        step *= 2.0;
        if !(first * FLOOR..=first * CEILING).contains(&rate) {
            break;
        }
        found = note(rate, keeps(rate)?);
    }
    while let (Some(kept), Some(missed)) = found {
        if missed <= kept * (1.0 + RESOLUTION) {
            break;
        }
        let middle = (kept * missed).sqrt();
        found = note(middle, keeps(middle)?);
    }
    Ok(Bracket { kept_per_s: found.0, missed_per_s: found.1 })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// What is found where every rate up to this is kept, and how many rates were tried.
    fn found(start: Start, knee: f64) -> (Bracket, usize) {
        let mut tried = 0;
        let keeps = |rate: f64| {
            tried += 1;
            Ok::<_, Infallible>(rate <= knee)
        };
        let Ok(bracket) = search(start, keeps);
        (bracket, tried)
    }

    #[test]
    fn the_knee_lies_between_two_rates_that_are_close_together() {
        for knee in [1.0, 40.0, 79.0, 80.0, 81.0, 99.0, 100.0, 130.0, 5000.0] {
            for start in [Start::below(100.0), Start::near(100.0), Start::near(knee)] {
                let (bracket, tried) = found(start, knee);
                let (low, high) = bracket.ends().unwrap();
                assert!(low <= knee && knee < high && high <= low * 1.0201, "{knee} {start:?}: {bracket:?}");
                assert!(tried < 20, "{knee} {start:?}: {tried}");
            }
        }
        assert!(found(Start::near(100.0), 101.0).1 <= 4, "near by it takes few");
    }

    #[test]
    fn a_search_without_an_end_ends() {
        let (none, tried) = found(Start::below(100.0), 0.0);
        assert!(none.kept_per_s.is_none() && none.ends().is_none() && tried < 20, "{none:?} {tried}");
        let (all, tried) = found(Start::below(100.0), f64::INFINITY);
        assert!(all.missed_per_s.is_none() && tried < 20, "{all:?} {tried}");
        let (low, high) = all.ends().unwrap();
        assert_eq!(low, high);
    }

    #[test]
    fn an_error_ends_it() {
        assert_eq!(search(Start::below(1.0), |_| Err("no")), Err("no"));
    }
}
