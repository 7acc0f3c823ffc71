//! All reads. Access reviews are created and not stored.

mod follow;

use std::any::{Any, type_name};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::rc::Rc;
use std::time::Duration;

use connectors_api::access_policy::ObjectKind;
use connectors_api::{AccessPolicy, AccessRequest, names, parse};
use http::Request;
use http::header::DATE;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::client::Body;
use kube::core::ApiResource;
use kube::discovery::Scope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use service_kit::admission::rule_since;
use service_kit::gets;
use service_kit::kinds::{discovered, whole};
use service_kit::retry::{Backoff, CallError, RetryPolicy};
use service_kit::watches::{Guarded, Parse, Unreadable};
use tokio::time::Instant;

use crate::secrecy;
use crate::unread::{MissedRead, ReadOf, ReadVerb};

/// The answer to a read.
pub type ReadResult<T> = Result<T, MissedRead>;

/// An object, or why it cannot be understood.
pub type Found<K> = Result<K, Box<Unreadable>>;

/// For this product's own kinds: an unknown field is an error, because ignoring it could widen access.
#[derive(Clone, Copy, Debug)]
pub enum Strict {}

impl Parse<AccessPolicy> for Strict {
    fn parse(json: &str) -> Result<AccessPolicy, String> {
        parse::object(&tree(json)?).map_err(|error| error.to_string())
    }
}

impl Parse<AccessRequest> for Strict {
    fn parse(json: &str) -> Result<AccessRequest, String> {
        parse::object(&tree(json)?).map_err(|error| error.to_string())
    }
}

/// The parser's own message is left out, because it may quote the text.
fn tree(json: &str) -> Result<Value, String> {
    serde_json::from_str(json)
        .map_err(|error| format!("no JSON that can be read, at column {}", error.column()))
}

/// A kind as the cluster serves it.
#[derive(Clone, Debug, PartialEq)]
pub enum KindServed {
    /// There is none of this name.
    Missing,
    /// Its objects are in no namespace.
    ClusterScoped,
    /// Its objects are in namespaces.
    Namespaced {
        /// The resource of its requests.
        resource: Box<ApiResource>,
        /// Its status is written separately.
        has_status: bool,
    },
}

/// Some objects of a kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SomeObjects {
    /// The objects, whole, without `managedFields`.
    pub objects: Vec<Value>,
    /// Why one or more are missing.
    pub problem: Option<String>,
}

/// The time by the API server, which lies between the begin and the end of the call that named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTime {
    /// The time by the API server, in whole seconds.
    pub time: Timestamp,
    /// The begin of the call.
    pub asked: Instant,
    /// The end of the call.
    pub answered: Instant,
}

/// A question about access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewOf<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The subresource of connectors.
    pub subresource: &'a str,
    /// The namespace of the connector.
    pub namespace: &'a str,
    /// The connector.
    pub connector: &'a str,
}

/// Reads as one user.
#[derive(Clone)]
pub struct ClusterReads {
    client: Client,
    calls: RetryPolicy,
    /// The user entry of the kubeconfig, for errors.
    user: Option<String>,
    /// The answers so far, by their call. None if each call is made.
    known: Option<Rc<RefCell<KnownAnswers>>>,
}

/// Answers by their call.
type KnownAnswers = HashMap<String, Box<dyn Any>>;

/// The number of objects in one page where tenants write them. Each may have 1.5 MB.
const PAGE: u32 = 16;
/// The limit of bytes in all objects that one check finds. The request-controller has the same.
const MOST_LISTED: usize = 4 * 1024 * 1024;

impl ClusterReads {
    /// A reader with a limit on the time of one call. Errors name the user entry of the kubeconfig.
    #[must_use]
    pub fn new(client: Client, user: Option<String>, timeout: Duration) -> Self {
        let calls = RetryPolicy {
            attempts: 3,
            attempt: timeout,
            total: timeout,
            pauses: Backoff::new(Duration::from_millis(100), Duration::from_secs(1)),
        };
        Self {
            client,
            calls,
            user,
            known: None,
        }
    }

    /// The same, but a call that was answered is not made again. It does not keep pods and check objects.
    #[must_use]
    pub fn remembering(&self) -> Self {
        Self {
            known: Some(Rc::default()),
            ..self.clone()
        }
    }

