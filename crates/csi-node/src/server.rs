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
use tonic::{body::Body, server::NamedService, transport::Server};
use tower::Service;

use crate::{
    proto::{
        csi::{
            identity_server::{Identity, IdentityServer},
            node_server::{Node, NodeServer},
        },
        registration::registration_server::RegistrationServer,
    },
    socket::Socket,
};

pub(crate) use identity::DriverIdentity;
pub(crate) use node::DriverNode;
pub(crate) use registration::{Registered, Registrar};

/// Sixteen connectors, a token and all names are far below.
const LONGEST_REQUEST: usize = 256 * 1024;

/// Both services of the driver's socket.
struct Csi<I, N> {
    identity: IdentityServer<I>,
    node: NodeServer<N>,
}

// Derived, it would ask for services that are clones themselves.
impl<I, N> Clone for Csi<I, N> {
    fn clone(&self) -> Self {
        Self {
            identity: self.identity.clone(),
            node: self.node.clone(),
        }
    }
}

impl<I: Identity, N: Node> Service<Request<Body>> for Csi<I, N> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Both are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = request.uri().path().split('/').nth(1);
        if service == Some(IdentityServer::<I>::NAME) {
            self.identity.call(request).boxed()
        } else {
            // It says of what it does not know that it is not implemented.
            self.node.call(request).boxed()
        }
    }
}

/// Serves the driver until it is time to stop; calls that run are answered first.
pub(crate) async fn serve_csi<I: Identity, N: Node>(
    mut socket: Socket,
    identity: I,
    node: N,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let Some(connections) = socket.connections() else {
        return Ok(());
    };
    let services = Csi {
        identity: IdentityServer::new(identity),
        node: NodeServer::new(node).max_decoding_message_size(LONGEST_REQUEST),
    };
    Server::builder()
        .serve_with_incoming_shutdown(services, connections, stop)
        .await
}

/// Serves the registration until it is time to stop.
pub(crate) async fn serve_registration(
    mut socket: Socket,
    registrar: Registrar,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let Some(connections) = socket.connections() else {
        return Ok(());
    };
    Server::builder()
        .serve_with_incoming_shutdown(RegistrationServer::new(registrar), connections, stop)
        .await
}
