//! [`Finder`]: an index page prepared for many searches, in memory only; and the same for the top.
//!
//! Pages are stored so that they are small, and a search in one goes through the differences of up
//! to sixteen keys. A page whose keys all have one length, and differ in at most eight bytes that
//! follow one another, is a list of numbers as well; so are most separators. These are found by
//! [`Heads`].

use bytes::Bytes;

use super::heads::{Heads, head};
use super::index::{Place, Top, common_len};
use super::page::{Columns, Page};

/// What all keys begin with.
#[derive(Debug)]
struct Prefix {
    /// The first eight bytes, or as many as there are, as a number: a comparison of two words.
    word: u64,
    /// The others.
    more: Box<[u8]>,
    len: usize,
}

impl Prefix {
    /// What two keys have in common.
    fn of(first: &[u8], last: &[u8]) -> Self {
        let len = common_len(first, last);
        let word = head(first, 0, len.min(8));
        Self { word, more: first.get(8..len).unwrap_or_default().into(), len }
    }

    #[inline]
    fn begins(&self, form: &[u8]) -> bool {
        form.len() >= self.len
            && head(form, 0, self.len.min(8)) == self.word
            && (self.more.is_empty() || form.get(8..).is_some_and(|rest| rest.starts_with(&self.more)))
    }
}

/// A page, prepared.
#[derive(Debug)]
pub(crate) struct Finder {
    form_len: usize,
    prefix: Prefix,
    heads: Heads,
    columns: Columns,
}

impl Finder {
    /// Prepares a verified page; `None` when its keys are not of the kind that can be.
    pub(crate) fn of(bytes: &Bytes) -> Option<Self> {
        let page = Page::parse(bytes).ok()?;
        let mut cursor = page.entries();
        let first = cursor.form().to_vec();
        let mut last = Vec::new();
        while cursor.is_valid() {
            if cursor.form().len() != first.len() {
                return None;
            }
            last.clear();
            last.extend_from_slice(cursor.form());
            cursor.advance();
        }
        let prefix = Prefix::of(&first, &last);
        let head_len = first.len().checked_sub(prefix.len).filter(|&len| len <= 8)?;
        let mut numbers = Vec::with_capacity(page.len());
        let mut cursor = page.entries();
        while cursor.is_valid() {
            numbers.push(head(cursor.form(), prefix.len, head_len));
            cursor.advance();
        }
        let columns = page.columns(bytes)?;
        Some(Self { form_len: first.len(), prefix, heads: Heads::new(&numbers), columns })
    }

    /// The place of the newest version of a key in this page.
    #[inline]
    pub(crate) fn find(&self, form: &[u8]) -> Option<Place> {
        // All keys of the page are alike in this, so what is not cannot be among them.
        if form.len() != self.form_len || !self.prefix.begins(form) {
            return None;
        }
        let (at, is_it) = self.heads.find(head(form, self.prefix.len, self.form_len - self.prefix.len));
        is_it.then(|| self.columns.place(at)).flatten()
    }

    /// Prefetches what a search for a key will read.
    #[inline]
    pub(crate) fn prefetch(&self, form: &[u8]) {
        let wanted = head(form, self.prefix.len, self.form_len.saturating_sub(self.prefix.len));
        self.columns.prefetch(self.heads.prefetch(wanted));
    }

    /// Its approximate size in memory besides the page, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.heads.memory_bytes()
    }
}

/// The top of an index, prepared.
#[derive(Debug)]
pub(crate) struct TopFinder {
    prefix: Prefix,
    head_len: usize,
    heads: Heads,
}

impl TopFinder {
    /// Prepares a top; `None` when its separators are not of the kind that can be.
    pub(crate) fn of(top: &Top) -> Option<Self> {
        // The first page has none.
        let separators = || (1..top.pages()).map(|number| top.separator(number));
        let (first, last) = (separators().next()?, separators().next_back()?);
        let prefix = Prefix::of(first, last);
        let longest = separators().map(<[u8]>::len).max()?;
        let head_len = longest.checked_sub(prefix.len).filter(|&len| len <= 8)?;
        let numbers: Vec<u64> = separators().map(|separator| head(separator, prefix.len, head_len)).collect();
        Some(Self { prefix, head_len, heads: Heads::new(&numbers) })
    }

