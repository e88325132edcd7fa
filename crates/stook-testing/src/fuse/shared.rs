//! What the mount and its owner share: the nodes, the open files, the rules, the durable state.
//!
//! Every operation asks the rules first, and is made on the directory below then.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fuser::{OpenAccMode, OpenFlags, TimeOrNow};
use rustix::fs::{AtFlags, FallocateFlags, RenameFlags, Timespec, Timestamps};
use stook::extent::ByteRange;

use super::durable::Durable;
use super::nodes::{Nodes, ROOT};
use super::script::{Fault, Operation, Script};

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) script: Script,
    pub(super) nodes: Nodes,
    /// `None` where nothing can be written.
    pub(super) durable: Option<Durable>,
    open: HashMap<u64, Arc<File>>,
    opened: u64,
}

/// What an entry is: its number and metadata.
pub(super) type Entry = (u64, Metadata);

/// What may be set of a file, as far as it is.
pub(super) struct Changes {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) len: Option<u64>,
    pub(super) accessed: Option<TimeOrNow>,
    pub(super) modified: Option<TimeOrNow>,
}

impl State {
    /// Counts an operation on a file or directory, and says what it meets.
    fn meet(&mut self, operation: Operation, number: u64, bytes: Option<ByteRange>) -> Option<Fault> {
        let Self { script, nodes, .. } = self;
        script.meet(operation, || nodes.name(number), bytes)
    }

    /// The same for a name in a directory.
    fn meet_name(&mut self, operation: Operation, parent: u64, name: &OsStr) -> Option<Fault> {
        let Self { script, nodes, .. } = self;
        script.meet(operation, || Some(nodes.name(parent)?.join(name)), None)
    }

    fn keep(&mut self, file: File) -> u64 {
        self.opened += 1;
        self.open.insert(self.opened, Arc::new(file));
        self.opened
    }
}

