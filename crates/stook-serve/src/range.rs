//! `Range`: which parts of a body are asked for.

use stook::extent::ByteRange;

/// Ranges of one request. More of them, or such as would send more than the whole, are answered
/// with the whole: a request of a few bytes must not make many answers.
const RANGES_MAX: usize = 64;

/// What a `Range` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The whole: none is asked for, or none that is understood.
    Whole,
    /// These, none of them empty.
    Parts(Vec<ByteRange>),
    /// None of what is asked for is there.
    Nothing,
}

/// What is wanted of a body of a length. A field that is no list of byte ranges does not count.
pub(crate) fn wanted(field: Option<&[u8]>, len: u64) -> Wanted {
    field.and_then(|field| parse(field, len)).unwrap_or(Wanted::Whole)
}

/// Whether a field asks for all from some place on, as a download does that goes on.
pub(crate) fn resumes(field: &[u8]) -> bool {
    let Some((_, list)) = std::str::from_utf8(field).ok().and_then(|text| text.split_once('=')) else {
        return false;
    };
    let first = list.trim().strip_suffix('-').and_then(number);
    first.is_some_and(|first| first > 0)
}

fn parse(field: &[u8], len: u64) -> Option<Wanted> {
    let text = std::str::from_utf8(field).ok()?;
    let (unit, list) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (mut parts, mut count, mut sum) = (Vec::new(), 0_usize, 0_u64);
    for spec in list.split(',').map(|spec| spec.trim_matches([' ', '\t'])) {
        // A list may have empty elements.
        if spec.is_empty() {
            continue;
        }
        count += 1;
        if count > RANGES_MAX {
            return None;
        }
        if let Some(range) = part(spec, len)? {
            sum = sum.saturating_add(range.len());
            parts.push(range);
        }
    }
    match (count, parts.is_empty()) {
        (0, _) => None,
        (_, true) => Some(Wanted::Nothing),
        _ if sum > len => None,
        _ => Some(Wanted::Parts(parts)),
    }
}

/// One range, `A-B`, `A-` or `-LENGTH`; `Some(None)` where nothing is there.
fn part(spec: &str, len: u64) -> Option<Option<ByteRange>> {
    let (first, last) = spec.split_once('-')?;
    let (start, end) = match (first.trim_end(), last.trim_start()) {
        ("", suffix) => (len.saturating_sub(number(suffix)?), len),
        (first, "") => (number(first)?, len),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            (first, last.saturating_add(1).min(len))
        }
    };
    Some(ByteRange::new(start, end.max(start)).filter(|range| start < len && !range.is_empty()))
}

/// A number, of any length: what is too large for one is past every end.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(field: &str, len: u64) -> Wanted {
        wanted(Some(field.as_bytes()), len)
    }

    fn parts(parts: &[(u64, u64)]) -> Wanted {
        Wanted::Parts(parts.iter().map(|(start, end)| ByteRange::new(*start, *end).unwrap()).collect())
    }

    #[test]
    fn each_form_is_read_and_what_is_none_does_not_count() {
        assert_eq!(wanted(None, 10), Wanted::Whole);
        for (field, expected) in [
            ("bytes=0-0", parts(&[(0, 1)])),
            ("Bytes = 2-4", parts(&[(2, 5)])),
            ("bytes=5-", parts(&[(5, 10)])),
            ("bytes=-3", parts(&[(7, 10)])),
            ("bytes=-30", parts(&[(0, 10)])),
            ("bytes=8-99999999999999999999999", parts(&[(8, 10)])),
            ("bytes=0-1, ,4-5,", parts(&[(0, 2), (4, 6)])),
            ("bytes=20-30,1-1", parts(&[(1, 2)])),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=10-12,99999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
        ] {
            assert_eq!(of(field, 10), expected, "{field}");
        }
        for field in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "items=0-1",
            "bytes=a-b",
            "bytes=3-2",
            "bytes=1",
            "bytes=--1",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=0-1;2-3",
            "bytes=0-9,0-9",
        ] {
            assert_eq!(of(field, 10), Wanted::Whole, "{field}");
        }
        assert_eq!(of("bytes=0-", 0), Wanted::Nothing);
        let many = |count: usize| format!("bytes={}", vec!["1-1"; count].join(","));
        assert!(matches!(of(&many(64), 1000), Wanted::Parts(of) if of.len() == 64));
        assert_eq!(of(&many(65), 1000), Wanted::Whole);
    }

    /// What RFC 9110 says, in the plainest way: a list of bytes that are asked for.
    fn model(specs: &[(Option<u64>, Option<u64>)], len: u64) -> Vec<Vec<u64>> {
        let one = |(first, last): &(Option<u64>, Option<u64>)| -> Vec<u64> {
            let is_in = |at: &u64| match (first, last) {
                (Some(first), Some(last)) => first <= at && at <= last,
                (Some(first), None) => first <= at,
                (None, Some(suffix)) => at + suffix >= len,
                (None, None) => false,
            };
            (0..len).filter(is_in).collect()
        };
        specs.iter().map(one).filter(|bytes| !bytes.is_empty()).collect()
    }

    proptest! {
        #[test]
        fn ranges_of_every_shape_are_those_of_the_model(
            len in 0_u64..40,
            specs in prop::collection::vec(
                prop_oneof![
                    (0_u64..50, 0_u64..20).prop_map(|(first, more)| (Some(first), Some(first + more))),
                    (0_u64..50).prop_map(|first| (Some(first), None)),
                    (0_u64..50).prop_map(|suffix| (None, Some(suffix))),
                ],
                1..5,
            ),
        ) {
            let text = |number: &Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
            let specs_text: Vec<String> =
                specs.iter().map(|(first, last)| format!("{}-{}", text(first), text(last))).collect();
            let expected = model(&specs, len);
            let sum: usize = expected.iter().map(Vec::len).sum();
            let found = of(&format!("bytes={}", specs_text.join(",")), len);
            match found {
                Wanted::Parts(parts) => {
                    let found: Vec<Vec<u64>> =
                        parts.iter().map(|part| (part.start()..part.end()).collect()).collect();
                    prop_assert_eq!(found, expected);
                }
                Wanted::Nothing => prop_assert!(expected.is_empty()),
                Wanted::Whole => prop_assert!(sum as u64 > len),
            }
        }

        #[test]
        fn no_field_is_taken_for_bytes_that_are_not_there(field in prop::collection::vec(any::<u8>(), 0..40), len: u64) {
            let field = [b"bytes=".as_slice(), &field].concat();
            if let Wanted::Parts(parts) = wanted(Some(&field), len) {
                prop_assert!(parts.iter().all(|part| !part.is_empty() && part.end() <= len));
            }
        }
    }
}
