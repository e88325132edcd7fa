//! Results on stdout: lines, aligned tables, JSON.
//!
//! Nothing else of this program writes to stdout. Every write can fail, and a reader that closed
//! its end (`stook ls | head`) is distinguished by [`OutputError`].

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

use serde::Serialize;
use stook::names::escaped_controls;
pub use stook::report::table::Align;

use crate::interrupt::while_writing;

/// Standard output could not be written.
#[derive(Debug)]
pub struct OutputError(io::Error);

impl OutputError {
    /// What the system said.
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot write to stdout")
    }
}

impl std::error::Error for OutputError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

type Result<T> = std::result::Result<T, OutputError>;

/// Where results go.
#[derive(Debug)]
pub struct Output<W: Write = StdoutLock<'static>> {
    to: BufWriter<Watched<W>>,
}

/// Records that it is writing, which may block forever: the reader may never read.
#[derive(Debug)]
struct Watched<W>(W);

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while_writing(|| self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        while_writing(|| self.0.flush())
    }
}

impl Output {
    /// Standard output of this process.
    pub fn stdout() -> Self {
        Self::new(io::stdout().lock())
    }
}

impl<W: Write> Output<W> {
    /// Any other place, for tests.
    pub fn new(to: W) -> Self {
        Self { to: BufWriter::with_capacity(64 << 10, Watched(to)) }
    }

    /// A line of text.
    ///
    /// # Errors
    /// Returns an error if it cannot be written; the same holds for all methods below.
    pub fn line(&mut self, text: impl fmt::Display) -> Result<()> {
        Ok(writeln!(self.to, "{text}")?)
    }

    /// Bytes as they are: the content of a record.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.to.write_all(bytes)?)
    }

    /// A table with aligned columns.
    pub fn table(&mut self, table: &Table) -> Result<()> {
        Ok(table.write(&mut self.to)?)
    }

    /// One JSON document, indented for readers.
    pub fn json(&mut self, document: &impl Serialize) -> Result<()> {
        serde_json::to_writer_pretty(&mut self.to, document).map_err(io::Error::from)?;
        Ok(self.to.write_all(b"\n")?)
    }

    /// One of many JSON documents, on a line of its own.
    pub fn json_line(&mut self, document: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut self.to, document).map_err(io::Error::from)?;
        Ok(self.to.write_all(b"\n")?)
    }

    /// Writes what is still buffered, so that it is seen before more comes.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.to.flush()?)
    }

    /// Writes what is still buffered. Without it an error at the very end would go unnoticed.
    pub fn finish(mut self) -> Result<()> {
        Ok(self.to.flush()?)
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Rows of text in aligned columns.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl From<&stook::report::table::Table> for Table {
    fn from(table: &stook::report::table::Table) -> Self {
        let mut printed = Self::new(table.columns());
        table.rows().for_each(|cells| printed.row(cells));
        printed
    }
}

impl Table {
    /// A table with these columns. When all headers are empty no header line is printed.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Self {
        Self {
            columns: columns.into_iter().map(|(name, align)| (name.into(), align)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Cells that are missing are empty; cells beyond the last column are not shown.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).take(self.columns.len()).collect());
    }

    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let headers: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let has_headers = headers.iter().any(|h| !h.is_empty());
        let lines = has_headers.then_some(&headers).into_iter().chain(&self.rows);
        let mut widths = vec![0; self.columns.len()];
        for line in lines.clone() {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = cell.chars().count().max(*width);
            }
        }
        for line in lines {
            let mut text = String::new();
            for (column, ((_, align), width)) in self.columns.iter().zip(&widths).enumerate() {
                let cell = line.get(column).map_or("", String::as_str);
                let gap = if column == 0 { "" } else { "  " };
                let padded = match align {
                    Align::Left => format!("{gap}{cell:<width$}"),
                    Align::Right => format!("{gap}{cell:>width$}"),
                };
                text.push_str(&padded);
            }
            writeln!(to, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

/// Whether a path means stdout: `-`, `/dev/stdout`, `/dev/fd/1`, or the pipe that it is. Nothing
/// else may be written there then.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-") || stook::tree::is_open_file(path, io::stdout())
}

/// A name (of a path, a group) as one line of text that a terminal takes no harm from, as all names
/// are shown.
pub fn printable(bytes: &[u8]) -> String {
    stook::names::escaped(bytes).to_string()
}

/// A message as one line that is safe for a terminal, without secrets in quoted addresses: any
/// command may be given one by mistake. Quoted text (a name in an archive, a message of a server)
/// is untrusted; a backslash stays, because names are escaped where they are inserted.
pub fn one_line(message: &str) -> Cow<'_, str> {
    match message.contains(':') {
        true => Cow::Owned(escaped_controls(&stook::source::shown_in(message)).into_owned()),
        false => escaped_controls(message),
    }
}

/// A text that begins with a large letter.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(what: impl FnOnce(&mut Output<&mut Vec<u8>>) -> Result<()>) -> String {
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes);
        what(&mut output).unwrap();
        output.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_without_blanks() {
        let mut table = Table::new([("name", Align::Left), ("bytes", Align::Right), ("", Align::Left)]);
        table.row(["ä", "1"]);
        table.row(["longer", "1234567", "x", "beyond"]);
        assert_eq!(written(|o| o.table(&table)), "name      bytes\nä             1\nlonger  1234567  x\n");
    }

    #[test]
    fn a_table_without_headers_has_no_header_line() {
        let mut table = Table::new([("", Align::Left), ("", Align::Right)]);
        table.row(["records", "7"]);
        assert_eq!(written(|o| o.table(&table)), "records  7\n");
    }

    #[test]
    fn json_lines_are_one_line_each() {
        let text = written(|o| {
            o.json_line(&["a\nb"])?;
            o.json_line(&[1, 2])
        });
        assert_eq!(text, "[\"a\\nb\"]\n[1,2]\n");
    }

    #[test]
    fn printable_text_is_one_harmless_line_that_tells_different_bytes_apart() {
        assert_eq!(printable("dir/fü".as_bytes()), "dir/fü");
        assert_eq!(printable(b"a\nb\tc\\n\x1b[31m\xff\x7f"), "a\\x0ab\\x09c\\\\n\\x1b[31m\\xff\\x7f");
        assert_eq!(printable("\u{9b}".as_bytes()), "\\xc2\\x9b");
    }

    #[test]
    fn messages_are_one_line_whatever_they_quote() {
        assert_eq!(one_line(r"cannot read C:\dir: ü"), r"cannot read C:\dir: ü");
        assert_eq!(one_line("no directory https://me:word@h/x?sig=1"), "no directory https://h/x?…");
        assert_eq!(
            one_line("a\x1b[2Jb\nstook: all is well\u{9b}"),
            r"a\x1b[2Jb\x0astook: all is well\xc2\x9b"
        );
    }

    #[test]
    fn a_failed_write_is_reported_at_the_latest_when_finishing() {
        let mut space = [0; 4];
        let mut output = Output::new(&mut space[..]);
        output.line("more than four").unwrap();
        assert_eq!(output.finish().unwrap_err().kind(), io::ErrorKind::WriteZero);
    }
}
