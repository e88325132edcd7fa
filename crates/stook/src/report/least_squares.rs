//! Weighted linear least squares with confidence intervals for what was fitted.
//!
//! The solution is by orthogonal columns (modified Gram–Schmidt, twice over; Å. Björck, *Numerical
//! Methods for Least Squares Problems*, §2.4), intervals are Student's with the degrees of freedom
//! that are left (N. Draper and H. Smith, *Applied Regression Analysis*, §5.1).

use serde::Serialize;

use super::stats::Interval;

/// A value that was estimated from measurements, and where the true one lies.
///
/// An end that is not known (nothing bounds the value on that side) is infinite, which JSON shows as
/// `null`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The best guess.
    pub value: f64,
    /// Where the true value lies.
    pub interval: Interval,
}

impl Estimate {
    /// `value` ± `half_width`.
    pub fn around(value: f64, half_width: f64, confidence: f64) -> Self {
        Self { value, interval: Interval { low: value - half_width, high: value + half_width, confidence } }
    }

    /// A value that is taken as known.
    pub fn exactly(value: f64) -> Self {
        Self { value, interval: Interval { low: value, high: value, confidence: 1.0 } }
    }

    /// `1 ÷ self` of a value greater than 0. An interval that reaches down to 0 has no upper end then.
    pub(crate) fn inverse(self) -> Self {
        let Interval { low, high, confidence } = self.interval;
        let to = if low > 0.0 { 1.0 / low } else { f64::INFINITY };
        Self { value: 1.0 / self.value, interval: Interval { low: 1.0 / high, high: to, confidence } }
    }

    /// `self × other`, both greater than 0. Both ends are those of the worst case, so the confidence is
    /// at least what is left when either may be wrong (Bonferroni).
    pub(crate) fn times(self, other: Self) -> Self {
        let (left, right) = (self.interval, other.interval);
        let confidence = (left.confidence + right.confidence - 1.0).max(0.0);
        let interval = Interval { low: left.low * right.low, high: left.high * right.high, confidence };
        Self { value: self.value * other.value, interval }
    }
}

/// Why nothing was fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// An error cannot be estimated from as many points as there are coefficients.
    #[error("{points} points are too few to fit {coefficients} coefficients and tell how well")]
    TooFewPoints {
        /// Points there were.
        points: usize,
        /// Coefficients to be fitted.
        coefficients: usize,
    },
    /// A coordinate or weight is infinite or not a number, or a weight is not greater than 0.
    #[error("point {index} is not made of finite numbers with a weight greater than 0")]
    BadPoint {
        /// Its index.
        index: usize,
    },
    /// Different coefficients would fit equally well.
    #[error("the points differ too little to tell the coefficients apart")]
    Dependent,
}

/// One measurement: `y` is expected to be the sum of coefficient × `x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point<const K: usize> {
    /// What each coefficient is multiplied with.
    pub x: [f64; K],
    /// What was measured.
    pub y: f64,
    /// What the difference is multiplied with before it is squared: `1 / y` makes differences relative.
    pub weight: f64,
}

/// Coefficients that leave the least sum of squared, weighted differences.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearFit<const K: usize> {
    /// The coefficients.
    pub coefficients: [f64; K],
    /// Their covariances.
    pub covariance: [[f64; K]; K],
    /// Points less coefficients.
    pub freedom: usize,
}

impl<const K: usize> LinearFit<K> {
    /// Fits `points`.
    ///
    /// # Errors
    /// [`FitError`].
    pub fn of(points: &[Point<K>]) -> Result<Self, FitError> {
        if points.len() <= K {
            return Err(FitError::TooFewPoints { points: points.len(), coefficients: K });
        }
        if let Some(index) = points.iter().position(|point| !is_usable(point)) {
            return Err(FitError::BadPoint { index });
        }
        let columns: [Vec<f64>; K] =
            std::array::from_fn(|k| points.iter().map(|point| point.x[k] * point.weight).collect());
        let mut rest: Vec<f64> = points.iter().map(|point| point.y * point.weight).collect();
        let (orthogonal, triangle) = orthogonalise(columns)?;
        let projections = orthogonal.each_ref().map(|column| subtract_projection(&mut rest, column));
        let freedom = points.len() - K;
        let variance = dot(&rest, &rest) / freedom as f64;
        let inverse = inverse_of_triangle(&triangle);
        let coefficients = inverse.map(|row| row.iter().zip(&projections).map(|(a, b)| a * b).sum());
        let covariance =
            std::array::from_fn(|i| std::array::from_fn(|j| variance * dot(&inverse[i], &inverse[j])));
        Ok(Self { coefficients, covariance, freedom })
    }

