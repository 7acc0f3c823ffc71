//! Live reads, which bypass every cache: without a resource version in the request, the API server answers with the
//! newest state. One read for looks from the caches has a version, and its name says so.

mod gated;

use connectors_api::{AccessPolicy, AccessRequest, connector, names};
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Namespace, Pod, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams},
    core::ApiResource,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use service_kit::{
    admission::rule_since,
    gets,
    kinds::whole,
    lists::Pages,
    retry::{CallError, RetryPolicy},
    watches::{Guarded, Labelled, Named, Parse, Plain, Unreadable},
};
use std::{fmt::Debug, time::Duration};
use thiserror::Error;
use tokio::time::timeout;

use super::{Name, Strict};
use crate::check_object::{AsText, CheckObject, NamedCheck};
use crate::seen::{GrantKind, Managed, ManagedObject, Unread};

/// Reads from the API server.
#[derive(Clone)]
pub struct Live {
    client: Client,
    policy: RetryPolicy,
}

/// The limit of bytes in all objects that one check finds.
pub const MOST_LISTED: usize = 4 * 1024 * 1024;
/// Objects per page of such a list. A tenant's object may have 1.5 MB, and few objects have the labels of one run.
const PAGE: u32 = 8;
/// An API server that takes longer for an object of its memory does not have the version yet.
const FROM_MEMORY: Duration = Duration::from_secs(1);
/// Policies per page: at most 2 MiB of text.
pub const POLICY_PAGE: u32 = 32;
/// Objects per page of the lists of a sweep. A page is in memory as a whole, and its objects are several times as large as
/// their text.
const SWEEP_PAGE: u32 = 100;

/// The reason why objects of a tenant's kind were not listed.
#[derive(Debug, Error)]
pub enum NotListed {
    /// The kind does not exist.
    #[error("there is no such kind")]
    Missing,
    /// The kind may not be read.
    #[error("the kind may not be read")]
    Forbidden,
    /// One of the objects cannot be read.
    #[error("{0} cannot be read")]
    Unreadable(String),
    /// The objects exceed the limit.
    #[error("there are more than {0} bytes of them")]
    TooMuch(usize),
    /// The call failed.
    #[error(transparent)]
    Call(CallError),
}

impl From<CallError> for NotListed {
    fn from(error: CallError) -> Self {
        match error.status() {
            Some(404) => Self::Missing,
            Some(403) => Self::Forbidden,
            Some(_) | None => Self::Call(error),
        }
    }
}

/// An object that may be absent (`None`) or unreadable (`Err`).
type MaybeObject<K> = Result<Option<Result<K, Box<Unreadable>>>, CallError>;

impl Live {
    /// Constructs the reader from a client and a retry policy.
    #[must_use]
    pub const fn new(client: Client, policy: RetryPolicy) -> Self {
        Self { client, policy }
    }

    /// The client.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// A request.
    pub async fn request(&self, name: &Name) -> MaybeObject<AccessRequest> {
        self.get::<AccessRequest, Strict>(name).await
    }

    /// A pod with all its fields.
    pub async fn pod(&self, name: &Name) -> MaybeObject<Value> {
        self.object(&ApiResource::erase::<Pod>(&()), name).await
    }

    /// The same, no older than a version that the caches have seen. An API server whose memory lags waits until it has that
    /// version, so the newest one is read instead.
    pub async fn pod_since(&self, name: &Name, version: &str) -> MaybeObject<Value> {
        let kind = ApiResource::erase::<Pod>(&());
        let api: Api<Guarded<DynamicObject>> =
            Api::namespaced_with(self.client.clone(), &name.namespace, &kind);
        let found = gets::find_since(&api, &name.name, version);
        let Ok(Ok(found)) = timeout(FROM_MEMORY, found).await else {
            return self.pod(name).await;
        };
        Ok(found.map(|it| whole_object(it, &kind)))
    }

    /// The metadata of a connector.
    pub async fn connector(&self, name: &Name) -> MaybeObject<connector::Selectable> {
        self.get::<connector::Selectable, Labelled>(name).await
    }

    /// The metadata of a service account.
    pub async fn account(&self, name: &Name) -> MaybeObject<ServiceAccount> {
        self.get::<ServiceAccount, Named>(name).await
    }

