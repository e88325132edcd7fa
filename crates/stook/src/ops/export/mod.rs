//! A pack as a tar: the same bytes for the same records.

mod tar;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use self::tar::{Entry, Tar};
use super::unpack::{Error, Failure, Filtering, Nothing, PathFilter, Result, Unpacked};
use crate::pack::tree::{Paths, kind_of, symlink_target};
use crate::pack::{self, FileKind, Key, KeyEntry, Pack, RecordHead, RecordReader};
use crate::source::check_path;
use crate::storage::free_at;
use crate::tree::{Draft, Holes, Part, room};

/// Heads read in one batch.
const BATCH: usize = 4096;

/// Bodies up to this length are held, and not read twice.
const WHOLE_MAX: u64 = 16 << 20;

/// How a pack is exported.
#[derive(Debug)]
pub struct Export<'a> {
    /// Which paths are.
    pub filter: PathFilter<'a>,
    /// Whether extended attributes are written, access control lists among them. Those that grant
    /// rights (`security.*`, `trusted.*`) are only where an owner was recorded.
    pub xattrs: bool,
    /// Whether a file that is there is replaced even where something is missing in the tar.
    pub force: bool,
}

impl Default for Export<'_> {
    fn default() -> Self {
        Self { filter: PathFilter::default(), xattrs: true, force: false }
    }
}

/// Called with records and bytes of the tar so far; ends the work by returning `false`.
pub type OnProgress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Takes the next bytes of the tar, and asks whether to wait for their reader.
type Sink<'a> = &'a mut dyn FnMut(&[u8], &mut dyn FnMut() -> bool) -> Result<()>;

impl Export<'_> {
    /// Writes the tar. Damaged records and keys that are no paths are
    /// [failures](super::unpack::Summary::failures), and not in it. Where a long file turns out
    /// damaged only when its length is written already, zeroes stand for the rest of it.
    ///
    /// # Errors
    /// [`Error::Write`] where `to` fails, I/O errors of the pack, groups that are not there,
    /// [`Error::Interrupted`].
    pub fn run(&self, pack: &Pack, to: &mut dyn io::Write, progress: OnProgress<'_>) -> Result<Unpacked> {
        self.export(pack, &mut |bytes, _| to.write_all(bytes).map_err(Error::Write), progress)
    }

    /// The same into a file, which appears when it is whole: see [`Draft::named`]. A file that is
    /// there is replaced only by a tar of all that was asked for, if that is anything, or with
    /// [`force`](Self::force); else it is [kept](super::unpack::Summary::kept), and nothing is
    /// written. Nor is there a tar of what is [missing](Nothing::Missing). The reader of a pipe is
    /// waited for until `progress` returns `false`.
    ///
    /// # Errors
    /// I/O errors, groups that are not there, [`Error::Interrupted`].
    pub fn run_to_file(&self, pack: &Pack, path: &Path, progress: OnProgress<'_>) -> Result<Unpacked> {
        check_path(path)?;
        self.check_room(pack, path)?;
        let mut draft = Draft::named(path, &mut || progress(0, 0)).map_err(of_draft)?;
        let mut to =
            |bytes: &[u8], go_on: &mut dyn FnMut() -> bool| draft.write_while(bytes, go_on).map_err(of_draft);
        let mut exported = self.export(pack, &mut to, progress)?;
        if exported.nothing == Some(Nothing::Missing) {
            // There is no tar that the root is in.
            exported.summary.directories = 0;
            return Ok(exported);
        }
        let has_all = exported.nothing.is_none() && exported.undone == 0 && pack.damage_log().is_empty();
        Ok(match draft.finish_or_keep(self.force || has_all)? {
            true => exported,
            false => exported.with_kept(path),
        })
    }

    /// Refuses where the tar cannot fit; the rest of a pack, which is left out, needs no room. What
    /// is there and no file (a pipe, a device) takes what it takes.
    fn check_room(&self, pack: &Pack, path: &Path) -> Result<()> {
        let is_other = path.metadata().is_ok_and(|found| !found.is_file());
        if self.force || is_other {
            return Ok(());
        }
        let free = free_at(path)?;
        let all = pack.segments().into_iter().map(|segment| segment.tally.body_bytes);
        if all.fold(0, u64::saturating_add) <= free {
            return Ok(());
        }
        pack.check_groups(&self.filter.groups)?;
        let directories = self.filter.directories(pack, &mut || true)?;
        let filtering = Filtering::new(&self.filter, |path| directories.contains(path));
        let mut needed = 0_u64;
        for entry in pack.keys(&[])? {
            // Damage is reported when the records are read.
            let Ok(entry) = entry else { continue };
            let Some(key) = entry.key.as_bytes() else { continue };
            if self.filter.has_group(pack.group_of_entry(&entry)) && filtering.takes(key) {
                needed = needed.saturating_add(pack.bytes_of(&entry)?);
            }
        }
        match room::too_little(path, needed, free) {
            Some(why) => Err(pack::Error::Invalid(why).into()),
            None => Ok(()),
        }
    }

    fn export(&self, pack: &Pack, to: Sink<'_>, progress: OnProgress<'_>) -> Result<Unpacked> {
        pack.check_groups(&self.filter.groups)?;
        let directories = self.filter.directories(pack, &mut || progress(0, 0))?;
        let filtering = Filtering::new(&self.filter, |path| directories.contains(path));
        let paths = Paths::of(pack, &mut || progress(0, 0))?.ok_or(Error::Interrupted)?;
        let mut exporting = Exporting {
            pack,
            filter: &self.filter,
            filtering: &filtering,
            tar: Tar::new(to, progress, &filtering, self.xattrs),
            paths,
            failed: BTreeSet::new(),
        };
        let links = exporting.links()?;
        exporting.all(&links)?;
        let summary = exporting.tar.end()?;
        Ok(Unpacked::of_pack(summary, pack, &filtering))
    }
}

