//! The floor: the writes that a policy takes, by bare calls of the controller's own account. All else comes on top.

use std::time::{Duration, Instant};

use connectors_api::AccessPolicy;
use futures::{StreamExt, stream};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::edits::{Editing, PAUSE};
use crate::support::load::Times;
use crate::world::{ACCOUNT, EDITOR, POLICIES, TEAMS, World, policy};

/// Callers at a time.
const CALLERS: usize = 24;
/// Policies whose `RoleBinding` is changed.
const EDITS: usize = 25;
const RBAC: &str = "rbac.authorization.k8s.io";
const LABEL: &str = "app.kubernetes.io/managed-by";

pub(crate) struct Floor<'a> {
    pub(crate) world: &'a World,
    pub(crate) admin: &'a Client,
    /// The client of the controller's account.
    pub(crate) account: &'a Client,
}

impl Floor<'_> {
    /// A Role, a `RoleBinding` and a status for each policy.
    pub(crate) async fn write(&self) -> Duration {
        let policies = self.world.policies().list(&ListParams::default()).await;
        let policies = policies.unwrap().items;
        assert_eq!(policies.len(), POLICIES);
        let began = Instant::now();
        let write = |policy| self.write_one(policy);
        stream::iter(policies)
            .for_each_concurrent(CALLERS, write)
            .await;
        began.elapsed()
    }

    async fn write_one(&self, policy: AccessPolicy) {
        let namespace = policy.namespace().unwrap();
        let post = PostParams::default();
        let roles = Api::<Role>::namespaced(self.account.clone(), &namespace);
        roles.create(&post, &role(&policy)).await.unwrap();
        let bindings = Api::<RoleBinding>::namespaced(self.account.clone(), &namespace);
        let binding = self.binding(&policy, ACCOUNT);
        bindings.create(&post, &binding).await.unwrap();
        let policies = Api::<AccessPolicy>::namespaced(self.account.clone(), &namespace);
        let connectors = connectors(&policy).into_iter();
        let connectors: Vec<_> = connectors.map(|it| json!({"name": it})).collect();
        let status = json!({"status": {
            "observedGeneration": policy.metadata.generation, "matchedConnectorCount": connectors.len(),
            "matchedConnectors": connectors, "grantedSubjects": binding.subjects.map(|it| it.len()),
        }});
        let (params, status) = (PatchParams::default(), Patch::Merge(status));
        let name = policy.name_any();
        let patched = policies.patch_status(&name, &params, &status).await;
        patched.unwrap();
    }

    /// Policies are edited as in the rows of the controller, and the `RoleBinding` is changed by one bare call.
    pub(crate) async fn edit(&self, pause: Duration) -> Times {
        let editing = Editing {
            world: self.world,
            client: self.admin,
        };
        let mut times = Times::default();
        for number in 0..EDITS {
            let policies = self.world.of_team::<AccessPolicy>(number);
            let found = policies.get(&policy(number)).await.unwrap();
            for (account, is_allowed) in [(EDITOR, true), (ACCOUNT, false)] {
                sleep(pause).await;
                let began = editing.edit(number, account).await;
                self.bind(&found, account).await;
                editing.until(number, EDITOR, is_allowed).await;
                times.add(began.elapsed());
            }
        }
        times
    }

    async fn bind(&self, policy: &AccessPolicy, account: &str) {
        let binding = self.binding(policy, account);
        let namespace = policy.namespace().unwrap();
        let bindings = Api::<RoleBinding>::namespaced(self.account.clone(), &namespace);
        let name = binding.name_any();
        let params = PatchParams::apply("policy-controller").force();
        let patch = Patch::Apply(&binding);
        let patched = bindings.patch(&name, &params, &patch).await;
        patched.unwrap();
    }

    /// Takes all objects away, for the controller finds them otherwise.
    pub(crate) async fn remove(&self) {
        let ours = ListParams::default().labels(&format!("{LABEL}=connectors-approval"));
        let now = DeleteParams::default();
        for team in 0..TEAMS {
            let bindings = self.world.of_team::<RoleBinding>(team);
            bindings.delete_collection(&now, &ours).await.unwrap();
            let roles = self.world.of_team::<Role>(team);
            roles.delete_collection(&now, &ours).await.unwrap();
        }
        // The API server's own caches have calmed down then.
        sleep(PAUSE).await;
    }

    fn binding(&self, policy: &AccessPolicy, account: &str) -> RoleBinding {
        let namespace = policy.namespace().unwrap();
        let groups = self.world.namespaces_of(number(policy));
        let groups = groups.map(|it| {
            json!({"kind": "Group", "apiGroup": RBAC, "name": format!("system:serviceaccounts:{it}")})
        });
        let own = json!({"kind": "ServiceAccount", "namespace": namespace, "name": account});
        let subjects: Vec<Value> = std::iter::once(own).chain(groups).collect();
        let metadata = metadata(policy);
        let binding = json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": metadata["name"]}, "subjects": subjects,
        });
        serde_json::from_value(binding).unwrap()
    }
}

fn connectors(policy: &AccessPolicy) -> Vec<String> {
    World::connectors_of(number(policy)).collect()
}

fn role(policy: &AccessPolicy) -> Role {
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata(policy),
        "rules": [{
            "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"],
            "resourceNames": connectors(policy), "verbs": ["*"],
        }],
    });
    serde_json::from_value(role).unwrap()
}

/// As the controller writes it.
fn metadata(policy: &AccessPolicy) -> Value {
    let uid = policy.uid().unwrap();
    json!({
        "name": format!("policy-{uid}"),
        "labels": {
            LABEL: "connectors-approval", "connectors.alauda.io/accessPolicy": policy.name_any(),
            "connectors.alauda.io/accessPolicyUid": uid,
        },
        "ownerReferences": [{
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
            "name": policy.name_any(), "uid": uid,
        }],
    })
}

fn number(policy: &AccessPolicy) -> usize {
    let name = policy.name_any();
    name.rsplit('-').next().unwrap().parse().unwrap()
}
