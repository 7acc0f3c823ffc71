//! From the grant, or the wait, to the end.

use serde_json::json;

use crate::support::{Approval, Gate, condition, name, policy, uid, wait_until};

/// A gate with one pod that was let in.
fn granted(test: &str) -> (Gate, serde_json::Value) {
    let gate = Gate::new(test);
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.start_pod("job");
    gate.wait_for_output("job");
    let request = gate.wait_for_phase("job", "Granted");
    gate.wait_for_access("job");
    (gate, request)
}

#[test]
fn a_pod_that_ran_to_its_end_loses_its_access() {
    let gate = Gate::new("pod-finished");
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    let mount = json!({
        "volumes": [{"name": "connector", "csi": {
            "driver": "connectors-csi", "readOnly": true, "volumeAttributes": {"connectors": "prod"},
        }}],
        "volumeMounts": [{"name": "connector", "mountPath": "/connector"}],
    });
    gate.scene()
        .start_pod_with("job", &["cat", "/connector"], &mount)
        .unwrap();
    assert_eq!(gate.scene().wait_for_end("job"), "Succeeded");
    gate.pod_ended("job");
    let request = gate.wait_for_phase("job", "Revoked");
    assert_eq!(
        condition(&request, "ContextObjectValid"),
        Some(("False", "Completed"))
    );
    assert_eq!(condition(&request, "Ready"), Some(("False", "PodFinished")));
    gate.wait_for_no_access("job", &uid(&request));
}

#[test]
fn a_pod_deleted_while_it_is_held_goes_at_once() {
    let gate = Gate::new("deleted-while-held");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    let request = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.assert_held("job");
    // Far less than the time for which the mount would have been held.
    gate.scene().run("delete pod job --timeout=40s").unwrap();
    // The kubelet may have told that it ran to its end before it was gone.
    let request = gate.wait_for_request(&name(&request), "to miss its pod", |request| {
        condition(request, "ContextObjectValid") == Some(("False", "NotFound"))
    });
    assert_eq!(request["status"]["phase"], "Ended");
    assert_eq!(
        condition(&request, "AccessPermissionSync"),
        Some(("Unknown", "NotJudged"))
    );
    gate.wait_for_event("AccessRequest", &name(&request), "AccessEnded");
    // An approval that comes now is of no use to anybody.
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.wait_for_no_access("job", &uid(&request));
}

#[test]
fn a_pod_of_the_same_name_starts_from_the_beginning() {
    let (gate, first) = granted("pod-replaced");
    gate.scene()
        .run("delete pod job --grace-period=0 --force --timeout=40s")
        .unwrap();
    gate.pod_ended("job");
    gate.scene().run("delete signoff yes").unwrap();
    gate.start_pod("job");
    let second = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    assert_ne!(uid(&first), uid(&second));
    gate.wait_for_no_access("job", &uid(&first));
    gate.assert_held("job");
    let first = gate.wait_for_request(&name(&first), "to be revoked", |request| {
        request["status"]["phase"] == "Revoked"
    });
    assert_eq!(
        condition(&first, "ContextObjectValid"),
        Some(("False", "NotFound"))
    );
    gate.set_approval("yes-again", "job", Approval::SignOff, "approved");
    gate.wait_for_output("job");
}

#[test]
fn a_terminating_pod_gets_nothing_new() {
    let gate = Gate::new("terminating");
    gate.create_policy("release", Approval::SignOff);
    // It takes its time to end, so that there is something to look at.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "job", "labels": {"app": "job"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 60,
            "containers": [{
                "name": "main",
                "image": gate.scene().workload_image(),
                "command": ["/workload"], "args": ["wait"],
                "lifecycle": {"preStop": {"sleep": {"seconds": 15}}},
            }],
        },
    });
    gate.scene().apply(&pod.to_string()).unwrap();
    gate.scene().wait_for_running("job");
    gate.request_by_hand("mine", "job").unwrap();
    let request = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.scene().run("delete pod job --wait=false").unwrap();
    gate.wait_for_request("mine", "to wait for nothing", |request| {
        condition(request, "Ready") == Some(("False", "PodTerminating"))
    });
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    let seen = gate.wait_for_request("mine", "to have seen the approval", |request| {
        condition(request, "AccessCheckReady") == Some(("True", "AccessCheckPassed"))
    });
    assert_eq!(seen["status"]["phase"], "Pending");
    assert_eq!(condition(&seen, "Ready"), Some(("False", "PodTerminating")));
    assert_eq!(gate.grants(&uid(&request)), Vec::<String>::new());
    assert!(!gate.may_use("job"));
    gate.wait_for_request("mine", "to end with the pod", |request| {
        request["status"]["phase"] == "Ended"
    });
    assert_eq!(gate.grants(&uid(&request)), Vec::<String>::new());
}

#[test]
fn a_request_that_is_deleted_takes_its_grant_with_it() {
    let (gate, request) = granted("request-deleted");
    gate.scene()
        .run(&format!("delete accessrequest {}", name(&request)))
        .unwrap();
    gate.wait_for_no_access("job", &uid(&request));
}

#[test]
fn a_connector_that_is_deleted_takes_the_grant_with_it() {
    let (gate, request) = granted("connector-deleted");
    gate.scene()
        .run("delete connectors.connectors.alauda.io prod")
        .unwrap();
    gate.wait_for_no_access("job", &uid(&request));
    let request = gate.wait_for_phase("job", "Revoked");
    assert_eq!(
        condition(&request, "Ready"),
        Some(("False", "ConnectorDeleted"))
    );
    // Another one under its name is another connector.
    gate.create_connector("prod");
    gate.wait_for_no_access("job", &uid(&request));
}

