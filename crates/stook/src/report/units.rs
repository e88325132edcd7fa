//! Sizes, rates, durations and counts: read from text and printed with their unit, always.
//!
//! `MB` is 10^6 bytes and `MiB` is 2^20 bytes everywhere. Nothing here prints a number of bytes
//! without saying which of the two it is.

use std::fmt;
use std::time::Duration;

/// What a size may look like; part of every message about one that does not.
const EXPECTED: &str = "expected a whole number of bytes with an optional unit, like 512, 128K, 4MiB or 1GB";

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a size: {reason}; {EXPECTED}")]
pub struct SizeError {
    text: String,
    reason: SizeErrorReason,
}

impl SizeError {
    /// What is wrong with it.
    pub fn reason(&self) -> &SizeErrorReason {
        &self.reason
    }
}

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SizeErrorReason {
    /// There is nothing in it.
    Empty,
    /// It begins with a minus sign.
    Negative,
    /// It has a decimal point or comma.
    Fraction,
    /// It does not begin with a digit.
    NoNumber,
    /// What follows the number is not a unit.
    UnknownUnit(String),
    /// It is 2^64 bytes or more.
    TooLarge,
}

impl fmt::Display for SizeErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Negative => f.write_str("a size cannot be negative"),
            Self::Fraction => {
                f.write_str("fractions are not accepted (use a smaller unit, as in 1536M for 1.5G)")
            }
            Self::NoNumber => f.write_str("it does not begin with a number"),
            Self::UnknownUnit(unit) => write!(f, "there is no unit {unit:?}"),
            Self::TooLarge => f.write_str("it does not fit in 64 bits"),
        }
    }
}

/// Reads a size in bytes.
///
/// A size is a run of decimal digits followed by at most one unit, with nothing between, before or
/// after (no space, sign, separator or fraction). Units are read without regard to case:
///
/// | unit | bytes |
/// | --- | --- |
/// | none, `B` | 1 |
/// | `K`, `KiB` · `M`, `MiB` · `G`, `GiB` · `T`, `TiB` | 2^10 · 2^20 · 2^30 · 2^40 |
/// | `KB` · `MB` · `GB` · `TB` | 10^3 · 10^6 · 10^9 · 10^12 |
///
/// ```
/// use stook::report::units::parse_size;
///
/// assert_eq!(parse_size("512"), Ok(512));
/// assert_eq!(parse_size("128K"), Ok(128 * 1024));
/// assert_eq!(parse_size("4MiB"), Ok(4 << 20));
/// assert_eq!(parse_size("1GB"), Ok(1_000_000_000));
/// assert_eq!(
///     parse_size("10 parsecs").unwrap_err().to_string(),
///     "\"10 parsecs\" is not a size: there is no unit \" parsecs\"; expected a whole number of \
///      bytes with an optional unit, like 512, 128K, 4MiB or 1GB",
/// );
/// ```
///
/// # Errors
/// Returns [`SizeError`] for anything else; its message quotes the text and states what was
/// expected.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    size_of_text(text).map_err(|reason| SizeError { text: text.to_owned(), reason })
}

fn size_of_text(text: &str) -> Result<u64, SizeErrorReason> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(match text.bytes().next() {
            None => SizeErrorReason::Empty,
            Some(b'-') => SizeErrorReason::Negative,
            Some(b'.' | b',') => SizeErrorReason::Fraction,
            Some(_) => SizeErrorReason::NoNumber,
        });
    }
    if unit.starts_with(['.', ',']) {
        return Err(SizeErrorReason::Fraction);
    }
    let factor = unit_bytes(unit).ok_or_else(|| SizeErrorReason::UnknownUnit(unit.to_owned()))?;
    // The text is all digits, so the only way for `parse` to fail is overflow.
    let number: u64 = number.parse().map_err(|_| SizeErrorReason::TooLarge)?;
    number.checked_mul(factor).ok_or(SizeErrorReason::TooLarge)
}

/// The bytes in one `unit`.
fn unit_bytes(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    })
}

