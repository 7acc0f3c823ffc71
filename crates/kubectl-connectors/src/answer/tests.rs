//! Which differences between two previews count, and what an answer means for a script.

use connectors_api::Permission;

use super::*;
use crate::explain::report::EndCause;

fn effect(pod: &str) -> AnswerEffect {
    AnswerEffect {
        effect: EffectWord::Opens,
        pod: NamespacedName::new("ci", pod),
        pod_uid: Some(format!("uid-{pod}")),
        account: NamespacedName::new("ci", "builder"),
        connector: NamespacedName::new("tools", "harbor"),
        permission: Permission::Apis,
        request: Some(format!("request-{pod}")),
        phase: Some(Phase::Pending),
        policies: vec!["p".to_owned()],
        because: "every check passes".to_owned(),
        is_by_module: false,
        grants: vec![OpenedGrant {
            policy: "p".to_owned(),
            uid: "uid-p".to_owned(),
            generation: Some(1),
            covers_mount: true,
            rules: vec![RuleShown {
                resources: vec!["connectors/apis".to_owned()],
                verbs: vec!["*".to_owned()],
            }],
            until: vec![EndShown {
                cause: EndCause::PodEnds,
                at: None,
                message: "the pod ends".to_owned(),
            }],
        }],
    }
}

fn shown(effects: Vec<AnswerEffect>) -> AnswerShown {
    AnswerShown {
        answer: ApprovalAnswer::Approve,
        object: AnsweredObject {
            api_version: "itsm.example.com/v1".to_owned(),
            kind: "ChangeRequest".to_owned(),
            name: NamespacedName::new("ci", "chg-1"),
            state: "pending".to_owned(),
        },
        writes: "status.state: approved".to_owned(),
        effects,
        left_out: 0,
        doubts: vec!["you may not list pods".to_owned()],
        beside: None,
        policies: Vec::new(),
        outcome: AnswerWord::NotAsked,
        because: String::new(),
        asked: false,
        state_after: None,
        requests: Vec::new(),
    }
}

/// The user consents to what was shown: to nothing more, and also to nothing less.
#[test]
fn another_look_has_the_same_effects_only_if_nothing_came_went_or_changed() {
    type Change = fn(&mut AnswerShown);
    let changes: [(&str, Change); 26] = [
        ("the effect", |it| it.effects[0].effect = EffectWord::Waits),
        ("the pod's namespace", |it| {
            it.effects[0].pod.namespace = "ci2".to_owned();
        }),
        ("the pod", |it| it.effects[0].pod.name = "aa".to_owned()),
        ("a pod of the same name", |it| {
            it.effects[0].pod_uid = Some("uid-2".to_owned());
        }),
        ("a pod that is not known", |it| it.effects[0].pod_uid = None),
        ("the account", |it| {
            it.effects[0].account.name = "root".to_owned();
        }),
        ("the account's namespace", |it| {
            it.effects[0].account.namespace = "ops".to_owned();
        }),
        ("the connector", |it| {
            it.effects[0].connector.name = "git".to_owned();
        }),
        ("the connector's namespace", |it| {
            it.effects[0].connector.namespace = "prod".to_owned();
        }),
        ("the permission", |it| {
            it.effects[0].permission = Permission::Proxy;
        }),
        ("a further policy", |it| {
            it.effects[0].policies.push("q".to_owned());
        }),
        ("no policy", |it| it.effects[0].policies.clear()),
        ("a policy of the same name", |it| {
            it.effects[0].grants[0].uid = "uid-2".to_owned();
        }),
        ("an edited policy", |it| {
            it.effects[0].grants[0].generation = Some(2);
        }),
        ("the mount", |it| {
            it.effects[0].grants[0].covers_mount = false;
        }),
        ("a verb", |it| {
            it.effects[0].grants[0].rules[0].verbs = vec!["get".to_owned()];
        }),
        ("a resource", |it| {
            it.effects[0].grants[0].rules[0]
                .resources
                .push("connectors/proxy".to_owned());
        }),
        ("an end", |it| it.effects[0].grants[0].until.clear()),
        ("a further grant", |it| {
            let grant = it.effects[0].grants[0].clone();
            it.effects[0].grants.push(grant);
        }),
        ("the last access", |it| {
            it.effects[1].account.name = "root".to_owned();
        }),
        ("a further access before the others", |it| {
            it.effects.insert(0, effect("0"));
        }),
        ("a further access behind the others", |it| {
            it.effects.push(effect("z"));
        }),
        ("the same access twice", |it| {
            let last = it.effects[1].clone();
            it.effects.push(last);
        }),
        ("an access that is gone", |it| {
            it.effects.pop();
        }),
        ("requests that were not looked at", |it| it.left_out = 1),
        ("a further doubt", |it| {
            it.doubts.push("you may not get pods".to_owned());
        }),
    ];
    let before = shown(vec![effect("a"), effect("b")]);
    assert!(before.has_effects_of(&before.clone()));
    for (what, change) in changes {
        let mut after = before.clone();
        change(&mut after);
        assert!(!after.has_effects_of(&before), "{what}");
        assert!(!before.has_effects_of(&after), "{what}");
    }
    let objects: [Change; 3] = [
        |it| it.object.kind = "Change".to_owned(),
        |it| it.object.name.name = "chg-10".to_owned(),
        |it| it.object.name.namespace = "ci2".to_owned(),
    ];
    for change in objects {
        let mut after = before.clone();
        change(&mut after);
        assert!(!after.has_effects_of(&before), "{:?}", after.object);
    }
    // Sentences have ages in them.
    let mut later = before.clone();
    later.effects[0].because = "since a minute".to_owned();
    assert!(later.has_effects_of(&before));
}

