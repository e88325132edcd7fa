//! Servers and networks that fail.

use std::time::Duration;

use stook::Error;
use stook::error::RemoteErrorKind;
use stook::source::Source;
use stook::source::remote::{RemoteOptions, RemoteSource};
use stook_testing::conformance::noise;
use stook_testing::web::{End, Page, Reply, WebRequest, WebServer};

use super::{quick, range, read, reported};

const LEN: u64 = 30_000;

fn page() -> Page {
    Page::new(noise(20, LEN as usize))
}

/// An opened object whose answers to reads, counted from 0, are altered.
fn bent(
    options: &RemoteOptions,
    bend: impl Fn(Reply, &WebRequest, usize) -> Reply + Send + Sync + 'static,
) -> (WebServer, RemoteSource) {
    let page = page();
    let server = WebServer::start(move |request, nth| match nth {
        0 => page.reply(request),
        _ => bend(page.reply(request), request, nth - 1),
    });
    let source = RemoteSource::open(&server.url("/object"), options).unwrap();
    (server, source)
}

#[test]
fn what_passes_is_tried_again() {
    for status in [408, 429, 500, 502, 503, 504] {
        let (server, source) =
            bent(&quick(), move |reply, _, nth| if nth < 3 { Reply::status(status) } else { reply });
        assert!(read(&source, range(10, 20_000)).unwrap() == page().bytes[10..20_000]);
        assert_eq!(server.requests().len(), 5);
        assert_eq!((source.statistics().retries, source.statistics().requests), (3, 5));
    }
}

