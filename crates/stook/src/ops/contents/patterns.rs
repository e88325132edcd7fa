//! [`KeyPatterns`]: which keys patterns mean.

use crate::names::{PatternError, Patterns};
use crate::pack::{self, FileKind, Key, KeyEntry, KeyValue, Pack};

/// Patterns that a key may match; without patterns, every key matches. A key that equals the text
/// of one of them, as keys are shown, matches, too.
#[derive(Debug, Default)]
pub struct KeyPatterns {
    patterns: Option<Patterns>,
    keys: Vec<Key>,
}

impl KeyPatterns {
    /// The patterns of these texts.
    ///
    /// # Errors
    /// Returns an error if one of them is invalid.
    pub fn new(texts: &[String]) -> Result<Self, PatternError> {
        let patterns = if texts.is_empty() { None } else { Some(Patterns::new(texts)?) };
        // A pattern need not be a key; most are.
        let keys = texts.iter().filter_map(|text| Key::parse(text.as_bytes()).ok()).collect();
        Ok(Self { patterns, keys })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_none()
    }

    /// Whether the key of an entry of this kind matches one of them; a numeric one as `id:N`.
    pub fn matches(&self, key: &Key, kind: Option<FileKind>) -> bool {
        let Some(patterns) = &self.patterns else { return true };
        self.keys.contains(key)
            || match key.value() {
                KeyValue::Bytes(path) if kind == Some(FileKind::Directory) => {
                    patterns.matches_directory(path)
                }
                KeyValue::Bytes(path) => patterns.matches(path),
                KeyValue::Id(_) => patterns.matches(key.to_string().as_bytes()),
            }
    }

    /// Returns the entries that match, in order. If the kind decides, heads are read, as one batch;
    /// the damage of an entry takes its place.
    ///
    /// # Errors
    /// Returns an error if reading is impossible at all.
    pub fn matching(&self, pack: &Pack, entries: Vec<KeyEntry>) -> pack::Result<Vec<pack::Result<KeyEntry>>> {
        let Some(patterns) = &self.patterns else { return Ok(entries.into_iter().map(Ok).collect()) };
        let asks = |entry: &KeyEntry| entry.key.as_bytes().is_some_and(|path| patterns.depend_on_kind(path));
        let asked: Vec<KeyEntry> = entries.iter().filter(|entry| asks(entry)).cloned().collect();
        let mut heads = pack.heads(&asked)?.into_iter();
        let mut matching = Vec::with_capacity(entries.len());
        for entry in entries {
            let head = if asks(&entry) { heads.next().transpose() } else { Ok(None) };
            match head {
                Ok(head) => {
                    let kind = head.and_then(|head| head.attributes.file_kind());
                    matching.extend(self.matches(&entry.key, kind).then_some(Ok(entry)));
                }
                Err(damage) => matching.push(Err(damage)),
            }
        }
        Ok(matching)
    }
}
