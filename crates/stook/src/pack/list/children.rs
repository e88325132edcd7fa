//! What lies directly below a directory, where keys are paths.

use std::collections::BTreeMap;

use crate::pack::error::Result;
use crate::pack::key::{Key, KeyValue};
use crate::pack::scan::KeyRange;
use crate::pack::state::open::{KeyEntry, Pack};

/// This many keys of a directory are passed by one after another; then the rest of it is jumped
/// over, which costs a search in each index.
const PASSED_MAX: usize = 64;

/// What lies directly below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its key.
    pub key: Key,
    /// Where its record is; a directory may have none.
    pub entry: Option<KeyEntry>,
    /// Whether keys lie below it: then it is a directory, whatever its record says.
    pub has_children: bool,
}

impl Pack {
    /// What lies directly below a directory, in the order of the keys: all keys have `/` between
    /// their parts, and the topmost directory is the empty one. Numeric keys lie in that one. Of
    /// deeper keys only a few are looked at.
    ///
    /// # Errors
    /// What reading the index meets.
    pub fn children(&self, directory: &[u8]) -> Result<Vec<Child>> {
        let mut prefix = directory.to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        let mut range = match prefix.is_empty() {
            true => KeyRange::all(),
            false => KeyRange::prefix(Key::bytes(&prefix)?.sort_form()),
        };
        let mut children: BTreeMap<Key, Child> = BTreeMap::new();
        loop {
            let mut keys = self.keys_in(range.clone())?;
            let mut within: Option<(Key, usize)> = None;
            let after = loop {
                let Some(entry) = keys.next().transpose()? else {
                    return Ok(children.into_values().collect());
                };
                match below(&prefix, &entry.key)? {
                    Below::Itself => {}
                    Below::Child => {
                        let child = child_of(&mut children, entry.key.clone());
                        child.entry = Some(entry);
                    }
                    Below::Deeper(first) => {
                        child_of(&mut children, first.clone()).has_children = true;
                        let passed =
                            within.filter(|(last, _)| *last == first).map_or(0, |(_, passed)| passed);
                        if passed == PASSED_MAX {
                            break first;
                        }
                        within = Some((first, passed + 1));
                    }
                }
            };
            // `0` comes right after `/`.
            let mut form = after.as_bytes().unwrap_or_default().to_vec();
            form.push(b'/' + 1);
            range = range.from(&Key::bytes(form)?);
        }
    }
}

enum Below {
    /// The directory's own record.
    Itself,
    Child,
    /// Somewhere below this child.
    Deeper(Key),
}

fn below(prefix: &[u8], key: &Key) -> Result<Below> {
    let KeyValue::Bytes(bytes) = key.value() else { return Ok(Below::Child) };
    let rest = bytes.get(prefix.len()..).unwrap_or_default();
    if rest.is_empty() {
        return Ok(Below::Itself);
    }
    match rest.iter().position(|&byte| byte == b'/') {
        None => Ok(Below::Child),
        // A directory without a name would be the topmost one itself.
        Some(0) if prefix.is_empty() => Ok(Below::Child),
        Some(at) => Ok(Below::Deeper(Key::bytes(bytes.get(..prefix.len() + at).unwrap_or_default())?)),
    }
}

fn child_of(children: &mut BTreeMap<Key, Child>, key: Key) -> &mut Child {
    children.entry(key.clone()).or_insert(Child { key, entry: None, has_children: false })
}
