//! Whether there is access, and why. Nothing that could not be read makes a yes or a no.

use std::collections::BTreeMap;

use connectors_api::AccessRequest;
use connectors_api::access_request::Phase;
use connectors_api::pod_grant::RequestFacts as _;
use connectors_api::policy_words::PolicyWord;
use connectors_api::reason::{AccessCheckReady, Ready};

use super::checks::NOT_RUN;
use super::force::GrantForce;
use super::report::{AccessWord, GatingWord, PodWord, PolicyShown, VerdictSource};
use super::seen::{AccessRead, Observed, PodRead};
use crate::request_word::ready;
use crate::unread::Presence;

/// Whether there is access, and why. The first that applies decides.
pub(super) fn of(
    observed: &Observed,
    access: &AccessRead,
    policies: &[PolicyShown],
    force: Option<GrantForce>,
) -> (AccessWord, String) {
    if let Some((true, reason)) = &access.standing {
        let account = &observed.account;
        let why = if reason.is_empty() { "" } else { ": " };
        let because = format!("ServiceAccount {account} holds a standing permission{why}{reason}");
        return (AccessWord::Standing, because);
    }
    let request = access.request.there().map(Box::as_ref);
    if let Some(request) = request
        && let Some(phase) = request.phase()
    {
        let message = ready(request).map_or("", |(_, message)| message).to_owned();
        match phase {
            Phase::Granted => return granted(access, message, force),
            Phase::Rejected | Phase::Revoked | Phase::Invalid => {
                return (AccessWord::Refused, message);
            }
            Phase::Ended => return (AccessWord::Ended, message),
            Phase::Pending => {}
        }
    }
    let (state, because) = undecided(observed, access, request, policies);
    match doubt(access).or_else(|| not_run(policies)) {
        // Such a pod may have access by what could not be read.
        Some(doubt) if state == AccessWord::Kept => {
            (AccessWord::Unknown, format!("{doubt}, and the pod runs"))
        }
        Some(doubt) if needs_all(state, observed.pod.as_ref()) => (
            AccessWord::Unknown,
            format!("{doubt}; without it: {because}"),
        ),
        Some(_) | None => (state, because),
    }
}

/// The state of a request that says that access was granted.
fn granted(
    access: &AccessRead,
    message: String,
    force: Option<GrantForce>,
) -> (AccessWord, String) {
    match force {
        Some(GrantForce::Holds) => (AccessWord::Granted, message),
        Some(GrantForce::Lacks(lack)) if access.standing.is_some() => {
            let because = format!(
                "the request says Granted, and the grant is not in force: {}",
                lack.told()
            );
            (AccessWord::NotInForce, because)
        }
        Some(GrantForce::Lacks(lack)) => {
            let because = format!(
                "the grant of the request is not in force: {}; it could not be asked whether the account holds a standing \
                 permission",
                lack.told()
            );
            (AccessWord::Unknown, because)
        }
        Some(GrantForce::Unknown) | None => {
            let because = format!(
                "the request says Granted ({message}); its RoleBindings or the API server's answer about them could not be \
                 read"
            );
            (AccessWord::Unknown, because)
        }
    }
}

/// The unread access without which a no is not known.
fn doubt(access: &AccessRead) -> Option<&'static str> {
    match (&access.request, &access.standing) {
        (Presence::Unread, None) => {
            Some("neither the request nor a standing permission of the account could be read")
        }
        (Presence::Unread, Some(_)) => Some("the request could not be read"),
        (Presence::Absent | Presence::There(_), None) => {
            Some("it could not be asked whether the account holds a standing permission")
        }
        (Presence::Absent | Presence::There(_), Some(_)) => None,
    }
}

/// The check whose module could not be run, and that could pass.
fn not_run(policies: &[PolicyShown]) -> Option<&'static str> {
    let mut checks = policies.iter().flat_map(|it| &it.checks);
    let is_there = checks.any(|it| it.reason == NOT_RUN);
    is_there.then_some("a check of a policy could not be judged")
}

