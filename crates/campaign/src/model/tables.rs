//! Tables of statuses and plans with numbers, and the memoized results of all pure functions.
//!
//! Owns: the mapping from small values to real ones and back. Knows nothing of its callers. Invariant: the
//! same input always has the same number, regardless of the order of calls.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, PoisonError, RwLock},
};

use connectors_api::{
    AccessRequest,
    access_request::{AccessRequestStatus, GrantState, MatchedPolicy, Phase},
    reason::Ready,
};
use jiff::Timestamp;
use request_controller::{
    grant::{self, Grant},
    plan::NotOurs,
};

use super::{
    doing::Seen,
    objects,
    world::{INCARNATIONS, Kind, Late, NAMES, Objects, POLICIES, PolicyLife, RequestId, Stored},
};

/// The age of the reads that a decision is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Age {
    /// From caches.
    Cached,
    /// Read live just now.
    Fresh,
    /// Read live too long ago.
    Stale,
}

/// Everything that the answer for the pod of one name may depend on, including the other pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) slot: usize,
    pub(super) generation: u8,
    pub(super) requests: [Option<Stored>; NAMES],
    pub(super) grants: [[Objects; POLICIES]; NAMES * INCARNATIONS],
}

/// A status, and the properties that steps and rules use.
#[derive(Debug)]
pub(super) struct Known {
    /// The status; none if there is none yet.
    pub(super) status: Option<AccessRequestStatus>,
    /// Its phase.
    pub(super) phase: Option<Phase>,
    /// Policies with an entry that has a result: a bit for each.
    pub(super) decided: u8,
    /// Of these, the ended ones.
    pub(super) ended: u8,
    /// Of these, those in force.
    pub(super) granted: u8,
    /// Policies with an entry without a result that describes a Role: a bit for each.
    pub(super) prepared: u8,
    /// Whether it records that nothing is left.
    pub(super) revoked: bool,
    /// The UID of its connector.
    pub(super) connector: Option<String>,
    /// The time of its end, if a standing permission ended it.
    pub(super) makes_way: Option<Timestamp>,
}

/// A plan in small values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Planned {
    /// The reads are not sufficient for a decision.
    pub(super) look_live: bool,
    /// The status to write.
    pub(super) status: Option<u16>,
    /// A grant or the request ends.
    pub(super) ends: bool,
    /// The objects to remove.
    pub(super) removes: Vec<(Kind, u8)>,
    /// The grants: policy and rules.
    pub(super) grants: Vec<(u8, u8)>,
    /// Of these, the policies whose Role was seen as decided: a bit for each.
    pub(super) has_role: u8,
    /// The Roles to write in advance: policy and rules.
    pub(super) prepares: Vec<(u8, u8)>,
    /// All objects must be verified to be gone in the end.
    pub(super) finish: bool,
    /// The request is deleted.
    pub(super) delete: bool,
}

impl Planned {
    /// True when there is nothing to do.
    #[must_use]
    pub(super) fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}

type Memo<K, V> = RwLock<HashMap<K, V>>;
type Kept = (RequestId, u8, Kind, u8, Option<Stored>, Late);
type Confirmation = (Option<Stored>, RequestId, u16, u32, Late);

/// All results so far.
#[derive(Default)]
pub(super) struct Tables {
    statuses: RwLock<Vec<Arc<Known>>>,
    numbers: Memo<String, u16>,
    plans: RwLock<Vec<Arc<Planned>>>,
    plan_numbers: Memo<Planned, u32>,
    pub(super) looks: Memo<(Seen, Age, Late), u32>,
    keeps: Memo<Kept, bool>,
    exact: Memo<(RequestId, u16, u8, Kind, u8), bool>,
    confirmed: Memo<Confirmation, Result<u16, NotOurs>>,
    pub(super) access: Memo<(Asked, Late), bool>,
}

