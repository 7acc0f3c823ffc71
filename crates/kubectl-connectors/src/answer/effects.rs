//! The effects of an answer. Pure.

use connectors_api::access_policy::{Latch, Match};
use connectors_api::access_request::{CheckRef, GrantState, MatchedPolicy, Phase};
use connectors_api::names::CONNECTORS;
use connectors_api::reason::AccessCheckReady;
use connectors_api::{AccessRequest, AccessResource};

use super::{AnswerEffect, EffectWord, OpenedGrant};
use crate::explain::foresee::{Foreseen, ForeseenAccess};
use crate::explain::report::{AccessWord, GatingWord, PodWord, PolicyShown, RuleShown};
use crate::policy_test::compare::covers_mount;
use crate::terms::NamespacedName;

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
    let mut unknown = None;
    if foreseen.gating == GatingWord::Off {
        "approvals are switched off: nothing is granted".clone_into(&mut effect.because);
    } else if !access.has_connector {
        effect.because = format!("there is no connector {}", now.connector);
    } else if matches!(
        pod.state,
        PodWord::Finished | PodWord::Terminating | PodWord::Gone
    ) {
        "the pod ends, and gets nothing more".clone_into(&mut effect.because);
    } else if !matches!(then.state, AccessWord::Waits | AccessWord::Unknown) && !is_granted {
        effect.because.clone_from(&then.because);
    } else {
        if !doubtful.is_empty() {
            unknown = Some(not_known(&effect, &doubtful));
        }
        if !opened.is_empty() {
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
        } else if access.is_refused() {
            effect.effect = EffectWord::Refuses;
            "no policy can pass any more".clone_into(&mut effect.because);
        } else if let Some(unknown) = unknown {
            return vec![unknown];
        }
    }
    std::iter::once(effect).chain(unknown).collect()
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
        is_by_module: false,
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
    let checks = &policy.frozen()?.spec.checks;
    let is_it = |it: &&CheckRef| {
        let object = it.ref_.as_ref();
        object.is_some_and(|it| it.uid.as_deref() == Some(uid))
    };
    let found = policy.check_refs.iter().filter(is_it);
    let checks = found.filter_map(|found| checks.iter().find(|it| it.name == found.name));
    let followed = checks.filter(|it| it.latch != Latch::Once);
    let supports = followed.map(|it| match it.match_ {
        Match::All => Support::Alone,
        Match::Any => Support::OneOfSeveral,
    });
    supports.min()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
}
