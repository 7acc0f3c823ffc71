//! The feature switch: off opens the mounts and stops grants, and stops no revocation.

use e2e::api::kinds::{ACCESS_REQUEST, POD};
use serde_json::Value;

use crate::support::{Approval, Gate, Installation, MOUNT, name, uid};

#[test]
fn off_gates_nothing_and_on_again_gates_the_next_pod() {
    let gate = Gate::alone("switch");
    let installation = Installation::of(&gate);
    gate.create_policy("release", Approval::SignOff);

    let off = installation.switch("false");
    gate.start_pod("free");
    let output = gate.wait_for_output("free");
    assert!(output.contains("https://prod.example.com"), "{output}");
    assert!(!gate.may_use("free"));
    let requests = gate.api().list(ACCESS_REQUEST, "").unwrap();
    assert_eq!(requests, Vec::<Value>::new());

    drop(off);
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.assert_held("job");
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.wait_for_output("job");
}

#[test]
fn turned_on_it_takes_nothing_from_a_running_pod_unless_it_is_told_to() {
    let gate = Gate::alone("switch-on");
    let installation = Installation::of(&gate);
    gate.create_policy("release", Approval::SignOff);
    let off = installation.switch("false");
    gate.start_pod("running");
    gate.wait_for_output("running");
    let content = || gate.read_in("running", MOUNT);
    let address = "https://prod.example.com";

    let _on = installation.switch("true");
    drop(off);
    let note = gate.wait_for_event_of_republish("running", "MountedWhileOff");
    assert!(note.contains("until the pod ends"), "{note}");
    assert!(content().unwrap().contains(address));
    assert!(!gate.may_use("running"));
    // A restart of the driver forgets nothing.
    installation.kill("csi-node");
    installation.wait_until_ready("csi-node");
    gate.look_again("running");
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.assert_held("job");
    assert!(content().unwrap().contains(address));

    let _hard = installation.on_enable("Empty");
    let note = gate.wait_for_event_of_republish("running", "AccessRevoked");
    assert!(note.contains("while approvals were off"), "{note}");
    assert!(!content().unwrap().contains(address));
}

#[test]
fn a_pod_that_ends_while_it_is_off_still_loses_its_access() {
    let gate = Gate::alone("switch-revokes");
    let installation = Installation::of(&gate);
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.start_pod("job");
    gate.wait_for_output("job");
    let request = gate.wait_for_phase("job", "Granted");

    // Another one is waiting when the switch is turned: nothing is granted to it any more.
    gate.start_pod("late");
    let late = gate.wait_for_reason("late", "AccessCheckReady", "AccessCheckPending");
    let off = installation.switch("false");
    gate.set_approval("yes-2", "late", Approval::SignOff, "approved");
    gate.wait_for_reason("late", "Ready", "ApprovalsDisabled");
    gate.assert_unbound(&uid(&late));
    gate.wait_for_output("late");

    gate.delete(POD, "job");
    gate.wait_for_no_access("job", &uid(&request));
    gate.wait_for_request(&name(&request), "to be revoked", |request| {
        request["status"]["phase"] == "Revoked"
    });
    drop(off);
}

#[test]
fn without_its_config_map_the_last_known_value_holds() {
    let gate = Gate::alone("switch-deleted");
    let installation = Installation::of(&gate);
    gate.create_policy("release", Approval::SignOff);
    let back = installation.delete_switch();
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.assert_held("job");
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.wait_for_output("job");
    drop(back);
}
