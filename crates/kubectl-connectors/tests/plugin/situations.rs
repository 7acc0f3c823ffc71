//! Planted situations: `explain` names the true cause of each, and what to type next. The table is in docs/cli.md.

#![allow(
    clippy::semicolon_if_nothing_returned,
    clippy::too_many_lines,
    reason = "a table, whose cells plant something each"
)]

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cluster::{Cluster, after, change, policy};
use crate::documents::page_has;

type Plant = fn(&Cluster);

/// A situation, and what is said about it.
struct Situation {
    /// What is wrong.
    what: &'static str,
    /// Plants it.
    plant: Plant,
    /// The state of the access.
    state: &'static str,
    /// A part of the sentence or of the tree that names the cause.
    cause: &'static str,
    /// A part of the next command; empty if no command helps.
    next: &'static str,
}

fn row(
    what: &'static str,
    plant: Plant,
    state: &'static str,
    cause: &'static str,
    next: &'static str,
) -> Situation {
    Situation {
        what,
        plant,
        state,
        cause,
        next,
    }
}

fn name_of_request(cluster: &Cluster) -> String {
    let requests = cluster.server.list("accessrequests");
    requests[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

fn say(cluster: &Cluster, phase: &str, reason: &str, message: &str) {
    cluster.say(&name_of_request(cluster), phase, reason, message);
}

fn grant(cluster: &Cluster) {
    cluster.grant("build-1", &name_of_request(cluster));
}

fn check(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster.policy(|it| {
        change(&mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0]);
    });
}

fn rego(cluster: &Cluster, module: &str) {
    cluster.put(change("chg-42", None));
    check(cluster, |it| it["state"] = json!({"rego": module}));
}

fn pod(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster.server.change("pods", "team-a", "build-1", change);
}

/// What a policy of the request came to.
fn ended(cluster: &Cluster, reason: &str) {
    let request = name_of_request(cluster);
    cluster
        .server
        .change("accessrequests", "payments", &request, |it| {
            it["status"]["policies"] = json!([{
                "policy": policy("approved-changes", "payments"),
                "checkRefs": [{"name": "change", "ref": {"apiVersion": "itsm.example.com/v1",
                    "kind": "ChangeRequest", "namespace": "team-a", "name": "chg-42"},
                    "status": {"state": "rejected", "reason": "Rejected"}}],
                "grant": {"state": "Ended", "reason": reason, "endedAt": after(5)},
            }]);
        });
}

/// Situations of the pod `build-1`, whose policy wants an approved change.
fn of_changes() -> Vec<Situation> {
    vec![
        row(
            "access is granted",
            grant,
            "Granted",
            "granted by policy approved-changes",
            "kubectl -n team-a describe pod build-1",
        ),
        row(
            "the time of the grant is over, and the controller has not acted yet",
            |it| {
                grant(it);
                let request = name_of_request(it);
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
                let request = name_of_request(it);
                it.server
                    .change("accessrequests", "payments", &request, |it| {
                        it["metadata"]["finalizers"] = json!(["example.com/stay"]);
                    });
                it.server.delete("accessrequests", "payments", &request);
            },
            "NotInForce",
            "the request is being deleted",
            "",
        ),
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
            "access is granted, and the scheduling gate of the pod is still there",
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
        ),
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
            "the connector does not exist",
            |it| it.server.delete("connectors", "payments", "prod-harbor"),
            "Waits",
            "there is no connector payments/prod-harbor",
            "kubectl -n payments get connectors",
        ),
        row(
            "no policy is about the connector",
            |it| it.policy(|it| it["spec"]["connector"]["names"] = json!(["git"])),
            "Waits",
            "no policy of namespace payments is about payments/prod-harbor",
            "kubectl -n payments get accesspolicies",
        ),
        row(
            "the policy does not accept the service account",
            |it| {
                it.policy(|it| {
                    it["spec"]["checkGrantedPermission"]["requesters"] =
                        json!([{"kind": "ServiceAccount", "name": "ops"}]);
                });
            },
            "Waits",
            "none of requesters is ServiceAccount team-a/builder",
            "edit accesspolicy approved-changes",
        ),
        row(
            "the policy names no requesters, and the pod is elsewhere",
            |it| {
                it.policy(|it| {
                    let granted = &mut it["spec"]["checkGrantedPermission"];
                    granted.as_object_mut().unwrap().remove("requesters");
                });
            },
            "Waits",
            "default-requesters: Namespace",
            "edit accesspolicy approved-changes",
        ),
        row(
            "the policy is about another permission",
            |it| it.policy(|it| it["spec"]["permission"] = "proxy".into()),
            "Waits",
            "the policy is about proxy, the question about apis",
            "edit accesspolicy approved-changes",
        ),
        row(
            "the policy has a field that no service knows",
            |it| it.policy(|it| it["spec"]["conector"] = json!({})),
            "Waits",
            "spec.conector: unknown field",
            "get accesspolicies",
        ),
        row(
            "no check object exists",
            |_| (),
            "Waits",
            "no ChangeRequest with labels pod=build-1 in namespace team-a",
            "get changerequests.itsm.example.com -l pod=build-1",
        ),
        row(
            "the check object has not decided",
            |it| drop(it.put(change("chg-42", Some("pending")))),
            "Waits",
            "ChangeRequest team-a/chg-42 is pending",
            "kubectl connectors approve changerequests.itsm.example.com/chg-42 -n team-a",
        ),
        row(
            "the check object is in a state that does not pass",
            |it| drop(it.put(change("chg-42", Some("expired")))),
            "Waits",
            "expired",
            "kubectl connectors approve changerequests.itsm.example.com/chg-42 -n team-a",
        ),
        row(
            "the check object is approved, and the controller has not acted yet",
            |it| drop(it.put(change("chg-42", Some("approved")))),
            "Waits",
            "has not granted access yet",
            "",
        ),
        row(
            "the check object says no, and the controller has not acted yet",
            |it| drop(it.put(change("chg-42", Some("rejected")))),
            "Waits",
            "rejected",
            "",
        ),
        row(
            "the state of the check object is no word",
            |it| {
                let mut odd = change("chg-42", None);
                odd["status"] = json!({"state": {"approved": true}});
                it.put(odd);
            },
            "Waits",
            "status.state: must be a string",
            "kubectl connectors approve changerequests.itsm.example.com/chg-42 -n team-a",
        ),
        row(
            "a template is about a field that policies of other namespaces do not see",
            |it| {
                check(it, |it| {
                    it["selector"]["labels"] =
                        json!({"change": "{.object.metadata.annotations.change}"});
                });
            },
            "Waits",
            "SelectorInvalid",
            "edit accesspolicy approved-changes",
        ),
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
        ),
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
        ),
        row(
            "the kind of the check objects does not exist",
            |it| it.server.unregister("changerequests", "itsm.example.com"),
            "Waits",
            "there is no kind ChangeRequest of itsm.example.com/v1",
            "",
        ),
        row(
            "objects of the kind are in no namespace",
            |it| {
                check(it, |it| {
                    it["selector"]["objectRef"] = json!({
                        "apiVersion": "itsm.example.com/v1", "kind": "Freeze",
                    });
                });
            },
            "Waits",
            "objects of kind Freeze are in no namespace",
            "edit accesspolicy approved-changes",
        ),
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
        ),
        row(
            "the check requires a proof that no lineage gives",
            |it| check(it, |it| it["provenance"] = "Required".into()),
            "Waits",
            "no lineage is known",
            "edit accesspolicy approved-changes",
        ),
        row(
            "the check names approvers of a kind that records none",
            |it| check(it, |it| it["approvers"] = json!({"users": ["alice"]})),
            "Waits",
            "does not record who approved",
            "edit accesspolicy approved-changes",
        ),
        row(
            "the Rego module has a mistake",
            |it| rego(it, "package approval\noutput := {\"state\": "),
            "Waits",
            "the Rego module gives no answer",
            "edit accesspolicy approved-changes",
        ),
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
        ),
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
        ),
        row(
            "one of two objects has not decided",
            |it| {
                it.put(change("chg-42", Some("approved")));
                it.put(change("chg-43", None));
            },
            "Waits",
            "ChangeRequest team-a/chg-43 is pending",
            "kubectl connectors approve changerequests.itsm.example.com/chg-43 -n team-a",
        ),
        row(
            "the policy-controller says that the kind may not be read",
            |it| {
                it.policy(|it| {
                    it["status"]["conditions"] = json!([{
                        "type": "ChecksValid", "status": "False", "reason": "KindNotReadable",
                        "message": "changerequests may not be read", "lastTransitionTime": after(0),
                    }]);
                });
            },
            "Waits",
            "KindNotReadable: changerequests may not be read",
            "",
        ),
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
        ),
        row(
            "the grant cannot be written",
            |it| say(it, "Pending", "GrantNotWritten", "roles: forbidden"),
            "Waits",
            "roles: forbidden",
            "logs deployment/request-controller",
        ),
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
            "patch configmap connectors-config",
        ),
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
        ),
        row(
            "the pod is being deleted",
            |it| {
                pod(it, |it| {
                    it["metadata"]["finalizers"] = json!(["example.com/stay"])
                });
                it.server.delete("pods", "team-a", "build-1");
                say(it, "Pending", "PodTerminating", "the pod is being deleted");
            },
            "Waits",
            "the pod is being deleted",
            "",
        ),
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
        ),
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
            "start a new pod",
            "",
        ),
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
        ),
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
        ),
        row(
            "the pod ran to its end, and its request is deleted",
            |it| {
                pod(it, |it| it["status"]["phase"] = "Failed".into());
                it.server
                    .delete("accessrequests", "payments", &name_of_request(it));
            },
            "Ended",
            "ran to its end",
            "",
        ),
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
        ),
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
        ),
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
        ),
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
        ),
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
        ),
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
        ),
        row(
            "another request decides for the pod",
            |it| say(it, "Invalid", "DuplicateRequest", "request other decides"),
            "Refused",
            "request other decides",
            "kubectl -n payments get areq",
        ),
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
        ),
        row(
            "the pod runs with a volume from before approvals were switched on",
            |it| {
                pod(it, |it| it["status"]["phase"] = "Running".into());
                it.server
                    .delete("accessrequests", "payments", &name_of_request(it));
            },
            "Kept",
            "mounted the connector while approvals were switched off",
            "",
        ),
    ]
}

