//! The acts of the story, each with its time.

use std::time::Duration;

use serde_json::{Value, json};

use super::{DemoError, NAMESPACE, POD, show};
use crate::{
    progress::Progress,
    target::Kubectl,
    wait::{Deadline, poll},
};

/// The texts that the container must find in its volume.
const FACTS: [&str; 4] = [
    "prod-harbor",
    "https://harbor.example.com",
    "connectors-approval-demo",
    "/connector/.connector/.complete",
];

pub(super) struct Story<'a> {
    pub(super) kubectl: &'a Kubectl,
    pub(super) workload_image: &'a str,
    pub(super) progress: &'a Progress,
}

impl Story<'_> {
    /// The pod may not use the connector yet, and is held.
    pub(super) fn wait_at_the_door(&self) -> Result<(), DemoError> {
        println!(
            "\nA pod that mounts the connector. Nobody has approved its change, so it waits at its mount."
        );
        self.step("the pod waits", || {
            self.start("deploy", "deployer")?;
            self.wait_for_event("deploy", "AccessPending")
        })?;
        self.show_events("deploy")?;
        show(
            self.kubectl,
            &format!("get pods,accessrequests --namespace {NAMESPACE}"),
        )?;
        self.expect_access("deployer", "deploy", false)
    }

    /// The approval comes, and the pod runs.
    pub(super) fn let_in(&self) -> Result<(), DemoError> {
        println!("\nSomebody approves the change.");
        let words = format!(
            r#"patch changerequest chg-42 --namespace {NAMESPACE} --subresource=status --type=merge --patch {{"status":{{"state":"approved"}}}}"#
        );
        println!("$ kubectl {words}");
        let output = self.step(
            "from the approval to the running container's output",
            || {
                self.kubectl.run(&words)?;
                self.output("deploy")
            },
        )?;
        show(
            self.kubectl,
            &format!("logs deploy --namespace {NAMESPACE}"),
        )?;
        for fact in FACTS {
            if !output.contains(fact) {
                return Err(DemoError::Facts { fact, output });
            }
        }
        self.show_events("deploy")?;
        show(
            self.kubectl,
            &format!("get accessrequests,roles,rolebindings --namespace {NAMESPACE}"),
        )?;
        self.expect_access("deployer", "deploy", true)
    }

    /// The same approval is of no use to an account that the policy does not name.
    pub(super) fn stranger(&self) -> Result<(), DemoError> {
        println!(
            "\nA pod of another service account, with the same label and the change approved, is not let in."
        );
        self.step("the stranger waits", || {
            self.start("stranger", "default")?;
            self.wait_for_event("stranger", "AccessPending")
        })?;
        self.show_events("stranger")?;
        self.expect_access("default", "stranger", false)?;
        self.expect_access("default", "deploy", false)?;
        self.expect_access("deployer", "stranger", false)?;
        self.step("the stranger goes", || self.delete("stranger"))
    }

    /// The pod ends, and its access with it.
    pub(super) fn end(&self) -> Result<(), DemoError> {
        println!("\nThe pod ends.");
        self.step("the pod ends and its access is taken back", || {
            self.delete("deploy")?;
            wait("the request to be revoked", || {
                let words = format!("get accessrequests --namespace {NAMESPACE} -o json");
                let list = self.json(&words)?;
                let ends: Vec<&Value> = list["items"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|request| request["spec"]["context"]["objectRef"]["name"] == "deploy")
                    // Written once nothing is left of the grant.
                    .map(|request| &request["status"]["revokedAt"])
                    .collect();
                match *ends {
                    [end] if end.is_string() => Ok(()),
                    _ => Err(format!("{ends:?}")),
                }
            })
        })?;
        show(
            self.kubectl,
            &format!("get accessrequests,roles,rolebindings --namespace {NAMESPACE}"),
        )?;
        self.expect_access("deployer", "deploy", false)
    }

    fn start(&self, name: &str, account: &str) -> Result<(), DemoError> {
        let pod = POD
            .replace("NAME", name)
            .replace("ACCOUNT", account)
            .replace("WORKLOAD_IMAGE", self.workload_image);
        self.kubectl.apply(&pod)?;
        Ok(())
    }

    fn delete(&self, pod: &str) -> Result<(), DemoError> {
        let words = format!("delete pod {pod} --namespace {NAMESPACE} --timeout=60s");
        self.kubectl.run(&words)?;
        Ok(())
    }

    fn output(&self, pod: &str) -> Result<String, DemoError> {
        wait("the container's output", || {
            let words = format!("logs {pod} --namespace {NAMESPACE}");
            // There is no log as long as there is no container.
            let output = self.kubectl.run(&words).unwrap_or_default();
            let complete = FACTS.iter().all(|fact| output.contains(fact));
            if complete { Ok(output) } else { Err(output) }
        })
    }

    fn wait_for_event(&self, pod: &str, reason: &str) -> Result<(), DemoError> {
        wait(&format!("event {reason} about pod {pod}"), || {
            let words = format!("get events.events.k8s.io --namespace {NAMESPACE} -o json");
            let list = self.json(&words)?;
            let events = list["items"].as_array().into_iter().flatten();
            let found = events
                .into_iter()
                .any(|event| event["regarding"]["name"] == pod && event["reason"] == reason);
            if found {
                Ok(())
            } else {
                Err("no such event yet".to_owned())
            }
        })
    }

    fn show_events(&self, pod: &str) -> Result<(), DemoError> {
        let words = format!("events --for pod/{pod} --namespace {NAMESPACE}");
        Ok(show(self.kubectl, &words)?)
    }

    /// Asks the API server, and fails when it says something else. It looks into caches that lag behind
    /// by some milliseconds, so that a moment is given to it.
    fn expect_access(&self, account: &str, pod: &str, wanted: bool) -> Result<(), DemoError> {
        let who = format!("pod {pod} as system:serviceaccount:{NAMESPACE}:{account}");
        let review = review(account, pod);
        let answer = poll(
            "the API server's answer",
            Deadline::after(Duration::from_secs(5)),
            || {
                let answer = self
                    .kubectl
                    .run_with_input("create -o json -f -", &review.to_string())
                    .map_err(|error| error.to_string())?;
                let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
                if answer["status"]["allowed"] == wanted {
                    Ok(())
                } else {
                    Err(answer["status"].to_string())
                }
            },
        );
        if answer.is_err() {
            return Err(DemoError::Access {
                who,
                allowed: !wanted,
            });
        }
        let verdict = if wanted { "yes" } else { "no" };
        println!("SubjectAccessReview: may {who} use connector prod-harbor? {verdict}");
        Ok(())
    }

    /// The JSON output of kubectl; a failure is an observation that may pass.
    fn json(&self, words: &str) -> Result<Value, String> {
        let text = self.kubectl.run(words).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    fn step<T>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T, DemoError>,
    ) -> Result<T, DemoError> {
        self.progress.step(name, work)
    }
}

fn wait<T>(what: &str, probe: impl FnMut() -> Result<T, String>) -> Result<T, DemoError> {
    Ok(poll(what, Deadline::after(Duration::from_mins(2)), probe)?)
}

/// May a service account do everything with the connector on behalf of a pod?
fn review(account: &str, pod: &str) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:serviceaccount:{NAMESPACE}:{account}"),
            // A review knows no groups of its own.
            "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{NAMESPACE}"), "system:authenticated"],
            "resourceAttributes": {
                "namespace": NAMESPACE,
                "verb": "*",
                "group": "connectors.alauda.io",
                "resource": "connectors",
                "subresource": format!("apis/v1/pod/{NAMESPACE}/{pod}"),
                "name": "prod-harbor",
            },
        },
    })
}
