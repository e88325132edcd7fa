//! Records of a pack deleted together: all of them, or none.

use super::contents::{KeyPatterns, Matching, Result, Selected, Unselected};
use crate::pack::{self, Error, Key, Pack, PackWriter, Stop};

/// Which records are to be deleted: those with the keys, and those that match.
#[derive(Debug, Default)]
pub struct Deletion {
    /// Keys, if any were given.
    pub keys: Option<Vec<Key>>,
    /// The prefix of the sort forms of keys, if one was given.
    pub prefix: Option<Vec<u8>>,
    /// Patterns that keys match, if any were given.
    pub patterns: Option<KeyPatterns>,
    /// Only records of these groups; of any if empty.
    pub groups: Vec<String>,
    /// Asked whether to end.
    pub stop: Stop,
}

/// What a [`Deletion`] means in a pack.
#[derive(Debug, Default)]
pub struct Doomed {
    /// The records.
    pub selected: Selected,
    /// The keys that no record has.
    pub missing: Vec<Key>,
    /// Damage of records that may be meant: they stay.
    pub damages: Vec<Error>,
}

impl Deletion {
    /// The records that are meant.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if nothing was asked for, if what was asked for is empty and so
    /// means everything (a variable may not be set), and if nothing matches; an error for a missing
    /// group, and of reading.
    pub fn select(&self, pack: &Pack) -> Result<Doomed> {
        let is_by_pattern = self.prefix.is_some() || self.patterns.is_some();
        self.check(is_by_pattern)?;
        pack.check_groups(&self.groups)?;
        let mut found = Doomed::default();
        let Doomed { selected, missing, damages } = &mut found;
        let mut note = |unselected: Unselected<'_>| match unselected {
            Unselected::Missing(key) => missing.push(key.clone()),
            Unselected::Damaged(error) => damages.push(error),
        };
        if let Some(keys) = &self.keys {
            selected.add_listed(pack, keys, &self.groups, &mut note)?;
        }
        if is_by_pattern || self.keys.is_none() {
            let all = KeyPatterns::default();
            let (prefix, patterns) = (self.prefix.as_deref(), self.patterns.as_ref().unwrap_or(&all));
            let (prefix, groups) = (prefix.unwrap_or_default(), self.groups.as_slice());
            let matching = Matching { prefix, patterns, groups, stop: self.stop };
            if !selected.add_matching(pack, &matching, &mut note)? {
                return Err(invalid("nothing matches what is to be deleted; nothing was deleted"));
            }
        }
        Ok(found)
    }

    fn check(&self, is_by_pattern: bool) -> Result<()> {
        if !is_by_pattern && self.keys.is_none() {
            if self.groups.is_empty() {
                return Err(invalid("which records are to be deleted? Give keys, prefix, glob or group"));
            }
            if self.groups.iter().any(String::is_empty) {
                let text = "group '' means every record of the default group (is a variable not set?); with glob \
                            '**' all of them are deleted, if that is meant";
                return Err(invalid(text));
            }
        }
        // The first byte of a sort form is that of the type of key: numbers are meant by it alone.
        let numbers = Key::id(0);
        match self.prefix.as_deref() {
            Some(prefix) if prefix.len() <= 1 && !numbers.sort_form().starts_with(prefix) => Err(invalid(
                "prefix '' means every record (is a variable not set?); glob '**' deletes all of them, if that is meant",
            )),
            Some([]) => Err(invalid("prefix '' means every record; glob '**' deletes all of them")),
            _ => Ok(()),
        }
    }
}

fn invalid(text: &str) -> super::contents::Error {
    Error::Invalid(text.into()).into()
}

/// Deletes the selected records in one batch: a crash leaves all of them, or none. Further names
/// (hard links) are deleted first, so that content is not moved to a name that is deleted as well.
/// `progress` is called with the number of records deleted so far; if it returns `false`, nothing
/// is deleted, and this returns `false`.
///
/// # Errors
/// Returns the errors of [`PackWriter::batch`], and of the operations of the batch.
pub fn delete(
    writer: &mut PackWriter,
    selected: &Selected,
    progress: &mut dyn FnMut(u64) -> bool,
) -> pack::Result<bool> {
    if selected.keys().is_empty() {
        return Ok(true);
    }
    let mut batch = writer.batch(selected.group())?;
    if batch.delete_all(selected.keys(), progress)?.is_none() {
        return Ok(false);
    }
    batch.commit()?;
    Ok(true)
}
