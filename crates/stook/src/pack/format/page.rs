//! Pages of an index: sorted keys, each stored as its difference to one before, and where their
//! records are.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;

use super::bytes::{FieldCursor, put_leb128};
use super::index::{EntryContent, Place, SPAN_LONG, checked_head, common_len, seal};
use super::{Decoded, Invalid, UNIT};
use crate::engine::prefetch;

/// Checksum, number of entries, widths of the two columns, least span, least offset.
const HEAD_LEN: usize = 17;
/// Once in this many entries, one is stored as its difference to the first of the page: a search
/// can begin there.
const INTERVAL: usize = 16;
/// A sort form is a kind byte and at most 65,535 bytes.
const FORM_LEN_MAX: usize = 1 << 16;
/// Offsets are stored in units of 8, below this.
const OFFSET_LIMIT: u64 = 1 << 40;
/// A number in four bits that says that the rest of it follows.
const MORE: usize = 15;
/// In the byte with the width of a length: all entries are of files.
const ALL_FILES: u8 = 0x10;
/// There, too: after the lengths there is a bit for each entry, set for one that is not of a file.
const OTHERS_FOLLOW: u8 = 0x20;

/// The least and the greatest of a column of numbers.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    least: u64,
    most: u64,
}

impl Bounds {
    const NONE: Self = Self { least: u64::MAX, most: 0 };

    fn with(self, number: u64) -> Self {
        Self { least: self.least.min(number), most: self.most.max(number) }
    }

    /// Bytes that hold the difference of any of them to the least.
    fn width(self) -> usize {
        (u64::BITS - (self.most - self.least).leading_zeros()).div_ceil(8) as usize
    }
}

/// Makes one page after another out of entries in order.
#[derive(Debug)]
pub(super) struct PageBuilder {
    first: Vec<u8>,
    last: Vec<u8>,
    keys: Vec<u8>,
    /// The positions of the keys at which a search can begin, except the first.
    restarts: Vec<usize>,
    places: Vec<Place>,
    offsets: Bounds,
    spans: Bounds,
    contents: Contents,
}

/// What is known of what the records of a page hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// Not all of them say it.
    Unsaid,
    /// All are files.
    Files,
    /// Some are not.
    Mixed,
}

impl Contents {
    fn with(self, content: EntryContent) -> Self {
        match (self, content) {
            (Self::Unsaid, _) | (_, EntryContent::Unsaid) => Self::Unsaid,
            (Self::Mixed, _) | (_, EntryContent::Other) => Self::Mixed,
            (Self::Files, EntryContent::File) => Self::Files,
        }
    }

    fn flags(self) -> u8 {
        match self {
            Self::Unsaid => 0,
            Self::Files => ALL_FILES,
            Self::Mixed => OTHERS_FOLLOW,
        }
    }

    fn of_flags(flags: u8) -> Option<Self> {
        [Self::Unsaid, Self::Files, Self::Mixed].into_iter().find(|contents| contents.flags() == flags)
    }

    /// Bytes of the bits of so many entries.
    fn bits_len(self, entries: usize) -> usize {
        if self == Self::Mixed { entries.div_ceil(8) } else { 0 }
    }
}

