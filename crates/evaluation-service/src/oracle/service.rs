//! The whole service behind its gate, but for TCP and TLS: its connections are in memory, and its time is virtual.

use std::io;
use std::sync::Arc;

use evaluation_api::v1::evaluation_client::EvaluationClient;
use http::Uri;
use hyper_util::rt::TokioIo;
use prometheus::Registry;
use service_kit::readiness::Readiness;
use service_kit::serve::UNLIMITED;
use service_kit::shutdown::Tasks;
use service_kit::watches::WatchMetrics;
use tokio::io::duplex;
use tonic::transport::{Channel, Endpoint};

use super::api::Api;
use super::judge::MAX_STALENESS;
use crate::auth::{CallerReviews, IndexedRights};
use crate::caller_quotas::CallerLimits;
use crate::gate::Gate;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::server::converse;
use crate::service::Service;
use crate::slots::Slots;
use crate::world::{Follow, Shared};
use rego_workers::WorkerPool;

pub(super) const LIMITS: CallerLimits = CallerLimits {
    calls: 4,
    streams: 2,
};

pub(super) type Client = EvaluationClient<Channel>;

pub(super) struct Running {
    pub(super) metrics: Metrics,
    pub(super) readiness: Readiness,
    gate: Gate,
    tasks: Tasks,
}

impl Running {
    pub(super) fn start(api: &Api) -> Self {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let watches = WatchMetrics::register(&registry).unwrap();
        let (readiness, start) = Readiness::starting();
        let mut tasks = Tasks::new();
        let shared = Arc::new(Shared::default());
        let follow = Follow {
            client: &api.client(),
            namespace: "connectors-system",
            shared: &shared,
            readiness: &readiness,
            watches: &watches,
            metrics: &metrics,
        };
        follow.start(&mut tasks);
        start.ready();
        let rego = WorkerPool::without_workers();
        let indexed = IndexedRights::new(Arc::clone(&shared), MAX_STALENESS);
        let service = Service {
            shared,
            live: Live::new(api.client()),
            callers: CallerReviews::new(api.client(), metrics.clone(), LIMITS, indexed, None),
            slots: Slots::new(rego.workers()),
            rego,
            answers: Arc::default(),
            policies: Arc::default(),
            programs: Arc::default(),
            memory: Arc::default(),
            readiness: readiness.clone(),
            metrics: metrics.clone(),
            max_staleness: MAX_STALENESS,
            stop: tasks.stop(),
        };
        Self {
            metrics,
            readiness,
            gate: Gate::new(service),
            tasks,
        }
    }

    /// A client that connects when it is used.
    pub(super) fn client(&self) -> Client {
        let (gate, stop) = (self.gate.clone(), self.tasks.stop());
        let connector = tower::service_fn(move |_: Uri| {
            let (near, far) = duplex(64 * 1024);
            tokio::spawn(converse(far, gate.clone(), stop.clone(), UNLIMITED));
            async { Ok::<_, io::Error>(TokioIo::new(near)) }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        EvaluationClient::new(endpoint.connect_with_connector_lazy(connector))
    }
}
