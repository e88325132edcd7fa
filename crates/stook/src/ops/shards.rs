//! Writing shards: none has its name before all are whole.
//!
//! Programs take whatever shards have their names, and miss none: so all get theirs at the end, one
//! right after another. Until then each is called as it will be, and `.unfinished`.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::stitch::{Error, Result, Sharded, Stitched, refuse_sources, refuse_too_little_room};
use crate::source::Source as _;
use crate::tree::outbox::{Calls, Durability, System, is_temporary, remove_stale};
use crate::tree::{Folder, Refused, remove_if_empty};

/// What the name of a shard ends with until all are whole.
const UNFINISHED: &str = ".unfinished";
/// Names of the directory that are looked at for what killed runs left.
const NAMES_MAX: usize = 1 << 20;
/// Digits of the number of a shard, at least.
const NUMBER_DIGITS: usize = 6;

impl Sharded {
    /// Writes them into a directory, which is made or has to be empty; with `force` files with
    /// their names are replaced. All get their names when all are whole and on the medium; until
    /// then `.unfinished` follows these. `progress` is called with the bytes so far, and ends it by
    /// returning `false`: what was written is removed then, and so it is where an error ends it,
    /// unless it replaced something. What a killed run left is replaced.
    ///
    /// # Errors
    /// A directory that is not empty, or that another run writes into; as [`Stitched::write`].
    pub fn write(&self, path: &Path, force: bool, progress: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        self.write_through(path, force, Arc::new(System), progress)
    }

    /// The same, with system calls that somebody else makes.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_through(
        &self,
        path: &Path,
        force: bool,
        calls: Arc<dyn Calls>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let failed = |operation, error| crate::Error::io(operation, path, error);
        if self.shards().iter().any(|shard| shard.laid.file.path().components().count() != 1) {
            let what = "what the names of shards begin with has no slash: name another directory".to_owned();
            return Err(Error::Invalid(what));
        }
        let (is_made, left) = (!path.is_dir(), Left::of(self.shards()));
        if !is_made && !force && left.has_others(path).map_err(|error| failed("list", error))? {
            let what = format!(
                "{} is not empty: shards that are there would be mixed with new ones",
                path.display()
            );
            return Err(Error::Invalid(what));
        }
        if !is_made && let Some(other) = left.shard_beside(path, self.shards())? {
            let what = format!(
                "{} has {other}, too, which readers would take for a shard of these: remove it, or name \
                 another directory or prefix",
                path.display()
            );
            return Err(Error::Invalid(what));
        }
        let files: Vec<PathBuf> =
            self.shards().iter().map(|shard| path.join(shard.laid.file.path())).collect();
        refuse_sources(self.shards(), &files)?;
        let folder = Folder::open_through(path, Durability::Batch, calls.clone())?;
        let directory = File::open(path).map_err(|error| failed("open", error))?;
        match calls.lock(&directory) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let what = format!("another run writes shards into {}", path.display());
                return Err(Error::Invalid(what));
            }
            // Not every file system has locks.
            _ => {}
        }
        let writing = Writing { calls: &*calls, path, directory: &directory, force };
        let mut named = Vec::new();
        let written = writing.remove_left(&left).and_then(|()| {
            if !force {
                refuse_too_little_room(path, path, self.len())?;
            }
            writing.write(folder, self.shards(), progress)?;
            writing.name_all(self.shards(), &mut named)
        });
        if written.is_err() && !force {
            writing.remove(self.shards(), &named);
            if is_made {
                let _ = remove_if_empty(path);
            }
        }
        written
    }
}

/// What a shard is called until all are whole.
fn unfinished(name: &OsStr) -> OsString {
    let mut name = name.to_os_string();
    name.push(UNFINISHED);
    name
}

/// Names of what a killed run may have left: those of unfinished shards that are called as these
/// are.
pub(super) struct Left<'a> {
    /// What the names of shards begin with, before the number.
    pub(super) prefix: &'a [u8],
}

impl<'a> Left<'a> {
    fn of(shards: &'a [Stitched]) -> Self {
        let first = shards.first().map_or(OsStr::new(""), |shard| shard.laid.file.path().as_os_str());
        let name = first.as_bytes().strip_suffix(b".tar").unwrap_or_default();
        let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count().min(NUMBER_DIGITS);
        Self { prefix: name.get(..name.len().saturating_sub(digits)).unwrap_or_default() }
    }

    pub(super) fn is_unfinished(&self, name: &OsStr) -> bool {
        name.as_bytes().strip_suffix(UNFINISHED.as_bytes()).is_some_and(|name| self.is_shard(name))
    }

