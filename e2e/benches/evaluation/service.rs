//! The service as it ships: the release program, a process of its own.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use evaluation_api::client::{Client, Settings};
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::watch;

use crate::place::Place;

/// How long it may take to be ready, or to end.
const PATIENCE: Duration = Duration::from_mins(1);

/// The program, and what it serves with.
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    socket: PathBuf,
    /// Kept, so that whoever has the receiver is told of no end.
    _roots: watch::Sender<Arc<ClientConfig>>,
    tls: watch::Receiver<Arc<ClientConfig>>,
}

/// A process of it, until this is dropped.
pub(crate) struct Running {
    child: Child,
    address: SocketAddr,
    /// From its start to its being ready.
    pub(crate) ready_after: Duration,
}

impl Program {
    /// The release program beside this one.
    pub(crate) fn new(place: &Place) -> Self {
        let this = env::current_exe().unwrap();
        let path = this.ancestors().nth(2).unwrap().join("evaluation-service");
        let (certificate, key) = (place.file("tls.crt"), place.file("tls.key"));
        let roots = Arc::new(certificates(&certificate, &key));
        let socket = place.file("socket");
        let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        let arguments = vec![
            file("tls-certificate", &certificate),
            file("tls-key", &key),
            file("kubeconfig", &place.kubeconfig),
            file("listen-socket", &socket),
            "--log-filter=warn".to_owned(),
        ];
        let (sender, tls) = watch::channel(roots);
        Self {
            path,
            arguments,
            socket,
            _roots: sender,
            tls,
        }
    }

    /// How large it is.
    pub(crate) fn size(&self) -> u64 {
        fs::metadata(&self.path).unwrap().len()
    }

    /// Starts it and waits until it is ready.
    pub(crate) fn start(&self) -> Running {
        let (address, admin) = (free_address(), free_address());
        let began = Instant::now();
        // It does not outlive this process, however this ends.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(&self.path)
            .args(&self.arguments)
            .arg(format!("--listen-address={address}"))
            .arg(format!("--admin-address={admin}"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut running = Running {
            child,
            address,
            ready_after: Duration::ZERO,
        };
        while !is_ready(admin) {
            assert!(began.elapsed() < PATIENCE, "the service is not ready");
            let ended = running.child.try_wait().unwrap();
            assert!(ended.is_none(), "the service ended: {ended:?}");
            sleep(Duration::from_millis(2));
        }
        running.ready_after = began.elapsed();
        running
    }

    /// A client with a connection of its own. To be called inside a runtime.
    pub(crate) fn over_tls(&self, running: &Running, token: PathBuf) -> Client {
        Client::new(Settings {
            url: format!("https://localhost:{}", running.address.port()),
            tls: self.tls.clone(),
            token_file: token,
        })
        .unwrap()
    }

    /// The same over the Unix socket.
    pub(crate) fn over_socket(&self) -> Client {
        Client::over_socket(self.socket.clone())
    }
}

impl Running {
    /// What is resident of it now, and what was at most, in MB; its workers are processes of their own.
    pub(crate) fn memory(&self) -> (f64, f64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|it| it.trim_start_matches(':').split_whitespace().next());
            let kib: f64 = number.unwrap().parse().unwrap();
            kib * 1024.0 / 1e6
        };
        (field("VmRSS"), field("VmHWM"))
    }

    /// The processor time that it has used.
    pub(crate) fn worked(&self) -> Duration {
        worked(&self.child.id().to_string())
    }
}

/// The processor time of this process.
pub(crate) fn worked_here() -> Duration {
    worked("self")
}

/// User and system time, the fourteenth and fifteenth fields, in hundredths of a second.
fn worked(process: &str) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.map(|it| it.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

impl Drop for Running {
    fn drop(&mut self) {
        let ended = Pid::from_raw(self.child.id().cast_signed())
            .ok_or(())
            .and_then(|process| kill_process(process, Signal::TERM).map_err(drop));
        let began = Instant::now();
        while ended.is_ok() && began.elapsed() < PATIENCE {
            if self.child.try_wait().is_ok_and(|it| it.is_some()) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn is_ready(admin: SocketAddr) -> bool {
    let answer = || {
        let mut stream = TcpStream::connect(admin)?;
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    answer().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// A certificate for `localhost`, and what a client needs to trust it.
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
