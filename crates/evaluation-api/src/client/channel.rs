//! The connection: HTTP/2 over TLS with the caller's configuration.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

use super::gathered::Gathered;
use super::roots::Roots;

const CONNECT: Duration = Duration::from_secs(3);
/// A server that disappeared is detected after at most the sum of both.
pub(super) const PING_EVERY: Duration = Duration::from_secs(4);
pub(super) const PONG_WITHIN: Duration = Duration::from_secs(3);

const HTTP_2: &[u8] = b"h2";

/// The URL is not one of a gRPC server behind TLS.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a URL of the form https://host:port")]
pub struct UrlError(String);

/// Opens no connection yet. `connect_to` is the address of the server if it is not that of the URL; its
/// certificate must name the URL's host all the same.
pub(super) fn open(
    url: &str,
    connect_to: Option<SocketAddr>,
    roots: Roots,
) -> Result<Channel, UrlError> {
    // A name and a password would be ignored, and repeated where the URL is.
    if url.contains('@') {
        return Err(UrlError("https://...@...".to_owned()));
    }
    let wrong = || UrlError(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let is_plain = matches!(uri.path(), "" | "/") && uri.query().is_none();
    if uri.scheme_str() != Some("https") || !is_plain {
        return Err(wrong());
    }
    let host = uri.host().ok_or_else(wrong)?;
    let is_alone = uri.authority().is_some_and(|it| it.as_str() == host);
    // A port that is no number is not the usual one.
    let port = uri
        .port_u16()
        .or(is_alone.then_some(443))
        .ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned()).map_err(|_| wrong())?;
    let address = connect_to.map_or_else(
        || (host.to_owned(), port),
        |it| (it.ip().to_string(), it.port()),
    );
    let connector = tower::service_fn(move |_: Uri| {
        let (address, name, roots) = (address.clone(), name.clone(), roots.clone());
        async move {
            let config = roots.config().await?;
            let stream = connect(address, name, config).await?;
            Ok::<_, io::Error>(TokioIo::new(Gathered::new(stream)))
        }
    });
    Ok(watched(Endpoint::from(uri)).connect_with_connector_lazy(connector))
}

/// The same for a Unix socket. Opens no connection yet.
pub(super) fn open_socket(path: PathBuf) -> Channel {
    let connector = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move {
            let stream = UnixStream::connect(path).await?;
            Ok::<_, io::Error>(TokioIo::new(Gathered::new(stream)))
        }
    });
    // The host is not used, but HTTP/2 requires one.
    let endpoint = Endpoint::from_static("http://localhost");
    watched(endpoint).connect_with_connector_lazy(connector)
}

fn watched(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .keep_alive_while_idle(true)
}

async fn connect(
    address: (String, u16),
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let mut config = ClientConfig::clone(&config);
    config.alpn_protocols = vec![HTTP_2.to_vec()];
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    if stream.get_ref().1.alpn_protocol() == Some(HTTP_2) {
        Ok(stream)
    } else {
        Err(io::Error::other("the server does not speak HTTP/2"))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    #[test]
    fn a_url_with_a_password_is_refused_and_not_repeated() {
        let (_sender, tls) = watch::channel(Arc::new(
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth(),
        ));
        for url in [
            "https://me:hunter2@a.b.svc:8443",
            "https://hunter2@a",
            "http://me:hunter2@a",
            "https://me:hunter2@a/v1",
            "https://me:hunter2@a b",
        ] {
            let error = open(url, None, Roots::Followed(tls.clone())).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[tokio::test]
    async fn only_https_and_nothing_behind_the_port() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let (_sender, tls) = watch::channel(Arc::new(config));
        let open = |url| open(url, None, Roots::Followed(tls.clone()));
        for good in [
            "https://a.b.svc:8443",
            "https://a",
            "https://127.0.0.1:1/",
            "https://[::1]:1",
            "https://[::1]",
        ] {
            assert!(open(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a:1",
            "http://a:1",
            "https://",
            "https://a:1/x",
            "https://a:1?x",
            "https://a_b c",
        ] {
            assert_eq!(open(bad).err(), Some(UrlError(bad.to_owned())));
        }
    }
}
