//! [`NameList`]: lists of names (keys, paths), as other programs write them.

use std::io::{self, BufRead, Read as _};

use super::escape::{EscapeError, unescape};

/// What ends each name of a list, and how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ListEnd {
    /// A newline: names are written as they are shown, with `\xNN` for a byte and `\\` for a
    /// backslash.
    #[default]
    Line,
    /// A zero byte: names are as they are.
    Nul,
}

impl ListEnd {
    fn byte(self) -> u8 {
        match self {
            Self::Line => b'\n',
            Self::Nul => 0,
        }
    }

    /// The name that was written so.
    ///
    /// # Errors
    /// Returns an error if a backslash on a line begins no escape.
    pub fn name(self, written: Vec<u8>) -> Result<Vec<u8>, EscapeError> {
        match self {
            Self::Line => unescape(&written).map(|name| name.into_owned()),
            Self::Nul => Ok(written),
        }
    }
}

/// A list, read one name after another.
#[derive(Debug)]
pub struct NameList<R> {
    reader: R,
    end: ListEnd,
    longest: u64,
    number: u64,
}

impl<R: BufRead> NameList<R> {
    /// The names that a reader gives. One of more than `longest` bytes ends the reading with an
    /// error: a file that is no list does not fill the memory.
    pub fn new(reader: R, end: ListEnd, longest: u64) -> Self {
        Self { reader, end, longest, number: 0 }
    }

    /// The next name as it is written, without what ends it; `None` after the last. Empty ones are
    /// left out.
    ///
    /// # Errors
    /// I/O errors; that a name is too long.
    pub fn next_written(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let mut written = Vec::new();
            // The end of the name, and one byte that shows that it is too long.
            let most = self.longest.saturating_add(2);
            let got = self.reader.by_ref().take(most).read_until(self.end.byte(), &mut written)?;
            if got == 0 {
                return Ok(None);
            }
            self.number += 1;
            if written.last() == Some(&self.end.byte()) {
                written.pop();
            }
            if written.len() as u64 > self.longest {
                let what = format!("name {} of the list is longer than {} bytes", self.number, self.longest);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            if !written.is_empty() {
                return Ok(Some(written));
            }
        }
    }

    /// What ends names.
    pub fn end(&self) -> ListEnd {
        self.end
    }

    /// The position of the last name in the list, from 1, empty ones included: its line.
    pub fn number(&self) -> u64 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8], end: ListEnd) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let mut list = NameList::new(text, end, 8);
        let mut names = Vec::new();
        while let Some(written) = list.next_written()? {
            names.push((list.number(), end.name(written).map_err(io::Error::other)?));
        }
        Ok(names)
    }

    #[test]
    fn names_on_lines_are_as_they_are_shown_and_between_zero_bytes_as_they_are() {
        let name = |number, text: &[u8]| (number, text.to_vec());
        let lines = all(b"one\n\n\\x0a\\\\\nlast", ListEnd::Line).unwrap();
        assert_eq!(lines, [name(1, b"one"), name(3, b"\n\\"), name(4, b"last")]);
        let plain = all(b"a\\b\0\0c\nd\0", ListEnd::Nul).unwrap();
        assert_eq!(plain, [name(1, b"a\\b"), name(3, b"c\nd")]);
        assert_eq!(all(b"", ListEnd::Line).unwrap(), []);
        assert!(all(b"a\\b", ListEnd::Line).unwrap_err().to_string().contains("begins no escape"));
    }

    #[test]
    fn a_name_that_is_too_long_is_an_error_and_one_that_just_fits_is_none() {
        assert_eq!(all(b"12345678\n1", ListEnd::Line).unwrap().len(), 2);
        assert_eq!(all(b"12345678", ListEnd::Nul).unwrap().len(), 1);
        for text in [&b"1\n123456789\n"[..], b"1\n1234567890000", b"1\n123456789"] {
            let error = all(text, ListEnd::Line).unwrap_err().to_string();
            assert_eq!(error, "name 2 of the list is longer than 8 bytes");
        }
    }
}
