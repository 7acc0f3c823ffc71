//! The next commands, the users that can type them, and their effects. A command that changes nothing is never named.

use connectors_api::access_policy::ObjectKind;
use connectors_api::config::{CONFIG_MAP, ENABLE};
use connectors_api::judge::JudgeReason;
use connectors_api::lineage::LineageReason;
use connectors_api::policy_reason::ChecksValid;
use connectors_api::policy_words::PolicyWord;
use connectors_api::reason::{AccessCheckReady, Ready};
use connectors_api::wanted_objects::{CheckTrouble, SelectsNothing};

use super::checks::UNREAD;
use super::report::{
    AccessShown, AccessWord, ApproverWord, CandidateShown, CheckShown, NextShown, PodWord,
    PolicyShown,
};
use super::seen::{AccessRead, CheckRead, Observed};
use crate::terms::shell;
use crate::unread::Presence;

/// The user who may change the objects of a policy's namespace.
fn administrator(namespace: &str) -> String {
    format!("an administrator of namespace {namespace}")
}

/// The users who own the installation.
const INSTALLER: &str = "an administrator of the installation";

fn command(who: impl Into<String>, command: String, effect: impl Into<String>) -> NextShown {
    NextShown {
        command: Some(command),
        who: who.into(),
        effect: effect.into(),
    }
}

fn none(effect: impl Into<String>) -> NextShown {
    NextShown {
        command: None,
        who: String::new(),
        effect: effect.into(),
    }
}

/// The next commands.
pub(super) fn of(observed: &Observed, access: &AccessRead, shown: &AccessShown) -> Vec<NextShown> {
    let pod = observed.pod.as_ref();
    let is_alive = pod.is_none_or(|it| {
        matches!(
            it.word(),
            PodWord::Pending | PodWord::Running | PodWord::Unknown
        )
    });
    match shown.state {
        AccessWord::Standing | AccessWord::Granted => granted(observed),
        AccessWord::NotGated => vec![switch_on(observed)],
        AccessWord::Kept => vec![none(
            "the volume stays as it is until the pod ends; a service in front of the tool refuses the pod. Start a new pod to \
             ask for access",
        )],
        AccessWord::Refused => refused(access, shown, is_alive),
        AccessWord::Ended => vec![none("nothing: the request is over. A new pod asks anew")],
        AccessWord::Waits | AccessWord::CouldAsk | AccessWord::CannotAsk => {
            waits(observed, access, shown)
        }
        AccessWord::Unknown => vec![none(
            "ask for the rights that are missing, or let an administrator run this command",
        )],
    }
}

fn granted(observed: &Observed) -> Vec<NextShown> {
    let Some(pod) = &observed.pod else {
        return Vec::new();
    };
    if pod.word() != PodWord::Pending {
        return Vec::new();
    }
    let name = &pod.name;
    vec![command(
        "",
        format!("kubectl -n {} describe pod {}", name.namespace, name.name),
        "the pod has access; if it does not start within a minute or two, its events say why",
    )]
}

fn switch_on(observed: &Observed) -> NextShown {
    let patch = format!("{{\"data\":{{\"{ENABLE}\":\"true\"}}}}");
    command(
        INSTALLER,
        format!(
            "kubectl -n {} patch configmap {CONFIG_MAP} --type=merge -p {}",
            observed.system_namespace,
            shell(&patch)
        ),
        "switches approvals on; set approval.enabled=true in the chart as well, or the next upgrade switches them off",
    )
}

fn refused(access: &AccessRead, shown: &AccessShown, is_alive: bool) -> Vec<NextShown> {
    let namespace = &access.connector.namespace;
    let reason = shown.request.as_ref().and_then(|it| it.reason);
    if !is_alive {
        return vec![none(
            "nothing for this pod: it is over. A new pod asks anew",
        )];
    }
    if reason == Some(Ready::DuplicateRequest) {
        return vec![command(
            "",
            format!("kubectl -n {namespace} get areq"),
            "shows the request that decides for this pod; this one changes nothing",
        )];
    }
    if closes_a_run(shown) {
        return vec![none(
            "nothing for this run: its approval takes no more answers. Start a new run",
        )];
    }
    let name = shown.request.as_ref().map_or("", |it| it.name.as_str());
    let effect = match reason {
        Some(Ready::CheckRejected | Ready::CheckLapsed) => {
            "lets the pod ask anew; change the check object first, or the answer is the same"
        }
        Some(Ready::PolicyDeleted) => {
            "lets the pod ask anew, under the policies that there are now"
        }
        Some(Ready::ConnectorDeleted) => {
            "lets the pod ask anew, for the connector that has the name now"
        }
        _ => "lets the pod ask anew",
    };
    vec![command(
        administrator(namespace),
        format!("kubectl -n {namespace} delete areq {name}"),
        effect,
    )]
}

