//! The HTTPS server that the API server calls.

mod http;

use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};

use ::http::{HeaderValue, header};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use rustls::{ServerConfig, server::danger::ClientCertVerifier};
use service_kit::{
    serve::{self, ConnectionLimits, WhenFull, handshake},
    shutdown::Stop,
    tls::Serving,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};
use tokio_rustls::TlsAcceptor;

use crate::metrics::Limit;

pub(crate) use http::Handler;

#[cfg(test)]
mod tests;

/// Longer than the 90 seconds for which an API server keeps a connection that it does not use, or has not used yet.
/// Closed from here, one could meet a review that is on its way, and an API server does not ask twice. A head that
/// comes in pieces has as long.
const IDLE: Duration = Duration::from_secs(150);
/// A client that does not read its response is disconnected after so many milliseconds.
const UNREAD: u32 = 30_000;
/// An API server has a connection for each review at a time, and keeps 25 for each path.
const CONNECTIONS: usize = 512;
/// Of one address: what three API servers behind it keep and some more, and the rest is for one that has its own.
const CONNECTIONS_OF_PEER: usize = 384;
/// The longest head of a review, and what is read ahead of its body: an API server's is a few hundred bytes.
const HEAD: usize = 16 * 1024;
/// New connections and reviews still arrive until every API server knows that this process is stopping.
const LINGER: Duration = Duration::from_secs(3);
/// The time for reviews that are open after that: longer than any answer takes.
const LAST: Duration = Duration::from_secs(5);

/// The TLS of the server, for these callers alone or for every client. API servers call webhooks with HTTP/1.1 alone,
/// so that their calls are spread over the replicas.
pub(crate) fn config(
    serving: &Serving,
    callers: Option<Arc<dyn ClientCertVerifier>>,
) -> Arc<ServerConfig> {
    serving.config(rustls::DEFAULT_VERSIONS, &["http/1.1"], callers)
}

/// Answers until it is time to stop, and then until every review is answered.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    handler: Handler,
    stop: Stop,
) {
    let refusing = handler.limits().clone();
    let limits = ConnectionLimits {
        per_peer: CONNECTIONS_OF_PEER,
        refused: Box::new(move |peer| refusing.reached(Limit::Connections, peer)),
        ..ConnectionLimits::of(CONNECTIONS, WhenFull::Wait)
    };
    let acceptor = TlsAcceptor::from(tls);
    serve::serve(listener, limits, left(&stop), |connection, peer| {
        converse(
            connection,
            peer,
            acceptor.clone(),
            handler.clone(),
            stop.clone(),
        )
    })
    .await;
}

async fn converse(
    connection: TcpStream,
    peer: IpAddr,
    acceptor: TlsAcceptor,
    handler: Handler,
    stop: Stop,
) {
    let _ = sockopt::set_tcp_user_timeout(&connection, UNREAD);
    let Some(connection) = handshake(&acceptor, connection).await else {
        return;
    };
    let service = service_fn(|request: Request<Incoming>| {
        let (handler, stop) = (&handler, &stop);
        async move {
            let mut response = handler.answer(peer, request).await;
            if stop.is_stopping() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(connection), service);
    // Later reviews go to another replica.
    let closing = async {
        left(&stop).await;
        LAST
    };
    serve::converse(connection, closing).await;
}

/// Waits until API servers have had time to choose another replica: each response until then tells them to.
async fn left(stop: &Stop) {
    stop.stopped().await;
    sleep(LINGER).await;
}
