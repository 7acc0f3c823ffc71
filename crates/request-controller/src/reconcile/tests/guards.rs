//! Guards that only matter when caches, answers or other writers are behind or in the way: each alone.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
};

use connectors_api::access_policy::ObjectKind;
use evaluation_api::{
    access::AccessQuestion,
    v1::{EvaluateChecksRequest, EvaluateChecksResponse},
};
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Client, client::Body, core::ApiResource};
use serde_json::{Value, json};
use service_kit::{
    retry::{Backoff, RetryPolicy},
    watches::{Parse, Unreadable},
};
use tokio::time::Duration;

use super::{UPDATE, end_pod, look};
use crate::{
    api::{Live, Name, Strict},
    cache::{KindState, State},
    check_object::{AsText, NamedCheck},
    evaluator::{Evaluator, Unanswered},
    observe::{LiveLook, ObserveError, Observer},
    reconcile::{ReconcileError, Reconciler},
    seen::{MountAccess, StandingSeen},
    testing::{ApiServer, Break, Cluster},
};

fn switch(controller: &Reconciler, word: &str) {
    let data = [("enable-connectors-approval".to_owned(), word.to_owned())];
    let _ = controller.world.write().learn(&BTreeMap::from(data));
}

/// A controller that has looked at everything, found that the checks pass, and had no leave to grant: it
/// remembers the pod and the answer. It looks live as soon as it has leave.
async fn ready_to_grant(cluster: &Cluster) -> Reconciler {
    cluster.approval("approved");
    let controller = cluster.controller();
    switch(&controller, "false");
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Pending");
    switch(&controller, "true");
    controller
}

#[tokio::test]
async fn a_pod_that_the_caches_still_have_is_granted_nothing() {
    let ends: [fn(&ApiServer); 3] = [
        end_pod,
        |server| server.remove("pods", "run-deploy-pod"),
        |server| {
            server.change("pods", "run-deploy-pod", |pod| {
                pod["metadata"]["uid"] = "another".into();
            });
        },
    ];
    for end in ends {
        let cluster = Cluster::new();
        let controller = ready_to_grant(&cluster).await;
        end(&cluster.server);
        look(&controller).await.unwrap();
        assert!(cluster.managed().is_empty());
        assert_ne!(cluster.phase(), "Granted");
    }
}

#[tokio::test]
async fn an_earlier_yes_is_none_while_nobody_answers() {
    let cluster = Cluster::new();
    let controller = ready_to_grant(&cluster).await;
    cluster.answers.store(false, Ordering::SeqCst);
    look(&controller).await.unwrap();
    assert!(cluster.gives_nothing());
    assert_eq!(cluster.phase(), "Pending");
}

#[tokio::test]
async fn an_answer_to_another_question_is_none() {
    let cluster = Cluster::granted().await;
    let controller = cluster.controller();
    look(&controller).await.unwrap();
    cluster.server.change("configmaps", "approval-1", |it| {
        it["status"]["state"] = "expired".into();
    });
    cluster.fill(&controller);
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
}

/// The kind's first list is not complete, so that its objects are read from the API server.
fn config_maps() -> ObjectKind {
    ObjectKind {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
    }
}

fn list_config_maps(controller: &Reconciler) {
    let kind = config_maps();
    let resource = ApiResource::erase::<ConfigMap>(&());
    let mut state = controller.world.write();
    let _ = state.kind(&kind, KindState::Listing(resource));
}

/// Deeper than anybody reads.
fn too_deep() -> Value {
    (0..200).fold(Value::Null, |inner, _| json!([inner]))
}

#[tokio::test]
async fn an_object_that_cannot_be_read_fails_its_check() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let mut second = cluster.server.named("configmaps", "approval-1").unwrap();
    second["metadata"]["name"] = "approval-2".into();
    second["metadata"]["uid"] = "second-uid".into();
    second["data"] = too_deep();
    cluster.server.put("configmaps", second);
    let controller = cluster.controller();
    list_config_maps(&controller);
    look(&controller).await.unwrap();
    assert!(cluster.managed().is_empty());
    let said = super::attacks::told(&cluster);
    assert!(said.contains("approval-2 cannot be read"), "{said}");
}

