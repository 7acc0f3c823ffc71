//! The caches of all watched objects, with the indexes that lead from a changed object to the requests that must be
//! reconciled.
//!
//! Nothing is granted or ended because of a cache alone: a cache only decides which reconciliations are worth a live
//! read. A grant takes the request itself from here where its first write confirms the version.

mod gated;
mod grants;
mod index;
mod kept_request;
mod kind_objects;
mod kinds;
mod links;
mod policies;
mod request_cached;
mod request_room;
mod requests;
mod sought;
mod standing;
mod waiting_lines;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use connectors_api::{
    AccessPolicy, AccessRequest,
    access_policy::ObjectKind,
    access_request::Phase,
    check_selector::CompiledPolicy,
    config::{Config, ConfigProblem, Knowledge},
    shared_fields::SharedFields,
};
use jiff::Timestamp;
use service_kit::{controller::queue::Urgency, watches::Unreadable};

use crate::{
    api::Name,
    grant,
    seen::{ConnectorSeen, GrantKind, Managed, PodFacts},
};

pub use gated::{GatePlace, GatedPods};
pub use grants::{GrantCache, KeptGrant};
pub use kept_request::{KeptRequest, RequestHead, holds, pod_of};
pub use kind_objects::KindObject;
pub use kinds::{Keeps, KindCache, KindState};
pub use links::{Link, Links};
pub use policies::{PolicyCache, PolicyCached};
pub use request_cached::RequestCached;
pub use requests::{Counts, RequestCache};
pub use sought::{MOST_SOUGHT, Sought, SoughtObjects};
pub use standing::StandingHeard;

/// A job of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    /// A request.
    Request(Name),
    /// The Role and the RoleBinding under one name.
    Grant(Name),
    /// The scheduling gate of a pod.
    Gate(Name),
}

impl Job {
    /// The namespace whose leader does it: that of the connector, or of the pod with the gate.
    #[must_use]
    pub fn namespace(&self) -> &str {
        let (Self::Request(name) | Self::Grant(name) | Self::Gate(name)) = self;
        &name.namespace
    }
}

/// Jobs with their urgency.
pub type Wakes = Vec<(Job, Urgency)>;

/// A pod as the cache keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCached {
    /// Its UID. Its requests share the text.
    pub uid: Arc<str>,
    /// Its resource version.
    pub version: Box<str>,
    /// The fields that decisions need; none if the pod is unreadable.
    pub facts: Option<PodFacts>,
    /// Since when the pod waits with the scheduling gate, if it does.
    pub gated_since: Option<Timestamp>,
}

/// True when two versions of a policy are the same for requests.
fn is_same_policy(one: &AccessPolicy, other: &AccessPolicy) -> bool {
    let (a, b) = (&one.metadata, &other.metadata);
    a.uid == b.uid
        && a.generation == b.generation
        && a.creation_timestamp == b.creation_timestamp
        && one.spec == other.spec
}

/// A connector as the cache keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorCached {
    /// The fields that decisions need.
    pub seen: ConnectorSeen,
    /// Its labels, by which policies select it.
    pub labels: Labels,
}

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Everything that is watched.
#[derive(Default)]
pub struct World {
    state: RwLock<State>,
}

/// The caches themselves.
#[derive(Default)]
pub struct State {
    /// Requests with their indexes.
    pub requests: RequestCache,
    /// Policies.
    pub policies: PolicyCache,
    /// Connectors.
    pub connectors: BTreeMap<Name, ConnectorCached>,
    /// Pods, of the whole cluster. Boxed, because a node of the tree has room for eleven entries and is half full.
    pub pods: BTreeMap<Name, Box<PodCached>>,
    /// Those that wait with the scheduling gate.
    pub gated: GatedPods,
    /// Labels of service accounts.
    pub accounts: BTreeMap<Name, Labels>,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<String, Labels>,
    /// Managed Roles and RoleBindings.
    pub grants: GrantCache,
    /// Kinds of check objects.
    pub kinds: BTreeMap<ObjectKind, KindCache>,
    /// The objects between pods and approvals that requests depend on.
    pub links: Links,
    /// The objects that the checks of waiting requests select.
    pub sought: Sought,
    /// The last answers about standing permissions.
    pub standing: StandingHeard,
    knowledge: Knowledge,
    revision: u64,
}

