//! Which keys somebody means: typed ones, those of a list of any length, prefixes, patterns, groups.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use stook::pack::{Error, KEY_LEN_MAX, Key, KeyRange, KeyValue, ScanOrder};

use crate::exit::UsageError;
use crate::interrupt::Interruptible;
use crate::packs;

/// The longest line: a key with the longest escape before it, and its end.
const LINE_LEN_MAX: u64 = KEY_LEN_MAX as u64 + 7;

/// Keys, a batch at a time.
pub(crate) struct KeyList {
    typed: Vec<Key>,
    list: Option<(Box<dyn BufRead>, String)>,
    end: u8,
}

impl KeyList {
    /// Typed keys first, then those of the list.
    ///
    /// # Errors
    /// When a typed key is none, or the list cannot be opened.
    pub(crate) fn new(typed: &[OsString], list: Option<&Path>, null: bool) -> anyhow::Result<Self> {
        let typed = typed.iter().map(|text| packs::parse_key(text)).collect::<Result<_, _>>()?;
        let list: Option<(Box<dyn BufRead>, String)> = match list {
            None => None,
            Some(path) if path == Path::new("-") => {
                Some((Box::new(BufReader::new(Interruptible::stdin()?)), "stdin".to_owned()))
            }
            Some(path) => {
                let file =
                    Interruptible::open(path).map_err(|error| stook::Error::io("open", path, error))?;
                Some((Box::new(BufReader::new(file)), path.display().to_string()))
            }
        };
        Ok(Self { typed, list, end: if null { 0 } else { b'\n' } })
    }

    /// Up to `max` further keys; `None` after the last.
    ///
    /// # Errors
    /// When the list cannot be read, or a line is no key.
    pub(crate) fn next(&mut self, max: usize) -> anyhow::Result<Option<Vec<Key>>> {
        let mut keys = std::mem::take(&mut self.typed);
        while let Some((reader, name)) = &mut self.list {
            if keys.len() >= max {
                break;
            }
            let mut line = Vec::new();
            let got = reader.by_ref().take(LINE_LEN_MAX).read_until(self.end, &mut line);
            let got =
                got.map_err(|source| Error::Outside { operation: "read", name: name.clone(), source })?;
            if got == 0 {
                self.list = None;
                break;
            }
            if line.last() == Some(&self.end) {
                line.pop();
            }
            if !line.is_empty() {
                keys.push(Key::parse(&line)?);
            }
        }
        Ok((!keys.is_empty()).then_some(keys))
    }
}

/// Patterns that a key may match; all do where there is none.
#[derive(Debug)]
pub(crate) struct Globs(Option<GlobSet>);

impl Globs {
    /// # Errors
    /// When a pattern is none.
    pub(crate) fn new(patterns: &[String]) -> Result<Self, UsageError> {
        if patterns.is_empty() {
            return Ok(Self(None));
        }
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let glob = GlobBuilder::new(pattern).literal_separator(true).build();
            set.add(glob.map_err(|error| UsageError::new(format!("the pattern is wrong: {error}")))?);
        }
        let built = set.build();
        built
            .map(|set| Self(Some(set)))
            .map_err(|error| UsageError::new(format!("the patterns are too many: {error}")))
    }

    /// Whether a key matches one of them; a numeric one as `id:N`.
    pub(crate) fn match_key(&self, key: &Key) -> bool {
        let Some(globs) = &self.0 else { return true };
        match key.value() {
            KeyValue::Bytes(bytes) => globs.is_match(OsStr::from_bytes(bytes)),
            KeyValue::Id(_) => globs.is_match(key.to_string()),
        }
    }
}

/// The sort form that keys with a prefix begin with; that of all keys where none is given.
///
/// # Errors
/// When it is no prefix of a key.
pub(crate) fn prefix(given: Option<&OsStr>) -> Result<Vec<u8>, UsageError> {
    Ok(match given {
        // All numeric keys; none of them begins like another.
        Some(prefix) if prefix == "id:" => Key::id(0).sort_form().iter().copied().take(1).collect(),
        Some(prefix) => packs::parse_key(prefix)?.sort_form().to_vec(),
        None => Vec::new(),
    })
}

/// The bytes that keys with a prefix begin with; `None` where only numbers are meant, which archives do not have.
///
/// # Errors
/// When it is no prefix of a key.
pub(crate) fn bytes_prefix(given: Option<&OsStr>) -> Result<Option<Vec<u8>>, UsageError> {
    match given {
        None => Ok(Some(Vec::new())),
        Some(prefix) if prefix == "id:" => Ok(None),
        Some(prefix) => Ok(packs::parse_key(prefix)?.as_bytes().map(<[u8]>::to_vec)),
    }
}

/// A stretch of the keys in their order.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct KeyArgs {
    /// Only keys that begin so
    #[arg(long)]
    pub(crate) prefix: Option<OsString>,
    /// Only this key and those after it
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
}

impl KeyArgs {
    /// Whether not all keys are meant.
    pub(crate) fn is_given(&self) -> bool {
        self.prefix.is_some() || self.from.is_some() || self.to.is_some()
    }

    /// The keys that are meant.
    ///
    /// # Errors
    /// When one of them is no key.
    pub(crate) fn range(&self) -> Result<KeyRange, UsageError> {
        let mut range = KeyRange::prefix(&prefix(self.prefix.as_deref())?);
        if let Some(from) = &self.from {
            range = range.from(&packs::parse_key(from)?);
        }
        if let Some(to) = &self.to {
            range = range.to(&packs::parse_key(to)?);
        }
        Ok(range)
    }
}

/// In which order records are gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// As they are on the medium
    Disk,
    /// By key
    Key,
}

impl From<Order> for ScanOrder {
    fn from(order: Order) -> Self {
        match order {
            Order::Disk => Self::Disk,
            Order::Key => Self::Key,
        }
    }
}

/// Whether a group is among those that were asked for; all are where none was.
pub(crate) fn is_in(groups: &[String], group: &str) -> bool {
    groups.is_empty() || groups.iter().any(|wanted| wanted == group)
}
