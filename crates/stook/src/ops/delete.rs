//! Records of a pack deleted together: all of them, or none.

use std::path::Path;

use super::contents::{self, KeyPatterns, Matching, Missing, Selected, Unselected};
use super::directory::open_pack;
use super::pack::{Hooks, Making, open_writer_with};
use crate::pack::{self, Damage, Key, OnDamage, OpenOptions, Pack, PackWriter, Stop, WriterOptions};

/// Keys that are looked up in one batch.
const BATCH: usize = 4096;

/// For this many keys, what lies below them is looked for: more are hardly typed.
const NAMED_MAX: usize = 100;

/// A result of deleting.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing was deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the pack, or below it, or the caller wanted it to end.
    #[error(transparent)]
    Contents(#[from] contents::Error),
    /// Neither keys nor anything else was given.
    #[error("which records are to be deleted? Give keys, prefix, glob or group")]
    NothingAsked,
    /// A prefix without bytes means every record, and may be a variable that is not set.
    #[error(
        "prefix '' means every record (is a variable not set?); glob '**' deletes all of them, if that is meant"
    )]
    EmptyPrefix,
    /// So may the name of the default group, given alone.
    #[error(
        "group '' means every record of the default group (is a variable not set?); with glob '**' all of them \
         are deleted, if that is meant"
    )]
    EmptyGroup,
    /// No record matches prefix, patterns and groups: they may be misspelt.
    #[error("nothing matches what is to be deleted; nothing was deleted")]
    NothingMatches,
}

impl From<pack::Error> for Error {
    fn from(error: pack::Error) -> Self {
        Self::Contents(error.into())
    }
}

/// Which records are to be deleted: those with the keys, and those that match.
#[derive(Debug, Default)]
pub struct Deletion {
    /// Keys, if any were given.
    pub keys: Option<Vec<Key>>,
    /// The prefix of the sort forms of keys, if one was given.
    pub prefix: Option<Vec<u8>>,
    /// Patterns that keys match. None at all ask for nothing.
    pub patterns: KeyPatterns,
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
    /// The keys that no record has: the others are deleted nevertheless.
    pub missing: Vec<Missing>,
    /// Damage of records that may be meant: they stay.
    pub damages: Vec<pack::Error>,
    /// Damage of the pack which may hide records that match: they stay, and come back where it is
    /// mended.
    pub hidden: Vec<Damage>,
    /// Of the first hundred keys, without a slash at their end, those that others lie below, which
    /// stay: a directory was named, and maybe all in it was meant.
    pub directories: Vec<Key>,
}

impl Deletion {
    /// Whether a prefix or patterns are given.
    pub fn is_by_pattern(&self) -> bool {
        self.prefix.is_some() || !self.patterns.is_empty()
    }

    /// The records that are meant in a pack, for a dry run. It refuses what [`run`](Self::run)
    /// refuses.
    ///
    /// # Errors
    /// Returns an error if nothing was asked for, if what was asked for is empty and so means
    /// everything, and if nothing matches; an error for a missing group, for a pack that cannot be
    /// written to, and of reading.
    pub fn plan(&self, pack: &Pack) -> Result<Doomed> {
        self.check()?;
        pack.check_writable()?;
        self.select(pack)
    }

    /// The same for the pack at a path. The hooks receive the damage that is found.
    ///
    /// # Errors
    /// Those of [`plan`](Self::plan), and of opening the pack.
    pub fn plan_at(&self, path: &Path, hooks: &mut dyn Hooks) -> Result<Doomed> {
        self.check()?;
        let pack = open_pack(path, OpenOptions::default())?;
        hooks.watch(pack.damage_log());
        self.plan(&pack)
    }

