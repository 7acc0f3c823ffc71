//! Requests that are decided for good.

use connectors_api::reason::Ready;

use super::access::of_request;
use super::plant::{delete_request, ended, pod, say};
use super::{Situation, row};

pub(super) fn rows() -> Vec<Situation> {
    vec![
        row(
            "a check said no",
            |it| {
                ended(it, "CheckRejected");
                say(
                    it,
                    "Rejected",
                    "CheckRejected",
                    "policy approved-changes: ChangeRequest team-a/chg-42 is rejected",
                );
            },
            "Refused",
            "ChangeRequest team-a/chg-42 is rejected",
            "kubectl -n payments delete areq prod-harbor-",
        )
        .of(Ready::CheckRejected),
        row(
            "a check said no, and the pod runs with an error file",
            |it| {
                pod(it, |it| {
                    it["status"]["phase"] = "Running".into();
                    it["spec"]["volumes"][1]["csi"]["volumeAttributes"]["onRejected"] =
                        "ErrorFile".into();
                });
                ended(it, "CheckRejected");
                say(it, "Rejected", "CheckRejected", "chg-42 is rejected");
            },
            "Refused",
            "chg-42 is rejected",
            "",
        )
        .of(Ready::CheckRejected)
        .told("start a new pod: a volume of this one asks for an error file"),
        row(
            "the wait was longer than the policy allows",
            |it| {
                ended(it, "PendingTimeout");
                say(
                    it,
                    "Rejected",
                    "PendingTimeout",
                    "the checks took longer than the policy allows",
                );
            },
            "Refused",
            "took longer than the policy allows",
            "kubectl -n payments delete areq prod-harbor-",
        )
        .of(Ready::PendingTimeout),
        row(
            "the pod ran to its end",
            |it| {
                pod(it, |it| it["status"]["phase"] = "Succeeded".into());
                say(
                    it,
                    "Ended",
                    "PodFinished",
                    "pod team-a/build-1 ran to its end",
                );
            },
            "Ended",
            "ran to its end",
            "",
        )
        .of(Ready::PodFinished)
        .told("A new pod asks anew"),
        row(
            "the pod ran to its end, and its request is deleted",
            |it| {
                pod(it, |it| it["status"]["phase"] = "Failed".into());
                delete_request(it);
            },
            "Ended",
            "ran to its end",
            "",
        )
        .told("A new pod asks anew"),
        row(
            "the pod is gone",
            |it| {
                it.server.delete("pods", "team-a", "build-1");
                say(
                    it,
                    "Ended",
                    "PodGone",
                    "the pod is gone, or another pod took its name",
                );
            },
            "Ended",
            "the pod is gone, or another pod took its name",
            "",
        )
        .asked(of_request)
        .of(Ready::PodGone)
        .told("A new pod asks anew"),
        row(
            "the request ended because of a standing permission that is gone again",
            |it| {
                say(
                    it,
                    "Ended",
                    "StandingPermission",
                    "a standing permission covers the pod",
                )
            },
            "Ended",
            "a standing permission covers the pod",
            "",
        )
        .of(Ready::StandingPermission)
        .told("A new pod asks anew"),
        row(
            "the approval was withdrawn",
            |it| {
                pod(it, |it| it["status"]["phase"] = "Running".into());
                ended(it, "CheckLapsed");
                say(
                    it,
                    "Revoked",
                    "CheckLapsed",
                    "ChangeRequest team-a/chg-42 is not approved any more",
                );
            },
            "Refused",
            "is not approved any more",
            "kubectl -n payments delete areq prod-harbor-",
        )
        .of(Ready::CheckLapsed),
        row(
            "the time of the grant is over",
            |it| {
                ended(it, "Expired");
                say(
                    it,
                    "Revoked",
                    "Expired",
                    "the grant reached the end of its time",
                );
            },
            "Refused",
            "the end of its time",
            "kubectl -n payments delete areq prod-harbor-",
        )
        .of(Ready::Expired),
        row(
            "the policy behind the grant was deleted",
            |it| {
                ended(it, "PolicyDeleted");
                it.server
                    .delete("accesspolicies", "payments", "approved-changes");
                say(it, "Revoked", "PolicyDeleted", "the policy was deleted");
            },
            "Refused",
            "the policy was deleted",
            "kubectl -n payments delete areq prod-harbor-",
        )
        .of(Ready::PolicyDeleted),
        row(
            "the connector was replaced",
            |it| {
                say(
                    it,
                    "Revoked",
                    "ConnectorDeleted",
                    "connector prod-harbor is another one",
                )
            },
            "Refused",
            "is another one",
            "kubectl -n payments delete areq prod-harbor-",
        )
        .of(Ready::ConnectorDeleted),
        row(
            "the request names another service account than the pod's",
            |it| {
                say(
                    it,
                    "Invalid",
                    "WrongSubject",
                    "the pod does not run as ServiceAccount team-a/builder",
                )
            },
            "Refused",
            "does not run as",
            "kubectl -n payments delete areq prod-harbor-",
        )
        .of(Ready::WrongSubject),
        row(
            "another request decides for the pod",
            |it| say(it, "Invalid", "DuplicateRequest", "request other decides"),
            "Refused",
            "request other decides",
            "kubectl -n payments get areq",
        )
        .of(Ready::DuplicateRequest),
        row(
            "the request cannot be read as one",
            |it| {
                say(
                    it,
                    "Invalid",
                    "Unreadable",
                    "spec.context.objectRef.uid: required",
                )
            },
            "Refused",
            "objectRef.uid: required",
            "kubectl -n payments delete areq prod-harbor-",
        )
        .of(Ready::Unreadable),
    ]
}
