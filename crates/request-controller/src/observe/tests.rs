//! What one observation reads, from where, and what it leaves out.

use std::{future::pending, time::Duration};

use evaluation_api::{
    access::AccessQuestion,
    v1::{EvaluateChecksRequest, EvaluateChecksResponse},
};
use futures::future::BoxFuture;
use kube::Client;
use serde_json::{Value, json};
use service_kit::retry::{Backoff, RetryPolicy};
use tokio::time::{Instant, timeout};

use super::*;
use crate::{
    evaluator::Unanswered, reconcile::Reconciler, seen::MountAccess, standing::LIMIT,
    testing::Cluster,
};

type Change = fn(&Cluster);

/// Has a controller read by this client, and try each read once.
pub(super) fn reads_by(controller: &mut Reconciler, cluster: &Cluster, client: Client) {
    let second = Duration::from_secs(1);
    let once = RetryPolicy {
        attempts: 1,
        attempt: 60 * second,
        total: 60 * second,
        pauses: Backoff::new(second, second),
    };
    cluster.reads_by(controller, client, once);
}

fn request(cluster: &Cluster) -> AccessRequest {
    let request = cluster.server.named("accessrequests", "request").unwrap();
    serde_json::from_value(request).unwrap()
}

async fn cached(controller: &Reconciler) -> Observed {
    let seen = controller.observer.cached(&Cluster::request()).await;
    seen.unwrap().unwrap()
}

async fn live(controller: &Reconciler, look: LiveLook) -> Observed {
    let seen = controller.observer.live(&Cluster::request(), look).await;
    seen.unwrap().unwrap()
}

/// Requests of the same account and connector that were made before.
fn earlier(cluster: &Cluster, count: usize, change: fn(&mut Value)) {
    for number in 0..count {
        let mut other = cluster.server.named("accessrequests", "request").unwrap();
        other["metadata"]["name"] = format!("earlier-{number}").into();
        other["metadata"]["uid"] = format!("earlier-uid-{number}").into();
        other["metadata"]["creationTimestamp"] = format!("2026-03-01T09:00:0{number}Z").into();
        change(&mut other);
        cluster.server.put("accessrequests", other);
    }
}

#[tokio::test]
async fn a_policy_that_granted_is_judged_again_only_if_its_grant_must_be_written_again() {
    let without_role: Change = |cluster| {
        let name = grant::name("request-uid", "p-uid");
        cluster.server.remove("roles", &name);
    };
    let changed: Change = |cluster| {
        cluster.server.change("accesspolicies", "p", |policy| {
            policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["match"] = "Any".into();
        });
    };
    let (holds, unknown) = (EvidenceState::Holds, EvidenceState::Unknown);
    for (what, changes, frozen, judged) in [
        ("as it was", vec![], Some((true, &holds, false, false)), 0),
        (
            "changed",
            vec![changed],
            Some((true, &holds, false, false)),
            0,
        ),
        (
            "taken away",
            vec![without_role],
            Some((true, &holds, false, true)),
            0,
        ),
        (
            "taken away and changed",
            vec![without_role, changed],
            Some((true, &holds, true, false)),
            1,
        ),
        (
            "deleted",
            vec![|cluster: &Cluster| cluster.server.remove("accesspolicies", "p")],
            Some((false, &unknown, false, false)),
            0,
        ),
        (
            "ended",
            vec![|cluster: &Cluster| {
                cluster.server.change("accessrequests", "request", |it| {
                    it["status"]["policies"][0]["grant"]["state"] = "Ended".into();
                });
            }],
            None,
            0,
        ),
    ] {
        let cluster = Cluster::granted().await;
        for change in changes {
            change(&cluster);
        }
        let seen = live(&cluster.controller(), LiveLook::Whole).await;
        let all = seen.frozen.iter();
        let all: Vec<_> = all
            .map(|it| (it.exists, &it.held, it.changed, it.again.is_some()))
            .collect();
        assert_eq!(all, Vec::from_iter(frozen), "{what}");
        assert_eq!(seen.policies.len(), judged, "{what}");
    }
}

#[tokio::test]
async fn an_earlier_request_decides_if_the_api_server_has_it_and_it_is_valid() {
    let unchanged: fn(&mut Value) = |_| {};
    let invalid: fn(&mut Value) = |it| it["status"] = json!({"phase": "Invalid"});
    let nothing: Change = |_| {};
    let gone: Change = |it| it.server.remove("accessrequests", "earlier-0");
    let found_invalid: Change = |it| {
        it.server.change("accessrequests", "earlier-0", |it| {
            it["status"] = json!({"phase": "Invalid"});
        });
    };
    for (count, earlier_are, meanwhile, decides, has_others) in [
        (0, unchanged, nothing, false, false),
        (1, unchanged, nothing, true, true),
        (1, unchanged, gone, false, false),
        (2, unchanged, gone, false, true),
        (1, unchanged, found_invalid, false, false),
        (1, invalid, nothing, false, false),
    ] {
        let cluster = Cluster::new();
        earlier(&cluster, count, earlier_are);
        let controller = cluster.controller();
        // The caches do not know of it.
        meanwhile(&cluster);
        let expected = TupleSeen {
            decided_by: decides.then(|| "earlier-0".to_owned()),
            has_others,
        };
        let seen = live(&controller, LiveLook::Whole).await;
        assert_eq!(seen.tuple, expected, "{count}");
    }
}

