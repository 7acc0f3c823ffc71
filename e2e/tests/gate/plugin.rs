//! The kubectl plugin beside the running services: sessions of an administrator, and of a user without rights.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

use e2e::{
    Deadline,
    api::kinds::{POD, SIGN_OFF},
    harness::PATIENCE,
    images::programs_dir,
    poll,
};
use serde_json::{Value, json};

use crate::support::rights::{self, RightHolder, RightRule};
use crate::support::{Approval, CONNECTOR, Gate, check_of, name, policy, wait_until};

/// A password that stands in a Secret beside the objects that the plugin reads.
const PASSWORD: &str = "correct-horse-battery-staple";
/// The same as a Secret holds it.
const ENCODED: &str = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ==";

/// The plugin with these words, in the namespace of the test.
fn command(gate: &Gate, words: &str) -> Command {
    let mut command = Command::new(programs_dir().join("kubectl-connectors"));
    command
        .arg("--kubeconfig")
        .arg(gate.scene().kubectl().kubeconfig())
        .args(["--namespace", gate.namespace()])
        .args(words.split(' '));
    command
}

/// Fails for a token of an account and a Secret (I8), and for a colour, as this is no terminal.
fn is_harmless(words: &str, text: &str) {
    for forbidden in ["eyJ", PASSWORD, ENCODED, "\u{1b}"] {
        assert!(!text.contains(forbidden), "{words}: {text}");
    }
}

/// The answer of the plugin to a command line.
struct Session {
    code: i32,
    text: String,
    errors: String,
}

impl Session {
    fn of(gate: &Gate, words: &str) -> Self {
        let output = command(gate, words).output().unwrap();
        let session = Self {
            code: output.status.code().unwrap(),
            text: String::from_utf8(output.stdout).unwrap(),
            errors: String::from_utf8(output.stderr).unwrap(),
        };
        for text in [&session.text, &session.errors] {
            is_harmless(words, text);
        }
        session
    }

    #[track_caller]
    fn expect(&self, code: i32, says: &[&str]) {
        assert_eq!(self.code, code, "{}{}", self.text, self.errors);
        for word in says {
            let all = format!("{}{}", self.text, self.errors);
            assert!(all.contains(word), "{word}: {all}");
        }
    }
}

#[test]
fn the_plugin_follows_a_pod_from_its_wait_to_the_end_of_its_access() {
    let gate = Gate::new("plugin");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    let request = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");

    let waits = Session::of(&gate, "explain pod/job");
    waits.expect(1, &["waits", CONNECTOR, "policy release", "SignOff"]);
    let in_json = Session::of(&gate, "explain pod/job -o json");
    let document: Value = serde_json::from_str(&in_json.text).unwrap();
    assert!(document["apiVersion"].is_string(), "{document}");
    Session::of(&gate, &format!("can-i {CONNECTOR} --pod job")).expect(1, &[]);
    Session::of(&gate, "requests").expect(0, &["Pending"]);
    Session::of(&gate, "grants").expect(0, &[]);
    let before_a_pod = format!(
        "explain connector/{CONNECTOR} --as-account {}/default",
        gate.namespace()
    );
    Session::of(&gate, &before_a_pod).expect(1, &["policy release", "SignOff"]);

    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.wait_for_output("job");
    Session::of(&gate, "explain pod/job").expect(0, &["policy release"]);
    Session::of(&gate, &format!("can-i {CONNECTOR} --pod job")).expect(0, &[]);
    Session::of(&gate, &format!("who-can {CONNECTOR}")).expect(0, &["job"]);
    Session::of(&gate, "grants").expect(0, &["job", "release"]);

    gate.delete(POD, "job");
    gate.wait_for_phase_of(&request, "Revoked");
    wait_until("no grant to be listed", || {
        !Session::of(&gate, "grants").text.contains("job")
    });
    let request = format!("explain areq/{}", name(&request));
    Session::of(&gate, &request).expect(1, &["Revoked", "policy release"]);
}

