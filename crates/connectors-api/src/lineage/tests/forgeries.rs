//! The known forgeries, F1 to F21, as a tenant would make them.
//!
//! Not seen here, because no lineage can or need:
//! * F8, an inline pipeline whose approval lists its own author: it is an honest run. The policy's `approvers` decide.
//! * F9 and F10, requests for another subject, or changed after the grant: admission and the controller.
//! * F11, another pod under the name: the request pins the pod's UID.
//! * F13, an empty selector: the check fails before anything is judged.
//! * F14, the approval of another task of the same run: the policy's selector names the pipeline task.
//! * F16, `pods/exec` or an ephemeral container: the pod itself is the approved one.
//! * F20, as long as the TaskRun runs: Tekton re-creates a deleted pod at once, but an impostor that wins that race is
//!   believed by Tekton too. Once the TaskRun has ended, no pod of it is.

use serde_json::json;

use super::LineageReason;
use super::shape::Shape;
use super::world::{World, clear, owner};
use crate::lineage::tekton::RunKind;

/// The run of the victim, which is approved.
fn victim() -> World {
    Shape::default().world()
}

/// A run of the attacker in the same namespace.
fn attacker() -> World {
    let shape = Shape {
        run: "run-b".to_owned(),
        uid: "uid-b".to_owned(),
        approvers: vec![(false, "mallory".to_owned())],
        ..Shape::default()
    };
    shape.world()
}

/// The attacker's child with the labels and the owner reference of the victim's run.
fn claimed(world: &mut World, index: usize, name: &str) {
    let child = &mut world.objects[index];
    child["metadata"]["name"] = name.into();
    child["metadata"]["uid"] = "uid-evil".into();
    child["metadata"]["ownerReferences"] = owner("tekton.dev/v1", "PipelineRun", "run", "uid-run");
}

fn evil_task(world: &mut World) {
    world.task_run()["spec"]["taskSpec"]["steps"][0]["script"] = "steal".into();
    world.pod["metadata"]["ownerReferences"][0]["uid"] = "uid-evil".into();
    world.pod["metadata"]["ownerReferences"][0]["name"] =
        world.objects[0]["metadata"]["name"].clone();
}

/// The attacker's approval, given by the attacker.
fn evil_approval(world: &mut World, name: &str) {
    world.custom_run()["spec"]["params"][0]["value"] = json!(["mallory"]);
    world.approval["metadata"]["name"] = name.into();
    world.approval["metadata"]["ownerReferences"] =
        owner("tekton.dev/v1beta1", "CustomRun", name, "uid-evil");
    world.approval["spec"]["approvers"] =
        json!([{"name": "mallory", "type": "User", "input": "approve"}]);
}

#[test]
fn f1_a_pod_with_copied_labels_has_no_task_run() {
    let mut world = victim();
    clear(&mut world.pod, "/metadata", "ownerReferences");
    assert_eq!(world.refused(), LineageReason::PodWithoutTaskRun);
}

#[test]
fn f2_a_pod_of_another_run_with_spoofed_labels_belongs_to_that_run() {
    let World { pod, objects, .. } = attacker();
    let mut world = victim();
    let mut all = objects;
    all.extend(world.objects);
    world.objects = all;
    world.pod = pod;
    world.pod["metadata"]["labels"] =
        json!({"tekton.dev/pipelineRun": "run", "tekton.dev/pipelineRunUID": "uid-run"});
    assert_eq!(world.refused(), LineageReason::OtherRun);
}

/// Otherwise an approval of another run would cost reads of the objects that its owner reference names.
#[test]
fn an_approval_of_another_run_is_refused_before_anything_of_it_is_read() {
    let mut world = victim();
    world.approval = attacker().approval;
    world.objects.remove(1);
    assert_eq!(world.refused(), LineageReason::OtherRun);
}

#[test]
fn f3_a_custom_run_with_copied_labels_belongs_to_no_run() {
    let mut world = victim();
    world.custom_run()["metadata"]["name"] = "evil".into();
    world.custom_run()["metadata"]["uid"] = "uid-evil".into();
    evil_approval(&mut world, "evil");
    clear(world.custom_run(), "/metadata", "ownerReferences");
    assert_eq!(world.refused(), LineageReason::OtherRun);
}

