//! Many members of an archive in one pass: of a zip, whose bodies follow headers and are
//! compressed; of a compressed tar; and of sources with requests, where one request fetches many.

use std::io;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::ArchiveTree;
use crate::archive::error::{Error, Result};
use crate::archive::reading::{Reading, ReadingOptions};
use crate::engine::EngineFactory;
use crate::error::chain;
use crate::tree::{BodyPiece, Deliver, GatherOptions, Gathered, NodeId, Tree as _};

/// Memory that is taken for a piece before its bytes are there.
const RESERVED_MAX: u64 = 8 << 20;

/// A requested id: its offset, the id, and its position in the request.
type Asked = (u64, NodeId, usize);

/// As [`Tree::gather`](crate::tree::Tree::gather).
pub(super) fn gather(
    tree: &ArchiveTree,
    ids: &[NodeId],
    factory: &dyn EngineFactory,
    options: &GatherOptions,
    deliver: &mut Deliver<'_>,
) -> crate::Result<()> {
    let place = |(index, &id): (usize, &NodeId)| (tree.medium_order(id), id, index);
    let mut order: Vec<Asked> = ids.iter().enumerate().map(place).collect();
    order.sort_unstable();
    let mut pass = Pass { tree, options, deliver };
    let mut wanted = Vec::new();
    for asked in order.chunk_by(|one, next| one.1 == next.1) {
        let Some((_, id, _)) = asked.first() else { continue };
        match tree.file(*id) {
            Ok(member) => wanted.push((member.number, asked)),
            Err(error) => {
                if pass.fail(asked, error).is_break() {
                    return Ok(());
                }
            }
        }
    }
    // The rest of the memory is that of the piece that is filled.
    let memory = options.memory_bytes.saturating_sub(pass.piece_len());
    let reads = ReadingOptions::new(factory, options.access, memory);
    let mut rest = wanted.as_slice();
    // Repeats only if the read-ahead failed: at least one is done each time.
    while !rest.is_empty() {
        let numbers = rest.iter().map(|(number, _)| *number).collect();
        let mut reading = Reading::new(&tree.archive, numbers, reads)
            .map_err(|error| error.into_core(tree.archive.path()))?;
        while let [(_, asked), later @ ..] = rest {
            rest = later;
            let (went_on, is_broken) = pass.next_body(asked, &mut reading);
            if went_on.is_break() {
                return Ok(());
            }
            if is_broken {
                break;
            }
        }
    }
    Ok(())
}

struct Pass<'a, 'd> {
    tree: &'a ArchiveTree,
    options: &'a GatherOptions,
    deliver: &'a mut Deliver<'d>,
}

impl Pass<'_, '_> {
    fn piece_len(&self) -> u64 {
        self.options.piece_bytes.max(1)
    }

    /// Delivers the next body; and whether no other can come from this reading.
    fn next_body(&mut self, asked: &[Asked], reading: &mut Reading<'_>) -> (ControlFlow<()>, bool) {
        let read = match reading.next() {
            Ok(Some(member)) => self.body(asked, member.node.len, reading).map_err(|error| (error, false)),
            Ok(None) => {
                // As many arrive as were requested.
                let what = Error::Invalid("there is no such member to be read".into());
                Err((what, true))
            }
            Err(error) => Err((error, true)),
        };
        match read {
            Ok(went_on) => (went_on, false),
            Err((error, is_broken)) => {
                // What another state of the archive gave is no damage of this one.
                let error = self.tree.archive.check_unchanged().err().unwrap_or(error);
                let path = asked.first().map(|(_, id, _)| self.tree.path_of(*id)).unwrap_or_default();
                (self.fail(asked, error.into_core(&path)), is_broken)
            }
        }
    }

    /// Delivers the current body. A piece is delivered when more follow, the last one when all of
    /// them are verified.
    fn body(&mut self, asked: &[Asked], body_len: u64, reading: &mut Reading<'_>) -> Result<ControlFlow<()>> {
        let piece_len = self.piece_len();
        let (mut offset, mut held) = (0_u64, self.room(body_len));
        while let Some(mut bytes) = reading.chunk()? {
            while !bytes.is_empty() {
                if held.len() as u64 >= piece_len {
                    let room = self.room(body_len.saturating_sub(offset.saturating_add(piece_len)));
                    let piece =
                        BodyPiece { offset, body_len, bytes: std::mem::replace(&mut held, room).into() };
                    offset = offset.saturating_add(piece.bytes.len() as u64);
                    if self.piece(asked, &piece)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                let room = usize::try_from(piece_len.saturating_sub(held.len() as u64)).unwrap_or(usize::MAX);
                let (now, later) = bytes.split_at(room.min(bytes.len()));
                held.extend_from_slice(now);
                bytes = later;
            }
        }
        self.piece(asked, &BodyPiece { offset, body_len, bytes: held.into() })
    }

    /// Memory for the next piece of a body with this much left.
    fn room(&self, left: u64) -> Vec<u8> {
        let len = left.min(self.piece_len()).min(RESERVED_MAX);
        Vec::with_capacity(usize::try_from(len).unwrap_or_default())
    }

    /// Delivers a piece for every request of it, if the archive is unchanged.
    fn piece(&mut self, asked: &[Asked], piece: &BodyPiece) -> Result<ControlFlow<()>> {
        self.tree.archive.check_unchanged()?;
        for &(_, id, index) in asked {
            let bytes: Bytes = piece.bytes.clone();
            let result = Ok(BodyPiece { bytes, ..*piece });
            if (self.deliver)(Gathered { index, id, result }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Delivers an error for every request of a body; after the first, as a message.
    fn fail(&mut self, asked: &[Asked], error: crate::Error) -> ControlFlow<()> {
        let kind = error.io_kind().unwrap_or(io::ErrorKind::Other);
        let (what, mut first) = (chain(&error), Some(error));
        for &(_, id, index) in asked {
            let error = first.take().unwrap_or_else(|| {
                let what = io::Error::new(kind, what.clone());
                crate::Error::io("read", self.tree.path_of(id), what)
            });
            (self.deliver)(Gathered { index, id, result: Err(error) })?;
        }
        ControlFlow::Continue(())
    }
}
