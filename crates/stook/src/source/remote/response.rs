//! Decodes the head of a response, and checks that it matches the request.

use std::path::Path;
use std::time::Duration;

use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, HeaderName, LAST_MODIFIED, LOCATION,
    RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, StatusCode};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::failure::Failure;
use crate::error::{Error, RemoteErrorKind};
use crate::extent::ByteRange;
use crate::source::etag::{has_hash, is_weak, is_well_formed};
use crate::source::{Identity, Origin};

/// Where servers report which version of an object they sent.
const VERSIONS: [&str; 3] = ["x-amz-version-id", "x-goog-generation", "x-ms-version-id"];

/// So long after the last change, by the server's own clock, no later one can have the same time:
/// dates are whole seconds, and some file systems keep every other one.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Whether another state of an object could have the same identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// No: the same identity means the same bytes.
    Sure,
    /// Not any more after this time, if it does not change meanwhile.
    After(Duration),
    /// It could, now and later.
    Never,
}

/// The identity of an object in a response.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) identity: Identity,
    /// Where it came from, if another address was asked: the same ETag, length or time may mean
    /// something else there.
    pub(super) target: Option<Origin>,
}

impl State {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.target == other.target && self.identity.same_content(&other.identity)
    }

    pub(super) fn with_len(self, len: u64) -> Self {
        Self { identity: Identity { len, ..self.identity }, ..self }
    }

    /// The same for people: the address where it was found replaces the version.
    pub(super) fn for_people(&self) -> Identity {
        let found = self.target.as_ref().map(|target| format!("found at {}", target.name()).into());
        Identity { version: found.or_else(|| self.identity.version.clone()), ..self.identity.clone() }
    }
}

/// The error for an object that has changed.
pub(super) fn changed(path: &Path, before: &State, after: &State) -> Error {
    if before.target == after.target {
        return Error::changed(path, before.identity.clone(), after.identity.clone());
    }
    Error::changed(path, before.for_people(), after.for_people())
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// Where it came from, if another address was asked.
    pub(super) target: Option<Origin>,
    /// Whether it is of an object store.
    pub(super) is_of_store: bool,
}

impl Head {
    /// The state by which it identifies an object of this length.
    pub(super) fn state(&self, len: u64) -> State {
        State { identity: identity(&self.headers, len, self.is_of_store), target: self.target.clone() }
    }
}

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
        // The last byte is included, so there are no empty ranges.
        let range = ByteRange::new(first, last.checked_add(1)?)?;
        (!range.is_empty() && range.end() <= total).then_some(ContentRange { range, total })
    };
    parsed().ok_or_else(|| Failure::protocol(format!("the server sent a strange Content-Range: {said:?}")))
}

/// The ETag of a response. Object stores may omit its quotes. A malformed one of a web server does
/// not count; without a time it counts as a weak one, which may still show a change.
fn etag(headers: &HeaderMap, is_of_store: bool) -> Option<String> {
    let said = text(headers, ETAG)?;
    if is_well_formed(said) {
        return Some(said.to_owned());
    }
    let inside = if is_weak(said) { said.get(2..).unwrap_or_default() } else { said };
    if inside.trim_matches('"').trim().is_empty() {
        return None;
    }
    if is_of_store {
        return Some(said.to_owned());
    }
    (!headers.contains_key(LAST_MODIFIED)).then(|| format!("W/{inside}"))
}

/// The identity of an object of this length. In object stores a strong ETag decides, so that a time
/// beside it that would count on a web server is left out.
fn identity(headers: &HeaderMap, len: u64, is_of_store: bool) -> Identity {
    let date = |value| OffsetDateTime::parse(value, &Rfc2822).ok();
    let modified = text(headers, LAST_MODIFIED).and_then(date);
    let version = VERSIONS.iter().find_map(|name| headers.get(*name)?.to_str().ok());
    let etag = etag(headers, is_of_store);
    let decides = is_of_store && etag.as_deref().is_some_and(|etag| !is_weak(etag) && !has_hash(etag));
    let modified = modified.filter(|_| !decides);
    Identity {
        len,
        mtime_ns: modified.and_then(|at| i64::try_from(at.unix_timestamp_nanos()).ok()).unwrap_or(0),
        etag: etag.map(Into::into),
        version: version.filter(|version| *version != "null").map(Into::into),
        ..Identity::default()
    }
}

