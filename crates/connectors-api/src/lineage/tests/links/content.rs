//! The content of children.

use serde_json::{Value, json};

use super::super::shape::{Matrix, Target, Uses, Workspace};
use super::super::world::{World, clear};
use super::{LineageReason as R, Row, plain, with_task};

/// The parameter of the pod's pipeline task and of its TaskRun.
fn parameter(world: &mut World, value: &Value) {
    with_task(world, "deploy", |task| {
        task["params"][0]["value"] = value.clone();
    });
    world.task_run()["spec"]["params"][0]["value"] = value.clone();
}

/// The parameter of the pod's task is the number of its retries, filled in so.
pub(super) fn counts_retries(world: &mut World, filled: &str) {
    parameter(world, &"try $(context.pipelineTask.retries)".into());
    world.task_run()["spec"]["params"][0]["value"] = filled.into();
}

pub(super) const ROWS: &[Row] = &[
    (R::OtherParams, "another number of retries", plain, |it| {
        counts_retries(it, "try 3");
    }),
    (R::OtherParams, "another value", plain, |it| {
        it.task_run()["spec"]["params"][0]["value"] = "evil".into();
    }),
    (R::OtherParams, "one more", plain, |it| {
        let params = it.task_run()["spec"]["params"].as_array_mut().unwrap();
        params.push(json!({"name": "more", "value": "v"}));
    }),
    (R::OtherParams, "one less", plain, |it| {
        it.task_run()["spec"]["params"] = json!([]);
    }),
    (R::OtherParams, "one twice", plain, |it| {
        let params = it.task_run()["spec"]["params"].as_array_mut().unwrap();
        params.push(params[0].clone());
    }),
    (
        R::OtherParams,
        "the values of another child",
        |it| it.matrix = Matrix::Params,
        |it| {
            it.task_run()["spec"]["params"][0]["value"] = "b".into();
        },
    ),
    (R::OtherParams, "approvers", plain, |it| {
        it.custom_run()["spec"]["params"][0]["value"] = json!(["mallory"]);
    }),
    (
        R::OtherParams,
        "one of the matrix and of the task",
        |it| it.matrix = Matrix::Params,
        |it| {
            with_task(it, "deploy", |task| {
                let params = task["params"].as_array_mut().unwrap();
                params.push(json!({"name": "m1", "value": "a"}));
            });
        },
    ),
    (
        R::OtherParams,
        "a forged result",
        |it| it.uses = Uses::Text,
        |it| {
            it.objects[3]["status"]["results"][0]["value"] = "mallory".into();
        },
    ),
    (R::OtherTask, "another script", plain, |it| {
        it.task_run()["spec"]["taskSpec"]["steps"][0]["script"] = "evil".into();
    }),
    (R::OtherTask, "a list for a script", plain, |it| {
        it.task_run()["spec"]["taskSpec"]["steps"][0]["script"] = json!(["evil"]);
    }),
    (
        R::OtherTask,
        "another script with a result",
        |it| it.uses = Uses::Script,
        |it| {
            it.task_run()["spec"]["taskSpec"]["steps"][0]["script"] = "evil".into();
        },
    ),
    (R::OtherTask, "another number", plain, |it| {
        let user = |number: u32| json!({"runAsUser": number});
        with_task(it, "deploy", |task| {
            task["taskSpec"]["steps"][0]["securityContext"] = user(1_000);
        });
        it.task_run()["spec"]["taskSpec"]["steps"][0]["securityContext"] = user(0);
    }),
    (R::OtherTask, "one more step", plain, |it| {
        let steps = it.task_run()["spec"]["taskSpec"]["steps"]
            .as_array_mut()
            .unwrap();
        steps.push(steps[0].clone());
    }),
    (R::OtherTask, "one more field", plain, |it| {
        it.task_run()["spec"]["taskSpec"]["volumes"] = json!([1]);
    }),
    (
        R::OtherTask,
        "another argument from a list",
        |it| it.uses = Uses::Script,
        |it| {
            it.task_run()["spec"]["taskSpec"]["steps"][0]["args"][2] = "evil".into();
        },
    ),
    (
        R::OtherTask,
        "another reference",
        |it| it.target = Target::Reference,
        |it| {
            it.task_run()["spec"]["taskRef"]["name"] = "evil".into();
        },
    ),
    (
        R::OtherTask,
        "another parameter of a resolver",
        |it| it.target = Target::Resolver,
        |it| {
            it.task_run()["spec"]["taskRef"]["params"][1]["value"] = "evil".into();
        },
    ),
    (
        R::OtherTask,
        "a script for a reference",
        |it| it.target = Target::Reference,
        |it| {
            clear(it.task_run(), "/spec", "taskRef");
            it.task_run()["spec"]["taskSpec"] = json!({"steps": []});
        },
    ),
    (
        R::OtherTask,
        "a script beside a reference",
        |it| it.target = Target::Reference,
        |it| {
            it.task_run()["spec"]["taskSpec"] = json!({"steps": []});
        },
    ),
    (R::OtherTask, "a reference beside a script", plain, |it| {
        it.task_run()["spec"]["taskRef"] = json!({"name": "evil"});
    }),
    (
        R::OtherTask,
        "a custom reference beside a script",
        plain,
        |it| {
            it.task_run()["spec"]["customRef"] = json!({"name": "evil"});
        },
    ),
    (
        R::OtherTask,
        "a custom reference beside a reference",
        |it| it.target = Target::Reference,
        |it| {
            it.task_run()["spec"]["customRef"] = json!({"name": "evil"});
        },
    ),
    (
        R::OtherTask,
        "a reference that says nothing for a text",
        |it| it.target = Target::Reference,
        |it| {
            with_task(it, "deploy", |task| task["taskRef"] = "deployer".into());
            it.task_run()["spec"]["taskRef"] = json!({"kind": "Task"});
        },
    ),
    (R::OtherTask, "a script of a CustomRun", plain, |it| {
        it.custom_run()["spec"]["taskSpec"] = json!({"steps": []});
    }),
    (R::OtherTask, "another custom task", plain, |it| {
        it.custom_run()["spec"]["customRef"]["kind"] = "Else".into();
    }),
    (R::OtherServiceAccount, "of the TaskRun", plain, |it| {
        it.task_run()["spec"]["serviceAccountName"] = "admin".into();
    }),
    (
        R::OtherServiceAccount,
        "of the template instead of the own",
        |it| it.own_account = true,
        |it| {
            it.task_run()["spec"]["serviceAccountName"] = "builder".into();
        },
    ),
    (
        R::OtherPodTemplate,
        "one that the run has not",
        plain,
        |it| {
            it.task_run()["spec"]["podTemplate"] = json!({"hostNetwork": true});
        },
    ),
    (
        R::OtherPodTemplate,
        "another value",
        |it| it.has_template = true,
        |it| {
            it.task_run()["spec"]["podTemplate"]["env"][0]["value"] = "2".into();
        },
    ),
    (
        R::OtherPodTemplate,
        "a variable twice",
        |it| it.has_template = true,
        |it| {
            let env = &mut it.task_run()["spec"]["podTemplate"]["env"];
            let env = env.as_array_mut().unwrap();
            env.insert(0, json!({"name": "B", "value": "evil"}));
        },
    ),
    (R::OtherPodTemplate, "settings of steps", plain, |it| {
        it.task_run()["spec"]["stepSpecs"] = json!([{"name": "s"}]);
    }),
    (R::OtherPodTemplate, "sidecars", plain, |it| {
        it.task_run()["spec"]["sidecarSpecs"] = json!([{"name": "s"}]);
    }),
    (R::OtherPodTemplate, "of a CustomRun", plain, |it| {
        it.custom_run()["spec"]["podTemplate"] = json!({});
    }),
    (
        R::OtherWorkspaces,
        "one that the run has not",
        plain,
        |it| {
            it.task_run()["spec"]["workspaces"] =
                json!([{"name": "w", "configMap": {"name": "evil"}}]);
        },
    ),
    (
        R::OtherWorkspaces,
        "another source",
        |it| it.workspace = Workspace::Secret,
        |it| {
            it.task_run()["spec"]["workspaces"][0]["secret"]["secretName"] = "evil".into();
        },
    ),
    (
        R::OtherWorkspaces,
        "another path",
        |it| it.workspace = Workspace::Secret,
        |it| {
            it.task_run()["spec"]["workspaces"][0]["subPath"] = "evil".into();
        },
    ),
    (
        R::OtherWorkspaces,
        "another claim",
        |it| it.workspace = Workspace::Claim,
        |it| {
            it.task_run()["spec"]["workspaces"][0]["persistentVolumeClaim"]["claimName"] =
                "evil".into();
        },
    ),
    (
        R::OtherWorkspaces,
        "a claim called like that of an affinity assistant",
        |it| it.workspace = Workspace::Claim,
        |it| {
            let claim =
                &mut it.task_run()["spec"]["workspaces"][0]["persistentVolumeClaim"]["claimName"];
            *claim = format!("{}-affinity-assistant-evil-0", claim.as_str().unwrap()).into();
        },
    ),
    (
        R::OtherWorkspaces,
        "one of the run that the task does not name",
        |it| {
            it.target = Target::Reference;
            it.workspace = Workspace::Secret;
        },
        |it| {
            let all = it.task_run()["spec"]["workspaces"].as_array_mut().unwrap();
            all.push(json!({"name": "shared", "secret": {"secretName": "s"}, "subPath": "of/run"}));
        },
    ),
    (
        R::OtherWorkspaces,
        "none",
        |it| it.workspace = Workspace::Secret,
        |it| {
            clear(it.task_run(), "/spec", "workspaces");
        },
    ),
    (
        R::OtherWorkspaces,
        "twice",
        |it| it.workspace = Workspace::Secret,
        |it| {
            let all = it.task_run()["spec"]["workspaces"].as_array_mut().unwrap();
            all.push(all[0].clone());
        },
    ),
    (R::OtherSettings, "a breakpoint", plain, |it| {
        it.task_run()["spec"]["debug"] = json!({"breakpoints": {"onFailure": "enabled"}});
    }),
    (R::OtherSettings, "retries", plain, |it| {
        it.task_run()["spec"]["retries"] = 9.into();
    }),
    (
        R::OtherSettings,
        "retries that are no number on either side",
        plain,
        |it| {
            with_task(it, "deploy", |task| task["retries"] = "many".into());
            it.task_run()["spec"]["retries"] = "many".into();
        },
    ),
    (R::OtherSettings, "another controller", plain, |it| {
        it.task_run()["spec"]["managedBy"] = "example.com/other".into();
    }),
    (R::ValueUnresolved, "a status", plain, |it| {
        with_task(it, "deploy", |task| {
            task["params"][0]["value"] = "$(tasks.who.status)".into();
        });
    }),
    (
        R::ValueUnresolved,
        "a result that is none",
        |it| it.uses = Uses::Text,
        |it| {
            it.objects[3]["status"]["results"] = json!([]);
        },
    ),
    (
        R::ValueUnresolved,
        "a list in a text",
        |it| it.uses = Uses::Text,
        |it| {
            it.objects[3]["status"]["results"][0]["value"] = json!(["eve"]);
        },
    ),
    (
        R::ValueUnresolved,
        "an index beyond the list",
        |it| it.uses = Uses::Item,
        |it| {
            it.objects[3]["status"]["results"][1]["value"] = json!(["x"]);
        },
    ),
    (
        R::ValueUnresolved,
        "a result of a task that is none",
        plain,
        |it| {
            with_task(it, "deploy", |task| {
                task["params"][0]["value"] = "$(tasks.none.results.r)".into();
            });
        },
    ),
    (
        R::ValueUnresolved,
        "all items of a text",
        |it| it.uses = Uses::Text,
        |it| {
            with_task(it, "deploy", |task| {
                task["params"][0]["value"] = "$(tasks.who.results.boss[*])".into();
            });
        },
    ),
    (
        R::ValueUnresolved,
        "a number as a result",
        |it| it.uses = Uses::Item,
        |it| {
            it.objects[3]["status"]["results"][1]["value"] = json!([1, 2]);
        },
    ),
    (
        R::ValueUnresolved,
        "a result of a pipeline in the pipeline",
        |it| it.uses = Uses::Text,
        |it| {
            with_task(it, "who", |task| {
                clear(task, "", "taskSpec");
                task["pipelineRef"] = json!({"name": "p"});
            });
        },
    ),
    (
        R::ValueUnresolved,
        "lists of a matrix",
        |it| it.uses = Uses::List,
        |it| {
            with_task(it, "who", |task| {
                task["matrix"] = json!({"params": [{"name": "m", "value": ["a"]}]});
            });
            it.objects[3]["spec"]["params"] = json!([{"name": "m", "value": "a"}]);
        },
    ),
    (R::ValueUnresolved, "a number", plain, |it| {
        parameter(it, &json!(1));
    }),
    (R::ValueUnresolved, "a number in an object", plain, |it| {
        parameter(it, &json!({"key": 1}));
    }),
    (
        R::ValueUnresolved,
        "a parameter without a name",
        plain,
        |it| {
            let nameless = json!({"name": "", "value": "v"});
            let more = |params: &mut Value| params.as_array_mut().unwrap().push(nameless.clone());
            with_task(it, "deploy", |task| more(&mut task["params"]));
            more(&mut it.task_run()["spec"]["params"]);
        },
    ),
    (R::ValueUnresolved, "a parameter twice", plain, |it| {
        with_task(it, "deploy", |task| {
            let params = task["params"].as_array_mut().unwrap();
            params.push(params[0].clone());
        });
    }),
    (
        R::MatrixUnreadable,
        "a text",
        |it| it.matrix = Matrix::Params,
        |it| {
            with_task(it, "deploy", |task| {
                task["matrix"]["params"][0]["value"] = "a".into();
            });
        },
    ),
    (
        R::MatrixUnreadable,
        "a list in a combination that is included",
        |it| it.matrix = Matrix::Include,
        |it| {
            with_task(it, "deploy", |task| {
                task["matrix"]["include"][0]["params"][0]["value"] = json!(["i"]);
            });
        },
    ),
    (
        R::MatrixUnreadable,
        "a combination that Tekton counts twice",
        |it| it.matrix = Matrix::Params,
        |it| {
            with_task(it, "deploy", |task| {
                let new = |name: &str| json!({"name": name, "value": "new"});
                task["matrix"]["include"] = json!([{"params": [new("m1"), new("m2")]}]);
            });
        },
    ),
    (
        R::MatrixUnreadable,
        "too many values",
        |it| it.matrix = Matrix::Params,
        |it| {
            with_task(it, "deploy", |task| {
                let many: Vec<_> = (0..20).map(|it| it.to_string()).collect();
                for place in 0..2 {
                    task["matrix"]["params"][place]["value"] = json!(many);
                }
            });
        },
    ),
    (
        R::MatrixUnreadable,
        "nothing",
        |it| it.matrix = Matrix::Params,
        |it| {
            with_task(it, "deploy", |task| {
                task["matrix"]["params"][0]["value"] = json!([]);
            });
        },
    ),
];
