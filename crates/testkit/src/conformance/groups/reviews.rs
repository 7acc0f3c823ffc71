//! Access reviews and token reviews.

use serde_json::{Value, json};

use super::super::kinds::{CONFIG_MAP, POD, ROLE, ROLE_BINDING, SERVICE_ACCOUNT};
use super::super::step::{Action, Ask, Group, Script, TokenWish, Until, Who};
use super::access::{RBAC, binding, rules, until, user};
use super::writes::pod;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

pub(super) fn add(script: &mut Script) {
    reviews(script);
    tokens(script);
}

fn attributes(verb: &str, resource: &str, subresource: &str, name: &str) -> Value {
    json!({
        "namespace": "$run-reviews", "verb": verb, "group": "connectors.alauda.io", "version": "v1alpha1",
        "resource": resource, "subresource": subresource, "name": name,
    })
}

fn review(attributes: &Value, who: &str, groups: &Value) -> Ask {
    let body = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"resourceAttributes": attributes, "user": who, "groups": groups},
    });
    Ask::new("POST", REVIEWS).body(body)
}

fn reviews(script: &mut Script) {
    let group = &mut Group::new(script, "reviews");
    let erin = &Who::user("$run-erin");
    let asked = attributes("get", "connectors", "apis", "c");
    group.ask(review(&asked, "$run-erin", &json!([])));
    group.create(&ROLE, "r", &json!({"rules": [{
        "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "resourceNames": ["c"], "verbs": ["*"],
    }]}));
    group.create(&ROLE_BINDING, "b", &binding(&ROLE, "r", &user("$run-erin")));
    let group_subject = json!({"apiGroup": RBAC, "kind": "Group", "name": "$run-team"});
    group.create(&ROLE_BINDING, "g", &binding(&ROLE, "r", &group_subject));
    let config = attributes("get", "accessrequests", "", "");
    // A read by this user shows that the authorizer has learned of the bindings.
    group.create(
        &ROLE,
        "own",
        &json!({"rules": rules("configmaps", &[], &["get"])}),
    );
    group.create(
        &ROLE_BINDING,
        "own",
        &binding(&ROLE, "own", &user("$run-erin")),
    );
    group.create(&CONFIG_MAP, "a", &json!({}));
    until(
        group,
        erin,
        Ask::new("GET", CONFIG_MAP.object("$run-reviews", "a")),
        200,
    );
    for (attributes, who, groups) in [
        (&asked, "$run-erin", json!([])),
        (&asked, "$run-other", json!([])),
        (&asked, "$run-other", json!(["$run-team"])),
        (&asked, "$run-other", json!(["system:masters"])),
        (&asked, "", json!(["$run-team"])),
        (&asked, "", json!([])),
        (&config, "$run-erin", json!([])),
        (
            &attributes("update", "connectors", "apis", "c"),
            "$run-erin",
            json!([]),
        ),
        (
            &attributes("get", "connectors", "apis", "d"),
            "$run-erin",
            json!([]),
        ),
        (
            &attributes("get", "connectors", "apis", ""),
            "$run-erin",
            json!([]),
        ),
        (
            &attributes("get", "connectors", "", "c"),
            "$run-erin",
            json!([]),
        ),
        (
            &attributes("get", "connectors", "apis/v1/pod/n/p", "c"),
            "$run-erin",
            json!([]),
        ),
    ] {
        group.ask(review(attributes, who, &groups));
    }
    other_reviews(group, erin, &asked);
}

/// Reviews in a namespace, of oneself, without attributes; and the permission to create reviews.
fn other_reviews(group: &mut Group<'_>, erin: &Who, asked: &Value) {
    let local = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview",
        "metadata": {"namespace": "$run-reviews"}, "spec": {"resourceAttributes": asked, "user": "$run-erin"},
    });
    let path = "/apis/authorization.k8s.io/v1/namespaces/$run-reviews/localsubjectaccessreviews";
    group.ask(Ask::new("POST", path).body(local));
    let own = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    });
    let own = Ask::new(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    )
    .body(own);
    group.ask(own.clone()).by(erin);
    group.ask(own.clone()).by(&Who::user("$run-other"));
    group.ask(own);
    group.ask(review(asked, "$run-erin", &json!([]))).by(erin);
    let both = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "$run-erin"},
    });
    group.ask(Ask::new("POST", REVIEWS).body(both));
    group.ask(Ask::new("GET", REVIEWS));
}

fn tokens(script: &mut Script) {
    let group = &mut Group::new(script, "tokens");
    group.create(&SERVICE_ACCOUNT, "worker", &json!({}));
    let mut worker = pod();
    worker["spec"]["serviceAccountName"] = json!("worker");
    group.create(&POD, "p", &worker);
    let wish = |audiences: &[&str]| TokenWish {
        namespace: "$run-tokens".to_owned(),
        account: "worker".to_owned(),
        account_uid: "<serviceaccounts/worker.uid>".to_owned(),
        pod: "p".to_owned(),
        pod_uid: "<pods/p.uid>".to_owned(),
        audiences: audiences.iter().map(|word| (*word).to_owned()).collect(),
    };
    let review = |token: &str, audiences: Value| {
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": audiences},
        });
        Ask::new("POST", "/apis/authentication.k8s.io/v1/tokenreviews").body(body)
    };
    group
        .step(Action::IssueToken(wish(&["connectors.alauda.io"])))
        .keep("ours");
    group
        .step(Action::IssueToken(wish(&["one", "two"])))
        .keep("both");
    for (token, audiences) in [
        ("<ours.token>", json!(["connectors.alauda.io"])),
        ("<ours.token>", json!(["other", "connectors.alauda.io"])),
        ("<ours.token>", json!(["other"])),
        ("<ours.token>", json!([])),
        ("<both.token>", json!(["two", "one", "three"])),
        ("<both.token>", json!(["two"])),
        ("nonsense", json!(["one"])),
        ("", json!(["one"])),
    ] {
        group.ask(review(token, audiences));
    }
    group.delete_with(&POD, "p", json!({"gracePeriodSeconds": 0}));
    let ours = review("<ours.token>", json!(["connectors.alauda.io"]));
    group.step(Action::AskUntil(ours.clone(), Until::No));
    group.create(&POD, "p", &worker);
    group.ask(ours);
    group
        .ask(review("<ours.token>", json!(["connectors.alauda.io"])))
        .by(&Who::user("$run-nobody"));
}
