//! Ways to tamper with a run. Each leaves a world that must not be proven.

use serde_json::{Value, json};

use super::super::shape::{Matrix, Shape, Uses};
use super::super::world::{World, owner};

/// The places of all values below a value that can be changed on their own.
pub(in super::super) fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                leaves(value, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &format!("{at}/{index}"), found);
            }
        }
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => found.push(at.to_owned()),
    }
}

/// The fields that may differ: they do not change what runs, or other fields decide.
pub(in super::super) fn is_free(at: &str) -> bool {
    // The version of an owner does not matter, its group does.
    let is_version = at.starts_with("/metadata/ownerReferences") && at.ends_with("/apiVersion");
    let free = ["/timeout", "/message", "/blockOwnerDeletion"];
    // A child that is there was made: its condition has been decided.
    let is_condition = at.contains("/when/");
    // Other values of a matrix change other children.
    let is_matrix = at.contains("/matrix/");
    is_version || is_matrix || is_condition || free.iter().any(|it| at.ends_with(it))
}

pub(in super::super) fn changed(value: &mut Value) {
    *value = match value {
        Value::String(text) => Value::String(format!("{text}x")),
        Value::Bool(it) => Value::Bool(!*it),
        Value::Number(it) => json!(it.as_u64().unwrap_or(0) + 1),
        Value::Null => json!("x"),
        Value::Array(_) | Value::Object(_) => json!(1),
    };
}

/// Changes one value of an object.
fn change(value: &mut Value, below: &[&str], pick: usize) -> Option<String> {
    let mut places = Vec::new();
    for at in below {
        if let Some(inner) = value.pointer(at) {
            leaves(inner, at, &mut places);
        }
    }
    places.retain(|at| !is_free(at));
    let at = places.get(pick % places.len().max(1))?.clone();
    changed(value.pointer_mut(&at).unwrap());
    Some(at)
}

/// The indices of the pipeline tasks that pod and approval come from.
fn tasks_of(world: &mut World, shape: &Shape) -> Vec<String> {
    let spec = &world.run()["status"]["pipelineSpec"];
    let mut found = Vec::new();
    for list in ["tasks", "finally"] {
        let tasks = spec[list].as_array().into_iter().flatten().enumerate();
        for (index, task) in tasks {
            if task["name"] == shape.task.as_str() || task["name"] == shape.approve.as_str() {
                found.push(format!("/status/pipelineSpec/{list}/{index}"));
            }
        }
    }
    found
}

const IDENTITY: [&str; 5] = [
    "/apiVersion",
    "/kind",
    "/metadata/namespace",
    "/metadata/name",
    "/metadata/ownerReferences",
];

