//! Decoding.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use toml_parser::lexer::TokenKind;

use super::reader::Reader;
use super::{FILES_MAX, KEY, LayoutFault, LayoutFile, LayoutPiece, PATH_LEN_MAX, PathPiece, VERSION};
use crate::format::relative;

/// Characters of a bad name that an error shows.
const SHOWN_MAX: usize = 80;
/// What no number of a layout is below.
const FROM_0: (i64, i64) = (0, i64::MAX);

/// What a layout says next. The pieces of a file come before its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A piece of the file that comes next.
    Piece {
        /// The line that it begins in.
        line: usize,
        /// It.
        piece: LayoutPiece,
    },
    /// A file, of the pieces since the last one.
    File {
        /// The line that it begins in.
        line: usize,
        /// Its path: relative, without `.` and `..`.
        name: String,
    },
}

/// Whether something that begins with these bytes is meant to be a layout, of whatever version.
pub fn is_layout(first: &[u8]) -> bool {
    version_of(first).is_some()
}

/// What follows the name of the version.
fn version_of(first: &[u8]) -> Option<&[u8]> {
    let rest = first.strip_prefix(KEY.as_bytes())?.trim_ascii_start();
    rest.strip_prefix(b"=").map(<[u8]>::trim_ascii_start)
}

/// Decodes a layout as a whole.
///
/// # Errors
/// As [`read`].
pub fn decode(text: &[u8]) -> Result<Vec<LayoutFile>, LayoutFault> {
    let (mut files, mut pieces) = (Vec::new(), Vec::new());
    read(text, &mut |said| {
        match said {
            Said::Piece { piece, .. } => pieces.push(piece),
            Said::File { name, .. } => files.push(LayoutFile { name, pieces: std::mem::take(&mut pieces) }),
        }
        Ok::<(), LayoutFault>(())
    })?;
    Ok(files)
}

/// Decodes a layout piece by piece, without holding any of them; only the names of files are held
/// against one another.
///
/// # Errors
/// An error if it is none, of another version, or not what a layout may be; the errors of `take`.
pub fn read<E: From<LayoutFault>>(text: &[u8], take: &mut dyn FnMut(Said) -> Result<(), E>) -> Result<(), E> {
    let rest = version_of(text).ok_or(LayoutFault::NotOne)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = rest.get(..digits).and_then(|digits| std::str::from_utf8(digits).ok());
    let version: u64 = digits.and_then(|digits| digits.parse().ok()).ok_or(LayoutFault::NotOne)?;
    if version != u64::from(VERSION) {
        return Err(LayoutFault::Version(version).into());
    }
    let text = std::str::from_utf8(text).map_err(|error| {
        let before = text.get(..error.valid_up_to()).unwrap_or(text);
        let line = before.iter().filter(|byte| **byte == b'\n').count().saturating_add(1);
        LayoutFault::Line { line, what: "it is not UTF-8".to_owned() }
    })?;
    Decoding { reader: Reader::new(text), names: HashMap::new(), take }.document()
}

/// Where the files of a layout stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    None,
    /// In an array: `file = [...]`.
    Array,
    /// Each after its `[[file]]`.
    Tables,
}

/// Where the pieces of a file stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PiecesIn {
    Nowhere,
    Array,
    Tables,
}

/// A file that is read.
struct OpenFile {
    line: usize,
    name: Option<String>,
    pieces: PiecesIn,
}

impl OpenFile {
    fn at(line: usize) -> Self {
        Self { line, name: None, pieces: PiecesIn::Nowhere }
    }
}

struct Decoding<'t, 'e, E> {
    reader: Reader<'t>,
    /// The names of the files so far, and the line of each.
    names: HashMap<String, usize>,
    take: &'e mut dyn FnMut(Said) -> Result<(), E>,
}

