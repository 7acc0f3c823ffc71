use connectors_api::{
    AccessRequestCondition as Is,
    access_request::{AccessRequestStatus, GrantState, Phase},
    reason::AccessCheckReady::{
        AccessCheckFailed as Failed, AccessCheckPassed as Passed, AccessCheckPending as Pending,
    },
};
use jiff::SignedDuration;
use serde_json::json;

use super::scene::{Scene, answer, line};
use crate::grant::Grant;
use crate::plan::{
    Action, NotOurs, conditions, granted, not_written,
    tell::{EventObject, Told},
    too_slow,
};
use crate::seen::{EvidenceState, GrantKind, PolicyJudgement};

#[test]
fn what_was_granted_is_frozen() {
    let scene = Scene::granted();
    let entry = &scene.status().policies[0];
    let spec = entry.policy.0["spec"].clone();
    assert!(spec["checkGrantedPermission"]["spec"]["checks"][0]["name"] == "approval");
    let object = entry.check_refs[0].ref_.as_ref().unwrap();
    assert_eq!(
        (object.uid.as_deref(), object.resource_version.as_deref()),
        (Some("approval-uid"), Some("41"))
    );
    assert_eq!(
        entry.check_refs[0].status.as_ref().unwrap().approved_by,
        ["ann"]
    );
    // Later edits of the policy, and later objects, do not touch it.
    let edited =
        scene.with(|seen| seen.policies[0].judged = PolicyJudgement::Answered(answer(Failed)));
    assert!(edited.plan().is_idle());
}

#[test]
fn objects_of_waiting_checks_are_shown_without_their_versions() {
    let waiting = Scene::new().policy("p", Pending).carried_out();
    let object = waiting.status().policies[0].check_refs[0]
        .ref_
        .clone()
        .unwrap();
    assert_eq!(
        (object.uid.is_some(), object.resource_version),
        (true, None)
    );
    let touched = waiting.with(|seen| {
        if let PolicyJudgement::Answered(answer) = &mut seen.policies[0].judged {
            answer.checks[0].objects[0].object.resource_version = Some("99".to_owned());
        }
    });
    assert!(touched.plan().is_idle());
}

#[test]
fn a_grant_ends_with_its_time_and_is_looked_at_then() {
    let scene = Scene::granted_under(&json!({"maxDuration": "90s"}));
    let status = scene.status();
    assert_eq!(
        status.expires_at,
        Some(scene.now.wall + SignedDuration::from_secs(90))
    );
    assert_eq!(
        scene.plan().requeue,
        Some(std::time::Duration::from_secs(90))
    );
    assert!(
        scene
            .clone()
            .after(SignedDuration::from_secs(89))
            .plan()
            .is_idle()
    );
    let end = scene.after(SignedDuration::from_secs(90));
    assert_eq!(end.planned().phase, Some(Phase::Revoked));
}

#[test]
fn policies_lapse_one_by_one_and_the_request_with_the_last() {
    let both = Scene::new()
        .policy("p", Passed)
        .policy("q", Passed)
        .carried_out();
    assert_eq!(both.seen.grants.len(), 4);
    assert!(both.plan().is_idle());
    assert!(!Scene::new().policy("p", Passed).plan().ends);
    let lapsed = EvidenceState::Lapsed {
        check: None,
        verdict: Failed,
        message: String::new(),
    };
    let one = both.with(|seen| seen.frozen[0].held = lapsed.clone());
    let plan = one.plan();
    assert_eq!(plan.status.as_ref().unwrap().phase, Some(Phase::Granted));
    assert_eq!((plan.actions.len(), plan.ends), (2, true));
    // An end is one also where nothing is left to remove.
    let gone = one.clone().with(|seen| {
        let ended = crate::grant::name("request-uid", "p-uid");
        seen.grants.retain(|it| it.name() != ended);
    });
    assert_eq!((gone.seen.grants.len(), gone.plan().actions.len()), (2, 0));
    assert!(gone.plan().ends);
    let one = one.carry_out(plan);
    assert_eq!(one.seen.grants.len(), 2);
    assert!(one.plan().is_idle());
    let states: Vec<_> = one
        .status()
        .policies
        .iter()
        .map(|it| it.grant.as_ref().unwrap().state)
        .collect();
    assert_eq!(states, [GrantState::Ended, GrantState::Granted]);
    let last = one.held(&lapsed);
    assert_eq!(
        told_of_policies(&last.plan().events),
        ["q"],
        "p had ended before"
    );
    let none = last.carried_out();
    assert_eq!(none.status().phase, Some(Phase::Revoked));
    assert!(none.seen.grants.is_empty());
}

