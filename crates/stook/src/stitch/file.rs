//! [`VirtualFile`]: a file that does not exist.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::bodies::Bodies;
use super::error::Result;
use super::held::Blocks;
use super::index::PieceIndex;
use super::merged::MadeBy;
use super::pieces::{EmptyBody, Finished, Piece, Pieces};
use crate::engine::{Access, Backend};
use crate::error::{self, Error};
use crate::extent::ByteRange;
use crate::source::{
    Answer, Identity, Inodes, Leaf, Object, Origin, Pending, Session, Source, check_bounds, read_range,
};
use crate::tree::target::share_of_descriptors;

/// Bodies that one range opens at once, at most. What it has beyond them is opened when it is read,
/// one after another.
const OPENED_AT_ONCE: usize = 64;
/// One of so many descriptors of a process is for each of them: many ranges are read at a time.
const DESCRIPTORS_PER_BODY: u64 = 64;

/// Where the bytes of a virtual file come from. Nothing is asked for before it is read.
pub trait Parts: Send + Sync + fmt::Debug {
    /// Opens the source of a body. It has the length with which it was laid out.
    ///
    /// # Errors
    /// I/O errors; [`Error::SourceChanged`] if it is not what was laid out any more.
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>>;

    /// Computes the bytes that have a number, perhaps from bodies: always the same, and as many as
    /// were laid out.
    ///
    /// # Errors
    /// I/O errors of what they are computed from.
    fn make(&self, number: u32, bodies: &Bodies) -> error::Result<Bytes>;

    /// Hears the bytes of bodies where all of a file is read in order: each body from its front to
    /// its end, before what is computed from it is made.
    fn passed(&self, _number: u32, _at: u64, _bytes: &[u8]) {}

    /// Notes the files on disk that bodies are in, where these were not named when it was laid out.
    fn note_files(&self, _files: &mut Inodes) {}

    /// The body with a number, where that is itself a virtual file: what decides its bytes decides
    /// those of the whole.
    fn virtual_body(&self, _number: u32) -> Option<VirtualFile> {
        None
    }

    /// What decides the bytes that are made, beside the pieces and the states of bodies. Where
    /// that is not said, no [`MergedCache`](super::MergedCache) keeps a copy of a file that has
    /// such bytes.
    fn made_by(&self) -> Option<MadeBy> {
        None
    }
}

/// Parts that are nothing but the bytes and fills of the pieces.
impl Parts for () {
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        Err(no_part(number))
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> error::Result<Bytes> {
        Err(no_part(number))
    }
}

/// Sources by their numbers.
impl Parts for Vec<Arc<dyn Source>> {
    fn note_files(&self, files: &mut Inodes) {
        self.iter().for_each(|source| source.note_files(files));
    }

    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        self.get(number as usize).cloned().ok_or_else(|| no_part(number))
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> error::Result<Bytes> {
        Err(no_part(number))
    }
}

pub(super) fn no_part(number: u32) -> Error {
    let what = std::io::Error::other(format!("it has no part with the number {number}"));
    Error::io("make", "a virtual file", what)
}

/// A file that does not exist: its bytes are those of other files, or computed. It is read by range
/// like any [`Source`], by any number of threads, without a cursor. A part that is not what it was
/// is an error that names it, and never a mixture.
#[derive(Clone)]
pub struct VirtualFile(Arc<Inner>);

struct Inner {
    path: PathBuf,
    index: PieceIndex,
    pieces: Box<[Piece]>,
    blocks: Blocks,
    empty: Box<[EmptyBody]>,
    bodies: Bodies,
    opened_at_once: usize,
    identity: Identity,
    origin: Origin,
}

impl fmt::Debug for VirtualFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pieces, len) = (self.0.index.count(), self.0.index.len());
        f.debug_struct("VirtualFile")
            .field("path", &self.0.path)
            .field("pieces", &pieces)
            .field("len", &len)
            .finish_non_exhaustive()
    }
}

impl VirtualFile {
    /// A file of these pieces. `path` is what it is called in messages.
    ///
    /// # Errors
    /// [`TooLong`](super::Error::TooLong).
    pub fn new(path: impl Into<PathBuf>, pieces: Pieces, parts: Arc<dyn Parts>) -> Result<Self> {
        let (path, bodies) = (path.into(), Bodies::new(parts));
        let Finished { pieces, index, blocks, empty } = pieces.finish()?;
        let identity = Identity { len: index.len(), ..Identity::default() };
        let origin = Origin::new("virtual file", path.to_string_lossy());
        let opened_at_once = share_of_descriptors(DESCRIPTORS_PER_BODY, OPENED_AT_ONCE);
        let inner = Inner { path, index, pieces, blocks, empty, bodies, opened_at_once, identity, origin };
        Ok(Self(Arc::new(inner)))
    }

