//! Objects that change while they are read: never a mix of two states.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use stook::Error;
use stook::error::RemoteErrorKind;
use stook::source::Source;
use stook::source::remote::{RemoteOptions, RemoteSource};
use stook_testing::conformance::noise;
use stook_testing::web::{End, Page, Reply, WebServer};

use super::{quick, range, read, reported};

/// An object that is `first` until `after` requests have come, and `then` from then on.
fn changing(first: Page, then: Page, after: usize) -> (WebServer, RemoteSource) {
    let server = WebServer::start(
        move |request, nth| if nth < after { first.reply(request) } else { then.reply(request) },
    );
    let source = RemoteSource::open(&server.url("/a"), &quick()).unwrap();
    (server, source)
}

/// Checks that a read error names both states.
fn is_reported(error: &Error, before: &str, after: &str) {
    assert!(matches!(error, Error::SourceChanged { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("it was {before}")), "{text}");
    assert!(text.contains(&format!("it is now {after}")), "{text}");
}

#[test]
fn a_replaced_object_is_reported_with_both_states() {
    let first = Page::new(noise(30, 9000));
    for (then, after) in [
        (Page::new(noise(31, 9000)).etag(Some("\"second\"")), "9,000 bytes, ETag \"second\""),
        (Page::new(noise(31, 8000)).etag(Some("\"second\"")), "8,000 bytes, ETag \"second\""),
        (Page::new(noise(31, 10_000)).etag(Some("\"second\"")), "10,000 bytes, ETag \"second\""),
        (Page::new(Vec::new()).etag(Some("\"second\"")), "0 bytes, ETag \"second\""),
        (Page::new(noise(31, 9000)).etag(None).modified(None), "9,000 bytes, with neither"),
    ] {
        let (_server, source) = changing(first.clone(), then, 2);
        assert!(read(&source, range(0, 100)).unwrap() == first.bytes[..100]);
        is_reported(&read(&source, range(100, 9000)).unwrap_err(), "9,000 bytes, ETag \"first\"", after);
        assert!(matches!(source.check_unchanged(), Err(Error::SourceChanged { .. })));
    }
}

#[test]
fn without_if_match_the_answer_is_compared() {
    for etag in [None, Some("W/\"weak\"")] {
        let first = Page::new(noise(32, 9000)).etag(etag);
        let then = Page::new(noise(33, 9000)).etag(etag.map(|_| "W/\"other\""));
        let then = then.modified(Some("Thu, 22 Oct 2015 07:28:00 GMT"));
        let (server, source) = changing(first, then, 1);
        assert!(matches!(read(&source, range(1, 9000)), Err(Error::SourceChanged { .. })));
        assert!(server.requests().iter().all(|request| request.header("if-match").is_none()));
    }
}

#[test]
fn a_server_that_ignores_conditions_is_seen_through() {
    let first = Page::new(noise(34, 9000));
    let then = Page::new(noise(35, 9000)).etag(Some("\"second\""));
    let server = WebServer::start(move |request, nth| {
        let mut request = request.clone();
        request.headers.retain(|(name, _)| name != "if-match");
        if nth == 0 { first.reply(&request) } else { then.reply(&request) }
    });
    let source = RemoteSource::open(&server.url("/a"), &quick()).unwrap();
    is_reported(
        &read(&source, range(0, 9000)).unwrap_err(),
        "9,000 bytes, ETag \"first\"",
        "9,000 bytes, ETag \"second\"",
    );
}

#[test]
fn a_body_that_broke_is_not_continued_with_another_object() {
    let first = Page::new(noise(36, 9000));
    let then = Page::new(noise(37, 9000)).etag(Some("\"second\""));
    let server = WebServer::start(move |request, nth| match nth {
        0 => first.reply(request),
        1 => first.reply(request).end(End::Closed(3000)),
        _ => then.reply(request),
    });
    let source = RemoteSource::open(&server.url("/a"), &quick()).unwrap();
    is_reported(
        &read(&source, range(0, 9000)).unwrap_err(),
        "9,000 bytes, ETag \"first\"",
        "9,000 bytes, ETag \"second\"",
    );
}

#[test]
fn without_tag_and_time_another_length_is_reported() {
    let first = Page::new(noise(38, 9000)).etag(None).modified(None);
    let then = Page::new(noise(39, 9001)).etag(None).modified(None);
    let (_server, source) = changing(first, then, 1);
    let error = read(&source, range(0, 5)).unwrap_err();
    is_reported(
        &error,
        "9,000 bytes, with neither an ETag nor a time",
        "9,001 bytes, with neither an ETag nor a time",
    );
}

#[test]
fn an_object_that_is_gone_is_reported() {
    let page = Page::new(noise(40, 9000));
    let server = WebServer::start(move |request, nth| match nth {
        0 => page.reply(request),
        1 => Reply::status(412),
        _ => Reply::status(404),
    });
    let source = RemoteSource::open(&server.url("/a"), &quick()).unwrap();
    let error = read(&source, range(0, 5)).unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound), "{error}");
}

