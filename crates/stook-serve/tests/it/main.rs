//! Serves trees on ports of this machine, and asks for them byte by byte.
#![expect(clippy::unwrap_used, reason = "a helper that cannot set up a test should fail on the spot")]

mod access;
mod archives;
mod limits;
mod listings;
mod paths;
mod ranges;
mod states;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use stook::ops::copy::OpenGiven;
use stook_serve::{ServeOptions, Server, Summary};

/// Nothing here takes so long: a watchdog, not a measurement.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// A server that runs until it is dropped.
struct Served {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    failures: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<Summary>>,
}

impl Served {
    fn new(path: &Path) -> Self {
        Self::with(path, ServeOptions::default())
    }

    fn with(path: &Path, options: ServeOptions) -> Self {
        let given = OpenGiven::default().open(path, &mut |_| true).unwrap();
        let failures = Arc::new(Mutex::new(Vec::new()));
        let heard = failures.clone();
        let report = Arc::new(move |failure| heard.lock().unwrap().push(failure));
        let server = Server::bind(given.into_source().unwrap(), options, report).unwrap();
        let (address, stop) = (server.address(), Arc::new(AtomicBool::new(false)));
        let asked = stop.clone();
        let thread = std::thread::spawn(move || server.run(&|| asked.load(Ordering::Relaxed)).unwrap());
        Self { address, stop, failures, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANGS_AFTER)).unwrap();
        stream
    }

    /// The answer to a request of these lines, on a connection of its own.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut stream = self.connect();
        send(&mut stream, method, path, headers);
        let mut all = Vec::new();
        // One that is cut short may be reset.
        let ended = stream.read_to_end(&mut all);
        assert!(ended.is_ok() || !all.is_empty(), "{ended:?}");
        Reply::parse(&all)
    }

    fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[])
    }

    fn range(&self, path: &str, range: &str) -> Reply {
        self.ask("GET", path, &[("Range", range)])
    }

    fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap().clone()
    }

    /// Ends it.
    fn end(mut self) -> Summary {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn send(stream: &mut TcpStream, method: &str, path: &str, headers: &[(&str, &str)]) {
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        request.push_str("Host: 127.0.0.1\r\n");
    }
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).unwrap();
}

/// An answer.
#[derive(Debug, Clone)]
struct Reply {
    status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Whether the body has the length that was promised.
    is_whole: bool,
}

impl Reply {
    fn parse(all: &[u8]) -> Self {
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&all[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let field = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let headers: Vec<_> = lines.map(field).collect();
        let body = all[end + 4..].to_vec();
        let mut reply = Self { status, headers, body, is_whole: true };
        match reply.header("content-length").map(|len| len.parse::<usize>().unwrap()) {
            Some(len) => reply.is_whole = reply.body.len() == len,
            None if reply.header("transfer-encoding") == Some("chunked") => {
                (reply.body, reply.is_whole) = unchunked(&reply.body);
            }
            None => {}
        }
        reply
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// A body of chunks, and whether its last is there.
fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = rest.windows(2).position(|two| two == b"\r\n") else { return (body, false) };
        let len = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if len == 0 {
            return (body, true);
        }
        let Some(chunk) = rest.get(line + 2..line + 2 + len) else { return (body, false) };
        body.extend_from_slice(chunk);
        let Some(after) = rest.get(line + 4 + len..) else { return (body, false) };
        rest = after;
    }
}

/// Bytes in which each place looks different.
fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    (0..len).map(|_| next()).collect()
}

/// Waits until no later change could leave the times of what was written as they are.
fn settle() {
    std::thread::sleep(Duration::from_millis(30));
}
