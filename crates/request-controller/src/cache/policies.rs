//! The policies in the cache, limited by a share for each namespace and by a total.
//!
//! Of the policies of a namespace above its share, only their names and the kinds of their checks are kept. Their
//! specs are read live until they fit again. Concurrent reconciliations share one parsed copy.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use connectors_api::{
    AccessPolicy, access_policy::ObjectKind, check_selector::CompiledPolicy, judge::proof_needed,
    lineage::Lineage,
};
use kube::ResourceExt;
use service_kit::{byte_budget::ByteBudget, watches::Unreadable};

use crate::api::Name;

/// The limit of bytes in the specs of one namespace's policies.
const MOST_OF_NAMESPACE: usize = 4 * 1024 * 1024;
/// The limit of bytes in the specs of all policies.
const MOST_OF_ALL: usize = 32 * 1024 * 1024;

/// A policy as the watch delivers it.
#[derive(Clone, Debug)]
pub struct PolicyCached {
    /// Its UID.
    pub uid: String,
    /// It is being deleted.
    pub deleting: bool,
    /// The policy with its selectors parsed, or the reason why it is unreadable.
    pub policy: Result<Arc<CompiledPolicy>, Unreadable>,
}

/// The policies of all namespaces.
#[derive(Debug)]
pub struct PolicyCache {
    namespaces: BTreeMap<String, OfNamespace>,
    /// The bytes of all cached specs.
    budget: ByteBudget,
}

impl Default for PolicyCache {
    fn default() -> Self {
        Self {
            namespaces: BTreeMap::new(),
            budget: ByteBudget::new(MOST_OF_NAMESPACE, MOST_OF_ALL),
        }
    }
}

/// The policies of one namespace.
#[derive(Debug, Default)]
struct OfNamespace {
    all: BTreeMap<String, StoredPolicy>,
    /// The bytes of all specs, cached or not.
    weight: usize,
    /// The specs exceed the limit, so none is cached.
    overflowed: bool,
}

#[derive(Debug)]
struct StoredPolicy {
    uid: String,
    deleting: bool,
    content: PolicyContent,
}

#[derive(Debug)]
enum PolicyContent {
    Kept(Arc<CompiledPolicy>),
    NotKept {
        generation: Option<i64>,
        kinds: BTreeSet<ObjectKind>,
        /// The kinds that the proofs of its checks read.
        between: BTreeSet<ObjectKind>,
        weight: usize,
        /// The parsed copy that a running reconciliation has in memory, if any.
        shared: Weak<CompiledPolicy>,
    },
    Unreadable,
}

/// The name of a policy, and the policy, unless it is unreadable.
type PolicyKept = (String, Option<Arc<CompiledPolicy>>);

impl StoredPolicy {
    fn of(cached: PolicyCached) -> Self {
        Self {
            uid: cached.uid,
            deleting: cached.deleting,
            content: cached
                .policy
                .map_or(PolicyContent::Unreadable, PolicyContent::Kept),
        }
    }

    fn weight(&self) -> usize {
        match &self.content {
            PolicyContent::Kept(policy) => policy.bytes(),
            PolicyContent::NotKept { weight, .. } => *weight,
            PolicyContent::Unreadable => 0,
        }
    }

    fn kinds(&self) -> impl Iterator<Item = &ObjectKind> {
        let (kept, known) = match &self.content {
            PolicyContent::Kept(policy) => (Some(policy), None),
            PolicyContent::NotKept { kinds, .. } => (None, Some(kinds)),
            PolicyContent::Unreadable => (None, None),
        };
        let kept = kept.into_iter().flat_map(|it| kinds_of(&it.policy));
        kept.chain(known.into_iter().flatten())
    }

    fn kinds_between(&self) -> BTreeSet<ObjectKind> {
        match &self.content {
            PolicyContent::Kept(policy) => kinds_between(&policy.policy).collect(),
            PolicyContent::NotKept { between, .. } => between.clone(),
            PolicyContent::Unreadable => BTreeSet::new(),
        }
    }

    /// True when a new version of the policy says the same. A version from `World::parsed` then shares the cached
    /// copy.
    fn says(&self, other: &PolicyCached) -> bool {
        let is_same = match (&self.content, &other.policy) {
            (PolicyContent::Kept(one), Ok(other)) => Arc::ptr_eq(one, other),
            (PolicyContent::NotKept { generation, .. }, Ok(other)) => {
                *generation == other.policy.metadata.generation
            }
            (
                PolicyContent::Kept(_) | PolicyContent::NotKept { .. } | PolicyContent::Unreadable,
                _,
            ) => false,
        };
        is_same && self.uid == other.uid && self.deleting == other.deleting
    }

