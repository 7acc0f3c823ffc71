//! observe → plan → apply, with spans, metrics and events. Nothing is decided here.
//!
//! The caches only say whether something is to be done at all. If so, everything is read live, and the same
//! functions decide on that.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use connectors_api::policy_reason::{Event, PermissionSynced};
use kube::core::Status;
use service_kit::{
    clock::Clock,
    controller::{
        Leads,
        queue::{Looked, Queue, Taken, Urgency},
        unless_panicked,
        worker::{self, Controller, LookError, Notice},
    },
    report,
    retry::CallError,
};
use thiserror::Error;
use tracing::{Instrument, debug, error, info_span, warn};

use crate::{
    apply::{Applier, ApplyError},
    checks::{Checks, Inspections},
    events::Events,
    live::{Live, PolicyLive},
    metrics::Metrics,
    plan::{
        self, MOST_BYTES, Observed, Plan, PolicySeen,
        objects::{self, of_binding, of_role},
        status::Known,
        wanted,
    },
    seen::{Kind, Managed, Name, Owner},
    world::{Job, World},
};

/// Why a look failed. It is repeated after a pause.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] CallError),
    /// Writing failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The look panicked.
    #[error("the look panicked")]
    Panicked,
}

impl LookError for ReconcileError {
    fn word(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Apply(ApplyError::Conflict(_)) => "conflict",
            Self::Apply(ApplyError::NameTaken(..)) => "name-taken",
            Self::Apply(ApplyError::Stale) => "stale",
            Self::Apply(ApplyError::NotLeading) => "not-leading",
            Self::Apply(ApplyError::Call(_)) => "apply",
            Self::Panicked => "panic",
        }
    }

    fn notice(&self) -> Notice {
        match self {
            // The first time, the log tells it with the status of the policy.
            Self::Apply(ApplyError::Stale) => Notice::Told,
            Self::Apply(ApplyError::Conflict(_) | ApplyError::NotLeading) => Notice::Routine,
            Self::Read(_)
            | Self::Apply(ApplyError::Call(_) | ApplyError::NameTaken(..))
            | Self::Panicked => Notice::Problem,
        }
    }
}

/// What a look tells people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    /// Nothing of policies that are gone: their deletion was told when it was seen, whoever has removed
    /// their objects since.
    OfPolicies,
    /// Of these, too: nobody saw their deletion.
    Everything,
}