/// What Ready says.
fn ready(status: &AccessRequestStatus) -> &str {
    let ready = conditions::find(&status.conditions, Is::Ready);
    &ready.unwrap().message
}

/// What is to be written.
fn grants(actions: &[Action]) -> Vec<Grant> {
    let grants = actions.iter().filter_map(|it| match it {
        Action::Grant(grant) => Some((**grant).clone()),
        Action::Remove { .. } | Action::Prepare(_) | Action::Finish | Action::DeleteRequest => None,
    });
    grants.collect()
}

/// The policies that events are about.
fn told_of_policies(events: &[Told]) -> Vec<&str> {
    let policies = events.iter().filter_map(|it| match &it.about {
        EventObject::Policy { name, .. } => Some(name.as_str()),
        EventObject::Request | EventObject::Pod => None,
    });
    policies.collect()
}

#[test]
fn a_policy_is_told_of_what_it_gave_or_stopped_giving_and_of_nothing_else() {
    let scene = Scene::new().policy("p", Passed).policy("q", Pending);
    let plan = scene.plan();
    assert!(
        told_of_policies(&plan.events).is_empty(),
        "nothing is in force yet"
    );
    let mut decided = scene.seen.request.clone();
    decided.status = plan.status;
    let written = grants(&plan.actions);
    let (_, events) = granted(Some(&decided), &decided, &written, scene.now.wall).unwrap();
    assert_eq!(told_of_policies(&events), ["p"]);

    let end = scene
        .carried_out()
        .with(|seen| seen.frozen[0].exists = false);
    assert_eq!(told_of_policies(&end.plan().events), ["p"]);
    let ended = end.planned().policies[0].grant.clone().unwrap();
    assert_eq!(ended.state, GrantState::Ended);
}

#[test]
fn a_policy_that_passes_later_adds_its_own_grant() {
    let one = Scene::new()
        .policy("p", Passed)
        .policy("q", Pending)
        .carried_out();
    assert_eq!(one.status().phase, Some(Phase::Granted));
    assert!(one.plan().is_idle());
    let since = one.status().granted_at;
    let both = one.after(SignedDuration::from_mins(5)).with(|seen| {
        seen.policies[1].judged = PolicyJudgement::Answered(answer(Passed));
    });
    let both = both.carried_out();
    assert_eq!(
        (both.seen.grants.len(), both.status().granted_at),
        (4, since)
    );
}

#[test]
fn a_grant_taken_away_by_hand_comes_back_only_through_passed_checks_read_live() {
    let half = Scene::granted().with(|seen| {
        seen.grants.retain(|it| it.kind() == GrantKind::Role);
    });
    assert!(half.clone().cached().plan().look_live);
    let again = |judged| {
        half.clone()
            .with(|seen| seen.frozen[0].again = Some(judged))
    };
    let passed = again(PolicyJudgement::Answered(answer(Passed)));
    assert!(matches!(
        passed.plan().actions.as_slice(),
        [Action::Grant(_)]
    ));
    let grant = passed.planned().policies[0].grant.clone().unwrap();
    assert_eq!(grant.state, GrantState::Granting, "it is recorded first");
    assert_eq!(
        passed.carried_out().status().granted_at,
        Scene::granted().status().granted_at
    );

    let off = passed.with(|seen| seen.config.enabled = false);
    assert!(off.plan().actions.is_empty());
    let unanswered = again(PolicyJudgement::Unanswered);
    let plan = unanswered.plan();
    assert!(plan.actions.is_empty());
    assert_eq!(
        line(plan.status.as_ref().unwrap()),
        "Pending pod:T:UnCompleted connector:T:Resolved policy:T:AccessPolicyMatched checks:T:AccessCheckPassed permission:F:AccessPermissionSyncFailed ready:F:GrantNotWritten"
    );
    let status = again(PolicyJudgement::Answered(answer(Pending))).planned();
    assert_eq!(status.phase, Some(Phase::Revoked));
    // That the checks cannot be judged now is no answer: an API server that starts refuses what it allows.
    let plan = again(PolicyJudgement::Answered(answer(Failed))).plan();
    assert!(plan.actions.is_empty());
    assert!(plan.requeue.is_some());
    let status = plan.status.unwrap();
    assert_eq!(
        ready(&status),
        "policy p: the permission was removed by somebody else, and its checks cannot be judged: check approval: what it says"
    );
    assert_eq!(
        (
            status.phase,
            status.policies[0].grant.as_ref().unwrap().state
        ),
        (Some(Phase::Pending), GrantState::Granting)
    );
}

