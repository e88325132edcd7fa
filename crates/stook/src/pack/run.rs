//! A run: the index of one stretch of a segment, in memory or on disk.
//!
//! Pages of a run on disk are read when they are first touched and kept; each is verified once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use super::error::{Damage, Error, Result};
use super::format::finder::{Finder, TopFinder};
use super::format::footer::Tally;
use super::format::index::{EncodedIndex, IndexBuilder, Place, Top};
use super::format::page::{Page, PageCursor};
use super::format::{Invalid, UNIT};
use super::reader::{DEPTH, Reader};
use crate::engine::{Access, prefetch};
use crate::extent::ByteRange;
use crate::source::Source;

/// The index of a stretch of frames.
#[derive(Debug)]
pub(crate) struct Run {
    /// The frames it covers.
    pub(crate) frames: ByteRange,
    /// Its records.
    pub(crate) tally: Tally,
    salt_crc: u32,
    top: Top,
    pages: Vec<OnceLock<Bytes>>,
    /// How many of the pages are here.
    held: AtomicUsize,
    home: Option<Home>,
    /// Made when the first key is looked for in this way.
    finders: OnceLock<Finders>,
}

/// What makes searches quick, as far as it was asked for.
#[derive(Debug)]
struct Finders {
    top: Option<TopFinder>,
    pages: Box<[OnceLock<Option<Finder>>]>,
}

/// What a quick search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newest {
    /// The newest version of the key.
    At(Place),
    /// There is none.
    Absent,
    /// Only a search that takes its time can tell.
    Unsure,
}

/// Where pages come from.
#[derive(Debug)]
struct Home {
    source: Arc<dyn Source>,
    index: ByteRange,
}

impl Run {
    /// A run whose pages are all in memory. `None` when there is nothing in it.
    pub(crate) fn in_memory(
        index: EncodedIndex,
        frames: ByteRange,
        tally: Tally,
        salt_crc: u32,
    ) -> Result<Self, Invalid> {
        let top = Top::decode(&index.top, salt_crc, index.pages.len() as u64)?;
        let all = Bytes::from(index.pages);
        let pages = (0..top.pages()).filter_map(|number| top.page(number)).map(|(first, len)| {
            let start = first as usize * UNIT;
            OnceLock::from(all.slice(start..start + len))
        });
        let pages: Vec<_> = pages.collect();
        let held = AtomicUsize::new(pages.len());
        Ok(Self { frames, tally, salt_crc, top, pages, held, home: None, finders: OnceLock::new() })
    }

    /// A run whose pages are in a file.
    pub(crate) fn on_disk(
        source: Arc<dyn Source>,
        index: ByteRange,
        top: Top,
        frames: ByteRange,
        tally: Tally,
        salt_crc: u32,
    ) -> Self {
        let pages = (0..top.pages()).map(|_| OnceLock::new()).collect();
        let held = AtomicUsize::new(0);
        let home = Some(Home { source, index });
        Self { frames, tally, salt_crc, top, pages, held, home, finders: OnceLock::new() }
    }

    /// Bytes of anonymous memory it takes now.
    pub(crate) fn memory_bytes(&self) -> usize {
        let pages: usize = self.pages.iter().map(|page| page.get().map_or(0, Bytes::len)).sum();
        let finders = self.finders.get().map_or(0, Finders::memory_bytes);
        pages + self.pages.len() * size_of::<OnceLock<Bytes>>() + self.top.memory_bytes() + finders
    }

    /// How many pages it has.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The page in which the newest version of a key would be.
    pub(crate) fn page_of(&self, form: &[u8]) -> usize {
        self.top.find(form)
    }