#[test]
fn an_approval_that_is_withdrawn_takes_the_access_back_for_good() {
    let (gate, request) = granted("withdrawn");
    gate.set_approval("yes", "job", Approval::SignOff, "expired");
    gate.approval_ended("job", "release");
    gate.wait_for_no_access("job", &uid(&request));
    let request = gate.wait_for_phase("job", "Revoked");
    assert_eq!(condition(&request, "Ready"), Some(("False", "CheckLapsed")));
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.wait_for_no_access("job", &uid(&request));
    gate.wait_for_phase("job", "Revoked");
}

#[test]
fn deleting_an_approval_after_the_grant_changes_nothing_unless_the_policy_says_so() {
    let (gate, request) = granted("approval-deleted");
    gate.scene().run("delete signoff yes").unwrap();
    // The controller has seen the deletion once it has seen what came after it.
    gate.set_approval("later", "probe", Approval::SignOff, "rejected");
    gate.start_pod("probe");
    gate.wait_for_phase("probe", "Rejected");
    assert!(gate.may_use("job"));
    assert_eq!(gate.grants(&uid(&request)).len(), 2);

    let mut strict = policy("strict", Approval::SignOff);
    strict["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["latch"] = json!("WhileHolds");
    let strict_gate = gate.another("approval-deleted-strict");
    strict_gate.create_connector("prod");
    strict_gate.scene().apply(&strict.to_string()).unwrap();
    strict_gate.set_approval("yes", "job", Approval::SignOff, "approved");
    strict_gate.start_pod("job");
    let request = strict_gate.wait_for_phase("job", "Granted");
    strict_gate.scene().run("delete signoff yes").unwrap();
    strict_gate.approval_ended("job", "strict");
    strict_gate.wait_for_no_access("job", &uid(&request));
}

#[test]
fn of_two_policies_one_lapses_and_the_other_holds() {
    let gate = Gate::new("two-policies");
    gate.create_policy("by-signoff", Approval::SignOff);
    gate.create_policy("by-configmap", Approval::ConfigMap);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.set_approval("yes", "job", Approval::ConfigMap, "approved");
    gate.start_pod("job");
    gate.wait_for_output("job");
    let request = gate.wait_for_phase("job", "Granted");
    let request_uid = uid(&request);
    wait_until("both grants", || gate.grants(&request_uid).len() == 4);

    gate.set_approval("yes", "job", Approval::SignOff, "expired");
    gate.approval_ended("job", "by-signoff");
    wait_until("one grant to go", || gate.grants(&request_uid).len() == 2);
    assert!(gate.may_use("job"));
    gate.wait_for_phase("job", "Granted");

    gate.set_approval("yes", "job", Approval::ConfigMap, "expired");
    gate.approval_ended("job", "by-configmap");
    gate.wait_for_no_access("job", &request_uid);
    gate.wait_for_phase("job", "Revoked");
}

#[test]
fn a_grant_that_was_deleted_by_hand_comes_back_and_none_can_be_edited() {
    let (gate, request) = granted("by-hand");
    let grant = gate.grants(&uid(&request));
    let binding = grant
        .iter()
        .find(|name| name.starts_with("rolebinding"))
        .unwrap();
    gate.scene().run(&format!("delete {binding}")).unwrap();
    // It comes back only through a fresh look at everything, and everything still holds.
    wait_until("the grant to come back", || {
        gate.grants(&uid(&request)).len() == 2
    });
    gate.wait_for_access("job");

    // Widened by somebody whom the API server lets pass: the administrator of the whole cluster is refused too.
    let role = grant.iter().find(|name| name.starts_with("role.")).unwrap();
    let widen = r#"--type=json --patch [{"op":"replace","path":"/rules/0/resources/0","value":"connectors/apis"}]"#;
    let refused = gate
        .scene()
        .run(&format!("patch {role} {widen}"))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("ValidatingAdmissionPolicy"), "{refused}");
}

#[test]
fn nobody_puts_a_finalizer_on_a_grant_or_an_owner_on_a_request() {
    let (gate, request) = granted("protected");
    let namespace = gate.namespace().to_owned();
    // What a namespace's administrator may do, and on top of it the requests.
    gate.scene()
        .run(&format!(
            "create rolebinding boss --clusterrole=admin --user=boss --namespace {namespace}"
        ))
        .unwrap();
    gate.scene()
        .run("create role requests --verb=* --resource=accessrequests.connectors.alauda.io")
        .unwrap();
    gate.scene()
        .run("create rolebinding requests --role=requests --user=boss")
        .unwrap();
    wait_until("the administrator's rights", || {
        gate.scene().run("--as boss get accessrequests").is_ok()
    });
    let finalizer = r#"--type=merge --patch {"metadata":{"finalizers":["e2e.example.com/hold"]}}"#;
    for grant in gate.grants(&uid(&request)) {
        let refused = gate
            .scene()
            .run(&format!("--as boss patch {grant} {finalizer}"))
            .unwrap_err()
            .to_string();
        assert!(refused.contains("ValidatingAdmissionPolicy"), "{refused}");
    }
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}]}});
    let finalizer = json!({"metadata": {"finalizers": ["e2e.example.com/hold"]}});
    for patch in [owner, finalizer] {
        let refused = gate
            .scene()
            .run(&format!(
                "--as boss patch accessrequest {} --type=merge --patch {patch}",
                name(&request)
            ))
            .unwrap_err()
            .to_string();
        assert!(refused.contains("ValidatingAdmissionPolicy"), "{refused}");
    }
    // Taking access away stays everybody's right who has it in RBAC.
    gate.scene()
        .run(&format!(
            "--as boss delete accessrequest {}",
            name(&request)
        ))
        .unwrap();
    gate.wait_for_no_access("job", &uid(&request));
}
