//! The status of a policy about its checks, on the real API server.

use std::time::Duration;

use e2e::api::kinds::{ACCESS_POLICY, ROLE_BINDING};
use serde_json::{Value, json};

use crate::support::{
    Approval, Gate, condition, policy,
    rights::{self, RightHolder, RightRule},
};

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
    let what = format!("{reason} of policy {name}");
    let is_so = |policy: &Value| condition(policy, CHECKS).is_some_and(|(_, it)| it == reason);
    let found = gate
        .api()
        .wait_for(&what, (ACCESS_POLICY, name), SLOW, is_so);
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
    gate.create(&about("missing", "none.example.com/v1", "Nothing"))
        .unwrap();
    gate.create(&about("unreadable", "batch/v1", "Job"))
        .unwrap();
    gate.create(&policy("readable", Approval::SignOff)).unwrap();
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
    let gate = Gate::patient("checks-forgeable");
    gate.create(&policy("signed-off", Approval::SignOff))
        .unwrap();
    until(&gate, "signed-off", "ChecksValid");
    let own = gate.namespace();
    let sign = RightRule {
        group: "e2e.example.com",
        resource: "signoffs",
        name: None,
        verbs: &["create"],
    };
    let accounts = format!("system:serviceaccounts:{own}");
    rights::give(&gate, "signers", &[sign], RightHolder::Group(&accounts));
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
    // The output for users.
    let shown = gate.scene().run("get apol signed-off").unwrap();
    assert!(shown.contains("ChecksForgeable"), "{shown}");
    gate.wait_for_event("AccessPolicy", "signed-off", "ChecksQuestionable");
    gate.delete(ROLE_BINDING, "signers");
    until(&gate, "signed-off", "ChecksValid");
}
