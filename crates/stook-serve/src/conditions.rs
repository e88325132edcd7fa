//! Conditions of a request (RFC 9110, section 13): whether it is answered, and with parts.

use std::time::SystemTime;

use http::header::{
    HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
};

use crate::state::State;

/// What conditions lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The request is answered.
    Answer,
    /// The client has it already.
    NotModified,
    /// A condition does not hold.
    Failed,
}

/// What becomes of a request for a body in this state.
pub(crate) fn verdict(headers: &HeaderMap, state: &State) -> Verdict {
    if headers.contains_key(IF_MATCH) {
        if !is_one_of(headers, &IF_MATCH, state, true) {
            return Verdict::Failed;
        }
    } else if let Some((since, modified)) = date(headers, &IF_UNMODIFIED_SINCE).zip(state.modified)
        && modified > since
    {
        return Verdict::Failed;
    }
    if headers.contains_key(IF_NONE_MATCH) {
        if is_one_of(headers, &IF_NONE_MATCH, state, false) {
            return Verdict::NotModified;
        }
    } else if let Some((since, modified)) = date(headers, &IF_MODIFIED_SINCE).zip(state.modified)
        && modified <= since
    {
        return Verdict::NotModified;
    }
    Verdict::Answer
}

/// Whether parts may be sent: not where the client has parts of another state, or may have. A date
/// never shows that: a file may have changed twice in a second, or have been given its old time.
pub(crate) fn may_be_parts(headers: &HeaderMap, state: &State) -> bool {
    let Some(asked) = headers.get(IF_RANGE) else { return true };
    state.etag.as_ref().is_some_and(|etag| asked.as_bytes().trim_ascii() == etag.as_bytes())
}

/// Whether a list of ETags has that of a state, or is `*`, which is any state. Weak ones are none
/// of ours; where a strong comparison is not wanted, the mark does not count.
fn is_one_of(headers: &HeaderMap, name: &HeaderName, state: &State, is_strong: bool) -> bool {
    let listed = headers.get_all(name).iter().flat_map(|value| tags(value.as_bytes()));
    listed.into_iter().any(|tag| match tag.strip_prefix(b"W/") {
        Some(_) if is_strong => false,
        Some(opaque) => state.etag.as_ref().is_some_and(|etag| etag.as_bytes() == opaque),
        None => tag == b"*" || state.etag.as_ref().is_some_and(|etag| etag.as_bytes() == tag),
    })
}

/// The elements of a list of ETags. A comma may stand between quotes.
fn tags(value: &[u8]) -> Vec<&[u8]> {
    let mut is_quoted = false;
    let elements = value.split(|byte| {
        is_quoted ^= *byte == b'"';
        *byte == b',' && !is_quoted
    });
    elements.map(<[u8]>::trim_ascii).filter(|tag| !tag.is_empty()).collect()
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn each_condition_decides_as_the_rfc_has_it() {
        let modified = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let state = State { etag: Some("\"a,b\"".into()), modified: Some(modified) };
        let (then, before) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:36 GMT");
        for (fields, expected) in [
            (&[][..], Verdict::Answer),
            (&[(IF_MATCH, "\"a,b\"")], Verdict::Answer),
            (&[(IF_MATCH, "\"x\", \"a,b\"")], Verdict::Answer),
            (&[(IF_MATCH, "*")], Verdict::Answer),
            (&[(IF_MATCH, "W/\"a,b\"")], Verdict::Failed),
            (&[(IF_MATCH, "\"a\"")], Verdict::Failed),
            (&[(IF_NONE_MATCH, "\"a,b\"")], Verdict::NotModified),
            (&[(IF_NONE_MATCH, "W/\"a,b\"")], Verdict::NotModified),
            (&[(IF_NONE_MATCH, "*")], Verdict::NotModified),
            (&[(IF_NONE_MATCH, "\"a\", \"b\"")], Verdict::Answer),
            (&[(IF_MODIFIED_SINCE, then)], Verdict::NotModified),
            (&[(IF_MODIFIED_SINCE, before)], Verdict::Answer),
            (&[(IF_MODIFIED_SINCE, "soon")], Verdict::Answer),
            (&[(IF_UNMODIFIED_SINCE, before)], Verdict::Failed),
            (&[(IF_UNMODIFIED_SINCE, then)], Verdict::Answer),
            // ETags count, and times beside them do not.
            (&[(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, then)], Verdict::Answer),
            (&[(IF_MATCH, "\"a,b\""), (IF_UNMODIFIED_SINCE, before)], Verdict::Answer),
        ] {
            assert_eq!(verdict(&headers(fields), &state), expected, "{fields:?}");
        }
        let none = State::default();
        assert_eq!(verdict(&headers(&[(IF_MATCH, "\"a\"")]), &none), Verdict::Failed);
        assert_eq!(verdict(&headers(&[(IF_NONE_MATCH, "\"a\"")]), &none), Verdict::Answer);
    }

    #[test]
    fn parts_are_sent_only_of_the_state_that_the_client_has() {
        let state = State { etag: Some("\"a\"".into()), modified: Some(UNIX_EPOCH) };
        let may = |value: &str, state: &State| may_be_parts(&headers(&[(IF_RANGE, value)]), state);
        assert!(may_be_parts(&HeaderMap::new(), &state) && may("\"a\"", &state));
        for other in ["\"b\"", "W/\"a\"", "Thu, 01 Jan 1970 00:00:00 GMT", "a", "*"] {
            assert!(!may(other, &state), "{other}");
        }
        assert!(!may("\"a\"", &State::default()));
    }
}