    /// The answer to a call, from memory if it is there.
    async fn remembered<T: Clone + 'static>(
        &self,
        call: ReadOf<'_>,
        labels: &str,
        read: impl Future<Output = ReadResult<T>>,
    ) -> ReadResult<T> {
        let Some(known) = &self.known else {
            return read.await;
        };
        let key = format!("{call} {labels} {}", type_name::<T>());
        let found = known
            .borrow()
            .get(&key)
            .and_then(|it| it.downcast_ref().cloned());
        if let Some(found) = found {
            return found;
        }
        let answer = read.await;
        known.borrow_mut().insert(key, Box::new(answer.clone()));
        answer
    }

    /// An object of a kind with namespaces, if there is one.
    pub async fn one<K, P>(&self, namespace: &str, name: &str) -> ReadResult<Option<Found<K>>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + 'static,
        P: Parse<K>,
        Guarded<K, P>: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let api: Api<Guarded<K, P>> = Api::namespaced(self.client.clone(), namespace);
        let resource = resource_of::<K>();
        let read = get(&resource, namespace, name);
        let found = async {
            let found = self.call(read, || gets::find(&api, name)).await?;
            Ok(found.map(|it| it.object.map_err(Box::new)))
        };
        self.remembered(read, "", found).await
    }

    /// An object of a kind without namespaces, if there is one.
    pub async fn one_of_cluster<K>(&self, name: &str) -> ReadResult<Option<Found<K>>>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + 'static,
    {
        let api: Api<Guarded<K>> = Api::all(self.client.clone());
        let resource = resource_of::<K>();
        let read = get(&resource, "", name);
        let found = async {
            let found = self.call(read, || gets::find(&api, name)).await?;
            Ok(found.map(|it| it.object.map_err(Box::new)))
        };
        self.remembered(read, "", found).await
    }

    /// All objects of a kind with namespaces: of one namespace, or of all if it is empty. It makes one call, whatever
    /// the number of objects.
    pub async fn all<K, P>(&self, namespace: &str, labels: &str) -> ReadResult<Vec<Found<K>>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + 'static,
        P: Parse<K>,
        Guarded<K, P>: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let api: Api<Guarded<K, P>> = self.api_of(namespace);
        let resource = resource_of::<K>();
        let params = with_labels(labels);
        let read = list(&resource, namespace);
        let found = async {
            let listed = self.call(read, || api.list(&params)).await?;
            let found = listed.items.into_iter();
            Ok(found.map(|it| it.object.map_err(Box::new)).collect())
        };
        self.remembered(read, labels, found).await
    }

    /// The first objects of a kind with these labels, in one call, and whether there are more. The namespace is empty for
    /// all.
    pub async fn first<K, P>(
        &self,
        namespace: &str,
        labels: &str,
        most: u32,
    ) -> ReadResult<(Vec<Found<K>>, bool)>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug,
        P: Parse<K>,
        Guarded<K, P>: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let (found, next) = self.page::<K, P>(namespace, labels, most, None).await?;
        Ok((found, next.is_some()))
    }

    /// The same of a later page, with the token of the page after it.
    pub async fn page<K, P>(
        &self,
        namespace: &str,
        labels: &str,
        most: u32,
        token: Option<&str>,
    ) -> ReadResult<(Vec<Found<K>>, Option<String>)>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug,
        P: Parse<K>,
        Guarded<K, P>: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let api: Api<Guarded<K, P>> = self.api_of(namespace);
        let resource = resource_of::<K>();
        let mut params = with_labels(labels).limit(most);
        params.continue_token = token.map(str::to_owned);
        let read = list(&resource, namespace);
        let listed = self.call(read, || api.list(&params)).await?;
        let next = listed.metadata.continue_.filter(|it| !it.is_empty());
        let found = listed.items.into_iter();
        let found = found.map(|it| it.object.map_err(Box::new)).collect();
        Ok((found, next))
    }

    /// All objects of a kind without namespaces, in one call.
    pub async fn all_of_cluster<K>(&self) -> ReadResult<Vec<Found<K>>>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api: Api<Guarded<K>> = Api::all(self.client.clone());
        let resource = resource_of::<K>();
        let params = ListParams::default();
        let listed = self.call(list(&resource, ""), || api.list(&params)).await?;
        Ok(listed
            .items
            .into_iter()
            .map(|it| it.object.map_err(Box::new))
            .collect())
    }

    /// How the cluster serves a kind.
    pub async fn served(&self, kind: &ObjectKind) -> ReadResult<KindServed> {
        let ObjectKind { api_version, kind } = kind;
        let read = get(api_version, "", kind);
        let served = async {
            let found = self.call(read, || discovered(&self.client, api_version, kind));
            Ok(match found.await? {
                None => KindServed::Missing,
                Some((_, capabilities)) if capabilities.scope == Scope::Cluster => {
                    KindServed::ClusterScoped
                }
                Some((resource, capabilities)) => {
                    let mut parts = capabilities.subresources.iter();
                    KindServed::Namespaced {
                        has_status: parts.any(|(part, _)| part.plural == "status"),
                        resource: Box::new(resource),
                    }
                }
            })
        };
        self.remembered(read, "", served).await
    }

    /// An object of any kind with namespaces.
    pub async fn object(
        &self,
        kind: &ApiResource,
        namespace: &str,
        name: &str,
    ) -> ReadResult<Option<Found<Value>>> {
        let api: Api<Guarded<DynamicObject>> =
            Api::namespaced_with(self.client.clone(), namespace, kind);
        let resource = resource_name(&kind.plural, &kind.group);
        let read = get(&resource, namespace, name);
        let found = self.call(read, || gets::find(&api, name)).await?;
        let whole = |object| whole(object, kind);
        Ok(found.map(|it| it.object.map(whole).map_err(Box::new)))
    }

    /// Objects of any kind with these labels, up to a number and a size.
    pub async fn objects(
        &self,
        kind: &ApiResource,
        namespace: &str,
        labels: &str,
        most: usize,
    ) -> ReadResult<SomeObjects> {
        let api: Api<Guarded<DynamicObject>> =
            Api::namespaced_with(self.client.clone(), namespace, kind);
        let resource = resource_name(&kind.plural, &kind.group);
        let read = list(&resource, namespace);
        let mut params = with_labels(labels).limit(PAGE);
        let (mut found, mut weight) = (SomeObjects::default(), 0);
        loop {
            let page = self.call(read, || api.list(&params)).await?;
            let next = page.metadata.continue_.filter(|it| !it.is_empty());
            for object in page.items {
                match object.object {
                    Ok(object) => {
                        let object = whole(object, kind);
                        weight += parse::json_bytes(&object);
                        found.objects.push(object);
                    }
                    Err(unreadable) => {
                        let name = unreadable.metadata.name.unwrap_or_default();
                        found.problem = Some(format!("{} {name} cannot be read", kind.kind));
                    }
                }
            }
            let is_over = found.objects.len() > most || weight > MOST_LISTED;
            match next {
                Some(next) if !is_over => params = params.continue_token(&next),
                Some(_) => {
                    found.problem = Some(format!(
                        "there are more than {most} objects, or {MOST_LISTED} bytes of them"
                    ));
                    return Ok(found);
                }
                None => return Ok(found),
            }
        }
    }

    /// Whether an account may do something, as the API server's own authorizers say.
    pub async fn may(
        &self,
        user: &authz::User,
        question: ReviewOf<'_>,
    ) -> ReadResult<SubjectAccessReviewStatus> {
        let asked = format!("{} {question:?}", user.name);
        self.reviewed(user, attributes(question), &asked).await
    }

    /// Whether an account may list the objects of a kind in all namespaces.
    pub async fn may_list(
        &self,
        user: &authz::User,
        resource: &ApiResource,
    ) -> ReadResult<SubjectAccessReviewStatus> {
        let attributes = ResourceAttributes {
            group: Some(resource.group.clone()),
            resource: Some(resource.plural.clone()),
            verb: Some(ReadVerb::List.as_str().to_owned()),
            ..ResourceAttributes::default()
        };
        let resource = resource_name(&resource.plural, &resource.group);
        let asked = format!("{} {}", user.name, list(&resource, ""));
        self.reviewed(user, attributes, &asked).await
    }

    async fn reviewed(
        &self,
        user: &authz::User,
        attributes: ResourceAttributes,
        asked: &str,
    ) -> ReadResult<SubjectAccessReviewStatus> {
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                groups: Some(user.groups.clone()),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let read = create("subjectaccessreviews.authorization.k8s.io");
        let params = PostParams::default();
        let answer = async {
            let answer = self.call(read, || api.create(&params, &review)).await?;
            Ok(answer.status.unwrap_or_default())
        };
        self.remembered(read, asked, answer).await
    }

    /// Whether the user may do something.
    pub async fn i_may(&self, question: ReviewOf<'_>) -> ReadResult<SubjectAccessReviewStatus> {
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes(question)),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let read = create("selfsubjectaccessreviews.authorization.k8s.io");
        let params = PostParams::default();
        let answer = self.call(read, || api.create(&params, &review)).await?;
        Ok(answer.status.unwrap_or_default())
    }

    /// The user, as the API server knows it.
    pub async fn me(&self) -> ReadResult<authz::User> {
        let api: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let review = SelfSubjectReview::default();
        let read = create("selfsubjectreviews.authentication.k8s.io");
        let params = PostParams::default();
        let answer = self.call(read, || api.create(&params, &review)).await?;
        let user = answer
            .status
            .and_then(|it| it.user_info)
            .unwrap_or_default();
        Ok(authz::User {
            name: user.username.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
        })
    }

    /// The time by the API server, from the header of an answer. None if the answer names none.
    pub async fn server_time(&self) -> ReadResult<Option<ServerTime>> {
        let read = get("/version", "", "");
        let time = async || {
            let request = Request::get("/version").body(Body::empty());
            let request = request.map_err(kube::Error::HttpError)?;
            let asked = Instant::now();
            let answer = self.client.send(request).await?;
            let answered = Instant::now();
            let date = answer.headers().get(DATE).and_then(|it| it.to_str().ok());
            let date = date.and_then(|it| rfc2822::parse(it).ok());
            Ok(date.map(|it| ServerTime {
                time: it.timestamp(),
                asked,
                answered,
            }))
        };
        self.call(read, time).await
    }

    /// The time since which the admission rule that protects the creators of pipeline runs is in force.
    pub async fn creators_since(&self) -> ReadResult<Option<Timestamp>> {
        let read = get(
            "validatingadmissionpolicies.admissionregistration.k8s.io",
            "",
            names::CREATOR_RULE,
        );
        let since = async {
            let since = rule_since(&self.client, &self.calls, names::CREATOR_RULE).await;
            since.map_err(|error| self.unread(read, &error))
        };
        self.remembered(read, "", since).await
    }

    /// The objects of a namespace; of all of them if it is empty.
    fn api_of<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        if namespace.is_empty() {
            Api::all(self.client.clone())
        } else {
            Api::namespaced(self.client.clone(), namespace)
        }
    }

    async fn call<T, F, A>(&self, read: ReadOf<'_>, attempt: A) -> ReadResult<T>
    where
        A: FnMut() -> F,
        F: Future<Output = Result<T, kube::Error>>,
    {
        let called = self.calls.call(read, attempt).await;
        called.map_err(|error| self.unread(read, &error))
    }

    fn unread(&self, read: ReadOf<'_>, error: &CallError) -> MissedRead {
        let told = secrecy::told(error, self.user.as_deref());
        MissedRead::of(read, error.status(), &told)
    }
}

