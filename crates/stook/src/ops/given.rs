//! [`Given`]: what a path or an address is that is copied or verified.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::copy::{Error, Result};
use crate::archive::{self, ArchiveTree};
use crate::copy::{CopySource, Misplaced, NoPaths};
use crate::ops::contents::{self, OpenOptions, Opened, cut_off_note, is_object, split_member};
use crate::pack;
use crate::pack::tree::{Followed, Hidden, Paths, RecordTree};
use crate::report::units;
use crate::source;
use crate::tree::{self, NodeId, Tree as _};
use crate::verify::Branch;

/// A source that was opened.
#[derive(Debug)]
pub enum Given {
    /// A file, a directory or an object, as it is.
    Files(CopySource),
    /// What is in a pack or an archive.
    Packed(Packed),
}

/// A pack or an archive.
#[derive(Debug)]
pub struct Packed {
    pub(super) opened: Opened,
    /// What it is called where there are several sources.
    name: Vec<u8>,
    /// What of it is meant: all, if empty.
    key: Vec<u8>,
    names_first: bool,
}

/// How sources are opened.
#[derive(Debug, Clone, Default)]
pub struct OpenGiven {
    /// Packs, archives and objects.
    pub contents: OpenOptions,
    /// Packs are copied as the files that they are made of.
    pub as_file: bool,
    /// What is mounted in a directory is left out.
    pub one_file_system: bool,
    /// An archive is meant with what is in it, without slashes after it; a file that is none, too,
    /// is an error.
    pub into_archives: bool,
    /// Of a pack no more than the names is read at first:
    /// [`RecordTree::with_names`](crate::pack::tree::RecordTree::with_names).
    pub names_first: bool,
}

impl OpenGiven {
    /// Opens what a path or an address is: a directory, what is in a pack, a file. What is in an
    /// archive is meant where two slashes follow (`x.tar//`, `s3://bucket/x.tar//`), with a path in
    /// it after them if only that is; without them an archive is a file. `progress` is called with
    /// the bytes read while an archive is indexed, and ends that by returning `false`.
    ///
    /// # Errors
    /// I/O errors, [`Error::NotThere`], errors of opening a pack or an archive.
    pub fn open(&self, given: &Path, progress: &mut dyn FnMut(u64) -> bool) -> Result<Given> {
        if given.symlink_metadata().is_ok() || !has_slashes(given) && !is_object(given) {
            return self.open_path(given, progress);
        }
        if is_object(given) {
            if let Some((archive, key)) = split_member(given.as_os_str()) {
                return self.open_packed(Path::new(&archive), key.as_bytes(), progress);
            }
            if self.into_archives {
                return self.open_packed(given, b"", progress);
            }
            let name = name_of_address(given);
            self.refuse_earlier(given)?;
            return Ok(Given::Files(CopySource::object(self.object(given)?, name)?));
        }
        if self.into_archives && contents::file_of_layout(given).is_some() {
            return self.open_packed(given, b"", progress);
        }
        let (before, key) = split_at_slashes(given.as_os_str());
        self.open_packed(Path::new(before), key.as_bytes(), progress)
    }

    fn open_path(&self, path: &Path, progress: &mut dyn FnMut(u64) -> bool) -> Result<Given> {
        source::check_path(path)?;
        let found = std::fs::metadata(path).map_err(|error| crate::Error::io("open", path, error))?;
        let may_be_pack = found.is_dir() && !self.as_file;
        if may_be_pack && tree::is_pack(path).map_err(|error| crate::Error::io("list", path, error))? {
            return self.open_packed(path, b"", progress);
        }
        if self.into_archives && !found.is_dir() {
            return self.open_packed(path, b"", progress);
        }
        self.refuse_earlier(path)?;
        if !found.is_dir() {
            return Ok(Given::Files(CopySource::file(path)?));
        }
        Ok(Given::Files(match self.one_file_system {
            true => CopySource::directory_on_one_file_system(path)?,
            false => CopySource::directory(path)?,
        }))
    }

    /// Refuses to copy the earlier state of something that has none.
    fn refuse_earlier(&self, given: &Path) -> Result<()> {
        if self.contents.pack.at_ns.is_none() {
            return Ok(());
        }
        let shown = source::shown(&given.to_string_lossy());
        let what = format!("{shown} can only be read as it is now: only packs have earlier states");
        Err(crate::copy::Error::Invalid(what).into())
    }

    fn open_packed(&self, path: &Path, key: &[u8], progress: &mut dyn FnMut(u64) -> bool) -> Result<Given> {
        let opened = contents::open(path, self.contents.clone(), progress)?;
        let start = key.iter().position(|byte| *byte != b'/').unwrap_or(key.len());
        let key = key.get(start..).unwrap_or_default();
        let end = key.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let key = key.get(..end).unwrap_or_default().to_vec();
        let name = match key.rsplit(|byte| *byte == b'/').next() {
            Some(last) if !last.is_empty() => last.to_vec(),
            _ => name_of_address(path),
        };
        Ok(Given::Packed(Packed { opened, name, key, names_first: self.names_first }))
    }

