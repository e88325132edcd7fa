//! Records of a scan, with their values. Each value is copied once: from the memory that the scan
//! lends, which is read into again, to the column that is handed out.

use bytes::Bytes;

use super::draft::TableDraft;
use crate::pack::error::{Error, Result};
use crate::pack::read::record::RecordHead;
use crate::pack::scan::filter::{FilterWalk, decoded};
use crate::pack::scan::{OnDamage, Scan};

/// The most records that are read for one batch: some may not be meant.
const LOOKED_AT_MAX: usize = 16_384;

/// Takes records until the batch is full; whether there may be more.
pub(super) fn fill_from(
    scan: &mut Scan<'_>,
    filter: &mut FilterWalk,
    to_skip: &mut u64,
    draft: &mut TableDraft,
) -> Result<bool> {
    scan.filter.stop.check()?;
    for _ in 0..LOOKED_AT_MAX {
        if draft.is_full() {
            break;
        }
        let Some(record) = scan.next()? else { return Ok(false) };
        if *to_skip > 0 {
            *to_skip -= 1;
            continue;
        }
        let Some(key) = record.key() else { continue };
        let encoded = record.attributes();
        if !filter.takes(encoded)? {
            continue;
        }
        let mut head = RecordHead {
            key,
            attributes: decoded(encoded)?,
            body_len: None,
            sequence: record.sequence(),
            time_ns: record.time_ns(),
            segment: record.segment(),
            offset: record.offset(),
        };
        let attribute_bytes = encoded.len();
        let (is_link, before) = (head.is_hard_link(), draft.values.bytes.len());
        match record.body() {
            Some(first) if is_link => {
                let first = Bytes::copy_from_slice(first);
                if !append_content(scan, &head, first, draft)? {
                    continue;
                }
            }
            Some(body) => draft.values.bytes.extend_from_slice(body),
            None => {
                if !append_chunks(scan, draft)? {
                    continue;
                }
                if is_link {
                    let first = Bytes::from(draft.values.bytes.split_off(before));
                    if !append_content(scan, &head, first, draft)? {
                        continue;
                    }
                }
            }
        }
        head.body_len = Some((draft.values.bytes.len() - before) as u64);
        draft.push(head, attribute_bytes, true);
    }
    Ok(true)
}

/// Appends the content of the file that a hard link leads to; `false` where that is reported in the
/// damages of the scan.
fn append_content(
    scan: &mut Scan<'_>,
    head: &RecordHead,
    first: Bytes,
    draft: &mut TableDraft,
) -> Result<bool> {
    let name = (head.segment, head.offset, head.key.clone(), first);
    match scan.contents_of(&[name])?.pop().flatten() {
        Some(content) => draft.values.bytes.extend_from_slice(&content),
        None => return Ok(false),
    }
    Ok(true)
}

/// Appends the pieces of a long body; `false` where it is damaged, and that is passed over.
fn append_chunks(scan: &mut Scan<'_>, draft: &mut TableDraft) -> Result<bool> {
    loop {
        let values = &mut draft.values.bytes;
        let appended = scan.next_chunk().map(|chunk| chunk.map(|chunk| values.extend_from_slice(chunk)));
        match appended {
            Ok(Some(())) => {}
            Ok(None) => return Ok(true),
            Err(error) => {
                draft.values.abandon();
                let Error::Damaged(damage) = error else { return Err(error) };
                if scan.options.on_damage == OnDamage::Stop {
                    return Err(Error::Damaged(damage));
                }
                scan.damages.push(damage);
                return Ok(false);
            }
        }
    }
}
