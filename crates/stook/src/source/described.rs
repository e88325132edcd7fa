//! [`Described`]: what another library states about a file that it reads, and what that proves.

use std::collections::BTreeMap;
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::{Rfc2822, Rfc3339};

use super::Identity;
use super::etag::{has_hash, is_weak};
use crate::format::now_ns;

/// What libraries call that which follows the content of a file; in lower case, without `-` and
/// `_`.
const PROOFS: [&str; 13] = [
    "checksum",
    "contentcrc32c",
    "contentmd5",
    "crc32c",
    "digest",
    "etag",
    "generation",
    "md5",
    "md5hash",
    "sha1",
    "sha256",
    "sha512",
    "versionid",
];
/// What else distinguishes states of a file, though not all of them: times, and the number of an
/// inode.
const TIMES: [&str; 6] = ["ctime", "lastmodified", "modified", "mtime", "timemodified", "updated"];
/// Beside one of these it may show that a file was replaced. Alone it shows nothing: a write does
/// not change it.
const CREATED: &str = "created";
const INODE: &str = "ino";
/// The time of an answer, by the clock that the times of a web server come from.
const DATE: &str = "date";

/// How often what changed a moment ago is looked at again before it is read.
pub const SETTLING_MAX: usize = 3;
/// Times further ahead come from another clock, or were set explicitly.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// What names of options have in them that are secrets. Others say who asks.
const SECRETS: [&str; 6] = ["secret", "passw", "account_key", "sas_token", "private", "credential"];
/// Environment variables with servers and credentials of libraries, or where those are stored.
const VARIABLES: [&str; 31] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_CONFIG_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DEFAULT_PROFILE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CLIENT_ID",
    "AZURE_CONFIG_DIR",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_TENANT_ID",
    "AZURE_USERNAME",
    "BOTO_CONFIG",
    "CLOUDSDK_ACTIVE_CONFIG_NAME",
    "CLOUDSDK_CONFIG",
    "GCE_METADATA_HOST",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "HF_ENDPOINT",
    "HOME",
    "KRB5CCNAME",
    "NETRC",
    "STORAGE_EMULATOR_HOST",
    "USER",
];

/// The state of a file as described by another library: for caches over foreign file systems.
///
/// ```
/// use stook::source::Described;
///
/// let modified = ("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT");
/// let described = Described::new([("size", "5"), ("ETag", "\"a1\""), modified], true);
/// assert_eq!(described.proof(), None, "a web server may make an ETag of a time and a length");
/// assert_eq!(described.signs(), None, "and how long ago that time was by its clock is unknown");
/// let described = Described::new([("ETag", "\"a1\""), modified, ("Date", "Wed, 21 Oct 2015 07:28:02 GMT")], true);
/// assert!(described.signs().is_some_and(|signs| signs.contains("a1")), "now a change would be seen");
/// assert_eq!(described.wait(), Some(std::time::Duration::ZERO));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    said: BTreeMap<String, String>,
    date: Option<String>,
    is_page: bool,
}

impl Described {
    /// The facts that a library states, by its own names for them, in any spelling; names without
    /// meaning are ignored. `is_page` means that it comes from a web server, whose ETags and clock
    /// are not trusted: its times count only together with its `Date`.
    pub fn new<N: AsRef<str>, V: Into<String>>(
        fields: impl IntoIterator<Item = (N, V)>,
        is_page: bool,
    ) -> Self {
        let (mut said, mut date) = (BTreeMap::new(), None);
        for (name, value) in fields {
            let name = name.as_ref().replace(['-', '_'], "").to_lowercase();
            let value = value.into();
            let is_sign = [INODE, CREATED].contains(&name.as_str()) || PROOFS.contains(&name.as_str());
            if value.is_empty() {
                continue;
            }
            if name == DATE {
                date = Some(value);
            } else if is_sign || is_time(&name) {
                said.insert(name, value);
            }
        }
        if !said.keys().any(|name| is_time(name)) {
            said.remove(CREATED);
        }
        Self { said, date, is_page }
    }

    /// A text that changes with the content, if there is one: keep it with bytes that are kept
    /// beyond one opening. The same text means the same bytes.
    pub fn proof(&self) -> Option<String> {
        let follows = |name: &str, value: &str| match name {
            "etag" => !is_weak(value) && (!self.is_page || has_hash(value)),
            name => PROOFS.contains(&name),
        };
        written(self.said.iter().filter(|(name, value)| follows(name, value)))
    }

    /// Everything that distinguishes states: another text is another state. `None` if a change
    /// would not be visible at all, or might not be for a web server: if the file changed a moment
    /// ago by the server's clock, or the server does not say when.
    pub fn signs(&self) -> Option<String> {
        if self.is_page && self.wait() != Some(Duration::ZERO) {
            return None;
        }
        written(self.said.iter())
    }

