//! I2: a grant without a reason is gone.

use jiff::{SignedDuration, Timestamp};

use super::{Case, Judgement, between};
use crate::checker::{
    facts::{Mark, Request, text},
    grant::{Grant, Kind},
    report::{Revocation, Rule},
    wire,
};

/// The end of a grant's reason.
struct End<'a> {
    at: Timestamp,
    why: String,
    mark: Option<&'a Mark>,
}

pub(super) fn judge(case: &Case<'_>, judgement: &mut Judgement) {
    for grant in case.grants().filter(|grant| grant.certain) {
        let Some(request) = case.request(grant) else {
            continue;
        };
        let ends = ends(case, grant, request);
        let Some(end) = ends.into_iter().min_by_key(|end| end.at) else {
            continue;
        };
        // The later one of the grant and the end of its reason.
        let from = end.at.max(grant.mark.done);
        let until = grant.gone.as_ref().map_or(case.end, |mark| mark.done);
        if grant.gone.is_some() && until <= from {
            continue;
        }
        judgement.ended += 1;
        let took = working_time(case, from, until);
        if took > case.settings.revoked_within {
            let state = if grant.gone.is_some() {
                "was gone only"
            } else {
                "is still there"
            };
            let what = format!("{state} {took:#} after {}", end.why);
            let shown_by: Vec<&Mark> = end.mark.into_iter().chain(&grant.gone).collect();
            judgement.against(Rule::Revoked, grant, what, &shown_by);
        } else if grant.gone.is_none() {
            judgement.open += 1;
        }
        if grant.gone.is_some() && grant.kind == Kind::RoleBinding {
            judgement.revocations.push(Revocation {
                about: grant.to_string(),
                why: end.why,
                took,
            });
        }
    }
}

fn ends<'a>(case: &Case<'a>, grant: &Grant, request: &'a Request) -> Vec<End<'a>> {
    let tuple = &request.tuple;
    let of = |why: &str, mark: &'a Mark| End {
        at: mark.done,
        why: why.to_owned(),
        mark: Some(mark),
    };
    let policy = case.facts.policies.get(grant.policy_uid());
    let final_write = request
        .statuses
        .iter()
        .find(|write| wire::is_final(write.phase()));
    let policy_ended = request.statuses.iter().find(|write| {
        let entry = write.policy(grant.policy_uid());
        entry.is_some_and(|entry| text(entry, "/grant/state") == wire::ENDED)
    });
    let pod = case
        .facts
        .pod_ended(&tuple.pod_namespace, &tuple.pod, &request.seen);
    let by_call = [
        request
            .deleted
            .as_ref()
            .map(|mark| of("its request was deleted", mark)),
        policy
            .and_then(|policy| policy.deleted.as_ref())
            .map(|mark| of("its policy was deleted", mark)),
        final_write.map(|write| of("its request became final", &write.mark)),
        policy_ended.map(|write| of("its policy ended for the request", &write.mark)),
        pod.map(|mark| of("its pod was removed", mark)),
    ];
    let declared = case.declared.ended.iter().filter(|ended| {
        let uid = ["", tuple.pod_uid.as_str()].contains(&ended.uid.as_str());
        let named = policy.map(|policy| &policy.name);
        uid && ended.namespace == tuple.pod_namespace
            && ended.pod == tuple.pod
            && ended.policy.as_ref().is_none_or(|name| Some(name) == named)
            && ended.at > request.seen.done
    });
    let declared = declared.map(|ended| {
        let what = if ended.policy.is_some() {
            "its approval"
        } else {
            "its pod"
        };
        End {
            at: ended.at,
            why: format!("{what} ended"),
            mark: None,
        }
    });
    by_call.into_iter().flatten().chain(declared).collect()
}

/// The time between two moments, without the outages in it.
fn working_time(case: &Case<'_>, from: Timestamp, to: Timestamp) -> SignedDuration {
    let mut outages = case.declared.outages.clone();
    outages.sort_unstable();
    let mut lost = SignedDuration::ZERO;
    let mut counted = from;
    for (begin, end) in outages {
        let (begin, end) = (begin.max(counted), end.min(to));
        if end > begin {
            lost += between(begin, end);
            counted = end;
        }
    }
    between(from, to) - lost
}