    /// Deletes them in one batch, as [`delete`] does, and returns what they were. `progress` is
    /// called with how many are deleted, and how many there are.
    ///
    /// # Errors
    /// Those of [`plan`](Self::plan) and [`delete`]; [`contents::Error::Interrupted`] where
    /// `progress` returned `false`: nothing was deleted.
    pub fn run(
        &self,
        writer: &mut PackWriter,
        hooks: &mut dyn Hooks,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Doomed> {
        self.check()?;
        writer.sync()?;
        // Through the writer: the records that are found must not be changed by others before they
        // are deleted.
        let pack = Pack::open(writer.storage().clone(), OpenOptions::default())?;
        hooks.watch(pack.damage_log());
        let doomed = self.select(&pack)?;
        // Dropped before anything is written: the files that it reads would be kept for it.
        drop(pack);
        let total = doomed.selected.keys().len() as u64;
        match delete(writer, &doomed.selected, &mut |deleted| progress(deleted, total))? {
            true => Ok(doomed),
            false => Err(contents::Error::Interrupted.into()),
        }
    }

    /// The same in the pack at a path: all of it is durable when this returns. The hooks get what
    /// opening the pack found.
    ///
    /// # Errors
    /// Those of [`run`](Self::run), and of opening the pack for writing.
    pub fn run_at(
        &self,
        path: &Path,
        hooks: &mut dyn Hooks,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Doomed> {
        self.check()?;
        let options = WriterOptions::default();
        let mut writer = open_writer_with(path, options, Making::Never, hooks)?.writer;
        let doomed = self.run(&mut writer, hooks, progress)?;
        writer.finish(false)?;
        Ok(doomed)
    }

    fn select(&self, pack: &Pack) -> Result<Doomed> {
        let path = || pack.storage().path("").components().collect();
        pack.check_groups(&self.groups)
            .map_err(|source| contents::Error::NoSuchGroup { path: path(), source })?;
        let mut found = Doomed::default();
        let Doomed { selected, missing, damages, hidden, .. } = &mut found;
        let mut note = |unselected: Unselected<'_>| match unselected {
            Unselected::Missing(key) => missing.push(Missing::record(pack, path(), key, &self.groups)),
            Unselected::Damaged(error) => damages.push(error),
        };
        for keys in self.keys.as_deref().unwrap_or_default().chunks(BATCH) {
            self.stop.check()?;
            selected.add_listed(pack, keys, &self.groups, &mut note)?;
        }
        if self.is_by_pattern() || self.keys.is_none() {
            let (prefix, groups) = (self.prefix.as_deref().unwrap_or_default(), self.groups.as_slice());
            let matching = Matching { prefix, patterns: &self.patterns, groups, stop: self.stop };
            let has_met = selected.add_matching(pack, &matching, &mut note)?;
            *hidden = pack.damages();
            if !has_met && hidden.is_empty() {
                return Err(Error::NothingMatches);
            }
        }
        found.directories = self.directories(pack, &found.selected)?;
        Ok(found)
    }

    fn directories(&self, pack: &Pack, selected: &Selected) -> Result<Vec<Key>> {
        let mut directories = Vec::new();
        for key in self.keys.iter().flatten().take(NAMED_MAX) {
            let path = key.as_bytes().map(|path| path.strip_suffix(b"/").unwrap_or(path));
            let Some(path) = path.filter(|path| !path.is_empty()) else { continue };
            // Below the longest keys there is nothing.
            let Ok(below) = Key::bytes([path, b"/"].concat()) else { continue };
            let mut below = pack.keys(below.sort_form())?;
            if below.any(|entry| entry.is_ok_and(|entry| !selected.keys().contains(&entry.key))) {
                directories.push(Key::bytes(path)?);
            }
        }
        Ok(directories)
    }

    fn check(&self) -> Result<()> {
        if !self.is_by_pattern() && self.keys.is_none() {
            if self.groups.is_empty() {
                return Err(Error::NothingAsked);
            }
            if self.groups.iter().any(String::is_empty) {
                return Err(Error::EmptyGroup);
            }
        }
        // The first byte of a sort form is that of the type of key: alone it means all numbers, or
        // all other keys.
        let is_empty = |prefix: &[u8]| match prefix {
            [] => true,
            [_] => prefix != Key::IDS,
            _ => false,
        };
        match self.prefix.as_deref().is_some_and(is_empty) {
            true => Err(Error::EmptyPrefix),
            false => Ok(()),
        }
    }
}

/// Deletes the selected records in one batch: a crash leaves all of them, or none. Hard links
/// are deleted first, so that content is not moved to a name that is deleted as well.
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
    match batch.delete_all(selected.keys(), progress)? {
        // The last number, too, comes before anything counts.
        Some(deleted) if progress(deleted) => {
            batch.commit()?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Deletes every record in one batch, as [`delete`] does: a crash leaves all of them, or none.
/// Returns how many there were. `stop` is asked while they are listed, and `progress` is called
/// as [`Deletion::run`] calls it.
///
/// # Errors
/// Those of [`delete`], and of listing; [`pack::Error::Damaged`] where damage hides records, which
/// would come back with what is missing: nothing was deleted then.
/// [`contents::Error::Interrupted`] where `progress` returned `false` or `stop` ended it: likewise.
pub fn clear(writer: &mut PackWriter, stop: Stop, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<u64> {
    writer.sync()?;
    // Through the writer, and dropped before anything is written, as for a deletion of some.
    let pack = Pack::open(writer.storage().clone(), OpenOptions::default())?;
    pack.check_whole(OnDamage::Stop)?;
    let (patterns, mut selected, mut damage) = (KeyPatterns::default(), Selected::default(), None);
    let all = Matching { prefix: &[], patterns: &patterns, groups: &[], stop };
    selected.add_matching(&pack, &all, &mut |unselected| {
        if let Unselected::Damaged(error) = unselected {
            damage.get_or_insert(error);
        }
    })?;
    drop(pack);
    if let Some(error) = damage {
        return Err(error.into());
    }
    let total = selected.keys().len() as u64;
    match delete(writer, &selected, &mut |deleted| progress(deleted, total))? {
        true => Ok(total),
        false => Err(contents::Error::Interrupted.into()),
    }
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
            patterns: KeyPatterns::new(&own(globs)).unwrap(),
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
            let doomed = deletion.run(&mut writer, &mut (), &mut |_, _| true).unwrap();
            for key in doomed.selected.keys() {
                assert!(!writer.contains(key).unwrap());
            }
            for missing in &doomed.missing {
                assert!(missing.to_string().ends_with(&format!("p has no record {}", missing.key())));
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

    /// What a path leads to is opened, changed and closed as the command does it, and a dry run
    /// refuses what that refuses.
    #[test]
    fn a_pack_at_a_path_is_planned_first_and_then_changed() {
        let place = tempfile::tempdir().unwrap();
        writer(&place).finish(false).unwrap();
        let path = place.path().join("p");
        let asked = deletion(&["a/1", "c"], Some("b/"), &[], &[]);
        let planned = asked.plan_at(&path, &mut ()).unwrap();
        let (mut calls, mut last) = (0, (0, 0));
        let deleted = asked.run_at(&path, &mut (), &mut |done, total| {
            (calls, last) = (calls + 1, (done, total));
            true
        });
        let deleted = deleted.unwrap();
        assert_eq!(planned.selected.keys(), deleted.selected.keys());
        assert_eq!((planned.missing.len(), deleted.missing.len()), (1, 1));
        assert!(calls > 0 && last.0 <= 2 && last.1 == 2, "{calls} {last:?}");
        let pack = open_pack(&path, OpenOptions::default()).unwrap();
        assert_eq!(pack.len(), 2);
        for asked in [deletion(&["a/2"], Some("z"), &[], &[]), deletion(&[], None, &[], &[])] {
            let refused = asked.plan_at(&path, &mut ()).unwrap_err();
            let same = asked.run_at(&path, &mut (), &mut |_, _| true).unwrap_err();
            assert_eq!(refused.to_string(), same.to_string());
        }
        assert_eq!(open_pack(&path, OpenOptions::default()).unwrap().len(), 2);
    }

    #[test]
    fn clearing_deletes_everything_or_nothing() {
        let place = tempfile::tempdir().unwrap();
        let left = |writer: &mut PackWriter| {
            writer.sync().unwrap();
            Pack::open(writer.storage().clone(), OpenOptions::default()).unwrap().len()
        };
        let mut writer = writer(&place);
        writer.put("", &Key::id(7), &Attributes::new(), b"body").unwrap();
        let ended = clear(&mut writer, Stop::default(), &mut |_, _| false);
        assert!(matches!(ended, Err(Error::Contents(contents::Error::Interrupted))));
        let stopped = clear(&mut writer, Stop(|| true), &mut |_, _| true);
        assert!(matches!(stopped, Err(Error::Contents(contents::Error::Interrupted))));
        assert_eq!(left(&mut writer), 5);
        let before = left(&mut writer);
        assert_eq!(clear(&mut writer, Stop::default(), &mut |_, total| total == before).unwrap(), 5);
        assert_eq!(left(&mut writer), 0);
        assert_eq!(clear(&mut writer, Stop::default(), &mut |_, _| true).unwrap(), 0);
    }

    #[test]
    fn a_directory_that_is_named_is_known_by_what_stays_in_it() {
        let place = tempfile::tempdir().unwrap();
        let directories = |keys: &[&str], prefix: Option<&str>| {
            let doomed = deletion(keys, prefix, &[], &[]).run(&mut writer(&place), &mut (), &mut |_, _| true);
            doomed.unwrap().directories.iter().map(Key::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(directories(&["a", "b/", "x", "c"], None), "a b");
        assert_eq!(directories(&["a/1", "a"], None), "a", "one of two stays");
        assert_eq!(directories(&["a/1", "a/2", "a"], None), "");
        assert_eq!(directories(&["a"], Some("a/")), "");
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
            assert!(asked.run(&mut writer, &mut (), &mut |_, _| true).is_err(), "{asked:?}");
            assert!(writer.contains(&Key::bytes("x").unwrap()).unwrap());
        }
        let mut writer = writer(&place);
        let ended = deletion(&[], None, &["**"], &[]).run(&mut writer, &mut (), &mut |_, _| false);
        assert!(matches!(ended, Err(Error::Contents(contents::Error::Interrupted))));
        assert!(writer.contains(&Key::bytes("x").unwrap()).unwrap());
    }
}
