//! A tree of files into a pack.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::comparing::{Doubt, Doubts};
use super::existing::{Existing, Holds, Rule, recorded_owner};
use super::gone::{Delete, Held};
use super::grouping::Grouping;
use super::names::{Claims, HardLink, Names, Unread};
use super::own_attributes::{self, OwnAttributes};
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind, NAMES, Name, Value};
use crate::pack::key::{KEY_LEN_MAX, Key};
use crate::pack::state::open::Pack;
use crate::pack::writer::{PackWriter, check_group, chunk_sums};
use crate::tree::{Xattrs, is_pack};
use crate::walk::{
    Candidate, Content, Decision, Kind, LargeFile, Status, Select, Walk, WalkEvent, WalkItem, WalkOptions,
    xattrs,
};

/// One read of a file that is streamed, in bytes.
const STREAM_LEN: usize = 1 << 20;

/// An entry that was not packed, and why.
pub type Failure = crate::tree::Failure<Error>;

impl Failure {
    /// Of the record with a key, which need not be a path.
    pub fn of(key: &Key, error: Error) -> Self {
        Self { key: key.as_bytes().map_or_else(|| key.to_string().into_bytes(), <[u8]>::to_vec), error }
    }
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
    /// Records that were deleted, because what they were packed from is gone: see
    /// [`PackTree::delete`].
    pub deleted: u64,
    /// The keys of these, in order, if nothing was written.
    pub gone: Vec<Vec<u8>>,
    /// Why nothing was deleted, when too much would have been.
    pub refused: Option<String>,
    /// Records that would have been deleted, if there were not names of the same file that stay.
    pub held: Vec<Held>,
    /// Records that seem to be gone, and stay because something near them could not be read.
    pub uncertain: u64,
    /// Bytes of what was added.
    pub bytes: u64,
    /// What was added without all of its extended attributes (access control lists among them),
    /// because some could not be read, or are too long for a record: key, and which.
    pub lost_xattrs: Vec<(Vec<u8>, String)>,
    /// Pipes, sockets and devices, which are left out: key and kind.
    pub special: Vec<(Vec<u8>, Kind)>,
    /// Under which keys the pack itself would have been met. It is left out.
    pub own: Vec<Vec<u8>>,
    /// What could not be packed.
    pub failures: Vec<Failure>,
    /// Whether it was stopped by the caller before its end.
    pub interrupted: bool,
    /// Paths below the roots that were come to and not pruned, whether or not they were taken.
    pub asked: u64,
}

impl PackSummary {
    /// What is left of it where nothing is packed, because too much would be deleted.
    fn of_refused(self) -> Self {
        let Self { gone, own, failures, refused, interrupted, .. } = self;
        Self { gone, own, failures, refused, interrupted, ..Self::default() }
    }

    /// Entries that were added.
    pub fn added(&self) -> u64 {
        self.files + self.directories + self.symlinks + self.hard_links
    }
}

/// A tree that is to be packed.
pub struct PackTree<'a> {
    /// Files and directories; with several, keys begin with the name of each.
    pub roots: Vec<PathBuf>,
    /// Which group each file goes to.
    pub grouping: Grouping,
    /// Whether owners are kept; those of files with set-user-id or set-group-id bits always are.
    pub with_owner: bool,
    /// Whether extended attributes are kept, access control lists among them.
    pub xattrs: bool,
    /// Threads that walk and read.
    pub threads: usize,
    /// What is packed. Roots are always.
    pub select: Select<'a>,
    /// The pack that is being written: never packed into itself.
    pub own: Option<PathBuf>,
    /// How many records of what is gone may be deleted.
    pub delete: Delete,
    /// Whether the bytes of every file are compared with its record, whatever times and inode say.
    /// What is damaged in the pack is packed again.
    pub checksum: bool,
    /// What the caller adds to the attributes of each record that is put. What is unchanged keeps
    /// what it has.
    pub attributes: Option<OwnAttributes<'a>>,
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
pub(super) enum Abort {
    Failed(Error),
    Interrupted,
}