/// True for a state that something unread could turn into access.
fn needs_all(state: AccessWord, pod: Option<&PodRead>) -> bool {
    match state {
        AccessWord::Waits | AccessWord::Kept | AccessWord::CouldAsk | AccessWord::CannotAsk => true,
        // A pod that runs to its end keeps its access until then.
        AccessWord::Ended => pod.is_some_and(|it| it.word() == PodWord::Terminating),
        AccessWord::Standing
        | AccessWord::Granted
        | AccessWord::NotInForce
        | AccessWord::NotGated
        | AccessWord::Refused
        | AccessWord::Unknown => false,
    }
}

/// The state without a decision of a request.
fn undecided(
    observed: &Observed,
    access: &AccessRead,
    request: Option<&AccessRequest>,
    policies: &[PolicyShown],
) -> (AccessWord, String) {
    let connector = &access.connector;
    if request.is_none()
        && let Some(over) = observed.pod.as_ref().and_then(over)
    {
        return over;
    }
    if observed.gating() == GatingWord::Off {
        let because = "approvals are switched off: mounts do not wait, and nothing new is granted";
        return (AccessWord::NotGated, because.to_owned());
    }
    if let Some(request) = request.filter(|it| it.is_deleting()) {
        let name = request.metadata.name.as_deref().unwrap_or_default();
        let because =
            format!("request {name} is being deleted, and nothing is granted by it any more");
        return (without_request(observed, false), because);
    }
    if access.labels == Presence::Absent {
        let because = format!("there is no connector {connector}");
        return (without_request(observed, false), because);
    }
    if access.is_replaced {
        let because = format!(
            "connector {connector} is another one than when the request was made; delete the request to ask for the new one"
        );
        return (without_request(observed, false), because);
    }
    if access.policies.is_none() && request.is_none() {
        let because = "the policies could not be read".to_owned();
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
        return without_policy(access, policies);
    }
    let (awaited, late): (Vec<&PolicyShown>, Vec<_>) =
        applying.iter().copied().partition(|it| it.is_awaited());
    if let Some(told) = self::late(late).filter(|_| awaited.is_empty()) {
        return told;
    }
    let applying = awaited;
    let mut said = BTreeMap::new();
    let judged = applying
        .iter()
        .filter(|it| it.source == Some(VerdictSource::Live));
    for policy in judged {
        let mut checks = policy.checks.iter();
        let open = checks.find(|it| it.verdict != Some(AccessCheckReady::AccessCheckPassed));
        let message = match (open, &policy.problem) {
            (Some(check), _) => format!("check {}: {}", check.name, check.message),
            (None, Some(problem)) if policy.grants_nothing() => problem.clone(),
            (None, _) => continue,
        };
        said.insert(policy.name.as_str(), message);
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
        (0, None) => {
            let names: Vec<_> = applying.iter().map(|it| it.name.as_str()).collect();
            format!(
                "the checks of {} decide, and were not looked at",
                names.join(", ")
            )
        }
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

/// The policy that refuses because its time to wait is over, as a sentence.
pub(super) fn late<'a>(policies: impl IntoIterator<Item = &'a PolicyShown>) -> Option<String> {
    let late = policies.into_iter().find(|it| it.is_late)?;
    Some(format!(
        "policy {} waits no longer than its pendingTimeout, which is over",
        late.name
    ))
}

/// Why no policy applies.
fn without_policy(access: &AccessRead, policies: &[PolicyShown]) -> String {
    let first = |word: PolicyWord| policies.iter().find(|it| it.applies == word);
    // Such a policy would apply; all others say no.
    if let Some(crowded) = first(PolicyWord::TooMany) {
        return format!("policy {}: {}", crowded.name, crowded.because);
    }
    let connector = &access.connector;
    let none = format!("no policy of namespace {}", connector.namespace);
    let near = policies.iter().filter(|it| it.is_near()).count();
    if near > 0 {
        return format!("{none} applies; {near} of them nearly do");
    }
    if let Some(unreadable) = first(PolicyWord::Unreadable) {
        return format!("{none} applies, and {} cannot be read", unreadable.name);
    }
    match first(PolicyWord::Gone) {
        Some(gone) => format!(
            "{none} applies any more: {} is gone, or is being deleted",
            gone.name
        ),
        None => format!("{none} is about {connector}"),
    }
}
