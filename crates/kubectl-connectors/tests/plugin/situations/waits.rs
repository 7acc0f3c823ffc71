//! Waits for something else than an approval.

use connectors_api::reason::Ready;
use serde_json::json;

use super::plant::{going, granted, request, say};
use super::{Situation, row};
use crate::cluster::{after, change, policy};

pub(super) fn rows() -> Vec<Situation> {
    vec![
        row(
            "the evaluation service does not answer",
            |it| {
                say(
                    it,
                    "Pending",
                    "EvaluatorUnavailable",
                    "the evaluation service does not answer",
                )
            },
            "Waits",
            "the evaluation service does not answer",
            "get pods -l app.kubernetes.io/component=evaluation-service",
        )
        .of(Ready::EvaluatorUnavailable),
        row(
            "a decision is due, and its reads take too long",
            |it| {
                say(
                    it,
                    "Pending",
                    "ReadTooSlow",
                    "a decision is due, and the API server takes longer than 5 seconds",
                )
            },
            "Waits",
            "the API server takes longer than 5 seconds",
            "logs deployment/request-controller",
        )
        .of(Ready::ReadTooSlow),
        row(
            "the grant cannot be written",
            |it| say(it, "Pending", "GrantNotWritten", "roles: forbidden"),
            "Waits",
            "roles: forbidden",
            "logs deployment/request-controller",
        )
        .of(Ready::GrantNotWritten),
        row(
            "the grant was removed, and is written again",
            |it| {
                say(
                    it,
                    "Pending",
                    "GrantNotWritten",
                    "the permission was removed by somebody else",
                );
                request(it, |it| {
                    it["status"]["grantedAt"] = after(2).into();
                    it["status"]["evidence"] = "sha256:0".into();
                    it["status"]["connectorUid"] = "uid-prod-harbor".into();
                    it["status"]["policies"] = json!([{
                        "policy": policy("approved-changes", "payments"),
                        "checkRefs": [{"name": "change", "status": {"state": "approved"}}],
                        "grant": {"state": "Granting", "grantedAt": after(2)},
                    }]);
                });
            },
            "Waits",
            "the permission was removed by somebody else",
            "logs deployment/request-controller",
        )
        .of(Ready::GrantNotWritten),
        row(
            "the request-controller knows the switch as off",
            |it| {
                say(
                    it,
                    "Pending",
                    "ApprovalsDisabled",
                    "approvals are switched off; nothing new is granted",
                )
            },
            "Waits",
            "approvals are switched off",
            "logs deployment/request-controller",
        )
        .of(Ready::ApprovalsDisabled),
        row(
            "too many requests of the namespace wait",
            |it| {
                say(
                    it,
                    "Pending",
                    "TooManyRequests",
                    "too many requests of pods in namespace team-a",
                )
            },
            "Waits",
            "too many requests",
            "kubectl connectors top -A",
        )
        .of(Ready::TooManyRequests),
        row(
            "the pod is being deleted",
            |it| {
                going(it, "pods", "team-a", "build-1");
                say(it, "Pending", "PodTerminating", "the pod is being deleted");
            },
            "Waits",
            "the pod is being deleted",
            "",
        )
        .of(Ready::PodTerminating)
        .told("A new pod asks anew"),
        row(
            "the request is being deleted",
            |it| going(it, "accessrequests", "payments", &it.first_request()),
            "Waits",
            "is being deleted, and nothing is granted by it any more",
            "",
        )
        .told("once the request is deleted, a pod that waits for its mount asks anew"),
        row(
            "the wait is longer than the policy allows, and the controller has not acted yet",
            |it| {
                it.put(change("chg-42", Some("pending")));
                granted(it, |it| {
                    it["spec"]["limits"] = json!({"pendingTimeout": "10m"})
                });
            },
            "Waits",
            "waits no longer than its pendingTimeout, which is over",
            "logs deployment/request-controller",
        ),
    ]
}
