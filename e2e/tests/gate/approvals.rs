//! From the wait to the grant.

use std::{fs, time::Duration};

use e2e::{
    Deadline,
    api::kinds::{ACCESS_POLICY, DEFINITION, POD, SIGN_OFF},
    harness::PATIENCE,
    poll,
};
use serde_json::{Value, json};

use crate::support::{Approval, Gate, condition, definition_of, name, policy, uid, wait_until};

/// The whole path once, with everything that can be seen of it.
fn whole_path(test: &str, approval: Approval) {
    let gate = Gate::new(test);
    gate.create_policy("release", approval);
    assert!(!gate.may_use("job"));

    gate.start_pod("job");
    let request = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    assert_eq!(request["status"]["phase"], "Pending");
    assert_eq!(
        condition(&request, "ContextObjectValid"),
        Some(("True", "UnCompleted"))
    );
    assert_eq!(
        condition(&request, "ConnectorResolved"),
        Some(("True", "Resolved"))
    );
    assert_eq!(
        condition(&request, "AccessPolicyMatched"),
        Some(("True", "AccessPolicyMatched"))
    );
    assert_eq!(condition(&request, "Ready").unwrap().0, "False");
    let note = gate.wait_for_event("Pod", "job", "AccessPending");
    assert!(note.contains("prod"), "{note}");
    gate.assert_held("job");
    assert!(
        !asked_for_an_image(&gate, "job"),
        "the kubelet mounts before it asks for images"
    );
    assert!(!gate.may_use("job"));
    gate.assert_unbound(&uid(&request));

    gate.set_approval("yes", "job", approval, "approved");
    let output = gate.wait_for_output("job");
    for fact in [
        format!("/.connector/{}_prod/name\nprod", gate.namespace()),
        format!(
            "/.connector/{}_prod/address\nhttps://prod.example.com",
            gate.namespace()
        ),
        format!("/.connector/{}_prod/permission\napis", gate.namespace()),
        format!(
            "/.connector/{}_prod/request\n{}",
            gate.namespace(),
            name(&request)
        ),
        "/.connector/.complete".to_owned(),
    ] {
        assert!(output.contains(&fact), "{fact} is not in {output}");
    }
    wait_until("the kubelet to ask for the image", || {
        asked_for_an_image(&gate, "job")
    });
    let request = gate.wait_for_phase("job", "Granted");
    assert_eq!(
        condition(&request, "AccessCheckReady"),
        Some(("True", "AccessCheckPassed"))
    );
    assert_eq!(
        condition(&request, "AccessPermissionSync"),
        Some(("True", "AccessPermissionGranted"))
    );
    assert_eq!(condition(&request, "Ready").unwrap().0, "True");
    assert!(gate.may_use("job"));
    assert!(!gate.may_use("other"), "the grant covers another pod");
    assert_eq!(gate.grants(&uid(&request)).len(), 2);
    gate.wait_for_event("AccessRequest", &name(&request), "AccessGranted");
    gate.wait_for_event("Pod", "job", "AccessGranted");

    gate.delete(POD, "job");
    gate.wait_for_no_access("job", &uid(&request));
    let ended = gate.wait_for_request(&name(&request), "to be revoked", |request| {
        request["status"]["phase"] == "Revoked"
    });
    assert_eq!(
        condition(&ended, "AccessPermissionSync"),
        Some(("False", "AccessPermissionRevoked"))
    );
    assert_eq!(
        condition(&ended, "AccessCheckReady"),
        Some(("Unknown", "NotJudged"))
    );
    gate.wait_for_event("AccessRequest", &name(&request), "AccessEnded");
    gate.wait_for_event("Pod", "job", "AccessEnded");
    let warnings = gate.warnings("AccessRevoked");
    assert_eq!(warnings, Vec::<String>::new(), "a normal end warns nobody");
}

/// True when the kubelet pulls the image of a pod, or finds it on the node.
fn asked_for_an_image(gate: &Gate, pod: &str) -> bool {
    let is_it = |event: &Value| {
        event["regarding"]["name"] == pod
            && ["Pulling", "Pulled"].contains(&event["reason"].as_str().unwrap_or_default())
    };
    gate.events().iter().any(is_it)
}

#[test]
fn a_config_map_read_by_rego_lets_a_pod_in_until_it_ends() {
    whole_path("path-rego", Approval::ConfigMap);
}

#[test]
fn an_object_with_a_state_lets_a_pod_in_until_it_ends() {
    whole_path("path-duck", Approval::SignOff);
}

#[test]
fn an_approval_that_is_there_before_the_pod_lets_it_in_at_once() {
    let gate = Gate::new("approved-before");
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.start_pod("job");
    gate.wait_for_output("job");
    gate.wait_for_phase("job", "Granted");
}

#[test]
fn a_no_is_final_and_nothing_is_mounted() {
    let gate = Gate::new("rejected");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    gate.wait_for_phase("job", "Pending");
    gate.set_approval("no", "job", Approval::SignOff, "rejected");
    let request = gate.wait_for_phase("job", "Rejected");
    assert_eq!(
        condition(&request, "AccessCheckReady"),
        Some(("False", "AccessCheckRejected"))
    );
    gate.wait_for_event("AccessRequest", &name(&request), "AccessRejected");
    gate.wait_for_event("Pod", "job", "AccessDenied");

    // A change of mind comes too late, for this request and for any other of the same pod.
    gate.set_approval("no", "job", Approval::SignOff, "approved");
    let mut twin = request.clone();
    twin["metadata"] = json!({"name": "twin"});
    twin["status"] = json!(null);
    gate.scene().apply(&twin).unwrap();
    let twin = gate.wait_for_request("twin", "to be invalid", |request| {
        request["status"]["phase"] == "Invalid"
    });
    assert_eq!(
        condition(&twin, "Ready"),
        Some(("False", "DuplicateRequest"))
    );
    gate.assert_held("job");
    assert!(!gate.may_use("job"));
    gate.wait_until_nothing_is_left(&uid(&request));
    gate.wait_until_nothing_is_left(&uid(&twin));
}