    /// Drops the spec, except for the kinds of its checks.
    fn forget(&mut self) {
        if let PolicyContent::Kept(policy) = &self.content {
            self.content = PolicyContent::NotKept {
                generation: policy.policy.metadata.generation,
                kinds: kinds_of(&policy.policy).cloned().collect(),
                between: kinds_between(&policy.policy).collect(),
                weight: policy.bytes(),
                shared: Arc::downgrade(policy),
            };
        }
    }
}

/// The kinds of a policy's checks.
fn kinds_of(policy: &AccessPolicy) -> impl Iterator<Item = &ObjectKind> {
    let granted = policy.spec.check_granted_permission.iter();
    let checks = granted.flat_map(|it| &it.spec.checks);
    checks.map(|check| &check.selector.object_ref)
}

/// The kinds between pods and approvals that the proofs of a policy's checks read.
fn kinds_between(policy: &AccessPolicy) -> impl Iterator<Item = ObjectKind> {
    let granted = policy.spec.check_granted_permission.iter();
    let checks = granted.flat_map(|it| &it.spec.checks);
    checks.flat_map(|check| {
        let lineage = proof_needed(check).lineage();
        lineage.into_iter().flat_map(<dyn Lineage>::object_kinds)
    })
}

impl PolicyCache {
    /// True when a namespace has policies.
    #[must_use]
    pub fn are_in(&self, namespace: &str) -> bool {
        self.namespaces.contains_key(namespace)
    }

    /// The number of policies of a namespace.
    #[must_use]
    pub fn count(&self, namespace: &str) -> usize {
        self.namespaces.get(namespace).map_or(0, |it| it.all.len())
    }

    /// The names of a namespace's policies, if there are any, and at most so many.
    #[must_use]
    pub fn few(&self, namespace: &str, most: usize) -> Option<Vec<Name>> {
        let all = &self.namespaces.get(namespace)?.all;
        let names = all.keys().map(|it| Name::new(namespace, it));
        (all.len() <= most).then(|| names.collect())
    }

    /// The policies of a namespace that are not being deleted. None if their specs are not cached.
    #[must_use]
    pub fn of(&self, namespace: &str) -> Option<Vec<PolicyKept>> {
        let stored = self.namespaces.get(namespace).into_iter();
        let stored = stored.flat_map(|it| it.all.values());
        stored
            .filter(|it| !it.deleting)
            .map(|it| match &it.content {
                PolicyContent::Kept(policy) => Some((it.uid.clone(), Some(Arc::clone(policy)))),
                PolicyContent::NotKept { .. } => None,
                PolicyContent::Unreadable => Some((it.uid.clone(), None)),
            })
            .collect()
    }

    /// The last parsed version of a policy, if it is cached, or if a running reconciliation has it in memory.
    #[must_use]
    pub fn compiled(&self, name: &Name) -> Option<Arc<CompiledPolicy>> {
        match &self.get(name)?.content {
            PolicyContent::Kept(policy) => Some(Arc::clone(policy)),
            PolicyContent::NotKept { shared, .. } => shared.upgrade(),
            PolicyContent::Unreadable => None,
        }
    }

    /// True when a policy is known but not cached, so that reconciliations should share its parsed copy.
    #[must_use]
    pub fn is_left_out(&self, name: &Name) -> bool {
        let stored = self.get(name);
        stored.is_some_and(|it| matches!(it.content, PolicyContent::NotKept { .. }))
    }

    /// Shares the parsed copy of a policy that is not cached, as long as any reconciliation holds it.
    pub fn share(&mut self, name: &Name, read: &Arc<CompiledPolicy>) {
        let place = self.namespaces.get_mut(&name.namespace);
        let stored = place.and_then(|it| it.all.get_mut(&name.name));
        if let Some(PolicyContent::NotKept { shared, .. }) = stored.map(|it| &mut it.content) {
            *shared = Arc::downgrade(read);
        }
    }

    fn get(&self, name: &Name) -> Option<&StoredPolicy> {
        self.namespaces.get(&name.namespace)?.all.get(&name.name)
    }

