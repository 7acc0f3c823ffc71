//! observe → plan → apply, with spans, metrics and events. Nothing is decided here.
//!
//! The caches only show whether there is work. If so, everything is read live, and the same functions decide
//! on that.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use connectors_api::policy_reason::{Event, PermissionSynced};
use kube::core::Status;
use service_kit::{
    clock::Clock,
    controller::{
        Leads,
        queue::{Looked, Queue, Taken},
        unless_panicked,
        worker::{self, Controller, LookError, Notice},
    },
    retry::CallError,
};
use thiserror::Error;
use tracing::{Instrument, debug, info_span, warn};

use crate::{
    apply::{Applier, ApplyError},
    cache::{Job, World, own_writes::OwnObject},
    checks::{Checks, Inspections},
    events::Events,
    metrics::{Metrics, PolicyFailureCause},
    observe::{Observer, PolicyKnown, PolicyLive},
    plan::{self, Cached, MOST_BYTES, Observed, Plan, PolicySeen, objects, status::Summary},
    seen::{Managed, Name, OwnerPolicy},
};

/// Why a look failed. It is repeated after a pause.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// Reading failed, perhaps for other looks, too.
    #[error(transparent)]
    Read(#[from] Arc<CallError>),
    /// Writing failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The look panicked.
    #[error("the look panicked")]
    Panicked,
}

impl From<CallError> for ReconcileError {
    fn from(error: CallError) -> Self {
        Self::Read(Arc::new(error))
    }
}

impl LookError for ReconcileError {
    fn word(&self) -> &'static str {
        let cause = match self {
            Self::Read(_) => PolicyFailureCause::Read,
            Self::Apply(ApplyError::Conflict(_)) => PolicyFailureCause::Conflict,
            Self::Apply(ApplyError::NameTaken(..)) => PolicyFailureCause::NameTaken,
            Self::Apply(ApplyError::Stale) => PolicyFailureCause::Stale,
            Self::Apply(ApplyError::NotLeading) => PolicyFailureCause::NotLeading,
            Self::Apply(ApplyError::Call(_)) => PolicyFailureCause::Apply,
            Self::Panicked => PolicyFailureCause::Panic,
        };
        cause.as_str()
    }

    fn notice(&self) -> Notice {
        match self {
            // The log reports the first one with the status of the policy.
            Self::Apply(ApplyError::Stale) => Notice::Told,
            Self::Apply(ApplyError::Conflict(_) | ApplyError::NotLeading) => Notice::Routine,
            Self::Read(_)
            | Self::Apply(ApplyError::Call(_) | ApplyError::NameTaken(..))
            | Self::Panicked => Notice::Problem,
        }
    }
}

/// The events that a look writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tells {
    /// None about policies that are gone: the event was written when their deletion was seen. Their objects
    /// may have been removed by any client since.
    OfPolicies,
    /// Also about these: no process saw their deletion.
    Everything,
}

/// Looks at policies and at their managed objects.
pub struct Reconciler {
    /// The caches.
    pub world: Arc<World>,
    /// The waiting jobs.
    pub queue: Arc<Queue<Job>>,
    /// Reads past the caches.
    pub observer: Observer,
    /// Writes.
    pub applier: Applier,
    /// The jobs whose next look reads live, regardless of the caches.
    pub unseen: Mutex<HashSet<Job>>,
    /// The state of checks.
    pub inspections: Arc<Inspections>,
    /// Publishes events.
    pub events: Events,
    /// Counts.
    pub metrics: Metrics,
    /// Tells the time.
    pub clock: Clock,
    /// Whether this process leads.
    pub leads: Leads,
}

impl Controller for Reconciler {
    type Job = Job;

    fn queue(&self) -> &Queue<Job> {
        &self.queue
    }

    async fn look(&self, taken: &Taken<Job>) -> Looked {
        let Job { namespace, uid } = &taken.job;
        let span = info_span!("policy", namespace, uid);
        let look = async {
            // A process that does not lead starts nothing.
            let is_unseen = self.unseen().remove(&taken.job);
            if !(self.leads)() || (!is_unseen && self.is_settled(&taken.job)) {
                return Ok(());
            }
            self.reconcile(&taken.job, Tells::OfPolicies).await?;
            let time = taken.since.elapsed();
            self.metrics.syncing.observe(time.as_secs_f64());
            Ok(())
        };
        let look = look.instrument(span);
        let panics = &self.metrics.panics;
        let looked = unless_panicked(panics, &taken.job, ReconcileError::Panicked, look);
        let Err(problem) = looked.await else {
            return Looked::Done;
        };
        worker::failed(&taken.job, &problem, &self.metrics.failures);
        match problem {
            ReconcileError::Apply(ApplyError::Stale) => Looked::Late,
            ReconcileError::Read(_) | ReconcileError::Apply(_) | ReconcileError::Panicked => {
                Looked::Failed
            }
        }
    }
}

impl Reconciler {
    pub(crate) fn unseen(&self) -> MutexGuard<'_, HashSet<Job>> {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the caches show nothing to do.
    fn is_settled(&self, job: &Job) -> bool {
        let state = self.world.read();
        let there = state.managed(job);
        let there = there.as_ref();
        let Some((name, policy)) = state.policy_of(job).filter(|(_, it)| !it.deleting) else {
            return there.is_empty();
        };
        // The cache has the status only of readable policies that are kept.
        let Some(policy) = policy.policy() else {
            return false;
        };
        let owner = OwnerPolicy {
            name: name.clone(),
            uid: job.uid.clone(),
        };
        let generation = policy.metadata.generation;
        let seen = Cached {
            owner: &owner,
            spec: &policy.spec,
            generation,
            status: state.status_of(job),
            around: state.around(&name.namespace),
            there,
            checks: self.inspections.checks(job, generation, &policy.spec),
        };
        plan::is_settled(&seen, MOST_BYTES, (self.clock)().wall)
    }

