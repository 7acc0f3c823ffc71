//! A table on the cluster: its objects, its changes, and the reviews that show the permissions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use e2e::{
    ApiClient, ApiError, ApiUser, Deadline,
    api::kinds::{ACCESS_POLICY, NAMESPACE, ROLE, ROLE_BINDING},
    harness::PATIENCE,
    poll,
};
use serde_json::{Value, json};

use super::table::{Change, Held, Labels, Row, Table, Target};
use crate::support::Gate;

const OUR_GROUP: &str = "connectors.alauda.io";
/// How often, and how long in between, nothing must be written before it is believed that all is done.
const QUIET: (usize, Duration) = (4, Duration::from_millis(250));

/// A table that lives.
pub(super) struct World<'a> {
    api: &'a ApiClient,
    table: &'a Table,
    /// The names on the cluster for the names of the table.
    names: BTreeMap<String, String>,
    /// The namespace of each policy.
    own: Vec<String>,
    moment: usize,
}

/// One review, and its expected answer.
struct Question {
    user: ApiUser,
    attributes: Value,
    is_held: bool,
    text: String,
}

impl<'a> World<'a> {
    pub(super) fn make(gate: &'a Gate, table: &'a Table) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!(
            "{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let name = |name: &String| (name.clone(), format!("{name}-{}-{id}", table.file));
        let mut names: BTreeMap<_, _> = table.namespaces.keys().map(name).collect();
        names.insert("id".to_owned(), format!("{}-{id}", table.file));
        let own = (0..table.policies.len()).map(|row| format!("own-{}-{id}-{row}", table.file));
        let world = Self {
            api: gate.api(),
            table,
            names,
            own: own.collect(),
            moment: 0,
        };
        let (namespaces, others) = world.surroundings();
        for objects in [namespaces, others, world.policies()] {
            world.api.apply_all(&objects).unwrap();
        }
        world
    }

