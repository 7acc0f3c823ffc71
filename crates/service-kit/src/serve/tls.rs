//! The server's side of a TLS handshake.

use std::time::Duration;

use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::debug;

use crate::report;

/// The time for a handshake. A client that sends nothing is disconnected after it.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// The time for reading on after a failed handshake, and the most bytes that are read.
const FAREWELL: Duration = Duration::from_secs(1);
const MOST_UNHEARD: u64 = 64 * 1024;

/// Performs the handshake of a connection; none if it fails or takes too long.
pub async fn handshake(
    acceptor: &TlsAcceptor,
    connection: TcpStream,
) -> Option<TlsStream<TcpStream>> {
    let handshake = acceptor.accept(connection).into_fallible();
    match timeout(HANDSHAKE, handshake).await {
        Ok(Ok(connection)) => Some(connection),
        Ok(Err((error, connection))) => {
            debug!(error = report(&error), "a TLS handshake failed");
            let _ = timeout(FAREWELL, say_farewell(connection)).await;
            None
        }
        Err(_) => {
            debug!("a TLS handshake took too long");
            None
        }
    }
}

/// Reads the rest of the input after a failed handshake. Closed with unread bytes, the connection would be
/// reset, and the client would not receive the alert with the reason.
async fn say_farewell(mut connection: TcpStream) -> io::Result<()> {
    connection.shutdown().await?;
    io::copy(&mut connection.take(MOST_UNHEARD), &mut io::sink()).await?;
    Ok(())
}
