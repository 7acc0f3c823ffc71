//! I5: a no is final.

use jiff::SignedDuration;

use super::{Case, Judgement, between};
use crate::checker::{
    facts::{Mark, Request, StatusWrite, text},
    grant::Grant,
    report::{Rule, Violation},
    wire,
};

/// How long a grant may be there that a second leader wrote beside the end of its request.
const RACE: SignedDuration = SignedDuration::from_secs(1);

pub(super) fn judge(case: &Case<'_>, judgement: &mut Judgement) {
    for grant in case.grants() {
        let Some((why, write)) = no_before(case, grant) else {
            continue;
        };
        if write.process != grant.process && gone_within(grant, RACE) {
            judgement.races += 1;
        } else {
            judgement.against(
                Rule::Final,
                grant,
                format!("written after {why}"),
                &[&write.mark],
            );
        }
    }
    let namespaces = case.settings.namespaces.as_ref();
    for request in case.facts.requests.values() {
        if namespaces.is_none_or(|all| all.contains(&request.tuple.namespace)) {
            judgement.violations.extend(comes_back(request));
        }
    }
}

/// The status write that forbade a grant.
fn no_before<'a>(case: &Case<'a>, grant: &Grant) -> Option<(String, &'a StatusWrite)> {
    let before = |write: &&&'a StatusWrite| follows(grant, write);
    let request = case.request(grant)?;
    let own = |write: &&StatusWrite| wire::is_final(write.phase());
    if let Some(write) = request
        .statuses
        .iter()
        .filter(own)
        .collect::<Vec<_>>()
        .iter()
        .find(before)
    {
        return Some((format!("its request became {}", write.phase()), write));
    }
    let ended = |write: &&StatusWrite| {
        let entry = write.policy(grant.policy_uid());
        entry.is_some_and(|entry| text(entry, "/grant/state") == wire::ENDED)
    };
    if let Some(write) = request
        .statuses
        .iter()
        .filter(ended)
        .collect::<Vec<_>>()
        .iter()
        .find(before)
    {
        return Some(("its policy ended for the request".to_owned(), write));
    }
    let others = case.facts.requests.iter().filter(|(uid, other)| {
        let there = other
            .deleted
            .as_ref()
            .is_none_or(|mark: &Mark| mark.begun > grant.mark.begun);
        *uid != grant.request_uid() && other.tuple == request.tuple && there
    });
    others.map(|(_, other)| other).find_map(|other| {
        let decided = |write: &&StatusWrite| wire::DECIDED.contains(&write.phase());
        let writes: Vec<&StatusWrite> = other.statuses.iter().filter(decided).collect();
        let write = *writes.iter().find(before)?;
        Some((
            format!(
                "request {} of the same pod became {}",
                other.name,
                write.phase()
            ),
            write,
        ))
    })
}

/// Whether a grant came after a write. One process makes one call after the other. With two processes the
/// order is known only once the other call was answered.
fn follows(grant: &Grant, write: &StatusWrite) -> bool {
    let known = if write.process == grant.process {
        write.mark.begun
    } else {
        write.mark.done
    };
    known < grant.mark.begun
}

fn gone_within(grant: &Grant, time: SignedDuration) -> bool {
    grant
        .gone
        .as_ref()
        .is_some_and(|gone| between(grant.mark.done, gone.done) <= time)
}

fn comes_back(request: &Request) -> Option<Violation> {
    let mut writes = request
        .statuses
        .iter()
        .skip_while(|write| !wire::is_final(write.phase()));
    let end = writes.next()?;
    let back = writes.find(|write| !wire::is_final(write.phase()))?;
    Some(Violation {
        rule: Rule::Final,
        about: format!("AccessRequest {}/{}", request.tuple.namespace, request.name),
        what: format!("became `{}` after {}", back.phase(), end.phase()),
        shown_by: vec![end.mark.audit.clone(), back.mark.audit.clone()],
    })
}
