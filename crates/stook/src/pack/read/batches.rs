//! Many gets in batches, so that memory is bounded and callers get to look around in between.

use crate::pack::error::Result;
use crate::pack::key::Key;
use crate::pack::state::open::Pack;

/// Keys of a batch where records are mapped: few enough that their values are still in the
/// processor's cache when they are handed on.
const MAPPED: BatchLimits = BatchLimits { keys: 512, bytes: 4 << 20 };
/// The same where records are read: enough to keep a device busy.
const READ: BatchLimits = BatchLimits { keys: 4096, bytes: 32 << 20 };
/// The first batch, whose record lengths are not known.
const FIRST_BATCH_LEN: usize = 64;

#[derive(Debug, Clone, Copy)]
struct BatchLimits {
    keys: usize,
    bytes: usize,
}

/// Keys, a batch at a time. Batches shrink where records are long, and grow where they are short.
#[derive(Debug)]
pub struct KeyBatches<'k> {
    keys: &'k [Key],
    limits: BatchLimits,
    /// Keys of the next batch, and of the one before.
    len: usize,
    taken: usize,
}

impl<'k> KeyBatches<'k> {
    /// Batches of these keys, whose records are mapped or read.
    pub fn new(keys: &'k [Key], are_mapped: bool) -> Self {
        let limits = if are_mapped { MAPPED } else { READ };
        Self { keys, limits, len: FIRST_BATCH_LEN, taken: 0 }
    }

    /// The next batch; `None` after the last.
    pub fn next_batch(&mut self) -> Option<&'k [Key]> {
        let (batch, rest) = self.keys.split_at_checked(self.len.min(self.keys.len()))?;
        (self.keys, self.taken) = (rest, batch.len());
        (!batch.is_empty()).then_some(batch)
    }

    /// How many bytes came of the batch decides how long the next one is.
    pub fn came(&mut self, bytes: usize) {
        let fitting = self.limits.bytes.saturating_mul(self.taken) / bytes.max(1);
        self.len = fitting.min(4 * self.len).clamp(1, self.limits.keys);
    }
}

/// Values of mapped records: verified, and copied into memory that stays in the processor's cache.
#[derive(Debug, Default)]
pub struct Values {
    memory: Vec<u8>,
    /// The range of each value in the memory.
    places: Vec<Option<(usize, usize)>>,
}

impl Values {
    /// Looks up these keys, in place of those before.
    ///
    /// # Errors
    /// What reading meets, and the first damage.
    pub fn look_up(&mut self, pack: &Pack, keys: &[Key]) -> Result<()> {
        self.memory.clear();
        self.places.clear();
        self.places.resize(keys.len(), None);
        let mut failed = None;
        pack.get_files_with(keys, |number, content| match content {
            Ok(None) => {}
            Ok(Some(content)) => {
                if let Some(place) = self.places.get_mut(number) {
                    *place = Some((self.memory.len(), content.len()));
                }
                self.memory.extend_from_slice(content);
            }
            Err(error) => failed = failed.take().or(Some(error)),
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// They in the order of the keys; `None` for keys without a record.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.places.iter().map(|place| place.and_then(|(start, len)| self.memory.get(start..start + len)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: u64) -> Vec<Key> {
        (0..count).map(Key::id).collect()
    }

    #[test]
    fn every_key_is_in_one_batch_and_batches_follow_the_lengths_of_records() {
        for (are_mapped, bytes, most) in [(false, 1, 4096), (true, 1, 512), (false, 16 << 20, 2)] {
            let keys = keys(20_000);
            let mut batches = KeyBatches::new(&keys, are_mapped);
            let (mut seen, mut longest_later) = (Vec::new(), 0);
            while let Some(batch) = batches.next_batch() {
                if !seen.is_empty() {
                    longest_later = longest_later.max(batch.len());
                }
                seen.extend_from_slice(batch);
                batches.came(batch.len() * bytes);
            }
            assert_eq!((seen, longest_later), (keys, most));
        }
    }

    #[test]
    fn a_record_longer_than_a_batch_has_one_of_its_own() {
        let keys = keys(3);
        let mut batches = KeyBatches::new(&keys, false);
        batches.came(usize::MAX);
        let mut lens = Vec::new();
        while let Some(batch) = batches.next_batch() {
            lens.push(batch.len());
            batches.came(usize::MAX);
        }
        assert_eq!(lens, [1, 1, 1]);
    }
}
