//! An API server that hears late from etcd how new its caches are, as with some replacements of etcd: each consistent LIST
//! takes seconds, those included that the API server makes before it accepts a Role or a `RoleBinding`.

mod progress;
mod proxy;

use std::time::{Duration, Instant};

use e2e::{
    api::kinds::{ACCESS_POLICY, POD},
    harness::say,
};

use serde_json::json;

use crate::support::{Approval, CONNECTOR, Gate, Installation, policy, uid, wait_until};

use proxy::SlowEtcd;

/// The services that follow the API server.
const SERVICES: [&str; 4] = [
    "request-controller",
    "evaluation-service",
    "csi-node",
    "webhook",
];

/// A LIST after a write of another kind.
fn list(gate: &Gate) -> Duration {
    gate.set_approval("clock", "clock", Approval::SignOff, "pending");
    let begun = Instant::now();
    gate.api().list(ACCESS_POLICY, "").unwrap();
    begun.elapsed()
}

/// A pod that waits for its approval at its mount.
fn start_waiting(gate: &Gate, pod: &str) {
    gate.start_pod(pod);
    gate.wait_for_reason(pod, "AccessCheckReady", "AccessCheckPending");
}

/// A pod is let in after its approval, or after something else that it waits for. It runs, and loses its access with its end.
fn let_in(gate: &Gate, pod: &str, since: Instant) {
    let request = gate.wait_for_phase(pod, "Granted");
    let granted = since.elapsed();
    gate.wait_for_output(pod);
    let ended = Instant::now();
    gate.delete(POD, pod);
    gate.wait_for_no_access(pod, &uid(&request));
    let revoked = ended.elapsed();
    say(&format!(
        "{pod}: granted after {granted:.1?}, no access {revoked:.1?} after its deletion"
    ));
}

#[test]
fn grants_and_revocations_come_through_when_each_list_takes_seconds() {
    let gate = Gate::alone("slow-etcd");
    let Some(cluster) = gate.scene().cluster() else {
        say("skipped: etcd of this cluster cannot be reached from here");
        return;
    };
    let installation = Installation::of(&gate);
    // More than the controller reads by their names: it lists them. Two of them grant.
    for (name, connector) in [
        ("release", CONNECTOR),
        ("again", CONNECTOR),
        ("other", "other"),
        ("another", "other"),
        ("the-last", "other"),
    ] {
        let mut policy = policy(name, Approval::SignOff);
        policy["spec"]["connector"] = json!({"names": [connector]});
        gate.scene().apply(&policy).unwrap();
    }
    let slow = SlowEtcd::of(cluster);
    for service in SERVICES {
        installation.wait_until_ready(service);
    }
    let delay = |seconds| {
        let delay = Duration::from_secs(seconds);
        slow.delay.set(delay);
        // A write of the same kind brings the news at once.
        wait_until("a list that waits", || list(&gate) >= delay.mul_f64(0.9));
    };

    let approve = |pod| {
        let approved = Instant::now();
        gate.set_approval(pod, pod, Approval::SignOff, "approved");
        approved
    };

    delay(1);
    start_waiting(&gate, "one-second");
    let approved = approve("one-second");
    let_in(&gate, "one-second", approved);

    delay(3);
    start_waiting(&gate, "three-seconds");
    approve("three-seconds");
    // Two lists of three seconds do not fit into the five seconds in which a read is valid.
    gate.wait_for_reason("three-seconds", "Ready", "GrantNotWritten");
    gate.assert_held("three-seconds");
    let allowed = Instant::now();
    let _bind = installation.bind_roles();
    let_in(&gate, "three-seconds", allowed);
}
