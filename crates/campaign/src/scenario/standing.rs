//! A standing permission that is given and taken, while a request waits or is granted.

use std::time::Duration;

use serde_json::json;

use super::{
    Scenario,
    Step::{self, Do, Rest, Until},
    common::{
        A_MOMENT, APPROVE, FINISH, GRANTED, PENDING, asked_about, granted, is, nothing, revoked,
        scenario, waiting, waiting_for_two,
    },
};
use crate::stage::{APPS, CONNECTOR, Stage, TOOLS};

/// Longer than two intervals in which a standing permission is noticed.
const LONG: Step = Rest(Duration::from_mins(3));
const GIVE: Step = Do("its account gets a standing permission", stand);
const TAKE: Step = Do("the account loses it", |stage| {
    stage.server.delete("rolebindings", TOOLS, NAME);
    stage.server.delete("roles", TOOLS, NAME);
});
const NAME: &str = "standing-p";

const ENDED: Step = Until("the request ends", |stage| {
    let request = stage.request_now("for-deploy").unwrap_or_default();
    let conditions = request["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    is(stage, "Ended") && conditions.any(|it| it["reason"] == "StandingPermission")
});
/// Like the node plugin: only if there is no request.
const ASK_ANEW: Step = Do("it is asked for anew", |stage| {
    if stage.request_now("for-deploy").is_none() {
        stage.request("deploy");
    }
});
const MADE_WAY: Step = Until("the request is gone", is_gone);

fn is_gone(stage: &Stage) -> bool {
    stage.request_now("for-deploy").is_none() && nothing(stage)
}

/// A Role and a binding as the policy-controller writes them.
pub(crate) fn stand(stage: &Stage) {
    let rbac = "rbac.authorization.k8s.io";
    let metadata = json!({"name": NAME, "namespace": TOOLS, "labels": {
        "app.kubernetes.io/managed-by": "connectors-approval",
        "connectors.alauda.io/accessPolicy": "p",
        "connectors.alauda.io/accessPolicyUid": "policy-p",
    }});
    stage.put(json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata,
        "rules": [{
            "apiGroups": ["connectors.alauda.io"], "verbs": ["*"], "resourceNames": [CONNECTOR],
            "resources": ["connectors/apis"],
        }],
    }));
    stage.put(json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "namespace": APPS, "name": "builder"}],
    }));
}

/// A standing permission that is given and taken.
pub(super) const STANDING: [Scenario; 6] = [
    asked_about(
        "stands-while-waiting",
        waiting,
        &[PENDING, GIVE, ENDED],
        is_gone,
    ),
    asked_about(
        "stands-without-a-policy",
        |stage| {
            stage.connector();
            stage.pod("deploy");
            stage.request("deploy");
        },
        &[Until("it waits", |stage| is(stage, "Pending")), GIVE, ENDED],
        is_gone,
    ),
    asked_about(
        "stands-and-stands-no-more",
        waiting,
        &[
            PENDING, GIVE, ENDED, TAKE, MADE_WAY, ASK_ANEW, PENDING, APPROVE, GRANTED, FINISH,
        ],
        revoked,
    ),
    asked_about(
        "stands-while-off",
        waiting,
        &[PENDING, Do("off", |stage| stage.switch(false)), GIVE, ENDED],
        is_gone,
    ),
    scenario(
        "stands-when-approved",
        waiting,
        &[PENDING, APPROVE, A_MOMENT, GIVE, GRANTED, LONG, TAKE, LONG],
        granted,
    ),
    scenario(
        "stands-beside-a-no",
        |stage| waiting_for_two(stage, "rejected"),
        &[PENDING, GIVE, LONG, TAKE, APPROVE],
        granted,
    ),
];
