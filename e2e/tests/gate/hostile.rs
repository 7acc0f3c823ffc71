//! A tenant does the worst that its rights allow, while pods of another are approved and withdrawn.

mod attacks;
mod services;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use e2e::{
    Deadline,
    api::kinds::{ACCESS_POLICY, ACCESS_REQUEST, POD, ROLE, ROLE_BINDING, SIGN_OFF},
    harness::{is_long_form, say},
    poll,
};

use serde_json::json;

use crate::support::{Approval, Gate};
use attacks::{ATTACKS, Attack, create_pod};
use services::ServicePod;

/// The longest delay of an unrelated tenant, for every attack, in 99 of 100 cases.
const MOST: Duration = Duration::from_secs(2);
/// How much slower than on a calm cluster it may get.
const FACTOR: f64 = 3.0;
/// Services and attack share the processors with the API server, which slows down for all clients. Where the
/// same calls without our services slow down by more, ours may be slower by this factor on top.
const BESIDE_BARE_CALLS: f64 = 1.3;
/// The short form has few cases, development builds and other parts of a run beside it. There [`MOST`] is the limit of the
/// median, and nine of ten take no longer than this.
const SHORT_MOST: Duration = Duration::from_secs(6);
/// The longest of all in the short form.
const WORST: Duration = Duration::from_secs(20);
/// After that the attack has left nothing.
const CLEAN: Duration = Duration::from_mins(1);

/// Pods of the victim that are approved and withdrawn, in each phase.
fn cycles() -> usize {
    if is_long_form() { 100 } else { 10 }
}

/// From the approval to the grant, and from its withdrawal to the revocation, in order.
#[derive(Default)]
struct Times {
    granted: Vec<Duration>,
    revoked: Vec<Duration>,
    /// Calls as a grant needs them, made by this test.
    bare: Vec<Duration>,
}

impl Times {
    /// So many of a hundred took no longer.
    fn percentile(times: &[Duration], percent: usize) -> Duration {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or_default()
    }

    fn say(&self, phase: &str) {
        let line = |times: &[Duration]| -> String {
            let each = times.iter().map(|it| it.as_millis().to_string());
            each.collect::<Vec<_>>().join(" ")
        };
        say(&format!(
            "{phase}: granted {}; revoked {}; bare calls {} ms",
            line(&self.granted),
            line(&self.revoked),
            line(&self.bare)
        ));
    }
}

#[test]
fn an_unrelated_tenant_is_granted_and_revoked_in_time() {
    let victim = Gate::alone_without_mounts("victim");
    victim.create_policy("release", Approval::SignOff);
    let attacker = victim.another("attacker");
    let calm = live(&victim, "calm", cycles());
    calm.say("calm");
    let before = ServicePod::all(&victim);
    let began = Instant::now();

    let ended = AtomicBool::new(false);
    let under_attack = thread::scope(|scope| {
        attacks::prepare(&attacker);
        let running: Vec<_> = ATTACKS
            .iter()
            .map(|attack| scope.spawn(|| strike(attack, &attacker, &ended)))
            .collect();
        let times = live(&victim, "attacked", cycles());
        ended.store(true, Ordering::Relaxed);
        for attack in running {
            say(&attack.join().unwrap());
        }
        times
    });
    under_attack.say("under attack");
    say(&format!("the attack took {:.0?}", began.elapsed()));
    let mut problems = Vec::new();
    let bare = slowdown(&under_attack.bare, &calm.bare);
    say(&format!("bare calls: {bare:.1} x"));
    for (what, took, calm) in [
        ("a grant", &under_attack.granted, &calm.granted),
        ("a revocation", &under_attack.revoked, &calm.revoked),
    ] {
        problems.extend(late(what, took, calm, bare));
    }
    problems.extend(survived(&before, &ServicePod::all(&victim)));
    leave(&attacker);
    if let Err(left) = poll(
        "the attack to leave nothing",
        Deadline::after(CLEAN),
        || nothing_is_left(&attacker),
    ) {
        problems.push(left.to_string());
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The cases that took longer than allowed.
fn late(what: &str, took: &[Duration], calm: &[Duration], bare: f64) -> Vec<String> {
    let [median, p90, p99] = [50, 90, 99].map(|percent| Times::percentile(took, percent));
    say(&format!("{what}: {:.1} x", slowdown(took, calm)));
    let limits = if is_long_form() {
        let calm = Times::percentile(calm, 99);
        let factor = FACTOR.max(bare * BESIDE_BARE_CALLS);
        vec![(p99, MOST), (p99, calm.mul_f64(factor))]
    } else {
        vec![(median, MOST), (p90, SHORT_MOST), (p99, WORST)]
    };
    let late = limits.into_iter().filter(|(took, most)| took > most);
    late.map(|(took, most)| format!("{what} took {took:?}, and may take {most:?}"))
        .collect()
}

/// How many times as long as on the calm cluster, by the 99th percentiles.
fn slowdown(attacked: &[Duration], calm: &[Duration]) -> f64 {
    let [attacked, calm] = [attacked, calm].map(|times| Times::percentile(times, 99));
    attacked.as_secs_f64() / calm.as_secs_f64()
}

/// Pods that are approved and withdrawn, one after the other. They never run: nothing here is about mounts.
fn live(gate: &Gate, phase: &str, cycles: usize) -> Times {
    let mut times = Times::default();
    for number in 0..cycles {
        let name = format!("{phase}-{number}");
        create_pod(gate, &name, "");
        gate.set_approval(&name, &name, Approval::SignOff, "pending");
        let request = gate.request_by_hand(&name, &name).unwrap();
        gate.wait_for_phase_of(&request, "Pending");
        let approved = Instant::now();
        gate.set_state_of(SIGN_OFF, &name, "approved");
        gate.wait_for_phase_of(&request, "Granted");
        times.granted.push(approved.elapsed());
        let withdrawn = Instant::now();
        gate.set_state_of(SIGN_OFF, &name, "rejected");
        gate.wait_for_phase_of(&request, "Revoked");
        times.revoked.push(withdrawn.elapsed());
        let began = Instant::now();
        bare_calls(gate, &name);
        times.bare.push(began.elapsed());
        gate.delete(POD, &name);
    }
    times
}

/// The reads and writes of a grant, one call after the other and without any service.
fn bare_calls(gate: &Gate, pod: &str) {
    let api = gate.api();
    api.get(POD, pod).unwrap();
    api.get(SIGN_OFF, pod).unwrap();
    api.list(ACCESS_POLICY, "").unwrap();
    let name = format!("bare-{pod}");
    let metadata = json!({"name": name});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["pods"], "resourceNames": [pod], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": gate.namespace()}],
    });
    for object in [&role, &binding] {
        api.create(object).unwrap();
    }
    for kind in [ROLE_BINDING, ROLE] {
        api.get(kind, &name).unwrap();
        api.delete(kind, &name).unwrap();
    }
}

