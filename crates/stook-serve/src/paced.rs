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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Takes all bytes, or none.
    struct Gate(bool);

    impl AsyncWrite for Gate {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            if self.0 { Poll::Ready(Ok(bytes.len())) } else { Poll::Pending }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// One try to write: bytes taken, nothing yet, or the end.
    async fn tried(paced: &mut Paced<Gate>, open: bool) -> Option<io::Result<usize>> {
        paced.inner.0 = open;
        poll_fn(|context| match Pin::new(&mut *paced).poll_write(context, b"ten bytes.") {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[test]
    fn only_waits_for_the_client_count_and_they_add_up_until_it_took_enough() {
        const TIME: Duration = Duration::from_millis(200);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut paced = Paced::new(Gate(true), TIME, 20);
            assert!(matches!(tried(&mut paced, true).await, Some(Ok(10))));
            // Whatever is sent takes long to be read.
            sleep(2 * TIME).await;
            assert!(tried(&mut paced, false).await.is_none(), "the client was not waited for");
            sleep(3 * TIME / 4).await;
            assert!(matches!(tried(&mut paced, true).await, Some(Ok(10))), "it took all that it has to");
            assert!(tried(&mut paced, false).await.is_none());
            sleep(3 * TIME / 4).await;
            assert!(matches!(tried(&mut paced, true).await, Some(Ok(10))), "and half of the next");
            // On a busy machine the waits before may have been longer.
            drop(tried(&mut paced, false).await);
            sleep(TIME).await;
            let ended = tried(&mut paced, false).await;
            assert!(
                matches!(&ended, Some(Err(error)) if error.kind() == io::ErrorKind::TimedOut),
                "{ended:?}"
            );
        });
    }
}
