//! Index pages and the top level above them: from a key to the place of its record.

use std::cmp::Ordering;

use super::attributes::{Attributes, FileKind};
use super::bytes::FieldCursor;
use super::page::PageBuilder;
use super::{Decoded, Invalid, UNIT};

const TOP_HEAD_LEN: usize = 16;
/// Stored in place of the length of a frame that is too long to be stored.
pub(super) const SPAN_LONG: u32 = u32::MAX;
/// Units of a page at most: its only entry may have the longest key.
pub(crate) const PAGE_UNITS_MAX: u32 = 17;

/// What an index says a record holds, so that kinds of records are chosen without their heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EntryContent {
    /// It does not say: the head has to be read.
    #[default]
    Unsaid,
    /// The content of a file: of a regular one, of a hard link to one, or of a record that does not
    /// say what it is.
    File,
    /// A directory, or a symbolic link.
    Other,
}

impl EntryContent {
    /// That of a record with these attributes, as its frame has them.
    pub fn of(attributes: &[u8]) -> Self {
        match Attributes::kind_of(attributes) {
            Some(FileKind::Directory | FileKind::Symlink) => Self::Other,
            Some(FileKind::File | FileKind::HardLink) | None => Self::File,
        }
    }
}

/// Where a record is. What it holds is no part of that: places of one frame are the same, whether
/// or not they say it.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Offset of the frame in the segment, a multiple of 8.
    pub offset: u64,
    /// Length of the frame, a multiple of 8; `None` when it is too long for the index to say.
    pub len: Option<u64>,
    /// What the record holds, where that is known.
    pub content: EntryContent,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.offset, self.len).cmp(&(other.offset, other.len))
    }
}

impl Place {
    /// A frame at `offset` of `len` bytes, of whose content nothing is said.
    pub fn new(offset: u64, len: u64) -> Self {
        Self { offset, len: (len / 8 < u64::from(SPAN_LONG)).then_some(len), content: EntryContent::Unsaid }
    }

    /// The same of a record that holds this.
    pub fn with(self, content: EntryContent) -> Self {
        Self { content, ..self }
    }
}

impl Place {
    /// Length of the frame, or the least it can be where the index does not say.
    pub fn len_min(&self) -> u64 {
        self.len.unwrap_or(u64::from(SPAN_LONG) * 8)
    }
}

/// Makes the index of a span out of its keys, which must come in order: by sort form, and versions
/// of one key newest (highest offset) first.
#[derive(Debug)]
pub struct IndexBuilder {
    salt_crc: u32,
    pages: Vec<u8>,
    page: PageBuilder,
    separators: Vec<u8>,
    separator_ends: Vec<u32>,
    first_units: Vec<u32>,
}

/// An index as it is written: pages, then the top.
#[derive(Debug, Clone)]
pub struct EncodedIndex {
    /// The pages, a multiple of 4096 bytes.
    pub pages: Vec<u8>,
    /// The top level.
    pub top: Vec<u8>,
}

impl EncodedIndex {
    /// The index of a span without records.
    pub fn empty(salt_crc: u32) -> Self {
        let mut top = vec![0; TOP_HEAD_LEN];
        seal(&mut top, salt_crc);
        Self { pages: Vec::new(), top }
    }
}

impl IndexBuilder {
    /// An index of a segment with this salt CRC.
    pub fn new(salt_crc: u32) -> Self {
        Self {
            salt_crc,
            pages: Vec::new(),
            page: PageBuilder::new(),
            separators: Vec::new(),
            separator_ends: Vec::new(),
            first_units: Vec::new(),
        }
    }

    /// Adds the next record.
    pub fn push(&mut self, form: &[u8], place: Place) {
        if !self.page.is_empty() && self.page.add(form, place) {
            return;
        }
        if !self.page.is_empty() {
            self.page.finish(self.salt_crc, &mut self.pages);
        }
        self.push_separator(form);
        self.first_units.push((self.pages.len() / UNIT) as u32);
        self.page.add(form, place);
    }

