//! The state from the watches, and the map from a changed object to the policies that need another look.
//!
//! No write relies on this state: it only tells which policies need a live look.

pub mod own_writes;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use connectors_api::{
    AccessPolicy, AccessPolicySpec, AccessPolicyStatus, LabelSelector, NamespaceKeys,
    access_policy::{MOST_SELECTORS, SubjectForm},
    check_selector::json_bytes,
    config::{ConfigProblem, DefaultRequesters, Knowledge},
    policy_match::{self, WantedConnector},
    policy_order::{MOST_PER_CONNECTOR, PolicyAge},
};
use service_kit::{byte_budget::ByteBudget, controller::queue::Urgency};
use tokio::{sync::Notify, time::Instant};

use crate::seen::{Labels, ManagedCached, ManagedKind, MostSelected, Name, Surroundings};
use own_writes::{OwnEvent, OwnObject, OwnVersions, OwnWrites};

/// The limit for the policies of one namespace in the cache, in bytes of their specs.
const MOST_OF_NAMESPACE: usize = 4 * 1024 * 1024;
/// The limit for all policies in the cache.
const MOST_OF_ALL: usize = 16 * 1024 * 1024;

/// The unit of a look: all objects that are managed in a namespace for the policy with a UID.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Job {
    /// The namespace.
    pub namespace: String,
    /// The UID of the policy, or its UID according to a label.
    pub uid: String,
}

/// Managed objects of a job.
pub type ManagedByName = BTreeMap<(ManagedKind, String), ManagedCached>;

/// Jobs and how urgent they are.
pub type Wakes = Vec<(Job, Urgency)>;

/// A policy as the cache keeps it.
#[derive(Clone, Debug)]
pub struct PolicyCached {
    /// Its UID.
    pub uid: String,
    /// It is being deleted.
    pub deleting: bool,
    /// Its content.
    pub said: CachedPolicy,
}

/// The content of a policy.
#[derive(Clone, Debug)]
pub enum CachedPolicy {
    /// It is kept, with the bytes that it takes.
    Kept(Arc<AccessPolicy>, usize),
    /// The policies of its namespace exceed the limit of the cache: each look at it reads it live.
    NotKept,
    /// It cannot be read.
    Unreadable,
}

impl PolicyCached {
    /// As the watch brings it; without a policy if that cannot be read.
    #[must_use]
    pub fn of(uid: String, deleting: bool, policy: Option<AccessPolicy>) -> Self {
        let said = policy.map_or(CachedPolicy::Unreadable, |policy| {
            let bytes = json_bytes(&policy.spec);
            CachedPolicy::Kept(Arc::new(policy), bytes)
        });
        Self {
            uid,
            deleting,
            said,
        }
    }

    /// Its content, if it is known.
    #[must_use]
    pub const fn policy(&self) -> Option<&Arc<AccessPolicy>> {
        match &self.said {
            CachedPolicy::Kept(policy, _) => Some(policy),
            CachedPolicy::NotKept | CachedPolicy::Unreadable => None,
        }
    }

    fn version(&self) -> Option<&str> {
        self.policy()?.metadata.resource_version.as_deref()
    }

    const fn bytes(&self) -> usize {
        match self.said {
            CachedPolicy::Kept(_, bytes) => bytes,
            CachedPolicy::NotKept | CachedPolicy::Unreadable => 0,
        }
    }
}

/// Everything that is watched.
#[derive(Default)]
pub struct World {
    state: RwLock<State>,
}

/// The caches themselves.
pub struct State {
    most_selected: MostSelected,
    configuration: Knowledge,
    /// Whether the ConfigMap was read, or is known to be missing.
    is_configured: bool,
    policies: BTreeMap<Name, (PolicyCached, Selectors)>,
    /// The bytes of the policies in the cache.
    budget: ByteBudget,
    by_uid: HashMap<Job, Name>,
    connectors: BTreeMap<String, BTreeMap<String, Labels>>,
    namespaces: BTreeMap<String, Labels>,
    accounts: BTreeMap<String, BTreeMap<String, Labels>>,
    managed: BTreeMap<Job, ManagedByName>,
    job_of: BTreeMap<(ManagedKind, Name), Job>,
    own: OwnWrites,
}

