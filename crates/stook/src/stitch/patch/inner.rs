//! [`Finder`]: members of an archive by their names, and their bytes where they lie in it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use flate2::Crc;

use super::super::error::{Error, Result};
use super::super::file::VirtualFile;
use super::super::part::SourcePart;
use super::super::pieces::Pieces;
use super::afs::number_of;
use super::window::Window;
use super::{Patch, Table};
use crate::error;
use crate::extent::ByteRange;
use crate::source::{Identity, Inodes, Leaf, Origin, Source};
use crate::tree::{Kind, Node};

/// Finds members by name.
pub(in super::super) struct Finder<'p> {
    patch: &'p Patch,
    /// The number of the member with a folded name, the last one of several; in an AFS it is
    /// nobody's then.
    numbers: HashMap<Vec<u8>, Option<u32>>,
}

impl<'p> Finder<'p> {
    pub(in super::super) fn new(patch: &'p Patch) -> Self {
        let numbered = |keys: &mut dyn Iterator<Item = &[u8]>| {
            keys.zip(0_u32..).map(|(key, at)| (patch.case.folded(key).into_owned(), Some(at))).collect()
        };
        let numbers = match &patch.table {
            Table::Tar(table) => numbered(&mut table.keys()),
            Table::Zip(table) => numbered(&mut table.keys()),
            Table::Afs(table) => table.names(patch.case),
        };
        Self { patch, numbers }
    }

    /// What all names have in common that name one member: the folded path, or the number in an
    /// AFS, whether it is there or not.
    pub(in super::super) fn identity(&self, key: &[u8]) -> Vec<u8> {
        let folded = self.patch.case.folded(key);
        match &self.patch.table {
            Table::Afs(_) => match self.number(key) {
                Some(number) => number.to_string().into_bytes(),
                None => folded.into_owned(),
            },
            _ => folded.into_owned(),
        }
    }

    fn number(&self, key: &[u8]) -> Option<u32> {
        match (self.numbers.get(&*self.patch.case.folded(key)), &self.patch.table) {
            (Some(number), _) => *number,
            (None, Table::Afs(_)) => number_of(key),
            (None, _) => None,
        }
    }

    /// The bytes of the file that has a name in the archive, and what is said of it; `None` if
    /// there is none.
    ///
    /// # Errors
    /// [`Error::Change`] where they are not there as they are; what reading the archive meets.
    pub(in super::super) fn open(&self, key: &[u8]) -> Result<Option<(Arc<dyn Source>, Node)>> {
        let Some(number) = self.number(key) else { return Ok(None) };
        let archive = &self.patch.archive;
        let (range, crc32) = match &self.patch.table {
            Table::Tar(table) => (table.body(number as usize)?, None),
            Table::Afs(table) => (table.place(number), None),
            Table::Zip(table) => match table.body(&mut Window::new(&**archive)?, number as usize)? {
                Some((range, crc32)) => (Some(range), Some(crc32)),
                None => (None, None),
            },
        };
        let Some(range) = range else { return Ok(None) };
        let part = SourcePart::new(archive.clone(), inner_path(archive.path(), key), range);
        let node = match &self.patch.table {
            Table::Tar(table) => table.node(number as usize),
            Table::Zip(table) => table.node(number as usize),
            Table::Afs(_) => Node::new(Kind::File),
        };
        let source: Arc<dyn Source> = match crc32 {
            Some(crc32) => Arc::new(Verified { part, crc32, is_verified: OnceLock::new() }),
            None => Arc::new(part),
        };
        Ok(Some((source, node)))
    }
}

/// What a member of an archive is called in messages.
fn inner_path(archive: &Path, key: &[u8]) -> PathBuf {
    let mut path = archive.as_os_str().to_owned();
    path.push("//");
    path.push(std::os::unix::ffi::OsStrExt::from_bytes(key) as &std::ffi::OsStr);
    path.into()
}

/// A member of a zip that is verified before any of its bytes are handed out: an archive that is
/// made of them has a CRC-32 of its own, which would vouch for what is damaged.
#[derive(Debug)]
struct Verified {
    part: SourcePart,
    crc32: u32,
    is_verified: OnceLock<()>,
}

impl Verified {
    fn verify(&self) -> error::Result<()> {
        if self.is_verified.get().is_some() {
            return Ok(());
        }
        let (mut crc, mut pieces) = (Crc::new(), Pieces::new());
        pieces.body(0, 0, self.part.len());
        let whole: Vec<Arc<dyn Source>> = vec![Arc::new(self.part.clone())];
        let read = VirtualFile::new(self.path(), pieces, Arc::new(whole)).and_then(|file| {
            file.read_through(&mut |bytes| {
                crc.update(bytes);
                Ok(true)
            })
        });
        read.map_err(|error| match error {
            Error::Core(error) => error,
            other => error::Error::io("verify", self.path(), std::io::Error::other(other)),
        })?;
        if crc.sum() != self.crc32 {
            let what = "its bytes do not have the CRC-32 that the zip says".to_owned();
            return Err(error::Error::Damaged { path: self.path().to_path_buf(), offset: 0, what });
        }
        self.is_verified.get_or_init(|| ());
        Ok(())
    }
}

impl Source for Verified {
    fn path(&self) -> &Path {
        self.part.path()
    }

    fn len(&self) -> u64 {
        self.part.len()
    }

    fn identity(&self) -> Identity {
        self.part.identity()
    }

    fn current_identity(&self) -> error::Result<Identity> {
        self.part.current_identity()
    }

    fn check_ranges(&self, ranges: &[ByteRange]) -> error::Result<()> {
        self.part.check_ranges(ranges)
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> error::Result<()> {
        self.verify()?;
        self.part.resolve(range, leaves)
    }

    fn note_files(&self, files: &mut Inodes) {
        self.part.note_files(files);
    }

    fn origin(&self) -> Origin {
        self.part.origin()
    }

    fn is_proven(&self) -> bool {
        self.part.is_proven()
    }
}
