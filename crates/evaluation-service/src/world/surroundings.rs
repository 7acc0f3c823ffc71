//! What no decision needs and every explanation does: policies, connectors, labels of namespaces.
//!
//! Each change says whether it makes a difference to what policies say about connectors.

use std::collections::{BTreeMap, HashMap};

use connectors_api::policy_match::Requesters;
use connectors_api::{AccessPolicy, AccessPolicySpec};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub(crate) type Labels = BTreeMap<String, String>;

/// A policy as far as explanations need it.
#[derive(Debug, PartialEq)]
pub struct Policy {
    /// Its UID.
    pub uid: String,
    /// Whether it is on its way out.
    pub is_going: bool,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// What it says, or why that cannot be read.
    pub spec: Result<AccessPolicySpec, String>,
    /// Who may ask under its checks, if it has any.
    pub requesters: Option<Requesters>,
}

/// The surroundings of connectors.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// By namespace, then by name.
    policies: HashMap<String, BTreeMap<String, Policy>>,
    connectors: Labelled,
    namespaces: Labelled,
}

/// Labels by namespace and name; the namespace of a namespace is empty.
#[derive(Debug, Default)]
struct Labelled(HashMap<(String, String), Labels>);

impl Labelled {
    /// True when it is new, or its labels are.
    fn put(&mut self, metadata: ObjectMeta) -> bool {
        let Some(name) = metadata.name else {
            return false;
        };
        let key = (metadata.namespace.unwrap_or_default(), name);
        let labels = metadata.labels.unwrap_or_default();
        let is_same = self.0.get(&key) == Some(&labels);
        if !is_same {
            self.0.insert(key, labels);
        }
        !is_same
    }

    fn remove(&mut self, metadata: ObjectMeta) {
        let name = metadata.name.unwrap_or_default();
        self.0
            .remove(&(metadata.namespace.unwrap_or_default(), name));
    }

    fn reset(&mut self, all: impl IntoIterator<Item = ObjectMeta>) {
        self.0.clear();
        for metadata in all {
            self.put(metadata);
        }
    }

    fn get(&self, namespace: &str, name: &str) -> Option<&Labels> {
        self.0.get(&(namespace.to_owned(), name.to_owned()))
    }
}

