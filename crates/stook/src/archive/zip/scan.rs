//! One pass over the directory of a zip, into an index.

use std::sync::Arc;

use super::super::ends::look;
use super::super::error::{Error, Fault, Result};
use super::super::index::{Builder, Index, Seen, Summary};
use super::super::input::{Input, SourceInput};
use super::super::member::{MemberKind, key_of};
use super::directory::{
    END_LEN_MAX, END64_LEN, ENTRY_LEN, End, Entry, Fixed, LOCATOR_LEN, check_places, end64, entry, find_end,
};
use crate::engine::{Access, EngineFactory};
use crate::extent::ByteRange;
use crate::source::Source;
use crate::tree::Node;

/// Members between two reports of progress.
const PROGRESS_EVERY: u64 = 256;

/// Where the directory of a zip is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Directory {
    end: End,
    /// Where it begins in the file, and the zip itself.
    at: u64,
    base: u64,
}

/// Looks for the directory of a zip at the end of a source; `None` if there is no such end.
pub(in super::super) fn find(source: &dyn Source, engines: &dyn EngineFactory) -> Result<Option<Directory>> {
    let fault = |fault: Fault, at| fault.of(source.path(), at);
    let len = source.len();
    let tail_at = len.saturating_sub(END_LEN_MAX as u64);
    let tail = look(source, ByteRange::new(tail_at, len).unwrap_or_default(), engines)?;
    let Some((at, end, wide)) = find_end(&tail).map_err(|found| fault(found, tail_at))? else {
        return Ok(None);
    };
    let end_at = tail_at.saturating_add(at as u64);
    let Some(wide) = wide else { return place(source, end, end_at).map(Some) };
    // Data before the zip moves it, which the locator does not reflect: it is usually directly
    // before the locator.
    let before = end_at.saturating_sub((LOCATOR_LEN + END64_LEN) as u64);
    for at in [before, wide] {
        let range = ByteRange::at(at, END64_LEN as u64).filter(|range| range.end() <= end_at);
        if let Some(range) = range
            && let Ok(end) = end64(&look(source, range, engines)?)
        {
            return place(source, end, at).map(Some);
        }
    }
    Err(fault(Fault::damaged(0, "the end of the directory (zip64) is not where it should be"), wide))
}

/// Data before the zip moves all of it.
fn place(source: &dyn Source, end: End, end_at: u64) -> Result<Directory> {
    let base = end.base(end_at).map_err(|fault| fault.of(source.path(), 0))?;
    Ok(Directory { end, at: base.saturating_add(end.at), base })
}

/// The index of a zip.
pub(in super::super) fn index(
    source: &Arc<dyn Source>,
    directory: Directory,
    engines: &dyn EngineFactory,
    summary: Summary,
    max_bytes: u64,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Index> {
    let path = source.path().to_path_buf();
    let to = directory.at.saturating_add(directory.end.len);
    // It ends before the end of the zip does.
    let range = ByteRange::new(directory.at, to.min(source.len())).unwrap_or_default();
    let mut input = SourceInput::within(Arc::clone(source), range, engines, Access::Cached)?;
    let mut builder = Builder::new(max_bytes);
    let mut places = Vec::new();
    let mut count = 0_u64;
    while input.position() < to {
        let at = input.position();
        let entry = next(&mut input, to).map_err(|met| met.into_error(&path, at))?;
        let start = directory.base.saturating_add(entry.at);
        places.push((start, start.saturating_add(entry.least_len())));
        push(&mut builder, &entry, start).map_err(|fault| fault.of(&path, at))?;
        count = count.saturating_add(1);
        if count.is_multiple_of(PROGRESS_EVERY) && !progress(at) {
            return Err(Error::Interrupted);
        }
    }
    directory.end.check_count(count).map_err(|fault| fault.of(&path, to))?;
    check_places(places, directory.at).map_err(|fault| fault.of(&path, 0))?;
    builder.finish(summary).map_err(|fault| fault.of(&path, 0))
}

/// What kept an entry from being read.
enum Met {
    Fault(Fault),
    Error(Error),
}

impl Met {
    fn into_error(self, path: &std::path::Path, at: u64) -> Error {
        match self {
            Self::Fault(fault) => fault.of(path, at),
            Self::Error(error) => error,
        }
    }
}

fn next(input: &mut impl Input, to: u64) -> Result<Entry, Met> {
    let cut = || Met::Fault(Fault::damaged(0, "an entry of the directory reaches past its end"));
    let mut fixed = [0; ENTRY_LEN];
    if input.read(&mut fixed).map_err(Met::Error)? < ENTRY_LEN {
        return Err(cut());
    }
    let fixed = Fixed::decode(&fixed).map_err(Met::Fault)?;
    let (name_len, extra_len, comment_len) = fixed.lens();
    let mut texts = vec![0; name_len.saturating_add(extra_len)];
    let got = input.read(&mut texts).map_err(Met::Error)?;
    let skipped = input.skip(comment_len as u64).map_err(Met::Error)?;
    if got < texts.len() || skipped < comment_len as u64 || input.position() > to {
        return Err(cut());
    }
    let (name, extra) = texts.split_at(name_len);
    entry(&fixed, name, extra).map_err(Met::Fault)
}

fn push(builder: &mut Builder, entry: &Entry, start: u64) -> Result<(), Fault> {
    let key = key_of(&entry.name).map_err(|what| Fault::damaged(0, what))?;
    if key.contains(&0) {
        return Err(Fault::damaged(0, "a name has a zero byte"));
    }
    let node = Node {
        mode: entry.mode,
        mtime_ns: entry.mtime_ns,
        owner: entry.owner,
        len: if entry.kind == MemberKind::Directory { 0 } else { entry.len },
        ..Node::new(entry.kind.in_tree())
    };
    builder.push(&Seen {
        key: &key,
        node,
        is_hard_link: entry.kind == MemberKind::HardLink,
        is_refused: entry.is_refused,
        stored_len: entry.stored_len,
        header_at: start,
        data_at: start,
        method: entry.method,
        crc32: Some(entry.crc32),
        extents: None,
        link: b"",
        xattrs: b"",
    })
}
