//! Random worlds, changed in random order, with restarts and foreign changes in between. The permissions of
//! Roles and RoleBindings equal the result of a simple reference function, which uses none of the product's
//! code.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::{Cluster, Process, TOOLS};

/// How long a change may take, restarts among them: a lease has to run out.
const SETTLED: Duration = Duration::from_secs(45);

/// Subject, verb, connector.
type Access = BTreeSet<(String, &'static str, &'static str)>;

/// Which connectors a policy is about.
#[derive(Clone, Copy, Debug)]
enum Selects {
    All,
    AAndB,
    Oci,
    AIfOci,
}

/// The subject of a policy.
#[derive(Clone, Copy, Debug)]
enum Subject {
    User,
    OwnBuilder,
    BuilderOfOne,
    DefaultOfTwo,
    OwnWithRole,
    WithRoleInTeam,
    WithRoleOutsideTeam,
    GroupsOfTeam,
}

#[derive(Clone, Debug)]
struct Policy {
    selects: Selects,
    subjects: Vec<Subject>,
    verb: &'static str,
}

/// The existing objects. Every label is set or not: connectors' `class: oci`, accounts' `role: ci`,
/// namespaces' `team: x`.
#[derive(Clone, Debug, Default)]
struct World {
    connectors: BTreeMap<&'static str, bool>,
    namespaces: BTreeMap<&'static str, bool>,
    accounts: BTreeMap<(&'static str, &'static str), bool>,
    policies: BTreeMap<&'static str, Policy>,
}

/// A change. It creates a missing object, and changes or deletes an existing one.
#[derive(Clone, Debug)]
enum Change {
    Connector(&'static str, Option<bool>),
    Namespace(&'static str, Option<bool>),
    Account(&'static str, &'static str, Option<bool>),
    Policy(&'static str, Option<Policy>),
    /// The process dies; another one comes.
    Restart,
    /// Another client changes or deletes the first object of the kind.
    Hands {
        deletes: bool,
        plural: &'static str,
    },
}

impl World {
    /// The obviously right function.
    fn access(&self) -> Access {
        let mut access = Access::new();
        for policy in self.policies.values() {
            for (connector, is_oci) in &self.connectors {
                let is_selected = match policy.selects {
                    Selects::All => true,
                    Selects::AAndB => ["a", "b"].contains(connector),
                    Selects::Oci => *is_oci,
                    Selects::AIfOci => *is_oci && *connector == "a",
                };
                if is_selected {
                    let who = policy.subjects.iter().flat_map(|it| self.people(*it));
                    access.extend(who.map(|who| (who, policy.verb, *connector)));
                }
            }
        }
        access
    }

    fn people(&self, subject: Subject) -> Vec<String> {
        let account = |namespace: &str, name: &str| format!("ServiceAccount {namespace}/{name}");
        let with_role = |is_in: &dyn Fn(&str) -> bool| -> Vec<String> {
            let accounts = self.accounts.iter();
            let found =
                accounts.filter(|((namespace, _), has_role)| **has_role && is_in(namespace));
            found
                .map(|((namespace, name), _)| account(namespace, name))
                .collect()
        };
        match subject {
            Subject::User => vec!["User ada".to_owned()],
            Subject::OwnBuilder => vec![account(TOOLS, "builder")],
            Subject::BuilderOfOne => vec![account("one", "builder")],
            Subject::DefaultOfTwo => vec![account("two", "default")],
            Subject::OwnWithRole => with_role(&|it| it == TOOLS),
            Subject::WithRoleInTeam => with_role(&|it| self.namespaces.get(it) == Some(&true)),
            Subject::WithRoleOutsideTeam => {
                // The namespaces that every test has are in no team.
                with_role(&|it| it == TOOLS || self.namespaces.get(it) == Some(&false))
            }
            Subject::GroupsOfTeam => {
                let namespaces = self
                    .namespaces
                    .iter()
                    .filter(|(_, is_in_team)| **is_in_team);
                let groups =
                    namespaces.map(|(name, _)| format!("Group system:serviceaccounts:{name}"));
                groups.collect()
            }
        }
    }
}

impl Policy {
    fn spec(&self) -> Value {
        let oci = json!({"matchLabels": {"class": "oci"}});
        let connector = match self.selects {
            Selects::All => json!({}),
            Selects::AAndB => json!({"names": ["a", "b"]}),
            Selects::Oci => json!({"selector": oci}),
            Selects::AIfOci => json!({"names": ["a"], "selector": oci}),
        };
        let subjects: Vec<Value> = self.subjects.iter().map(|it| it.json()).collect();
        json!({"connector": connector, "defaultPermission": {
            "roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": [self.verb],
            }]},
            "bindingTemplate": {"subjects": subjects},
        }})
    }
}

