//! A layout of one's own: the files at the top of a directory as a Unix archive (`ar`), of which
//! nothing is read before it is asked for. `docs/guide/layouts.md` explains it.
//!
//! `cargo run --example ar -- DIR > x.a; ar tv x.a`

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use stook::format::MemberKind;
use stook::source::Source;
use stook::stitch::{
    Bodies, Error as StitchError, Laid, Layout, Member, Members, Parts, Pieces, VirtualFile,
};
use stook::walk::DirectoryTree;

/// What every archive begins with.
const MAGIC: &[u8] = b"!<arch>\n";
/// What a header takes.
const HEADER_BYTES: u64 = 60;

/// A Unix archive, with names of 15 bytes at most.
#[derive(Debug)]
pub(crate) struct Ar;

impl Layout for Ar {
    fn ending(&self) -> &'static str {
        "a"
    }

    fn lay_out(&self, path: PathBuf, mut members: Members) -> Result<Laid, StitchError> {
        members.keep(|member| member.kind == MemberKind::File && !member.key.contains(&b'/'));
        members.settle(false)?;
        let (mut pieces, mut starts) = (Pieces::new(), Vec::new());
        pieces.bytes(Bytes::from_static(MAGIC));
        for (number, member) in (0..members.count()?).zip(members.all()) {
            if header(member).len() as u64 != HEADER_BYTES {
                let why = "its name or its length has no room in a Unix archive".to_owned();
                return Err(StitchError::Member { key: member.key.to_vec(), why });
            }
            pieces.made(number, HEADER_BYTES);
            starts.push(pieces.len());
            pieces.whole_body(number, member.len);
            pieces.fill(b'\n', member.len % 2);
        }
        let members = Arc::new(members);
        let file = VirtualFile::new(path, pieces, Arc::new(ArParts(members.clone())))?;
        Ok(Laid { file, members, starts: starts.into() })
    }
}

/// The header of a member: each field has its width, unless it has no room there.
fn header(member: &Member) -> Vec<u8> {
    let mut name = member.key.to_vec();
    name.push(b'/');
    name.resize(name.len().max(16), b' ');
    let (seconds, (user, group)) = (member.mtime_ns.max(0) / 1_000_000_000, member.owner.unwrap_or((0, 0)));
    let mode = 0o100_000 | member.mode;
    let rest = format!("{seconds:<12}{user:<6}{group:<6}{mode:<8o}{:<10}`\n", member.len);
    [name, rest.into_bytes()].concat()
}

/// Where the bytes come from: headers are computed, and bodies are opened, when they are read.
#[derive(Debug)]
struct ArParts(Arc<Members>);

impl Parts for ArParts {
    fn open(&self, number: u32) -> stook::error::Result<Arc<dyn Source>> {
        self.0.open(number)
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> stook::error::Result<Bytes> {
        Ok(self.0.all().get(number as usize).map(header).unwrap_or_default().into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: ar DIR > x.a")?;
    let mut members = Members::new();
    members.add_tree(Arc::new(DirectoryTree::open(directory)?), true, b"", &mut |_| true)?;
    let laid = Ar.lay_out("x.a".into(), members)?;
    let mut output = std::io::stdout().lock();
    laid.file.read_through(&mut |bytes| {
        output.write_all(bytes).map_err(|error| stook::error::Error::io("write", "stdout", error))?;
        Ok(true)
    })?;
    Ok(())
}
