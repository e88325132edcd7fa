//! Large files that the system copies without their bytes passing through here: they share the
//! blocks of their source, or its server copies them. Whatever it cannot do is read and written.

use std::sync::Arc;

use super::decide::Place;
use super::destination::{Receiver, Way};
use super::finish::{Written, new_file};
use super::lane::blocks;
use super::reopening::Opened;
use super::run::Run;
use super::throttle::quantum;
use crate::engine::{self, Access, Engine, Operation, OperationKind, Request};
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::{Leaf, Source};
use crate::tree::Holes;
use crate::tree::durable::identity;
use crate::tree::outbox::OutFile;

/// Bytes that a server is asked to copy at once. Between two requests a copy can be stopped.
const PIECE_BYTES: u64 = 64 << 20;

impl Run<'_> {
    /// Has the system copy a file to a destination; whether it did, or that has failed for good.
    pub(super) fn copy_by_system(&self, index: usize, place: &Place, opened: &Opened, holes: &Holes) -> bool {
        let Some(receiver) = self.receivers.get(index).filter(|_| place.compared.is_none()) else {
            return false;
        };
        let Some(from) = whole_file(&*opened.source) else { return false };
        let sharing = Sharing { run: self, receiver, place, opened, from, holes };
        [OperationKind::CloneRange, OperationKind::CopyRange].into_iter().any(|way| sharing.make(way))
    }
}

/// A file that the system is to copy.
struct Sharing<'a, 'r> {
    run: &'a Run<'r>,
    receiver: &'a Receiver,
    place: &'a Place,
    opened: &'a Opened,
    from: Arc<engine::File>,
    holes: &'a Holes,
}

impl Sharing<'_, '_> {
    /// Copies it in one of the ways; whether no other has to be tried.
    fn make(&self, way: OperationKind) -> bool {
        if !self.may_do(way) {
            return false;
        }
        let Self { receiver, place, opened, .. } = self;
        let (key, len) = (&place.job.key, place.job.node.len);
        let metadata = receiver.metadata(&place.job.node, opened.xattrs.clone());
        let made = receiver.new_file(&place.spot.parent, new_file(&metadata, place.plan));
        let made = made.and_then(|file| Ok((file.for_engine(&receiver.path_of(key))?, file)));
        let (out, file) = match made {
            Ok((out, file)) => (Arc::new(out), file),
            Err(error) => {
                receiver.fail_io("create", key, error);
                return true;
            }
        };
        let mut counted = 0;
        let copied = self.copy(way, &out, &file, &mut counted);
        // File systems have cloned and copied too little, and said nothing.
        let is_whole = copied.and_then(|is_whole| {
            opened.source.check_unchanged()?;
            Ok(is_whole && out.len()? == len)
        });
        if matches!(is_whole, Ok(true)) {
            receiver.add_bytes(len.saturating_sub(counted));
            receiver.forget_partial(&place.job, &place.spot);
            let way = if way == OperationKind::CloneRange { Way::Cloned } else { Way::CopiedByServer };
            receiver.finish(Written {
                place: (*place).clone(),
                file,
                metadata,
                digests: Arc::default(),
                proof: None,
                way,
            });
            return true;
        }
        receiver.take_back(counted);
        if let Err(error) = file.discard() {
            receiver.fail_io("remove the unfinished", key, error);
            return true;
        }
        // Not between these two file systems. A changed source is read again; whatever else it was,
        // reading and writing says it.
        if matches!(is_whole, Err(Error::Unsupported { .. })) {
            self.refuse(way);
        }
        false
    }

    /// Whether a way is worth to be tried: until it is refused, and a copy by the system only where
    /// it is one by the server of both. Elsewhere it goes through the page cache, one block after
    /// another, which takes longer than to read and write past it at depth.
    fn may_do(&self, way: OperationKind) -> bool {
        let device = self.opened.source.identity().device;
        let is_refused = self.receiver.state().refused.contains(&(device, way));
        if is_refused {
            return false;
        }
        let parent = &self.place.spot.parent;
        let is_worth = way == OperationKind::CloneRange
            || identity(parent).is_ok_and(|(own, _)| own == device) && self.receiver.copies_on_server(parent);
        if !is_worth {
            self.refuse(way);
        }
        is_worth
    }

    fn refuse(&self, way: OperationKind) {
        let device = self.opened.source.identity().device;
        self.receiver.state().refused.insert((device, way));
    }

    /// Whether all of it was copied. `counted` bytes are counted as written then.
    fn copy(
        &self,
        way: OperationKind,
        out: &Arc<engine::File>,
        file: &OutFile,
        counted: &mut u64,
    ) -> Result<bool> {
        let len = self.place.job.node.len;
        let mut engine = self.receiver.factory.build(1)?;
        if way == OperationKind::CloneRange {
            let (from, range) = (self.from.clone(), ByteRange::to(len));
            let operation = Operation::CloneRange { from, range, offset: 0 };
            return Ok(operate(&mut *engine, out, operation)? == len);
        }
        let mut end = 0;
        let piece = self.run.options.bytes_per_s.map_or(PIECE_BYTES, quantum);
        for (range, _) in blocks(self.holes, 0, len, piece).filter(|(_, is_hole)| !is_hole) {
            let is_stopped = || self.run.is_stopped() || self.receiver.is_stopped();
            self.run.throttle(range.len(), 1);
            let (from, offset) = (self.from.clone(), range.start());
            let operation = Operation::CopyRange { from, range, offset };
            if is_stopped() || operate(&mut *engine, out, operation)? != range.len() {
                return Ok(false);
            }
            self.receiver.add_bytes(range.len());
            *counted += range.len();
            end = range.end();
        }
        if out.len()? != end {
            return Ok(false);
        }
        // A hole at the end is not copied.
        let failed = |error| self.receiver.io("set the length of", &self.place.job.key, error);
        file.set_len(len).map_err(failed)?;
        Ok(true)
    }
}

/// Makes one operation: how many bytes it was about.
fn operate(engine: &mut dyn Engine, out: &Arc<engine::File>, operation: Operation) -> Result<u64> {
    engine.submit(Request { token: 0, file: out.clone(), access: Access::Cached, operation });
    let mut completions = Vec::with_capacity(1);
    engine.reap(1, &mut completions)?;
    let none = || Error::io("copy into", out.path(), std::io::Error::other("the engine gave no answer"));
    completions.pop().ok_or_else(none)?.result.map(|bytes| bytes as u64)
}

/// The file that a source is all of.
pub(super) fn whole_file(source: &dyn Source) -> Option<Arc<engine::File>> {
    let mut leaves = Vec::with_capacity(1);
    source.resolve(ByteRange::to(source.len()), &mut leaves).ok()?;
    match leaves.as_slice() {
        [Leaf::File { file, range }] if range.start() == 0 => Some(file.clone()),
        _ => None,
    }
}
