//! Sorted numbers for interpolation search: the first bytes of the keys of an index page, or of its
//! separators, in memory only.
//!
//! Evenly spread numbers (ids, hashes) are found at the interpolated position; others by doubling
//! steps from there. A binary search reads ten places that depend on one another, this usually one
//! or two.

use crate::engine::prefetch;

/// Sorted numbers, stored as their differences to the first, as narrow as they go.
#[derive(Debug)]
pub(crate) struct Heads {
    first: u64,
    /// Places for each unit of difference.
    slope: f64,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    Narrow(Box<[u16]>),
    Middle(Box<[u32]>),
    Wide(Box<[u64]>),
}

impl Heads {
    /// Of numbers that do not fall.
    pub(crate) fn new(numbers: &[u64]) -> Self {
        let first = numbers.first().copied().unwrap_or(0);
        let span = numbers.last().copied().unwrap_or(0).saturating_sub(first);
        let rest = numbers.iter().map(|number| number.saturating_sub(first));
        let rest = if span <= u64::from(u16::MAX) {
            Rest::Narrow(rest.map(|number| number as u16).collect())
        } else if span <= u64::from(u32::MAX) {
            Rest::Middle(rest.map(|number| number as u32).collect())
        } else {
            Rest::Wide(rest.collect())
        };
        let slope = numbers.len().saturating_sub(1) as f64 / span.max(1) as f64;
        Self { first, slope, rest }
    }

    /// The place of the first number that is not below `wanted`, and whether it is that number.
    #[inline]
    pub(crate) fn find(&self, wanted: u64) -> (usize, bool) {
        let Some(wanted) = wanted.checked_sub(self.first) else { return (0, false) };
        let guess = (wanted as f64 * self.slope) as usize;
        match &self.rest {
            Rest::Narrow(rest) => find(rest, u16::try_from(wanted).ok(), guess),
            Rest::Middle(rest) => find(rest, u32::try_from(wanted).ok(), guess),
            Rest::Wide(rest) => find(rest, Some(wanted), guess),
        }
    }

    /// Prefetches what a search for `wanted` will read, and returns about where that is.
    #[inline]
    pub(crate) fn prefetch(&self, wanted: u64) -> usize {
        let guess = (wanted.saturating_sub(self.first) as f64 * self.slope) as usize;
        match &self.rest {
            Rest::Narrow(rest) => rest.get(guess).map(prefetch),
            Rest::Middle(rest) => rest.get(guess).map(prefetch),
            Rest::Wide(rest) => rest.get(guess).map(prefetch),
        };
        guess
    }

    /// Its approximate size in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.rest {
                Rest::Narrow(rest) => size_of_val(&**rest),
                Rest::Middle(rest) => size_of_val(&**rest),
                Rest::Wide(rest) => size_of_val(&**rest),
            }
    }
}

/// In sorted numbers, from a guess. `None` is more than any of them.
#[inline]
fn find<N: Copy + Ord>(numbers: &[N], wanted: Option<N>, guess: usize) -> (usize, bool) {
    let Some(wanted) = wanted else { return (numbers.len(), false) };
    let guess = guess.min(numbers.len().saturating_sub(1));
    let below = |at: usize| numbers.get(at).is_some_and(|number| *number < wanted);
    let (mut low, mut high) = (guess, guess);
    let mut step = 1;
    if below(guess) {
        // Everything up to `low` is below, and nothing from `high` on.
        high = guess + 1;
        while below(high) {
            low = high;
            high += step;
            step *= 2;
        }
        low += 1;
        high = high.min(numbers.len());
    } else {
        while low > 0 && !below(low - 1) {
            high = low - 1;
            low = low.saturating_sub(step);
            step *= 2;
        }
    }
    let inside = numbers.get(low..high).unwrap_or_default();
    let at = low + inside.partition_point(|number| *number < wanted);
    (at, numbers.get(at) == Some(&wanted))
}

/// The first bytes of `form` after `skip`, at most `len` of them (8 at most), as a number; missing
/// ones are zeros.
#[inline]
pub(crate) fn head(form: &[u8], skip: usize, len: usize) -> u64 {
    let rest = form.get(skip..).unwrap_or_default();
    let whole = match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(bytes)
        }
    };
    whole.checked_shr(64 - 8 * len as u32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(numbers: &[u64]) {
        let heads = Heads::new(numbers);
        let around = numbers.iter().flat_map(|&n| [n.saturating_sub(1), n, n.saturating_add(1)]);
        for wanted in around.chain([0, 1, 65_535, 65_536, 1 << 32, u64::MAX]) {
            let at = numbers.partition_point(|&n| n < wanted);
            assert_eq!(heads.find(wanted), (at, numbers.get(at) == Some(&wanted)), "{wanted} in {numbers:?}");
        }
    }

    #[test]
    fn numbers_of_any_spread_are_found() {
        holds(&[]);
        holds(&[0]);
        holds(&[u64::MAX]);
        holds(&[7, 7, 7, 7]);
        holds(&[0, u64::MAX]);
        holds(&(0..700).collect::<Vec<_>>());
        holds(&(0..700).map(|n| n * n * n).collect::<Vec<_>>());
        holds(&(0..64).map(|n| 1 << n).collect::<Vec<_>>());
        holds(&(0..300).map(|n| n / 10 + (1 << 40)).collect::<Vec<_>>());
        holds(&(0..300).map(|n| if n < 290 { n } else { n << 30 }).collect::<Vec<_>>());
        let mut state = 1_u64;
        let mut numbers: Vec<u64> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state
        })
        .take(500)
        .collect();
        numbers.sort_unstable();
        holds(&numbers);
    }

    #[test]
    fn a_head_keeps_the_order_of_what_it_stands_for() {
        assert_eq!(head(&[1, 2, 3], 1, 2), 0x0203);
        assert_eq!(head(&[1, 2], 1, 3), 0x02_0000);
        assert_eq!(head(&[1, 2], 1, 0), 0);
        assert_eq!(head(&[1, 2], 5, 8), 0);
        assert_eq!(head(&[9, 1, 2, 3, 4, 5, 6, 7, 8, 9], 1, 8), 0x0102_0304_0506_0708);
        let forms: [&[u8]; 5] = [&[2], &[2, 0], &[2, 0, 1], &[2, 1], &[2, 1, 0, 0, 0, 0, 0, 0, 0, 5]];
        assert!(forms.is_sorted_by_key(|form| head(form, 1, 8)));
    }
}