#[test]
fn a_condition_that_fails_for_nothing_is_reported_as_that() {
    let page = Page::new(noise(41, 9000));
    let server = WebServer::start(move |request, _| match request.header("if-match") {
        Some(_) => Reply::status(412),
        None => page.reply(request),
    });
    let source = RemoteSource::open(&server.url("/a"), &quick()).unwrap();
    let (_, _, text) = reported(&read(&source, range(0, 5)).unwrap_err());
    assert!(text.contains("412") && text.contains("though the object is what it was"), "{text}");
}

#[test]
fn an_etag_that_stays_beside_another_time_is_another_state_unless_it_is_a_hash() {
    let hash = format!("\"{}\"", "ab01".repeat(8));
    for (etag, is_same) in [("\"2328\"", false), (hash.as_str(), true)] {
        let first = Page::new(noise(49, 9000)).etag(Some(etag));
        let then = first.clone().modified(Some("Thu, 22 Oct 2015 07:28:00 GMT"));
        let (_server, source) = changing(first, then, 1);
        assert_eq!(read(&source, range(0, 9000)).is_ok(), is_same, "{etag}");
        assert_eq!(source.check_unchanged().is_ok(), is_same, "{etag}");
    }
}

#[test]
fn what_is_no_etag_does_not_hide_another_time() {
    for etag in ["", "\"\"", "w/\"x\"", "null", "abc"] {
        let first = Page::new(noise(50, 9000)).etag(Some(etag));
        let then = Page::new(noise(51, 9000)).etag(Some(etag));
        let (server, source) = changing(first, then.modified(Some("Thu, 22 Oct 2015 07:28:00 GMT")), 1);
        let error = read(&source, range(0, 9000)).unwrap_err();
        assert!(matches!(error, Error::SourceChanged { .. }), "{etag}: {error:?}");
        assert!(server.requests().iter().all(|request| request.header("if-match").is_none()), "{etag}");
    }
}

/// The address of a server that states a length of 9,000 bytes once, and then sends this many
/// without stating a length.
fn sending_untold(len: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/a", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (nth, connection) in listener.incoming().enumerate() {
            let mut connection = connection.unwrap();
            let asked = BufReader::new(connection.try_clone().unwrap()).lines();
            assert!(
                asked.map(Result::unwrap).any(|line| line.is_empty()),
                "a request ends with an empty line"
            );
            // The first answer is all head, as far as the client looks.
            let (reported, body) =
                if nth == 0 { ("Content-Length: 9000\r\n", Vec::new()) } else { ("", noise(52, len)) };
            let head = format!("HTTP/1.1 200 OK\r\nETag: \"e\"\r\n{reported}Connection: close\r\n\r\n");
            let mut answer = head.into_bytes();
            answer.extend(body);
            connection.write_all(&answer).unwrap();
        }
    });
    address
}

