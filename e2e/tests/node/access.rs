//! Identities: tokens bound to pods, nodes that may touch only their own objects, and the audit log.

use std::fs;

use e2e::{
    ApiClient, ApiUser,
    api::kinds::{CONFIG_MAP, NODE, POD, SECRET},
    harness::Scene,
};
use serde_json::{Value, json};

#[test]
fn a_projected_token_names_the_pod_that_it_is_bound_to() {
    let scene = Scene::new("token");
    let source =
        json!({"serviceAccountToken": {"audience": "connectors.alauda.io", "path": "token"}});
    let mount = json!({
        "volumes": [{"name": "token", "projected": {"sources": [source]}}],
        "volumeMounts": [{"name": "token", "mountPath": "/token"}],
    });
    scene.start_pod_with("holder", &["wait"], &mount).unwrap();
    scene.wait_for_running("holder");
    let output = scene
        .run("exec holder -- /workload cat /token/token")
        .unwrap();
    let token = output.lines().nth(1).unwrap();

    let review = |audience: &str| -> Value {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        });
        scene.api().create(&request).unwrap()
    };
    let status = &review("connectors.alauda.io")["status"];
    assert_eq!(status["authenticated"], true);
    let extra = &status["user"]["extra"];
    assert_eq!(
        extra["authentication.kubernetes.io/pod-name"],
        json!(["holder"])
    );
    let pod = scene.api().get(POD, "holder").unwrap().unwrap();
    let uid = &pod["metadata"]["uid"];
    assert_eq!(extra["authentication.kubernetes.io/pod-uid"], json!([uid]));
    // A token for one audience is nothing to another.
    assert_ne!(review("somebody-else")["status"]["authenticated"], true);
}

#[test]
fn the_aggregation_layer_tells_extension_servers_whom_to_trust() {
    let scene = Scene::new("aggregation");
    let system = scene.api().in_namespace("kube-system");
    let name = "extension-apiserver-authentication";
    let settings = system.get(CONFIG_MAP, name).unwrap().unwrap();
    let certificate = settings["data"]["requestheader-client-ca-file"].as_str();
    let certificate = certificate.unwrap();
    assert!(
        certificate.starts_with("-----BEGIN CERTIFICATE-----"),
        "{certificate}"
    );
}

#[test]
fn a_node_reads_only_the_secrets_of_its_own_pods() {
    let scene = Scene::new("node-secrets");
    scene.apply(&secret("other", "b")).unwrap();
    let refused = as_node(&scene).get(SECRET, "other");
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("no relationship found between node"),
        "{refused}"
    );
}

#[test]
fn a_node_cannot_give_itself_protected_labels() {
    let scene = Scene::new("node-labels");
    let label = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/trusted": "yes"}}});
    let refused = as_node(&scene).patch(NODE, &node(&scene), &label);
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("is not allowed to modify labels"),
        "{refused}"
    );
}

#[test]
fn the_audit_log_tells_who_changed_roles_and_keeps_secrets_out() {
    let scene = Scene::new("audit");
    let Some(log) = scene.audit_log() else {
        return; // an existing cluster keeps its audit log to itself
    };
    let value = format!("very-secret-{}", scene.namespace());
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "reader"}, "rules": rules,
    });
    scene.api().create(&role).unwrap();
    scene.api().create(&secret("hidden", &value)).unwrap();
    let created = |resource: &str| {
        let log = fs::read_to_string(&log).unwrap();
        let events: Vec<Value> = log
            .lines()
            .filter(|line| line.contains(scene.namespace()))
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        events
            .into_iter()
            .find(|event| event["verb"] == "create" && event["objectRef"]["resource"] == resource)
    };
    let deadline = e2e::Deadline::after(e2e::harness::PATIENCE);
    let secret = e2e::poll("the secret's audit event", deadline, || {
        created("secrets").ok_or_else(String::new)
    });
    let role = created("roles").unwrap();
    assert_eq!(role["user"]["username"], "admin");
    assert_eq!(
        role["requestObject"]["rules"][0]["resources"],
        json!(["pods"])
    );
    assert!(secret.unwrap().get("requestObject").is_none());
    assert!(!fs::read_to_string(&log).unwrap().contains(&value));
}

fn secret(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"key": value},
    })
}

fn node(scene: &Scene) -> String {
    let nodes = scene.api().list_everywhere(NODE).unwrap();
    nodes[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

fn as_node(scene: &Scene) -> ApiClient {
    let user = ApiUser::named(&format!("system:node:{}", node(scene)));
    scene.api().acting_as(&user.in_group("system:nodes"))
}
