//! Policies and connectors, as the API server asks about them.

use std::collections::BTreeSet;

use evaluation_api::v1::{Finding, FindingSeverity};

use super::*;
use crate::metrics::Limit;

const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const THIRD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));
const POLICIES: &str = "/validate/accesspolicies";
const CONNECTORS: &str = "/mutate/connectors";

const NOT_ALL: &str = "spec.connector: you may not update every connector of the namespace, and a policy hands out only \
    what its author may change; name those that you may, in spec.connector.names";

fn standing(connector: &Value) -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "p", "namespace": "tools"},
        "spec": {"connector": connector, "defaultPermission": {
            "roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["*"],
            }]},
            "bindingTemplate": {"subjects": [{"kind": "ServiceAccount", "name": "builder"}]},
        }},
    })
}

fn with_rego() -> Value {
    let mut policy = standing(&json!({}));
    policy["spec"]["checkGrantedPermission"] = json!({"spec": {
        "checks": [{
            "name": "gate",
            "selector": {
                "labels": {"app": "{.object.metadata.labels.app}"},
                "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
            },
            "state": {"rego": "package approval\noutput := {}"},
        }],
        "permissions": {"roleTemplate": {"rules": [{
            "apiGroups": ["connectors.alauda.io"],
            "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
            "verbs": ["*"],
        }]}},
    }});
    policy
}

fn written(operation: &str, user: &Value, object: &Value, old: &Value) -> Value {
    let mut review = review(user, object);
    let request = &mut review["request"];
    request["operation"] = json!(operation);
    request["resource"]["resource"] = json!("accesspolicies");
    request["oldObject"] = old.clone();
    review
}

async fn created(api: &FakeApi, evaluator: Evaluator, user: &Value, object: &Value) -> Value {
    let review = written("CREATE", user, object, &json!(null));
    ask_of(&handler_with(api, evaluator), POLICIES, &review).await
}

fn nobody() -> Evaluator {
    Evaluator::Fake(None)
}

