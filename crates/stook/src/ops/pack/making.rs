//! A pack that is opened for writing, or made: whether it may be, and where.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::Error;
use super::hooks::Hooks;
use crate::ops::directory::explained;
use crate::pack::{self, PackWriter, SEGMENT_LEN_MIN, WriterOptions, check_group};
use crate::source::check_path;
use crate::storage::{LocalStorage, LocalStorageOptions, Storage};

/// Whether a pack may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Making {
    /// It must be there.
    Never,
    /// It is made if it is not there.
    IfMissing,
    /// It must not be there.
    Always,
}

/// A pack that is open for writing.
#[derive(Debug)]
pub struct OpenedWriter {
    /// The writer.
    pub writer: PackWriter,
    /// The directory that it writes to, even if its path leads elsewhere by now.
    pub storage: Arc<dyn Storage>,
    /// What was created for it, if there was no pack.
    pub made: Option<Made>,
}

/// What was created for a writer.
#[derive(Debug, Clone, Copy)]
pub struct Made {
    /// Whether the directory of the pack was, too.
    pub with_directory: bool,
}

impl Made {
    /// Removes the pack that was made at this path, because nothing was put into it, or nothing
    /// that is to stay. A directory that received other files meanwhile stays.
    ///
    /// # Errors
    /// Returns the errors of [`PackWriter::discard`], or [`Error::TakeBack`].
    pub fn take_back(self, writer: PackWriter, pack: &Path) -> super::Result<()> {
        if writer.discard()? && self.with_directory {
            let into_error = |source| Error::TakeBack { pack: pack.to_path_buf(), source };
            crate::tree::remove_if_empty(pack).map_err(into_error)?;
        }
        Ok(())
    }
}

/// Opens a pack for single records, or makes it in a directory that is empty or not there. An empty
/// pack is complete: a process that dies leaves it so.
///
/// # Errors
/// Returns [`pack::Error::NotAPack`], [`pack::Error::Exists`], an error for invalid options, and
/// those of [`PackWriter::open`] and [`PackWriter::create`].
pub fn open_writer(path: &Path, options: WriterOptions, making: Making) -> pack::Result<OpenedWriter> {
    let mut opened = open_or_make::<pack::Error>(path, options, making, &mut || Ok(()))?;
    if opened.made.is_some() {
        opened.writer.set_complete(true);
        opened.writer.publish()?;
    }
    Ok(opened)
}

/// The same, and the hooks get what opening the pack found.
///
/// # Errors
/// Returns the errors of [`open_writer`].
pub fn open_writer_with(
    path: &Path,
    options: WriterOptions,
    making: Making,
    hooks: &mut dyn Hooks,
) -> pack::Result<OpenedWriter> {
    let opened = open_writer(path, options, making)?;
    report_opening(&opened.writer, hooks);
    Ok(opened)
}

/// Reports to the hooks what opening a pack found.
pub(super) fn report_opening(writer: &PackWriter, hooks: &mut dyn Hooks) {
    hooks.watch(writer.damage_log());
    writer.recovery().notes().iter().for_each(|note| hooks.note(note));
}

/// Puts into a group of a pack, which may be made for it; `put` gets the writer, and whether it
/// was. A pack that was made for a failed put is removed; a note reports if that was impossible.
///
/// # Errors
/// Returns an error for an invalid group name, and those of [`open_writer`], [`PackWriter::finish`]
/// and `put`.
pub fn put_into<T, E: From<pack::Error>>(
    path: &Path,
    group: &str,
    making: Making,
    hooks: &mut dyn Hooks,
    put: impl FnOnce(&mut PackWriter, bool) -> Result<T, E>,
) -> Result<T, E> {
    // Refused before a pack is made for it.
    check_group(group)?;
    let opened = open_writer_with(path, WriterOptions::default(), making, hooks)?;
    let OpenedWriter { mut writer, made, .. } = opened;
    match (put(&mut writer, made.is_some()), made) {
        (Ok(done), _) => {
            writer.finish(false)?;
            Ok(done)
        }
        (Err(error), Some(made)) => {
            if let Err(left) = made.take_back(writer, path) {
                hooks.note(&format!("{} is left without a record: {left}", path.display()));
            }
            Err(error)
        }
        (Err(error), None) => Err(error),
    }
}

/// Checks that segments of a new pack can be this long. Shorter ones are for tests of the library.
///
/// # Errors
/// [`pack::Error::Invalid`] for less than 1 MiB; those of [`WriterOptions::check`].
pub(in crate::ops) fn check_segment_len(options: &WriterOptions) -> pack::Result<()> {
    if options.segment_len < SEGMENT_LEN_MIN {
        let why = format!("a segment is at least {SEGMENT_LEN_MIN} bytes (1 MiB) long");
        return Err(pack::Error::Invalid(why));
    }
    options.check()
}

