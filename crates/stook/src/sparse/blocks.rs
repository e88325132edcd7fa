//! The bytes that are held: blocks of memory of our own that are filled from the front, and adopted
//! ones.
//!
//! Which bytes of a block still count is known to those who hold [`Place`]s; a block only knows how
//! many.

use bytes::Bytes;

/// The most bytes of one block. Offsets in a block fit into 20 bits.
pub(super) const BLOCK_MAX: usize = 1 << 20;
/// The most bytes of one segment. Its length less one fits into 16 bits.
pub(super) const SEGMENT_MAX: usize = 1 << 16;
/// The most blocks. Their numbers fit into 28 bits.
const BLOCKS_MAX: usize = 1 << 28;
/// The least size of an own block, except the first, which begins small and grows.
const OWN_MIN: usize = 16 << 10;
/// Blocks grow with the held bytes, up to this part of them, so that the unused end of the last is
/// small.
const PART: u64 = 128;

/// Where the bytes of a segment lie: a block, an offset in it and a length, in 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u64);

impl Place {
    /// `len` is 1 to [`SEGMENT_MAX`], `offset` less than [`BLOCK_MAX`], `block` less than
    /// [`BLOCKS_MAX`].
    fn new(block: usize, offset: usize, len: usize) -> Self {
        debug_assert!(block < BLOCKS_MAX && offset < BLOCK_MAX && (1..=SEGMENT_MAX).contains(&len));
        Self((block as u64) << 36 | (offset as u64) << 16 | (len as u64 - 1))
    }

    fn block(self) -> usize {
        (self.0 >> 36) as usize
    }

    fn offset(self) -> usize {
        (self.0 >> 16) as usize & (BLOCK_MAX - 1)
    }

    /// How many bytes.
    pub(super) fn len(self) -> usize {
        (self.0 & 0xffff) as usize + 1
    }

    /// The part `from..to` of it, which must not be empty.
    pub(super) fn part(self, from: usize, to: usize) -> Self {
        debug_assert!(from < to && to <= self.len());
        Self::new(self.block(), self.offset() + from, to - from)
    }
}

#[derive(Debug)]
enum Memory {
    Own(Vec<u8>),
    Adopted(Bytes),
}

impl Memory {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Adopted(bytes) => bytes,
        }
    }

    /// Its size in memory.
    fn capacity(&self) -> u64 {
        match self {
            Self::Own(bytes) => bytes.capacity() as u64,
            Self::Adopted(bytes) => bytes.len() as u64,
        }
    }

    /// Gives it back, overwritten where that is wanted and it is our own.
    fn free(self, wipes: bool) {
        if let Self::Own(mut bytes) = self
            && wipes
        {
            wipe(&mut bytes);
        }
    }
}

/// Overwrites all memory of a list, its spare capacity included.
fn wipe(bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.resize(bytes.capacity(), 0);
    // The compiler must not find that nobody reads what was written.
    std::hint::black_box(bytes.as_mut_slice());
}

/// Makes room for `more` bytes, if need be in other memory, and overwrites what they were in.
#[cold]
fn grow_wiping(own: &mut Vec<u8>, more: usize) {
    if more <= own.capacity() - own.len() {
        return;
    }
    let mut larger = Vec::with_capacity((own.len() + more).max(own.capacity() * 2));
    larger.extend_from_slice(own);
    wipe(&mut std::mem::replace(own, larger));
}

/// Puts bytes at the end; by how many the capacity grew.
#[inline]
fn push(own: &mut Vec<u8>, bytes: &[u8], wipes: bool) -> u64 {
    let before = own.capacity();
    if wipes {
        grow_wiping(own, bytes.len());
    }
    match bytes {
        [byte] => own.push(*byte),
        _ => own.extend_from_slice(bytes),
    }
    (own.capacity() - before) as u64
}

#[derive(Debug)]
struct Block {
    memory: Memory,
    /// Bytes that some place still speaks of.
    live: u32,
    /// Whether its live bytes are to be moved out, so that its memory can be freed.
    leaving: bool,
}

/// No room for another block.
#[derive(Debug)]
pub(super) struct Full;

/// All blocks of one sparse file.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    /// Numbers of blocks that hold nothing.
    free: Vec<u32>,
    /// The block that is being filled.
    filling: Option<usize>,
    /// Bytes that places speak of, of all blocks.
    live: u64,
    /// Bytes that were put into blocks and not given back, dead ones included.
    used: u64,
    /// What all blocks take of memory.
    capacity: u64,
    /// Whether own memory is overwritten before it is given back.
    wipes: bool,
}

impl Drop for Blocks {
    fn drop(&mut self) {
        if self.wipes {
            self.blocks.drain(..).for_each(|block| block.memory.free(true));
        }
    }
}

impl Blocks {
    pub(super) fn new(wipes: bool) -> Self {
        let (blocks, free) = (Vec::new(), Vec::new());
        Self { blocks, free, filling: None, live: 0, used: 0, capacity: 0, wipes }
    }

