//! Access, its lack, and the connector.

use connectors_api::reason::Ready;
use serde_json::json;

use super::plant::{delete_request, going, grant, pod, request, say};
use super::{Situation, row};
use crate::cluster::{Cluster, after};
use crate::rights::{allow, dev, read};

pub(super) fn rows() -> Vec<Situation> {
    vec![
        row(
            "access is granted",
            grant,
            "Granted",
            "granted by policy approved-changes",
            "kubectl -n team-a describe pod build-1",
        )
        .of(Ready::Granted),
        row(
            "the time of the grant is over, and the controller has not acted yet",
            |it| {
                grant(it);
                let request = it.first_request();
                it.server
                    .change("accessrequests", "payments", &request, |it| {
                        it["status"]["policies"][0]["grant"]["expiresAt"] = after(5).into();
                    });
            },
            "NotInForce",
            "its time is over since 2026-03-01T10:05:00Z",
            "logs deployment/request-controller",
        ),
        row(
            "the RoleBinding of the grant is missing",
            |it| {
                grant(it);
                it.server.delete("rolebindings", "payments", "car-build-1");
            },
            "NotInForce",
            "no RoleBinding of the grant is there",
            "logs deployment/request-controller",
        ),
        row(
            "the request of the grant is being deleted",
            |it| {
                grant(it);
                going(it, "accessrequests", "payments", &it.first_request());
            },
            "NotInForce",
            "the request is being deleted",
            "",
        )
        .told("once the request is deleted, a pod that waits for its mount asks anew"),
        row(
            "the grant covers no mount",
            |it| {
                grant(it);
                it.server.change("roles", "payments", "car-build-1", |it| {
                    it["rules"][0]["verbs"] = json!(["get"]);
                });
            },
            "NotInForce",
            "the bound Role does not allow the pod this access",
            "edit accesspolicy approved-changes",
        ),
        row(
            "access is granted, and the scheduling gate of the pod stays",
            |it| {
                grant(it);
                pod(it, |it| {
                    it["spec"]["schedulingGates"] =
                        json!([{"name": "connectors.alauda.io/approval"}]);
                });
                it.put(json!({
                    "apiVersion": "events.k8s.io/v1", "kind": "Event", "type": "Warning", "reason": "AccessGateKept",
                    "metadata": {"name": "build-1.1", "namespace": "team-a"}, "eventTime": after(3),
                    "reportingController": "request-controller", "reportingInstance": "one", "action": "Granted",
                    "regarding": {"kind": "Pod", "namespace": "team-a", "name": "build-1"},
                    "note": "the scheduling gate cannot be removed",
                }));
            },
            "Granted",
            "it waits with the scheduling gate connectors.alauda.io/approval",
            "get events --field-selector reason=AccessGateKept",
        ),
        row(
            "access is granted, and the scheduling gate of the pod is there for a moment more",
            |it| {
                grant(it);
                pod(it, |it| {
                    it["spec"]["schedulingGates"] =
                        json!([{"name": "connectors.alauda.io/approval"}]);
                });
            },
            "Granted",
            "it waits with the scheduling gate connectors.alauda.io/approval",
            "get events --field-selector reason=AccessGateKept",
        )
        .finding_nothing(),
        row(
            "the service account has a standing permission",
            |it| it.standing("builder"),
            "Standing",
            "holds a standing permission",
            "kubectl -n team-a describe pod build-1",
        ),
        row(
            "approvals are switched off",
            |it| {
                it.server.change(
                    "configmaps",
                    "connectors-system",
                    "connectors-config",
                    |it| {
                        it["data"]["enable-connectors-approval"] = "false".into();
                    },
                );
            },
            "NotGated",
            "approvals are switched off",
            "patch configmap connectors-config",
        ),
        row(
            "the pod runs with a volume from before approvals were switched on",
            |it| {
                pod(it, |it| it["status"]["phase"] = "Running".into());
                delete_request(it);
            },
            "Kept",
            "mounted the connector while approvals were switched off",
            "",
        )
        .told("Start a new pod to ask for access"),
        row(
            "the connector does not exist",
            |it| {
                it.server.delete("connectors", "payments", "prod-harbor");
                say(
                    it,
                    "Pending",
                    "ConnectorNotFound",
                    "connector prod-harbor does not exist",
                );
            },
            "Waits",
            "there is no connector payments/prod-harbor",
            "kubectl -n payments get connectors",
        )
        .of(Ready::ConnectorNotFound)
        .finding_nothing(),
        row(
            "the connector is another one than when the request was made",
            |it| {
                request(it, |it| {
                    it["status"]["connectorUid"] = "uid-of-before".into()
                })
            },
            "Waits",
            "is another one than when the request was made",
            "kubectl -n payments delete accessrequest prod-harbor-",
        ),
        row(
            "a service account could ask",
            |_| (),
            "CouldAsk",
            "the checks of approved-changes decide, and were not looked at",
            "",
        )
        .asked(|_| of_account("team-a/builder"))
        .told("a pod would need: policy approved-changes: check change (ChangeRequest)"),
        row(
            "no policy lets a service account ask",
            |_| (),
            "CannotAsk",
            "none of requesters is ServiceAccount team-a/other",
            "edit accesspolicy approved-changes",
        )
        .asked(|_| of_account("team-a/other")),
        row(
            "the user may not read requests",
            |it| {
                allow(it, "team-a", &json!([read("", &["pods"])]));
                let connectors = ["connectors", "accesspolicies"];
                let connectors = read("connectors.alauda.io", &connectors);
                allow(it, "payments", &json!([connectors]));
            },
            "Unknown",
            "you may not list accessrequests.connectors.alauda.io in namespace payments",
            "",
        )
        .asked_by(dev())
        .told("ask for the rights that are missing"),
        row(
            "the user may not read the pod of a request",
            |it| {
                let resources = ["connectors", "accesspolicies", "accessrequests"];
                let connectors = read("connectors.alauda.io", &resources);
                allow(it, "payments", &json!([connectors]));
            },
            "Unknown",
            "you may not get pods build-1 in namespace team-a",
            "",
        )
        .asked(of_request)
        .asked_by(dev())
        .told("ask for the rights that are missing"),
    ]
}

fn of_account(account: &str) -> Vec<String> {
    let words = [
        "explain",
        "connector/prod-harbor",
        "-n",
        "payments",
        "--as-account",
        account,
    ];
    words.map(str::to_owned).to_vec()
}

/// The request in place of its pod.
pub(super) fn of_request(cluster: &Cluster) -> Vec<String> {
    let request = format!("areq/{}", cluster.first_request());
    let words = ["explain", &request, "-n", "payments"];
    words.map(str::to_owned).to_vec()
}