/// The directory for a pack; `None` if it would be made, and nothing known prevents that. Nothing
/// is changed: a dry run is refused whatever the real run would be refused.
///
/// # Errors
/// Returns [`pack::Error::Core`] if it can be neither opened nor made, and
/// [`pack::Error::NotAPack`] if there is an archive.
pub(super) fn look_at(path: &Path, making: Making) -> pack::Result<Option<LocalStorage>> {
    match LocalStorage::open(path, LocalStorageOptions::default()) {
        Err(error) if making != Making::Never && error.io_kind() == Some(ErrorKind::NotFound) => {
            check_path(path)?;
            LocalStorage::check_create(path)?;
            Ok(None)
        }
        opened => opened.map(Some).map_err(|error| explained(path, error)),
    }
}

/// How often it is looked again for what another may have made meanwhile.
const TRIES: u32 = 3;

/// Opens a pack for writing, or makes one, which is incomplete. `before_making` is called once
/// before anything is made. What another makes meanwhile is opened, if it may be missing.
pub(super) fn open_or_make<E: From<pack::Error>>(
    path: &Path,
    options: WriterOptions,
    making: Making,
    before_making: &mut dyn FnMut() -> Result<(), E>,
) -> Result<OpenedWriter, E> {
    options.check()?;
    let (mut tries, mut is_asked) = (TRIES, false);
    loop {
        tries -= 1;
        let looks_again =
            |error: &pack::Error| tries > 0 && making == Making::IfMissing && is_there_already(path, error);
        let found = match look_at(path, making) {
            Err(error) if looks_again(&error) => continue,
            found => found?.map(|storage| Arc::new(storage) as Arc<dyn Storage>),
        };
        if let Some(storage) = found.clone().filter(|_| making != Making::Always) {
            match PackWriter::open(storage.clone(), options.clone()) {
                // Making one shows whether it can be made there.
                Err(pack::Error::NotAPack { .. }) if making == Making::IfMissing => {}
                opened => return Ok(OpenedWriter { writer: opened?, storage, made: None }),
            }
        }
        if !std::mem::replace(&mut is_asked, true) {
            before_making()?;
        }
        match make(path, found, options.clone()) {
            Err(error) if looks_again(&error) => {}
            made => return made.map_err(E::from),
        }
    }
}

fn make(path: &Path, found: Option<Arc<dyn Storage>>, options: WriterOptions) -> pack::Result<OpenedWriter> {
    let with_directory = found.is_none();
    let storage: Arc<dyn Storage> = match found {
        Some(storage) => storage,
        None => Arc::new(LocalStorage::create(path, LocalStorageOptions::default())?),
    };
    let writer = PackWriter::create(storage.clone(), options)?;
    Ok(OpenedWriter { writer, storage, made: Some(Made { with_directory }) })
}

/// Whether nothing was made because something has its place. While a pack is made, another may
/// have become one there, in which no files are made.
fn is_there_already(path: &Path, error: &pack::Error) -> bool {
    match error {
        pack::Error::Exists { .. } | pack::Error::Core(crate::Error::AlreadyExists { .. }) => true,
        pack::Error::Core(error) if error.io_kind() == Some(ErrorKind::InvalidInput) => {
            crate::tree::is_pack(path).unwrap_or(false)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: "already exists", as if the pack could not be written to at all.
    #[test]
    fn a_pack_that_another_makes_meanwhile_is_one_that_is_locked() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("empty")).unwrap();
        for name in ["missing", "empty"] {
            let path = place.path().join(name);
            let mut others = Vec::new();
            let mut meanwhile = || -> pack::Result<()> {
                others.push(open_writer(&path, WriterOptions::default(), Making::Always)?);
                Ok(())
            };
            let options = WriterOptions::default();
            let opened = open_or_make(&path, options, Making::IfMissing, &mut meanwhile);
            let refused: pack::Error = opened.unwrap_err();
            assert!(matches!(refused, pack::Error::Core(crate::Error::Locked { .. })), "{name}: {refused}");
            assert_eq!(others.len(), 1);
        }
        // What is there and leads nowhere is not waited for.
        let link = place.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let refused = open_writer(&link, WriterOptions::default(), Making::IfMissing).unwrap_err();
        assert!(is_there_already(&link, &refused), "{refused}");
    }

    /// Before: one of many that made the same pack at once got the error that only its writer puts
    /// files into it.
    #[test]
    fn a_place_that_became_a_pack_while_one_was_made_there_is_looked_at_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("p.stook");
        drop(open_writer(&path, WriterOptions::default(), Making::Always).unwrap());
        let refused = LocalStorage::open(&path, LocalStorageOptions::default()).unwrap().check_place();
        assert!(is_there_already(&path, &refused.unwrap_err().into()));
        let inside = LocalStorage::check_create(&path.join("inside")).unwrap_err();
        assert!(!is_there_already(&path.join("inside"), &inside.into()));
    }
}
