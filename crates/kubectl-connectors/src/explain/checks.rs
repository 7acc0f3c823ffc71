//! The results of checks: as judged now, or as the status of the request records them.

use std::fmt::Write as _;

use connectors_api::AccessPolicySpec;
use connectors_api::access_policy::{Check, Match, ObjectKind};
use connectors_api::access_request::{CheckRef, MatchedPolicy};
use connectors_api::approval_kind::records_approvers;
use connectors_api::check_verdict::of_checks;
use connectors_api::judge::{
    ApproverAnswer, CheckJudgement, JudgeReason, ObjectJudgement, ResultReason, listed_approvers,
};
use connectors_api::reason::AccessCheckReady;
use connectors_api::wanted_objects::CheckTrouble;

use super::report::{
    ApproverShown, ApproverWord, CandidateShown, CheckShown, LinkShown, LinkWord, RuleShown,
};
use super::seen::{CandidateRead, CheckProblem, CheckRead, LinkRead, Observed, PolicyJudged, text};
use crate::terms::NamespacedName;

/// The reason of a check whose objects the user may not read.
pub(super) const UNREAD: &str = "Unread";
/// The reason of a check whose module could not be run on this machine.
pub(super) const NOT_RUN: &str = "NotRun";

/// The results of the checks of a policy, as they were judged.
pub(super) fn judged(
    observed: &Observed,
    judged: &PolicyJudged,
    spec: Option<&AccessPolicySpec>,
) -> (Option<AccessCheckReady>, Vec<CheckShown>) {
    let namespace = observed.pod.as_ref().map(|it| it.name.namespace.as_str());
    let namespace = namespace.unwrap_or_default();
    let judgement = match &judged.judgement {
        Ok(judgement) => judgement,
        Err(error) => {
            let failed = |read: &CheckRead| CheckShown {
                reason: "NotJudged".to_owned(),
                message: error.to_string(),
                verdict: Some(AccessCheckReady::AccessCheckFailed),
                ..blank(read)
            };
            let checks = judged.checks.iter().map(failed).collect();
            return (Some(AccessCheckReady::AccessCheckFailed), checks);
        }
    };
    let policy_checks = spec.and_then(|it| it.check_granted_permission.as_ref());
    let policy_checks = policy_checks.map_or(&[][..], |it| it.spec.checks.as_slice());
    let mut shown = Vec::new();
    for (read, said) in judged.checks.iter().zip(&judgement.checks) {
        let check = policy_checks.iter().find(|it| it.name == said.check);
        let mut one = one(read, said, check, namespace);
        if let Some(why) = judged.not_run.as_ref().filter(|_| read.has_module) {
            not_run(&mut one, why);
        }
        if judged.lacks_creators && said.reason == JudgeReason::CreatorUnknown.into() {
            one.message.push_str(
                "; or the rule is there: you may not get it (validatingadmissionpolicies), so this is not known",
            );
        }
        shown.push(one);
    }
    (together(&shown), shown)
}

/// Replaces the result of a module that could not be run. It would look like a fault of the policy.
fn not_run(shown: &mut CheckShown, why: &str) {
    let limit = JudgeReason::RegoLimit.as_str();
    for candidate in shown.candidates.iter_mut().filter(|it| it.reason == limit) {
        candidate.verdict = None;
        NOT_RUN.clone_into(&mut candidate.reason);
        why.clone_into(&mut candidate.message);
    }
    if shown.reason == limit {
        shown.verdict = None;
        NOT_RUN.clone_into(&mut shown.reason);
        why.clone_into(&mut shown.message);
    }
}

/// The rules that the pod gets if every check passes, or why it gets none.
pub(super) fn rules(judged: &PolicyJudged) -> Option<Result<Vec<RuleShown>, String>> {
    let judgement = judged.judgement.as_ref().ok()?;
    Some(match judgement.rules.as_ref()? {
        Ok(rules) => Ok(rules
            .iter()
            .map(|it| RuleShown {
                resources: it.resources.iter().map(ToString::to_string).collect(),
                verbs: it.verbs.clone(),
            })
            .collect()),
        Err(no_rules) => Err(format!("{}: {no_rules}", no_rules.reason())),
    })
}

