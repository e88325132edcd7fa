//! Weighted linear least squares with confidence intervals for the fitted values.
//!
//! The solution is by orthogonal columns (modified Gram–Schmidt, twice over; Å. Björck, *Numerical
//! Methods for Least Squares Problems*, §2.4). Intervals are Student's, with errors that do not
//! assume all points to be equally certain (HC3; J. Long and L. Ervin, *Using Heteroscedasticity
//! Consistent Standard Errors in the Linear Regression Model*, 2000).

use serde::Serialize;

use super::stats::Interval;

/// A value that was estimated from measurements, and where the true one lies.
///
/// An end that is not known (nothing bounds the value on that side) is infinite, which JSON shows
/// as `null`.
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

    /// `1 ÷ self` of a value greater than 0. An interval that reaches down to 0 has no upper end
    /// then.
    pub(crate) fn inverse(self) -> Self {
        let Interval { low, high, confidence } = self.interval;
        let to = if low > 0.0 { 1.0 / low } else { f64::INFINITY };
        Self { value: 1.0 / self.value, interval: Interval { low: 1.0 / high, high: to, confidence } }
    }

    /// `self × other`, both greater than 0. Both ends are those of the worst case, so the
    /// confidence is at least what remains if either may be wrong (Bonferroni).
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
    /// The measured value.
    pub y: f64,
    /// The factor of the difference before it is squared: `1 / y` makes differences relative.
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
    /// Returns [`FitError`].
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
        let Orthogonal { units, triangle } = Orthogonal::of(columns)?;
        let along = units.each_ref().map(|unit| subtract_projection(&mut rest, unit));
        let inverse = inverse_of_triangle(&triangle);
        let coefficients =
            std::array::from_fn(|k| inverse.iter().zip(&along).map(|(column, part)| column[k] * part).sum());
        let covariance = covariance(&units, &inverse, &rest);
        let freedom = points.len() - K;
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

/// Subtracts the projection onto `unit` from `values`, and returns its length.
fn subtract_projection(values: &mut [f64], unit: &[f64]) -> f64 {
    let length = dot(values, unit);
    values.iter_mut().zip(unit).for_each(|(value, unit)| *value -= length * unit);
    length
}

/// Orthonormal columns, and how they make up the columns that were given.
struct Orthogonal<const K: usize> {
    units: [Vec<f64>; K],
    /// By column: entry *i* of column *k* is the part of unit *i* in the original column *k*.
    triangle: [[f64; K]; K],
}

impl<const K: usize> Orthogonal<K> {
    fn of(mut columns: [Vec<f64>; K]) -> Result<Self, FitError> {
        /// The remainder of a column without the others, at which only rounding is left.
        const NOTHING: f64 = 1e-10;
        let mut triangle = [[0.0; K]; K];
        for (k, parts) in triangle.iter_mut().enumerate() {
            let (units, open) = columns.split_at_mut(k);
            let Some(column) = open.first_mut() else { return Err(FitError::Dependent) };
            let before = dot(column, column).sqrt();
            // The second pass takes out what rounding left of the first.
            for _pass in 0..2 {
                for (part, unit) in parts.iter_mut().zip(units.iter()) {
                    *part += subtract_projection(column, unit);
                }
            }
            let length = dot(column, column).sqrt();
            if length <= before * NOTHING {
                return Err(FitError::Dependent);
            }
            parts[k] = length;
            column.iter_mut().for_each(|value| *value /= length);
        }
        Ok(Self { units: columns, triangle })
    }
}

/// The inverse of an upper triangle, by back substitution of the unit vectors; both by column.
fn inverse_of_triangle<const K: usize>(triangle: &[[f64; K]; K]) -> [[f64; K]; K] {
    std::array::from_fn(|unit| {
        let mut column = [0.0; K];
        column[unit] = 1.0;
        for (row, parts) in triangle.iter().enumerate().take(unit + 1).rev() {
            let solved = column[row] / parts[row];
            for (value, part) in column.iter_mut().zip(parts).take(row) {
                *value -= solved * part;
            }
            column[row] = solved;
        }
        column
    })
}

/// How the coefficients vary, from how much each point misses the line that is fitted to all
/// others: the estimator HC3. It holds where points are not equally certain, as cells of equal time
/// are not: those of slow requests have fewer of them. Infinite when the others alone do not make a
/// line.
fn covariance<const K: usize>(units: &[Vec<f64>; K], inverse: &[[f64; K]; K], rest: &[f64]) -> [[f64; K]; K] {
    /// How much of a point the others must say for its difference from them to be more than
    /// rounding.
    const SAID_MIN: f64 = 1e-9;
    let mut covariance = [[0.0; K]; K];
    for (index, rest) in rest.iter().enumerate() {
        let along: [f64; K] = units.each_ref().map(|unit| unit.get(index).copied().unwrap_or(0.0));
        let said_by_others = 1.0 - dot(&along, &along);
        if said_by_others < SAID_MIN {
            return [[f64::INFINITY; K]; K];
        }
        // What each coefficient would change by without this point.
        let change: [f64; K] = std::array::from_fn(|k| {
            let part: f64 = inverse.iter().zip(&along).map(|(column, along)| column[k] * along).sum();
            part * rest / said_by_others
        });
        for (row, left) in covariance.iter_mut().zip(&change) {
            row.iter_mut().zip(&change).for_each(|(entry, right)| *entry += left * right);
        }
    }
    covariance
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
        // Without one point at a time the differences are −2, 6/7, 5/4, −6/7 and −1/2.
        let missed = [-2.0, 6.0 / 7.0, 1.25, -6.0 / 7.0, -0.5_f64].map(|miss| miss * miss);
        let (base, slope) = ([0.8, 0.5, 0.2, -0.1, -0.4], [-0.2, -0.1, 0.0, 0.1, 0.2]);
        let sum = |left: [f64; 5], right: [f64; 5]| -> f64 {
            (0..5).map(|index| left[index] * right[index] * missed[index]).sum()
        };
        assert!((fit.covariance[0][0] - sum(base, base)).abs() < 1e-12);
        assert!((fit.covariance[1][1] - sum(slope, slope)).abs() < 1e-12);
        assert!((fit.covariance[0][1] - sum(base, slope)).abs() < 1e-12);
        let [_, found] = fit.estimates(0.95);
        assert!((found.interval.high - 0.6 - 3.182_446 * sum(slope, slope).sqrt()).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn intervals_hold_where_points_are_not_equally_certain() {
        // A line over a range of 4096, with errors that grow as the root of the measured value.
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        };
        let mut held = [0; 2];
        for _trial in 0..1000 {
            let points: Vec<Point<2>> = (0..7)
                .map(|power| {
                    let x = f64::from(4_u32.pow(power));
                    let truth = 50.0 + x;
                    let y = truth * (1.0 + 0.001 * truth.sqrt() * noise());
                    Point { x: [1.0, x], y, weight: 1.0 / y }
                })
                .collect();
            let [base, slope] = LinearFit::of(&points).unwrap().estimates(0.95);
            held[0] += u32::from(base.interval.contains(50.0));
            held[1] += u32::from(slope.interval.contains(1.0));
        }
        // Errors that take all points to be equally certain hold the slope in 825 of 1000.
        assert!(held.iter().all(|held| *held >= 900), "{held:?}");
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
