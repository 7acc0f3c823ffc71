//! The refusal of a check whose kind cannot be an approval. `connectors_api::approval_kind` decides which kinds can.
//!
//! The controller reads some kinds for its own work. A policy of one namespace must not be able to use that to learn
//! about such objects of another namespace, so these kinds are never read for a check.

use connectors_api::{access_policy::ObjectKind, approval_kind::may_approve};

/// Whether objects of a kind may be checks, and the reason if not. The right to read them is checked elsewhere.
pub fn may_be_check(kind: &ObjectKind) -> Result<(), String> {
    if may_approve(kind) {
        return Ok(());
    }
    let ObjectKind { api_version, kind } = kind;
    Err(format!(
        "objects of kind {kind} of {api_version} are never checks"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_controller_reads_for_itself_is_never_a_check() {
        let table = [
            ("v1", "ConfigMap", true),
            ("v1", "Secret", false),
            ("v1", "Pod", false),
            ("v1", "ServiceAccount", false),
            ("v1", "Namespace", false),
            ("v1", "Event", false),
            ("", "ConfigMap", false),
            ("", "Secret", false),
            ("/v1", "Secret", false),
            ("a/b/c", "ConfigMap", false),
            ("rbac.authorization.k8s.io/v1", "Role", false),
            ("rbac.authorization.k8s.io/v1", "RoleBinding", false),
            ("connectors.alauda.io/v1alpha1", "AccessRequest", false),
            ("connectors.alauda.io/v1", "Anything", false),
            ("authentication.k8s.io/v1", "TokenReview", false),
            ("authorization.k8s.io/v1", "LocalSubjectAccessReview", false),
            ("admissionregistration.k8s.io/v1", "Anything", false),
            ("apiregistration.k8s.io/v1", "APIService", false),
            ("openshift-pipelines.org/v1alpha1", "ApprovalTask", true),
            ("tekton.dev/v1", "PipelineRun", true),
            ("batch/v1", "Job", true),
        ];
        for (api_version, kind, may) in table {
            let kind = ObjectKind {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
            };
            assert_eq!(may_be_check(&kind).is_ok(), may, "{kind:?}");
        }
    }
}
