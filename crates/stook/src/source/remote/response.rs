//! What the head of an answer says, and whether it is what was asked for.

use std::time::Duration;

use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, LAST_MODIFIED, LOCATION, RETRY_AFTER,
};
use http::{HeaderMap, StatusCode};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::failure::Failure;
use crate::error::RemoteErrorKind;
use crate::extent::ByteRange;
use crate::source::Identity;

/// Where servers tell which version of an object they sent.
const VERSIONS: [&str; 3] = ["x-amz-version-id", "x-goog-generation", "x-ms-version-id"];

/// What `Content-Range: bytes 0-4/10` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub(super) range: ByteRange,
    pub(super) total: u64,
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    text(headers, CONTENT_LENGTH)?.trim().parse().ok()
}

pub(super) fn content_range(headers: &HeaderMap) -> Result<ContentRange, Failure> {
    let Some(said) = text(headers, CONTENT_RANGE) else {
        return Err(Failure::protocol(
            "the server sent a part (206) and did not say which (no Content-Range)",
        ));
    };
    let parsed = || {
        let (range, total) = said.trim().strip_prefix("bytes ")?.trim().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last, total) = (first.parse().ok()?, last.parse::<u64>().ok()?, total.parse().ok()?);
        let range = ByteRange::new(first, last.checked_add(1)?)?;
        (range.end() <= total).then_some(ContentRange { range, total })
    };
    parsed().ok_or_else(|| Failure::protocol(format!("the server sent a strange Content-Range: {said:?}")))
}

/// The identity of an object of this length.
pub(super) fn identity(headers: &HeaderMap, len: u64) -> Identity {
    let date = |value| OffsetDateTime::parse(value, &Rfc2822).ok();
    let modified = text(headers, LAST_MODIFIED).and_then(date);
    let version = VERSIONS.iter().find_map(|name| headers.get(*name)?.to_str().ok());
    Identity {
        len,
        mtime_ns: modified.and_then(|at| i64::try_from(at.unix_timestamp_nanos()).ok()).unwrap_or(0),
        etag: text(headers, ETAG).map(Into::into),
        version: version.filter(|version| *version != "null").map(Into::into),
        ..Identity::default()
    }
}

/// When the server wants to be asked again.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let said = text(headers, RETRY_AFTER)?.trim();
    if let Ok(seconds) = said.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = OffsetDateTime::parse(said, &Rfc2822).ok()? - OffsetDateTime::now_utc();
    Some(until.try_into().unwrap_or(Duration::ZERO))
}

/// An answer that is not 200 or 206; `code` is what the body of an object store's says.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, code: Option<&str>) -> Failure {
    let code = code.map(|code| format!(" {code}")).unwrap_or_default();
    let said = format!("the server answered {status}{code}");
    match status.as_u16() {
        401 | 403 | 407 => {
            let what = format!("{said}: check the credentials and what they may do");
            Failure::Final(RemoteErrorKind::Denied, what)
        }
        404 | 410 => Failure::Final(RemoteErrorKind::NotFound, said),
        412 | 416 => Failure::Doubtful(said),
        408 | 429 | 500 | 502 | 503 | 504 => Failure::Passing { cause: said, after: retry_after(headers) },
        300..=399 => {
            let what = if headers.contains_key(LOCATION) {
                format!("{said}: it points elsewhere")
            } else {
                format!("{said}: check the region and the endpoint")
            };
            Failure::Final(RemoteErrorKind::Refused, what)
        }
        _ => Failure::Final(RemoteErrorKind::Refused, said),
    }
}

/// An encoding in which ranges are not those of the object.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), Failure> {
    match text(headers, CONTENT_ENCODING).map(str::trim) {
        None | Some("" | "identity") => Ok(()),
        Some(encoding) => {
            let what = format!(
                "the server sends it encoded (Content-Encoding: {encoding}), so that its ranges cannot be read; \
                 download and decode it, or have it stored without"
            );
            Err(Failure::Final(RemoteErrorKind::Encoded, what))
        }
    }
}

/// What there is to say about a server that cannot send parts.
pub(super) const NO_RANGES: &str = "the server sends the whole where a part was asked for (200 instead of 206); \
                                    download it first, or read it as a whole (RemoteOptions::whole_file)";

/// Whether the head of an answer promises these bytes, of the object as it was.
pub(super) fn check(
    status: StatusCode,
    headers: &HeaderMap,
    asked: ByteRange,
    before: &Identity,
) -> Result<(), Failure> {
    check_encoding(headers)?;
    if status == StatusCode::OK {
        let now = identity(headers, content_length(headers).unwrap_or(before.len));
        return Err(if before.same_content(&now) {
            Failure::Final(RemoteErrorKind::NoRanges, NO_RANGES.into())
        } else {
            Failure::Changed(Box::new(now))
        });
    }
    let sent = content_range(headers)?;
    let now = identity(headers, sent.total);
    if !before.same_content(&now) {
        return Err(Failure::Changed(Box::new(now)));
    }
    if sent.range != asked {
        return Err(Failure::protocol(format!("the server sent bytes {} for bytes {asked}", sent.range)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair =
            |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn ranges_are_read_as_they_are_meant_or_not_at_all() {
        let range = |value: &str| content_range(&headers(&[("content-range", value)]));
        let expected = ContentRange { range: ByteRange::new(3, 8).unwrap(), total: 10 };
        assert_eq!(range("bytes 3-7/10").unwrap(), expected);
        for value in [
            "bytes 3-7/*",
            "bytes */10",
            "bytes 7-3/10",
            "bytes 3-10/10",
            "lines 3-7/10",
            "bytes 3-18446744073709551615/10",
        ] {
            assert!(range(value).is_err(), "{value}");
        }
        assert!(content_range(&headers(&[])).is_err());
    }

    #[test]
    fn dates_and_waits_are_understood() {
        let identity = identity(&headers(&[("last-modified", "Wed, 21 Oct 2015 07:28:00 GMT")]), 5);
        assert_eq!((identity.mtime_ns, identity.len), (1_445_412_480_000_000_000, 5));
        let after = |value: &str| retry_after(&headers(&[("retry-after", value)]));
        assert_eq!(after("17"), Some(Duration::from_secs(17)));
        assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
    }
}
