//! What is told to who runs the mount: one line for each file that could not be read, bounded.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use stook::names::escaped_controls;

/// The last lines are kept for the status.
const KEPT: usize = 100;
/// Lines that were said are not said again, up to this many different ones.
const KNOWN_MAX: usize = 10_000;

/// So much of a line is shown: names of hostile archives are long.
pub(crate) const LINE_LEN_MAX: usize = 1000;

/// A text as one line of bounded length, without control characters.
pub(crate) fn one_line(text: &str) -> String {
    let line = escaped_controls(text);
    match line.char_indices().nth(LINE_LEN_MAX) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.into_owned(),
    }
}

/// Takes a line of the log.
pub(crate) type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// The log of a mount.
pub(crate) struct Log {
    say: Say,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: HashSet<String>,
    last: VecDeque<String>,
    lines: u64,
}

impl Log {
    pub(crate) fn new(say: Say) -> Self {
        Self { say, state: Mutex::default() }
    }

    /// Says a line, unless it was said before.
    pub(crate) fn say(&self, line: &str) {
        let line = one_line(line);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.known.contains(&line) {
            return;
        }
        if state.known.len() >= KNOWN_MAX {
            state.known.clear();
        }
        state.known.insert(line.clone());
        state.lines += 1;
        if state.last.len() >= KEPT {
            state.last.pop_front();
        }
        state.last.push_back(line.clone());
        drop(state);
        (self.say)(&line);
    }

    /// How many lines there were, and the last of them.
    pub(crate) fn last(&self) -> (u64, Vec<String>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.lines, state.last.iter().cloned().collect())
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("state", &self.state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_once_and_the_last_are_kept() {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let to = said.clone();
        let log = Log::new(Arc::new(move |line| to.lock().unwrap().push(line.to_owned())));
        for number in 0..KEPT + 5 {
            log.say(&number.to_string());
            log.say(&number.to_string());
        }
        assert_eq!(said.lock().unwrap().len(), KEPT + 5);
        let (lines, last) = log.last();
        assert_eq!((lines, last.len()), (KEPT as u64 + 5, KEPT));
        log.say(&format!("a\u{1b}b\nc {}", "n".repeat(9000)));
        let hostile = said.lock().unwrap().last().unwrap().clone();
        assert!(
            hostile.starts_with("a\\x1bb\\x0ac n") && hostile.chars().count() == LINE_LEN_MAX + 1,
            "{hostile}"
        );
        assert_eq!((last[0].as_str(), last[KEPT - 1].as_str()), ("5", "104"));
    }
}
