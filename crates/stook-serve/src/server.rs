//! [`Server`]: listens, and answers until it is told to end.

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use stook::copy::CopySource;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::answer::{Shared, answer, check_served};
use crate::archive::Layouts;
use crate::error::{Error, Result};
use crate::options::ServeOptions;
use crate::paced::Paced;
use crate::readers::READERS;
use crate::served::Served;

/// The head of a request may be so long, and so much of an answer waits for its client beside the
/// pieces that are read.
const BUFFER_BYTES: usize = 64 << 10;
/// What the system holds for a client. Left to itself it would hold megabytes, and a slow client
/// would seem to take nothing until a third of them is sent.
const SEND_BYTES: usize = 256 << 10;
/// Connections that the system holds until they have a place.
const WAITING_MAX: i32 = 1024;
/// How often it is asked whether to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What is waited after no connection could be taken: the system has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// Hears of each failure, in one line of text.
pub type Report = Arc<dyn Fn(String) + Send + Sync>;

/// What was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Answers that ended early, or were none, because something could not be read.
    pub failures: u64,
    /// Answers that were on their way when it was told to end, and ended early because of that.
    pub cut_off: u64,
}

/// Something that is served, and where.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens. Connections wait until it [runs](Self::run).
    ///
    /// # Errors
    /// [`Error::Open`] where others could read it, and neither a token nor `public` is given;
    /// [`Error::TokenAndPublic`] where both are;
    /// [`Error::Listen`]; what cannot be opened.
    pub fn bind(source: CopySource, options: ServeOptions, report: Report) -> Result<Self> {
        if !options.listen.ip().is_loopback() && options.token.is_none() && !options.public {
            return Err(Error::Open(options.listen));
        }
        if options.token.is_some() && options.public {
            return Err(Error::TokenAndPublic);
        }
        let served = Served(source);
        check_served(&served)?;
        let listen = |source| Error::Listen { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        // Connections inherit it.
        rustix::net::sockopt::set_socket_send_buffer_size(&listener, SEND_BYTES)
            .and_then(|()| rustix::net::listen(&listener, WAITING_MAX))
            .map_err(|error| listen(error.into()))?;
        let address = listener.local_addr().map_err(listen)?;
        let mut run = [0; 32];
        let mut boundary = [0; 16];
        for lot in [&mut run[..], &mut boundary[..]] {
            getrandom::fill(lot).map_err(|error| Error::System(std::io::Error::other(error)))?;
        }
        let shared = Shared {
            served,
            layouts: Layouts::new(options.keep_layouts, run),
            options,
            readers: Arc::default(),
            report,
            failures: AtomicU64::new(0),
            laying_out: Arc::new(Semaphore::new(1)),
            ending: Arc::default(),
            is_full: AtomicBool::new(false),
            boundary,
            boundaries: AtomicU64::new(0),
        };
        Ok(Self { listener, address, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of its root, for browsers. Where it listens at all addresses of this machine, it
    /// is the one that this machine has for others.
    pub fn url(&self) -> String {
        let (mut address, ip) = (self.address, self.address.ip());
        if ip.is_unspecified() {
            address.set_ip(own_address(ip));
        }
        format!("http://{address}/")
    }

    /// Answers until `stop` says so, which is asked many times a second. Answers that are on their
    /// way then end.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn run(self, stop: &dyn Fn() -> bool) -> Result<Summary> {
        let Self { listener, shared, .. } = self;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READERS)
            .build()
            .map_err(Error::System)?;
        let ended = runtime.block_on(accept(listener, &shared, stop));
        // Reads that wait for others are left alone.
        runtime.shutdown_background();
        ended.map_err(Error::System)?;
        let (failures, cut_off) = (&shared.failures, &shared.ending.cut_off);
        Ok(Summary { failures: failures.load(Ordering::Relaxed), cut_off: cut_off.load(Ordering::Relaxed) })
    }
}

/// The address that this machine would connect to others from, of the kind of another; that of the
/// loopback where it has none.
fn own_address(ip: IpAddr) -> IpAddr {
    // Addresses of documentation, which are nobody's: to connect a socket for datagrams sends none.
    let (other, loopback): (IpAddr, IpAddr) = match ip {
        IpAddr::V4(_) => (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(), Ipv6Addr::LOCALHOST.into()),
    };
    let asked = || {
        let socket = UdpSocket::bind((ip, 0))?;
        socket.connect((other, 9))?;
        socket.local_addr()
    };
    asked().map(|address| address.ip()).ok().filter(|ip| !ip.is_unspecified()).unwrap_or(loopback)
}

async fn accept(listener: TcpListener, shared: &Arc<Shared>, stop: &dyn Fn() -> bool) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let most = shared.options.connections.max(1);
    let (mut connections, mut look) = (JoinSet::new(), tokio::time::interval(LOOK_EVERY));
    let mut is_told = false;
    loop {
        tokio::select! {
            biased;
            _ = look.tick() => {
                if stop() {
                    break;
                }
                shared.layouts.forget_old();
            }
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < most => match accepted {
                Ok((stream, _)) => {
                    is_told = false;
                    connections.spawn(serve(stream, shared.clone()));
                }
                Err(error) => {
                    // Once for many: they come as fast as others try.
                    if !std::mem::replace(&mut is_told, true) {
                        shared.fail("a connection", &error.to_string());
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
        shared.is_full.store(connections.len() >= most, Ordering::Relaxed);
    }
    shared.ending.has_begun.store(true, Ordering::Relaxed);
    connections.shutdown().await;
    Ok(())
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let ServeOptions { head_time, pace_time, least_bytes, .. } = shared.options;
    let service = service_fn(|request| {
        let answered = answer(shared.clone(), request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let stream = TokioIo::new(Paced::new(stream, pace_time, least_bytes));
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(stream, service)
        .await;
    // How a client leaves is its own business; what was wrong here was reported where it happened.
    drop(ended);
}
