use kube::client::Body;
use prometheus::Registry;
use serde_json::{Value, json};

use super::*;
use crate::{cache::Job, testing::Cluster};
use service_kit::{controller::queue::Urgency, readiness::Status, shutdown::Tasks};

#[test]
fn an_account_whose_labels_cannot_be_read_is_found_by_no_selector() {
    let labels = |labels: serde_json::Value| {
        let account = json!({"metadata": {"name": "a", "labels": labels}});
        let account: Guarded<ServiceAccount, Named> =
            serde_json::from_str(&account.to_string()).unwrap();
        labels_in(Change::There(Name::new("devops", "a"), account)).1
    };
    assert_eq!(labels(json!({})), Some(BTreeMap::new()));
    assert!(labels(json!({"a": "b"})).is_some());
    assert_eq!(labels(json!({"a": "x".repeat(9000)})), None);
}

fn feeds() -> RequestFeeds {
    let nobody = tower::service_fn(|_: http::Request<Body>| async {
        Err::<http::Response<Body>, _>(std::io::Error::from(std::io::ErrorKind::NotFound))
    });
    let registry = Registry::new();
    RequestFeeds {
        client: Client::new(nobody, "default"),
        world: Arc::default(),
        sink: Arc::new(|_| {}),
        deleted: Arc::new(|_| {}),
        metrics: WatchMetrics::register(&registry).unwrap(),
        namespace: "connectors-system".to_owned(),
        told: Metrics::register(&registry).unwrap(),
    }
}

fn there<T: serde::de::DeserializeOwned>(object: &Value) -> Change<T> {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let name = Name::new(text("namespace"), text("name"));
    Change::There(name, serde_json::from_str(&object.to_string()).unwrap())
}

/// The object, or the same while it is being deleted and something keeps it.
fn kept(mut object: Value, is_kept: bool) -> Value {
    if is_kept {
        object["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:05Z".into();
        object["metadata"]["finalizers"] = json!(["example.com/keeps"]);
    }
    object
}

fn request() -> Value {
    json!({
        "metadata": {"name": "r", "namespace": "tools", "uid": "r-uid", "creationTimestamp": "2026-03-01T10:00:00Z"},
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "builder"},
            "connectorRef": {"name": "harbor"},
            "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "apps", "name": "p", "uid": "u"}},
        },
        "status": {"phase": "Granted", "policies": [{"policy": {}, "grant": {"state": "Granted"}}]},
    })
}

#[tokio::test]
async fn the_caches_have_no_connector_and_no_policy_that_is_being_deleted() {
    let connector =
        json!({"metadata": {"name": "harbor", "namespace": "tools", "uid": "c"}, "spec": {}});
    let policy = json!({"metadata": {"name": "p", "namespace": "tools", "uid": "p"}, "spec": {}});
    for is_kept in [false, true] {
        let feeds = feeds();
        let _ = feeds.request(there(&request()));
        let _ = feeds.connector(there(&kept(connector.clone(), is_kept)));
        let name = Name::new("tools", "harbor");
        let known = feeds.world.read().connectors.contains_key(&name);
        assert_eq!(known, !is_kept, "connector");
        let _ = feeds.policy(there(&kept(policy.clone(), is_kept)));
        let known = feeds.world.read().policies.of("tools").unwrap();
        assert_eq!(known.is_empty(), is_kept, "policy");
    }
}

type Take = fn(&RequestFeeds, &Value) -> Wakes;

#[tokio::test]
async fn that_something_begins_to_be_deleted_is_told_at_once_to_those_who_hold_it() {
    let object = |name: &str, namespace: &str, uid: &str, spec: Value| {
        json!({
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": "1"},
            "spec": spec,
        })
    };
    let table: [(Value, Take); 4] = [
        (object("harbor", "tools", "c", json!({})), |feeds, it| {
            feeds.connector(there(it))
        }),
        (object("p", "tools", "p", json!({})), |feeds, it| {
            feeds.policy(there(it))
        }),
        (
            object(
                "p",
                "apps",
                "u",
                json!({"serviceAccountName": "builder", "containers": []}),
            ),
            |feeds, it| feeds.pod(there(it)),
        ),
        (request(), |feeds, it| feeds.request(there(it))),
    ];
    let job = (Job::Request(Name::new("tools", "r")), Urgency::Urgent);
    for (object, take) in table {
        let feeds = feeds();
        let _ = feeds.request(there(&request()));
        let _ = take(&feeds, &object);
        let wakes = take(&feeds, &kept(object.clone(), true));
        assert_eq!(wakes, std::slice::from_ref(&job), "{object}");
    }
}

#[tokio::test]
async fn a_pod_that_is_being_deleted_is_there_and_terminating() {
    for is_kept in [false, true] {
        let feeds = feeds();
        let pod = json!({
            "metadata": {"name": "p", "namespace": "apps", "uid": "u", "resourceVersion": "1"},
            "spec": {"serviceAccountName": "builder", "containers": []},
        });
        let _ = feeds.pod(there(&kept(pod, is_kept)));
        let state = feeds.world.read();
        let cached = &state.pods[&Name::new("apps", "p")];
        let facts = cached.facts.clone().unwrap();
        assert_eq!((facts.terminating, facts.finished), (is_kept, false));
    }
}

