//! A tenant does the worst that its rights allow, while pods of another are approved and withdrawn.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use e2e::{
    api::kinds::{ACCESS_POLICY, ACCESS_REQUEST, POD, SIGN_OFF},
    harness::{is_long_form, say},
    install::NAMESPACE,
};
use serde_json::{Value, json};

use crate::support::{Approval, Gate, check_of, policy};

/// What an unrelated tenant may be made to wait, whatever the attack.
const MOST: Duration = Duration::from_secs(2);
/// How much slower than on a calm cluster it may get, where that is more.
const FACTOR: u32 = 3;

/// Pods of the victim that are approved and withdrawn, in each phase.
fn cycles() -> usize {
    if is_long_form() { 60 } else { 8 }
}

/// From the approval to the grant, and from its withdrawal to the revocation.
#[derive(Default)]
struct Times {
    granted: Vec<Duration>,
    revoked: Vec<Duration>,
}

impl Times {
    fn longest(&self) -> [Duration; 2] {
        [&self.granted, &self.revoked].map(|it| it.iter().max().copied().unwrap_or_default())
    }
}

#[test]
fn an_unrelated_tenant_is_granted_and_revoked_in_time() {
    let victim = Gate::alone_without_mounts("victim");
    victim.create_policy("release", Approval::SignOff);
    let attacker = victim.another("attacker");
    let before = services(&victim);
    let calm = live(&victim, "calm", cycles());

    let ended = AtomicBool::new(false);
    let attacked = thread::scope(|scope| {
        prepare(&attacker);
        scope.spawn(|| keep_busy(&attacker, &ended));
        let attacked = live(&victim, "attacked", cycles());
        ended.store(true, Ordering::Relaxed);
        attacked
    });
    let after = services(&victim);
    let ([granted, revoked], [granted_calm, revoked_calm]) = (attacked.longest(), calm.longest());
    say(&format!(
        "longest of {}: granted {} ms calm, {} ms under attack; revoked {} and {} ms",
        cycles(),
        granted_calm.as_millis(),
        granted.as_millis(),
        revoked_calm.as_millis(),
        revoked.as_millis(),
    ));
    for service in &after {
        let same = before.iter().find(|it| it.pod == service.pod);
        let restarts = same.map(|it| it.restarts);
        assert_eq!(
            restarts,
            Some(service.restarts),
            "{} restarted",
            service.pod
        );
        let Some(resident) = service.resident else {
            continue;
        };
        say(&format!("{}: {} MiB", service.pod, resident >> 20));
        assert!(
            resident <= service.request,
            "{} has {resident} bytes, and asks for {}",
            service.pod,
            service.request
        );
    }
    for (what, took, calm) in [
        ("a grant", granted, granted_calm),
        ("a revocation", revoked, revoked_calm),
    ] {
        assert!(took <= MOST.max(calm * FACTOR), "{what} took {took:?}");
        assert!(took <= MOST, "{what} took {took:?}");
    }
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
        gate.delete(POD, &name);
    }
    times
}

/// A pod that is not scheduled.
fn create_pod(gate: &Gate, name: &str, annotation: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": {"padding": annotation}},
        "spec": {
            "schedulingGates": [{"name": "e2e.example.com/never"}],
            "containers": [{"name": "main", "image": "none.example.com/none"}],
        },
    });
    gate.create(&pod).unwrap();
}

/// A policy with as many steps as one may have, in a Rego module's place none: labels are what each look fills.
fn dear_policy(number: usize) -> Value {
    let mut policy = policy(&format!("dear-{number}"), Approval::SignOff);
    policy["spec"]["connector"] = json!({});
    let path = ".a".repeat(30);
    let check = check_of(&mut policy).clone();
    let checks: Vec<_> = (0..16)
        .map(|number| {
            let mut check = check.clone();
            check["name"] = format!("c{number}").into();
            check["selector"]["labels"] = json!({"app": "{.object.metadata.labels.app}",
                "run": format!("{{.object.metadata{path}}}")});
            if number == 0 {
                check["selector"]["labels"] = json!({"app": "{.object.metadata.labels.app}"});
            }
            check
        })
        .take(13)
        .collect();
    policy["spec"]["checkGrantedPermission"]["spec"]["checks"] = checks.into();
    policy
}

/// More policies than count, large pods with as many requests as they may have, and more objects than are kept.
fn prepare(gate: &Gate) {
    for number in 0..16 {
        gate.create_connector(&format!("c{number}"));
    }
    for number in 0..70 {
        gate.scene().apply(&dear_policy(number)).unwrap();
    }
    let padding = "x".repeat(200 * 1024);
    for number in 0..60 {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("padding-{number}"), "labels": {"app": "large-0"}},
            "data": {"verdict": padding},
        });
        gate.scene().apply(&object).unwrap();
    }
    for pod in 0..4 {
        let name = format!("large-{pod}");
        create_pod(gate, &name, &"x".repeat(200 * 1024));
        gate.set_approval(&name, &name, Approval::SignOff, "pending");
        for number in 0..16 {
            let mut request = gate.hand_made(&format!("{name}-{number}"), &name);
            request["spec"]["connectorRef"]["name"] = format!("c{number}").into();
            gate.create(&request).unwrap();
        }
    }
}

/// Changes what every request of the attacker is decided on, again and again.
fn keep_busy(gate: &Gate, ended: &AtomicBool) {
    let mut round = 0;
    while !ended.load(Ordering::Relaxed) {
        round += 1;
        let pod = format!("large-{}", round % 4);
        let state = if round % 2 == 0 { "pending" } else { "waiting" };
        gate.set_state_of(SIGN_OFF, &pod, state);
        let mut changed = dear_policy(round % 70);
        changed["metadata"]["annotations"] = json!({"round": round.to_string()});
        check_of(&mut changed)["name"] = format!("n{round}").into();
        gate.scene().apply(&changed).unwrap();
    }
    say(&format!("{round} rounds of the attack"));
    for kind in [ACCESS_POLICY, ACCESS_REQUEST, POD] {
        gate.api().delete_all(kind).unwrap();
    }
}

/// What can be seen of one of our pods.
struct Service {
    pod: String,
    restarts: u64,
    /// Bytes in memory; none where the node is another machine.
    resident: Option<u64>,
    /// Bytes that its container asks the scheduler for.
    request: u64,
}

fn services(gate: &Gate) -> Vec<Service> {
    let api = gate.api().in_namespace(NAMESPACE);
    let pods = api.list(POD, "").unwrap();
    let service = |pod: &Value| {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let memory = &pod["spec"]["containers"][0]["resources"]["requests"]["memory"];
        let mebibytes = memory.as_str().unwrap().strip_suffix("Mi").unwrap();
        let status = &pod["status"]["containerStatuses"][0];
        Service {
            pod: name.to_owned(),
            restarts: status["restartCount"].as_u64().unwrap(),
            resident: resident(name),
            request: mebibytes.parse::<u64>().unwrap() << 20,
        }
    };
    pods.iter().map(service).collect()
}

/// The memory of the process that runs in a pod: its environment has the pod's name.
fn resident(pod: &str) -> Option<u64> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let own = format!("POD_NAME={pod}");
    let is_own = |folder: &Path| {
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|it| it == own.as_bytes())
    };
    let process = processes.map(|it| it.path()).find(|it| is_own(it))?;
    let status = fs::read_to_string(process.join("status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}