impl<'t, E: From<LayoutFault>> Decoding<'t, '_, E> {
    fn document(mut self) -> Result<(), E> {
        let (mut files, mut file, mut piece) = (Files::None, None::<OpenFile>, None::<OpenPiece<'t>>);
        let mut is_versioned = false;
        loop {
            self.reader.skip_lines()?;
            match self.reader.kind() {
                TokenKind::Eof => break,
                TokenKind::LeftSquareBracket => {
                    self.end_piece(piece.take())?;
                    let line = self.reader.line();
                    if self.header()? {
                        self.pieces_in_tables(file.as_mut())?;
                        piece = Some(OpenPiece::at(line));
                    } else {
                        self.end_file(file.take())?;
                        self.files_in(&mut files, Files::Tables)?;
                        file = Some(OpenFile::at(line));
                    }
                }
                _ => {
                    let key = self.reader.key()?;
                    self.reader.equals(&key)?;
                    match (&mut piece, &mut file) {
                        (Some(piece), _) => self.piece_key(piece, &key)?,
                        (None, Some(file)) => self.file_key(file, &key)?,
                        (None, None) => self.top_key(&key, &mut is_versioned, &mut files)?,
                    }
                }
            }
            self.reader.end_line()?;
        }
        self.end_piece(piece)?;
        self.end_file(file)?;
        Ok(self.check_directories()?)
    }

    /// `[[file]]`, or `[[file.pieces]]`, where it is `true`.
    fn header(&mut self) -> Result<bool, LayoutFault> {
        let reader = &mut self.reader;
        let what = "`[[file]]` or `[[file.pieces]]`";
        let is_header =
            reader.take(TokenKind::LeftSquareBracket) && reader.take(TokenKind::LeftSquareBracket);
        if !is_header {
            return Err(reader.expected(what));
        }
        reader.skip_spaces();
        let is_file = reader.key()? == "file";
        let mut is_pieces = false;
        if is_file && reader.take(TokenKind::Dot) {
            reader.skip_spaces();
            is_pieces = true;
            if reader.key()? != "pieces" {
                return Err(reader.fault(format!("{what} is expected")));
            }
        }
        if !is_file {
            return Err(reader.fault(format!("{what} is expected")));
        }
        reader.need(TokenKind::RightSquareBracket, "`]]`")?;
        reader.need(TokenKind::RightSquareBracket, "`]]`")?;
        Ok(is_pieces)
    }

    fn files_in(&self, files: &mut Files, here: Files) -> Result<(), LayoutFault> {
        if *files != Files::None && (*files != here || here == Files::Array) {
            return Err(self.reader.fault("`file` is there twice"));
        }
        *files = here;
        Ok(())
    }

    fn pieces_in_tables(&self, file: Option<&mut OpenFile>) -> Result<(), LayoutFault> {
        let Some(file) = file else { return Err(self.reader.fault("it is a piece of no `[[file]]`")) };
        if file.pieces == PiecesIn::Array {
            return Err(self.reader.fault("`pieces` is there twice"));
        }
        file.pieces = PiecesIn::Tables;
        Ok(())
    }

    fn top_key(&mut self, key: &str, is_versioned: &mut bool, files: &mut Files) -> Result<(), E> {
        match key {
            KEY if !*is_versioned => {
                self.reader.integer(KEY, (VERSION.into(), VERSION.into()))?;
                *is_versioned = true;
                Ok(())
            }
            KEY => Err(self.reader.fault(format!("`{KEY}` is there twice")).into()),
            "file" => {
                self.files_in(files, Files::Array)?;
                self.array("file", &mut |decoding, line| {
                    let mut file = OpenFile::at(line);
                    decoding.table(&mut |decoding, key| decoding.file_key(&mut file, key))?;
                    decoding.end_file(Some(file))
                })
            }
            key => Err(self.unknown(key, "`file`").into()),
        }
    }

    fn unknown(&self, key: &str, known: &str) -> LayoutFault {
        let key: String = key.chars().take(SHOWN_MAX).collect();
        self.reader.fault(format!("there is no key `{key}` here, but {known}"))
    }

    fn file_key(&mut self, file: &mut OpenFile, key: &str) -> Result<(), E> {
        match key {
            "name" if file.name.is_none() => {
                let name = self.reader.string("name")?;
                let path = path_of(&name);
                file.name = Some(path.map_err(|what| {
                    let name: String = name.chars().take(SHOWN_MAX).collect();
                    self.reader.fault(format!("file {name:?}: {what}"))
                })?);
                Ok(())
            }
            "pieces" if file.pieces == PiecesIn::Nowhere => {
                file.pieces = PiecesIn::Array;
                self.array("pieces", &mut |decoding, line| {
                    let mut piece = OpenPiece::at(line);
                    decoding.table(&mut |decoding, key| decoding.piece_key(&mut piece, key))?;
                    decoding.end_piece(Some(piece))
                })
            }
            "name" | "pieces" => Err(self.reader.fault(format!("`{key}` is there twice")).into()),
            key => Err(self.unknown(key, "`name` and `pieces`").into()),
        }
    }

    /// The tables of an array. `each` gets the line that one begins in.
    fn array(&mut self, key: &str, each: &mut dyn FnMut(&mut Self, usize) -> Result<(), E>) -> Result<(), E> {
        self.reader.need(TokenKind::LeftSquareBracket, &format!("`[` after `{key} =`"))?;
        loop {
            self.reader.skip_lines()?;
            if self.reader.take(TokenKind::RightSquareBracket) {
                return Ok(());
            }
            let line = self.reader.line();
            each(self, line)?;
            self.reader.skip_lines()?;
            if !self.reader.take(TokenKind::Comma) && self.reader.kind() != TokenKind::RightSquareBracket {
                return Err(self.reader.expected("`,` or `]`").into());
            }
        }
    }

    /// The keys of a table in braces.
    fn table(&mut self, each: &mut dyn FnMut(&mut Self, &str) -> Result<(), E>) -> Result<(), E> {
        self.reader.need(TokenKind::LeftCurlyBracket, "`{`")?;
        loop {
            self.reader.skip_lines()?;
            if self.reader.take(TokenKind::RightCurlyBracket) {
                return Ok(());
            }
            let key = self.reader.key()?;
            self.reader.equals(&key)?;
            each(self, &key)?;
            self.reader.skip_lines()?;
            if !self.reader.take(TokenKind::Comma) && self.reader.kind() != TokenKind::RightCurlyBracket {
                return Err(self.reader.expected("`,` or `}`").into());
            }
        }
    }

    fn piece_key(&mut self, piece: &mut OpenPiece<'t>, key: &str) -> Result<(), E> {
        let (reader, it) = (&mut self.reader, piece);
        let is_there = match key {
            "path" => set(&mut it.path, || reader.string(key)),
            "file" => set(&mut it.file, || reader.string(key)),
            "text" => set(&mut it.text, || reader.string(key)),
            "base64" => set(&mut it.base64, || reader.string(key)),
            "fill" => set(&mut it.fill, || reader.integer(key, (0, 255)).map(|fill| fill as u8)),
            "offset" => set(&mut it.offset, || reader.integer(key, FROM_0).map(i64::cast_unsigned)),
            "length" => set(&mut it.length, || reader.integer(key, FROM_0).map(i64::cast_unsigned)),
            "size" => set(&mut it.size, || reader.integer(key, FROM_0).map(i64::cast_unsigned)),
            "mtime_ns" => set(&mut it.mtime_ns, || reader.integer(key, (i64::MIN, i64::MAX))),
            key => {
                let known = "`path`, `file`, `text`, `base64`, `fill`, `offset`, `length`, `size` and \
                             `mtime_ns`";
                return Err(self.unknown(key, known).into());
            }
        };
        match is_there? {
            true => Err(self.reader.fault(format!("`{key}` is there twice")).into()),
            false => Ok(()),
        }
    }

    fn end_piece(&mut self, piece: Option<OpenPiece<'t>>) -> Result<(), E> {
        let Some(piece) = piece else { return Ok(()) };
        let line = piece.line;
        let piece = piece.finish().map_err(|what| LayoutFault::Line { line, what })?;
        (self.take)(Said::Piece { line, piece })
    }

    fn end_file(&mut self, file: Option<OpenFile>) -> Result<(), E> {
        let Some(OpenFile { line, name, .. }) = file else { return Ok(()) };
        let fault = |what: String| LayoutFault::Line { line, what };
        let name = name.ok_or_else(|| fault("the file has no `name`".to_owned()))?;
        if let Some(before) = self.names.insert(name.clone(), line) {
            return Err(fault(format!("two files have the name {name:?}: see line {before}")).into());
        }
        if self.names.len() > FILES_MAX {
            return Err(fault(format!("there are more than {FILES_MAX} files")).into());
        }
        (self.take)(Said::File { line, name })
    }

    /// Whether files can have their names side by side.
    fn check_directories(&self) -> Result<(), LayoutFault> {
        let mut names: Vec<(&str, usize)> = self.names.iter().map(|(name, line)| (&**name, *line)).collect();
        names.sort_unstable_by(|(one, _), (other, _)| in_order(one).cmp(in_order(other)));
        for pair in names.windows(2) {
            let [(directory, _), (name, line)] = *pair else { continue };
            if name.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/')) {
                let what =
                    format!("file {name:?}: {directory:?} is a file, too, so it cannot be a directory");
                return Err(LayoutFault::Line { line, what });
            }
        }
        Ok(())
    }
}