#[test]
fn a_policy_that_became_another_one_is_asked_before_it_gives_anything_back() {
    let under = |judged: Option<PolicyJudgement>| {
        Scene::granted().with(|seen| {
            seen.grants.retain(|it| it.kind() == GrantKind::Role);
            seen.frozen[0].changed = true;
            match judged {
                Some(judged) => seen.policies[0].judged = judged,
                None => seen.policies.clear(),
            }
        })
    };
    let passed = under(Some(PolicyJudgement::Answered(answer(Passed)))).plan();
    assert!(
        matches!(passed.actions.as_slice(), [Action::Grant(_)]),
        "{:?}",
        passed.actions
    );
    for ends in [None, Some(PolicyJudgement::Answered(answer(Pending)))] {
        assert_eq!(under(ends).planned().phase, Some(Phase::Revoked));
    }
    // Nobody said no: it is asked again.
    for waits in [
        PolicyJudgement::Unanswered,
        PolicyJudgement::Answered(answer(Failed)),
    ] {
        let plan = under(Some(waits)).plan();
        assert!(plan.requeue.is_some());
        assert!(!plan.actions.iter().any(|it| matches!(it, Action::Grant(_))));
        assert_eq!(plan.status.unwrap().phase, Some(Phase::Pending));
    }
}

#[test]
fn what_ends_on_reads_too_old_to_grant_on_ends_at_once_and_the_rest_is_looked_at_again() {
    let old = |scene: Scene| {
        scene.policy("q", Passed).with(|seen| {
            if let crate::seen::Freshness::Live(since) = &mut seen.freshness {
                *since -= crate::seen::OLDEST;
            }
        })
    };
    let lapsed = EvidenceState::Lapsed {
        check: None,
        verdict: Pending,
        message: "no more".to_owned(),
    };
    let plan = old(Scene::granted()).plan();
    assert!(plan.look_live, "nothing is lost by another look");
    let both = Scene::granted().policy("r", Passed).carried_out();
    let one = both.with(|seen| seen.frozen[0].held = lapsed);
    let plan = old(one).plan();
    assert!(!plan.look_live);
    let removed = plan
        .actions
        .iter()
        .filter(|it| matches!(it, Action::Remove { .. }));
    assert_eq!((removed.count(), plan.actions.len()), (2, 2));
    assert!(plan.requeue.unwrap() < std::time::Duration::from_secs(1));
}

#[test]
fn a_decision_that_was_never_in_force_is_made_anew() {
    let scene = Scene::new().policy("p", Passed);
    let mut crashed = scene.clone();
    crashed.seen.request.status = scene.plan().status;
    let written = scene.carried_out().seen.grants;
    // It still passes: the same is written.
    assert!(matches!(
        crashed.plan().actions.as_slice(),
        [Action::Grant(_)]
    ));
    assert_eq!(crashed.plan().status, None);
    // It does not pass any more: what may have been written goes.
    let undecided = crashed.clone().with(|seen| {
        seen.grants = written.clone();
        seen.policies = Scene::new().policy("p", Pending).seen.policies;
    });
    let plan = undecided.plan();
    assert_eq!(plan.actions.len(), 2);
    assert!(plan.status.unwrap().policies[0].grant.is_none());
    // Nobody can be asked, or the policy does not apply any more: the same.
    for policies in [
        Scene::new()
            .limited("p", &json!({}), PolicyJudgement::Unanswered)
            .seen
            .policies,
        vec![],
    ] {
        let scene = crashed.clone().with(|seen| {
            seen.grants = written.clone();
            seen.policies = policies;
        });
        assert_eq!(scene.plan().actions.len(), 2);
    }
}

#[test]
fn what_was_decided_and_never_in_force_is_forgotten_where_too_many_wait() {
    let scene = Scene::new().policy("p", Passed);
    let mut crashed = scene.clone();
    crashed.seen.request.status = scene.plan().status;
    assert_eq!(crashed.status().policies.len(), 1);
    let over = crashed.with(|seen| seen.over_limit = true);
    assert!(over.planned().policies.is_empty());
    let plan = over.plan();
    assert!(plan.actions.is_empty());
    assert!(
        plan.requeue.is_some(),
        "nobody tells it when others are decided"
    );
}

#[test]
fn the_connector_is_the_one_that_was_found_first() {
    let scene = Scene::new().policy("p", Pending).carried_out();
    assert_eq!(
        scene.status().connector_uid.as_deref(),
        Some("connector-uid")
    );
    let other = scene.with(|seen| {
        seen.connector = Some(crate::seen::ConnectorSeen {
            uid: "other".to_owned(),
        });
        seen.policies = Scene::new().policy("p", Passed).seen.policies;
    });
    let plan = other.plan();
    assert!(grants(&plan.actions).is_empty());
    assert!(
        line(&plan.status.unwrap()).ends_with("connector:F:NotFound ready:F:ConnectorNotFound")
    );
}

