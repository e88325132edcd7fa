//! Layouts: files that do not exist, described by a short text in TOML. What it has is laid down in
//! `docs/formats/layout-v1.md`.
//!
//! [`read`] checks all of it that can be checked without looking at a source: names, paths and that
//! each piece says one thing. It hands pieces on as they lie in the text, and [`Encoder`] writes
//! one, a piece at a time.

mod decode;
mod encode;
mod reader;

use bytes::Bytes;

pub use decode::{Said, decode, is_layout, read};
pub use encode::{Encoder, Refused};

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// What every layout begins with.
pub const KEY: &str = "stook-layout";
/// The longest layout that is read.
pub const LEN_MAX: u64 = 256 << 20;
/// The most files of one.
const FILES_MAX: usize = 1 << 20;
/// The longest path in one, in bytes.
const PATH_LEN_MAX: usize = 4096;

/// A file that a layout describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutFile {
    /// Its path: relative, without `.` and `..`.
    pub name: String,
    /// What it is made of, in order.
    pub pieces: Vec<LayoutPiece>,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutPiece {
    /// Bytes of a file on disk.
    Path(PathPiece),
    /// Bytes of another file of the layout.
    File {
        /// Its name.
        name: String,
        /// From here on.
        offset: u64,
        /// So many; all that follow, if it is not said.
        length: Option<u64>,
    },
    /// These bytes.
    Bytes(Bytes),
    /// One byte, repeated.
    Fill {
        /// It.
        byte: u8,
        /// How often.
        length: u64,
    },
}

/// Bytes of a file on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPiece {
    /// Its path, relative to the directory of the layout: without `.` and `..`.
    pub path: String,
    /// From here on.
    pub offset: u64,
    /// So many; all that follow, if it is not said.
    pub length: Option<u64>,
    /// How long the file is. Another length is a change.
    pub size: Option<u64>,
    /// When it was modified, in nanoseconds since 1970. Another time is a change.
    pub mtime_ns: Option<i64>,
}

/// Why a layout is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutFault {
    /// It is not one.
    #[error("it is no layout: a layout begins with the line `stook-layout = 1`")]
    NotOne,
    /// It is of another version.
    #[error("it is a layout of version {0}, and only version 1 is read here")]
    Version(u64),
    /// It is no TOML, or has what no layout has.
    #[error("line {line}: {what}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

#[cfg(test)]
mod tests;
