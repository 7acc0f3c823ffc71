//! The access of a pod now, and as it would be if an object that its checks find had other fields. The same judge
//! answers both.

use std::collections::BTreeMap;

use connectors_api::access_policy::ObjectKind;
use connectors_api::check_selector::CompiledPolicy;
use connectors_api::policy_words::PolicyWord;
use connectors_api::reason::AccessCheckReady;
use connectors_api::wanted_objects::CheckTrouble;
use jiff::Timestamp;
use serde_json::Value;

use super::checks::{NOT_RUN, UNREAD};
use super::collect::{self, Asked, CheckLook, WriterSearch};
use super::report::{AccessShown, CheckShown, EndShown, GatingWord, PodShown, PolicyShown};
use super::seen::{AccessRead, CandidateRead, CheckProblem, CheckRead, Observed, PolicyRead, text};
use super::{ExplainError, WaitTarget, ends, of_waiting, tell};
use crate::modules::Modules;
use crate::reads::ClusterReads;
use crate::terms::NamespacedName;
use crate::unread::{MissedRead, Presence};

/// The object with other fields; none for an object that stays as it is.
pub type CandidateChange<'a> = dyn Fn(&Value) -> Option<Value> + 'a;

/// A pod with its accesses, now and afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreseen {
    /// The pod.
    pub pod: Option<PodShown>,
    /// The account that asks.
    pub account: NamespacedName,
    /// Whether mounts wait for access.
    pub gating: GatingWord,
    /// The access to each connector.
    pub accesses: Vec<ForeseenAccess>,
}

/// The access to one connector, now and afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeseenAccess {
    /// The access now.
    pub now: AccessShown,
    /// The access afterwards.
    pub then: AccessShown,
    /// The objects that the checks of the policies that apply find.
    pub counted: Vec<CountedObject>,
    /// The grants that policies would make, by the name of the policy.
    pub grants: BTreeMap<String, FutureGrant>,
    /// False if it is known that there is no connector of this name.
    pub has_connector: bool,
    /// The connector is another one than when the request was made. Nothing is granted.
    pub is_replaced: bool,
}

/// A grant that a policy would make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FutureGrant {
    /// The UID of the policy.
    pub uid: String,
    /// The generation of the policy.
    pub generation: Option<i64>,
    /// The ends of the grant.
    pub until: Vec<EndShown>,
}

/// An object that a check of an access finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedObject {
    /// The kind.
    pub kind: ObjectKind,
    /// The kind as RBAC names it: plural, dot, group. The name of the kind if it is not known.
    pub resource: String,
    /// Namespace and name.
    pub name: NamespacedName,
    /// The UID.
    pub uid: String,
    /// The policy.
    pub policy: String,
    /// The check.
    pub check: String,
    /// A Rego module decides, and not its state.
    pub has_module: bool,
    /// The result of the object.
    pub verdict: AccessCheckReady,
}

/// The accesses of a pod or a request, now and if the objects of its checks were changed. `known` is an object that was
/// read before.
pub async fn foresee(
    reads: &ClusterReads,
    modules: &Modules,
    waiting: &WaitTarget,
    system_namespace: &str,
    now: Timestamp,
    known: Option<&Value>,
    change: &CandidateChange<'_>,
) -> Result<(Foreseen, Vec<MissedRead>), ExplainError> {
    let mut observed = of_waiting(reads, system_namespace, waiting).await?;
    let reader = collect::reader(system_namespace);
    let look = CheckLook {
        known,
        is_granted_too: true,
        writers: WriterSearch::LeftOut,
        reader: Some(&reader),
    };
    Box::pin(collect::judge_these(reads, modules, &mut observed, look)).await;
    let before = tell::explain(&observed, now);
    let mut counted: Vec<_> = observed
        .accesses
        .iter()
        .map(|it| self::counted(&observed, it, known))
        .collect();
    judge_again(modules, &mut observed, known, change).await;
    // An object may be selected by a field that changes.
    for (found, access) in counted.iter_mut().zip(&observed.accesses) {
        let is_new = |it: &CountedObject| {
            let mut known = found.iter();
            let is_it = |known: &CountedObject| {
                (&known.uid, &known.policy, &known.check) == (&it.uid, &it.policy, &it.check)
            };
            !known.any(is_it)
        };
        let mut afterwards = self::counted(&observed, access, known);
        afterwards.retain(is_new);
        found.extend(afterwards);
    }
    let after = tell::explain(&observed, now);
    let both = before.accesses.into_iter().zip(after.accesses);
    let looked_at = observed.accesses.iter().zip(counted);
    let accesses = both
        .zip(looked_at)
        .map(|((now_shown, then), (read, counted))| {
            let policies = read.policies.iter().flatten();
            let policies = policies.filter(|it| it.judged.is_some());
            ForeseenAccess {
                now: now_shown,
                then,
                counted,
                grants: policies
                    .map(|it| (it.name.clone(), future_grant(it, now)))
                    .collect(),
                has_connector: read.labels != Presence::Absent,
                is_replaced: read.is_replaced,
            }
        });
    let foreseen = Foreseen {
        accesses: accesses.collect(),
        pod: before.pod,
        account: before.account,
        gating: before.gating,
    };
    Ok((foreseen, observed.unread))
}

