//! Reading many bodies of a tree in one pass: options, what arrives, and the pass that any tree can
//! make.

use std::cell::Cell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::any::Tree;
use super::node::NodeId;
use crate::engine::EngineFactory;
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::profile::Profile;
use crate::source::{AccessRule, Session, SessionOptions, Source};

/// This many pieces are handed to the system at once, while those after them are still to be
/// opened.
const STARTED_AT_ONCE: usize = 4;

/// How many bodies are read at once.
#[derive(Debug, Clone, Copy)]
pub struct GatherOptions {
    /// How the session reads.
    pub session: SessionOptions,
    /// Past the page cache or through it.
    pub access: AccessRule,
    /// A body of up to this many bytes arrives whole, a longer one in pieces of this length. At
    /// least 1.
    pub piece_bytes: u64,
    /// What is being read, or read and not delivered, in bytes: no more is begun above it. One
    /// piece is under way in any case.
    pub memory_bytes: u64,
    /// Whether the pieces of each body arrive in order: for those who write them one after another.
    /// One that is early is held until it is its turn, and counts as being read.
    pub in_order: bool,
}

impl Default for GatherOptions {
    /// Pieces of 8 MiB, 64 MiB under way.
    fn default() -> Self {
        Self {
            session: SessionOptions::default(),
            access: AccessRule::Auto,
            piece_bytes: 8 << 20,
            memory_bytes: 64 << 20,
            in_order: false,
        }
    }
}

impl GatherOptions {
    /// The same, with as many reads at once and as long ones as a profile says.
    pub fn of(profile: &Profile) -> Self {
        Self { session: SessionOptions::of(profile), ..Self::default() }
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
    /// The pieces of a body arrive in any order (unless one was
    /// [asked for](GatherOptions::in_order)), each once. An error arrives once and is the last
    /// that arrives of a body.
    pub result: Result<BodyPiece>,
}

/// Takes what arrives; `Break` ends the pass.
pub type Deliver<'a> = dyn FnMut(Gathered) -> ControlFlow<()> + 'a;

/// What a pass reads next.
pub(crate) enum Next<P> {
    /// A body by itself, in pieces where it is long: its position among the ids, and its bytes.
    Body(usize, Arc<dyn Source>),
    /// Short bodies that are neighbours in one source, read at once.
    Span(Span<P>),
    /// A body that cannot be read, and why.
    Failed(usize, Error),
}

/// Short bodies that are neighbours.
pub(crate) struct Span<P> {
    pub(crate) source: Arc<dyn Source>,
    /// All of them with what is between them: at most [`GatherOptions::piece_bytes`].
    pub(crate) range: ByteRange,
    /// What finds each of them in it.
    pub(crate) parts: Vec<P>,
}

/// Says what a pass reads, in the order in which it is begun.
pub(crate) trait Supply {
    /// What finds a body in a span.
    type Part;

    /// What comes next; `None` where nothing does, before another span is taken apart.
    fn next(&mut self) -> Option<Next<Self::Part>>;

    /// The bodies of a span that was read, verified, by their positions among the ids.
    fn take(&mut self, span: Span<Self::Part>, read: &Bytes) -> Vec<(usize, Result<Bytes>)>;

    /// A span cannot be read: its bodies come [next](Self::next), each by itself, which reports
    /// what is wrong with it.
    fn take_apart(&mut self, span: Span<Self::Part>);
}

/// Each body by itself, as the tree opens it.
struct EachByItself<'a, T: ?Sized> {
    tree: &'a T,
    ids: &'a [NodeId],
    /// Positions in `ids`, in the order of the medium.
    order: std::vec::IntoIter<usize>,
}

impl<T: Tree + ?Sized> Supply for EachByItself<'_, T> {
    /// It gives no spans.
    type Part = Infallible;

    fn next(&mut self) -> Option<Next<Infallible>> {
        let index = self.order.next()?;
        let id = *self.ids.get(index)?;
        Some(match self.tree.open(id) {
            Ok(source) => Next::Body(index, source),
            Err(error) => Next::Failed(index, error),
        })
    }

    fn take(&mut self, _: Span<Infallible>, _: &Bytes) -> Vec<(usize, Result<Bytes>)> {
        Vec::new()
    }

    fn take_apart(&mut self, _: Span<Infallible>) {}
}

/// A pass over a tree that opens each body by itself and reads it through one session.
pub(crate) fn gather_by_session<T: Tree + ?Sized>(
    tree: &T,
    ids: &[NodeId],
    factory: &dyn EngineFactory,
    options: &GatherOptions,
    deliver: &mut Deliver<'_>,
) -> Result<()> {
    let supply = EachByItself { tree, ids, order: in_medium_order(tree, ids).into_iter() };
    gather_supplied(supply, ids, factory, options, deliver)
}

/// The positions of ids in the order in which their bodies lie on the medium.
pub(crate) fn in_medium_order<T: Tree + ?Sized>(tree: &T, ids: &[NodeId]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_cached_key(|&index| ids.get(index).map(|&id| tree.medium_order(id)));
    order
}

