//! [`DirectoryTree`]: a directory on disk as a [`Tree`].
//!
//! Everything is opened below one descriptor, name by name, and no link is followed (but for the
//! root, which the caller named): whatever happens to the directory meanwhile, nothing leads out
//! of it. It never writes.
//!
//! Ids are numbers in a table of what was met, found by device, inode and kind. Those three alone
//! could not be an id: it takes privileges to open a file by them, and the system gives the inode
//! of a removed file to a new one. Names alone could not either: two names of one file would be two
//! nodes. So an id stays with the name that it was given for, and is also that of another name
//! while both stand for one inode. The price is that each entry of a listing is asked for its
//! inode, so listings have the whole node, and that the table grows with what was met, by about 120
//! bytes and its name for each.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::Dir;

use super::directory::{Directory, is_dot, lock};
use super::entry::Status;
use super::{file, roots, xattrs};
use crate::device::devices_of;
use crate::engine::{self, EngineFactory};
use crate::error::{Error, Result};
use crate::source::{FileSource, Source};
use crate::tree::parts::check_name;
use crate::tree::target::NAME_ON_DISK_MAX;
use crate::tree::{
    Cursor, Deliver, GatherOptions, Holes, InodeState, Kind, Node, NodeId, Page, Tree, Xattrs,
    foreign_cursor, gather_opened_ahead, not_a_directory, not_a_file, unknown,
};

/// A directory on disk.
///
/// Beside what [`Tree`] says:
/// - listings have the order of the file system, which is the same while nothing is added or
///   removed, and skip what is removed meanwhile;
/// - a name that stands for another file than it did when its id was given is an error with the
///   path for that id ([`StaleNetworkFileHandle`](io::ErrorKind::StaleNetworkFileHandle)); looked
///   up or listed again, the name has another id. So has a file that was renamed, under its new
///   name;
/// - where the system gives the inode of a removed file to a new one of the same kind, the new one
///   has an id of its own, unless it has the name of the old: what is open is distinguished all the
///   same, by its [`Identity`](crate::source::Identity);
/// - a mount point that leads back to a directory above it is not entered.
#[derive(Debug)]
pub struct DirectoryTree {
    path: PathBuf,
    known: Mutex<Known>,
    below: Below,
    /// Listings that ended at a page, the last at the end. One that continues in the same stream
    /// neither opens nor seeks, and where offsets are positions (tmpfs before Linux 6.6) it misses
    /// nothing when others are removed.
    listings: Mutex<VecDeque<Listing>>,
}

/// What is mounted below it, as far as that is left out: such directories are empty.
#[derive(Debug)]
enum Below {
    /// Nothing is left out.
    All,
    /// Every device but this.
    OneDevice(u64),
    /// File systems of this kind: their devices, as they were a short time ago.
    Not(&'static str, Mutex<Option<(Instant, HashSet<u64>)>>),
}

/// How long a list of what is mounted holds.
const MOUNTS_HOLD: Duration = Duration::from_secs(1);

/// Listings that are kept open.
const LISTINGS_MAX: usize = 8;

/// A listing that can be continued.
#[derive(Debug)]
struct Listing {
    directory: NodeId,
    offset: u64,
    stream: Dir,
}

/// What was met.
#[derive(Debug, Default)]
struct Known {
    /// By id. The first is the root.
    nodes: Vec<Met>,
    /// The id that was given last for an inode.
    by_inode: HashMap<Inode, u64>,
}

impl Known {
    /// Gives an id to what was met under a name.
    fn add(&mut self, inode: Inode, directory: &Arc<Directory>, name: &CStr) -> NodeId {
        let number = self.nodes.len() as u64;
        let place = Place::In(Arc::clone(directory), name.to_owned());
        self.nodes.push(Met { inode, place, entered: None });
        self.by_inode.insert(inode, number);
        NodeId::new(number)
    }
}

/// What a node is known by. The kind counts, so that no file becomes a directory where an inode is
/// used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Inode {
    device: u64,
    inode: u64,
    kind: Kind,
}

