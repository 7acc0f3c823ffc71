//! The effects of an answer. Pure.

use connectors_api::access_policy::{Check, Latch, Match};
use connectors_api::access_request::{GrantState, MatchedPolicy, Phase};
use connectors_api::names::CONNECTORS;
use connectors_api::reason::AccessCheckReady;
use connectors_api::{AccessRequest, AccessResource};

use super::{AnswerEffect, EffectWord, OpenedGrant};
use crate::explain::foresee::{Foreseen, ForeseenAccess};
use crate::explain::report::{AccessWord, GatingWord, PodWord, PolicyShown, RuleShown};
use crate::policy_test::compare::covers_mount;
use crate::terms::NamespacedName;

/// Why a pod that ends is not let in.
const POD_ENDS: &str = "the pod ends, and gets nothing more";

/// The effects on the accesses of a pod whose checks find the object with this UID.
pub(super) fn of_waiting(foreseen: &Foreseen, uid: &str) -> Vec<AnswerEffect> {
    let touched = foreseen
        .accesses
        .iter()
        .filter(|it| it.counted.iter().any(|it| it.uid == uid));
    touched
        .flat_map(|it| of_access(foreseen, it, uid))
        .collect()
}

/// The effect, and one more if it is not known of a further policy.
fn of_access(foreseen: &Foreseen, access: &ForeseenAccess, uid: &str) -> Vec<AnswerEffect> {
    let Some(pod) = foreseen.pod.as_ref() else {
        return Vec::new();
    };
    let ForeseenAccess { now, then, .. } = access;
    let is_by_module = access
        .counted
        .iter()
        .filter(|it| it.uid == uid)
        .all(|it| it.has_module);
    let finds = access.counted.iter().filter(|it| it.uid == uid);
    let mut policies: Vec<_> = finds.map(|it| it.policy.clone()).collect();
    policies.sort();
    policies.dedup();
    let request = now.request.as_ref();
    let mut effect = AnswerEffect {
        effect: EffectWord::Waits,
        pod: NamespacedName::new(&pod.namespace, &pod.name),
        pod_uid: pod.uid.clone(),
        account: foreseen.account.clone(),
        connector: now.connector.clone(),
        permission: now.permission,
        request: request.map(|it| it.name.clone()),
        phase: request.and_then(|it| it.phase),
        policies,
        because: then.because.clone(),
        is_by_module,
        grants: Vec::new(),
    };
    let is_granted = effect.phase == Some(Phase::Granted);
    let opened = access.opened_by();
    let doubtful = access.doubtful(uid);
    let barred = barred(foreseen.gating, pod.state);
    let is_open = matches!(
        then.state,
        AccessWord::Waits | AccessWord::Unknown | AccessWord::NotGated
    );
    let mut unknown = None;
    if let Some(because) = unheard(pod.state, access) {
        effect.because = because;
    } else if !is_open && !is_granted {
        effect.because.clone_from(&then.because);
    } else {
        if !doubtful.is_empty() && barred.is_none() {
            unknown = Some(not_known(&effect, &doubtful));
        }
        // While approvals are switched off, a pod without a request makes none.
        let may_refuse = barred.is_none() || request.is_some();
        if !opened.is_empty() && barred.is_none() {
            effect.effect = if is_granted {
                EffectWord::Adds
            } else {
                EffectWord::Opens
            };
            effect.policies = opened.iter().map(|it| it.name.clone()).collect();
            effect.because = format!(
                "every check of policy {} passes",
                effect.policies.join(", ")
            );
            let grants = opened.iter().map(|it| opened_grant(&effect, access, it));
            effect.grants = grants.collect();
        } else if is_granted {
            "the pod keeps the access that it has".clone_into(&mut effect.because);
        } else if access.is_late() {
            effect.because.clone_from(&then.because);
        } else if access.is_refused() && may_refuse {
            effect.effect = EffectWord::Refuses;
            "no policy can pass any more".clone_into(&mut effect.because);
        } else if let Some(barred) = barred {
            barred.clone_into(&mut effect.because);
        } else if let Some(unknown) = unknown {
            return vec![unknown];
        }
    }
    std::iter::once(effect).chain(unknown).collect()
}

