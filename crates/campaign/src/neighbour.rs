//! Another tenant of the same controller, which causes the maximum load.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Entry, What};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::stage::{CONNECTOR, LOUD, OURS, SIGNOFF, Stage};

/// The duration of a question about its policies: longer than the time limit of a module.
pub const QUESTION: Duration = Duration::from_secs(1);
/// The duration of each call to the API server in a plan with it.
pub const CALL: Duration = Duration::from_millis(5);

/// Two for each worker of the granting lane that one tenant may take.
const PODS: usize = 64;
/// The approved ones: more than the workers of the other lane.
const APPROVED: usize = 16;
/// Policies that each pod is evaluated with.
const POLICIES: usize = 4;
/// The interval of changes.
const PERIOD: Duration = Duration::from_millis(500);
/// The number of objects changed at a time.
const AT_ONCE: usize = 6;
/// The time that it stays active after each step of the scenario.
const BURST: Duration = Duration::from_secs(10);

/// The time until all of its objects were changed once.
const BUSY: Duration = Duration::from_secs(4);
/// The limit of waiting for its grants, for scenarios in which they may never be written.
const SETTLED: Duration = Duration::from_mins(1);

/// The tenant. It changes nothing before `stir` is called, and nothing after this is dropped.
pub struct Neighbour {
    until: watch::Sender<Instant>,
}

impl Neighbour {
    /// Creates its connector, policies, pods and requests, and approves some of the pods.
    #[must_use]
    pub fn of(stage: &Stage) -> Self {
        settle(stage);
        let (until, stirred) = watch::channel(Instant::now());
        tokio::spawn(change(stage.clone(), stirred));
        Self { until }
    }

    /// Waits until its approved pods are granted: existing grants are handled by separate workers.
    pub async fn settles(&self, stage: &Stage) {
        let limit = Instant::now() + SETTLED;
        while granted(stage, LOUD) < APPROVED && Instant::now() < limit {
            sleep(PERIOD).await;
        }
    }

    /// Starts changing its objects for a while. Returns when the controller is busy with them.
    pub async fn stir(&self) {
        let now = Instant::now();
        let was_quiet = *self.until.borrow() <= now;
        self.until.send_replace(now + BURST);
        if was_quiet {
            sleep(BUSY).await;
        }
    }
}

fn settle(stage: &Stage) {
    tenant(stage, LOUD);
    for number in 0..POLICIES {
        stage.put(policy(LOUD, &name(number)));
    }
    for number in 0..PODS {
        let said = if number < APPROVED {
            "approved"
        } else {
            "pending"
        };
        pod(stage, LOUD, &name(number), said);
    }
}

/// The namespace of a tenant, with an account and a connector.
pub(crate) fn tenant(stage: &Stage, namespace: &str) {
    stage.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
    stage.put(json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "builder", "namespace": namespace},
    }));
    stage.put(json!({
        "apiVersion": OURS, "kind": "Connector",
        "metadata": {"name": CONNECTOR, "namespace": namespace},
        "spec": {"connectorClassName": "harbor"},
    }));
}

/// A pod of a tenant, its request, and the object of its approval.
pub(crate) fn pod(stage: &Stage, namespace: &str, name: &str, said: &str) {
    stage.put(json!({
        "apiVersion": SIGNOFF, "kind": "Signoff",
        "metadata": {"name": name, "namespace": namespace, "labels": {"run": name}},
        "status": {"state": said},
    }));
    stage.put(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("pod-{name}")},
        "spec": {"serviceAccountName": "builder", "containers": [{"name": "main", "image": "main"}]},
        "status": {"phase": "Pending"},
    }));
    stage.put(json!({
        "apiVersion": OURS, "kind": "AccessRequest",
        // The UIDs differ from those of the scenario, which are part of the names of plans.
        "metadata": {"name": name, "namespace": namespace, "uid": format!("request-{name}")},
        "spec": {
            "subject": {"kind": "ServiceAccount", "namespace": namespace, "name": "builder"},
            "connectorRef": {"name": CONNECTOR},
            "context": {"objectRef": {
                "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": format!("pod-{name}"),
            }},
            "permission": "apis",
        },
    }));
}

