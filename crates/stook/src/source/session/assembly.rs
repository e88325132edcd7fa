//! How one range is cut into reads and put together again.
//!
//! Nothing is read here; [`Session`](super::Session) carries the pieces to the engine and back.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::engine::{Access, Arena, Buffer, BufferPool, File};
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::{Check, Leaf, Object, verified};

/// A read that the engine, or a request, is to do for a range.
#[derive(Debug)]
pub(super) struct Piece {
    /// Which assembly it belongs to.
    pub(super) request: usize,
    pub(super) origin: PieceOrigin,
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) place: Place,
}

/// The origin of a piece.
#[derive(Debug, Clone)]
pub(super) enum PieceOrigin {
    File(Arc<File>, Access),
    Object(Arc<dyn Object>),
    /// The leaves below it are a range of their own, which is read this way.
    Checked(Arc<dyn Check>, Access),
}

impl PieceOrigin {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(file, _) => file.path(),
            Self::Object(object) => object.path(),
            Self::Checked(check, _) => check.path(),
        }
    }
}

impl Piece {
    /// The object and range to request, if it is a piece of an object.
    pub(super) fn object(&self) -> Option<(&Arc<dyn Object>, ByteRange)> {
        match &self.origin {
            PieceOrigin::Object(object) => Some((object, ByteRange::at(self.offset, self.len as u64)?)),
            PieceOrigin::File(..) | PieceOrigin::Checked(..) => None,
        }
    }

    /// Its verified bytes, if it is a checked leaf, from the result of reading the leaves below it.
    pub(super) fn verified(&self, read: Result<Bytes>) -> Result<Bytes> {
        match &self.origin {
            PieceOrigin::Checked(check, _) => verified(check.as_ref(), read?, self.len as u64),
            PieceOrigin::File(..) | PieceOrigin::Object(_) => read,
        }
    }
}

/// How long reads and requests may be, and how files are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) max_read: usize,
    pub(super) max_request: usize,
    pub(super) access: Access,
}

/// Where the bytes of a piece go.
#[derive(Debug)]
pub(super) enum Place {
    /// They are the whole range: the buffer they were read into is returned.
    Alone,
    /// They are read into this part of the range's arena, beside the others.
    Beside(Range<usize>),
    /// They are copied to this position of the range.
    Copied(usize),
}

/// A range on its way.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) token: u64,
    /// Pieces that have not come back.
    pub(super) missing: usize,
    /// The first error of a piece.
    pub(super) failure: Option<Error>,
    /// The checked leaf that it is read for: a piece of another assembly. `None` if it is returned
    /// itself.
    pub(super) above: Option<Piece>,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Whole(Bytes),
    Beside { arena: Arena, data: Range<usize> },
    Copied(Buffer),
}

impl Assembly {
    /// Lends the part of the arena that a piece is read into.
    pub(super) fn lend(&mut self, range: Range<usize>) -> Buffer {
        match &mut self.target {
            Target::Beside { arena, .. } => arena.take(range),
            Target::Whole(_) | Target::Copied(_) => Buffer::with_capacity(range.len()),
        }
    }

    /// Takes the bytes of a piece that a request brought, or that were verified.
    pub(super) fn place_bytes(&mut self, place: &Place, bytes: Bytes) {
        match (&mut self.target, place) {
            (Target::Whole(whole), _) => *whole = bytes,
            (Target::Copied(target), Place::Copied(at)) => {
                target.data_mut()[*at..*at + bytes.len()].copy_from_slice(&bytes);
            }
            // Only files are read into arenas.
            (Target::Beside { .. } | Target::Copied(_), _) => {}
        }
    }

    /// Takes the bytes of a piece.
    pub(super) fn place(&mut self, place: &Place, buffer: Buffer) {
        match (&mut self.target, place) {
            (Target::Whole(bytes), _) => *bytes = buffer.into_bytes(),
            (Target::Copied(target), Place::Copied(at)) => {
                target.data_mut()[*at..*at + buffer.len()].copy_from_slice(buffer.data());
            }
            // The bytes are where they belong as soon as the buffer is back.
            (Target::Beside { .. } | Target::Copied(_), _) => drop(buffer),
        }
    }

    pub(super) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// The result to return when no piece is missing.
    pub(super) fn finish(self) -> (u64, Result<Bytes>) {
        let result = match (self.failure, self.target) {
            (Some(error), _) => Err(error),
            (None, Target::Whole(bytes)) => Ok(bytes),
            (None, Target::Beside { arena, data }) => Ok(arena.into_bytes().slice(data)),
            (None, Target::Copied(buffer)) => Ok(buffer.into_bytes()),
        };
        (self.token, result)
    }
}

/// The pieces of one range: mostly a single one, which needs no list.
#[derive(Debug)]
pub(super) enum Pieces {
    None,
    One(Piece),
    Many(Vec<Piece>),
}

impl IntoIterator for Pieces {
    type Item = Piece;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Piece>, std::vec::IntoIter<Piece>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, many) = match self {
            Self::None => (None, Vec::new()),
            Self::One(piece) => (Some(piece), Vec::new()),
            Self::Many(pieces) => (None, pieces),
        };
        one.into_iter().chain(many)
    }
}

