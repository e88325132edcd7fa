//! Compressed members that are opened: unpacked as far as they are read, into the [`Spool`].

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::error::{Error, Result};
use super::member::{Extent, Member, MemberKind};
use super::open::{Archive, Origin as IndexOrigin};
use super::spool::{SHORT_MAX, Spool, SpoolStream, TarUnpacker, Unpacker, ZipMember};
use crate::extent::ByteRange;
use crate::source::{Identity, Inodes, Leaf, MemorySource, Origin, Source};

/// A deflated member of up to this many bytes is unpacked as a whole, and checked by its CRC-32,
/// before any of it is given. Of a longer one the first bytes come while it is unpacked: what is
/// wrong is found with its last ones, which do not come then.
pub const CHECKED_FIRST_MAX: u64 = 64 << 20;

/// What an archive has in the spool. With it ends what is there.
#[derive(Debug)]
pub(super) struct Streams {
    spool: Spool,
    archive: u64,
    open: Mutex<OpenStreams>,
}

#[derive(Debug, Default)]
struct OpenStreams {
    /// The tar in a compressed one.
    tar: Option<Arc<SpoolStream>>,
    /// Members of a zip that are open, or have something in the spool, by where they begin.
    members: HashMap<u64, Weak<SpoolStream>>,
    /// When those that have ended are looked for.
    members_max: usize,
}

