//! [`Pieces`]: what a virtual file is made of, as it is put together.

use bytes::Bytes;

use super::error::{Error, Result};
use super::held::{Blocks, Held};
use super::index::PieceIndex;

/// What the bytes of a piece are. There may be millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// Those of a body from an offset on.
    Body { number: u32, offset: u64 },
    /// Those of a block that is held, from an offset on.
    Held { block: u32, offset: u64 },
    /// One byte repeated.
    Fill(u8),
    /// What is computed when it is read, from an offset on: a header, or the directory of an
    /// archive.
    Made { number: u32, offset: u64 },
}

impl Piece {
    /// What is left of it after some of its bytes; `None` where they are too many for any file.
    pub(super) fn after(self, by: u64) -> Option<Self> {
        Some(match self {
            Self::Body { number, offset } => Self::Body { number, offset: offset.checked_add(by)? },
            Self::Held { block, offset } => Self::Held { block, offset: offset.checked_add(by)? },
            Self::Made { number, offset } => Self::Made { number, offset: offset.checked_add(by)? },
            Self::Fill(byte) => Self::Fill(byte),
        })
    }
}

/// A body without bytes, which is noticed where it is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EmptyBody {
    /// Where its bytes would be.
    pub(super) at: u64,
    pub(super) number: u32,
}

/// Pieces one after another. Those that continue one another become one.
#[derive(Debug, Default)]
pub struct Pieces {
    pieces: Vec<Piece>,
    lens: Vec<u64>,
    len: u64,
    held: Held,
    empty: Vec<EmptyBody>,
}

/// What a virtual file is made of.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) pieces: Box<[Piece]>,
    pub(super) index: PieceIndex,
    pub(super) blocks: Blocks,
    pub(super) empty: Box<[EmptyBody]>,
}

impl Pieces {
    /// None so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// None so far, of these bytes.
    pub(super) fn of_held(held: Held) -> Self {
        Self { held, ..Self::default() }
    }

    /// None so far, with room for this many.
    pub fn with_capacity(count: usize) -> Self {
        Self { pieces: Vec::with_capacity(count), lens: Vec::with_capacity(count), ..Self::default() }
    }

    /// How many bytes all have.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether they have no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds bytes of the body with a number, from an offset on.
    pub fn body(&mut self, number: u32, offset: u64, len: u64) {
        self.push(Piece::Body { number, offset }, len);
    }

    /// Adds all of the body with a number, which has this many bytes. Where it has none, it is
    /// opened all the same when what is before it is read: that it has some by now is an error.
    pub fn whole_body(&mut self, number: u32, len: u64) {
        if len == 0 {
            self.empty_body(self.len, number);
        }
        self.body(number, 0, len);
    }

    /// Adds a body without bytes, which is passed at an offset; those before it were added before.
    pub(super) fn empty_body(&mut self, at: u64, number: u32) {
        self.empty.push(EmptyBody { at, number });
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            let (block, offset) = self.held.add(&bytes);
            self.push(Piece::Held { block, offset }, bytes.len() as u64);
        }
    }

    /// Adds one byte, repeated.
    pub fn fill(&mut self, byte: u8, len: u64) {
        self.push(Piece::Fill(byte), len);
    }

    /// Adds what the parts compute under a number, as much as this.
    pub fn made(&mut self, number: u32, len: u64) {
        self.push(Piece::Made { number, offset: 0 }, len);
    }

    /// Adds a piece, or makes the last one longer where it continues that.
    pub(super) fn push(&mut self, piece: Piece, len: u64) {
        if len == 0 {
            return;
        }
        let last = self.pieces.last().zip(self.lens.last_mut());
        match last.filter(|(last, len)| continues(last, **len, &piece)) {
            Some((_, before)) => *before = before.saturating_add(len),
            None => {
                self.pieces.push(piece);
                self.lens.push(len);
            }
        }
        self.len = self.len.saturating_add(len);
    }

    /// The pieces, and where they are.
    pub(super) fn finish(self) -> Result<Finished> {
        let Self { pieces, lens, held, empty, .. } = self;
        let count = lens.len();
        let index = PieceIndex::new(lens.into_iter()).ok_or(Error::TooLong { pieces: count })?;
        Ok(Finished { pieces: pieces.into(), index, blocks: held.finish(), empty: empty.into() })
    }
}

/// Whether a piece begins where another of this length ends. What is made is made as a whole.
fn continues(last: &Piece, len: u64, piece: &Piece) -> bool {
    !matches!(piece, Piece::Made { .. }) && last.after(len) == Some(*piece)
}
