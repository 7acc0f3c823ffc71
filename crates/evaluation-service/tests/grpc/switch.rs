//! The feature switch: every answer tells how it stands, and no decision depends on it.

use evaluation_api::access::{AccessAnswer, AccessTarget, Decision, Gating, TokenQuestion};
use evaluation_api::client::Event;
use evaluation_api::refusal::Reason;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep, timeout};

use crate::fake_api::{FakeApi, configuration, token_for};
use crate::world::{SOON, World, binding, next, question, request, role};

fn enabled(word: &str) -> Value {
    json!({"enable-connectors-approval": word})
}

/// A pod that has its own permission.
fn granted() -> FakeApi {
    let api = FakeApi::new();
    api.put("accessrequests", &request("Granted"));
    api.put("roles", &role());
    api.put("rolebindings", &binding());
    api
}

async fn reviewed(world: &World, uid: &str) -> AccessAnswer {
    let asked = question();
    let question = TokenQuestion {
        token: token_for("connectors.alauda.io", &format!("pod-{uid}")),
        target: AccessTarget {
            connector: asked.connector,
            permission: asked.permission,
            verb: asked.verb,
        },
    };
    world.client.review_token(question).await.unwrap().answer
}

#[tokio::test]
async fn every_call_tells_how_the_switch_stands_and_decides_as_before() {
    let world = World::start(granted()).await;
    world.ready().await;
    let uid = question().pod.unwrap().uid;
    let mut watched = world.client.watcher().watch(question());
    for (word, expected) in [
        ("true", Gating::On),
        ("false", Gating::Off),
        ("true", Gating::On),
    ] {
        world.api.configure(&enabled(word));
        let told = loop {
            match next(&mut watched).await {
                Event::Answer(answer) if answer.gating == expected => break answer,
                Event::Answer(_) => {}
                other @ (Event::Refused(_) | Event::Disconnected) => panic!("{other:?}"),
            }
        };
        let checked = world.client.check_access(question()).await.unwrap();
        let by_token = reviewed(&world, &uid).await;
        for answer in [*told, checked, by_token] {
            assert_eq!(answer.gating, expected);
            assert!(
                matches!(answer.decision, Decision::AllowedPod(_)),
                "{answer:?}"
            );
        }
        // Another pod of that name: a no is one, whatever passes at the mounts.
        let other = reviewed(&world, "another").await;
        assert_eq!((other.decision, other.gating), (Decision::Denied, expected));
    }
}

#[tokio::test]
async fn the_last_known_value_holds_and_before_there_is_one_nothing_is_answered() {
    for unknown in [None, Some(json!({})), Some(enabled("maybe"))] {
        let api = granted();
        match &unknown {
            None => api.remove("configmaps", &configuration(&Value::Null)),
            Some(data) => api.configure(data),
        }
        let world = World::start(api).await;
        let all_lists = async {
            while world.api.watched() != crate::listed() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, all_lists).await.unwrap();
        let error = world.client.check_access(question()).await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::NotReady), "{unknown:?}");

        world.api.configure(&enabled("false"));
        world.ready().await;
        world.api.configure(&enabled("maybe"));
        world.api.remove("configmaps", &configuration(&Value::Null));
        let gone = async {
            while world.metric("connectors_config_present") != "0" {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, gone).await.unwrap();
        let answer = world.client.check_access(question()).await.unwrap();
        assert_eq!(answer.gating, Gating::Off);
        assert!(answer.is_allowed());
    }
}
