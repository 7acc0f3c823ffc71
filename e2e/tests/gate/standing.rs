//! Standing permissions: the subjects and permissions of a policy's `defaultPermission`, before and after
//! each change.

mod table;
mod world;

use std::time::Duration;

use e2e::{
    Deadline,
    api::kinds::{ACCESS_POLICY, ACCESS_REQUEST},
    poll,
};
use serde_json::{Value, json};

use crate::support::{Approval, CONNECTOR, Gate, Installation, condition, name, policy, uid};
use table::Table;
use world::World;

#[test]
fn everybody_holds_what_the_policies_say_and_nobody_anything_else() {
    let gate = Gate::new("standing");
    let tables = Table::all();
    let policies: usize = tables.iter().map(|table| table.policies.len()).sum();
    assert!(policies >= 60, "only {policies} policies");
    std::thread::scope(|scope| {
        let follow = |table| {
            let mut world = World::make(&gate, table);
            world.settle();
            while world.step() {
                world.settle();
            }
        };
        let tables = tables.iter().filter(|table| !table.away);
        let running: Vec<_> = tables
            .map(|table| scope.spawn(move || follow(table)))
            .collect();
        for table in running {
            table.join().unwrap();
        }
    });
}

#[test]
fn what_changed_while_the_controller_was_away_counts_when_it_is_back() {
    let gate = Gate::alone("standing-away");
    let installation = Installation::of(&gate);
    let_in_always(&gate);
    for table in Table::all().iter().filter(|table| table.away) {
        let mut world = World::make(&gate, table);
        world.settle();
        let away = installation.away("policy-controller");
        while world.step() {}
        // The given permission holds without its controller.
        gate.start_pod(&table.file);
        gate.wait_for_output(&table.file);
        drop(away);
        world.settle();
    }
}

#[test]
fn a_pod_whose_account_may_always_use_a_connector_waits_for_nothing_and_asks_nobody() {
    let gate = Gate::new("standing-pod");
    gate.start_pod("job");
    gate.wait_for_event("Pod", "job", "AccessPending");
    gate.assert_held("job");
    let_in_always(&gate);
    gate.wait_for_output("job");

    gate.start_pod("next");
    gate.wait_for_output("next");
    let requests = gate.requests_of(&gate.pod_uid("next"));
    assert_eq!(requests, Vec::<Value>::new());
}

/// A pod waits for two connectors, so that the permission for the first one comes and goes before its mount ends.
#[test]
fn a_request_ends_by_a_standing_permission_and_is_made_anew_when_that_is_gone() {
    let gate = Gate::new("standing-goes");
    gate.create_connector("other");
    gate.start_pod_of("job", &format!("{CONNECTOR},other"));
    let first = gate.request_for("job", CONNECTOR);
    gate.wait_for_event("AccessRequest", &name(&first), "AccessPending");
    let_in_always(&gate);

    // The controller asks once a minute.
    let ended = in_minutes("the request to end", || {
        let request = request_now(&gate, &name(&first))?;
        (request["status"]["phase"] == "Ended").then_some(request)
    });
    assert_eq!(uid(&ended), uid(&first));
    assert_eq!(
        condition(&ended, "Ready"),
        Some(("False", "StandingPermission"))
    );
    assert!(ended["status"]["endedAt"].is_string(), "{ended}");
    gate.wait_until_nothing_is_left(&uid(&first));
    gate.wait_for_event("AccessRequest", &name(&first), "AccessEnded");
    gate.wait_for_event("Pod", "job", "AccessEnded");
    let other = gate.request_for("job", "other");
    assert_eq!(other["status"]["phase"], "Pending");
    gate.assert_held("job");

    gate.delete(ACCESS_POLICY, "always");
    let anew = in_minutes("a new request", || {
        let request = request_now(&gate, &name(&first))?;
        (uid(&request) != uid(&first)).then_some(request)
    });
    gate.assert_held("job");
    let mut both = policy("release", Approval::SignOff);
    both["spec"]["connector"]["names"] = json!([CONNECTOR, "other"]);
    gate.scene().apply(&both).unwrap();
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.wait_for_phase_of(&anew, "Granted");
    gate.wait_for_phase_of(&other, "Granted");
    gate.wait_for_output("job");
}

/// A request as it is, if there is one under the name.
fn request_now(gate: &Gate, name: &str) -> Option<Value> {
    gate.api().get(ACCESS_REQUEST, name).unwrap()
}

/// Waits for something that takes more than a minute by itself.
fn in_minutes<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let deadline = Deadline::after(Duration::from_mins(4));
    let look = || look().ok_or_else(|| "not yet".to_owned());
    poll(what, deadline, look).unwrap()
}

/// Gives the account of the gate's pods a standing permission for the gate's own connector, and waits until it is told.
fn let_in_always(gate: &Gate) {
    let policy = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "always"},
        "spec": {"connector": {"names": [CONNECTOR]}, "defaultPermission": {
            "roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["*"],
            }]},
            "bindingTemplate": {"subjects": [{"kind": "ServiceAccount", "name": "default"}]},
        }},
    });
    gate.scene().apply(&policy).unwrap();
    let note = gate.wait_for_event("AccessPolicy", "always", "PermissionGranted");
    assert!(note.contains("default") && note.contains("prod"), "{note}");
}
