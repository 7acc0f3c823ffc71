//! The process: what is started in which order, and how it ends.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use evaluation_api::client::{
    Client as EvaluationClient, Settings as EvaluationSettings, UrlError,
};
use kube::Client;
use prometheus::Registry;
use service_kit::{
    admin::{Admin, BindError},
    args::CommonArgs,
    client::{ConnectError, connect},
    readiness::{Part, Readiness},
    shutdown::{Outcome, SignalError, Stop, Tasks, signals},
    telemetry::{self, TelemetryError},
    tls::{ClientTls, TlsError, TlsMetrics},
    watches::WatchMetrics,
};
use thiserror::Error;
use tokio::sync::watch;
use tracing::info;

use crate::{
    Args,
    driver::{Driver, Settings},
    kubernetes::Live,
    locks::Locks,
    metrics::{Metrics, SwitchMetrics},
    mounter::Linux,
    room::Room,
    server::{DriverIdentity, DriverNode, Registered, Registrar, serve_csi, serve_registration},
    socket::{Socket, SocketError},
    switch::{DriverObject, Switch, check_driver, follow_config},
    told::Told,
    volume::PodsDir,
};

/// Held calls are answered at once, so that only mounts in the making have to be waited for.
const DRAIN: Duration = Duration::from_secs(20);