#[test]
fn a_user_without_rights_is_told_what_may_not_be_read() {
    let gate = Gate::new("plugin-stranger");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    let request = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    let as_stranger = |words: &str| Session::of(&gate, &format!("{words} --as stranger"));
    let of_request = format!("explain areq/{}", name(&request));
    let can_i = format!("can-i {CONNECTOR} --pod job");
    for words in [
        "explain pod/job",
        &of_request,
        &can_i,
        "requests",
        "grants",
        "top",
    ] {
        let session = as_stranger(words);
        session.expect(3, &["stranger"]);
        assert!(!session.text.contains("release"), "{}", session.text);
    }
    // A user without the right does not learn whether the connector exists.
    for connector in [CONNECTOR, "no-such-connector"] {
        let who = as_stranger(&format!("who-can {connector}"));
        who.expect(3, &["you may not", "there may be more"]);
        assert!(!who.text.contains("job"), "{}", who.text);
    }
    for words in ["doctor", "doctor -A", "doctor --fix-plan"] {
        let session = as_stranger(words);
        session.expect(3, &["you may not"]);
        assert!(!session.text.contains("release"), "{}", session.text);
    }
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("policy.json");
    let new = policy("stricter", Approval::SignOff);
    fs::write(&file, new.to_string()).unwrap();
    let simulated = as_stranger(&format!("policy simulate -f {}", file.display()));
    simulated.expect(3, &["you may not"]);
    for hidden in ["release", "job"] {
        assert!(!simulated.text.contains(hidden), "{}", simulated.text);
    }
}

/// The running plugin, until this is dropped.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Watching {
    fn begin(gate: &Gate, words: &str) -> Self {
        let mut command = command(gate, words);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Its lines up to the one with the last word. Then its output is closed.
    fn lines_until(&mut self, last: &'static str) -> mpsc::Receiver<String> {
        let output = self.0.stdout.take().unwrap();
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let is_last = line.contains(last);
                if sender.send(line).is_err() || is_last {
                    return;
                }
            }
        });
        lines
    }
}

#[test]
fn a_watch_of_requests_prints_each_change_of_phase_until_its_output_is_closed() {
    const WATCH: &str = "requests --watch";
    let gate = Gate::new("plugin-watches");
    with_a_secret(&gate);
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    let request = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");

    let mut watching = Watching::begin(&gate, WATCH);
    let lines = watching.lines_until("Granted");
    let mut printed = Vec::new();
    let mut read_until = |phase: &str| {
        while !printed.last().is_some_and(|it: &String| it.contains(phase)) {
            let line = lines.recv_timeout(PATIENCE);
            printed.push(line.unwrap_or_else(|_| panic!("no line with {phase}: {printed:?}")));
        }
    };
    read_until("Pending");
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    read_until("Granted");
    let name = name(&request);
    for line in printed.iter().filter(|it| !it.starts_with("CONNECTOR ")) {
        assert!(line.contains(&name), "{line}");
    }

    gate.delete(POD, "job");
    let end = || match watching.0.try_wait().unwrap() {
        Some(status) => Ok(status),
        None => Err("it watches".to_owned()),
    };
    let status = poll("the end of the watch", Deadline::after(PATIENCE), end).unwrap();
    assert!(status.success(), "{status}");
    let mut errors = String::new();
    let stderr = watching.0.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    assert_eq!(errors, "");
    is_harmless(WATCH, &printed.join("\n"));
}

/// A user who may read the objects of the namespace, and write the state of sign-offs.
fn board(gate: &Gate) -> String {
    let user = format!("board-{}", gate.namespace());
    let rule = |group, resource, verbs| RightRule {
        group,
        resource,
        name: None,
        verbs,
    };
    let rules = [
        rule("", "pods", &["get"]),
        rule("connectors.alauda.io", "*", &["get", "list"]),
        rule("e2e.example.com", "signoffs", &["get", "list"]),
        rule("e2e.example.com", "signoffs/status", &["patch"]),
    ];
    rights::give(gate, "board", &rules, RightHolder::User(&user));
    user
}

