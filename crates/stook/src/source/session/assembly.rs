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

/// Where memory of the engine begins, and every part that it lends.
const PAGE_BYTES: u64 = 4096;

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
    /// They are the whole range, and are read into the memory that was given for it.
    Given,
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
    Beside {
        arena: Arena,
        data: Range<usize>,
    },
    Copied(Buffer),
    /// Memory of the caller, who finds the bytes in it. It is away while the engine has it.
    Given(Option<Buffer>),
}

impl Assembly {
    fn new(token: u64, target: Target, missing: usize) -> Self {
        Self { token, missing, failure: None, above: None, target }
    }

    /// Lends the memory that a piece of `span` bytes is read into.
    pub(super) fn lend(&mut self, place: &Place, span: usize, pool: &BufferPool) -> Buffer {
        match (&mut self.target, place) {
            (Target::Beside { arena, .. }, Place::Beside(range)) => arena.take(range.clone()),
            (Target::Given(memory), Place::Given) => memory.take().unwrap_or_else(|| pool.take(span)),
            _ => pool.take(span),
        }
    }

    /// Takes the bytes of a piece that a request brought, or that were verified.
    pub(super) fn place_bytes(&mut self, place: &Place, bytes: Bytes) {
        match (&mut self.target, place) {
            (Target::Whole(whole), _) => *whole = bytes,
            (Target::Copied(target) | Target::Given(Some(target)), Place::Copied(at)) => {
                target.data_mut()[*at..*at + bytes.len()].copy_from_slice(&bytes);
            }
            // Only files are read into arenas.
            (Target::Beside { .. } | Target::Copied(_) | Target::Given(_), _) => {}
        }
    }

    /// Takes the bytes of a piece.
    pub(super) fn place(&mut self, place: &Place, buffer: Buffer) {
        match (&mut self.target, place) {
            (Target::Whole(bytes), _) => *bytes = buffer.into_bytes(),
            (Target::Copied(target) | Target::Given(Some(target)), Place::Copied(at)) => {
                target.data_mut()[*at..*at + buffer.len()].copy_from_slice(buffer.data());
            }
            // The bytes are where they belong as soon as the buffer is back.
            (Target::Beside { .. } | Target::Copied(_) | Target::Given(_), _) => drop(buffer),
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
            (None, Target::Given(_)) => Ok(Bytes::new()),
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
            let (target, pieces) = beside(&file, range.start()..range.end(), limits, pool)?;
            (target, Pieces::Many(pieces))
        }
        (Some(last), _) => {
            leaves.push(last);
            let (target, pieces) = match lie_as_in_their_files(leaves, access) {
                true => in_place(leaves, len, limits, pool)?,
                false => copied(leaves, len, limits, pool)?,
            };
            (target, Pieces::Many(pieces))
        }
    };
    let missing = match &pieces {
        Pieces::None => 0,
        Pieces::One(_) => 1,
        Pieces::Many(pieces) => pieces.len(),
    };
    Ok((Assembly::new(token, target, missing), pieces))
}

/// The same into memory of the caller, from its start on. A range that one read of a file can bring
/// there is read there; of all others the parts are copied.
pub(super) fn disassemble_into(
    token: u64,
    leaves: &mut Vec<Leaf>,
    len: u64,
    limits: Limits,
    mut memory: Buffer,
) -> (Assembly, Pieces) {
    debug_assert_eq!(leaves.iter().map(Leaf::len).sum::<u64>(), len, "leaves make up their range");
    if let [Leaf::File { file, range }] = leaves.as_slice()
        && let Some(access) = way_into(file, *range, memory.capacity(), limits)
    {
        let origin = PieceOrigin::File(Arc::clone(file), access);
        let piece = Piece { place: Place::Given, ..alone(origin, *range) };
        return (Assembly::new(token, Target::Given(Some(memory)), 1), Pieces::One(piece));
    }
    memory.set_data_range(0..usize::try_from(len).unwrap_or(usize::MAX));
    let pieces = scatter(leaves, &mut memory, limits, false);
    (Assembly::new(token, Target::Given(Some(memory)), pieces.len()), Pieces::Many(pieces))
}