/// A look judges no more policies than count for the connector, and a newer one pushes out no older one.
#[tokio::test]
async fn newer_policies_than_count_for_a_connector_are_not_judged() {
    let judged = |created: &'static str, others: usize| async move {
        let cluster = Cluster::new();
        cluster.approval("approved");
        let own = cluster.server.named("accesspolicies", "p").unwrap();
        cluster.server.change("accesspolicies", "p", |it| {
            it["metadata"]["creationTimestamp"] = created.into();
        });
        for number in 0..others {
            let mut other = own.clone();
            let name = format!("other-{number}");
            other["metadata"]["uid"] = format!("{name}-uid").into();
            other["metadata"]["name"] = name.into();
            other["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z".into();
            other["spec"]["checkGrantedPermission"]["requesters"] = json!([]);
            cluster.server.put("accesspolicies", other);
        }
        let controller = cluster.controller();
        look(&controller).await.unwrap();
        cluster.phase()
    };
    assert_eq!(judged("2026-01-01T00:00:00Z", 64).await, "Granted");
    assert_eq!(judged("2026-03-01T00:00:00Z", 63).await, "Granted");
    assert_eq!(judged("2026-03-01T00:00:00Z", 64).await, "Pending");
}

/// The namespace has more objects than are kept: what is needed is read live, and decides all the same.
#[tokio::test]
async fn objects_that_are_not_kept_are_read_live() {
    let overflow = |controller: &Reconciler, namespace: &str| {
        let mut state = controller.world.write();
        for number in 0..50 {
            let padding = json!({"metadata": {}, "data": "x".repeat(200 * 1024)}).to_string();
            let object = <AsText as Parse<NamedCheck>>::parse(&padding)
                .unwrap()
                .object;
            let name = Name::new(namespace, &format!("padding-{number}"));
            let _ = state.object(&config_maps(), &name, Some(Ok(object)));
        }
    };
    let cluster = Cluster::new();
    cluster.approval("approved");
    let approval = cluster.server.named("configmaps", "approval-1").unwrap();
    let namespace = approval["metadata"]["namespace"].as_str().unwrap();
    let controller = cluster.controller();
    overflow(&controller, namespace);
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Granted", 2)
    );
    cluster.approval("pending");
    let controller = cluster.controller();
    overflow(&controller, namespace);
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
}

/// Each check alone lists less than one list may return.
#[tokio::test]
async fn the_checks_of_a_policy_find_together_no_more_than_one_question_takes() {
    let found = async |checks: usize| {
        let cluster = Cluster::new();
        cluster.approval("approved");
        for number in 0..13 {
            let mut object = cluster.server.named("configmaps", "approval-1").unwrap();
            object["metadata"]["name"] = format!("large-{number}").into();
            object["metadata"]["uid"] = format!("large-uid-{number}").into();
            object["data"] = json!({"padding": "x".repeat(240 * 1024)});
            cluster.server.put("configmaps", object);
        }
        let name = cluster.server.all("accesspolicies")[0]["metadata"]["name"].clone();
        cluster
            .server
            .change("accesspolicies", name.as_str().unwrap(), |policy| {
                let all = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
                let copy = |number: usize| {
                    let mut check = all[0].clone();
                    check["name"] = format!("check-{number}").into();
                    check
                };
                *all = (0..checks).map(copy).collect();
            });
        let controller = cluster.controller();
        look(&controller).await.unwrap();
        (cluster.phase(), cluster.status().to_string())
    };
    let (phase, _) = found(2).await;
    assert_eq!(phase, "Granted");
    let (phase, status) = found(3).await;
    assert_eq!(phase, "Pending");
    assert!(status.contains("its checks cannot be judged"), "{status}");
}

#[tokio::test]
async fn policies_that_are_not_kept_are_read_live() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let controller = cluster.controller();
    cluster.crowd_policies(&controller);
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Granted", 2)
    );
}

#[tokio::test]
async fn evidence_that_cannot_be_read_any_more_lapses() {
    let cluster = Cluster::granted().await;
    cluster.server.change("configmaps", "approval-1", |it| {
        it["data"] = too_deep();
    });
    let controller = cluster.controller();
    list_config_maps(&controller);
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
}

