//! Connections and requests: refused without the right credentials, answered after a yes of the evaluation service.

use std::{convert::Infallible, sync::Arc};

use evaluation_api::{
    access::{AccessTarget, ConnectorName, Decision, Permission, TokenQuestion},
    client::Client,
};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
    upgrade,
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use crate::{
    contents::{Content, Contents},
    credentials::StandIn,
};

/// The tools of one namespace, and what stands in front of them.
pub(crate) struct Front {
    pub(crate) namespace: String,
    pub(crate) evaluation: Client,
    pub(crate) contents: Contents,
    pub(crate) tls: TlsAcceptor,
}

/// Why a request gets no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrontRefusal {
    /// No credentials in the way of the tool, or a token that is worth nothing.
    Credentials,
    /// The pod behind the token may not use the connector now.
    Denied,
}

type Answer = Response<Full<Bytes>>;

impl Front {
    /// Answers the requests of one connection. Those in a tunnel are for the tool of the tunnel.
    pub(crate) async fn converse<S>(self: Arc<Self>, connection: S, tunnel: Option<StandIn>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request| {
            let front = Arc::clone(&self);
            async move { Ok::<_, Infallible>(front.answer(request, tunnel).await) }
        });
        // A client that breaks the connection off has its reasons.
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(connection), service)
            .with_upgrades()
            .await;
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        tunnel: Option<StandIn>,
    ) -> Answer {
        if request.method() == Method::CONNECT {
            return match tunnel {
                Some(_) => said(StatusCode::METHOD_NOT_ALLOWED),
                None => self.open_tunnel(request).await,
            };
        }
        let host = request.headers().get(header::HOST);
        let host = host.and_then(|it| it.to_str().ok()).unwrap_or_default();
        let Some(tool) = StandIn::of_host(host) else {
            return said(StatusCode::NOT_FOUND);
        };
        // A tunnel leads to the tool that it was opened for.
        if tunnel.is_some_and(|it| it != tool) {
            return said(StatusCode::MISDIRECTED_REQUEST);
        }
        let token = tool.token(request.headers());
        match self.review(tool, token).await {
            Ok(pod) => match self.contents.get(tool, request.uri().path(), &pod) {
                Some(content) => with_content(content),
                None => said(StatusCode::NOT_FOUND),
            },
            Err(FrontRefusal::Credentials) => challenged(
                StatusCode::UNAUTHORIZED,
                header::WWW_AUTHENTICATE,
                tool.challenge(),
            ),
            Err(FrontRefusal::Denied) => said(StatusCode::FORBIDDEN),
        }
    }

    /// Ends the TLS of the tunnel here, and answers for the tool.
    async fn open_tunnel(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let host = request.uri().host().unwrap_or_default();
        let Some(tool) = StandIn::of_host(host) else {
            return said(StatusCode::NOT_FOUND);
        };
        let token = tool.proxy_token(request.headers(), &self.namespace);
        match self.review(tool, token).await {
            Ok(_) => {}
            Err(FrontRefusal::Credentials) => {
                return challenged(
                    StatusCode::PROXY_AUTHENTICATION_REQUIRED,
                    header::PROXY_AUTHENTICATE,
                    "Basic realm=\"proxy\"",
                );
            }
            Err(FrontRefusal::Denied) => return said(StatusCode::FORBIDDEN),
        }
        tokio::spawn(async move {
            let Ok(connection) = upgrade::on(request).await else {
                return;
            };
            if let Ok(connection) = self.tls.accept(TokioIo::new(connection)).await {
                self.converse_in_tunnel(connection, tool).await;
            }
        });
        said(StatusCode::OK)
    }

    /// The connection within a tunnel, as a type of its own: `converse` would be within itself.
    fn converse_in_tunnel<S>(
        self: Arc<Self>,
        connection: S,
        tool: StandIn,
    ) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        Box::pin(self.converse(connection, Some(tool)))
    }

    /// The name of the pod behind a token, if that pod may use the tool now. Every error is a no.
    async fn review(&self, tool: StandIn, token: Option<String>) -> Result<String, FrontRefusal> {
        let token = token.ok_or(FrontRefusal::Credentials)?;
        let connector = ConnectorName {
            namespace: self.namespace.clone(),
            name: tool.name().to_owned(),
        };
        let target = AccessTarget {
            connector,
            permission: Permission::Apis,
            verb: "*".to_owned(),
        };
        let question = TokenQuestion { token, target };
        match self.evaluation.review_token(question).await {
            Ok(answer) => match answer.answer.decision {
                Decision::AllowedPod(_) | Decision::AllowedStanding(_) => Ok(answer.pod.name),
                Decision::Denied => Err(FrontRefusal::Denied),
            },
            Err(error) => {
                eprintln!("{}: no yes: {error}", tool.name());
                Err(FrontRefusal::Credentials)
            }
        }
    }
}

fn said(status: StatusCode) -> Answer {
    let text = if status.is_success() {
        Bytes::new()
    } else {
        Bytes::from(format!("{status}\n"))
    };
    let mut answer = Response::new(Full::new(text));
    *answer.status_mut() = status;
    answer
}

fn challenged(status: StatusCode, name: HeaderName, challenge: &'static str) -> Answer {
    let mut answer = said(status);
    let value = HeaderValue::from_static(challenge);
    answer.headers_mut().insert(name, value);
    answer
}

fn with_content(content: Content) -> Answer {
    let Content { media_type, bytes } = content;
    let mut answer = Response::new(Full::new(Bytes::from(bytes)));
    let value = HeaderValue::from_static(media_type);
    answer.headers_mut().insert(header::CONTENT_TYPE, value);
    answer
}
