//! The server on a port of this machine, for programs that are processes of their own.

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use http::Request;
use http_body_util::BodyExt;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use crate::{caller::Caller, serve, server::ApiServer, state::Shared};

/// A port, until this is dropped. Its connections end with it.
pub struct ServedPort {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl fmt::Debug for ServedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedPort")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl ServedPort {
    /// The URL of the server there.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for ServedPort {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl ApiServer {
    /// Serves this caller on a free port of the loopback address, over HTTP and without tokens: each connection
    /// is of that caller. Needs a tokio runtime.
    pub async fn listen(&self, caller: &Caller) -> io::Result<ServedPort> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (shared, caller) = (self.shared(), caller.clone());
        let accepting = tokio::spawn(async move {
            // Connections end with the port.
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    Some(_) = connections.join_next() => {}
                    accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                        connections.spawn(converse(shared.clone(), caller.clone(), stream));
                    },
                }
            }
        });
        Ok(ServedPort { address, accepting })
    }
}

async fn converse(shared: Arc<Shared>, caller: Caller, stream: TcpStream) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (shared, caller) = (shared.clone(), caller.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let request = Request::from_parts(parts, Body::from(body));
            serve::serve(shared, caller, request).await
        }
    });
    // A fault of the test, or a caller that is gone, breaks a connection off.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
