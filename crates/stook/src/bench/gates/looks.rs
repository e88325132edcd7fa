//! [`Looks`]: samples of the number of requests in flight, and the error of their mean.

/// Of fewer it is not known how far their mean may be off.
const LOOKS_MIN: u64 = 20;
/// The squared coefficient of variation of the distances of looks: each is half as long to one and
/// a half times as long as the mean of all, any length as likely as any other.
const DISTANCE_VARIATION: f64 = 1.0 / 12.0;

/// Numbers of requests in flight, each at a moment that is independent of the requests.
///
/// Their mean estimates the mean over the whole time of this run, so its error depends on the
/// changes between two looks, not on slow changes that many looks see. It shows in the mean square
/// of the differences of successive looks (J. von Neumann, *Distribution of the Ratio of the Mean
/// Square Successive Difference to the Variance*, 1941): half of it is the variance where looks are
/// independent of each other, as with requests that are shorter than their distance, and it is
/// small if many looks see the same requests. The varying distances of looks add a twelfth of the
/// variance, because an interval with more looks counts more.
#[derive(Debug, Clone, Copy, Default)]
pub struct Looks {
    count: u64,
    sum: u64,
    most: u64,
    last: u64,
    sum_of_squares: f64,
    /// Of the squared differences of successive looks.
    sum_of_steps: f64,
}

/// The result of the looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// The mean of all looks.
    pub mean: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// How many there were.
    pub looks: u64,
}

impl Looks {
    /// One more.
    pub fn add(&mut self, in_flight: u64) {
        if self.count > 0 {
            self.sum_of_steps += (in_flight.abs_diff(self.last) as f64).powi(2);
        }
        self.count += 1;
        self.sum += in_flight;
        self.most = self.most.max(in_flight);
        self.last = in_flight;
        self.sum_of_squares += (in_flight as f64).powi(2);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The highest value that one saw.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The mean, if there were any.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Mean and standard error.
    ///
    /// # Errors
    /// Returns why there are too few looks for these, in plain words.
    pub fn sampled(&self) -> Result<Sampled, String> {
        let mean = self.mean().ok_or("it was over before anybody looked at what was in flight")?;
        if self.count < LOOKS_MIN {
            let looks = self.count;
            return Err(format!("it was over when somebody had looked {looks} times at what was in flight"));
        }
        let count = self.count as f64;
        let variance = (self.sum_of_squares / count - mean.powi(2)).max(0.0);
        let between = self.sum_of_steps / (count - 1.0) / 2.0;
        let standard_error = ((between + DISTANCE_VARIATION * variance) / count).sqrt();
        Ok(Sampled { mean, standard_error, looks: self.count })
    }
}

impl Sampled {
    /// The standard error if the true mean is `expected`. The number in flight is an integer, and
    /// the variance of an integer with mean `f` between 0 and 1 is at least f·(1 − f): looks that
    /// all missed rare requests would show no error.
    pub(super) fn standard_error_if(&self, expected: f64) -> f64 {
        let part = expected.fract();
        let least = (part * (1.0 - part) / self.looks.max(1) as f64).sqrt();
        self.standard_error.max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(seen: impl IntoIterator<Item = u64>) -> Looks {
        let mut looks = Looks::default();
        seen.into_iter().for_each(|in_flight| looks.add(in_flight));
        looks
    }

    #[test]
    fn what_never_changes_has_no_error_and_few_looks_tell_none() {
        assert!(looks([]).sampled().unwrap_err().contains("before anybody looked"));
        assert!(looks([8; 19]).sampled().unwrap_err().contains("19 times"));
        assert_eq!(looks([8; 20]).sampled(), Ok(Sampled { mean: 8.0, standard_error: 0.0, looks: 20 }));
    }

    #[test]
    fn the_error_is_of_what_happens_between_looks_not_of_what_all_of_them_see() {
        // Each look finds another state: one of a fair coin, whose variance is a quarter.
        let bits = (0..1000_u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63);
        let coin = looks(bits).sampled().unwrap().standard_error;
        let independent = (0.25_f64 / 1000.0).sqrt();
        assert!((0.5..1.5).contains(&(coin / independent)), "{coin} {independent}");
        // A queue that is long for half of the time varies by as much as that coin, and is seen as
        // it is.
        let queue = looks((0..1000).map(|at| u64::from(at >= 500))).sampled().unwrap().standard_error;
        assert!(queue < 0.35 * independent, "{queue} {independent}");
    }

    #[test]
    fn what_is_rare_has_an_error_although_no_look_saw_it() {
        let sampled = Sampled { mean: 0.0, standard_error: 0.0, looks: 10_000 };
        assert!((sampled.standard_error_if(0.01) / 0.000_995 - 1.0).abs() < 0.001);
        assert_eq!(sampled.standard_error_if(8.0), 0.0);
    }
}
