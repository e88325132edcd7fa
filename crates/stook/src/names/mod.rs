//! Names as text: one way to write bytes on a line and to read them back, and one kind of pattern.
//!
//! Keys, paths and groups are arbitrary bytes from outside. All code that shows them to people or
//! parses them uses [`escaped`] and [`unescape`]; all code that selects them by pattern uses
//! [`Patterns`]; all code that reads a list of them uses [`NameList`].

mod escape;
mod list;
#[cfg(unix)]
mod patterns;

pub use escape::{EscapeError, Escaped, escaped, escaped_controls, unescape};
pub(crate) use escape::{key_form, key_text};
pub use list::{ListEnd, NameList};
#[cfg(unix)]
pub use patterns::{PatternError, Patterns, Selection};
#[cfg(unix)]
pub(crate) use patterns::{directories_above, pattern_below};
