use std::convert::Infallible;
use std::sync::Mutex;

use authz::{Authorizer, ChainLink, Learning, Verdict};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Client;
use kube::client::Body;
use prometheus::Registry;
use serde_json::{Value, json};

use super::*;
use crate::auth::{Caller, CallerReviews};
use crate::caller_quotas::CallerLimits;
use crate::clock;
use crate::error::Refused;
use crate::metrics::Metrics;

const STALE: Duration = Duration::from_secs(90);

fn role(group: &str, resource: &str, verb: &str) -> Role {
    serde_json::from_value(json!({
        "metadata": {"name": "asks", "namespace": "tools"},
        "rules": [{"apiGroups": [group], "resources": [resource], "verbs": [verb]}],
    }))
    .unwrap()
}

fn binding() -> RoleBinding {
    serde_json::from_value(json!({
        "metadata": {"name": "asks", "namespace": "tools"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "asks"},
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ci"},
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "nodes"},
        ],
    }))
    .unwrap()
}

/// A world in which these users have a role in `tools`.
fn world(role: &Role) -> Arc<Shared> {
    let shared = Arc::new(Shared::default());
    change(&shared, |world| {
        world.chain.rbac.apply(role).unwrap();
        world.chain.rbac.apply(&binding()).unwrap();
    });
    shared.read().hear_what_decides(clock::now());
    shared
}

fn change(shared: &Shared, act: impl FnOnce(&mut crate::world::World)) {
    shared.change(|world| {
        act(world);
        Vec::new()
    });
}

/// An API server that allows nothing, and the reviews that it saw.
fn reviews(shared: &Arc<Shared>) -> (CallerReviews, Arc<Mutex<Vec<Value>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Body>| {
        let all = Arc::clone(&all);
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            all.lock().unwrap().push(review["spec"].clone());
            review["status"] = json!({"allowed": false});
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
        }
    });
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let indexed = IndexedRights::new(Arc::clone(shared), STALE);
    let limits = CallerLimits {
        calls: 8,
        streams: 2,
    };
    let client = Client::new(service, "default");
    let callers = CallerReviews::new(client, metrics, limits, indexed, None);
    (callers, seen)
}

fn caller(callers: &CallerReviews, name: &str, groups: &[&str]) -> Caller {
    let groups = groups.iter().map(|it| (*it).to_owned()).collect();
    let user = UserInfo {
        username: Some(name.to_owned()),
        groups: Some(groups),
        ..UserInfo::default()
    };
    callers.0.caller(user).unwrap()
}

/// Whether a user with a role may ask, without a review.
async fn may(role: &Role, (user, groups): (&str, &[&str]), right: Right, namespace: &str) -> bool {
    let (callers, seen) = reviews(&world(role));
    let caller = caller(&callers, user, groups);
    let answer = callers.authorize(&caller, right, namespace).await;
    let asked = seen.lock().unwrap().len();
    match answer {
        Ok(()) => assert_eq!(asked, 0),
        Err(Refused::Forbidden(_)) => assert_eq!(asked, right.enough().len()),
        Err(error) => panic!("{error}"),
    }
    answer.is_ok()
}

#[tokio::test]
async fn a_right_that_rbac_gives_needs_no_review() {
    let ci: (&str, &[&str]) = ("ci", &[]);
    let node: (&str, &[&str]) = ("node-1", &["system:authenticated", "nodes"]);
    let all = role(GROUP, EVALUATIONS, VERB);
    let mount = role(GROUP, "evaluations/mount", VERB);
    for (role, user, right, namespace, expected) in [
        (&all, ci, Right::Everything, "tools", true),
        (&all, node, Right::Everything, "tools", true),
        // A right that includes the needed one is enough, and not the other way round.
        (&all, ci, Right::Mount, "tools", true),
        (&mount, ci, Right::Mount, "tools", true),
        (&mount, ci, Right::Everything, "tools", false),
        // Another namespace, none, another user, and one without groups.
        (&all, ci, Right::Everything, "other", false),
        (&all, ci, Right::Everything, "", false),
        (&all, ("cl", &[]), Right::Everything, "tools", false),
        (&all, ("", &[]), Right::Everything, "tools", false),
        (&all, ("nodes", &[]), Right::Everything, "tools", false),
    ] {
        assert_eq!(
            may(role, user, right, namespace).await,
            expected,
            "{user:?} {right:?} {namespace}"
        );
    }
    for (role, expected) in [
        (role("*", "*", "*"), true),
        (role("", EVALUATIONS, VERB), false),
        (role(GROUP, "connectors", VERB), false),
        (role(GROUP, EVALUATIONS, "get"), false),
    ] {
        assert_eq!(
            may(&role, ci, Right::Everything, "tools").await,
            expected,
            "{role:?}"
        );
    }
}

/// A yes from the index is remembered nowhere.
#[tokio::test]
async fn a_right_ends_with_its_binding() {
    let shared = world(&role(GROUP, EVALUATIONS, VERB));
    let (callers, seen) = reviews(&shared);
    let ci = caller(&callers, "ci", &[]);
    let may = || callers.authorize(&ci, Right::Everything, "tools");
    may().await.unwrap();
    change(&shared, |world| world.chain.rbac.delete(&binding()));
    assert!(matches!(may().await, Err(Refused::Forbidden(it)) if it == "tools"));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_world_that_is_too_old_gives_no_right() {
    let now = clock::now();
    let shared = world(&role(GROUP, EVALUATIONS, VERB));
    let (callers, _) = reviews(&shared);
    let ci = caller(&callers, "ci", &[]);
    let crate::auth::CallerOrigin::Known(user) = &ci.who else {
        panic!("it is known");
    };
    let has = |now| {
        let indexed = &callers.0.indexed;
        indexed.has(user, Right::Everything, "tools", now)
    };
    assert!(has(now));
    assert!(!has(now + STALE * 2));
    assert!(!IndexedRights::none().has(user, Right::Everything, "tools", now));
}

#[derive(Debug)]
struct Refuses;

impl Authorizer for Refuses {
    fn authorize(&self, _: &Attributes<'_>) -> Verdict {
        Verdict::deny("not now".to_owned())
    }
}

#[derive(Debug)]
struct Asks;

impl Authorizer for Asks {
    fn authorize(&self, _: &Attributes<'_>) -> Verdict {
        Verdict::no_opinion(String::new())
    }
    fn learn(&self, _: &Attributes<'_>) -> Option<Learning> {
        Some(Box::pin(std::future::ready(())))
    }
}

/// The API server may have the same authorizer, so its answer counts.
#[tokio::test]
async fn what_an_authorizer_refuses_before_rbac_or_may_refuse_is_reviewed() {
    let refuses = || ChainLink::Other("Refuses", Box::new(Refuses));
    let asks = || ChainLink::Other("Asks", Box::new(Asks));
    for (link, place, reviewed) in [
        (refuses(), 2, 0),
        (refuses(), 0, 1),
        (asks(), 0, 1),
        (asks(), 2, 1),
    ] {
        let shared = world(&role(GROUP, EVALUATIONS, VERB));
        let (callers, seen) = reviews(&shared);
        let ci = caller(&callers, "ci", &[]);
        let name = format!("{link:?} {place}");
        change(&shared, |world| world.chain.links.insert(place, link));
        let answer = callers.authorize(&ci, Right::Everything, "tools").await;
        assert_eq!(answer.is_ok(), reviewed == 0, "{name}");
        assert_eq!(seen.lock().unwrap().len(), reviewed, "{name}");
    }
}