    /// Whether something is called as a shard of these.
    fn is_shard(&self, name: &[u8]) -> bool {
        let number = name.strip_prefix(self.prefix).and_then(|name| name.strip_suffix(b".tar"));
        number.is_some_and(|number| number.len() >= NUMBER_DIGITS && number.iter().all(u8::is_ascii_digit))
    }

    /// What is called as these are in a directory, and none of them: the first by its name.
    fn shard_beside(&self, path: &Path, shards: &[Stitched]) -> Result<Option<String>> {
        let own: HashSet<&OsStr> = shards.iter().map(|shard| shard.laid.file.path().as_os_str()).collect();
        let failed = |error| crate::Error::io("list", path, error);
        let mut first: Option<OsString> = None;
        for entry in fs::read_dir(path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let is_other = self.is_shard(name.as_bytes()) && !own.contains(name.as_os_str());
            if is_other && first.as_ref().is_none_or(|first| name < *first) {
                first = Some(name);
            }
        }
        Ok(first.map(|name| name.to_string_lossy().into_owned()))
    }

    /// Whether a directory has anything else.
    fn has_others(&self, path: &Path) -> io::Result<bool> {
        for entry in fs::read_dir(path)? {
            let name = entry?.file_name();
            if !is_temporary(name.as_bytes()) && !self.is_unfinished(&name) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

struct Writing<'a> {
    calls: &'a dyn Calls,
    path: &'a Path,
    directory: &'a File,
    force: bool,
}

impl Writing<'_> {
    fn io(&self, operation: &'static str, name: &OsStr, error: io::Error) -> Error {
        Error::Core(crate::Error::io(operation, self.path.join(name), error))
    }

    /// Removes what a killed run left. Nobody else writes here.
    fn remove_left(&self, left: &Left<'_>) -> Result<()> {
        let directory = self.directory.as_fd().try_clone_to_owned();
        let directory = directory.map_err(|error| self.io("open", OsStr::new(""), error))?;
        remove_stale(self.calls, &directory, NAMES_MAX);
        let entries = fs::read_dir(self.path).map_err(|error| self.io("list", OsStr::new(""), error))?;
        for entry in entries {
            let name = entry.map_err(|error| self.io("list", OsStr::new(""), error))?.file_name();
            if left.is_unfinished(&name) {
                let removed = self.calls.unlink(self.directory.as_fd(), &name);
                removed.map_err(|error| self.io("remove", &name, error))?;
            }
        }
        Ok(())
    }

    /// All of them are on the medium, under their unfinished names.
    fn write(
        &self,
        mut folder: Folder,
        shards: &[Stitched],
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let mut before = 0_u64;
        for shard in shards {
            let name = unfinished(shard.laid.file.path().as_os_str());
            let draft = folder.file(name.as_bytes()).map_err(|refused| match refused {
                Refused::Name(why) => Error::Invalid(why),
                Refused::Core(error) => Error::Core(error),
            })?;
            let draft = shard.fill(draft, &mut |at| progress(before.saturating_add(at)))?;
            draft.finish()?;
            folder.finished().into_iter().try_for_each(|file| file.result)?;
            before = before.saturating_add(shard.laid.file.len());
        }
        Ok(folder.sync()?)
    }

    /// All get their names, in order; `named` are those that have.
    fn name_all<'s>(&self, shards: &'s [Stitched], named: &mut Vec<&'s OsStr>) -> Result<()> {
        let directory = self.directory.as_fd();
        for shard in shards {
            let name = shard.laid.file.path().as_os_str();
            let from = unfinished(name);
            let renamed = match self.force {
                true => self.calls.rename(directory, &from, name),
                false => match self.calls.rename_new(directory, &from, name) {
                    // The file system has no such call.
                    Err(error) if is_unsupported(&error) && !self.path.join(name).exists() => {
                        self.calls.rename(directory, &from, name)
                    }
                    renamed => renamed,
                },
            };
            renamed.map_err(|error| self.io("rename", &from, error))?;
            named.push(name);
        }
        self.calls.sync(directory).map_err(|error| self.io("sync", OsStr::new(""), error))
    }

    /// Takes away what was written: an error is reported already.
    fn remove(&self, shards: &[Stitched], named: &[&OsStr]) {
        let unfinished = shards.iter().map(|shard| unfinished(shard.laid.file.path().as_os_str()));
        for name in named.iter().map(|name| name.to_os_string()).chain(unfinished) {
            let _ = self.calls.unlink(self.directory.as_fd(), &name);
        }
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP))
}