    /// The kinds of the checks of a namespace's policies.
    pub fn kinds_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKind> {
        let stored = self.namespaces.get(namespace).into_iter();
        stored
            .flat_map(|it| it.all.values())
            .flat_map(StoredPolicy::kinds)
    }

    /// The kinds of the checks of all policies.
    pub fn kinds(&self) -> impl Iterator<Item = &ObjectKind> {
        let stored = self.namespaces.values().flat_map(|it| it.all.values());
        stored.flat_map(StoredPolicy::kinds)
    }

    /// The kinds that the proofs of all policies' checks read.
    pub fn kinds_between(&self) -> impl Iterator<Item = ObjectKind> {
        let stored = self.namespaces.values().flat_map(|it| it.all.values());
        stored.flat_map(StoredPolicy::kinds_between)
    }

    /// True when a new version of a policy says the same as the known one.
    #[must_use]
    pub fn say(&self, name: &Name, policy: &PolicyCached) -> bool {
        self.get(name).is_some_and(|it| it.says(policy))
    }

    /// A policy was added, changed or deleted. Returns the UID of the one that was there before.
    pub fn put(&mut self, name: &Name, policy: Option<PolicyCached>) -> Option<String> {
        let before = self.replace(name, policy.map(StoredPolicy::of));
        self.bound(&name.namespace);
        before.map(|it| it.uid)
    }

