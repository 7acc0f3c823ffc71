//! The managed objects of policies. One pair of lists finds those of all policies of a namespace that wait for them.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::{labels, names::MANAGED_BY};
use futures::try_join;
use k8s_openapi::{
    api::rbac::v1::{Role, RoleBinding},
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta},
};
use kube::{Api, Resource, api::ListParams};
use service_kit::{
    lists,
    retry::CallError,
    shared_reads::{ReadMoment, SharedReads, SharedResult},
    watches::Guarded,
};

use super::around::ListSource;
use crate::{
    cache::Job,
    seen::{FoundObject, MANAGER, Managed, Pin},
};

/// By the UIDs of policies.
type ManagedByUid = BTreeMap<String, Managed>;

/// Reads them.
#[derive(Clone)]
pub(super) struct ManagedReads {
    source: ListSource,
    /// By namespace; the parts are the UIDs of policies.
    lists: SharedReads<String, String, ManagedByUid>,
}

impl ManagedReads {
    pub(super) fn of(source: ListSource) -> Self {
        Self {
            source,
            lists: SharedReads::default(),
        }
    }

    /// The managed objects of a policy, by lists that began after the moment.
    pub(super) async fn read(&self, job: &Job, after: ReadMoment) -> SharedResult<ManagedByUid> {
        let Job { namespace, uid } = job.clone();
        let (source, of) = (self.source.clone(), namespace.clone());
        let list = move |uids| async move { source.managed(&of, &uids).await };
        self.lists.read(namespace, uid, after, list).await
    }

    /// How many namespaces have policies that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.lists.subjects()
    }
}

impl ListSource {
    /// The managed objects of these policies.
    async fn managed(
        &self,
        namespace: &str,
        uids: &BTreeSet<String>,
    ) -> Result<ManagedByUid, CallError> {
        let params = ListParams::default().labels(&managed_for(uids));
        let roles = Api::<Guarded<Role>>::namespaced(self.client.clone(), namespace);
        let call = format!("list managed roles in {namespace}");
        let roles = lists::whole(&self.policy, call, &roles, params.clone());
        let bindings = Api::<Guarded<RoleBinding>>::namespaced(self.client.clone(), namespace);
        let call = format!("list managed rolebindings in {namespace}");
        let bindings = lists::whole(&self.policy, call, &bindings, params);
        // Side by side: the API server may take a tenth of a second for each list.
        let (roles, bindings) = try_join!(roles, bindings)?;
        let mut managed = ManagedByUid::new();
        for role in roles {
            if let Some(job) = job_in(role.meta()) {
                let (name, found) = found(role, "f:rules");
                let of_policy = managed.entry(job.uid).or_default();
                of_policy.roles.insert(name, found);
            }
        }
        for binding in bindings {
            if let Some(job) = job_in(binding.meta()) {
                let (name, found) = found(binding, "f:subjects");
                let of_policy = managed.entry(job.uid).or_default();
                of_policy.bindings.insert(name, found);
            }
        }
        Ok(managed)
    }
}

/// The objects that are managed for policies. Objects that are managed for requests name a policy, too.
#[must_use]
pub fn managed_by_us() -> String {
    format!(
        "{}={},{},!{}",
        labels::MANAGED_BY,
        MANAGED_BY,
        labels::ACCESS_POLICY_UID,
        labels::ACCESS_REQUEST_UID
    )
}

/// The same for these policies alone.
fn managed_for(uids: &BTreeSet<String>) -> String {
    let uids: Vec<_> = uids.iter().map(String::as_str).collect();
    format!(
        "{},{} in ({})",
        managed_by_us(),
        labels::ACCESS_POLICY_UID,
        uids.join(",")
    )
}

/// The job that an object is managed for, if it is managed.
#[must_use]
pub fn job_in(metadata: &ObjectMeta) -> Option<Job> {
    let label = |key: &str| metadata.labels.as_ref()?.get(key);
    let is_ours = label(labels::MANAGED_BY).is_some_and(|it| it == MANAGED_BY)
        && label(labels::ACCESS_REQUEST_UID).is_none();
    let uid = label(labels::ACCESS_POLICY_UID).filter(|_| is_ours)?;
    Some(Job {
        namespace: metadata.namespace.clone()?,
        uid: uid.clone(),
    })
}

fn found<K: Resource>(object: Guarded<K>, content: &str) -> (String, FoundObject<K>) {
    let metadata = object.meta().clone();
    let fields = metadata.managed_fields.unwrap_or_default();
    let found = FoundObject {
        pin: Pin {
            uid: metadata.uid.unwrap_or_default(),
            version: metadata.resource_version.unwrap_or_default(),
        },
        terminating: metadata.deletion_timestamp.is_some(),
        changed_by: changed_by(&fields, content),
        object: object.object.ok(),
    };
    (metadata.name.unwrap_or_default(), found)
}

/// Another owner of an object's content. After our write there is none.
fn changed_by(fields: &[ManagedFieldsEntry], content: &str) -> Option<String> {
    let owns = |it: &&ManagedFieldsEntry| {
        let fields = it.fields_v1.as_ref();
        it.manager.as_deref() != Some(MANAGER)
            && fields.is_some_and(|it| it.0.get(content).is_some())
    };
    let other = fields.iter().find(owns)?;
    Some(other.manager.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::FieldsV1;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_object_was_changed_by_whoever_else_owns_its_content() {
        let entry = |manager: &str, fields: Option<Value>| ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            fields_v1: fields.map(FieldsV1),
            ..ManagedFieldsEntry::default()
        };
        let rules = || Some(json!({"f:metadata": {}, "f:rules": {}}));
        let labels = || Some(json!({"f:metadata": {}}));
        for (fields, expected) in [
            (vec![entry(MANAGER, rules())], None),
            (
                vec![entry(MANAGER, rules()), entry("kubectl", labels())],
                None,
            ),
            (vec![entry("kubectl", None)], None),
            (
                vec![entry(MANAGER, rules()), entry("kubectl", rules())],
                Some("kubectl"),
            ),
        ] {
            assert_eq!(
                changed_by(&fields, "f:rules").as_deref(),
                expected,
                "{fields:?}"
            );
        }
    }
}