fn message(response: &Value) -> &str {
    response["status"]["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn who_may_change_every_connector_may_write_any_policy_and_is_asked_about_once() {
    let api = cluster();
    for connector in [
        json!({}),
        json!({"names": ["a"]}),
        json!({"selector": {"matchLabels": {"a": "b"}}}),
    ] {
        let response = created(&api, nobody(), &ada(), &standing(&connector)).await;
        assert_eq!(response["allowed"], true, "{response}");
    }
    let asked = json!({
        "verb": "update", "version": "v1alpha1", "group": "connectors.alauda.io", "resource": "connectors",
        "namespace": "tools",
    });
    let reviews = api.reviews();
    assert_eq!(reviews.len(), 3);
    for review in reviews {
        assert_eq!(review["resourceAttributes"], asked);
        assert_eq!(review["user"], "ada");
    }
}

#[tokio::test]
async fn nobody_hands_out_what_he_may_not_change() {
    let api = cluster();
    for connector in [json!({}), json!({"selector": {"matchLabels": {"a": "b"}}})] {
        let response = created(&api, nobody(), &mallory(), &standing(&connector)).await;
        denied(&response, 403, NOT_ALL);
    }
    let names = json!({"names": ["a", "b"], "selector": {"matchLabels": {"a": "b"}}});
    let response = created(&api, nobody(), &mallory(), &standing(&names)).await;
    let text = "spec.connector.names: you may not update a, b, and a policy hands out only what its author may change";
    denied(&response, 403, text);
    let asked = api.reviews();
    let each: BTreeSet<&str> = asked
        .iter()
        .filter_map(|it| it["resourceAttributes"]["name"].as_str())
        .collect();
    // Several are asked about at a time.
    assert_eq!(each, BTreeSet::from(["a", "b"]));
}

#[tokio::test]
async fn all_that_is_wrong_is_told_at_once() {
    let api = cluster();
    let mut policy = standing(&json!({}));
    let given = &mut policy["spec"]["defaultPermission"];
    given["roleTemplate"]["rules"][0]["apiGroups"] = json!(["apps"]);
    given["bindingTemplate"]["subjects"][0]["nam"] = json!("x");
    let response = created(&api, nobody(), &mallory(), &policy).await;
    assert_eq!(response["status"]["code"], 422);
    let text = message(&response);
    for path in ["rules[0].apiGroups", "subjects[0].nam:"] {
        assert!(text.contains(path), "{path}: {text}");
    }
    // Whose policy it is matters only of what can be read.
    assert!(!text.contains("you may not"), "{text}");
    assert_eq!(api.calls(), [], "nothing was asked");

    let mut policy = standing(&json!({}));
    policy["spec"]["defaultPermission"]["roleTemplate"]["rules"][0]["apiGroups"] = json!(["apps"]);
    let response = created(&api, nobody(), &mallory(), &policy).await;
    let text = message(&response);
    assert!(
        text.contains("apiGroups") && text.ends_with(NOT_ALL),
        "{text}"
    );
}

#[tokio::test]
async fn rego_is_looked_at_by_the_evaluation_service() {
    let api = cluster();
    let finding = |severity: FindingSeverity| Finding {
        path: "spec.x".to_owned(),
        code: "RegoInvalid".to_owned(),
        severity: severity.into(),
        message: "is odd".to_owned(),
        fix: "mend it".to_owned(),
    };
    let says = |severity| Evaluator::Fake(Some(vec![finding(severity)]));
    let response = created(&api, says(FindingSeverity::Error), &ada(), &with_rego()).await;
    denied(&response, 422, "spec.x: is odd (mend it)");
    let response = created(&api, says(FindingSeverity::Warning), &ada(), &with_rego()).await;
    assert_eq!(response["allowed"], true);
    assert_eq!(response["warnings"], json!(["spec.x: is odd (mend it)"]));
    let response = created(
        &api,
        says(FindingSeverity::Unspecified),
        &ada(),
        &with_rego(),
    )
    .await;
    assert_eq!(response["status"]["code"], 503, "{response}");
    let response = created(
        &api,
        Evaluator::Fake(Some(Vec::new())),
        &ada(),
        &with_rego(),
    )
    .await;
    assert_eq!(response["allowed"], true, "{response}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_judged_is_refused_in_time() {
    let api = cluster();
    let start = Instant::now();
    let response = created(&api, nobody(), &ada(), &with_rego()).await;
    assert_eq!(response["status"]["code"], 503);
    assert!(
        message(&response).starts_with("the policy cannot be judged in time"),
        "{response}"
    );
    assert!(start.elapsed() < Duration::from_secs(5));
    // What is wrong anyway is told all the same.
    let mut policy = with_rego();
    policy["spec"]["defaultPermission"]["roleTemplate"]["rules"][0]["apiGroups"] = json!(["apps"]);
    let response = created(&api, nobody(), &ada(), &policy).await;
    assert_eq!(response["status"]["code"], 422);
    let text = message(&response);
    assert!(
        text.contains("rules[0].apiGroups") && text.ends_with("try again"),
        "{text}"
    );
    api.fail(|called, _| (called == Method::POST).then_some(StatusCode::INTERNAL_SERVER_ERROR));
    let response = created(&api, nobody(), &ada(), &standing(&json!({}))).await;
    denied(
        &response,
        503,
        "what you may do cannot be looked up now; try again",
    );
}

#[tokio::test]
async fn an_edit_is_judged_when_it_changes_what_the_policy_says() {
    let api = cluster();
    let old = standing(&json!({"names": ["a"]}));
    let mut labelled = old.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let ask = async |new: &Value, old: &Value, operation: &str| {
        let review = written(operation, &mallory(), new, old);
        ask_of(&handler(&api), POLICIES, &review).await
    };
    assert_eq!(ask(&labelled, &old, "UPDATE").await["allowed"], true);
    let widened = standing(&json!({}));
    denied(&ask(&widened, &old, "UPDATE").await, 403, NOT_ALL);
    assert_eq!(ask(&json!(null), &old, "DELETE").await["allowed"], true);
    // What is stored and cannot be read may lose a finalizer, too, but is not taken for anything else.
    assert_eq!(
        ask(&json!({"spec": 1}), &json!({"spec": 1}), "UPDATE").await["allowed"],
        true
    );
    assert_eq!(
        ask(&json!({}), &json!({}), "UPDATE").await["status"]["code"],
        422
    );
    assert_eq!(
        ask(&widened, &json!(null), "UPDATE").await["status"]["code"],
        403
    );
}

#[tokio::test]
async fn other_kinds_and_empty_reviews_are_sent_away() {
    let api = cluster();
    let response = ask(&api, POLICIES, &review(&ada(), &standing(&json!({})))).await;
    denied(&response, 400, "only access policies are admitted here");
    let mut nothing = written("CREATE", &ada(), &json!(null), &json!(null));
    denied(
        &ask(&api, POLICIES, &nothing).await,
        400,
        "a write without an object",
    );
    nothing["request"]["object"] = standing(&json!({}));
    nothing["request"]["namespace"] = json!(null);
    denied(
        &ask(&api, POLICIES, &nothing).await,
        400,
        "a write without a namespace",
    );
    let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
    let review = written("CREATE", &ada(), &json!("OBJECT"), &json!(null));
    denied(
        &asked_of_text(POLICIES, &review, &deep).await,
        422,
        "the object is nested too deeply to be read",
    );
}

#[tokio::test]
async fn what_would_take_too_much_memory_is_not_read() {
    let many = |item: &str, count: usize| {
        let items = vec![item; count].join(",");
        format!(r#"{{"spec":{{"unknown":[{items}]}}}}"#)
    };
    let words =
        "the object has too many parts to be read; leave out fields that the kind does not have";
    let review = written("CREATE", &ada(), &json!("OBJECT"), &json!(null));
    for heavy in [many("1", 200_000), many("{}", 40_000)] {
        denied(&asked_of_text(POLICIES, &review, &heavy).await, 422, words);
    }
    let light = asked_of_text(POLICIES, &review, &many("1", 1000)).await;
    assert_ne!(message(&light), words);
    let mut review = review;
    review["request"]["resource"]["resource"] = json!("connectors");
    let response = asked_of_text(CONNECTORS, &review, &many("1", 200_000)).await;
    assert_eq!(response["allowed"], true, "other software's are let be");
}

#[tokio::test]
async fn who_may_not_change_many_connectors_is_not_asked_about_all() {
    let api = cluster();
    let names: Vec<String> = (0..256).map(|it| format!("c{it}")).collect();
    let policy = standing(&json!({"names": names}));
    let response = created(&api, nobody(), &mallory(), &policy).await;
    let text = message(&response);
    assert!(text.contains("may not update c0, c1,"), "{text}");
    assert!(text.contains("c7 and more, and a policy"), "{text}");
    assert!(api.reviews().len() < 64, "{}", api.reviews().len());
}

#[tokio::test]
async fn each_connector_of_a_long_list_is_asked_about() {
    let names: Vec<String> = (0..40).map(|it| format!("c{it}")).collect();
    for odd in 0..names.len() {
        let api = cluster();
        let others = names.iter().filter(|it| **it != names[odd]);
        others.for_each(|it| api.open(it));
        let policy = standing(&json!({"names": names}));
        let response = created(&api, nobody(), &mallory(), &policy).await;
        let text = format!(
            "spec.connector.names: you may not update c{odd}, and a policy hands out only what its author may change"
        );
        denied(&response, 403, &text);
        api.open(&names[odd]);
        let response = created(&api, nobody(), &mallory(), &policy).await;
        assert_eq!(response["allowed"], true, "{response}");
    }
}

#[tokio::test]
async fn a_connector_is_labelled_with_its_class_and_never_refused() {
    let api = cluster();
    let ask = async |object: &Value| {
        let mut review = review(&mallory(), object);
        review["request"]["resource"]["resource"] = json!("connectors");
        super::ask(&api, CONNECTORS, &review).await
    };
    let connector = json!({"metadata": {"name": "c"}, "spec": {"connectorClassName": "oci"}});
    let response = ask(&connector).await;
    assert_eq!(
        (&response["allowed"], &response["patchType"]),
        (&json!(true), &json!("JSONPatch"))
    );
    for odd in [
        json!(null),
        json!({}),
        json!([1]),
        json!({"spec": {"connectorClassName": 7}}),
    ] {
        assert_eq!(
            ask(&odd).await,
            json!({"uid": "review-1", "allowed": true}),
            "{odd}"
        );
    }
}

const CLASS: &str = "/apis/connectors.alauda.io/v1alpha1/connectorclasses/oci";

fn of_class(class: &str) -> Value {
    json!({"metadata": {"name": "c"}, "spec": {"connectorClassName": class}})
}

async fn connector_written(api: &FakeApi, object: &Value, old: &Value) -> Value {
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    let mut review = written(operation, &mallory(), object, old);
    review["request"]["resource"]["resource"] = json!("connectors");
    let response = super::ask(api, CONNECTORS, &review).await;
    assert_eq!(response["allowed"], true);
    if object["spec"]["connectorClassName"] == "oci" {
        assert_eq!(
            response["patchType"], "JSONPatch",
            "it is labelled in any case"
        );
    }
    response["warnings"].clone()
}

#[tokio::test]
async fn a_connector_of_a_class_that_does_not_exist_earns_a_warning() {
    let api = cluster();
    let none = json!(null);
    let warning = |class: &str| {
        json!([format!(
            "spec.connectorClassName: there is no ConnectorClass {class:?}; correct the name, or create the class \
             (kubectl get connectorclasses)"
        )])
    };
    assert_eq!(
        connector_written(&api, &of_class("oci"), &none).await,
        warning("oci")
    );
    assert_eq!(
        connector_written(&api, &of_class("oci"), &of_class("git")).await,
        warning("oci")
    );
    for odd in ["No Name", "../pods", "a/b"] {
        api.calls();
        assert_eq!(
            connector_written(&api, &of_class(odd), &none).await,
            warning(odd)
        );
        assert_eq!(api.calls(), [], "{odd}");
    }
    api.put(CLASS, json!({"apiVersion": "connectors.alauda.io/v1alpha1", "kind": "ConnectorClass", "metadata": {"name": "oci"}, "spec": {}}));
    assert_eq!(connector_written(&api, &of_class("oci"), &none).await, none);
    // What did not change is not looked at.
    api.delete(CLASS);
    api.calls();
    let old = of_class("oci");
    assert_eq!(connector_written(&api, &old, &old).await, none);
    assert_eq!(api.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_nobody_tells_about_earns_no_warning_and_costs_little_time() {
    let api = cluster();
    api.fail(|_, path| (path == CLASS).then_some(StatusCode::FORBIDDEN));
    let (oci, none) = (of_class("oci"), json!(null));
    assert_eq!(connector_written(&api, &oci, &none).await, none);
    api.heal();
    api.hang();
    let start = Instant::now();
    assert_eq!(connector_written(&api, &oci, &none).await, none);
    assert!(start.elapsed() < Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn what_there_is_no_room_for_is_answered_in_time() {
    let handler = handler(&cluster());
    let deadline = Instant::now() + Duration::from_mins(1);
    let review = written("CREATE", &ada(), &standing(&json!({})), &json!(null)).to_string();
    let asked = async || {
        let start = Instant::now();
        let answer = handler.answer(PEER, post(POLICIES, review.clone())).await;
        assert!(start.elapsed() < ANSWER);
        answer.status()
    };
    let scales = &handler.rooms.policies;
    let half = vec![b' '; 4 << 20];
    let mut bodies = Vec::new();
    for other in [OTHER, THIRD] {
        let mut body = scales.body(other, deadline);
        body.push(&half).await.unwrap();
        bodies.push(body);
    }
    assert_eq!(asked().await, StatusCode::REQUEST_TIMEOUT);
    drop(bodies);
    let mut trees = Vec::new();
    for other in [OTHER, THIRD] {
        trees.push(scales.tree(other, 20 << 20, deadline).await.unwrap());
    }
    assert_eq!(asked().await, StatusCode::SERVICE_UNAVAILABLE);
    trees.pop();
    assert_eq!(asked().await, StatusCode::OK);
    // Requests have room of their own.
    trees.push(scales.tree(THIRD, 20 << 20, deadline).await.unwrap());
    let review = super::review(&ada(), &super::object(Some("u1"))).to_string();
    let answer = handler.answer(PEER, post(VALIDATE, review)).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn rego_of_one_address_is_run_one_policy_at_a_time() {
    // The evaluation service never answers.
    let handler = handler_with(&cluster(), nobody());
    let review = written("CREATE", &ada(), &with_rego(), &json!(null)).to_string();
    let ask = |peer| {
        let (handler, review) = (handler.clone(), review.clone());
        tokio::spawn(async move { handler.answer(peer, post(POLICIES, review)).await })
    };
    let rego = &handler.admission.policies.rego;
    let asked = [ask(PEER), ask(OTHER), ask(PEER)];
    for answer in asked {
        let body = answer.await.unwrap().into_body();
        let body = body.collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let response = &answer["response"];
        assert_eq!(response["status"]["code"], 503, "{response}");
        assert!(message(response).starts_with("the policy cannot be judged in time"));
    }
    let waited = handler.limits().counted(Limit::Rego);
    assert_eq!(waited, 1, "the second of one address");
    assert_eq!((rego.peers(), handler.taken()), (0, 0));
}

#[tokio::test]
async fn whoever_names_nobody_is_warned_where_everybody_may_ask_then() {
    let api = cluster();
    let config = |value: &str| {
        let data = json!({"enable-connectors-approval": "true", "default-requesters": value});
        let metadata = json!({"name": "connectors-config", "namespace": NAMESPACE});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    };
    let mut open = with_rego();
    let check = &mut open["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
    check.as_object_mut().unwrap().remove("state");
    let mut named = open.clone();
    named["spec"]["checkGrantedPermission"]["requesters"] =
        json!([{"kind": "ServiceAccount", "name": "ci"}]);
    let warned = async |policy: &Value| {
        let response = created(&api, nobody(), &ada(), policy).await;
        assert_eq!(response["allowed"], true, "{response}");
        response["warnings"]
            .to_string()
            .contains("default-requesters: Any")
    };
    assert!(!warned(&open).await, "nothing is known");
    for (value, expected) in [("Namespace", false), ("Any", true), ("any", false)] {
        api.put(&config_map("connectors-config"), config(value));
        assert_eq!(warned(&open).await, expected, "{value}");
        assert!(!warned(&named).await);
        assert!(!warned(&standing(&json!({}))).await, "it has no checks");
        let mut empty = standing(&json!({}));
        empty["spec"]["checkGrantedPermission"] = json!({});
        assert!(!warned(&empty).await, "it has no checks either");
    }
    api.fail(|called, path| {
        (called == Method::GET && path.contains("configmaps")).then_some(StatusCode::FORBIDDEN)
    });
    assert!(!warned(&open).await, "what cannot be read stops nobody");
}

#[tokio::test]
async fn a_namespace_has_so_many_policies_and_no_more() {
    let api = cluster();
    let (list, policy) = (policies("tools"), standing(&json!({})));
    let created = async || created(&api, nobody(), &ada(), &policy).await;
    for (count, fits) in [(0, true), (255, true), (256, false), (300, false)] {
        api.put(&list, list_of(count));
        let response = created().await;
        assert_eq!(response["allowed"], fits, "{count}: {response}");
        if !fits {
            assert_eq!(response["status"]["code"], 403, "{response}");
            assert!(
                message(&response).contains("256 access policies"),
                "{response}"
            );
        }
    }
    // An edit makes no policy more.
    let old = standing(&json!({"names": ["harbor"]}));
    let edit = written("UPDATE", &ada(), &policy, &old);
    let response = ask_of(&handler_with(&api, nobody()), POLICIES, &edit).await;
    assert_eq!(response["allowed"], true, "{response}");
    for code in [StatusCode::FORBIDDEN, StatusCode::INTERNAL_SERVER_ERROR] {
        let list = list.clone();
        api.fail(move |_, path| (path == list).then_some(code));
        let response = created().await;
        assert_eq!(response["allowed"], false, "{response}");
        assert!(message(&response).contains("try again"), "{response}");
    }
}

#[tokio::test]
async fn whoever_selects_namespaces_by_a_key_of_nobody_is_warned() {
    let api = cluster();
    let mut policy = standing(&json!({}));
    let by = |key: &str| json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": {"matchLabels": {key: "a"}}});
    policy["spec"]["defaultPermission"]["bindingTemplate"]["subjects"] =
        json!([by("kubernetes.io/metadata.name"), by("project")]);
    let warned = async || {
        let response = created(&api, nobody(), &ada(), &policy).await;
        assert_eq!(response["allowed"], true, "{response}");
        response["warnings"].clone()
    };
    let without = warned().await.to_string();
    for word in [
        "subjects[1].namespaceSelector",
        "label project",
        "policies.namespaceSelectorKeys",
    ] {
        assert!(without.contains(word), "{without}");
    }
    assert!(!without.contains("subjects[0]"), "{without}");
    let metadata = json!({"name": "connectors-config", "namespace": NAMESPACE});
    let data = json!({"namespace-selector-keys": r#"["kubernetes.io/metadata.name","project"]"#});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    api.put(&config_map("connectors-config"), map);
    assert_eq!(warned().await, json!(null));
    api.fail(|_, path| path.contains("configmaps").then_some(StatusCode::FORBIDDEN));
    assert_eq!(
        warned().await,
        json!(null),
        "what cannot be read warns nobody"
    );
}
