//! One pass over a tar, into an index.

use super::error::{Error, Result};
use super::index::{Builder, Index, Seen, Summary};
use super::input::Input;
use super::member::Method;
use super::tar::Walk;

/// How often progress is told: members between two times.
const TELL_EACH: u64 = 256;

/// The index of the tar that an input gives.
pub(super) fn tar(
    input: impl Input,
    mut summary: Summary,
    max_bytes: u64,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Index> {
    let path = input.path().to_path_buf();
    let mut walk = Walk::new(input);
    let mut builder = Builder::new(max_bytes);
    let mut members = 0_u64;
    while let Some(entry) = walk.next()? {
        let seen = Seen {
            key: &entry.key,
            kind: entry.kind,
            mode: entry.mode,
            mtime_ns: entry.mtime_ns,
            owner: entry.owner,
            len: entry.len,
            stored_len: entry.stored_len,
            header_at: entry.header_at,
            data_at: entry.data_at,
            method: Method::Stored,
            crc32: None,
            extents: entry.extents.as_deref(),
            link: &entry.link,
        };
        builder.push(&seen).map_err(|fault| fault.of(&path, 0))?;
        members = members.saturating_add(1);
        if members.is_multiple_of(TELL_EACH) && !progress(walk.input().position()) {
            return Err(Error::Interrupted);
        }
    }
    summary.has_end = walk.has_end();
    builder.finish(summary).map_err(|fault| fault.of(&path, 0))
}
