//! The price of a proof: its steps stand for time and for memory, and the author of a run must not choose
//! them.

use serde_json::{Value, json};

use super::shape::{Matrix, Shape, Uses, Workspace};
use super::world::World;
use super::{LineageReason, LineageVerdict, TEKTON};
use crate::lineage::MOST_STEPS;
use crate::lineage::tekton::RunKind;
use crate::template::{Budget, LabelTemplates, TemplateData};

/// The refusal of a world, and the steps until then.
fn priced(world: &World, steps: usize) -> (Option<LineageReason>, usize) {
    let mut left = steps;
    let verdict = TEKTON.judge_within(&world.question(), &mut left);
    let reason = match verdict {
        LineageVerdict::Refused(refusal) => Some(refusal.reason),
        LineageVerdict::Proven(_) | LineageVerdict::Waiting(_) => None,
    };
    (reason, steps - left)
}

#[test]
fn proofs_share_their_steps_and_without_any_left_each_is_refused() {
    let world = Shape::default().world();
    let (reason, price) = priced(&world, MOST_STEPS);
    assert_eq!(reason, None);
    assert!(price > 0 && price < 1_000, "{price}");
    assert_eq!(priced(&world, price), (None, price));
    for steps in [0, price - 1] {
        let (reason, _) = priced(&world, steps);
        assert_eq!(reason, Some(LineageReason::TooLarge));
    }
    let mut left = 2 * price;
    for _ in 0..2 {
        let verdict = TEKTON.judge_within(&world.question(), &mut left);
        assert!(matches!(verdict, LineageVerdict::Proven(_)));
    }
    assert_eq!(left, 0);
    // No single proof takes all.
    let mut left = usize::MAX;
    assert!(matches!(
        TEKTON.judge_within(&world.question(), &mut left),
        LineageVerdict::Proven(_)
    ));
    assert_eq!(usize::MAX - left, price);
}

/// Whatever the author of a run may let grow is counted, so another price is another limit for what authors write.
#[test]
fn each_part_of_a_proof_has_its_price() {
    type Row = (&'static str, fn(&mut Shape), fn(&mut World), usize);
    let rows: [Row; 9] = [
        ("a run", |_| {}, |_| {}, 60),
        (
            "twelve children more",
            |_| {},
            |it| {
                for number in 0..12 {
                    it.adopt(RunKind::TaskRun, &format!("other-{number}"), "lint");
                }
            },
            86,
        ),
        ("a result in a text", |it| it.uses = Uses::Text, |_| {}, 91),
        ("one in a script", |it| it.uses = Uses::Script, |_| {}, 106),
        (
            "a matrix of two parameters",
            |it| it.matrix = Matrix::Params,
            |_| {},
            112,
        ),
        (
            "one of combinations alone",
            |it| it.matrix = Matrix::Include,
            |_| {},
            79,
        ),
        (
            "one of a parameter and combinations",
            |it| it.matrix = Matrix::Both,
            |_| {},
            146,
        ),
        (
            "a combination that is included in the only one",
            |it| it.matrix = Matrix::Listed,
            |_| {},
            92,
        ),
        (
            "a workspace",
            |it| it.workspace = Workspace::Secret,
            |_| {},
            68,
        ),
    ];
    let measured = |(says, shape_it, change, _): Row| {
        let mut shape = Shape::default();
        shape_it(&mut shape);
        let mut world = shape.world();
        change(&mut world);
        let (reason, price) = priced(&world, MOST_STEPS);
        assert_eq!(reason, None, "{says}");
        (says, price)
    };
    let expected = rows.map(|(says, _, _, price)| (says, price));
    assert_eq!(rows.map(measured), expected);
}

/// The combinations of two parameters copy each value of one for each value of the other.
#[test]
fn a_matrix_costs_what_its_copies_take() {
    let mut world = Shape {
        matrix: Matrix::Params,
        ..Shape::default()
    }
    .world();
    let many: Vec<String> = (0..256).map(|it| it.to_string()).collect();
    let tasks = world.run()["status"]["pipelineSpec"]["tasks"]
        .as_array_mut()
        .unwrap();
    let deploy = tasks.iter_mut().find(|it| it["name"] == "deploy").unwrap();
    deploy["matrix"] = json!({"params": [
        {"name": "m1", "value": ["x".repeat(200 * 1024)]}, {"name": "m2", "value": many},
    ]});
    // No single proof takes all steps of a question.
    for steps in [MOST_STEPS, usize::MAX] {
        let (reason, _) = priced(&world, steps);
        assert_eq!(reason, Some(LineageReason::TooLarge));
    }
}

/// A run may list thousands of children.
#[test]
fn the_search_for_other_approvals_costs_steps_and_without_any_left_is_refused() {
    let mut world = World::honest();
    let labels = LabelTemplates::parse(&[("run".to_owned(), "r1".to_owned())].into()).unwrap();
    let labels = labels.render(&TemplateData::of(json!({})), &mut Budget::default());
    let labels = labels.unwrap();
    let by_condition =
        |name| json!({"name": name, "reason": "When Expressions evaluated to false"});
    world.run()["status"]["skippedTasks"] = json!([by_condition("lint"), by_condition("scan")]);
    let mut search = |mut steps: usize| {
        let before = steps;
        let found = TEKTON.not_found(world.run(), &labels, &|_| false, &mut steps);
        (found.map_err(|it| it.reason), before - steps)
    };
    let (found, price) = search(1_000);
    assert_eq!(found, Ok(Some("run-wait".to_owned())));
    // Five pipeline tasks, four children and two that were skipped.
    assert_eq!(price, 5 + 4 + 2 + 1);
    assert_eq!(search(price), (found, price));
    assert_eq!(search(price - 1).0, Err(LineageReason::TooLarge));
}

/// A path of a workspace is searched for each parameter of the run.
#[test]
fn parameters_of_a_run_cost_steps_only_where_a_path_names_one() {
    let shape = Shape {
        workspace: Workspace::Secret,
        ..Shape::default()
    };
    let of = |path: &str| {
        let mut world = shape.world();
        let params: Vec<Value> = (0..7_000)
            .map(|it| json!({"name": format!("p{it}"), "value": "v"}))
            .collect();
        world.run()["spec"]["params"] = json!(params);
        world.run()["spec"]["workspaces"][0]["subPath"] = path.into();
        priced(&world, MOST_STEPS).1
    };
    let without = of("of/$(context.pipelineRun.name)");
    let with = of("of/$(params.p1)");
    assert!(without < 1_000, "{without}");
    assert!(with >= 7_000, "{with}");
}

/// Every way to write one of them is searched for.
#[test]
fn a_path_is_searched_for_each_text_each_item_of_a_list_and_each_field_of_an_object() {
    let of = |variable: &str| {
        let mut world = Shape {
            workspace: Workspace::Secret,
            ..Shape::default()
        }
        .world();
        let path = format!("{}/{variable}", "x".repeat(130));
        world.run()["spec"]["params"] = json!([
            {"name": "text", "value": "t"},
            {"name": "list", "value": ["a", "b", "c"]},
            {"name": "map", "value": {"one": "1", "two": "2"}},
        ]);
        world.run()["spec"]["workspaces"][0]["subPath"] = path.clone().into();
        world.task_run()["spec"]["workspaces"][0]["subPath"] = format!("{path}/sub").into();
        let (reason, price) = priced(&world, MOST_STEPS);
        assert_eq!(reason, None);
        price
    };
    // One step for each 64 bytes of the path.
    let length = 3;
    let names = 1 + 3 + 2;
    assert_eq!(of("$(params.z)") - of("$(others.z)"), names * length);
}