#[tokio::test]
async fn where_no_check_can_change_what_is_decided_none_is_waited_for() {
    let phase: Change = |it| {
        it.server.change("accessrequests", "request", |it| {
            it["status"] = json!({"phase": "Rejected"});
        });
    };
    let is_deleted: Change = |it| {
        it.server.change("accessrequests", "request", |it| {
            it["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:00Z".into();
        });
    };
    let pod_ended: Change = |it| {
        it.server.change("pods", "run-deploy-pod", |it| {
            it["status"]["phase"] = "Succeeded".into();
        });
    };
    let is_behind: Change = |it| {
        earlier(it, 2, |other| {
            let of = &other["metadata"]["uid"];
            other["spec"]["context"]["objectRef"]["uid"] = of.clone();
        });
    };
    for (what, change, finds_connector, needs_none) in [
        ("waits", (|_| {}) as Change, true, false),
        ("final", phase, false, true),
        ("being deleted", is_deleted, false, true),
        ("its pod ended", pod_ended, false, true),
        (
            "its pod is gone",
            |it| it.server.remove("pods", "run-deploy-pod"),
            false,
            true,
        ),
        ("another decides", |it| earlier(it, 1, |_| {}), false, true),
        (
            "no connector",
            |it| it.server.remove("connectors", "harbor"),
            false,
            true,
        ),
        ("behind others", is_behind, true, true),
    ] {
        let cluster = Cluster::new();
        change(&cluster);
        let seen = cached(&cluster.controller()).await;
        assert_eq!(seen.connector.is_some(), finds_connector, "{what}");
        assert_eq!(needs_no_check(&seen), needs_none, "{what}");
    }
}

/// The second one is that of the check objects.
#[tokio::test(start_paused = true)]
async fn a_look_before_a_grant_takes_two_round_trips() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let mut controller = cluster.controller();
    reads_by(&mut controller, &cluster, cluster.server.slow_client());
    let began = Instant::now();
    let seen = live(&controller, LiveLook::First).await;
    assert_eq!(seen.policies.len(), 1);
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test]
async fn all_fields_of_a_pod_are_read_while_a_policy_or_a_grant_may_need_them() {
    let granted_at = "2026-03-01T10:00:00Z";
    let granted = json!({"phase": "Granted", "grantedAt": granted_at});
    let revoked = json!({"phase": "Revoked", "grantedAt": granted_at});
    for (status, has_policies, is_whole) in [
        (json!({}), true, true),
        (json!({}), false, false),
        (granted, false, true),
        (json!({"phase": "Rejected"}), true, false),
        (revoked, true, false),
    ] {
        let cluster = Cluster::new();
        if !has_policies {
            cluster.server.remove("accesspolicies", "p");
        }
        cluster.server.change("accessrequests", "request", |it| {
            it["status"] = status.clone();
        });
        let observer = cluster.controller().observer;
        let read = observer.pod(&request(&cluster), Via::Caches).await;
        let (seen, whole) = read.unwrap();
        assert!(matches!(seen, PodSeen::There(_)), "{status}");
        assert_eq!(whole.is_some(), is_whole, "{status} {has_policies}");
    }
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_is_there_and_another_one_of_its_name_is_not() {
    for (uid, expected) in [("pod-uid", PodSeen::Unreadable), ("another", PodSeen::Gone)] {
        let cluster = Cluster::new();
        let observer = cluster.controller().observer;
        cluster.server.change("pods", "run-deploy-pod", |pod| {
            pod["metadata"]["uid"] = uid.into();
            pod["metadata"]["labels"] = "none".into();
        });
        let read = observer.pod(&request(&cluster), Via::Api).await;
        assert_eq!(read.unwrap(), (expected, None), "{uid}");
    }
}

/// Its grant stays until it is deleted.
#[tokio::test]
async fn a_policy_exists_until_it_is_deleted_whether_it_can_be_read_or_not() {
    for (is_readable, is_going) in [(true, false), (false, false), (true, true), (false, true)] {
        let cluster = Cluster::granted().await;
        let controller = cluster.controller();
        cluster.server.change("accesspolicies", "p", |policy| {
            if !is_readable {
                policy["spec"]["surprise"] = "x".into();
            }
            if is_going {
                policy["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:00Z".into();
            }
        });
        let seen = live(&controller, LiveLook::Whole).await;
        let exists = seen.frozen[0].exists;
        assert_eq!(exists, !is_going, "{is_readable} {is_going}");
    }
}

#[tokio::test]
async fn policies_select_by_the_labels_of_the_caches_first_and_by_the_newest_before_a_grant() {
    let cluster = Cluster::new();
    let policy = cluster.server.named("accesspolicies", "p").unwrap();
    cluster.server.remove("accesspolicies", "p");
    for from in ["api", "cache"] {
        let (labels, all) = (
            json!({"matchLabels": {"from": from}}),
            json!({"matchLabels": {"all": "x"}}),
        );
        let account =
            json!({"kind": "ServiceAccount", "nameSelector": labels, "namespaceSelector": all});
        let home =
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": labels});
        for (by, requester) in [("account", account), ("home", home)] {
            let mut policy = policy.clone();
            policy["metadata"]["name"] = format!("{by}-{from}").into();
            policy["metadata"]["uid"] = format!("{by}-{from}-uid").into();
            policy["spec"]["checkGrantedPermission"]["requesters"] = json!([requester]);
            cluster.server.put("accesspolicies", policy);
        }
    }
    let object = |kind: &str, name: &str| {
        let labels = json!({"from": "api", "all": "x"});
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}})
    };
    let mut account = object("ServiceAccount", "builder");
    account["metadata"]["namespace"] = "apps".into();
    cluster.server.put("serviceaccounts", account);
    cluster
        .server
        .put("namespaces", object("Namespace", "apps"));
    let controller = cluster.controller();
    {
        let labels = [("from", "cache"), ("all", "x")];
        let labels = Labels::from(labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let mut state = controller.world.write();
        let account = Name::new("apps", "builder");
        state.accounts.insert(account, labels.clone());
        state.namespaces.insert("apps".to_owned(), labels);
    }
    let names = |seen: Observed| -> Vec<_> {
        let policies = seen.policies.into_iter();
        policies.map(|it| it.name).collect()
    };
    let seen = cached(&controller).await;
    assert_eq!(names(seen), ["account-cache", "home-cache"]);
    let seen = live(&controller, LiveLook::Whole).await;
    assert_eq!(names(seen), ["account-api", "home-api"]);
}

