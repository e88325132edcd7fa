//! [`Observer`]: who watches a measurement, and may end it.

/// Receives the progress of a measurement, and decides whether it is to end. It is called between
/// requests of the layout and about a thousand times a second while something is measured, so it
/// should not take long.
pub trait Observer: Sync {
    /// Whether everything is to end as soon as nothing is in flight.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// This many more bytes of the test file were written, or read back.
    fn laid_out(&self, _bytes: u64) {}

    /// Cells have run for this many more milliseconds.
    fn ran(&self, _ms: u64) {}
}

/// Watches nothing, ends nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
