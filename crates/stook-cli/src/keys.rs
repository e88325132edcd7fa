//! The keys selected by the user: typed ones, those of a list of any length, prefixes, patterns,
//! groups.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use stook::names::{ListEnd, NameList};
use stook::ops::contents::KeyPatterns;
use stook::ops::unpack::Prefix;
use stook::pack::{Error, KEY_LEN_MAX, Key, KeyRange, ScanOrder};

use crate::context::Context;
use crate::exit::UsageError;
use crate::interrupt::Interruptible;
use crate::output::printable;
use crate::packs;
use crate::select::{SelectArgs, Selection};

/// The longest line: a key of which every byte is escaped, with the longest form before it.
const LINE_LEN_MAX: u64 = 4 * KEY_LEN_MAX as u64 + 6;

/// A list that the user gave: a file, or stdin where it is `-`. Returns its name for errors, too.
///
/// # Errors
/// Returns an error if it cannot be opened.
pub(crate) fn open_list(path: &Path) -> Result<(Box<dyn BufRead>, PathBuf), stook::Error> {
    if path == Path::new("-") {
        return Ok((Box::new(BufReader::new(Interruptible::stdin()?)), PathBuf::from("stdin")));
    }
    let file = Interruptible::open(path).map_err(|error| stook::Error::io("open", path, error))?;
    Ok((Box::new(BufReader::new(file)), path.to_path_buf()))
}

/// What ends each name of a list.
pub(crate) fn list_end(null: bool) -> ListEnd {
    if null { ListEnd::Nul } else { ListEnd::Line }
}

/// Keys, a batch at a time.
pub(crate) struct KeyList {
    typed: Vec<Key>,
    list: Option<(NameList<Box<dyn BufRead>>, PathBuf)>,
}

impl KeyList {
    /// Typed keys first, then those of the list.
    ///
    /// # Errors
    /// Returns an error if a typed key is invalid, or the list cannot be opened.
    pub(crate) fn new(typed: &[OsString], list: Option<&Path>, null: bool) -> anyhow::Result<Self> {
        let typed = typed.iter().map(|text| packs::parse_key(text)).collect::<Result<_, _>>()?;
        let list = list.map(open_list).transpose()?;
        let list = list.map(|(from, name)| (NameList::new(from, list_end(null), LINE_LEN_MAX), name));
        Ok(Self { typed, list })
    }

    /// Up to `max` further keys; `None` after the last.
    ///
    /// # Errors
    /// Returns an error if the list cannot be read, or a line is not a key.
    pub(crate) fn next(&mut self, max: usize) -> anyhow::Result<Option<Vec<Key>>> {
        let mut keys = std::mem::take(&mut self.typed);
        while let Some((list, name)) = &mut self.list {
            if keys.len() >= max {
                break;
            }
            let written = list.next_written().map_err(|source| {
                let name = name.display().to_string();
                Error::Outside { operation: "read", name, source }
            })?;
            let Some(written) = written else {
                self.list = None;
                break;
            };
            keys.push(Key::of_list(&written, list.end())?);
        }
        Ok((!keys.is_empty()).then_some(keys))
    }
}

/// The patterns on keys that an option, or an argument, gave.
///
/// # Errors
/// Returns an error if a pattern is invalid.
pub(crate) fn patterns(option: &str, texts: &[String]) -> Result<KeyPatterns, UsageError> {
    KeyPatterns::new(texts).map_err(|error| UsageError::new(format!("{option}: {error}")))
}

/// A request that matched nothing: an error, because the name may be misspelt.
#[derive(Debug, Default)]
pub(crate) struct Asked(Vec<String>);

impl Asked {
    /// With these values of an option.
    pub(crate) fn with(mut self, option: &str, values: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let quoted = |value: &OsStr| format!("{option} '{}'", stook::names::escaped(value.as_bytes()));
        self.0.extend(values.into_iter().map(|value| quoted(value.as_ref()).trim_start().to_owned()));
        self
    }

    /// Adds patterns on paths. Exclusions alone request nothing; whether they matched is recorded
    /// separately.
    pub(crate) fn with_patterns(self, select: &SelectArgs) -> Self {
        let exclude: &[String] = if select.include.is_empty() { &[] } else { &select.exclude };
        self.with("--include", &select.include).with("--exclude", exclude)
    }