#[test]
fn an_administrator_answers_with_the_plugin_and_users_without_the_rights_write_nothing() {
    let gate = Gate::new("plugin-answers");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.set_approval("yes", "job", Approval::SignOff, "pending");
    let board = board(&gate);
    let state = || gate.object(SIGN_OFF, "yes")["status"]["state"].clone();
    let as_board = |words: &str| Session::of(&gate, &format!("{words} --as {board}"));

    let shown = as_board("approve pod/job");
    shown.expect(2, &["opens", "policy release", "rule: * on", "--yes"]);
    assert_eq!(state(), "pending");
    let stranger = Session::of(&gate, "approve signoff/yes --yes --as stranger");
    assert_ne!(stranger.code, 0, "{}{}", stranger.text, stranger.errors);
    assert_eq!(state(), "pending");

    let unnamed = as_board("approve pod/job --yes");
    unnamed.expect(2, &["--only"]);
    // Policies of other namespaces may count the object too, and the board may not read them.
    let unseen = as_board("approve signoff/yes --yes");
    let all = "you may not list accessrequests.connectors.alauda.io";
    unseen.expect(3, &["it may open or end more", all, "nothing was written"]);
    assert_eq!(state(), "pending");
    // The first look of the controller may be a moment away.
    let approve = "approve pod/job --only signoff/yes --yes --wait=30";
    let approved = Session::of(&gate, approve);
    approved.expect(0, &["written: SignOff", "it is approved", "Granted"]);
    gate.wait_for_output("job");
    let rejected = Session::of(&gate, "reject signoff/yes --yes --wait=30");
    rejected.expect(0, &["takes back", "it is rejected", "Revoked"]);
    assert_eq!(state(), "rejected");
    gate.approval_ended("job", "release");
}

/// A connector whose credential is a Secret of the namespace.
fn with_a_secret(gate: &Gate) {
    gate.scene()
        .apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "credential"},
            "stringData": {"username": "robot", "password": PASSWORD},
        }))
        .unwrap();
    gate.scene()
        .apply(&json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
            "metadata": {"name": CONNECTOR, "labels": {"e2e": "yes"}},
            "spec": {
                "connectorClassName": "e2e", "address": "https://prod.example.com",
                "auth": {"name": "basic", "secretRef": {"name": "credential"}},
            },
        }))
        .unwrap();
}

#[test]
fn the_plugin_looks_at_waits_policies_and_the_installation_and_shows_no_secret() {
    let gate = Gate::new("plugin-looks");
    with_a_secret(&gate);
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.set_approval("yes", "job", Approval::SignOff, "pending");

    Session::of(&gate, "top").expect(0, &[gate.namespace(), "job", "ChecksPending"]);
    Session::of(&gate, "top -A").expect(0, &[gate.namespace()]);

    let files = tempfile::tempdir().unwrap();
    let simulate = |policy: &Value| {
        let file = files.path().join("policy.json");
        fs::write(&file, policy.to_string()).unwrap();
        Session::of(&gate, &format!("policy simulate -f {}", file.display()))
    };
    simulate(&policy("release", Approval::SignOff)).expect(0, &["0 change"]);
    let mut other = policy("release", Approval::SignOff);
    gate.set_approval("other", "other", Approval::SignOff, "approved");
    check_of(&mut other)["selector"]["labels"] = json!({"app": "other"});
    simulate(&other).expect(1, &["waits → would be granted", "1 change"]);

    let everything = [RightRule {
        group: "connectors.alauda.io",
        resource: "connectors/apis",
        name: None,
        verbs: &["*"],
    }];
    rights::give(&gate, "wide", &everything, RightHolder::Account("deployer"));
    let wide = format!("RoleBinding {}/wide", gate.namespace());
    let told = format!("ServiceAccount {}/deployer may use apis", gate.namespace());
    Session::of(&gate, "doctor").expect(1, &["RightsTooWide", &wide, &told]);
    let plan = Session::of(&gate, "doctor --fix-plan");
    let edit = format!("kubectl -n {} edit rolebinding wide", gate.namespace());
    plan.expect(1, &[&edit]);
    // The clock of a node is that of its API server.
    assert!(!plan.text.contains("ClocksApart"), "{}", plan.text);

    for words in ["explain pod/job", "requests", "grants", "doctor -A", "top"] {
        let document = Session::of(&gate, &format!("{words} -o json"));
        let document: Value = serde_json::from_str(&document.text).unwrap();
        assert!(document["kind"].is_string(), "{document}");
    }
}

