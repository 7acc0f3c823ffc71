//! Reads the inputs of an explanation. The number of calls depends on the pod's connectors, on the policies that
//! apply and on their checks. It does not depend on the number of requests.

use std::collections::BTreeMap;
use std::slice;

use connectors_api::access_policy::SubjectSpec;
use connectors_api::access_request::Phase;
use connectors_api::config::{CONFIG_MAP, Knowledge};
use connectors_api::connector::Selectable;
use connectors_api::labels::{ACCESS_REQUEST_UID, CONTEXT_OBJECT_UID};
use connectors_api::names::CSI_DRIVER;
use connectors_api::pod_grant::RequestFacts;
use connectors_api::pod_wish::attributes::OnRejected;
use connectors_api::pod_wish::{self, ConnectorKey, VolumeAttributes};
use connectors_api::policy_words::looks_at_account;
use connectors_api::request_name::RequestIdentity;
use connectors_api::request_order;
use connectors_api::{AccessPolicy, AccessPolicySpec, AccessRequest, AccessResource, Permission};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount, Volume};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::core::ApiResource;
use serde_json::Value;
use service_kit::watches::{Labelled, Named, Plain};

use super::ANY_VERB;
use super::force::GrantRead;
use super::seen::{AccessRead, Labels, Observed, PodRead, PolicyRead, text};
use crate::deciding;
use crate::reads::{ClusterReads, Found, ReadResult, ReviewOf, Strict};
use crate::terms::NamespacedName;
use crate::unread::{MissedRead, Presence, known};

/// The limit of RoleBindings of one request that are read. The controller writes one for each policy that grants.
const MOST_BINDINGS: u32 = 128;
/// The account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// Why there is nothing to explain.
#[derive(Debug, PartialEq, Eq)]
pub enum NothingToExplain {
    /// The object does not exist.
    Missing(String),
    /// It could not be read.
    Unread(MissedRead),
}

impl From<MissedRead> for NothingToExplain {
    fn from(unread: MissedRead) -> Self {
        Self::Unread(unread)
    }
}

/// Whether the API server is asked about accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessReviews {
    /// It is.
    Asked,
    /// The present rights of accounts and pods do not matter.
    LeftOut,
}

/// The reads beside a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLook<'a> {
    /// Whether the API server is asked what the account and the pod may do.
    pub(super) reviews: AccessReviews,
    /// Further policies that may select accounts and namespaces by their labels.
    pub(super) others: &'a [AccessPolicy],
}

impl RequestLook<'_> {
    /// With reviews, and of the policies of the cluster alone.
    const USUAL: Self = Self {
        reviews: AccessReviews::Asked,
        others: &[],
    };
}

/// The access that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WantedAccess {
    connector: ConnectorKey,
    permission: Permission,
    /// A volume with it asks for an error file in place of a mount that fails.
    has_error_file: bool,
}

/// Observes a pod with all its connectors.
pub(super) async fn pod(
    reads: &ClusterReads,
    system_namespace: &str,
    name: NamespacedName,
    verb: &str,
) -> Result<Observed, NothingToExplain> {
    let found = reads.object(&pods(), &name.namespace, &name.name).await?;
    let Some(Ok(object)) = found else {
        return Err(NothingToExplain::Missing(format!("there is no pod {name}")));
    };
    let account = account_of(&object, &name.namespace);
    let (wanted, problems) = wanted(&object, &name.namespace);
    let pod = PodRead {
        uid: text(&object, "/metadata/uid").map(str::to_owned),
        object: Some(object),
        is_known: true,
        name,
    };
    let mut observer = Observer::new(reads, system_namespace, account, Some(pod));
    observer.verb = verb;
    Ok(observer.observe(wanted, problems).await)
}

