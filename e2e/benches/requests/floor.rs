//! The floor of a grant: a Role and its `RoleBinding` by bare calls, by an account with the rights of the
//! request-controller. All else that a grant needs comes on top.

use std::time::{Duration, Instant};

use e2e::api::kinds::{CLUSTER_ROLE_BINDING, CONFIG_MAP, ROLE, ROLE_BINDING, SERVICE_ACCOUNT};
use e2e::{ApiClient, ApiUser};
use serde_json::{Value, json};

use crate::crowd::in_turns;
use crate::rounds::CONTROLLER_ROLE;
use crate::support::place::Place;

/// The account, and the binding of its rights.
const ACCOUNT: &str = "bench-floor";
/// The label of what is written.
const MARK: &str = "bench-floor";
/// Callers at a time: as many as the request-controller has workers.
const CALLERS: usize = 24;
const RBAC: &str = "rbac.authorization.k8s.io";

pub(crate) struct Floor {
    namespace: String,
    api: ApiClient,
    account: ApiClient,
}

impl Floor {
    /// The account in the namespace of the measurement.
    pub(crate) fn of(place: &Place) -> Self {
        let api = ApiClient::connect(&place.kubeconfig, &place.namespace).unwrap();
        let namespace = place.namespace.clone();
        let subject = json!({"kind": "ServiceAccount", "namespace": namespace, "name": ACCOUNT});
        for object in [
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}),
            json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": CONTROLLER_ROLE},
                "subjects": [subject],
            }),
        ] {
            api.apply(&object).unwrap();
        }
        let user = ApiUser::service_account(&namespace, ACCOUNT);
        Self {
            account: api.acting_as(&user),
            namespace,
            api,
        }
    }

    /// Writes both after a write of another, as a grant follows an approval: of that, the API server's caches of
    /// roles and bindings do not know yet.
    pub(crate) fn play(&self, number: usize) -> Duration {
        let name = format!("floor-{number}");
        let approval = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        self.api.create(&approval).unwrap();
        let began = Instant::now();
        self.write(&self.account, &name);
        let took = began.elapsed();
        for kind in [ROLE_BINDING, ROLE, CONFIG_MAP] {
            self.api.delete(kind, &name).unwrap();
        }
        took
    }

    /// The same for many at once: so many in each of these namespaces.
    pub(crate) fn play_many(&self, namespaces: &[ApiClient], each: usize) -> Duration {
        let user = ApiUser::service_account(&self.namespace, ACCOUNT);
        let accounts: Vec<_> = namespaces.iter().map(|it| it.acting_as(&user)).collect();
        let began = Instant::now();
        in_turns(CALLERS, accounts.len() * each, |number| {
            let name = format!("floor-{}", number / accounts.len());
            self.write(&accounts[number % accounts.len()], &name);
        });
        let took = began.elapsed();
        for api in namespaces {
            for kind in [ROLE_BINDING, ROLE] {
                api.delete_selected_now(kind, &format!("{MARK}=yes"))
                    .unwrap();
            }
        }
        took
    }

    fn write(&self, account: &ApiClient, name: &str) {
        account.create(&self.role(name)).unwrap();
        account.create(&self.binding(name)).unwrap();
    }

    /// Takes the rights of the account away.
    pub(crate) fn end(&self) {
        self.api.delete(CLUSTER_ROLE_BINDING, ACCOUNT).unwrap();
        self.api.delete(SERVICE_ACCOUNT, ACCOUNT).unwrap();
    }

    fn role(&self, name: &str) -> Value {
        let pod = format!("connectors/apis/v1/pod/{}/{name}", self.namespace);
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": name, "labels": {MARK: "yes"}},
            "rules": [{
                "apiGroups": ["connectors.alauda.io"], "resources": [pod],
                "resourceNames": ["floor"], "verbs": ["*"],
            }],
        })
    }

    fn binding(&self, name: &str) -> Value {
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
            "metadata": {"name": name, "labels": {MARK: "yes"}},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": self.namespace, "name": "default"}],
        })
    }
}