/// The combined result of checks. One no is known whatever the others say. Every other result needs all checks.
fn together(checks: &[CheckShown]) -> Option<AccessCheckReady> {
    let known: Vec<_> = checks.iter().filter_map(|it| it.verdict).collect();
    let is_no = known.contains(&AccessCheckReady::AccessCheckRejected);
    (known.len() == checks.len() || is_no).then(|| of_checks(known))
}

/// Replaces checks whose objects the user may not read by the records in the status of the request.
pub(super) fn fill(shown: &mut [CheckShown], matched: &MatchedPolicy) {
    let recorded = recorded(matched);
    for check in shown.iter_mut().filter(|it| it.reason == UNREAD) {
        let Some(known) = recorded.iter().find(|it| it.name == check.name) else {
            continue;
        };
        check.candidates.clone_from(&known.candidates);
        let first = known.candidates.first();
        let said = first.map_or(&known.message, |it| &it.message);
        if !said.is_empty() {
            check.message = format!("{said} (as the request records; {})", check.message);
        }
    }
}

fn one(
    read: &CheckRead,
    said: &CheckJudgement,
    check: Option<&Check>,
    namespace: &str,
) -> CheckShown {
    let wanted = &read.wanted;
    let (verdict, reason, message) = match &read.found {
        Err(CheckProblem::Trouble(word, message)) => (
            Some(AccessCheckReady::AccessCheckFailed),
            word.as_str().to_owned(),
            message.clone(),
        ),
        Err(CheckProblem::Unread(unread)) => (None, UNREAD.to_owned(), unread.message.clone()),
        Ok(_) => {
            let reason = said.reason.as_str().to_owned();
            match &read.problem {
                // An unread object may say anything, unless one more object changes nothing.
                Some(problem) if !is_certain(wanted.match_, said.verdict) => (
                    Some(AccessCheckReady::AccessCheckFailed),
                    CheckTrouble::ObjectUnreadable.as_str().to_owned(),
                    problem.clone(),
                ),
                _ if said.reason == ResultReason::Judge(JudgeReason::NoObjects) => {
                    let mut message = wanted.none_found(namespace);
                    if let Some(name) = &read.going {
                        let kind = &wanted.kind.kind;
                        let _ = write!(message, "; {kind} {name} is being deleted");
                    }
                    (Some(said.verdict), reason, message)
                }
                _ => (Some(said.verdict), reason, said.message.clone()),
            }
        }
    };
    let candidates = read.found.iter().flatten();
    let candidates = candidates.filter_map(|candidate| {
        let uid = text(&candidate.object, "/metadata/uid")?;
        let judged = said.objects.iter().find(|it| it.object.uid == uid)?;
        Some(self::candidate(candidate, judged, check))
    });
    let mut candidates: Vec<_> = candidates.collect();
    candidates.sort_by(|a, b| a.name.cmp(&b.name));
    let incomplete = ResultReason::Judge(JudgeReason::LineageIncomplete);
    let unread = candidates.iter().find(|it| it.reason == UNREAD);
    let (verdict, reason, message) = match unread {
        Some(unread) if said.reason == incomplete && reason == incomplete.as_str() => {
            (None, UNREAD.to_owned(), unread.message.clone())
        }
        Some(_) | None => (verdict, reason, message),
    };
    CheckShown {
        verdict,
        reason,
        message,
        candidates,
        ..blank(read)
    }
}

/// True when one object more changes nothing.
const fn is_certain(match_: Match, verdict: AccessCheckReady) -> bool {
    match match_ {
        Match::All => matches!(verdict, AccessCheckReady::AccessCheckRejected),
        Match::Any => matches!(verdict, AccessCheckReady::AccessCheckPassed),
    }
}

fn blank(read: &CheckRead) -> CheckShown {
    let wanted = &read.wanted;
    CheckShown {
        name: wanted.check.clone(),
        of: of_kind(&wanted.kind),
        selects: wanted.selection.as_ref().ok().map(ToString::to_string),
        verdict: None,
        reason: String::new(),
        message: String::new(),
        candidates: Vec::new(),
    }
}

fn of_kind(kind: &ObjectKind) -> String {
    format!("{} {}", kind.api_version, kind.kind)
}

