//! [`MergedOpener`]: virtual files for those who open them again and again, and do not wait for a
//! copy to be made.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use super::key::numbers_of;
use super::source::HeldCopy;
use super::{MergedCache, Sought};
use crate::engine::{Access, Backend, File};
use crate::error::{Result, chain};
use crate::extent::ByteRange;
use crate::source::{
    Answer, Identity, Inodes, Leaf, Object, Origin, Pending, Source, check_bounds, read_range,
};
use crate::stitch::file::VirtualFile;
use crate::tree::Holes;

/// A copy is made of a file of which one byte in this many was read.
const READ_PART: u64 = 2;
/// Files that wait for their copies, at most. Of further ones a copy is made another time.
const WAITING_MAX: usize = 64;

/// Opens virtual files. One that has a copy is read from that: opening it looks at each part, and
/// verifies the copy. Where there is none a file is read from its parts, and, after half of its
/// bytes were read and it was closed, a thread makes one for the next time. What fails is not tried
/// again as long as this is there. Whatever becomes of a copy is no error of who reads.
#[derive(Debug)]
pub struct MergedOpener(Arc<Making>);

/// What is kept of a file between one opening and the next.
#[derive(Debug, Default)]
pub struct MergedUse {
    /// What it is open as, where it is read from its parts: all that open it meanwhile get the
    /// same.
    stitched: Mutex<Weak<Stitched>>,
    read: AtomicU64,
    is_asked: AtomicBool,
}

#[derive(Debug)]
struct Making {
    cache: Arc<MergedCache>,
    queue: Mutex<Queue>,
    is_ending: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(VirtualFile, Arc<MergedUse>)>,
    /// Whether a thread takes what waits.
    is_served: bool,
}

impl MergedOpener {
    /// Copies in this cache.
    pub fn new(cache: Arc<MergedCache>) -> Self {
        Self(Arc::new(Making { cache, queue: Mutex::default(), is_ending: AtomicBool::new(false) }))
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<MergedCache> {
        &self.0.cache
    }

    /// Opens a file, of which the same is kept as before.
    pub fn open(&self, file: &VirtualFile, used: &Arc<MergedUse>) -> Arc<dyn Source> {
        if let Some(open) = used.stitched().upgrade() {
            return open;
        }
        let cache = &self.0.cache;
        let may_be_made = match cache.may_have(file.path()) {
            // Only here: it takes a look at each part.
            true => match cache.look_for(file, &mut |_| true) {
                Ok(Sought::Copy(copy)) => {
                    used.is_made();
                    let reader = Reader { file: file.clone(), copy, cache: cache.clone() };
                    return Arc::new(FromCopy(Arc::new(reader)));
                }
                Ok(Sought::Nothing(_)) => true,
                // Who reads the parts meets the same errors.
                Ok(Sought::Stitched) | Err(_) => false,
            },
            false => cache.is_meant(file, &numbers_of(file)),
        };
        cache.counted.stitched.fetch_add(1, Relaxed);
        let (making, read_of) = (self.0.clone(), used.clone());
        let opened = Arc::new(Stitched { file: file.clone(), may_be_made, used: read_of, making });
        let mut stitched = used.stitched();
        // Another may have opened it meanwhile.
        if let Some(open) = stitched.upgrade() {
            drop(stitched);
            return open;
        }
        *stitched = Arc::downgrade(&opened);
        opened
    }
}

/// What is being made is broken off.
impl Drop for MergedOpener {
    fn drop(&mut self) {
        self.0.is_ending.store(true, Relaxed);
        self.0.queue().waiting.clear();
    }
}

impl MergedUse {
    /// There is a copy now, which may be gone again one day.
    fn is_made(&self) {
        self.is_asked.store(false, Relaxed);
    }

