//! Finds the index of a sealed segment again whose footer or top is lost.
//!
//! Pages verify on their own, and begin where the frames end, which the manifest states. The top
//! directly follows them. If it is lost, it is rebuilt from the keys of neighbouring pages, as its
//! writer did.

use std::sync::Arc;

use super::Run;
use crate::extent::ByteRange;
use crate::pack::damages::DamageLog;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::UNIT;
use crate::pack::format::footer::{FOOTER_LEN, Tally};
use crate::pack::format::index::{EncodedIndex, PAGE_UNITS_MAX, Top, TopBuilder, units_of_top};
use crate::pack::format::page::Page;
use crate::pack::format::segment::Salt;
use crate::pack::read::reader::Reader;
use crate::source::Source;

/// Read at once.
const STEP_LEN: u64 = 1 << 20;

/// The most units that are not pages: with more of them, walking the frames is faster.
const LOST_UNITS_MAX: u32 = 64;

/// The known facts about a segment whose index is being rebuilt.
pub(crate) struct LostIndex<'a> {
    pub(crate) source: &'a Arc<dyn Source>,
    pub(crate) frames: ByteRange,
    /// Its records, as the manifest says.
    pub(crate) tally: Tally,
    pub(crate) salt: Salt,
    pub(crate) log: &'a DamageLog,
}

/// The run of a sealed segment; `None` when too little of its index is left.
pub(crate) fn rebuild(sealed: &LostIndex<'_>, reader: &Reader) -> Result<Option<Run>> {
    let start = sealed.frames.end().next_multiple_of(UNIT as u64);
    let end = sealed.source.len().saturating_sub(FOOTER_LEN as u64);
    if sealed.tally.records == 0 {
        let index = EncodedIndex::empty(sealed.salt.crc);
        return Ok(Run::in_memory(index, sealed.frames, sealed.tally, sealed.salt.crc).ok());
    }
    let Some(range) = ByteRange::new(start, end).filter(|range| range.len() >= UNIT as u64) else {
        return Ok(None);
    };
    if let Some((index, top)) = find_top(sealed, range, reader)? {
        return Ok(Some(run_of(sealed, index, top)));
    }
    Pages::default().find(sealed, range, reader)
}

fn run_of(sealed: &LostIndex<'_>, index: ByteRange, top: Top) -> Run {
    let home = (sealed.source.clone(), index, top);
    Run::on_disk(home, sealed.frames, sealed.tally, sealed.salt, Some(sealed.log.clone()))
}

