//! The acts of the story, each with its time.

use std::{process::Command, time::Duration};

use serde_json::{Value, json};

use super::{DemoError, NAMESPACE, PIPELINE_RUN, WAITING_EVENT, show};
use crate::{
    command::{CommandError, last_lines},
    images::programs_dir,
    progress::Progress,
    target::Kubectl,
    wait::{Deadline, poll},
};

/// The run.
const RUN: &str = "release";
/// The pod of the task that deploys.
const DEPLOY_POD: &str = "release-deploy-pod";
/// The approval of the run.
const APPROVAL: &str = "release-wait";
/// The approver.
const APPROVER: &str = "alice";

/// The texts that the container must find in its volume.
const FACTS: [&str; 4] = [
    "prod-harbor",
    "https://harbor.example.com",
    r#"{"registry": "harbor.example.com"}"#,
    "/connector/registry.json",
];

/// The reason why a pod that its `TaskRun` does not name is none of the run.
const FORGED: &str = "PodNotCurrent";

pub(super) struct Story<'a> {
    pub(super) kubectl: &'a Kubectl,
    pub(super) pod_spec: &'a Value,
    pub(super) progress: &'a Progress,
}

impl Story<'_> {
    /// The pod may not use the connector yet, and is held.
    pub(super) fn wait_at_the_door(&self) -> Result<(), DemoError> {
        println!(
            "\nA pipeline run begins (a program of the demo plays Tekton's controllers). Its pod mounts the connector. The run is not \
             approved, so the pod waits at its mount."
        );
        self.step("the pod waits", || {
            // Its kind may not be served yet.
            wait("the pipeline run", || {
                let applied = self.kubectl.apply(PIPELINE_RUN);
                applied.map_err(|error| crate::report(&error))
            })?;
            self.wait_for_event(DEPLOY_POD, "AccessPending", WAITING_EVENT)
        })?;
        show(
            self.kubectl,
            &format!("get pods,accessrequests --namespace {NAMESPACE}"),
        )?;
        println!("\nWhy does it wait, and who can help?");
        let wanted = format!("waits for its approvers {APPROVER}");
        self.plugin(&format!("explain pod/{DEPLOY_POD}"), &wanted)?;
        self.expect_access(DEPLOY_POD, false)
    }

    /// The approval comes, and the pod runs.
    pub(super) fn let_in(&self) -> Result<(), DemoError> {
        println!("\nAlice approves the run.");
        let words =
            format!("approve approvaltask/{APPROVAL} --as {APPROVER} --message looks-good --yes");
        let output = self.step(
            "from the approval to the running container's output",
            || {
                self.answer(&words, "written: ApprovalTask")?;
                self.output(DEPLOY_POD)
            },
        )?;
        println!(
            "\nThe pod reads its files: the one that the connector's class makes, and facts about the connector. Its own token is \
             beside them, and is not printed."
        );
        show(
            self.kubectl,
            &format!("logs {DEPLOY_POD} --namespace {NAMESPACE}"),
        )?;
        for fact in FACTS {
            if !output.contains(fact) {
                return Err(DemoError::Facts { fact, output });
            }
        }
        self.plugin("grants", DEPLOY_POD)?;
        self.expect_access(DEPLOY_POD, true)
    }

    /// The approval of a run is of no use to a pod that only claims to belong to it.
    pub(super) fn forger(&self) -> Result<(), DemoError> {
        println!(
            "\nA forged pod: created by hand as the same service account, with the labels and the owner reference of the \
             approved run. It is not let in."
        );
        self.step("the forged pod waits", || {
            self.forge("forged")?;
            self.wait_for_event("forged", "AccessPending", "connector ")
        })?;
        self.plugin("explain pod/forged", FORGED)?;
        self.expect_access("forged", false)?;
        self.step("the forged pod goes", || self.delete("forged"))
    }

    /// The run is cancelled. Its pod ends, and its access with it. Tekton makes a pod again that is deleted alone.
    pub(super) fn end(&self) -> Result<(), DemoError> {
        println!("\nThe run is cancelled, and Tekton ends its pod.");
        self.step("the pod ends and its access is taken back", || {
            let status = r#"{"spec":{"status":"Cancelled"}}"#;
            for words in [
                format!("patch pipelinerun {RUN} --type merge --patch {status}"),
                format!("wait pod/{DEPLOY_POD} --for=delete --timeout=120s"),
            ] {
                self.kubectl
                    .run(&format!("{words} --namespace {NAMESPACE}"))?;
            }
            wait("the request to be revoked", || {
                let words = format!("get accessrequests --namespace {NAMESPACE} -o json");
                let list = self.json(&words)?;
                let ends: Vec<&Value> = list["items"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|request| request["spec"]["context"]["objectRef"]["name"] == DEPLOY_POD)
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
            &format!("get accessrequests --namespace {NAMESPACE}"),
        )?;
        let grants = self.plugin("grants", "")?;
        if grants.contains(DEPLOY_POD) {
            return Err(DemoError::PluginSays {
                words: "grants".to_owned(),
                wanted: "no grant".to_owned(),
                output: grants,
            });
        }
        self.expect_access(DEPLOY_POD, false)
    }

    /// Shows what the kubectl plugin says, once a text is in it. A wait is an answer of it too.
    fn plugin(&self, words: &str, wanted: &str) -> Result<String, DemoError> {
        let line = format!("kubectl connectors {words} --namespace {NAMESPACE}");
        println!("$ {line}");
        let said = wait(&line, || {
            let said = self.plugin_says(words);
            match said.map_err(|error| crate::report(&error))? {
                (said, errors) if said.contains(wanted) && errors.is_empty() => Ok(said),
                (said, errors) => Err(last_lines(&format!("{said}{errors}"), 20)),
            }
        })?;
        println!("{}", said.trim_end());
        Ok(said)
    }

    /// An approver answers. The plugin writes once.
    fn answer(&self, words: &str, wanted: &str) -> Result<(), DemoError> {
        println!("$ kubectl connectors {words} --namespace {NAMESPACE}");
        let (said, errors) = self.plugin_says(words)?;
        println!("{}", said.trim_end());
        if said.contains(wanted) {
            return Ok(());
        }
        Err(DemoError::PluginSays {
            words: words.to_owned(),
            wanted: wanted.to_owned(),
            output: format!("{said}{errors}"),
        })
    }

    /// The output of the kubectl plugin, and its errors.
    fn plugin_says(&self, words: &str) -> Result<(String, String), CommandError> {
        let output = Command::new(programs_dir().join("kubectl-connectors"))
            .arg("--kubeconfig")
            .arg(self.kubectl.kubeconfig())
            .args(["--namespace", NAMESPACE])
            .args(words.split(' '))
            .output()
            .map_err(|source| CommandError::Start {
                line: format!("kubectl connectors {words}"),
                source,
            })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((text(&output.stdout), text(&output.stderr)))
    }

    /// A pod with the labels and the owner of the run's own pod.
    fn forge(&self, name: &str) -> Result<(), DemoError> {
        let words = format!("get pod {DEPLOY_POD} --namespace {NAMESPACE} -o json");
        let own = self.kubectl.run(&words)?;
        let own: Value = serde_json::from_str(&own).unwrap_or_default();
        let own = &own["metadata"];
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": NAMESPACE, "labels": own["labels"],
                "ownerReferences": own["ownerReferences"],
            },
            "spec": self.pod_spec,
        });
        self.kubectl.apply(&pod.to_string())?;
        Ok(())
    }

    fn delete(&self, pod: &str) -> Result<(), DemoError> {
        let words = format!("delete pod {pod} --namespace {NAMESPACE} --timeout=120s");
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

    fn wait_for_event(&self, pod: &str, reason: &str, note: &str) -> Result<(), DemoError> {
        wait(&format!("event {reason} about pod {pod}: {note}"), || {
            let words = format!("get events.events.k8s.io --namespace {NAMESPACE} -o json");
            let list = self.json(&words)?;
            let events = list["items"].as_array().into_iter().flatten();
            let found = events.into_iter().any(|event| {
                let said = event["note"].as_str().unwrap_or_default();
                event["regarding"]["name"] == pod
                    && event["reason"] == reason
                    && said.starts_with(note)
            });
            if found {
                Ok(())
            } else {
                Err("no such event yet".to_owned())
            }
        })
    }

    /// Asks the API server, and fails when it says something else. It looks into caches that lag behind
    /// by some milliseconds, and by more on a busy machine.
    fn expect_access(&self, pod: &str, wanted: bool) -> Result<(), DemoError> {
        let who = format!("pod {pod} as system:serviceaccount:{NAMESPACE}:deployer");
        let review = review(pod);
        let answer = poll(
            "the API server's answer",
            Deadline::after(Duration::from_secs(30)),
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

/// May the service account do everything with the connector on behalf of a pod?
fn review(pod: &str) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:serviceaccount:{NAMESPACE}:deployer"),
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
