//! RBAC, and its protection against escalation.

use kube::Client;
use serde_json::{Value, json};
use testkit::{ApiServer, Caller};

use crate::support::{MAPS, call, get, map, refusal, server};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

fn role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": rules,
        "metadata": {"namespace": "default", "name": name},
    })
}

fn binding(name: &str, role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"namespace": "default", "name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "sa"}],
    })
}

fn account(server: &ApiServer) -> Client {
    server.client(&Caller::service_account("p", "default", "sa"))
}

/// A service account with these rules.
fn with(server: &ApiServer, rules: &Value) -> Client {
    server.create(role("own", rules));
    server.create(binding("own", "own"));
    account(server)
}

#[tokio::test(start_paused = true)]
async fn what_rbac_does_not_allow_is_forbidden() {
    let server = server();
    let client = account(&server);
    assert_eq!(
        refusal(get(&client, MAPS).await),
        (403, "Forbidden".to_owned())
    );
    with(
        &server,
        &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]),
    );
    assert_eq!(get(&client, MAPS).await.0, 200);
    let answer = call(&client, &format!("POST {MAPS}"), map("a", &json!({}))).await;
    assert_eq!(refusal(answer), (403, "Forbidden".to_owned()));
    server.delete("rolebindings", "default", "own");
    assert_eq!(get(&client, MAPS).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn a_rule_for_a_name_allows_that_name_only() {
    let server = server();
    server.create(map("a", &json!({})));
    server.create(map("b", &json!({})));
    let rule = json!([{
        "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"], "resourceNames": ["a"],
    }]);
    let client = with(&server, &rule);
    assert_eq!(get(&client, &format!("{MAPS}/a")).await.0, 200);
    assert_eq!(get(&client, &format!("{MAPS}/b")).await.0, 403);
    assert_eq!(
        get(&client, &format!("{MAPS}?fieldSelector=metadata.name%3Da"))
            .await
            .0,
        200
    );
    assert_eq!(get(&client, MAPS).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn the_status_is_a_right_of_its_own() {
    let server = server();
    server.create(crate::support::access_request("a"));
    let rule = json!([{
        "apiGroups": ["connectors.alauda.io"], "resources": ["accessrequests/status"], "verbs": ["patch"],
    }]);
    let client = with(&server, &rule);
    let path = format!("{}/a", crate::support::REQUESTS);
    let body = json!({"status": {"phase": "Pending"}});
    assert_eq!(
        crate::support::merge(&client, &path, body.clone()).await.0,
        403
    );
    assert_eq!(
        crate::support::merge(&client, &format!("{path}/status"), body)
            .await
            .0,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_hands_out_what_they_do_not_hold() {
    let server = server();
    let client = with(
        &server,
        &json!([
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["*"],
                "resourceNames": []},
            {"apiGroups": ["connectors.alauda.io"], "resources": ["*"], "verbs": ["*"]},
        ]),
    );
    let held = json!([{"apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis/x"], "verbs": ["get"],
        "resourceNames": ["c"]}]);
    let other = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let post = async |path: &str, body: Value| call(&client, &format!("POST {path}"), body).await;
    // `*` on roles includes `escalate`, so restrict the verbs first.
    server.change("roles", "default", "own", |it| {
        it["rules"][0]["verbs"] = json!(["create", "update", "get", "delete", "patch"]);
    });
    assert_eq!(post(ROLES, role("held", &held)).await.0, 201);
    assert_eq!(
        refusal(post(ROLES, role("other", &other)).await),
        (403, "Forbidden".to_owned())
    );
    assert_eq!(post(BINDINGS, binding("held", "held")).await.0, 201);
    let missing = post(BINDINGS, binding("missing", "none")).await;
    assert_eq!(refusal(missing), (404, "NotFound".to_owned()));
    server.create(role("other", &other));
    let answer = post(BINDINGS, binding("other", "other")).await;
    assert_eq!(refusal(answer), (403, "Forbidden".to_owned()));
    let answer = call(&client, &format!("PUT {ROLES}/held"), role("held", &other)).await;
    assert_eq!(refusal(answer), (403, "Forbidden".to_owned()));
    server.change("roles", "default", "own", |it| {
        it["rules"][0]["verbs"] = json!(["create", "bind", "escalate"]);
    });
    assert_eq!(post(BINDINGS, binding("other", "other")).await.0, 201);
    assert_eq!(post(ROLES, role("third", &other)).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn a_binding_keeps_its_role_and_a_rule_says_something() {
    let server = server();
    let client = server.client(&Caller::admin());
    server.create(role("r", &json!([])));
    server.create(binding("b", "r"));
    let answer = call(&client, &format!("PUT {BINDINGS}/b"), binding("b", "other")).await;
    assert_eq!(refusal(answer), (422, "Invalid".to_owned()));
    let empty = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": []}]);
    let answer = call(&client, &format!("POST {ROLES}"), role("e", &empty)).await;
    assert_eq!(answer.1["details"]["causes"][0]["field"], "rules[0].verbs");
    assert_eq!(refusal(answer), (422, "Invalid".to_owned()));
}
