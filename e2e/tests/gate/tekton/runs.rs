//! Honest runs: the pods that deploy wait for the approval, and are granted after it.

use e2e::api::kinds::POD;
use serde_json::{Value, json};

use super::live::Live;
use super::pipelines::{
    after_wait, deploy, deploy_with, deploying, run, spec, step, volumes, wait, wait_for, who, with,
};
use crate::support::uid;

/// The users' actions on a run, and the expected result.
struct Run {
    /// The objects before it.
    before: Vec<Value>,
    made: Value,
    /// How many approvals the pipeline task `wait` asks for.
    approvals: usize,
    /// The answering user of each, and the group through which it answers.
    answers: Vec<(&'static str, Option<&'static str>)>,
    /// The pipeline task that deploys, and how many pods it makes.
    deploys: (&'static str, usize),
}

impl Run {
    fn of(tasks: &Value) -> Self {
        Self::made_as(run(tasks))
    }

    fn made_as(run: Value) -> Self {
        Self {
            before: Vec::new(),
            made: run,
            approvals: 1,
            answers: vec![("alice", None)],
            deploys: ("deploy", 1),
        }
    }

    fn with(mut self, more: Value) -> Self {
        self.made = with(self.made, more);
        self
    }

    fn after(mut self, object: Value) -> Self {
        self.before.push(object);
        self
    }

    fn answered_by(mut self, answers: &[(&'static str, Option<&'static str>)]) -> Self {
        self.answers = answers.to_vec();
        self
    }

    fn in_pods(mut self, pods: usize) -> Self {
        self.deploys.1 = pods;
        self
    }

    /// Begins the run, answers, and sees that each pod is granted with the proof.
    fn expect_grants(self, test: &str) {
        let live = self.begun(test);
        for approval in live.children("wait", self.approvals) {
            live.wait_for_approval(&approval);
            for (user, group) in &self.answers {
                live.answer(&approval, user, *group, "approve").unwrap();
            }
        }
        let (task, count) = self.deploys;
        for child in live.children(task, count) {
            let pod = live.pod(&child);
            let request = live.gate.wait_for_phase(&pod, "Granted");
            let proof = &request["status"]["policies"][0]["checkRefs"][0];
            let kinds: Vec<_> = proof["lineage"]
                .as_array()
                .unwrap()
                .iter()
                .take(3)
                .collect();
            let kinds: Vec<_> = kinds
                .iter()
                .map(|it| it["kind"].as_str().unwrap())
                .collect();
            assert_eq!(kinds, ["PipelineRun", "TaskRun", "CustomRun"], "{proof}");
            assert!(!live.gate.grants(&uid(&request)).is_empty(), "{pod}");
        }
    }

    fn begun(&self, test: &str) -> Live {
        let live = Live::new(test);
        for object in &self.before {
            live.create(object);
        }
        live.create(&self.made);
        live
    }
}

/// A task of the cluster that deploys.
fn task() -> Value {
    json!({
        "apiVersion": "tekton.dev/v1", "kind": "Task", "metadata": {"name": "deploy-task", "labels": {"team": "release"}},
        "spec": with(spec(), json!({"params": [{"name": "version", "default": "0"}]})),
    })
}

fn files() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}, "data": {"a": "b"}})
}

