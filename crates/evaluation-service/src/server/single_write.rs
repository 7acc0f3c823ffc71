//! A connection that supports no vectored writes, so that a short answer is written in one piece.
//!
//! With vectored writes, HTTP/2 writes headers and message together and the trailers separately: a second system call,
//! a second TLS record, and the reader is woken twice. Without them, it first copies short frames into one buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The connection without vectored writes.
pub(super) struct SingleWrite<S>(pub(super) S);

impl<S: AsyncRead + Unpin> AsyncRead for SingleWrite<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

/// The default of `AsyncWrite` has no vectored writes.
impl<S: AsyncWrite + Unpin> AsyncWrite for SingleWrite<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        piece: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, piece)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, duplex};

    use super::*;

    #[tokio::test]
    async fn the_end_and_what_was_kept_back_reach_the_other_side() {
        let (near, mut far) = duplex(64);
        let mut near = SingleWrite(BufWriter::new(near));
        assert!(!near.is_write_vectored());
        let mut heard = [0; 8];
        near.write_all(b"answer").await.unwrap();
        assert!(far.read(&mut heard).now_or_never().is_none());
        near.flush().await.unwrap();
        let length = far.read(&mut heard).now_or_never().unwrap().unwrap();
        assert_eq!(&heard[..length], b"answer");
        near.shutdown().await.unwrap();
        let end = far.read(&mut heard).now_or_never().unwrap();
        assert_eq!(end.unwrap(), 0);
    }
}
