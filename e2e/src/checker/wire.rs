//! The words on the wire. Written down here once more on purpose: an observer that took them from the services
//! would agree with their mistakes; a test compares them.

pub(super) const REQUEST_CONTROLLER: &str =
    "system:serviceaccount:connectors-system:request-controller";
/// The writer of standing permissions, which belong to no request.
pub(super) const POLICY_CONTROLLER: &str =
    "system:serviceaccount:connectors-system:policy-controller";
pub(super) const POD_GARBAGE_COLLECTOR: &str =
    "system:serviceaccount:kube-system:pod-garbage-collector";
pub(super) const NODES: &str = "system:node:";

pub(super) const GROUP: &str = "connectors.alauda.io";
pub(super) const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub(super) const MANAGED_BY_US: &str = "connectors-approval";
pub(super) const REQUEST_UID: &str = "connectors.alauda.io/accessRequestUid";
pub(super) const POLICY_UID: &str = "connectors.alauda.io/accessPolicyUid";

pub(super) const PASSING: [&str; 2] = ["approved", "passed"];
pub(super) const PERMISSIONS: [&str; 2] = ["apis", "proxy"];
/// The permission of a request that names none.
pub(super) const DEFAULT_PERMISSION: &str = "apis";

/// Phases that end a request, and every other of its tuple while it exists.
pub(super) const DECIDED: [&str; 3] = ["Rejected", "Revoked", "Ended"];
/// The phase that ends a request alone.
pub(super) const INVALID: &str = "Invalid";
/// The recorded state of a policy that gives a request nothing any more.
pub(super) const ENDED: &str = "Ended";

pub(super) fn is_final(phase: &str) -> bool {
    DECIDED.contains(&phase) || phase == INVALID
}

/// Whether a resource can be the plural of a kind, as English and Kubernetes form them.
pub(super) fn is_plural(resource: &str, kind: &str) -> bool {
    let kind = kind.to_lowercase();
    let ies = kind.strip_suffix('y').map(|stem| format!("{stem}ies"));
    resource == kind
        || resource == format!("{kind}s")
        || resource == format!("{kind}es")
        || ies.is_some_and(|ies| resource == ies)
}

#[cfg(test)]
mod tests {
    use connectors_api::{
        Permission,
        access_request::{GrantState, Phase},
        labels, names,
    };

    use super::*;

    #[test]
    fn the_words_are_those_of_the_product() {
        assert_eq!(GROUP, names::GROUP);
        assert_eq!(
            (MANAGED_BY, MANAGED_BY_US),
            (labels::MANAGED_BY, names::MANAGED_BY)
        );
        assert_eq!(
            (REQUEST_UID, POLICY_UID),
            (labels::ACCESS_REQUEST_UID, labels::ACCESS_POLICY_UID)
        );
        let permissions: Vec<&str> = Permission::ALL.iter().map(|p| p.as_str()).collect();
        assert_eq!(permissions, PERMISSIONS);
        assert_eq!(Permission::default().as_str(), DEFAULT_PERMISSION);
        let open = [Phase::Pending, Phase::Granted];
        for phase in Phase::ALL {
            assert_eq!(is_final(phase.as_str()), !open.contains(phase), "{phase}");
        }
        assert_eq!(GrantState::Ended.as_str(), ENDED);
    }

    #[test]
    fn plurals_are_recognised() {
        for (resource, kind) in [
            ("approvaltasks", "ApprovalTask"),
            ("policies", "Policy"),
            ("classes", "Class"),
            ("endpoints", "Endpoints"),
        ] {
            assert!(is_plural(resource, kind), "{resource}");
        }
        for (resource, kind) in [
            ("pods", "Node"),
            ("", "Pod"),
            ("approvaltask", "ApprovalTasks"),
        ] {
            assert!(!is_plural(resource, kind), "{resource}");
        }
    }
}
