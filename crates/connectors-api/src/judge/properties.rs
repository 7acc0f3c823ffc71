//! Properties of every question.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::tests::{gate, prepare, question};
use super::*;
use crate::reason::AccessCheckReady::AccessCheckPassed as Passed;
use crate::testing::json_values;

type Said = Result<RegoAnswer, RegoFailure>;

fn states() -> impl Strategy<Value = &'static str> {
    select(&["approved", "passed", "pending", "rejected", "expired", ""][..])
}

fn objects() -> impl Strategy<Value = Vec<Value>> {
    let object =
        (states(), "[a-c]", json_values(), 0..8_u8).prop_map(|(state, name, odd, part)| {
            let mut object = gate(&name, state);
            match part {
                0 => object["status"] = odd,
                1 => object["metadata"]["labels"] = odd,
                2 => object["metadata"] = odd,
                3 => object = odd,
                _ => {}
            }
            object
        });
    proptest::collection::vec(object, 0..5)
}

fn answers() -> impl Strategy<Value = Vec<Said>> {
    let answer = prop_oneof![
        states().prop_map(|state| {
            Ok(RegoAnswer {
                state: ObjectState::from_word(state).unwrap(),
                message: None,
            })
        }),
        Just(Err(RegoFailure::Limit("l".to_owned()))),
        Just(Err(RegoFailure::Failed("f".to_owned()))),
    ];
    proptest::collection::vec(answer, 0..6)
}

fn asked(objects: Vec<Value>, match_: &str, rego: bool, stage: Stage) -> PolicyQuestion {
    question().found(objects).with(|it| {
        it.stage = stage;
        it.check()["match"] = match_.into();
        if rego {
            it.check()["state"] = json!({"rego": "package approval"});
        }
    })
}

fn stages() -> impl Strategy<Value = Stage> {
    select(&[Stage::BeforeGrant, Stage::AfterGrant][..])
}

proptest! {
    #[test]
    fn the_order_of_candidates_changes_nothing(
        objects in objects(),
        shift in any::<prop::sample::Index>(),
        match_ in select(&["All", "Any"][..]),
        stage in stages(),
    ) {
        let judged = |objects| asked(objects, match_, false, stage).judged();
        let mut turned = objects.clone();
        if !turned.is_empty() {
            let by = shift.index(turned.len());
            turned.rotate_left(by);
        }
        turned.reverse();
        prop_assert_eq!(judged(objects.clone()), judged(turned));
        prop_assert_eq!(judged(objects.clone()), judged(objects));
    }

    #[test]
    fn passing_needs_an_object_that_says_so(
        objects in objects(),
        match_ in select(&["All", "Any"][..]),
        stage in stages(),
    ) {
        let judgement = asked(objects.clone(), match_, false, stage).judged();
        if judgement.verdict == Passed {
            let says_yes = |object: &Value| {
                matches!(object["status"]["state"].as_str(), Some("approved" | "passed"))
            };
            prop_assert!(objects.iter().any(says_yes));
            prop_assert!(match_ == "Any" || objects.iter().all(says_yes));
            if stage == Stage::BeforeGrant {
                let is_selected = |object: &Value| {
                    object["metadata"]["labels"]["run"] == "r1"
                        && object["metadata"]["namespace"] == "devops"
                        && object["kind"] == "ConfigMap"
                };
                prop_assert!(objects.iter().all(is_selected));
            }
        }
    }

    #[test]
    fn what_went_wrong_with_a_module_never_lets_in(
        objects in objects(),
        answers in answers(),
        stage in stages(),
    ) {
        let judge = |answers: Vec<Said>| {
            prepare(asked(objects.clone(), "All", true, stage)).unwrap().finish(answers)
        };
        let jobs = prepare(asked(objects.clone(), "All", true, stage)).unwrap().rego_jobs().count();
        let judgement = judge(answers.clone());
        let said: Vec<_> = answers.into_iter().take(jobs).collect();
        let all_well = said.len() == jobs && jobs > 0 && said.iter().all(|said| {
            said.as_ref().is_ok_and(|answer| answer.state.outcome() == CheckOutcome::Passed)
        });
        prop_assert!(judgement.verdict != Passed || all_well);
    }

    #[test]
    fn nothing_panics_and_nobody_gets_in_by_an_odd_pod(pod in json_values()) {
        let mut question = question().found([gate("a", "approved")]);
        question.context = pod;
        prop_assert!(prepare(question).is_err());
    }

    #[test]
    fn rules_are_only_ever_about_the_pod_that_asks(
        resource in "(connectors|secrets|\\*)/(apis|proxy|\\*)(/v1/pod/(devops|other|\\{\\.object\\.metadata\\.namespace\\})/(deploy|other|\\{\\.object\\.metadata\\.name\\}))?",
    ) {
        let asked = question().found([gate("a", "approved")]).with(|it| {
            it.policy["spec"]["checkGrantedPermission"]["spec"]["permissions"]["roleTemplate"]["rules"][0]
                ["resources"] = json!([resource]);
        });
        if let Some(Ok(rules)) = asked.judged().rules {
            for resource in rules.iter().flat_map(|rule| &rule.resources) {
                prop_assert_eq!(resource.to_string(), "connectors/apis/v1/pod/devops/deploy");
            }
        }
    }
}
