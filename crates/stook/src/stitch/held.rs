//! [`Held`]: bytes that a virtual file has itself. Short ones lie side by side, so that a million
//! headers take no more memory than their bytes.

use bytes::{Bytes, BytesMut};

/// From this length on bytes stay where they are; shorter ones are copied.
const OWN_BYTES: usize = 4096;
/// From this length on a block of short ones is full.
const BLOCK_BYTES: usize = 64 << 10;

/// Blocks of bytes.
#[derive(Debug, Default)]
pub(super) struct Held {
    blocks: Vec<Bytes>,
    /// The block that grows, and its number.
    growing: BytesMut,
    growing_at: Option<usize>,
}

/// The blocks, once all are there.
#[derive(Debug, Default)]
pub(super) struct Blocks(Box<[Bytes]>);

impl Held {
    /// Adds bytes; says in which block they are, and from where on.
    pub(super) fn add(&mut self, bytes: &Bytes) -> (u32, u64) {
        if bytes.len() >= OWN_BYTES {
            self.blocks.push(bytes.clone());
            return (number(self.blocks.len().saturating_sub(1)), 0);
        }
        if self.growing.len() >= BLOCK_BYTES {
            self.seal();
        }
        let at = *self.growing_at.get_or_insert_with(|| {
            self.blocks.push(Bytes::new());
            self.blocks.len().saturating_sub(1)
        });
        let offset = self.growing.len() as u64;
        self.growing.extend_from_slice(bytes);
        (number(at), offset)
    }

    fn seal(&mut self) {
        let Some(block) = self.growing_at.take().and_then(|at| self.blocks.get_mut(at)) else { return };
        *block = std::mem::take(&mut self.growing).freeze();
    }

    /// All of them.
    pub(super) fn finish(mut self) -> Blocks {
        self.seal();
        Blocks(self.blocks.into())
    }
}

/// Each block is one piece at least, and a file with more than a number can say is refused.
fn number(block: usize) -> u32 {
    u32::try_from(block).unwrap_or(u32::MAX)
}

impl Blocks {
    /// Bytes that were added.
    pub(super) fn get(&self, block: u32, offset: u64, len: u64) -> Bytes {
        let Some(bytes) = self.0.get(block as usize) else { return Bytes::new() };
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        bytes.slice(at(offset)..at(offset.saturating_add(len)))
    }
}