/// Users keep exports of whole namespaces, and what they read stands in the same folder.
#[test]
fn the_plugin_reads_files_beside_a_secret_and_shows_none_of_it() {
    let gate = Gate::new("plugin-files");
    with_a_secret(&gate);
    let own = gate.namespace();
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(files.path().join(name), text).unwrap();
    let exported = |what: &str| gate.scene().run(&format!("get {what} -o json")).unwrap();
    let secret = exported("secret credential");
    assert!(secret.contains(ENCODED), "{secret}");
    write("secret.json", &secret);
    let mut release = policy("release", Approval::SignOff);
    release["metadata"]["namespace"] = own.into();
    write("policy.json", &release.to_string());
    write(
        "connector.json",
        &exported(&format!("connector {CONNECTOR}")),
    );
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "job", "namespace": own, "labels": {"app": "job"}},
        "spec": {"serviceAccountName": "default"},
    });
    write("pod.json", &pod.to_string());
    let test = json!({
        "apiVersion": "cli.connectors.alauda.io/v1", "kind": "PolicyTest", "metadata": {"name": "files"},
        "cases": [{
            "name": "waits for its sign-off", "pod": format!("{own}/job"),
            "connector": format!("{own}/{CONNECTOR}"), "expect": {"access": "Waits"},
        }],
    });
    write("test.json", &test.to_string());
    let folder = files.path().display();
    let tested = Session::of(&gate, &format!("policy test {folder}"));
    tested.expect(0, &["ok", "waits for its sign-off", "1 passed, 0 failed"]);
    let coverage = format!("policy coverage {folder}");
    let covered = Session::of(&gate, &coverage);
    covered.expect(1, &["policy", "/release", "no test in which", "reached"]);
    let in_json = Session::of(&gate, &format!("{coverage} -o json"));
    let document: Value = serde_json::from_str(&in_json.text).unwrap();
    assert_eq!(document["kind"], "PolicyCoverage", "{document}");

    let shipped = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "release", "namespace": own},
        "spec": {"connector": {"names": [CONNECTOR]}, "defaultPermission": {
            "roleTemplate": {"ref": {"configMap": {"name": "rules"}}},
            "bindingTemplate": {"serviceAccounts": [{"namespaceSelector": {"names": [own]}}]},
        }},
    });
    write("policy.json", &shipped.to_string());
    let rules =
        "[{apiGroups: [connectors.alauda.io], resources: [connectors/proxy], verbs: ['*']}]";
    let template = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rules", "namespace": "connectors-system"},
        "data": {"rules": rules, "password": PASSWORD},
    });
    write("template.json", &template.to_string());
    let convert = format!("convert {folder}");
    let converted = Session::of(&gate, &convert);
    let told = [
        "kind: AccessPolicy",
        "[TemplateCopied]",
        "1 objects converted",
    ];
    converted.expect(0, &told);
    let in_json = Session::of(&gate, &format!("{convert} -o json"));
    let document: Value = serde_json::from_str(&in_json.text).unwrap();
    assert_eq!(document["kind"], "Conversion", "{document}");
    // What it prints is accepted by the cluster.
    gate.create(&document["objects"][0]).unwrap();
}

#[test]
fn kubectl_completes_the_commands_of_the_plugin() {
    let gate = Gate::empty("plugin-completes");
    let folder = tempfile::tempdir().unwrap();
    let program = programs_dir().join("kubectl-connectors");
    symlink(&program, folder.path().join("kubectl-connectors")).unwrap();
    let script = Command::new(&program)
        .args(["completion", "kubectl"])
        .output()
        .unwrap()
        .stdout;
    let script_file = folder.path().join("kubectl_complete-connectors");
    fs::write(&script_file, script).unwrap();
    fs::set_permissions(&script_file, fs::Permissions::from_mode(0o755)).unwrap();
    let path = env::var("PATH").unwrap_or_default();
    let completed = |words: &[&str]| {
        let output = Command::new(gate.scene().kubectl().program())
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .args(["__complete", "connectors"])
            .args(words)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let commands = completed(&["ex"]);
    assert!(commands.starts_with("explain\t"), "{commands}");
    let values = completed(&["requests", "-o", ""]);
    assert!(
        values.contains("json") && values.contains("yaml"),
        "{values}"
    );
}
