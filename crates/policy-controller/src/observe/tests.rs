use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use testkit::{ApiServer, CallFault, CallPoint, EventFault, EventPoint, Faults, Verb};
use tokio::time::{sleep, timeout};

use super::{around::ACCOUNT_LISTS, *};
use crate::testing::{
    OWN, api_server, calls, job_of, labels, managed_for, put_policy, rbac, reading, reconciler,
    spec,
};

fn unknown() -> PolicyKnown {
    PolicyKnown {
        name: None,
        policy: None,
        namespace_keys: Arc::default(),
    }
}

/// A policy of that name with this spec in the cache.
fn known(name: &str, content: &Value) -> PolicyKnown {
    PolicyKnown {
        name: Some(name.to_owned()),
        policy: Some(Arc::new(AccessPolicy::new(name, spec(content)))),
        namespace_keys: Arc::default(),
    }
}

/// Its subjects are service accounts that labels select in namespaces that labels select: it needs all lists.
fn selecting() -> Value {
    let subject = json!({
        "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"app": "ci"}},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    });
    reading(&json!({}), &json!([subject]))
}

/// A policy whose only subject is a user.
fn of_alice() -> Value {
    reading(&json!({}), &json!([{"kind": "User", "name": "alice"}]))
}

/// Makes a policy, and returns its UID.
fn put(server: &ApiServer, name: &str, content: &Value) -> String {
    let policy = server.create(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": name, "namespace": OWN}, "spec": content,
    }));
    policy["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// A fault of all lists of these kinds.
struct OnLists(&'static [&'static str], CallFault);

impl Faults for OnLists {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        if point.verb == Verb::List && self.0.contains(&&*point.resource) {
            self.1.clone()
        } else {
            CallFault::None
        }
    }

    fn on_event(&self, _: &EventPoint) -> EventFault {
        EventFault::None
    }
}

/// What a policy selects from, and all of it with what it gave.
const AROUND: [&str; 3] = ["connectors", "namespaces", "serviceaccounts"];
const LISTS: [&str; 5] = [
    "connectors",
    "namespaces",
    "serviceaccounts",
    "roles",
    "rolebindings",
];

/// The number of lists of each kind.
fn lists(server: &ApiServer) -> [usize; 5] {
    let calls = calls(server);
    LISTS.map(|resource| {
        let lists = calls.iter().map(|it| &it.point);
        lists
            .filter(|it| it.verb == Verb::List && it.resource == resource)
            .count()
    })
}

#[tokio::test]
async fn a_policy_whose_name_is_not_known_is_found_by_its_uid() {
    let server = api_server();
    let policies = ["p", "q"].map(|name| (name, put_policy(&server, name)));
    let observer = reconciler(&server).observer;
    let found = async |uid: &str| {
        let read = observer.read(&job_of(uid), unknown()).await;
        read.unwrap().policy.map(|it| it.owner.name)
    };
    for (name, uid) in policies {
        assert_eq!(found(&uid).await, Some(Name::new(OWN, name)));
    }
    assert_eq!(found("other").await, None);
}

