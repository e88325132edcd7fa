//! A pack into a tree of files.
//!
//! Files appear under their names when they are whole and verified, with mode, times and owner set. Small ones
//! are written by several threads. Directories get their mode and time last, hard links when all files are there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use super::packing::Failure;
use super::target::{self, Dress, Target};
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind};
use crate::pack::key::{Key, KeyValue};
use crate::pack::open::Pack;
use crate::pack::scan::{OnDamage, Scan, ScanOptions};

/// Pieces of nothing but zeroes, if they are at least this long, are left as holes.
const HOLE_LEN: usize = 64 << 10;

/// Small files waiting for a thread that writes them.
const QUEUE_LEN: usize = 64;

/// What unpacking did.
#[derive(Debug, Default)]
pub struct UnpackSummary {
    /// Regular files written.
    pub files: u64,
    /// Directories made or dressed.
    pub directories: u64,
    /// Symbolic links made.
    pub symlinks: u64,
    /// Hard links made.
    pub hard_links: u64,
    /// Bytes of file bodies written.
    pub bytes: u64,
    /// What was there already, and stayed as it was.
    pub kept: Vec<Vec<u8>>,
    /// What could not be unpacked, damaged records included.
    pub failures: Vec<Failure>,
    /// Whether it was stopped by the caller before its end.
    pub interrupted: bool,
}

/// The hook that selects what is unpacked, by path.
type Select<'a> = Box<dyn Fn(&[u8]) -> bool + 'a>;

/// How a pack is to be unpacked.
pub struct UnpackTree<'a> {
    /// Where to.
    pub target: PathBuf,
    /// Whether files that are there may be replaced; else they are kept.
    pub overwrite: bool,
    /// Whether owners are restored.
    pub with_owner: bool,
    /// Only these groups; all if empty.
    pub groups: Vec<String>,
    /// Threads that write small files.
    pub threads: usize,
    /// Which keys are unpacked.
    pub select: Select<'a>,
}

impl std::fmt::Debug for UnpackTree<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnpackTree").field("target", &self.target).finish_non_exhaustive()
    }
}

/// A small file on its way to a thread that writes it.
struct Job {
    parent: Arc<OwnedFd>,
    key: Vec<u8>,
    name: OsString,
    dress: Dress,
    body: Vec<u8>,
}

/// What threads that write have in common.
struct Shared {
    overwrite: bool,
    /// Numbers temporary names.
    next: AtomicU64,
    summary: Mutex<UnpackSummary>,
}

/// What is put off until all files are there.
#[derive(Default)]
struct Later {
    directories: Vec<(Vec<u8>, Dress)>,
    links: Vec<(Vec<u8>, Vec<u8>)>,
}

