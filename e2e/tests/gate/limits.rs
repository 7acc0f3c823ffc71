//! Grants and waits that end by time alone, and a long wait.

use std::time::{Duration, Instant};

use e2e::{
    Deadline,
    api::kinds::POD,
    checker::{self, Timestamp},
    harness, poll,
};
use serde_json::{Value, json};

use crate::support::{Approval, Gate, condition, name, policy, timestamp, uid};

/// Short enough for a test, and long enough to see the state before.
const LIMIT: Duration = Duration::from_secs(20);
/// The longest time in which the controller may notice the end of a time limit, on a cluster that dozens of tests share.
const LATE: Duration = Duration::from_secs(20);

fn limited(gate: &Gate, limit: &str) {
    let mut policy = policy("release", Approval::SignOff);
    policy["spec"]["checkGrantedPermission"]["spec"]["limits"] =
        json!({limit: format!("{}s", LIMIT.as_secs())});
    gate.scene().apply(&policy).unwrap();
}

fn assert_took_the_limit(from: Timestamp, until: Timestamp) {
    let took = until.duration_since(from).unsigned_abs();
    // Times in a status are in whole seconds.
    let second = Duration::from_secs(1);
    assert!(took + second >= LIMIT && took <= LIMIT + LATE, "{took:?}");
}

#[test]
fn a_grant_ends_after_its_longest_duration_by_time_alone() {
    let gate = Gate::patient("limit-duration");
    limited(&gate, "maxDuration");
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.start_pod("job");
    gate.wait_for_output("job");
    let granted = gate.wait_for_phase("job", "Granted");
    gate.wait_for_access("job");
    assert_took_the_limit(
        timestamp(&granted, "/status/grantedAt"),
        timestamp(&granted, "/status/expiresAt"),
    );
    // The phase comes first, the time when the grant is gone.
    let revoked = gate.wait_for_request(&name(&granted), "to be revoked", |request| {
        request["status"]["phase"] == "Revoked" && request["status"]["revokedAt"].is_string()
    });
    assert_eq!(condition(&revoked, "Ready"), Some(("False", "Expired")));
    assert_took_the_limit(
        timestamp(&granted, "/status/grantedAt"),
        timestamp(&revoked, "/status/revokedAt"),
    );
    gate.wait_for_no_access("job", &uid(&granted));
    gate.scene().wait_for_running("job");
}

#[test]
fn a_wait_ends_after_its_longest_time_by_time_alone() {
    let gate = Gate::patient("limit-pending");
    limited(&gate, "pendingTimeout");
    gate.start_pod("job");
    let pending = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    let rejected = gate.wait_for_phase("job", "Rejected");
    assert_eq!(
        condition(&rejected, "Ready"),
        Some(("False", "PendingTimeout"))
    );
    assert_eq!(
        condition(&rejected, "AccessCheckReady"),
        Some(("False", "AccessCheckRejected"))
    );
    // Seen a little later than it was said; said too early it would be wrong.
    let waited = checker::now().duration_since(timestamp(&pending, "/metadata/creationTimestamp"));
    assert!(waited.unsigned_abs() >= LIMIT, "{waited:#}");
    gate.wait_for_event("Pod", "job", "AccessDenied");
    // The approval comes too late.
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.assert_held("job");
    gate.wait_until_nothing_is_left(&uid(&pending));
}

/// The kubelet pauses between two calls for longer and longer, two minutes at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(122);

#[test]
fn an_approval_after_ten_minutes_lets_the_pod_in_at_the_kubelets_next_call() {
    let wait = Duration::from_mins(10);
    if !harness::runs_long("it waits for ten minutes, and for the kubelet's next call after that") {
        return;
    }
    let gate = Gate::patient("limit-long-wait");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    let pending = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    let started = Instant::now();
    // Held all the time: a pod that starts before its approval ends the wait at once.
    let held = poll("ten minutes to pass", Deadline::after(2 * wait), || {
        gate.assert_held("job");
        if started.elapsed() >= wait {
            Ok(())
        } else {
            Err(format!("{:?}", started.elapsed()))
        }
    });
    held.unwrap();
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    let approved = Instant::now();
    let what = "the pod to run";
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let running = gate
        .api()
        .wait_for(what, (POD, "job"), 2 * LONGEST_PAUSE, is_running);
    running.unwrap();
    let took = approved.elapsed();
    harness::say(&format!(
        "approval after ten minutes → running container: {} ms",
        took.as_millis()
    ));
    assert!(took <= LONGEST_PAUSE, "{took:?}");
    // The same request from the beginning on: the wait was never given up.
    let granted = gate.wait_for_phase("job", "Granted");
    assert_eq!(uid(&granted), uid(&pending));
}