    /// The namespaces, and their objects beside policies.
    fn surroundings(&self) -> (Vec<Value>, Vec<Value>) {
        let (mut namespaces, mut objects) = (Vec::new(), Vec::new());
        let mut place = |objects: &mut Vec<Value>,
                         name: &str,
                         labels: &Labels,
                         accounts: &BTreeMap<String, Labels>| {
            namespaces.push(json!({
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
        (namespaces, objects)
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
            if change.is_of_each() {
                let world: &Self = self;
                thread::scope(|scope| {
                    let make = |own| scope.spawn(move || world.make_change(change, own));
                    let owns = world.own.iter().map(String::as_str);
                    let running: Vec<_> = owns.map(make).collect();
                    for it in running {
                        it.join().unwrap().unwrap();
                    }
                });
            } else {
                self.make_change(change, "").unwrap();
            }
        }
        true
    }

    fn make_change(&self, change: &Change, own: &str) -> Result<(), ApiError> {
        let object = |object: &Value| -> Value {
            serde_json::from_str(&self.put_names(&object.to_string(), own)).unwrap()
        };
        let place = |target: &Target| {
            let names = [&target.namespace, &target.name];
            let [namespace, name] =
                names.map(|it| self.put_names(it.as_deref().unwrap_or_default(), own));
            (self.api.in_namespace(&namespace), name)
        };
        match change {
            Change::Apply { apply } => self.api.apply(&object(apply)).map(drop),
            Change::Patch { patch, fields } => {
                let (api, name) = place(patch);
                api.patch(patch.kind, &name, &object(fields)).map(drop)
            }
            Change::Delete { delete } => match place(delete) {
                (api, name) if delete.name.is_some() => api.delete(delete.kind, &name),
                (api, _) => api.delete_all(delete.kind),
            },
        }
    }

    /// Waits until all subjects have exactly the expected permissions, and checks that they keep them.
    pub(super) fn settle(&self) {
        if self.moment == 0 {
            self.wait_until_judged();
        }
        let mut open: Vec<usize> = (0..self.own.len()).collect();
        let what = format!("{}, moment {}", self.table.file, self.moment);
        let settled = poll(&what, Deadline::after(PATIENCE), || {
            let wrong = self.wrong(open.iter().copied());
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
        self.assert_stays(&what);
    }

    /// Checks that all permissions stay. A permission changes with a Role or a binding alone, so all reviews
    /// are repeated after each write of one, and when none was written for a while.
    fn assert_stays(&self, what: &str) {
        let deadline = Deadline::after(PATIENCE);
        let (mut before, mut quiet) = (self.grants(), 0);
        while quiet < QUIET.0 {
            assert!(!deadline.passed(), "{what}: it is written all the time");
            thread::sleep(QUIET.1);
            let now = self.grants();
            let is_written = now != before;
            (before, quiet) = (now, if is_written { 0 } else { quiet + 1 });
            if is_written || quiet == QUIET.0 {
                let wrong = self.wrong(0..self.own.len());
                assert!(wrong.is_empty(), "{what}: it did not stay so: {wrong:?}");
            }
        }
    }

    /// The Roles and bindings in the policies' namespaces, by their versions.
    fn grants(&self) -> BTreeSet<String> {
        let kinds = [ROLE, ROLE_BINDING];
        self.api.versions(&kinds, &self.own).unwrap()
    }

    /// Before a policy was looked at no subject has a permission, which would pass for a result.
    fn wait_until_judged(&self) {
        for own in &self.own {
            let what = format!("a look at the policy of {own}");
            let is_judged = |policy: &Value| policy["status"]["observedGeneration"].is_u64();
            let api = self.api.in_namespace(own);
            api.wait_for(&what, (ACCESS_POLICY, "policy"), PATIENCE, is_judged)
                .unwrap();
        }
    }

    /// The answers about these policies that are not as they should be.
    fn wrong(&self, rows: impl IntoIterator<Item = usize>) -> Vec<(usize, String)> {
        let questions: Vec<(usize, Question)> = rows
            .into_iter()
            .flat_map(|row| self.questions(row).into_iter().map(move |it| (row, it)))
            .collect();
        let asked = questions.iter().map(|(_, it)| (&it.user, &it.attributes));
        let answers = self.api.allows_each(asked).unwrap();
        let answered = questions.iter().zip(answers);
        answered
            .filter(|((_, question), is_allowed)| question.is_held != *is_allowed)
            .map(|((row, question), is_allowed)| {
                let said = if is_allowed { "may" } else { "may not" };
                (*row, format!("{}: {said}", question.text))
            })
            .collect()
    }

    /// Everything that can be asked about a policy's connectors.
    fn questions(&self, row: usize) -> Vec<Question> {
        let (Row { name, holds, .. }, own) = (&self.table.policies[row], &self.own[row]);
        let held = holds.get(self.moment).or(holds.last()).unwrap();
        let mut questions = Vec::new();
        for who in self.table.everybody() {
            let user = self.identity(&who, own);
            for connector in self.table.all_connectors() {
                for permission in ["apis", "proxy"] {
                    for verb in &self.table.verbs {
                        let is_it = |it: &Held| {
                            it.who == who
                                && it.connectors.contains(&connector)
                                && it.permission == permission
                                && it.verb.as_ref().is_none_or(|it| it == verb)
                        };
                        questions.push(Question {
                            user: user.clone(),
                            attributes: json!({
                                "namespace": own, "verb": verb, "group": OUR_GROUP,
                                "resource": "connectors", "subresource": permission, "name": connector,
                            }),
                            is_held: held.iter().any(is_it),
                            text: format!("{name}: {who} {connector} {permission} {verb}"),
                        });
                    }
                }
            }
        }
        questions
    }

    /// The user of the API server for a name of the table.
    fn identity(&self, who: &str, own: &str) -> ApiUser {
        match who.split_once('/') {
            Some(("own", account)) => ApiUser::service_account(own, account),
            Some((namespace, account)) => ApiUser::service_account(&self.names[namespace], account),
            None => match who.strip_prefix("member-of-") {
                Some(group) => ApiUser::named("somebody").in_group(group),
                None => ApiUser::named(who),
            },
        }
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        let others = self.table.namespaces.keys().map(|name| &self.names[name]);
        for namespace in self.own.iter().chain(others) {
            match self.api.delete(NAMESPACE, namespace) {
                Err(error) if !error.is_not_found() => eprintln!("{namespace} is left: {error}"),
                _ => {}
            }
        }
    }
}