    /// Takes the policies of a namespace that were read live, as far as there is room for them again.
    pub fn refill<'a>(
        &mut self,
        namespace: &str,
        read: impl IntoIterator<Item = &'a Arc<CompiledPolicy>>,
    ) {
        self.bound(namespace);
        if self
            .namespaces
            .get(namespace)
            .is_none_or(|it| it.overflowed)
        {
            return;
        }
        for policy in read {
            let name = Name::new(namespace, &policy.policy.name_any());
            let cached = PolicyCached {
                uid: policy.policy.metadata.uid.clone().unwrap_or_default(),
                deleting: policy.policy.metadata.deletion_timestamp.is_some(),
                policy: Ok(Arc::clone(policy)),
            };
            let is_missing = |it: &StoredPolicy| {
                matches!(it.content, PolicyContent::NotKept { .. }) && it.says(&cached)
            };
            if self.get(&name).is_some_and(is_missing) {
                self.put(&name, Some(cached));
            }
        }
    }

    fn replace(&mut self, name: &Name, policy: Option<StoredPolicy>) -> Option<StoredPolicy> {
        let place = self.namespaces.entry(name.namespace.clone()).or_default();
        let kept = |it: &StoredPolicy| match &it.content {
            PolicyContent::Kept(policy) => policy.bytes(),
            PolicyContent::NotKept { .. } | PolicyContent::Unreadable => 0,
        };
        let before = match policy {
            Some(mut policy) => {
                if place.overflowed {
                    policy.forget();
                }
                place.weight += policy.weight();
                self.budget.add(&name.namespace, kept(&policy));
                place.all.insert(name.name.clone(), policy)
            }
            None => place.all.remove(&name.name),
        };
        if let Some(before) = &before {
            place.weight -= before.weight();
            self.budget.release(&name.namespace, kept(before));
        }
        if place.all.is_empty() {
            self.namespaces.remove(&name.namespace);
        }
        before
    }

    /// Enforces the limits after a change in a namespace. A namespace that exceeded its share is cached again only
    /// below half of it, so that one policy that comes and goes does not toggle the state each time.
    fn bound(&mut self, namespace: &str) {
        let room = (MOST_OF_ALL / 2).saturating_sub(self.budget.total());
        if let Some(place) = self.namespaces.get_mut(namespace)
            && place.weight <= room.min(MOST_OF_NAMESPACE / 2)
        {
            place.overflowed = false;
        }
        while let Some(over) = self.budget.exceeded(namespace) {
            self.overflow(&over);
        }
    }

    fn overflow(&mut self, namespace: &str) {
        self.budget.release(namespace, self.budget.of(namespace));
        if let Some(place) = self.namespaces.get_mut(namespace) {
            place.overflowed = true;
            place.all.values_mut().for_each(StoredPolicy::forget);
        }
    }

    /// The number of policies, and the bytes of the cached specs.
    #[cfg(test)]
    pub(crate) fn census(&self) -> [usize; 2] {
        let all = self.namespaces.values().map(|it| it.all.len());
        [all.sum(), self.budget.total()]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cache::World;

    /// A policy with a spec of about `bytes` bytes, and no more.
    fn policy(namespace: &str, name: &str, bytes: usize) -> AccessPolicy {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace, "uid": name, "generation": 1},
            "spec": {"checkGrantedPermission": {"spec": {
                "checks": [{
                    "name": "c", "state": {"rego": "x".repeat(bytes - 600)},
                    "selector": {
                        "labels": {"run": "{.object.metadata.name}"},
                        "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
                    },
                }],
                "permissions": {"roleTemplate": {"rules": []}},
            }}},
        }))
        .unwrap()
    }

    fn cached(policy: AccessPolicy) -> PolicyCached {
        PolicyCached {
            uid: policy.name_any(),
            deleting: false,
            policy: Ok(Arc::new(CompiledPolicy::of(policy, None))),
        }
    }

    #[test]
    fn policies_of_a_namespace_are_named_where_there_are_some_and_few() {
        let mut policies = PolicyCache::default();
        for (count, are_named) in [(0, false), (1, true), (4, true), (5, false)] {
            for number in 0..count {
                let name = Name::new("ci", &format!("p{number}"));
                policies.put(&name, Some(cached(policy("ci", &name.name, 700))));
            }
            policies.put(
                &Name::new("ci2", "q"),
                Some(cached(policy("ci2", "q", 700))),
            );
            let names = (0..count).map(|it| Name::new("ci", &format!("p{it}")));
            let expected = are_named.then(|| names.collect::<Vec<_>>());
            assert_eq!(policies.few("ci", 4), expected, "{count}");
        }
    }

    const LARGE: usize = 60 * 1024;
    /// The number of large policies that exceeds the share of one namespace.
    const TOO_MANY: usize = MOST_OF_NAMESPACE / LARGE + 1;

    fn fill(policies: &mut PolicyCache, namespace: &str, count: usize) {
        for number in 0..count {
            let name = format!("p{number}");
            let policy = cached(policy(namespace, &name, LARGE));
            policies.put(&Name::new(namespace, &name), Some(policy));
        }
    }

    fn is_kept(policies: &PolicyCache, namespace: &str) -> bool {
        policies.of(namespace).is_some()
    }

    #[test]
    fn a_namespace_keeps_its_share_of_policies_and_above_it_their_kinds_alone() {
        let mut policies = PolicyCache::default();
        fill(&mut policies, "quiet", 1);
        fill(&mut policies, "loud", TOO_MANY - 1);
        assert!(is_kept(&policies, "loud"));
        fill(&mut policies, "loud", TOO_MANY);
        assert!(!is_kept(&policies, "loud") && is_kept(&policies, "quiet"));
        let [count, bytes] = policies.census();
        assert_eq!(count, TOO_MANY + 1);
        assert!(bytes < 2 * LARGE, "{bytes}");
        assert_eq!(policies.count("loud"), TOO_MANY);
        let kinds: BTreeSet<_> = policies.kinds_in("loud").cloned().collect();
        assert_eq!(kinds.len(), 1);
        assert_eq!(
            policies.compiled(&Name::new("loud", "p0")).map(|_| ()),
            None
        );
    }

    #[test]
    fn above_the_total_the_namespace_that_has_most_is_not_kept() {
        let mut policies = PolicyCache::default();
        let most = MOST_OF_ALL / LARGE;
        let each = most / 9;
        fill(&mut policies, "heavy", each + 5);
        for number in 0..8 {
            fill(&mut policies, &format!("n{number}"), each);
        }
        assert!(is_kept(&policies, "heavy"));
        fill(&mut policies, "another", 10);
        assert!(!is_kept(&policies, "heavy"));
        assert!((0..8).all(|it| is_kept(&policies, &format!("n{it}"))));
        assert!(is_kept(&policies, "another"));
        assert!(policies.census()[1] <= MOST_OF_ALL);
    }

    #[test]
    fn a_namespace_that_takes_less_again_is_kept_once_its_policies_were_read() {
        let half = MOST_OF_NAMESPACE / 2 / LARGE;
        // The policies of three namespaces leave room below half of the total, and those of five none.
        for (others, left, expected) in [(3, half, true), (3, half + 2, false), (5, half, false)] {
            let mut policies = PolicyCache::default();
            for number in 0..others {
                fill(&mut policies, &format!("n{number}"), TOO_MANY - 1);
            }
            fill(&mut policies, "loud", TOO_MANY);
            for number in left..TOO_MANY {
                policies.put(&Name::new("loud", &format!("p{number}")), None);
            }
            // The specs of the other policies are not known yet.
            assert!(!is_kept(&policies, "loud"));
            let read: Vec<_> = (0..left)
                .map(|it| {
                    cached(policy("loud", &format!("p{it}"), LARGE))
                        .policy
                        .unwrap()
                })
                .collect();
            policies.refill("loud", &read);
            let kept = policies.of("loud").map(|it| it.len());
            assert_eq!(kept, expected.then_some(left), "{others} {left}");
        }
    }

    #[test]
    fn looks_share_a_policy_that_is_not_kept_for_as_long_as_one_has_it() {
        let world = World::default();
        fill(&mut world.write().policies, "loud", TOO_MANY);
        let read = || world.parsed(policy("loud", "p0", LARGE));
        let first = read();
        assert!(Arc::ptr_eq(&first, &read()));
        // After an edit the policy is another version, and only the newer one is shared.
        let mut edited = policy("loud", "p0", LARGE);
        edited.spec.permission = connectors_api::Permission::Proxy;
        let newer = world.parsed(edited.clone());
        assert!(!Arc::ptr_eq(&first, &newer));
        assert!(Arc::ptr_eq(&newer, &world.parsed(edited)));
        drop((first, newer));
        let name = Name::new("loud", "p0");
        assert!(world.read().policies.compiled(&name).is_none());
        // A policy that is unknown, or cached, is not shared.
        drop(world.parsed(policy("loud", "gone", LARGE)));
        assert!(
            !world
                .read()
                .policies
                .is_left_out(&Name::new("loud", "gone"))
        );
    }

    #[test]
    fn what_was_read_is_not_kept_above_the_share_or_in_place_of_something_else() {
        let mut policies = PolicyCache::default();
        fill(&mut policies, "loud", TOO_MANY);
        let read = |policy: AccessPolicy| [cached(policy).policy.unwrap()];
        policies.refill("loud", &read(policy("loud", "p0", LARGE)));
        assert_eq!(policies.census()[1], 0);
        for number in 1..TOO_MANY {
            policies.put(&Name::new("loud", &format!("p{number}")), None);
        }
        let mut other = policy("loud", "p0", LARGE);
        other.metadata.generation = Some(2);
        policies.refill("loud", &read(other));
        assert!(!is_kept(&policies, "loud"), "the watch has not told of it");
        policies.refill("loud", &read(policy("loud", "gone", LARGE)));
        policies.refill("elsewhere", &read(policy("elsewhere", "p", LARGE)));
        assert_eq!(policies.census(), [1, 0]);
        policies.refill("loud", &read(policy("loud", "p0", LARGE)));
        assert!(is_kept(&policies, "loud"));
    }

    #[test]
    fn news_that_say_the_same_are_known_whether_the_policy_is_kept_or_not() {
        let mut policies = PolicyCache::default();
        fill(&mut policies, "loud", TOO_MANY);
        let name = Name::new("loud", "p0");
        let news = |edit: fn(&mut PolicyCached)| {
            let mut news = cached(policy("loud", "p0", LARGE));
            edit(&mut news);
            news
        };
        assert!(policies.say(&name, &news(|_| ())));
        assert!(!policies.say(&name, &news(|it| it.deleting = true)));
        assert!(!policies.say(&name, &news(|it| it.uid = "other".to_owned())));
        let mut edited = policy("loud", "p0", LARGE);
        edited.metadata.generation = Some(2);
        let mut edited = cached(edited);
        edited.uid = "p0".to_owned();
        assert!(!policies.say(&name, &edited));
        assert!(!policies.say(&Name::new("loud", "none"), &news(|_| ())));
    }

    #[test]
    fn policies_that_come_and_go_leave_nothing() {
        let mut policies = PolicyCache::default();
        for _ in 0..2 {
            fill(&mut policies, "loud", TOO_MANY);
            for number in 0..TOO_MANY {
                policies.put(&Name::new("loud", &format!("p{number}")), None);
            }
            assert_eq!(policies.census(), [0, 0]);
            assert!(!policies.are_in("loud") && is_kept(&policies, "loud"));
        }
    }
}
