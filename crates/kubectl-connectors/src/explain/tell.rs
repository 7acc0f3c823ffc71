//! Converts what was read into an explanation. Pure: the time is an argument.

use std::collections::BTreeSet;

use connectors_api::access_request::{MatchedPolicy, Phase, PolicyGrant};
use connectors_api::config::{DefaultRequesters, Knowledge};
use connectors_api::pod_grant::RequestFacts as _;
use connectors_api::policy_match::{Asker, WantedConnector};
use connectors_api::policy_words::{CountedPolicy, PolicySight, PolicyWord, PolicyWordTold};
use connectors_api::reason::AccessCheckReady;
use connectors_api::{
    AccessPolicyCondition, AccessPolicySpec, AccessRequest, ConditionStatus, NamespaceKeys,
};
use jiff::Timestamp;

use super::checks;
use super::ends;
use super::force;
use super::next;
use super::report::{
    AccessShown, AccessWord, Explanation, GrantShown, PodShown, PolicyShown, RequestShown,
    RuleShown, VerdictSource,
};
use super::seen::{AccessRead, Labels, Observed, PodRead, PolicyRead, text};
use super::state;
use crate::request_word::ready;
use crate::terms::{NamespacedName, seconds};

/// The explanation, at this time.
#[must_use]
pub(super) fn explain(observed: &Observed, now: Timestamp) -> Explanation {
    let accesses = observed.accesses.iter();
    Explanation {
        pod: observed.pod.as_ref().map(pod),
        account: observed.account.clone(),
        gating: observed.gating(),
        accesses: accesses.map(|it| access(observed, it, now)).collect(),
        problems: observed.problems.clone(),
    }
}

/// The policies whose checks are worth reading, as positions of access and policy. They apply, and neither they nor
/// the request have decided. The controller grants a granted request by further policies too.
#[must_use]
pub(super) fn to_judge(observed: &Observed, is_granted_too: bool) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (place, access) in observed.accesses.iter().enumerate() {
        let is_open = access
            .request
            .there()
            .is_none_or(|it| is_open(it, is_granted_too));
        let stands = access.standing.as_ref().is_some_and(|(yes, _)| *yes);
        if !is_open || stands {
            continue;
        }
        let words = words(observed, access);
        let policies = access.policies.iter().flatten().enumerate();
        for ((at, policy), (_, checked)) in policies.zip(words) {
            let grant = matched(access, &policy.uid).and_then(|it| settled(access, it));
            if checked.word == PolicyWord::Yes && grant.is_none() {
                found.push((place, at));
            }
        }
    }
    found
}

/// True when policies may still decide on the request. The controller leaves one alone that is being deleted.
fn is_open(request: &AccessRequest, is_granted_too: bool) -> bool {
    if request.is_deleting() {
        return false;
    }
    match request.phase() {
        None | Some(Phase::Pending) => true,
        Some(Phase::Granted) => is_granted_too,
        Some(Phase::Rejected | Phase::Revoked | Phase::Invalid | Phase::Ended) => false,
    }
}

/// The request's record of a policy.
fn matched<'a>(access: &'a AccessRead, uid: &str) -> Option<&'a MatchedPolicy> {
    let request = access.request.there()?;
    let policies = request.status.iter().flat_map(|it| &it.policies);
    policies.into_iter().find(|it| it.uid() == uid)
}

/// The policy's result for the request. The controller decides anew on a grant that never was in force.
fn settled<'a>(access: &AccessRead, matched: &'a MatchedPolicy) -> Option<&'a PolicyGrant> {
    let status = access.request.there()?.status.as_ref()?;
    let grant = matched.grant.as_ref();
    grant.filter(|_| status.is_settled(matched))
}

fn pod(pod: &PodRead) -> PodShown {
    PodShown {
        namespace: pod.name.namespace.clone(),
        name: pod.name.name.clone(),
        uid: pod.uid.clone(),
        state: pod.word(),
        gated: pod.is_gated(),
    }
}

/// Each policy's results for the account and the connector: its standing permission, and its permission under checks.
fn words(observed: &Observed, access: &AccessRead) -> Vec<(PolicyWordTold, PolicyWordTold)> {
    let no_labels = Labels::new();
    let no_keys = NamespaceKeys::default();
    let settings = observed.settings.as_ref();
    let labels = access.labels.there();
    let sight = PolicySight {
        namespace: &access.connector.namespace,
        wanted: WantedConnector {
            connector: &access.connector.name,
            labels: labels.unwrap_or(&no_labels),
            permission: access.permission,
        },
        asker: Asker {
            namespace: &observed.account.namespace,
            name: &observed.account.name,
            labels: observed.account_labels.as_ref(),
            namespace_labels: observed.namespace_labels.as_ref(),
        },
        default: settings.map_or(DefaultRequesters::Namespace, Knowledge::default_requesters),
        keys: settings.map_or(&no_keys, |it| it.namespace_keys()),
    };
    let policies = || access.policies.iter().flatten();
    let left_out = sight.left_out(policies().filter_map(counted));
    policies()
        .map(|policy| match &policy.policy {
            _ if policy.is_going => (PolicyWordTold::going(), PolicyWordTold::going()),
            Err(problem) => {
                let told = || PolicyWordTold::new(PolicyWord::Unreadable, problem.clone());
                (told(), told())
            }
            Ok(read) => {
                let counts = !left_out.contains(policy.name.as_str());
                (
                    sight.standing(&read.spec),
                    sight.checked(&read.spec, counts),
                )
            }
        })
        .collect()
}