#[tokio::test(start_paused = true)]
async fn any_number_of_looks_at_a_time_costs_two_lists_of_each_kind_and_leaves_nothing() {
    for count in [3, 200] {
        let server = api_server();
        let names: Vec<_> = (0..count).map(|it| format!("p{it}")).collect();
        let uids: Vec<_> = names
            .iter()
            .map(|name| put(&server, name, &selecting()))
            .collect();
        for uid in &uids {
            let rest = json!({"rules": []});
            let managed = managed_for(uid);
            server.create(rbac("Role", &format!("policy-{uid}"), &managed, &rest));
        }
        server.set_faults(Arc::new(OnLists(
            &LISTS,
            CallFault::Delay(Duration::from_millis(50)),
        )));
        let observer = reconciler(&server).observer;
        let looks = names.iter().zip(&uids).map(|(name, uid)| {
            let (job, known) = (job_of(uid), known(name, &selecting()));
            let observer = &observer;
            async move { observer.read(&job, known).await.unwrap() }
        });
        for (read, uid) in join_all(looks).await.iter().zip(&uids) {
            let roles: Vec<_> = read.there.roles.keys().collect();
            assert_eq!(roles, [&format!("policy-{uid}")], "its own, and no other");
            assert!(read.around().namespaces.contains_key(OWN));
        }
        assert_eq!(lists(&server), [2; 5], "{count} looks");
        assert_eq!(observer.around.waiting() + observer.managed.waiting(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn any_number_of_policies_that_are_gone_costs_two_lists_of_policies() {
    let server = api_server();
    put_policy(&server, "p");
    server.set_faults(Arc::new(OnLists(
        &["accesspolicies"],
        CallFault::Delay(Duration::from_millis(50)),
    )));
    let observer = reconciler(&server).observer;
    let looks = (0..200).map(|number| {
        let observer = &observer;
        async move {
            let job = job_of(&format!("gone-{number}"));
            let read = observer.read(&job, unknown()).await;
            read.unwrap().policy.is_none()
        }
    });
    assert!(join_all(looks).await.into_iter().all(|it| it));
    let calls = calls(&server);
    let calls = calls
        .iter()
        .filter(|it| it.point.resource == "accesspolicies");
    assert_eq!(calls.count(), 2);
    assert_eq!(observer.nameless.subjects(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_look_uses_no_list_that_began_before_it() {
    let server = api_server();
    let uid = put(&server, "p", &selecting());
    let delay = CallFault::Delay(Duration::from_millis(50));
    server.set_faults(Arc::new(OnLists(&LISTS, delay)));
    let observer = reconciler(&server).observer;
    let (job, known) = (job_of(&uid), known("p", &selecting()));
    let second = async {
        sleep(Duration::from_millis(25)).await;
        observer.read(&job, known.clone()).await
    };
    let (first, second) = futures::join!(observer.read(&job, known.clone()), second);
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(lists(&server), [2; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_fails_no_look_of_another_namespace_and_none_that_comes_later() {
    let server = api_server();
    let uid = put(&server, "p", &of_alice());
    let observer = reconciler(&server).observer;
    let look = async || observer.read(&job_of(&uid), known("p", &of_alice())).await;
    let refused = CallFault::Refuse {
        code: 403,
        retry_after: None,
    };
    server.set_faults(Arc::new(OnLists(&["connectors"], refused)));
    let failed = join_all((0..3).map(|_| look())).await;
    assert!(failed.iter().all(Result::is_err));
    server.set_faults(Arc::new(testkit::NoFaults));
    assert!(look().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_gone_waits_for_no_list_of_what_it_selected_from() {
    for fault in [
        CallFault::HangBefore,
        CallFault::Refuse {
            code: 403,
            retry_after: None,
        },
    ] {
        for is_there in [false, true] {
            let server = api_server();
            let uid = if is_there {
                let uid = put(&server, "p", &selecting());
                server.change("accesspolicies", OWN, "p", |it| {
                    it["metadata"]["finalizers"] = json!(["example.com/keep"]);
                });
                server.delete("accesspolicies", OWN, "p");
                uid
            } else {
                "gone".to_owned()
            };
            server.set_faults(Arc::new(OnLists(&AROUND, fault.clone())));
            let observer = reconciler(&server).observer;
            let begun = Instant::now();
            let job = job_of(&uid);
            let read = observer.read(&job, known("p", &selecting()));
            let read = read.await.unwrap();
            assert_eq!(read.policy.is_some_and(|it| it.deleting), is_there);
            assert_eq!(begun.elapsed(), Duration::ZERO);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_live_policy_selects_from_is_read_whatever_the_cache_said() {
    let slow = Duration::from_millis(50);
    for late in [&LISTS[..3], &["roles"]] {
        let server = api_server();
        server.change("namespaces", "", OWN, |it| {
            it["metadata"]["labels"] = json!({"team": "a"});
        });
        server.create(json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "ci", "namespace": OWN, "labels": {"app": "ci"}},
        }));
        server.set_faults(Arc::new(OnLists(late, CallFault::Delay(slow))));
        let uid = put(&server, "p", &selecting());
        let observer = reconciler(&server).observer;
        for known in [known("p", &of_alice()), known("p", &selecting()), unknown()] {
            let read = observer.read(&job_of(&uid), known).await.unwrap();
            let around = read.around();
            assert_eq!(around.namespaces[OWN]["team"], "a");
            assert_eq!(around.accounts[OWN]["ci"], labels(&[("app", "ci")]));
        }
        // What is not selected any more is not waited for, and its failure is none.
        server.change("accesspolicies", OWN, "p", |it| it["spec"] = of_alice());
        let refused = CallFault::Refuse {
            code: 403,
            retry_after: None,
        };
        server.set_faults(Arc::new(OnLists(&["namespaces"], refused)));
        let read = observer.read(&job_of(&uid), known("p", &selecting())).await;
        assert!(read.unwrap().around().namespaces.is_empty());
    }
}

/// The same as [`selecting`], for accounts with another label.
fn selecting_app(app: usize) -> Value {
    let subject = json!({
        "kind": "ServiceAccount",
        "nameSelector": {"matchLabels": {"app": format!("app-{app}")}},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    });
    reading(&json!({}), &json!([subject]))
}

/// Tenants choose the labels, and each list may hold all accounts of the cluster.
#[tokio::test(start_paused = true)]
async fn only_so_many_lists_of_accounts_are_on_their_way_however_many_labels_select_them() {
    let slow = Duration::from_millis(50);
    let server = api_server();
    server.set_faults(Arc::new(OnLists(
        &["serviceaccounts"],
        CallFault::Delay(slow),
    )));
    let observer = reconciler(&server).observer;
    let looks = (0..4 * ACCOUNT_LISTS).map(|number| {
        let (name, content) = (format!("p{number}"), selecting_app(number));
        let job = job_of(&put(&server, &name, &content));
        let observer = &observer;
        async move { observer.read(&job, known(&name, &content)).await }
    });
    let answered = async {
        let mut answered = Vec::new();
        for _ in 0..4 {
            sleep(slow / 2).await;
            answered.push(lists(&server)[2]);
            sleep(slow / 2).await;
        }
        answered
    };
    let (looks, answered) = futures::join!(join_all(looks), answered);
    assert!(looks.iter().all(Result::is_ok));
    assert_eq!(answered, [0, 1, 2, 3].map(|it| it * ACCOUNT_LISTS));
}

#[tokio::test(start_paused = true)]
async fn a_look_at_a_changed_policy_keeps_no_place_for_what_the_cache_said() {
    let server = api_server();
    let delay = CallFault::Delay(Duration::from_millis(50));
    server.set_faults(Arc::new(OnLists(&["serviceaccounts"], delay)));
    let observer = reconciler(&server).observer;
    let looks = (0..ACCOUNT_LISTS).map(|number| {
        let name = format!("p{number}");
        let job = job_of(&put(&server, &name, &selecting_app(number)));
        let cached = known(&name, &selecting_app(number + ACCOUNT_LISTS));
        let observer = &observer;
        async move { observer.read(&job, cached).await }
    });
    let looks = timeout(Duration::from_mins(1), join_all(looks)).await;
    let looks = looks.expect("no look waits for a place that another one keeps");
    assert!(looks.iter().all(Result::is_ok));
    assert!(lists(&server)[2] > ACCOUNT_LISTS, "both scopes were begun");
}