    /// Whether no page has to be read any more.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) == self.pages.len()
    }

    /// Where a page is to be read from, unless it is here already.
    pub(crate) fn missing(&self, number: usize) -> Option<(&dyn Source, ByteRange)> {
        if self.pages.get(number)?.get().is_some() {
            return None;
        }
        let home = self.home.as_ref()?;
        let (first, len) = self.top.page(number)?;
        let start = home.index.start().checked_add(u64::from(first) * UNIT as u64)?;
        Some((home.source.as_ref(), ByteRange::at(start, len as u64)?))
    }

    /// Verifies bytes that were read for a page and keeps them.
    pub(crate) fn supply(&self, number: usize, bytes: Bytes) -> Result<()> {
        let (Some(slot), Some((first, _))) = (self.pages.get(number), self.top.page(number)) else {
            return Ok(());
        };
        if let Err(invalid) = Page::verify(&bytes, self.salt_crc, first) {
            return Err(self.damaged(first, invalid));
        }
        // Another thread may have supplied the same bytes meanwhile.
        if slot.set(bytes).is_ok() {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A page, read if it must be.
    pub(crate) fn page(&self, number: usize, reader: &Reader) -> Result<Page<'_>> {
        if let Some((source, range)) = self.missing(number) {
            self.supply(number, reader.read(source, range)?)?;
        }
        let bytes = self.pages.get(number).and_then(OnceLock::get).map_or(&[][..], |bytes| bytes);
        let first = self.top.page(number).map_or(0, |(first, _)| first);
        Page::parse(bytes).map_err(|invalid| self.damaged(first, invalid))
    }

    /// Reads every page and keeps it, so that the file is not needed any more; `false` when one is not what was
    /// written.
    pub(crate) fn take_all(&self, reader: &Reader) -> Result<bool> {
        let mut number = 0;
        while number < self.pages.len() {
            let missing = |n| self.missing(n).map(|read| (n, read));
            let batch: Vec<_> = (number..self.pages.len()).take(DEPTH).filter_map(missing).collect();
            let reads = batch.iter().map(|&(_, (source, range))| (source, range, Access::Cached));
            for ((n, _), bytes) in batch.iter().zip(reader.read_many(reads)?) {
                match bytes.and_then(|bytes| self.supply(*n, bytes)) {
                    Err(Error::Damaged(_)) => return Ok(false),
                    other => other?,
                }
            }
            number += DEPTH;
        }
        Ok(true)
    }

    /// The places of all versions of a key, newest first.
    pub(crate) fn versions(&self, form: &[u8], reader: &Reader) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        let mut number = self.page_of(form);
        while number < self.pages.len() {
            let page = self.page(number, reader)?;
            let found = page.find(form);
            places.extend(found.clone().filter_map(|entry| page.place(entry)));
            number += 1;
            // Only a page that ends in this key can have more of it behind it, and the top tells whether it has.
            if found.end < page.len() || !self.top.continues(number, form) {
                break;
            }
        }
        Ok(places)
    }

    /// The page in which the newest version of a key would be, which is fetched.
    #[inline]
    pub(crate) fn approach_page(&self, form: &[u8]) -> usize {
        let finders = self.finders();
        let number = finders.top.as_ref().and_then(|top| top.find(form));
        let number = number.unwrap_or_else(|| self.page_of(form));
        finders.pages.get(number).map(prefetch);
        number
    }

    /// Has what [`newest_in`](Self::newest_in) will look at fetched, once the page is.
    #[inline]
    pub(crate) fn approach(&self, number: usize, form: &[u8]) {
        let page = self.finders().pages.get(number);
        if let Some(finder) = page.and_then(|page| page.get()?.as_ref()) {
            finder.approach(form);
        }
    }

    fn finders(&self) -> &Finders {
        self.finders.get_or_init(|| Finders::of(&self.top))
    }

    /// The newest version of a key, found by what is prepared for it. Preparing a page costs as much as some hundred searches
    /// in it, and memory, so this is for who asks for many keys.
    pub(crate) fn newest(&self, form: &[u8], reader: &Reader) -> Result<Newest> {
        self.newest_in(self.approach_page(form), form, reader)
    }

    /// The same in the page where it would be.
    #[inline]
    pub(crate) fn newest_in(&self, number: usize, form: &[u8], reader: &Reader) -> Result<Newest> {
        let Some(slot) = self.finders().pages.get(number) else { return Ok(Newest::Absent) };
        let finder = match slot.get() {
            Some(finder) => finder,
            None => {
                self.page(number, reader)?;
                let bytes = self.pages.get(number).and_then(OnceLock::get);
                slot.get_or_init(|| bytes.and_then(Finder::of))
            }
        };
        Ok(match finder {
            None => Newest::Unsure,
            Some(finder) => finder.find(form).map_or(Newest::Absent, Newest::At),
        })
    }

    fn damaged(&self, first_unit: u32, invalid: Invalid) -> Error {
        let (file, start) = match &self.home {
            Some(home) => (home.source.path().to_path_buf(), home.index.start()),
            None => ("(an index in memory)".into(), 0),
        };
        let offset = start + u64::from(first_unit) * UNIT as u64 + invalid.offset;
        Error::Damaged(Damage { file, offset, key: None, what: invalid.what })
    }
}