#[test]
fn a_whole_has_the_length_that_was_given_when_it_was_opened() {
    for (len, is_changed) in [(8000, false), (9001, true)] {
        let options = RemoteOptions { whole_file: true, ..quick() };
        let error = RemoteSource::open(&sending_untold(len), &options).unwrap_err();
        assert_eq!(matches!(error, Error::SourceChanged { .. }), is_changed, "{error:?}");
        let expected = if is_changed { "it is now 9,001 bytes" } else { "ended after 8000 of 9000 bytes" };
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_part_where_the_whole_was_asked_for_is_refused() {
    let page = Page::new(noise(53, 9000));
    let server = WebServer::start(move |_, nth| match nth {
        0 => page.whole(),
        _ => Reply::status(206).header("Content-Range", "bytes 0-8999/9000").body(page.bytes.clone()),
    });
    let options = RemoteOptions { whole_file: true, ..quick() };
    let (kind, tries, text) = reported(&RemoteSource::open(&server.url("/a"), &options).unwrap_err());
    assert_eq!((kind, tries), (RemoteErrorKind::Protocol, 1), "{text}");
    assert!(text.contains("a part (206) where the whole was asked for"), "{text}");
}

#[test]
fn an_object_read_as_a_whole_is_of_one_state() {
    let first = Page::new(noise(42, 9000));
    let then = Page::new(noise(43, 9000)).etag(Some("\"second\""));
    let server = WebServer::start(move |_, nth| match nth {
        0 => first.whole(),
        1 => first.whole().end(End::Closed(5000)),
        _ => then.whole(),
    });
    let options = RemoteOptions { whole_file: true, ..quick() };
    let error = RemoteSource::open(&server.url("/a"), &options).unwrap_err();
    is_reported(&error, "9,000 bytes, ETag \"first\"", "9,000 bytes, ETag \"second\"");
}

#[test]
fn a_whole_that_broke_is_read_again_from_its_front() {
    for whole_file_memory in [1 << 20, 1000] {
        let page = Page::new(noise(44, 9000));
        let bytes = page.bytes.clone();
        let server = WebServer::start(move |_, nth| match nth {
            1 => page.whole().end(End::Closed(5000)),
            2 => Reply::status(500),
            _ => page.whole(),
        });
        let options = RemoteOptions { whole_file: true, whole_file_memory, ..quick() };
        let source = RemoteSource::open(&server.url("/a"), &options).unwrap();
        assert!(read(&source, range(0, 9000)).unwrap() == bytes);
        assert!(read(&source, range(4000, 6000)).unwrap() == bytes[4000..6000]);
        assert_eq!((server.requests().len(), source.len()), (4, 9000));
    }
}

/// A server that redirects to one or the other of two objects that differ only in their bytes.
fn leading(first: &'static str, then: &'static str, after: usize) -> (WebServer, Page) {
    let (page, other) = (Page::new(noise(45, 9000)), Page::new(noise(46, 9000)));
    let served = page.clone();
    let led = AtomicUsize::new(0);
    let server = WebServer::start(move |request, _| match request.target.as_str() {
        "/latest" if led.fetch_add(1, SeqCst) < after => Reply::status(302).header("Location", first),
        "/latest" => Reply::status(302).header("Location", then),
        target if target.starts_with("/v1") => served.reply(request),
        _ => other.reply(request),
    });
    (server, page)
}

#[test]
fn the_same_state_at_another_address_is_another_object() {
    for (first, then) in [("/v1", "/v2"), ("/v1?id=1", "/v1?id=2")] {
        let (server, page) = leading(first, then, 2);
        let source = RemoteSource::open(&server.url("/latest"), &quick()).unwrap();
        assert!(read(&source, range(0, 100)).unwrap() == page.bytes[..100]);
        let error = read(&source, range(100, 9000)).unwrap_err();
        assert!(matches!(error, Error::SourceChanged { .. }), "{error:?}");
        let (reported, first) = (error.to_string(), first.replace("id=1", "…"));
        assert!(reported.contains(&format!("found at {}", server.url(&first))), "{reported}");
        assert!(matches!(source.check_unchanged(), Err(Error::SourceChanged { .. })));
    }
}

#[test]
fn a_signature_that_is_made_anew_leads_to_the_same_object() {
    let (server, page) = leading("/v1?sv=1&sr=b&sp=r&sig=a&st=5", "/v1?sv=1&sr=b&sp=r&sig=b&st=6", 1);
    let source = RemoteSource::open(&server.url("/latest"), &quick()).unwrap();
    assert!(read(&source, range(0, 9000)).unwrap() == page.bytes);
    assert!(source.check_unchanged().is_ok());
}

#[test]
fn a_whole_that_is_somewhere_else_than_it_was_is_another_object() {
    let (first, then) = (Page::new(noise(47, 9000)), Page::new(noise(48, 9000)));
    let server = WebServer::start(move |request, nth| match request.target.as_str() {
        "/latest" => Reply::status(302).header("Location", if nth == 0 { "/v1" } else { "/v2" }),
        "/v1" => first.whole(),
        _ => then.whole(),
    });
    let options = RemoteOptions { whole_file: true, ..quick() };
    let error = RemoteSource::open(&server.url("/latest"), &options).unwrap_err();
    assert!(matches!(error, Error::SourceChanged { .. }), "{error:?}");
}