impl World {
    /// Locks the state for reading, which must be short.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for writing, which must be short.
    pub fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parses the selectors of a policy that was read live. If the cached version is the same, the cached one is
    /// returned. If the cache does not keep the policy, concurrent reconciliations share one parsed copy. Comparing
    /// and parsing happen without a lock.
    #[must_use]
    pub fn parsed(&self, policy: AccessPolicy) -> Arc<CompiledPolicy> {
        let name = Name::of(&policy);
        let (known, is_left_out) = {
            let state = self.read();
            let policies = &state.policies;
            (policies.compiled(&name), policies.is_left_out(&name))
        };
        if let Some(known) = known
            .as_ref()
            .filter(|it| is_same_policy(&it.policy, &policy))
        {
            return Arc::clone(known);
        }
        let parsed = Arc::new(CompiledPolicy::of(policy, known.as_deref()));
        if is_left_out {
            self.write().policies.share(&name, &parsed);
        }
        parsed
    }

    /// A managed Role or RoleBinding was added, changed or deleted. One that its request describes exactly needs no
    /// look: this controller has just written it. The request is read and compared without a lock.
    pub fn grant(&self, kind: GrantKind, name: &Name, grant: Option<&Managed>) -> Wakes {
        let describes = grant.and_then(|grant| {
            let text = self.read().request_of(grant).map(KeptRequest::text)?;
            let is_described = grant::is_described(grant, &KeptRequest::parse(&text)?);
            is_described.then_some(text)
        });
        self.write().grant(kind, name, grant, describes.as_deref())
    }

    /// The configuration of the installation, once it is known.
    #[must_use]
    pub fn config(&self) -> Option<Config> {
        self.read().knowledge.config()
    }

    /// Whether the default requesters are known. They are those of policies that name none.
    #[must_use]
    pub fn knows_default_requesters(&self) -> bool {
        self.read().knowledge.knows_default_requesters()
    }
}

impl State {
    /// Processes the ConfigMap.
    pub fn learn(&mut self, data: &BTreeMap<String, String>) -> (Vec<ConfigProblem>, Wakes) {
        let known = |it: &Knowledge| {
            let knows_default = it.knows_default_requesters();
            (it.config(), knows_default, Arc::clone(it.shared()))
        };
        let before = known(&self.knowledge);
        let problems = self.knowledge.learn(data);
        let wakes = if known(&self.knowledge) == before {
            Wakes::new()
        } else {
            self.gated.end_rests();
            let mut wakes = self.requests.wakes(self.requests.all());
            wakes.extend(self.gated.wakes());
            wakes
        };
        (problems, wakes)
    }

    /// The number of entries of each map. The exhaustive pattern requires a decision about each new field.
    #[cfg(test)]
    pub(crate) fn census(&self) -> Vec<usize> {
        let Self {
            requests,
            policies,
            connectors,
            pods,
            gated,
            accounts,
            namespaces,
            grants,
            kinds,
            links,
            sought,
            standing,
            knowledge: _,
            revision: _,
        } = self;
        let weights = kinds.values().map(KindCache::weight);
        let mut census = requests.census();
        census.extend(policies.census());
        census.extend([
            connectors.len(),
            pods.len(),
            accounts.len(),
            namespaces.len(),
            kinds.len(),
            weights.sum(),
            standing.count(),
        ]);
        census.extend(grants.census());
        census.extend(sought.census());
        census.extend(links.census());
        census.extend(gated.census());
        census
    }

    /// The fields of check objects that policies of other namespaces may see.
    #[must_use]
    pub fn shared(&self) -> Arc<SharedFields> {
        Arc::clone(self.knowledge.shared())
    }

    /// Whether the pod of a request is known, and not finished.
    #[must_use]
    pub fn has_living_pod(&self, pod: &Name, uid: Option<&str>) -> bool {
        let known = self.pods.get(pod);
        let known = known.filter(|it| Some(it.uid.as_ref()) == uid);
        known.is_some_and(|it| it.facts.as_ref().is_none_or(|facts| !facts.finished))
    }

    /// A number that changes whenever the set of wanted kinds may have changed.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// A request was added or changed.
    pub fn request(
        &mut self,
        name: &Name,
        request: Result<Arc<AccessRequest>, Unreadable>,
    ) -> Wakes {
        self.revision += 1;
        let before = self.requests.head(name).map(GateState::of);
        let line = self.requests.waiting_line(name);
        let uid = |state: &Self| state.requests.get(name).and_then(|it| it.uid.clone());
        let known = uid(self);
        self.requests.put(name, request, &self.pods, &self.grants);
        let replaced = known.filter(|it| Some(it) != uid(self).as_ref());
        let waits = self.requests.waits_in(name);
        self.sought.follow(name, waits);
        let mut wakes = self.requests.wakes([name.clone()]);
        wakes.extend(self.requests.wakes(self.requests.tuple_of(name)));
        // The watch did not tell that the other request of this name is gone.
        if let Some(replaced) = replaced {
            self.standing.forget(&replaced);
            wakes.extend(self.grants_under(&replaced));
        }
        let left = line.filter(|line| self.requests.waiting_line(name).as_ref() != Some(line));
        wakes.extend(self.next_in(left));
        // What a request waits for is no matter of the gate.
        let settled = self.requests.head(name);
        let settled = settled.filter(|_| !self.requests.is_waiting(name));
        let settled = settled.filter(|it| before != Some(GateState::of(it)));
        wakes.extend(settled.and_then(|head| self.gate_of(head)));
        wakes
    }