/// Observes the pod and the connector of a request.
pub(super) async fn request(
    reads: &ClusterReads,
    system_namespace: &str,
    name: NamespacedName,
) -> Result<Observed, NothingToExplain> {
    let found = reads.one::<AccessRequest, Strict>(&name.namespace, &name.name);
    let request = match found.await? {
        Some(Ok(request)) => request,
        Some(Err(unreadable)) => {
            let message = format!("the AccessRequest {name} cannot be read: {unreadable}");
            return Err(NothingToExplain::Missing(message));
        }
        None => {
            let message = format!("there is no AccessRequest {name}");
            return Err(NothingToExplain::Missing(message));
        }
    };
    Ok(request_read(reads, system_namespace, request, RequestLook::USUAL).await)
}

/// The same of a request that was read.
pub(super) async fn request_read(
    reads: &ClusterReads,
    system_namespace: &str,
    request: AccessRequest,
    look: RequestLook<'_>,
) -> Observed {
    let spec = &request.spec;
    let context = &spec.context.object_ref;
    let account = NamespacedName::new(spec.subject_namespace(), &spec.subject.name);
    let pod_name = NamespacedName::new(&context.namespace, &context.name);
    let mut wanted = WantedAccess {
        connector: ConnectorKey {
            namespace: request.metadata.namespace.clone().unwrap_or_default(),
            name: spec.connector_ref.name.clone(),
        },
        permission: spec.permission,
        has_error_file: false,
    };
    let mut unread = Vec::new();
    let kind = pods();
    let found = reads.object(&kind, &context.namespace, &context.name);
    let found = known(found.await, &mut unread);
    let is_same =
        |pod: &Value| context.uid.is_none() || text(pod, "/metadata/uid") == context.uid.as_deref();
    let pod = PodRead {
        name: pod_name,
        uid: context.uid.clone(),
        is_known: found.is_some(),
        object: found.flatten().and_then(Result::ok).filter(is_same),
    };
    let (of_pod, _) = match &pod.object {
        Some(object) => self::wanted(object, &context.namespace),
        None => Default::default(),
    };
    let mut of_pod = of_pod.iter();
    let is_it =
        |it: &&WantedAccess| it.connector == wanted.connector && it.permission == wanted.permission;
    wanted.has_error_file = of_pod.find(is_it).is_some_and(|it| it.has_error_file);
    let mut observer = Observer::new(reads, system_namespace, account, Some(pod));
    observer.unread = unread;
    observer.request = Some(request);
    observer.look = look;
    observer.observe(vec![wanted], Vec::new()).await
}

/// Observes a connector and an account, without a pod.
pub(super) async fn connector(
    reads: &ClusterReads,
    system_namespace: &str,
    connector: ConnectorKey,
    permission: Permission,
    account: NamespacedName,
) -> Observed {
    let wanted = WantedAccess {
        connector,
        permission,
        has_error_file: false,
    };
    let observer = Observer::new(reads, system_namespace, account, None);
    observer.observe(vec![wanted], Vec::new()).await
}

