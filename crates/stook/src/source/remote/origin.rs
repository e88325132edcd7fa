//! Whose bytes an object's are: its full address, the server, and who asks; never a secret of
//! theirs.

use std::fs;

use http::header::AUTHORIZATION;
use object_store::ObjectStoreScheme;
use object_store::aws::AmazonS3ConfigKey as S3;
use object_store::azure::AzureConfigKey as Azure;
use object_store::gcp::GoogleConfigKey as Google;
use url::Url;

use super::options::RemoteOptions;
use super::parsed::parsed;
use super::transport;
use crate::source::{Origin, address, shown};

/// One way to sign an address: the parts of a query that change each time, and do not affect which
/// object is requested.
struct Signing {
    /// It is this way if the query has all of these.
    marks: &'static [&'static str],
    /// What is left out of the origin.
    left_out: &'static [&'static str],
    /// Only the part before the first `/` counts: who signed. The day follows it.
    signer: Option<&'static str>,
}

/// The complete list of what is left out of addresses. `docs/guide/remote.md` has the same list.
const SIGNINGS: [Signing; 8] = [
    // AWS, version 4.
    Signing {
        marks: &["X-Amz-Credential", "X-Amz-Signature"],
        left_out: &["X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token", "X-Amz-Signature"],
        signer: Some("X-Amz-Credential"),
    },
    // Google, version 4.
    Signing {
        marks: &["X-Goog-Credential", "X-Goog-Signature"],
        left_out: &["X-Goog-Date", "X-Goog-Expires", "X-Goog-Signature"],
        signer: Some("X-Goog-Credential"),
    },
    // AWS, version 2.
    Signing {
        marks: &["AWSAccessKeyId", "Expires", "Signature"],
        left_out: &["Expires", "Signature", "x-amz-security-token"],
        signer: None,
    },
    // Google, version 2.
    Signing {
        marks: &["GoogleAccessId", "Expires", "Signature"],
        left_out: &["Expires", "Signature"],
        signer: None,
    },
    // CloudFront.
    Signing {
        marks: &["Key-Pair-Id", "Signature"],
        left_out: &["Expires", "Policy", "Signature"],
        signer: None,
    },
    // Azure, a shared access signature for one resource, which says what is permitted.
    Signing { marks: &["sv", "sr", "sp", "sig"], left_out: LEFT_OUT_OF_AZURE, signer: None },
    // The same, with a policy that is stored on the server.
    Signing { marks: &["sv", "sr", "si", "sig"], left_out: LEFT_OUT_OF_AZURE, signer: None },
    // Azure, a shared access signature for an account.
    Signing { marks: &["sv", "ss", "srt", "sp", "sig"], left_out: LEFT_OUT_OF_AZURE, signer: None },
];

const LEFT_OUT_OF_AZURE: &[&str] = &["se", "sig", "ske", "skt", "st"];

/// User names that mean any holder of the token that is sent as their password;
/// `docs/guide/remote.md` has the same list. So does an empty one.
const TOKEN_USERS: [&str; 10] = [
    "__token__",
    "api_key",
    "apikey",
    "git",
    "gitlab-ci-token",
    "oauth",
    "oauth2",
    "token",
    "x-access-token",
    "x-token-auth",
];

/// What shows whose objects of S3 they are, and who asks.
const OF_S3: [(&str, S3); 13] = [
    ("bucket", S3::Bucket),
    ("endpoint", S3::Endpoint),
    ("endpoint of S3", S3::S3Endpoint),
    ("region", S3::Region),
    ("host style", S3::VirtualHostedStyleRequest),
    ("key", S3::AccessKeyId),
    ("unsigned", S3::SkipSignature),
    ("role", S3::RoleArn),
    ("session", S3::RoleSessionName),
    ("token file", S3::WebIdentityTokenFile),
    ("container", S3::ContainerCredentialsRelativeUri),
    ("container address", S3::ContainerCredentialsFullUri),
    ("metadata", S3::MetadataEndpoint),
];

/// The same for Google.
const OF_GOOGLE: [(&str, Google); 6] = [
    ("bucket", Google::Bucket),
    ("server", Google::BaseUrl),
    ("unsigned", Google::SkipSignature),
    ("account file", Google::ServiceAccount),
    ("credentials file", Google::ApplicationCredentials),
    ("token", Google::BearerToken),
];

