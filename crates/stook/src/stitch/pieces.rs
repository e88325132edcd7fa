//! [`Pieces`]: what a virtual file is made of, as it is put together.

use bytes::Bytes;

use super::error::{Error, Result};
use super::index::PieceIndex;

/// What the bytes of a piece are.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// Those of a body from an offset on.
    Body { number: u32, offset: u64 },
    /// These.
    Bytes(Bytes),
    /// One byte repeated.
    Fill(u8),
    /// What is computed when it is read, from an offset on: a header, or the directory of an
    /// archive.
    Made { number: u32, offset: u64 },
}

/// Pieces one after another. Those that continue one another become one.
#[derive(Debug, Default)]
pub struct Pieces {
    pieces: Vec<Piece>,
    lens: Vec<u64>,
    len: u64,
}

impl Pieces {
    /// None so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// None so far, with room for this many.
    pub fn with_capacity(count: usize) -> Self {
        Self { pieces: Vec::with_capacity(count), lens: Vec::with_capacity(count), len: 0 }
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
        if let (Some(Piece::Body { number: last, offset: from }), Some(before)) =
            (self.pieces.last(), self.lens.last_mut())
            && *last == number
            && from.checked_add(*before) == Some(offset)
        {
            *before = before.saturating_add(len);
            self.len = self.len.saturating_add(len);
            return;
        }
        self.push(Piece::Body { number, offset }, len);
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: Bytes) {
        let len = bytes.len() as u64;
        self.push(Piece::Bytes(bytes), len);
    }

    /// Adds one byte, repeated.
    pub fn fill(&mut self, byte: u8, len: u64) {
        if let (Some(Piece::Fill(last)), Some(before)) = (self.pieces.last(), self.lens.last_mut())
            && *last == byte
        {
            *before = before.saturating_add(len);
            self.len = self.len.saturating_add(len);
            return;
        }
        self.push(Piece::Fill(byte), len);
    }

    /// Adds what the parts compute under a number, as much as this.
    pub fn made(&mut self, number: u32, len: u64) {
        self.push(Piece::Made { number, offset: 0 }, len);
    }

    fn push(&mut self, piece: Piece, len: u64) {
        if len > 0 {
            self.pieces.push(piece);
            self.lens.push(len);
            self.len = self.len.saturating_add(len);
        }
    }

    /// The pieces, and where they are.
    pub(super) fn finish(self) -> Result<(Box<[Piece]>, PieceIndex)> {
        let count = self.lens.len();
        let index = PieceIndex::new(self.lens.into_iter()).ok_or(Error::TooLong { pieces: count })?;
        Ok((self.pieces.into(), index))
    }
}