/// How one read can bring a range of a file to the start of memory: directly only where the file is
/// aligned, because what alignment alone makes it read would come before it. `None` where the range
/// is too long for one.
fn way_into(file: &File, range: ByteRange, capacity: usize, limits: Limits) -> Option<Access> {
    let len = usize::try_from(range.len()).ok().filter(|&len| len <= limits.max_read.min(capacity))?;
    let is_aligned = || range.start().is_multiple_of(file.alignment().offset_bytes);
    let fits = || file.span(range.start(), len, Access::Direct) <= capacity;
    Some(match limits.access {
        Access::Direct if is_aligned() && fits() => Access::Direct,
        _ => Access::Cached,
    })
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
    limits: Limits,
    pool: &BufferPool,
) -> Result<(Target, Vec<Piece>)> {
    let Limits { max_read, access, .. } = limits;
    let alignment = file.alignment().offset_bytes.max(4096);
    let base = match access {
        Access::Direct => range.start & !(file.alignment().offset_bytes - 1),
        Access::Cached => range.start,
    };
    let step = (max_read as u64).next_multiple_of(alignment);
    let capacity = (range.end - base).checked_next_multiple_of(alignment).ok_or_else(too_long)?;
    let capacity = usize::try_from(capacity).map_err(|_| too_long())?;
    let arena = pool.arena(capacity)?;
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

/// Whether each leaf of several is of a file, and can be read where it belongs: it begins at a page
/// of the range, and alignment makes no read reach into the next one.
fn lie_as_in_their_files(leaves: &[Leaf], access: Access) -> bool {
    let mut at = 0_u64;
    leaves.iter().all(|leaf| {
        let Leaf::File { file, range } = leaf else { return false };
        let begins_at_page = at.is_multiple_of(PAGE_BYTES);
        at += range.len();
        let is_aligned = || {
            let alignment = file.alignment().offset_bytes;
            alignment <= PAGE_BYTES && range.start().is_multiple_of(alignment)
        };
        begins_at_page && (access == Access::Cached || is_aligned())
    })
}

/// Leaves of several files that are read beside one another, where they belong.
fn in_place(
    leaves: &mut Vec<Leaf>,
    len: u64,
    limits: Limits,
    pool: &BufferPool,
) -> Result<(Target, Vec<Piece>)> {
    let Limits { max_read, access, .. } = limits;
    let step = (max_read as u64).next_multiple_of(PAGE_BYTES);
    let capacity = len.checked_next_multiple_of(PAGE_BYTES).ok_or_else(too_long)?;
    let arena = pool.arena(usize::try_from(capacity).map_err(|_| too_long())?)?;
    let (mut pieces, mut at) = (Vec::with_capacity(leaves.len()), 0);
    for leaf in leaves.drain(..) {
        let Leaf::File { file, range } = leaf else { continue };
        let mut from = range.start();
        while from < range.end() {
            let len = (range.end() - from).min(step);
            // A read that ends within a block of the device is given the rest of it.
            let end = (at + len).next_multiple_of(PAGE_BYTES).min(capacity);
            let place = Place::Beside(at as usize..end as usize);
            let origin = PieceOrigin::File(Arc::clone(&file), access);
            pieces.push(Piece { request: 0, origin, offset: from, len: len as usize, place });
            (from, at) = (from + len, at + len);
        }
    }
    Ok((Target::Beside { arena, data: 0..usize::try_from(len).map_err(|_| too_long())? }, pieces))
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
    // Memory of the pool holds what was read before; fresh memory holds zeros, which need no
    // writing. It has to be fetched from the system, so that is worth it only where most are zeros.
    let zeros = |leaf: &Leaf| if let Leaf::Fill { byte: 0, len } = leaf { *len } else { 0 };
    let is_zeroed = leaves.iter().map(zeros).sum::<u64>() > len as u64 / 2;
    let mut buffer = if is_zeroed { Buffer::with_capacity(len) } else { pool.take(len) };
    buffer.set_data_range(0..len);
    let pieces = scatter(leaves, &mut buffer, limits, is_zeroed);
    Ok((Target::Copied(buffer), pieces))
}

/// Copies what is here into the memory of a range, and cuts the rest into pieces that are copied
/// there when they are read. Where all of the memory is zero, no zeros are written.
fn scatter(leaves: &mut Vec<Leaf>, memory: &mut Buffer, limits: Limits, is_zeroed: bool) -> Vec<Piece> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    for leaf in leaves.drain(..) {
        let leaf_len = leaf.len() as usize;
        let target = &mut memory.data_mut()[at..at + leaf_len];
        match leaf {
            Leaf::Bytes(bytes) => target.copy_from_slice(&bytes),
            Leaf::Fill { byte: 0, .. } if is_zeroed => {}
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
    pieces
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { max_read: 1 << 20, max_request: 1 << 20, access: Access::Cached };

    /// What a range of leaves that need no reading comes to.
    fn assembled(mut leaves: Vec<Leaf>, pool: &BufferPool) -> Bytes {
        let len = leaves.iter().map(Leaf::len).sum();
        let (assembly, pieces) = disassemble(0, &mut leaves, len, LIMITS, pool).unwrap();
        assert_eq!(pieces.into_iter().count(), 0);
        assembly.finish().1.unwrap()
    }

    #[test]
    fn ranges_of_several_leaves_use_the_memory_of_those_before_and_their_zeros_are_zeros() {
        let pool = BufferPool::new(8 << 20);
        let sevens = || Leaf::Bytes(Bytes::from_static(&[7; 4000]));
        let first = assembled(vec![sevens(), sevens(), sevens()], &pool);
        let address = first.as_ptr();
        drop(first);
        let second = assembled(vec![sevens(), Leaf::Fill { byte: 0, len: 4000 }, sevens()], &pool);
        assert_eq!(second.as_ptr(), address);
        assert_eq!(
            (&second[..4000], &second[4000..8000], &second[8000..]),
            (&[7; 4000][..], &[0; 4000][..], &[7; 4000][..])
        );
        drop(second);
        // Where most are zeros, memory that is zero already costs less than making it so.
        let third = assembled(vec![sevens(), Leaf::Fill { byte: 0, len: 8000 }], &pool);
        assert_ne!(third.as_ptr(), address);
        assert!(third[..4000] == [7; 4000] && third[4000..] == [0; 8000]);
    }

    #[test]
    fn memory_of_the_caller_has_the_bytes_from_its_start_on() {
        let mut arena = Arena::new(8192).unwrap();
        let mut used = arena.take(0..8192);
        used.spare().fill(9);
        let mut leaves = vec![
            Leaf::Bytes(Bytes::from_static(b"begin")),
            Leaf::Fill { byte: 0, len: 10 },
            Leaf::Fill { byte: 3, len: 1 },
        ];
        let (assembly, pieces) = disassemble_into(5, &mut leaves, 16, LIMITS, used);
        assert_eq!(pieces.into_iter().count(), 0);
        let (token, bytes) = assembly.finish();
        assert!(token == 5 && bytes.unwrap().is_empty());
        assert_eq!(arena.bytes(0..17), b"begin\0\0\0\0\0\0\0\0\0\0\x03\x09");
    }
}