/// Evaluated again with each change of an approval, also after the grant.
pub(crate) fn policy(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": OURS, "kind": "AccessPolicy",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("policy-{name}")},
        "spec": {"permission": "apis", "checkGrantedPermission": {
            "requesters": [{"kind": "ServiceAccount", "name": "builder", "namespace": namespace}],
            "spec": {
                "checks": [{"name": "approval", "latch": "WhileHolds", "selector": {
                    "labels": {"run": "{.object.metadata.name}"},
                    "objectRef": {"apiVersion": SIGNOFF, "kind": "Signoff"},
                }}],
                "permissions": {"roleTemplate": {"rules": [{
                    "apiGroups": ["connectors.alauda.io"], "verbs": ["*"],
                    "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                }]}},
            },
        }},
    })
}

/// The name of a policy, or of a pod, its request and its approval.
fn name(number: usize) -> String {
    format!("loud-{number}")
}

/// Changes objects in turn while active: approvals, pods and policies get a new annotation.
async fn change(stage: Stage, mut stirred: watch::Receiver<Instant>) {
    let mut round = 0;
    loop {
        let until = *stirred.borrow_and_update();
        if Instant::now() >= until {
            if stirred.changed().await.is_err() {
                return;
            }
            continue;
        }
        for number in round * AT_ONCE..(round + 1) * AT_ONCE {
            let name = name(number % PODS);
            for plural in ["signoffs", "pods"] {
                say_again(&stage, plural, &name, round);
            }
        }
        say_again(&stage, "accesspolicies", &name(round % POLICIES), round);
        round += 1;
        sleep(PERIOD).await;
    }
}

fn say_again(stage: &Stage, plural: &str, name: &str, round: usize) {
    stage.server.change(plural, LOUD, name, |it| {
        it["metadata"]["annotations"] = json!({"round": round.to_string()});
    });
}

/// True when a question is about one of its policies.
#[must_use]
pub fn asks(policy: &[u8]) -> bool {
    let word = format!(r#""namespace":"{LOUD}""#);
    policy.windows(word.len()).any(|it| it == word.as_bytes())
}

/// The log without the objects of these namespaces: with another tenant, the others have the same guarantees as without it.
#[must_use]
pub fn without(mut log: Vec<Entry>, tenants: &[&str]) -> Vec<Entry> {
    log.retain(|entry| {
        let namespace = match &entry.what {
            What::Call(call) => &call.point.namespace,
            What::Change(change) => &change.namespace,
            What::Sent(sent) => &sent.point.namespace,
            What::Killed(_) => return true,
        };
        !tenants.contains(&namespace.as_str())
    });
    log
}

/// The number of granted requests of a tenant.
#[must_use]
pub fn granted(stage: &Stage, namespace: &str) -> usize {
    let requests = stage.server.list("accessrequests").into_iter();
    let own = requests.filter(|it| it["metadata"]["namespace"] == namespace);
    own.filter(|it| it["status"]["phase"] == "Granted").count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Fault, Plan},
        run, scenario,
    };

    #[test]
    fn it_is_busy_and_gets_what_it_is_approved_and_nobody_else_writes_more() {
        let withdrawn = scenario::named("withdrawn").unwrap();
        let run = |plan| run::run(&withdrawn, &plan).unwrap();
        let outcome = run(Plan::with("withdrawn", Fault::NoisyNeighbour));
        assert_eq!(outcome.violations, []);
        assert_eq!(outcome.granted_beside, APPROVED);
        // Other tenants ask only a few questions.
        assert!(outcome.asked > 4 * PODS, "{}", outcome.asked);
        let alone = run(Plan::undisturbed("withdrawn"));
        assert_eq!(alone.granted_beside, 0);
        assert_eq!(outcome.writes.counts, alone.writes.counts);
        assert_eq!(outcome.end, alone.end);
    }

    #[test]
    fn a_question_is_its_own_by_the_namespace_of_the_policy() {
        assert!(asks(policy(LOUD, "p").to_string().as_bytes()));
        assert!(!asks(
            br#"{"metadata":{"name":"loud","namespace":"tools"}}"#
        ));
        assert!(!asks(b""));
    }
}
