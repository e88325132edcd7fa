//! Failures of single paths, while a command goes on with the others.

use serde::Serialize;
use stook::pack::tree::Failure;
use stook::report::json::TextOrBytes;

use crate::context::Context;
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
    pub fn all(failures: &'a [Failure]) -> Vec<Self> {
        let one =
            |failure: &'a Failure| Self { key: TextOrBytes::key(&failure.key), error: chain(&failure.error) };
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

/// Tells all of them on stderr.
pub fn tell(context: &Context, failures: &[Failure]) {
    for failure in failures {
        let error = match failure.error.damage() {
            Some(damage) if failure.key.is_empty() => {
                // No path is known: it is told with all that is known of the pack.
                context.damaged(std::slice::from_ref(damage));
                continue;
            }
            Some(damage) => context.told_one(damage),
            None => chain(&failure.error),
        };
        context.failure(&PathError { key: printable(&failure.key), error });
    }
}
