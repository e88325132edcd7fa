//! Encoding.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{KEY, LayoutPiece, PathPiece, VERSION};

/// The longest bytes that are written as a text: longer ones are not read by people.
const TEXT_LEN_MAX: usize = 256;

/// Why something is in no layout.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{name:?} is not UTF-8, and a layout has no other names")]
pub struct Refused {
    /// The name, as far as it can be shown.
    pub name: String,
}

/// Writes a layout, a piece at a time.
#[derive(Debug)]
pub struct Encoder {
    text: String,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// The begin of one.
    pub fn new() -> Self {
        Self { text: format!("{KEY} = {VERSION}\n") }
    }

    /// Begins a file.
    ///
    /// # Errors
    /// Returns an error if its name is not UTF-8.
    pub fn file(&mut self, name: &[u8]) -> Result<(), Refused> {
        let name = utf8(name)?;
        self.text.push_str("\n[[file]]\nname = ");
        self.string(name);
        self.text.push_str("\npieces = [\n");
        Ok(())
    }

    /// Adds a piece to the file that was begun.
    pub fn piece(&mut self, piece: &LayoutPiece) {
        self.text.push_str("  { ");
        match piece {
            LayoutPiece::Path(PathPiece { path, offset, length, size, mtime_ns }) => {
                self.text.push_str("path = ");
                self.string(path);
                self.cut(*offset, *length);
                let numbers = [("size", size.map(|size| size.to_string()))];
                let numbers = numbers.into_iter().chain([("mtime_ns", mtime_ns.map(|ns| ns.to_string()))]);
                for (key, number) in numbers.filter_map(|(key, number)| Some((key, number?))) {
                    let _ = write!(self.text, ", {key} = {number}");
                }
            }
            LayoutPiece::File { name, offset, length } => {
                self.text.push_str("file = ");
                self.string(name);
                self.cut(*offset, *length);
            }
            LayoutPiece::Bytes(bytes) => match readable(bytes) {
                Some(text) => {
                    self.text.push_str("text = ");
                    self.string(text);
                }
                None => {
                    self.text.push_str("base64 = \"");
                    BASE64_STANDARD.encode_string(bytes, &mut self.text);
                    self.text.push('"');
                }
            },
            LayoutPiece::Fill { byte, length } => {
                let _ = write!(self.text, "fill = {byte}, length = {length}");
            }
        }
        self.text.push_str(" },\n");
    }

    /// Ends the file that was begun.
    pub fn end_file(&mut self) {
        self.text.push_str("]\n");
    }

    /// What was written since it was asked for last.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Bytes that were written, and not taken yet.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn cut(&mut self, offset: u64, length: Option<u64>) {
        if offset > 0 {
            let _ = write!(self.text, ", offset = {offset}");
        }
        if let Some(length) = length {
            let _ = write!(self.text, ", length = {length}");
        }
    }

    /// A basic string of TOML.
    fn string(&mut self, text: &str) {
        self.text.push('"');
        for char in text.chars() {
            match char {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\t' => self.text.push_str("\\t"),
                control if control.is_control() => {
                    let _ = write!(self.text, "\\u{:04X}", u32::from(control));
                }
                char => self.text.push(char),
            }
        }
        self.text.push('"');
    }
}

/// A name as a layout has it.
fn utf8(name: &[u8]) -> Result<&str, Refused> {
    std::str::from_utf8(name).map_err(|_| Refused { name: String::from_utf8_lossy(name).into_owned() })
}

/// Bytes that people can read.
fn readable(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= TEXT_LEN_MAX)?;
    text.chars().all(|char| char == '\n' || char == '\t' || !char.is_control()).then_some(text)
}
