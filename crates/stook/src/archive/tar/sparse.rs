//! Maps of sparse members: in the header (GNU), in extended headers (pax 0.0 and 0.1), before the
//! bytes (pax 1.0).

use super::super::error::{Decoded, Fault};
use super::super::member::Extent;
use super::header::{field, number_at};

/// Pieces that one member may have.
pub const EXTENTS_MAX: usize = 1 << 20;

/// Entries of a GNU header, and of each block that goes on with its map.
const IN_HEADER: usize = 4;
const IN_BLOCK: usize = 21;
const ENTRY_LEN: usize = 24;

/// Where pieces stand in a member, and their lengths.
pub(super) type Map = Vec<(u64, u64)>;

/// The entries of a GNU header, its real length, and whether blocks with more follow.
pub(super) fn of_header(block: &[u8]) -> Decoded<(Map, u64, bool)> {
    let mut map = Vec::new();
    entries(block, 386, IN_HEADER, &mut map)?;
    let len = number_at(block, 483, 12, "real size")?.and_then(|len| u64::try_from(len).ok());
    let len = len.ok_or_else(|| Fault::damaged(483, "the real size of a sparse member is no number"))?;
    Ok((map, len, field(block, 482, 1) != [0]))
}

/// Takes in the entries of a block that goes on with the map; whether another follows.
pub(super) fn of_block(block: &[u8], map: &mut Map) -> Decoded<bool> {
    entries(block, 0, IN_BLOCK, map)?;
    check_count(map.len())?;
    Ok(field(block, 504, 1) != [0])
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
pub(super) fn extents(map: &[(u64, u64)], len: u64, data_at: u64, stored: u64) -> Decoded<Vec<Extent>> {
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
