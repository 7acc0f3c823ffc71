//! A connection to which short answers are written in one piece.
//!
//! Where pieces can be written as they lie, HTTP/2 writes what stands before a message together with the
//! message, and what follows it by itself: a second call into the kernel, a second record of TLS, and the
//! reader is woken twice. Where they cannot, it copies short ones behind each other first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The same connection, for one piece at a time.
pub(super) struct Whole<S>(pub(super) S);

impl<S: AsyncRead + Unpin> AsyncRead for Whole<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

/// Leaves out what writes several pieces: by default there is no such thing.
impl<S: AsyncWrite + Unpin> AsyncWrite for Whole<S> {
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
