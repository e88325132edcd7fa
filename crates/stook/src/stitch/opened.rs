//! [`OpenedLayout`]: the files that a layout describes.
//!
//! Files of a layout may be made of one another. When it is opened each becomes a list of pieces of
//! files on disk, so that reading knows nothing of that, and its cost is that of these pieces.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::bodies::Bodies;
use super::error::{Error, Result};
use super::file::{Parts, VirtualFile, no_part};
use super::held::Held;
use super::paths::Paths;
use super::pieces::{Piece, Pieces};
use super::stated::{Difference, Stated};
use crate::engine::{Access, Backend};
use crate::error;
use crate::extent::ByteRange;
use crate::format::layout::{self, LayoutFault, LayoutPiece, PathPiece, Said};
use crate::source::{FileSource, Inodes, Source, read_range};
use crate::tree::{Kind, Tree, find_below};
use crate::walk::DirectoryTree;

/// Pieces of all files of a layout together, at most.
const PIECES_MAX: usize = 1 << 23;
/// Bytes by which a layout is recognised.
const FIRST_BYTES: u64 = 64;

/// The files of a layout. Nothing of the files that they are made of was read.
#[derive(Debug, Clone)]
pub struct OpenedLayout {
    whole: VirtualFile,
    files: Vec<(Vec<u8>, ByteRange)>,
}

/// Whether a file is meant to be a layout, by its first bytes. What is no regular file is none.
///
/// # Errors
/// Returns I/O errors.
pub fn is_layout_file(path: &Path) -> error::Result<bool> {
    let found = std::fs::metadata(path).map_err(|error| error::Error::io("open", path, error))?;
    if !found.is_file() {
        return Ok(false);
    }
    let file = FileSource::open(path)?;
    let range = ByteRange::to(file.len().min(FIRST_BYTES));
    Ok(layout::is_layout(&read_range(&Backend::Threads, &file, range, Access::Cached)?))
}

impl OpenedLayout {
    /// Opens a layout. Paths in it are below the directory that it lies in; where it is opened by a
    /// link, that is the directory of what the link leads to. No link is followed on the way from
    /// there.
    ///
    /// # Errors
    /// Returns I/O errors, [`Error::Layout`], and [`Error::TooLong`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| error::Error::io("open", path, error);
        let real = path.canonicalize().map_err(failed)?;
        let file = FileSource::open(path)?;
        if file.len() > layout::LEN_MAX {
            let what = format!("a layout of more than {} bytes is not read", layout::LEN_MAX);
            return Err(failed(io::Error::other(what)).into());
        }
        let text = read_range(&Backend::Threads, &file, ByteRange::to(file.len()), Access::Cached)?;
        file.check_unchanged()?;
        let directory = real.parent().unwrap_or(Path::new("/"));
        let mut reading = Reading::new(DirectoryTree::open(directory)?);
        layout::read(&text, &mut |said| reading.take(said)).map_err(|stop| stop.of(path))?;
        drop(text);
        let (pieces, files, sources) = reading.finish().map_err(|stop| stop.of(path))?;
        Ok(Self { whole: VirtualFile::new(path, pieces, Arc::new(sources))?, files })
    }

    /// All files, one after another.
    pub fn whole(&self) -> &VirtualFile {
        &self.whole
    }

    /// Their names, in the order of the layout, and where each is in [all of them](Self::whole).
    pub fn files(&self) -> &[(Vec<u8>, ByteRange)] {
        &self.files
    }

    /// The file with a name, as one of its own; the only one without a name.
    ///
    /// # Errors
    /// [`Error::Name`] where there is none with the name, or several without.
    pub fn file(&self, name: Option<&[u8]>) -> Result<VirtualFile> {
        let found = match (name, self.files.as_slice()) {
            (None, [only]) => Some(only),
            (None, _) => None,
            (Some(name), files) => files.iter().find(|(own, _)| own == name),
        };
        let Some((name, range)) = found else {
            let names = self.files.iter().map(|(name, _)| name.clone()).collect();
            return Err(Error::Name {
                path: self.whole.path().to_path_buf(),
                name: name.map(<[u8]>::to_vec),
                names,
            });
        };
        let mut path = self.whole.path().as_os_str().to_os_string();
        path.push("//");
        path.push(OsStr::from_bytes(name));
        self.whole.part(path.into(), *range)
    }
}

/// Why a layout is not opened.
enum Stop {
    Fault(LayoutFault),
    Error(error::Error),
}