    /// How long to wait, by the clock of this machine or the `Date` of a web server, until no
    /// change can leave all signs as they are: then its state must be requested again, at most
    /// [`SETTLING_MAX`] times. `None` if a change always could. Only bytes that were read when this
    /// was [`ZERO`](Duration::ZERO) may be reused while the signs are the same.
    pub fn wait(&self) -> Option<Duration> {
        if self.proof().is_some() {
            return Some(Duration::ZERO);
        }
        let times = self.said.iter().filter(|(name, _)| is_time(name) || *name == CREATED);
        let mtime_ns = times.filter_map(|(_, value)| nanoseconds(value)).max()?;
        let now_ns = if self.is_page { nanoseconds(self.date.as_deref()?)? } else { now_ns() };
        let wait = Identity { mtime_ns, ..Identity::default() }.unsettled_for(now_ns);
        (wait <= LONGEST_WAIT).then_some(wait)
    }
}

fn is_time(name: &str) -> bool {
    TIMES.contains(&name)
}

/// The identity of a file system of another library, as one unique text: its kind, its options, and
/// the environment. Secret options do not count, as for our own objects: another password finds
/// what the old one fetched. If an option is a function or an object known only by its address in
/// memory, the identity is unknown and each text is different: nothing kept under it is found
/// again.
pub fn who_asks<'a>(
    kind: &str,
    arguments: &[String],
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let is_secret = |name: &str| {
        let name = name.to_lowercase();
        // Credentials are secret; where they are kept is not.
        SECRETS
            .iter()
            .any(|part| if *part == "credential" { name.ends_with(part) } else { name.contains(part) })
    };
    let options: BTreeMap<_, _> = options.into_iter().filter(|(name, _)| !is_secret(name)).collect();
    let variables: BTreeMap<_, _> =
        VARIABLES.iter().filter_map(|name| Some((name, std::env::var(name).ok()?))).collect();
    let is_known = !arguments.iter().any(|value| is_of_memory(value))
        && !options.values().any(|value| is_of_memory(value));
    // By chance or, without it, by the time.
    let once = (!is_known).then(|| getrandom::u64().unwrap_or_else(|_| now_ns().cast_unsigned()));
    match once {
        Some(once) => serde_json::json!([kind, arguments, options, variables, once]).to_string(),
        None => serde_json::json!([kind, arguments, options, variables]).to_string(),
    }
}

/// Whether Python writes an object so, where it knows no better: `<function f at 0x7f3a5c0d2e80>`.
/// Something else may be at that address the next time.
fn is_of_memory(text: &str) -> bool {
    text.split(" at 0x").skip(1).any(|after| after.starts_with(|c: char| c.is_ascii_hexdigit()))
}

/// Names and values in one text that no others have.
fn written<'a>(said: impl Iterator<Item = (&'a String, &'a String)>) -> Option<String> {
    let said: BTreeMap<_, _> = said.collect();
    (!said.is_empty()).then(|| serde_json::json!(said).to_string())
}