    /// How many pieces it has, those that continue one another as one.
    pub fn pieces(&self) -> usize {
        self.0.index.count()
    }

    /// The number of the piece that an offset is in; `None` from the end on.
    pub fn piece_at(&self, offset: u64) -> Option<usize> {
        (offset < self.0.index.len()).then(|| self.0.index.piece_at(offset))
    }

    /// Reads a range. Who reads often keeps a [`Session`].
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], and the errors of what it is made of.
    pub fn read_at(&self, range: ByteRange) -> error::Result<Bytes> {
        read_range(&Backend::Auto, self, range, Access::Cached)
    }

    /// Reads a range with a session in which nothing else is pending, and checks that its bodies
    /// are what they were. Who reads one range after another has checksums computed of what passes,
    /// and no body read twice for them.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read_on(&self, session: &mut Session, range: ByteRange) -> error::Result<Bytes> {
        check_bounds(self, range)?;
        self.passed(range).iter().try_for_each(|body| self.bodies().check_empty(body.number))?;
        let len = usize::try_from(range.len()).unwrap_or(usize::MAX);
        let (mut read, mut bodies, mut others) = (vec![0; len], Vec::new(), Vec::new());
        let mut at = range.start();
        for (piece, part) in self.touched(range) {
            let start = (at - range.start()) as usize;
            let place = start..start.saturating_add(part.len() as usize);
            match piece {
                Piece::Body { number, offset } => {
                    let wanted = shifted(part, offset).ok_or_else(|| no_part(number))?;
                    bodies.push((place, number, wanted));
                }
                piece => others.push((place, piece, part, at)),
            }
            at = at.saturating_add(part.len());
        }
        self.read_bodies(session, &bodies, &mut read)?;
        // Before anything is computed of them that others may be given.
        bodies.iter().try_for_each(|(_, number, _)| self.bodies().check(*number))?;
        for (place, number, wanted) in bodies {
            let bytes = read.get(place).unwrap_or_default();
            self.bodies().parts().passed(number, wanted.start(), bytes);
        }
        let (mut leaves, mut made) = (Vec::new(), Vec::new());
        for (place, piece, part, at) in others {
            self.resolve_piece(piece, part, at, &mut leaves)?;
            leaves.drain(..).try_for_each(|leaf| read_leaf(&leaf, &mut made).map(drop))?;
            put(&mut read, place, &made);
            made.clear();
        }
        Ok(read.into())
    }

    /// Reads parts of bodies, each to its place.
    fn read_bodies(
        &self,
        session: &mut Session,
        bodies: &[(Range<usize>, u32, ByteRange)],
        into: &mut [u8],
    ) -> error::Result<()> {
        let mut take = |session: &mut Session| {
            let Some((token, bytes)) = session.next() else { return Ok(()) };
            let place = bodies.get(token as usize).map_or(0..0, |(place, ..)| place.clone());
            put(into, place, &bytes?);
            Ok::<_, Error>(())
        };
        for (token, (_, number, wanted)) in bodies.iter().enumerate() {
            while session.pending() > 0 && (session.is_full() || session.pending() >= self.0.opened_at_once) {
                take(session)?;
            }
            session.submit(token as u64, &*self.bodies().get(*number)?, *wanted, Access::Cached)?;
        }
        while session.pending() > 0 {
            take(session)?;
        }
        Ok(())
    }

    pub(super) fn bodies(&self) -> &Bodies {
        &self.0.bodies
    }

    /// Bytes that it has itself.
    pub(super) fn held(&self, block: u32, offset: u64, len: u64) -> Bytes {
        self.0.blocks.get(block, offset, len)
    }

    /// All pieces, and how long each is. Bodies without bytes stand where they are, as pieces of
    /// length 0.
    pub(super) fn pieces_in_order(&self) -> impl Iterator<Item = (Piece, u64)> {
        let Inner { index, pieces, empty, .. } = &*self.0;
        let (mut piece, mut passed) = (0, 0);
        std::iter::from_fn(move || {
            let start = index.start(piece);
            if let Some(body) = empty.get(passed).filter(|body| body.at <= start) {
                passed += 1;
                return Some((Piece::Body { number: body.number, offset: 0 }, 0));
            }
            let found = *pieces.get(piece)?;
            piece += 1;
            Some((found, index.start(piece).saturating_sub(start)))
        })
    }

    /// The leaves of a part of a piece, which begins at an offset in the file.
    fn resolve_piece(
        &self,
        piece: Piece,
        part: ByteRange,
        at: u64,
        leaves: &mut Vec<Leaf>,
    ) -> error::Result<()> {
        match piece {
            Piece::Held { block, offset } => {
                let offset = offset.saturating_add(part.start());
                leaves.push(Leaf::Bytes(self.held(block, offset, part.len())));
            }
            Piece::Fill(byte) => leaves.push(Leaf::Fill { byte, len: part.len() }),
            Piece::Made { number, offset } => {
                let made = self.bodies().parts().make(number, self.bodies())?;
                let wanted = shifted(part, offset).filter(|wanted| wanted.end() <= made.len() as u64);
                let wanted = wanted.ok_or_else(|| Error::ShortRead {
                    path: self.0.path.clone(),
                    offset: at,
                    wanted: part.end(),
                    got: made.len() as u64,
                })?;
                leaves.push(Leaf::Bytes(slice(&made, wanted)));
            }
            Piece::Body { number, offset } => {
                let wanted = shifted(part, offset).ok_or_else(|| no_part(number))?;
                self.bodies().get(number)?.resolve(wanted, leaves)?;
            }
        }
        Ok(())
    }

    /// The bodies without bytes that a range passes: they are right after one of its bytes.
    fn passed(&self, range: ByteRange) -> &[EmptyBody] {
        let empty = &self.0.empty;
        let until = |at: u64| empty.partition_point(|body| body.at <= at);
        let first = if range.start() == 0 { 0 } else { until(range.start()) };
        empty.get(first..until(range.end())).filter(|_| !range.is_empty()).unwrap_or_default()
    }

    /// The same file with nothing that threads could hold locked: for a process that was forked
    /// from one in which others were reading.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn reopened(&self) -> Result<Self> {
        self.part(self.0.path.clone(), ByteRange::to(self.len()))
    }

    /// A range of it as a file of its own, in which nothing that is computed is cut.
    pub(super) fn part(&self, path: PathBuf, range: ByteRange) -> Result<Self> {
        let mut pieces = Pieces::new();
        for body in self.passed(range) {
            pieces.empty_body(body.at.saturating_sub(range.start()), body.number);
        }
        for (piece, part) in self.touched(range) {
            match piece {
                Piece::Held { block, offset } => {
                    pieces.bytes(self.held(block, offset.saturating_add(part.start()), part.len()));
                }
                Piece::Fill(byte) => pieces.fill(byte, part.len()),
                Piece::Made { number, offset: 0 } if part.start() == 0 => pieces.made(number, part.len()),
                Piece::Made { number, .. } => return Err(no_part(number).into()),
                Piece::Body { number, offset } => {
                    let wanted = shifted(part, offset).ok_or_else(|| no_part(number))?;
                    pieces.body(number, wanted.start(), wanted.len());
                }
            }
        }
        Self::new(path, pieces, self.0.bodies.shared_parts())
    }

    /// The pieces that a range touches, and which part of each: from its own beginning on.
    fn touched(&self, range: ByteRange) -> impl Iterator<Item = (Piece, ByteRange)> {
        let Inner { index, pieces, .. } = &*self.0;
        let first = if range.is_empty() { index.count() } else { index.piece_at(range.start()) };
        let numbers = (first..index.count()).take_while(move |piece| index.start(*piece) < range.end());
        numbers.filter_map(move |number| {
            let whole = ByteRange::new(index.start(number), index.start(number + 1))?;
            let touched = whole.intersection(&range)?;
            let from = touched.start().checked_sub(whole.start())?;
            Some((*pieces.get(number)?, ByteRange::at(from, touched.len())?))
        })
    }
}

