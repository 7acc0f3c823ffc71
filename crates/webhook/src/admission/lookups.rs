//! The questions to the API server about the author of an object, and about the pod of a request.

use std::{fmt::Debug, net::IpAddr, sync::Arc, time::Duration};

use connectors_api::{
    AccessPolicy, AccessRequest, ConnectorClass,
    access_request::MOST_OF_A_POD,
    config::{CONFIG_MAP, Config, Knowledge},
    labels::CONTEXT_OBJECT_UID,
    names,
};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::ResourceAttributes,
    core::v1::{ConfigMap, Pod, PodSpec, PodStatus},
};
use kube::{
    Api, Client,
    api::{ListParams, ObjectList, PartialObjectMeta, VersionMatch},
};
use serde::{Deserialize, de::DeserializeOwned};
use service_kit::{
    gets,
    quota::Quota,
    report,
    retry::{Backoff, RetryPolicy},
    reviews::{self, Reviewed},
    watches::{Guarded, Identity, Parse, read},
};
use tokio::{
    sync::{Mutex, Semaphore},
    time::Instant,
};
use tracing::{debug, warn};

use super::judge::{ReviewedPod, Seen};
use crate::{
    metrics::Limit,
    peer_quota::{PeerLimits, PeerQuota},
    review::ReviewedObject,
};

/// Several tries have to fit into the time of one review.
const CALLS: RetryPolicy = RetryPolicy {
    attempts: 3,
    attempt: Duration::from_millis(1500),
    total: Duration::from_millis(3500),
    pauses: Backoff::new(Duration::from_millis(50), Duration::from_millis(200)),
};

/// Calls to the API server at the same time, for one address and in total: every client that reaches the port can cause
/// them. They take milliseconds, so half is enough for a whole control plane behind one address.
const CALLS_OF_PEER: usize = 64;
const MOST_CALLS: usize = 2 * CALLS_OF_PEER;

/// Of them for policies' names: a policy may name hundreds of connectors, and requests of pods wait for the same API
/// server.
const NAMES_OF_PEER: usize = 8;
const NAMES: usize = 2 * NAMES_OF_PEER;

/// Lookups of classes at the same time. Above that, an author of connectors gets no warning.
const CLASS_LOOKS: usize = 4;

/// The oldest version that a list may have: any.
const ANY_VERSION: &str = "1";

/// How long the answer counts whether pods get the scheduling gate. Any author of pods causes the question.
const GATES_KNOWN: Duration = Duration::from_secs(1);

/// The account of a pod that names none.
const DEFAULT_ACCOUNT: &str = "default";

/// There was no usable answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoLookup;

/// Asks.
#[derive(Clone)]
pub(crate) struct Lookups {
    client: Client,
    /// The namespace of the installation.
    namespace: Arc<str>,
    calls: PeerQuota,
    names: PeerQuota,
    classes: Arc<Semaphore>,
    /// Whether pods get the scheduling gate, and when that was asked. One call at a time asks.
    gates: Arc<Mutex<Option<(Instant, bool)>>>,
}

impl Lookups {
    pub(crate) fn new(client: Client, namespace: &str, limits: &PeerLimits) -> Self {
        Self {
            client,
            namespace: namespace.into(),
            calls: limits.quota(Limit::Calls, Quota::new(MOST_CALLS, CALLS_OF_PEER)),
            names: limits.quota(Limit::Calls, Quota::new(NAMES, NAMES_OF_PEER)),
            classes: Arc::new(Semaphore::new(CLASS_LOOKS)),
            gates: Arc::default(),
        }
    }

