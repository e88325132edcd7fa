//! Who may ask: tokens, and names that a browser may have been led to.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use http::header::{AUTHORIZATION, HOST, HeaderMap};

use crate::options::{ServeOptions, Token};

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It has no token, or another one.
    NoToken,
    /// It is meant for a name that is not this machine's: a page in a browser may have led there,
    /// to read what only this machine may (DNS rebinding).
    OtherHost,
}

/// Whether a request may be answered.
pub(crate) fn check(options: &ServeOptions, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    match &options.token {
        Some(token) => is_given(token, headers).then_some(()).ok_or(Refusal::NoToken),
        None if options.public || !options.listen.ip().is_loopback() => Ok(()),
        None => {
            let named = uri.authority().map(|authority| authority.as_str().as_bytes());
            let fields = headers.get_all(HOST).iter().map(http::HeaderValue::as_bytes);
            let is_own = named.into_iter().chain(fields).all(is_own_host);
            is_own.then_some(()).ok_or(Refusal::OtherHost)
        }
    }
}

/// Whether the token is given, as a bearer's or as the password of anybody.
fn is_given(token: &Token, headers: &HeaderMap) -> bool {
    let Some(field) = headers.get(AUTHORIZATION) else { return false };
    let Some((scheme, rest)) = field.as_bytes().trim_ascii().split_once_at(b' ') else { return false };
    let rest = rest.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return token.is(rest);
    }
    let decoded = scheme.eq_ignore_ascii_case(b"basic").then(|| STANDARD.decode(rest).ok()).flatten();
    let password = decoded.as_deref().and_then(|pair| pair.split_once_at(b':'));
    password.is_some_and(|(_, password)| token.is(password))
}

trait SplitOnce {
    fn split_once_at(&self, byte: u8) -> Option<(&[u8], &[u8])>;
}

impl SplitOnce for [u8] {
    fn split_once_at(&self, byte: u8) -> Option<(&[u8], &[u8])> {
        let at = self.iter().position(|found| *found == byte)?;
        Some((self.get(..at)?, self.get(at + 1..)?))
    }
}

/// Whether a host is an address, or a name that is always this machine's.
fn is_own_host(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = host.to_ascii_lowercase();
    host.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_this_machine() {
        for own in [
            "127.0.0.1",
            "127.0.0.1:80",
            "[::1]:80",
            "localhost:8000",
            "LOCALHOST",
            "a.localhost",
            "10.0.0.1",
        ] {
            assert!(is_own_host(own.as_bytes()), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "xlocalhost",
            "\u{e9}",
        ] {
            assert!(!is_own_host(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn the_token_is_a_bearers_or_a_password() {
        let token = Token::new(b"a:b c");
        let given = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            is_given(&token, &headers)
        };
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        assert!(
            given("Bearer a:b c")
                && given("bearer  a:b c")
                && given(&basic("me:a:b c"))
                && given(&basic(":a:b c"))
        );
        for wrong in
            ["a:b c", "Bearer", "Bearer a:b", "Bearer a:b cd", "Basic a:b c", "Digest a:b c", "Basic !!"]
        {
            assert!(!given(wrong), "{wrong}");
        }
        assert!(!given(&basic("a:b c")) && !is_given(&token, &HeaderMap::new()));
        assert!(!format!("{token:?}").contains("a:b"));
    }
}
