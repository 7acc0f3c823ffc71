//! After a grant: the run of the evidence, and the approval.

use serde_json::{Value, json};

use super::shape::Shape;
use super::world::{World, clear};
use super::{LineageReason, LineageVerdict, TEKTON};
use LineageReason as R;

type Change = fn(&mut World);

const ENDS: [(Change, LineageReason); 6] = [
    (
        |it| it.run()["spec"]["status"] = "Cancelled".into(),
        R::RunCancelled,
    ),
    (
        |it| it.run()["status"]["conditions"][0]["status"] = "True".into(),
        R::RunDone,
    ),
    (
        |it| it.run()["status"]["completionTime"] = "2026-11-21T11:00:00Z".into(),
        R::RunDone,
    ),
    (
        |it| it.run()["metadata"]["deletionTimestamp"] = "2026-11-21T11:00:00Z".into(),
        R::BeingDeleted,
    ),
    (|it| it.run()["kind"] = "TaskRun".into(), R::Unreadable),
    (|it| clear(it.run(), "/metadata", "uid"), R::Unreadable),
];

fn held(world: &mut World) -> Option<LineageReason> {
    let runs = [world.run().clone()];
    match TEKTON.still_holds(&world.approval, &runs) {
        LineageVerdict::Refused(refusal) => Some(refusal.reason),
        LineageVerdict::Proven(_) => None,
        waiting @ LineageVerdict::Waiting(_) => panic!("{waiting:?}"),
    }
}

#[test]
fn a_run_goes_on_until_it_ends() {
    let mut world = Shape::default().world();
    assert_eq!(TEKTON.goes_on(world.run()), Ok(()));
    assert_eq!(held(&mut world), None);
    for (change, reason) in ENDS {
        let mut world = Shape::default().world();
        change(&mut world);
        let ended = TEKTON.goes_on(world.run()).map_err(|it| it.reason);
        assert_eq!(ended, Err(reason));
        assert_eq!(held(&mut world), Some(reason));
    }
}

#[test]
fn the_approval_of_a_grant_is_counted_by_its_own_number() {
    let number = |value: Value, input: &str| {
        let mut world = Shape::default().world();
        world.approval["spec"]["numberOfApprovalsRequired"] = value;
        world.approval["spec"]["approvers"][0]["input"] = input.into();
        held(&mut world)
    };
    assert_eq!(number(json!(1), "approve"), None);
    for (value, input) in [
        (Value::Null, "approve"),
        (json!(2), "approve"),
        (json!(0), "pending"),
        (json!(1), "pending"),
    ] {
        assert_eq!(
            number(value.clone(), input),
            Some(R::QuorumNotMet),
            "{value}"
        );
    }
}

#[test]
fn another_object_than_an_approval_task_holds_nothing() {
    let mut world = Shape::default().world();
    world.approval["kind"] = "ApprovalRequest".into();
    assert_eq!(held(&mut world), Some(R::Unreadable));
}
