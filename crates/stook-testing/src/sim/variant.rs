//! Which of the states that a crash may leave is built: the rule for every file and for the names.
//!
//! The first variants of a crash point are the corners (all lost, all kept, names without bytes,
//! bytes without names, lengths without bytes); all others are drawn by chance from the seed.

use std::sync::Arc;

use super::medium::{Attributes, Change, FileState, Image, Medium, Pending, apply_change, write_at};
use super::rng::Rng;

/// Bytes in a sector, which a device writes as a whole.
const SECTOR_LEN: u64 = 512;

/// Bytes in a page, the unit that the system writes back, in any order.
const PAGE_LEN: u64 = 4096;

/// How far past its data a file may be found longer, filled with zeros, if the appender had
/// extended it ahead. Real appenders extend further than this; readers handle it the same way.
const ROOM_AHEAD_MAX: u64 = 2 * PAGE_LEN;

/// What becomes of a file's changes that were not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// None arrived.
    Lost,
    /// All arrived.
    Kept,
    /// The new length arrived, the bytes did not.
    Zeros,
    /// They arrived up to a byte that is a multiple of this many.
    Prefix(u64),
    /// Pieces of this many bytes arrived independently of one another.
    Pieces(u64),
}

/// What becomes of the names that were not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamesFate {
    Lost,
    Kept,
    /// Any subset in which a change comes with all earlier ones that touch its names.
    Some,
}

/// The corners that every crash point begins with.
const CORNERS: [(NamesFate, Fate); 5] = [
    (NamesFate::Lost, Fate::Lost),
    (NamesFate::Kept, Fate::Kept),
    (NamesFate::Kept, Fate::Lost),
    (NamesFate::Kept, Fate::Zeros),
    (NamesFate::Lost, Fate::Kept),
];

/// Builds the given variant of the states that `medium` may have after a crash.
pub(crate) fn build(medium: &Medium, variant: usize, rng: &mut Rng) -> Image {
    let corner = CORNERS.get(variant).copied();
    let mut image = Image { names: medium.names.clone(), ..Image::default() };
    keep_names(medium, corner.map_or(NamesFate::Some, |corner| corner.0), &mut image, rng);
    for inode in image.names.values() {
        let file = medium.files.get(inode).cloned().unwrap_or_default();
        let fate = corner.map_or_else(|| draw_fate(rng), |corner| corner.1);
        image.attributes.insert(*inode, attributes(&file, fate, rng));
        let bytes = if file.pending.is_empty() { file.durable } else { Arc::new(content(&file, fate, rng)) };
        image.files.insert(*inode, bytes);
    }
    image
}

fn keep_names(medium: &Medium, fate: NamesFate, image: &mut Image, rng: &mut Rng) {
    let mut lost: Vec<&super::medium::NameChange> = Vec::new();
    for Pending { change, .. } in &medium.pending_names {
        let wanted = match fate {
            NamesFate::Lost => false,
            NamesFate::Kept => true,
            NamesFate::Some => rng.coin(),
        };
        if wanted && !lost.iter().any(|earlier| earlier.touches(change)) {
            change.apply(&mut image.names);
        } else {
            lost.push(change);
        }
    }
}

fn draw_fate(rng: &mut Rng) -> Fate {
    match rng.up_to(9) {
        0 => Fate::Lost,
        1 => Fate::Kept,
        2 => Fate::Zeros,
        3 | 4 => Fate::Prefix(1),
        5 => Fate::Prefix(SECTOR_LEN),
        6 | 7 => Fate::Pieces(PAGE_LEN),
        _ => Fate::Pieces(SECTOR_LEN),
    }
}

/// The contents of the file after a crash with this fate.
fn content(file: &FileState, fate: Fate, rng: &mut Rng) -> Vec<u8> {
    match fate {
        Fate::Lost => (*file.durable).clone(),
        Fate::Kept => all(file),
        Fate::Zeros => {
            let mut bytes = (*file.durable).clone();
            for pending in &file.pending {
                if let Change::Truncate { .. } = pending.change {
                    apply_change(&mut bytes, &pending.change);
                }
            }
            bytes.resize(all(file).len(), 0);
            bytes
        }
        Fate::Prefix(unit) => {
            let mut bytes = all(file);
            let cut = draw_cut(file, bytes.len() as u64, unit, rng) as usize;
            bytes.truncate(cut);
            // What an earlier failed sync left open may lie before bytes that are durable.
            if !has_truncate(file) && file.durable.len() > cut {
                bytes.extend_from_slice(&file.durable[cut..]);
            }
            bytes
        }
        Fate::Pieces(unit) => drawn_pieces(file, unit, rng),
    }
}