    /// Bytes that are no longer referenced and whose memory is not yet freed.
    pub(super) fn dead(&self) -> u64 {
        self.used - self.live
    }

    /// Whether `len` more bytes fit, in however many pieces they come.
    #[inline]
    pub(super) fn has_room_for(&self, len: u64) -> bool {
        // An own block takes at least 16 KiB, and of an adopted one, even one byte may be left.
        (self.blocks.len() as u64).saturating_add(len / 4096) + 2 < BLOCKS_MAX as u64
    }

    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// What all of it takes of memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        let lists = self.blocks.capacity() * size_of::<Block>() + self.free.capacity() * size_of::<u32>();
        self.capacity + lists as u64
    }

    /// The bytes of a place.
    #[inline]
    pub(super) fn bytes(&self, place: Place) -> &[u8] {
        let block = self.blocks.get(place.block()).map(|block| block.memory.bytes());
        let range = place.offset()..place.offset() + place.len();
        block.and_then(|bytes| bytes.get(range)).unwrap_or_default()
    }

    /// The bytes of a place without a copy, if they are in adopted memory.
    pub(super) fn shared(&self, place: Place) -> Option<Bytes> {
        match &self.blocks.get(place.block())?.memory {
            Memory::Adopted(bytes) => {
                let range = place.offset()..place.offset() + place.len();
                (range.end <= bytes.len()).then(|| bytes.slice(range))
            }
            Memory::Own(_) => None,
        }
    }

    /// Whether `next` follows `place` in the same adopted memory.
    pub(super) fn follows(place: Place, next: Place) -> bool {
        place.block() == next.block() && place.offset() + place.len() == next.offset()
    }

    /// The bytes from the start of `first` to the end of `last`, which lie in the same block in
    /// this order.
    pub(super) fn shared_run(&self, first: Place, last: Place) -> Option<Bytes> {
        match &self.blocks.get(first.block())?.memory {
            Memory::Adopted(bytes) => {
                let range = first.offset()..last.offset() + last.len();
                (range.start <= range.end && range.end <= bytes.len()).then(|| bytes.slice(range))
            }
            Memory::Own(_) => None,
        }
    }

    /// The bytes of a place to be written over, where the memory is our own.
    pub(super) fn bytes_mut(&mut self, place: Place) -> Option<&mut [u8]> {
        match &mut self.blocks.get_mut(place.block())?.memory {
            Memory::Own(bytes) => bytes.get_mut(place.offset()..place.offset() + place.len()),
            Memory::Adopted(_) => None,
        }
    }

    /// Copies bytes to the end of the block that is being filled, or of a new one.
    #[inline]
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<Place, Full> {
        let (number, offset) = self.room_for(bytes.len())?;
        let Some(block) = self.blocks.get_mut(number) else { return Err(Full) };
        let Memory::Own(own) = &mut block.memory else { return Err(Full) };
        self.capacity += push(own, bytes, self.wipes);
        block.live += bytes.len() as u32;
        self.live += bytes.len() as u64;
        self.used += bytes.len() as u64;
        Ok(Place::new(number, offset, bytes.len()))
    }

    /// The same for bytes that were copied together only for this.
    pub(super) fn append_copy(&mut self, mut bytes: Vec<u8>) -> Result<Place, Full> {
        let place = self.append(&bytes);
        if self.wipes {
            wipe(&mut bytes);
        }
        place
    }

    /// Lets a segment that ends where its block does grow in place, if there is room: its new
    /// place.
    #[inline]
    pub(super) fn extend(&mut self, place: Place, bytes: &[u8], grain: usize) -> Option<Place> {
        let number = place.block();
        if self.filling != Some(number) || place.len() + bytes.len() > grain {
            return None;
        }
        let block = self.blocks.get_mut(number)?;
        let Memory::Own(own) = &mut block.memory else { return None };
        let fits = bytes.len() <= own.capacity() - own.len() || own.len() + bytes.len() <= OWN_MIN;
        if !fits || place.offset() + place.len() != own.len() {
            return None;
        }
        self.capacity += push(own, bytes, self.wipes);
        block.live += bytes.len() as u32;
        self.live += bytes.len() as u64;
        self.used += bytes.len() as u64;
        Some(Place::new(number, place.offset(), place.len() + bytes.len()))
    }

    /// Adopts the caller's memory, at most [`BLOCK_MAX`] bytes; returns the number of its block.
    pub(super) fn adopt(&mut self, bytes: Bytes) -> Result<Adopted, Full> {
        debug_assert!(bytes.len() <= BLOCK_MAX);
        let len = bytes.len();
        let number = self.put(Memory::Adopted(bytes))?;
        if let Some(block) = self.blocks.get_mut(number) {
            block.live = len as u32;
        }
        self.live += len as u64;
        self.used += len as u64;
        Ok(Adopted { number })
    }

    /// Releases a reference to `len` bytes of the block of `place`.
    pub(super) fn release(&mut self, place: Place, len: usize) {
        let number = place.block();
        let Some(block) = self.blocks.get_mut(number) else { return };
        block.live = block.live.saturating_sub(len as u32);
        self.live -= len as u64;
        if block.live > 0 {
            return;
        }
        self.used -= block.memory.bytes().len() as u64;
        match &mut block.memory {
            Memory::Own(own) if self.filling == Some(number) => own.clear(),
            memory => {
                self.capacity -= memory.capacity();
                std::mem::replace(memory, Memory::Own(Vec::new())).free(self.wipes);
                block.leaving = false;
                self.free.push(number as u32);
            }
        }
    }

    /// Chooses the blocks that are more than a third dead: their segments are to be moved out.
    pub(super) fn choose_leaving(&mut self) {
        for (number, block) in self.blocks.iter_mut().enumerate() {
            block.leaving = u64::from(block.live) * 3 < block.memory.bytes().len() as u64 * 2;
            if block.leaving && self.filling == Some(number) {
                self.filling = None;
            }
        }
    }

    /// Whether the bytes of `place` are to be moved away.
    pub(super) fn is_leaving(&self, place: Place) -> bool {
        self.blocks.get(place.block()).is_some_and(|block| block.leaving)
    }

    /// Copies the bytes of a place after the others and releases it.
    pub(super) fn relocate(&mut self, place: Place) -> Result<Place, Full> {
        let moved = self.append_copy(self.bytes(place).to_vec())?;
        self.release(place, place.len());
        Ok(moved)
    }

    /// The block that takes `len` more bytes, and where in it they begin.
    #[inline]
    fn room_for(&mut self, len: usize) -> Result<(usize, usize), Full> {
        if let Some(number) = self.filling
            && let Some(Block { memory: Memory::Own(own), .. }) = self.blocks.get(number)
            && (len <= own.capacity() - own.len() || own.len() + len <= OWN_MIN)
        {
            return Ok((number, own.len()));
        }
        self.begin_block(len)
    }

    /// A new block to be filled, with room for `len` bytes.
    #[cold]
    fn begin_block(&mut self, len: usize) -> Result<(usize, usize), Full> {
        // The first block begins small and grows while it is copied at little cost.
        let capacity = match self.capacity {
            0 => len,
            held => ((held / PART) as usize).clamp(OWN_MIN, BLOCK_MAX).max(len),
        };
        let number = self.put(Memory::Own(Vec::with_capacity(capacity)))?;
        self.retire_filling();
        self.filling = Some(number);
        Ok((number, 0))
    }

    /// Frees the block that was being filled if it is no longer referenced.
    fn retire_filling(&mut self) {
        let Some(number) = self.filling.take() else { return };
        if let Some(block) = self.blocks.get_mut(number)
            && block.live == 0
        {
            self.used -= block.memory.bytes().len() as u64;
            self.capacity -= block.memory.capacity();
            std::mem::replace(&mut block.memory, Memory::Own(Vec::new())).free(self.wipes);
            self.free.push(number as u32);
        }
    }

    fn put(&mut self, memory: Memory) -> Result<usize, Full> {
        let capacity = memory.capacity();
        let block = Block { memory, live: 0, leaving: false };
        let number = match self.free.pop() {
            Some(number) => {
                let number = number as usize;
                if let Some(slot) = self.blocks.get_mut(number) {
                    *slot = block;
                }
                number
            }
            None if self.blocks.len() < BLOCKS_MAX => {
                self.blocks.push(block);
                self.blocks.len() - 1
            }
            None => return Err(Full),
        };
        self.capacity += capacity;
        Ok(number)
    }
}

