//! [`PlanOptions`]: how reads are merged and cut.

/// How reads are merged and cut. All are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanOptions {
    /// The longest unwanted gap that is read over to save a request; 0 merges only what touches.
    pub max_gap: u64,
    /// The shortest read, as far as `max_len` and `end` allow: one that would end before is made
    /// longer at its end, rounded up to `alignment`. 0 for no read longer than it must be.
    pub min_len: u64,
    /// The longest read, including rounding. Rounded down to a multiple of `alignment`.
    pub max_len: u64,
    /// Reads begin and end at multiples of this power of two; 1 for no alignment.
    pub alignment: u64,
    /// The length of the source. Nothing past it is planned; `u64::MAX` if it is not known.
    pub end: u64,
}

impl Default for PlanOptions {
    /// No gaps, reads of at least nothing and at most 1 MiB, no alignment, no known end.
    fn default() -> Self {
        Self { max_gap: 0, min_len: 0, max_len: 1 << 20, alignment: 1, end: u64::MAX }
    }
}

impl PlanOptions {
    /// The most reads, and the most pieces, of one plan. Bounds its memory to about 320 MiB.
    pub const MAX_PIECES: usize = 1 << 22;

    /// The longest read as a multiple of the alignment.
    #[inline]
    pub(super) fn checked_max_len(&self) -> Result<u64, PlanError> {
        if !self.alignment.is_power_of_two() {
            return Err(PlanError::Alignment { alignment: self.alignment });
        }
        match self.max_len & !(self.alignment - 1) {
            0 => Err(PlanError::MaxLen { max_len: self.max_len, alignment: self.alignment }),
            max_len => Ok(max_len),
        }
    }
}

/// Why planning failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The alignment cannot be one.
    #[error("alignment {alignment} is not a power of two (1 for none)")]
    Alignment {
        /// The given alignment, in bytes.
        alignment: u64,
    },
    /// Not even one aligned unit fits into a read.
    #[error("max_len {max_len} is less than one unit of the alignment ({alignment} bytes)")]
    MaxLen {
        /// The given length, in bytes.
        max_len: u64,
        /// The alignment, in bytes.
        alignment: u64,
    },
    /// The plan would not fit in bounded memory.
    #[error(
        "the plan needs more than {} reads or pieces; plan fewer ranges at a time or raise max_len",
        PlanOptions::MAX_PIECES
    )]
    TooManyPieces,
}
