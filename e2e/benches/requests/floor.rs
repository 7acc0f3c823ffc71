//! The floor of a grant: a Role and its `RoleBinding` by bare calls, by an account with the rights of the
//! request-controller. All else that a grant needs comes on top.

use std::time::{Duration, Instant};

use e2e::api::kinds::{CLUSTER_ROLE_BINDING, CONFIG_MAP, ROLE, ROLE_BINDING, SERVICE_ACCOUNT};
use e2e::{ApiClient, ApiUser};
use serde_json::{Value, json};

use crate::rounds::CONTROLLER_ROLE;
use crate::support::place::Place;

/// The account, and the binding of its rights.
const ACCOUNT: &str = "bench-floor";
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
        let (role, binding) = (self.role(&name), self.binding(&name));
        let began = Instant::now();
        self.account.create(&role).unwrap();
        self.account.create(&binding).unwrap();
        let took = began.elapsed();
        for kind in [ROLE_BINDING, ROLE, CONFIG_MAP] {
            self.api.delete(kind, &name).unwrap();
        }
        took
    }

    /// Takes the rights of the account away.
    pub(crate) fn end(&self) {
        self.api.delete(CLUSTER_ROLE_BINDING, ACCOUNT).unwrap();
        self.api.delete(SERVICE_ACCOUNT, ACCOUNT).unwrap();
    }

    fn role(&self, name: &str) -> Value {
        let pod = format!("connectors/apis/v1/pod/{}/{name}", self.namespace);
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": name},
            "rules": [{
                "apiGroups": ["connectors.alauda.io"], "resources": [pod],
                "resourceNames": ["floor"], "verbs": ["*"],
            }],
        })
    }

    fn binding(&self, name: &str) -> Value {
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": self.namespace, "name": "default"}],
        })
    }
}