impl PageBuilder {
    pub(super) fn new() -> Self {
        Self {
            first: Vec::new(),
            last: Vec::new(),
            keys: Vec::new(),
            restarts: Vec::new(),
            places: Vec::new(),
            offsets: Bounds::NONE,
            spans: Bounds::NONE,
            contents: Contents::Files,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The sort form that was added last, even if it was to the page before.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Adds an entry; returns whether it fitted. The first always does.
    pub(super) fn add(&mut self, form: &[u8], place: Place) -> bool {
        debug_assert!(form.len() <= FORM_LEN_MAX);
        let at = self.keys.len();
        let is_restart = self.places.len().is_multiple_of(INTERVAL);
        let base = match (self.is_empty(), is_restart) {
            (true, _) => &[][..],
            (false, true) => &self.first,
            (false, false) => &self.last,
        };
        let shared = common_len(base, form);
        put_key(&mut self.keys, base.len() - shared, form.get(shared..).unwrap_or_default());
        let offsets = self.offsets.with(place.offset / 8);
        let spans = self.spans.with(span(place));
        let contents = self.contents.with(place.content);
        if self.is_empty() {
            self.first = form.to_vec();
        } else {
            let restarts = self.restarts.len() + usize::from(is_restart);
            let entries = self.places.len() + 1;
            let columns = entries * (offsets.width() + spans.width()) + contents.bits_len(entries);
            if HEAD_LEN + 2 * restarts + columns + self.keys.len() > UNIT {
                self.keys.truncate(at);
                return false;
            }
            self.restarts.extend(is_restart.then_some(at));
        }
        (self.offsets, self.spans, self.contents) = (offsets, spans, contents);
        self.last.truncate(if is_restart { 0 } else { shared });
        self.last.extend(form.get(self.last.len()..).unwrap_or_default());
        self.places.push(place);
        true
    }

    /// Appends the page to the `pages` before it, and begins the next.
    pub(super) fn finish(&mut self, salt_crc: u32, pages: &mut Vec<u8>) {
        let first_unit = (pages.len() / UNIT) as u32;
        let (offset_len, span_len) = (self.offsets.width(), self.spans.width());
        let mut page = vec![0; 4];
        page.extend((self.places.len() as u16).to_le_bytes());
        page.extend([offset_len as u8, span_len as u8 | self.contents.flags()]);
        page.extend((self.spans.least as u32).to_le_bytes());
        page.extend(self.offsets.least.to_le_bytes().into_iter().take(5));
        for &restart in &self.restarts {
            page.extend((restart as u16).to_le_bytes());
        }
        for place in &self.places {
            page.extend((place.offset / 8 - self.offsets.least).to_le_bytes().into_iter().take(offset_len));
        }
        for &place in &self.places {
            page.extend((span(place) - self.spans.least).to_le_bytes().into_iter().take(span_len));
        }
        if self.contents == Contents::Mixed {
            page.extend(self.places.chunks(8).map(|places| {
                let others =
                    places.iter().enumerate().filter(|(_, place)| place.content == EntryContent::Other);
                others.fold(0_u8, |bits, (number, _)| bits | 1 << number)
            }));
        }
        page.append(&mut self.keys);
        page.resize(page.len().next_multiple_of(UNIT), 0);
        seal(&mut page, page_crc(salt_crc, first_unit));
        pages.append(&mut page);
        self.restarts.clear();
        self.places.clear();
        (self.offsets, self.spans) = (Bounds::NONE, Bounds::NONE);
        self.contents = Contents::Files;
    }
}

/// The length of a frame as it is stored.
fn span(place: Place) -> u64 {
    place.len.map_or(u64::from(SPAN_LONG), |len| (len / 8).min(u64::from(SPAN_LONG)))
}

fn page_crc(salt_crc: u32, first_unit: u32) -> u32 {
    crc32c::crc32c_append(salt_crc, &first_unit.to_le_bytes())
}

/// Stores a key: the number of bytes removed from the end of another, and the bytes appended in
/// their place.
fn put_key(out: &mut Vec<u8>, drop: usize, add: &[u8]) {
    out.push((drop.min(MORE) << 4 | add.len().min(MORE)) as u8);
    for number in [drop, add.len()] {
        if let Some(rest) = number.checked_sub(MORE) {
            put_leb128(out, rest as u64);
        }
    }
    out.extend_from_slice(add);
}

/// A key as it is stored.
#[derive(Debug, Clone, Copy)]
struct KeyStep<'a> {
    /// How many bytes of the end of its base go.
    drop: usize,
    /// The bytes appended in their place.
    add: &'a [u8],
    /// Where the next key is stored.
    end: usize,
}

/// Decodes a number whose first four bits are known.
fn count(keys: &[u8], bits: usize, at: &mut usize) -> Option<usize> {
    if bits < MORE {
        return Some(bits);
    }
    let mut cursor = FieldCursor::new(keys.get(*at..)?);
    let rest = cursor.leb128().ok()?;
    *at += usize::try_from(cursor.at()).ok()?;
    usize::try_from(rest).ok()?.checked_add(MORE)
}

/// How a key compares to the wanted one, without assembling the key.
#[derive(Debug, Clone, Copy)]
struct Against {
    len: usize,
    /// Bytes at the front that are the same.
    matched: usize,
    order: Ordering,
}

impl Against {
    /// The empty key, which the first of a page is based on.
    fn nothing(wanted: &[u8]) -> Self {
        Self { len: 0, matched: 0, order: 0.cmp(&wanted.len()) }
    }