impl Streams {
    pub(super) fn new(spool: &Spool) -> Self {
        Self { spool: spool.clone(), archive: spool.id(), open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, OpenStreams> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tar(&self, archive: &Archive) -> Arc<SpoolStream> {
        let mut open = self.open();
        let stream = open.tar.get_or_insert_with(|| {
            // Not the archive itself, with which this ends.
            let (front, source) = (archive.front(), archive.file());
            let unpack = move || -> Result<Box<dyn Unpacker>> {
                Ok(Box::new(TarUnpacker::new(source.clone(), front.open()?)))
            };
            Arc::new(SpoolStream::new(&self.spool, self.archive, archive.path(), None, Box::new(unpack)))
        });
        stream.clone()
    }

    fn member(&self, archive: &Archive, member: &Member<'_>) -> Arc<SpoolStream> {
        let mut open = self.open();
        if let Some(stream) = open.members.get(&member.data_at).and_then(Weak::upgrade) {
            return stream;
        }
        if open.members.len() >= open.members_max {
            open.members.retain(|_, stream| stream.strong_count() > 0);
            open.members_max = open.members.len().saturating_mul(2).max(64);
        }
        let packed = ZipMember::new(archive, member);
        let unpack = move || -> Result<Box<dyn Unpacker>> { Ok(Box::new(packed.unpacker()?)) };
        let (len, path) = (Some(member.node.len), archive.path());
        let stream = Arc::new(SpoolStream::new(&self.spool, self.archive, path, len, Box::new(unpack)));
        open.members.insert(member.data_at, Arc::downgrade(&stream));
        stream
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.spool.forget(self.archive);
    }
}

impl Archive {
    /// A member that is read by range: where it lies, or, where its bytes are compressed, from the
    /// [`Spool`], into which it is unpacked as far as it is read. Of a symbolic link its target.
    ///
    /// Deflated members of zips of up to [`CHECKED_FIRST_MAX`] bytes are unpacked and checked now.
    ///
    /// # Errors
    /// [`Error::Invalid`] where its bytes cannot be had, or are more than the spool holds; what
    /// reading meets.
    pub fn open_member(&self, member: &Member<'_>) -> Result<Arc<dyn Source>> {
        if let Some(why) = member.refusal() {
            return Err(Error::Invalid(why));
        }
        if member.kind() == MemberKind::Symlink && !member.link.is_empty() {
            let path = self.piece(member, 0, Vec::new()).path().to_path_buf();
            return Ok(Arc::new(MemorySource::new(path, member.link.to_vec())));
        }
        self.body(member)
    }

    /// The bytes of a member that has some.
    pub(super) fn body(&self, member: &Member<'_>) -> Result<Arc<dyn Source>> {
        if let Some(source) = self.source(member)? {
            return Ok(Arc::new(source));
        }
        let is_tar = self.is_sequential();
        // Of a tar, holes are not unpacked.
        let (len, spool) = (if is_tar { member.stored_len } else { member.node.len }, &self.options().spool);
        let is_short = !is_tar && len <= SHORT_MAX;
        if len > spool.file_bytes_max() && !is_short {
            let (key, most) = (String::from_utf8_lossy(member.key), spool.file_bytes_max());
            let what = format!(
                "{key} is compressed and has {len} bytes; the spool in {} has room for {most}",
                spool.directory().display()
            );
            return Err(Error::Invalid(what));
        }
        let (stream, base, extents) = match is_tar {
            true => (self.streams().tar(self), 0, self.stored(member)),
            false => {
                let whole = Extent { at: 0, stored_at: member.data_at, len: member.node.len };
                let extents = if member.node.len == 0 { Vec::new() } else { vec![whole] };
                (self.streams().member(self, member), member.data_at, extents)
            }
        };
        self.prepare(&stream, len, &extents)?;
        self.check_unchanged()?;
        let (archive, streams) = (self.file(), self.streams().clone());
        let unpacked = Unpacked { archive, stream, base, _streams: streams };
        Ok(Arc::new(self.piece_of(Arc::new(unpacked), member, member.node.len, extents)))
    }

    /// What is done before any bytes of a member are given.
    fn prepare(&self, stream: &Arc<SpoolStream>, len: u64, extents: &[Extent]) -> Result<()> {
        if !self.is_sequential() {
            return if len <= CHECKED_FIRST_MAX { stream.verify() } else { Ok(()) };
        }
        // The pass that made the index went to the checksum at the end. If the index lay beside the
        // archive, the first who opens a member does.
        if len > 0 && !matches!(self.origin(), IndexOrigin::Made { .. }) {
            stream.verify()?;
        }
        match extents.last().filter(|_| len <= CHECKED_FIRST_MAX) {
            Some(last) => {
                let end = last.stored_at.saturating_add(last.len);
                let range = ByteRange::new(end.saturating_sub(1), end).unwrap_or_default();
                stream.resolve(range, &mut Vec::with_capacity(1))
            }
            None => Ok(()),
        }
    }
}

/// What an archive, or a member of it, is when it is unpacked.
#[derive(Debug)]
struct Unpacked {
    archive: Arc<dyn Source>,
    stream: Arc<SpoolStream>,
    /// The offset that its first byte has here.
    base: u64,
    /// Keeps what was unpacked.
    _streams: Arc<Streams>,
}

impl Source for Unpacked {
    fn path(&self) -> &Path {
        self.archive.path()
    }

    /// It is not known before its end. Its members know theirs.
    fn len(&self) -> u64 {
        u64::MAX
    }

    fn identity(&self) -> Identity {
        self.archive.identity()
    }

    fn current_identity(&self) -> crate::Result<Identity> {
        self.archive.current_identity()
    }

    fn check_unchanged(&self) -> crate::Result<()> {
        self.archive.check_unchanged()
    }

    /// Where they are in the archive, only what decompresses it knows.
    fn check_ranges(&self, _ranges: &[ByteRange]) -> crate::Result<()> {
        self.archive.check_unchanged()
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> crate::Result<()> {
        let from = range.start().saturating_sub(self.base);
        let unpacked = ByteRange::at(from, range.len()).unwrap_or_default();
        self.stream.resolve(unpacked, leaves).map_err(|error| error.into_core(self.archive.path()))
    }

    fn origin(&self) -> Origin {
        self.archive.origin()
    }

    fn is_proven(&self) -> bool {
        self.archive.is_proven()
    }

    fn checks_reads(&self) -> bool {
        self.archive.checks_reads()
    }

    /// Resolving a range unpacks up to its end.
    fn reads_by_request(&self) -> bool {
        true
    }

    fn note_files(&self, files: &mut Inodes) {
        self.archive.note_files(files);
    }
}
