//! The sentences, to the letter: people search for them, and the documentation quotes them.

use connectors_api::{
    AccessRequestCondition as Is,
    access_request::{AccessRequestStatus, GrantState, Phase},
    reason::{
        AccessCheckReady::{
            AccessCheckFailed, AccessCheckPassed as Passed, AccessCheckPending as Pending,
            AccessCheckRejected,
        },
        AccessPermissionSync, Ready,
    },
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::scene::{Scene, answer, created, policy_object, request};
use crate::plan::{
    conditions::{self, Conditions},
    finished, tell,
};
use crate::seen::{EvidenceState, Miss, NearMiss, PolicyJudgement};
use crate::{evidence::shortened, snapshot};

#[test]
fn each_reason_has_its_sentence() {
    let request = request();
    for (said, sentence) in [
        (
            tell::no_connector("harbor"),
            "there is no connector harbor in this namespace",
        ),
        (
            tell::replaced("harbor"),
            "connector harbor is another one than when this request was made; delete the request to ask for the new one",
        ),
        (
            tell::no_policy(&request, &[]),
            "no AccessPolicy of this namespace with checkGrantedPermission selects connector harbor for permission apis and accepts ServiceAccount apps/builder; kubectl get apol lists them",
        ),
        (
            tell::for_good(&request, "policy p: check c: no", false),
            "policy p: check c: no; this is final for this pod: start a new pod, or a user who may delete requests runs kubectl -n apps delete areq harbor-1",
        ),
        (
            tell::for_good(&request, "policy p: check c: no", true),
            "policy p: check c: no; this is final for this pipeline run: start a new one",
        ),
        (
            tell::wrong_subject(&request),
            "the pod does not run as ServiceAccount apps/builder",
        ),
        (
            tell::duplicate("harbor-0"),
            "request harbor-0 decides for the same subject, connector, permission and pod",
        ),
        (
            tell::too_many("apps"),
            "too many requests of pods in namespace apps are waiting already; this one is looked at when others are decided",
        ),
    ] {
        assert_eq!(said, sentence);
    }
}

#[test]
fn events_have_the_reasons_that_the_documentation_lists() {
    let told = [
        (tell::ToldKind::AccessPending, "AccessPending", false),
        (tell::ToldKind::AccessGranted, "AccessGranted", false),
        (tell::ToldKind::AccessRevoked, "AccessRevoked", true),
        (tell::ToldKind::AccessEnded, "AccessEnded", false),
        (tell::ToldKind::AccessRejected, "AccessRejected", true),
        (tell::ToldKind::AccessInvalid, "AccessInvalid", true),
        (tell::ToldKind::AccessReset, "AccessReset", false),
    ];
    for (kind, reason, is_warning) in told {
        assert_eq!((kind.as_str(), kind.is_warning()), (reason, is_warning));
    }
}

#[test]
fn what_is_awaited_is_told_when_it_becomes_something_else_and_not_again() {
    let waits = Scene::new().carried_out();
    assert!(waits.plan().events.is_empty());
    let awaited = waits.policy("p", Pending);
    let events = awaited.plan().events;
    assert_eq!(events[0].kind, tell::ToldKind::AccessPending);
    assert!(awaited.carried_out().plan().events.is_empty());
}

#[test]
fn a_change_of_the_state_or_of_its_reason_is_told_and_of_the_sentence_only_while_it_waits() {
    let status = |phase, ready: Ready, message: &str| {
        let mut conditions = Conditions::after(&[], None, created());
        conditions.is_false(ready, message);
        AccessRequestStatus {
            phase: Some(phase),
            conditions: conditions.finish(),
            ..AccessRequestStatus::default()
        }
    };
    let waits = status(Phase::Pending, Ready::ChecksPending, "a");
    let granted = status(Phase::Granted, Ready::Granted, "a");
    for (old, new, is_told) in [
        (&waits, waits.clone(), false),
        (
            &waits,
            status(Phase::Pending, Ready::ChecksFailed, "a"),
            true,
        ),
        (
            &waits,
            status(Phase::Ended, Ready::ChecksPending, "a"),
            true,
        ),
        (
            &waits,
            status(Phase::Pending, Ready::ChecksPending, "b"),
            true,
        ),
        (&granted, status(Phase::Granted, Ready::Granted, "b"), false),
    ] {
        let told = tell::of_change(&request(), old, &new, "");
        assert_eq!(!told.is_empty(), is_told, "{new:?}");
    }
}

#[test]
fn the_problem_of_a_write_is_told_until_it_succeeds_and_no_other_sentence_is() {
    let (failed, revoked) = (
        AccessPermissionSync::AccessPermissionSyncFailed,
        AccessPermissionSync::AccessPermissionRevoked,
    );
    for (permission, ready, sentence) in [
        (failed, Ready::GrantNotWritten, "said before"),
        (failed, Ready::ChecksPending, tell::WRITING),
        (revoked, Ready::GrantNotWritten, tell::WRITING),
    ] {
        let mut before = Conditions::after(&[], None, created());
        before.is_false(permission, "said before");
        before.is_false(ready, "said before");
        let status = AccessRequestStatus {
            phase: Some(Phase::Pending),
            conditions: before.finish(),
            ..AccessRequestStatus::default()
        };
        let scene = Scene::new().policy("p", Passed);
        let written = scene.with(|seen| seen.request.status = Some(status));
        let status = written.planned();
        let now = conditions::find(&status.conditions, Is::Ready).unwrap();
        assert_eq!(now.reason, Ready::GrantNotWritten.as_str());
        assert_eq!(now.message, sentence, "{permission:?} {ready:?}");
    }
}

/// The note of the event at a pod of another namespace.
fn note(scene: &Scene) -> String {
    let plan = scene.clone().elsewhere().plan();
    let told = plan.events.into_iter().chain(plan.wait);
    let mut pods = told.filter(|it| it.about == tell::EventObject::Pod);
    let note = pods.next().unwrap().note;
    assert_eq!(pods.next(), None);
    note
}

#[test]
fn a_pod_elsewhere_learns_what_became_of_its_request_and_whom_to_ask() {
    let whom = "whoever looks after namespace tools can tell more";
    assert_eq!(
        note(&Scene::new()),
        format!("connector tools/harbor: access is not granted yet; {whom}")
    );
    // The objects are in its own namespace, the policy is not.
    assert_eq!(
        note(&Scene::new().policy("p", Pending)),
        format!("connector tools/harbor: access is not granted yet: what it says; {whom}")
    );
    let rejected = connectors_api::reason::AccessCheckReady::AccessCheckRejected;
    assert_eq!(
        note(&Scene::new().policy("p", rejected)),
        format!("connector tools/harbor: access was refused: what it says; {whom}")
    );
    let late = json!({"pendingTimeout": "1h"});
    let late = Scene::new()
        .limited("p", &late, PolicyJudgement::Answered(answer(Pending)))
        .after(SignedDuration::from_hours(1));
    assert_eq!(
        note(&late),
        format!("connector tools/harbor: access was refused: what it says; {whom}")
    );
    let lapsed = Scene::granted().held(&EvidenceState::Lapsed {
        check: Some("approval".to_owned()),
        verdict: Pending,
        message: "SignOff s is pending".to_owned(),
    });
    assert_eq!(
        note(&lapsed),
        format!("connector tools/harbor: access was taken back: SignOff s is pending; {whom}")
    );
}

#[test]
fn a_pod_elsewhere_that_waits_for_one_of_several_is_told_so_without_their_names() {
    let waits = |name: &str, what: &str| {
        let mut pending = answer(Pending);
        what.clone_into(&mut pending.checks[0].message);
        (name.to_owned(), PolicyJudgement::Answered(pending))
    };
    let all = [
        waits("p", "a is pending"),
        waits("q", "b is pending"),
        waits("r", "a is pending"),
        waits("s", ""),
    ];
    let scene = all.iter().fold(Scene::new(), |scene, (name, judged)| {
        scene.limited(name, &json!({}), judged.clone())
    });
    let wait = scene.elsewhere().plan().wait.unwrap();
    assert_eq!(
        wait.note,
        "connector tools/harbor: access is not granted yet: one of these suffices: a is pending; or b is pending; whoever looks after namespace tools can tell more"
    );
}

#[test]
fn whom_to_ask_is_told_however_much_the_objects_say() {
    for verdict in [Pending, AccessCheckRejected] {
        let mut said = answer(verdict);
        said.checks[0].message = "x".repeat(2000);
        let scene = Scene::new().limited("p", &json!({}), PolicyJudgement::Answered(said));
        let note = note(&scene);
        assert_eq!(note.len(), 1024);
        let whom = "…; whoever looks after namespace tools can tell more";
        assert!(note.ends_with(whom), "{note}");
    }
}

#[test]
fn an_author_elsewhere_is_told_one_outcome_of_a_policy() {
    let message = |scene: Scene| {
        let status = scene.elsewhere().planned();
        let ready = conditions::find(&status.conditions, Is::Ready).unwrap();
        ready.message.clone()
    };
    let at_the_pod = "what they found is told at the pod, in its namespace";
    for (verdict, outcome) in [
        (Pending, "its checks do not pass yet"),
        (AccessCheckFailed, "its checks cannot be judged"),
    ] {
        assert_eq!(
            message(Scene::new().policy("p", verdict)),
            format!("policy p: {outcome}; {at_the_pod}")
        );
    }
    let rejected = message(Scene::new().policy("p", AccessCheckRejected));
    let outcome = format!("policy p: its checks were rejected; {at_the_pod}; this is final");
    assert!(rejected.starts_with(&outcome), "{rejected}");
}

#[test]
fn an_author_elsewhere_is_told_what_is_wrong_with_his_policy() {
    let message = |reason: &str, objects: bool, left_out: usize| {
        let mut said = answer(AccessCheckFailed);
        let check = &mut said.checks[0];
        reason.clone_into(&mut check.reason);
        check.left_out.others = left_out;
        if !objects {
            check.objects.clear();
        }
        let scene = Scene::new().limited("p", &json!({}), PolicyJudgement::Answered(said));
        let status = scene.elsewhere().planned();
        let ready = conditions::find(&status.conditions, Is::Ready).unwrap();
        ready.message.clone()
    };
    let told = "policy p: check approval: what it says";
    for reason in [
        "KindMissing",
        "KindForbidden",
        "KindRefused",
        "KindNotNamespaced",
        "SelectorInvalid",
    ] {
        assert_eq!(message(reason, false, 0), told, "{reason}");
        // What depends on an object that was found says that there is one.
        assert_ne!(message(reason, true, 0), told, "{reason}");
        assert_ne!(message(reason, false, 1), told, "{reason}");
    }
    for reason in [
        "ObjectUnreadable",
        "NoObjects",
        "NotSaid",
        "ProofUnavailable",
        "",
    ] {
        assert_ne!(message(reason, false, 0), told, "{reason}");
    }
    // A refusal is about the rules of the policy.
    let mut refused = answer(AccessCheckFailed);
    refused.refusal = Some("no rule".to_owned());
    let scene = Scene::new().limited("p", &json!({}), PolicyJudgement::Answered(refused));
    let status = scene.elsewhere().planned();
    let ready = conditions::find(&status.conditions, Is::Ready).unwrap();
    assert_eq!(ready.message, "policy p: no rule");
}

#[test]
fn who_approved_is_told_once_each_and_by_policy() {
    let mut scene = Scene::new().policy("p", Passed).policy("q", Pending);
    if let PolicyJudgement::Answered(answer) = &mut scene.seen.policies[0].judged {
        let object = &mut answer.checks[0].objects[0];
        object.approved_by = vec!["zoe".to_owned(), "ann".to_owned(), "zoe".to_owned()];
    }
    let policies = scene.carried_out().status().policies;
    assert_eq!(
        tell::granted(&policies),
        "granted by policy p, approved by ann, zoe"
    );
    let nobody = Scene::new().limited("p", &serde_json::json!({}), {
        let mut passed = answer(Passed);
        passed.checks[0].objects[0].approved_by.clear();
        PolicyJudgement::Answered(passed)
    });
    let policies = nobody.carried_out().status().policies;
    assert_eq!(tell::granted(&policies), "granted by policy p");
}

#[test]
fn a_sentence_that_is_too_long_is_cut_between_letters() {
    for text in ["", "short", &"x".repeat(1024)] {
        assert_eq!(shortened(text.to_owned()), text);
    }
    let cut = shortened("x".repeat(1025));
    assert_eq!((cut.len(), cut.chars().last()), (1024, Some('…')));
    let cut = shortened("é".repeat(600));
    assert_eq!((cut.len(), cut.chars().last()), (1023, Some('…')));
}

#[test]
fn that_a_pod_may_ask_anew_is_told_when_what_had_decided_is_deleted() {
    let rejected = connectors_api::reason::AccessCheckReady::AccessCheckRejected;
    let rejected = Scene::new().policy("p", rejected).carried_out();
    let notes = |scene: &Scene| -> Vec<String> {
        let told = tell::of_deletion(&scene.seen.request).into_iter();
        told.map(|it| it.note).collect()
    };
    assert_eq!(
        notes(&rejected.clone().elsewhere()),
        [
            "request harbor-1 was deleted when it was Rejected; connector harbor for pod apps/run-deploy-pod (builder) may be asked for anew",
            "connector tools/harbor: access may be asked for anew; whoever looks after namespace tools can tell more",
        ]
    );
    let [request, pod] = notes(&rejected).try_into().unwrap();
    assert_eq!(request, pod, "a pod beside its request may know all of it");
    assert!(notes(&Scene::granted()).is_empty(), "it had not ended");
    assert!(notes(&Scene::new()).is_empty(), "nobody had decided");
    let gone = rejected.with(|seen| seen.pod = crate::seen::PodSeen::Gone);
    assert!(notes(&gone.carried_out()).is_empty(), "no pod can ask");
}

#[test]
fn only_a_revocation_that_is_not_finished_can_be() {
    let at = Timestamp::UNIX_EPOCH;
    let of = |phase, revoked_at| {
        let mut request = request();
        request.status = Some(AccessRequestStatus {
            phase: Some(phase),
            revoked_at,
            ..AccessRequestStatus::default()
        });
        finished(&request, at).map(|it| it.revoked_at)
    };
    assert_eq!(of(Phase::Revoked, None), Some(Some(at)));
    assert_eq!(of(Phase::Revoked, Some(at)), None);
    assert_eq!(of(Phase::Granted, None), None);
    assert_eq!(of(Phase::Rejected, None), None);
    assert_eq!(finished(&request(), at), None);
}

#[test]
fn a_policy_is_the_same_as_long_as_its_conditions_and_its_permission_are() {
    let limits = serde_json::json!({});
    let policy = policy_object("p", &limits);
    let kept = snapshot::snapshot(&policy);
    assert!(snapshot::is_same(&kept, &policy));
    let mut for_another = policy.clone();
    for_another.spec.connector.names = Some(vec!["another".to_owned()]);
    assert!(
        snapshot::is_same(&kept, &for_another),
        "it has the same conditions"
    );

    let mut permission = policy.clone();
    permission.spec.permission = connectors_api::Permission::Proxy;
    assert!(!snapshot::is_same(&kept, &permission));
    let mut check = policy.clone();
    if let Some(granted) = &mut check.spec.check_granted_permission {
        granted.spec.checks[0].name = "another".to_owned();
    }
    assert!(!snapshot::is_same(&kept, &check));
    assert!(!snapshot::is_same(&serde_json::Map::new(), &policy));
}

#[test]
fn what_has_ended_says_when_and_why() {
    let scene = Scene::granted_under(&serde_json::json!({"maxDuration": "90s"}));
    let end = scene.after(SignedDuration::from_secs(90));
    let grant = end.planned().policies[0].grant.clone().unwrap();
    assert_eq!(
        (grant.state, grant.reason, grant.ended_at),
        (
            GrantState::Ended,
            Some(connectors_api::reason::Ready::Expired),
            Some(end.now.wall)
        )
    );
}

#[test]
fn policies_that_nearly_apply_are_named_with_what_fails_the_nearest_first_and_a_few() {
    let miss = |policy: &str, why| NearMiss {
        policy: policy.to_owned(),
        why,
    };
    let proxy = Miss::Permission(connectors_api::Permission::Proxy);
    let near = [
        miss("a", proxy),
        miss("b", Miss::Connector),
        miss("c", Miss::Requesters),
    ];
    let none = "no AccessPolicy of this namespace with checkGrantedPermission selects connector harbor for permission apis and accepts ServiceAccount apps/builder";
    assert_eq!(
        tell::no_policy(&request(), &near),
        format!(
            "{none}; policy c: requesters do not accept ServiceAccount apps/builder; policy b: connector does not select harbor; policy a: permission is proxy; kubectl get apol lists them"
        )
    );
    let many: Vec<_> = (0..7)
        .map(|it| miss(&it.to_string(), Miss::Connector))
        .collect();
    let told = tell::no_policy(&request(), &many);
    assert!(
        told.contains("policy 4: ") && !told.contains("policy 5: "),
        "{told}"
    );
    assert!(
        told.contains("; 2 more policies do not apply either; "),
        "{told}"
    );
    let five = tell::no_policy(&request(), &many[..5]);
    assert!(!five.contains("more policies"), "{five}");
    // As the condition and the event have it.
    let status = Scene::new()
        .with(|seen| seen.near = near.to_vec())
        .planned();
    let ready = conditions::find(&status.conditions, Is::Ready).unwrap();
    assert!(
        ready.message.contains("policy c: requesters"),
        "{}",
        ready.message
    );
}

#[test]
fn of_several_policies_that_wait_it_is_said_that_one_suffices() {
    let message = |scene: &Scene| {
        let status = scene.planned();
        let ready = conditions::find(&status.conditions, Is::Ready).unwrap();
        ready.message.clone()
    };
    let one = Scene::new().policy("p", Pending);
    assert_eq!(message(&one), "policy p: check approval: what it says");
    assert_eq!(
        message(&one.policy("q", Pending)),
        "one of these suffices: policy p: check approval: what it says; or policy q: check approval: what it says"
    );
}

#[test]
fn a_no_says_that_it_is_final_however_long_its_reason() {
    let mut rejected = answer(connectors_api::reason::AccessCheckReady::AccessCheckRejected);
    rejected.checks[0].message = "x".repeat(2000);
    let scene = Scene::new().limited(
        "p",
        &serde_json::json!({}),
        PolicyJudgement::Answered(rejected),
    );
    let status = scene.planned();
    let ready = conditions::find(&status.conditions, Is::Ready).unwrap();
    assert!(ready.message.len() <= 1024);
    assert!(
        ready
            .message
            .ends_with("kubectl -n apps delete areq harbor-1"),
        "{}",
        ready.message
    );
}

#[test]
fn a_pod_beside_its_request_is_told_when_it_waits_for_something_else() {
    let waits = |scene: Scene, what: &str| {
        scene.with(|seen| {
            let mut pending = answer(Pending);
            what.clone_into(&mut pending.checks[0].message);
            seen.policies[0].judged = PolicyJudgement::Answered(pending);
        })
    };
    let first = waits(Scene::new().policy("p", Pending), "no SignOff").carried_out();
    assert!(first.plan().events.is_empty());
    let next = waits(first, "SignOff s is pending");
    let told: Vec<_> = next
        .plan()
        .events
        .into_iter()
        .map(|it| (it.about, it.kind))
        .collect();
    let expected = [tell::EventObject::Request, tell::EventObject::Pod];
    assert_eq!(told, expected.map(|it| (it, tell::ToldKind::AccessPending)));
    assert!(next.carried_out().plan().events.is_empty());
    assert_eq!(next.plan().wait, None);
}

#[test]
fn a_pod_elsewhere_is_told_when_it_waits_for_something_else_though_no_status_says_so() {
    let waits = |scene: &Scene, what: &str| {
        scene.clone().with(|seen| {
            let mut pending = answer(Pending);
            what.clone_into(&mut pending.checks[0].message);
            seen.policies[0].judged = PolicyJudgement::Answered(pending);
        })
    };
    let first = Scene::new().policy("p", Pending).elsewhere();
    let first = waits(&first, "no SignOff").carried_out();
    let next = waits(&first, "SignOff s is pending").plan();
    assert!(next.is_idle() && next.events.is_empty());
    let wait = next.wait.unwrap();
    assert_eq!(
        (wait.about, wait.kind, wait.why),
        (tell::EventObject::Pod, tell::ToldKind::AccessPending, None)
    );
    assert!(wait.note.contains("SignOff s is pending"), "{}", wait.note);
    // While what passed is written, nothing is awaited.
    let passes =
        first.with(|seen| seen.policies[0].judged = PolicyJudgement::Answered(answer(Passed)));
    assert_eq!(passes.plan().wait, None);
}
