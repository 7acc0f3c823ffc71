//! The objects that Tekton Pipelines and manual-approval-gate themselves wrote about runs of our own
//! pipelines, on a real cluster (docs/reliability.md names the commits). The files contain the judged fields
//! of each object, and of its metadata the identity.
//!
//! `cargo xtask test tekton` runs the same pipelines, and more, on a cluster that has both.

use serde_json::Value;

use super::properties::tamper::{changed, is_free, leaves};
use super::world::World;

macro_rules! live {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("live/", $name, ".yaml")))),*]
    };
}

const LIVE: [(&str, &str); 25] = live![
    "binding-paths",
    "bindings",
    "claim",
    "finally",
    "finally-after-a-failure",
    "lists-of-results",
    "long-names",
    "matrix",
    "parameters",
    "plain",
    "pod-templates",
    "quorum",
    "resolver",
    "results-as-parameters",
    "results-in-a-task",
    "results-of-a-matrix",
    "sidecar",
    "skipped-task",
    "step-action",
    "task-of-the-cluster",
    "timeouts",
    "two-of-a-group",
    "version-before",
    "workspace",
    "workspace-of-no-task",
];

fn world(text: &str) -> World {
    let mut read: Value = serde_yaml::from_str(text).unwrap();
    let objects = read["objects"].as_array().unwrap().clone();
    World {
        pod: read["pod"].take(),
        approval: read["approval"].take(),
        objects,
    }
}

#[test]
fn what_live_controllers_write_is_proven() {
    for (name, text) in LIVE {
        let world = world(text);
        assert!(world.is_proven(), "{name}: {:?}", world.judged());
    }
}

/// Everything that Tekton writes into the pod's TaskRun and the approval's CustomRun is compared.
#[test]
fn no_value_of_a_live_child_may_be_another_one() {
    for (name, text) in LIVE {
        let honest = world(text);
        let of = |value: &Value| {
            let owner = &value["metadata"]["ownerReferences"][0]["uid"];
            honest
                .objects
                .iter()
                .position(|it| it["metadata"]["uid"] == *owner)
        };
        for child in [of(&honest.pod), of(&honest.approval)].map(Option::unwrap) {
            let mut places = Vec::new();
            leaves(&honest.objects[child]["spec"], "/spec", &mut places);
            for at in places.iter().filter(|it| !is_free(it)) {
                let mut world = honest.clone();
                changed(world.objects[child].pointer_mut(at).unwrap());
                assert!(!world.is_proven(), "{name} {at}");
            }
        }
    }
}
