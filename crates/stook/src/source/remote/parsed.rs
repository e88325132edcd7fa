//! An address in its parts, if all of them mean something.

use url::Url;

/// The parts of an address. Of one of an object store, what would be dropped or followed on the way
/// to the store is refused: another object than the one that is named would be read.
pub(super) fn parsed(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    match url.scheme() {
        "http" | "https" => {}
        _ => check_key(text)?,
    }
    Ok(url)
}

fn check_key(text: &str) -> Result<(), String> {
    let lost = |c: char| c.is_ascii_control() || "?#".contains(c);
    // Spaces within a key are kept, those around an address are not.
    let lost = text.chars().find(|&c| lost(c)).or_else(|| (text.trim_matches(' ') != text).then_some(' '));
    if let Some(c) = lost {
        let (code, what) = (u32::from(c), if c == '?' { "query" } else { "fragment" });
        return Err(match c {
            '?' | '#' => {
                format!("an object in a store has no {what}; `{c}` in a key is written `%{code:02X}`")
            }
            _ => format!("the character {c:?} is written `%{code:02X}` there"),
        });
    }
    let (_, key) = text.split_once("://").unwrap_or_default();
    // The first part is the bucket.
    match key.split('/').skip(1).find(|part| is_dots(part)) {
        Some(part) => Err(format!("the store would be asked for another key, because of the part `{part}`")),
        None => Ok(()),
    }
}

/// Whether a part of a path means this directory or the one above, in any spelling.
fn is_dots(part: &str) -> bool {
    matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_lost_of_a_key_is_refused() {
        for (address, expected) in [
            ("s3://bucket/key?versionId=1", "has no query; `?` in a key is written `%3F`"),
            ("gs://bucket/key?", "has no query"),
            ("az://container/key#part", "has no fragment; `#` in a key is written `%23`"),
            ("s3://bucket/a/../k", "because of the part `..`"),
            ("gs://bucket/./k", "because of the part `.`"),
            ("az://container/a/%2E.", "because of the part `%2E.`"),
            ("s3://bucket/a\tb", "'\\t' is written `%09`"),
            ("s3://bucket/a ", "' ' is written `%20`"),
        ] {
            let reported = parsed(address).unwrap_err();
            assert!(reported.contains(expected), "{address}: {reported}");
        }
        for address in ["s3://bucket/a%3Fb%23c/..d/e..", "az://c@account/a b", "http://h/a/../b?c#d"] {
            assert!(parsed(address).is_ok(), "{address}");
        }
    }
}