#[tokio::test]
async fn evidence_that_the_watch_cannot_read_any_more_lapses() {
    let cluster = Cluster::granted().await;
    let controller = cluster.controller();
    cluster.server.change("configmaps", "approval-1", |it| {
        it["data"] = too_deep();
    });
    let approval = cluster.server.named("configmaps", "approval-1").unwrap();
    let namespace = approval["metadata"]["namespace"].as_str().unwrap();
    let unreadable = Unreadable {
        metadata: ObjectMeta {
            name: Some("approval-1".to_owned()),
            ..ObjectMeta::default()
        },
        problem: "too deep".to_owned(),
    };
    let name = Name::new(namespace, "approval-1");
    let wakes = {
        let mut state = controller.world.write();
        state.object(&config_maps(), &name, Some(Err(unreadable)))
    };
    assert_eq!(wakes.len(), 1, "{wakes:?}");
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
}

#[tokio::test]
async fn a_request_whose_evidence_is_not_kept_is_read_live_and_revoked() {
    let cluster = Cluster::granted().await;
    let controller = cluster.controller();
    let put = |name: &Name, uid: &str, bytes: usize| {
        let mut long = cluster
            .server
            .named("accessrequests", &Cluster::request().name)
            .unwrap();
        long["metadata"]["uid"] = uid.into();
        long["status"]["policies"][0]["policy"]["spec"]["padding"] = "x".repeat(bytes).into();
        let long = serde_json::from_value(long).unwrap();
        let mut state = controller.world.write();
        let _ = state.request(name, Ok(Arc::new(long)));
        state.requests.get(name).unwrap().lacks_evidence
    };
    let uid = cluster
        .server
        .named("accessrequests", &Cluster::request().name)
        .unwrap();
    let uid = uid["metadata"]["uid"].as_str().unwrap().to_owned();
    let others = (0..100).map(|number| Name::new("elsewhere", &number.to_string()));
    let full = others.filter(|it| put(it, &it.name, 100 * 1024)).count();
    assert!(full > 0, "the share is used up");
    cluster.approval("pending");
    cluster.fill_objects(&controller);
    assert!(put(&Cluster::request(), &uid, 100 * 1024));
    let seen = controller.observer.cached(&Cluster::request()).await;
    let seen = seen.unwrap().unwrap().request;
    assert!(!seen.status.unwrap().policies[0].check_refs.is_empty());
    let before = cluster.status()["policies"][0]["policy"].clone();
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
    // What was granted on stays on record.
    assert_eq!(cluster.status()["policies"][0]["policy"], before);
    assert!(before["spec"].is_object());
}

#[tokio::test]
async fn an_object_too_large_to_be_a_check_is_none_where_it_is_read_live() {
    let grow = |cluster: &Cluster| {
        cluster.server.change("configmaps", "approval-1", |it| {
            it["data"] = json!({"much": "x".repeat(256 * 1024)});
        });
    };
    // Alone, and beside one that is approved: all must be.
    for is_beside in [false, true] {
        let cluster = Cluster::new();
        cluster.approval("approved");
        let mut another = cluster.server.named("configmaps", "approval-1").unwrap();
        grow(&cluster);
        if is_beside {
            another["metadata"]["name"] = "approval-2".into();
            another["metadata"]["uid"] = "another-uid".into();
            cluster.server.put("configmaps", another);
        }
        let controller = cluster.controller();
        list_config_maps(&controller);
        look(&controller).await.unwrap();
        assert_eq!(
            (cluster.phase().as_str(), cluster.managed().len()),
            ("Pending", 0)
        );
    }

    let cluster = Cluster::granted().await;
    grow(&cluster);
    let controller = cluster.controller();
    list_config_maps(&controller);
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
}

/// Nobody needs to be asked here.
pub(super) struct Nobody;

