//! The admin server: `/healthz`, `/readyz` and `/metrics` for the kubelet and for Prometheus.
//!
//! It is bound before any work starts, so that a taken port ends the process at once. It answers until the very end, so
//! that a draining process can be seen to be unready.

use std::{convert::Infallible, future::pending, net::SocketAddr, time::Duration};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use tokio::net::{TcpListener, TcpStream};
use tracing::{info, warn};

use crate::{
    readiness::{Readiness, Status},
    report,
    serve::{self, BindError, ConnectionLimits, WhenFull},
};

#[cfg(test)]
mod tests;

/// A client that sends no request is disconnected after this.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The kubelet and a few scrapers. Above the limit clients wait, which costs no memory.
const CONNECTIONS: usize = 64;

/// A server that is bound, but does not answer yet.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
}

/// The sources of the answers.
#[derive(Clone, Debug)]
struct Sources {
    readiness: Readiness,
    metrics: Registry,
}

impl Admin {
    /// Takes the address.
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let (listener, address) = serve::bind(address, "health and metrics").await?;
        Ok(Self { listener, address })
    }

    /// Where the server listens: the real port, when it was bound to port 0.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers from now on, until the process ends: it is no task that is told to stop.
    pub fn start(self, readiness: Readiness, metrics: Registry) {
        let Self { listener, address } = self;
        info!(%address, "serving health and metrics");
        let sources = Sources { readiness, metrics };
        let limits = ConnectionLimits::of(CONNECTIONS, WhenFull::Wait);
        let converse = move |connection, _| converse(connection, sources.clone());
        tokio::spawn(serve::serve(listener, limits, pending(), converse));
    }
}

async fn converse(connection: TcpStream, sources: Sources) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = answer(request.method(), request.uri().path(), &sources);
        async { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(connection), service);
    serve::converse(connection, pending()).await;
}

fn answer(method: &Method, path: &str, sources: &Sources) -> Response<Full<Bytes>> {
    let page: fn(&Sources) -> Response<Full<Bytes>> = match path {
        "/healthz" => |_| text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => |sources| ready(&sources.readiness.status()),
        "/metrics" => |sources| metrics(&sources.metrics),
        _ => return text(StatusCode::NOT_FOUND, "not found\n".to_owned()),
    };
    if method == Method::GET {
        return page(sources);
    }
    let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
    let get = header::HeaderValue::from_static("GET");
    refusal.headers_mut().insert(header::ALLOW, get);
    refusal
}

fn ready(status: &Status) -> Response<Full<Bytes>> {
    match status {
        Status::Ready => text(StatusCode::OK, "ready\n".to_owned()),
        Status::Missing(parts) => {
            let parts = parts.join("\nwaiting for ");
            text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("waiting for {parts}\n"),
            )
        }
        Status::Stopping => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()),
    }
}

fn metrics(registry: &Registry) -> Response<Full<Bytes>> {
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(page) => typed(StatusCode::OK, TEXT_FORMAT, page),
        Err(error) => {
            warn!(error = report(&error), "cannot write the metrics");
            text(StatusCode::INTERNAL_SERVER_ERROR, "no metrics\n".to_owned())
        }
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", body)
}

fn typed(status: StatusCode, media_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let media_type = header::HeaderValue::from_static(media_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    response
}
