//! Checks that ask for a proof of the pod's own pipeline run.

use serde_json::{Value, json};

use super::look;
use crate::{
    cache::Job,
    testing::{Cluster, tekton::take_away},
};

/// The only object of the only check in the status.
fn only(cluster: &Cluster) -> Value {
    cluster.status()["policies"][0]["checkRefs"][0].clone()
}

/// The last event at the pod, which tells its own namespace about the objects. The status does not: the policy is in
/// another namespace.
fn told(cluster: &Cluster) -> String {
    let events = cluster.server.events().into_iter();
    let of_pod = events.filter(|it| it["regarding"]["kind"] == "Pod");
    let mut notes = of_pod.filter_map(|it| it["note"].as_str().map(str::to_owned));
    notes.next_back().unwrap_or_default()
}

fn assert_told(cluster: &Cluster, words: &str) {
    let told = told(cluster);
    assert!(told.contains(words), "{words}: {told}");
}

async fn granted() -> Cluster {
    let cluster = Cluster::with_run();
    cluster.approve();
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
    cluster
}

fn cancel(cluster: &Cluster) {
    cluster.server.change("pipelineruns", "run", |run| {
        run["spec"]["status"] = "Cancelled".into();
    });
}

#[tokio::test]
async fn a_proven_approval_grants_and_the_status_lists_what_proves_it() {
    let cluster = Cluster::with_run();
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Pending");
    assert_told(
        &cluster,
        "waits for its approvers alice: kubectl connectors approve approvaltask/",
    );
    cluster.approve();
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
    let object = only(&cluster);
    let lineage = object["lineage"].as_array().unwrap().iter();
    let lineage: Vec<_> = lineage
        .map(|it| (it["kind"].as_str().unwrap(), it["uid"].as_str().unwrap()))
        .collect();
    let proof = [
        ("PipelineRun", "uid-PipelineRun-run"),
        ("TaskRun", "uid-TaskRun-run-deploy"),
        ("CustomRun", "uid-CustomRun-run-wait"),
    ];
    assert_eq!(lineage, proof);
    assert_eq!(object["status"]["approvedBy"], json!(["alice"]));
    // The policy is in another namespace, which learns no messages.
    assert_eq!(object["status"]["approvals"], Value::Null);
}

#[tokio::test]
async fn a_request_waits_for_the_last_missing_link_and_is_woken_by_it() {
    for (plural, name) in [
        ("taskruns", "run-deploy"),
        ("customruns", "run-wait"),
        ("pipelineruns", "run"),
    ] {
        let cluster = Cluster::with_run();
        cluster.approve();
        let link = take_away(&cluster.server, plural, name);
        let controller = cluster.controller();
        look(&controller).await.unwrap();
        assert_told(&cluster, "which is not there");
        assert!(cluster.gives_nothing());
        cluster.server.put(plural, link);
        let wakes = cluster.news(&controller, plural, name);
        let jobs: Vec<_> = wakes.into_iter().map(|(job, _)| job).collect();
        assert!(jobs.contains(&Job::Request(Cluster::request())), "{plural}");
        look(&controller).await.unwrap();
        assert_eq!(cluster.phase(), "Granted", "{plural}");
    }
}

/// An event of a run wakes the requests that depend on it, however many others wait in the namespace.
#[tokio::test]
async fn an_event_of_another_run_wakes_nothing() {
    let cluster = Cluster::with_run();
    let controller = cluster.controller();
    look(&controller).await.unwrap();
    let mut other = cluster.server.named("pipelineruns", "run").unwrap();
    other["metadata"]["name"] = "other".into();
    cluster.server.put("pipelineruns", other);
    assert!(
        cluster
            .news(&controller, "pipelineruns", "other")
            .is_empty()
    );
    assert!(!cluster.news(&controller, "pipelineruns", "run").is_empty());
}

#[tokio::test]
async fn what_the_caches_prove_and_the_api_server_does_not_is_not_granted() {
    type Change = fn(&Cluster);
    let changes: [(Change, &str); 4] = [
        (cancel, "was cancelled"),
        (
            |it| {
                take_away(&it.server, "pipelineruns", "run");
            },
            "which is not there",
        ),
        (
            |it| {
                it.server.change("customruns", "run-wait", |run| {
                    run["metadata"]["uid"] = "another".into();
                });
            },
            "is not the one that the owner reference means",
        ),
        (
            |it| {
                it.server.change("taskruns", "run-deploy", |run| {
                    run["spec"]["taskSpec"]["steps"][0]["image"] = "evil:1".into();
                });
            },
            "runs another task than its pipeline task says",
        ),
    ];
    for (change, words) in changes {
        let cluster = Cluster::with_run();
        let controller = cluster.controller();
        // The caches keep what the request depends on, from before the change.
        look(&controller).await.unwrap();
        cluster.approve();
        cluster.fill(&controller);
        change(&cluster);
        look(&controller).await.unwrap();
        assert!(cluster.gives_nothing(), "{words}");
        assert_told(&cluster, words);
    }
}

#[tokio::test]
async fn a_cancelled_or_ended_run_revokes() {
    let ends: [fn(&Cluster); 2] = [cancel, |it| {
        it.server.change("pipelineruns", "run", |run| {
            run["status"]["completionTime"] = "2026-03-01T10:05:00Z".into();
        });
    }];
    for end in ends {
        let cluster = granted().await;
        end(&cluster);
        cluster.look().await.unwrap();
        assert!(cluster.managed().is_empty());
        assert_eq!(cluster.phase(), "Revoked");
    }
}