/// Why the controller does not look at the checks.
fn unheard(pod: PodWord, access: &ForeseenAccess) -> Option<String> {
    let connector = &access.now.connector;
    if matches!(pod, PodWord::Finished | PodWord::Gone) {
        Some(POD_ENDS.to_owned())
    } else if !access.has_connector {
        Some(format!("there is no connector {connector}"))
    } else if access.is_replaced {
        Some(format!(
            "connector {connector} is another one than when the request was made"
        ))
    } else {
        None
    }
}

/// Why nothing is granted, though a check that says no refuses the request.
fn barred(gating: GatingWord, pod: PodWord) -> Option<&'static str> {
    if gating == GatingWord::Off {
        Some("approvals are switched off: nothing is granted")
    } else if pod == PodWord::Terminating {
        Some(POD_ENDS)
    } else {
        None
    }
}

/// The effect by policies of which it is not known whether they pass.
fn not_known(effect: &AnswerEffect, policies: &[&PolicyShown]) -> AnswerEffect {
    let checks = policies.iter().flat_map(|policy| {
        let open = policy.checks.iter();
        let open = open.filter(|it| it.verdict != Some(AccessCheckReady::AccessCheckPassed));
        open.map(|it| format!("policy {}, check {}: {}", policy.name, it.name, it.message))
    });
    let because: Vec<_> = checks.collect();
    AnswerEffect {
        effect: EffectWord::NotKnown,
        policies: policies.iter().map(|it| it.name.clone()).collect(),
        because: because.join("; "),
        ..effect.clone()
    }
}

fn opened_grant(
    effect: &AnswerEffect,
    access: &ForeseenAccess,
    policy: &PolicyShown,
) -> OpenedGrant {
    let AnswerEffect {
        permission, pod, ..
    } = effect;
    let of_pod = AccessResource::subresource_of_pod(*permission, &pod.namespace, &pod.name);
    let forms = [permission.as_str(), of_pod.as_str()].map(|it| format!("{CONNECTORS}/{it}"));
    let covers = |rule: &RuleShown| {
        let verbs = rule.verbs.iter().map(String::as_str);
        let resources = rule.resources.iter().map(String::as_str);
        covers_mount(verbs, resources, &forms)
    };
    let grant = access.grants.get(&policy.name);
    OpenedGrant {
        policy: policy.name.clone(),
        uid: grant.map(|it| it.uid.clone()).unwrap_or_default(),
        generation: grant.and_then(|it| it.generation),
        covers_mount: policy.rules.iter().any(covers),
        rules: policy.rules.clone(),
        until: grant.map(|it| it.until.clone()).unwrap_or_default(),
    }
}

/// The effect on a granted request that rests on the object with this UID, when the object leaves its passing state.
pub(super) fn of_granted(request: &AccessRequest, uid: &str) -> Option<AnswerEffect> {
    let status = request.status.as_ref()?;
    let is_granting = |it: &&MatchedPolicy| {
        let grant = it.grant.as_ref();
        grant.is_some_and(|it| it.state == GrantState::Granted)
    };
    let granting = || status.policies.iter().filter(is_granting);
    let rests: Vec<_> = granting()
        .filter_map(|it| Some((it, support(it, uid)?)))
        .collect();
    if rests.is_empty() {
        return None;
    }
    let keeps_another = granting().count() > rests.len();
    let is_alone = rests.iter().all(|(_, support)| *support == Support::Alone);
    let names: Vec<_> = rests.iter().map(|(it, _)| it.name().to_owned()).collect();
    let (effect, because) = if keeps_another {
        let because = "another policy grants access too, and keeps it";
        (EffectWord::Keeps, because.to_owned())
    } else if is_alone {
        let because = format!("the grant of policy {} rests on it", names.join(", "));
        (EffectWord::TakesBack, because)
    } else {
        let because = "it stays if another approval of the same check passes";
        (EffectWord::MayTakeBack, because.to_owned())
    };
    let spec = &request.spec;
    let object = &spec.context.object_ref;
    let metadata = &request.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    Some(AnswerEffect {
        effect,
        pod: NamespacedName::new(&object.namespace, &object.name),
        pod_uid: object.uid.clone(),
        account: NamespacedName::new(spec.subject_namespace(), &spec.subject.name),
        connector: NamespacedName::new(namespace, &spec.connector_ref.name),
        permission: spec.permission,
        request: metadata.name.clone(),
        phase: Some(Phase::Granted),
        policies: names,
        because,
        is_by_module: rests.iter().all(|(it, _)| is_by_module(it, uid)),
        grants: Vec::new(),
    })
}

