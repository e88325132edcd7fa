//! A run: the index of one span of a segment, in memory or on disk.
//!
//! Pages of a run on disk are read on the first look-up in them, and kept; walks over all of them
//! keep none. A page that is damaged or unreadable is rebuilt from the frames: see [`mend`].

mod cursor;
mod mend;
mod rebuild;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;

pub(crate) use cursor::{MergeCursor, RunCursor, merge};
use mend::{Mended, Mending};
pub(crate) use rebuild::{LostIndex, rebuild};

use crate::engine::{Access, prefetch};
use crate::extent::ByteRange;
use crate::pack::damages::DamageLog;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::finder::{Finder, TopFinder};
use crate::pack::format::footer::Tally;
use crate::pack::format::index::{EncodedIndex, Place, Top};
use crate::pack::format::page::Page;
use crate::pack::format::segment::Salt;
use crate::pack::format::{Invalid, UNIT};
use crate::pack::read::reader::Reader;
use crate::source::Source;

/// The index of a span of frames.
#[derive(Debug)]
pub(crate) struct Run {
    /// The frames it covers.
    pub(crate) frames: ByteRange,
    /// Its records.
    pub(crate) tally: Tally,
    salt_crc: u32,
    top: Top,
    pages: Vec<OnceLock<LoadedPage>>,
    /// How many of the pages are here.
    held: AtomicUsize,
    home: Option<IndexFile>,
    /// Made when the first key is looked for in this way.
    finders: OnceLock<Finders>,
}

/// A page in memory.
#[derive(Debug)]
enum LoadedPage {
    /// As it was written.
    Page(Bytes),
    /// What takes the place of one that is lost.
    Mended(Box<Mended>),
}

/// What makes searches fast, if it was requested.
#[derive(Debug)]
struct Finders {
    top: Option<TopFinder>,
    pages: Box<[OnceLock<Option<Finder>>]>,
}

/// The result of a quick search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newest {
    /// The newest version of the key.
    At(Place),
    /// There is no record.
    Absent,
    /// Only a full search can decide.
    Unsure,
}

