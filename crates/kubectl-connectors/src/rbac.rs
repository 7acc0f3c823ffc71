//! The RBAC of a namespace, and the subjects that it allows something.

use authz::{RbacIndex, ResourceRequest, Subject, SystemMasters, Target};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use service_kit::watches::Plain;

use crate::reads::ClusterReads;
use crate::unread::MissedRead;

/// The limit of subjects that an answer names.
const MOST: usize = 64;

/// The RBAC of the cluster and of one namespace.
#[derive(Debug, Default)]
pub struct RbacRead {
    /// The roles and bindings that could be read.
    pub index: RbacIndex,
    /// Whether these are all roles and bindings.
    pub is_whole: bool,
}

/// Reads the RBAC in four calls. Failed reads are added to `unread`.
pub async fn read(reads: &ClusterReads, namespace: &str, unread: &mut Vec<MissedRead>) -> RbacRead {
    let (roles, bindings, cluster_roles, cluster_bindings) = tokio::join!(
        reads.all::<Role, Plain>(namespace, ""),
        reads.all::<RoleBinding, Plain>(namespace, ""),
        reads.all_of_cluster::<ClusterRole>(),
        reads.all_of_cluster::<ClusterRoleBinding>(),
    );
    let mut rbac = RbacRead {
        index: RbacIndex::default(),
        is_whole: true,
    };
    macro_rules! add {
        ($($read:expr),+) => {$(
            match $read {
                // An object that cannot be read grants nothing, also for the API server.
                Ok(found) => for object in found.iter().flatten() {
                    rbac.is_whole &= rbac.index.apply(object).is_ok();
                },
                Err(problem) => {
                    rbac.is_whole = false;
                    unread.push(problem);
                }
            }
        )+};
    }
    add!(roles, bindings, cluster_roles, cluster_bindings);
    rbac
}

/// The users, groups and accounts that may write an object, or its status, without those of the cluster itself.
#[must_use]
pub fn writers(index: &RbacIndex, object: ResourceRequest<'_>) -> Vec<String> {
    let may = |verb| {
        let who = index.who_can(verb, Target::Resource(object), MOST, |_| true);
        who.subjects.into_iter()
    };
    let mut found: Vec<Subject> = ["update", "patch"]
        .into_iter()
        .flat_map(may)
        .filter(|it| !is_of_the_cluster(it))
        .collect();
    found.sort();
    found.dedup();
    found.truncate(MOST);
    found.iter().map(subject).collect()
}

/// The control plane, its controllers, and the group that may do everything.
pub(crate) fn is_of_the_cluster(subject: &Subject) -> bool {
    match subject {
        Subject::User(name) => name.starts_with("system:"),
        Subject::Group(name) => {
            **name == *SystemMasters::GROUP || name.starts_with("system:") && !is_everybody(name)
        }
        Subject::ServiceAccount { namespace, .. } => **namespace == *"kube-system",
    }
}

/// Groups that the cluster makes, and that contain tenants.
pub(crate) fn is_everybody(group: &str) -> bool {
    group == "system:authenticated"
        || group == "system:unauthenticated"
        || group.starts_with("system:serviceaccounts")
}

/// A subject as people write it.
#[must_use]
pub fn subject(subject: &Subject) -> String {
    match subject {
        Subject::User(name) => format!("user {name}"),
        Subject::Group(name) => format!("group {name}"),
        Subject::ServiceAccount { namespace, name } => {
            format!("ServiceAccount {namespace}/{name}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bind(index: &mut RbacIndex, name: &str, resource: &str, subjects: &Value) {
        let role: Role = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "apps"},
            "rules": [{"apiGroups": ["itsm.example.com"], "resources": [resource], "verbs": ["patch"]}],
        }))
        .unwrap();
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "apps"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": subjects,
        }))
        .unwrap();
        index.apply(&role).unwrap();
        index.apply(&binding).unwrap();
    }

    #[test]
    fn writers_are_those_of_the_subresource_without_the_cluster_itself() {
        let mut index = RbacIndex::default();
        let people = json!([
            {"kind": "Group", "name": "qa"}, {"kind": "User", "name": "alice"},
            {"kind": "ServiceAccount", "namespace": "itsm", "name": "bridge"},
            {"kind": "Group", "name": "system:authenticated"},
            {"kind": "Group", "name": "system:masters"}, {"kind": "User", "name": "system:kube-scheduler"},
            {"kind": "ServiceAccount", "namespace": "kube-system", "name": "generic-garbage-collector"},
        ]);
        bind(&mut index, "status", "changerequests/status", &people);
        bind(
            &mut index,
            "spec",
            "changerequests",
            &json!([{"kind": "User", "name": "bob"}]),
        );
        let object = ResourceRequest {
            group: "itsm.example.com",
            resource: "changerequests",
            subresource: "status",
            namespace: "apps",
            name: "chg-42",
            ..ResourceRequest::default()
        };
        assert_eq!(
            writers(&index, object),
            [
                "user alice",
                "group qa",
                "group system:authenticated",
                "ServiceAccount itsm/bridge"
            ]
        );
        let spec = ResourceRequest {
            subresource: "",
            ..object
        };
        assert_eq!(writers(&index, spec), ["user bob"]);
    }
}
