//! The ends of a wait or an access. Only possible ends are named.

use connectors_api::access_policy::{Check, Latch};
use connectors_api::access_request::MatchedPolicy;
use connectors_api::approval_kind::records_approvers;
use connectors_api::judge::{ProofNeeded, proof_needed};
use connectors_api::pod_grant::RequestFacts as _;
use jiff::Timestamp;

use super::report::{AccessShown, AccessWord, EndCause, EndShown, PolicyShown};
use super::seen::{AccessRead, PolicyRead};

/// The ends of the state of an access.
pub(super) fn of(access: &AccessRead, shown: &AccessShown) -> Vec<EndShown> {
    match shown.state {
        AccessWord::Waits => of_request(access).unwrap_or_else(|| of_wait(access, shown)),
        AccessWord::Granted => of_grant(access, shown),
        AccessWord::Standing
        | AccessWord::NotInForce
        | AccessWord::NotGated
        | AccessWord::Kept
        | AccessWord::Refused
        | AccessWord::Ended
        | AccessWord::CouldAsk
        | AccessWord::CannotAsk
        | AccessWord::Unknown => Vec::new(),
    }
}

fn end(cause: EndCause, at: Option<Timestamp>, message: impl Into<String>) -> EndShown {
    EndShown {
        cause,
        at,
        message: message.into(),
    }
}

/// The ends of the wait of a request by which nothing is granted any more; none of any other.
fn of_request(access: &AccessRead) -> Option<Vec<EndShown>> {
    let request = access.request.there()?;
    let message = if request.is_deleting() {
        "the request is gone: a pod that waits for its mount asks anew"
    } else if access.is_replaced {
        "the request is deleted: the pod then asks for the connector that there is now"
    } else {
        return None;
    };
    Some(vec![
        end(EndCause::Deleted, None, message),
        end(EndCause::PodEnds, None, "the pod is deleted"),
    ])
}

fn of_wait(access: &AccessRead, shown: &AccessShown) -> Vec<EndShown> {
    let is = |policy: &PolicyRead, is: fn(&PolicyShown) -> bool| {
        let mut all = shown.policies.iter();
        all.any(|it| it.name == policy.name && is(it))
    };
    let read = || access.policies.iter().flatten();
    let open: Vec<_> = read()
        .filter(|it| is(it, PolicyShown::is_awaited))
        .collect();
    let mut late = read().filter(|it| is(it, |it| it.is_late)).peekable();
    let mut ends = Vec::new();
    match open.as_slice() {
        [] if late.peek().is_some() => {}
        [] => {
            let message = "a policy that selects the connector and accepts the service account; one that is created later \
                           counts";
            ends.push(end(EndCause::ChecksPass, None, message));
        }
        [policy] => {
            let mut all = shown.policies.iter();
            let corrected = all.any(|it| it.name == policy.name && it.grants_nothing());
            let message = if corrected {
                format!("policy {} is corrected: access is granted", policy.name)
            } else {
                format!(
                    "every check of policy {} passes: access is granted",
                    policy.name
                )
            };
            ends.push(end(EndCause::ChecksPass, None, message));
            let message = "a check object says no: the request is rejected, for this pod for good";
            ends.push(end(EndCause::Rejection, None, message));
        }
        [_, ..] => {
            let names: Vec<_> = open.iter().map(|it| it.name.as_str()).collect();
            let message = format!(
                "every check of one of the policies {} passes: access is granted",
                names.join(", ")
            );
            ends.push(end(EndCause::ChecksPass, None, message));
            let message = "a check object of each policy says no: the request is rejected, for this pod for good";
            ends.push(end(EndCause::Rejection, None, message));
        }
    }
    let created = shown.request.as_ref().and_then(|it| it.created);
    for policy in late {
        let message = format!(
            "policy {} refuses for good: its pendingTimeout is over",
            policy.name
        );
        ends.push(end(EndCause::PendingTimeout, None, message));
    }
    for policy in open {
        let limits = policy.granted_part().and_then(|it| it.spec.limits.as_ref());
        let timeout = limits.and_then(|it| it.pending_timeout.as_ref());
        if let Some(timeout) = timeout {
            let at = created.and_then(|it| it.checked_add(timeout.get()).ok());
            let message = format!(
                "policy {} waits no longer than its pendingTimeout, and then refuses for good",
                policy.name
            );
            ends.push(end(EndCause::PendingTimeout, at, message));
        }
    }
    ends.push(end(EndCause::PodEnds, None, "the pod is deleted"));
    ends
}

