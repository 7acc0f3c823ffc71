//! All reads about one request: from the caches first, and from the API server when it may matter.

mod judge;
mod list_turns;
mod objects;
mod policy_lists;
mod remembered;
mod sources;
mod standing;

pub(crate) use sources::is_finished;

use std::sync::Arc;

use connectors_api::{
    AccessRequest,
    access_request::{GrantState, MatchedPolicy},
    check_selector::CompiledPolicy,
    config::Config,
    request_order,
};
use evaluation_api::v1::EvaluationStage;
use futures::{join, try_join};
use service_kit::{clock::Clock, fair::TenantTurns, report, retry::CallError};
use thiserror::Error;
use tokio::task::yield_now;
use tracing::warn;

use judge::WholePod;
use objects::{CheckObjects, Look};
use policy_lists::PolicyLists;
use remembered::{Answers, Pods};
use sources::Applying;

use crate::{
    api::{Live, Name},
    cache::{World, pod_of},
    evaluator::Evaluator,
    evidence::ListRoom,
    grant::{self, is_terminal},
    seen::{
        Freshness, FrozenSeen, Held, Judged, Observed, PodSeen, PolicySeen, StandingSeen, TupleSeen,
    },
    snapshot,
};

/// Why nothing can be said about a request.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// A live read failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A kind of check objects is being looked up.
    #[error("it is not known yet whether {0} can be read")]
    KindStarting(String),
    /// The request is there and cannot be read.
    #[error("the request cannot be read: {0}")]
    Unreadable(String),
    /// The caches do not know yet what was there before the request.
    #[error("the caches do not know request {0} as it is")]
    Behind(Name),
    /// One look would ask the API server for too many lists.
    #[error(
        "the policies for this connector have more checks than one look may read for; use fewer"
    )]
    TooManyLists,
    /// Other looks read large lists of the same namespace.
    #[error("namespace {0} has more check objects than are kept, and too many looks read them")]
    Crowded(String),
    /// Other looks list the policies of the same namespace.
    #[error("namespace {0} has many policies, and too many looks read them")]
    CrowdedPolicies(String),
}

/// Where to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Via {
    Caches,
    Api,
}

/// Reads.
pub struct Observer {
    world: Arc<World>,
    live: Live,
    evaluator: Arc<dyn Evaluator>,
    clock: Clock,
    most_waiting: usize,
    objects: CheckObjects,
    policy_lists: PolicyLists,
    answers: Answers,
    pods: Pods,
    /// By the namespace of the policies, before and after a grant: questions, and live looks with all of theirs.
    turns: TenantTurns<(String, i32)>,
}

impl Observer {
    /// Reads from these.
    pub fn new(
        world: Arc<World>,
        live: Live,
        evaluator: Arc<dyn Evaluator>,
        clock: Clock,
        most_waiting: usize,
    ) -> Self {
        let objects = CheckObjects::new(Arc::clone(&world), live.clone());
        Self {
            objects,
            policy_lists: PolicyLists::new(Arc::clone(&world)),
            world,
            live,
            evaluator,
            clock,
            most_waiting,
            answers: Answers::default(),
            pods: Pods::default(),
            turns: TenantTurns::of(judge::ASKED_FOR_ONE),
        }
    }

    /// Forgets what was remembered for a request that is gone or decided for good.
    pub fn forget(&self, request: &AccessRequest) {
        self.answers.forget(&Name::of(request));
        let (_, uid) = pod_and_uid(request);
        self.pods.forget(uid);
    }

    /// How many bytes are remembered: of pods, and of answers about checks.
    #[must_use]
    pub fn remembered(&self) -> [usize; 2] {
        [self.pods.bytes(), self.answers.bytes()]
    }

    /// What the caches show. None if there is no such request.
    pub async fn cached(&self, name: &Name) -> Result<Option<Observed>, ObserveError> {
        self.observe(name, Via::Caches, Freshness::Cached).await
    }

    /// What the API server says. None if there is no such request.
    pub async fn live(&self, name: &Name) -> Result<Option<Observed>, ObserveError> {
        // Waiting in turn for the first question would let grow old what is read before it.
        let stage = EvaluationStage::BeforeGrant.into();
        let _turn = self.turns.take((name.namespace.clone(), stage)).await;
        let since = (self.clock)().mono;
        self.observe(name, Via::Api, Freshness::Live(since)).await
    }

