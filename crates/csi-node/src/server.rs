//! The gRPC services behind the sockets.

mod identity;
mod node;
mod registration;

#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use service_kit::{
    serve::{self, ConnectionLimits, UNLIMITED, UnixSocket},
    shutdown::Stop,
};
use tonic::{body::Body, server::NamedService};
use tower::Service;

use crate::proto::{
    csi::{
        identity_server::{Identity, IdentityServer},
        node_server::{Node, NodeServer},
    },
    registration::registration_server::RegistrationServer,
};

pub(crate) use identity::DriverIdentity;
pub(crate) use node::DriverNode;
pub(crate) use registration::{Registered, Registrar};

/// Sixteen connectors, a token and all names are far below this limit.
const LONGEST_REQUEST: usize = 256 * 1024;

/// Both services of the driver's socket.
struct Csi<I, N> {
    identity: IdentityServer<I>,
    node: NodeServer<N>,
}

// A derived implementation would require services that are clones themselves.
impl<I, N> Clone for Csi<I, N> {
    fn clone(&self) -> Self {
        Self {
            identity: self.identity.clone(),
            node: self.node.clone(),
        }
    }
}

impl<I: Identity, N: Node> Service<Request<Incoming>> for Csi<I, N> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Both are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let service = request.uri().path().split('/').nth(1);
        if service == Some(IdentityServer::<I>::NAME) {
            self.identity.call(request).boxed()
        } else {
            // It answers unknown calls with "not implemented".
            self.node.call(request).boxed()
        }
    }
}

/// Serves the driver until it is time to stop. Running calls are answered first.
pub(crate) async fn serve_csi<I: Identity, N: Node>(
    socket: UnixSocket,
    identity: I,
    node: N,
    stop: Stop,
) {
    let services = Csi {
        identity: IdentityServer::new(identity),
        node: NodeServer::new(node).max_decoding_message_size(LONGEST_REQUEST),
    };
    serve(socket, services, stop).await;
}

/// Serves the registration until it is time to stop.
pub(crate) async fn serve_registration(socket: UnixSocket, registrar: Registrar, stop: Stop) {
    serve(socket, RegistrationServer::new(registrar), stop).await;
}

async fn serve<S>(socket: UnixSocket, service: S, stop: Stop)
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    // The kubelet opens a connection for each call. Held mounts must leave one for the end of a pod.
    let limits = ConnectionLimits::unlimited();
    serve::serve(socket, limits, stop.stopped(), |connection, _| {
        let service = TowerToHyperService::new(service.clone());
        let connection = http2::Builder::new(TokioExecutor::new())
            // Held mounts must not use up the calls of a connection: the node plugin counts them itself.
            .max_concurrent_streams(None)
            .serve_connection(TokioIo::new(connection), service);
        let stop = stop.clone();
        serve::converse(connection, async move {
            stop.stopped().await;
            UNLIMITED
        })
    })
    .await;
}
