//! Pipeline runs, which the API server has named after their creators.

use super::*;

const RUNS: &str = "/mutate/pipelineruns";

fn asked(operation: &str, user: &Value) -> Value {
    let run = json!({"metadata": {"name": "run", "annotations": {"connectors.alauda.io/creator": "bob"}}});
    let mut asked = review(user, &run);
    asked["request"]["operation"] = operation.into();
    asked["request"]["resource"] =
        json!({"group": "tekton.dev", "version": "v1", "resource": "pipelineruns"});
    asked
}

#[tokio::test]
async fn a_new_run_is_named_after_the_user_who_creates_it_and_no_other_user() {
    let api = cluster();
    let response = ask(&api, RUNS, &asked("CREATE", &ada())).await;
    let patch = json!([{
        "op": "add", "path": "/metadata/annotations/connectors.alauda.io~1creator", "value": "ada",
    }]);
    let written: ByteString = serde_json::from_value(response["patch"].clone()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written.0).unwrap(), patch);
    for (operation, user) in [
        ("UPDATE", ada()),
        ("CREATE", json!({})),
        ("CREATE", json!({"username": ""})),
        ("CREATE", json!({"username": "x".repeat(513)})),
    ] {
        let response = ask(&api, RUNS, &asked(operation, &user)).await;
        let said = (&response["allowed"], &response["patch"]);
        assert_eq!(said, (&json!(true), &Value::Null), "{operation} {user}");
    }
    assert_eq!(api.calls(), [], "nothing was asked for it");
}
