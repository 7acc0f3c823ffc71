//! RBAC decisions from the objects in the store.

use std::sync::Arc;

use authz::{
    Attributes, Authorizer, RbacIndex, ResourceRequest, RuleResolver, SystemMasters,
    Target as Asks, Union, User, UserRules, Verdict,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{faults::Verb, kind, refusal::Refusal, request::Resource, store::Key};

/// The index of the RBAC objects. An object that cannot be parsed grants nothing.
#[derive(Debug, Default)]
pub(crate) struct Rbac(RbacIndex);

impl Rbac {
    pub(crate) fn put(&mut self, key: &Key, object: &Arc<Value>) {
        if key.group != kind::RBAC {
            return;
        }
        self.remove(key, object);
        let applied = match key.plural.as_str() {
            "roles" => read::<Role>(object).map(|it| self.0.apply(&it)),
            "rolebindings" => read::<RoleBinding>(object).map(|it| self.0.apply(&it)),
            "clusterroles" => read::<ClusterRole>(object).map(|it| self.0.apply(&it)),
            "clusterrolebindings" => read::<ClusterRoleBinding>(object).map(|it| self.0.apply(&it)),
            _ => return,
        };
        if !matches!(applied, Some(Ok(()))) {
            tracing::warn!(plural = key.plural, name = key.name, "grants nothing");
        }
    }

    pub(crate) fn remove(&mut self, key: &Key, object: &Arc<Value>) {
        if key.group != kind::RBAC {
            return;
        }
        // Only kind, namespace and name matter.
        let named = Arc::new(serde_json::json!({ "metadata": {
            "namespace": object["metadata"]["namespace"], "name": object["metadata"]["name"],
        }, "roleRef": {"apiGroup": "", "kind": "", "name": ""} }));
        match key.plural.as_str() {
            "roles" => read::<Role>(&named).iter().for_each(|it| self.0.delete(it)),
            "rolebindings" => read::<RoleBinding>(&named)
                .iter()
                .for_each(|it| self.0.delete(it)),
            "clusterroles" => read::<ClusterRole>(&named)
                .iter()
                .for_each(|it| self.0.delete(it)),
            "clusterrolebindings" => read::<ClusterRoleBinding>(&named)
                .iter()
                .for_each(|it| self.0.delete(it)),
            _ => {}
        }
    }

    pub(crate) fn allows(&self, user: &User, verb: &str, target: Asks<'_>) -> bool {
        self.verdict(user, verb, target).is_allowed()
    }

    pub(crate) fn verdict(&self, user: &User, verb: &str, target: Asks<'_>) -> Verdict {
        let union: [&dyn Authorizer; 2] = [&SystemMasters, &self.0];
        Union(&union).authorize(&Attributes { user, verb, target })
    }

    /// Checks that a user may make a call.
    pub(crate) fn check(&self, user: &User, verb: Verb, on: &Resource) -> Result<(), Refusal> {
        let request = ResourceRequest {
            group: &on.group,
            resource: &on.plural,
            subresource: &on.subresource,
            // For RBAC, a namespace object is in the namespace of its name.
            namespace: if on.group.is_empty() && on.plural == "namespaces" {
                &on.name
            } else {
                &on.namespace
            },
            name: &on.name,
            ..ResourceRequest::default()
        };
        // Every user may review their own permissions.
        let is_about_self =
            on.group == "authorization.k8s.io" && on.plural.starts_with("selfsubject");
        if is_about_self || self.allows(user, verb.as_str(), Asks::Resource(request)) {
            return Ok(());
        }
        let why = format!(
            "User {:?} cannot {verb} resource {:?}",
            user.name, on.plural
        );
        Err(Refusal::forbidden(&on.plural, &on.group, &on.name, &why))
    }

    pub(crate) fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        self.0.rules_for(user, namespace)
    }
}

fn read<K: DeserializeOwned>(object: &Arc<Value>) -> Option<K> {
    K::deserialize(object.as_ref()).ok()
}
