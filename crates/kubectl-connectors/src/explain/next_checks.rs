//! The next commands for the open checks of a policy.

use connectors_api::access_policy::ObjectKind;
use connectors_api::judge::JudgeReason;
use connectors_api::lineage::LineageReason;
use connectors_api::policy_reason::ChecksValid;
use connectors_api::reason::AccessCheckReady;
use connectors_api::wanted_objects::{CheckTrouble, SelectsNothing};

use super::checks::{NOT_RUN, UNREAD};
use super::report::{ApproverWord, CandidateShown, CheckShown, NextShown, PolicyShown};
use super::seen::{AccessRead, CheckRead, Observed};
use super::steps::{INSTALLER, administrator, command, none};
use crate::terms::{NamespacedName, shell};

/// The commands that would let the open checks of a policy pass.
pub(super) fn of_policy(
    observed: &Observed,
    access: &AccessRead,
    policy: &PolicyShown,
    found: &mut Vec<NextShown>,
) {
    let unreadable = ChecksValid::KindNotReadable.as_str();
    if let Some(problem) = policy
        .problem
        .as_ref()
        .filter(|it| it.starts_with(unreadable))
    {
        found.push(none(format!("ask {INSTALLER}: {problem}")));
        return;
    }
    let mut read = access.policies.iter().flatten();
    let read = read.find(|it| it.name == policy.name);
    let judged = read.and_then(|it| it.judged.as_ref());
    for check in &policy.checks {
        if check.verdict == Some(AccessCheckReady::AccessCheckPassed) {
            continue;
        }
        let mut reads = judged.iter().flat_map(|it| &it.checks);
        let read = reads.find(|it| it.wanted.check == check.name);
        found.extend(of_check(observed, access, policy, check, read));
    }
}

fn of_check(
    observed: &Observed,
    access: &AccessRead,
    policy: &PolicyShown,
    check: &CheckShown,
    read: Option<&CheckRead>,
) -> Vec<NextShown> {
    let namespace = &access.connector.namespace;
    let edit = |effect: String| {
        command(
            administrator(namespace),
            format!("kubectl -n {namespace} edit accesspolicy {}", policy.name),
            effect,
        )
    };
    let reason = check.reason.as_str();
    if reason == NOT_RUN {
        return vec![none(format!(
            "run this command on Linux, where the plugin can run Rego: {}",
            check.message
        ))];
    }
    if reason == UNREAD {
        return vec![none(check.message.clone())];
    }
    if let Some(read) = read
        && let Err(nothing) = &read.wanted.selection
    {
        return vec![match nothing {
            SelectsNothing::NoLabel { pod, label, kind } => command(
                "the owner of the pod",
                format!(
                    "kubectl -n {} label pod {pod} {}",
                    observed.pod.as_ref().map_or("", |it| &it.name.namespace),
                    shell(&format!("{label}=VALUE"))
                ),
                format!("with the value that the {kind} has; it takes effect at once"),
            ),
            SelectsNothing::Invalid(why) => {
                edit(format!("correct its check {}: {why}", check.name))
            }
        }];
    }
    let is = |word: JudgeReason| reason == word.as_str();
    let is_trouble = |word: CheckTrouble| reason == word.as_str();
    if is_trouble(CheckTrouble::KindMissing) {
        return vec![none(format!(
            "install the software that defines {}, or correct objectRef of check {} in policy {}",
            check.of, check.name, policy.name
        ))];
    }
    let is_of_policy = is_trouble(CheckTrouble::KindNotNamespaced)
        || is(JudgeReason::KindRefused)
        || is(JudgeReason::ProofUnavailable)
        || is(JudgeReason::ApproversUnsupported)
        || is(JudgeReason::RegoFailed)
        || is(JudgeReason::RegoLimit)
        || is(JudgeReason::SelectorInvalid)
        || is(JudgeReason::TemplateFailed);
    if is_of_policy {
        return vec![edit(format!(
            "correct its check {}: {}",
            check.name, check.message
        ))];
    }
    if check.candidates.is_empty() {
        return vec![nothing_found(observed, check, read)];
    }
    let open = check
        .candidates
        .iter()
        .filter(|it| it.verdict != Some(AccessCheckReady::AccessCheckPassed));
    open.map(|it| of_candidate(observed, check, it, read))
        .collect()
}