impl From<LayoutFault> for Stop {
    fn from(fault: LayoutFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<error::Error> for Stop {
    fn from(error: error::Error) -> Self {
        Self::Error(error)
    }
}

impl Stop {
    fn of(self, path: &Path) -> Error {
        match self {
            Self::Fault(fault) => Error::Layout { path: path.to_path_buf(), fault },
            Self::Error(error) => Error::Core(error),
        }
    }
}

/// What an I/O error of a file says that is not the one that a layout is of.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Outdated(String);

/// What a layout says of a file on disk.
#[derive(Debug, Clone, Copy, Default)]
struct Listed {
    size: Option<u64>,
    mtime_ns: Option<i64>,
}

/// The files on disk, by their numbers.
#[derive(Debug)]
struct Sources {
    tree: DirectoryTree,
    paths: Paths,
    listed: Vec<Listed>,
}

impl Sources {
    fn path_of(&self, path: &str) -> PathBuf {
        self.tree.path_of(self.tree.root()).join(OsStr::from_bytes(path.as_bytes()))
    }

    fn find(&self, path: &str) -> error::Result<crate::tree::NodeId> {
        let found = find_below(&self.tree, self.tree.root(), path.as_bytes())?;
        let gone = || error::Error::io("open", self.path_of(path), io::ErrorKind::NotFound.into());
        found.ok_or_else(gone)
    }
}

impl Parts for Sources {
    fn note_files(&self, files: &mut Inodes) {
        let numbers = 0..self.paths.len() as u32;
        let there = numbers.filter_map(|number| self.path_of(self.paths.get(number)?).metadata().ok());
        files.extend(there.map(|found| (found.dev(), found.ino())));
    }

    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        let path = self.paths.get(number);
        let (path, listed) = path.zip(self.listed.get(number as usize)).ok_or_else(|| no_part(number))?;
        let source = self.tree.open(self.find(path)?)?;
        let found = source.identity();
        let stated = Stated { len: listed.size, mtime_ns: listed.mtime_ns, inode: None };
        let what = match stated.difference(&found) {
            None => return Ok(source),
            Some(Difference::Len) => {
                let size = listed.size.unwrap_or_default();
                format!("it has {} bytes, and the layout is of one that has {size}", found.len)
            }
            Some(_) => "it was modified at another time than the one that the layout is of".to_owned(),
        };
        let what = format!("{what}: make the layout anew");
        Err(error::Error::io(
            "read",
            source.path(),
            io::Error::new(io::ErrorKind::InvalidData, Outdated(what)),
        ))
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> error::Result<Bytes> {
        Err(no_part(number))
    }
}

/// A piece as it stands in the layout, with its length.
#[derive(Debug, Clone, Copy)]
struct Part {
    len: u64,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Piece(Piece),
    /// A part of another file, by its number among those.
    OfFile(u32),
}

/// A part of another file of the layout.
#[derive(Debug)]
struct OfFile {
    line: usize,
    name: String,
    offset: u64,
    length: Option<u64>,
}

/// A layout while it is read. A piece takes about 60 bytes and its path until it is in place.
struct Reading {
    sources: Sources,
    held: Held,
    parts: Vec<Part>,
    of_files: Vec<OfFile>,
    files: Vec<NamedFile>,
}

/// A file of the layout.
#[derive(Debug)]
struct NamedFile {
    name: String,
    line: usize,
    /// How many parts there were at its end.
    end: usize,
}

/// The pieces of all files, where each file is among them, and what they are of.
type Read = (Pieces, Vec<(Vec<u8>, ByteRange)>, Sources);

fn fault(line: usize, what: impl Into<String>) -> Stop {
    Stop::Fault(LayoutFault::Line { line, what: what.into() })
}

fn too_many(line: usize) -> Stop {
    fault(line, format!("there are more than {PIECES_MAX} pieces"))
}

impl Reading {
    fn new(tree: DirectoryTree) -> Self {
        let sources = Sources { tree, paths: Paths::default(), listed: Vec::new() };
        let (held, parts, of_files, files) = Default::default();
        Self { sources, held, parts, of_files, files }
    }

    fn take(&mut self, said: Said) -> Result<(), Stop> {
        match said {
            Said::Piece { line, .. } if self.parts.len() >= PIECES_MAX => Err(too_many(line)),
            Said::Piece { line, piece } => {
                let part = self.part(line, piece)?;
                self.parts.push(part);
                Ok(())
            }
            Said::File { line, name } => {
                self.files.push(NamedFile { name, line, end: self.parts.len() });
                Ok(())
            }
        }
    }

    fn part(&mut self, line: usize, piece: LayoutPiece) -> Result<Part, Stop> {
        let (len, piece) = match piece {
            LayoutPiece::Bytes(bytes) => {
                let (block, offset) = self.held.add(&bytes);
                (bytes.len() as u64, Piece::Held { block, offset })
            }
            LayoutPiece::Fill { byte, length } => (length, Piece::Fill(byte)),
            LayoutPiece::Path(of) => {
                let (number, size) = self.source(line, &of)?;
                let range = range(line, (of.offset, of.length), size)?;
                (range.len(), Piece::Body { number, offset: range.start() })
            }
            LayoutPiece::File { name, offset, length } => {
                let number = self.of_files.len() as u32;
                self.of_files.push(OfFile { line, name, offset, length });
                return Ok(Part { len: 0, what: What::OfFile(number) });
            }
        };
        Ok(Part { len, what: What::Piece(piece) })
    }

    /// The number of a file on disk, and its length, if that was said or had to be asked for.
    fn source(&mut self, line: usize, of: &PathPiece) -> Result<(u32, Option<u64>), Stop> {
        let PathPiece { path, length, size, mtime_ns, .. } = of;
        let Sources { paths, listed, .. } = &mut self.sources;
        let number = paths.number(path);
        listed.resize(paths.len(), Listed::default());
        let Some(listed) = listed.get_mut(number as usize) else {
            return Err(Stop::Error(no_part(number)));
        };
        let is_other = |known: Option<i128>, said: Option<i128>| known.zip(said).is_some_and(|(a, b)| a != b);
        let sizes = (listed.size.map(i128::from), size.map(i128::from));
        let times = (listed.mtime_ns.map(i128::from), mtime_ns.map(i128::from));
        if is_other(sizes.0, sizes.1) || is_other(times.0, times.1) {
            let what = format!("{path:?} has another `size` or `mtime_ns` than in an earlier piece");
            return Err(fault(line, what));
        }
        listed.size = listed.size.or(*size);
        listed.mtime_ns = listed.mtime_ns.or(*mtime_ns);
        match listed.size {
            None if length.is_none() => {
                let node = self.sources.tree.node(self.sources.find(path)?)?;
                if node.kind != Kind::File {
                    let what = format!("{path:?} is {}, and has no length", node.kind.noun());
                    return Err(fault(line, what));
                }
                Ok((number, Some(node.len)))
            }
            known => Ok((number, known)),
        }
    }

    fn finish(mut self) -> Result<Read, Stop> {
        self.sources.paths.seal();
        let flat = Flattening::new(&self).run()?;
        let Self { sources, held, parts, files, .. } = self;
        drop(parts);
        let (mut pieces, mut named) = (Pieces::of_held(held), Vec::with_capacity(files.len()));
        for (NamedFile { name, .. }, flat) in files.into_iter().zip(flat) {
            let start = pieces.len();
            flat.put_into(&mut pieces);
            let range = ByteRange::new(start, pieces.len()).unwrap_or_default();
            named.push((name.into_bytes(), range));
        }
        Ok((pieces, named, sources))
    }
}

/// The range that is meant, which lies in something of a length, if that is known.
fn range(line: usize, (offset, length): (u64, Option<u64>), size: Option<u64>) -> Result<ByteRange, Stop> {
    let length = length.or_else(|| size?.checked_sub(offset));
    let range = length.and_then(|length| ByteRange::at(offset, length));
    let range = range.filter(|range| size.is_none_or(|size| range.end() <= size));
    let size = size.unwrap_or_default();
    range.ok_or_else(|| fault(line, format!("it would be read past its {size} bytes")))
}

/// A file as pieces of files on disk, each with its offset.
#[derive(Debug, Default)]
struct Flat {
    pieces: Vec<(u64, Piece)>,
    len: u64,
}

impl Flat {
    /// Adds a piece; `None` where the file would be too long.
    fn push(&mut self, piece: Piece, len: u64) -> Option<()> {
        if len > 0 {
            self.pieces.push((self.len, piece));
            self.len = self.len.checked_add(len).filter(|len| i64::try_from(*len).is_ok())?;
        }
        Some(())
    }

    /// What a range of it is made of.
    fn part(&self, range: ByteRange) -> impl Iterator<Item = (Piece, u64)> {
        let first = self.pieces.partition_point(|(start, _)| *start <= range.start()).saturating_sub(1);
        let ends = self.pieces.iter().skip(first + 1).map(|(start, _)| *start).chain([self.len]);
        let pieces = self.pieces.iter().skip(first).zip(ends);
        let pieces = pieces.take_while(move |((start, _), _)| *start < range.end());
        pieces.filter_map(move |((start, piece), end)| {
            let touched = ByteRange::new(*start, end)?.intersection(&range)?;
            Some((piece.after(touched.start().checked_sub(*start)?)?, touched.len()))
        })
    }

    fn put_into(self, pieces: &mut Pieces) {
        let mut next = self.pieces.iter().skip(1).map(|(start, _)| *start).chain([self.len]);
        for (start, piece) in &self.pieces {
            let end = next.next().unwrap_or(*start);
            pieces.push(*piece, end.saturating_sub(*start));
        }
    }
}

/// Files of a layout on their way to pieces of files on disk.
struct Flattening<'a> {
    reading: &'a Reading,
    by_name: HashMap<&'a str, usize>,
    done: Vec<Option<Flat>>,
    pieces: usize,
}

impl<'a> Flattening<'a> {
    fn new(reading: &'a Reading) -> Self {
        let files = &reading.files;
        // Only files that are made of others look for them.
        let named = files.iter().enumerate().filter(|_| !reading.of_files.is_empty());
        let by_name = named.map(|(at, file)| (file.name.as_str(), at)).collect();
        Self { reading, by_name, done: files.iter().map(|_| None).collect(), pieces: 0 }
    }

