//! A service in front of a tool asks whether the pod that shows its token may use a connector.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdout, Stdio},
};

use e2e::{Deadline, harness::PATIENCE, poll};
use evaluation_api::access::{
    AccessTarget, ConnectorName, Decision, Permission, TokenAnswer, TokenQuestion,
};
use evaluation_api::client::{Client, ClientFiles, EvaluationCallError};
use evaluation_api::refusal::Reason;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::{
    Approval, CONNECTOR, Gate, create_caller, evaluation_roots, uid, volume, wait_until,
};

const TOKENS: &str = "/tokens";

/// A pod with a connector, and with its own tokens for two audiences.
fn start_pod(gate: &Gate, name: &str) {
    let mut volumes = volume(&json!({"connectors": CONNECTOR}));
    let token =
        |audience: &str| json!({"serviceAccountToken": {"audience": audience, "path": audience}});
    let sources = json!([
        token("connectors.alauda.io"),
        token("elsewhere.example.com")
    ]);
    let more = json!({"name": "tokens", "projected": {"sources": sources}});
    volumes["volumes"].as_array_mut().unwrap().push(more);
    let mount = json!({"name": "tokens", "mountPath": TOKENS});
    volumes["volumeMounts"].as_array_mut().unwrap().push(mount);
    gate.start_pod_with(name, &volumes);
}

fn token_of(gate: &Gate, pod: &str, audience: &str) -> String {
    let file = format!("{TOKENS}/{audience}");
    let output = gate.read_in(pod, &file).unwrap();
    output.lines().nth(1).unwrap().to_owned()
}

/// The service in front of a tool: an account that may ask about the namespace, and its way to the evaluation service.
struct Asker {
    client: Client,
    runtime: Runtime,
    namespace: String,
    _forward: Forward,
    _files: TempDir,
}

/// A `kubectl port-forward`. It ends when its output cannot be written, so that stays open.
struct Forward {
    child: Child,
    _output: BufReader<ChildStdout>,
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Asker {
    fn new(gate: &Gate) -> Self {
        create_caller(gate, "caller");
        let files = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(files.path().join(file), text).unwrap();
        let words = "create token caller --audience connectors-evaluation";
        write("token", &gate.scene().run(words).unwrap());
        write("ca.crt", &evaluation_roots(gate));
        let (forward, address) = forward(gate);
        let runtime = Runtime::new().unwrap();
        let entered = runtime.enter();
        let client = client(files.path(), address);
        drop(entered);
        Self {
            client,
            runtime,
            namespace: gate.namespace().to_owned(),
            _forward: forward,
            _files: files,
        }
    }

    fn review(&self, token: &str) -> Result<TokenAnswer, EvaluationCallError> {
        let target = AccessTarget {
            connector: ConnectorName {
                namespace: self.namespace.clone(),
                name: CONNECTOR.to_owned(),
            },
            permission: Permission::Apis,
            verb: "*".to_owned(),
        };
        let question = TokenQuestion {
            token: token.to_owned(),
            target,
        };
        self.runtime.block_on(self.client.review_token(question))
    }

    fn is_let_in(&self, token: &str) -> bool {
        let answer = self.review(token).unwrap().answer;
        answer.decision != Decision::Denied
    }

    fn refusal(&self, token: &str) -> Option<Reason> {
        let refused = self.review(token).err()?;
        refused.reason()
    }
}

fn client(files: &Path, address: SocketAddr) -> Client {
    let files = ClientFiles {
        url: "https://evaluation-service.connectors-system.svc:8443".to_owned(),
        connect_to: Some(address),
        roots_file: files.join("ca.crt"),
        token_file: files.join("token"),
    };
    Client::from_files(files).unwrap()
}

fn forward(gate: &Gate) -> (Forward, SocketAddr) {
    let mut command = gate.scene().kubectl().command();
    let words = "port-forward --namespace connectors-system service/evaluation-service :8443";
    let mut child = command
        .args(words.split(' '))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.split(' ').nth(2).unwrap_or_else(|| panic!("{line}"));
    let forward = Forward {
        child,
        _output: output,
    };
    (forward, address.parse().unwrap())
}

#[test]
fn a_pods_token_is_a_yes_as_long_as_the_pod_is_let_in_and_only_for_that_pod() {
    let gate = Gate::new("reviews");
    gate.create_policy("release", Approval::SignOff);
    for pod in ["job", "other"] {
        gate.set_approval(pod, pod, Approval::SignOff, "approved");
        start_pod(&gate, pod);
    }
    for pod in ["job", "other"] {
        gate.wait_for_output(pod);
    }
    let request = gate.wait_for_phase("job", "Granted");
    let [job, other] = ["job", "other"].map(|pod| token_of(&gate, pod, "connectors.alauda.io"));
    let asker = Asker::new(&gate);
    // The service sees the caller's role a moment after it was written.
    let answer = poll("the caller to be let in", Deadline::after(PATIENCE), || {
        asker.review(&job).map_err(|error| error.to_string())
    });
    let answer = answer.unwrap();
    assert_eq!(
        (answer.pod.name.as_str(), answer.pod.uid.as_str()),
        ("job", gate.pod_uid("job").as_str())
    );
    assert_eq!(answer.subject.name, "default");
    assert!(
        matches!(answer.answer.decision, Decision::AllowedPod(_)),
        "{answer:?}"
    );
    assert!(asker.is_let_in(&other));
    // A token that the pod has for others is no proof here.
    let elsewhere = token_of(&gate, "job", "elsewhere.example.com");
    assert_eq!(
        asker.refusal(&elsewhere),
        Some(Reason::SubjectTokenWrongAudience)
    );

    // One of two pods of the same account loses its access.
    gate.set_approval("job", "job", Approval::SignOff, "expired");
    gate.approval_ended("job", "release");
    gate.wait_for_no_access("job", &uid(&request));
    wait_until("the answer to be no", || !asker.is_let_in(&job));
    assert!(asker.is_let_in(&other));

    // The token of a pod that is gone proves nothing; the API server remembers good ones for some ten seconds.
    gate.delete_pod_and_wait("other", PATIENCE);
    wait_until("the token to be worth nothing", || {
        asker.refusal(&other) == Some(Reason::SubjectTokenInvalid)
    });
}