#[tokio::test]
async fn the_caches_say_of_a_grant_that_it_is_being_deleted() {
    for is_kept in [false, true] {
        let feeds = feeds();
        let metadata = json!({
            "metadata": {"name": "g", "namespace": "tools", "labels": {
                "connectors.alauda.io/accessRequestUid": "r-uid",
            }},
        });
        let mut bound = metadata.clone();
        bound["roleRef"] =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "g"});
        let _ = feeds.grant(GrantKind::Role, there(&kept(metadata, is_kept)), role);
        let _ = feeds.grant(
            GrantKind::RoleBinding,
            there(&kept(bound, is_kept)),
            binding,
        );
        let state = feeds.world.read();
        assert_eq!(state.grants.count(), 2);
        assert!(state.grants.all().all(|it| it.is_going() == is_kept));
    }
}

#[tokio::test]
async fn the_caches_know_while_requests_are_listed() {
    let feeds = feeds();
    for listed in [true, false] {
        feeds.requests_are_listed(listed);
        assert_eq!(feeds.world.read().requests.are_listed(), listed);
    }
}

#[tokio::test(start_paused = true)]
async fn the_caches_have_everything_once_each_list_was_received() {
    let cluster = Cluster::granted().await;
    let feeds = RequestFeeds {
        client: cluster.server.client(),
        ..feeds()
    };
    let (process, started) = Readiness::starting();
    let (caches, all_taken) = Caches::starting();
    let tasks = Tasks::new();
    tokio::spawn(feeds.start(&process, &caches, tasks.stop()));
    started.ready();
    all_taken.into_iter().for_each(ReadinessPart::ready);
    caches.complete.ready().await;
    let state = feeds.world.read();
    assert!(!state.requests.are_listed(), "no list is incomplete");
    assert_eq!(state.requests.counts(|_| true).granted, 1);
    assert_eq!((state.pods.len(), state.grants.count()), (1, 2));
    // Nothing is known of the configuration.
    let missing = Status::Missing(vec!["connectors-config".to_owned()]);
    assert_eq!(process.status(), missing);
}

#[tokio::test(start_paused = true)]
async fn what_may_end_is_known_before_accounts_and_namespaces_are_listed() {
    for unlisted in ["LIST serviceaccounts", "LIST namespaces"] {
        let cluster = Cluster::granted().await;
        cluster
            .server
            .refuse(unlisted, http::StatusCode::INTERNAL_SERVER_ERROR);
        let feeds = RequestFeeds {
            client: cluster.server.client(),
            ..feeds()
        };
        let (process, _started) = Readiness::starting();
        let (caches, all_taken) = Caches::starting();
        let tasks = Tasks::new();
        tokio::spawn(feeds.start(&process, &caches, tasks.stop()));
        all_taken.into_iter().for_each(ReadinessPart::ready);
        caches.of_grants.ready().await;
        tokio::time::sleep(std::time::Duration::from_mins(1)).await;
        let missing = caches.complete.status();
        assert!(
            matches!(missing, Status::Missing(it) if it.len() == 1),
            "{unlisted}"
        );
        cluster.server.accept();
        caches.complete.ready().await;
    }
}

#[tokio::test]
async fn labels_of_accounts_and_namespaces_reach_the_requests_that_wait_for_them() {
    let mut waiting = request();
    waiting.as_object_mut().unwrap().remove("status");
    let table: [(&str, Take); 2] = [
        ("builder", |feeds, it| feeds.account(there(it))),
        ("apps", |feeds, it| feeds.namespace(there(it))),
    ];
    for (name, take) in table {
        let feeds = feeds();
        let _ = feeds.request(there(&waiting));
        let mut object = json!({"metadata": {"name": name, "labels": {"a": "b"}}});
        if name == "builder" {
            object["metadata"]["namespace"] = "apps".into();
        }
        let job = (Job::Request(Name::new("tools", "r")), Urgency::Normal);
        assert_eq!(take(&feeds, &object), [job], "{name}");
        let state = feeds.world.read();
        let labels = state.accounts.values().chain(state.namespaces.values());
        let labels: Vec<_> = labels.cloned().collect();
        let expected = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(labels, [expected], "{name}");
    }
}

#[tokio::test]
async fn the_configuration_wakes_all_makes_the_process_ready_and_outlasts_its_config_map() {
    let feeds = feeds();
    let _ = feeds.request(there(&request()));
    let (process, started) = Readiness::starting();
    let mut configured = vec![process.part("connectors-config")];
    started.ready();
    let config = json!({
        "metadata": {"name": CONFIG_MAP, "namespace": "connectors-system"},
        "data": {"enable-connectors-approval": "true"},
    });
    let job = (Job::Request(Name::new("tools", "r")), Urgency::Urgent);
    let wakes = feeds.config(there(&config), &mut configured);
    assert_eq!(wakes, std::slice::from_ref(&job));
    assert_eq!(process.status(), Status::Ready);
    assert_eq!(feeds.told.config_present.get(), 1);
    assert_eq!(feeds.told.enabled.get(), Some(1.0));
    let gone = Change::Gone(Name::new("connectors-system", CONFIG_MAP));
    assert_eq!(feeds.config(gone, &mut configured), []);
    assert_eq!(feeds.told.config_present.get(), 0);
    assert!(feeds.world.config().is_some_and(|it| it.enabled));
}
