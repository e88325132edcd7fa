//! [`Raw`]: files one after another, without anything between them.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::bodies::Bodies;
use super::error::Result;
use super::file::{Parts, VirtualFile, no_part};
use super::layout::{Laid, Layout};
use super::members::Members;
use super::pieces::Pieces;
use crate::error;
use crate::source::Source;

/// The bytes of files, one file after another: as `cat` writes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Raw;

impl Layout for Raw {
    fn ending(&self) -> &'static str {
        "raw"
    }

    /// In the order in which trees were added, and of each in the order of names.
    fn lay_out(&self, path: PathBuf, mut members: Members) -> Result<Laid> {
        members.keep_files()?;
        let (mut pieces, mut starts) = (Pieces::new(), Vec::new());
        for (number, member) in (0..members.count()?).zip(members.all()) {
            starts.push(pieces.len());
            pieces.whole_body(number, member.len);
        }
        let members = Arc::new(members);
        let file = VirtualFile::new(path, pieces, Arc::new(RawParts(members.clone())))?;
        Ok(Laid { file, members, starts: starts.into() })
    }
}

#[derive(Debug)]
struct RawParts(Arc<Members>);

impl Parts for RawParts {
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        self.0.open(number)
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> error::Result<Bytes> {
        Err(no_part(number))
    }
}
