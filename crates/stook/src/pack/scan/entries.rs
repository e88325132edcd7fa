//! Walks the indexes of many segments as one, in the order of keys.

use super::range::KeyRange;
use super::view::View;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::index::run::MergeCursor;
use crate::pack::key::Key;
use crate::pack::state::open::Pack;
use crate::pack::state::segment::{Life, Segment};
use crate::pack::state::snapshot::Found;

/// Where a walk stopped, to continue after it.
#[derive(Debug, Clone)]
pub(super) struct AfterKey {
    pub(super) form: Vec<u8>,
    /// Number of the segment in the snapshot, and offset of the frame.
    pub(super) segment: usize,
    pub(super) offset: u64,
}

/// Live entries in the order of keys.
#[derive(Debug)]
pub(in crate::pack) struct Entries<'p> {
    pack: &'p Pack,
    cursor: MergeCursor<'p>,
    /// For each run of the cursor, the number of its segment.
    segment_of_run: Vec<usize>,
    range: KeyRange,
    view: View,
    after: Option<AfterKey>,
    /// Records that are refused and were stepped over, where that is wanted.
    skipped: Option<Vec<Damage>>,
}

impl<'p> Entries<'p> {
    /// All live entries of a pack in a range.
    pub(in crate::pack) fn of(pack: &'p Pack, range: KeyRange) -> Result<Self> {
        Self::seek(pack, |_| true, range, pack.view(), None, false)
    }

    /// Those of one segment.
    pub(in crate::pack) fn of_segment(pack: &'p Pack, number: usize, range: KeyRange) -> Result<Self> {
        let segment = pack.snapshot.segments.get(number);
        let is_it = |one: &Segment| segment.is_some_and(|segment| std::ptr::eq(one, segment));
        Self::seek(pack, is_it, range, pack.view(), None, false)
    }

    /// Those of some segments, after the one at which another walk stopped. Records that are
    /// refused are errors, unless they are to be skipped.
    pub(super) fn seek(
        pack: &'p Pack,
        wanted: impl Fn(&Segment) -> bool,
        range: KeyRange,
        view: View,
        after: Option<AfterKey>,
        skips: bool,
    ) -> Result<Self> {
        let mut segment_of_run = Vec::new();
        let mut runs = Vec::new();
        for (number, segment) in pack.snapshot.segments.iter().enumerate() {
            if wanted(segment) {
                segment_of_run.extend(segment.runs.iter().map(|_| number));
                runs.extend(&segment.runs);
            }
        }
        let start = after.as_ref().map_or(range.start(), |after| after.form.as_slice()).max(range.start());
        let cursor = MergeCursor::seek(runs.into_iter(), &pack.reader, start)?;
        let skipped = skips.then(Vec::new);
        Ok(Self { pack, cursor, segment_of_run, range, view, after, skipped })
    }

    /// The next one. An error of one record, which has a key, does not end it.
    pub(in crate::pack) fn next(&mut self) -> Result<Option<(Key, Found)>> {
        while let Some((run, entry)) = self.cursor.peek() {
            let form = entry.form();
            if self.range.is_past(form) {
                break;
            }
            let place = entry.place();
            let segment = self.segment_of_run.get(run).copied();
            let Some((number, segment)) =
                segment.and_then(|number| Some((number, self.pack.snapshot.segments.get(number)?)))
            else {
                break;
            };
            let is_new = is_after(&mut self.after, form, number, place.offset);
            let life = if is_new { self.view.life(segment, place.offset) } else { Life::Dead };
            let refusal = match life {
                Life::Unknown => {
                    let pack = self.pack;
                    pack.snapshot.refusal(form, segment, place.offset, &pack.reader)?
                }
                Life::Alive | Life::Dead => None,
            };
            let key = if life == Life::Alive { Key::from_sort_form(form) } else { None };
            self.cursor.advance()?;
            if let Some(damage) = refusal {
                match &mut self.skipped {
                    Some(skipped) => skipped.push(damage),
                    None => return Err(Error::Damaged(damage)),
                }
            }
            if let Some(key) = key {
                return Ok(Some((key, Found { segment: number, place })));
            }
        }
        Ok(None)
    }

    /// Damage that was stepped over since this was asked last.
    pub(super) fn take_skipped(&mut self) -> Vec<Damage> {
        self.skipped.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// Whether an entry comes after the one at which a walk stopped.
fn is_after(after: &mut Option<AfterKey>, form: &[u8], segment: usize, offset: u64) -> bool {
    let Some(last) = after else { return true };
    if form != last.form {
        *after = None;
        return true;
    }
    if (segment, offset) == (last.segment, last.offset) {
        *after = None;
    }
    false
}