/// A block of adopted memory, to be cut into places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Adopted {
    number: usize,
}

impl Adopted {
    /// The place of `len` bytes at `offset`.
    pub(super) fn place(self, offset: usize, len: usize) -> Place {
        Place::new(self.number, offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_holds_its_largest_values() {
        let place = Place::new(BLOCKS_MAX - 1, BLOCK_MAX - SEGMENT_MAX, SEGMENT_MAX);
        assert_eq!(
            (place.block(), place.offset(), place.len()),
            (BLOCKS_MAX - 1, BLOCK_MAX - SEGMENT_MAX, SEGMENT_MAX)
        );
        let part = place.part(1, 2);
        assert_eq!(
            (part.block(), part.offset(), part.len()),
            (BLOCKS_MAX - 1, BLOCK_MAX - SEGMENT_MAX + 1, 1)
        );
    }

    #[test]
    fn what_nobody_speaks_of_is_given_back_and_counted() {
        let mut blocks = Blocks::default();
        let places: Vec<Place> = (0..100).map(|byte| blocks.append(&[byte; 1000]).unwrap()).collect();
        assert_eq!((blocks.live(), blocks.dead()), (100_000, 0));
        for place in &places {
            blocks.release(*place, place.len());
        }
        assert_eq!((blocks.live(), blocks.dead()), (0, 0));
        assert!(blocks.memory_bytes() < 40_000, "{}", blocks.memory_bytes());
        let place = blocks.append(&[7]).unwrap();
        assert_eq!(blocks.bytes(place), [7]);
    }
}