    /// An object that is copied as it is. It is wanted as a whole, so its server need not send
    /// parts.
    fn object(&self, address: &Path) -> Result<Arc<dyn source::Source>> {
        #[cfg(feature = "remote")]
        let opened = source::open_with(
            address,
            &source::remote::RemoteOptions { whole_file: true, ..self.contents.remote.clone() },
        );
        #[cfg(not(feature = "remote"))]
        let opened = source::open(address);
        Ok(opened?)
    }
}

impl Given {
    /// As something that is copied file by file.
    ///
    /// # Errors
    /// [`Error::NotThere`], I/O errors.
    pub fn into_source(self) -> Result<CopySource> {
        let Packed { opened, name, key, names_first } = match self {
            Self::Files(source) => return Ok(source),
            Self::Packed(packed) => packed,
        };
        let path = opened.contents().path().to_path_buf();
        let is_complete = opened.contents().is_complete();
        let own = path.clone();
        let not_there = || Error::NotThere { path, key: key.clone() };
        let source = match opened {
            Opened::Pack(contents) => {
                let pack = Arc::new(contents.into_pack());
                let tree = if names_first { RecordTree::with_names(pack) } else { RecordTree::new(pack) };
                let tree = Arc::new(tree.map_err(contents::Error::Pack)?);
                let id = tree.find(&key)?.ok_or_else(not_there)?;
                let misplaced = misplaced_below(&key, hidden_in(&tree));
                let names = Arc::new(Names(tree.clone()));
                let source = CopySource::tree_at(tree, id, name).without(misplaced).with_no_paths(names);
                source.in_these(on_disk([&own]))
            }
            Opened::Archive(archive) => {
                let tree = archive.tree();
                let id = tree.find(&key)?.ok_or_else(not_there)?;
                let misplaced = misplaced_below(&key, refused_by(&tree));
                let source = CopySource::tree_at(Arc::new(tree), id, name).without(misplaced);
                source.in_these(on_disk([&own, &archive::index_path(&own)]))
            }
        };
        Ok(if is_complete { source } else { source.incomplete() })
    }

    /// As a pack that is followed, if it is all of one, with records that have no place in its
    /// tree.
    ///
    /// # Errors
    /// As [`Followed::new`].
    pub(crate) fn into_followed(
        self,
        options: pack::OpenOptions,
    ) -> Result<Option<(Followed, Vec<Misplaced>)>> {
        let Self::Packed(Packed { opened: Opened::Pack(contents), key, .. }) = self else { return Ok(None) };
        if !key.is_empty() {
            return Ok(None);
        }
        let followed = Followed::new(Arc::new(contents.into_pack()), options);
        let followed = followed.map_err(contents::Error::Pack)?;
        let misplaced = all_hidden(&followed.hidden());
        Ok(Some((followed, misplaced)))
    }

    /// As something that is verified, and what of it the tree does not have: entries without a
    /// place in it, and the rest of what was cut off or not finished.
    ///
    /// # Errors
    /// As [`into_source`](Self::into_source).
    pub(crate) fn into_branch(self) -> Result<(Branch, Vec<Misplaced>)> {
        let packed = self.opened().map(|opened| opened.contents().path().to_path_buf());
        let cut_off = match self.opened() {
            Some(Opened::Archive(archive)) => cut_off_note(archive),
            _ => None,
        };
        let source = self.into_source()?;
        let CopySource { tree, id, name, path, given, is_incomplete, misplaced, .. } = source;
        let mut lacking = misplaced.to_vec();
        if is_incomplete {
            let why = cut_off.unwrap_or_else(|| "it is not complete".to_owned());
            lacking.insert(0, Misplaced { path: Vec::new(), why });
        }
        let is_on_disk = path.is_some();
        // What is on a server lies on nothing that is seen here.
        let lies_in = path.or(packed.filter(|path| path.exists()));
        let branch = Branch { tree, id, name: name.unwrap_or_default(), is_on_disk, lies_in, given };
        Ok((branch, lacking))
    }

    /// The pack or archive, if it is one.
    pub fn opened(&self) -> Option<&Opened> {
        match self {
            Self::Files(_) => None,
            Self::Packed(packed) => Some(&packed.opened),
        }
    }
}

impl Packed {
    /// It, if it is an archive and all of it is meant.
    pub(super) fn into_whole_archive(self) -> Option<archive::Archive> {
        match self.opened {
            Opened::Archive(archive) if self.key.is_empty() => Some(*archive),
            _ => None,
        }
    }

    /// Whether all of it is meant.
    pub(super) fn is_whole(&self) -> bool {
        self.key.is_empty()
    }
}

/// The names of the records of a pack.
#[derive(Debug)]
struct Names(Arc<RecordTree>);