    fn run(mut self) -> Result<Vec<Flat>, Stop> {
        for at in self.order()? {
            let file = self.flatten(at)?;
            if let Some(slot) = self.done.get_mut(at) {
                *slot = Some(file);
            }
        }
        Ok(self.done.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// The parts of a file.
    fn parts(&self, at: usize) -> &'a [Part] {
        let end_of = |at: usize| self.reading.files.get(at).map(|file| file.end);
        let start = at.checked_sub(1).and_then(end_of).unwrap_or(0);
        end_of(at).and_then(|end| self.reading.parts.get(start..end)).unwrap_or_default()
    }

    fn of_file(&self, part: &Part) -> Option<&'a OfFile> {
        match part.what {
            What::OfFile(number) => self.reading.of_files.get(number as usize),
            What::Piece(_) => None,
        }
    }

    /// All files, each after those that it is made of.
    fn order(&self) -> Result<Vec<usize>, Stop> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Begun,
            Done,
        }
        let count = self.reading.files.len();
        let (mut states, mut order) = (vec![State::New; count], Vec::with_capacity(count));
        for root in 0..count {
            let mut stack = vec![(root, 0)];
            while let Some((at, next)) = stack.last_mut() {
                let (at, state) = (*at, states.get_mut(*at));
                if let Some(state @ State::New) = state {
                    *state = State::Begun;
                } else if *next == 0 {
                    stack.pop();
                    continue;
                }
                let parts = self.parts(at).iter().enumerate().skip(*next);
                let used = parts.filter(|_| !self.reading.of_files.is_empty());
                let used = used.filter_map(|(number, part)| Some((number, self.of_file(part)?))).next();
                let Some((number, OfFile { line, name, .. })) = used else {
                    states.get_mut(at).into_iter().for_each(|state| *state = State::Done);
                    order.push(at);
                    stack.pop();
                    continue;
                };
                *next = number.saturating_add(1);
                let Some(other) = self.by_name.get(&**name).copied() else {
                    return Err(fault(*line, format!("no file of the layout is called {name:?}")));
                };
                match states.get(other) {
                    Some(State::Begun) => return Err(fault(*line, format!("{name:?} is made of itself"))),
                    Some(State::New) => stack.push((other, 0)),
                    _ => {}
                }
            }
        }
        Ok(order)
    }

    fn flatten(&mut self, at: usize) -> Result<Flat, Stop> {
        let mut flat = Flat::default();
        let line_of = |at: usize| self.reading.files.get(at).map_or(0, |file| file.line);
        let too_long = |line| fault(line, "the file would be longer than 2^63 - 1 bytes");
        for part in self.parts(at) {
            let before = flat.pieces.len();
            match part.what {
                What::Piece(piece) => {
                    flat.push(piece, part.len).ok_or_else(|| too_long(line_of(at)))?;
                }
                What::OfFile(_) => {
                    let Some(OfFile { line, name, offset, length }) = self.of_file(part) else { continue };
                    let other = self.by_name.get(&**name).and_then(|other| self.done.get(*other)?.as_ref());
                    let Some(other) = other else { continue };
                    let range = range(*line, (*offset, *length), Some(other.len))?;
                    let room = PIECES_MAX.saturating_sub(self.pieces).saturating_add(1);
                    let pushed =
                        other.part(range).take(room).try_for_each(|(piece, len)| flat.push(piece, len));
                    pushed.ok_or_else(|| too_long(*line))?;
                }
            }
            self.pieces = self.pieces.saturating_add(flat.pieces.len().saturating_sub(before));
            if self.pieces > PIECES_MAX {
                return Err(too_many(self.of_file(part).map_or_else(|| line_of(at), |of| of.line)));
            }
        }
        Ok(flat)
    }
}
