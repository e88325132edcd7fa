//! A pack into a tree of files.
//!
//! Files appear under their names when they are whole and verified, with mode, times and owner set.
//! Small ones are written by several threads. Directories get their mode and time last, hard links
//! when all files are there.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::packing::Failure;
use super::paths::{Paths, kind_of, symlink_target};
use crate::pack::damages::Damages;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind};
use crate::pack::key::Key;
use crate::pack::read::stream::RecordReader;
use crate::pack::scan::{OnDamage, Scan, ScanOptions, ScanRecord};
use crate::pack::state::open::{Pack, is_in_groups};
use crate::source::Inodes;
use crate::storage::free_at;
use crate::tree::existing::Overwrite;
use crate::tree::outbox::{Calls, Durability, System};
use crate::tree::target::FileMetadata;
use crate::tree::unpack::{Entries, Entry, EntryError, EntryKind, Next, Piece, UnpackOptions, Unpacking};
use crate::tree::{SelectKeys, room};

/// What unpacking did.
pub type UnpackSummary = crate::tree::UnpackSummary<Error>;

/// How a pack is to be unpacked.
pub struct UnpackTree<'a> {
    /// Where to.
    pub target: PathBuf,
    /// What becomes of files and links that are there.
    pub overwrite: Overwrite,
    /// Whether owners are restored. Set-user-id and set-group-id bits are, where a file then
    /// belongs to the owner (or group) that was recorded with them; without `with_owner` root drops
    /// all of them.
    pub with_owner: bool,
    /// Whether extended attributes are set, access control lists among them. Those that grant
    /// rights (`security.*`, `trusted.*`) are only where an owner is restored.
    pub xattrs: bool,
    /// Only these groups; all if empty.
    pub groups: Vec<String>,
    /// Threads that write small files.
    pub threads: usize,
    /// When files are on the medium.
    pub durability: Durability,
    /// Which keys are unpacked.
    pub select: SelectKeys<'a>,
    /// Writes even where there is less room than all of it needs.
    pub force: bool,
}

impl std::fmt::Debug for UnpackTree<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnpackTree").field("target", &self.target).finish_non_exhaustive()
    }
}

impl UnpackTree<'_> {
    /// Unpacks. `progress` receives records and bytes so far; when it says no, unpacking stops,
    /// with every file either whole or absent.
    ///
    /// Directories that were there keep mode and time, unless files are to be replaced too.
    /// Files are synced many at a time, then get their names, if nothing else is
    /// [asked](Self::durability); at the end all is on the medium.
    ///
    /// Damaged records, unsafe paths and files that cannot be written are
    /// [failures](UnpackSummary::failures); the rest continues.
    ///
    /// # Errors
    /// That the target cannot be made or synced, or what reading the pack meets.
    pub fn run(&self, pack: &Pack, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<UnpackSummary> {
        self.run_through(pack, Arc::new(System), progress)
    }

    /// The same, with system calls that somebody else makes.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_through(
        &self,
        pack: &Pack,
        calls: Arc<dyn Calls>,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<UnpackSummary> {
        pack.check_groups(&self.groups)?;
        self.check_room(pack)?;
        let Some(paths) = Paths::of(pack, &mut || progress(0, 0))? else {
            return Ok(UnpackSummary { interrupted: true, ..UnpackSummary::default() });
        };
        let options = UnpackOptions {
            target: self.target.clone(),
            overwrite: self.overwrite,
            // Those of a pack are in its directory, in which nothing else is written.
            read_from: Inodes::new(),
            threads: self.threads,
            durability: self.durability,
        };
        let mut unpacking = Unpacking::begin(&options, calls, progress)?;
        let mut records = Records::new(self, pack, paths);
        let gone = unpacking.files(&mut records);
        if gone.is_ok() {
            records.damages().for_each(|(key, error)| unpacking.fail(key, error));
        }
        gone?;
        unpacking.links(&mut records.into_links())?;
        unpacking.finish()
    }
}