fn future_grant(policy: &PolicyRead, now: Timestamp) -> FutureGrant {
    let read = policy.policy.as_ref().ok();
    FutureGrant {
        uid: policy.uid.clone(),
        generation: read.and_then(|it| it.metadata.generation),
        until: ends::of_future_grant(policy, now),
    }
}

/// The objects of the checks that were judged. A check of a kind that the request-controller may not read has the object
/// that was read before, which does not count.
fn counted(observed: &Observed, access: &AccessRead, known: Option<&Value>) -> Vec<CountedObject> {
    let kinds = &observed.kinds;
    let pod = observed.pod.as_ref().and_then(|it| it.object.as_ref());
    let namespace = pod.and_then(|it| text(it, "/metadata/namespace"));
    let hidden = known.zip(namespace);
    let mut found = Vec::new();
    for policy in access.policies.iter().flatten() {
        let Some(judged) = &policy.judged else {
            continue;
        };
        if let Some((known, namespace)) = hidden {
            let forbidden = judged.checks.iter().filter(|it| is_forbidden(it));
            let hiding = forbidden.filter(|it| collect::is_found(known, &it.wanted, namespace));
            found.extend(hiding.map(|check| uncounted(policy, check, known)));
        }
        let Ok(judgement) = &judged.judgement else {
            for check in &judged.checks {
                let objects = check.found.iter().flatten();
                found.extend(objects.map(|it| uncounted(policy, check, &it.object)));
            }
            continue;
        };
        for (check, said) in judged.checks.iter().zip(&judgement.checks) {
            let kind = &check.wanted.kind;
            let resource = kinds.get(kind).map(|it| it.resource.clone());
            found.extend(said.objects.iter().map(|it| CountedObject {
                kind: kind.clone(),
                resource: resource.clone().unwrap_or_else(|| kind.kind.clone()),
                name: NamespacedName::new(&it.object.namespace, &it.object.name),
                uid: it.object.uid.clone(),
                policy: policy.name.clone(),
                check: said.check.clone(),
                has_module: check.has_module,
                verdict: it.verdict,
            }));
        }
    }
    found
}

/// True when the request-controller may not read the kind of the check.
fn is_forbidden(check: &CheckRead) -> bool {
    matches!(
        check.found,
        Err(CheckProblem::Trouble(CheckTrouble::KindForbidden, _))
    )
}

/// An object of a check that was not judged.
fn uncounted(policy: &PolicyRead, check: &CheckRead, object: &Value) -> CountedObject {
    let field = |pointer: &str| text(object, pointer).unwrap_or_default();
    CountedObject {
        kind: check.wanted.kind.clone(),
        resource: check.wanted.kind.kind.clone(),
        name: NamespacedName::new(field("/metadata/namespace"), field("/metadata/name")),
        uid: field("/metadata/uid").to_owned(),
        policy: policy.name.clone(),
        check: check.wanted.check.clone(),
        has_module: check.has_module,
        verdict: AccessCheckReady::AccessCheckFailed,
    }
}