#[test]
fn f4_a_custom_run_that_tekton_adopts_is_refused_and_so_is_the_task_that_it_joins() {
    let mut world = victim();
    claimed(&mut world, 1, "evil");
    evil_approval(&mut world, "evil");
    assert_eq!(world.refused(), LineageReason::OtherRun);
    world.adopt(RunKind::CustomRun, "evil", "wait");
    assert_eq!(world.refused(), LineageReason::NotDerivedName);
    // The victim's own approval waits for an honest run.
    let mut world = victim();
    world.adopt(RunKind::CustomRun, "evil", "wait");
    assert_eq!(world.refused(), LineageReason::TooManyChildren);
}

#[test]
fn f5_a_custom_run_that_took_the_name_first_is_refused() {
    let mut world = victim();
    world.custom_run()["metadata"]["uid"] = "uid-evil".into();
    evil_approval(&mut world, "run-wait");
    world.custom_run()["metadata"]["creationTimestamp"] = "2026-11-21T09:00:00Z".into();
    // With the owner reference that the attacker adds when the run's UID is known.
    assert_eq!(world.refused(), LineageReason::ChildOlderThanRun);
    // Within the same second.
    world.custom_run()["metadata"]["creationTimestamp"] = "2026-11-21T10:00:00Z".into();
    assert_eq!(world.refused(), LineageReason::OtherParams);
    // As Tekton takes it, without an owner reference.
    clear(world.custom_run(), "/metadata", "ownerReferences");
    assert_eq!(world.refused(), LineageReason::CustomRunWithoutRun);
}

#[test]
fn f6_a_status_without_approvals_is_refused() {
    let mut world = victim();
    world.approval["spec"]["approvers"][0]["input"] = "pending".into();
    assert_eq!(world.refused(), LineageReason::QuorumNotMet);
}

#[test]
fn f7_a_lower_quorum_or_a_phantom_approver_is_refused() {
    let shape = Shape {
        needed: 2,
        ..Shape::default()
    };
    let mut world = shape.world();
    world.approval["spec"]["numberOfApprovalsRequired"] = 1.into();
    assert_eq!(world.refused(), LineageReason::OtherApprovalCount);
    let mut world = shape.world();
    let approvers = world.approval["spec"]["approvers"].as_array_mut().unwrap();
    approvers.push(json!({"name": "phantom", "type": "User", "input": "approve"}));
    assert_eq!(world.refused(), LineageReason::OtherApprovers);
}

#[test]
fn f8_an_honest_run_is_proven_and_names_its_approvers_for_the_policy() {
    let super::LineageVerdict::Proven(evidence) = attacker().judged() else {
        panic!("an honest run");
    };
    assert_eq!(evidence.approvals[0].user, "mallory");
}

#[test]
fn f12_an_approval_after_the_cancellation_is_refused() {
    let mut world = victim();
    world.run()["spec"]["status"] = "Cancelled".into();
    world.custom_run()["spec"]["status"] = "RunCancelled".into();
    assert_eq!(world.refused(), LineageReason::RunCancelled);
    clear(world.run(), "/spec", "status");
    assert_eq!(world.refused(), LineageReason::CustomRunEnded);
}

#[test]
fn f15_an_approval_of_another_namespace_is_refused() {
    let mut world = victim();
    world.approval["metadata"]["namespace"] = "mine".into();
    assert_eq!(world.refused(), LineageReason::OtherNamespace);
}

#[test]
fn f17_a_task_run_that_tekton_adopts_is_refused_and_so_is_the_task_that_it_joins() {
    let mut world = victim();
    claimed(&mut world, 0, "evil-deploy");
    evil_task(&mut world);
    assert_eq!(world.refused(), LineageReason::NotDerivedName);
    world.adopt(RunKind::TaskRun, "evil-deploy", "deploy");
    assert_eq!(world.refused(), LineageReason::NotDerivedName);
    let mut world = victim();
    world.adopt(RunKind::TaskRun, "evil-deploy", "deploy");
    assert_eq!(world.refused(), LineageReason::TooManyChildren);
}

