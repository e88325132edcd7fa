//! [`OpenedLayout`]: the files that a layout describes.
//!
//! Files of a layout may be made of one another. When it is opened each becomes a list of pieces of
//! files on disk, so that reading knows nothing of that, and its cost is that of these pieces.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::bodies::Bodies;
use super::error::{Error, Result};
use super::file::{Parts, VirtualFile, no_part};
use super::pieces::{Piece, Pieces};
use crate::engine::{Access, Backend};
use crate::error;
use crate::extent::ByteRange;
use crate::format::layout::{self, LayoutFault, LayoutFile, LayoutPiece, PathPiece};
use crate::source::{FileSource, Source, read_range};
use crate::tree::{Kind, Tree, find_below};
use crate::walk::DirectoryTree;

/// Pieces of all files of a layout together, at most. One takes about 50 bytes of memory.
const PIECES_MAX: usize = 1 << 23;
/// Bytes by which a layout is recognised.
const FIRST_BYTES: u64 = 64;

/// The files of a layout. Nothing of the files that they are made of was read.
#[derive(Debug, Clone)]
pub struct OpenedLayout {
    whole: VirtualFile,
    files: Vec<(Vec<u8>, ByteRange)>,
    sources: Arc<Sources>,
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
        let fault = |fault| Error::Layout { path: path.to_path_buf(), fault };
        let files = layout::decode(&text).map_err(fault)?;
        drop(text);
        let directory = real.parent().unwrap_or(Path::new("/"));
        let mut sources = Sources { tree: DirectoryTree::open(directory)?, sources: Vec::new() };
        let flat = Flattening::new(&mut sources, &files, path)?.run()?;
        let (mut pieces, mut named) = (Pieces::new(), Vec::with_capacity(files.len()));
        for (file, flat) in files.into_iter().zip(flat) {
            let start = pieces.len();
            flat.put_into(&mut pieces);
            let range = ByteRange::new(start, pieces.len());
            named.push((file.name.into_bytes(), range.ok_or(Error::TooLong { pieces: PIECES_MAX })?));
        }
        let sources = Arc::new(sources);
        let whole = VirtualFile::new(path, pieces, sources.clone())?;
        Ok(Self { whole, files: named, sources })
    }

    /// All files, one after another.
    pub fn whole(&self) -> &VirtualFile {
        &self.whole
    }

    /// Their names, in the order of the layout, and where each is in [all of them](Self::whole).
    pub fn files(&self) -> &[(Vec<u8>, ByteRange)] {
        &self.files
    }

    /// Whether one of the files on disk that they are made of is this.
    pub fn has_source(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else { return false };
        let name = path.file_name();
        let mut named = self.sources.sources.iter().map(|source| Path::new(&*source.path));
        named.any(|source| {
            let real = || self.sources.tree.path_of(self.sources.tree.root()).join(source).canonicalize();
            source.file_name() == name && real().is_ok_and(|real| real == path)
        })
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
            return Err(Error::Name { path: self.whole.path().to_path_buf(), name: name.map(<[u8]>::to_vec), names });
        };
        let mut path = self.whole.path().as_os_str().to_os_string();
        path.push("//");
        path.push(OsStr::from_bytes(name));
        self.whole.part(path.into(), *range)
    }
}

/// What an I/O error of a file says that is not the one that a layout is of.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Outdated(String);

/// A file on disk that pieces are of.
#[derive(Debug)]
struct Listed {
    path: Box<str>,
    size: Option<u64>,
    mtime_ns: Option<i64>,
}