/// One way to tamper. The text names the change. None if the way does not apply to this world.
#[expect(clippy::too_many_lines, reason = "it is a table")]
pub(super) fn tamper(world: &mut World, shape: &Shape, way: usize, pick: usize) -> Option<String> {
    let other = Shape {
        run: format!("{}o", shape.run),
        uid: "uid-other".to_owned(),
        ..shape.clone()
    };
    let copied = Shape {
        uid: "uid-other".to_owned(),
        ..shape.clone()
    };
    let foreign = if pick.is_multiple_of(2) {
        other.world()
    } else {
        copied.world()
    };
    let which = pick % 3;
    match way {
        // A value of a child.
        0 => change(world.task_run(), &["/spec"], pick),
        1 => change(world.custom_run(), &["/spec"], pick),
        // A value of the pipeline.
        2 => {
            let below = tasks_of(world, shape);
            let below: Vec<_> = below.iter().map(String::as_str).collect();
            change(world.run(), &below, pick)
        }
        // A value of an identity.
        3 => change(&mut world.pod, &IDENTITY, pick),
        4 => change(&mut world.approval, &IDENTITY, pick),
        5 => change(&mut world.objects[which], &IDENTITY, pick),
        // Approvers.
        6 => {
            let entries = world.approval["spec"]["approvers"]
                .as_array()
                .unwrap()
                .len();
            let entry = &mut world.approval["spec"]["approvers"][pick % entries];
            change(entry, &["/name", "/type"], pick / 7)
        }
        7 => {
            let entry = &mut world.approval["spec"]["approvers"][pick % shape.needed];
            change(entry, &["/input"], 0)
        }
        8 => change(&mut world.approval, &["/spec/numberOfApprovalsRequired"], 0),
        9 => {
            let one = json!({"name": "mallory", "type": "User", "input": "approve"});
            world.approval["spec"]["approvers"]
                .as_array_mut()
                .unwrap()
                .push(one);
            Some("an approver was added".to_owned())
        }
        10 => {
            world.approval["spec"]["approvers"]
                .as_array_mut()
                .unwrap()
                .pop();
            Some("an approver was removed".to_owned())
        }
        // Both the CustomRun and the approval are the attacker's.
        11 => {
            let names = json!(["mallory"]);
            let entry = json!([{"name": "mallory", "type": "User", "input": "approve"}]);
            world.custom_run()["spec"]["params"][0]["value"] = names;
            world.custom_run()["spec"]["params"][1]["value"] = "1".into();
            world.approval["spec"]["approvers"] = entry;
            world.approval["spec"]["numberOfApprovalsRequired"] = 1.into();
            (shape.approvers != [(false, "mallory".to_owned())])
                .then(|| "approvers everywhere".to_owned())
        }
        // Objects of another run.
        12 => {
            world.pod = foreign.pod;
            Some("the pod of another run".to_owned())
        }
        13 => {
            world.approval = foreign.approval;
            Some("the approval of another run".to_owned())
        }
        14 => {
            world.objects[which] = foreign.objects[which].clone();
            Some(format!("object {which} of another run"))
        }
        15 => {
            world.approval = foreign.approval;
            world.objects[1] = foreign.objects[1].clone();
            Some("the approval's chain of another run".to_owned())
        }
        16 => {
            world.pod = foreign.pod;
            world.objects[0] = foreign.objects[0].clone();
            Some("the pod's chain of another run".to_owned())
        }
        // Deleted, going, created again.
        17 => {
            world.objects.remove(pick % world.objects.len());
            Some("an object is missing".to_owned())
        }
        18 => {
            world.objects[which]["metadata"]["deletionTimestamp"] = "2026-11-21T11:00:00Z".into();
            Some("an object is being deleted".to_owned())
        }
        19 => {
            world.objects[which]["metadata"]["uid"] = "uid-new".into();
            Some("an object was created again".to_owned())
        }
        // Clocks.
        20 => {
            let early = json!("2026-11-21T09:59:59Z");
            // All but the run, which may be as old as it likes.
            let mut all = vec![&mut world.pod, &mut world.approval];
            let others = world
                .objects
                .iter_mut()
                .enumerate()
                .filter(|(index, _)| *index != 2);
            all.extend(others.map(|(_, object)| object));
            let count = all.len();
            all[pick % count]["metadata"]["creationTimestamp"] = early;
            Some("created too early".to_owned())
        }
        // A stranger among the children.
        21 => {
            let task = if pick.is_multiple_of(2) {
                &shape.task
            } else {
                &shape.approve
            };
            let kind = crate::lineage::tekton::RunKind::ALL[which];
            world.adopt(kind, "evil", task);
            Some("a stranger was adopted".to_owned())
        }
        22 => {
            let own = world.objects[pick % 2]["metadata"]["name"].clone();
            let children = world.run()["status"]["childReferences"]
                .as_array_mut()
                .unwrap();
            let entry = children.iter_mut().find(|it| it["name"] == own).unwrap();
            changed(&mut entry[["name", "kind", "pipelineTaskName"][pick / 2 % 3]]);
            Some("a child is listed otherwise".to_owned())
        }
        // The run ends.
        23 => {
            let words = [
                "Cancelled",
                "CancelledRunFinally",
                "StoppedRunFinally",
                "PipelineRunPending",
                "Else",
            ];
            world.run()["spec"]["status"] = words[pick % words.len()].into();
            Some("cancelled".to_owned())
        }
        24 => {
            let end = if pick.is_multiple_of(2) {
                "True"
            } else {
                "False"
            };
            world.objects[if which == 1 { 0 } else { 2 }]["status"]["conditions"][0]["status"] =
                end.into();
            Some("ended".to_owned())
        }
        25 => {
            world.run()["status"]["completionTime"] = "2026-11-21T11:00:00Z".into();
            Some("completed".to_owned())
        }
        26 => {
            world.run()["metadata"]["ownerReferences"] =
                owner("tekton.dev/v1", "PipelineRun", "parent", "uid-parent");
            Some("the child of a run".to_owned())
        }
        27 => {
            world.custom_run()["spec"]["status"] = "RunCancelled".into();
            Some("the CustomRun was cancelled".to_owned())
        }
        // The state.
        28 => {
            let words = ["rejected", "pending", "", "expired", "passed", "Approved"];
            world.approval["status"]["state"] = words[pick % words.len()].into();
            Some("another state".to_owned())
        }
        // Results.
        29 => {
            let producer = world.objects.get_mut(3)?;
            let uses = match (shape.uses, shape.asks || shape.matrix == Matrix::Result) {
                (Uses::Custom | Uses::Text | Uses::Script, false) => "/status/results/0/value",
                (Uses::List, false) => "/status/results/1/value",
                (Uses::Key | Uses::Object, false) => "/status/results/2/value",
                _ => return None,
            };
            change(producer, &[uses], pick)
        }
        30 => {
            let producer = world.objects.get_mut(3)?;
            change(producer, &["/spec"], pick)
        }
        31 => {
            world.run()["status"]["skippedTasks"] =
                json!([{"name": if which == 0 { &shape.task } else { &shape.approve }}]);
            Some("skipped".to_owned())
        }
        32 => {
            world.task_run()["status"]["podName"] = "another".into();
            Some("another pod is current".to_owned())
        }
        33 => change(&mut world.pod, &["/spec/serviceAccountName"], 0),
        // Fields that honest children do not have.
        34 => {
            let child = &mut world.objects[pick % 2];
            let fields = [
                "debug",
                "sidecarSpecs",
                "podTemplate",
                "unknown",
                "workspaces",
                "managedBy",
            ];
            let value = json!([{"name": "extra", "emptyDir": {}}]);
            let value = if pick / 2 % 6 == 2 {
                json!({"hostNetwork": true, "extra": 1})
            } else {
                value
            };
            child["spec"][fields[pick / 2 % 6]] = value;
            Some("an added field".to_owned())
        }
        _ => {
            let child = &mut world.objects[pick % 2];
            child["spec"]["params"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": "extra", "value": "v"}));
            Some("an added parameter".to_owned())
        }
    }
}

pub(super) const WAYS: usize = 36;
