use connectors_api::{
    access_request::Phase,
    reason::AccessCheckReady::{
        AccessCheckFailed as Failed, AccessCheckPassed as Passed, AccessCheckPending as Pending,
        AccessCheckRejected as Rejected,
    },
};
use jiff::SignedDuration;
use serde_json::json;

use super::scene::{Scene, answer, line};
use crate::plan::{
    Action,
    tell::{EventObject, ToldKind},
};
use crate::seen::{EvidenceState, PodSeen, PolicyJudgement};

const FOUND: &str = "pod:T:UnCompleted connector:T:Resolved";

fn lapsed() -> EvidenceState {
    EvidenceState::Lapsed {
        check: None,
        verdict: Failed,
        message: "check approval: expired".to_owned(),
    }
}

#[test]
fn a_request_that_waits_says_for_what() {
    let waits = |scene: Scene, expected: &str| {
        assert_eq!(line(&scene.planned()), expected);
        assert_eq!(line(&scene.clone().cached().planned()), expected);
        let gives_nothing = |it: &Action| matches!(it, Action::Prepare(_));
        assert!(scene.plan().actions.iter().all(gives_nothing));
    };
    let new = Scene::new;
    waits(
        new(),
        &format!("Pending {FOUND} policy:F:NoAccessPolicyMatched ready:F:NoAccessPolicy"),
    );
    waits(
        new().with(|seen| seen.connector = None),
        "Pending pod:T:UnCompleted connector:F:NotFound ready:F:ConnectorNotFound",
    );
    waits(
        new().policy("p", Pending),
        &format!(
            "Pending {FOUND} policy:T:AccessPolicyMatched checks:F:AccessCheckPending ready:F:ChecksPending"
        ),
    );
    waits(
        new().policy("p", Failed),
        &format!(
            "Pending {FOUND} policy:T:AccessPolicyMatched checks:F:AccessCheckFailed ready:F:ChecksFailed"
        ),
    );
    // Of two policies, the one that may still pass by itself is shown.
    waits(
        new().policy("p", Failed).policy("q", Pending),
        &format!(
            "Pending {FOUND} policy:T:AccessPolicyMatched checks:F:AccessCheckPending ready:F:ChecksPending"
        ),
    );
    waits(
        new().limited("p", &json!({}), PolicyJudgement::Unanswered),
        &format!("Pending {FOUND} policy:T:AccessPolicyMatched ready:F:EvaluatorUnavailable"),
    );
    waits(
        new().with(|seen| seen.over_limit = true),
        "Pending pod:T:UnCompleted ready:F:TooManyRequests",
    );
    waits(
        new().pod(|pod| pod.terminating = true).policy("p", Pending),
        &format!(
            "Pending {FOUND} policy:T:AccessPolicyMatched checks:F:AccessCheckPending ready:F:PodTerminating"
        ),
    );
    waits(
        new().with(|seen| seen.pod = PodSeen::Unreadable),
        "Pending connector:T:Resolved policy:F:NoAccessPolicyMatched ready:F:PodTerminating",
    );
}

#[test]
fn passed_checks_are_recorded_then_written_then_confirmed() {
    let scene = Scene::new().policy("p", Passed);
    let plan = scene.plan();
    let recorded = plan.status.clone().unwrap();
    assert_eq!(
        line(&recorded),
        format!(
            "Pending {FOUND} policy:T:AccessPolicyMatched checks:T:AccessCheckPassed ready:F:GrantNotWritten"
        )
    );
    assert!(recorded.evidence.as_deref().unwrap().starts_with("sha256:"));
    assert!(matches!(plan.actions.as_slice(), [Action::Grant(_)]));
    assert!(plan.events.is_empty());

    let granted = scene.carried_out();
    assert_eq!(
        line(&granted.status()),
        format!(
            "Granted {FOUND} policy:T:AccessPolicyMatched checks:T:AccessCheckPassed permission:T:AccessPermissionGranted ready:T:Granted"
        )
    );
    assert_eq!(granted.status().granted_at, Some(scene.now.wall));
    assert!(granted.plan().is_idle());
    assert!(granted.cached().plan().is_idle());
}

