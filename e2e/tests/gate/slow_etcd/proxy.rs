//! A proxy between the API server and etcd, in the cluster's network, that holds progress notifications back.

use std::{
    fs, io,
    net::SocketAddr,
    os::fd::AsFd,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use e2e::{Cluster, Component, Deadline, Tool, poll};
use http::{Request, Response, Uri};
use http_body_util::Either;
use hyper::{
    body::Incoming,
    client::conn::http2::{self as client, SendRequest},
    server::conn::http2 as server,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::progress::{Delay, SlowProgress};
use e2e::harness::PATIENCE;

const ETCD: &str = "127.0.0.1:2379";
const PROXY: &str = "127.0.0.1:2378";
/// The proxy's own connections, which are not led back to it.
const OWN: &str = "127.0.0.2:0";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// The table of nftables that leads the API server to the proxy.
const TABLE: &str = "slow-etcd";

type Answer = Response<Either<Incoming, SlowProgress>>;

/// The API server of a cluster reaches etcd through a proxy until this value is dropped.
pub(super) struct SlowEtcd<'a> {
    cluster: &'a Cluster,
    pub(super) delay: Delay,
    stop: Option<oneshot::Sender<()>>,
    proxy: Option<JoinHandle<()>>,
}

impl<'a> SlowEtcd<'a> {
    /// Without a delay at first.
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        let delay = Delay::default();
        let tls = Tls::of(cluster);
        let network = cluster.network().unwrap();
        let (stop, stopped) = oneshot::channel();
        let (listens, listening) = mpsc::channel();
        let of_proxy = delay.clone();
        let proxy = thread::spawn(move || {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                let listener = TcpListener::bind(PROXY).await.unwrap();
                listens.send(()).unwrap();
                tokio::select! {
                    () = serve(&listener, &tls, &of_proxy) => {}
                    _ = stopped => {}
                }
            });
        });
        let slow = Self {
            cluster,
            delay,
            stop: Some(stop),
            proxy: Some(proxy),
        };
        listening.recv().unwrap();
        slow.in_network(&format!("add table ip {TABLE}"));
        slow.in_network(&format!(
            "add chain ip {TABLE} out {{ type nat hook output priority -100; }}"
        ));
        slow.in_network(&format!(
            "add rule ip {TABLE} out ip saddr != 127.0.0.2 ip daddr 127.0.0.1 tcp dport 2379 dnat to {PROXY}"
        ));
        slow.restart_api_server();
        slow
    }

    fn in_network(&self, rule: &str) {
        let network = self.cluster.network().unwrap();
        let rule = rule.to_owned();
        let inside = thread::spawn(move || {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            Tool::new("nft").args([rule]).output().unwrap();
        });
        inside.join().unwrap();
    }

    /// Its connections are those of its start.
    fn restart_api_server(&self) {
        Cluster::restart(self.cluster.name(), Component::KubeApiserver).unwrap();
        let kubectl = self.cluster.kubectl();
        let ready = || {
            let ready = kubectl.run("get --raw /readyz");
            ready.map_err(|error| error.to_string())
        };
        poll("the API server", Deadline::after(PATIENCE), ready).unwrap();
    }
}

impl Drop for SlowEtcd<'_> {
    fn drop(&mut self) {
        self.in_network(&format!("delete table ip {TABLE}"));
        drop(self.stop.take());
        if let Some(proxy) = self.proxy.take() {
            // It has told why in its own words.
            let _ = proxy.join();
        }
        self.restart_api_server();
    }
}

/// Both ends of the proxy.
struct Tls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

impl Tls {
    fn of(cluster: &Cluster) -> Self {
        let certificate = |name: &str| {
            let chain = CertificateDer::pem_file_iter(cluster.pki(&format!("{name}.crt")));
            let key = PrivateKeyDer::from_pem_file(cluster.pki(&format!("{name}.key")));
            let chain: Result<Vec<_>, _> = chain.unwrap().collect();
            (chain.unwrap(), key.unwrap())
        };
        let mut roots = RootCertStore::empty();
        let authority = fs::read(cluster.pki("etcd-ca.crt")).unwrap();
        roots
            .add(CertificateDer::from_pem_slice(&authority).unwrap())
            .unwrap();
        let (chain, key) = certificate("etcd");
        let mut server = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let (chain, key) = certificate("apiserver-etcd-client");
        let mut client = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        server.alpn_protocols = vec![b"h2".to_vec()];
        client.alpn_protocols = vec![b"h2".to_vec()];
        Self {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
        }
    }
}

async fn serve(listener: &TcpListener, tls: &Tls, delay: &Delay) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (acceptor, connector) = (tls.acceptor.clone(), tls.connector.clone());
        let delay = delay.clone();
        tokio::spawn(async move {
            // The API server connects again after an error.
            if let Err(error) = join(stream, acceptor, connector, delay).await {
                eprintln!("a connection to etcd ended: {error}");
            }
        });
    }
}

/// Leads one connection of the API server to etcd, until it ends.
async fn join(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    delay: Delay,
) -> io::Result<()> {
    let stream = acceptor.accept(stream).await?;
    let socket = TcpSocket::new_v4()?;
    socket.bind(OWN.parse().map_err(io::Error::other)?)?;
    let etcd: SocketAddr = ETCD.parse().map_err(io::Error::other)?;
    let inner = socket.connect(etcd).await?;
    let name = ServerName::from(etcd.ip());
    let inner = TokioIo::new(connector.connect(name, inner).await?);
    let handshake = client::handshake(TokioExecutor::new(), inner).await;
    let (calls, connection) = handshake.map_err(io::Error::other)?;
    let inner = tokio::spawn(connection);
    let service = service_fn(move |request| pass(calls.clone(), request, delay.clone()));
    let served = server::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    inner.abort();
    served.map_err(io::Error::other)
}

async fn pass(
    mut calls: SendRequest<Incoming>,
    mut request: Request<Incoming>,
    delay: Delay,
) -> Result<Answer, hyper::Error> {
    let is_watch = request.uri().path() == WATCH;
    let mut uri = std::mem::take(request.uri_mut()).into_parts();
    uri.scheme = Some(http::uri::Scheme::HTTPS);
    uri.authority = ETCD.parse().ok();
    *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
    let answer = calls.send_request(request).await?;
    Ok(answer.map(|body| {
        if is_watch {
            Either::Right(SlowProgress::of(body, delay))
        } else {
            Either::Left(body)
        }
    }))
}