/// Whether the identity in a response is a proof. A strong ETag may depend on a time and a length,
/// so the time beside it must be old enough as well, except that object stores give a new one to
/// every write. A weak one means that bytes may differ, whatever the rest.
pub(super) fn proof(headers: &HeaderMap, identity: &Identity, is_of_store: bool) -> Proof {
    if is_of_store && identity.strong_etag().is_some() {
        return Proof::Sure;
    }
    let date = |name| OffsetDateTime::parse(text(headers, name)?, &Rfc2822).ok();
    let modified = date(LAST_MODIFIED);
    let is_weak = identity.etag.is_some() && identity.strong_etag().is_none();
    let (Some(now), Some(modified)) = (date(DATE), modified) else {
        // A time whose age is not known proves nothing, neither alone nor for an ETag.
        let is_sure = identity.strong_etag().is_some() && !headers.contains_key(LAST_MODIFIED);
        return if is_sure { Proof::Sure } else { Proof::Never };
    };
    // A time in the future was set explicitly: the next change may have the same.
    let Ok(age) = Duration::try_from(now - modified) else { return Proof::Never };
    match SETTLED_AFTER.checked_sub(age).filter(|left| !left.is_zero()) {
        Some(left) => Proof::After(left),
        None if is_weak => Proof::Never,
        None => Proof::Sure,
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

/// An answer that is not 200 or 206; `code` is from the body of an object store's response.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, code: Option<&str>) -> Failure {
    let code = code.map(|code| format!(" {code}")).unwrap_or_default();
    let said = format!("the server answered {status}{code}");
    match status.as_u16() {
        401 | 403 | 407 => {
            let takes_password = headers.get_all(WWW_AUTHENTICATE).iter().any(|scheme| {
                let scheme = scheme.as_bytes().get(..6);
                scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic "))
            });
            let what = match takes_password {
                true => {
                    format!(
                        "{said}: it takes a password, or a token in its place: USER:PASSWORD@ before the host"
                    )
                }
                false => format!("{said}: check the credentials and what they may do"),
            };
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

/// The message for a server that cannot send ranges. Each surface adds how to have it read as a
/// whole.
pub(super) const NO_RANGES: &str = "the server sends the whole where a part was asked for (200 instead of 206), \
                                    so that it can only be read as a whole";

/// Whether the head of an answer promises these bytes, of the object as it was.
pub(super) fn check(head: &Head, asked: ByteRange, before: &State) -> Result<(), Failure> {
    check_encoding(&head.headers)?;
    if head.status == StatusCode::OK {
        let now = head.state(content_length(&head.headers).unwrap_or(before.identity.len));
        return Err(if before.is_same(&now) {
            Failure::Final(RemoteErrorKind::NoRanges, NO_RANGES.into())
        } else {
            Failure::Changed(Box::new(now))
        });
    }
    let sent = content_range(&head.headers)?;
    let now = head.state(sent.total);
    if !before.is_same(&now) {
        return Err(Failure::Changed(Box::new(now)));
    }
    check_range(sent.range, asked)
}

pub(super) fn check_range(sent: ByteRange, asked: ByteRange) -> Result<(), Failure> {
    if sent == asked {
        return Ok(());
    }
    Err(Failure::protocol(format!("the server sent bytes {sent} where bytes {asked} were asked for")))
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
            "bytes 1-0/10",
            "bytes 3-10/10",
            "lines 3-7/10",
            "bytes 3-18446744073709551615/10",
        ] {
            assert!(range(value).is_err(), "{value}");
        }
        assert!(content_range(&headers(&[])).is_err());
    }

    #[test]
    fn the_same_from_elsewhere_is_something_else() {
        let found = |at: Option<&str>| State {
            identity: Identity { len: 5, etag: Some("\"e\"".into()), ..Identity::default() },
            target: at.map(|at| Origin::new("target", at).with("address", at)),
        };
        assert!(found(None).is_same(&found(None)) && found(Some("a")).is_same(&found(Some("a"))));
        assert!(!found(None).is_same(&found(Some("a"))) && !found(Some("b")).is_same(&found(Some("a"))));
        let reported = changed(Path::new("x"), &found(Some("http://a/v1")), &found(None)).to_string();
        assert!(
            reported.contains("it was 5 bytes, ETag \"e\", version found at http://a/v1, it is now"),
            "{reported}"
        );
        let reported = changed(Path::new("x"), &found(Some("a")), &found(Some("a"))).to_string();
        assert!(!reported.contains("found"), "{reported}");
    }

    #[test]
    fn an_answer_proves_what_no_other_state_can_say() {
        let of = |etag: Option<&str>, modified: Option<&str>, date: Option<&str>| {
            let time = |second: &str| format!("Wed, 21 Oct 2015 07:28:{second} GMT");
            let (modified, date) = (modified.map(time), date.map(time));
            let pairs = [("etag", etag), ("last-modified", modified.as_deref()), ("date", date.as_deref())];
            let pairs: Vec<_> =
                pairs.iter().filter_map(|(name, value)| value.map(|value| (*name, value))).collect();
            let headers = headers(&pairs);
            proof(&headers, &identity(&headers, 5, false), false)
        };
        let (strong, weak) = (Some("\"e\""), Some("W/\"e\""));
        let seconds = |seconds| Proof::After(Duration::from_secs(seconds));
        for (etag, modified, date, expected) in [
            (strong, None, None, Proof::Sure),
            (strong, None, Some("00"), Proof::Sure),
            (strong, Some("00"), None, Proof::Never),
            (strong, Some("00"), Some("00"), seconds(2)),
            (strong, Some("00"), Some("01"), seconds(1)),
            (strong, Some("00"), Some("02"), Proof::Sure),
            (strong, Some("01"), Some("00"), Proof::Never),
            (None, Some("00"), Some("01"), seconds(1)),
            (None, Some("00"), Some("02"), Proof::Sure),
            (None, Some("00"), None, Proof::Never),
            (None, None, Some("00"), Proof::Never),
            (weak, None, Some("00"), Proof::Never),
            (weak, Some("00"), Some("01"), seconds(1)),
            (weak, Some("00"), Some("59"), Proof::Never),
        ] {
            assert_eq!(of(etag, modified, date), expected, "{etag:?} {modified:?} {date:?}");
        }
        let young = headers(&[("etag", "\"e\""), ("last-modified", "Wed, 21 Oct 2015 07:28:00 GMT")]);
        assert_eq!(
            proof(&young, &identity(&young, 5, true), true),
            Proof::Sure,
            "an object store vouches for it"
        );
    }

    #[test]
    fn what_is_no_etag_is_no_proof() {
        let of = |etag: &str, modified: Option<&str>, is_of_store| {
            let pairs = [("etag", Some(etag)), ("last-modified", modified)];
            let pairs: Vec<_> =
                pairs.iter().filter_map(|(name, value)| value.map(|value| (*name, value))).collect();
            let headers = headers(&pairs);
            let identity = identity(&headers, 5, is_of_store);
            (proof(&headers, &identity, is_of_store), identity)
        };
        let modified = Some("Wed, 21 Oct 2015 07:28:00 GMT");
        for etag in ["", "\"\"", "w/\"\"", "w/\"x\"", "null", "abc"] {
            assert_eq!(of(etag, None, false).0, Proof::Never, "{etag}");
            assert_eq!(of(etag, None, false).1.strong_etag(), None, "{etag}");
        }
        for etag in ["", "\"\"", "abc"] {
            assert_eq!(of(etag, modified, false).1.etag, None, "{etag}");
        }
        assert_ne!(of("abc", None, false).1, of("abd", None, false).1, "a change is seen");
        for etag in ["abc", "\"abc\""] {
            let (proof, identity) = of(etag, modified, true);
            assert_eq!((proof, identity.strong_etag()), (Proof::Sure, Some(etag)));
            assert!(identity.same_content(&of(etag, Some("Thu, 22 Oct 2015 07:28:00 GMT"), true).1));
        }
        assert_eq!(of("\"\"", None, true).1.etag, None);
    }

    #[test]
    fn dates_and_waits_are_understood() {
        let identity = identity(&headers(&[("last-modified", "Wed, 21 Oct 2015 07:28:00 GMT")]), 5, false);
        assert_eq!((identity.mtime_ns, identity.len), (1_445_412_480_000_000_000, 5));
        let after = |value: &str| retry_after(&headers(&[("retry-after", value)]));
        assert_eq!(after("17"), Some(Duration::from_secs(17)));
        assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
    }
}
