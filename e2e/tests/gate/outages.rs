//! Services that die, or are away: no pod gets access without a permission, and the end state is right.

use e2e::{api::kinds::POD, checker, harness::PATIENCE};
use serde_json::Value;

use crate::support::{Approval, CONNECTOR, Gate, Installation, MOUNT, name, uid, wait_until};

/// Every service.
const SERVICES: [&str; 4] = [
    "evaluation-service",
    "request-controller",
    "webhook",
    "csi-node",
];

#[test]
fn a_service_that_is_killed_while_a_pod_waits_is_missed_by_nobody() {
    let gate = Gate::alone_asking("killed-waiting");
    let installation = Installation::of(&gate);
    gate.create_policy("release", Approval::SignOff);
    for service in SERVICES {
        let pod = format!("waits-for-{service}");
        gate.start_pod(&pod);
        let request = gate.wait_for_reason(&pod, "AccessCheckReady", "AccessCheckPending");
        installation.kill(service);
        gate.set_approval(&pod, &pod, Approval::SignOff, "approved");
        gate.wait_for_output(&pod);
        gate.wait_for_phase(&pod, "Granted");
        installation.wait_until_ready(service);
        gate.delete(POD, &pod);
        gate.wait_for_no_access(&pod, &uid(&request));
    }
}

#[test]
fn a_service_that_is_killed_after_the_grant_takes_no_revocation_with_it() {
    let gate = Gate::alone_asking("killed-granted");
    let installation = Installation::of(&gate);
    gate.create_policy("release", Approval::SignOff);
    for service in SERVICES {
        let pod = format!("held-by-{service}");
        gate.set_approval(&pod, &pod, Approval::SignOff, "approved");
        gate.start_pod(&pod);
        gate.wait_for_output(&pod);
        let request = gate.wait_for_phase(&pod, "Granted");
        let (since, leader) = (checker::now(), installation.leader());
        installation.kill(service);
        if service == "csi-node" {
            // The next process takes the volume for one that the kubelet knows.
            installation.wait_until_ready(service);
            let fact = format!(
                "{MOUNT}/.connector/{}_{CONNECTOR}/address",
                gate.namespace()
            );
            let address = gate.read_in(&pod, &fact).unwrap();
            assert!(address.contains("https://"), "{address}");
        }
        gate.delete(POD, &pod);
        if service == "request-controller" {
            // No other service revokes: the time that it may take begins when another process leads.
            installation.wait_for_another_leader(&leader);
            gate.outage_since(since);
        }
        gate.wait_for_no_access(&pod, &uid(&request));
        gate.wait_for_request(&name(&request), "to be revoked", |request| {
            request["status"]["phase"] == "Revoked"
        });
        installation.wait_until_ready(service);
    }
}

#[test]
fn without_the_evaluation_service_nobody_gets_in_and_the_wait_goes_on() {
    let gate = Gate::alone_asking("evaluator-away");
    let installation = Installation::of(&gate);
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("waiting");
    gate.wait_for_reason("waiting", "AccessCheckReady", "AccessCheckPending");

    let away = installation.away("evaluation-service");
    gate.set_approval("yes", "waiting", Approval::SignOff, "approved");
    gate.set_approval("yes-2", "new", Approval::SignOff, "approved");
    gate.start_pod("new");
    gate.wait_for_reason("waiting", "Ready", "EvaluatorUnavailable");
    gate.assert_held("waiting");
    gate.assert_held("new");
    assert!(!gate.may_use("waiting") && !gate.may_use("new"));

    drop(away);
    gate.wait_for_output("waiting");
    gate.wait_for_output("new");
}

#[test]
fn what_ends_during_an_outage_is_revoked_before_anything_else() {
    let gate = Gate::alone_asking("controller-away");
    let installation = Installation::of(&gate);
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.start_pod("job");
    gate.wait_for_output("job");
    let request = gate.wait_for_phase("job", "Granted");
    // A request that could be granted instead: it precedes the other one by its name and by its time.
    gate.start_pod("a-next");
    let next = gate.wait_for_reason("a-next", "AccessCheckReady", "AccessCheckPending");

    let since = checker::now();
    let away = installation.away("request-controller");
    gate.set_approval("a-next", "a-next", Approval::SignOff, "approved");
    gate.delete_pod_and_wait("job", PATIENCE);
    assert!(gate.may_use("job"), "somebody else revoked it");
    let names = |request: &Value| -> Vec<String> {
        let objects = gate.grant_objects(&uid(request)).into_iter();
        objects.map(|(_, name)| name).collect()
    };
    let ended = names(&request);
    drop(away);
    gate.outage_since(since);
    gate.wait_for_no_access("job", &uid(&request));
    gate.wait_for_phase_of(&next, "Granted");

    let written = names(&next);
    let places = || {
        let bindings = gate.changes_of("rolebindings");
        let place = |verb: &str, names: &[String]| {
            let mut changes = bindings.iter();
            changes.position(|(by, name)| by == verb && names.contains(name))
        };
        (place("delete", &ended), place("create", &written))
    };
    wait_until("the log of both", || matches!(places(), (Some(_), Some(_))));
    let (taken_back, granted) = places();
    assert!(
        taken_back < granted,
        "{:?}",
        gate.changes_of("rolebindings")
    );
}