#[test]
fn nothing_is_granted_from_caches_or_on_old_reads() {
    let scene = Scene::new().policy("p", Passed);
    assert!(scene.clone().cached().plan().look_live);
    let mut old = scene.clone();
    old.now.mono += crate::seen::OLDEST;
    assert!(old.plan().look_live);
    let mut young = scene;
    young.now.mono += std::time::Duration::from_millis(4_999);
    assert!(!young.plan().look_live);
}

#[test]
fn nothing_is_granted_while_the_switch_is_off_or_the_pod_is_going() {
    let off = Scene::new()
        .policy("p", Passed)
        .with(|seen| seen.config.enabled = false);
    let going = Scene::new()
        .policy("p", Passed)
        .pod(|pod| pod.terminating = true);
    let unreadable = Scene::new()
        .policy("p", Passed)
        .with(|seen| seen.pod = PodSeen::Unreadable);
    for (scene, ready) in [
        (off, "ApprovalsDisabled"),
        (going, "PodTerminating"),
        (unreadable, "PodTerminating"),
    ] {
        let plan = scene.plan();
        assert!(plan.actions.is_empty());
        let status = line(&plan.status.unwrap());
        assert!(
            status.starts_with("Pending") && status.ends_with(&format!("ready:F:{ready}")),
            "{status}"
        );
    }
}

#[test]
fn a_no_is_final_when_no_policy_can_pass() {
    let scene = Scene::new().policy("p", Rejected);
    assert!(scene.clone().cached().plan().look_live);
    assert_eq!(
        line(&scene.planned()),
        format!(
            "Rejected {FOUND} policy:T:AccessPolicyMatched checks:F:AccessCheckRejected ready:F:CheckRejected"
        )
    );
    let rejected = scene.carried_out();
    assert!(rejected.plan().is_idle());
    // Whatever the policies say from now on.
    let later = Scene {
        seen: crate::seen::Observed {
            policies: Scene::new()
                .policy("p", Passed)
                .policy("q", Passed)
                .seen
                .policies,
            ..rejected.seen.clone()
        },
        ..rejected
    };
    assert!(later.plan().is_idle());
}

#[test]
fn a_no_ends_its_policy_alone_while_another_may_pass() {
    let both = Scene::new()
        .policy("p", Rejected)
        .policy("q", Pending)
        .carried_out();
    assert_eq!(both.status().phase, Some(Phase::Pending));
    // The first one has changed its mind: too late.
    let changed = both.clone().with(|seen| {
        seen.policies = Scene::new()
            .policy("p", Passed)
            .policy("q", Pending)
            .seen
            .policies;
    });
    assert!(changed.plan().actions.is_empty());
    // The second one passes: granted by it alone.
    let passed = both.with(|seen| {
        seen.policies = Scene::new()
            .policy("p", Passed)
            .policy("q", Passed)
            .seen
            .policies;
    });
    let plan = passed.plan();
    let [Action::Grant(grant)] = plan.actions.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(grant.policy_uid, "q-uid");
}

#[test]
fn waiting_longer_than_the_policy_allows_rejects() {
    let limits = json!({"pendingTimeout": "1h"});
    let waiting = |judged| Scene::new().limited("p", &limits, judged);
    let pending = || waiting(PolicyJudgement::Answered(super::scene::answer(Pending)));
    let just_before = pending().after(SignedDuration::from_secs(3589));
    assert!(just_before.planned().phase == Some(Phase::Pending));
    assert_eq!(
        just_before.plan().requeue,
        Some(std::time::Duration::from_secs(1))
    );
    for judged in [
        PolicyJudgement::Answered(super::scene::answer(Pending)),
        PolicyJudgement::Answered(super::scene::answer(Passed)),
        PolicyJudgement::Unanswered,
    ] {
        let late = waiting(judged).after(SignedDuration::from_secs(3590));
        assert!(late.clone().cached().plan().look_live);
        let status = late.planned();
        assert_eq!(status.phase, Some(Phase::Rejected));
        assert!(line(&status).ends_with("checks:F:AccessCheckRejected ready:F:PendingTimeout"));
    }
}

