//! Reading many bodies of a tree in one pass: options, what arrives, and the pass that any tree can
//! make.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::any::Tree;
use super::node::NodeId;
use crate::engine::EngineFactory;
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::{AccessRule, Session, SessionOptions, Source};

/// How many bodies are read at once.
#[derive(Debug, Clone, Copy)]
pub struct GatherOptions {
    /// How the session reads.
    pub session: SessionOptions,
    /// Past the page cache or through it.
    pub access: AccessRule,
    /// A body of up to so many bytes arrives whole, a longer one in pieces of this length. At
    /// least 1.
    pub piece_bytes: u64,
    /// What is being read, or read and not delivered, in bytes: no more is begun above it. One
    /// piece is under way in any case.
    pub memory_bytes: u64,
}

impl Default for GatherOptions {
    /// Pieces of 8 MiB, 64 MiB under way.
    fn default() -> Self {
        Self {
            session: SessionOptions::default(),
            access: AccessRule::Auto,
            piece_bytes: 8 << 20,
            memory_bytes: 64 << 20,
        }
    }
}

/// A body, or a piece of a long one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyPiece {
    /// Where it begins in the body.
    pub offset: u64,
    /// The length of the whole body in bytes.
    pub body_len: u64,
    /// The bytes. Only an empty body has a piece without any.
    pub bytes: Bytes,
}

impl BodyPiece {
    /// Whether it is all of the body.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.body_len
    }
}

/// What arrives while many bodies are read.
#[derive(Debug)]
pub struct Gathered {
    /// Which of the ids that were asked for: its position among them.
    pub index: usize,
    /// That id.
    pub id: NodeId,
    /// The pieces of a body arrive in any order, each once. An error arrives once and is the last
    /// that arrives of a body.
    pub result: Result<BodyPiece>,
}

/// Takes what arrives; `Break` ends the pass.
pub type Deliver<'a> = dyn FnMut(Gathered) -> ControlFlow<()> + 'a;

/// A pass over a tree that opens each body by itself and reads it through one session.
pub(crate) fn gather_by_session<T: Tree + ?Sized>(
    tree: &T,
    ids: &[NodeId],
    factory: &dyn EngineFactory,
    options: &GatherOptions,
    deliver: &mut Deliver<'_>,
) -> Result<()> {
    let mut order: Vec<(u64, usize)> =
        ids.iter().enumerate().map(|(index, &id)| (tree.medium_order(id), index)).collect();
    order.sort_unstable();
    let pass = Pass {
        tree,
        ids,
        options,
        session: Session::new(factory, options.session)?,
        order: order.into_iter(),
        current: None,
        pieces: HashMap::new(),
        next_token: 0,
        under_way: 0,
    };
    pass.run(deliver);
    Ok(())
}

/// A body that is being read.
#[derive(Debug)]
struct Body {
    index: usize,
    id: NodeId,
    source: Arc<dyn Source>,
    /// Whether its error was delivered.
    failed: Cell<bool>,
}

impl Body {
    /// What came of a range: its bytes, if the source still is what it was.
    fn checked(&self, range: ByteRange, read: Result<Bytes>) -> Result<Bytes> {
        if self.source.checks_reads() {
            return read;
        }
        match (read, self.source.check_ranges(&[range])) {
            // That the source has changed explains whatever else was met.
            (_, Err(changed @ Error::SourceChanged { .. })) | (Ok(_), Err(changed)) => Err(changed),
            (read, _) => read,
        }
    }

    fn failure(&self, error: Error) -> Gathered {
        self.failed.set(true);
        Gathered { index: self.index, id: self.id, result: Err(error) }
    }
}

#[derive(Debug)]
struct Piece {
    body: Rc<Body>,
    range: ByteRange,
}

struct Pass<'a, T: ?Sized> {
    tree: &'a T,
    ids: &'a [NodeId],
    options: &'a GatherOptions,
    session: Session,
    /// Positions in `ids`, in the order of the medium.
    order: std::vec::IntoIter<(u64, usize)>,
    /// The body whose pieces are being asked for, and the offset of the next.
    current: Option<(Rc<Body>, u64)>,
    /// Pieces under way, by the token of the session.
    pieces: HashMap<u64, Piece>,
    next_token: u64,
    /// Their bytes.
    under_way: u64,
}

impl<T: Tree + ?Sized> Pass<'_, T> {
    fn run(mut self, deliver: &mut Deliver<'_>) {
        loop {
            while self.has_room() {
                let Some(begun) = self.begin_piece() else { break };
                if let Err(failure) = begun
                    && deliver(failure).is_break()
                {
                    return;
                }
            }
            let Some((token, read)) = self.session.next() else { return };
            if let Some(gathered) = self.take(token, read)
                && deliver(gathered).is_break()
            {
                return;
            }
        }
    }

    fn piece_len(&self) -> u64 {
        self.options.piece_bytes.max(1)
    }

    /// Whether another piece, however long, may be begun.
    fn has_room(&self) -> bool {
        let most = self.under_way.saturating_add(self.piece_len());
        self.pieces.is_empty() || (!self.session.is_full() && most <= self.options.memory_bytes)
    }

    /// Asks for the next piece; `None` when nothing is left to be asked for.
    fn begin_piece(&mut self) -> Option<Result<(), Gathered>> {
        let (body, at) = loop {
            match self.current.take() {
                Some((body, _)) if body.failed.get() => {}
                Some(current) => break current,
                None => match self.open_next()? {
                    Ok(body) => self.current = Some((Rc::new(body), 0)),
                    Err(failure) => return Some(Err(failure)),
                },
            }
        };
        let len = body.source.len();
        let end = at.saturating_add(self.piece_len()).min(len);
        // What is open does not change its length, so that the offset is never behind its end.
        let range = ByteRange::new(at, end)?;
        let access = self.options.access.decide(&*body.source, range);
        let token = self.next_token;
        if let Err(error) = self.session.submit(token, &*body.source, range, access) {
            return Some(Err(body.failure(error)));
        }
        self.next_token += 1;
        self.under_way += range.len();
        if end < len {
            self.current = Some((Rc::clone(&body), end));
        }
        self.pieces.insert(token, Piece { body, range });
        Some(Ok(()))
    }

    fn open_next(&mut self) -> Option<Result<Body, Gathered>> {
        let (_, index) = self.order.next()?;
        let id = *self.ids.get(index)?;
        Some(match self.tree.open(id) {
            Ok(source) => Ok(Body { index, id, source, failed: Cell::new(false) }),
            Err(error) => Err(Gathered { index, id, result: Err(error) }),
        })
    }

    /// What is delivered of what the session read; nothing of a body that has failed.
    fn take(&mut self, token: u64, read: Result<Bytes>) -> Option<Gathered> {
        let Piece { body, range } = self.pieces.remove(&token)?;
        self.under_way -= range.len();
        if body.failed.get() {
            return None;
        }
        Some(match body.checked(range, read) {
            Ok(bytes) => {
                let piece = BodyPiece { offset: range.start(), body_len: body.source.len(), bytes };
                Gathered { index: body.index, id: body.id, result: Ok(piece) }
            }
            Err(error) => body.failure(error),
        })
    }
}
