//! A tree of files into a pack.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::comparing::{Doubt, Doubts};
use super::existing::{Existing, Holds, Rule};
use super::gone::{Delete, Held};
use super::grouping::Grouping;
use super::names::{Claims, HardLink, Names, Unread};
use super::only_copies::refusal;
use super::own_attributes::OwnAttributes;
use super::records::OpenedFile;
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::FileKind;
use crate::pack::key::{KEY_LEN_MAX, Key};
use crate::pack::state::open::Pack;
use crate::pack::writer::{PackWriter, check_group, chunk_sums};
use crate::tree::outbox::is_temporary;
use crate::tree::{Holes, Xattrs, is_pack};
use crate::walk::{
    Candidate, Content, Decision, Kind, Select, Status, Walk, WalkEvent, WalkItem, WalkOptions,
};

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
    /// Hard links to files that were added.
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
    /// Files with a [temporary name](is_temporary): another run makes them now, or was killed. They
    /// are left out.
    pub temporary: Vec<Vec<u8>>,
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
    /// Whether files and links that the pack has are not replaced by others: they were moved into
    /// it from another tree, and may be the only copies.
    pub keeps_moved: bool,
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
    /// [failures](PackSummary::failures); the rest continues.
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
        let is_left_out = own.iter().any(|own| own == key) || is_unfinished(key, kind);
        if is_left_out { Decision::Prune } else { (self.select)(key, kind) }
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

/// Whether an entry is a file that a run has not finished.
fn is_unfinished(key: &[u8], kind: Kind) -> bool {
    let name = key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    kind == Kind::File && is_temporary(name)
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
    pub(super) began_ns: i64,
    buffer: Vec<u8>,
    pub(super) progress: &'p mut dyn FnMut(u64, u64) -> bool,
    pub(super) seen: u64,
    /// For each record that was there, by its number.
    pub(super) met: Vec<Met>,
    /// Keys of the roots, until anything else is taken: a pack that was there is not changed for
    /// roots alone.
    pub(super) root_keys: Vec<Vec<u8>>,
    /// Roots that are not in the pack as they are: directories, and their extended attributes.
    held_roots: Vec<(Vec<u8>, Status, Xattrs)>,
}

