//! Dates and times: those of formats that know no zone are taken as UTC, and all that are written
//! here are in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use time::{Date, Month, OffsetDateTime};

/// A date and a time of day, as formats have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) year: u16,
    pub(super) month: u16,
    pub(super) day: u16,
    pub(super) hour: u16,
    pub(super) minute: u16,
    pub(super) second: u16,
}

impl Moment {
    /// The second in which a time lies, given in nanoseconds since 1970.
    pub(super) fn of_ns(ns: i64) -> Option<Self> {
        let moment = OffsetDateTime::from_unix_timestamp(ns.div_euclid(1_000_000_000)).ok()?;
        Some(Self {
            year: u16::try_from(moment.year()).ok()?,
            month: u8::from(moment.month()).into(),
            day: moment.day().into(),
            hour: moment.hour().into(),
            minute: moment.minute().into(),
            second: moment.second().into(),
        })
    }

    /// The same in nanoseconds since 1970; `None` where there is no such day or time.
    pub(super) fn to_ns(self) -> Option<i64> {
        let small = |value: u16| u8::try_from(value).ok();
        let month = Month::try_from(small(self.month)?).ok()?;
        let day = Date::from_calendar_date(self.year.into(), month, small(self.day)?).ok()?;
        let moment = day.with_hms(small(self.hour)?, small(self.minute)?, small(self.second)?).ok()?;
        moment.assume_utc().unix_timestamp().checked_mul(1_000_000_000)
    }
}

/// The time of the system, in nanoseconds since 1970.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// A time as XML has it (`xs:dateTime`), to the second: `2020-01-16T09:15:00+00:00`. The time is in
/// nanoseconds since 1970; `None` for one that is before the year 0.
pub fn date_time(ns: i64) -> Option<String> {
    let Moment { year, month, day, hour, minute, second } = Moment::of_ns(ns)?;
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00"))
}

/// A time as names of lists have it, to the second: `2020-01-16_091500Z`. The time is in
/// nanoseconds since 1970; `None` for one that is before the year 0.
pub fn list_date(ns: i64) -> Option<String> {
    let Moment { year, month, day, hour, minute, second } = Moment::of_ns(ns)?;
    Some(format!("{year:04}-{month:02}-{day:02}_{hour:02}{minute:02}{second:02}Z"))
}

/// The first moment of a [`list_date`], in nanoseconds since 1970; `None` for what is none.
pub(super) fn ns_of_list_date(date: &[u8]) -> Option<i64> {
    let number = |from: usize, to: usize| std::str::from_utf8(date.get(from..to)?).ok()?.parse().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(13, 15)?, number(15, 17)?);
    Moment { year, month, day, hour, minute, second }.to_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_seconds_and_back() {
        let moment = Moment { year: 2009, month: 2, day: 13, hour: 23, minute: 31, second: 30 };
        assert_eq!(moment.to_ns(), Some(1_234_567_890_000_000_000));
        assert_eq!(Moment::of_ns(1_234_567_890_999_999_999), Some(moment));
        let before = Moment { year: 1969, month: 12, day: 31, hour: 23, minute: 59, second: 59 };
        assert_eq!(Moment::of_ns(-1), Some(before));
        for ns in [i64::MIN, i64::MAX] {
            assert!(Moment::of_ns(ns).is_some(), "{ns} is between 1677 and 2262");
        }
    }

    #[test]
    fn times_are_written_in_utc() {
        let ns = 1_579_166_100_999_999_999;
        assert_eq!(date_time(ns).as_deref(), Some("2020-01-16T09:15:00+00:00"));
        assert_eq!(list_date(ns).as_deref(), Some("2020-01-16_091500Z"));
    }

    #[test]
    fn what_is_no_day_is_no_moment() {
        let moment = Moment { year: 2001, month: 2, day: 28, hour: 0, minute: 0, second: 0 };
        assert!(moment.to_ns().is_some());
        for bad in [
            Moment { month: 0, ..moment },
            Moment { month: 256, ..moment },
            Moment { day: 29, ..moment },
            Moment { hour: 24, ..moment },
            Moment { second: 60, ..moment },
            Moment { year: u16::MAX, ..moment },
        ] {
            assert_eq!(bad.to_ns(), None, "{bad:?}");
        }
    }
}