    /// The same of a key that is stored as a difference to this one.
    fn step(self, step: &KeyStep<'_>, wanted: &[u8]) -> Option<Self> {
        let shared = self.len.checked_sub(step.drop)?;
        let len = shared.checked_add(step.add.len())?;
        if shared > self.matched {
            // The difference between this key and the wanted one is still there.
            return Some(Self { len, ..self });
        }
        let rest = wanted.get(shared..)?;
        let matched = shared + common_len(step.add, rest);
        Some(Self { len, matched, order: step.add.cmp(rest) })
    }
}

/// The places of a verified page.
#[derive(Debug)]
pub(crate) struct Columns {
    bytes: Bytes,
    least: (u64, u64),
    entries: u16,
    restarts: u16,
    offset_len: u8,
    span_len: u8,
}

impl Columns {
    /// Where in the page offset and length of an entry are.
    fn at(&self, number: usize) -> (usize, usize) {
        let offsets = HEAD_LEN + 2 * usize::from(self.restarts);
        let spans = offsets + usize::from(self.entries) * usize::from(self.offset_len);
        (offsets + number * usize::from(self.offset_len), spans + number * usize::from(self.span_len))
    }

    /// The place of an entry; what it holds is not looked up.
    #[inline]
    pub(crate) fn place(&self, number: usize) -> Option<Place> {
        if number >= usize::from(self.entries) {
            return None;
        }
        let (offset, span) = self.at(number);
        let offset = self.least.0 + word(&self.bytes, offset, self.offset_len.into())?;
        let span = self.least.1 + word(&self.bytes, span, self.span_len.into())?;
        Some(to_place((offset, span)))
    }

    /// Has the place of an entry fetched.
    #[inline]
    pub(crate) fn prefetch(&self, number: usize) {
        let (offset, span) = self.at(number);
        self.bytes.get(offset).map(prefetch);
        self.bytes.get(span).map(prefetch);
    }
}

fn to_place((offset, span): (u64, u64)) -> Place {
    let len = (span < u64::from(SPAN_LONG)).then_some(span * 8);
    Place { offset: offset * 8, len, content: EntryContent::Unsaid }
}

/// A little-endian number of at most seven bytes.
#[inline]
fn word(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    // Nearly always more bytes follow, and eight are read as fast as one.
    if let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        return Some(u64::from_le_bytes(*chunk) & ((1 << (8 * len)) - 1));
    }
    let bytes = bytes.get(at..at + len)?;
    Some(bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
}

/// A page whose checksum and structure have been verified.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    bytes: &'a [u8],
    entries: usize,
    offset_len: usize,
    span_len: usize,
    contents: Contents,
    keys: &'a [u8],
}

impl<'a> Page<'a> {
    /// Verifies a page that begins at `first_unit` of its index.
    ///
    /// # Errors
    /// Returns an error if it is damaged.
    pub fn verify(bytes: &'a [u8], salt_crc: u32, first_unit: u32) -> Decoded<Self> {
        checked_head(bytes, page_crc(salt_crc, first_unit), "index page")?;
        let page = Self::parse(bytes)?;
        page.verify_places()?;
        page.verify_contents()?;
        page.verify_keys()?;
        Ok(page)
    }

