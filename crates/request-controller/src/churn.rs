//! Three days of virtual time in which objects of all kinds come and go: no map grows with deleted objects.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use connectors_api::{AccessRequest, access_policy::ObjectKind};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use service_kit::{
    controller::queue::{Looked, Queue, Urgency},
    watches::{Parse as _, Unreadable},
};
use tokio::time::advance;

use crate::{
    api::Name,
    cache::{ConnectorCached, Job, KindState, PodCached, PolicyCached, State, Wakes, World},
    check_object::AsText,
    controller::queue,
    seen::{ConnectorSeen, GrantKind, Managed, ManagedObject, PodFacts, Unread},
};

const DAYS: usize = 3;
const SECONDS: usize = DAYS * 24 * 60 * 60;
/// The maximum number of objects of one kind that exist at the same time.
const THINGS: usize = 40;
const KINDS: usize = 8;

fn config_maps() -> ObjectKind {
    ObjectKind {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
    }
}

fn unreadable() -> Unreadable {
    Unreadable {
        metadata: ObjectMeta::default(),
        problem: String::new(),
    }
}

/// A request in some phase, for one of a few pods; some are long.
fn request(name: &Name, number: usize) -> Arc<AccessRequest> {
    let status = [
        Value::Null,
        json!({"phase": "Pending"}),
        json!({"phase": "Rejected"}),
        json!({"phase": "Granted", "policies": [{
            "policy": {"spec": {"padding": "x".repeat(number % 3 * 10_000)}}, "grant": {"state": "Granted"},
            "checkRefs": [{"name": "c", "ref": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x1"}}],
        }]}),
    ];
    let request = json!({
        "metadata": {"name": name.name, "namespace": name.namespace, "uid": format!("u{}", number % 50)},
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "x1"},
            "connectorRef": {"name": format!("x{}", number % 5)},
            "context": {"objectRef": {
                "apiVersion": "v1", "kind": "Pod", "namespace": format!("n{}", number % 4),
                "name": format!("x{}", number % 11), "uid": format!("p{}", number % 13),
            }},
        },
        "status": status[number % status.len()],
    });
    Arc::new(serde_json::from_value(request).unwrap())
}

fn role(number: usize) -> Managed {
    let label = connectors_api::labels::ACCESS_REQUEST_UID.to_owned();
    let metadata = ObjectMeta {
        labels: Some(BTreeMap::from([(label, format!("u{}", number % 50))])),
        ..ObjectMeta::default()
    };
    Managed {
        object: ManagedObject::Role(Err(Unread)),
        metadata,
    }
}

/// Applies one change. With `all_goes` it deletes the object at that place.
fn change(state: &mut State, dice: &mut StdRng, number: usize, all_goes: Option<usize>) -> Wakes {
    let at = all_goes.unwrap_or_else(|| dice.random_range(0..THINGS * KINDS));
    let (kind, thing) = (at / THINGS, at % THINGS);
    let is_there = all_goes.is_none() && dice.random_range(0..2) == 0;
    let name = Name::new(&format!("n{}", thing % 4), &format!("x{thing}"));
    let labels = || BTreeMap::from([("role".to_owned(), format!("r{}", number % 3))]);
    match kind {
        // One in ten is unreadable.
        0 if is_there && number.is_multiple_of(10) => state.request(&name, Err(unreadable())),
        0 if is_there => state.request(&name, Ok(request(&name, number))),
        0 => state.request_gone(&name).1,
        1 => {
            let pod = PodCached {
                uid: format!("p{}", number % 13).into(),
                version: number.to_string().into(),
                facts: Some(PodFacts {
                    finished: number.is_multiple_of(5),
                    terminating: false,
                    account: "x1".to_owned(),
                }),
                gated_since: number
                    .is_multiple_of(3)
                    .then(|| Timestamp::from_second(i64::try_from(number % 100).unwrap()).unwrap()),
            };
            state.pod(&name, is_there.then_some(pod))
        }
        2 => {
            let connector = ConnectorCached {
                seen: ConnectorSeen {
                    uid: number.to_string(),
                },
                labels: labels(),
            };
            state.connector(&name, is_there.then_some(connector))
        }
        3 => {
            let policy = PolicyCached {
                uid: number.to_string(),
                deleting: number.is_multiple_of(7),
                policy: Err(unreadable()),
            };
            state.policy(&name, is_there.then_some(policy))
        }
        4 => state.account(&name, is_there.then(labels)),
        5 => state.namespace(&name.namespace, is_there.then(labels)),
        6 => {
            let role = role(number);
            state.grant(GrantKind::Role, &name, is_there.then_some(&role), None)
        }
        _ => {
            let object = AsText::parse(r#"{"metadata": {"labels": {"run": "1"}}}"#)
                .unwrap()
                .object;
            let object = if number.is_multiple_of(9) {
                Err(unreadable())
            } else {
                Ok(object)
            };
            state.object(&config_maps(), &name, is_there.then_some(object))
        }
    }
}

/// Wakes jobs, and reconciles those that are due.
fn look(queue: &Queue<Job>, wakes: Wakes, dice: &mut StdRng) {
    for (job, lane) in wakes {
        queue.wake(job, lane);
    }
    for lane in Urgency::ALL {
        while let Some(taken) = queue.take(&[lane]).now_or_never() {
            if dice.random_range(0..5) == 0 {
                queue.changed(&taken.job);
            }
            let ends = [
                Looked::Done,
                Looked::Done,
                Looked::Failed,
                Looked::FailedSafely,
            ];
            queue.done(&taken.job, ends[dice.random_range(0..ends.len())]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_map_is_as_it_was_after_three_days_of_churn() {
    let queue = queue(Arc::new(World::default()));
    for lane in Urgency::ALL {
        queue.open(lane);
    }
    let (mut state, mut dice) = (State::default(), StdRng::seed_from_u64(7));
    let jobs = queue.census();
    let watched = KindState::Watching(ApiResource::erase::<ConfigMap>(&()));
    let _ = state.kind(&config_maps(), watched);
    let caches = state.census();
    let mut most = 0;
    for number in 0..SECONDS {
        let wakes = change(&mut state, &mut dice, number, None);
        look(&queue, wakes, &mut dice);
        advance(Duration::from_secs(1)).await;
        if number.is_multiple_of(60) {
            most = most.max(state.census()[..9].iter().sum());
        }
    }
    assert!(most > THINGS, "nothing was there");
    assert!(most < 20 * THINGS, "{most} entries at a time");
    for thing in 0..THINGS * KINDS {
        let wakes = change(&mut state, &mut dice, thing, Some(thing));
        look(&queue, wakes, &mut dice);
    }
    assert_eq!(state.census(), caches);
    // A failed job is retried until it succeeds. Then no map of the queue contains it.
    for _ in 0..100 {
        advance(Duration::from_mins(3)).await;
        for lane in Urgency::ALL {
            while let Some(taken) = queue.take(&[lane]).now_or_never() {
                queue.done(&taken.job, Looked::Done);
            }
        }
    }
    let (left, last) = (queue.census(), jobs.len() - 1);
    assert_eq!(left[..last], jobs[..last]);
    // Jobs that were changed once are remembered until there are many.
    assert!(left[last] <= 4096, "{left:?}");
}
