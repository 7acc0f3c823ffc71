//! All reads of one reconciliation: from the caches first, and from the API server before a decision that needs live
//! reads.

mod checks;
mod creators;
mod gate;
mod lineage;
mod links;
mod list_turns;
mod lists_ahead;
mod objects;
mod pod_facts;
mod policy_lists;
mod question_turns;
mod remembered;
mod sources;
mod standing;
#[cfg(test)]
mod tests;

pub(crate) use objects::LOOK;
pub(crate) use pod_facts::{gated_since, pod_facts};
pub(crate) use sources::is_finished;

use std::sync::Arc;

use connectors_api::{
    AccessRequest,
    access_request::{GrantState, MatchedPolicy, Phase},
    check_selector::CompiledPolicy,
    config::Config,
    request_order,
};
use futures::{join, try_join};
use service_kit::{clock::Clock, report, retry::CallError};
use thiserror::Error;
use tokio::task::yield_now;
use tracing::warn;

use checks::WholePod;
use creators::CreatorRule;
use links::LinksRead;
use lists_ahead::{AheadPlaces, ListsAhead};
use objects::{CheckObjects, Look};
use policy_lists::PolicyLists;
use question_turns::{LiveWish, QuestionTurns};
use remembered::{Pods, RememberedAnswers};
use sources::{Applying, ListedPolicy};

use crate::{
    api::{Live, Name},
    cache::{Labels, RequestHead, World, holds, pod_of},
    evaluator::Evaluator,
    evidence::ListRoom,
    grant::{self, is_terminal},
    seen::{
        CheckReads, ConnectorSeen, EvidenceState, Freshness, FrozenSeen, Observed, PodSeen,
        PolicyJudgement, PolicySeen, StandingSeen, TupleSeen,
    },
    snapshot,
};

/// The reason why a request cannot be observed.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// A live read failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// It is not known yet whether a kind of check objects can be read.
    #[error("it is not known yet whether {0} can be read")]
    KindStarting(String),
    /// The request exists and is unreadable.
    #[error("the request cannot be read: {0}")]
    Unreadable(String),
    /// The caches may lack older requests than this one.
    #[error("the caches do not know request {0} as it is")]
    Behind(Name),
    /// The reconciliation would need too many list calls.
    #[error(
        "the policies for this connector have more checks than one look may read for; use fewer"
    )]
    TooManyLists,
    /// Other reconciliations read large lists of the same namespace.
    #[error("namespace {0} has more check objects than are kept, and too many looks read them")]
    Crowded(String),
    /// The objects between the pod and its approvals take too long to read or to judge.
    #[error("the objects between the pod and its approvals were not read in time")]
    LinksLate,
    /// Other reconciliations of the same namespace read live before they grant.
    #[error("namespace {0} has slow checks or many requests, and too many looks read for them")]
    CrowdedLooks(String),
    /// Other reconciliations list the policies of the same namespace.
    #[error("namespace {0} has many policies, and too many looks read them")]
    CrowdedPolicies(String),
}

impl ObserveError {
    /// Whether the API server gave no answer in time.
    #[must_use]
    pub fn is_late(&self) -> bool {
        matches!(self, Self::Call(error) if error.is_late())
    }
}

/// The source of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Via {
    Caches,
    Api,
}

/// The way in which an observation reads and asks.
#[derive(Clone, Copy)]
struct ReadMode {
    via: Via,
    freshness: Freshness,
    /// Whether questions before a grant have their turn.
    has_turn: bool,
    /// Whether the caches say which request it is and which policies there are, if nothing is held.
    only_for_grants: bool,
}

