//! The parts of policies that explanations need, within a share for each namespace and one for all.
//!
//! For a namespace above its share only the existence of policies is known, and not their content. Whether one could
//! accept a subject is then unknown, which is never a no.

use std::collections::{BTreeMap, HashMap};

use connectors_api::check_selector::json_bytes;
use connectors_api::policy_match::Requesters;
use connectors_api::{AccessPolicy, AccessPolicySpec};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use service_kit::byte_budget::ByteBudget;

/// The limit of the kept policies of one namespace, in bytes of their specs without modules.
const MOST_OF_NAMESPACE: usize = 4 * 1024 * 1024;
/// The limit of all kept policies.
const MOST_OF_ALL: usize = 32 * 1024 * 1024;

/// The parts of a policy that explanations need.
#[derive(Debug, PartialEq)]
pub struct ExplainedPolicy {
    /// Its UID.
    pub uid: String,
    /// Whether it is being deleted.
    pub is_going: bool,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its content.
    pub said: PolicyText,
    /// The requesters under its checks, if it has any and its content is kept.
    pub requesters: Option<Requesters>,
}

/// The content of a policy.
#[derive(Debug, PartialEq)]
pub enum PolicyText {
    /// Its spec, without modules.
    Kept(Box<AccessPolicySpec>),
    /// The policies of its namespace exceed the limit.
    NotKept,
    /// Why it cannot be read.
    Unreadable(String),
}

impl ExplainedPolicy {
    /// Its content, if that is known.
    #[must_use]
    pub fn spec(&self) -> Option<&AccessPolicySpec> {
        match &self.said {
            PolicyText::Kept(spec) => Some(spec),
            PolicyText::NotKept | PolicyText::Unreadable(_) => None,
        }
    }

    fn forget(&mut self) {
        if matches!(self.said, PolicyText::Kept(_)) {
            self.said = PolicyText::NotKept;
            self.requesters = None;
        }
    }

    fn bytes(&self) -> usize {
        self.spec().map_or(0, json_bytes)
    }
}

/// The policies of all namespaces.
#[derive(Debug)]
pub(super) struct ExplainedPolicies {
    /// By namespace, then by name.
    all: HashMap<String, BTreeMap<String, ExplainedPolicy>>,
    budget: ByteBudget,
}

impl Default for ExplainedPolicies {
    fn default() -> Self {
        Self {
            all: HashMap::new(),
            budget: ByteBudget::new(MOST_OF_NAMESPACE, MOST_OF_ALL),
        }
    }
}

impl ExplainedPolicies {
    /// Those of a namespace, by name.
    pub(super) fn of(&self, namespace: &str) -> Option<&BTreeMap<String, ExplainedPolicy>> {
        self.all.get(namespace)
    }

    /// True when its content is new, as far as that is known.
    pub(super) fn put(&mut self, policy: AccessPolicy) -> bool {
        let AccessPolicy {
            metadata, mut spec, ..
        } = policy;
        // Modules are most of a policy, and no explanation shows them.
        if let Some(granted) = &mut spec.check_granted_permission {
            for check in &mut granted.spec.checks {
                check.state = None;
            }
        }
        self.insert(metadata, PolicyText::Kept(Box::new(spec)))
    }

    /// The same for a policy that cannot be read.
    pub(super) fn put_unreadable(&mut self, metadata: ObjectMeta, problem: String) -> bool {
        self.insert(metadata, PolicyText::Unreadable(problem))
    }

    fn insert(&mut self, metadata: ObjectMeta, said: PolicyText) -> bool {
        let (Some(namespace), Some(name)) = (metadata.namespace, metadata.name) else {
            return false;
        };
        let mut policy = ExplainedPolicy {
            uid: metadata.uid.unwrap_or_default(),
            is_going: metadata.deletion_timestamp.is_some(),
            created: metadata.creation_timestamp.map(|time| time.0),
            requesters: None,
            said,
        };
        let checked = policy.spec();
        let checked = checked.and_then(|spec| spec.check_granted_permission.as_ref());
        policy.requesters = checked.map(|checked| Requesters::of(checked, &namespace));
        let policies = self.all.entry(namespace.clone()).or_default();
        // Most events about a policy concern its status.
        if policies.get(&name) == Some(&policy) {
            return false;
        }
        self.budget.add(&namespace, policy.bytes());
        if let Some(before) = policies.insert(name, policy) {
            self.budget.release(&namespace, before.bytes());
        }
        while let Some(over) = self.budget.exceeded(&namespace) {
            self.budget.release(&over, self.budget.of(&over));
            let policies = self.all.get_mut(&over).into_iter();
            policies
                .flat_map(BTreeMap::values_mut)
                .for_each(ExplainedPolicy::forget);
        }
        true
    }

