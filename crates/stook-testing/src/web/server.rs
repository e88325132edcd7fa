//! [`WebServer`]: HTTP/1.1 on the loopback, a thread for each connection.
#![expect(clippy::unwrap_used, reason = "a server that cannot be set up fails its test on the spot")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{End, Reply, WebRequest};

/// How often threads look whether the server is to end.
const GLANCE: Duration = Duration::from_millis(20);
/// How much of a body is sent at once.
const CHUNK_LEN: usize = 1000;

type Handler = dyn Fn(&WebRequest, usize) -> Reply + Send + Sync;

/// A web server that ends when it is dropped.
pub struct WebServer {
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

struct State {
    address: SocketAddr,
    handler: Box<Handler>,
    requests: Mutex<Vec<WebRequest>>,
    connections: Mutex<Vec<TcpStream>>,
    is_ended: AtomicBool,
}

impl WebServer {
    /// Answers each request with what `handler` makes of it and of its number, from 0.
    ///
    /// # Panics
    /// Panics if there is no port.
    pub fn start(handler: impl Fn(&WebRequest, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state = Arc::new(State {
            address: listener.local_addr().unwrap(),
            handler: Box::new(handler),
            requests: Mutex::default(),
            connections: Mutex::default(),
            is_ended: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        let accepting = Some(thread::spawn(move || accept(&listener, &shared)));
        Self { state, accepting }
    }

    /// The address of something on it, which begins with `/`.
    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.state.address)
    }

    /// All requests until now.
    ///
    /// # Panics
    /// Panics if a handler panicked.
    pub fn requests(&self) -> Vec<WebRequest> {
        self.state.requests.lock().unwrap().clone()
    }

    /// How many connections were made.
    ///
    /// # Panics
    /// Panics if a handler panicked.
    pub fn connections(&self) -> usize {
        self.state.connections.lock().unwrap().len()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.state.end();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl State {
    /// No connection is taken any more, and those that there are break.
    fn end(&self) {
        if self.is_ended.swap(true, Ordering::SeqCst) {
            return;
        }
        // Wakes the one who accepts.
        let _ = TcpStream::connect(self.address);
        for connection in self.connections.lock().unwrap().iter() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::SeqCst)
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for connection in listener.incoming() {
        if state.is_ended() {
            return;
        }
        let Ok(connection) = connection else { continue };
        connection.set_nodelay(true).unwrap();
        connection.set_read_timeout(Some(GLANCE)).unwrap();
        state.connections.lock().unwrap().push(connection.try_clone().unwrap());
        let state = Arc::clone(state);
        thread::spawn(move || {
            // A client that goes away is no failure of the server.
            let _ = serve(connection, &state);
        });
    }
}

fn serve(mut connection: TcpStream, state: &State) -> io::Result<()> {
    while let Some(request) = read_request(&mut connection, state)? {
        let nth = {
            let mut requests = state.requests.lock().unwrap();
            requests.push(request.clone());
            requests.len() - 1
        };
        let reply = (state.handler)(&request, nth);
        wait(reply.latency, state);
        if !send(&mut connection, &reply, state)? {
            break;
        }
    }
    Ok(())
}

/// The next request; `None` at the end. None that is sent here has a body.
fn read_request(connection: &mut TcpStream, state: &State) -> io::Result<Option<WebRequest>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match connection.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) if head.is_empty() && !byte[0].is_ascii_uppercase() => return refuse(connection),
            Ok(_) => head.push(byte[0]),
            Err(error) if is_timeout(&error) && !state.is_ended() => {}
            Err(error) => return Err(error),
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Ok(Some(WebRequest { method, target, headers: lines.filter_map(header).collect() }))
}

/// The client speaks another protocol: TLS.
fn refuse(connection: &mut TcpStream) -> io::Result<Option<WebRequest>> {
    // What is left unread would make a reset of the end, which may overtake the answer.
    let mut rest = [0; 4096];
    let _ = connection.read(&mut rest)?;
    connection.write_all(b"HTTP/1.1 400 X\r\nContent-Length: 0\r\n\r\n")?;
    connection.shutdown(Shutdown::Write)?;
    Ok(None)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn wait(mut time: Duration, state: &State) {
    while !time.is_zero() && !state.is_ended() {
        let step = time.min(GLANCE);
        thread::sleep(step);
        time -= step;
    }
}

/// Whether the connection can be used again.
fn send(connection: &mut TcpStream, reply: &Reply, state: &State) -> io::Result<bool> {
    let mut head = format!("HTTP/1.1 {} X\r\nContent-Length: {}\r\n", reply.status, reply.body.len());
    if !reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("date")) {
        head += &format!("Date: {}\r\n", super::date::now());
    }
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    connection.write_all(format!("{head}\r\n").as_bytes())?;
    let sent = match reply.end {
        End::Whole => reply.body.len(),
        End::Closed(len) | End::Reset(len) | End::Stalled(len) | End::Killed(len) => len,
    };
    for chunk in reply.body[..sent.min(reply.body.len())].chunks(CHUNK_LEN) {
        wait(reply.pause, state);
        connection.write_all(chunk)?;
    }
    match reply.end {
        End::Whole => return Ok(true),
        End::Closed(_) => connection.shutdown(Shutdown::Both)?,
        End::Reset(_) => reset(connection)?,
        End::Stalled(_) => wait(Duration::MAX, state),
        End::Killed(_) => state.end(),
    }
    Ok(false)
}

/// The other end gets a reset, and nothing that it has not read yet.
fn reset(connection: &TcpStream) -> io::Result<()> {
    rustix::net::connect_unspec(connection).map_err(Into::into)
}
