//! [`SumsReader`]: a list, line by line.

use std::io::{self, BufRead, ErrorKind};

use super::fault::{BadLine, LineFault};
use super::parse::{SumLine, parse};
use crate::hash::HashKind;

/// Longest line that is taken, in bytes: a path of 34 KiB of which each byte is escaped, and the
/// longest checksum.
pub const LINE_MAX: usize = 68 << 10;

/// Reads a list, line by line, in the memory of one line.
#[derive(Debug)]
pub struct SumsReader<R> {
    input: R,
    kind: Option<HashKind>,
    only: Option<Vec<u8>>,
    line: Vec<u8>,
    number: u64,
    /// Whether the last line ended with a line feed.
    ended: bool,
    has_slashes: bool,
    has_backslashes: bool,
    /// Nothing more is read.
    is_done: bool,
}

/// What was read of a line.
enum Line {
    /// All of it, without its line feed.
    Whole,
    /// Its first [`LINE_MAX`] bytes; the others were skipped.
    Cut,
    /// There is no further one.
    None,
}

impl<R: BufRead> SumsReader<R> {
    /// Reads a list of this function, if that is known: from the caller, or by the name of the list
    /// ([`kind_of_name`](super::kind_of_name)). A line that names its function is of that one.
    pub fn new(input: R, kind: Option<HashKind>) -> Self {
        Self {
            input,
            kind,
            only: None,
            line: Vec::new(),
            number: 0,
            ended: true,
            has_slashes: false,
            has_backslashes: false,
            is_done: false,
        }
    }

    /// Takes a first line that is nothing but a checksum for that of this file.
    #[must_use]
    pub fn of_file(self, only: Option<&[u8]>) -> Self {
        Self { only: only.map(<[u8]>::to_vec), ..self }
    }

    /// The next line that is not empty and no comment; `None` at the end.
    ///
    /// A line that is not taken is no error of the reading: the next call continues after it. Only
    /// after [`LineFault::Utf16`] there is nothing more.
    ///
    /// # Errors
    /// Returns the error of the input.
    pub fn next_line(&mut self) -> io::Result<Option<Result<SumLine, BadLine>>> {
        while !self.is_done {
            let parsed = match self.read_line()? {
                Line::None => break,
                Line::Cut => Err(LineFault::TooLong),
                Line::Whole => Ok(()),
            };
            self.number = self.number.saturating_add(1);
            let parsed = match parsed {
                _ if self.number == 1 && is_utf16(&self.line) => {
                    self.is_done = true;
                    Err(LineFault::Utf16)
                }
                Ok(()) => self.parse(),
                Err(fault) => Err(fault),
            };
            match parsed {
                Ok(Some(line)) => return Ok(Some(Ok(line))),
                Ok(None) => {}
                Err(fault) => return Ok(Some(Err(BadLine { number: self.number, fault }))),
            }
        }
        self.is_done = true;
        Ok(None)
    }

    /// Whether the names up to here have backslashes and no slashes, as in lists that were made on
    /// DOS or Windows. Then [`SumLine::dos_path`] is likely what is meant.
    pub fn looks_like_dos(&self) -> bool {
        self.has_backslashes && !self.has_slashes
    }

    /// Whether nothing was read yet: at the end, that there is nothing.
    pub fn is_empty(&self) -> bool {
        self.number == 0
    }

    /// Whether the last line that was read ended with a line feed. If not, it may have been cut.
    pub fn ended(&self) -> bool {
        self.ended
    }

    fn parse(&mut self) -> Result<Option<SumLine>, LineFault> {
        let mut line = self.line.as_slice();
        if self.number == 1 {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let parsed = parse(line, self.number, self.kind, self.only.as_deref().filter(|_| self.number == 1))?;
        if let Some(line) = &parsed {
            self.has_slashes |= line.path.contains(&b'/');
            self.has_backslashes |= line.dos_path.is_some();
        }
        Ok(parsed)
    }

    fn read_line(&mut self) -> io::Result<Line> {
        self.line.clear();
        let mut read = Line::None;
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if bytes.is_empty() {
                self.ended &= matches!(read, Line::None);
                return Ok(read);
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, _) = bytes.split_at(end.unwrap_or(bytes.len()));
            let room = LINE_MAX.saturating_sub(self.line.len());
            if part.len() > room {
                read = Line::Cut;
            } else if !matches!(read, Line::Cut) {
                read = Line::Whole;
            }
            self.line.extend_from_slice(part.get(..room).unwrap_or(part));
            let used = part.len().saturating_add(usize::from(end.is_some()));
            self.input.consume(used);
            if end.is_some() {
                self.ended = true;
                return Ok(read);
            }
        }
    }
}

