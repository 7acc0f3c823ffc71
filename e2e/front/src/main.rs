//! Stands in for a registry, a git host, an HTTP API, a cluster and a Maven repository, with the front that protects them.
//!
//! A client shows its pod's token in the way of its tool. The front asks the evaluation service about that token, and
//! answers with the content of the tool only after a yes. It is a proxy too: it ends the TLS of a tunnel itself, with a
//! certificate that the connector's status tells about.
//!
//! The first label of the host is the name of the tool and of its connector.

mod contents;
mod credentials;
mod served;

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc};

use clap::Parser;
use evaluation_api::client::{Client, ClientFiles, UrlError};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use contents::{Contents, ContentsError};
use served::Front;

/// Serves the tools of one namespace until it is ended
#[derive(Parser)]
struct Arguments {
    /// Where clients connect
    #[arg(long, default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// The namespace of the connectors
    #[arg(long)]
    namespace: String,
    /// The evaluation service
    #[arg(
        long,
        default_value = "https://evaluation-service.connectors-system.svc:8443"
    )]
    evaluation: String,
    /// The roots of the evaluation service, in PEM
    #[arg(long)]
    roots: PathBuf,
    /// This service's own token for the audience `connectors-evaluation`
    #[arg(long)]
    token: PathBuf,
    /// The certificate of the tools behind the proxy, in PEM
    #[arg(long)]
    certificate: PathBuf,
    /// Its key, in PEM
    #[arg(long)]
    key: PathBuf,
    /// An empty directory for the repository of the git host
    #[arg(long)]
    work: PathBuf,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
enum FrontError {
    #[error("--evaluation: no address of a service")]
    Url(#[from] UrlError),
    #[error("--certificate or --key: no PEM file: {0}")]
    Pem(#[from] pem::Error),
    #[error("--certificate and --key do not fit: {0}")]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Contents(#[from] ContentsError),
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
}

// Clients are few, and each of them waits for the evaluation service.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), FrontError> {
    let Arguments {
        listen,
        namespace,
        evaluation,
        roots,
        token,
        certificate,
        key,
        work,
    } = arguments;
    let evaluation = Client::from_files(ClientFiles {
        url: evaluation,
        connect_to: None,
        roots_file: roots,
        token_file: token,
    })?;
    let front = Arc::new(Front {
        namespace,
        evaluation,
        contents: Contents::make(&work)?,
        tls: acceptor(&certificate, &key)?,
    });
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (connection, _) = listener.accept().await?;
        tokio::spawn(Arc::clone(&front).converse(connection, None));
    }
}

fn acceptor(certificate: &PathBuf, key: &PathBuf) -> Result<TlsAcceptor, FrontError> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
