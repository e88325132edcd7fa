//! Failures of single paths, while a command continues with the others.

use std::error::Error;
use std::path::Path;

use serde::Serialize;
use stook::ops::{copy, unpack};
use stook::pack::{self, Damage};
use stook::report::json::TextOrBytes;
use stook::report::units;
use stook::tree::Failure;

use crate::context::{Context, SHOWN_MAX};
use crate::exit::chain;
use crate::output::printable;

/// A failure in JSON.
#[derive(Debug, Serialize)]
pub struct Failed<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    error: String,
}

impl<'a> Failed<'a> {
    /// All of them.
    pub fn all<E: Error + 'static>(failures: &'a [Failure<E>]) -> Vec<Self> {
        let one = |failure: &'a Failure<E>| Self {
            key: TextOrBytes::key(&failure.key),
            error: chain(&failure.error),
        };
        failures.iter().map(one).collect()
    }
}

/// A failure of one path.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {error}")]
struct PathError {
    key: String,
    error: String,
}

/// The ones of many that are reported, and the number of the others: without `--verbose`, output is
/// limited.
pub fn few<T>(all: &[T], verbose: bool) -> (&[T], Option<String>) {
    let reported = if verbose { all } else { all.get(..SHOWN_MAX).unwrap_or(all) };
    let more = all.len() - reported.len();
    (reported, (more > 0).then(|| units::count(more as u64)))
}

/// The damage in an error of the library, if it is one.
fn damage_of<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Damage> {
    let of_pack = error.downcast_ref().and_then(pack::Error::damage);
    let of_unpack = || error.downcast_ref().and_then(unpack::Error::damage);
    of_pack.or_else(of_unpack).or_else(|| error.downcast_ref().and_then(copy::damage_of))
}

/// Reports that an existing file stays, because its replacement would be incomplete.
pub fn report_kept_file(path: &Path, context: &Context) {
    let text = format!("not replacing {}: the new one would be empty or incomplete", path.display());
    context.failure(anyhow::anyhow!("{text}").as_ref());
    context.note("Use `--force` to replace it, or another FILE to write what is whole.");
}

/// An error that spells a path as its key is printed: in a path that is not UTF-8, errors show the
/// bytes that are none by a character that stands for any.
fn spelled(error: String, key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(_) => error,
        Err(_) => error.replace(&*String::from_utf8_lossy(key), &printable(key)),
    }
}

/// Prints them on stderr, the first ten or all.
pub fn print<E: Error + 'static>(context: &Context, failures: &[Failure<E>], verbose: bool) {
    let (reported, more) = few(failures, verbose);
    // How much is damaged is reported with these.
    for damage in failures.iter().skip(reported.len()).filter_map(|failure| damage_of(&failure.error)) {
        context.mark_reported(std::slice::from_ref(damage));
    }
    for failure in reported {
        let error = match damage_of(&failure.error) {
            Some(damage) if failure.key.is_empty() => {
                // No path is known: it is reported with all that is known of the pack.
                context.damaged(std::slice::from_ref(damage));
                continue;
            }
            Some(damage) => context.damage_text(damage),
            None => spelled(chain(&failure.error), &failure.key),
        };
        // Of all of it, and no path in it: the error says where.
        if failure.key.is_empty() {
            context.failure(anyhow::anyhow!("{error}").as_ref());
            continue;
        }
        context.failure(&PathError { key: printable(&failure.key), error });
    }
    if let Some(more) = more {
        context.failure(anyhow::anyhow!("… and {more} more failures; `--verbose` names them all").as_ref());
    }
}