#[test]
fn effects_are_known_if_every_request_was_looked_at_and_every_read_answered() {
    use EffectWord::{Adds, Keeps, MayTakeBack, NotKnown, Opens, Refuses, TakesBack, Waits};
    let known = |change: fn(&mut AnswerShown)| {
        let mut shown = shown(vec![effect("a"), effect("b")]);
        shown.doubts.clear();
        change(&mut shown);
        shown.knows_effects()
    };
    assert!(known(|_| ()));
    assert!(known(|it| it.effects.clear()));
    assert!(!known(|it| it.left_out = 1));
    assert!(!known(|it| it.doubts.push("forbidden".to_owned())));
    let doubt: fn(&mut AnswerShown) = |it| {
        it.effects.clear();
        it.doubts.push("forbidden".to_owned());
    };
    assert!(!known(doubt));
    for place in [0, 1] {
        for word in [
            Opens,
            Adds,
            NotKnown,
            Refuses,
            TakesBack,
            MayTakeBack,
            Waits,
            Keeps,
        ] {
            let mut shown = shown(vec![effect("a"), effect("b")]);
            shown.doubts.clear();
            shown.effects[place].effect = word;
            assert_eq!(shown.knows_effects(), word != NotKnown, "{word:?}");
        }
    }
}

#[test]
fn only_a_write_and_an_answer_that_is_there_are_a_yes() {
    use AnswerWord::{
        Already, Changed, Declined, EffectsUnknown, NotAsked, NothingAwaited, OtherEnd, Refused,
        StillAwaited, Unknown, Written,
    };
    for (outcome, expected) in [
        (Written, ExitWord::Yes),
        (Already, ExitWord::Yes),
        (StillAwaited, ExitWord::No),
        (OtherEnd, ExitWord::No),
        (NothingAwaited, ExitWord::No),
        (Declined, ExitWord::No),
        (Refused, ExitWord::No),
        (NotAsked, ExitWord::Usage),
        (EffectsUnknown, ExitWord::Unknown),
        (Changed, ExitWord::Unknown),
        (Unknown, ExitWord::Unknown),
    ] {
        let mut shown = shown(Vec::new());
        shown.outcome = outcome;
        assert_eq!(exit(&shown), expected, "{outcome:?}");
    }
}

#[test]
fn a_wait_is_for_the_requests_whose_phase_the_answer_changes() {
    use EffectWord::{Adds, Keeps, MayTakeBack, NotKnown, Opens, Refuses, TakesBack, Waits};
    for (word, expected) in [
        (Opens, Some(Phase::Granted)),
        (Refuses, Some(Phase::Rejected)),
        (TakesBack, Some(Phase::Revoked)),
        (Adds, None),
        (NotKnown, None),
        (MayTakeBack, None),
        (Waits, None),
        (Keeps, None),
    ] {
        let mut shown = shown(vec![effect("a"), effect("b")]);
        shown.effects[1].effect = word;
        // A pod without a request makes one later.
        shown.effects[0].request = None;
        let awaited = shown.awaited().map(|(_, phase, name)| (phase, name));
        let awaited: Vec<_> = awaited.collect();
        let name = NamespacedName::new("tools", "request-b");
        let expected: Vec<_> = expected.map(|it| (it, name)).into_iter().collect();
        assert_eq!(awaited, expected, "{word:?}");
    }
}
