//! [`TableDraft`]: records of a batch before they are columns.

use super::cells::LongCells;
use crate::pack::read::record::RecordHead;

/// Bytes and records of a batch; a record that is longer is a batch of its own.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_ROWS: usize = 8192;

/// What a record takes in memory beside key and value.
const HEAD_BYTES: usize = 128;

/// Records of a batch.
#[derive(Debug, Default)]
pub(super) struct TableDraft {
    /// Of records whose value was read, `body_len` is the length of that.
    pub(super) heads: Vec<RecordHead>,
    /// The values of all of them, or of none.
    pub(super) values: LongCells,
    bytes: usize,
}

impl TableDraft {
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.heads.len() >= BATCH_ROWS
    }

    /// Takes a record. Its value, if values are read, has been appended.
    pub(super) fn push(&mut self, head: RecordHead, attribute_bytes: usize, has_value: bool) {
        let before = self.values.offsets.last().map_or(0, |end| *end as usize);
        let value_bytes = self.values.bytes.len().saturating_sub(before);
        self.bytes += HEAD_BYTES + head.key.sort_form().len() + attribute_bytes + value_bytes;
        self.heads.push(head);
        if has_value {
            self.values.end();
        }
    }
}