#[test]
fn f18_a_task_run_that_took_the_name_first_is_refused() {
    let mut world = victim();
    claimed(&mut world, 0, "run-deploy");
    evil_task(&mut world);
    world.task_run()["metadata"]["creationTimestamp"] = "2026-11-21T09:00:00Z".into();
    assert_eq!(world.refused(), LineageReason::ChildOlderThanRun);
    world.task_run()["metadata"]["creationTimestamp"] = "2026-11-21T10:00:00Z".into();
    assert_eq!(world.refused(), LineageReason::OtherTask);
    clear(world.task_run(), "/metadata", "ownerReferences");
    assert_eq!(world.refused(), LineageReason::TaskRunWithoutRun);
}

#[test]
fn f19_a_pod_that_took_the_name_before_the_task_run_is_refused() {
    let mut world = victim();
    world.pod["metadata"]["creationTimestamp"] = "2026-11-21T10:00:05Z".into();
    assert_eq!(world.refused(), LineageReason::PodOlderThanTaskRun);
    clear(&mut world.pod, "/metadata", "ownerReferences");
    assert_eq!(world.refused(), LineageReason::PodWithoutTaskRun);
}

#[test]
fn f20_an_impostor_is_refused_when_its_task_run_has_ended() {
    let mut world = victim();
    world.pod["metadata"]["uid"] = "uid-impostor".into();
    world.pod["metadata"]["creationTimestamp"] = "2026-11-21T10:30:00Z".into();
    // The race that Tekton loses too.
    assert!(world.is_proven());
    world.task_run()["status"]["conditions"][0]["status"] = "True".into();
    assert_eq!(world.refused(), LineageReason::TaskRunDone);
}

#[test]
fn f21_an_approval_that_took_the_name_before_the_gate_is_refused() {
    let mut world = victim();
    world.approval["spec"]["approvers"] =
        json!([{"name": "mallory", "type": "User", "input": "approve"}]);
    assert_eq!(world.refused(), LineageReason::OtherApprovers);
    world.approval["metadata"]["creationTimestamp"] = "2026-11-21T10:00:09Z".into();
    assert_eq!(world.refused(), LineageReason::ApprovalOlderThanCustomRun);
}

/// An account that may write the status of the TaskRun must still win the race of F20, for the derived name.
#[test]
fn f22_a_pod_that_a_forged_status_names_is_refused() {
    let mut world = victim();
    world.pod["metadata"]["name"] = "evil".into();
    world.task_run()["status"]["podName"] = "evil".into();
    assert_eq!(world.refused(), LineageReason::PodNotCurrent);
}

/// F24: the gate's webhook takes the names of fields in any case, and the last of several counts.
#[test]
fn f24_fields_that_differ_in_nothing_but_case_are_refused() {
    type Change = fn(&mut serde_json::Value);
    let changes: [Change; 6] = [
        |it| it["spec"]["approver\u{17f}"] = it["spec"]["approvers"].clone(),
        |it| it["spec"]["Approvers"] = it["spec"]["approvers"].clone(),
        |it| it["\u{17f}pec"] = it["spec"].clone(),
        |it| it["spec"]["approvers"][0]["Name"] = "bob".into(),
        |it| it["spec"]["approvers"][1]["u\u{17f}ers"] = serde_json::json!([]),
        |it| {
            it["spec"]["approvers"][1]["users"] =
                serde_json::json!([{"name": "bob", "input": "approve", "INPUT": "pending"}]);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut world = World::honest();
        world.approval["spec"]["approvers"][1]["users"] = serde_json::json!([]);
        change(&mut world.approval);
        assert_eq!(world.refused(), LineageReason::AmbiguousFields, "{number}");
    }
    let mut world = World::honest();
    world.approval["spec"]["other"] = "a".into();
    world.approval["metadata"]["annotations"] = serde_json::json!({"a": "1", "A": "2"});
    assert!(world.is_proven());
}

/// F25: the gate's webhook compares entries by their place, so an approver could change names instead of inputs.
#[test]
fn f25_approvers_in_another_order_are_refused() {
    let mut world = World::honest();
    let approvers = world.approval["spec"]["approvers"].as_array_mut().unwrap();
    approvers.reverse();
    assert_eq!(world.refused(), LineageReason::OtherApprovers);
}
