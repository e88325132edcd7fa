//! [`first_difference`]: where two files begin to differ.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::error::Result;
use crate::extent::ByteRange;
use crate::source::{AccessRule, Session, Source};

/// Bytes that are compared at once.
const BLOCK_BYTES: u64 = 256 << 10;

/// Blocks of both files in flight.
const DEPTH: u64 = 4;

/// Reads two files, past the page cache or through it, up to the first byte in which they differ.
/// If one is the beginning of the other, they differ where it ends. `None` if they are the same,
/// or `go_on`, which is asked for each block with the bytes of it, ended it.
pub(super) fn first_difference(
    session: &mut Session,
    sides: [&dyn Source; 2],
    access: AccessRule,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<u64>> {
    let [one, other] = sides;
    let len = one.len().min(other.len());
    let accesses = sides.map(|side| access.decide(side, ByteRange::to(len)));
    let blocks = len.div_ceil(BLOCK_BYTES);
    let (mut asked, mut due) = (0, 0);
    let mut read: BTreeMap<u64, Bytes> = BTreeMap::new();
    let found = loop {
        while asked < blocks && asked < due + DEPTH {
            let start = asked * BLOCK_BYTES;
            let end = (start + BLOCK_BYTES).min(len);
            for (side, (source, access)) in (0..).zip(sides.iter().zip(accesses)) {
                if let Some(range) = ByteRange::new(start, end) {
                    session.submit(2 * asked + side, *source, range, access)?;
                }
            }
            asked += 1;
        }
        if due == blocks {
            break (one.len() != other.len()).then_some(len);
        }
        let (Some(left), Some(right)) = (read.get(&(2 * due)), read.get(&(2 * due + 1))) else {
            // It gives all that was asked for.
            let Some((token, block)) = session.next() else { break None };
            read.insert(token, block?);
            continue;
        };
        if left != right {
            let at = left.iter().zip(right).position(|(left, right)| left != right);
            break at.map(|at| due * BLOCK_BYTES + at as u64);
        }
        let compared = (left.len() + right.len()) as u64;
        read.remove(&(2 * due));
        read.remove(&(2 * due + 1));
        due += 1;
        if !go_on(compared) {
            break None;
        }
    };
    one.check_unchanged()?;
    other.check_unchanged()?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Backend;
    use crate::source::{MemorySource, SessionOptions};

    fn difference(one: &[u8], other: &[u8]) -> Option<u64> {
        let mut session = Session::new(&Backend::Threads, SessionOptions::default()).unwrap();
        let one = MemorySource::new("one", one.to_vec());
        let other = MemorySource::new("other", other.to_vec());
        first_difference(&mut session, [&one, &other], AccessRule::Cached, &mut |_| true).unwrap()
    }

    #[test]
    fn the_first_byte_that_differs_is_found_and_the_end_of_the_shorter() {
        let long = vec![7; 3 * BLOCK_BYTES as usize + 5];
        assert_eq!(difference(&long, &long), None);
        for at in [0, 1, BLOCK_BYTES as usize - 1, BLOCK_BYTES as usize, long.len() - 1] {
            let mut other = long.clone();
            other[at] = 8;
            assert_eq!(difference(&long, &other), Some(at as u64));
            other[long.len() - 1] = 9;
            assert_eq!(difference(&other, &long), Some(at as u64));
            assert_eq!(difference(&long, &long[..at]), Some(at as u64));
        }
        assert_eq!(difference(b"", b""), None);
        assert_eq!(difference(b"", b"a"), Some(0));
    }
}
