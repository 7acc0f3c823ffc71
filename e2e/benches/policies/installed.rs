//! The account of the policy-controller with the rights, the admission policies and the flow control of the chart.
//! The controller itself is a process beside the API server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::{Deadline, install, poll};
use serde_json::{Value, json};

use crate::SERVICE;
use crate::support::place::Place;
use crate::world::PROJECT;

/// How long the API server may take until it enforces a new admission policy.
const PATIENCE: Duration = Duration::from_mins(1);
/// The objects of the chart that say what the account may do.
const KINDS: [&str; 10] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "Role",
    "RoleBinding",
    "ServiceAccount",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];
/// A part of the refusal of a Role that is none of the controller's.
const REFUSAL: &str = "a standing permission";

/// Applies the objects, and gives the kubeconfig of the account.
pub(crate) fn account(place: &Place) -> PathBuf {
    let values = json!({
        "image": {"registry": "none.example.com"},
        "policies": {"namespaceSelectorKeys": [PROJECT]},
    });
    let rendered = install::render(&values, &[]).unwrap();
    let is_wanted = |it: &Value| KINDS.iter().any(|kind| it["kind"] == *kind);
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": install::NAMESPACE},
    });
    let rendered = rendered.into_iter().filter(is_wanted);
    let objects: Vec<_> = std::iter::once(namespace).chain(rendered).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    place.kubectl.apply(&list.to_string()).unwrap();
    enforced(place);
    let words = format!(
        "create token {SERVICE} --namespace {} --duration 4h",
        install::NAMESPACE
    );
    let token = place.kubectl.run(&words).unwrap();
    kubeconfig(place, token.trim(), &place.file("account"))
}

/// Waits until the admission policies count for the account.
fn enforced(place: &Place) {
    let words = format!(
        "--namespace {} create role none --verb=get --resource=connectors.connectors.alauda.io --dry-run=server \
         --as=system:serviceaccount:{}:{SERVICE}",
        place.namespace,
        install::NAMESPACE
    );
    let is_refused = || match place.kubectl.run(&words) {
        Err(error) if error.to_string().contains(REFUSAL) => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(_) => Err("a Role of any name is accepted".to_owned()),
    };
    poll(
        "the admission policies",
        Deadline::after(PATIENCE),
        is_refused,
    )
    .unwrap();
}

fn kubeconfig(place: &Place, token: &str, file: &Path) -> PathBuf {
    let text = fs::read_to_string(&place.kubeconfig).unwrap();
    let mut config: Value = serde_yaml::from_str(&text).unwrap();
    for user in config["users"].as_array_mut().unwrap() {
        user["user"] = json!({"token": token});
    }
    fs::write(file, config.to_string()).unwrap();
    file.to_path_buf()
}