#[test]
fn the_end_of_the_pod_ends_the_request() {
    let finished = |scene: Scene| scene.pod(|pod| pod.finished = true);
    let gone = |scene: Scene| scene.with(|seen| seen.pod = PodSeen::Gone);
    let granted = || Scene::granted();
    let revoked = "permission:F:AccessPermissionRevoked";
    let kept = "connector:T:Resolved policy:T:AccessPolicyMatched";
    for (scene, expected) in [
        (
            finished(granted()),
            format!("Revoked pod:F:Completed {kept} {revoked} ready:F:PodFinished"),
        ),
        (
            gone(granted()),
            format!("Revoked pod:F:NotFound {kept} {revoked} ready:F:PodGone"),
        ),
        (
            finished(Scene::new()),
            "Ended pod:F:Completed ready:F:PodFinished".to_owned(),
        ),
        (
            gone(Scene::new()),
            "Ended pod:F:NotFound ready:F:PodGone".to_owned(),
        ),
    ] {
        assert!(scene.clone().cached().plan().look_live, "{expected}");
        assert_eq!(line(&scene.planned()), expected);
        let after = scene.carried_out();
        assert!(after.seen.grants.is_empty());
        assert_eq!(
            after.status().revoked_at.is_some(),
            expected.starts_with("Revoked")
        );
        assert!(after.plan().is_idle(), "{:?}", after.plan());
    }
}

#[test]
fn a_grant_of_a_pod_that_is_going_stays_until_it_is_gone() {
    let scene = Scene::granted().pod(|pod| pod.terminating = true);
    assert!(scene.plan().is_idle());
    assert!(scene.cached().plan().is_idle());
}

#[test]
fn what_stops_holding_after_the_grant_revokes() {
    let kept = format!("{FOUND} policy:T:AccessPolicyMatched");
    let revoked = "permission:F:AccessPermissionRevoked";
    let policy_deleted = Scene::granted().with(|seen| seen.frozen[0].exists = false);
    let connector = |uid: Option<&str>| {
        let uid = uid.map(|uid| crate::seen::ConnectorSeen {
            uid: uid.to_owned(),
        });
        Scene::granted().with(|seen| seen.connector = uid)
    };
    let expired =
        Scene::granted_under(&json!({"maxDuration": "4h"})).after(SignedDuration::from_hours(4));
    let failed = "checks:F:AccessCheckFailed";
    let no_connector = "pod:T:UnCompleted connector:F:NotFound policy:T:AccessPolicyMatched";
    for (scene, expected) in [
        (
            Scene::granted().held(&lapsed()),
            format!("{kept} {failed} {revoked} ready:F:CheckLapsed"),
        ),
        (
            policy_deleted,
            format!("{kept} {failed} {revoked} ready:F:PolicyDeleted"),
        ),
        (
            expired,
            format!("{kept} {failed} {revoked} ready:F:Expired"),
        ),
        (
            connector(None),
            format!("{no_connector} {failed} {revoked} ready:F:ConnectorDeleted"),
        ),
        (
            connector(Some("other")),
            format!("{no_connector} {failed} {revoked} ready:F:ConnectorDeleted"),
        ),
    ] {
        assert!(scene.clone().cached().plan().look_live, "{expected}");
        let plan = scene.plan();
        assert_eq!(
            line(&plan.status.clone().unwrap()),
            format!("Revoked {expected}")
        );
        let [
            Action::Remove { kind: first, .. },
            Action::Remove { kind: second, .. },
            Action::Finish,
        ] = plan.actions.as_slice()
        else {
            panic!("{plan:?}");
        };
        assert_eq!((first.as_str(), second.as_str()), ("RoleBinding", "Role"));
        let after = scene.carry_out(plan);
        assert!(after.plan().is_idle());
    }
}

#[test]
fn the_switch_does_not_hold_up_revocation() {
    let off = |seen: &mut crate::seen::Observed| seen.config.enabled = false;
    assert!(Scene::granted().with(off).plan().is_idle());
    let lapsed = Scene::granted().with(off).held(&lapsed());
    assert_eq!(lapsed.planned().phase, Some(Phase::Revoked));
}

