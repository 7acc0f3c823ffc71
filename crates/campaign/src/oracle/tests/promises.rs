//! The writes of a process besides its grants: the namespaces, the order, leadership, and the messages.

use std::time::Duration;

use k8s_openapi::api::{
    events::v1::Event,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api,
    api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use testkit::Caller;
use tokio::time::sleep;

use super::{STRICT, bind, metadata, rogue, write};
use crate::{
    oracle::{Allowance, Incident, Rule, judge},
    stage::{APPS, CONNECTOR, DECOY, PolicyForm, SYSTEM, Stage, TOOLS},
};

/// A Role like those of grants.
fn role(stage: &Stage, namespace: &str) -> Role {
    let mut metadata = metadata(stage);
    metadata["namespace"] = namespace.into();
    serde_json::from_value(json!({
        "metadata": metadata,
        "rules": [{
            "apiGroups": ["connectors.alauda.io"], "verbs": ["*"], "resourceNames": [CONNECTOR],
            "resources": [format!("connectors/apis/v1/pod/{APPS}/deploy")],
        }],
    }))
    .unwrap()
}

pub(super) async fn create_role(stage: &Stage, client: &kube::Client, namespace: &str) {
    let api: Api<Role> = Api::namespaced(client.clone(), namespace);
    let role = role(stage, namespace);
    api.create(&PostParams::default(), &role).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_role_outside_the_namespace_of_the_connector_is_found() {
    for (namespace, expected) in [(TOOLS, &[][..]), (APPS, &[Rule::Tenants])] {
        let rules = rogue(async |stage, client| create_role(stage, &client, namespace).await);
        assert_eq!(rules.await, expected, "{namespace}");
    }
}

/// An event at the pod.
async fn tell(client: &kube::Client, action: &str, note: &str) {
    let event: Event = serde_json::from_value(json!({
        "metadata": {"name": "e", "namespace": APPS},
        "eventTime": "2026-03-01T10:00:00.000000Z",
        "reportingController": "r", "reportingInstance": "r", "type": "Normal",
        "reason": "AccessPending", "action": action, "note": note,
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": APPS, "name": "deploy"},
    }))
    .unwrap();
    let api: Api<Event> = Api::namespaced(client.clone(), APPS);
    api.create(&PostParams::default(), &event).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_at_a_pod_that_tells_of_the_other_namespace_is_found() {
    for (action, note, is_wrong) in [
        ("Decide", "access is not granted yet", false),
        (
            "Decide",
            "Signoff apps/yes is pending (checks look only here)",
            false,
        ),
        (
            "Decide",
            "x has 0 of the approvals that the policy wants",
            false,
        ),
        ("ChecksPending", "access is not granted yet", true),
        ("Decide", "policy p: no", true),
        ("Decide", "check approval: no", true),
        ("Decide", "see request for-deploy", true),
    ] {
        let rules = rogue(async |_, client| tell(&client, action, note).await);
        let expected: &[Rule] = if is_wrong { &[Rule::Tenants] } else { &[] };
        assert_eq!(rules.await, expected, "{action}: {note}");
    }
}

/// A status that is pending for this reason, with the contents of a policy's entry.
fn waiting(reason: &str, message: &str, grant: &Value, refs: &Value) -> Value {
    let ready = json!({
        "type": "Ready", "status": "False", "reason": reason, "message": message,
        "lastTransitionTime": "2026-03-01T10:00:00Z",
    });
    let policy = json!({"metadata": {"name": "p", "uid": "u"}});
    json!({
        "phase": "Pending", "conditions": [ready],
        "policies": [{"policy": policy, "grant": grant, "checkRefs": refs}],
    })
}

#[tokio::test(start_paused = true)]
async fn a_status_that_tells_of_approvals_before_they_let_through_is_found() {
    let refs = json!([{"name": "c", "ref": {"apiVersion": "v1", "kind": "K", "name": "yes"}}]);
    let (none, no) = (&json!([]), Value::Null);
    let ended = |reason: &str| json!({"state": "Ended", "reason": reason});
    let outcome = "policy p: its checks do not pass yet";
    for (status, is_wrong) in [
        (waiting("ChecksPending", outcome, &no, none), false),
        (waiting("ChecksPending", outcome, &no, &refs), true),
        (waiting("X", outcome, &ended("CheckRejected"), &refs), true),
        (waiting("X", outcome, &ended("PendingTimeout"), &refs), true),
        (waiting("X", outcome, &ended("CheckLapsed"), &refs), false),
        (waiting("ChecksPending", "s is pending", &no, none), true),
        (
            waiting("ChecksFailed", "s is in state \"x\"", &no, none),
            true,
        ),
        (waiting("CheckRejected", "s is rejected", &no, none), true),
        (
            waiting("PendingTimeout", "no K with labels a", &no, none),
            true,
        ),
        (waiting("CheckLapsed", "s is rejected", &no, none), false),
    ] {
        let what = status.to_string();
        let rules = rogue(async |_, client| write(&client, status).await);
        let expected: &[Rule] = if is_wrong { &[Rule::Tenants] } else { &[] };
        assert_eq!(rules.await, expected, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_of_a_policy_in_another_namespace_is_found() {
    let rules = rogue(async |stage, client| {
        let mut metadata = metadata(stage);
        metadata["labels"]["connectors.alauda.io/accessPolicy"] = format!("{DECOY}-p").into();
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "car-x"},
            "subjects": [{"kind": "ServiceAccount", "namespace": APPS, "name": "builder"}],
        }))
        .unwrap();
        let api: Api<RoleBinding> = Api::namespaced(client, TOOLS);
        api.create(&PostParams::default(), &binding).await.unwrap();
    });
    assert!(rules.await.contains(&Rule::Tenants));
}

#[tokio::test(start_paused = true)]
async fn a_role_that_goes_before_its_binding_is_found() {
    for first in ["roles", "rolebindings"] {
        let rules = rogue(async |stage, client| {
            create_role(stage, &client, TOOLS).await;
            bind(stage, &client, "builder").await;
            let params = DeleteParams::default();
            if first == "rolebindings" {
                let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), TOOLS);
                bindings.delete("car-x", &params).await.unwrap();
            }
            let roles: Api<Role> = Api::namespaced(client, TOOLS);
            roles.delete("car-x", &params).await.unwrap();
        });
        let is_found = rules.await.contains(&Rule::Revoked);
        assert_eq!(is_found, first == "roles", "{first}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_called_granted_without_its_objects_is_found() {
    let granted = json!({
        "phase": "Granted",
        "policies": [{"policy": {"metadata": {"name": "p", "uid": "u"}}, "grant": {"state": "Granted"}}],
    });
    let rules = rogue(async |_, client| write(&client, granted).await);
    assert_eq!(rules.await, [Rule::Fresh]);
}

#[tokio::test(start_paused = true)]
async fn what_is_recorded_as_gone_and_is_there_is_found() {
    let revoked = json!({
        "phase": "Revoked", "grantedAt": "2026-03-01T10:00:00Z", "revokedAt": "2026-03-01T10:01:00Z",
    });
    for is_there in [true, false] {
        let rules = rogue(async |stage, client| {
            if is_there {
                create_role(stage, &client, TOOLS).await;
            }
            write(&client, revoked.clone()).await;
        });
        let expected: &[Rule] = if is_there { &[Rule::Revoked] } else { &[] };
        assert_eq!(rules.await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_writes_without_the_lease_is_found() {
    for (namespace, expected) in [(SYSTEM, &[Rule::Fresh][..]), ("elsewhere", &[])] {
        let stage = Stage::new();
        stage.connector();
        stage.policy("p", PolicyForm::default());
        stage.pod("deploy");
        stage.request("deploy");
        let caller = Caller {
            process: "one.0".to_owned(),
            user: format!("system:serviceaccount:{namespace}:request-controller"),
            ..Caller::admin()
        };
        let client = stage.server.client(&caller);
        create_role(&stage, &client, TOOLS).await;
        sleep(Duration::from_secs(5)).await;
        let (violations, _) = judge(&stage.server.log(), &STRICT);
        let rules: Vec<_> = violations.into_iter().map(|it| it.rule).collect();
        assert_eq!(rules, expected, "{namespace}");
    }
}

/// Reads everything that a grant is based on.
pub(super) async fn read_live(client: &kube::Client) {
    let ours = "/apis/connectors.alauda.io/v1alpha1";
    for (path, name) in [
        (format!("/api/v1/namespaces/{APPS}/pods"), "deploy"),
        (
            format!("/api/v1/namespaces/{APPS}/serviceaccounts"),
            "builder",
        ),
        (format!("{ours}/namespaces/{TOOLS}/connectors"), CONNECTOR),
    ] {
        let request = kube::core::Request::new(path).get(name, &GetParams::default());
        let _: Value = client.request(request.unwrap()).await.unwrap();
    }
    for (path, labels) in [
        (format!("{ours}/namespaces/{TOOLS}/accesspolicies"), ""),
        (
            format!("/apis/example.com/v1/namespaces/{APPS}/signoffs"),
            "run=deploy",
        ),
    ] {
        let mut params = ListParams::default();
        if !labels.is_empty() {
            params = params.labels(labels);
        }
        let request = kube::core::Request::new(path).list(&params);
        let _: Value = client.request(request.unwrap()).await.unwrap();
    }
}

/// Changes the policy.
fn edit(stage: &Stage, change: fn(&mut Value)) {
    stage.server.change("accesspolicies", TOOLS, "p", change);
}

#[tokio::test(start_paused = true)]
async fn a_binding_by_a_policy_that_does_not_apply_is_found_whatever_its_checks_say() {
    type Edit = fn(&Stage);
    let edits: [(&str, Edit, bool); 6] = [
        ("nothing", |_| {}, false),
        (
            "another connector",
            |stage| {
                edit(stage, |it| {
                    it["spec"]["connector"] = json!({"names": ["x"]});
                });
            },
            true,
        ),
        (
            "another permission",
            |stage| edit(stage, |it| it["spec"]["permission"] = "proxy".into()),
            true,
        ),
        (
            "somebody else",
            |stage| {
                edit(stage, |it| {
                    it["spec"]["checkGrantedPermission"]["requesters"][0]["name"] = "x".into();
                });
            },
            true,
        ),
        (
            "nobody is named",
            |stage| {
                edit(stage, |it| {
                    it["spec"]["checkGrantedPermission"]["requesters"] = Value::Null;
                });
            },
            true,
        ),
        ("approvals are off", |stage| stage.switch(false), true),
    ];
    for (what, change, is_wrong) in edits {
        let rules = rogue(async |stage, client| {
            sleep(Duration::from_secs(1)).await;
            change(stage);
            sleep(Duration::from_secs(10)).await;
            read_live(&client).await;
            bind(stage, &client, "builder").await;
        });
        let expected: &[Rule] = if is_wrong { &[Rule::Fresh] } else { &[] };
        let rules = rules.await;
        let found: Vec<_> = rules.into_iter().filter(|it| *it == Rule::Fresh).collect();
        assert_eq!(found, expected, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_allows_something_else_than_its_policy_is_found() {
    for (verbs, expected) in [(json!(["*"]), &[][..]), (json!(["get"]), &[Rule::Revoked])] {
        let rules = rogue(async |stage, client| {
            read_live(&client).await;
            let mut role = role(stage, TOOLS);
            role.rules.as_mut().unwrap()[0].verbs = serde_json::from_value(verbs.clone()).unwrap();
            let api: Api<Role> = Api::namespaced(client.clone(), TOOLS);
            api.create(&PostParams::default(), &role).await.unwrap();
            bind(stage, &client, "builder").await;
        });
        assert_eq!(rules.await, expected, "{verbs}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_changed_in_place_is_judged_as_what_is_new() {
    let rules = rogue(async |stage, client| {
        create_role(stage, &client, TOOLS).await;
        let wider = json!({"rules": [{
            "apiGroups": ["connectors.alauda.io"], "verbs": ["*"], "resources": ["connectors/apis"],
            "resourceNames": [CONNECTOR],
        }]});
        let api: Api<Role> = Api::namespaced(client, TOOLS);
        let params = PatchParams::default();
        let patch = Patch::Merge(wider);
        api.patch("car-x", &params, &patch).await.unwrap();
    });
    assert_eq!(rules.await, [Rule::Shape]);
    let rules = rogue(async |stage, client| {
        bind(stage, &client, "builder").await;
        let thief =
            json!({"subjects": [{"kind": "ServiceAccount", "namespace": APPS, "name": "thief"}]});
        let api: Api<RoleBinding> = Api::namespaced(client, TOOLS);
        let params = PatchParams::default();
        let patch = Patch::Merge(thief);
        api.patch("car-x", &params, &patch).await.unwrap();
    });
    assert!(rules.await.contains(&Rule::Tenants));
}

#[test]
fn an_incident_excuses_what_is_due_while_it_is_felt_and_nothing_else() {
    let seconds = Duration::from_secs;
    let incident = |at, recovery| Incident {
        at: seconds(at),
        recovery: seconds(recovery),
    };
    let allowance = Allowance {
        incidents: vec![incident(100, 30), incident(125, 30), incident(500, 30)],
        ..STRICT
    };
    for (since, until) in [
        (0, 1),
        (98, 99),
        (99, 155),
        (100, 155),
        (128, 155),
        (154, 155),
        (155, 156),
        (498, 499),
        (600, 601),
    ] {
        assert_eq!(allowance.until(seconds(since)), seconds(until), "{since}");
        let is_late = until > since + 1;
        assert_eq!(allowance.is_disturbed(seconds(since)), is_late, "{since}");
    }
}
