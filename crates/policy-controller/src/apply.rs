//! All writes: each with its precondition, each only while this process leads, each counted.
//!
//! A new object is created by POST, which never changes an existing object of that name. An existing object
//! is changed by server-side apply, pinned to the UID and the version that was read. So a decision about
//! another version changes nothing, and no deleted object comes back.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Debug,
    time::Duration,
};

use connectors_api::{AccessPolicy, AccessPolicyStatus};
use k8s_openapi::{
    NamespaceResourceScope,
    api::rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use service_kit::{
    controller::Leads,
    retry::{CallError, RetryPolicy},
};
use thiserror::Error;
use tokio::time::Instant;

use crate::{
    cache::{
        Job,
        own_writes::{OwnObject, OwnVersions},
    },
    metrics::Metrics,
    observe::{Observer, PolicyLive},
    plan::{
        objects,
        order::{self, Write, WriteStep, WrittenObject},
    },
    seen::{Fingerprint, MANAGER, ManagedKind, Pin},
};

/// The maximum age of reads on which permissions are given.
const FRESH: Duration = Duration::from_secs(5);

/// Why not everything was written. In every case the next look starts over.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Another process leads.
    #[error("this process does not lead")]
    NotLeading,
    /// Another client wrote it first.
    #[error("{0} was changed by somebody else meanwhile")]
    Conflict(String),
    /// The reads are too old to give permissions on.
    #[error("what was read is too old to give anything on")]
    Stale,
    /// An object that is not ours has the name.
    #[error(
        "{0} {1} is in the way: it is not managed by connectors-approval, so somebody else has to delete it"
    )]
    NameTaken(ManagedKind, String),
}

/// Writes to the API server.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    policy: RetryPolicy,
    observer: Observer,
    leads: Leads,
    metrics: Metrics,
}

/// The objects that this look has written.
#[derive(Debug, Default)]
struct WrittenObjects(BTreeMap<(ManagedKind, String), OwnVersions>);

/// One version of an object, as the API server answered.
struct NewVersion {
    version: String,
    said: Option<Fingerprint>,
}

impl WrittenObjects {
    /// The version to change: the newest one of this look, if there is any.
    fn newest(&self, key: &(ManagedKind, String), pin: &Pin) -> Pin {
        let written = self.0.get(key).and_then(|it| it.made.last());
        Pin {
            uid: pin.uid.clone(),
            version: written.unwrap_or(&pin.version).clone(),
        }
    }

    /// Adds a version, and returns what is known of its object then. None if it is not the one that was sent.
    fn add(
        &mut self,
        key: (ManagedKind, String),
        before: Option<&Pin>,
        new: NewVersion,
    ) -> Option<OwnObject> {
        let NewVersion { version, said } = new;
        let versions = self.0.entry(key.clone()).or_insert_with(|| OwnVersions {
            before: before.map(|it| it.version.clone()),
            made: Vec::new(),
        });
        versions.made.push(version);
        Some(OwnObject {
            key,
            versions: versions.clone(),
            said: said?,
        })
    }
}

impl NewVersion {
    /// The version that the API server made of an object that was sent.
    fn of<K: WrittenKind>(written: &K, sent: &K) -> Self {
        let said = written.said();
        let is_as_sent = said == sent.said() && written.meta().deletion_timestamp.is_none();
        Self {
            version: written.meta().resource_version.clone().unwrap_or_default(),
            said: is_as_sent.then_some(said),
        }
    }
}

impl Applier {
    /// Writes with this client, as long as this process leads.
    #[must_use]
    pub const fn new(
        client: Client,
        policy: RetryPolicy,
        observer: Observer,
        leads: Leads,
        metrics: Metrics,
    ) -> Self {
        Self {
            client,
            policy,
            observer,
            leads,
            metrics,
        }
    }

