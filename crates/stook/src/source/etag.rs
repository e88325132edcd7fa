//! ETags: which are well formed, which are weak, and which look like a hash of the content.

/// An ETag that has this many letters and digits in a row is a hash. Others may be made of a time
/// and a length, which are the same for two states within a second, or of the length alone.
const HASH_LEN: usize = 22;

/// Whether it is weak: bytes may differ. Some servers write a lower-case `W`.
pub(super) fn is_weak(etag: &str) -> bool {
    etag.starts_with("W/") || etag.starts_with("w/")
}

/// Whether it looks like a hash of the content.
pub(super) fn has_hash(etag: &str) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/_".contains(byte);
    etag.as_bytes().split(|byte| !is_digit(byte)).any(|run| run.len() >= HASH_LEN)
}

/// Whether it is one by RFC 9110, `[W/]"…"`, with something between the quotes: an empty one does
/// not distinguish states.
#[cfg(feature = "remote")]
pub(super) fn is_well_formed(etag: &str) -> bool {
    let quoted = if is_weak(etag) { etag.get(2..).unwrap_or_default() } else { etag };
    let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte > b' ' && byte != b'"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_w_is_weak_too() {
        assert!(is_weak("W/\"x\"") && is_weak("w/\"x\"") && !is_weak("\"W/x\""));
    }

    #[test]
    fn only_long_runs_are_hashes() {
        assert!(
            has_hash(&format!("\"{}\"", "ab01".repeat(8))) && has_hash(&format!("{}-5", "ab".repeat(11)))
        );
        assert!(!has_hash("\"56273f40-186a0\"") && !has_hash("\"56273f40-186a0-56273f40-186a0\""));
    }

    #[cfg(feature = "remote")]
    #[test]
    fn what_is_not_in_quotes_or_empty_is_not_well_formed() {
        for etag in ["\"x\"", "W/\"x\"", "w/\"x\"", "\"a/b:c\""] {
            assert!(is_well_formed(etag), "{etag}");
        }
        for etag in ["", "\"\"", "W/\"\"", "\"", "W/", "null", "abc", "\"a\"b\"", "\"a b\"", "W/x", "'x'"] {
            assert!(!is_well_formed(etag), "{etag}");
        }
    }
}