fn counted(policy: &PolicyRead) -> Option<CountedPolicy<'_>> {
    let spec: &AccessPolicySpec = &policy.policy.as_ref().ok()?.spec;
    (!policy.is_going).then_some(CountedPolicy {
        name: &policy.name,
        created: policy.created,
        spec,
    })
}

fn access(observed: &Observed, access: &AccessRead, now: Timestamp) -> AccessShown {
    let mut policies = policies(observed, access);
    refuse_late(&mut policies, access, now);
    let request = access.request.there().map(Box::as_ref);
    let force = request
        .filter(|it| it.phase() == Some(Phase::Granted))
        .map(|it| {
            let pod = observed.pod.as_ref().map_or("", |it| &it.name.name);
            force::of(access.grant.as_ref(), it, pod, now)
        });
    let (state, because) = state::of(observed, access, &policies, force);
    let since = since(observed, request, state);
    let mut shown = AccessShown {
        connector: NamespacedName::new(&access.connector.namespace, &access.connector.name),
        permission: access.permission,
        state,
        because,
        since,
        seconds: since.map(|since| seconds(since, now)),
        request: request.map(self::request),
        policies,
        ends: Vec::new(),
        next: Vec::new(),
    };
    shown.ends = ends::of(access, &shown);
    shown.next = next::of(observed, access, &shown, force);
    shown
}

/// Since when the state holds: a wait begins with the request, or with the pod if there is none.
fn since(
    observed: &Observed,
    request: Option<&AccessRequest>,
    state: AccessWord,
) -> Option<Timestamp> {
    let created = |request: &AccessRequest| {
        let created = request.metadata.creation_timestamp.as_ref();
        created.map(|it| it.0)
    };
    let of_pod = || {
        let object = observed.pod.as_ref()?.object.as_ref()?;
        text(object, "/metadata/creationTimestamp")?.parse().ok()
    };
    let status = request.and_then(|it| it.status.as_ref());
    match state {
        AccessWord::Granted => status?.granted_at,
        AccessWord::Refused | AccessWord::Ended => status?.ended_at,
        AccessWord::Waits => request.and_then(created).or_else(of_pod),
        AccessWord::Standing
        | AccessWord::NotInForce
        | AccessWord::NotGated
        | AccessWord::Kept
        | AccessWord::CouldAsk
        | AccessWord::CannotAsk
        | AccessWord::Unknown => None,
    }
}

fn request(request: &AccessRequest) -> RequestShown {
    let ready = ready(request);
    RequestShown {
        name: request.metadata.name.clone().unwrap_or_default(),
        phase: request.phase(),
        reason: ready.and_then(|(word, _)| word),
        message: ready.map_or_else(String::new, |(_, message)| message.to_owned()),
        created: request.metadata.creation_timestamp.as_ref().map(|it| it.0),
    }
}

/// Those that apply come first, then those that were matched before, then the others.
fn policies(observed: &Observed, access: &AccessRead) -> Vec<PolicyShown> {
    let words = words(observed, access);
    let read = access.policies.iter().flatten();
    let mut shown: Vec<PolicyShown> = read
        .zip(words)
        .map(|(policy, words)| of_policy(observed, access, policy, words))
        .collect();
    let known: BTreeSet<&str> = access
        .policies
        .iter()
        .flatten()
        .map(|it| it.uid.as_str())
        .collect();
    if access.policies.is_some() {
        let request = access.request.there().map(Box::as_ref);
        let status = request.and_then(|it| it.status.as_ref());
        let matched = status.into_iter().flat_map(|it| &it.policies);
        let gone = matched.filter(|it| !known.contains(it.uid()));
        shown.extend(gone.map(|it| of_matched(access, it)));
    } else {
        // Without the right to list policies, the status of the request names those that matched.
        let request = access.request.there().map(Box::as_ref);
        let status = request.and_then(|it| it.status.as_ref());
        let matched = status.into_iter().flat_map(|it| &it.policies);
        shown.extend(matched.map(|it| PolicyShown {
            applies: PolicyWord::Yes,
            because: "the request says so; the policy itself could not be read".to_owned(),
            ..of_matched(access, it)
        }));
    }
    shown.sort_by_key(|it| (it.applies != PolicyWord::Yes, it.grant.is_none()));
    shown
}

