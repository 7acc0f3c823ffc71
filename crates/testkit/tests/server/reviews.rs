//! Access reviews and token reviews.

use kube::Client;
use serde_json::{Value, json};
use testkit::{Caller, TokenFacts};

use crate::support::{admin, call, refusal, server};

async fn review(client: &Client, what: &str, spec: Value) -> (u16, Value) {
    let (group, kind) = what.split_once('/').unwrap();
    let plural = format!("{}s", kind.to_lowercase());
    let body =
        json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {}, "spec": spec});
    call(client, &format!("POST /apis/{group}/v1/{plural}"), body).await
}

const SUBJECT: &str = "authorization.k8s.io/SubjectAccessReview";
const SELF: &str = "authorization.k8s.io/SelfSubjectAccessReview";
const TOKEN: &str = "authentication.k8s.io/TokenReview";

#[tokio::test(start_paused = true)]
async fn a_review_answers_as_the_server_would_decide() {
    let server = server();
    server.create(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }));
    server.create(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"namespace": "default", "name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}],
    }));
    let client = admin(&server);
    let allowed = async |namespace: &str, verb: &str| {
        let attributes = json!({"namespace": namespace, "verb": verb, "resource": "pods"});
        let spec = json!({"user": "u", "resourceAttributes": attributes});
        let (code, answer) = review(&client, SUBJECT, spec).await;
        assert_eq!(code, 201);
        answer["status"]["allowed"].as_bool().unwrap()
    };
    assert!(allowed("default", "get").await);
    assert!(!allowed("default", "list").await);
    assert!(!allowed("kube-system", "get").await);
    let answer = review(&client, SUBJECT, json!({"user": "u"})).await;
    assert_eq!(refusal(answer), (422, "Invalid".to_owned()));
    let spec =
        json!({"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}});
    let caller = Caller {
        user: "u".to_owned(),
        groups: vec![],
        process: "p".to_owned(),
    };
    let (_, own) = review(&server.client(&caller), SELF, spec).await;
    assert_eq!(own["status"]["allowed"], true);
    let stranger = review(&server.client(&caller), SUBJECT, json!({"user": "u"})).await;
    assert_eq!(refusal(stranger), (403, "Forbidden".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_its_users_as_long_as_its_pod_is_there() {
    let server = server();
    let client = admin(&server);
    let pod = server.create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "p"},
    }));
    let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
    let token = server.issue_token(TokenFacts {
        user: "system:serviceaccount:default:sa".to_owned(),
        audiences: vec!["connectors.alauda.io".to_owned()],
        pod: Some(("p".to_owned(), uid.clone())),
        ..TokenFacts::default()
    });
    let status = async |token: &str, audiences: Value| {
        let spec = json!({"token": token, "audiences": audiences});
        let (code, answer) = review(&client, TOKEN, spec).await;
        assert_eq!(code, 201);
        answer["status"].clone()
    };
    let good = status(&token, json!(["other", "connectors.alauda.io"])).await;
    assert_eq!(good["authenticated"], true);
    assert_eq!(good["audiences"], json!(["connectors.alauda.io"]));
    assert_eq!(
        good["user"]["extra"]["authentication.kubernetes.io/pod-uid"],
        json!([uid])
    );
    for (token, audiences) in [
        (token.as_str(), json!(["other"])),
        (&token, Value::Null),
        ("no", Value::Null),
    ] {
        assert_eq!(status(token, audiences).await["authenticated"], Value::Null);
    }
    server.delete("pods", "default", "p");
    server.create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "p"},
    }));
    let late = status(&token, json!(["connectors.alauda.io"])).await;
    assert_eq!(
        late["authenticated"],
        Value::Null,
        "another pod of that name"
    );
}

#[tokio::test(start_paused = true)]
async fn a_review_of_the_caller_says_who_it_is() {
    let server = server();
    server.create(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "basic"},
        "rules": [{"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]}],
    }));
    server.create(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "basic"},
        "roleRef": {"kind": "ClusterRole", "name": "basic"}, "subjects": [{"kind": "Group", "name": "qa"}],
    }));
    let caller = |groups: &[&str]| Caller {
        process: "u".to_owned(),
        user: "u".to_owned(),
        groups: groups.iter().map(|it| (*it).to_owned()).collect(),
    };
    let whoami = "authentication.k8s.io/SelfSubjectReview";
    let member = server.client(&caller(&["qa"]));
    let (code, answer) = review(&member, whoami, json!({})).await;
    let known = json!({"userInfo": {"username": "u", "groups": ["qa"]}});
    assert_eq!((code, &answer["status"]), (201, &known));
    let stranger = server.client(&caller(&[]));
    let refused = review(&stranger, whoami, json!({})).await;
    assert_eq!(refusal(refused), (403, "Forbidden".to_owned()));
}