/// Looks at policies and at what is managed for them.
pub struct Reconciler {
    /// The caches.
    pub world: Arc<World>,
    /// What is waiting to be looked at.
    pub queue: Arc<Queue<Job>>,
    /// Reads past the caches.
    pub live: Live,
    /// Writes.
    pub applier: Applier,
    /// Whose next look is on live reads, whatever the caches show.
    pub unseen: Mutex<HashSet<Job>>,
    /// What is known of checks.
    pub inspections: Arc<Inspections>,
    /// Tells people.
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
        let Err(problem) = self.alone(look.instrument(span)).await else {
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
    /// One policy must not stop the work on all others.
    async fn alone(
        &self,
        look: impl Future<Output = Result<(), ReconcileError>> + Send,
    ) -> Result<(), ReconcileError> {
        unless_panicked(look).await.unwrap_or_else(|| {
            self.metrics.panics.inc();
            error!("a look panicked");
            Err(ReconcileError::Panicked)
        })
    }

    fn unseen(&self) -> MutexGuard<'_, HashSet<Job>> {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the caches show nothing to do.
    fn is_settled(&self, job: &Job) -> bool {
        let state = self.world.read();
        let there: BTreeMap<_, _> = state.managed(job).collect();
        let Some((name, policy)) = state.policy_of(job).filter(|(_, it)| !it.deleting) else {
            return there.is_empty();
        };
        // What its status says is known only when the policy can be read, and is kept.
        let Some(policy) = policy.policy() else {
            return false;
        };
        let owner = Owner {
            name: name.clone(),
            uid: job.uid.clone(),
        };
        let wanted = wanted::wanted(&policy.spec, &name.namespace, state.around(&name.namespace));
        let pairs = objects::pairs(&wanted, &owner, MOST_BYTES);
        let roles = pairs
            .iter()
            .map(|(name, it)| ((Kind::Role, name), of_role(&it.role)));
        let bindings = pairs
            .iter()
            .map(|(name, it)| ((Kind::RoleBinding, name), of_binding(&it.binding)));
        let wanted_objects: BTreeMap<_, _> = roles.chain(bindings).collect();
        let are_same = there.len() == wanted_objects.len()
            && there.iter().all(|((kind, name), found)| {
                !found.terminating && found.said.as_ref() == wanted_objects.get(&(*kind, name))
            });
        let generation = policy.metadata.generation;
        let checks = self.inspections.checks(job, generation, &policy.spec);
        let known = Known::of(&wanted, checks);
        let status = known.status(generation, policy.status.as_ref(), (self.clock)().wall);
        are_same && status.is_none()
    }

    /// Reads everything live, decides and writes.
    async fn reconcile(&self, job: &Job, tells: Tells) -> Result<(), ReconcileError> {
        let (name, keys) = {
            let state = self.world.read();
            let name = state.policy_of(job).map(|(name, _)| name.name.clone());
            (name, state.namespace_keys())
        };
        let read = self.live.read(job, name.as_deref(), keys).await?;
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
        let written = self.applier.apply(job, &steps, read.since).await;
        let is_restored = told.iter().any(|it| it.event == Event::PermissionRestored);
        if written.is_ok() && (read.policy.is_some() || tells == Tells::Everything) {
            self.events.tell(&owner, told).await;
        }
        if let (Some(policy), Some(known)) = (policy, known) {
            match &written {
                Ok(()) => self.tell_status(policy, &known).await?,
                // The API server's words are for whoever can help; they name no values.
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
            // Two processes that undo each other's work would do so without end.
            self.queue.changed(job);
        }
        Ok(())
    }

    fn checks(&self, job: &Job, policy: &PolicyLive) -> Checks {
        let spec = policy.spec.as_ref();
        spec.map_or(Checks::None, |spec| {
            self.inspections.checks(job, policy.generation, spec)
        })
    }

    async fn tell_status(&self, policy: &PolicyLive, known: &Known) -> Result<(), ApplyError> {
        let last = policy.status.as_ref();
        let Some((status, told)) =
            plan::status(known, policy.generation, last, (self.clock)().wall)
        else {
            return Ok(());
        };
        self.applier.status(policy, &status).await?;
        if known.synced == PermissionSynced::ReadTooSlow {
            warn!(policy = %policy.owner.name, "{READ_TOO_SLOW}");
        }
        self.events.tell(&policy.owner, told).await;
        Ok(())
    }

    /// Takes away what is managed for policies that are not there, and has those looked at whose turn it is whatever the
    /// caches show: what a watch lost is found like that. What fails is tried again from the queue and keeps nothing
    /// else from being done.
    pub async fn sweep(&self, turn: Option<Turn>) -> Result<Swept, ReconcileError> {
        // Policies after the objects: what an object is made for is there before it.
        let managed = self.live.managed_jobs().await?;
        let policies = self.live.jobs().await?;
        let mut swept = Swept::default();
        for job in managed.difference(&policies) {
            match self.alone(self.reconcile(job, Tells::Everything)).await {
                Ok(()) => swept.removed += 1,
                Err(error) => {
                    warn!(?job, error = report(&error), "what no policy owns stays");
                    swept.left.push(job.clone());
                }
            }
        }
        for job in policies
            .iter()
            .filter(|job| turn.is_some_and(|it| it.is_of(job)))
        {
            self.unseen().insert(job.clone());
            self.queue.wake(job.clone(), Urgency::Normal);
        }
        Ok(swept)
    }
}

/// A part of all policies, so that each has its turn after some sweeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn(u64);

impl Turn {
    const COUNT: u64 = 3;

    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self((self.0 + 1) % Self::COUNT)
    }

    fn is_of(self, job: &Job) -> bool {
        let mut hasher = DefaultHasher::new();
        job.hash(&mut hasher);
        hasher.finish() % Self::COUNT == self.0
    }
}

/// What a sweep came to.
#[derive(Debug, Default)]
pub struct Swept {
    /// So many policies are not there any more, and now nothing is left of them.
    pub removed: usize,
    /// Something is left of these.
    pub left: Vec<Job>,
}

fn seen(policy: &PolicyLive) -> PolicySeen<'_> {
    PolicySeen::There {
        spec: policy.spec.as_ref().map_err(String::as_str),
        generation: policy.generation,
        status: policy.status.as_ref(),
    }
}

/// The policy that is not there any more, as far as what it left behind still says.
fn owner_of(job: &Job, there: &Managed) -> Owner {
    let roles = there.roles.values().filter_map(|it| it.object.as_ref());
    let roles = roles.map(|it| &it.metadata);
    let bindings = there.bindings.values().filter_map(|it| it.object.as_ref());
    let mut all = roles.chain(bindings.map(|it| &it.metadata));
    let name = all.find_map(|it| objects::owner_in(it).filter(|owner| owner.uid == job.uid));
    Owner {
        name: Name::new(&job.namespace, name.map_or("", |it| &it.name)),
        uid: job.uid.clone(),
    }
}

const READ_TOO_SLOW: &str = "reading what the policy selects from took too long to give anything on it; nobody holds \
                             more than before, and it is tried again after pauses that grow";

/// What trying again alone would not change, or not soon.
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
