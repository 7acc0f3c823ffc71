//! What a proof costs in calls to the API server.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use connectors_api::AccessRequest;
use http::{Method, Request};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{
    end_pod, grant_name,
    guards::{Nobody, ONCE},
    look,
};
use crate::{
    api::{Live, Name},
    evaluator::Evaluator,
    observe::Observer,
    reconcile::Reconciler,
    testing::Cluster,
};

/// A controller whose reads of a resource are noted, and get no answer if they hang.
fn reader(
    cluster: &Cluster,
    evaluator: Arc<dyn Evaluator>,
    resource: &'static str,
    do_hang: bool,
) -> (Reconciler, Arc<Mutex<Vec<String>>>) {
    let behind = cluster.server.client();
    let read = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&read);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (behind, noted) = (behind.clone(), Arc::clone(&noted));
        async move {
            let path = request.uri().path();
            if request.method() == Method::GET && path.contains(resource) {
                noted.lock().unwrap().push(path.to_owned());
                if do_hang {
                    return std::future::pending().await;
                }
            }
            Ok::<_, Infallible>(behind.send(request).await.unwrap())
        }
    });
    let mut controller = cluster.controller();
    controller.observer = Observer::new(
        Arc::clone(&controller.world),
        Live::new(Client::new(service, "default"), ONCE),
        evaluator,
        Arc::clone(&controller.clock),
        2,
    );
    (controller, read)
}

/// A client, and the queries of its reads of pods. The memory of an API server that lags does not have any version.
fn pod_reader(cluster: &Cluster, lags: bool) -> (Client, Arc<Mutex<Vec<String>>>) {
    let queries = Arc::new(Mutex::new(Vec::new()));
    let (behind, noted) = (cluster.server.client(), Arc::clone(&queries));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (behind, noted) = (behind.clone(), Arc::clone(&noted));
        async move {
            if request.uri().path().contains("/pods/") {
                let query = request.uri().query().unwrap_or_default();
                let query = query.trim_start_matches('&').to_owned();
                let is_refused = lags && !query.is_empty();
                noted.lock().unwrap().push(query);
                if is_refused {
                    return std::future::pending().await;
                }
            }
            Ok::<_, Infallible>(behind.send(request).await.unwrap())
        }
    });
    (Client::new(service, "default"), queries)
}

/// A read of the newest version goes to etcd. A new leader reads the pods of all requests with a grant.
#[tokio::test(start_paused = true)]
async fn a_look_from_the_caches_reads_the_pod_from_the_memory_of_the_api_server() {
    for lags in [false, true] {
        let cluster = Cluster::granted().await;
        let (client, pods) = pod_reader(&cluster, lags);
        let mut controller = cluster.controller();
        cluster.reads_by(&mut controller, client, ONCE);
        let name = Cluster::request();
        let look = || controller.request(&name, Instant::now());
        let began = Instant::now();
        look().await.unwrap();
        // The API server would wait longer for the version.
        assert!(began.elapsed() < Duration::from_secs(2));
        let pod = cluster.server.named("pods", "run-deploy-pod").unwrap();
        let version = pod["metadata"]["resourceVersion"].as_str().unwrap();
        let mut expected = vec![format!("resourceVersion={version}")];
        expected.extend(lags.then(String::new));
        assert_eq!(*pods.lock().unwrap(), expected);
        // The next look from the caches reads none. What takes a grant back is decided on the newest version.
        cluster.approval("rejected");
        cluster.fill_objects(&controller);
        look().await.unwrap();
        assert!(cluster.managed().is_empty());
        expected.push(String::new());
        assert_eq!(*pods.lock().unwrap(), expected);
    }
}

/// A list waits for the memory of the API server, and has each policy of the namespace in it.
#[tokio::test]
async fn policies_are_read_by_name_where_there_are_few_and_listed_otherwise() {
    for (others, expected) in [(0, 1), (1, 2), (3, 4), (4, 1)] {
        let cluster = Cluster::new();
        cluster.approval("approved");
        let policy = cluster.server.named("accesspolicies", "p").unwrap();
        for number in 0..others {
            let mut other = policy.clone();
            // Before the one that grants.
            other["metadata"]["name"] = format!("a{number}").into();
            other["metadata"]["uid"] = format!("a{number}-uid").into();
            other["spec"]["connector"] = json!({"names": ["another"]});
            cluster.server.put("accesspolicies", other);
        }
        let evaluator = cluster.evaluator();
        let (controller, read) = reader(&cluster, evaluator, "/accesspolicies", false);
        look(&controller).await.unwrap();
        assert_eq!(cluster.phase(), "Granted", "{others}");
        let read = read.lock().unwrap();
        let are_named = others < 4;
        assert_eq!(read.len(), expected, "{others}: {read:?}");
        assert_eq!(read.iter().any(|it| it.ends_with("/p")), are_named);
    }
}