    /// Looks at a page that was verified before.
    ///
    /// # Errors
    /// Returns an error if the parts do not fit into it.
    pub fn parse(bytes: &'a [u8]) -> Decoded<Self> {
        let mut cursor = FieldCursor::new(bytes);
        cursor.take(4)?;
        let entries = usize::from(cursor.u16()?);
        let (offset_len, widths) = (usize::from(cursor.u8()?), cursor.u8()?);
        let span_len = usize::from(widths & 0x0F);
        let contents = Contents::of_flags(widths & 0xF0).ok_or_else(|| {
            Invalid::damaged(
                7,
                format!("an index page says {widths:02x} of its lengths, which means nothing"),
            )
        })?;
        if entries == 0 || entries > 1 && bytes.len() > UNIT || offset_len > 5 || span_len > 4 {
            let what = format!("an index page of {} bytes says {entries} entries", bytes.len());
            return Err(Invalid::damaged(4, what));
        }
        let columns =
            2 * ((entries - 1) / INTERVAL) + entries * (offset_len + span_len) + contents.bits_len(entries);
        let keys = bytes
            .get(HEAD_LEN + columns..)
            .ok_or_else(|| Invalid::damaged(4, format!("{entries} entries do not fit into an index page")))?;
        Ok(Self { bytes, entries, offset_len, span_len, contents, keys })
    }

    /// Entries, at least 1.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Never true of a verified page.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The place of an entry.
    pub fn place(&self, number: usize) -> Option<Place> {
        Some(to_place(self.stored_place(number)?).with(self.content(number)))
    }

    /// What an entry holds.
    fn content(&self, number: usize) -> EntryContent {
        match self.contents {
            Contents::Unsaid => EntryContent::Unsaid,
            Contents::Files => EntryContent::File,
            Contents::Mixed => {
                let bits = self.bits().get(number / 8).copied().unwrap_or(0);
                if bits >> (number % 8) & 1 == 1 { EntryContent::Other } else { EntryContent::File }
            }
        }
    }

