//! The fields of a pod that decisions need.

use connectors_api::names::SCHEDULING_GATE;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::is_finished;
use crate::seen::PodFacts;

/// The account of a pod that names none.
const DEFAULT_ACCOUNT: &str = "default";

/// The facts about a pod.
pub(crate) fn pod_facts(pod: &Pod) -> PodFacts {
    let account = pod
        .spec
        .as_ref()
        .and_then(|it| it.service_account_name.clone());
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    PodFacts {
        finished: is_finished(phase),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        account: account
            .filter(|it| !it.is_empty())
            .unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned()),
    }
}

/// Since when a pod waits with the scheduling gate. None if it has none, or ends anyway.
pub(crate) fn gated_since(pod: &Pod) -> Option<Timestamp> {
    let gates = pod.spec.as_ref()?.scheduling_gates.as_ref()?;
    let is_gated = gates.iter().any(|it| it.name == SCHEDULING_GATE);
    let PodFacts {
        finished,
        terminating,
        account: _,
    } = pod_facts(pod);
    let created = pod.metadata.creation_timestamp.as_ref();
    let waits = is_gated && !finished && !terminating;
    waits.then(|| created.map_or(Timestamp::UNIX_EPOCH, |it| it.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_waits_with_the_gate_until_it_loses_it_or_ends() {
        let since = |change: fn(&mut serde_json::Value)| {
            let mut pod = json!({
                "metadata": {"creationTimestamp": "2026-03-01T10:00:00Z"},
                "spec": {"containers": [], "schedulingGates": [
                    {"name": "example.com/quota"}, {"name": "connectors.alauda.io/approval"},
                ]},
                "status": {"phase": "Pending"},
            });
            change(&mut pod);
            gated_since(&serde_json::from_value(pod).unwrap())
        };
        let created = "2026-03-01T10:00:00Z".parse().unwrap();
        assert_eq!(since(|_| {}), Some(created));
        let unborn = since(|pod| pod["metadata"] = json!({}));
        assert_eq!(unborn, Some(Timestamp::UNIX_EPOCH));
        let changes: [fn(&mut serde_json::Value); 6] = [
            |pod| pod["spec"]["schedulingGates"] = json!(null),
            |pod| pod["spec"]["schedulingGates"] = json!([]),
            |pod| {
                pod["spec"]["schedulingGates"][1]["name"] = json!("connectors.alauda.io/approvals");
            },
            |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-03-01T10:00:00Z"),
            |pod| pod["status"]["phase"] = json!("Failed"),
            |pod| pod["status"]["phase"] = json!("Succeeded"),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            assert_eq!(since(change), None, "{at}");
        }
    }
}
