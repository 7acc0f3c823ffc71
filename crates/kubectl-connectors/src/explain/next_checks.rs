//! The next commands for the open checks of a policy.

use connectors_api::access_policy::ObjectKind;
use connectors_api::judge::JudgeReason;
use connectors_api::lineage::LineageReason;
use connectors_api::policy_reason::ChecksValid;
use connectors_api::reason::AccessCheckReady;
use connectors_api::wanted_objects::{CheckTrouble, SelectsNothing};

use super::checks::{NOT_RUN, UNREAD};
use super::next_run;
use super::report::{CandidateShown, CheckShown, LinkWord, NextShown, PolicyShown};
use super::seen::{AccessRead, CheckRead, Observed};
use super::steps::{INSTALLER, administrator, approve, command, none};
use crate::terms::shell;

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
    if is_trouble(CheckTrouble::KindForbidden) {
        return vec![none(format!("ask {INSTALLER}: {}", check.message))];
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
    if is_trouble(CheckTrouble::ObjectUnreadable) {
        let effect = |_: &CheckRead| {
            format!(
                "{}: nothing passes while it is there. Delete it, or write it anew",
                check.message
            )
        };
        return vec![look(observed, check, read, effect)];
    }
    if check.candidates.is_empty() {
        return vec![look(observed, check, read, nothing_found)];
    }
    let open = check
        .candidates
        .iter()
        .filter(|it| it.verdict != Some(AccessCheckReady::AccessCheckPassed));
    open.map(|it| {
        if it.reason == LineageReason::Unreadable.as_str() {
            // The API server gives every object an identity: the policy selects another version.
            return edit(format!("correct its check {}: {}", check.name, it.message));
        }
        of_candidate(observed, check, it, read)
    })
    .collect()
}

/// A look at the objects of a check.
fn look(
    observed: &Observed,
    check: &CheckShown,
    read: Option<&CheckRead>,
    effect: impl FnOnce(&CheckRead) -> String,
) -> NextShown {
    let Some(read) = read else {
        return none(check.message.clone());
    };
    let labels = read.wanted.selection.as_ref();
    let labels = labels.map_or_else(|_| String::new(), |it| it.labels.to_string());
    let namespace = observed.pod.as_ref().map_or("", |it| &it.name.namespace);
    let resource = resource(observed, &read.wanted.kind);
    command(
        "",
        format!(
            "kubectl -n {namespace} get {resource} -l {}",
            shell(&labels)
        ),
        effect(read),
    )
}

/// The wait of a check that found nothing yet.
fn nothing_found(read: &CheckRead) -> String {
    let kind = &read.wanted.kind.kind;
    match &read.going {
        Some(name) => format!(
            "shows {kind} {name}, which is being deleted; a new one is looked at when it is created"
        ),
        None if kind == "ApprovalTask" => {
            "shows whether the run has come to its approval: Tekton creates it when the run gets there"
                .to_owned()
        }
        None => {
            format!("stays empty until a {kind} with these labels is created; then it is looked at")
        }
    }
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
    let has_module = read.is_some_and(|it| it.has_module);
    if kind == "ApprovalTask" && !(has_module && is_proven(candidate)) {
        return next_run::of_approval_task(candidate);
    }
    let Some(kind) = read.map(|it| it.wanted.kind.clone()) else {
        return none(candidate.message.clone());
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

/// Everything between the pod and an approval is proven, and the approvers said yes.
fn is_proven(candidate: &CandidateShown) -> bool {
    let mut links = candidate.links.iter();
    !candidate.links.is_empty() && links.all(|it| it.state == LinkWord::Proven)
}