/// Whether this is how a text in UTF-16 begins, with or without its mark.
fn is_utf16(line: &[u8]) -> bool {
    let is_zero = |at: usize| line.get(at) == Some(&0);
    line.starts_with(&[0xff, 0xfe])
        || line.starts_with(&[0xfe, 0xff])
        || (is_zero(0) && is_zero(2) && !is_zero(1))
        || (is_zero(1) && is_zero(3) && !is_zero(0) && !is_zero(2))
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

    /// The path of each line, or the number and what is wrong with it.
    fn read(list: &[u8]) -> Vec<String> {
        // A buffer of one byte cuts a line anywhere.
        let mut reader = SumsReader::new(BufReader::with_capacity(1, list), None);
        let mut all = Vec::new();
        while let Some(line) = reader.next_line().unwrap() {
            all.push(match line {
                Ok(line) => String::from_utf8_lossy(&line.path).into_owned(),
                Err(bad) => bad.to_string(),
            });
        }
        all
    }

    #[test]
    fn a_bad_line_is_one_error_with_its_number_and_the_others_are_read() {
        let list = format!("\u{feff}{MD5}  a\r\n\r\n# a comment\nnonsense\n{MD5}  ../b\n{MD5} *c");
        let all = read(list.as_bytes());
        assert_eq!(all.len(), 4, "{all:?}");
        assert_eq!((all[0].as_str(), all[3].as_str()), ("a", "c"));
        assert!(all[1].starts_with("line 4: not a line of a checksum list"), "{}", all[1]);
        assert!(all[2].starts_with("line 5: there is a `..` in the name"), "{}", all[2]);
    }

    #[test]
    fn a_line_of_any_length_is_skipped_in_bounded_memory() {
        let long = io::repeat(b'a').take(1 << 26);
        let list = format!("\n{MD5}  after\n");
        let mut reader = SumsReader::new(BufReader::new(long.chain(list.as_bytes())), None);
        let bad = reader.next_line().unwrap().unwrap().unwrap_err();
        assert_eq!(bad, BadLine { number: 1, fault: LineFault::TooLong });
        assert_eq!(reader.next_line().unwrap().unwrap().unwrap().path, b"after");
        assert!(reader.next_line().unwrap().is_none());
        assert!(reader.line.capacity() <= 2 * LINE_MAX);
    }

    #[test]
    fn the_longest_line_is_taken_and_one_byte_more_is_not() {
        let name = "b".repeat(LINE_MAX - MD5.len() - 2);
        assert_eq!(read(format!("{MD5}  {name}\n{MD5}  c\n").as_bytes()), [name.as_str(), "c"]);
        let all = read(format!("{MD5}  {name}b\n{MD5}  c\n").as_bytes());
        assert_eq!(all, ["line 1: longer than 69632 bytes, and skipped", "c"]);
    }

    #[test]
    fn a_list_in_utf16_is_refused_as_a_whole_with_and_without_its_mark() {
        let units = || format!("{MD5}  a\r\n{MD5}  b\r\n").encode_utf16().collect::<Vec<u16>>();
        let little = |units: Vec<u16>| units.into_iter().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let big = |units: Vec<u16>| units.into_iter().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
        let marked = || [vec![0xfeff], units()].concat();
        for list in [little(units()), big(units()), little(marked()), big(marked())] {
            let all = read(&list);
            assert_eq!(all.len(), 1, "{all:?}");
            assert!(all[0].starts_with("line 1: the list is in UTF-16: make it UTF-8"), "{}", all[0]);
        }
    }

    #[test]
    fn lists_from_dos_are_recognised_by_their_names() {
        let looks = |names: &[&str]| {
            let list: String = names.iter().map(|name| format!("{MD5}  {name}\r\n")).collect();
            let mut reader = SumsReader::new(list.as_bytes(), None);
            while reader.next_line().unwrap().is_some() {}
            reader.looks_like_dos()
        };
        assert!(looks(&[r"a\b", "c"]));
        assert!(!looks(&["a", "c"]) && !looks(&[r"a\b", "c/d"]));
    }

    #[test]
    fn a_list_that_does_not_end_with_a_line_feed_may_be_cut() {
        let ended = |list: &str| {
            let mut reader = SumsReader::new(list.as_bytes(), None);
            while reader.next_line().unwrap().is_some() {}
            reader.ended()
        };
        assert!(ended("") && ended(&format!("{MD5}  a\n")));
        assert!(!ended(&format!("{MD5}  a")));
    }
}
