//! Checks that exclude the creator of the pod's run from the approvers.

use serde_json::{Value, json};

use super::lineage::asked;
use super::*;
use crate::lineage::tests::World;
use crate::names::CREATOR;

/// An approval by alice and the group's member bob, for a run that a user created an hour after the rule came.
fn asked_of(creator: Option<&str>, approvers: &Value) -> PolicyQuestion {
    let mut world = World::honest();
    let run = world.run();
    run["metadata"]["annotations"] = match creator {
        Some(creator) => json!({CREATOR: creator, "other": "note"}),
        None => json!({"other": "note"}),
    };
    let rule = run["metadata"]["creationTimestamp"].as_str().unwrap();
    let rule = rule.parse::<Timestamp>().unwrap() - jiff::SignedDuration::from_hours(1);
    let team = &mut world.approval["spec"]["approvers"][1];
    team["input"] = "approve".into();
    team["users"] = json!([{"name": "bob", "input": "approve"}]);
    asked(&world).with(|it| {
        it.creators_since = Some(rule);
        it.check()["approvers"] = approvers.clone();
    })
}

const PASSES: (AccessCheckReady, JudgeReason) = (Passed, JudgeReason::Approved);
const TOO_FEW: (AccessCheckReady, JudgeReason) = (Failed, JudgeReason::QuorumNotMet);
const UNKNOWN: (AccessCheckReady, JudgeReason) = (Failed, JudgeReason::CreatorUnknown);

#[test]
fn the_creator_of_the_run_does_not_count_and_others_do() {
    for (approvers, creator, expected) in [
        (json!({"users": ["alice"]}), "alice", TOO_FEW),
        (json!({"users": ["alice"]}), "carol", PASSES),
        (json!({"users": ["alice"]}), "Alice", PASSES),
        (json!({"groups": ["team"]}), "bob", TOO_FEW),
        (json!({"groups": ["team"]}), "alice", PASSES),
        (
            json!({"users": ["alice"], "groups": ["team"]}),
            "bob",
            PASSES,
        ),
        (
            json!({"users": ["alice"], "groups": ["team"], "minimum": 2}),
            "bob",
            TOO_FEW,
        ),
        (
            json!({"users": ["alice"], "groups": ["team"], "minimum": 2}),
            "carol",
            PASSES,
        ),
        // Without names all users but the creator count.
        (json!({}), "carol", PASSES),
        (json!({"minimum": 2}), "carol", PASSES),
        (json!({"minimum": 2}), "alice", TOO_FEW),
        (json!({"minimum": 3}), "carol", TOO_FEW),
    ] {
        let mut wanted = approvers.clone();
        wanted["notRequester"] = true.into();
        let judgement = asked_of(Some(creator), &wanted).judged();
        assert_eq!(judgement.said(), expected, "{approvers} {creator}");
        if expected == TOO_FEW {
            let message = &judgement.only().message;
            assert!(
                message.contains("creator of the run does not count"),
                "{message}"
            );
        }
    }
}

#[test]
fn who_created_the_run_does_not_matter_unless_the_check_says_so() {
    for approvers in [
        json!({"users": ["alice"]}),
        json!({"users": ["alice"], "notRequester": false}),
    ] {
        for creator in [Some("alice"), None] {
            let question = asked_of(creator, &approvers).with(|it| it.creators_since = None);
            assert_eq!(question.judged().said(), PASSES, "{creator:?}");
        }
    }
}

#[test]
fn the_creator_is_named_where_the_check_excludes_that_user_and_is_known() {
    let excluding = json!({"users": ["alice"], "notRequester": true});
    let others = json!({"users": ["alice"]});
    for (approvers, creator, expected) in [
        (&excluding, Some("carol"), Some("carol")),
        (&excluding, Some("alice"), Some("alice")),
        (&excluding, None, None),
        (&others, Some("carol"), None),
    ] {
        let judgement = asked_of(creator, approvers).judged();
        let named = judgement.checks[0].objects[0].run_creator.as_deref();
        assert_eq!(named, expected, "{approvers} {creator:?}");
    }
}

#[test]
fn a_creator_that_nothing_guarantees_excludes_the_grant() {
    let wanted = json!({"users": ["alice"], "notRequester": true});
    let honest = || asked_of(Some("carol"), &wanted);
    assert_eq!(honest().judged().said(), PASSES);
    let without_rule = honest().with(|it| it.creators_since = None).judged();
    assert_eq!(without_rule.said(), UNKNOWN);
    let message = &without_rule.only().message;
    assert!(message.contains("tekton.creators.enabled"), "{message}");
    let later = honest().with(|it| {
        let hours = jiff::SignedDuration::from_hours(2);
        it.creators_since = it.creators_since.map(|since| since + hours);
    });
    assert_eq!(later.judged().said(), UNKNOWN);
    assert_eq!(asked_of(None, &wanted).judged().said(), UNKNOWN);
    assert_eq!(asked_of(Some(""), &wanted).judged().said(), UNKNOWN);
    let unproven = honest().with(|it| it.check()["provenance"] = "None".into());
    assert_eq!(unproven.judged().said(), UNKNOWN);
}

#[test]
fn after_the_grant_the_creator_still_does_not_count_and_a_run_that_is_gone_ends_it() {
    let wanted = json!({"users": ["alice"], "notRequester": true});
    let after = |creator: Option<&str>, keeps_run: bool| {
        asked_of(creator, &wanted).with(|it| {
            it.stage = Stage::AfterGrant;
            it.creators_since = None;
            it.lineage
                .retain(|it| keeps_run && it["kind"] == "PipelineRun");
        })
    };
    assert_eq!(after(Some("carol"), true).judged().said(), PASSES);
    assert_eq!(after(Some("alice"), true).judged().said(), TOO_FEW);
    assert_eq!(after(None, true).judged().said(), UNKNOWN);
    assert_eq!(after(None, false).judged().said(), UNKNOWN);
}