/// Situations of the pod of a pipeline run, whose policy wants its `ApprovalTask`.
fn of_runs() -> Vec<Situation> {
    vec![
        row(
            "the approvers have not answered",
            |_| (),
            "Waits",
            "waits for its approvers alice, group qa",
            "kubectl connectors approve approvaltask/run-wait -n team-a",
        ),
        row(
            "none of the approvers who may still answer counts for the policy",
            |it| run_check(it, |it| it["approvers"] = json!({"users": ["carol"]})),
            "Waits",
            "waits for its approvers",
            "",
        ),
        row(
            "too few of the policy's approvers approved",
            |it| {
                run_check(it, |it| it["approvers"] = json!({"users": ["carol"]}));
                approve(it);
            },
            "Waits",
            "QuorumNotMet",
            "",
        ),
        row(
            "nothing guarantees who created the run",
            |it| {
                run_check(it, |it| it["approvers"] = json!({"notRequester": true}));
                approve(it);
            },
            "Waits",
            "CreatorUnknown",
            "",
        ),
        row(
            "an approver said no",
            |it| {
                it.approval(|it| {
                    it["spec"]["approvers"][0]["input"] = "reject".into();
                    it["status"]["state"] = "rejected".into();
                });
            },
            "Waits",
            "Rejected",
            "",
        ),
        row(
            "the approvers did not decide in time",
            |it| it.approval(|it| it["status"]["state"] = "rejected".into()),
            "Waits",
            "TimedOut",
            "",
        ),
        row(
            "the run has not come to its approval",
            |it| it.server.delete("approvaltasks", "team-a", "run-wait"),
            "Waits",
            "no ApprovalTask with labels tekton.dev/pipelineRun=run",
            "get approvaltasks.openshift-pipelines.org -l tekton.dev/pipelineRun=run",
        ),
        row(
            "Tekton has not written the pod's name yet",
            |it| {
                it.server.change("taskruns", "team-a", "run-deploy", |it| {
                    it["status"] = json!({})
                });
            },
            "Waits",
            "LineageIncomplete",
            "",
        ),
        row(
            "the run asked for another approval, which has lost its labels",
            |it| {
                it.server.change("pipelineruns", "team-a", "run", |it| {
                    let task = it["status"]["pipelineSpec"]["tasks"][0].clone();
                    let tasks = it["status"]["pipelineSpec"]["tasks"].as_array_mut().unwrap();
                    tasks.push(task);
                    tasks.last_mut().unwrap()["name"] = "review".into();
                    let children = it["status"]["childReferences"].as_array_mut().unwrap();
                    children.push(json!({
                        "apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun", "name": "run-review",
                        "pipelineTaskName": "review",
                    }));
                });
                approve(it);
            },
            "Waits",
            "its run asked for ApprovalTask run-review too",
            "",
        ),
        row(
            "the TaskRun of the pod is gone",
            |it| it.server.delete("taskruns", "team-a", "run-deploy"),
            "Waits",
            "LineageIncomplete",
            "",
        ),
        row(
            "the run was cancelled",
            |it| {
                it.server.change("pipelineruns", "team-a", "run", |it| {
                    it["spec"]["status"] = "Cancelled".into()
                });
            },
            "Waits",
            "RunCancelled",
            "",
        ),
        row(
            "the run lists the approval as the child of another task",
            |it| {
                it.server.change("pipelineruns", "team-a", "run", |it| {
                    it["status"]["childReferences"][0]["pipelineTaskName"] = "other".into();
                });
            },
            "Waits",
            "NoPipelineTask",
            "",
        ),
        row(
            "the approval has other approvers than its run asks for",
            |it| it.approval(|it| it["spec"]["approvers"][0]["name"] = "mallory".into()),
            "Waits",
            "OtherApprovers",
            "",
        ),
        row(
            "no CustomRun controls the approval",
            |it| it.approval(|it| it["metadata"]["ownerReferences"] = json!([])),
            "Waits",
            "ApprovalWithoutCustomRun",
            "",
        ),
        row(
            "the state says approved, and no approver does",
            |it| it.approval(|it| it["status"]["state"] = "approved".into()),
            "Waits",
            "QuorumNotMet",
            "",
        ),
    ]
}