/// A pass over what is supplied, through one session.
pub(crate) fn gather_supplied<S: Supply>(
    supply: S,
    ids: &[NodeId],
    factory: &dyn EngineFactory,
    options: &GatherOptions,
    deliver: &mut Deliver<'_>,
) -> Result<()> {
    let pass = Pass {
        supply,
        ids,
        options,
        session: Session::new(factory, options.session)?,
        current: None,
        pieces: HashMap::new(),
        next_token: 0,
        due: 0,
        early: HashMap::new(),
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

/// What is being read.
enum Piece<P> {
    Body(Rc<Body>, ByteRange),
    Span(Span<P>),
}

struct Pass<'a, S: Supply> {
    supply: S,
    ids: &'a [NodeId],
    options: &'a GatherOptions,
    session: Session,
    /// The body whose pieces are being asked for, and the offset of the next.
    current: Option<(Rc<Body>, u64)>,
    /// Pieces under way, by the token of the session.
    pieces: HashMap<u64, Piece<S::Part>>,
    next_token: u64,
    /// Where order counts: the token that is delivered next, and what came before its turn.
    due: u64,
    early: HashMap<u64, Result<Bytes>>,
    /// Their bytes.
    under_way: u64,
}

impl<S: Supply> Pass<'_, S> {
    fn run(mut self, deliver: &mut Deliver<'_>) {
        let mut begun_since = 0;
        loop {
            while self.has_room() {
                let Some(begun) = self.begin_next() else { break };
                if let Err(failure) = begun
                    && deliver(failure).is_break()
                {
                    return;
                }
                begun_since += 1;
                if begun_since == STARTED_AT_ONCE {
                    self.session.start();
                    begun_since = 0;
                }
            }
            let Some((token, read)) = self.next_read() else { return };
            for gathered in self.take(token, read) {
                if deliver(gathered).is_break() {
                    return;
                }
            }
        }
    }

    /// What was read and is delivered next. Tokens rise in the order in which pieces are asked for.
    fn next_read(&mut self) -> Option<(u64, Result<Bytes>)> {
        if !self.options.in_order {
            return self.session.next();
        }
        loop {
            if let Some(read) = self.early.remove(&self.due) {
                self.due += 1;
                return Some((self.due - 1, read));
            }
            let (token, read) = self.session.next()?;
            self.early.insert(token, read);
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

    /// Asks for what comes next; `None` when nothing is left to be asked for.
    fn begin_next(&mut self) -> Option<Result<(), Gathered>> {
        let (body, at) = loop {
            match self.current.take() {
                Some((body, _)) if body.failed.get() => {}
                Some(current) => break current,
                None => match self.supply.next()? {
                    Next::Body(index, source) => {
                        let body = Body { index, id: self.id_at(index), source, failed: Cell::new(false) };
                        self.current = Some((Rc::new(body), 0));
                    }
                    Next::Span(span) => {
                        self.begin_span(span);
                        return Some(Ok(()));
                    }
                    Next::Failed(index, error) => return Some(Err(self.whole(index, Err(error)))),
                },
            }
        };
        let len = body.source.len();
        let end = at.saturating_add(self.piece_len()).min(len);
        // What is open does not change its length, so that the offset is never after its end.
        let range = ByteRange::new(at, end)?;
        if let Err(error) = self.submit(&*body.source, range) {
            return Some(Err(body.failure(error)));
        }
        if end < len {
            self.current = Some((Rc::clone(&body), end));
        }
        self.keep(range, Piece::Body(body, range));
        Some(Ok(()))
    }

    fn begin_span(&mut self, span: Span<S::Part>) {
        let range = span.range;
        match self.submit(&*span.source, range) {
            Ok(()) => self.keep(range, Piece::Span(span)),
            Err(_) => self.supply.take_apart(span),
        }
    }

    /// Asks the session for a range, under the next token.
    fn submit(&mut self, source: &dyn Source, range: ByteRange) -> Result<()> {
        let access = self.options.access.decide(source, range);
        self.session.submit(self.next_token, source, range, access)
    }

    /// Keeps what was asked for last.
    fn keep(&mut self, range: ByteRange, piece: Piece<S::Part>) {
        self.pieces.insert(self.next_token, piece);
        self.next_token += 1;
        self.under_way += range.len();
    }

    /// What is delivered of what the session read; nothing of a body that has failed.
    fn take(&mut self, token: u64, read: Result<Bytes>) -> Vec<Gathered> {
        match self.pieces.remove(&token) {
            Some(Piece::Body(body, range)) => {
                self.under_way -= range.len();
                take_body(&body, range, read).into_iter().collect()
            }
            Some(Piece::Span(span)) => {
                self.under_way -= span.range.len();
                let Ok(read) = read else {
                    self.supply.take_apart(span);
                    return Vec::new();
                };
                let bodies = self.supply.take(span, &read);
                bodies.into_iter().map(|(index, body)| self.whole(index, body)).collect()
            }
            None => Vec::new(),
        }
    }

    fn id_at(&self, index: usize) -> NodeId {
        // Supplies count what is there.
        self.ids.get(index).copied().unwrap_or(NodeId::new(u64::MAX))
    }

    /// A body as a whole, or why there is none.
    fn whole(&self, index: usize, body: Result<Bytes>) -> Gathered {
        let piece = |bytes: Bytes| BodyPiece { offset: 0, body_len: bytes.len() as u64, bytes };
        Gathered { index, id: self.id_at(index), result: body.map(piece) }
    }
}

fn take_body(body: &Body, range: ByteRange, read: Result<Bytes>) -> Option<Gathered> {
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