    /// Makes the writes that were decided on reads of that time, one after the other. A removal that fails
    /// does not stop other removals. Nothing is given after it. Each object that exists as it was sent is told at once:
    /// an event of a later change of it may come before the other writes are over.
    pub async fn apply(
        &self,
        job: &Job,
        steps: &[WriteStep],
        read: Instant,
        wrote: &(dyn Fn(OwnObject) + Sync),
    ) -> Result<(), ApplyError> {
        let mut written = WrittenObjects::default();
        let mut so_far = Ok(());
        let mut kept = HashSet::new();
        for WriteStep { write, gives } in steps {
            // The API server changes no RoleBinding without its Role, so it could not be emptied later.
            if matches!(write, Write::Delete(ManagedKind::Role, name, _) if kept.contains(name.as_str()))
            {
                continue;
            }
            if *gives {
                so_far?;
                so_far = Ok(());
            }
            let policy = if *gives {
                self.fresh(read).ok_or(ApplyError::Stale)?
            } else {
                self.policy
            };
            match self.write(job, write, &mut written, policy).await {
                Ok(own) => own.into_iter().for_each(wrote),
                Err(error) if *gives => return Err(error),
                Err(ApplyError::NotLeading) => return Err(ApplyError::NotLeading),
                Err(error) => {
                    if write.kind() == ManagedKind::RoleBinding {
                        kept.insert(write.name());
                    }
                    so_far = so_far.and(Err(error));
                }
            }
        }
        so_far
    }

    /// The retries of a write that gives permissions: no attempt begins when the reads are too old. None if
    /// they are too old now.
    fn fresh(&self, read: Instant) -> Option<RetryPolicy> {
        let left = FRESH.checked_sub(read.elapsed())?;
        Some(RetryPolicy {
            total: left.min(self.policy.total),
            ..self.policy
        })
    }

    async fn write(
        &self,
        job: &Job,
        write: &Write,
        written: &mut WrittenObjects,
        policy: RetryPolicy,
    ) -> Result<Option<OwnObject>, ApplyError> {
        let name = write.name();
        let key = (write.kind(), name.to_owned());
        match write {
            Write::Create(object) => {
                let new = match object {
                    WrittenObject::Role(role) => self.create(job, role, policy).await?,
                    WrittenObject::Binding(binding) => self.create(job, binding, policy).await?,
                };
                Ok(written.add(key, None, new))
            }
            Write::Change(object, pin) => {
                let Pin { uid, version } = written.newest(&key, pin);
                let newest = (uid, Some(version));
                let new = match object {
                    WrittenObject::Role(role) => {
                        self.change(job, name, role, newest, policy).await?
                    }
                    WrittenObject::Binding(binding) => {
                        self.change(job, name, binding, newest, policy).await?
                    }
                };
                Ok(written.add(key, Some(pin), new))
            }
            Write::Delete(kind, _, pin) => {
                let pin = written.newest(&key, pin);
                match kind {
                    ManagedKind::Role => self.delete::<Role>(job, name, pin).await?,
                    ManagedKind::RoleBinding => {
                        self.delete::<RoleBinding>(job, name, pin).await?;
                    }
                }
                // Its event is awaited.
                written.0.remove(&key);
                Ok(None)
            }
        }
    }

