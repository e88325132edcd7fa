//! Reading bodies from the front to the end, many at a time: a virtual file as a whole, and what is
//! computed from many of its bodies.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::bodies::{Bodies, is_empty};
use super::error::{Error, Result};
use super::file::VirtualFile;
use super::pieces::Piece;
use crate::engine::{Access, Backend};
use crate::error;
use crate::extent::ByteRange;
use crate::source::{AccessRule, Session, SessionOptions, Source, zeroes};
use crate::tree::ahead::OpenAhead;
use crate::tree::target::share_of_descriptors;

/// The longest part of a body that is read at once.
const READ_BYTES: u64 = 1 << 20;
/// Bytes that are asked for and not handed on yet, at most.
const AHEAD_BYTES: u64 = 16 << 20;
/// Parts of bodies, at most: each may keep a file open, two descriptors if it is read directly.
const AHEAD_MAX: usize = 128;
/// One of so many descriptors of a process is for each of them.
const DESCRIPTORS_PER_PART: u64 = 8;
/// Parts from this length on may be read directly.
const ASKED_FROM_BYTES: u64 = 256 << 10;
/// What is shorter is put together before it is handed on.
const BLOCK_BYTES: usize = 1 << 20;

/// A part of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyRange {
    pub(super) number: u32,
    pub(super) range: ByteRange,
    /// Whether it is the last of those that were asked for of the body.
    pub(super) is_last: bool,
}

impl BodyRange {
    /// All that a body has from an offset on, one after another; one of no bytes, if it has none.
    pub(super) fn all(number: u32, offset: u64, len: u64) -> impl Iterator<Item = Self> {
        let end = offset.saturating_add(len);
        let mut next = Some(offset);
        std::iter::from_fn(move || {
            let start = next?;
            let stop = start.saturating_add(READ_BYTES).min(end);
            next = (stop < end).then_some(stop);
            Some(Self { number, range: ByteRange::new(start, stop)?, is_last: next.is_none() })
        })
    }
}

/// Takes what comes in order.
type Take<'a, T> = &'a mut dyn FnMut(T, Bytes) -> error::Result<()>;

/// Reads parts of bodies at the depth of one engine, and hands them on in the order in which they
/// were asked for. `numbers` are those of the bodies, as often as one comes after another: they are
/// opened ahead. What has no part of a body keeps its place and comes without bytes. That a body
/// has changed is an error before the last of its parts is handed on.
pub(super) fn read_in_order<T>(
    bodies: &Bodies,
    numbers: &[u32],
    wanted: &mut dyn Iterator<Item = (Option<BodyRange>, T)>,
    take: Take<'_, T>,
) -> error::Result<()> {
    let open = |at: usize| bodies.get(numbers.get(at).copied().unwrap_or(u32::MAX));
    let ahead = OpenAhead::new(Path::new("a virtual file"), numbers.len(), &open);
    ahead.run(|| read_opened(bodies, &ahead, wanted, take))
}

fn read_opened<T>(
    bodies: &Bodies,
    ahead: &OpenAhead<'_>,
    wanted: &mut dyn Iterator<Item = (Option<BodyRange>, T)>,
    take: Take<'_, T>,
) -> error::Result<()> {
    let mut current: Option<(u32, Arc<dyn Source>)> = None;
    let mut session = Session::new(&Backend::Auto, SessionOptions::default())?;
    let mut queue: VecDeque<(Option<BodyRange>, T, Option<Bytes>)> = VecDeque::new();
    let (mut first, mut ahead_bytes, mut is_done) = (0_u64, 0_u64, false);
    let ahead_max = share_of_descriptors(DESCRIPTORS_PER_PART, AHEAD_MAX);
    loop {
        while !is_done && ahead_bytes < AHEAD_BYTES && queue.len() < ahead_max {
            let Some((part, about)) = wanted.next() else {
                is_done = true;
                break;
            };
            let mut bytes = Some(Bytes::new());
            if let Some(BodyRange { number, range, .. }) = part {
                let source = match &current {
                    Some((open, source)) if *open == number => source.clone(),
                    _ => ahead.take_next().map_or_else(|| bodies.get(number), |(_, opened)| opened)?,
                };
                current = Some((number, source.clone()));
                if range.is_empty() {
                    is_empty(&*source)?;
                    queue.push_back((part, about, bytes));
                    continue;
                }
                bytes = None;
                // Of many small files it is not worth the question what of them is in memory.
                let access = match range.len() < ASKED_FROM_BYTES {
                    true => Access::Cached,
                    false => AccessRule::Auto.decide(&*source, range),
                };
                session.submit(first.saturating_add(queue.len() as u64), &*source, range, access)?;
                ahead_bytes = ahead_bytes.saturating_add(range.len());
            }
            queue.push_back((part, about, bytes));
        }
        let Some((part, about, bytes)) = queue.pop_front() else { return Ok(()) };
        let Some(bytes) = bytes else {
            queue.push_front((part, about, None));
            let (token, read) = session.next().ok_or_else(lost)?;
            let at = usize::try_from(token.saturating_sub(first)).unwrap_or(usize::MAX);
            let (part, _, slot) = queue.get_mut(at).ok_or_else(lost)?;
            *slot = Some(match (read, part) {
                (Ok(bytes), _) => bytes,
                // A change of the body explains the error.
                (Err(error), Some(part)) => return Err(bodies.check(part.number).err().unwrap_or(error)),
                (Err(error), None) => return Err(error),
            });
            continue;
        };
        first = first.saturating_add(1);
        if let Some(part) = part {
            ahead_bytes = ahead_bytes.saturating_sub(part.range.len());
            if part.is_last {
                bodies.check(part.number)?;
            }
        }
        take(about, bytes)?;
    }
}

