use connectors_api::{
    access_request::{GrantState, Phase},
    reason::AccessCheckReady,
};
use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::scene::{RESOURCE, Scene, answer};
use crate::seen::{
    ConnectorSeen, EvidenceState, Freshness, GrantKind, PodFacts, PodSeen, PolicyJudgement,
    StandingSeen, TupleSeen,
};
use crate::{grant, plan::Action};

/// One thing that can happen around a request between two looks.
#[derive(Clone, Debug)]
enum Step {
    Pod(PodSeen),
    Connector(Option<&'static str>),
    Says(Vec<PolicyJudgement>),
    Held(EvidenceState),
    PolicyGone,
    Again(Option<PolicyJudgement>),
    Switch(bool),
    Limit(bool),
    Duplicate(bool),
    Standing(StandingSeen),
    Age(u64),
    Caches(bool),
    Lose(usize),
    Pass(i64),
}

fn judged() -> impl Strategy<Value = PolicyJudgement> {
    prop_oneof![
        1 => Just(PolicyJudgement::Unanswered),
        6 => select(AccessCheckReady::ALL).prop_map(|verdict| PolicyJudgement::Answered(answer(verdict))),
    ]
}

fn held() -> impl Strategy<Value = EvidenceState> {
    let lapsed = select(AccessCheckReady::ALL).prop_map(|verdict| EvidenceState::Lapsed {
        check: None,
        verdict,
        message: "changed".to_owned(),
    });
    prop_oneof![3 => Just(EvidenceState::Holds), 1 => Just(EvidenceState::Unknown), 1 => lapsed]
}

fn pods() -> impl Strategy<Value = PodSeen> {
    let there = (
        proptest::bool::weighted(0.1),
        proptest::bool::weighted(0.2),
        proptest::bool::weighted(0.9),
    );
    let there = there.prop_map(|(finished, terminating, own)| {
        PodSeen::There(PodFacts {
            finished,
            terminating,
            account: if own { "builder" } else { "other" }.to_owned(),
        })
    });
    prop_oneof![8 => there, 1 => Just(PodSeen::Unreadable), 1 => Just(PodSeen::Gone)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => pods().prop_map(Step::Pod),
        1 => select(&[Some("connector-uid"), Some("connector-uid"), Some("other"), None][..])
            .prop_map(Step::Connector),
        4 => proptest::collection::vec(judged(), 0..3).prop_map(Step::Says),
        1 => held().prop_map(Step::Held),
        1 => Just(Step::PolicyGone),
        1 => proptest::option::of(judged()).prop_map(Step::Again),
        1 => any::<bool>().prop_map(Step::Switch),
        1 => any::<bool>().prop_map(Step::Limit),
        1 => proptest::bool::weighted(0.2).prop_map(Step::Duplicate),
        1 => select(&[StandingSeen::Unknown, StandingSeen::Absent, StandingSeen::There][..])
            .prop_map(Step::Standing),
        1 => (0_u64..8).prop_map(Step::Age),
        1 => any::<bool>().prop_map(Step::Caches),
        1 => (0_usize..4).prop_map(Step::Lose),
        1 => (0_i64..5000).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..14)
}

fn limits() -> impl Strategy<Value = Value> {
    select(vec![
        json!({}),
        json!({"pendingTimeout": "1h"}),
        json!({"maxDuration": "1h"}),
    ])
}

fn happens(scene: Scene, step: Step, limits: &Value) -> Scene {
    let live = Freshness::Live(scene.now.mono);
    match step {
        Step::Pod(pod) => scene.with(|seen| seen.pod = pod),
        Step::Connector(uid) => scene.with(|seen| {
            seen.connector = uid.map(|uid| ConnectorSeen {
                uid: uid.to_owned(),
            });
        }),
        Step::Says(says) => {
            let scene = scene.with(|seen| seen.policies.clear());
            ["p", "q"]
                .into_iter()
                .zip(says)
                .fold(scene, |scene, (name, judged)| {
                    scene.limited(name, limits, judged)
                })
        }
        Step::Held(held) => scene.held(&held),
        Step::PolicyGone => scene.with(|seen| {
            seen.frozen
                .iter_mut()
                .take(1)
                .for_each(|it| it.exists = false);
        }),
        Step::Again(again) => scene.with(|seen| {
            seen.frozen
                .iter_mut()
                .for_each(|it| it.again = again.clone());
        }),
        Step::Switch(on) => scene.with(|seen| seen.config.enabled = on),
        Step::Limit(over) => scene.with(|seen| seen.over_limit = over),
        Step::Duplicate(is) => scene.with(|seen| {
            seen.tuple = TupleSeen {
                decided_by: is.then(|| "first".to_owned()),
                has_others: is,
            };
        }),
        Step::Standing(standing) => scene.standing(standing),
        Step::Age(seconds) => {
            let mut scene = scene.with(|seen| seen.freshness = live);
            scene.now.mono += std::time::Duration::from_secs(seconds);
            scene
        }
        Step::Caches(cached) => scene.with(|seen| {
            seen.freshness = if cached { Freshness::Cached } else { live };
        }),
        Step::Lose(index) => scene.with(|seen| {
            if index < seen.grants.len() {
                seen.grants.remove(index);
            }
        }),
        Step::Pass(seconds) => scene.after(SignedDuration::from_secs(seconds)),
    }
}

fn grants(scene: &Scene) -> Vec<grant::Grant> {
    let plan = scene.plan();
    plan.actions
        .into_iter()
        .filter_map(|action| match action {
            Action::Grant(grant) => Some(*grant),
            Action::Remove { .. } | Action::Prepare(_) | Action::Finish | Action::DeleteRequest => {
                None
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// What must hold of every plan, on every way on which a request can come to where it is.
    #[test]
    fn every_plan_keeps_the_promises(steps in steps(), limits in limits()) {
        let mut scene = Scene::new();
        let mut final_phase = None;
        for step in steps {
            scene = happens(scene, step, &limits);
            let plan = scene.plan();
            let is_live = scene.seen.freshness.left(scene.now.mono).is_some();
            let is_cached = scene.seen.freshness == Freshness::Cached;
            let old = scene.status();

            // Nothing is written when a live look is asked for.
            if plan.look_live {
                prop_assert!(plan.status.is_none() && plan.actions.is_empty());
                continue;
            }
            // I1: grants only on live reads that are young enough, and only on checks that passed.
            for grant in grants(&scene) {
                prop_assert!(is_live);
                prop_assert!(scene.seen.config.enabled);
                prop_assert!(matches!(&scene.seen.pod, PodSeen::There(pod) if !pod.terminating && !pod.finished));
                let passed = |judged: &PolicyJudgement| {
                    matches!(judged, PolicyJudgement::Answered(it) if it.verdict == AccessCheckReady::AccessCheckPassed)
                };
                let policy = scene.seen.policies.iter().find(|it| it.uid == grant.policy_uid);
                let frozen = scene.seen.frozen.iter().find(|it| it.uid == grant.policy_uid);
                prop_assert!(
                    policy.is_some_and(|it| passed(&it.judged))
                        || frozen.and_then(|it| it.again.as_ref()).is_some_and(passed)
                );
                // I4: only this pod's use of connectors, only this connector.
                let rules = grant.role.rules.clone().unwrap();
                prop_assert!(rules.iter().all(|it| it.api_groups.as_deref() == Some(&["connectors.alauda.io".to_owned()])));
                prop_assert!(rules.iter().all(|it| it.resource_names.as_deref() == Some(&["harbor".to_owned()])));
                // What is written is what the status describes.
                let mut future = scene.seen.request.clone();
                future.status = Some(plan.status.clone().unwrap_or(old.clone()));
                prop_assert!(super::scene::objects(&grant).iter().all(|it| grant::keep(it, Some(&future), scene.now.wall)));
            }
            // What is recorded as decided and was never in force is being written.
            if !is_cached {
                let status = plan.status.clone().unwrap_or(old.clone());
                let to_write: Vec<_> = grants(&scene).into_iter().map(|it| it.policy_uid).collect();
                let open = !status.phase.is_some_and(grant::is_terminal);
                for entry in status.policies.iter().filter(|_| open) {
                    let grant = entry.grant.as_ref();
                    if grant.is_some_and(|it| it.state == GrantState::Granting && it.granted_at.is_none()) {
                        let (_, uid) = grant::identity(entry).unwrap();
                        prop_assert!(to_write.iter().any(|it| it == uid));
                    }
                }
            }
            // A Role in advance has the rules of this pod, and takes no grant's place.
            for action in &plan.actions {
                let Action::Prepare(role) = action else { continue };
                let rules = role.rules.iter().flatten();
                let own = [RESOURCE.to_owned()];
                prop_assert!(rules.clone().all(|it| it.resources.as_deref() == Some(&own[..])));
                prop_assert!(scene.seen.config.enabled && grants(&scene).is_empty());
            }
            // Caches alone neither remove, nor end, nor grant.
            if is_cached {
                let is_bound = |name: &str| scene.seen.grants.iter().any(|it| {
                    it.kind() == GrantKind::RoleBinding && it.name() == name
                });
                let gives_nothing = |it: &Action| match it {
                    Action::Prepare(_) => true,
                    Action::Remove { kind, name, uid } => {
                        *kind == GrantKind::Role && uid.is_some() && !is_bound(name)
                    }
                    Action::Grant(_) | Action::Finish | Action::DeleteRequest => false,
                };
                prop_assert!(plan.actions.iter().all(gives_nothing) && !plan.ends);
                let phase = plan.status.as_ref().and_then(|it| it.phase);
                prop_assert!(phase == old.phase || !phase.is_some_and(grant::is_terminal));
            }
            // While its pod runs, a request ends without having held anything only where a standing permission was
            // confirmed just now, and where no policy has come to anything.
            let new = plan.status.as_ref().filter(|it| it.phase == Some(Phase::Ended) && it.phase != old.phase);
            if let Some(new) = new {
                let decided = |it: &connectors_api::access_request::AccessRequestStatus| {
                    it.granted_at.is_some() || it.policies.iter().any(|it| it.grant.is_some())
                };
                let runs = matches!(&scene.seen.pod, PodSeen::There(pod) if !pod.finished);
                prop_assert!(!runs || is_live && scene.seen.standing == StandingSeen::There);
                prop_assert!(!runs || !decided(&old) && !decided(new));
            }
            // A request goes while its pod runs only where it may: as a duplicate, or one minute after such an end.
            if plan.actions.contains(&Action::DeleteRequest) {
                prop_assert!(matches!(old.phase, Some(Phase::Invalid | Phase::Ended)), "{old:?}");
                break;
            }
            // I5: what is final stays final, and grants nothing.
            if let Some(phase) = final_phase {
                prop_assert!(grants(&scene).is_empty());
                prop_assert_eq!(plan.status.as_ref().map_or(old.phase, |it| it.phase), Some(phase));
            }
            // What has ended stays ended.
            let ended = |status: &connectors_api::AccessRequestStatus| -> Vec<_> {
                let ended = status.policies.iter().filter(|it| {
                    it.grant.as_ref().is_some_and(|it| it.state == GrantState::Ended)
                });
                ended.filter_map(grant::identity).map(|(_, uid)| uid.to_owned()).collect()
            };
            if let Some(new) = &plan.status {
                let still = ended(new);
                prop_assert!(ended(&old).iter().all(|it| still.contains(it)));
            }
            let next = scene.carry_out(plan);
            // After a plan nothing is left that the status does not describe.
            if !is_cached {
                let request = Some(&next.seen.request);
                prop_assert!(next.seen.grants.iter().all(|it| grant::keep(it, request, next.now.wall)));
            }
            if next.status().phase == Some(Phase::Granted) && !is_cached {
                prop_assert!(!next.seen.grants.is_empty());
            }
            // The outcome of a plan needs no further plan; its pod may be gone for so long that it is deleted at once.
            let after = next.plan();
            let is_old = after.actions == [Action::DeleteRequest];
            prop_assert!(after.is_idle() || after.look_live || is_old || next.status().phase == Some(Phase::Invalid), "{after:?}");
            final_phase = next.status().phase.filter(|it| grant::is_terminal(*it));
            scene = next;
        }
    }
}
