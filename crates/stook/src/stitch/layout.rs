//! [`Layout`]: what becomes of members in a file.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::Result;
use super::file::VirtualFile;
use super::members::Members;
use crate::extent::ByteRange;
use crate::source::Source as _;

/// How members are laid out in one file. `docs/guide/layouts.md` shows how to add one.
pub trait Layout: fmt::Debug {
    /// What the names of such files end in, without the dot.
    fn ending(&self) -> &'static str;

    /// Lays members out. `path` is what the file is called in messages. Nothing of the members is
    /// read that a listing says.
    ///
    /// # Errors
    /// [`TooLong`](super::Error::TooLong); [`Member`](super::Error::Member) for what the format has
    /// no way to hold; what cannot be read, where the layout is in the members themselves.
    fn lay_out(&self, path: PathBuf, members: Members) -> Result<Laid>;
}

/// A file that was laid out.
#[derive(Debug, Clone)]
pub struct Laid {
    /// Its bytes.
    pub file: VirtualFile,
    /// What it is made of, in order.
    pub members: Arc<Members>,
    /// Where the bytes of each member begin; of one that has none, the byte after its header.
    pub starts: Arc<[u64]>,
}

impl Laid {
    /// Where the bytes of the member with this position lie, as far as they are in it: of a shard
    /// whose header is left out, those of its tensors. Of one that stays in an archive, the place
    /// and the length that it has unpacked.
    pub fn range_of(&self, position: usize) -> Option<ByteRange> {
        let (member, start) = (self.members.all().get(position)?, *self.starts.get(position)?);
        let next = self.starts.get(position.saturating_add(1)).copied().filter(|next| *next >= start);
        let most = next.unwrap_or(self.file.len()).saturating_sub(start);
        let len = if member.is_kept() { member.len } else { member.len.min(most) };
        ByteRange::at(start, len)
    }
}