/// Memoizes a result.
pub(super) fn remember<K: Eq + Hash + Clone, V: Clone>(
    memo: &Memo<K, V>,
    key: &K,
    make: impl FnOnce() -> V,
) -> V {
    if let Some(known) = read(memo).get(key) {
        return known.clone();
    }
    let answer = make();
    let mut memo = memo.write().unwrap_or_else(PoisonError::into_inner);
    memo.entry(key.clone()).or_insert(answer).clone()
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

impl Tables {
    /// Number 0 means no status.
    #[must_use]
    pub(super) fn new() -> Self {
        let tables = Self::default();
        tables.number(None);
        tables
    }

    /// A status by its number.
    #[must_use]
    pub(super) fn status(&self, number: u16) -> Arc<Known> {
        Arc::clone(&read(&self.statuses)[usize::from(number)])
    }

    /// The number of a status.
    pub(super) fn number(&self, status: Option<&AccessRequestStatus>) -> u16 {
        let text = serde_json::to_string(&status).unwrap_or_default();
        if let Some(known) = read(&self.numbers).get(&text) {
            return *known;
        }
        let mut numbers = self.numbers.write().unwrap_or_else(PoisonError::into_inner);
        let mut statuses = self
            .statuses
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *numbers.entry(text).or_insert_with(|| {
            statuses.push(Arc::new(Known::of(status)));
            u16::try_from(statuses.len() - 1).unwrap_or(u16::MAX)
        })
    }

    /// The number of different statuses.
    #[must_use]
    pub(super) fn statuses(&self) -> usize {
        read(&self.statuses).len()
    }

    /// The number of different observations that were decided on.
    #[must_use]
    pub(super) fn decisions(&self) -> usize {
        read(&self.looks).len()
    }

    /// A plan by its number.
    #[must_use]
    pub(super) fn plan(&self, number: u32) -> Arc<Planned> {
        Arc::clone(&read(&self.plans)[number as usize])
    }

    pub(super) fn plan_number(&self, plan: &Planned) -> u32 {
        remember(&self.plan_numbers, plan, || {
            let mut plans = self.plans.write().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have added the same plan.
            let there = plans.iter().position(|it| **it == *plan);
            let index = there.unwrap_or_else(|| {
                plans.push(Arc::new(plan.clone()));
                plans.len() - 1
            });
            u32::try_from(index).unwrap_or(u32::MAX)
        })
    }

    /// A request with its status.
    #[must_use]
    pub(super) fn request(&self, id: RequestId, status: u16) -> Option<AccessRequest> {
        objects::request(id, self.status(status).status.as_ref())
    }

    fn live(&self, name: u8, stored: Option<Stored>) -> Option<AccessRequest> {
        let stored = stored?;
        let incarnation = stored.incarnation;
        self.request(RequestId { name, incarnation }, stored.status)
    }

    /// The controller's rule about one managed object.
    #[must_use]
    pub(super) fn keeps(
        &self,
        id: RequestId,
        policy: u8,
        (kind, form): (Kind, u8),
        request: Option<Stored>,
        late: Late,
    ) -> bool {
        remember(
            &self.keeps,
            &(id, policy, kind, form, request, late),
            || {
                let object = objects::managed(id, policy, kind, form);
                let request = self.live(id.name, request);
                object.is_some_and(|it| grant::keep(&it, request.as_ref(), objects::wall(late)))
            },
        )
    }

    /// The grants of a plan, as described by the status that was written before them.
    pub(super) fn grants(&self, id: RequestId, status: u16, plan: &Planned) -> Vec<Grant> {
        let wanted = |policy: u8| plan.grants.iter().any(|it| it.0 == policy);
        let Some(request) = self.request(id, status) else {
            return vec![];
        };
        let entries = request.status.iter().flat_map(|it| &it.policies);
        entries
            .filter(|entry| {
                let uid = grant::identity(entry).map(|it| it.1);
                (0..).take(POLICIES).any(|policy| {
                    wanted(policy) && uid == Some(objects::policy_uid(policy).as_str())
                })
            })
            .filter_map(|entry| grant::of_entry(&request, entry))
            .collect()
    }

    /// The grant of one policy, as described by a status.
    #[must_use]
    pub(super) fn grant(&self, id: RequestId, status: u16, policy: u8) -> Option<Grant> {
        let plan = Planned {
            grants: vec![(policy, 0)],
            ..Planned::default()
        };
        self.grants(id, status, &plan).pop()
    }

    /// True when the object with this name is exactly the decided one.
    #[must_use]
    pub(super) fn is_exactly(
        &self,
        id: RequestId,
        status: u16,
        policy: u8,
        kind: Kind,
        form: u8,
    ) -> bool {
        remember(&self.exact, &(id, status, policy, kind, form), || {
            let found = objects::managed(id, policy, kind, form);
            let grant = self.grant(id, status, policy);
            found
                .zip(grant)
                .is_some_and(|(found, grant)| grant::is_exactly(&found, &grant))
        })
    }

    /// The status of a request after its permissions were written, if it still wants them.
    pub(super) fn confirmed(
        &self,
        live: Option<Stored>,
        id: RequestId,
        decided: u16,
        plan: u32,
        late: Late,
    ) -> Result<u16, NotOurs> {
        remember(&self.confirmed, &(live, id, decided, plan, late), || {
            let live = self.live(id.name, live);
            let decided_on = self.request(id, decided).ok_or(NotOurs::Gone)?;
            let grants = self.grants(id, decided, &self.plan(plan));
            let now = objects::wall(late);
            let granted =
                request_controller::plan::granted(live.as_ref(), &decided_on, &grants, now)?;
            Ok(self.number(Some(&granted.0)))
        })
    }

    /// The status once nothing is left of a grant, if it does not record that yet.
    #[must_use]
    pub(super) fn finished(&self, id: RequestId, status: u16, late: Late) -> Option<u16> {
        let request = self.request(id, status)?;
        let status = request_controller::plan::finished(&request, objects::wall(late))?;
        Some(self.number(Some(&status)))
    }

    /// The status that records why nothing was written, if it does not yet.
    #[must_use]
    pub(super) fn not_written(&self, id: RequestId, status: u16, late: Late) -> Option<u16> {
        let request = self.request(id, status)?;
        let now = objects::wall(late);
        let status = request_controller::plan::not_written(&request, "it was refused", now)?;
        Some(self.number(Some(&status)))
    }
}

impl Known {
    fn of(status: Option<&AccessRequestStatus>) -> Self {
        let bits_of = |is: &dyn Fn(&MatchedPolicy) -> bool| {
            let entries = status.iter().flat_map(|it| &it.policies);
            entries
                .filter(|entry| is(entry))
                .filter_map(|entry| policy_of(grant::identity(entry)?.1))
                .fold(0, |bits, policy| bits | 1 << policy)
        };
        let bits = |is: &dyn Fn(GrantState) -> bool| {
            bits_of(&|entry| entry.grant.as_ref().is_some_and(|it| is(it.state)))
        };
        Self {
            phase: status.and_then(|it| it.phase),
            decided: bits(&|_| true),
            ended: bits(&|state| state == GrantState::Ended),
            granted: bits(&|state| state == GrantState::Granted),
            prepared: bits_of(&|entry| entry.grant.is_none() && !entry.prepared_rules.is_empty()),
            revoked: status.is_some_and(|it| it.revoked_at.is_some()),
            connector: status.and_then(|it| it.connector_uid.clone()),
            makes_way: status.filter(|it| makes_way(it)).and_then(|it| it.ended_at),
            status: status.cloned(),
        }
    }

    /// Whether it is final.
    #[must_use]
    pub(super) fn is_terminal(&self) -> bool {
        self.phase.is_some_and(grant::is_terminal)
    }
}

/// True when a standing permission ended it.
fn makes_way(status: &AccessRequestStatus) -> bool {
    let mut conditions = status.conditions.iter();
    let reason = Ready::StandingPermission.as_str();
    status.phase == Some(Phase::Ended) && conditions.any(|it| it.reason == reason)
}

/// A policy by its UID.
#[must_use]
pub(super) fn policy_of(uid: &str) -> Option<u8> {
    (0..)
        .take(POLICIES)
        .find(|policy| objects::policy_uid(*policy) == uid)
}

/// True when a policy exists.
#[must_use]
pub(super) fn exists(life: PolicyLife) -> bool {
    life != PolicyLife::Deleted
}