/// The files on disk, by their numbers.
#[derive(Debug)]
struct Sources {
    tree: DirectoryTree,
    sources: Vec<Listed>,
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
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        let Listed { path, size, mtime_ns } =
            self.sources.get(number as usize).ok_or_else(|| no_part(number))?;
        let source = self.tree.open(self.find(path)?)?;
        let found = source.identity();
        let is_same = size.is_none_or(|size| size == found.len);
        if is_same && mtime_ns.is_none_or(|mtime_ns| mtime_ns == found.mtime_ns) {
            return Ok(source);
        }
        let what = match size {
            Some(size) if *size != found.len => {
                format!("it has {} bytes, and the layout is of one that has {size}", found.len)
            }
            _ => "it was modified at another time than the one that the layout is of".to_owned(),
        };
        let what = format!("{what}: make the layout anew");
        Err(error::Error::io("read", source.path(), io::Error::new(io::ErrorKind::InvalidData, Outdated(what))))
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> error::Result<Bytes> {
        Err(no_part(number))
    }
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
            Some((cut(piece, touched.start().checked_sub(*start)?, touched.len())?, touched.len()))
        })
    }

    fn put_into(self, pieces: &mut Pieces) {
        let ends: Vec<u64> = self.pieces.iter().skip(1).map(|(start, _)| *start).chain([self.len]).collect();
        for ((start, piece), end) in self.pieces.into_iter().zip(ends) {
            let len = end.saturating_sub(start);
            match piece {
                Piece::Body { number, offset } => pieces.body(number, offset, len),
                Piece::Bytes(bytes) => pieces.bytes(bytes),
                Piece::Fill(byte) => pieces.fill(byte, len),
                Piece::Made { number, .. } => pieces.made(number, len),
            }
        }
    }
}

/// A part of a piece.
fn cut(piece: &Piece, from: u64, len: u64) -> Option<Piece> {
    Some(match piece {
        Piece::Body { number, offset } => Piece::Body { number: *number, offset: offset.checked_add(from)? },
        Piece::Made { number, offset } => Piece::Made { number: *number, offset: offset.checked_add(from)? },
        Piece::Fill(byte) => Piece::Fill(*byte),
        Piece::Bytes(bytes) => {
            let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            Piece::Bytes(bytes.slice(at(from)..at(from.checked_add(len)?)))
        }
    })
}

/// Files of a layout on their way to pieces of files on disk.
struct Flattening<'a> {
    sources: &'a mut Sources,
    /// The numbers of sources by their paths.
    numbers: HashMap<&'a str, u32>,
    files: &'a [LayoutFile],
    by_name: HashMap<&'a str, usize>,
    path: &'a Path,
    done: Vec<Option<Flat>>,
    pieces: usize,
}

impl<'a> Flattening<'a> {
    fn new(sources: &'a mut Sources, files: &'a [LayoutFile], path: &'a Path) -> Result<Self> {
        let by_name = files.iter().enumerate().map(|(at, file)| (&*file.name, at)).collect();
        let (numbers, done) = (HashMap::new(), files.iter().map(|_| None).collect());
        Ok(Self { sources, numbers, files, by_name, path, done, pieces: 0 })
    }

    fn run(mut self) -> Result<Vec<Flat>> {
        for at in self.order()? {
            let file = self.flatten(at)?;
            if let Some(slot) = self.done.get_mut(at) {
                *slot = Some(file);
            }
        }
        Ok(self.done.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn fault(&self, at: usize, piece: usize, what: impl Into<String>) -> Error {
        let name = self.files.get(at).map(|file| file.name.clone()).unwrap_or_default();
        let fault = LayoutFault::Piece { name, piece: piece.saturating_add(1), what: what.into() };
        Error::Layout { path: self.path.to_path_buf(), fault }
    }

    /// All files, each after those that it is made of.
    fn order(&self) -> Result<Vec<usize>> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Begun,
            Done,
        }
        let mut states = vec![State::New; self.files.len()];
        let mut order = Vec::with_capacity(self.files.len());
        for root in 0..self.files.len() {
            let mut stack = vec![(root, 0)];
            while let Some((at, next)) = stack.last_mut() {
                let (at, state) = (*at, states.get_mut(*at));
                if let Some(state @ State::New) = state {
                    *state = State::Begun;
                } else if *next == 0 {
                    stack.pop();
                    continue;
                }
                let pieces = self.files.get(at).map(|file| file.pieces.as_slice()).unwrap_or_default();
                let used = pieces.iter().enumerate().skip(*next).find_map(|(piece, one)| match one {
                    LayoutPiece::File { name, .. } => Some((piece, name)),
                    _ => None,
                });
                let Some((piece, name)) = used else {
                    states.get_mut(at).into_iter().for_each(|state| *state = State::Done);
                    order.push(at);
                    stack.pop();
                    continue;
                };
                *next = piece.saturating_add(1);
                let Some(other) = self.by_name.get(&**name).copied() else {
                    return Err(self.fault(at, piece, format!("no file of the layout is called {name:?}")));
                };
                match states.get(other) {
                    Some(State::Begun) => {
                        return Err(self.fault(at, piece, format!("{name:?} is made of itself")));
                    }
                    Some(State::New) => stack.push((other, 0)),
                    _ => {}
                }
            }
        }
        Ok(order)
    }

