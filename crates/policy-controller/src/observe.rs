//! Reads past every cache: no resource version is given, so the API server answers with the newest state.

mod around;
mod managed;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    pin::pin,
    sync::Arc,
};

use connectors_api::{AccessPolicy, AccessPolicySpec, AccessPolicyStatus, NamespaceKeys, parse};
use futures::{
    future::{Either, MaybeDone, maybe_done, select},
    try_join,
};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
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
    shared_reads::{ReadMoment, SharedReads},
    watches::{Guarded, Plain},
};
use tokio::time::Instant;

use crate::{
    cache::Job,
    seen::{Managed, MostSelected, Name, OwnerPolicy, Surroundings},
};
use around::{Around, AroundReads, ListSource, SelectorScope};
use managed::ManagedReads;
pub use managed::{job_in, managed_by_us};

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

    /// The policy, once it is decided on. The objects of the decision are not kept until all is written.
    #[must_use]
    pub fn decided(self) -> Option<PolicyLive> {
        self.policy
    }
}

/// The cached state of a policy, before it is read.
#[derive(Clone, Debug)]
pub struct PolicyKnown {
    /// Its name.
    pub name: Option<String>,
    /// Its content. The lists that it needs are begun before it is read.
    pub policy: Option<Arc<AccessPolicy>>,
    /// The labels by which namespaces may be selected. They come from a watch, so they are as new as the reads.
    pub namespace_keys: Arc<NamespaceKeys>,
}

/// Reads from the API server. Clones share the lists that they wait for.
#[derive(Clone)]
pub struct Observer {
    client: Client,
    policy: RetryPolicy,
    most_selected: MostSelected,
    around: AroundReads,
    managed: ManagedReads,
    /// Policies whose names are not known, by namespace; the parts are their UIDs.
    nameless: SharedReads<String, String, BTreeMap<String, PolicyLive>>,
}

impl Observer {
    /// Reads with this client.
    #[must_use]
    pub fn new(client: Client, policy: RetryPolicy, most_selected: MostSelected) -> Self {
        let source = ListSource {
            client: client.clone(),
            policy,
        };
        Self {
            client,
            policy,
            most_selected,
            around: AroundReads::of(source.clone()),
            managed: ManagedReads::of(source),
            nameless: SharedReads::default(),
        }
    }

    /// All objects that concern a policy, by reads that all begin after this call. Lists are shared with other calls.
    ///
    /// All reads are side by side: the API server may take a tenth of a second for each list.
    pub async fn read(&self, job: &Job, known: PolicyKnown) -> Result<PolicyReads, Arc<CallError>> {
        let (since, after) = (Instant::now(), ReadMoment::now());
        let own = &job.namespace;
        let guess = known.policy.as_ref();
        let guess = guess.map_or_else(SelectorScope::default, |it| {
            SelectorScope::of(&it.spec, own)
        });
        let policy = async {
            match &known.name {
                Some(name) => self.policy(own, name).await.map_err(Arc::new),
                None => self.policy_by_uid(job, after).await,
            }
        };
        let live = pin!(async { try_join!(policy, self.managed.read(job, after)) });
        let mut ahead = pin!(maybe_done(self.around.read(&guess, own, after)));
        // A policy that is gone waits for no list of what it selected from.
        let live = match select(live, ahead.as_mut()).await {
            Either::Left((live, _)) => live,
            Either::Right(((), live)) => live.await,
        };
        let (policy, managed) = live?;
        let policy = policy.filter(|it| it.owner.uid == job.uid);
        let there = policy.as_ref().filter(|it| !it.deleting);
        let spec = there.and_then(|it| it.spec.as_ref().ok());
        let scope = spec.map_or_else(SelectorScope::default, |it| SelectorScope::of(it, own));
        let guessed = if scope == guess {
            ahead.as_mut().await;
            ahead.as_mut().take_output()
        } else {
            // That read ends: unpolled, it would keep its place, and its timeouts would stand still.
            ahead.set(MaybeDone::Gone);
            None
        };
        let around = match guessed {
            Some(around) => around,
            None => self.around.read(&scope, own, after).await,
        };
        Ok(PolicyReads {
            most_selected: self.most_selected,
            namespace_keys: known.namespace_keys,
            since,
            policy,
            there: managed.get(&job.uid).cloned().unwrap_or_default(),
            around: around?,
        })
    }

    async fn policy(&self, namespace: &str, name: &str) -> Result<Option<PolicyLive>, CallError> {
        let api = self.policies(Some(namespace));
        let call = format!("get accesspolicy {namespace}/{name}");
        let found = self.policy.call(call, || gets::find(&api, name)).await?;
        Ok(found.map(policy))
    }

    /// One list finds the policies of all looks at a namespace that wait for it.
    async fn policy_by_uid(
        &self,
        job: &Job,
        after: ReadMoment,
    ) -> Result<Option<PolicyLive>, Arc<CallError>> {
        let (retries, api) = (self.policy, self.policies(Some(&job.namespace)));
        let call = format!("list accesspolicies in {}", job.namespace);
        let list = move |uids: BTreeSet<String>| async move {
            let mut pages = Pages::of(LONG_PAGE, ListParams::default());
            let mut found = BTreeMap::new();
            while let Some(page) = pages.next(&retries, &call, &api).await? {
                let wanted = page.into_iter().map(policy);
                let wanted = wanted.filter(|it| uids.contains(&it.owner.uid));
                found.extend(wanted.map(|it| (it.owner.uid.clone(), it)));
            }
            Ok(found)
        };
        let Job { namespace, uid } = job.clone();
        let found = self.nameless.read(namespace, uid, after, list).await?;
        Ok(found.get(&job.uid).cloned())
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

#[cfg(test)]
mod tests;
