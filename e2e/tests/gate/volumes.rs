//! Volumes: several connectors in one, another capability than the usual one, and the content after access
//! ends.

use std::{thread, time::Duration};

use e2e::{Deadline, api::kinds::POD, poll};
use serde_json::{Value, json};

use crate::support::{
    Approval, CONNECTOR, Gate, MOUNT, check_of, name, policy, uid, volume, wait_until,
};

/// The kubelet looks after a mounted volume every minute or two.
const NEXT_LOOK: Duration = Duration::from_mins(4);

/// A namespace with these connectors, each behind an approval of its own.
fn with_connectors(test: &str, connectors: &[&str]) -> Gate {
    let gate = Gate::empty(test);
    for connector in connectors {
        gate.create_connector(connector);
        let mut policy = policy(connector, Approval::SignOff);
        policy["spec"]["connector"]["names"] = json!([connector]);
        check_of(&mut policy)["selector"]["labels"]["connector"] = json!(connector);
        gate.scene().apply(&policy).unwrap();
    }
    gate
}

/// Says something about a pod's use of a connector.
fn sign(gate: &Gate, connector: &str, pod: &str, state: &str) {
    let object = json!({
        "apiVersion": "e2e.example.com/v1", "kind": "SignOff",
        "metadata": {"name": format!("{connector}-for-{pod}"), "labels": {"app": pod, "connector": connector}},
    });
    gate.apply_with_state(&object, state);
}

#[test]
fn a_volume_of_several_connectors_waits_for_the_last_of_them_and_then_holds_all() {
    let connectors = ["git", "harbor", "nexus"];
    let gate = with_connectors("volume-late", &connectors);
    let [git, harbor, late] = connectors;
    for connector in [git, harbor] {
        sign(&gate, connector, "job", "approved");
    }
    gate.start_pod_of("job", &connectors.join(","));
    for connector in [git, harbor] {
        gate.wait_for_phase_of(&gate.request_for("job", connector), "Granted");
    }
    gate.wait_for_phase_of(&gate.request_for("job", late), "Pending");
    gate.wait_for_note("Pod", "job", "AccessPending", late);
    gate.assert_held("job");

    sign(&gate, late, "job", "approved");
    let output = gate.wait_for_output("job");
    let mut requests = Vec::new();
    for connector in connectors {
        let request = gate.wait_for_phase_of(&gate.request_for("job", connector), "Granted");
        let place = format!("/.connector/{}_{connector}", gate.namespace());
        for fact in [
            format!("{place}/address\nhttps://{connector}.example.com"),
            format!("{place}/request\n{}", name(&request)),
        ] {
            assert!(output.contains(&fact), "{fact} is not in {output}");
        }
        assert_eq!(gate.grants(&uid(&request)).len(), 2, "{connector}");
        requests.push(request);
    }
    assert!(output.contains("/.connector/.complete"), "{output}");

    gate.delete(POD, "job");
    for request in requests {
        wait_until("the grants to be gone", || {
            gate.grants(&uid(&request)).is_empty()
        });
    }
}

#[test]
fn one_connector_of_two_that_is_refused_keeps_the_pod_from_starting_and_is_named() {
    let (allowed, refused) = ("git", "harbor");
    let gate = with_connectors("volume-refused", &[allowed, refused]);
    sign(&gate, allowed, "job", "approved");
    gate.start_pod_of("job", &format!("{allowed},{refused}"));
    gate.wait_for_phase_of(&gate.request_for("job", allowed), "Granted");
    gate.wait_for_phase_of(&gate.request_for("job", refused), "Pending");
    sign(&gate, refused, "job", "rejected");
    gate.wait_for_phase_of(&gate.request_for("job", refused), "Rejected");
    let connector = format!("connector {}/{refused}", gate.namespace());
    let note = gate.wait_for_note("Pod", "job", "AccessDenied", refused);
    assert!(!note.contains(allowed), "{note}");
    let note = gate.wait_for_note("Pod", "job", "FailedMount", &connector);
    assert!(!note.contains(allowed), "{note}");
    gate.assert_held("job");
}

#[test]
fn a_volume_for_the_proxy_needs_a_policy_for_the_proxy() {
    let gate = Gate::new("volume-proxy");
    gate.create_policy("apis", Approval::SignOff);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    let attributes = json!({"connectors": CONNECTOR, "permission": "proxy"});
    gate.start_pod_with("job", &volume(&attributes));
    let request = gate.wait_for_reason("job", "AccessPolicyMatched", "NoAccessPolicyMatched");
    assert_eq!(request["spec"]["permission"], "proxy");
    gate.assert_held("job");

    let text = policy("proxy", Approval::SignOff).to_string();
    let mut proxy: Value =
        serde_json::from_str(&text.replace("connectors/apis", "connectors/proxy")).unwrap();
    proxy["spec"]["permission"] = json!("proxy");
    gate.scene().apply(&proxy).unwrap();
    let output = gate.wait_for_output("job");
    let fact = format!(
        "/.connector/{}_{CONNECTOR}/permission\nproxy",
        gate.namespace()
    );
    assert!(output.contains(&fact), "{fact} is not in {output}");
    wait_until("the API server to allow the proxy", || {
        gate.may_use_capability("job", "proxy")
    });
    assert!(
        !gate.may_use("job"),
        "a grant of one capability covers another"
    );
}

#[test]
fn a_withdrawn_approval_empties_the_volume_of_the_running_pod() {
    let gate = Gate::patient("volume-emptied");
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    let mut mounts = volume(&json!({"connectors": "prod"}));
    // A file of the volume by itself outlives its name.
    let address = "/address";
    let file = format!(".connector/{}_prod/address", gate.namespace());
    let of_volume = mounts["volumes"][0]["name"].clone();
    let by_itself = json!({"name": of_volume, "mountPath": address, "subPath": file});
    let all = mounts["volumeMounts"].as_array_mut().unwrap();
    all.push(by_itself);
    gate.start_pod_with("job", &mounts);
    gate.wait_for_output("job");
    let read = gate.read_in("job", address).unwrap();
    assert!(read.contains("https://"), "{read}");
    let request = gate.wait_for_phase("job", "Granted");
    let before = gate.read_in("job", MOUNT).unwrap();
    assert!(before.contains("https://"), "{before}");

    gate.set_approval("yes", "job", Approval::SignOff, "expired");
    gate.approval_ended("job", "release");
    gate.wait_for_no_access("job", &uid(&request));
    let emptied = || {
        let seen = gate.read_in("job", MOUNT)?;
        if seen.contains("/.connector/.revoked") {
            return Ok(seen);
        }
        // A look is a process in the pod.
        thread::sleep(Duration::from_secs(1));
        Err(seen)
    };
    let after = poll(
        "the volume to be emptied",
        Deadline::after(NEXT_LOOK),
        emptied,
    )
    .unwrap();
    let folder = format!("{MOUNT}/.connector/{}_prod", gate.namespace());
    for gone in ["https://", &folder, "/.complete"] {
        assert!(!after.contains(gone), "{gone} is left in {after}");
    }
    let after = gate.read_in("job", address).unwrap();
    assert!(!after.contains("https://"), "{after}");
    // It is the same container that saw both.
    let status = gate.object(POD, "job")["status"].take();
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["containerStatuses"][0]["restartCount"], 0);
}
