//! Where the bodies of records go.
//!
//! A file is written beside its name and renamed when it is whole. Nothing is ever written outside the directory
//! that was asked for, whatever keys say and whatever links are in it.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use stook::Error;
use stook::pack::{FileKind, Key, KeyValue};

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
    Directory(Directory),
}

/// A directory that keys become files in.
#[derive(Debug)]
pub(in crate::commands) struct Directory {
    path: PathBuf,
    /// Directories below it that are known to be directories, and no links.
    checked: HashSet<PathBuf>,
    drafts: u64,
}

/// Where one body goes.
#[derive(Debug)]
pub(in crate::commands) enum Place<'t> {
    /// To stdout.
    Stdout(&'t mut Output),
    /// Behind the others.
    Behind(&'t mut Draft),
    /// Into a file; whether it is made durable at once.
    File(Draft, bool),
    /// A directory, which has no body.
    Directory(PathBuf),
}

/// A file that gets its name when it is whole.
#[derive(Debug)]
pub(in crate::commands) struct Draft {
    file: fs::File,
    /// Where the bytes are; `None` for what is no regular file, and written as it is.
    draft: Option<PathBuf>,
    name: PathBuf,
}

/// Whether a path can only mean a directory.
pub(in crate::commands) fn names_directory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/") || path.is_dir()
}

impl Target {
    /// All bodies in one file.
    pub(in crate::commands) fn concatenated(path: &Path) -> Result<Self, Error> {
        Ok(Self::Concatenated(Draft::new(path, 0)?))
    }

    /// Whether each body goes into a file of its own, in whatever order.
    pub(in crate::commands) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// A directory, made if it is not there.
    pub(in crate::commands) fn directory(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(|error| Error::io("make the directory", path, error))?;
        Ok(Self::Directory(Directory { path: path.to_path_buf(), checked: HashSet::new(), drafts: 0 }))
    }

    /// The place of one record.
    ///
    /// # Errors
    /// [`Refused`], or what the system met.
    pub(in crate::commands) fn place<'t>(
        &'t mut self,
        key: &Key,
        kind: Option<FileKind>,
        output: &'t mut Output,
    ) -> anyhow::Result<Place<'t>> {
        Ok(match self {
            Self::Stdout => Place::Stdout(output),
            Self::Concatenated(draft) => Place::Behind(draft),
            Self::File(path) => Place::File(Draft::new(path, 0)?, true),
            Self::Directory(directory) => directory.place(key, kind)?,
        })
    }

    /// What was written gets its name, and is on the medium.
    ///
    /// # Errors
    /// What the system met.
    pub(in crate::commands) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Stdout | Self::File(_) => Ok(()),
            Self::Concatenated(draft) => Ok(draft.finish(true)?),
            Self::Directory(directory) => {
                let path = &directory.path;
                let opened = fs::File::open(path).map_err(|error| Error::io("open", path, error))?;
                // One sync of the file system instead of one for each of what may be very many files.
                rustix::fs::syncfs(&opened).map_err(|error| Error::io("sync", path, error.into()))?;
                Ok(())
            }
        }
    }
}

impl Directory {
    fn place(&mut self, key: &Key, kind: Option<FileKind>) -> anyhow::Result<Place<'static>> {
        let name = relative(key)?;
        let path = self.path.join(&name);
        if kind == Some(FileKind::Directory) {
            self.make(&name)?;
            return Ok(Place::Directory(path));
        }
        self.make(name.parent().unwrap_or(Path::new("")))?;
        let sync = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => {
                return Err(Refused(format!("cannot get {key}: {} is a directory", path.display())).into());
            }
            // What is replaced must not be lost before what replaces it is safe.
            Ok(_) => true,
            Err(_) => false,
        };
        self.drafts += 1;
        Ok(Place::File(Draft::new(&path, self.drafts)?, sync))
    }

    /// Makes a directory below this one, and all between.
    fn make(&mut self, below: &Path) -> anyhow::Result<()> {
        if self.checked.contains(below) || below.as_os_str().is_empty() {
            return Ok(());
        }
        if let Some(parent) = below.parent() {
            self.make(parent)?;
        }
        let path = self.path.join(below);
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let found =
                    fs::symlink_metadata(&path).map_err(|error| Error::io("look at", &path, error))?;
                if !found.is_dir() {
                    let what = if found.is_symlink() { "a link" } else { "no directory" };
                    return Err(
                        Refused(format!("will not write below {}: it is {what}", path.display())).into()
                    );
                }
            }
            Err(error) => return Err(Error::io("make the directory", &path, error).into()),
        }
        self.checked.insert(below.to_path_buf());
        Ok(())
    }
}

