//! Moments: read from text and printed as RFC 3339, in nanoseconds since 1970 inside.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Why a text is not a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a time: expected 2026-11-21T20:30:00Z (RFC 3339), a date like 2026-11-21, or @SECONDS since 1970"
)]
pub struct TimeError {
    text: String,
}

/// Reads a moment: RFC 3339, a date (its first moment in UTC), or `@` and seconds since 1970 with up to nine digits
/// behind the point.
///
/// # Errors
/// Anything else, and what does not fit in 64 bits of nanoseconds.
pub fn parse_time(text: &str) -> Result<i64, TimeError> {
    let read = match text.strip_prefix('@') {
        Some(seconds) => parse_seconds(seconds),
        None => {
            let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
            let moment = OffsetDateTime::parse(&whole, &Rfc3339).ok();
            moment.and_then(|moment| i64::try_from(moment.unix_timestamp_nanos()).ok())
        }
    };
    read.ok_or_else(|| TimeError { text: text.to_owned() })
}

fn parse_seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanoseconds: i64 = format!("{fraction:0<9}").parse().ok()?;
    whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// A moment as people read it, to the nanosecond where it has any: `2026-11-21T20:30:00.5Z`.
pub fn time_of(ns: i64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ns)).ok();
    moment.and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_else(|| format!("{ns} ns"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for wrong in
            ["", "@", "@-1", "@1.", "@1.0000000001", "@99999999999", "yesterday", "2026-13-01", "2026-1-1"]
        {
            let error = parse_time(wrong).expect_err(wrong);
            assert!(error.to_string().contains("expected"), "{error}");
        }
    }
}