impl Finders {
    fn of(top: &Top) -> Self {
        let pages = (0..top.pages()).map(|_| OnceLock::new()).collect();
        Self { top: TopFinder::of(top), pages }
    }

    fn memory_bytes(&self) -> usize {
        let pages = self.pages.iter().filter_map(|page| page.get()?.as_ref()).map(Finder::memory_bytes);
        let top = self.top.as_ref().map_or(0, TopFinder::memory_bytes);
        pages.sum::<usize>() + size_of_val(&*self.pages) + top
    }
}

/// Goes through a run in order of keys.
#[derive(Debug)]
pub(crate) struct RunCursor<'a> {
    run: &'a Run,
    reader: &'a Reader,
    page: usize,
    entries: PageCursor<'a>,
    place: Place,
    skipped: Option<Skipped>,
}

/// Where damage of pages that are stepped over is noted.
pub(crate) type Skipped = Arc<Mutex<Vec<Damage>>>;

impl<'a> RunCursor<'a> {
    /// At the first entry that is not before `from`; `None` when there is none. Pages that are damaged end it, unless
    /// there is a place to note them.
    pub(crate) fn seek(
        run: &'a Run,
        reader: &'a Reader,
        from: &[u8],
        skipped: Option<&Skipped>,
    ) -> Result<Option<Self>> {
        let mut page = run.page_of(from);
        while page < run.pages() {
            if let Some(found) = whole_page(run, page, reader, skipped)? {
                let entries = found.seek(from);
                let place = Place { offset: 0, len: None };
                return Self { run, reader, page, entries, place, skipped: skipped.cloned() }.settle();
            }
            page += 1;
        }
        Ok(None)
    }

    /// The next entry; `None` after the last.
    pub(crate) fn next(mut self) -> Result<Option<Self>> {
        self.entries.advance();
        self.settle()
    }

    /// Sort form of the current entry.
    pub(crate) fn form(&self) -> &[u8] {
        self.entries.form()
    }

    /// Place of the current entry.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    fn settle(mut self) -> Result<Option<Self>> {
        loop {
            if let Some(place) = self.entries.place() {
                self.place = place;
                return Ok(Some(self));
            }
            self.page += 1;
            if self.page >= self.run.pages() {
                return Ok(None);
            }
            if let Some(page) = whole_page(self.run, self.page, self.reader, self.skipped.as_ref())? {
                self.entries = page.entries_in(self.entries.into_buffer());
            }
        }
    }
}

/// A page, or `None` when it is damaged and was noted.
fn whole_page<'a>(
    run: &'a Run,
    number: usize,
    reader: &Reader,
    skipped: Option<&Skipped>,
) -> Result<Option<Page<'a>>> {
    match (run.page(number, reader), skipped) {
        (Err(Error::Damaged(damage)), Some(skipped)) => {
            skipped.lock().unwrap_or_else(PoisonError::into_inner).push(damage);
            Ok(None)
        }
        (page, _) => page.map(Some),
    }
}

/// Goes through several runs as one: by key, versions of one key newest (highest offset) first.
#[derive(Debug)]
pub(crate) struct MergeCursor<'a> {
    /// Kept so that the entry that is next stands last.
    cursors: Vec<(usize, RunCursor<'a>)>,
}

impl<'a> MergeCursor<'a> {
    /// Over these runs, from the first key not before `from`.
    pub(crate) fn seek(runs: impl Iterator<Item = &'a Run>, reader: &'a Reader, from: &[u8]) -> Result<Self> {
        Self::seek_past_damage(runs, reader, from, None)
    }

    /// The same, stepping over damaged pages if there is a place to note them.
    pub(crate) fn seek_past_damage(
        runs: impl Iterator<Item = &'a Run>,
        reader: &'a Reader,
        from: &[u8],
        skipped: Option<&Skipped>,
    ) -> Result<Self> {
        let mut cursors = Vec::new();
        for (number, run) in runs.enumerate() {
            cursors.extend(RunCursor::seek(run, reader, from, skipped)?.map(|cursor| (number, cursor)));
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