impl Surroundings {
    /// The policies of a namespace, by name.
    pub fn policies<'a>(
        &'a self,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a String, &'a Policy)> + use<'a> {
        self.policies.get(namespace).into_iter().flatten()
    }

    /// The labels of a connector, if there is one.
    #[must_use]
    pub fn connector(&self, namespace: &str, name: &str) -> Option<&Labels> {
        self.connectors.get(namespace, name)
    }

    /// The labels of a namespace, if there is one.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get("", name)
    }

    /// How many entries each map has.
    #[cfg(test)]
    pub(super) fn census(&self) -> [usize; 3] {
        let Self {
            policies,
            connectors: Labelled(connectors),
            namespaces: Labelled(namespaces),
        } = self;
        let of_namespaces = policies.values().map(|it| it.len() + 1);
        [of_namespaces.sum(), connectors.len(), namespaces.len()]
    }

    /// True when it says something new.
    pub(crate) fn put_policy(&mut self, policy: AccessPolicy) -> bool {
        let AccessPolicy {
            metadata, mut spec, ..
        } = policy;
        // Modules are most of a policy, and no explanation shows them.
        if let Some(granted) = &mut spec.check_granted_permission {
            for check in &mut granted.spec.checks {
                check.state = None;
            }
        }
        self.put(metadata, Ok(spec))
    }

    pub(crate) fn put_unreadable_policy(&mut self, metadata: ObjectMeta, problem: String) -> bool {
        self.put(metadata, Err(problem))
    }

    fn put(&mut self, metadata: ObjectMeta, spec: Result<AccessPolicySpec, String>) -> bool {
        let (Some(namespace), Some(name)) = (metadata.namespace, metadata.name) else {
            return false;
        };
        let checked = spec.as_ref().ok();
        let checked = checked.and_then(|spec| spec.check_granted_permission.as_ref());
        let policy = Policy {
            uid: metadata.uid.unwrap_or_default(),
            is_going: metadata.deletion_timestamp.is_some(),
            created: metadata.creation_timestamp.map(|time| time.0),
            requesters: checked.map(|checked| Requesters::of(checked, &namespace)),
            spec,
        };
        let policies = self.policies.entry(namespace).or_default();
        // Most news about a policy is about its status.
        let is_same = policies.get(&name) == Some(&policy);
        if !is_same {
            policies.insert(name, policy);
        }
        !is_same
    }

    pub(crate) fn remove_policy(&mut self, metadata: ObjectMeta) {
        let namespace = metadata.namespace.unwrap_or_default();
        if let Some(policies) = self.policies.get_mut(&namespace) {
            policies.remove(&metadata.name.unwrap_or_default());
            if policies.is_empty() {
                self.policies.remove(&namespace);
            }
        }
    }

    pub(crate) fn reset_policies(&mut self, all: Vec<AccessPolicy>) {
        self.policies.clear();
        for policy in all {
            self.put_policy(policy);
        }
    }

    /// True when it is new, or its labels are.
    pub(crate) fn put_connector(&mut self, metadata: ObjectMeta) -> bool {
        self.connectors.put(metadata)
    }

    pub(crate) fn remove_connector(&mut self, metadata: ObjectMeta) {
        self.connectors.remove(metadata);
    }

    pub(crate) fn reset_connectors(&mut self, all: impl IntoIterator<Item = ObjectMeta>) {
        self.connectors.reset(all);
    }

    pub(crate) fn put_namespace(&mut self, metadata: ObjectMeta) {
        self.namespaces.put(metadata);
    }

    pub(crate) fn remove_namespace(&mut self, metadata: ObjectMeta) {
        self.namespaces.remove(metadata);
    }

    pub(crate) fn reset_namespaces(&mut self, all: impl IntoIterator<Item = ObjectMeta>) {
        self.namespaces.reset(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::policy;

    fn named(namespace: Option<&str>, name: &str, label: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
            labels: Some([("a".to_owned(), label.to_owned())].into()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn labels_are_those_of_the_last_event_and_a_list_is_everything() {
        let mut around = Surroundings::default();
        around.put_connector(named(Some("tools"), "harbor", "1"));
        around.put_connector(named(Some("tools"), "harbor", "2"));
        around.put_namespace(named(None, "tools", "3"));
        assert_eq!(around.connector("tools", "harbor").unwrap()["a"], "2");
        assert_eq!(around.namespace("tools").unwrap()["a"], "3");
        assert_eq!(around.connector("other", "harbor"), None);
        around.reset_connectors([named(Some("tools"), "gitlab", "4")]);
        assert_eq!(around.connector("tools", "harbor"), None);
        around.remove_connector(named(Some("tools"), "gitlab", ""));
        around.remove_namespace(named(None, "tools", ""));
        assert_eq!(around.connector("tools", "gitlab"), None);
        assert_eq!(around.namespace("tools"), None);
    }

    #[test]
    fn news_that_says_nothing_new_is_none() {
        let mut around = Surroundings::default();
        assert!(around.put_connector(named(Some("tools"), "harbor", "1")));
        assert!(!around.put_connector(named(Some("tools"), "harbor", "1")));
        assert!(around.put_connector(named(Some("tools"), "harbor", "2")));
        assert!(around.put_policy(policy("p")));
        let mut written = policy("p");
        written.metadata.resource_version = Some("8".to_owned());
        assert!(!around.put_policy(written.clone()));
        written.spec.connector.names = Some(vec!["harbor".to_owned()]);
        assert!(around.put_policy(written.clone()));
        written.metadata.deletion_timestamp =
            serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
        assert!(around.put_policy(written.clone()));
        assert!(around.put_unreadable_policy(written.metadata, "why".to_owned()));
    }

    #[test]
    fn policies_are_kept_without_their_modules_and_unreadable_ones_with_their_problem() {
        let mut around = Surroundings::default();
        let checked = policy("p");
        assert!(format!("{:?}", checked.spec).contains("package approval"));
        around.put_policy(checked);
        let kept = format!("{:?}", around.policies("tools").collect::<Vec<_>>());
        assert!(kept.contains("ConfigMap") && !kept.contains("package approval"));
        let odd = named(Some("tools"), "odd", "");
        around.put_unreadable_policy(odd.clone(), "why".to_owned());
        let names: Vec<_> = around.policies("tools").map(|(name, _)| name).collect();
        assert_eq!(names, ["odd", "p"]);
        around.remove_policy(odd);
        around.reset_policies(vec![policy("q")]);
        let names: Vec<_> = around.policies("tools").map(|(name, _)| name).collect();
        assert_eq!(names, ["q"]);
        around.remove_policy(policy("q").metadata);
        assert!(around.policies.is_empty());
    }
}