#[test]
fn the_event_of_a_waiting_pod_follows_what_it_waits_for() {
    let gate = Gate::new("told-again");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    let told = |says: &str| gate.wait_for_note("Pod", "job", "AccessPending", says);
    told("checks look only in the pod's namespace");
    gate.set_approval("yes", "job", Approval::SignOff, "pending");
    told("/yes is pending");
    gate.set_approval("yes", "job", Approval::SignOff, "Approved");
    told("lower case: write \"approved\"");
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.wait_for_output("job");
}

#[test]
fn a_connector_that_is_created_later_is_waited_for() {
    let gate = Gate::empty("connector-later");
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.start_pod("job");
    gate.wait_for_reason("job", "ConnectorResolved", "NotFound");
    gate.assert_held("job");
    gate.create_connector("prod");
    gate.wait_for_output("job");
}

#[test]
fn a_policy_that_is_created_later_joins() {
    let gate = Gate::new("policy-later");
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessPolicyMatched", "NoAccessPolicyMatched");
    gate.assert_held("job");
    gate.create_policy("release", Approval::SignOff);
    gate.wait_for_output("job");
}

#[test]
fn a_check_kind_whose_definition_arrives_later_is_waited_for() {
    let gate = Gate::new("kind-later");
    remove_latecomers(&gate);
    let latecomers = "latecomers.e2e.example.com";
    gate.api()
        .wait_until_gone(DEFINITION, latecomers, PATIENCE)
        .unwrap();
    let mut late = policy("release", Approval::SignOff);
    late["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["objectRef"]["kind"] =
        json!("Latecomer");
    gate.scene().apply(&late).unwrap();
    gate.start_pod("job");
    let request = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckFailed");
    assert!(request.to_string().contains("Latecomer"), "{request}");
    gate.assert_held("job");

    gate.api().define(&definition_of("Latecomer")).unwrap();
    gate.set_state("Latecomer", "yes", "job", "approved");
    gate.wait_for_output("job");
    remove_latecomers(&gate);
}

/// Removes the definition of the kind, if it is there.
fn remove_latecomers(gate: &Gate) {
    match gate.api().delete(DEFINITION, "latecomers.e2e.example.com") {
        Err(error) if !error.is_not_found() => panic!("{error}"),
        _ => {}
    }
}

#[test]
fn a_policy_edited_before_the_grant_counts_as_it_is_and_after_it_not() {
    let gate = Gate::new("policy-edited");
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    // Tightened while the pod waits: another object must approve now.
    let mut tight = policy("release", Approval::SignOff);
    let labels =
        &mut tight["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["labels"];
    labels["tight"] = json!("yes");
    gate.scene().apply(&tight).unwrap();
    gate.start_pod("job");
    let request = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.assert_held("job");
    let label = json!({"metadata": {"labels": {"tight": "yes"}}});
    gate.api().patch(SIGN_OFF, "yes", &label).unwrap();
    gate.wait_for_output("job");
    gate.wait_for_phase("job", "Granted");

    // The policy is tightened again: the decision stays.
    let labels =
        &mut tight["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["labels"];
    labels["tighter"] = json!("yes");
    gate.scene().apply(&tight).unwrap();
    // The edit was seen once a pod that came after it was judged by it.
    gate.set_approval("probe", "probe", Approval::SignOff, "approved");
    gate.start_pod("probe");
    gate.wait_for_reason("probe", "AccessCheckReady", "AccessCheckPending");
    assert_eq!(gate.grants(&uid(&request)).len(), 2);
    assert!(gate.may_use("job"));

    // Its deletion revokes.
    gate.delete(ACCESS_POLICY, "release");
    gate.wait_for_no_access("job", &uid(&request));
    let request = gate.wait_for_phase("job", "Revoked");
    assert_eq!(
        condition(&request, "Ready"),
        Some(("False", "PolicyDeleted"))
    );
}

/// As docs/operate.md says how to find it.
#[test]
fn the_audit_log_names_the_author_of_the_version_that_was_judged() {
    let gate = Gate::new("author");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    let request = gate.wait_for_phase("job", "Granted");
    let judged = &request["status"]["policies"][0]["checkRefs"][0]["ref"];
    assert_eq!(judged["name"], "yes", "{request}");
    // The log of a cluster that was there before is its owner's.
    let Some(log) = gate.scene().audit_log() else {
        return;
    };
    let author = gate.scene().kubectl().run("auth whoami -o json").unwrap();
    let author: Value = serde_json::from_str(&author).unwrap();
    let is_the_write = |event: &Value| {
        event["objectRef"]["name"] == judged["name"]
            && event["objectRef"]["namespace"] == gate.namespace()
            && event["responseObject"]["metadata"]["resourceVersion"] == judged["resourceVersion"]
            && event["verb"] == "patch"
    };
    let write = poll(
        "the write in the audit log",
        Deadline::after(Duration::from_secs(30)),
        || {
            let text = fs::read_to_string(&log).map_err(|error| error.to_string())?;
            let lines = text.lines().filter(|line| line.contains("signoffs"));
            let mut events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
            events.find(is_the_write).ok_or_else(|| judged.to_string())
        },
    )
    .unwrap();
    assert_eq!(
        write["user"]["username"],
        author["status"]["userInfo"]["username"]
    );
    assert_eq!(write["objectRef"]["subresource"], "status");
}