impl Subject {
    fn json(self) -> Value {
        let role = json!({"matchLabels": {"role": "ci"}});
        let team = json!({"matchLabels": {"team": "x"}});
        let tools_or_no_team = json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [TOOLS, "one", "two"]},
            {"key": "team", "operator": "NotIn", "values": ["x"]},
        ]});
        match self {
            Self::User => json!({"kind": "User", "name": "ada"}),
            Self::OwnBuilder => json!({"kind": "ServiceAccount", "name": "builder"}),
            Self::BuilderOfOne => {
                json!({"kind": "ServiceAccount", "name": "builder", "namespace": "one"})
            }
            Self::DefaultOfTwo => {
                json!({"kind": "ServiceAccount", "name": "system:serviceaccount:two:default"})
            }
            Self::OwnWithRole => json!({"kind": "ServiceAccount", "nameSelector": role}),
            Self::WithRoleInTeam => {
                json!({"kind": "ServiceAccount", "nameSelector": role, "namespaceSelector": team})
            }
            Self::WithRoleOutsideTeam => {
                json!({"kind": "ServiceAccount", "nameSelector": role, "namespaceSelector": tools_or_no_team})
            }
            Self::GroupsOfTeam => {
                json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": team})
            }
        }
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    use Subject::{
        BuilderOfOne, DefaultOfTwo, GroupsOfTeam, OwnBuilder, OwnWithRole, User, WithRoleInTeam,
        WithRoleOutsideTeam,
    };
    let selects = [Selects::All, Selects::AAndB, Selects::Oci, Selects::AIfOci];
    let subjects = vec![
        User,
        OwnBuilder,
        BuilderOfOne,
        DefaultOfTwo,
        OwnWithRole,
        WithRoleInTeam,
        WithRoleOutsideTeam,
        GroupsOfTeam,
    ];
    let subjects = prop::collection::vec(prop::sample::select(subjects), 1..4);
    let verb = prop::sample::select(vec!["read", "write"]);
    (prop::sample::select(selects.to_vec()), subjects, verb).prop_map(
        |(selects, subjects, verb)| Policy {
            selects,
            subjects,
            verb,
        },
    )
}

