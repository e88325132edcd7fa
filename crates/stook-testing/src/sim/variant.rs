//! Which of the states that a crash may leave is built: the rule for every file and for the names.
//!
//! The first variants of a crash point are the corners (all lost, all kept, names without bytes,
//! bytes without names, lengths without bytes); all others are drawn by chance from the seed.

use std::sync::Arc;

use super::medium::{Change, FileState, Image, Medium, Pending, apply_change, write_at};
use super::rng::Rng;

/// Bytes in a sector: what a device writes whole.
const SECTOR_LEN: u64 = 512;

/// Bytes in a page: what the system writes back at once, in any order.
const PAGE_LEN: u64 = 4096;

/// How far past its data a file may be found longer, filled with zeros, when the appender had made
/// room ahead. Real appenders make more room than this; what a reader does with it is the same.
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

/// Builds the given variant of what `medium` may hold after a crash.
pub(crate) fn build(medium: &Medium, variant: usize, rng: &mut Rng) -> Image {
    let corner = CORNERS.get(variant).copied();
    let mut image = Image { names: medium.names.clone(), ..Image::default() };
    keep_names(medium, corner.map_or(NamesFate::Some, |corner| corner.0), &mut image, rng);
    for inode in image.names.values() {
        let file = medium.files.get(inode).cloned().unwrap_or_default();
        let fate = corner.map_or_else(|| draw_fate(rng), |corner| corner.1);
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

/// What the file holds after a crash with this fate.
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

/// Each piece arrives as it was after some of the writes to it; truncates arrive in their order, and
/// what was written after one that did not arrive is lost with it.
fn drawn_pieces(file: &FileState, unit: u64, rng: &mut Rng) -> Vec<u8> {
    let truncates = file.pending.iter().filter(|p| matches!(p.change, Change::Truncate { .. })).count();
    let mut allowed = if rng.coin() { truncates as u64 } else { rng.up_to(truncates as u64) };
    let arrived = file.pending.iter().take_while(|pending| match pending.change {
        Change::Write { .. } => true,
        Change::Truncate { .. } if allowed == 0 => false,
        Change::Truncate { .. } => {
            allowed -= 1;
            true
        }
    });
    let arrived: Vec<Pending<Change>> = arrived.cloned().collect();
    let (salt, versions) = (rng.next(), arrived.len() as u64);
    let version = |piece: u64| {
        let mut rng = Rng::new(salt, piece, 0);
        // Half of the pieces are wholly there: else nearly every state would be damaged early on.
        if rng.coin() { versions } else { rng.up_to(versions) }
    };
    let mut bytes = pieces(file, &arrived, unit, version, rng);
    let end = all(file).len() as u64;
    if rng.coin() && (bytes.len() as u64) < end {
        bytes.resize(end as usize, 0);
    }
    let unsynced = file.pending.iter().any(|pending| !pending.doubtful);
    if unsynced && arrived.len() == file.pending.len() && rng.up_to(3) == 0 {
        bytes.resize(bytes.len() + rng.up_to(ROOM_AHEAD_MAX) as usize, 0);
    }
    bytes
}

/// Applies to every piece of `unit` bytes the first `version(piece)` changes, and of the write that
/// comes next sometimes a part: a torn sector.
fn pieces(
    file: &FileState,
    changes: &[Pending<Change>],
    unit: u64,
    version: impl Fn(u64) -> u64,
    rng: &mut Rng,
) -> Vec<u8> {
    let mut content = (*file.durable).clone();
    for (index, pending) in changes.iter().enumerate() {
        let (offset, bytes) = match &pending.change {
            Change::Write { offset, bytes } => (*offset, bytes),
            Change::Truncate { len } => {
                content.resize(*len as usize, 0);
                continue;
            }
        };
        let mut at = offset;
        let end = offset + bytes.len() as u64;
        while at < end {
            let piece_end = ((at / unit + 1) * unit).min(end);
            let part = &bytes[(at - offset) as usize..(piece_end - offset) as usize];
            let version = version(at / unit);
            if (index as u64) < version {
                write_at(&mut content, at, part);
            } else if index as u64 == version && rng.up_to(3) == 0 {
                write_at(&mut content, at, &part[..rng.up_to(part.len() as u64) as usize]);
            }
            at = piece_end;
        }
    }
    content
}