fn lost() -> error::Error {
    error::Error::io("read", "a virtual file", io::Error::other("a part was read, and did not come"))
}

/// What of a piece is handed on next.
enum Next {
    Part(BodyRange),
    Piece(Piece, u64),
}

impl VirtualFile {
    /// All its bytes, in order, in blocks of about a megabyte, at the speed at which what it is
    /// made of can be read together. `take` says whether to go on.
    ///
    /// # Errors
    /// What it is made of cannot be read or has changed: what was handed on until then is no such
    /// file. The errors of `take`; [`Error::Interrupted`].
    pub fn read_through(
        &self,
        take: &mut dyn FnMut(&[u8]) -> std::result::Result<bool, error::Error>,
    ) -> Result<()> {
        let (bodies, parts) = (self.bodies(), self.bodies().parts());
        let mut wanted = self.pieces_in_order().flat_map(|(piece, len)| {
            let (part, other) = match piece {
                Piece::Body { number, offset } => (Some(BodyRange::all(number, offset, len)), None),
                piece => (None, Some((None, Next::Piece(piece, len)))),
            };
            let part = part.into_iter().flatten().map(|part| (Some(part), Next::Part(part)));
            part.chain(other)
        });
        let (mut block, mut is_interrupted) = (Vec::with_capacity(BLOCK_BYTES), false);
        let mut hand = |bytes: &[u8], is_end: bool| -> error::Result<()> {
            if bytes.len() < BLOCK_BYTES && !is_end && block.len() + bytes.len() <= BLOCK_BYTES {
                block.extend_from_slice(bytes);
                return Ok(());
            }
            for bytes in [std::mem::take(&mut block).as_slice(), bytes] {
                if !bytes.is_empty() && !take(bytes)? {
                    is_interrupted = true;
                    return Err(io_interrupted());
                }
            }
            block.reserve(BLOCK_BYTES);
            Ok(())
        };
        let mut numbers: Vec<u32> = self
            .pieces_in_order()
            .filter_map(|(piece, _)| match piece {
                Piece::Body { number, .. } => Some(number),
                _ => None,
            })
            .collect();
        numbers.dedup();
        let read = read_in_order(bodies, &numbers, &mut wanted, &mut |next, bytes| match next {
            Next::Part(part) => {
                parts.passed(part.number, part.range.start(), &bytes);
                hand(&bytes, false)
            }
            Next::Piece(Piece::Held { block, offset }, len) => hand(&self.held(block, offset, len), false),
            Next::Piece(Piece::Fill(0), len) => {
                let mut left = len;
                while left > 0 {
                    let zeroes = zeroes(left);
                    hand(zeroes, false)?;
                    left = left.saturating_sub(zeroes.len() as u64);
                }
                Ok(())
            }
            Next::Piece(Piece::Fill(byte), len) => {
                let mut left = len;
                while left > 0 {
                    let count = left.min(BLOCK_BYTES as u64);
                    hand(&vec![byte; usize::try_from(count).unwrap_or(BLOCK_BYTES)], false)?;
                    left = left.saturating_sub(count);
                }
                Ok(())
            }
            Next::Piece(Piece::Made { number, .. }, _) => hand(&parts.make(number, bodies)?, false),
            Next::Piece(Piece::Body { .. }, _) => Ok(()),
        });
        let read = read.and_then(|()| hand(&[], true));
        // Each was checked with its last bytes. Of several files that are read, none keeps what it
        // opened.
        bodies.close();
        if is_interrupted { Err(Error::Interrupted) } else { read.map_err(Error::Core) }
    }
}

fn io_interrupted() -> error::Error {
    error::Error::io("read", "a virtual file", io::ErrorKind::Interrupted.into())
}
