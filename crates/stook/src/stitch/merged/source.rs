//! [`MergedFile`]: a virtual file, or its merged copy.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::engine;
use crate::error::Result;
use crate::extent::ByteRange;
use crate::source::{FileSource, Identity, Inodes, Leaf, Origin, Source, check_bounds};
use crate::stitch::file::VirtualFile;
use crate::storage::cache;
use crate::tree::Holes;

/// A virtual file, read from its merged copy where there is one. As long as this is open, no
/// process removes the copy; if one is changed all the same, reads are errors that name it.
#[derive(Debug)]
pub struct MergedFile {
    file: VirtualFile,
    copy: Option<Arc<HeldCopy>>,
}

/// A merged copy in use.
#[derive(Debug)]
pub(super) struct HeldCopy {
    pub(super) data: FileSource,
    pub(super) hash: [u8; 32],
    /// Locked, shared with others that use it.
    pub(super) record: File,
}

impl HeldCopy {
    pub(super) fn origin(&self, file: &VirtualFile) -> Origin {
        Origin::new("merged", file.origin().name()).with("blake3", self.hash)
    }
}

impl Drop for HeldCopy {
    fn drop(&mut self) {
        // It was used until now. Where that cannot be noted, it counts as used when it was opened.
        let _ = cache::stamp(&self.record);
    }
}

impl MergedFile {
    pub(super) fn new(file: &VirtualFile, copy: Option<Arc<HeldCopy>>) -> Self {
        Self { file: file.clone(), copy }
    }

    /// Whether it is read from a merged copy.
    pub fn is_merged(&self) -> bool {
        self.copy.is_some()
    }

    /// The virtual file.
    pub fn file(&self) -> &VirtualFile {
        &self.file
    }

    /// The merged copy, if it is read from one: a file with exactly these bytes.
    pub fn copy(&self) -> Option<&FileSource> {
        self.copy.as_ref().map(|copy| &copy.data)
    }

    fn read(&self) -> &dyn Source {
        self.copy.as_ref().map_or(&self.file, |copy| &copy.data)
    }
}

impl Source for MergedFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn identity(&self) -> Identity {
        self.read().identity()
    }

    fn current_identity(&self) -> Result<Identity> {
        self.read().current_identity()
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        self.read().resolve(range, leaves)
    }

    fn check_unchanged(&self) -> Result<()> {
        self.read().check_unchanged()
    }

    fn check_ranges(&self, ranges: &[ByteRange]) -> Result<()> {
        self.read().check_ranges(ranges)
    }

    fn note_files(&self, files: &mut Inodes) {
        self.file.note_files(files);
    }

    fn origin(&self) -> Origin {
        match &self.copy {
            Some(copy) => copy.origin(&self.file),
            None => self.file.origin(),
        }
    }

    fn is_proven(&self) -> bool {
        self.read().is_proven()
    }

    fn holes(&self) -> Result<Holes> {
        self.read().holes()
    }

    fn whole_file(&self) -> Option<&Arc<engine::File>> {
        self.copy()?.whole_file()
    }
}