/// One test for each run.
macro_rules! granted {
    ($($(#[$doc:meta])* $name:ident: $run:expr,)*) => {
        $(
            $(#[$doc])*
            #[test]
            fn $name() {
                let test = concat!("tk-", stringify!($name)).replace('_', "-");
                // A namespace has at most 63 letters, some of which tell runs apart.
                $run.expect_grants(test.get(..40).unwrap_or(&test).trim_end_matches('-'));
            }
        )*
    };
}

granted! {
    a_task_after_the_approval: Run::of(&json!([wait(&json!(["alice"])), deploy()])),

    a_task_beside_the_approval: Run::of(&json!([wait(&json!(["alice"])), deploy_with(json!({}))])),

    a_task_of_finally: Run::of(&json!([wait(&json!(["alice"]))])).with(json!({
        "spec": {"pipelineSpec": {"finally": [deploy_with(json!({}))]}},
    })),

    a_task_of_finally_after_a_failure: Run::of(&json!([
        wait(&json!(["alice"])),
        after_wait(json!({"name": "bad", "taskSpec": {"steps": [step("bad", &json!(["exit", "1"]))]}})),
    ])).with(json!({"spec": {"pipelineSpec": {"finally": [deploy_with(json!({}))]}}})),

    a_task_with_timeouts_and_retries: Run::of(&json!([
        with(wait(&json!(["alice"])), json!({"timeout": "30m", "retries": 1})),
        with(deploy(), json!({"timeout": "20m", "retries": 2})),
    ])).with(json!({"spec": {"timeouts": {"pipeline": "1h", "tasks": "50m"}}})),

    a_matrix_of_tasks: Run::of(&json!([wait(&json!(["alice"])), with(
        after_wait(deploy_with(json!({"params": [
            {"name": "env"}, {"name": "zone"}, {"name": "flag", "default": "no"},
        ]}))),
        json!({"matrix": {
            "params": [{"name": "env", "value": ["a", "b"]}, {"name": "zone", "value": ["1"]}],
            "include": [{"name": "x", "params": [{"name": "env", "value": "a"}, {"name": "flag", "value": "y"}]}],
        }}),
    )])).in_pods(2),

    a_matrix_of_a_result: Run::of(&json!([who(), wait(&json!(["alice"])), with(
        after_wait(deploy_with(json!({"params": [{"name": "env"}]}))),
        json!({"matrix": {"params": [{"name": "env", "value": "$(tasks.who.results.list[*])"}]}}),
    )])).in_pods(2),

    results_as_parameters_and_as_approvers: Run::of(&json!([
        who(), wait(&json!(["$(tasks.who.results.boss)"])),
        with(
            after_wait(deploy_with(json!({"params": [{"name": "by"}, {"name": "all", "type": "array"}, {"name": "key"}]}))),
            json!({"params": [
                {"name": "by", "value": "by-$(tasks.who.results.boss)"},
                {"name": "all", "value": "$(tasks.who.results.list[*])"},
                {"name": "key", "value": "$(tasks.who.results.map.key)"},
            ]}),
        ),
    ])),

    results_within_a_task: Run::of(&json!([who(), wait(&json!(["alice"])), with(
        deploy_with(json!({"steps": [with(deploying(), json!({
            "env": [{"name": "BY", "value": "by $(tasks.who.results.boss) $(tasks.who.results.list[0])"}],
        }))]})),
        json!({"runAfter": ["who", "wait"]}),
    )])),

    results_of_a_matrix: Run::of(&json!([
        {
            "name": "each", "matrix": {"params": [{"name": "p", "value": ["x", "y"]}]},
            "taskSpec": {
                "params": [{"name": "p"}], "results": [{"name": "r"}],
                "steps": [step("s", &json!(["write", "$(results.r.path)", "$(params.p)"]))],
            },
        },
        wait(&json!(["alice"])),
        with(
            after_wait(deploy_with(json!({"params": [{"name": "all", "type": "array"}]}))),
            json!({"params": [{"name": "all", "value": "$(tasks.each.results.r[*])"}]}),
        ),
    ])),

    parameters_and_context: Run::of(&json!([
        wait_for(&json!(["$(params.approvers[*])"]), "$(params.needed)"),
        with(
            after_wait(deploy_with(json!({"params": [{"name": "v"}], "steps": [with(deploying(), json!({"env": [
                {"name": "V", "value": "$(params.v) $(params.version) $(params.object.key) $(params['version'])"},
                {"name": "C", "value": "$(context.pipelineRun.uid) $(context.taskRun.name) $$(V)"},
            ]}))]}))),
            json!({"params": [{"name": "v", "value": "$(context.pipelineRun.name)-$(params.version)"}]}),
        ),
    ])).with(json!({"spec": {
        "pipelineSpec": {"params": [
            {"name": "approvers", "type": "array"}, {"name": "needed", "default": "1"}, {"name": "version"},
            {"name": "object", "type": "object", "properties": {"key": {"type": "string"}}, "default": {"key": "v"}},
        ]},
        "params": [{"name": "approvers", "value": ["alice", "bob"]}, {"name": "version", "value": "1.2"}],
    }})),

    a_task_that_is_skipped_beside_one_that_is_not: Run::of(&json!([
        wait(&json!(["alice"])),
        with(who(), json!({"when": [{"input": "a", "operator": "in", "values": ["b"]}]})),
        with(deploy(), json!({"when": [{"input": "a", "operator": "in", "values": ["a"]}]})),
    ])),

    a_task_of_the_cluster: Run::of(&json!([wait(&json!(["alice"])), {
        "name": "deploy", "runAfter": ["wait"], "taskRef": {"name": "deploy-task"},
        "params": [{"name": "version", "value": "1"}],
    }])).after(task()),

    a_pipeline_of_the_cluster: Run::made_as(json!({
        "apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": {"name": "run"},
        "spec": {"pipelineRef": {"name": "release"}},
    })).after(json!({
        "apiVersion": "tekton.dev/v1", "kind": "Pipeline", "metadata": {"name": "release"},
        "spec": {"tasks": [wait(&json!(["alice"])), deploy()]},
    })),

    pod_templates_and_service_accounts: Run::of(&json!([wait(&json!(["alice"])), deploy()])).with(json!({"spec": {
        "taskRunTemplate": {"podTemplate": {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}},
        "taskRunSpecs": [
            {"pipelineTaskName": "wait", "serviceAccountName": "asker"},
            {
                "pipelineTaskName": "deploy", "serviceAccountName": "deployer", "timeout": "30m",
                "metadata": {"labels": {"own": "label"}}, "podTemplate": {"env": [{"name": "B", "value": "3"}]},
                "stepSpecs": [{"name": "deploy", "computeResources": {"requests": {"memory": "10Mi"}}}],
            },
        ],
    }})).after(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "deployer"}})),

    the_volume_in_a_pod_template: Run::of(&json!([
        wait(&json!(["alice"])), after_wait(json!({"name": "deploy", "taskSpec": {"steps": [deploying()]}})),
    ])).with(json!({"spec": {"taskRunTemplate": {"podTemplate": {"volumes": volumes()}}}})),

    workspaces_with_variables: Run::of(&json!([who(), wait(&json!(["alice"])), with(
        deploy_with(json!({"workspaces": [{"name": "src"}, {"name": "tmp"}, {"name": "opt", "optional": true}]})),
        json!({"runAfter": ["who", "wait"], "workspaces": [
            {"name": "src", "workspace": "shared"},
            {"name": "tmp", "workspace": "scratch", "subPath": "of/$(params.dir)/$(tasks.who.results.boss)"},
        ]}),
    )])).with(json!({"spec": {
        "pipelineSpec": {
            "params": [{"name": "map"}, {"name": "dir", "default": "d"}],
            "workspaces": [{"name": "shared"}, {"name": "scratch"}],
        },
        "params": [{"name": "map", "value": "files"}],
        "workspaces": [
            {"name": "shared", "configMap": {"name": "$(params.map)"}},
            {
                "name": "scratch", "emptyDir": {},
                "subPath": "$(params.map)/$(params.dir)/$(tasks.who.results.boss)/$(context.pipelineRun.name)",
            },
        ],
    }})).after(files()),

    a_workspace_that_only_the_run_names: Run::of(&json!([wait(&json!(["alice"])), after_wait(deploy_with(json!({
        "steps": [with(deploying(), json!({"env": [{"name": "W", "value": "$(workspaces.shared.path)"}]}))],
    })))])).with(json!({"spec": {"workspaces": [{"name": "shared", "configMap": {"name": "files"}}]}})).after(files()),

    sidecars_templates_and_settings_of_steps: Run::of(&json!([wait(&json!(["alice"])), with(
        after_wait(deploy_with(json!({
            "stepTemplate": {"env": [{"name": "T", "value": "t"}]},
            "sidecars": [step("beside", &json!(["wait"]))],
            "metadata": {"labels": {"own": "label"}, "annotations": {"own": "annotation"}},
            "steps": [with(deploying(), json!({"onError": "continue", "timeout": "1h", "workingDir": "/tmp"}))],
        }))),
        json!({"displayName": "Deploy $(context.pipelineRun.name)", "description": "d", "onError": "continue"}),
    )])),

    names_that_are_too_long: Run {
        deploys: ("deploy-to-production-clusters-everywhere", 2),
        ..Run::of(&json!([wait(&json!(["alice"])), with(
            after_wait(deploy_with(json!({"params": [{"name": "env"}]}))),
            json!({
                "name": "deploy-to-production-clusters-everywhere",
                "matrix": {"params": [{"name": "env", "value": ["a", "b"]}]},
            }),
        )])).with(json!({"metadata": {"name": "nightly-release-of-the-payment-service-in-region-7x2kq"}}))
    },

    a_generated_name: {
        let mut all = Run::of(&json!([wait(&json!(["alice"])), deploy()]));
        all.made["metadata"] = json!({"generateName": "release-", "labels": {"tekton.dev/pipeline": "another"}});
        all
    },

    a_run_of_the_version_before: Run::of(&json!([wait(&json!(["alice"])), deploy()])).with(json!({
        "apiVersion": "tekton.dev/v1beta1",
        "spec": {
            "timeout": "1h", "podTemplate": {"env": [{"name": "A", "value": "1"}]},
            "taskRunSpecs": [{"pipelineTaskName": "deploy", "taskPodTemplate": {"env": [{"name": "B", "value": "1"}]}}],
        },
    })),

    a_user_and_a_group_of_two_approvals: Run::of(&json!([wait_for(&json!(["alice", "group:qa"]), "2"), deploy()]))
        .answered_by(&[("alice", None), ("bob", Some("qa"))]),

    two_members_of_one_group: Run::of(&json!([wait_for(&json!(["group:qa"]), "2"), deploy()]))
        .answered_by(&[("bob", Some("qa")), ("carol", Some("qa"))]),

    an_approver_who_is_named_twice: Run::of(&json!([wait(&json!(["alice", "alice", "bob"])), deploy()])),

    a_matrix_of_approvals: Run {
        approvals: 2,
        ..Run::of(&json!([
            with(wait(&json!(["alice"])), json!({"matrix": {"params": [{"name": "x", "value": ["a", "b"]}]}})), deploy(),
        ]))
    },
}

