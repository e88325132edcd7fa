//! Moments: read from text and printed as RFC 3339, in nanoseconds since 1970 inside.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::tree::target::is_nearest_time;

/// Why a text is not a moment that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Not a valid time.
    #[error(
        "{0:?} is not a time: expected 2026-11-21T20:30:00Z (RFC 3339), a date like 2026-11-21, or @SECONDS since 1970"
    )]
    NoTime(String),
    /// A valid time, but out of range for 64 bits of nanoseconds.
    #[error("{0:?} is too far away: expected a time from {first} to {last}",
        first = time_of(i64::MIN), last = time_of(i64::MAX))]
    TooFar(String),
}

/// Reads a moment: RFC 3339, a date (its first moment in UTC), or `@` and seconds since 1970 with
/// up to nine digits after the point.
///
/// # Errors
/// Returns an error for anything else, and for times that do not fit in 64 bits of nanoseconds.
pub fn parse_time(text: &str) -> Result<i64, TimeError> {
    let read = match text.strip_prefix('@') {
        Some(seconds) => parse_seconds(seconds),
        None => {
            let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
            OffsetDateTime::parse(&whole, &Rfc3339).ok().map(OffsetDateTime::unix_timestamp_nanos)
        }
    };
    let ns = read.ok_or_else(|| TimeError::NoTime(text.to_owned()))?;
    i64::try_from(ns).map_err(|_| TimeError::TooFar(text.to_owned()))
}

fn parse_seconds(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanoseconds: i128 = format!("{fraction:0<9}").parse().ok()?;
    // Digits that no number holds are a time all the same, and too far away.
    let whole = whole.parse::<i128>().unwrap_or(i128::MAX);
    Some(whole.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
}

/// A moment as people read it, to the nanosecond where it has any: `2026-11-21T20:30:00.5Z`.
pub fn time_of(ns: i64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ns)).ok();
    moment.and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_else(|| format!("{ns} ns"))
}

/// A moment as lists show it, to the second: `2026-11-21 20:30:00Z`. Of one that only stands for a
/// time that is farther away it is said so.
pub fn second_of(ns: i64) -> String {
    let to_second = time_of(ns.saturating_sub(ns.rem_euclid(1_000_000_000))).replace('T', " ");
    match to_second.get(..10).filter(|_| is_nearest_time(ns)) {
        Some(date) if ns < 0 => format!("before {date}"),
        Some(date) => format!("after {date}"),
        None => to_second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_shown_and_what_is_farther_away_is_not_taken_for_one() {
        for (ns, shown) in [
            (0, "1970-01-01 00:00:00Z"),
            (-1, "1969-12-31 23:59:59Z"),
            (1_700_000_000_123_456_789, "2023-11-14 22:13:20Z"),
            (i64::MAX - 1, "2262-04-11 23:47:16Z"),
            (i64::MAX, "after 2262-04-11"),
            (i64::MIN, "before 1677-09-21"),
        ] {
            assert_eq!(second_of(ns), shown);
        }
    }

    #[test]
    fn moments_are_read_in_each_form_and_printed_so_that_they_are_read_again() {
        assert_eq!(parse_time("@0"), Ok(0));
        assert_eq!(parse_time("@1.5"), Ok(1_500_000_000));
        assert_eq!(parse_time("@12.000000001"), Ok(12_000_000_001));
        assert_eq!(parse_time("1970-01-02"), Ok(86_400_000_000_000));
        assert_eq!(parse_time("1970-01-01T01:00:00+01:00"), Ok(0));
        for ns in [0, -1, 1, 1_700_000_000_123_456_789, i64::MAX, i64::MIN] {
            assert_eq!(parse_time(&time_of(ns)), Ok(ns), "{}", time_of(ns));
        }
        for wrong in ["", "@", "@-1", "@1.", "@1.0000000001", "yesterday", "2026-13-01", "2026-1-1"] {
            let error = parse_time(wrong).expect_err(wrong);
            assert!(error.to_string().contains("is not a time: expected"), "{error}");
        }
        for far in
            ["@9223372037", "@99999999999999999999999999999999999999999999", "2262-04-12", "1677-09-21"]
        {
            let error = parse_time(far).expect_err(far).to_string();
            assert!(error.contains("is too far away: expected a time from 1677-09-21T"), "{error}");
            assert!(error.contains(" to 2262-04-11T"), "{error}");
        }
    }
}
