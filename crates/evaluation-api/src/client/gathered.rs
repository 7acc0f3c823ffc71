//! A connection that sends writes of the same turn together.
//!
//! HTTP/2 sends the headers of a call before it learns that the message of the call may follow. That costs
//! two system calls and two TLS records for each question, and wakes the server twice. Written data therefore
//! waits for one turn of the other tasks, in which the message arrives.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};

/// The same connection, with flushes delayed by one turn.
#[derive(Debug)]
pub(super) struct Gathered<S> {
    stream: BufWriter<S>,
    has_waited: bool,
}

impl<S: AsyncWrite> Gathered<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream: BufWriter::new(stream),
            has_waited: false,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        piece: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, piece)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.stream.buffer().is_empty() && !self.has_waited {
            self.has_waited = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let sent = ready!(Pin::new(&mut self.stream).poll_flush(context));
        self.has_waited = false;
        Poll::Ready(sent)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn what_comes_within_a_turn_is_sent_with_what_waits_for_it() {
        let (near, mut far) = duplex(1024);
        let mut near = Gathered::new(near);
        near.write_all(b"begin ").await.unwrap();
        let waits = poll_fn(|context| {
            let flushed = Pin::new(&mut near).poll_flush(context);
            Poll::Ready(flushed.is_pending())
        });
        assert!(waits.await);
        near.write_all(b"message").await.unwrap();
        near.flush().await.unwrap();
        let mut heard = [0; 32];
        let length = far.read(&mut heard).await.unwrap();
        assert_eq!(&heard[..length], b"begin message");
    }

    #[tokio::test]
    async fn what_nothing_follows_is_sent_all_the_same() {
        let (near, mut far) = duplex(1024);
        let mut near = Gathered::new(near);
        for said in [b"one", b"two"] {
            near.write_all(said).await.unwrap();
            near.flush().await.unwrap();
            let mut heard = [0; 3];
            far.read_exact(&mut heard).await.unwrap();
            assert_eq!(&heard, said);
            yield_now().await;
        }
        near.write_all(b"end").await.unwrap();
        near.shutdown().await.unwrap();
        let mut rest = String::new();
        far.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "end");
    }
}
