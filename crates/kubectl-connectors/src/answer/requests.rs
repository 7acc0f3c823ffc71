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

    /// A user without the right to list in all namespaces sees those of the connectors that are known, each of them.
    #[tokio::test]
    async fn every_known_namespace_is_listed_where_all_may_not_be() {
        let client = testing::client(|asked| {
            let query = asked.uri().query().unwrap_or_default();
            let of = asked.uri().path().split('/').nth(5).unwrap_or_default();
            let one = |name: &str| {
                let mut one = request(name, "ci");
                one["metadata"]["namespace"] = of.into();
                one
            };
            let (items, token) = match (of, query.contains("labelSelector")) {
                ("tools", _) => (vec![one("a"), request("of-others", "ci2")], ""),
                ("git", false) => (vec![one("a")], "more"),
                ("git", true) => (vec![one("b")], ""),
                _ => {
                    let refusal = json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "Forbidden",
                        "code": 403,
                    });
                    return (403, refusal);
                }
            };
            let page = json!({
                "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequestList",
                "metadata": {"continue": token}, "items": items,
            });
            (200, page)
        });
        let reads = ClusterReads::new(client, None, Duration::from_secs(5));
        for (namespaces, expected, may_be_more, missed) in [
            (&["tools"][..], &["tools/a"][..], false, 1),
            (&["git", "tools"], &["git/a", "git/b", "tools/a"], true, 1),
            (&["secret", "tools"], &["tools/a"], false, 2),
            (&[], &[], false, 1),
        ] {
            let mut unread = Vec::new();
            let (found, is_cut) = of_pods(&reads, "ci", namespaces, &mut unread).await;
            let found: Vec<_> = found.iter().map(|it| name_of(it).to_string()).collect();
            assert_eq!(found, expected, "{namespaces:?}");
            assert_eq!(
                (is_cut, unread.len()),
                (may_be_more, missed),
                "{namespaces:?}"
            );
        }
    }

    fn with_status(status: serde_json::Value) -> AccessRequest {
        let mut request = request("a", "ci");
        request["status"] = status;
        serde_json::from_value(request).unwrap()
    }

    #[test]
    fn an_answer_changes_a_request_that_is_not_decided_and_a_yes_adds_to_a_granted_one() {
        for (phase, by_yes, by_no) in [
            ("Pending", true, true),
            ("Granted", true, false),
            ("Rejected", false, false),
            ("Revoked", false, false),
            ("Invalid", false, false),
            ("Ended", false, false),
        ] {
            let request = with_status(json!({"phase": phase}));
            assert_eq!(
                is_open(&request, ApprovalAnswer::Approve),
                by_yes,
                "{phase}"
            );
            assert_eq!(is_open(&request, ApprovalAnswer::Reject), by_no, "{phase}");
        }
        let new = serde_json::from_value(request("a", "ci")).unwrap();
        assert!(is_open(&new, ApprovalAnswer::Approve) && is_open(&new, ApprovalAnswer::Reject));
    }

    /// What a policy said of the request, by the UID of the policy.
    #[test]
    fn a_policy_of_the_request_s_namespace_that_has_not_decided_can_change_it() {
        let (granted, ended, open) = (Some("Granted"), Some("Ended"), None::<&str>);
        for (said, counting, expected) in [
            (&[][..], &[("tools", "u1")][..], true),
            (&[], &[], false),
            (&[], &[("tools2", "u1"), ("tool", "u1"), ("", "u1")], false),
            (&[], &[("tools2", "u1"), ("tools", "u2")], true),
            (&[("u1", granted)], &[("tools", "u1")], false),
            (&[("u1", ended)], &[("tools", "u1")], false),
            (&[("u1", open)], &[("tools", "u1")], true),
            (&[("u10", granted)], &[("tools", "u1")], true),
            (&[("u2", open), ("u1", granted)], &[("tools", "u1")], false),
            (
                &[("u1", granted)],
                &[("tools", "u1"), ("tools", "u2")],
                true,
            ),
            (
                &[("u1", granted), ("u2", ended)],
                &[("tools", "u1"), ("tools", "u2")],
                false,
            ),
        ] {
            let policies = said.iter().map(|(uid, state)| {
                let mut policy = json!({"policy": {"metadata": {"name": "p", "uid": uid}}});
                if let Some(state) = state {
                    policy["grant"] = json!({"state": state});
                }
                policy
            });
            let request = with_status(json!({"policies": policies.collect::<Vec<_>>()}));
            let counting = counting.iter().map(|(namespace, uid)| PolicyKey {
                namespace: (*namespace).to_owned(),
                uid: (*uid).to_owned(),
            });
            let counting = counting.collect();
            assert_eq!(
                can_change(&request, &counting),
                expected,
                "{said:?} {counting:?}"
            );
        }
    }

    #[test]
    fn a_request_records_an_object_in_any_check_of_any_policy_by_its_whole_uid() {
        let object = |uid: &str| {
            json!({"name": "c", "ref": {
                "apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": uid,
            }})
        };
        let policy = |checks: &[&str]| {
            let checks: Vec<_> = checks.iter().map(|it| object(it)).collect();
            json!({"policy": {"metadata": {"name": "p", "uid": "p"}}, "checkRefs": checks})
        };
        for (policies, expected) in [
            (vec![], false),
            (vec![policy(&["u"])], true),
            (vec![policy(&["a", "u"])], true),
            (vec![policy(&["a"]), policy(&[]), policy(&["b", "u"])], true),
            (vec![policy(&["a", "uu", "U", ""])], false),
        ] {
            let request = with_status(json!({"policies": policies}));
            assert_eq!(records(&request, "u"), expected, "{policies:?}");
        }
    }
}