    /// The job of the request that may have its place in a line, which a request has left.
    fn next_in(&self, left: Option<(String, String)>) -> Wakes {
        let next = left.and_then(|line| self.requests.next_in_line(&line).cloned());
        self.requests.wakes(next)
    }

    /// The job of the gate of a request's pod, if the pod has one.
    fn gate_of(&self, head: &RequestHead) -> Option<(Job, Urgency)> {
        self.gated.wake_of(&head.pod, head.pod_uid.as_deref())
    }

    /// A request is gone: its grants and its duplicates must be reconciled.
    pub fn request_gone(&mut self, name: &Name) -> (Option<KeptRequest>, Wakes) {
        self.revision += 1;
        let others = self.requests.tuple_of(name);
        let line = self.requests.waiting_line(name);
        let gone = self.requests.remove(name);
        self.depends_on(name, |_| false);
        self.sought.follow(name, None);
        let mut wakes = self.requests.wakes(others);
        wakes.extend(self.next_in(line));
        let uid = gone.as_ref().and_then(|it| it.uid.clone());
        if let Some(uid) = &uid {
            self.standing.forget(uid);
        }
        wakes.extend(uid.iter().flat_map(|uid| self.grants_under(uid)));
        let request = gone.and_then(|it| it.request.ok());
        wakes.extend(request.as_ref().and_then(|it| self.gate_of(&it.head)));
        (request, wakes)
    }

    /// Replaces the set of waiting requests that a standing permission covers, and wakes them.
    pub fn stands(&mut self, uids: BTreeSet<String>) -> Wakes {
        let names = uids.iter().filter_map(|uid| self.requests.by_uid(uid));
        let names: Vec<_> = names.cloned().collect();
        self.standing.replace(uids);
        self.requests.wakes(names)
    }

    /// The managed objects of the request with this UID.
    #[must_use]
    pub fn grants_under(&self, uid: &str) -> Wakes {
        let grants = self.grants.of_request(uid).into_iter();
        let wake = |(kind, name)| {
            let urgency = self.urgency_of(kind, &name);
            (Job::Grant(name), urgency)
        };
        grants.map(wake).collect()
    }

    /// The lane of a look at a managed object. A Role to which no RoleBinding refers gives nothing, so it waits behind
    /// what may have to be revoked.
    fn urgency_of(&self, kind: GrantKind, name: &Name) -> Urgency {
        let is_bound = || self.grants.has(GrantKind::RoleBinding, name);
        if kind == GrantKind::RoleBinding || is_bound() {
            Urgency::Urgent
        } else {
            Urgency::Normal
        }
    }

    /// A pod was added, changed or deleted.
    pub fn pod(&mut self, name: &Name, pod: Option<PodCached>) -> Wakes {
        let before = match pod {
            Some(pod) if self.pods.get(name).is_some_and(|it| **it == pod) => {
                return Wakes::new();
            }
            Some(mut pod) => {
                pod.uid = self.requests.known_pod_uid(pod.uid);
                self.pods.insert(name.clone(), Box::new(pod))
            }
            None => self.pods.remove(name),
        };
        let after = self.pods.get(name);
        let place = after.and_then(|it| {
            let (since, uid) = (it.gated_since?, it.uid.clone());
            Some(GatePlace { since, uid })
        });
        let gate = self.gated.set(name, place);
        let gate = gate.then(|| self.gated.wake_of(name, after.map(|it| it.uid.as_ref())));
        let same = |a: &PodCached, b: &PodCached| a.uid == b.uid && a.facts == b.facts;
        let matters = before.as_ref().zip(after).is_none_or(|(a, b)| !same(a, b));
        let concerned = self.requests.of_pod(name);
        // Grants do not depend on the labels of the pod.
        let concerned = concerned.filter(|it| matters || !self.requests.holds(it));
        let mut wakes = self.requests.wakes(concerned.cloned().collect::<Vec<_>>());
        wakes.extend(gate.flatten());
        wakes
    }

