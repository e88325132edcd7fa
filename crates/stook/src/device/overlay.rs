//! overlay: directories of other file systems, one over another. Writes go to the upper one.
//!
//! The mount names its layers by paths, which need not lead to the layer: it can belong to another
//! mount namespace, and something else can be mounted over it. So a layer is accepted only if it
//! has the very file or directory that the overlay shows.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::mount::{Mount, real_path, unescaped};
use super::{Below, System};

/// The unit of the allocated size of files, on every file system.
const BLOCK_BYTES: u64 = 512;
/// Only for directories that are examined before anything is written.
const NOT_WRITABLE: &str = "it has no upper directory, so nothing new can lie in it";
/// How often two paths are looked up while they are being changed.
const LOOKS: usize = 8;

pub(super) fn below(system: &System, mount: &Mount, path: &Path, layers: u32) -> Below {
    let (which, held) = match Layers::of(&mount.options).that_holds(mount, path) {
        Ok(found) => found,
        Err(doubt) => return Below::unknown("overlay", format!("overlay: {doubt}")),
    };
    let device = match fs::metadata(&held) {
        Ok(metadata) => metadata.dev(),
        Err(error) => {
            let doubt = format!("overlay: {} in its {which} directory: {error}", held.display());
            return Below::unknown("overlay", doubt);
        }
    };
    let below = system.below_file(&held, device, layers - 1);
    Below {
        name: format!("overlay's {which} directory on {}", below.name),
        doubt: below.doubt_below("overlay"),
        ..below
    }
}

/// The directories of an overlay as its mount names them: with backslashes before special
/// characters.
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

    /// The layer that holds a file, or receives it if it is new: its name, and its path of the
    /// file, or of the directory of a new one.
    fn that_holds(&self, mount: &Mount, path: &Path) -> Result<(&'static str, PathBuf), String> {
        let path = real_path(path).ok_or("the file cannot be found")?;
        match fs::symlink_metadata(&path) {
            Ok(metadata) if !metadata.is_dir() => self.that_has(mount, &path),
            Ok(_) => self.that_takes(mount, path.ancestors()),
            // An own file has lost its name, and lies where new ones do. Its directory is in the
            // upper layer since it was made, so no other is asked.
            Err(_) => self.that_takes(mount, path.parent().into_iter()),
        }
    }

    /// The layer that has a file.
    fn that_has(&self, mount: &Mount, path: &Path) -> Result<(&'static str, PathBuf), String> {
        let inside = inside(mount, path)?;
        let upper = self.upper.iter().map(|directory| ("upper", directory));
        let lowers = self.lowers.iter().map(|directory| ("lower", directory));
        for (which, directory) in upper.chain(lowers) {
            let there = seen(which, directory)?.join(&inside);
            let Some(metadata) = held(&there) else { continue };
            if !is_same(path, &there) {
                return Err(hidden(which, directory));
            }
            self.check_bytes(&metadata)?;
            return Ok((which, there));
        }
        Err("no layer that can be seen from here holds the file".to_owned())
    }

    /// The directory of the upper layer for new files: the first of these directories that it has.
    /// A directory that is only in lower layers is made there with its first file.
    fn that_takes<'a>(
        &self,
        mount: &Mount,
        mut directories: impl Iterator<Item = &'a Path>,
    ) -> Result<(&'static str, PathBuf), String> {
        let upper = self.upper.as_ref().ok_or(NOT_WRITABLE)?;
        let layer = seen("upper", upper)?;
        let found = directories.find_map(|directory| {
            let there = layer.join(inside(mount, directory).ok()?);
            held(&there).map(|_| (directory, there))
        });
        match found {
            Some((directory, there)) if is_same(directory, &there) => Ok(("upper", there)),
            _ => Err(hidden("upper", upper)),
        }
    }

    fn check_bytes(&self, file: &Metadata) -> Result<(), String> {
        if self.has_metadata_only && file.blocks().saturating_mul(BLOCK_BYTES) < file.len() {
            return Err("with metacopy, bytes of the file can lie in another layer than its name".to_owned());
        }
        Ok(())
    }
}

/// The path within layers of an entry of an overlay.
fn inside(mount: &Mount, path: &Path) -> Result<PathBuf, String> {
    let inside = path.strip_prefix(&mount.point).map_err(|_| "the file cannot be found")?;
    // A part of an overlay can be mounted somewhere else.
    Ok(mount.root.strip_prefix("/").unwrap_or(Path::new("")).join(inside))
}

/// Whether two paths lead to the same file or directory. An overlay passes on the length and the
/// times of the file in its layer, but not always the inode number. The change time cannot be set,
/// so a copy has another one.
fn is_same(path: &Path, other: &Path) -> bool {
    let known = |path: &Path| {
        let metadata = fs::symlink_metadata(path).ok()?;
        let written = (metadata.mtime(), metadata.mtime_nsec());
        Some((metadata.len(), written, (metadata.ctime(), metadata.ctime_nsec())))
    };
    (0..LOOKS).any(|_| known(path).is_some_and(|found| known(other) == Some(found)))
}

/// The entry of a layer at a path. A removed one is replaced by a device, which hides those in
/// lower layers.
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
    found.ok_or_else(|| hidden(which, directory))
}

/// The message for a layer's directory that is missing, or is another one.
fn hidden(which: &str, directory: &str) -> String {
    // It is no longer known what it was relative to.
    let how = if directory.starts_with('/') { "" } else { ", a relative path," };
    format!("its {which} directory {directory}{how} cannot be seen from here")
}

fn without_backslashes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(if character == '\\' { characters.next().unwrap_or('\\') } else { character });
    }
    plain
}

/// At colons without a backslash before them. Two of them precede directories that hold data only.
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