/// The longest accepted time: a hundred years. A longer one is a mistake, and would not fit in 64
/// bits of nanoseconds when it is added to a moment.
const SECONDS_MAX: f64 = 36_525.0 * 86_400.0;

/// Why a text is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a time; expected a number with an optional unit ms, s, m, h or d, like 500ms, 10s, 1.5m, 2h or 7d, of a hundred \
     years (36525d) at most"
)]
pub struct TimeError {
    text: String,
}

/// Reads a length of time, in seconds: a decimal number that may end in `ms`, `s`, `m` (minutes),
/// `h` or `d` (days); seconds without one.
///
/// ```
/// use stook::report::units::parse_seconds;
///
/// assert_eq!(parse_seconds("500ms"), Ok(0.5));
/// assert_eq!(parse_seconds("1.5m"), Ok(90.0));
/// assert!(parse_seconds("soon").is_err());
/// ```
///
/// # Errors
/// Returns [`TimeError`] for anything else; its message quotes the text and states what was
/// expected.
pub fn parse_seconds(text: &str) -> Result<f64, TimeError> {
    let error = || TimeError { text: text.to_owned() };
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(error()),
    };
    let seconds = number.parse::<f64>().map_err(|_| error())? * factor;
    if seconds <= SECONDS_MAX { Ok(seconds) } else { Err(error()) }
}

/// A size in decimal units with three significant digits: `999 B`, `20.0 KB`, `1.07 GB`.
pub fn bytes_decimal(len_bytes: u64) -> String {
    scaled_bytes(len_bytes, 1000.0, ["B", "KB", "MB", "GB", "TB", "PB", "EB"])
}