impl UnpackTree<'_> {
    fn metadata(&self, attributes: &Attributes) -> FileMetadata {
        let (mode, mtime_ns, owner) = (attributes.mode(), attributes.mtime_ns(), attributes.owner());
        FileMetadata::new(mode, mtime_ns, owner, self.with_owner)
            .with_xattrs(attributes.xattrs(), self.xattrs)
            .with_holes(attributes.holes())
    }

    /// What is there already needs no room. Records are gone through only where not all of the pack
    /// fits.
    fn check_room(&self, pack: &Pack) -> Result<()> {
        if self.force {
            return Ok(());
        }
        let free = free_at(&self.target)?;
        let all = pack.segments().into_iter().map(|segment| {
            segment.tally.body_bytes.saturating_add(segment.tally.records.saturating_mul(room::of_file(1)))
        });
        if all.fold(0, u64::saturating_add) <= free {
            return Ok(());
        }
        let mut needed = 0_u64;
        for entry in pack.keys(&[])? {
            // What is damaged is reported when it is met.
            let Ok(entry) = entry else { continue };
            let Some(key) = entry.key.as_bytes() else { continue };
            let is_wanted = is_in_groups(&self.groups, pack.group_of_entry(&entry)) && (self.select)(key);
            if is_wanted && !self.target.join(OsStr::from_bytes(key)).exists() {
                needed = needed.saturating_add(pack.bytes_of(&entry)?);
            }
        }
        room::too_little(&self.target, needed, free).map_or(Ok(()), |why| Err(Error::Invalid(why)))
    }
}

impl EntryError for Error {
    fn refused(why: String) -> Self {
        Self::Invalid(why)
    }
}

/// The records of a pack, in the order of the medium.
struct Records<'a> {
    tree: &'a UnpackTree<'a>,
    pack: &'a Pack,
    paths: Paths,
    scan: Scan<'a>,
    seen: u64,
    /// Whether the body that came whole was handed out.
    is_taken: bool,
    /// Hard links to files, which come later.
    links: VecDeque<(Vec<u8>, FileMetadata)>,
}

impl<'a> Records<'a> {
    fn new(tree: &'a UnpackTree<'a>, pack: &'a Pack, paths: Paths) -> Self {
        let options =
            ScanOptions { groups: tree.groups.clone(), on_damage: OnDamage::Skip, ..ScanOptions::default() };
        let scan = pack.scan(options);
        Self { tree, pack, paths, scan, seen: 0, is_taken: false, links: VecDeque::new() }
    }

    /// What was damaged, by keys.
    fn damages(&self) -> impl Iterator<Item = (Vec<u8>, Error)> {
        // What was met when the pack was opened may be met again when it is scanned.
        let damages: Damages =
            self.pack.damages().into_iter().chain(self.scan.damages().iter().cloned()).collect();
        let damages: Vec<Damage> =
            damages.iter().filter(|damage| !self.pack.is_of_older_version(damage)).cloned().collect();
        damages.into_iter().map(|damage| {
            let key = damage.key.as_ref().and_then(Key::as_bytes).unwrap_or_default().to_vec();
            (key, Error::Damaged(damage))
        })
    }

    fn into_links(self) -> LinkEntries<'a> {
        LinkEntries { tree: self.tree, pack: self.pack, names: self.links, seen: self.seen, record: None }
    }
}

/// The entry that a record is, unless it is a hard link to a file; `None` for what is not wanted.
fn entry_of(
    tree: &UnpackTree<'_>,
    paths: &Paths,
    record: &ScanRecord<'_>,
) -> Result<Option<(Entry, FileKind)>, Box<Failure>> {
    let Some(key) = record.key() else { return Ok(None) };
    if key.as_bytes().is_some_and(|path| !path.is_empty() && !(tree.select)(path)) {
        return Ok(None);
    }
    let path = Paths::path(&key).map_err(|error| Box::new(Failure::of(&key, error)))?;
    let decoded = || {
        let attributes = Attributes::decode(record.attributes());
        let attributes = attributes.map_err(|invalid| Error::Invalid(invalid.what))?;
        let kind = kind_of(&attributes)?;
        paths.check(path, kind)?;
        Ok((attributes, kind))
    };
    let (attributes, kind) = decoded().map_err(|error| Box::new(Failure { key: path.to_vec(), error }))?;
    let entry = Entry {
        key: path.to_vec(),
        kind: match kind {
            FileKind::Directory => EntryKind::Directory,
            FileKind::Symlink => EntryKind::Symlink,
            FileKind::File | FileKind::HardLink => EntryKind::File,
        },
        metadata: tree.metadata(&attributes),
        len: record.body_len(),
        file: attributes.has_hard_links().then(|| path.to_vec()),
        first: None,
    };
    Ok(Some((entry, kind)))
}

