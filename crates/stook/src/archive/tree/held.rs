//! Compressed members that are opened: decompressed, and held in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::HELD_BYTES_MAX;
use crate::archive::error::{Error, Fault, Result};
use crate::archive::input::Input as _;
use crate::archive::member::{Member, MemberKind};
use crate::archive::open::{Archive, Origin, TarInput};
use crate::archive::reading::{Reading, ReadingOptions, pass_on};
use crate::engine::IdlePool;
use crate::source::{MemorySource, Source};

impl Archive {
    /// A member that is read by range: where it lies, or, where its bytes are compressed, up to
    /// [`HELD_BYTES_MAX`] of them, decompressed now and held. Of a symbolic link its target.
    ///
    /// # Errors
    /// [`Error::Invalid`] where its bytes cannot be had, or are too many; what reading meets.
    pub fn open_member(&self, member: &Member<'_>) -> Result<Arc<dyn Source>> {
        if let Some(why) = member.refusal() {
            return Err(Error::Invalid(why));
        }
        if member.kind() == MemberKind::Symlink && !member.link.is_empty() {
            let path = self.piece(member, 0, Vec::new()).path().to_path_buf();
            return Ok(Arc::new(MemorySource::new(path, member.link.to_vec())));
        }
        body(self, member, HELD_BYTES_MAX, &Passes::new(self))
    }
}

/// The body of a member, of which up to `held_bytes` are held where they are compressed.
pub(super) fn body(
    archive: &Archive,
    member: &Member<'_>,
    held_bytes: u64,
    passes: &Passes,
) -> Result<Arc<dyn Source>> {
    if let Some(source) = archive.source(member)? {
        return Ok(Arc::new(source));
    }
    let is_sequential = archive.is_sequential();
    // Of a tar, holes are not held.
    let len = if is_sequential { member.stored_len } else { member.node.len };
    if len > held_bytes {
        let key = String::from_utf8_lossy(member.key);
        let what =
            format!("{key} is compressed and has {len} bytes; up to {held_bytes} are held to be opened");
        return Err(Error::Invalid(what));
    }
    let bytes = match is_sequential {
        true => passes.read(archive, member)?,
        false => read_whole(archive, member)?,
    };
    archive.check_unchanged()?;
    Ok(Arc::new(archive.held(member, bytes)))
}

/// All bytes of a member of a zip, checked by their CRC-32. The caller has looked how many they are
/// said to be, and there are never more.
fn read_whole(archive: &Archive, member: &Member<'_>) -> Result<Bytes> {
    let mut reading = Reading::new(archive, vec![member.number], ReadingOptions::of(archive))?;
    reading.next()?;
    let mut bytes = Vec::new();
    while let Some(chunk) = reading.chunk()? {
        bytes.extend_from_slice(chunk);
    }
    Ok(bytes.into())
}

/// Passes over a compressed tar, each at the end of the last member that it read: the next opened
/// member continues there, if it comes after.
#[derive(Debug)]
pub(super) struct Passes {
    idle: IdlePool<TarInput>,
    /// Whether a pass since it was opened has reached the checksum after all members. If the index
    /// was beside the archive, the first opened member makes that pass.
    is_verified: AtomicBool,
}

impl Passes {
    pub(super) fn new(archive: &Archive) -> Self {
        let is_verified = matches!(archive.origin(), Origin::Made { .. });
        Self { idle: IdlePool::new(), is_verified: AtomicBool::new(is_verified) }
    }

    /// Reads the stored bytes of a member in a compressed tar, without its holes.
    pub(super) fn read(&self, archive: &Archive, member: &Member<'_>) -> Result<Bytes> {
        if member.stored_len == 0 {
            return Ok(Bytes::new());
        }
        let kept = self.idle.take().filter(|input| input.position() <= member.data_at);
        let mut input = match kept {
            Some(input) => input,
            None => archive.tar_from_front(&ReadingOptions::of(archive))?,
        };
        let bytes = read_stored(archive, member, &mut input)?;
        match self.is_verified.load(Ordering::Relaxed) {
            true => self.idle.keep(input),
            false => {
                while pass_on(&mut input)? {}
                self.is_verified.store(true, Ordering::Relaxed);
            }
        }
        Ok(bytes.into())
    }
}

fn read_stored(archive: &Archive, member: &Member<'_>, input: &mut TarInput) -> Result<Vec<u8>> {
    let cut = || -> Error {
        let fault = Fault::damaged(0, "the archive ends in the middle of a member; it was cut off");
        fault.of(archive.path(), member.data_at)
    };
    let before = member.data_at.saturating_sub(input.position());
    if input.skip(before)? < before {
        return Err(cut());
    }
    // Memory is taken for what came, not for what is said to come.
    let (mut bytes, mut left) = (Vec::new(), member.stored_len);
    while left > 0 {
        let there = input.fill()?;
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(there.len());
        if len == 0 {
            return Err(cut());
        }
        bytes.extend_from_slice(there.get(..len).unwrap_or_default());
        input.consume(len);
        left = left.saturating_sub(len as u64);
    }
    Ok(bytes)
}
