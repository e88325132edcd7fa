//! Object stores, as far as a server that inspects requests can check.

use stook::error::RemoteErrorKind;
use stook::source::Source;
use stook::source::remote::{RemoteOptions, RemoteSource};
use stook::{Error, source::is_remote};
use stook_testing::conformance::noise;
use stook_testing::web::{End, Page, Reply, WebServer};

use super::{quick, range, read, reported};

pub(super) fn settings(pairs: &[(&str, &str)]) -> RemoteOptions {
    let settings = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    RemoteOptions { settings, ..quick() }
}

pub(super) fn s3(server: &WebServer) -> RemoteOptions {
    settings(&[
        ("AWS_ENDPOINT_URL", &server.url("")),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "who"),
        ("AWS_SECRET_ACCESS_KEY", "hidden"),
        ("AWS_REGION", "somewhere"),
    ])
}

#[test]
fn requests_to_s3_are_signed_checked_and_tried_again_like_any_other() {
    let page = Page::new(noise(60, 9000));
    let bytes = page.bytes.clone();
    let server = WebServer::start(move |request, nth| match nth {
        0 | 2 => Reply::status(503).body("<Error><Code>SlowDown</Code></Error>"),
        3 => page.reply(request).end(End::Closed(3000)),
        _ => page.reply(request).header("x-amz-version-id", "v7"),
    });
    let source = RemoteSource::open("s3://bucket/a key/b", &s3(&server)).unwrap();
    assert_eq!((source.path().to_str().unwrap(), source.len()), ("s3://bucket/a key/b", 9000));
    assert_eq!(source.identity().version.as_deref(), Some("v7"));
    assert!(read(&source, range(5, 8000)).unwrap() == bytes[5..8000]);
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    for request in &requests {
        assert_eq!((request.method.as_str(), request.target.as_str()), ("GET", "/bucket/a%20key/b"));
        let signature = request.header("authorization").unwrap();
        assert!(signature.starts_with("AWS4-HMAC-SHA256 Credential=who/"), "{signature}");
        assert!(signature.contains("/somewhere/s3/aws4_request"), "{signature}");
    }
    assert_eq!(requests[4].range(), Some((3005, 8000)));
    assert_eq!(requests[4].header("if-match"), Some("\"first\""));
    assert_eq!(source.statistics().retries, 3);
    assert!(!format!("{source:?}").contains("hidden"));
}

#[test]
fn refusals_of_s3_are_reported_with_their_code() {
    let body = "<Error><Code>NoSuchKey</Code><Key>k</Key></Error>";
    let server = WebServer::start(move |_, _| Reply::status(404).body(body));
    let error = RemoteSource::open("s3://bucket/k", &s3(&server)).unwrap_err();
    let (kind, tries, text) = reported(&error);
    assert_eq!((kind, tries), (RemoteErrorKind::NotFound, 1));
    assert!(text.starts_with("cannot open s3://bucket/k: ") && text.contains("NoSuchKey"), "{text}");
}

#[test]
fn a_bucket_in_another_region_is_reported() {
    let server = WebServer::start(|_, _| Reply::status(301));
    let (kind, _, text) = reported(&RemoteSource::open("s3://bucket/k", &s3(&server)).unwrap_err());
    assert_eq!(kind, RemoteErrorKind::Refused);
    assert!(text.contains("check the region"), "{text}");
}

#[test]
fn changed_objects_of_s3_are_reported() {
    let (first, then) = (Page::new(noise(61, 900)), Page::new(noise(62, 900)).etag(Some("\"second\"")));
    let server = WebServer::start(
        move |request, nth| if nth == 0 { first.reply(request) } else { then.reply(request) },
    );
    let source = RemoteSource::open("s3://bucket/k", &s3(&server)).unwrap();
    let error = read(&source, range(0, 900)).unwrap_err();
    assert!(matches!(error, Error::SourceChanged { .. }), "{error}");
}

#[test]
fn other_stores_are_asked_in_their_way() {
    let page = Page::new(noise(63, 900));
    let bytes = page.bytes.clone();
    let server = WebServer::start(move |request, _| page.reply(request));
    let azure = settings(&[
        ("AZURE_STORAGE_ACCOUNT_NAME", "who"),
        ("AZURE_STORAGE_ACCOUNT_KEY", "aGlkZGVu"),
        ("AZURE_STORAGE_ENDPOINT", &server.url("/who")),
        ("AZURE_ALLOW_HTTP", "true"),
    ]);
    let key = format!(
        r#"{{"gcs_base_url": "{}", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}}"#,
        server.url("")
    );
    let google = settings(&[("GOOGLE_SERVICE_ACCOUNT_KEY", &key), ("allow_http", "true")]);
    for (address, options) in [("az://container/k", azure), ("gs://bucket/k", google)] {
        assert!(is_remote(address));
        let source = RemoteSource::open(address, &options).unwrap();
        assert!(read(&source, range(1, 900)).unwrap() == bytes[1..], "{address}");
    }
    let targets: Vec<_> = server.requests().into_iter().map(|request| request.target).collect();
    assert!(targets.iter().all(|target| target.ends_with("/k")), "{targets:?}");
}

#[test]
fn without_credentials_the_message_says_which_to_set_and_nothing_of_the_machine() {
    // There is no metadata service on the loopback: nothing listens at the port of a server that
    // has ended.
    let gone = WebServer::start(|_, _| Reply::status(404)).url("");
    let refusing = WebServer::start(|_, _| Reply::status(404));
    for metadata in [gone, refusing.url("")] {
        let options = settings(&[("AWS_METADATA_ENDPOINT", &metadata), ("AWS_REGION", "somewhere")]);
        let (kind, tries, text) = reported(&RemoteSource::open("s3://bucket/key", &options).unwrap_err());
        assert_eq!((kind, tries), (RemoteErrorKind::Denied, 1), "{text}");
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SKIP_SIGNATURE=true"] {
            assert!(text.contains(name), "{text}");
        }
        assert!(!text.contains("127.0.0.1") && !text.contains("169.254"), "{text}");
    }
}
