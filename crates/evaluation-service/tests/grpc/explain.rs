//! Why somebody may or may not, from caches and from what is read live.

use evaluation_api::refusal::Reason;
use evaluation_api::v1::{ExplainRequest, PolicyApplies};
use serde_json::{Value, json};

use crate::fake_api::FakeApi;
use crate::world::{World, question, request};

/// A policy that accepts these requesters.
pub(crate) fn policy(requesters: &Value) -> Value {
    let mut policy = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "p", "namespace": "tools", "uid": "policy-uid", "resourceVersion": "1"},
        "spec": {"checkGrantedPermission": {"requesters": requesters, "spec": {
            "checks": [{"name": "gate", "selector": {"labels": {"run": "x"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}}}],
            "permissions": {"roleTemplate": {"rules": []}},
        }}},
    });
    if requesters.is_null() {
        let granted = policy["spec"]["checkGrantedPermission"].as_object_mut();
        granted.unwrap().remove("requesters");
    }
    policy
}

pub(crate) fn asked() -> ExplainRequest {
    let question = question();
    ExplainRequest {
        subject: Some(question.subject.into()),
        connector: Some(question.connector.into()),
        permission: "apis".to_owned(),
        pod: question.pod.map(Into::into),
    }
}

async fn world(requesters: &Value) -> World {
    let api = FakeApi::new();
    let connector = json!({"metadata": {"name": "harbor", "namespace": "tools", "resourceVersion": "1"}, "spec": {"connectorClassName": "harbor"}});
    api.put("connectors", &connector);
    api.put("accesspolicies", &policy(requesters));
    let mut pending = request("Pending");
    pending["status"]["policies"] = json!([{
        "policy": {"metadata": {"name": "p", "uid": "policy-uid"}},
        "checkRefs": [{"name": "gate", "ref": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}, "status": {"state": "pending", "reason": "Pending", "message": "waits"}}],
    }]);
    api.put("accessrequests", &pending);
    let world = World::start(api).await;
    world.ready().await;
    world
}

#[tokio::test]
async fn the_request_is_read_live_and_the_account_only_when_its_labels_matter() {
    let by_name = json!([{"kind": "ServiceAccount", "namespace": "devops", "name": "builder"}]);
    let world = world(&by_name).await;
    let answer = world.client.explain(asked()).await.unwrap();
    assert!(answer.connector_exists && answer.fresh_as_of.is_some());
    let [policy] = &answer.policies[..] else {
        panic!("{answer:?}")
    };
    assert_eq!(policy.checked(), PolicyApplies::Yes);
    assert_eq!(policy.checks[0].objects[0].state, "pending");
    assert_eq!(policy.checks[0].objects[0].message, "waits");
    assert_eq!(world.api.reads(), ["accessrequests/r"]);
}

#[tokio::test]
async fn the_class_of_a_connector_counts_as_its_label() {
    let by_name = json!([{"kind": "ServiceAccount", "namespace": "devops", "name": "builder"}]);
    let world = world(&by_name).await;
    let mut classed = policy(&by_name);
    for (version, class, applies) in [
        ("2", "harbor", PolicyApplies::Yes),
        ("3", "git", PolicyApplies::OtherLabels),
    ] {
        let class = json!({"connectors.alauda.io/connectorclass": class});
        classed["spec"]["connector"] = json!({"selector": {"matchLabels": class}});
        classed["metadata"]["resourceVersion"] = json!(version);
        world.api.put("accesspolicies", &classed);
        let seen = async {
            while world.client.explain(asked()).await.unwrap().policies[0].checked() != applies {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(crate::world::SOON, seen)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn selectors_are_judged_by_the_labels_of_account_and_namespace() {
    let by_label = json!([{
        "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "ci"}},
        "namespaceSelector": {"matchLabels": {"project": "a"}},
    }]);
    let world = world(&by_label).await;
    let checked = async || {
        let answer = world.client.explain(asked()).await.unwrap();
        answer.policies[0].checked()
    };
    // Neither is known.
    assert_eq!(checked().await, PolicyApplies::OtherSubject);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "builder", "namespace": "devops", "labels": {"role": "ci"}}});
    world.api.put("serviceaccounts", &account);
    assert_eq!(checked().await, PolicyApplies::OtherSubject);
    let home =
        json!({"metadata": {"name": "devops", "resourceVersion": "2", "labels": {"project": "a"}}});
    world.api.put("namespaces", &home);
    let seen = async {
        while checked().await != PolicyApplies::Yes {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::world::SOON, seen)
        .await
        .unwrap();
    let reads = world.api.reads();
    assert_eq!(reads[..2], ["serviceaccounts/builder", "accessrequests/r"]);
}

#[tokio::test]
async fn who_may_not_ask_about_the_namespace_causes_no_reads() {
    let world = world(&json!([{"kind": "ServiceAccount", "name": "x"}])).await;
    world.api.allow(&["elsewhere"]);
    let error = world.client.explain(asked()).await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::NamespaceForbidden));
    assert!(world.api.reads().is_empty());
}

#[tokio::test]
async fn who_may_ask_where_a_policy_does_not_say_is_the_installations_choice() {
    let world = world(&Value::Null).await;
    let checked = async || {
        let answer = world.client.explain(asked()).await.unwrap();
        answer.policies[0].checked()
    };
    assert_eq!(checked().await, PolicyApplies::OtherSubject);
    let any = json!({"enable-connectors-approval": "true", "default-requesters": "Any"});
    world.api.configure(&any);
    let seen = async {
        while checked().await != PolicyApplies::Yes {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::world::SOON, seen)
        .await
        .unwrap();
}
