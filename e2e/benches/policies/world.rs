//! The world of the policies: namespaces in projects, teams with connectors and policies, and the computed
//! results.

use std::collections::BTreeSet;

use connectors_api::{AccessPolicy, Connector};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Namespaces with policies and connectors.
pub(crate) const TEAMS: usize = 10;
const NAMESPACES: usize = 200;
pub(crate) const CONNECTORS: usize = 500;
pub(crate) const POLICIES: usize = 1_000;
/// By the label of a project a policy selects namespaces, by that of a tier connectors.
const PROJECTS: usize = 10;
const TIERS: usize = 10;
/// Requests to the API server at one time.
const AT_ONCE: usize = 24;
/// The account that a policy names beside the namespaces that it selects.
pub(crate) const ACCOUNT: &str = "builder";
/// And the one that it names after an edit.
pub(crate) const EDITOR: &str = "editor";
/// The label by which policies select namespaces.
pub(crate) const PROJECT: &str = "project";

/// How large it is, in words.
pub(crate) fn size() -> String {
    format!("{POLICIES} policies × {CONNECTORS} connectors × {NAMESPACES} namespaces")
}

/// The world in a cluster, under names that begin with those of a run.
pub(crate) struct World {
    client: Client,
    prefix: String,
}

impl World {
    pub(crate) fn new(client: Client, prefix: &str) -> Self {
        Self {
            client,
            prefix: prefix.to_owned(),
        }
    }

    /// Makes all of it.
    pub(crate) async fn make(&self) {
        let namespaces = (0..NAMESPACES).map(|number| {
            let labels = json!({PROJECT: self.project(number % PROJECTS)});
            json!({"metadata": {"name": self.namespace(number), "labels": labels}})
        });
        let all = Api::<Namespace>::all(self.client.clone());
        each(namespaces, |object| create(all.clone(), object)).await;
        let connectors = (0..CONNECTORS).map(|number| {
            let labels = json!({"tier": tier(number / TEAMS % TIERS)});
            let metadata = json!({"name": connector(number), "labels": labels});
            (
                number,
                json!({"metadata": metadata, "spec": {"connectorClassName": "harbor"}}),
            )
        });
        each(connectors, |(number, object)| {
            create(self.of_team::<Connector>(number), object)
        })
        .await;
        let policies = (0..POLICIES).map(|number| {
            let spec = self.spec(number, ACCOUNT);
            (
                number,
                json!({"metadata": {"name": policy(number)}, "spec": spec}),
            )
        });
        each(policies, |(number, object)| {
            create(self.of_team::<AccessPolicy>(number), object)
        })
        .await;
    }

    /// Policies of all teams.
    pub(crate) fn policies(&self) -> Api<AccessPolicy> {
        Api::all(self.client.clone())
    }

    /// The objects in the namespace of the team of this number.
    pub(crate) fn of_team<K>(&self, number: usize) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.team(number))
    }

    /// The namespace with the policy or the connector of this number.
    pub(crate) fn team(&self, number: usize) -> String {
        self.namespace(number % TEAMS)
    }

    /// The spec of a policy that names that account.
    pub(crate) fn spec(&self, number: usize, account: &str) -> Value {
        let project = self.project(number / TEAMS % PROJECTS);
        json!({
            "connector": {"selector": {"matchLabels": {"tier": tier(number / TEAMS / PROJECTS)}}},
            "defaultPermission": {
                "roleTemplate": {"rules": [{
                    "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["*"],
                }]},
                "bindingTemplate": {"subjects": [
                    {"kind": "ServiceAccount", "name": account},
                    {"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": {
                        "matchLabels": {PROJECT: project},
                    }},
                ]},
            },
        })
    }

    /// The connectors that the policy of this number selects.
    pub(crate) fn connectors_of(number: usize) -> impl Iterator<Item = String> {
        let is_selected = move |it: &usize| {
            it % TEAMS == number % TEAMS && it / TEAMS % TIERS == number / TEAMS / PROJECTS
        };
        (0..CONNECTORS).filter(is_selected).map(connector)
    }

    /// The namespaces that it selects.
    pub(crate) fn namespaces_of(&self, number: usize) -> impl Iterator<Item = String> {
        let project = number / TEAMS % PROJECTS;
        let selected = (0..NAMESPACES).filter(move |it| it % PROJECTS == project);
        selected.map(|it| self.namespace(it))
    }

    /// Fails unless exactly the objects of the policies exist.
    pub(crate) async fn prove(&self) {
        let all = |number| {
            let groups = self.namespaces_of(number);
            let groups = groups.map(|it| format!("system:serviceaccounts:{it}"));
            let subjects = groups.chain([ACCOUNT.to_owned()]);
            (
                self.team(number),
                Self::connectors_of(number).collect(),
                subjects.collect(),
            )
        };
        let wanted: BTreeSet<Held> = (0..POLICIES).map(all).collect();
        // Several policies may come to the same, never two of ours.
        assert_eq!(wanted.len(), POLICIES);
        let mut found = BTreeSet::new();
        let mut pairs = 0;
        for team in 0..TEAMS {
            let roles = self
                .of_team::<Role>(team)
                .list(&ListParams::default())
                .await;
            let bindings = self
                .of_team::<RoleBinding>(team)
                .list(&ListParams::default())
                .await;
            let bindings = bindings.unwrap().items;
            for role in roles.unwrap().items {
                let name = role.name_any();
                let binding = bindings.iter().find(|it| it.name_any() == name).unwrap();
                assert_eq!(binding.role_ref.name, name);
                let held = role.rules.unwrap().into_iter();
                let connectors = held.flat_map(|it| it.resource_names.unwrap()).collect();
                let subjects = binding.subjects.iter().flatten();
                let subjects = subjects.map(|it| it.name.clone()).collect();
                found.insert((self.team(team), connectors, subjects));
                pairs += 1;
            }
            assert_eq!(
                pairs,
                (team + 1) * POLICIES / TEAMS,
                "in {}",
                self.team(team)
            );
        }
        assert!(found == wanted, "the roles and bindings are others");
    }

    /// Takes the namespaces away, without waiting for it.
    pub(crate) async fn remove(&self) {
        let all = Api::<Namespace>::all(self.client.clone());
        let names = (0..NAMESPACES).map(|number| self.namespace(number));
        each(names, |name| {
            let all = all.clone();
            async move {
                all.delete(&name, &DeleteParams::default()).await.unwrap();
            }
        })
        .await;
    }

    fn namespace(&self, number: usize) -> String {
        format!("{}-{number:03}", self.prefix)
    }

    fn project(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }
}

/// The result of a policy: its namespace, the connectors, the names of its subjects.
type Held = (String, BTreeSet<String>, BTreeSet<String>);

fn connector(number: usize) -> String {
    format!("connector-{number}")
}

pub(crate) fn policy(number: usize) -> String {
    format!("policy-{number}")
}

fn tier(number: usize) -> String {
    format!("tier-{number}")
}

async fn each<T, F: Future<Output = ()>>(all: impl Iterator<Item = T>, run: impl Fn(T) -> F) {
    stream::iter(all).for_each_concurrent(AT_ONCE, run).await;
}

async fn create<K>(api: Api<K>, object: Value)
where
    K: Resource<DynamicType = ()> + DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
{
    let mut object = object;
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}