/// A size in binary units with three significant digits: `512 B`, `128 KiB`, `1.50 GiB`.
pub fn bytes_binary(len_bytes: u64) -> String {
    scaled_bytes(len_bytes, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// A size to the byte: `1,000,000 bytes`, `1 byte`.
pub fn bytes_exact(len_bytes: u64) -> String {
    count_of(len_bytes, "byte", "bytes")
}

fn scaled_bytes(len_bytes: u64, step: f64, units: [&str; 7]) -> String {
    let mut value = len_bytes as f64;
    let mut unit = 0;
    // 999.6 would print as "1000": the unit is chosen by what the digits will say.
    while unit + 1 < units.len() && as_shown(value) >= step {
        value /= step;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or("B");
    if unit == 0 { format!("{} {name}", count(len_bytes)) } else { format!("{} {name}", significant(value)) }
}

/// A rate in decimal megabytes: `116 MB/s`, `1,530 MB/s`, `0.52 MB/s`.
///
/// Always MB/s, so that a column of rates can be compared without reading units.
pub fn rate(bytes_per_s: f64) -> String {
    format!("{} MB/s", significant(bytes_per_s / 1e6))
}

/// The rate of moving `len_bytes` in `elapsed`, or `– MB/s` when no time passed.
pub fn rate_of(len_bytes: u64, elapsed: Duration) -> String {
    if elapsed.is_zero() { "– MB/s".to_owned() } else { rate(len_bytes as f64 / elapsed.as_secs_f64()) }
}

/// A time: `850 ns`, `12.3 µs`, `4.56 ms`, `8.61 s`, `2 min 05 s`, `1 h 02 min`, `3 d 04 h`.
pub fn duration(elapsed: Duration) -> String {
    let whole_s = elapsed.as_secs_f64().round() as u64;
    match (elapsed.as_nanos(), whole_s) {
        (_, 86_400..) => format!("{} d {:02} h", whole_s / 86_400, whole_s % 86_400 / 3600),
        (_, 3600..) => format!("{} h {:02} min", whole_s / 3600, whole_s % 3600 / 60),
        (_, 60..) => format!("{} min {:02} s", whole_s / 60, whole_s % 60),
        (ns @ 0..1000, _) => format!("{ns} ns"),
        (ns, _) => short_duration(ns as f64),
    }
}

/// A time of less than a minute, in the largest unit in which it is at least 1.
fn short_duration(ns: f64) -> String {
    let (mut value, mut unit) = (ns / 1e3, "µs");
    for next in ["ms", "s"] {
        if as_shown(value) < 1000.0 {
            break;
        }
        (value, unit) = (value / 1e3, next);
    }
    format!("{} {unit}", significant(value))
}

/// [`duration`] of a number of nanoseconds.
pub fn duration_ns(ns: u64) -> String {
    duration(Duration::from_nanos(ns))
}

/// A count with a comma between thousands: `50,000`.
pub fn count(count: u64) -> String {
    group_thousands(&count.to_string())
}

/// A count of things: `1 file`, `50,000 files`, `0 files`.
///
/// ```
/// use stook::report::units::count_of;
///
/// assert_eq!(count_of(1, "directory", "directories"), "1 directory");
/// assert_eq!(count_of(1200, "file", "files"), "1,200 files");
/// ```
pub fn count_of(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A factor: `12.3×`.
pub fn factor(factor: f64) -> String {
    format!("{}×", significant(factor))
}

/// A share of one as per cent: `0.953` is `95.3%`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1}%", share * 100.0) } else { "–%".to_owned() }
}

/// Three significant digits, and every digit before the point: `0.0123`, `1.07`, `116`, `1,530`.
///
/// Non-finite numbers print as `–`.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let rounded = as_shown(value);
    let magnitude = rounded.abs();
    if magnitude != 0.0 && magnitude < 1e-6 {
        return format!("{rounded:.2e}");
    }
    let decimals = if magnitude == 0.0 { 0 } else { (2 - magnitude.log10().floor() as i32).max(0) };
    group_thousands(&format!("{:.*}", decimals as usize, rounded))
}

/// `value` rounded to the digits that are shown: three, or all before the point where they are
/// more.
fn as_shown(value: f64) -> f64 {
    if !value.is_finite() || value.abs() >= 999.5 {
        return value.round();
    }
    // The standard formatter rounds correctly, where scaling by powers of ten does not.
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Puts commas into the whole part of a decimal number.
fn group_thousands(number: &str) -> String {
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = number.find('.').map_or((number, ""), |point| number.split_at(point));
    let mut text = String::with_capacity(number.len() + number.len() / 3 + 1);
    text.push_str(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text.push_str(fraction);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_unit_is_read_in_any_case() {
        for (unit, bytes) in [
            ("", 1),
            ("B", 1),
            ("K", 1 << 10),
            ("KiB", 1 << 10),
            ("KB", 1000),
            ("M", 1 << 20),
            ("MiB", 1 << 20),
            ("MB", 1_000_000),
            ("G", 1 << 30),
            ("GiB", 1 << 30),
            ("GB", 1_000_000_000),
            ("T", 1_u64 << 40),
            ("TiB", 1 << 40),
            ("TB", 1_000_000_000_000),
        ] {
            for unit in [unit.to_owned(), unit.to_lowercase(), unit.to_uppercase()] {
                assert_eq!(parse_size(&format!("7{unit}")), Ok(7 * bytes), "7{unit}");
            }
        }
    }

    #[test]
    fn sizes_are_read_up_to_the_last_that_fits() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("000128K"), Ok(128 << 10));
        assert_eq!(parse_size("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse_size("16777215T"), Ok(16_777_215 << 40));
        for text in ["18446744073709551616", "16777216T", "99999999999999999999999K"] {
            assert_eq!(parse_size(text).unwrap_err().reason, SizeErrorReason::TooLarge, "{text}");
        }
    }

    #[test]
    fn anything_else_is_an_error_that_says_what_is_wrong_and_what_was_expected() {
        let unknown = |unit: &str| SizeErrorReason::UnknownUnit(unit.to_owned());
        for (text, reason) in [
            ("", SizeErrorReason::Empty),
            ("-1", SizeErrorReason::Negative),
            ("-", SizeErrorReason::Negative),
            ("1.5G", SizeErrorReason::Fraction),
            ("1,000", SizeErrorReason::Fraction),
            (".5M", SizeErrorReason::Fraction),
            ("+1", SizeErrorReason::NoNumber),
            (" 1", SizeErrorReason::NoNumber),
            ("K", SizeErrorReason::NoNumber),
            ("٣", SizeErrorReason::NoNumber),
            ("1 K", unknown(" K")),
            ("1\n", unknown("\n")),
            ("1KK", unknown("KK")),
            ("1Ki", unknown("Ki")),
            ("1e6", unknown("e6")),
            ("0x10", unknown("x10")),
            ("1_000", unknown("_000")),
            ("1µB", unknown("µB")),
        ] {
            let error = parse_size(text).unwrap_err();
            assert_eq!(error.reason, reason, "{text:?}");
            let message = error.to_string();
            assert!(message.contains(&format!("{text:?}")) && message.contains(EXPECTED), "{message}");
        }
    }

    #[test]
    fn times_are_read_with_and_without_unit() {
        for (text, seconds) in
            [("0", 0.0), ("10", 10.0), ("250ms", 0.25), ("1.5s", 1.5), ("2m", 120.0), ("1h", 3600.0)]
        {
            assert_eq!(parse_seconds(text), Ok(seconds), "{text}");
        }
        assert_eq!(parse_seconds("36525d"), Ok(3_155_760_000.0));
        for text in [
            "",
            "s",
            ".",
            "-1s",
            "1 s",
            "1e3",
            "10sec",
            "1.2.3",
            "5w",
            "inf",
            "NaN",
            "36526d",
            "99999999999999",
        ] {
            let message = parse_seconds(text).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{text:?} is not a time; expected")), "{message}");
        }
    }

    #[test]
    fn sizes_print_with_the_unit_their_digits_ask_for() {
        for (bytes, decimal, binary) in [
            (0, "0 B", "0 B"),
            (1, "1 B", "1 B"),
            (999, "999 B", "999 B"),
            (1000, "1.00 KB", "1,000 B"),
            (1_048_000, "1.05 MB", "1,023 KiB"),
            (1_048_575, "1.05 MB", "1.00 MiB"),
            (1024, "1.02 KB", "1.00 KiB"),
            (20_000, "20.0 KB", "19.5 KiB"),
            (999_499, "999 KB", "976 KiB"),
            (999_500, "1.00 MB", "976 KiB"),
            (131_072, "131 KB", "128 KiB"),
            (1_000_000_000, "1.00 GB", "954 MiB"),
            (u64::MAX, "18.4 EB", "16.0 EiB"),
        ] {
            assert_eq!((bytes_decimal(bytes).as_str(), bytes_binary(bytes).as_str()), (decimal, binary));
        }
        assert_eq!(bytes_exact(1), "1 byte");
        assert_eq!(bytes_exact(1_234_567), "1,234,567 bytes");
    }

    #[test]
    fn rates_are_always_decimal_megabytes() {
        assert_eq!(rate(116e6), "116 MB/s");
        assert_eq!(rate(1_530_499_999.0), "1,530 MB/s");
        assert_eq!(rate(523_456.0), "0.523 MB/s");
        assert_eq!(rate(0.0), "0 MB/s");
        assert_eq!(rate(f64::NAN), "– MB/s");
        assert_eq!(rate_of(1_000_000, Duration::from_millis(500)), "2.00 MB/s");
        assert_eq!(rate_of(1, Duration::ZERO), "– MB/s");
    }

    #[test]
    fn durations_carry_into_the_next_unit() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (8_612_000_000, "8.61 s"),
            (59_449_000_000, "59.4 s"),
            (59_999_000_000, "1 min 00 s"),
            (125_000_000_000, "2 min 05 s"),
            (3_720_000_000_000, "1 h 02 min"),
            (273_600_000_000_000, "3 d 04 h"),
        ] {
            assert_eq!(duration_ns(ns), text);
        }
    }

    #[test]
    fn counts_and_numbers_are_grouped_by_thousands() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(50_000), "50,000");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(significant(-1_234_567.0), "-1,234,567");
        assert_eq!(significant(0.012_345), "0.0123");
        assert_eq!(significant(9.999), "10.0");
        assert_eq!(significant(999.9), "1,000");
        assert_eq!(significant(1e-9), "1.00e-9");
        assert_eq!(factor(12.345), "12.3×");
        assert_eq!(percent(0.9534), "95.3%");
    }
}