    /// A bit for each entry, set for one that is not of a file; empty where there are none.
    fn bits(&self) -> &'a [u8] {
        let end = self.bytes.len() - self.keys.len();
        self.bytes.get(end - self.contents.bits_len(self.entries)..end).unwrap_or_default()
    }

    /// The numbers of the entries with this sort form; if there is none, an empty range at the
    /// first entry after it.
    pub fn find(&self, form: &[u8]) -> Range<usize> {
        let mut number = self.restart_before(form) * INTERVAL;
        let mut start = None;
        // A restart has another base; that of the first key is nothing.
        let mut key = Against::nothing(form);
        let mut at = self.restart(number / INTERVAL);
        while number < self.entries {
            let base = match number % INTERVAL {
                0 if number > 0 => self.first_against(form),
                _ => Some(key),
            };
            let step = at.and_then(|at| self.step(at));
            let next = base.zip(step).and_then(|(base, step)| base.step(&step, form));
            let (Some(next), Some(step)) = (next, step) else { break };
            match next.order {
                Ordering::Less => {}
                Ordering::Equal => start = start.or(Some(number)),
                Ordering::Greater => break,
            }
            (key, at) = (next, Some(step.end));
            number += 1;
        }
        start.unwrap_or(number)..number
    }

    /// A cursor at the first entry.
    pub fn entries(self) -> PageCursor<'a> {
        self.entries_in(Vec::new())
    }

    /// A cursor where another left off.
    pub(crate) fn resume(self, state: PageState) -> PageCursor<'a> {
        PageCursor { page: self, number: state.number, next: state.next, form: state.form }
    }

    /// The same, with a buffer that was used before.
    pub fn entries_in(self, form: Vec<u8>) -> PageCursor<'a> {
        PageCursor::at_restart(self, 0, form)
    }

    /// Returns a cursor at the first entry that is not before `form`; after the last if all are.
    pub fn seek(self, form: &[u8]) -> PageCursor<'a> {
        let mut cursor = PageCursor::at_restart(self, self.restart_before(form), Vec::new());
        while cursor.is_valid() && cursor.form() < form {
            cursor.advance();
        }
        cursor
    }

    /// Offset and length of an entry's frame in units of 8, as the columns have them.
    fn stored_place(&self, number: usize) -> Option<(u64, u64)> {
        if number >= self.entries {
            return None;
        }
        let offsets = HEAD_LEN + 2 * self.restarts();
        let spans = offsets + self.entries * self.offset_len;
        let offset = self.word(12, 5)? + self.word(offsets + number * self.offset_len, self.offset_len)?;
        let span = self.word(8, 4)? + self.word(spans + number * self.span_len, self.span_len)?;
        Some((offset, span))
    }

    fn word(&self, at: usize, len: usize) -> Option<u64> {
        word(self.bytes, at, len)
    }

    /// Its places, to be kept together with its bytes.
    pub(crate) fn columns(&self, bytes: &Bytes) -> Option<Columns> {
        Some(Columns {
            bytes: bytes.clone(),
            least: (self.word(12, 5)?, self.word(8, 4)?),
            entries: self.entries as u16,
            restarts: self.restarts() as u16,
            offset_len: self.offset_len as u8,
            span_len: self.span_len as u8,
        })
    }

    /// How many entries but the first are based on the first.
    fn restarts(&self) -> usize {
        (self.entries - 1) / INTERVAL
    }

    /// Where the key of the entry `INTERVAL * number` is stored.
    fn restart(&self, number: usize) -> Option<usize> {
        let Some(before) = number.checked_sub(1) else { return Some(0) };
        Some(self.word(HEAD_LEN + 2 * before, 2)? as usize)
    }

    fn step(&self, at: usize) -> Option<KeyStep<'a>> {
        let head = usize::from(*self.keys.get(at)?);
        let mut at = at + 1;
        let drop = count(self.keys, head >> 4, &mut at)?;
        let len = count(self.keys, head & MORE, &mut at)?;
        let end = at.checked_add(len)?;
        Some(KeyStep { drop, add: self.keys.get(at..end)?, end })
    }

    /// The first key, which is stored whole.
    fn first(&self) -> &'a [u8] {
        self.step(0).map_or(&[], |step| step.add)
    }

    /// Compares the first key to a sort form.
    fn first_against(&self, form: &[u8]) -> Option<Against> {
        Against::nothing(form).step(&self.step(0)?, form)
    }

    /// The last restart whose key is before `form`; the first if none is.
    fn restart_before(&self, form: &[u8]) -> usize {
        let Some(first) = self.first_against(form) else { return 0 };
        let (mut low, mut high) = (1, self.restarts() + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let step = self.restart(middle).and_then(|at| self.step(at));
            let order = step.and_then(|step| first.step(&step, form)).map(|key| key.order);
            if order == Some(Ordering::Less) { low = middle + 1 } else { high = middle }
        }
        low - 1
    }

    fn verify_places(&self) -> Decoded<()> {
        let fits = |(offset, span)| offset < OFFSET_LIMIT && span <= u64::from(SPAN_LONG);
        match (0..self.entries).all(|number| self.stored_place(number).is_some_and(fits)) {
            true => Ok(()),
            false => Err(Invalid::damaged(8, "an index page names a place outside of any segment")),
        }
    }

    /// No bit stands for an entry that there is not.
    fn verify_contents(&self) -> Decoded<()> {
        let last = self.bits().last().copied().unwrap_or(0);
        match self.entries % 8 {
            used @ 1.. if last >> used != 0 => {
                Err(Invalid::damaged(7, "an index page says of more entries than it has what they hold"))
            }
            _ => Ok(()),
        }
    }

    /// Goes through all keys once: each must be present, follow the one before, and be where a
    /// search looks.
    fn verify_keys(&self) -> Decoded<()> {
        let keys_at = (self.bytes.len() - self.keys.len()) as u64;
        let damaged = |at: usize, what: &str| Err(Invalid::damaged(keys_at + at as u64, what));
        let (mut form, mut spare) = (Vec::new(), Vec::new());
        let mut at = 0;
        for number in 0..self.entries {
            let is_restart = number.is_multiple_of(INTERVAL);
            if is_restart && self.restart(number / INTERVAL) != Some(at) {
                return damaged(at, "a search in an index page would not begin at a key");
            }
            let base = if is_restart && number > 0 { Some(self.first()) } else { None };
            let Some((end, order)) = self.follow(at, base, &mut form, &mut spare) else {
                return damaged(at, "a key in an index page is not a key");
            };
            if number > 0 && order.then_with(|| self.order_of_offsets(number)).is_le() {
                return damaged(at, "the keys of an index page do not follow one another");
            }
            at = end;
        }
        match self.keys.get(at..).is_some_and(|rest| rest.iter().all(|&byte| byte == 0)) {
            true => Ok(()),
            false => damaged(at, "bytes follow the last key of an index page"),
        }
    }

    /// Replaces the previous key by the one stored at `at`, which is based on it unless there is a
    /// `base`. Returns the position of the next, and the order of the new key to the old; `None` if
    /// it is invalid.
    fn follow(
        &self,
        at: usize,
        base: Option<&[u8]>,
        form: &mut Vec<u8>,
        spare: &mut Vec<u8>,
    ) -> Option<(usize, Ordering)> {
        let step = self.step(at)?;
        let base_len = base.unwrap_or(form).len();
        let shared = base_len.checked_sub(step.drop)?;
        if shared + step.add.len() > FORM_LEN_MAX {
            return None;
        }
        if let Some(base) = base {
            spare.clear();
            spare.extend_from_slice(base.get(..shared)?);
            spare.extend_from_slice(step.add);
            std::mem::swap(form, spare);
            return Some((step.end, form.as_slice().cmp(spare)));
        }
        let order = step.add.cmp(form.get(shared..)?);
        form.truncate(shared);
        form.extend_from_slice(step.add);
        Some((step.end, order))
    }

    /// Versions of one key are ordered newest first: greater when an entry is older than the one
    /// before.
    fn order_of_offsets(&self, number: usize) -> Ordering {
        let offset = |number| self.place(number).map(|place| place.offset);
        number.checked_sub(1).and_then(offset).cmp(&offset(number))
    }
}