impl Source for VirtualFile {
    fn path(&self) -> &Path {
        &self.0.path
    }

    fn len(&self) -> u64 {
        self.0.index.len()
    }

    fn identity(&self) -> Identity {
        self.0.identity.clone()
    }

    fn current_identity(&self) -> error::Result<Identity> {
        self.0.bodies.check_open()?;
        Ok(self.identity())
    }

    fn check_ranges(&self, ranges: &[ByteRange]) -> error::Result<()> {
        for range in ranges {
            for (piece, _) in self.touched(*range) {
                if let Piece::Body { number, .. } = piece {
                    self.0.bodies.check(number)?;
                }
            }
        }
        Ok(())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> error::Result<()> {
        check_bounds(self, range)?;
        let (mut opened, mut at) = (0, range.start());
        for (piece, part) in self.touched(range) {
            let here = ByteRange::at(at, part.len()).unwrap_or_default();
            let passed = self.passed(here);
            opened += passed.len() + usize::from(matches!(piece, Piece::Body { .. }));
            if opened > self.0.opened_at_once {
                let range = ByteRange::new(at, range.end()).unwrap_or_default();
                leaves.push(Leaf::Object { object: Arc::new(LaterPart(self.clone())), range });
                return Ok(());
            }
            passed.iter().try_for_each(|body| self.bodies().check_empty(body.number))?;
            self.resolve_piece(piece, part, at, leaves)?;
            at = here.end();
        }
        Ok(())
    }

    fn note_files(&self, files: &mut Inodes) {
        self.0.bodies.parts().note_files(files);
    }

    fn origin(&self) -> Origin {
        self.0.origin.clone()
    }

    /// What it is made of may change without it.
    fn is_proven(&self) -> bool {
        false
    }
}

/// Puts bytes where they belong.
fn put(into: &mut [u8], place: Range<usize>, bytes: &[u8]) {
    let into = into.get_mut(place).unwrap_or_default();
    if into.len() == bytes.len() {
        into.copy_from_slice(bytes);
    }
}

/// A part that begins so much later.
fn shifted(part: ByteRange, by: u64) -> Option<ByteRange> {
    ByteRange::at(part.start().checked_add(by)?, part.len())
}

fn slice(bytes: &Bytes, part: ByteRange) -> Bytes {
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(at(part.start())..at(part.end()))
}

/// A part with many bodies, which are opened one after another when it is read.
struct LaterPart(VirtualFile);

impl fmt::Debug for LaterPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LaterPart").field(&self.0).finish()
    }
}