/// Each attempt has a pod and a request of its own.
#[test]
fn each_attempt_of_a_task_that_fails_is_granted() {
    let failing = json!({"steps": [
        with(deploying(), json!({"args": ["cat", "/connector"]})), step("fail", &json!(["exit", "1"])),
    ]});
    let all = Run::of(&json!([
        wait(&json!(["alice"])),
        with(after_wait(deploy_with(failing)), json!({"retries": 1})),
    ]));
    let live = all.begun("tk-attempts");
    live.wait_for_approval("run-wait");
    live.answer("run-wait", "alice", None, "approve").unwrap();
    for pod in ["run-deploy-pod", "run-deploy-pod-retry1"] {
        let what = format!("pod {pod} to have failed");
        live.gate
            .scene()
            .wait_for_object(&what, POD, pod, |it| it["status"]["phase"] == "Failed");
        let namespace = live.gate.namespace();
        let log = format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?container=step-deploy");
        let output = live.gate.api().text(&log).unwrap();
        assert!(output.contains("https://"), "{output}");
    }
}

#[test]
fn the_pod_waits_until_its_run_is_approved_and_for_no_other_run() {
    let all = Run::of(&json!([wait(&json!(["alice"])), deploy_with(json!({}))]));
    let live = all.begun("tk-waits");
    let pod = live.pod(&live.children("deploy", 1)[0]);
    live.gate.wait_for_note(
        "Pod",
        &pod,
        "AccessPending",
        "waits for its approvers alice",
    );
    live.create(&with(
        all.made.clone(),
        json!({"metadata": {"name": "evil"}}),
    ));
    live.wait_for_approval("evil-wait");
    live.answer("evil-wait", "alice", None, "approve").unwrap();
    let other = live.pod("evil-deploy");
    live.gate.wait_for_phase(&other, "Granted");
    live.gate.assert_held(&pod);
    assert!(!live.gate.may_use(&pod));
    live.answer("run-wait", "alice", None, "approve").unwrap();
    live.gate.wait_for_phase(&pod, "Granted");
}

#[test]
fn a_rejection_is_final() {
    let live =
        Run::of(&json!([wait(&json!(["alice"])), deploy_with(json!({}))])).begun("tk-rejected");
    let pod = live.pod(&live.children("deploy", 1)[0]);
    live.wait_for_approval("run-wait");
    live.answer("run-wait", "alice", None, "reject").unwrap();
    let request = live.gate.wait_for_phase(&pod, "Rejected");
    live.gate.wait_until_nothing_is_left(&uid(&request));
}

#[test]
fn approvers_who_do_not_answer_in_time_reject() {
    let asking = with(
        wait(&json!(["alice"])),
        json!({"params": [
            {"name": "approvers", "value": ["alice"]}, {"name": "timeout", "value": "5s"},
        ]}),
    );
    let live = Run::of(&json!([asking, deploy_with(json!({}))])).begun("tk-timed-out");
    let pod = live.pod(&live.children("deploy", 1)[0]);
    let request = live.gate.wait_for_phase(&pod, "Rejected");
    assert!(request.to_string().contains("timed out"), "{request}");
}
