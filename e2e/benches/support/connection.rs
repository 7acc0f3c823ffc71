//! One HTTP/1.1 connection, kept from call to call. Nothing but the bytes is between a caller and the server.

use std::path::Path;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube::Config;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Carries one call at a time.
pub(crate) struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    /// Over TLS, to a server on this machine that shows a certificate for a name.
    pub(crate) async fn over_tls(port: u16, mut tls: ClientConfig, name: String) -> Self {
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from(name).unwrap();
        let tls = TlsConnector::from(Arc::new(tls));
        Self::over(tls.connect(name, stream).await.unwrap()).await
    }

    /// To the API server, as the user of a kubeconfig.
    pub(crate) async fn to_api_server(kubeconfig: &Path) -> Self {
        let config = Kubeconfig::read_from(kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(config, &options);
        let config = config.await.unwrap();
        let tls = config.rustls_client_config().unwrap();
        let url = &config.cluster_url;
        let (host, port) = (url.host().unwrap(), url.port_u16().unwrap());
        Self::over_tls(port, tls, host.to_owned()).await
    }

    /// Sends a request, to this machine unless it names a host, and reads the whole answer.
    pub(crate) async fn send(&mut self, mut request: Request<Full<Bytes>>) -> (StatusCode, Bytes) {
        let host = request.headers_mut().entry(HOST);
        host.or_insert(HeaderValue::from_static("localhost"));
        self.0.ready().await.unwrap();
        let answer = self.0.send_request(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap();
        (status, body.to_bytes())
    }
}