const fn get<'a>(resource: &'a str, namespace: &'a str, name: &'a str) -> ReadOf<'a> {
    ReadOf {
        verb: ReadVerb::Get,
        resource,
        namespace,
        name,
    }
}

const fn list<'a>(resource: &'a str, namespace: &'a str) -> ReadOf<'a> {
    ReadOf {
        verb: ReadVerb::List,
        resource,
        namespace,
        name: "",
    }
}

const fn create(resource: &str) -> ReadOf<'_> {
    ReadOf {
        verb: ReadVerb::Create,
        resource,
        namespace: "",
        name: "",
    }
}

fn with_labels(labels: &str) -> ListParams {
    if labels.is_empty() {
        ListParams::default()
    } else {
        ListParams::default().labels(labels)
    }
}

fn resource_of<K: Resource<DynamicType = ()>>() -> String {
    resource_name(&K::plural(&()), &K::group(&()))
}

/// The name that RBAC uses.
fn resource_name(plural: &impl Display, group: &str) -> String {
    if group.is_empty() {
        plural.to_string()
    } else {
        format!("{plural}.{group}")
    }
}

fn attributes(question: ReviewOf<'_>) -> ResourceAttributes {
    let ReviewOf {
        verb,
        subresource,
        namespace,
        connector,
    } = question;
    ResourceAttributes {
        group: Some(names::GROUP.to_owned()),
        resource: Some(names::CONNECTORS.to_owned()),
        subresource: Some(subresource.to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(connector.to_owned()),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    }
}

#[cfg(test)]
mod call_tests;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::testing;

    /// A reader, and the number of calls that it has made. Each call is answered with yes.
    fn reader() -> (ClusterReads, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let client = testing::client(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let answer = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": {},
                "status": {"allowed": true},
            });
            (200, answer)
        });
        let reads = ClusterReads::new(client, None, Duration::from_secs(5));
        (reads.remembering(), calls)
    }

    fn user(name: &str) -> authz::User {
        authz::User {
            name: name.to_owned(),
            groups: Vec::new(),
        }
    }

    #[tokio::test]
    async fn an_answer_about_access_counts_for_its_own_question_alone() {
        let question = ReviewOf {
            verb: "get",
            subresource: "apis",
            namespace: "tools",
            connector: "harbor",
        };
        let (reads, calls) = reader();
        let different = [
            ("alice", question),
            ("alic", question),
            (
                "alice",
                ReviewOf {
                    verb: "create",
                    ..question
                },
            ),
            (
                "alice",
                ReviewOf {
                    subresource: "proxy",
                    ..question
                },
            ),
            (
                "alice",
                ReviewOf {
                    namespace: "tools2",
                    ..question
                },
            ),
            (
                "alice",
                ReviewOf {
                    connector: "harbo",
                    ..question
                },
            ),
        ];
        for (name, question) in different {
            let before = calls.load(Ordering::SeqCst);
            for _ in 0..2 {
                assert!(reads.may(&user(name), question).await.unwrap().allowed);
            }
            let asked = calls.load(Ordering::SeqCst) - before;
            assert_eq!(asked, 1, "{name} {question:?}");
        }
    }
}
