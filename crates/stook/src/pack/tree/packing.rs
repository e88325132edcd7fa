//! A tree of files into a pack.

use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;

use super::existing::Existing;
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind};
use crate::pack::key::Key;
use crate::pack::open::Pack;
use crate::pack::writer::{PackWriter, chunk_sums};
use crate::walk::{Content, Decision, Kind, LargeFile, Metadata, Walk, WalkItem, WalkOptions};

/// One read of a file that is streamed, in bytes.
const STREAM_LEN: usize = 1 << 20;

/// Which group a file goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grouping {
    /// All into this one.
    Named(String),
    /// One group for each first part of the path; what stands at the top goes to the default group.
    Top,
    /// This many groups, by a hash of the path.
    Hash(u32),
}

impl Grouping {
    fn of(&self, key: &[u8], is_directory: bool) -> String {
        match self {
            Self::Named(name) => name.clone(),
            Self::Top => {
                let mut parts = key.split(|byte| *byte == b'/');
                let top = parts.next().unwrap_or_default();
                let below = parts.next().is_some() || is_directory;
                let name = String::from_utf8_lossy(if below { top } else { b"" }).into_owned();
                // A group's name has at most 255 bytes, and replacing what is not UTF-8 makes it longer.
                let end = (0..=name.len().min(255)).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
                name.get(..end).unwrap_or_default().to_owned()
            }
            Self::Hash(groups) => format!("{:04}", crc32c::crc32c(key) % (*groups).max(1)),
        }
    }
}

/// An entry that was not packed, and why.
#[derive(Debug)]
pub struct Failure {
    /// Its path relative to the root.
    pub key: Vec<u8>,
    /// What was met.
    pub error: Error,
}

/// What packing a tree did.
#[derive(Debug, Default)]
pub struct PackSummary {
    /// Regular files that were added.
    pub files: u64,
    /// Directories that were added.
    pub directories: u64,
    /// Symbolic links that were added.
    pub symlinks: u64,
    /// Further names of files that were added.
    pub hard_links: u64,
    /// Of all these, how many took the place of an older record.
    pub replaced: u64,
    /// Entries that were there already, unchanged.
    pub unchanged: u64,
    /// Bytes of what was added.
    pub bytes: u64,
    /// Pipes, sockets and devices, which are left out: key and kind.
    pub special: Vec<(Vec<u8>, Kind)>,
    /// What could not be packed.
    pub failures: Vec<Failure>,
    /// Whether it was stopped by the caller before its end.
    pub interrupted: bool,
}

impl PackSummary {
    /// Entries that were added.
    pub fn added(&self) -> u64 {
        self.files + self.directories + self.symlinks + self.hard_links
    }
}

/// The hook that selects what is packed, by path and kind.
type Select<'a> = Box<dyn Fn(&[u8], Kind) -> Decision + Sync + 'a>;

/// A tree that is to be packed.
pub struct PackTree<'a> {
    /// Files and directories; with several, keys begin with the name of each.
    pub roots: Vec<PathBuf>,
    /// Which group each file goes to.
    pub grouping: Grouping,
    /// Whether owners are kept.
    pub with_owner: bool,
    /// Threads that walk and read.
    pub threads: usize,
    /// What is packed. Roots are always.
    pub select: Select<'a>,
    /// The pack that is being written: never packed into itself.
    pub own: Option<PathBuf>,
}

impl std::fmt::Debug for PackTree<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackTree")
            .field("roots", &self.roots)
            .field("grouping", &self.grouping)
            .finish_non_exhaustive()
    }
}

/// Why the walk ended early.
enum Stop {
    Failed(Error),
    Interrupted,
}