/// The reason of a live look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveLook {
    /// The caches are not sufficient for a decision. What a request that holds nothing needs for a grant is read.
    First,
    /// The first look was not sufficient either, or the request had changed: everything is read.
    Whole,
    /// The reads of an earlier look were too old.
    Late,
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
    answers: RememberedAnswers,
    pods: Pods,
    creator_rule: CreatorRule,
    turns: QuestionTurns,
    places: AheadPlaces,
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
            answers: RememberedAnswers::default(),
            pods: Pods::default(),
            creator_rule: CreatorRule::default(),
            turns: QuestionTurns::default(),
            places: AheadPlaces::default(),
        }
    }

    /// Drops the remembered pod and answers of a request that is gone or final.
    pub fn forget(&self, request: &AccessRequest) {
        self.answers.forget(&Name::of(request));
        let (_, uid) = pod_and_uid(request);
        self.pods.forget(uid);
    }

    /// Remembers a pod and an answer about it, as reconciliations do.
    #[cfg(test)]
    pub(crate) fn remember(
        &self,
        request: &Name,
        (policy, pod_uid): (&str, String),
        pod: &serde_json::Value,
        said: &evaluation_api::v1::EvaluateChecksResponse,
    ) {
        let question = remembered::AnswerKey {
            request: request.clone(),
            policy: policy.to_owned(),
            stage: 1,
        };
        let digest = remembered::Digest::of([pod_uid.as_bytes()]);
        let until = tokio::time::Instant::now();
        self.answers.put("apps", &question, digest, said, until);
        self.pods.put("apps", &pod_uid, pod);
    }

    /// Observes from the caches. None if the request does not exist.
    pub async fn cached(&self, name: &Name) -> Result<Option<Observed>, ObserveError> {
        let mode = ReadMode {
            via: Via::Caches,
            freshness: Freshness::Cached,
            has_turn: false,
            only_for_grants: false,
        };
        self.observe(name, mode).await
    }

    /// Observes from the API server. None if the request does not exist.
    ///
    /// In the first look a request that holds nothing is taken from the caches. A grant of it begins with its status, which
    /// the API server refuses unless the request is the newest version. Nothing else is decided on such a look.
    pub async fn live(
        &self,
        name: &Name,
        look: LiveLook,
    ) -> Result<Option<Observed>, ObserveError> {
        // Before the first read: a wait between the reads would let the earlier ones expire.
        let wish = LiveWish {
            holds: self.world.read().requests.holds(name),
            is_repeated: look == LiveLook::Late,
        };
        // A standing permission ends the request.
        let is_covered = {
            let state = self.world.read();
            let uid = state.requests.get(name).and_then(|it| it.uid.as_deref());
            uid.is_some_and(|uid| state.standing.has(uid))
        };
        let now = || (self.clock)().mono;
        let turn = self.turns.live(&name.namespace, wish, now).await?;
        let mode = ReadMode {
            via: Via::Api,
            freshness: Freshness::Live(now()),
            has_turn: turn.is_for_questions(),
            only_for_grants: look == LiveLook::First && !is_covered,
        };
        self.observe(name, mode).await
    }

    async fn observe(&self, name: &Name, mode: ReadMode) -> Result<Option<Observed>, ObserveError> {
        let Some(request) = self.request(name, mode).await? else {
            self.answers.forget(name);
            self.world.write().depends_on(name, |_| false);
            return Ok(None);
        };
        let links = Arc::new(LinksRead::default());
        let ahead = Arc::new(match mode.via {
            Via::Api => ListsAhead::of(name, &self.world, &self.live, &self.places),
            Via::Caches => ListsAhead::default(),
        });
        self.world.write().sought.forget(name);
        let reads = (&links, &ahead);
        let seen = Box::pin(self.observe_request(name, request, mode, reads));
        let seen = ahead.beside(seen).await?;
        if needs_no_check(&seen) {
            links.has_sought_all();
        }
        let mut state = self.world.write();
        // The request does not depend any more on objects that this reconciliation did not read.
        state.depends_on(name, |it| links.has(it));
        if let Some(sought) = links.sought()
            && state.requests.get(name).is_some()
        {
            state.sought.learn(name, sought);
        }
        state.requests.waits_for_place(name, is_beyond(&seen));
        drop(state);
        Ok(Some(seen))
    }

    async fn observe_request(
        &self,
        name: &Name,
        request: AccessRequest,
        mode: ReadMode,
        (links, ahead): (&Arc<LinksRead>, &Arc<ListsAhead>),
    ) -> Result<Observed, ObserveError> {
        let ReadMode { via, freshness, .. } = mode;
        // What may be in force is decided on everything.
        let only_for_grants = mode.only_for_grants && !holds(&request);
        let config = self.world.config().unwrap_or(Config::CLOSED);
        let is_over_limit = self
            .world
            .read()
            .requests
            .is_behind(name, self.most_waiting);
        // Concurrently: each is a round trip, and a grant waits for all of them.
        let first = async {
            try_join!(
                self.pod(&request, via),
                self.grants(&request, via),
                self.tuple(name, &request, via)
            )
        };
        let early = Box::pin(self.early(&request, only_for_grants && !is_over_limit));
        let (first, early) = join!(first, early);
        let ((pod, whole), grants, tuple) = first?;
        let mut seen = Observed {
            grants,
            tuple,
            over_limit: is_over_limit,
            standing: StandingSeen::Unknown,
            freshness,
            only_for_grants,
            are_matched: true,
            config,
            pod,
            connector: None,
            policies: Vec::new(),
            check_reads: CheckReads::InTime,
            near: Vec::new(),
            frozen: Vec::new(),
            request,
        };
        if is_decided_by_itself(&seen) {
            return Ok(seen);
        }
        let was_granted = was_granted(&seen.request);
        let is_beyond = is_beyond(&seen);
        let EarlyReads {
            connector,
            standing,
            policies,
        } = match early {
            Some(early) => early,
            None => self.late(&seen.request, via, is_beyond).await,
        };
        let Some((connector, labels)) = connector? else {
            return Ok(seen);
        };
        seen.connector = Some(connector);
        if is_beyond {
            return Ok(seen);
        }
        seen.standing = standing;
        let policies = match policies {
            Some(policies) => policies?,
            None => self.policies(&seen.request, via, only_for_grants).await?,
        };
        let look = Look::begin((via, mode.has_turn), Arc::clone(links));
        let look = look.with_lists(Arc::clone(ahead));
        let Some(whole) = whole.map(WholePod::from) else {
            seen.frozen = self.frozen(&seen, &policies, None, &look).await?;
            return Ok(seen);
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
        seen.are_matched = applying.as_ref().is_ok_and(|it| it.are_all_known);
        let applying = match applying {
            Err(error) if was_granted || !seen.grants.is_empty() => {
                // What is there is looked at whatever might be added to it.
                warn!(request = %name, error = report(&error), "policies not matched");
                Applying::default()
            }
            applying => applying?,
        };
        if seen.are_matched {
            links.has_sought_all();
        }
        seen.near = applying.near;
        let mut open = applying.policies;
        open.retain(|it| {
            let uid = it.policy.metadata.uid.as_ref();
            !uid.is_some_and(|uid| settled.contains(uid))
        });
        (seen.policies, seen.check_reads) =
            self.judged(name, &seen.request, open, &whole, &look).await;
        Ok(seen)
    }

    /// The policies that are not granted yet, judged one after the other, and whether a read took too long.
    async fn judged(
        &self,
        name: &Name,
        request: &AccessRequest,
        open: Vec<Arc<CompiledPolicy>>,
        pod: &WholePod,
        look: &Look,
    ) -> (Vec<PolicySeen>, CheckReads) {
        let (mut found, mut reads) = (Vec::new(), CheckReads::InTime);
        let room = ListRoom::shared_by(open.len());
        for compiled in open {
            let policy = &compiled.policy;
            let uid = policy.metadata.uid.clone().unwrap_or_default();
            // Remembered answers never suspend this task, and other tasks wait for this thread.
            yield_now().await;
            let judged = self.judge(request, &compiled, pod, look, room);
            let judged = judged.await.unwrap_or_else(|error| {
                if error.is_late() {
                    reads = CheckReads::Late;
                }
                unanswered(name, &error)
            });
            let granted = policy.spec.check_granted_permission.as_ref();
            found.push(PolicySeen {
                name: policy.metadata.name.clone().unwrap_or_default(),
                uid,
                policy: Arc::clone(&compiled),
                limits: granted
                    .and_then(|it| it.spec.limits.clone())
                    .unwrap_or_default(),
                judged,
            });
        }
        (found, reads)
    }

    /// The reads that a decision about a waiting request needs, while the first ones run.
    /// Where there are few policies: a list may wait for a turn.
    async fn early(&self, request: &AccessRequest, is_wanted: bool) -> Option<EarlyReads> {
        if !is_wanted || is_final(request) {
            return None;
        }
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        let names = self.few_policies(namespace)?;
        let (connector, standing, policies) = join!(
            self.connector(request, Via::Api),
            self.standing(request, Via::Api),
            self.policies_named(names)
        );
        Some(EarlyReads {
            connector,
            standing,
            policies: Some(policies),
        })
    }

    /// The same after the first reads. The policies come after the connector: their list may wait for a turn or fail, but
    /// the deletion of a connector must revoke all the same.
    async fn late(&self, request: &AccessRequest, via: Via, is_beyond: bool) -> EarlyReads {
        let standing = async {
            if is_beyond {
                return StandingSeen::Unknown;
            }
            self.standing(request, via).await
        };
        let (connector, standing) = join!(self.connector(request, via), standing);
        EarlyReads {
            connector,
            standing,
            policies: None,
        }
    }

    /// Observes again the policies that have granted.
    async fn frozen(
        &self,
        seen: &Observed,
        policies: &[ListedPolicy],
        matched: Option<&Matched<'_>>,
        look: &Look,
    ) -> Result<Vec<FrozenSeen>, ObserveError> {
        let mut frozen = Vec::new();
        let status = seen.request.status.clone().unwrap_or_default();
        for entry in status.held() {
            let Some((_, uid)) = grant::identity(entry) else {
                continue;
            };
            yield_now().await;
            let policy = policies.iter().find(|it| it.uid == uid);
            let exists = policy.is_some();
            // A grant that is written again is judged again, live.
            let compiled = policy.and_then(|it| it.policy.as_ref());
            if let (Via::Caches, Some(matched), Some(compiled)) = (look.via, matched, compiled)
                && !is_written(seen, entry)
            {
                let shared = self.world.read().shared();
                checks::seek(compiled, matched.pod, &shared, look);
            }
            let held = match matched {
                Some(matched) if exists => self.held(&seen.request, entry, matched.pod, look).await,
                Some(_) | None => EvidenceState::Unknown,
            };
            let (changed, again) = match (look.via, matched, policy) {
                (Via::Api, Some(matched), Some(policy)) if !is_written(seen, entry) => {
                    match self
                        .again(&seen.request, entry, policy, matched, look)
                        .await
                    {
                        AgainOutcome::Changed => (true, None),
                        AgainOutcome::Judged(judged) => (false, Some(judged)),
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

    /// Judges again a policy whose grant has to be rewritten.
    async fn again(
        &self,
        request: &AccessRequest,
        entry: &MatchedPolicy,
        policy: &ListedPolicy,
        matched: &Matched<'_>,
        look: &Look,
    ) -> AgainOutcome {
        let (Some(policy), Some(applying)) = (&policy.policy, matched.applying) else {
            return AgainOutcome::Judged(PolicyJudgement::Unanswered);
        };
        // Other clients may write the status, so the policy itself counts, and whether it still applies.
        let applies = applying.iter().any(|it| Arc::ptr_eq(it, policy));
        if !applies || !snapshot::is_same(&entry.policy.0, &policy.policy) {
            return AgainOutcome::Changed;
        }
        let room = ListRoom::shared_by(1);
        let judged = self.judge(request, policy, matched.pod, look, room).await;
        AgainOutcome::Judged(judged.unwrap_or_else(|error| unanswered(&Name::of(request), &error)))
    }

    /// The other requests of the tuple. The cache receives requests in creation order, so if it contains a request it
    /// contains the older ones of its tuple, one of which may decide. The UID is compared, because a lagging cache
    /// may contain an earlier request of the same name. While a list is being received the order is that of names, so
    /// the cache is not used.
    async fn tuple(
        &self,
        name: &Name,
        request: &AccessRequest,
        via: Via,
    ) -> Result<TupleSeen, ObserveError> {
        let own = request.metadata.uid.as_deref();
        let others: Vec<(Name, RequestHead)> = {
            let state = self.world.read();
            let known = state.requests.head(name);
            let known = known.and_then(|it| it.uid.as_deref());
            let is_behind = state.requests.are_listed() || known != own;
            if via == Via::Api && is_behind {
                return Err(ObserveError::Behind(name.clone()));
            }
            let names = state.requests.tuple_of(name).into_iter();
            let heads = names.filter_map(|it| {
                let head = state.requests.head(&it)?.clone();
                Some((it, head))
            });
            heads
                .filter(|(_, it)| !it.is_going && it.uid.as_deref() != own)
                .filter(|(_, it)| it.phase != Some(Phase::Invalid))
                .collect()
        };
        let Some((other_name, other)) = others.iter().min_by_key(|(_, it)| it.rank()) else {
            return Ok(TupleSeen::default());
        };
        if request_order::Rank::of(request) < other.rank() {
            return Ok(TupleSeen {
                decided_by: None,
                has_others: true,
            });
        }
        if via == Via::Api {
            // A request found to be a duplicate is final, so the other one must be confirmed by a live read.
            let live = self.live.request(other_name).await?;
            let there = live.is_some_and(|it| {
                it.is_ok_and(|it| {
                    it.metadata.uid.as_deref() == other.uid.as_deref()
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
            decided_by: Some(other_name.name.clone()),
            has_others: true,
        })
    }
}

/// The connector, whether a standing permission covers the request, and the policies if they were read with them.
struct EarlyReads {
    connector: Result<Option<(ConnectorSeen, Labels)>, ObserveError>,
    standing: StandingSeen,
    policies: Option<Result<Vec<ListedPolicy>, ObserveError>>,
}

/// The pod, and the policies that apply to the request; none if that is unknown.
struct Matched<'a> {
    pod: &'a WholePod,
    applying: Option<&'a [Arc<CompiledPolicy>]>,
}

/// The result for a grant that does not exist as it was written.
enum AgainOutcome {
    /// The policy's conditions have changed, or it does not apply to this request any more.
    Changed,
    Judged(PolicyJudgement),
}

/// True when the request was granted at some time.
fn was_granted(request: &AccessRequest) -> bool {
    let status = request.status.as_ref();
    status.is_some_and(|it| it.granted_at.is_some())
}

fn is_invalid(request: &AccessRequest) -> bool {
    let phase = request.status.as_ref().and_then(|it| it.phase);
    phase == Some(Phase::Invalid)
}

/// True when a request has reached its end.
fn is_final(request: &AccessRequest) -> bool {
    let phase = request.status.as_ref().and_then(|it| it.phase);
    phase.is_some_and(is_terminal)
}

/// True when the policies no longer affect the outcome.
fn is_decided_by_itself(seen: &Observed) -> bool {
    let finished = match &seen.pod {
        PodSeen::There(facts) => facts.finished,
        PodSeen::Unreadable => false,
        PodSeen::Gone => true,
    };
    is_final(&seen.request)
        || seen.request.metadata.deletion_timestamp.is_some()
        || finished
        || seen.tuple.decided_by.is_some()
}

/// True when a request waits for its place in the line.
fn is_beyond(seen: &Observed) -> bool {
    seen.over_limit && !was_granted(&seen.request)
}

/// True when no object of a check can change what is decided.
fn needs_no_check(seen: &Observed) -> bool {
    is_decided_by_itself(seen) || seen.connector.is_none() || is_beyond(seen)
}

/// The UIDs of the policies that are not judged anew.
fn settled(seen: &Observed) -> Vec<String> {
    let status = seen.request.status.clone().unwrap_or_default();
    let entries = status.policies.iter().filter(|it| status.is_settled(it));
    let uids = entries.filter_map(grant::identity).map(|(_, uid)| uid);
    let changed = |uid: &&str| seen.frozen.iter().any(|it| it.uid == *uid && it.changed);
    uids.filter(|uid| !changed(uid))
        .map(str::to_owned)
        .collect()
}

/// A policy that cannot be judged does not affect the others.
fn unanswered(request: &Name, error: &ObserveError) -> PolicyJudgement {
    warn!(request = %request, error = report(error), "a policy is not judged");
    PolicyJudgement::Unanswered
}

/// True when the grant of an entry is in force as its status describes it.
fn is_written(seen: &Observed, entry: &MatchedPolicy) -> bool {
    let grant = entry.grant.as_ref();
    grant.is_some_and(|it| it.state == GrantState::Granted)
        && grant::is_written(&seen.request, entry, &seen.grants)
}

/// The pod of a request, and the UID that the request states for it.
fn pod_and_uid(request: &AccessRequest) -> (Name, &str) {
    let uid = request.spec.context.object_ref.uid.as_deref();
    (pod_of(request), uid.unwrap_or_default())
}