#[test]
fn tries_come_to_an_end_and_the_error_tells_all() {
    let (server, source) = bent(&quick(), |_, _, _| Reply::status(500));
    let (kind, tries, text) = reported(&read(&source, range(10, 20)).unwrap_err());
    assert_eq!((kind, tries), (RemoteErrorKind::GaveUp, 4));
    for part in ["bytes [10, 20) of http://127.0.0.1", "/object: ", "500", "after 4 tries"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(server.requests().len(), 5);
}

#[test]
fn opening_is_tried_again_too() {
    let page = page();
    let server = WebServer::start(move |request, nth| match nth {
        0 => Reply::status(503),
        1 => page.reply(request).end(End::Reset(0)),
        _ => page.reply(request),
    });
    assert_eq!(RemoteSource::open(&server.url("/a"), &quick()).unwrap().len(), LEN);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn what_does_not_pass_is_not_tried_again() {
    for (status, expected) in [
        (400, RemoteErrorKind::Refused),
        (401, RemoteErrorKind::Denied),
        (403, RemoteErrorKind::Denied),
        (404, RemoteErrorKind::NotFound),
        (410, RemoteErrorKind::NotFound),
        (501, RemoteErrorKind::Refused),
        (301, RemoteErrorKind::Refused),
    ] {
        let (server, source) = bent(&quick(), move |_, _, _| Reply::status(status));
        let (kind, tries, text) = reported(&read(&source, range(0, 9)).unwrap_err());
        assert_eq!((kind, tries), (expected, 1), "{text}");
        assert!(text.contains(&status.to_string()), "{text}");
        assert_eq!(server.requests().len(), 2);
        let opened = RemoteSource::open(&server.url("/a"), &quick()).unwrap_err();
        assert_eq!(reported(&opened).0, expected);
    }
}

#[test]
fn what_fails_behind_a_redirect_is_reported_with_where_that_was() {
    let redirected = WebServer::start(|_, _| Reply::status(404));
    let target = redirected.url("/there?signature=secret");
    let server = WebServer::start(move |_, _| Reply::status(302).header("Location", &target));
    let (kind, _, text) = reported(&RemoteSource::open(&server.url("/here"), &quick()).unwrap_err());
    assert_eq!(kind, RemoteErrorKind::NotFound);
    assert!(text.contains(&server.url("/here")) && !text.contains("secret"), "{text}");
    assert!(text.contains(&format!("(found at {}", redirected.url("/there?…"))), "{text}");
}

#[test]
fn a_refusal_shows_its_code_and_nothing_else_of_its_body() {
    let body = "<Error><Code>SignatureDoesNotMatch</Code><StringToSign>hidden</StringToSign></Error>";
    let (_server, source) = bent(&quick(), move |_, _, _| Reply::status(403).body(body));
    let (_, _, text) = reported(&read(&source, range(0, 9)).unwrap_err());
    assert!(text.contains("SignatureDoesNotMatch") && !text.contains("hidden"), "{text}");
}

#[test]
fn a_server_that_names_a_wait_is_heard() {
    let page_of = page();
    let server = WebServer::start(move |request, nth| match nth {
        1 => Reply::status(429).header("Retry-After", "0"),
        2 => Reply::status(503).header("Retry-After", "3600"),
        _ => page_of.reply(request),
    });
    let options = RemoteOptions {
        backoff_first: Duration::from_secs(3600),
        backoff_max: Duration::from_secs(3600),
        ..quick()
    };
    let source = RemoteSource::open(&server.url("/a"), &options).unwrap();
    let (kind, tries, text) = reported(&read(&source, range(0, 9)).unwrap_err());
    assert_eq!(
        (kind, tries),
        (RemoteErrorKind::Deadline, 2),
        "the first wait is none, the second too long: {text}"
    );
    assert!(text.contains("503") && text.contains("left alone for 3600s"), "{text}");
}

#[test]
fn bodies_that_break_are_taken_up_where_they_broke() {
    for break_at in [End::Closed(7000), End::Reset(7000), End::Stalled(7000)] {
        let options = RemoteOptions { stall: Duration::from_millis(300), ..quick() };
        let (server, source) =
            bent(&options, move |reply, _, nth| if nth < 2 { reply.end(break_at) } else { reply });
        assert!(read(&source, range(100, 29_000)).unwrap() == page().bytes[100..29_000], "{break_at:?}");
        let asked: Vec<_> = server.requests().iter().skip(1).filter_map(WebRequest::range).collect();
        assert_eq!(asked.len(), 3);
        assert_eq!(asked[0], (100, 29_000));
        assert!(asked[1].0 > 100 && asked[2].0 > asked[1].0, "it begins again where it broke: {asked:?}");
        if break_at != End::Reset(7000) {
            // A reset may overtake bytes that were sent before it.
            assert_eq!((asked[1].0, asked[2].0), (7100, 14_100));
        }
        assert!(server.requests().iter().skip(1).all(|request| request.header("if-match").is_some()));
        assert_eq!(source.statistics().retries, 2);
    }
}

#[test]
fn bodies_shorter_than_their_range_are_taken_up_too() {
    let (_server, source) = bent(&quick(), |mut reply, _, nth| {
        if nth == 0 {
            reply.body.truncate(5000);
        }
        reply
    });
    assert!(read(&source, range(0, LEN)).unwrap() == page().bytes);
    assert_eq!(source.statistics().retries, 1);
}

#[test]
fn bodies_longer_than_their_range_are_refused() {
    let (_server, source) = bent(&quick(), |mut reply, _, _| {
        reply.body.push(0);
        reply
    });
    let (kind, tries, text) = reported(&read(&source, range(0, 100)).unwrap_err());
    assert_eq!((kind, tries), (RemoteErrorKind::Protocol, 1), "{text}");
    assert!(text.contains("more than the 100 bytes"), "{text}");
}

#[test]
fn ranges_that_were_not_asked_for_are_refused() {
    for (sent, expected) in [
        (Some("bytes 101-199/30000"), "sent bytes [101, 200) where bytes [100, 200) were asked for"),
        (Some("bytes 100-198/30000"), "sent bytes [100, 199) where"),
        (Some("bytes 0-99/30000"), "bytes [0, 100) where"),
        (Some("bytes 100-99/30000"), "strange Content-Range: \"bytes 100-99/30000\""),
        (Some("bytes 100-199/*"), "strange Content-Range"),
        (Some("apples"), "strange Content-Range"),
        (None, "no Content-Range"),
    ] {
        let (server, source) = bent(&quick(), move |reply, _, _| match sent {
            Some(sent) => reply.header("Content-Range", sent),
            None => reply.without("Content-Range"),
        });
        let (kind, tries, text) = reported(&read(&source, range(100, 200)).unwrap_err());
        assert_eq!((kind, tries), (RemoteErrorKind::Protocol, 1), "{text}");
        assert!(text.contains(expected), "{text}");
        assert_eq!(server.requests().len(), 2);
    }
}

#[test]
fn servers_that_forget_ranges_are_reported() {
    let (_server, source) = bent(&quick(), |_, _, _| page().whole());
    let (kind, _, text) = reported(&read(&source, range(100, 200)).unwrap_err());
    assert_eq!(kind, RemoteErrorKind::NoRanges, "{text}");
}

#[test]
fn encoded_objects_are_reported() {
    let (server, source) = bent(&quick(), |reply, _, _| reply.header("Content-Encoding", "gzip"));
    let (kind, _, text) = reported(&read(&source, range(100, 200)).unwrap_err());
    assert_eq!(kind, RemoteErrorKind::Encoded, "{text}");
    let opened = RemoteSource::open(&server.url("/a"), &quick()).unwrap_err();
    assert!(matches!(reported(&opened), (RemoteErrorKind::Encoded, 1, text) if text.contains("gzip")));
}

#[test]
fn a_slow_body_ends_at_the_deadline() {
    let options = RemoteOptions { deadline: Duration::from_millis(400), ..quick() };
    let (_server, source) = bent(&options, |reply, _, _| reply.pause(Duration::from_millis(200)));
    let error = read(&source, range(0, LEN)).unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::TimedOut));
    let (kind, tries, text) = reported(&error);
    assert_eq!((kind, tries), (RemoteErrorKind::Deadline, 1), "{text}");
    assert!(text.contains("within 400ms"), "{text}");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let options = RemoteOptions { stall: Duration::from_millis(100), tries: 2, ..quick() };
    let (_server, source) = bent(&options, |reply, _, _| reply.latency(Duration::from_secs(3600)));
    let (kind, tries, text) = reported(&read(&source, range(0, 5)).unwrap_err());
    assert_eq!((kind, tries), (RemoteErrorKind::GaveUp, 2), "{text}");
    assert!(text.contains("did not send an answer for 100ms"), "{text}");
}