impl Default for State {
    fn default() -> Self {
        Self {
            most_selected: MostSelected::default(),
            configuration: Knowledge::default(),
            is_configured: false,
            policies: BTreeMap::new(),
            budget: ByteBudget::new(MOST_OF_NAMESPACE, MOST_OF_ALL),
            by_uid: HashMap::new(),
            connectors: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            accounts: BTreeMap::new(),
            managed: BTreeMap::new(),
            job_of: BTreeMap::new(),
            own: OwnWrites::default(),
        }
    }
}

/// The selectors of a policy's subjects.
#[derive(Debug, Default)]
struct Selectors {
    namespaces: Vec<LabelSelector>,
    accounts: Vec<LabelSelector>,
    /// The cache does not keep the policy's content: it may select anything.
    are_unknown: bool,
}

impl Selectors {
    fn of(policy: &AccessPolicySpec) -> Self {
        let mut selectors = Self::default();
        let given = policy.default_permission.iter();
        // Too many selectors find no subject, so no change concerns them.
        let given = given.filter(|it| it.binding_template.selectors() <= MOST_SELECTORS);
        for subject in given.flat_map(|it| &it.binding_template.subjects) {
            match SubjectForm::try_from(subject) {
                Ok(SubjectForm::ServiceAccountsByLabel {
                    selector,
                    namespaces,
                }) => {
                    selectors.accounts.push(selector);
                    selectors.namespaces.extend(namespaces);
                }
                Ok(SubjectForm::ServiceAccountGroupsByNamespace { namespaces }) => {
                    selectors.namespaces.push(namespaces);
                }
                Ok(
                    SubjectForm::ServiceAccount { .. }
                    | SubjectForm::Group { .. }
                    | SubjectForm::User { .. },
                )
                | Err(_) => {}
            }
        }
        selectors
    }
}

impl World {
    /// Nothing is known yet; the selectors of one policy may find so many subjects.
    #[must_use]
    pub fn of(most_selected: MostSelected) -> Self {
        let state = State {
            most_selected,
            ..State::default()
        };
        Self {
            state: RwLock::new(state),
        }
    }

    /// The current state. The caller must hold the lock only briefly.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, for a change. The caller must hold the lock only briefly.
    pub fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The policy of a job, with its name.
    #[must_use]
    pub fn policy_of(&self, job: &Job) -> Option<(&Name, &PolicyCached)> {
        let name = self.by_uid.get(job)?;
        let (policy, _) = self.policies.get(name)?;
        Some((name, policy))
    }

    /// A policy by its name.
    #[must_use]
    pub fn policy_named(&self, name: &Name) -> Option<&PolicyCached> {
        self.policies.get(name).map(|(policy, _)| policy)
    }

    /// The policies that can be read and are not being deleted.
    pub fn readable(&self) -> impl Iterator<Item = (Job, &Arc<AccessPolicy>)> {
        let policies = self.policies.iter();
        policies.filter_map(|(name, (cached, _))| {
            let policy = cached.policy().filter(|_| !cached.deleting)?;
            let job = Job {
                namespace: name.namespace.clone(),
                uid: cached.uid.clone(),
            };
            Some((job, policy))
        })
    }

