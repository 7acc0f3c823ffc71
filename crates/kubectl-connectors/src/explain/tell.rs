//! Converts what was read into an explanation. Pure: the time is an argument.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::access_request::{MatchedPolicy, Phase, PolicyGrant};
use connectors_api::config::{DefaultRequesters, Knowledge};
use connectors_api::policy_match::{Asker, WantedConnector};
use connectors_api::policy_words::{CountedPolicy, PolicySight, PolicyWord, PolicyWordTold};
use connectors_api::reason::{AccessCheckReady, Ready};
use connectors_api::{
    AccessPolicyCondition, AccessPolicySpec, AccessRequest, ConditionStatus, NamespaceKeys,
};
use jiff::Timestamp;

use super::checks;
use super::ends;
use super::next;
use super::report::{
    AccessShown, AccessWord, Explanation, GatingWord, GrantShown, PodShown, PodWord, PolicyShown,
    RequestShown, RuleShown, VerdictSource,
};
use super::seen::{AccessRead, Labels, Observed, PodRead, PolicyRead, text};
use crate::request_word::ready;
use crate::terms::{NamespacedName, seconds};
use crate::unread::Presence;

/// The explanation, at this time.
#[must_use]
pub(super) fn explain(observed: &Observed, now: Timestamp) -> Explanation {
    let accesses = observed.accesses.iter();
    Explanation {
        pod: observed.pod.as_ref().map(pod),
        account: observed.account.clone(),
        gating: gating(observed),
        accesses: accesses.map(|it| access(observed, it, now)).collect(),
        problems: observed.problems.clone(),
    }
}

/// The policies whose checks are worth reading, as positions of access and policy. They apply, and neither they nor
/// the request have decided.
#[must_use]
pub(super) fn to_judge(observed: &Observed) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (place, access) in observed.accesses.iter().enumerate() {
        let is_open = access.request.there().is_none_or(|it| is_open(it));
        let stands = access.standing.as_ref().is_some_and(|(yes, _)| *yes);
        if !is_open || stands {
            continue;
        }
        let words = words(observed, access);
        let policies = access.policies.iter().flatten().enumerate();
        for ((at, policy), (_, checked)) in policies.zip(words) {
            let grant = matched(access, &policy.uid).and_then(|it| it.grant.as_ref());
            if checked.word == PolicyWord::Yes && grant.is_none() {
                found.push((place, at));
            }
        }
    }
    found
}

fn is_open(request: &AccessRequest) -> bool {
    match phase(request) {
        None | Some(Phase::Pending) => true,
        Some(Phase::Granted | Phase::Rejected | Phase::Revoked | Phase::Invalid | Phase::Ended) => {
            false
        }
    }
}

fn phase(request: &AccessRequest) -> Option<Phase> {
    request.status.as_ref().and_then(|it| it.phase)
}

/// The request's record of a policy.
fn matched<'a>(access: &'a AccessRead, uid: &str) -> Option<&'a MatchedPolicy> {
    let request = access.request.there()?;
    let policies = request.status.iter().flat_map(|it| &it.policies);
    policies.into_iter().find(|it| it.uid() == uid)
}

fn gating(observed: &Observed) -> GatingWord {
    let config = observed.settings.as_ref().and_then(Knowledge::config);
    match config {
        Some(config) if config.enabled => GatingWord::On,
        Some(_) => GatingWord::Off,
        None => GatingWord::Unknown,
    }
}

