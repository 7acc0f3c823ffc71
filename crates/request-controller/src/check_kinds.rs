//! Which kinds, and which objects, are never checks, whatever a policy names.
//!
//! The controller reads some kinds for its own work. A policy of one namespace must not turn that into a
//! look at what another one keeps there, so what is read for that purpose is never read for a check.

use connectors_api::{access_policy::ObjectKind, check_kind::may_approve};
use serde_json::{Value, json};

/// Nobody approves in more words.
const LARGEST: usize = 256 * 1024;

/// Whether objects of a kind may be checks at all; otherwise why not. Whether they may be read is another
/// question.
pub fn may_be_check(kind: &ObjectKind) -> Result<(), String> {
    if may_approve(kind) {
        return Ok(());
    }
    let ObjectKind { api_version, kind } = kind;
    Err(format!(
        "objects of kind {kind} of {api_version} are never checks"
    ))
}

/// Whether an object is too large to be a check.
#[must_use]
pub fn is_too_large(object: &Value) -> bool {
    let mut left = Left(LARGEST);
    serde_json::to_writer(&mut left, object).is_err()
}

/// What selects an object by its labels, and nothing else of it.
#[must_use]
pub fn only_labels(object: &Value) -> Option<Value> {
    let metadata = object.get("metadata")?;
    let field = |name: &str| metadata.get(name).cloned();
    Some(json!({"metadata": {
        "name": field("name"),
        "labels": field("labels"),
        "deletionTimestamp": field("deletionTimestamp"),
    }}))
}

/// Counts what is written, and stops there.
struct Left(usize);

impl std::io::Write for Left {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let left = self.0.checked_sub(bytes.len());
        self.0 = left.ok_or(std::io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
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

    #[test]
    fn an_object_is_too_large_from_one_byte_above_the_limit() {
        let of = |length: usize| Value::String("x".repeat(length - 2));
        assert!(!is_too_large(&of(LARGEST)));
        assert!(is_too_large(&of(LARGEST + 1)));
    }
}
