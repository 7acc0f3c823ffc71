//! The driver as a process, with the evaluation service beside it, and a kubelet that has taken it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use csi_node::proto::registration::{
    InfoRequest, RegistrationStatus, registration_client::RegistrationClient,
};
use tonic::transport::{Channel, Endpoint};

use super::{
    cluster::{Cluster, DRIVER, INSTALLATION, NODE},
    files::{Authority, replace},
    program::{Held, Running, free_port, until},
};

/// A driver that the kubelet knows.
pub(crate) struct Driver {
    process: Running,
    /// Where mounts are gated.
    evaluation: Option<Running>,
    kubelet: PathBuf,
}

impl Driver {
    /// Starts a driver that gates nothing, with this kubelet's folder. It asks no evaluation service, and finds none.
    pub(crate) async fn ungated(cluster: &mut Cluster, kubelet: &Path) -> Self {
        let (url, roots) = ("https://localhost:1", Authority::new("unused").pem());
        Self::start(cluster, kubelet, url, &roots, None, &[]).await
    }

    /// Starts a driver that gates mounts, and the service that it asks.
    pub(crate) async fn gated(cluster: &mut Cluster, kubelet: &Path, more: &[String]) -> Self {
        let dir = kubelet.join("evaluation-service");
        fs::create_dir_all(&dir).unwrap();
        cluster.admit("evaluation-service", &dir).await;
        let authority = Authority::new("installation");
        let pair = authority.sign();
        replace(&dir.join("tls.key"), &pair.key);
        replace(&dir.join("tls.crt"), &pair.certificate);
        let path = |name: &str| dir.join(name).display().to_string();
        let port = free_port();
        let arguments = [
            format!("--namespace={INSTALLATION}"),
            format!("--listen-address=127.0.0.1:{port}"),
            format!("--tls-certificate={}", path("tls.crt")),
            format!("--tls-key={}", path("tls.key")),
        ];
        let evaluation = Running::start("evaluation-service", &dir, &arguments);
        until("the evaluation service to be ready", || {
            evaluation.is_ready().then_some(())
        })
        .await;
        let url = format!("https://localhost:{port}");
        let evaluation = Some(evaluation);
        Self::start(cluster, kubelet, &url, &authority.pem(), evaluation, more).await
    }

    async fn start(
        cluster: &mut Cluster,
        kubelet: &Path,
        url: &str,
        roots: &str,
        evaluation: Option<Running>,
        more: &[String],
    ) -> Self {
        let dir = kubelet.join("csi-node");
        for dir in [
            &dir,
            &kubelet.join("pods"),
            &kubelet.join("plugins_registry"),
        ] {
            fs::create_dir_all(dir).unwrap();
        }
        cluster.admit("csi-node", &dir).await;
        replace(&dir.join("ca.crt"), roots);
        replace(&dir.join("token"), &cluster.token_of_driver());
        let mut arguments = vec![
            format!("--namespace={INSTALLATION}"),
            format!("--node-name={NODE}"),
            format!("--kubelet-dir={}", kubelet.display()),
            format!("--evaluation-url={url}"),
            format!("--evaluation-ca={}", dir.join("ca.crt").display()),
            format!("--evaluation-token={}", dir.join("token").display()),
        ];
        arguments.extend_from_slice(more);
        let driver = Self {
            process: Running::start("csi-node", &dir, &arguments),
            evaluation,
            kubelet: kubelet.to_owned(),
        };
        driver.is_taken().await;
        driver
    }

    /// The kubelet finds the socket, and takes the driver.
    async fn is_taken(&self) {
        let file = format!("{DRIVER}-reg@localhost.sock");
        let path = self.kubelet.join("plugins_registry").join(file);
        until("the socket of the registration", || {
            path.exists().then_some(())
        })
        .await;
        let mut kubelet = RegistrationClient::new(connect(&path).await);
        let info = kubelet.get_info(InfoRequest {}).await.unwrap();
        assert_eq!(Path::new(&info.get_ref().endpoint), self.socket());
        let taken = RegistrationStatus {
            plugin_registered: true,
            error: String::new(),
        };
        kubelet.notify_registration_status(taken).await.unwrap();
        until("the driver to be ready", || {
            self.process.is_ready().then_some(())
        })
        .await;
    }

    /// The socket that the kubelet calls.
    pub(crate) fn socket(&self) -> PathBuf {
        self.kubelet.join("plugins").join(DRIVER).join("csi.sock")
    }

    /// A connection of its own, as the kubelet opens one for each call.
    pub(crate) async fn connect(&self) -> Channel {
        connect(&self.socket()).await
    }

    /// The value of a metric without labels.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let metrics = self.process.get("/metrics")?;
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line?.parse().ok()
    }

    /// Threads and open files of the driver.
    pub(crate) fn holds(&self) -> Held {
        self.process.holds()
    }

    /// The memory that the driver occupies, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(self.process.proc("status")).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
        kib.parse::<u64>().unwrap() * 1024
    }

    /// Both processes end as they should.
    pub(crate) async fn end(self) {
        self.process.end().await;
        if let Some(evaluation) = self.evaluation {
            evaluation.end().await;
        }
    }
}

async fn connect(path: &Path) -> Channel {
    let url = format!("unix://{}", path.display());
    let endpoint = Endpoint::from_shared(url).unwrap();
    let connected = endpoint
        .connect_timeout(Duration::from_secs(20))
        .connect()
        .await;
    connected.unwrap()
}