    fn stitched(&self) -> MutexGuard<'_, Weak<Stitched>> {
        self.stitched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Making {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a copy made; `false` where too many wait.
    fn add(self: &Arc<Self>, file: &VirtualFile, used: &Arc<MergedUse>) -> bool {
        let mut queue = self.queue();
        if queue.waiting.len() >= WAITING_MAX || self.is_ending.load(Relaxed) {
            return false;
        }
        queue.waiting.push_back((file.clone(), used.clone()));
        if queue.is_served {
            return true;
        }
        let making = self.clone();
        let thread = std::thread::Builder::new().name("stook-merge".into()).spawn(move || making.serve());
        match thread {
            Ok(_) => queue.is_served = true,
            Err(error) => {
                queue.waiting.clear();
                drop(queue);
                self.cache.failed(&format!("there is no thread that makes copies: {error}"));
            }
        }
        true
    }

    fn next(&self) -> Option<(VirtualFile, Arc<MergedUse>)> {
        let mut queue = self.queue();
        let next = queue.waiting.pop_front();
        queue.is_served = next.is_some();
        next
    }

    fn serve(&self) {
        while let Some((file, used)) = self.next() {
            match self.cache.copy_of(&file, &mut |_| !self.is_ending.load(Relaxed)) {
                Ok(Some(_)) => used.is_made(),
                Ok(None) | Err(crate::stitch::Error::Interrupted) => {}
                Err(error) => self.cache.note(&file, &chain(&error)),
            }
        }
    }
}

/// A file that is read from its parts.
#[derive(Debug)]
struct Stitched {
    file: VirtualFile,
    may_be_made: bool,
    used: Arc<MergedUse>,
    making: Arc<Making>,
}

impl Drop for Stitched {
    fn drop(&mut self) {
        let enough = self.file.len().div_ceil(READ_PART);
        let is_wanted = self.may_be_made && self.used.read.load(Relaxed) >= enough;
        if is_wanted && !self.used.is_asked.swap(true, Relaxed) {
            self.used.read.store(0, Relaxed);
            self.used.is_asked.store(self.making.add(&self.file, &self.used), Relaxed);
        }
    }
}

impl Source for Stitched {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn identity(&self) -> Identity {
        self.file.identity()
    }

    fn current_identity(&self) -> Result<Identity> {
        self.file.current_identity()
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        self.file.resolve(range, leaves)?;
        self.used.read.fetch_add(range.len(), Relaxed);
        Ok(())
    }

    fn check_ranges(&self, ranges: &[ByteRange]) -> Result<()> {
        self.file.check_ranges(ranges)
    }

    fn note_files(&self, files: &mut Inodes) {
        self.file.note_files(files);
    }

    fn origin(&self) -> Origin {
        self.file.origin()
    }

    fn is_proven(&self) -> bool {
        self.file.is_proven()
    }
}

/// A file that is read from its copy, and from its parts where that is not what it was any more.
#[derive(Debug)]
struct FromCopy(Arc<Reader>);

struct Reader {
    file: VirtualFile,
    copy: Arc<HeldCopy>,
    cache: Arc<MergedCache>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reader").field(&self.file).finish()
    }
}

impl Reader {
    fn read(&self, range: ByteRange) -> Result<Bytes> {
        self.read_copy(range).or_else(|error| {
            self.cache.note(&self.file, &format!("its copy cannot be used any more: {}", chain(&error)));
            read_range(&Backend::Threads, &self.file, range, Access::Cached)
        })
    }

    fn read_copy(&self, range: ByteRange) -> Result<Bytes> {
        let mut bytes = vec![0; usize::try_from(range.len()).unwrap_or(usize::MAX)];
        self.copy.data.file().read_exact_at(&mut bytes, range.start())?;
        self.copy.data.check_unchanged()?;
        Ok(bytes.into())
    }
}

impl Object for Reader {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn begin(&self, range: ByteRange, answer: Answer) -> Pending {
        answer.give(self.read(range));
        Box::new(())
    }
}

impl Source for FromCopy {
    fn path(&self) -> &Path {
        self.0.file.path()
    }

    fn len(&self) -> u64 {
        self.0.file.len()
    }

    /// That of the copy: what is open has its bytes, whatever becomes of the parts.
    fn identity(&self) -> Identity {
        self.0.copy.data.identity()
    }

    fn current_identity(&self) -> Result<Identity> {
        Ok(self.identity())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        if !range.is_empty() {
            leaves.push(Leaf::Object { object: self.0.clone(), range });
        }
        Ok(())
    }

    fn checks_reads(&self) -> bool {
        true
    }

    fn note_files(&self, files: &mut Inodes) {
        self.0.file.note_files(files);
    }

    fn origin(&self) -> Origin {
        self.0.copy.origin(&self.0.file)
    }

    fn is_proven(&self) -> bool {
        self.0.copy.data.is_proven()
    }

    fn holes(&self) -> Result<Holes> {
        self.0.copy.data.holes()
    }

    fn whole_file(&self) -> Option<&Arc<File>> {
        self.0.copy.data.whole_file()
    }
}