    /// The metadata of a namespace.
    pub async fn namespace(&self, name: &str) -> MaybeObject<Namespace> {
        let api: Api<Guarded<Namespace, Named>> = Api::all(self.client.clone());
        let call = format!("get namespace {name}");
        let found = self.policy.call(call, || gets::find(&api, name)).await?;
        Ok(found.map(|it| it.object.map_err(Box::new)))
    }

    /// A policy.
    pub async fn policy(&self, name: &Name) -> MaybeObject<AccessPolicy> {
        self.get::<AccessPolicy, Strict>(name).await
    }

    /// Lists the policies of a namespace and collects the results of `keep`. Policies are long, so at most one page
    /// of them is in memory.
    pub async fn policies<T: Send>(
        &self,
        namespace: &str,
        mut keep: impl FnMut(Result<AccessPolicy, Box<Unreadable>>) -> Option<T> + Send,
    ) -> Result<Vec<T>, CallError> {
        let api = Api::namespaced(self.client.clone(), namespace);
        let call = format!("list accesspolicies in {namespace}");
        let pages = Pages::of(POLICY_PAGE, ListParams::default());
        self.page_by_page(pages, call, api, |it| keep(readable(it)))
            .await
    }

    /// Lists the requests of the cluster and collects the results of `keep`. There may be thousands, so at most one
    /// page of them is in memory.
    pub async fn requests<T: Send>(
        &self,
        mut keep: impl FnMut(Result<AccessRequest, Box<Unreadable>>) -> Option<T> + Send,
    ) -> Result<Vec<T>, CallError> {
        let api = Api::all(self.client.clone());
        let call = "list accessrequests".to_owned();
        let pages = Pages::of(SWEEP_PAGE, ListParams::default());
        self.page_by_page(pages, call, api, |it| keep(readable(it)))
            .await
    }

    /// A Role or a RoleBinding.
    pub async fn grant(&self, kind: GrantKind, name: &Name) -> Result<Option<Managed>, CallError> {
        Ok(match kind {
            GrantKind::Role => {
                let found = self.guarded::<Role, Plain>(name);
                found.await?.map(role)
            }
            GrantKind::RoleBinding => {
                let found = self.guarded::<RoleBinding, Plain>(name);
                found.await?.map(binding)
            }
        })
    }

    /// The kept part of every Role or RoleBinding of the cluster with these labels. The objects of one page at a time are in
    /// memory.
    pub async fn grants<T: Send>(
        &self,
        kind: GrantKind,
        labels: &str,
        mut keep: impl FnMut(&Managed) -> T + Send,
    ) -> Result<Vec<T>, CallError> {
        let pages = Pages::of(SWEEP_PAGE, ListParams::default().labels(labels));
        let call = format!("list managed {}s", kind.as_str());
        let client = self.client.clone();
        match kind {
            GrantKind::Role => {
                let keep = |it: Guarded<Role>| Some(keep(&role(it)));
                self.page_by_page(pages, call, Api::all(client), keep).await
            }
            GrantKind::RoleBinding => {
                let keep = |it: Guarded<RoleBinding>| Some(keep(&binding(it)));
                self.page_by_page(pages, call, Api::all(client), keep).await
            }
        }
    }

    /// Since when an admission rule keeps the creators of pipeline runs true. None if no such rule refuses anything.
    pub async fn creators_since(&self) -> Result<Option<Timestamp>, CallError> {
        rule_since(&self.client, &self.policy, names::CREATOR_RULE).await
    }

    /// An object of any kind.
    pub async fn object(&self, kind: &ApiResource, name: &Name) -> MaybeObject<Value> {
        let api: Api<Guarded<DynamicObject>> =
            Api::namespaced_with(self.client.clone(), &name.namespace, kind);
        let call = format!("get {} {name}", kind.kind);
        let found = self
            .policy
            .call(call, || gets::find(&api, &name.name))
            .await?;
        Ok(found.map(|it| whole_object(it, kind)))
    }

    /// An object for a check.
    pub async fn check_object(&self, kind: &ApiResource, name: &Name) -> MaybeObject<CheckObject> {
        let api: Api<Guarded<NamedCheck, AsText>> =
            Api::namespaced_with(self.client.clone(), &name.namespace, kind);
        let call = format!("get {} {name}", kind.kind);
        let found = self
            .policy
            .call(call, || gets::find(&api, &name.name))
            .await?;
        let of_kind = |it: NamedCheck| it.object.of_kind(kind);
        Ok(found.map(|it| it.object.map(of_kind).map_err(Box::new)))
    }

