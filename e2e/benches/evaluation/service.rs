//! The service, and its clients.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evaluation_api::client::{Client, ClientSettings};
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::watch;

use crate::support::place::Place;
use crate::support::process::{Process, free_address, program};

const NAME: &str = "evaluation-service";

/// The program, and its TLS configuration.
pub(crate) struct Program {
    arguments: Vec<String>,
    /// Where each process of it has its socket.
    files: PathBuf,
    /// Kept, so that the receivers do not see the channel close.
    _roots: watch::Sender<Arc<ClientConfig>>,
    tls: watch::Receiver<Arc<ClientConfig>>,
}

/// A process of it.
pub(crate) struct Running {
    pub(crate) process: Process,
    address: SocketAddr,
    socket: PathBuf,
}

impl Program {
    pub(crate) fn new(place: &Place) -> Self {
        let (certificate, key) = (place.file("tls.crt"), place.file("tls.key"));
        let roots = Arc::new(certificates(&certificate, &key));
        let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        let arguments = vec![
            file("tls-certificate", &certificate),
            file("tls-key", &key),
            file("kubeconfig", &place.kubeconfig),
            format!("--namespace={}", place.namespace),
        ];
        // Without a configuration the service is not ready.
        let data = "--from-literal=enable-connectors-approval=true";
        let words = format!(
            "--namespace {} create configmap connectors-config {data}",
            place.namespace
        );
        place.kubectl.run(&words).unwrap();
        let (sender, tls) = watch::channel(roots);
        Self {
            arguments,
            files: place.files.path().to_owned(),
            _roots: sender,
            tls,
        }
    }

    /// How large it is.
    pub(crate) fn size() -> u64 {
        fs::metadata(program(NAME)).unwrap().len()
    }

    /// Starts it and waits until it is ready.
    pub(crate) fn start(&self) -> Running {
        let address = free_address();
        let socket = self.files.join(format!("socket-{}", address.port()));
        let mut arguments = self.arguments.clone();
        arguments.push(format!("--listen-address={address}"));
        arguments.push(format!("--listen-socket={}", socket.display()));
        Running {
            process: Process::start(NAME, &arguments),
            address,
            socket,
        }
    }

    /// A client with a connection of its own. To be called inside a runtime.
    pub(crate) fn over_tls(&self, running: &Running, token: PathBuf) -> Client {
        Client::new(ClientSettings {
            url: format!("https://localhost:{}", running.address.port()),
            tls: self.tls.clone(),
            token_file: token,
        })
        .unwrap()
    }

    /// The same over the Unix socket.
    pub(crate) fn over_socket(running: &Running) -> Client {
        Client::over_socket(running.socket.clone())
    }
}

/// A certificate for `localhost`, and the client configuration that trusts it.
fn certificates(certificate: &Path, key: &Path) -> ClientConfig {
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let pair = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let signed = params.signed_by(&pair, &issuer).unwrap();
    fs::write(certificate, signed.pem()).unwrap();
    fs::write(key, pair.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();
    // Another library may have chosen one already; there is only one in the graph.
    let _ = rustls::crypto::ring::default_provider().install_default();
    ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth()
}