    async fn observe(
        &self,
        name: &Name,
        via: Via,
        freshness: Freshness,
    ) -> Result<Option<Observed>, ObserveError> {
        let Some(request) = self.request(name, via).await? else {
            self.answers.forget(name);
            return Ok(None);
        };
        let config = self.world.config().unwrap_or(Config::CLOSED);
        // Side by side: each is a round trip, and a grant waits for all of them.
        let ((pod, whole), grants, tuple) = try_join!(
            self.pod(&request, via),
            self.grants(&request, via),
            self.tuple(name, &request, via)
        )?;
        let mut seen = Observed {
            grants,
            tuple,
            over_limit: self
                .world
                .read()
                .requests
                .is_behind(name, self.most_waiting),
            standing: StandingSeen::Unknown,
            freshness,
            config,
            pod,
            connector: None,
            policies: Vec::new(),
            near: Vec::new(),
            frozen: Vec::new(),
            request,
        };
        if is_decided_by_itself(&seen) {
            return Ok(Some(seen));
        }
        let was_granted = was_granted(&seen.request);
        let is_beyond = seen.over_limit && !was_granted;
        let standing = async {
            if is_beyond {
                return StandingSeen::Unknown;
            }
            self.standing(&seen.request, via).await
        };
        let (connector, standing) = join!(self.connector(&seen.request, via), standing);
        let Some((connector, labels)) = connector? else {
            return Ok(Some(seen));
        };
        seen.connector = Some(connector);
        if is_beyond {
            return Ok(Some(seen));
        }
        seen.standing = standing;
        // After the connector: listing may wait for a turn or fail, and what depends on a deleted connector ends anyway.
        let policies = self.policies(&seen.request, via).await?;
        let look = Look::begin(via);
        let Some(whole) = whole.map(WholePod::from) else {
            seen.frozen = self.frozen(&seen, &policies, None, &look).await?;
            return Ok(Some(seen));
        };
        let applying = self
            .applying(&seen.request, seen.config, &labels, &policies, via)
            .await;
        let matched = Matched {
            pod: &whole,
            applying: applying.as_ref().ok().map(|it| it.policies.as_slice()),
        };
        seen.frozen = self.frozen(&seen, &policies, Some(&matched), &look).await?;
        let settled: Vec<_> = settled(&seen);
        let applying = match applying {
            Err(error) if was_granted || !seen.grants.is_empty() => {
                // What is there is looked at whatever might be added to it.
                warn!(request = %name, error = report(&error), "policies not matched");
                Applying::default()
            }
            applying => applying?,
        };
        seen.near = applying.near;
        let mut open = applying.policies;
        open.retain(|it| {
            let uid = it.policy.metadata.uid.as_ref();
            !uid.is_some_and(|uid| settled.contains(uid))
        });
        let room = ListRoom::shared_by(open.len());
        for compiled in open {
            let policy = &compiled.policy;
            let uid = policy.metadata.uid.clone().unwrap_or_default();
            // What is remembered is found without a pause, and others wait for this thread.
            yield_now().await;
            let judged = self.judge(&seen.request, &compiled, &whole, &look, room);
            let judged = judged.await;
            let judged = judged.unwrap_or_else(|error| unanswered(name, &error));
            let granted = policy.spec.check_granted_permission.as_ref();
            seen.policies.push(PolicySeen {
                name: policy.metadata.name.clone().unwrap_or_default(),
                uid,
                policy: Arc::clone(&compiled),
                limits: granted
                    .and_then(|it| it.spec.limits.clone())
                    .unwrap_or_default(),
                judged,
            });
        }
        Ok(Some(seen))
    }

    /// What was granted on before, looked at again.
    async fn frozen(
        &self,
        seen: &Observed,
        policies: &[sources::Policy],
        matched: Option<&Matched<'_>>,
        look: &Look,
    ) -> Result<Vec<FrozenSeen>, ObserveError> {
        let mut frozen = Vec::new();
        let status = seen.request.status.clone().unwrap_or_default();
        let entries = status.policies.iter();
        for entry in entries {
            let Some(grant) = &entry.grant else { continue };
            let is_open = grant.state != GrantState::Ended && grant::was_in_force(&status, entry);
            let Some((_, uid)) = grant::identity(entry).filter(|_| is_open) else {
                continue;
            };
            yield_now().await;
            let policy = policies.iter().find(|it| it.uid == uid);
            let exists = policy.is_some();
            let held = match matched {
                Some(matched) if exists => self.held(&seen.request, entry, matched.pod, look).await,
                Some(_) | None => Held::Unknown,
            };
            let (changed, again) = match (look.via, matched, policy) {
                (Via::Api, Some(matched), Some(policy)) if !is_written(seen, entry) => {
                    match self
                        .again(&seen.request, entry, policy, matched, look)
                        .await
                    {
                        Again::Changed => (true, None),
                        Again::Judged(judged) => (false, Some(judged)),
                    }
                }
                (Via::Api | Via::Caches, _, _) => (false, None),
            };
            frozen.push(FrozenSeen {
                uid: uid.to_owned(),
                exists,
                held,
                changed,
                again,
            });
        }
        Ok(frozen)
    }

    /// What a policy says now about a grant of its that has to be written again.
    async fn again(
        &self,
        request: &AccessRequest,
        entry: &MatchedPolicy,
        policy: &sources::Policy,
        matched: &Matched<'_>,
        look: &Look,
    ) -> Again {
        let (Some(policy), Some(applying)) = (&policy.policy, matched.applying) else {
            return Again::Judged(Judged::Unanswered);
        };
        // The status is what others may write too: the policy itself is what counts, and whom it is for by now.
        let applies = applying.iter().any(|it| Arc::ptr_eq(it, policy));
        if !applies || !snapshot::is_same(&entry.policy.0, &policy.policy) {
            return Again::Changed;
        }
        let room = ListRoom::shared_by(1);
        let judged = self.judge(request, policy, matched.pod, look, room).await;
        Again::Judged(judged.unwrap_or_else(|error| unanswered(&Name::of(request), &error)))
    }

