//! Records of a pack deleted together: all of them, or none.

use super::contents::{Error as ContentsError, KeyPatterns, Matching, Result, Selected, Unselected};
use crate::pack::{self, Error, Key, OpenOptions, Pack, PackWriter, Stop};

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

    /// Deletes them in one batch, as [`delete`] does, and returns what they were.
    ///
    /// # Errors
    /// Those of [`select`](Self::select) and [`delete`]; [`ContentsError::Interrupted`] where
    /// `progress` returned `false`: nothing was deleted.
    pub fn run(&self, writer: &mut PackWriter, progress: &mut dyn FnMut(u64) -> bool) -> Result<Doomed> {
        writer.sync()?;
        let pack = Pack::open(writer.storage().clone(), OpenOptions::default())?;
        let doomed = self.select(&pack)?;
        // Dropped before anything is written: the files that it reads would be kept for it.
        drop(pack);
        match delete(writer, &doomed.selected, progress)? {
            true => Ok(doomed),
            false => Err(ContentsError::Interrupted),
        }
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
        // The first byte of a sort form is that of the type of key: alone it means all numbers, or
        // all other keys.
        let is_empty = |prefix: &[u8]| match prefix {
            [] => true,
            [kind] => Key::id(0).sort_form().first() != Some(kind),
            _ => false,
        };
        if self.prefix.as_deref().is_some_and(is_empty) {
            let text = "prefix '' means every record (is a variable not set?); glob '**' deletes all of them, if \
                        that is meant";
            return Err(invalid(text));
        }
        Ok(())
    }
}

fn invalid(text: &str) -> ContentsError {
    Error::Invalid(text.into()).into()
}

/// Deletes the selected records in one batch: a crash leaves all of them, or none. Hard links (hard
/// links) are deleted first, so that content is not moved to a name that is deleted as well.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::pack::{Making, open_writer};
    use crate::pack::{Attributes, WriterOptions};

    fn deletion(keys: &[&str], prefix: Option<&str>, globs: &[&str], groups: &[&str]) -> Deletion {
        let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let key = |text: &&str| Key::bytes(*text).unwrap();
        Deletion {
            keys: (!keys.is_empty()).then(|| keys.iter().map(key).collect()),
            prefix: prefix.map(|text| match text {
                "" => Vec::new(),
                text => Key::parse(text.as_bytes()).unwrap().sort_form().to_vec(),
            }),
            patterns: (!globs.is_empty()).then(|| KeyPatterns::new(&own(globs)).unwrap()),
            groups: own(groups),
            stop: Stop::default(),
        }
    }

    fn writer(place: &tempfile::TempDir) -> PackWriter {
        let path = place.path().join("p");
        let _ = std::fs::remove_dir_all(&path);
        let mut writer = open_writer(&path, WriterOptions::default(), Making::Always).unwrap().writer;
        for (group, key) in [("", "a/1"), ("", "a/2"), ("b", "b/1"), ("b", "x")] {
            writer.put(group, &Key::bytes(key).unwrap(), &Attributes::new(), b"body").unwrap();
        }
        writer
    }

    #[test]
    fn what_is_asked_for_is_deleted_together_and_the_rest_stays() {
        let place = tempfile::tempdir().unwrap();
        let deleted = |deletion: Deletion, mut writer: PackWriter| {
            let doomed = deletion.run(&mut writer, &mut |_| true).unwrap();
            for key in doomed.selected.keys() {
                assert!(!writer.contains(key).unwrap());
            }
            let keys: Vec<String> = doomed.selected.keys().iter().map(Key::to_string).collect();
            (keys.join(" "), doomed.missing.len())
        };
        let cases = [
            (deletion(&["a/1", "c"], None, &[], &[]), ("a/1", 1)),
            (deletion(&["a/1"], Some("b/"), &[], &[]), ("a/1 b/1", 0)),
            (deletion(&[], None, &["*/1"], &[]), ("a/1 b/1", 0)),
            (deletion(&[], Some("a/"), &["*/2"], &[]), ("a/2", 0)),
            (deletion(&[], None, &[], &["b"]), ("b/1 x", 0)),
            (deletion(&[], None, &["**"], &["b"]), ("b/1 x", 0)),
        ];
        for (asked, (keys, missing)) in cases {
            assert_eq!(deleted(asked, writer(&place)), (keys.to_owned(), missing));
        }
    }

    #[test]
    fn what_may_be_a_mistake_deletes_nothing() {
        let place = tempfile::tempdir().unwrap();
        let refused = [
            deletion(&[], None, &[], &[]),
            deletion(&[], Some(""), &[], &[]),
            deletion(&[], None, &[], &[""]),
            deletion(&[], None, &[], &["c"]),
            deletion(&["x"], Some("z"), &[], &[]),
        ];
        for asked in refused {
            let mut writer = writer(&place);
            assert!(asked.run(&mut writer, &mut |_| true).is_err(), "{asked:?}");
            assert!(writer.contains(&Key::bytes("x").unwrap()).unwrap());
        }
        let mut writer = writer(&place);
        let ended = deletion(&[], None, &["**"], &[]).run(&mut writer, &mut |_| false);
        assert!(matches!(ended, Err(ContentsError::Interrupted)));
        assert!(writer.contains(&Key::bytes("x").unwrap()).unwrap());
    }
}