fn of_grant(access: &AccessRead, shown: &AccessShown) -> Vec<EndShown> {
    let mut ends = Vec::new();
    let request = access.request.there();
    let status = request.and_then(|it| it.status.as_ref());
    let matched = status.into_iter().flat_map(|it| &it.policies);
    let is_in_force = |it: &&MatchedPolicy| {
        let mut shown = shown.policies.iter().filter(|it| it.is_granted());
        shown.any(|shown| shown.name == it.name())
    };
    let granting: Vec<_> = matched.filter(is_in_force).collect();
    for policy in &granting {
        of_policy(policy, &mut ends);
    }
    let names: Vec<_> = granting.iter().map(|it| it.name()).collect();
    let message = format!(
        "policy {}, connector {} or the request is deleted",
        names.join(", "),
        shown.connector.name
    );
    ends.push(end(EndCause::Deleted, None, message));
    ends.push(end(EndCause::PodEnds, None, "the pod ends or is deleted"));
    ends
}

/// The ends of the grant of one policy for one pod.
pub(super) fn of_one_grant(policy: &MatchedPolicy, connector: &str) -> Vec<EndShown> {
    let mut ends = Vec::new();
    of_policy(policy, &mut ends);
    let message = format!(
        "policy {}, connector {connector} or the request is deleted",
        policy.name()
    );
    ends.push(end(EndCause::Deleted, None, message));
    ends.push(end(EndCause::PodEnds, None, "the pod ends or is deleted"));
    ends
}

/// The ends of the grant of one policy.
fn of_policy(policy: &MatchedPolicy, ends: &mut Vec<EndShown>) {
    let name = policy.name();
    let grant = policy.grant.as_ref();
    if let Some(at) = grant.and_then(|it| it.expires_at) {
        let message = format!("the maxDuration of policy {name}");
        ends.push(end(EndCause::MaxDuration, Some(at), message));
    }
    let checks = policy.frozen().map(|it| it.spec.checks).unwrap_or_default();
    of_checks(&checks, ends);
}

/// The ends of a grant that a policy would make at this time.
pub(super) fn of_future_grant(policy: &PolicyRead, now: Timestamp) -> Vec<EndShown> {
    let mut ends = Vec::new();
    let Some(granted) = policy.granted_part() else {
        return ends;
    };
    let limits = granted.spec.limits.as_ref();
    if let Some(limit) = limits.and_then(|it| it.max_duration.as_ref()) {
        let at = now.checked_add(limit.get()).ok();
        let message = format!("the maxDuration of policy {}", policy.name);
        ends.push(end(EndCause::MaxDuration, at, message));
    }
    of_checks(&granted.spec.checks, &mut ends);
    ends.push(end(EndCause::PodEnds, None, "the pod ends or is deleted"));
    ends
}

fn of_checks(checks: &[Check], ends: &mut Vec<EndShown>) {
    for check in checks {
        let kind = &check.selector.object_ref.kind;
        let of = format!("{kind} of check {}", check.name);
        let is_followed = check.latch != Latch::Once;
        // An ApprovalTask accepts no more answers once it is approved.
        if is_followed && !records_approvers(&check.selector.object_ref) {
            let message = format!("the {of} leaves its passing state");
            ends.push(end(EndCause::ApprovalWithdrawn, None, message));
        }
        if check.latch == Latch::WhileHolds {
            let message = format!("the {of} is deleted");
            ends.push(end(EndCause::ApprovalDeleted, None, message));
        }
        if is_followed && matches!(proof_needed(check), ProofNeeded::By(_)) {
            let message = format!("the pipeline run of check {} is cancelled", check.name);
            ends.push(end(EndCause::RunCancelled, None, message));
        }
    }
}
