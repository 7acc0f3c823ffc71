//! Standing permissions: who holds what a policy's `defaultPermission` says, before and after each change.

mod table;
mod world;

use serde_json::{Value, json};

use crate::support::{Gate, Installation};
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
        // What was given holds without its controller.
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

/// Gives the account of the gate's pods a standing permission, and waits until it is told.
fn let_in_always(gate: &Gate) {
    let policy = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "always"},
        "spec": {"defaultPermission": {
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