/// The same for Azure.
const OF_AZURE: [(&str, Azure); 14] = [
    ("account", Azure::AccountName),
    ("container", Azure::ContainerName),
    ("endpoint", Azure::Endpoint),
    ("emulator", Azure::UseEmulator),
    ("fabric", Azure::UseFabricEndpoint),
    ("unsigned", Azure::SkipSignature),
    ("client", Azure::ClientId),
    ("tenant", Azure::AuthorityId),
    ("authority", Azure::AuthorityHost),
    ("object", Azure::ObjectId),
    ("identity", Azure::MsiResourceId),
    ("token file", Azure::FederatedTokenFile),
    ("tool", Azure::UseAzureCli),
    ("token", Azure::Token),
];

/// The origin of an address with these options.
pub(super) fn of(text: &str, options: &RemoteOptions) -> Result<Origin, String> {
    let mut url = parsed(text)?;
    url.set_fragment(None);
    let origin = Origin::new("object", shown(text));
    match url.scheme() {
        "http" | "https" => of_page(origin, &url, options),
        _ => of_store(origin, &url, options),
    }
}

/// Where bytes come from, for those who are led there: another address of these is another object.
pub(super) fn of_target(url: &Url) -> Origin {
    with_address(Origin::new("target", shown(url.as_str())), url.clone())
}

/// With an address that names no user.
fn with_address(origin: Origin, mut url: Url) -> Origin {
    let query = url.query().map(unsigned);
    url.set_query(None);
    let origin = origin.with("address", url.as_str());
    match query {
        Some(query) => origin.with("query", query),
        None => origin,
    }
}

fn of_page(origin: Origin, url: &Url, options: &RemoteOptions) -> Result<Origin, String> {
    let (mut bare, user) = (url.clone(), url.username());
    let bad = "its user or password cannot be left out";
    bare.set_username("").map_err(|()| bad)?;
    bare.set_password(None).map_err(|()| bad)?;
    let mut origin = with_address(origin, bare);
    if !user.is_empty() || url.password().is_some() {
        let decoded = |text: &str| address::percent_decoded(text).unwrap_or_else(|| text.into());
        origin = with_user(origin, &decoded(user), &decoded(url.password().unwrap_or_default()));
    }
    let mut headers: Vec<_> =
        options.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    // Those of one name stay in their order.
    headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (name, value) in headers {
        origin = match user_of(&name, value) {
            Some((user, password)) => with_user(origin, &user, &password),
            None => origin.with("header", name).with("value", value),
        };
    }
    Ok(origin)
}

/// With who asks. A password does not count, unless it alone says who that is.
fn with_user(origin: Origin, user: &[u8], password: &[u8]) -> Origin {
    let is_token =
        user.is_empty() || TOKEN_USERS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(user));
    let origin = origin.with("user", user);
    if is_token && !password.is_empty() { origin.with("password", password) } else { origin }
}

/// A query without the parts that change with each signature; unchanged if a name of a signature
/// occurs twice: only the server knows which of the two counts. Some are signed in two ways: once
/// for the store, once for a proxy before it.
fn unsigned(query: &str) -> String {
    let name_of = |part: &str| part.split_once('=').map_or(part, |(name, _)| name).to_owned();
    let names: Vec<String> = query.split('&').map(name_of).collect();
    let has = |wanted: &&str| names.iter().any(|name| name == wanted);
    let signings: Vec<_> = SIGNINGS.iter().filter(|signing| signing.marks.iter().all(has)).collect();
    let is_of = |signing: &&Signing, name: &str| {
        signing.marks.contains(&name) || signing.left_out.contains(&name) || signing.signer == Some(name)
    };
    let is_twice = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
    let is_signed = |name: &String| signings.iter().any(|signing| is_of(signing, name.as_str()));
    if names.iter().any(|name| is_signed(name) && is_twice(name)) {
        return query.to_owned();
    }
    let mut parts = Vec::new();
    for (part, name) in query.split('&').zip(&names) {
        if signings.iter().any(|signing| signing.left_out.contains(&name.as_str())) {
            continue;
        }
        let is_signer = signings.iter().any(|signing| signing.signer == Some(name.as_str()));
        let end = part.find("%2F").into_iter().chain(part.find("%2f")).chain(part.find('/')).min();
        parts.push(part.get(..end.filter(|_| is_signer).unwrap_or(part.len())).unwrap_or(part));
    }
    parts.join("&")
}