    /// The other requests of the tuple. Requests reach the caches in the order in which they were made:
    /// whoever knows of one knows of those before it, which is what the deciding one is. A name says nothing
    /// here: under it may have stood another request, when the caches were last up to date. A list comes in the
    /// order of names.
    async fn tuple(
        &self,
        name: &Name,
        request: &AccessRequest,
        via: Via,
    ) -> Result<TupleSeen, ObserveError> {
        let others: Vec<Arc<AccessRequest>> = {
            let state = self.world.read();
            let known = state.requests.readable(name);
            let known = known.and_then(|it| it.metadata.uid.as_ref());
            let is_behind = state.requests.are_listed() || known != request.metadata.uid.as_ref();
            if via == Via::Api && is_behind {
                return Err(ObserveError::Behind(name.clone()));
            }
            let names = state.requests.tuple_of(name).into_iter();
            names
                .filter_map(|it| state.requests.readable(&it).cloned())
                .filter(|it| it.metadata.deletion_timestamp.is_none())
                .filter(|it| it.metadata.uid != request.metadata.uid)
                .filter(|it| !is_invalid(it))
                .collect()
        };
        if others.is_empty() {
            return Ok(TupleSeen::default());
        }
        let candidates = others.iter().map(AsRef::as_ref).chain([request]);
        let decides = request_order::deciding(candidates);
        let other = decides.filter(|it| it.metadata.uid != request.metadata.uid);
        let Some(other) = other else {
            return Ok(TupleSeen {
                decided_by: None,
                has_others: true,
            });
        };
        let other_name = Name::of(other);
        if via == Via::Api {
            // A duplicate is one for good, so the other one must really be there.
            let live = self.live.request(&other_name).await?;
            let there = live.is_some_and(|it| {
                it.is_ok_and(|it| {
                    it.metadata.uid == other.metadata.uid
                        && it.metadata.deletion_timestamp.is_none()
                        && !is_invalid(&it)
                })
            });
            if !there {
                return Ok(TupleSeen {
                    decided_by: None,
                    has_others: others.len() > 1,
                });
            }
        }
        Ok(TupleSeen {
            decided_by: Some(other_name.name),
            has_others: true,
        })
    }
}

/// The pod, and the policies that apply to what it asks for; none where that could not be found out.
struct Matched<'a> {
    pod: &'a WholePod,
    applying: Option<&'a [Arc<CompiledPolicy>]>,
}

/// What a policy says about a grant of its that is not there as it was written.
enum Again {
    /// It grants under other conditions by now, or not to this one.
    Changed,
    Judged(Judged),
}

/// Whether something was in force once.
fn was_granted(request: &AccessRequest) -> bool {
    let status = request.status.as_ref();
    status.is_some_and(|it| it.granted_at.is_some())
}

fn is_invalid(request: &AccessRequest) -> bool {
    let phase = request.status.as_ref().and_then(|it| it.phase);
    phase == Some(connectors_api::access_request::Phase::Invalid)
}

/// Whether what the policies say changes nothing any more.
fn is_decided_by_itself(seen: &Observed) -> bool {
    let phase = seen.request.status.as_ref().and_then(|it| it.phase);
    let finished = match &seen.pod {
        PodSeen::There(facts) => facts.finished,
        PodSeen::Unreadable => false,
        PodSeen::Gone => true,
    };
    phase.is_some_and(is_terminal)
        || seen.request.metadata.deletion_timestamp.is_some()
        || finished
        || seen.tuple.decided_by.is_some()
}

/// UIDs of the policies that are not asked anew.
fn settled(seen: &Observed) -> Vec<String> {
    let status = seen.request.status.clone().unwrap_or_default();
    let entries = status.policies.iter().filter(|entry| {
        let grant = entry.grant.as_ref();
        grant.is_some_and(|it| it.state == GrantState::Ended) || grant::was_in_force(&status, entry)
    });
    let uids = entries.filter_map(grant::identity).map(|(_, uid)| uid);
    let changed = |uid: &&str| seen.frozen.iter().any(|it| it.uid == *uid && it.changed);
    uids.filter(|uid| !changed(uid))
        .map(str::to_owned)
        .collect()
}

/// That one policy cannot be judged says nothing about another.
fn unanswered(request: &Name, error: &ObserveError) -> Judged {
    warn!(request = %request, error = report(error), "a policy is not judged");
    Judged::Unanswered
}

/// Whether the permission of an entry is in force as its status says.
fn is_written(seen: &Observed, entry: &MatchedPolicy) -> bool {
    let grant = entry.grant.as_ref();
    grant.is_some_and(|it| it.state == GrantState::Granted)
        && grant::is_written(&seen.request, entry, &seen.grants)
}

/// The pod of a request, and its UID as the request gives it.
fn pod_and_uid(request: &AccessRequest) -> (Name, &str) {
    let uid = request.spec.context.object_ref.uid.as_deref();
    (pod_of(request), uid.unwrap_or_default())
}