#[test]
fn a_server_that_dies_in_the_middle_is_reported() {
    let (server, source) = bent(&quick(), |reply, _, _| reply.end(End::Killed(5000)));
    let (kind, tries, text) = reported(&read(&source, range(0, LEN)).unwrap_err());
    assert_eq!((kind, tries), (RemoteErrorKind::GaveUp, 4), "{text}");
    assert!(text.contains("refused"), "the last cause is that no server is there: {text}");
    drop(server);
}

#[test]
fn nobody_at_an_address_is_reported() {
    let server = WebServer::start(|_, _| Reply::status(500));
    let address = server.url("/a");
    drop(server);
    let (kind, tries, text) = reported(&RemoteSource::open(&address, &quick()).unwrap_err());
    assert_eq!((kind, tries), (RemoteErrorKind::GaveUp, 4), "{text}");
    assert!(text.starts_with("cannot open http://127.0.0.1:") && text.contains("refused"), "{text}");
}

#[test]
fn one_range_that_fails_fails_no_other() {
    let (_server, source) = bent(&quick(), |reply, request, _| match request.range() {
        Some((100, _)) => Reply::status(404),
        _ => reply,
    });
    assert!(matches!(read(&source, range(100, 200)), Err(Error::Remote(_))));
    assert!(read(&source, range(101, 200)).unwrap() == page().bytes[101..200]);
}