#[test]
fn what_nobody_can_be_asked_about_stays_and_is_asked_again() {
    let scene = Scene::granted().held(&EvidenceState::Unknown);
    assert!(scene.plan().is_idle());
    assert!(scene.plan().requeue.is_some());
    assert!(Scene::granted().plan().requeue.is_none());
}

#[test]
fn requests_that_cannot_be_decided_are_invalid() {
    let other = |pod: &mut crate::seen::PodFacts| pod.account = "default".to_owned();
    let no_uid = |seen: &mut crate::seen::Observed| seen.request.spec.context.object_ref.uid = None;
    let empty_uid = |seen: &mut crate::seen::Observed| {
        seen.request.spec.context.object_ref.uid = Some(String::new());
    };
    let elsewhere = |seen: &mut crate::seen::Observed| {
        seen.request.spec.connector_ref.namespace = Some("elsewhere".to_owned());
    };
    let duplicate = |seen: &mut crate::seen::Observed| {
        seen.tuple.decided_by = Some("first".to_owned());
        seen.tuple.has_others = true;
    };
    for (scene, ready) in [
        (Scene::new().policy("p", Passed).pod(other), "WrongSubject"),
        (Scene::new().policy("p", Passed).with(no_uid), "Unreadable"),
        (
            Scene::new().policy("p", Passed).with(empty_uid),
            "Unreadable",
        ),
        (
            Scene::new().policy("p", Passed).with(elsewhere),
            "Unreadable",
        ),
        (
            Scene::new().policy("p", Passed).with(duplicate),
            "DuplicateRequest",
        ),
    ] {
        assert!(scene.clone().cached().plan().look_live, "{ready}");
        let plan = scene.plan();
        assert!(plan.actions.is_empty());
        let status = plan.status.clone().unwrap();
        assert_eq!(status.phase, Some(Phase::Invalid));
        assert!(line(&status).ends_with(&format!("ready:F:{ready}")));
        assert!(scene.carry_out(plan).plan().is_idle());
    }
}

#[test]
fn a_duplicate_goes_when_nothing_of_its_tuple_is_left() {
    let duplicate = Scene::new()
        .with(|seen| {
            seen.tuple.decided_by = Some("first".to_owned());
            seen.tuple.has_others = true;
        })
        .carried_out();
    let alone = duplicate.with(|seen| seen.tuple = crate::seen::TupleSeen::default());
    assert_eq!(alone.plan().actions, [Action::DeleteRequest]);
    assert!(alone.cached().plan().look_live);
    // Other final requests do not go with their tuple.
    for scene in [
        Scene::new().policy("p", Rejected).carried_out(),
        Scene::new()
            .pod(|pod| pod.account = "x".to_owned())
            .carried_out(),
    ] {
        assert!(scene.plan().is_idle());
    }
}

#[test]
fn final_requests_are_deleted_when_their_pod_was_gone_for_long_enough() {
    let rejected = Scene::new().policy("p", Rejected).carried_out();
    let gone = rejected.with(|seen| seen.pod = PodSeen::Gone);
    let week = Some(std::time::Duration::from_hours(168));
    assert_eq!(gone.plan().requeue, week, "with the note its time begins");
    let noted = gone.carried_out();
    assert!(line(&noted.status()).starts_with("Rejected pod:F:NotFound"));
    assert!(noted.plan().is_idle());
    assert_eq!(noted.plan().requeue, week);
    let before = noted
        .clone()
        .after(SignedDuration::from_secs(168 * 3600 - 1));
    assert!(before.plan().is_idle());
    let after = noted.after(SignedDuration::from_hours(168));
    assert_eq!(after.plan().actions, [Action::DeleteRequest]);
}

/// Pods make as many as they like, and nobody has to prove later that nothing was given.
#[test]
fn a_request_that_never_gave_anything_is_kept_for_an_hour() {
    let hour = SignedDuration::from_hours(1);
    let invalid = Scene::new()
        .pod(|pod| pod.account = "x".to_owned())
        .carried_out();
    let gone = invalid.with(|seen| seen.pod = PodSeen::Gone).carried_out();
    assert!(line(&gone.status()).starts_with("Invalid"));
    assert_eq!(gone.plan().requeue, Some(hour.unsigned_abs()));
    let after = gone.after(hour);
    assert_eq!(after.plan().actions, [Action::DeleteRequest]);
    // One that gave something is a record, as one that was refused.
    let revoked = Scene::granted()
        .with(|seen| seen.pod = PodSeen::Gone)
        .carried_out();
    assert!(
        !revoked
            .after(hour)
            .plan()
            .actions
            .contains(&Action::DeleteRequest)
    );
}

