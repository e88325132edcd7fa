//! [`Afs`]: the files of a tree as an AFS, of which nothing is read before it is asked for.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::bodies::Bodies;
use super::error::{Error, Result};
use super::file::{Parts, VirtualFile, no_part};
use super::layout::{Laid, Layout};
use super::members::Members;
use super::pieces::Pieces;
use crate::error;
use crate::format::afs::{ALIGNMENT, Detail};
use crate::format::{Fault, afs};
use crate::source::Source;

/// An AFS. Its members are the files in the order of their paths, which are their names. It has no
/// directories and no links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Afs {
    /// Names and times are left out: members have numbers.
    pub without_names: bool,
}

impl Layout for Afs {
    fn ending(&self) -> &'static str {
        "afs"
    }

    fn lay_out(&self, path: PathBuf, mut members: Members) -> Result<Laid> {
        members.settle(false)?;
        members.keep_files()?;
        let count = members.count()?;
        let lens: Vec<Option<u64>> = members.all().iter().map(|member| Some(member.len)).collect();
        let refused = |fault: Fault| Error::Member { key: Vec::new(), why: fault.to_string() };
        let layout = afs::Layout::new(&lens, !self.without_names).map_err(refused)?;
        let mut pieces = Pieces::new();
        pieces.bytes(layout.head().into());
        let mut starts = Vec::new();
        for (number, (member, place)) in (0..count).zip(members.all().iter().zip(layout.places())) {
            starts.push(place.map_or(pieces.len(), |place| place.start()));
            pieces.whole_body(number, member.len);
            pieces.fill(0, padding(pieces.len()));
        }
        if layout.details().is_some() {
            let details = members.all().iter().map(detail).collect::<Result<Vec<_>>>()?;
            pieces.bytes(layout.encode_details(&details).map_err(refused)?.into());
        }
        let members = Arc::new(members);
        let parts = Arc::new(Bodied(members.clone()));
        let file = VirtualFile::new(path, pieces, parts)?;
        Ok(Laid { file, members, starts: starts.into() })
    }
}

/// What fills up to where the next member begins.
fn padding(len: u64) -> u64 {
    len.checked_next_multiple_of(ALIGNMENT).unwrap_or(len).saturating_sub(len)
}

fn detail(member: &super::Member) -> Result<Detail> {
    let len = u32::try_from(member.len).unwrap_or(u32::MAX);
    Detail::new(&member.key, member.mtime_ns, len)
        .map_err(|fault| Error::Member { key: member.key.to_vec(), why: fault.to_string() })
}

/// Members of which nothing is computed.
#[derive(Debug)]
pub(super) struct Bodied(pub(super) Arc<Members>);

impl Parts for Bodied {
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        self.0.open(number)
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> error::Result<Bytes> {
        Err(no_part(number))
    }
}