/// Cuts a range, given as its leaves, into reads and requests that are not too long.
///
/// # Errors
/// Returns an error if there is no memory for it.
pub(super) fn disassemble(
    token: u64,
    leaves: &mut Vec<Leaf>,
    len: u64,
    limits: Limits,
    pool: &BufferPool,
) -> Result<(Assembly, Pieces)> {
    let Limits { max_read, max_request, access } = limits;
    debug_assert_eq!(leaves.iter().map(Leaf::len).sum::<u64>(), len, "leaves make up their range");
    let (target, pieces) = match (leaves.pop(), leaves.is_empty()) {
        (None, _) => (Target::Whole(Bytes::new()), Pieces::None),
        (Some(Leaf::Bytes(bytes)), true) => (Target::Whole(bytes), Pieces::None),
        (Some(Leaf::File { file, range }), true) if range.len() <= max_read as u64 => {
            let piece = alone(PieceOrigin::File(file, access), range);
            (Target::Whole(Bytes::new()), Pieces::One(piece))
        }
        (Some(Leaf::Object { object, range }), true) if range.len() <= max_request as u64 => {
            let piece = alone(PieceOrigin::Object(object), range);
            (Target::Whole(Bytes::new()), Pieces::One(piece))
        }
        (Some(Leaf::Checked { check, len }), true) => {
            let range = ByteRange::to(len);
            let piece = alone(PieceOrigin::Checked(check, access), range);
            (Target::Whole(Bytes::new()), Pieces::One(piece))
        }
        (Some(Leaf::File { file, range }), true) => {
            let (target, pieces) = beside(&file, range.start()..range.end(), max_read, access)?;
            (target, Pieces::Many(pieces))
        }
        (Some(last), _) => {
            leaves.push(last);
            let (target, pieces) = copied(leaves, len, limits, pool)?;
            (target, Pieces::Many(pieces))
        }
    };
    let missing = match &pieces {
        Pieces::None => 0,
        Pieces::One(_) => 1,
        Pieces::Many(pieces) => pieces.len(),
    };
    Ok((Assembly { token, missing, failure: None, above: None, target }, pieces))
}

/// A range that is fetched by one read or request.
fn alone(origin: PieceOrigin, range: ByteRange) -> Piece {
    let (offset, len) = (range.start(), range.len() as usize);
    Piece { request: 0, origin, offset, len, place: Place::Alone }
}

/// One long range of a file: cut where the file is aligned, so that the widened reads of the pieces
/// lie in the arena as they do in the file.
fn beside(
    file: &Arc<File>,
    range: Range<u64>,
    max_read: usize,
    access: Access,
) -> Result<(Target, Vec<Piece>)> {
    let alignment = file.alignment().offset_bytes.max(4096);
    let base = match access {
        Access::Direct => range.start & !(file.alignment().offset_bytes - 1),
        Access::Cached => range.start,
    };
    let step = (max_read as u64).next_multiple_of(alignment);
    let capacity = (range.end - base).checked_next_multiple_of(alignment).ok_or_else(too_long)?;
    let capacity = usize::try_from(capacity).map_err(|_| too_long())?;
    let arena = Arena::new(capacity)?;
    let cuts = (base..range.end).step_by(usize::try_from(step).map_err(|_| too_long())?);
    let pieces = cuts.map(|cut| {
        let (start, end) = (cut.max(range.start), cut.saturating_add(step).min(range.end));
        let at = (cut - base) as usize;
        let place = Place::Beside(at..at.saturating_add(step as usize).min(capacity));
        let (origin, len) = (PieceOrigin::File(Arc::clone(file), access), (end - start) as usize);
        Piece { request: 0, origin, offset: start, len, place }
    });
    let pieces = pieces.collect();
    let data = (range.start - base) as usize..(range.end - base) as usize;
    Ok((Target::Beside { arena, data }, pieces))
}

/// A range of several leaves, of a fill, or a long one of an object: available bytes are copied
/// now, the rest when it is read. A checked leaf is never cut: it is verified and read as a unit.
fn copied(
    leaves: &mut Vec<Leaf>,
    len: u64,
    limits: Limits,
    pool: &BufferPool,
) -> Result<(Target, Vec<Piece>)> {
    let len = usize::try_from(len).map_err(|_| too_long())?;
    // Memory of the pool holds old data; fresh memory holds zeros, which need not be written.
    let has_zeros = leaves.iter().any(|leaf| matches!(leaf, Leaf::Fill { byte: 0, .. }));
    let mut buffer = if has_zeros { Buffer::with_capacity(len) } else { pool.take(len) };
    buffer.set_data_range(0..len);
    let (mut pieces, mut at) = (Vec::new(), 0);
    for leaf in leaves.drain(..) {
        let leaf_len = leaf.len() as usize;
        let target = &mut buffer.data_mut()[at..at + leaf_len];
        match leaf {
            Leaf::Bytes(bytes) => target.copy_from_slice(&bytes),
            Leaf::Fill { byte: 0, .. } => {}
            Leaf::Fill { byte, .. } => target.fill(byte),
            Leaf::File { file, range } => {
                pieces.extend(cut(&PieceOrigin::File(file, limits.access), range, limits.max_read, at));
            }
            Leaf::Object { object, range } => {
                pieces.extend(cut(&PieceOrigin::Object(object), range, limits.max_request, at));
            }
            Leaf::Checked { check, .. } => {
                let origin = PieceOrigin::Checked(check, limits.access);
                pieces.push(Piece { request: 0, origin, offset: 0, len: leaf_len, place: Place::Copied(at) });
            }
        }
        at += leaf_len;
    }
    Ok((Target::Copied(buffer), pieces))
}

/// Pieces of at most `step` bytes; the first is copied to `at`.
fn cut(origin: &PieceOrigin, range: ByteRange, step: usize, at: usize) -> impl Iterator<Item = Piece> {
    (range.start()..range.end()).step_by(step).map(move |offset| {
        let len = (range.end() - offset).min(step as u64) as usize;
        let place = Place::Copied(at + (offset - range.start()) as usize);
        Piece { request: 0, origin: origin.clone(), offset, len, place }
    })
}

fn too_long() -> Error {
    Error::io("map", "memory for an arena", std::io::ErrorKind::OutOfMemory.into())
}