/// The latch is about the approval. The run decides by itself.
#[tokio::test]
async fn an_ending_run_revokes_whatever_became_of_its_approval() {
    let ends: [fn(&Cluster); 2] = [cancel, |it| {
        it.server.change("pipelineruns", "run", |run| {
            run["metadata"]["deletionTimestamp"] = "2026-03-01T10:05:00Z".into();
        });
    }];
    for match_ in ["All", "Any"] {
        for end in ends {
            let cluster = Cluster::with_run();
            cluster.server.change("accesspolicies", "p", |policy| {
                let checks = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
                checks[0]["match"] = match_.into();
            });
            cluster.approve();
            cluster.look().await.unwrap();
            assert_eq!(cluster.phase(), "Granted");
            take_away(&cluster.server, "approvaltasks", "run-wait");
            cluster.look().await.unwrap();
            assert_eq!(cluster.phase(), "Granted", "the latch ignores the deletion");
            end(&cluster);
            cluster.look().await.unwrap();
            assert_eq!(cluster.phase(), "Revoked", "{match_}");
        }
    }
}

#[tokio::test]
async fn evidence_without_its_proof_lapses() {
    let cluster = granted().await;
    cluster
        .server
        .change("accessrequests", "request", |request| {
            let refs = &mut request["status"]["policies"][0]["checkRefs"];
            refs[0].as_object_mut().unwrap().remove("lineage").unwrap();
        });
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Revoked");
}

/// The links of a request that goes while it is looked at would otherwise stay for good.
#[tokio::test]
async fn a_request_that_is_gone_leaves_no_links() {
    let cluster = granted().await;
    let controller = cluster.controller();
    look(&controller).await.unwrap();
    let request = Cluster::request();
    let count = || controller.world.read().links.of_request(&request).count();
    assert_eq!(count(), 3);
    let _ = controller.world.write().request_gone(&request);
    cluster.server.remove("accessrequests", "request");
    look(&controller).await.unwrap();
    assert_eq!(count(), 0);
}

/// The approval and everything else are as they were: the run alone decides.
#[tokio::test]
async fn a_remembered_answer_is_about_the_run_as_it_was() {
    // Before the grant: another object of the same number.
    let cluster = Cluster::with_run();
    cluster.approve();
    let runs = |image: &str| {
        cluster.server.change("taskruns", "run-deploy", |run| {
            run["spec"]["taskSpec"]["steps"][0]["image"] = image.into();
        });
    };
    runs("evil:1");
    let controller = cluster.controller();
    for image in ["evil:1", "tool:1"] {
        runs(image);
        cluster.fill(&controller);
        look(&controller).await.unwrap();
        let is_granted = cluster.phase() == "Granted";
        assert_eq!(is_granted, image == "tool:1", "{image}");
    }
    // And after it.
    let cluster = granted().await;
    let controller = cluster.controller();
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
    cancel(&cluster);
    let _ = cluster.news(&controller, "pipelineruns", "run");
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Revoked");
}

#[tokio::test]
async fn a_granted_request_is_woken_by_its_run() {
    let cluster = granted().await;
    let controller = cluster.controller();
    look(&controller).await.unwrap();
    cancel(&cluster);
    let wakes = cluster.news(&controller, "pipelineruns", "run");
    let jobs: Vec<_> = wakes.into_iter().map(|(job, _)| job).collect();
    assert_eq!(jobs, [Job::Request(Cluster::request())]);
}

/// The latch says what the end of a link means, as it does for the approval itself.
#[tokio::test]
async fn a_link_that_is_deleted_or_recreated_lapses_by_the_latch() {
    type Change = fn(&Cluster, &str, &str);
    let delete: Change = |it, plural, name| {
        take_away(&it.server, plural, name);
    };
    let recreate: Change = |it, plural, name| {
        it.server.change(plural, name, |object| {
            object["metadata"]["uid"] = "another".into();
        });
    };
    for (latch, phase) in [
        ("Auto", "Granted"),
        ("WhileHolds", "Revoked"),
        ("Once", "Granted"),
    ] {
        for change in [delete, recreate] {
            for (plural, name) in [
                ("pipelineruns", "run"),
                ("taskruns", "run-deploy"),
                ("customruns", "run-wait"),
            ] {
                let cluster = Cluster::with_run();
                cluster.server.change("accesspolicies", "p", |policy| {
                    let checks = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
                    checks[0]["latch"] = latch.into();
                });
                cluster.approve();
                cluster.look().await.unwrap();
                assert_eq!(cluster.phase(), "Granted");
                change(&cluster, plural, name);
                cluster.look().await.unwrap();
                assert_eq!(cluster.phase(), phase, "{latch} {plural}");
            }
        }
    }
}

#[tokio::test]
async fn what_no_longer_matters_is_not_followed() {
    let cluster = granted().await;
    let controller = cluster.controller();
    look(&controller).await.unwrap();
    let count = || {
        controller
            .world
            .read()
            .links
            .of_request(&Cluster::request())
            .count()
    };
    assert_eq!(count(), 3);
    super::end_pod(&cluster.server);
    cluster.fill(&controller);
    look(&controller).await.unwrap();
    assert_eq!((cluster.phase(), count()), ("Revoked".to_owned(), 0));
}