    /// Objects for a check, selected by their labels, up to so many bytes.
    pub async fn check_objects(
        &self,
        kind: &ApiResource,
        namespace: &str,
        labels: &str,
        most: usize,
    ) -> Result<Vec<CheckObject>, NotListed> {
        let api: Api<Guarded<NamedCheck, AsText>> =
            Api::namespaced_with(self.client.clone(), namespace, kind);
        let call = format!("list {} in {namespace}", kind.plural);
        let params = ListParams::default().labels(labels);
        let (mut found, mut weight) = (Vec::new(), 0);
        let mut pages = Pages::of(PAGE, params);
        while let Some(page) = pages.next(&self.policy, &call, &api).await? {
            for object in page {
                let object = object.object.map_err(|unreadable| {
                    NotListed::Unreadable(unreadable.metadata.name.unwrap_or_default())
                })?;
                let object = object.object.of_kind(kind);
                weight += object.weight();
                if weight > most {
                    return Err(NotListed::TooMuch(most));
                }
                found.push(object);
            }
        }
        Ok(found)
    }

    async fn get<K, P>(&self, name: &Name) -> MaybeObject<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope> + Clone + Debug,
        K::DynamicType: Default,
        P: Parse<K>,
        Guarded<K, P>: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = K::DynamicType>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let found = self.guarded::<K, P>(name).await?;
        Ok(found.map(|it| it.object.map_err(Box::new)))
    }

    async fn guarded<K, P>(&self, name: &Name) -> Result<Option<Guarded<K, P>>, CallError>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope> + Clone + Debug,
        K::DynamicType: Default,
        P: Parse<K>,
        Guarded<K, P>: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = K::DynamicType>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let api: Api<Guarded<K, P>> = Api::namespaced(self.client.clone(), &name.namespace);
        let kind = K::kind(&K::DynamicType::default()).to_lowercase();
        let call = format!("get {kind} {name}");
        self.policy
            .call(call, || gets::find(&api, &name.name))
            .await
    }

    /// Collects the results of `keep` for all objects of a list. The objects of one page at a time are in memory.
    async fn page_by_page<O, T: Send>(
        &self,
        mut pages: Pages,
        call: String,
        api: Api<O>,
        mut keep: impl FnMut(O) -> Option<T> + Send,
    ) -> Result<Vec<T>, CallError>
    where
        O: Clone + Debug + DeserializeOwned + Send,
    {
        let mut kept = Vec::new();
        while let Some(page) = pages.next(&self.policy, &call, &api).await? {
            kept.extend(page.into_iter().filter_map(&mut keep));
        }
        Ok(kept)
    }
}

/// The object that was read, as a whole one of its kind.
fn whole_object(
    guarded: Guarded<DynamicObject>,
    kind: &ApiResource,
) -> Result<Value, Box<Unreadable>> {
    let read = |object| whole(object, kind);
    guarded.object.map(read).map_err(Box::new)
}

/// The object, or the reason why it is unreadable.
fn readable<K>(guarded: Guarded<K, Strict>) -> Result<K, Box<Unreadable>> {
    guarded.object.map_err(Box::new)
}

/// Converts a Role into a managed object.
#[must_use]
pub fn role(guarded: Guarded<Role>) -> Managed {
    let metadata = guarded.meta().clone();
    Managed {
        object: ManagedObject::Role(guarded.object.map_err(|_| Unread)),
        metadata,
    }
}