fn changes() -> impl Strategy<Value = Change> {
    let label = || prop::option::weighted(0.7, any::<bool>());
    let name = |names: &[&'static str]| prop::sample::select(names.to_vec());
    prop_oneof![
        3 => (name(&["a", "b", "c"]), label()).prop_map(|(name, it)| Change::Connector(name, it)),
        2 => (name(&["one", "two"]), label()).prop_map(|(name, it)| Change::Namespace(name, it)),
        3 => (name(&[TOOLS, "one", "two"]), name(&["builder", "default"]), label())
            .prop_map(|(namespace, name, it)| Change::Account(namespace, name, it)),
        4 => (name(&["p", "q"]), prop::option::weighted(0.8, policies()))
            .prop_map(|(name, it)| Change::Policy(name, it)),
        1 => Just(Change::Restart),
        1 => (any::<bool>(), name(&["roles", "rolebindings"]))
            .prop_map(|(deletes, plural)| Change::Hands { deletes, plural }),
    ]
}

/// A cluster with the objects of a world.
struct Stage {
    cluster: Cluster,
    world: World,
    process: Process,
    started: usize,
}

impl Stage {
    fn new() -> Self {
        let cluster = Cluster::new();
        cluster.server.collect_garbage(None);
        cluster.server.delete("connectors", TOOLS, "harbor");
        Self {
            process: cluster.start("process-0"),
            cluster,
            world: World::default(),
            started: 0,
        }
    }

    fn change(&mut self, change: &Change) {
        let server = &self.cluster.server;
        match change {
            Change::Connector(name, label) => {
                let labels = labels("class", "oci", *label);
                let is_there = self.world.connectors.contains_key(name);
                set(&mut self.world.connectors, name, *label);
                let make = || self.cluster.connector(name, labels.clone());
                self.put(
                    "connectors",
                    TOOLS,
                    name,
                    is_there,
                    label.map(|_| &labels),
                    make,
                );
            }
            Change::Namespace(name, label) => {
                let mut labels = labels("team", "x", *label);
                // As the API server has it, also after an update.
                labels["kubernetes.io/metadata.name"] = json!(name);
                let is_there = self.world.namespaces.contains_key(name);
                if !is_there && server.get("namespaces", "", name).is_some() {
                    return; // it is being deleted, as long as nothing removes its content
                }
                set(&mut self.world.namespaces, name, *label);
                let make = || self.cluster.namespace(name, labels.clone());
                self.put(
                    "namespaces",
                    "",
                    name,
                    is_there,
                    label.map(|_| &labels),
                    make,
                );
                if label.is_none() {
                    let gone = |it: &&(&'static str, &'static str)| it.0 == *name;
                    let gone: Vec<_> = self.world.accounts.keys().filter(gone).copied().collect();
                    for (namespace, account) in gone {
                        self.world.accounts.remove(&(namespace, account));
                        server.delete("serviceaccounts", namespace, account);
                    }
                }
            }
            Change::Account(namespace, name, label) => {
                if *namespace != TOOLS && !self.world.namespaces.contains_key(namespace) {
                    return;
                }
                let labels = labels("role", "ci", *label);
                let key = (*namespace, *name);
                let is_there = self.world.accounts.contains_key(&key);
                set(&mut self.world.accounts, &key, *label);
                let make = || self.cluster.account(namespace, name, labels.clone());
                self.put(
                    "serviceaccounts",
                    namespace,
                    name,
                    is_there,
                    label.map(|_| &labels),
                    make,
                );
            }
            Change::Policy(name, policy) => self.policy(name, policy.as_ref()),
            Change::Restart => {
                self.cluster.kill(&self.process);
                self.started += 1;
                self.process = self.cluster.start(&format!("process-{}", self.started));
            }
            Change::Hands { deletes, plural } => {
                let objects = server.list(plural);
                let first = objects
                    .iter()
                    .find(|it| it["metadata"]["namespace"] == TOOLS);
                let Some(name) = first.and_then(|it| it["metadata"]["name"].as_str()) else {
                    return;
                };
                if *deletes {
                    server.delete(plural, TOOLS, name);
                } else {
                    let field = if *plural == "roles" {
                        "rules"
                    } else {
                        "subjects"
                    };
                    server.change(plural, TOOLS, name, |it| it[field] = json!([]));
                }
            }
        }
    }

    fn policy(&mut self, name: &'static str, policy: Option<&Policy>) {
        let is_there = self.world.policies.contains_key(name);
        match policy {
            None if is_there => {
                self.cluster.server.delete("accesspolicies", TOOLS, name);
                self.world.policies.remove(name);
            }
            None => {}
            Some(policy) => {
                let spec = policy.spec();
                if is_there {
                    self.cluster
                        .server
                        .change("accesspolicies", TOOLS, name, |it| it["spec"] = spec);
                } else {
                    self.cluster.put(json!({
                        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
                        "metadata": {"name": name, "namespace": TOOLS}, "spec": spec,
                    }));
                }
                self.world.policies.insert(name, policy.clone());
            }
        }
    }

    /// An object with labels exists with them afterwards, and one without labels does not.
    fn put(
        &self,
        plural: &str,
        namespace: &str,
        name: &str,
        is_there: bool,
        labels: Option<&Value>,
        make: impl Fn(),
    ) {
        let server = &self.cluster.server;
        match (is_there, labels) {
            (true, Some(labels)) => server.change(plural, namespace, name, |it| {
                it["metadata"]["labels"] = labels.clone();
            }),
            (true, None) => server.delete(plural, namespace, name),
            (false, Some(_)) => make(),
            (false, None) => {}
        }
    }

    /// All permissions that our objects in all namespaces give, as the API server would derive them:
    /// namespace, subject, verb, group and resource, connector.
    fn access(&self) -> BTreeSet<[String; 5]> {
        let mut access = BTreeSet::new();
        let all = |plural: &str| -> Vec<Value> {
            let objects = self.cluster.server.list(plural).into_iter();
            let is_ours = |it: &Value| {
                it["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "connectors-approval"
            };
            objects.filter(is_ours).collect()
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let roles = all("roles");
        for binding in all("rolebindings") {
            assert_eq!(binding["roleRef"]["kind"], "Role");
            let place = &binding["metadata"]["namespace"];
            let role = roles.iter().find(|it| {
                it["metadata"]["namespace"] == *place
                    && it["metadata"]["name"] == binding["roleRef"]["name"]
            });
            for subject in list(&binding["subjects"]) {
                let name = match subject["namespace"].as_str() {
                    Some(namespace) => format!("{namespace}/{}", text(&subject["name"])),
                    None => text(&subject["name"]),
                };
                let who = format!("{} {name}", text(&subject["kind"]));
                for rule in role.iter().flat_map(|it| list(&it["rules"])) {
                    let what = format!("{} {}", rule["apiGroups"], rule["resources"]);
                    for verb in list(&rule["verbs"]) {
                        for connector in list(&rule["resourceNames"]) {
                            let verb = text(&verb);
                            access.insert([
                                text(place),
                                who.clone(),
                                verb,
                                what.clone(),
                                text(&connector),
                            ]);
                        }
                    }
                }
            }
        }
        access
    }
}

fn labels(key: &str, value: &str, label: Option<bool>) -> Value {
    match label {
        Some(true) => json!({key: value}),
        Some(false) | None => json!({}),
    }
}

fn set<K: Ord + Clone>(map: &mut BTreeMap<K, bool>, key: &K, label: Option<bool>) {
    match label {
        Some(label) => map.insert(key.clone(), label),
        None => map.remove(key),
    };
}

fn live(changes: &[(Change, bool)]) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut stage = Stage::new();
        for (number, (change, is_looked_at)) in changes.iter().enumerate() {
            stage.change(change);
            // Others follow before anything could happen, or in the middle of it.
            if !is_looked_at {
                sleep(Duration::from_millis(30)).await;
                continue;
            }
            sleep(SETTLED).await;
            let expected = stage.world.access().into_iter();
            let expected: BTreeSet<_> = expected
                .map(|(who, verb, connector)| {
                    let what = r#"["connectors.alauda.io"] ["connectors/apis"]"#;
                    [TOOLS, &who, verb, what, connector].map(str::to_owned)
                })
                .collect();
            prop_assert_eq!(stage.access(), expected, "after change {}", number);
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn what_is_held_is_what_an_obviously_right_function_says(
        mut changes in prop::collection::vec((changes(), any::<bool>()), 4..24)
    ) {
        if let Some((_, is_looked_at)) = changes.last_mut() {
            *is_looked_at = true;
        }
        live(&changes)?;
    }
}