/// Judges with changed objects.
async fn judge_again(
    modules: &Modules,
    observed: &mut Observed,
    known: Option<&Value>,
    change: &CandidateChange<'_>,
) {
    let known = known.and_then(|it| Some((it, change(it)?)));
    let Some(pod) = observed.pod.as_ref().and_then(|it| it.object.clone()) else {
        return;
    };
    let shared = observed.settings.as_ref().map(|it| it.shared().clone());
    let shared = shared.unwrap_or_default();
    let namespace = text(&pod, "/metadata/namespace")
        .unwrap_or_default()
        .to_owned();
    for access in &mut observed.accesses {
        let connector = access.connector.name.clone();
        for read in access.policies.iter_mut().flatten() {
            let PolicyRead { policy, judged, .. } = read;
            let (Ok(policy), Some(judged)) = (policy, judged) else {
                continue;
            };
            let mut is_changed = false;
            for check in &mut judged.checks {
                let wanted = &check.wanted;
                let fields = wanted.selection.as_ref().ok();
                let fields = fields.and_then(|it| it.fields.as_ref());
                let Ok(found) = &mut check.found else {
                    continue;
                };
                if let Some((before, after)) = &known
                    && let Some(uid) = text(before, "/metadata/uid")
                    && !found.iter().any(|it| has_uid(&it.object, uid))
                    && collect::is_found(after, wanted, &namespace)
                {
                    found.push(CandidateRead {
                        object: after.clone(),
                        links: Vec::new(),
                        writers: None,
                    });
                    is_changed = true;
                }
                for candidate in found.iter_mut() {
                    if let Some(changed) = change(&candidate.object) {
                        candidate.object = changed;
                        is_changed = true;
                    }
                }
                found.retain(|it| fields.is_none_or(|fields| fields.matches(&it.object)));
            }
            if !is_changed {
                continue;
            }
            let asked = Asked {
                pod: &pod,
                connector: connector.clone(),
                shared: &shared,
                lineage: judged.lineage.clone(),
                creators_since: judged.creators_since,
            };
            let compiled = CompiledPolicy::of(policy.as_ref().clone(), None);
            let question = asked.question(policy, &compiled, &judged.checks);
            judged.judgement = collect::judge(modules, question).await;
        }
    }
}

/// True for the object with this UID.
#[must_use]
pub fn has_uid(object: &Value, uid: &str) -> bool {
    text(object, "/metadata/uid") == Some(uid)
}

impl ForeseenAccess {
    /// The policies that pass afterwards and do not now.
    #[must_use]
    pub fn opened_by(&self) -> Vec<&PolicyShown> {
        let passes = |of: &AccessShown, name: &str| {
            let mut policies = of.policies.iter();
            policies.any(|it| {
                it.name == name
                    && it.applies == PolicyWord::Yes
                    && it.grant.is_none()
                    && it.verdict == Some(AccessCheckReady::AccessCheckPassed)
            })
        };
        let policies = self.then.policies.iter();
        policies
            .filter(|it| passes(&self.then, &it.name) && !passes(&self.now, &it.name))
            .collect()
    }

    /// The policies that find the object with this UID, and of which it is not known whether they pass afterwards.
    #[must_use]
    pub fn doubtful(&self, uid: &str) -> Vec<&PolicyShown> {
        let finds = |policy: &PolicyShown| {
            let mut counted = self.counted.iter();
            counted.any(|it| it.uid == uid && it.policy == policy.name)
        };
        let policies = self.then.policies.iter();
        policies
            .filter(|it| it.is_awaited() && finds(it) && is_doubtful(it))
            .collect()
    }

    /// True when every policy that applies says no afterwards.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        let open = || self.undecided();
        open().next().is_some()
            && open().all(|it| it.verdict == Some(AccessCheckReady::AccessCheckRejected))
    }

    /// True when the time to wait is over of every policy that applies, so that no answer changes the result.
    #[must_use]
    pub fn is_late(&self) -> bool {
        let open = || self.undecided();
        open().next().is_some() && open().all(|it| it.is_late)
    }

    /// The policies that apply and have not decided.
    fn undecided(&self) -> impl Iterator<Item = &PolicyShown> {
        let all = self.then.policies.iter();
        all.filter(|it| it.applies == PolicyWord::Yes && it.grant.is_none())
    }
}

/// True when a check of the policy is not known, and each other one passes.
fn is_doubtful(policy: &PolicyShown) -> bool {
    let is_unknown = |it: &CheckShown| {
        it.verdict.is_none()
            || [UNREAD, NOT_RUN, CheckTrouble::ObjectUnreadable.as_str()]
                .contains(&it.reason.as_str())
    };
    let passes = |it: &CheckShown| it.verdict == Some(AccessCheckReady::AccessCheckPassed);
    policy.checks.iter().any(is_unknown)
        && policy.checks.iter().all(|it| passes(it) || is_unknown(it))
}
