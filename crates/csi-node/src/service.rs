//! The process: the order of its start, and its end.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use evaluation_api::{args::EvaluationArgs, client::Client as EvaluationClient};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use service_kit::{
    build_info::BuildInfo,
    client,
    readiness::ReadinessPart,
    report,
    serve::{InUse, SocketError, UnixSocket},
    shell::{Shell, StartError},
    shutdown::{ProcessEnd, Stop},
    tls::{ClientTls, TlsMetrics},
    watches::WatchMetrics,
};
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tracing::{info, warn};

use crate::{
    Args,
    content_digests::ContentDigests,
    driver::{Driver, RENDERS, Settings},
    event_cache::EventCache,
    hold_quota::{HoldLimits, HoldQuota},
    kubernetes::Live,
    locks::Locks,
    memory_quota::{MemoryLimits, MemoryQuota},
    metrics::{Metrics, SwitchMetrics},
    mounter::Linux,
    noted_volumes::NotedVolumes,
    refused_reviews::RefusedReviews,
    request_quota::RequestQuota,
    server::{DriverIdentity, DriverNode, Registered, Registrar, serve_csi, serve_registration},
    switch::{DriverObject, Switch, check_driver, follow_config},
    tool_cache::ToolCache,
    volume::{PodsDir, ProxyTokens},
};

/// Held calls are answered at once, so only mounts in progress have to be awaited.
const DRAIN: Duration = Duration::from_secs(20);

/// The requests to the API server at a time. All pods of a node may ask at once, when it starts.
const REQUESTS: usize = 32;

/// The kubelet does not want the driver. A restart registers anew.
#[derive(Clone, Copy, Debug, Error)]
#[error("the kubelet refused the registration")]
struct NotRegistered;

/// Runs the driver until it must end.
pub async fn run(args: Args) -> Result<ProcessEnd, StartError> {
    let Args {
        common,
        node_name,
        driver_name,
        kubelet_dir,
        evaluation,
        evaluation_ca,
        hold,
        max_held,
        max_held_per_namespace,
        max_volume_mebibytes,
        max_volume_mebibytes_per_namespace,
        proxy_audience,
        proxy_token_lifetime,
        file_conflict,
    } = args;
    let limit = |number| usize::try_from(number).unwrap_or(usize::MAX);
    let shell = Shell::begin(common).await?;
    BuildInfo::register(&shell.registry)?.is(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    allow_open_files();
    let mut process = Process { shell };
    let metrics = Metrics::register(&process.shell.registry)?;
    let client = client::limited(process.shell.client.clone(), REQUESTS);
    let kubernetes = Live::new(client, &node_name, metrics.clone());
    let driver = Driver {
        evaluator: process.evaluator(evaluation, evaluation_ca)?,
        mounter: Arc::new(Linux::new(&driver_name)),
        switch: process.switch()?,
        object: process.driver_object(kubernetes.clone(), driver_name.clone()),
        kept: NotedVolumes::new(metrics.kept.clone()),
        outdated: NotedVolumes::new(metrics.outdated.clone()),
        digests: ContentDigests::default(),
        memory: MemoryQuota::new(
            MemoryLimits {
                node: limit(max_volume_mebibytes),
                namespace: limit(max_volume_mebibytes_per_namespace),
            },
            metrics.memory.clone(),
        ),
        metrics,
        stop: process.shell.tasks.stop(),
        holds: HoldQuota::new(HoldLimits {
            node: limit(max_held),
            namespace: limit(max_held_per_namespace),
        }),
        asked: RequestQuota::default(),
        events: EventCache::default(),
        refused: RefusedReviews::default(),
        tools: ToolCache::default(),
        renders: Arc::new(Semaphore::new(RENDERS)),
        locks: Locks::default(),
        settings: Settings {
            node: node_name,
            pods: PodsDir::new(&kubelet_dir),
            hold,
            proxy: ProxyTokens::new(proxy_audience, proxy_token_lifetime),
            conflict: file_conflict.into(),
            page: rustix::param::page_size(),
        },
        kubernetes,
    };
    // Before any call, so that no mount in progress is swept.
    driver.take_over();
    process.serve(driver, driver_name, &kubelet_dir)?;
    Ok(process.shell.run(DRAIN).await)
}

/// The kubelet opens a connection for each call. So the soft limit on open files may be reached before the limit of
/// held calls. A process may raise it to the hard limit by itself.
fn allow_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(
            error = report(&error),
            "cannot open more files than the soft limit allows"
        );
    }
}

