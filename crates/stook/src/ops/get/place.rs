//! Where the bodies go, and under which names.

use std::ffi::OsStr;
use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Contents, Error, Refused, Result, To, zeroes};
use crate::pack::{FileKind, FileNames, Key, Stop};
use crate::source::{Inodes, check_path};
use crate::tree::{self, Draft, Finished, Folder};

/// Why something is not written over.
const READ_FROM: &str = "it is what is read from: give another name";

/// Where all bodies go, and what they come from.
pub(super) struct Target<'a> {
    to: Way<'a>,
    /// What is not written over.
    read_from: Inodes,
}

enum Way<'a> {
    /// One after another.
    Writer(&'a mut dyn io::Write),
    /// One after another, into a file.
    Joined(Draft),
    /// The one body, into this file.
    File(PathBuf),
    /// Each into a file of its own.
    Directory(Box<Named>),
}

/// A directory, and which of its names are taken.
pub(super) struct Named {
    folder: Folder,
    /// Whether it was not there before.
    is_new: bool,
    names: FileNames,
}

/// Where one body goes.
pub(super) enum Place<'t> {
    Writer(&'t mut dyn io::Write),
    /// After the others, from this offset on.
    Joined(&'t mut Draft, u64),
    /// Into a file.
    File(Draft),
    /// Into a file below the directory, which gets its name together with others.
    Below(Draft),
    /// A directory, which has no body.
    Directory(PathBuf),
}

impl<'a> Target<'a> {
    pub(super) fn new(to: To<'a>, contents: &dyn Contents, is_joined: bool, stop: Stop) -> Result<Self> {
        let mut read_from = Inodes::new();
        if let To::File(path) | To::Directory(path) = &to {
            check_path(path)?;
            contents.note_files(&mut read_from);
        }
        if let To::File(path) = &to
            && is_among(&read_from, path.metadata().ok().as_ref())
        {
            return Err(crate::Error::io("write", path, io::Error::other(READ_FROM)).into());
        }
        let to = match to {
            To::Writer(writer) => Way::Writer(writer),
            To::File(path) if is_joined => Way::Joined(draft(&path, stop)?),
            To::File(path) => Way::File(path),
            To::Directory(path) => {
                let (is_new, names) = (!path.exists(), FileNames::default());
                Way::Directory(Box::new(Named { folder: Folder::open(&path)?, is_new, names }))
            }
        };
        Ok(Self { to, read_from })
    }

    /// Where it is; a writer is nowhere.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.to {
            Way::Writer(_) => None,
            Way::Joined(draft) => Some(draft.path()),
            Way::File(path) => Some(path),
            Way::Directory(named) => Some(named.folder.path()),
        }
    }

    /// Whether each body goes into a separate file, in any order.
    pub(super) fn is_directory(&self) -> bool {
        matches!(self.to, Way::Directory(_))
    }

    /// The place of one entry.
    pub(super) fn place(
        &mut self,
        key: &Key,
        kind: Option<FileKind>,
        stop: Stop,
    ) -> Result<Result<Place<'_>, Refused>> {
        Ok(Ok(match &mut self.to {
            Way::Writer(writer) => Place::Writer(&mut **writer),
            Way::Joined(draft) => {
                let start = draft.end();
                Place::Joined(draft, start)
            }
            Way::File(path) => Place::File(draft(path, stop)?),
            Way::Directory(named) => return named.place(key, kind, &self.read_from),
        }))
    }

    /// Removes a directory that was made for nothing.
    pub(super) fn remove_if_new(&self) {
        if let Way::Directory(named) = &self.to
            && named.is_new
        {
            // One that has something in it stays. Why nothing came into it is reported.
            let _ = std::fs::remove_dir(named.folder.path());
        }
    }

    /// All files that wait get their names.
    pub(super) fn publish(&self) {
        if let Way::Directory(named) = &self.to {
            named.folder.publish();
        }
    }

    /// The files that have got their names since the last call, or could not get them, in the order
    /// in which they began to wait.
    pub(super) fn finished(&self) -> Vec<Finished> {
        match &self.to {
            Way::Directory(named) => named.folder.finished(),
            _ => Vec::new(),
        }
    }

    /// Publishes the output under its name, durably. Returns the existing file if it stays because
    /// the new one is incomplete or empty.
    pub(super) fn finish(self, has_any: bool, has_all: bool) -> Result<Option<PathBuf>> {
        match self.to {
            Way::Writer(_) | Way::File(_) => Ok(None),
            Way::Joined(draft) => {
                let path = draft.path().to_path_buf();
                let is_kept = match has_any {
                    true => !draft.finish_or_keep(has_all)?,
                    // As for one entry: no file is made of a failed get.
                    false => draft.replaces(),
                };
                Ok(is_kept.then_some(path))
            }
            Way::Directory(named) => Ok(named.folder.sync().map(|()| None)?),
        }
    }
}