fn approve(cluster: &Cluster) {
    cluster.approval(|it| {
        it["spec"]["approvers"][0]["input"] = "approve".into();
        it["status"]["state"] = "approved".into();
    });
}

fn run_check(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster
        .server
        .change("accesspolicies", "team-a", "approved-changes", |it| {
            change(&mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0]);
        });
}

async fn look(situation: &Situation, cluster: Cluster, pod: &str) -> Result<(), String> {
    let Situation {
        what,
        plant,
        state,
        cause,
        next,
    } = situation;
    plant(&cluster);
    let args = ["explain", pod, "-n", "team-a"];
    let text = cluster.run(&args).await;
    let explained = cluster.json(&args).await;
    let access = &explained["accesses"][0];
    let told = format!("{what}:\n{}{}", text.output, text.errors);
    if access["state"] != *state {
        return Err(format!("not {state}: {told}"));
    }
    if !text.output.contains(cause) {
        return Err(format!("no `{cause}`: {told}"));
    }
    let commands = access["next"].as_array().unwrap().iter();
    let commands: Vec<_> = commands.filter_map(|it| it["command"].as_str()).collect();
    let is_told = if next.is_empty() {
        commands.is_empty()
    } else {
        commands.iter().any(|it| it.contains(next))
    };
    if !is_told {
        return Err(format!("no next `{next}` in {commands:?}: {told}"));
    }
    // Only its approvers answer an ApprovalTask; a state is written by every user with the right.
    let typed = next.strip_prefix("kubectl connectors approve changerequests");
    if typed.is_some() {
        let words = next.split(' ').skip(2).chain(["--yes"]);
        let outcome = cluster.run(&words.collect::<Vec<_>>()).await;
        if outcome.exit.code() != 0 {
            let said = outcome.output + &outcome.errors;
            return Err(format!("`{next}`: {said}: {told}"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn explain_names_the_cause_of_every_planted_situation_and_what_to_type() {
    let mut problems = Vec::new();
    for situation in of_changes() {
        problems.extend(
            look(&situation, Cluster::waiting(), "pod/build-1")
                .await
                .err(),
        );
    }
    for situation in of_runs() {
        problems.extend(
            look(&situation, Cluster::with_run(), "pod/run-deploy-pod")
                .await
                .err(),
        );
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// `UPDATE_DOCS` writes the table.
#[test]
fn the_table_of_the_documentation_is_that_of_the_planted_situations() {
    let mut table = "| situation | `explain` says | what to type |\n|---|---|---|\n".to_owned();
    for it in of_changes().iter().chain(&of_runs()) {
        let next = if it.next.is_empty() {
            "nothing helps".to_owned()
        } else {
            format!("`{}`", it.next.trim_end_matches('-'))
        };
        writeln!(
            table,
            "| {} | {}: {} | {next} |",
            it.what, it.state, it.cause
        )
        .unwrap();
    }
    page_has("situations", &table);
}
