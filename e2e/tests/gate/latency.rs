//! How long things take, and how often the kubelet has to ask.

use std::{
    thread,
    time::{Duration, Instant},
};

use csi_recorder::{Answer, Call, Target};
use e2e::{
    api::kinds::{POD, SIGN_OFF},
    checker,
    harness::{is_long_form, say},
};

use crate::support::{Approval, Gate, Installation};

/// Pods that are let in one after the other, in the long form.
const PODS: usize = 30;
/// Enough to find the costs of a pod by itself.
const BARE_PODS: usize = 10;
/// Of either kind in the short form, which shows that the figures can be had.
const FEW: usize = 3;

/// How long a pod waits for its approval: longer in the long form. The kubelet gives up after two minutes.
fn wait() -> Duration {
    let seconds = if is_long_form() { 100 } else { 10 };
    Duration::from_secs(seconds)
}

/// Prints figures; judges only that every pod was let in. Machines differ. The published figures are of the long form.
#[test]
fn from_the_approval_to_the_running_container() {
    let gate = Gate::alone("latency");
    gate.create_policy("release", Approval::SignOff);
    let (pods, bare_pods) = if is_long_form() {
        (PODS, BARE_PODS)
    } else {
        (FEW, FEW)
    };
    let mut mounted = Vec::new();
    let mut gated: Vec<Duration> = (0..pods)
        .map(|number| {
            let pod = format!("gated-{number}");
            gate.start_pod(&pod);
            gate.wait_for_reason(&pod, "AccessCheckReady", "AccessCheckPending");
            gate.set_approval(&pod, &pod, Approval::SignOff, "pending");
            gate.assert_held(&pod);
            let approved = Instant::now();
            let approved_at = checker::now();
            gate.set_state_of(SIGN_OFF, &pod, "approved");
            gate.wait_for_output(&pod);
            let took = approved.elapsed();
            if let Some(recorder) = gate.recorder() {
                let calls = recorder.publishes_of(gate.namespace(), &pod);
                let answered = calls[0].ended.unwrap().duration_since(approved_at);
                mounted.push(answered.unsigned_abs());
            }
            end(&gate, &pod);
            took
        })
        .collect();
    // The same pods while nothing is gated: the time for scheduling, mounting and starting.
    let off = Installation::of(&gate).switch("false");
    let mut bare: Vec<Duration> = (0..bare_pods)
        .map(|number| {
            let pod = format!("bare-{number}");
            let created = Instant::now();
            gate.start_pod(&pod);
            gate.wait_for_output(&pod);
            let took = created.elapsed();
            end(&gate, &pod);
            took
        })
        .collect();
    drop(off);
    if !mounted.is_empty() {
        say(&format!(
            "approval → answer to the mount call: {}",
            figures(&mut mounted)
        ));
    }
    say(&format!(
        "approval → output of the container: {}",
        figures(&mut gated)
    ));
    say(&format!(
        "creation → output of the container, not gated: {}",
        figures(&mut bare)
    ));
}

fn end(gate: &Gate, pod: &str) {
    gate.delete(POD, pod);
}

fn figures(times: &mut [Duration]) -> String {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_millis();
    format!(
        "median {} ms, p90 {} ms, max {} ms of {}",
        at(50),
        at(90),
        at(100),
        times.len()
    )
}

#[test]
fn a_late_approval_is_answered_within_the_first_call() {
    let gate = Gate::alone_asking("held-long");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    let wait = wait();
    thread::sleep(wait);
    gate.assert_held("job");
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.wait_for_output("job");
    if let Some(recorder) = gate.recorder() {
        let calls = recorder.publishes_of(gate.namespace(), "job");
        // Later calls look after the volume that is there.
        let (first, later) = calls.split_first().unwrap();
        assert!(
            first.answer.as_ref().is_some_and(Answer::is_ok),
            "{first:?}"
        );
        assert!(first.took().unwrap().unsigned_abs() >= wait, "{first:?}");
        let looks_after = |call: &Call| call.before == Some(Target::Complete);
        assert!(later.iter().all(looks_after), "{later:?}");
    }
    // Each call that failed would have left an event of the kubelet.
    let events = gate.events().into_iter();
    let failed: Vec<_> = events.filter(|it| it["reason"] == "FailedMount").collect();
    assert_eq!(failed, Vec::<serde_json::Value>::new());
}
