//! Random honest runs are proven; random tampering never is.

pub(super) mod tamper;

use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Value, json};

use super::shape::{Matrix, Shape, Target, Uses, Workspace};
use super::{LineageVerdict, TEKTON};
use tamper::{WAYS, leaves, tamper};

/// The default of the test library without `PROPTEST_CASES`.
const DEFAULT: u32 = 256;

/// The number of random cases of each property: `PROPTEST_CASES`, or 2,000.
fn cases() -> Config {
    let config = Config::default();
    Config {
        cases: if config.cases == DEFAULT {
            2_000
        } else {
            config.cases
        },
        failure_persistence: None,
        ..config
    }
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        "[a-z][a-z0-9-]{20,40}[a-z]",
        "[a-z][a-z0-9-]{50,60}[a-z]"
    ]
}

fn shapes() -> impl Strategy<Value = Shape> {
    let targets = prop_oneof![
        Just(Target::Embedded),
        Just(Target::Reference),
        Just(Target::Resolver)
    ];
    let uses = prop_oneof![
        3 => Just(Uses::Nothing),
        1 => Just(Uses::Text),
        1 => Just(Uses::List),
        1 => Just(Uses::Item),
        1 => Just(Uses::Key),
        1 => Just(Uses::Object),
        1 => Just(Uses::Script),
        1 => Just(Uses::Custom),
    ];
    let matrix = prop_oneof![
        4 => Just(Matrix::None),
        1 => Just(Matrix::Params),
        1 => Just(Matrix::Result),
        1 => Just(Matrix::Include),
        1 => Just(Matrix::Both),
        1 => Just(Matrix::Listed),
    ];
    let workspace = prop_oneof![
        Just(Workspace::None),
        Just(Workspace::Secret),
        Just(Workspace::Claim)
    ];
    let approvers = proptest::collection::btree_map("[a-z]{1,6}", any::<bool>(), 1..4);
    (
        (names(), names(), names(), targets, uses, matrix, workspace),
        (
            0usize..12,
            0usize..3,
            any::<[bool; 5]>(),
            approvers,
            any::<proptest::sample::Index>(),
        ),
    )
        .prop_map(|(one, two)| {
            let (run, task, approve, target, uses, matrix, workspace) = one;
            let (index, attempts, choices, approvers, needed) = two;
            let [is_last, asks, own_account, has_template, has_conditions] = choices;
            let approvers: Vec<_> = approvers
                .into_iter()
                .map(|(name, is_group)| (is_group, name))
                .collect();
            Shape {
                run,
                uid: "uid-run".to_owned(),
                task: format!("task-{task}"),
                approve: format!("gate-{approve}"),
                target,
                uses,
                matrix,
                index,
                attempts,
                is_last,
                needed: needed.index(approvers.len()) + 1,
                approvers,
                asks,
                own_account,
                has_template,
                has_conditions,
                workspace,
            }
        })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_honest_run_is_proven(shape in shapes()) {
        let world = shape.world();
        let verdict = world.judged();
        prop_assert!(matches!(verdict, LineageVerdict::Proven(_)), "{verdict:?}");
    }

    #[test]
    fn no_run_that_was_tampered_with_is_proven(shape in shapes(), way in 0..WAYS, pick in 0usize..10_000) {
        let honest = shape.world();
        let mut world = honest.clone();
        if let Some(done) = tamper(&mut world, &shape, way, pick) {
            prop_assert!(world != honest, "{way} {done}");
            prop_assert!(!world.is_proven(), "{way} {done} {:?}", shape);
        }
    }

    #[test]
    fn no_input_makes_the_judge_panic(shape in shapes(), cuts in proptest::collection::vec((0usize..64, 0usize..10_000), 0..6)) {
        let mut world = shape.world();
        for (what, pick) in cuts {
            let count = world.objects.len();
            let value = match what % (count + 2) {
                0 => &mut world.pod,
                1 => &mut world.approval,
                it => &mut world.objects[it - 2],
            };
            let mut places = Vec::new();
            leaves(value, "", &mut places);
            let Some(at) = places.get(pick % places.len().max(1)) else {
                continue;
            };
            let parent = at.rsplit_once('/').map_or("", |(parent, _)| parent);
            let at = if what % 2 == 0 { at } else { parent };
            *value.pointer_mut(at).unwrap() = match pick % 5 {
                0 => Value::Null,
                1 => json!([]),
                2 => json!({}),
                3 => json!(7),
                _ => json!("$(tasks.who.results.list[*])"),
            };
        }
        let _ = TEKTON.judge(&world.question());
    }
}