#[test]
fn an_unfinished_revocation_is_finished_before_the_request_may_go() {
    let revoked = Scene::granted().pod(|pod| pod.finished = true);
    let mut crashed = revoked.clone();
    crashed.seen.request.status = revoked.plan().status;
    let plan = crashed.plan();
    assert_eq!(plan.status, None);
    assert_eq!(plan.actions.len(), 3);
    assert_eq!(plan.actions[2], Action::Finish);
    let late = crashed
        .with(|seen| seen.pod = PodSeen::Gone)
        .after(SignedDuration::from_hours(1000));
    assert!(!late.plan().actions.contains(&Action::DeleteRequest));
}

#[test]
fn a_request_that_is_being_deleted_keeps_nothing_and_is_told_nothing() {
    let scene = Scene::granted().with(|seen| {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            seen.request.status.as_ref().unwrap().granted_at.unwrap(),
        );
        seen.request.metadata.deletion_timestamp = Some(now);
    });
    let plan = scene.plan();
    assert_eq!(plan.status, None);
    assert_eq!(plan.actions.len(), 2);
    assert!(
        plan.actions
            .iter()
            .all(|it| matches!(it, Action::Remove { .. }))
    );
}

#[test]
fn each_change_is_told_once() {
    let kinds = |events: &[crate::plan::Told]| -> Vec<ToldKind> {
        let request = events.iter().filter(|it| it.about == EventObject::Request);
        request.map(|it| it.kind).collect()
    };
    let scene = Scene::new().policy("p", Pending);
    assert_eq!(kinds(&scene.plan().events), [ToldKind::AccessPending]);
    assert!(scene.carried_out().plan().events.is_empty());
    let rejected = Scene::new().policy("p", Rejected);
    assert_eq!(kinds(&rejected.plan().events), [ToldKind::AccessRejected]);
    let lapsed = Scene::granted().held(&lapsed());
    let events = lapsed.plan().events;
    assert_eq!(kinds(&events), [ToldKind::AccessRevoked]);
    assert!(
        events
            .iter()
            .any(|it| matches!(&it.about, EventObject::Policy { name, .. } if name == "p"))
    );
}

/// What the pod is told, and what the request's own namespace is told.
fn told(scene: &Scene) -> (Vec<crate::plan::Told>, Vec<crate::plan::Told>) {
    let events = scene.plan().events.into_iter();
    events.partition(|it| it.about == EventObject::Pod)
}

#[test]
fn a_role_allows_the_verbs_of_the_rules_that_were_decided_on() {
    for verbs in [vec!["get"], vec!["get", "list"], vec!["*"]] {
        let mut passed = answer(Passed);
        passed.rules[0].verbs = verbs.iter().map(ToString::to_string).collect();
        let scene = Scene::new().limited("p", &json!({}), PolicyJudgement::Answered(passed));
        let [Action::Grant(grant)] = &scene.plan().actions[..] else {
            panic!("{:?}", scene.plan().actions);
        };
        let rules = grant.role.rules.clone().unwrap();
        assert_eq!(rules.len(), 1);
        assert_eq!(rules[0].verbs, verbs);
    }
}

