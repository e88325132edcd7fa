//! [`KeyRange`]: which keys a scan or a list is about.

use crate::pack::key::Key;

/// Keys from one on, up to another that is not among them; all keys by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyRange {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    pub fn all() -> Self {
        Self::default()
    }

    /// Keys that begin with this (a sort form or the beginning of one: see [`Key::sort_form`]).
    pub fn prefix(form: &[u8]) -> Self {
        let mut end = form.to_vec();
        // The least form that is greater than all that begin so.
        let end = loop {
            match end.pop() {
                None => break None,
                Some(u8::MAX) => {}
                Some(last) => {
                    end.push(last + 1);
                    break Some(end);
                }
            }
        };
        Self { start: form.to_vec(), end }
    }

    /// Of these, only keys that are not before `key`.
    #[must_use]
    pub fn from(mut self, key: &Key) -> Self {
        if key.sort_form() > self.start.as_slice() {
            self.start = key.sort_form().to_vec();
        }
        self
    }

    /// Of these, only keys that are before `key`.
    #[must_use]
    pub fn to(mut self, key: &Key) -> Self {
        if self.end.as_deref().is_none_or(|end| key.sort_form() < end) {
            self.end = Some(key.sort_form().to_vec());
        }
        self
    }

    /// Whether a key is one of these.
    pub fn contains(&self, key: &Key) -> bool {
        let form = key.sort_form();
        form >= self.start.as_slice() && !self.is_past(form)
    }

    /// Whether every key is one of these.
    pub fn is_all(&self) -> bool {
        self.start.is_empty() && self.end.is_none()
    }

    /// Where they begin, as a sort form or the beginning of one.
    pub(crate) fn start(&self) -> &[u8] {
        &self.start
    }

    /// Where they end.
    pub(crate) fn end(&self) -> Option<&[u8]> {
        self.end.as_deref()
    }

    pub(crate) fn from_bounds(start: Vec<u8>, end: Option<Vec<u8>>) -> Self {
        Self { start, end }
    }

    /// Whether a sort form is after all of these.
    pub(crate) fn is_past(&self, form: &[u8]) -> bool {
        self.end.as_deref().is_some_and(|end| form >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: impl AsRef<[u8]>) -> Key {
        Key::bytes(bytes).unwrap()
    }

    #[test]
    fn a_prefix_holds_what_begins_so_and_nothing_else() {
        let range = KeyRange::prefix(key(b"a\xff").sort_form());
        for (bytes, is_in) in [(&b"a\xff"[..], true), (b"a\xff\xff\xff", true), (b"a\xfe\xff", false)] {
            assert_eq!(range.contains(&key(bytes)), is_in, "{bytes:?}");
        }
        assert!(!range.contains(&key("b")) && !range.contains(&Key::id(0)));
        let ids = KeyRange::prefix(&Key::id(0).sort_form()[..1]);
        assert!(ids.contains(&Key::id(u64::MAX)) && !ids.contains(&key([0xff; 9])));
        assert!(KeyRange::prefix(&[]).is_all());
    }

    #[test]
    fn bounds_only_narrow() {
        let range = KeyRange::prefix(key("b").sort_form()).from(&key("a")).to(&key("z"));
        assert_eq!(range, KeyRange::prefix(key("b").sort_form()));
        let range = range.from(&key("b5")).to(&key("b7"));
        let held: Vec<_> = (0..10).filter(|n| range.contains(&key(format!("b{n}")))).collect();
        assert_eq!(held, [5, 6]);
        assert!(!KeyRange::all().from(&key("b")).to(&key("a")).contains(&key("a")));
    }
}