impl From<crate::Error> for Abort {
    fn from(error: crate::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Error> for Abort {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl PackTree<'_> {
    /// Packs what is new or changed since `before` (the pack as it is, if it was there). Without a
    /// writer nothing is read or written, and the summary says what would be.
    ///
    /// `progress` receives entries and bytes so far; when it says no, packing stops where it is.
    ///
    /// Entries that cannot be read, or that change while they are, are
    /// [failures](PackSummary::failures); the rest goes on.
    ///
    /// # Errors
    /// What writing the pack meets, a root that cannot be opened, or [`Error::Invalid`] when
    /// records were to be deleted that other roots would have.
    pub fn run(
        &self,
        writer: Option<&mut PackWriter>,
        before: Option<&Pack>,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<PackSummary> {
        if let Some(before) = before.filter(|_| self.delete != Delete::Nothing) {
            self.check_roots(before)?;
        }
        let existing = before.map(Existing::read).transpose()?.unwrap_or_default();
        let is_dry = writer.is_none();
        if !is_dry
            && let Some(before) = before.filter(|_| self.delete.may_be_refused())
            && let Some(refused) = self.refused(before, &existing, &mut |_, _| progress(0, 0))?
        {
            return Ok(refused);
        }
        let mut packing = self.packing(writer, before, &existing, progress)?;
        let packed = packing.walk().and_then(|()| packing.link_names());
        match packed.and_then(|()| packing.delete_gone(before)) {
            Ok(()) => {}
            Err(Abort::Interrupted) => packing.summary.interrupted = true,
            Err(Abort::Failed(error)) => return Err(error),
        }
        // Where deleting is refused the run packs nothing: counted is what it would do.
        let is_refused = is_dry && packing.summary.refused.is_some();
        Ok(if is_refused { packing.summary.of_refused() } else { packing.summary })
    }

    /// Goes through the names alone: where so much is gone that it may not be deleted, this is
    /// another tree by mistake, and nothing of it is packed either. What is given then is what was
    /// met so far, as it is when this was interrupted.
    fn refused(
        &self,
        before: &Pack,
        existing: &Existing,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<PackSummary>> {
        let mut looking = self.packing(None, Some(before), existing, progress)?;
        looking.names_only = true;
        let looked = looking.walk().and_then(|()| looking.delete_gone(Some(before)));
        let interrupted = match looked {
            Ok(()) => false,
            Err(Abort::Interrupted) => true,
            Err(Abort::Failed(error)) => return Err(error),
        };
        let ends = interrupted || looking.summary.refused.is_some();
        let refused = PackSummary { gone: Vec::new(), interrupted, ..looking.summary.of_refused() };
        Ok(ends.then_some(refused))
    }

    fn packing<'p, 'w>(
        &'p self,
        writer: Option<&'w mut PackWriter>,
        before: Option<&'p Pack>,
        existing: &'p Existing,
        progress: &'p mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Packing<'p, 'w>> {
        Ok(Packing {
            tree: self,
            began_ns: writer.as_ref().map_or(i64::MIN, |writer| writer.clock_ns()),
            writer,
            before,
            existing,
            doubts: Doubts::default(),
            names_only: false,
            puts_off: true,
            summary: PackSummary { own: self.own_keys()?, ..PackSummary::default() },
            names: Names::default(),
            buffer: Vec::new(),
            progress,
            seen: 0,
            met: vec![Met::Not; existing.len()],
            root_keys: Vec::new(),
            held_roots: Vec::new(),
        })
    }

    /// Checks that no root is a pack: named by a slip, its segments would become records. What is
    /// deeper in a tree is packed as it is.
    ///
    /// # Errors
    /// [`Error::Invalid`] when one is, or that a root cannot be looked at.
    pub fn check_no_packs(&self) -> Result<()> {
        for root in &self.roots {
            let into_error = |error| Error::from(crate::Error::io("look at", root, error));
            if root.is_dir() && is_pack(root).map_err(into_error)? {
                let why = format!("{} is a pack: its records are not taken out of it", root.display());
                return Err(Error::Invalid(why));
            }
        }
        Ok(())
    }

    /// Checks that no root is the pack itself, that the roots can be told apart, and the name of
    /// the group, before anything is made.
    ///
    /// # Errors
    /// [`Error::Invalid`] when one is, what [`Walk::new`] says, or that a root cannot be found.
    pub fn check(&self) -> Result<()> {
        if let Grouping::Named(group) = &self.grouping {
            check_group(group)?;
        }
        self.own_keys()?;
        Walk::new(&self.roots)?;
        Ok(())
    }
}

impl PackTree<'_> {
    /// Keys begin with the names of the roots if there are several. With one root instead of
    /// several, or the other way round, everything that is in the pack would seem to be gone.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the roots cannot be those of the pack.
    pub fn check_roots(&self, before: &Pack) -> Result<()> {
        let (then, now) = (before.roots().len(), self.roots.len());
        if then == 0 || (then == 1) == (now == 1) {
            return Ok(());
        }
        let said: Vec<String> = before.roots().iter().map(|root| root.escape_ascii().to_string()).collect();
        Err(Error::Invalid(format!(
            "nothing can be deleted: the pack was made from {}, and keys begin with names of directories only if there are \
             several; name {}",
            said.join(" "),
            if then == 1 { "one directory, or make another pack of these" } else { "several, too" }
        )))
    }

    /// What is done with an entry that is no root.
    pub(super) fn decide(&self, own: &[Vec<u8>], key: &[u8], kind: Kind) -> Decision {
        if own.iter().any(|own| own == key) { Decision::Prune } else { (self.select)(key, kind) }
    }

    /// Under which keys the pack itself would be met.
    pub(super) fn own_keys(&self) -> Result<Vec<Vec<u8>>> {
        let Some(own) = &self.own else { return Ok(Vec::new()) };
        let canonical = |path: &PathBuf| {
            path.canonicalize().map_err(|error| Error::from(crate::Error::io("find", path, error)))
        };
        let own = canonical(own)?;
        let mut keys = Vec::new();
        for root in &self.roots {
            let root = canonical(root)?;
            if root.starts_with(&own) {
                let why = format!("{} cannot be packed into itself; name another place", root.display());
                return Err(Error::Invalid(why));
            }
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

/// Whether the walk met a path that the pack has a record of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    Not,
    /// As something that is not packed.
    LeftOut,
    /// And unless it failed, the record is now what the path is.
    Packed,
}

/// A packing on its way.
pub(super) struct Packing<'p, 'w> {
    pub(super) tree: &'p PackTree<'p>,
    pub(super) writer: Option<&'w mut PackWriter>,
    /// The pack as it was.
    pub(super) before: Option<&'p Pack>,
    pub(super) existing: &'p Existing,
    pub(super) summary: PackSummary,
    names: Names,
    pub(super) doubts: Doubts,
    /// Whether nothing is read, to see what is gone.
    names_only: bool,
    /// What other names still need is put off, until they have it.
    puts_off: bool,
    /// When it began, ns: what is read is read later.
    began_ns: i64,
    pub(super) buffer: Vec<u8>,
    progress: &'p mut dyn FnMut(u64, u64) -> bool,
    seen: u64,
    /// For each record that was there, by its number.
    pub(super) met: Vec<Met>,
    /// Keys of the roots, until anything else is taken: a pack that was there is not changed for
    /// roots alone.
    root_keys: Vec<Vec<u8>>,
    /// Roots that are not in the pack as they are: directories, and their extended attributes.
    held_roots: Vec<(Vec<u8>, Status, Xattrs)>,
}

impl Packing<'_, '_> {
    /// Goes through the whole tree.
    fn walk(&mut self) -> Result<(), Abort> {
        let (tree, existing, dry, rule) = (self.tree, self.existing, self.writer.is_none(), self.rule());
        let (own, names_only) = (self.summary.own.clone(), self.names_only);
        let (claims, asked) = (Claims::default(), AtomicU64::new(0));
        let xattrs = tree.xattrs && !names_only;
        let walk = Walk::new(&tree.roots)?
            .options(WalkOptions { threads: tree.threads, xattrs, ..WalkOptions::default() })
            .select(|key, kind| {
                let decision = tree.decide(&own, key, kind);
                asked.fetch_add(u64::from(decision != Decision::Prune), Relaxed);
                decision
            })
            .wanted(|candidate| {
                // What would be packed anyway need not be read to be counted.
                let Candidate { key, status } = candidate;
                let is_asked = !dry || existing.holds_file(key, status, rule) == Holds::Alike;
                !names_only && is_asked && claims.wants(candidate, existing, rule)
            })
            .digest(self.sums());
        if self.before.is_some() {
            self.root_keys = walk.roots().iter().map(|(_, key)| key.clone()).collect();
        }
        walk.run(|event| self.take_event(event))?;
        self.summary.asked = asked.load(Relaxed);
        // Of an empty tree all was taken.
        if self.summary.asked == 0 {
            self.take_held_roots()?;
        }
        self.compare_waiting()
    }

    /// Makes the checksums that a body is stored with, in the threads that read.
    fn sums(&self) -> impl Fn(&[u8]) -> Vec<u8> + Sync + use<> {
        let chunk_log2 = self.writer.as_ref().map(|writer| writer.chunk_log2());
        move |body| chunk_log2.map_or_else(Vec::new, |chunk_log2| chunk_sums(body, chunk_log2))
    }

    /// Packs the further names of files, when all names are known.
    fn link_names(&mut self) -> Result<(), Abort> {
        self.settle_names()?;
        self.puts_off = false;
        let mut counted = Vec::new();
        for first in [true, false] {
            let unread = self.names.unread(self.existing, first);
            if self.writer.is_some() && !unread.is_empty() {
                self.read_again(&unread)?;
                self.settle_names()?;
            }
            counted.push(unread);
        }
        for HardLink { key, status } in std::mem::take(&mut self.names).into_unsettled() {
            if self.writer.is_none() && counted.iter().any(|unread| unread.contains(&key)) {
                self.count_file(&key, &status);
            } else if self.writer.is_none() {
                self.summary.replaced += u64::from(self.existing.has(&key));
                self.summary.hard_links += 1;
            } else if !self.summary.failures.iter().any(|failure| failure.key == key) {
                let error =
                    Error::Invalid("it could not be read under any of its names; pack it again".into());
                self.summary.failures.push(Failure { key, error });
            }
        }
        Ok(())
    }

    /// Reads files under these names. Each is a link in the pack to a name that is no longer the
    /// same file, or what other names led to.
    fn read_again(&mut self, unread: &Unread) -> Result<(), Abort> {
        let tree = self.tree;
        let walk = Walk::new(&tree.roots)?
            .options(WalkOptions { threads: tree.threads, xattrs: tree.xattrs, ..WalkOptions::default() })
            .select(|key, kind| unread.select(key, kind))
            .digest(self.sums());
        walk.run(|event| match &event {
            Ok(item) if !unread.contains(&item.key) => Ok(()),
            Err(error) if !unread.contains(error.key()) => Ok(()),
            _ => self.take_event(event),
        })?;
        self.compare_waiting()
    }

    pub(super) fn rule(&self) -> Rule {
        Rule { with_owner: self.tree.with_owner, checksum: self.tree.checksum }
    }

    fn settle_names(&mut self) -> Result<(), Abort> {
        let owner = self.tree.with_owner;
        for file in self.names.settle(self.existing, self.rule()) {
            self.summary.unchanged += u64::from(file.unchanged);
            for HardLink { key, status } in file.further {
                if self.existing.has_link(&key, FileKind::HardLink, &status, &file.first, owner) {
                    self.summary.unchanged += 1;
                    continue;
                }
                if let Some(writer) = &mut self.writer {
                    // It may have been packed when it had no other name.
                    writer.mark_further_names(&Key::bytes(&file.first)?)?;
                }
                let is_put =
                    self.put(&key, FileKind::HardLink, &status, &file.first, None, &Xattrs::default())?;
                self.summary.hard_links += u64::from(is_put);
                self.report_progress(0)?;
            }
        }
        Ok(())
    }

    /// Reports how far it is, `ahead` bytes of the current file included.
    pub(super) fn report_progress(&mut self, ahead: u64) -> Result<(), Abort> {
        if (self.progress)(self.seen, self.summary.bytes + ahead) { Ok(()) } else { Err(Abort::Interrupted) }
    }

    fn take_event(&mut self, event: WalkEvent) -> Result<(), Abort> {
        if !matches!(&event, Ok(item) if self.is_root(&item.key, &item.status)) {
            self.take_held_roots()?;
        }
        match event {
            Ok(item) => self.take(item)?,
            Err(error) => {
                let key = error.key().to_vec();
                self.summary.failures.push(Failure { key, error: error.into_error().into() });
            }
        }
        self.seen += 1;
        self.report_progress(0)
    }

    fn take(&mut self, item: WalkItem) -> Result<(), Abort> {
        let WalkItem { key, status, content, xattrs } = item;
        let met = if status.node.kind.is_special() { Met::LeftOut } else { Met::Packed };
        if let Some(noted) = self.existing.number(&key).and_then(|number| self.met.get_mut(number)) {
            *noted = met;
        }
        if status.node.kind.is_special() {
            self.summary.special.push((key, status.node.kind));
            return Ok(());
        }
        if key.len() > KEY_LEN_MAX {
            let error = Error::Limit {
                what: "the length of a path in bytes",
                found: key.len() as u64,
                limit: KEY_LEN_MAX as u64,
            };
            self.summary.failures.push(Failure { key, error });
            return Ok(());
        }
        let owner = self.tree.with_owner;
        match (status.node.kind, content) {
            (Kind::Directory, _) => {
                let is_there = self.existing.has_directory(&key, &status, owner);
                if is_there && self.has_xattrs(&key, &xattrs) {
                    self.summary.unchanged += 1;
                } else if self.is_root(&key, &status) {
                    self.held_roots.push((key, status, xattrs));
                } else {
                    self.put_directory(&key, &status, &xattrs)?;
                }
            }
            (Kind::Symlink, Content::Target(target)) => {
                let is_there = self.existing.has_link(&key, FileKind::Symlink, &status, &target, owner);
                if is_there && self.has_xattrs(&key, &xattrs) {
                    self.summary.unchanged += 1;
                } else {
                    let is_put = self.put(&key, FileKind::Symlink, &status, &target, None, &xattrs)?;
                    self.summary.symlinks += u64::from(is_put);
                }
            }
            (_, content) => self.take_file(key, status, content, xattrs)?,
        }
        Ok(())
    }

    /// Whether this is a root that is taken only with something else.
    fn is_root(&self, key: &[u8], status: &Status) -> bool {
        status.node.kind == Kind::Directory && self.root_keys.iter().any(|root| root == key)
    }

    fn take_held_roots(&mut self) -> Result<(), Abort> {
        self.root_keys.clear();
        let held = std::mem::take(&mut self.held_roots);
        held.iter().try_for_each(|(key, status, xattrs)| self.put_directory(key, status, xattrs))
    }

    fn put_directory(&mut self, key: &[u8], status: &Status, xattrs: &Xattrs) -> Result<(), Abort> {
        let is_put = self.put(key, FileKind::Directory, status, b"", None, xattrs)?;
        self.summary.directories += u64::from(is_put);
        Ok(())
    }

    fn take_file(
        &mut self,
        key: Vec<u8>,
        status: Status,
        content: Content,
        xattrs: Xattrs,
    ) -> Result<(), Abort> {
        let holds = self.existing.holds_file(&key, &status, self.rule());
        match content {
            Content::Bytes(bytes) => {
                let doubt = Doubt { key, status, bytes, xattrs };
                if holds == Holds::Alike { self.doubt(doubt)? } else { self.pack_bytes(doubt)? }
            }
            Content::Large(file) => self.take_large(key, status, &file, holds)?,
            _ if status.node.links > 1 => self.names.wait(key, status),
            _ if holds == Holds::Same => self.is_unchanged(&key, &status),
            _ if self.existing.is_first(&key) => self.names.wait(key, status),
            _ => self.count_file(&key, &status),
        }
        Ok(())
    }

    fn take_large(
        &mut self,
        key: Vec<u8>,
        status: Status,
        file: &LargeFile,
        holds: Holds,
    ) -> Result<(), Abort> {
        if holds == Holds::Alike {
            match self.compare_large(&key, file)? {
                Some(false) => {}
                Some(true) => {
                    self.is_unchanged(&key, &status);
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
        if self.is_put_off(&key, &status) {
            return Ok(());
        }
        match self.put_large(&key, &status, file)? {
            None => self.is_packed(&key, &status),
            Some(error) => self.summary.failures.push(Failure { key, error }),
        }
        Ok(())
    }

    /// Packs a file that was read.
    pub(super) fn pack_bytes(&mut self, file: Doubt) -> Result<(), Abort> {
        let Doubt { key, status, bytes, xattrs } = file;
        if self.is_put_off(&key, &status) {
            return Ok(());
        }
        if self.put(&key, FileKind::File, &status, &bytes, Some(bytes.digest()), &xattrs)? {
            self.is_packed(&key, &status);
        }
        Ok(())
    }

    /// Whether a file that is not what the pack holds is dealt with later, or was only counted.
    fn is_put_off(&mut self, key: &[u8], status: &Status) -> bool {
        if self.writer.is_none() {
            self.count_file(key, status);
            return true;
        }
        let is_put_off = self.puts_off && self.existing.is_first(key);
        if is_put_off {
            self.names.wait(key.to_vec(), *status);
        }
        is_put_off
    }

    fn is_packed(&mut self, key: &[u8], status: &Status) {
        self.names.packed(key, status);
        self.summary.files += 1;
        self.summary.bytes += status.node.len;
    }

    pub(super) fn is_unchanged(&mut self, key: &[u8], status: &Status) {
        self.names.packed(key, status);
        self.summary.unchanged += 1;
    }

    /// Notes a failure.
    pub(super) fn failed<T>(&mut self, key: &[u8], error: Error) -> Option<T> {
        self.summary.failures.push(Failure { key: key.to_vec(), error });
        None
    }

    /// A file that a dry run would pack.
    fn count_file(&mut self, key: &[u8], status: &Status) {
        self.summary.replaced += u64::from(self.existing.has(key));
        self.summary.files += 1;
        self.summary.bytes += status.node.len;
    }

    /// The attributes of a record. What is wrong with those that the caller adds is a failure of
    /// it.
    fn attributes(
        &self,
        key: &[u8],
        kind: FileKind,
        status: &Status,
        xattrs: &Xattrs,
    ) -> Result<Result<Attributes>, Abort> {
        let owner = recorded_owner(status, self.tree.with_owner);
        let mut attributes = Attributes::of_file(kind, status.node.mode, status.node.mtime_ns, owner);
        if kind == FileKind::File && status.node.links > 1 {
            let names = u32::try_from(status.node.links).unwrap_or(u32::MAX);
            attributes.set(Name::Id(NAMES), Value::U32(names));
        }
        // Without them the bytes are compared the next time.
        if kind == FileKind::File && status.identity().unsettled_for(self.began_ns).is_zero() {
            attributes.set_inode(status.ctime_ns, status.inode);
        }
        attributes.set_xattrs(xattrs);
        let own = self.tree.attributes.as_ref().filter(|_| self.writer.is_some());
        if let Some(own) = own {
            let own = own(key).ok_or(Abort::Interrupted)?;
            return Ok(own_attributes::add(own, &mut attributes).map(|()| attributes));
        }
        Ok(Ok(attributes))
    }

    /// The extended attributes of an open file, if they are kept.
    pub(super) fn xattrs_of(&self, file: &File) -> Xattrs {
        if self.tree.xattrs { xattrs::read(file) } else { Xattrs::default() }
    }

    /// Notes which extended attributes what was added lacks.
    fn note_lost(&mut self, key: &[u8], xattrs: &Xattrs) {
        self.summary.lost_xattrs.extend(xattrs.lost().map(|names| (key.to_vec(), names)));
    }

    /// Puts an entry, its chunk checksums given where the walk has made them. Whether it was put:
    /// what is wrong with this record alone is noted.
    fn put(
        &mut self,
        key: &[u8],
        kind: FileKind,
        status: &Status,
        body: &[u8],
        sums: Option<&[u8]>,
        xattrs: &Xattrs,
    ) -> Result<bool, Abort> {
        let attributes = match self.attributes(key, kind, status, xattrs)? {
            Ok(attributes) => attributes.encode()?,
            Err(error) => {
                self.summary.failures.push(Failure { key: key.to_vec(), error });
                return Ok(false);
            }
        };
        let group = self.tree.grouping.of(key, kind == FileKind::Directory);
        if let Some(writer) = self.writer.as_deref_mut() {
            let sums = sums.map_or_else(|| chunk_sums(body, writer.chunk_log2()).into(), Cow::Borrowed);
            match writer.put_encoded(&group, &Key::bytes(key)?, &attributes, body, &sums) {
                Ok(_) => {}
                Err(error) if writer.is_stopped() => return Err(error.into()),
                Err(error) => {
                    self.summary.failures.push(Failure { key: key.to_vec(), error });
                    return Ok(false);
                }
            }
        }
        self.summary.replaced += u64::from(self.existing.has(key));
        self.note_lost(key, xattrs);
        Ok(true)
    }

    /// Streams a file. Gives what the file did wrong, if it did; then nothing of it is kept. What
    /// the pack did wrong is an error.
    fn put_large(
        &mut self,
        key: &[u8],
        status: &Status,
        file: &LargeFile,
    ) -> Result<Option<Error>, Abort> {
        let mut opened = match file.open() {
            Ok(opened) => opened,
            Err(error) => return Ok(Some(error.into())),
        };
        // Whoever changes them while the bytes are read changes a time that is looked at below.
        let xattrs = self.xattrs_of(&opened);
        let attributes = match self.attributes(key, FileKind::File, status, &xattrs)? {
            Ok(attributes) => attributes,
            Err(error) => return Ok(Some(error)),
        };
        let group = self.tree.grouping.of(key, false);
        self.buffer.resize(STREAM_LEN, 0);
        let Some(writer) = self.writer.as_deref_mut() else { return Ok(None) };
        let mut record = match writer.begin(&group, &Key::bytes(key)?, &attributes, Some(status.node.len)) {
            Ok(record) => record,
            // What is wrong with this record alone stops nothing else.
            Err(error @ Error::Invalid(_)) => return Ok(Some(error)),
            Err(error) => return Err(error.into()),
        };
        let mut done = 0;
        loop {
            let read = match opened.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Some(crate::Error::io("read", file.path(), error).into())),
            };
            done += read as u64;
            // More than it had: the check below would tell, but not before all of it was read.
            if done > status.node.len {
                break;
            }
            record.write(self.buffer.get(..read).unwrap_or_default())?;
            if !(self.progress)(self.seen, self.summary.bytes + done) {
                return Err(Abort::Interrupted);
            }
        }
        if let Err(error) = file.check(&opened) {
            return Ok(Some(error.into()));
        }
        match record.finish() {
            Ok(_) => {
                self.summary.replaced += u64::from(self.existing.has(key));
                self.note_lost(key, &xattrs);
                Ok(None)
            }
            Err(error @ Error::BodyLength { .. }) => Ok(Some(error)),
            Err(error) => Err(error.into()),
        }
    }
}
