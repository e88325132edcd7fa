//! What a client can hold: no thread, little memory, and a connection for a short time.

use std::fs;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use stook_serve::ServeOptions;

use super::{Reply, Served, pattern, send};

/// Reads until the other end is closed, also by a reset; what came.
fn rest(stream: &mut std::net::TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    if let Err(error) = stream.read_to_end(&mut all) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    all
}

#[test]
fn a_head_that_comes_slowly_or_never_ends_its_connection() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("x"), "x").unwrap();
    let head_time = Duration::from_secs(1);
    let served = Served::with(directory.path(), ServeOptions { head_time, ..ServeOptions::default() });
    let mut silent = served.connect();
    let mut slow = served.connect();
    let mut waiting = served.connect();
    waiting.write_all(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    // A byte now and then does not keep it.
    let dripping = std::thread::spawn(move || {
        let head = b"GET /x HTTP/1.1\r\nHost: localhost\r\nX: ".iter().chain(std::iter::repeat(&b'x'));
        let sent = head.take_while(|byte| {
            std::thread::sleep(Duration::from_millis(10));
            slow.write_all(&[**byte]).is_ok()
        });
        (sent.count(), rest(&mut slow).is_empty())
    });
    // Others are served meanwhile.
    assert_eq!(served.get("/x").text(), "x");
    assert!(rest(&mut silent).is_empty());
    assert!(rest(&mut waiting).starts_with(b"HTTP/1.1 200 "), "and is closed after its answer");
    let (_, is_empty) = dripping.join().unwrap();
    assert!(is_empty);
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path());
    let mut stream = served.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    // It may be closed before all is sent.
    for _ in 0..100_000 {
        if stream.write_all(b"X-Field: with a value of some length\r\n").is_err() {
            break;
        }
    }
    let answer = rest(&mut stream);
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert_eq!(served.get("/").status, 200);
}

#[test]
fn a_client_that_takes_nothing_is_cut_off_and_one_that_takes_little_by_little_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = pattern(16 << 20);
    fs::write(directory.path().join("x"), &bytes).unwrap();
    let options =
        ServeOptions { pace_time: Duration::from_millis(1500), least_bytes: 1, ..ServeOptions::default() };
    let served = Served::with(directory.path(), options);
    let mut stalled = served.connect();
    send(&mut stalled, "GET", "/x", &[]);
    let mut patient = served.connect();
    send(&mut patient, "GET", "/x", &[]);
    // Longer in all than a client may take nothing for, with something taken all the time.
    let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    loop {
        std::thread::sleep(Duration::from_millis(150));
        match patient.read(&mut buffer).unwrap() {
            0 => break,
            len => all.extend_from_slice(&buffer[..len]),
        }
    }
    assert!(Reply::parse(&all).body == bytes);
    let reply = Reply::parse(&rest(&mut stalled));
    assert!(!reply.is_whole && bytes.starts_with(&reply.body));
    // Nothing that was served failed.
    assert_eq!(served.end().failures, 0);
}

#[test]
fn connections_past_the_limit_wait_and_are_served_then() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("x"), "x").unwrap();
    let served = Served::with(directory.path(), ServeOptions { connections: 2, ..ServeOptions::default() });
    // Two that ask for nothing hold both places, until they leave.
    let (first, second) = (served.connect(), served.connect());
    let mut third = served.connect();
    send(&mut third, "GET", "/x", &[]);
    third.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(third.read(&mut [0; 1]).is_err(), "it waits");
    third.set_read_timeout(Some(super::HANGS_AFTER)).unwrap();
    drop((first, second));
    assert!(rest(&mut third).ends_with(b"\r\n\r\nx"));
    // Where others wait, an answer is the last of its connection.
    let (_held, mut only) = (served.connect(), served.connect());
    only.write_all(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let answer = rest(&mut only);
    assert!(String::from_utf8_lossy(&answer).contains("connection: close"), "{answer:?}");
}

#[test]
fn requests_on_one_connection_follow_one_another() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("x"), "x").unwrap();
    let served = Served::new(directory.path());
    let mut stream = served.connect();
    for _ in 0..3 {
        stream.write_all(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nx") {
            let mut byte = [0; 1];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
    }
}