impl From<crate::Error> for Stop {
    fn from(error: crate::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl PackTree<'_> {
    /// Packs what is new or changed since `before` (the pack as it is, if it was there). Without a writer
    /// nothing is read or written, and the summary says what would be.
    ///
    /// `progress` is told entries and bytes so far; when it says no, packing stops where it is.
    ///
    /// Entries that cannot be read, or that change while they are, are [failures](PackSummary::failures); the rest
    /// goes on.
    ///
    /// # Errors
    /// What writing the pack meets, or a root that cannot be opened.
    pub fn run(
        &self,
        writer: Option<&mut PackWriter>,
        before: Option<&Pack>,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<PackSummary> {
        let existing = before.map(Existing::read).transpose()?.unwrap_or_default();
        let dry = writer.is_none();
        let own = self.own_keys()?;
        let walk = Walk::new(&self.roots)?
            .options(WalkOptions { threads: self.threads, ..WalkOptions::default() })
            .select(|key, kind| match own.iter().any(|own| own == key) {
                true => Decision::Prune,
                false => (self.select)(key, kind),
            })
            .wanted(|candidate| {
                !dry && !existing.has_file(candidate.key, candidate.metadata, self.with_owner)
            });
        let mut packing = Packing {
            tree: self,
            writer,
            before,
            existing: &existing,
            summary: PackSummary::default(),
            links: HashMap::new(),
            buffer: Vec::new(),
        };
        let mut seen = 0;
        let walked = walk.run(|event| {
            match event {
                Ok(item) => packing.take(item)?,
                Err(error) => {
                    let key = error.key().to_vec();
                    packing.summary.failures.push(Failure { key, error: error.into_error().into() });
                }
            }
            seen += 1;
            if progress(seen, packing.summary.bytes) { Ok(()) } else { Err(Stop::Interrupted) }
        });
        match walked {
            Ok(_) => Ok(packing.summary),
            Err(Stop::Interrupted) => Ok(PackSummary { interrupted: true, ..packing.summary }),
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}

impl PackTree<'_> {
    /// Under which keys the pack itself would be met.
    fn own_keys(&self) -> Result<Vec<Vec<u8>>> {
        let Some(own) = &self.own else { return Ok(Vec::new()) };
        let canonical = |path: &PathBuf| {
            path.canonicalize().map_err(|error| Error::from(crate::Error::io("find", path, error)))
        };
        let own = canonical(own)?;
        let mut keys = Vec::new();
        for root in &self.roots {
            let root = canonical(root)?;
            let Ok(below) = own.strip_prefix(&root) else { continue };
            let key = match (self.roots.len(), root.file_name()) {
                (2.., Some(name)) => PathBuf::from(name).join(below),
                _ => below.to_path_buf(),
            };
            keys.push(key.into_os_string().into_encoded_bytes());
        }
        Ok(keys)
    }
}

/// A packing on its way.
struct Packing<'p, 'w> {
    tree: &'p PackTree<'p>,
    writer: Option<&'w mut PackWriter>,
    before: Option<&'p Pack>,
    existing: &'p Existing,
    summary: PackSummary,
    /// The first key of every inode that has more names.
    links: HashMap<(u64, u64), Vec<u8>>,
    buffer: Vec<u8>,
}

impl Packing<'_, '_> {
    fn take(&mut self, item: WalkItem) -> Result<()> {
        let WalkItem { key, metadata, content } = item;
        if metadata.kind.is_special() {
            self.summary.special.push((key, metadata.kind));
            return Ok(());
        }
        let Ok(name) = Key::bytes(&key) else {
            let error = Error::Limit {
                what: "the length of a path in bytes",
                found: key.len() as u64,
                limit: 65_535,
            };
            self.summary.failures.push(Failure { key, error });
            return Ok(());
        };
        let owner = self.tree.with_owner;
        match (metadata.kind, content) {
            (Kind::Directory, _) => {
                if self.existing.has_directory(&key, &metadata, owner) {
                    self.summary.unchanged += 1;
                } else {
                    self.put(&key, &name, FileKind::Directory, &metadata, b"")?;
                    self.summary.directories += 1;
                }
            }
            (Kind::Symlink, Content::Target(target)) => {
                let wanted = (FileKind::Symlink, &metadata, target.as_slice());
                if self.existing.has_link(self.before, &name, wanted, owner)? {
                    self.summary.unchanged += 1;
                } else {
                    self.put(&key, &name, FileKind::Symlink, &metadata, &target)?;
                    self.summary.symlinks += 1;
                }
            }
            (_, content) => self.take_file(key, &name, &metadata, content)?,
        }
        Ok(())
    }

    fn take_file(&mut self, key: Vec<u8>, name: &Key, metadata: &Metadata, content: Content) -> Result<()> {
        if metadata.links > 1 {
            let inode = (metadata.device, metadata.inode);
            if let Some(first) = self.links.get(&inode).cloned() {
                return self.take_hard_link(&key, name, metadata, &first);
            }
            self.links.insert(inode, key.clone());
        }
        match content {
            Content::Bytes(bytes) => {
                self.put(&key, name, FileKind::File, metadata, &bytes)?;
                self.summary.files += 1;
                self.summary.bytes += metadata.len;
            }
            Content::Large(file) => match self.put_large(&key, name, metadata, &file) {
                Ok(()) => {
                    self.summary.files += 1;
                    self.summary.bytes += metadata.len;
                }
                // What the file did is its failure; what the pack did ends the packing.
                Err(Stop::Interrupted) => {}
                Err(Stop::Failed(error)) => return Err(error),
            },
            _ if self.existing.has_file(&key, metadata, self.tree.with_owner) => self.summary.unchanged += 1,
            // A dry run reads nothing.
            _ => {
                self.summary.replaced += u64::from(self.existing.has(&key));
                self.summary.files += 1;
                self.summary.bytes += metadata.len;
            }
        }
        Ok(())
    }

    fn take_hard_link(&mut self, key: &[u8], name: &Key, metadata: &Metadata, first: &[u8]) -> Result<()> {
        let wanted = (FileKind::HardLink, metadata, first);
        if self.existing.has_link(self.before, name, wanted, self.tree.with_owner)? {
            self.summary.unchanged += 1;
            return Ok(());
        }
        self.put(key, name, FileKind::HardLink, metadata, first)?;
        self.summary.hard_links += 1;
        Ok(())
    }

    fn attributes(&self, kind: FileKind, metadata: &Metadata) -> Attributes {
        let owner = self.tree.with_owner.then_some((metadata.uid, metadata.gid));
        Attributes::of_file(kind, metadata.mode, metadata.mtime_ns, owner)
    }

    fn put(
        &mut self,
        key: &[u8],
        name: &Key,
        kind: FileKind,
        metadata: &Metadata,
        body: &[u8],
    ) -> Result<()> {
        self.summary.replaced += u64::from(self.existing.has(key));
        let attributes = self.attributes(kind, metadata).encode()?;
        let group = self.tree.grouping.of(key, kind == FileKind::Directory);
        let Some(writer) = self.writer.as_deref_mut() else { return Ok(()) };
        let sums = chunk_sums(body, writer.chunk_log2());
        writer.put_encoded(&group, name, &attributes, body, &sums)?;
        Ok(())
    }

    /// Streams a file. `Interrupted` stands for a failure of the file, which has been noted.
    fn put_large(
        &mut self,
        key: &[u8],
        name: &Key,
        metadata: &Metadata,
        file: &LargeFile,
    ) -> Result<(), Stop> {
        let attributes = self.attributes(FileKind::File, metadata);
        let group = self.tree.grouping.of(key, false);
        self.buffer.resize(STREAM_LEN, 0);
        let Some(writer) = self.writer.as_deref_mut() else { return Ok(()) };
        let mut noted = |error: Error| {
            self.summary.failures.push(Failure { key: key.to_vec(), error });
            Stop::Interrupted
        };
        let mut opened = file.open().map_err(|error| noted(error.into()))?;
        let mut record = writer.begin(&group, name, &attributes, Some(metadata.len))?;
        loop {
            let read = match opened.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(noted(crate::Error::io("read", file.path(), error).into())),
            };
            match record.write(self.buffer.get(..read).unwrap_or_default()) {
                Ok(()) => {}
                Err(error @ Error::BodyLength { .. }) => return Err(noted(error)),
                Err(error) => return Err(error.into()),
            }
        }
        file.check(&opened).map_err(|error| noted(error.into()))?;
        match record.finish() {
            Ok(_) => {}
            Err(error @ Error::BodyLength { .. }) => return Err(noted(error)),
            Err(error) => return Err(error.into()),
        }
        self.summary.replaced += u64::from(self.existing.has(key));
        Ok(())
    }
}
