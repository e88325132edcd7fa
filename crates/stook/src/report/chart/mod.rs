//! Charts as inline SVG.
//!
//! All horizontal positions are percentages and all text keeps its size, so that a chart fills a
//! phone or a sheet of paper without a script and without shrinking its labels. Colour is never the
//! only thing that distinguishes two lines: every one is named where it ends.

mod bars;
mod columns;
mod frame;
mod heat;
mod lines;
mod scale;

pub use bars::{Bar, Bars};
pub use columns::{Column, Columns};
pub use frame::Marker;
pub use heat::{HeatField, HeatMap};
pub use lines::{Lines, Point, Series};
pub use scale::{Axis, TickFormat};