fn of_policy(
    observed: &Observed,
    access: &AccessRead,
    policy: &PolicyRead,
    (standing, checked): (PolicyWordTold, PolicyWordTold),
) -> PolicyShown {
    let matched = matched(access, &policy.uid);
    let grant = matched.and_then(|it| settled(access, it));
    let mut shown = PolicyShown {
        name: policy.name.clone(),
        applies: checked.word,
        because: checked.message,
        standing: standing.word,
        standing_because: standing.message,
        problem: checks_invalid(policy),
        grant: grant.map(grant_shown),
        verdict: None,
        is_late: false,
        source: None,
        checks: Vec::new(),
        rules: grant.map(granted_rules).unwrap_or_default(),
    };
    if let Some(judged) = &policy.judged {
        let spec = policy.policy.as_ref().ok().map(|it| &it.spec);
        let (verdict, mut checks) = checks::judged(observed, judged, spec);
        if let Some(matched) = matched {
            checks::fill(&mut checks, matched);
        }
        shown.verdict = verdict;
        match checks::rules(judged).filter(|_| verdict == Some(AccessCheckReady::AccessCheckPassed))
        {
            Some(Ok(rules)) => shown.rules = rules,
            // The controller grants nothing in this case.
            Some(Err(problem)) => {
                shown.verdict = Some(AccessCheckReady::AccessCheckFailed);
                shown.problem = Some(problem);
            }
            None => {}
        }
        shown.source = Some(VerdictSource::Live);
        shown.checks = checks;
    } else if let Some(matched) = matched {
        shown.source = Some(VerdictSource::Status);
        shown.checks = checks::recorded(matched);
    }
    shown
}

/// The policy-controller's message about checks that it could not judge.
fn checks_invalid(policy: &PolicyRead) -> Option<String> {
    let policy = policy.policy.as_ref().ok()?;
    let mut conditions = policy.status.iter().flat_map(|it| &it.conditions);
    let valid = conditions.find(|it| it.type_ == AccessPolicyCondition::ChecksValid)?;
    let is_false = valid.status == ConditionStatus::False;
    is_false.then(|| format!("{}: {}", valid.reason, valid.message))
}

/// A policy of which only the status of the request is known.
fn of_matched(access: &AccessRead, matched: &MatchedPolicy) -> PolicyShown {
    let gone = PolicyWordTold::gone();
    let grant = settled(access, matched);
    PolicyShown {
        name: matched.name().to_owned(),
        applies: gone.word,
        because: gone.message.clone(),
        standing: gone.word,
        standing_because: gone.message,
        problem: None,
        grant: grant.map(grant_shown),
        verdict: None,
        is_late: false,
        source: Some(VerdictSource::Status),
        checks: checks::recorded(matched),
        rules: grant.map(granted_rules).unwrap_or_default(),
    }
}

fn granted_rules(grant: &PolicyGrant) -> Vec<RuleShown> {
    let rules = grant.rules.iter();
    rules
        .map(|it| RuleShown {
            resources: it.resources.clone(),
            verbs: it.verbs.clone(),
        })
        .collect()
}

fn grant_shown(grant: &PolicyGrant) -> GrantShown {
    GrantShown {
        state: grant.state,
        reason: grant.reason,
        granted: grant.granted_at,
        expires: grant.expires_at,
        ended: grant.ended_at,
    }
}

/// Policies whose time to wait is over refuse an open request, whatever their checks say.
fn refuse_late(policies: &mut [PolicyShown], read: &AccessRead, now: Timestamp) {
    let request = read.request.there().filter(|it| is_open(it, true));
    let Some(created) = request.and_then(|it| it.metadata.creation_timestamp.clone()) else {
        return;
    };
    for policy in read.policies.iter().flatten() {
        let limits = policy.granted_part().and_then(|it| it.spec.limits.as_ref());
        let Some(timeout) = limits.and_then(|it| it.pending_timeout.as_ref()) else {
            continue;
        };
        let end = created.0.checked_add(timeout.get());
        if end.is_ok_and(|end| now < end) {
            continue;
        }
        let open = policies.iter_mut();
        for late in open.filter(|it| it.name == policy.name && it.is_awaited()) {
            late.is_late = true;
            late.verdict = Some(AccessCheckReady::AccessCheckRejected);
            late.rules.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    #[test]
    fn no_policy_decides_on_a_request_that_is_over_or_being_deleted() {
        for (phase, expected) in [
            (json!(null), [true, true]),
            (json!("Pending"), [true, true]),
            (json!("Granted"), [false, true]),
            (json!("Rejected"), [false, false]),
            (json!("Revoked"), [false, false]),
            (json!("Invalid"), [false, false]),
            (json!("Ended"), [false, false]),
        ] {
            let mut request = testing::request("a", "ci");
            request["status"] = json!({"phase": phase});
            let open = |request: &serde_json::Value| {
                let request = serde_json::from_value(request.clone()).unwrap();
                [false, true].map(|is_granted_too| is_open(&request, is_granted_too))
            };
            assert_eq!(open(&request), expected, "{phase}");
            request["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            assert_eq!(open(&request), [false, false], "{phase}");
        }
    }
}