#[tokio::test]
async fn a_standing_permission_that_was_heard_of_is_asked_about_before_a_decision_alone() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    let _ = controller
        .world
        .write()
        .stands(["request-uid".to_owned()].into());
    *cluster.standing.lock().unwrap() = StandingSeen::Absent;
    let request = request(&cluster);
    for (via, expected, asked) in [
        (Via::Caches, StandingSeen::There, 0),
        (Via::Api, StandingSeen::Absent, 1),
        (Via::Caches, StandingSeen::Unknown, 1),
    ] {
        let seen = controller.observer.standing(&request, via).await;
        assert_eq!(seen, expected, "{via:?}");
        assert_eq!(cluster.asked.lock().unwrap().len(), asked, "{via:?}");
    }
}

/// Asks, and gives no answer.
struct Silent;

impl Evaluator for Silent {
    fn mounts(
        &self,
        _: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<MountAccess>, Unanswered>> {
        Box::pin(pending())
    }

    fn standing(
        &self,
        _: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<StandingSeen>, Unanswered>> {
        Box::pin(pending())
    }

    fn evaluate(
        &self,
        _: EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<EvaluateChecksResponse, Unanswered>> {
        Box::pin(pending())
    }
}

/// A look that ends while it waits has heard nothing. One that waited for the whole time has heard no yes.
#[tokio::test(start_paused = true)]
async fn a_standing_permission_is_forgotten_when_its_time_to_answer_is_over_and_not_before() {
    let cluster = Cluster::new();
    let mut controller = cluster.controller();
    controller.observer.evaluator = Arc::new(Silent);
    let _ = controller
        .world
        .write()
        .stands(["request-uid".to_owned()].into());
    let request = request(&cluster);
    let hears = || controller.world.read().standing.has("request-uid");
    for _ in 0..3 {
        let look = controller.observer.standing(&request, Via::Api);
        let early = LIMIT.checked_sub(Duration::from_millis(1)).unwrap();
        assert!(timeout(early, look).await.is_err());
        assert!(hears());
    }
    let seen = controller.observer.standing(&request, Via::Api).await;
    assert_eq!((seen, hears()), (StandingSeen::Unknown, false));
}

#[tokio::test]
async fn a_request_that_is_gone_leaves_neither_its_pod_nor_its_answers() {
    let cluster = Cluster::new();
    cluster.approval("pending");
    let controller = cluster.controller();
    cached(&controller).await;
    let observer = &controller.observer;
    let are_kept = || [observer.pods.bytes(), observer.answers.bytes()].map(|it| it > 0);
    assert_eq!(are_kept(), [true, true]);
    observer.forget(&request(&cluster));
    assert_eq!(are_kept(), [false, false]);
}

#[tokio::test]
async fn policies_that_fit_again_are_kept_from_the_next_look_on() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    let are_kept = || controller.world.read().policies.of("tools").is_some();
    for name in cluster.crowd_policies(&controller) {
        let _ = controller.world.write().policy(&name, None);
    }
    assert!(!are_kept(), "nobody has read them");
    cached(&controller).await;
    assert!(are_kept());
}

#[tokio::test]
async fn what_a_look_reads_of_a_run_is_kept_for_the_next_look() {
    let cluster = Cluster::with_run();
    let controller = cluster.controller();
    let calls = async || {
        let before = cluster.server.calls();
        cached(&controller).await;
        cluster.server.calls() - before
    };
    assert!(calls().await > 0);
    assert_eq!(calls().await, 0);
}
