//! The common parts of scenarios: pod `deploy`, its request `for-deploy`, its approval `yes`, policy `p`.

use std::time::Duration;

use request_controller::shards::ShardCount;
use serde_json::{Value, json};

use super::{
    Scenario,
    Step::{self, Do, Rest, Until},
};
use crate::stage::{APPS, CONNECTOR, PolicyForm, Stage, TOOLS};

/// Longer than any scenario takes.
pub(super) const WEEK: Duration = Duration::from_hours(168);

pub(super) const USUAL: PolicyForm<'static> = PolicyForm {
    config_map: false,
    any: false,
    latch: None,
    max_duration: None,
    pending_timeout: None,
    label: None,
    kind: None,
    second: None,
    edit: None,
};

/// The time limit of an immediate reaction.
pub(super) const PROMPT: Duration = Duration::from_secs(10);
/// Waiting requests are asked about once a minute, and a request that makes way stays for one.
const ASKED_ABOUT: Duration = Duration::from_mins(2);

pub(super) const fn scenario(
    name: &'static str,
    before: fn(&Stage),
    steps: &'static [Step],
    ends: fn(&Stage) -> bool,
) -> Scenario {
    Scenario {
        name,
        before,
        steps,
        ends,
        retention: WEEK,
        race: false,
        timed: false,
        usual: PROMPT,
        remembered: false,
        learned: false,
        replicas: 1,
        shards: [ShardCount::ONE; 2],
    }
}

pub(super) const fn timed(
    name: &'static str,
    before: fn(&Stage),
    steps: &'static [Step],
    ends: fn(&Stage) -> bool,
) -> Scenario {
    Scenario {
        timed: true,
        ..scenario(name, before, steps, ends)
    }
}

/// A scenario in which the controller detects something by asking again.
pub(super) const fn asked_about(
    name: &'static str,
    before: fn(&Stage),
    steps: &'static [Step],
    ends: fn(&Stage) -> bool,
) -> Scenario {
    Scenario {
        usual: ASKED_ABOUT,
        ..scenario(name, before, steps, ends)
    }
}

pub(super) const fn race(
    name: &'static str,
    before: fn(&Stage),
    steps: &'static [Step],
    ends: fn(&Stage) -> bool,
) -> Scenario {
    Scenario {
        race: true,
        ..scenario(name, before, steps, ends)
    }
}