    /// Places that are taken, and addresses that take or await one.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        let classes = CLASS_LOOKS - self.classes.available_permits();
        let taken = |quota: &PeerQuota| quota.held() + quota.peers();
        taken(&self.calls) + taken(&self.names) + classes
    }

    /// Whether the user of a review may get a pod, whether or not it exists.
    pub(crate) async fn may_get(
        &self,
        asked: &ReviewedObject,
        namespace: &str,
        name: &str,
    ) -> Result<bool, NoLookup> {
        let attributes = ResourceAttributes {
            verb: Some("get".to_owned()),
            version: Some("v1".to_owned()),
            resource: Some("pods".to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ResourceAttributes::default()
        };
        self.may(asked, attributes).await
    }

    /// Whether the user of a review may change every connector of a namespace.
    pub(crate) async fn may_update_connectors(
        &self,
        asked: &ReviewedObject,
        namespace: &str,
    ) -> Result<bool, NoLookup> {
        self.may(asked, update_of(namespace, None)).await
    }

    /// The first connectors among these that the user of a review may not change, at most so many.
    pub(crate) async fn connectors_denied(
        &self,
        asked: &ReviewedObject,
        namespace: &str,
        names: Vec<String>,
        most: usize,
    ) -> Result<Vec<String>, NoLookup> {
        let ask = async |name: String| {
            let _place = self.names.take(asked.peer, 1).await;
            let may = self.may(asked, update_of(namespace, Some(&name))).await?;
            Ok((!may).then_some(name))
        };
        let answers = stream::iter(names).map(ask).buffered(NAMES_OF_PEER);
        let denied = answers.try_filter_map(async |name| Ok(name)).take(most);
        denied.try_collect().await
    }

    async fn may(
        &self,
        asked: &ReviewedObject,
        attributes: ResourceAttributes,
    ) -> Result<bool, NoLookup> {
        let _place = self.calls.take(asked.peer, 1).await;
        let user = Reviewed::from(&asked.user_info);
        // Borrowed: a user may be in many groups, and a policy may name many connectors.
        let answer = reviews::may(&self.client, &CALLS, user, &attributes).await;
        answer.map_err(|error| {
            warn!(error = report(&error), "an object cannot be judged");
            NoLookup
        })
    }

    /// The configuration of the installation; none if it cannot be read.
    pub(crate) async fn configuration(&self, peer: IpAddr) -> Option<Knowledge> {
        let _place = self.calls.take(peer, 1).await;
        self.read_configuration().await
    }

    /// Whether new pods get the scheduling gate. The question takes no place of those that requests and policies need:
    /// they are refused without one.
    pub(crate) async fn gates_pods(&self) -> bool {
        let came = Instant::now();
        let mut known = self.gates.lock().await;
        if let Some((asked, gates_pods)) = *known
            && (came <= asked || asked.elapsed() < GATES_KNOWN)
        {
            return gates_pods;
        }
        // The answer may be as old as its question.
        let asked = Instant::now();
        let found = self.read_configuration().await;
        let config = found.and_then(|it| it.config());
        let gates_pods = config.is_some_and(Config::gates_pods);
        *known = Some((asked, gates_pods));
        gates_pods
    }

    async fn read_configuration(&self) -> Option<Knowledge> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = CALLS.call("get the configuration", || gets::find(&api, CONFIG_MAP));
        let data = match found.await {
            Ok(found) => found.and_then(|it| it.data).unwrap_or_default(),
            Err(error) => {
                warn!(error = report(&error), "the configuration cannot be read");
                return None;
            }
        };
        let mut known = Knowledge::default();
        // The services that follow the ConfigMap report its errors.
        let _ = known.learn(&data);
        Some(known)
    }

    /// Whether there is a `ConnectorClass` of this name. A call without a free slot gets no answer.
    pub(crate) async fn has_class(&self, name: &str) -> Result<bool, NoLookup> {
        // A name that is none would be asked for under another path.
        if !names::is_dns_subdomain(name) {
            return Ok(false);
        }
        let _place = self.classes.try_acquire().map_err(|_| NoLookup)?;
        let api: Api<ConnectorClass> = Api::all(self.client.clone());
        let call = format!("get connectorclass {name}");
        let found = CALLS.call(call, || gets::find_metadata(&api, name)).await;
        found.map(|it| it.is_some()).map_err(|error| {
            debug!(error = report(&error), "a class is not known");
            NoLookup
        })
    }

    /// How many requests of a pod there are in a namespace, up to the share of a pod. An account that may change requests
    /// there may change the labels as well, and thereby spends only the share of its own namespace.
    pub(crate) async fn count_requests(
        &self,
        peer: IpAddr,
        namespace: &str,
        pod_uid: &str,
    ) -> Result<usize, NoLookup> {
        let _place = self.calls.take(peer, 1).await;
        let api: Api<AccessRequest> = Api::namespaced(self.client.clone(), namespace);
        let of_the_pod = ListParams::default().labels(&format!("{CONTEXT_OBJECT_UID}={pod_uid}"));
        let call = format!("list the accessrequests of a pod in {namespace}");
        let most = u32::try_from(MOST_OF_A_POD).unwrap_or(u32::MAX);
        let found = first_of(call, &api, of_the_pod, most).await?;
        Ok(found.items.len())
    }

    /// How many policies there are in a namespace. One of them is read: policies may carry much text.
    pub(crate) async fn count_policies(
        &self,
        peer: IpAddr,
        namespace: &str,
    ) -> Result<usize, NoLookup> {
        let _place = self.calls.take(peer, 1).await;
        let api: Api<AccessPolicy> = Api::namespaced(self.client.clone(), namespace);
        let call = format!("list accesspolicies in {namespace}");
        let found = first_of(call, &api, ListParams::default(), 1).await?;
        let others = match (
            found.metadata.remaining_item_count,
            found.metadata.continue_,
        ) {
            (Some(others), _) => usize::try_from(others).map_err(|_| NoLookup)?,
            (None, Some(more)) if !more.is_empty() => return Err(NoLookup),
            (None, _) => 0,
        };
        Ok(found.items.len() + others)
    }

    /// The pod of this name, as it is now.
    pub(crate) async fn pod(&self, peer: IpAddr, namespace: &str, name: &str) -> Seen {
        let _place = self.calls.take(peer, 1).await;
        let api: Api<Guarded<Pod, ReviewedPodFields>> =
            Api::namespaced(self.client.clone(), namespace);
        let call = format!("get pod {namespace}/{name}");
        match CALLS.call(call, || gets::find(&api, name)).await {
            Ok(None) => Seen::Missing,
            Ok(Some(Guarded {
                object: Ok(pod), ..
            })) => facts(pod).map_or(Seen::NoAnswer, Seen::Found),
            Ok(Some(Guarded {
                object: Err(error), ..
            })) => {
                warn!(
                    namespace,
                    name,
                    error = report(&error),
                    "a pod cannot be read"
                );
                Seen::NoAnswer
            }
            Err(error) => {
                warn!(error = report(&error), "a request cannot be judged");
                Seen::NoAnswer
            }
        }
    }
}

