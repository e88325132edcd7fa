//! How much may be deleted because a source does not have it any more: an empty mount point, or
//! another directory by mistake, looks like a source from which nearly all is gone.

use crate::report::units;

/// Files that are gone, of those that were there. Directories are not among them: a tree may have
/// all of its directories and no file left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GoneCount {
    pub(crate) gone: u64,
    pub(crate) of: u64,
}

impl GoneCount {
    /// Whether that is more than is deleted unasked.
    pub(crate) fn is_more_than_half(self) -> bool {
        self.gone.saturating_mul(2) > self.of
    }
}

/// Why nothing is deleted where more than half would be.
pub(crate) const MORE_THAN_HALF: &str =
    "more than half: this may be another tree, or one that is not mounted; none was";

/// Why nothing is deleted where more would be than was allowed.
pub(crate) fn more_than(max: u64) -> String {
    format!("more than the {} that may be", units::count(max))
}