    /// Reads everything live, decides and writes.
    pub(crate) async fn reconcile(&self, job: &Job, tells: Tells) -> Result<(), ReconcileError> {
        let read = self.observer.read(job, self.known(job)).await?;
        let owner = read
            .policy
            .as_ref()
            .map_or_else(|| owner_of(job, &read.there), |it| it.owner.clone());
        let policy = read.policy.as_ref().filter(|it| !it.deleting);
        let seen = Observed {
            owner: &owner,
            policy: policy.map_or(PolicySeen::Gone, seen),
            around: read.around(),
            there: &read.there,
            checks: policy.map_or(Checks::None, |it| self.checks(job, it)),
        };
        let Plan { steps, known, told } = plan::plan(&seen, MOST_BYTES);
        debug!(steps = steps.len(), "looked at");
        let (since, policy) = (read.since, read.decided());
        let wrote = |own| self.wrote(job, own);
        let written = self.applier.apply(job, &steps, since, &wrote).await;
        let is_restored = told.iter().any(|it| it.event == Event::PermissionRestored);
        if written.is_ok() && (policy.is_some() || tells == Tells::Everything) {
            self.events.tell(&owner, told).await;
        }
        if let (Some(policy), Some(known)) = (&policy, known) {
            match &written {
                Ok(()) => self.tell_status(policy, &known).await?,
                // The API server's message is for people that can help; it contains no secret values.
                Err(error) => {
                    if let Some((why, message)) = for_good(error) {
                        self.tell_status(policy, &known.failed(why, message))
                            .await?;
                    }
                }
            }
        }
        written?;
        if is_restored {
            // Without this, two processes that revert each other's writes would do so without end.
            self.queue.changed(job);
        }
        Ok(())
    }

    /// The event of this write will say nothing new.
    fn wrote(&self, job: &Job, own: OwnObject) {
        let now = (self.clock)().mono;
        self.world.write().wrote(job, own, now);
    }

    /// The cached state, before everything is read.
    fn known(&self, job: &Job) -> PolicyKnown {
        let state = self.world.read();
        let cached = state.policy_of(job);
        PolicyKnown {
            name: cached.map(|(name, _)| name.name.clone()),
            policy: cached.and_then(|(_, it)| it.policy().filter(|_| !it.deleting).cloned()),
            namespace_keys: state.namespace_keys(),
        }
    }

    fn checks(&self, job: &Job, policy: &PolicyLive) -> Checks {
        let spec = policy.spec.as_ref();
        spec.map_or(Checks::None, |spec| {
            self.inspections.checks(job, policy.generation, spec)
        })
    }

    async fn tell_status(&self, policy: &PolicyLive, known: &Summary) -> Result<(), ApplyError> {
        let last = policy.status.as_ref();
        let Some((status, told)) =
            plan::status(known, policy.generation, last, (self.clock)().wall)
        else {
            return Ok(());
        };
        let own = self.applier.status(policy, &status).await?;
        if let Some(versions) = own {
            let job = Job {
                namespace: policy.owner.name.namespace.clone(),
                uid: policy.owner.uid.clone(),
            };
            let now = (self.clock)().mono;
            self.world.write().told(&job, versions, status, now);
        }
        if known.synced == PermissionSynced::ReadTooSlow {
            warn!(policy = %policy.owner.name, "{READ_TOO_SLOW}");
        }
        self.events.tell(&policy.owner, told).await;
        Ok(())
    }
}

fn seen(policy: &PolicyLive) -> PolicySeen<'_> {
    PolicySeen::There {
        spec: policy.spec.as_ref().map_err(String::as_str),
        generation: policy.generation,
        status: policy.status.as_ref(),
    }
}

/// The identity of a policy that is gone, from the objects that it left.
fn owner_of(job: &Job, there: &Managed) -> OwnerPolicy {
    let roles = there.roles.values().filter_map(|it| it.object.as_ref());
    let roles = roles.map(|it| &it.metadata);
    let bindings = there.bindings.values().filter_map(|it| it.object.as_ref());
    let mut all = roles.chain(bindings.map(|it| &it.metadata));
    let name = all.find_map(|it| objects::owner_in(it).filter(|owner| owner.uid == job.uid));
    OwnerPolicy {
        name: Name::new(&job.namespace, name.map_or("", |it| &it.name)),
        uid: job.uid.clone(),
    }
}

const READ_TOO_SLOW: &str = "reading what the policy selects from took too long to give anything on it; nobody holds \
                             more than before, and it is tried again after pauses that grow";

/// The errors that repeating alone does not solve, or not soon.
fn for_good(error: &ApplyError) -> Option<(PermissionSynced, String)> {
    match error {
        ApplyError::NameTaken(..) => Some((PermissionSynced::NameTaken, error.to_string())),
        ApplyError::Call(CallError::Refused {
            source: kube::Error::Api(status),
            ..
        }) => {
            let Status { message, .. } = status.as_ref();
            Some((PermissionSynced::WriteFailed, message.clone()))
        }
        ApplyError::Stale => Some((PermissionSynced::ReadTooSlow, READ_TOO_SLOW.to_owned())),
        ApplyError::Call(_) | ApplyError::NotLeading | ApplyError::Conflict(_) => None,
    }
}

#[cfg(test)]
mod tests;
