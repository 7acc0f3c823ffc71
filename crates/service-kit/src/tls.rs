//! TLS from files that change: Kubernetes swaps the files of a Secret under a symbolic link.
//!
//! Files are compared by content, because no other property of them is reliable across such a swap. New
//! connections use the last valid content of the files. Invalid content (a key that does not belong to the
//! certificate, a file half written, a missing file) changes nothing, is logged once and counted, and is
//! checked again at the next change.

mod callers;
mod files;

#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{
        ClientHello, NoServerSessionStorage, ResolvesServerCert, VerifierBuilderError,
        danger::ClientCertVerifier,
    },
    sign::CertifiedKey,
    version::TLS13,
};
use thiserror::Error;
use tokio::sync::watch;

use crate::shutdown::Stop;
use files::WatchedFiles;

pub use callers::{CallerCheck, CallerTls};
pub use files::TlsMetrics;

/// Both ends are ours.
const VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13];

/// Why files make no TLS configuration.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A file is not PEM, or does not contain the expected items.
    #[error("{} holds no {what} in PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The expected items.
        what: &'static str,
        /// The problem of the file.
        #[source]
        source: pem::Error,
    },
    /// The certificate and the key are no pair, or of a kind that is not supported.
    #[error("the certificate in {} and its key cannot be used", certificate.display())]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// Why not.
        #[source]
        source: rustls::Error,
    },
    /// These roots can verify no client.
    #[error("the certificates in {} verify no client", path.display())]
    Callers {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: VerifierBuilderError,
    },
    /// A root certificate cannot be used.
    #[error("a certificate in {} is no root of trust", path.display())]
    Root {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: rustls::Error,
    },
}

/// Makes ring the process' provider of cryptography. Repetitions change nothing.
pub fn install_provider() {
    // An error says that there is one already, and the dependencies allow no other than this one.
    let _ = ring::default_provider().install_default();
}

/// The certificate that a server shows from the next handshake on. Clones share it; without one no handshake succeeds.
#[derive(Clone, Debug, Default)]
pub struct Serving(Arc<Current>);

#[derive(Debug, Default)]
struct Current(RwLock<Option<Arc<CertifiedKey>>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A lock that is poisoned still guards a whole value: it is only ever replaced.
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Serving {
    /// Shows this certificate from the next handshake on. Whether it is another one than before.
    pub fn show(&self, certified: Arc<CertifiedKey>) -> bool {
        let mut current = self.0.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = current
            .as_ref()
            .is_none_or(|shown| shown.cert != certified.cert);
        *current = Some(certified);
        is_new
    }

    /// The configuration to accept connections with, from these callers alone or from every client. It stays the same
    /// when the certificate changes.
    #[must_use]
    pub fn config(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
        callers: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Arc<ServerConfig> {
        install_provider();
        let config = ServerConfig::builder_with_protocol_versions(versions);
        let config = match callers {
            None => config.with_no_client_auth(),
            Some(callers) => config.with_client_cert_verifier(callers),
        };
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Current>::clone(&self.0);
        let mut config = config.with_cert_resolver(resolver);
        config.alpn_protocols = wire(protocols);
        // A resumed session shows no certificate, and would outlive the one it was made under.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Arc::new(config)
    }
}

/// The server's side: a certificate and its key.
#[derive(Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    serving: Serving,
    files: WatchedFiles<2>,
}

impl ServerTls {
    /// Reads a certificate chain and its key. At the start there is no last good pair: a broken one is an error.
    pub fn load(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        protocols: &[&str],
        metrics: &TlsMetrics,
    ) -> Result<Self, TlsError> {
        install_provider();
        let paths = [certificate.into(), key.into()];
        let (files, pair) = WatchedFiles::open("certificate", paths, metrics, pair)?;
        let serving = Serving::default();
        serving.show(Arc::new(pair));
        Ok(Self {
            config: serving.config(VERSIONS, protocols, None),
            serving,
            files,
        })
    }

    /// The configuration to accept connections with; it stays the same when the files change.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Follows the files until it is time to stop.
    pub async fn follow(mut self, stop: Stop) {
        while self.files.pause(&stop).await {
            self.look();
        }
    }

    fn look(&mut self) {
        if let Some(pair) = self.files.changed(pair) {
            self.serving.show(Arc::new(pair));
        }
    }
}

/// The client's side: the roots that servers are trusted by.
#[derive(Debug)]
pub struct ClientTls {
    protocols: Vec<Vec<u8>>,
    current: watch::Sender<Arc<ClientConfig>>,
    files: WatchedFiles<1>,
}

impl ClientTls {
    /// Reads root certificates.
    pub fn load(
        roots_file: impl Into<PathBuf>,
        protocols: &[&str],
        metrics: &TlsMetrics,
    ) -> Result<Self, TlsError> {
        install_provider();
        let (files, roots) = WatchedFiles::open("roots", [roots_file.into()], metrics, roots)?;
        let protocols = wire(protocols);
        let config = client_config(roots, &protocols);
        Ok(Self {
            protocols,
            current: watch::Sender::new(config),
            files,
        })
    }

    /// The configuration for the next connection, now and whenever the file changes.
    #[must_use]
    pub fn config(&self) -> watch::Receiver<Arc<ClientConfig>> {
        self.current.subscribe()
    }

    /// Follows the file until it is time to stop.
    pub async fn follow(mut self, stop: Stop) {
        while self.files.pause(&stop).await {
            self.look();
        }
    }

    fn look(&mut self) {
        if let Some(roots) = self.files.changed(roots) {
            self.current
                .send_replace(client_config(roots, &self.protocols));
        }
    }
}

fn wire(protocols: &[&str]) -> Vec<Vec<u8>> {
    protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect()
}

fn client_config(roots: RootCertStore, protocols: &[Vec<u8>]) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_protocol_versions(VERSIONS)
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.to_vec();
    Arc::new(config)
}

/// One file as it was read.
type ReadFile<'a> = (&'a Path, &'a [u8]);

fn certificates((path, bytes): ReadFile<'_>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::Pem {
        path: path.to_owned(),
        what: "certificate",
        source,
    };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(bytes)
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if chain.is_empty() {
        return Err(failed(pem::Error::NoItemsFound));
    }
    Ok(chain)
}

fn pair([certificate, (key_path, key)]: [ReadFile<'_>; 2]) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|source| TlsError::Pem {
        path: key_path.to_owned(),
        what: "private key",
        source,
    })?;
    // Reading two files is no one step: a certificate of before a swap and a key of after it end here.
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|source| TlsError::Pair {
        certificate: certificate.0.to_owned(),
        source,
    })
}

fn roots([file]: [ReadFile<'_>; 1]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(file)? {
        store.add(certificate).map_err(|source| TlsError::Root {
            path: file.0.to_owned(),
            source,
        })?;
    }
    Ok(store)
}
