//! When a list was made, by its name.

use crate::report::time::parse_time;

const SECOND_NS: i64 = 1_000_000_000;

/// The moment in the name of a list, in nanoseconds since 1970, UTC: a date, with a time of day
/// after it or without (`2026-07-14`, `2026-07-14_120501Z`, `2026-07-14.12.05.01`), or seconds
/// since 1970 in ten digits. The first moment of the day where there is only a date.
pub(super) fn date_of_name(name: &[u8]) -> Option<i64> {
    let starts = 0..name.len();
    let dated = starts.clone().find_map(|start| date_at(name.get(start..)?));
    dated.or_else(|| starts.into_iter().find_map(|start| seconds_at(name, start)))
}

/// A date at the beginning, and the time of day after it.
fn date_at(text: &[u8]) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let is_date = shape(date, b"dddd-dd-dd") && !rest.first().is_some_and(u8::is_ascii_digit);
    let date = std::str::from_utf8(date).ok().filter(|_| is_date)?;
    let timed = time_of_day(rest).and_then(|time| parse_time(&format!("{date}T{time}Z")).ok());
    timed.or_else(|| parse_time(date).ok())
}

/// Hours, minutes and seconds after one character, with the same character or none between them.
fn time_of_day(rest: &[u8]) -> Option<String> {
    let (_, rest) = rest.split_first().filter(|(first, _)| b"_T .-".contains(first))?;
    let digits = match rest.get(..8) {
        Some(spread)
            if [&b"dd.dd.dd"[..], b"dd-dd-dd", b"dd:dd:dd"].iter().any(|form| shape(spread, form)) =>
        {
            spread.iter().copied().filter(u8::is_ascii_digit).collect()
        }
        _ => rest.get(..6).filter(|dense| shape(dense, b"dddddd"))?.to_vec(),
    };
    let pairs: Vec<&str> = digits.chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok()).collect();
    Some(pairs.join(":"))
}

/// Ten digits that no others surround.
fn seconds_at(name: &[u8], start: usize) -> Option<i64> {
    let before = start.checked_sub(1).and_then(|before| name.get(before));
    let (digits, rest) = name.get(start..)?.split_at_checked(10)?;
    let is_alone = ![before, rest.first()].into_iter().flatten().any(u8::is_ascii_digit);
    let digits =
        std::str::from_utf8(digits).ok().filter(|digits| is_alone && shape(digits.as_bytes(), b"dddddddddd"));
    digits?.parse::<i64>().ok()?.checked_mul(SECOND_NS)
}

/// Whether a text has digits where a form has `d`, and else what the form has.
fn shape(text: &[u8], form: &[u8]) -> bool {
    let fits = |(byte, form): (&u8, &u8)| if *form == b'd' { byte.is_ascii_digit() } else { byte == form };
    text.len() == form.len() && text.iter().zip(form).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_when_a_list_was_made() {
        let date = |name: &str| date_of_name(name.as_bytes());
        let day = parse_time("2026-07-14").unwrap();
        let moment = parse_time("2026-07-14T12:05:01Z").unwrap();
        for name in [
            "checksums-2026-07-14_120501Z.sha256",
            "checksums-2026-07-14_120501Z-2.sha256",
            "shasum.2026-07-14.12.05.01.txt",
            "0003_A002_2026-07-14_120501Z.mhl",
            "x 2026-07-14T12:05:01.md5",
            "list-1784030701.b3",
        ] {
            assert_eq!(date(name), Some(moment), "{name}");
        }
        for name in ["2026-07-14.sha256", "a-2026-07-14-b.md5", "2026-07-14_250000Z.md5"] {
            assert_eq!(date(name), Some(day), "{name}");
        }
        for name in ["SHA256SUMS", "2026-13-40.md5", "12026-07-141.md5", "17840307012.b3", ""] {
            assert_eq!(date(name), None, "{name}");
        }
    }
}