    /// Every coefficient with its interval.
    pub fn estimates(&self, confidence: f64) -> [Estimate; K] {
        let width = student_t(confidence, self.freedom);
        std::array::from_fn(|k| {
            let error = self.covariance[k][k].max(0.0).sqrt();
            Estimate::around(self.coefficients[k], width * error, confidence)
        })
    }
}

fn is_usable<const K: usize>(point: &Point<K>) -> bool {
    let scaled = point.x.iter().chain([&point.y]).map(|value| value * point.weight);
    point.weight > 0.0 && scaled.into_iter().all(f64::is_finite)
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

/// Takes what lies along `unit` out of `values`, and says how much that was.
fn subtract_projection(values: &mut [f64], unit: &[f64]) -> f64 {
    let length = dot(values, unit);
    values.iter_mut().zip(unit).for_each(|(value, unit)| *value -= length * unit);
    length
}

/// Orthonormal columns and the upper triangle that leads back from them to the columns given.
fn orthogonalise<const K: usize>(
    mut columns: [Vec<f64>; K],
) -> Result<([Vec<f64>; K], [[f64; K]; K]), FitError> {
    /// What is left of a column when the others are taken out of it, at which only rounding is left.
    const NOTHING: f64 = 1e-10;
    let mut triangle = [[0.0; K]; K];
    for k in 0..K {
        let (done, open) = columns.split_at_mut(k);
        let Some(column) = open.first_mut() else { return Err(FitError::Dependent) };
        let before = dot(column, column).sqrt();
        // The second pass takes out what rounding left of the first.
        for _pass in 0..2 {
            for (i, unit) in done.iter().enumerate() {
                triangle[i][k] += subtract_projection(column, unit);
            }
        }
        let length = dot(column, column).sqrt();
        if length <= before * NOTHING {
            return Err(FitError::Dependent);
        }
        triangle[k][k] = length;
        column.iter_mut().for_each(|value| *value /= length);
    }
    Ok((columns, triangle))
}

/// The inverse of an upper triangle, by back substitution of the unit vectors.
fn inverse_of_triangle<const K: usize>(triangle: &[[f64; K]; K]) -> [[f64; K]; K] {
    let mut inverse = [[0.0; K]; K];
    for column in 0..K {
        for row in (0..=column).rev() {
            let unit = if row == column { 1.0 } else { 0.0 };
            let known: f64 = (row + 1..=column).map(|k| triangle[row][k] * inverse[k][column]).sum();
            inverse[row][column] = (unit - known) / triangle[row][row];
        }
    }
    inverse
}

/// The t for which a value of Student's distribution lies within ±t with the chance `confidence`.
///
/// `confidence` is taken as at most 1 − 10⁻⁹; without a degree of freedom nothing bounds the value.
pub(crate) fn student_t(confidence: f64, freedom: usize) -> f64 {
    if freedom == 0 {
        return f64::INFINITY;
    }
    let wanted = confidence.clamp(0.0, 1.0 - 1e-9);
    let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
    for _halving in 0..60 {
        let middle = (low + high) / 2.0;
        if student_within(middle, freedom) < wanted { low = middle } else { high = middle }
    }
    (freedom as f64).sqrt() * low.tan()
}

/// The chance that |t| ≤ √freedom · tan(angle) (Abramowitz and Stegun, *Handbook of Mathematical
/// Functions*, 26.7.3 and 26.7.4: finite sums, exact for whole degrees of freedom).
fn student_within(angle: f64, freedom: usize) -> f64 {
    let (sin, cos) = angle.sin_cos();
    let odd = freedom % 2;
    // Terms are 1, 1/2 cos², 1·3/(2·4) cos⁴ … or cos, 2/3 cos³, 2·4/(3·5) cos⁵ …
    let (mut term, mut sum) = (if odd == 1 { cos } else { 1.0 }, 0.0);
    let mut k = 2 + odd;
    while k <= freedom {
        sum += term;
        term *= cos * cos * (k - 1) as f64 / k as f64;
        k += 2;
    }
    if odd == 1 { std::f64::consts::FRAC_2_PI * (angle + sin * sum) } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(points: &[(f64, f64)]) -> Vec<Point<2>> {
        points.iter().map(|&(x, y)| Point { x: [1.0, x], y, weight: 1.0 }).collect()
    }

    #[test]
    fn t_matches_the_published_table() {
        for (confidence, freedom, t) in [
            (0.95, 1, 12.706),
            (0.95, 2, 4.303),
            (0.95, 3, 3.182),
            (0.95, 4, 2.776),
            (0.99, 5, 4.032),
            (0.90, 10, 1.812),
            (0.95, 30, 2.042),
            (0.95, 31, 2.040),
        ] {
            assert!((student_t(confidence, freedom) - t).abs() < 6e-4, "{confidence} {freedom}");
        }
        assert!((student_t(0.95, 20_000) - 1.960).abs() < 1e-3);
        assert_eq!(student_t(0.95, 0), f64::INFINITY);
    }

    #[test]
    fn coefficients_and_errors_match_a_worked_example() {
        // y = 0.6 x + 2.2 with residuals −0.8, 0.6, 1, −0.6, −0.2: s² = 2.4 ÷ 3.
        let fit =
            LinearFit::of(&line(&[(1.0, 2.0), (2.0, 4.0), (3.0, 5.0), (4.0, 4.0), (5.0, 5.0)])).unwrap();
        assert!((fit.coefficients[0] - 2.2).abs() < 1e-12 && (fit.coefficients[1] - 0.6).abs() < 1e-12);
        assert!((fit.covariance[0][0] - 0.88).abs() < 1e-12, "s²·(1/5 + 9/10)");
        assert!((fit.covariance[1][1] - 0.08).abs() < 1e-12, "s²/10");
        assert!((fit.covariance[0][1] + 0.24).abs() < 1e-12, "−s²·3/10");
        let [_, slope] = fit.estimates(0.95);
        assert!((slope.interval.high - 0.6 - 3.182_446 * 0.08_f64.sqrt()).abs() < 1e-5, "{slope:?}");
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        let two = line(&[(1.0, 1.0), (2.0, 2.0)]);
        assert_eq!(LinearFit::of(&two), Err(FitError::TooFewPoints { points: 2, coefficients: 2 }));
        let one_place = line(&[(3.0, 1.0), (3.0, 2.0), (3.0, 4.0)]);
        assert_eq!(LinearFit::of(&one_place), Err(FitError::Dependent));
        let bad = line(&[(1.0, 1.0), (2.0, f64::NAN), (3.0, 4.0)]);
        assert_eq!(LinearFit::of(&bad), Err(FitError::BadPoint { index: 1 }));
        let mut weightless = line(&[(1.0, 1.0), (2.0, 2.0), (3.0, 4.0)]);
        weightless[2].weight = 0.0;
        assert_eq!(LinearFit::of(&weightless), Err(FitError::BadPoint { index: 2 }));
        let zero: Vec<Point<1>> = vec![Point { x: [0.0], y: 1.0, weight: 1.0 }; 3];
        assert_eq!(LinearFit::of(&zero), Err(FitError::Dependent));
    }

    #[test]
    fn inverse_and_product_carry_their_ends() {
        let estimate = Estimate::around(4.0, 1.0, 0.95);
        let inverse = estimate.inverse();
        assert_eq!((inverse.interval.low, inverse.value, inverse.interval.high), (0.2, 0.25, 1.0 / 3.0));
        assert_eq!(Estimate::around(4.0, 5.0, 0.95).inverse().interval.high, f64::INFINITY);
        let product = estimate.times(Estimate::around(10.0, 2.0, 0.95));
        assert_eq!((product.interval.low, product.value, product.interval.high), (24.0, 40.0, 60.0));
        assert!((product.interval.confidence - 0.9).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn exact_polynomials_are_found_whatever_the_weights(
            truth in prop::array::uniform3(-1e3_f64..1e3),
            weights in prop::collection::vec(0.01_f64..100.0, 4..12),
        ) {
            let points: Vec<Point<3>> = weights.iter().enumerate().map(|(index, &weight)| {
                let x = index as f64;
                let y = truth[0] + truth[1] * x + truth[2] * x * x;
                Point { x: [1.0, x, x * x], y, weight }
            }).collect();
            let fit = LinearFit::of(&points).unwrap();
            for (found, truth) in fit.coefficients.iter().zip(truth) {
                prop_assert!((found - truth).abs() < 1e-5, "{found} {truth}");
            }
        }

        #[test]
        fn scaling_an_axis_scales_its_coefficient(
            ys in prop::collection::vec(1.0_f64..100.0, 3..10), scale in 1e-9_f64..1e9,
        ) {
            let points: Vec<(f64, f64)> = ys.iter().enumerate().map(|(x, &y)| (x as f64, y)).collect();
            let scaled: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (x * scale, y)).collect();
            let (one, other) = (LinearFit::of(&line(&points)).unwrap(), LinearFit::of(&line(&scaled)).unwrap());
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-8 * (1.0 + a.abs());
            prop_assert!(near(one.coefficients[0], other.coefficients[0]));
            prop_assert!(near(one.coefficients[1], other.coefficients[1] * scale));
            prop_assert!(near(one.covariance[1][1], other.covariance[1][1] * scale * scale));
        }
    }
}