#[test]
fn reads_that_take_too_long_are_shown_to_a_request_that_waits_and_to_no_other() {
    let scene = Scene::new().policy("p", Passed);
    let mut late = scene.clone();
    late.seen.request.status = Some(Scene::new().planned());
    let status = too_slow(&late.seen.request, scene.now.wall).unwrap();
    assert!(line(&status).ends_with("ready:F:ReadTooSlow"));
    late.seen.request.status = Some(status);
    // Said once.
    assert_eq!(too_slow(&late.seen.request, scene.now.wall), None);
    // The conditions of what has ended stay, and a first status has more to say.
    let granted = scene.carried_out();
    assert_eq!(too_slow(&granted.seen.request, scene.now.wall), None);
    late.seen.request.status = None;
    assert_eq!(too_slow(&late.seen.request, scene.now.wall), None);
}

#[test]
fn a_failure_to_write_is_shown_until_it_is_overcome() {
    let scene = Scene::new().policy("p", Passed);
    let mut failed = scene.clone();
    failed.seen.request.status = scene.plan().status;
    let status = not_written(&failed.seen.request, "cannot create role", scene.now.wall).unwrap();
    assert!(
        line(&status).ends_with("permission:F:AccessPermissionSyncFailed ready:F:GrantNotWritten")
    );
    failed.seen.request.status = Some(status);
    let planned = failed.planned();
    assert!(line(&planned).contains("permission:F:AccessPermissionSyncFailed"));
    assert!(ready(&planned).contains("cannot create role"));
    // Whatever else was awaited before is not why it is not written.
    let mut first = scene.clone();
    first.seen.request.status = Some(Scene::new().planned());
    assert_eq!(
        ready(&first.planned()),
        "the checks pass; the permission is being written"
    );
    assert!(line(&failed.carried_out().status()).contains("permission:T:AccessPermissionGranted"));
}

#[test]
fn what_was_written_counts_only_if_the_request_still_wants_it() {
    let scene = Scene::new().policy("p", Passed);
    let plan = scene.plan();
    let mut decided = scene.seen.request.clone();
    decided.status = plan.status;
    let grants = grants(&plan.actions);
    assert_eq!(grants.len(), 1);
    let ask = |live: Option<&connectors_api::AccessRequest>| {
        granted(live, &decided, &grants, scene.now.wall).map(|(status, _)| status.phase)
    };
    assert_eq!(ask(Some(&decided)), Ok(Some(Phase::Granted)));
    assert_eq!(ask(None), Err(NotOurs::Gone));
    let changed = |change: fn(&mut connectors_api::AccessRequest)| {
        let mut live = decided.clone();
        change(&mut live);
        ask(Some(&live))
    };
    assert_eq!(
        changed(|it| it.metadata.uid = Some("other".to_owned())),
        Err(NotOurs::Gone)
    );
    assert_eq!(
        changed(|it| it.metadata.deletion_timestamp = it.metadata.creation_timestamp.clone()),
        Err(NotOurs::Gone)
    );
    for phase in [Phase::Rejected, Phase::Revoked, Phase::Invalid] {
        let mut live = decided.clone();
        live.status.as_mut().unwrap().phase = Some(phase);
        assert_eq!(ask(Some(&live)), Err(NotOurs::Ended));
    }
    assert_eq!(
        changed(|it| it.status.as_mut().unwrap().evidence = Some("sha256:other".to_owned())),
        Err(NotOurs::OtherEvidence)
    );
    assert_eq!(
        changed(|it| it.status.as_mut().unwrap().evidence = None),
        Err(NotOurs::OtherEvidence)
    );
    assert_eq!(
        changed(|it| it.status.as_mut().unwrap().policies.clear()),
        Err(NotOurs::OtherEvidence)
    );
    assert_eq!(changed(|it| it.status = None), Err(NotOurs::OtherEvidence));
    // An entry that still gives something else, and one that gave the same and gives it no more.
    let of_entry = |it: &mut connectors_api::AccessRequest| {
        let entry = &mut it.status.as_mut().unwrap().policies[0];
        entry.grant.take().unwrap()
    };
    let with = |change: fn(&mut connectors_api::access_request::PolicyGrant)| {
        let mut live = decided.clone();
        let mut grant = of_entry(&mut live);
        change(&mut grant);
        live.status.as_mut().unwrap().policies[0].grant = Some(grant);
        ask(Some(&live))
    };
    assert_eq!(
        with(|it| it.rules[0].verbs = vec!["get".to_owned()]),
        Err(NotOurs::OtherEvidence)
    );
    assert_eq!(
        with(|it| it.state = GrantState::Ended),
        Err(NotOurs::OtherEvidence)
    );
    assert_eq!(with(|_| {}), Ok(Some(Phase::Granted)));
}
