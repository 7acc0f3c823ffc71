mod follow;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

use prometheus::Registry;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, KeyPair};
use rustls::{ClientConfig, ServerConfig, pki_types::ServerName};
use tempfile::TempDir;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{ClientTls, ServerTls, TlsError, TlsMetrics};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key.
    fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["server".to_owned()]).unwrap();
        (
            params.signed_by(&key, &self.0).unwrap().pem(),
            key.serialize_pem(),
        )
    }
}

/// A mounted Secret: files behind a link to a directory that is swapped as a whole.
struct Mounted {
    root: TempDir,
    version: u32,
}

impl Mounted {
    fn new(files: &[(&str, &str)]) -> Self {
        let mut mounted = Self {
            root: tempfile::tempdir().unwrap(),
            version: 0,
        };
        for (name, _) in files {
            symlink(Path::new("..data").join(name), mounted.path(name)).unwrap();
        }
        mounted.swap(files);
        mounted
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn swap(&mut self, files: &[(&str, &str)]) {
        self.version += 1;
        let version = format!("..v{}", self.version);
        fs::create_dir(self.path(&version)).unwrap();
        for (name, content) in files {
            fs::write(self.path(&version).join(name), content).unwrap();
        }
        let link = self.path("..data_tmp");
        symlink(version, &link).unwrap();
        fs::rename(link, self.path("..data")).unwrap();
    }
}

fn metrics() -> TlsMetrics {
    TlsMetrics::register(&Registry::new()).unwrap()
}

fn counted(metrics: &TlsMetrics, files: &str) -> (u64, u64) {
    let count = |result| metrics.counted(files, result);
    (count("loaded"), count("refused"))
}

fn server(mounted: &Mounted, metrics: &TlsMetrics) -> Result<ServerTls, TlsError> {
    ServerTls::load(
        mounted.path("tls.crt"),
        mounted.path("tls.key"),
        &["h2"],
        metrics,
    )
}

fn client(mounted: &Mounted, metrics: &TlsMetrics) -> ClientTls {
    ClientTls::load(mounted.path("ca.crt"), &["h2"], metrics).unwrap()
}

/// The certificate that a client of this configuration sees, if it trusts it.
async fn handshake(server: Arc<ServerConfig>, client: Arc<ClientConfig>) -> Option<Vec<u8>> {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let name = ServerName::try_from("server").unwrap();
    let accepted = TlsAcceptor::from(server).accept(far);
    let connected = TlsConnector::from(client).connect(name, near);
    let (_, connected) = tokio::join!(accepted, connected);
    let connected = connected.ok()?;
    let session = connected.get_ref().1;
    assert_eq!(session.alpn_protocol(), Some(b"h2".as_slice()));
    Some(session.peer_certificates()?.first()?.to_vec())
}

#[tokio::test]
async fn new_connections_see_a_rotated_certificate() {
    let (authority, metrics) = (Authority::new("one"), metrics());
    let (first, second) = (authority.issue(), authority.issue());
    let ca = Mounted::new(&[("ca.crt", &authority.0.pem())]);
    let mut mounted = Mounted::new(&[("tls.crt", &first.0), ("tls.key", &first.1)]);
    let mut server = server(&mounted, &metrics).unwrap();
    let trusting = client(&ca, &metrics).config().borrow().clone();

    let before = handshake(server.config(), trusting.clone()).await.unwrap();
    server.look();
    assert_eq!(
        handshake(server.config(), trusting.clone()).await.unwrap(),
        before
    );
    assert_eq!(counted(&metrics, "certificate"), (0, 0));

    mounted.swap(&[("tls.crt", &second.0), ("tls.key", &second.1)]);
    let config = server.config();
    server.look();
    assert_ne!(handshake(config, trusting).await.unwrap(), before);
    assert_eq!(counted(&metrics, "certificate"), (1, 0));
}

#[tokio::test]
async fn a_broken_pair_keeps_the_old_one_until_it_is_repaired() {
    let (authority, metrics) = (Authority::new("one"), metrics());
    let (first, second) = (authority.issue(), authority.issue());
    let ca = Mounted::new(&[("ca.crt", &authority.0.pem())]);
    let mut mounted = Mounted::new(&[("tls.crt", &first.0), ("tls.key", &first.1)]);
    let mut server = server(&mounted, &metrics).unwrap();
    let trusting = client(&ca, &metrics).config().borrow().clone();
    let good = handshake(server.config(), trusting.clone()).await.unwrap();

    let broken: [&[(&str, &str)]; 4] = [
        &[("tls.crt", &second.0), ("tls.key", &first.1)],
        &[("tls.crt", "half"), ("tls.key", &first.1)],
        &[("tls.crt", &second.0), ("tls.key", "")],
        &[("tls.crt", &second.0)],
    ];
    for (count, files) in (1..).zip(broken) {
        mounted.swap(files);
        // A file that is still broken is not counted again.
        server.look();
        server.look();
        assert_eq!(counted(&metrics, "certificate"), (0, count));
        assert_eq!(
            handshake(server.config(), trusting.clone()).await.unwrap(),
            good
        );
    }
    mounted.swap(&[("tls.crt", &second.0), ("tls.key", &second.1)]);
    server.look();
    assert_ne!(handshake(server.config(), trusting).await.unwrap(), good);
}

#[tokio::test]
async fn a_broken_pair_at_the_start_is_an_error_that_names_the_file() {
    let authority = Authority::new("one");
    let (first, second) = (authority.issue(), authority.issue());
    let mounted = Mounted::new(&[("tls.crt", &first.0), ("tls.key", &second.1)]);
    let error = server(&mounted, &metrics()).unwrap_err();
    let expected = format!(
        "the certificate in {} and its key cannot be used",
        mounted.path("tls.crt").display()
    );
    assert_eq!(error.to_string(), expected);

    let mounted = Mounted::new(&[("tls.crt", ""), ("tls.key", &second.1)]);
    let error = server(&mounted, &metrics()).unwrap_err();
    assert!(
        matches!(
            error,
            TlsError::Pem {
                what: "certificate",
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn roots_follow_their_file_and_outlive_a_broken_one() {
    let (old, new, metrics) = (Authority::new("old"), Authority::new("new"), metrics());
    let issued = new.issue();
    let mounted = Mounted::new(&[("tls.crt", &issued.0), ("tls.key", &issued.1)]);
    let server = server(&mounted, &metrics).unwrap();
    let mut ca = Mounted::new(&[("ca.crt", &old.0.pem())]);
    let mut client = client(&ca, &metrics);
    let config = client.config();
    let current = || config.borrow().clone();
    assert_eq!(handshake(server.config(), current()).await, None);

    // Both roots at once is how an authority is replaced without a gap.
    ca.swap(&[("ca.crt", &format!("{}{}", old.0.pem(), new.0.pem()))]);
    client.look();
    assert!(handshake(server.config(), current()).await.is_some());

    ca.swap(&[("ca.crt", "nothing")]);
    client.look();
    assert!(handshake(server.config(), current()).await.is_some());
    assert_eq!(counted(&metrics, "roots"), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn following_ends_when_it_is_time_to_stop() {
    let authority = Authority::new("one");
    let issued = authority.issue();
    let mounted = Mounted::new(&[("tls.crt", &issued.0), ("tls.key", &issued.1)]);
    let server = server(&mounted, &metrics()).unwrap();
    let (readiness, _start) = crate::readiness::Readiness::starting();
    let mut tasks = crate::shutdown::Tasks::new();
    let stop = tasks.stop();
    tasks.spawn("tls", async move {
        server.follow(stop).await;
        Ok::<(), std::io::Error>(())
    });
    let signals = futures::stream::iter([crate::shutdown::Signal::Terminate]);
    let outcome = tasks
        .run(signals, &readiness, std::time::Duration::from_mins(1))
        .await;
    assert_eq!(outcome, crate::shutdown::ProcessEnd::Drained);
}
