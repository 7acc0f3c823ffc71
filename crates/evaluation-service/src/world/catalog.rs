//! Caches that only explanations need: policies, connectors, labels of namespaces.
//!
//! Each change reports whether it affects the results of policies for connectors.

use std::collections::{BTreeMap, HashMap};

use connectors_api::AccessPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::policies::{ExplainedPolicies, ExplainedPolicy};

pub(crate) type Labels = BTreeMap<String, String>;

/// Policies, connectors and namespaces.
#[derive(Debug, Default)]
pub struct Catalog {
    policies: ExplainedPolicies,
    connectors: LabelCatalog,
    namespaces: LabelCatalog,
}

/// Labels by namespace and name; the namespace of a namespace is empty.
#[derive(Debug, Default)]
struct LabelCatalog(HashMap<(String, String), Labels>);

impl LabelCatalog {
    /// True when the object or its labels are new.
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

impl Catalog {
    /// The policies of a namespace, by name.
    pub fn policies<'a>(
        &'a self,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a String, &'a ExplainedPolicy)> + use<'a> {
        self.policies.of(namespace).into_iter().flatten()
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
    pub(super) fn census(&self) -> [usize; 4] {
        let Self {
            policies,
            connectors: LabelCatalog(connectors),
            namespaces: LabelCatalog(namespaces),
        } = self;
        let [policies, bytes] = policies.census();
        [
            policies,
            usize::from(bytes > 0),
            connectors.len(),
            namespaces.len(),
        ]
    }

    /// True when its content is new.
    pub(crate) fn put_policy(&mut self, policy: AccessPolicy) -> bool {
        self.policies.put(policy)
    }

    pub(crate) fn put_unreadable_policy(&mut self, metadata: ObjectMeta, problem: String) -> bool {
        self.policies.put_unreadable(metadata, problem)
    }

    pub(crate) fn remove_policy(&mut self, metadata: ObjectMeta) {
        self.policies.remove(metadata);
    }

    /// The policies of a complete list.
    pub(super) fn reset_policies(&mut self, all: ExplainedPolicies) {
        self.policies = all;
    }

    /// True when the object or its labels are new.
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
        let mut around = Catalog::default();
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
        let mut around = Catalog::default();
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
        let mut around = Catalog::default();
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
        let mut listed = ExplainedPolicies::default();
        listed.put(policy("q"));
        around.reset_policies(listed);
        let names: Vec<_> = around.policies("tools").map(|(name, _)| name).collect();
        assert_eq!(names, ["q"]);
        around.remove_policy(policy("q").metadata);
        assert_eq!(around.census(), [0; 4]);
    }
}