impl Packing<'_, '_> {
    /// Goes through the whole tree.
    fn walk(&mut self) -> Result<(), Abort> {
        let (tree, existing, dry, rule) = (self.tree, self.existing, self.writer.is_none(), self.rule());
        let (own, names_only) = (self.summary.own.clone(), self.names_only);
        let (claims, asked) = (Claims::default(), AtomicU64::new(0));
        let temporary = Mutex::new(Vec::new());
        let xattrs = tree.xattrs && !names_only;
        let walk = Walk::new(&tree.roots)?
            .options(WalkOptions { threads: tree.threads, xattrs, holes: !dry, ..WalkOptions::default() })
            .select(|key, kind| {
                let decision = tree.decide(&own, key, kind);
                if is_unfinished(key, kind) {
                    temporary.lock().unwrap_or_else(PoisonError::into_inner).push(key.to_vec());
                }
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
        self.summary.temporary =
            std::mem::take(&mut *temporary.lock().unwrap_or_else(PoisonError::into_inner));
        self.summary.temporary.sort();
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

    /// Packs the hard links to files, when all names are known.
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
                let replaces = self.existing.has(&key);
                self.summary.note_put(&key, FileKind::HardLink, 0, replaces, &Xattrs::default());
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
        let (threads, xattrs) = (tree.threads, tree.xattrs);
        let walk = Walk::new(&tree.roots)?
            .options(WalkOptions { threads, xattrs, holes: true, ..WalkOptions::default() })
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
                if self.existing.has_link(&key, FileKind::HardLink, &status.node, &file.first, owner) {
                    self.summary.unchanged += 1;
                    continue;
                }
                if let Some(writer) = &mut self.writer {
                    // It may have been packed when it had no other name.
                    writer.mark_hard_links(&Key::bytes(&file.first)?)?;
                }
                self.put_link(&key, FileKind::HardLink, &status, &file.first, &Xattrs::default())?;
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
        match event {
            Ok(item) => self.take_item(item),
            Err(error) => {
                let key = error.key().to_vec();
                self.take_failure(key, error.into_error().into())
            }
        }
    }

    /// Takes an entry that could not be read.
    fn take_failure(&mut self, key: Vec<u8>, error: Error) -> Result<(), Abort> {
        self.take_held_roots()?;
        self.summary.failures.push(Failure { key, error });
        self.seen += 1;
        self.report_progress(0)
    }

    /// Takes an entry.
    fn take_item(&mut self, item: WalkItem) -> Result<(), Abort> {
        if !self.is_root(&item.key, &item.status) {
            self.take_held_roots()?;
        }
        self.take(item)?;
        self.seen += 1;
        self.report_progress(0)
    }

    fn take(&mut self, item: WalkItem) -> Result<(), Abort> {
        let WalkItem { key, status, content, xattrs, holes } = item;
        let kind = status.node.kind;
        let met = if kind.is_special() { Met::LeftOut } else { Met::Packed };
        if let Some(noted) = self.existing.number(&key).and_then(|number| self.met.get_mut(number)) {
            *noted = met;
        }
        if kind.is_special() {
            self.summary.special.push((key, kind));
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
        match (kind, content) {
            (Kind::Directory, _) => {
                let is_there = self.existing.has_directory(&key, &status.node, owner);
                if is_there && self.has_xattrs(&key, &xattrs) {
                    self.summary.unchanged += 1;
                } else if self.is_root(&key, &status) {
                    self.held_roots.push((key, status, xattrs));
                } else {
                    self.put_link(&key, FileKind::Directory, &status, b"", &xattrs)?;
                }
            }
            (Kind::Symlink, Content::Target(target)) => {
                let is_there = self.existing.has_link(&key, FileKind::Symlink, &status.node, &target, owner);
                if is_there && self.has_xattrs(&key, &xattrs) {
                    self.summary.unchanged += 1;
                } else {
                    self.put_link(&key, FileKind::Symlink, &status, &target, &xattrs)?;
                }
            }
            (_, content) => self.take_file(key, status, content, (xattrs, holes))?,
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
        for (key, status, xattrs) in held {
            self.put_link(&key, FileKind::Directory, &status, b"", &xattrs)?;
        }
        Ok(())
    }

    fn take_file(
        &mut self,
        key: Vec<u8>,
        status: Status,
        content: Content,
        (xattrs, holes): (Xattrs, Holes),
    ) -> Result<(), Abort> {
        let holds = self.existing.holds_file(&key, &status, self.rule());
        match content {
            Content::Bytes(bytes) => {
                let doubt = Doubt { key, status, bytes, xattrs, holes };
                if holds == Holds::Alike { self.doubt(doubt)? } else { self.pack_bytes(doubt)? }
            }
            Content::Large(file) => {
                let mut buffer = std::mem::take(&mut self.buffer);
                let taken = self.take_long(key, status, &mut OpenedFile::new(&file, &mut buffer), holds);
                self.buffer = buffer;
                taken?;
            }
            _ if status.node.links > 1 => self.names.wait(key, status),
            _ if holds == Holds::Same => self.is_unchanged(&key, &status),
            _ if self.existing.is_first(&key) => self.names.wait(key, status),
            _ => self.count_file(&key, &status),
        }
        Ok(())
    }

    fn take_long(
        &mut self,
        key: Vec<u8>,
        status: Status,
        body: &mut OpenedFile<'_>,
        holds: Holds,
    ) -> Result<(), Abort> {
        if holds == Holds::Alike {
            match self.compare_long(&key, body)? {
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
        if let Some(error) = self.refuses_long(&key, status.node.len, body)? {
            self.summary.failures.push(Failure { key, error });
            return Ok(());
        }
        match self.put_long(&key, &status, body)? {
            None => self.names.packed(&key, &status),
            Some(error) => self.summary.failures.push(Failure { key, error }),
        }
        Ok(())
    }

    /// Packs a file that was read.
    pub(super) fn pack_bytes(&mut self, file: Doubt) -> Result<(), Abort> {
        let Doubt { key, status, bytes, xattrs, holes } = file;
        if self.is_put_off(&key, &status) {
            return Ok(());
        }
        if self.put(&key, FileKind::File, &status, (&*bytes, Some(bytes.digest())), (&xattrs, &holes))? {
            self.names.packed(&key, &status);
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
        if self.would_refuse(key, status.node.len) {
            self.summary.failures.push(Failure { key: key.to_vec(), error: refusal() });
            return;
        }
        let replaces = self.existing.has(key);
        self.summary.note_put(key, FileKind::File, status.node.len, replaces, &Xattrs::default());
    }
}
