//! The content of children.

use serde_json::json;

use super::super::shape::{Matrix, Target, Uses, Workspace};
use super::super::world::clear;
use super::{LineageReason as R, Row, plain, with_task};

pub(super) const ROWS: &[Row] = &[
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
        "a forged result",
        |it| it.uses = Uses::Text,
        |it| {
            it.objects[3]["status"]["results"][0]["value"] = "mallory".into();
        },
    ),
    (R::OtherTask, "another script", plain, |it| {
        it.task_run()["spec"]["taskSpec"]["steps"][0]["script"] = "evil".into();
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
        "nothing",
        |it| it.matrix = Matrix::Params,
        |it| {
            with_task(it, "deploy", |task| {
                task["matrix"]["params"][0]["value"] = json!([]);
            });
        },
    ),
];
