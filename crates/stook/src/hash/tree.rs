//! [`BlockTree`]: the tree of BLAKE3 above blocks of equal length, which can be hashed in any order
//! and are put together when they are there.

use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

use super::{Digest, HashKind};

/// The values of the two halves of a part of the tree, the left one first.
pub(crate) type Pair = (ChainingValue, ChainingValue);

/// The value of a block that begins at an offset. Both it and the length of blocks are powers of
/// two of at least 1,024 times a number, which is what a tree is made of.
pub(crate) fn value_of_block(offset: u64, bytes: &[u8]) -> ChainingValue {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset);
    hasher.update(bytes);
    hasher.finalize_non_root()
}

/// The value of a part of the tree that has these halves.
pub(crate) fn value_of_pair((left, right): &Pair) -> ChainingValue {
    merge_subtrees_non_root(left, right, Mode::Hash)
}

/// The digest of a file of which these are the halves.
pub(crate) fn root_of_pair((left, right): &Pair) -> [u8; 32] {
    *merge_subtrees_root(left, right, Mode::Hash).as_bytes()
}

/// Blocks, in order, as far as they are put together.
#[derive(Debug, Default)]
pub(crate) struct BlockTree {
    blocks: u64,
    /// Values of what is put together so far, from the front: as many as there are bits in the
    /// number of blocks.
    stack: Vec<ChainingValue>,
}

impl BlockTree {
    /// How many blocks came.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The next block. `merged` gets the halves of each part that is whole by now, those of a part
    /// after those of all that is in it. Two become one only when it is known that another block
    /// follows, for the last two of all become the root.
    pub(crate) fn push(&mut self, value: ChainingValue, merged: &mut dyn FnMut(Pair)) {
        while self.stack.len() > self.blocks.count_ones() as usize {
            self.merge_last(merged);
        }
        self.stack.push(value);
        self.blocks = self.blocks.saturating_add(1);
    }

    /// No more blocks: the digest; `None` if there was no more than one, which is no tree.
    pub(crate) fn finish(mut self, merged: &mut dyn FnMut(Pair)) -> Option<Digest> {
        while self.stack.len() > 2 {
            self.merge_last(merged);
        }
        let (right, left) = (self.stack.pop()?, self.stack.pop()?);
        let root = root_of_pair(&(left, right));
        merged((left, right));
        Some(Digest { kind: HashKind::Blake3, value: root.to_vec() })
    }

    fn merge_last(&mut self, merged: &mut dyn FnMut(Pair)) {
        if let (Some(right), Some(left)) = (self.stack.pop(), self.stack.pop()) {
            merged((left, right));
            self.stack.push(value_of_pair(&(left, right)));
        }
    }
}
