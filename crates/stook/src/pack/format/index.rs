//! Index pages and the top level above them: from a key to the place of its record.

use super::bytes::Cursor;
use super::{Decoded, Invalid, UNIT};

const PAGE_HEAD_LEN: usize = 12;
const TOP_HEAD_LEN: usize = 16;
const VALUE_LEN: usize = 9;
const SPAN_LONG: u32 = u32::MAX;
/// Units of a page: its only entry may have the longest key.
const PAGE_UNITS: std::ops::RangeInclusive<u32> = 1..=17;
/// A sort form is a kind byte and at most 65,535 bytes.
const FORM_LEN_MAX: usize = 1 << 16;

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Offset of the frame in the segment, a multiple of 8.
    pub offset: u64,
    /// Length of the frame, a multiple of 8; `None` when it is too long for the index to say.
    pub len: Option<u64>,
}

impl Place {
    /// A frame at `offset` of `len` bytes.
    pub fn new(offset: u64, len: u64) -> Self {
        Self { offset, len: (len / 8 < u64::from(SPAN_LONG)).then_some(len) }
    }
}

impl Place {
    /// Length of the frame, or the least it can be where the index does not say.
    pub fn len_min(&self) -> u64 {
        self.len.unwrap_or(u64::from(SPAN_LONG) * 8)
    }
}

/// Makes the index of a stretch out of its keys, which must come in order: by sort form, and versions of
/// one key newest (highest offset) first.
#[derive(Debug)]
pub struct IndexBuilder {
    salt_crc: u32,
    pages: Vec<u8>,
    separators: Vec<u8>,
    separator_ends: Vec<u32>,
    first_units: Vec<u32>,
    last_form: Vec<u8>,
    forms: Vec<u8>,
    form_ends: Vec<usize>,
    places: Vec<Place>,
    prefix_len: usize,
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
    /// The index of a stretch without records.
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
            separators: Vec::new(),
            separator_ends: Vec::new(),
            first_units: Vec::new(),
            last_form: Vec::new(),
            forms: Vec::new(),
            form_ends: Vec::new(),
            places: Vec::new(),
            prefix_len: 0,
        }
    }

    /// Adds the next record.
    pub fn push(&mut self, form: &[u8], place: Place) {
        debug_assert!(form.len() <= FORM_LEN_MAX);
        if !self.places.is_empty() {
            let prefix_len = common_len(self.form(0), form).min(self.prefix_len);
            let entries = self.places.len() + 1;
            let suffixes = self.forms.len() + form.len() - entries * prefix_len;
            let full = PAGE_HEAD_LEN + prefix_len + entries * (2 + VALUE_LEN) + suffixes > UNIT;
            if full || entries > usize::from(u16::MAX) {
                self.finish_page();
            } else {
                self.prefix_len = prefix_len;
            }
        }
        if self.places.is_empty() {
            self.prefix_len = form.len();
        }
        self.forms.extend_from_slice(form);
        self.form_ends.push(self.forms.len());
        self.places.push(place);
    }

    /// The finished index, or `None` when no record was added: see [`EncodedIndex::empty`].
    pub fn finish(mut self) -> Option<EncodedIndex> {
        if self.places.is_empty() {
            return None;
        }
        self.finish_page();
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

    fn form(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).and_then(|before| self.form_ends.get(before)).copied().unwrap_or(0);
        let end = self.form_ends.get(number).copied().unwrap_or(start);
        self.forms.get(start..end).unwrap_or_default()
    }

    fn finish_page(&mut self) {
        let entries = self.places.len();
        let suffix_len = self.forms.len() - entries * self.prefix_len;
        let fixed = PAGE_HEAD_LEN + self.prefix_len + suffix_len + entries * VALUE_LEN;
        let wide = fixed + 2 * entries > UNIT;
        let len = (fixed + entries * if wide { 4 } else { 2 }).next_multiple_of(UNIT);
        let first_unit = (self.pages.len() / UNIT) as u32;

        let mut page = Vec::with_capacity(len);
        page.extend([0; 4]);
        page.extend((entries as u16).to_le_bytes());
        page.extend([0; 2]);
        page.extend((self.prefix_len as u32).to_le_bytes());
        page.extend_from_slice(self.form(0).get(..self.prefix_len).unwrap_or_default());
        for (number, end) in self.form_ends.iter().enumerate() {
            let end = end - (number + 1) * self.prefix_len;
            match wide {
                true => page.extend((end as u32).to_le_bytes()),
                false => page.extend((end as u16).to_le_bytes()),
            }
        }
        for number in 0..entries {
            page.extend_from_slice(self.form(number).get(self.prefix_len..).unwrap_or_default());
        }
        page.resize(len - entries * VALUE_LEN, 0);
        for place in &self.places {
            page.extend((place.offset / 8).to_le_bytes().into_iter().take(5));
        }
        for place in &self.places {
            page.extend(place.len.map_or(SPAN_LONG, |len| (len / 8) as u32).to_le_bytes());
        }
        seal(&mut page, crc32c::crc32c_append(self.salt_crc, &first_unit.to_le_bytes()));

        self.push_separator();
        self.separator_ends.push(self.separators.len() as u32);
        self.first_units.push(first_unit);
        self.pages.append(&mut page);
        self.last_form = self.form(entries - 1).to_vec();
        self.forms.clear();
        self.form_ends.clear();
        self.places.clear();
    }

    fn push_separator(&mut self) {
        if self.first_units.is_empty() {
            return;
        }
        let first = self.form(0);
        let separator = if first == self.last_form {
            [first, &[0]].concat()
        } else {
            first.get(..common_len(first, &self.last_form) + 1).unwrap_or(first).to_vec()
        };
        self.separators.extend(separator);
    }
}

fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Puts the checksum of all that follows into the first four bytes.
fn seal(bytes: &mut [u8], crc: u32) {
    if let Some((head, rest)) = bytes.split_first_chunk_mut::<4>() {
        *head = crc32c::crc32c_append(crc, rest).to_le_bytes();
    }
}

/// Checks the checksum in the first four bytes over all that follows.
fn checked_head<'a>(bytes: &'a [u8], crc: u32, name: &str) -> Decoded<Cursor<'a>> {
    let mut cursor = Cursor::new(bytes);
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
    /// When it is not one, or does not fit that index.
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
            steps.all(|(a, b)| b.checked_sub(*a).is_some_and(|units| PAGE_UNITS.contains(&units)));
        if !ends_rise || !units_rise || first_units.first() != Some(&0) && pages > 0 {
            return Err(Invalid::damaged(16, "the pages of the index do not follow one another"));
        }
        Ok(Self { separators, separator_ends, first_units })
    }

    /// Pages of the index.
    pub fn pages(&self) -> usize {
        self.separator_ends.len()
    }

    /// Bytes it takes in memory, about.
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

    /// Whether older versions of this key go on in this page: its separator then is the sort form and a zero.
    pub fn continues(&self, number: usize, form: &[u8]) -> bool {
        number < self.pages() && self.separator(number).strip_suffix(&[0]) == Some(form)
    }

    fn separator(&self, number: usize) -> &[u8] {
        let start =
            number.checked_sub(1).and_then(|before| self.separator_ends.get(before)).copied().unwrap_or(0);
        let end = self.separator_ends.get(number).copied().unwrap_or(start);
        self.separators.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// A page whose checksum and structure have been verified.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    prefix: &'a [u8],
    ends: &'a [u8],
    end_len: usize,
    suffixes: &'a [u8],
    offsets: &'a [u8],
    spans: &'a [u8],
}

impl<'a> Page<'a> {
    /// Verifies a page that begins at `first_unit` of its index.
    ///
    /// # Errors
    /// When it is not what was written.
    pub fn verify(bytes: &'a [u8], salt_crc: u32, first_unit: u32) -> Decoded<Self> {
        let crc = crc32c::crc32c_append(salt_crc, &first_unit.to_le_bytes());
        checked_head(bytes, crc, "index page")?;
        let page = Self::parse(bytes)?;
        let mut before = 0;
        for number in 0..page.len() {
            let end = page.end(number);
            if end < before || end > page.suffixes.len() {
                return Err(Invalid::damaged(12, "the keys of an index page do not follow one another"));
            }
            before = end;
        }
        Ok(page)
    }

    /// Looks at a page that was verified before.
    ///
    /// # Errors
    /// When the parts do not fit into it.
    pub fn parse(bytes: &'a [u8]) -> Decoded<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.take(4)?;
        let entries = usize::from(cursor.u16()?);
        cursor.reserved(2)?;
        let prefix_len = cursor.u32()? as usize;
        let prefix = cursor.take(prefix_len)?;
        let end_len = if bytes.len() > UNIT { 4 } else { 2 };
        let ends = cursor.take(entries * end_len)?;
        let suffixes_len = cursor.left().checked_sub(entries * VALUE_LEN);
        let Some(suffixes_len) = suffixes_len.filter(|_| entries > 0) else {
            return Err(Invalid::damaged(4, format!("{entries} entries do not fit into an index page")));
        };
        let suffixes = cursor.take(suffixes_len)?;
        let (offsets, spans) = (cursor.take(entries * 5)?, cursor.take(entries * 4)?);
        Ok(Self { prefix, ends, end_len, suffixes, offsets, spans })
    }