    fn flatten(&mut self, at: usize) -> Result<Flat> {
        let files = self.files;
        let (mut flat, pieces) = (Flat::default(), files.get(at).map(|file| file.pieces.as_slice()));
        for (number, piece) in pieces.unwrap_or_default().iter().enumerate() {
            let before = flat.pieces.len();
            self.add(&mut flat, (at, number), piece)?;
            self.pieces = self.pieces.saturating_add(flat.pieces.len().saturating_sub(before));
            if self.pieces > PIECES_MAX {
                return Err(self.fault(at, number, format!("there are more than {PIECES_MAX} pieces")));
            }
        }
        Ok(flat)
    }

    fn add(&mut self, flat: &mut Flat, (at, number): (usize, usize), piece: &'a LayoutPiece) -> Result<()> {
        let room = PIECES_MAX.saturating_sub(self.pieces).saturating_add(1);
        let added = match piece {
            LayoutPiece::Bytes(bytes) => flat.push(Piece::Bytes(bytes.clone()), bytes.len() as u64),
            LayoutPiece::Fill { byte, length } => flat.push(Piece::Fill(*byte), *length),
            LayoutPiece::Path(of) => {
                let (source, size) = self.source((at, number), of)?;
                let range = self.range((at, number), of.offset, of.length, size)?;
                flat.push(Piece::Body { number: source, offset: range.start() }, range.len())
            }
            LayoutPiece::File { name, offset, length } => {
                let other = self.by_name.get(&**name).and_then(|other| self.done.get(*other)?.as_ref());
                let Some(other) = other else { return Ok(()) };
                let range = self.range((at, number), *offset, *length, Some(other.len))?;
                other.part(range).take(room).try_for_each(|(piece, len)| flat.push(piece, len))
            }
        };
        added.ok_or_else(|| self.fault(at, number, "the file would be longer than 2^63 - 1 bytes"))
    }

    /// The range that is meant, which lies in something of a length, if that is known.
    fn range(
        &self,
        (at, number): (usize, usize),
        offset: u64,
        length: Option<u64>,
        size: Option<u64>,
    ) -> Result<ByteRange> {
        let length = length.or_else(|| size?.checked_sub(offset));
        let range = length.and_then(|length| ByteRange::at(offset, length));
        let range = range.filter(|range| size.is_none_or(|size| range.end() <= size));
        let size = size.unwrap_or_default();
        range.ok_or_else(|| self.fault(at, number, format!("it would be read past its {size} bytes")))
    }

    /// The number of a file on disk, and its length, if that was said or had to be asked for.
    fn source(&mut self, (at, piece): (usize, usize), of: &'a PathPiece) -> Result<(u32, Option<u64>)> {
        let PathPiece { path, length, size, mtime_ns, .. } = of;
        let number = match self.numbers.get(&**path) {
            Some(number) => *number,
            None => {
                let number = self.sources.sources.len() as u32;
                let (size, mtime_ns) = (None, None);
                self.sources.sources.push(Listed { path: path.as_str().into(), size, mtime_ns });
                self.numbers.insert(path, number);
                number
            }
        };
        let Some(listed) = self.sources.sources.get_mut(number as usize) else {
            return Err(Error::Core(no_part(number)));
        };
        let is_other = |known: Option<i128>, said: Option<i128>| known.zip(said).is_some_and(|(a, b)| a != b);
        let sizes = (listed.size.map(i128::from), size.map(i128::from));
        let times = (listed.mtime_ns.map(i128::from), mtime_ns.map(i128::from));
        if is_other(sizes.0, sizes.1) || is_other(times.0, times.1) {
            let what = format!("{path:?} has another `size` or `mtime_ns` than in an earlier piece");
            return Err(self.fault(at, piece, what));
        }
        listed.size = listed.size.or(*size);
        listed.mtime_ns = listed.mtime_ns.or(*mtime_ns);
        match listed.size {
            None if length.is_none() => {
                let node = self.sources.tree.node(self.sources.find(path)?)?;
                if node.kind != Kind::File {
                    let what = format!("{path:?} is {}, and has no length", node.kind.noun());
                    return Err(self.fault(at, piece, what));
                }
                Ok((number, Some(node.len)))
            }
            known => Ok((number, known)),
        }
    }
}
