//! The HTTPS server that the API server calls.

mod http;
mod weight;

use std::{sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use rustls::ServerConfig;
use service_kit::{report, shutdown::Stop};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

pub(crate) use http::{Handler, Page};

#[cfg(test)]
mod tests;

/// Who connects and does not get to the point is let go after this.
const HANDSHAKE: Duration = Duration::from_secs(5);
const HEADERS: Duration = Duration::from_secs(5);
/// An API server keeps one connection or a few; whoever holds more keeps others waiting, but costs no
/// memory.
const CONNECTIONS: u32 = 256;
/// Reviews that one connection may have open.
const STREAMS: u32 = 128;
/// A machine without free file descriptors is given time to get some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Until everybody knows that this process is stopping, new connections still come.
const LINGER: Duration = Duration::from_secs(3);

/// Answers until it is time to stop, and then until everything that was asked is answered.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    handler: Handler,
    stop: Stop,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS as usize));
    let acceptor = TlsAcceptor::from(tls);
    let lingered = async {
        stop.stopped().await;
        sleep(LINGER).await;
    };
    let accepting = accept(&listener, &acceptor, &handler, &places, &stop);
    tokio::select! {
        () = lingered => {}
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
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((connection, _)) => {
                let (acceptor, handler, stop) = (acceptor.clone(), handler.clone(), stop.clone());
                tokio::spawn(async move {
                    converse(connection, acceptor, handler, stop).await;
                    drop(place);
                });
            }
            Err(error) => {
                warn!(error = report(&error), "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(connection: TcpStream, acceptor: TlsAcceptor, handler: Handler, stop: Stop) {
    // An answer is one small write: waiting to fill a packet would only make it late.
    let _ = connection.set_nodelay(true);
    let connection = match timeout(HANDSHAKE, acceptor.accept(connection)).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            debug!(error = report(&error), "no TLS handshake");
            return;
        }
        Err(_) => return,
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let handler = handler.clone();
        async move { Ok::<_, std::convert::Infallible>(handler.answer(request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(Duration::from_secs(30));
    let conversation = builder.serve_connection(TokioIo::new(connection), service);
    let mut conversation = std::pin::pin!(conversation);
    let ended = tokio::select! {
        ended = &mut conversation => ended,
        () = stop.stopped() => {
            // What is being answered is answered; what comes later goes to another replica.
            conversation.as_mut().graceful_shutdown();
            conversation.await
        }
    };
    if let Err(error) = ended {
        debug!(error = report(error.as_ref()), "a connection broke");
    }
}