/// Converts a RoleBinding into a managed object.
#[must_use]
pub fn binding(guarded: Guarded<RoleBinding>) -> Managed {
    let metadata = guarded.meta().clone();
    Managed {
        object: ManagedObject::RoleBinding(guarded.object.map_err(|_| Unread)),
        metadata,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use service_kit::retry::Backoff;

    use super::*;

    const ONCE: RetryPolicy = RetryPolicy {
        attempts: 1,
        attempt: Duration::from_secs(1),
        total: Duration::from_secs(1),
        pauses: Backoff::new(Duration::ZERO, Duration::ZERO),
    };

    /// An object that can be read as one of every kind, with a text of so many bytes.
    fn item(number: usize, bytes: usize) -> Value {
        json!({
            "metadata": {"name": format!("o{number}"), "namespace": "tools", "uid": "u"},
            "spec": {}, "rules": [], "data": "x".repeat(bytes),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        })
    }

    /// A fake API server with these objects of each kind. It returns as many per page as the request asks for.
    fn serving(items: Vec<Value>) -> Live {
        let server = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let of = |key: &str| {
                let mut pairs = query.split('&').filter_map(|it| it.split_once('='));
                pairs.find(|(it, _)| *it == key)?.1.parse::<usize>().ok()
            };
            let from = of("continue").unwrap_or(0);
            let count = items.len();
            let to = count.min(from + of("limit").unwrap_or(count));
            let next = if to < count {
                to.to_string()
            } else {
                String::new()
            };
            let page = json!({"metadata": {"continue": next}, "items": &items[from..to]});
            async move { Ok::<_, Infallible>(Response::new(Body::from(page.to_string().into_bytes()))) }
        });
        Live::new(Client::new(server, "default"), ONCE)
    }

    #[tokio::test]
    async fn a_list_has_all_of_its_pages_whatever_they_are_about() {
        let kind = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        for page in [PAGE, POLICY_PAGE, SWEEP_PAGE] {
            let page = usize::try_from(page).unwrap();
            for count in [0, 1, page, page + 1, 2 * page, 3 * page + 1] {
                let live = serving((0..count).map(|it| item(it, 0)).collect());
                let found = live
                    .check_objects(&kind, "apps", "a=b", MOST_LISTED)
                    .await
                    .unwrap();
                assert_eq!(found.len(), count, "check objects");
                let found = live.policies("tools", |it| Some(it.is_ok())).await;
                assert_eq!(found.unwrap().len(), count, "policies");
                let found = live.requests(|it| Some(it.is_ok())).await;
                assert_eq!(found.unwrap().len(), count, "requests");
                for kind in [GrantKind::Role, GrantKind::RoleBinding] {
                    let found = live.grants(kind, "a=b", Managed::kind).await.unwrap();
                    assert_eq!(found, vec![kind; count]);
                }
            }
        }
    }

    #[tokio::test]
    async fn objects_of_a_check_fill_the_limit_exactly_and_one_byte_more_is_too_much() {
        let kind = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let empty = AsText::parse(&item(10, 0).to_string()).unwrap().object;
        let empty = empty.of_kind(&kind).weight();
        let count = 32;
        for more in [0, 1] {
            // All names have the same length.
            let mut items: Vec<_> = (10..10 + count)
                .map(|it| item(it, MOST_LISTED / count - empty))
                .collect();
            items[0] = item(10, MOST_LISTED / count - empty + more);
            let live = serving(items);
            let found = live.check_objects(&kind, "apps", "a=b", MOST_LISTED).await;
            match found {
                Ok(found) => assert_eq!((found.len(), more), (count, 0)),
                Err(error) => assert!(
                    matches!(error, NotListed::TooMuch(_)) && more == 1,
                    "{error}"
                ),
            }
        }
    }

    #[tokio::test]
    async fn long_policies_are_read_a_few_at_a_time() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let queries = Arc::clone(&asked);
        let server = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let (name, next) = if query.contains("continue=second") {
                ("b", "")
            } else {
                ("a", "second")
            };
            queries.lock().unwrap().push(query);
            let page = json!({
                "metadata": {"continue": next},
                "items": [{"metadata": {"name": name}, "spec": {"permission": "Read"}}],
            });
            async move { Ok::<_, Infallible>(Response::new(Body::from(page.to_string().into_bytes()))) }
        });
        let live = Live::new(Client::new(server, "default"), ONCE);
        let mut seen = 0;
        let keep = |policy: Result<AccessPolicy, Box<Unreadable>>| {
            seen += 1;
            let name = policy.map_or_else(|it| it.metadata.name, |it| it.metadata.name);
            name.filter(|it| it == "b")
        };
        assert_eq!(live.policies("tools", keep).await.unwrap(), ["b"]);
        assert_eq!(seen, 2);
        let asked = asked.lock().unwrap();
        let limit = format!("limit={POLICY_PAGE}");
        assert!(asked.len() == 2 && asked.iter().all(|it| it.contains(&limit)));
    }
}