/// Looks for the top where pages could end, the last place first.
fn find_top(sealed: &LostIndex<'_>, range: ByteRange, reader: &Reader) -> Result<Option<(ByteRange, Top)>> {
    let source = sealed.source.as_ref();
    let mut to = range.end();
    while to > range.start() {
        let from = to.saturating_sub(STEP_LEN).max(range.start()) / UNIT as u64 * UNIT as u64;
        let (bytes, _) = reader.read_around(source, ByteRange::new(from, to).unwrap_or_default())?;
        let heads = bytes.chunks(UNIT).enumerate().rev();
        for (number, head) in heads {
            let at = from + (number * UNIT) as u64;
            let index = ByteRange::new(range.start(), at).unwrap_or_default();
            let Some(len) = units_of_top(head, index.len()).filter(|len| *len <= range.end() - at) else {
                continue;
            };
            let read = reader.read(source, ByteRange::at(at, len).unwrap_or_default());
            match read {
                Ok(bytes) => {
                    if let Ok(top) = Top::decode(&bytes, sealed.salt.crc, index.len()) {
                        return Ok(Some((index, top)));
                    }
                }
                Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        to = from;
    }
    Ok(None)
}

/// Pages that were found.
#[derive(Default)]
struct Pages {
    top: TopBuilder,
    /// Numbers of those that are lost.
    lost: Vec<(usize, Option<Damage>)>,
    lost_units: u32,
    entries: u64,
    /// Where the gap begins that is being gone through.
    gap: Option<u32>,
    /// Where the last whole page ends.
    whole_end: u32,
}

impl Pages {
    /// Goes through all units.
    fn find(mut self, sealed: &LostIndex<'_>, range: ByteRange, reader: &Reader) -> Result<Option<Run>> {
        let source = sealed.source.as_ref();
        let units = u32::try_from(range.len() / UNIT as u64).unwrap_or(u32::MAX);
        let mut unit = 0;
        let (mut bytes, mut held) = (bytes::Bytes::new(), ByteRange::default());
        while unit < units {
            let at = range.start() + u64::from(unit) * UNIT as u64;
            let wanted = (at + u64::from(PAGE_UNITS_MAX) * UNIT as u64).min(range.end());
            if at < held.start() || wanted > held.end() {
                held = ByteRange::new(at, (at + STEP_LEN).min(range.end())).unwrap_or_default();
                (bytes, _) = reader.read_around(source, held)?;
            }
            let rest = bytes.get((at - held.start()) as usize..).unwrap_or_default();
            match whole_page(rest, sealed.salt.crc, unit) {
                Some((page, len)) => {
                    self.take(&page, unit, sealed, range);
                    unit += len;
                    self.whole_end = unit;
                }
                None => {
                    self.gap.get_or_insert(unit);
                    unit += 1;
                }
            }
            if self.lost_units > LOST_UNITS_MAX {
                return Ok(None);
            }
        }
        self.finish(sealed, range, units)
    }

    fn take(&mut self, page: &Page<'_>, unit: u32, sealed: &LostIndex<'_>, range: ByteRange) {
        let first = page.entries().form().to_vec();
        if let Some(gap) = self.gap.take() {
            let offset = range.start() + u64::from(gap) * UNIT as u64;
            let what = format!("{} bytes of the index are no page", u64::from(unit - gap) * UNIT as u64);
            let damage =
                Damage { file: sealed.source.path().to_path_buf(), offset, key: None, what, cause: None };
            self.lost.push((self.top.pages(), Some(damage)));
            self.lost_units += unit - gap;
            self.top.add_lost(gap);
            self.top.add_after_lost(&first, unit);
        } else {
            self.top.add(&first, unit);
        }
        let mut entries = page.entries();
        let mut last = Vec::new();
        while entries.place().is_some() {
            last.clear();
            last.extend_from_slice(entries.form());
            self.entries += 1;
            entries.advance();
        }
        self.top.set_last(&last);
    }

    fn finish(mut self, sealed: &LostIndex<'_>, range: ByteRange, units: u32) -> Result<Option<Run>> {
        if self.top.pages() == 0 {
            return Ok(None);
        }
        let mut end = self.whole_end;
        if self.entries < sealed.tally.records {
            // Whether there were more pages is not known; a look-up of a later key walks the
            // frames.
            self.lost.push((self.top.pages(), None));
            self.top.add_lost(end);
            end = units.max(end + 1);
        }
        let index_len = u64::from(end) * UNIT as u64;
        let index = ByteRange::at(range.start(), index_len).unwrap_or_default();
        let run = run_of(sealed, index, self.top.finish(end));
        for (number, damage) in self.lost {
            run.lose(number, damage.as_ref());
        }
        Ok(Some(run))
    }
}

/// The page at the beginning of these bytes, and its units.
fn whole_page(bytes: &[u8], salt_crc: u32, unit: u32) -> Option<(Page<'_>, u32)> {
    let page = |units: u32| {
        let bytes = bytes.get(..units as usize * UNIT)?;
        Some((Page::verify(bytes, salt_crc, unit).ok()?, units))
    };
    // Only a page of one entry has more than one unit.
    let is_single = bytes.get(4..6) == Some(&[1, 0]);
    page(1).or_else(|| (2..=PAGE_UNITS_MAX).filter(|_| is_single).find_map(page))
}
