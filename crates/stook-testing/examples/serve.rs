//! Servers on the loopback for tests that are not written in Rust:
//! `serve DIRECTORY [--latency 50ms]`.
//!
//! The directories below DIRECTORY are buckets of an S3 server, and their files are its objects; a
//! web server has the same files at `/MODE/bucket/key`, where MODE is how it answers: see
//! [`answer`]. The first line on stdout has the addresses. Then each line on stdin is answered by
//! one on stdout: `log` returns the requests of both servers since the last time. The end of stdin
//! ends the program.
#![expect(clippy::unwrap_used, reason = "a server that cannot be set up fails its test on the spot")]

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use stook_testing::s3::{S3Request, S3Server};
use stook_testing::web::{End, Page, Reply, WebRequest, WebServer};

const USAGE: &str = "usage: serve DIRECTORY [--latency 50ms]";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().expect(USAGE));
    let latency = match arguments.next().as_deref() {
        None => Duration::ZERO,
        Some("--latency") => milliseconds(&arguments.next().expect(USAGE)),
        Some(_) => panic!("{USAGE}"),
    };
    let s3 = S3Server::start(&directory, latency);
    let web = WebServer::start(move |request, nth| answer(&directory, latency, request, nth));
    let settings = s3.settings().into_iter().map(|(name, value)| (name, Value::from(value)));
    print_line(&json!({ "web": web.url(""), "s3": settings.collect::<Map<_, _>>() }));
    let mut reported = 0;
    for line in std::io::stdin().lock().lines() {
        match line.unwrap().trim() {
            "log" => {
                let asked = web.requests();
                let of_web = asked.iter().skip(reported).map(of_web);
                let of_s3 = s3.take_log();
                print_line(
                    &json!({ "s3": of_s3.iter().map(of_s3_request).collect::<Vec<_>>(), "web": of_web.collect::<Vec<_>>() }),
                );
                reported = asked.len();
            }
            other => print_line(&json!({ "error": format!("`{other}` is none of: log") })),
        }
    }
}

/// `50ms`.
fn milliseconds(text: &str) -> Duration {
    let number = text.strip_suffix("ms").and_then(|number| number.parse().ok());
    Duration::from_millis(number.expect("a latency is a whole number of ms, as in 50ms"))
}

fn print_line(value: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}").and_then(|()| out.flush()).unwrap();
}

fn of_s3_request(request: &S3Request) -> Value {
    json!({
        "method": request.method, "target": request.target, "range": request.range, "status": request.status,
        "bytes": request.bytes,
    })
}

fn of_web(request: &WebRequest) -> Value {
    json!({ "method": request.method, "target": request.target, "range": request.header("range") })
}

/// The answers of the web server, by the first part of the path: `ok`, correct; `no-ranges`,
/// everything with 200; `flaky`, 503 to every other request; `cut`, the connection closed in the
/// middle of every other body; `wrong-range`, another `Content-Range` than requested; `gzip`, an
/// encoding; `stall`, the first byte and then nothing, which lets it be opened but not read;
/// `denied`, 403. All but `ok` come without latency.
fn answer(directory: &Path, latency: Duration, request: &WebRequest, nth: usize) -> Reply {
    let Some((mode, name)) = request.target.trim_start_matches('/').split_once('/') else {
        return Reply::status(404);
    };
    let Some(page) = page(&directory.join(name)) else { return Reply::status(404) };
    let reply = page.reply(request);
    let is_first_byte = request.range().is_some_and(|(first, end)| end - first == 1);
    match mode {
        "ok" => reply.latency(latency),
        "no-ranges" => page.whole(),
        "flaky" if nth.is_multiple_of(2) => Reply::status(503),
        "cut" if nth % 2 == 1 => {
            let half = reply.body.len() / 2;
            reply.end(End::Closed(half))
        }
        "flaky" | "cut" => reply,
        "wrong-range" if !is_first_byte => {
            reply.header("Content-Range", format!("bytes 0-0/{}", page.bytes.len()))
        }
        "gzip" => reply.header("Content-Encoding", "gzip"),
        "stall" if !is_first_byte => reply.end(End::Stalled(1)),
        "wrong-range" | "stall" => reply,
        "denied" => Reply::status(403),
        _ => Reply::status(404),
    }
}

/// A file, with an ETag that changes with it. `None` for a name that leads out of the directory.
fn page(path: &Path) -> Option<Page> {
    if path.components().any(|part| part == std::path::Component::ParentDir) {
        return None;
    }
    let modified = path.metadata().ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?.as_nanos();
    let bytes = std::fs::read(path).ok()?;
    let etag = format!("\"{since:x}-{:x}\"", bytes.len());
    Some(Page::new(bytes).etag(Some(&etag)).modified(None))
}
