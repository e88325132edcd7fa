//! The behaviour of a device, as few numbers fitted to measurements: [`block`] for block size,
//! [`depth`] for queue depth, [`mix`] for reads and writes at once.
//!
//! Every number comes with an interval and every cell with its residual. A fit uses only cells that
//! count: no gate failed, though one may be unverified. It is refused, with the reason, when those
//! are too few. Nothing here measures.
//!
//! The models take plain numbers from any source. [`Cell`] takes them from a result of `bench`, and
//! [`Models`] finds what can be fitted in a whole result. [`doubts()`] groups its doubtful cells by
//! their reasons.

pub mod block;
mod cell;
pub mod depth;
mod doubt;
pub mod mix;
mod swept;

pub use cell::{Cell, Part, counted_runs};
pub(super) use cell::{second_rates, whole_seconds};
pub use doubt::{Doubt, doubts};
pub use swept::{Fitted, Models, Swept};

use crate::report::least_squares::FitError;

/// The confidence of every interval of a model.
pub const CONFIDENCE: f64 = 0.95;

/// Why a model cannot be fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Too few cells count.
    #[error(
        "{needed} different {what} are needed, and the cells that count have {counted} ({invalid} not valid)"
    )]
    TooFew {
        /// The parameter that must differ: `block sizes`, `depths`.
        what: &'static str,
        /// How many different ones there are among the cells that count.
        counted: usize,
        /// How many cells were left out because a gate failed.
        invalid: usize,
        /// How many are needed.
        needed: usize,
    },
    /// A cell that everything else is compared with is missing or does not count.
    #[error("there is no cell {what} that counts, which the others are compared with")]
    NoReference {
        /// Which: `at depth 1`.
        what: &'static str,
    },
    /// A figure of a cell is not a finite number greater than 0.
    #[error("{what} of a cell is {value}, which is not a finite number greater than 0")]
    NotPositive {
        /// Which figure.
        what: &'static str,
        /// The value found.
        value: f64,
    },
    /// The measurements do not follow the model.
    #[error("the cells do not fit the model: {reason}")]
    Contradicted {
        /// In which way.
        reason: String,
    },
    /// The fit itself was not possible.
    #[error(transparent)]
    Fit(#[from] FitError),
}

/// Refuses a figure that cannot have been measured.
fn positive(what: &'static str, value: f64) -> Result<(), ModelError> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(ModelError::NotPositive { what, value }) }
}

/// How many different values there are.
fn distinct(values: impl Iterator<Item = u64>) -> usize {
    values.collect::<std::collections::BTreeSet<u64>>().len()
}
