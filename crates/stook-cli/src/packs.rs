//! What the commands on packs share: opening, addresses, groups, keys and damage as JSON.
//!
//! But for notes, nothing here prints; commands do.

use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use stook::ops;
use stook::ops::directory::open_pack;
pub use stook::ops::json::{JsonDamage, JsonKey};
use stook::ops::pack::{Hooks, Making};
use stook::pack::{DamageLog, Error, Key, OpenOptions, Pack, PackWriter};
use stook::report::json::{Document, TextOrBytes};

use crate::context::Context;
use crate::exit::UsageError;
use crate::output::{Output, OutputError};

/// Opens a pack for reading.
///
/// # Errors
/// Returns an error if there is none, or it cannot be read.
pub fn open(path: &Path, context: &Context) -> anyhow::Result<Pack> {
    Ok(open_with(path, OpenOptions::default(), context)?)
}

/// Opens a pack in some way. Every command opens packs here, so that none ends as if damage were
/// not known.
///
/// # Errors
/// Returns the errors of [`open`].
pub fn open_with(path: &Path, options: OpenOptions, context: &Context) -> Result<Pack, Error> {
    let pack = open_pack(path, options)?;
    context.watch(pack.damage_log());
    Ok(pack)
}

/// A parser of whole numbers within a range, which it names where something else is given.
pub fn number<T: TryFrom<u64> + 'static>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text: &str| {
        let number = text.parse::<u64>().ok().filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match (range.start(), range.end()) {
            (start, &u64::MAX) => format!("expected a whole number from {start} on"),
            (start, end) => format!("expected a whole number from {start} to {end}"),
        })
    }
}

/// Which state of a pack to read.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct View {
    /// The state at this time (2026-11-21T20:30:00Z, a date, or @SECONDS), within the history that
    /// compaction kept
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<i64>,
}

fn parse_time(text: &str) -> Result<i64, String> {
    stook::report::time::parse_time(text).map_err(|error| error.to_string())
}

impl View {
    /// The time, in ns.
    pub fn at_ns(self) -> Option<i64> {
        self.at
    }

    /// Opens this state of a pack.
    ///
    /// # Errors
    /// Returns an error if there is no pack, it cannot be read, or that state is not kept.
    pub fn open(self, path: &Path, context: &Context) -> anyhow::Result<Pack> {
        let options = OpenOptions { at_ns: self.at, ..OpenOptions::default() };
        Ok(open_with(path, options, context)?)
    }
}

/// As [`stook::ops::pack::put_into`]; the pack is made if `create` is set and there is none.
///
/// # Errors
/// Returns that error.
pub fn put_into<T>(
    path: &Path,
    group: &str,
    create: bool,
    context: &Context,
    put: impl FnOnce(&mut PackWriter, bool) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let making = if create { Making::IfMissing } else { Making::Never };
    ops::pack::put_into(path, group, making, &mut Opening(context), put)
}

/// What an operation that opens packs is given: notes what opening one found.
pub fn hooks(context: &Context) -> impl Hooks + '_ {
    Opening(context)
}

struct Opening<'c>(&'c Context);

impl Hooks for Opening<'_> {
    fn note(&mut self, note: &str) {
        self.0.note(note);
    }

    fn watch(&mut self, log: DamageLog) {
        self.0.watch(log);
    }
}

/// The pack (or archive, which may be an object or a `file://…`) and the key of an address
/// `PACK//KEY`; no key in a plain path.
pub fn split_address(address: &OsStr) -> (PathBuf, Option<OsString>) {
    // An existing path is taken literally, however many slashes it has.
    if Path::new(address).exists() {
        return (PathBuf::from(address), None);
    }
    if let Ok(Some(path)) = stook::source::local_path(address)
        && path.as_os_str() != address
    {
        return split_address(path.as_os_str());
    }
    let bytes = address.as_bytes();
    let slashes = || bytes.windows(2).enumerate().skip(1).filter(|(_, two)| *two == b"//").map(|(at, _)| at);
    let before = |at: usize| Path::new(OsStr::from_bytes(bytes.get(..at).unwrap_or_default()));
    // What a layout describes may be an archive with members of its own.
    let in_layout = || slashes().find(|at| ops::contents::file_of_layout(before(*at)).is_some());
    let split = slashes().find(|at| before(*at).exists()).map(|at| in_layout().unwrap_or(at));
    if split.is_none()
        && let Some((object, key)) = ops::contents::split_member(address)
    {
        return (PathBuf::from(object), Some(key));
    }
    match split {
        Some(at) => {
            let (pack, key) = bytes.split_at(at);
            let key = key.get(2..).unwrap_or_default();
            (PathBuf::from(OsStr::from_bytes(pack)), Some(OsString::from_vec(key.to_vec())))
        }
        None => (PathBuf::from(address), None),
    }
}

/// As [`split_address`], for a command that would continue without a key. Nothing after the slashes
/// is what an unset variable gives: taken for the path of a pack, the next argument would become
/// the key.
///
/// # Errors
/// Returns a [`UsageError`] if nothing follows them.
pub fn split_address_with_key(address: &OsStr) -> Result<(PathBuf, Option<OsString>), UsageError> {
    match address.as_bytes().strip_suffix(b"//") {
        Some(pack) if !pack.is_empty() => {
            let pack = OsStr::from_bytes(pack).display();
            Err(UsageError::new(format!(
                "no KEY after {pack}// (is a variable not set?); the empty key is written {pack}//bytes:"
            )))
        }
        _ => Ok(split_address(address)),
    }
}