/// Repeats one attack at its pace, and tells how often it was let through and refused.
fn strike(attack: &Attack, gate: &Gate, ended: &AtomicBool) -> String {
    let (mut accepted, mut refused) = (0, None);
    let mut round = 0;
    while !ended.load(Ordering::Relaxed) {
        match (attack.strike)(gate, round) {
            Ok(()) => accepted += 1,
            Err(refusal) => {
                let (count, last) = refused.get_or_insert((0, String::new()));
                *count += 1;
                *last = refusal;
            }
        }
        round += 1;
        thread::sleep(attack.pace);
    }
    let refused = refused.map_or_else(String::new, |(count, last)| {
        // The path comes first, the reason last.
        let (_, last) = last.split_at(last.floor_char_boundary(last.len().saturating_sub(240)));
        format!(", {count} refused: {last}")
    });
    format!("{}: {accepted} let through{refused}", attack.name)
}

/// The faults of our processes after the attack.
fn survived(before: &[ServicePod], after: &[ServicePod]) -> Vec<String> {
    let mut problems = Vec::new();
    for pod in after {
        let same = before.iter().find(|it| it.name == pod.name);
        if same.is_none_or(|it| it.restarts != pod.restarts) {
            problems.push(format!("{} restarted", pod.name));
        }
        let Some([now, most]) = pod.resident else {
            continue;
        };
        let requested = pod.requested >> 20;
        let processor = same.map(|it| pod.processor.saturating_sub(it.processor));
        say(&format!(
            "{}: {} MiB now, {} MiB at most, asks for {requested} MiB; {:.1?} of a processor",
            pod.name,
            now >> 20,
            most >> 20,
            processor.unwrap_or(pod.processor),
        ));
        if most > pod.requested {
            problems.push(format!(
                "{} had {most} bytes in memory, and asks for {requested} MiB",
                pod.name
            ));
        }
    }
    problems
}

/// Deletes the objects that the attacker has to remove itself.
fn leave(gate: &Gate) {
    for kind in [ACCESS_POLICY, ACCESS_REQUEST, POD] {
        gate.api().delete_all(kind).unwrap();
    }
}

/// The remains of an attack whose requests, policies and pods are deleted.
fn nothing_is_left(gate: &Gate) -> Result<(), String> {
    for kind in [ACCESS_REQUEST, ROLE, ROLE_BINDING] {
        let labels = match kind {
            ACCESS_REQUEST => "",
            _ => "app.kubernetes.io/managed-by=connectors-approval",
        };
        let left = gate.api().list(kind, labels).map_err(|it| it.to_string())?;
        if !left.is_empty() {
            return Err(format!("{} of {kind} left", left.len()));
        }
    }
    Ok(())
}