pub(super) const fn replicas(
    name: &'static str,
    before: fn(&Stage),
    steps: &'static [Step],
    ends: fn(&Stage) -> bool,
) -> Scenario {
    Scenario {
        replicas: 2,
        ..scenario(name, before, steps, ends)
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Connector and policy, an asking pod, and an approval without a decision.
pub(super) fn waiting(stage: &Stage) {
    stage.connector();
    stage.policy("p", USUAL);
    asking(stage);
}

pub(super) fn asking(stage: &Stage) {
    stage.pod("deploy");
    stage.request("deploy");
    stage.signoff("yes", "deploy", "pending");
}

pub(super) fn waiting_for(stage: &Stage, form: PolicyForm<'_>) {
    stage.connector();
    stage.policy("p", form);
    asking(stage);
}

/// The same with a second policy, `q`, that needs another approval, `other`.
pub(super) fn waiting_for_two(stage: &Stage, other: &str) {
    waiting(stage);
    // It allows fewer verbs.
    let edit: fn(&mut Value) = |spec| {
        let rules = "/checkGrantedPermission/spec/permissions/roleTemplate/rules/0/verbs";
        if let Some(verbs) = spec.pointer_mut(rules) {
            *verbs = json!(["get", "list"]);
        }
    };
    let form = PolicyForm {
        label: Some("other"),
        edit: Some(edit),
        ..USUAL
    };
    stage.policy("q", form);
    stage.signoff_labelled("other", "other", "deploy", other);
}

pub(super) fn is(stage: &Stage, phase: &str) -> bool {
    stage.phase("for-deploy") == phase
}

pub(super) fn granted(stage: &Stage) -> bool {
    is(stage, "Granted") && stage.bindings().len() == 1 && stage.given("roles").len() == 1
}

/// Two policies grant, and both grants are recorded.
pub(super) fn both_grant(stage: &Stage) -> bool {
    let request = stage.request_now("for-deploy").unwrap_or_default();
    let entries = request["status"]["policies"].as_array();
    let granted = entries.into_iter().flatten();
    let granted = granted
        .filter(|it| it["grant"]["state"] == "Granted")
        .count();
    granted == 2 && stage.bindings().len() == 2
}

pub(super) fn pending(stage: &Stage) -> bool {
    let request = stage.request_now("for-deploy").unwrap_or_default();
    let conditions = request["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    // The checks have been evaluated.
    let judged = conditions.any(|it| it["type"] == "AccessCheckReady" && it["status"] != "Unknown");
    is(stage, "Pending") && judged && nothing(stage)
}

/// The checks cannot pass, and wait for nothing.
pub(super) fn check_failed(stage: &Stage) -> bool {
    let request = stage.request_now("for-deploy").unwrap_or_default();
    let conditions = request["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    nothing(stage) && conditions.any(|it| it["reason"] == "AccessCheckFailed")
}

pub(super) fn nothing(stage: &Stage) -> bool {
    stage.bindings().is_empty() && stage.given("roles").is_empty()
}

pub(super) fn revoked(stage: &Stage) -> bool {
    let request = stage.request_now("for-deploy").unwrap_or_default();
    is(stage, "Revoked") && request["status"]["revokedAt"].is_string() && nothing(stage)
}

/// Nothing was ever granted, and the pod has ended.
pub(super) fn ended(stage: &Stage) -> bool {
    let request = stage.request_now("for-deploy").unwrap_or_default();
    let synced = request["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|it| it["reason"] == "AccessPermissionRevoked");
    is(stage, "Ended") && !synced && request["status"]["revokedAt"].is_null() && nothing(stage)
}

/// The pod has ended, and nothing is left of its grants, complete or not.
pub(super) fn revoked_or_ended(stage: &Stage) -> bool {
    revoked(stage) || ended(stage)
}

pub(super) fn rejected(stage: &Stage) -> bool {
    is(stage, "Rejected") && nothing(stage)
}

pub(super) const APPROVE: Step = Do("approve", |stage| stage.decide("yes", "approved"));
pub(super) const FINISH: Step = Do("the pod ends", |stage| {
    stage.pod_phase("deploy", "Succeeded");
});
pub(super) const REJECT: Step = Do("reject", |stage| stage.decide("yes", "rejected"));
pub(super) const WITHDRAW: Step = Do("withdraw", |stage| stage.decide("yes", "pending"));
pub(super) const WITHDRAW_OTHER: Step = Do("one approval is withdrawn", |stage| {
    stage.decide("other", "pending");
});
pub(super) const DELETE_POD: Step = Do("the pod is deleted", |stage| stage.delete_pod("deploy"));
pub(super) const DELETE_REQUEST: Step = Do("the request is deleted", |stage| {
    stage.server.delete("accessrequests", TOOLS, "for-deploy");
});
pub(super) const DELETE_APPROVAL: Step = Do("the approval is deleted", |stage| {
    stage.server.delete("signoffs", APPS, "yes");
});
pub(super) const EDIT_POLICY: Step = Do("the policy asks for other objects", |stage| {
    edit_policy(stage, "other");
});
pub(super) const BLOWN_UP: Step = Do("it becomes larger than an approval may be", blow_up);
pub(super) const PENDING: Step = Until("it waits", pending);
pub(super) const GRANTED: Step = Until("granted", granted);
pub(super) const REVOKED: Step = Until("revoked", revoked);
/// Longer than a controller needs for anything that it knows of.
pub(super) const A_WHILE: Step = Rest(Duration::from_secs(5));
/// Contains at least one sweep.
pub(super) const LONGER_THAN_A_SWEEP: Step = Rest(Duration::from_mins(6));
/// Between two events at nearly the same time.
pub(super) const A_MOMENT: Step = Rest(Duration::from_millis(1));

fn edit_policy(stage: &Stage, label: &str) {
    stage.server.change("accesspolicies", TOOLS, "p", |policy| {
        let checks = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
        checks[0]["selector"]["labels"] = json!({label: "{.object.metadata.name}"});
    });
}

/// A Role and a `RoleBinding` that no controller of this run has written: with the labels of a controller for
/// a request by name and UID, or without labels.
pub(super) fn grant_objects(stage: &Stage, name: &str, of: Option<(&str, &str)>) {
    let mut metadata = json!({"name": name, "namespace": TOOLS});
    if let Some((request, uid)) = of {
        metadata["labels"] = json!({
            "app.kubernetes.io/managed-by": "connectors-approval",
            "connectors.alauda.io/accessRequest": request,
            "connectors.alauda.io/accessRequestUid": uid,
            "connectors.alauda.io/accessPolicy": "p",
            "connectors.alauda.io/accessPolicyUid": "p-uid",
        });
    }
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata,
        "rules": [{
            "apiGroups": ["connectors.alauda.io"], "verbs": ["*"], "resourceNames": [CONNECTOR],
            "resources": ["connectors/apis/v1/pod/apps/deploy"],
        }],
    });
    stage.put(role.clone());
    bind(stage, &role);
}

/// A `RoleBinding` with the name, the labels and the owner of a Role.
pub(super) fn bind(stage: &Stage, role: &Value) {
    let mut metadata = role["metadata"].clone();
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.as_object_mut().map(|it| it.remove(field));
    }
    stage.put(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "namespace": APPS, "name": "builder"}],
    }));
}

/// Deletes the granted bindings manually.
pub(super) fn delete_bindings(stage: &Stage) {
    for binding in stage.bindings() {
        let name = binding["metadata"]["name"].as_str().unwrap_or_default();
        stage.server.delete("rolebindings", TOOLS, name);
    }
}

/// Makes the approval larger than the limit.
pub(super) fn blow_up(stage: &Stage) {
    stage.server.change("signoffs", APPS, "yes", |it| {
        it["spec"] = json!({"noise": "x".repeat(300 * 1024)});
    });
}

/// Makes an object nested deeper than any reader accepts.
pub(super) fn deepen(object: &mut Value) {
    object["deep"] = (0..300).fold(json!(1), |inner, _| json!([inner]));
}