    async fn create<K: WrittenKind>(
        &self,
        job: &Job,
        object: &K,
        policy: RetryPolicy,
    ) -> Result<NewVersion, ApplyError> {
        self.may_write("create", &K::plural(&()))?;
        let api: Api<K> = self.api(job);
        let name = object.meta().name.clone().unwrap_or_default();
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let call = call::<K>("create", job, &name);
        let post = || api.create(&params, object);
        match policy.call(call, post).await {
            Ok(written) => Ok(NewVersion::of(&written, object)),
            // It may be our own, of an attempt that was not answered, or of another leader.
            Err(error) if error.status() == Some(409) => {
                if self.observer.is_managed::<K>(job, &name).await? {
                    Err(conflict::<K>(job, &name))
                } else {
                    Err(ApplyError::NameTaken(K::KIND, name))
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Changes an object of this UID, and only this version of it if one is given.
    async fn change<K: WrittenKind>(
        &self,
        job: &Job,
        name: &str,
        object: &K,
        (uid, version): (String, Option<String>),
        policy: RetryPolicy,
    ) -> Result<NewVersion, ApplyError> {
        self.may_write("patch", &K::plural(&()))?;
        let api: Api<K> = self.api(job);
        let mut object = object.clone();
        object.meta_mut().uid = Some(uid);
        object.meta_mut().resource_version = version;
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&object);
        let call = call::<K>("apply", job, name);
        let send = || api.patch(name, &params, &patch);
        match policy.call(call, send).await {
            Ok(written) => Ok(NewVersion::of(&written, &object)),
            Err(error) if matches!(error.status(), Some(404 | 409)) => {
                Err(conflict::<K>(job, name))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes an object. One that a finalizer keeps stays effective, so it is emptied.
    async fn delete<K: WrittenKind>(
        &self,
        job: &Job,
        name: &str,
        pin: Pin,
    ) -> Result<(), ApplyError> {
        self.may_write("delete", &K::plural(&()))?;
        let api: Api<K> = self.api(job);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(pin.uid),
                resource_version: Some(pin.version),
            }),
            // Otherwise a deletion in the foreground, which any user may request, keeps it effective.
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let call = call::<K>("delete", job, name);
        let delete = || api.delete(name, &params);
        match self.policy.call(call, delete).await {
            Ok(answer) => {
                // The API server answers with the object only if it is still there.
                let Some(kept) = answer.left() else {
                    return Ok(());
                };
                // Any version may be emptied, regardless of its content: afterwards the object gives less.
                let pin = (kept.meta().uid.clone().unwrap_or_default(), None);
                let empty = kept.emptied();
                self.change(job, name, &empty, pin, self.policy).await?;
                Ok(())
            }
            Err(error) if error.status() == Some(404) => Ok(()),
            Err(error) if error.status() == Some(409) => Err(conflict::<K>(job, name)),
            Err(error) => Err(error.into()),
        }
    }

    /// The status of the version of a policy that was decided on. Returns the versions of the policy, if it has exactly this
    /// status now.
    pub async fn status(
        &self,
        policy: &PolicyLive,
        status: &AccessPolicyStatus,
    ) -> Result<Option<OwnVersions>, ApplyError> {
        self.may_write("patch", "accesspolicies/status")?;
        let name = &policy.owner.name;
        let api: Api<AccessPolicy> = Api::namespaced(self.client.clone(), &name.namespace);
        let AccessPolicyStatus {
            observed_generation,
            matched_connector_count,
            matched_connectors,
            granted_subjects,
            conditions,
        } = status;
        // Each field is set, because an omitted one would keep its value.
        let patch = json!({
            "metadata": {"uid": policy.owner.uid, "resourceVersion": policy.version},
            "status": {
                "observedGeneration": observed_generation,
                "matchedConnectorCount": matched_connector_count,
                "matchedConnectors": matched_connectors,
                "grantedSubjects": granted_subjects,
                "conditions": conditions,
            },
        });
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(&patch);
        let call = format!("patch status of accesspolicy {name}");
        // The policy may be unreadable.
        let send = || async {
            let answer = api.patch_status(&name.name, &params, &patch).await;
            match answer {
                Ok(written) => Ok(Some(written)),
                Err(kube::Error::SerdeError(_)) => Ok(None),
                Err(error) => Err(error),
            }
        };
        match self.policy.call(call, send).await {
            Ok(written) => {
                let written = written.filter(|it| it.status.as_ref() == Some(status));
                let version = written.and_then(|it| it.metadata.resource_version);
                Ok(version.map(|version| OwnVersions {
                    before: Some(policy.version.clone()),
                    made: vec![version],
                }))
            }
            Err(error) if matches!(error.status(), Some(404 | 409)) => {
                Err(ApplyError::Conflict(format!("accesspolicy {name}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn api<K: WrittenKind>(&self, job: &Job) -> Api<K> {
        Api::namespaced(self.client.clone(), &job.namespace)
    }

    fn may_write(&self, verb: &str, resource: &str) -> Result<(), ApplyError> {
        if !(self.leads)() {
            return Err(ApplyError::NotLeading);
        }
        let writes = self.metrics.writes.with_label_values(&[verb, resource]);
        writes.inc();
        Ok(())
    }
}

/// The kinds that are written.
trait WrittenKind:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
    const KIND: ManagedKind;

    /// Its content.
    fn said(&self) -> Fingerprint;

    /// The part of it that may be applied, without any permission.
    fn emptied(&self) -> Self;
}

impl WrittenKind for Role {
    const KIND: ManagedKind = ManagedKind::Role;

    fn said(&self) -> Fingerprint {
        objects::of_role(self)
    }

    fn emptied(&self) -> Self {
        order::empty_role(self)
    }
}

impl WrittenKind for RoleBinding {
    const KIND: ManagedKind = ManagedKind::RoleBinding;

    fn said(&self) -> Fingerprint {
        objects::of_binding(self)
    }

    fn emptied(&self) -> Self {
        order::empty_binding(self)
    }
}

fn call<K: WrittenKind>(verb: &str, job: &Job, name: &str) -> String {
    let kind = K::KIND.as_str().to_lowercase();
    format!("{verb} {kind} {}/{name}", job.namespace)
}

fn conflict<K: WrittenKind>(job: &Job, name: &str) -> ApplyError {
    ApplyError::Conflict(format!("{} {}/{name}", K::KIND.as_str(), job.namespace))
}

#[cfg(test)]
mod tests;