/// A time since 1970: in seconds, or as dates are written on the web.
fn nanoseconds(text: &str) -> Option<i64> {
    let seconds = |text: &str| {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
        let (whole, part) = (whole.parse::<i64>().ok()?, digits.parse::<i64>().ok()?);
        whole.checked_mul(1_000_000_000)?.checked_add(if text.starts_with('-') { -part } else { part })
    };
    let date = |text: &str| {
        // Python writes a space between date and time.
        let at = OffsetDateTime::parse(text, &Rfc2822)
            .or_else(|_| OffsetDateTime::parse(&text.replacen(' ', "T", 1), &Rfc3339));
        i64::try_from(at.ok()?.unix_timestamp_nanos()).ok()
    };
    seconds(text).or_else(|| date(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(&str, &str)], is_page: bool) -> Described {
        Described::new(fields.iter().copied(), is_page)
    }

    #[test]
    fn only_what_follows_the_content_is_a_proof() {
        let hash = format!("\"{}\"", "ab01".repeat(8));
        for (fields, is_page, is_proof) in [
            (&[("mtime", "5.0")][..], false, false),
            (&[("ETag", "W/\"abcd\"")], false, false),
            (&[("ETag", "w/\"abcd\"")], false, false),
            (&[("ETag", "\"56273f40-186a0\"")], false, true),
            (&[("ETag", "\"56273f40-186a0\"")], true, false),
            (&[("ETag", &hash)], true, true),
            (&[("Content-MD5", "abc")], true, true),
            (&[("VersionId", "")], false, false),
            (&[("size", "7"), ("name", "x")], false, false),
        ] {
            assert_eq!(of(fields, is_page).proof().is_some(), is_proof, "{fields:?}");
        }
        let reported = of(&[("Content-MD5", "a\"b"), ("mtime", "5")], false);
        assert_eq!(reported.proof().as_deref(), Some(r#"{"contentmd5":"a\"b"}"#));
        assert_eq!(reported.signs().as_deref(), Some(r#"{"contentmd5":"a\"b","mtime":"5"}"#));
        assert_eq!(of(&[("size", "7"), ("name", "x")], false).signs(), None);
    }

    #[test]
    fn times_are_read_as_libraries_write_them() {
        let s = 1_000_000_000;
        for (text, expected) in [
            ("5", Some(5 * s)),
            ("5.25", Some(5 * s + s / 4)),
            ("-1.5", Some(-s - s / 2)),
            ("1763833000.1234567891", Some(1_763_833_000_123_456_789)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(1_445_412_480 * s)),
            ("2015-10-21 07:28:00.5+00:00", Some(1_445_412_480 * s + s / 2)),
            ("2015-10-21T07:28:00Z", Some(1_445_412_480 * s)),
            ("2015-10-21 07:28:00", None),
            ("99999999999999999999", None),
            ("5.x", None),
            ("soon", None),
        ] {
            assert_eq!(nanoseconds(text), expected, "{text}");
        }
    }

    #[test]
    fn a_change_a_moment_ago_may_be_followed_by_one_that_nothing_shows() {
        assert_eq!(of(&[("mtime", "5.5")], false).wait(), Some(Duration::ZERO));
        assert_eq!(of(&[("ETag", "\"e\"")], false).wait(), Some(Duration::ZERO));
        // A hundred years from now.
        assert_eq!(of(&[("mtime", "5"), ("ctime", "4900000000")], false).wait(), None);
        for fields in [&[("ino", "5")][..], &[("ETag", "W/\"e\"")], &[("mtime", "whenever")], &[]] {
            assert_eq!(of(fields, false).wait(), None, "{fields:?}");
        }
    }

    #[test]
    fn a_time_of_making_tells_nothing_by_itself() {
        let alone = of(&[("created", "5.5")], false);
        assert_eq!((alone.signs(), alone.wait()), (None, None));
        let beside_an_inode = of(&[("created", "5.5"), ("ino", "3")], false);
        assert_eq!(beside_an_inode.signs().as_deref(), Some(r#"{"ino":"3"}"#));
        let beside = of(&[("created", "5.5"), ("mtime", "6.5")], false);
        assert_eq!(beside.signs().as_deref(), Some(r#"{"created":"5.5","mtime":"6.5"}"#));
        assert_eq!(beside.wait(), Some(Duration::ZERO));
    }

    #[test]
    fn times_of_a_web_server_are_held_against_its_own_clock() {
        let (short, hash) = ("\"56273f40-186a0\"", format!("\"{}\"", "ab01".repeat(8)));
        let time = |second: &str| format!("Wed, 21 Oct 2015 07:28:{second} GMT");
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (etag, date, wait) in [
            (None, None, None),
            (Some(short), None, None),
            (Some(hash.as_str()), None, seconds(0)),
            (None, Some("05"), seconds(2)),
            (None, Some("06"), seconds(1)),
            (None, Some("07"), seconds(0)),
            (Some(short), Some("07"), seconds(0)),
            // Set explicitly: the next change may have the same.
            (None, Some("04"), None),
        ] {
            let (modified, date) = (time("05"), date.map(time));
            let fields =
                [("ETag", etag), ("Last-Modified", Some(modified.as_str())), ("Date", date.as_deref())];
            let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let reported = Described::new(fields, true);
            assert_eq!(reported.wait(), wait, "{reported:?}");
            assert_eq!(reported.signs().is_some(), wait == seconds(0), "{reported:?}");
            assert!(
                !reported.signs().is_some_and(|signs| signs.contains("date")),
                "the next answer has another"
            );
        }
        // Without a time there is nothing to hold against a clock.
        assert_eq!(of(&[("ETag", short)], true).signs(), None);
    }

    #[test]
    fn who_asks_counts_and_secrets_do_not() {
        let who = |options: &[(&'static str, &'static str)]| who_asks("fs", &[], options.iter().copied());
        assert_eq!(who(&[("key", "a"), ("Secret", "b")]), who(&[("Secret", "c"), ("key", "a")]));
        assert_ne!(who(&[("key", "a")]), who(&[("key", "b")]));
        assert_ne!(who(&[("credentials_path", "a")]), who(&[("credentials_path", "b")]));
        assert_eq!(who(&[("credential", "a")]), who(&[("password", "b"), ("ACCOUNT_KEY", "c")]));
        assert_ne!(who_asks("fs", &["a".into()], []), who_asks("fs", &["b".into()], []));
    }

    #[test]
    fn of_whom_nothing_but_an_address_in_memory_is_known_nobody_is_found_again() {
        let function = "<function client at 0x7f3a5c0d2e80>";
        let who = |name: &'static str, value: &'static str| who_asks("fs", &[], [(name, value)]);
        assert_ne!(who("get_client", function), who("get_client", function));
        assert_ne!(who_asks("fs", &[function.into()], []), who_asks("fs", &[function.into()], []));
        assert_eq!(who("client_secret", function), who("client_secret", function));
        for value in ["<class 'a.B'>", "at 0x", "look at 0xyz"] {
            assert_eq!(who("get_client", value), who("get_client", value));
        }
    }
}
