//! The shared parts of tests on a cluster: the run's cluster, a namespace for each test, and the report of a
//! failure.

use std::{
    env, fs,
    io::{self, Write as _},
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{
    LONG_FORM,
    api::{
        ApiClient, ApiError,
        kinds::{NAMESPACE, POD, ResourceKind},
    },
    cluster::{Cluster, ClusterName},
    command::CommandError,
    target::Kubectl,
    wait::{Deadline, poll},
};

/// Whether tests are to run their long form: more repetitions, waits of many minutes.
#[must_use]
pub fn is_long_form() -> bool {
    env::var_os(LONG_FORM).is_some_and(|value| value == "1")
}

/// How long a test waits for anything that a healthy cluster does in a few seconds.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Lines of the audit log that are shown of a failed test.
const AUDIT_LINES: usize = 20;

/// Whether a test that has only a long form is wanted; says why it does not run otherwise.
#[must_use]
pub fn runs_long(why: &str) -> bool {
    let wanted = is_long_form();
    if !wanted {
        say(&format!("not run without {LONG_FORM}=1: {why}"));
    }
    wanted
}

/// The seed of a test with random moments. `E2E_SEED` repeats that of an earlier run.
#[must_use]
pub fn seed() -> u64 {
    let given = env::var("E2E_SEED").ok().and_then(|seed| seed.parse().ok());
    #[allow(
        clippy::disallowed_methods,
        reason = "any number will do, and it is printed"
    )]
    let now = || SystemTime::now().duration_since(UNIX_EPOCH);
    given.unwrap_or_else(|| now().unwrap_or_default().as_secs())
}

/// A line for users that run the tests. The ordinary output of tests is shown for failed tests only.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Why a test has no scene.
#[derive(Debug, thiserror::Error)]
enum SceneError {
    /// Started without the test command.
    #[error(
        "{0} is not set: these tests need a cluster, run them with `cargo xtask test api`, `gate` or `e2e`"
    )]
    NoCluster(&'static str),
    /// The cluster of the run has ended.
    #[error("cluster {0}, which E2E_CLUSTER names, is not up")]
    ClusterGone(String),
    /// The namespace could not be made.
    #[error(transparent)]
    Namespace(#[from] ApiError),
}

/// One test's place in the run's cluster: a namespace of its own, gone when the test ends.
#[derive(Debug)]
pub struct Scene {
    kubectl: Kubectl,
    api: ApiClient,
    namespace: String,
    cluster: Option<Cluster>,
    workload_image: String,
}

impl Scene {
    /// A new namespace, named after the test.
    ///
    /// # Panics
    /// When there is no cluster to make it in; the message tells how to start one.
    #[must_use]
    #[allow(clippy::panic, reason = "a test without its scene has failed")]
    pub fn new(test: &str) -> Self {
        Self::try_new(test).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_new(test: &str) -> Result<Self, SceneError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let variable = |name| env::var(name).map_err(|_| SceneError::NoCluster(name));
        let kubectl = Kubectl::new(variable("E2E_KUBECTL")?, variable("E2E_KUBECONFIG")?);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Unique among the threads and processes of a run.
        let namespace = format!("{test}-{}-{number}", std::process::id());
        let api = ApiClient::connect(kubectl.kubeconfig(), &namespace)?;
        api.create_namespace(&namespace)?;
        Ok(Self {
            kubectl,
            api,
            namespace,
            cluster: local_cluster()?,
            workload_image: variable("E2E_WORKLOAD_IMAGE")?,
        })
    }

    /// The test's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The API server, for calls in the test's namespace.
    #[must_use]
    pub fn api(&self) -> &ApiClient {
        &self.api
    }

    /// kubectl for the whole cluster, for tests about commands and output of users.
    #[must_use]
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// The image of test pods.
    #[must_use]
    pub fn workload_image(&self) -> &str {
        &self.workload_image
    }

    /// Runs kubectl in the test's namespace.
    pub fn run(&self, words: &str) -> Result<String, CommandError> {
        self.kubectl
            .run(&format!("--namespace {} {words}", self.namespace))
    }

    /// Applies an object in the test's namespace.
    pub fn apply(&self, object: &Value) -> Result<Value, ApiError> {
        self.api.apply(object)
    }

    /// Starts a pod of the test workload.
    pub fn start_pod(&self, name: &str, args: &[&str]) -> Result<Value, ApiError> {
        self.start_pod_with(name, args, &json!({}))
    }

    /// The same with further fields of the pod's spec.
    pub fn start_pod_with(
        &self,
        name: &str,
        args: &[&str],
        more: &Value,
    ) -> Result<Value, ApiError> {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1},
        });
        let container = json!({
            "name": "main",
            "image": self.workload_image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/workload"],
            "args": args,
            "volumeMounts": more.get("volumeMounts"),
        });
        pod["spec"]["containers"] = json!([container]);
        pod["spec"]["volumes"] = more.get("volumes").cloned().unwrap_or_default();
        self.apply(&pod)
    }

    /// Waits until the answer to a kubectl question satisfies the test, and returns it.
    ///
    /// # Panics
    /// When that does not happen in [`PATIENCE`]; the message contains the last answer.
    #[allow(
        clippy::panic,
        reason = "a test's wait that fails is the test's failure"
    )]
    pub fn wait_for(&self, what: &str, words: &str, accepts: impl Fn(&str) -> bool) -> String {
        let answer = poll(what, Deadline::after(PATIENCE), || match self.run(words) {
            Ok(text) if accepts(&text) => Ok(text),
            Ok(text) => Err(text),
            Err(error) => Err(error.to_string()),
        });
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until an object of the test's namespace satisfies the test, and returns it.
    ///
    /// # Panics
    /// When that does not happen in [`PATIENCE`]; the message contains the last state.
    #[allow(
        clippy::panic,
        reason = "a test's wait that fails is the test's failure"
    )]
    pub fn wait_for_object(
        &self,
        what: &str,
        kind: ResourceKind,
        name: &str,
        accepts: impl Fn(&Value) -> bool,
    ) -> Value {
        let found = self.api.wait_for(what, (kind, name), PATIENCE, accepts);
        found.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until a label selector chooses objects that the test accepts, and gives them.
    ///
    /// # Panics
    /// As [`Scene::wait_for_object`].
    #[allow(
        clippy::panic,
        reason = "a test's wait that fails is the test's failure"
    )]
    pub fn wait_for_list(
        &self,
        what: &str,
        kind: ResourceKind,
        labels: &str,
        accepts: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let chosen = (kind, labels);
        let found = self.api.wait_for_list(what, chosen, PATIENCE, accepts);
        found.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until a pod has ended; gives its phase.
    #[must_use]
    pub fn wait_for_end(&self, pod: &str) -> String {
        let what = format!("the end of pod {pod}");
        let ended = self.wait_for_object(&what, POD, pod, |pod| {
            ["Succeeded", "Failed"].contains(&phase(pod))
        });
        phase(&ended).to_owned()
    }

    /// Waits until a pod runs.
    pub fn wait_for_running(&self, pod: &str) {
        let what = format!("pod {pod} to run");
        self.wait_for_object(&what, POD, pod, |pod| phase(pod) == "Running");
    }

    /// The cluster when it is a local one.
    #[must_use]
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// The API server's audit log, when the cluster is a local one.
    #[must_use]
    pub fn audit_log(&self) -> Option<PathBuf> {
        self.cluster.as_ref().map(Cluster::audit_log)
    }

    /// The information about a failure: events, logs, and the calls to the API server.
    fn show(&self) {
        eprintln!("── what namespace {} looked like", self.namespace);
        let questions = [
            "get pods -o wide",
            "get events --sort-by=.metadata.creationTimestamp",
            "logs --all-pods --prefix --tail=30 --selector=app",
        ];
        for words in questions {
            match self.run(words) {
                Ok(text) => eprintln!("$ kubectl {words}\n{text}"),
                Err(error) => eprintln!("$ kubectl {words}\n{error}"),
            }
        }
        eprintln!("── the last changes and refusals in the audit log");
        let log = self
            .audit_log()
            .and_then(|file| fs::read_to_string(file).ok());
        for line in last_audit_lines(&log.unwrap_or_default(), &self.namespace) {
            eprintln!("{line}");
        }
    }
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

/// The changes in a namespace, and the refused calls there: the newest events, oldest first.
fn last_audit_lines(log: &str, namespace: &str) -> Vec<String> {
    let lines = log.lines().rev().filter(|line| line.contains(namespace));
    let events = lines
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| {
            let object = &event["objectRef"];
            object["namespace"] == namespace || object["name"] == namespace
        });
    let mut lines: Vec<String> = events
        .filter_map(|event| audit_line(&event))
        .take(AUDIT_LINES)
        .collect();
    lines.reverse();
    lines
}

