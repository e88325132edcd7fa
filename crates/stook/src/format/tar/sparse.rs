//! Maps of sparse members: in the header (GNU), in extended headers (pax 0.0 and 0.1), before the
//! bytes (pax 1.0).

use super::super::fault::{Decoded, Fault};
use super::super::member::Extent;
use super::header::{BLOCK_LEN, field, number_at};
use super::pax::decimal;

/// The most pieces of one member.
pub const EXTENTS_MAX: usize = 1 << 20;

/// Entries of a GNU header, and of each block that continues its map.
const IN_HEADER: usize = 4;
const IN_BLOCK: usize = 21;
const ENTRY_LEN: usize = 24;

/// Offsets of pieces in a member, and their lengths.
pub(super) type Map = Vec<(u64, u64)>;

/// What of a map has not come yet.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rest {
    /// Nothing.
    Nothing,
    /// Blocks after the header (GNU).
    Entries,
    /// Lines of text before the bytes (pax 1.0): the numbers so far, the first of which is their
    /// count; the unfinished line; and the stored bytes, including the lines.
    Lines { numbers: Vec<u64>, wanted: u64, line: Vec<u8>, stored: u64 },
}

/// The map of a sparse member, which may continue in blocks after the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparseMap {
    len: u64,
    map: Map,
    rest: Rest,
}

impl SparseMap {
    /// That of a GNU header.
    pub(super) fn of_header(block: &[u8; BLOCK_LEN]) -> Decoded<Self> {
        let mut map = Vec::new();
        entries(block, 386, IN_HEADER, &mut map)?;
        let len = number_at(block, 483, 12, "real size")?.and_then(|len| u64::try_from(len).ok());
        let len = len.ok_or_else(|| Fault::damaged(483, "the real size of a sparse member is no number"))?;
        Ok(Self { len, map, rest: Rest::after(field(block, 482, 1)) })
    }

    /// A map from extended headers.
    pub(super) fn of_records(map: Map, len: u64) -> Self {
        Self { len, map, rest: Rest::Nothing }
    }

    /// A map that is stored as text before the bytes; `stored` counts both.
    pub(super) fn of_lines(len: u64, stored: u64) -> Self {
        let rest = Rest::Lines { numbers: Vec::new(), wanted: 1, line: Vec::new(), stored };
        Self { len, map: Vec::new(), rest }
    }

    /// The length of the member, holes included.
    pub fn member_len(&self) -> u64 {
        self.len
    }

    /// Whether the next block is of the map.
    pub fn goes_on(&self) -> bool {
        self.rest != Rest::Nothing
    }

    /// Takes in the next block; how many bytes it takes of those that are stored.
    ///
    /// # Errors
    /// Returns an error if it does not continue a map, or there are too many pieces.
    pub fn take(&mut self, block: &[u8; BLOCK_LEN]) -> Decoded<u64> {
        match &mut self.rest {
            Rest::Nothing => Ok(0),
            Rest::Entries => {
                entries(block, 0, IN_BLOCK, &mut self.map)?;
                check_count(self.map.len())?;
                self.rest = Rest::after(field(block, 504, 1));
                Ok(0)
            }
            Rest::Lines { numbers, wanted, line, stored } => {
                let left = stored
                    .checked_sub(BLOCK_LEN as u64)
                    .ok_or_else(|| Fault::damaged(0, "the map of a sparse member does not end within it"))?;
                *stored = left;
                take_lines(block, numbers, wanted, line)?;
                if numbers.len() as u64 == *wanted {
                    let pairs = numbers.get(1..).unwrap_or_default().chunks_exact(2);
                    self.map = pairs.filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect();
                    self.rest = Rest::Nothing;
                }
                Ok(BLOCK_LEN as u64)
            }
        }
    }

    /// The pieces, if this many bytes are stored from a place on.
    ///
    /// # Errors
    /// Returns an error if the pieces are not sorted, not within the member, or not those that are
    /// stored.
    pub fn extents(&self, data_at: u64, stored: u64) -> Decoded<Vec<Extent>> {
        extents(&self.map, self.len, data_at, stored)
    }
}

