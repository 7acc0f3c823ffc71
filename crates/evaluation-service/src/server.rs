//! Connections: TCP with TLS, or a socket of this machine; HTTP/2 on both.

mod at_once;
mod calls;
mod socket;
mod whole;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use service_kit::peers::Peers;
use service_kit::shutdown::Stop;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::gate::Gate;
use crate::service::Service;
use at_once::AtOnce;
use calls::{Calls, Counted};
use whole::Whole;

pub use socket::{LocalServer, SocketError};

/// Callers are one per node and a few services; whoever opens more keeps others waiting.
const CONNECTIONS: usize = 4096;
/// Of one peer: one process keeps one or two; many pods may be behind one address.
const CONNECTIONS_OF_PEER: usize = 64;
/// Calls on one connection at the same time.
const CALLS: u32 = 256;
/// Who connects and says nothing is let go after this.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// A caller that is gone without a word is noticed after at most the sum of both.
const PING_EVERY: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(10);
/// A connection without a call is closed after this: whoever needs it again opens it again.
const IDLE: Duration = Duration::from_mins(1);
/// How long the peer of a connection that is closed may take to say that it heard so.
const FAREWELL: Duration = Duration::from_secs(5);
/// Metadata is a token and little else.
const LONGEST_HEADERS: u32 = 32 * 1024;
/// A machine without free file descriptors is given time to get some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address is not free.
#[derive(Debug, Error)]
#[error("cannot listen on {address} for gRPC")]
pub struct BindError {
    address: SocketAddr,
    #[source]
    source: io::Error,
}

/// A server that is bound, but does not accept yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the address.
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let failed = |source| BindError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it listens: the real port, when it was bound to port 0.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is time to stop, and then until every call has its answer.
    pub async fn run(self, service: Service, tls: Arc<ServerConfig>, stop: Stop) {
        let open = service.metrics.connections.clone();
        let gate = Gate::new(service);
        let acceptor = TlsAcceptor::from(tls);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let peers = Peers::of(CONNECTIONS_OF_PEER);
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                () = stop.stopped() => break,
            };
            let (stream, peer) = match accepted {
                Ok((stream, peer)) => (stream, peer.ip()),
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                debug!("too many connections");
                continue;
            };
            let Some(peer) = peers.admit(peer) else {
                debug!(%peer, "too many connections of one peer");
                continue;
            };
            let (acceptor, gate) = (acceptor.clone(), gate.clone());
            let (stop, open) = (stop.clone(), open.clone());
            connections.spawn(async move {
                open.inc();
                serve(stream, acceptor, gate, stop).await;
                open.dec();
                drop((peer, place));
            });
        }
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, gate: Gate, stop: Stop) {
    // Answers are small, and somebody waits for each.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "a connection was lost");
        return;
    }
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "a TLS handshake failed"),
        Err(_) => return debug!("a TLS handshake took too long"),
    };
    converse(stream, gate, stop).await;
}

/// Serves the calls of one connection.
pub(crate) async fn converse<S>(stream: S, gate: Gate, stop: Stop)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(AtOnce).http2_only();
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .max_concurrent_streams(CALLS)
        .max_header_list_size(LONGEST_HEADERS);
    let calls = Calls::default();
    let service = TowerToHyperService::new(Counted {
        inner: gate,
        calls: calls.clone(),
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Whole(stream)), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.stopped() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = calls.idle(IDLE) => {
            debug!("a connection without calls is closed");
            connection.as_mut().graceful_shutdown();
            match timeout(FAREWELL, connection).await {
                Ok(ended) => ended,
                Err(_) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        debug!(error, "a connection ended");
    }
}