/// Each change arrives by itself, where some of the bytes do.
fn attributes(file: &FileState, fate: Fate, rng: &mut Rng) -> Attributes {
    let mut attributes = file.attributes.clone();
    for Pending { change, .. } in &file.pending_attributes {
        let has_arrived = match fate {
            Fate::Lost | Fate::Zeros => false,
            Fate::Kept => true,
            Fate::Prefix(_) | Fate::Pieces(_) => rng.coin(),
        };
        if has_arrived {
            change.apply(&mut attributes);
        }
    }
    attributes
}

fn has_truncate(file: &FileState) -> bool {
    file.pending.iter().any(|pending| matches!(pending.change, Change::Truncate { .. }))
}

fn all(file: &FileState) -> Vec<u8> {
    let mut bytes = (*file.durable).clone();
    file.pending.iter().for_each(|pending| apply_change(&mut bytes, &pending.change));
    bytes
}

/// A length between the first byte that is not durable and the end, a multiple of `unit`.
fn draw_cut(file: &FileState, end: u64, unit: u64, rng: &mut Rng) -> u64 {
    let offset = |pending: &Pending<Change>| match &pending.change {
        Change::Write { offset, .. } => *offset,
        Change::Truncate { len } => *len,
    };
    let first = file.pending.iter().map(offset).min().unwrap_or(end).min(end);
    let cut = first + rng.up_to(end - first);
    (cut / unit * unit).max(first)
}

/// Each piece arrives as it was after some of the changes to it, independently of others: a
/// truncate that arrived at one piece may not have arrived at the next, where a later write is
/// missing too. So bytes that were cut off may show through bytes written in their place.
fn drawn_pieces(file: &FileState, unit: u64, rng: &mut Rng) -> Vec<u8> {
    let (salt, versions) = (rng.next(), file.pending.len() as u64);
    let version = |piece: u64| {
        let mut rng = Rng::new(salt, piece, 0);
        // Half of the pieces are wholly there: else nearly every state would be damaged early on.
        if rng.coin() { versions } else { rng.up_to(versions) }
    };
    let mut bytes = pieces(file, unit, version, rng);
    let end = all(file).len() as u64;
    if rng.coin() {
        // The length arrived.
        bytes.resize(end as usize, 0);
    }
    let unsynced = file.pending.iter().any(|pending| !pending.doubtful);
    if unsynced && bytes.len() as u64 >= end && rng.up_to(3) == 0 {
        bytes.resize(bytes.len() + rng.up_to(ROOM_AHEAD_MAX) as usize, 0);
    }
    bytes
}

/// Applies to every piece of `unit` bytes the first `version(piece)` changes, and of the write that
/// comes next sometimes a part: a torn sector.
fn pieces(file: &FileState, unit: u64, version: impl Fn(u64) -> u64, rng: &mut Rng) -> Vec<u8> {
    let end_of = |pending: &Pending<Change>| match &pending.change {
        Change::Write { offset, bytes } => offset + bytes.len() as u64,
        Change::Truncate { len } => *len,
    };
    let end = file.pending.iter().map(end_of).max().unwrap_or(0).max(file.durable.len() as u64);
    let mut content = Vec::new();
    for piece in 0..end.div_ceil(unit) {
        let (start, versions) = (piece * unit, version(piece) as usize);
        let durable =
            (start as usize).min(file.durable.len())..((start + unit) as usize).min(file.durable.len());
        let mut bytes = file.durable[durable].to_vec();
        for pending in &file.pending[..versions] {
            apply_within(&mut bytes, &pending.change, start, unit, |len| len);
        }
        if let Some(next) = file.pending.get(versions)
            && matches!(next.change, Change::Write { .. })
            && rng.up_to(3) == 0
        {
            apply_within(&mut bytes, &next.change, start, unit, |len| rng.up_to(len as u64) as usize);
        }
        if !bytes.is_empty() {
            content.resize(start as usize, 0);
            content.extend(bytes);
        }
    }
    content
}

/// Does the part of a change that lies in the piece at `start`; of a write as many bytes as
/// `arrives` says.
fn apply_within(
    piece: &mut Vec<u8>,
    change: &Change,
    start: u64,
    unit: u64,
    arrives: impl FnOnce(usize) -> usize,
) {
    match change {
        Change::Truncate { len } => piece.truncate(len.saturating_sub(start).min(unit) as usize),
        Change::Write { offset, bytes } => {
            let from = (*offset).max(start);
            let to = (offset + bytes.len() as u64).min(start + unit);
            if from < to {
                let part = &bytes[(from - offset) as usize..(to - offset) as usize];
                write_at(piece, from - start, &part[..arrives(part.len())]);
            }
        }
    }
}