impl Evaluator for Nobody {
    fn mounts(
        &self,
        _: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<MountAccess>, Unanswered>> {
        Box::pin(async { Err(Unanswered::Late(Duration::ZERO)) })
    }

    fn standing(
        &self,
        _: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<StandingSeen>, Unanswered>> {
        Box::pin(async { Err(Unanswered::Late(Duration::ZERO)) })
    }

    fn evaluate(
        &self,
        _: EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<EvaluateChecksResponse, Unanswered>> {
        Box::pin(async { Err(Unanswered::Late(Duration::ZERO)) })
    }
}

/// A client that the API server answers with an error where this is read.
fn failing(cluster: &Cluster, path: &'static str) -> Client {
    let behind = cluster.server.client();
    let service = tower::service_fn(move |request: Request<Body>| {
        let behind = behind.clone();
        async move {
            if request.method() == Method::GET && request.uri().path().contains(path) {
                let mut failed = Response::new(Body::empty());
                *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                return Ok::<_, Infallible>(failed);
            }
            Ok(behind.send(request).await.unwrap())
        }
    });
    Client::new(service, "default")
}

pub(super) const ONCE: RetryPolicy = RetryPolicy {
    attempts: 1,
    attempt: Duration::from_secs(3),
    total: Duration::from_secs(3),
    pauses: Backoff::new(Duration::from_millis(1), Duration::from_millis(2)),
};

/// A controller that cannot read the labels of accounts, by which a policy selects.
fn without_accounts(cluster: &Cluster) -> Reconciler {
    let mut by_label = cluster.server.named("accesspolicies", "p").unwrap();
    by_label["metadata"]["name"] = "q".into();
    by_label["metadata"]["uid"] = "q-uid".into();
    by_label["spec"]["checkGrantedPermission"]["requesters"] =
        json!([{"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"a": "b"}}}]);
    cluster.server.put("accesspolicies", by_label);
    let mut controller = cluster.controller();
    let client = failing(cluster, "/serviceaccounts/");
    controller.observer = Observer::new(
        Arc::clone(&controller.world),
        Live::new(client, ONCE),
        Arc::new(Nobody),
        Arc::clone(&controller.clock),
        2,
    );
    controller
}

#[tokio::test]
async fn what_ends_does_not_wait_until_it_is_known_which_policies_apply() {
    let cluster = Cluster::granted().await;
    let controller = without_accounts(&cluster);
    cluster.server.remove("accesspolicies", "p");
    let policy = Name::new("tools", "p");
    let _ = controller.world.write().policy(&policy, None);
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
}

/// One policy has said no, and another one had passed when the process ended before its grant was confirmed.
#[tokio::test]
async fn nothing_is_final_while_it_is_not_known_whether_a_policy_that_passed_applies() {
    for was_granted in [false, true] {
        let cluster = Cluster::granted().await;
        cluster.server.change("accessrequests", "request", |it| {
            let status = &mut it["status"];
            status["phase"] = "Pending".into();
            let mut passed = status["policies"][0].clone();
            passed["policy"] = json!({"name": "q", "uid": "q-uid"});
            passed["grant"]["state"] = "Granting".into();
            passed["grant"].as_object_mut().unwrap().remove("grantedAt");
            let ended = &mut status["policies"][0]["grant"];
            ended["state"] = "Ended".into();
            ended["reason"] = "CheckRejected".into();
            status["policies"].as_array_mut().unwrap().push(passed);
            if !was_granted {
                status.as_object_mut().unwrap().remove("grantedAt");
            }
        });
        let controller = without_accounts(&cluster);
        look(&controller).await.unwrap();
        assert_eq!(cluster.phase(), "Pending", "{was_granted}");
        assert!(cluster.managed().is_empty(), "{was_granted}");
        let told = cluster.status()["conditions"].to_string();
        assert!(told.contains("labels of the service account"), "{told}");
    }
}

/// By default a policy without requesters is for the pods of its own namespace. The installation may say otherwise.
#[tokio::test]
async fn nothing_is_final_while_it_is_not_known_to_whom_policies_without_requesters_apply() {
    let cluster = Cluster::new();
    let mut open = cluster.server.named("accesspolicies", "p").unwrap();
    open["metadata"]["name"] = "q".into();
    open["metadata"]["uid"] = "q-uid".into();
    let granted = &mut open["spec"]["checkGrantedPermission"];
    granted.as_object_mut().unwrap().remove("requesters");
    cluster.server.put("accesspolicies", open);
    cluster.approval("rejected");
    let controller = cluster.controller();
    *controller.world.write() = State::default();
    cluster.fill_objects(&controller);
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Pending");
    let ready = cluster.status()["conditions"].to_string();
    assert!(ready.contains("ApprovalsDisabled"), "{ready}");
    switch(&controller, "false");
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Rejected");
}

#[tokio::test]
async fn what_holds_nothing_waits_until_it_is_known_which_policies_apply() {
    for (was_granted, has_objects) in [(false, false), (true, false), (false, true), (true, true)] {
        let cluster = Cluster::granted().await;
        if !was_granted {
            cluster.server.change("accessrequests", "request", |it| {
                it.as_object_mut().unwrap().remove("status");
            });
        }
        if !has_objects {
            for plural in ["rolebindings", "roles"] {
                cluster.server.remove(plural, &super::grant_name());
            }
        }
        let observer = without_accounts(&cluster).observer;
        let seen = observer.live(&Cluster::request(), LiveLook::Whole).await;
        let is_seen = was_granted || has_objects;
        assert_eq!(seen.is_ok(), is_seen, "{was_granted} {has_objects}");
    }
}

#[tokio::test]
async fn a_sweep_removes_what_an_earlier_request_of_the_name_held() {
    let cluster = Cluster::granted().await;
    cluster.server.change("accessrequests", "request", |it| {
        it["metadata"]["uid"] = "later-uid".into();
        it.as_object_mut().unwrap().remove("status");
    });
    let swept = crate::sweep::sweep(&cluster.controller(), 0, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!((swept.removed, cluster.managed().len()), (2, 0));
}

#[tokio::test]
async fn a_request_made_anew_decides_nothing_before_the_caches_know_what_was_made_before_it() {
    let cluster = Cluster::new();
    let controller = ready_to_grant(&cluster).await;
    // The caches stand still from here on: an older request of the same pod, and ours made anew after it.
    let mut anew = cluster.server.named("accessrequests", "request").unwrap();
    anew["metadata"]["uid"] = "anew-uid".into();
    anew["status"] = Value::Null;
    let mut other = anew.clone();
    other["metadata"]["name"] = "other".into();
    other["metadata"]["uid"] = "other-uid".into();
    other["status"] = json!({"phase": "Rejected"});
    cluster.server.put("accessrequests", other);
    cluster.server.put("accessrequests", anew);
    let looked = look(&controller).await;
    assert!(
        matches!(
            looked,
            Err(ReconcileError::Observe(ObserveError::Behind(_)))
        ),
        "{looked:?}"
    );
    assert!(cluster.managed().is_empty());
    cluster.fill(&controller);
    look(&controller).await.unwrap();
    assert!(cluster.managed().is_empty());
    assert_eq!(cluster.phase(), "Invalid");
}

#[tokio::test]
async fn before_the_switch_was_ever_known_nothing_is_granted_and_what_has_ended_is_taken_back() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let controller = cluster.controller();
    *controller.world.write() = State::default();
    cluster.fill_objects(&controller);
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Pending", 0)
    );

    let cluster = Cluster::granted().await;
    end_pod(&cluster.server);
    let controller = cluster.controller();
    *controller.world.write() = State::default();
    cluster.fill_objects(&controller);
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
}

#[tokio::test]
async fn while_the_requests_are_listed_anew_none_decides() {
    let cluster = Cluster::new();
    let controller = ready_to_grant(&cluster).await;
    controller.world.write().requests.set_listed(true);
    let looked = look(&controller).await;
    assert!(
        matches!(
            looked,
            Err(ReconcileError::Observe(ObserveError::Behind(_)))
        ),
        "{looked:?}"
    );
    assert!(cluster.managed().is_empty());
    controller.world.write().requests.set_listed(false);
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
}

#[tokio::test]
async fn what_another_leader_is_granting_is_not_dropped_on_what_the_caches_say() {
    let cluster = Cluster::new();
    cluster.approval("pending");
    let behind = cluster.controller();
    look(&behind).await.unwrap();
    cluster.approval("approved");
    // The other leader loses the API server right after the evidence.
    cluster
        .server
        .after(UPDATE, |server| server.breaks(Break::Before(0)));
    cluster.look().await.unwrap_err();
    cluster.server.breaks(Break::Never);
    assert_eq!(
        cluster.status()["policies"][0]["grant"]["state"],
        "Granting"
    );
    // The caches of this one know the request as it is, and of the approval nothing yet.
    let request = cluster.server.named("accessrequests", "request").unwrap();
    let parsed = <Strict as Parse<connectors_api::AccessRequest>>::parse(&request.to_string());
    let _ = behind
        .world
        .write()
        .request(&Cluster::request(), Ok(Arc::new(parsed.unwrap())));
    look(&behind).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Granted", 2)
    );
}