/// The first write is a status, which is refused unless the request is the newest version.
#[tokio::test]
async fn a_request_that_holds_nothing_is_read_after_a_conflict_and_others_before_a_decision() {
    type Change = fn(&Cluster);
    let nothing: Change = |_| {};
    let annotated: Change = |cluster| {
        cluster.server.change("accessrequests", "request", |it| {
            it["metadata"]["annotations"] = json!({"a": "b"});
        });
    };
    let unbound: Change = |cluster| cluster.server.remove("rolebindings", &grant_name());
    for (holds, before, after, reads) in [
        (false, nothing, nothing, 0),
        (false, nothing, annotated, 1),
        (true, unbound, nothing, 1),
    ] {
        let cluster = if holds {
            Cluster::granted().await
        } else {
            Cluster::new()
        };
        cluster.approval("approved");
        before(&cluster);
        let evaluator = cluster.evaluator();
        let (controller, read) = reader(&cluster, evaluator, "/accessrequests/", false);
        // The caches do not know of it.
        after(&cluster);
        look(&controller).await.unwrap();
        assert_eq!(
            (cluster.phase().as_str(), cluster.managed().len()),
            ("Granted", 2)
        );
        assert_eq!(
            read.lock().unwrap().len(),
            reads,
            "holds something: {holds}"
        );
    }
}

/// A first look takes from the caches what a grant confirms by its first write. An end is not confirmed by anything.
#[tokio::test]
async fn what_the_caches_do_not_know_yet_ends_nothing() {
    type Behind = fn(&Reconciler, &Cluster);
    let older_request: Behind = |controller, cluster| {
        let mut request = cluster.server.named("accessrequests", "request").unwrap();
        request.as_object_mut().unwrap().remove("status");
        let request: AccessRequest = serde_json::from_value(request).unwrap();
        let name = Name::new("tools", "request");
        let _ = controller
            .world
            .write()
            .request(&name, Ok(Arc::new(request)));
    };
    let other_policies: Behind = |controller, _| {
        let name = Name::new("tools", "p");
        let _ = controller.world.write().policy(&name, None);
    };
    for behind in [older_request, other_policies] {
        let cluster = Cluster::granted().await;
        let mut other = cluster.server.named("accesspolicies", "p").unwrap();
        other["metadata"]["name"] = "a".into();
        other["metadata"]["uid"] = "a-uid".into();
        other["spec"]["connector"] = json!({"names": ["another"]});
        cluster.server.put("accesspolicies", other);
        // Its deletion takes nothing back, and a new grant would need it.
        cluster.server.remove("configmaps", "approval-1");
        let controller = cluster.controller();
        behind(&controller, &cluster);
        look(&controller).await.unwrap();
        assert_eq!(
            (cluster.phase().as_str(), cluster.managed().len()),
            ("Granted", 2)
        );
    }
}

/// Reads that only a new grant needs are made early for requests that hold nothing.
#[tokio::test(start_paused = true)]
async fn a_revocation_waits_for_no_read_of_policies() {
    let cluster = Cluster::granted().await;
    let connector = cluster.server.all("connectors").remove(0);
    let connector = connector["metadata"]["name"].as_str().unwrap();
    cluster.server.remove("connectors", connector);
    let evaluator = Arc::new(Nobody);
    let (controller, read) = reader(&cluster, evaluator, "/accesspolicies", true);
    let looked = timeout(Duration::from_secs(1), look(&controller)).await;
    looked.expect("the look does not wait").unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
    assert_eq!(read.lock().unwrap().len(), 0);
}

/// The names of the approvals' CustomRuns.
fn waits(approvals: usize) -> Vec<String> {
    (0..approvals)
        .map(|it| match it {
            0 => "run-wait".to_owned(),
            it => format!("run-wait-{it}"),
        })
        .collect()
}

