//! Lists of checksums, a line for each file: what `sha256sum`, `md5sum`, `sha1sum`, `b3sum`,
//! `xxhsum` and dircopy write, and what they read with `-c`.
//!
//! [`SumsReader`] takes a list from anything that is read forwards, in bounded memory; [`line`]
//! makes a line of one. `docs/formats/checksum-lists.md` lays it down.

mod fault;
mod names;
mod parse;
mod read;
mod write;

pub use fault::{BadLine, LineFault};
pub use names::{is_list_name, kind_of_name, list_name};
pub use parse::SumLine;
pub use read::{LINE_MAX, SumsReader};
pub use write::{is_read_by_its_tool, line};