impl Shared {
    pub(super) fn new(mut nodes: Nodes, is_writable: bool) -> io::Result<Self> {
        let durable = is_writable.then(|| Durable::of(&mut nodes)).transpose()?;
        let state = State { script: Script::default(), nodes, durable, open: HashMap::new(), opened: 0 };
        Ok(Self { state: Mutex::new(state) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation on a file or directory. Errors and delays happen here; what else is met
    /// is returned.
    fn meet(&self, operation: Operation, number: u64, bytes: Option<ByteRange>) -> io::Result<Option<Fault>> {
        let met = self.state().meet(operation, number, bytes);
        happen(met)
    }

    /// The same for a name in a directory. There only errors and delays mean something.
    fn meet_name(&self, operation: Operation, parent: u64, name: &OsStr) -> io::Result<()> {
        let met = self.state().meet_name(operation, parent, name);
        happen(met).map(|_| ())
    }

    pub(super) fn about(&self, number: u64) -> io::Result<Metadata> {
        let node = self.state().nodes.get(number)?;
        node.metadata()
    }

    pub(super) fn look_up(&self, parent: u64, name: &OsStr) -> io::Result<Entry> {
        self.state().nodes.look_up(parent, name)
    }

    fn path(&self, number: u64) -> io::Result<PathBuf> {
        self.state().nodes.path(number)
    }

    fn child(&self, parent: u64, name: &OsStr) -> io::Result<PathBuf> {
        self.state().nodes.child(parent, name)
    }

    pub(super) fn open(&self, number: u64, flags: OpenFlags) -> io::Result<u64> {
        self.meet(Operation::Open, number, None)?;
        let is_written = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let file = OpenOptions::new().read(true).write(is_written).open(self.path(number)?)?;
        Ok(self.state().keep(file))
    }

    pub(super) fn release(&self, handle: u64) {
        self.state().open.remove(&handle);
    }

    fn opened(&self, handle: u64) -> io::Result<Arc<File>> {
        let file = self.state().open.get(&handle).cloned();
        file.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    pub(super) fn read(&self, number: u64, handle: u64, offset: u64, len: u32) -> io::Result<Vec<u8>> {
        let met = self.meet(Operation::Read, number, ByteRange::at(offset, len.into()))?;
        let file = self.opened(handle)?;
        let mut bytes = vec![0; at_most(len as usize, met)];
        let mut got = 0;
        loop {
            let read = file.read_at(&mut bytes[got..], offset + got as u64)?;
            got += read;
            if read == 0 || got == bytes.len() {
                bytes.truncate(got);
                return Ok(bytes);
            }
        }
    }

    pub(super) fn write(
        &self,
        number: u64,
        handle: u64,
        offset: u64,
        bytes: &[u8],
        flags: OpenFlags,
    ) -> io::Result<u32> {
        let met = self.meet(Operation::Write, number, ByteRange::at(offset, bytes.len() as u64))?;
        let bytes = &bytes[..at_most(bytes.len(), met)];
        self.opened(handle)?.write_all_at(bytes, offset)?;
        if flags.0 & libc::O_DSYNC != 0 {
            self.sync(number)?;
        }
        Ok(bytes.len() as u32)
    }

    /// What was written is durable from now on, unless the sync is ignored. Where it fails, it is
    /// lost: Linux keeps no page that could not be written for another try, so no later sync makes
    /// it durable.
    pub(super) fn sync(&self, number: u64) -> io::Result<()> {
        match self.meet(Operation::Sync, number, None) {
            Ok(Some(Fault::Ignored)) => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                let state = self.state();
                if let Some(durable) = &state.durable {
                    durable.lose_file(&state.nodes, number)?;
                }
                return Err(error);
            }
        }
        let mut state = self.state();
        let State { durable, nodes, .. } = &mut *state;
        durable.as_mut().map_or(Ok(()), |durable| durable.sync_file(nodes, number))
    }

    /// The same for the names in a directory.
    pub(super) fn sync_directory(&self, number: u64) -> io::Result<()> {
        if self.meet(Operation::SyncDirectory, number, None)? == Some(Fault::Ignored) {
            return Ok(());
        }
        let mut state = self.state();
        let State { durable, nodes, .. } = &mut *state;
        durable.as_mut().map_or(Ok(()), |durable| durable.sync_directory(nodes, number))
    }

    pub(super) fn allocate(&self, number: u64, handle: u64, range: ByteRange, mode: i32) -> io::Result<()> {
        self.meet(Operation::Allocate, number, None)?;
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        Ok(rustix::fs::fallocate(&*self.opened(handle)?, flags, range.start(), range.len())?)
    }

    /// Makes a file and opens it: the entry and its handle.
    pub(super) fn create(
        &self,
        parent: u64,
        name: &OsStr,
        mode: u32,
        owner: (u32, u32),
    ) -> io::Result<(Entry, u64)> {
        self.meet_name(Operation::Create, parent, name)?;
        let path = self.child(parent, name)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
        own(&path, owner)?;
        let entry = self.look_up(parent, name)?;
        Ok((entry, self.state().keep(file)))
    }

    pub(super) fn make_directory(
        &self,
        parent: u64,
        name: &OsStr,
        mode: u32,
        owner: (u32, u32),
    ) -> io::Result<Entry> {
        self.meet_name(Operation::MakeDirectory, parent, name)?;
        let path = self.child(parent, name)?;
        fs::create_dir(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777))?;
        own(&path, owner)?;
        self.look_up(parent, name)
    }

    pub(super) fn symlink(&self, parent: u64, name: &OsStr, target: &Path) -> io::Result<Entry> {
        self.meet_name(Operation::Link, parent, name)?;
        std::os::unix::fs::symlink(target, self.child(parent, name)?)?;
        self.look_up(parent, name)
    }

    pub(super) fn link(&self, number: u64, parent: u64, name: &OsStr) -> io::Result<Entry> {
        self.meet_name(Operation::Link, parent, name)?;
        let (node, parent_node) = {
            let state = self.state();
            (state.nodes.get(number)?, state.nodes.get(parent)?)
        };
        rustix::fs::linkat(&*node, "", &*parent_node, name, AtFlags::EMPTY_PATH)?;
        self.look_up(parent, name)
    }

    pub(super) fn remove(&self, parent: u64, name: &OsStr, is_directory: bool) -> io::Result<()> {
        self.meet_name(Operation::Remove, parent, name)?;
        let path = self.child(parent, name)?;
        if is_directory { fs::remove_dir(path) } else { fs::remove_file(path) }
    }

    /// Rules see the name that it gets.
    pub(super) fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32) -> io::Result<()> {
        self.meet_name(Operation::Rename, to.0, to.1)?;
        let (source, target, names) = {
            let state = self.state();
            let names = (state.nodes.spelled(from.0, from.1)?, state.nodes.spelled(to.0, to.1)?);
            (state.nodes.get(from.0)?, state.nodes.get(to.0)?, names)
        };
        let flags = RenameFlags::from_bits_retain(flags);
        Ok(rustix::fs::renameat_with(&*source, names.0, &*target, names.1, flags)?)
    }

    pub(super) fn set_xattr(&self, number: u64, name: &OsStr, value: &[u8], flags: i32) -> io::Result<()> {
        self.meet(Operation::SetAttributes, number, None)?;
        let flags = rustix::fs::XattrFlags::from_bits_retain(flags as u32);
        Ok(rustix::fs::setxattr(self.path(number)?, name, value, flags)?)
    }

    pub(super) fn remove_xattr(&self, number: u64, name: &OsStr) -> io::Result<()> {
        self.meet(Operation::SetAttributes, number, None)?;
        Ok(rustix::fs::removexattr(self.path(number)?, name)?)
    }

    pub(super) fn xattr(&self, number: u64, name: &OsStr) -> io::Result<Vec<u8>> {
        self.meet(Operation::ReadAttributes, number, None)?;
        super::xattrs::value(&self.path(number)?, name)
    }

    /// The names, each with a zero byte at its end.
    pub(super) fn xattr_names(&self, number: u64) -> io::Result<Vec<u8>> {
        self.meet(Operation::ReadAttributes, number, None)?;
        super::xattrs::names(&self.path(number)?)
    }

    pub(super) fn link_target(&self, number: u64) -> io::Result<Vec<u8>> {
        Ok(self.state().nodes.link_target(number)?.into_bytes())
    }

    pub(super) fn change(&self, number: u64, changes: Changes) -> io::Result<Metadata> {
        let operation = if changes.len.is_some() { Operation::SetLen } else { Operation::SetAttributes };
        self.meet(operation, number, None)?;
        let path = self.path(number)?;
        if let Some(len) = changes.len {
            OpenOptions::new().write(true).open(&path)?.set_len(len)?;
        }
        let node = self.state().nodes.get(number)?;
        if changes.uid.is_some() || changes.gid.is_some() {
            let uid = changes.uid.map(rustix::fs::Uid::from_raw);
            let gid = changes.gid.map(rustix::fs::Gid::from_raw);
            rustix::fs::chownat(&*node, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = changes.mode {
            fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777))?;
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let times =
                Timestamps { last_access: time(changes.accessed), last_modification: time(changes.modified) };
            rustix::fs::utimensat(&*node, "", &times, AtFlags::EMPTY_PATH)?;
        }
        node.metadata()
    }

    /// Name, number and metadata of all that is in a directory, itself first.
    pub(super) fn list(&self, number: u64, is_first: bool) -> io::Result<Vec<(Vec<u8>, Entry)>> {
        if is_first {
            self.meet(Operation::List, number, None)?;
        }
        let mut state = self.state();
        let itself = state.nodes.get(number)?.metadata()?;
        let mut listed = vec![(b".".to_vec(), (number, itself.clone())), (b"..".to_vec(), (ROOT, itself))];
        for name in super::durable::names(&state.nodes, number)? {
            match state.nodes.look_up(number, &name) {
                Ok(entry) => listed.push((name.as_bytes().to_vec(), entry)),
                // It was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(listed)
    }
}

/// Makes errors and delays happen.
fn happen(met: Option<Fault>) -> io::Result<Option<Fault>> {
    match met {
        Some(Fault::Errno(errno)) => return Err(io::Error::from_raw_os_error(errno)),
        Some(Fault::Delay(delay)) => std::thread::sleep(delay),
        Some(Fault::AtMost(_) | Fault::Ignored) | None => {}
    }
    Ok(met)
}

fn at_most(len: usize, met: Option<Fault>) -> usize {
    match met {
        Some(Fault::AtMost(most)) => len.min(usize::try_from(most.max(1)).unwrap_or(usize::MAX)),
        _ => len,
    }
}

/// What another user makes is theirs.
fn own(path: &Path, (uid, gid): (u32, u32)) -> io::Result<()> {
    chown(path, Some(uid), Some(gid))
}

fn time(set: Option<TimeOrNow>) -> Timespec {
    let kept = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    match set {
        None => kept,
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Timespec { tv_sec: since.as_secs() as i64, tv_nsec: since.subsec_nanos().into() },
            Err(before) => {
                let before = before.duration();
                let is_whole = before.subsec_nanos() == 0;
                let seconds = -(before.as_secs() as i64) - i64::from(!is_whole);
                let ns = if is_whole { 0 } else { 1_000_000_000 - before.subsec_nanos() };
                Timespec { tv_sec: seconds, tv_nsec: ns.into() }
            }
        },
    }
}
