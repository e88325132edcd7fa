//! Servers that do as they should.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::remote::{RemoteOptions, RemoteSource};
use stook::source::{self, Session, SessionOptions, Source, read_batch};
use stook::{Error, error::RemoteErrorKind};
use stook_testing::conformance::{noise, source_conformance};
use stook_testing::web::{Page, Reply, WebServer};

use super::{quick, range, read, reported};

#[test]
fn objects_keep_every_promise_of_a_source() {
    for len in [0, 1, 20_000] {
        let bytes = noise(1, len);
        let page = Page::new(bytes.clone());
        let server = WebServer::start(move |request, _| page.reply(request));
        let source: Arc<dyn Source> = Arc::new(RemoteSource::open(&server.url("/a"), &quick()).unwrap());
        source_conformance(&source, &bytes, &Backend::Threads);
    }
}

#[test]
fn an_object_is_opened_with_one_request_and_read_with_one_for_each_piece() {
    let bytes = noise(2, 100_000);
    let page = Page::new(bytes.clone());
    let server = WebServer::start(move |request, _| page.reply(request));
    let source = RemoteSource::open(&server.url("/a/b?c=d"), &quick()).unwrap();
    assert_eq!((source.len(), server.requests().len()), (100_000, 1));
    assert_eq!(source.identity().etag.as_deref(), Some("\"first\""));
    let options = SessionOptions { requests: 3, max_request_bytes: 10_000, ..SessionOptions::default() };
    let mut session = Session::new(&Backend::Auto, options).unwrap();
    let read = session.read_batch(&source, &[ByteRange::to(100_000)], Access::Cached).unwrap();
    assert!(read[0] == bytes);
    let requests = server.requests();
    assert_eq!(requests.len(), 11);
    for request in &requests {
        assert_eq!((request.method.as_str(), request.target.as_str()), ("GET", "/a/b?c=d"));
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        assert!(request.header("user-agent").unwrap().starts_with("stook/"));
        assert!(request.range().is_some());
    }
    assert!(requests.iter().skip(1).all(|request| request.header("if-match") == Some("\"first\"")));
    let statistics = source.statistics();
    assert_eq!((statistics.requests, statistics.retries, statistics.bytes), (11, 0, 100_001));
    assert_eq!(statistics.latency.count(), 11);
    assert!(server.connections() <= 4, "connections are used again");
}

#[test]
fn weak_tags_are_compared_here_and_never_sent() {
    let page = Page::new(noise(3, 5000)).etag(Some("W/\"weak\""));
    let bytes = page.bytes.clone();
    let server = WebServer::start(move |request, _| page.reply(request));
    let source = RemoteSource::open(&server.url("/a"), &quick()).unwrap();
    assert!(read(&source, range(1, 4000)).unwrap() == bytes[1..4000]);
    assert!(server.requests().iter().all(|request| request.header("if-match").is_none()));
}

#[test]
fn without_a_tag_the_time_tells_and_without_a_time_the_length() {
    for (modified, expected) in [
        (Some("Wed, 21 Oct 2015 07:28:00 GMT"), "5,000 bytes, modified 2015-10-21T07:28:00Z"),
        (None, "5,000 bytes, with neither an ETag nor a time"),
    ] {
        let page = Page::new(noise(4, 5000)).etag(None).modified(modified);
        let bytes = page.bytes.clone();
        let server = WebServer::start(move |request, _| page.reply(request));
        let source = RemoteSource::open(&server.url("/a"), &quick()).unwrap();
        assert_eq!(source.identity().to_string(), expected);
        assert!(read(&source, range(0, 5000)).unwrap() == bytes);
    }
}

#[test]
fn addresses_open_what_they_mean() {
    let bytes = noise(5, 3000);
    let page = Page::new(bytes.clone());
    let server = WebServer::start(move |request, _| page.reply(request));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a file");
    std::fs::write(&path, &bytes).unwrap();
    let escaped = format!("file://{}", path.to_str().unwrap().replace(' ', "%20"));
    for address in [path.to_str().unwrap(), &escaped, &server.url("/a")] {
        let source = source::open(address).unwrap();
        let ranges = [range(5, 2000), range(0, 3000)];
        let read = read_batch(&Backend::Auto, &*source, &ranges, Access::Cached).unwrap();
        assert!(read[0] == bytes[5..2000] && read[1] == bytes, "{address}");
    }
}