/// The inputs of the parts of the process.
struct Process {
    shell: Shell,
}

impl Process {
    fn evaluator(
        &mut self,
        evaluation: EvaluationArgs,
        roots: PathBuf,
    ) -> Result<EvaluationClient, StartError> {
        let metrics = TlsMetrics::register(&self.shell.registry)?;
        let tls = ClientTls::load(roots, &["h2"], &metrics)?;
        let config = tls.config();
        self.shell
            .tasks
            .spawn_infallible("roots", tls.follow(self.shell.tasks.stop()));
        EvaluationClient::new(evaluation.settings(config)).map_err(StartError::because(
            "cannot use the URL of the evaluation service",
        ))
    }

    fn switch(&mut self) -> Result<Switch, StartError> {
        let client = self.shell.client.clone();
        let namespace = self.shell.namespace.clone();
        let (sender, switch) = watch::channel(None);
        let ready = self.shell.readiness.part("configuration");
        let metrics = (
            WatchMetrics::register(&self.shell.registry)?,
            SwitchMetrics::register(&self.shell.registry)?,
        );
        let stop = self.shell.tasks.stop();
        self.shell.tasks.spawn_infallible(
            "configuration",
            follow_config(client, namespace, sender, ready, metrics, stop),
        );
        Ok(switch)
    }

    fn driver_object(&mut self, kubernetes: Live, name: String) -> DriverObject {
        let (sender, object) = watch::channel(None);
        let ready = self.shell.readiness.part("CSIDriver object");
        let stop = self.shell.tasks.stop();
        self.shell
            .tasks
            .spawn_infallible("driver object", async move {
                tokio::select! {
                    () = stop.stopped() => return,
                    () = check_driver(&kubernetes, &name, &sender) => ready.ready(),
                }
                // Waiters for the object would otherwise see its sender go.
                stop.stopped().await;
            });
        object
    }

    /// Serves the driver, and only then registers it, because the kubelet calls at once.
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
            readiness: self.shell.readiness.clone(),
        };
        let node = DriverNode(Arc::new(driver));
        let stop = self.shell.tasks.stop();
        let serve = serve_csi(bind(&endpoint)?, identity, node, stop.clone());
        self.shell.tasks.spawn_infallible("driver", serve);
        info!(socket = %endpoint.display(), "serving the driver");
        let serve = serve_registration(bind(&registration)?, registrar, stop.clone());
        self.shell.tasks.spawn_infallible("registration", serve);
        let part = self.shell.readiness.part("registration with the kubelet");
        self.shell
            .tasks
            .spawn("registered", await_registration(registered, part, stop));
        Ok(())
    }
}

/// An earlier process that is about to end may still listen there.
fn bind(path: &Path) -> Result<UnixSocket, SocketError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|source| SocketError::Bind {
            path: path.to_owned(),
            source,
        })?;
    }
    UnixSocket::bind(path, InUse::Replace)
}

/// Returns an error, which ends the process, when the kubelet refuses.
async fn await_registration(
    mut registered: Registered,
    ready: ReadinessPart,
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
    use service_kit::{
        readiness::{Readiness, Status},
        shutdown::Tasks,
    };

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
    fn as_many_files_may_be_open_as_the_hard_limit_allows() {
        let limit = || getrlimit(Resource::Nofile);
        let Rlimit { maximum, .. } = limit();
        // Little enough below it for the other tests of this process.
        let current = maximum.map(|most| most - 1);
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
        allow_open_files();
        assert_eq!(limit().current, maximum);
    }

    #[test]
    fn the_kubelets_name_for_the_registration_socket_is_an_authority() {
        let escaped = |file: &str| format!("%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2F{file}");
        let authority = |file: &str| escaped(file).parse::<http::uri::Authority>();
        assert!(authority(&super::registration_socket("connectors-csi")).is_ok());
        assert!(authority("connectors-csi-reg.sock").is_err());
    }
}
