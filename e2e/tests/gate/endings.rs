//! From the grant, or the wait, to the end.

use std::time::Duration;

use e2e::{
    ApiUser,
    api::kinds::{ACCESS_REQUEST, CONNECTOR, POD, ROLE, ROLE_BINDING, SIGN_OFF},
    harness::PATIENCE,
};
use serde_json::json;

use crate::support::{
    Approval, Gate, condition, name, policy,
    rights::{self, RightHolder, RightRule},
    uid, wait_until,
};

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
    gate.delete_pod_and_wait("job", Duration::from_secs(40));
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
    // An approval that comes now has no effect.
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.wait_for_no_access("job", &uid(&request));
}

#[test]
fn a_pod_of_the_same_name_starts_from_the_beginning() {
    let (gate, first) = granted("pod-replaced");
    gate.api().delete_now(POD, "job").unwrap();
    gate.api().wait_until_gone(POD, "job", PATIENCE).unwrap();
    gate.pod_ended("job");
    gate.delete(SIGN_OFF, "yes");
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
    gate.scene().apply(&pod).unwrap();
    gate.scene().wait_for_running("job");
    gate.request_by_hand("mine", "job").unwrap();
    let request = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.delete(POD, "job");
    gate.wait_for_request("mine", "to wait for nothing", |request| {
        condition(request, "Ready") == Some(("False", "PodTerminating"))
    });
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    let seen = gate.wait_for_request("mine", "to have seen the approval", |request| {
        condition(request, "AccessCheckReady") == Some(("True", "AccessCheckPassed"))
    });
    assert_eq!(seen["status"]["phase"], "Pending");
    assert_eq!(condition(&seen, "Ready"), Some(("False", "PodTerminating")));
    gate.assert_unbound(&uid(&request));
    assert!(!gate.may_use("job"));
    gate.wait_for_request("mine", "to end with the pod", |request| {
        request["status"]["phase"] == "Ended"
    });
    gate.wait_until_nothing_is_left(&uid(&request));
}

#[test]
fn a_request_that_is_deleted_takes_its_grant_with_it() {
    let (gate, request) = granted("request-deleted");
    gate.delete(ACCESS_REQUEST, &name(&request));
    gate.wait_for_no_access("job", &uid(&request));
}

#[test]
fn a_connector_that_is_deleted_takes_the_grant_with_it() {
    let (gate, request) = granted("connector-deleted");
    gate.delete(CONNECTOR, "prod");
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
    gate.delete(SIGN_OFF, "yes");
    // The controller has seen the deletion once it has seen a later change.
    gate.set_approval("later", "probe", Approval::SignOff, "rejected");
    gate.start_pod("probe");
    gate.wait_for_phase("probe", "Rejected");
    assert!(gate.may_use("job"));
    assert_eq!(gate.grants(&uid(&request)).len(), 2);

    let mut strict = policy("strict", Approval::SignOff);
    strict["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["latch"] = json!("WhileHolds");
    let strict_gate = gate.another("approval-deleted-strict");
    strict_gate.create_connector("prod");
    strict_gate.scene().apply(&strict).unwrap();
    strict_gate.set_approval("yes", "job", Approval::SignOff, "approved");
    strict_gate.start_pod("job");
    let request = strict_gate.wait_for_phase("job", "Granted");
    strict_gate.delete(SIGN_OFF, "yes");
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
    let of_kind = |wanted| {
        let mut grant = gate.grant_objects(&uid(&request)).into_iter();
        grant.find(|(kind, _)| *kind == wanted).unwrap().1
    };
    gate.delete(ROLE_BINDING, &of_kind(ROLE_BINDING));
    // It comes back only through a fresh look at everything, and everything still holds.
    wait_until("the grant to come back", || {
        gate.grants(&uid(&request)).len() == 2
    });
    gate.wait_for_access("job");

    // Widened by a writer that the API server accepts: even the administrator of the whole cluster is
    // refused.
    let wide = json!({"rules": [{
        "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["*"],
    }]});
    let refused = gate.api().patch(ROLE, &of_kind(ROLE), &wide);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("ValidatingAdmissionPolicy"), "{refused}");
}

#[test]
fn nobody_puts_a_finalizer_on_a_grant_or_an_owner_on_a_request() {
    let (gate, request) = granted("protected");
    // The rights of a namespace's administrator, and in addition those on requests.
    let holder = RightHolder::User("boss");
    rights::bind(&gate, "boss", ("ClusterRole", "admin"), holder);
    let requests = RightRule {
        group: "connectors.alauda.io",
        resource: "accessrequests",
        name: None,
        verbs: &["*"],
    };
    rights::give(&gate, "requests", &[requests], holder);
    let by_boss = gate.api().acting_as(&ApiUser::named("boss"));
    let refused = |kind, name: &str, fields: &serde_json::Value| {
        let refused = by_boss.patch(kind, name, fields).unwrap_err().to_string();
        assert!(refused.contains("ValidatingAdmissionPolicy"), "{refused}");
    };
    let finalizer = json!({"metadata": {"finalizers": ["e2e.example.com/hold"]}});
    for (kind, grant) in gate.grant_objects(&uid(&request)) {
        refused(kind, &grant, &finalizer);
    }
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}]}});
    for fields in [owner, finalizer] {
        refused(ACCESS_REQUEST, &name(&request), &fields);
    }
    // Every user with the right in RBAC can still take access away.
    by_boss.delete(ACCESS_REQUEST, &name(&request)).unwrap();
    gate.wait_for_no_access("job", &uid(&request));
}
