//! The HTTPS server that the API server calls.

mod http;

use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};

use ::http::{HeaderValue, header};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use rustls::ServerConfig;
use service_kit::{peers::Peers, report, shutdown::Stop};
use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use crate::metrics::Limit;

pub(crate) use http::{Handler, Page};

#[cfg(test)]
mod tests;

/// Who connects and does not shake hands is let go after this.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// And who did so in vain, after this, or when so much was read.
const FAREWELL: Duration = Duration::from_secs(1);
const MOST_UNHEARD: u64 = 64 * 1024;
/// Longer than the 90 seconds for which an API server keeps a connection that it does not use, or has not used yet. Closed
/// from here, one could meet a review that is on its way, and an API server does not ask twice. A head that comes in pieces
/// has as long.
const IDLE: Duration = Duration::from_secs(150);
/// Who does not take what he asked for is let go after so many milliseconds.
const UNREAD: u32 = 30_000;
/// An API server has a connection for each review at a time, and keeps 25 for each path.
const CONNECTIONS: u32 = 512;
/// Of one address: what three API servers behind it keep and some more, and the rest is for one that has its own.
const CONNECTIONS_OF_PEER: usize = 384;
/// The longest head of a review, and what is read ahead of its body: an API server's is a few hundred bytes.
const HEAD: usize = 16 * 1024;
/// A machine without free file descriptors is given time to get some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Until everybody knows that this process is stopping, new connections and reviews still come.
const LINGER: Duration = Duration::from_secs(3);
/// What is being answered after that has so long: longer than any answer takes.
const LAST: Duration = Duration::from_secs(5);

/// Answers until it is time to stop, and then until everything that was asked is answered.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    handler: Handler,
    stop: Stop,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS as usize));
    let acceptor = TlsAcceptor::from(tls);
    let accepting = accept(&listener, &acceptor, &handler, &places, &stop);
    tokio::select! {
        () = left(&stop) => {}
        () = accepting => {}
    }
    drop(listener);
    info!("no new connections");
    // Every place is free again when every connection has ended. The semaphore is never closed.
    let _ = places.acquire_many(CONNECTIONS).await;
}

async fn accept(
    listener: &TcpListener,
    acceptor: &TlsAcceptor,
    handler: &Handler,
    places: &Arc<Semaphore>,
    stop: &Stop,
) {
    let peers = Peers::of(CONNECTIONS_OF_PEER);
    let mut is_told = false;
    loop {
        let free = places.available_permits();
        if free == 0 && !is_told {
            warn!("{CONNECTIONS} connections are open: others have to wait");
        }
        // Told again only when there was much room in between.
        is_told = free == 0 || (is_told && free < CONNECTIONS as usize / 2);
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((connection, address)) => {
                let Some(peer) = peers.admit(address.ip()) else {
                    handler.limits().reached(Limit::Connections, address.ip());
                    continue;
                };
                let (acceptor, handler, stop) = (acceptor.clone(), handler.clone(), stop.clone());
                tokio::spawn(async move {
                    converse(connection, peer.address(), acceptor, handler, stop).await;
                    drop((peer, place));
                });
            }
            Err(error) => {
                warn!(error = report(&error), "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(
    connection: TcpStream,
    peer: IpAddr,
    acceptor: TlsAcceptor,
    handler: Handler,
    stop: Stop,
) {
    // An answer is one small write: waiting to fill a packet would only make it late.
    let _ = connection.set_nodelay(true);
    let _ = sockopt::set_tcp_user_timeout(&connection, UNREAD);
    let handshake = acceptor.accept(connection).into_fallible();
    let connection = match timeout(HANDSHAKE, handshake).await {
        Ok(Ok(connection)) => connection,
        Ok(Err((error, connection))) => {
            debug!(error = report(&error), "no TLS handshake");
            let _ = timeout(FAREWELL, say_farewell(connection)).await;
            return;
        }
        Err(_) => return,
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
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(connection), service);
    let mut conversation = std::pin::pin!(conversation);
    let ended = tokio::select! {
        // What has come is answered, whatever time it is.
        biased;
        ended = &mut conversation => ended,
        () = left(&stop) => {
            // What is being answered is answered; what comes later goes to another replica.
            conversation.as_mut().graceful_shutdown();
            let Ok(ended) = timeout(LAST, conversation).await else {
                return;
            };
            ended
        }
    };
    if let Err(error) = ended {
        debug!(error = report(&error), "a connection broke");
    }
}

/// Reads what was sent behind a handshake that failed. Closed with unread text, the connection would be reset, and the
/// client would not hear that its certificate is missing.
async fn say_farewell(mut connection: TcpStream) -> io::Result<()> {
    connection.shutdown().await?;
    io::copy(&mut connection.take(MOST_UNHEARD), &mut io::sink()).await?;
    Ok(())
}

/// Waits until whoever calls has had the time to go elsewhere: each answer until then tells him to.
async fn left(stop: &Stop) {
    stop.stopped().await;
    sleep(LINGER).await;
}