impl Inode {
    fn of(status: &Status) -> Self {
        Self { device: status.device, inode: status.inode, kind: status.node.kind }
    }
}

/// A node, and where it was met first.
#[derive(Debug, Clone)]
struct Met {
    inode: Inode,
    place: Place,
    /// Of a directory: it itself, once it was entered.
    entered: Option<Arc<Directory>>,
}

#[derive(Debug, Clone)]
enum Place {
    Root,
    In(Arc<Directory>, CString),
}

impl DirectoryTree {
    /// The tree below a directory. A link is followed here, because the caller named it, and
    /// nowhere else.
    ///
    /// # Errors
    /// I/O errors; that it is no directory.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let root = roots::open_alone(path)?;
        let stat_failed = |error| Error::io("stat", path, error);
        let handle = root.handle().map_err(stat_failed)?;
        let inode = Inode::of(&file::status(&*handle).map_err(stat_failed)?);
        let known = Known {
            nodes: vec![Met { inode, place: Place::Root, entered: Some(root) }],
            by_inode: HashMap::from([(inode, 0)]),
        };
        Ok(Self {
            path: path.to_path_buf(),
            known: Mutex::new(known),
            below: Below::All,
            listings: Mutex::default(),
        })
    }

    /// The same without what is mounted below: such directories are empty.
    ///
    /// # Errors
    /// I/O errors.
    pub fn on_one_file_system(mut self) -> Result<Self> {
        self.below = Below::OneDevice(self.met(self.root())?.inode.device);
        Ok(self)
    }

    /// The same without file systems of a kind that are mounted below, now or later: such
    /// directories are empty.
    #[must_use]
    pub(crate) fn without_mounts_of(mut self, kind: &'static str) -> Self {
        self.below = Below::Not(kind, Mutex::default());
        self
    }

    /// Device and inode of a node, as they were when it was met.
    pub(crate) fn inode(&self, id: NodeId) -> Result<(u64, u64)> {
        self.met(id).map(|met| (met.inode.device, met.inode.inode))
    }

    /// Whether a directory is empty here because another file system is mounted there.
    pub(crate) fn leaves_out(&self, id: NodeId) -> Result<bool> {
        let device = self.inode(id)?.0;
        Ok(match &self.below {
            Below::All => false,
            Below::OneDevice(only) => device != *only,
            Below::Not(kind, known) => {
                // Most directories are where the root is.
                device != self.inode(self.root())?.0 && {
                    let mut known = lock(known);
                    let is_old = known.as_ref().is_none_or(|(at, _)| at.elapsed() > MOUNTS_HOLD);
                    if is_old {
                        *known = Some((Instant::now(), devices_of(kind)));
                    }
                    known.as_ref().is_some_and(|(_, devices)| devices.contains(&device))
                }
            }
        })
    }

    /// Whether it is such a directory, which is not opened: what is mounted there would be in use.
    fn is_left_out(&self, id: NodeId) -> Result<bool> {
        Ok(self.met(id)?.inode.kind == Kind::Directory && self.leaves_out(id)?)
    }

    /// Whether what is mounted below is left out.
    pub(crate) fn is_on_one_file_system(&self) -> bool {
        matches!(self.below, Below::OneDevice(_))
    }

    fn met(&self, id: NodeId) -> Result<Met> {
        let number = usize::try_from(id.get()).unwrap_or(usize::MAX);
        let met = lock(&self.known).nodes.get(number).cloned();
        met.ok_or_else(|| unknown(&self.path, id))
    }

    /// The id of what was met under a name just now. That of another name is also its own only
    /// where that still stands for the same inode: else the inode may be one that is used again,
    /// and who has the id would get the bytes of another file.
    fn meet(&self, directory: &Arc<Directory>, name: &CStr, status: &Status) -> NodeId {
        let inode = Inode::of(status);
        let mut gone = None;
        loop {
            let (number, met) = {
                let mut known = lock(&self.known);
                let number = known.by_inode.get(&inode).copied();
                let met = number.and_then(|number| known.nodes.get(number as usize));
                match (number, met) {
                    (Some(number), Some(met)) if met.place.is(directory, name) => return NodeId::new(number),
                    (Some(number), Some(met)) if gone != Some(number) => (number, met.clone()),
                    _ => return known.add(inode, directory, name),
                }
            };
            if self.status(&met).is_ok() {
                return NodeId::new(number);
            }
            // Another thread may give it an id meanwhile.
            gone = Some(number);
        }
    }

    fn path_at(&self, place: &Place) -> PathBuf {
        match place {
            Place::Root => self.path.clone(),
            Place::In(directory, name) => directory.path_of(name),
        }
    }

    /// A directory, entered. `operation` is what it is entered for.
    fn directory(&self, operation: &'static str, id: NodeId) -> Result<Arc<Directory>> {
        let met = self.met(id)?;
        if met.inode.kind != Kind::Directory {
            return Err(not_a_directory(operation, self.path_at(&met.place)));
        }
        let (parent, name) = match (met.entered, &met.place) {
            (Some(directory), _) => return Ok(directory),
            (None, Place::In(parent, name)) => (parent, name),
            (None, Place::Root) => return Err(unknown(&self.path, id)),
        };
        let failed = |error| Error::io("open", parent.path_of(name), error);
        let (directory, status) = Directory::enter(parent, name).map_err(failed)?;
        if Inode::of(&status) != met.inode {
            return Err(replaced(parent.path_of(name)));
        }
        // What is in it has its names in one directory, whichever thread entered it first.
        let mut known = lock(&self.known);
        Ok(match known.nodes.get_mut(id.get() as usize) {
            Some(known) => Arc::clone(known.entered.get_or_insert(directory)),
            None => directory,
        })
    }

    /// What a node is now, with the open directory it is in; of the root, itself. An error where
    /// its name stands for another.
    fn status(&self, met: &Met) -> Result<(Arc<OwnedFd>, Status)> {
        let failed = |error| Error::io("stat", self.path_at(&met.place), error);
        let (handle, status) = match (&met.place, &met.entered) {
            (Place::In(directory, name), _) => {
                let handle = directory.handle().map_err(failed)?;
                let status = file::status_at(&handle, name);
                (handle, status)
            }
            (Place::Root, Some(root)) => {
                let handle = root.handle().map_err(failed)?;
                let status = file::status(&*handle);
                (handle, status)
            }
            // The root was entered when the tree was opened.
            (Place::Root, None) => return Err(failed(io::ErrorKind::NotFound.into())),
        };
        let status = status.map_err(failed)?;
        if Inode::of(&status) != met.inode {
            return Err(replaced(self.path_at(&met.place)));
        }
        Ok((handle, status))
    }

    /// A file that its name still stands for, where that is, and what it was when it was open.
    fn open_file(&self, id: NodeId) -> Result<(File, PathBuf, Status)> {
        let met = self.met(id)?;
        let path = self.path_at(&met.place);
        if met.inode.kind != Kind::File {
            return Err(not_a_file(met.inode.kind, path));
        }
        let (handle, status) = self.status(&met)?;
        let Place::In(_, name) = &met.place else { return Err(unknown(&self.path, id)) };
        let failed = |error| Error::io("open", &path, error);
        let opened = file::open_regular(&handle, name, &status).map_err(failed)?;
        // Another may have got the name since.
        let metadata = file::status(&opened).map_err(failed)?;
        if Inode::of(&metadata) != met.inode {
            return Err(replaced(path));
        }
        Ok((File::from(opened), path, metadata))
    }

    fn source(&self, id: NodeId) -> Result<FileSource> {
        let (file, path, metadata) = self.open_file(id)?;
        FileSource::regular(file, &path, metadata.identity())
    }

    fn take_listing(&self, directory: NodeId, offset: u64) -> Option<Dir> {
        let mut kept = lock(&self.listings);
        let at = kept.iter().position(|kept| kept.directory == directory && kept.offset == offset)?;
        kept.remove(at).map(|listing| listing.stream)
    }

    fn keep_listing(&self, listing: Listing) {
        let mut kept = lock(&self.listings);
        kept.push_back(listing);
        if kept.len() > LISTINGS_MAX {
            kept.pop_front();
        }
    }

    /// Puts what has a name in a directory on the page; what is gone already is left out.
    fn list_one(&self, directory: &Arc<Directory>, handle: &OwnedFd, name: &CStr, page: &mut Page) {
        let error = match file::status_at(handle, name) {
            Ok(status) if leads_back(directory, &status) => leads_back_error(),
            Ok(status) => {
                let id = self.meet(directory, name, &status);
                return page.push_inode(name.to_bytes(), id, status.node, status.state());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => error,
        };
        page.push_failure(Error::io("stat", directory.path_of(name), error));
    }
}