#[test]
fn wrong_addresses_are_reported() {
    for (address, expected) in [
        ("/a/path", "belongs before"),
        ("http://", "empty host"),
        ("http://host:port/x", "invalid port"),
        ("s3://bucket", "names no object"),
        ("s3://bucket/a//b", "empty path segment"),
        (
            "s3://bucket/key?versionId=1",
            "s3://bucket/key?… cannot be opened: an object in a store has no query",
        ),
        ("gs://bucket/key#part", "`#` in a key is written `%23`"),
        ("az://container/a/../k", "because of the part `..`"),
    ] {
        let error = RemoteSource::open(address, &quick()).unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let options = RemoteOptions { settings: vec![("AWS_REGIN".into(), "x".into())], ..quick() };
    let error = RemoteSource::open("s3://bucket/key", &options).unwrap_err().to_string();
    assert!(error.contains("there is no setting `AWS_REGIN` of S3"), "{error}");
}

#[test]
fn redirects_are_followed_with_range_and_condition() {
    let page = Page::new(noise(6, 9000));
    let bytes = page.bytes.clone();
    let redirected = WebServer::start(move |request, _| page.reply(request));
    let target = redirected.url("/there?signature=secret");
    let server = WebServer::start(move |_, _| Reply::status(302).header("Location", &target));
    let source = RemoteSource::open(&server.url("/here"), &quick()).unwrap();
    assert!(read(&source, range(100, 8000)).unwrap() == bytes[100..8000]);
    let last = redirected.requests().pop().unwrap();
    assert_eq!((last.range(), last.header("if-match")), (Some((100, 8000)), Some("\"first\"")));
}

#[test]
fn what_a_caller_gives_for_one_server_goes_to_no_other() {
    let page = Page::new(noise(9, 9000));
    let redirected = WebServer::start(move |request, _| page.reply(request));
    let there = redirected.url("/there");
    // Another one leads back, and then to the object.
    let home = Arc::new(OnceLock::<String>::new());
    let back = Arc::clone(&home);
    let other = WebServer::start(move |request, _| match request.target.as_str() {
        "/back" => Reply::status(307).header("Location", back.get().unwrap()),
        _ => Reply::status(302).header("Location", &there),
    });
    let (away, round) = (other.url("/away"), other.url("/back"));
    let server = WebServer::start(move |request, _| match request.target.as_str() {
        "/first" => Reply::status(301).header("Location", "/second"),
        "/second" => Reply::status(302).header("Location", &round),
        _ => Reply::status(302).header("Location", &away),
    });
    home.set(server.url("/third")).unwrap();
    let headers = ["X-Api-Key", "User-Agent", "Cookie"].map(|name| (name.to_owned(), "hidden".to_owned()));
    let options = RemoteOptions { headers: headers.into(), ..quick() };
    let address = server.url("/first").replace("://", "://me:hidden@");
    assert_eq!(RemoteSource::open(&address, &options).unwrap().len(), 9000);
    for request in server.requests() {
        let is_home = request.target != "/third";
        assert_eq!(request.header("x-api-key").is_some(), is_home, "{request:?}");
        assert_eq!(request.header("authorization").is_some(), is_home, "{request:?}");
    }
    let asked = [other.requests(), redirected.requests()].concat();
    assert_eq!(asked.len(), 3);
    for request in asked {
        assert!(!format!("{request:?}").contains("hidden"), "{request:?}");
        assert_eq!(request.header("authorization"), None);
        assert!(request.header("user-agent").unwrap().starts_with("stook/"));
        assert_eq!((request.range(), request.header("accept-encoding")), (Some((0, 1)), Some("identity")));
    }
}

#[test]
fn a_redirect_that_leads_nowhere_is_reported() {
    for (location, expected) in [("ftp://host/x?sig=hidden", "address of `ftp`"), ("http://", "no address")] {
        let server = WebServer::start(move |_, _| Reply::status(302).header("Location", location));
        let (_, tries, text) = reported(&RemoteSource::open(&server.url("/"), &quick()).unwrap_err());
        assert!(tries == 1 && text.contains(expected) && !text.contains("hidden"), "{text}");
    }
}

#[test]
fn redirects_without_end_are_reported_and_not_tried_again() {
    let server = WebServer::start(|_, _| Reply::status(302).header("Location", "/again?key=secret"));
    let error = RemoteSource::open(&server.url("/"), &quick()).unwrap_err();
    let (kind, tries, text) = reported(&error);
    assert_eq!((kind, tries), (RemoteErrorKind::Protocol, 1), "{text}");
    assert!(text.contains("redirect") && !text.contains("secret"), "{text}");
}

#[test]
fn users_passwords_and_headers_are_sent_and_never_shown() {
    let page = Page::new(b"bytes".to_vec());
    let server = WebServer::start(move |request, nth| match nth {
        0 => page.reply(request),
        _ => Reply::status(403),
    });
    let address = server.url("/x?token=hidden3").replace("http://", "http://me%40home:hidden1@");
    let headers = vec![("X-Key".to_owned(), "hidden2".to_owned())];
    let options = RemoteOptions { headers, ..quick() };
    let source = RemoteSource::open(&address, &options).unwrap();
    let request = server.requests().pop().unwrap();
    // me@home:hidden1
    assert_eq!(request.header("authorization"), Some("Basic bWVAaG9tZTpoaWRkZW4x"));
    assert_eq!(request.header("x-key"), Some("hidden2"));
    assert!(!request.header("host").unwrap().contains("hidden"));
    let error = read(&source, range(0, 5)).unwrap_err();
    let shown = format!("{error} {error:?} {source:?} {} {options:?}", source.path().display());
    assert!(shown.contains("/x?…") && !shown.contains("hidden"), "{shown}");
}

#[test]
fn slow_answers_and_slow_bodies_are_waited_for_as_long_as_something_comes() {
    let page = Page::new(noise(7, 20_000));
    let bytes = page.bytes.clone();
    let time = Duration::from_millis(40);
    let server = WebServer::start(move |request, _| page.reply(request).latency(time).pause(time));
    // The whole takes longer than the time in which something must come.
    let options = RemoteOptions { stall: Duration::from_millis(700), ..quick() };
    let source = RemoteSource::open(&server.url("/a"), &options).unwrap();
    assert!(read(&source, range(0, 20_000)).unwrap() == bytes);
}

#[test]
fn servers_without_ranges_are_reported_or_read_as_a_whole() {
    let page = Page::new(noise(8, 50_000));
    let bytes = page.bytes.clone();
    let server = WebServer::start(move |_, _| page.whole());
    let error = RemoteSource::open(&server.url("/a"), &quick()).unwrap_err();
    let (kind, _, text) = reported(&error);
    assert_eq!(kind, RemoteErrorKind::NoRanges);
    assert!(text.contains("only be read as a whole") && !text.contains("RemoteOptions"), "{text}");
    for whole_file_memory in [1 << 20, 49_999] {
        let options = RemoteOptions { whole_file: true, whole_file_memory, ..quick() };
        let before = server.requests().len();
        let source = RemoteSource::open(&server.url("/a"), &options).unwrap();
        assert!(source.is_whole());
        let source: Arc<dyn Source> = Arc::new(source);
        source_conformance(&source, &bytes, &Backend::Threads);
        let with_range = |request: &&stook_testing::web::WebRequest| request.range().is_none();
        assert_eq!(server.requests()[before..].iter().filter(with_range).count(), 1);
    }
}

#[test]
fn https_is_spoken_and_what_does_not_speak_it_is_reported() {
    let page = Page::new(b"bytes".to_vec());
    let server = WebServer::start(move |request, _| page.reply(request));
    let address = server.url("/x").replace("http://", "https://");
    let error = RemoteSource::open(&address, &quick()).unwrap_err();
    let (kind, tries, text) = reported(&error);
    assert_eq!((kind, tries), (RemoteErrorKind::Refused, 1), "{text}");
    assert!(text.contains("corrupt message"), "{text}");
}
