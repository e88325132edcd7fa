//! A server that speaks the language of S3 and checks signatures, over the directories below one:
//! buckets, and objects as files in them.
#![expect(clippy::unwrap_used, reason = "a server that cannot be set up fails its test on the spot")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::Request;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

const WHO: &str = "who";
const SECRET: &str = "a secret that no message may show";

/// A request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Request {
    /// `GET`.
    pub method: String,
    /// The request target: `/bucket/key`, and the query.
    pub target: String,
    /// The header `Range`, as it came.
    pub range: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// The length of its body, where it is known beforehand.
    pub bytes: Option<u64>,
}

type Log = Arc<Mutex<Vec<S3Request>>>;

/// A server that ends when it is dropped.
pub struct S3Server {
    address: SocketAddr,
    log: Log,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl S3Server {
    /// Serves the files below a directory, every answer after this time.
    ///
    /// # Panics
    /// Panics if there is no port.
    pub fn start(directory: &Path, latency: Duration) -> Self {
        let mut builder = S3ServiceBuilder::new(FileSystem::new(directory).unwrap());
        builder.set_auth(SimpleAuth::from_single(WHO, SECRET));
        let service = builder.build();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let log = Log::default();
        let (stop, stopped) = oneshot::channel();
        let noted = Arc::clone(&log);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(&listener, &service, latency, &noted) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, log, running: Some((stop, thread)) }
    }

    /// The settings with which it lets one in.
    pub fn settings(&self) -> Vec<(String, String)> {
        let pairs = [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".into()),
            ("AWS_ACCESS_KEY_ID", WHO.into()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.into()),
            ("AWS_REGION", "eu-central-1".into()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// How many requests were answered.
    ///
    /// # Panics
    /// Panics if the server panicked.
    pub fn requests(&self) -> usize {
        self.log.lock().unwrap().len()
    }

    /// The requests that were answered since this was called last, in the order of the answers.
    ///
    /// # Panics
    /// Panics if the server panicked.
    pub fn take_log(&self) -> Vec<S3Request> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

async fn serve(listener: &TcpListener, service: &S3Service, latency: Duration, log: &Log) {
    loop {
        let Ok((connection, _)) = listener.accept().await else { continue };
        // Otherwise the next request on the same connection would wait for an acknowledgement.
        let _ = connection.set_nodelay(true);
        let (service, log) = (service.clone(), Arc::clone(log));
        let noting = service_fn(move |request: Request<Incoming>| {
            let method = request.method().to_string();
            let target = request.uri().to_string();
            let range = request
                .headers()
                .get("range")
                .map(|range| String::from_utf8_lossy(range.as_bytes()).into_owned());
            let (answer, log) = (Service::call(&service, request), Arc::clone(&log));
            async move {
                tokio::time::sleep(latency).await;
                let answer = answer.await?;
                let (status, bytes) = (answer.status().as_u16(), answer.body().size_hint().exact());
                log.lock().unwrap().push(S3Request { method, target, range, status, bytes });
                Ok::<_, <S3Service as Service<Request<Incoming>>>::Error>(answer)
            }
        });
        tokio::spawn(async move {
            // A client that goes away is no failure of the server.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), noting).await;
        });
    }
}