    /// The objects from which a policy of that namespace selects.
    #[must_use]
    pub fn around(&self, namespace: &str) -> Surroundings<'_> {
        static NONE: BTreeMap<String, Labels> = BTreeMap::new();
        Surroundings {
            most_selected: self.most_selected,
            namespace_keys: self.configuration.namespace_keys(),
            connectors: self.connectors.get(namespace).unwrap_or(&NONE),
            namespaces: &self.namespaces,
            accounts: &self.accounts,
        }
    }

    /// By which labels of namespaces policies may select subjects.
    #[must_use]
    pub fn namespace_keys(&self) -> Arc<NamespaceKeys> {
        Arc::clone(self.configuration.namespace_keys())
    }

    /// The requesters of policies that name none, once the configuration is known.
    #[must_use]
    pub fn default_requesters(&self) -> Option<DefaultRequesters> {
        self.is_configured
            .then(|| self.configuration.default_requesters())
    }

    /// Applies the ConfigMap. A missing or unreadable one changes nothing.
    pub fn learn(
        &mut self,
        data: Option<&BTreeMap<String, String>>,
    ) -> (Vec<ConfigProblem>, Wakes) {
        self.is_configured = true;
        let Some(data) = data else {
            return (Vec::new(), Wakes::new());
        };
        let before = self.namespace_keys();
        let problems = self.configuration.learn(data);
        let wakes = if before == self.namespace_keys() {
            Wakes::new()
        } else {
            self.wakes(|_, it| it.are_unknown || !it.namespaces.is_empty())
        };
        (problems, wakes)
    }

    /// A connector for which so many older policies count that this one does not.
    #[must_use]
    pub fn crowded(&self, namespace: &str, policy: &AccessPolicy) -> Option<String> {
        let (age, permission) = (PolicyAge::of(policy), policy.spec.permission);
        let counts = |it: &&Arc<AccessPolicy>| {
            it.spec.check_granted_permission.is_some()
                && it.spec.permission == permission
                && PolicyAge::of(it) < age
        };
        let policies = self.in_namespace(namespace);
        let older: Vec<&Arc<AccessPolicy>> = policies.filter(counts).collect();
        if older.len() < MOST_PER_CONNECTOR {
            return None;
        }
        let mut connectors = self.connectors.get(namespace)?.iter();
        let crowded = connectors.find(|(connector, labels)| {
            let wanted = WantedConnector {
                connector: connector.as_str(),
                labels,
                permission,
            };
            let selects = |it: &AccessPolicy| policy_match::selects(&it.spec, wanted);
            let rivals = older.iter().filter(|it| selects(it));
            selects(policy) && rivals.take(MOST_PER_CONNECTOR).count() == MOST_PER_CONNECTOR
        });
        crowded.map(|(connector, _)| connector.clone())
    }

    /// The policies of a namespace that can be read and are not being deleted.
    fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<AccessPolicy>> {
        let policies = self.policies.range(Name::new(namespace, "")..);
        let policies = policies.take_while(move |(name, _)| name.namespace == namespace);
        let there = policies.filter(|(_, (cached, _))| !cached.deleting);
        there.filter_map(|(_, (cached, _))| cached.policy())
    }

    /// The managed objects of a job.
    #[must_use]
    pub fn managed(&self, job: &Job) -> Cow<'_, ManagedByName> {
        static NONE: ManagedByName = ManagedByName::new();
        let cached = self.managed.get(job).unwrap_or(&NONE);
        self.own.over(job, cached)
    }

    /// The status of the policy of a job.
    #[must_use]
    pub fn status_of(&self, job: &Job) -> Option<&AccessPolicyStatus> {
        let cached = || self.policy_of(job)?.1.policy()?.status.as_ref();
        self.own.status(job).or_else(cached)
    }

    /// A look at the job wrote this object.
    pub fn wrote(&mut self, job: &Job, object: OwnObject, now: Instant) {
        let (kind, name) = &object.key;
        let name = Name::new(&job.namespace, name);
        // An object that is managed for another job was changed by another client.
        let of = self.job_of.get(&(*kind, name));
        let cached = of.and_then(|it| self.managed.get(it)?.get(&object.key));
        let cached = cached.map(|it| it.version.as_str());
        self.own.put_object(job, object, cached, now);
    }

    /// A look at the job wrote the status of its policy.
    pub fn told(
        &mut self,
        job: &Job,
        versions: OwnVersions,
        status: AccessPolicyStatus,
        now: Instant,
    ) {
        let name = self.by_uid.get(job);
        let cached = name.and_then(|it| self.policies.get(it)?.0.version());
        self.own.put_status(job, (versions, status), cached, now);
    }

    /// Notified of each write that no watch has shown yet.
    #[must_use]
    pub fn unseen_writes(&self) -> Arc<Notify> {
        self.own.put()
    }

    /// When the first of these writes is late; none without any.
    #[must_use]
    pub fn first_late(&self) -> Option<Instant> {
        self.own.first_late()
    }

    /// No watch showed these writes in time, so the caches count alone.
    pub fn forget_late(&mut self, now: Instant) -> Wakes {
        let late: BTreeSet<Job> = self.own.forget_late(now).into_iter().collect();
        late.into_iter().map(|job| self.wake(job)).collect()
    }

    /// How many policies there are.
    #[must_use]
    pub fn policies(&self) -> usize {
        self.policies.len()
    }

    /// The entries of each map. A new field must be counted here, or be listed as one without entries.
    #[cfg(test)]
    pub(crate) fn census(&self) -> Vec<usize> {
        let Self {
            most_selected: _,
            configuration: _,
            is_configured: _,
            policies,
            budget,
            by_uid,
            connectors,
            namespaces,
            accounts,
            managed,
            job_of,
            own,
        } = self;
        vec![
            policies.len(),
            usize::from(budget.total() > 0),
            by_uid.len(),
            connectors.len(),
            namespaces.len(),
            accounts.len(),
            managed.len(),
            job_of.len(),
            own.census(),
        ]
    }

    /// All jobs.
    #[must_use]
    pub fn all(&self) -> Wakes {
        let jobs: BTreeSet<&Job> = self.by_uid.keys().chain(self.managed.keys()).collect();
        jobs.into_iter().map(|job| self.wake(job.clone())).collect()
    }

    /// A job without managed objects has no permission to lose.
    fn wake(&self, job: Job) -> (Job, Urgency) {
        let urgency = if self.managed.contains_key(&job) || self.own.has_objects(&job) {
            Urgency::Urgent
        } else {
            Urgency::Normal
        };
        (job, urgency)
    }

    /// A policy exists, has changed, or is gone.
    pub fn policy(&mut self, name: &Name, policy: Option<PolicyCached>) -> Wakes {
        let job = |uid: &str| Job {
            namespace: name.namespace.clone(),
            uid: uid.to_owned(),
        };
        let mut jobs = BTreeSet::new();
        let mut own = None;
        let before = match policy {
            Some(policy) => {
                let of = job(&policy.uid);
                own = self.own.status_shown(&of, policy.version()).then_some(of);
                let selectors = policy.policy().map(|it| Selectors::of(&it.spec));
                let selectors = selectors.unwrap_or_default();
                jobs.insert(job(&policy.uid));
                self.budget.add(&name.namespace, policy.bytes());
                self.by_uid.insert(job(&policy.uid), name.clone());
                self.policies.insert(name.clone(), (policy, selectors))
            }
            None => self.policies.remove(name),
        };
        if let Some((before, _)) = before {
            self.budget.release(&name.namespace, before.bytes());
            let before = job(&before.uid);
            if !jobs.contains(&before) {
                self.own.status_shown(&before, None);
                self.by_uid.remove(&before);
                jobs.insert(before);
            }
        }
        if let Some(own) = own {
            // The job knows what it wrote.
            jobs.remove(&own);
        }
        while let Some(over) = self.budget.exceeded(&name.namespace) {
            self.overflow(&over);
        }
        jobs.into_iter().map(|job| self.wake(job)).collect()
    }

    /// Forgets the content of the policies of a namespace.
    fn overflow(&mut self, namespace: &str) {
        self.budget.release(namespace, self.budget.of(namespace));
        let policies = self.policies.range_mut(Name::new(namespace, "")..);
        let policies = policies.take_while(|(name, _)| name.namespace == namespace);
        for (_, (policy, selectors)) in policies {
            if let CachedPolicy::Kept(..) = policy.said {
                policy.said = CachedPolicy::NotKept;
                *selectors = Selectors {
                    are_unknown: true,
                    ..Selectors::default()
                };
            }
        }
    }

    /// The labels of a connector.
    pub fn connector(&mut self, name: &Name, labels: Option<Labels>) -> Wakes {
        match put(&mut self.connectors, name, labels) {
            None => Wakes::new(),
            Some(_) => self.wakes(|it, _| it.namespace == name.namespace),
        }
    }

    /// The labels of a namespace.
    pub fn namespace(&mut self, name: &str, labels: Option<Labels>) -> Wakes {
        let before = self.namespaces.remove(name);
        if let Some(labels) = labels {
            self.namespaces.insert(name.to_owned(), labels);
        }
        let after = self.namespaces.get(name);
        self.wakes(|_, it| it.are_unknown || differs(&it.namespaces, before.as_ref(), after))
    }

    /// The labels of a service account.
    pub fn account(&mut self, name: &Name, labels: Option<Labels>) -> Wakes {
        let Some(before) = put(&mut self.accounts, name, labels) else {
            return Wakes::new();
        };
        let of_namespace = self.accounts.get(&name.namespace);
        let after = of_namespace.and_then(|it| it.get(&name.name));
        self.wakes(|_, it| it.are_unknown || differs(&it.accounts, before.as_ref(), after))
    }

    /// A managed object exists, has changed, or is gone.
    pub fn object(
        &mut self,
        kind: ManagedKind,
        name: &Name,
        object: Option<(&str, ManagedCached)>,
    ) -> Wakes {
        let mut jobs = BTreeSet::new();
        let job_in = object.as_ref().map(|(uid, _)| Job {
            namespace: name.namespace.clone(),
            uid: (*uid).to_owned(),
        });
        let shown = job_in.as_ref().zip(object.as_ref());
        let shown = shown.map(|(job, (_, object))| (job, object.version.as_str()));
        let own = self.own.object_shown(kind, name, shown);
        let key = (kind, name.clone());
        if let Some(job) = self.job_of.remove(&key) {
            if let Some(managed) = self.managed.get_mut(&job) {
                managed.remove(&(kind, name.name.clone()));
                if managed.is_empty() {
                    self.managed.remove(&job);
                }
            }
            jobs.insert(job);
        }
        if let Some((job, (_, object))) = job_in.zip(object) {
            self.job_of.insert(key, job.clone());
            let managed = self.managed.entry(job.clone()).or_default();
            managed.insert((kind, name.name.clone()), object);
            jobs.insert(job);
        }
        match own {
            OwnEvent::None => {}
            OwnEvent::Shows(job) => drop(jobs.remove(&job)),
            OwnEvent::Ends(job) => drop(jobs.insert(job)),
        }
        jobs.into_iter().map(|job| self.wake(job)).collect()
    }

    fn wakes(&self, concerned: impl Fn(&Name, &Selectors) -> bool) -> Wakes {
        let policies = self.policies.iter();
        let policies = policies.filter(|(name, (_, selectors))| concerned(name, selectors));
        policies
            .map(|(name, (policy, _))| {
                self.wake(Job {
                    namespace: name.namespace.clone(),
                    uid: policy.uid.clone(),
                })
            })
            .collect()
    }
}

/// Whether one of the selectors finds the one and not the other.
fn differs(selectors: &[LabelSelector], before: Option<&Labels>, after: Option<&Labels>) -> bool {
    let finds = |selector: &LabelSelector, labels: Option<&Labels>| {
        labels.is_some_and(|labels| selector.matches(labels))
    };
    let mut selectors = selectors.iter();
    selectors.any(|it| finds(it, before) != finds(it, after))
}

/// The previous value, if it differs.
#[expect(
    clippy::option_option,
    reason = "nothing changed, or nothing was there before"
)]
fn put(
    map: &mut BTreeMap<String, BTreeMap<String, Labels>>,
    name: &Name,
    labels: Option<Labels>,
) -> Option<Option<Labels>> {
    let of_namespace = map.entry(name.namespace.clone()).or_default();
    let after = labels.clone();
    let before = match labels {
        Some(labels) => of_namespace.insert(name.name.clone(), labels),
        None => of_namespace.remove(&name.name),
    };
    if of_namespace.is_empty() {
        map.remove(&name.namespace);
    }
    (before != after).then_some(before)
}

#[cfg(test)]
mod tests;