impl NoPaths for Names {
    /// As unpacking refuses them.
    fn refusal(&self, id: NodeId) -> Option<String> {
        let key = self.0.key(id)?;
        Paths::path(&key).err().map(|error| error.to_string())
    }
}

/// Records that have no place in the tree of a pack.
fn hidden_in(tree: &RecordTree) -> Vec<Misplaced> {
    all_hidden(tree.hidden())
}

fn all_hidden(hidden: &Hidden) -> Vec<Misplaced> {
    let known = hidden.known().map(|(path, why)| Misplaced { path: path.to_vec(), why: why.to_owned() });
    let mut all: Vec<Misplaced> = known.collect();
    if let Some(more) = hidden.records.checked_sub(all.len() as u64).filter(|more| *more > 0) {
        let why = format!("{} more records have no place in it", units::count(more));
        all.push(Misplaced { path: Vec::new(), why });
    }
    all
}

/// Members that have no place in the tree of an archive.
fn refused_by(tree: &ArchiveTree) -> Vec<Misplaced> {
    let misplaced = |error: &crate::Error| match error {
        crate::Error::Entry { path, what } => {
            let below = path.strip_prefix(tree.path()).unwrap_or(path);
            Misplaced { path: below.as_os_str().as_bytes().to_vec(), why: what.clone() }
        }
        error => Misplaced { path: Vec::new(), why: crate::error::chain(error) },
    };
    tree.refused().iter().map(misplaced).collect()
}

/// Those of them that lie in what is meant, with their paths in it.
fn misplaced_below(key: &[u8], all: Vec<Misplaced>) -> Vec<Misplaced> {
    if key.is_empty() {
        return all;
    }
    let below = |one: Misplaced| {
        let path = one.path.strip_prefix(key)?.strip_prefix(b"/")?.to_vec();
        Some(Misplaced { path, ..one })
    };
    all.into_iter().filter_map(below).collect()
}

/// Those of some paths that are there: none of an address is.
fn on_disk<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().filter(|path| path.exists()).cloned().collect()
}

/// Whether a path is of something in an archive on disk, or all of one: two slashes follow it.
pub(super) fn is_in_archive(path: &Path) -> bool {
    let is_meant = path.symlink_metadata().is_err() && has_slashes(path);
    let before = Path::new(split_at_slashes(path.as_os_str()).0);
    is_meant && (before.is_file() || contents::file_of_layout(before).is_some())
}

/// Whether two slashes follow something.
fn has_slashes(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.get(1..).is_some_and(|rest| rest.windows(2).any(|pair| pair == b"//"))
}

/// Splits at the last two slashes in a row before which something on disk is named, or a file of a
/// layout: what is before them, and what follows.
fn split_at_slashes(path: &OsStr) -> (&OsStr, &OsStr) {
    let bytes = path.as_bytes();
    let places = bytes.windows(2).enumerate().filter(|(at, pair)| *at > 0 && *pair == b"//");
    let there = |(at, _): (usize, &[u8])| {
        let before = OsStr::from_bytes(bytes.get(..at)?);
        let after = OsStr::from_bytes(bytes.get(at + 2..)?);
        let is_there = Path::new(before).exists() || contents::file_of_layout(Path::new(before)).is_some();
        is_there.then_some((before, after))
    };
    places.filter_map(there).next_back().unwrap_or((path, OsStr::new("")))
}

/// The last part of a path or of the path of an address.
fn name_of_address(address: &Path) -> Vec<u8> {
    let bytes = address.as_os_str().as_bytes();
    let text = match source::is_remote(address.as_os_str()) {
        true => bytes.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default(),
        false => bytes,
    };
    let name = text.rsplit(|byte| *byte == b'/').find(|part| !part.is_empty());
    name.unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_path_of_an_address() {
        for (address, name) in [
            ("s3://bucket/d/x.bin", "x.bin"),
            ("https://host/d/x%20y.bin?token=a/b", "x%20y.bin"),
            ("d/x.tar", "x.tar"),
            ("d/pack/", "pack"),
            ("/", ""),
        ] {
            assert_eq!(name_of_address(Path::new(address)), name.as_bytes(), "{address}");
        }
    }

    #[test]
    fn slashes_mean_what_is_in_an_archive_only_where_one_is() {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("x.tar");
        std::fs::write(&archive, "").unwrap();
        let shown = archive.to_str().unwrap();
        for (given, key) in [("//", ""), ("//a/b", "a/b"), ("//a//b", "a//b")] {
            let given = format!("{shown}{given}");
            let (before, after) = split_at_slashes(OsStr::new(&given));
            assert_eq!((before, after), (archive.as_os_str(), OsStr::new(key)), "{given}");
            assert!(has_slashes(Path::new(&given)));
        }
        assert!(!has_slashes(Path::new("//a/b")) && !has_slashes(&archive));
    }
}