impl Named {
    fn place<'t>(
        &mut self,
        key: &Key,
        kind: Option<FileKind>,
        read_from: &Inodes,
    ) -> Result<Result<Place<'t>, Refused>> {
        let refused = |why: &dyn fmt::Display| Refused::Name { key: key.clone(), why: why.to_string() };
        let name = match self.names.take(key) {
            Ok(name) => name,
            Err(namesake) => {
                return Ok(Err(refused(&format_args!("{namesake}; get one of them into another directory"))));
            }
        };
        let there = || self.folder.path().join(OsStr::from_bytes(&name)).symlink_metadata().ok();
        if !read_from.is_empty() && is_among(read_from, there().as_ref()) {
            return Ok(Err(refused(&READ_FROM)));
        }
        let place = match kind {
            Some(FileKind::Directory) => self.folder.directory(&name).map(Place::Directory),
            // The empty key is the root of a tree; as a file it has no name.
            _ => self.folder.file(&name).map(Place::Below),
        };
        match place {
            Ok(place) => Ok(Ok(place)),
            Err(tree::Refused::Core(error)) => Err(error.into()),
            Err(why) => Ok(Err(refused(&why))),
        }
    }
}

impl Place<'_> {
    /// The next bytes.
    pub(super) fn write(&mut self, bytes: &[u8], stop: Stop) -> Result<()> {
        match self {
            Self::Writer(writer) => writer.write_all(bytes).map_err(Error::Write),
            Self::Joined(draft, _) => Ok(draft.write_while(bytes, &mut || stop.goes_on())?),
            Self::File(draft) | Self::Below(draft) => Ok(draft.write_while(bytes, &mut || stop.goes_on())?),
            Self::Directory(_) => Ok(()),
        }
    }

    /// Writes this many zeroes, or at least some of them; returns how many.
    pub(super) fn write_hole(&mut self, len: u64, stop: Stop) -> Result<u64> {
        match self {
            Self::Writer(writer) => {
                let zeroes = zeroes(len);
                writer.write_all(zeroes).map_err(Error::Write)?;
                Ok(zeroes.len() as u64)
            }
            Self::Joined(draft, _) => Ok(draft.write_hole(len, &mut || stop.goes_on())?),
            Self::File(draft) | Self::Below(draft) => Ok(draft.write_hole(len, &mut || stop.goes_on())?),
            Self::Directory(_) => Ok(len),
        }
    }

    /// No more bytes come, and those that came are not all: what can be taken back is.
    pub(super) fn give_up(self) -> Result<()> {
        match self {
            Self::Joined(draft, start) => Ok(draft.cut(start)?),
            // A draft that is dropped leaves nothing.
            Self::Writer(_) | Self::File(_) | Self::Below(_) | Self::Directory(_) => Ok(()),
        }
    }

    /// All bytes are written.
    pub(super) fn finish(self) -> Result<End> {
        match self {
            Self::Writer(_) | Self::Joined(..) => Ok(End::There(None)),
            Self::File(draft) => {
                let path = draft.path().to_path_buf();
                draft.finish()?;
                Ok(End::There(Some(path)))
            }
            Self::Below(draft) => {
                draft.finish()?;
                Ok(End::Waits)
            }
            Self::Directory(path) => Ok(End::There(Some(path))),
        }
    }
}

/// What a body came to that is written.
pub(super) enum End {
    /// It is where it was to go: its file, if it has its own.
    There(Option<PathBuf>),
    /// Its file waits for its name.
    Waits,
}

fn is_among(files: &Inodes, found: Option<&Metadata>) -> bool {
    found.is_some_and(|found| files.contains(&(found.dev(), found.ino())))
}

/// The file that the caller named. A pipe without a reader is waited for.
fn draft(path: &Path, stop: Stop) -> Result<Draft> {
    Ok(Draft::named(path, &mut || stop.goes_on())?)
}