/// The connectors that a pod names in its volumes, and the mistakes in the other volumes.
fn wanted(pod: &Value, namespace: &str) -> (Vec<WantedAccess>, Vec<String>) {
    let (mut wanted, mut problems) = (Vec::new(), Vec::new());
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    for volume in volumes.into_iter().flatten() {
        let volume: Volume = match serde_json::from_value(volume.clone()) {
            Ok(volume) => volume,
            Err(error) => {
                problems.push(format!("a volume cannot be read: {error}"));
                continue;
            }
        };
        match pod_wish::wanted(namespace, slice::from_ref(&volume)) {
            Ok(found) => {
                let has_error_file = asks_for_error_file(namespace, &volume);
                for (connector, permission) in found {
                    let mut known = wanted.iter_mut();
                    let is_it = |it: &&mut WantedAccess| {
                        it.connector == connector && it.permission == permission
                    };
                    if let Some(known) = known.find(is_it) {
                        known.has_error_file |= has_error_file;
                    } else {
                        wanted.push(WantedAccess {
                            connector,
                            permission,
                            has_error_file,
                        });
                    }
                }
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    (wanted, problems)
}

/// True when a volume of a pod in this namespace holds an error file if the pod is refused.
fn asks_for_error_file(namespace: &str, volume: &Volume) -> bool {
    let csi = volume.csi.iter().filter(|it| it.driver == CSI_DRIVER);
    csi.filter_map(|it| {
        let attributes = it.volume_attributes.iter().flatten();
        VolumeAttributes::parse(namespace, attributes).ok()
    })
    .any(|it| it.options.on_rejected == OnRejected::ErrorFile)
}

fn account_of(pod: &Value, namespace: &str) -> NamespacedName {
    let name = text(pod, "/spec/serviceAccountName").filter(|it| !it.is_empty());
    NamespacedName::new(namespace, name.unwrap_or(DEFAULT_ACCOUNT))
}

fn pods() -> ApiResource {
    ApiResource::erase::<Pod>(&())
}

/// The objects that are read once for all connectors.
struct Observer<'a> {
    reads: &'a ClusterReads,
    system_namespace: &'a str,
    account: NamespacedName,
    pod: Option<PodRead>,
    /// The verb of the question.
    verb: &'a str,
    /// The request that is asked about.
    request: Option<AccessRequest>,
    /// The reads beside it.
    look: RequestLook<'a>,
    unread: Vec<MissedRead>,
}

/// The objects of one namespace of connectors.
struct NamespaceRead {
    policies: Option<Vec<Found<AccessPolicy>>>,
    requests: Option<Vec<AccessRequest>>,
}

impl<'a> Observer<'a> {
    fn new(
        reads: &'a ClusterReads,
        system_namespace: &'a str,
        account: NamespacedName,
        pod: Option<PodRead>,
    ) -> Self {
        Self {
            reads,
            system_namespace,
            account,
            pod,
            verb: ANY_VERB,
            request: None,
            look: RequestLook::USUAL,
            unread: Vec::new(),
        }
    }

    async fn observe(mut self, wanted: Vec<WantedAccess>, problems: Vec<String>) -> Observed {
        let settings = settings(self.reads, self.system_namespace, &mut self.unread).await;
        let mut namespaces: BTreeMap<String, NamespaceRead> = BTreeMap::new();
        for WantedAccess { connector, .. } in &wanted {
            if !namespaces.contains_key(&connector.namespace) {
                let read = self.namespace(&connector.namespace).await;
                namespaces.insert(connector.namespace.clone(), read);
            }
        }
        let specs = || {
            let policies = namespaces.values().filter_map(|it| it.policies.as_ref());
            let policies = policies.flatten().flatten();
            policies.chain(self.look.others).map(|it| &it.spec)
        };
        let needs_account = specs().any(looks_at_account);
        let needs_namespace = specs().any(looks_at_namespace);
        let account_labels = if needs_account {
            self.account_labels().await
        } else {
            None
        };
        let namespace_labels = if needs_namespace {
            self.namespace_labels().await
        } else {
            None
        };
        let mut accesses = Vec::new();
        for wanted in wanted {
            let namespace = namespaces.get(&wanted.connector.namespace);
            accesses.push(self.access(wanted, namespace).await);
        }
        Observed {
            pod: self.pod,
            account: self.account,
            system_namespace: self.system_namespace.to_owned(),
            settings,
            account_labels,
            namespace_labels,
            problems,
            accesses,
            kinds: BTreeMap::new(),
            unread: self.unread,
        }
    }

    fn known<T>(&mut self, read: ReadResult<T>) -> Option<T> {
        known(read, &mut self.unread)
    }

    async fn namespace(&mut self, namespace: &str) -> NamespaceRead {
        let policies = self.reads.all::<AccessPolicy, Strict>(namespace, "").await;
        let policies = self.known(policies);
        let uid = self.pod.as_ref().and_then(|it| it.uid.clone());
        let requests = match uid {
            Some(uid) if self.request.is_none() => {
                let labels = format!("{CONTEXT_OBJECT_UID}={uid}");
                let listed = self.reads.all::<AccessRequest, Strict>(namespace, &labels);
                let listed = listed.await;
                let listed = self.known(listed);
                listed.map(|it| it.into_iter().flatten().collect())
            }
            Some(_) | None => Some(Vec::new()),
        };
        NamespaceRead { policies, requests }
    }

    async fn account_labels(&mut self) -> Option<Labels> {
        let NamespacedName { namespace, name } = &self.account;
        let found = self.reads.one::<ServiceAccount, Named>(namespace, name);
        let found = found.await;
        let account = self.known(found)??.ok()?;
        Some(account.metadata.labels.unwrap_or_default())
    }

    async fn namespace_labels(&mut self) -> Option<Labels> {
        let found = self
            .reads
            .one_of_cluster::<Namespace>(&self.account.namespace)
            .await;
        let namespace = self.known(found)??.ok()?;
        Some(namespace.metadata.labels.unwrap_or_default())
    }

    async fn access(
        &mut self,
        wanted: WantedAccess,
        namespace: Option<&NamespaceRead>,
    ) -> AccessRead {
        let WantedAccess {
            connector,
            permission,
            has_error_file,
        } = wanted;
        let found = self
            .reads
            .one::<Selectable, Labelled>(&connector.namespace, &connector.name);
        let is_there = |it: &Selectable| it.metadata.deletion_timestamp.is_none();
        let found = found
            .await
            .map(|found| found.and_then(Result::ok).filter(is_there));
        let (labels, uid) = match Presence::of(found, &mut self.unread) {
            Presence::Unread => (Presence::Unread, None),
            Presence::Absent => (Presence::Absent, None),
            Presence::There(it) => {
                let labels = it.metadata.labels.unwrap_or_default();
                (Presence::There(labels), it.metadata.uid)
            }
        };
        let user = authz::User::service_account(&self.account.namespace, &self.account.name);
        let question = ReviewOf {
            verb: self.verb,
            subresource: permission.as_str(),
            namespace: &connector.namespace,
            connector: &connector.name,
        };
        let standing = match self.look.reviews {
            AccessReviews::LeftOut => None,
            AccessReviews::Asked => {
                let review = self.reads.may(&user, question).await;
                let review = self.known(review);
                review.map(|it| (it.allowed, it.reason.unwrap_or_default()))
            }
        };
        let listed = namespace.and_then(|it| it.requests.as_ref());
        let request = if let Some(request) = &self.request {
            Presence::There(Box::new(request.clone()))
        } else if let Some(listed) = listed {
            self.deciding(listed, &connector, permission).await
        } else {
            Presence::Unread
        };
        let grant = match request.there() {
            Some(request)
                if request.phase() == Some(Phase::Granted)
                    && self.look.reviews == AccessReviews::Asked =>
            {
                let decides = self.decides(request, &connector).await;
                Some(self.grant(request, decides, &user, question).await)
            }
            Some(_) | None => None,
        };
        let status = request.there().and_then(|it| it.status.as_ref());
        let pinned = status.and_then(|it| it.connector_uid.as_ref());
        let is_replaced = pinned.is_some() && uid.is_some() && pinned != uid.as_ref();
        let policies = namespace.and_then(|it| it.policies.as_ref());
        let policies = policies.map(|all| {
            let mut all: Vec<_> = all.iter().cloned().map(PolicyRead::of).collect();
            all.sort_by(|a, b| a.name.cmp(&b.name));
            all
        });
        AccessRead {
            connector,
            permission,
            has_error_file,
            labels,
            is_replaced,
            standing,
            request,
            grant,
            policies,
        }
    }

    /// The objects behind the grant of a request, and the API server's answer to the question of its pod.
    async fn grant(
        &mut self,
        request: &AccessRequest,
        decides: Option<bool>,
        user: &authz::User,
        question: ReviewOf<'_>,
    ) -> GrantRead {
        let labels = format!(
            "{ACCESS_REQUEST_UID}={}",
            RequestFacts::uid(request).unwrap_or_default()
        );
        let bindings =
            self.reads
                .first::<RoleBinding, Plain>(question.namespace, &labels, MOST_BINDINGS);
        let bindings = bindings.await;
        let (bindings, is_cut) = self.known(bindings).unzip();
        let subresource = AccessResource::subresource_of_pod(
            request.spec.permission,
            &request.spec.context.object_ref.namespace,
            request.pod_name(),
        );
        let review = ReviewOf {
            subresource: &subresource,
            ..question
        };
        let review = self.reads.may(user, review).await;
        GrantRead {
            decides,
            bindings,
            is_cut: is_cut.unwrap_or_default(),
            allowed: self.known(review).map(|it| it.allowed),
        }
    }

    /// Whether a request decides for its pod. One that was looked for does, and one that is asked about may not.
    async fn decides(&mut self, request: &AccessRequest, connector: &ConnectorKey) -> Option<bool> {
        if self.request.is_none() {
            return Some(true);
        }
        let uid = request.spec.context.object_ref.uid.as_deref();
        let labels = format!("{CONTEXT_OBJECT_UID}={}", uid.unwrap_or_default());
        let listed = self
            .reads
            .all::<AccessRequest, Strict>(&connector.namespace, &labels);
        let listed = listed.await;
        let mut about: Vec<AccessRequest> = self.known(listed)?.into_iter().flatten().collect();
        about.push(request.clone());
        let permission = request.spec.permission;
        match self.deciding(&about, connector, permission).await {
            Presence::Unread => None,
            Presence::Absent => Some(false),
            Presence::There(it) => Some(it.metadata.uid == request.metadata.uid),
        }
    }

    /// The request that decides. Every writer of a request can remove its label. Without the label it is found by the
    /// name that the node plugin gives it.
    async fn deciding(
        &mut self,
        requests: &[AccessRequest],
        connector: &ConnectorKey,
        permission: Permission,
    ) -> Presence<Box<AccessRequest>> {
        let Some(uid) = self.pod.as_ref().and_then(|it| it.uid.clone()) else {
            return Presence::Absent;
        };
        let account = self.account.clone();
        let identity = RequestIdentity {
            subject_namespace: &account.namespace,
            subject_name: &account.name,
            connector: &connector.name,
            permission,
            pod_uid: &uid,
        };
        let name = identity.name();
        let is_about = |it: &&AccessRequest| {
            let spec = &it.spec;
            spec.connector_ref.name == connector.name
                && spec.permission == permission
                && spec.subject.name == account.name
                && spec.subject_namespace() == account.namespace
                && spec.context.object_ref.uid.as_ref() == Some(&uid)
        };
        let mut about: Vec<AccessRequest> = requests.iter().filter(is_about).cloned().collect();
        if !about
            .iter()
            .any(|it| it.metadata.name.as_deref() == Some(&name))
        {
            let found = self
                .reads
                .one::<AccessRequest, Strict>(&connector.namespace, &name);
            let found = found.await;
            match self.known(found) {
                Some(found) => about.extend(found.and_then(Result::ok).filter(|it| is_about(&it))),
                None if about.is_empty() => return Presence::Unread,
                None => {}
            }
        }
        // A request that is being deleted is told if there is no other.
        let deciding = deciding::of_one(&about).or_else(|| request_order::deciding(&about));
        let deciding = deciding.cloned();
        deciding.map_or(Presence::Absent, |it| Presence::There(Box::new(it)))
    }
}

/// The settings of the installation; none if they could not be read.
pub(super) async fn settings(
    reads: &ClusterReads,
    system_namespace: &str,
    unread: &mut Vec<MissedRead>,
) -> Option<Knowledge> {
    let found = reads.one::<ConfigMap, Plain>(system_namespace, CONFIG_MAP);
    let map = known(found.await, unread)??.ok()?;
    let mut knowledge = Knowledge::default();
    // The services report wrong settings, and keep the last known values.
    let _ = knowledge.learn(&map.data.unwrap_or_default());
    Some(knowledge)
}

/// True when the labels of a namespace can change the result of a policy.
fn looks_at_namespace(spec: &AccessPolicySpec) -> bool {
    let standing = spec.default_permission.as_ref();
    let granted = spec.check_granted_permission.as_ref();
    let standing = standing.map(|it| it.binding_template.subjects.as_slice());
    let requesters = granted.and_then(|it| it.requesters.as_deref());
    let by_label = |it: &SubjectSpec| it.namespace_selector.is_some();
    standing
        .into_iter()
        .chain(requesters)
        .flatten()
        .any(by_label)
}