/// A name for comparing it with others: what is in a directory follows right after its name.
fn in_order(name: &str) -> impl Iterator<Item = u16> {
    name.bytes().map(|byte| if byte == b'/' { 0 } else { u16::from(byte) + 1 })
}

/// Sets what is not set yet, else says `true`.
fn set<T>(slot: &mut Option<T>, value: impl FnOnce() -> Result<T, LayoutFault>) -> Result<bool, LayoutFault> {
    if slot.is_some() {
        return Ok(true);
    }
    *slot = Some(value()?);
    Ok(false)
}

/// A path without empty parts and parts `.`.
pub(super) fn path_of(path: &str) -> Result<String, String> {
    if path.len() > PATH_LEN_MAX {
        return Err("it is longer than 4,096 bytes".to_owned());
    }
    let path = relative(path.as_bytes()).map_err(|fault| fault.to_string())?;
    // Nothing but whole parts was taken away.
    String::from_utf8(path).map_err(|error| error.to_string())
}

/// A piece that is read.
#[derive(Default)]
struct OpenPiece<'t> {
    line: usize,
    path: Option<Cow<'t, str>>,
    file: Option<Cow<'t, str>>,
    text: Option<Cow<'t, str>>,
    base64: Option<Cow<'t, str>>,
    fill: Option<u8>,
    offset: Option<u64>,
    length: Option<u64>,
    size: Option<u64>,
    mtime_ns: Option<i64>,
}

