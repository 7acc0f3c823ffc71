//! Checks, and the objects that they find.

use connectors_api::judge::JudgeReason;
use connectors_api::policy_reason::ChecksValid;
use connectors_api::reason::Ready;
use connectors_api::wanted_objects::CheckTrouble;
use serde_json::{Value, json};

use super::plant::{check, going, invalid, rego, say};
use super::{Situation, row};
use crate::cluster::change;

pub(super) fn rows() -> Vec<Situation> {
    vec![
        row(
            "no check object exists",
            |it| say(it, "Pending", "ChecksPending", "waits for its checks"),
            "Waits",
            "no ChangeRequest with labels pod=build-1 in namespace team-a",
            "get changerequests.itsm.example.com -l pod=build-1",
        )
        .of(JudgeReason::NoObjects)
        .of(Ready::ChecksPending)
        .finding_nothing(),
        row(
            "the check object is being deleted",
            |it| {
                it.put(change("chg-42", Some("approved")));
                going(it, "changerequests", "team-a", "chg-42");
            },
            "Waits",
            "ChangeRequest chg-42 is being deleted",
            "get changerequests.itsm.example.com -l pod=build-1",
        )
        .of(JudgeReason::NoObjects),
        row(
            "the check object has not decided",
            |it| drop(it.put(change("chg-42", Some("pending")))),
            "Waits",
            "ChangeRequest team-a/chg-42 is pending",
            "kubectl connectors approve changerequests.itsm.example.com/chg-42 -n team-a",
        ).of(JudgeReason::Pending),
        row(
            "the check object is in a state that does not pass",
            |it| drop(it.put(change("chg-42", Some("expired")))),
            "Waits",
            "expired",
            "kubectl connectors approve changerequests.itsm.example.com/chg-42 -n team-a",
        ).of(JudgeReason::NotHolding),
        row(
            "the check object is approved, and the controller has not acted yet",
            |it| drop(it.put(change("chg-42", Some("approved")))),
            "Waits",
            "has not granted access yet",
            "",
        ).of(JudgeReason::Approved).told("access is granted within moments"),
        row(
            "the check object says no, and the controller has not acted yet",
            |it| drop(it.put(change("chg-42", Some("rejected")))),
            "Waits",
            "rejected",
            "",
        ).of(JudgeReason::Rejected).told("ChangeRequest team-a/chg-42 says no, which refuses the request for good"),
        row(
            "the state of the check object is no word",
            |it| {
                let mut odd = change("chg-42", None);
                odd["status"] = json!({"state": {"approved": true}});
                it.put(odd);
                say(it, "Pending", "ChecksFailed", "status.state: must be a string");
            },
            "Waits",
            "status.state: must be a string",
            "kubectl connectors approve changerequests.itsm.example.com/chg-42 -n team-a",
        )
        .of(JudgeReason::StateUnreadable)
        .of(Ready::ChecksFailed),
        row(
            "a check object is nested so deeply that no service reads it",
            |it| {
                let mut deep = Value::Null;
                for _ in 0..200 {
                    deep = json!([deep]);
                }
                let mut odd = change("chg-42", Some("approved"));
                odd["spec"]["note"] = deep;
                it.put(odd);
            },
            "Waits",
            "ChangeRequest chg-42 cannot be read",
            "get changerequests.itsm.example.com -l pod=build-1",
        )
        .of(CheckTrouble::ObjectUnreadable),
        row(
            "one of two objects has not decided",
            |it| {
                it.put(change("chg-42", Some("approved")));
                it.put(change("chg-43", None));
            },
            "Waits",
            "ChangeRequest team-a/chg-43 is pending",
            "kubectl connectors approve changerequests.itsm.example.com/chg-43 -n team-a",
        ).of(JudgeReason::Pending),
        row(
            "a template is about a field that policies of other namespaces do not see",
            |it| {
                check(it, |it| {
                    it["selector"]["labels"] =
                        json!({"change": "{.object.metadata.annotations.change}"});
                });
                invalid(it, "ChecksInvalid", "selector.labels: cannot be used");
            },
            "Waits",
            "SelectorInvalid",
            "edit accesspolicy approved-changes",
        ).of(CheckTrouble::SelectorInvalid).of(ChecksValid::ChecksInvalid),
        row(
            "the pod lacks the label by which the check finds its objects",
            |it| {
                check(it, |it| {
                    it["selector"]["labels"] = json!({"change": "{.object.metadata.labels.chg}"});
                });
            },
            "Waits",
            "pod build-1 has no label `chg`",
            "kubectl -n team-a label pod build-1 chg=VALUE",
        ).of(CheckTrouble::SelectorInvalid),
        row(
            "the policy selects by a field that is not shared with it",
            |it| {
                check(it, |it| {
                    it["selector"]["fieldSelector"] = json!({"spec.note": "x"})
                })
            },
            "Waits",
            "spec.note is not shared",
            "edit accesspolicy approved-changes",
        ).of(CheckTrouble::SelectorInvalid),
        row(
            "the kind of the check objects does not exist",
            |it| {
                it.server.unregister("changerequests", "itsm.example.com");
                invalid(it, "KindMissing", "the cluster has no kind ChangeRequest");
            },
            "Waits",
            "there is no kind ChangeRequest of itsm.example.com/v1",
            "",
        )
        .of(CheckTrouble::KindMissing)
        .of(ChecksValid::KindMissing)
        .told("install the software that defines itsm.example.com/v1 ChangeRequest"),
        row(
            "objects of the kind are in no namespace",
            |it| {
                check(it, |it| {
                    it["selector"]["objectRef"] = json!({
                        "apiVersion": "itsm.example.com/v1", "kind": "Freeze",
                    });
                });
                invalid(it, "KindNotNamespaced", "objects of kind Freeze are in no namespace");
            },
            "Waits",
            "objects of kind Freeze are in no namespace",
            "edit accesspolicy approved-changes",
        ).of(CheckTrouble::KindNotNamespaced).of(ChecksValid::KindNotNamespaced),
        row(
            "the request-controller may not read the kind of the check objects",
            |it| {
                it.put(change("chg-42", Some("approved")));
                it.server
                    .change("clusterroles", "", "check-reader", |it| it["rules"] = json!([]));
            },
            "Waits",
            "changerequests may not be read; add the kind to the chart's checks.kinds",
            "",
        )
        .of(CheckTrouble::KindForbidden)
        .told("ask an administrator of the installation: changerequests may not be read"),
        row(
            "the policy-controller says so of the kind too",
            |it| {
                it.server
                    .change("clusterroles", "", "check-reader", |it| it["rules"] = json!([]));
                invalid(it, "KindNotReadable", "changerequests may not be read");
            },
            "Waits",
            "KindNotReadable: changerequests may not be read",
            "",
        )
        .of(ChecksValid::KindNotReadable)
        .told("ask an administrator of the installation: KindNotReadable"),
        row(
            "objects of the kind are never approvals",
            |it| {
                check(it, |it| {
                    it["selector"]["objectRef"] = json!({"apiVersion": "v1", "kind": "Service"});
                });
            },
            "Waits",
            "a Service of v1 is no approval",
            "edit accesspolicy approved-changes",
        ).of(JudgeReason::KindRefused),
        row(
            "the check requires a proof that no lineage gives",
            |it| {
                check(it, |it| it["provenance"] = "Required".into());
                invalid(it, "ProofUnavailable", "no lineage is known");
            },
            "Waits",
            "no lineage is known that proves that a ChangeRequest belongs",
            "edit accesspolicy approved-changes",
        )
        .of(JudgeReason::ProofUnavailable)
        .of(ChecksValid::ProofUnavailable),
        row(
            "the check names approvers of a kind that records none",
            |it| check(it, |it| it["approvers"] = json!({"users": ["alice"]})),
            "Waits",
            "does not record who approved",
            "edit accesspolicy approved-changes",
        ).of(JudgeReason::ApproversUnsupported),
        row(
            "the Rego module has a mistake",
            |it| rego(it, "package approval\noutput := {\"state\": "),
            "Waits",
            "the Rego module gives no answer",
            "edit accesspolicy approved-changes",
        ).of(JudgeReason::RegoFailed),
        row(
            "the Rego module takes too long",
            |it| {
                let module = "package approval\noutput := {\"state\": \"approved\"} { \
                              count([1 | numbers.range(1, 90000)[_]; numbers.range(1, 90000)[_]]) > 1 }";
                rego(it, module);
            },
            "Waits",
            "the Rego module gives no answer",
            "edit accesspolicy approved-changes",
        ).of(JudgeReason::RegoLimit),
        row(
            "the Rego module says to wait",
            |it| {
                rego(
                    it,
                    "package approval\noutput := {\"state\": \"pending\", \"message\": \"not yet\"}",
                );
            },
            "Waits",
            "the policy's Rego module decided",
            "edit changerequests.itsm.example.com chg-42",
        ).of(JudgeReason::Pending),
    ]
}