/// The user and the password that a header names.
fn user_of(name: &str, value: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, both) = value.split_once(' ')?;
    if name != AUTHORIZATION.as_str() || !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let mut both = base64_decoded(both.trim())?;
    let password = both.split_off(both.iter().position(|&byte| byte == b':')? + 1);
    // The colon.
    both.pop();
    Some((both, password))
}

/// Decodes base 64.
fn base64_decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

fn of_store(origin: Origin, url: &Url, options: &RemoteOptions) -> Result<Origin, String> {
    let (scheme, _) = ObjectStoreScheme::parse(url).map_err(|error| error.to_string())?;
    let mut origin = origin.with("address", url.as_str());
    let mut add = |field: &str, value: Option<String>| {
        if let Some(value) = value {
            origin = origin.clone().with(field, value);
        }
    };
    match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let builder = transport::s3(url, options)?;
            for (field, key) in &OF_S3 {
                add(field, builder.get_config_value(key));
            }
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let builder = transport::google(url, options)?;
            for (field, key) in &OF_GOOGLE {
                add(field, builder.get_config_value(key));
            }
            add("account", builder.get_config_value(&Google::ServiceAccountKey).map(|key| account(&key)));
            for key in [Google::ServiceAccount, Google::ApplicationCredentials] {
                let path = builder.get_config_value(&key);
                add("account", path.and_then(|path| fs::read_to_string(path).ok()).map(|key| account(&key)));
            }
        }
        _ => {
            let builder = transport::azure(url, options)?;
            for (field, key) in &OF_AZURE {
                add(field, builder.get_config_value(key));
            }
            let shared = builder.get_config_value(&Azure::SasKey);
            add("shared", shared.map(|query| unsigned(query.trim_start_matches('?'))));
        }
    }
    Ok(origin)
}

