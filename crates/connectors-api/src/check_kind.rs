//! The kinds that can be approvals. Kinds that a controller reads for its own work are excluded: otherwise a
//! policy of one namespace could use the controller to learn about such objects of another namespace.

use crate::access_policy::ObjectKind;
use crate::names::GROUP;

/// API groups of objects that pods and controllers write during normal operation, or that decide about access
/// themselves. Writing such an object is not an approval.
const NO_APPROVALS: [&str; 6] = [
    GROUP,
    "rbac.authorization.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "admissionregistration.k8s.io",
    "apiregistration.k8s.io",
];
/// The kinds of the core group that may be an approval.
const CORE_APPROVALS: [&str; 1] = ["ConfigMap"];

/// True when objects of a kind can be approvals. A kind with a malformed group cannot.
#[must_use]
pub fn may_approve(kind: &ObjectKind) -> bool {
    let ObjectKind { api_version, kind } = kind;
    let mut parts = api_version.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(version), None, None) => {
            !version.is_empty() && CORE_APPROVALS.contains(&kind.as_str())
        }
        (Some(group), Some(version), None) => {
            // Group names are lower case; another spelling must not bypass the list.
            let group = group.to_ascii_lowercase();
            !group.is_empty() && !version.is_empty() && !NO_APPROVALS.contains(&group.as_str())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kinds_that_can_be_approvals_may_approve() {
        for (api_version, kind, expected) in [
            ("v1", "ConfigMap", true),
            ("v1", "Secret", false),
            ("v1", "Pod", false),
            ("v1", "Event", false),
            ("v1", "Service", false),
            ("v1", "configmap", false),
            ("v1", "", false),
            ("", "ConfigMap", false),
            ("/v1", "ConfigMap", false),
            ("/", "ConfigMap", false),
            ("a/b/v1", "ConfigMap", false),
            ("example.com/", "Approval", false),
            ("example.com/v1", "Approval", true),
            ("example.com/v1", "Secret", true),
            ("openshift-pipelines.org/v1alpha1", "ApprovalTask", true),
            ("tekton.dev/v1", "PipelineRun", true),
            ("apps/v1", "Deployment", true),
            ("batch/v1", "Job", true),
            ("connectors.alauda.io/v1alpha1", "AccessRequest", false),
            ("connectors.alauda.io/v1", "Connector", false),
            ("not.connectors.alauda.io/v1", "Approval", true),
            ("rbac.authorization.k8s.io/v1", "RoleBinding", false),
            ("RBAC.authorization.k8s.io/v1", "Role", false),
            ("authentication.k8s.io/v1", "TokenReview", false),
            ("authorization.k8s.io/v1", "SubjectAccessReview", false),
            (
                "admissionregistration.k8s.io/v1",
                "ValidatingWebhookConfiguration",
                false,
            ),
            ("apiregistration.k8s.io/v1", "APIService", false),
        ] {
            let asked = ObjectKind {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
            };
            assert_eq!(may_approve(&asked), expected, "{api_version} {kind}");
        }
    }
}
