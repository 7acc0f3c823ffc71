use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::fake_api::{self, answer, refusal};

const GROUP: &str = "example.com/v1";

fn door() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Door"), "doors")
}

/// An API server that has doors in namespaces and houses in none, or that answers with this status.
fn server(status: StatusCode) -> Client {
    fake_api::client(move |request: Request<Body>| {
        assert_eq!(request.uri().path(), "/apis/example.com/v1");
        let resource = |kind: &str, plural: &str, is_namespaced: bool| {
            json!({
                "kind": kind, "name": plural, "namespaced": is_namespaced, "singularName": "", "verbs": ["get"],
            })
        };
        let resources = [
            resource("Door", "doors", true),
            resource("House", "houses", false),
        ];
        let list = json!({"groupVersion": GROUP, "resources": resources});
        let answer = match status {
            StatusCode::OK => answer(status, list.to_string()),
            refused => refusal(refused),
        };
        async { answer }
    })
}

#[tokio::test]
async fn a_kind_is_missing_only_if_the_server_says_so() {
    for (status, kind, expected) in [
        (StatusCode::OK, "Door", Some(Served::Namespaced(door()))),
        (StatusCode::OK, "House", Some(Served::ClusterScoped)),
        (StatusCode::OK, "Window", Some(Served::Missing)),
        (StatusCode::NOT_FOUND, "Door", Some(Served::Missing)),
        (StatusCode::FORBIDDEN, "Door", None),
        (StatusCode::SERVICE_UNAVAILABLE, "Door", None),
    ] {
        let told = served(&server(status), GROUP, kind).await;
        assert_eq!(told, expected, "{kind}, {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_does_not_say_that_a_kind_is_missing() {
    let silent = fake_api::client(|_| std::future::pending());
    let began = Instant::now();
    assert_eq!(served(&silent, GROUP, "Door").await, None);
    assert_eq!(began.elapsed(), LIMIT);
}

#[test]
fn a_whole_object_has_its_kind_and_all_its_fields_but_the_managed_ones() {
    let object = json!({
        "metadata": {"name": "a", "managedFields": [{"manager": "m"}]}, "spec": {"is": "open"},
    });
    let told = whole(serde_json::from_value(object).unwrap(), &door());
    let expected = json!({
        "apiVersion": GROUP, "kind": "Door", "metadata": {"name": "a"}, "spec": {"is": "open"},
    });
    assert_eq!(told, expected);
}
