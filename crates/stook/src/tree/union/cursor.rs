//! Where the listing of a union continues: in which of the merged directories, and where in that.

use crate::tree::page::Cursor;

/// What the bytes begin with.
const MARK: &[u8] = b"union\0";

const START: u8 = 0;
const AT: u8 = 1;
const TOKEN: u8 = 2;

/// The cursor of a place in one of the directories that are merged.
pub(super) fn encode(at: usize, inner: &Cursor) -> Cursor {
    // There is no more than one directory for each layer and name of a page in memory.
    let mut bytes = [MARK, &(at as u64).to_le_bytes()].concat();
    match inner {
        Cursor::Start => bytes.push(START),
        Cursor::At(position) => {
            bytes.push(AT);
            bytes.extend(position.to_le_bytes());
        }
        Cursor::Token(token) => {
            bytes.push(TOKEN);
            bytes.extend_from_slice(token);
        }
    }
    Cursor::Token(bytes.into())
}

/// What [`encode`] was given; `None` for what it did not make.
pub(super) fn decode(cursor: &Cursor) -> Option<(usize, Cursor)> {
    let bytes = match cursor {
        Cursor::Start => return Some((0, Cursor::Start)),
        Cursor::At(_) => return None,
        Cursor::Token(bytes) => bytes.strip_prefix(MARK)?,
    };
    let (at, rest) = bytes.split_first_chunk::<8>()?;
    let (tag, rest) = rest.split_first()?;
    let inner = match *tag {
        START if rest.is_empty() => Cursor::Start,
        AT => Cursor::At(u64::from_le_bytes(rest.try_into().ok()?)),
        TOKEN => Cursor::Token(rest.into()),
        _ => return None,
    };
    Some((usize::try_from(u64::from_le_bytes(*at)).ok()?, inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_also_within_another_and_foreign_ones_are_recognised() {
        let token = Cursor::Token((&b"a token"[..]).into());
        for inner in [Cursor::Start, Cursor::At(u64::MAX), token.clone(), encode(7, &Cursor::At(3))] {
            assert_eq!(decode(&encode(70_000, &inner)), Some((70_000, inner)));
        }
        assert_eq!(decode(&Cursor::Start), Some((0, Cursor::Start)));
        let Cursor::Token(good) = encode(1, &Cursor::At(2)) else { panic!("it is made of bytes") };
        for len in 0..good.len() {
            assert_eq!(decode(&Cursor::Token(good[..len].into())), None);
        }
        let longer = [&good[..], b"x"].concat();
        for foreign in [token, Cursor::At(1), Cursor::Token(longer.into())] {
            assert_eq!(decode(&foreign), None);
        }
    }
}