    /// What [`Top::find`] finds, unless the key is of another kind.
    #[inline]
    pub(crate) fn find(&self, form: &[u8]) -> Option<usize> {
        // Of a key that is at least as long as any separator, the first bytes alone decide.
        if form.len() < self.prefix.len + self.head_len || !self.prefix.begins(form) {
            return None;
        }
        // The page follows the last separator that is not greater: as many as those before it.
        let above = head(form, self.prefix.len, self.head_len).checked_add(1)?;
        Some(self.heads.find(above).0)
    }

    /// Its approximate size in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.heads.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::UNIT;
    use super::super::index::IndexBuilder;
    use super::*;

    /// Searches through finders and without them must agree for these keys, those beside them, and
    /// others.
    fn agrees(mut forms: Vec<Vec<u8>>, prepared_min: usize) {
        forms.sort();
        let mut builder = IndexBuilder::new(5);
        for (number, form) in forms.iter().enumerate() {
            // Of versions of one key the newest, with the highest offset, comes first.
            builder.push(form, Place::new((forms.len() - number) as u64 * 160, 160 + number as u64 % 3 * 8));
        }
        let index = builder.finish().unwrap();
        let top = Top::decode(&index.top, 5, index.pages.len() as u64).unwrap();
        let pages = Bytes::from(index.pages);
        let page_of = |number| {
            let (first, len) = top.page(number).unwrap();
            pages.slice(first as usize * UNIT..first as usize * UNIT + len)
        };
        let finders: Vec<_> = (0..top.pages()).map(|number| Finder::of(&page_of(number))).collect();
        assert!(finders.iter().flatten().count() >= prepared_min, "{} pages", top.pages());
        let top_finder = TopFinder::of(&top);
        let near = |form: &Vec<u8>| {
            let (mut longer, mut shorter, mut other) = (form.clone(), form.clone(), form.clone());
            longer.push(0);
            shorter.pop();
            if let Some(last) = other.last_mut() {
                *last = last.wrapping_add(1);
            }
            [form.clone(), longer, shorter, other]
        };
        let others = [vec![], vec![1], vec![2; 9], vec![0xff; 9], vec![1; 70]];
        for form in forms.iter().flat_map(near).chain(others) {
            let number = top.find(&form);
            if let Some(found) = top_finder.as_ref().and_then(|finder| finder.find(&form)) {
                assert_eq!(found, number, "{form:?}");
            }
            if let Some(finder) = &finders[number] {
                let bytes = page_of(number);
                let page = Page::parse(&bytes).unwrap();
                let wanted = page.find(&form).next().and_then(|at| page.place(at));
                assert_eq!(finder.find(&form), wanted, "{form:?}");
            }
        }
    }

    fn id(number: u64) -> Vec<u8> {
        [&[2][..], &number.to_be_bytes()].concat()
    }

    #[test]
    fn finders_find_what_a_search_finds() {
        agrees(vec![id(7)], 1);
        agrees((0..5000).map(id).collect(), 5);
        agrees((0..5000).map(|n| id(n * n)).collect(), 5);
        agrees((0..5000_u64).map(|n| id(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect(), 10);
        agrees((0..5000).map(|n| id(n / 7)).collect(), 5);
        agrees((0..3000).map(|n| id(n / 2000)).collect(), 3);
        agrees((0..5000).map(|n| format!("\x01file{n:07}").into_bytes()).collect(), 5);
        agrees((0..5000).map(|n| format!("\x01d{:02}/f{n}", n % 9).into_bytes()).collect(), 0);
        agrees((0..200_u8).map(|n| vec![1; usize::from(n)]).collect(), 0);
        agrees((0..300).map(|n| [vec![1; 60], id(n)].concat()).collect(), 0);
        agrees((0..300).map(id).chain((0..300).map(|n| vec![1, n as u8, (n >> 8) as u8])).collect(), 0);
    }
}
