//! Where the bodies of records go.
//!
//! What may be written, under which name, and how, is the library's business: [`Folder`],
//! [`FileNames`] and [`Draft`].

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use stook::pack::{FileKind, FileNames, Key};
use stook::source::zeroes;
use stook::tree::{self, Draft, Folder};

use crate::interrupt::interrupted;
use crate::output::Output;

/// A key that cannot become a file here.
#[derive(Debug)]
pub(in crate::commands) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Where all bodies go.
#[derive(Debug)]
pub(in crate::commands) enum Target {
    /// One after another.
    Stdout,
    /// One after another, into a file.
    Concatenated(Draft),
    /// The one record, into this file.
    File(PathBuf),
    /// Each into a file of its own.
    Directory(Box<Named>),
}

/// A directory, and which of its names are taken.
#[derive(Debug)]
pub(in crate::commands) struct Named {
    folder: Folder,
    names: FileNames,
}

/// Where one body goes.
#[derive(Debug)]
pub(in crate::commands) enum Place<'t> {
    /// To stdout.
    Stdout(&'t mut Output),
    /// After the others, from this offset on.
    Appended(&'t mut Draft, u64),
    /// Into a file.
    File(Draft),
    /// A directory, which has no body.
    Directory(PathBuf),
}

/// Whether a path can only mean a directory.
pub(in crate::commands) fn names_directory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/") || path.is_dir()
}

/// Why one file, or stdout, cannot take a directory.
pub(in crate::commands) fn is_directory(pack: &Path, key: &Key) -> anyhow::Error {
    let pack = pack.display();
    let within = match key.as_bytes() {
        None | Some(b"") => String::new(),
        Some(_) => format!(" --prefix '{key}/'"),
    };
    Refused(format!("{key} is a directory; `stook unpack {pack} DIR{within}` writes what is in it into DIR"))
        .into()
}

impl Target {
    /// Whether it takes one body only.
    pub(in crate::commands) fn is_one(&self) -> bool {
        matches!(self, Self::Stdout | Self::File(_))
    }

    /// All bodies in one file.
    pub(in crate::commands) fn concatenated(path: &Path) -> Result<Self, stook::Error> {
        Ok(Self::Concatenated(Draft::named(path, &mut || !interrupted())?))
    }

    /// Where it is; stdout is nowhere.
    pub(in crate::commands) fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdout => None,
            Self::Concatenated(draft) => Some(draft.path()),
            Self::File(path) => Some(path),
            Self::Directory(named) => Some(named.folder.path()),
        }
    }

    /// Whether each body goes into a separate file, in any order.
    pub(in crate::commands) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// A directory, made if it is not there.
    pub(in crate::commands) fn directory(path: &Path) -> Result<Self, stook::Error> {
        let folder = Folder::open(path)?;
        Ok(Self::Directory(Box::new(Named { folder, names: FileNames::default() })))
    }

    /// The place of one record.
    ///
    /// # Errors
    /// Returns [`Refused`], or an I/O error.
    pub(in crate::commands) fn place<'t>(
        &'t mut self,
        key: &Key,
        kind: Option<FileKind>,
        output: &'t mut Output,
    ) -> anyhow::Result<Place<'t>> {
        Ok(match self {
            Self::Stdout => Place::Stdout(output),
            Self::Concatenated(draft) => {
                let start = draft.end();
                Place::Appended(draft, start)
            }
            Self::File(path) => Place::File(Draft::named(path, &mut || !interrupted())?),
            Self::Directory(named) => named.place(key, kind)?,
        })
    }

    /// Publishes the output under its name, durably. Returns the existing file if it stays because
    /// the new one is incomplete or empty.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub(in crate::commands) fn finish(
        self,
        has_any: bool,
        has_all: bool,
    ) -> Result<Option<PathBuf>, stook::Error> {
        match self {
            Self::Stdout | Self::File(_) => Ok(None),
            Self::Concatenated(draft) => {
                let path = draft.path().to_path_buf();
                let is_kept = match has_any {
                    true => !draft.finish_or_keep(has_all)?,
                    // As for one record: no file is made of a failed get.
                    false => draft.replaces(),
                };
                Ok(is_kept.then_some(path))
            }
            Self::Directory(named) => named.folder.sync().map(|()| None),
        }
    }
}

impl Named {
    fn place(&mut self, key: &Key, kind: Option<FileKind>) -> anyhow::Result<Place<'static>> {
        let refused = |why: &dyn fmt::Display| Refused(format!("cannot get {key}: {why}"));
        let name = self.names.take(key).map_err(|namesake| {
            refused(&format_args!("{namesake}; get one of them with another --output"))
        })?;
        let place = match kind {
            Some(FileKind::Directory) => self.folder.directory(&name).map(Place::Directory),
            // The empty key is the root of a tree; as a file it has no name.
            _ => self.folder.file(&name).map(Place::File),
        };
        place.map_err(|error| match error {
            tree::Refused::Core(error) => error.into(),
            why => refused(&why).into(),
        })
    }
}

impl Place<'_> {
    /// The next bytes.
    pub(in crate::commands) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut go_on = || !interrupted();
        match self {
            Self::Stdout(output) => Ok(output.bytes(bytes)?),
            Self::Appended(draft, _) => Ok(draft.write_while(bytes, &mut go_on)?),
            Self::File(draft) => Ok(draft.write_while(bytes, &mut go_on)?),
            Self::Directory(_) => Ok(()),
        }
    }

    /// Writes this many zeroes, or at least some of them; returns how many.
    pub(in crate::commands) fn write_hole(&mut self, len: u64) -> anyhow::Result<u64> {
        let mut go_on = || !interrupted();
        match self {
            Self::Stdout(output) => {
                let zeroes = zeroes(len);
                output.bytes(zeroes)?;
                Ok(zeroes.len() as u64)
            }
            Self::Appended(draft, _) => Ok(draft.write_hole(len, &mut go_on)?),
            Self::File(draft) => Ok(draft.write_hole(len, &mut go_on)?),
            Self::Directory(_) => Ok(len),
        }
    }

    /// No more bytes come, and those that came are not all: what can be taken back is.
    pub(in crate::commands) fn give_up(self) -> Result<(), stook::Error> {
        match self {
            Self::Appended(draft, start) => draft.cut(start),
            // A draft that is dropped leaves nothing.
            Self::Stdout(_) | Self::File(_) | Self::Directory(_) => Ok(()),
        }
    }

    /// All bytes are written. Returns the file, if the record has its own.
    pub(in crate::commands) fn finish(self) -> Result<Option<PathBuf>, stook::Error> {
        match self {
            Self::Stdout(_) | Self::Appended(..) => Ok(None),
            Self::File(draft) => {
                let path = draft.path().to_path_buf();
                draft.finish()?;
                Ok(Some(path))
            }
            Self::Directory(path) => Ok(Some(path)),
        }
    }
}
