//! One member into a pack.

use std::cell::Cell;

use super::{Error, Import, Result};
use crate::archive::Piece;
use crate::pack::{Attributes, BodyComparison, FileKind, Key, PackWriter};
use crate::source::zeroes;

/// Bodies up to this length are put at once.
const WHOLE_MAX: u64 = 4 << 20;

/// A member on its way into a pack.
pub(super) struct Record<'a> {
    pub(super) key: &'a [u8],
    pub(super) kind: FileKind,
    pub(super) attributes: Attributes,
    pub(super) len: u64,
    pub(super) there: There,
    /// Of a hard link, the key of its file.
    pub(super) first: Option<&'a [u8]>,
}

/// What the pack holds under the key of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum There {
    Nothing,
    Other,
    /// Another file or link, which may be the only copy and is not replaced.
    Kept,
    /// A record with the same attributes and length: whether its bytes are the same has to be seen.
    Alike,
}

/// Counts what was gone through, and asks whether to go on.
pub(super) struct Meter<'i, 'a> {
    import: &'i Import<'a>,
    members: Cell<u64>,
    bytes: Cell<u64>,
}

impl<'i, 'a> Meter<'i, 'a> {
    pub(super) fn new(import: &'i Import<'a>) -> Self {
        Self { import, members: Cell::new(0), bytes: Cell::new(0) }
    }

    /// Another member is through.
    pub(super) fn add_member(&self) {
        self.members.set(self.members.get() + 1);
    }

    fn add_bytes(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Whether the caller wants it to end.
    pub(super) fn is_stopped(&self) -> bool {
        !(self.import.progress)(self.members.get(), self.bytes.get())
    }

    fn check(&self) -> Result<()> {
        if self.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Gives the next piece of a body.
pub(super) type Body<'a> = dyn FnMut(&mut dyn FnMut(Piece<'_>) -> Result<()>) -> Result<bool> + 'a;

/// Puts a record, if there is a writer, unless its body is the same as another; whether it is not.
/// One that was interrupted never existed.
pub(super) fn put(
    writer: Option<&mut PackWriter>,
    group: &str,
    record: &Record<'_>,
    mut same: Option<BodyComparison<'_>>,
    body: &mut Body<'_>,
    meter: &Meter<'_, '_>,
) -> Result<bool> {
    let key = Key::bytes(record.key)?;
    let Some(writer) = writer else {
        let Some(mut same) = same else { return Ok(true) };
        pour(body, meter, &mut |bytes| {
            meter.add_bytes(bytes.len() as u64);
            Ok(same.take(bytes).map(drop)?)
        })?;
        return Ok(!same.finish()?);
    };
    if record.len <= WHOLE_MAX {
        let mut whole = Vec::new();
        pour(body, meter, &mut |bytes| {
            whole.extend_from_slice(bytes);
            Ok(())
        })?;
        meter.add_bytes(record.len);
        if let Some(mut same) = same
            && same.take(&whole)?
            && same.finish()?
        {
            return Ok(false);
        }
        writer.put(group, &key, &record.attributes, &whole)?;
        return Ok(true);
    }
    // Written while it is compared: of a stream nothing comes twice. Dropped, nothing of it stays.
    let mut long = writer.begin(group, &key, &record.attributes, Some(record.len))?;
    pour(body, meter, &mut |bytes| {
        if let Some(same) = &mut same {
            same.take(bytes)?;
        }
        long.write(bytes)?;
        meter.add_bytes(bytes.len() as u64);
        Ok(())
    })?;
    if let Some(same) = same
        && same.finish()?
    {
        return Ok(false);
    }
    long.finish()?;
    Ok(true)
}

/// Gives all bytes of a body, those of its holes as well, until the caller wants it to end.
fn pour(body: &mut Body<'_>, meter: &Meter<'_, '_>, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut watched = |bytes: &[u8]| {
        meter.check()?;
        take(bytes)
    };
    while body(&mut |piece| match piece {
        Piece::Bytes(bytes) => watched(bytes),
        Piece::Hole(mut len) => {
            while len > 0 {
                let now = zeroes(len);
                watched(now)?;
                len -= now.len() as u64;
            }
            Ok(())
        }
    })? {
        meter.check()?;
    }
    Ok(())
}