/// The names of files that have several: of each name that is not the first, the first.
type Links = BTreeMap<Key, Key>;

struct Exporting<'a> {
    pack: &'a Pack,
    filter: &'a PathFilter<'a>,
    filtering: &'a Filtering<'a>,
    tar: Tar<'a>,
    paths: Paths,
    /// Keys of records that are not in the tar.
    failed: BTreeSet<Key>,
}

impl Exporting<'_> {
    /// Goes through the heads of all records that are wanted, in the order of keys.
    fn each(&mut self, take: &mut dyn FnMut(&mut Self, RecordHead) -> Result<()>) -> Result<()> {
        let pack = self.pack;
        let mut batch: Vec<KeyEntry> = Vec::new();
        let mut entries = pack.keys(&[])?;
        loop {
            let next = match entries.next().transpose() {
                // A record that is refused costs itself.
                Err(error) if error.damage().is_some_and(|damage| damage.key.is_some()) => {
                    if let Some(key) = error.damage().and_then(|damage| damage.key.clone()) {
                        self.fail(&key, error);
                    }
                    continue;
                }
                next => next?,
            };
            let is_last = next.is_none();
            if let Some(entry) = next
                && self.filter.has_group(pack.group_of_entry(&entry))
                && entry.key.as_bytes().is_none_or(|path| self.filtering.takes(path))
            {
                batch.push(entry);
            }
            if batch.len() == BATCH || is_last {
                let heads = pack.heads(&batch)?;
                for (entry, head) in batch.drain(..).zip(heads) {
                    self.tar.check_progress()?;
                    match head {
                        Ok(head) => take(self, head)?,
                        Err(error) => self.fail(&entry.key, error),
                    }
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// The path of a record in the tar.
    fn path<'k>(&self, key: &'k Key, kind: FileKind) -> pack::Result<&'k [u8]> {
        let path = Paths::path(key)?;
        self.paths.check(path, kind).map(|()| path)
    }

    /// Whether the record with a key is one of those that are wanted.
    fn takes(&self, key: &Key) -> Result<bool> {
        let Ok(path) = Paths::path(key) else { return Ok(false) };
        let entry = self.pack.locate(std::slice::from_ref(key))?.pop().transpose()?.flatten();
        let is_in = |entry| self.filter.has_group(self.pack.group_of_entry(&entry));
        Ok(self.filtering.takes(path) && entry.is_some_and(is_in))
    }

    /// In a tar a link stands after its file, so the first of its names in the order of keys that
    /// is a path of the tree is the file.
    fn links(&mut self) -> Result<Links> {
        let mut names: BTreeMap<Key, BTreeSet<Key>> = BTreeMap::new();
        let mut refused = BTreeSet::new();
        self.each(&mut |export, head| {
            // What cannot be read, or be written at all, fails when its turn comes.
            let kind = kind_of(&head.attributes);
            if kind.and_then(|kind| export.path(&head.key, kind)).is_err() {
                refused.insert(head.key);
            } else if head.is_hard_link()
                && let Ok(Some(file)) = export.pack.open_file(&head.key)
            {
                names.entry(file.head().key.clone()).or_default().insert(head.key);
            }
            Ok(())
        })?;
        self.tar.summary.failures.clear();
        self.failed.clear();
        let mut links = Links::new();
        for (file, mut further) in names {
            if !refused.contains(&file) && self.takes(&file)? {
                further.insert(file);
            }
            let Some(first) = further.pop_first() else { continue };
            links.extend(further.into_iter().map(|name| (name, first.clone())));
        }
        Ok(links)
    }

    fn all(&mut self, links: &Links) -> Result<()> {
        self.each(&mut |export, head| {
            let key = head.key.clone();
            export.tar.seen += 1;
            match export.record(&head, links) {
                Err(Error::Pack(error @ (pack::Error::Damaged(_) | pack::Error::Invalid(_)))) => {
                    export.fail(&key, error);
                    Ok(())
                }
                done => done,
            }
        })
    }

    fn fail(&mut self, key: &Key, error: pack::Error) {
        self.failed.insert(key.clone());
        let pack::tree::Failure { key, error } = pack::tree::Failure::of(key, error);
        self.tar.summary.failures.push(Failure { key, error: error.into() });
    }

    fn record(&mut self, record: &RecordHead, links: &Links) -> Result<()> {
        let kind = kind_of(&record.attributes)?;
        let node = record.attributes.node(0);
        let xattrs = record.attributes.xattrs();
        let entry = Entry { key: self.path(&record.key, kind)?, node: &node, xattrs: &xattrs };
        if let Some(first) = links.get(&record.key) {
            if self.failed.contains(first) {
                let why = format!("it is one file with {first}, which could not be written");
                return Err(pack::Error::Invalid(why).into());
            }
            return self.tar.hard_link(&entry, first.as_bytes().unwrap_or_default());
        }
        match kind {
            FileKind::Directory => self.tar.directory(&entry),
            FileKind::Symlink => {
                let link = |mut record: RecordReader<'_>| record.link_target();
                let link = self.pack.open_record(&record.key)?.map(link).transpose()?.unwrap_or_default();
                self.tar.symlink(&entry, symlink_target(&link)?)
            }
            FileKind::HardLink | FileKind::File => self.file(&record.key, &entry),
        }
    }

    /// A file with the bytes of a record. A tar says the length first, so a record that does not is
    /// read twice; and all checksums are looked at before anything is written, because a tar cannot
    /// take a member back.
    fn file(&mut self, key: &Key, entry: &Entry<'_>) -> Result<()> {
        let mut reader = open(self.pack, key)?;
        let holes = reader.head().attributes.holes();
        let (mut len, mut whole, mut zeros) = (0_u64, Vec::new(), 0_u64);
        while let Some(chunk) = reader.next_chunk()? {
            self.tar.check_progress()?;
            zeros += holes.cut(len, chunk).map(|part| part.hole_bytes()).sum::<u64>();
            len += chunk.len() as u64;
            if len <= WHOLE_MAX {
                whole.extend_from_slice(chunk);
            }
        }
        // What a record calls a hole and is not zeros is none.
        let holes = if len - zeros == holes.kept_bytes(len) { holes } else { Holes::default() };
        // Of a hard link, too, the record of the file has them.
        let attributes = &reader.head().attributes;
        // Whose file it is says which of them may grant rights.
        let (xattrs, owner) = (attributes.xattrs(), attributes.owner());
        let xattrs = if owner.is_some() { xattrs } else { xattrs.without_granting() };
        self.tar.begin_file(&Entry { xattrs: &xattrs, ..*entry }, len, &holes)?;
        if len <= WHOLE_MAX {
            self.write_kept(&holes, 0, &whole)?;
        } else {
            self.file_again(key, len, &holes)?;
        }
        self.tar.end_file(len, &holes)
    }

    /// The bytes of a file whose head is written. What is damaged only now is zeroes up to its end.
    fn file_again(&mut self, key: &Key, len: u64, holes: &Holes) -> Result<()> {
        let stored = holes.kept_bytes(len);
        let end = self.tar.at + stored;
        let copied = self.copy(key, holes);
        if let Err(Error::Pack(pack::Error::Damaged(_) | pack::Error::Invalid(_))) = &copied {
            self.tar.fill_up(end, stored)?;
        }
        copied
    }

    fn copy(&mut self, key: &Key, holes: &Holes) -> Result<()> {
        let mut reader = open(self.pack, key)?;
        let mut at = 0;
        while let Some(chunk) = reader.next_chunk()? {
            self.tar.check_progress()?;
            self.write_kept(holes, at, chunk)?;
            at += chunk.len() as u64;
        }
        Ok(())
    }

    /// Writes what of some bytes of a file lies in none of its holes.
    fn write_kept(&mut self, holes: &Holes, at: u64, bytes: &[u8]) -> Result<()> {
        for part in holes.cut(at, bytes) {
            if let Part::Bytes(bytes) = part {
                self.tar.write(bytes)?;
            }
        }
        Ok(())
    }
}

/// A wait for the reader of a pipe that the caller ended is no failure of the pipe.
fn of_draft(error: crate::Error) -> Error {
    match error.io_kind() {
        Some(io::ErrorKind::Interrupted) => Error::Interrupted,
        _ => error.into(),
    }
}

fn open<'p>(pack: &'p Pack, key: &Key) -> pack::Result<RecordReader<'p>> {
    let absent = || pack::Error::Invalid(format!("there is no record {key}"));
    pack.open_file(key)?.ok_or_else(absent)
}
