//! Many bodies of a pack in one pass: what is short and side by side is one read.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::RecordTree;
use crate::extent::ByteRange;
use crate::pack::error::Result;
use crate::pack::key::Key;
use crate::pack::read::gather::GAP_CACHED;
use crate::pack::state::snapshot::Found;
use crate::plan::merged_whole;
use crate::source::Source;
use crate::tree::{GatherOptions, Kind, Next, NodeId, Span, Supply, Tree as _, not_a_file};

/// Records that are looked up together.
const BATCH_LEN: usize = 4096;

/// The longest span, in bytes: one read of a session.
const SPAN_LEN_MAX: u64 = 1 << 20;

/// A file, and where its record is.
pub(super) struct Located {
    /// Its position among the ids.
    index: usize,
    key: Key,
    found: Found,
}

/// Gives a pass the records in the order of the medium.
pub(super) struct RecordSupply<'a> {
    tree: &'a RecordTree,
    ids: &'a [NodeId],
    /// Positions in `ids`, in the order of the medium.
    order: std::vec::IntoIter<usize>,
    /// Those of them that were looked up.
    located: VecDeque<Located>,
    /// Those that cannot be read, and why.
    failed: VecDeque<(usize, crate::Error)>,
    /// Those that are read by themselves, because a span of theirs could not be read.
    apart: VecDeque<Located>,
    span_len_max: u64,
}

impl<'a> RecordSupply<'a> {
    pub(super) fn new(tree: &'a RecordTree, ids: &'a [NodeId], options: &GatherOptions) -> Self {
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by_key(|&index| ids.get(index));
        Self {
            tree,
            ids,
            order: order.into_iter(),
            located: VecDeque::new(),
            failed: VecDeque::new(),
            apart: VecDeque::new(),
            span_len_max: SPAN_LEN_MAX.min(options.piece_bytes),
        }
    }

    /// Looks up the next ones; `false` where there are none.
    fn locate(&mut self) -> bool {
        let (mut indexes, mut keys) = (Vec::new(), Vec::new());
        let batch: Vec<usize> = self.order.by_ref().take(BATCH_LEN).collect();
        let is_last = batch.is_empty();
        for index in batch {
            match self.ids.get(index).map(|&id| self.key_of_file(id)) {
                Some(Ok(key)) => {
                    indexes.push(index);
                    keys.push(key);
                }
                Some(Err(error)) => self.failed.push_back((index, error)),
                None => {}
            }
        }
        // What goes wrong here goes wrong again for those that it concerns, and is reported for
        // each.
        drop(self.tree.pack.read_pages_for(&keys));
        for (index, key) in indexes.into_iter().zip(keys) {
            match self.find(index, &key) {
                Ok(found) => self.located.push_back(Located { index, key, found }),
                Err(error) => self.failed.push_back((index, error)),
            }
        }
        let by_place = self.located.make_contiguous();
        by_place.sort_by_key(|one| (one.found.segment, one.found.place.offset));
        !is_last
    }

    fn key_of_file(&self, id: NodeId) -> crate::Result<Key> {
        match self.tree.node(id)?.kind {
            Kind::File => self.tree.known_key(id),
            kind => Err(not_a_file(kind, self.tree.path_of(id))),
        }
    }

    fn find(&self, index: usize, key: &Key) -> crate::Result<Found> {
        let id = self.id_at(index);
        let found = self.tree.pack.find(key).map_err(|error| self.tree.error(id, error))?;
        let gone = || crate::Error::io("open", self.tree.path_of(id), io::ErrorKind::NotFound.into());
        found.ok_or_else(gone)
    }

    fn id_at(&self, index: usize) -> NodeId {
        self.ids.get(index).copied().unwrap_or(self.tree.root())
    }

    fn by_itself(&self, one: &Located) -> Next<Located> {
        match self.tree.pack.record_source(&one.key, one.found) {
            Ok(source) => Next::Body(one.index, Arc::new(source)),
            Err(error) => Next::Failed(one.index, self.tree.error(self.id_at(one.index), error.of(&one.key))),
        }
    }

    /// The segment of a record and where its frame is in it, if it is short.
    fn short(&self, one: &Located) -> Option<(&'a Arc<dyn Source>, ByteRange)> {
        let tree: &'a RecordTree = self.tree;
        let segment = tree.pack.snapshot.segments.get(one.found.segment)?;
        one.found.place.len.filter(|&len| len <= self.span_len_max)?;
        Some((&segment.source, one.found.place.range_to(segment.frames_end)))
    }

    /// A record with all that follow it closely.
    fn span(&mut self, first: Located) -> Next<Located> {
        let Some((source, mut range)) = self.short(&first) else { return self.by_itself(&first) };
        let segment = first.found.segment;
        let mut parts = vec![first];
        while let Some(next) = self.located.front() {
            let Some((_, frame)) = self.short(next).filter(|_| next.found.segment == segment) else { break };
            let wider = merged_whole(range, frame, GAP_CACHED, self.span_len_max);
            let Some(wider) = wider else { break };
            range = wider;
            parts.extend(self.located.pop_front());
        }
        Next::Span(Span { source: Arc::clone(source), range, parts })
    }

    /// The body of a record in the bytes of its span, verified.
    fn body(&self, one: &Located, range: ByteRange, read: &Bytes) -> Result<Bytes> {
        let pack = &self.tree.pack;
        let Some(segment) = pack.snapshot.segments.get(one.found.segment) else { return Ok(Bytes::new()) };
        let frame = one.found.place.range_to(segment.frames_end);
        // The frame is in the span.
        let from = frame.start().saturating_sub(range.start()) as usize;
        let to = from.saturating_add(frame.len() as usize).min(read.len());
        let record = segment.record_in(one.found.place, &read.slice(from.min(to)..to), &pack.reader)?;
        match record.head.key == one.key {
            true => Ok(record.body),
            false => Err(pack.misplaced(&one.key, &record)),
        }
    }
}

impl Supply for RecordSupply<'_> {
    type Part = Located;

    fn next(&mut self) -> Option<Next<Located>> {
        loop {
            if let Some(one) = self.apart.pop_front() {
                return Some(self.by_itself(&one));
            }
            if let Some((index, error)) = self.failed.pop_front() {
                return Some(Next::Failed(index, error));
            }
            if let Some(first) = self.located.pop_front() {
                return Some(self.span(first));
            }
            if !self.locate() {
                return None;
            }
        }
    }

    fn take(&mut self, span: Span<Located>, read: &Bytes) -> Vec<(usize, crate::Result<Bytes>)> {
        let body = |one: &Located| {
            let body = self.body(one, span.range, read).map_err(|error| error.of(&one.key));
            (one.index, body.map_err(|error| self.tree.error(self.id_at(one.index), error)))
        };
        span.parts.iter().map(body).collect()
    }

    fn take_apart(&mut self, span: Span<Located>) {
        self.apart.extend(span.parts);
    }
}