impl Entries for Records<'_> {
    type Error = Error;

    fn next(&mut self) -> Result<Next<Error>> {
        let Some(record) = self.scan.next()? else { return Ok(Next::End) };
        (self.seen, self.is_taken) = (self.seen.saturating_add(1), false);
        Ok(match entry_of(self.tree, &self.paths, &record) {
            Ok(Some((entry, FileKind::HardLink))) => {
                self.links.push_back((entry.key, entry.metadata));
                Next::Passed
            }
            Ok(Some((entry, _))) => Next::Entry(entry),
            Ok(None) => Next::Passed,
            Err(failure) => Next::Failed(*failure),
        })
    }

    fn piece(&mut self) -> Result<Option<Piece<'_>>> {
        let is_taken = std::mem::replace(&mut self.is_taken, true);
        // A body that is not whole is a long one, and still to be read.
        if self.scan.whole_body().is_some() {
            return Ok(self.scan.whole_body().filter(|_| !is_taken).map(Piece::Bytes));
        }
        Ok(self.scan.next_chunk()?.map(Piece::Bytes))
    }

    fn link_target(&mut self) -> Result<Vec<u8>> {
        let too_long = || Error::Invalid("the target of a link is too long".to_owned());
        let body = self.scan.whole_body().ok_or_else(too_long)?;
        symlink_target(body).map(<[u8]>::to_vec)
    }

    fn rewind(&mut self) -> Result<()> {
        Err(Error::Invalid("a scan goes forward only".into()))
    }

    fn seen(&self) -> u64 {
        self.seen
    }
}

/// Hard links to files of a pack, each with the bytes of its file.
struct LinkEntries<'a> {
    tree: &'a UnpackTree<'a>,
    pack: &'a Pack,
    names: VecDeque<(Vec<u8>, FileMetadata)>,
    seen: u64,
    /// The record of the file of the name at hand, and that name.
    record: Option<(RecordReader<'a>, Vec<u8>)>,
}

impl<'a> LinkEntries<'a> {
    fn open(&self, name: &[u8]) -> Result<RecordReader<'a>> {
        let key = Key::bytes(name)?;
        self.pack.open_file(&key)?.ok_or_else(|| Error::Invalid(format!("{key} is gone")))
    }
}

impl Entries for LinkEntries<'_> {
    type Error = Error;

    fn next(&mut self) -> Result<Next<Error>> {
        self.record = None;
        let Some((key, metadata)) = self.names.pop_front() else { return Ok(Next::End) };
        let record = match self.open(&key) {
            Ok(record) => record,
            Err(error) => return Ok(Next::Failed(Failure { key, error })),
        };
        let head = record.head();
        // The record of the file has them, not that of the name.
        let metadata =
            FileMetadata { mtime_ns: head.attributes.mtime_ns().or(metadata.mtime_ns), ..metadata }
                .with_xattrs(head.attributes.xattrs(), self.tree.xattrs)
                .with_holes(head.attributes.holes());
        let first = head.key.as_bytes().map(<[u8]>::to_vec);
        let len = head.body_len;
        self.record = Some((record, key.clone()));
        Ok(Next::Entry(Entry { key, kind: EntryKind::File, metadata, len, file: first.clone(), first }))
    }

    fn piece(&mut self) -> Result<Option<Piece<'_>>> {
        let Some((record, _)) = &mut self.record else { return Ok(None) };
        Ok(record.next_chunk()?.map(Piece::Bytes))
    }

    fn link_target(&mut self) -> Result<Vec<u8>> {
        Err(Error::Invalid("a hard link to a file is no symbolic link".into()))
    }

    fn rewind(&mut self) -> Result<()> {
        let Some((_, key)) = self.record.take() else { return Ok(()) };
        self.record = Some((self.open(&key)?, key));
        Ok(())
    }

    fn seen(&self) -> u64 {
        self.seen
    }
}
