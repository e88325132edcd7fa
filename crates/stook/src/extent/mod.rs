//! Byte ranges, and ordered maps from disjoint byte ranges to values.
//!
//! Pure data: nothing here reads, writes or allocates in proportion to the bytes it speaks of.

mod range;

pub use range::ByteRange;
