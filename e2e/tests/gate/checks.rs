//! What the status of a policy says of its checks, on the real API server.

use std::time::Duration;

use e2e::{Deadline, poll};
use serde_json::{Value, json};

use crate::support::{Approval, Gate, condition, parsed, policy};

/// A change of rights is looked at after a minute, so that busy clusters cost little.
const SLOW: Duration = Duration::from_mins(3);

const CHECKS: &str = "ChecksValid";

fn about(name: &str, api_version: &str, kind: &str) -> Value {
    let mut policy = policy(name, Approval::SignOff);
    policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["objectRef"] =
        json!({"apiVersion": api_version, "kind": kind});
    policy
}

/// The policy when its checks are as the reason says.
fn until(gate: &Gate, name: &str, reason: &str) -> Value {
    let words = format!("get accesspolicy {name} -o json");
    let found = poll(
        &format!("{reason} of policy {name}"),
        Deadline::after(SLOW),
        || {
            let policy = parsed(
                &gate
                    .scene()
                    .run(&words)
                    .map_err(|error| error.to_string())?,
            );
            match condition(&policy, CHECKS) {
                Some((_, found)) if found == reason => Ok(policy),
                found => Err(format!("{found:?}")),
            }
        },
    );
    found.unwrap()
}

fn message(policy: &Value) -> &str {
    let mut conditions = policy["status"]["conditions"].as_array().unwrap().iter();
    let checks = conditions.find(|it| it["type"] == CHECKS).unwrap();
    checks["message"].as_str().unwrap()
}

#[test]
fn a_policy_says_which_kinds_are_missing_or_may_not_be_read() {
    let gate = Gate::new("checks-kinds");
    gate.create("", &about("missing", "none.example.com/v1", "Nothing"))
        .unwrap();
    gate.create("", &about("unreadable", "batch/v1", "Job"))
        .unwrap();
    gate.create("", &policy("readable", Approval::SignOff))
        .unwrap();
    let missing = until(&gate, "missing", "KindMissing");
    assert_eq!(condition(&missing, "Ready"), Some(("False", "KindMissing")));
    let unreadable = until(&gate, "unreadable", "KindNotReadable");
    assert!(
        message(&unreadable).contains("add {apiGroup: batch, resources: [jobs]} to checks.kinds"),
        "{}",
        message(&unreadable)
    );
    let readable = until(&gate, "readable", "ChecksValid");
    assert_eq!(condition(&readable, "Ready"), Some(("True", "Ready")));
}

#[test]
fn whoever_asks_and_may_write_his_own_approval_is_named_until_he_may_not() {
    let gate = Gate::new("checks-forgeable");
    gate.create("", &policy("signed-off", Approval::SignOff))
        .unwrap();
    until(&gate, "signed-off", "ChecksValid");
    let own = gate.namespace();
    let rbac = "rbac.authorization.k8s.io";
    let rules =
        json!([{"apiGroups": ["e2e.example.com"], "resources": ["signoffs"], "verbs": ["create"]}]);
    for object in [
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": {"name": "signers"}, "rules": rules}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": {"name": "signers"},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "signers"},
            "subjects": [{"kind": "Group", "apiGroup": rbac, "name": format!("system:serviceaccounts:{own}")}],
        }),
    ] {
        gate.scene().apply(&object.to_string()).unwrap();
    }
    let forgeable = until(&gate, "signed-off", "ChecksForgeable");
    let who = format!(
        "system:serviceaccounts:{own} may create signoffs.e2e.example.com in namespace {own}"
    );
    assert!(
        message(&forgeable).starts_with(&who),
        "{}",
        message(&forgeable)
    );
    let ready = Some(("True", "ChecksForgeable"));
    assert_eq!(condition(&forgeable, "Ready"), ready);
    let shown = gate.scene().run("get apol signed-off").unwrap();
    assert!(shown.contains("ChecksForgeable"), "{shown}");
    gate.wait_for_event("AccessPolicy", "signed-off", "ChecksQuestionable");
    gate.scene().run("delete rolebinding signers").unwrap();
    until(&gate, "signed-off", "ChecksValid");
}