impl Object for LaterPart {
    fn path(&self) -> &Path {
        &self.0.0.path
    }

    fn begin(&self, range: ByteRange, answer: Answer) -> Pending {
        answer.give(self.read(range));
        Box::new(())
    }
}

impl LaterPart {
    fn read(&self, range: ByteRange) -> error::Result<Bytes> {
        let mut read = Vec::with_capacity(usize::try_from(range.len()).unwrap_or(0));
        let (mut at, mut leaves) = (range.start(), Vec::new());
        for (piece, part) in self.0.touched(range) {
            let here = ByteRange::at(at, part.len()).unwrap_or_default();
            self.0.passed(here).iter().try_for_each(|body| self.0.bodies().check_empty(body.number))?;
            let start = at;
            at = here.end();
            let Piece::Body { number, offset } = piece else {
                self.0.resolve_piece(piece, part, start, &mut leaves)?;
                leaves.drain(..).try_for_each(|leaf| read_leaf(&leaf, &mut read).map(drop))?;
                continue;
            };
            let source = self.0.bodies().get(number)?;
            let wanted = shifted(part, offset).ok_or_else(|| no_part(number))?;
            source.resolve(wanted, &mut leaves)?;
            let before = read.len();
            let is_read = leaves
                .drain(..)
                .try_fold(true, |is_read, leaf| Ok::<_, Error>(is_read && read_leaf(&leaf, &mut read)?))?;
            if !is_read {
                read.truncate(before);
                let bytes = read_range(&Backend::Threads, &*source, wanted, Access::Cached)?;
                read.extend_from_slice(&bytes);
            }
        }
        Ok(read.into())
    }
}

/// Reads a leaf into the end of a buffer; `false` for one that only a session can read.
fn read_leaf(leaf: &Leaf, into: &mut Vec<u8>) -> error::Result<bool> {
    let grown = |into: &Vec<u8>, len: u64| into.len().saturating_add(usize::try_from(len).unwrap_or(0));
    match leaf {
        Leaf::Bytes(bytes) => into.extend_from_slice(bytes),
        Leaf::Fill { byte, len } => into.resize(grown(into, *len), *byte),
        Leaf::File { file, range } => {
            let before = into.len();
            into.resize(grown(into, range.len()), 0);
            file.read_exact_at(into.get_mut(before..).unwrap_or_default(), range.start())?;
        }
        Leaf::Object { .. } | Leaf::Checked { .. } => return Ok(false),
    }
    Ok(true)
}