/// A run of so many tasks and approvals. Without a proof, labels and state decide.
fn cluster(tasks: usize, approvals: usize, needs_proof: bool) -> Cluster {
    let cluster = Cluster::with_run();
    let server = &cluster.server;
    if !needs_proof {
        server.change("accesspolicies", "p", |policy| {
            let checks = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
            checks[0]["provenance"] = "None".into();
        });
    }
    let custom_run = server.named("customruns", "run-wait").unwrap();
    let approval = server.named("approvaltasks", "run-wait").unwrap();
    let wait = server.named("pipelineruns", "run").unwrap();
    let wait = wait["status"]["pipelineSpec"]["tasks"][0].clone();
    let mut all: Vec<Value> = (0..tasks)
        .map(|it| json!({"name": format!("t{it}"), "taskSpec": {"steps": []}}))
        .collect();
    let mut children = Vec::new();
    for name in waits(approvals).iter().skip(1) {
        let named = |object: &Value, kind: &str| {
            let mut object = object.clone();
            object["metadata"]["name"] = name.clone().into();
            object["metadata"]["uid"] = format!("uid-{kind}-{name}").into();
            object
        };
        let mut approval = named(&approval, "ApprovalTask");
        let owner = &mut approval["metadata"]["ownerReferences"][0];
        owner["name"] = name.clone().into();
        owner["uid"] = format!("uid-CustomRun-{name}").into();
        server.put("customruns", named(&custom_run, "CustomRun"));
        server.put("approvaltasks", approval);
        let task = name.strip_prefix("run-").unwrap();
        let mut wait = wait.clone();
        wait["name"] = task.into();
        all.push(wait);
        children.push(json!({
            "apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun", "name": name, "pipelineTaskName": task,
        }));
    }
    server.change("pipelineruns", "run", |run| {
        let push = |list: &mut Value, more: Vec<Value>| list.as_array_mut().unwrap().extend(more);
        push(&mut run["status"]["pipelineSpec"]["tasks"], all);
        push(&mut run["status"]["childReferences"], children);
    });
    cluster
}

/// The calls of a life: the first look, one more while it waits, the grant, and the revocation.
async fn calls(tasks: usize, approvals: usize, needs_proof: bool) -> [usize; 4] {
    let cluster = cluster(tasks, approvals, needs_proof);
    let server = &cluster.server;
    let controller = cluster.controller();
    let counted = async |phase: &str| {
        let before = server.calls();
        look(&controller).await.unwrap();
        assert_eq!(cluster.phase(), phase);
        let calls = server.calls() - before;
        cluster.fill(&controller);
        calls
    };
    let first = counted("Pending").await;
    let waiting = counted("Pending").await;
    for name in waits(approvals) {
        server.change("approvaltasks", &name, |approval| {
            approval["spec"]["approvers"][0]["input"] = "approve".into();
            approval["status"]["state"] = "approved".into();
        });
        let _ = cluster.news(&controller, "approvaltasks", &name);
    }
    let grant = counted("Granted").await;
    end_pod(server);
    cluster.fill(&controller);
    let end = counted("Revoked").await;
    [first, waiting, grant, end]
}

/// The objects between pod and approvals are read by name, once when a request meets them and once before the grant.
#[tokio::test]
async fn a_proof_reads_run_task_run_and_one_custom_run_for_each_approval() {
    let table = [
        (0, 1, false, [5, 0, 11, 12]),
        (50, 8, false, [5, 0, 11, 12]),
        (0, 1, true, [8, 0, 14, 12]),
        (50, 8, true, [15, 0, 21, 12]),
    ];
    for (tasks, approvals, needs_proof, expected) in table {
        let calls = calls(tasks, approvals, needs_proof).await;
        assert_eq!(calls, expected, "{tasks} {approvals} {needs_proof}");
    }
}

/// Otherwise each approval of a namespace would have all its waiting requests judged again.
#[tokio::test]
async fn an_approval_wakes_only_the_requests_that_select_it() {
    let cluster = Cluster::with_run();
    let controller = cluster.controller();
    let server = &cluster.server;
    let mut another = server.named("approvaltasks", "run-wait").unwrap();
    another["metadata"]["name"] = "other-wait".into();
    another["metadata"]["labels"]["tekton.dev/pipelineRun"] = "other".into();
    let wakes = |name: &str| cluster.news(&controller, "approvaltasks", name).len();
    server.put("approvaltasks", another);
    assert_eq!(wakes("other-wait"), 1, "no look was complete yet");
    look(&controller).await.unwrap();
    assert_eq!((wakes("other-wait"), wakes("run-wait")), (0, 1));
    let relabel = |run: &'static str| {
        server.change("approvaltasks", "other-wait", |it| {
            it["metadata"]["labels"]["tekton.dev/pipelineRun"] = run.into();
        });
    };
    relabel("run");
    assert_eq!(wakes("other-wait"), 1, "it is selected now");
    relabel("other");
    assert_eq!(wakes("other-wait"), 1, "it was selected");
    assert_eq!(wakes("other-wait"), 0);
    server.remove("approvaltasks", "run-wait");
    assert_eq!(wakes("run-wait"), 1);
}

/// Nothing has changed for it.
#[tokio::test]
async fn a_look_at_a_grant_that_stays_wakes_no_request() {
    let cluster = Cluster::granted().await;
    let controller = cluster.controller();
    let name = Name::new("tools", &grant_name());
    assert_eq!(controller.grant(&name).await.unwrap(), 0);
    assert_eq!(controller.queues.of(0).depth(), 0);
    cluster
        .server
        .change("roles", &name.name, |it| it["rules"] = json!([]));
    assert_ne!(controller.grant(&name).await.unwrap(), 0);
    assert_eq!(controller.queues.of(0).depth(), 1);
}
