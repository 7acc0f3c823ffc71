//! Shapes of pipelines: whichever has an approval, its pods wait for that and are let in after it.

use e2e::api::kinds::{PIPELINE_RUN, POD, TASK_RUN};
use serde_json::{Value, json};

use super::gate;
use crate::support::{
    Gate,
    pipelines::{Pipelines, deploy_with, wait_for},
    uid,
};

/// An answer: the user, and perhaps the group for which the user answers.
type Answer = (&'static str, Option<&'static str>);

/// A run, and who approves it.
struct RunShape {
    run: &'static str,
    spec: Value,
    answers: &'static [Answer],
    /// Whether its pods are there before the approval.
    waits: bool,
    /// The pipeline task that deploys, and its number of pods.
    deploys: (&'static str, usize),
}

impl RunShape {
    fn of(run: &'static str, tasks: &Value) -> Self {
        Self {
            run,
            spec: json!({"pipelineSpec": {"tasks": tasks}}),
            answers: &[("alice", None)],
            waits: true,
            deploys: ("deploy", 1),
        }
    }
}

/// Longer than a name may be together with that of a task.
const LONG_RUN: &str = "nightly-release-of-the-payment-service-in-region-seven-7x2kq";
const LONG_TASK: &str = "deploy-to-production-clusters-everywhere";

fn shapes(pipelines: &Pipelines<'_>) -> Vec<RunShape> {
    let wait = || wait_for(&json!(["alice"]), "1");
    let deploy = || deploy_with(&json!({}));
    let who = json!({"name": "who", "taskSpec": {
        "results": [{"name": "boss", "type": "string"}],
        "steps": [pipelines.step("say", &json!(["write", "$(results.boss.path)", "alice"]))],
    }});
    let left_out = deploy_with(&json!({
        "name": "left-out", "when": [{"input": "a", "operator": "in", "values": ["b"]}],
    }));
    let by =
        deploy_with(&json!({"params": [{"name": "by", "value": "by-$(tasks.who.results.boss)"}]}));
    let mut last = RunShape::of("last", &json!([wait()]));
    last.spec["pipelineSpec"]["finally"] = json!([deploy()]);
    vec![
        RunShape {
            answers: &[("alice", None), ("bob", None)],
            ..RunShape::of(
                "two",
                &json!([wait_for(&json!(["alice", "bob", "carol"]), "2"), deploy()]),
            )
        },
        RunShape {
            answers: &[("bob", Some("qa")), ("carol", Some("qa"))],
            ..RunShape::of(
                "group",
                &json!([wait_for(&json!(["group:qa"]), "2"), deploy()]),
            )
        },
        RunShape {
            deploys: ("deploy", 2),
            ..RunShape::of(
                "matrix",
                &json!([
                    wait(),
                    deploy_with(&json!({
                        "matrix": {"params": [{"name": "env", "value": ["a", "b"]}]},
                    }))
                ]),
            )
        },
        RunShape {
            deploys: ("deploy", 3),
            ..RunShape::of(
                "include",
                &json!([
                    wait(),
                    deploy_with(&json!({"matrix": {
                        "params": [{"name": "env", "value": ["a", "b"]}],
                        "include": [
                            {"params": [{"name": "env", "value": "a"}, {"name": "flag", "value": "y"}]},
                            {"params": [{"name": "env", "value": "c"}]},
                        ],
                    }}))
                ]),
            )
        },
        RunShape {
            deploys: (LONG_TASK, 1),
            ..RunShape::of(
                LONG_RUN,
                &json!([wait(), deploy_with(&json!({"name": LONG_TASK}))]),
            )
        },
        RunShape::of(
            "results",
            &json!([
                who,
                wait_for(&json!(["$(tasks.who.results.boss)"]), "1"),
                left_out,
                by,
            ]),
        ),
        RunShape {
            waits: false,
            ..last
        },
    ]
}

/// The proof of a pod that was let in.
fn proof(gate: &Gate, pod: &str) -> Value {
    let request = gate.wait_for_phase(pod, "Granted");
    assert!(!gate.grants(&uid(&request)).is_empty(), "{pod}");
    request["status"]["policies"][0]["checkRefs"][0].clone()
}

#[test]
fn the_pods_of_each_shape_of_a_run_wait_for_its_approval_and_start() {
    let gate = gate("lineage-shapes");
    let pipelines = Pipelines::of(&gate);
    let shapes = shapes(&pipelines);
    for shape in &shapes {
        pipelines.create_run(shape.run, &shape.spec);
    }
    pipelines.work();
    assert_eq!(gate.scene().wait_for_end("results-who-pod"), "Succeeded");
    pipelines.work();

    let mut waiting = Vec::new();
    for RunShape {
        run,
        waits,
        deploys: (task, count),
        ..
    } in &shapes
    {
        let pods = pipelines.pods(run, task);
        let expected = if *waits { *count } else { 0 };
        assert_eq!(pods.len(), expected, "{run}: {pods:?}");
        waiting.extend(pods);
    }
    for pod in &waiting {
        gate.wait_for_note("Pod", pod, "AccessPending", "waits for its approvers");
        assert!(pod.len() <= 63 && !gate.may_use(pod), "{pod}");
    }
    let waiting: Vec<_> = waiting.iter().map(String::as_str).collect();
    gate.assert_all_held(&waiting);

    for shape in &shapes {
        let approval = &pipelines.children(shape.run, "wait")[0];
        for (user, group) in shape.answers {
            match group {
                Some(group) => pipelines.answer_for(approval, group, user),
                None => pipelines.answer(approval, user, "approve"),
            }
        }
    }
    for RunShape {
        run,
        deploys: (task, count),
        answers,
        ..
    } in &shapes
    {
        let pods = pipelines.pods(run, task);
        assert_eq!(pods.len(), *count, "{run}: {pods:?}");
        let approvers: Vec<_> = answers.iter().map(|(user, _)| *user).collect();
        for pod in pods {
            gate.wait_for_output(&pod);
            let proof = proof(&gate, &pod);
            assert_eq!(proof["status"]["approvedBy"], json!(approvers), "{pod}");
            let is_used = |it: &Value| it["name"] == "results-who";
            let uses_result = proof["lineage"].as_array().unwrap().iter().any(is_used);
            assert_eq!(uses_result, *run == "results", "{proof}");
        }
    }
    let skipped = gate.object(PIPELINE_RUN, "results")["status"]["skippedTasks"].take();
    assert_eq!(skipped[0]["name"], "left-out");
    assert_eq!(gate.api().get(TASK_RUN, "results-left-out").unwrap(), None);
    assert_eq!(gate.api().get(POD, "results-left-out-pod").unwrap(), None);
}