fn pod(pod: &PodRead) -> PodShown {
    PodShown {
        namespace: pod.name.namespace.clone(),
        name: pod.name.name.clone(),
        uid: pod.uid.clone(),
        state: pod.word(),
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
    let policies = policies(observed, access);
    let request = access.request.there().map(Box::as_ref);
    let (state, because) = state(observed, access, &policies);
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
    shown.next = next::of(observed, access, &shown);
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
        phase: phase(request),
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
        shown.extend(gone.map(of_matched));
    } else {
        // Without the right to list policies, the status of the request names those that matched.
        let request = access.request.there().map(Box::as_ref);
        let status = request.and_then(|it| it.status.as_ref());
        let matched = status.into_iter().flat_map(|it| &it.policies);
        shown.extend(matched.map(|it| PolicyShown {
            applies: PolicyWord::Yes,
            because: "the request says so; the policy itself could not be read".to_owned(),
            ..of_matched(it)
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
    let grant = matched.and_then(|it| it.grant.as_ref());
    let mut shown = PolicyShown {
        name: policy.name.clone(),
        applies: checked.word,
        because: checked.message,
        standing: standing.word,
        standing_because: standing.message,
        problem: checks_invalid(policy),
        grant: grant.map(grant_shown),
        verdict: None,
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
fn of_matched(matched: &MatchedPolicy) -> PolicyShown {
    let gone = PolicyWordTold::gone();
    PolicyShown {
        name: matched.name().to_owned(),
        applies: gone.word,
        because: gone.message.clone(),
        standing: gone.word,
        standing_because: gone.message,
        problem: None,
        grant: matched.grant.as_ref().map(grant_shown),
        verdict: None,
        source: Some(VerdictSource::Status),
        checks: checks::recorded(matched),
        rules: matched
            .grant
            .as_ref()
            .map(granted_rules)
            .unwrap_or_default(),
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

/// Whether there is access, and why. The first that applies decides.
fn state(
    observed: &Observed,
    access: &AccessRead,
    policies: &[PolicyShown],
) -> (AccessWord, String) {
    let request = access.request.there().map(Box::as_ref);
    let connector = &access.connector;
    if let Some((true, reason)) = &access.standing {
        let account = &observed.account;
        let why = if reason.is_empty() { "" } else { ": " };
        let because = format!("ServiceAccount {account} holds a standing permission{why}{reason}");
        return (AccessWord::Standing, because);
    }
    if let Some(request) = request
        && let Some(phase) = phase(request)
    {
        let message = ready(request).map_or("", |(_, message)| message).to_owned();
        match phase {
            Phase::Granted => return (AccessWord::Granted, message),
            Phase::Rejected | Phase::Revoked | Phase::Invalid => {
                return (AccessWord::Refused, message);
            }
            Phase::Ended => return (AccessWord::Ended, message),
            Phase::Pending => {}
        }
    }
    if request.is_none()
        && let Some(over) = observed.pod.as_ref().and_then(over)
    {
        return over;
    }
    if gating(observed) == GatingWord::Off {
        let because = "approvals are switched off: mounts do not wait, and nothing new is granted";
        return (AccessWord::NotGated, because.to_owned());
    }
    if access.labels == Presence::Absent {
        let because = format!("there is no connector {connector}");
        return (without_request(observed, false), because);
    }
    if access.policies.is_none() && request.is_none() {
        let because = "neither the policies nor the request could be read".to_owned();
        return (AccessWord::Unknown, because);
    }
    let applying: Vec<_> = policies
        .iter()
        .filter(|it| it.applies == PolicyWord::Yes && it.grant.is_none())
        .collect();
    let because = because(access, request, &applying, policies);
    (without_request(observed, !applying.is_empty()), because)
}

/// The state of a pod without a request that does not wait any more.
fn over(pod: &PodRead) -> Option<(AccessWord, String)> {
    let name = &pod.name;
    let (state, because) = match pod.word() {
        PodWord::Finished => (AccessWord::Ended, format!("pod {name} ran to its end")),
        PodWord::Gone => (AccessWord::Ended, format!("pod {name} is gone")),
        PodWord::Terminating => (AccessWord::Ended, format!("pod {name} is being deleted")),
        PodWord::Running => {
            let because = format!(
                "pod {name} runs and has no access now: it mounted the connector while approvals were switched off, or by \
                 a permission that is gone"
            );
            (AccessWord::Kept, because)
        }
        PodWord::Pending | PodWord::Unknown => return None,
    };
    Some((state, because))
}

/// A pod waits. Without a pod it is only known whether one could ask.
fn without_request(observed: &Observed, could: bool) -> AccessWord {
    match (&observed.pod, could) {
        (Some(_), _) => AccessWord::Waits,
        (None, true) => AccessWord::CouldAsk,
        (None, false) => AccessWord::CannotAsk,
    }
}

/// The aim of a wait. A sentence of a judgement made now precedes that of the request, which may be older. It does
/// not precede it where the request waits for something else than its checks.
fn because(
    access: &AccessRead,
    request: Option<&AccessRequest>,
    applying: &[&PolicyShown],
    policies: &[PolicyShown],
) -> String {
    let ready = request.and_then(ready);
    let is_about_checks = matches!(
        ready,
        None | Some((
            None | Some(
                Ready::ChecksPending
                    | Ready::ChecksFailed
                    | Ready::NoAccessPolicy
                    | Ready::ConnectorNotFound
            ),
            _
        ))
    );
    if let Some((_, message)) = ready
        && !is_about_checks
    {
        return message.to_owned();
    }
    if applying.is_empty() && access.policies.is_some() {
        let near = policies.iter().filter(|it| it.is_near()).count();
        let connector = &access.connector;
        return match near {
            0 => format!(
                "no policy of namespace {} is about {connector}",
                connector.namespace
            ),
            near => format!(
                "no policy of namespace {} applies; {near} of them nearly do",
                connector.namespace
            ),
        };
    }
    let mut said = BTreeMap::new();
    for policy in applying {
        let open = policy
            .checks
            .iter()
            .find(|it| it.verdict != Some(AccessCheckReady::AccessCheckPassed));
        if let Some(check) = open
            && policy.source == Some(VerdictSource::Live)
        {
            let message = format!("check {}: {}", check.name, check.message);
            said.insert(policy.name.as_str(), message);
        }
    }
    match (said.len(), ready) {
        (0, Some((_, message))) => message.to_owned(),
        (0, None)
            if applying
                .iter()
                .any(|it| it.source == Some(VerdictSource::Live)) =>
        {
            "every check of a policy passes; the request-controller has not granted access yet"
                .to_owned()
        }
        (0, None) => "its checks could not be looked at".to_owned(),
        (1, _) => {
            let told = said.iter().map(|(name, it)| format!("policy {name}: {it}"));
            told.collect()
        }
        (_, _) => {
            let told = said.iter().map(|(name, it)| format!("policy {name}: {it}"));
            let told: Vec<_> = told.collect();
            format!("one of these suffices: {}", told.join("; or "))
        }
    }
}
