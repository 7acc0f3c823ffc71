//! Reads past every cache: no resource version is given, so the API server answers with the newest state.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use connectors_api::{
    AccessPolicy, AccessPolicySpec, AccessPolicyStatus, LabelSelector, NamespaceKeys,
    access_policy::{MOST_SELECTORS, SubjectForm},
    connector, labels,
    names::MANAGED_BY,
    parse,
};
use futures::try_join;
use k8s_openapi::{
    api::{
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta},
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams},
    core::ApiResource,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use service_kit::{
    gets,
    lists::{self, Pages},
    retry::{CallError, RetryPolicy},
    watches::{Guarded, Labelled, Named, Plain},
};
use tokio::time::Instant;

use crate::{
    cache::Job,
    seen::{
        FoundObject, Labels, MANAGER, Managed, MostSelected, Name, OwnerPolicy, Pin, Surroundings,
    },
};

/// Policies of one page. Each has up to 64 KiB, and a page is in memory as text and as objects.
const LONG_PAGE: u32 = 100;

/// A policy as the API server has it.
#[derive(Clone, Debug)]
pub struct PolicyLive {
    /// Its namespace, name and UID.
    pub owner: OwnerPolicy,
    /// Which version it is.
    pub version: String,
    /// Which version of its spec that is.
    pub generation: Option<i64>,
    /// It is being deleted.
    pub deleting: bool,
    /// Its content, or why it cannot be parsed.
    pub spec: Result<AccessPolicySpec, String>,
    /// Its status as last written.
    pub status: Option<AccessPolicyStatus>,
}

/// All objects that concern a policy, just read.
#[derive(Clone, Debug)]
pub struct PolicyReads {
    most_selected: MostSelected,
    namespace_keys: Arc<NamespaceKeys>,
    /// When the reading began.
    pub since: Instant,
    /// The policy; none if there is none.
    pub policy: Option<PolicyLive>,
    /// Its managed objects.
    pub there: Managed,
    around: Around,
}

/// Service accounts that a subject selects by their labels.
struct Selected<'a> {
    selector: &'a LabelSelector,
    /// In namespaces that are selected, too; else in the policy's own.
    is_elsewhere: bool,
}

