//! New pods that mount connectors, which get the scheduling gate where the configuration says so.

use futures::{FutureExt, future::join_all};

use super::*;

const PODS: &str = "/mutate/pods";

fn configured(configuration: Value) -> FakeApi {
    let api = FakeApi::default();
    api.put(&config_map("connectors-config"), configuration);
    api
}

/// The configuration with approvals, and what it says about the gate.
fn configuration(gate: &str) -> Value {
    of_data(&json!({"enable-connectors-approval": "true", "scheduling-gate": gate}))
}

fn of_data(data: &Value) -> Value {
    let metadata = json!({"name": "connectors-config", "namespace": NAMESPACE});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

fn on() -> FakeApi {
    configured(configuration("Set"))
}

fn mounting() -> Value {
    json!({"metadata": {"name": "job"}, "spec": {"containers": [], "volumes": [{
        "name": "tool", "csi": {"driver": "connectors-csi", "readOnly": true},
    }]}})
}

fn asked(object: &Value) -> Value {
    let mut asked = review(&ada(), object);
    asked["request"]["resource"] = json!({"group": "", "version": "v1", "resource": "pods"});
    asked
}

/// The patch of an answer, which lets the pod pass in any case.
async fn patch(api: &FakeApi, asked: &Value) -> Option<Value> {
    let response = ask(api, PODS, asked).await;
    assert_eq!(response["allowed"], true, "{response}");
    let written: Option<ByteString> = serde_json::from_value(response["patch"].clone()).unwrap();
    written.map(|it| serde_json::from_slice(&it.0).unwrap())
}

#[tokio::test]
async fn a_new_pod_that_mounts_a_connector_gets_the_gate() {
    let gate = json!([{
        "op": "add", "path": "/spec/schedulingGates",
        "value": [{"name": "connectors.alauda.io/approval"}],
    }]);
    assert_eq!(patch(&on(), &asked(&mounting())).await, Some(gate));
}

#[tokio::test]
async fn no_pod_gets_it_while_no_mount_is_gated_or_gates_are_released() {
    for data in [
        json!({"enable-connectors-approval": "false", "scheduling-gate": "Set"}),
        json!({"enable-connectors-approval": "true", "scheduling-gate": "Release"}),
        json!({"enable-connectors-approval": "true", "scheduling-gate": "set"}),
        json!({"enable-connectors-approval": "true"}),
        json!({"scheduling-gate": "Set"}),
        json!({}),
    ] {
        let api = configured(of_data(&data));
        assert_eq!(patch(&api, &asked(&mounting())).await, None, "{data}");
    }
}

/// The pod then waits at its mount, as without the gate.
#[tokio::test(start_paused = true)]
async fn without_an_answer_about_the_configuration_a_pod_passes_soon_and_without_the_gate() {
    let absent = FakeApi::default();
    assert_eq!(patch(&absent, &asked(&mounting())).await, None);
    let broken = on();
    broken.fail(|method, _| (method == Method::GET).then_some(StatusCode::FORBIDDEN));
    assert_eq!(patch(&broken, &asked(&mounting())).await, None);
    let silent = on();
    silent.hang();
    let before = Instant::now();
    assert_eq!(patch(&silent, &asked(&mounting())).await, None);
    assert!(before.elapsed() <= Duration::from_secs(1));
}

/// Requests and policies are refused without a place, and pods are not.
#[tokio::test(start_paused = true)]
async fn any_number_of_pods_takes_one_call_in_a_second_and_no_place_of_requests() {
    let api = on();
    let handler = handler(&api);
    let pod = asked(&mounting());
    let all = || join_all((0..1000).map(|_| ask_of(&handler, PODS, &pod)));
    for _ in 0..3 {
        let answers = all().await;
        assert!(answers.iter().all(|it| it["patch"].is_string()));
        assert_eq!(api.calls().len(), 1);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    api.hang();
    let mut waiting = Box::pin(all());
    assert!((&mut waiting).now_or_never().is_none());
    assert_eq!(handler.admission.taken(), 0);
    assert!(
        waiting
            .await
            .iter()
            .all(|it| it["allowed"] == true && it["patch"].is_null())
    );
}

/// Pods come all the time. Their use does not keep an old answer.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_configuration_counts_within_a_second_however_many_pods_come() {
    let api = on();
    let handler = handler(&api);
    let pod = asked(&mounting());
    for second in 0..10 {
        let word = if second % 2 == 0 { "Set" } else { "Release" };
        api.put(&config_map("connectors-config"), configuration(word));
        let mut gated = Vec::new();
        for _ in 0..11 {
            let answer = ask_of(&handler, PODS, &pod).await;
            gated.push(answer["patch"].is_string());
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert_eq!(gated[10], second % 2 == 0, "{second}: {gated:?}");
    }
    assert!(api.calls().len() <= 11);
}

/// An answer that took long may be as old as its question.
#[tokio::test(start_paused = true)]
async fn what_is_known_of_the_configuration_counts_from_the_question_on() {
    let api = on();
    api.delay(Method::GET, Duration::from_millis(900));
    let handler = handler(&api);
    let pod = asked(&mounting());
    let ask = async || ask_of(&handler, PODS, &pod).await["patch"].is_string();
    assert!(ask().await);
    api.put(&config_map("connectors-config"), configuration("Release"));
    assert!(ask().await, "900 ms old");
    tokio::time::advance(Duration::from_millis(100)).await;
    assert!(!ask().await, "1000 ms old");
    // One question serves all that came before it.
    tokio::time::advance(Duration::from_secs(1)).await;
    api.calls();
    let answers = join_all((0..100).map(|_| ask())).await;
    assert!(answers.iter().all(|it| !it));
    assert_eq!(api.calls().len(), 1);
}

#[tokio::test]
async fn what_is_no_new_pod_with_a_connector_passes_and_costs_no_look() {
    let api = on();
    let plain = json!({"metadata": {"name": "p"}, "spec": {"containers": []}});
    assert_eq!(patch(&api, &asked(&plain)).await, None);
    let changes: [fn(&mut Value); 4] = [
        |it| it["request"]["operation"] = json!("UPDATE"),
        |it| it["request"]["subResource"] = json!("binding"),
        |it| it["request"]["object"] = json!(null),
        |it| it["request"]["resource"]["resource"] = json!("podtemplates"),
    ];
    for change in changes {
        let mut other = asked(&mounting());
        change(&mut other);
        assert_eq!(patch(&api, &other).await, None, "{other}");
    }
    assert_eq!(api.calls(), [], "nothing was asked for it");
}

/// The request-controller makes the requests of pods that wait with the gate. It may get every pod, and proves nothing else.
#[tokio::test]
async fn a_controller_that_may_get_pods_creates_requests_of_pods_as_they_are_and_of_no_other() {
    let controller =
        json!({"username": "system:serviceaccount:connectors-system:request-controller"});
    let api = cluster();
    let mut gated = running();
    gated["spec"]["nodeName"] = json!(null);
    gated["status"]["phase"] = json!("Pending");
    api.put(&pod("team", "build-1"), gated);
    let refused = validated(&api, &controller, &object(Some("u1"))).await;
    denied(&refused, 403, HIDDEN);
    api.let_read("system:serviceaccount:connectors-system:request-controller");
    let accepted = validated(&api, &controller, &object(Some("u1"))).await;
    assert_eq!(accepted["allowed"], true, "{accepted}");
    let other = validated(&api, &controller, &object(Some("u2"))).await;
    denied(
        &other,
        403,
        "spec.context.objectRef.uid: the pod team/build-1 has another UID",
    );
    let mut account = object(Some("u1"));
    account["spec"]["subject"]["name"] = json!("admin");
    let other = validated(&api, &controller, &account).await;
    denied(
        &other,
        403,
        "spec.subject.name: the pod team/build-1 runs as \"builder\"",
    );
}