impl Place {
    /// Whether it is this name in this directory.
    fn is(&self, directory: &Arc<Directory>, name: &CStr) -> bool {
        matches!(self, Self::In(here, called) if Arc::ptr_eq(here, directory) && called.as_c_str() == name)
    }
}

impl Tree for DirectoryTree {
    fn path(&self) -> &Path {
        &self.path
    }

    fn root(&self) -> NodeId {
        NodeId::new(0)
    }

    fn is_fixed(&self) -> bool {
        false
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        if self.is_left_out(parent)? {
            return Ok(None);
        }
        let directory = self.directory("look into", parent)?;
        if check_name(name).is_err() || name.len() > NAME_ON_DISK_MAX {
            return Ok(None);
        }
        let Ok(name) = CString::new(name) else { return Ok(None) };
        let failed = |error| Error::io("stat", directory.path_of(&name), error);
        let handle = directory.handle().map_err(failed)?;
        match file::status_at(&handle, &name) {
            Ok(status) if leads_back(&directory, &status) => Err(failed(leads_back_error())),
            Ok(status) => Ok(Some(self.meet(&directory, &name, &status))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> Result<Option<Cursor>> {
        page.clear();
        let id = directory;
        if self.is_left_out(id)? {
            return Ok(None);
        }
        let directory = self.directory("list", id)?;
        let failed = |error| Error::io("list", directory.path_of(c""), error);
        let handle = directory.handle().map_err(failed)?;
        let mut stream = match from {
            Cursor::Token(_) => return Err(foreign_cursor(directory.path_of(c""))),
            Cursor::Start => open_listing(&handle, 0).map_err(failed)?,
            Cursor::At(offset) => match self.take_listing(id, *offset) {
                Some(stream) => stream,
                None => open_listing(&handle, *offset).map_err(failed)?,
            },
        };
        while let Some(entry) = stream.read() {
            let entry = entry.map_err(|error| failed(error.into()))?;
            if is_dot(entry.file_name()) {
                continue;
            }
            self.list_one(&directory, &handle, entry.file_name(), page);
            if page.is_full() {
                let offset = entry.offset().cast_unsigned();
                self.keep_listing(Listing { directory: id, offset, stream });
                return Ok(Some(Cursor::At(offset)));
            }
        }
        Ok(None)
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        Ok(self.status(&self.met(id)?)?.1.node)
    }

    fn inode_state(&self, id: NodeId) -> Result<Option<InodeState>> {
        Ok(Some(self.status(&self.met(id)?)?.1.state()))
    }

    fn path_of(&self, id: NodeId) -> PathBuf {
        self.met(id).map_or_else(|_| self.path.clone(), |met| self.path_at(&met.place))
    }

    fn link_target(&self, id: NodeId) -> Result<Vec<u8>> {
        let met = self.met(id)?;
        let path = || self.path_at(&met.place);
        let (Kind::Symlink, Place::In(_, name)) = (met.inode.kind, &met.place) else {
            return Err(Error::io("read link", path(), io::ErrorKind::InvalidInput.into()));
        };
        let (handle, status) = self.status(&met)?;
        file::read_link(&handle, name, &status, path)
    }

    /// Of a directory, those of what is open; of all else those of its name, which has to stand for
    /// the same before and after. A file is opened only where that cannot be.
    fn xattrs(&self, id: NodeId) -> Result<Xattrs> {
        let met = self.met(id)?;
        match (met.inode.kind, &met.place) {
            (Kind::File, Place::In(_, name)) => {
                let (handle, _) = self.status(&met)?;
                match xattrs::read_at(&handle, name.to_bytes()) {
                    Ok(read) => self.status(&met).map(|_| read),
                    Err(_) => Ok(xattrs::read(&self.open_file(id)?.0)),
                }
            }
            (Kind::Directory, _) if self.leaves_out(id)? => Ok(Xattrs::default()),
            (Kind::Directory, _) | (_, Place::Root) => {
                let directory = self.directory("read the extended attributes of", id)?;
                let failed = |error| Error::io("open", directory.path_of(c""), error);
                Ok(xattrs::read(&*directory.handle().map_err(failed)?))
            }
            (_, Place::In(_, name)) => {
                let (handle, _) = self.status(&met)?;
                let read = xattrs::read_unopened(&handle, name.to_bytes());
                self.status(&met)?;
                Ok(read)
            }
        }
    }

    /// A file that takes as much room as it has bytes is not opened for that.
    fn holes(&self, id: NodeId) -> Result<Holes> {
        let met = self.met(id)?;
        let path = || self.path_at(&met.place);
        if met.inode.kind != Kind::File {
            return Err(not_a_file(met.inode.kind, path()));
        }
        let (_, status) = self.status(&met)?;
        if !status.may_have_holes() {
            return Ok(Holes::default());
        }
        let (opened, path, _) = self.open_file(id)?;
        file::holes(&opened, &status).map_err(|error| Error::io("look for holes in", path, error))
    }

    fn open(&self, id: NodeId) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(self.source(id)?))
    }

    fn open_with_xattrs(&self, id: NodeId) -> Result<(Arc<dyn Source>, Xattrs)> {
        let (file, path, metadata) = self.open_file(id)?;
        let xattrs = xattrs::read(&file);
        Ok((Arc::new(FileSource::regular(file, &path, metadata.identity())?), xattrs))
    }

    fn whole_file(&self, id: NodeId) -> Result<Option<Arc<engine::File>>> {
        if self.met(id)?.inode.kind != Kind::File {
            return Ok(None);
        }
        Ok(Some(Arc::clone(self.source(id)?.file())))
    }

    /// The number of the inode: most file systems give neighbours to files that are made one after
    /// another, and lay both out in that order.
    fn medium_order(&self, id: NodeId) -> u64 {
        self.met(id).map_or(u64::MAX, |met| met.inode.inode)
    }

    /// Files are opened some ahead of their reads, by several threads.
    fn gather(
        &self,
        ids: &[NodeId],
        factory: &dyn EngineFactory,
        options: &GatherOptions,
        deliver: &mut Deliver<'_>,
    ) -> Result<()> {
        gather_opened_ahead(self, ids, factory, options, deliver)
    }
}

/// A listing from an offset on that the system gave; it has a position of its own.
fn open_listing(directory: &OwnedFd, offset: u64) -> io::Result<Dir> {
    let mut stream = Dir::read_from(directory)?;
    if offset != 0 {
        stream.seek(offset.cast_signed())?;
    }
    Ok(stream)
}

/// Whether what was met is the directory it was met in, or one above.
fn leads_back(directory: &Directory, status: &Status) -> bool {
    status.node.kind == Kind::Directory && directory.is_inside(status.device, status.inode)
}

fn leads_back_error() -> io::Error {
    io::Error::other("it is one of its own ancestors; it is not entered again")
}

/// For an id whose name stands for another by now: looked up again, that has an id of its own.
fn replaced(path: PathBuf) -> Error {
    let what = "it was replaced by another while the tree was in use; look it up again";
    Error::io("find", path, io::Error::new(io::ErrorKind::StaleNetworkFileHandle, what))
}
