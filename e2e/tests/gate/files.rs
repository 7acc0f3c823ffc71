//! The files in a pod's volume beside facts: those of its connector's class, with its own token.

use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use e2e::api::kinds::{CONNECTOR as CONNECTOR_KIND, POD};
use e2e::{Deadline, poll};
use serde_json::{Value, json};

use crate::support::{Approval, CONNECTOR, Gate, MOUNT, volume};

/// The kubelet calls again within this time. Objects that were read for the volume a minute before are read
/// again.
const NEXT_LOOK: Duration = Duration::from_mins(5);

const CONFIG: &str = r#"{"auths": {"{{ (urlParse .connector.spec.address).host }}": {"auth": "{{ printf "pod:%s" .context.token | b64enc }}"}}}"#;

/// The connector becomes one of a class whose files open a registry.
fn registry(gate: &Gate) {
    let class = format!("registry-{}", gate.namespace());
    let configuration = json!({
        "name": "docker", "data": {"config.json": CONFIG, "user": "{{ .configurations.user }}"},
        "params": [{"name": "user"}],
    });
    let object = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "ConnectorClass",
        "metadata": {"name": class}, "spec": {"configurations": [configuration]},
    });
    gate.scene().apply(&object).unwrap();
    let fields = json!({"connectorClassName": class, "address": "https://one.example.com"});
    change(gate, &fields);
}

fn change(gate: &Gate, fields: &Value) {
    let fields = json!({"spec": fields});
    let changed = gate.api().patch(CONNECTOR_KIND, CONNECTOR, &fields);
    changed.unwrap();
}

fn attributes(names: &str) -> Value {
    json!({
        "connector.name": CONNECTOR, "configuration.names": names, "token.expiration": "30m",
        "configuration.params": json!({"docker": {"user": "ann"}}).to_string(),
    })
}

/// The registry of a Docker configuration, and the token in it.
fn opened(config: &str) -> (String, Value) {
    let config: Value = serde_json::from_str(config.split_once('\n').unwrap().1).unwrap();
    let (host, entry) = config["auths"].as_object().unwrap().iter().next().unwrap();
    let auth = STANDARD.decode(entry["auth"].as_str().unwrap()).unwrap();
    let auth = String::from_utf8(auth).unwrap();
    let token = auth.strip_prefix("pod:").unwrap();
    let claims = token.split('.').nth(1).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
    (host.clone(), serde_json::from_slice(&claims).unwrap())
}

#[test]
fn a_running_pod_opens_its_tool_with_its_files_and_gets_newer_ones() {
    let gate = Gate::patient("volume-files");
    registry(&gate);
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    let misspelt = volume(&attributes("dokcer"));
    gate.start_pod_with("misspelt", &misspelt);
    gate.start_pod_with("job", &volume(&attributes("docker,!context.token")));
    gate.wait_for_output("job");

    let config = || gate.read_in("job", &format!("{MOUNT}/config.json"));
    let (host, claims) = opened(&config().unwrap());
    assert_eq!(host, "one.example.com");
    assert_eq!(claims["aud"], json!(["connectors-proxy"]));
    assert_eq!(claims["kubernetes.io"]["pod"]["name"], "job");
    let user = gate.read_in("job", &format!("{MOUNT}/user")).unwrap();
    assert!(user.ends_with("\nann\n"), "{user}");
    assert!(
        gate.read_in("job", &format!("{MOUNT}/context.token"))
            .is_err()
    );

    let told = "volume attribute `configuration.params` has values for `docker`";
    gate.wait_for_note("Pod", "misspelt", "FailedMount", told);
    gate.assert_held("misspelt");

    change(&gate, &json!({"address": "https://two.example.com"}));
    let renewed = || {
        let config = config()?;
        if opened(&config).0 == "two.example.com" {
            return Ok(());
        }
        // A look is a process in the pod.
        thread::sleep(Duration::from_secs(1));
        Err(config)
    };
    let deadline = Deadline::after(NEXT_LOOK);
    poll("the newer address to be delivered", deadline, renewed).unwrap();
    // It is the same container that saw both.
    let status = gate.object(POD, "job")["status"].take();
    assert_eq!(status["containerStatuses"][0]["restartCount"], 0);
}