    /// A connector was added, changed or deleted.
    pub fn connector(&mut self, name: &Name, connector: Option<ConnectorCached>) -> Wakes {
        match connector {
            Some(connector) if self.connectors.get(name) == Some(&connector) => {
                return Wakes::new();
            }
            Some(connector) => self.connectors.insert(name.clone(), connector),
            None => self.connectors.remove(name),
        };
        let concerned: Vec<_> = self.requests.of_connector(name).cloned().collect();
        self.requests.wakes(concerned)
    }

    /// A policy was added, changed or deleted.
    pub fn policy(&mut self, name: &Name, policy: Option<PolicyCached>) -> Wakes {
        // Most changes of a policy are changes of its status. Reconciliations share the copy that stays.
        let news = policy.as_ref();
        if news.is_some_and(|it| self.policies.say(name, it)) {
            return Wakes::new();
        }
        self.revision += 1;
        let after = policy
            .as_ref()
            .filter(|it| !it.deleting)
            .map(|it| it.uid.clone());
        let before = self.policies.put(name, policy);
        let replaced = before.is_some_and(|it| Some(it) != after);
        let concerned = self.requests.of_namespace(&name.namespace);
        // An edited policy does not affect existing grants.
        let concerned: Vec<_> = concerned
            .filter(|it| replaced || !self.requests.holds(it))
            .filter(|it| self.requests.is_open(it))
            .cloned()
            .collect();
        self.requests.wakes(concerned)
    }

    /// A service account was added, its labels changed, or it was deleted.
    pub fn account(&mut self, name: &Name, labels: Option<Labels>) -> Wakes {
        let changed = put(&mut self.accounts, name.clone(), labels);
        let pods = self.requests.of_pod_namespace(&name.namespace);
        let concerned: Vec<_> = pods
            .filter(|it| changed && self.requests.is_waiting(it))
            .filter(|it| self.requests.account(it) == Some(name.name.as_str()))
            .cloned()
            .collect();
        self.requests.wakes(concerned)
    }

    /// A namespace was added, its labels changed, or it was deleted.
    pub fn namespace(&mut self, name: &str, labels: Option<Labels>) -> Wakes {
        let changed = put(&mut self.namespaces, name.to_owned(), labels);
        let pods = self.requests.of_pod_namespace(name);
        let concerned: Vec<_> = pods
            .filter(|it| changed && self.requests.is_waiting(it))
            .cloned()
            .collect();
        self.requests.wakes(concerned)
    }

    /// The request that a managed object names by its UID.
    fn request_of(&self, grant: &Managed) -> Option<&KeptRequest> {
        let uid = grant.label(connectors_api::labels::ACCESS_REQUEST_UID)?;
        self.requests.readable(self.requests.by_uid(uid)?)
    }

    /// A managed Role or RoleBinding was added, changed or deleted. It is looked at, unless its request has this text, which
    /// describes it exactly. An event of the request wakes the request, which removes what it does not describe any
    /// more. While that watch is silent, the sweep does.
    pub fn grant(
        &mut self,
        kind: GrantKind,
        name: &Name,
        grant: Option<&Managed>,
        describes: Option<&str>,
    ) -> Wakes {
        let known = |uid: &str| self.requests.known_uid(uid);
        let before = self.grants.set(kind, name, grant, known);
        let mut wakes = Wakes::new();
        if let Some(grant) = grant {
            // The request may have changed since it was compared.
            let request = self.request_of(grant).zip(describes);
            if request.is_none_or(|(now, then)| now.text() != then) {
                wakes.push((Job::Grant(name.clone()), self.urgency_of(kind, name)));
            }
        }
        let requests = before.iter().filter_map(|uid| self.requests.by_uid(uid));
        let requests: Vec<_> = requests.cloned().collect();
        wakes.extend(self.requests.wakes(requests));
        wakes
    }
}

/// The fields of a request that a gate is decided on, and the UID: another request of the same name is news.
#[derive(PartialEq, Eq)]
struct GateState {
    uid: Option<Arc<str>>,
    is_going: bool,
    phase: Option<Phase>,
    ready: Option<Box<str>>,
}

impl GateState {
    fn of(head: &RequestHead) -> Self {
        Self {
            uid: head.uid.clone(),
            is_going: head.is_going,
            phase: head.phase,
            ready: head.ready.clone(),
        }
    }
}

fn put<K: Ord>(map: &mut BTreeMap<K, Labels>, key: K, labels: Option<Labels>) -> bool {
    match labels {
        Some(labels) if map.get(&key) == Some(&labels) => false,
        Some(labels) => {
            map.insert(key, labels);
            true
        }
        None => map.remove(&key).is_some(),
    }
}