    /// A policy is gone.
    pub(super) fn remove(&mut self, metadata: ObjectMeta) {
        let namespace = metadata.namespace.unwrap_or_default();
        if let Some(policies) = self.all.get_mut(&namespace) {
            let gone = policies.remove(&metadata.name.unwrap_or_default());
            self.budget
                .release(&namespace, gone.map_or(0, |it| it.bytes()));
            if policies.is_empty() {
                self.all.remove(&namespace);
            }
        }
    }

    /// How many entries there are, and the bytes that are kept of them.
    #[cfg(test)]
    pub(super) fn census(&self) -> [usize; 2] {
        let of_namespaces = self.all.values().map(|it| it.len() + 1);
        [of_namespaces.sum(), self.budget.total()]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::policy;

    /// A policy of a namespace that keeps about 60 KiB beside its module.
    fn long(namespace: &str, name: &str) -> AccessPolicy {
        let mut policy = serde_json::to_value(policy(name)).unwrap();
        policy["metadata"]["namespace"] = namespace.into();
        let names: Vec<_> = (0..240).map(|it| format!("{it:0>250}")).collect();
        policy["spec"]["connector"] = json!({"names": names});
        serde_json::from_value(policy).unwrap()
    }

    fn fill(policies: &mut ExplainedPolicies, namespace: &str, count: usize) {
        for number in 0..count {
            policies.put(long(namespace, &format!("p{number}")));
        }
    }

    fn is_kept(policies: &ExplainedPolicies, namespace: &str) -> bool {
        let all = policies.of(namespace).unwrap();
        all.values().all(|it| it.spec().is_some())
    }

    fn most() -> usize {
        MOST_OF_NAMESPACE / json_bytes(&long("n", "p").spec)
    }

    #[test]
    fn of_a_namespace_over_its_share_no_policy_is_kept_and_of_others_all_are() {
        let mut policies = ExplainedPolicies::default();
        fill(&mut policies, "quiet", 1);
        fill(&mut policies, "loud", most());
        assert!(is_kept(&policies, "loud"));
        policies.put(long("loud", "one-more"));
        let loud = policies.of("loud").unwrap();
        assert_eq!(loud.len(), most() + 1);
        assert!(
            loud.values()
                .all(|it| it.said == PolicyText::NotKept && it.requesters.is_none())
        );
        assert!(is_kept(&policies, "quiet"));
        // A policy that is written again is known again if there is room.
        assert!(policies.put(long("loud", "p0")));
        assert!(policies.of("loud").unwrap()["p0"].spec().is_some());
    }

    #[test]
    fn over_the_total_the_namespace_that_has_most_is_not_kept() {
        let mut policies = ExplainedPolicies::default();
        let namespaces = MOST_OF_ALL / MOST_OF_NAMESPACE;
        fill(&mut policies, "heavy", most());
        for number in 0..namespaces {
            fill(&mut policies, &format!("n{number}"), most() - 1);
        }
        assert!(!is_kept(&policies, "heavy"));
        assert!((0..namespaces).all(|it| is_kept(&policies, &format!("n{it}"))));
        assert!(policies.census()[1] <= MOST_OF_ALL);
    }

    #[test]
    fn policies_that_come_and_go_leave_nothing() {
        let mut policies = ExplainedPolicies::default();
        for _ in 0..2 {
            fill(&mut policies, "loud", most() + 1);
            policies.put(long("quiet", "p"));
            policies.put_unreadable(long("quiet", "p").metadata, "why".to_owned());
            policies.remove(long("quiet", "p").metadata);
            for number in 0..=most() {
                policies.remove(long("loud", &format!("p{number}")).metadata);
            }
            assert_eq!(policies.census(), [0, 0]);
        }
    }
}
