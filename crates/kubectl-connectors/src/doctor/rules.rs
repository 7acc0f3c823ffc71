//! The admission policies of the chart: those that are always there, and those that protect pipelines.

use authz::{Attributes, ResourceRequest, Target, User};
use connectors_api::{approval_kind, names};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use service_kit::admission::refuses;

use super::commands::upgrade;
use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord};

/// The admission policies that every installation has.
pub const RULES: [&str; 15] = [
    "accesspolicy-status.connectors.alauda.io",
    "accessrequest-connector-namespace.connectors.alauda.io",
    "accessrequest-metadata.connectors.alauda.io",
    "accessrequest-owners.connectors.alauda.io",
    "accessrequest-status.connectors.alauda.io",
    "deletions.connectors.alauda.io",
    "granted-rolebindings.connectors.alauda.io",
    "granted-roles.connectors.alauda.io",
    "grants-by-others.connectors.alauda.io",
    "grants.connectors.alauda.io",
    "node-events.connectors.alauda.io",
    "standing-permissions.connectors.alauda.io",
    "standing-rolebindings.connectors.alauda.io",
    "standing-roles.connectors.alauda.io",
    "writes-by-controllers.connectors.alauda.io",
];

/// The admission policies that a value of the chart adds.
pub const OPTIONAL_RULES: [&str; 5] = [
    names::ANSWER_RULE,
    names::CREATOR_RULE,
    POD_GATES,
    TEKTON[0],
    TEKTON[1],
];

/// The admission policy that leaves of the right to patch pods the removal of the scheduling gate.
const POD_GATES: &str = "pod-gates.connectors.alauda.io";
/// The service account that may hold this right.
const REQUEST_CONTROLLER: &str = "request-controller";

/// The admission policies for cases that the proof of a pipeline run cannot see.
const TEKTON: [&str; 2] = [
    "tekton-children.connectors.alauda.io",
    "tekton-links.connectors.alauda.io",
];

/// True when the roles of the cluster let the request-controller patch pods.
fn may_patch_pods(read: &DoctorRead) -> bool {
    let Some(index) = &read.rbac else {
        return false;
    };
    let user = User::service_account(&read.system_namespace, REQUEST_CONTROLLER);
    let mut grants = index.allowing(&Attributes {
        user: &user,
        verb: "patch",
        target: Target::Resource(ResourceRequest {
            resource: "pods",
            ..ResourceRequest::default()
        }),
    });
    grants.next().is_some()
}

pub(super) fn examine(read: &DoctorRead) -> Vec<DoctorFinding> {
    let (Some(rules), Some(bindings)) = (&read.rules, &read.rule_bindings) else {
        return Vec::new();
    };
    let rule = |name: &str| {
        let is_it = |it: &&ValidatingAdmissionPolicy| it.metadata.name.as_deref() == Some(name);
        rules.iter().find(is_it)
    };
    let is_in_force = |name: &str| {
        let mut bindings = bindings.iter();
        let binding = bindings.find(|it| it.metadata.name.as_deref() == Some(name));
        let both = rule(name).zip(binding);
        both.is_some_and(|(rule, binding)| refuses(rule, binding, name))
    };
    let upgrade = upgrade(read);
    let not_in_force = |severity, name: &str, message: &str| {
        let object = format!("ValidatingAdmissionPolicy {name}");
        let fix = "install the chart's admission policy and its binding again";
        DoctorFinding::new(severity, DoctorWord::RuleNotInForce, object, message, fix)
            .with_command(upgrade.clone())
    };
    let mut findings = Vec::new();
    for name in RULES.into_iter().filter(|it| !is_in_force(it)) {
        let message = match rule(name) {
            None => "it is missing: what it refuses is accepted",
            Some(_) => "it refuses nothing: its binding is missing, or one of them was changed",
        };
        findings.push(not_in_force(DoctorSeverity::Error, name, message));
    }
    let optional = OPTIONAL_RULES.into_iter();
    let is_needed = |name: &str| name == POD_GATES && may_patch_pods(read);
    if rule(POD_GATES).is_none() && is_needed(POD_GATES) {
        let message = "it is missing, and the request-controller may patch pods: it could change more than their gate";
        findings.push(not_in_force(DoctorSeverity::Error, POD_GATES, message));
    }
    for name in optional.filter(|it| rule(it).is_some() && !is_in_force(it)) {
        let severity = if is_needed(name) {
            DoctorSeverity::Error
        } else {
            DoctorSeverity::Warning
        };
        let message = "it is installed and refuses nothing: its binding only warns, is missing, or was changed";
        findings.push(not_in_force(severity, name, message));
    }
    let policies = read.policies.iter().flatten().flatten();
    let checks = policies
        .filter_map(|it| it.spec.check_granted_permission.as_ref())
        .flat_map(|it| &it.spec.checks);
    let mut kinds = checks.map(|it| &it.selector.object_ref);
    let are_missing = TEKTON.iter().all(|it| rule(it).is_none());
    if are_missing && kinds.any(|it| approval_kind::of(it).records_approvers) {
        let finding = DoctorFinding::new(
            DoctorSeverity::Hint,
            DoctorWord::PipelinesUnguarded,
            format!("ValidatingAdmissionPolicy {}", TEKTON[0]),
            "checks rest on ApprovalTasks, and accounts that may write runs, their pods or approvals can do what no proof sees",
            "turn the rules on; first with tekton.admission.actions={Warn,Audit}, because a wrong account name stops all pipelines",
        );
        findings
            .push(finding.with_command(format!("{upgrade} --set tekton.admission.enabled=true")));
    }
    findings
}
