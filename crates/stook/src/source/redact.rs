//! Addresses as they are shown: without what may be a secret.
//!
//! The text of a message comes from outside: an address in it may be malformed, because a password
//! contains a `/`, or a slash is missing. Anything that looks like an address is treated as one,
//! and rather too much is removed.

use super::address::{is_known, is_of_scheme};

const QUERY: [char; 2] = ['?', '#'];
const SLASHES: [char; 2] = ['/', '\\'];
/// The replacement of what may be a user and a password.
const HIDDEN_USER: &str = "…@";
/// What may follow an address in a sentence.
const CLOSING: &str = "'\"`<>()[]{},.;:!";

/// An address without what may be a secret: no user, no password, nothing of a query.
pub fn shown(address: &str) -> String {
    let (mut shown_text, mut rest) = (String::with_capacity(address.len()), address);
    let mut is_inside = false;
    // An address may have others in its path; after a `?` nothing is shown anyway.
    while let Some((scheme, end)) = found(if is_inside { before(rest, &QUERY) } else { rest }) {
        let (mark, after) = rest.split_at(end);
        let (user, after) = after.split_at(user_len(scheme, after));
        if is_inside {
            shown_text.push_str(&without_parameters(mark));
        } else {
            shown_text.push_str(mark);
        }
        if user.contains(QUERY) {
            // What follows may be of a password or of a query.
            return shown_text + "…";
        }
        if user.contains(SLASHES) || user == HIDDEN_USER {
            shown_text.push_str(HIDDEN_USER);
        }
        (rest, is_inside) = (after, true);
    }
    if is_inside { shown_text + &without_query(rest) } else { address.to_owned() }
}

/// A text without anything that may be a secret in the addresses in it: for foreign error messages.
/// The query of an address is removed up to the next space: a query may contain anything, including
/// quotes and brackets.
pub fn shown_in(text: &str) -> String {
    let mut shown_text = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        let (word, space) = word.split_at(word.trim_end_matches(char::is_whitespace).len());
        shown_text.push_str(&shown(word));
        shown_text.push_str(space);
    }
    shown_text
}

/// The first address in a text: its scheme, and the position after its `://`. For the schemes of
/// objects, text with fewer or other slashes is treated as an address, too.
fn found(text: &str) -> Option<(&str, usize)> {
    text.match_indices(':').find_map(|(colon, mark)| {
        let (front, after) = text.split_at(colon);
        let (_, name) = front.split_at(front.trim_end_matches(is_of_scheme).len());
        // In `git+https` the last part decides.
        let scheme = name.rsplit(['+', '-', '.']).next().unwrap_or(name);
        let after = after.strip_prefix(mark)?;
        let is_address = after.starts_with("//") || is_known(scheme);
        is_address.then(|| (scheme, text.len() - after.trim_start_matches(SLASHES).len()))
    })
}

/// The length of the user and password after `://`, or of what may be that.
fn user_len(scheme: &str, rest: &str) -> usize {
    let authority = before(rest, &['/', '\\', '?', '#']);
    let has_container =
        ["az", "azure", "abfs", "abfss", "adl"].iter().any(|known| known.eq_ignore_ascii_case(scheme));
    let searched = match authority.contains(':') {
        // Of `abfss://container@account/key` nothing is secret.
        false if has_container => return 0,
        false => authority,
        true if is_host_and_port(authority) => before(rest, &QUERY),
        // A password may have `/`, `?`, `#` and `@` in it.
        true => rest,
    };
    searched.rfind('@').map_or(0, |at| at + 1)
}

fn is_host_and_port(authority: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    authority.rsplit_once(':').is_some_and(|(host, port)| !host.contains('@') && is_number(port))
}

fn without_query(rest: &str) -> String {
    let path = before(rest, &QUERY);
    let (mark, query) = rest.split_at(path.len()).1.split_at(usize::from(path.len() < rest.len()));
    let path = without_parameters(path);
    if mark.is_empty() {
        return path;
    }
    // Where it was left out before, the end of the sentence stays.
    let end = query.strip_prefix('…').filter(is_closing).unwrap_or_default();
    format!("{path}{mark}…{end}")
}

