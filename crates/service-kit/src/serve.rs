//! The servers of a process: one accept loop for TCP and Unix sockets, and the graceful end of their connections.
//!
//! Owns: addresses, the limits on connections, the TLS handshake, and the order of a shutdown. Refuses to know: the
//! protocol of a connection and the meaning of a request.
//!
//! Invariant: when a server has ended, its listener is closed and none of its connections is open.

mod tls;
mod unix;

use std::{
    fmt::Debug,
    hash::Hash,
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    time::Duration,
};

use hyper_util::server::graceful::GracefulConnection;
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use crate::{fair::TenantTurns, report};

pub use tls::handshake;
pub use unix::{InUse, SocketError, UnixSocket};

#[cfg(test)]
mod tests;

/// The pause after a failed accept: a process without free file descriptors needs time to close some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The drain time of a connection that may finish all its requests.
pub const UNLIMITED: Duration = Duration::MAX;

/// A server cannot listen on its address.
#[derive(Debug, Error)]
#[error("cannot listen on {address} for {purpose}")]
pub struct BindError {
    address: SocketAddr,
    purpose: &'static str,
    #[source]
    source: io::Error,
}

/// Binds an address; returns it with the port that was chosen for port 0. The purpose is for the error.
pub async fn bind(
    address: SocketAddr,
    purpose: &'static str,
) -> Result<(TcpListener, SocketAddr), BindError> {
    let bound = TcpListener::bind(address).await;
    let bound = bound.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
    bound.map_err(|source| BindError {
        address,
        purpose,
        source,
    })
}

/// A source of connections.
pub trait Listener: Send {
    /// A connection.
    type Stream: Send + 'static;
    /// The identity by which connections are limited.
    type Peer: Copy + Debug + Eq + Hash + Send + 'static;

    /// Waits for the next connection.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Self::Peer)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    type Peer = IpAddr;

    async fn accept(&self) -> io::Result<(TcpStream, IpAddr)> {
        let (stream, peer) = self.accept().await?;
        // Responses are small: waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        // A listener for both families shows the same peer in two ways.
        Ok((stream, peer.ip().to_canonical()))
    }
}

/// The treatment of connections above a server's total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// They wait in the backlog of the listener.
    Wait,
    /// They are closed, so that a client tries another replica.
    Close,
}

/// The limits on open connections.
pub struct ConnectionLimits<P> {
    /// The total.
    pub total: usize,
    /// The treatment of connections above the total.
    pub when_full: WhenFull,
    /// Connections of one peer. Further ones are closed.
    pub per_peer: usize,
    /// Called for each connection that is closed because its peer has too many.
    pub refused: Box<dyn Fn(P) + Send + Sync>,
}

impl<P: Debug> ConnectionLimits<P> {
    /// A total for all peers together.
    #[must_use]
    pub fn of(total: usize, when_full: WhenFull) -> Self {
        Self {
            total,
            when_full,
            per_peer: total,
            refused: Box::new(|_| {}),
        }
    }

    /// No limit, for a socket that only trusted peers reach.
    #[must_use]
    pub fn unlimited() -> Self {
        // The connections of a peer are permits of a semaphore, which has no more.
        Self::of(Semaphore::MAX_PERMITS, WhenFull::Wait)
    }
}

/// Accepts connections until it is time to stop, then closes the listener and waits until every connection has ended.
pub async fn serve<L, F>(
    listener: L,
    limits: ConnectionLimits<L::Peer>,
    stop: impl Future<Output = ()>,
    mut converse: impl FnMut(L::Stream, L::Peer) -> F,
) where
    L: Listener,
    F: Future<Output = ()> + Send + 'static,
{
    let peers = TenantTurns::of(limits.per_peer);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    let mut is_reported = false;
    loop {
        let open = connections.len();
        let is_full = open >= limits.total;
        if is_full && !is_reported {
            warn!(open, "no further connections until one of these ends");
        }
        // Reported again only when many connections have ended in between.
        is_reported = is_full || (is_reported && open >= limits.total / 2);
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            // Before the next connection, so that those that have ended are not counted.
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept(), if !is_full || limits.when_full == WhenFull::Close => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(error = report(&error), "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if is_full {
            continue;
        }
        let Some(turn) = peers.try_take(peer, 1) else {
            debug!(?peer, "too many connections of one peer");
            (limits.refused)(peer);
            continue;
        };
        let conversation = converse(stream, peer);
        connections.spawn(async move {
            conversation.await;
            drop(turn);
        });
    }
    drop(listener);
    info!("no new connections");
    while connections.join_next().await.is_some() {}
}

/// Runs a connection to its end. When `closing` returns, the connection accepts no further requests, and may take as
/// long as it says to answer those it has.
pub async fn converse<C>(connection: C, closing: impl Future<Output = Duration>)
where
    C: GracefulConnection<Error = hyper::Error>,
{
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        // A request that has arrived is answered, even if it is time to stop.
        biased;
        ended = &mut connection => ended,
        drain = closing => {
            connection.as_mut().graceful_shutdown();
            match timeout(drain, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        debug!(error = report(&error), "a connection broke");
    }
}