    /// The finished index, or `None` when no record was added: see [`EncodedIndex::empty`].
    pub fn finish(mut self) -> Option<EncodedIndex> {
        if self.page.is_empty() {
            return None;
        }
        self.page.finish(self.salt_crc, &mut self.pages);
        let mut top = vec![0; 4];
        for word in [self.first_units.len(), self.separators.len(), self.pages.len() / UNIT] {
            top.extend((word as u32).to_le_bytes());
        }
        for word in self.separator_ends.iter().chain(&self.first_units) {
            top.extend(word.to_le_bytes());
        }
        top.extend_from_slice(&self.separators);
        seal(&mut top, self.salt_crc);
        Some(EncodedIndex { pages: self.pages, top })
    }

    /// What parts the page that begins with `first` from the one before.
    fn push_separator(&mut self, first: &[u8]) {
        let last = self.page.last();
        if self.first_units.is_empty() {
            // Nothing is before the first page.
        } else if first == last {
            self.separators.extend_from_slice(first);
            self.separators.push(0);
        } else {
            self.separators.extend_from_slice(first.get(..common_len(first, last) + 1).unwrap_or(first));
        }
        self.separator_ends.push(self.separators.len() as u32);
    }
}

pub(super) fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Puts the checksum of everything that follows into the first four bytes.
pub(super) fn seal(bytes: &mut [u8], crc: u32) {
    if let Some((head, rest)) = bytes.split_first_chunk_mut::<4>() {
        *head = crc32c::crc32c_append(crc, rest).to_le_bytes();
    }
}

/// Checks the checksum in the first four bytes over everything that follows.
pub(super) fn checked_head<'a>(bytes: &'a [u8], crc: u32, name: &str) -> Decoded<FieldCursor<'a>> {
    let mut cursor = FieldCursor::new(bytes);
    let stored = cursor.u32()?;
    let computed = crc32c::crc32c_append(crc, bytes.get(4..).unwrap_or_default());
    if stored != computed {
        let what = format!("the checksum of the {name} is {computed:08x}, {stored:08x} was written");
        return Err(Invalid::damaged(0, what));
    }
    Ok(cursor)
}

/// The top level of an index.
#[derive(Debug, Clone)]
pub struct Top {
    separators: Vec<u8>,
    separator_ends: Vec<u32>,
    /// One more than there are pages: the last is the number of units.
    first_units: Vec<u32>,
}

impl Top {
    /// Reads a top level whose index has `index_len` bytes.
    ///
    /// # Errors
    /// Returns an error if it is invalid, or does not match that index.
    pub fn decode(bytes: &[u8], salt_crc: u32, index_len: u64) -> Decoded<Self> {
        let mut cursor = checked_head(bytes, salt_crc, "top of the index")?;
        let (pages, separators_len, units) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let wanted = TOP_HEAD_LEN as u64 + 8 * u64::from(pages) + u64::from(separators_len);
        if wanted != bytes.len() as u64 || u64::from(units) * UNIT as u64 != index_len {
            return Err(Invalid::damaged(4, "the top of the index has not the length that it says"));
        }
        let mut words = |last: Option<u32>| -> Decoded<Vec<u32>> {
            let words =
                (0..pages).map(|_| cursor.u32()).chain(last.map(Ok)).collect::<Decoded<Vec<u32>>>()?;
            Ok(words)
        };
        let (separator_ends, first_units) = (words(None)?, words(Some(units))?);
        let separators = cursor.take(separators_len as usize)?.to_vec();
        let ends_rise =
            separator_ends.is_sorted() && separator_ends.last().copied().unwrap_or(0) == separators_len;
        let mut steps = first_units.iter().zip(first_units.iter().skip(1));
        let units_rise =
            steps.all(|(a, b)| b.checked_sub(*a).is_some_and(|units| (1..=PAGE_UNITS_MAX).contains(&units)));
        if !ends_rise || !units_rise || first_units.first() != Some(&0) && pages > 0 {
            return Err(Invalid::damaged(16, "the pages of the index do not follow one another"));
        }
        Ok(Self { separators, separator_ends, first_units })
    }

