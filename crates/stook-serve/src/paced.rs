//! [`Paced`]: a connection whose client has to take what it asked for.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection that ends when its client takes too little: bytes that are read for it wait in
/// memory until then. Only time in which it was the client that was waited for counts.
#[derive(Debug)]
pub(crate) struct Paced<S> {
    inner: S,
    time: Duration,
    least: u64,
    /// Taken since the time began to count.
    taken: u64,
    /// How long was waited for that so far.
    waited: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S> Paced<S> {
    /// A client has to take `least` bytes before it has been waited for this long.
    pub(crate) fn new(inner: S, time: Duration, least: u64) -> Self {
        Self { inner, time, least, taken: 0, waited: Duration::ZERO, waiting: None }
    }

    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        count: impl FnOnce(&T) -> u64,
    ) -> Poll<io::Result<T>> {
        let Poll::Ready(done) = polled else {
            let left = self.time.saturating_sub(self.waited);
            let (_, sleep) = self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(left))));
            return match sleep.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => Poll::Pending,
            };
        };
        if let Some((since, _)) = self.waiting.take() {
            self.waited = self.waited.saturating_add(since.elapsed());
        }
        self.taken = self.taken.saturating_add(done.as_ref().map_or(0, count));
        if self.taken >= self.least {
            (self.taken, self.waited) = (0, Duration::ZERO);
        }
        Poll::Ready(done)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(context, polled, |taken| *taken as u64)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.judge(context, polled, |taken| *taken as u64)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(context);
        self.judge(context, polled, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
