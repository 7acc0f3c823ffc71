//! The roots that the next connection trusts.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::sync::watch;

/// The source of the roots.
#[derive(Clone, Debug)]
pub(super) enum Roots {
    /// A watch channel of a process that follows its TLS files.
    Followed(watch::Receiver<Arc<ClientConfig>>),
    /// A file in PEM. It is read for each connection: connections are rare, and the roots cannot become
    /// stale.
    File(PathBuf),
}

impl Roots {
    /// The configuration of the next connection. An error names the file.
    pub(super) async fn config(&self) -> io::Result<Arc<ClientConfig>> {
        match self {
            Self::Followed(config) => Ok(config.borrow().clone()),
            Self::File(path) => read(path).await.map_err(|error| {
                let place = path.display();
                io::Error::new(
                    error.kind(),
                    format!("cannot use the roots in {place}: {error}"),
                )
            }),
        }
    }
}

async fn read(path: &Path) -> io::Result<Arc<ClientConfig>> {
    let text = tokio::fs::read(path).await?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(io::Error::other)?;
        roots.add(certificate).map_err(io::Error::other)?;
    }
    if roots.is_empty() {
        return Err(io::Error::other("there is no certificate in it"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn certificate() -> String {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["authority".to_owned()]).unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    #[tokio::test]
    async fn the_file_is_read_each_time_and_an_error_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.crt");
        let roots = Roots::File(path.clone());
        let refused = async || roots.config().await.unwrap_err().to_string();
        assert!(refused().await.contains("ca.crt"));
        for odd in ["", "no certificate"] {
            fs::write(&path, odd).unwrap();
            let error = refused().await;
            assert!(
                error.contains("ca.crt") && error.contains("no certificate"),
                "{error}"
            );
        }
        // Two authorities, as during a rotation.
        fs::write(&path, certificate() + &certificate()).unwrap();
        assert!(roots.config().await.is_ok());
        fs::write(&path, certificate().replace("MII", "---")).unwrap();
        assert!(refused().await.contains("ca.crt"));
    }
}
