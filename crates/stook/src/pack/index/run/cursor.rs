//! Walks over runs in the order of keys.
//!
//! A walk keeps the page it is at and no other: of however many records there are, it takes the
//! memory of one page for each run.

use bytes::Bytes;

use super::Run;
use crate::pack::error::Result;
use crate::pack::format::index::{EncodedIndex, IndexBuilder, Place};
use crate::pack::format::page::{Page, PageCursor, PageState};
use crate::pack::read::reader::Reader;

/// Goes through a run in order of keys.
#[derive(Debug)]
pub(crate) struct RunCursor<'a> {
    run: &'a Run,
    reader: &'a Reader,
    page: usize,
    /// Of a page that was lost, which of those in its place.
    part: usize,
    bytes: Bytes,
    at: PageState,
    place: Place,
}

impl<'a> RunCursor<'a> {
    /// Returns a cursor at the first entry that is not before `from`; `None` if there is none.
    pub(crate) fn seek(run: &'a Run, reader: &'a Reader, from: &[u8]) -> Result<Option<Self>> {
        let place = Place::new(0, 0);
        let (page, bytes) = (run.page_of(from), Bytes::new());
        let mut cursor = Self { run, reader, page, part: 0, bytes, at: PageState::default(), place };
        if !cursor.enter(|page, _| page.seek(from))? {
            return Ok(None);
        }
        cursor.settle(from)
    }

    /// The next entry; `None` after the last.
    pub(crate) fn next(mut self) -> Result<Option<Self>> {
        if let Ok(page) = Page::parse(&self.bytes) {
            let mut entries = page.resume(std::mem::take(&mut self.at));
            entries.advance();
            self.at = entries.into_state();
        }
        self.settle(&[])
    }

    /// Sort form of the current entry.
    pub(crate) fn form(&self) -> &[u8] {
        self.at.form()
    }

    /// Place of the current entry.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Enters the current page, or the first one after it that has entries; `false` if there is
    /// none.
    fn enter(&mut self, first: impl Fn(Page<'_>, Vec<u8>) -> PageCursor<'_>) -> Result<bool> {
        while self.page < self.run.pages() {
            match self.run.part(self.page, self.part, self.reader)? {
                None => (self.page, self.part) = (self.page + 1, 0),
                Some(bytes) => {
                    let form = std::mem::take(&mut self.at).into_buffer();
                    self.at = first(self.run.parsed(self.page, &bytes)?, form).into_state();
                    self.bytes = bytes;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Advances to the next page until there is an entry that is not before `from`.
    fn settle(mut self, from: &[u8]) -> Result<Option<Self>> {
        loop {
            let place = Page::parse(&self.bytes).ok().and_then(|page| page.place(self.at.number()));
            if let Some(place) = place {
                self.place = place;
                return Ok(Some(self));
            }
            self.part += 1;
            if !self
                .enter(|page, form| if from.is_empty() { page.entries_in(form) } else { page.seek(from) })?
            {
                return Ok(None);
            }
        }
    }
}

/// Goes through several runs as one: by key, versions of one key newest (highest offset) first.
#[derive(Debug)]
pub(crate) struct MergeCursor<'a> {
    /// Ordered so that the next entry is last.
    cursors: Vec<(usize, RunCursor<'a>)>,
}

impl<'a> MergeCursor<'a> {
    /// Over these runs, from the first key not before `from`.
    pub(crate) fn seek(runs: impl Iterator<Item = &'a Run>, reader: &'a Reader, from: &[u8]) -> Result<Self> {
        let mut cursors = Vec::new();
        for (number, run) in runs.enumerate() {
            cursors.extend(RunCursor::seek(run, reader, from)?.map(|cursor| (number, cursor)));
        }
        cursors.sort_by(|a, b| Self::order(b, a));
        Ok(Self { cursors })
    }

    /// Number of the run, and its cursor, of the entry that is next.
    pub(crate) fn peek(&self) -> Option<(usize, &RunCursor<'a>)> {
        self.cursors.last().map(|(number, cursor)| (*number, cursor))
    }

    /// Steps over the entry that was next.
    pub(crate) fn advance(&mut self) -> Result<()> {
        let Some((number, cursor)) = self.cursors.pop() else { return Ok(()) };
        if let Some(cursor) = cursor.next()? {
            let moved = (number, cursor);
            let at = self.cursors.partition_point(|other| Self::order(other, &moved).is_gt());
            self.cursors.insert(at, moved);
        }
        Ok(())
    }

    fn order(a: &(usize, RunCursor<'a>), b: &(usize, RunCursor<'a>)) -> std::cmp::Ordering {
        a.1.form().cmp(b.1.form()).then(b.1.place.offset.cmp(&a.1.place.offset)).then(b.0.cmp(&a.0))
    }
}

/// One index out of several runs of a segment.
pub(crate) fn merge<'a>(
    runs: impl Iterator<Item = &'a Run>,
    reader: &'a Reader,
    salt_crc: u32,
) -> Result<Option<EncodedIndex>> {
    let mut builder = IndexBuilder::new(salt_crc);
    let mut cursor = MergeCursor::seek(runs, reader, &[])?;
    while let Some((_, entry)) = cursor.peek() {
        builder.push(entry.form(), entry.place());
        cursor.advance()?;
    }
    Ok(builder.finish())
}