fn audit_line(event: &Value) -> Option<String> {
    let text = |pointer: &str| {
        event
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("-")
    };
    let code = event
        .pointer("/responseStatus/code")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    let reads = matches!(text("/verb"), "get" | "list" | "watch");
    if reads && code < 400 {
        return None;
    }
    Some(format!(
        "{} {} {} {}/{} → {code} {}",
        text("/stageTimestamp"),
        text("/user/username"),
        text("/verb"),
        text("/objectRef/resource"),
        text("/objectRef/name"),
        text("/responseStatus/message"),
    ))
}

impl Drop for Scene {
    fn drop(&mut self) {
        if thread::panicking() {
            self.show();
        }
        // The namespace controller does the rest while other tests go on.
        if let Err(error) = self.api.delete(NAMESPACE, &self.namespace) {
            say(&format!("namespace {} stays: {error}", self.namespace));
        }
    }
}

/// The run's cluster when it is a local one; named but not there is an error, not an absence.
fn local_cluster() -> Result<Option<Cluster>, SceneError> {
    let Ok(name) = env::var("E2E_CLUSTER") else {
        return Ok(None);
    };
    let found = name
        .parse()
        .ok()
        .and_then(|name: ClusterName| Cluster::find(&name).ok().flatten());
    found.map(Some).ok_or(SceneError::ClusterGone(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_lines_show_changes_and_refusals_but_not_plain_reads() {
        let event = |verb: &str, code: u32| {
            json!({"verb": verb, "user": {"username": "u"}, "responseStatus": {"code": code},
                "objectRef": {"resource": "pods", "name": "p", "namespace": "ns"}})
            .to_string()
        };
        let log = [
            event("get", 200),
            event("create", 201),
            event("list", 403),
            "broken ns".to_owned(),
        ]
        .join("\n");
        let lines = last_audit_lines(&log, "ns");
        assert_eq!(
            lines,
            ["- u create pods/p → 201 -", "- u list pods/p → 403 -"]
        );
        assert_eq!(last_audit_lines(&log, "other"), Vec::<String>::new());
    }
}