/// Why the process cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// It cannot log.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// It cannot say how it is.
    #[error(transparent)]
    Admin(#[from] BindError),
    /// It cannot be told to end.
    #[error(transparent)]
    Signals(#[from] SignalError),
    /// There is no cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is nothing to trust the evaluation service by.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The evaluation service has no address.
    #[error("cannot use the URL of the evaluation service")]
    Url(#[source] UrlError),
    /// Two metrics have one name.
    #[error("cannot register the metrics")]
    Metrics(#[from] prometheus::Error),
    /// The kubelet could not call.
    #[error(transparent)]
    Socket(#[from] SocketError),
}

/// The kubelet does not want the driver. A restart registers anew.
#[derive(Clone, Copy, Debug, Error)]
#[error("the kubelet refused the registration")]
struct NotRegistered;

/// Runs the driver until it is told to end.
pub async fn run(args: Args) -> Result<Outcome, StartError> {
    let Args {
        common,
        namespace,
        node_name,
        driver_name,
        kubelet_dir,
        evaluation_url,
        evaluation_ca,
        evaluation_token,
        hold,
        max_held,
    } = args;
    let CommonArgs {
        log_filter,
        log_format,
        admin_address,
        kubeconfig,
    } = common;
    telemetry::init(&log_filter, log_format)?;
    let signals = signals()?;
    let registry = Registry::new();
    let (readiness, start) = Readiness::starting();
    let admin = Admin::bind(admin_address).await?;
    admin.start(readiness.clone(), registry.clone());
    let client = connect(kubeconfig.as_deref()).await?;
    let kubernetes = Live::new(client.clone(), &node_name);
    let mut process = Process {
        tasks: Tasks::new(),
        registry,
        readiness,
    };
    let driver = Driver {
        evaluator: process.evaluator(evaluation_url, evaluation_ca, evaluation_token)?,
        mounter: Arc::new(Linux::new(&driver_name)),
        switch: process.switch(client, namespace)?,
        object: process.driver_object(kubernetes.clone(), driver_name.clone()),
        metrics: Metrics::register(&process.registry)?,
        stop: process.tasks.stop(),
        room: Room::new(usize::try_from(max_held).unwrap_or(usize::MAX)),
        told: Told::default(),
        locks: Locks::default(),
        settings: Settings {
            node: node_name,
            pods: PodsDir::new(&kubelet_dir),
            hold,
        },
        kubernetes,
    };
    // Before any call, so that nothing is swept that is being made.
    driver.mounter.sweep(&driver.settings.pods);
    process.serve(driver, driver_name, &kubelet_dir)?;
    start.ready();
    let Process {
        tasks, readiness, ..
    } = process;
    Ok(tasks.run(signals, &readiness, DRAIN).await)
}

/// What the parts of the process are started with.
struct Process {
    tasks: Tasks,
    registry: Registry,
    readiness: Readiness,
}

impl Process {
    fn evaluator(
        &mut self,
        url: String,
        roots: PathBuf,
        token_file: PathBuf,
    ) -> Result<EvaluationClient, StartError> {
        let metrics = TlsMetrics::register(&self.registry)?;
        let tls = ClientTls::load(roots, &["h2"], &metrics)?;
        let settings = EvaluationSettings {
            url,
            tls: tls.config(),
            token_file,
        };
        self.tasks
            .spawn_infallible("roots", tls.follow(self.tasks.stop()));
        EvaluationClient::new(settings).map_err(StartError::Url)
    }

    fn switch(&mut self, client: Client, namespace: String) -> Result<Switch, StartError> {
        let (sender, switch) = watch::channel(None);
        let ready = self.readiness.part("configuration");
        let metrics = (
            WatchMetrics::register(&self.registry)?,
            SwitchMetrics::register(&self.registry)?,
        );
        let stop = self.tasks.stop();
        self.tasks.spawn_infallible(
            "configuration",
            follow_config(client, namespace, sender, ready, metrics, stop),
        );
        Ok(switch)
    }

    fn driver_object(&mut self, kubernetes: Live, name: String) -> DriverObject {
        let (sender, object) = watch::channel(None);
        let ready = self.readiness.part("CSIDriver object");
        let stop = self.tasks.stop();
        self.tasks.spawn_infallible("driver object", async move {
            tokio::select! {
                () = stop.stopped() => return,
                () = check_driver(&kubernetes, &name, &sender) => ready.ready(),
            }
            // Whoever waits for the object would otherwise see it go.
            stop.stopped().await;
        });
        object
    }

    /// Serves the driver, and only then tells the kubelet, which calls as soon as it knows.
    fn serve(
        &mut self,
        driver: Driver<EvaluationClient, Live, Linux>,
        name: String,
        kubelet: &Path,
    ) -> Result<(), SocketError> {
        let endpoint = kubelet.join("plugins").join(&name).join("csi.sock");
        let registration = kubelet
            .join("plugins_registry")
            .join(registration_socket(&name));
        let (registrar, registered) = Registrar::new(&name, endpoint.display().to_string());
        let identity = DriverIdentity {
            name,
            readiness: self.readiness.clone(),
        };
        let node = DriverNode(Arc::new(driver));
        let serve = serve_csi(
            Socket::bind(&endpoint)?,
            identity,
            node,
            stopped(self.tasks.stop()),
        );
        self.tasks.spawn("driver", serve);
        info!(socket = %endpoint.display(), "serving the driver");
        let serve = serve_registration(
            Socket::bind(&registration)?,
            registrar,
            stopped(self.tasks.stop()),
        );
        self.tasks.spawn("registration", serve);
        let part = self.readiness.part("registration with the kubelet");
        let stop = self.tasks.stop();
        self.tasks
            .spawn("registered", await_registration(registered, part, stop));
        Ok(())
    }
}

async fn stopped(stop: Stop) {
    stop.stopped().await;
}

/// Ends with an error, and the process with it, when the kubelet refuses.
async fn await_registration(
    mut registered: Registered,
    ready: Part,
    stop: Stop,
) -> Result<(), NotRegistered> {
    let mut ready = Some(ready);
    loop {
        let said = tokio::select! {
            () = stop.stopped() => return Ok(()),
            Ok(said) = registered.wait_for(Option::is_some) => *said,
        };
        if said != Some(true) {
            return Err(NotRegistered);
        }
        if let Some(ready) = ready.take() {
            ready.ready();
        }
        tokio::select! {
            () = stop.stopped() => return Ok(()),
            Ok(()) = registered.changed() => {}
        }
    }
}

/// The kubelet sends the socket's escaped path as the authority of its HTTP/2 request, which our side
/// refuses: a `%` is legal there only before an `@`, and the kubelet does not escape that.
fn registration_socket(driver: &str) -> String {
    format!("{driver}-reg@localhost.sock")
}

#[cfg(test)]
mod tests {
    use service_kit::readiness::Status;

    use super::*;

    #[tokio::test]
    async fn the_process_is_ready_when_the_kubelet_took_it_and_ends_when_it_did_not() {
        let (readiness, start) = Readiness::starting();
        start.ready();
        let (said, registered) = watch::channel(None);
        let part = readiness.part("registration");
        let tasks = Tasks::new();
        let task = tokio::spawn(await_registration(registered, part, tasks.stop()));
        assert_ne!(readiness.status(), Status::Ready);
        said.send_replace(Some(true));
        readiness.ready().await;
        assert!(!task.is_finished());
        said.send_replace(Some(false));
        assert!(task.await.unwrap().is_err());
    }

    #[test]
    fn the_kubelets_name_for_the_registration_socket_is_an_authority() {
        let escaped = |file: &str| format!("%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2F{file}");
        let authority = |file: &str| escaped(file).parse::<http::uri::Authority>();
        assert!(authority(&super::registration_socket("connectors-csi")).is_ok());
        assert!(authority("connectors-csi-reg.sock").is_err());
    }
}