/// True when an `ApprovalTask` is rejected, which is final for its run.
fn closes_a_run(shown: &AccessShown) -> bool {
    let checks = shown.policies.iter().flat_map(|it| &it.checks);
    let mut candidates = checks.flat_map(|it| &it.candidates);
    candidates.any(|it| {
        let final_words = [LineageReason::Rejected, LineageReason::TimedOut];
        it.kind == "ApprovalTask" && final_words.iter().any(|word| word.as_str() == it.reason)
    })
}

fn waits(observed: &Observed, access: &AccessRead, shown: &AccessShown) -> Vec<NextShown> {
    let namespace = &access.connector.namespace;
    match shown.request.as_ref().and_then(|it| it.reason) {
        Some(Ready::ApprovalsDisabled) => return vec![switch_on(observed)],
        Some(Ready::PodTerminating) => {
            return vec![none(
                "nothing for this pod: it is being deleted. A new pod asks anew",
            )];
        }
        Some(Ready::TooManyRequests) => {
            return vec![command(
                "",
                "kubectl connectors top -A".to_owned(),
                "shows which requests wait; this one is looked at when others are decided or deleted",
            )];
        }
        Some(Ready::EvaluatorUnavailable) => {
            let system = &observed.system_namespace;
            return vec![command(
                INSTALLER,
                format!(
                    "kubectl -n {system} get pods -l app.kubernetes.io/component=evaluation-service"
                ),
                "the evaluation service does not answer; nothing is granted until it does",
            )];
        }
        Some(Ready::GrantNotWritten) => {
            let system = &observed.system_namespace;
            return vec![command(
                INSTALLER,
                format!("kubectl -n {system} logs deployment/request-controller --tail=20"),
                "the checks pass, and the grant could not be written; it is tried again",
            )];
        }
        Some(_) | None => {}
    }
    if access.labels == Presence::Absent {
        return vec![command(
            "",
            format!("kubectl -n {namespace} get connectors"),
            "lists the connectors that there are; correct the name in the pod's volume, or have the connector created",
        )];
    }
    let mut found = Vec::new();
    for policy in &shown.policies {
        if policy.applies == PolicyWord::Yes && policy.grant.is_none() {
            of_policy(observed, access, policy, &mut found);
        }
    }
    if found.is_empty() {
        found.push(without_policy(observed, access, shown));
    }
    found.dedup();
    found
}

fn without_policy(observed: &Observed, access: &AccessRead, shown: &AccessShown) -> NextShown {
    let namespace = &access.connector.namespace;
    let applies = |it: &&PolicyShown| it.applies == PolicyWord::Yes && it.grant.is_none();
    if shown.policies.iter().any(|it| applies(&it)) {
        return none("nothing: every check passes, and access is granted within moments");
    }
    let near = shown.policies.iter().find(|it| it.is_near());
    if let Some(near) = near {
        let account = &observed.account;
        let effect = match near.applies {
            PolicyWord::OtherSubject => format!(
                "add {{kind: ServiceAccount, namespace: {}, name: {}}} to its requesters",
                account.namespace, account.name
            ),
            PolicyWord::Yes
            | PolicyWord::Absent
            | PolicyWord::OtherPermission
            | PolicyWord::OtherName
            | PolicyWord::OtherLabels
            | PolicyWord::TooMany
            | PolicyWord::Unreadable
            | PolicyWord::Gone => near.because.clone(),
        };
        return command(
            administrator(namespace),
            format!("kubectl -n {namespace} edit accesspolicy {}", near.name),
            effect,
        );
    }
    command(
        administrator(namespace),
        format!("kubectl -n {namespace} get accesspolicies"),
        format!(
            "shows the policies of the namespace; none is about connector {} and ServiceAccount {}",
            access.connector.name, observed.account
        ),
    )
}

/// The commands that would let the open checks of a policy pass.
fn of_policy(
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
    let known = observed.kinds.get(&kind);
    let subresource = if known.is_some_and(|it| it.has_status) {
        " --subresource=status"
    } else {
        ""
    };
    command(
        who,
        format!(
            "kubectl -n {} patch {resource} {}{subresource} --type=merge -p {}",
            name.namespace,
            shell(&name.name),
            shell(r#"{"status":{"state":"approved"}}"#)
        ),
        format!("approves {} {name}", kind.kind),
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
        return command(
            who,
            format!(
                "tkn-approvaltask approve {} -n {}",
                shell(&name.name),
                name.namespace
            ),
            format!("approves ApprovalTask {name}"),
        );
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
