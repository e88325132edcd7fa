//! Rebuilds pages of an index from the frames that they index.
//!
//! A page names the records whose keys lie between those of its neighbours. If it is lost, the
//! frames of the segment are walked once and those records are collected: about as many as fit into
//! a page. The contents of a lost page are known from nowhere else; so a frame whose head is lost
//! as well leaves a doubt: a key that is not found may be that of this frame.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

use super::{IndexFile, LoadedPage, Run};
use crate::extent::ByteRange;
use crate::pack::damages::DamageLog;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::footer::Tally;
use crate::pack::format::frame::{FrameHeader, FrameKind};
use crate::pack::format::index::{EntryContent, IndexBuilder, Place};
use crate::pack::format::page::Page;
use crate::pack::format::segment::Salt;
use crate::pack::read::frames::{Broken, Checked, Frames};
use crate::pack::read::reader::Reader;
use crate::pack::read::route::Route;
use crate::pack::read::walker::FrameVisitor;
use crate::source::AccessRule;

/// Adjacent lost pages are rebuilt in one walk, at most this many at once: their entries are in
/// memory meanwhile.
const MENDED_AT_ONCE: usize = 256;

/// What is needed to rebuild pages.
#[derive(Debug)]
pub(super) struct Mending {
    pub(super) salt: Salt,
    pub(super) log: DamageLog,
    /// Lost pages. A page that was found lost stays so, whatever the medium returns the next time.
    pub(super) lost: Mutex<BTreeSet<usize>>,
    /// One walk at a time: others who want the same page wait for it.
    pub(super) at_work: Mutex<()>,
}

/// What takes the place of a page.
#[derive(Debug)]
pub(super) struct Mended {
    /// Its records; `None` if there are none.
    run: Option<Run>,
    doubt: Option<Damage>,
}

impl Mended {
    pub(super) fn memory_bytes(&self) -> usize {
        self.run.as_ref().map_or(0, Run::memory_bytes)
    }

    pub(super) fn doubt(&self) -> Option<&Damage> {
        self.doubt.as_ref()
    }

    /// One of the pages in its place.
    pub(super) fn page(&self, part: usize) -> Option<Bytes> {
        match self.run.as_ref()?.pages.get(part)?.get()? {
            LoadedPage::Page(bytes) => Some(bytes.clone()),
            LoadedPage::Mended(_) => None,
        }
    }

    pub(super) fn versions(&self, form: &[u8], reader: &Reader) -> Result<Vec<Place>> {
        self.run.as_ref().map_or(Ok(Vec::new()), |run| run.versions(form, reader))
    }
}

/// Sort form and offset of an entry.
type EntryBound = (Box<[u8]>, u64);

/// Between which entries those of lost pages lie.
struct LostBounds<'r> {
    after: Option<EntryBound>,
    from: &'r [u8],
    before: Option<EntryBound>,
    until: Option<&'r [u8]>,
}

impl LostBounds<'_> {
    /// Whether an entry is one of them. Versions of one key are ordered newest first.
    fn hold(&self, form: &[u8], offset: u64) -> bool {
        let entry = (form, Reverse(offset));
        let is_after = match &self.after {
            Some((form, offset)) => entry > (form, Reverse(*offset)),
            None => form >= self.from,
        };
        let is_ahead = match (&self.before, self.until) {
            (Some((form, offset)), _) => entry < (form, Reverse(*offset)),
            (None, Some(until)) => form < until,
            (None, None) => true,
        };
        is_after && is_ahead
    }
}

/// The records found for lost pages.
#[derive(Default)]
struct MendedRecords {
    entries: Vec<(Box<[u8]>, Place)>,
    doubt: Option<Damage>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    /// Whether a page is lost, and can be rebuilt.
    pub(super) fn is_lost(&self, number: usize) -> bool {
        let mending = self.home.as_ref().and_then(|home| home.mending.as_ref());
        mending.is_some_and(|mending| lock(&mending.lost).contains(&number))
    }

    /// Notes that a page is lost, if it can be rebuilt.
    pub(super) fn lose(&self, number: usize, damage: Option<&Damage>) {
        let Some(mending) = self.home.as_ref().and_then(|home| home.mending.as_ref()) else { return };
        lock(&mending.lost).insert(number);
        mending.log.note(damage.cloned());
    }

    /// Rebuilds a lost page, and the lost pages that follow it.
    pub(super) fn mend(&self, number: usize, reader: &Reader) -> Result<()> {
        let Some((home, mending)) = self.home.as_ref().and_then(|home| Some((home, home.mending.as_ref()?)))
        else {
            return Ok(());
        };
        let _alone = lock(&mending.at_work);
        if self.pages.get(number).is_none_or(|slot| slot.get().is_some()) {
            return Ok(());
        }
        let mut end = number + 1;
        while end < self.pages.len() && end - number < MENDED_AT_ONCE && !self.is_whole(end, reader)? {
            end += 1;
        }
        let bounds = self.bounds(number, end, reader)?;
        let found = walk(home, mending, self.frames, reader, &bounds)?;
        self.put_in_place(number, end, found)
    }

