//! Journals of copies, of any bytes.

use stook::copy::CopyJournal;

/// The bytes of a header and of a record.
const HEADER_LEN: usize = 92;
const RECORD_LEN: usize = 36;

/// Journals: they are refused, or say no more of their file than it has and they have records of,
/// and encoding them again gives the bytes that count.
pub fn copy_journal(data: &[u8]) {
    let Ok(journal) = CopyJournal::decode(data) else { return };
    assert!(journal.bytes() <= journal.source_len());
    assert!(journal.blocks() <= journal.source_len().div_ceil(1 << 20));
    let written = journal.encode();
    assert_eq!(written.len() as u64, HEADER_LEN as u64 + journal.blocks() * RECORD_LEN as u64);
    assert!(data.starts_with(&written), "there is one way to write a journal");
    assert_eq!(CopyJournal::decode(&written).expect("what was written is read"), journal);
    // Bytes that nobody hashed are no block, and of no block there is nothing to compare.
    assert!(!journal.is_block(journal.blocks(), data) && !journal.is_block(0, &[]));
}