/// The first objects of a list, and perhaps how many others there are.
///
/// Any version will do. The API server answers from its memory, which may be a moment behind; before 1.31 it asks etcd. A
/// consistent list would wait until that memory has caught up with etcd, up to 100 ms where other objects change. Version
/// 0 would ask for the same, but then neither the client nor the server keeps the limit.
async fn first_of<K>(
    call: String,
    api: &Api<K>,
    params: ListParams,
    most: u32,
) -> Result<ObjectList<PartialObjectMeta<K>>, NoLookup>
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = params
        .limit(most)
        .at(ANY_VERSION)
        .matching(VersionMatch::NotOlderThan);
    let found = CALLS.call(call, || api.list_metadata(&params)).await;
    found.map_err(|error| {
        warn!(error = report(&error), "objects are not counted");
        NoLookup
    })
}

fn update_of(namespace: &str, connector: Option<&str>) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some("update".to_owned()),
        group: Some(names::GROUP.to_owned()),
        version: Some(names::VERSION.to_owned()),
        resource: Some(names::CONNECTORS.to_owned()),
        namespace: Some(namespace.to_owned()),
        name: connector.map(str::to_owned),
        ..ResourceAttributes::default()
    }
}

/// The fields of a pod that are read, however large the rest is.
#[derive(Clone, Copy, Debug)]
enum ReviewedPodFields {}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewedPodText {
    metadata: Identity,
    spec: ReviewedPodSpec,
    status: ReviewedPodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReviewedPodSpec {
    service_account_name: Option<String>,
    node_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewedPodStatus {
    phase: Option<String>,
}

impl Parse<Pod> for ReviewedPodFields {
    fn parse(json: &str) -> Result<Pod, String> {
        let ReviewedPodText {
            metadata,
            spec,
            status,
        } = read(json)?;
        Ok(Pod {
            metadata: metadata.into(),
            spec: Some(PodSpec {
                service_account_name: spec.service_account_name,
                node_name: spec.node_name,
                ..PodSpec::default()
            }),
            status: Some(PodStatus {
                phase: status.phase,
                ..PodStatus::default()
            }),
        })
    }
}

/// Nothing for a pod without a UID, which no server sends.
fn facts(pod: Pod) -> Option<ReviewedPod> {
    let spec = pod.spec.unwrap_or_default();
    let phase = pod.status.and_then(|status| status.phase);
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    Some(ReviewedPod {
        uid: given(pod.metadata.uid)?,
        account: given(spec.service_account_name).unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned()),
        node: given(spec.node_name),
        finished: matches!(phase.as_deref(), Some("Succeeded" | "Failed")),
        deleting: pod.metadata.deletion_timestamp.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::testing::{FakeApi, NAMESPACE, list_of, policies};

    #[tokio::test]
    async fn two_addresses_may_have_their_whole_shares_of_calls_at_a_time() {
        let lookups = Lookups::new(
            FakeApi::default().client(),
            NAMESPACE,
            &PeerLimits::for_tests(),
        );
        let [first, second, third] = [1, 2, 3].map(|it| IpAddr::V4(Ipv4Addr::new(10, 0, 0, it)));
        for (calls, share) in [(&lookups.calls, 64), (&lookups.names, 8)] {
            let _first = calls.take(first, share).await;
            let second = calls.take(second, share).now_or_never();
            assert!(second.is_some(), "{share}");
            assert!(calls.take(third, 1).now_or_never().is_none(), "{share}");
        }
    }

    /// The count of the policies of a namespace, where a list with this metadata shows one of them.
    async fn policies_of(metadata: serde_json::Value) -> Result<usize, NoLookup> {
        let api = FakeApi::default();
        let mut list = list_of(1);
        list["metadata"] = metadata;
        api.put(&policies("ci"), list);
        let lookups = Lookups::new(api.client(), NAMESPACE, &PeerLimits::for_tests());
        lookups
            .count_policies(Ipv4Addr::LOCALHOST.into(), "ci")
            .await
    }

    #[tokio::test]
    async fn policies_beyond_the_first_page_are_counted_without_being_read() {
        for (metadata, count) in [
            (json!({}), Ok(1)),
            (json!({"continue": ""}), Ok(1)),
            (
                json!({"continue": "more", "remainingItemCount": 255}),
                Ok(256),
            ),
            (
                json!({"continue": "more", "remainingItemCount": 99_999}),
                Ok(100_000),
            ),
            (json!({"continue": "more"}), Err(NoLookup)),
            (
                json!({"continue": "more", "remainingItemCount": -1}),
                Err(NoLookup),
            ),
        ] {
            assert_eq!(policies_of(metadata.clone()).await, count, "{metadata}");
        }
    }

    #[tokio::test]
    async fn objects_are_counted_in_the_memory_of_the_api_server_and_in_one_page() {
        let api = FakeApi::default();
        let lookups = Lookups::new(api.client(), NAMESPACE, &PeerLimits::for_tests());
        let peer = Ipv4Addr::LOCALHOST.into();
        assert_eq!(lookups.count_policies(peer, "ci").await, Ok(0));
        assert_eq!(lookups.count_requests(peer, "ci", "u").await, Ok(0));
        let queries = api.queries();
        assert_eq!(queries.len(), 2);
        for (query, limit) in queries.iter().zip(["limit=1", "limit=16"]) {
            let any = ["resourceVersion=1", "resourceVersionMatch=NotOlderThan"];
            let mut pairs = query.split('&');
            assert!(pairs.clone().any(|it| it == limit), "{query}");
            assert!(
                any.iter().all(|it| pairs.any(|pair| pair == *it)),
                "{query}"
            );
        }
    }

    fn of(pod: &serde_json::Value) -> Option<ReviewedPod> {
        facts(ReviewedPodFields::parse(&pod.to_string()).unwrap())
    }

    #[test]
    fn a_pod_says_which_it_is_whose_where_and_whether_it_goes() {
        let pod = json!({
            "metadata": {"name": "p", "uid": "u", "deletionTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"serviceAccountName": "ci", "nodeName": "n", "containers": [{"name": "c"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1"},
        });
        let facts = ReviewedPod {
            uid: "u".to_owned(),
            account: "ci".to_owned(),
            node: Some("n".to_owned()),
            finished: false,
            deleting: true,
        };
        assert_eq!(of(&pod), Some(facts));
    }

    #[test]
    fn a_pod_runs_as_its_account_and_otherwise_as_default() {
        for (spec, account) in [
            (json!({"containers": [], "serviceAccountName": "ci"}), "ci"),
            (
                json!({"containers": [], "serviceAccountName": ""}),
                "default",
            ),
            (json!({"containers": []}), "default"),
        ] {
            let pod = of(&json!({"metadata": {"uid": "u"}, "spec": spec})).unwrap();
            assert_eq!(pod.account, account);
            assert_eq!(pod.node, None);
            assert!(!pod.deleting);
        }
    }

    #[test]
    fn a_pod_has_finished_in_two_phases() {
        for (phase, finished) in [
            ("Pending", false),
            ("Running", false),
            ("Unknown", false),
            ("Succeeded", true),
            ("Failed", true),
        ] {
            let pod = of(&json!({"metadata": {"uid": "u"}, "status": {"phase": phase}})).unwrap();
            assert_eq!(pod.finished, finished, "{phase}");
        }
    }

    #[test]
    fn a_pod_without_a_uid_is_none() {
        assert_eq!(of(&json!({"metadata": {}})), None);
        assert_eq!(of(&json!({"metadata": {"uid": ""}})), None);
    }

    #[test]
    fn what_cannot_be_read_is_no_pod() {
        for odd in [json!({"metadata": 1}), json!({"spec": {"nodeName": 1}})] {
            assert!(ReviewedPodFields::parse(&odd.to_string()).is_err(), "{odd}");
        }
    }
}
