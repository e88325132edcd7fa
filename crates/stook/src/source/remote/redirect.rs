//! Redirects, which are followed here: the origin of bytes is a part of their identity, and
//! credentials for one server are not sent to another.

use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use object_store::client::HttpResponse;
use url::Url;

use super::failure::Failure;
use crate::error::RemoteErrorKind;

/// How often one request is led on.
pub(super) const REDIRECTS_MAX: usize = 10;

/// Where an answer leads to, if it does.
pub(super) fn next(answer: &HttpResponse, from: &Url) -> Result<Option<Url>, Failure> {
    target(answer.status(), answer.headers(), from)
}

fn target(status: StatusCode, headers: &HeaderMap, from: &Url) -> Result<Option<Url>, Failure> {
    let location = headers.get(LOCATION).filter(|_| matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308));
    let Some(location) = location else { return Ok(None) };
    let url = std::str::from_utf8(location.as_bytes()).ok().and_then(|location| from.join(location).ok());
    let Some(mut url) = url else {
        return Err(Failure::protocol("the server redirects to what is no address"));
    };
    match (from.scheme(), url.scheme()) {
        ("https", "http") => Err(refused("the server redirects from https to http")),
        (_, "http" | "https") => {
            url.set_fragment(None);
            // The credentials come from the caller only.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            Ok(Some(url))
        }
        (_, other) => Err(refused(format!("the server redirects to an address of `{other}`"))),
    }
}

fn refused(what: impl Into<String>) -> Failure {
    Failure::Final(RemoteErrorKind::Refused, what.into())
}

/// The failure for too many redirects.
pub(super) fn without_end() -> Failure {
    Failure::protocol(format!("the server redirects more than {REDIRECTS_MAX} times"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn an_answer_leads_to_an_address_on_the_web_or_nowhere() {
        let from = Url::parse("https://host/a/b?c").unwrap();
        let lead = |status: u16, location: &str| {
            let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(location).unwrap())]);
            target(StatusCode::from_u16(status).unwrap(), &headers, &from)
        };
        for (location, expected) in [
            ("/d", "https://host/d"),
            ("d?e#f", "https://host/a/d?e"),
            ("//other/d", "https://other/d"),
            ("https://me:word@other:1/d", "https://other:1/d"),
        ] {
            assert_eq!(lead(302, location).unwrap().unwrap().as_str(), expected);
        }
        assert!(lead(304, "/d").unwrap().is_none() && lead(200, "/d").unwrap().is_none());
        for location in ["http://host/d", "file:///d", "https://"] {
            assert!(lead(307, location).is_err(), "{location}");
        }
        assert!(target(StatusCode::FOUND, &HeaderMap::new(), &from).unwrap().is_none());
    }
}