#[test]
fn a_pod_elsewhere_is_told_the_same_whatever_the_reason() {
    let scenes = [
        Scene::new(),
        Scene::new().with(|seen| seen.connector = None),
        Scene::new().with(|seen| seen.over_limit = true),
        Scene::new().with(|seen| seen.config.enabled = false),
        Scene::new().pod(|pod| pod.terminating = true),
        Scene::new().limited("p", &json!({}), PolicyJudgement::Unanswered),
    ];
    let elsewhere: Vec<_> = scenes.iter().map(|it| it.clone().elsewhere()).collect();
    let all: Vec<_> = elsewhere.iter().map(|it| it.plan().wait.unwrap()).collect();
    assert!(!all[0].note.contains("kubectl"), "{:?}", all[0]);
    assert!(all.iter().all(|it| *it == all[0]), "{all:?}");
    // Nor does it see that the reason changes.
    for one in &elsewhere {
        assert!(told(one).0.is_empty());
        for other in &elsewhere {
            let mut changed = other.clone();
            changed.seen.request.status = Some(one.planned());
            assert!(told(&changed).0.is_empty());
        }
    }

    // In the connector's own namespace everything is told.
    let (pod, request) = told(&scenes[1]);
    assert!(pod[0].note.contains(&request[0].note) && pod[0].note.contains("kubectl"));
    assert_eq!(
        pod[0].why,
        Some(connectors_api::reason::Ready::ConnectorNotFound)
    );
}

#[test]
fn whether_there_is_a_connector_makes_no_difference_to_who_gets_nothing_anyway() {
    type Bar = fn(Scene) -> Scene;
    let bars: [(&str, Bar); 3] = [
        ("TooManyRequests", |scene| {
            scene.with(|seen| seen.over_limit = true)
        }),
        ("ApprovalsDisabled", |scene| {
            scene.with(|seen| seen.config.enabled = false)
        }),
        ("PodTerminating", |scene| {
            scene.pod(|pod| pod.terminating = true)
        }),
    ];
    for (reason, bar) in bars {
        let there = bar(Scene::new()).planned();
        let missing = bar(Scene::new().with(|seen| seen.connector = None)).planned();
        for status in [&there, &missing] {
            assert!(
                line(status).ends_with(&format!("ready:F:{reason}")),
                "{}",
                line(status)
            );
        }
        let message = |status| {
            crate::plan::conditions::find(status, connectors_api::AccessRequestCondition::Ready)
                .map(|it| it.message.clone())
        };
        assert_eq!(message(&there.conditions), message(&missing.conditions));
    }
}

#[test]
fn the_end_of_the_pod_is_told_once_on_the_pod_and_once_on_the_request_and_warns_nobody() {
    let ends: [fn(Scene) -> Scene; 2] = [
        |scene| scene.pod(|pod| pod.finished = true),
        |scene| scene.with(|seen| seen.pod = PodSeen::Gone),
    ];
    for end in ends {
        for scene in [Scene::granted(), Scene::new()] {
            let ended = end(scene);
            let told: Vec<_> = ended
                .plan()
                .events
                .into_iter()
                .map(|it| (it.about, it.kind, it.kind.is_warning()))
                .collect();
            let expected = [EventObject::Request, EventObject::Pod]
                .map(|it| (it, ToldKind::AccessEnded, false));
            assert_eq!(told, expected);
            assert!(ended.carried_out().plan().events.is_empty());
        }
    }
}

#[test]
fn what_may_have_been_written_when_the_pod_ends_is_looked_for_and_called_revoked() {
    let decided = Scene::new().policy("p", Passed);
    let crashed = decided.clone().with(|seen| {
        seen.request.status = decided.plan().status;
    });
    for end in [
        crashed.clone().pod(|pod| pod.finished = true),
        crashed.with(|seen| seen.pod = PodSeen::Gone),
    ] {
        let plan = end.plan();
        assert_eq!(plan.status.as_ref().unwrap().phase, Some(Phase::Revoked));
        assert_eq!(plan.actions, [Action::Finish]);
    }
}

#[test]
fn an_access_that_ends_before_its_pod_is_a_warning() {
    let expired =
        Scene::granted_under(&json!({"maxDuration": "4h"})).after(SignedDuration::from_hours(4));
    let no_policy = Scene::granted().with(|seen| seen.frozen[0].exists = false);
    let no_connector = Scene::granted().with(|seen| seen.connector = None);
    for scene in [
        expired,
        no_policy,
        no_connector,
        Scene::granted().held(&lapsed()),
    ] {
        let events = scene.plan().events;
        assert!(!events.is_empty());
        for told in events {
            assert!(
                told.kind == ToldKind::AccessRevoked && told.kind.is_warning(),
                "{told:?}"
            );
        }
    }
}