fn candidate(
    read: &CandidateRead,
    judged: &ObjectJudgement,
    check: Option<&Check>,
) -> CandidateShown {
    let object = &judged.object;
    let proven: Vec<_> = judged
        .lineage
        .iter()
        .map(|it| (it.kind.as_str(), it.name.as_str()))
        .collect();
    let links = read.links.iter().map(|it| link(it, &proven)).collect();
    let is_recorded = check.is_some_and(|it| records_approvers(&it.selector.object_ref));
    let wanted = check.and_then(|it| it.approvers.as_ref());
    let excluded = judged.run_creator.as_deref();
    let approvers = listed_approvers(&read.object).filter(|_| is_recorded);
    let approvers = approvers.map(|it| ApproverShown {
        counts: wanted.is_none_or(|wanted| it.can_count(wanted, excluded)),
        answer: match it.answer {
            ApproverAnswer::Awaited => ApproverWord::Awaited,
            ApproverAnswer::Approved => ApproverWord::Approved,
            ApproverAnswer::Rejected => ApproverWord::Rejected,
        },
        group: it.is_group,
        name: it.name,
    });
    let (verdict, reason, message) = match unread_link(read, judged) {
        Some(message) => (None, UNREAD, message),
        None => (
            Some(judged.verdict),
            judged.reason.as_str(),
            judged.message.clone(),
        ),
    };
    CandidateShown {
        kind: object.kind.clone(),
        name: NamespacedName::new(&object.namespace, &object.name),
        state: judged.state.clone(),
        verdict,
        reason: reason.to_owned(),
        message,
        approved_by: judged.approved_by.clone(),
        approvers: approvers.collect(),
        writers: read.writers.clone(),
        links,
        run_creator: judged.run_creator.clone(),
    }
}

/// Why a proof is not known that lacks an object. To the judge, an object that could not be read is not there.
fn unread_link(read: &CandidateRead, judged: &ObjectJudgement) -> Option<String> {
    if judged.reason != JudgeReason::LineageIncomplete.into() {
        return None;
    }
    let mut links = read.links.iter();
    let LinkRead { kind, name, .. } = links.find(|it| it.is_there.is_none())?;
    Some(format!(
        "{kind} {name} could not be read, so it is not known whether {} belongs to the pod's run",
        judged.object
    ))
}

fn link(read: &LinkRead, proven: &[(&str, &str)]) -> LinkShown {
    let LinkRead {
        kind,
        name,
        is_there,
    } = read;
    LinkShown {
        state: match is_there {
            None => LinkWord::Unread,
            Some(false) => LinkWord::Missing,
            Some(true) if proven.contains(&(kind, name)) => LinkWord::Proven,
            Some(true) => LinkWord::There,
        },
        kind: kind.clone(),
        name: name.clone(),
    }
}

/// The check results in the status of a request, in the order of their first objects.
pub(super) fn recorded(matched: &MatchedPolicy) -> Vec<CheckShown> {
    let mut shown: Vec<CheckShown> = Vec::new();
    for check_ref in &matched.check_refs {
        let place = shown.iter().position(|it| it.name == check_ref.name);
        let place = place.unwrap_or_else(|| {
            shown.push(CheckShown {
                name: check_ref.name.clone(),
                of: String::new(),
                selects: None,
                verdict: None,
                reason: String::new(),
                message: String::new(),
                candidates: Vec::new(),
            });
            shown.len() - 1
        });
        if let Some(check) = shown.get_mut(place) {
            record(check, check_ref);
        }
    }
    shown
}

fn record(check: &mut CheckShown, check_ref: &CheckRef) {
    let status = check_ref.status.clone().unwrap_or_default();
    let (reason, message) = (
        status.reason.unwrap_or_default(),
        status.message.unwrap_or_default(),
    );
    let Some(object) = &check_ref.ref_ else {
        check.reason = reason;
        check.message = message;
        return;
    };
    if check.of.is_empty() {
        check.of = format!("{} {}", object.api_version, object.kind);
    }
    let namespace = object.namespace.clone().unwrap_or_default();
    let links = check_ref.lineage.iter().map(|it| LinkShown {
        kind: it.kind.clone(),
        name: it.name.clone(),
        state: LinkWord::Proven,
    });
    check.candidates.push(CandidateShown {
        kind: object.kind.clone(),
        name: NamespacedName::new(namespace, &object.name),
        state: status.state.unwrap_or_default(),
        verdict: None,
        reason,
        message,
        approved_by: status.approved_by,
        approvers: Vec::new(),
        writers: None,
        links: links.collect(),
        run_creator: status.run_creator,
    });
}