    /// Entries, at least 1.
    pub fn len(&self) -> usize {
        self.spans.len() / 4
    }

    /// Never true of a verified page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of an entry.
    pub fn place(&self, number: usize) -> Option<Place> {
        let offset = self.offsets.get(number * 5..number * 5 + 5)?;
        let offset = offset.iter().rev().fold(0, |all, &byte| (all << 8) | u64::from(byte)) * 8;
        let span = self.spans.get(number * 4..)?.first_chunk::<4>()?;
        let span = u32::from_le_bytes(*span);
        Some(Place { offset, len: (span != SPAN_LONG).then_some(u64::from(span) * 8) })
    }

    /// Appends the sort form of an entry to `form`.
    pub fn form_into(&self, number: usize, form: &mut Vec<u8>) {
        form.extend_from_slice(self.prefix);
        form.extend_from_slice(self.suffix(number));
    }

    /// The number of the first entry that is not before `form`; `len()` if all are.
    pub fn lower_bound(&self, form: &[u8]) -> usize {
        let Some(rest) = form.strip_prefix(self.prefix) else {
            return if form < self.prefix { 0 } else { self.len() };
        };
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.suffix(middle) < rest { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Whether an entry has exactly this sort form.
    pub fn is_at(&self, number: usize, form: &[u8]) -> bool {
        number < self.len() && form.strip_prefix(self.prefix).is_some_and(|rest| rest == self.suffix(number))
    }

    fn suffix(&self, number: usize) -> &'a [u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.end(before));
        self.suffixes.get(start..self.end(number)).unwrap_or_default()
    }

    fn end(&self, number: usize) -> usize {
        let at = number * self.end_len;
        let bytes = self.ends.get(at..at + self.end_len).unwrap_or_default();
        bytes.iter().rev().fold(0, |all, &byte| (all << 8) | usize::from(byte))
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn one_page_holds_the_newest_version_of_every_key() {
        let mut keys = Vec::new();
        for n in 0..5000u64 {
            keys.push((format!("\x01dir{:03}/file{n:05}", n % 100).into_bytes(), n));
        }
        // A key with versions over several pages, and its neighbours by one byte.
        for n in 5000..6500u64 {
            keys.push((b"\x01dir050/x".to_vec(), n));
        }
        keys.push((b"\x01dir050/x\0".to_vec(), 7000));
        keys.push((vec![1; 65_536], 7001));
        keys.push((vec![1; 65_535], 7002));
        let entries = sorted(keys);
        let (index, top) = built(&entries);
        assert!(top.pages() > 20);
        let mut seen = 0;
        for number in 0..top.pages() {
            let page = page(&index, &top, number);
            for entry in 0..page.len() {
                let mut form = Vec::new();
                page.form_into(entry, &mut form);
                assert_eq!((&form, page.place(entry).unwrap()), (&entries[seen].0, entries[seen].1));
                seen += 1;
            }
        }
        assert_eq!(seen, entries.len());
        for (at, (form, place)) in entries.iter().enumerate() {
            if at > 0 && entries[at - 1].0 == *form {
                continue;
            }
            let page = page(&index, &top, top.find(form));
            let entry = page.lower_bound(form);
            assert!(page.is_at(entry, form));
            assert_eq!(page.place(entry), Some(*place));
        }
        let crossing = (1..top.pages()).filter(|&page| top.continues(page, b"\x01dir050/x")).count();
        assert!(crossing >= 3, "1,500 versions fill several pages, and each says so");
        assert!((1..top.pages()).all(|page| !top.continues(page, b"\x01dir050/x\0")));
        for absent in [&b""[..], b"\x01", b"\x01dir050/w", b"\x01dir050/x\0\0", b"\x02", &[1; 65_534]] {
            let page = page(&index, &top, top.find(absent));
            assert!(!page.is_at(page.lower_bound(absent), absent));
        }
    }

    #[test]
    fn any_flipped_bit_of_page_or_top_is_told() {
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
