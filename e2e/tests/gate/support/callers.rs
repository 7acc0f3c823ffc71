//! Services in front of a tool: accounts that may ask the evaluation service about the namespace.

use e2e::{api::kinds::CONFIG_MAP, install::NAMESPACE};
use serde_json::json;

use super::{
    Gate,
    rights::{self, RightHolder, RightRule},
};

/// An account that may ask about the connectors of the namespace.
pub(crate) fn create_caller(gate: &Gate, name: &str) {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name},
    });
    gate.scene().apply(&account).unwrap();
    let evaluations = RightRule {
        group: "connectors.alauda.io",
        resource: "evaluations",
        name: None,
        verbs: &["create"],
    };
    rights::give(gate, name, &[evaluations], RightHolder::Account(name));
}

/// The roots that the evaluation service is trusted by, in PEM.
pub(crate) fn evaluation_roots(gate: &Gate) -> String {
    let installation = gate.api().in_namespace(NAMESPACE);
    let roots = installation.get(CONFIG_MAP, "connectors-ca").unwrap();
    let roots = roots.expect("the roots of the installation");
    roots["data"]["ca.crt"].as_str().unwrap().to_owned()
}