    /// Whether a page verifies; it is kept then.
    fn is_whole(&self, number: usize, reader: &Reader) -> Result<bool> {
        if let Some((source, range)) = self.missing(number) {
            match self.supply(number, reader.read(source, range)) {
                Ok(()) | Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(matches!(self.pages.get(number).and_then(OnceLock::get), Some(LoadedPage::Page(_))))
    }

    /// The key range of the pages from `first` to before `end`, by their neighbours.
    fn bounds(&self, first: usize, end: usize, reader: &Reader) -> Result<LostBounds<'_>> {
        let neighbour = |number: usize| -> Result<Option<Page<'_>>> {
            if !self.is_whole(number, reader)? {
                return Ok(None);
            }
            match self.pages.get(number).and_then(OnceLock::get) {
                Some(LoadedPage::Page(bytes)) => self.parsed(number, bytes).map(Some),
                _ => Ok(None),
            }
        };
        let mut bounds =
            LostBounds { after: None, from: self.top.separator(first), before: None, until: None };
        if let Some(before) = first.checked_sub(1) {
            bounds.after = neighbour(before)?.and_then(|page| {
                let mut last = None;
                let mut entries = page.entries();
                while let Some(place) = entries.place() {
                    last = Some((entries.form().into(), place.offset));
                    entries.advance();
                }
                last
            });
        }
        if end < self.pages.len() {
            bounds.until = Some(self.top.separator(end));
            bounds.before = neighbour(end)?.and_then(|page| {
                let entries = page.entries();
                Some((entries.form().into(), entries.place()?.offset))
            });
        }
        Ok(bounds)
    }

    /// Keeps the found records in place of the pages from `first` to before `end`.
    fn put_in_place(&self, first: usize, end: usize, found: MendedRecords) -> Result<()> {
        let MendedRecords { mut entries, doubt } = found;
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.offset.cmp(&a.1.offset)));
        let mut entries = entries.into_iter().peekable();
        for number in first..end {
            let mut builder = IndexBuilder::new(self.salt_crc);
            // Versions of one key stay together: a page that is lost is gone on from to the next.
            while let Some((form, place)) =
                entries.next_if(|(form, _)| number + 1 == end || self.top.find(form) <= number)
            {
                builder.push(&form, place);
            }
            let run = builder.finish().map(|index| {
                Self::in_memory(index, self.frames, Tally::default(), self.salt_crc).map_err(|invalid| {
                    Error::Invalid(format!("an index that was just made: {}", invalid.what))
                })
            });
            let mended = Mended { run: run.transpose()?, doubt: doubt.clone() };
            self.keep(number, LoadedPage::Mended(Box::new(mended)));
        }
        Ok(())
    }
}

/// Collects the records between these bounds.
fn walk(
    home: &IndexFile,
    mending: &Mending,
    range: ByteRange,
    reader: &Reader,
    bounds: &LostBounds<'_>,
) -> Result<MendedRecords> {
    let route = Route::new(AccessRule::default(), home.source.as_ref(), range);
    let mut frames = reader.frames(&home.source, mending.salt, range, route)?;
    let mut collecting =
        Collecting { found: MendedRecords::default(), bounds, path: home.source.path(), header: None };
    frames.visit(&mut collecting)?;
    reader.take_back(frames)?;
    Ok(collecting.found)
}

/// Collects what lost pages must have held.
struct Collecting<'a> {
    found: MendedRecords,
    bounds: &'a LostBounds<'a>,
    /// The file, for messages.
    path: &'a Path,
    /// Of the broken frame, if that is whole.
    header: Option<FrameHeader>,
}

impl FrameVisitor for Collecting<'_> {
    /// Takes the current record, if it is one of them, and steps over it.
    fn take(&mut self, frames: &mut Frames) -> Checked<()> {
        let head = frames.head();
        let offset = head.offset;
        let key = head.key().filter(|_| head.header.kind == FrameKind::Record);
        let Some(key) = key.filter(|key| self.bounds.hold(key.sort_form(), offset)) else {
            return frames.step_over();
        };
        let content = EntryContent::of(&head.attributes);
        // Only the end of a framed body shows whether it was abandoned. Whether a body is intact is
        // checked when it is read.
        let counts = frames.skip_frame()? || frames.finish_frame()?.is_some();
        if counts {
            let place = Place::new(offset, frames.window.pos() - offset).with(content);
            self.found.entries.push((key.sort_form().into(), place));
        }
        Ok(())
    }

    fn meet(&mut self, frames: &Frames, broken: &Broken) -> Result<()> {
        self.header = broken.key.is_some().then(|| frames.head().header);
        Ok(())
    }

    /// A frame whose key is known is listed too: a get of it reports the damage.
    fn pass(&mut self, broken: Broken, end: u64) -> Result<()> {
        let at = broken.frame;
        match (&broken.key, self.header) {
            (Some(key), Some(header)) => {
                if header.kind == FrameKind::Record && self.bounds.hold(key.sort_form(), at) {
                    let place = Place::new(at, (end - at) / 8 * 8);
                    self.found.entries.push((key.sort_form().into(), place));
                }
            }
            _ => {
                let doubt = self.found.doubt.take();
                self.found.doubt = doubt.or_else(|| Some(broken.into_damage(self.path)));
            }
        }
        Ok(())
    }
}
