//! The next commands, the users that can type them, and their effects. A command that changes nothing is never named.

use connectors_api::access_request::Phase;
use connectors_api::config::{CONFIG_MAP, ENABLE};
use connectors_api::lineage::LineageReason;
use connectors_api::pod_grant::RequestFacts as _;
use connectors_api::policy_words::PolicyWord;
use connectors_api::reason::{AccessCheckReady, Ready};

use super::force::{GrantForce, GrantLack};
use super::next_checks::of_policy;
use super::report::{
    AccessShown, AccessWord, GatingWord, NextShown, PodWord, PolicyShown, VerdictSource,
};
use super::seen::{AccessRead, Observed};
use super::steps::{INSTALLER, administrator, command, none};
use crate::terms::{NamespacedName, shell};
use crate::unread::Presence;

/// The next commands.
pub(super) fn of(
    observed: &Observed,
    access: &AccessRead,
    shown: &AccessShown,
    force: Option<GrantForce>,
) -> Vec<NextShown> {
    let pod = observed.pod.as_ref();
    let is_alive = pod.is_none_or(|it| {
        matches!(
            it.word(),
            PodWord::Pending | PodWord::Running | PodWord::Unknown
        )
    });
    match shown.state {
        AccessWord::Standing | AccessWord::Granted => granted(observed),
        AccessWord::NotInForce => not_in_force(observed, access, shown, force),
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
        AccessWord::Unknown => {
            let mut found = vec![none(
                "ask for the rights that are missing, or let an administrator run this command",
            )];
            if is_open(observed, access) {
                found.extend(waits(observed, access, shown));
            }
            found
        }
    }
}

/// True when it is known that the request waits, so that its checks are worth a look.
fn is_open(observed: &Observed, access: &AccessRead) -> bool {
    let is_pending = access
        .request
        .there()
        .is_some_and(|it| it.phase().is_none_or(|it| it == Phase::Pending));
    let pod = observed.pod.as_ref();
    is_pending && pod.is_some_and(|it| it.word() == PodWord::Pending)
}

/// A grant that the request records and that is not in force.
fn not_in_force(
    observed: &Observed,
    access: &AccessRead,
    shown: &AccessShown,
    force: Option<GrantForce>,
) -> Vec<NextShown> {
    let namespace = &access.connector.namespace;
    let policy = shown.policies.iter().find(|it| it.is_granted());
    match (force, policy) {
        (Some(GrantForce::Lacks(GrantLack::RequestGoes)), _) => vec![request_goes()],
        (Some(GrantForce::Lacks(GrantLack::OtherDecides)), _) => {
            vec![other_decides(namespace)]
        }
        (Some(GrantForce::Lacks(GrantLack::NoRule)), Some(policy)) => vec![command(
            administrator(namespace),
            format!("kubectl -n {namespace} edit accesspolicy {}", policy.name),
            "let its roleTemplate allow what a mount asks for, verb `*` on the permission; then delete the request, so that \
             the pod asks anew",
        )],
        (
            None
            | Some(
                GrantForce::Holds
                | GrantForce::Unknown
                | GrantForce::Lacks(GrantLack::Over(_) | GrantLack::NoBinding | GrantLack::NoRule),
            ),
            _,
        ) => {
            let effect = "the request-controller takes back what is over and writes what is missing, when it runs";
            vec![log(observed, effect)]
        }
    }
}

/// A request that is being deleted decides nothing.
fn request_goes() -> NextShown {
    none("nothing: once the request is deleted, a pod that waits for its mount asks anew")
}

fn other_decides(namespace: &str) -> NextShown {
    command(
        "",
        format!("kubectl -n {namespace} get areq"),
        "shows the request that decides for this pod; this one changes nothing",
    )
}

fn is_going(access: &AccessRead) -> bool {
    let request = access.request.there();
    request.is_some_and(|it| it.is_deleting())
}

fn granted(observed: &Observed) -> Vec<NextShown> {
    let Some(pod) = &observed.pod else {
        return Vec::new();
    };
    if pod.word() != PodWord::Pending {
        return Vec::new();
    }
    let name = &pod.name;
    if pod.is_gated() {
        return vec![command(
            "",
            format!(
                "kubectl -n {} get events --field-selector reason=AccessGateKept,involvedObject.name={}",
                name.namespace, name.name
            ),
            "the pod has access, and the request-controller removes its scheduling gate within moments; this event says that \
             it cannot, and the log of the request-controller why",
        )];
    }
    vec![command(
        "",
        format!("kubectl -n {} describe pod {}", name.namespace, name.name),
        "the pod has access; if it does not start within a minute or two, its events say why",
    )]
}

