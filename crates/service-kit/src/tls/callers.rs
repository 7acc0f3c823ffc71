//! Which client certificates may call a server. The authority that signs them is read from a file, again and again.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::ring,
    pki_types::{CertificateDer, UnixTime},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use super::{ReadFile, TlsError, TlsMetrics, files::WatchedFiles, install_provider, roots};
use crate::shutdown::Stop;

/// Whether the owner of a certificate may call. The authority has signed it.
pub type CallerCheck = Box<dyn Fn(&CertificateDer<'_>) -> bool + Send + Sync>;

/// The server's side: the authorities that clients' certificates are trusted by. No client comes in without one.
#[derive(Debug)]
pub struct CallerTls {
    current: Arc<AllowedCallers>,
    files: WatchedFiles<1>,
}

/// The callers that the next handshake accepts.
struct AllowedCallers {
    verifier: RwLock<Arc<dyn ClientCertVerifier>>,
    accepts: CallerCheck,
}

impl CallerTls {
    /// Reads root certificates. At the start there are no last good ones: a broken file is an error.
    pub fn load(
        roots_file: impl Into<PathBuf>,
        accepts: CallerCheck,
        metrics: &TlsMetrics,
    ) -> Result<Self, TlsError> {
        install_provider();
        let paths = [roots_file.into()];
        let (files, verifier) = WatchedFiles::open("client-roots", paths, metrics, verifier)?;
        let verifier = RwLock::new(verifier);
        Ok(Self {
            current: Arc::new(AllowedCallers { verifier, accepts }),
            files,
        })
    }

    /// The verifier of client certificates. It stays the same when the file changes.
    #[must_use]
    pub fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::<AllowedCallers>::clone(&self.current)
    }

    /// Follows the file until it is time to stop. Connections that are open stay open.
    pub async fn follow(mut self, stop: Stop) {
        while self.files.pause(&stop).await {
            self.look();
        }
    }

    pub(super) fn look(&mut self) {
        if let Some(verifier) = self.files.changed(verifier) {
            let current = self.current.verifier.write();
            *current.unwrap_or_else(PoisonError::into_inner) = verifier;
        }
    }
}

fn verifier(files: [ReadFile<'_>; 1]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let [(path, _)] = files;
    let roots: Arc<RootCertStore> = Arc::new(roots(files)?);
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
    verifier.map_err(|source| TlsError::Callers {
        path: path.to_owned(),
        source,
    })
}

impl AllowedCallers {
    fn now(&self) -> Arc<dyn ClientCertVerifier> {
        // A lock that is poisoned still guards a whole value: it is only ever replaced.
        Arc::clone(&self.verifier.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for AllowedCallers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").finish_non_exhaustive()
    }
}

impl ClientCertVerifier for AllowedCallers {
    /// None: a client has only one certificate to show, so it needs no hints.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .now()
            .verify_client_cert(end_entity, intermediates, now)?;
        if (self.accepts)(end_entity) {
            Ok(verified)
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.now().verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.now().verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.now().supported_verify_schemes()
    }
}
