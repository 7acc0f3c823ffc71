//! A table on the cluster: its objects, its changes, and the reviews that tell who holds what.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use e2e::{Deadline, Kubectl, harness::PATIENCE, poll};
use futures::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::table::{Change, Held, Labels, Row, Table};
use crate::support::Gate;

const OUR_GROUP: &str = "connectors.alauda.io";
/// Reviews at the same time.
const REVIEWS: usize = 16;
/// How often, and how long in between, everything is asked again that was as it should be.
const AGAIN: (usize, Duration) = (4, Duration::from_millis(250));

/// A table that lives.
pub(super) struct World<'a> {
    kubectl: &'a Kubectl,
    table: &'a Table,
    /// What the names of the table are here.
    names: BTreeMap<String, String>,
    /// The namespace of each policy.
    own: Vec<String>,
    runtime: Runtime,
    client: Client,
    moment: usize,
}

/// One review, and what it must say.
struct Question {
    review: SubjectAccessReview,
    is_held: bool,
    text: String,
}

impl<'a> World<'a> {
    pub(super) fn make(gate: &'a Gate, table: &'a Table) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let kubectl = gate.scene().kubectl();
        let id = format!(
            "{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(connect(kubectl));
        let name = |name: &String| (name.clone(), format!("{name}-{}-{id}", table.file));
        let mut names: BTreeMap<_, _> = table.namespaces.keys().map(name).collect();
        names.insert("id".to_owned(), format!("{}-{id}", table.file));
        let own = (0..table.policies.len()).map(|row| format!("own-{}-{id}-{row}", table.file));
        let world = Self {
            kubectl,
            table,
            names,
            own: own.collect(),
            runtime,
            client,
            moment: 0,
        };
        world.apply(&world.surroundings());
        world.apply(&world.policies());
        world
    }

    fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let list = list.to_string();
        self.kubectl
            .run_with_input("apply --server-side -f -", &list)
            .unwrap();
    }

    fn surroundings(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        let place = |objects: &mut Vec<Value>,
                     name: &str,
                     labels: &Labels,
                     accounts: &BTreeMap<String, Labels>| {
            objects.push(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": self.labels(labels)},
            }));
            for (account, labels) in accounts {
                objects.push(json!({
                    "apiVersion": "v1", "kind": "ServiceAccount",
                    "metadata": {"name": account, "namespace": name, "labels": self.labels(labels)},
                }));
            }
        };
        for (name, it) in &self.table.namespaces {
            place(&mut objects, &self.names[name], &it.labels, &it.accounts);
        }
        for own in &self.own {
            place(&mut objects, own, &Labels::new(), &self.table.accounts);
            for (connector, labels) in &self.table.connectors {
                let mut labels = self.labels(labels);
                let class = labels.remove("class").unwrap_or_else(|| "e2e".to_owned());
                objects.push(json!({
                    "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
                    "metadata": {"name": connector, "namespace": own, "labels": labels},
                    "spec": {"connectorClassName": class, "address": "https://example.com"},
                }));
            }
        }
        objects
    }

    fn labels(&self, labels: &Labels) -> Labels {
        let label = |(key, value): (&String, &String)| (key.clone(), self.put_names(value, ""));
        labels.iter().map(label).collect()
    }

    fn policies(&self) -> Vec<Value> {
        let rows = self.table.policies.iter().zip(&self.own);
        rows.map(|(row, own)| {
            let mut policy = if let Some(file) = &row.example {
                    let file = e2e::repository().join("e2e/examples/source").join(file);
                    let text = std::fs::read_to_string(file).unwrap().replace("devops-ns1", own);
                    serde_yaml::from_str(&text).unwrap()
                } else {
                    let spec = self.put_names(&row.spec.to_string(), own);
                    let spec: Value = serde_json::from_str(&spec).unwrap();
                    json!({"apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy", "spec": spec})
            };
            policy["metadata"] = json!({"name": "policy", "namespace": own});
            policy
        })
        .collect()
    }

    fn put_names(&self, text: &str, own: &str) -> String {
        let names = self.names.iter();
        let text = names.fold(text.to_owned(), |text, (name, here)| {
            text.replace(&format!("${name}"), here)
        });
        text.replace("$own", own)
    }

    /// Makes the next change; false when there is none.
    pub(super) fn step(&mut self) -> bool {
        let Some(step) = self.table.steps.get(self.moment) else {
            return false;
        };
        self.moment += 1;
        for change in step {
            let (text, input) = match change {
                Change::Run(words) => (words.clone(), false),
                Change::Apply(object) => (object.to_string(), true),
            };
            let make = |own: &str| {
                let text = self.put_names(&text, own);
                let made = if input {
                    self.kubectl
                        .run_with_input("apply --server-side -f -", &text)
                } else {
                    self.kubectl.run(&text)
                };
                made.unwrap();
            };
            if text.contains("$own") {
                thread::scope(|scope| {
                    let of_each = self.own.iter().map(|own| scope.spawn(|| make(own)));
                    let running: Vec<_> = of_each.collect();
                    for it in running {
                        it.join().unwrap();
                    }
                });
            } else {
                make("");
            }
        }
        true
    }

    /// Waits until everybody holds what he should and nobody anything else, and sees that it stays so.
    pub(super) fn settle(&self) {
        if self.moment == 0 {
            self.wait_until_judged();
        }
        let mut open: Vec<usize> = (0..self.own.len()).collect();
        let what = format!("{}, moment {}", self.table.file, self.moment);
        let settled = poll(&what, Deadline::after(PATIENCE), || {
            let wrong: Vec<(usize, String)> =
                open.iter().flat_map(|row| self.wrong(*row)).collect();
            open = wrong.iter().map(|(row, _)| *row).collect();
            open.dedup();
            let lines: Vec<String> = wrong.into_iter().map(|(_, line)| line).collect();
            if lines.is_empty() {
                Ok(())
            } else {
                Err(lines.join("\n"))
            }
        });
        settled.unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..AGAIN.0 {
            thread::sleep(AGAIN.1);
            let wrong: Vec<_> = (0..self.own.len())
                .flat_map(|row| self.wrong(row))
                .collect();
            assert!(wrong.is_empty(), "{what}: it did not stay so: {wrong:?}");
        }
    }

    /// Before a policy was looked at nobody holds anything, which would be taken for an answer.
    fn wait_until_judged(&self) {
        for own in &self.own {
            let words = format!(
                "--namespace {own} wait accesspolicy/policy --for=jsonpath={{.status.observedGeneration}} --timeout=60s"
            );
            self.kubectl.run(&words).unwrap();
        }
    }

    fn wrong(&self, row: usize) -> Vec<(usize, String)> {
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let ask = |Question {
                       review,
                       is_held,
                       text,
                   }| {
            let api = api.clone();
            async move {
                let answer = api.create(&PostParams::default(), &review).await.unwrap();
                let allowed = answer.status.is_some_and(|status| status.allowed);
                let said = if allowed { "may" } else { "may not" };
                (allowed != is_held).then(|| format!("{text}: {said}"))
            }
        };
        let asked = stream::iter(self.questions(row))
            .map(ask)
            .buffer_unordered(REVIEWS);
        let wrong: Vec<Option<String>> = self.runtime.block_on(asked.collect());
        wrong
            .into_iter()
            .flatten()
            .map(|line| (row, line))
            .collect()
    }

    /// Everything that can be asked about a policy's connectors.
    fn questions(&self, row: usize) -> Vec<Question> {
        let (Row { name, holds, .. }, own) = (&self.table.policies[row], &self.own[row]);
        let held = holds.get(self.moment).or(holds.last()).unwrap();
        let mut questions = Vec::new();
        for who in self.table.everybody() {
            let (user, groups) = self.identity(&who, own);
            for connector in self.table.all_connectors() {
                for permission in ["apis", "proxy"] {
                    for verb in &self.table.verbs {
                        let is_it = |it: &Held| {
                            it.who == who
                                && it.connectors.contains(&connector)
                                && it.permission == permission
                                && it.verb.as_ref().is_none_or(|it| it == verb)
                        };
                        let attributes = ResourceAttributes {
                            group: Some(OUR_GROUP.to_owned()),
                            resource: Some("connectors".to_owned()),
                            subresource: Some(permission.to_owned()),
                            name: Some(connector.clone()),
                            namespace: Some(own.clone()),
                            verb: Some(verb.clone()),
                            ..ResourceAttributes::default()
                        };
                        questions.push(Question {
                            review: SubjectAccessReview {
                                spec: SubjectAccessReviewSpec {
                                    user: user.clone(),
                                    groups: Some(groups.clone()),
                                    resource_attributes: Some(attributes),
                                    ..SubjectAccessReviewSpec::default()
                                },
                                ..SubjectAccessReview::default()
                            },
                            is_held: held.iter().any(is_it),
                            text: format!("{name}: {who} {connector} {permission} {verb}"),
                        });
                    }
                }
            }
        }
        questions
    }

    /// Whom the API server takes somebody of the table for.
    fn identity(&self, who: &str, own: &str) -> (Option<String>, Vec<String>) {
        let everybody = "system:authenticated".to_owned();
        match who.split_once('/') {
            Some((namespace, account)) => {
                let namespace = if namespace == "own" {
                    own
                } else {
                    &self.names[namespace]
                };
                let user = format!("system:serviceaccount:{namespace}:{account}");
                let of = format!("system:serviceaccounts:{namespace}");
                (
                    Some(user),
                    vec!["system:serviceaccounts".to_owned(), of, everybody],
                )
            }
            None => match who.strip_prefix("member-of-") {
                Some(group) => (
                    Some("somebody".to_owned()),
                    vec![group.to_owned(), everybody],
                ),
                None => (Some(who.to_owned()), vec![everybody]),
            },
        }
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        let others = self.table.namespaces.keys().map(|name| &self.names[name]);
        let all: Vec<&str> = self.own.iter().chain(others).map(String::as_str).collect();
        let words = format!(
            "delete namespaces --wait=false --ignore-not-found {}",
            all.join(" ")
        );
        if let Err(error) = self.kubectl.run(&words) {
            eprintln!("namespaces are left: {error}");
        }
    }
}

async fn connect(kubectl: &Kubectl) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubectl.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}
