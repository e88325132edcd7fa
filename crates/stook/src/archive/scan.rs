//! One pass over a tar, into an index.

use super::error::{Error, Result};
use super::index::{Builder, Index, Seen, Summary};
use super::input::Input;
use super::member::Method;
use super::tar::Walk;

/// Members between two reports of progress.
const PROGRESS_EVERY: u64 = 256;

/// Bytes after the end between two calls of `progress`.
const DRAINED_AT_ONCE: u64 = 16 << 20;

/// Indexes the tar in an input. With `partial`, what is wrong after the first member ends it, and
/// is returned, too.
pub(super) fn tar(
    input: impl Input,
    mut summary: Summary,
    max_bytes: u64,
    partial: bool,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(Index, Option<Error>)> {
    let path = input.path().to_path_buf();
    let mut walk = Walk::new(input);
    let mut builder = Builder::new(max_bytes);
    let (mut members, mut damage) = (0_u64, None);
    loop {
        let entry = match walk.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error @ (Error::Damaged { .. } | Error::Unsupported { .. })) if partial && members > 0 => {
                damage = Some(error);
                break;
            }
            Err(error) => return Err(error),
        };
        let xattrs = entry.xattrs.encode();
        let seen = Seen {
            key: &entry.key,
            node: entry.node,
            is_hard_link: entry.is_hard_link,
            is_refused: entry.is_refused,
            stored_len: entry.stored_len,
            header_at: entry.header_at,
            data_at: entry.data_at,
            method: Method::Stored,
            crc32: None,
            extents: entry.extents.as_deref(),
            link: &entry.link,
            xattrs: &xattrs,
        };
        builder.push(&seen).map_err(|fault| fault.of(&path, 0))?;
        members = members.saturating_add(1);
        if members.is_multiple_of(PROGRESS_EVERY) && !progress(walk.input().position()) {
            return Err(Error::Interrupted);
        }
    }
    summary.has_end = walk.has_end();
    if summary.format.is_sequential() {
        if members == 0 && !summary.has_end {
            return Err(Error::NotAnArchive { path, what: "what is compressed in it is no tar".into() });
        }
        drain(walk.input(), progress)?;
    }
    let index = builder.finish(summary).map_err(|fault| fault.of(&path, 0))?;
    Ok((index, damage))
}

/// Reads what follows the end, because the checksum of a compressed file is only there.
fn drain(input: &mut impl Input, progress: &mut dyn FnMut(u64) -> bool) -> Result<()> {
    while input.skip(DRAINED_AT_ONCE)? == DRAINED_AT_ONCE {
        if !progress(input.position()) {
            return Err(Error::Interrupted);
        }
    }
    Ok(())
}