/// A path without the values of its parameters, as in `/a;jsessionid=…/b`: a server may keep there
/// who asks.
fn without_parameters(path: &str) -> String {
    let mut shown_text = String::with_capacity(path.len());
    for part in path.split_inclusive(['/', '\\', ';']) {
        let is_parameter = shown_text.ends_with(';');
        let (text, end) = part.split_at(part.trim_end_matches(['/', '\\', ';']).len());
        match text.split_once('=').filter(|_| is_parameter) {
            Some((name, value)) => {
                shown_text.push_str(name);
                shown_text.push_str("=…");
                shown_text.push_str(value.strip_prefix('…').filter(is_closing).unwrap_or_default());
            }
            None => shown_text.push_str(text),
        }
        shown_text.push_str(end);
    }
    shown_text
}

/// Whether it may end a sentence.
fn is_closing(end: &&str) -> bool {
    end.chars().all(|c| CLOSING.contains(c))
}

/// The part of a text before the first of these.
fn before<'a>(text: &'a str, ends: &[char]) -> &'a str {
    text.split(ends).next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_is_not_shown() {
        for (address, expected) in [
            ("https://me:word@host:80/a/b?X-Amz-Signature=abc#part", "https://host:80/a/b?…"),
            ("https://host/a@b", "https://host/a@b"),
            ("https://host/a#part", "https://host/a#…"),
            ("https://host?token=1", "https://host?…"),
            ("s3://bucket/a key", "s3://bucket/a key"),
            ("az://container@account/key", "az://container@account/key"),
            ("az://user:word@account/key", "az://account/key"),
            ("HTTPS://me:word@host/a?token=1", "HTTPS://host/a?…"),
            ("ftp://me:word@host/a", "ftp://host/a"),
            ("https:///me:word@host/a", "https:///host/a"),
            ("https://host:80/a?mail=b@c&sig=1", "https://host:80/a?…"),
            ("http://h/x;jsessionid=SEC", "http://h/x;jsessionid=…"),
            ("http://h/x;a=SEC;b;c=SEC/y=z?k=1", "http://h/x;a=…;b;c=…/y=z?…"),
            ("http://h/x;a=SEC,https://me:word@h/y;b=SEC", "http://h/x;a=…//h/y;b=…"),
            ("a;b=c", "a;b=c"),
            ("a path?", "a path?"),
        ] {
            assert_eq!(shown(address), expected);
            assert_eq!(shown(expected), expected, "twice");
        }
    }

    #[test]
    fn a_secret_that_breaks_its_address_is_not_shown() {
        for (address, expected) in [
            ("s3://AK:SEC/PW@bucket/k", "s3://…@bucket/k"),
            ("http://me:SEC/PW@h/x?sig=SEC", "http://…@h/x?…"),
            ("http://me:SEC?PW@h", "http://…"),
            ("http://me:SEC#PW@h", "http://…"),
            ("http://me:S@SEC/PW@h", "http://…@h"),
            ("http://me:80/PW@h", "http://…@h"),
            ("http://me:word@h/x?mail=a@b&sig=SEC", "http://…"),
            ("https:/me:PW@h/x?sig=SEC", "https:/h/x?…"),
            ("/here/https:/me:PW@h/x?sig=SEC", "/here/https:/h/x?…"),
            ("http:me:PW@h", "http:h"),
            ("https:\\\\me:PW@h\\x?sig=SEC", "https:\\\\h\\x?…"),
            ("git+https:/me:PW@h", "git+https:/h"),
            ("https://a/b,https://me:PW@h/x?sig=SEC", "https://a/b,https://h/x?…"),
        ] {
            assert_eq!(shown(address), expected);
            assert_eq!(shown(expected), expected, "twice");
        }
    }

    #[test]
    fn what_may_be_secret_is_not_shown_wherever_it_stands_in_a_text() {
        for (text, expected) in [
            ("403, url=URL('https://me:word@h/x?sig=a)b(c')", "403, url=URL('https://h/x?…"),
            ("no https://h/a?k=1 and <http://h/b?k=2>\n", "no https://h/a?… and <http://h/b?…\n"),
            ("no https://h/a?a=%27x%27&sig=SEC: gone", "no https://h/a?… gone"),
            ("no 'https://h/a?a='x'&sig=SEC' here", "no 'https://h/a?… here"),
            ("no 'https://h/a?…': gone", "no 'https://h/a?…': gone"),
            ("no 'https://h/a;s=…': gone", "no 'https://h/a;s=…': gone"),
            ("no https:/me:PW@h/x: a@b", "no https:/h/x: a@b"),
            ("cannot open s3://bucket/key: ://", "cannot open s3://bucket/key: ://"),
            ("äöhttps://h?k=1", "äöhttps://h?…"),
            ("tags: a?b, http: what?", "tags: a?b, http: what?"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(shown_in(text), expected);
        }
    }
}