/// The log of the request-controller.
fn log(observed: &Observed, effect: &str) -> NextShown {
    let system = &observed.system_namespace;
    command(
        INSTALLER,
        format!("kubectl -n {system} logs deployment/request-controller --tail=20"),
        effect,
    )
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
    if is_going(access) {
        return vec![request_goes()];
    }
    if reason == Some(Ready::DuplicateRequest) {
        return vec![other_decides(namespace)];
    }
    let is_final = matches!(
        shown.request.as_ref().and_then(|it| it.phase),
        Some(Phase::Rejected | Phase::Revoked)
    );
    // The deletion of the request would change nothing for this pod.
    if access.has_error_file && is_final {
        return vec![none(
            "start a new pod: a volume of this one asks for an error file, and a pod that starts with .error.json keeps it",
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
    if is_going(access) {
        return vec![request_goes()];
    }
    let namespace = &access.connector.namespace;
    match shown.request.as_ref().and_then(|it| it.reason) {
        Some(Ready::ApprovalsDisabled) if observed.gating() == GatingWord::On => {
            let effect = "the setting says on, and the request-controller acts on it within moments; its log says why not";
            return vec![log(observed, effect)];
        }
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
            let effect = "the checks pass, and the grant could not be written; it is tried again";
            return vec![log(observed, effect)];
        }
        Some(Ready::ReadTooSlow) => {
            let effect = "a decision is due, and the API server answers its reads too late; the log names them";
            return vec![log(observed, effect)];
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
    let request = access.request.there();
    let request = request.and_then(|it| it.metadata.name.as_ref());
    if let Some(request) = request.filter(|_| access.is_replaced) {
        return vec![command(
            administrator(namespace),
            format!("kubectl -n {namespace} delete accessrequest {request}"),
            "the pod then asks for the connector that there is now",
        )];
    }
    let mut found = Vec::new();
    let mut awaited = shown
        .policies
        .iter()
        .filter(|it| it.is_awaited())
        .peekable();
    if awaited.peek().is_none() && shown.policies.iter().any(|it| it.is_late) {
        let effect = "the request-controller refuses the request when it runs; the pod asks anew once the request is \
                      deleted";
        return vec![log(observed, effect)];
    }
    for policy in awaited {
        of_policy(observed, access, policy, &mut found);
    }
    if found.is_empty() {
        found.push(without_policy(observed, access, shown));
    }
    found.dedup();
    found
}

/// The checks of a policy that were not judged.
fn wanted_of(access: &AccessRead, policy: &PolicyShown) -> String {
    let mut read = access.policies.iter().flatten();
    let read = read.find(|it| it.name == policy.name);
    let spec = read.and_then(|it| it.policy.as_ref().ok());
    let granted = spec.and_then(|it| it.spec.check_granted_permission.as_ref());
    let checks = granted.into_iter().flat_map(|it| &it.spec.checks);
    let checks: Vec<_> = checks
        .map(|it| format!("check {} ({})", it.name, it.selector.object_ref.kind))
        .collect();
    if checks.is_empty() {
        return format!(
            "the checks of policy {}, which could not be read",
            policy.name
        );
    }
    format!("policy {}: {}", policy.name, checks.join(", "))
}

/// A policy that would apply after a change.
fn of_near(namespace: &str, account: &NamespacedName, near: &PolicyShown) -> NextShown {
    let effect = match near.applies {
        PolicyWord::OtherSubject => format!(
            "add {{kind: ServiceAccount, namespace: {}, name: {}}} to its requesters",
            account.namespace, account.name
        ),
        PolicyWord::TooMany => {
            return command(
                administrator(namespace),
                format!(
                    "kubectl -n {namespace} get accesspolicies --sort-by=.metadata.creationTimestamp"
                ),
                near.because.clone(),
            );
        }
        PolicyWord::Unreadable => format!("correct it: {}", near.because),
        PolicyWord::Yes
        | PolicyWord::Absent
        | PolicyWord::OtherPermission
        | PolicyWord::OtherName
        | PolicyWord::OtherLabels
        | PolicyWord::Gone => near.because.clone(),
    };
    command(
        administrator(namespace),
        format!("kubectl -n {namespace} edit accesspolicy {}", near.name),
        effect,
    )
}

fn without_policy(observed: &Observed, access: &AccessRead, shown: &AccessShown) -> NextShown {
    let namespace = &access.connector.namespace;
    let applying = || shown.policies.iter().filter(|it| it.is_awaited());
    let passes = |it: &PolicyShown| {
        it.source == Some(VerdictSource::Live)
            && it.verdict == Some(AccessCheckReady::AccessCheckPassed)
    };
    if applying().any(passes) {
        return none("nothing: every check passes, and access is granted within moments");
    }
    let faulty = applying().find_map(|it| Some((it, it.problem.as_ref()?)));
    if let Some((policy, problem)) = faulty {
        return command(
            administrator(namespace),
            format!("kubectl -n {namespace} edit accesspolicy {}", policy.name),
            problem.clone(),
        );
    }
    let wanted: Vec<_> = applying().map(|it| wanted_of(access, it)).collect();
    if !wanted.is_empty() {
        let who = match observed.pod {
            Some(_) => "the pod needs",
            None => "a pod would need",
        };
        return none(format!("{who}: {}", wanted.join("; or ")));
    }
    let first = |is: &dyn Fn(&PolicyShown) -> bool| shown.policies.iter().find(|it| is(it));
    let near = first(&|it| it.applies == PolicyWord::TooMany)
        .or_else(|| first(&PolicyShown::is_near))
        .or_else(|| first(&|it| it.applies == PolicyWord::Unreadable));
    if let Some(near) = near {
        return of_near(namespace, &observed.account, near);
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
