//! Byte ranges, and ordered maps from disjoint byte ranges to values.
//!
//! Pure data: nothing here reads, writes or allocates in proportion to the bytes it speaks of.

mod iter;
mod map;
mod range;
mod value;

pub use iter::{Gaps, Piece, Pieces, Spans};
pub use map::{ExtentMap, InsertError, Inserted, OnOverlap};
pub use range::ByteRange;
pub use value::{ExtentValue, Overlap, first_byte_difference};
