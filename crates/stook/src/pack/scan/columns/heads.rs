//! Records without their values: by the index, in the order of keys, and their heads where more
//! than keys is asked for. No body is read but those of hard links, which are keys.

use super::draft::TableDraft;
use crate::pack::damages::Damages;
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::Attributes;
use crate::pack::read::record::RecordHead;
use crate::pack::scan::entries::{AfterKey, Entries};
use crate::pack::scan::filter::FilterWalk;
use crate::pack::scan::split::Split;
use crate::pack::scan::{OnDamage, ScanOptions, Stop};
use crate::pack::state::open::{KeyEntry, Pack, is_in_groups};
use crate::pack::state::segment::Segment;

/// Records whose heads are read at once.
const HEADS_AT_ONCE: usize = 4096;
/// So many entries of the index are gone through between two questions whether to stop.
const ASKED_AFTER: usize = 4096;

/// A walk through the index.
#[derive(Debug)]
pub(super) struct HeadWalk {
    options: ScanOptions,
    split: Option<Split>,
    /// Whether more is needed than what the index has.
    needs_heads: bool,
    after: Option<AfterKey>,
    pub(super) damages: Damages,
}

/// What a look into the index found.
struct Looked {
    entries: Vec<KeyEntry>,
    ended: bool,
    error: Option<Error>,
}

impl HeadWalk {
    pub(super) fn new(options: ScanOptions, split: Option<Split>, needs_heads: bool) -> Self {
        Self { options, split, needs_heads, after: None, damages: Damages::default() }
    }

    pub(super) fn stop(&self) -> Stop {
        self.options.stop
    }

    /// Takes records until the batch is full; whether there may be more.
    pub(super) fn fill(
        &mut self,
        pack: &Pack,
        filter: &mut FilterWalk,
        draft: &mut TableDraft,
    ) -> Result<bool> {
        while !draft.is_full() {
            let Looked { entries, ended, error } = self.look(pack)?;
            self.take(pack, filter, entries, draft)?;
            if let Some(error) = error {
                return Err(error);
            }
            if ended {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next entries of the index.
    fn look(&mut self, pack: &Pack) -> Result<Looked> {
        let ScanOptions { groups, on_damage, keys, stop, .. } = &self.options;
        let view = match &self.split {
            Some(split) => pack.view_of(split)?,
            None => pack.view(),
        };
        let wanted = |segment: &Segment| is_in_groups(groups, pack.group_of(segment));
        let skips = *on_damage == OnDamage::Skip;
        let mut walk = Entries::seek(pack, wanted, keys.clone(), view, self.after.take(), skips)?;
        let mut looked = Looked { entries: Vec::new(), ended: false, error: None };
        let mut passed = 0_usize;
        while looked.entries.len() < HEADS_AT_ONCE {
            passed += 1;
            if passed.is_multiple_of(ASKED_AFTER) {
                stop.check()?;
            }
            match walk.next() {
                Ok(Some((key, found))) => {
                    let (segment, offset) = (found.segment, found.place.offset);
                    self.after = Some(AfterKey { form: key.sort_form().to_vec(), segment, offset });
                    if self.is_in_split(pack, segment, offset) {
                        looked.entries.push(KeyEntry { key, stored_bytes: found.place.len, found });
                    }
                }
                Ok(None) => {
                    looked.ended = true;
                    break;
                }
                Err(error) => {
                    looked.error = Some(error);
                    break;
                }
            }
        }
        self.damages.extend(walk.take_skipped());
        Ok(looked)
    }

    fn is_in_split(&self, pack: &Pack, segment: usize, offset: u64) -> bool {
        let Some(split) = &self.split else { return true };
        let segment = pack.snapshot.segments.get(segment);
        segment.is_some_and(|segment| split.ranges_in(segment).iter().any(|range| range.contains(offset)))
    }

    /// Takes of these records those that are meant.
    fn take(
        &mut self,
        pack: &Pack,
        filter: &mut FilterWalk,
        entries: Vec<KeyEntry>,
        draft: &mut TableDraft,
    ) -> Result<()> {
        if !self.needs_heads {
            entries.into_iter().for_each(|entry| draft.push(head_of_index(pack, entry), 0, false));
            return Ok(());
        }
        self.options.stop.check()?;
        let heads = pack.file_heads(&entries)?;
        for (entry, head) in entries.into_iter().zip(heads) {
            match head {
                Ok(head) if filter.takes_attributes(&head.attributes) => draft.push(head, 0, false),
                Ok(_) => {}
                Err(error) if self.options.on_damage == OnDamage::Stop => return Err(error),
                Err(Error::Damaged(damage)) => self.damages.push(damage),
                Err(error @ (Error::Invalid(_) | Error::Limit { .. })) => {
                    let segment = segment_id(pack, &entry);
                    let offset = entry.found.place.offset;
                    self.damages.push(pack.lost_link(segment, offset, entry.key, &error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn segment_id(pack: &Pack, entry: &KeyEntry) -> u64 {
    pack.snapshot.segments.get(entry.found.segment).map_or(0, |segment| segment.entry.id)
}

/// What the index knows of a record.
fn head_of_index(pack: &Pack, entry: KeyEntry) -> RecordHead {
    RecordHead {
        segment: segment_id(pack, &entry),
        offset: entry.found.place.offset,
        key: entry.key,
        attributes: Attributes::new(),
        body_len: None,
        sequence: 0,
        time_ns: 0,
    }
}