    /// Reports that nothing at a path was selected to `verb`, and whether the library calls that an
    /// error; returns the number of failures.
    pub(crate) fn report_nothing_to(
        &self,
        verb: &str,
        is_error: bool,
        selection: &Selection,
        path: &Path,
        context: &Context,
    ) -> u64 {
        if is_error {
            return self.report_nothing(path, "path", context).max(1);
        }
        let path = path.display();
        match selection.leaves_nothing_on_purpose() {
            true => context.note(format_args!("nothing to {verb}: --exclude leaves nothing of {path}")),
            false => context.note(format_args!("nothing to {verb}: {path} is empty")),
        }
        0
    }

    /// Reports that nothing was found, if anything in particular was requested; returns the number
    /// of failures.
    pub(crate) fn report_nothing(&self, path: &Path, what: &str, context: &Context) -> u64 {
        if self.0.is_empty() {
            context.note(format_args!("{} has no {what}s.", path.display()));
            return 0;
        }
        let text = format!("{} has no {what} for {}", path.display(), self.0.join(" "));
        context.failure(anyhow::anyhow!("{text}").as_ref());
        1
    }
}

/// An exclusion that matches nothing may be misspelt, and then unwanted keys are selected.
pub(crate) fn note_unmatched(selection: &Selection, context: &Context) {
    for pattern in selection.unmatched_exclusions() {
        context.note(format_args!("--exclude '{}' matched nothing.", printable(pattern.as_bytes())));
    }
}

/// Typed keys of which some are not there: one that looks like a pattern was meant as one, which
/// something else takes.
pub(crate) fn note_patterns(typed: &[OsString], instead: impl std::fmt::Display, context: &Context) {
    if typed.iter().any(|key| key.as_bytes().iter().any(|byte| b"*?[".contains(byte))) {
        context.note(format_args!("A KEY is taken as it is written; {instead} takes patterns."));
    }
}

/// Reports that a list of keys has none in it: how many failures that makes.
pub(crate) fn report_no_keys(context: &Context) -> u64 {
    context.failure(anyhow::anyhow!("the list of keys is empty: nothing was asked for").as_ref());
    1
}

/// The sort form that keys with a prefix begin with; that of all keys where none is given.
///
/// # Errors
/// Returns an error if it is not a prefix of a key.
pub(crate) fn prefix(given: Option<&OsStr>) -> Result<Vec<u8>, UsageError> {
    Ok(match given {
        // All numeric keys; none of them begins like another.
        Some(prefix) if prefix == "id:" => Key::IDS.to_vec(),
        Some(prefix) => begin(prefix)?.sort_form().to_vec(),
        None => Vec::new(),
    })
}

/// The key that a prefix would be. One without text begins every key of bytes, though as a key it
/// is refused.
fn begin(prefix: &OsStr) -> Result<Key, UsageError> {
    let text = if prefix.is_empty() { OsStr::new("bytes:") } else { prefix };
    packs::parse_key(text)
}

/// The refusal of an option that is empty, where that selects what is to be deleted: a variable
/// that is not set gives just that. `instead` does it on purpose.
pub(crate) fn refuse_empty(option: &str, means: &str, instead: &str) -> UsageError {
    UsageError::new(format!(
        "{option} '' means {means} (is a variable not set?); {instead}, if that is meant"
    ))
}

/// What paths with a prefix begin with.
///
/// # Errors
/// Returns an error if it is not a prefix of a key.
pub(crate) fn path_prefix(given: Option<&OsStr>) -> Result<Prefix, UsageError> {
    match given {
        None => Ok(Prefix::Any),
        Some(prefix) if prefix == "id:" => Ok(Prefix::Numbers),
        Some(prefix) => Ok(Prefix::of(&begin(prefix)?)),
    }
}

/// A range of the keys in their order.
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
    /// The request, to be reported if it matches nothing.
    pub(crate) fn asked(&self) -> Asked {
        Asked::default().with("--prefix", &self.prefix).with("--from", &self.from).with("--to", &self.to)
    }

    /// The keys that are meant.
    ///
    /// # Errors
    /// Returns an error if one of them is not a key.
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
