//! The certificate of the next handshake, in memory.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::{
    ServerConfig,
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, danger::ClientCertVerifier},
    sign::CertifiedKey,
};
use service_kit::tls;

/// What the server shows. Clones share it; without a certificate no handshake succeeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Serving(Arc<Current>);

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
    /// Shows this certificate from the next handshake on; says whether it is another one than before.
    pub(crate) fn show(&self, certified: Arc<CertifiedKey>) -> bool {
        let mut current = self.0.0.write().unwrap_or_else(PoisonError::into_inner);
        let new = current
            .as_ref()
            .is_none_or(|shown| shown.cert != certified.cert);
        if new {
            *current = Some(certified);
        }
        new
    }

    /// The configuration to accept connections with, from whoever connects or from these callers alone; it stays the
    /// same when the certificate changes.
    pub(crate) fn config(&self, callers: Option<Arc<dyn ClientCertVerifier>>) -> Arc<ServerConfig> {
        tls::install_provider();
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Current>::clone(&self.0);
        let config = ServerConfig::builder();
        let config = match callers {
            None => config.with_no_client_auth(),
            Some(callers) => config.with_client_cert_verifier(callers),
        };
        let mut config = config.with_cert_resolver(resolver);
        // API servers call webhooks with nothing else, so that their calls are spread over the replicas.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A resumed session shows no certificate, and would outlive the one it was made under.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Arc::new(config)
    }
}