impl OpenPiece<'_> {
    fn at(line: usize) -> Self {
        Self { line, ..Self::default() }
    }

    fn finish(self) -> Result<LayoutPiece, String> {
        let Self { path, file, text, base64, fill, offset, length, size, mtime_ns, .. } = self;
        let is_cut = offset.is_some() || length.is_some();
        let is_known = size.is_some() || mtime_ns.is_some();
        if let (Some(start), Some(len)) = (offset, length)
            && start.checked_add(len).is_none_or(|end| i64::try_from(end).is_err())
        {
            return Err(format!("{len} bytes from {start} on end past 2^63 - 1"));
        }
        match (path, file, text, base64, fill) {
            (Some(path), None, None, None, None) => {
                let path = path_of(&path).map_err(|what| format!("`path`: {what}"))?;
                Ok(LayoutPiece::Path(PathPiece { path, offset: offset.unwrap_or(0), length, size, mtime_ns }))
            }
            _ if is_known => Err("`size` and `mtime_ns` are of a `path`".to_owned()),
            (None, Some(name), None, None, None) => {
                let name = path_of(&name).map_err(|what| format!("`file`: {what}"))?;
                Ok(LayoutPiece::File { name, offset: offset.unwrap_or(0), length })
            }
            (None, None, None, None, Some(byte)) => match (offset, length) {
                (None, Some(length)) => Ok(LayoutPiece::Fill { byte, length }),
                _ => Err("`fill` needs a `length`, and has no `offset`".to_owned()),
            },
            (None, None, Some(_), None, None) | (None, None, None, Some(_), None) if is_cut => {
                Err("bytes that stand here have no `offset` and no `length`".to_owned())
            }
            (None, None, Some(text), None, None) => {
                Ok(LayoutPiece::Bytes(Bytes::copy_from_slice(text.as_bytes())))
            }
            (None, None, None, Some(digits), None) => {
                let bytes = BASE64_STANDARD.decode(&*digits).map_err(|error| format!("`base64`: {error}"))?;
                Ok(LayoutPiece::Bytes(Bytes::from(bytes)))
            }
            _ => Err("it needs one of `path`, `file`, `text`, `base64` and `fill`".to_owned()),
        }
    }
}
