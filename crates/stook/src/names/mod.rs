//! Names as text: one way to write bytes on a line and to read them back, and one kind of pattern.
//!
//! Keys, paths and groups are bytes that somebody else chose. Whatever shows them to people, or
//! takes them from people, does it with [`escaped`] and [`unescape`]; whatever chooses among them
//! by pattern does it with [`Patterns`].

mod escape;
#[cfg(unix)]
mod patterns;

pub use escape::{EscapeError, Escaped, escaped, escaped_controls, unescape};
#[cfg(unix)]
pub(crate) use patterns::directories_above;
#[cfg(unix)]
pub use patterns::{PatternError, Patterns, Selection};
