//! The keys that somebody asks for: typed, and from a list of any length.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use stook::pack::{Error, KEY_LEN_MAX, Key};

use crate::packs;

/// The longest line: a key with the longest escape before it, and its end.
const LINE_LEN_MAX: u64 = KEY_LEN_MAX as u64 + 7;

/// Keys, a batch at a time.
pub(super) struct KeyList {
    typed: Vec<Key>,
    list: Option<(Box<dyn BufRead>, String)>,
    end: u8,
}

impl KeyList {
    /// Typed keys first, then those of the list.
    ///
    /// # Errors
    /// When a typed key is none, or the list cannot be opened.
    pub(super) fn new(typed: &[OsString], list: Option<&Path>, null: bool) -> anyhow::Result<Self> {
        let typed = typed.iter().map(|text| packs::parse_key(text)).collect::<Result<_, _>>()?;
        let list: Option<(Box<dyn BufRead>, String)> = match list {
            None => None,
            Some(path) if path == Path::new("-") => {
                Some((Box::new(BufReader::new(io::stdin())), "stdin".to_owned()))
            }
            Some(path) => {
                let file = fs::File::open(path).map_err(|error| stook::Error::io("open", path, error))?;
                Some((Box::new(BufReader::new(file)), path.display().to_string()))
            }
        };
        Ok(Self { typed, list, end: if null { 0 } else { b'\n' } })
    }

    /// Up to `max` further keys; `None` after the last.
    ///
    /// # Errors
    /// When the list cannot be read, or a line is no key.
    pub(super) fn next(&mut self, max: usize) -> anyhow::Result<Option<Vec<Key>>> {
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