impl UnpackTree<'_> {
    /// Unpacks. `progress` is told records and bytes so far; when it says no, unpacking stops, with every file
    /// either whole or absent.
    ///
    /// Damaged records, unsafe paths and files that cannot be written are [failures](UnpackSummary::failures); the
    /// rest goes on.
    ///
    /// # Errors
    /// That the target cannot be made or synced, or what reading the pack meets.
    pub fn run(&self, pack: &Pack, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<UnpackSummary> {
        let io = |operation| move |error| Error::from(crate::Error::io(operation, &self.target, error));
        let mut target = Target::open(&self.target).map_err(io("open"))?;
        let shared = Shared {
            overwrite: self.overwrite,
            next: AtomicU64::new(0),
            summary: Mutex::new(UnpackSummary::default()),
        };
        let mut later = Later::default();
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::sync_channel::<Job>(QUEUE_LEN);
            let receiver = Arc::new(Mutex::new(receiver));
            for _ in 0..self.threads.max(1) {
                let (receiver, shared) = (receiver.clone(), &shared);
                scope.spawn(move || {
                    loop {
                        let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok(job) = job else { return };
                        shared.write_small(job);
                    }
                });
            }
            drop(receiver);
            self.go_through(pack, &mut target, &shared, &mut later, &sender, progress)
        })?;
        let interrupted = shared.summary().interrupted;
        if !interrupted {
            self.make_links(&mut target, &shared, later.links);
        }
        dress_directories(&mut target, &shared, later.directories);
        // One sync for all: each file was complete when it got its name, and now all are on the medium.
        rustix::fs::syncfs(target.root()).map_err(|errno| io("sync")(errno.into()))?;
        Ok(shared.summary.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn go_through(
        &self,
        pack: &Pack,
        target: &mut Target,
        shared: &Shared,
        later: &mut Later,
        sender: &mpsc::SyncSender<Job>,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<()> {
        let options = ScanOptions { groups: self.groups.clone(), on_damage: OnDamage::Skip };
        let mut scan = pack.scan(options);
        let mut seen = 0;
        while let Some(record) = scan.next()? {
            let (key, attributes) = (record.key(), record.attributes().to_vec());
            let body = record.body().map(<[u8]>::to_vec);
            seen += 1;
            if let Some(key) = key {
                self.take(&key, &attributes, body, target, shared, later, sender, &mut scan)?;
            }
            if !progress(seen, shared.summary().bytes) {
                shared.summary().interrupted = true;
                break;
            }
        }
        for damage in pack.damages().iter().chain(scan.damages()) {
            let key = damage.key.as_ref().and_then(Key::as_bytes).unwrap_or_default().to_vec();
            shared.fail(key, Error::Damaged(damage.clone()));
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one record and where it goes")]
    fn take(
        &self,
        key: &Key,
        attributes: &[u8],
        body: Option<Vec<u8>>,
        target: &mut Target,
        shared: &Shared,
        later: &mut Later,
        sender: &mpsc::SyncSender<Job>,
        scan: &mut Scan<'_>,
    ) -> Result<()> {
        let path = match key.value() {
            KeyValue::Bytes(path) => path,
            KeyValue::Id(_) => {
                let error = Error::Invalid(format!("{key} is a number, not a path; `stook get` gives it"));
                shared.fail(key.to_string().into_bytes(), error);
                return Ok(());
            }
        };
        if !path.is_empty() && !(self.select)(path) {
            return Ok(());
        }
        let placed = self.place(path, attributes, target);
        let (parent, name, kind, dress) = match placed {
            Ok(placed) => placed,
            Err(error) => {
                shared.fail(path.to_vec(), error);
                return Ok(());
            }
        };
        match (kind, body) {
            (FileKind::Directory, _) => later.directories.push((path.to_vec(), dress)),
            (FileKind::HardLink, Some(body)) => later.links.push((path.to_vec(), body)),
            (FileKind::Symlink, Some(body)) => shared.make_symlink(path, &parent, &name, &body, dress),
            (FileKind::File, Some(body)) => {
                let job = Job { parent, key: path.to_vec(), name, dress, body };
                if let Err(mpsc::SendError(job)) = sender.send(job) {
                    shared.write_small(job);
                }
            }
            (FileKind::File, None) => {
                let written = shared.write_long(&parent, &name, dress, &mut || next_chunk(scan));
                shared.note(path, written);
            }
            (_, None) => {
                shared.fail(path.to_vec(), Error::Invalid("the target of a link is too long".into()))
            }
        }
        Ok(())
    }

    /// Where a record goes: its parent directory (made if need be), its name, what it is.
    fn place(
        &self,
        path: &[u8],
        attributes: &[u8],
        target: &mut Target,
    ) -> Result<(Arc<OwnedFd>, OsString, FileKind, Dress)> {
        let parts = target::parts(path).map_err(|why| {
            Error::Invalid(format!("refused: its path would lead out of the target: {why}"))
        })?;
        let attributes = Attributes::decode(attributes).map_err(|invalid| Error::Invalid(invalid.what))?;
        let kind = match attributes.get(&crate::pack::format::attributes::Name::Id(1)) {
            // A record that was put by hand is a file.
            None => FileKind::File,
            Some(_) => attributes
                .file_kind()
                .ok_or_else(|| Error::Invalid("a kind of file that this version cannot make".into()))?,
        };
        let dress = Dress {
            mode: attributes.mode(),
            mtime_ns: attributes.mtime_ns(),
            owner: attributes.owner().filter(|_| self.with_owner),
        };
        let io = |error| {
            Error::from(crate::Error::io(
                "make the directory for",
                self.target.join(OsStr::from_bytes(path)),
                error,
            ))
        };
        match (parts.split_last(), kind) {
            (_, FileKind::Directory) => {
                let directory = target.directory(&parts).map_err(io)?;
                Ok((directory, OsString::new(), kind, dress))
            }
            (Some((name, parents)), _) => {
                let parent = target.directory(parents).map_err(io)?;
                Ok((parent, name.to_os_string(), kind, dress))
            }
            (None, _) => Err(Error::Invalid("the empty path can only be a directory".into())),
        }
    }

    fn make_links(&self, target: &mut Target, shared: &Shared, links: Vec<(Vec<u8>, Vec<u8>)>) {
        for (path, first) in links {
            let made = link(target, &path, &first, self.overwrite, || shared.temporary());
            let made = made.map(|done| done.then_some(0));
            let made = made.map_err(|error| crate::Error::io("link", target.path_of(&path), error).into());
            match made {
                Ok(Some(_)) => shared.summary().hard_links += 1,
                Ok(None) => shared.summary().kept.push(path),
                Err(error) => shared.fail(path, error),
            }
        }
    }
}

fn next_chunk(scan: &mut Scan<'_>) -> Result<Option<Vec<u8>>> {
    Ok(scan.next_chunk()?.map(<[u8]>::to_vec))
}

/// Gives a file that was unpacked a further name; `false` when the name was taken and stays.
fn link(
    target: &mut Target,
    path: &[u8],
    first: &[u8],
    overwrite: bool,
    temporary: impl Fn() -> OsString,
) -> io::Result<bool> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
    let (parts, first) = match (target::parts(path), target::parts(first)) {
        (Ok(parts), Ok(first)) => (parts, first),
        (Err(why), _) | (_, Err(why)) => return Err(refused(why)),
    };
    let (Some((name, parents)), Some((first_name, first_parents))) = (parts.split_last(), first.split_last())
    else {
        return Err(refused("a link needs two names"));
    };
    let (parent, first_parent) = (target.directory(parents)?, target.directory(first_parents)?);
    let what = rustix::fs::statat(&*first_parent, *first_name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    if !rustix::fs::FileType::from_raw_mode(what.st_mode).is_file() {
        return Err(refused("the first name is not a file"));
    }
    let linked = |to: &OsStr| {
        let flags = rustix::fs::AtFlags::empty();
        rustix::fs::linkat(&*first_parent, *first_name, &*parent, to, flags).map_err(io::Error::from)
    };
    match linked(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && overwrite => {
            let temporary = temporary();
            linked(&temporary)?;
            target::publish(&parent, &temporary, name, true)?;
            // Renaming one name of a file onto another name of the same file leaves both.
            let _ = target::remove(&parent, &temporary);
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        other => other.map(|()| true),
    }
}

/// Modes and times of directories, the deepest first, so that nothing is made in a directory afterwards.
fn dress_directories(target: &mut Target, shared: &Shared, mut directories: Vec<(Vec<u8>, Dress)>) {
    directories.sort_by(|a, b| b.0.cmp(&a.0));
    for (path, dress) in directories {
        let parts = target::parts(&path).unwrap_or_default();
        let dressed = target.directory(&parts).and_then(|directory| target::dress(&*directory, dress));
        match dressed {
            Ok(()) => shared.summary().directories += 1,
            Err(error) => {
                let error = crate::Error::io("set mode and time of", target.path_of(&path), error);
                shared.fail(path, error.into());
            }
        }
    }
}

impl Shared {
    fn summary(&self) -> std::sync::MutexGuard<'_, UnpackSummary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, key: Vec<u8>, error: Error) {
        self.summary().failures.push(Failure { key, error });
    }

    fn temporary(&self) -> OsString {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        OsString::from_vec(format!(".stook-{}-{number}.part", std::process::id()).into_bytes())
    }

    /// Notes what became of a file: bytes written, kept as it was, or failed.
    fn note(&self, key: &[u8], written: Result<Option<u64>>) {
        match written {
            Ok(Some(bytes)) => {
                let mut summary = self.summary();
                summary.files += 1;
                summary.bytes += bytes;
            }
            Ok(None) => self.summary().kept.push(key.to_vec()),
            Err(error) => self.fail(key.to_vec(), error),
        }
    }

    fn write_small(&self, job: Job) {
        let Job { parent, key, name, dress, body } = job;
        let mut body = Some(body);
        let written = self.write_long(&parent, &name, dress, &mut || Ok(body.take()));
        self.note(&key, written);
    }

    /// Writes a file under a temporary name and gives it its own when it is whole. `None` when there is one
    /// that is to be kept.
    fn write_long(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        dress: Dress,
        next: &mut dyn FnMut() -> Result<Option<Vec<u8>>>,
    ) -> Result<Option<u64>> {
        let io = |operation| move |error| Error::from(crate::Error::io(operation, name, error));
        if !self.overwrite && target::exists(parent, name).map_err(io("look for"))? {
            return Ok(None);
        }
        let temporary = self.temporary();
        let mut file = target::create(parent, &temporary).map_err(io("create"))?;
        let written = (|| {
            let mut len = 0;
            while let Some(chunk) = next()? {
                write_sparse(&mut file, len, &chunk).map_err(io("write"))?;
                len += chunk.len() as u64;
            }
            // A hole at the end has to be told.
            if file.metadata().map_err(io("stat"))?.len() != len {
                file.set_len(len).map_err(io("write"))?;
            }
            target::dress(&file, dress).map_err(io("set mode and time of"))?;
            Ok(len)
        })();
        let published = written.and_then(|len| {
            let published = target::publish(parent, &temporary, name, self.overwrite);
            match published {
                Ok(()) => Ok(Some(len)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !self.overwrite => Ok(None),
                Err(error) => Err(io("name")(error)),
            }
        });
        if !matches!(published, Ok(Some(_))) {
            target::remove(parent, &temporary).map_err(io("remove the unfinished"))?;
        }
        published
    }

    fn make_symlink(&self, key: &[u8], parent: &OwnedFd, name: &OsStr, body: &[u8], dress: Dress) {
        let link_to = OsStr::from_bytes(body);
        let made = (|| {
            match rustix::fs::symlinkat(link_to, parent, name) {
                Err(rustix::io::Errno::EXIST) if self.overwrite => {
                    let temporary = self.temporary();
                    rustix::fs::symlinkat(link_to, parent, &temporary)?;
                    target::publish(parent, &temporary, name, true)?;
                }
                Err(rustix::io::Errno::EXIST) => return Ok(false),
                other => other?,
            }
            target::dress_link(parent, name, dress)?;
            Ok::<bool, io::Error>(true)
        })();
        match made {
            Ok(true) => self.summary().symlinks += 1,
            Ok(false) => self.summary().kept.push(key.to_vec()),
            Err(error) => self.fail(key.to_vec(), crate::Error::io("make the link", name, error).into()),
        }
    }
}

/// Writes bytes at an offset, leaving long stretches of zeroes out.
fn write_sparse(file: &mut File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    use std::io::{Seek as _, SeekFrom};
    if bytes.len() >= HOLE_LEN && bytes.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    if file.stream_position()? != offset {
        file.seek(SeekFrom::Start(offset))?;
    }
    file.write_all(bytes)
}