/// A check that found nothing yet.
fn nothing_found(observed: &Observed, check: &CheckShown, read: Option<&CheckRead>) -> NextShown {
    let Some(kind) = read.map(|it| &it.wanted.kind) else {
        return none(check.message.clone());
    };
    let labels = read.and_then(|it| it.wanted.selection.as_ref().ok());
    let labels = labels.map(|it| it.labels.to_string()).unwrap_or_default();
    let namespace = observed.pod.as_ref().map_or("", |it| &it.name.namespace);
    let effect = if kind.kind == "ApprovalTask" {
        "shows whether the run has come to its approval: Tekton creates it when the run gets there"
            .to_owned()
    } else {
        format!(
            "stays empty until a {} with these labels is created; then it is looked at",
            kind.kind
        )
    };
    command(
        "",
        format!(
            "kubectl -n {namespace} get {} -l {}",
            resource(observed, kind),
            shell(&labels)
        ),
        effect,
    )
}

fn resource(observed: &Observed, kind: &ObjectKind) -> String {
    let known = observed.kinds.get(kind).map(|it| it.resource.clone());
    known.unwrap_or_else(|| kind.kind.to_ascii_lowercase())
}

/// An object that does not pass.
fn of_candidate(
    observed: &Observed,
    check: &CheckShown,
    candidate: &CandidateShown,
    read: Option<&CheckRead>,
) -> NextShown {
    let CandidateShown { kind, name, .. } = candidate;
    let is = |word: JudgeReason| candidate.reason == word.as_str();
    if kind == "ApprovalTask" {
        return of_approval_task(candidate);
    }
    let (kind, has_module) = match read {
        Some(read) => (read.wanted.kind.clone(), read.has_module),
        None => return none(candidate.message.clone()),
    };
    let resource = resource(observed, &kind);
    let who = match &candidate.writers {
        Some(writers) if writers.is_empty() => "the software that writes its state".to_owned(),
        Some(writers) => writers.join(", "),
        None => format!(
            "a user who may write {resource} in namespace {}",
            name.namespace
        ),
    };
    if is(JudgeReason::Rejected) {
        return none(format!(
            "{} {name} says no, which refuses the request for good",
            kind.kind
        ));
    }
    if has_module {
        return command(
            who,
            format!(
                "kubectl -n {} edit {resource} {}",
                name.namespace,
                shell(&name.name)
            ),
            format!(
                "the Rego module of check {} decides by its fields: {}",
                check.name, candidate.message
            ),
        );
    }
    approve(who, &resource, &kind.kind, name)
}

/// The command that answers, with a look at what the answer opens.
fn approve(who: String, resource: &str, kind: &str, name: &NamespacedName) -> NextShown {
    command(
        who,
        format!(
            "kubectl connectors approve {resource}/{} -n {}",
            shell(&name.name),
            name.namespace
        ),
        format!("approves {kind} {name}"),
    )
}

/// An `ApprovalTask` that does not pass.
fn of_approval_task(candidate: &CandidateShown) -> NextShown {
    let CandidateShown { name, reason, .. } = candidate;
    let is = |word: JudgeReason| reason == word.as_str();
    if is(JudgeReason::Pending) {
        let awaited: Vec<_> = candidate
            .approvers
            .iter()
            .filter(|it| it.answer == ApproverWord::Awaited && it.counts)
            .map(|it| {
                if it.group {
                    format!("a member of group {}", it.name)
                } else {
                    it.name.clone()
                }
            })
            .collect();
        if awaited.is_empty() && !candidate.approvers.is_empty() {
            return none(
                "no approver who still may answer counts for the policy: cancel the run, and start one that asks the policy's \
                 approvers",
            );
        }
        let who = if awaited.is_empty() {
            "its approvers".to_owned()
        } else {
            awaited.join(", ")
        };
        return approve(who, "approvaltask", "ApprovalTask", name);
    }
    if is(JudgeReason::LineageIncomplete) {
        return none(format!(
            "nothing: Tekton's controllers write what is missing. {}",
            candidate.message
        ));
    }
    if is(JudgeReason::CreatorUnknown) || is(JudgeReason::QuorumNotMet) {
        return none(format!("start a new run: {}", candidate.message));
    }
    let is_lineage = LineageReason::ALL.iter().any(|it| it.as_str() == reason);
    if is_lineage {
        return none(format!(
            "nothing: this approval does not belong to the pod's run, or its run is over. {}",
            candidate.message
        ));
    }
    none(candidate.message.clone())
}
