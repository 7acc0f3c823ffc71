//! What a pod finds in its volume beside facts: the files of its connector's class, with its own token; or why it gets none.

use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::api::kinds::{CONNECTOR as CONNECTOR_KIND, EVENT, POD};
use e2e::harness::{self, PATIENCE};
use e2e::{Deadline, checker, poll};
use serde_json::{Value, json};

use crate::support::{
    Approval, CONNECTOR, Gate, Installation, MOUNT, claims, name, printed, volume, wait_until,
};

/// The longest that a token of ten minutes needs until a newer one is delivered: the kubelet makes that after four fifths
/// of its life, and calls within two minutes.
const NEXT_TOKEN: Duration = Duration::from_mins(11);

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
    (host.clone(), claims(auth.strip_prefix("pod:").unwrap()))
}

#[test]
fn a_rejected_pod_that_wants_an_error_file_starts_finds_nothing_else_and_fails_fast() {
    let gate = Gate::new("error-file");
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("no", "job", Approval::SignOff, "rejected");
    let attributes = json!({"connectors": CONNECTOR, "onRejected": "ErrorFile"});
    let volume = volume(&attributes);
    // As a program does that needs its token.
    let token = format!("{MOUNT}/context.token");
    let args = ["cat", MOUNT, token.as_str()];
    let start = |pod: &str| gate.scene().start_pod_with(pod, &args, &volume);
    start("job").unwrap();
    start("waits").unwrap();

    assert_eq!(gate.scene().wait_for_end("job"), "Failed");
    let status = gate.object(POD, "job")["status"].take();
    let ended = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["exitCode"], 1, "{status}");
    // A log has the output and the errors of a program in any order, and the last line a moment after its end.
    let missing = "error: No such file or directory (os error 2)\n";
    let log = || gate.api().logs("job").unwrap();
    wait_until("the log to have the error", || log().contains(missing));
    let log = log();
    let output = log.replace(missing, "");
    let files = printed(&output);
    let (error, mark) = (
        format!("{MOUNT}/.error.json"),
        format!("{MOUNT}/.connector/.rejected"),
    );
    let names: Vec<_> = files.keys().copied().collect();
    assert_eq!(
        names,
        [mark.as_str(), error.as_str(), token.as_str()],
        "{output}"
    );
    assert_eq!(files[token.as_str()], "");
    let said: Value = serde_json::from_str(files[error.as_str()]).unwrap();
    let request = gate.wait_for_phase("job", "Rejected");
    let (namespace, request) = (gate.namespace(), name(&request));
    assert_eq!(said["code"], 7);
    let message = said["message"].as_str().unwrap();
    let connector = format!("connector {namespace}/{CONNECTOR}: ");
    assert!(message.starts_with(&connector), "{message}");
    // Who said no, as the pod lives with the connector.
    assert!(message.contains("SignOff"), "{message}");
    let detail = &said["details"][0];
    assert_eq!(detail["reason"], "ACCESS_REJECTED");
    assert_eq!(detail["metadata"]["request"], *request);

    let says = "the pod starts with a volume that holds .error.json alone";
    gate.wait_for_note("Pod", "job", "MountedErrorFile", says);
    assert!(!gate.may_use("job"));
    // Another pod of the same policy is not decided, and so it waits.
    gate.wait_for_phase("waits", "Pending");
    gate.assert_held("waits");
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

#[test]
fn a_running_pod_gets_a_newer_token_before_its_own_ends() {
    if !harness::runs_long("it waits for the kubelet to renew a token of ten minutes") {
        return;
    }
    let gate = Gate::alone("volume-token");
    let installation = Installation::of(&gate);
    let _short = installation.short_tokens();
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.start_pod("job");
    gate.wait_for_output("job");

    let token = || {
        let path = format!("{MOUNT}/context.token");
        let read = gate.read_in("job", &path).unwrap();
        let text = read.lines().find(|it| it.starts_with("eyJ")).unwrap();
        (text.to_owned(), claims(text))
    };
    let end = |claims: &Value| claims["exp"].as_i64().unwrap();
    let (_, first) = token();
    let lifetime = end(&first) - first["iat"].as_i64().unwrap();
    assert_eq!(lifetime, 600, "{first}");
    let renewed = || {
        let (text, claims) = token();
        // A pod that looks at any time finds a token that holds.
        let left = end(&claims) - checker::now().as_second();
        assert!(left > 0, "the token ended {} s ago: {claims}", -left);
        if claims["exp"] != first["exp"] {
            return Ok((text, claims, end(&first) - checker::now().as_second()));
        }
        // A look is a process in the pod.
        thread::sleep(Duration::from_secs(1));
        Err(format!("a token that lives for {left} s"))
    };
    let deadline = Deadline::after(NEXT_TOKEN);
    let (text, claims, left) = poll("a newer token", deadline, renewed).unwrap();
    harness::say(&format!(
        "a newer token was delivered {left} s before the end of the first"
    ));
    assert_eq!(claims["aud"], json!(["connectors-proxy"]));
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": text, "audiences": ["connectors-proxy"]},
    });
    let status = gate.create(&review).unwrap()["status"].take();
    assert_eq!(status["authenticated"], true, "{status}");
    let said = &status["user"]["extra"]["authentication.kubernetes.io/pod-name"];
    assert_eq!(*said, json!(["job"]), "{status}");
    let restarts = &gate.object(POD, "job")["status"]["containerStatuses"][0]["restartCount"];
    assert_eq!(*restarts, 0);
}

#[test]
fn an_author_hears_of_a_broken_template_of_a_class_before_a_pod_asks_for_its_file() {
    let gate = Gate::new("class-told");
    let class = format!("broken-{}", gate.namespace());
    let write = |template: &str| {
        let configuration = json!({"name": "docker", "data": {"config.json": template}});
        let object = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "ConnectorClass",
            "metadata": {"name": class}, "spec": {"configurations": [configuration]},
        });
        gate.scene().apply(&object).unwrap();
    };
    // Events about objects of no namespace are there.
    let api = gate.api().in_namespace("default");
    let told = |reason: &str| {
        let is_it =
            |event: &Value| event["regarding"]["name"] == class && event["reason"] == reason;
        let is_told = |events: &[Value]| events.iter().any(is_it);
        let what = format!("event {reason} about class {class}");
        let events = api.wait_for_list(&what, (EVENT, ""), PATIENCE, is_told);
        events.unwrap().into_iter().find(is_it).unwrap()
    };
    write("{\n{{ nosuch }}");
    let event = told("TemplatesUnreadable");
    let note = event["note"].as_str().unwrap();
    let place = "configuration `docker`: config.json:2:4: at <nosuch>";
    assert!(note.contains(place), "{note}");
    write("{}");
    told("TemplatesReadable");
}