impl<'a> Selected<'a> {
    fn of(form: &'a SubjectForm) -> Option<Self> {
        match form {
            SubjectForm::ServiceAccountsByLabel {
                selector,
                namespaces,
            } => Some(Self {
                selector,
                is_elsewhere: namespaces.is_some(),
            }),
            SubjectForm::ServiceAccountGroupsByNamespace { .. }
            | SubjectForm::ServiceAccount { .. }
            | SubjectForm::Group { .. }
            | SubjectForm::User { .. } => None,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Around {
    connectors: BTreeMap<String, Labels>,
    namespaces: BTreeMap<String, Labels>,
    accounts: BTreeMap<String, BTreeMap<String, Labels>>,
}

impl PolicyReads {
    /// The objects from which it selects.
    #[must_use]
    pub fn around(&self) -> Surroundings<'_> {
        Surroundings {
            most_selected: self.most_selected,
            namespace_keys: &self.namespace_keys,
            connectors: &self.around.connectors,
            namespaces: &self.around.namespaces,
            accounts: &self.around.accounts,
        }
    }
}

/// Reads from the API server.
#[derive(Clone)]
pub struct Observer {
    client: Client,
    policy: RetryPolicy,
    most_selected: MostSelected,
}

impl Observer {
    /// Reads with this client.
    #[must_use]
    pub const fn new(client: Client, policy: RetryPolicy, most_selected: MostSelected) -> Self {
        Self {
            client,
            policy,
            most_selected,
        }
    }

    /// All objects that concern a policy. Its name, if it is known. The keys come from a watch, so they are
    /// as new as the reads.
    pub async fn read(
        &self,
        job: &Job,
        name: Option<&str>,
        namespace_keys: Arc<NamespaceKeys>,
    ) -> Result<PolicyReads, CallError> {
        let since = Instant::now();
        let policy = async {
            match name {
                Some(name) => self.policy(&job.namespace, name).await,
                None => self.policy_by_uid(job).await,
            }
        };
        // Side by side: the API server may take a tenth of a second for each list.
        let (policy, there) = try_join!(policy, self.managed(job))?;
        let policy = policy.filter(|it| it.owner.uid == job.uid);
        let spec = policy.as_ref().and_then(|it| it.spec.as_ref().ok());
        let around = match spec {
            Some(spec) => self.around(spec, &job.namespace).await?,
            None => Around::default(),
        };
        Ok(PolicyReads {
            most_selected: self.most_selected,
            namespace_keys,
            since,
            policy,
            there,
            around,
        })
    }

    /// The objects from which a policy of that namespace selects. Kinds without a selector are not read.
    async fn around(&self, spec: &AccessPolicySpec, own: &str) -> Result<Around, CallError> {
        let given = spec.default_permission.iter();
        let given = given.filter(|it| it.binding_template.selectors() <= MOST_SELECTORS);
        let subjects = given.flat_map(|it| &it.binding_template.subjects);
        let forms: Vec<_> = subjects.flat_map(SubjectForm::try_from).collect();
        let (connectors, namespaces, accounts) = try_join!(
            self.connectors(own),
            self.namespaces(&forms),
            self.accounts(&forms, own)
        )?;
        Ok(Around {
            connectors,
            namespaces,
            accounts,
        })
    }

    async fn connectors(&self, own: &str) -> Result<BTreeMap<String, Labels>, CallError> {
        let api =
            Api::<Guarded<connector::Selectable, Labelled>>::namespaced(self.client.clone(), own);
        let call = format!("list connectors in {own}");
        let connectors = lists::whole(&self.policy, call, &api, ListParams::default()).await?;
        Ok(names(&connectors))
    }

    async fn namespaces(
        &self,
        forms: &[SubjectForm],
    ) -> Result<BTreeMap<String, Labels>, CallError> {
        if forms.iter().all(|it| it.namespaces().is_none()) {
            return Ok(BTreeMap::new());
        }
        let api = Api::<Guarded<Namespace, Named>>::all(self.client.clone());
        let params = ListParams::default();
        let namespaces = lists::whole(&self.policy, "list namespaces", &api, params).await?;
        Ok(names(&namespaces))
    }

    /// One list for any number of selectors: their objects are found in it.
    async fn accounts(
        &self,
        forms: &[SubjectForm],
        own: &str,
    ) -> Result<BTreeMap<String, BTreeMap<String, Labels>>, CallError> {
        let by_label: Vec<_> = forms.iter().filter_map(Selected::of).collect();
        let Some((first, others)) = by_label.split_first() else {
            return Ok(BTreeMap::new());
        };
        let is_elsewhere = by_label.iter().any(|it| it.is_elsewhere);
        let api: Api<Guarded<ServiceAccount, Named>> = if is_elsewhere {
            Api::all(self.client.clone())
        } else {
            Api::namespaced(self.client.clone(), own)
        };
        let labels = equalities(first.selector);
        let is_common = others.iter().all(|it| equalities(it.selector) == labels);
        let params = ListParams::default().labels(if is_common { &labels } else { "" });
        let listed = lists::whole(&self.policy, "list serviceaccounts", &api, params).await?;
        let mut accounts: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for (name, labels) in there(&listed) {
            let of_namespace = accounts.entry(name.namespace).or_default();
            of_namespace.insert(name.name, labels);
        }
        Ok(accounts)
    }

    async fn policy(&self, namespace: &str, name: &str) -> Result<Option<PolicyLive>, CallError> {
        let api = self.policies(Some(namespace));
        let call = format!("get accesspolicy {namespace}/{name}");
        let found = self.policy.call(call, || gets::find(&api, name)).await?;
        Ok(found.map(policy))
    }

    async fn policy_by_uid(&self, job: &Job) -> Result<Option<PolicyLive>, CallError> {
        let api = self.policies(Some(&job.namespace));
        let call = format!("list accesspolicies in {}", job.namespace);
        let found = lists::whole(&self.policy, call, &api, ListParams::default()).await?;
        Ok(found
            .into_iter()
            .map(policy)
            .find(|it| it.owner.uid == job.uid))
    }

    fn policies(&self, namespace: Option<&str>) -> Api<Guarded<DynamicObject>> {
        let kind = ApiResource::erase::<AccessPolicy>(&());
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
            None => Api::all_with(self.client.clone(), &kind),
        }
    }

    /// The jobs of all existing policies that are not being deleted.
    pub async fn jobs(&self) -> Result<BTreeSet<Job>, CallError> {
        let api = self.policies(None);
        let mut pages = Pages::of(LONG_PAGE, ListParams::default());
        let mut jobs = BTreeSet::new();
        // Only the jobs of each page are kept, because all policies of a cluster need much memory.
        while let Some(page) = pages
            .next(&self.policy, "list accesspolicies", &api)
            .await?
        {
            let there = page.iter().map(Resource::meta);
            let there = there.filter(|it| it.deletion_timestamp.is_none());
            jobs.extend(there.map(|it| Job {
                namespace: it.namespace.clone().unwrap_or_default(),
                uid: it.uid.clone().unwrap_or_default(),
            }));
        }
        Ok(jobs)
    }

    /// The jobs of everything that is managed.
    pub async fn managed_jobs(&self) -> Result<BTreeSet<Job>, CallError> {
        let params = ListParams::default().labels(&managed_by_us());
        let roles = Api::<Guarded<Role>>::all(self.client.clone());
        let roles =
            lists::whole(&self.policy, "list managed roles", &roles, params.clone()).await?;
        let bindings = Api::<Guarded<RoleBinding>>::all(self.client.clone());
        let bindings =
            lists::whole(&self.policy, "list managed rolebindings", &bindings, params).await?;
        let roles = roles.iter().map(Resource::meta);
        let all = roles.chain(bindings.iter().map(Resource::meta));
        Ok(all.filter_map(job_in).collect())
    }

    async fn managed(&self, job: &Job) -> Result<Managed, CallError> {
        let selector = format!(
            "{},{}={}",
            managed_by_us(),
            labels::ACCESS_POLICY_UID,
            job.uid
        );
        let params = ListParams::default().labels(&selector);
        let namespace = &job.namespace;
        let roles = Api::<Guarded<Role>>::namespaced(self.client.clone(), namespace);
        let call = format!("list managed roles in {namespace}");
        let roles = lists::whole(&self.policy, call, &roles, params.clone());
        let bindings = Api::<Guarded<RoleBinding>>::namespaced(self.client.clone(), namespace);
        let call = format!("list managed rolebindings in {namespace}");
        let bindings = lists::whole(&self.policy, call, &bindings, params);
        let (roles, bindings) = try_join!(roles, bindings)?;
        Ok(Managed {
            roles: roles.into_iter().map(|it| found(it, "f:rules")).collect(),
            bindings: bindings
                .into_iter()
                .map(|it| found(it, "f:subjects"))
                .collect(),
        })
    }

    /// Whether the object of that name is managed for the job.
    pub async fn is_managed<K>(&self, job: &Job, name: &str) -> Result<bool, CallError>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api: Api<Guarded<K>> = Api::namespaced(self.client.clone(), &job.namespace);
        let call = format!(
            "get {} {}/{name}",
            K::kind(&()).to_lowercase(),
            job.namespace
        );
        let found = self.policy.call(call, || gets::find(&api, name)).await?;
        Ok(found.is_none_or(|it| job_in(it.meta()).as_ref() == Some(job)))
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

/// The objects that exist and are not being deleted.
fn there<K: Resource, P>(objects: &[Guarded<K, P>]) -> impl Iterator<Item = (Name, Labels)> {
    // No selector finds an object with unreadable labels, not even a negative one.
    let objects = objects.iter().filter_map(|it| it.object.as_ref().ok());
    let objects = objects.map(Resource::meta);
    let there = objects.filter(|it| it.deletion_timestamp.is_none());
    there.map(|it| (Name::in_metadata(it), it.labels.clone().unwrap_or_default()))
}

/// The same of objects that are in one namespace, or in none.
fn names<K: Resource, P>(objects: &[Guarded<K, P>]) -> BTreeMap<String, Labels> {
    there(objects)
        .map(|(name, labels)| (name.name, labels))
        .collect()
}

/// The part of a selector that the API server can evaluate.
fn equalities(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter();
    let labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.join(",")
}

fn policy(object: Guarded<DynamicObject, Plain>) -> PolicyLive {
    let metadata = object.meta().clone();
    let (spec, status) = match object.object {
        Ok(object) => read_policy(&object),
        Err(unreadable) => (Err(unreadable.problem), None),
    };
    PolicyLive {
        owner: OwnerPolicy {
            name: Name::in_metadata(&metadata),
            uid: metadata.uid.unwrap_or_default(),
        },
        version: metadata.resource_version.unwrap_or_default(),
        generation: metadata.generation,
        deleting: metadata.deletion_timestamp.is_some(),
        spec,
        status,
    }
}

fn read_policy(
    object: &DynamicObject,
) -> (Result<AccessPolicySpec, String>, Option<AccessPolicyStatus>) {
    let part = |field: &str| object.data.get(field).cloned().unwrap_or(Value::Null);
    let spec = parse::spec(&part("spec")).map_err(|error| error.to_string());
    // An unreadable status is written again.
    (spec, serde_json::from_value(part("status")).ok())
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
mod tests;