/// Where pages come from.
#[derive(Debug)]
struct IndexFile {
    source: Arc<dyn Source>,
    index: ByteRange,
    /// The data to rebuild a page from the frames, if they are in the same file.
    mending: Option<Mending>,
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
            OnceLock::from(LoadedPage::Page(all.slice(start..start + len)))
        });
        let pages: Vec<_> = pages.collect();
        let held = AtomicUsize::new(pages.len());
        Ok(Self { frames, tally, salt_crc, top, pages, held, home: None, finders: OnceLock::new() })
    }

    /// A run whose pages are in a file; `log` when the frames are in the same one, so that pages
    /// can be made out of them.
    pub(crate) fn on_disk(
        (source, index, top): (Arc<dyn Source>, ByteRange, Top),
        frames: ByteRange,
        tally: Tally,
        salt: Salt,
        log: Option<DamageLog>,
    ) -> Self {
        let pages = (0..top.pages()).map(|_| OnceLock::new()).collect();
        let held = AtomicUsize::new(0);
        let mending = log.map(|log| Mending { salt, log, lost: Mutex::default(), at_work: Mutex::default() });
        let home = Some(IndexFile { source, index, mending });
        Self { frames, tally, salt_crc: salt.crc, top, pages, held, home, finders: OnceLock::new() }
    }

    /// Bytes of anonymous memory it takes now.
    pub(crate) fn memory_bytes(&self) -> usize {
        let held = |held: &LoadedPage| match held {
            LoadedPage::Page(bytes) => bytes.len(),
            LoadedPage::Mended(mended) => mended.memory_bytes(),
        };
        let pages: usize = self.pages.iter().map(|page| page.get().map_or(0, held)).sum();
        let finders = self.finders.get().map_or(0, Finders::memory_bytes);
        pages + self.pages.len() * size_of::<OnceLock<LoadedPage>>() + self.top.memory_bytes() + finders
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

    /// Where a page is to be read from, unless it is here already or known to be lost.
    pub(crate) fn missing(&self, number: usize) -> Option<(&dyn Source, ByteRange)> {
        if self.pages.get(number)?.get().is_some() || self.is_lost(number) {
            return None;
        }
        let home = self.home.as_ref()?;
        Some((home.source.as_ref(), self.range_of(number)?))
    }

    /// Where a page is in its file.
    fn range_of(&self, number: usize) -> Option<ByteRange> {
        let home = self.home.as_ref()?;
        let (first, len) = self.top.page(number)?;
        let start = home.index.start().checked_add(u64::from(first) * UNIT as u64)?;
        ByteRange::at(start, len as u64)
    }

    /// The bytes read for a page, if they verify; otherwise it is lost, which is noted if it can be
    /// rebuilt.
    fn verified(&self, number: usize, read: Result<Bytes>) -> Result<Bytes> {
        let first = self.top.page(number).map_or(0, |(first, _)| first);
        let verified = read.and_then(|bytes| match Page::verify(&bytes, self.salt_crc, first) {
            Ok(_) => Ok(bytes),
            Err(invalid) => Err(self.damaged(first, invalid)),
        });
        if let Err(Error::Damaged(damage)) = &verified {
            self.lose(number, Some(damage));
        }
        verified
    }

    /// Takes the bytes read for a page and keeps them.
    pub(crate) fn supply(&self, number: usize, read: Result<Bytes>) -> Result<()> {
        let bytes = self.verified(number, read)?;
        self.keep(number, LoadedPage::Page(bytes));
        Ok(())
    }

    fn keep(&self, number: usize, held: LoadedPage) {
        // Another thread may have supplied the same meanwhile.
        if self.pages.get(number).is_some_and(|slot| slot.set(held).is_ok()) {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns a page, read or rebuilt if necessary, and keeps it.
    fn held(&self, number: usize, reader: &Reader) -> Result<&LoadedPage> {
        if let Some((source, range)) = self.missing(number) {
            match self.supply(number, reader.read(source, range)) {
                Err(Error::Damaged(_)) if self.is_lost(number) => {}
                supplied => supplied?,
            }
        }
        let slot = self.pages.get(number);
        if slot.is_some_and(|slot| slot.get().is_none()) {
            self.mend(number, reader)?;
        }
        slot.and_then(OnceLock::get).ok_or_else(|| self.damaged(0, Invalid::damaged(0, "a page is missing")))
    }

    /// A page, or one of those in place of a lost one. A page that is not in memory is not kept.
    fn part(&self, number: usize, part: usize, reader: &Reader) -> Result<Option<Bytes>> {
        if part == 0
            && let Some((source, range)) = self.missing(number)
        {
            match self.verified(number, reader.read(source, range)) {
                Err(Error::Damaged(_)) if self.is_lost(number) => {}
                verified => return verified.map(Some),
            }
        }
        Ok(match self.pages.get(number).and_then(OnceLock::get) {
            Some(LoadedPage::Page(bytes)) => (part == 0).then(|| bytes.clone()),
            Some(LoadedPage::Mended(mended)) => mended.page(part),
            // It is not known to be lost, and was given as part 0.
            None if part > 0 && !self.is_lost(number) => None,
            None => match self.held(number, reader)? {
                LoadedPage::Page(bytes) => (part == 0).then(|| bytes.clone()),
                LoadedPage::Mended(mended) => mended.page(part),
            },
        })
    }

    /// A page that was verified.
    fn parsed<'b>(&self, number: usize, bytes: &'b [u8]) -> Result<Page<'b>> {
        let first = self.top.page(number).map_or(0, |(first, _)| first);
        Page::parse(bytes).map_err(|invalid| self.damaged(first, invalid))
    }

    /// Reads every page and keeps it, so that the file is not needed any more; `false` if one is
    /// damaged.
    pub(crate) fn take_all(&self, reader: &Reader) -> Result<bool> {
        let at_once = reader.profile().depth;
        let mut number = 0;
        while number < self.pages.len() {
            let missing = |n| self.missing(n).map(|read| (n, read));
            let batch: Vec<_> = (number..self.pages.len()).take(at_once).filter_map(missing).collect();
            let reads = batch.iter().map(|&(_, (source, range))| (source, range, Access::Cached));
            for ((n, _), bytes) in batch.iter().zip(reader.read_many(reads)?) {
                match self.supply(*n, bytes) {
                    Err(Error::Damaged(_)) => return Ok(false),
                    other => other?,
                }
            }
            number += at_once;
        }
        Ok(true)
    }

    /// Reads every page, so that damage is noted.
    pub(crate) fn look_at_all(&self, reader: &Reader) -> Result<()> {
        for number in 0..self.pages.len() {
            if let Some((source, range)) = self.missing(number) {
                match self.verified(number, reader.read(source, range)) {
                    Ok(_) | Err(Error::Damaged(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The places of all versions of a key, newest first.
    pub(crate) fn versions(&self, form: &[u8], reader: &Reader) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        let mut number = self.page_of(form);
        while number < self.pages.len() {
            let ended = match self.held(number, reader)? {
                LoadedPage::Page(bytes) => {
                    let page = self.parsed(number, bytes)?;
                    let found = page.find(form);
                    places.extend(found.clone().filter_map(|entry| page.place(entry)));
                    found.end < page.len()
                }
                LoadedPage::Mended(mended) => {
                    places.extend(mended.versions(form, reader)?);
                    false
                }
            };
            number += 1;
            // Versions can continue after a page only if it ends in this key, and the top shows
            // whether they do.
            if ended || !self.top.continues(number, form) {
                break;
            }
        }
        Ok(places)
    }

    /// Why a key that is not found may be there all the same: the page where it would be was lost,
    /// and so was the head of some frame.
    pub(crate) fn doubt(&self, form: &[u8]) -> Option<&Damage> {
        match self.pages.get(self.page_of(form))?.get()? {
            LoadedPage::Page(_) => None,
            LoadedPage::Mended(mended) => mended.doubt(),
        }
    }

    /// All such reasons, each once, as far as pages were read.
    pub(crate) fn doubts(&self) -> impl Iterator<Item = &Damage> {
        let mended = self.pages.iter().filter_map(|slot| match slot.get()? {
            LoadedPage::Page(_) => None,
            LoadedPage::Mended(mended) => mended.doubt(),
        });
        // Pages that were rebuilt in one walk have the same.
        let mut last = None;
        mended.filter(move |doubt| last.replace(*doubt) != Some(*doubt))
    }

    /// The page in which the newest version of a key would be, which is fetched.
    #[inline]
    pub(crate) fn prefetch_page(&self, form: &[u8]) -> usize {
        let finders = self.finders();
        let number = finders.top.as_ref().and_then(|top| top.find(form));
        let number = number.unwrap_or_else(|| self.page_of(form));
        finders.pages.get(number).map(prefetch);
        number
    }

    /// Has what [`newest_in`](Self::newest_in) will look at fetched, once the page is.
    #[inline]
    pub(crate) fn prefetch(&self, number: usize, form: &[u8]) {
        let page = self.finders().pages.get(number);
        if let Some(finder) = page.and_then(|page| page.get()?.as_ref()) {
            finder.prefetch(form);
        }
    }

    fn finders(&self) -> &Finders {
        self.finders.get_or_init(|| Finders::of(&self.top))
    }

    /// Finds the newest version of a key in prepared pages. Preparing a page costs as much as some
    /// hundred searches in it, and memory, so this is for callers that look up many keys.
    pub(crate) fn newest(&self, form: &[u8], reader: &Reader) -> Result<Newest> {
        self.newest_in(self.prefetch_page(form), form, reader)
    }

    /// The same in the page where it would be.
    #[inline]
    pub(crate) fn newest_in(&self, number: usize, form: &[u8], reader: &Reader) -> Result<Newest> {
        let Some(slot) = self.finders().pages.get(number) else { return Ok(Newest::Absent) };
        let finder = match slot.get() {
            Some(finder) => finder,
            None => {
                let held = self.held(number, reader)?;
                slot.get_or_init(|| match held {
                    LoadedPage::Page(bytes) => Finder::of(bytes),
                    LoadedPage::Mended(_) => None,
                })
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
        Error::Damaged(Damage { file, offset, key: None, what: invalid.what, cause: None })
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