    /// Pages of the index.
    pub fn pages(&self) -> usize {
        self.separator_ends.len()
    }

    /// Its approximate size in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.separators.len() + 4 * (self.separator_ends.len() + self.first_units.len())
    }

    /// First unit and length in bytes of a page.
    pub fn page(&self, number: usize) -> Option<(u32, usize)> {
        let (first, next) = (*self.first_units.get(number)?, *self.first_units.get(number + 1)?);
        Some((first, (next - first) as usize * UNIT))
    }

    /// The page in which the newest record with this key is, if it is anywhere.
    pub fn find(&self, form: &[u8]) -> usize {
        let (mut low, mut high) = (1, self.pages().max(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.separator(middle) <= form { low = middle + 1 } else { high = middle }
        }
        low - 1
    }

    /// Whether older versions of this key continue in this page: its separator then is the sort
    /// form and a zero.
    pub fn continues(&self, number: usize, form: &[u8]) -> bool {
        number < self.pages() && self.separator(number).strip_suffix(&[0]) == Some(form)
    }

    /// What parts a page from the one before.
    pub(crate) fn separator(&self, number: usize) -> &[u8] {
        let start =
            number.checked_sub(1).and_then(|before| self.separator_ends.get(before)).copied().unwrap_or(0);
        let end = self.separator_ends.get(number).copied().unwrap_or(start);
        self.separators.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// Size of the top level that begins with these bytes, if it may belong to an index of `index_len`
/// bytes; its checksum decides.
pub(crate) fn units_of_top(head: &[u8], index_len: u64) -> Option<u64> {
    let mut cursor = FieldCursor::new(head);
    cursor.u32().ok()?;
    let (pages, separators_len, units) = (cursor.u32().ok()?, cursor.u32().ok()?, cursor.u32().ok()?);
    let is_of_it = pages > 0 && pages <= units && u64::from(units) * UNIT as u64 == index_len;
    is_of_it.then_some(TOP_HEAD_LEN as u64 + 8 * u64::from(pages) + u64::from(separators_len))
}

/// Rebuilds a top from the pages that are left.
#[derive(Debug, Default)]
pub(crate) struct TopBuilder {
    separators: Vec<u8>,
    separator_ends: Vec<u32>,
    first_units: Vec<u32>,
    /// The last sort form of the page before.
    last: Vec<u8>,
}

impl TopBuilder {
    /// Pages so far.
    pub(crate) fn pages(&self) -> usize {
        self.first_units.len()
    }

    /// The last sort form of the page that was added.
    pub(crate) fn set_last(&mut self, form: &[u8]) {
        self.last.clear();
        self.last.extend_from_slice(form);
    }

    /// Adds a page that begins with this sort form directly after the one before.
    pub(crate) fn add(&mut self, first: &[u8], unit: u32) {
        if self.first_units.is_empty() {
            // Nothing is before the first page.
        } else if first == self.last {
            self.separators.extend_from_slice(first);
            self.separators.push(0);
        } else {
            let len = common_len(first, &self.last) + 1;
            self.separators.extend_from_slice(first.get(..len).unwrap_or(first));
        }
        self.push(unit);
    }

    /// Adds the place of pages that are lost. Any key from the last one before it may be in there,
    /// including more versions of that key.
    pub(crate) fn add_lost(&mut self, unit: u32) {
        if !self.first_units.is_empty() {
            self.separators.extend_from_slice(&self.last);
            self.separators.push(0);
        }
        self.push(unit);
    }

    /// Adds a page after lost ones, which may hold newer versions of its first key.
    pub(crate) fn add_after_lost(&mut self, first: &[u8], unit: u32) {
        self.separators.extend_from_slice(first);
        self.separators.push(0);
        self.push(unit);
    }

    fn push(&mut self, unit: u32) {
        self.separator_ends.push(self.separators.len() as u32);
        self.first_units.push(unit);
    }

    /// The top of an index of this many units.
    pub(crate) fn finish(mut self, units: u32) -> Top {
        self.first_units.push(units);
        let Self { separators, separator_ends, first_units, .. } = self;
        Top { separators, separator_ends, first_units }
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::Page;
    use super::*;

    fn built(entries: &[(Vec<u8>, Place)]) -> (EncodedIndex, Top) {
        let mut builder = IndexBuilder::new(5);
        for (form, place) in entries {
            builder.push(form, *place);
        }
        let index = builder.finish().unwrap();
        let top = Top::decode(&index.top, 5, index.pages.len() as u64).unwrap();
        (index, top)
    }

    fn page<'a>(index: &'a EncodedIndex, top: &Top, number: usize) -> Page<'a> {
        let (first, len) = top.page(number).unwrap();
        Page::verify(&index.pages[first as usize * UNIT..][..len], 5, first).unwrap()
    }

    fn sorted(mut keys: Vec<(Vec<u8>, u64)>) -> Vec<(Vec<u8>, Place)> {
        keys.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        keys.into_iter().map(|(form, offset)| (form, Place::new(offset * 8, 48))).collect()
    }

    /// Every content, entry by entry, as pages give it.
    fn contents(entries: &[(Vec<u8>, Place)]) -> Vec<EntryContent> {
        let (index, top) = built(entries);
        let pages = (0..top.pages()).map(|number| page(&index, &top, number));
        pages.flat_map(|page| (0..page.len()).map(move |at| page.place(at).unwrap().content)).collect()
    }

    #[test]
    fn pages_say_what_records_hold_where_all_of_a_page_are_known() {
        let entries = |content: &dyn Fn(u64) -> EntryContent| -> Vec<(Vec<u8>, Place)> {
            sorted((0..3000_u64).map(|n| (format!("\x01{n:05}").into_bytes(), n)).collect())
                .into_iter()
                .map(|(form, place)| (form, place.with(content(place.offset / 8))))
                .collect()
        };
        for every in [1, 2, 7, 8, 9, 2999, 5000] {
            let content =
                |n: u64| if n % every == every - 1 { EntryContent::Other } else { EntryContent::File };
            let mixed = entries(&content);
            let wanted: Vec<EntryContent> = mixed.iter().map(|(_, place)| place.content).collect();
            assert_eq!(contents(&mixed), wanted, "one in {every}");
        }
        // One that is not known costs its page only, in which heads are read.
        let one = contents(&entries(&|n| if n == 1500 { EntryContent::Unsaid } else { EntryContent::File }));
        let unsaid = one.iter().filter(|&&content| content == EntryContent::Unsaid).count();
        assert_eq!(one[1500], EntryContent::Unsaid);
        assert!(unsaid < 1500 && one[0] == EntryContent::File && one[2999] == EntryContent::File, "{unsaid}");
        // As pages were written before they said it.
        let (index, top) = built(&entries(&|_| EntryContent::Unsaid));
        assert_eq!(index.pages[7] & 0xF0, 0);
        assert_eq!(page(&index, &top, 0).place(0).unwrap().content, EntryContent::Unsaid);
    }

    #[test]
    fn a_page_that_says_more_than_it_can_is_damaged() {
        let entries: Vec<_> = sorted((0..9_u64).map(|n| (vec![1, n as u8], n)).collect())
            .into_iter()
            .map(|(form, place)| (form, place.with(EntryContent::Other)))
            .collect();
        let (mut index, _) = built(&entries);
        let seal_again = |page: &mut [u8]| seal(page, crc32c::crc32c_append(5, &0_u32.to_le_bytes()));
        assert!(Page::verify(&index.pages, 5, 0).is_ok());
        // After the head, nine offsets of a byte, and lengths of none.
        let bits = 17 + 9;
        assert_eq!(index.pages[bits..bits + 2], [0xFF, 0x01]);
        index.pages[bits + 1] |= 1 << 1;
        seal_again(&mut index.pages);
        assert!(Page::verify(&index.pages, 5, 0).is_err(), "a bit for a tenth entry");
        index.pages[bits + 1] ^= 1 << 1;
        for flags in [0x30_u8, 0x40, 0x80, 0xF0] {
            let before = index.pages[7];
            index.pages[7] = before & 0x0F | flags;
            seal_again(&mut index.pages);
            assert!(Page::verify(&index.pages, 5, 0).is_err(), "{flags:02x}");
            index.pages[7] = before;
        }
    }

    #[test]
    fn one_page_holds_the_newest_version_of_every_key() {
        let mut keys = Vec::new();
        for n in 0..5000u64 {
            keys.push((format!("\x01dir{:03}/file{n:05}", n % 100).into_bytes(), n));
        }
        // A key with versions over several pages, and its neighbours by one byte.
        for n in 5000..10_000u64 {
            keys.push((b"\x01dir050/x".to_vec(), n));
        }
        keys.push((b"\x01dir050/x\0".to_vec(), 20_000));
        keys.push((vec![1; 65_536], 20_001));
        keys.push((vec![1; 65_535], 20_002));
        let entries = sorted(keys);
        let (index, top) = built(&entries);
        assert!(top.pages() > 10);
        let mut seen = 0;
        for number in 0..top.pages() {
            let page = page(&index, &top, number);
            let mut cursor = page.entries();
            while cursor.is_valid() {
                let (form, place) = &entries[seen];
                assert_eq!((cursor.form(), cursor.place()), (form.as_slice(), Some(*place)));
                seen += 1;
                cursor.advance();
            }
        }
        assert_eq!(seen, entries.len());
        for (at, (form, place)) in entries.iter().enumerate() {
            if at > 0 && entries[at - 1].0 == *form {
                continue;
            }
            let page = page(&index, &top, top.find(form));
            let found = page.find(form);
            assert!(!found.is_empty());
            assert_eq!(page.place(found.start), Some(*place));
        }
        let crossing = (1..top.pages()).filter(|&page| top.continues(page, b"\x01dir050/x")).count();
        assert!(crossing >= 3, "5,000 versions fill several pages, and each says so");
        assert!((1..top.pages()).all(|page| !top.continues(page, b"\x01dir050/x\0")));
        for absent in [&b""[..], b"\x01", b"\x01dir050/w", b"\x01dir050/x\0\0", b"\x02", &[1; 65_534]] {
            let page = page(&index, &top, top.find(absent));
            assert!(page.find(absent).is_empty());
        }
    }

    #[test]
    fn any_flipped_bit_of_page_or_top_is_reported() {
        let (index, _) = built(&sorted((0..3).map(|n| (vec![1, n as u8], n)).collect()));
        for bit in 0..index.top.len() * 8 {
            let mut flipped = index.top.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Top::decode(&flipped, 5, UNIT as u64).is_err());
        }
        for bit in 0..UNIT * 8 {
            let mut flipped = index.pages.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Page::verify(&flipped, 5, 0).is_err());
        }
        assert!(Page::verify(&index.pages, 6, 0).is_err(), "another segment");
        assert!(Page::verify(&index.pages, 5, 1).is_err(), "another place");
    }

    #[test]
    fn a_frame_too_long_for_the_index_is_marked() {
        let long = u64::from(u32::MAX) * 8;
        assert_eq!(Place::new(8, long).len, None);
        assert_eq!(Place::new(8, long - 8).len, Some(long - 8));
    }
}
