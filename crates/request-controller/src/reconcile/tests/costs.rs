//! What a proof costs in calls to the API server.

use serde_json::{Value, json};

use super::{end_pod, grant_name, look};
use crate::{api::Name, testing::Cluster};

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
        (0, 1, false, [4, 0, 12, 12]),
        (50, 8, false, [4, 0, 12, 12]),
        (0, 1, true, [7, 0, 15, 12]),
        (50, 8, true, [14, 0, 22, 12]),
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
    assert_eq!(controller.queue.depth(), 0);
    cluster
        .server
        .change("roles", &name.name, |it| it["rules"] = json!([]));
    assert_ne!(controller.grant(&name).await.unwrap(), 0);
    assert_eq!(controller.queue.depth(), 1);
}