/// Where a cursor is, without the page.
#[derive(Debug, Default)]
pub(crate) struct PageState {
    number: usize,
    next: usize,
    form: Vec<u8>,
}

impl PageState {
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn form(&self) -> &[u8] {
        &self.form
    }

    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.form
    }
}

/// Goes through the entries of a page in order, with one buffer for all their sort forms.
#[derive(Debug)]
pub struct PageCursor<'a> {
    page: Page<'a>,
    number: usize,
    /// Where the key of the next entry is stored.
    next: usize,
    form: Vec<u8>,
}

impl<'a> PageCursor<'a> {
    fn at_restart(page: Page<'a>, restart: usize, form: Vec<u8>) -> Self {
        let number = restart * INTERVAL;
        let mut cursor = Self { page, number, next: page.restart(restart).unwrap_or(usize::MAX), form };
        cursor.enter();
        cursor
    }

    /// Whether it is at an entry, and not after the last.
    pub fn is_valid(&self) -> bool {
        self.number < self.page.entries
    }

    /// Sort form of the entry.
    pub fn form(&self) -> &[u8] {
        &self.form
    }

    /// Place of the entry; `None` after the last.
    pub fn place(&self) -> Option<Place> {
        self.page.place(self.number)
    }

    /// Steps to the next entry.
    pub fn advance(&mut self) {
        self.number = self.number.saturating_add(1);
        self.enter();
    }

    /// Where it is.
    pub(crate) fn into_state(self) -> PageState {
        PageState { number: self.number, next: self.next, form: self.form }
    }

    /// The buffer, for another page.
    pub fn into_buffer(self) -> Vec<u8> {
        self.form
    }

    /// Puts the sort form of the entry together.
    fn enter(&mut self) {
        if !self.is_valid() {
            return;
        }
        if self.number.is_multiple_of(INTERVAL) {
            self.form.clear();
            if self.number > 0 {
                self.form.extend_from_slice(self.page.first());
            }
        }
        // A verified page has no key that does not fit to its base.
        let step = self.page.step(self.next).filter(|step| step.drop <= self.form.len());
        let Some(step) = step else {
            self.number = self.page.entries;
            return;
        };
        self.form.truncate(self.form.len() - step.drop);
        self.form.extend_from_slice(step.add);
        self.next = step.end;
    }
}
