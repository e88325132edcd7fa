//! A server that speaks the language of S3 and checks signatures, over the directories below one: buckets, and objects
//! as files in them.
#![expect(clippy::unwrap_used, reason = "a server that cannot be set up fails its test on the spot")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
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

/// A server that ends when it is dropped.
pub struct S3Server {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl S3Server {
    /// Serves what is below a directory, every answer after this time.
    ///
    /// # Panics
    /// When there is no port.
    pub fn start(directory: &Path, latency: Duration) -> Self {
        let mut builder = S3ServiceBuilder::new(FileSystem::new(directory).unwrap());
        builder.set_auth(SimpleAuth::from_single(WHO, SECRET));
        let service = builder.build();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let (stop, stopped) = oneshot::channel();
        let counted = Arc::clone(&requests);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(&listener, &service, latency, &counted) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, requests, running: Some((stop, thread)) }
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

    /// How many requests came.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
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

async fn serve(listener: &TcpListener, service: &S3Service, latency: Duration, requests: &Arc<AtomicUsize>) {
    loop {
        let Ok((connection, _)) = listener.accept().await else { continue };
        let (service, requests) = (service.clone(), Arc::clone(requests));
        let delayed = service_fn(move |request: Request<Incoming>| {
            requests.fetch_add(1, Ordering::SeqCst);
            let answer = Service::call(&service, request);
            async move {
                tokio::time::sleep(latency).await;
                answer.await
            }
        });
        tokio::spawn(async move {
            // A client that goes away is no failure of the server.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), delayed).await;
        });
    }
}
