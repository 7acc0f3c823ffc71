//! The requests that an answer can change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use connectors_api::AccessRequest;
use connectors_api::access_request::Phase;
use connectors_api::labels::CONTEXT_OBJECT_NAMESPACE;
use connectors_api::pod_grant::RequestFacts as _;
use kube::ResourceExt as _;

use super::find::PolicyKey;
use crate::approval_write::ApprovalAnswer;
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
