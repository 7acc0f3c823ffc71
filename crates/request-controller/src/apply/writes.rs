//! Single writes: each with a precondition, only while this process is the leader, and counted in the metrics.

#[cfg(test)]
mod tests;

use std::{fmt::Debug, time::Duration};

use connectors_api::{
    AccessRequest,
    access_request::AccessRequestStatus,
    names::SCHEDULING_GATE,
    request_creation::{Created, refusal},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::Pod,
        rbac::v1::{Role, RoleBinding},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{
        DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
        PropagationPolicy,
    },
    core::ApiResource,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use service_kit::{
    retry::RetryPolicy,
    watches::{Guarded, Named},
};

use super::ApplyError;
use crate::{api::Name, metrics::Metrics, seen::GrantKind, shards::LeadsNamespace};

/// Writes to the API server.
#[derive(Clone)]
pub struct Writes {
    client: Client,
    policy: RetryPolicy,
    leads: LeadsNamespace,
    metrics: Metrics,
}

impl Writes {
    /// Constructs the writer. It writes only as long as this process leads the shard of the namespace.
    #[must_use]
    pub const fn new(
        client: Client,
        policy: RetryPolicy,
        leads: LeadsNamespace,
        metrics: Metrics,
    ) -> Self {
        Self {
            client,
            policy,
            leads,
            metrics,
        }
    }

    /// Writes the status of a request in the version that was decided on. A newer version is a conflict.
    pub(super) async fn status(
        &self,
        request: &AccessRequest,
        status: AccessRequestStatus,
    ) -> Result<AccessRequest, ApplyError> {
        let name = Name::of(request);
        let api: Api<AccessRequest> = self.api(&name);
        let mut next = request.clone();
        next.metadata.managed_fields = None;
        next.status = Some(status);
        self.may_write(&name.namespace, "update", "accessrequests/status")?;
        let call = format!("update status of accessrequest {name}");
        let params = PostParams::default();
        let put = || api.replace_status(&name.name, &params, &next);
        match self.policy.call(call, put).await {
            Ok(written) => Ok(written),
            // Gone or newer: in both cases the decision was made on another version.
            Err(error) if matches!(error.status(), Some(404 | 409)) => {
                Err(ApplyError::Conflict(format!("request {name}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the first status of an unreadable request.
    pub(super) async fn first_status(
        &self,
        name: &Name,
        object: &Value,
        status: &AccessRequestStatus,
    ) -> Result<(), ApplyError> {
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &name.namespace,
            &ApiResource::erase::<AccessRequest>(&()),
        );
        self.may_write(&name.namespace, "patch", "accessrequests/status")?;
        let version = object.pointer("/metadata/resourceVersion");
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        let call = format!("patch status of accessrequest {name}");
        let params = PatchParams::default();
        let patch = Patch::Merge(&patch);
        let send = || api.patch_status(&name.name, &params, &patch);
        match self.policy.call(call, send).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.status(), Some(404 | 409)) => {
                Err(ApplyError::Conflict(format!("request {name}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a request of this pod, for the leader of the pod's namespace. A repetition, and another leader, meet the
    /// same object under the name.
    pub(super) async fn create_request(
        &self,
        pod: &Name,
        request: &AccessRequest,
    ) -> Result<Created, ApplyError> {
        let name = Name::of(request);
        let api: Api<AccessRequest> = self.api(&name);
        self.may_write(&pod.namespace, "create", "accessrequests")?;
        let call = format!("create accessrequest {name}");
        let params = PostParams::default();
        match self
            .policy
            .call(call, || api.create(&params, request))
            .await
        {
            Ok(_) => Ok(Created::Made),
            Err(error) => error.answer().and_then(refusal).ok_or_else(|| error.into()),
        }
    }

    /// Removes the scheduling gate of the pod with that UID, and changes nothing else of it. False if there is no pod of
    /// that name.
    pub(super) async fn remove_gate(&self, pod: &Name, uid: &str) -> Result<bool, ApplyError> {
        let api: Api<Guarded<Pod, Named>> = Api::namespaced(self.client.clone(), &pod.namespace);
        self.may_write(&pod.namespace, "patch", "pods")?;
        let call = format!("remove the scheduling gate of pod {pod}");
        // A UID that is not the pod's is a conflict. A gate that is gone already is no change.
        let patch = Patch::Strategic(json!({
            "metadata": {"uid": uid},
            "spec": {"schedulingGates": [{"$patch": "delete", "name": SCHEDULING_GATE}]},
        }));
        let params = PatchParams::default();
        match self
            .policy
            .call(call, || api.patch(&pod.name, &params, &patch))
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) if error.status() == Some(409) => {
                Err(ApplyError::Conflict(format!("pod {pod}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a Role or RoleBinding by one POST, within the time that is left.
    pub(super) async fn create<K>(&self, object: &K, left: Duration) -> Result<(), ApplyError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let name = Name::of(object);
        let api: Api<K> = self.api(&name);
        self.may_write(&name.namespace, "create", &K::plural(&()))?;
        let policy = RetryPolicy {
            attempt: left,
            total: left,
            ..self.policy
        };
        let call = format!("create {} {name}", K::kind(&()).to_lowercase());
        let params = PostParams::default();
        let post = || api.create(&params, object);
        policy.once().call(call, post).await?;
        Ok(())
    }

    /// Deletes the object with that UID, and no other one of its name. An object that is already gone counts as
    /// deleted.
    pub(super) async fn delete(
        &self,
        kind: GrantKind,
        name: &Name,
        uid: Option<&str>,
    ) -> Result<(), ApplyError> {
        match kind {
            GrantKind::Role => self.delete_one::<Role>(name, uid, None).await,
            GrantKind::RoleBinding => self.delete_one::<RoleBinding>(name, uid, None).await,
        }
    }

    /// Deletes a request in the version that was decided on.
    pub(super) async fn delete_request(&self, request: &AccessRequest) -> Result<(), ApplyError> {
        let name = Name::of(request);
        let version = request.resource_version();
        let uid = request.uid();
        self.delete_one::<AccessRequest>(&name, uid.as_deref(), version)
            .await
    }

    async fn delete_one<K>(
        &self,
        name: &Name,
        uid: Option<&str>,
        resource_version: Option<String>,
    ) -> Result<(), ApplyError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api: Api<K> = self.api(name);
        self.may_write(&name.namespace, "delete", &K::plural(&()))?;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: uid.map(str::to_owned),
                resource_version,
            }),
            // With the foreground policy, which every client may request, the object would stay effective meanwhile.
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let kind = K::kind(&()).to_lowercase();
        let call = format!("delete {kind} {name}");
        let delete = || api.delete(&name.name, &params);
        match self.policy.call(call, delete).await {
            Ok(_) => Ok(()),
            Err(error) if error.status() == Some(404) => Ok(()),
            Err(error) if error.status() == Some(409) => {
                Err(ApplyError::Conflict(format!("{kind} {name}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn api<K>(&self, name: &Name) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &name.namespace)
    }

    /// The namespace is that of the job: a mistake about its shard must not write for another leader.
    fn may_write(&self, namespace: &str, verb: &str, resource: &str) -> Result<(), ApplyError> {
        if !(self.leads)(namespace) {
            return Err(ApplyError::NotLeading);
        }
        self.metrics
            .writes
            .with_label_values(&[verb, resource])
            .inc();
        Ok(())
    }
}