/// The path a key names below a directory.
fn relative(key: &Key) -> Result<PathBuf, Refused> {
    let bytes = match key.value() {
        KeyValue::Id(_) => return Ok(PathBuf::from(key.to_string())),
        KeyValue::Bytes(bytes) => bytes,
    };
    let is_bad = |part: &[u8]| part.is_empty() || part == b"." || part == b".." || part.contains(&0);
    if bytes.split(|byte| *byte == b'/').any(is_bad) {
        return Err(Refused(format!("the key {key} names no file below a directory: get it to stdout")));
    }
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(bytes)))
}

impl Place<'_> {
    /// The next bytes.
    pub(in crate::commands) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Stdout(output) => Ok(output.bytes(bytes)?),
            Self::Behind(draft) => draft.write(bytes),
            Self::File(draft, _) => draft.write(bytes),
            Self::Directory(_) => Ok(()),
        }
    }

    /// All bytes are there. Tells the file, where it is one of the record's own.
    pub(in crate::commands) fn finish(self) -> anyhow::Result<Option<PathBuf>> {
        match self {
            Self::Stdout(_) | Self::Behind(_) => Ok(None),
            Self::File(draft, sync) => {
                let name = draft.name.clone();
                draft.finish(sync)?;
                Ok(Some(name))
            }
            Self::Directory(path) => Ok(Some(path)),
        }
    }
}

impl Draft {
    /// A draft of the file `name`; `number` tells it from others of this process.
    fn new(name: &Path, number: u64) -> Result<Self, Error> {
        // A device or a pipe is written to, never replaced.
        if fs::metadata(name).is_ok_and(|found| !found.is_file()) {
            let file = fs::OpenOptions::new().write(true).open(name);
            let file = file.map_err(|error| Error::io("open for writing", name, error))?;
            return Ok(Self { file, draft: None, name: name.to_path_buf() });
        }
        let draft = directory_of(name).join(format!(".stook-get-{}-{number}", std::process::id()));
        let file = fs::OpenOptions::new().write(true).create_new(true).open(&draft);
        let file = file.map_err(|error| Error::io("create", &draft, error))?;
        Ok(Self { file, draft: Some(draft), name: name.to_path_buf() })
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.file.write_all(bytes).map_err(|error| Error::io("write", &self.name, error))?)
    }

    fn finish(mut self, sync: bool) -> anyhow::Result<()> {
        let Some(draft) = self.draft.take() else { return Ok(()) };
        let named = self.name_it(&draft, sync);
        if named.is_err() {
            // The failure is what is told; a draft that stays is only untidy.
            let _ = fs::remove_file(&draft);
        }
        named.with_context(|| format!("{} was not written", self.name.display()))
    }

    fn name_it(&self, draft: &Path, sync: bool) -> Result<(), Error> {
        if sync {
            self.file.sync_all().map_err(|error| Error::io("sync", draft, error))?;
        }
        fs::rename(draft, &self.name).map_err(|error| Error::io("give its name to", &self.name, error))?;
        if sync {
            let directory = directory_of(&self.name);
            let opened = fs::File::open(directory);
            let synced = opened.and_then(|opened| opened.sync_all());
            synced.map_err(|error| Error::io("sync", directory, error))?;
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            // It was given up because of something worse, which is told.
            let _ = fs::remove_file(draft);
        }
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_lead_elsewhere_name_no_file() {
        for bad in ["", "/etc/passwd", "..", "a/../b", "a//b", "a/", "./a", "a/.", "a\0b"] {
            assert!(relative(&Key::bytes(bad).unwrap()).is_err(), "{bad:?}");
        }
        for good in ["a", "a/b", "..a", "a/..b", "\u{1b}[0m", " "] {
            assert_eq!(relative(&Key::bytes(good).unwrap()).unwrap(), PathBuf::from(good));
        }
        assert_eq!(relative(&Key::id(7)).unwrap(), PathBuf::from("id:7"));
    }
}
