//! [`Observer`]: who watches a measurement, and may end it.

/// Told how far a measurement has come, and asked whether it is to end. It is called between
/// requests of the layout and about a thousand times a second while something is measured, so it
/// should not take long.
pub trait Observer: Sync {
    /// Whether everything is to end as soon as nothing is in flight.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// So many bytes more of the test file were written, or read back.
    fn laid_out(&self, _bytes: u64) {}

    /// Cells have run for so much longer.
    fn ran(&self, _ms: u64) {}
}

/// Watches nothing, ends nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
