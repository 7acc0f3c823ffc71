//! The certificates of the installation: one authority, two serving certificates, the bundle that
//! callers trust. Every replica of the webhook keeps them, without a leader: each write is bound to
//! what was read before it.

mod apply;
mod observe;
pub(crate) mod plan;
pub(crate) mod x509;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::Client;
use rustls::ClientConfig;
use service_kit::{
    readiness::ReadinessPart,
    report,
    retry::{CallError, RetryPolicy},
    shutdown::Stop,
    tls::Serving,
};
use thiserror::Error;
use tokio::{sync::watch, time::sleep};
use tracing::{debug, info, warn};

use crate::{
    evaluator,
    metrics::{CertificateMetrics, RenewedObject},
};
use apply::{ApplyError, apply};
use observe::{Observed, observe};
use plan::{CertificateStep, Server, plan};
use x509::RootCertificate;

#[cfg(test)]
mod tests;

/// How soon a deleted Secret, or one that another replica renewed, is noticed.
const PERIOD: Duration = Duration::from_secs(30);
/// After an error: soon, because mounts may wait for a certificate.
const AFTER_ERROR: Duration = Duration::from_secs(5);
/// After another replica was faster.
const AFTER_CONFLICT: Duration = Duration::from_millis(200);
/// From nothing to everything takes six steps. More of them mean that another client undoes the steps.
const STEPS: usize = 16;

/// The source of the time: the wall clock, except in tests.
pub(crate) type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Where the certificates are.
#[derive(Clone)]
pub(crate) struct CertificateStore {
    pub(crate) client: Client,
    pub(crate) policy: RetryPolicy,
    /// The namespace of the installation.
    pub(crate) namespace: String,
    /// The names of our webhook configurations.
    pub(crate) mutating: String,
    pub(crate) validating: String,
    /// The field manager under which only this process creates objects.
    pub(crate) creator: String,
}

/// A field manager that no other process has.
pub(crate) fn creator() -> String {
    format!("webhook-{:016x}", rand::random::<u64>())
}

/// Why a pass ended before everything was as it has to be.
#[derive(Debug, Error)]
pub(crate) enum PassError {
    /// The stored objects are not known.
    #[error("cannot see the certificates")]
    Observe(#[source] CallError),
    /// A step failed.
    #[error("cannot renew the certificates")]
    Apply(#[source] ApplyError),
    /// Every step was undone or overtaken.
    #[error("the certificates change faster than they can be renewed")]
    Unsettled,
}

/// Keeps the certificates.
pub(crate) struct Keeper {
    store: CertificateStore,
    clock: WallClock,
    serving: Serving,
    /// The authorities that this process itself trusts.
    trust: watch::Sender<Arc<ClientConfig>>,
    trusted: Vec<RootCertificate>,
    metrics: CertificateMetrics,
    ready: Option<ReadinessPart>,
    unannounced: bool,
}

impl Keeper {
    pub(crate) fn new(
        store: CertificateStore,
        clock: WallClock,
        serving: Serving,
        trust: watch::Sender<Arc<ClientConfig>>,
        metrics: CertificateMetrics,
        ready: ReadinessPart,
    ) -> Self {
        Self {
            store,
            clock,
            serving,
            trust,
            trusted: Vec::new(),
            metrics,
            ready: Some(ready),
            unannounced: false,
        }
    }

    /// Looks after them until it is time to stop.
    pub(crate) async fn keep(mut self, stop: Stop) {
        loop {
            let pause = match self.pass().await {
                Ok(()) => PERIOD,
                Err(error) => {
                    warn!(error = report(&error), "certificates are not in order");
                    self.metrics.failed();
                    AFTER_ERROR
                }
            };
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = sleep(jittered(pause)) => {}
            }
        }
    }

    /// Takes steps until there is none to take.
    pub(crate) async fn pass(&mut self) -> Result<(), PassError> {
        for _ in 0..STEPS {
            let observed = observe(&self.store).await.map_err(PassError::Observe)?;
            let now = (self.clock)();
            self.serve(&observed, now);
            self.believe(&observed.stored.bundle.roots);
            let step = plan(&observed.stored, &self.store.namespace, now);
            if step == CertificateStep::Rest {
                return Ok(());
            }
            match apply(&self.store, &observed, &step, now).await {
                Ok(()) => self.took(&step),
                Err(error) if error.is_conflict() => {
                    debug!(error = report(&error), "another replica was faster");
                    sleep(jittered(AFTER_CONFLICT)).await;
                }
                Err(error) => return Err(PassError::Apply(error)),
            }
        }
        Err(PassError::Unsettled)
    }

    fn took(&self, step: &CertificateStep) {
        let object = match step {
            CertificateStep::MakeAuthority => RenewedObject::Authority,
            CertificateStep::Publish(_) => RenewedObject::Bundle,
            CertificateStep::Announce(_) => RenewedObject::Announcement,
            CertificateStep::Issue(Server::Webhook) => RenewedObject::Webhook,
            CertificateStep::Issue(Server::Evaluation) => RenewedObject::Evaluation,
            CertificateStep::Rest => return,
        };
        info!(what = object.as_str(), "certificates renewed");
        self.metrics.renewed(object);
    }

    /// Trusts the published authorities.
    fn believe(&mut self, roots: &[RootCertificate]) {
        if self.trusted != roots {
            self.trusted = roots.to_vec();
            let config = evaluator::trusting(x509::store(roots));
            self.trust.send_replace(Arc::new(config));
        }
    }

    /// Takes the stored certificate into use, if each caller that read the published authorities accepts it.
    fn serve(&mut self, observed: &Observed, now: Timestamp) {
        let stored = &observed.stored;
        let [webhook, evaluation] = &stored.serving;
        if let Some(authority) = &stored.authority {
            self.metrics.ends("connectors-ca", authority.root.validity);
        }
        for (server, pair) in Server::ALL.into_iter().zip([webhook, evaluation]) {
            if let Some(pair) = pair {
                self.metrics.ends(server.secret(), pair.validity);
            }
        }
        let names = Server::Webhook.names(&self.store.namespace);
        let Some(pair) = webhook else { return };
        let accepted = pair.verified(&stored.bundle.roots, &names, now)
            && stored
                .announced
                .iter()
                .all(|roots| pair.verified(roots, &names, now));
        if !accepted {
            return;
        }
        if self.serving.show(pair.certified()) {
            info!(until = %pair.validity.until, "serving with a new certificate");
        }
        if observed.mutating.is_some() && observed.validating.is_some() {
            if let Some(ready) = self.ready.take() {
                ready.ready();
            }
        } else if !self.unannounced {
            self.unannounced = true;
            warn!(
                mutating = self.store.mutating,
                validating = self.store.validating,
                "a webhook configuration is missing or does not call this service"
            );
        }
    }
}

/// Replicas that started together do not stay together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.75 + rand::random::<f64>() / 2.0)
}