impl Rest {
    /// By the mark that says whether another block with entries follows.
    fn after(mark: &[u8]) -> Self {
        if mark == [0] { Self::Nothing } else { Self::Entries }
    }
}

/// Takes in the numbers of a block of lines, which may begin and end within a line.
fn take_lines(
    block: &[u8; BLOCK_LEN],
    numbers: &mut Vec<u64>,
    wanted: &mut u64,
    line: &mut Vec<u8>,
) -> Decoded<()> {
    let bad = || Fault::damaged(0, "the map of a sparse member is not numbers in lines");
    for byte in block {
        if numbers.len() as u64 == *wanted {
            break;
        }
        if *byte != b'\n' {
            line.push(*byte);
            continue;
        }
        let number = decimal(line).ok_or_else(bad)?;
        line.clear();
        if numbers.is_empty() {
            check_count(usize::try_from(number).unwrap_or(usize::MAX))?;
            *wanted = number.saturating_mul(2).saturating_add(1);
        }
        numbers.push(number);
    }
    // No number has more digits.
    if line.len() > 20 { Err(bad()) } else { Ok(()) }
}

fn entries(block: &[u8], from: usize, count: usize, map: &mut Map) -> Decoded<()> {
    for entry in 0..count {
        let at = from.saturating_add(entry.saturating_mul(ENTRY_LEN));
        if field(block, at.saturating_add(12), 12).first() == Some(&0) {
            break;
        }
        let number = |at| {
            let number = number_at(block, at, 12, "place of a piece")?.and_then(|n| u64::try_from(n).ok());
            number.ok_or_else(|| Fault::damaged(at as u64, "the place of a piece is no number"))
        };
        map.push((number(at)?, number(at.saturating_add(12))?));
    }
    Ok(())
}

/// Refuses a map that is too long.
pub(super) fn check_count(count: usize) -> Decoded<()> {
    if count > EXTENTS_MAX {
        let what = format!("a sparse member has {count} pieces; at most {EXTENTS_MAX} are taken");
        return Err(Fault::damaged(0, what));
    }
    Ok(())
}

/// The pieces of a map, if it is sorted, within the length of the member, and all of it is stored.
fn extents(map: &[(u64, u64)], len: u64, data_at: u64, stored: u64) -> Decoded<Vec<Extent>> {
    check_count(map.len())?;
    let (mut end, mut taken) = (0_u64, 0_u64);
    let mut extents = Vec::with_capacity(map.len());
    for &(at, piece) in map {
        let to = at.checked_add(piece).filter(|to| *to <= len);
        let Some(to) = to.filter(|_| at >= end) else {
            let what = format!(
                "the map of a sparse member is wrong: a piece of {piece} bytes at {at} after one that ends at {end}, in a length of {len}"
            );
            return Err(Fault::damaged(0, what));
        };
        end = to;
        if piece > 0 {
            // What was summed up lies within `len`, and so within 63 bits.
            extents.push(Extent { at, stored_at: data_at.saturating_add(taken), len: piece });
        }
        taken = taken.saturating_add(piece);
    }
    if taken != stored {
        let what = format!("the pieces of a sparse member have {taken} bytes, and {stored} are stored");
        return Err(Fault::damaged(0, what));
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_that_do_not_fit_are_refused() {
        assert_eq!(extents(&[(0, 5), (10, 5), (20, 0)], 20, 512, 10).unwrap().len(), 2);
        type Case<'a> = (&'a [(u64, u64)], u64, u64);
        let bad: [Case<'_>; 5] = [
            (&[(10, 5), (0, 5)], 20, 10),
            (&[(0, 5), (4, 5)], 20, 10),
            (&[(0, 21)], 20, 21),
            (&[(u64::MAX, 2)], 20, 2),
            (&[(0, 5)], 20, 6),
        ];
        for (map, len, stored) in bad {
            assert!(extents(map, len, 0, stored).is_err(), "{map:?}");
        }
    }
}