/// The account and the server of a Google key: its parts that are not secret.
fn account(key: &str) -> String {
    let parsed: serde_json::Value = serde_json::from_str(key).unwrap_or_default();
    let names = ["client_email", "client_id", "gcs_base_url", "disable_oauth", "type"];
    let fields: Vec<_> = names.iter().map(|name| parsed.get(name)).collect();
    serde_json::json!(fields).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(address: &str) -> Origin {
        of(address, &RemoteOptions::default()).unwrap()
    }

    fn same(one: &str, other: &str) -> bool {
        origin(one).salted(&[0; 32]) == origin(other).salted(&[0; 32])
    }

    #[test]
    fn signatures_are_left_out_and_what_they_sign_is_not() {
        for (query, expected) in [
            ("id=1&st=5&sig=7", "id=1&st=5&sig=7"),
            ("Expires=5&Signature=7", "Expires=5&Signature=7"),
            ("sv=1&st=5&sig=7&sr=b&sp=r&versionid=3", "sv=1&sr=b&sp=r&versionid=3"),
            ("sv=1&sr=b&si=p&se=5&sig=7", "sv=1&sr=b&si=p"),
            ("sv=1&ss=b&srt=o&sp=r&se=5&sig=7", "sv=1&ss=b&srt=o&sp=r"),
            // Of another site.
            ("sv=1&st=5&se=6&sig=7", "sv=1&st=5&se=6&sig=7"),
            ("sv=1&sr=b&st=5&sig=7", "sv=1&sr=b&st=5&sig=7"),
            ("sv=1&sr=b&sp=r&se=5&se=6&sig=7", "sv=1&sr=b&sp=r&se=5&se=6&sig=7"),
            ("sv=1&sr=b&sp=r&sig=7&sig=8", "sv=1&sr=b&sp=r&sig=7&sig=8"),
            ("sv=1&sr=b&sp=r&sig=7&x=1&x=2", "sv=1&sr=b&sp=r&x=1&x=2"),
            ("AWSAccessKeyId=a&Expires=5&Signature=7&x=1", "AWSAccessKeyId=a&x=1"),
            ("GoogleAccessId=a&Expires=5&Signature=7", "GoogleAccessId=a"),
            ("Key-Pair-Id=a&Policy=p&Signature=7", "Key-Pair-Id=a"),
            ("X-Amz-Credential=a%2F2026%2Fx&X-Amz-Signature=7&X-Amz-Date=d&y", "X-Amz-Credential=a&y"),
            ("X-Goog-Credential=a/2026/x&X-Goog-Signature=7", "X-Goog-Credential=a"),
            (
                "X-Amz-Credential=a/2026/x&X-Amz-Signature=7&x=1&Expires=5&Key-Pair-Id=k&Policy=p&Signature=8",
                "X-Amz-Credential=a&x=1&Key-Pair-Id=k",
            ),
            ("X-Amz-Date=d", "X-Amz-Date=d"),
            ("", ""),
        ] {
            assert_eq!(unsigned(query), expected);
        }
    }

    #[test]
    fn where_bytes_come_from_is_named_without_what_signs() {
        let target = |address: &str| of_target(&Url::parse(address).unwrap());
        assert_eq!(target("http://h/a?sv=1&sr=b&sp=r&sig=7"), target("http://h/a?sv=1&sr=b&sp=r&sig=8"));
        for (one, other) in [
            ("http://h/a", "http://h/b"),
            ("http://h/a", "https://h/a"),
            ("http://h/a", "http://h:81/a"),
            ("http://h/a?x=1", "http://h/a?x=2"),
        ] {
            assert_ne!(target(one), target(other));
        }
    }

    #[test]
    fn an_address_counts_as_the_server_sees_it() {
        assert!(same("http://Host:80/a#x", "http://host/a#y"));
        assert!(same("http://me:old@host/a", "http://me:new@host/a"));
        for (one, other) in [
            ("http://host/a", "https://host/a"),
            ("http://host/a", "http://host:81/a"),
            ("http://host/a", "http://host/a?"),
            ("http://host/a", "http://me@host/a"),
            ("http://host/a?x=1&y=2", "http://host/a?y=2&x=1"),
            ("http://host/a/b", "http://host/a%2Fb"),
        ] {
            assert!(!same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn a_password_that_alone_says_who_asks_counts() {
        for user in ["", "oauth2", "X-Access-Token", "__token__", "git", "api%5Fkey"] {
            assert!(!same(&format!("http://{user}:a@host/x"), &format!("http://{user}:b@host/x")), "{user}");
        }
        assert!(same("http://github:a@host/x", "http://github:b@host/x"));
        let by_header = |value: &str| {
            let headers = vec![("Authorization".to_owned(), value.to_owned())];
            let options = RemoteOptions { headers, ..RemoteOptions::default() };
            of("http://host/a", &options).unwrap().salted(&[0; 32])
        };
        // `oauth2:a` and `oauth2:b`, `:a` and `:b`.
        assert_ne!(by_header("Basic b2F1dGgyOmE="), by_header("Basic b2F1dGgyOmI="));
        assert_ne!(by_header("Basic OmE="), by_header("Basic OmI="));
        assert_eq!(by_header("Basic OmE="), origin("http://:a@host/a").salted(&[0; 32]));
        assert_eq!(by_header("Basic b2F1dGgyOmE="), origin("http://oauth2:a@host/a").salted(&[0; 32]));
    }

    #[test]
    fn who_asks_counts_and_passwords_do_not() {
        let with = |headers: &[(&str, &str)]| {
            let headers = headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            let options = RemoteOptions { headers, ..RemoteOptions::default() };
            of("http://host/a", &options).unwrap().salted(&[0; 32])
        };
        // `me:old` and `me:new`.
        let old = with(&[("Authorization", "Basic bWU6b2xk")]);
        assert_eq!(old, with(&[("authorization", "basic bWU6bmV3")]));
        assert_eq!(old, origin("http://me:word@host/a").salted(&[0; 32]));
        assert_ne!(with(&[("Authorization", "Bearer a")]), with(&[("Authorization", "Bearer b")]));
        assert_eq!(with(&[("A", "1"), ("B", "2")]), with(&[("b", "2"), ("a", "1")]));
        assert_ne!(with(&[("a", "1"), ("a", "2")]), with(&[("a", "2"), ("a", "1")]));
    }
}
