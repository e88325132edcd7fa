//! overlay: directories of other file systems, one over another. What is written lies in the upper
//! one.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::{Below, System};
use crate::bench::environment::{Mount, real_path, unescaped};

/// The unit in which files tell what they take, on every file system.
const BLOCK_BYTES: u64 = 512;
/// Only of directories that somebody asks about before anything is written.
const NOT_WRITABLE: &str = "it has no upper directory, so nothing new can lie in it";

pub(super) fn below(system: &System, mount: &Mount, path: &Path, layers: u32) -> Below {
    let (which, directory) = match Layers::of(&mount.options).that_holds(mount, path) {
        Ok(found) => found,
        Err(doubt) => return Below::unknown("overlay", format!("overlay: {doubt}")),
    };
    let device = match fs::metadata(&directory) {
        Ok(metadata) => metadata.dev(),
        Err(error) => {
            let doubt = format!("overlay: its {which} directory {}: {error}", directory.display());
            return Below::unknown("overlay", doubt);
        }
    };
    let below = system.below_file(&directory, device, layers - 1);
    Below {
        name: format!("overlay's {which} directory on {}", below.name),
        doubt: below.doubt_below("overlay"),
        ..below
    }
}

/// The directories of an overlay as its mount names them: with backslashes before what has a
/// meaning there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layers {
    pub(super) upper: Option<String>,
    /// The first hides those that follow.
    pub(super) lowers: Vec<String>,
    /// Whether a file can have its name and rights in one layer and its bytes in another.
    has_metadata_only: bool,
}

impl Layers {
    pub(super) fn of(options: &str) -> Self {
        let mut layers = Self::default();
        let mut data_only = Vec::new();
        for option in options.split([' ', ',']) {
            let option = unescaped(option);
            match option.split_once('=') {
                Some(("upperdir", directory)) => layers.upper = Some(directory.to_owned()),
                Some(("lowerdir", directories)) => layers.lowers.extend(split(directories)),
                Some(("lowerdir+", directory)) => layers.lowers.push(directory.to_owned()),
                Some(("datadir+", directory)) => data_only.push(directory.to_owned()),
                Some(("metacopy", "on")) => layers.has_metadata_only = true,
                _ => {}
            }
        }
        layers.lowers.extend(data_only);
        layers
    }

    /// The layer that holds a file, or takes it if it is new: what it is called, and its directory.
    fn that_holds(&self, mount: &Mount, path: &Path) -> Result<(&'static str, PathBuf), String> {
        let path = real_path(path).ok_or("the file cannot be found")?;
        let inside = path.strip_prefix(&mount.point).map_err(|_| "the file cannot be found")?;
        // A part of an overlay can be mounted somewhere else.
        let inside = mount.root.strip_prefix("/").unwrap_or(Path::new("")).join(inside);
        // An own file has lost its name, and lies where new ones do.
        let is_old = fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_dir());
        let upper = self.upper.iter().map(|directory| ("upper", directory));
        let lowers = self.lowers.iter().map(|directory| ("lower", directory));
        for (which, directory) in upper.chain(lowers) {
            let directory = seen(which, directory)?;
            if !is_old {
                return if which == "upper" { Ok((which, directory)) } else { Err(NOT_WRITABLE.to_owned()) };
            }
            if let Some(metadata) = held(&directory.join(&inside)) {
                self.check_bytes(&metadata)?;
                return Ok((which, directory));
            }
        }
        Err("no layer that can be seen from here holds the file".to_owned())
    }

    fn check_bytes(&self, file: &Metadata) -> Result<(), String> {
        if self.has_metadata_only && file.blocks().saturating_mul(BLOCK_BYTES) < file.len() {
            return Err("with metacopy, bytes of the file can lie in another layer than its name".to_owned());
        }
        Ok(())
    }
}

/// What a layer holds under a path. One that was removed has a device in its place, which hides
/// those in lower layers.
fn held(path: &Path) -> Option<Metadata> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let is_removed = metadata.file_type().is_char_device() && metadata.rdev() == 0;
    (!is_removed).then_some(metadata)
}

/// A layer's directory, if it is there: inside a container those of its root belong to another view
/// of the files.
fn seen(which: &str, directory: &str) -> Result<PathBuf, String> {
    // The kernel hands on the text that it was given, and some ways of mounting take paths as they
    // are.
    let ways = [without_backslashes(directory), directory.to_owned()];
    let found = ways.into_iter().map(PathBuf::from).find(|path| path.is_absolute() && path.is_dir());
    found.ok_or_else(|| format!("its {which} directory {directory} cannot be seen from here"))
}

fn without_backslashes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(if character == '\\' { characters.next().unwrap_or('\\') } else { character });
    }
    plain
}

/// At colons without a backslash before them. Two of them stand before directories that hold data
/// only.
fn split(directories: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_escaped = false;
    for character in directories.chars() {
        if character == ':' && !is_escaped {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(character);
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    parts.retain(|part| !part.is_empty());
    parts
}
