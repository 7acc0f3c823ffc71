//! The requests that an answer can change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use connectors_api::AccessRequest;
use connectors_api::access_request::Phase;
use connectors_api::labels::CONTEXT_OBJECT_NAMESPACE;
use connectors_api::pod_grant::RequestFacts as _;
use kube::ResourceExt as _;

use super::find::PolicyKey;
use crate::approval_write::ApprovalAnswer;
use crate::deciding;
use crate::reads::{ClusterReads, Strict};
use crate::terms::NamespacedName;
use crate::unread::MissedRead;

/// The limit of requests that are listed.
const MOST_LISTED: u32 = 2_048;

/// The requests of the pods of a namespace: in all namespaces of connectors, or in those that are known. Every editor
/// of a request can remove its labels, so they are found by their spec.
pub(super) async fn of_pods(
    reads: &ClusterReads,
    of_pods: &str,
    namespaces: &[&str],
    unread: &mut Vec<MissedRead>,
) -> (Vec<AccessRequest>, bool) {
    let mut found: BTreeMap<NamespacedName, AccessRequest> = BTreeMap::new();
    let mut is_cut = false;
    let by_label = format!("{CONTEXT_OBJECT_NAMESPACE}={of_pods}");
    let mut places: VecDeque<(&str, &str)> = VecDeque::from([("", "")]);
    while let Some((namespace, labels)) = places.pop_front() {
        let read = reads.first::<AccessRequest, Strict>(namespace, labels, MOST_LISTED);
        match read.await {
            Ok((some, is_some_cut)) => {
                let some = some.into_iter().flatten();
                let some = some.filter(|it| it.spec.context.object_ref.namespace == of_pods);
                found.extend(some.map(|it| (name_of(&it), it)));
                is_cut |= is_some_cut;
                // Of too many requests, the labels find those that still have them.
                if is_some_cut && labels.is_empty() {
                    places.push_front((namespace, &by_label));
                }
            }
            Err(missed) => {
                unread.push(missed);
                if namespace.is_empty() && labels.is_empty() {
                    places.extend(namespaces.iter().map(|it| (*it, "")));
                }
            }
        }
    }
    (found.into_values().collect(), is_cut)
}

/// Namespace and name of a request.
pub(super) fn name_of(request: &AccessRequest) -> NamespacedName {
    let namespace = request.metadata.namespace.clone().unwrap_or_default();
    NamespacedName::new(namespace, request.name_any())
}

/// The requests that decide, and the names of the others. The controller grants nothing by a request that is being deleted,
/// or beside another one about the same access.
pub(super) fn parted(all: &[AccessRequest]) -> (Vec<&AccessRequest>, BTreeSet<NamespacedName>) {
    let deciding: Vec<_> = deciding::of_each(all).collect();
    let mut others: BTreeSet<_> = all.iter().map(name_of).collect();
    for request in &deciding {
        others.remove(&name_of(request));
    }
    (deciding, others)
}

/// True when an answer can change the result of the request. A granted request gets more by further policies.
pub(super) fn is_open(request: &AccessRequest, answer: ApprovalAnswer) -> bool {
    match request.phase() {
        None | Some(Phase::Pending) => true,
        Some(Phase::Granted) => answer == ApprovalAnswer::Approve,
        Some(Phase::Rejected | Phase::Revoked | Phase::Invalid | Phase::Ended) => false,
    }
}

/// True when one of these policies has not decided on the request.
pub(super) fn can_change(request: &AccessRequest, counting: &BTreeSet<PolicyKey>) -> bool {
    let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
    let has_decided = |uid: &str| {
        let status = request.status.iter().flat_map(|it| &it.policies);
        let mut decided = status.filter(|it| it.grant.is_some());
        decided.any(|it| it.uid() == uid)
    };
    let mut of_namespace = counting.iter().filter(|it| it.namespace == namespace);
    of_namespace.any(|it| !has_decided(&it.uid))
}

/// True when the status of the request records an object with this UID.
pub(super) fn records(request: &AccessRequest, uid: &str) -> bool {
    let status = request.status.iter().flat_map(|it| &it.policies);
    let mut objects = status
        .flat_map(|it| &it.check_refs)
        .filter_map(|it| it.ref_.as_ref());
    objects.any(|it| it.uid.as_deref() == Some(uid))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::testing::{self, request};

    /// The names of the requests of pods in `ci`, and whether there may be more, where the list of all requests and the
    /// one by label are cut or not.
    async fn found(is_cut: [bool; 2]) -> (Vec<String>, bool) {
        let client = testing::client(move |asked| {
            let query = asked.uri().query().unwrap_or_default();
            let is_by_label = query.contains("labelSelector");
            let token = if is_cut[usize::from(is_by_label)] {
                "more"
            } else {
                ""
            };
            let items = if is_by_label {
                vec![request("by-label", "ci")]
            } else {
                vec![request("first", "ci"), request("other", "ci2")]
            };
            let page = json!({
                "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequestList",
                "metadata": {"continue": token}, "items": items,
            });
            (200, page)
        });
        let reads = ClusterReads::new(client, None, Duration::from_secs(5));
        let mut unread = Vec::new();
        let (found, may_be_more) = of_pods(&reads, "ci", &["tools"], &mut unread).await;
        assert_eq!(unread.len(), 0);
        (
            found.iter().map(AccessRequest::name_any).collect(),
            may_be_more,
        )
    }

    #[test]
    fn a_request_that_is_being_deleted_or_that_another_one_decides_for_is_left_out() {
        let changed = |name: &str, field: &str, value: &str| {
            let mut request = request(name, "ci");
            *request.pointer_mut(field).unwrap() = value.into();
            request
        };
        let mut going = changed("going", "/spec/context/objectRef/uid", "u2");
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let all = [request("b", "ci"), request("a", "ci"), going];
        let all = all.map(|it| serde_json::from_value(it).unwrap());
        let (deciding, others) = parted(&all);
        let deciding: Vec<_> = deciding.iter().map(|it| it.name_any()).collect();
        let others: Vec<_> = others.into_iter().map(|it| it.name).collect();
        assert_eq!(
            (deciding, others),
            (vec!["a".into()], vec!["b".into(), "going".into()])
        );
    }

    /// An editor of a request removes the label, so the list by label is not whole either.
    #[tokio::test]
    async fn a_list_of_requests_that_was_cut_stays_cut_whatever_is_found_by_label() {
        for (is_cut, names, may_be_more) in [
            ([false, false], &["first"][..], false),
            ([true, false], &["by-label", "first"], true),
            ([true, true], &["by-label", "first"], true),
        ] {
            let (found, is_open) = found(is_cut).await;
            assert_eq!(found, names, "{is_cut:?}");
            assert_eq!(is_open, may_be_more, "{is_cut:?}");
        }
    }
}
