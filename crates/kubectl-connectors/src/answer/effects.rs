//! The effects of an answer. Pure.

use connectors_api::AccessRequest;
use connectors_api::access_policy::{Latch, Match};
use connectors_api::access_request::{CheckRef, GrantState, MatchedPolicy, Phase};

use super::{AnswerEffect, EffectWord};
use crate::explain::foresee::{Foreseen, ForeseenAccess};
use crate::explain::report::{AccessWord, GatingWord};
use crate::terms::NamespacedName;

/// The effects on the accesses of a pod whose checks find the object with this UID.
pub(super) fn of_waiting(foreseen: &Foreseen, uid: &str) -> Vec<AnswerEffect> {
    let touched = foreseen
        .accesses
        .iter()
        .filter(|it| it.counted.iter().any(|it| it.uid == uid));
    touched
        .filter_map(|it| of_access(foreseen, it, uid))
        .collect()
}

fn of_access(foreseen: &Foreseen, access: &ForeseenAccess, uid: &str) -> Option<AnswerEffect> {
    let pod = foreseen.pod.as_ref()?;
    let ForeseenAccess { now, then, .. } = access;
    let finds = access.counted.iter().filter(|it| it.uid == uid);
    let mut policies: Vec<_> = finds.map(|it| it.policy.clone()).collect();
    policies.dedup();
    let request = now.request.as_ref();
    let mut effect = AnswerEffect {
        effect: EffectWord::Waits,
        pod: NamespacedName::new(&pod.namespace, &pod.name),
        account: foreseen.account.clone(),
        connector: now.connector.clone(),
        permission: now.permission,
        request: request.map(|it| it.name.clone()),
        phase: request.and_then(|it| it.phase),
        policies,
        because: then.because.clone(),
        rules: Vec::new(),
        until: Vec::new(),
    };
    let opened = access.opened_by();
    if foreseen.gating == GatingWord::Off {
        "approvals are switched off: nothing is granted".clone_into(&mut effect.because);
    } else if !access.has_connector {
        effect.because = format!("there is no connector {}", now.connector);
    } else if !matches!(then.state, AccessWord::Waits | AccessWord::Unknown) {
        effect.because.clone_from(&then.because);
    } else if let Some(policy) = opened {
        effect.effect = EffectWord::Opens;
        effect.because = format!("every check of policy {policy} passes");
        let mut shown = then.policies.iter();
        let shown = shown.find(|it| it.name == policy);
        effect.rules = shown.map(|it| it.rules.clone()).unwrap_or_default();
        effect.until = access.until.get(policy).cloned().unwrap_or_default();
    } else if access.is_refused() {
        effect.effect = EffectWord::Refuses;
        "no policy can pass any more".clone_into(&mut effect.because);
    }
    Some(effect)
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
        account: NamespacedName::new(spec.subject_namespace(), &spec.subject.name),
        connector: NamespacedName::new(namespace, &spec.connector_ref.name),
        permission: spec.permission,
        request: metadata.name.clone(),
        phase: Some(Phase::Granted),
        policies: names,
        because,
        rules: Vec::new(),
        until: Vec::new(),
    })
}

/// How a grant rests on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Support {
    /// It ends with the object's passing state.
    Alone,
    /// Another object of the check may be enough.
    OneOfSeveral,
}

/// How the grant of a policy rests on an object. None if its state does not matter any more.
fn support(policy: &MatchedPolicy, uid: &str) -> Option<Support> {
    let is_it = |it: &&CheckRef| {
        let object = it.ref_.as_ref();
        object.is_some_and(|it| it.uid.as_deref() == Some(uid))
    };
    let found = policy.check_refs.iter().find(is_it)?;
    let frozen = policy.frozen()?;
    let check = frozen.spec.checks.iter().find(|it| it.name == found.name)?;
    if check.latch == Latch::Once {
        return None;
    }
    Some(match check.match_ {
        Match::All => Support::Alone,
        Match::Any => Support::OneOfSeveral,
    })
}