/// The error of a command that takes a pack, and was given an address of a record: what takes it
/// is in `instead`, made of the pack and the key. `None` for what is no address.
pub fn no_address(path: &Path, instead: impl FnOnce(&str, &str) -> String) -> Option<UsageError> {
    let (pack, key) = split_address(path.as_os_str());
    let is_archive = || ops::contents::file_of_layout(path).is_some_and(|(layout, _)| layout == pack);
    let key = key.filter(|_| !path.exists() && !is_archive())?;
    let (pack, key) = (pack.display().to_string(), key.display().to_string());
    let instead = instead(&pack, &key);
    Some(UsageError::new(format!(
        "{} is the address of a record, and this takes a pack: {instead}",
        path.display()
    )))
}

/// The key that the user typed.
///
/// # Errors
/// Returns a [`UsageError`] if it is invalid.
pub fn parse_key(text: &OsStr) -> Result<Key, UsageError> {
    Key::parse(text.as_bytes()).map_err(|error| UsageError::new(error.to_string()))
}

/// A path in JSON: `NAME`, or `NAME_b64` where it is not UTF-8.
pub fn json_path<'a>(name: &'static str, path: &'a Path) -> TextOrBytes<'a> {
    TextOrBytes::new(name, path.as_os_str().as_bytes())
}

#[derive(Serialize)]
struct WithDamages<'a, T> {
    #[serde(flatten)]
    body: T,
    damages: Vec<JsonDamage<'a>>,
}

/// Prints the document of a command, with all damage that is known.
///
/// # Errors
/// Returns an error if stdout cannot be written.
pub fn print_json(
    output: &mut Output,
    name: &str,
    body: impl Serialize,
    context: &Context,
) -> Result<(), OutputError> {
    with_damages(name, body, context, |document| output.json(document))
}

/// The same as one of several JSON lines.
///
/// # Errors
/// Returns an error if stdout cannot be written.
pub fn print_json_line(
    output: &mut Output,
    name: &str,
    body: impl Serialize,
    context: &Context,
) -> Result<(), OutputError> {
    with_damages(name, body, context, |document| output.json_line(document))
}

fn with_damages<T: Serialize, R>(
    name: &str,
    body: T,
    context: &Context,
    print: impl FnOnce(&Document<WithDamages<'_, T>>) -> R,
) -> R {
    let damages = context.damages();
    print(&Document::new(name, WithDamages { body, damages: JsonDamage::all(&damages) }))
}

/// Ends JSON lines: where damage is known, with a line of it.
///
/// # Errors
/// Returns an error if stdout cannot be written.
pub fn print_last_line(output: &mut Output, context: &Context) -> Result<(), OutputError> {
    #[derive(Serialize)]
    struct Damages<'a> {
        damages: Vec<JsonDamage<'a>>,
    }
    let damages = context.damages();
    if !context.json() || damages.is_empty() {
        return Ok(());
    }
    output.json_line(&Document::new("damages", Damages { damages: JsonDamage::all(&damages) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_split_at_the_first_path_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let pack = dir.path().join("a.stook");
        std::fs::create_dir(&pack).unwrap();
        let address = |key: &str| OsString::from(format!("{}//{key}", pack.display()));
        assert_eq!(split_address(&address("x//y")), (pack.clone(), Some("x//y".into())));
        assert_eq!(split_address(pack.as_os_str()), (pack.clone(), None));
        assert_eq!(split_address(OsStr::new("no//where")), (PathBuf::from("no//where"), None));
    }

    #[test]
    fn an_address_with_nothing_after_its_slashes_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let address = |end: &str| OsString::from(format!("{}{end}", dir.path().display()));
        for end in ["//", "///", "/new//", "/new///"] {
            let refused = split_address_with_key(&address(end)).unwrap_err();
            assert!(refused.to_string().contains("is a variable not set?"), "{end}: {refused}");
        }
        for end in ["", "/", "//k", "//bytes:"] {
            assert_eq!(split_address_with_key(&address(end)).unwrap(), split_address(&address(end)));
        }
    }

    #[test]
    fn every_command_opens_packs_where_their_damage_is_noted() {
        fn sources(below: &Path, all: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(below).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { sources(&path, all) } else { all.push(path) }
            }
        }
        let mut all = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands"), &mut all);
        assert!(all.len() > 20);
        for path in all {
            let text = std::fs::read_to_string(&path).unwrap();
            let calls = [
                "Pack::open(",
                "Pack::open_path(",
                "PackWriter::open(",
                "open_writer(",
                "open_writer_with(",
                "ops::pack::put_into",
                "ops::contents::open",
            ];
            for call in calls {
                assert!(!text.contains(call), "{} in {}: use `packs`", call, path.display());
            }
        }
    }

    #[test]
    fn a_number_that_is_none_or_out_of_range_is_reported_with_what_was_expected() {
        assert_eq!(number::<u16>(1..=1024)("7"), Ok(7));
        for wrong in ["-1", "0", "1025", "", "x", "1.5"] {
            let reported = number::<u64>(1..=1024)(wrong).unwrap_err();
            assert_eq!(reported, "expected a whole number from 1 to 1024", "{wrong}");
        }
        assert_eq!(number::<u64>(1..=u64::MAX)("-1").unwrap_err(), "expected a whole number from 1 on");
    }
}