/// How a grant rests on an object, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Support {
    /// It ends with the object's passing state.
    Alone,
    /// Another object of the check may be enough.
    OneOfSeveral,
}

/// How the grant of a policy rests on an object, by the check that needs it most. None if its state does not matter any
/// more.
fn support(policy: &MatchedPolicy, uid: &str) -> Option<Support> {
    let followed = followed(policy, uid).into_iter();
    let supports = followed.map(|it| match it.match_ {
        Match::All => Support::Alone,
        Match::Any => Support::OneOfSeveral,
    });
    supports.min()
}

/// Whether Rego modules alone look at an object for the grant of a policy.
fn is_by_module(policy: &MatchedPolicy, uid: &str) -> bool {
    followed(policy, uid).iter().all(Check::has_module)
}

/// The checks of a grant that look at an object as long as the grant is in force.
fn followed(policy: &MatchedPolicy, uid: &str) -> Vec<Check> {
    let Some(frozen) = policy.frozen() else {
        return Vec::new();
    };
    let finds = |check: &Check| {
        let mut found = policy.check_refs.iter().filter(|it| it.name == check.name);
        found.any(|it| {
            let object = it.ref_.as_ref();
            object.is_some_and(|it| it.uid.as_deref() == Some(uid))
        })
    };
    let checks = frozen.spec.checks.into_iter();
    checks
        .filter(|it| it.latch != Latch::Once && finds(it))
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use connectors_api::Permission;
    use connectors_api::access_policy::ObjectKind;
    use connectors_api::policy_words::PolicyWord;
    use serde_json::json;

    use super::*;
    use crate::explain::foresee::CountedObject;
    use crate::explain::report::{AccessShown, PodShown, RequestShown};

    /// The access of a pod whose request waits, under one policy with this verdict.
    fn access(verdict: AccessCheckReady) -> AccessShown {
        AccessShown {
            connector: NamespacedName::new("tools", "harbor"),
            permission: Permission::Apis,
            state: AccessWord::Waits,
            because: "as read".to_owned(),
            since: None,
            seconds: None,
            request: Some(RequestShown {
                name: "r".to_owned(),
                phase: Some(Phase::Pending),
                reason: None,
                message: String::new(),
                created: None,
            }),
            policies: vec![PolicyShown {
                name: "p".to_owned(),
                applies: PolicyWord::Yes,
                because: String::new(),
                standing: PolicyWord::Absent,
                standing_because: String::new(),
                problem: None,
                grant: None,
                verdict: Some(verdict),
                is_late: false,
                source: None,
                checks: Vec::new(),
                rules: Vec::new(),
            }],
            ends: Vec::new(),
            next: Vec::new(),
        }
    }

    /// A pod for which an answer to the object `u` leads from a wait to this verdict.
    pub(in crate::answer) fn foreseen(verdict: AccessCheckReady) -> Foreseen {
        Foreseen {
            pod: Some(PodShown {
                namespace: "ci".to_owned(),
                name: "p".to_owned(),
                uid: None,
                state: PodWord::Pending,
                gated: false,
            }),
            account: NamespacedName::new("ci", "a"),
            gating: GatingWord::On,
            accesses: vec![ForeseenAccess {
                now: access(AccessCheckReady::AccessCheckPending),
                then: access(verdict),
                counted: vec![CountedObject {
                    kind: ObjectKind {
                        api_version: "v1".to_owned(),
                        kind: "ConfigMap".to_owned(),
                    },
                    resource: "configmaps".to_owned(),
                    name: NamespacedName::new("ci", "o"),
                    uid: "u".to_owned(),
                    policy: "p".to_owned(),
                    check: "c".to_owned(),
                    has_module: false,
                    verdict: AccessCheckReady::AccessCheckPending,
                }],
                grants: BTreeMap::new(),
                has_connector: true,
                is_replaced: false,
            }],
        }
    }

    /// The effects of a yes and of a no after this change.
    fn effects(change: impl Fn(&mut Foreseen)) -> [EffectWord; 2] {
        let verdicts = [
            AccessCheckReady::AccessCheckPassed,
            AccessCheckReady::AccessCheckRejected,
        ];
        verdicts.map(|verdict| {
            let mut foreseen = foreseen(verdict);
            change(&mut foreseen);
            match of_waiting(&foreseen, "u").as_slice() {
                [effect] => effect.effect,
                effects => panic!("{effects:?}"),
            }
        })
    }

    #[test]
    fn a_yes_opens_and_a_no_refuses_where_the_controller_looks_at_the_checks() {
        use EffectWord::{Opens, Refuses, Waits};
        type Change = fn(&mut Foreseen);
        let rows: [(&str, Change, [EffectWord; 2]); 9] = [
            ("nothing else", |_| (), [Opens, Refuses]),
            (
                "no connector",
                |it| it.accesses[0].has_connector = false,
                [Waits; 2],
            ),
            (
                "another connector",
                |it| it.accesses[0].is_replaced = true,
                [Waits; 2],
            ),
            (
                "the pod is over",
                |it| pod(it, PodWord::Finished),
                [Waits; 2],
            ),
            ("the pod is gone", |it| pod(it, PodWord::Gone), [Waits; 2]),
            // A no is recorded also while nothing is granted.
            (
                "the pod goes",
                |it| pod(it, PodWord::Terminating),
                [Waits, Refuses],
            ),
            (
                "switched off",
                |it| it.gating = GatingWord::Off,
                [Waits, Refuses],
            ),
            (
                "switched off, and mounts do not wait",
                |it| {
                    it.gating = GatingWord::Off;
                    it.accesses[0].then.state = AccessWord::NotGated;
                },
                [Waits, Refuses],
            ),
            (
                "switched off, and no request",
                |it| {
                    it.gating = GatingWord::Off;
                    it.accesses[0].now.request = None;
                },
                [Waits; 2],
            ),
        ];
        for (what, change, expected) in rows {
            assert_eq!(effects(change), expected, "{what}");
        }
    }

    fn pod(foreseen: &mut Foreseen, state: PodWord) {
        if let Some(pod) = &mut foreseen.pod {
            pod.state = state;
        }
    }

    /// The policy refuses whatever the answer is, so that a wait for the answer is no success.
    #[test]
    fn no_answer_changes_the_result_of_a_policy_whose_time_to_wait_is_over() {
        let late = |policy: &mut PolicyShown| {
            policy.is_late = true;
            policy.verdict = Some(AccessCheckReady::AccessCheckRejected);
        };
        let alone = effects(|it| it.accesses[0].then.policies.iter_mut().for_each(late));
        assert_eq!(alone, [EffectWord::Waits; 2]);
        let beside_another = effects(|it| {
            let policies = &mut it.accesses[0].then.policies;
            let mut one_more = policies[0].clone();
            one_more.name = "late".to_owned();
            late(&mut one_more);
            policies.push(one_more);
        });
        assert_eq!(beside_another, [EffectWord::Opens, EffectWord::Refuses]);
    }

    /// A granted policy whose checks, each with a latch and a match, rest on the objects with these UIDs.
    fn granted(checks: &[(&str, &str, &str)]) -> MatchedPolicy {
        let check = |(at, (latch, match_, _)): (usize, &(&str, &str, &str))| {
            json!({
                "name": format!("c{at}"), "latch": latch, "match": match_,
                "selector": {"objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}, "labels": {"a": "b"}},
            })
        };
        let found = |(at, (_, _, uid)): (usize, &(&str, &str, &str))| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid});
            json!({"name": format!("c{at}"), "ref": object})
        };
        let all = || checks.iter().enumerate();
        let policy = json!({
            "policy": {"metadata": {"name": "p", "uid": "p-uid"}, "spec": {"checkGrantedPermission": {"spec": {
                "checks": all().map(check).collect::<Vec<_>>(),
                "permissions": {"roleTemplate": {"rules": []}},
            }}}},
            "checkRefs": all().map(found).collect::<Vec<_>>(),
        });
        serde_json::from_value(policy).unwrap()
    }

    #[test]
    fn modules_alone_look_at_an_object_if_each_check_of_it_that_is_followed_has_one() {
        let (with, without, once) = ("Auto", "WhileHolds", "Once");
        for (checks, modules, expected) in [
            (&[(with, "All", "u")][..], &[0][..], true),
            (&[(with, "All", "u")], &[], false),
            (&[(with, "All", "u"), (without, "Any", "u")], &[0], false),
            (&[(with, "All", "u"), (without, "Any", "u")], &[0, 1], true),
            (&[(with, "All", "u"), (without, "Any", "uu")], &[0], true),
            (&[(with, "All", "u"), (once, "Any", "u")], &[0], true),
        ] {
            let mut policy = serde_json::to_value(granted(checks)).unwrap();
            for number in modules {
                let place = "/policy/spec/checkGrantedPermission/spec/checks";
                policy.pointer_mut(place).unwrap()[*number]["state"] =
                    json!({"rego": "package approval"});
            }
            let policy = serde_json::from_value(policy).unwrap();
            assert_eq!(
                is_by_module(&policy, "u"),
                expected,
                "{checks:?} {modules:?}"
            );
        }
    }

    #[test]
    fn a_grant_rests_on_an_object_as_the_check_says_that_needs_it_most() {
        let once = ("Once", "All", "u");
        let all = ("Auto", "All", "u");
        let any = ("WhileHolds", "Any", "u");
        let other = ("Auto", "All", "uu");
        for (checks, expected) in [
            (&[][..], None),
            (&[once], None),
            (&[other], None),
            (&[all], Some(Support::Alone)),
            (&[any], Some(Support::OneOfSeveral)),
            (&[once, all], Some(Support::Alone)),
            (&[all, once], Some(Support::Alone)),
            (&[any, all], Some(Support::Alone)),
            (&[other, once, any], Some(Support::OneOfSeveral)),
        ] {
            assert_eq!(support(&granted(checks), "u"), expected, "{checks:?}");
        }
    }

    /// The state of a grant, and the checks behind it: latch, match and object of each.
    type GrantOf<'a> = (&'a str, &'a [(&'a str, &'a str, &'a str)]);

    /// The word and the policies of a no to the object `u`, for a granted request with these policies: each with the
    /// state of its grant and the objects of its checks.
    fn taken(policies: &[GrantOf<'_>]) -> Option<(EffectWord, Vec<String>)> {
        let policies = policies.iter().enumerate().map(|(at, (state, checks))| {
            let mut policy = serde_json::to_value(granted(checks)).unwrap();
            policy["policy"]["metadata"]["name"] = format!("p{at}").into();
            policy["policy"]["metadata"]["uid"] = format!("uid-{at}").into();
            if !state.is_empty() {
                policy["grant"] = json!({"state": state});
            }
            policy
        });
        let mut request = crate::testing::request("r", "ci");
        request["status"] = json!({"phase": "Granted", "policies": policies.collect::<Vec<_>>()});
        let request: AccessRequest = serde_json::from_value(request).unwrap();
        let effect = of_granted(&request, "u")?;
        let identity = (
            effect.pod.to_string(),
            effect.account.to_string(),
            effect.connector.to_string(),
            effect.request.as_deref(),
            effect.phase,
        );
        let expected = (
            "ci/p".to_owned(),
            "ci/a".to_owned(),
            "tools/harbor".to_owned(),
            Some("r"),
            Some(Phase::Granted),
        );
        assert_eq!(identity, expected);
        assert_eq!(effect.pod_uid.as_deref(), Some("u"));
        Some((effect.effect, effect.policies))
    }

    #[test]
    fn a_no_takes_back_what_rests_on_the_object_unless_another_grant_stays() {
        use EffectWord::{Keeps, MayTakeBack, TakesBack};
        let alone: &[(&str, &str, &str)] = &[("Auto", "All", "u")];
        let one_of_several: &[(&str, &str, &str)] = &[("Auto", "Any", "u")];
        let once: &[(&str, &str, &str)] = &[("Once", "All", "u")];
        let other: &[(&str, &str, &str)] = &[("Auto", "All", "u2")];
        let granted = "Granted";
        for (policies, expected) in [
            (&[][..], None),
            (&[(granted, alone)], Some((TakesBack, &[0][..]))),
            (&[(granted, one_of_several)], Some((MayTakeBack, &[0]))),
            (&[(granted, once)], None),
            (&[(granted, other)], None),
            // Only grants in force count: on both sides.
            (&[("Ended", alone)], None),
            (&[("", alone)], None),
            (
                &[(granted, alone), ("Ended", other)],
                Some((TakesBack, &[0])),
            ),
            (&[(granted, alone), ("", other)], Some((TakesBack, &[0]))),
            (&[(granted, alone), (granted, other)], Some((Keeps, &[0]))),
            (&[(granted, other), (granted, alone)], Some((Keeps, &[1]))),
            (&[(granted, once), (granted, alone)], Some((Keeps, &[1]))),
            (
                &[(granted, alone), (granted, alone)],
                Some((TakesBack, &[0, 1])),
            ),
            (
                &[(granted, alone), (granted, one_of_several)],
                Some((MayTakeBack, &[0, 1])),
            ),
        ] {
            let names = |it: &[usize]| it.iter().map(|at| format!("p{at}")).collect::<Vec<_>>();
            let expected = expected.map(|(word, it)| (word, names(it)));
            assert_eq!(taken(policies), expected, "{policies:?}");
        }
    }

    /// The objects of an access that an answer to another object says nothing of.
    #[test]
    fn only_accesses_whose_checks_find_the_object_are_touched() {
        for uid in ["", "U", "u2", "uu"] {
            let foreseen = foreseen(AccessCheckReady::AccessCheckPassed);
            assert_eq!(of_waiting(&foreseen, uid), [], "{uid}");
        }
        let mut two = foreseen(AccessCheckReady::AccessCheckPassed);
        let mut second = two.accesses[0].clone();
        second.now.connector = NamespacedName::new("tools", "git");
        two.accesses.push(second.clone());
        second.counted[0].uid = "u2".to_owned();
        second.now.connector = NamespacedName::new("tools", "npm");
        two.accesses.push(second);
        let effects = of_waiting(&two, "u");
        let connectors: Vec<_> = effects
            .iter()
            .map(|it| it.connector.name.as_str())
            .collect();
        assert_eq!(connectors, ["harbor", "git"]);
        assert!(effects.iter().all(|it| it.effect == EffectWord::Opens));
    }
}
